//! The last states of a game.

/// A ring of records, all of one size.
#[derive(Debug)]
pub struct History {
    bytes: Vec<u8>,
    record: usize,
    depth: usize,
    count: u64,
}

impl History {
    /// Keeps the last `depth` records of `record` bytes.
    pub fn new(record: usize, depth: usize) -> Self {
        Self { bytes: vec![0; record * depth], record, depth, count: 0 }
    }

    /// Records there have been, those that are gone included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Forgets all records, as if there had been none.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Begins a record, all zero.
    pub fn push(&mut self) -> &mut [u8] {
        self.count += 1;
        let record = self.newest();
        record.fill(0);
        record
    }

    /// The newest record; there must have been one.
    pub fn newest(&mut self) -> &mut [u8] {
        let start = self.start(0);
        &mut self.bytes[start..start + self.record]
    }

    /// The record so many before the newest, if it is kept.
    #[inline]
    pub fn back(&self, steps: usize) -> Option<&[u8]> {
        let kept = steps < self.depth && (steps as u64) < self.count;
        kept.then(|| {
            let start = self.start(steps);
            &self.bytes[start..start + self.record]
        })
    }

    fn start(&self, back: usize) -> usize {
        let last = self.count - 1;
        ((last - back as u64) % self.depth as u64) as usize * self.record
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
        assert_eq!(history.push(), [0]);
        history.clear();
        assert!(history.back(0).is_none());
    }
}
