//! Values of a compressed field as they are stored: frames, made without the memory.
//!
//! A key frame has a value alone, a delta frame its difference to the value before, bit by bit. At most [`GROUP`] frames form a
//! group, the first of which is a key frame: to read a value, the frames from its key frame on are decoded.

use std::cell::RefCell;
use std::sync::Arc;

use crate::replay::codec::Codec;

/// Frames of a group at most. Twice as many would save an eighth of the bytes of Pong and a fifth of those of Breakout, and a
/// draw of one frame would decode 4.5 instead of 2.5.
pub(super) const GROUP: u32 = 4;

/// How the bytes of a frame stand for its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// They are the value, which does not get smaller.
    Raw,
    /// The compressed value.
    Key,
    /// The compressed difference to the value before.
    Delta,
}

impl FrameKind {
    /// The kind that the two highest bits of a frame's size say.
    pub fn of_bits(word: u32) -> Option<Self> {
        [Self::Raw, Self::Key, Self::Delta].get((word >> 30) as usize).copied()
    }

    pub fn is_key(self) -> bool {
        self != Self::Delta
    }
}

/// What the next frame of an episode continues.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupState {
    /// Frames of the last group.
    pub frames: u32,
    /// Bytes of its key frame.
    pub key_size: usize,
    /// The value of its last frame; only of a codec with differences.
    pub last: Option<Arc<[u8]>>,
}

/// Frames of values that follow each other in an episode.
#[derive(Debug, Default)]
pub(super) struct EncodedFrames {
    pub bytes: Vec<u8>,
    /// The kind and the size of each.
    pub frames: Vec<(FrameKind, usize)>,
    pub state: GroupState,
}

thread_local! {
    /// A difference, and what it is compressed into.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl EncodedFrames {
    /// Encodes values of `size` bytes each, which is above 0.
    pub fn new(codec: Codec, size: usize, values: &[u8], state: GroupState) -> Self {
        let mut made = Self { state, ..Self::default() };
        made.frames.reserve_exact(values.len() / size);
        SCRATCH.with_borrow_mut(|(difference, out)| {
            out.resize(Codec::bound(size), 0);
            if !codec.delta {
                values.chunks_exact(size).for_each(|value| made.push_key(codec, value, out));
                return;
            }
            difference.resize(size, 0);
            for value in values.chunks_exact(size) {
                // Another thread may write to the values meanwhile: the next frame has to be the difference to what this
                // one says.
                let value: Arc<[u8]> = value.into();
                let before = made.state.last.take();
                made.push(codec, &value, before.as_deref(), difference, out);
                made.state.last = Some(value);
            }
        });
        made
    }

    /// A frame of this value that was made before; None where it cannot continue the group.
    pub fn stored(
        codec: Codec,
        kind: FrameKind,
        frame: &[u8],
        value: &[u8],
        mut state: GroupState,
    ) -> Option<Self> {
        match kind {
            FrameKind::Delta if !(1..GROUP).contains(&state.frames) => return None,
            FrameKind::Delta => state.frames += 1,
            FrameKind::Raw | FrameKind::Key => (state.frames, state.key_size) = (1, frame.len()),
        }
        state.last = codec.delta.then(|| value.into());
        Some(Self { bytes: frame.to_vec(), frames: vec![(kind, frame.len())], state })
    }

    fn push(
        &mut self,
        codec: Codec,
        value: &[u8],
        before: Option<&[u8]>,
        difference: &mut [u8],
        out: &mut [u8],
    ) {
        let Some(before) = before.filter(|_| (1..GROUP).contains(&self.state.frames)) else {
            return self.push_key(codec, value, out);
        };
        difference.copy_from_slice(value);
        combine(difference, before);
        match codec.compress(difference, out) {
            // Where a difference is larger than the key frame was, another scene has begun.
            Some(written) if written <= self.state.key_size => {
                self.bytes.extend_from_slice(&out[..written]);
                self.frames.push((FrameKind::Delta, written));
                self.state.frames += 1;
            }
            _ => self.push_key(codec, value, out),
        }
    }

    pub fn push_key(&mut self, codec: Codec, value: &[u8], out: &mut [u8]) {
        let (kind, bytes) = match codec.compress(value, out) {
            Some(written) => (FrameKind::Key, &out[..written]),
            None => (FrameKind::Raw, value),
        };
        self.bytes.extend_from_slice(bytes);
        self.frames.push((kind, bytes.len()));
        self.state.frames = 1;
        self.state.key_size = bytes.len();
    }
}

/// Makes a value the difference to another, or such a difference the value again.
pub(super) fn combine(value: &mut [u8], other: &[u8]) {
    value.iter_mut().zip(other).for_each(|(value, other)| *value ^= other);
}
