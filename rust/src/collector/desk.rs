//! Games that are moved outside of this crate, by drivers: each has a desk of rows for moves and reports.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::collector::batch::{Batch, Layout};
use crate::collector::board::Board;
use crate::collector::chunk::{Chunk, Role, Task};
use crate::collector::context::Context;
use crate::collector::life::Life;
use crate::collector::plan::Plan;
use crate::collector::shared::lock;
use crate::collector::slot::{Move, Slot};
use crate::error::{Error, Result};
use crate::games::{Action, Game, GameSpec, Outcome};

/// How long a driver moves games before it reports: what others wait for, and what handing over costs, are
/// both small then.
const CHUNK: Duration = Duration::from_millis(1);

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
pub struct Desk {
    memory: Arc<Batch>,
    hand: Mutex<Hand>,
}

/// What a driver is about.
#[derive(Debug)]
struct Hand {
    games: Vec<u32>,
    since: Instant,
    /// Nanoseconds that a move takes, smoothed.
    cost: f64,
    chunk: Chunk,
}

impl Hand {
    fn learn(&mut self) {
        let each = self.since.elapsed().as_nanos() as f64 / self.games.len().max(1) as f64;
        self.cost += if self.cost == 0.0 { each } else { (each - self.cost) / 4.0 };
    }

    fn most(&self, rows: usize, queries: usize) -> usize {
        // A game that asks, and waits for answers, would keep others from their moves.
        if self.cost == 0.0 || queries > 0 {
            return 1;
        }
        let fitting = CHUNK.as_nanos() as f64 / self.cost;
        (fitting as usize).clamp(1, rows)
    }
}

impl Desk {
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
        let hand =
            Hand { games: Vec::new(), since: Instant::now(), cost: 0.0, chunk: Chunk::default() };
        Ok(Self { memory, hand: Mutex::new(hand) })
    }

    /// The arrays: games, seeds, actions, rewards, ends, and one for each of the game's keys.
    pub fn memory(&self) -> &Arc<Batch> {
        &self.memory
    }

    fn write(&self, plan: &Plan, row: usize, game: u32, slot: &mut Slot) {
        let put = |part: Part, bytes: &[u8]| self.memory.write(part as usize, row, 0, bytes);
        put(Part::Game, &i64::from(game).to_ne_bytes());
        // What begins an episode is a number that every generator takes: of 32 bits.
        let seed = match slot.next_move() {
            Move::Reset(seed) => (seed >> 32) as i64,
            Move::Step => -1,
        };
        put(Part::Seed, &seed.to_ne_bytes());
        if seed < 0 {
            put(Part::Action, slot.action(plan));
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
            return Err(Error::State(format!("its driver reports an end {}", end[0])));
        }
        let outcome = Outcome {
            reward: f64::from_ne_bytes(reward) as f32,
            terminated: end[0] == 1,
            truncated: end[0] == 2,
        };
        Ok(Box::new(Report { memory: Arc::clone(&self.memory), row, outcome }))
    }

    /// What makes games that were not moved yet, by their numbers.
    pub fn unmoved(&self) -> impl FnMut(usize) -> Box<dyn Game> + use<> {
        let memory = Arc::clone(&self.memory);
        let outcome = Outcome::default();
        move |_| Box::new(Report { memory: Arc::clone(&memory), row: 0, outcome })
    }
}

/// A game as its driver has reported it.
struct Report {
    memory: Arc<Batch>,
    row: usize,
    outcome: Outcome,
}

impl Game for Report {
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
    pub fn desks(&self) -> &[Desk] {
        &self.shared.desks
    }

    /// Takes a driver's report about the first `done` rows of its desk, and waits for new moves: how many rows
    /// have one. 0 when `until` comes first, none when the run is over. Does what else there is to do meanwhile.
    ///
    /// `failed` says which of the rows report nothing, because their games failed, and why.
    ///
    /// # Errors
    /// [`Error::Value`] when it did not have so many moves, or there is no such driver.
    pub fn play(
        &self,
        driver: usize,
        done: usize,
        failed: Vec<(usize, String)>,
        until: Instant,
    ) -> Result<Option<usize>> {
        let shared = &*self.shared;
        let missing = || Error::value("driver", format!("one of {}", shared.desks.len()), driver);
        let desk = shared.desks.get(driver).ok_or_else(missing)?;
        let mut hand = lock(&desk.hand);
        let hand = &mut *hand;
        if done != hand.games.len() {
            return Err(Error::value("done", format!("all {} moves", hand.games.len()), done));
        }
        hand.chunk.driver = driver;
        let mut board = if done > 0 {
            hand.learn();
            lock(&shared.board).queries.set_hand(driver, &[]);
            report(hand, failed)?;
            shared.run(lock(&shared.board), &mut hand.chunk, Role::Worker)
        } else {
            lock(&shared.board)
        };
        loop {
            if board.life != Life::Running {
                return Ok(None);
            }
            if board.pick(&mut hand.chunk, Role::Worker) {
                board = shared.run(board, &mut hand.chunk, Role::Worker);
                continue;
            }
            board.hand_out(driver, hand.most(desk.memory.rows(), shared.queries), &mut hand.games);
            if !hand.games.is_empty() {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(0));
            }
            board = shared.rest(board, Some(left));
        }
        drop(board);
        for (row, &game) in hand.games.iter().enumerate() {
            desk.write(&shared.plan, row, game, &mut lock(&shared.slots[game as usize]));
        }
        hand.since = Instant::now();
        Ok(Some(hand.games.len()))
    }
}

/// Makes tasks of what a driver has done.
fn report(hand: &mut Hand, failed: Vec<(usize, String)>) -> Result<()> {
    let task = |(row, &slot)| Task::Report { slot, row };
    hand.chunk.tasks.clear();
    hand.chunk.tasks.extend(hand.games.iter().enumerate().map(task));
    for (row, text) in failed {
        let count = hand.games.len();
        let missing = || Error::value("failed", format!("rows below {count}"), row);
        let &slot = hand.games.get(row).ok_or_else(missing)?;
        hand.chunk.tasks[row] = Task::Failed;
        hand.chunk.crashes.push((slot, text));
    }
    hand.games.clear();
    Ok(())
}

impl Board {
    /// Whether drivers move the games.
    pub fn has_drivers(&self) -> bool {
        !self.outside.is_empty()
    }

    /// Whether drivers have games to move, and can.
    pub fn has_moves(&self) -> bool {
        let can = |(driver, games): (usize, &VecDeque<u32>)| {
            !games.is_empty() && !self.queries.holds_up(driver)
        };
        self.outside.iter().enumerate().any(can)
    }

    /// Gives a driver games to move, at most so many.
    pub fn hand_out(&mut self, driver: usize, most: usize, hand: &mut Vec<u32>) {
        let games = &mut self.outside[driver];
        let count = most.min(games.len());
        hand.extend(games.drain(..count));
        self.running += count;
        self.queries.set_hand(driver, hand);
    }

    fn has_work(&self) -> bool {
        self.has_moves() || self.queries.has_answers() || self.helpers(None) > 0
    }

    /// Whether drivers are to be woken.
    pub fn calls_drivers(&self) -> bool {
        self.has_drivers() && self.idle > 0 && self.has_work()
    }
}
