//! Importance-sampling weights of a batch.

use crate::error::{Error, Result, short};
use crate::replay::finite::check_non_negative;
use crate::replay::power::raise_all;

/// The largest importance weight, by which those of a batch are divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Largest {
    /// The largest of this batch.
    OfBatch,
    /// The largest of the memory: that of its smallest sampling weight, given here.
    OfAll(f64),
}

/// Computes `(N * P) ^ -exponent` for each weight, where P is `weight / total`, divided by the largest (Schaul et al. 2016,
/// section 3.4, where `exponent` is beta). Fails with [`Error::Value`] when a number is out
/// of range.
///
/// # Examples
/// ```
/// use cogrs::replay::importance::{Largest, importance_weights};
///
/// let w = importance_weights(&[1.0, 4.0], 1.0, 16.0, 4, Largest::OfBatch)?;
/// assert_eq!(w, [1.0, 0.25]);
/// # Ok::<(), cogrs::error::Error>(())
/// ```
pub fn importance_weights(
    weights: &[f64],
    exponent: f64,
    total: f64,
    count: u64,
    largest: Largest,
) -> Result<Vec<f32>> {
    check_non_negative("exponent", exponent)?;
    positive("total", total)?;
    if count == 0 {
        return Err(Error::value("count", "at least 1", count));
    }
    for &weight in weights {
        positive("weight", weight)?;
    }
    let smallest = match largest {
        Largest::OfBatch => weights.iter().copied().fold(f64::INFINITY, f64::min),
        Largest::OfAll(smallest) => positive("min_weight", smallest)?,
    };
    if let Some(weight) = weights.iter().find(|&&weight| weight < smallest) {
        let got = format!("{} and a weight of {}", short(smallest), short(*weight));
        return Err(Error::value("min_weight", "a number <= all weights", got));
    }
    // N and total cancel in the quotient of two weights.
    let mut powers: Vec<f64> = weights.iter().map(|weight| weight / smallest).collect();
    raise_all(&mut powers, -exponent);
    Ok(powers.into_iter().map(|power| power as f32).collect())
}

fn positive(name: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Error::value(name, "a finite number > 0", short(value)))
    }
}
