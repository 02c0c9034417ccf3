//! A request batcher: requests of many callers, answered in batches.
//!
//! It has one lock, of the pending requests, which is released while rows are copied.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::available_memory::{check_allocatable, check_memory};
use crate::collector::batch::{Batch, BatchLayout};
use crate::collector::batch_queue::{BatchQueue, QueueRules, Row};
use crate::collector::sync::{lock, wait};
use crate::error::{Error, Result};

/// A batch queue that any thread may put rows into, each with an owner that is to get the reply. Owners can be of any type:
/// they are returned with the replies, and never dropped under the lock.
#[derive(Debug)]
pub struct RequestBatcher<O> {
    batches: Vec<Arc<Batch>>,
    /// Bytes of a row of each input; these are the first arrays of a batch.
    inputs: Vec<usize>,
    /// The number of arrays of replies, which follow.
    replies: usize,
    pending: Mutex<Pending<O>>,
    batch_ready: Condvar,
}

/// Bytes of a batch beside its memory, about.
const BATCH: usize = 256;

#[derive(Debug)]
struct Pending<O> {
    queue: BatchQueue<O>,
    ready: VecDeque<usize>,
    /// Rows without room in a batch, in order of arrival.
    overflow: VecDeque<Vec<u8>>,
    /// Threads that sleep until there is a batch, and when they will wake by themselves.
    sleepers: usize,
    alarm: Option<Instant>,
    /// The batch being filled goes out short unless another row arrives first.
    flushing: bool,
    closed: bool,
}

impl<O> Pending<O> {
    /// Whether the batch being filled is to go out as it is.
    fn is_due(&self, now: Instant) -> bool {
        let waits = self.queue.deadline().is_some_and(|deadline| deadline <= now);
        waits || (self.flushing && self.queue.is_open())
    }

    fn make_ready(&mut self) {
        while let Some(buffer) = self.queue.next_ready() {
            self.ready.push_back(buffer);
        }
    }
}

/// A batch of requests in the hands of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBatch {
    /// The batch, by its position in the queue.
    pub buffer: usize,
    /// Filled rows, from the first on.
    pub rows: usize,
    /// The number of this delivery of the batch.
    pub serial: u64,
}

impl<O> RequestBatcher<O> {
    /// Creates a request batcher whose rows have these sizes, and that takes at most `memory` bytes. Fails with
    /// [`Error::Value`] for a size of 0, with [`Error::Memory`] when the system refuses.
    pub fn new(
        inputs: Vec<usize>,
        replies: &[usize],
        batch_size: usize,
        buffers: usize,
        timeout: Option<Duration>,
        memory: u64,
    ) -> Result<Self> {
        for (name, number) in [("batch_size", batch_size), ("num_buffers", buffers)] {
            if number == 0 {
                return Err(Error::value(name, "an integer >= 1", number));
            }
        }
        let row: u128 = inputs.iter().chain(replies).map(|&size| size as u128).sum();
        let kept = BATCH as u128 * buffers as u128;
        let needed = row.saturating_mul(batch_size as u128).saturating_mul(buffers as u128);
        check_memory("batches", needed.saturating_add(kept), kept, memory)?;
        let layout = BatchLayout::new(batch_size, inputs.iter().chain(replies).copied())?;
        let batches = Batch::several(layout, buffers)?;
        let pending = Mutex::new(Pending {
            queue: BatchQueue::new(QueueRules { batch_size, buffers, timeout, order: None }),
            ready: VecDeque::new(),
            overflow: VecDeque::new(),
            sleepers: 0,
            alarm: None,
            flushing: false,
            closed: false,
        });
        let replies = replies.len();
        Ok(Self { batches, inputs, replies, pending, batch_ready: Condvar::new() })
    }

    /// Puts a row, the bytes of each input, which are copied while no batch has room. Fails and returns the owner, with
    /// [`Error::State`] when the batcher is closed, with [`Error::Memory`] when the copy cannot be allocated.
    pub fn put(&self, owner: O, inputs: &[&[u8]]) -> Result<(), (O, Error)> {
        let mut pending = lock(&self.pending);
        if pending.closed {
            return Err((owner, closed()));
        }
        pending.flushing = false;
        if !pending.queue.assigns_at_once() {
            if let Err(error) = check_allocatable(inputs.iter().map(|bytes| bytes.len()).sum()) {
                return Err((owner, error));
            }
            pending.overflow.push_back(inputs.concat());
        }
        let Some(row) = pending.queue.claim(owner) else { return Ok(()) };
        drop(pending);
        for (part, bytes) in inputs.iter().enumerate() {
            self.batches[row.buffer].write(part, row.row, 0, bytes);
        }
        self.commit(lock(&self.pending), &[row]);
        Ok(())
    }

    fn commit(&self, mut pending: MutexGuard<'_, Pending<O>>, rows: &[Row]) {
        for row in rows {
            pending.queue.commit(row.buffer, 1);
        }
        pending.make_ready();
        if pending.sleepers > 0
            && (!pending.ready.is_empty() || pending.queue.deadline() != pending.alarm)
        {
            self.batch_ready.notify_one();
        }
    }

    /// Waits for a batch, whose replies are zero; None when `until` comes first. Fails with [`Error::State`] when the batcher
    /// is closed.
    pub fn wait(&self, until: Option<Instant>) -> Result<Option<RequestBatch>> {
        let mut pending = lock(&self.pending);
        loop {
            if pending.closed {
                return Err(closed());
            }
            if let Some(buffer) = pending.ready.pop_front() {
                let (rows, serial) = pending.queue.take(buffer);
                drop(pending);
                let parts = self.inputs.len()..self.inputs.len() + self.replies;
                parts.for_each(|part| self.batches[buffer].zero(part, rows));
                return Ok(Some(RequestBatch { buffer, rows, serial }));
            }
            let now = Instant::now();
            let deadline = pending.queue.deadline();
            if pending.is_due(now) {
                pending.flushing = false;
                pending.queue.shorten(|_, _| {});
                pending.make_ready();
                continue;
            }
            let next = until.into_iter().chain(deadline).min();
            if until.is_some_and(|until| until <= now) {
                return Ok(None);
            }
            pending = self.sleep(pending, next.map(|next| next - now));
        }
    }

    fn sleep<'a>(
        &'a self,
        mut pending: MutexGuard<'a, Pending<O>>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Pending<O>> {
        pending.sleepers += 1;
        pending.alarm = pending.queue.deadline();
        let mut pending = wait(&self.batch_ready, pending, left);
        pending.sleepers -= 1;
        pending
    }

    /// Sends the batch being filled out short as soon as a thread waits for it, unless another row arrives first.
    pub fn flush(&self) {
        let mut pending = lock(&self.pending);
        pending.flushing = true;
        if pending.sleepers > 0 && pending.queue.is_open() {
            self.batch_ready.notify_one();
        }
    }

    /// Takes back a batch that could not be processed, and delivers it again before all others. Fails with [`Error::State`]
    /// when this delivery is over.
    pub fn put_back(&self, batch: RequestBatch) -> Result<()> {
        let mut pending = lock(&self.pending);
        pending.queue.put_back(batch.buffer, batch.serial)?;
        pending.ready.push_front(batch.buffer);
        self.batch_ready.notify_one();
        Ok(())
    }

    /// Frees a batch whose replies have been read. Returns its owners, in the order of its rows. Fails with [`Error::State`]
    /// when this delivery is over.
    pub fn release(&self, batch: RequestBatch) -> Result<Vec<O>> {
        let mut pending = lock(&self.pending);
        let owners = pending.queue.answer(batch.buffer, batch.serial)?;
        pending.queue.release(batch.buffer, Vec::new());
        let mut rows = Vec::new();
        pending.queue.assign_waiting(|_, row| rows.push(row));
        let waited: Vec<_> = pending.overflow.drain(..rows.len()).collect();
        if rows.is_empty() {
            return Ok(owners);
        }
        drop(pending);
        for (row, bytes) in rows.iter().zip(&waited) {
            self.write(*row, bytes);
        }
        self.commit(lock(&self.pending), &rows);
        Ok(owners)
    }

    fn write(&self, row: Row, mut bytes: &[u8]) {
        for (part, &size) in self.inputs.iter().enumerate() {
            let (input, rest) = bytes.split_at(size);
            self.batches[row.buffer].write(part, row.row, 0, input);
            bytes = rest;
        }
    }

    /// Closes the batcher: threads that wait for a batch get an error. Returns the owners of unanswered rows, those in the
    /// hands of a consumer too.
    pub fn close(&self) -> Vec<O> {
        let mut pending = lock(&self.pending);
        pending.closed = true;
        let owners = pending.queue.abandon();
        drop(pending);
        self.batch_ready.notify_all();
        owners
    }

    /// The batches, which are filled in turn.
    pub fn batches(&self) -> &[Arc<Batch>] {
        &self.batches
    }
}

fn closed() -> Error {
    Error::State("this request batcher is closed".into())
}
