//! Corrections of what is stored: priorities that a learner sends back, rewards that come late.

use std::ops::Range;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result, short};
use crate::replay::closing::returns_and_weights;
use crate::replay::entry_weight::{EntryWeight, sampling_weights};
use crate::replay::episode::Ending;
use crate::replay::finite::check_non_negative;
use crate::replay::mapped_array::prefetch;
use crate::replay::memory::Memory;
use crate::replay::settings::NewPriority;
use crate::spec::Field;

/// Bytes that an update takes for each id, at most.
pub const UPDATE_BYTES_PER_ID: usize = 64;

/// An entry whose priority is new.
struct PriorityUpdate {
    slot: u32,
    /// Whether it can be drawn under the present settings.
    inside: bool,
    priority: f64,
}

/// What a new priority is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityKind {
    /// An error, of which a weight is made.
    Error,
    /// The weight itself.
    Weight,
}

impl Memory {
    /// Makes weights anew: `base * (priority + priority_epsilon) ^ priority_exponent`, with epsilon and
    /// exponent in force, or the priorities themselves. Entries outside the present borders are not drawn
    /// before those allow it; entries whose initial weight is 0 keep weight 0; entries of open episodes get
    /// theirs when those are closed, ids that are gone are ignored. Of one id given twice the last priority
    /// counts.
    ///
    /// Returns how many ids were gone.
    ///
    /// # Errors
    /// [`Error::Value`], and nothing is changed, when a priority is negative or not finite, or a weight
    /// would not be finite.
    ///
    /// # Complexity
    /// O(n log `max_step`).
    pub fn update_priority(
        &mut self,
        ids: &[u64],
        priorities: &[f64],
        kind: PriorityKind,
    ) -> Result<usize> {
        check_allocatable(ids.len().saturating_mul(UPDATE_BYTES_PER_ID))?;
        for (at, &priority) in priorities.iter().enumerate() {
            if priorities.len() > 1 && check_non_negative("priority", priority).is_err() {
                let got = format!("{} at index {at}", short(priority));
                return Err(Error::value("priority", "finite numbers >= 0", got));
            }
            check_non_negative("priority", priority)?;
        }
        let (targets, gone) = self.targets(ids, priorities);
        let weights: &[EntryWeight] = &self.weights;
        prefetch(weights, targets.iter().map(|target| target.slot));
        let slots: Vec<u32> = targets.iter().map(|target| target.slot).collect();
        let base: Vec<f32> = slots.iter().map(|&slot| weights[slot as usize].base).collect();
        let given = targets.iter().map(|target| target.priority);
        let mut made: Vec<f32> = match kind {
            PriorityKind::Weight => base
                .iter()
                .zip(given)
                .map(|(&base, weight)| if base > 0.0 { weight as f32 } else { 0.0 })
                .collect(),
            PriorityKind::Error => {
                let (epsilon, exponent) =
                    (self.settings.priority_epsilon, self.settings.priority_exponent);
                let mut errors: Vec<f64> = given.collect();
                sampling_weights(base.iter().copied(), &mut errors, epsilon, exponent).collect()
            }
        };
        if let Some(at) = made.iter().position(|weight| !weight.is_finite()) {
            let expected = "one whose weight is finite in float32";
            return Err(Error::value("priority", expected, short(targets[at].priority)));
        }
        for (target, weight) in targets.iter().zip(&made) {
            self.weights[target.slot as usize].weight = *weight;
        }
        // Of an id given twice the last weight is the one that counts, everywhere.
        for (target, drawn) in targets.iter().zip(&mut made) {
            *drawn = if target.inside { self.weights[target.slot as usize].weight } else { 0.0 };
        }
        self.note_largest(base.iter().zip(&made));
        self.tree.set_many(&slots, &made);
        Ok(gone)
    }

    /// The entries with an action among ids of closed episodes, and how many ids are gone.
    fn targets(&self, ids: &[u64], priorities: &[f64]) -> (Vec<PriorityUpdate>, usize) {
        let mut targets = Vec::with_capacity(ids.len());
        let mut gone = 0;
        for (&id, &priority) in ids.iter().zip(priorities) {
            let Some((index, step)) = self.locate(id) else {
                gone += 1;
                continue;
            };
            let episode = &self.episodes[index as usize];
            if episode.ending.is_some() && (step as usize) < episode.actions() {
                let inside = self.interior(episode).contains(&(step as usize));
                targets.push(PriorityUpdate {
                    slot: episode.slot_of(step) as u32,
                    inside,
                    priority,
                });
            }
        }
        (targets, gone)
    }

    /// Adds to a stored reward. In a closed episode the returns of that and all earlier entries are made
    /// anew, by the settings with which it was closed. So are their weights where those were made of
    /// returns; where `new_priority` made them, the entry and the `multi_step - 1` before it, whose n-step
    /// targets change, get the weight of a new entry again.
    ///
    /// Returns false when the entry is gone.
    ///
    /// # Errors
    /// [`Error::Value`], and nothing is changed, when the id is that of a final state, or the reward, a
    /// return or a weight would not be finite.
    ///
    /// # Complexity
    /// O(length of the episode).
    pub fn add_reward(&mut self, id: u64, delta: &[f32]) -> Result<bool> {
        let Some((index, step)) = self.locate(id) else { return Ok(false) };
        let episode = &self.episodes[index as usize];
        self.check_working_memory(episode.len())?;
        let step = step as usize;
        let dims = self.spec.reward_dims();
        let mut rewards = self.floats(episode, Field::Reward);
        let changed = step * dims..(step + 1) * dims;
        for (reward, delta) in rewards[changed.clone()].iter_mut().zip(delta) {
            let sum = *reward + delta;
            if !sum.is_finite() {
                let got = format!("{} + {} at step {step}", short(*reward), short(*delta));
                return Err(Error::value("delta", "a reward that stays finite in float32", got));
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
            let reweighed = self.reweighed(ending, step);
            let values = self.floats(episode, Field::Value);
            let slots = episode.slots().take(entries);
            let base: Vec<f32> = slots.map(|slot| self.weights[slot].base).collect();
            let rewards = &rewards[..entries * dims];
            let made = returns_and_weights(
                rewards,
                &values,
                &base,
                ending,
                self.largest,
                reweighed.clone(),
            )?;
            if ending.values {
                self.write_returns(index, 0..step + 1, &made.returns);
            }
            self.write_weights(index, reweighed.clone(), &base[reweighed], &made.weights);
        }
        let bytes = bytemuck::cast_slice(&rewards[changed]);
        self.storage.field_mut(Field::Reward, slot).copy_from_slice(bytes);
        Ok(true)
    }

    /// The steps whose weights a late reward at `step` makes anew.
    fn reweighed(&self, ending: &Ending, step: usize) -> Range<usize> {
        let first = match ending.settings.new_priority {
            NewPriority::Returns if ending.weights => 0,
            NewPriority::Returns => return 0..0,
            _ => (step + 1).saturating_sub(self.settings.multi_step),
        };
        first..step + 1
    }
}
