//! The last states of a game.

/// A ring of records, all of one size.
#[derive(Debug)]
pub struct History {
    bytes: Vec<u8>,
    record: usize,
    depth: usize,
    count: u64,
    /// Where in the ring the newest is.
    newest: usize,
}

impl History {
    /// Keeps the last `depth` records of `record` bytes.
    pub fn new(record: usize, depth: usize) -> Self {
        Self { bytes: vec![0; record * depth], record, depth, count: 0, newest: 0 }
    }

    /// Records there have been, those that are gone included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Forgets all records, as if there had been none.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Begins a record, in place of the oldest, whose bytes it has.
    pub fn push(&mut self) -> &mut [u8] {
        self.count += 1;
        self.newest = if self.newest + 1 == self.depth { 0 } else { self.newest + 1 };
        self.newest()
    }

    /// The newest record; there must have been one.
    #[inline]
    pub fn newest(&mut self) -> &mut [u8] {
        let start = self.newest * self.record;
        &mut self.bytes[start..start + self.record]
    }

    /// The record so many before the newest, if it is kept.
    #[inline]
    pub fn back(&self, steps: usize) -> Option<&[u8]> {
        let kept = steps < self.depth && (steps as u64) < self.count;
        kept.then(|| {
            let wrapped = if steps > self.newest { self.depth } else { 0 };
            let start = (self.newest + wrapped - steps) * self.record;
            &self.bytes[start..start + self.record]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_last_records() {
        let mut history = History::new(1, 3);
        assert!(history.back(0).is_none());
        for number in 1..=5 {
            history.push()[0] = number;
        }
        let kept: Vec<_> =
            (0..5).map(|steps| history.back(steps).map(|record| record[0])).collect();
        assert_eq!(kept, [Some(5), Some(4), Some(3), None, None]);
        assert_eq!(history.push(), [3]);
        history.clear();
        assert!(history.back(0).is_none());
    }
}
