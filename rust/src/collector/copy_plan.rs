//! The bytes that a collector copies between records and rows.

use std::ops::Range;

use crate::collector::description::{Collector, Input, Reply};
use crate::collector::record_columns::{BuiltinColumn, RecordColumns};
use crate::error::{Error, Result};
use crate::spec::FieldSpec;

/// One of the histories that a game keeps: of all its states, or of those of one player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySpec {
    /// The player; None for all states.
    pub player: Option<usize>,
    pub depth: usize,
}

/// A description, resolved to bytes.
#[derive(Debug)]
pub struct CopyPlan {
    pub collector: Collector,
    /// The position of the history that it shows.
    pub history: usize,
    pub gathers: Vec<Gather>,
    pub scatters: Vec<Scatter>,
}

/// The copy of an input from records to a row, at each of its states.
#[derive(Debug)]
pub struct Gather {
    /// The column in a record.
    pub range: Range<usize>,
    /// The input comes from the record after that of the state.
    shifted: bool,
    /// The newest record does not have the input yet.
    late: bool,
    /// The input before the first state; None for zeros.
    pub blank: Option<&'static [u8]>,
    /// How many of the episode's last states are stacked, oldest first; 0 for one without an axis.
    pub frames: usize,
}

impl Gather {
    /// The record of the input of a state, both counted back from the newest; None while there is no such record.
    pub fn source(&self, back: usize) -> Option<usize> {
        let from = if self.shifted { back.checked_sub(1) } else { Some(back) };
        from.filter(|&from| from > 0 || !self.late)
    }
}

/// The copy of a reply from a row to a record.
#[derive(Debug)]
pub struct Scatter {
    pub part: usize,
    pub range: Range<usize>,
    /// The later collectors that write the column too, as bits.
    pub later: u64,
}

impl CopyPlan {
    /// Resolves a description. `later` has, by reply, the later collectors that write it too. Adds the history that the
    /// collector needs to `histories`. Fails with [`Error::Value`] for a key without a column, or of another size.
    pub fn new(
        collector: Collector,
        later: &[u64],
        columns: &RecordColumns,
        histories: &mut Vec<HistorySpec>,
    ) -> Result<Self> {
        let frames = collector.inputs.iter().map(|each| each.stack).max().unwrap_or(0);
        let depth = collector.steps + frames.saturating_sub(1);
        let history = history(histories, collector.player, depth);
        let gathers = gathers(&collector, columns)?;
        let scatters = scatters(&collector, columns, later)?;
        Ok(Self { collector, history, gathers, scatters })
    }
}

fn column(columns: &RecordColumns, key: &str, field: &FieldSpec) -> Result<usize> {
    let at = columns.find(key).filter(|&at| columns.at(at).field.nbytes() == field.nbytes());
    at.ok_or_else(|| Error::value(key, "the size of its column", field.nbytes()))
}

fn gathers(collector: &Collector, columns: &RecordColumns) -> Result<Vec<Gather>> {
    static NO_SEQ: [u8; 4] = (-1_i32).to_ne_bytes();
    let gather = |input: &Input| {
        let at = column(columns, &input.column, &input.field)?;
        let known = columns.at(at);
        Ok(Gather {
            range: known.range.clone(),
            shifted: input.shifted,
            // A replying collector does not see the replies of others to the same state.
            late: known.reply && collector.replying(),
            blank: (at == BuiltinColumn::Seq as usize).then_some(NO_SEQ.as_slice()),
            frames: input.stack,
        })
    };
    collector.inputs.iter().map(gather).collect()
}

fn scatters(collector: &Collector, columns: &RecordColumns, later: &[u64]) -> Result<Vec<Scatter>> {
    let replies = collector.replies.iter().flatten().zip(later).enumerate();
    let scatter = |(at, (reply, &later)): (usize, (&Reply, &u64))| {
        let known = column(columns, &reply.key, &reply.field)?;
        let part = collector.reply_part(collector.steps - 1, at);
        Ok(Scatter { part, range: columns.at(known).range.clone(), later })
    };
    replies.map(scatter).collect()
}

/// The position of a player's history, which is made deep enough.
fn history(histories: &mut Vec<HistorySpec>, player: Option<usize>, depth: usize) -> usize {
    let known = histories.iter().position(|spec| spec.player == player);
    let at = known.unwrap_or_else(|| {
        histories.push(HistorySpec { player, depth });
        histories.len() - 1
    });
    histories[at].depth = histories[at].depth.max(depth);
    at
}
