//! How many bytes a memory takes.

use crate::replay::compression::Compression;
use crate::replay::episode::{Episode, INLINE_BOOTSTRAP};
use crate::replay::recurrent::RecurrentSpec;
use crate::replay::storage_files::file_bytes;
use crate::spec::EntrySpec;

/// Closed episodes without entries held at most: they take no slot, so nothing else bounds them.
pub const EMPTY_EPISODES: usize = 64;

/// Bytes per slot beside the entry: reference, base and weight, and the leaf with its sums.
const SLOT_BYTES: usize = 8 + 4 + 4 + 5;

/// Bytes per episode: itself, its index in the queue, and up to 16/7 buckets of the table of serial numbers.
const EPISODE_BYTES: usize = size_of::<Episode>() + 2 * size_of::<u32>() + (16 + 1) * 16 / 7;

/// Bytes that the allocator takes for itself per allocation.
const ALLOCATION_OVERHEAD: usize = 16;

/// Bytes per episode and compressed field: the list of its chunks, and the chunk.
const FRAME_LOG_BYTES: usize =
    80 + ALLOCATION_OVERHEAD + size_of::<u32>() + 32 + ALLOCATION_OVERHEAD;

/// Bytes in memory of `max_step` entries, without compressed values and, if these lie on disk, large fields, and of the most episodes that they can be: one per slot. Longer
/// episodes take less.
pub fn nbytes(
    spec: &EntrySpec,
    compression: &Compression,
    recurrent: Option<&RecurrentSpec>,
    max_step: usize,
    on_disk: bool,
) -> u128 {
    let mut episode = EPISODE_BYTES;
    let mut entry_size = spec.entry_size();
    for (field, _) in compression.fields() {
        entry_size = entry_size - spec[field].nbytes() + size_of::<u64>();
        episode += FRAME_LOG_BYTES;
    }
    entry_size -= if on_disk { file_bytes(spec, compression) } else { 0 };
    let dims = spec.reward_dims();
    if dims > INLINE_BOOTSTRAP {
        episode += dims * size_of::<f64>() + ALLOCATION_OVERHEAD;
    }
    let slots = (entry_size + SLOT_BYTES) as u128 * max_step as u128;
    let states = recurrent.map_or(0, |spec| spec.nbytes(max_step));
    slots + states + episode as u128 * (max_step as u128 + EMPTY_EPISODES as u128)
}
