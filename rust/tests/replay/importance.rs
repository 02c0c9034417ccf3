//! Importance weights: numbers calculated by hand, the formula, and invalid arguments.

use cogrs::error::Error;
use cogrs::replay::importance::{Largest, importance_weights};

const PRIORITIES: [f64; 4] = [1.0, 3.0, 4.0, 8.0];

fn of_batch(exponent: f64) -> Vec<f32> {
    importance_weights(&PRIORITIES, exponent, 16.0, 4, Largest::OfBatch).unwrap()
}

fn assert_close(weights: &[f32], expected: &[f64]) {
    assert_eq!(weights.len(), expected.len());
    for (&weight, &expected) in weights.iter().zip(expected) {
        assert!((f64::from(weight) - expected).abs() < 1e-6, "{weight} against {expected}");
    }
}

#[test]
fn exponent_one_corrects_fully() {
    assert_close(&of_batch(1.0), &[1.0, 1.0 / 3.0, 0.25, 0.125]);
}

#[test]
fn smaller_exponent_corrects_in_part() {
    assert_close(&of_batch(0.4), &[1.0, 0.644_394, 0.574_349, 0.435_275]);
}

#[test]
fn exponent_zero_corrects_nothing() {
    assert_eq!(of_batch(0.0), [1.0; 4]);
}

#[test]
fn largest_weight_of_all_may_lie_outside_the_batch() {
    let weights = importance_weights(&PRIORITIES[2..], 0.5, 16.0, 4, Largest::OfAll(1.0)).unwrap();
    let unscaled = |priority: f64| (4.0 * priority / 16.0).powf(-0.5);
    let expected = [4.0, 8.0].map(|priority| unscaled(priority) / unscaled(1.0));
    assert_close(&weights, &expected);
}

#[test]
fn weights_too_small_for_float32_keep_their_quotients() {
    let weights = importance_weights(&[1e-300, 4e-300], 1.0, 5e-300, 2, Largest::OfBatch).unwrap();
    assert_close(&weights, &[1.0, 0.25]);
}

#[test]
fn empty_batch_has_no_weights() {
    assert!(importance_weights(&[], 1.0, 1.0, 1, Largest::OfBatch).unwrap().is_empty());
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let one = [1.0];
    let refused = [
        ("exponent", importance_weights(&one, -0.1, 1.0, 1, Largest::OfBatch)),
        ("exponent", importance_weights(&one, f64::NAN, 1.0, 1, Largest::OfBatch)),
        ("total", importance_weights(&one, 1.0, 0.0, 1, Largest::OfBatch)),
        ("total", importance_weights(&one, 1.0, f64::INFINITY, 1, Largest::OfBatch)),
        ("count", importance_weights(&one, 1.0, 1.0, 0, Largest::OfBatch)),
        ("weight", importance_weights(&[1.0, 0.0], 1.0, 1.0, 1, Largest::OfBatch)),
        ("weight", importance_weights(&[f64::NAN], 1.0, 1.0, 1, Largest::OfBatch)),
        ("min_weight", importance_weights(&one, 1.0, 1.0, 1, Largest::OfAll(0.0))),
    ];
    for (name, result) in refused {
        let Err(Error::Value { argument, .. }) = result else { panic!("{name}: {result:?}") };
        assert_eq!(argument, name);
    }
}
