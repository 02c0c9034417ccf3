//! `cogrs.ReplayWriter`: an open episode of a memory. The memory itself is its first writer.
//!
//! The serial number of the open episode is only changed under the lock of the memory, so that threads may share
//! a writer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::Result;
use crate::python::args::{do_update_value, do_update_weight, episodic_weight_multiplier, number};
use crate::python::close_args::CloseArgs;
use crate::python::entry_args::{RecurrentArg, entries, entry, fields, required, rows};
use crate::python::exit::call_python;
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::memory_wait::{Attempt, Shortage};
use crate::python::wait::{Side, Wait};
use crate::replay::drawable::ZeroWeights;
use crate::replay::memory::{Memory, WRITTEN};

/// Stands for no episode: serial numbers never reach this value.
const NOT_OPEN: u64 = u64::MAX;

#[doc = stub_doc!(ReplayWriter)]
#[pyclass(frozen, subclass, weakref, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayWriter {
    handle: Arc<MemoryHandle>,
    /// Serial number of the open episode.
    open: AtomicU64,
    /// Whether episodes wait for the rate limiter when they are closed.
    limited: bool,
}

impl ReplayWriter {
    pub fn new(handle: Arc<MemoryHandle>) -> Self {
        Self::of(handle, true)
    }

    fn of(handle: Arc<MemoryHandle>, limited: bool) -> Self {
        Self { handle, open: AtomicU64::new(NOT_OPEN), limited }
    }

    fn serial(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Runs `insert`, of so many `entries`, when the rate limiter lets one entry come. Bad arguments are refused before the
    /// wait, by `check`.
    fn insert<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        wait: Wait,
        entries: impl Fn(&Memory) -> Result<usize> + Sync,
        check: impl Fn(&Memory) -> Result<()> + Sync,
        insert: impl Fn(&mut Memory) -> Result<T> + Sync,
    ) -> PyResult<T> {
        let mut checked = false;
        self.handle.wait(py, bytes, Side::Insert, wait, |memory| {
            if self.limited
                && let Some(reason) = memory.insert_shortage()
                && entries(memory)? > 0
            {
                if !std::mem::replace(&mut checked, true) {
                    check(memory)?;
                }
                return Ok(Attempt::NotYet(Shortage::Limiter(reason)));
            }
            insert(memory).map(Attempt::Ready)
        })
    }
}

impl Drop for ReplayWriter {
    fn drop(&mut self) {
        self.handle.call_in_drop(|memory| {
            let open = memory.is_open(self.serial());
            if open { memory.abort(self.serial()) } else { Ok(()) }
        });
    }
}

#[doc = stub_doc!(unlimited_writer)]
#[pyfunction]
pub fn unlimited_writer(memory: &Bound<'_, ReplayWriter>) -> PyResult<ReplayWriter> {
    let handle = &memory.get().handle;
    handle.check_process()?;
    Ok(ReplayWriter::of(Arc::clone(handle), false))
}

#[doc = stub_doc!(wait_to_insert)]
#[pyfunction]
#[pyo3(signature = (memory, wait=None))]
pub fn wait_to_insert(
    py: Python<'_>,
    memory: &Bound<'_, ReplayWriter>,
    wait: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let writer = memory.get();
    let wait = writer.handle.patience(wait)?;
    writer.insert(py, 0, wait, |_| Ok(1), |_| Ok(()), |_| Ok(()))
}

/// Logs that most entries of closed episodes cannot be drawn.
fn warn(py: Python<'_>, zero: Option<ZeroWeights>) -> PyResult<()> {
    if let Some(ZeroWeights { zero, drawable }) = zero {
        call_python!(py, "cogrs.replay.convert", "warn_zero_weights", (zero, drawable))?;
    }
    Ok(())
}

// The signatures are those of the published interface and of Python's protocols.
#[allow(clippy::too_many_arguments, clippy::many_single_char_names, clippy::unused_self)]
#[pymethods]
impl ReplayWriter {
    #[doc = stub_doc!(ReplayWriter.new_episode)]
    fn new_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, 0, |memory| {
            if memory.is_open(self.serial()) {
                memory.abort(self.serial())?;
            }
            self.open.store(memory.open(), Ordering::Relaxed);
            Ok(())
        })
    }

    #[doc = stub_doc!(ReplayWriter.get_entry_buf)]
    fn get_entry_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let zeros = WRITTEN.map(|field| self.handle.template(field).zeros(py));
        PyTuple::new(py, zeros.into_iter().collect::<PyResult<Vec<_>>>()?)
    }

    #[doc = stub_doc!(ReplayWriter.add_entry)]
    #[pyo3(signature = (s=None, a=None, r=None, p=None, v=None, i=None, init_w=None, *, weight=None,
                        state=None, action=None, reward=None, prob=None, value=None, info=None,
                        recurrent=None))]
    fn add_entry(
        &self,
        py: Python<'_>,
        s: Option<&Bound<'_, PyAny>>,
        a: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
        v: Option<&Bound<'_, PyAny>>,
        i: Option<&Bound<'_, PyAny>>,
        init_w: Option<&Bound<'_, PyAny>>,
        weight: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        action: Option<&Bound<'_, PyAny>>,
        reward: Option<&Bound<'_, PyAny>>,
        prob: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        info: Option<&Bound<'_, PyAny>>,
        recurrent: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let fields = fields([s, a, r, p, v, i], [state, action, reward, prob, value, info])?;
        if init_w.is_some() && weight.is_some() {
            let text = "weight: expected only one of init_w and weight, got both";
            return Err(PyTypeError::new_err(text));
        }
        let init_w = required("init_w", "a number", init_w.or(weight))?;
        self.handle.check_process()?;
        let values = entry(&self.handle, fields)?;
        let init_w = [number("init_w", init_w)?];
        let recurrent = RecurrentArg::new(&self.handle, recurrent, None)?;
        let (rows, bytes) = rows(&self.handle, &values, 1)?;
        let states = recurrent.bytes()?;
        let encoded = self.handle.encode(py, Some(self.serial()), rows)?;
        self.handle.call(py, bytes, |memory| {
            memory.add_encoded(self.serial(), rows, encoded, states, &init_w)
        })
    }

    #[doc = stub_doc!(ReplayWriter.add_entries)]
    #[pyo3(signature = (s=None, a=None, r=None, p=None, v=None, i=None, init_w=None, *, state=None,
                        action=None, reward=None, prob=None, value=None, info=None, recurrent=None))]
    fn add_entries(
        &self,
        py: Python<'_>,
        s: Option<&Bound<'_, PyAny>>,
        a: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
        v: Option<&Bound<'_, PyAny>>,
        i: Option<&Bound<'_, PyAny>>,
        init_w: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        action: Option<&Bound<'_, PyAny>>,
        reward: Option<&Bound<'_, PyAny>>,
        prob: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        info: Option<&Bound<'_, PyAny>>,
        recurrent: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let fields = fields([s, a, r, p, v, i], [state, action, reward, prob, value, info])?;
        let init_w = required("init_w", "a number", init_w)?;
        self.handle.check_process()?;
        let (values, init_w) = entries(&self.handle, fields, init_w)?;
        let recurrent = RecurrentArg::new(&self.handle, recurrent, Some(init_w.len()))?;
        let (rows, bytes) = rows(&self.handle, &values, init_w.len())?;
        let states = recurrent.bytes()?;
        let encoded = self.handle.encode(py, Some(self.serial()), rows)?;
        self.handle.call(py, bytes, |memory| {
            memory.add_encoded(self.serial(), rows, encoded, states, &init_w)
        })
    }

    #[doc = stub_doc!(ReplayWriter.close_episode)]
    #[pyo3(signature = (episodic_weight_multiplier=1.0, do_update_value=true, do_update_weight=true, *,
                        bootstrap_value=None, final_state=None, final_info=None, terminated=None,
                        truncated=None, wait=None))]
    fn close_episode(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = episodic_weight_multiplier)] episodic_weight_multiplier: f64,
        #[pyo3(from_py_with = do_update_value)] do_update_value: bool,
        #[pyo3(from_py_with = do_update_weight)] do_update_weight: bool,
        bootstrap_value: Option<&Bound<'_, PyAny>>,
        final_state: Option<&Bound<'_, PyAny>>,
        final_info: Option<&Bound<'_, PyAny>>,
        terminated: Option<&Bound<'_, PyAny>>,
        truncated: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let args = CloseArgs {
            episodic_weight_multiplier,
            do_update_value,
            do_update_weight,
            bootstrap_value,
            final_state,
            final_info,
            terminated,
            truncated,
        };
        let close = args.convert(&self.handle)?;
        let wait = self.handle.patience(wait)?;
        let closing = close.closing(&self.handle)?;
        // That of the first try: another thread may open another episode during the wait.
        let first = OnceLock::new();
        let serial = || *first.get_or_init(|| self.serial());
        let zero = self.insert(
            py,
            LONG,
            wait,
            |memory| memory.open_len(serial()),
            |memory| memory.check_close(serial(), &closing),
            |memory| {
                memory.close(serial(), &closing)?;
                Ok(memory.zero_weights_to_report())
            },
        )?;
        warn(py, zero)
    }

    #[doc = stub_doc!(ReplayWriter.abort_episode)]
    fn abort_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, 0, |memory| memory.abort(self.serial()))
    }

    #[doc = stub_doc!(ReplayWriter.add_episode)]
    #[pyo3(signature = (s=None, a=None, r=None, p=None, v=None, i=None, init_w=None,
                        episodic_weight_multiplier=1.0, do_update_value=true, do_update_weight=true, *,
                        bootstrap_value=None, final_state=None, final_info=None, terminated=None,
                        truncated=None, state=None, action=None, reward=None, prob=None, value=None,
                        info=None, wait=None, recurrent=None))]
    fn add_episode(
        &self,
        py: Python<'_>,
        s: Option<&Bound<'_, PyAny>>,
        a: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
        v: Option<&Bound<'_, PyAny>>,
        i: Option<&Bound<'_, PyAny>>,
        init_w: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = episodic_weight_multiplier)] episodic_weight_multiplier: f64,
        #[pyo3(from_py_with = do_update_value)] do_update_value: bool,
        #[pyo3(from_py_with = do_update_weight)] do_update_weight: bool,
        bootstrap_value: Option<&Bound<'_, PyAny>>,
        final_state: Option<&Bound<'_, PyAny>>,
        final_info: Option<&Bound<'_, PyAny>>,
        terminated: Option<&Bound<'_, PyAny>>,
        truncated: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        action: Option<&Bound<'_, PyAny>>,
        reward: Option<&Bound<'_, PyAny>>,
        prob: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        info: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        recurrent: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let args = CloseArgs {
            episodic_weight_multiplier,
            do_update_value,
            do_update_weight,
            bootstrap_value,
            final_state,
            final_info,
            terminated,
            truncated,
        };
        let fields = fields([s, a, r, p, v, i], [state, action, reward, prob, value, info])?;
        let init_w = required("init_w", "a number", init_w)?;
        self.handle.check_process()?;
        let wait = self.handle.patience(wait)?;
        let (values, init_w) = entries(&self.handle, fields, init_w)?;
        let recurrent = RecurrentArg::new(&self.handle, recurrent, Some(init_w.len()))?;
        let close = args.convert(&self.handle)?;
        let closing = close.closing(&self.handle)?;
        let states = recurrent.bytes()?;
        let (rows, bytes) = rows(&self.handle, &values, init_w.len())?;
        // Taken by the one try that inserts.
        let encoded = Mutex::new(self.handle.encode(py, None, rows)?);
        let (first, zero) = self.insert(
            py,
            bytes,
            wait,
            |_| Ok(init_w.len()),
            |memory| memory.check_episode(rows, states, &init_w, &closing),
            |memory| {
                let encoded = encoded.lock().ok().and_then(|mut encoded| encoded.take());
                let first = memory.add_encoded_episode(rows, encoded, states, &init_w, &closing)?;
                Ok((first, memory.zero_weights_to_report()))
            },
        )?;
        warn(py, zero)?;
        Ok(first)
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a ReplayWriter cannot be pickled or copied: use save() and load() of its ReplayMemory",
        ))
    }
}
