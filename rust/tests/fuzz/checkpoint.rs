//! Files of others.

use std::path::Path;
use std::time::{Duration, Instant};

use cogrs::error::Error;
use cogrs::replay::checkpoint::{CheckpointFile, save};
use cogrs::replay::memory::Memory;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::{FLAGS, FramePadding, NewPriority, Remover, Settings};
use cogrs::spec::{EntrySpec, FIELDS, FieldSpec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseResult;
use serde::Serialize;

use crate::inputs::{fields, float, number, small};
use crate::{MOST, fuzz, long};

/// Files that failed once, or that represent a kind of file.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fuzz/checkpoint");

fn settings(dims: usize) -> impl Strategy<Value = Settings> {
    let numbers = (number(), number(), number(), number());
    let priority = prop_oneof![
        Just(NewPriority::Returns),
        Just(NewPriority::Max),
        float().prop_map(NewPriority::Number)
    ];
    let floats = (float(), float(), float(), vec(float(), dims), vec(float(), dims));
    let draws = (select(&Sampler::ALL[..]), 0..=2_u32, select(&Remover::ALL[..]));
    let flags = any::<[bool; FLAGS]>();
    (numbers, floats, priority, flags, select(&FramePadding::ALL[..]), draws).prop_map(
        |(numbers, floats, new_priority, cache_flags, frame_padding, draws)| Settings {
            sampler: draws.0,
            max_times_sampled: draws.1,
            remover: draws.2,
            frame_stack: numbers.0 as usize,
            multi_step: numbers.1 as usize,
            cache_size: numbers.2 as usize,
            max_episode: numbers.3 as usize,
            priority_exponent: floats.0,
            mix_lambda: floats.1,
            priority_epsilon: floats.2,
            discount_factor: floats.3,
            reward_coeff: floats.4,
            reuse_cache: false,
            cache_flags,
            new_priority,
            frame_padding,
            ..Settings::new(0)
        },
    )
}

#[derive(Debug, Serialize)]
struct Episode {
    serial: u64,
    length: u32,
    settings: u32,
    values: bool,
    weights: bool,
    bootstrap: Option<Vec<f64>>,
    final_state: bool,
}

fn episode(dims: usize) -> impl Strategy<Value = Episode> {
    let bootstrap = proptest::option::of(vec(float(), dims));
    let numbers = (number(), 0..9_u32, 0..3_u32);
    (numbers, any::<[bool; 3]>(), bootstrap).prop_map(
        |((serial, length, settings), flags, bootstrap)| {
            let [values, weights, final_state] = flags;
            Episode { serial, length, settings, values, weights, bootstrap, final_state }
        },
    )
}

/// A header as files have it, in the order in which it is written.
#[derive(Debug, Serialize)]
struct Header {
    little_endian: bool,
    fields: [FieldSpec; FIELDS],
    max_step: u64,
    uuid: u32,
    next_serial: u64,
    totals: (u64, u64),
    rng: [u64; 4],
    settings: Vec<Settings>,
    episodes: Vec<Episode>,
    largest: f64,
    parts: Vec<(String, Vec<u8>)>,
}

fn header() -> impl Strategy<Value = Header> {
    fields().prop_flat_map(|fields| {
        let dims = EntrySpec::new(fields.clone()).map_or(1, |spec| spec.reward_dims());
        let max_step = prop_oneof![9 => 0..300_u64, 1 => number()];
        let next_serial = prop_oneof![9 => Just(1_u64 << 40), 1 => number()];
        let counts = (max_step, next_serial, (number(), number()));
        let parts = (vec(settings(dims), 0..3), vec(episode(dims), 0..6), float());
        (Just(fields), counts, any::<[u64; 4]>(), parts).prop_map(|(fields, counts, rng, parts)| {
            Header {
                little_endian: true,
                fields,
                max_step: counts.0,
                uuid: 7,
                next_serial: counts.1,
                totals: counts.2,
                rng,
                settings: parts.0,
                episodes: parts.1,
                largest: parts.2.max(1.0),
                parts: Vec::new(),
            }
        })
    })
}

/// A file with a header, and with the entries that it speaks of, unless those are too many.
fn file(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"cogrs-rm".to_vec();
    bytes.extend(5_u32.to_le_bytes());
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header);
    bytes.extend(crc32fast::hash(header).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes
}

/// Loads a file, and uses the memory as its owner would.
fn check_file(path: &Path) -> TestCaseResult {
    let refused = |error: &Error| {
        matches!(error, Error::Value { .. } | Error::Type { .. } | Error::Memory(_))
    };
    let mut memory = match CheckpointFile::open(path).and_then(|saved| saved.load(false)) {
        Ok(memory) => memory,
        Err(error) => {
            prop_assert!(refused(&error), "{}", error);
            prop_assert!(error.to_string().len() < 100_000);
            return Ok(());
        }
    };
    use_memory(&mut memory)?;
    let again = path.with_extension("again");
    save(&memory, 7, &again).unwrap();
    prop_assert!(CheckpointFile::open(&again).is_ok_and(|saved| saved.load(true).is_ok()));
    memory.set_settings(Settings::new(memory.spec().reward_dims())).unwrap();
    use_memory(&mut memory)?;
    memory.clear();
    prop_assert_eq!(memory.num_entry(), 0);
    Ok(())
}

fn use_memory(memory: &mut Memory) -> TestCaseResult {
    prop_assert!(memory.weight_sum() >= 0.0);
    for sampler in Sampler::ALL {
        match memory.draw_by(sampler, 3) {
            Ok(draws) => prop_assert_eq!(draws.prev.len(), 3),
            Err(error) => prop_assert!(matches!(error, Error::TooFew(_)), "{}", error),
        }
    }
    let open = memory.open();
    memory.abort(open).unwrap();
    Ok(())
}

fn checkpoints(time: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let changes = vec((any::<Index>(), any::<u8>(), 0..4_u8), 0..3);
    fuzz(&(header(), any::<u8>(), changes), time, |(header, fill, changes)| {
        let entries: u64 = header.episodes.iter().map(|episode| u64::from(episode.length)).sum();
        let counted = header.settings.first().is_some_and(|first| first.max_times_sampled > 0);
        let beside = if counted { 12 } else { 8 };
        let row =
            EntrySpec::new(header.fields.clone()).map_or(0, |spec| spec.entry_size() + beside);
        let bytes = entries.saturating_mul(row as u64).min(MOST);
        let mut written = postcard::to_stdvec(&header).unwrap();
        for (at, byte, change) in changes {
            let at = at.index(written.len());
            match change {
                0 => written[at] = byte,
                1 => written.insert(at, byte),
                2 => drop(written.remove(at)),
                _ => written[at..].fill(byte | 0x80),
            }
        }
        // A weight is a float of four such bytes: 0x3f and less are small positive ones.
        std::fs::write(&path, file(&written, &vec![fill & 0x3f; bytes as usize])).unwrap();
        check_file(&path)
    });
}

#[test]
fn checkpoint_of_any_header_is_refused_or_makes_a_memory() {
    checkpoints(Duration::ZERO);
}

#[test]
#[ignore = "long form of the test above"]
fn checkpoint_of_any_header_is_refused_or_makes_a_memory_for_long() {
    checkpoints(long());
}

#[test]
fn checkpoint_of_the_corpus_is_refused_or_makes_a_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(CORPUS).unwrap() {
        let path = folder.path().join(entry.as_ref().unwrap().file_name());
        std::fs::copy(entry.unwrap().path(), &path).unwrap();
        check_file(&path).unwrap();
        count += 1;
    }
    assert!(count > 0);
}

/// Numbers that share the bits which a table of rustc-hash looks at: multiplied by its constant, bits 38 to 55
/// are zero. Of three distances one leads from each such number to the next.
fn colliding(count: usize) -> Vec<u64> {
    let collides =
        |number: &u64| number.wrapping_mul(0xf135_7aea_2e62_a9c5) & ((1 << 56) - (1 << 38)) == 0;
    let first: Vec<u64> = (0..1 << 25).filter(collides).collect();
    let mut distances: Vec<u64> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable();
    distances.dedup();
    let next = |number: &u64| distances.iter().map(|distance| number + distance).find(collides);
    std::iter::successors(Some(0), next).take(count).collect()
}

/// A file of these episodes, whose entries are zeros.
fn file_of(episodes: Vec<Episode>) -> Vec<u8> {
    let spec = EntrySpec::new(small()).unwrap();
    let entries = episodes.iter().map(|episode| episode.length as usize).sum::<usize>();
    let header = Header {
        little_endian: true,
        fields: small(),
        max_step: entries.max(1) as u64,
        uuid: 7,
        next_serial: 1 << 40,
        totals: (0, 0),
        rng: [1; 4],
        settings: vec![Settings::new(1)],
        episodes,
        largest: 1.0,
        parts: Vec::new(),
    };
    let payload = vec![0; (spec.entry_size() + 8) * entries];
    file(&postcard::to_stdvec(&header).unwrap(), &payload)
}

/// An episode without values that has this many entries.
fn plain_episode(serial: u64, length: u32) -> Episode {
    Episode {
        serial,
        length,
        settings: 0,
        values: false,
        weights: false,
        bootstrap: None,
        final_state: false,
    }
}

#[test]
fn checkpoint_with_a_final_state_in_an_empty_episode_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    for length in [0, 1] {
        let episode = Episode { final_state: true, ..plain_episode(5, length) };
        std::fs::write(&path, file_of(vec![episode])).unwrap();
        assert_eq!(CheckpointFile::open(&path).is_ok(), length == 1, "{length} entries");
        check_file(&path).unwrap();
    }
}

#[test]
fn checkpoint_of_serial_numbers_chosen_to_collide_loads_like_any() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let count = 100_000;
    let seconds = |serials: &[u64]| {
        let episodes = serials.iter().map(|&serial| plain_episode(serial, 1)).collect();
        std::fs::write(&path, file_of(episodes)).unwrap();
        let begun = Instant::now();
        let memory = CheckpointFile::open(&path).unwrap().load(true).unwrap();
        assert_eq!(memory.num_episode(), count);
        begun.elapsed().as_secs_f64()
    };
    let plain = seconds(&(0..count as u64).collect::<Vec<_>>());
    let chosen = seconds(&colliding(count));
    // Where they do collide it is more than a hundred times as long.
    assert!(chosen < 10.0 * plain + 1.0, "{chosen} s, and {plain} s for plain ones");
}
