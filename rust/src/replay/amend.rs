//! Corrections of what is stored: priorities that a learner sends back, rewards that come late.

use crate::error::{Error, Result, short};
use crate::replay::closing::appraise;
use crate::replay::column::{check_allocatable, touch};
use crate::replay::finite::finite_from_zero;
use crate::replay::memory::Memory;
use crate::replay::priority::{Worth, weights};
use crate::spec::Field;

/// Bytes that an update takes for each id, at most.
pub const UPDATE: usize = 64;

/// An entry whose priority is new.
struct Target {
    slot: u32,
    /// Whether it can be drawn under the present settings.
    inside: bool,
    priority: f64,
}

impl Memory {
    /// Makes weights anew: `base * priority ^ priority_exponent`, with the exponent in force. Border
    /// entries keep weight 0, entries of open episodes get theirs when those are closed, ids that are
    /// gone are ignored. Of one id given twice the last priority counts.
    ///
    /// Returns how many ids were gone.
    ///
    /// # Errors
    /// [`Error::Value`], and nothing is changed, when a priority is negative or not finite, or a weight
    /// would not be finite.
    ///
    /// # Complexity
    /// O(n log `max_step`).
    pub fn update_priority(&mut self, ids: &[u64], priorities: &[f64]) -> Result<usize> {
        check_allocatable(ids.len().saturating_mul(UPDATE))?;
        for (at, &priority) in priorities.iter().enumerate() {
            if priorities.len() > 1 && finite_from_zero("priority", priority).is_err() {
                let got = format!("{} at index {at}", short(priority));
                return Err(Error::value("priority", "finite numbers >= 0", got));
            }
            finite_from_zero("priority", priority)?;
        }
        let mut targets = Vec::with_capacity(ids.len());
        let mut gone = 0;
        for (&id, &priority) in ids.iter().zip(priorities) {
            let Some((index, step)) = self.locate(id) else {
                gone += 1;
                continue;
            };
            let episode = &self.episodes[index as usize];
            let Some(ending) = &episode.ending else { continue };
            if ending.settings.interior(episode.len()).contains(&(step as usize)) {
                let inside = self.settings.interior(episode.len()).contains(&(step as usize));
                targets.push(Target { slot: episode.slot_of(step) as u32, inside, priority });
            }
        }
        let worths: &mut [Worth] = &mut self.worths;
        touch(worths, targets.iter().map(|target| target.slot));
        let exponent = self.settings.priority_exponent;
        let slots: Vec<u32> = targets.iter().map(|target| target.slot).collect();
        let base = slots.iter().map(|&slot| worths[slot as usize].base);
        let mut powers: Vec<f64> = targets.iter().map(|target| target.priority).collect();
        let mut made: Vec<f32> = weights(base, &mut powers, exponent).collect();
        if let Some(at) = made.iter().position(|weight| !weight.is_finite()) {
            let expected = "one whose weight is finite in float32";
            return Err(Error::value("priority", expected, short(targets[at].priority)));
        }
        for (target, drawn) in targets.iter().zip(&mut made) {
            worths[target.slot as usize].weight = *drawn;
            if !target.inside {
                *drawn = 0.0;
            }
        }
        self.tree.set_many(&slots, &made);
        Ok(gone)
    }

    /// Adds to a stored reward. In a closed episode the returns and weights of that and all earlier
    /// entries are made anew, by the settings with which it was closed.
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
        self.check_appraisable(episode.len())?;
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
            let entries = episode.len() - usize::from(ending.final_state);
            if step >= entries {
                let got = "the id of a final state, which has no reward";
                return Err(Error::value("id", "the id of an entry with an action", got));
            }
            if ending.values {
                let weights = ending.weights;
                let values = self.floats(episode, Field::Value);
                let slots = episode.slots().take(entries);
                let base: Vec<f32> = slots.map(|slot| self.worths[slot].base).collect();
                let made =
                    appraise(&rewards[..entries * dims], &values, &base, ending, episode.len())?;
                self.write_returns(index, 0..step + 1, &made.returns);
                if weights {
                    self.write_weights(index, 0..step + 1, &base, &made.weights);
                }
            }
        }
        let bytes = bytemuck::cast_slice(&rewards[changed]);
        self.storage.field_mut(Field::Reward, slot).copy_from_slice(bytes);
        Ok(true)
    }
}
