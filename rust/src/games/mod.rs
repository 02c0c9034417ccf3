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
pub mod repeat_previous;
pub mod tmaze;

use std::ops::RangeInclusive;

use crate::error::{Error, Result, short};
use crate::games::game_batch::GameBatch;
use crate::games::lanes::LANES;
use crate::games::physics::PhysicsGame;
use crate::spec::FieldSpec;

/// Keys, action and players of a game.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GameSpec {
    /// The keys of a state; the first is `s`.
    pub keys: Vec<(String, FieldSpec)>,
    /// One action: int64 of shape () for numbered actions; float32 for continuous ones, of shape () for one number and (n,)
    /// for more.
    pub action: FieldSpec,
    /// Numbered actions, or the length of a continuous one.
    pub num_action: usize,
    /// The players; [`Game::player`] is a position in this list. One name for games without turns.
    pub players: Vec<String>,
    /// Steps after which an episode is truncated, unless it terminates in the last of them; never above `u32::MAX`.
    pub max_steps: u64,
    /// A step may take long now and then. Such games are never stepped by a thread that waits for a batch, which would miss
    /// its timeout, and do not wait for each other. Games that are always slow are recognised without this, but those of one
    /// shard step one after the other.
    pub blocking: bool,
    /// Players have episodes of their own, which may end while the game goes on: see [`Game::turn`].
    pub has_agents: bool,
}

impl GameSpec {
    /// A game of one player with so many numbered actions, whose states show `s` alone.
    pub fn numbered(state: FieldSpec, num_action: usize) -> Self {
        Self {
            keys: vec![("s".into(), state)],
            action: int64(&[]),
            num_action,
            players: vec!["player".into()],
            max_steps: u64::MAX,
            blocking: false,
            has_agents: false,
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

/// A key of int8: a mask, as `Space.sample` of Gymnasium takes it.
pub fn int8(shape: &[usize]) -> FieldSpec {
    FieldSpec::new("|i1", 1, shape)
}

/// A key of uint8: an image, a board.
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
    /// The new state is terminal. Games with one kind of end use this.
    pub terminated: bool,
    /// The episode is truncated in the new state; never together with `terminated`.
    pub truncated: bool,
}

/// The place of a state in the episodes of its player and of its game, in a game with [`GameSpec::has_agents`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// The player, as a position in [`GameSpec::players`]. The outcome that leads to the state is that of this player alone:
    /// its reward since its last state, and the end of its episode.
    pub player: usize,
    /// The player's states before this one, since its episode began.
    pub seq: i32,
    /// The game's episode is over, and so are those of all players.
    pub over: bool,
}

/// The bytes of an action, of the dtype in [`GameSpec::action`].
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

    /// The number of one of `count` numbered actions; `meaning` describes them in an error. Fails with [`Error::Value`] for
    /// another number.
    #[inline]
    pub fn choice(&self, count: usize, meaning: &str) -> Result<usize> {
        let index = self.index();
        // A negative one is larger than any count.
        if (index as u64) < count as u64 {
            return Ok(index as usize);
        }
        Err(unknown_action(index, meaning))
    }

    /// A continuous action of one number. Fails with [`Error::Value`] when it is not finite.
    pub fn number(&self) -> Result<f32> {
        let number = self.values().next().unwrap_or(0.0);
        let finite = number.is_finite().then_some(number);
        finite.ok_or_else(|| Error::value("a", "a finite number", number))
    }
}

#[cold]
fn unknown_action(action: i64, expected: &str) -> Error {
    Error::value("a", expected, action)
}

/// A game as a state machine without a thread. The order of calls is `reset`, then `step` until an outcome ends the episode,
/// then `reset` again; the state is written any number of times in between.
pub trait Game: Send {
    /// Begins the episode that the seed determines.
    fn reset(&mut self, seed: u64);

    /// Takes an action. Fails for an unknown action, or when the game cannot continue.
    fn step(&mut self, action: Action<'_>) -> Result<Outcome>;

    /// Steps several games together, with the same results as [`Self::step`]. Does nothing and returns None where they are to
    /// be stepped one by one: because one would fail, or nothing is gained.
    fn step_together(
        _games: [&mut Self; LANES],
        _actions: [Action<'_>; LANES],
    ) -> Option<[Outcome; LANES]>
    where
        Self: Sized,
    {
        None
    }

    /// Writes the state's value of the key at a position in [`GameSpec::keys`] to all of `out`, which has arbitrary contents.
    fn write(&self, key: usize, out: &mut [u8]);

    /// The player to move, as a position in [`GameSpec::players`].
    fn player(&self) -> usize {
        0
    }

    /// The place of the state in the episodes of its player and of the game. Only of use with [`GameSpec::has_agents`].
    fn turn(&self) -> Turn {
        Turn::default()
    }

    /// The reward of a player for a step with this outcome. [`Outcome::reward`] is that of the player that took the step;
    /// games that reward others differently override this.
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

    fn turn(&self) -> Turn {
        (**self).turn()
    }

    fn reward(&self, outcome: Outcome, player: usize) -> f32 {
        (**self).reward(outcome, player)
    }
}

/// A game that can be built in. One of them is the prototype that has the options; the others are its clones.
pub trait BuiltinGame: Game + Clone + Default + Sync + 'static {
    /// Keys, action and players.
    fn spec() -> GameSpec;

    /// Sets options, by name; those that are not named keep their defaults. Fails with [`Error::Value`] for a value out of
    /// range, and for a name that the game does not have.
    fn configure(&mut self, options: &[(String, f64)]) -> Result<()> {
        options.first().map_or(Ok(()), |(name, _)| Err(unknown_option(name)))
    }
}

/// The value of an option that is an integer. Fails with [`Error::Value`] for another number.
pub fn integer_option(name: &str, value: f64, range: RangeInclusive<u32>) -> Result<u32> {
    let number = value as u32;
    if f64::from(number) == value && range.contains(&number) {
        return Ok(number);
    }
    let expected = format!("an integer from {} to {}", range.start(), range.end());
    Err(Error::value(name, expected, short(value)))
}

/// The error of an option that a game does not have.
pub fn unknown_option(name: &str) -> Error {
    Error::value("options", "options that the game has", format!("{name:?}"))
}

/// A game with its options, and what all games of its type have in common.
trait Prototype: Send + Sync {
    fn spec(&self) -> GameSpec;
    fn configure(&mut self, options: &[(String, f64)]) -> Result<()>;
    fn game(&self) -> Box<dyn Game>;
    fn game_batch(&self, count: usize) -> Box<dyn GameBatch>;
}

impl<G: BuiltinGame> Prototype for G {
    fn spec(&self) -> GameSpec {
        G::spec()
    }

    fn configure(&mut self, options: &[(String, f64)]) -> Result<()> {
        BuiltinGame::configure(self, options)
    }

    fn game(&self) -> Box<dyn Game> {
        Box::new(self.clone())
    }

    fn game_batch(&self, count: usize) -> Box<dyn GameBatch> {
        Box::new(vec![self.clone(); count])
    }
}

type NewPrototype = fn() -> Box<dyn Prototype>;

/// All kinds, by the names of their modules here and in Python.
const BUILTIN_GAMES: [(&str, NewPrototype); 9] = [
    ("acrobot", prototype::<PhysicsGame<acrobot::Acrobot, 4>>),
    ("cartpole", prototype::<PhysicsGame<cartpole::CartPole, 4>>),
    ("catch", prototype::<catch::Catch>),
    ("connect_four", prototype::<connect_four::ConnectFour>),
    ("mountain_car", prototype::<PhysicsGame<mountain_car::MountainCar, 2>>),
    (
        "mountain_car_continuous",
        prototype::<PhysicsGame<mountain_car_continuous::MountainCarContinuous, 2>>,
    ),
    ("pendulum", prototype::<PhysicsGame<pendulum::Pendulum, 2>>),
    ("repeat_previous", prototype::<repeat_previous::RepeatPrevious>),
    ("tmaze", prototype::<tmaze::TMaze>),
];

fn prototype<G: BuiltinGame>() -> Box<dyn Prototype> {
    Box::new(G::default())
}

/// Creates games of one kind, with the same options.
pub struct GameFactory {
    max_steps: u64,
    prototype: Box<dyn Prototype>,
}

impl GameFactory {
    /// The factory of games of this name, with [`GameSpec::max_steps`] and options. Fails with [`Error::Value`] for an unknown
    /// game or option, an option out of range, or a limit of 0.
    pub fn new(name: &str, max_steps: u64, options: &[(String, f64)]) -> Result<Self> {
        if max_steps == 0 {
            return Err(Error::value("max_episode_steps", "an integer >= 1", max_steps));
        }
        let known = BUILTIN_GAMES.iter().find(|(known, _)| *known == name);
        let (_, prototype) = known.ok_or_else(|| {
            let names: Vec<_> = Self::names().collect();
            Error::value("game", format!("one of {names:?}"), format!("{name:?}"))
        })?;
        let mut prototype = prototype();
        prototype.configure(options)?;
        Ok(Self { max_steps, prototype })
    }

    /// The names of all games.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN_GAMES.iter().map(|(name, _)| *name)
    }

    /// Keys, action, players and the limit of steps.
    pub fn spec(&self) -> GameSpec {
        GameSpec { max_steps: self.max_steps, ..self.prototype.spec() }
    }

    /// Creates a game.
    pub fn game(&self) -> Box<dyn Game> {
        self.prototype.game()
    }

    /// Creates so many games.
    pub fn game_batch(&self, count: usize) -> Box<dyn GameBatch> {
        self.prototype.game_batch(count)
    }
}
