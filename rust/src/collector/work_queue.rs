//! The tasks that no thread has taken yet, and how long games take. Under the lock of the scheduler.

use std::collections::VecDeque;
use std::time::Duration;

use crate::collector::work_batch::{Role, Task, WorkBatch};

/// Duration of the work that a thread takes at once: a few times the 10 us that a hand-over to another thread costs.
const BATCH_TIME: Duration = Duration::from_micros(50);

const BATCH_GAMES: usize = 256;

/// A slower game is stepped by worker threads only, one at a time: a thread that waits for a batch would miss its timeout.
const SLOW: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct WorkQueue {
    tasks: VecDeque<Task>,
    slow: VecDeque<u32>,
    /// A game counts as slow until it has been timed.
    is_slow: Vec<bool>,
    /// All games count as slow.
    blocking: bool,
    /// Env workers step the games, so that the duration of a task does not show how slow its game is.
    outside: bool,
    /// Nanoseconds that a task of a quick game takes, smoothed.
    cost: f64,
    /// Unfinished tasks of threads.
    pub running: usize,
}

impl WorkQueue {
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

    /// Lets env workers step all games: the tasks left here are quick.
    pub fn step_outside(&mut self) {
        self.outside = true;
        self.is_slow.fill(false);
        self.tasks.extend(self.slow.drain(..).map(Task::Advance));
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.slow.is_empty()
    }

    pub fn is_slow(&self, game: u32) -> bool {
        self.is_slow[game as usize]
    }
    pub fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

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

    /// How many threads there is work for, beside one that takes work itself in this role. With `defers`, work cheaper than
    /// waking a thread is deferred to the next wait.
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

    /// Counts finished tasks, and updates the cost by the time that they took.
    pub fn finish(&mut self, work: &mut WorkBatch, took: Duration) {
        // Slow games are timed alone, which shows later which of several it was.
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

    /// Whether so many tasks of quick games take at most this long; false where all games count as slow.
    pub fn fit(&self, tasks: usize, limit: Duration) -> bool {
        !self.blocking && Duration::from_nanos((tasks as f64 * self.cost) as u64) <= limit
    }
}
