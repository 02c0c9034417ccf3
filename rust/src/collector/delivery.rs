//! Delivery: which batch goes out next, and what its return allows.
//!
//! These methods of the scheduler need its lock and take no other. [`super::runtime`] reads replies and steps games after
//! releasing it.

use std::time::Duration;

use crate::collector::batch_queue::TakenBatch;
use crate::collector::scheduler::Scheduler;
use crate::collector::work_batch::{Task, WorkBatch};
use crate::error::Result;

/// Duration of the work that a thread does immediately when it returns a batch. Other threads would have to be woken for a
/// share of it, and the next batch would wait for them.
const ALONE: Duration = Duration::from_micros(100);

impl Scheduler {
    /// Takes the batch that has been ready longest, of the collector `only` or of any.
    pub fn take(&mut self, only: Option<usize>) -> Option<TakenBatch> {
        let wanted = |collector| only.is_none_or(|only| only == collector);
        let at = self.ready.iter().position(|&(collector, _)| wanted(collector))?;
        let (collector, buffer) = self.ready.remove(at)?;
        let (rows, serial) = self.queues[collector].take(buffer);
        Some(TakenBatch { collector, buffer, rows, serial })
    }

    /// Takes a batch back to deliver it again, before all others. Fails when this delivery is over.
    pub fn put_back(&mut self, taken: TakenBatch) -> Result<()> {
        self.queues[taken.collector].put_back(taken.buffer, taken.serial)?;
        self.ready.push_front((taken.collector, taken.buffer));
        Ok(())
    }

    /// Makes tasks of an answered batch when they are cheap, and its games are quick and wait for nothing else: then the
    /// caller is to process the replies immediately. Returns whether it made them.
    pub fn reply_immediately(
        &mut self,
        work: &mut WorkBatch,
        taken: TakenBatch,
        owners: &[u32],
    ) -> bool {
        let cheap = !self.has_env_workers() && self.work.fit(owners.len(), ALONE);
        let ready = |&game: &u32| !self.work.is_slow(game) && self.awaited[game as usize] == 1;
        if !self.blocks_games(taken.collector) || !cheap || !owners.iter().all(ready) {
            return false;
        }
        work.tasks.clear();
        work.tasks.extend(owners.iter().zip(0..).map(|(&game, row)| {
            self.awaited[game as usize] = 0;
            Task::Reply { game, row }
        }));
        work.in_sections = self.queues[taken.collector].assigns_at_once();
        self.work.running += work.tasks.len();
        true
    }

    /// Lets the games of an answered batch go on, and assigns its rows to others.
    pub fn release(&mut self, taken: TakenBatch, owners: Vec<u32>) {
        if self.blocks_games(taken.collector) {
            for &game in &owners {
                self.end_wait(game);
            }
        }
        self.free(taken, owners);
    }

    /// Assigns the rows of a batch to others.
    pub(super) fn free(&mut self, taken: TakenBatch, owners: Vec<u32>) {
        let queue = &mut self.queues[taken.collector];
        let full = queue.batch_size();
        queue.release(taken.buffer, owners);
        self.assign_waiting(taken.collector);
        let delivered = &mut self.delivered[taken.collector];
        delivered.batches += 1;
        delivered.rows += taken.rows as u64;
        delivered.short += u64::from(taken.rows < full);
    }
}
