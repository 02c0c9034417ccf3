//! Games that run, their batches, and the threads that step them.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

pub use crate::collector::failure_policy::FailureCounts;
pub use crate::collector::game_state::{Counts, Override};
pub use crate::collector::options::Options;
pub use crate::collector::scheduler::{Delivered, Taken};

use crate::collector::batch::Batch;
use crate::collector::batch_queue::BatchQueue;
use crate::collector::description::Collector;
use crate::collector::failure_policy::Failures;
use crate::collector::game_state::GameState;
use crate::collector::options::{buffers, check_fill, check_memory, memory, rules};
use crate::collector::plan::Plan;
use crate::collector::run_state::RunState;
use crate::collector::runtime::{Runtime, lock};
use crate::collector::scheduler::Scheduler;
use crate::collector::shard::{Games, MOST, Shard};
use crate::collector::step_buffer::{SharedFile, StepBuffer, WorkItem};
use crate::collector::work_batch::{Role, WorkBatch};
use crate::error::{Error, Result};
use crate::games::game_batch::GameBatch;
use crate::games::{Game, GameSpec};

/// Games of a context at most.
const MOST_GAMES: usize = 1 << 24;

/// Many games that step whenever they can, and batches of their states.
///
/// No game has a thread. A game between two steps is a slot; those that can go on stand in a queue, from
/// which threads take chunks, and whoever waits for a batch is one of these threads meanwhile.
#[derive(Debug)]
pub struct Context {
    pub(super) shared: Arc<Runtime>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    count: usize,
}

impl Context {
    /// A context that has not started; `game` makes each game by its number.
    ///
    /// # Errors
    /// [`Error::Value`] when options or collectors do not fit, [`Error::Memory`] when the system refuses.
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

    /// As [`Self::new`]; `herd` makes several games by their numbers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_game_batches(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        mut game_batch: impl FnMut(Range<usize>) -> Box<dyn GameBatch>,
    ) -> Result<Self> {
        let threads = options.threads.clamp(1, options.games.max(1));
        // What takes long is not to wait for each other.
        let most = if spec.blocking { 1 } else { MOST };
        let sharing = (options.games / threads).clamp(1, most).ilog2();
        Self::make(spec, collectors, options, Vec::new(), sharing, |slots| {
            Games::Here(game_batch(slots))
        })
    }

    /// A context that has not started, of games that drivers move: for each file one, which has its desk there,
    /// or in plain memory. It has no threads of its own.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn outside(
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
        let unmoved = |slots: Range<usize>| Games::Outside(slots.map(|_| blank()).collect());
        Self::make(spec, collectors, options, step_buffers, games.min(MOST).ilog2(), unmoved)
    }

    fn make(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        step_buffers: Vec<StepBuffer>,
        sharing: u32,
        mut games: impl FnMut(Range<usize>) -> Games,
    ) -> Result<Self> {
        if !(1..=MOST_GAMES).contains(&options.games) {
            let expected = format!("an integer in [1, {MOST_GAMES}]");
            return Err(Error::value("num_games", expected, options.games));
        }
        let most = if step_buffers.is_empty() { 0 } else { MOST_GAMES / options.games - 1 };
        if options.queries > most {
            let expected = match most {
                0 => "0 for games that do not search, or are so many".into(),
                _ => format!("an integer in [0, {most}] for so many games"),
            };
            return Err(Error::value("max_num_threads", expected, options.queries));
        }
        let plan = Plan::new(spec, collectors)?;
        let collectors = || plan.routes.iter().map(|route| &route.collector);
        collectors().try_for_each(|each| check_fill(each, options))?;
        let rows = collectors().map(|each| each.batch_size).fold(0, usize::saturating_add);
        let buffers = buffers(options, rows);
        check_memory(&plan, options, buffers)?;
        let groups =
            collectors().map(|each| BatchQueue::new(rules(each, options, buffers))).collect();
        let holding = plan.select(Collector::holding);
        let mut scheduler = Scheduler::new(groups, holding, options.games, spec.blocking);
        scheduler.in_turn = options.deterministic;
        scheduler.crashes = Failures::new(options.on_error, options.games);
        let outside = !step_buffers.is_empty();
        if outside {
            scheduler.move_outside(step_buffers.len(), options.slots());
        }
        let slot = |at: usize| {
            // Behind all games come the queries of the first, then of the next.
            let query = at.checked_sub(options.games);
            let game = query.map_or(at, |query| query / options.queries);
            let tid = query.map_or(0, |query| query % options.queries + 1);
            GameState::new(game as u32, tid as u32, options.seed)
        };
        let share = |first: usize| {
            let numbers = first..options.slots().min(first + (1 << sharing));
            let slots = numbers.clone().map(slot).collect();
            Mutex::new(Shard::new(first as u32, games(numbers), slots, &plan))
        };
        let slots = (0..options.slots()).step_by(1 << sharing).map(share).collect();
        let shared = Runtime {
            slots,
            sharing,
            games: options.games,
            queries: options.queries,
            batches: collectors().map(|each| memory(each, buffers)).collect::<Result<_>>()?,
            scheduler: Mutex::new(scheduler),
            plan,
            step_buffers,
            work: Condvar::new(),
            news: Condvar::new(),
        };
        let threads = Mutex::default();
        let count = if outside { 0 } else { options.threads.clamp(1, options.games) };
        Ok(Self { shared: Arc::new(shared), threads, count })
    }

    /// Lets the games go.
    ///
    /// # Errors
    /// [`Error::State`] when it was started before, or has no threads to run on.
    pub fn start(&self) -> Result<()> {
        let mut threads = lock(&self.threads);
        let mut scheduler = lock(&self.shared.scheduler);
        match scheduler.life {
            RunState::New => scheduler.life = RunState::Running,
            RunState::Running => return Err(Error::State("started already".into())),
            _ => return Err(Error::State("stopped: make a new one to start again".into())),
        }
        drop(scheduler);
        for number in 0..self.count {
            let shared = Arc::clone(&self.shared);
            let name = format!("cogrs-game-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || shared.serve());
            let thread = thread.map_err(|error| {
                let error = Error::State(format!("cannot start a thread: {error}"));
                self.shared.fail(error.clone());
                error
            })?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Waits for a batch, of one collector or of any, and steps games meanwhile. None when `until` comes
    /// first. The replies of the batch are zero.
    ///
    /// # Errors
    /// [`Error::State`] when the context is not running, or whatever a game failed with.
    pub fn wait(&self, only: Option<usize>, until: Option<Instant>) -> Result<Option<Taken>> {
        let turn = self.turn(only, until, |_| None)?;
        Ok(turn.and_then(|turn| if let WorkItem::Batch(taken) = turn { Some(taken) } else { None }))
    }

    /// As [`Self::wait`], but also for what `moves` finds for this thread to do.
    pub(super) fn turn(
        &self,
        only: Option<usize>,
        until: Option<Instant>,
        moves: impl Fn(&mut Scheduler) -> Option<usize>,
    ) -> Result<Option<WorkItem>> {
        let shared = &*self.shared;
        let mut chunk = WorkBatch::default();
        let mut scheduler = lock(&shared.scheduler);
        loop {
            scheduler.life.check()?;
            if let Some(taken) = scheduler.take(only) {
                shared.call_threads(&scheduler, None);
                if scheduler.calls_consumers() {
                    // One of them alone can make the moves.
                    shared.news.notify_all();
                }
                drop(scheduler);
                shared.clear_replies(taken);
                return Ok(Some(WorkItem::Batch(taken)));
            }
            if scheduler.expire() || scheduler.wake_from_quiescence() || scheduler.clear_out() {
                // Games that begin again may be slow ones, which are not for this thread.
                shared.call_threads(&scheduler, Some(Role::Consumer));
                continue;
            }
            if scheduler.is_over() {
                let (game, text) = scheduler.crashes.last().unwrap_or_default();
                let text = format!("all games were dropped, the last was game {game}: {text}");
                scheduler.life = RunState::Failed(Error::State(text));
                shared.wake_all();
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                shared.call_threads(&scheduler, None);
                return Ok(None);
            }
            scheduler = if scheduler.pick(&mut chunk, Role::Consumer) {
                shared.run(scheduler, &mut chunk, Role::Consumer)
            } else if let Some(count) = moves(&mut scheduler) {
                return Ok(Some(WorkItem::Moves(count)));
            } else {
                shared.sleep(scheduler, left)
            };
        }
    }

    /// Gives the answers of a batch to its games, or just the batch back when it takes none. Nothing after a
    /// stop.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn answer(&self, taken: Taken) -> Result<()> {
        let shared = &*self.shared;
        let mut scheduler = lock(&shared.scheduler);
        if matches!(scheduler.life, RunState::Stopped | RunState::Failed(_)) {
            return Ok(());
        }
        let owners = scheduler.groups[taken.group].answer(taken.buffer, taken.serial)?;
        let mut chunk = std::mem::take(&mut scheduler.spare);
        let scheduler = if scheduler.answer_at_once(&mut chunk, taken, &owners) {
            chunk.answered = Some((taken, owners));
            let mut scheduler = shared.run(scheduler, &mut chunk, Role::Consumer);
            scheduler.spare = chunk;
            scheduler
        } else {
            scheduler.spare = chunk;
            drop(scheduler);
            if shared.plan.routes[taken.group].collector.replying() {
                shared.take(taken, &owners);
            }
            let mut scheduler = lock(&shared.scheduler);
            scheduler.release(taken, owners);
            // This thread will wait for the next batch, as a rule, and work meanwhile.
            let role = (!scheduler.has_drivers()).then_some(Role::Consumer);
            shared.call_threads(&scheduler, role);
            scheduler
        };
        // Who sleeps may have been waiting for just this.
        if scheduler.consumers > 0 {
            shared.news.notify_all();
        }
        Ok(())
    }

    /// Takes back a batch that could not be dealt with; it is delivered again, before all others.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn put_back(&self, taken: Taken) -> Result<()> {
        let mut scheduler = lock(&self.shared.scheduler);
        scheduler.put_back(taken)?;
        self.shared.tell_consumers(&scheduler);
        Ok(())
    }

    /// Whether a batch is still out.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn check_out(&self, taken: Taken) -> Result<()> {
        lock(&self.shared.scheduler).groups[taken.group].check_out(taken.buffer, taken.serial)
    }

    /// Ends everything: who waits gets an error, threads are joined, what was not delivered is dropped.
    pub fn stop(&self) {
        let mut scheduler = lock(&self.shared.scheduler);
        if !matches!(scheduler.life, RunState::Failed(_)) {
            scheduler.life = RunState::Stopped;
        }
        drop(scheduler);
        self.shared.wake_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A thread's panic was caught, and told to whoever waits.
            drop(thread.join());
        }
    }

    /// Whether it is running.
    ///
    /// # Errors
    /// [`Error::State`], or whatever a game failed with.
    pub fn check(&self) -> Result<()> {
        lock(&self.shared.scheduler).life.check()
    }

    /// The game that the run failed with.
    pub fn failed_game(&self) -> Option<u32> {
        let scheduler = lock(&self.shared.scheduler);
        let failed = matches!(scheduler.life, RunState::Failed(_));
        scheduler.crashes.last().filter(|_| failed).map(|(game, _)| game)
    }

    /// How many games failed, and what became of them.
    pub fn crashes(&self) -> FailureCounts {
        lock(&self.shared.scheduler).crashes.counts()
    }

    /// Has a game do something else than its next step. It is to wait for an answer that the caller has not given
    /// yet, or not to have started.
    ///
    /// # Errors
    /// [`Error::Value`] when there is no such game.
    pub fn divert(&self, game: usize, detour: Override) -> Result<()> {
        let games = self.shared.games;
        if game >= games {
            return Err(Error::value("game", format!("an integer in [0, {games})"), game));
        }
        self.shared.slots_of(game as u32).divert(game as u32, detour);
        Ok(())
    }

    /// Ends the run with an error, which whoever waits gets.
    pub fn fail(&self, error: Error) {
        self.shared.fail(error);
    }

    /// The batches of a collector: those that are filled in turn.
    pub fn batches(&self, group: usize) -> &[Arc<Batch>] {
        &self.shared.batches[group]
    }

    /// The collectors.
    pub fn collectors(&self) -> impl Iterator<Item = &Collector> {
        self.shared.plan.routes.iter().map(|route| &route.collector)
    }

    /// What each collector has delivered.
    pub fn delivered(&self) -> Vec<Delivered> {
        lock(&self.shared.scheduler).delivered.clone()
    }

    /// What each game has done.
    pub fn counts(&self) -> Vec<Counts> {
        let all = self.shared.slots.iter().flat_map(|slots| lock(slots).counts());
        all.take(self.shared.games).collect()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.stop();
    }
}
