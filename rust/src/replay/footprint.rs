//! How many bytes a memory takes.

use crate::replay::episode::{Episode, INLINE_BOOTSTRAP};
use crate::replay::recurrent::RecurrentSpec;
use crate::spec::EntrySpec;

/// Closed episodes without entries held at most: they take no slot, so nothing else bounds them.
pub const EMPTY_EPISODES: usize = 64;

/// Bytes per slot beside the entry: reference, base and weight, and the leaf with its sums.
const SLOT_BYTES: usize = 8 + 4 + 4 + 5;

/// Bytes per episode: itself, its index in the queue, and up to 16/7 buckets of the table of serial numbers.
const EPISODE_BYTES: usize = size_of::<Episode>() + 2 * size_of::<u32>() + (16 + 1) * 16 / 7;

/// Bytes that the allocator takes for itself per allocation.
const ALLOCATION_OVERHEAD: usize = 16;

/// Bytes of `max_step` entries and of the most episodes that they can be: one per slot. Longer episodes take less.
pub fn nbytes(spec: &EntrySpec, recurrent: Option<&RecurrentSpec>, max_step: usize) -> u128 {
    let mut episode = EPISODE_BYTES;
    let dims = spec.reward_dims();
    if dims > INLINE_BOOTSTRAP {
        episode += dims * size_of::<f64>() + ALLOCATION_OVERHEAD;
    }
    let slots = (spec.entry_size() + SLOT_BYTES) as u128 * max_step as u128;
    let states = recurrent.map_or(0, |spec| spec.nbytes(max_step));
    slots + states + episode as u128 * (max_step as u128 + EMPTY_EPISODES as u128)
}
