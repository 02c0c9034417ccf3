//! The compressed values of one field, by slot.
//!
//! Frames of an episode follow each other in chunks of its own, so they are freed together and a group is read in one go:
//!
//! ```text
//! kind (2 bits) and size (30 bits) of the frame; of a delta frame how many bytes its key frame lies before it (u32); bytes
//! ```
//!
//! A group lies in one chunk. A chunk that is large enough gets no further group, and moves to the file of a memory with a
//! folder.

use std::io;

use crate::error::{Error, Result};
use crate::replay::codec::Codec;
use crate::replay::frame_encoder::{EncodedFrames, FrameKind, GROUP, GroupState, combine_in_place};
use crate::replay::mapped_array::MappedArray;
use crate::replay::value_heap::{HeapChunk, ValueHeap};

use slab::Slab;

/// Bytes of a chunk, unless a single group takes more.
pub(super) const CHUNK: usize = 64 << 10;

/// A chunk that begins with a frame of so many bytes gets its memory at once: as it grows, each frame would be copied again.
const LARGE_FRAME: usize = CHUNK / 16;

/// Bytes of a value at most: sizes of frames have 30 bits, and offsets of all frames of a group 32.
pub const MAX_VALUE: usize = 1 << 28;

/// Bytes that a frame takes beside its own, at most.
pub const FRAME_HEAD: usize = 8;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnUse {
    /// Values held.
    pub values: u64,
    /// Bytes of the values.
    pub raw_bytes: u64,
    /// Bytes that they take, without the 8 per slot that say where.
    pub bytes: u64,
}

/// The frames of an episode.
#[derive(Debug, Default)]
struct FrameLog {
    chunks: Vec<u32>,
    values: u64,
    bytes: u64,
    /// Where the last key frame begins in the last chunk.
    key: usize,
    is_closed: bool,
    state: GroupState,
}

/// The bytes of a chunk.
#[derive(Debug)]
enum Chunk {
    Memory(Vec<u8>),
    File(HeapChunk),
}

/// The values of a field.
#[derive(Debug)]
pub(super) struct CompressedColumn {
    pub codec: Codec,
    /// Bytes of a value.
    pub size: usize,
    /// Where the frame of each slot begins: the chunk, and the offset there.
    frames: MappedArray<u64>,
    chunks: Slab<Chunk>,
    /// Where chunks lie that get no further groups, in a memory with a folder.
    heap: Option<ValueHeap>,
    /// Chunks that get further ones.
    unsealed: u64,
    /// By the index of the episode.
    logs: Vec<FrameLog>,
    values: u64,
    bytes: u64,
    open_bytes: u64,
}

impl CompressedColumn {
    pub fn new(codec: Codec, size: usize, slots: usize, heap: Option<ValueHeap>) -> Result<Self> {
        let (chunks, logs) = (Slab::new(), Vec::new());
        let frames = MappedArray::new(slots)?;
        let (unsealed, values, bytes, open_bytes) = (0, 0, 0, 0);
        Ok(Self { codec, size, frames, chunks, heap, unsealed, logs, values, bytes, open_bytes })
    }

    /// Bytes that a value takes at most.
    pub fn largest(&self) -> u64 {
        (self.size + FRAME_HEAD) as u64
    }

    pub fn held(&self) -> ColumnUse {
        let Self { values, bytes, size, .. } = *self;
        ColumnUse { values, raw_bytes: values * size as u64, bytes }
    }

    /// The bytes of open episodes.
    pub fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// What the next frame of an episode continues.
    pub fn state(&self, index: u32) -> GroupState {
        self.logs.get(index as usize).map(|log| log.state.clone()).unwrap_or_default()
    }

    pub fn encode(&self, index: u32, values: &[u8]) -> EncodedFrames {
        EncodedFrames::new(self.codec, self.size, values, self.state(index))
    }

    /// Stores the next values of an episode in these slots.
    pub fn append(
        &mut self,
        index: u32,
        slots: impl Iterator<Item = usize>,
        encoded: EncodedFrames,
    ) {
        let EncodedFrames { bytes, frames, state } = encoded;
        let mut rest = &bytes[..];
        for (slot, (kind, size)) in slots.zip(frames) {
            let (frame, behind) = rest.split_at(size);
            self.frames[slot] = self.push(index, kind, frame);
            rest = behind;
        }
        self.log(index).state = state;
    }

    fn log(&mut self, index: u32) -> &mut FrameLog {
        let index = index as usize;
        if self.logs.len() <= index {
            self.logs.resize_with(index + 1, FrameLog::default);
        }
        &mut self.logs[index]
    }

    fn push(&mut self, index: u32, kind: FrameKind, frame: &[u8]) -> u64 {
        let head = if kind.is_key() { FRAME_HEAD / 2 } else { FRAME_HEAD };
        let needed = head + frame.len();
        self.log(index);
        let full = |chunk: &u32| self.chunk(*chunk as usize).len() + needed > CHUNK;
        let number = match self.logs[index as usize].chunks.last() {
            Some(&last) if !(kind.is_key() && full(&last)) => last,
            last => {
                if let Some(&last) = last {
                    self.seal(last);
                }
                let made = self.chunks.insert(Chunk::Memory(Vec::new())) as u32;
                self.unsealed += 1;
                self.logs[index as usize].chunks.push(made);
                made
            }
        };
        let log = &mut self.logs[index as usize];
        let Chunk::Memory(chunk) = &mut self.chunks[number as usize] else {
            unreachable!("a chunk that gets a frame lies in memory")
        };
        if chunk.len() + needed > CHUNK {
            chunk.reserve_exact(needed);
        } else if chunk.is_empty() && needed >= LARGE_FRAME {
            chunk.reserve_exact(CHUNK);
        }
        let start = chunk.len();
        chunk.extend_from_slice(&(frame.len() as u32 | (kind as u32) << 30).to_ne_bytes());
        if kind.is_key() {
            log.key = start;
        } else {
            chunk.extend_from_slice(&((start - log.key) as u32).to_ne_bytes());
        }
        chunk.extend_from_slice(frame);
        log.values += 1;
        log.bytes += needed as u64;
        self.values += 1;
        self.bytes += needed as u64;
        self.open_bytes += needed as u64;
        u64::from(number) << 32 | start as u64
    }

    /// Puts a chunk that gets no further frames where it stays.
    fn seal(&mut self, number: u32) {
        self.unsealed -= 1;
        let Chunk::Memory(bytes) = &mut self.chunks[number as usize] else { return };
        match self.heap.as_mut().and_then(|heap| heap.put(bytes)) {
            Some(chunk) => self.chunks[number as usize] = Chunk::File(chunk),
            None => bytes.shrink_to_fit(),
        }
    }

    /// Reserves room in the file for `count` further values of so many bytes. Fails with [`Error::File`].
    pub fn reserve(&mut self, bytes: u64, count: u64) -> Result<()> {
        let Some(heap) = &mut self.heap else { return Ok(()) };
        heap.reserve((self.bytes - heap.held).saturating_add(bytes), self.unsealed + count)
    }

    pub fn heap(&self) -> Option<&ValueHeap> {
        self.heap.as_ref()
    }

    #[inline]
    pub fn chunk(&self, number: usize) -> &[u8] {
        match (&self.chunks[number], &self.heap) {
            (Chunk::Memory(bytes), _) => bytes,
            (Chunk::File(chunk), Some(heap)) => heap.get(*chunk),
            (Chunk::File(_), None) => &[],
        }
    }

    /// The chunks of an episode: the bytes of each, and where they lie in the file.
    pub fn chunks_of(&self, index: u32) -> impl Iterator<Item = (&[u8], Option<u64>)> {
        let chunks = self.logs.get(index as usize).into_iter().flat_map(|log| &log.chunks);
        chunks.map(|&number| match (&self.chunks[number as usize], &self.heap) {
            (Chunk::File(chunk), Some(heap)) => (heap.get(*chunk), Some(heap.offset(*chunk))),
            _ => (self.chunk(number as usize), None),
        })
    }

    /// Has the system begin to read the frames at some places, in the order in which they lie.
    pub fn read_ahead(&self, places: impl Iterator<Item = u64>) {
        let Some(heap) = &self.heap else { return };
        let mean = self.bytes.checked_div(self.values).unwrap_or(0) as usize;
        let group = if self.codec.delta { GROUP as usize } else { 1 };
        for at in places.map(FrameRef) {
            if let Chunk::File(chunk) = self.chunks[at.chunk()] {
                heap.read_ahead(
                    chunk,
                    at.offset().saturating_sub(mean * (group - 1)),
                    mean * group,
                );
            }
        }
    }

    /// Says that an episode gets no further values.
    pub fn close(&mut self, index: u32) {
        let Some(log) = self.logs.get_mut(index as usize) else { return };
        log.state = GroupState::default();
        log.is_closed = true;
        self.open_bytes -= log.bytes;
        if let Some(&last) = log.chunks.last() {
            self.seal(last);
        }
    }

    /// Drops the values of an episode.
    pub fn forget(&mut self, index: u32) {
        let Some(log) = self.logs.get_mut(index as usize).map(std::mem::take) else { return };
        self.unsealed -= u64::from(!log.is_closed && !log.chunks.is_empty());
        for chunk in log.chunks {
            if let (Chunk::File(chunk), Some(heap)) =
                (self.chunks.remove(chunk as usize), &mut self.heap)
            {
                heap.give_back(chunk);
            }
        }
        self.values -= log.values;
        self.bytes -= log.bytes;
        self.open_bytes -= if log.is_closed { 0 } else { log.bytes };
    }

    /// The kind and the bytes of the frame in a slot.
    pub fn frame(&self, slot: usize) -> (FrameKind, &[u8]) {
        let at = FrameRef(self.frames[slot]);
        let chunk = self.chunk(at.chunk());
        let head = FrameHead::at(chunk, at.offset());
        (head.kind, &chunk[head.start..head.end])
    }

    /// Reads the value of a frame that has a whole one.
    pub fn decode_whole(&self, kind: FrameKind, frame: &[u8], out: &mut [u8]) -> io::Result<()> {
        if kind == FrameKind::Key {
            return self.codec.decompress(frame, out);
        }
        out.copy_from_slice(frame);
        Ok(())
    }

    /// A number by which frames that lie together are adjacent when sorted.
    #[inline]
    pub fn place(&self, slot: u32) -> u64 {
        self.frames[slot as usize]
    }
}

/// Where a frame begins: the number of its chunk, and the offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameRef(pub u64);

impl FrameRef {
    pub fn chunk(self) -> usize {
        (self.0 >> 32) as usize
    }
    pub fn offset(self) -> usize {
        self.0 as u32 as usize
    }
}

/// What stands before the bytes of a frame.
pub(super) struct FrameHead {
    pub kind: FrameKind,
    /// Where the group begins.
    pub key: usize,
    pub start: usize,
    pub end: usize,
}

impl FrameHead {
    pub fn at(chunk: &[u8], offset: usize) -> Self {
        let word = |at: usize| bytemuck::pod_read_unaligned::<u32>(&chunk[at..at + 4]);
        let first = word(offset);
        let kind = FrameKind::of_bits(first).unwrap_or(FrameKind::Raw);
        let (key, start) = match kind {
            FrameKind::Delta => (offset - word(offset + 4) as usize, offset + FRAME_HEAD),
            _ => (offset, offset + FRAME_HEAD / 2),
        };
        Self { kind, key, start, end: start + (first & (u32::MAX >> 2)) as usize }
    }
}

/// Decodes the frames of an episode in a file, in order.
#[derive(Debug)]
pub(super) struct FrameDecoder {
    codec: Codec,
    value: Vec<u8>,
    difference: Vec<u8>,
    frames: usize,
}

impl FrameDecoder {
    pub fn new(codec: Codec, size: usize) -> Self {
        Self { codec, value: vec![0; size], difference: vec![0; size], frames: 0 }
    }

    /// The value of the next frame. Fails with [`Error::State`] when the frame cannot be decoded.
    pub fn next(&mut self, kind: FrameKind, frame: &[u8]) -> Result<&[u8]> {
        let damaged = |_| Error::State("a file with a frame that cannot be decoded".into());
        match kind {
            FrameKind::Raw if frame.len() == self.value.len() => self.value.copy_from_slice(frame),
            FrameKind::Key => self.codec.decompress(frame, &mut self.value).map_err(damaged)?,
            FrameKind::Delta if self.frames > 0 && self.codec.delta => {
                self.codec.decompress(frame, &mut self.difference).map_err(damaged)?;
                combine_in_place(&mut self.value, &self.difference);
            }
            _ => return Err(Error::State("a file with a frame that cannot be decoded".into())),
        }
        self.frames += 1;
        Ok(&self.value)
    }
}
