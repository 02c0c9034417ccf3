//! Memories with compressed fields: equal to the model, and within their bytes.

use cogrs::error::Error;
use cogrs::replay::checkpoint::save;
use cogrs::replay::compression::FrameStates;
use cogrs::replay::memory::Memory;
use cogrs::spec::Field;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::calls::calls;
use crate::checkpoint::{UUID, comes_back, place, refused};
use crate::fixtures::{
    Columns, LARGE, SMALL, compressed_memory, compression, config, gather, memory_of, plain, read,
    set, spec_with,
};
use crate::model::{DIMS, Entry};
use crate::pair::Pair;

/// Bytes of a state that repeats itself, so that it gets smaller alone too.
const REPEATED: usize = 700;

type Codes = Vec<(Field, &'static str)>;

fn codes() -> impl Strategy<Value = Codes> {
    let code = || select(&["lz4", "zstd:1", "delta+lz4", "delta+zstd"][..]);
    let of =
        |field, share| prop::option::weighted(share, code().prop_map(move |code| (field, code)));
    (code(), of(Field::Action, 0.2), of(Field::Info, 0.2)).prop_map(|(state, action, info)| {
        [Some((Field::State, state)), action, info].into_iter().flatten().collect()
    })
}

fn sizes() -> impl Strategy<Value = usize> {
    select(&[SMALL, LARGE, REPEATED][..])
}

fn pair(state_size: usize, codes: &[(Field, &str)], capacity: usize) -> Pair {
    let memory = compressed_memory(spec_with(state_size, &[DIMS]), codes, None, capacity);
    Pair::of(memory, state_size, capacity)
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn compressed_memory_equals_the_model_after_any_calls(
        state_size in sizes(),
        codes in codes(),
        capacity in prop_oneof![3 => 0..=40_usize, 1 => 64..=200_usize],
        calls in vec(calls(40), 0..120),
    ) {
        let mut pair = pair(state_size, &codes, capacity);
        for call in calls {
            pair.make(call);
        }
    }

    #[test]
    fn loaded_compressed_memory_equals_the_saved_one_and_continues(
        state_size in sizes(),
        codes in codes(),
        capacity in 0..=40_usize,
        parts in vec(vec(calls(12), 0..60), 1..4),
    ) {
        comes_back(pair(state_size, &codes, capacity), parts);
    }

    #[test]
    fn compressed_file_that_is_cut_or_changed_is_refused(
        codes in codes(),
        calls in vec(calls(12), 10..60),
        cuts in vec(any::<Index>(), 10),
        flips in vec((any::<Index>(), 1..=u8::MAX), 10),
    ) {
        let (_folder, path) = place();
        let mut pair = pair(REPEATED, &codes, 40);
        for call in calls {
            pair.make(call);
        }
        save(pair.memory(), UUID, &path).unwrap();
        let mut whole = std::fs::read(&path).unwrap();
        for cut in cuts {
            let cut = cut.index(whole.len());
            prop_assert!(refused(&whole[..cut], &path), "cut at {} of {}", cut, whole.len());
        }
        for (at, flip) in flips {
            let at = at.index(whole.len());
            whole[at] ^= flip;
            prop_assert!(refused(&whole, &path), "byte {} of {}", at, whole.len());
            whole[at] ^= flip;
        }
    }
}

/// Entries whose states stay alike for a while.
fn scenes(count: usize) -> Vec<Entry> {
    let of = |number| {
        let mut entry = Entry::numbered(number / 20, REPEATED);
        entry.state[number as usize % 100] ^= 1;
        entry.action = number as i64;
        entry.base = 1.0;
        entry
    };
    (0..count as u64).map(of).collect()
}

fn memories(codes: &[(Field, &str)]) -> [Memory; 2] {
    let spec = spec_with(REPEATED, &[DIMS]);
    [memory_of(spec.clone(), 500, 500), compressed_memory(spec, codes, None, 500)]
}

fn fields_of_draws(memory: &mut Memory, rows: usize) -> Vec<Vec<u8>> {
    let draws = memory.draw(rows).unwrap();
    let stack = memory.settings().frame_stack;
    let size =
        |field| memory.spec()[field].nbytes() * if field == Field::State { stack } else { 1 };
    let mut parts: Vec<Vec<u8>> =
        (0..14).map(|at| vec![0xEE; rows * size(Field::ALL[at % 7])]).collect();
    // A field that is left out.
    parts[Field::Info.index()].clear();
    let mut out: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    memory.gather_all(&draws, &mut out);
    parts
}

#[test]
fn batches_of_a_compressed_memory_are_those_of_a_plain_one() {
    for code in ["lz4", "zstd", "delta+lz4", "delta+zstd:1"] {
        let mut memories = memories(&[(Field::State, code), (Field::Info, "lz4")]);
        for memory in &mut memories {
            set(memory, |settings| (settings.frame_stack, settings.multi_step) = (4, 3));
            for length in [100, 30, 300, 200, 7] {
                let entries = scenes(length);
                let weights = vec![1.0; length];
                memory.add_episode(Columns::new(&entries).rows(), &weights, &plain()).unwrap();
            }
        }
        let [mut plain, mut compressed] = memories;
        for rows in [1, 64, 65, 500] {
            assert_eq!(
                fields_of_draws(&mut compressed, rows),
                fields_of_draws(&mut plain, rows),
                "{rows} rows of {code}"
            );
        }
    }
}

#[test]
fn differences_between_alike_frames_take_less_than_the_frames() {
    let taken = |code| {
        let [_, mut memory] = memories(&[(Field::State, code)]);
        let entries = scenes(400);
        memory.add_episode(Columns::new(&entries).rows(), &[1.0; 400], &plain()).unwrap();
        memory.compressed_use()[0].1
    };
    let (lz4, delta) = (taken("lz4"), taken("delta+lz4"));
    assert_eq!((lz4.values, lz4.raw_bytes), (400, 400 * REPEATED as u64));
    assert!(lz4.bytes < lz4.raw_bytes / 2);
    assert!(delta.bytes < lz4.bytes / 2, "{} and {}", delta.bytes, lz4.bytes);
}

/// A memory whose states do not get smaller, with room for so many.
fn bounded(entries: u64) -> Memory {
    let spec = spec_with(LARGE, &[DIMS]);
    let bytes = (LARGE as u64 + 8) * entries;
    compressed_memory(spec, &[(Field::State, "lz4")], Some(bytes), 1000)
}

fn added(memory: &mut Memory, count: usize) -> Result<u64, Error> {
    let entries: Vec<Entry> =
        (0..count as u64).map(|number| Entry::numbered(number, LARGE)).collect();
    memory.add_episode(Columns::new(&entries).rows(), &vec![1.0; count], &plain())
}

#[test]
fn oldest_episode_is_evicted_when_the_bytes_are_full() {
    let mut memory = bounded(100);
    for _ in 0..30 {
        added(&mut memory, 10).unwrap();
        let held: u64 = memory.compressed_use().iter().map(|(_, column)| column.bytes).sum();
        assert!(held <= (LARGE as u64 + 8) * 100);
    }
    assert_eq!((memory.num_episode(), memory.num_entry()), (10, 100));
    assert_eq!(memory.episode(0).unwrap().serial, 20);
}

#[test]
fn episode_larger_than_the_bytes_is_refused_and_changes_nothing() {
    let mut memory = bounded(100);
    added(&mut memory, 60).unwrap();
    let refusal = added(&mut memory, 110).unwrap_err();
    assert!(refusal.to_string().contains("max_bytes"), "{refusal}");
    assert_eq!((memory.num_episode(), memory.num_entry()), (1, 60));
    let serial = memory.open();
    let entries: Vec<Entry> = (0..90).map(|number| Entry::numbered(number, LARGE)).collect();
    let columns = Columns::new(&entries);
    memory.add(serial, columns.rows(), &[1.0; 90]).unwrap();
    assert_eq!(memory.num_entry(), 90);
    let held = memory.compressed_use();
    assert!(memory.add(serial, columns.rows(), &[1.0; 90]).is_err());
    assert_eq!((memory.num_entry(), memory.compressed_use()), (90, held));
    memory.close(serial, &plain()).unwrap();
    assert_eq!(read(&memory, 0, Field::State), columns.0[0]);
}

#[test]
fn limit_below_one_entry_is_refused() {
    let spec = spec_with(LARGE, &[DIMS]);
    let made = compression(&spec, &[(Field::State, "lz4")], Some(LARGE as u64));
    let refusal = Memory::with_parts(spec, made, None, None, 10, crate::fixtures::rng(1), true);
    assert!(matches!(refusal, Err(Error::Value { argument, .. }) if argument == "max_bytes"));
}

#[test]
fn only_fields_that_are_not_read_one_by_one_can_be_compressed() {
    let spec = spec_with(0, &[DIMS]);
    let mut made = compression(&spec, &[], None);
    for field in [Field::State, Field::Reward, Field::Prob, Field::Value, Field::Qvest] {
        let refusal = made.set(&spec, field, "lz4".parse().unwrap()).unwrap_err();
        assert!(refusal.to_string().starts_with("compress: expected "), "{refusal}");
    }
    assert!(made.is_empty());
}

#[test]
fn dropped_episodes_leave_no_bytes() {
    let [_, mut memory] = memories(&[(Field::State, "delta+lz4"), (Field::Action, "lz4")]);
    let entries = scenes(40);
    let columns = Columns::new(&entries);
    for _ in 0..3 {
        let serial = memory.open();
        memory.add(serial, columns.rows(), &[1.0; 40]).unwrap();
        memory.abort(serial).unwrap();
    }
    memory.add_episode(columns.rows(), &[1.0; 40], &plain()).unwrap();
    let serial = memory.open();
    memory.add(serial, columns.rows(), &[1.0; 40]).unwrap();
    memory.clear();
    for (_, column) in memory.compressed_use() {
        assert_eq!((column.values, column.bytes), (0, 0));
    }
}

#[test]
fn rows_that_were_encoded_for_another_state_of_the_episode_are_stored_right() {
    let codes = [(Field::State, "delta+lz4")];
    let spec = spec_with(REPEATED, &[DIMS]);
    let made = compression(&spec, &codes, None);
    let entries = scenes(30);
    let whole = Columns::new(&entries);
    let parts = [&entries[..10], &entries[10..12], &entries[12..]].map(Columns::new);
    let [_, mut memory] = memories(&codes);
    let serial = memory.open();
    let other = memory.open();
    let mut states: Vec<FrameStates> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let weights = vec![1.0; part.0[0].len() / REPEATED];
        // Of the episode as it is, of one that is new, and of another one.
        states.push(memory.frame_states(serial).unwrap());
        states.push(FrameStates::default());
        states.push(memory.frame_states(other).unwrap());
        let encoded = made.encode(&spec, part.rows(), states.swap_remove(at));
        memory.add_encoded(serial, part.rows(), Some(encoded), None, &weights).unwrap();
        states.clear();
    }
    memory.close(serial, &plain()).unwrap();
    assert_eq!(read(&memory, 0, Field::State), whole.0[0]);
    assert_eq!(gather(&memory, Field::State, &[29, 0, 11, 29])[..REPEATED], entries[29].state);
}

#[test]
fn expected_bytes_follow_the_ratio_of_what_is_held() {
    let [plain, mut memory] = memories(&[(Field::State, "lz4")]);
    assert!(memory.nbytes() > plain.nbytes());
    for _ in 0..3 {
        let entries = scenes(100);
        memory
            .add_episode(Columns::new(&entries).rows(), &[1.0; 100], &crate::fixtures::plain())
            .unwrap();
    }
    assert!(memory.nbytes() < plain.nbytes(), "{} and {}", memory.nbytes(), plain.nbytes());
    add_episode_of_noise(&mut memory);
    memory.clear();
    assert!(memory.nbytes() > plain.nbytes());
}

fn add_episode_of_noise(memory: &mut Memory) {
    let entries: Vec<Entry> = (0..5).map(|number| Entry::numbered(number, REPEATED)).collect();
    memory.add_episode(Columns::new(&entries).rows(), &[1.0; 5], &plain()).unwrap();
}
