//! Checkpoints: memories saved in files.
//!
//! ```text
//! magic, version (u32), length of the header (u64)     little-endian
//! header                                               postcard: memory, settings, episodes, largest weight, parts
//! checksum of the header (u32)
//! for each closed episode, oldest first:
//!     base and weight (f32) of each entry; with max_times_sampled its count of draws (u32); for each view its weight (f32)
//!     and with a limit its count; then all rows of each column; native-endian; of each compressed field its frames
//! checksum of all those (u32)
//! of a memory with a folder: each file there, from the next multiple of 64 KiB on
//! ```
//!
//! Parts have names. A memory that lacks what a part is about has none of it, and a file with a part of another name is of a
//! later version.
//!
//! Entries are streamed between the file and the slots, never copied whole. What lies in a folder is copied by the system, which
//! takes no time where it can share blocks between files; its checksum, which the header has, is left out where memory could not hold
//! it. A file is written under another name
//! and renamed; loading compares sizes first, so a truncated file is refused at once.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use crc32fast::Hasher;
use rand::Rng;

use crate::error::{Error, Result};
use crate::replay::checkpoint_columns::{ColumnsRecord, Regions, write_regions};
use crate::replay::checkpoint_entries::write_entries;
use crate::replay::checkpoint_header::{
    COLUMNS, COLUMNS_CHECKSUM, COMPRESSION, CompressionRecord, EpisodeRecord, LIMITER,
    MemoryRecord, VIEWS, ViewRecords, header, numbers_per_entry, parts, read_header,
};
use crate::replay::compression::Compression;
use crate::replay::entry_weight::EntryWeight;
use crate::replay::memory::Memory;
use crate::replay::rate_limiter::{Limited, RateLimiter};
use crate::replay::recurrent::RecurrentSpec;
use crate::replay::replaced_file::{resolve, temporary_file_in};
use crate::replay::sequence_parts::SequenceParts;
use crate::replay::settings::Settings;
use crate::replay::storage_folder::keep_in_place;
use crate::replay::view::ViewSettings;
use crate::spec::{EntrySpec, FIELDS, FieldSpec};

const MAGIC: [u8; 8] = *b"cogrs-rm";
const VERSION: u32 = 5;
/// The oldest version that can still be read: without weights outside of borders, `new_priority` and what came with it.
/// Version 4 is without samplers, counts of draws, and parts.
const OLDEST_VERSION: u32 = 3;
const PREFIX: usize = MAGIC.len() + 4 + 8;
pub(super) const CHECKSUM: usize = 4;
/// No real header is that large: it has a dozen bytes per episode.
const MAX_HEADER: u64 = 1 << 32;
const BUFFER: usize = 1 << 20;

/// Writes all closed episodes, settings and the state of the random generator to `path`, whole or not at all. Open episodes
/// are left out. Fails with [`Error::File`].
pub fn save(memory: &Memory, uuid: u32, path: &Path) -> Result<()> {
    let failed = |error| Error::file(path, &error);
    let (target, mode) = resolve(path).map_err(failed)?;
    let header = parts(memory)
        .and_then(|parts| postcard::to_stdvec(&(header(memory, uuid), memory.largest, parts)))
        .map_err(|error| failed(std::io::Error::other(error)))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut temporary = temporary_file_in(parent).map_err(failed)?;
    if memory.folder().is_some() {
        // Blocks are shared only with a file that is written likewise.
        keep_in_place(temporary.as_file());
    }
    write(memory, &header, temporary.as_file_mut()).map_err(failed)?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(mode).map_err(failed)?;
    }
    temporary.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

fn write(memory: &Memory, header: &[u8], file: &mut File) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, &mut *file);
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header)?;
    out.write_all(&crc32fast::hash(header).to_le_bytes())?;
    let mut checksum = Hasher::new();
    let mut put = |bytes: &[u8]| {
        checksum.update(bytes);
        out.write_all(bytes)
    };
    for episode in memory.closed_episodes() {
        write_entries(memory, episode, &mut put)?;
    }
    out.write_all(&checksum.finalize().to_le_bytes())?;
    out.flush()?;
    drop(out);
    write_regions(memory, file)?;
    file.sync_all()
}

/// An open file whose header has been checked.
#[derive(Debug)]
pub struct CheckpointFile {
    pub(super) path: String,
    pub(super) memory: MemoryRecord,
    pub(super) settings: Vec<Settings>,
    pub(super) episodes: Vec<EpisodeRecord>,
    pub(super) largest: f64,
    pub(super) views: ViewRecords,
    pub(super) limited: Option<Limited>,
    pub(super) sequences: SequenceParts,
    /// The codecs of its compressed fields, and the bytes of their frames.
    pub(super) compression: CompressionRecord,
    /// Where columns lie that were files in a folder.
    pub(super) regions: Regions,
    /// The checksum of what episodes have there; None in files of before, and of memories larger than memory.
    pub(super) columns_checksum: Option<u32>,
    /// That of what has been read of it.
    pub(super) in_columns: Hasher,
    pub(super) is_v3: bool,
    pub(super) payload: BufReader<File>,
}

impl CheckpointFile {
    /// Opens a file and reads its header. Fails with [`Error::File`] when it cannot be read, with [`Error::Value`] and the
    /// reason when it is not a whole file of this kind and version.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::file(path, &error);
        let name = path.display().to_string();
        let refused = |why: &str| Error::value(&name, "a saved replay memory", why);
        // Opening a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(refused("a path that is not a regular file"));
        }
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut payload = BufReader::with_capacity(BUFFER, file);
        if size < (PREFIX + CHECKSUM) as u64 {
            return Err(refused("a file too short to be one"));
        }
        let (mut magic, mut version, mut length) = ([0; MAGIC.len()], [0; 4], [0; 8]);
        for part in [&mut magic[..], &mut version, &mut length] {
            payload.read_exact(part).map_err(failed)?;
        }
        let (version, length) = (u32::from_le_bytes(version), u64::from_le_bytes(length));
        if magic != MAGIC {
            return Err(refused("a file in another format"));
        }
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(refused(&format!(
                "file version {version}; this cogrs reads {OLDEST_VERSION} to {VERSION}"
            )));
        }
        if length > size - (PREFIX + CHECKSUM) as u64 {
            return Err(refused("a file that was cut short"));
        }
        let mut header = Vec::new();
        if length > MAX_HEADER || header.try_reserve_exact(length as usize).is_err() {
            return Err(refused(&format!("a header of {length} bytes")));
        }
        header.resize(length as usize, 0);
        let mut checksum = [0; CHECKSUM];
        payload.read_exact(&mut header).map_err(failed)?;
        payload.read_exact(&mut checksum).map_err(failed)?;
        if crc32fast::hash(&header).to_le_bytes() != checksum {
            return Err(refused("a file with a damaged header"));
        }
        let unreadable = |error| refused(&format!("a header that cannot be read: {error}"));
        let ((memory, settings, episodes), largest, mut parts) =
            read_header(version, &header).map_err(unreadable)?;
        let mut views = ViewRecords::new();
        let mut limited = None;
        let mut compression = CompressionRecord::default();
        let mut columns = None;
        let mut columns_checksum = None;
        let sequences = SequenceParts::take(&mut parts).map_err(|why| refused(&why))?;
        for (name, part) in &parts {
            match name.as_str() {
                VIEWS => views = postcard::from_bytes(part).map_err(unreadable)?,
                COLUMNS => columns = Some(postcard::from_bytes(part).map_err(unreadable)?),
                COLUMNS_CHECKSUM => {
                    columns_checksum = Some(postcard::from_bytes(part).map_err(unreadable)?);
                }
                COMPRESSION => compression = postcard::from_bytes(part).map_err(unreadable)?,
                LIMITER => limited = Some(postcard::from_bytes(part).map_err(unreadable)?),
                _ => return Err(refused(&format!("one with a part {name:?}, of a later version"))),
            }
        }
        let is_v3 = version == 3;
        let mut file = Self {
            path: name,
            memory,
            settings,
            episodes,
            largest,
            views,
            limited,
            sequences,
            compression,
            regions: Regions::default(),
            columns_checksum,
            in_columns: Hasher::new(),
            is_v3,
            payload,
        };
        file.regions = file.check(columns, PREFIX as u64 + length + CHECKSUM as u64, size)?;
        Ok(file)
    }

    pub(super) fn refused(&self, why: &str) -> Error {
        Error::value(&self.path, "a saved replay memory", why)
    }

    /// Checks that the header agrees with itself and with the bytes that follow it, from `start` to `end`. Returns the regions
    /// of columns.
    fn check(&self, columns: Option<ColumnsRecord>, start: u64, end: u64) -> Result<Regions> {
        let Self { memory, settings, episodes, .. } = self;
        if memory.little_endian != cfg!(target_endian = "little") {
            return Err(self.refused("a file from a machine with another byte order"));
        }
        let spec = EntrySpec::new(memory.fields.clone())
            .map_err(|error| self.refused(&format!("invalid fields: {error}")))?;
        let dims = spec.reward_dims();
        let entries: u64 = episodes.iter().map(|record| u64::from(record.length)).sum();
        let limit = settings.first().map_or(0, |settings| settings.max_times_sampled);
        let numbers = numbers_per_entry(limit, &self.views) * size_of::<u32>();
        let (compression, frames) = &self.compression;
        if !compression.is_valid(&spec) {
            return Err(self.refused("a compression that contradicts itself"));
        }
        let compressed: usize = compression.fields().map(|(field, _)| spec[field].nbytes()).sum();
        let in_files = columns.as_ref().map_or(Some(0), |columns| columns.row(&spec, compression));
        let Some(in_files) = in_files else {
            return Err(self.refused("columns that contradict themselves"));
        };
        let plain = spec.entry_size() - compressed - in_files;
        let row = (plain + size_of::<EntryWeight>() + numbers) as u64;
        let lengths = episodes.iter().map(|record| (record.length, record.final_state));
        let actions =
            lengths.clone().map(|(length, last)| u64::from(length) - u64::from(last && length > 0));
        let states = self.sequences.state_bytes(lengths);
        let size = entries
            .checked_mul(row)
            .zip(states)
            .and_then(|(rows, states)| rows.checked_add(states)?.checked_add(*frames));
        let size = size.and_then(|size| size.checked_add(start)?.checked_add(CHECKSUM as u64));
        let lengths = episodes.iter().map(|record| record.length);
        let regions = match (columns, size) {
            (_, None) => None,
            (None, Some(size)) => (size == end).then(Regions::default),
            (Some(columns), Some(size)) => columns.regions(&spec, compression, lengths, size, end),
        };
        let Some(regions) = regions else {
            return Err(self.refused("a file that was cut short or added to"));
        };
        let serials = episodes.iter().map(|record| record.serial);
        // Serial numbers share an id with a step, and all ids stay below 2^63.
        let step_bits = u64::BITS - memory.max_step.leading_zeros();
        let known = memory.next_serial.leading_zeros() > step_bits
            && memory.totals.is_sound()
            && serials.clone().all(|serial| serial < memory.next_serial)
            && serials.collect::<std::collections::HashSet<_>>().len() == episodes.len();
        let fitting = settings.iter().all(|settings| settings.is_valid(dims));
        let sound = episodes.iter().all(|record| {
            let bootstrap = record.bootstrap.as_ref();
            let finite = |value: &f64| (*value as f32).is_finite();
            (record.settings as usize) < settings.len()
                && (record.length > 0 || !record.final_state)
                && bootstrap.is_none_or(|b| b.len() == dims && b.iter().all(finite))
                && (record.values || !record.weights)
                && (spec.has_values() || !record.values)
        });
        // Of a generator whose state is 0 all numbers are: draws that try slots until one is drawable would never end.
        let mut rng = memory.rng.clone();
        let sound = sound && (0..4).any(|_| rng.next_u64() != 0);
        let names: std::collections::HashSet<_> =
            self.views.iter().map(|(view, _)| &view.name).collect();
        let largest = |largest: f64| largest.is_finite() && largest >= 1.0;
        let limited = self.limited;
        let sound = sound
            && largest(self.largest)
            && limited.is_none_or(|limited| limited.is_sound(memory.max_step, actions.sum()))
            && names.len() == self.views.len()
            && self.views.iter().all(|(view, of_view)| view.check().is_ok() && largest(*of_view));
        if entries > memory.max_step || settings.is_empty() || !(known && fitting && sound) {
            return Err(self.refused("a header that contradicts itself"));
        }
        Ok(regions)
    }

    /// dtype and shape of each field.
    pub fn fields(&self) -> &[FieldSpec; FIELDS] {
        &self.memory.fields
    }

    /// Entries that the saved memory holds at most.
    pub fn max_step(&self) -> usize {
        self.memory.max_step as usize
    }

    /// The settings that were in force.
    pub fn settings(&self) -> &Settings {
        &self.settings[0]
    }

    /// The settings of the views.
    pub fn views(&self) -> impl Iterator<Item = &ViewSettings> {
        self.views.iter().map(|(view, _)| view)
    }

    /// How the memory stored recurrent states.
    pub fn recurrent(&self) -> Option<&RecurrentSpec> {
        self.sequences.recurrent.as_ref()
    }

    /// Which fields the memory compressed.
    pub fn compression(&self) -> &Compression {
        &self.compression.0
    }

    /// The rate limiter that the memory had.
    pub fn limiter(&self) -> Option<&RateLimiter> {
        self.limited.as_ref().map(|limited| &limited.limiter)
    }

    /// The uuid of the memory that was saved.
    pub fn uuid(&self) -> u32 {
        self.memory.uuid
    }
}
