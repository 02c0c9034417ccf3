//! A memory of a file, used as its owner would: everything works, or is refused with an error that says so.

use std::collections::HashSet;

use cogrs::error::{Error, Result};
use cogrs::replay::closing::{CloseOptions, FinalEntry};
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::memory::{Memory, WRITTEN};
use cogrs::replay::sampler::Sampler;
use cogrs::replay::sequence_priorities::SequenceErrors;
use cogrs::replay::sequences::{SequenceDraws, SequenceFlags};
use cogrs::replay::settings::Settings;
use cogrs::replay::transition::Draws;
use cogrs::replay::view::View;
use cogrs::spec::{FIELDS, Field};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::MOST;
use crate::saved_file::{limiter, settings, shape, view};
use crate::source::Source;

/// Entries of a memory that is small enough to be filled.
const SMALL: usize = 300;

/// Draws, corrects and writes.
pub fn use_memory(memory: &mut Memory, source: &mut Source) -> TestCaseResult {
    for sampler in Sampler::ALL {
        let count = 1 + source.below(4) as usize;
        let drawn = memory.draw_by(sampler, count);
        check_draws(memory, drawn, sampler, count, memory.settings().max_times_sampled)?;
    }
    use_views(memory, source)?;
    for _ in 0..3 {
        use_sequences(memory, source)?;
    }
    use_limiter(memory, source)?;
    if memory.max_step() <= SMALL {
        fill(memory, source)?;
    }
    check_sums(memory)?;
    let stays = settings(source, memory.spec().reward_dims());
    if stays.check().is_ok() {
        memory.set_settings(stays).unwrap();
    }
    memory.set_limiter(limiter(source, memory.max_step() as u64)).unwrap_or_default();
    check_sums(memory)
}

/// Draws that must come out alike of two memories that hold the same.
pub fn draw_alike(one: &mut Memory, other: &mut Memory, source: &mut Source) -> TestCaseResult {
    let ids = |memory: &mut Memory, sampler, count| {
        let drawn = memory.draw_by(sampler, count);
        drawn.map(|draws| (memory.ids(&draws.prev).collect::<Vec<_>>(), draws.weights, draws.times))
    };
    for sampler in Sampler::ALL {
        let count = 1 + source.below(4) as usize;
        prop_assert_eq!(told(ids(one, sampler, count)), told(ids(other, sampler, count)));
    }
    let names: Vec<String> = one.views().iter().map(|view| view.settings().name.clone()).collect();
    for name in names {
        let ids = |memory: &mut Memory| {
            let key = memory.view_of(&name).unwrap().key();
            let drawn = memory.draw_view(key, None, 2);
            drawn.map(|draws| (memory.ids(&draws.prev).collect::<Vec<_>>(), draws.weights))
        };
        prop_assert_eq!(told(ids(one)), told(ids(other)));
    }
    let (sampler, shape) = (source.pick(&Sampler::ALL), shape(source));
    let anchors = |memory: &mut Memory| {
        let draws = memory.draw_sequences(sampler, 3, &shape)?;
        let ids = draws.sequences.iter().map(|sequence| sequence.anchor);
        Ok((ids.collect::<Vec<_>>(), draws.weights))
    };
    prop_assert_eq!(told(anchors(one)), told(anchors(other)));
    prop_assert_eq!(one.limiter_counts(), other.limiter_counts());
    prop_assert_eq!(one.totals(), other.totals());
    Ok(())
}

fn told<T>(result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// What a draw may fail with.
fn check_too_few(error: &Error) -> TestCaseResult {
    prop_assert!(matches!(error, Error::TooFew(_)), "{}", error);
    Ok(())
}

/// What a correction or an episode may fail with.
fn check_refused(error: &Error) -> TestCaseResult {
    prop_assert!(matches!(error, Error::Value { .. } | Error::State(_)), "{}", error);
    Ok(())
}

fn check_draws(
    memory: &mut Memory,
    result: Result<Draws>,
    sampler: Sampler,
    count: usize,
    limit: u32,
) -> TestCaseResult {
    let draws = match result {
        Ok(draws) => draws,
        Err(error) => return check_too_few(&error),
    };
    prop_assert_eq!((draws.prev.len(), draws.next.len()), (count, count));
    prop_assert!(draws.probabilities().all(|chance| (0.0..=1.0).contains(&chance)));
    prop_assert!(draws.times.iter().all(|&times| (1..=limit).contains(&times)));
    let ids: Vec<u64> = memory.ids(&draws.prev).collect();
    if sampler.is_ordered() {
        prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len(), count);
    }
    if sampler.is_weighted() {
        prop_assert!(draws.weights.iter().all(|&weight| weight > 0.0));
    }
    prop_assert_eq!(memory.terminated(&draws.next).count(), count);
    let dims = memory.spec().reward_dims() * size_of::<f32>();
    let (mut returns, mut discounts) = (vec![0; count * dims], vec![0; count * dims]);
    memory.nstep(&draws, &mut returns, &mut discounts);
    let stack = memory.settings().frame_stack;
    if stack as u64 <= MOST / 1024 {
        let mut parts = Vec::new();
        for at in 0..2 * FIELDS {
            let field = Field::ALL[at % FIELDS];
            let frames = if field == Field::State { stack } else { 1 };
            parts.push(vec![0; count * frames * memory.spec()[field].nbytes()]);
        }
        let mut parts: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
        memory.gather_all(&draws, &mut parts);
    }
    Ok(())
}

fn use_views(memory: &mut Memory, source: &mut Source) -> TestCaseResult {
    if memory.views().len() < 5 {
        let at = 7 + source.below(3);
        let made = view(source, at);
        if let Err(error) = memory.add_view(made) {
            check_refused(&error)?;
        }
    }
    let keys: Vec<u64> = memory.views().iter().map(View::key).collect();
    for &key in &keys {
        let sampler = source.pick(&Sampler::ALL);
        let limit = memory.view(key).unwrap().settings().max_times_sampled;
        let drawn = memory.draw_view(key, Some(sampler), 2);
        check_draws(memory, drawn, sampler, 2, limit)?;
        let (ids, priorities, kind) = corrections(memory, source);
        if let Err(error) = memory.update_view(key, &ids, &priorities, kind) {
            check_refused(&error)?;
        }
    }
    if source.once_in(4) && !keys.is_empty() {
        memory.close_view(source.pick(&keys)).unwrap();
    }
    Ok(())
}

/// New priorities of a few entries, some of them gone.
fn corrections(memory: &mut Memory, source: &mut Source) -> (Vec<u64>, Vec<f64>, PriorityKind) {
    let count = 1 + source.below(5) as usize;
    let mut ids: Vec<u64> = match memory.draw_by(Sampler::Uniform, count) {
        Ok(draws) => memory.ids(&draws.prev).collect(),
        Err(_) => (0..count).map(|_| source.below(9)).collect(),
    };
    if source.once_in(8) {
        ids[0] = source.edge();
    }
    let priorities = ids.iter().map(|_| source.float()).collect();
    (ids, priorities, source.pick(&[PriorityKind::Error, PriorityKind::Weight]))
}

fn use_sequences(memory: &mut Memory, source: &mut Source) -> TestCaseResult {
    let shape = shape(source);
    let count = 1 + source.below(3) as usize;
    let draws = match memory.draw_sequences(source.pick(&Sampler::ALL), count, &shape) {
        Ok(draws) => draws,
        Err(error) if shape.check().is_err() => return check_refused(&error),
        Err(error) => return check_too_few(&error),
    };
    prop_assert_eq!(draws.sequences.len(), count);
    let stack = memory.settings().frame_stack;
    if draws.rows.saturating_mul(stack) as u64 <= MOST / 1024 {
        gather_sequences(memory, &draws);
    }
    let ids: Vec<u64> = draws.sequences.iter().map(|sequence| sequence.anchor).collect();
    let numbers: Vec<f64> = ids.iter().map(|_| source.float()).collect();
    let kind = source.pick(&[PriorityKind::Error, PriorityKind::Weight]);
    if let Err(error) = memory.update_sequence_priority(&ids, &numbers, kind) {
        check_refused(&error)?;
    }
    let steps = if source.once_in(2) { shape.length.min(9) } else { 1 + source.below(4) as usize };
    let errors: Vec<f64> = (0..steps * count).map(|_| source.float()).collect();
    let mask: Vec<bool> = errors.iter().map(|_| source.once_in(2)).collect();
    let mask = source.once_in(2).then_some(mask.as_slice());
    let given = SequenceErrors { errors: &errors, steps, mask };
    if let Err(error) = memory.update_sequence_errors(&ids, given) {
        check_refused(&error)?;
    }
    Ok(())
}

fn gather_sequences(memory: &Memory, draws: &SequenceDraws) {
    let (count, rows) = (draws.sequences.len(), draws.rows);
    let stack = memory.settings().frame_stack;
    let mut parts: [Vec<u8>; FIELDS] = Field::ALL.map(|field| {
        let frames = if field == Field::State { stack } else { 1 };
        vec![0; count * rows * frames * memory.spec()[field].nbytes()]
    });
    let mut slices: [&mut [u8]; FIELDS] = parts.each_mut().map(Vec::as_mut_slice);
    memory.gather_sequences(draws, &mut slices);
    let mut flags: [Vec<u8>; 5] = [(); 5].map(|()| vec![0; count * rows]);
    let [valid, learn, is_first, terminated, truncated] = flags.each_mut();
    memory.sequence_flags(
        draws,
        &mut SequenceFlags { valid, learn, is_first, terminated, truncated },
    );
    assert_eq!(memory.sequence_ids(draws).count(), count * rows);
    let state = memory.recurrent_spec().map_or(0, |spec| spec.initial.len());
    memory.gather_recurrent(draws, &mut vec![0; count * state]);
    let dims = memory.spec().reward_dims() * size_of::<f32>();
    let (mut returns, mut discounts) = (vec![0; count * rows * dims], vec![0; count * rows * dims]);
    memory.sequence_nstep(draws, &mut returns, &mut discounts);
}

fn use_limiter(memory: &mut Memory, source: &mut Source) -> TestCaseResult {
    let Some(limiter) = memory.limiter().copied() else { return Ok(()) };
    let n = 1 + source.below(9);
    memory.count_samples(n as usize);
    let counts = memory.limiter_counts().unwrap();
    prop_assert!(counts.removed <= counts.inserts);
    let allowed = limiter.may_sample(n, &counts);
    prop_assert_eq!(memory.sample_shortage(n as usize).is_none(), allowed);
    prop_assert!(!allowed || memory.check_min_size().is_ok());
    let may_insert = limiter.may_insert(1, &counts);
    prop_assert_eq!(memory.insert_shortage().is_none(), may_insert);
    if let Some(left) = limiter.inserts_left(&counts) {
        prop_assert_eq!(left > 0, may_insert);
    }
    Ok(())
}

/// Writes episodes until every slot has been taken anew.
fn fill(memory: &mut Memory, source: &mut Source) -> TestCaseResult {
    let most = memory.max_step().clamp(1, 40) as u64;
    let mut written = 0;
    for _ in 0..400 {
        if written > memory.max_step() {
            break;
        }
        let length = source.below(most) as usize + usize::from(source.once_in(2));
        written += length.max(1);
        write_episode(memory, source, length)?;
        if source.once_in(4) {
            let (ids, priorities, kind) = corrections(memory, source);
            if let Err(error) = memory.update_priority(&ids, &priorities, kind) {
                check_refused(&error)?;
            }
            let delta = vec![source.float() as f32; memory.spec().reward_dims()];
            if let Err(error) = memory.add_reward(ids[0], &delta) {
                check_refused(&error)?;
            }
        }
    }
    Ok(())
}

fn write_episode(memory: &mut Memory, source: &mut Source, length: usize) -> TestCaseResult {
    let spec = memory.spec().clone();
    let rows: Vec<Vec<u8>> = WRITTEN
        .map(|field| {
            let size = spec[field].nbytes() * length;
            match field {
                Field::Reward | Field::Prob | Field::Value => source.floats(size / 4),
                _ => source.bytes(size),
            }
        })
        .to_vec();
    let rows: [&[u8]; WRITTEN.len()] = std::array::from_fn(|at| rows[at].as_slice());
    let state = memory.recurrent_spec().map_or(0, |spec| spec.initial.len());
    let states = source.bytes(state * length);
    let weights: Vec<f64> = (0..length).map(|_| f64::from(source.weight())).collect();
    let values = spec.has_values() && !source.once_in(4);
    let last = source.bytes(spec[Field::State].nbytes());
    let options = CloseOptions {
        multiplier: source.pick(&[1.0, 0.5, 0.0]),
        values,
        weights: values && !source.once_in(4),
        bootstrap: source.once_in(3).then(|| vec![source.share(); spec.reward_dims()]),
        final_entry: source.once_in(3).then_some(FinalEntry { state: &last, info: None }),
    };
    if source.once_in(2) {
        let added = memory.add_episode_with(rows, Some(&states), &weights, &options);
        return added.map_or_else(|error| check_refused(&error), |_| Ok(()));
    }
    let serial = memory.open();
    let added = memory.add_with(serial, rows, Some(&states), &weights);
    let closed = added.and_then(|_| memory.close(serial, &options));
    if let Err(error) = closed {
        check_refused(&error)?;
        memory.abort(serial).unwrap();
    }
    Ok(())
}

/// The counts that draws rely on, against those of all entries one by one.
pub fn check_sums(memory: &Memory) -> TestCaseResult {
    let episodes: Vec<_> = memory.closed_episodes().collect();
    let held: usize = episodes.iter().map(|episode| episode.len()).sum();
    prop_assert_eq!((memory.num_episode(), memory.num_entry()), (episodes.len(), held));
    let weights = episodes.iter().flat_map(|episode| memory.read_weights(episode));
    let (mut sum, mut positive) = (0.0, 0);
    for weight in weights {
        sum += f64::from(weight);
        positive += usize::from(weight > 0.0);
    }
    prop_assert_eq!(memory.num_sampleable(), positive);
    prop_assert!(memory.num_drawable() >= positive);
    prop_assert!((memory.weight_sum() - sum).abs() <= 1e-6 * sum, "{}", sum);
    Ok(())
}

/// Settings that draw everything.
pub fn plain(memory: &Memory) -> Settings {
    Settings::new(memory.spec().reward_dims())
}
