//! Row assignment: which owner has which row of which batch, and in which phase each batch is.
//!
//! Bookkeeping without bytes and without a lock of its own: the queues of a context are under the lock of the scheduler, that
//! of a request batcher under the batcher's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A row of a queue's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The batch, by its position in the queue.
    pub buffer: usize,
    /// The row in it.
    pub row: usize,
}

/// A batch in the hands of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenBatch {
    /// The collector.
    pub collector: usize,
    /// The batch, by its position in the collector's queue.
    pub buffer: usize,
    /// Filled rows, from the first on.
    pub rows: usize,
    /// The number of this delivery of the batch.
    pub serial: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchPhase {
    Free,
    Filling,
    /// All rows are assigned, and some still being written.
    Sealed,
    Ready,
    Out,
    Answered,
}

#[derive(Debug)]
struct Buffer<O> {
    phase: BatchPhase,
    owners: Vec<O>,
    written: usize,
    /// Deliveries so far, to recognise late answers to an earlier one.
    serial: u64,
}

/// The rules by which a queue fills its batches.
#[derive(Debug, Clone, Copy)]
pub struct QueueRules<O> {
    /// Rows of a full batch.
    pub batch_size: usize,
    /// Batches that are filled in turn.
    pub buffers: usize,
    /// A batch goes out short when its first row has waited so long.
    pub timeout: Option<Duration>,
    /// The order of rows, if not that of arrival. Rows are then assigned only when all of a batch are requested.
    pub order: Option<fn(&O, &O) -> std::cmp::Ordering>,
}

/// Batches of one kind, filled row by row and delivered in turn.
///
/// A row goes through [`claim`](Self::claim), or [`assign_waiting`](Self::assign_waiting) after a wait, and
/// [`commit`](Self::commit); a batch through [`next_ready`](Self::next_ready), [`take`](Self::take),
/// [`answer`](Self::answer) and [`release`](Self::release).
#[derive(Debug)]
pub struct BatchQueue<O> {
    rules: QueueRules<O>,
    buffers: Vec<Buffer<O>>,
    free: VecDeque<usize>,
    open: Option<usize>,
    /// Sealed batches, oldest first.
    sealed: VecDeque<usize>,
    /// Batches sealed since the last [`Self::take_newly_sealed`].
    newly_sealed: usize,
    waiting: VecDeque<O>,
    /// When the first row of the batch being filled was requested.
    since: Option<Instant>,
    out: usize,
}

impl<O> BatchQueue<O> {
    /// Creates a queue whose batches are all free.
    pub fn new(rules: QueueRules<O>) -> Self {
        let buffer =
            |_| Buffer { phase: BatchPhase::Free, owners: Vec::new(), written: 0, serial: 0 };
        Self {
            buffers: (0..rules.buffers).map(buffer).collect(),
            free: (0..rules.buffers).collect(),
            open: None,
            sealed: VecDeque::new(),
            newly_sealed: 0,
            waiting: VecDeque::new(),
            since: None,
            out: 0,
            rules,
        }
    }

    /// Rows of a full batch.
    pub fn batch_size(&self) -> usize {
        self.rules.batch_size
    }

    /// Claims a row for `owner`. Without a free row returns None; the owner then waits until [`Self::assign_waiting`] visits
    /// it.
    pub fn claim(&mut self, owner: O) -> Option<Row> {
        if self.assigns_at_once() {
            return Some(self.assign(owner));
        }
        self.wait(owner);
        None
    }

    /// Claims adjacent rows for the first of some owners. Returns the first row, and how many; None without a free row.
    pub fn claim_many(&mut self, owners: impl Iterator<Item = O>) -> Option<(Row, usize)> {
        if !self.assigns_at_once() {
            return None;
        }
        let at = self.opened();
        let room = self.rules.batch_size;
        let buffer = &mut self.buffers[at];
        let row = buffer.owners.len();
        buffer.owners.extend(owners.take(room - row));
        let filled = buffer.owners.len();
        if filled == room {
            self.close();
        }
        Some((Row { buffer: at, row }, filled - row))
    }

    /// Queues an owner for a row.
    pub fn wait(&mut self, owner: O) {
        self.since.get_or_insert_with(Instant::now);
        self.waiting.push_back(owner);
    }

    /// Whether [`Self::claim`] would give a row.
    pub fn assigns_at_once(&self) -> bool {
        self.rules.order.is_none() && self.waiting.is_empty() && self.has_row()
    }

    fn has_row(&self) -> bool {
        self.open.is_some() || !self.free.is_empty()
    }

    /// Assigns the next row; there is one.
    fn assign(&mut self, owner: O) -> Row {
        let at = self.opened();
        let buffer = &mut self.buffers[at];
        buffer.owners.push(owner);
        let row = buffer.owners.len() - 1;
        if buffer.owners.len() == self.rules.batch_size {
            self.close();
        }
        Row { buffer: at, row }
    }

    /// The batch that is being filled, or a free one to fill from now on; there is one.
    fn opened(&mut self) -> usize {
        let at = self.open.or_else(|| self.free.pop_front()).unwrap_or_default();
        if self.open.replace(at).is_none() && self.rules.order.is_none() {
            self.since = Some(Instant::now());
        }
        self.buffers[at].phase = BatchPhase::Filling;
        at
    }

    fn close(&mut self) {
        if let Some(at) = self.open.take() {
            self.since = (!self.waiting.is_empty()).then(Instant::now);
            self.buffers[at].phase = BatchPhase::Sealed;
            self.sealed.push_back(at);
            self.newly_sealed += 1;
        }
    }

    /// How many batches were sealed since the last call.
    pub fn take_newly_sealed(&mut self) -> usize {
        std::mem::take(&mut self.newly_sealed)
    }

    /// The next batch to deliver, whose rows and those of all batches before it are written. This keeps the rows of one owner
    /// in order.
    pub fn next_ready(&mut self) -> Option<usize> {
        let at = *self.sealed.front()?;
        let buffer = &mut self.buffers[at];
        if buffer.written < buffer.owners.len() {
            return None;
        }
        buffer.phase = BatchPhase::Ready;
        self.sealed.pop_front()
    }

    /// Assigns rows to owners that waited, and calls `visit` for each: in the order of arrival, or for a whole batch in the
    /// queue's own order.
    pub fn assign_waiting(&mut self, mut visit: impl FnMut(&O, Row)) {
        if self.rules.order.is_some() {
            while self.waiting.len() >= self.rules.batch_size && !self.free.is_empty() {
                self.assign_in_order(&mut visit);
            }
            return;
        }
        while self.has_row()
            && let Some(owner) = self.waiting.pop_front()
        {
            let row = self.assign(owner);
            self.visit(row, &mut visit);
        }
    }

    fn visit(&self, row: Row, visit: &mut impl FnMut(&O, Row)) {
        visit(&self.buffers[row.buffer].owners[row.row], row);
    }

    fn assign_in_order(&mut self, visit: &mut impl FnMut(&O, Row)) {
        let count = self.waiting.len().min(self.rules.batch_size);
        let mut owners: Vec<O> = self.waiting.drain(..count).collect();
        if let Some(order) = self.rules.order {
            owners.sort_by(order);
        }
        for owner in owners {
            let row = self.assign(owner);
            self.visit(row, visit);
        }
        self.close();
    }

    /// Seals the batch being filled, so that it goes out short once its rows are written. In the queue's own order its rows
    /// are assigned only now, and `visit` is called for each.
    pub fn shorten(&mut self, mut visit: impl FnMut(&O, Row)) {
        if self.rules.order.is_some() && self.is_open() {
            self.assign_in_order(&mut visit);
        }
        self.close();
    }

    /// Whether a batch with some rows waits for more.
    pub fn is_open(&self) -> bool {
        match self.rules.order {
            Some(_) => !self.waiting.is_empty() && !self.free.is_empty(),
            None => self.open.is_some(),
        }
    }

    /// When the batch being filled got its first row.
    pub fn since(&self) -> Option<Instant> {
        self.since.filter(|_| self.is_open())
    }

    /// When the batch being filled is to go out short.
    pub fn deadline(&self) -> Option<Instant> {
        self.since()?.checked_add(self.rules.timeout?)
    }

    /// Whether an owner waits for a row of a batch that is out now.
    pub fn wakes_games(&self) -> bool {
        self.out > 0 && !self.waiting.is_empty()
    }

    /// Batches in the hands of consumers.
    pub fn out(&self) -> usize {
        self.out
    }

    /// Marks so many rows of a batch as written.
    pub fn commit(&mut self, buffer: usize, rows: usize) {
        self.buffers[buffer].written += rows;
    }

    /// Gives a ready batch to a consumer. Returns its rows, and the number of this delivery.
    pub fn take(&mut self, buffer: usize) -> (usize, u64) {
        self.out += 1;
        let buffer = &mut self.buffers[buffer];
        buffer.phase = BatchPhase::Out;
        buffer.serial += 1;
        (buffer.owners.len(), buffer.serial)
    }

    /// Fails with [`Error::State`] when this delivery is over.
    pub fn check_out(&self, buffer: usize, serial: u64) -> Result<()> {
        let held = self.buffers.get(buffer);
        if held.is_some_and(|held| held.phase == BatchPhase::Out && held.serial == serial) {
            return Ok(());
        }
        Err(Error::State("this batch was answered or given back before".into()))
    }

    /// Takes back a batch to deliver it again. Fails with [`Error::State`] when this delivery is over.
    pub fn put_back(&mut self, buffer: usize, serial: u64) -> Result<()> {
        self.check_out(buffer, serial)?;
        self.buffers[buffer].phase = BatchPhase::Ready;
        self.out -= 1;
        Ok(())
    }

    /// Ends the delivery of a batch, whose replies are read next. Returns its owners, in the order of its rows. Fails with
    /// [`Error::State`] when this delivery is over.
    pub fn answer(&mut self, buffer: usize, serial: u64) -> Result<Vec<O>> {
        self.check_out(buffer, serial)?;
        self.buffers[buffer].phase = BatchPhase::Answered;
        Ok(std::mem::take(&mut self.buffers[buffer].owners))
    }

    /// Frees a batch whose replies have been read; the vector of its owners is reused.
    pub fn release(&mut self, buffer: usize, mut owners: Vec<O>) {
        owners.clear();
        self.out -= 1;
        let freed = &mut self.buffers[buffer];
        freed.phase = BatchPhase::Free;
        freed.written = 0;
        freed.owners = owners;
        self.free.push_back(buffer);
    }

    /// Empties the queue for good. Returns the owners that have a row or wait for one.
    pub fn abandon(&mut self) -> Vec<O> {
        let rows = self.buffers.iter_mut().flat_map(|buffer| std::mem::take(&mut buffer.owners));
        rows.chain(self.waiting.drain(..)).collect()
    }
}
