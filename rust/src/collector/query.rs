//! Which queries are under way: requests that a game makes while it is stepped, such as those of a search in
//! threads of its own.

use foldhash::HashSet;

use crate::error::{Error, Result};

/// Which queries are under way.
///
/// Games have the numbers below their count; the queries of the first game follow, then those of the next.
#[derive(Debug)]
pub struct Queries {
    /// Queries of each game.
    each: usize,
    asked: HashSet<u32>,
    answered: HashSet<u32>,
    /// For each game, how many of its queries have no answer yet.
    open: Vec<usize>,
    /// For each env worker the game that it steps, where games may ask.
    moving: Vec<Option<u32>>,
}

impl Queries {
    /// No queries yet, of so many games; `states` are games and queries together.
    pub fn new(games: usize, states: usize, env_workers: usize) -> Self {
        let each = (states / games.max(1)).saturating_sub(1);
        let (asked, answered) = Default::default();
        Self { each, asked, answered, open: vec![0; games], moving: vec![None; env_workers] }
    }

    /// Whether a number is that of a query.
    pub fn is_query(&self, number: u32) -> bool {
        number as usize >= self.open.len()
    }

    /// Which env worker steps a game: adjacent games share one, and each has the same number of them, give or take
    /// one.
    pub fn env_worker_of(&self, game: u32) -> usize {
        game as usize * self.moving.len() / self.open.len()
    }

    /// Begins query `tid` of a game: its number. Fails with [`Error::Value`] when there is no such query,
    /// [`Error::State`] when it is under way.
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

    /// Marks a query as answered by all.
    pub fn answered(&mut self, query: u32) {
        let game = (query as usize - self.open.len()) / self.each;
        self.open[game] -= 1;
        self.answered.insert(query);
    }

    /// Whether a caller is to be told of an answer.
    pub fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Ends a query if it was answered. Returns whether it was.
    pub fn end(&mut self, query: u32) -> bool {
        self.answered.remove(&query) && self.asked.remove(&query)
    }

    /// Sets the games that an env worker steps: one at a time where games may ask.
    pub fn set_moving(&mut self, env_worker: usize, games: &[u32]) {
        self.moving[env_worker] = games.first().copied().filter(|_| self.each > 0);
    }

    /// Whether an env worker can do nothing until the game that it steps has been answered.
    pub fn holds_up(&self, env_worker: usize) -> bool {
        self.moving[env_worker].is_some_and(|game| self.open[game as usize] > 0)
    }

    /// How many env workers are held up.
    pub fn held_up(&self) -> usize {
        (0..self.moving.len()).filter(|&env_worker| self.holds_up(env_worker)).count()
    }
}
