//! Rows of batches, filled from the histories of games.

use crate::collector::batch::{Batch, Rows};
use crate::collector::column::Fixed;
use crate::collector::history::History;
use crate::collector::route::{Route, Show};

/// A game's row.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The row.
    pub row: usize,
    /// The states that it shows.
    pub history: &'a History,
}

/// Writes rows of one batch, input by input.
pub fn fill(route: &Route, batch: &Batch, places: &[Place<'_>]) {
    let collector = &route.collector;
    for step in 0..collector.steps {
        let back = collector.steps - 1 - step;
        for (input, show) in route.shows.iter().enumerate() {
            let rows = batch.rows_of(collector.input_part(step, input));
            let source = show.source(back);
            for place in places {
                match source {
                    _ if show.frames > 0 => write_frames(show, place, back, rows),
                    Some(from) => write(show, place, from, rows),
                    None => rows.clear(place.row, 0, show.range.len()),
                }
            }
        }
    }
}

#[inline]
fn write(show: &Show, place: &Place<'_>, from: usize, rows: Rows<'_>) {
    match place.history.back(from) {
        Some(record) => rows.write(place.row, 0, &record[show.range.clone()]),
        None => match show.blank {
            Some(blank) => rows.write(place.row, 0, blank),
            None => rows.clear(place.row, 0, show.range.len()),
        },
    }
}

/// The last states of the same episode, zeros before its start.
fn write_frames(show: &Show, place: &Place<'_>, back: usize, rows: Rows<'_>) {
    let Place { row, history } = *place;
    let episode = Fixed::Episode.range();
    let newest = history.back(back).map(|record| &record[episode.clone()]);
    for frame in 0..show.frames {
        let record = history.back(back + show.frames - 1 - frame);
        let same = record.filter(|record| Some(&record[episode.clone()]) == newest);
        let skip = frame * show.range.len();
        match same {
            Some(record) => rows.write(row, skip, &record[show.range.clone()]),
            None => rows.clear(row, skip, show.range.len()),
        }
    }
}
