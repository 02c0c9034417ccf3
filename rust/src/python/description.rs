//! Descriptions that Python gives: collectors, games that env workers step, and the failure policy.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::collector::description::{Collector, Input, Reply};
use crate::collector::failure_policy::OnError;
use crate::collector::record_columns::builtin_columns as columns;
use crate::collector::step_buffer::SharedFile;
use crate::error::{Error, short};
use crate::games::GameSpec;
use crate::python::tensor_spec::TensorSpec;

#[derive(Debug)]
pub struct CollectorTensors {
    pub inputs: Vec<TensorSpec>,
    pub replies: Vec<TensorSpec>,
}

/// `cogrs.collector.description.Input`.
#[derive(FromPyObject)]
struct InputArg<'py> {
    key: String,
    column: String,
    shifted: bool,
    stack: usize,
    dtype: Bound<'py, PyAny>,
    shape: Vec<usize>,
}

/// `cogrs.collector.description.Reply`.
#[derive(FromPyObject)]
struct ReplyArg<'py> {
    key: String,
    dtype: Bound<'py, PyAny>,
    shape: Vec<usize>,
}

/// `cogrs.collector.description.Collector`.
#[derive(FromPyObject)]
pub struct CollectorArg<'py> {
    name: String,
    batch_size: usize,
    steps: usize,
    timeout_usec: u64,
    player: Option<usize>,
    inputs: Vec<InputArg<'py>>,
    replies: Option<Vec<ReplyArg<'py>>>,
    block: bool,
}

impl CollectorArg<'_> {
    /// The collector for the core, and its arrays for Python.
    pub fn resolve(self) -> PyResult<(Collector, CollectorTensors)> {
        let mut tensors = CollectorTensors { inputs: Vec::new(), replies: Vec::new() };
        let mut inputs = Vec::new();
        for InputArg { key, column, shifted, stack, dtype, shape } in self.inputs {
            let mut tensor = TensorSpec::new((key.clone(), dtype, shape))?;
            inputs.push(Input { key, column, shifted, stack, field: tensor.spec.clone() });
            tensor.spec.shape.splice(0..0, (stack > 0).then_some(stack));
            tensors.inputs.push(tensor);
        }
        let replying = self.replies.is_some();
        let mut replies = Vec::new();
        for ReplyArg { key, dtype, shape } in self.replies.into_iter().flatten() {
            let tensor = TensorSpec::new((key.clone(), dtype, shape))?;
            replies.push(Reply { key, field: tensor.spec.clone() });
            tensors.replies.push(tensor);
        }
        let timeout = (self.timeout_usec > 0).then(|| Duration::from_micros(self.timeout_usec));
        let Self { name, batch_size, steps, player, block, .. } = self;
        let replies = replying.then_some(replies);
        Ok((
            Collector { name, batch_size, steps, timeout, player, inputs, replies, block },
            tensors,
        ))
    }
}

/// `cogrs.collector.description.Game`, and the files of its env workers' step buffers.
#[derive(FromPyObject)]
pub struct GameArg<'py> {
    keys: Bound<'py, PyDict>,
    action: (Bound<'py, PyAny>, Vec<usize>),
    num_action: usize,
    players: Vec<String>,
    has_agents: bool,
    files: Vec<Option<i32>>,
}

/// The arrays of a step buffer that depend on the game.
#[derive(Debug)]
pub struct StepTensors {
    pub action: TensorSpec,
    pub keys: Vec<TensorSpec>,
}

impl GameArg<'_> {
    /// The game and the files of its step buffers for the core, and its arrays for Python.
    pub fn resolve(self) -> PyResult<(GameSpec, Vec<Option<SharedFile>>, StepTensors)> {
        let mut keys = Vec::new();
        for (key, value) in self.keys.iter() {
            let (dtype, shape) = value.extract()?;
            keys.push(TensorSpec::new((key.extract()?, dtype, shape))?);
        }
        let (dtype, shape) = self.action;
        let action = TensorSpec::new(("a".into(), dtype, shape))?;
        let files = self.files.into_iter().map(|given| given.map(SharedFile)).collect();
        let spec = GameSpec {
            keys: keys.iter().map(|key| (key.name.clone(), key.spec.clone())).collect(),
            action: action.spec.clone(),
            num_action: self.num_action,
            players: self.players,
            max_steps: u64::MAX,
            blocking: false,
            has_agents: self.has_agents,
        };
        Ok((spec, files, StepTensors { action, keys }))
    }
}

/// The failure policy, by the name of the option; `ValueError` when the policy is unknown, or a number out of range.
pub fn policy(name: &str, most: u32, backoff: f64) -> PyResult<OnError> {
    match name {
        "raise" => Ok(OnError::Raise),
        "drop" => Ok(OnError::Drop),
        "restart" => {
            let rest = Duration::try_from_secs_f64(backoff);
            let backoff =
                rest.map_err(|_| Error::value("restart_backoff", "seconds >= 0", short(backoff)))?;
            Ok(OnError::Restart { most, backoff })
        }
        _ => {
            let got = format!("{name:?}");
            Err(Error::value("on_error", "'raise', 'restart' or 'drop'", got).into())
        }
    }
}

#[doc = stub_doc!(builtin_columns)]
#[pyfunction]
pub fn builtin_columns(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for (key, field) in columns() {
        all.set_item(key, field.dtype_name())?;
    }
    Ok(all)
}
