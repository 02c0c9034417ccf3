//! One game between its collectors.

use std::iter;
use std::ops::Range;

use crate::collector::batch::Batch;
use crate::collector::column::{Fixed, HEAD};
use crate::collector::history::History;
use crate::collector::plan::Plan;
use crate::collector::route::Track;
use crate::error::Result;
use crate::games::{Action, Game, Outcome};

/// What a game has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// Nothing yet.
    Fresh,
    /// In a state that the answering collectors see.
    Asking,
    /// Answered, and shown to the listening collectors.
    Telling,
}

/// What a game wants before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Answers of these collectors, as bits.
    Ask(u64),
    /// That these collectors have its history, as bits.
    Tell(u64),
    /// That its driver moves it.
    Move,
}

/// What a driver does for a game.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Begin an episode with this seed.
    Reset(u64),
    /// Take the action.
    Step,
}

/// What a game does once instead of its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detour {
    /// Show its state again.
    Stay,
    /// Begin an episode, of which nothing before is told; with a seed, the first of those that the seed determines.
    Begin(Option<u64>),
}

/// A game, its last states, and where it stands.
pub struct Slot {
    game: Box<dyn Game>,
    id: u32,
    /// Which query of its game it is; 0 is the game itself.
    tid: u32,
    seed: u64,
    episode: u32,
    seq: i32,
    point: Point,
    /// The state is the last of its episode.
    over: bool,
    /// Whose turn it is in the present state.
    player: usize,
    /// All its states.
    past: Past,
    /// Those of single players.
    shares: Vec<Past>,
    /// The histories that the present state is in, as bits.
    present: u64,
    /// The collectors that have answered the present state, as bits.
    answered: u64,
    /// States and episodes so far.
    counts: Counts,
    /// A driver moves the game, and `game` is what it reported last.
    outside: bool,
    detour: Option<Detour>,
}

/// The states of a game, or of one of its players.
struct Past {
    history: History,
    /// What happened since the newest of them.
    carried: Outcome,
}

impl Past {
    fn new(size: usize, track: &Track) -> Self {
        Self { history: History::new(size, track.depth), carried: Outcome::default() }
    }
}

/// What a game has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// States reached.
    pub states: u64,
    /// Episodes that ended.
    pub episodes: u64,
}

impl Slot {
    /// A game before its first state.
    pub fn new(game: Box<dyn Game>, id: u32, seed: u64, outside: bool, plan: &Plan) -> Self {
        let size = plan.columns.size();
        Self {
            game,
            id,
            tid: 0,
            seed,
            episode: 0,
            seq: 0,
            point: Point::Fresh,
            over: false,
            player: 0,
            past: Past::new(size, &plan.tracks[0]),
            shares: plan.tracks[1..].iter().map(|track| Past::new(size, track)).collect(),
            present: 0,
            answered: 0,
            counts: Counts::default(),
            outside,
            detour: None,
        }
    }

    /// The same as a query of the game.
    pub fn query(mut self, tid: u32) -> Self {
        self.tid = tid;
        self
    }

    /// Asks about a state that `game` shows.
    pub fn ask(&mut self, plan: &Plan, game: Box<dyn Game>) -> Wish {
        self.game = game;
        self.begin(plan);
        self.point = Point::Asking;
        Wish::Ask(plan.asked(self.player))
    }

    /// What the newest state was answered, by position of its column.
    pub fn answered(&mut self) -> &[u8] {
        self.past.history.newest()
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Goes on to where collectors are needed next.
    ///
    /// # Errors
    /// Those of the game.
    pub fn advance(&mut self, plan: &Plan) -> Result<Wish> {
        match self.detour.take() {
            Some(Detour::Stay) => {
                self.answered = 0;
                return Ok(Wish::Ask(plan.asked(self.player)));
            }
            Some(Detour::Begin(seed)) => self.begin_anew(seed),
            None => {}
        }
        if self.point == Point::Asking {
            self.point = Point::Telling;
            let due = self.due(plan);
            if due != 0 {
                return Ok(Wish::Tell(due));
            }
        }
        if self.outside {
            return Ok(Wish::Move);
        }
        self.go_on(plan)
    }

    fn go_on(&mut self, plan: &Plan) -> Result<Wish> {
        if self.begins() {
            self.begin(plan);
        } else {
            self.step(plan)?;
        }
        self.point = Point::Asking;
        Ok(Wish::Ask(plan.asked(self.player)))
    }

    /// Whether an episode begins next.
    fn begins(&self) -> bool {
        self.point == Point::Fresh || self.over
    }

    /// What its driver is to do.
    pub fn next_move(&self) -> Move {
        if self.begins() { Move::Reset(self.next_seed()) } else { Move::Step }
    }

    /// The action that its driver is to take.
    pub fn action(&mut self, plan: &Plan) -> &[u8] {
        &self.past.history.newest()[plan.columns.action()]
    }

    /// Goes on as a driver has reported: `game` shows the state that the move led to.
    ///
    /// # Errors
    /// Those of `game`.
    pub fn moved(&mut self, plan: &Plan, game: Box<dyn Game>) -> Result<Wish> {
        self.game = game;
        self.go_on(plan)
    }

    /// Gives up an episode because the game failed: it is as if there had been no state before the next. Adds
    /// to `lost`, for each collector, the states that it has not got of this game and never will.
    pub fn crash(&mut self, plan: &Plan, lost: &mut [u64]) {
        for (route, lost) in plan.routes.iter().zip(lost) {
            if !route.collector.replying() {
                let states = self.history(route.history).count();
                *lost += route.collector.undelivered(states);
            }
        }
        self.begin_anew(None);
    }

    /// Has it do something else than its next step.
    pub fn divert(&mut self, detour: Detour) {
        match (self.point, detour) {
            (Point::Fresh, Detour::Begin(seed)) => self.seed = seed.unwrap_or(self.seed),
            (Point::Fresh, Detour::Stay) => {}
            _ => self.detour = Some(detour),
        }
    }

    /// As if there had been no state before the next.
    fn begin_anew(&mut self, seed: Option<u64>) {
        for past in iter::once(&mut self.past).chain(&mut self.shares) {
            past.history.clear();
            past.carried = Outcome::default();
        }
        self.point = Point::Telling;
        self.over = true;
        if let Some(seed) = seed {
            self.seed = seed;
            // The next is number 0.
            self.episode = u32::MAX;
        }
    }

    fn due(&self, plan: &Plan) -> u64 {
        let mut due = 0;
        for (at, route) in plan.routes.iter().enumerate() {
            let seen = self.present >> route.history & 1 == 1;
            let listens = !route.collector.replying();
            if seen && listens && route.collector.due(self.history(route.history).count()) {
                due |= 1 << at;
            }
        }
        due
    }

    fn begin(&mut self, plan: &Plan) {
        self.game.reset(self.next_seed());
        self.episode = self.next_episode();
        self.seq = 0;
        self.over = false;
        self.enter(plan);
    }

    fn next_episode(&self) -> u32 {
        self.episode.wrapping_add(u32::from(self.point != Point::Fresh))
    }

    fn next_seed(&self) -> u64 {
        episode_seed(self.seed, self.id, self.next_episode())
    }

    fn step(&mut self, plan: &Plan) -> Result<()> {
        let action = Action(&self.past.history.newest()[plan.columns.action()]);
        let outcome = self.game.step(action)?;
        let pasts = iter::once(&mut self.past).chain(&mut self.shares);
        for (Past { carried, .. }, track) in pasts.zip(&plan.tracks) {
            let paid = |player| self.game.reward(outcome, player);
            carried.reward += track.player.map_or(outcome.reward, paid);
            carried.terminated |= outcome.terminated;
            carried.truncated |= outcome.truncated;
        }
        self.seq = self.seq.wrapping_add(1);
        self.over = outcome.terminated || outcome.truncated;
        self.counts.episodes += u64::from(self.over);
        self.enter(plan);
        Ok(())
    }

    /// Records the state that the game is in.
    fn enter(&mut self, plan: &Plan) {
        let player = self.game.player();
        self.player = player;
        self.counts.states += 1;
        self.answered = 0;
        self.present = 0;
        for (at, track) in plan.tracks.iter().enumerate() {
            if track.player.is_none_or(|only| only == player) {
                self.present |= 1 << at;
                self.record(plan, at);
            }
        }
    }

    fn record(&mut self, plan: &Plan, at: usize) {
        let columns = &plan.columns;
        let past = at.checked_sub(1).map_or(&mut self.past, |at| &mut self.shares[at]);
        let Past { history, carried } = past;
        let outcome = *carried;
        let mut head = [0; HEAD];
        let mut put = |at: Range<usize>, bytes: &[u8]| head[at].copy_from_slice(bytes);
        put(const { Fixed::Id.range() }, &self.id.to_ne_bytes());
        put(const { Fixed::Tid.range() }, &self.tid.to_ne_bytes());
        put(const { Fixed::Seq.range() }, &self.seq.to_ne_bytes());
        put(const { Fixed::Episode.range() }, &self.episode.to_ne_bytes());
        put(const { Fixed::LastReward.range() }, &outcome.reward.to_ne_bytes());
        put(const { Fixed::Ended.range() }, &[u8::from(self.over && outcome.terminated)]);
        put(const { Fixed::Cut.range() }, &[u8::from(self.over && outcome.truncated)]);
        // The other keys tell of the end of an episode in the first state after it.
        let mut rest = Outcome { reward: 0.0, ..outcome };
        if !self.over {
            put(const { Fixed::LastTerminal.range() }, &[u8::from(outcome.terminated)]);
            put(const { Fixed::LastTruncated.range() }, &[u8::from(outcome.truncated)]);
            rest = Outcome::default();
        }
        let record = history.push();
        record[..HEAD].copy_from_slice(&head);
        for (key, range) in columns.game_keys().enumerate() {
            self.game.write(key, &mut record[range]);
        }
        record[columns.all_replies()].fill(0);
        *carried = rest;
    }

    /// Takes an answer to the present state; where a later collector has answered the same key, its stays.
    pub fn apply(&mut self, plan: &Plan, at: usize, batch: &Batch, row: usize) {
        for take in &plan.routes[at].takes {
            if self.answered & take.later != 0 {
                continue;
            }
            let pasts = iter::once(&mut self.past).chain(&mut self.shares);
            for (at, Past { history, .. }) in pasts.enumerate() {
                if self.present >> at & 1 == 1 {
                    batch.read(take.part, row, &mut history.newest()[take.range.clone()]);
                }
            }
        }
        self.answered |= 1 << at;
    }

    /// Its states, or those of one player, as the plan's tracks are numbered.
    #[inline]
    pub fn history(&self, track: usize) -> &History {
        let past = track.checked_sub(1).map_or(&self.past, |at| &self.shares[at]);
        &past.history
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
