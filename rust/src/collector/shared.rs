//! What the threads of a context share, and what they do with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::collector::batch::Batch;
use crate::collector::board::{Board, Taken};
use crate::collector::chunk::{Chunk, Grant, Role, Task};
use crate::collector::desk::Desk;
use crate::collector::life::Life;
use crate::collector::plan::Plan;
use crate::collector::route::Route;
use crate::collector::rows::{self, Place};
use crate::collector::slot::{Slot, Wish};
use crate::error::{Error, Result};

/// Games that are dealt with together, when a batch is not needed as a whole: what they are made of is still at
/// hand when their rows are written.
const BLOCK: usize = 32;

/// What the threads share. The lock of the board is never held while a game steps or a row is copied, nor
/// while that of a slot is taken.
pub struct Shared {
    pub plan: Plan,
    pub slots: Vec<Mutex<Slot>>,
    pub batches: Vec<Vec<Arc<Batch>>>,
    pub board: Mutex<Board>,
    pub desks: Vec<Desk>,
    /// Queries of each game.
    pub queries: usize,
    pub work: Condvar,
    pub news: Condvar,
}

/// A game that a thread deals with.
struct Kept<'a> {
    slot: u32,
    errand: Errand,
    game: MutexGuard<'a, Slot>,
}

/// Where there is something for a game.
#[derive(Debug, Clone, Copy)]
enum Errand {
    None,
    /// In a row of the answered batch.
    Answered(usize),
    /// In a row of its driver's desk.
    Reported(usize),
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// The guarded value, also after a panic: none happens while one of these locks is held but in a game, and
/// then the context has failed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// What a thread does all its life.
    pub fn serve(&self) {
        let mut chunk = Chunk::default();
        let mut board = lock(&self.board);
        while board.life == Life::Running {
            if board.pick(&mut chunk, Role::Worker) {
                board = self.run(board, &mut chunk, Role::Worker);
                continue;
            }
            board = self.rest(board, None);
        }
    }

    /// Does a chunk of work with the board free meanwhile.
    pub fn run<'a>(
        &'a self,
        board: MutexGuard<'a, Board>,
        chunk: &mut Chunk,
        role: Role,
    ) -> MutexGuard<'a, Board> {
        drop(board);
        let start = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.work(chunk)));
        if let Err(panic) = done {
            let text = panic_text(&*panic);
            self.fail(Error::State(format!("game {}: panicked: {text}", chunk.slot)));
            return lock(&self.board);
        }
        for (slot, text) in chunk.crashes.drain(..) {
            self.crash(slot, text);
        }
        if let Some(slot) = chunk.broken_off.take() {
            self.begin_anew(slot);
        }
        let mut board = lock(&self.board);
        board.finish(chunk, start.elapsed());
        self.call_threads(&board, Some(role));
        self.tell_consumers(&board);
        board
    }

    fn work(&self, chunk: &mut Chunk) {
        let tasks = std::mem::take(&mut chunk.tasks);
        for &task in &tasks {
            if let Task::Write(grant) = task {
                chunk.slot = grant.slot;
                self.write(&lock(&self.slots[grant.slot as usize]), grant);
                chunk.grants.push(grant);
            }
        }
        let mut answered = chunk.answered.take();
        // Rows are free only when all of a batch have been taken from: who has no others waits for that.
        let size = if chunk.in_blocks { BLOCK } else { tasks.len().max(1) };
        let mut blocks = tasks.chunks(size).peekable();
        while let Some(block) = blocks.next() {
            let done = if blocks.peek().is_none() { answered.take() } else { None };
            let taken = answered.as_ref().or(done.as_ref()).map(|(taken, _)| *taken);
            self.work_on(block, chunk, taken, done);
        }
        chunk.tasks = tasks;
    }

    /// Has games go on to their next rows, and writes those that there are.
    fn work_on(
        &self,
        tasks: &[Task],
        chunk: &mut Chunk,
        taken: Option<Taken>,
        done: Option<(Taken, Vec<u32>)>,
    ) {
        // Games are kept until their rows are written. Nobody waits for a game with the board in hand. All are
        // taken before the first goes on: between two locks a processor does one thing at a time.
        let keep = |&task: &Task| {
            let (slot, errand) = match task {
                Task::Write(_) | Task::Failed | Task::Asked => return None,
                Task::Advance(slot) => (slot, Errand::None),
                Task::Report { slot, row } => (slot, Errand::Reported(row)),
                Task::Answer { slot, row } => (slot, Errand::Answered(row)),
            };
            Some(Kept { slot, errand, game: lock(&self.slots[slot as usize]) })
        };
        let mut kept: Vec<_> = tasks.iter().filter_map(keep).collect();
        let mut at = 0;
        while at < kept.len() {
            let go_on = AssertUnwindSafe(|| {
                while let Some(each) = kept.get_mut(at) {
                    match self.go_on(each, chunk.driver, taken) {
                        Ok(wish) => chunk.wishes.push((each.slot, wish)),
                        Err(error) => chunk.crashes.push((each.slot, error.to_string())),
                    }
                    at += 1;
                }
            });
            if let Err(panic) = catch_unwind(go_on) {
                let text = format!("panicked: {}", panic_text(&*panic));
                chunk.crashes.push((kept[at].slot, text));
                at += 1;
            }
        }
        let claimed = chunk.grants.len();
        lock(&self.board).claim(chunk, done);
        self.write_all(&kept, &chunk.grants[claimed..]);
    }

    /// Has a game take what there is for it, and go on.
    fn go_on(&self, kept: &mut Kept<'_>, driver: usize, taken: Option<Taken>) -> Result<Wish> {
        match (kept.errand, taken) {
            (Errand::Reported(row), _) => {
                return kept.game.moved(&self.plan, self.desks[driver].report(row)?);
            }
            (Errand::Answered(row), Some(taken)) => self.apply(&mut kept.game, taken, row),
            _ => {}
        }
        kept.game.advance(&self.plan)
    }

    /// Writes rows that were given to games in this order; what a query wants is not among them.
    fn write_all(&self, kept: &[Kept<'_>], grants: &[Grant]) {
        let mut places = Vec::with_capacity(grants.len());
        let mut next = 0;
        for run in grants.chunk_by(Grant::is_beside) {
            let (group, buffer) = (run[0].group, run[0].row.buffer);
            let route = &self.plan.routes[group];
            for &grant in run {
                match kept[next..].iter().position(|each| each.slot == grant.slot) {
                    Some(skip) => {
                        next += skip;
                        let history = kept[next].game.history(route.history);
                        places.push(Place { row: grant.row.row, history });
                    }
                    None => self.write(&lock(&self.slots[grant.slot as usize]), grant),
                }
            }
            rows::fill(route, &self.batches[group][buffer], &places);
            places.clear();
        }
    }

    /// Has a game take what its row of a batch was answered.
    pub fn apply(&self, game: &mut Slot, taken: Taken, row: usize) {
        let batch = &self.batches[taken.group][taken.buffer];
        game.apply(&self.plan, taken.group, batch, row);
    }

    fn write(&self, game: &Slot, grant: Grant) {
        let route = &self.plan.routes[grant.group];
        let place = Place { row: grant.row.row, history: game.history(route.history) };
        rows::fill(route, &self.batches[grant.group][grant.row.buffer], &[place]);
    }

    /// Has happen to a game that failed what the options say.
    fn crash(&self, slot: u32, text: String) {
        let lost = self.give_up(slot);
        let mut board = lock(&self.board);
        let fails = board.crash(slot, &lost);
        let error = Error::State(format!("game {slot}: {text}"));
        board.crashes.remember(slot, text);
        drop(board);
        if fails {
            self.fail(error);
        }
    }

    /// Has a game begin an episode, since its move was broken off.
    fn begin_anew(&self, slot: u32) {
        let lost = self.give_up(slot);
        let mut board = lock(&self.board);
        board.count_lost(&lost);
        board.push(slot);
    }

    /// Gives up a game's episode: the states that each collector will not get.
    fn give_up(&self, slot: u32) -> Vec<u64> {
        let mut lost = vec![0; self.plan.routes.len()];
        lock(&self.slots[slot as usize]).crash(&self.plan, &mut lost);
        lost
    }

    /// A driver sleeps until there is work, or who has asked until there is an answer.
    pub fn rest<'a>(
        &'a self,
        mut board: MutexGuard<'a, Board>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Board> {
        board.idle += 1;
        let mut board = match left {
            None => self.work.wait(board).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.work.wait_timeout(board, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        board.idle -= 1;
        board
    }

    /// Sleeps until there may be a batch, or work.
    pub fn sleep<'a>(
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
    pub fn call_threads(&self, board: &Board, this: Option<Role>) {
        if board.calls_drivers() {
            self.work.notify_all();
        }
        if board.has_drivers() {
            return;
        }
        for _ in 0..board.helpers(this).min(board.idle) {
            self.work.notify_one();
        }
    }

    /// Wakes those who sleep until there is a batch, when there may be one.
    pub fn tell_consumers(&self, board: &Board) {
        if board.consumers > 0 && (board.calls_consumers() || board.is_news()) {
            self.news.notify_all();
        }
    }

    /// Ends the run with an error.
    pub fn fail(&self, error: Error) {
        let mut board = lock(&self.board);
        if board.life == Life::Running {
            board.life = Life::Failed(error);
        }
        drop(board);
        self.wake_all();
    }

    /// Wakes everybody who sleeps.
    pub fn wake_all(&self) {
        self.work.notify_all();
        self.news.notify_all();
    }

    /// Zeroes the replies of a batch.
    pub fn clear_replies(&self, taken: Taken) {
        let Route { collector, takes, .. } = &self.plan.routes[taken.group];
        let batch = &self.batches[taken.group][taken.buffer];
        for part in (0..collector.steps * takes.len()).map(|at| collector.reply_part(0, 0) + at) {
            batch.zero(part, taken.rows);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("for no reason")
}
