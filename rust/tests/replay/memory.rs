//! The memory against a plain model of it, and its promises one by one.

use cogrs::error::{Error, short};
use cogrs::replay::closing::{CloseOptions, FinalEntry};
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::memory::Memory;
use cogrs::spec::Field;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::calls::{Call, calls};
use crate::fixtures::{
    Columns, LARGE, SMALL, add, add_episode, config, entries, gather, ids, memory_of, new_memory,
    plain, set, spec_with,
};
use crate::model::DIMS;
use crate::pair::Pair;

fn behaves_as_the_model(state_size: usize, capacity: usize, calls: Vec<Call>) {
    let mut pair = Pair::new(state_size, capacity);
    for call in calls {
        pair.make(call);
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn memory_equals_the_model_after_any_calls(capacity in 0..=40_usize, calls in vec(calls(12), 0..120)) {
        behaves_as_the_model(SMALL, capacity, calls);
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn memory_with_large_states_equals_the_model_after_any_calls(
        capacity in 0..=40_usize,
        calls in vec(calls(12), 0..120),
    ) {
        behaves_as_the_model(LARGE, capacity, calls);
    }

    #[test]
    fn memory_with_reserved_slots_equals_the_model_after_any_calls(
        capacity in 64..=300_usize,
        calls in vec(calls(90), 0..120),
    ) {
        behaves_as_the_model(SMALL, capacity, calls);
    }
}

proptest! {
    #![proptest_config(config(5000))]

    #[test]
    #[ignore = "long form of the tests above"]
    fn memory_of_any_capacity_equals_the_model_after_any_calls(
        state_size in select(&[0, SMALL, LARGE][..]),
        capacity in prop_oneof![0..=40_usize, 64..=300_usize],
        calls in vec(calls(60), 0..250),
    ) {
        behaves_as_the_model(state_size, capacity, calls);
    }
}

#[test]
fn concurrent_writers_fill_every_slot_before_one_is_refused() {
    for capacity in [0, 1, 2, 63, 64, 65, 129, 300] {
        for writers in [1, 2, 3, 7, 64] {
            let mut memory = new_memory(capacity);
            let serials: Vec<u64> = (0..writers).map(|_| memory.open()).collect();
            for turn in 0..capacity {
                add(&mut memory, serials[turn % writers], 1).unwrap();
            }
            assert_eq!(memory.num_entry(), capacity);
            assert!(serials.iter().all(|&serial| add(&mut memory, serial, 1).is_err()));
        }
    }
}

#[test]
fn slots_of_closed_and_aborted_episodes_are_all_reused() {
    let capacity = 200;
    let mut memory = new_memory(capacity);
    for round in 0..50_usize {
        let serials: Vec<u64> = (0..5).map(|_| memory.open()).collect();
        for turn in 0..capacity {
            add(&mut memory, serials[(turn * turn + round) % 5], 1).unwrap();
        }
        assert_eq!(memory.num_entry(), capacity);
        for (at, serial) in serials.into_iter().enumerate() {
            if (at + round) % 3 == 0 {
                memory.abort(serial).unwrap();
            } else {
                memory.close(serial, &plain()).unwrap();
            }
        }
    }
}

#[test]
fn concurrent_writers_leave_each_episode_in_few_pieces() {
    let mut memory = new_memory(1280);
    let serials: Vec<u64> = (0..4).map(|_| memory.open()).collect();
    for turn in 0..1280 {
        add(&mut memory, serials[turn % 4], 1).unwrap();
    }
    for (at, &serial) in serials.iter().enumerate() {
        memory.close(serial, &plain()).unwrap();
        assert!(memory.episode(at).unwrap().extents().len() <= 320 / 64);
    }
}

#[test]
fn frame_stack_skips_a_slot_of_another_episode_between_its_own() {
    let mut memory = new_memory(5);
    let serials: Vec<u64> = (0..5).map(|_| memory.open()).collect();
    for &serial in &serials {
        add(&mut memory, serial, 1).unwrap();
    }
    for at in [3, 2, 1] {
        memory.abort(serials[at]).unwrap();
    }
    // Its entries now lie in slots 0, 3, 2 and 4, around the last writer's in 1.
    let all = entries(4);
    let rest = Columns::new(&all[1..]);
    memory.add(serials[0], rest.rows(), &[1.0; 3]).unwrap();
    memory.close(serials[0], &plain()).unwrap();
    set(&mut memory, |settings| settings.frame_stack = 3);
    let draws = memory.draw(1).unwrap();
    let stack = |steps: std::ops::Range<usize>| -> Vec<u8> {
        all[steps].iter().flat_map(|entry| entry.state.clone()).collect()
    };
    assert_eq!(gather(&memory, Field::State, &draws.prev), stack(0..3));
    assert_eq!(gather(&memory, Field::State, &draws.next), stack(1..4));
}

#[test]
fn ids_continue_after_clear() {
    let mut memory = new_memory(8);
    let before = add_episode(&mut memory, 3);
    memory.clear();
    assert!(add_episode(&mut memory, 3) > before + 2);
    assert_eq!(memory.update_priority(&[before], &[1.0], PriorityKind::Error), Ok(1));
}

#[test]
fn ids_of_an_episode_are_consecutive_when_writers_alternate() {
    let mut memory = new_memory(30);
    let (one, two) = (memory.open(), memory.open());
    let first = add(&mut memory, one, 2).unwrap();
    for step in 1..5 {
        add(&mut memory, two, 3).unwrap();
        assert_eq!(add(&mut memory, one, 2), Ok(first + 2 * step));
    }
}

#[test]
fn episode_closed_first_is_evicted_first() {
    let mut memory = new_memory(6);
    let (opened_first, closed_first) = (memory.open(), memory.open());
    add(&mut memory, opened_first, 3).unwrap();
    add(&mut memory, closed_first, 3).unwrap();
    memory.close(closed_first, &plain()).unwrap();
    memory.close(opened_first, &plain()).unwrap();
    add_episode(&mut memory, 1);
    assert_eq!(memory.episode(0).unwrap().serial, opened_first);
}

#[test]
fn refused_add_evicts_nothing() {
    let mut memory = new_memory(6);
    add_episode(&mut memory, 3);
    let serial = memory.open();
    add(&mut memory, serial, 2).unwrap();
    assert!(matches!(add(&mut memory, serial, 5), Err(Error::State(_))));
    assert_eq!((memory.num_entry(), memory.num_episode(), memory.num_sampleable()), (5, 1, 2));
}

#[test]
fn invalid_reward_or_weight_is_refused_with_its_step() {
    let mut memory = new_memory(8);
    let serial = memory.open();
    add(&mut memory, serial, 2).unwrap();
    let mut refused = |reward, weight| {
        let mut entries = entries(2);
        entries[1].reward[0] = reward;
        let rows = Columns::new(&entries);
        let error = memory.add(serial, rows.rows(), &[1.0, weight]).unwrap_err();
        assert_eq!(memory.num_entry(), 2);
        error.to_string()
    };
    for weight in [-1.0, -1e-60, f64::NAN, f64::INFINITY, 1e39] {
        assert!(refused(0.0, weight).contains(&format!("got {} at step 3", short(weight))));
    }
    for reward in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(refused(reward, 1.0).contains(&format!("got {reward} at step 3")));
    }
}

#[test]
fn open_episode_that_fills_the_memory_can_be_closed_and_sampled() {
    let mut memory = new_memory(4);
    let serial = memory.open();
    add(&mut memory, serial, 4).unwrap();
    assert!(matches!(add(&mut memory, serial, 1), Err(Error::State(_))));
    memory.close(serial, &plain()).unwrap();
    assert_eq!(memory.draw(5).unwrap().prev.len(), 5);
}

#[test]
fn last_action_can_be_drawn_with_a_final_state() {
    for (bootstrap, terminated) in [(None, true), (Some(vec![8.0; DIMS]), false)] {
        let mut memory = new_memory(4);
        let last = Some(FinalEntry { state: &[7; SMALL], info: None });
        let closing = CloseOptions { bootstrap, final_entry: last, ..plain() };
        let columns = Columns::new(&entries(1));
        memory.add_episode(columns.rows(), &[1.0], &closing).unwrap();
        let draws = memory.draw(1).unwrap();
        assert_eq!(gather(&memory, Field::State, &draws.next), [7; SMALL]);
        assert_eq!(memory.terminated(&draws.next).collect::<Vec<_>>(), [terminated]);
        assert_eq!(memory.terminated(&draws.prev).collect::<Vec<_>>(), [false]);
    }
}

#[test]
fn weights_return_when_borders_are_restored() {
    let mut memory = new_memory(10);
    add_episode(&mut memory, 10);
    set(&mut memory, |settings| (settings.frame_stack, settings.multi_step) = (3, 4));
    assert_eq!(memory.num_sampleable(), 4);
    set(&mut memory, |settings| (settings.frame_stack, settings.multi_step) = (1, 1));
    assert_eq!((memory.num_sampleable(), memory.weight_sum()), (9, 9.0));
}

#[test]
fn close_without_values_refuses_returns_and_uses_initial_weights() {
    let mut memory = memory_of(spec_with(SMALL, &[0]), 4, 0);
    let mut columns = Columns::new(&entries(2));
    columns.0[Field::Value.index()].clear();
    let serial = memory.open();
    memory.add(serial, columns.rows(), &[2.0, 2.0]).unwrap();
    assert!(matches!(memory.close(serial, &plain()), Err(Error::State(_))));
    let closing = CloseOptions { values: false, ..plain() };
    memory.close(serial, &closing).unwrap();
    assert_eq!((memory.num_sampleable(), memory.weight_sum()), (1, 2.0));
}

#[test]
fn draw_without_sampleable_entries_says_why() {
    let why = |memory: &mut Memory| memory.draw(1).unwrap_err().to_string();
    let mut memory = new_memory(8);
    let serial = memory.open();
    add(&mut memory, serial, 2).unwrap();
    assert!(why(&mut memory).contains("no episode has been closed"));
    set(&mut memory, |settings| settings.multi_step = 2);
    memory.close(serial, &plain()).unwrap();
    assert!(why(&mut memory).contains("at least 3 entries, the longest has 2"));
    let first = add_episode(&mut memory, 3);
    memory.update_priority(&[first], &[0.0], PriorityKind::Error).unwrap();
    assert!(why(&mut memory).contains("all weights are 0"));
}

#[test]
fn equal_seeds_draw_equally() {
    let drawn = |seed| {
        let mut memory = memory_of(spec_with(SMALL, &[DIMS]), 64, seed);
        add_episode(&mut memory, 64);
        let rows = memory.draw(32).unwrap().prev;
        ids(&memory, &rows)
    };
    assert_eq!(drawn(3), drawn(3));
    assert_ne!(drawn(3), drawn(4));
}

#[test]
fn transitions_are_drawn_in_proportion_to_their_weights() {
    const DRAWS: usize = 100_000;
    /// Chi-square with 49 degrees of freedom is above this once in a million seeds.
    const LIMIT: f64 = 111.14;
    let mut memory = new_memory(51);
    let columns = Columns::new(&entries(51));
    let weights: Vec<f64> = (0..51_u8).map(|step| f64::from(1 + step % 7)).collect();
    let first = memory.add_episode(columns.rows(), &weights, &plain()).unwrap();
    let rows = memory.draw(DRAWS).unwrap().prev;
    let mut counts = [0.0; 50];
    for id in memory.ids(&rows) {
        counts[(id - first) as usize] += 1.0;
    }
    let total: f64 = weights[..50].iter().sum();
    let expected = weights.iter().map(|weight| weight / total * DRAWS as f64);
    let terms = counts.iter().zip(expected).map(|(n, expected)| (n - expected).powi(2) / expected);
    let statistic: f64 = terms.sum();
    assert!(statistic < LIMIT, "chi-square is {statistic}");
}
