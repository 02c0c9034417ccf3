//! What draws choose from: slots with weights, some of which can be drawn.
//!
//! A memory has one index over its entries. Others over the same slots can stand beside it, with weights, counts and limits of
//! their own.
//!
//! Parts that only some samplers need are made at their first use, in O(len), and kept up to date from then on: counts of
//! drawable slots by range, and the episodes that still have drawable slots. Counts of draws are kept while there is a limit
//! of them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use slab::Slab;

use crate::error::Result;
use crate::replay::age_order::AgeOrder;
use crate::replay::drawable_counts::DrawableCounts;
use crate::replay::episode::Episode;
use crate::replay::sampler::Sampler;
use crate::replay::sum_tree::{SumTree, is_drawable, leaf};
use crate::replay::times_sampled::TimesSampled;

/// The closed episodes whose entries an index is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClosedEpisodes<'a> {
    pub episodes: &'a Slab<Episode>,
    /// Positions in `episodes`, in the order of closing.
    pub closed: &'a VecDeque<u32>,
    /// Made for samplers that [`SamplingIndex::needs_age_order`] names; others do not look at it.
    pub age: &'a AgeOrder,
}

/// Slots with weights, from which draws choose.
#[derive(Debug)]
pub(super) struct SamplingIndex {
    pub(super) tree: SumTree,
    /// One past the last slot that was ever set.
    pub(super) filled: usize,
    /// Draws after which a slot is not drawable any more; 0 for no limit.
    limit: u32,
    /// None without a limit.
    pub(super) times: Option<TimesSampled>,
    pub(super) counts: Option<DrawableCounts>,
    /// The closed episodes that may have drawable slots, by their numbers in the order of closing.
    pub(super) live: Option<BTreeMap<u32, u32>>,
}

impl SamplingIndex {
    /// An index of `len` slots, none of which can be drawn. Fails with [`crate::error::Error::Memory`] when the system refuses
    /// the memory.
    pub fn new(len: usize) -> Result<Self> {
        let tree = SumTree::new(len)?;
        Ok(Self { tree, filled: 0, limit: 0, times: None, counts: None, live: None })
    }

    /// An index of no slots, which takes no memory.
    pub fn none() -> Self {
        let (tree, filled, limit) = (SumTree::none(), 0, 0);
        Self { tree, filled, limit, times: None, counts: None, live: None }
    }

    /// Sum of the weights of all drawable slots.
    pub fn weight_sum(&self) -> f64 {
        self.tree.total()
    }

    /// Drawable slots, with weight 0 too.
    pub fn num_drawable(&self) -> usize {
        self.tree.drawable()
    }

    /// Drawable slots with a weight above 0.
    pub fn num_sampleable(&self) -> usize {
        self.tree.positive()
    }

    /// The smallest weight above 0 of a drawable slot; 0 without such slots. Takes O(len).
    pub fn min_weight(&self) -> f32 {
        self.tree.smallest()
    }

    /// The weight with which a slot is drawn now.
    pub fn drawn_weight(&self, slot: usize) -> f32 {
        self.tree.get(slot).max(0.0)
    }

    /// The weight of a slot, drawable or not.
    pub fn weight(&self, slot: usize) -> f32 {
        self.tree.get(slot).abs()
    }

    /// Draws after which a slot is not drawable any more; 0 for no limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How often a slot has been drawn; 0 without a limit.
    pub fn times_sampled(&self, slot: usize) -> u32 {
        self.times.as_ref().map_or(0, |times| times.get(slot))
    }

    /// Sets how often a slot has been drawn, in an index with a limit. The caller then sets its leaf.
    pub fn set_times_sampled(&mut self, slot: usize, count: u32) {
        if let Some(times) = &mut self.times {
            times.set(slot, count);
        }
    }

    /// Sets the limit of draws. The caller then sets the leaves of all slots. Without a limit counts are dropped. Fails with
    /// [`crate::error::Error::Memory`] when the system refuses the memory.
    pub fn set_limit(&mut self, limit: u32) -> Result<()> {
        let len = self.tree.leaves().len();
        let mut times = (limit > 0).then(|| TimesSampled::new(len)).transpose()?;
        if let (Some(old), Some(new)) = (&self.times, &mut times) {
            for slot in (0..self.filled).filter(|&slot| old.get(slot) > 0) {
                // Counts above a lowered limit might not fit.
                new.set(slot, old.get(slot).min(limit));
            }
        }
        self.times = times;
        self.limit = limit;
        self.live = None;
        Ok(())
    }

    /// Sets the leaves from `first` on, each as [`leaf`] makes them; of slots that have been drawn as often as the limit allows
    /// those are hidden. Takes O(n + log len).
    pub fn set_run(&mut self, first: usize, leaves: impl ExactSizeIterator<Item = f32>) {
        let changed = first..first + leaves.len();
        self.filled = self.filled.max(changed.end);
        match &self.times {
            None => self.tree.set_run(first, leaves),
            Some(times) => {
                let limit = self.limit;
                let hidden = leaves.enumerate().map(|(offset, number)| {
                    let used_up = times.get(first + offset) >= limit;
                    leaf(number.abs(), is_drawable(number) && !used_up)
                });
                self.tree.set_run(first, hidden);
            }
        }
        self.recount(changed);
    }

    /// Sets scattered leaves as [`Self::set_run`] does; the last number for a slot counts. Takes O(n log len).
    pub fn set_many(&mut self, slots: &[u32], leaves: &mut [f32]) {
        let last = slots.iter().max().map_or(0, |&slot| slot as usize + 1);
        self.filled = self.filled.max(last);
        if let Some(times) = &self.times {
            for (&slot, number) in slots.iter().zip(&mut *leaves) {
                let used_up = times.get(slot as usize) >= self.limit;
                *number = leaf(number.abs(), is_drawable(*number) && !used_up);
            }
        }
        self.switch_many(slots, leaves);
    }

    /// Sets leaves, whatever the limit is.
    pub(super) fn switch_many(&mut self, slots: &[u32], leaves: &[f32]) {
        if self.tree.set_many(slots, leaves) {
            for &slot in slots {
                self.recount(slot as usize..slot as usize + 1);
            }
        }
    }

    /// Empties the slots of an evicted episode: weights and counts.
    pub fn remove_run(&mut self, slots: Range<usize>) {
        if self.times.is_some() {
            slots.clone().for_each(|slot| self.set_times_sampled(slot, 0));
        }
        self.tree.set_run(slots.start, std::iter::repeat_n(0.0, slots.len()));
        self.recount(slots);
    }

    /// An episode was closed, with this number in the order of closing.
    pub fn insert_episode(&mut self, number: u32, index: u32) {
        if let Some(live) = &mut self.live {
            live.insert(number, index);
        }
    }

    /// The closed episode with this number was evicted.
    pub fn remove_episode(&mut self, number: u32) {
        if let Some(live) = &mut self.live {
            live.remove(&number);
        }
    }

    /// Numbers of episodes, or which slots are drawable, have changed in many places.
    pub fn forget_order(&mut self) {
        self.live = None;
    }

    /// Whether draws by this sampler look at the slots of all episodes, oldest first.
    pub fn needs_age_order(sampler: Sampler) -> bool {
        matches!(sampler, Sampler::Stratified | Sampler::Highest | Sampler::Lowest)
    }

    fn recount(&mut self, changed: Range<usize>) {
        if let Some(counts) = &mut self.counts {
            counts.refresh(changed, self.tree.leaves());
        }
    }
}
