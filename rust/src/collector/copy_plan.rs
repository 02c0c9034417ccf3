//! How a collector's rows are copied.

use std::ops::Range;

use crate::collector::column::{BuiltinColumn, Columns};
use crate::collector::description::{Collector, Input, Reply};
use crate::error::{Error, Result};
use crate::spec::FieldSpec;

/// One of the histories that a game keeps: of all its states, or of those of one player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySpec {
    /// Whose states; none for all.
    pub player: Option<usize>,
    /// States kept.
    pub depth: usize,
}

/// What a collector copies, resolved to bytes.
#[derive(Debug)]
pub struct CopyPlan {
    /// The description.
    pub collector: Collector,
    /// The history it looks at.
    pub history: usize,
    /// What a row shows, by input.
    pub shows: Vec<Gather>,
    /// What is taken from an answered row.
    pub takes: Vec<Scatter>,
}

/// What a row shows of an input, at each of its states.
#[derive(Debug)]
pub struct Gather {
    /// Where it lies in a record.
    pub range: Range<usize>,
    /// It is taken from the record after that of the state.
    shifted: bool,
    /// The newest record does not have it yet.
    late: bool,
    /// What it is where there was no state yet, if not zeros.
    pub blank: Option<&'static [u8]>,
    /// So many of the last states of the episode are shown, oldest first; 0 is just the one.
    pub frames: usize,
}

impl Gather {
    /// Whose record a state's is taken from, both counted back from the newest; none for what is not there yet.
    #[inline]
    pub fn source(&self, back: usize) -> Option<usize> {
        let from = if self.shifted { back.checked_sub(1) } else { Some(back) };
        from.filter(|&from| from > 0 || !self.late)
    }
}

/// What is taken of a reply.
#[derive(Debug)]
pub struct Scatter {
    /// The array of the batch.
    pub part: usize,
    /// Where it goes in a record.
    pub range: Range<usize>,
    /// The collectors after this one that write it too, as bits.
    pub later: u64,
}

impl CopyPlan {
    /// Resolves a description; `later` are, for each reply, the collectors after this one that write it too.
    ///
    /// # Errors
    /// [`Error::Value`] for a key that is no column, or of another size.
    pub fn new(
        collector: Collector,
        later: &[u64],
        columns: &Columns,
        tracks: &mut Vec<HistorySpec>,
    ) -> Result<Self> {
        let frames = collector.inputs.iter().map(|each| each.stack).max().unwrap_or(0);
        let depth = collector.steps + frames.saturating_sub(1);
        let history = track(tracks, collector.player, depth);
        let shows = shows(&collector, columns)?;
        let takes = takes(&collector, columns, later)?;
        Ok(Self { collector, history, shows, takes })
    }
}

fn column(columns: &Columns, key: &str, field: &FieldSpec) -> Result<usize> {
    let at = columns.find(key).filter(|&at| columns.at(at).field.nbytes() == field.nbytes());
    at.ok_or_else(|| Error::value(key, "the size of its column", field.nbytes()))
}

fn shows(collector: &Collector, columns: &Columns) -> Result<Vec<Gather>> {
    static NO_SEQ: [u8; 4] = (-1_i32).to_ne_bytes();
    let show = |input: &Input| {
        let at = column(columns, &input.column, &input.field)?;
        let known = columns.at(at);
        Ok(Gather {
            range: known.range.clone(),
            shifted: input.shifted,
            // What others are answering just now is not there yet for who is asked the same.
            late: known.reply && collector.replying(),
            blank: (at == BuiltinColumn::Seq as usize).then_some(NO_SEQ.as_slice()),
            frames: input.stack,
        })
    };
    collector.inputs.iter().map(show).collect()
}

fn takes(collector: &Collector, columns: &Columns, later: &[u64]) -> Result<Vec<Scatter>> {
    let replies = collector.replies.iter().flatten().zip(later).enumerate();
    let take = |(at, (reply, &later)): (usize, (&Reply, &u64))| {
        let known = column(columns, &reply.key, &reply.field)?;
        let part = collector.reply_part(collector.steps - 1, at);
        Ok(Scatter { part, range: columns.at(known).range.clone(), later })
    };
    replies.map(take).collect()
}

/// The history of a player's states, made long enough.
fn track(tracks: &mut Vec<HistorySpec>, player: Option<usize>, depth: usize) -> usize {
    let known = tracks.iter().position(|track| track.player == player);
    let at = known.unwrap_or_else(|| {
        tracks.push(HistorySpec { player, depth });
        tracks.len() - 1
    });
    tracks[at].depth = tracks[at].depth.max(depth);
    at
}
