//! Plain arguments: each is read here, and named in the error when it is wrong.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use rand::TryRng;
use rand::rngs::SysRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::error::Error;
use crate::python::exit::call_python;
use crate::replay::storage_folder::StorageFolder;

pub fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let got = value.get_type().name().map_or("?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{name}: expected {expected}, got {got}"))
}

pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let shown = call_python!(value.py(), "cogrs.shown", "shown", (value,));
    shown.map_or("?".into(), |text| text.to_string())
}

/// Whether it is a truth value: Python's, NumPy's or an array of one. Those of NumPy and of other libraries turn into numbers.
fn is_bool(value: &Bound<'_, PyAny>) -> bool {
    if value.is_exact_instance_of::<PyFloat>() || value.is_exact_instance_of::<PyInt>() {
        return false;
    }
    let kind = || value.getattr("dtype").and_then(|dtype| dtype.getattr("kind"));
    value.is_instance_of::<PyBool>()
        || kind().is_ok_and(|kind| kind.extract::<&str>().is_ok_and(|kind| kind == "b"))
}

/// An integer >= `least`: `TypeError` for a bool and for all that is not an integer, `ValueError` out of range.
pub fn integer(name: &str, value: &Bound<'_, PyAny>, least: u64) -> PyResult<u64> {
    let wrong = |expected: String| -> PyErr { Error::value(name, expected, shown(value)).into() };
    if is_bool(value) {
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

pub fn size(name: &str, value: &Bound<'_, PyAny>, least: u64) -> PyResult<usize> {
    Ok(integer(name, value, least)? as usize)
}

/// A real number; `TypeError` for other types, bool among them; `ValueError` for an integer that float64 does not
/// hold.
pub fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if is_bool(value) {
        return Err(wrong_type(name, "a number", value));
    }
    value.extract::<f64>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            return Error::value(name, "a number that float64 holds", "a larger integer").into();
        }
        wrong_type(name, "a number", value)
    })
}

/// A bool, or the number 0 or 1: `TypeError` for another type, `ValueError` for another number.
pub fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    const EXPECTED: &str = "True, False, 1 or 0";
    if let Ok(flag) = value.extract::<bool>() {
        return Ok(flag);
    }
    match value.extract::<i64>() {
        Ok(0) => Ok(false),
        Ok(1) => Ok(true),
        Ok(other) => Err(Error::value(name, EXPECTED, other).into()),
        Err(_) => Err(wrong_type(name, EXPECTED, value)),
    }
}

/// A bool, or `TypeError`: numbers are refused, NumPy's bool too, as by `cogrs.validation.check_flag`.
pub fn plain_flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let flag = value.cast::<PyBool>().map_err(|_| wrong_type(name, "True or False", value))?;
    Ok(flag.is_true())
}

/// Text, or `TypeError` that says which texts are expected.
pub fn text(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| wrong_type(name, expected, value))?;
    // Not lossily: two names would become one.
    let text =
        text.to_cow().map_err(|_| Error::value(name, "text that UTF-8 can hold", shown(value)))?;
    Ok(text.into_owned())
}

/// Functions for `from_py_with`, each of the argument of its name: PyO3 itself names an argument of the wrong
/// type in a note of the exception, but not in its text.
macro_rules! named_arguments {
    ($($name:ident: $type:ty, $read:ident;)*) => {$(
        pub fn $name(value: &Bound<'_, PyAny>) -> PyResult<$type> {
            $read(stringify!($name), value)
        }
    )*};
}

named_arguments! {
    allow_overcommit: bool, flag;
    absolute: bool, plain_flag;
    nstep_return: bool, flag;
    sequences: bool, flag;
    do_update_value: bool, flag;
    do_update_weight: bool, flag;
    episodic_weight_multiplier: f64, number;
}

/// Whose largest importance weight is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalize {
    Batch,
    All,
}

pub fn normalize(value: &Bound<'_, PyAny>) -> PyResult<Normalize> {
    const EXPECTED: &str = "'batch', 'memory' or 'all'";
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

/// The argument of this name, for `from_py_with`: a path as `os.fsdecode` takes it, or `TypeError`.
pub fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    path_of("path", value)
}

/// A path as `os.fsdecode` takes it, or `TypeError` that names the argument.
pub fn path_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    match call_python!(value.py(), "os", "fsdecode", (value,)) {
        Ok(text) => text.extract(),
        Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
            Err(wrong_type(name, "a path", value))
        }
        Err(error) => Err(error),
    }
}

/// The folder that the argument `storage` names.
pub fn folder_of(
    py: Python<'_>,
    storage: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Arc<StorageFolder>>> {
    let Some(given) = storage else { return Ok(None) };
    let path = path_of("storage", given)?;
    Ok(Some(py.detach(|| StorageFolder::open(&path))?))
}

/// 64 bits of the system's random source.
pub fn random() -> PyResult<u64> {
    let failed = |error| Error::State(format!("the system's random source failed: {error}"));
    Ok(SysRng.try_next_u64().map_err(failed)?)
}

/// The generator of draws that the argument `seed` names: a random one for None.
pub fn seeded(seed: Option<&Bound<'_, PyAny>>) -> PyResult<Xoshiro256PlusPlus> {
    let seed = seed.map_or_else(random, |seed| integer("seed", seed, 0))?;
    Ok(Xoshiro256PlusPlus::seed_from_u64(seed))
}
