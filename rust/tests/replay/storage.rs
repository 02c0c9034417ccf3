//! Memories with a folder: equal to the model, and the same in every file.

use std::path::Path;
use std::sync::Arc;

use cogrs::error::Error;
use cogrs::replay::checkpoint::{CheckpointFile, save};
use cogrs::replay::checkpoint_load::LoadOptions;
use cogrs::replay::compression::Compression;
use cogrs::replay::memory::Memory;
use cogrs::replay::storage_folder::StorageFolder;
use cogrs::spec::Field;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::calls::calls;
use crate::checkpoint::{UUID, contents, place, refused};
use crate::fixtures::{Columns, LARGE, compression, config, plain, rng, spec_with};
use crate::model::{DIMS, Entry};
use crate::pair::Pair;

/// Bytes of a state of which a few make a chunk.
const HUGE: usize = 5_000;

type Codes = &'static [(Field, &'static str)];

const CODES: [Codes; 4] = [
    &[],
    &[(Field::State, "lz4")],
    &[(Field::State, "delta+zstd:1"), (Field::Info, "lz4")],
    &[(Field::Action, "delta+lz4")],
];

fn memory_in(
    folder: Option<&Arc<StorageFolder>>,
    size: usize,
    codes: Codes,
    capacity: usize,
) -> Memory {
    let spec = spec_with(size, &[DIMS]);
    let compression = compression(&spec, codes, None);
    Memory::with_parts(spec, compression, None, folder, capacity, rng(1), true).unwrap()
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![9 => Just(LARGE), 1 => Just(HUGE)]
}

/// What a file is loaded into: the codecs of another memory, or the file's own; and whether that has a folder.
type Into = (Option<Codes>, bool);

fn load(path: &Path, (codes, on_disk): Into, folder: &Path) -> Memory {
    let file = CheckpointFile::open(path).unwrap();
    let size = file.fields()[0].nbytes();
    let compression = codes.map(|codes| compression(&spec_with(size, &[DIMS]), codes, None));
    let folder = on_disk.then(|| StorageFolder::open(folder).unwrap());
    file.load(LoadOptions { compression, folder, overcommit: true }).unwrap()
}

proptest! {
    #![proptest_config(config(20))]

    #[test]
    fn memory_with_a_folder_equals_the_model_after_any_calls(
        size in sizes(),
        codes in select(&CODES[..]),
        capacity in prop_oneof![3 => 0..=40_usize, 1 => 64..=200_usize],
        calls in vec(calls(40), 0..120),
    ) {
        let place = tempfile::tempdir().unwrap();
        let folder = StorageFolder::open(place.path()).unwrap();
        let mut pair = Pair::of(memory_in(Some(&folder), size, codes, capacity), size, capacity);
        for call in calls {
            pair.make(call);
        }
    }

    #[test]
    fn loaded_memory_equals_the_saved_one_whatever_holds_its_fields(
        size in sizes(),
        codes in select(&CODES[..]),
        capacity in 0..=40_usize,
        parts in vec((vec(calls(12), 0..60), prop::option::of(select(&CODES[..])), any::<bool>()), 1..4),
    ) {
        let (place, path) = place();
        let folder = StorageFolder::open(&place.path().join("0")).unwrap();
        let mut pair = Pair::of(memory_in(Some(&folder), size, codes, capacity), size, capacity);
        drop(folder);
        for (at, (calls, codes, on_disk)) in parts.into_iter().enumerate() {
            for call in calls {
                pair.make(call);
            }
            pair.replace(|memory| {
                save(memory, UUID, &path).unwrap();
                let other = place.path().join((at + 1).to_string());
                let loaded = load(&path, (codes, on_disk), &other);
                assert_eq!(contents(&loaded), contents(memory));
                let has: Vec<_> = loaded.compression().into_iter().flat_map(Compression::fields).collect();
                let had: Vec<_> = memory.compression().into_iter().flat_map(Compression::fields).collect();
                assert!(codes.is_some() || has == had);
                assert_eq!(loaded.folder().is_some(), on_disk);
                loaded
            });
        }
    }

    #[test]
    fn file_of_a_memory_with_a_folder_is_refused_when_cut_or_changed(
        codes in select(&CODES[..]),
        calls in vec(calls(12), 10..60),
        cuts in vec(any::<Index>(), 10),
        flips in vec((any::<Index>(), 1..=u8::MAX), 10),
    ) {
        let (place, path) = place();
        let folder = StorageFolder::open(place.path()).unwrap();
        let mut pair = Pair::of(memory_in(Some(&folder), LARGE, codes, 40), LARGE, 40);
        for call in calls {
            pair.make(call);
        }
        save(pair.memory(), UUID, &path).unwrap();
        let mut whole = std::fs::read(&path).unwrap();
        for cut in cuts {
            prop_assert!(refused(&whole[..cut.index(whole.len())], &path));
        }
        whole.push(0);
        prop_assert!(refused(&whole, &path));
        whole.pop();
        let checked = checked_bytes(&whole);
        for (at, flip) in flips {
            let at = at.index(checked);
            whole[at] ^= flip;
            prop_assert!(refused(&whole, &path), "byte {} of {}", at, checked);
            whole[at] ^= flip;
        }
        // Elsewhere a change is found, or is where no entry lies.
        let held = contents(pair.memory());
        for at in (checked..whole.len()).step_by(1 + whole.len() / 20) {
            whole[at] ^= 0x81;
            if !refused(&whole, &path) {
                prop_assert_eq!(&contents(&load(&path, (None, false), place.path())), &held);
            }
            whole[at] ^= 0x81;
        }
    }
}

/// The bytes before the checksum of the header: all those that a file of a memory with a folder always has.
fn checked_bytes(whole: &[u8]) -> usize {
    20 + u64::from_le_bytes(whole[12..20].try_into().unwrap()) as usize
}

fn states(count: usize, size: usize) -> Vec<Entry> {
    (0..count as u64).map(|number| Entry { base: 1.0, ..Entry::numbered(number, size) }).collect()
}

#[test]
fn folder_has_the_bytes_and_memory_does_not() {
    let place = tempfile::tempdir().unwrap();
    let folder = StorageFolder::open(place.path()).unwrap();
    for codes in [CODES[0], CODES[1]] {
        let plain_memory = memory_in(None, HUGE, codes, 300);
        let mut memory = memory_in(Some(&folder), HUGE, codes, 300);
        assert!(memory.nbytes() + 300 * HUGE as u64 <= plain_memory.nbytes());
        let columns = Columns::new(&states(300, HUGE));
        memory.add_episode(columns.rows(), &[1.0; 300], &plain()).unwrap();
        let used = memory.disk_use().unwrap();
        assert_eq!(used.folder, place.path().canonicalize().unwrap());
        let held = memory.compressed_use().first().map_or(300 * HUGE as u64, |held| held.1.bytes);
        assert!(used.bytes >= held && used.expected >= held, "{used:?} {held}");
        assert_eq!(used.in_memory, 0);
        // What the memory had goes with it.
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }
}

#[test]
fn folder_that_would_hold_nothing_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = StorageFolder::open(place.path()).unwrap();
    let spec = spec_with(128, &[DIMS]);
    let made =
        Memory::with_parts(spec, Compression::default(), None, Some(&folder), 10, rng(1), true);
    assert!(matches!(made, Err(Error::Value { argument, .. }) if argument == "storage"));
}

#[test]
fn memory_that_the_disk_cannot_hold_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = StorageFolder::open(place.path()).unwrap();
    let spec = spec_with(1 << 20, &[DIMS]);
    let made = |max_step, overcommit| {
        let none = Compression::default();
        Memory::with_parts(spec.clone(), none, None, Some(&folder), max_step, rng(1), overcommit)
    };
    let text = made(1 << 26, false).unwrap_err().to_string();
    assert!(text.contains("allow_overcommit=True"), "{text}");
    made(8, false).unwrap();
}

#[test]
fn calls_after_a_save_do_not_change_the_file() {
    let (place, path) = place();
    let folder = StorageFolder::open(place.path()).unwrap();
    for codes in [CODES[0], CODES[1]] {
        let mut memory = memory_in(Some(&folder), HUGE, codes, 30);
        let fill = |memory: &mut Memory| {
            for _ in 0..5 {
                let columns = Columns::new(&states(9, HUGE));
                memory.add_episode(columns.rows(), &[1.0; 9], &plain()).unwrap();
            }
        };
        fill(&mut memory);
        save(&memory, UUID, &path).unwrap();
        let saved = std::fs::read(&path).unwrap();
        fill(&mut memory);
        assert_eq!(std::fs::read(&path).unwrap(), saved);
    }
}
