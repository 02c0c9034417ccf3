//! Columns of caches that travel compressed: those of fields that the memories compress, each column as one value.
//!
//! What comes from a peer is decompressed into as many bytes as the templates say, and refused when it has others.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::error::Error;
use crate::python::cache_bytes::CacheBytes;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::MemoryHandle;
use crate::python::message_frame::message_frames;
use crate::replay::cache::CacheShape;
use crate::replay::codec::Codec;
use crate::replay::settings::Settings;
use crate::spec::{FIELDS, Field};

/// Columns of a cache at most: each has a bit.
const MOST: usize = 64;

/// The codec of each column, in the order of sending; None for those that travel as they are.
fn codecs(handle: &MemoryHandle, settings: &Settings, columns: usize) -> Vec<Option<Codec>> {
    let fields: Vec<Field> = if handle.cache_sequences.get().is_some() {
        Field::ALL.to_vec()
    } else {
        let flags = settings.cache_flags.iter().enumerate().filter(|(_, flag)| **flag);
        flags.map(|(at, _)| Field::ALL[at % FIELDS]).collect()
    };
    let mut codecs = vec![None; columns.saturating_sub(fields.len())];
    if let Some(compression) = &handle.compression {
        codecs.extend(fields.into_iter().map(|field| compression.codec(field)));
    }
    codecs.resize(columns.min(MOST), None);
    codecs
}

#[doc = stub_doc!(compress_cache)]
#[pyfunction]
pub fn compress_cache<'py>(
    py: Python<'py>,
    memory: &Bound<'py, ReplayMemory>,
    frames: &Bound<'py, PyList>,
) -> PyResult<(Bound<'py, PyList>, u64)> {
    let handle = &memory.get().handle;
    handle.check_process()?;
    let columns = message_frames(frames)?;
    let codecs = codecs(handle, &handle.settings(), columns.len());
    let compressed: Vec<Option<Vec<u8>>> = py.detach(|| {
        let pairs = columns.iter().zip(&codecs);
        pairs
            .map(|(column, codec)| {
                codec.and_then(|codec| codec.pack(column.as_ref(), <[u8]>::to_vec))
            })
            .collect()
    });
    let (made, mut bits) = (PyList::new(py, frames.iter())?, 0);
    for (at, column) in compressed.into_iter().enumerate() {
        if let Some(column) = column {
            made.set_item(at, PyBytes::new(py, &column))?;
            bits |= 1 << at;
        }
    }
    Ok((made, bits))
}

/// Which columns of a cache are compressed, a bit for each, and the bytes of the largest column that is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compressed {
    pub bits: u64,
    pub max_frame: usize,
}

/// The columns of a cache of which some came compressed. Fails with [`Error::Value`] where these are not such columns.
pub(super) fn decompressed(
    py: Python<'_>,
    handle: &MemoryHandle,
    settings: &Settings,
    shape: &CacheShape,
    rows: usize,
    frames: Vec<CacheBytes>,
    Compressed { bits, max_frame }: Compressed,
) -> PyResult<Vec<CacheBytes>> {
    let mut frames = frames;
    let sizes = shape.sizes();
    if frames.len() != sizes.len() {
        let expected = format!("{} columns", sizes.len());
        return Err(Error::value("columns", expected, frames.len()).into());
    }
    let codecs = codecs(handle, settings, frames.len());
    let mut packed: Vec<(usize, Codec, Range<usize>)> = Vec::new();
    let mut end = 0;
    for at in (0..MOST).filter(|at| bits >> at & 1 == 1) {
        let Some(codec) = codecs.get(at).copied().flatten() else {
            return Err(Error::value("columns", "a plain one", "a compressed one").into());
        };
        // The peer chooses the number of rows, which says how much is allocated.
        let size = sizes[at].checked_mul(rows).filter(|&size| size <= max_frame);
        let size = size.ok_or_else(|| {
            Error::value("rows", format!("columns of at most {max_frame} bytes"), rows)
        })?;
        packed.push((at, codec, end..end + size));
        end += size;
    }
    let mut block = handle.pool.take(end)?;
    let out = block.bytes();
    py.detach(|| {
        for (at, codec, bytes) in &packed {
            let size = bytes.len();
            let done = codec.decompress(frames[*at].as_ref(), &mut out[bytes.clone()]);
            done.map_err(|_| Error::value("columns", format!("{size} bytes"), "others"))?;
        }
        Ok::<(), Error>(())
    })?;
    let block = Arc::new(block);
    for (at, _, bytes) in packed {
        frames[at] = CacheBytes::Decompressed(Arc::clone(&block), bytes);
    }
    Ok(frames)
}
