//! `cogrs.ReplayWriter`.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::python::memory_handle::MemoryHandle;
use crate::python::pen::{CloseArgs, Fields, Pen, do_update_value, do_update_weight, multiplier};
use crate::replay::memory::WRITTEN;

#[doc = stub_doc!(ReplayWriter)]
#[pyclass(frozen, subclass, weakref, module = "cogrs")]
#[derive(Debug)]
pub struct ReplayWriter {
    pen: Pen,
}

impl ReplayWriter {
    /// A writer without open episode.
    pub fn new(handle: Arc<MemoryHandle>) -> Self {
        Self { pen: Pen::new(handle) }
    }
}

type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The fields of an entry, each by its letter or by its long name.
#[inline]
#[allow(clippy::many_single_char_names)]
fn fields<'a, 'py>(
    short: [Maybe<'a, 'py>; WRITTEN.len()],
    long: [Maybe<'a, 'py>; WRITTEN.len()],
) -> PyResult<Fields<'a, 'py>> {
    match (short, long) {
        // The usual case, without a loop.
        (
            [Some(s), Some(a), Some(r), Some(p), Some(v), Some(i)],
            [None, None, None, None, None, None],
        ) => Ok([s, a, r, p, v, i]),
        _ => named(short, long),
    }
}

#[cold]
fn named<'a, 'py>(
    short: [Maybe<'a, 'py>; WRITTEN.len()],
    long: [Maybe<'a, 'py>; WRITTEN.len()],
) -> PyResult<Fields<'a, 'py>> {
    let mut fields = Vec::with_capacity(WRITTEN.len());
    for ((short, long), field) in short.into_iter().zip(long).zip(WRITTEN) {
        if short.is_some() && long.is_some() {
            let (name, letter) = (field.name(), field.letter());
            let text = format!("{name}: expected nothing beside {letter}, whose name it is too");
            return Err(PyTypeError::new_err(text));
        }
        fields.push(given(field.name(), short.or(long))?);
    }
    let wrong = |_| PyTypeError::new_err("an entry has six fields to give");
    fields.try_into().map_err(wrong)
}

/// An argument that has to be there.
fn given<'a, 'py>(name: &str, value: Maybe<'a, 'py>) -> PyResult<&'a Bound<'py, PyAny>> {
    let expected = if name == "init_w" { "a number" } else { "a value" };
    value.ok_or_else(|| {
        PyTypeError::new_err(format!("{name}: expected {expected}, got nothing or None"))
    })
}

// The signatures are those of the published interface and of Python's protocols.
#[allow(clippy::too_many_arguments, clippy::many_single_char_names, clippy::unused_self)]
#[pymethods]
impl ReplayWriter {
    #[doc = stub_doc!(ReplayWriter.new_episode)]
    fn new_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.pen.new_episode(py)
    }

    #[doc = stub_doc!(ReplayWriter.get_entry_buf)]
    fn get_entry_buf<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.pen.entry_buf(py)
    }

    #[doc = stub_doc!(ReplayWriter.add_entry)]
    #[pyo3(signature = (s=None, a=None, r=None, p=None, v=None, i=None, init_w=None, *, weight=None,
                        state=None, action=None, reward=None, prob=None, value=None, info=None))]
    fn add_entry(
        &self,
        py: Python<'_>,
        s: Option<&Bound<'_, PyAny>>,
        a: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
        v: Option<&Bound<'_, PyAny>>,
        i: Option<&Bound<'_, PyAny>>,
        init_w: Option<&Bound<'_, PyAny>>,
        weight: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        action: Option<&Bound<'_, PyAny>>,
        reward: Option<&Bound<'_, PyAny>>,
        prob: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let fields = fields([s, a, r, p, v, i], [state, action, reward, prob, value, info])?;
        let init_w = match (init_w, weight) {
            (Some(given), None) | (None, Some(given)) => given,
            (None, None) => {
                return Err(PyTypeError::new_err("init_w: expected a number, got nothing"));
            }
            (Some(_), Some(_)) => {
                return Err(PyTypeError::new_err(
                    "weight: expected nothing beside init_w, whose name it is too",
                ));
            }
        };
        self.pen.add_entry(py, fields, init_w)
    }

    #[doc = stub_doc!(ReplayWriter.add_entries)]
    #[pyo3(signature = (s=None, a=None, r=None, p=None, v=None, i=None, init_w=None, *, state=None,
                        action=None, reward=None, prob=None, value=None, info=None))]
    fn add_entries(
        &self,
        py: Python<'_>,
        s: Option<&Bound<'_, PyAny>>,
        a: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
        v: Option<&Bound<'_, PyAny>>,
        i: Option<&Bound<'_, PyAny>>,
        init_w: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        action: Option<&Bound<'_, PyAny>>,
        reward: Option<&Bound<'_, PyAny>>,
        prob: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        self.pen.add_entries(
            py,
            fields([s, a, r, p, v, i], [state, action, reward, prob, value, info])?,
            given("init_w", init_w)?,
        )
    }

    #[doc = stub_doc!(ReplayWriter.close_episode)]
    #[pyo3(signature = (episodic_weight_multiplier=1.0, do_update_value=true, do_update_weight=true, *,
                        bootstrap_value=None, final_state=None, final_info=None, terminated=None,
                        truncated=None))]
    fn close_episode(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = multiplier)] episodic_weight_multiplier: f64,
        #[pyo3(from_py_with = do_update_value)] do_update_value: bool,
        #[pyo3(from_py_with = do_update_weight)] do_update_weight: bool,
        bootstrap_value: Option<&Bound<'_, PyAny>>,
        final_state: Option<&Bound<'_, PyAny>>,
        final_info: Option<&Bound<'_, PyAny>>,
        terminated: Option<&Bound<'_, PyAny>>,
        truncated: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let args = CloseArgs {
            multiplier: episodic_weight_multiplier,
            values: do_update_value,
            weights: do_update_weight,
            bootstrap_value,
            final_state,
            final_info,
            terminated,
            truncated,
        };
        self.pen.close_episode(py, &args)
    }

    #[doc = stub_doc!(ReplayWriter.abort_episode)]
    fn abort_episode(&self, py: Python<'_>) -> PyResult<()> {
        self.pen.abort_episode(py)
    }

    #[doc = stub_doc!(ReplayWriter.add_episode)]
    #[pyo3(signature = (s=None, a=None, r=None, p=None, v=None, i=None, init_w=None,
                        episodic_weight_multiplier=1.0, do_update_value=true, do_update_weight=true, *,
                        bootstrap_value=None, final_state=None, final_info=None, terminated=None,
                        truncated=None, state=None, action=None, reward=None, prob=None, value=None,
                        info=None))]
    fn add_episode(
        &self,
        py: Python<'_>,
        s: Option<&Bound<'_, PyAny>>,
        a: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
        v: Option<&Bound<'_, PyAny>>,
        i: Option<&Bound<'_, PyAny>>,
        init_w: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = multiplier)] episodic_weight_multiplier: f64,
        #[pyo3(from_py_with = do_update_value)] do_update_value: bool,
        #[pyo3(from_py_with = do_update_weight)] do_update_weight: bool,
        bootstrap_value: Option<&Bound<'_, PyAny>>,
        final_state: Option<&Bound<'_, PyAny>>,
        final_info: Option<&Bound<'_, PyAny>>,
        terminated: Option<&Bound<'_, PyAny>>,
        truncated: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        action: Option<&Bound<'_, PyAny>>,
        reward: Option<&Bound<'_, PyAny>>,
        prob: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let args = CloseArgs {
            multiplier: episodic_weight_multiplier,
            values: do_update_value,
            weights: do_update_weight,
            bootstrap_value,
            final_state,
            final_info,
            terminated,
            truncated,
        };
        self.pen.add_episode(
            py,
            fields([s, a, r, p, v, i], [state, action, reward, prob, value, info])?,
            given("init_w", init_w)?,
            &args,
        )
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a ReplayWriter cannot be pickled or copied: use save() and load() of its ReplayMemory",
        ))
    }
}
