//! The arrays of a cache's or a batch's rows, which are transitions, or sequences where the memory says so.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;

use crate::error::Result;
use crate::python::batch::{Outcome, arrays, draw_into, transitions};
use crate::python::batch_kind::{BatchColumn, BatchKind};
use crate::python::batch_plan::{BatchLayout, BatchPlan};
use crate::python::memory_handle::MemoryHandle;
use crate::python::out_arrays::{ArrayPlan, OutArrays};
use crate::python::sequence_plan::{SequenceColumn, SequenceKind, SequencePlan, SequenceRow};
use crate::python::sequences;
use crate::python::template::Template;
use crate::replay::cache::{CacheShape, Labels};
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::spec::FIELDS;

/// Rows of a cache, or of a batch out of caches.
#[derive(Debug)]
pub enum CachePlan {
    Transitions(BatchPlan),
    Sequences(SequencePlan),
}

impl CachePlan {
    /// The plan of rows that the caches of a memory hold.
    pub fn new(
        handle: &MemoryHandle,
        settings: Arc<Settings>,
        kind: BatchKind,
        rows: usize,
    ) -> Result<Self> {
        let Some(&shape) = handle.cache_sequences.get() else {
            return Ok(Self::Transitions(BatchPlan::new(handle.spec(), settings, kind, rows)?));
        };
        let (row, nstep) = match kind {
            BatchKind::Batch { ids, nstep } => (SequenceRow::Batch { ids }, nstep),
            BatchKind::Cache { nstep, .. } | BatchKind::Sample { nstep, .. } => {
                (SequenceRow::Cache, nstep)
            }
        };
        let kind = SequenceKind { row, nstep, importance: None };
        Ok(Self::Sequences(SequencePlan::new(handle, settings, kind, shape, rows)?))
    }

    /// Bytes of a row in each column of caches of this kind, as they are sent.
    pub fn shape(
        handle: &MemoryHandle,
        settings: &Arc<Settings>,
        kind: BatchKind,
    ) -> Result<CacheShape> {
        if handle.cache_sequences.get().is_none() {
            let labels = match kind {
                BatchKind::Cache { ids, nstep } => Labels { ids, senders: false, nstep },
                BatchKind::Batch { ids, nstep } => Labels { ids, senders: ids, nstep },
                BatchKind::Sample { nstep, .. } => Labels { nstep, ..Labels::default() },
            };
            return Ok(CacheShape::new(handle.spec(), settings, labels));
        }
        let plan = Self::new(handle, Arc::clone(settings), kind, 1)?;
        let sizes = plan.layout().parts().iter().map(|part| part.size).collect();
        Ok(CacheShape::of_sizes(plan.in_sent_order(sizes)))
    }

    fn array_plan(&self) -> &dyn ArrayPlan {
        match self {
            Self::Transitions(plan) => plan,
            Self::Sequences(plan) => plan,
        }
    }

    pub fn layout(&self) -> &BatchLayout {
        self.array_plan().layout()
    }

    pub fn settings(&self) -> &Arc<Settings> {
        match self {
            Self::Transitions(plan) => &plan.settings,
            Self::Sequences(plan) => &plan.settings,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Transitions(plan) => plan.bytes(),
            Self::Sequences(plan) => plan.bytes(),
        }
    }

    fn dtypes<'py>(&self, py: Python<'py>, handle: &MemoryHandle) -> Vec<Bound<'py, PyArrayDescr>> {
        match self {
            Self::Transitions(plan) => plan.dtypes(py, handle),
            Self::Sequences(plan) => plan.dtypes(py, handle),
        }
    }

    /// The layout of caches, for comparison: the cache flags, or a number of the sequences' shape; and `frame_stack`.
    pub fn sent_layout(handle: &MemoryHandle, settings: &Settings) -> (u32, usize) {
        let shape = handle.cache_sequences.get();
        let flags = shape.map_or_else(
            || sent_flags(settings),
            |shape| shape.number(handle.recurrent.as_ref().map(Template::spec)),
        );
        (flags, settings.frame_stack)
    }

    /// The arrays of rows, or their bytes, in the order in which they are sent: the weights first, then the other columns,
    /// then fields.
    pub fn in_sent_order<T>(&self, mut arrays: Vec<T>) -> Vec<T> {
        match self {
            Self::Transitions(plan) => in_sent_order(&plan.settings, arrays),
            Self::Sequences(plan) => {
                let mut sent = arrays.split_off(FIELDS);
                let weight = plan.kind.columns().position(|it| it == SequenceColumn::Weight);
                sent[..=weight.unwrap_or(0)].rotate_right(1);
                sent.append(&mut arrays);
                sent
            }
        }
    }

    /// Where senders are in the order of sending, of rows that have them.
    pub fn sender(&self) -> Option<usize> {
        match self {
            Self::Transitions(plan) => {
                plan.kind.columns().iter().position(|it| *it == BatchColumn::Sender)
            }
            // The weights went from before them to the front.
            Self::Sequences(plan) => {
                plan.kind.columns().position(|it| it == SequenceColumn::Sender)
            }
        }
    }

    /// Draws the rows of a cache. What is drawn is the share of its memory among others.
    pub fn draw_into(&self, memory: &mut Memory, parts: &mut [&mut [u8]]) -> Result<Outcome<f64>> {
        Ok(match self {
            Self::Transitions(plan) => {
                draw_into(memory, (None, None), plan, parts)?.map(|draws| draws.share())
            }
            Self::Sequences(plan) => {
                sequences::draw_into(memory, None, plan, parts)?.map(|draws| draws.share())
            }
        })
    }

    /// Makes the rows in the arrays of `out` or in new ones, whose bytes `fill` gets.
    pub fn make<'py>(
        &self,
        py: Python<'py>,
        handle: &MemoryHandle,
        out: Option<&Bound<'py, PyAny>>,
        fill: impl FnOnce(&mut [&mut [u8]]) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtypes = self.dtypes(py, handle);
        if let Some(out) = out {
            fill(&mut OutArrays::new(out, self.array_plan(), &dtypes)?.slices())?;
            return Ok(out.clone());
        }
        let mut block = handle.pool.take(self.layout().size())?;
        fill(&mut self.layout().cut(block.bytes()))?;
        let arrays = arrays(py, block, self.layout(), &dtypes)?;
        match self {
            Self::Transitions(plan) => transitions(py, plan.kind, arrays),
            Self::Sequences(plan) => sequences::sequences(py, plan.kind, arrays),
        }
    }

    /// Checks the arrays of `out`; errors as of [`OutArrays::new`].
    pub fn check(&self, handle: &MemoryHandle, out: &Bound<'_, PyAny>) -> PyResult<()> {
        OutArrays::new(out, self.array_plan(), &self.dtypes(out.py(), handle)).map(drop)
    }
}

/// The arrays of a batch, or their bytes, in the order in which they are sent: columns first, and of the fields
/// those that the flags name.
fn in_sent_order<T>(settings: &Settings, mut arrays: Vec<T>) -> Vec<T> {
    let columns = arrays.split_off(2 * FIELDS);
    let sent = arrays.into_iter().zip(settings.cache_flags).filter(|(_, flag)| *flag);
    columns.into_iter().chain(sent.map(|(array, _)| array)).collect()
}

/// The cache flags as one number, the first one lowest.
fn sent_flags(settings: &Settings) -> u32 {
    settings.cache_flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u32::from(flag))
}
