//! How much each sender has sent.

use foldhash::HashMap;

/// A number of caches, and what they contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Whole caches.
    pub caches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes of their columns.
    pub bytes: u64,
}

impl CacheCounts {
    fn add(&mut self, other: Self) {
        self.caches += other.caches;
        self.samples += other.samples;
        self.bytes += other.bytes;
    }
}

/// Counters per sender. A peer can send under any name, so only the `most` latest senders have counters of their own; those
/// of all others are added up.
#[derive(Debug)]
pub struct SenderCounters {
    most: usize,
    /// Counts of all senders.
    pub total: CacheCounts,
    /// Counts of senders without counters of their own.
    pub others: CacheCounts,
    /// Counts of each sender, and the number of caches that had arrived when it sent last. Senders choose their numbers:
    /// the hash has random keys, so that these cannot be chosen to collide.
    senders: HashMap<u32, (CacheCounts, u64)>,
}

impl SenderCounters {
    /// Creates counters without senders.
    pub fn new(most: usize) -> Self {
        let (total, others) = Default::default();
        Self { most, total, others, senders: HashMap::default() }
    }

    /// Adds to a sender's counts. Takes O(1) for a known sender, O(`most`) for another.
    pub fn add(&mut self, sender: u32, counts: CacheCounts) {
        self.total.add(counts);
        if self.senders.len() >= self.most && !self.senders.contains_key(&sender) {
            self.drop_least_recent();
        }
        let (known, last) = self.senders.entry(sender).or_default();
        known.add(counts);
        *last = self.total.caches;
    }

    /// Goes on with the counts of a store before this one, the latest sender last.
    pub fn resume(
        &mut self,
        total: CacheCounts,
        others: CacheCounts,
        senders: &[(u32, CacheCounts)],
    ) {
        let places = 0..senders.len() as u64;
        (self.total, self.others) = (total, others);
        // Of the order in which they sent last only the order counts.
        let first = total.caches.saturating_sub(senders.len() as u64);
        self.senders = senders
            .iter()
            .zip(places)
            .map(|(&(sender, counts), place)| (sender, (counts, first + place)))
            .collect();
    }

    /// Counts the sender that has been silent longest with the others.
    fn drop_least_recent(&mut self) {
        let least = self.senders.iter().min_by_key(|(_, (_, last))| *last);
        if let Some((counts, _)) =
            least.map(|(&sender, _)| sender).and_then(|sender| self.senders.remove(&sender))
        {
            self.others.add(counts);
        }
    }

    /// Counts of each sender, the latest sender last.
    pub fn senders(&self) -> Vec<(u32, CacheCounts)> {
        let mut all: Vec<_> = self.senders.iter().collect();
        all.sort_unstable_by_key(|(_, (_, last))| *last);
        all.into_iter().map(|(&sender, &(counts, _))| (sender, counts)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_silent_longest_is_counted_with_others() {
        let counts = |caches, samples, bytes| CacheCounts { caches, samples, bytes };
        let mut counters = SenderCounters::new(2);
        for (sender, samples) in [(7, 1), (8, 10), (7, 2), (9, 100)] {
            counters.add(sender, counts(1, samples, 4 * samples));
        }
        assert_eq!(counters.senders(), [(7, counts(2, 3, 12)), (9, counts(1, 100, 400))]);
        assert_eq!(counters.others, counts(1, 10, 40));
        // A sender that returns starts from zero, and nothing is counted twice.
        counters.add(8, counts(1, 1000, 4000));
        assert_eq!(counters.senders(), [(9, counts(1, 100, 400)), (8, counts(1, 1000, 4000))]);
        assert_eq!(counters.others, counts(3, 13, 52));
        assert_eq!(counters.total, counts(5, 1113, 4452));
    }
}
