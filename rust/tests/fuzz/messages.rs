//! Caches and descriptions that others send.

use std::time::{Duration, Instant};

use cogrs::collector::batch::Batch;
use cogrs::collector::description::{Collector, Input, Reply};
use cogrs::error::Error;
use cogrs::replay::cache::{Cache, CacheShape, Labels};
use cogrs::replay::cache_store::CacheStore;
use cogrs::replay::settings::{FLAGS, Settings};
use cogrs::spec::EntrySpec;
use proptest::collection::vec;
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::inputs::{field, fields, float, size};
use crate::{MOST, fuzz, long};

fn caches(time: Duration) {
    let labels = any::<[bool; 3]>();
    let frames = prop_oneof![Just(None), vec(vec(any::<u8>(), 0..40), 0..5).prop_map(Some),];
    let shape = (fields(), labels, any::<[bool; FLAGS]>(), size(), any::<bool>());
    let claimed = (size(), float(), frames, any::<u8>(), any::<bool>());
    fuzz(&(shape, claimed), time, |(shape, (rows, weight_sum, frames, fill, packed))| {
        let (fields, [ids, senders, nstep], cache_flags, frame_stack, _) = shape;
        let Ok(spec) = EntrySpec::new(fields) else { return Ok(()) };
        let settings = Settings { cache_flags, frame_stack, ..Settings::new(spec.reward_dims()) };
        let shape = CacheShape::new(&spec, &settings, Labels { ids, senders, nstep });
        let frames = frames.unwrap_or_else(|| fitting(&shape, rows, fill & 0x3f, packed));
        match Cache::new(&shape, rows, weight_sum, frames) {
            Err(error) => prop_assert!(matches!(error, Error::Value { .. }), "{}", error),
            Ok(cache) => {
                let mut store = CacheStore::new(2, shape, Xoshiro256PlusPlus::seed_from_u64(1));
                store.push(cache, 1, Instant::now());
                let taken = store.take(1, false);
                prop_assert!(matches!(taken, Ok(_) | Err(Error::State(_))));
            }
        }
        Ok(())
    });
}

/// Frames that have the sizes of a shape, unless those are too large.
fn fitting(shape: &CacheShape, rows: usize, fill: u8, packed: bool) -> Vec<Vec<u8>> {
    let size = |row: usize| row.saturating_mul(rows).min(MOST as usize);
    let frames: Vec<Vec<u8>> = shape.sizes().iter().map(|&row| vec![fill; size(row)]).collect();
    if packed { vec![frames.concat()] } else { frames }
}

#[test]
fn cache_of_any_frames_is_refused_or_gives_samples() {
    caches(Duration::ZERO);
}

#[test]
#[ignore = "long form of the test above"]
fn cache_of_any_frames_is_refused_or_gives_samples_for_long() {
    caches(long());
}

fn tensors(time: Duration) {
    let input = (field(), size()).prop_map(|(field, stack)| Input {
        key: "s".into(),
        column: "s".into(),
        shifted: false,
        stack,
        field,
    });
    let reply = field().prop_map(|field| Reply { key: "a".into(), field });
    let parts = (vec(input, 0..4), proptest::option::of(vec(reply, 0..3)));
    let steps = prop_oneof![8 => 1..9_usize, 1 => 1..100_000_usize];
    fuzz(
        &(parts, size(), steps, 0..4_usize),
        time,
        |((inputs, replies), batch_size, steps, count)| {
            let described = inputs.iter().map(|input| &input.field);
            let mut described = described.chain(replies.iter().flatten().map(|reply| &reply.field));
            // The bindings check this before.
            if described.any(|field| field.checked_nbytes().is_none()) {
                return Ok(());
            }
            let collector = Collector {
                name: "c".into(),
                batch_size,
                steps,
                timeout: None,
                player: None,
                inputs,
                replies,
                block: false,
            };
            let row = collector.row_size();
            match collector.layout() {
                Err(error) => prop_assert!(matches!(error, Error::Memory(_)), "{}", error),
                Ok(layout) => {
                    if row.saturating_mul(batch_size as u128) > u128::from(MOST) {
                        return Ok(());
                    }
                    for batch in Batch::several(layout, count).unwrap() {
                        prop_assert!(batch.size() as u128 >= row * batch_size as u128);
                        (0..collector.arrays() as usize)
                            .for_each(|part| batch.zero(part, batch_size));
                    }
                }
            }
            Ok(())
        },
    );
}

#[test]
fn description_of_any_tensors_is_refused_or_makes_batches() {
    tensors(Duration::ZERO);
}

#[test]
#[ignore = "long form of the test above"]
fn description_of_any_tensors_is_refused_or_makes_batches_for_long() {
    tensors(long());
}
