//! The closed episodes by their mean weights.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};

use crate::replay::settings::Remover;

/// Closed episodes, the one to evict first. Made when an episode is evicted by weight for the first time, and kept up to date
/// from then on: means are computed again at an eviction, for episodes whose weights have changed since the one before.
#[derive(Debug, Default)]
pub struct RemovalOrder {
    highest: bool,
    /// Key and number in the order of closing.
    order: BTreeSet<(u64, u32)>,
    /// The key of each number.
    keys: HashMap<u32, u64>,
    /// Positions of episodes whose weights have changed.
    changed: HashSet<u32>,
}

impl RemovalOrder {
    /// An order without episodes; None for removers that do not look at weights.
    pub fn new(remover: Remover) -> Option<Self> {
        let highest = match remover {
            Remover::Highest => true,
            Remover::Lowest => false,
            Remover::Fifo | Remover::Lifo => return None,
        };
        Some(Self { highest, ..Self::default() })
    }

    /// The weights of the episode at this position have changed, or it has been closed.
    pub fn change(&mut self, index: u32) {
        self.changed.insert(index);
    }

    /// The positions of episodes that changed since this was called last.
    pub fn take_changed(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Sets the mean weight of an episode, which is >= 0.
    pub fn set(&mut self, number: u32, mean: f64) {
        // Bits of numbers >= 0 have the order of the numbers.
        let key = if self.highest { !mean.to_bits() } else { mean.to_bits() };
        if let Some(old) = self.keys.insert(number, key) {
            self.order.remove(&(old, number));
        }
        self.order.insert((key, number));
    }

    /// Removes an evicted episode.
    pub fn remove(&mut self, number: u32, index: u32) {
        self.changed.remove(&index);
        if let Some(key) = self.keys.remove(&number) {
            self.order.remove(&(key, number));
        }
    }

    /// The number of the episode to evict first that is not `kept`.
    pub fn first_but(&self, kept: Option<u32>) -> Option<u32> {
        self.order.iter().map(|&(_, number)| number).find(|&number| Some(number) != kept)
    }
}
