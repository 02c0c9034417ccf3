//! One episode: which slots hold its entries, and how it ended.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::replay::free_slots::SlotRun;
use crate::replay::settings::Settings;

/// Entries `first .. first + run.len` of an episode lie in the slots of `run`, in order.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub first: u32,
    pub run: SlotRun,
}

/// Which entry lies in a slot; 0 for a free one, as in memory that was never written. A slot whose reference is n higher
/// than another's holds the entry n steps later, of the same episode.
#[derive(Debug, Clone, Copy)]
pub struct EntryRef(pub u64);

impl EntryRef {
    pub fn new(index: u32, step: u32) -> Self {
        Self((u64::from(index) + 1) << 32 | u64::from(step))
    }
    pub fn index(self) -> usize {
        (self.0 >> 32) as usize - 1
    }
    pub fn step(self) -> u32 {
        self.0 as u32
    }
}

/// Dimensions of a bootstrap value that are stored without an allocation.
pub const INLINE_BOOTSTRAP: usize = 1;

/// A bootstrap value, one number per dimension of the reward.
pub type Bootstrap = SmallVec<[f64; INLINE_BOOTSTRAP]>;

/// How a closed episode ended and what its weights were made from.
#[derive(Debug, Clone)]
pub struct Ending {
    /// The settings in force when it was closed.
    pub settings: Arc<Settings>,
    /// Whether qvest was computed.
    pub values: bool,
    /// Whether weights were computed from |q - v|.
    pub weights: bool,
    /// Value of the observation after the last action, when the episode was truncated.
    pub bootstrap: Option<Bootstrap>,
    pub final_state: bool,
}

/// An episode, open while it has no ending.
#[derive(Debug)]
pub struct Episode {
    /// Number that no other episode of this memory ever gets.
    pub serial: u64,
    /// Usually one, and a second where the ring wraps.
    extents: SmallVec<[Extent; 1]>,
    len: u32,
    /// Its number in the order of closing.
    pub number: u32,
    /// Slots taken and not yet written; behind the last extent, unless they were taken elsewhere.
    pub reserve: SlotRun,
    pub ending: Option<Ending>,
    /// Whether its steps can be drawn while it is open, when its last entry is the final state so far.
    pub growing: bool,
}

impl Episode {
    pub fn new(serial: u64) -> Self {
        let (extents, reserve) = (SmallVec::new(), SlotRun::default());
        Self { serial, extents, len: 0, number: 0, reserve, ending: None, growing: false }
    }

    /// Entries, the final state's included.
    pub fn len(&self) -> usize {
        self.len as usize
    }
    pub fn has_final_state(&self) -> bool {
        self.ending.as_ref().map_or(self.growing, |ending| ending.final_state)
    }

    /// Entries with an action: all but the final state.
    pub fn actions(&self) -> usize {
        self.len() - usize::from(self.has_final_state())
    }

    /// The step that lies `steps` after `step`, or the last where the episode ends before.
    pub fn ahead(&self, step: u32, steps: usize) -> u32 {
        (step as usize).saturating_add(steps).min(self.len() - 1) as u32
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The slots of the entries, in order, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let runs = self.extents.iter().map(|extent| extent.run);
        runs.map(|run| run.start as usize..run.end() as usize)
    }

    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.pieces().flatten()
    }

    /// The slots of the entries in `steps`, piece by piece, with the steps in each.
    pub fn pieces_of(
        &self,
        steps: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        self.extents.iter().filter_map(move |extent| {
            let first = extent.first as usize;
            let part = steps.start.max(first)..steps.end.min(first + extent.run.len as usize);
            let offset = extent.run.start as usize;
            let slots = || part.start - first + offset..part.end - first + offset;
            (!part.is_empty()).then(|| (slots(), part.clone()))
        })
    }

    pub fn push(&mut self, run: SlotRun) {
        match self.extents.last_mut() {
            Some(last) if last.run.end() == run.start => last.run.len += run.len,
            _ => self.extents.push(Extent { first: self.len, run }),
        }
        self.len += run.len;
    }

    /// Appends an entry whose slot is in reserve, adjacent to the last one, and returns the slot and the entry's step; None
    /// where no such slot is.
    #[inline]
    pub fn push_reserved(&mut self) -> Option<(usize, u32)> {
        let last = self.extents.last_mut()?;
        if self.reserve.len == 0 || last.run.end() != self.reserve.start {
            return None;
        }
        let (slot, step) = (self.reserve.start, self.len);
        self.reserve.start += 1;
        self.reserve.len -= 1;
        last.run.len += 1;
        self.len += 1;
        Some((slot as usize, step))
    }

    #[inline]
    pub fn extent_of(&self, step: u32) -> Extent {
        if let [only] = self.extents.as_slice() {
            return *only;
        }
        let after = self.extents.partition_point(|extent| extent.first <= step);
        self.extents[after - 1]
    }

    /// The slots of the entries from the last to the first.
    pub fn slots_backwards(&self) -> impl Iterator<Item = usize> + '_ {
        let runs = self.extents.iter().rev().map(|extent| extent.run);
        runs.flat_map(|run| (run.start as usize..run.end() as usize).rev())
    }

    /// The slot of the last entry, of an episode that has one.
    #[inline]
    pub fn last_slot(&self) -> usize {
        self.extents[self.extents.len() - 1].run.end() as usize - 1
    }
    pub fn slot_of(&self, step: u32) -> usize {
        let extent = self.extent_of(step);
        (extent.run.start + (step - extent.first)) as usize
    }

    /// Whether the episode was closed as truncated.
    pub fn is_truncated(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.bootstrap.is_some())
    }

    /// The value of the state after the last action, one number per reward dimension, empty for zeros, where that is known
    /// without the state: the episode terminated, or it was truncated and the state is not stored.
    pub fn value_behind(&self) -> Option<&[f64]> {
        match self.ending.as_ref()? {
            Ending { bootstrap: None, .. } => Some(&[]),
            Ending { bootstrap: Some(value), final_state: false, .. } => Some(value),
            Ending { .. } => None,
        }
    }

    /// Whether the entry at `step` is the final state of an episode that terminated.
    pub fn terminates_at(&self, step: u32) -> bool {
        let Some(ending) = &self.ending else { return false };
        ending.final_state && ending.bootstrap.is_none() && step + 1 == self.len
    }
}

/// Counts of all episodes ever closed in a memory, evicted since or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub episodes: u64,
    /// Their entries without final states: the steps that were taken.
    pub steps: u64,
}

/// Where counts stay: sums of two fit into 64 bits. Only files of others come near it.
pub const LARGEST_COUNT: u64 = u64::MAX >> 1;

impl Totals {
    /// Whether the counts could be those of a memory.
    pub fn is_sound(&self) -> bool {
        self.episodes.max(self.steps) <= LARGEST_COUNT
    }

    /// Counts an episode of so many steps.
    pub fn count(&mut self, steps: u64) {
        self.episodes = (self.episodes + 1).min(LARGEST_COUNT);
        self.steps = (self.steps + steps).min(LARGEST_COUNT);
    }
}
