//! What a thread does between two looks at the board.

use crate::collector::board::Taken;
use crate::collector::group::Row;
use crate::collector::slot::Wish;

/// A row that a game has been given and is to write.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// The game.
    pub slot: u32,
    /// The collector.
    pub group: usize,
    /// The row.
    pub row: Row,
}

impl Grant {
    /// Whether two rows are of one batch.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.group == other.group && self.row.buffer == other.row.buffer
    }
}

/// Something to be done for a game.
#[derive(Debug, Clone, Copy)]
pub enum Task {
    /// Go on to where collectors are needed next.
    Advance(u32),
    /// Take what a row of the chunk's answered batch was answered, and go on.
    Answer {
        /// The game.
        slot: u32,
        /// The row.
        row: usize,
    },
    /// Write a row that had to be waited for.
    Write(Grant),
    /// Take in what came of a game's move, which lies in a row of its driver's desk.
    Report {
        /// The game.
        slot: u32,
        /// The row.
        row: usize,
    },
    /// Nothing any more: the game failed, and the chunk says why.
    Failed,
    /// Nothing but what the chunk says already: what a query wants.
    Asked,
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
pub struct Chunk {
    /// What to do.
    pub tasks: Vec<Task>,
    /// What the games that went on want.
    pub wishes: Vec<(u32, Wish)>,
    /// Rows to write.
    pub grants: Vec<Grant>,
    /// The game being dealt with.
    pub slot: u32,
    /// Games that failed, and what they said.
    pub crashes: Vec<(u32, String)>,
    /// A game whose move was broken off, though nothing is wrong with it.
    pub broken_off: Option<u32>,
    /// Whose desk [`Task::Report`] is about.
    pub driver: usize,
    /// The batch that [`Task::Answer`] is about, and whose its rows are. It is free once they are done.
    pub answered: Option<(Taken, Vec<u32>)>,
    /// Whether its games may go on before all of those answers are taken: there are rows for them elsewhere.
    pub in_blocks: bool,
}
