//! The replay memory: a ring of whole episodes, multi-step returns, prioritized sampling.
//!
//! | question | file |
//! |---|---|
//! | what can be set | [`settings`] |
//! | who owns bytes | [`mapped_array`], [`storage`] |
//! | which slot is whose | [`free_slots`], [`episode`] |
//! | how many bytes that takes | [`footprint`] |
//! | which episode goes | `eviction` |
//! | what is an entry worth | [`returns`], [`entry_weight`] |
//! | which entries can be drawn | [`drawable`] |
//! | which of them is drawn | [`sum_tree`] |
//! | what a draw looks like | [`transition`] |
//! | how it outlives the process | [`checkpoint`] |
//! | what goes over the network | [`cache`] |
//! | what a learner draws from | [`cache_store`], of several servers [`mixer`] |
//! | what has come from whom | [`sender_counters`] |
//! | how numbers that others choose are looked up | `keyed_hash` |
//! | all of it together | [`memory`], with [`closing`] and [`corrections`] |
//!
//! Nothing here is thread-safe; the owner of a [`memory::Memory`] locks.

pub mod cache;
pub mod cache_store;
pub mod checkpoint;
pub mod closing;
pub mod corrections;
pub mod drawable;
pub mod entry_weight;
pub mod episode;
mod eviction;
pub(crate) mod finite;
pub mod footprint;
pub mod free_slots;
pub mod importance;
mod keyed_hash;
pub mod mapped_array;
pub mod memory;
pub mod mixer;
pub mod power;
pub mod returns;
pub mod sender_counters;
pub mod settings;
pub mod storage;
pub mod sum_tree;
pub mod transition;
