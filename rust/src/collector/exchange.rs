//! Questions of many, answered together.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::collector::batch::{self, Batch, Layout};
use crate::collector::group::{Group, Row, Rules};
use crate::error::{Error, Result};

/// One group that anybody may put rows into, each with an owner who is to get the answer.
///
/// What an owner is, and how it is told, is the caller's business. Owners are dropped only by what returns
/// them, never under the lock.
#[derive(Debug)]
pub struct Exchange<O> {
    batches: Vec<Arc<Batch>>,
    /// Bytes of a row in each of the inputs, which are the first arrays of a batch, and of the replies.
    inputs: Vec<usize>,
    replies: usize,
    desk: Mutex<Desk<O>>,
    news: Condvar,
}

/// Bytes that a batch takes beside its memory, about.
const BATCH: usize = 256;

#[derive(Debug)]
struct Desk<O> {
    group: Group<O>,
    ready: VecDeque<usize>,
    /// Rows of those who wait for one, in the order in which they wait.
    late: VecDeque<Vec<u8>>,
    /// Threads that sleep until there is a batch, and the deadline by which they will wake by themselves.
    sleepers: usize,
    alarm: Option<Instant>,
    /// Nobody else will ask soon.
    lull: bool,
    closed: bool,
}

impl<O> Desk<O> {
    /// Whether the batch that is being filled is to go out as it is.
    fn is_due(&self, now: Instant) -> bool {
        let waits = self.group.deadline().is_some_and(|deadline| deadline <= now);
        waits || (self.lull && self.group.is_open())
    }

    fn make_ready(&mut self) {
        while let Some(buffer) = self.group.next_ready() {
            self.ready.push_back(buffer);
        }
    }
}

/// A batch of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Which batch.
    pub buffer: usize,
    /// Rows filled, from the first on.
    pub rows: usize,
    /// Which delivery of it.
    pub serial: u64,
}

impl<O> Exchange<O> {
    /// An exchange whose rows have these sizes, and that takes at most `memory` bytes.
    ///
    /// # Errors
    /// [`Error::Value`] for a size of 0, [`Error::Memory`] when the system refuses.
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
        batch::check_memory("batches", needed.saturating_add(kept), kept, memory)?;
        let layout = Layout::new(batch_size, inputs.iter().chain(replies).copied())?;
        let batches = Batch::several(layout, buffers)?;
        let group = Group::new(Rules { batch_size, buffers, timeout, order: None });
        let (ready, late) = (VecDeque::new(), VecDeque::new());
        let desk =
            Desk { group, ready, late, sleepers: 0, alarm: None, lull: false, closed: false };
        let replies = replies.len();
        Ok(Self { batches, inputs, replies, desk: Mutex::new(desk), news: Condvar::new() })
    }

    fn desk(&self) -> MutexGuard<'_, Desk<O>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a row: for each input its bytes. When no batch has room, they are kept until one has.
    ///
    /// # Errors
    /// [`Error::State`] when it is closed, [`Error::Memory`] when there is none to keep the row in: the owner
    /// comes back.
    pub fn put(&self, owner: O, inputs: &[&[u8]]) -> Result<(), (O, Error)> {
        let mut desk = self.desk();
        if desk.closed {
            return Err((owner, closed()));
        }
        desk.lull = false;
        if !desk.group.gives_at_once() {
            match kept(inputs) {
                Ok(bytes) => desk.late.push_back(bytes),
                Err(error) => return Err((owner, error)),
            }
        }
        let Some(row) = desk.group.claim(owner) else { return Ok(()) };
        drop(desk);
        for (part, bytes) in inputs.iter().enumerate() {
            self.batches[row.buffer].write(part, row.row, 0, bytes);
        }
        self.commit(self.desk(), &[row]);
        Ok(())
    }

    fn commit(&self, mut desk: MutexGuard<'_, Desk<O>>, rows: &[Row]) {
        for &row in rows {
            desk.group.commit(row);
        }
        desk.make_ready();
        if desk.sleepers > 0 && (!desk.ready.is_empty() || desk.group.deadline() != desk.alarm) {
            self.news.notify_one();
        }
    }

    /// Waits for a batch; none when `until` comes first. Its replies are zero.
    ///
    /// # Errors
    /// [`Error::State`] when it is closed.
    pub fn wait(&self, until: Option<Instant>) -> Result<Option<Asked>> {
        let mut desk = self.desk();
        loop {
            if desk.closed {
                return Err(closed());
            }
            if let Some(buffer) = desk.ready.pop_front() {
                let (rows, serial) = desk.group.take(buffer);
                drop(desk);
                let parts = self.inputs.len()..self.inputs.len() + self.replies;
                parts.for_each(|part| self.batches[buffer].zero(part, rows));
                return Ok(Some(Asked { buffer, rows, serial }));
            }
            let now = Instant::now();
            let deadline = desk.group.deadline();
            if desk.is_due(now) {
                desk.lull = false;
                desk.group.shorten(|_, _| {});
                desk.make_ready();
                continue;
            }
            let next = until.into_iter().chain(deadline).min();
            if until.is_some_and(|until| until <= now) {
                return Ok(None);
            }
            desk = self.sleep(desk, next.map(|next| next - now));
        }
    }

    fn sleep<'a>(
        &'a self,
        mut desk: MutexGuard<'a, Desk<O>>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Desk<O>> {
        desk.sleepers += 1;
        desk.alarm = desk.group.deadline();
        let mut desk = match left {
            None => self.news.wait(desk).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.news.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        desk.sleepers -= 1;
        desk
    }

    /// Has the rows that wait go out as soon as somebody waits for a batch, unless another row comes before.
    pub fn hurry(&self) {
        let mut desk = self.desk();
        desk.lull = true;
        if desk.sleepers > 0 && desk.group.is_open() {
            self.news.notify_one();
        }
    }

    /// Takes back a batch that could not be dealt with; it is delivered again, before all others.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn put_back(&self, asked: Asked) -> Result<()> {
        let mut desk = self.desk();
        desk.group.put_back(asked.buffer, asked.serial)?;
        desk.ready.push_front(asked.buffer);
        self.news.notify_one();
        Ok(())
    }

    /// The owners of a batch, in the order of its rows. The batch is filled anew: its answers must have been
    /// taken out.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn release(&self, asked: Asked) -> Result<Vec<O>> {
        let mut desk = self.desk();
        let owners = desk.group.answer(asked.buffer, asked.serial)?;
        desk.group.release(asked.buffer, Vec::new());
        let mut rows = Vec::new();
        desk.group.grants(|_, row| rows.push(row));
        let late: Vec<_> = desk.late.drain(..rows.len()).collect();
        if rows.is_empty() {
            return Ok(owners);
        }
        drop(desk);
        for (row, bytes) in rows.iter().zip(&late) {
            self.write(*row, bytes);
        }
        self.commit(self.desk(), &rows);
        Ok(owners)
    }

    fn write(&self, row: Row, mut bytes: &[u8]) {
        for (part, &size) in self.inputs.iter().enumerate() {
            let (input, rest) = bytes.split_at(size);
            self.batches[row.buffer].write(part, row.row, 0, input);
            bytes = rest;
        }
    }

    /// Ends everything: who waits for a batch gets an error. Returns the owners whose rows are unanswered,
    /// those in the hands of a consumer too.
    pub fn close(&self) -> Vec<O> {
        let mut desk = self.desk();
        desk.closed = true;
        let owners = desk.group.abandon();
        drop(desk);
        self.news.notify_all();
        owners
    }

    /// The batches that are filled in turn.
    pub fn batches(&self) -> &[Arc<Batch>] {
        &self.batches
    }
}

/// A row's bytes in one piece.
fn kept(inputs: &[&[u8]]) -> Result<Vec<u8>> {
    let size = inputs.iter().map(|bytes| bytes.len()).sum();
    let mut row = Vec::new();
    row.try_reserve_exact(size)
        .map_err(|error| Error::Memory(format!("cannot keep a row of {size} bytes: {error}")))?;
    for bytes in inputs {
        row.extend_from_slice(bytes);
    }
    Ok(row)
}

fn closed() -> Error {
    Error::State("this group is closed".into())
}
