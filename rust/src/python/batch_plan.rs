//! What a batch is made of, and where its arrays lie in one block of memory.

use std::sync::Arc;

use numpy::{Element, PyArrayDescr, dtype};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::python::args::Normalize;
use crate::python::block::ALIGN;
use crate::python::memory_handle::MemoryHandle;
use crate::replay::column::available_memory;
use crate::replay::settings::Settings;
use crate::replay::transition::DRAW;
use crate::spec::{EntrySpec, FIELDS, Field};

/// From this size on the machine is asked whether it has so much.
const LARGE: usize = 1 << 28;

/// Where the arrays of a block lie.
#[derive(Debug, Default)]
pub struct BatchLayout {
    parts: Vec<BatchPart>,
    size: usize,
}

/// One array.
#[derive(Debug)]
pub struct BatchPart {
    /// Its shape.
    pub shape: SmallVec<[usize; 6]>,
    /// Where it starts in the block.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

impl BatchLayout {
    /// Appends an array of so many rows.
    ///
    /// # Errors
    /// [`Error::Memory`] when the block exceeds the address space.
    pub fn push(&mut self, rows: usize, row: &[usize], itemsize: usize) -> Result<()> {
        let mut shape: SmallVec<[usize; 6]> = SmallVec::new();
        shape.push(rows);
        shape.extend_from_slice(row);
        let size = shape.iter().try_fold(itemsize, |size, &dim| size.checked_mul(dim));
        let end = size.and_then(|size| self.size.checked_add(size));
        let padded = end.and_then(|end| end.checked_next_multiple_of(ALIGN));
        let (Some(size), Some(padded)) = (size, padded) else {
            return Err(Error::Memory("batch_size: the batch exceeds the address space".into()));
        };
        self.parts.push(BatchPart { shape, offset: self.size, size });
        self.size = padded;
        Ok(())
    }

    /// The arrays.
    pub fn parts(&self) -> &[BatchPart] {
        &self.parts
    }

    /// Bytes of the block.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The bytes of each array in a block of so many bytes or more.
    pub fn cut<'a>(&self, block: &'a mut [u8]) -> Vec<&'a mut [u8]> {
        let mut rest = block;
        let mut at = 0;
        let mut parts = Vec::with_capacity(self.parts.len());
        for &BatchPart { offset, size, .. } in &self.parts {
            let (part, after) = rest.split_at_mut(offset - at).1.split_at_mut(size);
            parts.push(part);
            (rest, at) = (after, offset + size);
        }
        parts
    }

    /// The same spans, each for plain bytes.
    #[must_use]
    pub fn flattened(&self) -> Self {
        let flat =
            |part: &BatchPart| BatchPart { shape: SmallVec::from_slice(&[part.size]), ..*part };
        Self { parts: self.parts.iter().map(flat).collect(), size: self.size }
    }
}

/// One of the arrays that follow prev's and next's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchColumn {
    /// Sampling weight of prev.
    Weight,
    /// Id of prev's entry.
    Id,
    /// The same, as batches of servers call it.
    Ids,
    /// The uuid of the client whose entry it is.
    Sender,
    /// Probability of the draw.
    Probability,
    /// Whether next is the final state of a terminated episode.
    NextTerminated,
    /// Discounted rewards from prev to next.
    NStepReturn,
    /// Discount of the value of next.
    NStepDiscount,
    /// What the loss of a row is multiplied by.
    ImportanceWeight,
}

/// Name and dtype of a column.
struct ColumnType {
    name: &'static str,
    itemsize: usize,
    dtype: fn(Python<'_>) -> Bound<'_, PyArrayDescr>,
}

impl ColumnType {
    fn of<T: Element>(name: &'static str) -> Self {
        Self { name, itemsize: size_of::<T>(), dtype: dtype::<T> }
    }
}

impl BatchColumn {
    fn column_type(self) -> ColumnType {
        match self {
            Self::Weight => ColumnType::of::<f32>("weight"),
            Self::Id => ColumnType::of::<u64>("id"),
            Self::Ids => ColumnType::of::<u64>("ids"),
            Self::Sender => ColumnType::of::<u32>("sender"),
            Self::Probability => ColumnType::of::<f64>("probability"),
            Self::NextTerminated => ColumnType::of::<bool>("next_terminated"),
            Self::NStepReturn => ColumnType::of::<f32>("nstep_return"),
            Self::NStepDiscount => ColumnType::of::<f32>("nstep_discount"),
            Self::ImportanceWeight => ColumnType::of::<f32>("importance_weight"),
        }
    }

    /// The name of its array.
    pub fn name(self) -> &'static str {
        self.column_type().name
    }

    /// The shape of a row.
    fn row(self, spec: &EntrySpec) -> &[usize] {
        match self {
            Self::NStepReturn | Self::NStepDiscount => &spec[Field::Reward].shape,
            _ => &[],
        }
    }
}

/// The columns of a kind.
pub type Columns = SmallVec<[BatchColumn; 8]>;

/// What a draw gives: prev, next, and columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchKind {
    /// What `sample` of a memory returns.
    Sample {
        /// With n-step returns.
        nstep: bool,
        /// With importance weights.
        weighted: Option<ImportanceOptions>,
    },
    /// What a cache holds.
    Cache(ExtraColumns),
    /// What `get_batch` returns: with ids, senders too.
    Batch(ExtraColumns),
}

/// Which importance weights a sample has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportanceOptions {
    /// Their exponent.
    pub beta: f64,
    /// What they are divided by.
    pub normalize: Normalize,
}

/// What caches and batches of servers hold beside weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtraColumns {
    /// Ids of prev's entries.
    pub ids: bool,
    /// N-step returns and their discounts.
    pub nstep: bool,
}

impl BatchKind {
    /// The arrays that follow prev's and next's fields, in order.
    pub fn columns(self) -> Columns {
        let mut columns = Columns::new();
        columns.push(BatchColumn::Weight);
        let nstep = match self {
            Self::Sample { nstep, .. } => {
                columns.extend([
                    BatchColumn::Id,
                    BatchColumn::Probability,
                    BatchColumn::NextTerminated,
                ]);
                nstep
            }
            Self::Cache(carried) | Self::Batch(carried) => {
                columns.extend(carried.ids.then_some(BatchColumn::Ids));
                let sender = carried.ids && matches!(self, Self::Batch(_));
                columns.extend(sender.then_some(BatchColumn::Sender));
                carried.nstep
            }
        };
        if nstep {
            columns.extend([BatchColumn::NStepReturn, BatchColumn::NStepDiscount]);
        }
        if matches!(self, Self::Sample { weighted: Some(_), .. }) {
            columns.push(BatchColumn::ImportanceWeight);
        }
        columns
    }

    /// dtypes of all arrays.
    pub fn dtypes<'py>(
        self,
        py: Python<'py>,
        handle: &MemoryHandle,
    ) -> Vec<Bound<'py, PyArrayDescr>> {
        let columns = self.columns();
        let mut dtypes = Vec::with_capacity(2 * FIELDS + columns.len());
        for field in Field::ALL.into_iter().chain(Field::ALL) {
            dtypes.push(handle.template(field).dtype().bind(py).clone());
        }
        dtypes.extend(columns.into_iter().map(|column| (column.column_type().dtype)(py)));
        dtypes
    }
}

/// What is to be drawn, under the settings that were in force when it was asked for.
#[derive(Debug)]
pub struct BatchPlan {
    /// What it gives.
    pub kind: BatchKind,
    /// How many.
    pub rows: usize,
    /// Whose arrays.
    pub layout: BatchLayout,
    /// The settings that decide on the layout.
    pub settings: Arc<Settings>,
}

impl BatchPlan {
    /// Lays out prev's fields, next's, and the columns of the kind.
    ///
    /// # Errors
    /// [`Error::Memory`] when the machine has not so much.
    pub fn new(
        spec: &EntrySpec,
        settings: Arc<Settings>,
        kind: BatchKind,
        rows: usize,
    ) -> Result<Self> {
        let mut layout = BatchLayout::default();
        let columns = kind.columns();
        layout.parts.reserve_exact(2 * FIELDS + columns.len());
        for (flag, field) in settings.cache_flags.iter().zip(Field::ALL.into_iter().cycle()) {
            let rows = if *flag { rows } else { 0 };
            let mut row: SmallVec<[usize; 6]> = SmallVec::new();
            row.extend((field == Field::State).then_some(settings.frame_stack));
            row.extend_from_slice(&spec[field].shape);
            layout.push(rows, &row, spec[field].itemsize)?;
        }
        for column in columns {
            layout.push(rows, column.row(spec), column.column_type().itemsize)?;
        }
        let plan = Self { kind, rows, layout, settings };
        if plan.bytes() > LARGE && plan.bytes() as u64 > available_memory() {
            let (needed, available) = (plan.bytes(), available_memory());
            return Err(Error::Memory(format!(
                "batch_size: {rows} rows take {needed} bytes, of which {available} are available"
            )));
        }
        Ok(plan)
    }

    /// What a draw copies, about.
    pub fn bytes(&self) -> usize {
        self.rows.saturating_mul(DRAW).saturating_add(self.layout.size)
    }

    /// The name of an array, as a caller would reach it.
    pub fn name(&self, part: usize) -> String {
        if let Some(column) = part.checked_sub(2 * FIELDS) {
            return self.kind.columns()[column].name().into();
        }
        let end = if part < FIELDS { "prev" } else { "next" };
        format!("{end}.{}", Field::ALL[part % FIELDS].name())
    }
}
