//! Numbers of Python's and of NumPy's, converted without NumPy.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyType};

use crate::python::value_bytes::ValueBytes;

/// The dtypes for which a Python number is converted without NumPy.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    F32,
    F64,
    /// An integer of this many bits.
    Signed(u32),
    Unsigned(u32),
}

/// The scalars of NumPy's that environments and networks give.
#[derive(Debug, Clone, Copy)]
enum NumpyScalar {
    Float,
    Signed,
    Unsigned,
}

impl NumpyScalar {
    fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        static TYPES: PyOnceLock<Vec<(Py<PyType>, NumpyScalar)>> = PyOnceLock::new();
        let py = value.py();
        let named = [
            ("float32", Self::Float),
            ("int64", Self::Signed),
            ("int32", Self::Signed),
            ("uint8", Self::Unsigned),
            ("int8", Self::Signed),
            ("int16", Self::Signed),
            ("uint16", Self::Unsigned),
            ("uint32", Self::Unsigned),
        ];
        let look_up = || -> PyResult<Vec<_>> {
            let numpy = py.import("numpy")?;
            let mut types = Vec::with_capacity(named.len());
            for (name, kind) in named {
                types.push((numpy.getattr(name)?.cast_into::<PyType>()?.unbind(), kind));
            }
            Ok(types)
        };
        let types = TYPES.get_or_try_init(py, look_up).ok()?;
        let class = value.get_type_ptr();
        types.iter().find(|(each, _)| each.as_ptr().cast() == class).map(|(_, kind)| *kind)
    }
}

impl Scalar {
    /// A number of Python's or of NumPy's as bytes of this dtype. None where NumPy has to convert, or to refuse
    /// with its reasons.
    pub fn bytes_of<'py>(self, value: &Bound<'py, PyAny>) -> Option<ValueBytes<'py>> {
        if let Ok(float) = value.cast::<PyFloat>() {
            return self.bytes_of_f64(float.extract().ok()?);
        }
        if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
            return self.bytes_of_i64(value.extract().ok()?);
        }
        match (NumpyScalar::of(value)?, self) {
            (NumpyScalar::Float, Self::F32 | Self::F64) => self.bytes_of_f64(value.extract().ok()?),
            (NumpyScalar::Float, _) | (NumpyScalar::Signed, Self::Unsigned(_)) => None,
            (NumpyScalar::Signed | NumpyScalar::Unsigned, _) => {
                self.bytes_of_i64(value.extract().ok()?)
            }
        }
    }

    /// The scalar of a dtype; None where NumPy has to convert.
    pub fn of(dtype: &Bound<'_, PyArrayDescr>) -> Option<Self> {
        let bits = dtype.itemsize() as u32 * 8;
        match (dtype.kind(), bits) {
            (b'f', 32) => Some(Self::F32),
            (b'f', 64) => Some(Self::F64),
            (b'i', 8..=64) => Some(Self::Signed(bits)),
            (b'u', 8..=64) => Some(Self::Unsigned(bits)),
            _ => None,
        }
    }

    /// None where NumPy has to convert, or to refuse with its reasons.
    fn bytes_of_f64<'py>(self, value: f64) -> Option<ValueBytes<'py>> {
        match self {
            Self::F64 => Some(ValueBytes::number(&value.to_ne_bytes())),
            Self::F32 => {
                let narrow = value as f32;
                let fits = narrow.is_finite() || !value.is_finite();
                fits.then(|| ValueBytes::number(&narrow.to_ne_bytes()))
            }
            _ => None,
        }
    }

    fn bytes_of_i64<'py>(self, value: i64) -> Option<ValueBytes<'py>> {
        match self {
            // Not by way of f64, which would round twice.
            Self::F32 => Some(ValueBytes::number(&(value as f32).to_ne_bytes())),
            Self::F64 => Some(ValueBytes::number(&(value as f64).to_ne_bytes())),
            Self::Signed(bits) => {
                let shift = 64 - bits;
                let fits = (value << shift) >> shift == value;
                fits.then(|| ValueBytes::low_bytes(value as u64, bits))
            }
            Self::Unsigned(bits) => {
                let fits = value >= 0 && (value as u64) <= u64::MAX >> (64 - bits);
                fits.then(|| ValueBytes::low_bytes(value as u64, bits))
            }
        }
    }
}
