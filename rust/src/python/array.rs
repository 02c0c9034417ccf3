//! NumPy arrays in and out.
//!
//! Coming in, the usual cases (an array of the right dtype and shape, a Python number) are read in place;
//! everything else goes through `cogrs.replay.convert`, which converts or refuses.
#![allow(unsafe_code)]

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, flags::NPY_ARRAY_CARRAY};
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArray1, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use crate::error::Error;
use crate::python::args::{mistyped, number};
use crate::replay::column::check_allocatable;
use crate::spec::{Field, FieldSpec};

/// dtype and shape that the values of a field must have.
#[derive(Debug)]
pub struct Template {
    field: Field,
    spec: FieldSpec,
    dtype: Py<PyArrayDescr>,
    scalar: Option<Scalar>,
}

/// The dtypes for which a Python number is converted without NumPy.
#[derive(Debug, Clone, Copy)]
enum Scalar {
    F32,
    F64,
    Signed(u32),
    Unsigned(u32),
}

impl Template {
    /// Takes dtype and shape from anything that NumPy can see as an array.
    ///
    /// # Errors
    /// `TypeError` when its dtype holds objects.
    pub fn new(field: Field, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let name = format!("{}_buf", field.name());
        let numpy = py.import(intern!(py, "numpy"))?;
        let array = numpy.call_method1(intern!(py, "asarray"), (value,)).map_err(|error| {
            PyTypeError::new_err(format!("{name}: expected an array, got {error}"))
        })?;
        let array = array.cast_into::<PyUntypedArray>()?;
        let dtype = array.dtype();
        if dtype.has_object() {
            let got = dtype.str()?;
            return Err(Error::kind(name, "a dtype of fixed size without objects", got).into());
        }
        let native = dtype.call_method1(intern!(py, "newbyteorder"), ("=",))?;
        let native = native.cast_into::<PyArrayDescr>()?;
        let convert = py.import(intern!(py, "cogrs.replay.convert"))?;
        let spec = FieldSpec {
            dtype: convert.call_method1(intern!(py, "dtype_text"), (&native,))?.extract()?,
            itemsize: native.itemsize(),
            shape: array.shape().to_vec(),
        };
        let scalar = if spec.shape.is_empty() { Scalar::of(&native) } else { None };
        Ok(Self { field, spec, dtype: native.unbind(), scalar })
    }

    /// The template of a field that was saved.
    ///
    /// # Errors
    /// `ValueError` when NumPy has no such dtype.
    pub fn saved(py: Python<'_>, field: Field, spec: &FieldSpec) -> PyResult<Self> {
        let convert = py.import(intern!(py, "cogrs.replay.convert"))?;
        let dtype = convert.call_method1(intern!(py, "dtype_of"), (&spec.dtype,))?;
        let numpy = py.import(intern!(py, "numpy"))?;
        let shape = PyTuple::new(py, &spec.shape)?;
        let template =
            Self::new(field, &numpy.call_method1(intern!(py, "empty"), (shape, dtype))?)?;
        if template.spec == *spec {
            return Ok(template);
        }
        let [expected, got] = [&template.spec, spec]
            .map(|spec| format!("{} of {} bytes {:?}", spec.dtype, spec.itemsize, spec.shape));
        Err(Error::value(field.name(), expected, got).into())
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
    pub fn value<'py>(&self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        if let Some(array) = self.in_place(value, &[]) {
            return Ok(Given::Array(array));
        }
        if let Some(number) = self.python_number(value) {
            return Ok(number);
        }
        self.convert(name, value, &[])
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
    ) -> PyResult<Given<'py>> {
        match self.in_place(value, &[count]) {
            Some(array) => Ok(Given::Array(array)),
            None => self.convert(name, value, &[count]),
        }
    }

    fn in_place<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        lead: &[usize],
    ) -> Option<Bound<'py, PyUntypedArray>> {
        let array = value.cast::<PyUntypedArray>().ok()?;
        let shape = array.shape();
        let fits = shape.len() == lead.len() + self.spec.shape.len()
            && shape[..lead.len()] == *lead
            && shape[lead.len()..] == *self.spec.shape
            && array.is_c_contiguous()
            && array.dtype().is_equiv_to(self.dtype.bind(value.py()));
        fits.then(|| array.clone())
    }

    fn python_number<'py>(&self, value: &Bound<'py, PyAny>) -> Option<Given<'py>> {
        let scalar = self.scalar?;
        if let Ok(float) = value.cast::<PyFloat>() {
            return scalar.bytes_of_f64(float.extract().ok()?);
        }
        if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
            return scalar.bytes_of_i64(value.extract().ok()?);
        }
        None
    }

    #[cold]
    fn convert<'py>(
        &self,
        name: &str,
        value: &Bound<'py, PyAny>,
        lead: &[usize],
    ) -> PyResult<Given<'py>> {
        let py = value.py();
        let shape: Vec<usize> = lead.iter().chain(&self.spec.shape).copied().collect();
        let module = py.import(intern!(py, "cogrs.replay.convert"))?;
        let shape = PyTuple::new(py, shape)?;
        let converted =
            module.call_method1(intern!(py, "convert"), (name, value, &self.dtype, shape))?;
        Ok(Given::Array(converted.cast_into::<PyUntypedArray>()?))
    }

    /// The field's long name.
    pub fn name(&self) -> &'static str {
        self.field.name()
    }
}

impl Scalar {
    fn of(dtype: &Bound<'_, PyArrayDescr>) -> Option<Self> {
        let bits = dtype.itemsize() as u32 * 8;
        match (dtype.kind(), bits) {
            (b'f', 32) => Some(Self::F32),
            (b'f', 64) => Some(Self::F64),
            (b'i', 8..=64) => Some(Self::Signed(bits)),
            (b'u', 8..=64) => Some(Self::Unsigned(bits)),
            _ => None,
        }
    }

    /// None where NumPy is to convert, or to refuse with its reasons.
    fn bytes_of_f64<'py>(self, value: f64) -> Option<Given<'py>> {
        match self {
            Self::F64 => Some(Given::number(&value.to_ne_bytes())),
            Self::F32 => {
                let narrow = value as f32;
                let fits = narrow.is_finite() || !value.is_finite();
                fits.then(|| Given::number(&narrow.to_ne_bytes()))
            }
            _ => None,
        }
    }

    fn bytes_of_i64<'py>(self, value: i64) -> Option<Given<'py>> {
        match self {
            Self::F32 | Self::F64 => self.bytes_of_f64(value as f64),
            Self::Signed(bits) => {
                let shift = 64 - bits;
                let fits = (value << shift) >> shift == value;
                fits.then(|| Given::low_bytes(value as u64, bits))
            }
            Self::Unsigned(bits) => {
                let fits = value >= 0 && (value as u64) <= u64::MAX >> (64 - bits);
                fits.then(|| Given::low_bytes(value as u64, bits))
            }
        }
    }
}

/// Bytes of a field's value or values, C-contiguous, in native order.
#[derive(Debug)]
pub enum Given<'py> {
    /// An array of the field's dtype.
    Array(Bound<'py, PyUntypedArray>),
    /// A Python number: so many of these bytes.
    Number([u8; 8], usize),
    /// A copy, which nobody else can change.
    Copy(Vec<u8>),
}

impl Given<'_> {
    fn number(bytes: &[u8]) -> Self {
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        Self::Number(number, bytes.len())
    }

    fn low_bytes(value: u64, bits: u32) -> Self {
        let bytes = value.to_ne_bytes();
        let size = bits as usize / 8;
        if cfg!(target_endian = "big") {
            Self::number(&bytes[8 - size..])
        } else {
            Self::number(&bytes[..size])
        }
    }

    /// The same value where nobody else can change it.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is none for a copy.
    pub fn owned(self) -> Result<Self, Error> {
        match self {
            Self::Array(_) => {
                let bytes = self.bytes();
                check_allocatable(bytes.len())?;
                Ok(Self::Copy(bytes.to_vec()))
            }
            other => Ok(other),
        }
    }

    /// The bytes, when they are still as many as when the value was looked at: the conversion of another
    /// argument may have run any code, and changed this one.
    ///
    /// # Errors
    /// [`Error::Value`] when they are not.
    #[inline]
    pub fn exactly(&self, name: &str, size: usize) -> Result<&[u8], Error> {
        let bytes = self.bytes();
        if bytes.len() == size {
            return Ok(bytes);
        }
        let got = format!("{} bytes: it was resized during the call", bytes.len());
        Err(Error::value(name, format!("{size} bytes"), got))
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Copy(bytes) => bytes,
            Self::Number(bytes, len) => &bytes[..*len],
            Self::Array(array) => {
                let len = array.len() * array.dtype().itemsize();
                if len == 0 {
                    return &[];
                }
                // SAFETY: the array is C-contiguous (`in_place` checked it, `convert` makes it so), so its
                // `len` bytes lie together from `data` on; `self` keeps it alive. Another Python thread
                // could write to it meanwhile: then the copy holds some mix of old and new bytes, which
                // are plain bytes either way.
                unsafe {
                    let fields = npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const());
                    std::slice::from_raw_parts((*fields).data.cast::<u8>(), len)
                }
            }
        }
    }

    /// The values, for a field of float32.
    pub fn floats(&self) -> Vec<f32> {
        let words = self.bytes().as_chunks::<4>().0;
        words.iter().map(|word| f32::from_ne_bytes(*word)).collect()
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
    let array = module.call_method1(intern!(py, "numbers"), (name, value))?;
    let array =
        array.cast::<numpy::PyArrayDyn<f64>>().map_err(|_| mistyped(name, "numbers", value))?;
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
