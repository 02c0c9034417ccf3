//! NumPy arrays over the memory of a collector's batches.
#![allow(unsafe_code)]

use std::sync::Arc;

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::collector::batch::Batch;
use crate::error::Error;
use crate::python::array::over;
use crate::spec::{FieldSpec, shape_text};

/// The memory of one batch's arrays, kept as long as one of them lives.
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct TensorMemory(Arc<Batch>);

impl TensorMemory {
    pub fn new<'py>(py: Python<'py>, batch: &Arc<Batch>) -> PyResult<Bound<'py, Self>> {
        Bound::new(py, Self(Arc::clone(batch)))
    }
}

/// Most dimensions of a row: every version of NumPy supports 32, and one of them is for the rows.
const MAX_DIMS: usize = 31;

#[derive(Debug)]
pub struct TensorSpec {
    pub name: String,
    pub dtype: Py<PyArrayDescr>,
    /// dtype and shape of a row.
    pub spec: FieldSpec,
}

/// Name, dtype and shape, as Python gives them.
pub type TensorArg<'py> = (String, Bound<'py, PyAny>, Vec<usize>);

impl TensorSpec {
    /// Checks a description that Python gave. Raises `TypeError` if the dtype has no fixed size, holds objects or has a
    /// subarray, and `ValueError` if a row is too large.
    pub fn new((name, dtype, shape): TensorArg<'_>) -> PyResult<Self> {
        let descr = PyArrayDescr::new(dtype.py(), &dtype)?;
        if descr.has_object() || descr.itemsize() == 0 {
            let text =
                format!("{name}: expected a dtype of fixed size without objects, got {descr}");
            return Err(PyTypeError::new_err(text));
        }
        if descr.has_subarray() {
            let text = format!("{name}: expected a dtype without a subarray, got {descr}");
            return Err(PyTypeError::new_err(text));
        }
        if shape.len() > MAX_DIMS {
            let expected = format!("at most {MAX_DIMS} dimensions");
            return Err(Error::value(name, expected, shape.len()).into());
        }
        let dtypes = dtype.py().import("cogrs.dtypes")?;
        let text = dtypes.call_method1("dtype_text", (&descr, &name))?.extract()?;
        let spec = FieldSpec { dtype: text, itemsize: descr.itemsize(), shape };
        if spec.checked_nbytes().is_none() {
            let got = shape_text(&spec.shape);
            return Err(
                Error::value(name, "a shape whose bytes fit into the address space", got).into()
            );
        }
        Ok(Self { name, dtype: descr.unbind(), spec })
    }
}

/// One array of a batch, all its rows.
/// Panics if the rows of this part have another size, which would be a bug in this crate's layout.
pub fn array<'py>(
    memory: &Bound<'py, TensorMemory>,
    part: usize,
    dtype: &Py<PyArrayDescr>,
    row: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let batch = &memory.get().0;
    let dtype = dtype.bind(memory.py());
    let size = row.iter().try_fold(dtype.itemsize(), |size, &dim| size.checked_mul(dim));
    assert_eq!(Some(batch.row_size(part)), size, "an array over a part of another size");
    let shape = [&[batch.rows()], row].concat();
    // SAFETY: the part has `rows` rows of `size` bytes from `start` on, checked above; they are aligned for
    // every dtype and stay in place as long as `memory` holds the batch. Rust makes no reference to them.
    unsafe { over(dtype, &shape, batch.start(part), memory.as_any()) }
}

/// The arrays of adjacent parts of a batch, by name.
pub fn arrays<'py>(
    memory: &Bound<'py, TensorMemory>,
    first: usize,
    tensors: &[TensorSpec],
) -> PyResult<Bound<'py, PyDict>> {
    let arrays = PyDict::new(memory.py());
    for (at, tensor) in tensors.iter().enumerate() {
        let array = array(memory, first + at, &tensor.dtype, &tensor.spec.shape)?;
        arrays.set_item(&tensor.name, array)?;
    }
    Ok(arrays)
}
