//! Rows of batches, filled from the records of games.

use std::ops::Range;

use crate::collector::batch::{Batch, Rows};
use crate::collector::column::BuiltinColumn;
use crate::collector::copy_plan::{CopyPlan, Gather};
use crate::collector::history_buffer::HistoryBuffer;

/// A game's row.
#[derive(Debug, Clone, Copy)]
struct RowOf {
    row: usize,
    game: usize,
}

/// Writes rows of one batch, from this one on one for each of these games, input by input. Of neighbours in step with
/// each other all is copied at once; so far as they have it.
pub fn fill(
    route: &CopyPlan,
    records: &HistoryBuffer,
    batch: &Batch,
    first: usize,
    games: impl Iterator<Item = usize> + Clone,
    neighbours: Option<Range<usize>>,
) {
    let collector = &route.collector;
    let places = games.zip(first..).map(|(game, row)| RowOf { row, game });
    let run = neighbours.and_then(|run| Some((records.in_step(run.clone())?, run)));
    for step in 0..collector.steps {
        let back = collector.steps - 1 - step;
        for (input, show) in route.shows.iter().enumerate() {
            let rows = batch.rows_of(collector.input_part(step, input));
            if show.frames > 0 {
                places.clone().for_each(|place| write_frames(show, records, place, back, rows));
                continue;
            }
            match (show.source(back), &run) {
                (None, _) => {
                    places.clone().for_each(|each| rows.clear(each.row, 0, show.range.len()));
                }
                (Some(from), Some((kept, run))) if from < *kept => {
                    rows.write_run(first, records.run(&show.range, run.clone(), from));
                }
                (Some(from), _) => {
                    places.clone().for_each(|place| write(show, records, place, from, rows));
                }
            }
        }
    }
}

#[inline]
fn write(show: &Gather, records: &HistoryBuffer, place: RowOf, from: usize, rows: Rows<'_>) {
    match records.back(&show.range, place.game, from).or(show.blank) {
        Some(bytes) => rows.write(place.row, 0, bytes),
        None => rows.clear(place.row, 0, show.range.len()),
    }
}

/// The last states of the same episode, zeros before its start.
fn write_frames(show: &Gather, records: &HistoryBuffer, place: RowOf, back: usize, rows: Rows<'_>) {
    let RowOf { row, game } = place;
    let episode = |back: usize| records.back(&const { BuiltinColumn::Episode.range() }, game, back);
    let newest = episode(back);
    for frame in 0..show.frames {
        let from = back + show.frames - 1 - frame;
        let shown = records.back(&show.range, game, from).filter(|_| episode(from) == newest);
        let skip = frame * show.range.len();
        match shown {
            Some(bytes) => rows.write(row, skip, bytes),
            None => rows.clear(row, skip, show.range.len()),
        }
    }
}
