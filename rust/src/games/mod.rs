//! Games that run without Python.

pub mod cartpole;

use crate::error::{Error, Result};
use crate::spec::FieldSpec;

/// What a kind of game looks like from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GameSpec {
    /// What a state shows, by key; the first is `s`.
    pub keys: Vec<(String, FieldSpec)>,
    /// One action: an int64 of shape () for numbered actions, float32 of shape (n,) for continuous ones.
    pub action: FieldSpec,
    /// Numbered actions, or the length of a continuous one.
    pub num_action: usize,
    /// Who plays; [`Game::player`] counts along this list. One name where nobody takes turns.
    pub players: Vec<String>,
    /// A step may take long now and then. Such games are never stepped by who waits for a batch, which would
    /// miss its timeout meanwhile. Games that are always slow are recognised without this.
    pub blocking: bool,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// What the action paid.
    pub reward: f32,
    /// The state entered is a terminal one. A game that does not tell the two ends apart says this.
    pub terminated: bool,
    /// The episode is cut short in the state entered. Never together with `terminated`.
    pub truncated: bool,
}

/// An action as it lies in a reply: bytes of the dtype that [`GameSpec::action`] names.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a>(pub &'a [u8]);

impl Action<'_> {
    /// The number of a numbered action.
    pub fn index(&self) -> i64 {
        self.0.first_chunk().map_or(0, |bytes| i64::from_ne_bytes(*bytes))
    }

    /// The components of a continuous action.
    pub fn values(&self) -> impl Iterator<Item = f32> {
        self.0.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes))
    }
}

/// A game as a state machine: it does nothing of its own accord, and takes no thread.
///
/// The order of calls is `reset`, then any number of `step`s until one says that the episode is over,
/// then `reset` again. Between them the state is looked at any number of times.
pub trait Game: Send {
    /// Begins an episode, which the seed determines.
    fn reset(&mut self, seed: u64);

    /// Takes an action.
    ///
    /// # Errors
    /// When there is no such action, or the game cannot go on.
    fn step(&mut self, action: Action<'_>) -> Result<Outcome>;

    /// Writes what the present state shows under the key of this number in [`GameSpec::keys`].
    ///
    /// `out` has the size of that key and may hold anything.
    fn write(&self, key: usize, out: &mut [u8]);

    /// Whose turn it is, as a position in [`GameSpec::players`].
    fn player(&self) -> usize {
        0
    }
}

/// A kind of game that is built in, with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// A pole on a cart.
    CartPole {
        /// Steps after which an episode is cut short.
        limit: u64,
    },
}

impl Builtin {
    /// The game of this name.
    ///
    /// # Errors
    /// [`Error::Value`] when there is none, or the limit is 0.
    pub fn new(name: &str, limit: u64) -> Result<Self> {
        if limit == 0 {
            return Err(Error::value("max_episode_steps", "an integer >= 1", limit));
        }
        match name {
            "cartpole" => Ok(Self::CartPole { limit }),
            _ => Err(Error::value("game", "'cartpole'", format!("{name:?}"))),
        }
    }

    /// What it looks like.
    pub fn spec(self) -> GameSpec {
        match self {
            Self::CartPole { .. } => cartpole::CartPole::spec(),
        }
    }

    /// A game of this kind.
    pub fn game(self) -> Box<dyn Game> {
        match self {
            Self::CartPole { limit } => Box::new(cartpole::CartPole::new(limit)),
        }
    }
}
