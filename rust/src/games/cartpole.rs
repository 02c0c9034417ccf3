//! A pole on a cart (Barto, Sutton and Anderson 1983), equal to Gymnasium's `CartPole-v1`.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::physics::{Physics, Step};
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
    fn step(state: [f64; 4], action: Action<'_>) -> Result<Step<4>> {
        // Looked up, since a processor cannot guess which way a policy pushes.
        let force = FORCES[action.choice(FORCES.len(), "0 (left) or 1 (right)")?];
        let [position, velocity, angle, spin] = state;
        let (sine, cosine) = sin_cos(angle);
        // Divisions by a constant are products here: what takes longest in a step is to wait for a division.
        let push = (force + POLE_MOMENT * (spin * spin) * sine) * (1.0 / TOTAL_MASS);
        let turn = (GRAVITY * sine - cosine * push)
            / (LENGTH * (4.0 / 3.0 - POLE_MASS / TOTAL_MASS * (cosine * cosine)));
        let pull = push - POLE_MOMENT / TOTAL_MASS * (turn * cosine);
        let state = [
            position + TAU * velocity,
            velocity + TAU * pull,
            angle + TAU * spin,
            spin + TAU * turn,
        ];
        let terminated = state[0].abs() > TRACK || state[2].abs() > FALLEN;
        Ok(Step { state, reward: 1.0, terminated })
    }

    fn observe(state: [f64; 4]) -> impl IntoIterator<Item = f64> {
        state
    }
}

/// Sine and cosine of an angle. Those of a pole that has not fallen are small, and Taylor's series to the 13th and
/// 14th power exact to the last bit or two.
fn sin_cos(angle: f64) -> (f64, f64) {
    if angle.abs() > 0.5 {
        return angle.sin_cos();
    }
    let square = angle * angle;
    let fourth = square * square;
    // Coefficients from the lowest power up: (-1)^k / (2k + 1)! and (-1)^k / (2k)!, the first of each apart. They
    // are added in pairs, which do not wait for each other.
    let series = |[a, b, c, d, e, f]: [f64; 6]| {
        (a + b * square) + fourth * ((c + d * square) + fourth * (e + f * square))
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
    (angle + angle * square * sine, 1.0 + square * (square * cosine - 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_angles_have_the_sine_and_cosine_that_all_have() {
        for step in -600..=600 {
            let angle = f64::from(step) / 1_000.0;
            let (sine, cosine) = sin_cos(angle);
            assert!((sine - angle.sin()).abs() <= 1e-16, "{angle}: {sine}");
            assert!((cosine - angle.cos()).abs() <= 3e-16, "{angle}: {cosine}");
        }
    }
}
