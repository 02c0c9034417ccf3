//! A car too weak for its hill (Moore 1990), equal to Gymnasium's `MountainCar-v0`.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::physics::{Physics, PhysicsStep};
use crate::games::{Action, GameSpec, float32};

const FORCE: f64 = 0.001;
const GRAVITY: f64 = 0.0025;
const LEFT: f64 = -1.2;
const RIGHT: f64 = 0.6;
const GOAL: f64 = 0.5;
const MOST_SPEED: f64 = 0.07;
/// Where a first state may be; the car stands.
pub const START: std::ops::Range<f64> = -0.6..-0.4;
/// Accelerations to the left, none, and to the right.
const ACTIONS: usize = 3;

/// Position and velocity.
#[derive(Debug)]
pub struct MountainCar;

impl Physics<2> for MountainCar {
    fn spec() -> GameSpec {
        GameSpec::numbered(float32(&[2]), ACTIONS)
    }

    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        [rng.random_range(START), 0.0]
    }

    #[inline]
    fn step(state: [f64; 2], action: Action<'_>) -> Result<PhysicsStep<2>> {
        let choice = action.choice(ACTIONS, "0 (left), 1 (neither) or 2 (right)")?;
        let [position, velocity] = state;
        let pull = (choice as f64 - 1.0) * FORCE - (3.0 * position).cos() * GRAVITY;
        let mut velocity = (velocity + pull).clamp(-MOST_SPEED, MOST_SPEED);
        let position = (position + velocity).clamp(LEFT, RIGHT);
        if position == LEFT && velocity < 0.0 {
            velocity = 0.0;
        }
        let terminated = position >= GOAL && velocity >= 0.0;
        Ok(PhysicsStep { state: [position, velocity], reward: -1.0, terminated })
    }
}
