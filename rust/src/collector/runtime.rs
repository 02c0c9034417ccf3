//! The state that the threads of a context share, and how they do a batch of work.
//!
//! The lock of the scheduler is released before a game steps, a row is copied or a shard is locked. Shards are locked one at
//! a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::collector::batch::Batch;
use crate::collector::batch_queue::{Row, TakenBatch};
use crate::collector::context_plan::ContextPlan;
use crate::collector::copy_plan::CopyPlan;
use crate::collector::failure_policy::panic_text;
use crate::collector::run_state::RunState;
use crate::collector::scheduler::Scheduler;
use crate::collector::shard::{SHARD_SIZE, Shard};
use crate::collector::step_buffer::StepBuffer;
use crate::collector::sync::{lock, wait};
use crate::collector::work_batch::{Role, RowAssignment, Task, WorkBatch};
use crate::error::Error;

/// Games of an answered batch that go on before the replies of those behind them are read.
const SECTION: usize = SHARD_SIZE;
pub struct Runtime {
    pub plan: ContextPlan,
    /// Games, and behind them queries.
    pub shards: Vec<Mutex<Shard>>,
    /// Games per shard, as a power of two.
    pub shard_bits: u32,
    pub batches: Vec<Vec<Arc<Batch>>>,
    pub scheduler: Mutex<Scheduler>,
    pub step_buffers: Vec<StepBuffer>,
    pub games: usize,
    pub queries: usize,
    pub work_ready: Condvar,
    pub batch_ready: Condvar,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Runtime {
    pub fn serve(&self) {
        let mut work = WorkBatch::default();
        let mut scheduler = lock(&self.scheduler);
        while scheduler.run_state == RunState::Running {
            if scheduler.work.pick(&mut work, Role::Worker) {
                scheduler = self.run(scheduler, &mut work, Role::Worker);
                continue;
            }
            scheduler = self.rest(scheduler, None);
        }
    }

    /// Does a batch of work, with the lock of the scheduler released meanwhile.
    pub fn run<'a>(
        &'a self,
        scheduler: MutexGuard<'a, Scheduler>,
        work: &mut WorkBatch,
        role: Role,
    ) -> MutexGuard<'a, Scheduler> {
        drop(scheduler);
        let start = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.do_work(work)));
        if let Err(panic) = done {
            let text = panic_text(&*panic);
            self.fail(Error::State(format!("game {}: panicked: {text}", work.game)));
            return lock(&self.scheduler);
        }
        for (game, text) in work.failures.drain(..) {
            self.apply_failure_policy(game, text);
        }
        if let Some(game) = work.broken_off.take() {
            self.begin_anew(game);
        }
        let mut scheduler = lock(&self.scheduler);
        scheduler.finish(work, start.elapsed());
        self.wake_workers(&scheduler, Some(role));
        self.wake_consumers(&scheduler);
        scheduler
    }

    fn do_work(&self, work: &mut WorkBatch) {
        let mut tasks = std::mem::take(&mut work.tasks);
        // Any order will do, and adjacent games are fastest one after the other.
        if !tasks.is_sorted_by_key(Task::game) {
            tasks.sort_by_key(Task::game);
        }
        for &task in &tasks {
            if let Task::Write { game, collector, buffer, row } = task {
                let row = Row { buffer: buffer as usize, row: row as usize };
                work.assign(collector as usize, row, game);
            }
        }
        self.gather(&work.assignments, &work.assigned);
        let mut answered = work.answered.take();
        // A batch is free once all its replies are read; games without rows in other batches wait for that.
        let size = if work.in_sections { SECTION } else { tasks.len().max(1) };
        let mut sections = tasks.chunks(size).peekable();
        while let Some(section) = sections.next() {
            let done = if sections.peek().is_none() { answered.take() } else { None };
            let taken = answered.as_ref().or(done.as_ref()).map(|(taken, _)| *taken);
            self.go_on(section, work, taken);
            let claimed = work.assignments.len();
            lock(&self.scheduler).claim(work, done);
            self.gather(&work.assignments[claimed..], &work.assigned);
        }
        work.tasks = tasks;
    }

    /// Reads the replies to games and lets them go on until they need rows.
    fn go_on(&self, tasks: &[Task], work: &mut WorkBatch, taken: Option<TakenBatch>) {
        let step_buffer = self.step_buffers.get(work.env_worker);
        for tasks in self.by_shard(tasks, Task::game) {
            work.game = tasks[0].game();
            let mut shard = self.shard_of(work.game);
            if let Some(taken) = taken {
                shard.scatter(&self.plan, taken.collector, self.batch(taken), tasks);
            }
            shard.go_on(&self.plan, step_buffer, tasks, work);
        }
    }

    /// Copies the replies in a batch to the records of its games, which do not go on yet.
    pub fn scatter(&self, taken: TakenBatch, owners: &[u32]) {
        let mut tasks: Vec<_> =
            owners.iter().zip(0..).map(|(&game, row)| Task::Reply { game, row }).collect();
        tasks.sort_by_key(Task::game);
        for tasks in self.by_shard(&tasks, Task::game) {
            let mut shard = self.shard_of(tasks[0].game());
            shard.scatter(&self.plan, taken.collector, self.batch(taken), tasks);
        }
    }

    fn gather(&self, assignments: &[RowAssignment], assigned: &[u32]) {
        for RowAssignment { collector, row, games } in assignments {
            let batch = &self.batches[*collector][row.buffer];
            let mut first = row.row;
            for games in self.by_shard(&assigned[games.clone()], |&game| game) {
                self.shard_of(games[0]).gather(&self.plan, *collector, batch, first, games);
                first += games.len();
            }
        }
    }

    fn batch(&self, taken: TakenBatch) -> &Batch {
        &self.batches[taken.collector][taken.buffer]
    }

    pub fn shard_of(&self, game: u32) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.shard_number(game)])
    }

    fn shard_number(&self, game: u32) -> usize {
        (game >> self.shard_bits) as usize
    }

    fn by_shard<'a, T>(
        &self,
        all: &'a [T],
        game: impl Fn(&T) -> u32,
    ) -> impl Iterator<Item = &'a [T]> {
        all.chunk_by(move |one, other| {
            self.shard_number(game(one)) == self.shard_number(game(other))
        })
    }
    fn apply_failure_policy(&self, game: u32, text: String) {
        let lost = self.abandon_episode(game);
        let mut scheduler = lock(&self.scheduler);
        scheduler.count_lost(&lost);
        let fails = scheduler.failures.ends_run(game, Instant::now());
        let before = scheduler.failures.restarts_before(game);
        let error = Error::State(format!("game {game}: {text}{before}"));
        scheduler.failures.last = Some((game, text));
        drop(scheduler);
        if fails {
            self.fail(error);
        }
    }

    /// Lets a game begin an episode because its move was interrupted.
    fn begin_anew(&self, game: u32) {
        let lost = self.abandon_episode(game);
        let mut scheduler = lock(&self.scheduler);
        scheduler.count_lost(&lost);
        scheduler.work.advance(game);
    }

    /// Abandons a game's episode. Returns how many of its states each collector loses.
    fn abandon_episode(&self, game: u32) -> Vec<u64> {
        let mut lost = vec![0; self.plan.copy_plans.len()];
        self.shard_of(game).abandon_episode(&self.plan, game, &mut lost);
        lost
    }

    /// Sleeps until there may be work, or an answer to a query.
    pub fn rest<'a>(
        &'a self,
        mut scheduler: MutexGuard<'a, Scheduler>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Scheduler> {
        scheduler.idle += 1;
        let mut scheduler = wait(&self.work_ready, scheduler, left);
        scheduler.idle -= 1;
        scheduler
    }

    /// Sleeps until there may be a batch, or work.
    pub fn sleep<'a>(
        &'a self,
        mut scheduler: MutexGuard<'a, Scheduler>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Scheduler> {
        scheduler.consumers += 1;
        scheduler.alarm = scheduler.deadline();
        let alarm = scheduler.alarm.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.into_iter().chain(alarm).min();
        let mut scheduler = wait(&self.batch_ready, scheduler, left);
        scheduler.consumers -= 1;
        scheduler
    }

    /// Wakes threads for work beyond that of this thread, if it works in a role.
    pub fn wake_workers(&self, scheduler: &Scheduler, this: Option<Role>) {
        if scheduler.wakes_env_workers() {
            self.work_ready.notify_all();
        }
        if scheduler.has_env_workers() {
            return;
        }
        for _ in 0..scheduler.helpers(this).min(scheduler.idle) {
            self.work_ready.notify_one();
        }
    }

    pub fn wake_consumers(&self, scheduler: &Scheduler) {
        if scheduler.consumers > 0 && scheduler.wakes_consumers() {
            self.batch_ready.notify_all();
        }
    }
    pub fn fail(&self, error: Error) {
        let mut scheduler = lock(&self.scheduler);
        if scheduler.run_state == RunState::Running {
            scheduler.run_state = RunState::Failed(error);
        }
        drop(scheduler);
        self.wake_all();
    }
    pub fn wake_all(&self) {
        self.work_ready.notify_all();
        self.batch_ready.notify_all();
    }

    pub fn clear_replies(&self, taken: TakenBatch) {
        let CopyPlan { collector, scatters, .. } = &self.plan.copy_plans[taken.collector];
        let first = collector.reply_part(0, 0);
        for part in first..first + collector.steps * scatters.len() {
            self.batch(taken).zero(part, taken.rows);
        }
    }
}
