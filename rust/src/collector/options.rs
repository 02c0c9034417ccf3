//! The options of a context, and the memory that it takes.

use crate::available_memory;
use crate::collector::batch_queue::QueueRules;
use crate::collector::context_plan::ContextPlan;
use crate::collector::copy_plan::HistorySpec;
use crate::collector::description::Collector;
use crate::collector::failure_policy::OnError;
use crate::collector::game_state::GameState;
use crate::error::{Error, Result};

/// The options of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Games.
    pub games: usize,
    /// Threads beside those that wait for batches; at least one.
    pub threads: usize,
    /// Batches per collector; None for as many as suit the games, at least two and at most 256.
    pub buffers: Option<usize>,
    /// Bytes that it may take.
    pub memory: u64,
    /// Determines an episode's seed, together with the game's number and the episode's.
    pub seed: u64,
    /// Batches with a row per game are sorted by game, and batches are delivered in the order in which their rows were
    /// assigned, not that in which they were written.
    pub deterministic: bool,
    /// The failure policy.
    pub on_error: OnError,
    /// Queries that a game may make at once during a step.
    pub queries: usize,
}

impl Options {
    /// Games and queries together.
    pub fn states(self) -> usize {
        self.games.saturating_mul(self.queries.saturating_add(1))
    }
}

/// Refuses batches that would never fill.
pub(super) fn check_fill(collector: &Collector, options: Options) -> Result<()> {
    let games = options.states();
    if !collector.replying() || collector.timeout.is_some() || collector.batch_size <= games {
        return Ok(());
    }
    let name = format!("_batchsize of {:?}", collector.name);
    let expected = format!("at most num_games = {games}, or a _timeout_usec");
    Err(Error::value(name, expected, collector.batch_size))
}

/// Bytes of a game beside its histories, about.
const GAME: usize = size_of::<GameState>() + 256;

/// Bytes of a batch beside its memory, about.
const BATCH: usize = 256;

pub(super) fn check_memory(plan: &ContextPlan, options: Options, buffers: usize) -> Result<()> {
    let collectors = || plan.copy_plans.iter().map(|copy_plan| &copy_plan.collector);
    let history =
        |spec: &HistorySpec| (spec.depth as u128).saturating_mul(plan.columns.size() as u128);
    let histories = plan.histories.iter().map(|spec| history(spec).saturating_add(64));
    let game = histories.fold(GAME as u128, u128::saturating_add);
    let arrays: u128 = collectors().map(Collector::arrays).sum();
    let bookkeeping = BATCH as u128 * buffers as u128 * plan.copy_plans.len() as u128;
    let kept = game.saturating_mul(options.states() as u128);
    let kept = kept.saturating_add(bookkeeping).saturating_add(arrays.saturating_mul(16));
    let batch = |each: &Collector| each.row_size().saturating_mul(each.batch_size as u128);
    let batches = collectors().map(batch).fold(0, u128::saturating_add);
    let needed = batches.saturating_mul(buffers as u128).saturating_add(kept);
    available_memory::check_memory("games, histories and batches", needed, kept, options.memory)
}

/// Batches of a collector at most, unless more are requested: a few are enough to answer in turn, and games without a row
/// can wait in the queue.
const MAX_BUFFERS: usize = 256;

pub(super) fn buffers(options: Options, rows: usize) -> usize {
    let fitting = (options.games / rows.max(1)).min(MAX_BUFFERS);
    options.buffers.unwrap_or(fitting).max(2)
}

pub(super) fn rules(collector: &Collector, options: Options, buffers: usize) -> QueueRules<u32> {
    let sorted = options.deterministic && collector.batch_size == options.games;
    QueueRules {
        batch_size: collector.batch_size,
        buffers,
        timeout: collector.timeout,
        order: sorted.then_some(u32::cmp),
    }
}
