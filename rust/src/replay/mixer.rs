//! Samples of several servers, mixed into batches.

use std::collections::VecDeque;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::replay::cache::Cache;
use crate::replay::cache_store::{TakenSamples, WeightedChoice, too_large};
use crate::replay::draw::uniform;

/// Decides which server each row of a batch comes from, and queues the caches of servers until they are used.
///
/// Rows are planned before servers are asked, and a plan is kept until it can be carried out: if it were drawn again, a
/// server that is late would be drawn less often than its weight says.
#[derive(Debug)]
pub struct Mixer<B> {
    queues: Vec<ServerQueue<B>>,
    /// The server of each row to come.
    plan: VecDeque<u32>,
    rng: Xoshiro256PlusPlus,
}

/// The caches of one server, oldest first.
#[derive(Debug)]
struct ServerQueue<B> {
    caches: VecDeque<Arc<Cache<B>>>,
    /// Samples of the first cache that are used.
    used: usize,
    /// Samples of all caches that are not.
    unused: usize,
}

impl<B: AsRef<[u8]>> Mixer<B> {
    /// Creates a mixer of so many servers.
    pub fn new(servers: usize, rng: Xoshiro256PlusPlus) -> Self {
        let queue = |_| ServerQueue { caches: VecDeque::new(), used: 0, unused: 0 };
        Self { queues: (0..servers).map(queue).collect(), plan: VecDeque::new(), rng }
    }

    /// Queues a cache of a server; all caches must have one shape. Fails with [`Error::Index`] for an unknown server.
    pub fn push(&mut self, server: usize, samples: Cache<B>) -> Result<()> {
        let count = self.queues.len();
        let queue = self.queues.get_mut(server).ok_or_else(|| {
            Error::Index(format!("server: expected one of {count}, got {server}"))
        })?;
        queue.unused += samples.rows();
        queue.caches.push_back(Arc::new(samples));
        Ok(())
    }

    /// Unused samples of each server.
    pub fn unused(&self) -> Vec<usize> {
        self.queues.iter().map(|queue| queue.unused).collect()
    }

    /// Draws servers in proportion to `weights`, one per server, until so many rows are planned. Plans nothing and fails
    /// with [`Error::Value`] unless the weights are as many finite numbers >= 0 as there are servers, and with
    /// [`Error::State`] when all are 0.
    pub fn plan(&mut self, rows: usize, weights: &[f64]) -> Result<()> {
        let servers = self.queues.len();
        let valid = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if weights.len() != servers || !valid {
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

    /// Removes the rows of a server from the plan.
    pub fn forget(&mut self, server: usize) {
        self.plan.retain(|&planned| planned as usize != server);
    }

    /// Of the next planned rows, how many samples each server has still to send.
    pub fn lacking(&self, rows: usize) -> Vec<usize> {
        let mut counts = vec![0_usize; self.queues.len()];
        for &server in self.plan.iter().take(rows) {
            counts[server as usize] += 1;
        }
        let pairs = counts.iter().zip(&self.queues);
        pairs.map(|(count, queue)| count.saturating_sub(queue.unused)).collect()
    }

    /// Takes the next planned rows, all or nothing. Fails with [`Error::State`] when some are not planned or not here yet.
    /// Takes O(rows + queued caches).
    pub fn take(&mut self, rows: usize) -> Result<TakenSamples<B>> {
        let lacking: usize = self.lacking(rows).iter().sum();
        if self.plan.len() < rows || lacking > 0 {
            let have = self.plan.len().min(rows.saturating_sub(lacking));
            let text = format!("insufficient samples: have {have}, need batch_size={rows}");
            return Err(Error::State(text));
        }
        let mut picks = Vec::new();
        picks.try_reserve_exact(rows).map_err(|_| too_large(rows))?;
        let mut caches = Vec::new();
        // The position of each server's current cache in `caches`.
        let mut current: Vec<Option<u32>> = vec![None; self.queues.len()];
        for server in self.plan.drain(..rows) {
            let server = server as usize;
            let queue = &mut self.queues[server];
            let cache = current[server].unwrap_or_else(|| {
                caches.extend(queue.caches.front().map(Arc::clone));
                caches.len() as u32 - 1
            });
            picks.push((cache, queue.used as u32));
            current[server] = if queue.use_sample() { None } else { Some(cache) };
        }
        let senders = vec![0; caches.len()];
        Ok(TakenSamples { caches, senders, picks })
    }
}

impl<B: AsRef<[u8]>> ServerQueue<B> {
    /// Counts the next sample as used. Returns whether it was the last of the first cache, which is then removed.
    fn use_sample(&mut self) -> bool {
        self.used += 1;
        self.unused -= 1;
        let last = self.caches.front().is_some_and(|first| first.rows() == self.used);
        if last {
            self.caches.pop_front();
            self.used = 0;
        }
        last
    }
}
