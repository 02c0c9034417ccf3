//! The headers of files with memories, of all versions.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::replay::checkpoint_columns::{columns_record, regions_checksum};
use crate::replay::checkpoint_entries::frames_size;
use crate::replay::compression::Compression;
use crate::replay::episode::Totals;
use crate::replay::memory::Memory;
use crate::replay::sequence_parts::SequenceParts;
use crate::replay::settings::{FLAGS, FramePadding, NewPriority, Settings};
use crate::replay::view::ViewSettings;
use crate::spec::FieldSpec;

/// The header of a file. `S` are the settings in force first, then those that episodes were closed with; the largest weight
/// ever given follows from version 4 on, [`Parts`] from version 5 on.
pub type Header<S> = (MemoryRecord, Vec<S>, Vec<EpisodeRecord>);

/// What only some memories have, each part by its name.
pub type Parts = Vec<(String, Vec<u8>)>;

/// The part with the rate limiter and its counts.
pub const LIMITER: &str = "limiter";

/// The part with the codecs of compressed fields, and the bytes that follow of those.
pub const COMPRESSION: &str = "compression";
pub type CompressionRecord = (Compression, u64);

/// The part with the regions of a memory with a folder, a [`crate::replay::checkpoint_columns::ColumnsRecord`].
pub const COLUMNS: &str = "columns";

/// The part with the checksum of those regions, which files of before had not.
pub const COLUMNS_CHECKSUM: &str = "checksum of columns";

/// The part with the views: settings, and the largest weight that each gave.
pub const VIEWS: &str = "views";
pub type ViewRecords = Vec<(ViewSettings, f64)>;

/// A memory without its settings and episodes.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemoryRecord {
    pub little_endian: bool,
    pub fields: [FieldSpec; crate::spec::FIELDS],
    pub max_step: u64,
    pub uuid: u32,
    pub next_serial: u64,
    pub totals: Totals,
    pub rng: Xoshiro256PlusPlus,
}

/// A closed episode without its entries.
#[derive(Debug, Serialize, Deserialize)]
pub struct EpisodeRecord {
    pub serial: u64,
    pub length: u32,
    pub settings: u32,
    pub values: bool,
    pub weights: bool,
    pub bootstrap: Option<Box<[f64]>>,
    pub final_state: bool,
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

pub fn header(memory: &Memory, uuid: u32) -> Header<Settings> {
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

pub fn parts(memory: &Memory) -> postcard::Result<Parts> {
    let views = memory.views().iter();
    let records: ViewRecords = views.map(|view| (view.settings.clone(), view.largest)).collect();
    let mut parts = SequenceParts::of(memory)?;
    if !records.is_empty() {
        parts.push((VIEWS.into(), postcard::to_stdvec(&records)?));
    }
    if let Some(compression) = memory.compression() {
        let record: CompressionRecord = (compression.clone(), frames_size(memory));
        parts.push((COMPRESSION.into(), postcard::to_stdvec(&record)?));
    }
    if let Some(record) = columns_record(memory) {
        parts.push((COLUMNS.into(), postcard::to_stdvec(&record)?));
    }
    if let Some(checksum) = regions_checksum(memory) {
        parts.push((COLUMNS_CHECKSUM.into(), postcard::to_stdvec(&checksum)?));
    }
    if let Some(limited) = &memory.limited {
        parts.push((LIMITER.into(), postcard::to_stdvec(limited)?));
    }
    Ok(parts)
}

/// The numbers of an entry that a file has beside its base, weight and columns: for each index with a limit its count, for
/// each view before that its weight.
pub fn numbers_per_entry(limit: u32, views: &ViewRecords) -> usize {
    let of_views = views.iter().map(|(view, _)| 1 + usize::from(view.max_times_sampled > 0));
    usize::from(limit > 0) + of_views.sum::<usize>()
}

pub fn read_header(
    version: u32,
    header: &[u8],
) -> postcard::Result<(Header<Settings>, f64, Parts)> {
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
