//! The weights of entries, from errors of their values.

use bytemuck::{Pod, Zeroable};

use crate::replay::power::raise_all;
use crate::replay::sum_tree::leaf;

/// The weight of an entry. The two numbers are adjacent because a new priority reads one and writes the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct EntryWeight {
    /// Its initial weight; times the episode's multiplier once that is closed.
    pub base: f32,
    /// Its weight, with which it is drawn inside the borders.
    pub weight: f32,
}

impl EntryWeight {
    /// Its leaf in an index; only entries inside the borders and with an initial weight above 0 can be drawn.
    pub fn leaf(self, inside: bool) -> f32 {
        leaf(self.weight, inside && self.base > 0.0)
    }
}

/// The mixed error of each of `entries`: `sum_d coeff[d] * |q[d] - v[d]|`, or 0 where that is negative or R is 0. `returns` and
/// `values` have shape (entries, R), row by row, for R numbers in `coeff`.
pub fn mixed_errors(returns: &[f64], values: &[f32], coeff: &[f64], entries: usize) -> Vec<f64> {
    let term = |c: &f64, (q, v): (&f64, &f32)| c * (q - f64::from(*v)).abs();
    // Not `max`, which would turn NaN into 0.
    let floored = |sum: f64| if sum < 0.0 { 0.0 } else { sum };
    let pairs = returns.iter().zip(values);
    match coeff {
        [] => vec![0.0; entries],
        // Without an inner loop the compiler vectorizes this.
        [c] => pairs.map(|pair| floored(term(c, pair))).collect(),
        _ => {
            let rows = returns.chunks_exact(coeff.len()).zip(values.chunks_exact(coeff.len()));
            let sum = |(q, v): (&[f64], &[f32])| {
                coeff.iter().zip(q.iter().zip(v)).map(|(c, pair)| term(c, pair)).sum()
            };
            rows.map(|row| floored(sum(row))).collect()
        }
    }
}

/// The weights with which entries are drawn: `base * (error + epsilon) ^ exponent`, where 0^0 is 1: the proportional
/// priority of Schaul et al. 2016, section 3.3, scaled. `base` are initial weights times the episode's multiplier; `errors`
/// are overwritten.
pub fn sampling_weights<'a>(
    base: impl ExactSizeIterator<Item = f32> + 'a,
    errors: &'a mut [f64],
    epsilon: f64,
    exponent: f64,
) -> impl ExactSizeIterator<Item = f32> + 'a {
    if epsilon > 0.0 {
        for error in errors.iter_mut() {
            *error += epsilon;
        }
    }
    raise_all(errors, exponent);
    base.zip(errors).map(|(base, power)| (f64::from(base) * *power) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_absolute_in_each_dimension_before_mixing() {
        assert_eq!(mixed_errors(&[2.0, -3.0], &[0.0, 0.0], &[1.0, 2.0], 1), [8.0]);
        assert_eq!(mixed_errors(&[2.0, -3.0], &[0.0, 1.0], &[1.0], 2), [2.0, 4.0]);
        assert_eq!(mixed_errors(&[2.0], &[0.0], &[-1.0], 1), [0.0]);
        assert!(mixed_errors(&[f64::NAN], &[0.0], &[1.0], 1)[0].is_nan());
        assert_eq!(mixed_errors(&[], &[], &[], 2), [0.0, 0.0]);
    }

    #[test]
    fn weight_with_exponent_zero_is_the_base_even_without_error() {
        let weights = |base, error, exponent| {
            sampling_weights([base].into_iter(), &mut [error], 0.0, exponent).collect::<Vec<f32>>()
        };
        assert_eq!(weights(3.0, 0.0, 0.0), [3.0]);
        assert_eq!(weights(3.0, 0.0, 0.5), [0.0]);
        assert_eq!(weights(2.0, 9.0, 0.5), [6.0]);
    }

    #[test]
    fn epsilon_is_added_before_the_exponent() {
        let made: Vec<f32> =
            sampling_weights([2.0, 2.0].into_iter(), &mut [0.0, 2.25], 4.0, 0.5).collect();
        assert_eq!(made, [4.0, 5.0]);
    }
}
