//! What has arrived from whom.

use crate::replay::keyed_hash::KeyedMap;

/// Caches and what they held.
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

/// Tallies by sender. Anybody can send under any name, so only the `most` who sent last have a tally of
/// their own; those of the others are put together.
#[derive(Debug)]
pub struct SenderCounters {
    most: usize,
    total: CacheCounts,
    others: CacheCounts,
    /// Senders choose their names.
    senders: KeyedMap<u32, SenderCounter>,
}

#[derive(Debug, Clone, Copy)]
struct SenderCounter {
    tally: CacheCounts,
    /// How many caches had arrived when it sent last.
    last: u64,
}

impl SenderCounters {
    /// An empty one.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            total: CacheCounts::default(),
            others: CacheCounts::default(),
            senders: KeyedMap::default(),
        }
    }

    /// Adds what one has sent.
    ///
    /// # Complexity
    /// O(1) for those who are known, O(`most`) for those who are not.
    pub fn add(&mut self, sender: u32, tally: CacheCounts) {
        self.total.add(tally);
        if self.senders.len() >= self.most && !self.senders.contains_key(&sender) {
            self.fold();
        }
        let account = self
            .senders
            .entry(sender)
            .or_insert(SenderCounter { tally: CacheCounts::default(), last: 0 });
        account.tally.add(tally);
        account.last = self.total.caches;
    }

    /// Forgets the name of who has been silent longest.
    fn fold(&mut self) {
        let silent = self.senders.iter().min_by_key(|(_, account)| account.last);
        if let Some(account) =
            silent.map(|(&sender, _)| sender).and_then(|sender| self.senders.remove(&sender))
        {
            self.others.add(account.tally);
        }
    }

    /// What all have sent.
    pub fn total(&self) -> CacheCounts {
        self.total
    }

    /// What those have sent who have no tally of their own any more.
    pub fn others(&self) -> CacheCounts {
        self.others
    }

    /// Who has sent what; whoever sent last comes last.
    pub fn senders(&self) -> Vec<(u32, CacheCounts)> {
        let mut all: Vec<_> = self.senders.iter().collect();
        all.sort_unstable_by_key(|(_, account)| account.last);
        all.into_iter().map(|(&sender, account)| (sender, account.tally)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(caches: u64, samples: u64, bytes: u64) -> CacheCounts {
        CacheCounts { caches, samples, bytes }
    }

    #[test]
    fn sender_silent_longest_is_counted_with_others() {
        let mut counters = SenderCounters::new(2);
        for (sender, samples) in [(7, 1), (8, 10), (7, 2), (9, 100)] {
            counters.add(sender, tally(1, samples, 4 * samples));
        }
        assert_eq!(counters.senders(), [(7, tally(2, 3, 12)), (9, tally(1, 100, 400))]);
        assert_eq!(counters.others(), tally(1, 10, 40));
        // One who comes again begins again, and nothing is counted twice.
        counters.add(8, tally(1, 1000, 4000));
        assert_eq!(counters.senders(), [(9, tally(1, 100, 400)), (8, tally(1, 1000, 4000))]);
        assert_eq!(counters.others(), tally(3, 13, 52));
        assert_eq!(counters.total(), tally(5, 1113, 4452));
    }
}
