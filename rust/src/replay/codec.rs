//! How the bytes of a field are compressed.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The codes that [`Codec::from_str`] reads.
pub const CODES: &str = "'lz4', 'zstd', 'zstd:LEVEL' or one of them after 'delta+'";

/// Levels of Zstandard: beyond 19 a compression takes tens of megabytes, below 1 it saves no more than LZ4.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

/// Zstandard's own default.
const DEFAULT_LEVEL: i32 = 3;

/// An algorithm, which sees each value alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Algorithm {
    Lz4,
    Zstd { level: i32 },
}

/// How the values of a field are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codec {
    /// Whether most values are stored as their difference to the one before in their episode.
    pub delta: bool,
    algorithm: Algorithm,
}

impl FromStr for Codec {
    type Err = ();

    fn from_str(code: &str) -> Result<Self, ()> {
        let stripped = code.strip_prefix("delta+");
        let algorithm = match stripped.unwrap_or(code) {
            "lz4" => Algorithm::Lz4,
            "zstd" => Algorithm::Zstd { level: DEFAULT_LEVEL },
            other => {
                let level = other.strip_prefix("zstd:").ok_or(())?;
                Algorithm::Zstd { level: level.parse().map_err(|_| ())? }
            }
        };
        let codec = Self { delta: stripped.is_some(), algorithm };
        if codec.is_valid() { Ok(codec) } else { Err(()) }
    }
}

impl Display for Codec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.delta { "delta+" } else { "" })?;
        match self.algorithm {
            Algorithm::Lz4 => f.write_str("lz4"),
            Algorithm::Zstd { level: DEFAULT_LEVEL } => f.write_str("zstd"),
            Algorithm::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

thread_local! {
    /// Zstandard's contexts take more time to make than a small value takes to compress.
    static COMPRESSOR: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> = const { RefCell::new(None) };
    /// What is as large as a column would be faulted in page by page each time.
    static PACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Codec {
    /// Whether the level is one of Zstandard's.
    pub(super) fn is_valid(&self) -> bool {
        match self.algorithm {
            Algorithm::Lz4 => true,
            Algorithm::Zstd { level } => LEVELS.contains(&level),
        }
    }

    /// Bytes of the buffer that a value of this size is compressed into.
    pub(super) fn bound(size: usize) -> usize {
        // With less, LZ4 checks each write.
        size + size / 255 + 16
    }

    /// Compresses a value into a buffer of [`Self::bound`]. Returns the bytes written; None where they would not be fewer
    /// than those of the value.
    pub(super) fn compress(self, value: &[u8], out: &mut [u8]) -> Option<usize> {
        let written = match self.algorithm {
            Algorithm::Lz4 => lzzzz::lz4::compress(value, out, 1).ok(),
            Algorithm::Zstd { level } => COMPRESSOR.with_borrow_mut(|made| {
                if made.as_ref().is_none_or(|(has, _)| *has != level) {
                    *made = zstd::bulk::Compressor::new(level).ok().map(|new| (level, new));
                }
                made.as_mut()?.1.compress_to_buffer(value, out).ok()
            }),
        };
        written.filter(|&written| written > 0 && written < value.len())
    }

    /// Calls `take` with a value compressed alone; None where it would not be smaller.
    pub fn pack<T>(self, value: &[u8], take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        PACKED.with_borrow_mut(|out| {
            let bound = Self::bound(value.len());
            if out.len() < bound {
                out.resize(bound, 0);
            }
            let written = self.compress(value, &mut out[..bound])?;
            Some(take(&out[..written]))
        })
    }

    /// Decompresses into a buffer of the value's size. Fails when the bytes are not those of such a value.
    pub fn decompress(self, bytes: &[u8], out: &mut [u8]) -> io::Result<()> {
        let written = match self.algorithm {
            Algorithm::Lz4 => lzzzz::lz4::decompress(bytes, out).map_err(io::Error::other)?,
            Algorithm::Zstd { .. } => DECOMPRESSOR.with_borrow_mut(|made| {
                let made = match made {
                    Some(made) => made,
                    None => made.insert(zstd::bulk::Decompressor::new()?),
                };
                made.decompress_to_buffer(bytes, out)
            })?,
        };
        if written == out.len() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 6] = ["lz4", "zstd", "zstd:1", "zstd:19", "delta+lz4", "delta+zstd:9"];

    #[test]
    fn text_of_a_codec_is_its_code() {
        for code in ALL {
            assert_eq!(code.parse::<Codec>().unwrap().to_string(), code);
        }
        assert_eq!("zstd:3".parse(), "zstd".parse::<Codec>());
    }

    #[test]
    fn codes_of_no_codec_are_refused() {
        for code in
            ["", "LZ4", "lz4 ", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:x", "delta", "delta+"]
        {
            assert_eq!(code.parse::<Codec>(), Err(()), "{code}");
        }
    }

    #[test]
    fn decompressed_value_is_the_compressed_one() {
        let value: Vec<u8> = (0..2000).map(|at| (at / 100) as u8).collect();
        for code in ALL {
            let codec: Codec = code.parse().unwrap();
            let (mut packed, mut out) = (vec![0; Codec::bound(value.len())], vec![0; value.len()]);
            let written = codec.compress(&value, &mut packed).unwrap();
            codec.decompress(&packed[..written], &mut out).unwrap();
            assert_eq!(out, value);
            assert!(codec.decompress(&packed[..written - 1], &mut out).is_err());
            assert!(codec.decompress(&packed[..written], &mut out[1..]).is_err());
        }
    }

    #[test]
    fn value_that_does_not_get_smaller_is_not_compressed() {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..1000).map(|_| next()).collect();
        for code in ALL {
            let codec: Codec = code.parse().unwrap();
            let mut out = vec![0; Codec::bound(noise.len())];
            assert_eq!(codec.compress(&noise, &mut out), None, "{code}");
            assert_eq!(codec.compress(&[], &mut out), None, "{code}");
        }
    }
}
