//! What a memory counts for its rate limiter, against a list of entries with the times that each was drawn.

use std::collections::HashMap;

use cogrs::error::Error;
use cogrs::replay::checkpoint::save;
use cogrs::replay::memory::Memory;
use cogrs::replay::rate_limiter::{ErrorBuffer, LimiterCounts, RateLimiter};
use cogrs::replay::sampler::Sampler;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::checkpoint::load;
use crate::fixtures::{add_episode, config, ids, new_memory, set};

#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    Draw(usize),
    Limit(u32),
    Clear,
    File,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6usize).prop_map(Step::Add),
        6 => (1..5usize).prop_map(Step::Draw),
        1 => (0..4u32).prop_map(Step::Limit),
        1 => Just(Step::Clear),
        1 => Just(Step::File),
    ];
    vec(step, 1..60)
}

fn counts(memory: &Memory) -> LimiterCounts {
    memory.limiter_counts().unwrap()
}

/// Entries with an action that are held and have been drawn less often than `limit`.
fn unused(memory: &Memory, drawn: &HashMap<u64, u32>, limit: u32) -> u64 {
    let ids = memory.closed_episodes().flat_map(|episode| {
        let first = memory.id(episode.serial, 0);
        first..first + episode.actions() as u64
    });
    let left = |id: &u64| limit == 0 || drawn.get(id).copied().unwrap_or(0) < limit;
    ids.filter(left).count() as u64
}

fn reloaded(memory: &Memory) -> Memory {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    save(memory, 0, &path).unwrap();
    load(&path).unwrap()
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn each_entry_is_inserted_and_removed_once(steps in steps(), limit in 0..3u32) {
        let mut memory = new_memory(12);
        memory.set_limiter(Some(RateLimiter::min_size(3).unwrap())).unwrap();
        set(&mut memory, |settings| settings.max_times_sampled = limit);
        let (mut limit, mut inserts, mut samples) = (limit, 0, 0);
        let mut drawn: HashMap<u64, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Add(count) => {
                    add_episode(&mut memory, count);
                    inserts += count as u64;
                }
                Step::Draw(count) => {
                    let Ok(draws) = memory.draw_by(Sampler::Uniform, count) else { continue };
                    memory.count_samples(count);
                    samples += count as u64;
                    for id in ids(&memory, &draws.prev).into_iter().filter(|_| limit > 0) {
                        *drawn.entry(id).or_default() += 1;
                    }
                }
                Step::Limit(other) => {
                    set(&mut memory, |settings| settings.max_times_sampled = other);
                    limit = other;
                    for times in drawn.values_mut() {
                        *times = (*times).min(limit);
                    }
                }
                Step::Clear => memory.clear(),
                Step::File => memory = reloaded(&memory),
            }
            let removed = inserts - unused(&memory, &drawn, limit);
            prop_assert_eq!(counts(&memory), LimiterCounts { inserts, samples, removed });
        }
    }
}

#[test]
fn memory_without_limiter_counts_nothing_and_refuses_nothing() {
    let mut memory = new_memory(8);
    add_episode(&mut memory, 3);
    memory.count_samples(5);
    assert_eq!(memory.limiter_counts(), None);
    assert_eq!((memory.sample_shortage(100), memory.insert_shortage()), (None, None));
    assert!(reloaded(&memory).limiter().is_none());
}

#[test]
fn limiter_set_later_counts_the_entries_held_as_inserts() {
    let mut memory = new_memory(8);
    for _ in 0..4 {
        add_episode(&mut memory, 3);
    }
    memory.set_limiter(Some(RateLimiter::queue(4).unwrap())).unwrap();
    assert_eq!(counts(&memory), LimiterCounts { inserts: 6, samples: 0, removed: 0 });
    add_episode(&mut memory, 1);
    assert_eq!(counts(&memory), LimiterCounts { inserts: 7, samples: 0, removed: 0 });
}

#[test]
fn another_limiter_goes_on_from_the_counts() {
    let mut memory = new_memory(8);
    memory.set_limiter(Some(RateLimiter::queue(4).unwrap())).unwrap();
    add_episode(&mut memory, 3);
    memory.count_samples(2);
    let before = counts(&memory);
    let other = RateLimiter::new(2.0, 1, ErrorBuffer::Around(9.0)).unwrap();
    memory.set_limiter(Some(other)).unwrap();
    assert_eq!((memory.limiter(), counts(&memory)), (Some(&other), before));
    memory.set_limiter(None).unwrap();
    assert_eq!(memory.limiter_counts(), None);
}

#[test]
fn min_size_above_max_step_is_refused() {
    let mut memory = new_memory(8);
    let error = memory.set_limiter(Some(RateLimiter::min_size(9).unwrap())).unwrap_err();
    assert!(matches!(error, Error::Value { .. }), "{error}");
    assert_eq!(memory.limiter(), None);
}

#[test]
fn checks_of_episodes_fail_as_their_inserts_would_and_change_nothing() {
    let mut memory = new_memory(5);
    let serial = memory.open();
    let options = crate::fixtures::plain();
    assert!(memory.check_close(serial, &options).is_ok());
    assert!(memory.is_open(serial));
    assert!(matches!(memory.check_close(serial + 1, &options), Err(Error::State(_))));
    let columns = crate::fixtures::Columns::new(&crate::fixtures::entries(5));
    let result = memory.check_episode(columns.rows(), None, &[1.0; 5], &options);
    assert!(result.is_ok());
    crate::fixtures::add(&mut memory, serial, 2).unwrap();
    assert_eq!(memory.open_len(serial), Ok(2));
    let result = memory.check_episode(columns.rows(), None, &[1.0; 5], &options);
    assert!(matches!(result, Err(Error::State(_))));
    assert_eq!((memory.num_episode(), memory.num_entry()), (0, 2));
}

#[test]
fn min_size_that_is_evicted_before_it_is_held_is_an_error_that_names_the_limits() {
    // Episodes of three entries: never ten at once in ten slots, nor with three episodes.
    for (capacity, max_episode, min_size) in [(10, 0, 10), (100, 3, 10)] {
        let mut memory = new_memory(capacity);
        set(&mut memory, |settings| settings.max_episode = max_episode);
        memory.set_limiter(Some(RateLimiter::min_size(min_size).unwrap())).unwrap();
        for _ in 0..3 {
            add_episode(&mut memory, 3);
            assert_eq!(memory.check_min_size(), Ok(()));
        }
        for _ in 0..9 {
            add_episode(&mut memory, 3);
        }
        let text = memory.check_min_size().unwrap_err().to_string();
        let limits = format!("max_step={capacity} and max_episode={max_episode}");
        assert!(text.starts_with("limiter: expected a min_size that is held"), "{text}");
        assert!(text.contains(&limits) && text.ends_with("got min_size=10"), "{text}");
        // Longer episodes hold it.
        add_episode(&mut memory, 10);
        assert_eq!(memory.check_min_size(), Ok(()));
        assert_eq!(memory.sample_shortage(1), None);
    }
}

#[test]
fn used_up_entries_are_not_evicted_too_early() {
    let mut memory = new_memory(33);
    memory.set_limiter(Some(RateLimiter::min_size(8).unwrap())).unwrap();
    set(&mut memory, |settings| settings.max_times_sampled = 1);
    for _ in 0..3 {
        add_episode(&mut memory, 10);
    }
    // By age each is drawn once, and then all are used up.
    memory.draw_by(Sampler::Fifo, memory.num_drawable()).unwrap();
    for _ in 0..6 {
        add_episode(&mut memory, 1);
        assert_eq!(memory.check_min_size(), Ok(()));
    }
}

#[test]
fn cleared_memory_counts_anew_what_is_evicted_too_early() {
    let mut memory = new_memory(10);
    memory.set_limiter(Some(RateLimiter::min_size(10).unwrap())).unwrap();
    for _ in 0..4 {
        for _ in 0..4 {
            add_episode(&mut memory, 3);
        }
        assert_eq!(memory.check_min_size(), Ok(()));
        memory.clear();
    }
}

#[test]
fn queue_is_told_as_it_was_made() {
    for size in [1, 300, 1 << 63] {
        let told = RateLimiter::queue(size).unwrap().to_string();
        assert_eq!(told, format!("RateLimiter.queue({size})"));
    }
}
