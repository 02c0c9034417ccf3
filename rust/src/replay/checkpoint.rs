//! A memory in a file.
//!
//! ```text
//! magic, version (u32), length of the header (u64)     little-endian
//! header                                               postcard: what it is, its episodes, largest weight
//! checksum of the header (u32)
//! for each closed episode, oldest first:
//!     base and weight (f32) of each entry, all rows of each column; native-endian
//! checksum of all those (u32)
//! ```
//!
//! Everything is streamed between the file and the slots; nothing is held twice.

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
use crate::replay::settings::{FLAGS, Settings};
use crate::spec::{EntrySpec, FIELDS, FieldSpec};

const MAGIC: [u8; 8] = *b"cogrs-rm";
const VERSION: u32 = 4;
/// The version before, whose files are still read: fewer settings, and no weights outside of borders.
const PREVIOUS_VERSION: u32 = 3;
const PREFIX: usize = MAGIC.len() + 4 + 8;
const CHECKSUM: usize = 4;
/// No real header comes near: it takes a dozen bytes an episode.
const MAX_HEADER: u64 = 1 << 32;
const BUFFER: usize = 1 << 20;

/// Everything but the entries, and the largest weight ever given.
#[derive(Debug, Serialize, Deserialize)]
struct Header<S = Settings> {
    little_endian: bool,
    fields: [FieldSpec; crate::spec::FIELDS],
    max_step: u64,
    uuid: u32,
    next_serial: u64,
    totals: Totals,
    rng: Xoshiro256PlusPlus,
    /// The settings in force first, then those that episodes were closed with.
    settings: Vec<S>,
    episodes: Vec<EpisodeRecord>,
}

/// The settings of the version before.
#[derive(Debug, Deserialize)]
struct SettingsV3 {
    priority_exponent: f64,
    mix_lambda: f64,
    frame_stack: usize,
    multi_step: usize,
    cache_size: usize,
    max_episode: usize,
    reuse_cache: bool,
    discount_factor: Vec<f64>,
    reward_coeff: Vec<f64>,
    cache_flags: [bool; FLAGS],
}

impl From<SettingsV3> for Settings {
    fn from(before: SettingsV3) -> Self {
        Self {
            priority_exponent: before.priority_exponent,
            mix_lambda: before.mix_lambda,
            frame_stack: before.frame_stack,
            multi_step: before.multi_step,
            cache_size: before.cache_size,
            max_episode: before.max_episode,
            reuse_cache: before.reuse_cache,
            discount_factor: before.discount_factor,
            reward_coeff: before.reward_coeff,
            cache_flags: before.cache_flags,
            ..Self::new(0)
        }
    }
}

impl From<Header<SettingsV3>> for Header {
    fn from(before: Header<SettingsV3>) -> Self {
        Self {
            little_endian: before.little_endian,
            fields: before.fields,
            max_step: before.max_step,
            uuid: before.uuid,
            next_serial: before.next_serial,
            totals: before.totals,
            rng: before.rng,
            settings: before.settings.into_iter().map(Settings::from).collect(),
            episodes: before.episodes,
        }
    }
}

/// One closed episode.
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

/// Writes all closed episodes, settings and the state of the random generator to `path`. The file
/// appears whole or not at all. Open episodes are left out.
///
/// # Errors
/// [`Error::File`].
pub fn save(memory: &Memory, uuid: u32, path: &Path) -> Result<()> {
    let failed = |error| Error::file(path, &error);
    let (target, mode) = replaced(path).map_err(failed)?;
    let header = postcard::to_stdvec(&(header(memory, uuid), memory.largest))
        .map_err(|error| failed(std::io::Error::other(error)))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut aside = aside_in(parent).map_err(failed)?;
    write(memory, &header, aside.as_file_mut()).map_err(failed)?;
    if let Some(mode) = mode {
        aside.as_file().set_permissions(mode).map_err(failed)?;
    }
    aside.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The file that will be replaced, through links, and its permissions when it is there.
fn replaced(path: &Path) -> std::io::Result<(PathBuf, Option<Permissions>)> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok((path.to_owned(), None)),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => {
            Ok((std::fs::canonicalize(path)?, Some(found.permissions())))
        }
        Ok(_) => Err(std::io::Error::other("there is something that is not a file")),
    }
}

/// A file that goes away unless it is renamed, with the permissions that files are given here.
fn aside_in(parent: &Path) -> std::io::Result<NamedTempFile<File>> {
    let mut code = None;
    let made = tempfile::Builder::new().prefix(".cogrs-").make_in(parent, |path| {
        let opened = File::create_new(path);
        code = opened.as_ref().err().and_then(std::io::Error::raw_os_error);
        opened
    });
    // The error that comes out has lost the number, and names a file that nobody asked for.
    made.map_err(|error| code.map_or(error, std::io::Error::from_raw_os_error))
}

fn header(memory: &Memory, uuid: u32) -> Header {
    let mut settings = vec![Arc::clone(memory.settings())];
    let mut episodes = Vec::with_capacity(memory.num_episode());
    for episode in memory.closed_episodes() {
        let Some(ending) = &episode.ending else { continue };
        // Episodes that share settings stand together.
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
    Header {
        little_endian: cfg!(target_endian = "little"),
        fields: memory.spec().fields().clone(),
        max_step: memory.max_step() as u64,
        uuid,
        next_serial: memory.next_serial,
        totals: memory.totals,
        rng: memory.rng.clone(),
        settings: settings.iter().map(|settings| Settings::clone(settings)).collect(),
        episodes,
    }
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
        for column in 0..memory.storage.columns() {
            for slots in episode.pieces() {
                put(memory.storage.rows(column, slots))?;
            }
        }
    }
    out.write_all(&checksum.finalize().to_le_bytes())?;
    out.flush()?;
    drop(out);
    file.sync_all()
}

/// A file that has been opened and whose header is good.
#[derive(Debug)]
pub struct CheckpointFile {
    path: String,
    header: Header,
    largest: f64,
    /// Whether it is of the version before.
    before: bool,
    payload: BufReader<File>,
}

impl CheckpointFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read; [`Error::Value`] when it is not a whole file of this kind
    /// and version, with the reason.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::file(path, &error);
        let name = path.display().to_string();
        let refused = |why: &str| Error::value(&name, "a saved replay memory", why);
        // Opening a pipe would wait for somebody to write to it.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(refused("something that is not a file"));
        }
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut payload = BufReader::with_capacity(BUFFER, file);
        if size < (PREFIX + CHECKSUM) as u64 {
            return Err(refused("a file too short to be one"));
        }
        let mut prefix = [0; PREFIX];
        payload.read_exact(&mut prefix).map_err(failed)?;
        let (magic, rest) = prefix.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(refused("a file of another kind"));
        }
        let (version, length) = rest.split_at(4);
        let before = version == PREVIOUS_VERSION.to_le_bytes();
        if version != VERSION.to_le_bytes() && !before {
            let version =
                version.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            return Err(refused(&format!("version {version}, this is version {VERSION}")));
        }
        let length = length.iter().rev().fold(0, |length, &byte| length << 8 | u64::from(byte));
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
        let read = if before {
            let read = postcard::from_bytes::<Header<SettingsV3>>(&header);
            read.map(|header| (header.into(), 1.0))
        } else {
            postcard::from_bytes(&header)
        };
        let (header, largest) =
            read.map_err(|error| refused(&format!("a header that cannot be read: {error}")))?;
        let saved = Self { path: name, header, largest, before, payload };
        saved.check(size - length - (PREFIX + CHECKSUM) as u64)?;
        Ok(saved)
    }

    fn refused(&self, why: &str) -> Error {
        Error::value(&self.path, "a saved replay memory", why)
    }

    /// Whether the header agrees with itself and with the bytes that follow it.
    fn check(&self, payload: u64) -> Result<()> {
        let Header { fields, settings, episodes, max_step, .. } = &self.header;
        if self.header.little_endian != cfg!(target_endian = "little") {
            return Err(self.refused("one of a machine with another byte order"));
        }
        let spec = EntrySpec::new(fields.clone())
            .map_err(|error| self.refused(&format!("fields that cannot be: {error}")))?;
        let dims = spec.reward_dims();
        let entries: u64 = episodes.iter().map(|record| u64::from(record.length)).sum();
        let row = spec.entry_size() as u64 + size_of::<EntryWeight>() as u64;
        if entries.checked_mul(row).and_then(|size| size.checked_add(CHECKSUM as u64))
            != Some(payload)
        {
            return Err(self.refused("a file that was cut short or added to"));
        }
        let serials = episodes.iter().map(|record| record.serial);
        // Serial numbers share an id with a step, and all ids stay below 2^63.
        let step_bits = u64::BITS - max_step.leading_zeros();
        let known = self.header.next_serial.leading_zeros() > step_bits
            && self.header.totals.episodes.max(self.header.totals.steps) <= u64::MAX >> 1;
        let known = known
            && serials.clone().all(|serial| serial < self.header.next_serial)
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
        if entries > *max_step || settings.is_empty() || !(known && fitting && sound) {
            return Err(self.refused("a header that contradicts itself"));
        }
        Ok(())
    }

    /// dtype and shape of each field.
    pub fn fields(&self) -> &[FieldSpec; FIELDS] {
        &self.header.fields
    }

    /// The uuid of the memory that was saved.
    pub fn uuid(&self) -> u32 {
        self.header.uuid
    }

    /// Makes the memory.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Value`] as [`Self::open`]; [`Error::Memory`] as [`Memory::new`].
    pub fn load(mut self, overcommit: bool) -> Result<Memory> {
        let spec = EntrySpec::new(self.header.fields.clone())?;
        let max_step = self.header.max_step as usize;
        let mut memory = Memory::new(spec, max_step, self.header.rng.clone(), overcommit)?;
        let settings: Vec<Arc<Settings>> =
            std::mem::take(&mut self.header.settings).into_iter().map(Arc::new).collect();
        let mut checksum = Hasher::new();
        for record in std::mem::take(&mut self.header.episodes) {
            // A memory of an earlier version may have held more of those.
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
            if self.before {
                memory.weigh_borders(index);
            }
        }
        let mut expected = [0; CHECKSUM];
        self.fill(&mut expected)?;
        if checksum.finalize().to_le_bytes() != expected {
            return Err(self.refused("a file with damaged entries"));
        }
        memory.next_serial = self.header.next_serial;
        memory.totals = self.header.totals;
        memory.largest = self.largest;
        memory.settings = Arc::clone(&settings[0]);
        memory.mask_borders();
        Ok(memory)
    }

    fn read(&mut self, memory: &mut Memory, index: u32, checksum: &mut Hasher) -> Result<()> {
        let pieces: Vec<_> = memory.episodes[index as usize].pieces().collect();
        for slots in pieces.iter().cloned() {
            let weights: &mut [f32] = bytemuck::cast_slice_mut(&mut memory.weights[slots]);
            self.fill(bytemuck::cast_slice_mut(weights))?;
            checksum.update(bytemuck::cast_slice(weights));
            if weights.iter().any(|&value| !(value.is_finite() && value >= 0.0)) {
                return Err(self.refused("a file with weights that are none"));
            }
        }
        for column in 0..memory.storage.columns() {
            for slots in pieces.iter().cloned() {
                let rows = memory.storage.rows_mut(column, slots);
                self.fill(rows)?;
                checksum.update(rows);
            }
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.payload.read_exact(bytes).map_err(|error| Error::file(Path::new(&self.path), &error))
    }
}
