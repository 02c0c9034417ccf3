//! Calls of Python code, and the end of the interpreter.
//!
//! `CPython` ends a daemon thread where it next wants to run Python code: below Rust's frames that aborts
//! the process. So all calls of Python code go through here: at its end the interpreter waits until no other
//! thread runs Python code below Rust's frames, and threads that would begin to do so are parked for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::python::fork_guard::ForkGuard;

/// Threads that run Python code from here.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The thread that ends the interpreter, once that has begun.
static ENDING: std::sync::OnceLock<std::thread::ThreadId> = std::sync::OnceLock::new();

/// How long the interpreter waits for code that does not come back, a user's `__array__` for example.
const PATIENCE: Duration = Duration::from_secs(5);

/// Calls Python code; every call of Python code in this crate goes through here.
pub fn python_code<T>(py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if ENDING.get().is_some_and(|ending| *ending != std::thread::current().id()) {
        py.detach(|| {
            loop {
                std::thread::park();
            }
        });
    }
    INSIDE.fetch_add(1, Ordering::Relaxed);
    let result = call();
    INSIDE.fetch_sub(1, Ordering::Relaxed);
    result
}

/// Calls a function of a Python module with a tuple of arguments, by [`python_code`]:
/// `call_python!(py, "module", "function", (first, second))`.
macro_rules! call_python {
    ($py:expr, $module:literal, $function:literal, $arguments:expr) => {
        $crate::python::exit::python_code($py, || {
            let module = $py.import(pyo3::intern!($py, $module))?;
            module.call_method1(pyo3::intern!($py, $function), $arguments)
        })
    };
}
pub(super) use call_python;

#[pyclass(frozen, module = "cogrs._core")]
struct AtExit(ForkGuard);

#[pymethods]
impl AtExit {
    fn __call__(&self, py: Python<'_>) {
        ENDING.get_or_init(|| std::thread::current().id());
        // The threads that a forked child was counted with are not there.
        if !self.0.is_here() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        while INSIDE.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            py.detach(|| std::thread::sleep(Duration::from_millis(1)));
        }
    }
}

/// Makes the interpreter wait at its end.
pub fn register(py: Python<'_>) -> PyResult<()> {
    let hook = Bound::new(py, AtExit(ForkGuard::here()))?;
    py.import("atexit")?.call_method1("register", (hook,))?;
    Ok(())
}
