//! The replay memory: a ring of whole episodes, multi-step returns, prioritized sampling.
//!
//! | question | file |
//! |---|---|
//! | what can be set | [`settings`] |
//! | who owns bytes | [`column`](mod@column), [`storage`] |
//! | how much memory there is | [`control_group`] |
//! | which slot is whose | [`ring`], [`episode`] |
//! | how many bytes that takes | [`footprint`] |
//! | which episode goes | `eviction` |
//! | what is an entry worth | [`returns`], [`priority`] |
//! | which entries can be drawn | [`drawable`] |
//! | which of them is drawn | [`sum_tree`] |
//! | what a draw looks like | [`transition`] |
//! | how it outlives the process | [`checkpoint`] |
//! | what goes over the network | [`cache`] |
//! | what a learner draws from | [`cache_store`], of several servers [`mixer`] |
//! | what has come from whom | [`ledger`] |
//! | how numbers that others choose are looked up | `keyed_hash` |
//! | all of it together | [`memory`], with [`closing`] and [`amend`] |
//!
//! Nothing here is thread-safe; the owner of a [`memory::Memory`] locks.

pub mod amend;
pub mod cache;
pub mod cache_store;
pub mod checkpoint;
pub mod closing;
pub mod column;
pub mod control_group;
pub mod drawable;
pub mod episode;
mod eviction;
pub(crate) mod finite;
pub mod footprint;
pub mod importance;
mod keyed_hash;
pub mod ledger;
pub mod memory;
pub mod mixer;
pub mod power;
pub mod priority;
pub mod returns;
pub mod ring;
pub mod settings;
pub mod storage;
pub mod sum_tree;
pub mod transition;
