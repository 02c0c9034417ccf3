//! Numbers that have to be finite, and which step has one that is not.

use crate::error::{Error, Result, short};

/// The number, when it is finite and not negative.
///
/// # Errors
/// [`Error::Value`] otherwise.
pub fn check_non_negative(name: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(Error::value(name, "a finite number >= 0", short(value)))
    }
}

/// Names the last step that is not finite: returns are made from the end, so it is the cause of those before.
/// `first` is the step of the first number.
///
/// # Errors
/// [`Error::Value`] that names it.
pub(super) fn all_finite(name: &str, values: &[f32], dims: usize, first: usize) -> Result<()> {
    match values.iter().rposition(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let got = format!("{} at {}", short(values[at]), step_text(at, dims, first));
            Err(Error::value(name, "numbers finite in float32", got))
        }
    }
}

/// Whether all numbers of entries from step `first` on are finite; `dims` numbers are a step's.
///
/// # Errors
/// [`Error::Value`] that names the first one that is not.
pub(super) fn check_finite(
    name: &str,
    expected: &str,
    values: &[f32],
    dims: usize,
    first: usize,
) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let got = format!("{} at {}", short(values[at]), step_text(at, dims, first));
            Err(Error::value(name, expected, got))
        }
    }
}

/// Which step, and which of several dimensions, the number `at` belongs to.
fn step_text(at: usize, dims: usize, first: usize) -> String {
    let step = first + at / dims.max(1);
    if dims > 1 { format!("step {step}, dimension {}", at % dims) } else { format!("step {step}") }
}
