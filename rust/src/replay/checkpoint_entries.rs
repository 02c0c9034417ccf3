//! The entries of an episode in a file. Of a compressed field each has kind and size of its frame, in 4 bytes, and the frame.

use crate::error::{Error, Result};
use crate::replay::compressed_column::FrameDecoder;
use crate::replay::episode::Episode;
use crate::replay::frame_encoder::{EncodedFrames, FrameKind};
use crate::replay::memory::Memory;
use crate::replay::view::View;

/// Bytes of the frames of all closed episodes.
pub fn frames_size(memory: &Memory) -> u64 {
    let mut size = 0;
    for episode in memory.closed_episodes() {
        let counted = write_frames(memory, episode, |bytes| {
            size += bytes.len() as u64;
            Ok(())
        });
        debug_assert!(counted.is_ok(), "nothing is written");
    }
    size
}

/// Writes all of an episode's entries by `put`.
pub fn write_entries(
    memory: &Memory,
    episode: &Episode,
    put: &mut impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    for slots in episode.pieces() {
        put(bytemuck::cast_slice(&memory.weights[slots]))?;
    }
    if memory.index.limit() > 0 {
        for slot in episode.slots() {
            put(&memory.index.times_sampled(slot).to_ne_bytes())?;
        }
    }
    for View { index, .. } in memory.views() {
        for slot in episode.slots() {
            put(&index.weight(slot).to_ne_bytes())?;
        }
        for slot in episode.slots().filter(|_| index.limit() > 0) {
            put(&index.times_sampled(slot).to_ne_bytes())?;
        }
    }
    for column in 0..memory.storage.columns() {
        for slots in episode.pieces() {
            put(memory.storage.rows(column, slots))?;
        }
    }
    write_frames(memory, episode, &mut *put)?;
    for state in memory.recurrent_states(episode) {
        put(state)?;
    }
    Ok(())
}

/// Writes the frames of an episode by `put`.
pub fn write_frames(
    memory: &Memory,
    episode: &Episode,
    mut put: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let Some(fields) = &memory.storage.compressed else { return Ok(()) };
    for (_, column) in fields.columns() {
        for slot in episode.slots() {
            let (kind, frame) = column.frame(slot);
            put(&((kind as u32) << 30 | frame.len() as u32).to_ne_bytes())?;
            put(frame)?;
        }
    }
    Ok(())
}

/// Reads the frames of an episode by `fill`, out of `left` bytes. Fails with [`Error::State`] and the reason where these are
/// not its frames, with [`Error::Memory`] where their values would take more than the memory may hold.
pub fn read_frames(
    memory: &mut Memory,
    index: u32,
    left: &mut u64,
    mut fill: impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let slots: Vec<usize> = memory.episodes[index as usize].slots().collect();
    let Some(fields) = &mut memory.storage.compressed else { return Ok(()) };
    let unknown = || Error::State("a file with a frame of an unknown kind".into());
    let mut frame = Vec::new();
    for (_, column) in fields.columns_mut() {
        let mut decoder = FrameDecoder::new(column.codec, column.size);
        for &slot in &slots {
            let mut word = [0; 4];
            fill(&mut word)?;
            let word = u32::from_ne_bytes(word);
            let (kind, size) = (FrameKind::of_bits(word), (word & u32::MAX >> 2) as usize);
            *left = left.checked_sub(4 + size as u64).ok_or_else(other_sizes)?;
            if size > column.size {
                return Err(Error::State("a file with a frame larger than its value".into()));
            }
            frame.resize(size, 0);
            fill(&mut frame)?;
            let kind = kind.ok_or_else(unknown)?;
            let value = decoder.next(kind, &frame)?;
            let state = column.state(index);
            let encoded = EncodedFrames::stored(column.codec, kind, &frame, value, state)
                .unwrap_or_else(|| column.encode(index, value));
            column.append(index, std::iter::once(slot), encoded);
        }
        column.close(index);
    }
    if fields.bytes() > fields.limit {
        let (needed, limit) = (fields.bytes(), fields.limit);
        return Err(Error::Memory(format!(
            "the compressed values of the file take at least {needed} bytes, of which {limit} are available"
        )));
    }
    Ok(())
}

fn other_sizes() -> Error {
    Error::State("a file whose frames are larger than it says".into())
}
