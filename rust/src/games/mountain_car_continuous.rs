//! A car too weak for its hill, with a pedal (Moore 1990), equal to Gymnasium's `MountainCarContinuous-v0`.
//!
//! Gymnasium keeps this state in float32 and reckons with it, so equal steps need the same roundings.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::mountain_car;
use crate::games::physics::{Physics, PhysicsStep};
use crate::games::{Action, GameSpec, float32};

const POWER: f64 = 0.0015;
const GRAVITY: f64 = 0.0025;
const LEFT: f32 = -1.2;
const RIGHT: f32 = 0.6;
const GOAL: f32 = 0.45;
const MOST_SPEED: f32 = 0.07;
/// The strongest force; more counts as this.
const MOST_FORCE: f32 = 1.0;
const GOAL_REWARD: f64 = 100.0;
/// What the square of an action costs, also beyond the strongest force.
const COST: f64 = 0.1;

/// Position and velocity, both of them float32.
#[derive(Debug)]
pub struct MountainCarContinuous;

/// What the force and the hill add to the velocity.
fn pull(action: f32, position: f32) -> f32 {
    let hill = GRAVITY * f64::from(3.0 * position).cos();
    if action.abs() > MOST_FORCE {
        // The bound itself is a float64 there.
        return (f64::from(action.signum()) * POWER - hill) as f32;
    }
    action * POWER as f32 - hill as f32
}

impl Physics<2> for MountainCarContinuous {
    fn spec() -> GameSpec {
        GameSpec::continuous(float32(&[2]))
    }

    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        [f64::from(rng.random_range(mountain_car::START) as f32), 0.0]
    }

    #[inline]
    fn step(state: [f64; 2], action: Action<'_>) -> Result<PhysicsStep<2>> {
        let action = action.number()?;
        let [position, velocity] = state.map(|part| part as f32);
        let mut velocity = (velocity + pull(action, position)).clamp(-MOST_SPEED, MOST_SPEED);
        let position = (position + velocity).clamp(LEFT, RIGHT);
        if position == LEFT && velocity < 0.0 {
            velocity = 0.0;
        }
        let terminated = position >= GOAL && velocity >= 0.0;
        let paid = if terminated { GOAL_REWARD } else { 0.0 };
        let reward = paid - f64::from(action) * f64::from(action) * COST;
        Ok(PhysicsStep { state: [position, velocity].map(f64::from), reward, terminated })
    }
}
