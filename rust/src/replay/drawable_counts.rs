//! How many entries can be drawn, by ranges of slots.

use std::ops::Range;

use crate::error::Result;
use crate::replay::mapped_array::MappedArray;
use crate::replay::sum_tree::is_drawable;

/// Leaves per block: with 4 bytes each, four cache lines.
const BLOCK: usize = 64;

/// Children of a node.
const WIDTH: usize = 16;

/// Counts of the drawable leaves of a sum tree: the lowest level has one per block of leaves, each level above one per 16
/// nodes. Finds the n-th drawable leaf without a look at those before it. Takes a fifteenth of a byte per leaf.
#[derive(Debug)]
pub struct DrawableCounts {
    levels: Vec<MappedArray<u32>>,
}

impl DrawableCounts {
    /// Counts all leaves. Fails with [`crate::error::Error::Memory`] when the system refuses the memory.
    pub fn new(leaves: &[f32]) -> Result<Self> {
        let mut levels = Vec::new();
        let mut nodes = leaves.len().div_ceil(BLOCK).max(1);
        loop {
            levels.push(MappedArray::new(nodes)?);
            if nodes == 1 {
                break;
            }
            nodes = nodes.div_ceil(WIDTH);
        }
        let mut counts = Self { levels };
        counts.refresh(0..leaves.len(), leaves);
        Ok(counts)
    }

    /// Counts again where leaves have changed.
    pub fn refresh(&mut self, changed: Range<usize>, leaves: &[f32]) {
        let mut nodes = changed.start / BLOCK..changed.end.div_ceil(BLOCK);
        for block in nodes.clone() {
            let block_leaves = &leaves[block * BLOCK..leaves.len().min((block + 1) * BLOCK)];
            self.levels[0][block] = count(block_leaves) as u32;
        }
        for level in 1..self.levels.len() {
            nodes = nodes.start / WIDTH..nodes.end.div_ceil(WIDTH);
            for node in nodes.clone() {
                self.levels[level][node] = self.children(level - 1, node).iter().sum();
            }
        }
    }

    /// The nodes of a level under a node of the level above.
    fn children(&self, level: usize, node: usize) -> &[u32] {
        let nodes = &self.levels[level];
        &nodes[node * WIDTH..nodes.len().min((node + 1) * WIDTH)]
    }

    /// Drawable leaves before one.
    pub fn rank(&self, leaf: usize, leaves: &[f32]) -> usize {
        let mut node = leaf / BLOCK;
        let mut rank = count(&leaves[node * BLOCK..leaf]);
        for level in &self.levels {
            rank += level[node / WIDTH * WIDTH..node].iter().sum::<u32>() as usize;
            node /= WIDTH;
        }
        rank
    }

    /// The drawable leaf with `rank` others before it; there are more than `rank`.
    pub fn select(&self, rank: usize, leaves: &[f32]) -> usize {
        let mut rest = rank as u32;
        let mut node = 0;
        for level in (0..self.levels.len() - 1).rev() {
            let mut child = 0;
            for &count in self.children(level, node) {
                if rest < count {
                    break;
                }
                rest -= count;
                child += 1;
            }
            node = node * WIDTH + child;
        }
        let block = leaves[node * BLOCK..].iter().enumerate();
        let found = block.filter(|(_, leaf)| is_drawable(**leaf)).nth(rest as usize);
        node * BLOCK + found.map_or(0, |(at, _)| at)
    }
}

fn count(leaves: &[f32]) -> usize {
    leaves.iter().map(|&leaf| usize::from(is_drawable(leaf))).sum()
}
