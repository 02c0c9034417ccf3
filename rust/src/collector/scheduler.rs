//! Which game does what next: everything of a context that its lock guards.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::collector::batch_queue::BatchQueue;
use crate::collector::failure_policy::{Failures, OnError, Verdict};
use crate::collector::game_state::RowRequest;
use crate::collector::query::Queries;
use crate::collector::run_state::RunState;
use crate::collector::work_batch::{Role, RowAssignment, Task, WorkBatch};

/// Time that a thread takes work for at once. Handing work to another thread costs some 10 us, so less
/// than a few of those is not worth it.
const CHUNK: Duration = Duration::from_micros(50);

/// Games in a chunk at most.
const CHUNK_GAMES: usize = 256;

/// A game that takes longer than this is left to the threads that have nothing else to do, one at a time:
/// who waits for a batch would miss its timeout while it steps such a game.
pub(super) const SLOW: Duration = Duration::from_millis(1);

/// What a collector has delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Batches answered or consumed.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Those that were not full.
    pub short: u64,
    /// States that no history shows, because their game failed first.
    pub lost: u64,
}

/// The bookkeeping of a context.
#[derive(Debug)]
pub struct Scheduler {
    /// Whether it works.
    pub life: RunState,
    /// A group for each collector.
    pub groups: Vec<BatchQueue<u32>>,
    /// Which of them hold a game until its batch is given back: those that answer, and others that ask for it.
    pub(super) holding: u64,
    /// For each game, what it waits for: answers not given, or rows not written.
    pub(super) ends: Vec<u32>,
    /// Work, but for that with slow games.
    pub(super) queue: VecDeque<Task>,
    /// Slow games that are to go on.
    pub(super) slow: VecDeque<u32>,
    /// Which games are slow, as far as is known: a game is taken for slow until it has been timed.
    pub(super) is_slow: Vec<bool>,
    /// All games are to be taken for slow.
    pub(super) blocking: bool,
    /// For each driver its games that are to move. None when games move here.
    pub(super) outside: Vec<VecDeque<u32>>,
    /// A thread that waits for batches moves them meanwhile: their driver has no thread of its own.
    pub(super) lent: bool,
    /// The games that failed.
    pub crashes: Failures,
    /// Questions that games ask while they are moved.
    pub queries: Queries,
    pub(super) ready: VecDeque<(usize, usize)>,
    /// Batches are delivered in the order in which their rows were given away, whichever is written first.
    pub in_turn: bool,
    /// Then: the groups of those that are being written, in that order.
    turns: VecDeque<usize>,
    /// Tasks in the hands of threads.
    pub(super) running: usize,
    /// Nanoseconds that a task of a quick game takes, smoothed.
    pub(super) cost: f64,
    /// What was used for the work of an answer, and is used again: its vectors have grown.
    pub spare: WorkBatch,
    /// Threads that sleep until there is work.
    pub idle: usize,
    /// Threads that sleep until there is a batch.
    pub consumers: usize,
    /// The deadline by which those will wake of their own accord.
    pub alarm: Option<Instant>,
    /// What was delivered, by collector.
    pub delivered: Vec<Delivered>,
}

impl Scheduler {
    /// A board of games none of which has begun.
    pub fn new(groups: Vec<BatchQueue<u32>>, holding: u64, games: usize, blocking: bool) -> Self {
        Self {
            life: RunState::New,
            delivered: vec![Delivered::default(); groups.len()],
            groups,
            holding,
            ends: vec![0; games],
            queue: VecDeque::new(),
            slow: (0..games as u32).collect(),
            is_slow: vec![true; games],
            blocking,
            outside: Vec::new(),
            lent: false,
            crashes: Failures::new(OnError::Raise, games),
            queries: Queries::new(games, 0, 0),
            ready: VecDeque::new(),
            in_turn: false,
            turns: VecDeque::new(),
            running: 0,
            cost: 0.0,
            spare: WorkBatch::default(),
            idle: 0,
            consumers: 0,
            alarm: None,
        }
    }

    /// Has so many drivers move the games, each its share of them.
    pub fn move_outside(&mut self, env_workers: usize, slots: usize) {
        self.outside = vec![VecDeque::new(); env_workers];
        self.ends.resize(slots, 0);
        self.queries = Queries::new(self.is_slow.len(), slots, env_workers);
        self.is_slow.fill(false);
        self.queue.extend(self.slow.drain(..).map(Task::Advance));
    }

    fn chunk_size(&self) -> usize {
        let fitting = CHUNK.as_nanos() as f64 / self.cost.max(1.0);
        (fitting as usize).clamp(1, CHUNK_GAMES)
    }

    /// Threads that there is work for, but for one that takes work itself in this role.
    pub fn helpers(&self, role: Option<Role>) -> usize {
        let size = self.chunk_size();
        let chunks = self.queue.len().div_ceil(size);
        match role {
            // What is less than it costs to wake a thread can wait until somebody waits for a batch, if nobody
            // does so now.
            None if self.consumers == 0 && !self.has_drivers() => {
                self.queue.len() / size + self.slow.len()
            }
            None => chunks + self.slow.len(),
            Some(Role::Consumer) => chunks.saturating_sub(1) + self.slow.len(),
            Some(Role::Worker) => (chunks + self.slow.len()).saturating_sub(1),
        }
    }

    /// Takes work. Returns whether there is some.
    pub fn pick(&mut self, chunk: &mut WorkBatch, role: Role) -> bool {
        let slow = if role == Role::Worker { self.slow.pop_front() } else { None };
        chunk.tasks.clear();
        chunk.tasks.extend(slow.map(Task::Advance));
        if chunk.tasks.is_empty() {
            let count = self.chunk_size().min(self.queue.len());
            chunk.tasks.extend(self.queue.drain(..count));
        }
        self.running += chunk.tasks.len();
        !chunk.tasks.is_empty()
    }

    /// Has a game go on.
    pub(super) fn push(&mut self, slot: u32) {
        if self.is_slow[slot as usize] {
            self.slow.push_back(slot);
        } else {
            self.queue.push_back(Task::Advance(slot));
        }
    }

    /// Learns from how long a chunk took.
    fn learn(&mut self, chunk: &WorkBatch, took: Duration) {
        // Which game of several it was shows when each is timed alone, as those are that are taken for slow.
        let slow = self.outside.is_empty() && (self.blocking || took > SLOW);
        if slow || chunk.tasks.len() == 1 {
            for task in &chunk.tasks {
                if let Task::Advance(slot) | Task::Answer { slot, .. } = *task {
                    self.is_slow[slot as usize] = slow;
                }
            }
        }
        if took <= SLOW {
            let each = took.as_nanos() as f64 / chunk.tasks.len().max(1) as f64;
            self.cost += (each - self.cost) / 8.0;
        }
    }

    /// Asks for the rows that games want; those that are there already become the chunk's grants. Those of a batch
    /// from which all has been taken are `done`, and free.
    pub fn claim(&mut self, chunk: &mut WorkBatch, done: Option<(Taken, Vec<u32>)>) {
        if let Some((taken, owners)) = done {
            self.free(taken, owners);
        }
        for (wish, slots) in chunk.wishes.drain(..) {
            let slots = &chunk.wishing[slots];
            match wish {
                RowRequest::Ask(groups) | RowRequest::Tell(groups) => {
                    for &slot in slots {
                        self.ends[slot as usize] = groups.count_ones();
                        if groups == 0 {
                            self.go_on(slot);
                        }
                    }
                    for group in bits(groups) {
                        self.claim_of(group, slots, &mut chunk.grants, &mut chunk.granted);
                    }
                }
                RowRequest::Move => {
                    for &slot in slots {
                        let env_worker = self.queries.driver_of(slot);
                        self.outside[env_worker].push_back(slot);
                    }
                }
            }
        }
        chunk.wishing.clear();
    }

    /// Asks a group for rows.
    fn claim_of(
        &mut self,
        group: usize,
        slots: &[u32],
        grants: &mut Vec<RowAssignment>,
        granted: &mut Vec<u32>,
    ) {
        let mut left = slots;
        while !left.is_empty()
            && let Some((row, count)) = self.groups[group].claim_many(left.iter().copied())
        {
            let (given, rest) = left.split_at(count);
            let first = granted.len();
            granted.extend_from_slice(given);
            grants.push(RowAssignment { group, row, slots: first..granted.len() });
            left = rest;
        }
        self.note(group);
        if !left.is_empty() {
            for &slot in left {
                self.groups[group].wait(slot);
            }
            self.grant(group);
        }
    }

    /// Has rows written that somebody waited for.
    pub(super) fn grant(&mut self, group: usize) {
        let queue = &mut self.queue;
        let mut write = |&slot: &u32, row| queue.push_back(Task::write(slot, group, row));
        self.groups[group].grants(&mut write);
        self.note(group);
    }

    /// Remembers whose turn it is after a group has given rows away.
    pub(super) fn note(&mut self, group: usize) {
        if self.in_turn {
            let sealed = self.groups[group].sealed();
            self.turns.extend(std::iter::repeat_n(group, sealed));
        }
    }

    /// Says that the chunk is done, its rows written.
    pub fn finish(&mut self, chunk: &mut WorkBatch, took: Duration) {
        self.learn(chunk, took);
        let mut written = 0;
        for RowAssignment { group, row, slots } in chunk.grants.drain(..) {
            self.groups[group].commit_many(row.buffer, slots.len());
            written |= 1 << group;
            if self.holding >> group & 1 == 0 {
                chunk.granted[slots].iter().for_each(|&slot| self.end(slot));
            }
        }
        chunk.granted.clear();
        bits(written).for_each(|group| self.make_ready(group));
        self.running -= chunk.tasks.len();
        chunk.tasks.clear();
    }

    /// One thing less that a game waits for.
    pub(super) fn end(&mut self, slot: u32) {
        self.ends[slot as usize] -= 1;
        if self.ends[slot as usize] == 0 {
            self.go_on(slot);
        }
    }

    /// Decides what becomes of a game that failed. Returns whether the whole run fails with it.
    pub fn crash(&mut self, slot: u32, lost: &[u64]) -> bool {
        self.count_lost(lost);
        self.crashes.decide(slot, Instant::now()) == Verdict::Fail
    }

    /// Has batches delivered whose rows, of this group, were written.
    pub(super) fn make_ready(&mut self, group: usize) {
        if self.in_turn {
            return self.make_ready_in_turn();
        }
        while let Some(buffer) = self.groups[group].next_ready() {
            self.ready.push_back((group, buffer));
        }
    }

    fn make_ready_in_turn(&mut self) {
        while let Some(&group) = self.turns.front()
            && let Some(buffer) = self.groups[group].next_ready()
        {
            self.turns.pop_front();
            self.ready.push_back((group, buffer));
        }
    }
}

/// A batch in the hands of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The collector.
    pub group: usize,
    /// Which of its batches.
    pub buffer: usize,
    /// Rows filled, from the first on.
    pub rows: usize,
    /// Which delivery of this batch.
    pub serial: u64,
}

/// The positions of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::batch_queue::{Row, Rules};

    /// Two answering collectors whose batches have a row for each of two games.
    fn scheduler(in_turn: bool) -> Scheduler {
        let order: fn(&u32, &u32) -> std::cmp::Ordering = u32::cmp;
        let rules = Rules { batch_size: 2, buffers: 2, timeout: None, order: Some(order) };
        let mut scheduler =
            Scheduler::new(vec![BatchQueue::new(rules), BatchQueue::new(rules)], 0b11, 2, false);
        scheduler.in_turn = in_turn;
        scheduler
    }

    /// Has both games ask both, and the rows written, those of the group that answers last first.
    fn written_the_other_way_round(scheduler: &mut Scheduler) -> Vec<usize> {
        let mut chunk = WorkBatch::default();
        chunk.wish(RowRequest::Ask(0b11), [1, 0]);
        scheduler.claim(&mut chunk, None);
        let mut writes: Vec<_> = scheduler.queue.drain(..).collect();
        writes.reverse();
        let mut order = Vec::new();
        for write in writes {
            let Task::Write { slot, group, buffer, row } = write else { continue };
            let mut chunk = WorkBatch::default();
            let row = Row { buffer: buffer as usize, row: row as usize };
            chunk.grant(group as usize, row, slot);
            scheduler.finish(&mut chunk, Duration::ZERO);
            order.extend(std::iter::from_fn(|| scheduler.take(None)).map(|taken| taken.group));
        }
        order
    }

    #[test]
    fn batches_are_delivered_in_turn_whichever_is_written_first() {
        assert_eq!(written_the_other_way_round(&mut scheduler(false)), [1, 0]);
        assert_eq!(written_the_other_way_round(&mut scheduler(true)), [0, 1]);
    }
}
