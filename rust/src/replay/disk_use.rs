//! How much of a memory's files has room on the disk, and how much lies there.

use std::sync::Arc;

use crate::error::Result;
use crate::replay::compression::Compression;
use crate::replay::free_slots::SlotRun;
use crate::replay::memory::{Memory, RESERVE};
use crate::replay::storage_files::file_bytes;
use crate::replay::storage_folder::StorageFolder;

/// What a memory has on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUse {
    /// The folder.
    pub folder: std::path::PathBuf,
    /// Bytes reserved on the disk.
    pub bytes: u64,
    /// Bytes that a full memory takes there, if compressed values get as small as those held.
    pub expected: u64,
    /// Bytes of compressed values that lie in memory: of open episodes, and such that the files had no room for.
    pub in_memory: u64,
}

impl Memory {
    /// Makes sure that the disk has room for `count` further entries, of whose compressed values there are so many bytes.
    /// Fails with [`crate::error::Error::File`].
    #[inline]
    pub(super) fn reserve_on_disk(&mut self, count: usize, bytes: u64) -> Result<()> {
        if self.storage.files.is_none() { Ok(()) } else { self.reserve_files(count, bytes) }
    }

    #[cold]
    fn reserve_files(&mut self, count: usize, bytes: u64) -> Result<()> {
        let Some(files) = &mut self.storage.files else { return Ok(()) };
        // Slots that have never been taken are taken in order.
        let end = self.free_slots.highest() as usize + count + RESERVE as usize;
        let mut reserved = 0;
        for (_, stride, file) in &mut files.columns {
            file.reserve((end.min(self.capacity) * *stride) as u64)?;
            reserved += file.reserved();
        }
        if let Some(fields) = &mut self.storage.compressed {
            reserved += fields.reserve(bytes, count)?;
        }
        files.reads_ahead = reserved > files.cacheable;
        Ok(())
    }

    /// Makes sure that `count` further entries are written to blocks of their own: a saved file may share others. Slots for
    /// them are free. Fails with [`crate::error::Error::File`].
    #[inline]
    pub(super) fn own_on_disk(&mut self, count: usize) -> Result<()> {
        let files = self.storage.files.as_ref();
        let is_shared =
            files.is_some_and(|files| files.columns.iter().any(|(.., file)| file.is_shared()));
        if is_shared { self.own_files(count) } else { Ok(()) }
    }

    #[cold]
    fn own_files(&mut self, count: usize) -> Result<()> {
        let mut runs: Vec<SlotRun> = Vec::new();
        // The last entry of an open episode may be written again, and its reserve and those of others come next.
        for &index in &self.open {
            let episode = &self.episodes[index as usize];
            runs.push(episode.reserve);
            if !episode.is_empty() {
                runs.push(SlotRun { start: episode.last_slot() as u32, len: 1 });
            }
        }
        let mut needed = (count + RESERVE as usize) as u32;
        for mut run in self.free_slots.next_runs() {
            let run = run.split_front(needed);
            runs.push(run);
            needed -= run.len;
            if needed == 0 {
                break;
            }
        }
        let Some(files) = &mut self.storage.files else { return Ok(()) };
        for (_, stride, file) in &mut files.columns {
            let stride = *stride as u64;
            for run in &runs {
                file.own(u64::from(run.start) * stride..u64::from(run.end()) * stride)?;
            }
        }
        Ok(())
    }

    /// What lies on disk; None for a memory without a folder.
    pub fn disk_use(&self) -> Option<DiskUse> {
        let files = self.storage.files.as_ref()?;
        let compressed = self.storage.compressed.as_ref();
        let mut bytes: u64 = files.columns.iter().map(|(.., file)| file.reserved()).sum();
        bytes += compressed.map_or(0, |fields| fields.reserved());
        let none = Compression::default();
        let plain = file_bytes(&self.spec, self.compression().unwrap_or(&none));
        let expected = (plain * self.capacity) as u64;
        Some(DiskUse {
            folder: files.folder.path().to_owned(),
            bytes,
            expected: expected + compressed.map_or(0, |fields| fields.expected(self.capacity)),
            in_memory: compressed.map_or(0, |fields| fields.bytes_in_memory()),
        })
    }

    /// The folder that columns lie in.
    pub fn folder(&self) -> Option<&Arc<StorageFolder>> {
        self.storage.files.as_ref().map(|files| &files.folder)
    }
}
