//! Rings of records: the last states of the games of a shard, under its lock.

use std::ops::Range;

use crate::collector::context_plan::ContextPlan;
use crate::collector::record_columns::BuiltinColumn;
use crate::games::game_batch::GameItem;

/// A ring of records for each of several games, stored by column, so that bytes which are copied together are adjacent. A
/// column is named by its range in a record, and has an item for each ring position and game.
#[derive(Debug)]
pub struct HistoryBuffer {
    bytes: Vec<u8>,
    depth: usize,
    rings: Vec<Ring>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ring {
    /// Records pushed so far, overwritten ones included.
    count: u64,
    newest: usize,
}

impl HistoryBuffer {
    /// Creates rings of `depth` records of `record` bytes, one for each game.
    pub fn new(record: usize, depth: usize, games: usize) -> Self {
        let rings = vec![Ring::default(); games];
        Self { bytes: vec![0; record * depth * games], depth, rings }
    }

    pub fn count(&self, game: usize) -> u64 {
        self.rings[game].count
    }
    pub fn clear(&mut self, game: usize) {
        self.rings[game].count = 0;
    }

    /// Begins a record of a game in place of its oldest, whose bytes stay until they are written, and returns its item.
    #[inline]
    pub fn push(&mut self, game: usize) -> usize {
        let ring = &mut self.rings[game];
        ring.count += 1;
        ring.newest = if ring.newest + 1 == self.depth { 0 } else { ring.newest + 1 };
        ring.newest * self.rings.len() + game
    }

    /// The item of the newest record; there is one.
    pub fn item(&self, game: usize) -> usize {
        self.rings[game].newest * self.rings.len() + game
    }

    pub fn column(&self, column: &Range<usize>) -> &[u8] {
        let items = self.depth * self.rings.len();
        &self.bytes[column.start * items..column.end * items]
    }

    pub fn column_mut(&mut self, column: &Range<usize>) -> &mut [u8] {
        let items = self.depth * self.rings.len();
        &mut self.bytes[column.start * items..column.end * items]
    }

    pub fn fill<const N: usize>(
        &mut self,
        column: BuiltinColumn,
        value: impl Fn(usize) -> [u8; N],
    ) {
        let games = (0..self.rings.len()).cycle();
        let items = self.column_mut(&column.range()).as_chunks_mut().0;
        items.iter_mut().zip(games).for_each(|(item, game)| *item = value(game));
    }

    /// Writes items of a column, the value of each item's game, if a collector reads it.
    #[inline]
    pub fn put<const N: usize>(
        &mut self,
        plan: &ContextPlan,
        column: BuiltinColumn,
        items: &[GameItem],
        value: impl Fn(usize) -> [u8; N],
    ) {
        if !plan.reads(column) {
            return;
        }
        let all = self.column_mut(&column.range()).as_chunks_mut().0;
        for item in items {
            all[item.item] = value(item.at);
        }
    }

    pub fn clear_column(&mut self, column: &Range<usize>, items: &[GameItem]) {
        let size = column.len();
        let all = self.column_mut(column);
        // Adjacent items are zeroed in one go.
        for run in items.chunk_by(|one, other| one.item + 1 == other.item) {
            all[run[0].item * size..][..run.len() * size].fill(0);
        }
    }

    /// A column of the newest record; there is one.
    pub fn newest(&self, column: &Range<usize>, game: usize) -> &[u8] {
        &self.bytes[self.item_range(column, self.rings[game].newest, game)]
    }
    pub fn newest_mut(&mut self, column: &Range<usize>, game: usize) -> &mut [u8] {
        let range = self.item_range(column, self.rings[game].newest, game);
        &mut self.bytes[range]
    }

    /// A column of the record `steps` before the newest, if that is kept.
    pub fn back(&self, column: &Range<usize>, game: usize, steps: usize) -> Option<&[u8]> {
        let kept = steps < self.depth && (steps as u64) < self.rings[game].count;
        kept.then(|| &self.bytes[self.item_range(column, self.position(game, steps), game)])
    }

    /// The least number of records of these adjacent games, if their newest records are adjacent too.
    pub fn in_step(&self, games: Range<usize>) -> Option<usize> {
        let rings = &self.rings[games];
        let newest = rings.first()?.newest;
        let least = rings.iter().map(|ring| ring.count).min()?;
        let beside = rings.iter().all(|ring| ring.newest == newest);
        beside.then(|| usize::try_from(least).map_or(self.depth, |least| least.min(self.depth)))
    }

    /// A column of the records `steps` before the newest, of games that are [`Self::in_step`] and have them.
    pub fn run(&self, column: &Range<usize>, games: Range<usize>, steps: usize) -> &[u8] {
        &self.bytes[self.run_of(column, games, steps)]
    }

    /// A column of the newest records, of games that are [`Self::in_step`].
    pub fn newest_run(&mut self, column: &Range<usize>, games: Range<usize>) -> &mut [u8] {
        let run = self.run_of(column, games, 0);
        &mut self.bytes[run]
    }

    fn run_of(&self, column: &Range<usize>, games: Range<usize>, steps: usize) -> Range<usize> {
        let start = self.item_range(column, self.position(games.start, steps), games.start).start;
        start..start + games.len() * column.len()
    }

    /// The ring position of the record `steps` before the newest, if that is kept.
    fn position(&self, game: usize, steps: usize) -> usize {
        let newest = self.rings[game].newest;
        if steps > newest { newest + self.depth - steps } else { newest - steps }
    }

    #[inline]
    fn item_range(&self, column: &Range<usize>, position: usize, game: usize) -> Range<usize> {
        let games = self.rings.len();
        let start = column.start * self.depth * games + (position * games + game) * column.len();
        start..start + column.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of a record of three bytes.
    const COLUMNS: [Range<usize>; 2] = [0..1, 1..3];

    fn record(records: &mut HistoryBuffer, game: usize, number: u8) {
        let item = records.push(game);
        records.column_mut(&COLUMNS[0])[item] = number;
        records.column_mut(&COLUMNS[1])[2 * item..][..2].fill(number + 100);
    }

    #[test]
    fn each_game_keeps_its_last_records() {
        let mut records = HistoryBuffer::new(3, 3, 2);
        assert!(records.back(&COLUMNS[0], 1, 0).is_none());
        (1..=5).for_each(|number| record(&mut records, 1, number));
        record(&mut records, 0, 9);
        let kept = |column: usize, game: usize| {
            (0..5).map(move |steps| (column, game, steps)).map(|(column, game, steps)| {
                records.back(&COLUMNS[column], game, steps).map(<[u8]>::to_vec)
            })
        };
        let some = |bytes: &[u8]| Some(bytes.to_vec());
        assert!(kept(0, 1).eq([some(&[5]), some(&[4]), some(&[3]), None, None]));
        assert!(kept(1, 1).eq([some(&[105; 2]), some(&[104; 2]), some(&[103; 2]), None, None]));
        assert!(kept(0, 0).eq([some(&[9]), None, None, None, None]));
        assert_eq!(records.newest(&COLUMNS[1], 0), [109; 2]);
        records.clear(1);
        assert!(records.back(&COLUMNS[0], 1, 0).is_none());
    }

    #[test]
    fn games_in_step_have_their_records_side_by_side() {
        let mut records = HistoryBuffer::new(3, 2, 3);
        (0..3).for_each(|game| record(&mut records, game, game as u8));
        assert_eq!(records.in_step(0..3), Some(1));
        assert_eq!(records.run(&COLUMNS[0], 1..3, 0), [1, 2]);
        (1..3).for_each(|game| record(&mut records, game, 10 + game as u8));
        assert_eq!(records.in_step(0..3), None);
        assert_eq!(records.in_step(1..3), Some(2));
        assert_eq!(records.run(&COLUMNS[1], 1..3, 0), [111, 111, 112, 112]);
        assert_eq!(records.run(&COLUMNS[0], 1..3, 1), [1, 2]);
        records.newest_run(&COLUMNS[0], 1..3).fill(9);
        assert_eq!(records.newest(&COLUMNS[0], 1), [9]);
    }
}
