//! The bytes of a cache's columns: frames as they were received, or columns in a server's folder.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;
use crate::python::block::BatchMemory;
use crate::python::message_frame::MessageFrame;
use crate::replay::cache::Cache;
use crate::replay::cache_files::{CacheFiles, FileColumn, LARGE_COLUMN};
use crate::replay::cache_store::TakenSamples;

/// The bytes of a column, or of a whole cache that came as one frame.
#[derive(Debug)]
pub enum CacheBytes {
    Received(MessageFrame),
    /// Came compressed; the block has all such columns of the cache.
    Decompressed(Arc<BatchMemory>, Range<usize>),
    OnDisk(FileColumn),
}

impl AsRef<[u8]> for CacheBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Received(frame) => frame.as_ref(),
            Self::Decompressed(block, bytes) => &block.as_slice()[bytes.clone()],
            Self::OnDisk(column) => column.as_ref(),
        }
    }
}

/// Moves the large columns of a cache to a file. Their frames, which need the interpreter to be dropped, are returned.
pub fn move_to_disk(cache: &mut Cache<CacheBytes>, files: &CacheFiles) -> Result<Vec<CacheBytes>> {
    let is_large = |frame: &CacheBytes| frame.as_ref().len() >= LARGE_COLUMN;
    let columns: Vec<&[u8]> =
        cache.frames().iter().filter(|frame| is_large(frame)).map(AsRef::as_ref).collect();
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let written = files.write(&columns)?;
    let frames = cache.frames_mut().iter_mut().filter(|frame| is_large(frame));
    Ok(frames
        .zip(written)
        .map(|(frame, column)| std::mem::replace(frame, CacheBytes::OnDisk(column)))
        .collect())
}

/// Has the system begin to read what is not in memory, all of it side by side.
pub fn read_ahead(taken: &TakenSamples<CacheBytes>) {
    taken.visit(|frame, bytes| {
        if let CacheBytes::OnDisk(column) = frame {
            column.read_ahead(bytes);
        }
    });
}

#[doc = stub_doc!(CacheFrames)]
#[pyclass(frozen, sequence, module = "cogrs._core")]
#[derive(Debug)]
pub struct CacheFrames {
    pub cache: Arc<Cache<CacheBytes>>,
}

#[pymethods]
impl CacheFrames {
    fn __len__(&self) -> usize {
        self.cache.frames().len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        let frame = self.cache.frames().get(index);
        let frame = frame.ok_or_else(|| PyIndexError::new_err("frame index"))?;
        Ok(PyBytes::new(py, frame.as_ref()))
    }

    #[doc = stub_doc!(CacheFrames.sizes)]
    fn sizes(&self) -> Vec<usize> {
        self.cache.frames().iter().map(|frame| frame.as_ref().len()).collect()
    }
}
