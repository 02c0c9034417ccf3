//! A pendulum to be held upright by a torque too weak to lift it, equal to Gymnasium's `Pendulum-v1`.

use std::f64::consts::PI;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::physics::{Physics, PhysicsStep};
use crate::games::{Action, GameSpec, float32};

const GRAVITY: f64 = 10.0;
/// Seconds of a step.
const TAU: f64 = 0.05;
/// N m at most; more counts as this.
const MOST_TORQUE: f32 = 2.0;
/// Radians per second at most.
const MOST_SPIN: f64 = 8.0;
/// Radians per second of a first state at most.
const START_SPIN: f64 = 1.0;

/// The angle from upright, and its velocity; mass and length are 1.
#[derive(Debug)]
pub struct Pendulum;

impl Physics<2> for Pendulum {
    fn spec() -> GameSpec {
        GameSpec::continuous(float32(&[3]))
    }

    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        [rng.random_range(-PI..PI), rng.random_range(-START_SPIN..START_SPIN)]
    }

    #[inline]
    fn step(state: [f64; 2], action: Action<'_>) -> Result<PhysicsStep<2>> {
        let torque = action.number()?.clamp(-MOST_TORQUE, MOST_TORQUE);
        let [angle, spin] = state;
        let upright = (angle + PI).rem_euclid(2.0 * PI) - PI;
        // Terms of the torque alone are float32 in Gymnasium, as the action is.
        let effort = f64::from(0.001 * (torque * torque));
        let cost = upright * upright + 0.1 * (spin * spin) + effort;
        let turn = 3.0 * GRAVITY / 2.0 * angle.sin() + f64::from(3.0 * torque);
        let spin = (spin + turn * TAU).clamp(-MOST_SPIN, MOST_SPIN);
        Ok(PhysicsStep { state: [angle + spin * TAU, spin], reward: -cost, terminated: false })
    }

    fn observe(state: [f64; 2]) -> impl IntoIterator<Item = f64> {
        let [angle, spin] = state;
        [angle.cos(), angle.sin(), spin]
    }
}
