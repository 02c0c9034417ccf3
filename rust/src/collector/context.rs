//! Games that run, their batches, and the threads that step them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use crate::collector::board::{Delivered, Taken};
pub use crate::collector::slot::Counts;

use crate::collector::batch::{self, Batch};
use crate::collector::board::{Board, Chunk, Life, Role, Task};
use crate::collector::group::{Group, Rules};
use crate::collector::plan::{Collector, Plan, Route, Track};
use crate::collector::slot::Slot;
use crate::error::{Error, Result};
use crate::games::{Game, GameSpec};

/// Games of a context at most.
const MOST_GAMES: usize = 1 << 24;

/// How a context runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Games.
    pub games: usize,
    /// Threads beside those that wait for batches; at least one.
    pub threads: usize,
    /// Batches of each collector; none for as many as suit the games, at least two and at most 256.
    pub buffers: Option<usize>,
    /// Bytes that it may take.
    pub memory: u64,
    /// Together with a game's number and the episode's it determines an episode's seed.
    pub seed: u64,
    /// Batches of as many rows as there are games are sorted by game, and batches are delivered in the order
    /// in which their rows were given away, whichever is written first.
    pub deterministic: bool,
}

/// Many games that step whenever they can, and batches of their states.
///
/// No game has a thread. A game between two steps is a slot; those that can go on stand in a queue, from
/// which threads take chunks, and whoever waits for a batch is one of these threads meanwhile.
#[derive(Debug)]
pub struct Context {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    count: usize,
}

/// What the threads share. The lock of the board is never held while a game steps or a row is copied, nor
/// while that of a slot is taken.
struct Shared {
    plan: Plan,
    slots: Vec<Mutex<Slot>>,
    batches: Vec<Vec<Arc<Batch>>>,
    board: Mutex<Board>,
    work: Condvar,
    news: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// The guarded value, also after a panic: none happens while one of these locks is held but in a game, and
/// then the context has failed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    /// A context that has not started; `game` makes each game by its number.
    ///
    /// # Errors
    /// [`Error::Value`] when options or collectors do not fit, [`Error::Memory`] when the system refuses.
    pub fn new(
        spec: &GameSpec,
        collectors: Vec<Collector>,
        options: Options,
        mut game: impl FnMut(usize) -> Box<dyn Game>,
    ) -> Result<Self> {
        if !(1..=MOST_GAMES).contains(&options.games) {
            let expected = format!("an integer in [1, {MOST_GAMES}]");
            return Err(Error::value("num_games", expected, options.games));
        }
        let plan = Plan::new(spec, collectors)?;
        let collectors = || plan.routes.iter().map(|route| &route.collector);
        collectors().try_for_each(|each| check_fill(each, options.games))?;
        let rows = collectors().map(|each| each.batch_size).fold(0, usize::saturating_add);
        let buffers = buffers(options, rows);
        check_memory(&plan, options, buffers)?;
        let groups = collectors().map(|each| Group::new(rules(each, options, buffers))).collect();
        let replying = plan.select(Collector::replying);
        let mut board = Board::new(groups, replying, options.games, spec.blocking);
        board.in_turn = options.deterministic;
        let slots = |at| Mutex::new(Slot::new(game(at), at as u32, options.seed, &plan));
        let shared = Shared {
            slots: (0..options.games).map(slots).collect(),
            batches: collectors().map(|each| memory(each, buffers)).collect::<Result<_>>()?,
            board: Mutex::new(board),
            plan,
            work: Condvar::new(),
            news: Condvar::new(),
        };
        let threads = Mutex::default();
        let count = options.threads.clamp(1, options.games);
        Ok(Self { shared: Arc::new(shared), threads, count })
    }

    /// Lets the games go.
    ///
    /// # Errors
    /// [`Error::State`] when it was started before, or has no threads to run on.
    pub fn start(&self) -> Result<()> {
        let mut threads = lock(&self.threads);
        let mut board = lock(&self.shared.board);
        match board.life {
            Life::New => board.life = Life::Running,
            Life::Running => return Err(Error::State("started already".into())),
            _ => return Err(Error::State("stopped: make a new one to start again".into())),
        }
        drop(board);
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
        let shared = &*self.shared;
        let mut chunk = Chunk::default();
        let mut board = lock(&shared.board);
        loop {
            board.life.check()?;
            if let Some(taken) = board.take(only) {
                shared.call_threads(&board, None);
                drop(board);
                shared.clear_replies(taken);
                return Ok(Some(taken));
            }
            if board.expire() || board.wake_from_quiescence() {
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                shared.call_threads(&board, None);
                return Ok(None);
            }
            board = if board.pick(&mut chunk, Role::Consumer) {
                shared.run(board, &mut chunk, Role::Consumer)
            } else {
                shared.sleep(board, left)
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
        let mut board = lock(&shared.board);
        if matches!(board.life, Life::Stopped | Life::Failed(_)) {
            return Ok(());
        }
        let owners = board.groups[taken.group].answer(taken.buffer, taken.serial)?;
        drop(board);
        let Route { collector, .. } = &shared.plan.routes[taken.group];
        if collector.replying() {
            let batch = &shared.batches[taken.group][taken.buffer];
            for (row, &slot) in owners.iter().enumerate() {
                lock(&shared.slots[slot as usize]).apply(&shared.plan, taken.group, batch, row);
            }
        }
        let mut board = lock(&shared.board);
        board.release(taken, owners, collector.batch_size);
        // This thread will wait for the next batch, as a rule, and work meanwhile; who sleeps may have been
        // waiting for just this.
        shared.call_threads(&board, Some(Role::Consumer));
        if board.consumers > 0 {
            shared.news.notify_all();
        }
        Ok(())
    }

    /// Takes back a batch that could not be dealt with; it is delivered again, before all others.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn put_back(&self, taken: Taken) -> Result<()> {
        let mut board = lock(&self.shared.board);
        board.put_back(taken)?;
        self.shared.tell_consumers(&board);
        Ok(())
    }

    /// Whether a batch is still out.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn check_out(&self, taken: Taken) -> Result<()> {
        lock(&self.shared.board).groups[taken.group].check_out(taken.buffer, taken.serial)
    }

    /// Ends everything: who waits gets an error, threads are joined, what was not delivered is dropped.
    pub fn stop(&self) {
        let mut board = lock(&self.shared.board);
        if !matches!(board.life, Life::Failed(_)) {
            board.life = Life::Stopped;
        }
        drop(board);
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
        lock(&self.shared.board).life.check()
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
        lock(&self.shared.board).delivered.clone()
    }

    /// What each game has done.
    pub fn counts(&self) -> Vec<Counts> {
        self.shared.slots.iter().map(|slot| lock(slot).counts()).collect()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check_fill(collector: &Collector, games: usize) -> Result<()> {
    if !collector.replying() || collector.timeout.is_some() || collector.batch_size <= games {
        return Ok(());
    }
    let name = format!("_batchsize of {:?}", collector.name);
    let expected = format!("at most num_games = {games}, or a _timeout_usec");
    Err(Error::value(name, expected, collector.batch_size))
}

/// Bytes that a game takes beside its histories, about.
const GAME: usize = size_of::<Mutex<Slot>>() + 256;

/// Bytes that a batch takes beside its memory, about.
const BATCH: usize = 256;

/// Compares what the context will take with what there is.
fn check_memory(plan: &Plan, options: Options, buffers: usize) -> Result<()> {
    let collectors = || plan.routes.iter().map(|route| &route.collector);
    let history = |track: &Track| (track.depth as u128).saturating_mul(plan.columns.size() as u128);
    let histories = plan.tracks.iter().map(|track| history(track).saturating_add(64));
    let game = histories.fold(GAME as u128, u128::saturating_add);
    let arrays: u128 = collectors().map(Collector::arrays).sum();
    let books = BATCH as u128 * buffers as u128 * plan.routes.len() as u128;
    let kept = game.saturating_mul(options.games as u128);
    let kept = kept.saturating_add(books).saturating_add(arrays.saturating_mul(16));
    let batch = |each: &Collector| each.row_size().saturating_mul(each.batch_size as u128);
    let batches = collectors().map(batch).fold(0, u128::saturating_add);
    let needed = batches.saturating_mul(buffers as u128).saturating_add(kept);
    batch::check_memory("games, histories and batches", needed, kept, options.memory)
}

/// Batches of a collector at most, unless more are asked for: a few are enough for those who answer, and
/// games without a row wait as well in the line as in a batch.
const MOST_BUFFERS: usize = 256;

fn buffers(options: Options, rows: usize) -> usize {
    let fitting = (options.games / rows.max(1)).min(MOST_BUFFERS);
    options.buffers.unwrap_or(fitting).max(2)
}

fn rules(collector: &Collector, options: Options, buffers: usize) -> Rules<u32> {
    let sorted = options.deterministic && collector.batch_size == options.games;
    Rules {
        batch_size: collector.batch_size,
        buffers,
        timeout: collector.timeout,
        order: sorted.then_some(u32::cmp),
    }
}

fn memory(collector: &Collector, buffers: usize) -> Result<Vec<Arc<Batch>>> {
    Batch::several(collector.layout()?, buffers)
}

impl Shared {
    /// What a thread does all its life.
    fn serve(&self) {
        let mut chunk = Chunk::default();
        let mut board = lock(&self.board);
        while board.life == Life::Running {
            if board.pick(&mut chunk, Role::Worker) {
                board = self.run(board, &mut chunk, Role::Worker);
                continue;
            }
            board.idle += 1;
            board = self.work.wait(board).unwrap_or_else(PoisonError::into_inner);
            board.idle -= 1;
        }
    }

    /// Does a chunk of work with the board free meanwhile.
    fn run<'a>(
        &'a self,
        board: MutexGuard<'a, Board>,
        chunk: &mut Chunk,
        role: Role,
    ) -> MutexGuard<'a, Board> {
        drop(board);
        let start = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.work(chunk)));
        let failure = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(format!("panicked: {}", panic_text(&*panic))),
        };
        if let Some(text) = failure {
            self.fail(Error::State(format!("game {}: {text}", chunk.slot)));
            return lock(&self.board);
        }
        let mut board = lock(&self.board);
        board.finish(chunk, start.elapsed());
        self.call_threads(&board, Some(role));
        self.tell_consumers(&board);
        board
    }

    fn work(&self, chunk: &mut Chunk) -> Result<()> {
        for &task in &chunk.tasks {
            match task {
                Task::Write(grant) => chunk.grants.push(grant),
                Task::Advance(slot) => {
                    chunk.slot = slot;
                    let wish = lock(&self.slots[slot as usize]).advance(&self.plan)?;
                    chunk.wishes.push((slot, wish));
                }
            }
        }
        lock(&self.board).claim(chunk);
        for grant in &chunk.grants {
            chunk.slot = grant.slot;
            let batch = &self.batches[grant.group][grant.row.buffer];
            let slot = lock(&self.slots[grant.slot as usize]);
            slot.write(&self.plan, grant.group, batch, grant.row.row);
        }
        Ok(())
    }

    /// Sleeps until there may be a batch, or work.
    fn sleep<'a>(
        &'a self,
        mut board: MutexGuard<'a, Board>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Board> {
        board.consumers += 1;
        board.alarm = board.deadline();
        let short = board.alarm.map(|at| at.saturating_duration_since(Instant::now()));
        let mut board = match left.into_iter().chain(short).min() {
            None => self.news.wait(board).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.news.wait_timeout(board, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        board.consumers -= 1;
        board
    }

    /// Wakes threads for the work that is there beyond what this one will take, if it works too.
    fn call_threads(&self, board: &Board, this: Option<Role>) {
        for _ in 0..board.helpers(this).min(board.idle) {
            self.work.notify_one();
        }
    }

    /// Wakes those who sleep until there is a batch, when there may be one.
    fn tell_consumers(&self, board: &Board) {
        if board.consumers > 0 && board.is_news() {
            self.news.notify_all();
        }
    }

    fn fail(&self, error: Error) {
        let mut board = lock(&self.board);
        if board.life == Life::Running {
            board.life = Life::Failed(error);
        }
        drop(board);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.work.notify_all();
        self.news.notify_all();
    }

    fn clear_replies(&self, taken: Taken) {
        let Route { collector, replies, .. } = &self.plan.routes[taken.group];
        let batch = &self.batches[taken.group][taken.buffer];
        for part in (0..collector.steps * replies.len()).map(|at| collector.reply_part(0, 0) + at) {
            batch.zero(part, taken.rows);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("for no reason")
}
