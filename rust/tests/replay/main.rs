//! The replay memory against plain models of it.

#![allow(clippy::unwrap_used)]

mod cache;
mod calls;
mod checkpoint;
mod fixtures;
mod importance;
mod memory;
mod mixer;
mod model;
mod pair;
mod returns;
mod sum_tree;
mod transitions;
