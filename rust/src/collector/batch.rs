//! The memory of a batch, which NumPy arrays alias: the only unsafe code of the collector.
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

/// The arrays of a batch; each has the same number of rows.
#[derive(Debug, Clone, Default)]
pub struct BatchLayout {
    parts: Vec<ArrayLayout>,
    rows: usize,
    size: usize,
}
#[derive(Debug, Clone, Copy)]
struct ArrayLayout {
    offset: usize,
    row: usize,
}

impl BatchLayout {
    /// Arrays of `rows` rows of these sizes. Fails with [`Error::Memory`] when they exceed the address space, or there are too
    /// many.
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

/// The memory of one batch, reserved once together with that of others, and kept as long as any holder.
///
/// NumPy arrays alias it, so there is never a Rust reference to its bytes: they are copied in and out.
/// [`crate::collector::batch_queue::BatchQueue`] decides which thread may access a row: its claimant until it is committed, the
/// consumer until the batch is released. Python code that reads an array later sees bytes of other rows, but bytes. Methods
/// panic when rows or bytes lie outside the batch.
#[derive(Debug)]
pub struct Batch {
    layout: Arc<BatchLayout>,
    memory: Arc<MmapRaw>,
    /// Its offset in the memory.
    base: usize,
}

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
    /// The file must not shrink while it is mapped: an access to a page that it has lost ends the process (SIGBUS). Linux
    /// guarantees that for a memfd sealed with `F_SEAL_SHRINK`, which callers use; on systems without memfd the other processes
    /// are trusted. These can write any bytes at any time, so values from the batch are checked where they matter. Fails
    /// with [`Error::Value`] when the batch is larger than the file, with [`Error::Memory`] when the system refuses.
    #[cfg(unix)]
    pub fn in_file(layout: BatchLayout, descriptor: i32) -> Result<Arc<Self>> {
        let refused = |error| Error::Memory(format!("cannot map the file {descriptor}: {error}"));
        if descriptor < 0 {
            return Err(Error::value("file", "a descriptor", descriptor));
        }
        // SAFETY: it is not -1. Only its size is queried, which is an error where it is not open, and `ManuallyDrop` leaves it
        // open for its owner.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        let size = file.metadata().map_err(refused)?.len();
        if layout.size as u64 > size {
            return Err(Error::value("file", format!("at least {} bytes", layout.size), size));
        }
        let memory = MmapOptions::new().len(layout.size.max(1)).map_raw(descriptor);
        let memory = Arc::new(memory.map_err(refused)?);
        Ok(Arc::new(Self { base: 0, layout: Arc::new(layout), memory }))
    }

    /// Fails with [`Error::State`], since this system has no descriptors.
    #[cfg(not(unix))]
    pub fn in_file(_layout: BatchLayout, _descriptor: i32) -> Result<Arc<Self>> {
        Err(Error::State("memory is shared between processes only on POSIX systems".into()))
    }

    /// The offset of an array in the memory of all batches.
    pub fn offset(&self, part: usize) -> usize {
        self.base + self.layout.parts[part].offset
    }

    /// The address of an array of [`Self::rows`] adjacent rows, aligned for every dtype. It stays valid as long as `self`.
    pub fn start(&self, part: usize) -> *mut u8 {
        // SAFETY: `BatchLayout::new` put the offset inside the batch, or at its end for an empty array, and `several` the
        // batch inside the memory.
        unsafe { self.memory.as_mut_ptr().add(self.offset(part)) }
    }

    /// The address of the memory of all batches of this collector.
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

    /// Copies bytes into a row, `skip` bytes from its start.
    pub fn write(&self, part: usize, row: usize, skip: usize, bytes: &[u8]) {
        self.rows_of(part).write(row, skip, bytes);
    }

    /// Copies the start of a row out.
    pub fn read(&self, part: usize, row: usize, bytes: &mut [u8]) {
        self.rows_of(part).read(row, bytes);
    }

    /// Zeroes the first rows of an array.
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
    /// The address of `len` bytes of a row, `skip` bytes from its start.
    #[inline]
    fn address(&self, row: usize, skip: usize, len: usize) -> *mut u8 {
        let fits = row < self.count && skip <= self.row && len <= self.row - skip;
        assert!(fits, "outside of a batch");
        // SAFETY: the array has so many rows of that size, and the batch is there as long as `self` is.
        unsafe { self.start.add(row * self.row + skip) }
    }

    /// Copies bytes into a row, `skip` bytes from its start.
    #[inline]
    pub fn write(&self, row: usize, skip: usize, bytes: &[u8]) {
        let address = self.address(row, skip, bytes.len());
        // SAFETY: `address` checked the bounds. `bytes` is a Rust borrow, and none of those lies in this memory. The claimant of
        // the row promises to be its only writer.
        unsafe { copy(bytes.as_ptr(), address, bytes.len()) }
    }

    /// Copies bytes into whole rows, from this one on. Panics too when they are not those of whole rows.
    pub fn write_run(&self, row: usize, bytes: &[u8]) {
        if let Some(rows) = self.run(row, bytes.len()) {
            // SAFETY: `run` checked the bounds. The rest is as in `write`.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), rows, bytes.len()) }
        }
    }

    /// Copies whole rows out, from this one on, as [`Self::write_run`] copies them in.
    pub fn read_run(&self, row: usize, bytes: &mut [u8]) {
        if let Some(rows) = self.run(row, bytes.len()) {
            // SAFETY: as in `write_run`.
            unsafe { std::ptr::copy_nonoverlapping(rows, bytes.as_mut_ptr(), bytes.len()) }
        }
    }

    /// The address of whole rows of `len` bytes in all; None for no bytes.
    fn run(&self, row: usize, len: usize) -> Option<*mut u8> {
        let rows = len.checked_div(self.row).unwrap_or(0);
        let fits = row <= self.count && rows <= self.count - row && rows * self.row == len;
        assert!(fits, "outside of a batch");
        // SAFETY: the array has so many rows of that size, and the batch is there as long as `self` is.
        (len > 0).then(|| unsafe { self.start.add(row * self.row) })
    }

    /// Copies the start of a row out.
    #[inline]
    pub fn read(&self, row: usize, bytes: &mut [u8]) {
        let address = self.address(row, 0, bytes.len());
        // SAFETY: as in `write`.
        unsafe { copy(address, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Zeroes bytes of a row, `skip` bytes from its start.
    #[inline]
    pub fn clear(&self, row: usize, skip: usize, len: usize) {
        let address = self.address(row, skip, len);
        // SAFETY: as in `write`.
        unsafe { std::ptr::write_bytes(address, 0, len) }
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
