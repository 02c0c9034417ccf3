//! Queries: requests that a game makes while it is stepped, such as those of a search in threads of its own. Under the lock
//! of the scheduler.
//!
//! A query has a game state of its own behind those of the games, which is asked about once and never moves. An env worker
//! whose game waits for an answer does nothing, so neither the worker nor the moves left to it count as running.

use foldhash::HashSet;

use crate::error::{Error, Result};

/// The unanswered queries. Games have the numbers below their count; the queries of the first game follow, then those of the
/// next.
#[derive(Debug)]
pub struct Queries {
    /// Queries of each game.
    each: usize,
    asked: HashSet<u32>,
    answered: HashSet<u32>,
    /// Unanswered queries of each game.
    open: Vec<usize>,
    /// The game that each env worker steps, where games may ask.
    moving: Vec<Option<u32>>,
}

impl Queries {
    /// Creates the queries of so many games; `states` are games and queries together.
    pub fn new(games: usize, states: usize, env_workers: usize) -> Self {
        let each = (states / games.max(1)).saturating_sub(1);
        let (asked, answered) = Default::default();
        Self { each, asked, answered, open: vec![0; games], moving: vec![None; env_workers] }
    }
    pub fn is_query(&self, number: u32) -> bool {
        number as usize >= self.open.len()
    }

    /// The env worker of a game. Adjacent games share one, and numbers of games differ by at most one.
    pub fn env_worker_of(&self, game: u32) -> usize {
        game as usize * self.moving.len() / self.open.len()
    }

    /// Begins query `tid` of a game and returns its number. Fails with [`Error::Value`] for an unknown query, with
    /// [`Error::State`] for an unanswered one.
    pub fn begin(&mut self, game: usize, tid: usize) -> Result<u32> {
        if game >= self.open.len() {
            let expected = format!("an integer in [0, {})", self.open.len());
            return Err(Error::value("game", expected, game));
        }
        if !(1..=self.each).contains(&tid) {
            let expected = format!("an integer in [1, max_num_threads = {}]", self.each);
            return Err(Error::value("tid", expected, tid));
        }
        let query = (self.open.len() + game * self.each + tid - 1) as u32;
        if !self.asked.insert(query) {
            let text = format!("query {tid} of game {game} was asked before and has no answer yet");
            return Err(Error::State(text));
        }
        self.open[game] += 1;
        Ok(query)
    }

    pub fn answered(&mut self, query: u32) {
        let game = (query as usize - self.open.len()) / self.each;
        self.open[game] -= 1;
        self.answered.insert(query);
    }

    pub fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Ends a query if it is answered. Returns whether it is.
    pub fn end(&mut self, query: u32) -> bool {
        self.answered.remove(&query) && self.asked.remove(&query)
    }

    /// Sets the games that an env worker steps: only one where games may ask.
    pub fn set_moving(&mut self, env_worker: usize, games: &[u32]) {
        self.moving[env_worker] = games.first().copied().filter(|_| self.each > 0);
    }

    /// Whether an env worker waits for the answer to its game.
    pub fn is_blocked(&self, env_worker: usize) -> bool {
        self.moving[env_worker].is_some_and(|game| self.open[game as usize] > 0)
    }

    pub fn blocked_count(&self) -> usize {
        (0..self.moving.len()).filter(|&env_worker| self.is_blocked(env_worker)).count()
    }
}
