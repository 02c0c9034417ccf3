//! Descriptions of collectors, as callers give them.

use std::time::Duration;

use crate::collector::batch::BatchLayout;
use crate::error::{Error, Result};
use crate::games::GameSpec;
use crate::spec::FieldSpec;

/// One key of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The key in the batch.
    pub key: String,
    /// Its column: the key, or `last_` and the key.
    pub column: String,
    /// Shows the column of the next state, and zero at the newest.
    pub shifted: bool,
    /// Stacks so many of the episode's last states, oldest first; 0 for one without an axis.
    pub stack: usize,
    /// dtype and shape of the column, before any stacking.
    pub field: FieldSpec,
}

/// One key of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The key.
    pub key: String,
    /// dtype and shape of a row.
    pub field: FieldSpec,
}

/// A collector: one kind of batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// Its name.
    pub name: String,
    /// Rows of a full batch.
    pub batch_size: usize,
    /// States per row.
    pub steps: usize,
    /// A batch goes out short when its first row has waited so long.
    pub timeout: Option<Duration>,
    /// Only states in which this player moves.
    pub player: Option<usize>,
    /// Keys of the input.
    pub inputs: Vec<Input>,
    /// Keys of the reply; None for a collector that only listens.
    pub replies: Option<Vec<Reply>>,
    /// Games wait until their batch is returned, even when the collector only listens.
    pub block: bool,
}

impl Collector {
    /// The arrays of a batch: all inputs of the oldest state, then of the next, and then the replies likewise. Fails with
    /// [`Error::Memory`] when they exceed the address space.
    pub fn layout(&self) -> Result<BatchLayout> {
        let steps = 0..self.steps;
        let inputs = steps.clone().flat_map(|_| self.input_sizes());
        BatchLayout::new(self.batch_size, inputs.chain(steps.flat_map(|_| self.reply_sizes())))
    }

    fn input_sizes(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().map(|each| each.field.nbytes().saturating_mul(each.stack.max(1)))
    }

    fn reply_sizes(&self) -> impl Iterator<Item = usize> {
        self.replies.iter().flatten().map(|each| each.field.nbytes())
    }

    fn sizes(&self) -> impl Iterator<Item = u128> {
        self.input_sizes().chain(self.reply_sizes()).map(|size| size as u128)
    }

    /// Arrays of a batch.
    pub fn arrays(&self) -> u128 {
        self.steps as u128 * self.sizes().count() as u128
    }

    /// Bytes of a row in all arrays together; saturates.
    pub fn row_size(&self) -> u128 {
        (self.steps as u128).saturating_mul(self.sizes().sum())
    }

    /// The array of an input at a state, 0 the oldest.
    pub fn input_part(&self, step: usize, input: usize) -> usize {
        step * self.inputs.len() + input
    }

    /// The array of a reply at a state, 0 the oldest.
    pub fn reply_part(&self, step: usize, reply: usize) -> usize {
        let replies = self.replies.as_ref().map_or(0, Vec::len);
        self.steps * self.inputs.len() + step * replies + reply
    }

    /// Whether it replies.
    pub fn replying(&self) -> bool {
        self.replies.is_some()
    }

    /// Whether it sees the states in which this player moves.
    pub fn sees(&self, player: usize) -> bool {
        self.player.is_none_or(|only| only == player)
    }

    /// Whether its games wait until their batch is returned.
    pub fn holding(&self) -> bool {
        self.replying() || self.block
    }

    /// States from one delivery to a listener to the next.
    fn stride(&self) -> u64 {
        self.steps.saturating_sub(1).max(1) as u64
    }

    /// Whether a listener gets a row after so many states.
    pub fn due(&self, states: u64) -> bool {
        states >= self.steps as u64 && (states - self.steps as u64).is_multiple_of(self.stride())
    }

    /// How many of so many states a listener has not got yet.
    pub fn undelivered(&self, states: u64) -> u64 {
        match states.checked_sub(self.steps as u64) {
            Some(more) => more % self.stride(),
            None => states,
        }
    }

    /// Fails with [`Error::Value`] when it does not fit a game.
    pub fn check(&self, game: &GameSpec) -> Result<()> {
        for (key, number) in [("_batchsize", self.batch_size), ("_T", self.steps)] {
            if number == 0 {
                let name = format!("{key} of {:?}", self.name);
                return Err(Error::value(name, "an integer >= 1", number));
            }
        }
        let player = self.player.unwrap_or(0);
        if player >= game.players.len() {
            return Err(Error::value("_name", format!("one of {:?}", game.players), player));
        }
        Ok(())
    }
}
