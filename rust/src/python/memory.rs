//! `cogrs.ReplayMemory`.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rand::TryRng;
use rand::rngs::SysRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::error::Error;
use crate::python::args::{
    Normalize, absolute, allow_overcommit, integer, mistyped, normalize, nstep_return, number,
    path, shown, size,
};
use crate::python::array::{Template, numbers};
use crate::python::batch;
use crate::python::exit::python_code;
use crate::python::layout::{Carried, Correction, Kind};
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::setting_value;
use crate::python::writer::ReplayWriter;
use crate::replay::checkpoint::{self, CheckpointFile};
use crate::replay::corrections::{PriorityKind, UPDATE_BYTES_PER_ID};
use crate::replay::finite::check_non_negative;
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::spec::{EntrySpec, FIELDS, Field};

/// A ring of whole episodes with prioritized sampling.
///
/// The contract of each call, with dtypes, shapes, errors and formulas, is in `cogrs/_core.pyi`.
#[pyclass(frozen, extends = ReplayWriter, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayMemory {
    shared: Arc<MemoryHandle>,
    entry_size: usize,
    max_step: usize,
    nbytes: u64,
    uuid: u32,
    publish: OnceLock<Py<PyAny>>,
}

impl ReplayMemory {
    /// What its handles share.
    pub(super) fn shared(&self) -> &Arc<MemoryHandle> {
        &self.shared
    }

    fn assemble(
        memory: Memory,
        templates: [Template; FIELDS],
        uuid: u32,
    ) -> PyClassInitializer<Self> {
        let entry_size = memory.spec().entry_size();
        let (max_step, nbytes) = (memory.max_step(), memory.nbytes());
        let shared = Arc::new(MemoryHandle::new(memory, templates));
        let writer = ReplayWriter::new(Arc::clone(&shared));
        let memory = Self { shared, entry_size, max_step, nbytes, uuid, publish: OnceLock::new() };
        PyClassInitializer::from(writer).add_subclass(memory)
    }

    fn describe(&self) -> Result<String, std::fmt::Error> {
        let shared = self.shared();
        let settings = shared.settings();
        let mut text = String::new();
        writeln!(text, "ReplayMemory {:08x}", self.uuid)?;
        for field in Field::ALL {
            let spec = shared.template(field).spec();
            let shape = crate::spec::shape_text(&spec.shape);
            writeln!(
                text,
                "  {}_buf: {} {shape}, {} bytes",
                field.name(),
                spec.dtype_name(),
                spec.nbytes()
            )?;
        }
        writeln!(text, "  entry_size: {} bytes", self.entry_size)?;
        writeln!(text, "  max_step: {}", self.max_step)?;
        writeln!(text, "  nbytes: {} (at most, with episodes of one step)", self.nbytes)?;
        writeln!(text, "  priority_exponent: {}", settings.priority_exponent)?;
        writeln!(text, "  mix_lambda: {}", settings.mix_lambda)?;
        writeln!(text, "  frame_stack: {}", settings.frame_stack)?;
        writeln!(text, "  multi_step: {}", settings.multi_step)?;
        writeln!(text, "  cache_size: {}", settings.cache_size)?;
        writeln!(text, "  max_episode: {}", settings.max_episode)?;
        writeln!(text, "  reuse_cache: {}", settings.reuse_cache)?;
        writeln!(text, "  discount_factor: {:?}", settings.discount_factor)?;
        writeln!(text, "  reward_coeff: {:?}", settings.reward_coeff)?;
        writeln!(text, "  cache_flags: {:?}", settings.cache_flags.map(u8::from))?;
        writeln!(text, "  new_priority: {}", settings.new_priority)?;
        writeln!(text, "  priority_epsilon: {}", settings.priority_epsilon)?;
        writeln!(text, "  frame_padding: {}", settings.frame_padding)?;
        writeln!(text, "  num_episode: {}", shared.num_episode())?;
        writeln!(text, "  num_entry: {}", shared.num_entry())?;
        writeln!(text, "  num_sampleable: {}", shared.num_sampleable())?;
        write!(text, "  weight_sum: {}", shared.weight_sum())?;
        Ok(text)
    }
}

/// Gives a memory somewhere to publish to, once. See the stub.
///
/// # Errors
/// `RuntimeError` when it has that already.
#[pyfunction]
pub fn publish_through(memory: &Bound<'_, ReplayMemory>, publish: Py<PyAny>) -> PyResult<()> {
    let taken = |_| PyRuntimeError::new_err("this memory belongs to a server already");
    memory.get().publish.set(publish).map_err(taken)
}

fn seven(templates: Vec<Template>) -> PyResult<[Template; FIELDS]> {
    let wrong = |_| PyRuntimeError::new_err("an entry has seven fields");
    templates.try_into().map_err(wrong)
}

pub(super) fn random() -> PyResult<u64> {
    let failed =
        |error| PyRuntimeError::new_err(format!("the system's random source failed: {error}"));
    SysRng.try_next_u64().map_err(failed)
}

// The signatures are those of the published interface and of Python's protocols.
#[allow(
    clippy::too_many_arguments,
    clippy::many_single_char_names,
    clippy::unused_self,
    clippy::needless_pass_by_value
)]
#[pymethods]
impl ReplayMemory {
    #[new]
    #[pyo3(signature = (state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf,
                        max_step, *, uuid=None, seed=None, allow_overcommit=false, **settings),
           text_signature = "(state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf, \
                             max_step, *, uuid=None, seed=None, allow_overcommit=False, **settings)")]
    fn new(
        py: Python<'_>,
        state_buf: &Bound<'_, PyAny>,
        action_buf: &Bound<'_, PyAny>,
        reward_buf: &Bound<'_, PyAny>,
        prob_buf: &Bound<'_, PyAny>,
        value_buf: &Bound<'_, PyAny>,
        qvest_buf: &Bound<'_, PyAny>,
        info_buf: &Bound<'_, PyAny>,
        max_step: &Bound<'_, PyAny>,
        uuid: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = allow_overcommit)] allow_overcommit: bool,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let buffers = [state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf];
        let mut templates = Vec::with_capacity(FIELDS);
        for (field, buffer) in Field::ALL.into_iter().zip(buffers) {
            templates.push(Template::new(field, buffer)?);
        }
        let templates = seven(templates)?;
        let spec = EntrySpec::new(templates.each_ref().map(|template| template.spec().clone()))?;
        let max_step = size("max_step", max_step, 0)?;
        let uuid = match uuid {
            None => random()? as u32,
            Some(uuid) => match integer("uuid", uuid, 0)?.try_into() {
                Ok(uuid) => uuid,
                Err(_) => return Err(Error::value("uuid", "an integer below 2**32", uuid).into()),
            },
        };
        let seed = seed.map_or_else(random, |seed| integer("seed", seed, 0))?;
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let settings = setting_value::from_keywords(Settings::new(spec.reward_dims()), settings)?;
        let mut memory = py.detach(|| Memory::new(spec, max_step, rng, allow_overcommit))?;
        memory.set_settings(settings);
        Ok(Self::assemble(memory, templates, uuid))
    }

    /// Template of state: zeros of its dtype and shape.
    #[getter]
    fn state_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::State).zeros(py)
    }

    /// Template of action: zeros of its dtype and shape.
    #[getter]
    fn action_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::Action).zeros(py)
    }

    /// Template of reward: zeros, float32, shape () or (R,).
    #[getter]
    fn reward_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::Reward).zeros(py)
    }

    /// Template of prob: zero, float32, shape ().
    #[getter]
    fn prob_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::Prob).zeros(py)
    }

    /// Template of value: zeros, float32, reward's shape or size 0.
    #[getter]
    fn value_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::Value).zeros(py)
    }

    /// Template of qvest: zeros, float32, reward's shape or size 0.
    #[getter]
    fn qvest_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::Qvest).zeros(py)
    }

    /// Template of info: zeros of its dtype and shape.
    #[getter]
    fn info_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared().template(Field::Info).zeros(py)
    }

    /// Bytes of one entry: the plain sum of its seven sizes.
    #[getter]
    fn entry_size(&self) -> usize {
        self.entry_size
    }

    /// Entries held at most.
    #[getter]
    fn max_step(&self) -> usize {
        self.max_step
    }

    /// 32-bit number that names this memory.
    #[getter]
    fn uuid(&self) -> u32 {
        self.uuid
    }

    /// Bytes of entries, weights and bookkeeping, if it is full of episodes of one step.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// Entries held now, those of open episodes included.
    #[getter]
    fn num_entry(&self) -> PyResult<usize> {
        self.shared().check_process()?;
        Ok(self.shared().num_entry())
    }

    /// Episodes ever closed, evicted since or not.
    #[getter]
    fn total_episodes(&self) -> PyResult<u64> {
        self.shared().check_process()?;
        Ok(self.shared().totals().0)
    }

    /// Entries of the episodes ever closed, final states left out: the steps taken.
    #[getter]
    fn total_steps(&self) -> PyResult<u64> {
        self.shared().check_process()?;
        Ok(self.shared().totals().1)
    }

    /// Sum of the sampling weights of all entries that can be drawn now.
    #[getter]
    fn weight_sum(&self) -> PyResult<f64> {
        self.shared().check_process()?;
        Ok(self.shared().weight_sum())
    }

    /// Entries that can be drawn now: those with a weight above 0.
    #[getter]
    fn num_sampleable(&self) -> PyResult<usize> {
        self.shared().check_process()?;
        Ok(self.shared().num_sampleable())
    }

    /// Smallest weight of an entry that can be drawn now; 0.0 when there is none.
    #[getter]
    fn min_weight(&self, py: Python<'_>) -> PyResult<f32> {
        self.shared().call(py, LONG, |memory| Ok(memory.min_weight()))
    }

    /// Closed episodes held now.
    fn num_episode(&self) -> PyResult<usize> {
        self.shared().check_process()?;
        Ok(self.shared().num_episode())
    }

    fn __len__(&self) -> PyResult<usize> {
        self.num_entry()
    }

    // Without this an empty memory would be false, and `memory or default` a trap.
    fn __bool__(&self) -> bool {
        true
    }

    /// Another writer into this memory, with an open episode of its own.
    fn writer(&self) -> PyResult<ReplayWriter> {
        self.shared().check_process()?;
        Ok(ReplayWriter::new(Arc::clone(self.shared())))
    }

    /// Create a recorder of the steps of a vector environment.
    #[pyo3(signature = (num_envs, autoreset_mode=None, *, do_update_value=None, do_update_weight=None))]
    fn recorder<'py>(
        memory: &Bound<'py, Self>,
        num_envs: &Bound<'py, PyAny>,
        autoreset_mode: Option<&Bound<'py, PyAny>>,
        do_update_value: Option<&Bound<'py, PyAny>>,
        do_update_weight: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = memory.py();
        let class = py.import("cogrs.replay.recorder")?.getattr("Recorder")?;
        let given = (memory, num_envs, autoreset_mode, do_update_value, do_update_weight);
        python_code(py, || class.call1(given))
    }

    /// Drop all entries, open episodes included; ids go on from where they were.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.shared().call(py, LONG, |memory| {
            memory.clear();
            Ok(())
        })
    }

    /// Make weights anew from errors, or set them.
    #[pyo3(signature = (id, priority, *, absolute=false))]
    fn update_priority(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = absolute)] absolute: bool,
    ) -> PyResult<usize> {
        let kind = if absolute { PriorityKind::Weight } else { PriorityKind::Error };
        let ids = batch::ids(id)?;
        let priorities = numbers("priority", priority)?.repeat("priority", ids.len())?;
        self.shared().call(py, ids.len() * UPDATE_BYTES_PER_ID, |memory| {
            memory.update_priority(&ids, &priorities, kind)
        })
    }

    /// Add to a stored reward, in an open or a closed episode.
    fn add_reward(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        delta: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let id = integer("id", id, 0)?;
        let delta = self.shared().template(Field::Reward).value("delta", delta)?.floats();
        self.shared().call(py, LONG, |memory| memory.add_reward(id, &delta))
    }

    /// Draw transitions, with replacement, each with probability `weight / weight_sum`.
    #[pyo3(signature = (batch_size, *, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = Kind::Batch(Carried::default());
        batch::draw(py, self.shared(), kind, size("batch_size", batch_size, 1)?, out)
    }

    /// Draw as `get_batch` does, with more about each row.
    #[pyo3(signature = (batch_size, *, nstep_return=false, beta=None, normalize=Normalize::Batch, out=None),
           text_signature = "($self, batch_size, *, nstep_return=False, beta=None, normalize='batch', \
                             out=None)")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = nstep_return)] nstep_return: bool,
        beta: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = normalize)] normalize: Normalize,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let beta = beta.map(|beta| number("beta", beta)).transpose()?;
        if let Some(beta) = beta {
            check_non_negative("beta", beta)?;
        }
        let weighted = beta.map(|beta| Correction { beta, normalize });
        let kind = Kind::Sample { nstep: nstep_return, weighted };
        batch::draw(py, self.shared(), kind, size("batch_size", batch_size, 1)?, out)
    }

    /// A copy of a closed episode.
    fn episode<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let index: i64 = match index.extract() {
            Ok(index) => index,
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                return Err(mistyped("index", "an integer", index));
            }
            Err(_) => {
                return Err(PyIndexError::new_err(format!("no closed episode {}", shown(index))));
            }
        };
        batch::episode(py, self.shared(), index)
    }

    /// Write closed episodes, settings and the state of the draws to a file.
    fn save(&self, py: Python<'_>, #[pyo3(from_py_with = path)] path: PathBuf) -> PyResult<()> {
        self.shared().call(py, LONG, |memory| checkpoint::save(memory, self.uuid, &path))
    }

    /// Make a memory from a file that `save` wrote, to go on where that stood.
    #[staticmethod]
    #[pyo3(signature = (path, *, allow_overcommit=false))]
    fn load(
        py: Python<'_>,
        #[pyo3(from_py_with = path)] path: PathBuf,
        #[pyo3(from_py_with = allow_overcommit)] allow_overcommit: bool,
    ) -> PyResult<Py<Self>> {
        let saved = py.detach(|| CheckpointFile::open(&path))?;
        let mut templates = Vec::with_capacity(FIELDS);
        for (field, spec) in Field::ALL.into_iter().zip(saved.fields()) {
            templates.push(Template::saved(py, field, spec)?);
        }
        let uuid = saved.uuid();
        let memory = py.detach(|| saved.load(allow_overcommit))?;
        Py::new(py, Self::assemble(memory, seven(templates)?, uuid))
    }

    /// Print sizes, settings and fill to `sys.stdout`.
    fn print_info(&self, py: Python<'_>) -> PyResult<()> {
        self.shared().check_process()?;
        let text = self.describe().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let print = py.import("builtins")?.getattr("print")?;
        python_code(py, || print.call1((text,)))?;
        Ok(())
    }

    /// Publish a message, as `ReplayMemoryServer.pub_bytes` of the memory's server.
    fn pub_bytes(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyAny>,
        message: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(publish) = self.publish.get() else {
            return Err(PyRuntimeError::new_err(
                "this memory belongs to no server, so there is nowhere to publish to",
            ));
        };
        python_code(py, || publish.call1(py, (topic, message)))?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        let shared = self.shared();
        format!(
            "ReplayMemory(uuid=0x{:08x}, num_episode={}, num_entry={}, max_step={}, entry_size={}, \
             nbytes={})",
            self.uuid,
            shared.num_episode(),
            shared.num_entry(),
            self.max_step,
            self.entry_size,
            self.nbytes
        )
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a ReplayMemory cannot be pickled or copied: use save() and ReplayMemory.load()",
        ))
    }
}
