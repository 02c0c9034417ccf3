//! Memories for the spaces of Gymnasium.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::python::exit::python_code;
use crate::python::memory::ReplayMemory;

/// A memory that a function of `cogrs.replay.spaces` makes.
fn made_of<'py>(
    py: Python<'py>,
    function: &str,
    given: Bound<'py, PyTuple>,
    settings: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let function = py.import("cogrs.replay.spaces")?.getattr(function)?;
    python_code(py, || function.call(given, settings))
}

#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.from_spaces)]
    #[staticmethod]
    #[pyo3(signature = (observation_space, action_space, capacity, **settings),
           text_signature = "(observation_space, action_space, capacity, *, gamma=0.99, n_step=1, alpha=0.6, \
                             frame_stack=1, **settings)")]
    fn from_spaces<'py>(
        py: Python<'py>,
        observation_space: &Bound<'py, PyAny>,
        action_space: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = PyTuple::new(py, [observation_space, action_space, capacity])?;
        made_of(py, "from_spaces", given, settings)
    }

    #[doc = stub_doc!(ReplayMemory.from_env)]
    #[staticmethod]
    #[pyo3(signature = (env, capacity, **settings),
           text_signature = "(env, capacity, *, gamma=0.99, n_step=1, alpha=0.6, frame_stack=1, **settings)")]
    fn from_env<'py>(
        py: Python<'py>,
        env: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        made_of(py, "from_env", PyTuple::new(py, [env, capacity])?, settings)
    }
}
