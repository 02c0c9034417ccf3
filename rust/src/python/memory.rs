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
    Normalize, absolute, allow_overcommit, integer, normalize, nstep_return, number, path, shown,
    size, wrong_type,
};
use crate::python::array::{Template, numbers};
use crate::python::batch;
use crate::python::batch_plan::{BatchKind, ExtraColumns, ImportanceOptions};
use crate::python::exit::python_code;
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::setting_value;
use crate::python::writer::ReplayWriter;
use crate::replay::amend::{Priority, UPDATE};
use crate::replay::checkpoint::{self, Saved};
use crate::replay::finite::finite_from_zero;
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::spec::{EntrySpec, FIELDS, Field};

#[doc = stub_doc!(ReplayMemory)]
#[pyclass(frozen, extends = ReplayWriter, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayMemory {
    handle: Arc<MemoryHandle>,
    entry_size: usize,
    max_step: usize,
    nbytes: u64,
    uuid: u32,
    publish: OnceLock<Py<PyAny>>,
}

impl ReplayMemory {
    /// What its handles share.
    pub(super) fn handle(&self) -> &Arc<MemoryHandle> {
        &self.handle
    }

    fn assemble(
        memory: Memory,
        templates: [Template; FIELDS],
        uuid: u32,
    ) -> PyClassInitializer<Self> {
        let entry_size = memory.spec().entry_size();
        let (max_step, nbytes) = (memory.max_step(), memory.nbytes());
        let handle = Arc::new(MemoryHandle::new(memory, templates));
        let writer = ReplayWriter::new(Arc::clone(&handle));
        let memory = Self { handle, entry_size, max_step, nbytes, uuid, publish: OnceLock::new() };
        PyClassInitializer::from(writer).add_subclass(memory)
    }

    fn describe(&self) -> Result<String, std::fmt::Error> {
        let handle = self.handle();
        let settings = handle.settings();
        let mut text = String::new();
        writeln!(text, "ReplayMemory {:08x}", self.uuid)?;
        for field in Field::ALL {
            let spec = handle.template(field).spec();
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
        writeln!(text, "  num_episode: {}", handle.num_episode())?;
        writeln!(text, "  num_entry: {}", handle.num_entry())?;
        writeln!(text, "  num_sampleable: {}", handle.num_sampleable())?;
        write!(text, "  weight_sum: {}", handle.weight_sum())?;
        Ok(text)
    }
}

#[doc = stub_doc!(publish_through)]
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

    #[doc = stub_doc!(ReplayMemory.state_buf)]
    #[getter]
    fn state_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::State).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.action_buf)]
    #[getter]
    fn action_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::Action).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.reward_buf)]
    #[getter]
    fn reward_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::Reward).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.prob_buf)]
    #[getter]
    fn prob_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::Prob).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.value_buf)]
    #[getter]
    fn value_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::Value).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.qvest_buf)]
    #[getter]
    fn qvest_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::Qvest).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.info_buf)]
    #[getter]
    fn info_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle().template(Field::Info).zeros(py)
    }

    #[doc = stub_doc!(ReplayMemory.entry_size)]
    #[getter]
    fn entry_size(&self) -> usize {
        self.entry_size
    }

    #[doc = stub_doc!(ReplayMemory.max_step)]
    #[getter]
    fn max_step(&self) -> usize {
        self.max_step
    }

    #[doc = stub_doc!(ReplayMemory.uuid)]
    #[getter]
    fn uuid(&self) -> u32 {
        self.uuid
    }

    #[doc = stub_doc!(ReplayMemory.nbytes)]
    #[getter]
    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    #[doc = stub_doc!(ReplayMemory.num_entry)]
    #[getter]
    fn num_entry(&self) -> PyResult<usize> {
        self.handle().check_process()?;
        Ok(self.handle().num_entry())
    }

    #[doc = stub_doc!(ReplayMemory.total_episodes)]
    #[getter]
    fn total_episodes(&self) -> PyResult<u64> {
        self.handle().check_process()?;
        Ok(self.handle().totals().0)
    }

    #[doc = stub_doc!(ReplayMemory.total_steps)]
    #[getter]
    fn total_steps(&self) -> PyResult<u64> {
        self.handle().check_process()?;
        Ok(self.handle().totals().1)
    }

    #[doc = stub_doc!(ReplayMemory.weight_sum)]
    #[getter]
    fn weight_sum(&self) -> PyResult<f64> {
        self.handle().check_process()?;
        Ok(self.handle().weight_sum())
    }

    #[doc = stub_doc!(ReplayMemory.num_sampleable)]
    #[getter]
    fn num_sampleable(&self) -> PyResult<usize> {
        self.handle().check_process()?;
        Ok(self.handle().num_sampleable())
    }

    #[doc = stub_doc!(ReplayMemory.min_weight)]
    #[getter]
    fn min_weight(&self, py: Python<'_>) -> PyResult<f32> {
        self.handle().call(py, LONG, |memory| Ok(memory.min_weight()))
    }

    #[doc = stub_doc!(ReplayMemory.num_episode)]
    fn num_episode(&self) -> PyResult<usize> {
        self.handle().check_process()?;
        Ok(self.handle().num_episode())
    }

    fn __len__(&self) -> PyResult<usize> {
        self.num_entry()
    }

    // Without this an empty memory would be false, and `memory or default` a trap.
    fn __bool__(&self) -> bool {
        true
    }

    #[doc = stub_doc!(ReplayMemory.writer)]
    fn writer(&self) -> PyResult<ReplayWriter> {
        self.handle().check_process()?;
        Ok(ReplayWriter::new(Arc::clone(self.handle())))
    }

    #[doc = stub_doc!(ReplayMemory.recorder)]
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

    #[doc = stub_doc!(ReplayMemory.clear)]
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.handle().call(py, LONG, |memory| {
            memory.clear();
            Ok(())
        })
    }

    #[doc = stub_doc!(ReplayMemory.update_priority)]
    #[pyo3(signature = (id, priority, *, absolute=false))]
    fn update_priority(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = absolute)] absolute: bool,
    ) -> PyResult<usize> {
        let kind = if absolute { Priority::Weight } else { Priority::Error };
        let ids = batch::ids(id)?;
        let priorities = numbers("priority", priority)?.repeat("priority", ids.len())?;
        self.handle()
            .call(py, ids.len() * UPDATE, |memory| memory.update_priority(&ids, &priorities, kind))
    }

    #[doc = stub_doc!(ReplayMemory.add_reward)]
    fn add_reward(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        delta: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let id = integer("id", id, 0)?;
        let delta = self.handle().template(Field::Reward).value("delta", delta)?.floats();
        self.handle().call(py, LONG, |memory| memory.add_reward(id, &delta))
    }

    #[doc = stub_doc!(ReplayMemory.get_batch)]
    #[pyo3(signature = (batch_size, *, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = BatchKind::Batch(ExtraColumns::default());
        batch::draw(py, self.handle(), kind, size("batch_size", batch_size, 1)?, out)
    }

    #[doc = stub_doc!(ReplayMemory.sample)]
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
            finite_from_zero("beta", beta)?;
        }
        let weighted = beta.map(|beta| ImportanceOptions { beta, normalize });
        let kind = BatchKind::Sample { nstep: nstep_return, weighted };
        batch::draw(py, self.handle(), kind, size("batch_size", batch_size, 1)?, out)
    }

    #[doc = stub_doc!(ReplayMemory.episode)]
    fn episode<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let index: i64 = match index.extract() {
            Ok(index) => index,
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                return Err(wrong_type("index", "an integer", index));
            }
            Err(_) => {
                return Err(PyIndexError::new_err(format!("no closed episode {}", shown(index))));
            }
        };
        batch::episode(py, self.handle(), index)
    }

    #[doc = stub_doc!(ReplayMemory.save)]
    fn save(&self, py: Python<'_>, #[pyo3(from_py_with = path)] path: PathBuf) -> PyResult<()> {
        self.handle().call(py, LONG, |memory| checkpoint::save(memory, self.uuid, &path))
    }

    #[doc = stub_doc!(ReplayMemory.load)]
    #[staticmethod]
    #[pyo3(signature = (path, *, allow_overcommit=false))]
    fn load(
        py: Python<'_>,
        #[pyo3(from_py_with = path)] path: PathBuf,
        #[pyo3(from_py_with = allow_overcommit)] allow_overcommit: bool,
    ) -> PyResult<Py<Self>> {
        let saved = py.detach(|| Saved::open(&path))?;
        let mut templates = Vec::with_capacity(FIELDS);
        for (field, spec) in Field::ALL.into_iter().zip(saved.fields()) {
            templates.push(Template::saved(py, field, spec)?);
        }
        let uuid = saved.uuid();
        let memory = py.detach(|| saved.load(allow_overcommit))?;
        Py::new(py, Self::assemble(memory, seven(templates)?, uuid))
    }

    #[doc = stub_doc!(ReplayMemory.print_info)]
    fn print_info(&self, py: Python<'_>) -> PyResult<()> {
        self.handle().check_process()?;
        let text = self.describe().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let print = py.import("builtins")?.getattr("print")?;
        python_code(py, || print.call1((text,)))?;
        Ok(())
    }

    #[doc = stub_doc!(ReplayMemory.pub_bytes)]
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
        let handle = self.handle();
        format!(
            "ReplayMemory(uuid=0x{:08x}, num_episode={}, num_entry={}, max_step={}, entry_size={}, \
             nbytes={})",
            self.uuid,
            handle.num_episode(),
            handle.num_entry(),
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
