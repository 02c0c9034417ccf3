//! Growing episodes: open ones whose steps can be drawn as soon as they are added.
//!
//! Their last entry is the state that followed the last step, the final state as long as no step follows. So a draw sees
//! each as if it had been cut there. An episode that is open is never evicted; close it with [`Memory::finish_growing`].
//!
//! Their steps are drawn before they are inserted, which is at the close, so the order of closing says nothing about them:
//! only [`Sampler::Uniform`] and [`Sampler::Prioritized`] draw while an episode grows.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::replay::compression::Compression;
use crate::replay::entry_weight::EntryWeight;
use crate::replay::episode::{Bootstrap, Ending, EntryRef};
use crate::replay::memory::Memory;
use crate::replay::sampler::Sampler;
use crate::replay::settings::{NewPriority, Remover};
use crate::replay::transition::Draws;
use crate::spec::Field;

/// Slots whose leaves are set without an allocation.
const INLINE_SLOTS: usize = 32;

/// A step from the last state of a growing episode, as bytes of its fields.
#[derive(Debug, Clone, Copy)]
pub struct GrowingStep<'a> {
    /// The action.
    pub action: &'a [u8],
    /// The reward, float32 of finite numbers.
    pub reward: &'a [u8],
    /// The info.
    pub info: &'a [u8],
    /// The initial weight; 0 for a step that is never drawn.
    pub init_w: f32,
    /// The state after the step.
    pub next_state: &'a [u8],
    /// Info of the state after the step.
    pub next_info: &'a [u8],
}

/// Names a growing episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growing {
    index: u32,
    serial: u64,
}

impl Memory {
    /// Opens an episode that grows from a state. `frames` are that state and those that were
    /// shown before it, oldest first. Fails with [`Error::State`] when open episodes leave no room.
    pub fn open_growing<'a>(
        &mut self,
        frames: impl ExactSizeIterator<Item = &'a [u8]>,
        info: &[u8],
    ) -> Result<Growing> {
        self.make_room(frames.len())?;
        let serial = self.open();
        let index = self.open_index(serial)?;
        self.episodes[index as usize].growing = true;
        for frame in frames {
            self.push_state(index, frame, info);
        }
        Ok(Growing { index, serial })
    }

    /// Appends a step and returns its slot, for [`Memory::make_drawable`]. Fails with [`Error::State`] when the episode does not
    /// grow any more or open episodes leave no room; nothing is changed then.
    pub fn grow(&mut self, growing: Growing, step: GrowingStep<'_>) -> Result<u32> {
        let index = self.growing_index(growing)?;
        self.make_room(1)?;
        let slot = self.episodes[index as usize].last_slot();
        let values =
            [(Field::Action, step.action), (Field::Reward, step.reward), (Field::Info, step.info)];
        self.storage.set(slot, &values, false);
        let factor = match self.settings.new_priority {
            NewPriority::Returns => 1.0,
            NewPriority::Max => self.largest,
            NewPriority::Number(number) => number,
        };
        let base = step.init_w;
        let weight = ((f64::from(base) * factor) as f32).min(f32::MAX);
        self.weights[slot] = EntryWeight { base, weight };
        if base > 0.0 {
            self.largest = self.largest.max(factor);
        }
        self.push_state(index, step.next_state, step.next_info);
        Ok(slot as u32)
    }

    /// Lets steps be drawn that were appended to growing episodes, by their slots. One call for many is faster.
    pub fn make_drawable(&mut self, slots: &[u32]) {
        let (refs, weights): (&[u64], &[EntryWeight]) = (&self.entry_refs, &self.weights);
        let stack = self.settings.unpadded_stack();
        let leaf = |&slot: &u32| {
            // An episode that is closed may be gone, and so may a stack be that is too short.
            let entry = EntryRef(refs[slot as usize]);
            let stacked = || entry.step() as usize + 1 >= stack;
            if entry.0 == 0 { 0.0 } else { weights[slot as usize].leaf(stacked()) }
        };
        let mut leaves: SmallVec<[f32; INLINE_SLOTS]> = slots.iter().map(leaf).collect();
        self.index.set_many(slots, &mut leaves);
    }

    /// Closes a growing episode. Its last state stays the final state. Fails with [`Error::State`] when no such episode
    /// grows.
    pub fn finish_growing(&mut self, growing: Growing, terminated: bool) -> Result<()> {
        let index = self.growing_index(growing)?;
        let zeros = || Bootstrap::from_elem(0.0, self.spec.reward_dims());
        let ending = Ending {
            settings: Arc::clone(&self.settings),
            values: false,
            weights: false,
            bootstrap: (!terminated).then(zeros),
            final_state: true,
        };
        let episode = &mut self.episodes[index as usize];
        episode.ending = Some(ending);
        let steps = 0..episode.actions();
        self.weigh_in_views(index, steps);
        self.finish(index);
        Ok(())
    }

    /// Fails with [`Error::Value`] when something counts or draws entries by rules that steps of open episodes would break:
    /// limits of draws or of rates, views, recurrent states, an order of draws, or evictions in another order than that of
    /// closing. So it does where fields are compressed that are written after the entry has a slot.
    pub fn check_can_grow(&self) -> Result<()> {
        let settings = &self.settings;
        let mut compressed = self.compression().into_iter().flat_map(Compression::fields);
        let got = if self.limiter().is_some() {
            "one with a limiter".into()
        } else if !self.views().is_empty() {
            "one with views".into()
        } else if self.recurrent.is_some() {
            "one with recurrent states".into()
        } else if settings.max_times_sampled > 0 {
            format!("max_times_sampled={}", settings.max_times_sampled)
        } else if !grows_with(settings.sampler) {
            format!("sampler='{}'", settings.sampler)
        } else if settings.remover != Remover::Fifo {
            format!("remover='{}'", settings.remover)
        } else if let Some((field, _)) = compressed.find(|(field, _)| *field != Field::State) {
            format!("one that compresses {}", field.name())
        } else {
            return Ok(());
        };
        let expected = "one without limiter, views, recurrent states, max_times_sampled and compressed \
                        actions or infos, with sampler 'uniform' or 'prioritized' and remover 'fifo'";
        Err(Error::value("memory", expected, got))
    }

    /// Fails with [`Error::State`] when an episode grows and the sampler does not draw from growing episodes.
    pub(super) fn check_growing(&self, sampler: Sampler) -> Result<()> {
        if grows_with(sampler) || self.growing().next().is_none() {
            return Ok(());
        }
        Err(Error::State(format!(
            "sampler='{sampler}' cannot draw while a TransitionWriter has open episodes, since their \
             order is not known yet: use 'uniform' or 'prioritized', or finish() it"
        )))
    }

    /// Whether this episode is open still.
    pub fn is_growing(&self, growing: Growing) -> bool {
        self.growing_index(growing).is_ok()
    }

    /// Whether the last frames of a growing episode are these, oldest first, to the bit.
    pub fn grows_from<'a>(
        &self,
        growing: Growing,
        frames: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> bool {
        let Ok(index) = self.growing_index(growing) else { return false };
        let mut slots = self.episodes[index as usize].slots_backwards();
        frames
            .rev()
            .all(|frame| slots.next().is_some_and(|slot| self.holds(Field::State, slot, frame)))
    }

    /// The info of the last step of the oldest closed episode.
    pub fn oldest_info(&self) -> Option<&[u8]> {
        let episode = self.closed_episodes().next()?;
        let step = episode.actions().checked_sub(1)?;
        Some(self.storage.field(Field::Info, episode.slot_of(step as u32)))
    }

    /// Evicts the oldest closed episode. Returns whether there was one.
    pub fn drop_oldest(&mut self) -> bool {
        self.evict(0)
    }

    /// All steps whose initial weight is above 0, those of growing episodes included, each with the state one step later.
    pub fn all_steps(&self) -> Draws {
        let mut all = Draws { total: self.weight_sum(), ..Draws::default() };
        let growing = self.growing().map(|index| &self.episodes[index as usize]);
        for episode in self.closed_episodes().chain(growing) {
            for step in self.interior(episode) {
                let slot = episode.slot_of(step as u32);
                if self.weights[slot].base > 0.0 {
                    all.prev.push(slot as u32);
                    all.next.push(episode.slot_of(episode.ahead(step as u32, 1)) as u32);
                    all.weights.push(self.index.weight(slot));
                }
            }
        }
        all
    }

    fn growing_index(&self, growing: Growing) -> Result<u32> {
        match self.episodes.get(growing.index as usize) {
            Some(found) if found.serial == growing.serial && found.ending.is_none() => {
                Ok(growing.index)
            }
            _ => Err(Error::State("no such episode grows".into())),
        }
    }

    /// Takes the slot of the next entry of an open episode; there is room.
    #[inline]
    fn take_one(&mut self, index: u32) -> usize {
        let episode = &mut self.episodes[index as usize];
        let Some((slot, step)) = episode.push_reserved() else {
            return self.take(index, 1).start as usize;
        };
        self.entry_refs[slot] = EntryRef::new(index, step).0;
        self.used += 1;
        self.used_by_open += 1;
        slot
    }

    /// Appends an entry that has only a state, and is not drawn; there is room.
    fn push_state(&mut self, index: u32, state: &[u8], info: &[u8]) {
        let slot = self.take_one(index);
        let is_compressed = self.storage.is_compressed(Field::State);
        let values = [(Field::Info, info), (Field::State, state)];
        self.storage.set(slot, &values[..values.len() - usize::from(is_compressed)], true);
        if is_compressed {
            self.write_value(index, Field::State, slot, state);
        }
        self.weights[slot] = EntryWeight::default();
    }
}

/// Whether a sampler draws from growing episodes.
fn grows_with(sampler: Sampler) -> bool {
    matches!(sampler, Sampler::Uniform | Sampler::Prioritized)
}
