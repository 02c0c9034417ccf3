//! The chances of each sampler, and what a limit of draws does to them. Chi-square tests have a seed, and would fail for one
//! seed in 10^4.

use cogrs::error::Error;
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::memory::Memory;
use cogrs::replay::sampler::Sampler;

use crate::fixtures::{Columns, add_episode, entries, ids, new_memory, plain, set};

/// Values that chi-square exceeds with probability 10^-4, by degrees of freedom.
const CRITICAL: [(usize, f64); 4] = [(3, 21.11), (4, 23.51), (5, 25.74), (11, 37.37)];

fn assert_fits(counts: &[usize], expected: &[f64]) {
    let pairs = counts.iter().zip(expected);
    let statistic: f64 = pairs.map(|(&got, want)| (got as f64 - want).powi(2) / want).sum();
    let critical = CRITICAL.iter().find(|(freedom, _)| *freedom + 1 == counts.len()).unwrap().1;
    assert!(statistic < critical, "{counts:?} where {expected:?} are expected: {statistic}");
}

/// A memory of one episode whose entries have these weights, one entry more than those.
fn memory_of(weights: &[f64]) -> (Memory, u64) {
    let mut memory = new_memory(64);
    let count = weights.len() + 1;
    let columns = Columns::new(&entries(count));
    let first = memory.add_episode(columns.rows(), &vec![1.0; count], &plain()).unwrap();
    let all: Vec<u64> = (first..).take(weights.len()).collect();
    memory.update_priority(&all, weights, PriorityKind::Weight).unwrap();
    (memory, first)
}

fn drawn(memory: &mut Memory, sampler: Sampler, count: usize) -> Vec<u64> {
    let draws = memory.draw_by(sampler, count).unwrap();
    ids(memory, &draws.prev)
}

#[test]
fn uniform_draws_are_alike_whatever_the_weights_are() {
    let (mut memory, first) = memory_of(&[0.0, 1.0, 0.0, 1000.0]);
    let mut counts = [0; 4];
    for id in drawn(&mut memory, Sampler::Uniform, 40_000) {
        counts[(id - first) as usize] += 1;
    }
    assert_fits(&counts, &[10_000.0; 4]);
}

#[test]
fn uniform_draws_are_alike_where_few_slots_are_drawable() {
    let mut memory = new_memory(4000);
    let first = add_episode(&mut memory, 5);
    let columns = Columns::new(&entries(3000));
    memory.add_episode(columns.rows(), &vec![0.0; 3000], &plain()).unwrap();
    assert_eq!(memory.num_drawable(), 4);
    let mut counts = [0; 4];
    for id in drawn(&mut memory, Sampler::Uniform, 40_000) {
        counts[(id - first) as usize] += 1;
    }
    assert_fits(&counts, &[10_000.0; 4]);
}

#[test]
fn stratified_draws_are_in_proportion_to_weights() {
    let (mut memory, first) = memory_of(&[1.0, 2.0, 3.0, 4.0]);
    let mut counts = [0; 4];
    for _ in 0..20_000 {
        counts[(drawn(&mut memory, Sampler::Stratified, 1)[0] - first) as usize] += 1;
    }
    assert_fits(&counts, &[2000.0, 4000.0, 6000.0, 8000.0]);
}

#[test]
fn pairs_under_a_limit_of_one_have_the_chances_of_draws_one_by_one() {
    let weights = [1.0, 2.0, 3.0, 4.0];
    let (mut pairs, mut expected) = (Vec::new(), Vec::new());
    for (one, w) in weights.iter().enumerate() {
        for (two, v) in weights.iter().enumerate().filter(|(two, _)| *two != one) {
            pairs.push((one as u64, two as u64));
            expected.push(20_000.0 * w / 10.0 * v / (10.0 - w));
        }
    }
    let (mut memory, first) = memory_of(&weights);
    let mut counts = vec![0; pairs.len()];
    for _ in 0..20_000 {
        set(&mut memory, |settings| settings.max_times_sampled = 1);
        let got = drawn(&mut memory, Sampler::Prioritized, 2);
        let pair = (got[0] - first, got[1] - first);
        counts[pairs.iter().position(|each| *each == pair).unwrap()] += 1;
        set(&mut memory, |settings| settings.max_times_sampled = 0);
    }
    assert_fits(&counts, &expected);
}

#[test]
fn batch_that_the_limit_does_not_allow_counts_nothing_and_names_both_numbers() {
    for sampler in [Sampler::Prioritized, Sampler::Stratified, Sampler::Uniform] {
        let (mut memory, _) = memory_of(&[1.0, 2.0, 3.0]);
        set(&mut memory, |settings| settings.max_times_sampled = 2);
        drawn(&mut memory, sampler, 1);
        for _ in 0..3 {
            let error = memory.draw_by(sampler, 6).unwrap_err();
            assert!(
                matches!(&error, Error::TooFew(text) if text.contains("need 6, have 5")),
                "{error}"
            );
        }
        let draws = memory.draw_by(sampler, 5).unwrap();
        assert_eq!(draws.times.iter().filter(|times| **times == 2).count(), 3);
        assert_eq!((memory.num_drawable(), memory.weight_sum()), (0, 0.0));
    }
}

#[test]
fn ordered_draws_need_as_many_entries_and_repeat_none() {
    for sampler in Sampler::ALL.into_iter().filter(|sampler| sampler.is_ordered()) {
        let (mut memory, first) = memory_of(&[5.0, 0.0, 5.0]);
        let order: Vec<u64> = drawn(&mut memory, sampler, 3).iter().map(|id| id - first).collect();
        assert_eq!(
            order,
            match sampler {
                Sampler::Fifo => [0, 1, 2],
                Sampler::Lifo => [2, 1, 0],
                Sampler::Highest => [0, 2, 1],
                _ => [1, 0, 2],
            }
        );
        let error = memory.draw_by(sampler, 4).unwrap_err();
        assert!(
            matches!(&error, Error::TooFew(text) if text.contains("need 4, have 3")),
            "{error}"
        );
    }
}

#[test]
fn queue_gives_each_entry_once_in_the_order_of_closing() {
    let mut memory = new_memory(40);
    set(&mut memory, |settings| {
        settings.sampler = Sampler::Fifo;
        settings.max_times_sampled = 1;
    });
    let (mut closed, mut given) = (Vec::new(), Vec::new());
    for length in (1..12).cycle().take(60) {
        let first = add_episode(&mut memory, length);
        closed.extend(first..first + length as u64 - 1);
        let count = memory.num_drawable();
        if count >= 8 {
            let draws = memory.draw(count).unwrap();
            given.extend(ids(&memory, &draws.prev));
        }
    }
    closed.truncate(given.len());
    assert!(given.len() > 200 && given == closed);
}

#[test]
fn entry_in_a_reused_slot_has_not_been_drawn() {
    let mut memory = new_memory(4);
    set(&mut memory, |settings| settings.max_times_sampled = 1);
    for _ in 0..10 {
        add_episode(&mut memory, 4);
        assert_eq!(memory.draw_by(Sampler::Uniform, 3).unwrap().times, [1; 3]);
    }
}
