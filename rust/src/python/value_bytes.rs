//! The bytes of a value that Python gives for a field.
#![allow(unsafe_code)]

use numpy::npyffi;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::available_memory::check_allocatable;
use crate::error::Error;

/// Bytes of a field's value or values, C-contiguous, in native order.
#[derive(Debug)]
pub enum ValueBytes<'py> {
    Array(Bound<'py, PyUntypedArray>),
    /// A Python number: the bytes, and how many of them count.
    Number([u8; 8], usize),
    /// A copy, which nothing else can change.
    Copy(Vec<u8>),
}

impl ValueBytes<'_> {
    pub(super) fn number(bytes: &[u8]) -> Self {
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        Self::Number(number, bytes.len())
    }

    pub(super) fn low_bytes(value: u64, bits: u32) -> Self {
        let bytes = value.to_ne_bytes();
        let size = bits as usize / 8;
        if cfg!(target_endian = "big") {
            Self::number(&bytes[8 - size..])
        } else {
            Self::number(&bytes[..size])
        }
    }

    /// The same value where nothing else can change it; [`Error::Memory`] when memory does not suffice for a copy.
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
    /// argument may have run any code, and changed this one. Otherwise [`Error::Value`].
    #[inline]
    pub fn exactly(&self, name: &str, size: usize) -> Result<&[u8], Error> {
        let bytes = self.bytes();
        if bytes.len() == size {
            return Ok(bytes);
        }
        let got = format!("{} bytes: it was resized during the call", bytes.len());
        Err(Error::value(name, format!("{size} bytes"), got))
    }

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
                // SAFETY: the array is C-contiguous (`is_plain` checked it, `convert` makes it so), so its
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
