//! The batch collector: worked examples, plain models, every small configuration, and how a run ends.

#![allow(clippy::unwrap_used)]

mod batch_queue;
mod env_workers;
mod histories;
mod lifecycle;
mod replies;
mod request_batcher;
mod run;
mod scheduling;
mod scripted_game;
