//! All descriptions of a context, checked and resolved to bytes: read by all threads, changed by none.

use crate::collector::copy_plan::{CopyPlan, HistorySpec};
use crate::collector::description::Collector;
use crate::collector::record_columns::{BuiltinColumn, RecordColumns};
use crate::error::{Error, Result};
use crate::games::GameSpec;

/// Collectors of a context at most: a set of them is one number of bits.
pub const MAX_COLLECTORS: usize = 64;
#[derive(Debug)]
pub struct ContextPlan {
    pub columns: RecordColumns,
    pub copy_plans: Vec<CopyPlan>,
    /// The histories of a game; the first is of all states.
    pub histories: Vec<HistorySpec>,
    /// The collectors that only listen, as bits.
    pub listening: u64,
    /// The builtin columns that a collector reads, as bits.
    read: u16,
    pub has_turns: bool,
    /// Players have episodes of their own.
    pub has_agents: bool,
    pub max_steps: u64,
    /// By player, the collectors that reply when it moves, as bits.
    repliers: Vec<u64>,
    /// By player, the histories of its states alone, as bits from the second history on.
    present: Vec<u64>,
}

impl ContextPlan {
    /// Resolves descriptions. Fails with [`Error::Value`] without any, and when they do not fit the game or each other.
    pub fn new(game: &GameSpec, collectors: Vec<Collector>) -> Result<Self> {
        if !(1..=MAX_COLLECTORS).contains(&collectors.len()) {
            let expected = format!("1 to {MAX_COLLECTORS}");
            return Err(Error::value("collectors", expected, collectors.len()));
        }
        collectors.iter().try_for_each(|each| each.check(game))?;
        let columns = RecordColumns::new(game, &collectors)?;
        let mut histories = vec![HistorySpec { player: None, depth: 1 }];
        let later: Vec<_> =
            (0..collectors.len()).map(|at| later_writers(&collectors, at)).collect();
        let pairs = collectors.into_iter().zip(later);
        let copy_plans = pairs
            .map(|(collector, later)| CopyPlan::new(collector, &later, &columns, &mut histories))
            .collect::<Result<Vec<_>>>()?;
        let mut plan = Self {
            read: read_columns(&copy_plans),
            columns,
            copy_plans,
            histories,
            listening: 0,
            has_turns: game.players.len() > 1,
            has_agents: game.has_agents,
            max_steps: game.max_steps,
            repliers: Vec::new(),
            present: Vec::new(),
        };
        let players = 0..game.players.len();
        plan.listening = plan.select(|each| !each.replying());
        let replies = |player| plan.select(|each| each.replying() && each.sees(player));
        plan.repliers = players.clone().map(replies).collect();
        let alone = |player| bits_of(&plan.histories[1..], |spec| spec.player == Some(player));
        plan.present = players.map(alone).collect();
        Ok(plan)
    }

    pub fn repliers(&self, player: usize) -> u64 {
        self.repliers.get(player).copied().unwrap_or(0)
    }

    pub fn reads(&self, column: BuiltinColumn) -> bool {
        self.read >> column as u16 & 1 == 1
    }

    pub fn present(&self, player: usize) -> u64 {
        self.present.get(player).copied().unwrap_or(0)
    }

    pub fn select(&self, condition: impl Fn(&Collector) -> bool) -> u64 {
        bits_of(&self.copy_plans, |copy_plan| condition(&copy_plan.collector))
    }
}
fn bits_of<T>(items: &[T], condition: impl Fn(&T) -> bool) -> u64 {
    let bit = |(at, item)| u64::from(condition(item)) << at;
    items.iter().enumerate().map(bit).fold(0, |all, one| all | one)
}

/// The builtin columns that a collector reads, as bits. Stacks of frames need the column of episodes.
fn read_columns(copy_plans: &[CopyPlan]) -> u16 {
    let gathers = || copy_plans.iter().flat_map(|copy_plan| &copy_plan.gathers);
    let reads = |column: &BuiltinColumn| {
        let frames = *column == BuiltinColumn::Episode && gathers().any(|each| each.frames > 0);
        frames || gathers().any(|each| each.range == column.range())
    };
    bits_of(&BuiltinColumn::ALL, reads) as u16
}

/// By reply of a collector, the later collectors that write the same key, as bits.
fn later_writers(collectors: &[Collector], at: usize) -> Vec<u64> {
    let writes =
        |each: &Collector, key: &str| each.replies.iter().flatten().any(|reply| reply.key == key);
    let later = |key: &str| bits_of(collectors, |each| writes(each, key)) & (u64::MAX << at << 1);
    collectors[at].replies.iter().flatten().map(|reply| later(&reply.key)).collect()
}
