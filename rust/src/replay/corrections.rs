//! Corrections of stored entries: priorities that a learner sends back, and rewards that arrive late.

use std::ops::Range;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result, short};
use crate::replay::closing::returns_and_weights;
use crate::replay::entry_weight::{EntryWeight, sampling_weights};
use crate::replay::episode::{Ending, EntryRef};
use crate::replay::finite::check_non_negative;
use crate::replay::mapped_array::prefetch;
use crate::replay::memory::Memory;
use crate::replay::settings::NewPriority;
use crate::spec::Field;

/// Bytes that an update takes for each id, at most.
pub const UPDATE_BYTES_PER_ID: usize = 64;

struct PriorityUpdate {
    slot: u32,
    /// Whether the entry can be drawn under the present settings.
    inside: bool,
    priority: f64,
}

/// An update whose arguments and weights have been checked: numbers for each slot.
pub(super) struct PreparedUpdate {
    pub slots: Vec<u32>,
    /// Whether the entry can be drawn under the present settings.
    pub inside: Vec<bool>,
    pub bases: Vec<f32>,
    pub weights: Vec<f32>,
    /// How many ids were gone.
    pub gone: usize,
}

/// The kind of number that is given as a new priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityKind {
    /// An error, from which the weight is computed.
    Error,
    /// The weight itself.
    Weight,
}

impl Memory {
    /// Computes weights again: `base * (priority + priority_epsilon) ^ priority_exponent`, with epsilon and exponent in
    /// force, or sets them to the priorities themselves. Entries outside the present borders are not drawn before those
    /// allow it. Entries whose initial weight is 0 keep weight 0, those of open episodes get theirs on closing, and ids that
    /// are gone are ignored. The last priority of an id given twice counts.
    ///
    /// Returns how many ids were gone. Changes nothing and fails with [`Error::Value`] when a priority is negative or not
    /// finite, or a weight would not be finite. Takes O(n log `max_step`).
    pub fn update_priority(
        &mut self,
        ids: &[u64],
        priorities: &[f64],
        kind: PriorityKind,
    ) -> Result<usize> {
        let exponent = self.settings.priority_exponent;
        let update = self.prepare_update(ids, priorities, kind, exponent)?;
        let PreparedUpdate { slots, inside, bases, weights: mut made, gone } = update;
        for (&slot, &weight) in slots.iter().zip(&made) {
            self.weights[slot as usize].weight = weight;
        }
        if let Some(order) = &mut self.removal {
            let refs = slots.iter().map(|&slot| EntryRef(self.entry_refs[slot as usize]));
            let closed = |entry: &EntryRef| self.episodes[entry.index()].ending.is_some();
            refs.filter(closed).for_each(|entry| order.change(entry.index() as u32));
        }
        // The last weight of an id given twice counts everywhere.
        for ((&slot, &inside), number) in slots.iter().zip(&inside).zip(&mut made) {
            *number = self.weights[slot as usize].leaf(inside);
        }
        self.note_largest(bases.iter().zip(&made));
        self.index.set_many(&slots, &mut made);
        Ok(gone)
    }

    /// The part of an update that can fail, for an index with this exponent.
    pub(super) fn prepare_update(
        &self,
        ids: &[u64],
        priorities: &[f64],
        kind: PriorityKind,
        exponent: f64,
    ) -> Result<PreparedUpdate> {
        check_allocatable(ids.len().saturating_mul(UPDATE_BYTES_PER_ID))?;
        for (at, &priority) in priorities.iter().enumerate() {
            if priorities.len() > 1 && check_non_negative("priority", priority).is_err() {
                let got = format!("{} at index {at}", short(priority));
                return Err(Error::value("priority", "finite numbers >= 0", got));
            }
            check_non_negative("priority", priority)?;
        }
        let (updates, gone) = self.locate_updates(ids, priorities);
        let weights: &[EntryWeight] = &self.weights;
        prefetch(weights, updates.iter().map(|update| update.slot));
        let slots: Vec<u32> = updates.iter().map(|update| update.slot).collect();
        let bases: Vec<f32> = slots.iter().map(|&slot| weights[slot as usize].base).collect();
        let given = updates.iter().map(|update| update.priority);
        let weights: Vec<f32> = match kind {
            PriorityKind::Weight => bases
                .iter()
                .zip(given)
                .map(|(&base, weight)| if base > 0.0 { weight as f32 } else { 0.0 })
                .collect(),
            PriorityKind::Error => {
                let epsilon = self.settings.priority_epsilon;
                let mut errors: Vec<f64> = given.collect();
                sampling_weights(bases.iter().copied(), &mut errors, epsilon, exponent).collect()
            }
        };
        if let Some(at) = weights.iter().position(|weight| !weight.is_finite()) {
            let expected = "a priority whose weight is finite in float32";
            return Err(Error::value("priority", expected, short(updates[at].priority)));
        }
        let inside = updates.iter().map(|update| update.inside).collect();
        Ok(PreparedUpdate { slots, inside, bases, weights, gone })
    }

    /// The updates of entries with an action in closed episodes, and how many ids are gone.
    fn locate_updates(&self, ids: &[u64], priorities: &[f64]) -> (Vec<PriorityUpdate>, usize) {
        let mut updates = Vec::with_capacity(ids.len());
        let mut gone = 0;
        for (&id, &priority) in ids.iter().zip(priorities) {
            let Some((index, step)) = self.locate(id) else {
                gone += 1;
                continue;
            };
            let episode = &self.episodes[index as usize];
            let drawn = episode.ending.is_some() || episode.growing;
            if drawn && (step as usize) < episode.actions() {
                let inside = self.interior(episode).contains(&(step as usize));
                let slot = episode.slot_of(step) as u32;
                updates.push(PriorityUpdate { slot, inside, priority });
            }
        }
        (updates, gone)
    }

    /// Adds to a stored reward. In a closed episode the returns of that and all earlier entries are computed again, with
    /// the settings of the close. So are their weights where those were computed from returns; where `new_priority` set
    /// them, the entry and the `multi_step - 1` before it, whose n-step targets change, get the weight of a new entry again.
    ///
    /// Returns false when the entry is gone. Changes nothing and fails with [`Error::Value`] when the id is that of a final
    /// state, or the reward, a return or a weight would not be finite. Takes O(length of the episode).
    pub fn add_reward(&mut self, id: u64, delta: &[f32]) -> Result<bool> {
        let Some((index, step)) = self.locate(id) else { return Ok(false) };
        let episode = &self.episodes[index as usize];
        self.check_working_memory(episode.len())?;
        let step = step as usize;
        let dims = self.spec.reward_dims();
        let mut all = self.floats(episode, Field::Reward);
        let changed = step * dims..(step + 1) * dims;
        for (reward, delta) in all[changed.clone()].iter_mut().zip(delta) {
            let sum = *reward + delta;
            if !sum.is_finite() {
                let got = format!("{} + {} at step {step}", short(*reward), short(*delta));
                return Err(Error::value(
                    "delta",
                    "a number whose sum with the reward is finite in float32",
                    got,
                ));
            }
            *reward = sum;
        }
        let slot = episode.slot_of(step as u32);
        if let Some(ending) = &episode.ending {
            let entries = episode.actions();
            if step >= entries {
                let got = "the id of a final state, which has no reward";
                return Err(Error::value("id", "the id of an entry with an action", got));
            }
            let steps = self.steps_to_reweigh(ending, step);
            let values = self.floats(episode, Field::Value);
            let base = &self.bases(episode)[..entries];
            let rewards = &all[..entries * dims];
            let (largest, range) = (self.largest, steps.clone());
            let computed = returns_and_weights(rewards, &values, base, ending, largest, range)?;
            if ending.values {
                self.write_returns(index, 0..step + 1, &computed.returns);
            }
            self.write_reward(slot, &all[changed.clone()]);
            self.write_weights(index, steps.clone(), &base[steps.clone()], &computed.weights);
            self.weigh_anchors(index, steps);
        }
        self.write_reward(slot, &all[changed]);
        Ok(true)
    }

    fn write_reward(&mut self, slot: usize, reward: &[f32]) {
        let bytes = bytemuck::cast_slice(reward);
        self.storage.field_mut(Field::Reward, slot).copy_from_slice(bytes);
    }

    /// The steps whose weights change with a late reward at `step`.
    fn steps_to_reweigh(&self, ending: &Ending, step: usize) -> Range<usize> {
        let first = match ending.settings.new_priority {
            NewPriority::Returns if ending.weights => 0,
            NewPriority::Returns => return 0..0,
            _ => (step + 1).saturating_sub(self.settings.multi_step),
        };
        first..step + 1
    }
}
