//! Which slots are free.
//!
//! They are taken in the order of their numbers, around and around, so with one writer they are a ring. With several, each
//! takes a run ahead of need, so that its episode stays contiguous; unwritten slots of such a reserve can be taken back, so
//! that none is lost to it. Freed runs join their neighbours: episodes of several writers lie between each other, and
//! without that the runs would get shorter with each round, until an episode lay in as many pieces as it has steps.

use std::collections::BTreeMap;

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

/// Free runs that a search for a large one looks at.
const TRIED: usize = 64;

/// Free slots as runs, no two of which are adjacent.
#[derive(Debug)]
pub struct FreeSlots {
    /// The length of each run, by its start.
    runs: BTreeMap<u32, u32>,
    /// The slot at which the search for the next ones begins.
    next: u32,
    /// One past the highest slot that has ever been taken.
    highest: u32,
}

impl FreeSlots {
    pub fn new(slots: u32) -> Self {
        let mut free = Self { runs: BTreeMap::new(), next: 0, highest: 0 };
        free.give_back(SlotRun { start: 0, len: slots });
        free
    }

    /// Takes at most `count` adjacent slots, the next in the round.
    pub fn take(&mut self, count: u32) -> Option<SlotRun> {
        let (start, len) = self.upcoming()?;
        // Slots freed right before the next one join its run, but are taken last.
        let skipped = self.next.checked_sub(start).filter(|&skipped| skipped < len).unwrap_or(0);
        let mut rest = SlotRun { start: start + skipped, len: len - skipped };
        let run = rest.split_front(count);
        self.runs.remove(&start);
        self.insert(SlotRun { start, len: skipped });
        self.insert(rest);
        self.next = run.end();
        self.highest = self.highest.max(self.next);
        Some(run)
    }

    /// Takes `count` adjacent slots, the next such in the round. Looks at a few pieces only, so that it stays fast when
    /// none is large enough.
    pub fn take_whole(&mut self, count: u32) -> Option<SlotRun> {
        let found = self.next_runs().take(TRIED).find(|run| run.len >= count)?;
        self.next = found.start;
        self.take(count)
    }

    /// The free runs in the order in which they are taken.
    pub fn next_runs(&self) -> impl Iterator<Item = SlotRun> {
        let next = self.next;
        let before = self.runs.range(..next).next_back();
        let around = before.map(|(&start, &len)| SlotRun { start, len });
        let around = around.filter(move |run| run.end() > next);
        let around = around.map(|run| SlotRun { start: next, len: run.end() - next });
        let others = self.runs.range(next..).chain(self.runs.range(..next));
        around.into_iter().chain(others.map(|(&start, &len)| SlotRun { start, len }))
    }

    /// One past the highest slot that has ever been taken. Below it all have been, so far as whole runs were.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// The run that has the next slot, or else the first one behind it, around the end.
    fn upcoming(&self) -> Option<(u32, u32)> {
        let before = self.runs.range(..self.next).next_back();
        let around = before.filter(|&(&start, &len)| start + len > self.next);
        let behind = || self.runs.range(self.next..).next().or_else(|| self.runs.first_key_value());
        around.or_else(behind).map(|(&start, &len)| (start, len))
    }

    /// Frees slots.
    pub fn give_back(&mut self, mut run: SlotRun) {
        if run.len == 0 {
            return;
        }
        if let Some(len) = self.runs.remove(&run.end()) {
            run.len += len;
        }
        if let Some((&start, len)) = self.runs.range_mut(..run.start).next_back()
            && start + *len == run.start
        {
            *len += run.len;
            return;
        }
        self.insert(run);
    }

    /// Frees slots that are taken next, as if they had not been taken.
    pub fn put_back(&mut self, run: SlotRun) {
        if run.len > 0 {
            self.next = run.start;
            self.give_back(run);
        }
    }

    fn insert(&mut self, run: SlotRun) {
        if run.len > 0 {
            self.runs.insert(run.start, run.len);
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
        slots.give_back(SlotRun { start: 8, len: 1 });
        slots.give_back(SlotRun { start: 7, len: 1 });
        assert_eq!(slots.take(9), Some(SlotRun { start: 5, len: 4 }));
        assert_eq!(slots.take(9), None);
    }

    #[test]
    fn slots_freed_before_the_next_ones_are_taken_after_them() {
        let mut slots = FreeSlots::new(9);
        assert_eq!(slots.take(6), Some(SlotRun { start: 0, len: 6 }));
        slots.give_back(SlotRun { start: 4, len: 2 });
        assert_eq!(slots.take(2), Some(SlotRun { start: 6, len: 2 }));
        assert_eq!(slots.take(9), Some(SlotRun { start: 8, len: 1 }));
        assert_eq!(slots.take(9), Some(SlotRun { start: 4, len: 2 }));
        assert_eq!(slots.take(9), None);
    }

    #[test]
    fn whole_run_is_the_next_that_is_long_enough() {
        let mut slots = FreeSlots::new(20);
        assert_eq!(slots.take(20), Some(SlotRun { start: 0, len: 20 }));
        for (start, len) in [(2, 2), (6, 4), (12, 3)] {
            slots.give_back(SlotRun { start, len });
        }
        assert_eq!(slots.take_whole(5), None);
        assert_eq!(slots.take_whole(3), Some(SlotRun { start: 6, len: 3 }));
        assert_eq!(slots.take_whole(3), Some(SlotRun { start: 12, len: 3 }));
        assert_eq!(slots.take_whole(2), Some(SlotRun { start: 2, len: 2 }));
        assert_eq!(slots.next_runs().collect::<Vec<_>>(), [SlotRun { start: 9, len: 1 }]);
        assert_eq!(slots.highest(), 20);
    }

    #[test]
    fn half_of_a_reserve_is_at_least_one_slot() {
        let mut run = SlotRun { start: 8, len: 1 };
        assert_eq!(run.split_back_half(), SlotRun { start: 8, len: 1 });
        assert_eq!(run.len, 0);
    }
}
