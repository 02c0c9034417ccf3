//! A cue, a corridor and a junction where the cue has to be remembered: the T-maze of Bakker (2002), "Reinforcement Learning
//! with Long Short-Term Memory", with its observations, and without the way back and the penalties.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result, short};
use crate::games::{
    Action, BuiltinGame, Game, GameSpec, Outcome, float32, integer_option, unknown_option,
};

/// Up, to the right, down.
const ACTIONS: usize = 3;
const RIGHT: usize = 1;

/// Where the agent is, and what it sees there.
#[derive(Debug, Clone)]
pub struct TMaze {
    /// Moves from the start to the junction.
    length: u32,
    /// By how much, at most, an observation in the corridor is too small.
    noise: f32,
    rng: Xoshiro256PlusPlus,
    /// The action that pays 1 at the junction.
    goal: usize,
    cell: u32,
    seen: [f32; 3],
}

impl Default for TMaze {
    fn default() -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(0);
        Self { length: 10, noise: 0.0, rng, goal: 0, cell: 0, seen: [0.0; 3] }
    }
}

impl TMaze {
    fn look_around(&mut self) {
        self.seen = if self.cell == self.length {
            [0.0, 1.0, 0.0]
        } else if self.noise == 0.0 {
            [1.0, 0.0, 1.0]
        } else {
            let mut draw = || 1.0 - self.noise * self.rng.random_range(0.0..=1.0_f32);
            [draw(), 0.0, draw()]
        };
    }
}

impl BuiltinGame for TMaze {
    fn spec() -> GameSpec {
        GameSpec::numbered(float32(&[3]), ACTIONS)
    }

    fn configure(&mut self, options: &[(String, f64)]) -> Result<()> {
        for (name, value) in options {
            match name.as_str() {
                "length" => self.length = integer_option(name, *value, 1..=u32::MAX)?,
                "noise" if (0.0..=1.0).contains(value) => self.noise = *value as f32,
                "noise" => {
                    return Err(Error::value(name, "a number from 0 to 1", short(*value)));
                }
                _ => return Err(unknown_option(name)),
            }
        }
        Ok(())
    }
}

impl Game for TMaze {
    fn reset(&mut self, seed: u64) {
        self.rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        self.cell = 0;
        self.goal = if self.rng.random() { 0 } else { 2 };
        self.seen = if self.goal == 0 { [1.0, 1.0, 0.0] } else { [0.0, 1.0, 1.0] };
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let choice = action.choice(ACTIONS, "0 (up), 1 (right) or 2 (down)")?;
        let terminated = self.cell == self.length && choice != RIGHT;
        if terminated {
            let reward = if choice == self.goal { 1.0 } else { -1.0 };
            return Ok(Outcome { reward, terminated, truncated: false });
        }
        // Elsewhere there are walls.
        if choice == RIGHT && self.cell < self.length {
            self.cell += 1;
        }
        self.look_around();
        Ok(Outcome::default())
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        for (out, value) in out.as_chunks_mut().0.iter_mut().zip(self.seen) {
            *out = value.to_ne_bytes();
        }
    }
}
