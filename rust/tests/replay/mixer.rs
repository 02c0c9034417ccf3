//! Samples of several servers, against a plain model.

use std::collections::VecDeque;

use cogrs::error::Error;
use cogrs::replay::cache::{Cache, CacheShape, Labels};
use cogrs::replay::mixer::Mixer;
use cogrs::replay::settings::Settings;
use cogrs::spec::{EntrySpec, FieldSpec};
use proptest::prelude::*;

use crate::fixtures::{config, rng};

/// Weights, ids and senders, and no field.
fn shape() -> CacheShape {
    let float = |shape: &[usize]| FieldSpec::new("<f4", 4, shape);
    let fields = [&[0usize][..], &[0], &[], &[], &[], &[], &[0]].map(float);
    let mut settings = Settings::new(1);
    settings.set_cache_flags(&[false; 14]).unwrap();
    let labels = Labels { ids: true, senders: true, nstep: false };
    CacheShape::new(&EntrySpec::new(fields).unwrap(), &settings, labels)
}

/// Samples of a server with these ids.
fn samples(server: u32, ids: std::ops::Range<u64>) -> Cache<Vec<u8>> {
    let rows = (ids.end - ids.start) as usize;
    let columns = vec![
        std::iter::repeat_n(1f32.to_ne_bytes(), rows).flatten().collect(),
        ids.flat_map(u64::to_ne_bytes).collect(),
        std::iter::repeat_n(server.to_ne_bytes(), rows).flatten().collect(),
    ];
    Cache::new(&shape(), rows, 1.0, columns).unwrap()
}

fn mixer(servers: usize, seed: u64) -> Mixer<Vec<u8>> {
    Mixer::new(servers, rng(seed))
}

/// Sender and id of each row of a batch.
fn take(mixer: &mut Mixer<Vec<u8>>, rows: usize) -> Result<Vec<(u32, u64)>, Error> {
    let taken = mixer.take(rows)?;
    let mut columns = [vec![0; 4 * rows], vec![0; 8 * rows], vec![0; 4 * rows]];
    taken.gather(&mut columns.each_mut().map(Vec::as_mut_slice));
    let senders = columns[2].as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
    let ids = columns[1].as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
    Ok(senders.zip(ids).collect())
}

#[derive(Debug, Clone)]
enum Step {
    Push(usize, u64),
    Plan(usize),
    Forget(usize),
    Take(usize),
}

const SERVERS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..SERVERS, 1..9u64).prop_map(|(server, rows)| Step::Push(server, rows)),
        2 => (1..20usize).prop_map(Step::Plan),
        1 => (0..SERVERS).prop_map(Step::Forget),
        3 => (1..20usize).prop_map(Step::Take),
    ]
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn every_sample_is_given_once_in_order_and_nothing_is_lost(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut mixer = mixer(SERVERS, seed);
        let mut kept: Vec<VecDeque<u64>> = vec![VecDeque::new(); SERVERS];
        let mut next = 0;
        for step in steps {
            match step {
                Step::Push(server, rows) => {
                    mixer.push(server, samples(server as u32, next..next + rows)).unwrap();
                    kept[server].extend(next..next + rows);
                    next += rows;
                }
                Step::Plan(rows) => {
                    let before = mixer.lacking(usize::MAX);
                    mixer.plan(rows, &[1.0, 0.0, 2.0]).unwrap();
                    // Planned rows stay planned.
                    let after = mixer.lacking(usize::MAX);
                    prop_assert!(before.iter().zip(&after).all(|(before, after)| before <= after));
                }
                Step::Forget(server) => {
                    mixer.forget(server);
                    prop_assert_eq!(mixer.lacking(usize::MAX)[server], 0);
                }
                Step::Take(rows) => {
                    let (unused, lacking) = (mixer.unused(), mixer.lacking(rows));
                    let taken = take(&mut mixer, rows);
                    if let Ok(batch) = taken {
                        prop_assert_eq!(batch.len(), rows);
                        prop_assert_eq!(lacking, vec![0; SERVERS]);
                        for (server, id) in batch {
                            prop_assert_ne!(server, 1);
                            prop_assert_eq!(kept[server as usize].pop_front(), Some(id));
                        }
                    } else {
                        prop_assert_eq!(mixer.unused(), unused);
                    }
                }
            }
            let lengths: Vec<_> = kept.iter().map(VecDeque::len).collect();
            prop_assert_eq!(mixer.unused(), lengths);
        }
    }
}

#[test]
fn plan_is_kept_while_a_server_lacks_samples() {
    let mut mixer = mixer(2, 1);
    mixer.plan(8, &[1.0, 1.0]).unwrap();
    let lacking = mixer.lacking(8);
    assert_eq!(lacking.iter().sum::<usize>(), 8);
    mixer.push(0, samples(0, 0..8)).unwrap();
    assert!(matches!(take(&mut mixer, 8), Err(Error::State(_))));
    // Other weights do not change planned rows.
    mixer.plan(8, &[1.0, 0.0]).unwrap();
    assert_eq!(mixer.lacking(8), [0, lacking[1]]);
    mixer.push(1, samples(1, 100..100 + lacking[1] as u64)).unwrap();
    let batch = take(&mut mixer, 8).unwrap();
    assert_eq!(batch.iter().filter(|row| row.0 == 1).count(), lacking[1]);
    assert_eq!(mixer.unused(), [8 - lacking[0], 0]);
}

#[test]
fn invalid_weights_plan_nothing() {
    let mut mixer = mixer(2, 1);
    for weights in [&[1.0][..], &[1.0, -1.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
        assert!(matches!(mixer.plan(1, weights), Err(Error::Value { .. })));
    }
    assert!(matches!(mixer.plan(1, &[0.0, 0.0]), Err(Error::State(_))));
    assert!(matches!(mixer.push(2, samples(0, 0..1)), Err(Error::Index(_))));
    assert_eq!(mixer.lacking(1), [0, 0]);
    assert!(matches!(take(&mut mixer, 1), Err(Error::State(_))));
}
