//! Checks that numbers are finite; the errors name the step of the number that is not.

use crate::error::{Error, Result, short};

/// Returns the number. Fails with [`Error::Value`] unless it is finite and >= 0.
pub fn check_non_negative(name: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Error::value(name, "a finite number >= 0", short(value)))
}

/// Checks numbers of entries from step `first` on, `dims` numbers per step. Fails with [`Error::Value`] that names the
/// first one that is not finite.
pub(super) fn check_finite(
    name: &str,
    expected: &str,
    values: &[f32],
    dims: usize,
    first: usize,
) -> Result<()> {
    let at = values.iter().position(|value| !value.is_finite());
    check_none(at, name, expected, values, dims, first)
}

/// Like [`check_finite`], for computed numbers. Names the last number that is not finite: returns are computed from the
/// end, so that number is the cause of those before it.
pub(super) fn check_finite_from_end(
    name: &str,
    values: &[f32],
    dims: usize,
    first: usize,
) -> Result<()> {
    let at = values.iter().rposition(|value| !value.is_finite());
    check_none(at, name, "finite float32 numbers", values, dims, first)
}

/// Fails if `at` is the position of a number that is not finite.
fn check_none(
    at: Option<usize>,
    name: &str,
    expected: &str,
    values: &[f32],
    dims: usize,
    first: usize,
) -> Result<()> {
    let Some(at) = at else { return Ok(()) };
    let (step, dim) = (first + at / dims.max(1), at % dims.max(1));
    let dimension = if dims > 1 { format!(", dimension {dim}") } else { String::new() };
    Err(Error::value(name, expected, format!("{} at step {step}{dimension}", short(values[at]))))
}
