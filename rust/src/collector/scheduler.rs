//! The scheduler: which games go on, and all other state behind the lock of a context.
//!
//! Every method here, in [`super::delivery`] and in [`super::short_batches`] needs that lock. None steps a game, copies a row or
//! takes another lock, so it is held briefly: twice per work batch, and once more per section of 64 games whose replies are
//! processed immediately.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::collector::batch_queue::{BatchQueue, TakenBatch};
use crate::collector::failure_policy::{Failures, OnError};
use crate::collector::game_state::RowRequest;
use crate::collector::query::Queries;
use crate::collector::run_state::RunState;
use crate::collector::work_batch::{Role, RowAssignment, Task, WorkBatch};
use crate::collector::work_queue::WorkQueue;

/// What a collector has delivered so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Batches returned.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Batches that were not full.
    pub short: u64,
    /// States in no history, because their game failed first.
    pub lost: u64,
}

#[derive(Debug)]
pub struct Scheduler {
    pub run_state: RunState,
    pub queues: Vec<BatchQueue<u32>>,
    /// The collectors that hold a game until its batch is returned, as bits: those that reply or block.
    pub(super) holding: u64,
    /// By game, how many replies or written rows it waits for.
    pub(super) awaited: Vec<u32>,
    pub work: WorkQueue,
    /// By env worker, its games that are to move; empty when games are stepped here.
    pub(super) moves: Vec<VecDeque<u32>>,
    /// The env worker has no thread: threads that wait for batches make the moves.
    pub(super) inline: bool,
    pub failures: Failures,
    pub queries: Queries,
    /// Batches to deliver: collector and buffer.
    pub(super) ready: VecDeque<(usize, usize)>,
    /// Batches are delivered in the order of assignment of their rows, instead of that of writing.
    pub in_order: bool,
    /// With `in_order`, the collectors of the batches that are being written, in that order.
    order: VecDeque<usize>,
    /// The last work batch of a thread that answered, to reuse its vectors.
    pub spare: WorkBatch,
    /// Threads that sleep until there is work.
    pub idle: usize,
    /// Threads that sleep until there is a batch.
    pub consumers: usize,
    /// When those will wake by themselves.
    pub alarm: Option<Instant>,
    pub delivered: Vec<Delivered>,
}

impl Scheduler {
    pub fn new(queues: Vec<BatchQueue<u32>>, holding: u64, games: usize, blocking: bool) -> Self {
        Self {
            run_state: RunState::New,
            delivered: vec![Delivered::default(); queues.len()],
            queues,
            holding,
            awaited: vec![0; games],
            work: WorkQueue::new(games, blocking),
            moves: Vec::new(),
            inline: false,
            failures: Failures::new(OnError::Raise, games),
            queries: Queries::new(games, 0, 0),
            ready: VecDeque::new(),
            in_order: false,
            order: VecDeque::new(),
            spare: WorkBatch::default(),
            idle: 0,
            consumers: 0,
            alarm: None,
        }
    }

    /// Distributes the games to env workers, which step them; `states` are games and queries together.
    pub fn step_outside(&mut self, env_workers: usize, states: usize) {
        self.moves = vec![VecDeque::new(); env_workers];
        self.queries = Queries::new(self.awaited.len(), states, env_workers);
        self.awaited.resize(states, 0);
        self.work.step_outside();
    }

    /// How many threads there is work for, beside one that takes work itself in this role.
    pub fn helpers(&self, role: Option<Role>) -> usize {
        self.work.helpers(role, self.consumers == 0 && !self.has_env_workers())
    }

    /// Lets a game go on, or marks a query as answered.
    fn go_on(&mut self, game: u32) {
        if self.queries.is_query(game) {
            self.queries.answered(game);
        } else {
            self.work.advance(game);
        }
    }

    /// Serves the requests of a work batch: free rows become its assignments, and games without one wait. First frees the
    /// batch `done`, whose replies have been read.
    pub fn claim(&mut self, work: &mut WorkBatch, done: Option<(TakenBatch, Vec<u32>)>) {
        if let Some((taken, owners)) = done {
            self.free(taken, owners);
        }
        for at in 0..work.requests.len() {
            let (request, games) = work.requests[at].clone();
            match request {
                RowRequest::Replies(collectors) | RowRequest::Histories(collectors) => {
                    for &game in &work.requesting[games.clone()] {
                        self.awaited[game as usize] = collectors.count_ones();
                        if collectors == 0 {
                            self.go_on(game);
                        }
                    }
                    for collector in bits(collectors) {
                        self.claim_from(collector, games.clone(), work);
                    }
                }
                RowRequest::Move => {
                    for &game in &work.requesting[games] {
                        let env_worker = self.queries.env_worker_of(game);
                        self.moves[env_worker].push_back(game);
                    }
                }
            }
        }
        work.requests.clear();
        work.requesting.clear();
    }

    /// Claims rows of one collector for requesting games; those that get none wait.
    fn claim_from(&mut self, collector: usize, games: Range<usize>, work: &mut WorkBatch) {
        let mut left = &work.requesting[games];
        while !left.is_empty()
            && let Some((row, count)) = self.queues[collector].claim_many(left.iter().copied())
        {
            let (given, rest) = left.split_at(count);
            let first = work.assigned.len();
            work.assigned.extend_from_slice(given);
            let games = first..work.assigned.len();
            work.assignments.push(RowAssignment { collector, row, games });
            left = rest;
        }
        self.note_sealed(collector);
        if !left.is_empty() {
            for &game in left {
                self.queues[collector].wait(game);
            }
            self.assign_waiting(collector);
        }
    }

    pub(super) fn assign_waiting(&mut self, collector: usize) {
        let work = &mut self.work;
        let mut write = |&game: &u32, row| work.push(Task::write(game, collector, row));
        self.queues[collector].assign_waiting(&mut write);
        self.note_sealed(collector);
    }

    /// Records the order of batches after rows were assigned.
    pub(super) fn note_sealed(&mut self, collector: usize) {
        if self.in_order {
            let sealed = self.queues[collector].take_newly_sealed();
            self.order.extend(std::iter::repeat_n(collector, sealed));
        }
    }

    pub fn finish(&mut self, work: &mut WorkBatch, took: Duration) {
        self.work.finish(work, took);
        let mut written = 0;
        for RowAssignment { collector, row, games } in work.assignments.drain(..) {
            self.queues[collector].commit(row.buffer, games.len());
            written |= 1 << collector;
            if !self.blocks_games(collector) {
                work.assigned[games].iter().for_each(|&game| self.end_wait(game));
            }
        }
        work.assigned.clear();
        bits(written).for_each(|collector| self.make_ready(collector));
    }

    /// Whether a collector holds games until their batch is returned.
    pub(super) fn blocks_games(&self, collector: usize) -> bool {
        self.holding >> collector & 1 == 1
    }

    /// Counts down the replies or rows that a game waits for.
    pub(super) fn end_wait(&mut self, game: u32) {
        self.awaited[game as usize] -= 1;
        if self.awaited[game as usize] == 0 {
            self.go_on(game);
        }
    }

    /// Queues batches for delivery after rows of a collector were written.
    pub(super) fn make_ready(&mut self, collector: usize) {
        if self.in_order {
            return self.make_ready_in_order();
        }
        while let Some(buffer) = self.queues[collector].next_ready() {
            self.ready.push_back((collector, buffer));
        }
    }

    fn make_ready_in_order(&mut self) {
        while let Some(&collector) = self.order.front()
            && let Some(buffer) = self.queues[collector].next_ready()
        {
            self.order.pop_front();
            self.ready.push_back((collector, buffer));
        }
    }

    pub fn count_lost(&mut self, lost: &[u64]) {
        for (delivered, lost) in self.delivered.iter_mut().zip(lost) {
            delivered.lost += lost;
        }
    }

    pub fn has_env_workers(&self) -> bool {
        !self.moves.is_empty()
    }

    /// How many games wait for an env worker that can step them.
    pub(super) fn possible_moves(&self) -> usize {
        let moves = self.moves.iter().enumerate();
        let able = moves.filter(|(env_worker, _)| !self.queries.is_blocked(*env_worker));
        able.map(|(_, games)| games.len()).sum()
    }

    /// Moves at most so many games to the in-flight moves of an env worker.
    pub fn hand_out(&mut self, env_worker: usize, most: usize, in_flight: &mut Vec<u32>) {
        let games = &mut self.moves[env_worker];
        let count = most.min(games.len());
        in_flight.extend(games.drain(..count));
        self.work.running += count;
        self.queries.set_moving(env_worker, in_flight);
    }

    /// Takes back moves that an env worker has not begun.
    pub fn take_back(&mut self, env_worker: usize, games: Vec<u32>) {
        self.queries.set_moving(env_worker, &[]);
        self.work.running -= games.len();
        games.into_iter().rev().for_each(|game| self.moves[env_worker].push_front(game));
    }

    pub fn wakes_env_workers(&self) -> bool {
        let able = self.has_env_workers() && !self.inline && self.idle > 0;
        able && (self.possible_moves() > 0 || self.queries.has_answers() || self.helpers(None) > 0)
    }

    /// Whether a thread that waits for a batch is to make moves.
    pub fn wakes_inline(&self) -> bool {
        self.inline && self.possible_moves() > 0
    }
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
    use crate::collector::batch_queue::{QueueRules, Row};

    /// Two replying collectors whose batches have a row for each of two games.
    fn scheduler(in_order: bool) -> Scheduler {
        let order: fn(&u32, &u32) -> std::cmp::Ordering = u32::cmp;
        let rules = QueueRules { batch_size: 2, buffers: 2, timeout: None, order: Some(order) };
        let queues = vec![BatchQueue::new(rules), BatchQueue::new(rules)];
        let mut scheduler = Scheduler::new(queues, 0b11, 2, false);
        scheduler.in_order = in_order;
        scheduler
    }

    /// Has both games request a row of both collectors, and the rows written last request first: the collectors in
    /// the order of delivery.
    fn delivered_when_written_in_reverse(scheduler: &mut Scheduler) -> Vec<usize> {
        let mut work = WorkBatch::default();
        work.request(RowRequest::Replies(0b11), [1, 0]);
        scheduler.claim(&mut work, None);
        scheduler.work.pick(&mut work, Role::Consumer);
        let mut order = Vec::new();
        for write in std::mem::take(&mut work.tasks).into_iter().rev() {
            let Task::Write { game, collector, buffer, row } = write else { continue };
            let row = Row { buffer: buffer as usize, row: row as usize };
            work.assign(collector as usize, row, game);
            scheduler.finish(&mut work, Duration::ZERO);
            order.extend(std::iter::from_fn(|| scheduler.take(None)).map(|taken| taken.collector));
        }
        order
    }

    #[test]
    fn batches_are_delivered_in_order_of_assignment_when_in_order_is_set() {
        assert_eq!(delivered_when_written_in_reverse(&mut scheduler(false)), [1, 0]);
        assert_eq!(delivered_when_written_in_reverse(&mut scheduler(true)), [0, 1]);
    }
}
