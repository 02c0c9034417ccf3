//! The replay memory against plain models of it.

#![allow(clippy::unwrap_used)]

mod cache;
mod calls;
mod checkpoint;
mod compression;
mod draw_model;
mod fixtures;
mod growing;
mod importance;
mod limiter_counts;
mod memory;
mod mixer;
mod model;
mod pair;
mod rate_limiter;
mod returns;
mod samplers;
mod sequence_model;
mod sequence_window;
mod sequences;
mod storage;
mod sum_tree;
mod transitions;
mod views;
