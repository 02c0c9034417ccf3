//! A cache: samples that a client has drawn and sends to a server.
//!
//! Its columns stay in the frames in which they arrived. Their sizes and weights are checked once, and rows are copied once,
//! when a batch is gathered.

use std::ops::Range;

use crate::error::{Error, Result, short};
use crate::replay::settings::Settings;
use crate::spec::{EntrySpec, FIELDS, Field};

/// The columns of a cache beside weights and fields, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Labels {
    /// The id of prev's entry, 64 bits.
    pub ids: bool,
    /// The 32-bit number of its memory.
    pub senders: bool,
    /// The n-step return and its discount, each with the shape of a reward.
    pub nstep: bool,
}

/// Bytes of a row in each column of a cache: its weight, its labels, then each field in the cache flags, prev's and next's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheShape {
    sizes: Vec<usize>,
}

impl CacheShape {
    /// The shape of caches with these labels under these settings.
    pub fn new(spec: &EntrySpec, settings: &Settings, labels: Labels) -> Self {
        let mut sizes = vec![size_of::<f32>()];
        sizes.extend(labels.ids.then_some(size_of::<u64>()));
        sizes.extend(labels.senders.then_some(size_of::<u32>()));
        if labels.nstep {
            sizes.extend([spec[Field::Reward].nbytes(); 2]);
        }
        for (at, _) in settings.cache_flags.iter().enumerate().filter(|(_, flag)| **flag) {
            let field = Field::ALL[at % FIELDS];
            let stack = if field == Field::State { settings.frame_stack } else { 1 };
            sizes.push(spec[field].nbytes().saturating_mul(stack));
        }
        Self { sizes }
    }

    /// Caches with these bytes of a row in each column, of which the first has weights.
    pub fn of_sizes(sizes: Vec<usize>) -> Self {
        Self { sizes }
    }

    /// Bytes of a row in each column.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Bytes of a row in its largest column.
    pub fn largest(&self) -> usize {
        self.sizes.iter().copied().fold(0, usize::max)
    }
}

/// Samples in the order of drawing, by column.
#[derive(Debug)]
pub struct Cache<B> {
    rows: usize,
    weight_sum: f64,
    frames: Vec<B>,
    columns: Vec<CacheColumn>,
}

#[derive(Debug, Clone, Copy)]
struct CacheColumn {
    frame: usize,
    start: usize,
    row: usize,
}

/// No sum of 2^32 weights is larger.
const LARGEST_SUM: f64 = f32::MAX as f64 * u32::MAX as f64;

impl<B: AsRef<[u8]>> Cache<B> {
    /// A cache of `rows` samples from a memory whose share of batches is `weight_sum`, with one frame per column or one for
    /// all. Fails with [`Error::Value`] when sizes disagree with the shape, or a number cannot come from a memory.
    pub fn new(shape: &CacheShape, rows: usize, weight_sum: f64, frames: Vec<B>) -> Result<Self> {
        if rows == 0 || u32::try_from(rows).is_err() {
            return Err(Error::value("rows", "1 .. 2**32 samples", rows));
        }
        if !(weight_sum > 0.0 && weight_sum <= LARGEST_SUM) {
            return Err(Error::value("weight_sum", "a sum of weights above 0", short(weight_sum)));
        }
        let sizes: Vec<_> = shape.sizes.iter().map(|size| size.checked_mul(rows)).collect();
        let got: Vec<_> = frames.iter().map(|frame| Some(frame.as_ref().len())).collect();
        let packed = frames.len() == 1 && sizes.len() > 1;
        let all = || sizes.iter().try_fold(0, |all: usize, &size| all.checked_add(size?));
        if if packed { got[0] != all() } else { got != sizes } {
            let text = |sizes: &[Option<usize>]| {
                format!("{:?} bytes", sizes.iter().flatten().collect::<Vec<_>>())
            };
            return Err(Error::value("columns", text(&sizes), text(&got)));
        }
        let mut end = 0;
        let column = |(at, &row): (usize, &usize)| {
            let start = end;
            end += row * rows;
            let (frame, start) = if packed { (0, start) } else { (at, 0) };
            CacheColumn { frame, start, row }
        };
        let columns = shape.sizes.iter().enumerate().map(column).collect();
        let cache = Self { rows, weight_sum, frames, columns };
        let mut weights = cache.frames[0].as_ref()[..rows * size_of::<f32>()].chunks_exact(4);
        let valid = weights.all(|bytes| {
            let weight: f32 = bytemuck::pod_read_unaligned(bytes);
            weight.is_finite() && weight >= 0.0
        });
        let expected = "finite weights >= 0";
        if valid { Ok(cache) } else { Err(Error::value("weight", expected, "others")) }
    }

    /// Samples.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The share of its memory when it was drawn: the sum of all weights, unless its sampler does not look at them.
    pub fn weight_sum(&self) -> f64 {
        self.weight_sum
    }

    /// Bytes of all columns.
    pub fn nbytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.as_ref().len()).sum()
    }

    /// The frames of the columns.
    pub fn frames(&self) -> &[B] {
        &self.frames
    }

    /// The frames, to be replaced by others of the same bytes.
    pub fn frames_mut(&mut self) -> &mut [B] {
        &mut self.frames
    }

    /// Where the bytes of some rows lie: the frame of each column, and which of its bytes.
    pub fn places(&self, rows: Range<usize>) -> impl Iterator<Item = (&B, Range<usize>)> {
        self.columns.iter().map(move |column| {
            let place = |row: usize| column.start + row * column.row;
            (&self.frames[column.frame], place(rows.start)..place(rows.end))
        })
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        self.columns.iter().map(move |column| {
            let rows = &self.frames[column.frame].as_ref()[column.start..];
            &rows[row * column.row..][..column.row]
        })
    }
}
