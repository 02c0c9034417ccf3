//! Connect Four as one would explain it: a grid, and a look along every line.

pub const ROWS: usize = 6;
pub const COLUMNS: usize = 7;

/// Cells from the top row down: the player that has a disc there.
#[derive(Debug, Clone, Default)]
pub struct Board {
    cells: [[Option<usize>; COLUMNS]; ROWS],
    pub moves: usize,
}

impl Board {
    pub fn player(&self) -> usize {
        self.moves % 2
    }

    pub fn has_room(&self, column: usize) -> bool {
        self.cells[0][column].is_none()
    }

    pub fn drop_disc(&mut self, column: usize) {
        let row = (0..ROWS).rev().find(|&row| self.cells[row][column].is_none()).unwrap();
        self.cells[row][column] = Some(self.player());
        self.moves += 1;
    }

    fn line(&self, player: usize, row: usize, column: usize, down: isize, right: isize) -> bool {
        (0..4).all(|step| {
            let row = row.checked_add_signed(step * down);
            let column = column.checked_add_signed(step * right);
            let cell = row.zip(column).and_then(|(row, column)| self.cells.get(row)?.get(column));
            cell == Some(&Some(player))
        })
    }

    pub fn wins(&self, player: usize) -> bool {
        let directions = [(0, 1), (1, 0), (1, 1), (1, -1)];
        (0..ROWS).any(|row| {
            (0..COLUMNS).any(|column| {
                directions
                    .into_iter()
                    .any(|(down, right)| self.line(player, row, column, down, right))
            })
        })
    }

    pub fn full(&self) -> bool {
        self.moves == ROWS * COLUMNS
    }

    /// The discs of the player to move, then those of the other.
    pub fn planes(&self) -> Vec<u8> {
        let plane = |player| {
            self.cells.as_flattened().iter().map(move |cell| u8::from(*cell == Some(player)))
        };
        plane(self.player()).chain(plane(1 - self.player())).collect()
    }
}
