//! `cogrs.ReplayMemory`: construction, corrections, draws.
//!
//! Its read-only properties are in `memory_properties.rs`, its settings in `settings.rs`, its constructors for
//! spaces of Gymnasium in `spaces.rs`, its files in `memory_files.rs`, and the calls that write, which its base class has, in `writer.rs`.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Error;
use crate::python::args::{
    Normalize, absolute, allow_overcommit, folder_of, integer, normalize, nstep_return, number,
    random, seeded, sequences as sequences_flag, shown, size, text, wrong_type,
};
use crate::python::batch::{self, DrawArgs};
use crate::python::batch_kind::{BatchKind, ImportanceOptions};
use crate::python::compression::compression_args;
use crate::python::exit::{call_python, python_code};
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::numbers::{ids, numbers};
use crate::python::rate_limiter::rate_limiter;
use crate::python::sequence_plan::{SequenceKind, SequenceRow};
use crate::python::sequences::{self, ShapeArgs};
use crate::python::setting_value;
use crate::python::template::{Template, recurrent_args};
use crate::python::view::ReplayView;
use crate::python::wait::Side;
use crate::python::writer::ReplayWriter;
use crate::replay::corrections::{PriorityKind, UPDATE_BYTES_PER_ID};
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::replay::view::ViewSettings;
use crate::spec::{EntrySpec, FIELDS, Field};

#[doc = stub_doc!(ReplayMemory)]
#[pyclass(frozen, extends = ReplayWriter, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayMemory {
    pub(super) handle: Arc<MemoryHandle>,
    pub(super) entry_size: usize,
    pub(super) max_step: usize,
    pub(super) uuid: u32,
    publish: OnceLock<Py<PyAny>>,
}

impl ReplayMemory {
    pub(super) fn assemble(
        memory: Memory,
        templates: [Template; FIELDS],
        recurrent: Option<Template>,
        uuid: u32,
    ) -> PyClassInitializer<Self> {
        let entry_size = memory.spec().entry_size();
        let max_step = memory.max_step();
        let handle = Arc::new(MemoryHandle::new(memory, templates, recurrent));
        let writer = ReplayWriter::new(Arc::clone(&handle));
        let memory = Self { handle, entry_size, max_step, uuid, publish: OnceLock::new() };
        PyClassInitializer::from(writer).add_subclass(memory)
    }
}

#[doc = stub_doc!(publish_through)]
#[pyfunction]
pub fn publish_through(memory: &Bound<'_, ReplayMemory>, publish: Py<PyAny>) -> PyResult<()> {
    let taken = |_| PyRuntimeError::new_err("this memory belongs to a server already");
    memory.get().publish.set(publish).map_err(taken)
}

pub(super) fn of_fields<T>(value_of: impl FnMut(Field) -> PyResult<T>) -> PyResult<[T; FIELDS]> {
    let made = Field::ALL.into_iter().map(value_of).collect::<PyResult<Vec<T>>>()?;
    made.try_into().map_err(|_| Error::State("an entry has seven fields".into()).into())
}

/// Dimensions of an argument that has them, as arrays do.
fn dimensions(value: &Bound<'_, PyAny>) -> usize {
    let stated = value.getattr("ndim").and_then(|ndim| ndim.extract());
    stated.unwrap_or_else(|_| {
        let first = value.get_item(0);
        1 + usize::from(first.is_ok_and(|first| first.len().is_ok()))
    })
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
                        max_step, *, uuid=None, seed=None, allow_overcommit=false, limiter=None,
                        recurrent=None, recurrent_period=None, compress=None, max_bytes=None,
                        storage=None, **settings),
           text_signature = "(state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf, \
                             max_step, *, uuid=None, seed=None, allow_overcommit=False, limiter=None, \
                             recurrent=None, recurrent_period=1, compress=None, max_bytes=None, \
                             storage=None, **settings)")]
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
        limiter: Option<&Bound<'_, PyAny>>,
        recurrent: Option<&Bound<'_, PyAny>>,
        recurrent_period: Option<&Bound<'_, PyAny>>,
        compress: Option<&Bound<'_, PyAny>>,
        max_bytes: Option<&Bound<'_, PyAny>>,
        storage: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let buffers = [state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf];
        let templates = of_fields(|field| Template::new(field, buffers[field.index()]))?;
        let spec = EntrySpec::new(templates.each_ref().map(|template| template.spec().clone()))?;
        let max_step = size("max_step", max_step, 0)?;
        let uuid = match uuid {
            None => random()? as u32,
            Some(uuid) => match integer("uuid", uuid, 0)?.try_into() {
                Ok(uuid) => uuid,
                Err(_) => return Err(Error::value("uuid", "an integer below 2**32", uuid).into()),
            },
        };
        let (recurrent, states) = recurrent_args(recurrent, recurrent_period)?;
        let rng = seeded(seed)?;
        let limiter = limiter.map(rate_limiter).transpose()?;
        let settings = setting_value::from_keywords(Settings::new(spec.reward_dims()), settings)?;
        let compression = compression_args(&spec, compress, max_bytes)?;
        let folder = folder_of(py, storage)?;
        let folder = folder.as_ref();
        let mut memory = py.detach(|| {
            Memory::with_parts(spec, compression, states, folder, max_step, rng, allow_overcommit)
        })?;
        memory.set_settings(settings)?;
        memory.set_limiter(limiter)?;
        Ok(Self::assemble(memory, templates, recurrent, uuid))
    }

    #[doc = stub_doc!(ReplayMemory.writer)]
    fn writer(&self) -> PyResult<ReplayWriter> {
        self.handle.check_process()?;
        Ok(ReplayWriter::new(Arc::clone(&self.handle)))
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
        let arguments = (memory, num_envs, autoreset_mode, do_update_value, do_update_weight);
        call_python!(memory.py(), "cogrs.replay.recorder", "Recorder", arguments)
    }

    #[doc = stub_doc!(ReplayMemory.clear)]
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, LONG, |memory| {
            memory.clear();
            Ok(())
        })
    }

    #[doc = stub_doc!(ReplayMemory.update_priority)]
    #[pyo3(signature = (id, priority, *, absolute=false, mask=None, sequences=false))]
    fn update_priority(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = absolute)] absolute: bool,
        mask: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = sequences_flag)] sequences: bool,
    ) -> PyResult<usize> {
        let kind = if absolute { PriorityKind::Weight } else { PriorityKind::Error };
        let ids = ids(id)?;
        if mask.is_some() || dimensions(priority) > 1 {
            if absolute {
                let got = "errors of the steps of sequences";
                return Err(Error::value("absolute", "False with them", got).into());
            }
            return sequences::update_errors(py, &self.handle, &ids, priority, mask);
        }
        let priorities = numbers("priority", priority)?.repeat("priority", ids.len())?;
        self.handle.call(py, ids.len() * UPDATE_BYTES_PER_ID, |memory| {
            if sequences {
                return memory.update_sequence_priority(&ids, &priorities, kind);
            }
            memory.update_priority(&ids, &priorities, kind)
        })
    }

    #[doc = stub_doc!(ReplayMemory.add_reward)]
    fn add_reward(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        delta: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let id = integer("id", id, 0)?;
        let delta = self.handle.template(Field::Reward).value("delta", delta)?.floats();
        self.handle.call(py, LONG, |memory| memory.add_reward(id, &delta))
    }

    #[doc = stub_doc!(ReplayMemory.get_batch)]
    #[pyo3(signature = (batch_size, *, wait=None, out=None))]
    fn get_batch<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        wait: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = BatchKind::Batch { ids: false, nstep: false };
        let rows = size("batch_size", batch_size, 1)?;
        let wait = self.handle.patience(wait)?;
        let args = DrawArgs { view: None, rows, sampler: None, wait, out };
        batch::draw(py, &self.handle, kind, &args)
    }

    #[doc = stub_doc!(ReplayMemory.sample)]
    #[pyo3(signature = (batch_size, *, nstep_return=false, beta=None, normalize=Normalize::Batch,
                        sampler=None, wait=None, out=None),
           text_signature = "($self, batch_size, *, nstep_return=False, beta=None, normalize='batch', \
                             sampler=None, wait=None, out=None)")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = nstep_return)] nstep_return: bool,
        beta: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = normalize)] normalize: Normalize,
        sampler: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let importance = ImportanceOptions::of(beta, normalize)?;
        let kind = BatchKind::Sample { nstep: nstep_return, importance, counted: false };
        let rows = size("batch_size", batch_size, 1)?;
        let sampler = sampler.map(|name| setting_value::sampler("sampler", name)).transpose()?;
        let wait = self.handle.patience(wait)?;
        batch::draw(py, &self.handle, kind, &DrawArgs { view: None, rows, sampler, wait, out })
    }

    #[doc = stub_doc!(ReplayMemory.sample_sequences)]
    #[pyo3(signature = (n, length, burn_in=None, after=None, period=None, border=None, sampler=None,
                        beta=None, normalize=Normalize::Batch, nstep_return=false, wait=None, out=None),
           text_signature = "($self, n, length, burn_in=0, after=0, period=1, border='clip', \
                             sampler=None, beta=None, normalize='batch', nstep_return=False, wait=None, \
                             out=None)")]
    fn sample_sequences<'py>(
        &self,
        py: Python<'py>,
        n: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
        burn_in: Option<&Bound<'py, PyAny>>,
        after: Option<&Bound<'py, PyAny>>,
        period: Option<&Bound<'py, PyAny>>,
        border: Option<&Bound<'py, PyAny>>,
        sampler: Option<&Bound<'py, PyAny>>,
        beta: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = normalize)] normalize: Normalize,
        #[pyo3(from_py_with = nstep_return)] nstep_return: bool,
        wait: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let count = size("n", n, 1)?;
        let shape = ShapeArgs { length, burn_in, after, period, border }.shape()?;
        let importance = ImportanceOptions::of(beta, normalize)?;
        let sampler = sampler.map(|name| setting_value::sampler("sampler", name)).transpose()?;
        let row = SequenceRow::Sample;
        let kind = SequenceKind { row, nstep: nstep_return, importance, counted: false };
        let wait = self.handle.patience(wait)?;
        let args = DrawArgs { view: None, rows: count, sampler, wait, out };
        sequences::draw(py, &self.handle, kind, shape, &args)
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
        batch::episode(py, &self.handle, index)
    }

    #[doc = stub_doc!(ReplayMemory.stats)]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let handle = &self.handle;
        let counts = handle.call(py, 0, |memory| Ok(memory.limiter_counts()))?;
        let limiter = counts.map(|counts| {
            (
                counts.inserts,
                counts.samples,
                counts.removed,
                handle.waits.seconds(Side::Sample),
                handle.waits.seconds(Side::Insert),
                counts.samples_per_insert(),
            )
        });
        let compressed = self.compressed_use(py)?;
        let storage =
            self.disk_use(py)?.map(|used| (used.folder, used.bytes, used.expected, used.in_memory));
        call_python!(py, "cogrs.replay.stats", "memory_stats", (limiter, compressed, storage))
    }

    #[doc = stub_doc!(ReplayMemory.view)]
    #[pyo3(signature = (name, *, priority_exponent=None, sampler=None, max_times_sampled=None))]
    fn view(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        priority_exponent: Option<&Bound<'_, PyAny>>,
        sampler: Option<&Bound<'_, PyAny>>,
        max_times_sampled: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ReplayView> {
        let name = text("name", "text", name)?;
        if name.is_empty() {
            return Err(Error::value("name", "text that is not empty", "''").into());
        }
        let exponent =
            priority_exponent.map(|value| number("priority_exponent", value)).transpose()?;
        let sampler = sampler.map(|value| setting_value::sampler("sampler", value)).transpose()?;
        let limit = max_times_sampled.map(setting_value::max_times_sampled).transpose()?;
        let key = self.handle.call(py, LONG, |memory| {
            let own = memory.settings();
            let Some(view) = memory.view_of(&name) else {
                return memory.add_view(ViewSettings {
                    name: name.clone(),
                    priority_exponent: exponent.unwrap_or(own.priority_exponent),
                    sampler: sampler.unwrap_or(own.sampler),
                    max_times_sampled: limit.unwrap_or(0),
                });
            };
            let has = view.settings();
            let wrong = |setting: &str, has: &dyn Display, given: &dyn Display| {
                let expected = format!("{has}, which the view {name:?} has");
                Err(Error::value(setting, expected, given))
            };
            match (exponent, sampler, limit) {
                (Some(given), ..) if given != has.priority_exponent => {
                    wrong("priority_exponent", &has.priority_exponent, &given)
                }
                (_, Some(given), _) if given != has.sampler => {
                    wrong("sampler", &has.sampler, &given)
                }
                (.., Some(given)) if given != has.max_times_sampled => {
                    wrong("max_times_sampled", &has.max_times_sampled, &given)
                }
                _ => Ok(view.key()),
            }
        })?;
        Ok(ReplayView::new(Arc::clone(&self.handle), key, name))
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

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a ReplayMemory cannot be pickled or copied: use save() and ReplayMemory.load()",
        ))
    }
}
