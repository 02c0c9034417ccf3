//! How many bytes a memory takes, and how many episodes it may hold.

use crate::replay::episode::{Episode, INLINE_BOOTSTRAP};
use crate::spec::EntrySpec;

/// Closed episodes without entries that are held at most: they take no slot, so nothing else bounds them.
pub const EMPTY_EPISODES: usize = 64;

/// Bytes for each slot beyond its entry: reference, base and weight, and the leaf with its sums.
const SLOT_BYTES: usize = 8 + 4 + 4 + 5;

/// Bytes for each episode: itself, its place in the queue, and up to 16/7 buckets of the table of serial numbers.
const EPISODE_BYTES: usize = size_of::<Episode>() + 2 * size_of::<u32>() + (16 + 1) * 16 / 7;

/// What the allocator keeps for itself of each piece.
const ALLOCATION_OVERHEAD: usize = 16;

/// Bytes that `max_step` entries take, with all that is kept of them and of their episodes.
///
/// Every slot may hold an episode of its own, so that is what is counted. Episodes of many steps take less.
pub fn nbytes(spec: &EntrySpec, max_step: usize) -> u128 {
    let mut episode = EPISODE_BYTES;
    let dims = spec.reward_dims();
    if dims > INLINE_BOOTSTRAP {
        episode += dims * size_of::<f64>() + ALLOCATION_OVERHEAD;
    }
    let slots = (spec.entry_size() + SLOT_BYTES) as u128 * max_step as u128;
    slots + episode as u128 * (max_step as u128 + EMPTY_EPISODES as u128)
}
