//! The built-in games as Python sees them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::Error;
use crate::games::{Builtin, cartpole};
use crate::spec::FieldSpec;

fn described<'py>(py: Python<'py>, field: &FieldSpec) -> PyResult<Bound<'py, PyTuple>> {
    let numpy = py.import("numpy")?;
    let dtype = numpy.call_method1("dtype", (&field.dtype,))?;
    PyTuple::new(py, [dtype, PyTuple::new(py, &field.shape)?.into_any()])
}

/// What a built-in game looks like. See the stub for its contract.
///
/// # Errors
/// `ValueError` when there is no such game.
#[pyfunction]
pub fn game_spec<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let spec = Builtin::new(name, 1)?.spec();
    let keys = PyDict::new(py);
    for (key, field) in &spec.keys {
        keys.set_item(key, described(py, field)?)?;
    }
    let all = PyDict::new(py);
    all.set_item("keys", keys)?;
    all.set_item("action", described(py, &spec.action)?)?;
    all.set_item("num_action", spec.num_action)?;
    all.set_item("players", spec.players)?;
    Ok(all)
}

/// One step of the cart and its pole. See the stub for its contract.
///
/// # Errors
/// `ValueError` when there is no such action.
#[pyfunction]
pub fn cartpole_step(state: cartpole::State, action: i64) -> PyResult<(cartpole::State, bool)> {
    match action {
        0 | 1 => Ok(cartpole::step(state, action == 1)),
        _ => Err(Error::value("action", "0 (left) or 1 (right)", action).into()),
    }
}
