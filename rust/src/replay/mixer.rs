//! Samples of several servers, mixed into batches.

use std::collections::VecDeque;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::replay::cache::Cache;
use crate::replay::cache_store::{TakenSamples, WeightedChoice, too_large};
use crate::replay::transition::uniform;

/// Decides which server each row of a batch comes from, and keeps what servers gave until it is used.
///
/// Rows are planned before anybody is asked for them, and a plan that cannot be carried out yet is kept: were
/// it drawn anew, whoever is late would be drawn less often than its weights say.
#[derive(Debug)]
pub struct Mixer<B> {
    queues: Vec<ServerQueue<B>>,
    /// The server of each row to come.
    plan: VecDeque<u32>,
    rng: Xoshiro256PlusPlus,
}

/// What one server gave, oldest first, and how much of the first is used.
#[derive(Debug)]
struct ServerQueue<B> {
    given: VecDeque<Arc<Cache<B>>>,
    used: usize,
    unused: usize,
}

impl<B: AsRef<[u8]>> Mixer<B> {
    /// For samples of so many servers.
    pub fn new(servers: usize, rng: Xoshiro256PlusPlus) -> Self {
        let queue = || ServerQueue { given: VecDeque::new(), used: 0, unused: 0 };
        let queues = (0..servers).map(|_| queue()).collect();
        Self { queues, plan: VecDeque::new(), rng }
    }

    /// Keeps what a server gave; all must be of one shape.
    ///
    /// # Errors
    /// [`Error::Index`] when there is no such server.
    pub fn push(&mut self, server: usize, samples: Cache<B>) -> Result<()> {
        let count = self.queues.len();
        let queue = self.queues.get_mut(server).ok_or_else(|| {
            Error::Index(format!("server: expected one of {count}, got {server}"))
        })?;
        queue.unused += samples.rows();
        queue.given.push_back(Arc::new(samples));
        Ok(())
    }

    /// Samples of each server that are not used yet.
    pub fn unused(&self) -> Vec<usize> {
        self.queues.iter().map(|queue| queue.unused).collect()
    }

    /// Draws servers in proportion to `weights`, a number for each, until so many rows are planned.
    ///
    /// # Errors
    /// [`Error::Value`] when there are not as many weights as servers, or one is none;
    /// [`Error::State`] when all are 0. Nothing is planned.
    pub fn plan(&mut self, rows: usize, weights: &[f64]) -> Result<()> {
        let servers = self.queues.len();
        let sound = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if weights.len() != servers || !sound {
            let expected = format!("{servers} numbers >= 0");
            return Err(Error::value("weights", expected, format!("{weights:?}")));
        }
        let more = rows.saturating_sub(self.plan.len());
        if more == 0 {
            return Ok(());
        }
        if weights.iter().sum::<f64>() <= 0.0 {
            return Err(Error::State("insufficient caches: no server has n_caches of them".into()));
        }
        self.plan.try_reserve(more).map_err(|_| too_large(rows))?;
        let choice = WeightedChoice::new(weights.iter().copied());
        for _ in 0..more {
            self.plan.push_back(choice.find(uniform(&mut self.rng)) as u32);
        }
        Ok(())
    }

    /// Strikes out the rows that are planned to come from a server.
    pub fn forget(&mut self, server: usize) {
        self.plan.retain(|&planned| planned as usize != server);
    }

    /// Of the next rows that are planned, how many each server has still to give.
    pub fn lacking(&self, rows: usize) -> Vec<usize> {
        let mut counts = vec![0; self.queues.len()];
        for &server in self.plan.iter().take(rows) {
            counts[server as usize] += 1;
        }
        let queues = self.queues.iter();
        counts.iter().zip(queues).map(|(count, queue)| queue.lacks(*count)).collect()
    }

    /// Takes the next rows that are planned: all of them, or none.
    ///
    /// # Errors
    /// [`Error::State`] when some are not planned or not here yet.
    ///
    /// # Complexity
    /// O(rows + what was given and is not used).
    pub fn take(&mut self, rows: usize) -> Result<TakenSamples<B>> {
        let lacking: usize = self.lacking(rows).iter().sum();
        if self.plan.len() < rows || lacking > 0 {
            let (planned, here) = (self.plan.len().min(rows), rows.saturating_sub(lacking));
            return Err(Error::State(format!(
                "insufficient samples: have {}, need batch_size={rows}",
                planned.min(here)
            )));
        }
        let mut picks = Vec::new();
        picks.try_reserve_exact(rows).map_err(|_| too_large(rows))?;
        let mut caches = Vec::new();
        // Where each server's current cache lies among `caches`.
        let mut current: Vec<Option<u32>> = vec![None; self.queues.len()];
        for server in self.plan.drain(..rows) {
            let server = server as usize;
            let queue = &mut self.queues[server];
            let cache = current[server].unwrap_or_else(|| {
                caches.extend(queue.given.front().map(Arc::clone));
                caches.len() as u32 - 1
            });
            picks.push((cache, queue.used as u32));
            current[server] = if queue.step() { None } else { Some(cache) };
        }
        let senders = vec![0; caches.len()];
        Ok(TakenSamples { caches, senders, picks })
    }
}

impl<B: AsRef<[u8]>> ServerQueue<B> {
    fn lacks(&self, count: usize) -> usize {
        count.saturating_sub(self.unused)
    }

    /// Uses a sample, and tells whether it was the last of the first cache, which then goes.
    fn step(&mut self) -> bool {
        self.used += 1;
        self.unused -= 1;
        let over = self.given.front().is_some_and(|first| first.rows() == self.used);
        if over {
            self.given.pop_front();
            self.used = 0;
        }
        over
    }
}
