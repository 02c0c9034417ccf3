//! Where the arrays of a batch lie in one block of memory.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::available_memory::available_memory;
use crate::error::{Error, Result};
use crate::python::batch_kind::BatchKind;
use crate::python::block::ALIGN;
use crate::python::memory_handle::MemoryHandle;
use crate::replay::settings::Settings;
use crate::replay::transition::DRAW_BYTES_PER_ROW;
use crate::spec::{EntrySpec, FIELDS, Field};

/// From this size on a batch is compared with the memory that is available.
const LARGE: usize = 1 << 28;

#[derive(Debug, Default)]
pub struct BatchLayout {
    parts: Vec<BatchPart>,
    size: usize,
}

#[derive(Debug)]
pub struct BatchPart {
    pub shape: SmallVec<[usize; 6]>,
    pub offset: usize,
    pub size: usize,
}

impl BatchLayout {
    /// Appends an array of `rows` rows; [`Error::Memory`] when the block exceeds the address space.
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

    pub fn parts(&self) -> &[BatchPart] {
        &self.parts
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// The bytes of each array in a block of at least `size` bytes.
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

    /// The same arrays, each as plain bytes.
    #[must_use]
    pub fn flattened(&self) -> Self {
        let flat =
            |part: &BatchPart| BatchPart { shape: SmallVec::from_slice(&[part.size]), ..*part };
        Self { parts: self.parts.iter().map(flat).collect(), size: self.size }
    }
}

/// A batch to be drawn, under the settings that were in force when the call began.
#[derive(Debug)]
pub struct BatchPlan {
    pub kind: BatchKind,
    pub rows: usize,
    pub layout: BatchLayout,
    pub settings: Arc<Settings>,
}

impl BatchPlan {
    /// Lays out prev's fields, next's, and the columns of the kind; [`Error::Memory`] when they take more memory
    /// than is available.
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
                "batch_size: {rows} rows take {needed} bytes, and {available} are available"
            )));
        }
        Ok(plan)
    }

    pub fn dtypes<'py>(
        &self,
        py: Python<'py>,
        handle: &MemoryHandle,
    ) -> Vec<Bound<'py, PyArrayDescr>> {
        let columns = self.kind.columns();
        let mut dtypes = Vec::with_capacity(2 * FIELDS + columns.len());
        for field in Field::ALL.into_iter().chain(Field::ALL) {
            dtypes.push(handle.template(field).dtype().bind(py).clone());
        }
        dtypes.extend(columns.iter().map(|column| (column.column_type().dtype)(py)));
        dtypes
    }

    /// The bytes that a draw copies, approximately.
    pub fn bytes(&self) -> usize {
        self.rows.saturating_mul(DRAW_BYTES_PER_ROW).saturating_add(self.layout.size)
    }
}
