//! The arguments of `close_episode`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyFloat;

use crate::error::Error;
use crate::python::args::flag;
use crate::python::exit::call_python;
use crate::python::memory_handle::MemoryHandle;
use crate::python::value_bytes::ValueBytes;
use crate::replay::closing::{CloseOptions, FinalEntry};
use crate::spec::Field;

#[derive(Debug)]
pub struct CloseArgs<'a, 'py> {
    pub episodic_weight_multiplier: f64,
    pub do_update_value: bool,
    pub do_update_weight: bool,
    pub bootstrap_value: Option<&'a Bound<'py, PyAny>>,
    pub final_state: Option<&'a Bound<'py, PyAny>>,
    pub final_info: Option<&'a Bound<'py, PyAny>>,
    pub terminated: Option<&'a Bound<'py, PyAny>>,
    pub truncated: Option<&'a Bound<'py, PyAny>>,
}

#[derive(Debug)]
pub struct CloseValues<'py> {
    multiplier: f64,
    values: bool,
    weights: bool,
    bootstrap: Option<Vec<f64>>,
    final_state: Option<ValueBytes<'py>>,
    final_info: Option<ValueBytes<'py>>,
}

impl<'py> CloseArgs<'_, 'py> {
    /// Converts the arguments for the memory of a handle; `TypeError` or `ValueError` that name them.
    pub fn convert(&self, handle: &MemoryHandle) -> PyResult<CloseValues<'py>> {
        handle.check_process()?;
        if self.final_info.is_some() && self.final_state.is_none() {
            let got = "no final_state";
            return Err(Error::value("final_info", "a final_state as well", got).into());
        }
        let only_truncated = self.only_truncated()?;
        let convert = |field, name: &str, value: Option<&Bound<'py, PyAny>>| {
            value.map(|value| handle.template(field).value(name, value)).transpose()
        };
        if let Some(value) = self.bootstrap_value.filter(|value| !value.is_instance_of::<PyFloat>())
        {
            let arguments = ("bootstrap_value", value);
            call_python!(value.py(), "cogrs.replay.convert", "refuse_flags", arguments)?;
        }
        let bootstrap = match only_truncated {
            None => convert(Field::Reward, "bootstrap_value", self.bootstrap_value)?
                .map(|value| value.floats().into_iter().map(f64::from).collect()),
            Some(false) => None,
            Some(true) => Some(vec![0.0; handle.spec().reward_dims()]),
        };
        Ok(CloseValues {
            multiplier: self.episodic_weight_multiplier,
            values: self.do_update_value,
            weights: self.do_update_weight,
            bootstrap,
            final_state: convert(Field::State, "final_state", self.final_state)?,
            final_info: convert(Field::Info, "final_info", self.final_info)?,
        })
    }

    /// Whether the episode was only truncated; None when no flag says how it ended.
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
                "bootstrap_value: expected only one of bootstrap_value and terminated or truncated, got both",
            ));
        }
        match (terminated == Some(true), truncated == Some(true)) {
            (true, _) => Ok(Some(false)),
            (false, true) => Ok(Some(true)),
            (false, false) => {
                let expected = "at least one of them to be True";
                Err(Error::value("terminated, truncated", expected, "neither").into())
            }
        }
    }
}

impl CloseValues<'_> {
    /// The values for the core, when their sizes still are those of the templates.
    pub fn closing(&self, handle: &MemoryHandle) -> PyResult<CloseOptions<'_>> {
        let size = |field| handle.template(field).spec().nbytes();
        let mut final_entry = None;
        if let Some(state) = &self.final_state {
            let state = state.exactly("final_state", size(Field::State))?;
            let info = self.final_info.as_ref();
            let info = info.map(|info| info.exactly("final_info", size(Field::Info)));
            final_entry = Some(FinalEntry { state, info: info.transpose()? });
        }
        Ok(CloseOptions {
            multiplier: self.multiplier,
            values: self.values,
            weights: self.weights,
            bootstrap: self.bootstrap.clone(),
            final_entry,
        })
    }
}
