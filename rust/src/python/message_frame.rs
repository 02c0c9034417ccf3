//! Frames of messages: bytes that were received, where they lie.
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
    /// Takes the bytes of a frame; `TypeError` when it is not a buffer.
    pub fn new(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A memoryview fills in the strides that ZeroMQ's frames leave out.
        let buffer = PyBuffer::get(PyMemoryView::from(frame)?.as_any())?;
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("frames: expected C-contiguous bytes"));
        }
        let start = NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        Ok(Self { start, len: buffer.len_bytes(), _buffer: buffer })
    }
}

impl AsRef<[u8]> for MessageFrame {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer is C-contiguous and held by `self`, so its `len` bytes stay where they are;
        // a null pointer comes with a length of 0. Stores are filled only by the code that
        // receives messages, with frames that nothing else has, so nothing writes to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

pub fn message_frames(frames: &Bound<'_, PyList>) -> PyResult<Vec<MessageFrame>> {
    frames.iter().map(|frame| MessageFrame::new(&frame)).collect()
}
