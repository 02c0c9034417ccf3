//! Waits that let other Python threads run, and Ctrl-C through.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::{Error, Result, short};
use crate::python::args::number;

/// Longest time for which a signal goes unnoticed.
pub const SLICE: Duration = Duration::from_millis(50);

/// The end of a wait of `timeout` seconds; None for a wait without limit, or longer than clocks can hold.
pub fn deadline(timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Instant>> {
    let Some(timeout) = timeout else { return Ok(None) };
    Ok(after(seconds("timeout", timeout)?))
}

/// A number of seconds >= 0: `TypeError` or `ValueError` that name the argument.
fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let seconds = number(name, value)?;
    // Written so that NaN is refused too.
    if !matches!(seconds.partial_cmp(&0.0), Some(order) if order.is_ge()) {
        return Err(Error::value(name, "seconds >= 0, or None", short(seconds)).into());
    }
    Ok(seconds)
}

fn after(seconds: f64) -> Option<Instant> {
    let length = Duration::try_from_secs_f64(seconds).ok();
    length.and_then(|length| Instant::now().checked_add(length))
}

/// A call that the rate limiter may delay.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    Sample,
    Insert,
}

/// Nanoseconds that each side has waited, summed over threads.
#[derive(Debug, Default)]
pub struct WaitTimes([AtomicU64; 2]);

impl WaitTimes {
    pub fn seconds(&self, side: Side) -> f64 {
        Duration::from_nanos(self.0[side as usize].load(Ordering::Relaxed)).as_secs_f64()
    }

    pub fn add(&self, side: Side, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0[side as usize].fetch_add(nanos, Ordering::Relaxed);
    }
}

/// How long a call on a memory waits: its argument `wait`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait {
    /// Not at all, because no wait was asked for.
    Never,
    /// Until then, so many seconds after the call.
    Until(Instant, f64),
    /// As long as it takes.
    ForEver,
}

impl Wait {
    /// Reads the argument; None is `default`.
    pub fn new(wait: Option<&Bound<'_, PyAny>>, default: Self) -> PyResult<Self> {
        let Some(wait) = wait else { return Ok(default) };
        let seconds = seconds("wait", wait)?;
        Ok(after(seconds).map_or(Self::ForEver, |end| Self::Until(end, seconds)))
    }

    pub fn end(self) -> Option<Instant> {
        match self {
            Self::Until(end, _) => Some(end),
            _ => None,
        }
    }

    pub fn is_over(self) -> bool {
        self == Self::Never || self.end().is_some_and(|end| end <= Instant::now())
    }
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
