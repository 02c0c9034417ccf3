//! Batches of many games' states, and of many callers' questions, answered by one callback each.
//!
//! [`batch_queue::BatchQueue`] knows whose each row is, [`batch::Batch`] holds the bytes. A [`context::Context`] fills
//! queues from games of its own, a [`request_batcher::RequestBatcher`] one from whoever asks.

pub mod batch;
pub mod batch_queue;
mod column;
pub mod context;
mod copy_plan;
mod delivery;
pub mod description;
pub mod failure_policy;
mod game_state;
mod gather;
mod history_buffer;
pub mod options;
pub mod plan;
mod query;
pub mod request_batcher;
mod run_state;
mod runtime;
mod scheduler;
mod shard;
mod starvation;
pub mod step_buffer;
mod work_batch;
