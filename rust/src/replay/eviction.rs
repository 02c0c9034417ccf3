//! Which closed episodes are evicted: the setting `remover` says so.
//!
//! By mean weight an eviction takes O(log episodes), and the length of each episode whose weights have changed since the last.
//!
//! An episode without entries takes no slot. It counts as an episode, but evicts no episode with entries: above a limit, one
//! without entries goes first.

use crate::error::{Error, Result};
use crate::replay::episode::Episode;
use crate::replay::footprint::EMPTY_EPISODES;
use crate::replay::memory::Memory;
use crate::replay::removal_order::RemovalOrder;
use crate::replay::settings::Remover;

impl Memory {
    /// Evicts closed episodes until `count` slots are free. Evicts nothing and fails with [`Error::State`] when
    /// open episodes leave no room, with [`Error::File`] when the disk has none.
    pub(super) fn make_room(&mut self, count: usize) -> Result<()> {
        self.make_room_for(count, self.storage.largest(count))
    }

    /// The same for entries whose compressed values take so many bytes.
    pub(super) fn make_room_for(&mut self, count: usize, bytes: u64) -> Result<()> {
        self.check_room_for(count, bytes)?;
        self.reserve_on_disk(count, bytes)?;
        while (self.num_entry() + count > self.max_step() || self.storage.exceeds_limit(bytes))
            && self.evict_next()
        {}
        self.own_on_disk(count)
    }

    /// Fails with [`Error::State`] when `count` entries do not fit beside those of open episodes.
    pub(super) fn check_room(&self, count: usize) -> Result<()> {
        self.check_room_for(count, self.storage.largest(count))
    }

    fn check_room_for(&self, count: usize, bytes: u64) -> Result<()> {
        if self.used_by_open + count > self.max_step() {
            return Err(Error::State(format!(
                "no room for {count} more: open episodes hold {} of max_step={} entries; close or abort \
                 one, or make a larger memory",
                self.used_by_open,
                self.max_step()
            )));
        }
        let Some(fields) = &self.storage.compressed else { return Ok(()) };
        let (open, limit) = (fields.open_bytes(), fields.limit);
        if open.saturating_add(bytes) > limit {
            return Err(Error::State(format!(
                "no room for {count} more, whose compressed fields take up to {bytes} bytes: open \
                 episodes hold {open} of {limit} bytes (max_bytes); close or abort one, or make a \
                 larger memory"
            )));
        }
        Ok(())
    }

    /// Evicts closed episodes until the limits hold again; the newest has just been closed.
    pub(super) fn evict_past_limits(&mut self) {
        let limit = self.settings.max_episode;
        while limit > 0 && self.closed.len() > limit {
            // The search costs no more than keeping such episodes has saved.
            let empty = if self.empty > 0 { self.position_of_empty() } else { None };
            let at = empty.or_else(|| self.next_victim(true));
            let at = at.unwrap_or(0);
            self.note_evicted(at);
            self.evict(at);
        }
        if self.empty > EMPTY_EPISODES {
            self.evict(self.closed.len() - 1);
        }
    }

    /// The position of the newest closed episode if that has no entries, else of the oldest one without entries.
    fn position_of_empty(&self) -> Option<usize> {
        let is_empty = |&index: &u32| self.episodes[index as usize].is_empty();
        if self.closed.back().is_some_and(is_empty) {
            return Some(self.closed.len() - 1);
        }
        self.closed.iter().position(is_empty)
    }

    /// Evicts the closed episode that the remover names. Returns whether there was one.
    pub(super) fn evict_next(&mut self) -> bool {
        let Some(at) = self.next_victim(false) else { return false };
        // An open episode may take the room of closed ones, and hold `min_size` with them once it is closed.
        if !self.has_min_size() {
            self.note_evicted(at);
        }
        self.evict(at)
    }

    /// The position of the episode to evict in the order of closing, of all or all but the newest.
    fn next_victim(&mut self, newest_stays: bool) -> Option<usize> {
        let count = self.closed.len() - usize::from(newest_stays && !self.closed.is_empty());
        match self.settings.remover {
            _ if count == 0 => None,
            Remover::Fifo => Some(0),
            Remover::Lifo => Some(count - 1),
            Remover::Lowest | Remover::Highest => self.by_weight(newest_stays),
        }
    }

    fn by_weight(&mut self, newest_stays: bool) -> Option<usize> {
        let mut order = self.removal.take().or_else(|| {
            let mut order = RemovalOrder::new(self.settings.remover)?;
            self.closed.iter().for_each(|&index| order.change(index));
            Some(order)
        })?;
        for index in order.take_changed() {
            let episode = &self.episodes[index as usize];
            order.set(episode.number, self.mean_weight(episode));
        }
        let number = |&index: &u32| self.episodes[index as usize].number;
        let kept = self.closed.back().filter(|_| newest_stays).map(number);
        let first = order.first_but(kept);
        self.removal = Some(order);
        first.and_then(|first| self.closed.binary_search_by_key(&first, number).ok())
    }

    /// The mean weight of an episode's entries with an action, inside the borders or not; 0 without such entries.
    fn mean_weight(&self, episode: &Episode) -> f64 {
        let weights = episode.slots().take(episode.actions()).map(|slot| self.weights[slot].weight);
        // A sum of nothing is -0.
        (0.0 + weights.map(f64::from).sum::<f64>()) / episode.actions().max(1) as f64
    }

    /// Evicts the closed episode at a position in the order of closing. Returns whether there was one.
    pub(super) fn evict(&mut self, at: usize) -> bool {
        let Some(index) = self.closed.remove(at) else { return false };
        self.count_evicted(index);
        let episode = self.forget(index);
        self.remove_anchors(&episode);
        self.empty -= usize::from(episode.is_empty());
        self.index.remove_episode(episode.number);
        for view in &mut self.views {
            view.index.remove_episode(episode.number);
            episode.pieces().for_each(|slots| view.index.remove_run(slots));
        }
        if let Some(order) = &mut self.removal {
            order.remove(episode.number, index);
        }
        for extent in episode.extents() {
            self.index.remove_run(extent.run.start as usize..extent.run.end() as usize);
            if let Some(age) = &mut self.age {
                age.remove(extent.run);
            }
            self.free_slots.give_back(extent.run);
        }
        true
    }
}
