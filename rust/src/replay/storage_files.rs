//! Which columns of a memory lie in its folder.

use std::sync::Arc;

use crate::available_memory::available_memory;
use crate::error::{Error, Result};
use crate::replay::compression::{COMPRESSIBLE, Compression};
use crate::replay::storage_folder::{ColumnFile, StorageFolder};
use crate::spec::{EntrySpec, Field};

/// Fields of at most so many bytes, two cache lines, share a record.
pub(super) const RECORD_FIELD: usize = 128;

/// Whether a folder has this field of a memory where it is not compressed: one of those that are written once.
pub(super) fn is_stored_in_file(spec: &EntrySpec, field: Field) -> bool {
    COMPRESSIBLE.contains(&field) && spec[field].nbytes() > RECORD_FIELD
}

/// The files of a memory.
#[derive(Debug)]
pub(super) struct StorageFiles {
    pub folder: Arc<StorageFolder>,
    /// The number, the bytes per row and the file of each column that has one.
    pub columns: Vec<(usize, usize, ColumnFile)>,
    /// Bytes that memory could hold of the files when they were created.
    pub cacheable: u64,
    /// Whether the files are larger than that, so that draws wait for the disk.
    pub reads_ahead: bool,
}

impl StorageFiles {
    pub fn new(folder: &Arc<StorageFolder>) -> Self {
        let cacheable = available_memory();
        Self { folder: Arc::clone(folder), columns: Vec::new(), cacheable, reads_ahead: false }
    }
}

/// Bytes of an entry's fields that lie in a folder uncompressed.
pub(super) fn file_bytes(spec: &EntrySpec, compression: &Compression) -> usize {
    let plain = |field: &Field| compression.codec(*field).is_none();
    let fields = Field::ALL.into_iter().filter(plain);
    fields.filter(|&field| is_stored_in_file(spec, field)).map(|field| spec[field].nbytes()).sum()
}

/// Fails with [`Error::Value`] for a memory of which a folder would hold nothing.
pub(super) fn check_storage(spec: &EntrySpec, compression: &Compression) -> Result<()> {
    if file_bytes(spec, compression) > 0 || !compression.is_empty() {
        return Ok(());
    }
    let expected =
        "None for a memory without a state, action or info of more than 128 bytes, or compressed";
    Err(Error::value("storage", expected, "a folder"))
}
