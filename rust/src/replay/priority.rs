//! Sampling weights.

use bytemuck::{Pod, Zeroable};

/// What an entry is worth. Both numbers together, since a new priority reads the one and writes the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Worth {
    /// Its initial weight; times the episode's multiplier once that is closed.
    pub base: f32,
    /// Its weight under the settings that its episode was closed with.
    pub weight: f32,
}

/// The mixed error of one entry: `sum_d coeff[d] * |q[d] - v[d]|`, and 0 where that is negative.
pub fn mixed_error(returns: &[f64], values: &[f32], coeff: &[f64]) -> f64 {
    let terms = returns.iter().zip(values).zip(coeff);
    let sum: f64 = terms.map(|((q, v), c)| c * (q - f64::from(*v)).abs()).sum();
    // Not `max`, which would turn NaN into 0.
    if sum < 0.0 { 0.0 } else { sum }
}

/// The weight with which an entry is drawn: `base * error ^ exponent`, and 0^0 is 1.
///
/// `base` is the entry's initial weight times its episode's multiplier. This is the proportional
/// priority of Schaul et al. 2016, section 3.3, scaled.
#[inline]
pub fn weight(base: f32, error: f64, exponent: f64) -> f32 {
    (f64::from(base) * power(error, exponent)) as f32
}

/// `powf` costs ten times these, and these are the exponents that people use.
#[inline]
fn power(error: f64, exponent: f64) -> f64 {
    if exponent == 0.5 {
        error.sqrt()
    } else if exponent == 1.0 {
        error
    } else {
        error.powf(exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_absolute_in_each_dimension_before_mixing() {
        assert_eq!(mixed_error(&[2.0, -3.0], &[0.0, 0.0], &[1.0, 2.0]), 8.0);
        assert_eq!(mixed_error(&[2.0], &[0.0], &[-1.0]), 0.0);
        assert!(mixed_error(&[f64::NAN], &[0.0], &[1.0]).is_nan());
    }

    #[test]
    fn exponent_zero_leaves_the_base_even_without_error() {
        assert_eq!(weight(3.0, 0.0, 0.0), 3.0);
        assert_eq!(weight(3.0, 0.0, 0.5), 0.0);
        assert_eq!(weight(2.0, 9.0, 0.5), 6.0);
    }
}
