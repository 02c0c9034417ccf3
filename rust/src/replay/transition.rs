//! Draws of transitions, and the arrays of a sample.

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result};
use crate::replay::age_order::AgeOrder;
use crate::replay::draw::{Drawn, TooFew};
use crate::replay::episode::{EntryRef, Episode};
use crate::replay::mapped_array::prefetch;
use crate::replay::memory::Memory;
use crate::replay::sampler::Sampler;
use crate::replay::sampling_index::{ClosedEpisodes, SamplingIndex};
use crate::replay::settings::FramePadding;
use crate::spec::{FIELDS, Field};

/// Bytes that a draw needs per row, at most.
pub const DRAW_BYTES_PER_ROW: usize = 64;

/// Why nothing can be drawn in proportion to weights that are all 0.
pub(super) const ALL_WEIGHTS_ZERO: &str = "nothing to sample: all weights are 0. An entry whose value equals its return has weight 0 unless \
         priority_epsilon is above 0, priority_exponent is 0 or new_priority is 'max' or a number; \
         close_episode(do_update_weight=False) weighs by init_w alone";

/// Rows gathered together, whose records fit into the first-level cache.
const TOGETHER: usize = 64;

/// Drawn transitions, valid until the memory is changed.
#[derive(Debug, Default)]
pub struct Draws {
    /// Slots of the entries in which the action was taken.
    pub prev: Vec<u32>,
    /// Slots of the entries `multi_step` steps later, or of the final state where that comes first.
    pub next: Vec<u32>,
    /// Weight of each prev.
    pub weights: Vec<f32>,
    /// How often each prev has been drawn, with this time; empty without `max_times_sampled`.
    pub times: Vec<u32>,
    /// The sampler that they were drawn by.
    pub sampler: Sampler,
    /// Sum of all weights before the draw.
    pub total: f64,
    /// Drawable entries before the draw.
    pub drawable: usize,
    /// Drawable entries with a weight above 0 before the draw.
    pub sampleable: usize,
}

impl Draws {
    /// The share of learners' batches that is drawn from a cache of these: the sum of weights, or under samplers that do not
    /// look at weights the number of drawable entries, or 1 where an order decides.
    pub fn share(&self) -> f64 {
        match self.sampler {
            Sampler::Prioritized | Sampler::Stratified => self.total,
            Sampler::Uniform => self.drawable as f64,
            Sampler::Fifo | Sampler::Lifo | Sampler::Highest | Sampler::Lowest => 1.0,
        }
    }

    /// The chance of each prev to be drawn: weight / sum of weights, 1 / number of drawable entries for
    /// [`Sampler::Uniform`], 1 where an order decides.
    pub fn probabilities(&self) -> impl ExactSizeIterator<Item = f64> {
        let of = |&weight| self.sampler.probability(weight, self.total, self.drawable);
        self.weights.iter().map(of)
    }
}

impl Memory {
    /// Draws `count` transitions by the sampler of the settings, as [`Self::draw_by`] does.
    pub fn draw(&mut self, count: usize) -> Result<Draws> {
        self.draw_by(self.settings.sampler, count)
    }

    /// Draws `count` transitions. Fails with [`Error::TooFew`] and the reason when there are too few to draw; nothing is
    /// counted then. Takes O(count log `max_step`), by highest and lowest weights O(`max_step`).
    pub fn draw_by(&mut self, sampler: Sampler, count: usize) -> Result<Draws> {
        let mut index = std::mem::replace(&mut self.index, SamplingIndex::none());
        let drawn = self.draw_from(&mut index, sampler, count);
        self.index = index;
        if let Ok(draws) = &drawn {
            self.count_used_up(&draws.times);
        }
        drawn
    }

    /// Draws from an index over this memory's entries, the memory's own or a view's.
    pub(super) fn draw_from(
        &mut self,
        index: &mut SamplingIndex,
        sampler: Sampler,
        count: usize,
    ) -> Result<Draws> {
        self.check_index(index, sampler)?;
        check_allocatable(count.saturating_mul(DRAW_BYTES_PER_ROW))?;
        let (total, drawable) = (index.weight_sum(), index.num_drawable());
        let sampleable = index.num_sampleable();
        if SamplingIndex::needs_age_order(sampler) {
            self.make_age_order();
        }
        let none = AgeOrder::default();
        let age = self.age.as_ref().unwrap_or(&none);
        let closed = ClosedEpisodes { episodes: &self.episodes, closed: &self.closed, age };
        let drawn = index.draw(sampler, count, &closed, &mut self.rng)?;
        let Drawn { slots: prev, times } = drawn.map_err(|TooFew(have)| {
            Error::TooFew(format!(
                "too few entries for sampler='{sampler}': need {count}, have {have}"
            ))
        })?;
        let refs: &[u64] = &self.entry_refs;
        prefetch(refs, prev.iter().copied());
        let next = prev.iter().map(|&slot| self.later(refs, slot)).collect();
        let weights = index.tree.weights(&prev);
        Ok(Draws { prev, next, weights, times, sampler, total, drawable, sampleable })
    }

    pub(super) fn make_age_order(&mut self) {
        if self.age.is_some() {
            return;
        }
        let mut age = AgeOrder::default();
        for episode in self.closed_episodes() {
            for extent in episode.extents() {
                age.append(extent.run);
            }
        }
        self.age = Some(age);
    }

    /// Fails with [`Error::TooFew`] and the reason when nothing can be drawn.
    pub fn check_drawable(&self, sampler: Sampler) -> Result<()> {
        self.check_index(&self.index, sampler)
    }

    fn check_index(&self, index: &SamplingIndex, sampler: Sampler) -> Result<()> {
        self.check_growing(sampler)?;
        let weighted = sampler.is_weighted();
        let count = if weighted { index.num_sampleable() } else { index.num_drawable() };
        if count > 0 { Ok(()) } else { Err(Error::TooFew(self.why_nothing(index))) }
    }

    /// The slot of the `next` of the entry in a slot.
    #[inline]
    fn later(&self, refs: &[u64], slot: u32) -> u32 {
        // No episode is longer, and sums stay far below overflow.
        let steps = self.settings.multi_step.min(refs.len());
        let (here, there) = (refs[slot as usize], slot as usize + steps);
        if refs.get(there) == Some(&(here + steps as u64)) {
            return there as u32;
        }
        // The episode continues elsewhere, or ends before.
        let (episode, step) = self.entry(slot);
        episode.slot_of(episode.ahead(step, steps)) as u32
    }

    pub(super) fn entry(&self, slot: u32) -> (&Episode, u32) {
        let entry = EntryRef(self.entry_refs[slot as usize]);
        (&self.episodes[entry.index()], entry.step())
    }

    fn why_nothing(&self, index: &SamplingIndex) -> String {
        if self.closed.is_empty() && self.growing().next().is_none() {
            return "nothing to sample: no episode has been closed yet".into();
        }
        let (stack, steps) = (self.settings.frame_stack, self.settings.multi_step);
        if self.closed_episodes().all(|episode| self.interior(episode).is_empty())
            && let Some(longest) = self.closed_episodes().max_by_key(|episode| episode.len())
        {
            let ahead = if longest.has_final_state() { 1 } else { steps };
            let needed = self.settings.unpadded_stack().saturating_add(ahead);
            let longest = longest.len();
            return format!(
                "nothing to sample: frame_stack={stack} and multi_step={steps} need an episode of at \
                 least {needed} entries, the longest has {longest}"
            );
        }
        if index.limit() > 0 && index.num_drawable() == 0 {
            return format!(
                "nothing to sample: need at least 1 entry, have 0 that were drawn less often than \
                 max_times_sampled={} and whose initial weight is above 0",
                index.limit()
            );
        }
        ALL_WEIGHTS_ZERO.into()
    }

    /// Copies one field of the entries in `slots` into `out`; the state with the `frame_stack - 1` states before it, oldest
    /// first.
    pub fn gather(&self, field: Field, slots: &[u32], out: &mut [u8]) {
        let stack = self.settings.frame_stack;
        if self.storage.is_compressed(field) {
            self.gather_compressed(field, slots.iter().copied(), [out, &mut []]);
        } else if field != Field::State || stack == 1 {
            self.storage.gather(field, slots, out);
        } else if self.spec[field].nbytes() > 0 {
            let size = self.spec[field].nbytes() * stack;
            for (&slot, out) in slots.iter().zip(out.chunks_exact_mut(size)) {
                self.gather_stack(slot, stack, out);
            }
        }
    }

    fn gather_stack(&self, slot: u32, stack: usize, out: &mut [u8]) {
        let oldest = self.entry_refs[slot as usize].wrapping_sub(stack as u64 - 1);
        let together = |&first: &usize| self.are_consecutive(oldest, first, stack);
        if let Some(first) = (slot as usize).checked_sub(stack - 1).filter(together) {
            self.storage.read_run(Field::State, first, stack, out);
            return;
        }
        let (episode, step) = self.entry(slot);
        let present = stack.min(step as usize + 1);
        let size = out.len() / stack;
        let (padding, frames) = out.split_at_mut((stack - present) * size);
        let slots = (step + 1 - present as u32..=step).map(|step| episode.slot_of(step) as u32);
        self.storage.gather(Field::State, &slots.collect::<Vec<_>>(), frames);
        if self.settings.frame_padding == FramePadding::Zero {
            padding.fill(0);
        } else {
            padding.chunks_exact_mut(size).for_each(|frame| frame.copy_from_slice(&frames[..size]));
        }
    }

    /// Whether `count` slots from `slot` on hold the entry of a reference and those after it. Compares all of them: between
    /// two slots of an episode there may be as many of others as it has elsewhere.
    pub(super) fn are_consecutive(&self, entry: u64, slot: usize, count: usize) -> bool {
        let refs = self.entry_refs.get(slot..slot + count);
        refs.is_some_and(|refs| (entry..).zip(refs).all(|(expected, &found)| expected == found))
    }

    /// Copies the fields of a batch, prev's and then next's, each into its part; parts of fields that are left out are
    /// empty.
    pub fn gather_all(&self, draws: &Draws, parts: &mut [&mut [u8]]) {
        self.gather_all_compressed(draws, parts);
        self.read_ahead(draws, parts);
        // Few rows at a time, so that records read for one field are still in the cache for the others.
        for first in (0..draws.prev.len()).step_by(TOGETHER) {
            let rows = first..draws.prev.len().min(first + TOGETHER);
            self.storage.prefetch(&draws.prev[rows.clone()]);
            self.storage.prefetch(&draws.next[rows.clone()]);
            for (at, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.is_empty()) {
                if self.storage.is_compressed(Field::ALL[at % FIELDS]) {
                    continue;
                }
                let slots = if at < FIELDS { &draws.prev } else { &draws.next };
                let size = part.len() / slots.len();
                let out = &mut part[rows.start * size..rows.end * size];
                self.gather(Field::ALL[at % FIELDS], &slots[rows.clone()], out);
            }
        }
    }

    /// Has the system begin to read what of a batch lies on disk.
    fn read_ahead(&self, draws: &Draws, parts: &[&mut [u8]]) {
        if self.storage.files.is_none() {
            return;
        }
        for (at, _) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let slots = if at < FIELDS { &draws.prev } else { &draws.next };
            let field = Field::ALL[at % FIELDS];
            let stack = if field == Field::State { self.settings.frame_stack } else { 1 };
            self.storage.read_ahead(field, slots, stack);
        }
    }

    /// Counts episodes from a random number, so that ids of other memories are gone here. All ids stay below 2^63. Fails
    /// with [`Error::State`] when an episode has been opened.
    pub fn start_ids(&mut self, random: u64) -> Result<()> {
        if self.next_serial != 0 {
            return Err(Error::State("ids have been given already".into()));
        }
        self.next_serial = random % (1 << (62 - self.step_bits));
        Ok(())
    }

    /// The ids of the entries in `slots`.
    pub fn ids(&self, slots: &[u32]) -> impl Iterator<Item = u64> {
        slots.iter().map(|&slot| {
            let (episode, step) = self.entry(slot);
            self.id(episode.serial, step)
        })
    }

    /// Whether each entry in `slots` is the final state of an episode that terminated.
    pub fn terminated(&self, slots: &[u32]) -> impl Iterator<Item = bool> {
        slots.iter().map(|&slot| {
            let (episode, step) = self.entry(slot);
            episode.terminates_at(step)
        })
    }

    /// Writes the discounted sum of the rewards from each prev to its next, and the discount of the value of next, as
    /// float32 per reward dimension.
    ///
    /// With `n` steps to `next` (`multi_step`, or fewer to the final state) these are the sum over k < n of
    /// `gamma ^ k * r[t + k]`, and `gamma ^ n`, or 0 where the episode terminated within them. Then
    /// `returns + discounts * V(next)` is the n-step target (Sutton and Barto, *Reinforcement Learning*, equation 7.1).
    pub fn nstep(&self, draws: &Draws, returns: &mut [u8], discounts: &mut [u8]) {
        let dims = self.settings.discount_factor.len().max(1);
        let returns = returns.as_chunks_mut::<4>().0.chunks_exact_mut(dims);
        let discounts = discounts.as_chunks_mut::<4>().0.chunks_exact_mut(dims);
        let mut rows = returns.zip(discounts);
        self.each_nstep(draws, |nstep| {
            let Some((returns, discounts)) = rows.next() else { return };
            for (out, sum) in returns.iter_mut().zip(nstep.sums) {
                *out = (*sum as f32).to_ne_bytes();
            }
            if nstep.terminated {
                discounts.fill(0f32.to_ne_bytes());
                return;
            }
            for (out, power) in discounts.iter_mut().zip(nstep.discounts) {
                *out = (*power as f32).to_ne_bytes();
            }
        });
    }

    /// Calls `each` with what lies between the prev and the next of each row, in order.
    pub(super) fn each_nstep(&self, draws: &Draws, mut each: impl FnMut(Nstep<'_>)) {
        let gamma: &[f64] = &self.settings.discount_factor;
        let mut powers = Powers::new(gamma);
        let mut sums = vec![0.0; gamma.len()];
        for (&prev, &next) in draws.prev.iter().zip(&draws.next) {
            let from = self.entry_refs[prev as usize];
            let steps = (self.entry_refs[next as usize] - from) as usize;
            self.sum_rewards(prev as usize, steps, &mut sums);
            let (episode, step) = self.entry(next);
            let terminated = episode.terminates_at(step);
            each(Nstep { sums: &sums, discounts: powers.of(steps), terminated });
        }
    }

    /// The discounted sum of the rewards of `steps` entries from the one in `slot` on.
    #[inline]
    fn sum_rewards(&self, slot: usize, steps: usize, sums: &mut [f64]) {
        sums.fill(0.0);
        let gamma: &[f64] = &self.settings.discount_factor;
        let mut add = |slot: usize| {
            let reward = self.storage.field(Field::Reward, slot);
            for ((sum, gamma), reward) in sums.iter_mut().zip(gamma).zip(reward.as_chunks().0) {
                *sum = f64::from(f32::from_ne_bytes(*reward)) + gamma * *sum;
            }
        };
        if self.are_consecutive(self.entry_refs[slot], slot, steps) {
            (slot..slot + steps).rev().for_each(add);
            return;
        }
        let (episode, first) = self.entry(slot as u32);
        (first..first + steps as u32).rev().for_each(|step| add(episode.slot_of(step)));
    }
}

/// What lies between an entry and the one `multi_step` steps later, a number per reward dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nstep<'a> {
    /// Discounted sums of the rewards.
    pub sums: &'a [f64],
    /// The discount factors to the power of the steps.
    pub discounts: &'a [f64],
    /// Whether the episode terminated by then.
    pub terminated: bool,
}

/// Powers of the discount factors, computed on demand.
struct Powers<'a> {
    gamma: &'a [f64],
    /// All powers with exponent 0, then 1, and so on.
    made: Vec<f64>,
}

impl<'a> Powers<'a> {
    fn new(gamma: &'a [f64]) -> Self {
        Self { gamma, made: vec![1.0; gamma.len()] }
    }

    /// Each factor raised to this power.
    fn of(&mut self, exponent: usize) -> &[f64] {
        let dims = self.gamma.len();
        while self.made.len() < (exponent + 1) * dims {
            let last = self.made.len() - dims;
            self.made.extend_from_within(last..);
            let new = self.made[last + dims..].iter_mut();
            new.zip(self.gamma).for_each(|(power, gamma)| *power *= gamma);
        }
        &self.made[exponent * dims..][..dims]
    }
}
