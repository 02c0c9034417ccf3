//! The frames of a journal, in which the samples of a trial lie that has not ended: length, CRC-32, bytes.
//!
//! The bytes are a `LogExporterSampleRequest` with a sample. A frame that was cut short, or is damaged, is
//! the end of a journal.

use crate::store::wire::{Fields, Value, varint};

/// Bytes of a length and a checksum.
const HEAD: usize = 8;
/// The number of the field of a request that has its sample.
const SAMPLE: u64 = 2;

/// Appends the frame of a serialized sample. A sample has at most 2 GiB, as all messages.
pub fn write(out: &mut Vec<u8>, sample: &[u8]) {
    let begin = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.push((SAMPLE << 3 | 2) as u8);
    varint(out, sample.len() as u64);
    out.extend_from_slice(sample);
    let (head, content) = out[begin..].split_at_mut(HEAD);
    head[..4].copy_from_slice(&(content.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(content).to_le_bytes());
}

/// What was found in the bytes of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found<'a> {
    /// The samples of all frames that are complete.
    pub samples: Vec<&'a [u8]>,
    /// The bytes of these frames.
    pub size: usize,
    /// Whether the next frame is damaged, and not only incomplete.
    pub damaged: bool,
}

/// Reads frames that begin with the first of these bytes.
pub fn read(bytes: &[u8]) -> Found<'_> {
    let mut found = Found::default();
    while let Some((head, rest)) = bytes[found.size..].split_at_checked(HEAD) {
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let Some(content) = rest.get(..number(0) as usize) else {
            break;
        };
        let checked = sample_of(content).filter(|_| crc32fast::hash(content) == number(4));
        let Some(sample) = checked else {
            found.damaged = true;
            break;
        };
        found.samples.push(sample);
        found.size += HEAD + content.len();
    }
    found
}

fn sample_of(request: &[u8]) -> Option<&[u8]> {
    match Fields::new(request).next()?.ok()? {
        (SAMPLE, Value::Bytes(sample)) => Some(sample),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Found, read, write};

    fn frames(samples: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![];
        for sample in samples {
            write(&mut out, sample);
        }
        out
    }

    proptest! {
        #[test]
        fn whole_frames_of_any_beginning_come_back(
            samples: Vec<Vec<u8>>, cut in any::<prop::sample::Index>()
        ) {
            let bytes = frames(&samples);
            let kept = &bytes[..cut.index(bytes.len() + 1)];
            let found = read(kept);
            prop_assert!(!found.damaged);
            let len = found.samples.len();
            prop_assert!(found.samples.iter().eq(&samples[..len]));
            prop_assert_eq!(found.size, frames(&samples[..len]).len());
            let next = frames(samples.get(len..=len).unwrap_or_default()).len();
            prop_assert!(len == samples.len() || kept.len() < found.size + next);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            prop_assert!(read(&bytes).size <= bytes.len());
        }
    }

    #[test]
    fn changed_byte_ends_the_journal() {
        let samples = [b"ab".to_vec(), b"cd".to_vec()];
        let mut bytes = frames(&samples);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let first = frames(&samples[..1]).len();
        let expected = Found { samples: vec![&b"ab"[..]], size: first, damaged: true };
        assert_eq!(read(&bytes), expected);
    }
}
