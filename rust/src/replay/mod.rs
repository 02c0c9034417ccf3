//! The replay memory: a ring of whole episodes, multi-step returns, prioritized sampling.
//!
//! | question | file |
//! |---|---|
//! | which settings there are | [`settings`] |
//! | where the bytes of an entry lie | `storage`, in a [`mapped_array`] |
//! | which fields are compressed, how, and where | [`compression`], [`codec`], `frame_encoder` and `frame_reader`; `compressed_fields`, each a [`compressed_column`]; how draws read those: `compressed_entries` |
//! | what a memory keeps on disk; when the disk has room | `storage_files`, `value_heap` and [`storage_folder`]; [`disk_use`] |
//! | which slots are free | `free_slots` |
//! | which slots an episode has | `episode` |
//! | which episode is evicted | `eviction`, by weight with `removal_order` |
//! | how many bytes a memory takes | `footprint` |
//! | what the return and the weight of an entry are | [`returns`], `entry_weight`, by powers in `power` |
//! | which entries can be drawn | [`drawable`] |
//! | how steps of open episodes can be drawn | [`growing`] |
//! | how steps of several environments become such episodes | [`transition_writer`] |
//! | how transitions are drawn, and what a sample contains | [`transition`] |
//! | which samplers there are; how each chooses | [`sampler`]; `draw` |
//! | what draws choose from: weights, counts, limits | `sampling_index`, with `drawable_counts` and `times_sampled` |
//! | the tree of weights that draws look up in | [`sum_tree`] |
//! | where sequences lie in their episodes; which starts they have, with which weights | [`sequence_window`]; `anchors`, [`sequence_priorities`] |
//! | how sequences are drawn, and what they contain | [`sequences`] |
//! | where recurrent states are stored; what files have of sequences | [`recurrent`]; `sequence_parts` |
//! | which slots are the oldest | `age_order` |
//! | weights, counts and limits of several learners | [`view`], in a memory [`views`] |
//! | how a learner corrects samples | [`importance`] |
//! | how a memory outlives the process; how a file replaces a memory's contents | [`checkpoint`], with `checkpoint_header`, `checkpoint_columns`, `checkpoint_entries` and `replaced_file`; [`checkpoint_load`]; [`restore`] |
//! | what a client sends a server | [`cache`] |
//! | what a learner draws from; which caches lie on disk | [`cache_store`], [`cache_files`]; with several servers, [`mixer`] |
//! | how much each sender has sent | [`sender_counters`] |
//! | how many samples may be drawn for each entry inserted; what a memory counts for that | [`rate_limiter`]; `limiter_counts` |
//! | how an episode is written, closed, corrected | [`memory`] and `entry_rows`, [`closing`], [`corrections`] |
//!
//! Nothing here locks or starts threads: the owner of a [`memory::Memory`], of a store or of a mixer has a lock around it.
//!
//! **Slots.** A memory has slots `0 .. max_step`, one for each entry. One writer takes them in a ring. Several writers take
//! up to 64 slots ahead each, so that their episodes stay in few pieces; when no slot is free, half of the largest unwritten
//! reserve is taken back, so the last slot is as usable as the first. Freed slots join free neighbours. The oldest closed episode is evicted only when all
//! slots hold entries; a [`transition_writer`] evicts a little earlier, since reserves taken back one by one would leave its
//! short episodes in as many pieces as they have steps.
//!
//! **Ids.** An entry's id is its episode's serial number and its step in one 64-bit number. Serial numbers are never
//! reused, so the id of an evicted entry is recognised, and ids of an episode are consecutive. A slot stores episode and
//! step in 8 bytes, from which the id is computed.
//!
//! **Weights.** Each slot has an initial weight (times the episode's multiplier), a weight, and a leaf of the sum tree. The
//! leaf is the weight, or 0 for a free slot, an open episode that does not grow, and an entry that `frame_stack`, `frame_padding` or
//! `multi_step` would take out of its episode. Changing one of those three rewrites the leaves; weights stay.
//!
//! **Late corrections.** A closed episode keeps the settings that it was closed with, shared with its neighbours, so a late
//! reward recomputes exactly the returns that a close would have.
//!
//! **All or nothing.** Everything that can fail is checked before the first byte changes: a close computes returns and
//! weights aside, and `add_episode` does so before it evicts anything.
//!
//! **Waiting for memory** is most of the work in a draw, a gather or an update, since entries lie anywhere in many
//! megabytes. Large arrays lie on huge pages. Loops that need scattered values read one of each first, in a loop so short
//! that the processor waits for many at once ([`mapped_array::prefetch`]). A slot whose entry reference is n higher than
//! another's holds the entry n steps later, so a draw looks at the episode only where that lies in several pieces. Fields
//! are gathered for 64 rows at a time, out of the first-level cache.

mod age_order;
mod anchors;
pub mod cache;
pub mod cache_files;
pub mod cache_store;
pub mod checkpoint;
mod checkpoint_columns;
mod checkpoint_entries;
mod checkpoint_header;
pub mod checkpoint_load;
pub mod closing;
pub mod codec;
pub mod compressed_column;
mod compressed_entries;
mod compressed_fields;
pub mod compression;
pub mod corrections;
pub mod disk_use;
mod draw;
pub mod drawable;
mod drawable_counts;
mod entry_rows;
mod entry_weight;
mod episode;
mod eviction;
pub(crate) mod finite;
mod footprint;
mod frame_encoder;
mod frame_reader;
mod free_slots;
pub mod growing;
pub mod importance;
mod limiter_counts;
pub mod mapped_array;
pub mod memory;
pub mod mixer;
mod power;
pub mod rate_limiter;
pub mod recurrent;
mod removal_order;
mod replaced_file;
pub mod restore;
pub mod returns;
pub mod sampler;
mod sampling_index;
pub mod sender_counters;
mod sequence_parts;
pub mod sequence_priorities;
pub mod sequence_window;
pub mod sequences;
pub mod settings;
mod storage;
mod storage_files;
pub mod storage_folder;
pub mod sum_tree;
mod times_sampled;
pub mod transition;
pub mod transition_writer;
mod value_heap;
pub mod view;
pub mod views;
