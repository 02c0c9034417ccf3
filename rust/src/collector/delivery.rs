//! Batches on their way to those who answer them, and back.

use std::time::Duration;

use crate::collector::scheduler::{Scheduler, Taken};
use crate::collector::work_batch::{Task, WorkBatch};
use crate::error::Result;

/// Work that who answers a batch does at once. Others would have to be woken for a share of it, and the batch
/// that follows would wait for them.
const ALONE: Duration = Duration::from_micros(100);

impl Scheduler {
    /// The batch that has been ready longest, of one group or of any.
    pub fn take(&mut self, only: Option<usize>) -> Option<Taken> {
        let at = self.ready.iter().position(|&(group, _)| only.is_none_or(|only| only == group))?;
        let (group, buffer) = self.ready.remove(at)?;
        let (rows, serial) = self.groups[group].take(buffer);
        Some(Taken { group, buffer, rows, serial })
    }

    /// Takes back a batch that is to be delivered again, before all others.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn put_back(&mut self, taken: Taken) -> Result<()> {
        self.groups[taken.group].put_back(taken.buffer, taken.serial)?;
        self.ready.push_front((taken.group, taken.buffer));
        Ok(())
    }

    /// Makes tasks of an answered batch, when its games are quick, wait for nothing else, and its answers are little
    /// work: then they are best taken and gone on with at once. Returns whether it did.
    pub fn answer_at_once(&mut self, chunk: &mut WorkBatch, taken: Taken, owners: &[u32]) -> bool {
        let holds = self.holding >> taken.group & 1 == 1;
        let work = Duration::from_nanos((owners.len() as f64 * self.cost) as u64);
        let quick = !self.blocking && !self.has_drivers() && work <= ALONE;
        let ready = |&slot: &u32| !self.is_slow[slot as usize] && self.ends[slot as usize] == 1;
        if !holds || !quick || !owners.iter().all(ready) {
            return false;
        }
        chunk.tasks.clear();
        chunk.tasks.extend(owners.iter().zip(0..).map(|(&slot, row)| {
            self.ends[slot as usize] = 0;
            Task::Answer { slot, row }
        }));
        chunk.in_sections = self.groups[taken.group].gives_at_once();
        self.running += chunk.tasks.len();
        true
    }

    /// Lets the games of an answered batch go on, and others have its rows.
    pub fn release(&mut self, taken: Taken, owners: Vec<u32>) {
        if self.holding >> taken.group & 1 == 1 {
            for &slot in &owners {
                self.end(slot);
            }
        }
        self.free(taken, owners);
    }

    /// Lets others have the rows of a batch.
    pub(super) fn free(&mut self, taken: Taken, owners: Vec<u32>) {
        let group = &mut self.groups[taken.group];
        let full = group.batch_size();
        group.release(taken.buffer, owners);
        self.grant(taken.group);
        let delivered = &mut self.delivered[taken.group];
        delivered.batches += 1;
        delivered.rows += taken.rows as u64;
        delivered.short += u64::from(taken.rows < full);
    }
}
