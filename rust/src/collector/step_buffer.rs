//! Games that are moved outside of this crate, by drivers: each has a desk of rows for moves and reports.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

use crate::collector::batch::{Batch, Layout};
use crate::collector::context::Context;
use crate::collector::game_state::Move;
use crate::collector::plan::Plan;
use crate::collector::run_state::RunState;
use crate::collector::runtime::lock;
use crate::collector::scheduler::{Scheduler, Taken};
use crate::collector::shard::Shard;
use crate::collector::work_batch::{Role, Task, WorkBatch};
use crate::error::{Error, Result};
use crate::games::{Action, Game, GameSpec, Outcome};

/// How long a driver moves games before it reports: what others wait for, and what handing over costs, are
/// both small then.
const CHUNK: Duration = Duration::from_millis(1);

/// The same for who waits for a batch: all games wait for that, and longer would miss timeouts.
const LONG_CHUNK: Duration = Duration::from_millis(10);

/// Rows of a desk at most.
const MOST_ROWS: usize = 256;

/// The first arrays of a desk; those of the game's keys follow.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// int64: whose row it is.
    Game,
    /// int64: the seed of the episode to begin, or -1 for a step.
    Seed,
    /// The action to take.
    Action,
    /// float64: what that paid.
    Reward,
    /// uint8: 0 going on, 1 terminated, 2 truncated.
    End,
}

/// Arrays before those of the game's keys.
const PARTS: usize = Part::End as usize + 1;

/// Memory for a desk that other processes have too: a file of so many bytes.
#[derive(Debug, Clone, Copy)]
pub struct SharedFile {
    /// Its descriptor.
    pub descriptor: i32,
    /// Its bytes.
    pub size: usize,
}

/// What one driver reads moves from and writes reports to.
#[derive(Debug)]
pub struct StepBuffer {
    memory: Arc<Batch>,
    hand: Mutex<InFlight>,
}

/// What a driver is about.
#[derive(Debug)]
struct InFlight {
    games: Vec<u32>,
    /// The thread that moves them, if there are any.
    owner: Option<ThreadId>,
    since: Instant,
    /// Nanoseconds that a move takes, smoothed.
    cost: f64,
}

impl InFlight {
    fn learn(&mut self, moves: usize) {
        let each = self.since.elapsed().as_nanos() as f64 / moves.max(1) as f64;
        self.cost += if self.cost == 0.0 { each } else { (each - self.cost) / 4.0 };
    }

    fn most(&self, chunk: Duration, rows: usize, queries: usize) -> usize {
        // A game that asks, and waits for answers, would keep others from their moves.
        if self.cost == 0.0 || queries > 0 {
            return 1;
        }
        let fitting = chunk.as_nanos() as f64 / self.cost;
        (fitting as usize).clamp(1, rows)
    }
}

impl StepBuffer {
    /// A desk for so many games.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system refuses; [`Error::Value`] for a file that is too small.
    pub fn new(spec: &GameSpec, games: usize, file: Option<SharedFile>) -> Result<Self> {
        let keys = spec.keys.iter().map(|(_, field)| field.nbytes());
        let sizes = [8, 8, spec.action.nbytes(), 8, 1].into_iter().chain(keys);
        let layout = Layout::new(games.clamp(1, MOST_ROWS), sizes)?;
        let memory = match file {
            None => Batch::several(layout, 1)?.remove(0),
            Some(file) => Batch::in_file(layout, file.descriptor, file.size)?,
        };
        let hand = InFlight { games: Vec::new(), owner: None, since: Instant::now(), cost: 0.0 };
        Ok(Self { memory, hand: Mutex::new(hand) })
    }

    /// The arrays: games, seeds, actions, rewards, ends, and one for each of the game's keys.
    pub fn memory(&self) -> &Arc<Batch> {
        &self.memory
    }

    fn write(&self, plan: &Plan, row: usize, game: u32, slots: &Shard) {
        let put = |part: Part, bytes: &[u8]| self.memory.write(part as usize, row, 0, bytes);
        put(Part::Game, &i64::from(game).to_ne_bytes());
        let (order, action) = slots.order(plan, game);
        // What begins an episode is a number that every generator takes: of 32 bits.
        let seed = match order {
            Move::Reset(seed) => (seed >> 32) as i64,
            Move::Step => -1,
        };
        put(Part::Seed, &seed.to_ne_bytes());
        if seed < 0 {
            put(Part::Action, action);
        }
    }

    /// What a row reports.
    ///
    /// # Errors
    /// [`Error::State`] for an end that is none: others can write here.
    pub fn report(&self, row: usize) -> Result<Box<dyn Game>> {
        let mut reward = [0; 8];
        self.memory.read(Part::Reward as usize, row, &mut reward);
        let mut end = [0];
        self.memory.read(Part::End as usize, row, &mut end);
        if end[0] > 2 {
            return Err(Error::State(format!(
                "its env worker reported end {}, expected 0, 1 or 2",
                end[0]
            )));
        }
        let outcome = Outcome {
            reward: f64::from_ne_bytes(reward) as f32,
            terminated: end[0] == 1,
            truncated: end[0] == 2,
        };
        Ok(Box::new(Reported { memory: Arc::clone(&self.memory), row, outcome }))
    }

    /// What makes games that were not moved yet.
    pub fn blank(&self) -> impl Fn() -> Box<dyn Game> + use<> {
        let memory = Arc::clone(&self.memory);
        let outcome = Outcome::default();
        move || Box::new(Reported { memory: Arc::clone(&memory), row: 0, outcome })
    }
}

/// A game as its driver has left it.
struct Reported {
    memory: Arc<Batch>,
    row: usize,
    outcome: Outcome,
}

impl Game for Reported {
    fn reset(&mut self, _seed: u64) {}

    fn step(&mut self, _action: Action<'_>) -> Result<Outcome> {
        Ok(self.outcome)
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        self.memory.read(PARTS + key, self.row, out);
    }
}

impl Context {
    /// The desks of the drivers.
    pub fn step_buffers(&self) -> &[StepBuffer] {
        &self.shared.step_buffers
    }

    /// Takes a driver's report about the moves it was given, and waits for new ones: how many rows of its desk have
    /// one. 0 when `until` comes first, none when the run is over. Does what else there is to do meanwhile.
    ///
    /// # Errors
    /// [`Error::Value`] when it did not have so many moves, or there is no such driver.
    pub fn play(&self, env_worker: usize, report: Report, until: Instant) -> Result<Option<usize>> {
        let shared = &*self.shared;
        let step_buffer = self.step_buffer(env_worker)?;
        self.report(env_worker, report)?;
        let mut chunk = WorkBatch::default();
        let mut scheduler = lock(&shared.scheduler);
        loop {
            if scheduler.life != RunState::Running {
                return Ok(None);
            }
            if scheduler.pick(&mut chunk, Role::Worker) {
                scheduler = shared.run(scheduler, &mut chunk, Role::Worker);
                continue;
            }
            let count = self.hand_out(&mut scheduler, env_worker);
            if count > 0 {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(0));
            }
            scheduler = shared.rest(scheduler, Some(left));
        }
        drop(scheduler);
        Ok(Some(self.set_out(step_buffer)))
    }

    /// Waits for a batch as [`Self::wait`] does, and for moves of the only driver, which has no thread of its own: this
    /// thread makes them, and so nothing is handed over between threads. [`Self::report`] tells of them.
    ///
    /// # Errors
    /// As [`Self::wait`]; [`Error::Value`] when there is no driver.
    pub fn attend(&self, only: Option<usize>, until: Option<Instant>) -> Result<Option<WorkItem>> {
        let shared = &*self.shared;
        let step_buffer = self.step_buffer(0)?;
        lock(&shared.scheduler).lent = true;
        let turn = self.turn(only, until, |scheduler| {
            let count = self.hand_out(scheduler, 0);
            (count > 0).then_some(count)
        })?;
        if matches!(turn, Some(WorkItem::Moves(_))) {
            self.set_out(step_buffer);
        }
        Ok(turn)
    }

    /// Takes a report about the moves that this thread was given, if it was given any. What it has not begun is
    /// given out again.
    ///
    /// # Errors
    /// [`Error::Value`] when it did not have so many moves, or there is no such driver.
    pub fn report(&self, env_worker: usize, report: Report) -> Result<()> {
        let shared = &*self.shared;
        let mut hand = lock(&self.step_buffer(env_worker)?.hand);
        let count = if hand.owner == Some(current().id()) { hand.games.len() } else { 0 };
        if report.begun > count {
            return Err(Error::value("begun", format!("at most {count} moves"), report.begun));
        }
        if let Some(&(row, _)) = report.failed.iter().find(|(row, _)| *row >= report.begun) {
            return Err(Error::value("failed", format!("rows below {}", report.begun), row));
        }
        if count == 0 {
            return Ok(());
        }
        hand.learn(report.begun);
        let rest = hand.games.split_off(report.begun);
        let mut chunk = report.chunk(env_worker, &hand.games);
        hand.games.clear();
        hand.owner = None;
        drop(hand);
        let mut scheduler = lock(&shared.scheduler);
        scheduler.queries.set_hand(env_worker, &[]);
        scheduler.take_back(env_worker, rest);
        drop(shared.run(scheduler, &mut chunk, Role::Worker));
        Ok(())
    }

    /// Whether this thread has moves of the first driver that it has not told of.
    pub fn is_moving(&self) -> bool {
        self.shared
            .step_buffers
            .first()
            .is_some_and(|step_buffer| lock(&step_buffer.hand).owner == Some(current().id()))
    }

    fn step_buffer(&self, env_worker: usize) -> Result<&StepBuffer> {
        let step_buffers = &self.shared.step_buffers;
        let missing =
            || Error::value("env_worker", format!("one of {}", step_buffers.len()), env_worker);
        step_buffers.get(env_worker).ok_or_else(missing)
    }

    /// Gives this thread moves, unless another has some: how many.
    fn hand_out(&self, scheduler: &mut Scheduler, env_worker: usize) -> usize {
        let shared = &*self.shared;
        let step_buffer = &shared.step_buffers[env_worker];
        let mut hand = lock(&step_buffer.hand);
        if hand.owner.is_some() {
            return 0;
        }
        let chunk = if scheduler.lent { LONG_CHUNK } else { CHUNK };
        let most = hand.most(chunk, step_buffer.memory.rows(), shared.queries);
        scheduler.hand_out(env_worker, most, &mut hand.games);
        if !hand.games.is_empty() {
            hand.owner = Some(current().id());
        }
        hand.games.len()
    }

    /// Writes the moves of this thread to the desk: how many.
    fn set_out(&self, step_buffer: &StepBuffer) -> usize {
        let shared = &*self.shared;
        let mut hand = lock(&step_buffer.hand);
        for (row, &game) in hand.games.iter().enumerate() {
            step_buffer.write(&shared.plan, row, game, &shared.slots_of(game));
        }
        hand.since = Instant::now();
        hand.games.len()
    }
}

/// What there is to do for who waits for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkItem {
    /// A batch.
    Batch(Taken),
    /// So many moves, which lie on the desk.
    Moves(usize),
}

/// What became of moves.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// How many were begun, from the first on.
    pub begun: usize,
    /// The last of them was broken off, and its game begins an episode: nobody knows its state.
    pub broken_off: bool,
    /// Rows of the desk that report nothing, because their games failed, and why.
    pub failed: Vec<(usize, String)>,
}

impl Report {
    /// That so many moves were made.
    pub fn done(begun: usize) -> Self {
        Self { begun, ..Self::default() }
    }

    /// Tasks that take in what became of these games.
    fn chunk(self, env_worker: usize, games: &[u32]) -> WorkBatch {
        let task = |(&slot, row)| Task::Report { slot, row };
        let tasks = games.iter().zip(0..).map(task).collect();
        let mut chunk = WorkBatch { tasks, env_worker, ..WorkBatch::default() };
        for (row, text) in self.failed {
            if let Some(&slot) = games.get(row) {
                chunk.tasks[row] = Task::Failed(slot);
                chunk.crashes.push((slot, text));
            }
        }
        let last = games.iter().zip(chunk.tasks.iter_mut()).next_back();
        if let Some((&slot, task)) = last.filter(|_| self.broken_off)
            && matches!(task, Task::Report { .. })
        {
            *task = Task::Failed(slot);
            chunk.broken_off = Some(slot);
        }
        chunk
    }
}

impl Scheduler {
    /// Whether drivers move the games.
    pub fn has_drivers(&self) -> bool {
        !self.outside.is_empty()
    }

    /// Whether there are games to move, by drivers that can.
    pub fn has_moves(&self) -> bool {
        let can = |(env_worker, games): (usize, &VecDeque<u32>)| {
            !games.is_empty() && !self.queries.holds_up(env_worker)
        };
        self.outside.iter().enumerate().any(can)
    }

    /// Gives a driver games to move, at most so many.
    pub fn hand_out(&mut self, env_worker: usize, most: usize, hand: &mut Vec<u32>) {
        let games = &mut self.outside[env_worker];
        let count = most.min(games.len());
        hand.extend(games.drain(..count));
        self.running += count;
        self.queries.set_hand(env_worker, hand);
    }

    /// Takes moves back that were not begun.
    fn take_back(&mut self, env_worker: usize, moves: Vec<u32>) {
        self.running -= moves.len();
        moves.into_iter().rev().for_each(|game| self.outside[env_worker].push_front(game));
    }

    /// Counts states that no history will show.
    pub fn count_lost(&mut self, lost: &[u64]) {
        for (delivered, lost) in self.delivered.iter_mut().zip(lost) {
            delivered.lost += lost;
        }
    }

    fn has_work(&self) -> bool {
        self.has_moves() || self.queries.has_answers() || self.helpers(None) > 0
    }

    /// Whether drivers are to be woken.
    pub fn calls_drivers(&self) -> bool {
        self.has_drivers() && !self.lent && self.idle > 0 && self.has_work()
    }

    /// Whether one of those who wait for batches is to move games.
    pub fn calls_consumers(&self) -> bool {
        self.lent && self.has_moves()
    }
}
