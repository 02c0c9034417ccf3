//! `cogrs._core.TransitionWriter`: transitions of several environments, as `cogrs.sb3.ReplayBuffer` gets them.
//!
//! Threads: the writer's lock is only taken while the memory's is held.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::npyffi::NPY_TYPES;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::python::args::{Normalize, integer, size, wrong_type};
use crate::python::array::is_plain;
use crate::python::batch::{arrays, copy_values, importance, transitions};
use crate::python::batch_kind::{BatchKind, ImportanceOptions};
use crate::python::batch_plan::{BatchLayout, BatchPlan};
use crate::python::exit::call_python;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::value_bytes::ValueBytes;
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::replay::transition_writer::{Drawn, TransitionWriter as Writer, Transitions};
use crate::spec::{FIELDS, Field};

/// A flag for each environment; of as many as most runs have, without an allocation.
type Flags = SmallVec<[bool; 32]>;

/// The bytes of a reward for each environment, likewise.
type Rewards = SmallVec<[u8; 128]>;

#[doc = stub_doc!(TransitionWriter)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct TransitionWriter {
    handle: Arc<MemoryHandle>,
    writer: Mutex<Writer>,
    num_envs: usize,
    /// Shapes of the arrays of observations and of actions.
    shapes: [Vec<usize>; 2],
    /// Frames of an observation.
    stack: usize,
    /// Bytes of the observations of one call.
    shown: usize,
    /// Whether infos say which episodes were truncated.
    timeouts: bool,
}

impl TransitionWriter {
    /// Rows of a field. Where the shape differs but not the number of elements, rows are reshaped if `reshape`.
    fn rows<'py>(
        &self,
        name: &str,
        field: Field,
        shape: &[usize],
        value: &Bound<'py, PyAny>,
        reshape: bool,
    ) -> PyResult<ValueBytes<'py>> {
        let py = value.py();
        let dtype = self.handle.template(field).dtype();
        if let Ok(array) = value.cast_exact::<PyUntypedArray>() {
            let found = array.shape();
            let elements: usize = shape.iter().product();
            let same = reshape && array.len() == elements && found.first() == shape.first();
            if is_plain(array, dtype, &[], if same { found } else { shape }) {
                return Ok(ValueBytes::Array(array.clone()));
            }
        }
        let shape = PyTuple::new(py, shape)?;
        let reshaped =
            if reshape { call_python!(py, "numpy", "reshape", (value, &shape)).ok() } else { None };
        let value = reshaped.as_ref().unwrap_or(value);
        let arguments = (name, value, dtype, shape);
        let array = call_python!(py, "cogrs.replay.convert", "convert", arguments)?;
        Ok(ValueBytes::Array(array.cast_into::<PyUntypedArray>()?))
    }

    fn flags(&self, done: &Bound<'_, PyAny>) -> PyResult<Flags> {
        let py = done.py();
        let shape = PyTuple::new(py, [self.num_envs])?;
        let array = match done.cast_exact::<PyUntypedArray>() {
            Ok(array)
                if array.shape() == [self.num_envs]
                    && array.is_c_contiguous()
                    && array.dtype().num() == NPY_TYPES::NPY_BOOL as i32 =>
            {
                array.clone()
            }
            _ => {
                // Flags as float32 are usual too.
                let dtype = numpy::dtype::<bool>(py);
                let flags = call_python!(py, "numpy", "asarray", (done, &dtype))?;
                let arguments = ("done", flags, &dtype, shape);
                let flags = call_python!(py, "cogrs.replay.convert", "convert", arguments)?;
                flags.cast_into::<PyUntypedArray>()?
            }
        };
        Ok(ValueBytes::Array(array)
            .exactly("done", self.num_envs)?
            .iter()
            .map(|&flag| flag != 0)
            .collect())
    }

    /// Whether each episode that ended was truncated and has not terminated.
    fn truncated(&self, done: &[bool], infos: &Bound<'_, PyAny>) -> PyResult<Flags> {
        let mut truncated = Flags::from_elem(false, done.len());
        if !self.timeouts || !done.contains(&true) {
            return Ok(truncated);
        }
        let key = intern!(infos.py(), "TimeLimit.truncated");
        if let Ok(infos) = infos.cast::<PyDict>() {
            // Of Gymnasium's vector environments: an array by key.
            if let Some(flags) = infos.get_item(key)? {
                for env in (0..done.len()).filter(|&env| done[env]) {
                    truncated[env] = flags.get_item(env)?.is_truthy()?;
                }
            }
            return Ok(truncated);
        }
        let infos =
            infos.cast::<PyList>().map_err(|_| wrong_type("infos", "a list of dicts", infos))?;
        if infos.len() != done.len() {
            return Err(Error::value("infos", format!("{} dicts", done.len()), infos.len()).into());
        }
        for env in (0..done.len()).filter(|&env| done[env]) {
            let info = infos.get_item(env)?;
            let info =
                info.cast::<PyDict>().map_err(|_| wrong_type("infos", "a list of dicts", &info))?;
            if let Some(flag) = info.get_item(key)? {
                truncated[env] = flag.is_truthy()?;
            }
        }
        Ok(truncated)
    }

    /// Fails when observations have another shape by now.
    fn check_stack(&self, memory: &Memory) -> Result<()> {
        let stack = memory.settings().frame_stack;
        if stack == self.stack {
            return Ok(());
        }
        Err(Error::State(format!(
            "frame_stack was {} when this TransitionWriter was created and is {stack} now: set it \
             back, or create another writer",
            self.stack
        )))
    }

    fn locked<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        call: impl FnOnce(&mut Writer, &mut Memory) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.handle.call(py, bytes, |memory| {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            call(&mut writer, memory)
        })
    }
}

// The signatures are those of the published interface and of Python's protocols.
#[allow(clippy::too_many_arguments, clippy::unused_self)]
#[pymethods]
impl TransitionWriter {
    #[new]
    #[pyo3(signature = (memory, num_envs, capacity, *, piece, timeouts=true, added=0))]
    fn new(
        memory: &Bound<'_, ReplayMemory>,
        num_envs: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        piece: &Bound<'_, PyAny>,
        timeouts: bool,
        added: u64,
    ) -> PyResult<Self> {
        let handle = Arc::clone(&memory.get().handle);
        handle.check_process()?;
        let (num_envs, capacity) = (size("num_envs", num_envs, 1)?, size("capacity", capacity, 1)?);
        let piece = integer("piece", piece, 1)? as usize;
        let spec = handle.spec();
        if spec[Field::Info].nbytes() != size_of::<u64>() || spec.reward_dims() != 1 {
            let expected = "one whose info has 8 bytes, and whose reward is a number";
            return Err(Error::value("memory", expected, "another").into());
        }
        handle.call(memory.py(), 0, |memory| memory.check_can_grow())?;
        let stack = handle.settings().frame_stack;
        let [mut state, action] = [Field::State, Field::Action]
            .map(|field| [&[num_envs], spec[field].shape.as_slice()].concat());
        if let Some(channels) = state.get_mut(1) {
            *channels *= stack;
        }
        let shown = num_envs * spec[Field::State].nbytes() * stack;
        let writer = Mutex::new(Writer::new(num_envs, capacity, piece, added));
        Ok(Self { writer, num_envs, shapes: [state, action], stack, shown, timeouts, handle })
    }

    #[doc = stub_doc!(TransitionWriter.add)]
    fn add(
        &self,
        py: Python<'_>,
        obs: &Bound<'_, PyAny>,
        next_obs: &Bound<'_, PyAny>,
        action: &Bound<'_, PyAny>,
        reward: &Bound<'_, PyAny>,
        done: &Bound<'_, PyAny>,
        infos: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.handle.check_process()?;
        let [states, actions] = &self.shapes;
        // A number for each environment is a row of one element, too.
        let reshape = states.len() == 2 && states[1] == 1;
        let obs = self.rows("obs", Field::State, states, obs, reshape)?;
        let next_obs = self.rows("next_obs", Field::State, states, next_obs, reshape)?;
        let action = self.rows("action", Field::Action, actions, action, true)?;
        let reward = self.handle.template(Field::Reward).values("reward", reward, self.num_envs)?;
        let done = self.flags(done)?;
        let truncated = self.truncated(&done, infos)?;
        let bytes = |field| self.handle.spec()[field].nbytes() * self.num_envs;
        // Read more than once, so what is checked must be what is stored.
        let reward = Rewards::from_slice(reward.exactly("reward", bytes(Field::Reward))?);
        let given = Transitions {
            states: obs.exactly("obs", self.shown)?,
            next_states: next_obs.exactly("next_obs", self.shown)?,
            actions: action.exactly("action", bytes(Field::Action))?,
            rewards: &reward,
            done: &done,
            truncated: &truncated,
        };
        self.locked(py, 2 * self.shown, |writer, memory| {
            self.check_stack(memory)?;
            writer.add(memory, given)
        })
    }

    #[doc = stub_doc!(TransitionWriter.sample)]
    #[pyo3(signature = (batch_size, *, beta=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: &Bound<'py, PyAny>,
        beta: Option<f64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.handle.check_process()?;
        let rows = size("batch_size", batch_size, 1)?;
        let spec = self.handle.spec();
        let [states, actions] = self.shapes.each_ref().map(|shape| &shape[1..]);
        let mut layout = BatchLayout::default();
        let mut dtypes = Vec::new();
        for (field, shape) in
            [(Field::State, states), (Field::Action, actions), (Field::State, states)]
        {
            layout.push(rows, shape, spec[field].itemsize)?;
            dtypes.push(self.handle.template(field).dtype().bind(py).clone());
        }
        let floats = if beta.is_some() { 4 } else { 3 };
        for _ in 0..floats {
            layout.push(rows, &[1], size_of::<f32>())?;
            dtypes.push(numpy::dtype::<f32>(py));
        }
        if beta.is_some() {
            layout.push(rows, &[], size_of::<u64>())?;
            dtypes.push(numpy::dtype::<u64>(py));
        }
        let mut block = self.handle.pool.take(layout.size())?;
        let mut parts = layout.cut(block.bytes());
        self.handle.call(py, layout.size().saturating_add(rows), |memory| {
            self.check_stack(memory)?;
            let draws = memory.draw(rows)?;
            let (filled, rest) = parts.split_at_mut(6);
            if let ([weights, ids], Some(beta)) = (rest, beta) {
                let options = ImportanceOptions { beta, normalize: Normalize::Batch };
                copy_values(weights, importance(memory, None, &draws, options)?.into_iter());
                copy_values(ids, memory.ids(&draws.prev));
            }
            if let [states, actions, next_states, terminated, returns, discounts] = filled {
                Drawn { states, actions, next_states, terminated, returns, discounts }
                    .fill(memory, &draws);
            }
            Ok(())
        })?;
        PyTuple::new(py, arrays(py, block, &layout, &dtypes)?)
    }

    #[doc = stub_doc!(TransitionWriter.finish)]
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.locked(py, 0, Writer::finish)
    }

    #[doc = stub_doc!(TransitionWriter.added)]
    #[getter]
    fn added(&self, py: Python<'_>) -> PyResult<u64> {
        self.locked(py, 0, |writer, _| Ok(writer.added()))
    }

    #[doc = stub_doc!(TransitionWriter.held)]
    #[pyo3(signature = (*, observations=true))]
    fn held<'py>(&self, py: Python<'py>, observations: bool) -> PyResult<Bound<'py, PyAny>> {
        let kind = BatchKind::Batch { ids: false, nstep: false };
        let (block, plan) = self.handle.call(py, LONG, |memory| {
            let all = memory.all_steps();
            let mut settings = Settings::clone(memory.settings());
            for end in [0, FIELDS] {
                settings.cache_flags[end + Field::State.index()] &= observations;
            }
            let settings = Arc::new(settings);
            let plan = BatchPlan::new(memory.spec(), settings, kind, all.prev.len())?;
            let mut block = self.handle.pool.take(plan.layout.size())?;
            let mut parts = plan.layout.cut(block.bytes());
            let (fields, columns) = parts.split_at_mut(2 * FIELDS);
            memory.gather_all(&all, fields);
            copy_values(columns[0], all.weights.iter().copied());
            Ok((block, plan))
        })?;
        transitions(py, kind, arrays(py, block, &plan.layout, &plan.dtypes(py, &self.handle))?)
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a TransitionWriter cannot be pickled or copied: save its ReplayMemory",
        ))
    }
}
