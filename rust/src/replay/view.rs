//! A view: weights, counts and a limit of its own over a memory's entries, for learners that share them.
//!
//! Its index has its weights as leaves. Entries outside the borders keep theirs as hidden leaves.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::replay::finite::check_non_negative;
use crate::replay::sampler::Sampler;
use crate::replay::sampling_index::SamplingIndex;

/// The settings of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ViewSettings {
    /// Its name, by which it is saved.
    pub name: String,
    /// Exponent of its priorities.
    pub priority_exponent: f64,
    /// How draws choose that name no sampler.
    pub sampler: Sampler,
    /// Draws after which it does not draw an entry any more; 0 for no limit.
    pub max_times_sampled: u32,
}

impl ViewSettings {
    /// Checks the numbers. Fails with [`crate::error::Error::Value`] that names the setting.
    pub fn check(&self) -> Result<()> {
        check_non_negative("priority_exponent", self.priority_exponent).map(drop)
    }
}

/// A view, in a memory.
#[derive(Debug)]
pub struct View {
    /// Which no other view of the memory ever has.
    pub(super) key: u64,
    pub(super) settings: ViewSettings,
    pub(super) index: SamplingIndex,
    /// The largest weight that it ever gave, as a multiple of its entry's initial weight; 1 at first.
    pub(super) largest: f64,
}

impl View {
    /// Its number in its memory.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Its settings.
    pub fn settings(&self) -> &ViewSettings {
        &self.settings
    }

    /// Sum of the weights of all entries that can be drawn.
    pub fn weight_sum(&self) -> f64 {
        self.index.weight_sum()
    }

    /// Entries that can be drawn, with weight 0 too.
    pub fn num_drawable(&self) -> usize {
        self.index.num_drawable()
    }

    /// Entries that can be drawn in proportion to their weights.
    pub fn num_sampleable(&self) -> usize {
        self.index.num_sampleable()
    }

    /// The smallest weight of an entry that can be drawn; 0 without such entries. Takes O(`max_step`).
    pub fn min_weight(&self) -> f32 {
        self.index.min_weight()
    }

    pub(super) fn note_largest(&mut self, pairs: impl Iterator<Item = (f32, f32)>) {
        let times = pairs.map(|(base, weight)| f64::from(weight) / f64::from(base));
        // 0 / 0 is NaN, which `max` leaves out.
        self.largest = times.filter(|times| times.is_finite()).fold(self.largest, f64::max);
    }
}
