//! What a batch is made of, and where its arrays lie in one block of memory.

use std::sync::Arc;

use numpy::{PyArrayDescr, dtype};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::python::block::ALIGN;
use crate::python::shared::Shared;
use crate::replay::column::available_memory;
use crate::replay::settings::Settings;
use crate::replay::transition::DRAW;
use crate::spec::{EntrySpec, FIELDS, Field};

/// From this size on the machine is asked whether it has so much.
const LARGE: usize = 1 << 28;

/// Where the arrays of a block lie.
#[derive(Debug, Default)]
pub struct Layout {
    parts: Vec<Part>,
    size: usize,
}

/// One array.
#[derive(Debug)]
pub struct Part {
    /// Its shape.
    pub shape: SmallVec<[usize; 6]>,
    /// Where it starts in the block.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

impl Layout {
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
        self.parts.push(Part { shape, offset: self.size, size });
        self.size = padded;
        Ok(())
    }

    /// The arrays.
    pub fn parts(&self) -> &[Part] {
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
        for &Part { offset, size, .. } in &self.parts {
            let (part, after) = rest.split_at_mut(offset - at).1.split_at_mut(size);
            parts.push(part);
            (rest, at) = (after, offset + size);
        }
        parts
    }

    /// The same places, each for plain bytes.
    #[must_use]
    pub fn flattened(&self) -> Self {
        let flat = |part: &Part| Part { shape: SmallVec::from_slice(&[part.size]), ..*part };
        Self { parts: self.parts.iter().map(flat).collect(), size: self.size }
    }
}

/// What a draw gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// prev, next, weight.
    Batch,
    /// The same with id, probability and `next_terminated`.
    Sample,
    /// The same with `nstep_return`.
    NStepSample,
    /// prev, next, weight, ids: what a cache with ids holds.
    IdCache,
    /// The same with sender.
    IdBatch,
}

impl Kind {
    /// Names of the arrays that follow prev's and next's fields.
    pub fn columns(self) -> &'static [&'static str] {
        let all = &["weight", "id", "probability", "next_terminated", "nstep_return"];
        match self {
            Self::Batch => &all[..1],
            Self::Sample => &all[..4],
            Self::NStepSample => all,
            Self::IdCache => &["weight", "ids"],
            Self::IdBatch => &["weight", "ids", "sender"],
        }
    }

    /// dtypes of all arrays.
    pub fn dtypes<'py>(self, py: Python<'py>, shared: &Shared) -> Vec<Bound<'py, PyArrayDescr>> {
        let mut dtypes = Vec::with_capacity(2 * FIELDS + self.columns().len());
        for field in Field::ALL.into_iter().chain(Field::ALL) {
            dtypes.push(shared.template(field).dtype().bind(py).clone());
        }
        dtypes.push(dtype::<f32>(py));
        if self != Self::Batch {
            dtypes.push(dtype::<u64>(py));
        }
        match self {
            Self::Batch | Self::IdCache => {}
            Self::IdBatch => dtypes.push(dtype::<u32>(py)),
            Self::Sample | Self::NStepSample => {
                dtypes.extend([dtype::<f64>(py), dtype::<bool>(py)]);
            }
        }
        if self == Self::NStepSample {
            dtypes.push(dtype::<f32>(py));
        }
        dtypes
    }
}

/// What is to be drawn, under the settings that were in force when it was asked for.
#[derive(Debug)]
pub struct Plan {
    /// What it gives.
    pub kind: Kind,
    /// How many.
    pub rows: usize,
    /// Whose arrays.
    pub layout: Layout,
    /// The settings that decide on the layout.
    pub settings: Arc<Settings>,
}

impl Plan {
    /// Lays out prev's fields, next's, and the columns of the kind.
    ///
    /// # Errors
    /// [`Error::Memory`] when the machine has not so much.
    pub fn new(spec: &EntrySpec, settings: Arc<Settings>, kind: Kind, rows: usize) -> Result<Self> {
        let mut layout = Layout::default();
        layout.parts.reserve_exact(2 * FIELDS + kind.columns().len());
        for (flag, field) in settings.cache_flags.iter().zip(Field::ALL.into_iter().cycle()) {
            let rows = if *flag { rows } else { 0 };
            let mut row: SmallVec<[usize; 6]> = SmallVec::new();
            row.extend((field == Field::State).then_some(settings.frame_stack));
            row.extend_from_slice(&spec[field].shape);
            layout.push(rows, &row, spec[field].itemsize)?;
        }
        layout.push(rows, &[], size_of::<f32>())?;
        if kind != Kind::Batch {
            layout.push(rows, &[], size_of::<u64>())?;
        }
        match kind {
            Kind::Batch | Kind::IdCache => {}
            Kind::IdBatch => layout.push(rows, &[], size_of::<u32>())?,
            Kind::Sample | Kind::NStepSample => {
                layout.push(rows, &[], size_of::<f64>())?;
                layout.push(rows, &[], size_of::<bool>())?;
            }
        }
        if kind == Kind::NStepSample {
            layout.push(rows, &spec[Field::Reward].shape, size_of::<f32>())?;
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
            return self.kind.columns()[column].into();
        }
        let end = if part < FIELDS { "prev" } else { "next" };
        format!("{end}.{}", Field::ALL[part % FIELDS].name())
    }
}
