//! Where one game stands between its collectors.

use crate::collector::plan::Plan;
use crate::games::Outcome;

/// What a game has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GamePhase {
    /// Nothing yet.
    Fresh,
    /// In a state that the answering collectors see.
    Asking,
    /// Answered, and shown to the listening collectors.
    Telling,
}

/// What a game wants before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowRequest {
    /// Answers of these collectors, as bits.
    Ask(u64),
    /// That these collectors have its history, as bits.
    Tell(u64),
    /// That its driver moves it.
    Move,
}

/// What moves a game on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Begin an episode with this seed.
    Reset(u64),
    /// Take the action.
    Step,
}

/// What a game does once instead of its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Override {
    /// Show its state again.
    Stay,
    /// Begin an episode, of which nothing before is told; with a seed, the first of those that the seed determines.
    Begin(Option<u64>),
}

/// What a game has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// States reached.
    pub states: u64,
    /// Episodes that ended.
    pub episodes: u64,
}

/// Where a game stands.
#[derive(Debug)]
pub struct GameState {
    /// The game's number.
    pub id: u32,
    /// Which query of its game it is; 0 is the game itself.
    pub tid: u32,
    /// Steps of the episode.
    pub seq: i32,
    /// Episodes so far, but for the first.
    pub episode: u32,
    /// The state is the last of its episode.
    pub over: bool,
    point: GamePhase,
    /// Whose turn it is in the present state.
    pub player: u32,
    /// The tracks of single players that the present state is in, as bits.
    present: u64,
    /// The collectors that have answered the present state, as bits.
    answered: u64,
    counts: Counts,
    seed: u64,
    detour: Option<Override>,
}

impl GameState {
    /// A game before its first state, or a query of it.
    pub fn new(id: u32, tid: u32, seed: u64) -> Self {
        Self {
            id,
            tid,
            seq: 0,
            episode: 0,
            over: false,
            point: GamePhase::Fresh,
            player: 0,
            present: 0,
            answered: 0,
            counts: Counts::default(),
            seed,
            detour: None,
        }
    }

    /// States and episodes so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What it does instead of its next step.
    #[inline]
    pub fn detour(&mut self) -> Option<Override> {
        if self.detour.is_none() { None } else { self.detour.take() }
    }

    /// Has it do something else than its next step.
    pub fn divert(&mut self, detour: Override) {
        match (self.point, detour) {
            (GamePhase::Fresh, Override::Begin(seed)) => self.seed = seed.unwrap_or(self.seed),
            (GamePhase::Fresh, Override::Stay) => {}
            _ => self.detour = Some(detour),
        }
    }

    /// Wants the present state answered.
    #[inline]
    pub fn asks(&self, plan: &Plan) -> RowRequest {
        RowRequest::Ask(plan.asked(self.player as usize))
    }

    /// Is answered, and to be shown to the listening collectors. Returns whether that is news.
    #[inline]
    pub fn tells(&mut self) -> bool {
        let news = self.point == GamePhase::Asking;
        self.point = if news { GamePhase::Telling } else { self.point };
        news
    }

    /// Whether the present state is in a track.
    #[inline]
    pub fn is_in(&self, track: usize) -> bool {
        track == 0 || self.present >> (track - 1) & 1 == 1
    }

    /// What moves it on.
    #[inline]
    pub fn next_move(&self) -> Move {
        if self.point == GamePhase::Fresh || self.over {
            Move::Reset(episode_seed(self.seed, self.id, self.next_episode()))
        } else {
            Move::Step
        }
    }

    fn next_episode(&self) -> u32 {
        self.episode.wrapping_add(u32::from(self.point != GamePhase::Fresh))
    }

    /// Has begun an episode.
    pub fn begin(&mut self) {
        self.episode = self.next_episode();
        self.seq = 0;
        self.over = false;
    }

    /// Has taken a step.
    #[inline]
    pub fn step(&mut self, outcome: Outcome) {
        self.seq = self.seq.wrapping_add(1);
        self.over = outcome.terminated || outcome.truncated;
        self.counts.episodes += u64::from(self.over);
    }

    /// Is in a state in which this player moves, which belongs to these tracks of single players.
    #[inline]
    pub fn enter(&mut self, player: usize, present: u64) {
        self.player = player as u32;
        self.present = present;
        self.counts.states += 1;
        self.point = GamePhase::Asking;
        self.forget_answers();
    }

    /// As if there had been no state before the next.
    pub fn begin_anew(&mut self, seed: Option<u64>) {
        self.point = GamePhase::Telling;
        self.over = true;
        if let Some(seed) = seed {
            self.seed = seed;
            // The next is number 0.
            self.episode = u32::MAX;
        }
    }

    /// Whether one of these collectors has answered the present state.
    #[inline]
    pub fn has_answer_of(&self, collectors: u64) -> bool {
        self.answered & collectors != 0
    }

    /// As if nobody had answered the present state.
    #[inline]
    pub fn forget_answers(&mut self) {
        self.answered = 0;
    }

    /// Remembers that a collector has answered the present state.
    #[inline]
    pub fn answer(&mut self, collector: usize) {
        self.answered |= 1 << collector;
    }
}

/// The seed of an episode: unlike for any two, like for the same whatever else runs.
fn episode_seed(seed: u64, game: u32, episode: u32) -> u64 {
    mix(mix(seed) ^ (u64::from(game) << 32 | u64::from(episode)))
}

/// The finalizer of `SplitMix64`: a bijection that leaves no trace of neighbouring inputs.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
