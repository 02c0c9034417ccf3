//! Games whose state is a few numbers that follow equations.

use std::marker::PhantomData;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::{Action, Game, GameSpec, Kind, Outcome};

/// What a step of such a game leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step<const N: usize> {
    /// The next state.
    pub state: [f64; N],
    /// What the action pays.
    pub reward: f64,
    /// The next state is a terminal one.
    pub terminated: bool,
}

/// Equations of motion for `N` numbers, without a state of their own.
pub trait Physics<const N: usize>: Send + 'static {
    /// What the game looks like.
    fn spec() -> GameSpec;

    /// A first state.
    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; N];

    /// One step.
    ///
    /// # Errors
    /// When there is no such action.
    fn step(state: [f64; N], action: Action<'_>) -> Result<Step<N>>;

    /// What a state shows as `s`.
    fn observe(state: [f64; N]) -> impl IntoIterator<Item = f64>;
}

/// The game that equations make: float64 inside, float32 in what it shows.
#[derive(Debug)]
pub struct Body<P, const N: usize> {
    state: [f64; N],
    physics: PhantomData<P>,
}

impl<P, const N: usize> Default for Body<P, N> {
    fn default() -> Self {
        Self { state: [0.0; N], physics: PhantomData }
    }
}

impl<P: Physics<N>, const N: usize> Kind for Body<P, N> {
    fn spec() -> GameSpec {
        P::spec()
    }
}

impl<P: Physics<N>, const N: usize> Game for Body<P, N> {
    fn reset(&mut self, seed: u64) {
        self.state = P::start(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let Step { state, reward, terminated } = P::step(self.state, action)?;
        self.state = state;
        Ok(Outcome { reward: reward as f32, terminated, truncated: false })
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        for (out, value) in out.as_chunks_mut().0.iter_mut().zip(P::observe(self.state)) {
            *out = (value as f32).to_ne_bytes();
        }
    }
}
