//! Calls of env workers: moves of games that they step, and queries that those make meanwhile.
//!
//! The lock of the scheduler is taken first, that of a step buffer's in-flight moves second, that of a shard last; the first
//! and the last are never held together.

use std::thread::current;
use std::time::{Duration, Instant};

use crate::collector::context::{Context, WorkItem};
use crate::collector::run_state::RunState;
use crate::collector::scheduler::Scheduler;
use crate::collector::step_buffer::{Report, StepBuffer};
use crate::collector::sync::lock;
use crate::collector::work_batch::{Role, Task, WorkBatch};
use crate::error::{Error, Result};
use crate::games::Game;

/// Duration of the moves that an env worker makes before it reports: other threads wait no longer, and a hand-over costs
/// little in comparison.
const MOVES: Duration = Duration::from_millis(1);

/// The same for a thread that waits for a batch, as all games do; longer would miss timeouts.
const INLINE_MOVES: Duration = Duration::from_millis(10);

impl Context {
    /// The step buffers of the env workers.
    pub fn step_buffers(&self) -> &[StepBuffer] {
        &self.runtime.step_buffers
    }

    /// Takes the report of an env worker, waits for new moves and does other work meanwhile. Returns how many rows of the step
    /// buffer have a move: 0 when `until` comes first, None when the run is over. Fails with [`Error::Value`] for a report
    /// of more moves than there were, or an unknown env worker.
    pub fn play(&self, env_worker: usize, report: Report, until: Instant) -> Result<Option<usize>> {
        let runtime = &*self.runtime;
        let step_buffer = self.step_buffer(env_worker)?;
        self.report(env_worker, report)?;
        let mut work = WorkBatch::default();
        let mut scheduler = lock(&runtime.scheduler);
        loop {
            if scheduler.run_state != RunState::Running {
                return Ok(None);
            }
            if scheduler.work.pick(&mut work, Role::Worker) {
                scheduler = runtime.run(scheduler, &mut work, Role::Worker);
                continue;
            }
            if self.hand_out(&mut scheduler, env_worker) > 0 {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(0));
            }
            scheduler = runtime.rest(scheduler, Some(left));
        }
        drop(scheduler);
        Ok(Some(self.write_moves(step_buffer)))
    }

    /// Waits for a batch as [`Self::wait`] does, or for moves of the only env worker, which this thread is to make and to
    /// [`Self::report`]. Fails as [`Self::wait`] does, and with [`Error::Value`] without an env worker.
    pub fn attend(&self, only: Option<usize>, until: Option<Instant>) -> Result<Option<WorkItem>> {
        let step_buffer = self.step_buffer(0)?;
        lock(&self.runtime.scheduler).inline = true;
        let item = self.next_item(only, until, |scheduler| {
            let count = self.hand_out(scheduler, 0);
            (count > 0).then_some(count)
        })?;
        if matches!(item, Some(WorkItem::Moves(_))) {
            self.write_moves(step_buffer);
        }
        Ok(item)
    }

    /// Takes the report of the moves of this thread. Moves that it has not begun are handed out again. Fails with
    /// [`Error::Value`] for a report of more moves than there were, or an unknown env worker.
    pub fn report(&self, env_worker: usize, report: Report) -> Result<()> {
        let runtime = &*self.runtime;
        let mut in_flight = lock(&self.step_buffer(env_worker)?.in_flight);
        let owns = in_flight.owner == Some(current().id());
        let count = if owns { in_flight.games.len() } else { 0 };
        report.check(count)?;
        if count == 0 {
            return Ok(());
        }
        in_flight.update_cost(report.begun);
        let rest = in_flight.games.split_off(report.begun);
        let mut work = report.into_work(env_worker, &in_flight.games);
        in_flight.games.clear();
        in_flight.owner = None;
        drop(in_flight);
        let mut scheduler = lock(&runtime.scheduler);
        scheduler.take_back(env_worker, rest);
        drop(runtime.run(scheduler, &mut work, Role::Worker));
        Ok(())
    }

    /// Whether this thread has unreported moves of the first env worker.
    pub fn is_moving(&self) -> bool {
        let first = self.runtime.step_buffers.first();
        first.is_some_and(|buffer| lock(&buffer.in_flight).owner == Some(current().id()))
    }

    /// Asks every replying collector about a state, as query `tid` of a game that an env worker is stepping, and returns the
    /// bytes of each reply key. Fails with [`Error::Value`] for an unknown query, with [`Error::State`] when it is
    /// unanswered or the run is over.
    pub fn query(
        &self,
        game: usize,
        tid: usize,
        shown: Box<dyn Game>,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let runtime = &*self.runtime;
        let mut scheduler = lock(&runtime.scheduler);
        scheduler.run_state.check()?;
        let query = scheduler.queries.begin(game, tid)?;
        scheduler.work.running += 1;
        drop(scheduler);
        let request = runtime.shard_of(query).query(&runtime.plan, query, shown);
        let request = request.inspect_err(|error| runtime.fail(error.clone()))?;
        let tasks = vec![Task::Query(query)];
        let mut work = WorkBatch { tasks, game: query, ..WorkBatch::default() };
        work.request(request, [query]);
        let mut scheduler = runtime.run(lock(&runtime.scheduler), &mut work, Role::Worker);
        while !scheduler.queries.end(query) {
            scheduler.run_state.check()?;
            // All threads that would do this work may wait here.
            scheduler = if scheduler.work.pick(&mut work, Role::Worker) {
                runtime.run(scheduler, &mut work, Role::Worker)
            } else {
                runtime.rest(scheduler, None)
            };
        }
        drop(scheduler);
        Ok(runtime.shard_of(query).replies(&runtime.plan, query))
    }

    fn step_buffer(&self, env_worker: usize) -> Result<&StepBuffer> {
        let all = &self.runtime.step_buffers;
        let missing = || Error::value("env_worker", format!("one of {}", all.len()), env_worker);
        all.get(env_worker).ok_or_else(missing)
    }

    /// Gives this thread moves, unless another thread has some. Returns how many.
    fn hand_out(&self, scheduler: &mut Scheduler, env_worker: usize) -> usize {
        let runtime = &*self.runtime;
        let step_buffer = &runtime.step_buffers[env_worker];
        let mut in_flight = lock(&step_buffer.in_flight);
        if in_flight.owner.is_some() {
            return 0;
        }
        let length = if scheduler.inline { INLINE_MOVES } else { MOVES };
        let most = in_flight.most(length, step_buffer.memory().rows(), runtime.queries);
        scheduler.hand_out(env_worker, most, &mut in_flight.games);
        if !in_flight.games.is_empty() {
            in_flight.owner = Some(current().id());
        }
        in_flight.games.len()
    }

    fn write_moves(&self, step_buffer: &StepBuffer) -> usize {
        let runtime = &*self.runtime;
        let mut in_flight = lock(&step_buffer.in_flight);
        for (row, &game) in in_flight.games.iter().enumerate() {
            let shard = runtime.shard_of(game);
            let (order, action) = shard.next_move(&runtime.plan, game);
            step_buffer.write(row, game, order, action);
        }
        in_flight.since = Instant::now();
        in_flight.games.len()
    }
}
