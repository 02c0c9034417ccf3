//! What writes: one open episode of a shared memory. The memory has one, every writer another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use numpy::PyArrayDescrMethods;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};

use crate::error::Error;
use crate::python::args::{flag, number, wrong_type};
use crate::python::array::numbers;
use crate::python::exit::python_code;
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::value_bytes::ValueBytes;
use crate::replay::closing::{Closing, FinalEntry};
use crate::replay::drawable::ZeroWeights;
use crate::replay::memory::{Rows, WRITTEN};
use crate::spec::Field;

/// No episode: serial numbers do not get this far.
const NONE: u64 = u64::MAX;

/// The arguments `s, a, r, p, v, i` of an entry or of many.
pub type Fields<'a, 'py> = [&'a Bound<'py, PyAny>; WRITTEN.len()];

/// The arguments of `close_episode`.
#[derive(Debug)]
pub struct CloseArgs<'a, 'py> {
    /// Scales the weights.
    pub multiplier: f64,
    /// Compute returns.
    pub values: bool,
    /// Compute weights from them.
    pub weights: bool,
    /// Value after the last action, when truncated.
    pub bootstrap_value: Option<&'a Bound<'py, PyAny>>,
    /// Observation after the last action.
    pub final_state: Option<&'a Bound<'py, PyAny>>,
    /// Its info.
    pub final_info: Option<&'a Bound<'py, PyAny>>,
    /// Whether it terminated: instead of a value.
    pub terminated: Option<&'a Bound<'py, PyAny>>,
    /// Whether it was cut short: instead of a value.
    pub truncated: Option<&'a Bound<'py, PyAny>>,
}

impl CloseArgs<'_, '_> {
    /// How the episode ended, when flags say so: whether it was only truncated.
    fn only_truncated(&self) -> PyResult<Option<bool>> {
        let read = |name, value: Option<&Bound<'_, PyAny>>| {
            value.map(|value| flag(name, value)).transpose()
        };
        let (terminated, truncated) =
            (read("terminated", self.terminated)?, read("truncated", self.truncated)?);
        if (terminated, truncated) == (None, None) {
            return Ok(None);
        }
        if self.bootstrap_value.is_some() {
            return Err(PyTypeError::new_err(
                "bootstrap_value: expected nothing beside terminated or truncated: a value says truncated, \
                 None says terminated",
            ));
        }
        match (terminated == Some(true), truncated == Some(true)) {
            (true, _) => Ok(Some(false)),
            (false, true) => Ok(Some(true)),
            (false, false) => {
                let expected = "True for one of them where an episode is closed";
                Err(Error::value("terminated, truncated", expected, "neither").into())
            }
        }
    }
}

/// The argument `episodic_weight_multiplier`.
///
/// # Errors
/// `TypeError` when it is no number.
pub fn multiplier(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    number("episodic_weight_multiplier", value)
}

/// The argument `do_update_value`.
///
/// # Errors
/// `TypeError` or `ValueError` when it is no truth value.
pub fn do_update_value(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    flag("do_update_value", value)
}

/// The argument `do_update_weight`.
///
/// # Errors
/// `TypeError` or `ValueError` when it is no truth value.
pub fn do_update_weight(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    flag("do_update_weight", value)
}

/// An open episode, or the place for one.
#[derive(Debug)]
pub struct Pen {
    /// The memory.
    pub handle: Arc<MemoryHandle>,
    /// Serial number of the open episode; changed under the memory's lock.
    open: AtomicU64,
}

impl Pen {
    /// A writer without open episode.
    pub fn new(handle: Arc<MemoryHandle>) -> Self {
        Self { handle, open: AtomicU64::new(NONE) }
    }

    fn serial(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// See `ReplayMemory.new_episode`.
    ///
    /// # Errors
    /// `RuntimeError` in a forked child.
    pub fn new_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, 0, |memory| {
            if memory.is_open(self.serial()) {
                memory.abort(self.serial())?;
            }
            self.open.store(memory.open(), Ordering::Relaxed);
            Ok(())
        })
    }

    /// See `ReplayMemory.abort_episode`.
    ///
    /// # Errors
    /// `RuntimeError` without open episode.
    pub fn abort_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, 0, |memory| memory.abort(self.serial()))
    }

    /// See `ReplayMemory.get_entry_buf`.
    ///
    /// # Errors
    /// As there.
    pub fn entry_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let zeros = WRITTEN.map(|field| self.handle.template(field).zeros(py));
        PyTuple::new(py, zeros.into_iter().collect::<PyResult<Vec<_>>>()?)
    }

    /// See `ReplayMemory.add_entry`.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn add_entry(
        &self,
        py: Python<'_>,
        fields: Fields<'_, '_>,
        init_w: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        self.handle.check_process()?;
        let mut given = Vec::with_capacity(WRITTEN.len());
        for (field, value) in WRITTEN.into_iter().zip(fields) {
            let template = self.handle.template(field);
            given.push(settled(field, template.value(template.name(), value)?)?);
        }
        let init_w = [number("init_w", init_w)?];
        let (rows, bytes) = self.rows(&given, 1)?;
        self.handle.call(py, bytes, |memory| memory.add(self.serial(), rows, &init_w))
    }

    /// See `ReplayMemory.add_entries`.
    ///
    /// # Errors
    /// As there.
    pub fn add_entries(
        &self,
        py: Python<'_>,
        fields: Fields<'_, '_>,
        init_w: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (given, init_w) = self.entries(fields, init_w)?;
        let (rows, bytes) = self.rows(&given, init_w.len())?;
        self.handle.call(py, bytes, |memory| memory.add(self.serial(), rows, &init_w))
    }

    fn entries<'py>(
        &self,
        fields: Fields<'_, 'py>,
        init_w: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<ValueBytes<'py>>, Vec<f64>)> {
        self.handle.check_process()?;
        let count = self.leading(fields)?;
        let mut given = Vec::with_capacity(WRITTEN.len());
        for (field, value) in WRITTEN.into_iter().zip(fields) {
            let template = self.handle.template(field);
            given.push(settled(field, template.values(template.name(), value, count)?)?);
        }
        let init_w = numbers("init_w", init_w)?.repeat("init_w", count)?;
        Ok((given, init_w))
    }

    /// See `ReplayMemory.close_episode`.
    ///
    /// # Errors
    /// As there.
    pub fn close_episode(&self, py: Python<'_>, args: &CloseArgs<'_, '_>) -> PyResult<()> {
        let ends = self.ends(args)?;
        let closing = self.closing(&ends, args)?;
        let zero = self.handle.call(py, LONG, |memory| {
            memory.close(self.serial(), &closing)?;
            Ok(memory.take_zero_weights())
        })?;
        warn(py, zero)
    }

    /// See `ReplayMemory.add_episode`. It uses no pen's episode, and is here for its neighbours' sake.
    ///
    /// # Errors
    /// As there.
    pub fn add_episode(
        &self,
        py: Python<'_>,
        fields: Fields<'_, '_>,
        init_w: &Bound<'_, PyAny>,
        args: &CloseArgs<'_, '_>,
    ) -> PyResult<u64> {
        let (given, init_w) = self.entries(fields, init_w)?;
        let ends = self.ends(args)?;
        let closing = self.closing(&ends, args)?;
        let (rows, bytes) = self.rows(&given, init_w.len())?;
        let (first, zero) = self.handle.call(py, bytes, |memory| {
            Ok((memory.add_episode(rows, &init_w, &closing)?, memory.take_zero_weights()))
        })?;
        warn(py, zero)?;
        Ok(first)
    }

    /// The leading dimension that all fields share.
    fn leading(&self, fields: Fields<'_, '_>) -> PyResult<usize> {
        let mut lengths = [0; WRITTEN.len()];
        for ((length, field), value) in lengths.iter_mut().zip(WRITTEN).zip(fields) {
            let py = value.py();
            let dtype = self.handle.template(field).dtype().bind(py);
            let counted = if dtype.kind() == b'V' {
                let parts = py.import(intern!(py, "cogrs.nested"))?;
                let given = (dtype, value);
                let count = || parts.call_method1(intern!(py, "length"), given)?.extract();
                python_code(py, count)
            } else {
                value.len()
            };
            let unsized_value =
                |_| wrong_type(field.name(), "an array with a leading dimension", value);
            *length = counted.map_err(unsized_value)?;
        }
        if lengths.iter().all(|&length| length == lengths[0]) {
            return Ok(lengths[0]);
        }
        let texts =
            WRITTEN.iter().zip(lengths).map(|(field, len)| format!("{} {len}", field.name()));
        let got = texts.collect::<Vec<_>>().join(", ");
        Err(Error::value("leading dimensions", "the same for all fields", got).into())
    }

    fn ends<'py>(&self, args: &CloseArgs<'_, 'py>) -> PyResult<Ends<'py>> {
        self.handle.check_process()?;
        if args.final_info.is_some() && args.final_state.is_none() {
            return Err(
                Error::value("final_info", "final_state beside it", "no final_state").into()
            );
        }
        let only_truncated = args.only_truncated()?;
        let convert = |field, name: &str, value: Option<&Bound<'py, PyAny>>| {
            value.map(|value| self.handle.template(field).value(name, value)).transpose()
        };
        if let Some(value) = args.bootstrap_value.filter(|value| !value.is_instance_of::<PyFloat>())
        {
            let py = value.py();
            let convert = py.import(intern!(py, "cogrs.replay.convert"))?;
            let refuse = intern!(py, "refuse_flags");
            python_code(py, || convert.call_method1(refuse, ("bootstrap_value", value)))?;
        }
        let bootstrap = match only_truncated {
            None => convert(Field::Reward, "bootstrap_value", args.bootstrap_value)?
                .map(|given| given.floats().into_iter().map(f64::from).collect()),
            Some(false) => None,
            Some(true) => Some(vec![0.0; self.handle.spec().reward_dims()]),
        };
        Ok(Ends {
            bootstrap,
            state: convert(Field::State, "final_state", args.final_state)?,
            info: convert(Field::Info, "final_info", args.final_info)?,
        })
    }
}

impl Pen {
    /// The bytes of `count` values of all fields, and how many those are.
    fn rows<'a>(&self, given: &'a [ValueBytes<'_>], count: usize) -> PyResult<(Rows<'a>, usize)> {
        let mut rows: Rows<'a> = [&[]; WRITTEN.len()];
        for ((row, given), field) in rows.iter_mut().zip(given).zip(WRITTEN) {
            let size = self.handle.template(field).spec().nbytes();
            *row = given.exactly(field.name(), size * count)?;
        }
        Ok((rows, rows.iter().map(|row| row.len()).sum()))
    }

    fn closing<'a>(&self, ends: &'a Ends<'_>, args: &CloseArgs<'_, '_>) -> PyResult<Closing<'a>> {
        let size = |field| self.handle.template(field).spec().nbytes();
        let mut final_entry = None;
        if let Some(state) = &ends.state {
            let state = state.exactly("final_state", size(Field::State))?;
            let info = ends.info.as_ref();
            let info = info.map(|info| info.exactly("final_info", size(Field::Info)));
            final_entry = Some(FinalEntry { state, info: info.transpose()? });
        }
        Ok(Closing {
            multiplier: args.multiplier,
            values: args.values,
            weights: args.weights,
            bootstrap: ends.bootstrap.clone(),
            final_entry,
        })
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        self.handle.call_in_drop(|memory| {
            let open = memory.is_open(self.serial());
            if open { memory.abort(self.serial()) } else { Ok(()) }
        });
    }
}

/// The converted arguments of a close.
struct Ends<'py> {
    bootstrap: Option<Vec<f64>>,
    state: Option<ValueBytes<'py>>,
    info: Option<ValueBytes<'py>>,
}

/// Logs that most of what was closed cannot be drawn.
fn warn(py: Python<'_>, zero: Option<ZeroWeights>) -> PyResult<()> {
    let Some(ZeroWeights { zero, drawable }) = zero else { return Ok(()) };
    let convert = py.import(intern!(py, "cogrs.replay.convert"))?;
    let name = intern!(py, "warn_zero_weights");
    python_code(py, || convert.call_method1(name, (zero, drawable)))?;
    Ok(())
}

/// Rewards and values are read more than once, so what is checked must be what is stored.
fn settled(field: Field, given: ValueBytes<'_>) -> Result<ValueBytes<'_>, Error> {
    if matches!(field, Field::Reward | Field::Value) { given.owned() } else { Ok(given) }
}
