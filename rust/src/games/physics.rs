//! Games whose state is a few numbers that follow equations.

use std::marker::PhantomData;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::lanes::LANES;
use crate::games::{Action, BuiltinGame, Game, GameSpec, Outcome};

/// What a step of such a game leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhysicsStep<const N: usize> {
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

    /// One step. Fails when there is no such action.
    fn step(state: [f64; N], action: Action<'_>) -> Result<PhysicsStep<N>>;

    /// Several steps, which have the same results as [`Self::step`]. None where those are to be taken one by one, as
    /// when there is no such action, or nothing is won.
    #[inline]
    fn step_together(
        _states: [[f64; N]; LANES],
        _actions: [Action<'_>; LANES],
    ) -> Option<[PhysicsStep<N>; LANES]> {
        None
    }

    /// What a state shows as `s`.
    fn observe(state: [f64; N]) -> impl IntoIterator<Item = f64>;
}

/// The game that equations make: float64 inside, float32 in what it shows.
#[derive(Debug)]
pub struct PhysicsGame<P, const N: usize> {
    state: [f64; N],
    physics: PhantomData<P>,
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
