//! Waits for episodes that other threads close.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;

use crate::python::wait::interruptible;

/// Wakes threads that wait for more entries. A close without such threads costs one read.
#[derive(Debug, Default)]
pub struct CloseSignal {
    waiting: AtomicUsize,
    /// How often a close was told of.
    told: Mutex<u64>,
    changed: Condvar,
}

impl CloseSignal {
    /// Tells the waiting threads of a close; after the memory's lock was released.
    pub fn tell(&self) {
        // A thread that looked at the memory before the close had said that it waits before it took the lock.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.changed.notify_all();
        }
    }

    /// Makes the attempt, and again after each close, until it has a result or the deadline is over; then None.
    pub fn retry<T>(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        let _waiting = Waiting::new(&self.waiting);
        loop {
            let seen = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(result) = attempt()? {
                return Ok(Some(result));
            }
            let closed = interruptible(py, deadline, |end| {
                let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                let left = end.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout_while(told, left, |told| *told == seen);
                let told = waited.unwrap_or_else(PoisonError::into_inner).0;
                Ok((*told != seen).then_some(()))
            })?;
            if closed.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Counts a thread as waiting while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
