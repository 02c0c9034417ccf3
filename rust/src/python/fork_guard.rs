//! Refuses objects in a forked child.
//!
//! A lock that another thread held at the fork stays locked in the child for ever. So an object made before a fork is
//! refused in the child, rather than hanging now and then.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

static FORKS: AtomicU64 = AtomicU64::new(0);

/// Remembers the process in which an object was made.
#[derive(Debug, Clone, Copy)]
pub struct ForkGuard(u64);

impl ForkGuard {
    pub fn here() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// `RuntimeError` in a forked child.
    pub fn check(self, class: &str) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "this {class} was created before a fork and cannot be used in the child: re-create it here, \
             or start the process with multiprocessing's 'spawn'"
        )))
    }
}

#[pyfunction]
fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Makes the interpreter count forks, on systems that have fork.
pub fn register(py: Python<'_>) -> PyResult<()> {
    let os = py.import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", wrap_pyfunction!(count_fork, py)?)?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
