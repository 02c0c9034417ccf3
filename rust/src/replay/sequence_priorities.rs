//! The starts of sequences, and the weights with which they are drawn.
//!
//! A memory has the anchors of one set of arguments, those last asked for, and none before the first draw. They are made
//! from the weights of the steps, and then have weights of their own: a close, an eviction or a late reward changes
//! those of its episode, and a learner sets them by [`Memory::update_sequence_priority`].
//!
//! An anchor's weight is its step's initial weight times (eta * max + (1 - eta) * mean of the errors of the steps that
//! are learned) ^ `priority_exponent` (Kapturowski et al. 2019, section 2.3). Steps have weights, not errors:
//! `weight / initial weight` is `(error + epsilon) ^ exponent`, so its root is the error, with epsilon in it, which
//! passes through the maximum and the mean unchanged. A weight that was set as it is counts as the error that would have
//! made it. Steps whose initial weight is 0 have no error, and count neither in the maximum nor in the mean. With an
//! exponent of 0 there is no root; then the quotients themselves are mixed, which are 1 unless weights were set.

use std::ops::Range;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result, short};
use crate::replay::anchors::Anchors;
use crate::replay::corrections::PriorityKind;
use crate::replay::episode::{EntryRef, Episode};
use crate::replay::finite::check_non_negative;
use crate::replay::memory::Memory;
use crate::replay::power::raise_all;
use crate::replay::sampling_index::SamplingIndex;
use crate::replay::sequence_window::{Border, EpisodeLength, SequenceShape};
use crate::replay::sum_tree::leaf;

/// New errors of the steps of sequences.
#[derive(Debug, Clone, Copy)]
pub struct SequenceErrors<'a> {
    /// One per sequence, row by row.
    pub errors: &'a [f64],
    /// Steps in a row.
    pub steps: usize,
    /// Which of them count; those of the episode where it is None.
    pub mask: Option<&'a [bool]>,
}

impl Episode {
    /// Its actions and entries.
    pub(super) fn length(&self) -> EpisodeLength {
        EpisodeLength { actions: self.actions(), entries: self.len() }
    }
}

impl Memory {
    /// Makes the anchors of a shape, unless they are there. Fails with [`Error::Memory`] when the system refuses.
    pub(super) fn make_anchors(&mut self, shape: &SequenceShape) -> Result<()> {
        let shape = with_same_anchors(shape);
        if self.anchors.as_deref().is_some_and(|anchors| anchors.shape == shape) {
            return Ok(());
        }
        // First the old ones go, so that two sets never take memory together.
        self.anchors = None;
        let mut index = SamplingIndex::new(self.max_step())?;
        index.set_limit(self.settings.max_times_sampled)?;
        let first = self.settings.unpadded_stack() - 1;
        self.anchors = Some(Box::new(Anchors { shape, first, index }));
        for at in 0..self.closed.len() {
            self.weigh_anchors(self.closed[at], 0..usize::MAX);
        }
        Ok(())
    }

    /// Adds the anchors of an episode that was closed.
    pub(super) fn add_anchors(&mut self, index: u32) {
        if let Some(anchors) = &mut self.anchors {
            anchors.index.insert_episode(self.episodes[index as usize].number, index);
            self.weigh_anchors(index, 0..usize::MAX);
        }
    }

    /// Computes the weights of an episode's anchors that learn from one of the steps `changed`.
    pub(super) fn weigh_anchors(&mut self, index: u32, changed: Range<usize>) {
        let Some(mut anchors) = self.anchors.take() else { return };
        let episode = &self.episodes[index as usize];
        let (length, actions) = (episode.length(), episode.actions());
        let errors = StepErrors::new(self, episode);
        let mut slots = Vec::new();
        let mut leaves = Vec::new();
        for anchor in anchors.shape.anchors(length, 0) {
            let learned = anchors.shape.learned(actions, anchor);
            if learned.start < changed.end && changed.start < learned.end {
                slots.push(episode.slot_of(anchor as u32) as u32);
                let is_drawable = errors.base[anchor] > 0.0 && anchor >= anchors.first;
                let weight = errors.weight(learned, self.settings.sequence_eta);
                leaves.push(leaf(weight, is_drawable));
            }
        }
        anchors.index.set_many(&slots, &mut leaves);
        self.anchors = Some(anchors);
    }

    /// Removes the anchors of an episode that is evicted.
    pub(super) fn remove_anchors(&mut self, episode: &Episode) {
        let Some(anchors) = &mut self.anchors else { return };
        anchors.index.remove_episode(episode.number);
        for slots in episode.pieces() {
            anchors.index.remove_run(slots);
        }
    }

    /// Takes over the limit of draws, and which steps are too near the beginning of an episode. Weights stay.
    pub(super) fn check_anchors(&mut self) {
        let Some(mut anchors) = self.anchors.take() else { return };
        let limit = self.settings.max_times_sampled;
        // Without memory for counts they are made anew by the next draw, which then says so.
        if anchors.index.limit() != limit && anchors.index.set_limit(limit).is_err() {
            return;
        }
        anchors.first = self.settings.unpadded_stack() - 1;
        let slots = self.slots_of(&anchors, 0);
        let leaf_of = |&slot: &u32| {
            let step = EntryRef(self.entry_refs[slot as usize]).step() as usize;
            let is_drawable = self.weights[slot as usize].base > 0.0 && step >= anchors.first;
            leaf(anchors.index.weight(slot as usize), is_drawable)
        };
        let mut leaves: Vec<f32> = slots.iter().map(leaf_of).collect();
        anchors.index.set_many(&slots, &mut leaves);
        anchors.index.forget_order();
        self.anchors = Some(anchors);
    }

    /// The slots of all anchors from step `first` of their episode on, by episode and step.
    pub(super) fn slots_of(&self, anchors: &Anchors, first: usize) -> Vec<u32> {
        let mut slots = Vec::new();
        for episode in self.closed_episodes() {
            let steps = anchors.shape.anchors(episode.length(), first);
            slots.extend(steps.map(|step| episode.slot_of(step as u32) as u32));
        }
        slots
    }

    /// Computes the weights of sequences from new errors of the steps that they learn from: the initial weight times
    /// (eta * max + (1 - eta) * mean + `priority_epsilon`) ^ `priority_exponent`, all by the settings in force. A row in
    /// which no step counts leaves its weight as it is.
    ///
    /// Returns how many ids are gone, or are not anchors of the sequences that were last asked for. Changes nothing and
    /// fails with [`Error::State`] before the first draw of sequences, with [`Error::Value`] when an error that counts is
    /// negative or not finite, or a weight would not be finite.
    pub fn update_sequence_errors(
        &mut self,
        ids: &[u64],
        given: SequenceErrors<'_>,
    ) -> Result<usize> {
        let anchors = self.anchors.as_ref().ok_or_else(no_sequences)?;
        check_allocatable(ids.len().saturating_mul(size_of::<(u64, f64)>()))?;
        let length = anchors.shape.length;
        if given.mask.is_none() && given.steps != length {
            let expected =
                format!("shape (n, {length}), a column per step that is learned from, or a mask");
            return Err(Error::value("priority", expected, format!("(n, {})", given.steps)));
        }
        let (mut counted, mut priorities) = (Vec::new(), Vec::new());
        let mut gone = 0;
        let mut row_errors = Vec::new();
        for (row, &id) in ids.iter().enumerate() {
            let at = row * given.steps..(row + 1) * given.steps;
            let counts = |step: usize| match given.mask {
                Some(mask) => mask[at.start + step],
                None => step < self.learned_steps(id),
            };
            row_errors.clear();
            for (step, &error) in given.errors[at.clone()].iter().enumerate() {
                if counts(step) {
                    if check_non_negative("priority", error).is_err() {
                        let got = format!("{} at index ({row}, {step})", short(error));
                        return Err(Error::value("priority", "finite numbers >= 0", got));
                    }
                    row_errors.push(error);
                }
            }
            if let Some(mixed) = mixed(&row_errors, self.settings.sequence_eta) {
                counted.push(id);
                priorities.push(mixed);
            } else {
                gone += usize::from(self.anchor_slot(id).is_none());
            }
        }
        Ok(gone + self.update_sequence_priority(&counted, &priorities, PriorityKind::Error)?)
    }

    /// Sets the weights of sequences from their priorities, as [`Memory::update_priority`] does those of steps. Returns
    /// and fails as [`Self::update_sequence_errors`].
    pub fn update_sequence_priority(
        &mut self,
        ids: &[u64],
        priorities: &[f64],
        kind: PriorityKind,
    ) -> Result<usize> {
        if self.anchors.is_none() {
            return Err(no_sequences());
        }
        let mut gone = 0;
        let (mut slots, mut leaves) = (Vec::new(), Vec::new());
        let (epsilon, exponent) = (self.settings.priority_epsilon, self.settings.priority_exponent);
        let mut powers = priorities.to_vec();
        if kind == PriorityKind::Error {
            for power in &mut powers {
                *power += epsilon;
            }
            raise_all(&mut powers, exponent);
        }
        for ((&id, &priority), &power) in ids.iter().zip(priorities).zip(&powers) {
            check_non_negative("priority", priority)?;
            let Some(slot) = self.anchor_slot(id) else {
                gone += 1;
                continue;
            };
            let base = self.weights[slot].base;
            let weight = match kind {
                PriorityKind::Error => (f64::from(base) * power) as f32,
                PriorityKind::Weight if base > 0.0 => power as f32,
                PriorityKind::Weight => 0.0,
            };
            if !weight.is_finite() {
                let expected = "one whose weight is finite in float32";
                return Err(Error::value("priority", expected, short(priority)));
            }
            slots.push(slot as u32);
            leaves.push(leaf(weight, base > 0.0));
        }
        if let Some(anchors) = &mut self.anchors {
            anchors.index.set_many(&slots, &mut leaves);
        }
        Ok(gone)
    }

    /// The slot of the anchor of this id; None when it is gone, or no anchor.
    fn anchor_slot(&self, id: u64) -> Option<usize> {
        let anchors = self.anchors.as_ref()?;
        let (index, step) = self.locate(id)?;
        let episode = &self.episodes[index as usize];
        let is_anchor = episode.ending.is_some()
            && anchors.shape.has_anchor(episode.length(), anchors.first, step as usize);
        is_anchor.then(|| episode.slot_of(step))
    }

    /// How many steps the sequence of this id learns from; 0 when it is gone.
    fn learned_steps(&self, id: u64) -> usize {
        let (Some(anchors), Some((index, step))) = (&self.anchors, self.locate(id)) else {
            return 0;
        };
        anchors.shape.learned(self.episodes[index as usize].actions(), step as usize).len()
    }
}

pub(super) fn no_sequences() -> Error {
    Error::State("sequences have no priorities yet: call sample_sequences() first".into())
}

/// A shape that stands for all with the same anchors.
fn with_same_anchors(shape: &SequenceShape) -> SequenceShape {
    match shape.border {
        Border::Drop => *shape,
        _ => SequenceShape { burn_in: 0, after: 0, border: Border::Clip, ..*shape },
    }
}

/// eta * max + (1 - eta) * mean; None of no errors.
fn mixed(errors: &[f64], eta: f64) -> Option<f64> {
    if errors.is_empty() {
        return None;
    }
    let largest = errors.iter().copied().fold(0.0, f64::max);
    // Divided first, so that the sum is finite where all errors are.
    let count = errors.len() as f64;
    let mean: f64 = errors.iter().map(|error| error / count).sum();
    Some(eta * largest + (1.0 - eta) * mean.min(largest))
}

/// The errors of an episode's steps, from their weights.
struct StepErrors {
    /// The initial weight of each step.
    base: Vec<f32>,
    /// `weight / initial weight`; NaN where that is 0.
    quotients: Vec<f64>,
    /// The errors, as parts of the largest.
    errors: Vec<f64>,
    largest: f64,
    exponent: f64,
    /// Whether every step has an error.
    all: bool,
}

impl StepErrors {
    fn new(memory: &Memory, episode: &Episode) -> Self {
        let mut base = Vec::with_capacity(episode.actions());
        let mut quotients = Vec::with_capacity(episode.actions());
        for (slots, _) in episode.pieces_of(0..episode.actions()) {
            for entry in &memory.weights[slots] {
                base.push(entry.base);
                quotients.push(f64::from(entry.weight) / f64::from(entry.base));
            }
        }
        let all = base.iter().all(|&base| base > 0.0);
        let largest = quotients.iter().copied().fold(0.0, f64::max);
        let exponent = match memory.settings.priority_exponent {
            0.0 => 1.0,
            exponent => exponent,
        };
        let mut errors = quotients.clone();
        if largest > 0.0 {
            for error in &mut errors {
                *error /= largest;
            }
            raise_all(&mut errors, 1.0 / exponent);
        }
        Self { base, quotients, errors, largest, exponent, all }
    }

    /// The weight of the anchor whose sequence learns from these steps.
    fn weight(&self, learned: Range<usize>, eta: f64) -> f32 {
        let base = f64::from(self.base[learned.start]);
        if base <= 0.0 {
            return 0.0;
        }
        let mixed = if self.all {
            mixed_of_all(&self.errors[learned.clone()], eta)
        } else {
            let present: Vec<f64> = self.errors[learned.clone()]
                .iter()
                .copied()
                .filter(|error| !error.is_nan())
                .collect();
            mixed(&present, eta).unwrap_or(0.0)
        };
        let weight = base * self.largest * mixed.powf(self.exponent);
        if weight > 0.0 && weight.is_finite() {
            return weight.min(f64::from(f32::MAX)) as f32;
        }
        self.exact(learned, eta, base)
    }

    /// The same where errors of steps are too far apart to be parts of one largest: relative to that of the sequence.
    fn exact(&self, learned: Range<usize>, eta: f64, base: f64) -> f32 {
        let present = self.quotients[learned].iter().copied().filter(|quotient| !quotient.is_nan());
        let mut errors: Vec<f64> = present.collect();
        let largest = errors.iter().copied().fold(0.0, f64::max);
        if largest <= 0.0 {
            return 0.0;
        }
        for error in &mut errors {
            *error /= largest;
        }
        raise_all(&mut errors, 1.0 / self.exponent);
        let mixed = mixed(&errors, eta).unwrap_or(0.0);
        (base * largest * mixed.powf(self.exponent)).min(f64::from(f32::MAX)) as f32
    }
}

/// [`mixed`] of at least one number, in lanes that the compiler turns into vectors.
fn mixed_of_all(errors: &[f64], eta: f64) -> f64 {
    const LANES: usize = 8;
    let (chunks, rest) = errors.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    let mut largest = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
            largest[lane] = if chunk[lane] > largest[lane] { chunk[lane] } else { largest[lane] };
        }
    }
    let sum: f64 = sums.iter().chain(rest).sum();
    let largest = largest.iter().chain(rest).copied().fold(0.0, f64::max);
    let mean = sum / errors.len() as f64;
    eta * largest + (1.0 - eta) * mean.min(largest)
}
