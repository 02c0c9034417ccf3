//! The caches that a server has received.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMemoryView, PyTuple};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::python::args::{integer, size};
use crate::python::batch::{arrays, transitions};
use crate::python::cache::bits;
use crate::python::layout::{Kind, Plan};
use crate::python::memory::{ReplayMemory, random};
use crate::python::ready::Ready;
use crate::python::shared::{DETACH_FROM, Shared};
use crate::replay::cache::{Cache, CacheShape};
use crate::replay::cache_store::{CacheStore as Store, Taken};
use crate::replay::ledger::Tally;
use crate::replay::settings::Settings;
use crate::spec::{EntrySpec, FIELDS};

/// Bytes of a Python object that does not change them, kept where they are.
#[derive(Debug)]
struct Frame {
    /// Keeps the bytes where they are.
    _buffer: PyBuffer<u8>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are only ever read, and dropping the buffer takes the interpreter by itself.
unsafe impl Send for Frame {}
// SAFETY: as above.
unsafe impl Sync for Frame {}

impl Frame {
    fn new(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A memoryview fills in the strides that ZeroMQ's frames leave out.
        let buffer = PyBuffer::get(PyMemoryView::from(frame)?.as_any())?;
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("frames: expected bytes that lie together"));
        }
        let start = NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        Ok(Self { start, len: buffer.len_bytes(), _buffer: buffer })
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer is C-contiguous and held by `self`, so its `len` bytes stay where they are;
        // where there is no pointer there are no bytes. Only the server's inbox makes stores and fills
        // them, with frames that it has received and gives to nobody else, so nothing writes to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// See the stub.
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct CacheStore {
    shared: Arc<Shared>,
    store: Mutex<Store<Frame>>,
    /// For the shapes of caches to come.
    spec: EntrySpec,
}

impl CacheStore {
    /// Runs `call` on the store; when it has to wait for that, other Python threads run meanwhile. What
    /// it returns is dropped after the lock is given back: to drop a frame takes the interpreter, for
    /// which nobody may wait with the lock held.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        shape: CacheShape,
        call: impl FnOnce(&mut Store<Frame>) -> T + Send,
    ) -> PyResult<T> {
        self.shared.check_process()?;
        let run = |mut store: MutexGuard<'_, Store<Frame>>| {
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
    fn lock(&self) -> MutexGuard<'_, Store<Frame>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shape(&self) -> CacheShape {
        CacheShape::new(&self.spec, &self.shared.settings())
    }

    /// Takes samples and copies them to `parts`.
    fn take(
        &self,
        py: Python<'_>,
        plan: &Plan,
        shape: CacheShape,
        mut parts: Vec<&mut [u8]>,
    ) -> PyResult<()> {
        let (rows, reuse) = (plan.rows, plan.settings.reuse_cache);
        let taken = self.with(py, shape, |store| store.take(rows, reuse))??;
        if plan.layout.size() <= DETACH_FROM {
            gather(&taken, &plan.settings, &mut parts);
        } else {
            py.detach(|| gather(&taken, &plan.settings, &mut parts));
        }
        Ok(())
    }
}

/// Copies the columns of a batch, weights first, to where its arrays lie: weights last, and nothing for
/// fields that are not carried.
fn gather(taken: &Taken<Frame>, settings: &Settings, parts: &mut [&mut [u8]]) {
    let (fields, weights) = parts.split_at_mut(2 * FIELDS);
    let carried = fields.iter_mut().zip(settings.cache_flags).filter(|(_, flag)| *flag);
    let carried = carried.map(|(part, _)| part);
    let mut columns: Vec<&mut [u8]> =
        weights.iter_mut().chain(carried).map(|part| &mut **part).collect();
    taken.gather(&mut columns);
}

#[pymethods]
impl CacheStore {
    #[new]
    #[pyo3(signature = (memory, n_caches, *, seed=None))]
    fn new(
        memory: &Bound<'_, ReplayMemory>,
        n_caches: &Bound<'_, PyAny>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let capacity = size("n_caches", n_caches, 1)?;
        let seed = seed.map_or_else(random, |seed| integer("seed", seed, 0))?;
        let shared = Arc::clone(memory.get().shared());
        let spec = shared.spec().clone();
        let shape = CacheShape::new(&spec, &shared.settings());
        let store = Store::new(capacity, shape, Xoshiro256PlusPlus::seed_from_u64(seed));
        Ok(Self { shared, store: Mutex::new(store), spec })
    }

    #[pyo3(signature = (rows, weight_sum, frames, *, sender=0, layout=None))]
    fn push(
        &self,
        py: Python<'_>,
        rows: usize,
        weight_sum: f64,
        frames: &Bound<'_, PyList>,
        sender: u32,
        layout: Option<(u32, usize)>,
    ) -> PyResult<bool> {
        self.shared.check_process()?;
        let settings = self.shared.settings();
        if layout.is_some_and(|layout| layout != (bits(&settings), settings.frame_stack)) {
            return Ok(false);
        }
        let columns =
            frames.iter().map(|frame| Frame::new(&frame)).collect::<PyResult<Vec<_>>>()?;
        let shape = CacheShape::new(&self.spec, &settings);
        let cache = Cache::new(&shape, rows, weight_sum, columns)?;
        let oldest = self.with(py, shape, |store| store.push(cache, sender, Instant::now()))?;
        drop(oldest);
        Ok(true)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.shared.check_process()?;
        let now = self.with(py, self.shape(), |store| store.snapshot(Instant::now()))?;
        let tally = |tally: Tally| (tally.caches, tally.samples, tally.bytes);
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

    #[pyo3(signature = (batch_size, *, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = size("batch_size", batch_size, 1)?;
        let settings = self.shared.settings();
        let reuse = settings.reuse_cache;
        let shape = CacheShape::new(&self.spec, &settings);
        self.with(py, shape.clone(), |store| store.check(rows, reuse))??;
        // Memory first, so that no sample is lost for want of it.
        let plan = Plan::new(&self.spec, settings, Kind::Batch, rows)?;
        let dtypes = plan.kind.dtypes(py, &self.shared);
        if let Some(out) = out {
            let mut ready = Ready::new(out, &plan, &dtypes)?;
            self.take(py, &plan, shape, ready.places().slices())?;
            return Ok(out.clone());
        }
        let mut block = self.shared.pool.take(plan.layout.size())?;
        self.take(py, &plan, shape, plan.layout.cut(block.bytes()?))?;
        transitions(py, plan.kind, arrays(py, block, &plan.layout, &dtypes)?)
    }

    fn shortage(&self, py: Python<'_>, batch_size: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let rows = size("batch_size", batch_size, 1)?;
        let reuse = self.shared.settings().reuse_cache;
        let checked = self.with(py, self.shape(), |store| store.check(rows, reuse))?;
        Ok(checked.err().map(|error| error.to_string()))
    }

    #[getter]
    fn weight_sum(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, self.shape(), |store| store.weight_sum())
    }

    #[getter]
    fn num_unused(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, self.shape(), |store| store.unused())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, self.shape(), |store| store.len())
    }
}
