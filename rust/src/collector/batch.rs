//! The memory of one batch.
#![allow(unsafe_code)]

#[cfg(unix)]
use std::fs::File;
use std::marker::PhantomData;
#[cfg(unix)]
use std::mem::ManuallyDrop;
#[cfg(unix)]
use std::os::fd::FromRawFd;
use std::sync::Arc;

#[cfg(unix)]
use memmap2::MmapOptions;
use memmap2::{MmapMut, MmapRaw};

use crate::error::{Error, Result};

/// Arrays start at multiples of a cache line.
const ALIGN: usize = 64;

/// Where the arrays of a batch lie; each has the same number of rows.
#[derive(Debug, Clone, Default)]
pub struct BatchLayout {
    parts: Vec<ArrayLayout>,
    rows: usize,
    size: usize,
}

/// One array.
#[derive(Debug, Clone, Copy)]
struct ArrayLayout {
    offset: usize,
    row: usize,
}

impl BatchLayout {
    /// Arrays of `rows` rows, whose rows have these sizes. Fails with [`Error::Memory`] when they exceed the address
    /// space, or there are too many.
    pub fn new(rows: usize, sizes: impl IntoIterator<Item = usize>) -> Result<Self> {
        let mut layout = Self { rows, ..Self::default() };
        for row in sizes {
            let end = row.checked_mul(rows).and_then(|size| layout.size.checked_add(size));
            let end = end.and_then(|end| end.checked_next_multiple_of(ALIGN));
            let end = end.filter(|&end| isize::try_from(end).is_ok());
            layout.parts.try_reserve(1).map_err(|error| {
                let count = layout.parts.len();
                Error::Memory(format!("cannot describe more than {count} arrays: {error}"))
            })?;
            layout.parts.push(ArrayLayout { offset: layout.size, row });
            layout.size = end.ok_or_else(|| {
                Error::Memory(format!("a batch of {rows} rows exceeds the address space"))
            })?;
        }
        Ok(layout)
    }
}

/// The memory of one batch, reserved once together with that of others. It lives as long as any holder.
///
/// NumPy arrays alias it, so no Rust reference to its bytes is ever made: they are copied in and out. Who may touch a row is the business of [`crate::collector::batch_queue::BatchQueue`]: its claimant until it is
/// committed, the consumer until the batch is released. Python code that looks at an array after that sees
/// bytes of several rows' writing, but bytes.
#[derive(Debug)]
pub struct Batch {
    layout: Arc<BatchLayout>,
    memory: Arc<MmapRaw>,
    /// Where in the memory it begins.
    base: usize,
}

/// Batches of a kind at most.
const MAX_BATCHES: usize = 1 << 24;

impl Batch {
    /// Reserves the memory of several batches, all zero. Fails with [`Error::Memory`] when the system refuses.
    pub fn several(layout: BatchLayout, count: usize) -> Result<Vec<Arc<Self>>> {
        let size = layout.size.checked_mul(count).filter(|_| count <= MAX_BATCHES);
        let refused = |why: String| {
            let size = layout.size as u128 * count as u128;
            Error::Memory(format!("cannot reserve {size} bytes for {count} batches: {why}"))
        };
        let size = size.ok_or_else(|| refused("too many".into()))?;
        let memory = MmapMut::map_anon(size.max(1)).map_err(|error| refused(error.to_string()))?;
        let (memory, layout) = (Arc::new(MmapRaw::from(memory)), Arc::new(layout));
        let batch = |at| {
            let (memory, layout) = (Arc::clone(&memory), Arc::clone(&layout));
            Arc::new(Self { base: at * layout.size, layout, memory })
        };
        Ok((0..count).map(batch).collect())
    }

    /// Maps a batch into a file that other processes map too.
    ///
    /// The file must not shrink while it is mapped: touching a page that it has lost ends the process
    /// (SIGBUS). Linux promises that for a memfd sealed with `F_SEAL_SHRINK`, which is what the caller
    /// gives; systems without memfd have no such promise, and there the other processes are trusted.
    /// Nothing here keeps those from writing any bytes at any time, so whatever is read from the batch
    /// is checked where it matters. Fails with [`Error::Value`] when the batch is larger than the file;
    /// [`Error::Memory`] when the system refuses.
    #[cfg(unix)]
    pub fn in_file(layout: BatchLayout, descriptor: i32) -> Result<Arc<Self>> {
        let refused = |error| Error::Memory(format!("cannot map the file {descriptor}: {error}"));
        if descriptor < 0 {
            return Err(Error::value("file", "a descriptor", descriptor));
        }
        // SAFETY: it is not -1. It is only asked for its size, which is an error where it is not open, and
        // `ManuallyDrop` leaves it open for its owner.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        let size = file.metadata().map_err(refused)?.len();
        if layout.size as u64 > size {
            return Err(Error::value("file", format!("at least {} bytes", layout.size), size));
        }
        let memory = MmapOptions::new().len(layout.size.max(1)).map_raw(descriptor);
        let memory = Arc::new(memory.map_err(refused)?);
        Ok(Arc::new(Self { base: 0, layout: Arc::new(layout), memory }))
    }

    /// Maps a batch into a file that other processes map too. Fails with [`Error::State`]: this system has no
    /// descriptors.
    #[cfg(not(unix))]
    pub fn in_file(_layout: BatchLayout, _descriptor: i32) -> Result<Arc<Self>> {
        Err(Error::State("memory is shared between processes on POSIX systems alone".into()))
    }

    /// Where an array begins in the memory of all.
    pub fn offset(&self, part: usize) -> usize {
        self.base + self.layout.parts[part].offset
    }

    /// Where an array begins. It has [`Self::rows`] rows, one after the other, and is aligned for every
    /// dtype; the memory stays in place as long as `self` lives.
    pub fn start(&self, part: usize) -> *mut u8 {
        let offset = self.base + self.layout.parts[part].offset;
        // SAFETY: `BatchLayout::new` put the offset inside the batch, or at its end for an empty array, and
        // `several` the batch inside the memory.
        unsafe { self.memory.as_mut_ptr().add(offset) }
    }

    /// Where the memory of all batches of this collector begins.
    pub fn start_of_all(&self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.layout.size
    }

    /// Rows of each array.
    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Bytes of a row.
    pub fn row_size(&self, part: usize) -> usize {
        self.layout.parts[part].row
    }

    /// An array, to copy many of its rows.
    #[inline]
    pub fn rows_of(&self, part: usize) -> BatchRows<'_> {
        BatchRows {
            start: self.start(part),
            row: self.row_size(part),
            count: self.rows(),
            batch: PhantomData,
        }
    }

    /// Copies bytes into a row, `skip` bytes from its start. Panics when they do not fit there.
    #[inline]
    pub fn write(&self, part: usize, row: usize, skip: usize, bytes: &[u8]) {
        self.rows_of(part).write(row, skip, bytes);
    }

    /// Copies the start of a row out. Panics when the row is shorter than `bytes`.
    #[inline]
    pub fn read(&self, part: usize, row: usize, bytes: &mut [u8]) {
        self.rows_of(part).read(row, bytes);
    }

    /// Zeroes the first rows of an array. Panics when there are not so many.
    pub fn zero(&self, part: usize, rows: usize) {
        assert!(rows <= self.layout.rows, "outside of a batch");
        let size = rows * self.layout.parts[part].row;
        // SAFETY: the rows lie inside the memory, as in `start`.
        unsafe { std::ptr::write_bytes(self.start(part), 0, size) }
    }
}

/// The rows of one array of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchRows<'a> {
    start: *mut u8,
    row: usize,
    count: usize,
    batch: PhantomData<&'a Batch>,
}

impl BatchRows<'_> {
    /// Where `len` bytes of a row lie, `skip` bytes from its start.
    #[inline]
    fn place(&self, row: usize, skip: usize, len: usize) -> *mut u8 {
        let fits = row < self.count && skip <= self.row && len <= self.row - skip;
        assert!(fits, "outside of a batch");
        // SAFETY: the array has so many rows of that size, and the batch is there as long as `self` is.
        unsafe { self.start.add(row * self.row + skip) }
    }

    /// Copies bytes into a row, `skip` bytes from its start. Panics when they do not fit there.
    #[inline]
    pub fn write(&self, row: usize, skip: usize, bytes: &[u8]) {
        let place = self.place(row, skip, bytes.len());
        // SAFETY: `place` checked the bounds. `bytes` is an exclusive or shared Rust borrow, and none of
        // those lies in this memory. One writer at a time is the claimant's promise.
        unsafe { copy(bytes.as_ptr(), place, bytes.len()) }
    }

    /// Copies bytes into whole rows, from this one on. Panics when there are not so many rows, or the bytes are not
    /// those of whole ones.
    pub fn write_run(&self, row: usize, bytes: &[u8]) {
        if let Some(rows) = self.run(row, bytes.len()) {
            // SAFETY: `run` checked the bounds. The rest is as in `write`.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), rows, bytes.len()) }
        }
    }

    /// Copies whole rows out, from this one on. As [`Self::write_run`].
    pub fn read_run(&self, row: usize, bytes: &mut [u8]) {
        if let Some(rows) = self.run(row, bytes.len()) {
            // SAFETY: as in `write_run`.
            unsafe { std::ptr::copy_nonoverlapping(rows, bytes.as_mut_ptr(), bytes.len()) }
        }
    }

    /// Where whole rows of `len` bytes in all lie; None for no bytes.
    fn run(&self, row: usize, len: usize) -> Option<*mut u8> {
        let rows = len.checked_div(self.row).unwrap_or(0);
        let fits = row <= self.count && rows <= self.count - row && rows * self.row == len;
        assert!(fits, "outside of a batch");
        // SAFETY: the array has so many rows of that size, and the batch is there as long as `self` is.
        (len > 0).then(|| unsafe { self.start.add(row * self.row) })
    }

    /// Copies the start of a row out. Panics when the row is shorter than `bytes`.
    #[inline]
    pub fn read(&self, row: usize, bytes: &mut [u8]) {
        let place = self.place(row, 0, bytes.len());
        // SAFETY: as in `write`.
        unsafe { copy(place, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Zeroes bytes of a row, `skip` bytes from its start. Panics when they do not fit there.
    #[inline]
    pub fn clear(&self, row: usize, skip: usize, len: usize) {
        let place = self.place(row, skip, len);
        // SAFETY: as in `write`.
        unsafe { std::ptr::write_bytes(place, 0, len) }
    }
}

/// Copies bytes, without a call for the sizes that most keys have.
///
/// # Safety
/// That of [`std::ptr::copy_nonoverlapping`].
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; each arm copies `len` bytes.
    unsafe {
        match len {
            1 => std::ptr::copy_nonoverlapping(from, to, 1),
            4 => std::ptr::copy_nonoverlapping(from, to, 4),
            8 => std::ptr::copy_nonoverlapping(from, to, 8),
            16 => std::ptr::copy_nonoverlapping(from, to, 16),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}
