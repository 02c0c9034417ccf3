//! A work batch: the tasks of one thread between two looks at the scheduler. It belongs to that thread, without a lock.

use std::ops::Range;

use crate::collector::batch_queue::{Row, TakenBatch};
use crate::collector::game_state::RowRequest;

/// Adjacent rows of a batch that are assigned to games, which are to write them.
#[derive(Debug, Clone)]
pub struct RowAssignment {
    pub collector: usize,
    /// The first row.
    pub row: Row,
    /// The games, as positions in [`WorkBatch::assigned`].
    pub games: Range<usize>,
}

impl RowAssignment {
    fn is_before(&self, collector: usize, row: Row) -> bool {
        let next = Row { row: self.row.row + self.games.len(), ..self.row };
        self.collector == collector && next == row
    }
}
#[derive(Debug, Clone, Copy)]
pub enum Task {
    /// Go on until collectors are needed.
    Advance(u32),
    /// Take the reply in a row of the answered batch, and go on.
    Reply { game: u32, row: u32 },
    /// Write a row that the game had to wait for.
    Write { game: u32, collector: u32, buffer: u32, row: u32 },
    /// Read the outcome of a game's move from a row of its env worker's step buffer.
    Report { game: u32, row: u32 },
    /// Nothing: the game failed, for a reason in the work batch.
    Failed(u32),
    /// Nothing but the request of a query, which is in the work batch already.
    Query(u32),
}

impl Task {
    pub fn write(game: u32, collector: usize, row: Row) -> Self {
        let Row { buffer, row } = row;
        Self::Write { game, collector: collector as u32, buffer: buffer as u32, row: row as u32 }
    }
    #[inline]
    pub fn game(&self) -> u32 {
        let (Self::Advance(game)
        | Self::Failed(game)
        | Self::Query(game)
        | Self::Reply { game, .. }
        | Self::Write { game, .. }
        | Self::Report { game, .. }) = *self;
        game
    }
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Only works.
    Worker,
    /// Waits for a batch, and steps quick games meanwhile.
    Consumer,
}

#[derive(Debug, Default)]
pub struct WorkBatch {
    pub tasks: Vec<Task>,
    /// Requests of the games that went on, as positions in `requesting`.
    pub requests: Vec<(RowRequest, Range<usize>)>,
    /// The games that went on.
    pub requesting: Vec<u32>,
    /// Rows to write.
    pub assignments: Vec<RowAssignment>,
    /// The games that write them.
    pub assigned: Vec<u32>,
    pub game: u32,
    pub failures: Vec<(u32, String)>,
    /// A game whose move was interrupted without a failure.
    pub broken_off: Option<u32>,
    /// The env worker whose step buffer [`Task::Report`] is about.
    pub env_worker: usize,
    /// The batch that [`Task::Reply`] is about, and the games of its rows. It is free once those have been read.
    pub answered: Option<(TakenBatch, Vec<u32>)>,
    /// Whether its games may go on before all replies are read: there are rows for them in other batches.
    pub in_sections: bool,
}

impl WorkBatch {
    pub fn request(&mut self, request: RowRequest, games: impl IntoIterator<Item = u32>) {
        let first = self.requesting.len();
        self.requesting.extend(games);
        self.requests.push((request, first..self.requesting.len()));
    }

    pub fn assign(&mut self, collector: usize, row: Row, game: u32) {
        let at = self.assigned.len();
        self.assigned.push(game);
        match self.assignments.last_mut() {
            Some(last) if last.is_before(collector, row) => last.games.end += 1,
            _ => self.assignments.push(RowAssignment { collector, row, games: at..at + 1 }),
        }
    }
}
