//! Batches of many games' states, and of many callers' requests, each answered by one callback.
//!
//! | question | file |
//! |---|---|
//! | what is collected, and with which options | [`description`], [`options`] |
//! | which columns a record of a state has | [`record_columns`] |
//! | which bytes a collector copies | `copy_plan`, for all collectors `context_plan` |
//! | **scheduler**: which games go on | `scheduler`, with `work_queue` and `query` |
//! | when a batch goes out before it is full | `short_batches` |
//! | **row assignment**: which game or caller has which row of which batch | [`batch_queue`] |
//! | where the bytes of a batch lie | [`batch`] |
//! | **delivery**: which batch goes out next, and which games go on when it comes back | `delivery` |
//! | **histories**: which past states a game has | `history`, in rings of records: `history_buffer` |
//! | how a history becomes a row | `gather` |
//! | how far one game has got | `game_state` |
//! | what a thread does between two looks at the scheduler | `work_batch`, by `runtime`; `sync` takes locks |
//! | whether a context runs, and what a failed game does to it | `run_state`, [`failure_policy`] |
//! | how Python steps games | [`step_buffer`], by the calls of `env_workers` |
//! | what a user of games calls | [`context`] |
//! | what a user without games calls | [`request_batcher`] |
//!
//! **Locks** are taken in this order:
//!
//! 1. `Context::threads`, by start and stop only;
//! 2. `Runtime::scheduler`: never held while a game steps, a row is copied or a shard is locked;
//! 3. `StepBuffer::in_flight`, of one env worker;
//! 4. `Runtime::shards`, one at a time: held while its games step and their rows are copied.
//!
//! A `RequestBatcher` has one lock of its own, which is not held while rows are copied. Rows of a batch need no lock: the
//! assignment of a row gives its bytes to one writer until the row is committed, and the delivery of a batch gives it to one
//! reader until it is returned.
//!
//! **No game has a thread.** Between two steps a game is a `GameState` in a shard. Games that can go on queue in the
//! scheduler, from which threads take about 50 us of work at a time; a thread that waits for a batch works too. Cheap games
//! therefore need no hand-over between threads, and with expensive ones a work batch holds one game. A game that takes more
//! than a millisecond, or may (`blocking`), is left to worker threads, so that waits keep their timeouts.
//!
//! **The way of a row.** A game requests a row of each collector that its player has. The batch queue assigns rows in order;
//! they are written without a lock and committed. A batch with all rows written is ready, after those that were filled before
//! it, so histories of one game stay in order. A consumer takes it and returns it with replies, which are copied to the
//! games' records; then the batch is free, and its games go on once all collectors have replied. Where two collectors reply
//! the same key, the later description counts. A game without a free row waits in the queue.
//!
//! **Cheap replies are processed immediately** by the thread that returns the batch: it takes the replies, steps the games
//! and writes their next rows, 64 games at a time while they are in the cache. Work cheaper than waking a thread is deferred
//! to the next wait.
//!
//! **Nothing hangs.** When no task is queued or running, no batch is ready, and no batch that is out would wake a game, the
//! oldest open batch goes out short.
//!
//! **Same seed, same games.** An episode's seed is a hash of the seed, the game's number and the episode's, and nothing else.
//! With `deterministic`, batches are delivered in the order in which their rows were assigned.
//!
//! **A game that fails** has its histories cleared, so that no history spans a failure; states that a listener misses by
//! that are counted.

pub mod batch;
pub mod batch_queue;
pub mod context;
mod context_plan;
mod copy_plan;
mod delivery;
pub mod description;
mod env_workers;
pub mod failure_policy;
mod game_state;
mod gather;
mod history;
mod history_buffer;
pub mod options;
mod query;
pub mod record_columns;
pub mod request_batcher;
mod run_state;
mod runtime;
mod scheduler;
mod shard;
mod short_batches;
pub mod step_buffer;
mod sync;
mod work_batch;
mod work_queue;
