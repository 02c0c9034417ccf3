//! The core of `cogrs`: replay memory and batch collector for reinforcement learning, and the columns of stored trials.
//!
//! Everything but `python` is plain Rust that knows nothing of Python; building with
//! `--no-default-features` leaves the bindings out and holds the rest to that.

pub mod available_memory;
pub mod collector;
pub mod error;
pub mod games;
pub mod replay;
pub mod spec;
pub mod store;

#[cfg(feature = "python")]
mod python;
