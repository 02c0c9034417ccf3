//! Locks and conditions, used even after a panic: while one of these locks is held only a game can panic, and then
//! the context has failed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a condition is notified, at most so long.
pub fn wait<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    left: Option<Duration>,
) -> MutexGuard<'a, T> {
    let Some(left) = left else {
        return condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
    };
    condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
}
