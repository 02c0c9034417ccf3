//! Batches that go out before they are full: after their timeout, or because nothing else would happen. Also
//! restarts games whose back-off has passed, and tells when a run is over.
//!
//! These methods of the scheduler need its lock and take no other. Threads that wait for a batch call them.

use std::time::Instant;

use crate::collector::batch_queue::BatchQueue;
use crate::collector::scheduler::{Scheduler, bits};
use crate::collector::work_batch::Task;

impl Scheduler {
    /// Whether all games were dropped, and only batches that are not full are left of them.
    pub fn is_over(&self) -> bool {
        let left = self.is_busy() || self.queues.iter().any(|queue| queue.out() > 0);
        self.failures.live() == 0 && !left && self.ready.is_empty()
    }

    /// Once all games were dropped, sends out one batch with their last rows, which is not full. Returns whether there
    /// was one.
    pub fn flush_leftovers(&mut self) -> bool {
        let over = self.is_over();
        let open = (0..self.queues.len()).find(|&at| over && self.queues[at].is_open());
        if let Some(collector) = open {
            self.shorten(collector);
        }
        open.is_some()
    }

    /// Sends batches out short whose timeout has passed, and restarts games whose back-off has. Returns whether there were
    /// any.
    pub fn handle_deadlines(&mut self) -> bool {
        let mut changed = false;
        while let Some(game) = self.failures.rested(Instant::now) {
            self.work.advance(game);
            changed = true;
        }
        for collector in 0..self.queues.len() {
            let deadline = self.queues[collector].deadline();
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.shorten(collector);
                changed = true;
            }
        }
        changed
    }

    fn shorten(&mut self, collector: usize) {
        let work = &mut self.work;
        let write = |&game: &u32, row| work.push(Task::write(game, collector, row));
        self.queues[collector].shorten(write);
        self.note_sealed(collector);
        self.make_ready(collector);
    }

    /// When the next batch is to go out short, or the next game to restart.
    pub fn deadline(&self) -> Option<Instant> {
        let rest = self.failures.next_rested();
        self.queues.iter().filter_map(BatchQueue::deadline).chain(rest).min()
    }

    /// When every game waits and nothing can wake one, sends out short the oldest batch that holds games. Returns whether
    /// there was one.
    pub fn send_oldest_if_starved(&mut self) -> bool {
        if !self.is_starved() {
            return false;
        }
        let open = bits(self.holding).filter_map(|at| Some((self.queues[at].since()?, at)));
        let oldest = open.min();
        if let Some((_, collector)) = oldest {
            self.shorten(collector);
        }
        oldest.is_some()
    }

    /// Whether games can go on only if an incomplete batch goes out.
    fn is_starved(&self) -> bool {
        !self.is_busy()
            && self.ready.is_empty()
            && !self.queues.iter().enumerate().any(|(at, queue)| self.will_wake(at, queue))
    }

    /// Whether games move, or are about to.
    fn is_busy(&self) -> bool {
        // An env worker whose game waits for the answer to a query does nothing meanwhile.
        let moving = self.work.running > self.queries.blocked_count();
        moving || !self.work.is_empty() || self.possible_moves() > 0
    }

    /// Whether the return of a batch that is out lets a game go on.
    fn will_wake(&self, collector: usize, queue: &BatchQueue<u32>) -> bool {
        queue.wakes_games() || (self.blocks_games(collector) && queue.out() > 0)
    }

    /// Whether threads that sleep until there is a batch are to look again.
    pub fn wakes_consumers(&self) -> bool {
        let changed = self.deadline() != self.alarm;
        !self.ready.is_empty()
            || changed
            || self.wakes_inline()
            || self.is_starved()
            || self.is_over()
    }
}
