//! The parts of a file that only memories with sequences have: how recurrent states are stored, and the anchors.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::replay::episode::Episode;
use crate::replay::memory::Memory;
use crate::replay::recurrent::RecurrentSpec;
use crate::replay::sequence_window::SequenceShape;
use crate::replay::sum_tree::leaf;

const RECURRENT: &str = "recurrent";
const ANCHORS: &str = "anchors";

/// Parts of a header, each with its name.
type Parts = Vec<(String, Vec<u8>)>;

/// The anchors of all episodes, oldest first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AnchorRecord {
    shape: SequenceShape,
    weights: Vec<f32>,
    /// How often each has been drawn; empty without a limit.
    times: Vec<u32>,
}

/// The parts that a file has.
#[derive(Debug, Default)]
pub(super) struct SequenceParts {
    pub recurrent: Option<RecurrentSpec>,
    anchors: Option<AnchorRecord>,
}

impl SequenceParts {
    /// The parts of a memory.
    pub fn of(memory: &Memory) -> postcard::Result<Parts> {
        let mut parts = Parts::new();
        if let Some(spec) = memory.recurrent_spec() {
            parts.push((RECURRENT.into(), postcard::to_stdvec(spec)?));
        }
        if let Some(record) = memory.anchor_record() {
            parts.push((ANCHORS.into(), postcard::to_stdvec(&record)?));
        }
        Ok(parts)
    }

    /// Takes these parts out of those of a file. The error is the reason why they are refused.
    pub fn take(parts: &mut Parts) -> std::result::Result<Self, String> {
        let mut taken = Self::default();
        let unreadable = |error| format!("a part that cannot be read: {error}");
        for (name, bytes) in std::mem::take(parts) {
            match name.as_str() {
                RECURRENT => {
                    let spec: RecurrentSpec = postcard::from_bytes(&bytes).map_err(unreadable)?;
                    if !spec.is_valid() {
                        return Err("a recurrent state that contradicts itself".into());
                    }
                    taken.recurrent = Some(spec);
                }
                ANCHORS => taken.anchors = Some(postcard::from_bytes(&bytes).map_err(unreadable)?),
                _ => parts.push((name, bytes)),
            }
        }
        Ok(taken)
    }

    /// The bytes of the recurrent states of episodes, by entries and whether one of these is a final state; None where they
    /// exceed a u64.
    pub fn state_bytes(&self, mut episodes: impl Iterator<Item = (u32, bool)>) -> Option<u64> {
        let Some(spec) = &self.recurrent else { return Some(0) };
        episodes.try_fold(0, |sum: u64, (length, final_state)| {
            let actions = (length as usize).saturating_sub(usize::from(final_state));
            let bytes = (spec.states_of(actions) as u64).checked_mul(spec.initial.len() as u64)?;
            sum.checked_add(bytes)
        })
    }

    /// Makes the saved anchors in a memory whose episodes are loaded. False when they are not those of its episodes.
    pub fn restore(self, memory: &mut Memory) -> Result<bool> {
        self.anchors.map_or(Ok(true), |record| memory.restore_anchors(&record))
    }
}

impl Memory {
    fn anchor_record(&self) -> Option<AnchorRecord> {
        let anchors = self.anchors.as_ref()?;
        let slots = self.slots_of(anchors, anchors.first);
        let weights = slots.iter().map(|&slot| anchors.index.weight(slot as usize)).collect();
        let times = slots.iter().map(|&slot| anchors.index.times_sampled(slot as usize));
        let times = if anchors.index.limit() > 0 { times.collect() } else { Vec::new() };
        Some(AnchorRecord { shape: anchors.shape, weights, times })
    }

    fn restore_anchors(&mut self, record: &AnchorRecord) -> Result<bool> {
        if record.shape.check().is_err() {
            return Ok(false);
        }
        self.make_anchors(&record.shape)?;
        let slots =
            self.anchors.as_deref().map_or_else(Vec::new, |made| self.slots_of(made, made.first));
        let limit = self.settings.max_times_sampled;
        let timed = if limit > 0 { slots.len() } else { 0 };
        let sound = record.weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
            && record.times.iter().all(|&times| times <= limit);
        if !sound || (record.weights.len(), record.times.len()) != (slots.len(), timed) {
            return Ok(false);
        }
        let Some(anchors) = &mut self.anchors else { return Ok(true) };
        for (&slot, &times) in slots.iter().zip(&record.times) {
            anchors.index.set_times_sampled(slot as usize, times);
        }
        for (&slot, &weight) in slots.iter().zip(&record.weights) {
            let is_drawable = self.weights[slot as usize].base > 0.0;
            anchors.index.set_run(slot as usize, std::iter::once(leaf(weight, is_drawable)));
        }
        Ok(true)
    }

    /// The stored recurrent states of an episode, in order.
    pub(super) fn recurrent_states(&self, episode: &Episode) -> impl Iterator<Item = &[u8]> {
        let index = self.serials.get(&episode.serial);
        let states = self.recurrent.as_ref().zip(index);
        states.into_iter().flat_map(|(states, &index)| states.of_episode(index))
    }

    /// Makes the recurrent states of an episode of a file, whose bytes `fill` reads.
    pub(super) fn restore_states(
        &mut self,
        index: u32,
        mut fill: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let actions = self.episodes[index as usize].actions();
        let Some(states) = &mut self.recurrent else { return Ok(()) };
        let rows = states.restore(index, actions);
        rows.into_iter().try_for_each(|row| fill(states.row_mut(row)))
    }
}
