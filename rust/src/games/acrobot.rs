//! Two links that swing up by a torque between them (Sutton 1996), equal to Gymnasium's `Acrobot-v1`.

use std::f64::consts::{FRAC_PI_2, PI};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::physics::{Physics, PhysicsStep};
use crate::games::{Action, GameSpec, float32};

const GRAVITY: f64 = 9.8;
/// Each link weighs 1 kg, is 1 m long and has its centre of mass here, in metres from its upper end.
const CENTRE: f64 = 0.5;
/// Moment of inertia of a link, in kg m^2.
const MOMENT: f64 = 1.0;
/// Seconds of a step.
const TAU: f64 = 0.2;
/// Radians per second that the links turn at most.
const MOST_SPIN: [f64; 2] = [4.0 * PI, 9.0 * PI];
/// Each part of a first state lies this close to 0.
const START: f64 = 0.1;
/// Torques of -1, 0 and 1 N m.
const ACTIONS: usize = 3;

/// The angle of the first link from hanging, that of the second from the first, and their velocities.
#[derive(Debug)]
pub struct Acrobot;

/// The derivative of a state under a torque (Sutton and Barto 1998, section 11.3).
fn derivative(state: [f64; 4], torque: f64) -> [f64; 4] {
    let [first, second, spin1, spin2] = state;
    let (sine, cosine) = second.sin_cos();
    let centre2 = CENTRE * CENTRE;
    let d1 = centre2 + (1.0 + centre2 + 2.0 * CENTRE * cosine) + MOMENT + MOMENT;
    let d2 = (centre2 + CENTRE * cosine) + MOMENT;
    let phi2 = CENTRE * GRAVITY * (first + second - FRAC_PI_2).cos();
    let phi1 = -CENTRE * (spin2 * spin2) * sine - 2.0 * CENTRE * spin2 * spin1 * sine
        + (CENTRE + 1.0) * GRAVITY * (first - FRAC_PI_2).cos()
        + phi2;
    let turn2 = (torque + d2 / d1 * phi1 - CENTRE * (spin1 * spin1) * sine - phi2)
        / (centre2 + MOMENT - d2 * d2 / d1);
    let turn1 = -(d2 * turn2 + phi1) / d1;
    [spin1, spin2, turn1, turn2]
}

fn moved(state: [f64; 4], slope: [f64; 4], time: f64) -> [f64; 4] {
    std::array::from_fn(|at| state[at] + time * slope[at])
}

/// One step of the classical Runge-Kutta method.
fn integrate(state: [f64; 4], torque: f64) -> [f64; 4] {
    let k1 = derivative(state, torque);
    let k2 = derivative(moved(state, k1, TAU / 2.0), torque);
    let k3 = derivative(moved(state, k2, TAU / 2.0), torque);
    let k4 = derivative(moved(state, k3, TAU), torque);
    let slope = std::array::from_fn(|at| k1[at] + 2.0 * k2[at] + 2.0 * k3[at] + k4[at]);
    moved(state, slope, TAU / 6.0)
}

/// The same angle in [-pi, pi].
fn wrapped(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

impl Physics<4> for Acrobot {
    fn spec() -> GameSpec {
        GameSpec::numbered(float32(&[6]), ACTIONS)
    }

    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; 4] {
        std::array::from_fn(|_| rng.random_range(-START..START))
    }

    #[inline]
    fn step(state: [f64; 4], action: Action<'_>) -> Result<PhysicsStep<4>> {
        let choice = action.choice(ACTIONS, "0, 1 or 2 (a torque of -1, 0 or 1)")?;
        let [first, second, spin1, spin2] = integrate(state, choice as f64 - 1.0);
        let [most1, most2] = MOST_SPIN;
        let state = [
            wrapped(first),
            wrapped(second),
            spin1.clamp(-most1, most1),
            spin2.clamp(-most2, most2),
        ];
        let terminated = -state[0].cos() - (state[1] + state[0]).cos() > 1.0;
        Ok(PhysicsStep { state, reward: if terminated { 0.0 } else { -1.0 }, terminated })
    }

    fn observe(state: [f64; 4]) -> impl IntoIterator<Item = f64> {
        let [first, second, spin1, spin2] = state;
        [first.cos(), first.sin(), second.cos(), second.sin(), spin1, spin2]
    }
}
