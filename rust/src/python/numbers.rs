//! Arguments of one number or id, or of many.
//!
//! Arrays of the right dtype are read in place; everything else goes through `cogrs.replay.convert`, which
//! converts or refuses.

use numpy::{Element, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::available_memory::check_allocatable;
use crate::error::Error;
use crate::python::args::{integer, number, wrong_type};
use crate::python::array::is_viewable;
use crate::python::exit::call_python;
use crate::replay::settings::Numbers;

impl Numbers {
    /// `count` numbers, for which a scalar may stand; `ValueError` when there are more or fewer.
    pub fn repeat(self, name: &str, count: usize) -> PyResult<Vec<f64>> {
        match self {
            Self::One(value) => {
                check_allocatable(count.saturating_mul(size_of::<f64>()))?;
                Ok(vec![value; count])
            }
            Self::Many(values) if values.len() == count => Ok(values),
            Self::Many(values) => {
                let expected = format!("shape ({count},) or one number");
                Err(Error::value(name, expected, format!("shape ({},)", values.len())).into())
            }
        }
    }
}

/// Real numbers in no or one dimension, as float64; `TypeError` or `ValueError` that name `name`.
pub fn numbers(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Numbers> {
    if value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>() {
        return Ok(Numbers::One(number(name, value)?));
    }
    // As learners give them.
    if let Some(values) = elements(value, |wide: f64| wide)? {
        return Ok(Numbers::Many(values));
    }
    if let Some(values) = elements(value, |narrow: f32| f64::from(narrow))? {
        return Ok(Numbers::Many(values));
    }
    let array = call_python!(value.py(), "cogrs.replay.convert", "numbers", (name, value))?;
    let array = array.cast::<PyArrayDyn<f64>>().map_err(|_| wrong_type(name, "numbers", value))?;
    check_allocatable(array.len().saturating_mul(size_of::<f64>()))?;
    let values: Vec<f64> = array.to_vec()?;
    match (array.ndim(), values.as_slice()) {
        (0, [one]) => Ok(Numbers::One(*one)),
        _ => Ok(Numbers::Many(values)),
    }
}

/// The elements of an array of this dtype and of one dimension; None for everything else.
fn elements<T: Element + Copy, U>(
    value: &Bound<'_, PyAny>,
    read: impl Fn(T) -> U,
) -> PyResult<Option<Vec<U>>> {
    // Not a subclass's, which may mean something else by its memory: a masked array does.
    let Ok(array) = value.cast_exact::<PyArray1<T>>() else { return Ok(None) };
    if !is_viewable(array.as_untyped()) {
        return Ok(None);
    }
    check_allocatable(array.len().saturating_mul(size_of::<U>()))?;
    // Refused while it is written to from Rust, which nothing here does.
    let Ok(array) = array.try_readonly() else { return Ok(None) };
    Ok(Some(array.as_array().iter().map(|&element| read(element)).collect()))
}

/// One id or many; `TypeError` or `ValueError` that name `id`.
pub fn ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    const EXPECTED: &str = "an id, or one dimension of ids";
    if let Some(ids) = elements(value, |id: u64| id)? {
        return Ok(ids);
    }
    // Every array has the method.
    if value.hasattr("__index__")? && (value.is_instance_of::<PyInt>() || value.len().is_err()) {
        return Ok(vec![integer("id", value, 0)?]);
    }
    if let Ok(dims) = value.getattr("ndim").and_then(|ndim| ndim.extract::<usize>())
        && dims > 1
    {
        let got = value.getattr("shape").map_or("?".into(), |shape| format!("shape {shape}"));
        return Err(Error::value("id", EXPECTED, got).into());
    }
    // An iterator without a length may never end.
    let (Ok(count), Ok(items)) = (value.len(), value.try_iter()) else {
        return Err(wrong_type("id", "an id or a list of ids", value));
    };
    let mut ids = Vec::new();
    for (at, item) in items.take(count).enumerate() {
        let item = item?;
        ids.try_reserve(1).map_err(|error| Error::Memory(format!("id: {error}")))?;
        if item.len().is_ok() {
            let got = format!("{} at index {at}", item.get_type().name()?);
            return Err(Error::kind("id", EXPECTED, got).into());
        }
        ids.push(integer("id", &item, 0)?);
    }
    Ok(ids)
}
