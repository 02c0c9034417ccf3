//! Questions that a game asks beside, while it makes a move: those of a search in threads of its own.

use rustc_hash::FxHashSet;

use crate::collector::context::Context;
use crate::collector::runtime::lock;
use crate::collector::scheduler::Scheduler;
use crate::collector::work_batch::{Role, Task, WorkBatch};
use crate::error::{Error, Result};
use crate::games::Game;

/// Which queries are under way.
#[derive(Debug)]
pub struct Queries {
    each: usize,
    asked: FxHashSet<u32>,
    answered: FxHashSet<u32>,
    /// For each game, how many of its queries have no answer yet.
    open: Vec<usize>,
    /// For each driver the game that it moves, where games may ask.
    hands: Vec<Option<u32>>,
}

impl Queries {
    /// None yet, of so many slots those after the games'.
    pub fn new(games: usize, slots: usize, env_workers: usize) -> Self {
        let each = (slots / games.max(1)).saturating_sub(1);
        let (asked, answered) = Default::default();
        Self { each, asked, answered, open: vec![0; games], hands: vec![None; env_workers] }
    }

    /// Whether a slot is one of queries.
    pub fn is_query(&self, slot: u32) -> bool {
        slot as usize >= self.open.len()
    }

    /// Which driver moves a game: each has as many, one more or less, one after the other.
    pub fn driver_of(&self, game: u32) -> usize {
        game as usize * self.hands.len() / self.open.len()
    }

    /// The slot of a query.
    fn slot(&self, game: usize, tid: usize) -> Result<u32> {
        if game >= self.open.len() {
            let expected = format!("an integer in [0, {})", self.open.len());
            return Err(Error::value("game", expected, game));
        }
        if !(1..=self.each).contains(&tid) {
            let expected = format!("an integer in [1, max_num_threads = {}]", self.each);
            return Err(Error::value("tid", expected, tid));
        }
        Ok((self.open.len() + game * self.each + tid - 1) as u32)
    }

    fn begin(&mut self, slot: u32, game: usize, tid: usize) -> Result<()> {
        if !self.asked.insert(slot) {
            let text = format!("query {tid} of game {game} was asked before and has no answer yet");
            return Err(Error::State(text));
        }
        self.open[game] += 1;
        Ok(())
    }

    /// Says that a query has all its answers.
    pub fn answered(&mut self, slot: u32) {
        let game = (slot as usize - self.open.len()) / self.each;
        self.open[game] -= 1;
        self.answered.insert(slot);
    }

    /// Whether somebody is to be told.
    pub fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    fn end(&mut self, slot: u32) -> bool {
        self.answered.remove(&slot) && self.asked.remove(&slot)
    }

    /// Says which games a driver moves: one at a time where games may ask.
    pub fn set_hand(&mut self, env_worker: usize, games: &[u32]) {
        self.hands[env_worker] = games.first().copied().filter(|_| self.each > 0);
    }

    /// Whether a driver can do nothing until the game that it moves has been answered.
    pub fn holds_up(&self, env_worker: usize) -> bool {
        self.hands[env_worker].is_some_and(|game| self.open[game as usize] > 0)
    }

    /// How many drivers that is so of.
    pub fn held_up(&self) -> usize {
        (0..self.hands.len()).filter(|&env_worker| self.holds_up(env_worker)).count()
    }
}

impl Scheduler {
    /// Has a game go on, or a query be answered.
    pub(super) fn go_on(&mut self, slot: u32) {
        if self.queries.is_query(slot) {
            self.queries.answered(slot);
        } else {
            self.push(slot);
        }
    }
}

impl Context {
    /// Asks every answering collector about a state, as query `tid` of a game that a driver is moving, and waits
    /// for the answers: for each key that anybody replies its bytes.
    ///
    /// # Errors
    /// [`Error::Value`] when there is no such query, [`Error::State`] when it is under way or the run is over.
    pub fn query(
        &self,
        game: usize,
        tid: usize,
        shown: Box<dyn Game>,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let shared = &*self.shared;
        let mut scheduler = lock(&shared.scheduler);
        scheduler.life.check()?;
        let slot = scheduler.queries.slot(game, tid)?;
        scheduler.queries.begin(slot, game, tid)?;
        let tasks = vec![Task::Query(slot)];
        scheduler.running += tasks.len();
        drop(scheduler);
        let wish = shared.slots_of(slot).ask(&shared.plan, slot, shown);
        let wish = wish.inspect_err(|error| shared.fail(error.clone()))?;
        let mut chunk = WorkBatch { tasks, slot, ..WorkBatch::default() };
        chunk.wish(wish, [slot]);
        let mut scheduler = shared.run(lock(&shared.scheduler), &mut chunk, Role::Worker);
        while !scheduler.queries.end(slot) {
            scheduler.life.check()?;
            // The threads that would do what is to be done may all wait here.
            scheduler = if scheduler.pick(&mut chunk, Role::Worker) {
                shared.run(scheduler, &mut chunk, Role::Worker)
            } else {
                shared.rest(scheduler, None)
            };
        }
        drop(scheduler);
        Ok(shared.slots_of(slot).answers(&shared.plan, slot))
    }
}
