//! Which row of which batch is whose.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A row of a group's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which of the group's batches.
    pub buffer: usize,
    /// Which row of it.
    pub row: usize,
}

/// Where a batch is on its way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Free,
    Filling,
    /// No more rows; those that are claimed are being written.
    Sealed,
    Ready,
    Out,
    Answered,
}

#[derive(Debug)]
struct Buffer<O> {
    phase: Phase,
    owners: Vec<O>,
    written: usize,
    /// Deliveries so far: tells an answer to this one from a late answer to another.
    serial: u64,
}

/// How a group fills its batches.
#[derive(Debug, Clone, Copy)]
pub struct Rules<O> {
    /// Rows of a full batch.
    pub batch_size: usize,
    /// Batches that are filled in turn.
    pub buffers: usize,
    /// After the first row has waited so long, a batch goes out short.
    pub timeout: Option<Duration>,
    /// The order of rows, when it is not that of arrival. Then rows are assigned only when all of a batch
    /// are asked for.
    pub order: Option<fn(&O, &O) -> std::cmp::Ordering>,
}

/// Batches of one kind, filled row by row and delivered in turn: the bookkeeping, without the bytes.
///
/// A row goes from [`claim`](Self::claim), or [`grants`](Self::grants) for who had to wait, through
/// [`commit`](Self::commit); a batch from [`next_ready`](Self::next_ready) through [`take`](Self::take),
/// [`answer`](Self::answer) and [`release`](Self::release).
#[derive(Debug)]
pub struct BatchQueue<O> {
    rules: Rules<O>,
    buffers: Vec<Buffer<O>>,
    free: VecDeque<usize>,
    open: Option<usize>,
    /// Batches without room that are still being written, oldest first.
    sealed: VecDeque<usize>,
    /// How many of them nobody has asked about.
    news: usize,
    waiting: VecDeque<O>,
    /// When the first row of the batch being filled was asked for.
    since: Option<Instant>,
    out: usize,
}

impl<O> BatchQueue<O> {
    /// A group with all batches free.
    pub fn new(rules: Rules<O>) -> Self {
        let buffer = |_| Buffer { phase: Phase::Free, owners: Vec::new(), written: 0, serial: 0 };
        Self {
            buffers: (0..rules.buffers).map(buffer).collect(),
            free: (0..rules.buffers).collect(),
            open: None,
            sealed: VecDeque::new(),
            news: 0,
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

    /// A row for `owner`, or none now: then it waits its turn, and [`Self::grants`] will name it.
    pub fn claim(&mut self, owner: O) -> Option<Row> {
        if self.gives_at_once() {
            return Some(self.allot(owner));
        }
        self.wait(owner);
        None
    }

    /// Rows one after the other for the first of some owners: the first row, and how many. None when there are none
    /// now.
    pub fn claim_many(&mut self, owners: impl Iterator<Item = O>) -> Option<(Row, usize)> {
        if !self.gives_at_once() {
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

    /// Has an owner wait for a row.
    pub fn wait(&mut self, owner: O) {
        self.since.get_or_insert_with(Instant::now);
        self.waiting.push_back(owner);
    }

    /// Whether [`Self::claim`] would give a row.
    pub fn gives_at_once(&self) -> bool {
        self.rules.order.is_none() && self.waiting.is_empty() && self.has_row()
    }

    fn has_row(&self) -> bool {
        self.open.is_some() || !self.free.is_empty()
    }

    /// The next row; there is one.
    fn allot(&mut self, owner: O) -> Row {
        let at = self.opened();
        let buffer = &mut self.buffers[at];
        buffer.owners.push(owner);
        let row = buffer.owners.len() - 1;
        if buffer.owners.len() == self.rules.batch_size {
            self.close();
        }
        Row { buffer: at, row }
    }

    /// The batch that is being filled, or a free one that is from now on; there is one.
    fn opened(&mut self) -> usize {
        let at = self.open.or_else(|| self.free.pop_front()).unwrap_or_default();
        if self.open.replace(at).is_none() && self.rules.order.is_none() {
            self.since = Some(Instant::now());
        }
        self.buffers[at].phase = Phase::Filling;
        at
    }

    fn close(&mut self) {
        if let Some(at) = self.open.take() {
            self.since = (!self.waiting.is_empty()).then(Instant::now);
            self.buffers[at].phase = Phase::Sealed;
            self.sealed.push_back(at);
            self.news += 1;
        }
    }

    /// How many batches have got all their rows since this was asked last.
    pub fn sealed(&mut self) -> usize {
        std::mem::take(&mut self.news)
    }

    /// The next batch that is ready to be delivered: all its rows are written, and so are those of the batches
    /// before it. In this way what is one owner's stays in order.
    pub fn next_ready(&mut self) -> Option<usize> {
        let at = *self.sealed.front()?;
        let buffer = &mut self.buffers[at];
        if buffer.written < buffer.owners.len() {
            return None;
        }
        buffer.phase = Phase::Ready;
        self.sealed.pop_front()
    }

    /// Rows for those who waited, each named by `visit` with its owner; in the order of arrival, or all of a
    /// batch in the group's own order.
    pub fn grants(&mut self, mut visit: impl FnMut(&O, Row)) {
        if self.rules.order.is_some() {
            while self.waiting.len() >= self.rules.batch_size && !self.free.is_empty() {
                self.allot_in_order(&mut visit);
            }
            return;
        }
        while self.has_row()
            && let Some(owner) = self.waiting.pop_front()
        {
            let row = self.allot(owner);
            self.visit(row, &mut visit);
        }
    }

    fn visit(&self, row: Row, visit: &mut impl FnMut(&O, Row)) {
        visit(&self.buffers[row.buffer].owners[row.row], row);
    }

    fn allot_in_order(&mut self, visit: &mut impl FnMut(&O, Row)) {
        let count = self.waiting.len().min(self.rules.batch_size);
        let mut owners: Vec<O> = self.waiting.drain(..count).collect();
        if let Some(order) = self.rules.order {
            owners.sort_by(order);
        }
        for owner in owners {
            let row = self.allot(owner);
            self.visit(row, visit);
        }
        self.close();
    }

    /// Sends the batch being filled out short: it will be ready when its rows are written, some of which
    /// `visit` may name here.
    pub fn shorten(&mut self, mut visit: impl FnMut(&O, Row)) {
        if self.rules.order.is_some() && self.is_open() {
            self.allot_in_order(&mut visit);
        }
        self.close();
    }

    /// Whether there is a batch with some rows that waits for more.
    pub fn is_open(&self) -> bool {
        match self.rules.order {
            Some(_) => !self.waiting.is_empty() && !self.free.is_empty(),
            None => self.open.is_some(),
        }
    }

    /// Since when the batch being filled has rows.
    pub fn since(&self) -> Option<Instant> {
        self.since.filter(|_| self.is_open())
    }

    /// When the batch being filled is to go out short.
    pub fn deadline(&self) -> Option<Instant> {
        self.since()?.checked_add(self.rules.timeout?)
    }

    /// Whether somebody waits for a row that a batch now out would give back.
    pub fn holds_up(&self) -> bool {
        self.out > 0 && !self.waiting.is_empty()
    }

    /// Batches that are with a consumer.
    pub fn out(&self) -> usize {
        self.out
    }

    /// Says that a row is written. That may make batches ready.
    pub fn commit(&mut self, row: Row) {
        self.commit_many(row.buffer, 1);
    }

    /// Says that so many rows of a batch are written.
    pub fn commit_many(&mut self, buffer: usize, rows: usize) {
        self.buffers[buffer].written += rows;
    }

    /// Gives a ready batch to a consumer: the number of its rows, and of this delivery.
    pub fn take(&mut self, buffer: usize) -> (usize, u64) {
        self.out += 1;
        let buffer = &mut self.buffers[buffer];
        buffer.phase = Phase::Out;
        buffer.serial += 1;
        (buffer.owners.len(), buffer.serial)
    }

    /// Whether a batch is still with the consumer of this delivery.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn check_out(&self, buffer: usize, serial: u64) -> Result<()> {
        let held = self.buffers.get(buffer);
        if held.is_some_and(|held| held.phase == Phase::Out && held.serial == serial) {
            return Ok(());
        }
        Err(Error::State("this batch was answered or given back before".into()))
    }

    /// Takes a batch back that will be delivered again.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn put_back(&mut self, buffer: usize, serial: u64) -> Result<()> {
        self.check_out(buffer, serial)?;
        self.buffers[buffer].phase = Phase::Ready;
        self.out -= 1;
        Ok(())
    }

    /// Begins to take the answers out of a batch: nobody else may do so from here on. Returns its owners, in
    /// the order of its rows.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn answer(&mut self, buffer: usize, serial: u64) -> Result<Vec<O>> {
        self.check_out(buffer, serial)?;
        self.buffers[buffer].phase = Phase::Answered;
        Ok(std::mem::take(&mut self.buffers[buffer].owners))
    }

    /// Frees a batch whose answers have been taken out; the vector of its owners is used again.
    pub fn release(&mut self, buffer: usize, mut owners: Vec<O>) {
        owners.clear();
        self.out -= 1;
        let freed = &mut self.buffers[buffer];
        freed.phase = Phase::Free;
        freed.written = 0;
        freed.owners = owners;
        self.free.push_back(buffer);
    }

    /// Everybody who has a row or waits for one; the group is of no use afterwards.
    pub fn abandon(&mut self) -> Vec<O> {
        let rows = self.buffers.iter_mut().flat_map(|buffer| std::mem::take(&mut buffer.owners));
        rows.chain(self.waiting.drain(..)).collect()
    }
}
