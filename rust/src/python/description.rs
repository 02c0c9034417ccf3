//! What Python describes: collectors, games that env workers step, and what becomes of games that fail.

use std::time::Duration;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::collector::column::builtin_columns as columns;
use crate::collector::description::{Collector, Input, Reply};
use crate::collector::failure_policy::OnError;
use crate::collector::step_buffer::SharedFile;
use crate::error::{Error, short};
use crate::games::GameSpec;
use crate::python::tensor::field;
use crate::spec::FieldSpec;

/// The dtypes of a collector's arrays.
#[derive(Debug)]
pub struct Dtypes {
    /// Of each input.
    pub inputs: Vec<Py<PyArrayDescr>>,
    /// Of each reply.
    pub replies: Vec<Py<PyArrayDescr>>,
}

/// `cogrs.collector.description.Input`.
#[derive(FromPyObject)]
struct GivenInput<'py> {
    key: String,
    column: String,
    shifted: bool,
    stack: usize,
    dtype: Bound<'py, PyAny>,
    shape: Vec<usize>,
}

/// `cogrs.collector.description.Reply`.
#[derive(FromPyObject)]
struct GivenReply<'py> {
    key: String,
    dtype: Bound<'py, PyAny>,
    shape: Vec<usize>,
}

/// `cogrs.collector.description.Collector`.
#[derive(FromPyObject)]
pub struct GivenCollector<'py> {
    name: String,
    batch_size: usize,
    steps: usize,
    timeout_usec: u64,
    player: Option<usize>,
    inputs: Vec<GivenInput<'py>>,
    replies: Option<Vec<GivenReply<'py>>>,
    block: bool,
}

impl GivenCollector<'_> {
    /// What the core knows of the collector, and what Python sees of its batches.
    ///
    /// # Errors
    /// `TypeError` and `ValueError` as [`field`].
    pub fn resolve(self) -> PyResult<(Collector, Dtypes)> {
        let mut dtypes = Dtypes { inputs: Vec::new(), replies: Vec::new() };
        let mut inputs = Vec::new();
        for GivenInput { key, column, shifted, stack, dtype, shape } in self.inputs {
            let (dtype, field) = field(&key, &dtype, shape)?;
            dtypes.inputs.push(dtype);
            inputs.push(Input { key, column, shifted, stack, field });
        }
        let replying = self.replies.is_some();
        let mut replies = Vec::new();
        for GivenReply { key, dtype, shape } in self.replies.into_iter().flatten() {
            let (dtype, field) = field(&key, &dtype, shape)?;
            dtypes.replies.push(dtype);
            replies.push(Reply { key, field });
        }
        let timeout = (self.timeout_usec > 0).then(|| Duration::from_micros(self.timeout_usec));
        let Self { name, batch_size, steps, player, block, .. } = self;
        let replies = replying.then_some(replies);
        Ok((Collector { name, batch_size, steps, timeout, player, inputs, replies, block }, dtypes))
    }
}

/// `cogrs.collector.description.Game`, and the files of its env workers' step buffers.
#[derive(FromPyObject)]
pub struct GivenGame<'py> {
    keys: Bound<'py, PyDict>,
    action: (Bound<'py, PyAny>, Vec<usize>),
    num_action: usize,
    players: Vec<String>,
    files: Vec<Option<(i32, usize)>>,
}

/// dtypes and shapes of the arrays of a step buffer that depend on the game.
#[derive(Debug)]
pub struct StepArrays {
    /// Of actions.
    pub action: (Py<PyArrayDescr>, Vec<usize>),
    /// Of each key.
    pub keys: Vec<(Py<PyArrayDescr>, Vec<usize>)>,
    /// Bytes of each key.
    pub sizes: Vec<usize>,
}

impl GivenGame<'_> {
    /// What the core knows of the game, the files of its step buffers, and what Python sees there.
    ///
    /// # Errors
    /// `TypeError` and `ValueError` as [`field`].
    pub fn resolve(self) -> PyResult<(GameSpec, Vec<Option<SharedFile>>, StepArrays)> {
        let mut keys: Vec<(String, FieldSpec)> = Vec::new();
        let mut seen = Vec::new();
        for (key, value) in self.keys.iter() {
            let (key, (dtype, shape)): (String, (Bound<'_, PyAny>, Vec<usize>)) =
                (key.extract()?, value.extract()?);
            let (dtype, field) = field(&key, &dtype, shape)?;
            seen.push((dtype, field.shape.clone()));
            keys.push((key, field));
        }
        let (dtype, shape) = self.action;
        let (dtype, action) = field("a", &dtype, shape)?;
        let sizes = keys.iter().map(|(_, field)| field.nbytes()).collect();
        let arrays = StepArrays { action: (dtype, action.shape.clone()), keys: seen, sizes };
        let file = |(descriptor, size)| SharedFile { descriptor, size };
        let files = self.files.into_iter().map(|given| given.map(file)).collect();
        let Self { num_action, players, .. } = self;
        let spec = GameSpec { keys, action, num_action, players, blocking: false };
        Ok((spec, files, arrays))
    }
}

/// The failure policy, by the name of the option.
///
/// # Errors
/// `ValueError` when there is no such policy, or a number is out of range.
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

/// The columns that every record has. See the stub for its contract.
///
/// # Errors
/// When Python has no memory.
#[pyfunction]
pub fn builtin_columns(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for (key, field) in columns() {
        all.set_item(key, field.dtype_name())?;
    }
    Ok(all)
}
