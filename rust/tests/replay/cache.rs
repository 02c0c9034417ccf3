//! Caches and the store of them, against a plain model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cogrs::error::Error;
use cogrs::replay::cache::{Cache, CacheShape, Labels};
use cogrs::replay::cache_store::CacheStore;
use cogrs::replay::sender_counters::CacheCounts;
use cogrs::replay::settings::Settings;
use cogrs::spec::{EntrySpec, FieldSpec};
use proptest::prelude::*;

use crate::fixtures::{config, rng};

fn settings(flags: &[bool]) -> Settings {
    let mut settings = Settings::new(1);
    settings.set_cache_flags(&[false; 14]).unwrap();
    settings.set_cache_flags(flags).unwrap();
    settings
}

fn spec() -> EntrySpec {
    let [byte, float, int] = [("|u1", 1), ("<f4", 4), ("<i8", 8)]
        .map(|(dtype, itemsize)| move |shape: &[usize]| FieldSpec::new(dtype, itemsize, shape));
    let floats = || float(&[]);
    let fields = [byte(&[8]), int(&[]), floats(), floats(), floats(), floats(), byte(&[0])];
    EntrySpec::new(fields).unwrap()
}

/// Weights, and prev's state of eight bytes.
fn shape() -> CacheShape {
    CacheShape::new(&spec(), &settings(&[true]), Labels::default())
}

/// Row `r` of cache `name` has the state (name, r).
fn columns(name: u32, rows: usize) -> Vec<Vec<u8>> {
    let weights = std::iter::repeat_n(1f32.to_le_bytes(), rows).flatten().collect();
    let state = |row: u32| [name.to_le_bytes(), row.to_le_bytes()].concat();
    vec![weights, (0..rows as u32).flat_map(state).collect()]
}

fn cache(name: u32, rows: usize, weight_sum: f64) -> Cache<Vec<u8>> {
    let columns = columns(name, rows);
    // Every other cache comes in one frame.
    let frames = if name.is_multiple_of(2) { vec![columns.concat()] } else { columns };
    Cache::new(&shape(), rows, weight_sum, frames).unwrap()
}

fn store(capacity: usize) -> CacheStore<Vec<u8>> {
    CacheStore::new(capacity, shape(), rng(1))
}

/// Client n sends cache n; the one that it replaces is returned.
fn push(
    store: &mut CacheStore<Vec<u8>>,
    name: u32,
    rows: usize,
    weight_sum: f64,
) -> Option<Arc<Cache<Vec<u8>>>> {
    store.push(cache(name, rows, weight_sum), name, Instant::now())
}

/// Cache and row of each sample of a batch.
fn take(
    store: &mut CacheStore<Vec<u8>>,
    rows: usize,
    reuse: bool,
) -> Result<Vec<(u32, u32)>, Error> {
    let taken = store.take(rows, reuse)?;
    let (mut weights, mut out) = (vec![0; rows * 4], vec![0; rows * 8]);
    taken.gather(&mut [&mut weights, &mut out]);
    assert!(weights.chunks(4).all(|weight| weight == 1f32.to_le_bytes()));
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    Ok(out.chunks(8).map(|row| (number(&row[..4]), number(&row[4..]))).collect())
}

#[derive(Debug, Clone)]
enum Call {
    Push { rows: usize, weight_sum: f64 },
    Take { rows: usize, reuse: bool },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let push = (1..6usize, prop_oneof![Just(1e-30), Just(1.0), Just(1e30)])
        .prop_map(|(rows, weight_sum)| Call::Push { rows, weight_sum });
    let take = (1..9usize, any::<bool>()).prop_map(|(rows, reuse)| Call::Take { rows, reuse });
    proptest::collection::vec(prop_oneof![push, take], 1..60)
}

/// Name, rows and next row of each cache.
type Model = VecDeque<(u32, u32, u32)>;

fn check_take(model: &mut Model, taken: &[(u32, u32)], reuse: bool) {
    for &(name, row) in taken {
        let held = model.iter_mut().find(|held| held.0 == name).unwrap();
        if reuse && held.2 == held.1 {
            held.2 = 0;
        }
        assert!(held.2 < held.1, "a used-up cache was drawn");
        assert_eq!(row, held.2, "samples of a cache come in order");
        held.2 += 1;
    }
}

fn behaves_as_the_model(capacity: usize, calls: Vec<Call>) {
    let (mut store, mut model) = (store(capacity), Model::new());
    for (name, call) in calls.into_iter().enumerate() {
        let unused: u32 = model.iter().map(|held| held.1 - held.2).sum();
        match call {
            Call::Push { rows, weight_sum } => {
                push(&mut store, name as u32, rows, weight_sum);
                model.push_back((name as u32, rows as u32, 0));
                if model.len() > capacity {
                    model.pop_front();
                }
            }
            Call::Take { rows, reuse } => match take(&mut store, rows, reuse) {
                Ok(taken) => check_take(&mut model, &taken, reuse),
                Err(_) => assert!(model.len() < capacity || !reuse && unused < rows as u32),
            },
        }
        let unused: u32 = model.iter().map(|held| held.1 - held.2).sum();
        assert_eq!((store.len(), store.unused()), (model.len(), unused as usize));
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn store_behaves_as_a_queue_of_caches(capacity in 1..5usize, calls in calls()) {
        behaves_as_the_model(capacity, calls);
    }
}

#[test]
fn caches_are_drawn_in_proportion_to_their_sums_of_weights() {
    let mut store = store(3);
    for (name, weight_sum) in [(0, 1.0), (1, 2.0), (2, 5.0)] {
        push(&mut store, name, 4, weight_sum);
    }
    let mut counts = [0f64; 3];
    for (name, _) in take(&mut store, 80_000, true).unwrap() {
        counts[name as usize] += 1.0;
    }
    // Five standard deviations of the largest count.
    for (count, expected) in counts.into_iter().zip([1e4, 2e4, 5e4]) {
        assert!((count - expected).abs() < 700.0, "{counts:?}");
    }
}

#[test]
fn take_from_too_few_samples_names_the_counts_and_takes_nothing() {
    let mut store = store(2);
    push(&mut store, 0, 3, 1.0);
    let text = |error: Error| error.to_string();
    let few = take(&mut store, 1, true).map_err(text);
    assert_eq!(few, Err("insufficient caches: have 1, need n_caches=2".into()));
    push(&mut store, 1, 3, 1.0);
    let dry = take(&mut store, 7, false).map_err(text).unwrap_err();
    assert!(dry.contains("have 6 unused samples, need batch_size=7"), "{dry}");
    let mut taken = take(&mut store, 6, false).unwrap();
    taken.sort_unstable();
    assert_eq!(taken, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
}

#[test]
fn batch_keeps_caches_that_the_store_has_replaced() {
    let mut store = store(1);
    push(&mut store, 7, 2, 1.0);
    let taken = store.take(2, false).unwrap();
    let oldest = push(&mut store, 8, 2, 1.0).unwrap();
    drop((oldest, store));
    let (mut weights, mut out) = (vec![0; 8], vec![0; 16]);
    taken.gather(&mut [&mut weights, &mut out]);
    assert_eq!(out, columns(7, 2)[1]);
}

#[test]
fn reshape_empties_the_store() {
    let mut store = store(2);
    push(&mut store, 0, 3, 1.0);
    assert!(store.reshape(shape()).is_empty());
    let other = CacheShape::new(&spec(), &settings(&[true, true]), Labels::default());
    assert_eq!(store.reshape(other).len(), 1);
    assert!(store.is_empty());
}

#[test]
fn snapshot_counts_received_given_and_held_samples() {
    let mut store = store(2);
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let before = store.snapshot(start);
    assert_eq!((before.held, before.oldest, before.newest), (0, None, None));
    for (second, (sender, rows)) in [(5, 3), (6, 4), (5, 1)].into_iter().enumerate() {
        store.push(cache(0, rows, 2.0), sender, at(second as u64));
    }
    take(&mut store, 4, false).unwrap();
    let now = store.snapshot(at(10));
    let tally = |caches, samples| CacheCounts { caches, samples, bytes: 12 * samples };
    assert_eq!((now.held, now.unused, now.weight_sum), (2, 1, 4.0));
    assert_eq!((now.given, now.discarded), (4, 3));
    assert_eq!(
        (now.oldest, now.newest),
        (Some(Duration::from_secs(9)), Some(Duration::from_secs(8)))
    );
    assert_eq!((now.received, now.others), (tally(3, 8), tally(0, 0)));
    assert_eq!(now.clients, [(6, tally(1, 4)), (5, tally(2, 4))]);
}

#[test]
fn discarded_counts_samples_that_were_never_given() {
    let mut store = store(1);
    push(&mut store, 0, 4, 1.0);
    take(&mut store, 5, true).unwrap();
    push(&mut store, 1, 4, 1.0);
    assert_eq!(store.snapshot(Instant::now()).discarded, 0);
    take(&mut store, 3, true).unwrap();
    assert_eq!(
        store.reshape(CacheShape::new(&spec(), &settings(&[true, true]), Labels::default())).len(),
        1
    );
    let now = store.snapshot(Instant::now());
    assert_eq!((now.given, now.discarded, now.held), (8, 1, 0));
}

#[test]
fn cache_shape_follows_cache_flags_and_frame_stack() {
    let mut stacked = settings(&[true, false, false, false, false, false, true, true, true]);
    stacked.frame_stack = 4;
    let shape = CacheShape::new(&spec(), &stacked, Labels::default());
    assert_eq!(shape.sizes(), [4, 32, 0, 32, 8]);
    assert_eq!(shape.largest(), 32);
}

#[test]
fn malformed_cache_is_refused() {
    let refused = |rows, weight_sum, columns| {
        Cache::new(&shape(), rows, weight_sum, columns).map(drop).unwrap_err().to_string()
    };
    assert!(refused(0, 1.0, columns(0, 0)).starts_with("rows"));
    for weight_sum in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX] {
        assert!(refused(2, weight_sum, columns(0, 2)).starts_with("weight_sum"));
    }
    assert!(refused(3, 1.0, columns(0, 2)).starts_with("columns"));
    assert!(refused(usize::MAX >> 33, 1.0, columns(0, 2)).starts_with("columns"));
    assert!(refused(2, 1.0, columns(0, 2)[..1].to_vec()).starts_with("columns"));
    let packed = columns(0, 2).concat();
    assert!(refused(3, 1.0, vec![packed.clone()]).starts_with("columns"));
    assert!(refused(2, 1.0, vec![packed[1..].to_vec()]).starts_with("columns"));
    assert!(refused(usize::MAX >> 33, 1.0, vec![packed]).starts_with("columns"));
    for weight in [-1f32, f32::NAN, f32::INFINITY] {
        let mut columns = columns(0, 2);
        columns[0][4..].copy_from_slice(&weight.to_le_bytes());
        assert!(refused(2, 1.0, columns).starts_with("weight:"));
    }
}
