//! The large columns of caches in files of a folder, for servers that hold more caches than memory has room for.
//!
//! Each cache has a file of its own, without a name: it goes when the cache does, and the system reuses its blocks. The file
//! is written by calls that can fail, so a full disk is an error, and closed as soon as it is mapped, so that thousands of
//! caches do not use up the descriptors of the process.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::available_memory::available_memory;
use crate::error::{Error, Result};
use crate::replay::mapped_array::MappedArray;
use crate::replay::storage_folder::{ColumnFile, StorageFolder};

/// Columns of at least so many bytes lie in files.
pub const LARGE_COLUMN: usize = 64 << 10;

/// Where a store keeps the large columns of its caches.
#[derive(Debug, Clone)]
pub struct CacheFiles {
    folder: Arc<StorageFolder>,
    /// Bytes of the columns that are there.
    held: Arc<AtomicU64>,
    /// Bytes that memory could hold of them at the beginning.
    cacheable: u64,
}

/// A column of a cache in a file.
#[derive(Debug)]
pub struct FileColumn {
    cache: Arc<CacheFile>,
    bytes: Range<usize>,
}

/// The columns of a cache.
#[derive(Debug)]
struct CacheFile {
    pages: MappedArray<u8>,
    files: CacheFiles,
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        self.files.held.fetch_sub(self.pages.len() as u64, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for FileColumn {
    fn as_ref(&self) -> &[u8] {
        &self.cache.pages[self.bytes.clone()]
    }
}

impl FileColumn {
    /// Has the system begin to read bytes that are probably not in memory.
    pub fn read_ahead(&self, bytes: Range<usize>) {
        let files = &self.cache.files;
        if files.held() > files.cacheable {
            let start = self.bytes.start;
            self.cache.pages.read_ahead(start + bytes.start..start + bytes.end);
        }
    }
}

impl CacheFiles {
    /// Files in a folder.
    pub fn new(folder: Arc<StorageFolder>) -> Self {
        Self { folder, held: Arc::default(), cacheable: available_memory() }
    }

    /// The folder.
    pub fn folder(&self) -> &Arc<StorageFolder> {
        &self.folder
    }

    /// Bytes of the columns that are there.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Writes the columns of a cache to a file. Fails with [`Error::File`], above all when the disk is full, and then nothing
    /// of it stays.
    pub fn write(&self, columns: &[&[u8]]) -> Result<Vec<FileColumn>> {
        let size: usize = columns.iter().map(|column| column.len()).sum();
        let failed = |error: std::io::Error| Error::file(self.folder.path(), &error);
        let mut file = ColumnFile::new(&self.folder, size)?;
        file.reserve(size as u64)?;
        let mut end = 0;
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            let start = end;
            end += column.len();
            file.file().write_all_at(column, start as u64).map_err(failed)?;
            places.push(start..end);
        }
        let pages = file.map(size)?;
        self.held.fetch_add(size as u64, Ordering::Relaxed);
        let cache = Arc::new(CacheFile { pages, files: self.clone() });
        let column = |bytes| FileColumn { cache: Arc::clone(&cache), bytes };
        Ok(places.into_iter().map(column).collect())
    }

    /// Fails with [`Error::File`] when the disk has no room for `caches` further caches of so many bytes.
    pub fn check_room(&self, caches: usize, bytes: usize) -> Result<()> {
        let needed = (caches as u128 * bytes as u128).saturating_sub(u128::from(self.held()));
        self.folder.check_room(needed, |needed, available| {
            format!(
                "{caches} caches take up to {needed} bytes there, of which {available} are available; \
                 set fewer n_caches, or a smaller cache_size"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_written_until_the_last_is_dropped() {
        let place = tempfile::tempdir().unwrap();
        let files = CacheFiles::new(StorageFolder::open(place.path()).unwrap());
        let columns: Vec<Vec<u8>> = (1..4_u8).map(|at| vec![at; 100_000 * at as usize]).collect();
        let given: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
        let mut written = files.write(&given).unwrap();
        for (column, written) in columns.iter().zip(&written) {
            assert!(written.as_ref() == &column[..]);
            written.read_ahead(10..20);
        }
        let last = written.pop().unwrap();
        drop(written);
        assert_eq!(files.held(), 600_000);
        assert!(last.as_ref() == &columns[2][..]);
        drop(last);
        assert_eq!(files.held(), 0);
        // Only the lock has a name.
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn more_caches_than_the_disk_has_room_for_are_an_error_with_both_numbers() {
        let place = tempfile::tempdir().unwrap();
        let files = CacheFiles::new(StorageFolder::open(place.path()).unwrap());
        files.check_room(4, 1 << 20).unwrap();
        let text = files.check_room(1 << 20, 1 << 40).unwrap_err().to_string();
        assert!(text.contains(&format!("{} caches take up to {} bytes", 1 << 20, 1_u64 << 60)));
        assert!(text.contains("n_caches"), "{text}");
    }
}
