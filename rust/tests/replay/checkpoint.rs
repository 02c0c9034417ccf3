//! Memories in files: equal when they are loaded, and refused when the file is damaged.

use std::path::{Path, PathBuf};

use cogrs::error::{Error, Result};
use cogrs::replay::checkpoint::{CheckpointFile, save};
use cogrs::replay::checkpoint_load::LoadOptions;
use cogrs::replay::memory::Memory;
use cogrs::replay::sampler::Sampler;
use cogrs::spec::Field;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tempfile::TempDir;

use crate::calls::{Call, calls};
use crate::fixtures::{LARGE, SMALL, config, read};
use crate::pair::Pair;

pub const UUID: u32 = 0xC0_FFEE;
/// Magic, version and length of the header.
const PREFIX: usize = 20;

/// A folder with the path of a file that is not there yet.
pub fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    (folder, path)
}

pub fn load(path: &Path) -> Result<Memory> {
    CheckpointFile::open(path)?.load(LoadOptions::default())
}

fn readings(memory: &Memory) -> impl PartialEq + std::fmt::Debug {
    // Values of open episodes count to what compressed ones are expected to take.
    let size = memory.compression().map_or_else(|| Ok(memory.nbytes()), |by| Err(by.clone()));
    (contents(memory), size)
}

/// All that can be read from a memory without its open episodes; weights by their bits.
pub fn contents(memory: &Memory) -> impl PartialEq + std::fmt::Debug + use<> {
    let episodes = memory.closed_episodes().enumerate().map(|(index, episode)| {
        let fields = Field::ALL.map(|field| read(memory, index, field));
        let weights: Vec<u32> = memory.read_weights(episode).map(f32::to_bits).collect();
        (episode.serial, episode.len(), format!("{:?}", episode.ending), fields, weights)
    });
    (
        episodes.collect::<Vec<_>>(),
        memory.spec().clone(),
        memory.settings().clone(),
        (memory.max_step(), memory.totals()),
        (memory.num_episode(), memory.num_sampleable(), memory.min_weight().to_bits()),
    )
}

fn after(state_size: usize, capacity: usize, calls: Vec<Call>) -> Pair {
    let mut pair = Pair::new(state_size, capacity);
    for call in calls {
        pair.make(call);
    }
    pair
}

/// Saves and loads between the calls, more than once, and continues with the loaded memory.
pub fn comes_back(mut pair: Pair, parts: Vec<Vec<Call>>) {
    let (_folder, path) = place();
    for calls in parts {
        for call in calls {
            pair.make(call);
        }
        pair.replace(|memory| {
            save(memory, UUID, &path).unwrap();
            assert_eq!(CheckpointFile::open(&path).unwrap().uuid(), UUID);
            let loaded = load(&path).unwrap();
            assert_eq!(readings(&loaded), readings(memory));
            loaded
        });
    }
}

/// The bytes of a saved memory after some calls.
fn saved_bytes(state_size: usize, calls: Vec<Call>, path: &Path) -> Vec<u8> {
    save(after(state_size, 40, calls).memory(), UUID, path).unwrap();
    std::fs::read(path).unwrap()
}

pub fn refused(bytes: &[u8], path: &Path) -> bool {
    std::fs::write(path, bytes).unwrap();
    matches!(load(path), Err(Error::Value { .. }))
}

/// Gives the header's checksum its due, so that nothing but the header itself tells of a change.
fn reseal(bytes: &mut [u8]) {
    let length = u64::from_le_bytes(bytes[12..PREFIX].try_into().unwrap()) as usize;
    let checksum = crc32fast::hash(&bytes[PREFIX..PREFIX + length]);
    bytes[PREFIX + length..][..4].copy_from_slice(&checksum.to_le_bytes());
}

fn sizes() -> impl Strategy<Value = usize> {
    select(&[0, SMALL, LARGE][..])
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn loaded_memory_equals_the_saved_one_and_continues(
        state_size in sizes(),
        capacity in 0..=40_usize,
        parts in vec(vec(calls(12), 0..60), 1..4),
    ) {
        comes_back(Pair::new(state_size, capacity), parts);
    }

    #[test]
    fn file_cut_anywhere_is_refused(
        state_size in sizes(),
        calls in vec(calls(12), 0..60),
        cuts in vec(any::<Index>(), 10),
    ) {
        let (_folder, path) = place();
        let whole = saved_bytes(state_size, calls, &path);
        for cut in cuts {
            let cut = cut.index(whole.len());
            prop_assert!(refused(&whole[..cut], &path), "cut at {} of {}", cut, whole.len());
        }
    }

    #[test]
    fn file_with_a_changed_byte_is_refused(
        state_size in sizes(),
        calls in vec(calls(12), 0..60),
        flips in vec((any::<Index>(), 1..=u8::MAX), 10),
    ) {
        let (_folder, path) = place();
        let mut bytes = saved_bytes(state_size, calls, &path);
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(refused(&bytes, &path), "byte {} of {}", at, bytes.len());
            bytes[at] ^= flip;
        }
    }

    #[test]
    fn damaged_header_with_a_valid_checksum_is_refused_or_makes_a_memory(
        calls in vec(calls(12), 0..60),
        flips in vec((any::<Index>(), 1..=u8::MAX), 10),
    ) {
        let (_folder, path) = place();
        let whole = saved_bytes(SMALL, calls, &path);
        let length = u64::from_le_bytes(whole[12..PREFIX].try_into().unwrap()) as usize;
        for (at, flip) in flips {
            let mut bytes = whole.clone();
            bytes[PREFIX + at.index(length)] ^= flip;
            reseal(&mut bytes);
            std::fs::write(&path, &bytes).unwrap();
            match load(&path) {
                Ok(mut memory) => {
                    for sampler in Sampler::ALL {
                        let drawn = memory.draw_by(sampler, 3);
                        prop_assert!(drawn.is_ok() || matches!(drawn, Err(Error::TooFew(_))));
                    }
                    readings(&memory);
                }
                Err(error) => {
                    prop_assert!(matches!(error, Error::Value { .. } | Error::Memory(_)), "{error}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    #[ignore = "long form of the first test above"]
    fn loaded_memory_of_any_capacity_equals_the_saved_one_and_continues(
        state_size in sizes(),
        capacity in prop_oneof![0..=40_usize, 64..=300_usize],
        parts in vec(vec(calls(60), 0..120), 1..5),
    ) {
        comes_back(Pair::new(state_size, capacity), parts);
    }
}
