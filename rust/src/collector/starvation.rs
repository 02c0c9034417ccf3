//! What happens when nothing else does: batches go out short, games begin again, runs are over.

use std::time::Instant;

use crate::collector::batch_queue::BatchQueue;
use crate::collector::scheduler::{Scheduler, bits};
use crate::collector::work_batch::Task;

impl Scheduler {
    /// Whether all games were dropped, and what they left was delivered but for batches that are not full.
    pub fn is_over(&self) -> bool {
        let left = self.is_busy() || self.groups.iter().any(|group| group.out() > 0);
        self.crashes.live() == 0 && !left && self.ready.is_empty()
    }

    /// When all games were dropped, sends out short what listeners have got of them. Returns whether anything
    /// changed.
    pub fn clear_out(&mut self) -> bool {
        let over = self.is_over();
        let open = (0..self.groups.len()).find(|&group| over && self.groups[group].is_open());
        if let Some(group) = open {
            self.shorten(group);
        }
        open.is_some()
    }

    /// Sends out short what has waited its time, and has games begin again that have rested theirs. Returns
    /// whether anything changed.
    pub fn expire(&mut self) -> bool {
        let mut changed = false;
        while let Some(slot) = self.crashes.rested(Instant::now) {
            self.push(slot);
            changed = true;
        }
        for group in 0..self.groups.len() {
            let deadline = self.groups[group].deadline();
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.shorten(group);
                changed = true;
            }
        }
        changed
    }

    fn shorten(&mut self, group: usize) {
        let queue = &mut self.queue;
        let write = |&slot: &u32, row| queue.push_back(Task::write(slot, group, row));
        self.groups[group].shorten(write);
        self.note(group);
        self.make_ready(group);
    }

    /// When the next batch is to go out short, or the next game to begin again.
    pub fn deadline(&self) -> Option<Instant> {
        let rest = self.crashes.next_rested();
        self.groups.iter().filter_map(BatchQueue::deadline).chain(rest).min()
    }

    /// When every game waits and nothing can wake one, sends out the oldest batch that holds games as it is. Returns
    /// whether anything changed.
    pub fn wake_from_quiescence(&mut self) -> bool {
        if !self.is_quiescent() {
            return false;
        }
        let open = bits(self.holding).filter_map(|at| Some((self.groups[at].since()?, at)));
        let oldest = open.min();
        if let Some((_, group)) = oldest {
            self.shorten(group);
        }
        oldest.is_some()
    }

    /// Whether nothing will happen but by a batch that is not complete.
    fn is_quiescent(&self) -> bool {
        !self.is_busy()
            && self.ready.is_empty()
            && !self.groups.iter().enumerate().any(|(at, group)| self.will_wake(at, group))
    }

    /// Whether games move, or are about to.
    fn is_busy(&self) -> bool {
        // A driver whose game waits for an answer does nothing until that comes.
        let moves = self.outside.iter().enumerate();
        let moves = moves.filter(|(env_worker, _)| !self.queries.holds_up(*env_worker));
        let moves = moves.map(|(_, games)| games.len()).sum::<usize>();
        let waiting = self.queue.is_empty() && self.slow.is_empty() && moves == 0;
        self.running > self.queries.held_up() || !waiting
    }

    /// Whether a batch that is out will let a game go on when it comes back.
    fn will_wake(&self, at: usize, group: &BatchQueue<u32>) -> bool {
        let holds = self.holding >> at & 1 == 1;
        group.holds_up() || (holds && group.out() > 0)
    }

    /// Whether whoever sleeps until a batch is there should look again.
    pub fn is_news(&self) -> bool {
        let changed = self.deadline() != self.alarm;
        !self.ready.is_empty() || changed || self.is_quiescent() || self.is_over()
    }
}
