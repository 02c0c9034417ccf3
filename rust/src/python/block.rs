//! Memory of batches, used again when its last array was deleted, so a batch outlives its memory, and the block
//! of an array that is still alive is never written to.
//!
//! Fresh memory is faulted in page by page as it is first written, which costs several times as much as copying a batch
//! of images.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::error::Result;
use crate::replay::mapped_array::MappedArray;

/// Unused blocks kept at most.
const KEPT: usize = 8;

/// Blocks of this size and more have pages of their own.
const PAGED: usize = 1 << 20;

/// Blocks start at multiples of a cache line, which JAX requires of shared memory.
pub const ALIGN: usize = 64;

#[derive(Debug)]
enum Block {
    /// Memory somewhat larger than the block, which begins at its first multiple of `ALIGN`.
    Heap(Vec<u8>),
    Pages(MappedArray<u8>),
}

impl Block {
    fn new(size: usize) -> Result<Self> {
        if size >= PAGED {
            return Ok(Self::Pages(MappedArray::new(size)?));
        }
        Ok(Self::Heap(vec![0; size + ALIGN - 1]))
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => {
                let first = bytes.as_ptr().align_offset(ALIGN);
                let size = bytes.len() - (ALIGN - 1);
                &mut bytes[first..][..size]
            }
            Self::Pages(bytes) => bytes,
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => &bytes[bytes.as_ptr().align_offset(ALIGN)..],
            Self::Pages(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len() - (ALIGN - 1),
            Self::Pages(bytes) => bytes.len(),
        }
    }
}

#[derive(Debug, Default)]
pub struct BlockPool {
    blocks: Mutex<Vec<Block>>,
}

impl BlockPool {
    /// A block of at least `size` bytes, its contents arbitrary; [`Error::Memory`] when the system refuses.
    pub fn take(self: &Arc<Self>, size: usize) -> Result<BatchMemory> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // Of about the right size: a large block must not go to a small batch that is kept long.
        let fitting =
            blocks.iter().position(|block| (size..=size.saturating_mul(2)).contains(&block.len()));
        let kept = fitting.map(|at| blocks.swap_remove(at));
        drop(blocks);
        let block = kept.map_or_else(|| Block::new(size.max(1)), Ok)?;
        Ok(BatchMemory { block, pool: Arc::clone(self) })
    }

    fn give_back(&self, block: Block) {
        // Arrays may be freed in a forked child, where this lock can stay locked for ever.
        let Ok(mut blocks) = self.blocks.try_lock() else { return };
        if blocks.len() == KEPT {
            blocks.remove(0);
        }
        blocks.push(block);
    }
}

/// The memory of one batch's arrays, kept as long as one of them lives.
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct BatchMemory {
    block: Block,
    pool: Arc<BlockPool>,
}

impl BatchMemory {
    /// The bytes. They stay in place when `self` moves.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.block.bytes()
    }

    /// The bytes, where nothing writes to them any more.
    pub fn as_slice(&self) -> &[u8] {
        self.block.as_slice()
    }
}

impl Drop for BatchMemory {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::replace(&mut self.block, Block::Heap(Vec::new())));
    }
}
