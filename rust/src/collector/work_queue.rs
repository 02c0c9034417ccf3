//! The tasks that no thread has taken yet, and how long games take.

use std::collections::VecDeque;
use std::time::Duration;

use crate::collector::work_batch::{Role, Task, WorkBatch};

/// Time that a thread takes work for at once. Handing work to another thread costs some 10 us, so less
/// than a few of those is not worth it.
const BATCH_TIME: Duration = Duration::from_micros(50);

/// Games in a work batch at most.
const BATCH_GAMES: usize = 256;

/// A game that takes longer than this is stepped by worker threads only, one at a time: a thread that waits
/// for a batch would miss its timeout while it steps such a game.
const SLOW: Duration = Duration::from_millis(1);

/// The tasks that no thread has taken yet.
#[derive(Debug)]
pub struct WorkQueue {
    /// Tasks of quick games.
    tasks: VecDeque<Task>,
    /// Slow games that are to go on.
    slow: VecDeque<u32>,
    /// Which games are slow, as far as is known: a game counts as slow until it has been timed.
    is_slow: Vec<bool>,
    /// All games count as slow.
    blocking: bool,
    /// Games are stepped outside, so a task's time does not tell how slow its game is.
    outside: bool,
    /// Nanoseconds that a task of a quick game takes, smoothed.
    cost: f64,
    /// Tasks that threads have taken and not finished.
    pub running: usize,
}

impl WorkQueue {
    /// All games are to begin.
    pub fn new(games: usize, blocking: bool) -> Self {
        Self {
            tasks: VecDeque::new(),
            slow: (0..games as u32).collect(),
            is_slow: vec![true; games],
            blocking,
            outside: false,
            cost: 0.0,
            running: 0,
        }
    }

    /// Has all games stepped outside: what is left to do here is quick.
    pub fn step_outside(&mut self) {
        self.outside = true;
        self.is_slow.fill(false);
        self.tasks.extend(self.slow.drain(..).map(Task::Advance));
    }

    /// Whether no task waits for a thread.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.slow.is_empty()
    }

    /// Whether a game is slow, as far as is known.
    pub fn is_slow(&self, game: u32) -> bool {
        self.is_slow[game as usize]
    }

    /// Adds a task of a quick game.
    pub fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// Adds a game that is to go on.
    pub fn advance(&mut self, game: u32) {
        if self.is_slow(game) {
            self.slow.push_back(game);
        } else {
            self.push(Task::Advance(game));
        }
    }

    fn batch_size(&self) -> usize {
        let fitting = BATCH_TIME.as_nanos() as f64 / self.cost.max(1.0);
        (fitting as usize).clamp(1, BATCH_GAMES)
    }

    /// How many threads there is work for, beside one that takes work itself in this role. With `defers`, work
    /// cheaper than waking a thread is left to the next wait.
    pub fn helpers(&self, role: Option<Role>, defers: bool) -> usize {
        let size = self.batch_size();
        let batches = self.tasks.len().div_ceil(size);
        match role {
            None if defers => self.tasks.len() / size + self.slow.len(),
            None => batches + self.slow.len(),
            Some(Role::Consumer) => batches.saturating_sub(1) + self.slow.len(),
            Some(Role::Worker) => (batches + self.slow.len()).saturating_sub(1),
        }
    }

    /// Takes work. Returns whether there is some.
    pub fn pick(&mut self, work: &mut WorkBatch, role: Role) -> bool {
        let slow = if role == Role::Worker { self.slow.pop_front() } else { None };
        work.tasks.clear();
        work.tasks.extend(slow.map(Task::Advance));
        if work.tasks.is_empty() {
            let count = self.batch_size().min(self.tasks.len());
            work.tasks.extend(self.tasks.drain(..count));
        }
        self.running += work.tasks.len();
        !work.tasks.is_empty()
    }

    /// Counts finished tasks, and learns from the time that they took.
    pub fn finish(&mut self, work: &mut WorkBatch, took: Duration) {
        // Which game of several it was shows when each is timed alone, as slow games are.
        let slow = !self.outside && (self.blocking || took > SLOW);
        if slow || work.tasks.len() == 1 {
            for task in &work.tasks {
                if let Task::Advance(game) | Task::Reply { game, .. } = *task {
                    self.is_slow[game as usize] = slow;
                }
            }
        }
        if took <= SLOW {
            let each = took.as_nanos() as f64 / work.tasks.len().max(1) as f64;
            self.cost += (each - self.cost) / 8.0;
        }
        self.running -= work.tasks.len();
        work.tasks.clear();
    }

    /// Whether so many tasks of quick games take at most this long; never where all games count as slow.
    pub fn fit(&self, tasks: usize, limit: Duration) -> bool {
        !self.blocking && Duration::from_nanos((tasks as f64 * self.cost) as u64) <= limit
    }
}
