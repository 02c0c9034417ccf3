//! How often each entry has been drawn.

use crate::error::Result;
use crate::replay::mapped_array::MappedArray;

/// Counts of draws per slot: a byte each while no count can exceed 255.
#[derive(Debug)]
pub enum TimesSampled {
    /// For limits up to 255.
    Small(MappedArray<u8>),
    /// For larger limits.
    Large(MappedArray<u32>),
}

impl TimesSampled {
    /// Zeros for `len` slots. Fails with [`crate::error::Error::Memory`] when the system refuses the memory.
    pub fn new(len: usize, limit: u32) -> Result<Self> {
        Ok(if u8::try_from(limit).is_ok() {
            Self::Small(MappedArray::new(len)?)
        } else {
            Self::Large(MappedArray::new(len)?)
        })
    }

    /// The count of a slot.
    #[inline]
    pub fn get(&self, slot: usize) -> u32 {
        match self {
            Self::Small(counts) => counts[slot].into(),
            Self::Large(counts) => counts[slot],
        }
    }

    /// Sets the count of a slot; a byte holds it where counts are bytes.
    #[inline]
    pub fn set(&mut self, slot: usize, count: u32) {
        match self {
            Self::Small(counts) => counts[slot] = count as u8,
            Self::Large(counts) => counts[slot] = count,
        }
    }
}
