//! Batches of many games' states, and of many callers' questions, answered by one callback each.
//!
//! [`group::Group`] knows whose each row is, [`batch::Batch`] holds the bytes. A [`context::Context`] fills
//! groups from games of its own, an [`exchange::Exchange`] one from whoever asks.

mod answering;
pub mod batch;
mod board;
mod chunk;
mod column;
pub mod context;
pub mod crash;
pub mod description;
pub mod desk;
pub mod exchange;
mod failure;
pub mod group;
mod life;
pub mod options;
pub mod plan;
mod query;
mod quiescence;
mod records;
mod route;
mod rows;
mod shared;
mod slot;
mod slots;
