//! Draws of sequences, and the arrays of such a sample.

use std::ops::Range;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result};
use crate::replay::age_order::AgeOrder;
use crate::replay::compression::Compression;
use crate::replay::draw::{Drawn, TooFew};
use crate::replay::episode::{EntryRef, Episode};
use crate::replay::memory::Memory;
use crate::replay::sampler::Sampler;
use crate::replay::sampling_index::{ClosedEpisodes, SamplingIndex};
use crate::replay::sequence_priorities::no_sequences;
use crate::replay::sequence_window::{Border, SequenceShape, Window};
use crate::replay::transition::ALL_WEIGHTS_ZERO;
use crate::spec::{FIELDS, Field};

/// Bytes that a draw needs per sequence, at most.
pub const DRAW_BYTES_PER_SEQUENCE: usize = 256;

/// A drawn sequence.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// The index of its episode.
    episode: u32,
    /// The id of its anchor.
    pub anchor: u64,
    /// The part of the episode that it holds.
    pub window: Window,
}

/// Drawn sequences, valid until the memory is changed.
#[derive(Debug)]
pub struct SequenceDraws {
    /// The sequences.
    pub sequences: Vec<Sequence>,
    /// Weight of each anchor.
    pub weights: Vec<f32>,
    /// Probability of each anchor.
    pub probabilities: Vec<f64>,
    /// How often each has been drawn with this time; empty without a limit.
    pub times: Vec<u32>,
    /// The sampler that they were drawn by.
    pub sampler: Sampler,
    /// Anchors that could be drawn before the draw.
    pub drawable: usize,
    /// Those with a weight above 0.
    pub sampleable: usize,
    /// The sum of their weights.
    pub total: f64,
    /// Rows of a sequence.
    pub rows: usize,
}

impl SequenceDraws {
    /// The weight of the memory beside others whose sequences go into one batch.
    pub fn share(&self) -> f64 {
        match self.sampler {
            Sampler::Prioritized | Sampler::Stratified => self.total,
            Sampler::Uniform => self.drawable as f64,
            Sampler::Fifo | Sampler::Lifo | Sampler::Highest | Sampler::Lowest => 1.0,
        }
    }
}

/// The flags of the steps of sequences, each `(n, T)`.
#[derive(Debug)]
pub struct SequenceFlags<'a> {
    /// Whether the row is a step of the episode.
    pub valid: &'a mut [u8],
    /// Whether it is one to learn from.
    pub learn: &'a mut [u8],
    /// Whether it is the first step of the episode.
    pub is_first: &'a mut [u8],
    /// Whether its action ended the episode in a terminal state.
    pub terminated: &'a mut [u8],
    /// Whether the episode was cut off after its action.
    pub truncated: &'a mut [u8],
}

impl Memory {
    /// Draws `count` sequences. Fails with [`Error::TooFew`] and the reason when there are too few to draw; nothing is counted
    /// then. Takes the time of [`Memory::draw_by`], and at the first call for this shape O(`max_step`).
    pub fn draw_sequences(
        &mut self,
        sampler: Sampler,
        count: usize,
        shape: &SequenceShape,
    ) -> Result<SequenceDraws> {
        shape.check()?;
        check_allocatable(count.saturating_mul(DRAW_BYTES_PER_SEQUENCE))?;
        self.make_anchors(shape)?;
        if SamplingIndex::needs_age_order(sampler) {
            self.make_age_order();
        }
        let Some(anchors) = &mut self.anchors else { return Err(no_sequences()) };
        let index = &mut anchors.index;
        let (total, drawable) = (index.weight_sum(), index.num_drawable());
        let sampleable = index.num_sampleable();
        if drawable == 0 || (sampler.is_weighted() && sampleable == 0) {
            return Err(Error::TooFew(self.why_no_sequence(shape)));
        }
        let none = AgeOrder::default();
        let age = self.age.as_ref().unwrap_or(&none);
        let closed = ClosedEpisodes { episodes: &self.episodes, closed: &self.closed, age };
        let drawn = index.draw(sampler, count, &closed, &mut self.rng)?;
        let Drawn { slots, times } = drawn.map_err(|TooFew(have)| {
            Error::TooFew(format!(
                "too few sequences for sampler='{sampler}': need {count}, have {have}"
            ))
        })?;
        let weights: Vec<f32> = slots.iter().map(|&slot| index.weight(slot as usize)).collect();
        let of = |&weight| sampler.probability(weight, total, drawable);
        let probabilities = weights.iter().map(of).collect();
        let period = self.recurrent_period();
        let sequences = slots.iter().map(|&slot| self.sequence_at(slot, shape, period)).collect();
        let rows = shape.rows(period);
        Ok(SequenceDraws {
            sequences,
            weights,
            probabilities,
            times,
            sampler,
            drawable,
            sampleable,
            total,
            rows,
        })
    }

    fn sequence_at(&self, slot: u32, shape: &SequenceShape, period: usize) -> Sequence {
        let entry = EntryRef(self.entry_refs[slot as usize]);
        let episode = &self.episodes[entry.index()];
        Sequence {
            episode: entry.index() as u32,
            anchor: self.id(episode.serial, entry.step()),
            window: shape.window(episode.length(), entry.step() as usize, period),
        }
    }

    /// The smallest weight of a sequence that can be drawn, of the shape last asked for. Takes O(`max_step`).
    pub fn min_sequence_weight(&self) -> f32 {
        self.anchors.as_ref().map_or(0.0, |anchors| anchors.index.min_weight())
    }

    fn why_no_sequence(&self, shape: &SequenceShape) -> String {
        let with_actions = || self.closed_episodes().filter(|episode| episode.actions() > 0);
        if with_actions().next().is_none() {
            return "nothing to sample: no episode has been closed yet".into();
        }
        let first = self.settings.unpadded_stack() - 1;
        let has_anchor =
            |episode: &Episode| shape.anchors(episode.length(), first).next().is_some();
        if !with_actions().any(has_anchor) {
            let longest = with_actions().map(Episode::len).max().unwrap_or_default();
            let SequenceShape { length, burn_in, after, border, .. } = shape;
            let stack = self.settings.frame_stack;
            let needed = match border {
                Border::Drop => first.max(*burn_in).saturating_add(length + after),
                _ => first.saturating_add(*length),
            };
            return format!(
                "nothing to sample: border='{border}', burn_in={burn_in}, length={length}, after={after} and \
                 frame_stack={stack} need an episode of at least {needed} entries, the longest has {longest}"
            );
        }
        let limit = self.settings.max_times_sampled;
        let drawable = self.anchors.as_ref().map_or(0, |anchors| anchors.index.num_drawable());
        if limit > 0 && drawable == 0 {
            return format!(
                "nothing to sample: need at least 1 sequence, have 0 that were drawn less often than \
                 max_times_sampled={limit}"
            );
        }
        ALL_WEIGHTS_ZERO.into()
    }

    /// Copies the fields of the steps of sequences, each into its part of shape `(n, T, ...)`; empty parts are left out.
    /// Rows outside of an episode repeat the record at its border.
    pub fn gather_sequences(&self, draws: &SequenceDraws, parts: &mut [&mut [u8]; FIELDS]) {
        if draws.sequences.is_empty() {
            return;
        }
        for field in self.compression().into_iter().flat_map(Compression::fields) {
            let slots =
                draws.sequences.iter().flat_map(|sequence| self.window_slots(sequence, draws.rows));
            self.gather_compressed(field.0, slots, [&mut *parts[field.0.index()], &mut []]);
        }
        // One sequence at a time: its records stay in the cache from field to field.
        for (at, sequence) in draws.sequences.iter().enumerate() {
            for field in Field::ALL {
                let part = &mut parts[field.index()];
                let size = part.len() / draws.sequences.len();
                if size > 0 && !self.storage.is_compressed(field) {
                    self.gather_window(field, sequence, draws.rows, &mut part[at * size..][..size]);
                }
            }
        }
    }

    /// The slot of each row of a sequence.
    fn window_slots(&self, sequence: &Sequence, rows: usize) -> impl Iterator<Item = u32> {
        let Window { lead, steps, .. } = &sequence.window;
        let episode = &self.episodes[sequence.episode as usize];
        (0..rows).map(move |row| {
            let step = (steps.start + row.saturating_sub(*lead)).min(steps.end - 1);
            episode.slot_of(step as u32) as u32
        })
    }

    fn gather_window(&self, field: Field, sequence: &Sequence, rows: usize, out: &mut [u8]) {
        let Window { lead, steps, .. } = &sequence.window;
        let episode = &self.episodes[sequence.episode as usize];
        let size = out.len() / rows;
        let (before, rest) = out.split_at_mut(lead * size);
        let (inside, behind) = rest.split_at_mut(steps.len() * size);
        let stacked = field == Field::State && self.settings.frame_stack > 1;
        for (slots, part) in episode.pieces_of(steps.clone()) {
            let out = &mut inside[(part.start - steps.start) * size..][..part.len() * size];
            if stacked {
                let slots: Vec<u32> = (slots.start as u32..slots.end as u32).collect();
                self.gather(field, &slots, out);
            } else {
                self.storage.read_run(field, slots.start, slots.len(), out);
            }
        }
        repeat(&inside[..size], before);
        repeat(&inside[inside.len() - size..], behind);
    }

    /// Writes the flags of the steps of sequences.
    pub fn sequence_flags(&self, draws: &SequenceDraws, flags: &mut SequenceFlags<'_>) {
        let rows = draws.rows;
        let SequenceFlags { valid, learn, is_first, terminated, truncated } = flags;
        for part in [&mut *valid, learn, is_first, terminated, truncated] {
            part.fill(0);
        }
        for (at, Sequence { episode, window, .. }) in draws.sequences.iter().enumerate() {
            let episode = &self.episodes[*episode as usize];
            let row_of = |step: usize| at * rows + window.row_of(step);
            let all_of = |steps: &Range<usize>| row_of(steps.start)..row_of(steps.end);
            valid[all_of(&window.steps)].fill(1);
            learn[all_of(&window.learn)].fill(1);
            if window.steps.start == 0 {
                is_first[row_of(0)] = 1;
            }
            let last = episode.actions() - 1;
            if window.steps.contains(&last) {
                let ended = if episode.is_truncated() { &mut *truncated } else { &mut *terminated };
                ended[row_of(last)] = 1;
            }
        }
    }

    /// The ids of all rows. Those outside of an episode are that of its border.
    pub fn sequence_ids<'a>(&'a self, draws: &'a SequenceDraws) -> impl Iterator<Item = u64> + 'a {
        draws.sequences.iter().flat_map(move |Sequence { episode, window, .. }| {
            let serial = self.episodes[*episode as usize].serial;
            let first = self.id(serial, window.steps.start as u32);
            let count = window.steps.len();
            (0..draws.rows)
                .map(move |row| first + row.saturating_sub(window.lead).min(count - 1) as u64)
        })
    }

    /// Copies the recurrent state before the first step of each sequence; nothing where the memory stores none.
    pub fn gather_recurrent(&self, draws: &SequenceDraws, out: &mut [u8]) {
        let Some(states) = &self.recurrent else { return };
        let size = states.spec.initial.len();
        if size > 0 {
            for (sequence, out) in draws.sequences.iter().zip(out.chunks_exact_mut(size)) {
                out.copy_from_slice(states.before(sequence.episode, sequence.window.steps.start));
            }
        }
    }

    /// Writes the n-step return and the discount of every learned step, as float32 per reward dimension, and zeros
    /// elsewhere. Both are as of [`Memory::nstep`], where `next` is the row `multi_step` rows later, or the last row: rows
    /// behind an episode repeat its final state.
    ///
    /// Of an episode that was truncated without a final state, the value that it was closed with is part of the return,
    /// and the discount is 0.
    pub fn sequence_nstep(&self, draws: &SequenceDraws, returns: &mut [u8], discounts: &mut [u8]) {
        let gamma: &[f64] = &self.settings.discount_factor;
        let dims = gamma.len().max(1);
        returns.fill(0);
        discounts.fill(0);
        let returns = returns.as_chunks_mut::<4>().0;
        let discounts = discounts.as_chunks_mut::<4>().0;
        let mut rewards = Vec::new();
        for (at, Sequence { episode, window, .. }) in draws.sequences.iter().enumerate() {
            let episode = &self.episodes[*episode as usize];
            let steps = self.settings.multi_step;
            let end = window.learn.end.saturating_add(steps - 1).min(episode.actions());
            self.read_rewards(episode, window.learn.start..end, &mut rewards);
            for step in window.learn.clone() {
                let ahead = steps.min(episode.actions() - step);
                let ends = step + ahead == episode.actions();
                let bootstrap = if ends { episode.value_behind() } else { None };
                let row = (at * draws.rows + window.row_of(step)) * dims;
                let from = (step - window.learn.start) * dims;
                for (dim, gamma) in gamma.iter().enumerate() {
                    let later = (0..ahead).rev().map(|ahead| rewards[from + ahead * dims + dim]);
                    let value =
                        bootstrap.map_or(0.0, |values| values.get(dim).copied().unwrap_or(0.0));
                    let sum = later.fold(value, |sum, reward| f64::from(reward) + gamma * sum);
                    let discount = if bootstrap.is_some() { 0.0 } else { gamma.powi(ahead as i32) };
                    returns[row + dim] = (sum as f32).to_ne_bytes();
                    discounts[row + dim] = (discount as f32).to_ne_bytes();
                }
            }
        }
    }

    fn read_rewards(&self, episode: &Episode, steps: Range<usize>, rewards: &mut Vec<f32>) {
        rewards.clear();
        rewards.resize(steps.len() * self.spec.reward_dims(), 0.0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(rewards);
        let size = self.spec[Field::Reward].nbytes();
        for (slots, part) in episode.pieces_of(steps.clone()) {
            let out = &mut bytes[(part.start - steps.start) * size..][..part.len() * size];
            self.storage.read_run(Field::Reward, slots.start, slots.len(), out);
        }
    }
}

/// Fills `out` with copies of a record.
fn repeat(record: &[u8], out: &mut [u8]) {
    out.chunks_exact_mut(record.len()).for_each(|copy| copy.copy_from_slice(record));
}
