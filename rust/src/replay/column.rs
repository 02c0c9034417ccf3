//! Zeroed memory that is reserved at once and committed as it is written.

use std::marker::PhantomData;

use bytemuck::Pod;
use memmap2::MmapMut;

use crate::error::{Error, Result};

/// An array of plain values in anonymous pages of its own.
///
/// A `Vec` would do but for two things: it aborts the process when the reservation fails, and a
/// fallible one would have to be written, and so committed, from end to end.
#[derive(Debug)]
pub struct Column<T> {
    pages: Option<MmapMut>,
    values: PhantomData<T>,
}

impl<T: Pod> Column<T> {
    /// Reserves `len` zeros.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system refuses.
    pub fn new(len: usize) -> Result<Self> {
        let refused = |why: String| {
            let size = size_of::<T>() as u128 * len as u128;
            Error::Memory(format!("cannot reserve {size} bytes: {why}"))
        };
        let size = len.checked_mul(size_of::<T>());
        let size = size.ok_or_else(|| refused("more than the address space".into()))?;
        if size == 0 {
            return Ok(Self { pages: None, values: PhantomData });
        }
        let pages = MmapMut::map_anon(size).map_err(|error| refused(error.to_string()))?;
        if size >= LARGE {
            prefer_huge_pages(&pages);
        }
        Ok(Self { pages: Some(pages), values: PhantomData })
    }
}

/// Entries are read at random places: from here on that costs more in page tables than a few pages that
/// are committed early.
const LARGE: usize = 4 << 20;

/// A kernel that has none, or that is told not to, is as good as one that does.
fn prefer_huge_pages(pages: &MmapMut) {
    #[cfg(target_os = "linux")]
    drop(pages.advise(memmap2::Advice::HugePage));
    #[cfg(not(target_os = "linux"))]
    let _ = pages;
}

impl<T: Pod> std::ops::Deref for Column<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.pages.as_ref().map_or(&[], |pages| bytemuck::cast_slice(pages))
    }
}

impl<T: Pod> std::ops::DerefMut for Column<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.pages.as_mut().map_or(&mut [], |pages| bytemuck::cast_slice_mut(pages))
    }
}

/// Bytes that the machine, or the control group this process is in, can still give.
pub fn available_memory() -> u64 {
    let ram = sysinfo::MemoryRefreshKind::nothing().with_ram();
    let refresh = sysinfo::RefreshKind::nothing().with_memory(ram);
    let system = sysinfo::System::new_with_specifics(refresh);
    // Nothing could be read, for example for want of file descriptors: then nothing is known either.
    if system.total_memory() == 0 {
        return u64::MAX;
    }
    // A group's "free" counts the page cache as used, which the kernel gives back on demand.
    let group = system
        .cgroup_limits()
        .map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    system.available_memory().min(group)
}

/// Whether the system still gives so much; asked before vectors of that size together are made, whose own
/// failure would end the process.
///
/// # Errors
/// [`Error::Memory`] when it does not.
pub fn check_allocatable(bytes: usize) -> Result<()> {
    // Small amounts come out of what the allocator already holds.
    if bytes < 1 << 16 {
        return Ok(());
    }
    let mut probe: Vec<u8> = Vec::new();
    let reserved = probe.try_reserve_exact(bytes);
    reserved.map_err(|error| Error::Memory(format!("cannot allocate {bytes} bytes: {error}")))
}
