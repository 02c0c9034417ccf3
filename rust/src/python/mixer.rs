//! `cogrs._core.SampleMixer`: batches of samples that several servers gave.
//!
//! Threads: no call waits for the interpreter while it holds the lock of the mixer, and none holds it for long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::python::args::{seeded, size};
use crate::python::batch_kind::BatchKind;
use crate::python::cache_plan::CachePlan;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::MemoryHandle;
use crate::python::message_frame::{MessageFrame, message_frames};
use crate::replay::cache::{Cache, CacheShape};
use crate::replay::mixer::Mixer;

#[doc = stub_doc!(SampleMixer)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct SampleMixer {
    handle: Arc<MemoryHandle>,
    mixer: Mutex<Mixer<MessageFrame>>,
    shape: CacheShape,
    kind: BatchKind,
}

impl SampleMixer {
    /// A panic leaves the mixer whole: it can only happen before a change.
    fn lock(&self) -> PyResult<MutexGuard<'_, Mixer<MessageFrame>>> {
        self.handle.check_process()?;
        Ok(self.mixer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn laid_out(&self, rows: usize) -> PyResult<CachePlan> {
        self.handle.check_process()?;
        Ok(CachePlan::new(&self.handle, self.handle.settings(), self.kind, rows)?)
    }
}

#[pymethods]
impl SampleMixer {
    #[new]
    #[pyo3(signature = (memory, servers, *, ids=false, nstep=false, seed=None))]
    fn new(
        memory: &Bound<'_, ReplayMemory>,
        servers: usize,
        ids: bool,
        nstep: bool,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let handle = Arc::clone(&memory.get().handle);
        let kind = BatchKind::Batch { ids, nstep };
        let shape = CachePlan::shape(&handle, &handle.settings(), kind)?;
        let rng = seeded(seed)?;
        Ok(Self { handle, mixer: Mutex::new(Mixer::new(servers, rng)), shape, kind })
    }

    #[doc = stub_doc!(SampleMixer.push)]
    fn push(&self, server: usize, rows: usize, frames: &Bound<'_, PyList>) -> PyResult<()> {
        let columns = message_frames(frames)?;
        // Servers are drawn by the sums that they tell in `plan`, so these samples need no sum of their own.
        let samples = Cache::new(&self.shape, rows, 1.0, columns)?;
        Ok(self.lock()?.push(server, samples)?)
    }

    #[doc = stub_doc!(SampleMixer.unused)]
    #[getter]
    fn unused(&self) -> PyResult<Vec<usize>> {
        Ok(self.lock()?.unused())
    }

    #[doc = stub_doc!(SampleMixer.check)]
    #[pyo3(signature = (batch_size, *, out=None))]
    fn check(&self, batch_size: &Bound<'_, PyAny>, out: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let plan = self.laid_out(size("batch_size", batch_size, 1)?)?;
        if let Some(out) = out {
            plan.check(&self.handle, out)?;
        }
        Ok(())
    }

    #[doc = stub_doc!(SampleMixer.plan)]
    #[allow(clippy::needless_pass_by_value)]
    fn plan(&self, batch_size: usize, weights: Vec<f64>) -> PyResult<()> {
        Ok(self.lock()?.plan(batch_size, &weights)?)
    }

    #[doc = stub_doc!(SampleMixer.forget)]
    fn forget(&self, server: usize) -> PyResult<()> {
        self.lock()?.forget(server);
        Ok(())
    }

    #[doc = stub_doc!(SampleMixer.lacking)]
    fn lacking(&self, batch_size: usize) -> PyResult<Vec<usize>> {
        Ok(self.lock()?.lacking(batch_size))
    }

    #[doc = stub_doc!(SampleMixer.get_batch)]
    #[pyo3(signature = (batch_size, *, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Memory first, so that no sample is lost for want of it.
        let rows = size("batch_size", batch_size, 1)?;
        let plan = self.laid_out(rows)?;
        plan.make(py, &self.handle, out, |parts| {
            let taken = self.lock()?.take(rows)?;
            let parts = parts.iter_mut().map(|part| &mut **part).collect();
            py.detach(|| taken.gather(&mut plan.in_sent_order(parts)));
            Ok(())
        })
    }
}
