//! Which entries can be drawn, and with which weight.

use std::ops::Range;

use crate::replay::entry_weight::EntryWeight;
use crate::replay::episode::Episode;
use crate::replay::memory::Memory;
use crate::replay::sum_tree::leaf;

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

    /// Counts entries that could be drawn, and those with weight 0 among them.
    pub fn zero_weights(&self) -> ZeroWeights {
        let drawable = self.num_drawable();
        ZeroWeights { zero: drawable - self.num_sampleable(), drawable }
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

    /// Sets each leaf of the index to its entry's weight, which can be drawn inside the present borders.
    pub(super) fn mask_borders(&mut self) {
        self.index.forget_order();
        self.views.iter_mut().for_each(|view| view.index.forget_order());
        let shown: Vec<u32> = self.closed.iter().copied().chain(self.growing()).collect();
        for index in shown {
            let episode = &self.episodes[index as usize];
            let inside = self.interior(episode);
            let closed = episode.ending.is_some();
            for extent in episode.extents() {
                let slots = extent.run.start as usize..extent.run.end() as usize;
                let weights = self.weights[slots.clone()].iter().enumerate();
                let leaves = weights.map(|(offset, entry)| {
                    entry.leaf(inside.contains(&(extent.first as usize + offset)))
                });
                self.index.set_run(slots.start, leaves);
                for view in &mut self.views {
                    let leaves = self.weights[slots.clone()].iter().enumerate();
                    let leaves = leaves.map(|(offset, entry)| {
                        let valid = inside.contains(&(extent.first as usize + offset));
                        let drawn = closed && valid && entry.base > 0.0;
                        leaf(view.index.weight(slots.start + offset), drawn)
                    });
                    let leaves: Vec<f32> = leaves.collect();
                    view.index.set_run(slots.start, leaves.into_iter());
                }
            }
        }
    }

    /// Takes the steps of an open episode that is dropped out of the draws.
    pub(super) fn stop_drawing(&mut self, index: u32) {
        let episode = &self.episodes[index as usize];
        if episode.growing {
            episode.pieces().for_each(|slots| self.index.remove_run(slots));
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
        if let Some(order) = &mut self.removal {
            order.change(index);
        }
        let first = steps.start;
        let episode = &self.episodes[index as usize];
        let inside = self.interior(episode);
        for (slots, part) in episode.pieces_of(steps) {
            let rows = part.start - first..part.end - first;
            let made = base[rows.clone()].iter().zip(&weights[rows]);
            for (entry, (&base, &weight)) in self.weights[slots.clone()].iter_mut().zip(made) {
                *entry = EntryWeight { base, weight };
            }
            let leaves = self.weights[slots.clone()].iter().zip(part);
            let leaves = leaves.map(|(entry, step)| entry.leaf(inside.contains(&step)));
            self.index.set_run(slots.start, leaves);
        }
        let given = inside.start.max(first)..inside.end.min(first + weights.len());
        if !given.is_empty() {
            let given = given.start - first..given.end - first;
            self.note_largest(base[given.clone()].iter().zip(&weights[given]));
        }
        if !self.views.is_empty() {
            self.weigh_in_views(index, first..first + weights.len());
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
        episode.slots().map(|slot| self.index.drawn_weight(slot))
    }
}
