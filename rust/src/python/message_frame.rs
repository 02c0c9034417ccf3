//! Bytes that were received, where they lie.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView};

/// Bytes of a Python object that does not change them, kept where they are.
#[derive(Debug)]
pub struct MessageFrame {
    /// Keeps the bytes where they are.
    _buffer: PyBuffer<u8>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are only ever read, and dropping the buffer takes the interpreter by itself.
unsafe impl Send for MessageFrame {}
// SAFETY: as above.
unsafe impl Sync for MessageFrame {}

impl MessageFrame {
    /// The bytes of a frame.
    ///
    /// # Errors
    /// `TypeError` when it is none.
    pub fn new(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A memoryview fills in the strides that ZeroMQ's frames leave out.
        let buffer = PyBuffer::get(PyMemoryView::from(frame)?.as_any())?;
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("frames: expected bytes that lie together"));
        }
        let start = NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        Ok(Self { start, len: buffer.len_bytes(), _buffer: buffer })
    }
}

impl AsRef<[u8]> for MessageFrame {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer is C-contiguous and held by `self`, so its `len` bytes stay where they are;
        // where there is no pointer there are no bytes. Only who receives messages
        // makes stores of them, with frames that are given to nobody else, so nothing writes to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// The columns of a message.
///
/// # Errors
/// `TypeError` when one is no buffer.
pub fn columns(frames: &Bound<'_, PyList>) -> PyResult<Vec<MessageFrame>> {
    frames.iter().map(|frame| MessageFrame::new(&frame)).collect()
}
