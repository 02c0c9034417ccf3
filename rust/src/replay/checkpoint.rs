//! Memories in files.
//!
//! ```text
//! magic, version (u32), length of the header (u64)     little-endian
//! header                                               postcard: memory, settings, episodes, largest weight, parts
//! checksum of the header (u32)
//! for each closed episode, oldest first:
//!     base and weight (f32) of each entry, with max_times_sampled its count of draws (u32), all rows of each column;
//!     native-endian
//! checksum of all those (u32)
//! ```
//!
//! Parts have names. A memory that lacks what a part is about has none of it, and a file with a part of another name is of a
//! later version.
//!
//! Everything is streamed between the file and the slots, and nothing is held twice. A file is written under another name
//! and renamed; loading compares sizes first, so a truncated file is refused at once.

use std::fs::{File, Permissions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::replay::entry_weight::EntryWeight;
use crate::replay::episode::{Bootstrap, Ending, Totals};
use crate::replay::footprint::EMPTY_EPISODES;
use crate::replay::memory::Memory;
use crate::replay::sequence_parts::SequenceParts;
use crate::replay::settings::{FLAGS, FramePadding, NewPriority, Settings};
use crate::spec::{EntrySpec, FIELDS, FieldSpec};

const MAGIC: [u8; 8] = *b"cogrs-rm";
const VERSION: u32 = 5;
/// The oldest version that can still be read: without weights outside of borders, `new_priority` and what came with it.
/// Version 4 is without samplers, counts of draws, and parts.
const OLDEST_VERSION: u32 = 3;
const PREFIX: usize = MAGIC.len() + 4 + 8;
const CHECKSUM: usize = 4;
/// No real header is that large: it has a dozen bytes per episode.
const MAX_HEADER: u64 = 1 << 32;
const BUFFER: usize = 1 << 20;

/// The header of a file. `S` are the settings in force first, then those that episodes were closed with; the largest weight
/// ever given follows from version 4 on, [`Parts`] from version 5 on.
type Header<S> = (MemoryRecord, Vec<S>, Vec<EpisodeRecord>);

/// What only some memories have, each part by its name.
type Parts = Vec<(String, Vec<u8>)>;

/// A memory without its settings and episodes.
#[derive(Debug, Serialize, Deserialize)]
struct MemoryRecord {
    little_endian: bool,
    fields: [FieldSpec; crate::spec::FIELDS],
    max_step: u64,
    uuid: u32,
    next_serial: u64,
    totals: Totals,
    rng: Xoshiro256PlusPlus,
}

/// A closed episode without its entries.
#[derive(Debug, Serialize, Deserialize)]
struct EpisodeRecord {
    serial: u64,
    length: u32,
    settings: u32,
    values: bool,
    weights: bool,
    bootstrap: Option<Box<[f64]>>,
    final_state: bool,
}

/// The settings of version 3, in the order of [`Settings`].
type SettingsV3 = (f64, f64, usize, usize, usize, usize, bool, Vec<f64>, Vec<f64>, [bool; FLAGS]);

/// The settings of version 4, in the order of [`Settings`].
type SettingsV4 = (SettingsV3, NewPriority, f64, FramePadding);

fn upgrade_v4(old: SettingsV4) -> Settings {
    let (old, new_priority, priority_epsilon, frame_padding) = old;
    Settings { new_priority, priority_epsilon, frame_padding, ..upgrade_v3(old) }
}

fn upgrade_v3(old: SettingsV3) -> Settings {
    let (priority_exponent, mix_lambda, frame_stack, multi_step, cache_size, ..) = old;
    let (.., max_episode, reuse_cache, discount_factor, reward_coeff, cache_flags) = old;
    Settings {
        priority_exponent,
        mix_lambda,
        frame_stack,
        multi_step,
        cache_size,
        max_episode,
        reuse_cache,
        discount_factor,
        reward_coeff,
        cache_flags,
        ..Settings::new(0)
    }
}

/// Writes all closed episodes, settings and the state of the random generator to `path`, whole or not at all. Open episodes
/// are left out. Fails with [`Error::File`].
pub fn save(memory: &Memory, uuid: u32, path: &Path) -> Result<()> {
    let failed = |error| Error::file(path, &error);
    let (target, mode) = resolve(path).map_err(failed)?;
    let unwritable = |error: postcard::Error| failed(std::io::Error::other(error));
    let parts: Parts = SequenceParts::of(memory).map_err(unwritable)?;
    let header =
        postcard::to_stdvec(&(header(memory, uuid), memory.largest, parts)).map_err(unwritable)?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut temporary = temporary_file_in(parent).map_err(failed)?;
    write(memory, &header, temporary.as_file_mut()).map_err(failed)?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(mode).map_err(failed)?;
    }
    temporary.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The path of the file to write, with links followed, and its permissions when it exists.
fn resolve(path: &Path) -> std::io::Result<(PathBuf, Option<Permissions>)> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok((path.to_owned(), None)),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => {
            Ok((std::fs::canonicalize(path)?, Some(found.permissions())))
        }
        Ok(_) => Err(std::io::Error::other("not a file")),
    }
}

/// A file that is deleted unless it is renamed, with the permissions that new files get in this folder.
fn temporary_file_in(parent: &Path) -> std::io::Result<NamedTempFile<File>> {
    let mut code = None;
    let made = tempfile::Builder::new().prefix(".cogrs-").make_in(parent, |path| {
        let opened = File::create_new(path);
        code = opened.as_ref().err().and_then(std::io::Error::raw_os_error);
        opened
    });
    // The error that `made` has lacks the system's number, and names the temporary file.
    made.map_err(|error| code.map_or(error, std::io::Error::from_raw_os_error))
}

fn header(memory: &Memory, uuid: u32) -> Header<Settings> {
    let mut settings = vec![Arc::clone(memory.settings())];
    let mut episodes = Vec::with_capacity(memory.num_episode());
    for episode in memory.closed_episodes() {
        let Some(ending) = &episode.ending else { continue };
        // Episodes that share settings are adjacent.
        if !settings.last().is_some_and(|last| Arc::ptr_eq(last, &ending.settings)) {
            settings.push(Arc::clone(&ending.settings));
        }
        episodes.push(EpisodeRecord {
            serial: episode.serial,
            length: episode.len() as u32,
            settings: settings.len() as u32 - 1,
            values: ending.values,
            weights: ending.weights,
            bootstrap: ending.bootstrap.as_deref().map(Box::from),
            final_state: ending.final_state,
        });
    }
    let memory = MemoryRecord {
        little_endian: cfg!(target_endian = "little"),
        fields: memory.spec().fields().clone(),
        max_step: memory.max_step() as u64,
        uuid,
        next_serial: memory.next_serial,
        totals: memory.totals,
        rng: memory.rng.clone(),
    };
    (memory, settings.iter().map(|settings| Settings::clone(settings)).collect(), episodes)
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
        for slots in episode.pieces() {
            put(bytemuck::cast_slice(&memory.weights[slots]))?;
        }
        if memory.index.limit() > 0 {
            for slot in episode.slots() {
                put(&memory.index.times_sampled(slot).to_ne_bytes())?;
            }
        }
        for column in 0..memory.storage.columns() {
            for slots in episode.pieces() {
                put(memory.storage.rows(column, slots))?;
            }
        }
        for state in memory.recurrent_states(episode) {
            put(state)?;
        }
    }
    out.write_all(&checksum.finalize().to_le_bytes())?;
    out.flush()?;
    drop(out);
    file.sync_all()
}

fn read_header(version: u32, header: &[u8]) -> postcard::Result<(Header<Settings>, f64, Parts)> {
    Ok(match version {
        3 => {
            let (memory, settings, episodes): Header<SettingsV3> = postcard::from_bytes(header)?;
            let settings = settings.into_iter().map(upgrade_v3).collect();
            ((memory, settings, episodes), 1.0, Parts::new())
        }
        4 => {
            let ((memory, settings, episodes), largest): (Header<SettingsV4>, f64) =
                postcard::from_bytes(header)?;
            let settings = settings.into_iter().map(upgrade_v4).collect();
            ((memory, settings, episodes), largest, Parts::new())
        }
        _ => postcard::from_bytes(header)?,
    })
}

/// An open file whose header has been checked.
#[derive(Debug)]
pub struct CheckpointFile {
    path: String,
    memory: MemoryRecord,
    settings: Vec<Settings>,
    episodes: Vec<EpisodeRecord>,
    largest: f64,
    sequences: SequenceParts,
    is_v3: bool,
    payload: BufReader<File>,
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
            return Err(refused("something that is not a file"));
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
            return Err(refused("a file of another kind"));
        }
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(refused(&format!("version {version}, this is version {VERSION}")));
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
        let sequences = SequenceParts::take(&mut parts).map_err(|why| refused(&why))?;
        if let Some((name, _)) = parts.first() {
            return Err(refused(&format!("one with a part {name:?}, of a later version")));
        }
        let is_v3 = version == 3;
        let file =
            Self { path: name, memory, settings, episodes, largest, sequences, is_v3, payload };
        file.check(size - length - (PREFIX + CHECKSUM) as u64)?;
        Ok(file)
    }

    fn refused(&self, why: &str) -> Error {
        Error::value(&self.path, "a saved replay memory", why)
    }

    /// Checks that the header agrees with itself and with the bytes that follow it.
    fn check(&self, payload: u64) -> Result<()> {
        let Self { memory, settings, episodes, .. } = self;
        if memory.little_endian != cfg!(target_endian = "little") {
            return Err(self.refused("one of a machine with another byte order"));
        }
        let spec = EntrySpec::new(memory.fields.clone())
            .map_err(|error| self.refused(&format!("invalid fields: {error}")))?;
        let dims = spec.reward_dims();
        let entries: u64 = episodes.iter().map(|record| u64::from(record.length)).sum();
        let counted = settings.first().is_some_and(|settings| settings.max_times_sampled > 0);
        let count = if counted { size_of::<u32>() } else { 0 };
        let row = (spec.entry_size() + size_of::<EntryWeight>() + count) as u64;
        let lengths = episodes.iter().map(|record| (record.length, record.final_state));
        let states = self.sequences.state_bytes(lengths);
        let size = entries
            .checked_mul(row)
            .zip(states)
            .and_then(|(rows, states)| rows.checked_add(states));
        if size.and_then(|size| size.checked_add(CHECKSUM as u64)) != Some(payload) {
            return Err(self.refused("a file that was cut short or added to"));
        }
        let serials = episodes.iter().map(|record| record.serial);
        // Serial numbers share an id with a step, and all ids stay below 2^63.
        let step_bits = u64::BITS - memory.max_step.leading_zeros();
        let known = memory.next_serial.leading_zeros() > step_bits
            && memory.totals.episodes.max(memory.totals.steps) <= u64::MAX >> 1
            && serials.clone().all(|serial| serial < memory.next_serial)
            && serials.collect::<std::collections::HashSet<_>>().len() == episodes.len();
        let fitting = settings.iter().all(|settings| settings.is_valid(dims));
        let sound = episodes.iter().all(|record| {
            let bootstrap = record.bootstrap.as_ref();
            let finite = |value: &f64| (*value as f32).is_finite();
            (record.settings as usize) < settings.len()
                && bootstrap.is_none_or(|b| b.len() == dims && b.iter().all(finite))
                && (record.values || !record.weights)
                && (spec.has_values() || !record.values)
        });
        let sound = sound && self.largest.is_finite() && self.largest >= 1.0;
        if entries > memory.max_step || settings.is_empty() || !(known && fitting && sound) {
            return Err(self.refused("a header that contradicts itself"));
        }
        Ok(())
    }

    /// dtype and shape of each field.
    pub fn fields(&self) -> &[FieldSpec; FIELDS] {
        &self.memory.fields
    }

    /// The uuid of the memory that was saved.
    pub fn uuid(&self) -> u32 {
        self.memory.uuid
    }

    /// Reads the memory. Fails as [`Self::open`] and [`Memory::new`] do.
    pub fn load(mut self, overcommit: bool) -> Result<Memory> {
        let spec = EntrySpec::new(self.memory.fields.clone())?;
        let max_step = self.memory.max_step as usize;
        let (rng, recurrent) = (self.memory.rng.clone(), self.sequences.recurrent.clone());
        let mut memory = Memory::with_recurrent(spec, recurrent, max_step, rng, overcommit)?;
        let settings: Vec<Arc<Settings>> = self.settings.drain(..).map(Arc::new).collect();
        memory.set_settings(Settings::clone(&settings[0]))?;
        let mut checksum = Hasher::new();
        for record in std::mem::take(&mut self.episodes) {
            // A memory of an earlier version may have held more episodes without entries.
            if record.length == 0 && memory.empty == EMPTY_EPISODES {
                continue;
            }
            let ending = Ending {
                settings: Arc::clone(&settings[record.settings as usize]),
                values: record.values,
                weights: record.weights,
                bootstrap: record.bootstrap.as_deref().map(Bootstrap::from_slice),
                final_state: record.final_state,
            };
            let index = memory.restore(record.serial, record.length as usize, ending);
            self.read(&mut memory, index, &mut checksum)?;
            if self.is_v3 {
                memory.weigh_borders(index);
            }
        }
        let mut expected = [0; CHECKSUM];
        self.fill(&mut expected)?;
        if checksum.finalize().to_le_bytes() != expected {
            return Err(self.refused("a file with damaged entries"));
        }
        memory.next_serial = self.memory.next_serial;
        memory.totals = self.memory.totals;
        memory.largest = self.largest;
        // The same object, which episodes share.
        memory.settings = Arc::clone(&settings[0]);
        memory.mask_borders();
        if !std::mem::take(&mut self.sequences).restore(&mut memory)? {
            return Err(self.refused("a file with anchors that are not those of its episodes"));
        }
        Ok(memory)
    }

    fn read(&mut self, memory: &mut Memory, index: u32, checksum: &mut Hasher) -> Result<()> {
        let pieces: Vec<_> = memory.episodes[index as usize].pieces().collect();
        for slots in pieces.iter().cloned() {
            let weights: &mut [f32] = bytemuck::cast_slice_mut(&mut memory.weights[slots]);
            self.fill(bytemuck::cast_slice_mut(weights))?;
            checksum.update(bytemuck::cast_slice(weights));
            if weights.iter().any(|&value| !(value.is_finite() && value >= 0.0)) {
                return Err(self.refused("a file with a weight that is not a finite number >= 0"));
            }
        }
        let limit = memory.index.limit();
        if limit > 0 {
            for slot in pieces.iter().cloned().flatten() {
                let mut count = [0; size_of::<u32>()];
                self.fill(&mut count)?;
                checksum.update(&count);
                let count = u32::from_ne_bytes(count);
                if count > limit {
                    return Err(self.refused("a file with an entry drawn more often than allowed"));
                }
                memory.index.set_times_sampled(slot, count);
            }
        }
        for column in 0..memory.storage.columns() {
            for slots in pieces.iter().cloned() {
                let rows = memory.storage.rows_mut(column, slots);
                self.fill(rows)?;
                checksum.update(rows);
            }
        }
        memory.restore_states(index, |bytes| {
            self.fill(bytes)?;
            checksum.update(bytes);
            Ok(())
        })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.payload.read_exact(bytes).map_err(|error| Error::file(Path::new(&self.path), &error))
    }
}
