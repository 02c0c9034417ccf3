//! Chunks of compressed values in a file, each in adjacent granules.
//!
//! Granules are taken around and around, as slots are: with the oldest episode evicted first, what is free stays in one piece.

use std::sync::Arc;

use crate::error::Result;
use crate::replay::free_slots::{FreeSlots, SlotRun};
use crate::replay::mapped_array::MappedArray;
use crate::replay::storage_folder::{ColumnFile, StorageFolder};

/// Bytes of a granule, unless a file would have more than 2^31 of them.
const GRANULE: u64 = 64;

/// Where a chunk lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeapChunk {
    run: SlotRun,
    pub len: usize,
}

/// The chunks of a column.
#[derive(Debug)]
pub(super) struct ValueHeap {
    file: ColumnFile,
    bytes: MappedArray<u8>,
    free: FreeSlots,
    granule: u64,
    /// Bytes of the chunks held.
    pub held: u64,
}

impl ValueHeap {
    /// A heap for `limit` bytes, and an eighth more that pieces between chunks may take. Fails with
    /// [`crate::error::Error::File`] or [`crate::error::Error::Memory`].
    pub fn new(folder: &Arc<StorageFolder>, limit: u64) -> Result<Self> {
        let size = limit.saturating_add(limit / 8).saturating_add(1 << 20).min(1 << 46);
        let granule = GRANULE.max(size.div_ceil(1 << 31).next_power_of_two());
        let size = size.next_multiple_of(granule);
        let file = ColumnFile::new(folder, size as usize)?;
        let bytes = file.map(size as usize)?;
        let free = FreeSlots::new((size / granule) as u32);
        Ok(Self { file, bytes, free, granule, held: 0 })
    }

    /// Reserves room for `count` further chunks, of so many bytes together. Fails with [`crate::error::Error::File`].
    pub fn reserve(&mut self, bytes: u64, count: u64) -> Result<()> {
        let end = u64::from(self.free.highest()) * self.granule;
        self.file.reserve(end.saturating_add(bytes).saturating_add(count * self.granule))
    }

    /// Stores a chunk; None where no piece that is free is large enough, or the disk has no room for it.
    pub fn put(&mut self, chunk: &[u8]) -> Option<HeapChunk> {
        let granules = u32::try_from((chunk.len() as u64).div_ceil(self.granule)).ok()?;
        let run = self.free.take_whole(granules)?;
        let start = u64::from(run.start) * self.granule;
        let end = start + chunk.len() as u64;
        if self.file.reserve(end).and_then(|()| self.file.own(start..end)).is_err() {
            self.free.put_back(run);
            return None;
        }
        self.bytes[start as usize..end as usize].copy_from_slice(chunk);
        self.held += chunk.len() as u64;
        Some(HeapChunk { run, len: chunk.len() })
    }

    pub fn get(&self, chunk: HeapChunk) -> &[u8] {
        &self.bytes[self.offset(chunk) as usize..][..chunk.len]
    }

    pub fn give_back(&mut self, chunk: HeapChunk) {
        self.free.give_back(chunk.run);
        self.held -= chunk.len as u64;
    }

    /// Where a chunk begins in the file.
    pub fn offset(&self, chunk: HeapChunk) -> u64 {
        u64::from(chunk.run.start) * self.granule
    }

    /// The file, and how many of its bytes have been used.
    pub fn used(&self) -> (&ColumnFile, u64) {
        (&self.file, u64::from(self.free.highest()) * self.granule)
    }

    /// Has the system read a part of a chunk.
    pub fn read_ahead(&self, chunk: HeapChunk, offset: usize, len: usize) {
        let start = self.offset(chunk) as usize + offset;
        self.bytes.read_ahead(start..start + len.min(chunk.len - offset));
    }
}
