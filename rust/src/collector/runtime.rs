//! What the threads of a context share, and what they do with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::collector::batch::Batch;
use crate::collector::batch_queue::Row;
use crate::collector::copy_plan::CopyPlan;
use crate::collector::failure_policy::panic_text;
use crate::collector::plan::Plan;
use crate::collector::run_state::RunState;
use crate::collector::scheduler::{Scheduler, Taken};
use crate::collector::shard::{MOST, Shard};
use crate::collector::step_buffer::StepBuffer;
use crate::collector::work_batch::{Role, RowAssignment, Task, WorkBatch};
use crate::error::Error;

/// Games of a batch that go on before those behind them have taken their answers.
const SECTION: usize = MOST;

/// What the threads share. The lock of the board is never held while a game steps or a row is copied, nor
/// while that of a slot is taken.
pub struct Runtime {
    pub plan: Plan,
    /// Games and queries, each so many as share a lock.
    pub slots: Vec<Mutex<Shard>>,
    /// How many do, as a power of two.
    pub sharing: u32,
    pub batches: Vec<Vec<Arc<Batch>>>,
    pub scheduler: Mutex<Scheduler>,
    pub step_buffers: Vec<StepBuffer>,
    pub games: usize,
    /// Queries of each game.
    pub queries: usize,
    pub work: Condvar,
    pub news: Condvar,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// The guarded value, also after a panic: none happens while one of these locks is held but in a game, and
/// then the context has failed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// What a thread does all its life.
    pub fn serve(&self) {
        let mut chunk = WorkBatch::default();
        let mut scheduler = lock(&self.scheduler);
        while scheduler.life == RunState::Running {
            if scheduler.pick(&mut chunk, Role::Worker) {
                scheduler = self.run(scheduler, &mut chunk, Role::Worker);
                continue;
            }
            scheduler = self.rest(scheduler, None);
        }
    }

    /// Does a chunk of work with the board free meanwhile.
    pub fn run<'a>(
        &'a self,
        scheduler: MutexGuard<'a, Scheduler>,
        chunk: &mut WorkBatch,
        role: Role,
    ) -> MutexGuard<'a, Scheduler> {
        drop(scheduler);
        let start = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.work(chunk)));
        if let Err(panic) = done {
            let text = panic_text(&*panic);
            self.fail(Error::State(format!("game {}: panicked: {text}", chunk.slot)));
            return lock(&self.scheduler);
        }
        for (slot, text) in chunk.crashes.drain(..) {
            self.crash(slot, text);
        }
        if let Some(slot) = chunk.broken_off.take() {
            self.begin_anew(slot);
        }
        let mut scheduler = lock(&self.scheduler);
        scheduler.finish(chunk, start.elapsed());
        self.call_threads(&scheduler, Some(role));
        self.tell_consumers(&scheduler);
        scheduler
    }

    fn work(&self, chunk: &mut WorkBatch) {
        let mut tasks = std::mem::take(&mut chunk.tasks);
        // Games that go on together do so in no order, and fastest beside their neighbours.
        if !tasks.is_sorted_by_key(Task::slot) {
            tasks.sort_by_key(Task::slot);
        }
        for &task in &tasks {
            if let Task::Write { slot, group, buffer, row } = task {
                let row = Row { buffer: buffer as usize, row: row as usize };
                chunk.grant(group as usize, row, slot);
            }
        }
        self.write(&chunk.grants, &chunk.granted);
        let mut answered = chunk.answered.take();
        // Rows are free only when all of a batch have been taken from: who has no others waits for that.
        let size = if chunk.in_sections { SECTION } else { tasks.len().max(1) };
        let mut sections = tasks.chunks(size).peekable();
        while let Some(section) = sections.next() {
            let done = if sections.peek().is_none() { answered.take() } else { None };
            let taken = answered.as_ref().or(done.as_ref()).map(|(taken, _)| *taken);
            self.go_on(section, chunk, taken);
            let claimed = chunk.grants.len();
            lock(&self.scheduler).claim(chunk, done);
            self.write(&chunk.grants[claimed..], &chunk.granted);
        }
        chunk.tasks = tasks;
    }

    /// Has games take what there is for them and go on to where they need rows.
    fn go_on(&self, tasks: &[Task], chunk: &mut WorkBatch, taken: Option<Taken>) {
        let step_buffer = self.step_buffers.get(chunk.env_worker);
        for tasks in self.by_lock(tasks, Task::slot) {
            chunk.slot = tasks[0].slot();
            let mut slots = self.slots_of(chunk.slot);
            if let Some(taken) = taken {
                slots.take(&self.plan, taken.group, self.batch(taken.group, taken.buffer), tasks);
            }
            slots.go_on(&self.plan, step_buffer, tasks, chunk);
        }
    }

    /// Has games take what their rows of a batch were answered, and not go on yet.
    pub fn take(&self, taken: Taken, owners: &[u32]) {
        let mut tasks: Vec<_> =
            owners.iter().zip(0..).map(|(&slot, row)| Task::Answer { slot, row }).collect();
        tasks.sort_by_key(Task::slot);
        let batch = self.batch(taken.group, taken.buffer);
        for tasks in self.by_lock(&tasks, Task::slot) {
            self.slots_of(tasks[0].slot()).take(&self.plan, taken.group, batch, tasks);
        }
    }

    /// Writes rows that were given to games.
    fn write(&self, grants: &[RowAssignment], granted: &[u32]) {
        for RowAssignment { group, row, slots } in grants {
            let batch = self.batch(*group, row.buffer);
            let mut first = row.row;
            for slots in self.by_lock(&granted[slots.clone()], |&slot| slot) {
                self.slots_of(slots[0]).write(&self.plan, *group, batch, first, slots);
                first += slots.len();
            }
        }
    }

    fn batch(&self, group: usize, buffer: usize) -> &Batch {
        &self.batches[group][buffer]
    }

    /// A game or query with all those that share its lock.
    pub fn slots_of(&self, slot: u32) -> MutexGuard<'_, Shard> {
        lock(&self.slots[self.share(slot)])
    }

    fn share(&self, slot: u32) -> usize {
        (slot >> self.sharing) as usize
    }

    /// What there is for games that share a lock, one lock after the other.
    fn by_lock<'a, T>(
        &self,
        all: &'a [T],
        slot: impl Fn(&T) -> u32,
    ) -> impl Iterator<Item = &'a [T]> {
        all.chunk_by(move |one, other| self.share(slot(one)) == self.share(slot(other)))
    }

    /// Has happen to a game that failed what the options say.
    fn crash(&self, slot: u32, text: String) {
        let lost = self.give_up(slot);
        let mut scheduler = lock(&self.scheduler);
        let fails = scheduler.crash(slot, &lost);
        let before = scheduler.crashes.restarts_before(slot);
        let error = Error::State(format!("game {slot}: {text}{before}"));
        scheduler.crashes.remember(slot, text);
        drop(scheduler);
        if fails {
            self.fail(error);
        }
    }

    /// Has a game begin an episode, since its move was broken off.
    fn begin_anew(&self, slot: u32) {
        let lost = self.give_up(slot);
        let mut scheduler = lock(&self.scheduler);
        scheduler.count_lost(&lost);
        scheduler.push(slot);
    }

    /// Gives up a game's episode: the states that each collector will not get.
    fn give_up(&self, slot: u32) -> Vec<u64> {
        let mut lost = vec![0; self.plan.routes.len()];
        self.slots_of(slot).crash(&self.plan, slot, &mut lost);
        lost
    }

    /// A driver sleeps until there is work, or who has asked until there is an answer.
    pub fn rest<'a>(
        &'a self,
        mut scheduler: MutexGuard<'a, Scheduler>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Scheduler> {
        scheduler.idle += 1;
        let mut scheduler = match left {
            None => self.work.wait(scheduler).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.work.wait_timeout(scheduler, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
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
        let short = scheduler.alarm.map(|at| at.saturating_duration_since(Instant::now()));
        let mut scheduler = match left.into_iter().chain(short).min() {
            None => self.news.wait(scheduler).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.news.wait_timeout(scheduler, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        scheduler.consumers -= 1;
        scheduler
    }

    /// Wakes threads for the work that is there beyond what this one will take, if it works too.
    pub fn call_threads(&self, scheduler: &Scheduler, this: Option<Role>) {
        if scheduler.calls_drivers() {
            self.work.notify_all();
        }
        if scheduler.has_drivers() {
            return;
        }
        for _ in 0..scheduler.helpers(this).min(scheduler.idle) {
            self.work.notify_one();
        }
    }

    /// Wakes those who sleep until there is a batch, when there may be one.
    pub fn tell_consumers(&self, scheduler: &Scheduler) {
        if scheduler.consumers > 0 && (scheduler.calls_consumers() || scheduler.is_news()) {
            self.news.notify_all();
        }
    }

    /// Ends the run with an error.
    pub fn fail(&self, error: Error) {
        let mut scheduler = lock(&self.scheduler);
        if scheduler.life == RunState::Running {
            scheduler.life = RunState::Failed(error);
        }
        drop(scheduler);
        self.wake_all();
    }

    /// Wakes everybody who sleeps.
    pub fn wake_all(&self) {
        self.work.notify_all();
        self.news.notify_all();
    }

    /// Zeroes the replies of a batch.
    pub fn clear_replies(&self, taken: Taken) {
        let CopyPlan { collector, takes, .. } = &self.plan.routes[taken.group];
        let batch = &self.batches[taken.group][taken.buffer];
        for part in (0..collector.steps * takes.len()).map(|at| collector.reply_part(0, 0) + at) {
            batch.zero(part, taken.rows);
        }
    }
}
