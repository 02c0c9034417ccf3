//! The entries of an episode in a file. Of a compressed field each has kind and size of its frame, in 4 bytes, and the frame.
//!
//! Of one that lies in a folder each chunk has its length (u32) and its position in the region that follows (u64), or
//! [`INLINE`] and its bytes.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::replay::compressed_column::{CHUNK, CompressedColumn, FRAME_HEAD, FrameDecoder};
use crate::replay::compressed_fields::CompressedFields;
use crate::replay::episode::Episode;
use crate::replay::frame_encoder::{EncodedFrames, FrameKind, GROUP};
use crate::replay::frame_reader::{FrameReader, TargetRows};
use crate::replay::memory::Memory;
use crate::replay::storage::Storage;
use crate::replay::view::View;
use crate::spec::{EntrySpec, Field};

/// The position of a chunk whose bytes follow.
const INLINE: u64 = u64::MAX;

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
        if memory.storage.is_in_file(column) {
            continue;
        }
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
        if column.heap().is_some() {
            let index = memory.serials[&episode.serial];
            for (chunk, at) in column.chunks_of(index) {
                put(&(chunk.len() as u32).to_ne_bytes())?;
                put(&at.unwrap_or(INLINE).to_ne_bytes())?;
                put(if at.is_some() { &[] } else { chunk })?;
            }
            continue;
        }
        for slot in episode.slots() {
            let (kind, frame) = column.frame(slot);
            put(&((kind as u32) << 30 | frame.len() as u32).to_ne_bytes())?;
            put(frame)?;
        }
    }
    Ok(())
}

/// Reads the frames of a field of an episode by `fill`, out of `left` bytes. Fails with [`Error::State`] and the reason where
/// these are not its frames, with [`Error::File`] where the disk has no room for them.
pub fn read_frames(
    column: &mut CompressedColumn,
    index: u32,
    slots: &[usize],
    left: &mut u64,
    mut fill: impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut frame = Vec::new();
    let mut decoder = FrameDecoder::new(column.codec, column.size);
    for &slot in slots {
        let mut word = [0; 4];
        fill(&mut word)?;
        let (kind, size) = frame_head(word, column.size)?;
        *left = left.checked_sub(4 + size as u64).ok_or_else(other_sizes)?;
        frame.resize(size, 0);
        fill(&mut frame)?;
        store(column, &mut decoder, (index, slot), kind, &frame)?;
    }
    Ok(())
}

/// The same for frames in chunks, of which those in a file lie between two positions there, from which `fill` reads them.
pub fn read_chunks(
    column: &mut CompressedColumn,
    index: u32,
    slots: &[usize],
    left: &mut u64,
    (begin, end): (u64, u64),
    mut fill: impl FnMut(&mut [u8], Option<u64>) -> Result<()>,
) -> Result<()> {
    let mut decoder = FrameDecoder::new(column.codec, column.size);
    let mut chunk = Vec::new();
    let mut rest = 0;
    for &slot in slots {
        if rest == chunk.len() {
            let (mut len, mut at) = ([0; 4], [0; 8]);
            fill(&mut len, None)?;
            fill(&mut at, None)?;
            let (len, at) = (u32::from_ne_bytes(len), u64::from_ne_bytes(at));
            let largest = CHUNK.max(GROUP as usize * (column.size + FRAME_HEAD));
            if len == 0 || len as usize > largest {
                return Err(other_sizes());
            }
            let inline = if at == INLINE { u64::from(len) } else { 0 };
            *left = left.checked_sub(12 + inline).ok_or_else(other_sizes)?;
            let at = match at {
                INLINE => None,
                at => Some(begin.checked_add(at).ok_or_else(other_sizes)?),
            };
            if at.is_some_and(|at| at.checked_add(len.into()).is_none_or(|last| last > end)) {
                return Err(other_sizes());
            }
            chunk.resize(len as usize, 0);
            fill(&mut chunk, at)?;
            rest = 0;
        }
        let part = |bytes: Range<usize>| chunk.get(bytes).ok_or_else(other_sizes);
        let word = part(rest..rest + 4)?.try_into().unwrap_or_default();
        let (kind, size) = frame_head(word, column.size)?;
        let start = rest + if kind.is_key() { FRAME_HEAD / 2 } else { FRAME_HEAD };
        rest = start + size;
        store(column, &mut decoder, (index, slot), kind, part(start..rest)?)?;
    }
    if rest == chunk.len() { Ok(()) } else { Err(other_sizes()) }
}

/// Kind and size of a frame of values of at most `largest` bytes.
fn frame_head(word: [u8; 4], largest: usize) -> Result<(FrameKind, usize)> {
    let word = u32::from_ne_bytes(word);
    let size = (word & u32::MAX >> 2) as usize;
    if size > largest {
        return Err(Error::State("a file with a frame larger than its value".into()));
    }
    let unknown = || Error::State("a file with a frame of an unknown kind".into());
    Ok((FrameKind::of_bits(word).ok_or_else(unknown)?, size))
}

/// Stores the next frame of an episode in a slot, once it has been decoded.
fn store(
    column: &mut CompressedColumn,
    decoder: &mut FrameDecoder,
    (index, slot): (u32, usize),
    kind: FrameKind,
    frame: &[u8],
) -> Result<()> {
    let value = decoder.next(kind, frame)?;
    let state = column.state(index);
    let encoded = EncodedFrames::stored(column.codec, kind, frame, value, state)
        .unwrap_or_else(|| column.encode(index, value));
    column.reserve((encoded.bytes.len() + FRAME_HEAD) as u64, 1)?;
    column.append(index, std::iter::once(slot), encoded);
    Ok(())
}

/// Copies all entries of one storage, whose slots are those from 0 on, into slots of another that compresses other fields.
/// Fails with [`Error::File`] where the disk has no room.
pub fn transfer(
    from: &Storage,
    to: &mut Storage,
    spec: &EntrySpec,
    runs: &[Range<usize>],
    index: u32,
) -> Result<()> {
    for field in Field::ALL.into_iter().filter(|&field| spec[field].nbytes() > 0) {
        let size = spec[field].nbytes();
        let source = from.compressed.as_ref().and_then(|fields| fields.column(field));
        let mut reader = source.map(|column| (column, FrameReader::new(column)));
        // A reader needs the value before.
        let mut held = vec![0; 2 * size];
        let mut rows = TargetRows { size, parts: [&mut held, &mut []] };
        for (at, slot) in runs.iter().cloned().flatten().enumerate() {
            match &mut reader {
                Some((column, reader)) => {
                    reader.read(column.place(at as u32), &mut rows, at % 2);
                }
                None => rows.row(at % 2).copy_from_slice(from.field(field, at)),
            }
            let values = &*rows.row(at % 2);
            let target = to.compressed.as_mut().and_then(|fields| fields.column_mut(field));
            let Some(column) = target else {
                to.write_run(field, slot, values);
                continue;
            };
            let encoded = column.encode(index, values);
            column.reserve((encoded.bytes.len() + FRAME_HEAD) as u64, 1)?;
            column.append(index, std::iter::once(slot), encoded);
        }
    }
    if let Some(fields) = &mut to.compressed {
        fields.close(index);
    }
    Ok(())
}

/// Fails with [`Error::Memory`] where compressed values take more than the memory may hold.
pub fn check_limit(fields: &CompressedFields) -> Result<()> {
    let (needed, limit) = (fields.bytes(), fields.limit);
    if needed <= limit {
        return Ok(());
    }
    Err(Error::Memory(format!(
        "the compressed values of the file take at least {needed} bytes, of which {limit} are available"
    )))
}

fn other_sizes() -> Error {
    Error::State("a file whose frames are larger than it says".into())
}
