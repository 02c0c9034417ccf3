//! Draws of sequences against a plain list of episodes, and their promises one by one.

use cogrs::error::Error;
use cogrs::replay::checkpoint::{CheckpointFile, save};
use cogrs::replay::closing::CloseOptions;
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::sequence_priorities::SequenceErrors;
use cogrs::replay::sequence_window::{Border, SequenceShape};
use cogrs::spec::Field;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::checkpoint::load;
use crate::fixtures::{
    Columns, LARGE, SMALL, add_episode, bases, config, entries, new_memory, plain, set,
};
use crate::model::DIMS;
use crate::sequence_model::{RECURRENT, Sequenced};
use crate::sequence_window::shapes;

fn shape(length: usize, burn_in: usize, after: usize, period: usize) -> SequenceShape {
    SequenceShape { length, burn_in, after, period, border: Border::Clip }
}

type Codes = &'static [(Field, &'static str)];

fn codes() -> impl Strategy<Value = Codes> {
    const LZ4: Codes = &[(Field::State, "lz4")];
    const DELTA: Codes = &[(Field::State, "delta+zstd"), (Field::Info, "lz4")];
    select(&[&[], LZ4, DELTA][..])
}

type Added = (usize, usize, bool, Option<f64>);

fn added() -> impl Strategy<Value = Added> {
    let bootstrap = proptest::option::of(select(&[0.0, 2.5, -1.0][..]));
    (0..20_usize, 1..8_usize, any::<bool>(), bootstrap)
}

/// Draws sequences and compares their weights with those of the model.
fn draw(sequenced: &mut Sequenced, shape: &SequenceShape) {
    let weights = sequenced.weights(shape);
    let total: f64 = weights.values().sum();
    let result = sequenced.memory.draw_sequences(Sampler::Prioritized, 12, shape);
    let Ok(draws) = result else {
        assert!(total == 0.0 && matches!(result, Err(Error::TooFew(_))), "{result:?} of {total}");
        return;
    };
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-5 * other.abs();
    assert!(near(draws.total, total), "{} for {total}", draws.total);
    assert_eq!(draws.sampleable, weights.values().filter(|&&weight| weight > 0.0).count());
    for (at, sequence) in draws.sequences.iter().enumerate() {
        let weight = f64::from(draws.weights[at]);
        assert!(weight > 0.0 && near(weight, weights[&sequence.anchor]));
        assert!(near(draws.probabilities[at], weight / draws.total));
    }
    sequenced.check(&draws, shape);
    check_nstep(sequenced, &draws, shape);
    if draws.total > 1.0 {
        sequenced.update(&draws, shape);
    }
}

fn check_nstep(
    sequenced: &Sequenced,
    draws: &cogrs::replay::sequences::SequenceDraws,
    shape: &SequenceShape,
) {
    let size = draws.sequences.len() * draws.rows * DIMS;
    let (mut returns, mut discounts) = (vec![7; size * 4], vec![7; size * 4]);
    sequenced.memory.sequence_nstep(draws, &mut returns, &mut discounts);
    let returns: Vec<f32> = bytemuck::pod_collect_to_vec(&returns);
    let discounts: Vec<f32> = bytemuck::pod_collect_to_vec(&discounts);
    for (at, sequence) in draws.sequences.iter().enumerate() {
        let episode = &sequenced.episodes[&sequenced.serial_of(sequence.anchor)];
        let anchor = (sequence.anchor - episode.first_id) as usize;
        let steps =
            crate::sequence_window::naive_rows(shape, episode.length(), anchor, sequenced.period);
        for (row, step) in steps.into_iter().enumerate() {
            for dim in 0..DIMS {
                let cell = (at * draws.rows + row) * DIMS + dim;
                let learned = |&step: &usize| {
                    (anchor..anchor + shape.length).contains(&step) && step < episode.actions
                };
                let expected = step
                    .filter(learned)
                    .map_or((0.0, 0.0), |step| sequenced.nstep(episode, step, dim));
                let found = (f64::from(returns[cell]), f64::from(discounts[cell]));
                let near = |one: f64, other: f64| (one - other).abs() <= 1e-5 * (1.0 + other.abs());
                assert!(near(found.0, expected.0) && near(found.1, expected.1), "row {row}");
            }
        }
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn drawn_sequences_equal_those_of_a_list_of_episodes(
        state_size in select(&[SMALL, LARGE][..]),
        codes in codes(),
        capacity in 1..120_usize,
        period in 1..5_usize,
        numbers in (0.0..=1.0_f64, select(&[0.0, 0.5][..]), select(&[0.5, 1.0, 0.3][..]), 1..4_usize, 1..4_usize),
        added in vec(added(), 1..12),
        shapes in vec(shapes(6), 1..4),
    ) {
        let mut sequenced = Sequenced::compressed(state_size, capacity, period, codes);
        let (eta, epsilon, exponent, stack, multi_step) = numbers;
        sequenced.set_eta(eta, epsilon, exponent, stack);
        for (at, (actions, piece, last, bootstrap)) in added.into_iter().enumerate() {
            sequenced.add(actions, piece, last, bootstrap);
            // gamma and lambda of the model's errors are those of the close.
            set(&mut sequenced.memory, |settings| {
                settings.discount_factor = vec![0.9; DIMS];
                settings.multi_step = multi_step;
            });
            draw(&mut sequenced, &shapes[at / 3 % shapes.len()]);
            set(&mut sequenced.memory, |settings| settings.discount_factor = vec![1.0; DIMS]);
        }
    }
}

#[test]
fn late_reward_changes_the_weights_of_the_sequences_that_learn_from_it() {
    let wanted = shape(3, 0, 0, 2);
    let all = entries(12);
    let columns = Columns::new(&all);
    let weights = vec![1.0; 12];
    let mut late = new_memory(40);
    let mut early = new_memory(40);
    let first = late.add_episode(columns.rows(), &weights, &CloseOptions::default()).unwrap();
    late.draw_sequences(Sampler::Prioritized, 1, &wanted).unwrap();
    late.add_reward(first + 7, &[3.0, -1.0]).unwrap();
    let mut changed = entries(12);
    changed[7].reward[0] += 3.0;
    changed[7].reward[1] -= 1.0;
    let columns = Columns::new(&changed);
    early.add_episode(columns.rows(), &weights, &CloseOptions::default()).unwrap();
    // As many random numbers as of the other memory.
    early.draw_sequences(Sampler::Prioritized, 1, &wanted).unwrap();
    let drawn = [&mut late, &mut early]
        .map(|memory| memory.draw_sequences(Sampler::Prioritized, 50, &wanted).unwrap());
    assert_eq!(drawn[0].weights, drawn[1].weights);
    assert_eq!(drawn[0].total.to_bits(), drawn[1].total.to_bits());
}

#[test]
fn sequences_are_drawn_in_proportion_to_their_weights() {
    let mut memory = new_memory(100);
    let first = add_episode(&mut memory, 40);
    let wanted = shape(5, 2, 0, 5);
    memory.draw_sequences(Sampler::Prioritized, 1, &wanted).unwrap();
    let anchors: Vec<u64> = (0..8).map(|at| first + at * 5).collect();
    let priorities: Vec<f64> = (1..9).map(f64::from).collect();
    memory.update_sequence_priority(&anchors, &priorities, PriorityKind::Weight).unwrap();
    let draws = memory.draw_sequences(Sampler::Prioritized, 36_000, &wanted).unwrap();
    assert_eq!(draws.total, 36.0);
    let mut counts = [0.0; 8];
    for sequence in &draws.sequences {
        counts[(sequence.anchor - first) as usize / 5] += 1.0;
    }
    let terms =
        counts.iter().zip(&priorities).map(|(count, p)| (count - p * 1e3).powi(2) / (p * 1e3));
    // Exceeded by 1 of 10,000 seeds with 7 degrees of freedom; this one is fixed.
    assert!(terms.sum::<f64>() < 29.9);
}

#[test]
fn update_of_sequences_that_are_gone_or_no_anchors_is_counted() {
    let mut memory = new_memory(20);
    let first = add_episode(&mut memory, 10);
    let ids = [first, first + 1, first + 500];
    let update = |memory: &mut cogrs::replay::memory::Memory, ids: &[u64], priority: f64| {
        memory.update_sequence_priority(ids, &vec![priority; ids.len()], PriorityKind::Error)
    };
    assert!(matches!(update(&mut memory, &ids, 1.0), Err(Error::State(_))));
    memory.draw_sequences(Sampler::Prioritized, 1, &shape(4, 0, 0, 4)).unwrap();
    assert_eq!(update(&mut memory, &ids, 4.0).unwrap(), 2);
    assert!(matches!(update(&mut memory, &ids, -1.0), Err(Error::Value { .. })));
    // The weight of the first anchor is now 2, those of 4 and 6 are 1.
    assert_eq!(
        memory.draw_sequences(Sampler::Prioritized, 1, &shape(4, 3, 9, 4)).unwrap().total,
        4.0
    );
    // Another length makes the anchors anew.
    assert_eq!(
        memory.draw_sequences(Sampler::Prioritized, 1, &shape(5, 3, 9, 4)).unwrap().total,
        3.0
    );
}

#[test]
fn row_of_errors_without_a_step_that_counts_leaves_the_weight() {
    let mut memory = new_memory(20);
    let first = add_episode(&mut memory, 8);
    memory.draw_sequences(Sampler::Prioritized, 1, &shape(4, 0, 0, 4)).unwrap();
    let mask = [false, false, false, false, true, false, true, false];
    let errors = [9.0, 9.0, 9.0, 9.0, 4.0, f64::NAN, 4.0, -1.0];
    let given = SequenceErrors { errors: &errors, steps: 4, mask: Some(&mask) };
    assert_eq!(memory.update_sequence_errors(&[first, first + 4], given).unwrap(), 0);
    assert_eq!(
        memory.draw_sequences(Sampler::Prioritized, 1, &shape(4, 0, 0, 4)).unwrap().total,
        3.0
    );
    let bad = SequenceErrors { mask: None, ..given };
    let refused = memory.update_sequence_errors(&[first, first + 4], bad);
    assert!(matches!(refused, Err(Error::Value { .. })));
    let narrow = SequenceErrors { errors: &errors, steps: 8, mask: None };
    assert!(memory.update_sequence_errors(&[first], narrow).is_err());
}

#[test]
fn sequences_of_episodes_that_are_too_short_name_the_length_that_is_needed() {
    let mut memory = new_memory(20);
    let dropped = SequenceShape { border: Border::Drop, ..shape(4, 5, 2, 1) };
    let why = |memory: &mut cogrs::replay::memory::Memory, shape: &SequenceShape| {
        memory.draw_sequences(Sampler::Prioritized, 1, shape).unwrap_err().to_string()
    };
    assert!(why(&mut memory, &dropped).contains("no episode has been closed yet"));
    add_episode(&mut memory, 10);
    let text = why(&mut memory, &dropped);
    assert!(text.contains("at least 11 entries, the longest has 10"), "{text}");
    add_episode(&mut memory, 10);
    let serial = memory.open();
    memory.add(serial, Columns::new(&entries(10)).rows(), &[0.0; 10]).unwrap();
    memory.clear();
    memory.add_episode(Columns::new(&entries(5)).rows(), &[0.0; 5], &plain()).unwrap();
    assert!(why(&mut memory, &shape(2, 0, 0, 1)).contains("all weights are 0"));
}

#[test]
fn entry_without_the_recurrent_state_that_is_stored_before_it_is_refused() {
    let mut sequenced = Sequenced::new(SMALL, 20, 3);
    let memory = &mut sequenced.memory;
    let serial = memory.open();
    let all = entries(4);
    let add = |memory: &mut cogrs::replay::memory::Memory, count: usize, states: Option<&[u8]>| {
        let columns = Columns::new(&all[..count]);
        memory.add_with(serial, columns.rows(), states, &bases(&all[..count]))
    };
    // Step 0 has the template's value, and steps 1 and 2 have none.
    add(memory, 3, None).unwrap();
    let text = add(memory, 1, None).unwrap_err().to_string();
    assert_eq!(text, "recurrent: expected the recurrent state before step 3, got nothing or None");
    assert_eq!(memory.num_entry(), 3);
    add(memory, 1, Some(&[1; RECURRENT])).unwrap();
    let text = memory.add_episode(Columns::new(&all).rows(), &bases(&all), &plain()).unwrap_err();
    assert!(text.to_string().contains("before step 3"));
    assert_eq!(memory.num_episode(), 0);
}

#[test]
fn memory_without_recurrent_states_takes_none() {
    let memory = new_memory(10);
    assert_eq!(memory.recurrent_period(), 1);
    assert!(memory.recurrent_spec().is_none());
    let with = Sequenced::new(SMALL, 10, 2);
    assert!(with.memory.nbytes() > memory.nbytes());
    assert_eq!(with.memory.spec()[Field::State], memory.spec()[Field::State]);
}

#[test]
fn loaded_memory_has_the_recurrent_states_and_the_priorities_of_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let wanted = shape(3, 4, 1, 2);
    for period in [1, 3] {
        let mut sequenced = Sequenced::new(SMALL, 60, period);
        set(&mut sequenced.memory, |settings| settings.max_times_sampled = 3);
        for (actions, last) in
            [(9, true), (0, false), (14, false), (1, true), (30, true), (12, false)]
        {
            sequenced.add(actions, 5, last, Some(1.0));
        }
        sequenced.weights(&wanted);
        let draws = sequenced.memory.draw_sequences(Sampler::Fifo, 4, &wanted).unwrap();
        sequenced.update(&draws, &wanted);
        save(&sequenced.memory, 1, &path).unwrap();
        let mut loaded = load(&path).unwrap();
        let mut found = Vec::new();
        for memory in [&mut sequenced.memory, &mut loaded] {
            let draws = memory.draw_sequences(Sampler::Fifo, 5, &wanted).unwrap();
            let mut recurrent = vec![0; 5 * RECURRENT];
            memory.gather_recurrent(&draws, &mut recurrent);
            let ids: Vec<u64> = memory.sequence_ids(&draws).collect();
            found.push((draws.weights, draws.total.to_bits(), recurrent, ids));
        }
        assert_eq!(found[0], found[1]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(CheckpointFile::open(&path).is_err());
    }
}

#[test]
fn sequence_is_given_at_most_max_times_sampled_times() {
    let mut memory = new_memory(40);
    set(&mut memory, |settings| settings.max_times_sampled = 1);
    let first = add_episode(&mut memory, 12);
    let wanted = shape(4, 0, 0, 4);
    let draws = memory.draw_sequences(Sampler::Fifo, 2, &wanted).unwrap();
    let anchors: Vec<u64> = draws.sequences.iter().map(|sequence| sequence.anchor).collect();
    assert_eq!(anchors, [first, first + 4]);
    let text = memory.draw_sequences(Sampler::Fifo, 2, &wanted).unwrap_err().to_string();
    assert_eq!(text, "too few sequences for sampler='fifo': need 2, have 1");
    memory.draw_sequences(Sampler::Uniform, 1, &wanted).unwrap();
    let text = memory.draw_sequences(Sampler::Uniform, 1, &wanted).unwrap_err().to_string();
    assert!(text.contains("max_times_sampled=1"), "{text}");
    let second = add_episode(&mut memory, 4);
    let draws = memory.draw_sequences(Sampler::Lifo, 1, &wanted).unwrap();
    assert_eq!(draws.sequences[0].anchor, second);
}

#[test]
fn each_sampler_draws_anchors_with_its_own_probabilities() {
    let mut memory = new_memory(40);
    let first = add_episode(&mut memory, 12);
    let wanted = shape(4, 0, 0, 4);
    memory.draw_sequences(Sampler::Uniform, 1, &wanted).unwrap();
    let ids = [first, first + 4, first + 8];
    memory.update_sequence_priority(&ids, &[2.0, 0.0, 6.0], PriorityKind::Weight).unwrap();
    let mut drawn = |sampler, count| {
        let draws = memory.draw_sequences(sampler, count, &wanted).unwrap();
        let steps = draws.sequences.iter().map(|sequence| sequence.anchor - first);
        (steps.collect::<Vec<_>>(), draws.probabilities)
    };
    assert_eq!(drawn(Sampler::Highest, 3), (vec![8, 0, 4], vec![1.0; 3]));
    assert_eq!(drawn(Sampler::Lowest, 2), (vec![4, 0], vec![1.0; 2]));
    assert_eq!(drawn(Sampler::Uniform, 2).1, [1.0 / 3.0; 2]);
    // Each of the four parts of the sum has the probability of its sequence.
    assert_eq!(drawn(Sampler::Stratified, 4), (vec![0, 8, 8, 8], vec![0.25, 0.75, 0.75, 0.75]));
}

#[test]
fn priorities_of_sequences_outlast_another_frame_stack() {
    let mut memory = new_memory(40);
    let first = add_episode(&mut memory, 12);
    let wanted = shape(3, 0, 0, 2);
    memory.draw_sequences(Sampler::Prioritized, 1, &wanted).unwrap();
    // Anchors 0, 2, 4, 6, 8 and the last start, 9.
    let ids: Vec<u64> = [0, 2, 4, 6, 8, 9].map(|step| first + step).to_vec();
    let weights: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    memory.update_sequence_priority(&ids, &weights, PriorityKind::Weight).unwrap();
    for (frame_stack, sum) in [(1, 63.0), (4, 60.0), (2, 62.0), (1, 63.0)] {
        set(&mut memory, |settings| settings.frame_stack = frame_stack);
        let draws = memory.draw_sequences(Sampler::Prioritized, 9, &wanted).unwrap();
        assert_eq!(draws.total, sum, "frame_stack={frame_stack}");
        let hidden = ids.iter().take(6 - draws.drawable).copied();
        let anchors: Vec<u64> = draws.sequences.iter().map(|sequence| sequence.anchor).collect();
        assert!(hidden.into_iter().all(|id| !anchors.contains(&id)));
    }
    set(&mut memory, |settings| settings.frame_stack = 4);
    // Out of the borders it does not count as an anchor.
    assert_eq!(memory.update_sequence_priority(&ids[..1], &[9.0], PriorityKind::Weight), Ok(1));
}
