//! Plain arguments: numbers that name themselves when they are wrong.

use std::path::PathBuf;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::Error;
use crate::python::exit::python_code;

/// Whose largest importance weight is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalize {
    /// That of the batch.
    Batch,
    /// That of all entries.
    All,
}

/// An integer of at least `least`; a bool is none.
///
/// # Errors
/// `TypeError` when it is none, `ValueError` when it is out of range.
pub fn integer(name: &str, value: &Bound<'_, PyAny>, least: u64) -> PyResult<u64> {
    let wrong = |expected: String| -> PyErr { Error::value(name, expected, shown(value)).into() };
    if value.is_instance_of::<PyBool>() {
        return Err(wrong_type(name, "an integer", value));
    }
    match value.extract::<i64>() {
        Ok(number) if number >= 0 && number as u64 >= least => Ok(number as u64),
        Ok(_) => Err(wrong(format!("an integer >= {least}"))),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            value.extract::<u64>().map_err(|_| wrong(format!("an integer in [{least}, 2**64)")))
        }
        Err(_) => Err(wrong_type(name, "an integer", value)),
    }
}

/// A value as messages show it.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let py = value.py();
    let shown =
        || py.import(intern!(py, "cogrs.shown"))?.call_method1(intern!(py, "shown"), (value,));
    python_code(py, shown).map_or("?".into(), |text| text.to_string())
}

/// As [`integer`], for sizes.
///
/// # Errors
/// As [`integer`].
pub fn size(name: &str, value: &Bound<'_, PyAny>, least: u64) -> PyResult<usize> {
    Ok(integer(name, value, least)? as usize)
}

/// A real number.
///
/// # Errors
/// `TypeError` when it is none.
pub fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    value.extract::<f64>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            return Error::value(name, "a number that float64 holds", "an integer beyond it")
                .into();
        }
        wrong_type(name, "a number", value)
    })
}

/// A truth value: a bool, or the number 0 or 1.
///
/// # Errors
/// `TypeError` for another type, `ValueError` for another number.
pub fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(flag) = value.extract::<bool>() {
        return Ok(flag);
    }
    match value.extract::<i64>() {
        Ok(0) => Ok(false),
        Ok(1) => Ok(true),
        Ok(other) => Err(Error::value(name, "True, False, 1 or 0", other).into()),
        Err(_) => Err(wrong_type(name, "True, False, 1 or 0", value)),
    }
}

/// The argument of this name. The binding itself would name it in a note alone, not in the error's text.
///
/// # Errors
/// As [`flag`].
pub fn allow_overcommit(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    flag("allow_overcommit", value)
}

/// The argument of this name, for the same reason.
///
/// # Errors
/// As [`flag`].
pub fn absolute(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    flag("absolute", value)
}

/// The argument of this name, for the same reason.
///
/// # Errors
/// As [`flag`].
pub fn nstep_return(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    flag("nstep_return", value)
}

/// The argument of this name, for the same reason.
///
/// # Errors
/// `TypeError` when it is not text, `ValueError` for another text.
pub fn normalize(value: &Bound<'_, PyAny>) -> PyResult<Normalize> {
    const EXPECTED: &str = "'batch' or 'all'";
    let text: &str = value.extract().map_err(|_| wrong_type("normalize", EXPECTED, value))?;
    match text {
        "batch" => Ok(Normalize::Batch),
        "all" | "memory" => Ok(Normalize::All),
        _ => {
            let text = format!("normalize: expected {EXPECTED}, got {text:?}");
            Err(PyValueError::new_err(text))
        }
    }
}

/// The argument of this name: text, bytes or what has a path of its own.
///
/// # Errors
/// `TypeError` when it is none of these.
pub fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let py = value.py();
    let decoded = python_code(py, || {
        py.import(intern!(py, "os"))?.call_method1(intern!(py, "fsdecode"), (value,))
    });
    match decoded {
        Ok(text) => text.extract(),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            Err(wrong_type("path", "a path", value))
        }
        Err(error) => Err(error),
    }
}

/// `TypeError` that says what came.
pub fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let got = value.get_type().name().map_or("?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{name}: expected {expected}, got {got}"))
}
