//! `cogrs.ReplayView`: weights, counts and limits of its own over a memory's entries.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::python::args::{Normalize, absolute, normalize, nstep_return, size};
use crate::python::batch::{self, DrawArgs};
use crate::python::batch_kind::{BatchKind, ImportanceOptions};
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::numbers::{ids, numbers};
use crate::python::setting_value;
use crate::replay::corrections::{PriorityKind, UPDATE_BYTES_PER_ID};
use crate::replay::view::View;

#[doc = stub_doc!(ReplayView)]
#[pyclass(frozen, weakref, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayView {
    handle: Arc<MemoryHandle>,
    key: u64,
    name: String,
}

impl ReplayView {
    pub fn new(handle: Arc<MemoryHandle>, key: u64, name: String) -> Self {
        Self { handle, key, name }
    }
}

/// Properties, each with the type of its value and how a view has it.
macro_rules! getters {
    ($($name:ident: $type:ty = |$view:ident| $value:expr;)*) => {
        #[pymethods]
        impl ReplayView {$(
            #[doc = stub_doc!(ReplayView.$name)]
            #[getter]
            fn $name(&self, py: Python<'_>) -> PyResult<$type> {
                self.handle.call(py, LONG, |memory| {
                    let $view: &View = memory.view(self.key)?;
                    Ok($value)
                })
            }
        )*}
    };
}

getters! {
    priority_exponent: f64 = |view| view.settings().priority_exponent;
    sampler: String = |view| view.settings().sampler.to_string();
    max_times_sampled: u32 = |view| view.settings().max_times_sampled;
    weight_sum: f64 = |view| view.weight_sum();
    num_drawable: usize = |view| view.num_drawable();
    num_sampleable: usize = |view| view.num_sampleable();
    min_weight: f32 = |view| view.min_weight();
}

// The signatures are those of the published interface and of Python's protocols.
#[allow(clippy::too_many_arguments, clippy::unused_self)]
#[pymethods]
impl ReplayView {
    #[doc = stub_doc!(ReplayView.name)]
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[doc = stub_doc!(ReplayView.get_batch)]
    #[pyo3(signature = (batch_size, *, wait=None, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        wait: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = BatchKind::Batch { ids: false, nstep: false };
        let rows = size("batch_size", batch_size, 1)?;
        let wait = self.handle.patience(wait)?;
        let args = DrawArgs { view: Some(self.key), rows, sampler: None, wait, out };
        batch::draw(py, &self.handle, kind, &args)
    }

    #[doc = stub_doc!(ReplayView.sample)]
    #[pyo3(signature = (batch_size, *, nstep_return=false, beta=None, normalize=Normalize::Batch,
                        sampler=None, wait=None, out=None),
           text_signature = "($self, batch_size, *, nstep_return=False, beta=None, normalize='batch', \
                             sampler=None, wait=None, out=None)")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = nstep_return)] nstep_return: bool,
        beta: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = normalize)] normalize: Normalize,
        sampler: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let importance = ImportanceOptions::of(beta, normalize)?;
        let kind = BatchKind::Sample { nstep: nstep_return, importance, counted: false };
        let rows = size("batch_size", batch_size, 1)?;
        let sampler = sampler.map(|name| setting_value::sampler("sampler", name)).transpose()?;
        let wait = self.handle.patience(wait)?;
        let args = DrawArgs { view: Some(self.key), rows, sampler, wait, out };
        batch::draw(py, &self.handle, kind, &args)
    }

    #[doc = stub_doc!(ReplayView.update_priority)]
    #[pyo3(signature = (id, priority, *, absolute=false))]
    fn update_priority(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = absolute)] absolute: bool,
    ) -> PyResult<usize> {
        let kind = if absolute { PriorityKind::Weight } else { PriorityKind::Error };
        let ids = ids(id)?;
        let priorities = numbers("priority", priority)?.repeat("priority", ids.len())?;
        self.handle.call(py, ids.len() * UPDATE_BYTES_PER_ID, |memory| {
            memory.update_view(self.key, &ids, &priorities, kind)
        })
    }

    #[doc = stub_doc!(ReplayView.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, LONG, |memory| {
            if memory.view(self.key).is_ok() {
                memory.close_view(self.key)?;
            }
            Ok(())
        })?;
        // A thread that waits for entries of this view learns that there will be none.
        self.handle.changed.notify_all();
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("ReplayView(name={:?})", self.name)
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a ReplayView cannot be pickled or copied: it is saved with its ReplayMemory",
        ))
    }
}
