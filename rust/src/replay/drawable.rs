//! Which closed entries can be drawn, and with which weight.

use std::ops::Range;

use crate::replay::entry_weight::EntryWeight;
use crate::replay::episode::Episode;
use crate::replay::memory::Memory;

/// How many entries could be drawn by their position, and how many of these cannot because their weight is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroWeights {
    /// Entries whose weight is 0.
    pub zero: usize,
    /// Closed entries inside the borders whose initial weight is above 0.
    pub drawable: usize,
}

impl Memory {
    /// The steps of an episode that lie inside the present borders.
    pub(super) fn interior(&self, episode: &Episode) -> Range<usize> {
        self.settings.interior(episode.len(), episode.has_final_state())
    }

    /// Counts an episode's entries inside the present borders whose initial weight is above 0.
    pub(super) fn count_drawable(&self, episode: &Episode) -> usize {
        let inside = episode.pieces_of(self.interior(episode));
        let count = |slots: Range<usize>| {
            self.weights[slots].iter().filter(|entry| entry.base > 0.0).count()
        };
        inside.map(|(slots, _)| count(slots)).sum()
    }

    /// Counts entries that could be drawn, and those with weight 0 among them.
    pub fn zero_weights(&self) -> ZeroWeights {
        ZeroWeights { zero: self.drawable - self.num_sampleable(), drawable: self.drawable }
    }

    /// Returns the counts when more than half of the entries that could be drawn have weight 0; only once.
    pub fn zero_weights_to_report(&mut self) -> Option<ZeroWeights> {
        let counts = self.zero_weights();
        if self.reported_zero_weights || counts.zero * 2 <= counts.drawable {
            return None;
        }
        self.reported_zero_weights = true;
        Some(counts)
    }

    /// Sets each leaf of the tree to its entry's weight, or to 0 outside the present borders.
    pub(super) fn mask_borders(&mut self) {
        let drawn: Vec<u32> = self.closed.iter().copied().chain(self.growing()).collect();
        self.drawable = 0;
        for index in drawn {
            let episode = &self.episodes[index as usize];
            self.drawable += self.count_drawable(episode);
            let inside = self.interior(episode);
            for extent in episode.extents() {
                let slots = extent.run.start as usize..extent.run.end() as usize;
                let weights = self.weights[slots.clone()].iter().enumerate();
                let masked = weights.map(|(offset, entry)| {
                    let valid = inside.contains(&(extent.first as usize + offset));
                    if valid { entry.weight } else { 0.0 }
                });
                self.tree.set_run(slots.start, masked);
            }
        }
    }

    /// Takes the steps of an open episode that is dropped out of the draws.
    pub(super) fn stop_drawing(&mut self, index: u32) {
        let episode = &self.episodes[index as usize];
        if !episode.growing {
            return;
        }
        self.drawable -= self.count_drawable(episode);
        for slots in episode.pieces() {
            self.tree.set_run(slots.start, std::iter::repeat_n(0.0, slots.len()));
        }
    }

    /// Writes bases and weights of the entries in `steps`, one number per step.
    pub(super) fn write_weights(
        &mut self,
        index: u32,
        steps: Range<usize>,
        base: &[f32],
        weights: &[f32],
    ) {
        let first = steps.start;
        let episode = &self.episodes[index as usize];
        let inside = self.interior(episode);
        for (slots, part) in episode.pieces_of(steps) {
            let rows = part.start - first..part.end - first;
            let made = base[rows.clone()].iter().zip(&weights[rows]);
            for (entry, (&base, &weight)) in self.weights[slots.clone()].iter_mut().zip(made) {
                *entry = EntryWeight { base, weight };
            }
            let drawn =
                part.map(|step| if inside.contains(&step) { weights[step - first] } else { 0.0 });
            self.tree.set_run(slots.start, drawn);
        }
        let given = inside.start.max(first)..inside.end.min(first + weights.len());
        if !given.is_empty() {
            let given = given.start - first..given.end - first;
            self.note_largest(base[given.clone()].iter().zip(&weights[given]));
        }
    }

    /// Updates the largest weight ever given by pairs of a base and a weight.
    pub(super) fn note_largest<'a>(
        &mut self,
        given: impl Iterator<Item = (&'a f32, &'a f32)> + Clone,
    ) {
        // Without a division, since few pairs exceed the largest.
        let largest = self.largest;
        let larger = |(&base, &weight): (&f32, &f32)| f64::from(weight) > largest * f64::from(base);
        if given.clone().fold(false, |any, pair| any | larger(pair)) {
            let times = |(&base, &weight): (&f32, &f32)| f64::from(weight) / f64::from(base);
            // 0 / 0 is NaN, which `max` leaves out.
            self.largest = given.map(times).fold(largest, f64::max);
        }
    }

    /// The weights with which an episode's entries are drawn now.
    pub fn read_weights<'a>(&'a self, episode: &'a Episode) -> impl Iterator<Item = f32> + 'a {
        episode.slots().map(|slot| self.tree.get(slot))
    }
}
