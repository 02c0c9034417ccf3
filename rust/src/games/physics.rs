//! Games whose state is a few numbers that follow equations.

use std::marker::PhantomData;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::lanes::LANES;
use crate::games::{Action, BuiltinGame, Game, GameSpec, Outcome};

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhysicsStep<const N: usize> {
    /// The next state.
    pub state: [f64; N],
    /// The reward of the action.
    pub reward: f64,
    /// The next state is a terminal one.
    pub terminated: bool,
}

/// Equations of motion for `N` numbers, without a state of their own.
pub trait Physics<const N: usize>: Send + Sync + 'static {
    /// Keys, action and players.
    fn spec() -> GameSpec;

    /// A first state.
    fn start(rng: &mut Xoshiro256PlusPlus) -> [f64; N];

    /// Takes a step. Fails for an unknown action.
    fn step(state: [f64; N], action: Action<'_>) -> Result<PhysicsStep<N>>;

    /// Takes steps of several games, with the same results as [`Self::step`]. None where they are to be stepped one by one,
    /// as for an unknown action, or where nothing is gained.
    #[inline]
    fn step_together(
        _states: [[f64; N]; LANES],
        _actions: [Action<'_>; LANES],
    ) -> Option<[PhysicsStep<N>; LANES]> {
        None
    }

    /// The numbers that a state shows as `s`; by default all of it.
    fn observe(state: [f64; N]) -> impl IntoIterator<Item = f64> {
        state
    }
}

/// A game of equations of motion, which calculates in float64 and shows float32.
#[derive(Debug)]
pub struct PhysicsGame<P, const N: usize> {
    state: [f64; N],
    physics: PhantomData<P>,
}

impl<P, const N: usize> Clone for PhysicsGame<P, N> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<P, const N: usize> Default for PhysicsGame<P, N> {
    fn default() -> Self {
        Self { state: [0.0; N], physics: PhantomData }
    }
}

impl<P: Physics<N>, const N: usize> PhysicsGame<P, N> {
    #[inline]
    fn arrive(&mut self, step: PhysicsStep<N>) -> Outcome {
        self.state = step.state;
        Outcome { reward: step.reward as f32, terminated: step.terminated, truncated: false }
    }
}

impl<P: Physics<N>, const N: usize> BuiltinGame for PhysicsGame<P, N> {
    fn spec() -> GameSpec {
        P::spec()
    }
}

impl<P: Physics<N>, const N: usize> Game for PhysicsGame<P, N> {
    fn reset(&mut self, seed: u64) {
        self.state = P::start(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        Ok(self.arrive(P::step(self.state, action)?))
    }

    #[inline]
    fn step_together(
        games: [&mut Self; LANES],
        actions: [Action<'_>; LANES],
    ) -> Option<[Outcome; LANES]> {
        let mut steps =
            P::step_together(games.each_ref().map(|game| game.state), actions)?.into_iter();
        Some(games.map(|game| steps.next().map(|step| game.arrive(step)).unwrap_or_default()))
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        for (out, value) in out.as_chunks_mut().0.iter_mut().zip(P::observe(self.state)) {
            *out = (value as f32).to_ne_bytes();
        }
    }
}
