//! Which slots are free.
//!
//! Free slots queue first in, first out, as runs. With one writer that is a ring: slots are taken and freed in order. With
//! several, each takes a run ahead of need, so that its episode stays contiguous; unwritten slots of such a reserve can be
//! taken back, so that none is lost to it.

use std::collections::VecDeque;

/// Adjacent slots `start .. start + len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotRun {
    pub start: u32,
    pub len: u32,
}

impl SlotRun {
    /// One past the last slot.
    pub fn end(self) -> u32 {
        self.start + self.len
    }

    /// Takes at most `count` slots off the front.
    #[must_use]
    pub fn split_front(&mut self, count: u32) -> Self {
        let len = count.min(self.len);
        let front = Self { start: self.start, len };
        self.start += len;
        self.len -= len;
        front
    }

    /// Takes the back half, rounded up.
    #[must_use]
    pub fn split_back_half(&mut self) -> Self {
        let len = self.len.div_ceil(2);
        self.len -= len;
        Self { start: self.end(), len }
    }
}
#[derive(Debug)]
pub struct FreeSlots {
    runs: VecDeque<SlotRun>,
}

impl FreeSlots {
    pub fn new(slots: u32) -> Self {
        let mut free = Self { runs: VecDeque::new() };
        free.give_back(SlotRun { start: 0, len: slots });
        free
    }

    /// Takes at most `count` adjacent slots, from the front.
    pub fn take(&mut self, count: u32) -> Option<SlotRun> {
        let front = self.runs.front_mut()?;
        let run = front.split_front(count);
        if front.len == 0 {
            self.runs.pop_front();
        }
        Some(run)
    }

    /// Appends slots to the queue, to be taken last.
    pub fn give_back(&mut self, run: SlotRun) {
        match self.runs.back_mut() {
            Some(back) if back.end() == run.start => back.len += run.len,
            _ if run.len > 0 => self.runs.push_back(run),
            _ => {}
        }
    }

    /// Returns slots to the front of the queue, as if they had not been taken.
    pub fn put_back(&mut self, run: SlotRun) {
        match self.runs.front_mut() {
            Some(front) if run.end() == front.start => {
                front.start = run.start;
                front.len += run.len;
            }
            _ if run.len > 0 => self.runs.push_front(run),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_one_writer_are_taken_and_freed_in_order() {
        let mut slots = FreeSlots::new(4);
        assert_eq!(slots.take(3), Some(SlotRun { start: 0, len: 3 }));
        slots.give_back(SlotRun { start: 0, len: 2 });
        assert_eq!(slots.take(3), Some(SlotRun { start: 3, len: 1 }));
        assert_eq!(slots.take(3), Some(SlotRun { start: 0, len: 2 }));
        assert_eq!(slots.take(1), None);
    }

    #[test]
    fn slots_put_back_are_taken_next() {
        let mut slots = FreeSlots::new(10);
        let run = slots.take(6);
        assert_eq!(run, Some(SlotRun { start: 0, len: 6 }));
        slots.put_back(SlotRun { start: 2, len: 4 });
        assert_eq!(slots.take(8), Some(SlotRun { start: 2, len: 8 }));
    }

    #[test]
    fn adjacent_runs_merge_and_empty_runs_vanish() {
        let mut slots = FreeSlots::new(0);
        slots.give_back(SlotRun { start: 5, len: 0 });
        slots.put_back(SlotRun { start: 5, len: 0 });
        assert_eq!(slots.take(1), None);
        slots.give_back(SlotRun { start: 5, len: 2 });
        slots.give_back(SlotRun { start: 7, len: 1 });
        assert_eq!(slots.take(9), Some(SlotRun { start: 5, len: 3 }));
    }

    #[test]
    fn half_of_a_reserve_is_at_least_one_slot() {
        let mut run = SlotRun { start: 8, len: 1 };
        assert_eq!(run.split_back_half(), SlotRun { start: 8, len: 1 });
        assert_eq!(run.len, 0);
    }
}
