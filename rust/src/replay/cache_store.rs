//! The newest caches of all clients, and batches from them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::replay::cache::{Cache, CacheShape};
use crate::replay::draw::uniform;
use crate::replay::sender_counters::{CacheCounts, SenderCounters};

/// The newest `capacity` caches, first in, first out.
///
/// Sampling has two phases. A client has drawn a cache from its memory in proportion to weights; here a cache is drawn in
/// proportion to the sum of weights of its memory, and its next sample is taken. Together this draws as if all memories
/// were one.
///
/// Generic over the owner of the bytes, which stay where they arrived until a batch is gathered from them. The caller has a
/// lock around the store: it takes samples under that lock and gathers after it, so that receiving never waits for a batch.
#[derive(Debug)]
pub struct CacheStore<B> {
    capacity: usize,
    shape: CacheShape,
    held: VecDeque<StoredCache<B>>,
    rng: Xoshiro256PlusPlus,
    counters: SenderCounters,
    given: u64,
    discarded: u64,
}

/// Clients with counts of their own in a [`Snapshot`].
pub const MOST_CLIENTS: usize = 1024;

/// A store's metrics at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Caches held.
    pub held: usize,
    /// Samples held that have not been given yet.
    pub unused: usize,
    /// Sum of the caches' sums of weights.
    pub weight_sum: f64,
    /// Samples given, reused ones as often as they were.
    pub given: u64,
    /// Samples that were replaced before they were given once.
    pub discarded: u64,
    /// Age of the oldest cache held.
    pub oldest: Option<Duration>,
    /// Age of the newest cache held.
    pub newest: Option<Duration>,
    /// Received in all.
    pub received: CacheCounts,
    /// Received from clients without counts of their own.
    pub others: CacheCounts,
    /// Received from each client, the latest sender last.
    pub clients: Vec<(u32, CacheCounts)>,
}

/// A cache that a store holds.
#[derive(Debug)]
pub struct StoredCache<B> {
    /// The samples.
    pub cache: Arc<Cache<B>>,
    /// The client that they came from.
    pub sender: u32,
    /// The row to be given next.
    pub next: usize,
    /// Rows that have been given at least once.
    seen: usize,
    arrived: Instant,
}

impl<B> Clone for StoredCache<B> {
    fn clone(&self) -> Self {
        Self { cache: Arc::clone(&self.cache), ..*self }
    }
}

impl<B: AsRef<[u8]>> StoredCache<B> {
    fn left(&self) -> usize {
        self.cache.rows() - self.next
    }

    fn take(&mut self, reuse: bool) -> u32 {
        let row = if reuse && self.left() == 0 { 0 } else { self.next };
        self.next = row + 1;
        self.seen = self.seen.max(self.next);
        row as u32
    }

    fn unseen(&self) -> u64 {
        (self.cache.rows() - self.seen) as u64
    }
}

impl<B: AsRef<[u8]>> CacheStore<B> {
    /// An empty store for caches of one shape.
    pub fn new(capacity: usize, shape: CacheShape, rng: Xoshiro256PlusPlus) -> Self {
        let counters = SenderCounters::new(MOST_CLIENTS);
        Self { capacity, shape, held: VecDeque::new(), rng, counters, given: 0, discarded: 0 }
    }

    /// Caches held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no cache is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Samples that have not been given yet.
    pub fn unused(&self) -> usize {
        self.held.iter().map(StoredCache::left).sum()
    }

    /// Sum of the caches' sums of weights.
    pub fn weight_sum(&self) -> f64 {
        // A sum of nothing is -0.
        0.0 + self.held.iter().map(|held| held.cache.weight_sum()).sum::<f64>()
    }

    /// The weight of this store among those of other servers: 0 while it has too few caches to be sampled.
    pub fn offered(&self) -> f64 {
        if self.len() < self.capacity { 0.0 } else { self.weight_sum() }
    }

    /// Changes the shape of the caches. Returns the caches held, which have another shape.
    pub fn reshape(&mut self, shape: CacheShape) -> Vec<Arc<Cache<B>>> {
        if self.shape == shape {
            return Vec::new();
        }
        self.shape = shape;
        self.discarded += self.held.iter().map(StoredCache::unseen).sum::<u64>();
        self.held.drain(..).map(|held| held.cache).collect()
    }

    /// Adds a cache that `sender` sent. Returns the oldest one, which it replaces when the store is full.
    pub fn push(
        &mut self,
        cache: Cache<B>,
        sender: u32,
        arrived: Instant,
    ) -> Option<Arc<Cache<B>>> {
        let (samples, bytes) = (cache.rows() as u64, cache.nbytes() as u64);
        self.counters.add(sender, CacheCounts { caches: 1, samples, bytes });
        let full = self.held.len() >= self.capacity;
        let oldest = if full { self.held.pop_front() } else { None };
        self.discarded += oldest.as_ref().map_or(0, StoredCache::unseen);
        self.held.push_back(StoredCache {
            cache: Arc::new(cache),
            sender,
            next: 0,
            seen: 0,
            arrived,
        });
        oldest.map(|held| held.cache)
    }

    /// The caches held, oldest first.
    pub fn held(&self) -> Vec<StoredCache<B>> {
        self.held.iter().cloned().collect()
    }

    /// Goes on with the newest cache at a row, those before which were given; with the last at most.
    pub fn resume_newest(&mut self, next: usize) {
        if let Some(newest) = self.held.back_mut() {
            newest.next = next.min(newest.cache.rows());
            newest.seen = newest.next;
        }
    }

    /// Goes on with the counts of a store before this one, whose caches were pushed here.
    pub fn resume(&mut self, before: &Snapshot) {
        (self.given, self.discarded) = (before.given, before.discarded);
        self.counters.resume(before.received, before.others, &before.clients);
    }

    /// The metrics at a moment. Takes O(caches + clients).
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let age = |held: &StoredCache<B>| now.saturating_duration_since(held.arrived);
        Snapshot {
            held: self.len(),
            unused: self.unused(),
            weight_sum: self.weight_sum(),
            given: self.given,
            discarded: self.discarded,
            oldest: self.held.front().map(age),
            newest: self.held.back().map(age),
            received: self.counters.total,
            others: self.counters.others,
            clients: self.counters.senders(),
        }
    }

    /// Takes the samples of a batch, all or nothing. Fails with [`Error::State`] and the counts when there are too few.
    /// Takes O(rows log caches), and O(caches) for each cache that is used up.
    pub fn take(&mut self, rows: usize, reuse: bool) -> Result<TakenSamples<B>> {
        self.check(rows, reuse)?;
        let mut choice = WeightedChoice::new(
            self.held
                .iter()
                .map(|held| if reuse || held.left() > 0 { held.cache.weight_sum() } else { 0.0 }),
        );
        let mut picks = Vec::new();
        picks.try_reserve_exact(rows).map_err(|_| too_large(rows))?;
        for _ in 0..rows {
            let at = choice.find(uniform(&mut self.rng));
            let held = &mut self.held[at];
            picks.push((at as u32, held.take(reuse)));
            if !reuse && held.left() == 0 {
                choice.drop(at);
            }
        }
        self.given += rows as u64;
        let caches = self.held.iter().map(|held| Arc::clone(&held.cache)).collect();
        let senders = self.held.iter().map(|held| held.sender).collect();
        Ok(TakenSamples { caches, senders, picks })
    }

    /// Fails with [`Error::State`] and the counts when there are too few samples.
    pub fn check(&self, rows: usize, reuse: bool) -> Result<()> {
        let (caches, capacity, unused) = (self.len(), self.capacity, self.unused());
        if caches < capacity {
            return Err(Error::State(format!(
                "insufficient caches: have {caches}, need n_caches={capacity}"
            )));
        }
        if !reuse && unused < rows {
            return Err(Error::State(format!(
                "insufficient caches: have {unused} unused samples, need batch_size={rows}; more come \
                 with push_cache, or set reuse_cache"
            )));
        }
        Ok(())
    }
}

pub(super) fn too_large(rows: usize) -> Error {
    Error::Memory(format!("batch_size: no memory for {rows} rows"))
}

/// Samples taken for one batch. Later changes of the store do not affect them.
#[derive(Debug)]
pub struct TakenSamples<B> {
    pub(super) caches: Vec<Arc<Cache<B>>>,
    pub(super) senders: Vec<u32>,
    /// Cache and row of each sample.
    pub(super) picks: Vec<(u32, u32)>,
}

impl<B: AsRef<[u8]>> TakenSamples<B> {
    /// Copies all columns of the samples into `out`, one slice per column, row after row. Goes sample by sample, so that
    /// the bytes of a cache are looked up once for all of its columns.
    pub fn gather(&self, out: &mut [&mut [u8]]) {
        for (at, &(cache, row)) in self.picks.iter().enumerate() {
            let from = self.caches[cache as usize].row(row as usize);
            for (out, bytes) in out.iter_mut().zip(from) {
                copy(bytes, &mut out[at * bytes.len()..][..bytes.len()]);
            }
        }
    }

    /// Calls `visit` with the frame of each column of each sample, and which of its bytes are the sample's.
    pub fn visit(&self, mut visit: impl FnMut(&B, Range<usize>)) {
        for &(cache, row) in &self.picks {
            let row = row as usize;
            for (frame, bytes) in self.caches[cache as usize].places(row..row + 1) {
                visit(frame, bytes);
            }
        }
    }

    /// The sender of each sample.
    pub fn senders(&self) -> impl Iterator<Item = u32> {
        self.picks.iter().map(|&(cache, _)| self.senders[cache as usize])
    }
}

/// Copies a row. Most rows have a few bytes, for which a call would cost more than the copy.
#[inline]
fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        4 => to[..4].copy_from_slice(&from[..4]),
        8 => to[..8].copy_from_slice(&from[..8]),
        _ => to.copy_from_slice(from),
    }
}

/// Draws in proportion to a few weights that rarely change.
pub(super) struct WeightedChoice {
    weights: Vec<f64>,
    /// Sums of the weights up to each.
    ends: Vec<f64>,
}

impl WeightedChoice {
    pub(super) fn new(weights: impl Iterator<Item = f64>) -> Self {
        let mut choice = Self { weights: weights.collect(), ends: Vec::new() };
        choice.sum();
        choice
    }

    fn sum(&mut self) {
        let mut sum = 0.0;
        self.ends.clear();
        self.ends.extend(self.weights.iter().map(|weight| {
            sum += weight;
            sum
        }));
    }

    fn drop(&mut self, at: usize) {
        self.weights[at] = 0.0;
        self.sum();
    }

    /// The index for a number in [0, 1), never one of weight 0.
    pub(super) fn find(&self, uniform: f64) -> usize {
        let target = uniform * self.ends.last().copied().unwrap_or(0.0);
        let at = self.ends.partition_point(|&end| end <= target);
        // Rounding can put the target at the very end.
        let last = || self.weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
        if at < self.ends.len() { at } else { last() }
    }
}
