//! A ball falls and a paddle is to be under it: bsuite's `catch` as published (Osband et al. 2020).

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Result;
use crate::games::{Action, BuiltinGame, Game, GameSpec, Outcome, uint8};

/// Rows of the board; the paddle is in the last.
pub const ROWS: usize = 10;
/// Columns of the board.
pub const COLUMNS: usize = 5;
/// To the left, stay, to the right.
const ACTIONS: usize = 3;

/// Where ball and paddle are.
#[derive(Debug, Clone, Default)]
pub struct Catch {
    ball: [usize; 2],
    paddle: usize,
}

impl BuiltinGame for Catch {
    fn spec() -> GameSpec {
        GameSpec::numbered(uint8(&[ROWS, COLUMNS]), ACTIONS)
    }
}

impl Game for Catch {
    fn reset(&mut self, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        self.ball = [0, rng.random_range(0..COLUMNS)];
        self.paddle = COLUMNS / 2;
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let choice = action.choice(ACTIONS, "0 (left), 1 (stay) or 2 (right)")?;
        self.paddle = (self.paddle + choice).saturating_sub(1).min(COLUMNS - 1);
        self.ball[0] += 1;
        let terminated = self.ball[0] == ROWS - 1;
        let reward = match (terminated, self.ball[1] == self.paddle) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        Ok(Outcome { reward, terminated, truncated: false })
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        out.fill(0);
        let [row, column] = self.ball;
        out[row * COLUMNS + column] = 1;
        out[(ROWS - 1) * COLUMNS + self.paddle] = 1;
    }
}
