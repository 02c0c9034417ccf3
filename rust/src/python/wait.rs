//! Waits that let other Python threads run, and Ctrl-C through.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::{Error, Result, short};
use crate::python::args::number;

/// Longest time for which a signal goes unnoticed.
const SLICE: Duration = Duration::from_millis(50);

/// The end of a wait of `timeout` seconds; None for a wait without limit, or longer than clocks can hold.
pub fn deadline(timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Instant>> {
    timeout.map_or(Ok(None), |timeout| deadline_of("timeout", timeout))
}

/// The end of a wait of so many seconds, by the name of its argument; None when that is longer than clocks can hold.
pub fn deadline_of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<Instant>> {
    let seconds = number(name, given)?;
    // Written so that NaN is refused too.
    if !matches!(seconds.partial_cmp(&0.0), Some(order) if order.is_ge()) {
        return Err(Error::value(name, "seconds >= 0, or None", short(seconds)).into());
    }
    let length = Duration::try_from_secs_f64(seconds).ok();
    Ok(length.and_then(|length| Instant::now().checked_add(length)))
}

/// Waits while other Python threads run, and checks for signals now and then so that Ctrl-C works.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    deadline: Option<Instant>,
    wait: impl Fn(Instant) -> Result<Option<T>> + Sync,
) -> PyResult<Option<T>> {
    loop {
        let slice = Instant::now() + SLICE;
        let end = deadline.map_or(slice, |deadline| deadline.min(slice));
        if let Some(found) = py.detach(|| wait(end))? {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(None);
        }
    }
}
