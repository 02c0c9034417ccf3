//! Which fields are compressed, and the rows of entries as they are then stored.
//!
//! A writer may encode values before it takes the lock of the memory, by [`Compression::encode`]. Rows that were not encoded,
//! or for an episode that has grown since, are encoded when they are stored.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::replay::codec::Codec;
use crate::replay::compressed_column::{FRAME_HEAD, MAX_VALUE};
use crate::replay::frame_encoder::{EncodedFrames, GroupState};
use crate::spec::{EntryRows, EntrySpec, Field, WRITTEN};

/// Fields that can be compressed: the others are numbers that are read one by one, and some change.
pub const COMPRESSIBLE: [Field; 3] = [Field::State, Field::Action, Field::Info];

/// The codecs of fields, and the limit of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Compression {
    codecs: [Option<Codec>; crate::spec::FIELDS],
    /// Bytes that compressed values take at most; None for as many as are available.
    pub max_bytes: Option<u64>,
}

impl Compression {
    /// Compresses a field. Fails with [`Error::Value`] for a field that cannot be.
    pub fn set(&mut self, spec: &EntrySpec, field: Field, codec: Codec) -> Result<()> {
        let size = spec[field].nbytes();
        if !COMPRESSIBLE.contains(&field) {
            let expected = "'state', 'action' or 'info'";
            return Err(Error::value("compress", expected, format!("'{}'", field.name())));
        }
        if !(1..=MAX_VALUE).contains(&size) {
            let expected = format!("fields of 1 to {MAX_VALUE} bytes");
            let got = format!("{} of {size} bytes", field.name());
            return Err(Error::value("compress", expected, got));
        }
        self.codecs[field.index()] = Some(codec);
        Ok(())
    }

    /// Whether no field is compressed.
    pub fn is_empty(&self) -> bool {
        self.codecs.iter().all(Option::is_none)
    }

    /// The compressed fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (Field, Codec)> {
        Field::ALL.into_iter().filter_map(|field| Some((field, self.codecs[field.index()]?)))
    }

    /// The codec of a field.
    pub fn codec(&self, field: Field) -> Option<Codec> {
        self.codecs[field.index()]
    }

    /// Whether each codec is one, of a field that can be compressed.
    pub(super) fn is_valid(&self, spec: &EntrySpec) -> bool {
        self.fields().all(|(field, codec)| {
            codec.is_valid() && Self::default().set(spec, field, codec).is_ok()
        })
    }

    /// Bytes that the compressed values of so many entries take at most.
    pub(super) fn largest(&self, spec: &EntrySpec, entries: usize) -> u128 {
        let row: usize = self.fields().map(|(field, _)| spec[field].nbytes() + FRAME_HEAD).sum();
        row as u128 * entries as u128
    }

    /// Whether values are stored as differences to others.
    pub fn has_deltas(&self) -> bool {
        self.fields().any(|(_, codec)| codec.delta)
    }

    /// Encodes the rows of entries that continue an episode, or begin one.
    pub fn encode(&self, spec: &EntrySpec, rows: EntryRows<'_>, at: FrameStates) -> EncodedRows {
        let FrameStates { serial, first, states } = at;
        let mut states = states.into_iter();
        let frames = self.fields().map(|(field, codec)| {
            let written = WRITTEN.into_iter().zip(rows).find(|(written, _)| *written == field);
            let values = written.map_or(&[][..], |(_, values)| values);
            let state = states.next().unwrap_or_default();
            EncodedFrames::new(codec, spec[field].nbytes(), values, state)
        });
        EncodedRows { serial, first, frames: frames.collect() }
    }
}

/// Where an episode stands: what its next entries are encoded by. The default is a new one.
#[derive(Debug, Default)]
pub struct FrameStates {
    /// None for an episode that is not open yet.
    pub(super) serial: Option<u64>,
    /// Entries that it has.
    pub(super) first: usize,
    /// Of each compressed field.
    pub(super) states: Vec<GroupState>,
}

/// Encoded values of the compressed fields of entries.
#[derive(Debug)]
pub struct EncodedRows {
    serial: Option<u64>,
    first: usize,
    pub(super) frames: Vec<EncodedFrames>,
}

impl EncodedRows {
    /// Whether they can be appended to an episode.
    pub(super) fn continues(&self, compression: &Compression, serial: u64, entries: usize) -> bool {
        let same = self.serial.is_none_or(|of| of == serial) && self.first == entries;
        same || !compression.has_deltas()
    }

    /// Bytes that they take at most.
    pub(super) fn nbytes(&self) -> u64 {
        let of = |frames: &EncodedFrames| frames.bytes.len() + FRAME_HEAD * frames.frames.len();
        self.frames.iter().map(of).sum::<usize>() as u64
    }
}
