//! The settable properties of `cogrs.ReplayMemory`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::python::memory::ReplayMemory;
use crate::python::setting_value::{ENDS, change};
use crate::replay::settings::{NewPriority, Settings};
use crate::spec::{FIELDS, Field};

impl ReplayMemory {
    fn settings(&self) -> PyResult<Arc<Settings>> {
        self.shared().check_process()?;
        Ok(self.shared().settings())
    }

    fn set(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.shared().check_process()?;
        let change = change(name, value)?;
        self.shared().change(py, change)
    }
}

#[pymethods]
impl ReplayMemory {
    /// Exponent of the priority (alpha of the PER paper), >= 0. Default 0.5.
    #[getter]
    fn priority_exponent(&self) -> PyResult<f64> {
        Ok(self.settings()?.priority_exponent)
    }

    #[setter]
    fn set_priority_exponent(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "priority_exponent", value)
    }

    /// What the weight of a new entry is made of. Default "returns".
    #[getter]
    fn new_priority<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.settings()?.new_priority {
            NewPriority::Number(number) => number.into_pyobject(py)?.into_any(),
            named => PyString::new(py, &named.to_string()).into_any(),
        })
    }

    #[setter]
    fn set_new_priority(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "new_priority", value)
    }

    /// Number added to each error before the exponent, at a close and in `update_priority`.
    #[getter]
    fn priority_epsilon(&self) -> PyResult<f64> {
        Ok(self.settings()?.priority_epsilon)
    }

    #[setter]
    fn set_priority_epsilon(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "priority_epsilon", value)
    }

    /// What stands for frames before the first of an episode in a stack. Default "none".
    #[getter]
    fn frame_padding(&self) -> PyResult<String> {
        Ok(self.settings()?.frame_padding.to_string())
    }

    #[setter]
    fn set_frame_padding(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "frame_padding", value)
    }

    /// Lambda of the multi-step return, in [0, 1]. Default 1.
    #[getter]
    fn mix_lambda(&self) -> PyResult<f64> {
        Ok(self.settings()?.mix_lambda)
    }

    #[setter]
    fn set_mix_lambda(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "mix_lambda", value)
    }

    /// States stacked in a sample, >= 1. Default 1.
    #[getter]
    fn frame_stack(&self) -> PyResult<usize> {
        Ok(self.settings()?.frame_stack)
    }

    #[setter]
    fn set_frame_stack(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "frame_stack", value)
    }

    /// Steps between prev and next, >= 1. Default 1.
    #[getter]
    fn multi_step(&self) -> PyResult<usize> {
        Ok(self.settings()?.multi_step)
    }

    #[setter]
    fn set_multi_step(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "multi_step", value)
    }

    /// Samples in a cache, >= 1. Default 32.
    #[getter]
    fn cache_size(&self) -> PyResult<usize> {
        Ok(self.settings()?.cache_size)
    }

    #[setter]
    fn set_cache_size(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "cache_size", value)
    }

    /// Closed episodes held at most, enforced when one is closed; 0 is no limit. Default 0.
    #[getter]
    fn max_episode(&self) -> PyResult<usize> {
        Ok(self.settings()?.max_episode)
    }

    #[setter]
    fn set_max_episode(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "max_episode", value)
    }

    /// Whether a server gives the samples of a cache more than once. Default False.
    #[getter]
    fn reuse_cache(&self) -> PyResult<bool> {
        Ok(self.settings()?.reuse_cache)
    }

    #[setter]
    fn set_reuse_cache(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "reuse_cache", value)
    }

    /// Gamma of each reward dimension, >= 0. Default all 1.
    #[getter]
    fn discount_factor(&self) -> PyResult<Vec<f64>> {
        Ok(self.settings()?.discount_factor.clone())
    }

    #[setter]
    fn set_discount_factor(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "discount_factor", value)
    }

    /// Coefficient of each reward dimension in the priority. Default all 1.
    #[getter]
    fn reward_coeff(&self) -> PyResult<Vec<f64>> {
        Ok(self.settings()?.reward_coeff.clone())
    }

    #[setter]
    fn set_reward_coeff(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "reward_coeff", value)
    }

    /// Which fields samples carry: 14 flags, prev s,a,r,p,v,q,i and then next. Default all True.
    #[getter]
    fn cache_flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.settings()?.cache_flags)
    }

    #[setter]
    fn set_cache_flags(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "cache_flags", value)
    }

    /// `cache_flags` by names: a dict of the letters of the fields of prev and of next.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let flags = self.settings()?.cache_flags;
        let made = PyDict::new(py);
        for (end, flags) in ENDS.into_iter().zip(flags.chunks(FIELDS)) {
            let carried = Field::ALL.into_iter().zip(flags).filter(|(_, flag)| **flag);
            made.set_item(end, carried.map(|(field, _)| field.letter()).collect::<String>())?;
        }
        Ok(made)
    }

    #[setter]
    fn set_fields(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "fields", value)
    }
}
