//! dtype and shape of a field, and how its values are read from Python.
//!
//! The usual cases (an array of the right dtype and shape, a Python number) are read in place; everything else
//! goes through `cogrs.replay.convert`, which converts or refuses.

use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};

use crate::error::Error;
use crate::python::args::size;
use crate::python::array::{has_shape, is_plain};
use crate::python::exit::call_python;
use crate::python::scalar::Scalar;
use crate::python::value_bytes::ValueBytes;
use crate::replay::recurrent::RecurrentSpec;
use crate::spec::{Field, FieldSpec};

#[derive(Debug)]
pub struct Template {
    spec: FieldSpec,
    dtype: Py<PyArrayDescr>,
    scalar: Option<Scalar>,
    is_float32: bool,
}

impl Template {
    /// Takes dtype and shape from anything that NumPy can see as an array; `TypeError` when its dtype is
    /// refused, as one that holds objects is.
    pub fn new(field: Field, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::named(&format!("{}_buf", field.name()), value)
    }

    /// The template that an argument of this name gives; errors as of [`Self::new`].
    pub fn named(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let seen = call_python!(value.py(), "cogrs.replay.convert", "template", (name, value))?;
        let (native, dtype, shape): (Bound<'_, PyAny>, String, Vec<usize>) = seen.extract()?;
        let native = native.cast_into::<PyArrayDescr>()?;
        let spec = FieldSpec { dtype, itemsize: native.itemsize(), shape };
        Ok(Self::of(native, spec))
    }

    fn of(native: Bound<'_, PyArrayDescr>, spec: FieldSpec) -> Self {
        let scalar = if spec.shape.is_empty() { Scalar::of(&native) } else { None };
        let is_float32 = (native.kind(), native.itemsize()) == (b'f', size_of::<f32>());
        Self { spec, dtype: native.unbind(), scalar, is_float32 }
    }

    /// The template of a field that was saved; `ValueError` when NumPy has no such dtype.
    pub fn saved(py: Python<'_>, name: &str, spec: &FieldSpec) -> PyResult<Self> {
        let dtype = call_python!(py, "cogrs.dtypes", "dtype_of", (&spec.dtype, name))?;
        let (native, text): (Bound<'_, PyAny>, String) =
            call_python!(py, "cogrs.replay.convert", "native", (name, dtype))?.extract()?;
        let native = native.cast_into::<PyArrayDescr>()?;
        let found =
            FieldSpec { dtype: text, itemsize: native.itemsize(), shape: spec.shape.clone() };
        if found == *spec {
            return Ok(Self::of(native, found));
        }
        let [expected, got] = [&found, spec].map(|spec| {
            let text: String = spec.dtype.chars().take(200).collect();
            format!("{text} of {} bytes", spec.itemsize)
        });
        Err(Error::value(name, expected, got).into())
    }

    pub fn spec(&self) -> &FieldSpec {
        &self.spec
    }

    pub fn dtype(&self) -> &Py<PyArrayDescr> {
        &self.dtype
    }

    pub fn zeros<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call_python!(py, "numpy", "zeros", (PyTuple::new(py, &self.spec.shape)?, &self.dtype))
    }

    /// A new array of these bytes.
    pub fn array<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyByteArray::new(py, bytes);
        let shape = PyTuple::new(py, &self.spec.shape)?;
        call_python!(py, "numpy", "ndarray", (shape, &self.dtype, bytes))
    }

    /// One value of this field; `TypeError` or `ValueError` that name `name`.
    #[inline]
    pub fn value<'py>(&self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<ValueBytes<'py>> {
        if let Some(array) = self.in_place(value, &[]) {
            return Ok(ValueBytes::Array(array));
        }
        if let Some(number) = self.scalar.and_then(|scalar| scalar.bytes_of(value)) {
            return Ok(number);
        }
        self.narrowed(value, &[]).map_or_else(|| self.convert(name, value, &[]), Ok)
    }

    /// `count` values of this field, along a leading dimension; errors as of [`Self::value`].
    pub fn values<'py>(
        &self,
        name: &str,
        value: &Bound<'py, PyAny>,
        count: usize,
    ) -> PyResult<ValueBytes<'py>> {
        let lead = [count];
        if let Some(array) = self.in_place(value, &lead) {
            return Ok(ValueBytes::Array(array));
        }
        self.narrowed(value, &lead).map_or_else(|| self.convert(name, value, &lead), Ok)
    }

    fn in_place<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        lead: &[usize],
    ) -> Option<Bound<'py, PyUntypedArray>> {
        // Not a subclass's, which may mean something else by its memory: a masked array does.
        let array = value.cast_exact::<PyUntypedArray>().ok()?;
        is_plain(array, &self.dtype, lead, &self.spec.shape).then(|| array.clone())
    }

    /// float64 where float32 is wanted, as from many environments. None where NumPy is to convert, or to
    /// refuse with its reasons.
    fn narrowed<'py>(&self, value: &Bound<'py, PyAny>, lead: &[usize]) -> Option<ValueBytes<'py>> {
        if !self.is_float32 {
            return None;
        }
        let array = value.cast_exact::<PyArrayDyn<f64>>().ok()?;
        if !has_shape(array.shape(), lead, &self.spec.shape) || !array.is_c_contiguous() {
            return None;
        }
        let array = array.try_readonly().ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(array.len() * size_of::<f32>()).ok()?;
        for &wide in array.as_slice().ok()? {
            let narrow = wide as f32;
            if wide.is_finite() && !narrow.is_finite() {
                return None;
            }
            bytes.extend(narrow.to_ne_bytes());
        }
        Some(ValueBytes::Copy(bytes))
    }

    #[cold]
    fn convert<'py>(
        &self,
        name: &str,
        value: &Bound<'py, PyAny>,
        lead: &[usize],
    ) -> PyResult<ValueBytes<'py>> {
        let py = value.py();
        let shape = PyTuple::new(py, [lead, &self.spec.shape].concat())?;
        let arguments = (name, value, &self.dtype, shape);
        let array = call_python!(py, "cogrs.replay.convert", "convert", arguments)?;
        Ok(ValueBytes::Array(array.cast_into::<PyUntypedArray>()?))
    }
}

/// The template of recurrent states, and how the core stores them.
pub fn recurrent_args(
    recurrent: Option<&Bound<'_, PyAny>>,
    period: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Option<Template>, Option<RecurrentSpec>)> {
    let period = period.map_or(Ok(1), |period| size("recurrent_period", period, 1))?;
    let Some(value) = recurrent else { return Ok((None, None)) };
    let template = Template::named("recurrent", value)?;
    let field = template.spec().clone();
    let initial = template.value("recurrent", value)?.bytes().to_vec();
    let spec = RecurrentSpec::new(field, initial, period)?;
    Ok((Some(template), Some(spec)))
}
