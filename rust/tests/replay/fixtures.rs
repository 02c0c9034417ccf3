//! Memories, and entries to put into them.

use cogrs::error::Error;
use cogrs::replay::closing::CloseOptions;
use cogrs::replay::compression::Compression;
use cogrs::replay::memory::{EntryRows, Memory, WRITTEN};
use cogrs::replay::settings::Settings;
use cogrs::spec::{EntrySpec, Field, FieldSpec};
use proptest::prelude::ProptestConfig;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::model::{DIMS, Entry};

/// Bytes of a state that shares a record with the other fields.
pub const SMALL: usize = 3;
/// Bytes of a state that lies in a column of its own.
pub const LARGE: usize = 150;

pub fn config(cases: u32) -> ProptestConfig {
    // A failing case is printed whole; a file of seeds would say nothing once a strategy changes.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

pub fn spec_with(state_size: usize, values: &[usize]) -> EntrySpec {
    let field = FieldSpec::new;
    let fields = [
        field("|u1", 1, &[state_size]),
        field("<i8", 8, &[]),
        field("<f4", 4, &[DIMS]),
        field("<f4", 4, &[]),
        field("<f4", 4, values),
        field("<f4", 4, values),
        field("<i8", 8, &[]),
    ];
    EntrySpec::new(fields).unwrap()
}

pub fn memory_of(spec: EntrySpec, capacity: usize, seed: u64) -> Memory {
    Memory::new(spec, capacity, rng(seed), true).unwrap()
}

/// The codecs of fields, and at most so many bytes for them.
pub fn compression(
    spec: &EntrySpec,
    codes: &[(Field, &str)],
    max_bytes: Option<u64>,
) -> Compression {
    let mut made = Compression::default();
    made.max_bytes = max_bytes;
    for (field, code) in codes {
        made.set(spec, *field, code.parse().unwrap()).unwrap();
    }
    made
}

pub fn compressed_memory(
    spec: EntrySpec,
    codes: &[(Field, &str)],
    max_bytes: Option<u64>,
    capacity: usize,
) -> Memory {
    let compression = compression(&spec, codes, max_bytes);
    Memory::with_parts(spec, compression, None, None, capacity, rng(capacity as u64), true).unwrap()
}

pub fn new_memory(capacity: usize) -> Memory {
    memory_of(spec_with(SMALL, &[DIMS]), capacity, 0)
}

pub fn set(memory: &mut Memory, change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings::clone(memory.settings());
    change(&mut settings);
    memory.set_settings(settings).unwrap();
}

/// The written fields of entries, each from the first entry to the last.
pub struct Columns(pub [Vec<u8>; WRITTEN.len()]);

impl Columns {
    pub fn new(entries: &[Entry]) -> Self {
        let column = |field| entries.iter().flat_map(|entry| entry.bytes(field)).collect();
        Self(WRITTEN.map(column))
    }

    pub fn rows(&self) -> EntryRows<'_> {
        self.0.each_ref().map(Vec::as_slice)
    }
}

pub fn bases(entries: &[Entry]) -> Vec<f64> {
    entries.iter().map(|entry| f64::from(entry.base)).collect()
}

pub fn entries(count: usize) -> Vec<Entry> {
    (0..count as u64).map(|number| Entry::numbered(number, SMALL)).collect()
}

/// Adds `count` entries of weight 1.
pub fn add(memory: &mut Memory, serial: u64, count: usize) -> Result<u64, Error> {
    memory.add(serial, Columns::new(&entries(count)).rows(), &vec![1.0; count])
}

/// A close whose weights are the initial ones.
pub fn plain<'a>() -> CloseOptions<'a> {
    CloseOptions { weights: false, ..CloseOptions::default() }
}

/// Adds a closed episode of `count` entries of weight 1.
pub fn add_episode(memory: &mut Memory, count: usize) -> u64 {
    let columns = Columns::new(&entries(count));
    memory.add_episode(columns.rows(), &vec![1.0; count], &plain()).unwrap()
}

pub fn read(memory: &Memory, index: usize, field: Field) -> Vec<u8> {
    let episode = memory.episode(index).unwrap();
    let mut bytes = vec![0xEE; episode.len() * memory.spec()[field].nbytes()];
    memory.read(episode, field, &mut bytes);
    bytes
}

pub fn gather(memory: &Memory, field: Field, rows: &[u32]) -> Vec<u8> {
    let stack = if field == Field::State { memory.settings().frame_stack } else { 1 };
    let mut bytes = vec![0xEE; rows.len() * stack * memory.spec()[field].nbytes()];
    memory.gather(field, rows, &mut bytes);
    bytes
}

pub fn ids(memory: &Memory, rows: &[u32]) -> Vec<u64> {
    memory.ids(rows).collect()
}
