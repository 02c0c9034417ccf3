//! `cogrs.importance_weights`.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::available_memory::check_allocatable;
use crate::error::Error;
use crate::python::args::{Normalize, integer, normalize, number};
use crate::python::exit::call_python;
use crate::replay::importance::{self, Largest};

#[doc = stub_doc!(importance_weights)]
#[pyfunction]
#[pyo3(signature = (weight, *, exponent, total, count, normalize=Normalize::Batch, min_weight=None),
       text_signature = "(weight, *, exponent, total, count, normalize='batch', min_weight=None)")]
pub fn importance_weights<'py>(
    py: Python<'py>,
    weight: &Bound<'py, PyAny>,
    exponent: &Bound<'py, PyAny>,
    total: &Bound<'py, PyAny>,
    count: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = normalize)] normalize: Normalize,
    min_weight: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = call_python!(py, "cogrs.replay.convert", "reals", ("weight", weight))?;
    let given = given.cast_into::<PyArrayDyn<f64>>()?;
    let shape = PyTuple::new(py, given.shape())?;
    check_allocatable(given.len().saturating_mul(24))?;
    let values = given.to_vec()?;
    let count = integer("count", count, 1)?;
    let largest = match (normalize, min_weight) {
        (Normalize::Batch, _) => Largest::OfBatch,
        (Normalize::All, Some(smallest)) => Largest::OfAll(number("min_weight", smallest)?),
        (Normalize::All, None) if count == values.len() as u64 => Largest::OfBatch,
        (Normalize::All, None) => {
            let got = format!("None for {} of count={count} weights", values.len());
            return Err(Error::value(
                "min_weight",
                "memory.min_weight, which normalize='all' needs",
                got,
            )
            .into());
        }
    };
    let (exponent, total) = (number("exponent", exponent)?, number("total", total)?);
    let made = importance::importance_weights(&values, exponent, total, count, largest)?;
    let made = PyArray1::from_vec(py, made);
    made.call_method1("reshape", (shape,))
}
