//! The rate limiter of a memory, and its counts.
//!
//! An entry counts as removed while it is neither held nor to be drawn any more: after it was evicted, or drawn
//! `max_times_sampled` times. So `inserts - removed` are the entries of closed episodes that are held and not used up, final
//! states left out.

use crate::error::{Error, Result};
use crate::replay::episode::{Episode, LARGEST_COUNT};
use crate::replay::memory::Memory;
use crate::replay::rate_limiter::{Limited, LimiterCounts, RateLimiter};

impl Memory {
    /// Sets the rate limiter. Counts go on if there was one; else they begin with the entries held, as if these had just been
    /// inserted. Changes nothing and fails with [`Error::Value`] when `min_size` exceeds `max_step`.
    pub fn set_limiter(&mut self, limiter: Option<RateLimiter>) -> Result<()> {
        let Some(limiter) = limiter else {
            self.limited = None;
            return Ok(());
        };
        if limiter.min_size_to_sample() > self.max_step() as u64 {
            let expected = format!("min_size of at most max_step = {}", self.max_step());
            return Err(Error::value("limiter", expected, limiter.min_size_to_sample()));
        }
        let counts = self.limited.map_or_else(
            || {
                let inserts = self.closed_episodes().map(|episode| episode.actions() as u64).sum();
                LimiterCounts { inserts, ..LimiterCounts::default() }
            },
            |limited| limited.counts,
        );
        self.limited = Some(Limited { limiter, counts });
        self.evicted_too_early = 0;
        self.recount_removed();
        Ok(())
    }

    /// The rate limiter.
    pub fn limiter(&self) -> Option<&RateLimiter> {
        self.limited.as_ref().map(|limited| &limited.limiter)
    }

    /// What the rate limiter has counted; None without one.
    pub fn limiter_counts(&self) -> Option<LimiterCounts> {
        self.limited.map(|limited| limited.counts)
    }

    /// Why the rate limiter does not allow a batch of n yet; None when it does.
    pub fn sample_shortage(&self, n: usize) -> Option<String> {
        self.limited
            .and_then(|Limited { limiter, counts }| limiter.sample_shortage(n as u64, &counts))
    }

    /// Fails with [`Error::Value`] when the memory evicts episodes before it holds `min_size` entries, so that a wait for
    /// samples would never end.
    pub fn check_min_size(&self) -> Result<()> {
        let Some(Limited { limiter, .. }) = self.limited else { return Ok(()) };
        let min_size = limiter.min_size_to_sample();
        if self.evicted_too_early < min_size || self.has_min_size() {
            return Ok(());
        }
        let expected = format!(
            "a min_size that is held with max_step={} and max_episode={}, by which {} entries were evicted too early",
            self.max_step(),
            self.settings.max_episode,
            self.evicted_too_early
        );
        Err(Error::value("limiter", expected, format!("min_size={min_size}")))
    }

    /// Counts the entries that are not used up of the episode at a position in the order of closing, which is about to be
    /// evicted for room.
    pub(super) fn note_evicted(&mut self, at: usize) {
        if self.limited.is_some() {
            self.evicted_too_early += self.episode(at).map_or(0, |each| self.count_unused(each));
        }
    }

    /// Whether a limiter's `min_size` is held.
    pub(super) fn has_min_size(&self) -> bool {
        self.limited.is_some_and(|Limited { limiter, counts }| limiter.has_size(&counts))
    }

    /// Why the rate limiter does not allow an insert yet; None when it does.
    pub fn insert_shortage(&self) -> Option<String> {
        self.limited.and_then(|Limited { limiter, counts }| limiter.insert_shortage(&counts))
    }

    /// Counts samples that were given.
    pub fn count_samples(&mut self, n: usize) {
        if let Some(limited) = &mut self.limited {
            let samples = limited.counts.samples + n as u64;
            limited.counts.samples = samples.min(LARGEST_COUNT);
        }
    }

    pub(super) fn count_inserts(&mut self, n: usize) {
        if let Some(limited) = &mut self.limited {
            let inserts = limited.counts.inserts + n as u64;
            limited.counts.inserts = inserts.min(LARGEST_COUNT);
        }
    }

    /// Counts entries that were drawn for the last time.
    pub(super) fn count_used_up(&mut self, times_sampled: &[u32]) {
        if let Some(limited) = &mut self.limited {
            let limit = self.index.limit();
            let used_up = times_sampled.iter().filter(|&&times| times == limit).count();
            limited.counts.remove(used_up as u64);
        }
    }

    /// Counts the entries of a closed episode that is about to be evicted.
    pub(super) fn count_evicted(&mut self, index: u32) {
        if self.limited.is_some() {
            let removed = self.count_unused(&self.episodes[index as usize]);
            if let Some(limited) = &mut self.limited {
                limited.counts.remove(removed);
            }
        }
    }

    /// Counts anew after `max_times_sampled` was changed, which can make used-up entries usable again.
    pub(super) fn recount_removed(&mut self) {
        if self.limited.is_some() {
            let unused: u64 = self.closed_episodes().map(|each| self.count_unused(each)).sum();
            if let Some(limited) = &mut self.limited {
                limited.counts.removed = limited.counts.inserts.saturating_sub(unused);
            }
        }
    }

    /// The entries with an action of an episode that have not been drawn as often as allowed.
    fn count_unused(&self, episode: &Episode) -> u64 {
        let (actions, limit) = (episode.actions(), self.index.limit());
        if limit == 0 {
            return actions as u64;
        }
        let slots = episode.pieces_of(0..actions).flat_map(|(slots, _)| slots);
        slots.filter(|&slot| self.index.times_sampled(slot) < limit).count() as u64
    }
}
