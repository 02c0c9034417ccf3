//! Files of others.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use cogrs::error::Error;
use cogrs::replay::checkpoint::{CheckpointFile, save};
use cogrs::replay::checkpoint_load::LoadOptions;
use cogrs::replay::memory::Memory;
use cogrs::replay::rate_limiter::RateLimiter;
use cogrs::replay::restore::SettingsOf;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::Settings;
use cogrs::spec::EntrySpec;
use proptest::prelude::*;

use crate::inputs::small;
use crate::memory_use::{check_sums, draw_alike, plain, use_memory};
use crate::saved_file::{Episode, Header, any_file, file};
use crate::source::Source;
use crate::{fuzz, long};

/// Files that failed once, or that represent a kind of file.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fuzz/checkpoint");

/// Loads a file, and uses the memory as its owner would. Returns whether the file was accepted.
fn check_file(path: &Path, source: &mut Source) -> Result<bool, TestCaseError> {
    let refused = |error: &Error| {
        matches!(error, Error::Value { .. } | Error::Type { .. } | Error::Memory(_))
    };
    let open = |path: &Path| {
        CheckpointFile::open(path).and_then(|saved| saved.load(LoadOptions::default()))
    };
    let mut memory = match open(path) {
        Ok(memory) => memory,
        Err(error) => {
            prop_assert!(refused(&error), "{}", error);
            prop_assert!(error.to_string().len() < 100_000);
            return Ok(false);
        }
    };
    check_sums(&memory)?;
    let again = path.with_extension("again");
    save(&memory, 7, &again).unwrap();
    let mut reloaded = open(&again).unwrap();
    draw_alike(&mut memory, &mut reloaded, source)?;
    use_memory(&mut memory, source)?;
    save(&memory, 7, &again).unwrap();
    let mut reloaded = open(&again).unwrap();
    check_sums(&reloaded)?;
    // In order, since the slots of a ring that has gone round are others after loading.
    for sampler in [Sampler::Fifo, Sampler::Lifo, Sampler::Highest, Sampler::Lowest] {
        prop_assert_eq!(ids_of(&mut memory, sampler), ids_of(&mut reloaded, sampler));
    }
    memory.set_settings(plain(&memory)).unwrap();
    use_memory(&mut memory, source)?;
    let settings = source.pick(&[SettingsOf::File, SettingsOf::Memory, SettingsOf::Neither]);
    let saved = CheckpointFile::open(path).unwrap();
    if let Err(error) = memory.restore_from(saved, settings, false) {
        prop_assert!(refused(&error), "{}", error);
    }
    use_memory(&mut memory, source)?;
    memory.clear();
    prop_assert_eq!(memory.num_entry(), 0);
    Ok(true)
}

fn ids_of(memory: &mut Memory, sampler: Sampler) -> Result<Vec<u64>, String> {
    let drawn = memory.draw_by(sampler, 2).map_err(|error| error.to_string())?;
    Ok(memory.ids(&drawn.prev).collect())
}

/// Most files are accepted, or what comes after that is not tried.
fn checkpoints(time: Duration) {
    // A file that fails stays there.
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoint-{}", std::process::id()));
    let (tried, accepted) = (Cell::new(0_u64), Cell::new(0_u64));
    fuzz(&any::<u64>().no_shrink(), time, |seed| {
        let mut source = Source::new(seed);
        std::fs::write(&path, any_file(&mut source)).unwrap();
        source.odd = source.pick(&[0, 9]);
        let is_accepted = check_file(&path, &mut source)?;
        tried.set(tried.get() + 1);
        accepted.set(accepted.get() + u64::from(is_accepted));
        Ok(())
    });
    println!("{} of {} files were accepted", accepted.get(), tried.get());
    assert!(2 * accepted.get() > tried.get(), "{} of {}", accepted.get(), tried.get());
    std::fs::remove_file(path.with_extension("again")).unwrap();
    std::fs::remove_file(path).unwrap();
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
        check_file(&path, &mut Source::new(count)).unwrap();
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

/// A header of these episodes, and bytes for their entries, which are zeros.
fn header_of(episodes: Vec<Episode>) -> (Header, Vec<u8>) {
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
    (header, vec![0; (spec.entry_size() + 8) * entries])
}

/// A file of these episodes, whose entries are zeros.
fn file_of(episodes: Vec<Episode>) -> Vec<u8> {
    let (header, payload) = header_of(episodes);
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
        check_file(&path, &mut Source::new(1)).unwrap();
    }
}

/// Whether a file of two entries is accepted, with this change of its header.
fn is_accepted(change: impl FnOnce(&mut Header)) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let (mut header, payload) = header_of(vec![plain_episode(5, 2)]);
    change(&mut header);
    std::fs::write(&path, file(&postcard::to_stdvec(&header).unwrap(), &payload)).unwrap();
    check_file(&path, &mut Source::new(1)).unwrap()
}

#[test]
fn checkpoint_with_a_random_generator_of_zeros_is_refused() {
    assert!(is_accepted(|_| {}));
    assert!(!is_accepted(|header| header.rng = [0; 4]));
}

#[test]
fn checkpoint_with_fewer_inserts_than_entries_held_is_refused() {
    let limited = |inserts: u64| {
        let limiter = RateLimiter::min_size(1).unwrap();
        let part = postcard::to_stdvec(&(limiter, (inserts, 0_u64, 0_u64))).unwrap();
        is_accepted(|header| header.parts.push(("limiter".into(), part)))
    };
    assert!(limited(2));
    assert!(!limited(1));
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
        let memory = CheckpointFile::open(&path).unwrap().load(LoadOptions::default()).unwrap();
        assert_eq!(memory.num_episode(), count);
        begun.elapsed().as_secs_f64()
    };
    let plain = seconds(&(0..count as u64).collect::<Vec<_>>());
    let chosen = seconds(&colliding(count));
    // Where they do collide it is more than a hundred times as long.
    assert!(chosen < 10.0 * plain + 1.0, "{chosen} s, and {plain} s for plain ones");
}
