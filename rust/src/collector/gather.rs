//! Rows of batches, written from histories under the lock of their shard.

use std::ops::Range;

use crate::collector::batch::{Batch, BatchRows};
use crate::collector::copy_plan::{CopyPlan, Gather};
use crate::collector::history_buffer::HistoryBuffer;
use crate::collector::record_columns::BuiltinColumn;

#[derive(Debug, Clone, Copy)]
struct GameRow {
    row: usize,
    game: usize,
}

/// Writes adjacent rows of a batch, from `first` on, one per game, input by input. `run` are the same games where they are
/// adjacent: their records are copied in one go as far as those are adjacent too.
pub fn gather(
    copy_plan: &CopyPlan,
    records: &HistoryBuffer,
    batch: &Batch,
    first: usize,
    games: impl Iterator<Item = usize> + Clone,
    run: Option<Range<usize>>,
) {
    let collector = &copy_plan.collector;
    let pairs = games.zip(first..).map(|(game, row)| GameRow { row, game });
    let run = run.and_then(|run| Some((records.in_step(run.clone())?, run)));
    for step in 0..collector.steps {
        let back = collector.steps - 1 - step;
        for (input, gather) in copy_plan.gathers.iter().enumerate() {
            let rows = batch.rows_of(collector.input_part(step, input));
            if gather.frames > 0 {
                pairs.clone().for_each(|pair| write_frames(gather, records, pair, back, rows));
                continue;
            }
            match (gather.source(back), &run) {
                (None, _) => {
                    pairs.clone().for_each(|each| rows.clear(each.row, 0, gather.range.len()));
                }
                (Some(from), Some((kept, run))) if from < *kept => {
                    rows.write_run(first, records.run(&gather.range, run.clone(), from));
                }
                (Some(from), _) => {
                    pairs.clone().for_each(|pair| write(gather, records, pair, from, rows));
                }
            }
        }
    }
}

#[inline]
fn write(
    gather: &Gather,
    records: &HistoryBuffer,
    pair: GameRow,
    from: usize,
    rows: BatchRows<'_>,
) {
    match records.back(&gather.range, pair.game, from).or(gather.blank) {
        Some(bytes) => rows.write(pair.row, 0, bytes),
        None => rows.clear(pair.row, 0, gather.range.len()),
    }
}

/// Writes the last states of the same episode, and zeros before its start.
fn write_frames(
    gather: &Gather,
    records: &HistoryBuffer,
    pair: GameRow,
    back: usize,
    rows: BatchRows<'_>,
) {
    let GameRow { row, game } = pair;
    let episode = |back: usize| records.back(&const { BuiltinColumn::Episode.range() }, game, back);
    let newest = episode(back);
    for frame in 0..gather.frames {
        let from = back + gather.frames - 1 - frame;
        let shown = records.back(&gather.range, game, from).filter(|_| episode(from) == newest);
        let skip = frame * gather.range.len();
        match shown {
            Some(bytes) => rows.write(row, skip, bytes),
            None => rows.clear(row, skip, gather.range.len()),
        }
    }
}
