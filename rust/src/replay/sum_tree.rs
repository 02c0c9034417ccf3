//! The tree of weights in which draws look up their entries.

use smallvec::SmallVec;

use crate::error::Result;
use crate::replay::mapped_array::{MappedArray, prefetch};

/// Children of a node: sixteen f32 are one cache line, sixteen f64 two.
const WIDTH: usize = 16;

/// A node's children are summed in four groups of four.
const GROUPS: usize = 4;

const CACHE_LINE: usize = 64;

/// Nodes that an update visits without an allocation.
const INLINE_NODES: usize = 32;

/// A leaf: the weight of an entry, and whether it can be drawn.
///
/// Its sign says so: an entry that cannot be drawn keeps its weight as a negative number, and one that can, with weight 0, is
/// -0. So 0, as in memory that was never written, cannot be drawn.
#[inline]
pub fn leaf(weight: f32, drawable: bool) -> f32 {
    // Of a weight of -0 the sign says nothing.
    let weight = weight.abs();
    if drawable == (weight > 0.0) { weight } else { -weight }
}

/// Whether the entry of a leaf can be drawn.
#[inline]
pub fn is_drawable(leaf: f32) -> bool {
    // The bits are 1 .. 2^31 for numbers above 0, 2^31 for -0, and larger ones or 0 for all others.
    leaf.to_bits().wrapping_sub(1) < 1 << 31
}

/// The weight with which a leaf is drawn.
#[inline]
fn drawn(leaf: f32) -> f64 {
    f64::from(leaf.max(0.0))
}

/// Weights with their sums, 16 children per node, for draws in proportion.
///
/// Leaves are f32. A sum is f64 and recomputed from its children when one changes, so the root stays within rounding of the
/// sum of the leaves after any number of updates. A leaf that is not above 0 counts as 0 in sums and is never drawn in
/// proportion. A leaf takes 4 bytes, and a little over half a byte for its share of the sums.
#[derive(Debug)]
pub struct SumTree {
    leaves: MappedArray<f32>,
    /// Sums of 16 children each, from the leaves up to the root; each level is padded to a multiple of 16.
    sums: Vec<MappedArray<f64>>,
    positive: usize,
    drawable: usize,
}

impl SumTree {
    /// Creates `len` leaves of weight 0. Fails with [`crate::error::Error::Memory`] when the system refuses the memory.
    pub fn new(len: usize) -> Result<Self> {
        let padded = len.max(1).next_multiple_of(WIDTH);
        let leaves = MappedArray::new(padded)?;
        let mut sums = Vec::new();
        let mut nodes = padded / WIDTH;
        loop {
            let padded = if nodes == 1 { 1 } else { nodes.next_multiple_of(WIDTH) };
            sums.push(MappedArray::new(padded)?);
            if nodes == 1 {
                break;
            }
            nodes = padded / WIDTH;
        }
        Ok(Self { leaves, sums, positive: 0, drawable: 0 })
    }

    /// A tree without leaves, of which nothing may be asked.
    pub fn none() -> Self {
        Self { leaves: MappedArray::none(), sums: Vec::new(), positive: 0, drawable: 0 }
    }

    /// A leaf, as it was set.
    pub fn get(&self, leaf: usize) -> f32 {
        self.leaves[leaf]
    }

    /// All leaves, padded by zeros.
    pub fn leaves(&self) -> &[f32] {
        &self.leaves
    }

    /// The weights of some leaves.
    pub fn weights(&self, leaves: &[u32]) -> Vec<f32> {
        let all: &[f32] = &self.leaves;
        leaves.iter().map(|&leaf| all[leaf as usize].abs()).collect()
    }

    /// The sum of all weights above 0.
    pub fn total(&self) -> f64 {
        self.sums[self.sums.len() - 1][0]
    }

    /// Leaves with a weight above 0.
    pub fn positive(&self) -> usize {
        self.positive
    }

    /// Leaves that can be drawn, with weight 0 too.
    pub fn drawable(&self) -> usize {
        self.drawable
    }

    /// The sum of the weights of the leaves before one. Takes O(log len).
    pub fn sum_before(&self, leaf: usize) -> f64 {
        let start = leaf / WIDTH * WIDTH;
        let mut sum: f64 = self.leaves[start..leaf].iter().copied().map(drawn).sum();
        let mut node = leaf / WIDTH;
        for sums in &self.sums {
            sum += sums[node / WIDTH * WIDTH..node].iter().sum::<f64>();
            node /= WIDTH;
        }
        sum
    }

    /// The smallest weight above 0, or 0 if all are 0. Takes O(len).
    pub fn smallest(&self) -> f32 {
        let positive = self.leaves.iter().copied().filter(|&weight| weight > 0.0);
        let smallest = positive.fold(f32::INFINITY, f32::min);
        if smallest.is_finite() { smallest } else { 0.0 }
    }

    /// Sets the leaves from `first` on, each finite. Takes O(n + log len) for n weights.
    pub fn set_run(&mut self, first: usize, weights: impl ExactSizeIterator<Item = f32>) {
        let mut nodes = first / WIDTH..(first + weights.len()).div_ceil(WIDTH);
        if nodes.is_empty() {
            return;
        }
        let leaves = &mut self.leaves[first..first + weights.len()];
        for (leaf, weight) in leaves.iter_mut().zip(weights) {
            self.positive -= usize::from(*leaf > 0.0);
            self.positive += usize::from(weight > 0.0);
            self.drawable -= usize::from(is_drawable(*leaf));
            self.drawable += usize::from(is_drawable(weight));
            *leaf = weight;
        }
        for level in 0..self.sums.len() {
            self.refresh(level, nodes.clone());
            nodes = nodes.start / WIDTH..nodes.end.div_ceil(WIDTH);
        }
    }

    /// Sets scattered leaves, each finite; the last number for a leaf counts. Returns whether one can be drawn now that could
    /// not, or the other way round. Takes O(n log len), less where leaves share sums.
    pub fn set_many(&mut self, leaves: &[u32], weights: &[f32]) -> bool {
        let mut switched = false;
        prefetch(&self.leaves, leaves.iter().copied());
        let mut nodes = SmallVec::<[u32; INLINE_NODES]>::with_capacity(leaves.len());
        let all: &mut [f32] = &mut self.leaves;
        for (&leaf, &weight) in leaves.iter().zip(weights) {
            let old = std::mem::replace(&mut all[leaf as usize], weight);
            // Learners send many errors that they sent before, and sums take most of the time.
            if old.to_bits() == weight.to_bits() {
                continue;
            }
            self.positive -= usize::from(old > 0.0);
            self.positive += usize::from(weight > 0.0);
            self.drawable -= usize::from(is_drawable(old));
            self.drawable += usize::from(is_drawable(weight));
            switched |= is_drawable(old) != is_drawable(weight);
            nodes.push(leaf / WIDTH as u32);
        }
        if nodes.is_empty() {
            return false;
        }
        for level in 0..self.sums.len() {
            nodes.dedup();
            // Behind those a level is padded.
            let below = if level == 0 { self.leaves.len() } else { self.sums[level - 1].len() };
            if nodes.len() * 2 > below / WIDTH {
                nodes.clear();
                nodes.extend(0..(below / WIDTH) as u32);
            }
            self.refresh(level, nodes.iter().map(|&node| node as usize));
            nodes.iter_mut().for_each(|node| *node /= WIDTH as u32);
        }
        switched
    }

    /// Sums of nodes of a level, from their children.
    fn refresh(&mut self, level: usize, nodes: impl Iterator<Item = usize>) {
        let (below, rest) = self.sums.split_at_mut(level);
        let sums: &mut [f64] = &mut rest[0];
        if let Some(below) = below.last() {
            let children = below.as_chunks().0;
            nodes.for_each(|node| sums[node] = total(groups(&children[node], |&sum| sum)));
        } else {
            let children = self.leaves.as_chunks().0;
            nodes.for_each(|node| sums[node] = total(groups(&children[node], |&leaf| drawn(leaf))));
        }
    }

    /// Finds the leaf of each target: leaf i for a target from the sum of the leaves before i up to that sum with leaf i.
    /// Overwrites the targets. All descend together, level by level, so that their waits for memory overlap. Panics when no
    /// leaf has a weight above 0. Takes O(n log len).
    pub fn find(&self, targets: &mut [f64], found: &mut Vec<u32>) {
        assert!(self.positive > 0, "nothing can be drawn from weights that are all 0");
        found.clear();
        found.resize(targets.len(), 0);
        for sums in self.sums.iter().rev().skip(1) {
            descend_all(sums.as_chunks().0, found, targets, |&sum| sum);
        }
        descend_all(self.leaves.as_chunks().0, found, targets, |&leaf| drawn(leaf));
    }
}

/// Sums of each four of a node's children.
#[inline]
fn groups<T>(children: &[T; WIDTH], weight: impl Fn(&T) -> f64) -> [f64; GROUPS] {
    std::array::from_fn(|group| {
        let [a, b, c, d] = std::array::from_fn(|at| weight(&children[group * GROUPS + at]));
        (a + b) + (c + d)
    })
}

fn total(groups: [f64; GROUPS]) -> f64 {
    groups.iter().sum()
}

/// Moves every target from its node to the child under it.
fn descend_all<T: Copy>(
    nodes: &[[T; WIDTH]],
    found: &mut [u32],
    rest: &mut [f64],
    weight: impl Fn(&T) -> f64 + Copy,
) {
    let children = nodes.as_flattened();
    for line in (0..WIDTH).step_by(CACHE_LINE / size_of::<T>()) {
        prefetch(children, found.iter().map(|node| node * WIDTH as u32 + line as u32));
    }
    for (node, rest) in found.iter_mut().zip(rest) {
        let children = &nodes[*node as usize];
        let group = pick(groups(children, weight), rest);
        let four = std::array::from_fn(|at| weight(&children[group * GROUPS + at]));
        let mut child = group * GROUPS + pick(four, rest);
        if weight(&children[child]) <= 0.0 {
            // Rounding put the target at or past the end: take the last leaf that can be drawn, here and below.
            child = children[..child].iter().rposition(|each| weight(each) > 0.0).unwrap_or(0);
            *rest = f64::INFINITY;
        }
        *node = *node * WIDTH as u32 + child as u32;
    }
}

/// Which of four the target lies in; the sum of those before it is subtracted from the target.
#[inline]
fn pick(four: [f64; GROUPS], rest: &mut f64) -> usize {
    let one = four[0];
    let two = one + four[1];
    let three = two + four[2];
    // Without branches, half of which would be mispredicted.
    let before = [0.0, one, two, three];
    let picked =
        usize::from(one <= *rest) + usize::from(two <= *rest) + usize::from(three <= *rest);
    *rest -= before[picked];
    picked
}
