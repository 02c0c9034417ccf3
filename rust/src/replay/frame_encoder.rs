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
    /// Values in a row that did not get smaller.
    pub raw_run: u32,
}

/// Values in a row that do not get smaller before the next ones are looked at first.
const NOISE_FROM: u32 = 2;

/// Of values that look like noise, one of so many is compressed all the same: another scene may look alike.
const RETRIED: u32 = 16;

/// Bytes of a value that are looked at.
const LOOKED_AT: usize = 256;

/// Of so many bytes drawn at random 162 differ, give or take 6. Of frames that compress fewer do.
const DIFFERENT: u32 = 140;

/// Whether bytes are spread as those of noise are, by a few of them. Compressing noise takes several times as long as storing
/// it, and saves nothing.
fn looks_like_noise(len: usize, byte: impl Fn(usize) -> u8) -> bool {
    // An odd stride, so that the columns of an image take turns.
    let stride = (len / LOOKED_AT) | 1;
    if stride * LOOKED_AT > len + stride {
        return false;
    }
    let mut seen = [0_u64; 4];
    for at in 0..LOOKED_AT {
        let byte = byte((at * stride).min(len - 1));
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|bits| bits.count_ones()).sum::<u32>() > DIFFERENT
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
        state.raw_run = 0;
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
        if self.expects_noise()
            && looks_like_noise(value.len(), |at| value[at])
            && looks_like_noise(value.len(), |at| value[at] ^ before[at])
        {
            return self.push_raw(value);
        }
        combine(difference, value, before);
        match codec.compress(difference, out) {
            // Where a difference is larger than the key frame was, another scene has begun.
            Some(written) if written <= self.state.key_size => {
                self.bytes.extend_from_slice(&out[..written]);
                self.frames.push((FrameKind::Delta, written));
                self.state.frames += 1;
                self.state.raw_run = 0;
            }
            _ => self.push_key(codec, value, out),
        }
    }

    pub fn push_key(&mut self, codec: Codec, value: &[u8], out: &mut [u8]) {
        if self.expects_noise() && looks_like_noise(value.len(), |at| value[at]) {
            return self.push_raw(value);
        }
        let Some(written) = codec.compress(value, out) else { return self.push_raw(value) };
        self.push_whole(FrameKind::Key, &out[..written]);
        self.state.raw_run = 0;
    }

    /// Whether the values before did not get smaller, and this one need not be tried for a change.
    fn expects_noise(&self) -> bool {
        self.state.raw_run >= NOISE_FROM && !self.state.raw_run.is_multiple_of(RETRIED)
    }

    fn push_raw(&mut self, value: &[u8]) {
        self.push_whole(FrameKind::Raw, value);
        self.state.raw_run = self.state.raw_run.saturating_add(1);
    }

    fn push_whole(&mut self, kind: FrameKind, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.frames.push((kind, bytes.len()));
        self.state.frames = 1;
        self.state.key_size = bytes.len();
    }
}

/// Writes the difference of two values, or of a value and such a difference the other value.
pub(super) fn combine(out: &mut [u8], one: &[u8], other: &[u8]) {
    let bytes = one.iter().zip(other);
    out.iter_mut().zip(bytes).for_each(|(out, (one, other))| *out = one ^ other);
}

/// Makes a value the difference to another, or such a difference the value again.
pub(super) fn combine_in_place(value: &mut [u8], other: &[u8]) {
    value.iter_mut().zip(other).for_each(|(value, other)| *value ^= other);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 84 * 84;

    fn noise(count: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..count * SIZE).map(|_| next()).collect()
    }

    fn kinds(code: &str, values: &[u8]) -> Vec<FrameKind> {
        let codec = code.parse().unwrap();
        let encoded = EncodedFrames::new(codec, SIZE, values, GroupState::default());
        encoded.frames.iter().map(|(kind, _)| *kind).collect()
    }

    #[test]
    fn noise_is_stored_as_it_is() {
        for code in ["lz4", "delta+lz4", "zstd:1"] {
            assert_eq!(kinds(code, &noise(40)), [FrameKind::Raw; 40], "{code}");
        }
        assert!(looks_like_noise(SIZE, |at| noise(1)[at]));
    }

    #[test]
    fn frames_that_compress_are_compressed_at_once_behind_noise() {
        let frame = |at: usize| vec![at as u8; SIZE];
        for code in ["lz4", "delta+lz4", "zstd:1"] {
            let values = [noise(10), frame(3), noise(5), frame(4)].concat();
            let kinds = kinds(code, &values);
            let raw = kinds.iter().filter(|kind| **kind == FrameKind::Raw).count();
            assert_eq!((raw, kinds[10], kinds[16]), (15, FrameKind::Key, FrameKind::Key), "{code}");
        }
    }

    #[test]
    fn noise_that_repeats_is_found_by_the_next_try() {
        // Bytes as of noise, that compress since they come twice.
        let half = &noise(1)[..SIZE / 2];
        let twice = [half, half].concat();
        let values = [noise(3), twice.repeat(20)].concat();
        let kinds = kinds("lz4", &values);
        assert!(kinds[RETRIED as usize..].contains(&FrameKind::Key), "{kinds:?}");
        // A background of noise that stays is a difference of zeros.
        let values = noise(1).repeat(8);
        let found = self::kinds("delta+lz4", &values);
        assert_eq!(found.iter().filter(|kind| **kind == FrameKind::Delta).count(), 6);
    }

    #[test]
    fn small_values_are_always_tried() {
        assert!(!looks_like_noise(200, |at| at as u8));
        assert!(!looks_like_noise(0, |_| 0));
    }
}
