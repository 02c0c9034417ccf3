//! The folder of a memory that keeps large fields on disk, and the files there.
//!
//! **Files without names.** A file is removed as it is created, so that the system frees it when the process ends, however
//! that comes about. Files with names would have to be told from those of a memory that lives, and would stay after
//! `kill -9` until the next start, as large as they were. What stays is an empty file, whose lock the system releases.
//!
//! **A full disk.** The system kills a process (SIGBUS) that writes to a mapped page for which the file system has no block.
//! So blocks are reserved before a page is first written, and an error comes from there. A saved file may share blocks with
//! these, and a write then needs a block of its own: so blocks that may be shared are written again first, by a call that
//! can fail.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::replay::mapped_array::MappedArray;

/// The file whose lock says that a memory uses the folder.
const LOCK: &str = ".cogrs-storage.lock";

/// Bytes that a file is reserved ahead of need: few calls, and little room that is not used.
const AHEAD: u64 = 16 << 20;

/// Bytes that are made a file's own together.
const BLOCK: u64 = 1 << 20;

/// Lengths of files, and positions in saved ones, are multiples of this, as file systems need to share blocks.
pub const ALIGNMENT: u64 = 64 << 10;

/// A folder that one memory uses.
#[derive(Debug)]
pub struct StorageFolder {
    path: PathBuf,
    lock: File,
    process: u32,
}

impl StorageFolder {
    /// Takes a folder, which is created if its parent exists. Fails with [`Error::File`] when it cannot be written, with
    /// [`Error::State`] when another memory uses it.
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        let failed = |error: std::io::Error| Error::file(path, &error);
        if !path.is_dir() {
            std::fs::create_dir(path).map_err(failed)?;
        }
        let path = std::fs::canonicalize(path).map_err(failed)?;
        let opened = File::options().create(true).append(true).open(path.join(LOCK));
        let lock = opened.map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Arc::new(Self { path, lock, process: std::process::id() })),
            Err(Errno::WOULDBLOCK) => Err(Error::State(format!(
                "storage: expected a folder that no other memory uses, got {}: another memory uses it, or a \
                 process that was forked from that memory's is alive",
                path.display()
            ))),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that its file system has free for this process. Fails with [`Error::File`].
    pub fn available(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&self.path).map_err(|error| self.failed(error))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Fails with the error of a full file system when it has fewer bytes free; `told` says it, given the bytes needed and
    /// those available.
    pub fn check_room(&self, needed: u128, told: impl FnOnce(u128, u64) -> String) -> Result<()> {
        let available = self.available()?;
        if needed <= u128::from(available) {
            return Ok(());
        }
        let Error::File { path, kind, code, text } = self.failed(Errno::NOSPC) else {
            return Ok(());
        };
        let text = format!("{text}: {}", told(needed, available));
        Err(Error::File { path, kind, code, text })
    }

    fn failed(&self, error: impl Into<std::io::Error>) -> Error {
        Error::file(&self.path, &error.into())
    }
}

impl Drop for StorageFolder {
    fn drop(&mut self) {
        // A forked child shares the lock, and would release its parent's.
        if self.process == std::process::id() {
            let _ = flock(&self.lock, FlockOperation::Unlock);
        }
    }
}

/// A sparse file without a name, and what is known of its blocks.
#[derive(Debug)]
pub struct ColumnFile {
    folder: Arc<StorageFolder>,
    file: File,
    len: u64,
    /// The bytes below this have blocks.
    reserved: u64,
    /// Whether a copy of the file has been made that may share its blocks.
    copied: AtomicBool,
    /// Whether each [`BLOCK`] may be shared; empty where none is.
    shared: Vec<bool>,
}

impl ColumnFile {
    /// A file of zeros. Fails with [`Error::File`].
    pub fn new(folder: &Arc<StorageFolder>, len: usize) -> Result<Self> {
        let folder = Arc::clone(folder);
        let file = tempfile::tempfile_in(&folder.path).map_err(|error| folder.failed(error))?;
        keep_in_place(&file);
        let len = (len as u64).next_multiple_of(ALIGNMENT);
        file.set_len(len).map_err(|error| folder.failed(error))?;
        let copied = AtomicBool::new(false);
        Ok(Self { folder, file, len, reserved: 0, copied, shared: Vec::new() })
    }

    /// The file as an array of bytes. Fails with [`Error::Memory`] when the system refuses.
    pub fn map(&self, len: usize) -> Result<MappedArray<u8>> {
        MappedArray::of_file(&self.file, len)
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that have blocks.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Gives the bytes below `end` blocks. Fails with [`Error::File`], above all when the file system is full.
    #[inline]
    pub fn reserve(&mut self, end: u64) -> Result<()> {
        if end <= self.reserved { Ok(()) } else { self.reserve_more(end.min(self.len)) }
    }

    fn reserve_more(&mut self, end: u64) -> Result<()> {
        let end = end.next_multiple_of(ALIGNMENT).min(self.len);
        let ahead = end.saturating_add(AHEAD).min(self.len);
        let mut done = allocate(&self.file, self.reserved..ahead);
        let mut reached = ahead;
        if done.is_err() && end < ahead {
            reached = end;
            done = allocate(&self.file, self.reserved..end);
        }
        done.map_err(|error| self.folder.failed(error))?;
        self.reserved = self.reserved.max(reached);
        Ok(())
    }

    /// Notes that another file may share the blocks of this one from now on.
    pub fn note_copied(&self) {
        if may_share_blocks(&self.file) {
            self.copied.store(true, Ordering::Relaxed);
        }
    }

    /// Whether blocks may be shared.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.copied.load(Ordering::Relaxed) || !self.shared.is_empty()
    }

    /// Gives bytes blocks that no other file shares. Fails with [`Error::File`].
    pub fn own(&mut self, bytes: Range<u64>) -> Result<()> {
        if std::mem::take(self.copied.get_mut()) {
            self.shared.clear();
            self.shared.resize(self.reserved.div_ceil(BLOCK) as usize, true);
        }
        if self.shared.is_empty() || bytes.is_empty() {
            return Ok(());
        }
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            if self.shared.get(block as usize) != Some(&true) {
                continue;
            }
            let start = block * BLOCK;
            let mut held = vec![0; (self.len - start).min(BLOCK) as usize];
            let rewritten = self.file.read_exact_at(&mut held, start);
            let rewritten = rewritten.and_then(|()| self.file.write_all_at(&held, start));
            rewritten.map_err(|error| self.folder.failed(error))?;
            self.shared[block as usize] = false;
        }
        if !self.shared.contains(&true) {
            self.shared.clear();
        }
        Ok(())
    }
}

/// Copies the first `len` bytes of a file to a position in another. The file system shares their blocks where it can.
pub fn copy_bytes(from: &File, to: &File, at: u64, len: u64) -> std::io::Result<()> {
    let mut done = copy_in_system(from, to, at, len);
    let mut held = vec![0; if done < len { BLOCK as usize } else { 0 }];
    while done < len {
        let held = &mut held[..(len - done).min(BLOCK) as usize];
        from.read_exact_at(held, done)?;
        to.write_all_at(held, at + done)?;
        done += held.len() as u64;
    }
    Ok(())
}

/// Copies as much as the system can without the bytes coming here, and returns how much that is.
#[cfg(target_os = "linux")]
fn copy_in_system(from: &File, to: &File, at: u64, len: u64) -> u64 {
    let mut done = 0;
    while done < len {
        let (mut start, mut target) = (done, at + done);
        let count = usize::try_from(len - done).unwrap_or(usize::MAX);
        // An error that stays comes again from the plain copy.
        match rustix::fs::copy_file_range(from, Some(&mut start), to, Some(&mut target), count) {
            Ok(copied) if copied > 0 => done += copied as u64,
            _ => break,
        }
    }
    done
}

#[cfg(not(target_os = "linux"))]
fn copy_in_system(_: &File, _: &File, _: u64, _: u64) -> u64 {
    0
}

/// Whether the file system may share blocks between files: all may but those that are known.
#[cfg(target_os = "linux")]
fn may_share_blocks(file: &File) -> bool {
    const EXT4: u64 = 0xEF53;
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).map_or(true, |found| ![EXT4, TMPFS].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn may_share_blocks(_: &File) -> bool {
    false
}

/// Asks a file system that writes elsewhere each time (btrfs) to write in place, where a reserved block stays. Others refuse.
#[cfg(target_os = "linux")]
pub fn keep_in_place(file: &File) {
    let _ = rustix::fs::ioctl_setflags(file, rustix::fs::IFlags::NOCOW);
}

#[cfg(not(target_os = "linux"))]
pub fn keep_in_place(_: &File) {}

/// Gives bytes of a file, all of them zeros, blocks.
fn allocate(file: &File, bytes: Range<u64>) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(
        file,
        rustix::fs::FallocateFlags::empty(),
        bytes.start,
        bytes.end - bytes.start,
    ) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => return done.map_err(Into::into),
    }
    let zeros = vec![0; BLOCK as usize];
    let mut start = bytes.start;
    while start < bytes.end {
        let count = (bytes.end - start).min(BLOCK);
        file.write_all_at(&zeros[..count as usize], start)?;
        start += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_used_by_one_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        let first = StorageFolder::open(&path).unwrap();
        let text = StorageFolder::open(&path).unwrap_err().to_string();
        assert!(text.contains("another memory uses it"), "{text}");
        drop(first);
        StorageFolder::open(&path).unwrap();
        assert!(matches!(StorageFolder::open(&path.join("a/b")), Err(Error::File { .. })));
    }

    #[test]
    fn files_have_no_names_and_blocks_only_where_reserved() {
        let place = tempfile::tempdir().unwrap();
        let folder = StorageFolder::open(place.path()).unwrap();
        let mut file = ColumnFile::new(&folder, 1 << 30).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        file.reserve(1).unwrap();
        assert_eq!(file.reserved(), AHEAD + ALIGNMENT);
        let mut bytes = file.map(1 << 30).unwrap();
        assert_eq!((bytes.len(), bytes[(1 << 30) - 1]), (1 << 30, 0));
        bytes[0] = 7;
        let mut held = [0];
        file.file().read_exact_at(&mut held, 0).unwrap();
        assert_eq!(held, [7]);
    }

    #[test]
    fn shared_blocks_are_written_again_and_keep_their_bytes() {
        let place = tempfile::tempdir().unwrap();
        let folder = StorageFolder::open(place.path()).unwrap();
        let mut file = ColumnFile::new(&folder, 5 << 19).unwrap();
        file.reserve(5 << 19).unwrap();
        let mut bytes = file.map(5 << 19).unwrap();
        bytes.fill(3);
        file.copied.store(true, Ordering::Relaxed);
        assert!(file.is_shared());
        file.own(10..20).unwrap();
        assert_eq!(file.shared, [false, true, true]);
        bytes[15] = 4;
        file.own(0..5 << 19).unwrap();
        assert!(!file.is_shared());
        assert_eq!((bytes[14], bytes[15], bytes[(5 << 19) - 1]), (3, 4, 3));
    }

    #[test]
    fn copy_has_the_bytes_at_its_place() {
        let place = tempfile::tempdir().unwrap();
        let folder = StorageFolder::open(place.path()).unwrap();
        let files = [(); 2].map(|()| ColumnFile::new(&folder, 3 << 20).unwrap());
        let mut bytes = files[0].map(3 << 20).unwrap();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at / 1000) as u8;
        }
        copy_bytes(files[0].file(), files[1].file(), ALIGNMENT, 2 << 20).unwrap();
        let other = files[1].map(3 << 20).unwrap();
        assert!(other[ALIGNMENT as usize..][..2 << 20] == bytes[..2 << 20]);
    }
}
