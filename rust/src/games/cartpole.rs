//! A pole on a cart (Barto, Sutton and Anderson 1983), equal to Gymnasium's `CartPole-v1`.

use std::array::from_fn;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::lanes::{LANES, Lanes, Number};
use crate::games::physics::{Physics, PhysicsStep};
use crate::games::{Action, GameSpec, float32};

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = POLE_MASS + 1.0;
/// Half of the pole, in metres.
const LENGTH: f64 = 0.5;
const POLE_MOMENT: f64 = POLE_MASS * LENGTH;
/// Newtons that the actions push with, to the left and to the right.
const FORCES: [f64; 2] = [-10.0, 10.0];
/// Seconds of a step.
const TAU: f64 = 0.02;
/// Metres from the middle at which the track ends.
const TRACK: f64 = 2.4;
/// Radians from upright at which the pole counts as fallen.
const FALLEN: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// Radians up to which an angle is small: that of a pole which has not fallen is.
const SMALL: f64 = 0.5;
/// Each part of a first state lies this close to 0.
const START: f64 = 0.05;

/// Position, velocity, angle and angular velocity.
#[derive(Debug)]
pub struct CartPole;

impl Physics<4> for CartPole {
    fn spec() -> GameSpec {
        GameSpec::numbered(float32(&[4]), FORCES.len())
    }

    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; 4] {
        std::array::from_fn(|_| rng.random_range(-START..START))
    }

    #[inline]
    fn step(state: [f64; 4], action: Action<'_>) -> Result<PhysicsStep<4>> {
        // Looked up, since a processor cannot predict which way a policy pushes.
        let force = FORCES[action.choice(FORCES.len(), "0 (left) or 1 (right)")?];
        let (sine, cosine) = sin_cos(state[2]);
        Ok(arrive(push(state, force, sine, cosine)))
    }

    #[inline]
    fn step_together(
        states: [[f64; 4]; LANES],
        actions: [Action<'_>; LANES],
    ) -> Option<[PhysicsStep<4>; LANES]> {
        if actions.iter().any(|action| action.index() as u64 >= FORCES.len() as u64)
            || states.iter().any(|state| state[2].abs() > SMALL)
        {
            return None;
        }
        let forces = Lanes(actions.map(|action| FORCES[action.index() as usize]));
        let parts = from_fn(|part| Lanes(states.map(|state| state[part])));
        let (sine, cosine) = series(parts[2]);
        let next = push(parts, forces, sine, cosine);
        let next = next.map(|part| part.0);
        Some(from_fn(|lane| arrive(next.map(|part| part[lane]))))
    }
}

#[inline]
fn push<N: Number>(
    [position, velocity, angle, spin]: [N; 4],
    force: N,
    sine: N,
    cosine: N,
) -> [N; 4] {
    // Divisions by a constant are products here: most of a step is waiting for divisions.
    let push = (force + spin * spin * POLE_MOMENT * sine) * (1.0 / TOTAL_MASS);
    let inertia = cosine * cosine * (-LENGTH * POLE_MASS / TOTAL_MASS) + LENGTH * 4.0 / 3.0;
    let turn = (sine * GRAVITY - cosine * push) / inertia;
    let pull = push - turn * cosine * (POLE_MOMENT / TOTAL_MASS);
    [position + velocity * TAU, velocity + pull * TAU, angle + spin * TAU, spin + turn * TAU]
}

#[inline]
fn arrive(state: [f64; 4]) -> PhysicsStep<4> {
    let terminated = state[0].abs() > TRACK || state[2].abs() > FALLEN;
    PhysicsStep { state, reward: 1.0, terminated }
}

#[inline]
fn sin_cos(angle: f64) -> (f64, f64) {
    if angle.abs() > SMALL { angle.sin_cos() } else { series(angle) }
}

/// Sine and cosine of a small angle, by Taylor series to the 13th and 14th power, exact to the last bit or two.
#[inline]
fn series<N: Number>(angle: N) -> (N, N) {
    let square = angle * angle;
    let fourth = square * square;
    // Coefficients from the lowest power up: (-1)^k / (2k + 1)! and (-1)^k / (2k)!, the first of each apart. They
    // are added in pairs, which do not wait for each other.
    let series = |[a, b, c, d, e, f]: [f64; 6]| {
        (square * b + a) + fourth * ((square * d + c) + fourth * (square * f + e))
    };
    let sine = series([
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5_040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
    ]);
    let cosine = series([
        1.0 / 24.0,
        -1.0 / 720.0,
        1.0 / 40_320.0,
        -1.0 / 3_628_800.0,
        1.0 / 479_001_600.0,
        -1.0 / 87_178_291_200.0,
    ]);
    (angle + angle * square * sine, square * (square * cosine - 0.5) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_equals_sine_and_cosine_for_small_angles() {
        for step in -600..=600 {
            let angle = f64::from(step) / 1_000.0;
            let (sine, cosine) = sin_cos(angle);
            assert!((sine - angle.sin()).abs() <= 1e-16, "{angle}: {sine}");
            assert!((cosine - angle.cos()).abs() <= 3e-16, "{angle}: {cosine}");
        }
    }
}
