//! Draws from an index, by each sampler.
//!
//! With a limit of draws, draws with replacement stay exact: a slot that is used up within the batch is rejected when it comes
//! again, and the rest is drawn from what is left. All draws of a batch then have the chances that they would have one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::Rng;

use crate::error::Result;
use crate::replay::drawable_counts::DrawableCounts;
use crate::replay::free_slots::SlotRun;
use crate::replay::mapped_array::prefetch;
use crate::replay::sampler::Sampler;
use crate::replay::sampling_index::{ClosedEpisodes, SamplingIndex};
use crate::replay::sum_tree::{is_drawable, leaf};

/// Of so many slots at least one must be drawable for trying slots at random to be the fastest way to find some.
const TRIES: usize = 4;

/// Drawn slots, in the order of drawing.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub slots: Vec<u32>,
    /// How often each has been drawn with this time; empty without a limit.
    pub times: Vec<u32>,
}

/// The number of slots that could be drawn, where that is too few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooFew(pub usize);

impl SamplingIndex {
    /// Draws `count` slots. Where that many cannot be drawn, nothing is counted.
    ///
    /// Takes O(count log len); stratified also O(runs of [`ClosedEpisodes::age`]), highest and lowest O(len + count log count).
    pub fn draw(
        &mut self,
        sampler: Sampler,
        count: usize,
        closed: &ClosedEpisodes<'_>,
        rng: &mut impl Rng,
    ) -> Result<std::result::Result<Drawn, TooFew>> {
        self.make_parts(sampler, closed)?;
        if sampler.is_ordered() {
            if count > self.num_drawable() {
                return Ok(Err(TooFew(self.num_drawable())));
            }
            let slots = match sampler {
                Sampler::Fifo => self.by_age(false, count, closed),
                Sampler::Lifo => self.by_age(true, count, closed),
                _ => self.by_weight(sampler == Sampler::Highest, count, closed),
            };
            let mut drawn = Drawn::default();
            self.give(slots, &mut drawn);
            return Ok(Ok(drawn));
        }
        let mut drawn = Drawn::default();
        // What is left of the strata after some were used up is drawn from all.
        let (mut sampler, after) = match sampler {
            Sampler::Uniform => (sampler, sampler),
            _ => (sampler, Sampler::Prioritized),
        };
        while drawn.slots.len() < count {
            let drawable = match sampler {
                Sampler::Uniform => self.num_drawable(),
                _ => self.num_sampleable(),
            };
            if drawable == 0 {
                self.take_back(&drawn);
                return Ok(Err(TooFew(drawn.slots.len())));
            }
            let rest = count - drawn.slots.len();
            let slots = match sampler {
                Sampler::Uniform => self.alike(rest, rng),
                Sampler::Stratified => self.strata(rest, closed, rng),
                _ => self.in_proportion(rest, rng),
            };
            self.give(slots, &mut drawn);
            sampler = after;
        }
        Ok(Ok(drawn))
    }

    /// Makes what draws by this sampler need beyond the tree.
    fn make_parts(&mut self, sampler: Sampler, closed: &ClosedEpisodes<'_>) -> Result<()> {
        let by_age = matches!(sampler, Sampler::Fifo | Sampler::Lifo);
        let rare = sampler == Sampler::Uniform && self.num_drawable() * TRIES < self.filled;
        if (by_age || rare) && self.counts.is_none() {
            self.counts = Some(DrawableCounts::new(self.tree.leaves())?);
        }
        if by_age && self.live.is_none() {
            let numbers = closed.closed.iter().map(|&at| (closed.episodes[at as usize].number, at));
            self.live = Some(numbers.collect());
        }
        Ok(())
    }

    /// Counts draws, and hides slots that are used up by them. Leaves out those that are used up already. Without a limit all
    /// come at once.
    fn give(&mut self, slots: Vec<u32>, drawn: &mut Drawn) {
        let limit = self.limit();
        let Some(times) = &mut self.times else {
            drawn.slots = slots;
            return;
        };
        let mut used_up = Vec::new();
        for slot in slots {
            let count = times.get(slot as usize) + 1;
            if count <= limit {
                times.set(slot as usize, count);
                drawn.slots.push(slot);
                drawn.times.push(count);
            }
            if count == limit {
                used_up.push(slot);
            }
        }
        self.switch(&used_up, false);
    }

    /// Undoes [`Self::give`].
    fn take_back(&mut self, drawn: &Drawn) {
        let Some(times) = &mut self.times else { return };
        for &slot in &drawn.slots {
            times.set(slot as usize, times.get(slot as usize) - 1);
        }
        self.switch(&drawn.slots, true);
    }

    fn switch(&mut self, slots: &[u32], drawable: bool) {
        let leaves: Vec<f32> =
            slots.iter().map(|&slot| leaf(self.weight(slot as usize), drawable)).collect();
        self.switch_many(slots, &leaves);
    }

    fn in_proportion(&self, count: usize, rng: &mut impl Rng) -> Vec<u32> {
        let total = self.weight_sum();
        let mut targets: Vec<f64> = (0..count).map(|_| uniform(rng) * total).collect();
        let mut found = Vec::new();
        self.tree.find(&mut targets, &mut found);
        found
    }

    /// One draw from each of `count` equal parts of the sum of weights, over slots by age.
    fn strata(&self, count: usize, closed: &ClosedEpisodes<'_>, rng: &mut impl Rng) -> Vec<u32> {
        let part = self.weight_sum() / count as f64;
        let mut targets: Vec<f64> =
            (0..count).map(|stratum| (stratum as f64 + uniform(rng)) * part).collect();
        // The tree sums by slot: move each target from where its run comes by age to where it lies.
        let (mut moved, mut end) = (0, 0.0);
        for run in closed.age.runs() {
            let before = self.tree.sum_before(run.start as usize);
            let begin = end;
            end += self.tree.sum_before(run.end() as usize) - before;
            while targets.get(moved).is_some_and(|&target| target < end) {
                targets[moved] += before - begin;
                moved += 1;
            }
            if moved == count {
                break;
            }
        }
        let mut found = Vec::new();
        self.tree.find(&mut targets, &mut found);
        found
    }

    fn alike(&self, count: usize, rng: &mut impl Rng) -> Vec<u32> {
        let leaves = self.tree.leaves();
        if let Some(counts) = self.counts.as_ref().filter(|_| self.is_sparse()) {
            let drawable = self.num_drawable();
            return (0..count)
                .map(|_| counts.select(below(drawable, rng), leaves) as u32)
                .collect();
        }
        let mut found = Vec::with_capacity(count);
        let mut tried = Vec::new();
        while found.len() < count {
            let expected = (count - found.len()) * self.filled / self.num_drawable();
            tried.clear();
            tried.extend((0..=expected).map(|_| below(self.filled, rng) as u32));
            prefetch(leaves, tried.iter().copied());
            let hits = tried.iter().copied().filter(|&slot| is_drawable(leaves[slot as usize]));
            found.extend(hits.take(count - found.len()));
        }
        found
    }

    fn is_sparse(&self) -> bool {
        self.num_drawable() * TRIES < self.filled
    }

    /// The drawable slots that come first by age, or last; there are as many. Episodes without any are not looked at again.
    fn by_age(&mut self, newest: bool, count: usize, closed: &ClosedEpisodes<'_>) -> Vec<u32> {
        let Some(mut live) = self.live.take() else { return Vec::new() };
        let (mut found, mut spent) = (Vec::with_capacity(count), Vec::new());
        let mut visit = |number: &u32, index: &u32| {
            if found.len() == count {
                return false;
            }
            let before = found.len();
            let extents = closed.episodes[*index as usize].extents();
            if newest {
                for extent in extents.iter().rev() {
                    self.last_of(extent.run, count, &mut found);
                }
            } else {
                for extent in extents {
                    self.first_of(extent.run, count, &mut found);
                }
            }
            if found.len() == before {
                spent.push(*number);
            }
            true
        };
        if newest {
            let _ = live.iter().rev().all(|(number, index)| visit(number, index));
        } else {
            let _ = live.iter().all(|(number, index)| visit(number, index));
        }
        for number in spent {
            live.remove(&number);
        }
        self.live = Some(live);
        found
    }

    /// Appends the first drawable slots of a run until there are `count`.
    fn first_of(&self, run: SlotRun, count: usize, found: &mut Vec<u32>) {
        let leaves = self.tree.leaves();
        let Some(counts) = &self.counts else { return };
        let (mut slot, end) = (run.start as usize, run.end() as usize);
        while slot < end && found.len() < count {
            if is_drawable(leaves[slot]) {
                found.push(slot as u32);
                slot += 1;
                continue;
            }
            let rank = counts.rank(slot, leaves);
            if rank == self.num_drawable() {
                break;
            }
            slot = counts.select(rank, leaves);
        }
    }

    /// Appends the last drawable slots of a run, the last first, until there are `count`.
    fn last_of(&self, run: SlotRun, count: usize, found: &mut Vec<u32>) {
        let leaves = self.tree.leaves();
        let Some(counts) = &self.counts else { return };
        let (start, mut end) = (run.start as usize, run.end() as usize);
        while start < end && found.len() < count {
            if is_drawable(leaves[end - 1]) {
                found.push(end as u32 - 1);
                end -= 1;
                continue;
            }
            let rank = counts.rank(end, leaves);
            if rank == 0 {
                break;
            }
            end = counts.select(rank - 1, leaves) + 1;
        }
    }

    /// The drawable slots with the highest or lowest weights, ties by age; there are as many.
    fn by_weight(&self, highest: bool, count: usize, closed: &ClosedEpisodes<'_>) -> Vec<u32> {
        // Bits of numbers >= 0 have the order of the numbers.
        let key = |weight: f32| if highest { weight.to_bits() } else { !weight.to_bits() };
        let leaves = self.tree.leaves();
        let mut kept = BinaryHeap::with_capacity(count);
        let slots = closed.age.runs().flat_map(|run| run.start..run.end());
        for (age, slot) in slots.enumerate() {
            let number = leaves[slot as usize];
            if !is_drawable(number) {
                continue;
            }
            let key = key(number.abs());
            if kept.len() < count {
                kept.push(Reverse((key, Reverse(age), slot)));
            } else if let Some(mut least) = kept.peek_mut()
                && key > least.0.0
            {
                *least = Reverse((key, Reverse(age), slot));
            }
        }
        kept.into_sorted_vec().into_iter().map(|Reverse((.., slot))| slot).collect()
    }
}

/// A uniform number in [0, 1) with 53 random bits.
pub(super) fn uniform(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A number below `bound`, each with the same chance up to a part in 2^32 of it.
fn below(bound: usize, rng: &mut impl Rng) -> usize {
    ((u128::from(rng.next_u64()) * bound as u128) >> 64) as usize
}
