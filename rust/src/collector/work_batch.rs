//! What a thread does between two looks at the board.

use std::ops::Range;

use crate::collector::batch_queue::Row;
use crate::collector::game_state::RowRequest;
use crate::collector::scheduler::Taken;

/// Rows of a batch, one after the other, that games have been given and are to write.
#[derive(Debug, Clone)]
pub struct RowAssignment {
    /// The collector.
    pub group: usize,
    /// Which of its batches, and the first row.
    pub row: Row,
    /// The games, as positions in [`WorkBatch::granted`].
    pub slots: Range<usize>,
}

impl RowAssignment {
    /// Whether a row comes right after these.
    fn is_before(&self, group: usize, row: Row) -> bool {
        let next = Row { row: self.row.row + self.slots.len(), ..self.row };
        self.group == group && next == row
    }
}

/// Something to be done for a game or a query.
#[derive(Debug, Clone, Copy)]
pub enum Task {
    /// Go on to where collectors are needed next.
    Advance(u32),
    /// Take what a row of the chunk's answered batch was answered, and go on.
    Answer {
        /// The game.
        slot: u32,
        /// The row.
        row: u32,
    },
    /// Write a row that had to be waited for.
    Write {
        /// The game.
        slot: u32,
        /// The collector.
        group: u32,
        /// Which of its batches.
        buffer: u32,
        /// The row.
        row: u32,
    },
    /// Take in what came of a game's move, which lies in a row of its driver's desk.
    Report {
        /// The game.
        slot: u32,
        /// The row.
        row: u32,
    },
    /// Nothing any more: the game failed, and the chunk says why.
    Failed(u32),
    /// Nothing but what the chunk says already: what a query wants.
    Query(u32),
}

impl Task {
    /// That a game writes a row.
    pub fn write(slot: u32, group: usize, row: Row) -> Self {
        let Row { buffer, row } = row;
        Self::Write { slot, group: group as u32, buffer: buffer as u32, row: row as u32 }
    }

    /// Whom it is for.
    #[inline]
    pub fn slot(&self) -> u32 {
        match *self {
            Self::Advance(slot) | Self::Failed(slot) | Self::Query(slot) => slot,
            Self::Answer { slot, .. } | Self::Write { slot, .. } | Self::Report { slot, .. } => {
                slot
            }
        }
    }
}

/// Who takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A thread that does nothing else.
    Worker,
    /// One that waits for a batch, and steps only games that are quick.
    Consumer,
}

/// What one thread does between two looks at the board.
#[derive(Debug, Default)]
pub struct WorkBatch {
    /// What to do.
    pub tasks: Vec<Task>,
    /// What the games that went on want, and who, as positions in `wishing`.
    pub wishes: Vec<(RowRequest, Range<usize>)>,
    /// The games that went on.
    pub wishing: Vec<u32>,
    /// Rows to write.
    pub grants: Vec<RowAssignment>,
    /// Whose they are.
    pub granted: Vec<u32>,
    /// The game being dealt with.
    pub slot: u32,
    /// Games that failed, and what they said.
    pub crashes: Vec<(u32, String)>,
    /// A game whose move was broken off, though nothing is wrong with it.
    pub broken_off: Option<u32>,
    /// Whose desk [`Task::Report`] is about.
    pub env_worker: usize,
    /// The batch that [`Task::Answer`] is about, and whose its rows are. It is free once they are done.
    pub answered: Option<(Taken, Vec<u32>)>,
    /// Whether its games may go on before all of those answers are taken: there are rows for them elsewhere.
    pub in_sections: bool,
}

impl WorkBatch {
    /// Adds what games want.
    pub fn wish(&mut self, wish: RowRequest, slots: impl IntoIterator<Item = u32>) {
        let first = self.wishing.len();
        self.wishing.extend(slots);
        self.wishes.push((wish, first..self.wishing.len()));
    }

    /// Adds a row to write.
    pub fn grant(&mut self, group: usize, row: Row, slot: u32) {
        let at = self.granted.len();
        self.granted.push(slot);
        match self.grants.last_mut() {
            Some(last) if last.is_before(group, row) => last.slots.end += 1,
            _ => self.grants.push(RowAssignment { group, row, slots: at..at + 1 }),
        }
    }
}
