//! How often each entry has been drawn.

use foldhash::HashMap;

use crate::error::Result;
use crate::replay::mapped_array::MappedArray;

/// In a slot's byte: the count is in the table.
const ELSEWHERE: u8 = u8::MAX;

/// Counts of draws per slot: a byte each, and those that a byte does not hold in a table, so that a view takes at most 6 bytes
/// per slot while few entries are drawn that often.
#[derive(Debug)]
pub struct TimesSampled {
    bytes: MappedArray<u8>,
    large: HashMap<u32, u32>,
}

impl TimesSampled {
    /// Zeros for `len` slots. Fails with [`crate::error::Error::Memory`] when the system refuses the memory.
    pub fn new(len: usize) -> Result<Self> {
        Ok(Self { bytes: MappedArray::new(len)?, large: HashMap::default() })
    }

    /// The count of a slot.
    #[inline]
    pub fn get(&self, slot: usize) -> u32 {
        match self.bytes[slot] {
            ELSEWHERE => self.large.get(&(slot as u32)).copied().unwrap_or_default(),
            count => count.into(),
        }
    }

    /// Sets the count of a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, count: u32) {
        let byte = u8::try_from(count).unwrap_or(ELSEWHERE);
        if byte == ELSEWHERE {
            self.large.insert(slot as u32, count);
        } else if self.bytes[slot] == ELSEWHERE {
            self.large.remove(&(slot as u32));
        }
        self.bytes[slot] = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_on_both_sides_of_a_byte_are_kept_and_leave_nothing_behind() {
        let mut times = TimesSampled::new(3).unwrap();
        for count in [0, 1, 254, 255, 256, u32::MAX, 255, 254, 0] {
            times.set(1, count);
            assert_eq!((times.get(0), times.get(1), times.get(2)), (0, count, 0));
            assert_eq!(times.large.len(), usize::from(count >= 255));
        }
    }
}
