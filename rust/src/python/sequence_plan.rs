//! Which arrays a sample of sequences has, and where they lie in one block of memory: the one table of both.

use std::sync::Arc;

use numpy::{Element, PyArrayDescr, dtype};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::available_memory::available_memory;
use crate::error::{Error, Result};
use crate::python::batch_kind::{BatchClass, ImportanceOptions};
use crate::python::batch_plan::BatchLayout;
use crate::python::memory_handle::MemoryHandle;
use crate::python::out_arrays::ArrayPlan;
use crate::replay::sequence_window::SequenceShape;
use crate::replay::sequences::DRAW_BYTES_PER_SEQUENCE;
use crate::replay::settings::Settings;
use crate::spec::Field;

/// From this size on a sample is compared with the memory that is available.
const LARGE: usize = 1 << 28;

/// What sequences are drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceRow {
    /// `sample_sequences` of a memory.
    Sample,
    /// A cache.
    Cache,
    /// `get_batch` out of caches; with ids it has senders too.
    Batch { ids: bool },
}

/// The arrays that a call asks for beside those that every sample of sequences has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SequenceKind {
    pub row: SequenceRow,
    pub nstep: bool,
    pub importance: Option<ImportanceOptions>,
}

/// One of the arrays that follow the fields of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceColumn {
    Valid,
    Learn,
    IsFirst,
    Terminated,
    Truncated,
    Recurrent,
    Id,
    AnchorId,
    Weight,
    /// The uuid of the client whose sequence it is.
    Sender,
    Probability,
    NStepReturn,
    NStepDiscount,
    ImportanceWeight,
}

/// The columns of every sample of sequences.
const COLUMNS: [SequenceColumn; 9] = [
    SequenceColumn::Valid,
    SequenceColumn::Learn,
    SequenceColumn::IsFirst,
    SequenceColumn::Terminated,
    SequenceColumn::Truncated,
    SequenceColumn::Recurrent,
    SequenceColumn::Id,
    SequenceColumn::AnchorId,
    SequenceColumn::Weight,
];

impl SequenceKind {
    /// The columns, in order.
    pub fn columns(self) -> impl Iterator<Item = SequenceColumn> {
        use SequenceColumn::{ImportanceWeight, NStepDiscount, NStepReturn, Probability, Sender};
        let of_row = match self.row {
            SequenceRow::Sample => Some(Probability),
            SequenceRow::Batch { ids: true } => Some(Sender),
            SequenceRow::Batch { ids: false } | SequenceRow::Cache => None,
        };
        let nstep = self.nstep.then_some([NStepReturn, NStepDiscount]);
        let importance = self.importance.map(|_| ImportanceWeight);
        COLUMNS.into_iter().chain(of_row).chain(nstep.into_iter().flatten()).chain(importance)
    }

    pub fn class(self) -> &'static BatchClass {
        macro_rules! class {
            ($name:literal) => {{
                static CLASS: BatchClass =
                    BatchClass::in_module("cogrs.replay.sequence_batch", $name);
                &CLASS
            }};
        }
        match (self.nstep, self.importance) {
            (false, _) if self.row == SequenceRow::Batch { ids: true } => {
                class!("IdSequenceBatch")
            }
            (true, _) if self.row == SequenceRow::Batch { ids: true } => {
                class!("NStepIdSequenceBatch")
            }
            (false, _) if self.row != SequenceRow::Sample => class!("SequenceBatch"),
            (true, _) if self.row != SequenceRow::Sample => class!("NStepSequenceBatch"),
            (false, None) => class!("Sequences"),
            (true, None) => class!("NStepSequences"),
            (false, Some(_)) => class!("WeightedSequences"),
            (true, Some(_)) => class!("NStepWeightedSequences"),
        }
    }
}

/// The dtype of a column, and whether it has one value per step.
struct ColumnType {
    name: &'static str,
    itemsize: usize,
    dtype: fn(Python<'_>) -> Bound<'_, PyArrayDescr>,
    per_step: bool,
}

impl SequenceColumn {
    fn column_type(self) -> ColumnType {
        fn of<T: Element>(name: &'static str, per_step: bool) -> ColumnType {
            ColumnType { name, itemsize: size_of::<T>(), dtype: dtype::<T>, per_step }
        }
        match self {
            Self::Valid => of::<bool>("valid", true),
            Self::Learn => of::<bool>("learn", true),
            Self::IsFirst => of::<bool>("is_first", true),
            Self::Terminated => of::<bool>("terminated", true),
            Self::Truncated => of::<bool>("truncated", true),
            // Where the memory stores none; otherwise of its template's dtype.
            Self::Recurrent => of::<f32>("recurrent", false),
            Self::Id => of::<u64>("id", true),
            Self::AnchorId => of::<u64>("anchor_id", false),
            Self::Weight => of::<f32>("weight", false),
            Self::Sender => of::<u32>("sender", false),
            Self::Probability => of::<f64>("probability", false),
            Self::NStepReturn => of::<f32>("nstep_return", true),
            Self::NStepDiscount => of::<f32>("nstep_discount", true),
            Self::ImportanceWeight => of::<f32>("importance_weight", false),
        }
    }
}

/// A sample of sequences to be drawn, under the settings that were in force when the call began.
#[derive(Debug)]
pub struct SequencePlan {
    pub kind: SequenceKind,
    pub shape: SequenceShape,
    /// Sequences.
    pub count: usize,
    pub layout: BatchLayout,
    pub settings: Arc<Settings>,
}

impl SequencePlan {
    /// Lays out the fields of the steps and the columns; [`Error::Memory`] when they take more memory than is available.
    pub fn new(
        handle: &MemoryHandle,
        settings: Arc<Settings>,
        kind: SequenceKind,
        shape: SequenceShape,
        count: usize,
    ) -> Result<Self> {
        shape.check()?;
        let spec = handle.spec();
        let rows = shape.rows(handle.recurrent_period());
        let mut layout = BatchLayout::default();
        for field in Field::ALL {
            let mut row: SmallVec<[usize; 6]> = SmallVec::from_slice(&[rows]);
            row.extend((field == Field::State).then_some(settings.frame_stack));
            row.extend_from_slice(&spec[field].shape);
            layout.push(count, &row, spec[field].itemsize)?;
        }
        for column in kind.columns() {
            let ColumnType { mut itemsize, per_step, .. } = column.column_type();
            let mut row: SmallVec<[usize; 6]> = SmallVec::new();
            row.extend(per_step.then_some(rows));
            match (column, &handle.recurrent) {
                (SequenceColumn::Recurrent, None) => row.push(0),
                (SequenceColumn::Recurrent, Some(template)) => {
                    itemsize = template.spec().itemsize;
                    row.extend_from_slice(&template.spec().shape);
                }
                (SequenceColumn::NStepReturn | SequenceColumn::NStepDiscount, _) => {
                    row.extend_from_slice(&spec[Field::Reward].shape);
                }
                _ => {}
            }
            layout.push(count, &row, itemsize)?;
        }
        let plan = Self { kind, shape, count, layout, settings };
        if plan.bytes() > LARGE && plan.bytes() as u64 > available_memory() {
            let (needed, available) = (plan.bytes(), available_memory());
            return Err(Error::Memory(format!(
                "n: {count} sequences take {needed} bytes, and {available} are available"
            )));
        }
        Ok(plan)
    }

    pub fn dtypes<'py>(
        &self,
        py: Python<'py>,
        handle: &MemoryHandle,
    ) -> Vec<Bound<'py, PyArrayDescr>> {
        let fields = Field::ALL.map(|field| handle.template(field).dtype().bind(py).clone());
        let columns = self.kind.columns().map(|column| match (column, &handle.recurrent) {
            (SequenceColumn::Recurrent, Some(template)) => template.dtype().bind(py).clone(),
            _ => (column.column_type().dtype)(py),
        });
        fields.into_iter().chain(columns).collect()
    }

    /// The bytes that a draw copies, approximately.
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(DRAW_BYTES_PER_SEQUENCE).saturating_add(self.layout.size())
    }
}

impl ArrayPlan for SequencePlan {
    fn layout(&self) -> &BatchLayout {
        &self.layout
    }
    fn entries(&self) -> &'static [&'static str] {
        &["steps"]
    }
    fn columns(&self) -> Vec<&'static str> {
        self.kind.columns().map(|column| column.column_type().name).collect()
    }
}
