//! Arrays of zeros that are reserved at once and committed as they are written.
#![allow(unsafe_code)]

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Pod;
use memmap2::{Advice, MmapMut, MmapOptions};

use crate::error::{Error, Result};

/// An array of plain values in pages of its own, anonymous ones or those of a file. A `Vec` aborts the process when a reservation fails, and one
/// with a fallible reservation has to be written, and so committed, from end to end.
#[derive(Debug)]
pub struct MappedArray<T> {
    pages: Option<MmapMut>,
    /// Where the values lie in the pages.
    bytes: Range<usize>,
    values: PhantomData<T>,
}

impl<T: Pod> MappedArray<T> {
    /// No values, which cannot fail.
    pub fn none() -> Self {
        Self { pages: None, bytes: 0..0, values: PhantomData }
    }

    /// Reserves `len` zeros. Fails with [`Error::Memory`] when the system refuses.
    pub fn new(len: usize) -> Result<Self> {
        let refused = |why: String| {
            let size = size_of::<T>() as u128 * len as u128;
            Error::Memory(format!("cannot reserve {size} bytes: {why}"))
        };
        let too_large = || refused("more than the address space".into());
        let size = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        if size == 0 {
            return Ok(Self::none());
        }
        let span = huge_span(size).ok_or_else(too_large)?;
        let slack = if span > 0 { HUGE + span.saturating_sub(size) } else { 0 };
        let reserved = size.checked_add(slack).ok_or_else(too_large)?;
        let pages = MmapMut::map_anon(reserved).map_err(|error| refused(error.to_string()))?;
        let start = if span > 0 { pages.as_ptr().align_offset(HUGE) } else { 0 };
        prefer_huge_pages(&pages, start..start + span);
        Ok(Self { pages: Some(pages), bytes: start..start + size, values: PhantomData })
    }

    /// The first `len` bytes of a file that is at least as long. It must have no name, so that nothing else can cut it or
    /// write to it, and no page may be written for which it has no block. Fails with [`Error::Memory`] when the system
    /// refuses.
    pub(super) fn of_file(file: &File, len: usize) -> Result<Self> {
        if len == 0 {
            return Ok(Self::none());
        }
        // SAFETY: nothing else has the file: it has no name, and it is neither cut nor written by other threads.
        let mapped = unsafe { MmapOptions::new().len(len * size_of::<T>()).map_mut(file) };
        let pages = mapped
            .map_err(|error| Error::Memory(format!("cannot map {len} bytes of a file: {error}")))?;
        // Entries are read at random: what lies around them would be read for nothing.
        #[cfg(unix)]
        drop(pages.advise(Advice::Random));
        Ok(Self { pages: Some(pages), bytes: 0..len * size_of::<T>(), values: PhantomData })
    }

    /// Has the system begin to read bytes of a file that are not in memory.
    pub fn read_ahead(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        if let Some(pages) = self.pages.as_ref().filter(|_| !bytes.is_empty()) {
            drop(pages.advise_range(Advice::WillNeed, bytes.start, bytes.len()));
        }
    }
}

/// Bytes of a huge page. Entries are read at random, which costs more in walks through page tables than in memory, above
/// all in a virtual machine.
const HUGE: usize = 2 << 20;

/// How much of an array of `size` bytes to put on huge pages: the whole ones, and one more for the end where that is much
/// of the array and little of the page stays empty.
fn huge_span(size: usize) -> Option<usize> {
    let rounded = size.checked_next_multiple_of(HUGE)?;
    let wasted = rounded - size;
    let counts = rounded <= 16 * HUGE && wasted <= size / 8;
    Some(if wasted == 0 || counts { rounded } else { rounded - HUGE })
}

/// Does nothing where the kernel has no huge pages, or has them switched off.
fn prefer_huge_pages(pages: &MmapMut, range: Range<usize>) {
    #[cfg(target_os = "linux")]
    if !range.is_empty() {
        drop(pages.advise_range(Advice::HugePage, range.start, range.len()));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pages, range);
}

impl<T: Pod> std::ops::Deref for MappedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.pages.as_ref().map_or(&[], |pages| bytemuck::cast_slice(&pages[self.bytes.clone()]))
    }
}

impl<T: Pod> std::ops::DerefMut for MappedArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.bytes.clone();
        self.pages.as_mut().map_or(&mut [], |pages| bytemuck::cast_slice_mut(&mut pages[bytes]))
    }
}

/// Reads the values that will be needed. In a loop as short as this the processor waits for many of them at once, in the
/// loop that does the work for only two or three.
#[inline]
pub fn prefetch<T: Copy>(values: &[T], needed: impl Iterator<Item = u32>) {
    for at in needed {
        std::hint::black_box(values[at as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_leave_little_memory_unused() {
        let span = |size| huge_span(size).unwrap_or_default();
        assert_eq!([0, 4096, HUGE, HUGE + 1].map(span), [0, 0, HUGE, HUGE]);
        // Of a few pages, one more counts.
        assert_eq!(span(7 * HUGE + HUGE / 2), 8 * HUGE);
        // Of many, it does not.
        assert_eq!([168 * HUGE, 168 * HUGE + HUGE / 2].map(span), [168 * HUGE; 2]);
        assert_eq!(huge_span(usize::MAX), None);
    }
}
