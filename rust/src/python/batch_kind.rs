//! Which columns follow prev and next in each kind of batch, and which class of `cogrs.replay.batch` it is: the
//! one table of both.

use numpy::{Element, PyArrayDescr, dtype};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::python::args::{Normalize, number};
use crate::replay::finite::check_non_negative;
use crate::spec::{EntrySpec, Field};

/// A set of arrays that a draw fills: prev, next, and columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchKind {
    /// Of `sample` of a memory; with a limit of draws it has their counts.
    Sample { nstep: bool, importance: Option<ImportanceOptions>, counted: bool },
    /// Of a cache.
    Cache { ids: bool, nstep: bool },
    /// Of `get_batch`; with ids it has senders too.
    Batch { ids: bool, nstep: bool },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportanceOptions {
    pub beta: f64,
    pub normalize: Normalize,
}

impl ImportanceOptions {
    /// What `beta` and `normalize` ask for: nothing without a `beta`; `TypeError` or `ValueError` that name it.
    pub fn of(beta: Option<&Bound<'_, PyAny>>, normalize: Normalize) -> PyResult<Option<Self>> {
        let Some(beta) = beta else { return Ok(None) };
        let beta = check_non_negative("beta", number("beta", beta)?)?;
        Ok(Some(Self { beta, normalize }))
    }
}

/// One of the arrays that follow prev's and next's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchColumn {
    Weight,
    Id,
    /// The uuid of the client whose entry it is.
    Sender,
    Probability,
    /// Whether next is the final state of a terminated episode.
    NextTerminated,
    NStepReturn,
    NStepDiscount,
    /// How often prev has been drawn under a limit.
    TimesSampled,
    /// The factor of a row's loss.
    ImportanceWeight,
}

impl BatchKind {
    /// The columns, in order, and the class, which caches do not have.
    fn row(self) -> (&'static [BatchColumn], Option<&'static BatchClass>) {
        use BatchColumn::{
            Id, ImportanceWeight, NStepDiscount, NStepReturn, NextTerminated, Probability, Sender,
            TimesSampled, Weight,
        };
        macro_rules! class {
            ($name:literal) => {{
                static CLASS: BatchClass = BatchClass::new($name);
                Some(&CLASS)
            }};
        }
        macro_rules! sample {
            ($($column:ident),*) => { &[Weight, Id, Probability, NextTerminated, $($column),*] };
        }
        match self {
            Self::Cache { ids: false, nstep: false } => (&[Weight], None),
            Self::Cache { ids: true, nstep: false } => (&[Weight, Id], None),
            Self::Cache { ids: false, nstep: true } => {
                (&[Weight, NStepReturn, NStepDiscount], None)
            }
            Self::Cache { ids: true, nstep: true } => {
                (&[Weight, Id, NStepReturn, NStepDiscount], None)
            }
            Self::Batch { ids: false, nstep: false } => (&[Weight], class!("Batch")),
            Self::Batch { ids: true, nstep: false } => (&[Weight, Id, Sender], class!("IdBatch")),
            Self::Batch { ids: false, nstep: true } => {
                (&[Weight, NStepReturn, NStepDiscount], class!("NStepBatch"))
            }
            Self::Batch { ids: true, nstep: true } => {
                (&[Weight, Id, Sender, NStepReturn, NStepDiscount], class!("NStepIdBatch"))
            }
            Self::Sample { nstep, importance, counted } => {
                match (nstep, counted, importance.is_some()) {
                    (false, false, false) => (sample![], class!("Sample")),
                    (true, false, false) => {
                        (sample![NStepReturn, NStepDiscount], class!("NStepSample"))
                    }
                    (false, false, true) => (sample![ImportanceWeight], class!("WeightedSample")),
                    (true, false, true) => (
                        sample![NStepReturn, NStepDiscount, ImportanceWeight],
                        class!("NStepWeightedSample"),
                    ),
                    (false, true, false) => (sample![TimesSampled], class!("CountedSample")),
                    (true, true, false) => (
                        sample![NStepReturn, NStepDiscount, TimesSampled],
                        class!("NStepCountedSample"),
                    ),
                    (false, true, true) => {
                        (sample![TimesSampled, ImportanceWeight], class!("CountedWeightedSample"))
                    }
                    (true, true, true) => (
                        sample![NStepReturn, NStepDiscount, TimesSampled, ImportanceWeight],
                        class!("NStepCountedWeightedSample"),
                    ),
                }
            }
        }
    }

    /// This kind under a limit of draws, or without one.
    #[must_use]
    pub fn under_limit(self, limit: u32) -> Self {
        match self {
            Self::Sample { nstep, importance, .. } => {
                Self::Sample { nstep, importance, counted: limit > 0 }
            }
            other => other,
        }
    }

    pub fn columns(self) -> &'static [BatchColumn] {
        self.row().0
    }

    pub fn class(self) -> Option<&'static BatchClass> {
        self.row().1
    }
}

pub struct ColumnType {
    pub name: &'static str,
    pub itemsize: usize,
    pub dtype: fn(Python<'_>) -> Bound<'_, PyArrayDescr>,
}

impl ColumnType {
    fn of<T: Element>(name: &'static str) -> Self {
        Self { name, itemsize: size_of::<T>(), dtype: dtype::<T> }
    }
}

impl BatchColumn {
    pub fn column_type(self) -> ColumnType {
        match self {
            Self::Weight => ColumnType::of::<f32>("weight"),
            Self::Id => ColumnType::of::<u64>("id"),
            Self::Sender => ColumnType::of::<u32>("sender"),
            Self::Probability => ColumnType::of::<f64>("probability"),
            Self::NextTerminated => ColumnType::of::<bool>("next_terminated"),
            Self::NStepReturn => ColumnType::of::<f32>("nstep_return"),
            Self::NStepDiscount => ColumnType::of::<f32>("nstep_discount"),
            Self::TimesSampled => ColumnType::of::<u32>("times_sampled"),
            Self::ImportanceWeight => ColumnType::of::<f32>("importance_weight"),
        }
    }

    /// The shape of a row.
    pub fn row(self, spec: &EntrySpec) -> &[usize] {
        match self {
            Self::NStepReturn | Self::NStepDiscount => &spec[Field::Reward].shape,
            _ => &[],
        }
    }
}

/// A named tuple of `cogrs.replay`, looked up once.
pub struct BatchClass {
    module: &'static str,
    name: &'static str,
    class: PyOnceLock<Py<PyAny>>,
}

impl BatchClass {
    pub const fn new(name: &'static str) -> Self {
        Self::in_module("cogrs.replay.batch", name)
    }

    /// One of another module.
    pub const fn in_module(module: &'static str, name: &'static str) -> Self {
        Self { module, name, class: PyOnceLock::new() }
    }

    /// A tuple of this class. `tuple.__new__` makes it, as in the class's own `_make`; its `__new__` is Python code.
    pub fn of<'py>(
        &self,
        py: Python<'py>,
        items: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let new = || Ok::<_, PyErr>(py.get_type::<PyTuple>().getattr("__new__")?.unbind());
        let class = self.class.import(py, self.module, self.name)?;
        NEW.get_or_try_init(py, new)?.bind(py).call1((class, PyTuple::new(py, items)?))
    }
}
