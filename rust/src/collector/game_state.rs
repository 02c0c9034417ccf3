//! How far a game, or a query of a game, has got. Under the lock of its shard.

use crate::collector::context_plan::ContextPlan;
use crate::games::{Outcome, Turn};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GamePhase {
    /// There is no state yet.
    Fresh,
    AwaitingReplies,
    /// All collectors have replied, and listeners have rows.
    Replied,
}

/// The things that a game needs before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowRequest {
    /// Rows of these collectors, as bits, and replies.
    Replies(u64),
    /// Rows of these listening collectors, as bits, for its history.
    Histories(u64),
    /// A move by its env worker.
    Move,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Begin an episode with this seed.
    Reset(u64),
    Step,
}

/// The thing that a game does once instead of its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Override {
    /// Show its state again.
    Stay,
    /// Begin an episode without a history. A seed replaces the one that determines the game's episodes, whose numbers start
    /// again.
    Begin(Option<u64>),
}

/// Counts of one game.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// States reached.
    pub states: u64,
    /// Episodes that ended.
    pub episodes: u64,
}

#[derive(Debug)]
pub struct GameState {
    pub id: u32,
    pub tid: u32,
    pub seq: i32,
    /// Number of the episode; the first is 0.
    pub episode: u32,
    /// The state is the last of the game's episode.
    pub over: bool,
    /// The state is the last of its player's episode.
    pub ended: bool,
    phase: GamePhase,
    pub player: u32,
    /// The histories of single players that the present state is in, as bits.
    present: u64,
    /// The collectors that have replied to the present state, as bits.
    replied: u64,
    pub counts: Counts,
    seed: u64,
    next_override: Option<Override>,
}

impl GameState {
    pub fn new(id: u32, tid: u32, seed: u64) -> Self {
        Self {
            id,
            tid,
            seq: 0,
            episode: 0,
            over: false,
            ended: false,
            phase: GamePhase::Fresh,
            player: 0,
            present: 0,
            replied: 0,
            counts: Counts::default(),
            seed,
            next_override: None,
        }
    }

    pub fn take_override(&mut self) -> Option<Override> {
        if self.next_override.is_none() { None } else { self.next_override.take() }
    }

    pub fn override_step(&mut self, by: Override) {
        match (self.phase, by) {
            (GamePhase::Fresh, Override::Begin(seed)) => self.seed = seed.unwrap_or(self.seed),
            (GamePhase::Fresh, Override::Stay) => {}
            _ => self.next_override = Some(by),
        }
    }

    pub fn request_replies(&self, plan: &ContextPlan) -> RowRequest {
        RowRequest::Replies(plan.repliers(self.player as usize))
    }

    /// Marks the present state as replied to by all collectors. Returns whether that is new.
    #[inline]
    pub fn mark_replied(&mut self) -> bool {
        let news = self.phase == GamePhase::AwaitingReplies;
        self.phase = if news { GamePhase::Replied } else { self.phase };
        news
    }
    pub fn is_in(&self, history: usize) -> bool {
        history == 0 || self.present >> (history - 1) & 1 == 1
    }

    #[inline]
    pub fn next_move(&self) -> Move {
        if self.phase == GamePhase::Fresh || self.over {
            Move::Reset(episode_seed(self.seed, self.id, self.next_episode()))
        } else {
            Move::Step
        }
    }

    fn next_episode(&self) -> u32 {
        self.episode.wrapping_add(u32::from(self.phase != GamePhase::Fresh))
    }

    pub fn begin(&mut self) {
        self.episode = self.next_episode();
        self.seq = 0;
        self.over = false;
        self.ended = false;
    }

    /// Counts a step with this outcome. Returns the outcome, truncated if the episode has reached its last step.
    #[inline]
    pub fn step(&mut self, outcome: Outcome, max_steps: u64) -> Outcome {
        self.seq = self.seq.wrapping_add(1);
        let last = u64::from(self.seq as u32) >= max_steps;
        let truncated = outcome.truncated || (last && !outcome.terminated);
        self.over = outcome.terminated || truncated;
        self.ended = self.over;
        self.counts.episodes += u64::from(self.over);
        Outcome { truncated, ..outcome }
    }

    /// Counts a step with this outcome to the state of a player that has an episode of its own.
    pub fn take_turn(&mut self, outcome: Outcome, turn: Turn) -> Outcome {
        self.seq = turn.seq;
        self.over = turn.over;
        self.ended = outcome.terminated || outcome.truncated;
        self.counts.episodes += u64::from(self.over);
        outcome
    }

    /// Enters a state in which this player moves, and which is in these histories of single players.
    #[inline]
    pub fn enter(&mut self, player: usize, present: u64) {
        self.player = player as u32;
        self.present = present;
        self.counts.states += 1;
        self.phase = GamePhase::AwaitingReplies;
        self.forget_replies();
    }

    /// Makes the next move begin an episode, as if there had been no state before.
    pub fn begin_anew(&mut self, seed: Option<u64>) {
        self.phase = GamePhase::Replied;
        self.over = true;
        if let Some(seed) = seed {
            self.seed = seed;
            // The next is number 0.
            self.episode = u32::MAX;
        }
    }

    pub fn has_reply_of(&self, collectors: u64) -> bool {
        self.replied & collectors != 0
    }
    pub fn forget_replies(&mut self) {
        self.replied = 0;
    }

    pub fn reply(&mut self, collector: usize) {
        self.replied |= 1 << collector;
    }
}

/// The seed of an episode, different for each. Nothing else that runs affects it.
fn episode_seed(seed: u64, game: u32, episode: u32) -> u64 {
    mix(mix(seed) ^ (u64::from(game) << 32 | u64::from(episode)))
}

/// The finalizer of `SplitMix64`: a bijection that leaves no trace of adjacent inputs.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
