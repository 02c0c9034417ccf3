//! Step buffers: memory for the moves of games that env workers step, and for their reports.
//!
//! An env worker is a thread of Python. A game that is to move becomes a row of its worker's buffer, with a seed or an action;
//! the next call reports the row's outcome. One call reports about a millisecond's moves, does other work and returns the next
//! moves, so the interpreter is entered once per call, and Rust never calls Python. A buffer in a shared file does the same
//! for a worker process: only the number of rows is sent. Where all games wait for one batch, the thread that waits can make
//! the moves itself (`Context::attend`), without a hand-over between threads.
//!
//! The bytes of a row belong to the env worker while its game is in flight, and to this crate otherwise. The lock of the
//! in-flight moves comes after the scheduler's and before a shard's.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::collector::batch::{Batch, BatchLayout};
use crate::collector::game_state::Move;
use crate::collector::work_batch::{Task, WorkBatch};
use crate::error::{Error, Result};
use crate::games::{Action, Game, GameSpec, Outcome, Turn};

const MAX_ROWS: usize = 256;

/// The first arrays of a step buffer; those of the game's keys follow.
#[derive(Debug, Clone, Copy)]
enum StepArray {
    /// int64: the game of the row.
    Game,
    /// int64: the seed of the episode to begin, or -1 for a step.
    Seed,
    /// The action to take.
    Action,
    /// float64: the reward of that action.
    Reward,
    /// uint8: 0 not over, 1 terminated, 2 truncated; plus 4 where the game goes on for other players.
    End,
    /// int32: the player of the state; 0 without [`GameSpec::has_agents`].
    Player,
    /// int32: the player's states before this one, since its episode began; likewise.
    Seq,
}
const STEP_ARRAYS: usize = StepArray::Seq as usize + 1;

/// Bytes of a row in the first arrays beside the action.
const FIXED: [usize; STEP_ARRAYS - 1] = [8, 8, 8, 1, 4, 4];

/// The bit of [`StepArray::End`] for a game that goes on.
const GOES_ON: u8 = 4;

/// The descriptor of a file that holds a step buffer, for other processes to map too. It must not shrink.
#[derive(Debug, Clone, Copy)]
pub struct SharedFile(pub i32);

/// The memory from which one env worker reads moves, and to which it writes reports.
#[derive(Debug)]
pub struct StepBuffer {
    memory: Arc<Batch>,
    /// Players with episodes of their own; 0 where the game's episode is that of its player.
    agents: usize,
    pub(super) in_flight: Mutex<InFlight>,
}

/// The moves that an env worker is making.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The games of the first rows.
    pub(super) games: Vec<u32>,
    pub(super) owner: Option<ThreadId>,
    pub(super) since: Instant,
    /// Nanoseconds that a move takes, smoothed.
    cost: f64,
}

impl InFlight {
    pub(super) fn update_cost(&mut self, moves: usize) {
        let each = self.since.elapsed().as_nanos() as f64 / moves.max(1) as f64;
        self.cost += if self.cost == 0.0 { each } else { (each - self.cost) / 4.0 };
    }

    /// How many moves take so long; at most one per row.
    pub(super) fn most(&self, length: Duration, rows: usize, queries: usize) -> usize {
        // A game that waits for answers would delay the moves of others.
        if self.cost == 0.0 || queries > 0 {
            return 1;
        }
        let fitting = length.as_nanos() as f64 / self.cost;
        (fitting as usize).clamp(1, rows)
    }
}

impl StepBuffer {
    /// Creates a step buffer for so many games. Fails with [`Error::Memory`] when the system refuses, with [`Error::Value`]
    /// for a file that is too small.
    pub fn new(spec: &GameSpec, games: usize, file: Option<SharedFile>) -> Result<Self> {
        let keys = spec.keys.iter().map(|(_, field)| field.nbytes());
        let [game, seed, after @ ..] = FIXED;
        let sizes = [game, seed, spec.action.nbytes()].into_iter().chain(after).chain(keys);
        let layout = BatchLayout::new(games.clamp(1, MAX_ROWS), sizes)?;
        let memory = match file {
            None => Batch::several(layout, 1)?.remove(0),
            Some(SharedFile(descriptor)) => Batch::in_file(layout, descriptor)?,
        };
        let agents = if spec.has_agents { spec.players.len() } else { 0 };
        let games = Vec::new();
        let in_flight = InFlight { games, owner: None, since: Instant::now(), cost: 0.0 };
        Ok(Self { memory, agents, in_flight: Mutex::new(in_flight) })
    }

    /// The arrays: games, seeds, actions, rewards, ends, players, seqs, and one for each of the game's keys.
    pub fn memory(&self) -> &Arc<Batch> {
        &self.memory
    }
    pub(super) fn write(&self, row: usize, game: u32, order: Move, action: &[u8]) {
        let put = |part: StepArray, bytes: &[u8]| self.memory.write(part as usize, row, 0, bytes);
        put(StepArray::Game, &i64::from(game).to_ne_bytes());
        // Seeds of environments have 32 bits: every generator takes those.
        let seed = match order {
            Move::Reset(seed) => (seed >> 32) as i64,
            Move::Step => -1,
        };
        put(StepArray::Seed, &seed.to_ne_bytes());
        if seed < 0 {
            put(StepArray::Action, action);
        }
    }

    /// The game that a row reports. Fails with [`Error::State`] for an unknown end or player, since other processes can write
    /// here.
    pub(super) fn report(&self, row: usize) -> Result<Box<dyn Game>> {
        let reward = f64::from_ne_bytes(self.read(StepArray::Reward, row)) as f32;
        let [reported] = self.read(StepArray::End, row);
        let goes_on = self.agents > 0 && reported & GOES_ON != 0;
        let end = if goes_on { reported - GOES_ON } else { reported };
        if end > 2 {
            let text = format!("its env worker reported end {reported}, expected 0, 1 or 2");
            return Err(Error::State(text));
        }
        let outcome = Outcome { reward, terminated: end == 1, truncated: end == 2 };
        let turn = self.turn(row, end > 0 && !goes_on)?;
        Ok(Box::new(Reported { memory: Arc::clone(&self.memory), row, outcome, turn }))
    }

    fn turn(&self, row: usize, over: bool) -> Result<Turn> {
        if self.agents == 0 {
            return Ok(Turn { over, ..Turn::default() });
        }
        let reported = i32::from_ne_bytes(self.read(StepArray::Player, row));
        let player = usize::try_from(reported).ok().filter(|&player| player < self.agents);
        let player = player.ok_or_else(|| {
            let expected = format!("0 to {}", self.agents - 1);
            Error::State(format!("its env worker reported player {reported}, expected {expected}"))
        })?;
        Ok(Turn { player, seq: i32::from_ne_bytes(self.read(StepArray::Seq, row)), over })
    }

    fn read<const N: usize>(&self, part: StepArray, row: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read(part as usize, row, &mut bytes);
        bytes
    }

    /// Returns a function that makes games that have not moved yet.
    pub(super) fn blank(&self) -> impl Fn() -> Box<dyn Game> + use<> {
        let memory = Arc::clone(&self.memory);
        let (outcome, turn) = (Outcome::default(), Turn::default());
        move || Box::new(Reported { memory: Arc::clone(&memory), row: 0, outcome, turn })
    }
}

/// A game as its env worker reported it.
struct Reported {
    memory: Arc<Batch>,
    row: usize,
    outcome: Outcome,
    turn: Turn,
}

impl Game for Reported {
    fn reset(&mut self, _seed: u64) {}

    fn step(&mut self, _action: Action<'_>) -> Result<Outcome> {
        Ok(self.outcome)
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        self.memory.read(STEP_ARRAYS + key, self.row, out);
    }

    fn player(&self) -> usize {
        self.turn.player
    }

    fn turn(&self) -> Turn {
        self.turn
    }
}

/// The outcome of moves.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// How many were begun, from the first row on.
    pub begun: usize,
    /// The last of them was interrupted; its game begins an episode because its state is unknown.
    pub broken_off: bool,
    /// Rows whose games failed, and the error texts.
    pub failed: Vec<(usize, String)>,
}

impl Report {
    /// Fails with [`Error::Value`] for rows that this thread was not given.
    pub(super) fn check(&self, given: usize) -> Result<()> {
        if self.begun > given {
            return Err(Error::value("begun", format!("at most {given} moves"), self.begun));
        }
        match self.failed.iter().find(|(row, _)| *row >= self.begun) {
            Some((row, _)) => {
                Err(Error::value("failed", format!("rows below {}", self.begun), row))
            }
            None => Ok(()),
        }
    }

    /// Tasks that read the outcome of the moves of these games.
    pub(super) fn into_work(self, env_worker: usize, games: &[u32]) -> WorkBatch {
        let task = |(&game, row)| Task::Report { game, row };
        let tasks = games.iter().zip(0..).map(task).collect();
        let mut work = WorkBatch { tasks, env_worker, ..WorkBatch::default() };
        for (row, text) in self.failed {
            if let Some(&game) = games.get(row) {
                work.tasks[row] = Task::Failed(game);
                work.failures.push((game, text));
            }
        }
        let last = games.iter().zip(work.tasks.iter_mut()).next_back();
        if let Some((&game, task)) = last.filter(|_| self.broken_off)
            && matches!(task, Task::Report { .. })
        {
            *task = Task::Failed(game);
            work.broken_off = Some(game);
        }
        work
    }
}
