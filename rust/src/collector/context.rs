//! A context: games that run, their batches, and the threads that step them.
//!
//! The lock of `threads` is taken before that of the scheduler, and only to start and to stop.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

pub use crate::collector::batch_queue::TakenBatch;
pub use crate::collector::failure_policy::FailureCounts;
pub use crate::collector::game_state::{Counts, Override};
pub use crate::collector::options::Options;
pub use crate::collector::scheduler::Delivered;

use crate::collector::batch::Batch;
use crate::collector::batch_queue::BatchQueue;
use crate::collector::context_plan::ContextPlan;
use crate::collector::description::Collector;
use crate::collector::failure_policy::Failures;
use crate::collector::game_state::GameState;
use crate::collector::options::{buffers, check_fill, check_memory, rules};
use crate::collector::run_state::RunState;
use crate::collector::runtime::Runtime;
use crate::collector::scheduler::Scheduler;
use crate::collector::shard::{Games, SHARD_SIZE, Shard};
use crate::collector::step_buffer::{SharedFile, StepBuffer};
use crate::collector::sync::lock;
use crate::collector::work_batch::{Role, WorkBatch};
use crate::error::{Error, Result};
use crate::games::game_batch::GameBatch;
use crate::games::{Game, GameSpec};

const MAX_GAMES: usize = 1 << 24;

/// Many games that step whenever they can, and batches of their states.
#[derive(Debug)]
pub struct Context {
    pub(super) runtime: Arc<Runtime>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    count: usize,
}

/// Work for a thread that waits for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkItem {
    /// A batch.
    Batch(TakenBatch),
    /// So many moves, in the first rows of the step buffer.
    Moves(usize),
}

impl Context {
    /// Creates a context that has not started; `game` makes each game by its number. Fails with [`Error::Value`] when options
    /// or collectors do not fit, with [`Error::Memory`] when the system refuses.
    pub fn new<G: Game + 'static>(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        mut game: impl FnMut(usize) -> G,
    ) -> Result<Self> {
        Self::of_game_batches(spec, collectors, options, |games| {
            Box::new(games.map(&mut game).collect::<Vec<G>>())
        })
    }

    /// As [`Self::new`]; `game_batch` makes several games by their numbers. Fails as [`Self::new`] does.
    pub fn of_game_batches(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        mut game_batch: impl FnMut(Range<usize>) -> Box<dyn GameBatch>,
    ) -> Result<Self> {
        let threads = options.threads.clamp(1, options.games.max(1));
        // Slow games are not to wait for each other.
        let most = if spec.blocking { 1 } else { SHARD_SIZE };
        let shard_bits = (options.games / threads).clamp(1, most).ilog2();
        let here = |games| Games::Here(game_batch(games));
        Self::make(spec, collectors, options, Vec::new(), shard_bits, here)
    }

    /// Creates a context that has not started, of games that env workers step, without threads of its own. There is an env
    /// worker per file, whose step buffer lies there, or in plain memory. Fails as [`Self::new`] does.
    pub fn with_env_workers(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        files: &[Option<SharedFile>],
    ) -> Result<Self> {
        if !(1..=options.games).contains(&files.len()) {
            return Err(Error::value("env_workers", "1 to num_games", files.len()));
        }
        let games = options.games.div_ceil(files.len());
        let step_buffers = files.iter().map(|&file| StepBuffer::new(spec, games, file));
        let step_buffers: Vec<StepBuffer> = step_buffers.collect::<Result<_>>()?;
        let blank = step_buffers[0].blank();
        let outside = |games: Range<usize>| Games::Outside(games.map(|_| blank()).collect());
        Self::make(spec, collectors, options, step_buffers, games.min(SHARD_SIZE).ilog2(), outside)
    }

    fn make(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        step_buffers: Vec<StepBuffer>,
        shard_bits: u32,
        mut games: impl FnMut(Range<usize>) -> Games,
    ) -> Result<Self> {
        check_counts(options, !step_buffers.is_empty())?;
        let plan = ContextPlan::new(spec, collectors)?;
        let collectors = || plan.copy_plans.iter().map(|copy_plan| &copy_plan.collector);
        collectors().try_for_each(|each| check_fill(each, options))?;
        let rows = collectors().map(|each| each.batch_size).fold(0, usize::saturating_add);
        let buffers = buffers(options, rows);
        check_memory(&plan, options, buffers)?;
        let queue = |each| BatchQueue::new(rules(each, options, buffers));
        let queues = collectors().map(queue).collect();
        let holding = plan.select(Collector::holding);
        let mut scheduler = Scheduler::new(queues, holding, options.games, spec.blocking);
        scheduler.in_order = options.deterministic;
        scheduler.failures = Failures::new(options.on_error, options.games);
        let mut count = options.threads.clamp(1, options.games);
        if !step_buffers.is_empty() {
            scheduler.step_outside(step_buffers.len(), options.states());
            count = 0;
        }
        let state = |at: usize| {
            // After all games come the queries of the first, then of the next.
            let query = at.checked_sub(options.games);
            let game = query.map_or(at, |query| query / options.queries);
            let tid = query.map_or(0, |query| query % options.queries + 1);
            GameState::new(game as u32, tid as u32, options.seed)
        };
        let shard = |first: usize| {
            let numbers = first..options.states().min(first + (1 << shard_bits));
            let states = numbers.clone().map(state).collect();
            Mutex::new(Shard::new(first as u32, games(numbers), states, &plan))
        };
        let runtime = Runtime {
            shards: (0..options.states()).step_by(1 << shard_bits).map(shard).collect(),
            shard_bits,
            games: options.games,
            queries: options.queries,
            batches: collectors()
                .map(|each| Batch::several(each.layout()?, buffers))
                .collect::<Result<_>>()?,
            scheduler: Mutex::new(scheduler),
            plan,
            step_buffers,
            work_ready: Condvar::new(),
            batch_ready: Condvar::new(),
        };
        Ok(Self { runtime: Arc::new(runtime), threads: Mutex::default(), count })
    }

    /// Starts the games. Fails with [`Error::State`] when it was started before, or threads cannot be started.
    pub fn start(&self) -> Result<()> {
        let mut threads = lock(&self.threads);
        let mut scheduler = lock(&self.runtime.scheduler);
        match scheduler.run_state {
            RunState::New => scheduler.run_state = RunState::Running,
            RunState::Running => return Err(Error::State("started already".into())),
            _ => return Err(Error::State("stopped: create a new context to start again".into())),
        }
        drop(scheduler);
        for number in 0..self.count {
            let runtime = Arc::clone(&self.runtime);
            let name = format!("cogrs-game-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || runtime.serve());
            let thread = thread.map_err(|error| {
                let error = Error::State(format!("cannot start a thread: {error}"));
                self.runtime.fail(error.clone());
                error
            })?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Waits for a batch, of the collector `only` or of any, and steps games meanwhile. Returns None when `until` comes first.
    /// The replies of the batch are zero. Fails with [`Error::State`] when the context is not running, or with the error of
    /// a game.
    pub fn wait(&self, only: Option<usize>, until: Option<Instant>) -> Result<Option<TakenBatch>> {
        let item = self.next_item(only, until, |_| None)?;
        Ok(item.and_then(|item| if let WorkItem::Batch(taken) = item { Some(taken) } else { None }))
    }

    /// As [`Self::wait`], but also for moves that `hand_out` finds for this thread.
    pub(super) fn next_item(
        &self,
        only: Option<usize>,
        until: Option<Instant>,
        hand_out: impl Fn(&mut Scheduler) -> Option<usize>,
    ) -> Result<Option<WorkItem>> {
        let runtime = &*self.runtime;
        let mut work = WorkBatch::default();
        let mut scheduler = lock(&runtime.scheduler);
        loop {
            scheduler.run_state.check()?;
            if let Some(taken) = scheduler.take(only) {
                runtime.wake_workers(&scheduler, None);
                if scheduler.wakes_inline() {
                    // Only one of the threads that wait can make the moves.
                    runtime.batch_ready.notify_all();
                }
                drop(scheduler);
                runtime.clear_replies(taken);
                return Ok(Some(WorkItem::Batch(taken)));
            }
            if scheduler.handle_deadlines()
                || scheduler.send_oldest_if_starved()
                || scheduler.flush_leftovers()
            {
                // Games that restart may be slow ones, which this thread does not step.
                runtime.wake_workers(&scheduler, Some(Role::Consumer));
                continue;
            }
            if scheduler.is_over() {
                let (game, text) = scheduler.failures.last.clone().unwrap_or_default();
                let text = format!("all games were dropped, the last was game {game}: {text}");
                scheduler.run_state = RunState::Failed(Error::State(text));
                runtime.wake_all();
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                runtime.wake_workers(&scheduler, None);
                return Ok(None);
            }
            scheduler = if scheduler.work.pick(&mut work, Role::Consumer) {
                runtime.run(scheduler, &mut work, Role::Consumer)
            } else if let Some(count) = hand_out(&mut scheduler) {
                return Ok(Some(WorkItem::Moves(count)));
            } else {
                runtime.sleep(scheduler, left)
            };
        }
    }

    /// Returns a batch, and its replies to its games. Does nothing after a stop. Fails with [`Error::State`] when this
    /// delivery is over.
    pub fn answer(&self, taken: TakenBatch) -> Result<()> {
        let runtime = &*self.runtime;
        let mut scheduler = lock(&runtime.scheduler);
        if matches!(scheduler.run_state, RunState::Stopped | RunState::Failed(_)) {
            return Ok(());
        }
        let owners = scheduler.queues[taken.collector].answer(taken.buffer, taken.serial)?;
        let mut work = std::mem::take(&mut scheduler.spare);
        let scheduler = if scheduler.reply_immediately(&mut work, taken, &owners) {
            work.answered = Some((taken, owners));
            let mut scheduler = runtime.run(scheduler, &mut work, Role::Consumer);
            scheduler.spare = work;
            scheduler
        } else {
            scheduler.spare = work;
            drop(scheduler);
            if runtime.plan.copy_plans[taken.collector].collector.replying() {
                runtime.scatter(taken, &owners);
            }
            let mut scheduler = lock(&runtime.scheduler);
            scheduler.release(taken, owners);
            // This thread usually waits for the next batch, and works meanwhile.
            let role = (!scheduler.has_env_workers()).then_some(Role::Consumer);
            runtime.wake_workers(&scheduler, role);
            scheduler
        };
        // Sleeping threads may wait for this.
        if scheduler.consumers > 0 {
            runtime.batch_ready.notify_all();
        }
        Ok(())
    }

    /// Takes back a batch that could not be processed, and delivers it again before all others. Fails with [`Error::State`]
    /// when this delivery is over.
    pub fn put_back(&self, taken: TakenBatch) -> Result<()> {
        let mut scheduler = lock(&self.runtime.scheduler);
        scheduler.put_back(taken)?;
        self.runtime.wake_consumers(&scheduler);
        Ok(())
    }

    /// Fails with [`Error::State`] when this delivery is over.
    pub fn check_out(&self, taken: TakenBatch) -> Result<()> {
        let scheduler = lock(&self.runtime.scheduler);
        scheduler.queues[taken.collector].check_out(taken.buffer, taken.serial)
    }

    /// Ends the run: threads that wait get an error, the context's own are joined, undelivered batches are dropped.
    pub fn stop(&self) {
        let mut scheduler = lock(&self.runtime.scheduler);
        if !matches!(scheduler.run_state, RunState::Failed(_)) {
            scheduler.run_state = RunState::Stopped;
        }
        drop(scheduler);
        self.runtime.wake_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // Panics were caught, and reported to the threads that wait.
            drop(thread.join());
        }
    }

    /// The game whose failure ended the run.
    pub fn failed_game(&self) -> Option<u32> {
        let scheduler = lock(&self.runtime.scheduler);
        let failed = matches!(scheduler.run_state, RunState::Failed(_));
        scheduler.failures.last.as_ref().filter(|_| failed).map(|&(game, _)| game)
    }

    /// Counts of failures.
    pub fn failures(&self) -> FailureCounts {
        lock(&self.runtime.scheduler).failures.counts
    }

    /// Replaces a game's next step. The game must be waiting for a reply of the caller, or not have started. Fails with
    /// [`Error::Value`] for an unknown game.
    pub fn override_step(&self, game: usize, by: Override) -> Result<()> {
        let games = self.runtime.games;
        if game >= games {
            return Err(Error::value("game", format!("an integer in [0, {games})"), game));
        }
        self.runtime.shard_of(game as u32).override_step(game as u32, by);
        Ok(())
    }

    /// Ends the run with an error for threads that wait.
    pub fn fail(&self, error: Error) {
        self.runtime.fail(error);
    }

    /// The batches of a collector, which are filled in turn.
    pub fn batches(&self, collector: usize) -> &[Arc<Batch>] {
        &self.runtime.batches[collector]
    }

    /// The collectors.
    pub fn collectors(&self) -> impl Iterator<Item = &Collector> {
        self.runtime.plan.copy_plans.iter().map(|copy_plan| &copy_plan.collector)
    }

    /// The deliveries of each collector.
    pub fn delivered(&self) -> Vec<Delivered> {
        lock(&self.runtime.scheduler).delivered.clone()
    }

    /// Counts of each game.
    pub fn counts(&self) -> Vec<Counts> {
        let all = self.runtime.shards.iter().flat_map(|shard| lock(shard).counts());
        all.take(self.runtime.games).collect()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check_counts(options: Options, outside: bool) -> Result<()> {
    if !(1..=MAX_GAMES).contains(&options.games) {
        let expected = format!("an integer in [1, {MAX_GAMES}]");
        return Err(Error::value("num_games", expected, options.games));
    }
    let most = if outside { MAX_GAMES / options.games - 1 } else { 0 };
    if options.queries > most {
        let expected = match most {
            0 if outside => format!("0 for {} games", options.games),
            0 => "0 for games that do not search".into(),
            _ => format!("an integer in [0, {most}] for {} games", options.games),
        };
        return Err(Error::value("max_num_threads", expected, options.queries));
    }
    Ok(())
}
