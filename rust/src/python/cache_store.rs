//! `cogrs._core.CacheStore`: the caches that a server has received.
//!
//! Threads: one lock, of the store. A thread that waits for it has detached from the interpreter; frames, which
//! need the interpreter to be dropped, are dropped after the lock was given back. Copies are made without it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::Result;
use crate::python::args::{seeded, size};
use crate::python::batch::copy_values;
use crate::python::batch_kind::BatchKind;
use crate::python::cache::frames;
use crate::python::cache_bytes::{CacheBytes, CacheFrames, move_to_disk, read_ahead};
use crate::python::cache_compression::{Compressed, decompressed};
use crate::python::cache_plan::CachePlan;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::{DETACH_FROM, MemoryHandle};
use crate::python::message_frame::message_frames;
use crate::replay::cache::{Cache, CacheShape};
use crate::replay::cache_files::{CacheFiles, LARGE_COLUMN};
use crate::replay::cache_store::{CacheStore as Store, Snapshot, TakenSamples};
use crate::replay::sender_counters::CacheCounts;
use crate::replay::settings::Settings;

#[doc = stub_doc!(CacheStore)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct CacheStore {
    handle: Arc<MemoryHandle>,
    store: Mutex<Store<CacheBytes>>,
    kind: BatchKind,
    capacity: usize,
    /// Where large columns of caches lie, if the memory has a folder.
    files: Option<CacheFiles>,
}

impl CacheStore {
    /// Runs `call` on the store; other Python threads run while it waits. Frames that are not kept any more are
    /// returned, to be dropped without the lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        shape: CacheShape,
        call: impl FnOnce(&mut Store<CacheBytes>) -> T + Send,
    ) -> PyResult<T> {
        self.handle.check_process()?;
        let run = |mut store: MutexGuard<'_, Store<CacheBytes>>| {
            let foreign = store.reshape(shape);
            (call(&mut store), foreign)
        };
        let (result, foreign) = match self.store.try_lock() {
            Ok(store) => run(store),
            Err(_) => py.detach(|| run(self.lock())),
        };
        drop(foreign);
        Ok(result)
    }

    /// A panic leaves the store whole: it can only happen before a change.
    fn lock(&self) -> MutexGuard<'_, Store<CacheBytes>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shape(&self, settings: &Arc<Settings>) -> Result<CacheShape> {
        CachePlan::shape(&self.handle, settings, of_caches(self.kind))
    }

    /// Runs `call` on the store under the settings in force.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Store<CacheBytes>) -> T + Send,
    ) -> PyResult<T> {
        self.handle.check_process()?;
        self.with(py, self.shape(&self.handle.settings())?, call)
    }

    fn take(
        &self,
        py: Python<'_>,
        plan: &CachePlan,
        rows: usize,
        shape: CacheShape,
        parts: &mut [&mut [u8]],
    ) -> PyResult<(f64, usize)> {
        let reuse = plan.settings().reuse_cache;
        let (taken, left) = self.with(py, shape, |store| {
            let taken = store.take(rows, reuse);
            (taken, (store.offered(), store.unused()))
        })?;
        let taken = taken?;
        if self.files.is_some() {
            py.detach(|| read_ahead(&taken));
        }
        if plan.layout().size() <= DETACH_FROM {
            gather(&taken, plan, parts);
        } else {
            py.detach(|| gather(&taken, plan, parts));
        }
        Ok(left)
    }
}

fn gather(taken: &TakenSamples<CacheBytes>, plan: &CachePlan, parts: &mut [&mut [u8]]) {
    let parts = parts.iter_mut().map(|part| &mut **part).collect();
    let mut parts = plan.in_sent_order(parts);
    // Only the store knows the sender of a cache; the other columns are those of caches.
    let senders = plan.sender().map(|at| parts.remove(at));
    taken.gather(&mut parts);
    if let Some(senders) = senders {
        copy_values(senders, taken.senders());
    }
}

/// The metrics of a moment as `stats` returns them.
fn figures(py: Python<'_>, now: Snapshot) -> PyResult<Bound<'_, PyTuple>> {
    let tally = |tally: CacheCounts| (tally.caches, tally.samples, tally.bytes);
    let clients = PyDict::new(py);
    for (client, sent) in now.clients {
        clients.set_item(client, tally(sent))?;
    }
    let items = (
        now.held,
        now.unused,
        now.weight_sum,
        now.given,
        now.discarded,
        now.oldest.map(|age| age.as_secs_f64()),
        now.newest.map(|age| age.as_secs_f64()),
        tally(now.received),
        tally(now.others),
        clients,
    );
    items.into_pyobject(py)
}

/// The kind of the caches that batches of a kind are made of.
fn of_caches(kind: BatchKind) -> BatchKind {
    match kind {
        BatchKind::Batch { ids, nstep } => BatchKind::Cache { ids, nstep },
        other => other,
    }
}

#[pymethods]
impl CacheStore {
    #[new]
    #[pyo3(signature = (memory, n_caches, *, ids=false, nstep=false, seed=None))]
    fn new(
        py: Python<'_>,
        memory: &Bound<'_, ReplayMemory>,
        n_caches: &Bound<'_, PyAny>,
        ids: bool,
        nstep: bool,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let capacity = size("n_caches", n_caches, 1)?;
        let rng = seeded(seed)?;
        let handle = Arc::clone(&memory.get().handle);
        let kind = BatchKind::Batch { ids, nstep };
        let shape = CachePlan::shape(&handle, &handle.settings(), of_caches(kind))?;
        let files =
            handle.call(py, 0, |memory| Ok(memory.folder().cloned().map(CacheFiles::new)))?;
        Ok(Self {
            handle,
            store: Mutex::new(Store::new(capacity, shape, rng)),
            kind,
            capacity,
            files,
        })
    }

    #[doc = stub_doc!(CacheStore.push)]
    #[pyo3(signature = (rows, weight_sum, frames, *, sender=0, layout=None, next=0, compressed=0,
                        max_frame=0))]
    #[expect(clippy::too_many_arguments, reason = "those of Python")]
    fn push(
        &self,
        py: Python<'_>,
        rows: usize,
        weight_sum: f64,
        frames: &Bound<'_, PyList>,
        sender: u32,
        layout: Option<(u32, usize)>,
        next: usize,
        compressed: u64,
        max_frame: usize,
    ) -> PyResult<bool> {
        self.handle.check_process()?;
        let settings = self.handle.settings();
        if layout.is_some_and(|layout| layout != CachePlan::sent_layout(&self.handle, &settings)) {
            return Ok(false);
        }
        let shape = self.shape(&settings)?;
        let frames = message_frames(frames)?.into_iter().map(CacheBytes::Received).collect();
        let frames = match compressed {
            0 => frames,
            bits => {
                let by = Compressed { bits, max_frame };
                decompressed(py, &self.handle, &settings, &shape, rows, frames, by)?
            }
        };
        let mut cache = Cache::new(&shape, rows, weight_sum, frames)?;
        if let Some(files) = &self.files {
            drop(py.detach(|| move_to_disk(&mut cache, files))?);
        }
        let oldest = self.with(py, shape, |store| {
            let oldest = store.push(cache, sender, Instant::now());
            store.resume_newest(next);
            oldest
        })?;
        drop(oldest);
        Ok(true)
    }

    #[doc = stub_doc!(CacheStore.held)]
    fn held<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyTuple>)> {
        let (held, now) = self.read(py, |store| (store.held(), store.snapshot(Instant::now())))?;
        let items = held.into_iter().map(|held| {
            let cache = &held.cache;
            let frames = Bound::new(py, CacheFrames { cache: Arc::clone(cache) })?;
            (cache.rows(), cache.weight_sum(), held.sender, held.next, frames).into_pyobject(py)
        });
        Ok((PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?, figures(py, now)?))
    }

    #[doc = stub_doc!(CacheStore.resume)]
    fn resume(
        &self,
        py: Python<'_>,
        given: u64,
        discarded: u64,
        received: [u64; 3],
        others: [u64; 3],
        clients: Vec<(u32, [u64; 3])>,
    ) -> PyResult<()> {
        let counts = |[caches, samples, bytes]: [u64; 3]| CacheCounts { caches, samples, bytes };
        let clients: Vec<_> =
            clients.into_iter().map(|(name, sent)| (name, counts(sent))).collect();
        self.read(py, |store| {
            let before = Snapshot {
                given,
                discarded,
                received: counts(received),
                others: counts(others),
                clients,
                ..store.snapshot(Instant::now())
            };
            store.resume(&before);
        })
    }

    #[doc = stub_doc!(CacheStore.stats)]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let now = self.read(py, |store| store.snapshot(Instant::now()))?;
        figures(py, now)
    }

    #[doc = stub_doc!(CacheStore.get_batch)]
    #[pyo3(signature = (batch_size, *, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = size("batch_size", batch_size, 1)?;
        let settings = self.handle.settings();
        let reuse = settings.reuse_cache;
        let shape = self.shape(&settings)?;
        self.with(py, shape.clone(), |store| store.check(rows, reuse))??;
        // Memory first, so that no sample is lost for want of it.
        let plan = CachePlan::new(&self.handle, settings, self.kind, rows)?;
        plan.make(py, &self.handle, out, |parts| self.take(py, &plan, rows, shape, parts).map(drop))
    }

    #[doc = stub_doc!(CacheStore.give)]
    fn give<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Bound<'py, PyTuple>> {
        self.handle.check_process()?;
        let settings = self.handle.settings();
        let (flags, frame_stack) = CachePlan::sent_layout(&self.handle, &settings);
        let reuse = settings.reuse_cache;
        let shape = self.shape(&settings)?;
        let (checked, (offered, unused)) = self.with(py, shape.clone(), |store| {
            (store.check(rows, reuse), (store.offered(), store.unused()))
        })?;
        let shortage = checked.err().map(|error| error.to_string());
        if rows == 0 || shortage.is_some() {
            let nothing = PyList::empty(py);
            return (offered, unused, flags, frame_stack, nothing, shortage).into_pyobject(py);
        }
        let plan = CachePlan::new(&self.handle, settings, self.kind, rows)?;
        let mut block = self.handle.pool.take(plan.layout().size())?;
        let mut parts = plan.layout().cut(block.bytes());
        let (offered, unused) = self.take(py, &plan, rows, shape, &mut parts)?;
        let frames = frames(py, block, &plan)?;
        (offered, unused, flags, frame_stack, frames, shortage).into_pyobject(py)
    }

    #[doc = stub_doc!(CacheStore.shortage)]
    fn shortage(&self, py: Python<'_>, batch_size: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let rows = size("batch_size", batch_size, 1)?;
        let reuse = self.handle.settings().reuse_cache;
        let checked = self.read(py, |store| store.check(rows, reuse))?;
        Ok(checked.err().map(|error| error.to_string()))
    }

    #[doc = stub_doc!(CacheStore.check_room)]
    fn check_room(&self) -> PyResult<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let settings = self.handle.settings();
        let rows = settings.cache_size;
        let shape = self.shape(&settings)?;
        let columns = shape.sizes().iter().map(|size| size.saturating_mul(rows));
        let bytes = columns.filter(|&bytes| bytes >= LARGE_COLUMN).fold(0, usize::saturating_add);
        Ok(files.check_room(self.capacity, bytes)?)
    }

    #[doc = stub_doc!(CacheStore.bytes_on_disk)]
    #[getter]
    fn bytes_on_disk(&self) -> u64 {
        self.files.as_ref().map_or(0, CacheFiles::held)
    }

    #[doc = stub_doc!(CacheStore.weight_sum)]
    #[getter]
    fn weight_sum(&self, py: Python<'_>) -> PyResult<f64> {
        self.read(py, |store| store.weight_sum())
    }

    #[doc = stub_doc!(CacheStore.num_unused)]
    #[getter]
    fn num_unused(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |store| store.unused())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |store| store.len())
    }
}
