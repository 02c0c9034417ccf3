//! Waits for a memory: for the rate limiter, and for entries to draw.
//!
//! A call that has to wait is tried again whenever another call has changed the memory. Waiting threads have detached from
//! the interpreter and given the memory's lock back.

use std::sync::atomic::Ordering;
use std::time::Instant;

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;

use crate::error::{Error, Result, short};
use crate::python::memory_handle::{MemoryHandle, interrupted};
use crate::python::wait::{SLICE, Side, Wait};
use crate::replay::memory::Memory;

/// The result of trying a call.
#[derive(Debug)]
pub enum Attempt<T> {
    /// It is done.
    Ready(T),
    /// It has changed nothing, and can be done later.
    NotYet(Shortage),
}

/// Why a call cannot be done yet, as errors say it.
#[derive(Debug)]
pub enum Shortage {
    /// There are too few entries: `RuntimeError` if no wait was asked for, `TimeoutError` after one.
    Entries(String),
    /// The rate limiter does not allow it: `TimeoutError`.
    Limiter(String),
}

impl Shortage {
    fn error(self, wait: Wait) -> PyErr {
        match (self, wait) {
            (Self::Entries(text) | Self::Limiter(text), Wait::Until(_, seconds)) => {
                PyTimeoutError::new_err(format!("waited {} s: {text}", short(seconds)))
            }
            (Self::Entries(text), _) => PyRuntimeError::new_err(text),
            (Self::Limiter(text), _) => PyTimeoutError::new_err(text),
        }
    }
}

impl MemoryHandle {
    /// Runs `attempt` on the memory, as [`Self::call`] does, until it is ready, it fails, `wait` is over, or Ctrl-C comes.
    pub fn wait<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        side: Side,
        wait: Wait,
        mut attempt: impl FnMut(&mut Memory) -> Result<Attempt<T>> + Send,
    ) -> PyResult<T> {
        let attempt = &mut attempt;
        let mut shortage = match self.call(py, bytes, |memory| possible(memory, wait, attempt))? {
            Attempt::Ready(value) => return Ok(value),
            Attempt::NotYet(shortage) => shortage,
        };
        let mut began = Instant::now();
        while !wait.is_over() {
            let slice = began + SLICE;
            let end = wait.end().map_or(slice, |end| end.min(slice));
            let tried =
                py.detach(|| self.wait_until(end, |memory| possible(memory, wait, attempt)));
            let now = Instant::now();
            self.waits.add(side, now - std::mem::replace(&mut began, now));
            match tried? {
                Attempt::Ready(value) => return Ok(value),
                Attempt::NotYet(reason) => shortage = reason,
            }
            py.check_signals()?;
        }
        Err(shortage.error(wait))
    }

    /// Tries now and after each change, until `end`.
    fn wait_until<T>(
        &self,
        end: Instant,
        mut attempt: impl FnMut(&mut Memory) -> Result<Attempt<T>>,
    ) -> Result<Attempt<T>> {
        let mut memory = self.lock()?;
        loop {
            let result = self.run(&mut memory, &mut attempt);
            let left = end.saturating_duration_since(Instant::now());
            if !matches!(result, Ok(Attempt::NotYet(_))) || left.is_zero() {
                return result;
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let waited = self.changed.wait_timeout(memory, left);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            memory = waited.map_err(|_| interrupted())?.0;
        }
    }
}

/// Fails when a call would wait for ever: for entries, while the rate limiter lets none come and no views draw.
fn possible<T>(
    memory: &mut Memory,
    wait: Wait,
    attempt: &mut impl FnMut(&mut Memory) -> Result<Attempt<T>>,
) -> Result<Attempt<T>> {
    let result = attempt(memory)?;
    if let Attempt::NotYet(Shortage::Entries(text)) = &result
        && wait == Wait::ForEver
        // What others draw, by views of their own, may let entries in.
        && memory.views().is_empty()
        && let Some(limited) = memory.insert_shortage()
    {
        return Err(Error::State(format!("{text}; and no entries can come: {limited}")));
    }
    Ok(result)
}
