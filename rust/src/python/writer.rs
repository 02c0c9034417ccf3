//! `cogrs.ReplayWriter`.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::python::memory_handle::MemoryHandle;
use crate::python::pen::{CloseArgs, Pen, do_update_value, do_update_weight, multiplier};

/// An open episode of its own in a `ReplayMemory`, which itself is the first writer into it.
///
/// The contract of each call, with dtypes, shapes, errors and formulas, is in `cogrs/_core.pyi`.
#[pyclass(frozen, subclass, weakref, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayWriter {
    pen: Pen,
}

impl ReplayWriter {
    /// A writer without open episode.
    pub fn new(shared: Arc<MemoryHandle>) -> Self {
        Self { pen: Pen::new(shared) }
    }
}

// The signatures are those of the published interface and of Python's protocols.
#[allow(clippy::too_many_arguments, clippy::many_single_char_names, clippy::unused_self)]
#[pymethods]
impl ReplayWriter {
    /// Open an episode; entries of one already open are dropped.
    fn new_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.pen.new_episode(py)
    }

    /// Return arrays to fill and give to `add_entry`, which copies them.
    fn get_entry_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.pen.entry_buf(py)
    }

    /// Add one entry to the open episode, by value.
    #[pyo3(signature = (s, a, r, p, v, i, init_w=None, *, weight=None))]
    fn add_entry(
        &self,
        py: Python<'_>,
        s: &Bound<'_, PyAny>,
        a: &Bound<'_, PyAny>,
        r: &Bound<'_, PyAny>,
        p: &Bound<'_, PyAny>,
        v: &Bound<'_, PyAny>,
        i: &Bound<'_, PyAny>,
        init_w: Option<&Bound<'_, PyAny>>,
        weight: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let init_w = match (init_w, weight) {
            (Some(given), None) | (None, Some(given)) => given,
            (None, None) => {
                return Err(PyTypeError::new_err("init_w: expected a number, got nothing"));
            }
            (Some(_), Some(_)) => {
                return Err(PyTypeError::new_err(
                    "weight: expected nothing beside init_w, whose name it is too",
                ));
            }
        };
        self.pen.add_entry(py, [s, a, r, p, v, i], init_w)
    }

    /// Add T entries to the open episode: the arguments of `add_entry` with a leading T.
    fn add_entries(
        &self,
        py: Python<'_>,
        s: &Bound<'_, PyAny>,
        a: &Bound<'_, PyAny>,
        r: &Bound<'_, PyAny>,
        p: &Bound<'_, PyAny>,
        v: &Bound<'_, PyAny>,
        i: &Bound<'_, PyAny>,
        init_w: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        self.pen.add_entries(py, [s, a, r, p, v, i], init_w)
    }

    /// Close the open episode: compute returns and weights, make it one that can be sampled.
    #[pyo3(signature = (episodic_weight_multiplier=1.0, do_update_value=true, do_update_weight=true, *,
                        bootstrap_value=None, final_state=None, final_info=None))]
    fn close_episode(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = multiplier)] episodic_weight_multiplier: f64,
        #[pyo3(from_py_with = do_update_value)] do_update_value: bool,
        #[pyo3(from_py_with = do_update_weight)] do_update_weight: bool,
        bootstrap_value: Option<&Bound<'_, PyAny>>,
        final_state: Option<&Bound<'_, PyAny>>,
        final_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let args = CloseArgs {
            multiplier: episodic_weight_multiplier,
            values: do_update_value,
            weights: do_update_weight,
            bootstrap_value,
            final_state,
            final_info,
        };
        self.pen.close_episode(py, &args)
    }

    /// Drop the open episode with its entries; without one: `RuntimeError`.
    fn abort_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.pen.abort_episode(py)
    }

    /// Add a whole closed episode, whatever is open beside it: all of it, or nothing.
    #[pyo3(signature = (s, a, r, p, v, i, init_w, episodic_weight_multiplier=1.0, do_update_value=true,
                        do_update_weight=true, *, bootstrap_value=None, final_state=None,
                        final_info=None))]
    fn add_episode(
        &self,
        py: Python<'_>,
        s: &Bound<'_, PyAny>,
        a: &Bound<'_, PyAny>,
        r: &Bound<'_, PyAny>,
        p: &Bound<'_, PyAny>,
        v: &Bound<'_, PyAny>,
        i: &Bound<'_, PyAny>,
        init_w: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = multiplier)] episodic_weight_multiplier: f64,
        #[pyo3(from_py_with = do_update_value)] do_update_value: bool,
        #[pyo3(from_py_with = do_update_weight)] do_update_weight: bool,
        bootstrap_value: Option<&Bound<'_, PyAny>>,
        final_state: Option<&Bound<'_, PyAny>>,
        final_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let args = CloseArgs {
            multiplier: episodic_weight_multiplier,
            values: do_update_value,
            weights: do_update_weight,
            bootstrap_value,
            final_state,
            final_info,
        };
        self.pen.add_episode(py, [s, a, r, p, v, i], init_w, &args)
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a ReplayWriter cannot be pickled or copied: use save() and load() of its ReplayMemory",
        ))
    }
}
