//! NumPy arrays in and out.
//!
//! Coming in, the usual cases (an array of the right dtype and shape, a Python number) are read in place;
//! everything else goes through `cogrs.replay.convert`, which converts or refuses.
#![allow(unsafe_code)]

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, flags::NPY_ARRAY_CARRAY};
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArray1,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

use crate::error::Error;
use crate::python::args::{number, wrong_type};
use crate::python::exit::python_code;
use crate::python::scalar::Scalar;
use crate::python::value_bytes::ValueBytes;
use crate::replay::column::check_allocatable;
use crate::spec::{Field, FieldSpec};

/// dtype and shape that the values of a field must have.
#[derive(Debug)]
pub struct Template {
    field: Field,
    spec: FieldSpec,
    dtype: Py<PyArrayDescr>,
    scalar: Option<Scalar>,
    is_float32: bool,
}

impl Template {
    /// Takes dtype and shape from anything that NumPy can see as an array.
    ///
    /// # Errors
    /// `TypeError` when its dtype is refused: it holds objects, for one.
    pub fn new(field: Field, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let name = format!("{}_buf", field.name());
        let convert = py.import(intern!(py, "cogrs.replay.convert"))?;
        let look = || convert.call_method1(intern!(py, "template"), (&name, value));
        let (native, dtype, shape): (Bound<'_, PyAny>, String, Vec<usize>) =
            python_code(py, look)?.extract()?;
        let native = native.cast_into::<PyArrayDescr>()?;
        let spec = FieldSpec { dtype, itemsize: native.itemsize(), shape };
        Ok(Self::of(field, native, spec))
    }

    fn of(field: Field, native: Bound<'_, PyArrayDescr>, spec: FieldSpec) -> Self {
        let scalar = if spec.shape.is_empty() { Scalar::of(&native) } else { None };
        let is_float32 = (native.kind(), native.itemsize()) == (b'f', size_of::<f32>());
        Self { field, spec, dtype: native.unbind(), scalar, is_float32 }
    }

    /// The template of a field that was saved.
    ///
    /// # Errors
    /// `ValueError` when NumPy has no such dtype.
    pub fn saved(py: Python<'_>, field: Field, spec: &FieldSpec) -> PyResult<Self> {
        let name = field.name();
        let dtypes = py.import(intern!(py, "cogrs.dtypes"))?;
        let dtype = dtypes.call_method1(intern!(py, "dtype_of"), (&spec.dtype, name))?;
        let convert = py.import(intern!(py, "cogrs.replay.convert"))?;
        let (native, text): (Bound<'_, PyAny>, String) =
            convert.call_method1(intern!(py, "native"), (name, dtype))?.extract()?;
        let found = FieldSpec {
            dtype: text,
            itemsize: native.cast::<PyArrayDescr>()?.itemsize(),
            shape: spec.shape.clone(),
        };
        if found == *spec {
            return Ok(Self::of(field, native.cast_into()?, found));
        }
        let [expected, got] = [&found, spec].map(|spec| {
            let text: String = spec.dtype.chars().take(200).collect();
            format!("{text} of {} bytes", spec.itemsize)
        });
        Err(Error::value(name, expected, got).into())
    }

    /// dtype and shape without Python.
    pub fn spec(&self) -> &FieldSpec {
        &self.spec
    }

    /// The dtype.
    pub fn dtype(&self) -> &Py<PyArrayDescr> {
        &self.dtype
    }

    /// Zeros of this dtype and shape.
    ///
    /// # Errors
    /// Whatever NumPy raises.
    pub fn zeros<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let numpy = py.import(intern!(py, "numpy"))?;
        let shape = PyTuple::new(py, &self.spec.shape)?;
        numpy.call_method1(intern!(py, "zeros"), (shape, &self.dtype))
    }

    /// One value of this field.
    ///
    /// # Errors
    /// `TypeError` or `ValueError` that name `name`.
    #[inline]
    pub fn value<'py>(&self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<ValueBytes<'py>> {
        if let Some(array) = self.in_place(value, &[]) {
            return Ok(ValueBytes::Array(array));
        }
        if let Some(number) = self.scalar.and_then(|scalar| scalar.given(value)) {
            return Ok(number);
        }
        match self.narrowed(value, &[]) {
            Some(narrowed) => Ok(narrowed),
            None => self.convert(name, value, &[]),
        }
    }

    /// `count` values of this field, along a leading dimension.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn values<'py>(
        &self,
        name: &str,
        value: &Bound<'py, PyAny>,
        count: usize,
    ) -> PyResult<ValueBytes<'py>> {
        if let Some(array) = self.in_place(value, &[count]) {
            return Ok(ValueBytes::Array(array));
        }
        match self.narrowed(value, &[count]) {
            Some(narrowed) => Ok(narrowed),
            None => self.convert(name, value, &[count]),
        }
    }

    fn in_place<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        lead: &[usize],
    ) -> Option<Bound<'py, PyUntypedArray>> {
        // Not a subclass's, which may mean something else by its memory: a masked array does.
        let array = value.cast_exact::<PyUntypedArray>().ok()?;
        let fits = self.has_shape(array.shape(), lead)
            && array.is_c_contiguous()
            && array.dtype().is_equiv_to(self.dtype.bind(value.py()));
        fits.then(|| array.clone())
    }

    fn has_shape(&self, shape: &[usize], lead: &[usize]) -> bool {
        shape.len() == lead.len() + self.spec.shape.len()
            && shape[..lead.len()] == *lead
            && shape[lead.len()..] == *self.spec.shape
    }

    /// float64 where float32 is wanted, as from many environments. None where NumPy is to convert, or to
    /// refuse with its reasons.
    fn narrowed<'py>(&self, value: &Bound<'py, PyAny>, lead: &[usize]) -> Option<ValueBytes<'py>> {
        if !self.is_float32 {
            return None;
        }
        let array = value.cast_exact::<PyArrayDyn<f64>>().ok()?;
        if !self.has_shape(array.shape(), lead) || !array.is_c_contiguous() {
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
        let shape: Vec<usize> = lead.iter().chain(&self.spec.shape).copied().collect();
        let module = py.import(intern!(py, "cogrs.replay.convert"))?;
        let shape = PyTuple::new(py, shape)?;
        let given = (name, value, &self.dtype, shape);
        let converted = python_code(py, || module.call_method1(intern!(py, "convert"), given))?;
        Ok(ValueBytes::Array(converted.cast_into::<PyUntypedArray>()?))
    }

    /// The field's long name.
    pub fn name(&self) -> &'static str {
        self.field.name()
    }
}

/// Whether an array can be looked into as it is: a view counts strides in elements, and a field of packed
/// records, whose elements lie at any address, has others.
pub fn is_viewable(array: &Bound<'_, PyUntypedArray>) -> bool {
    let size = array.dtype().itemsize().max(1) as isize;
    array.is_aligned() && array.strides().iter().all(|stride| stride % size == 0)
}

/// The values of an array as it comes from a learner: float32 or float64, one dimension.
fn plain_numbers(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<f64>>> {
    if !value.cast::<PyUntypedArray>().is_ok_and(is_viewable) {
        return Ok(None);
    }
    if let Ok(array) = value.cast_exact::<PyArray1<f64>>() {
        check_allocatable(array.len().saturating_mul(size_of::<f64>()))?;
        return Ok(array.try_readonly().ok().map(|array| array.as_array().to_vec()));
    }
    if let Ok(array) = value.cast_exact::<PyArray1<f32>>() {
        check_allocatable(array.len().saturating_mul(size_of::<f64>()))?;
        let widened = |array: PyReadonlyArray1<'_, f32>| {
            array.as_array().iter().map(|&value| f64::from(value)).collect()
        };
        return Ok(array.try_readonly().ok().map(widened));
    }
    Ok(None)
}

/// Numbers of a one-dimensional argument, or one number, as float64.
///
/// # Errors
/// `TypeError` or `ValueError` that name `name`.
pub fn numbers(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Numbers> {
    if value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>() {
        return Ok(Numbers::One(number(name, value)?));
    }
    if let Some(values) = plain_numbers(value)? {
        return Ok(Numbers::Many(values));
    }
    let py = value.py();
    let module = py.import(intern!(py, "cogrs.replay.convert"))?;
    let array = python_code(py, || module.call_method1(intern!(py, "numbers"), (name, value)))?;
    let array =
        array.cast::<numpy::PyArrayDyn<f64>>().map_err(|_| wrong_type(name, "numbers", value))?;
    check_allocatable(array.len().saturating_mul(size_of::<f64>()))?;
    let values: Vec<f64> = numpy::PyArrayMethods::to_vec(array)?;
    match (array.ndim(), values.as_slice()) {
        (0, [one]) => Ok(Numbers::One(*one)),
        _ => Ok(Numbers::Many(values)),
    }
}

/// One number or a list of them.
#[derive(Debug, Clone)]
pub enum Numbers {
    /// A scalar.
    One(f64),
    /// One dimension.
    Many(Vec<f64>),
}

impl Numbers {
    /// `count` numbers; a scalar stands for all of them.
    ///
    /// # Errors
    /// `ValueError` when there are more or fewer.
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

/// Makes an array over memory that `owner` keeps.
///
/// # Safety
/// `data` must point to memory of the array's size, aligned for `dtype`, that lives and stays in place as
/// long as `owner` does and that nothing but arrays made over it reads or writes.
///
/// # Errors
/// Whatever NumPy raises, for example for more dimensions than it has.
pub unsafe fn over<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    data: *mut u8,
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let mut dims: Vec<npyffi::npy_intp> =
        shape.iter().map(|&dim| dim as npyffi::npy_intp).collect();
    // SAFETY: the first call takes over one reference to `dtype`, copies `dims` and returns a new reference
    // or null with an exception set; the second takes over one reference to `owner`. The caller answers for
    // `data`.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            dims.len() as std::ffi::c_int,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast(),
            NPY_ARRAY_CARRAY,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let status =
            PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.clone().into_ptr());
        if status < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}
