//! The slots of closed episodes, oldest first.

use std::collections::VecDeque;

use crate::replay::free_slots::SlotRun;

/// Slots in the order of closing, then of steps, as runs of adjacent slots: with one writer two or three, with several at
/// most one per piece of an episode.
#[derive(Debug, Default)]
pub struct AgeOrder {
    runs: VecDeque<SlotRun>,
}

impl AgeOrder {
    /// Appends slots of the episode that was closed last.
    pub fn append(&mut self, run: SlotRun) {
        match self.runs.back_mut() {
            Some(back) if back.end() == run.start => back.len += run.len,
            _ if run.len > 0 => self.runs.push_back(run),
            _ => {}
        }
    }

    /// Removes a piece of an evicted episode. Takes O(1) for the oldest, O(runs) for others.
    pub fn remove(&mut self, piece: SlotRun) {
        let holds = |run: &SlotRun| (run.start..run.end()).contains(&piece.start);
        let Some(at) = self.runs.iter().position(holds) else { return };
        let run = &mut self.runs[at];
        let behind = SlotRun { start: piece.end(), len: run.end() - piece.end() };
        run.len = piece.start - run.start;
        match (run.len, behind.len) {
            (0, 0) => drop(self.runs.remove(at)),
            (0, _) => *run = behind,
            (_, 0) => {}
            _ => self.runs.insert(at + 1, behind),
        }
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = SlotRun> {
        self.runs.iter().copied()
    }
}
