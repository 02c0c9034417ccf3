//! The past states of the games of a shard, or of one of their players, under the lock of the shard.

use crate::collector::context_plan::ContextPlan;
use crate::collector::copy_plan::HistorySpec;
use crate::collector::game_state::GameState;
use crate::collector::history_buffer::HistoryBuffer;
use crate::collector::record_columns::BuiltinColumn;
use crate::games::Outcome;
use crate::games::game_batch::{GameBatch, GameItem};

pub struct History {
    pub records: HistoryBuffer,
    /// By game, reward and ends since the newest record.
    since: Vec<Outcome>,
    /// By game, the end of the episode whose last state the newest record is.
    before: Vec<End>,
}

/// The end of an episode, if it has ended.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    terminated: bool,
    truncated: bool,
}

impl History {
    pub fn new(spec: &HistorySpec, plan: &ContextPlan, states: &[GameState]) -> Self {
        let mut records = HistoryBuffer::new(plan.columns.size(), spec.depth, states.len());
        // These two never change.
        records.fill(BuiltinColumn::Id, |at| states[at].id.to_ne_bytes());
        records.fill(BuiltinColumn::Tid, |at| states[at].tid.to_ne_bytes());
        let count = states.len();
        Self {
            records,
            since: vec![Outcome::default(); count],
            before: vec![End::default(); count],
        }
    }

    /// Adds the outcome of a step of a game.
    #[inline]
    pub fn add(&mut self, at: usize, spec: &HistorySpec, outcome: Outcome, games: &dyn GameBatch) {
        let since = &mut self.since[at];
        since.reward += match spec.player {
            None => outcome.reward,
            Some(player) => games.reward(at, outcome, player),
        };
        since.terminated |= outcome.terminated;
        since.truncated |= outcome.truncated;
    }

    /// Begins records of the states of games: writes the builtin columns and clears the replies. Returns the items of the
    /// records.
    pub fn push(
        &mut self,
        plan: &ContextPlan,
        states: &[GameState],
        games: impl Iterator<Item = usize>,
    ) -> Vec<GameItem> {
        use BuiltinColumn::{Cut, Ended, LastReward, LastTerminal, LastTruncated, Seq};
        let Self { records, since, before } = self;
        let mut items = Vec::with_capacity(games.size_hint().1.unwrap_or(0));
        items.extend(games.map(|at| GameItem { at, item: records.push(at) }));
        records.put(plan, Seq, &items, |at| states[at].seq.to_ne_bytes());
        put_episodes(records, plan, states, &items);
        records.put(plan, LastReward, &items, |at| since[at].reward.to_ne_bytes());
        // These two show the end of an episode in the first state after it, the next two in its last. A player that is not
        // shown the last state of a game knows of the end by its next state alone.
        let ended = |at: usize| states[at].ended;
        records.put(plan, LastTerminal, &items, |at| {
            [u8::from(before[at].terminated || (since[at].terminated && !ended(at)))]
        });
        records.put(plan, LastTruncated, &items, |at| {
            [u8::from(before[at].truncated || (since[at].truncated && !ended(at)))]
        });
        records.put(plan, Ended, &items, |at| [u8::from(since[at].terminated && ended(at))]);
        records.put(plan, Cut, &items, |at| [u8::from(since[at].truncated && ended(at))]);
        for &GameItem { at, .. } in &items {
            let Outcome { terminated, truncated, .. } = std::mem::take(&mut since[at]);
            let ended = states[at].ended;
            before[at] = End { terminated: terminated && ended, truncated: truncated && ended };
        }
        for (_, column) in plan.columns.replies() {
            records.clear_column(column, &items);
        }
        items
    }

    /// Forgets all states of a game.
    pub fn forget(&mut self, at: usize) {
        self.records.clear(at);
        self.since[at] = Outcome::default();
        self.before[at] = End::default();
    }
}

/// Writes numbers that are the same in all states of an episode, and another in the next one.
fn put_episodes(
    records: &mut HistoryBuffer,
    plan: &ContextPlan,
    states: &[GameState],
    items: &[GameItem],
) {
    if !plan.has_agents {
        records.put(plan, BuiltinColumn::Episode, items, |at| states[at].episode.to_ne_bytes());
    } else if plan.reads(BuiltinColumn::Episode) {
        // The states of this player before its episode.
        let counts: Vec<u64> = (0..states.len()).map(|at| records.count(at)).collect();
        let begun = |at: usize| (counts[at] as u32).wrapping_sub(states[at].seq as u32);
        records.put(plan, BuiltinColumn::Episode, items, |at| begun(at).to_ne_bytes());
    }
}
