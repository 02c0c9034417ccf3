//! Which closed episodes are evicted.
//!
//! An episode without entries takes no slot. It counts as an episode, but evicts no episode with entries: above a limit, one
//! without entries goes first.

use crate::replay::footprint::EMPTY_EPISODES;
use crate::replay::memory::Memory;

impl Memory {
    /// Evicts closed episodes until the limits hold again; the newest has just been closed.
    pub(super) fn evict_past_limits(&mut self) {
        let limit = self.settings.max_episode;
        while limit > 0 && self.closed.len() > limit {
            // The search costs no more than keeping such episodes has saved.
            let empty = if self.empty > 0 { self.position_of_empty() } else { None };
            self.evict(empty.unwrap_or(0));
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

    /// Evicts the oldest closed episode. Returns whether there was one.
    pub(super) fn evict_oldest(&mut self) -> bool {
        self.evict(0)
    }

    /// Evicts the closed episode at a position in the order of closing. Returns whether there was one.
    fn evict(&mut self, at: usize) -> bool {
        let Some(index) = self.closed.remove(at) else { return false };
        let episode = self.forget(index);
        self.remove_anchors(&episode);
        self.empty -= usize::from(episode.is_empty());
        self.index.remove_episode(episode.number);
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
