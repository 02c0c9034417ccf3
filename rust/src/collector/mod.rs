//! Batches of many games' states, and of many callers' requests, each answered by one callback.
//!
//! | question | file |
//! |---|---|
//! | what is collected, and how | [`description`], [`options`] |
//! | what a record of a state holds | `record_columns` |
//! | which bytes go where | `copy_plan`, of all collectors [`context_plan`] |
//! | **who schedules** games | `scheduler`, with `work_queue` |
//! | what happens when nothing else does | `starvation` |
//! | **who assigns** rows and batches | [`batch_queue`] |
//! | **who delivers** batches | `delivery` |
//! | **who keeps histories** | `shard`, in rings of records: `history_buffer` |
//! | how a history becomes a row | `gather` |
//! | where one game stands | `game_state` |
//! | who owns the bytes of a batch | [`batch`] |
//! | what a thread does | `work_batch`, with `runtime`; locks are taken by `sync` |
//! | whether it runs, and what a failed game does to that | `run_state`, [`failure_policy`] |
//! | how games are stepped outside of this crate | [`step_buffer`], called by `env_workers` |
//! | which of those games ask for replies during a step | `query` |
//! | all of it together | [`context`] |
//! | the same without games, for callers | [`request_batcher`] |
//!
//! **Locks** are taken in this order:
//!
//! 1. `Context::threads`, by start alone;
//! 2. `Runtime::scheduler`: never held while a game steps, a row is copied or a shard is locked;
//! 3. `StepBuffer::in_flight`, of one env worker;
//! 4. `Runtime::shards`, one at a time: held while its games step and their rows are copied.
//!
//! A `RequestBatcher` has one lock of its own, which is not held while rows are copied. Rows of a batch need no lock:
//! the assignment of a row gives its bytes to one writer until the row is committed, and the delivery of a batch to one
//! reader until it is given back.

pub mod batch;
pub mod batch_queue;
pub mod context;
pub mod context_plan;
mod copy_plan;
mod delivery;
pub mod description;
mod env_workers;
pub mod failure_policy;
mod game_state;
mod gather;
mod history_buffer;
pub mod options;
mod query;
pub mod record_columns;
pub mod request_batcher;
mod run_state;
mod runtime;
mod scheduler;
mod shard;
mod starvation;
pub mod step_buffer;
mod sync;
mod work_batch;
mod work_queue;
