//! Five cells in a row: walk to the right end, which pays 1.

use cogrs::error::Result;
use cogrs::games::{Action, BuiltinGame, Game, GameSpec, Outcome, float32};

const CELLS: usize = 5;

#[derive(Clone, Default)]
pub struct Corridor {
    cell: usize,
}

impl BuiltinGame for Corridor {
    fn spec() -> GameSpec {
        // `s` is float32 (5,), and there are two actions.
        GameSpec::numbered(float32(&[CELLS]), 2)
    }
}

impl Game for Corridor {
    fn reset(&mut self, seed: u64) {
        // The seed alone decides how an episode begins.
        self.cell = (seed % (CELLS as u64 - 1)) as usize;
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        self.cell = match action.choice(2, "0 (left) or 1 (right)")? {
            0 => self.cell.saturating_sub(1),
            _ => self.cell + 1,
        };
        let terminated = self.cell == CELLS - 1;
        Ok(Outcome { reward: f32::from(terminated), terminated, truncated: false })
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        // Every element is written: 1 at the present cell, 0 elsewhere.
        for (cell, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            *out = f32::from(cell == self.cell).to_ne_bytes();
        }
    }
}
