//! Games that run without Python.
//!
//! A new one is a file here that implements [`Game`] and [`BuiltinGame`], and a line in `BUILTIN_GAMES`.

pub mod acrobot;
pub mod cartpole;
pub mod catch;
pub mod connect_four;
pub mod game_batch;
pub mod lanes;
pub mod mountain_car;
pub mod mountain_car_continuous;
pub mod pendulum;
pub mod physics;
pub mod time_limit;

use crate::error::{Error, Result};
use crate::games::game_batch::GameBatch;
use crate::games::lanes::LANES;
use crate::games::physics::PhysicsGame;
use crate::games::time_limit::TimeLimit;
use crate::spec::FieldSpec;

/// Keys, action and players of a kind of game.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GameSpec {
    /// The keys of a state; the first is `s`.
    pub keys: Vec<(String, FieldSpec)>,
    /// One action: an int64 of shape () for numbered actions; float32 for continuous ones, of shape () for a
    /// single number and (n,) for more.
    pub action: FieldSpec,
    /// Numbered actions, or the length of a continuous one.
    pub num_action: usize,
    /// The players; [`Game::player`] is a position in this list. One name for games without turns.
    pub players: Vec<String>,
    /// A step may take long now and then. Such games are never stepped by a thread that waits for a batch, which would
    /// miss its timeout, and none waits for the step of another. Games that are always slow are recognised without
    /// this, but those of one shard take their steps one after the other.
    pub blocking: bool,
}

impl GameSpec {
    /// A game of one player with so many numbered actions, whose states show `s` alone.
    pub fn numbered(state: FieldSpec, num_action: usize) -> Self {
        Self {
            keys: vec![("s".into(), state)],
            action: int64(&[]),
            num_action,
            players: vec!["player".into()],
            blocking: false,
        }
    }

    /// A game of one player whose action is one number, and whose states show `s` alone.
    pub fn continuous(state: FieldSpec) -> Self {
        Self { action: float32(&[]), ..Self::numbered(state, 1) }
    }
}

/// A key or an action of float32.
pub fn float32(shape: &[usize]) -> FieldSpec {
    FieldSpec::new("<f4", 4, shape)
}

/// A key of uint8: an image, a board, a mask.
pub fn uint8(shape: &[usize]) -> FieldSpec {
    FieldSpec::new("|u1", 1, shape)
}

/// A key of int32.
pub fn int32(shape: &[usize]) -> FieldSpec {
    FieldSpec::new("<i4", 4, shape)
}

/// A numbered action.
pub fn int64(shape: &[usize]) -> FieldSpec {
    FieldSpec::new("<i8", 8, shape)
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// The reward of the action.
    pub reward: f32,
    /// The state entered is a terminal one. Games that do not tell the two ends apart use this.
    pub terminated: bool,
    /// The episode is cut short in the state entered; never together with `terminated`.
    pub truncated: bool,
}

/// An action as it lies in a reply: bytes of the dtype that [`GameSpec::action`] names.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a>(pub &'a [u8]);

impl Action<'_> {
    /// The number of a numbered action.
    #[inline]
    pub fn index(&self) -> i64 {
        self.0.first_chunk().map_or(0, |bytes| i64::from_ne_bytes(*bytes))
    }

    /// The components of a continuous action.
    pub fn values(&self) -> impl Iterator<Item = f32> {
        self.0.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes))
    }

    /// The number of a numbered action, of which there are `count`; `meaning` describes them in an error. Fails with
    /// [`Error::Value`] when there is no such action.
    #[inline]
    pub fn choice(&self, count: usize, meaning: &str) -> Result<usize> {
        let index = self.index();
        // A negative one is larger than any count.
        if (index as u64) < count as u64 {
            return Ok(index as usize);
        }
        Err(no_such(index, meaning))
    }

    /// A continuous action of one number. Fails with [`Error::Value`] when it is not finite.
    pub fn number(&self) -> Result<f32> {
        let number = self.values().next().unwrap_or(0.0);
        let finite = number.is_finite().then_some(number);
        finite.ok_or_else(|| Error::value("a", "a finite number", number))
    }
}

#[cold]
fn no_such(action: i64, expected: &str) -> Error {
    Error::value("a", expected, action)
}

/// A game as a state machine: it acts only when called, and has no thread.
///
/// The order of calls is `reset`, then `step` until an outcome ends the episode, then `reset` again. Between them the
/// state is written any number of times.
pub trait Game: Send {
    /// Begins the episode that the seed determines.
    fn reset(&mut self, seed: u64);

    /// Takes an action. Fails when there is no such action, or the game cannot go on.
    fn step(&mut self, action: Action<'_>) -> Result<Outcome>;

    /// Steps several games at once, with the same results as [`Self::step`] of each. None, with nothing done, where they
    /// are to be stepped one by one: because one would fail, or nothing is gained.
    fn step_together(
        _games: [&mut Self; LANES],
        _actions: [Action<'_>; LANES],
    ) -> Option<[Outcome; LANES]>
    where
        Self: Sized,
    {
        None
    }

    /// Writes the present state's value of the key with this position in [`GameSpec::keys`].
    ///
    /// `out` has the size of that key, and any contents.
    fn write(&self, key: usize, out: &mut [u8]);

    /// The player to move, as a position in [`GameSpec::players`].
    fn player(&self) -> usize {
        0
    }

    /// The reward of a player for a step with this outcome. [`Outcome::reward`] is that of the player who took it; games
    /// that reward others differently override this.
    fn reward(&self, outcome: Outcome, _player: usize) -> f32 {
        outcome.reward
    }
}

impl<G: Game + ?Sized> Game for Box<G> {
    fn reset(&mut self, seed: u64) {
        (**self).reset(seed);
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        (**self).step(action)
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        (**self).write(key, out);
    }

    fn player(&self) -> usize {
        (**self).player()
    }

    fn reward(&self, outcome: Outcome, player: usize) -> f32 {
        (**self).reward(outcome, player)
    }
}

/// A kind of game that can be built in.
pub trait BuiltinGame: Game + Default + 'static {
    /// Its keys, action and players.
    fn spec() -> GameSpec;
}

/// A kind of game, by its name.
#[derive(Debug, Clone, Copy)]
struct GameEntry {
    name: &'static str,
    spec: fn() -> GameSpec,
    game: fn(u64) -> Box<dyn Game>,
    game_batch: fn(u64, usize) -> Box<dyn GameBatch>,
}

const fn entry<K: BuiltinGame>(name: &'static str) -> GameEntry {
    GameEntry {
        name,
        spec: K::spec,
        game: |limit| Box::new(limited::<K>(limit)),
        game_batch: |limit, count| {
            Box::new((0..count).map(|_| limited::<K>(limit)).collect::<Vec<_>>())
        },
    }
}

fn limited<K: BuiltinGame>(limit: u64) -> TimeLimit<K> {
    TimeLimit::new(K::default(), limit)
}

/// All kinds, by the names of their modules here and in Python.
const BUILTIN_GAMES: [GameEntry; 7] = [
    entry::<PhysicsGame<acrobot::Acrobot, 4>>("acrobot"),
    entry::<PhysicsGame<cartpole::CartPole, 4>>("cartpole"),
    entry::<catch::Catch>("catch"),
    entry::<connect_four::ConnectFour>("connect_four"),
    entry::<PhysicsGame<mountain_car::MountainCar, 2>>("mountain_car"),
    entry::<PhysicsGame<mountain_car_continuous::MountainCarContinuous, 2>>(
        "mountain_car_continuous",
    ),
    entry::<PhysicsGame<pendulum::Pendulum, 2>>("pendulum"),
];

/// A kind of game that is built in, with its options.
#[derive(Debug, Clone, Copy)]
pub struct GameFactory {
    entry: GameEntry,
    limit: u64,
}

impl GameFactory {
    /// The game of this name, whose episodes are cut short after `limit` steps. Fails with [`Error::Value`] when
    /// there is no such game, or the limit is 0.
    pub fn new(name: &str, limit: u64) -> Result<Self> {
        if limit == 0 {
            return Err(Error::value("max_episode_steps", "an integer >= 1", limit));
        }
        let entry =
            BUILTIN_GAMES.into_iter().find(|entry| entry.name == name).ok_or_else(|| {
                let names: Vec<_> = Self::names().collect();
                Error::value("game", format!("one of {names:?}"), format!("{name:?}"))
            })?;
        Ok(Self { entry, limit })
    }

    /// The names of all games.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN_GAMES.into_iter().map(|entry| entry.name)
    }

    /// Its keys, action and players.
    pub fn spec(self) -> GameSpec {
        (self.entry.spec)()
    }

    /// A game of this kind.
    pub fn game(self) -> Box<dyn Game> {
        (self.entry.game)(self.limit)
    }

    /// Creates so many games of this kind.
    pub fn game_batch(self, count: usize) -> Box<dyn GameBatch> {
        (self.entry.game_batch)(self.limit, count)
    }
}
