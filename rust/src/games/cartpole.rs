//! A pole on a cart (Barto, Sutton and Anderson 1983), equal to Gymnasium's `CartPole-v1`.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::games::{Action, Game, GameSpec, Outcome};
use crate::spec::FieldSpec;

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = POLE_MASS + 1.0;
/// Half of the pole, in metres.
const LENGTH: f64 = 0.5;
const POLE_MOMENT: f64 = POLE_MASS * LENGTH;
/// Newtons that an action pushes with.
const FORCE: f64 = 10.0;
/// Seconds of a step.
const TAU: f64 = 0.02;
/// Metres from the middle at which the track ends.
const TRACK: f64 = 2.4;
/// Radians from upright at which the pole counts as fallen.
const FALLEN: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// Each part of a first state lies this close to 0.
const START: f64 = 0.05;
/// Pushes to the left and to the right.
const ACTIONS: usize = 2;

/// Steps after which an episode is cut short, unless told otherwise.
pub const STEP_LIMIT: u64 = 500;

/// Position, velocity, angle and angular velocity.
pub type State = [f64; 4];

/// The state after a push to the right or to the left, and whether the pole has fallen in it.
pub fn step(state: State, right: bool) -> (State, bool) {
    let [position, velocity, angle, spin] = state;
    let force = if right { FORCE } else { -FORCE };
    let (sine, cosine) = angle.sin_cos();
    let push = (force + POLE_MOMENT * (spin * spin) * sine) / TOTAL_MASS;
    let turn = (GRAVITY * sine - cosine * push)
        / (LENGTH * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / TOTAL_MASS));
    let pull = push - POLE_MOMENT * turn * cosine / TOTAL_MASS;
    let next =
        [position + TAU * velocity, velocity + TAU * pull, angle + TAU * spin, spin + TAU * turn];
    (next, next[0].abs() > TRACK || next[2].abs() > FALLEN)
}

/// The game: float64 inside, float32 in what it shows.
#[derive(Debug, Clone)]
pub struct CartPole {
    state: State,
    steps: u64,
    limit: u64,
}

impl CartPole {
    /// A game whose episodes are cut short after `limit` steps.
    pub fn new(limit: u64) -> Self {
        Self { state: [0.0; 4], steps: 0, limit }
    }

    /// What it looks like.
    pub fn spec() -> GameSpec {
        let state = FieldSpec { dtype: "<f4".into(), itemsize: 4, shape: vec![4] };
        let action = FieldSpec { dtype: "<i8".into(), itemsize: 8, shape: vec![] };
        GameSpec {
            keys: vec![("s".into(), state)],
            action,
            num_action: ACTIONS,
            players: vec!["player".into()],
            blocking: false,
        }
    }
}

impl Game for CartPole {
    fn reset(&mut self, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        self.state = std::array::from_fn(|_| rng.random_range(-START..START));
        self.steps = 0;
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let right = match action.index() {
            0 => false,
            1 => true,
            other => return Err(Error::value("a", "0 (left) or 1 (right)", other)),
        };
        let (state, terminated) = step(self.state, right);
        self.state = state;
        self.steps += 1;
        let truncated = !terminated && self.steps >= self.limit;
        Ok(Outcome { reward: 1.0, terminated, truncated })
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        for (out, value) in out.as_chunks_mut().0.iter_mut().zip(self.state) {
            *out = (value as f32).to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_an_episode() {
        let states = [7, 7, 8].map(|seed| {
            let mut game = CartPole::new(STEP_LIMIT);
            game.reset(seed);
            game.state
        });
        assert_eq!(states[0], states[1]);
        assert_ne!(states[0], states[2]);
        assert!(states[0].iter().all(|part| part.abs() <= START));
    }

    #[test]
    fn the_step_limit_cuts_exactly_there() {
        let mut game = CartPole::new(3);
        game.reset(0);
        let ends = [1_i64, 0, 1].map(|action| {
            let outcome = game.step(Action(&action.to_ne_bytes())).unwrap();
            (outcome.terminated, outcome.truncated)
        });
        assert_eq!(ends, [(false, false), (false, false), (false, true)]);
    }

    #[test]
    fn an_action_that_is_none_is_refused() {
        let mut game = CartPole::new(3);
        let error = game.step(Action(&42_i64.to_ne_bytes())).unwrap_err();
        assert_eq!(error.to_string(), "a: expected 0 (left) or 1 (right), got 42");
    }
}
