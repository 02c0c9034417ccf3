//! Two players drop discs into columns; four in a line win.

use crate::error::{Error, Result};
use crate::games::{Action, BuiltinGame, Game, GameSpec, Outcome, int8, int32, uint8};

/// Rows of the board.
pub const ROWS: usize = 6;
/// Columns of the board.
pub const COLUMNS: usize = 7;
/// The player that begins, and the other.
pub const PLAYERS: [&str; 2] = ["white", "black"];

/// Bits of a column: its cells from below, and one that is never set, so that lines end there.
const STRIDE: usize = ROWS + 1;
/// From a cell to the next: upwards, to the right, and along both diagonals.
const LINES: [usize; 4] = [1, STRIDE, STRIDE + 1, STRIDE - 1];

/// Discs as bits, one number for each player.
#[derive(Debug, Clone, Default)]
pub struct ConnectFour {
    discs: [u64; 2],
    player: usize,
    over: bool,
}

fn cell(column: usize, height: usize) -> u64 {
    1 << (column * STRIDE + height)
}

/// Whether there are four discs in a line.
fn wins(discs: u64) -> bool {
    LINES.into_iter().any(|line| {
        let pairs = discs & (discs >> line);
        pairs & (pairs >> (2 * line)) != 0
    })
}

impl ConnectFour {
    fn taken(&self) -> u64 {
        self.discs[0] | self.discs[1]
    }

    fn has_room(&self, column: usize) -> bool {
        self.taken() & cell(column, ROWS - 1) == 0
    }

    fn legal(&self) -> [bool; COLUMNS] {
        std::array::from_fn(|column| !self.over && self.has_room(column))
    }

    /// Writes the board for the player to move: own discs, then those of the other, each from the top row down.
    fn write_board(&self, out: &mut [u8]) {
        let planes = [self.discs[self.player], self.discs[1 - self.player]];
        for (plane, discs) in out.chunks_exact_mut(ROWS * COLUMNS).zip(planes) {
            for (at, out) in plane.iter_mut().enumerate() {
                let (row, column) = (at / COLUMNS, at % COLUMNS);
                *out = u8::from(discs & cell(column, ROWS - 1 - row) != 0);
            }
        }
    }
}

impl BuiltinGame for ConnectFour {
    fn spec() -> GameSpec {
        let mut spec = GameSpec::numbered(uint8(&[2, ROWS, COLUMNS]), COLUMNS);
        spec.keys.push(("action_mask".into(), int8(&[COLUMNS])));
        spec.keys.push(("player".into(), int32(&[])));
        spec.players = PLAYERS.map(Into::into).into();
        spec
    }
}

impl Game for ConnectFour {
    fn reset(&mut self, _seed: u64) {
        *self = Self::default();
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let column = action.choice(COLUMNS, "a column in [0, 7)")?;
        if !self.has_room(column) {
            return Err(Error::value("a", "a column that is not full", column));
        }
        let lowest = cell(column, 0);
        // Adding the lowest cell carries over the discs that lie on it, into the first free one.
        let disc = (self.taken() + lowest) & !self.taken() & ((lowest << ROWS) - lowest);
        self.discs[self.player] |= disc;
        let won = wins(self.discs[self.player]);
        self.over = won || (0..COLUMNS).all(|column| !self.has_room(column));
        self.player = 1 - self.player;
        Ok(Outcome { reward: f32::from(won), terminated: self.over, truncated: false })
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        match key {
            0 => self.write_board(out),
            1 => out.copy_from_slice(&self.legal().map(u8::from)),
            _ => out.copy_from_slice(&(self.player as i32).to_ne_bytes()),
        }
    }

    fn player(&self) -> usize {
        self.player
    }

    fn reward(&self, outcome: Outcome, player: usize) -> f32 {
        // The turn has passed to the other player already.
        if player == self.player { -outcome.reward } else { outcome.reward }
    }
}
