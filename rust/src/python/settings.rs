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
        self.handle().check_process()?;
        Ok(self.handle().settings())
    }

    fn set(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.handle().check_process()?;
        let change = change(name, value)?;
        self.handle().change(py, change)
    }
}

#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.priority_exponent)]
    #[getter]
    fn priority_exponent(&self) -> PyResult<f64> {
        Ok(self.settings()?.priority_exponent)
    }

    #[setter]
    fn set_priority_exponent(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "priority_exponent", value)
    }

    #[doc = stub_doc!(ReplayMemory.new_priority)]
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

    #[doc = stub_doc!(ReplayMemory.priority_epsilon)]
    #[getter]
    fn priority_epsilon(&self) -> PyResult<f64> {
        Ok(self.settings()?.priority_epsilon)
    }

    #[setter]
    fn set_priority_epsilon(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "priority_epsilon", value)
    }

    #[doc = stub_doc!(ReplayMemory.frame_padding)]
    #[getter]
    fn frame_padding(&self) -> PyResult<String> {
        Ok(self.settings()?.frame_padding.to_string())
    }

    #[setter]
    fn set_frame_padding(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "frame_padding", value)
    }

    #[doc = stub_doc!(ReplayMemory.mix_lambda)]
    #[getter]
    fn mix_lambda(&self) -> PyResult<f64> {
        Ok(self.settings()?.mix_lambda)
    }

    #[setter]
    fn set_mix_lambda(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "mix_lambda", value)
    }

    #[doc = stub_doc!(ReplayMemory.frame_stack)]
    #[getter]
    fn frame_stack(&self) -> PyResult<usize> {
        Ok(self.settings()?.frame_stack)
    }

    #[setter]
    fn set_frame_stack(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "frame_stack", value)
    }

    #[doc = stub_doc!(ReplayMemory.multi_step)]
    #[getter]
    fn multi_step(&self) -> PyResult<usize> {
        Ok(self.settings()?.multi_step)
    }

    #[setter]
    fn set_multi_step(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "multi_step", value)
    }

    #[doc = stub_doc!(ReplayMemory.cache_size)]
    #[getter]
    fn cache_size(&self) -> PyResult<usize> {
        Ok(self.settings()?.cache_size)
    }

    #[setter]
    fn set_cache_size(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "cache_size", value)
    }

    #[doc = stub_doc!(ReplayMemory.max_episode)]
    #[getter]
    fn max_episode(&self) -> PyResult<usize> {
        Ok(self.settings()?.max_episode)
    }

    #[setter]
    fn set_max_episode(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "max_episode", value)
    }

    #[doc = stub_doc!(ReplayMemory.reuse_cache)]
    #[getter]
    fn reuse_cache(&self) -> PyResult<bool> {
        Ok(self.settings()?.reuse_cache)
    }

    #[setter]
    fn set_reuse_cache(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "reuse_cache", value)
    }

    #[doc = stub_doc!(ReplayMemory.discount_factor)]
    #[getter]
    fn discount_factor(&self) -> PyResult<Vec<f64>> {
        Ok(self.settings()?.discount_factor.clone())
    }

    #[setter]
    fn set_discount_factor(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "discount_factor", value)
    }

    #[doc = stub_doc!(ReplayMemory.reward_coeff)]
    #[getter]
    fn reward_coeff(&self) -> PyResult<Vec<f64>> {
        Ok(self.settings()?.reward_coeff.clone())
    }

    #[setter]
    fn set_reward_coeff(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "reward_coeff", value)
    }

    #[doc = stub_doc!(ReplayMemory.cache_flags)]
    #[getter]
    fn cache_flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.settings()?.cache_flags)
    }

    #[setter]
    fn set_cache_flags(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(py, "cache_flags", value)
    }

    #[doc = stub_doc!(ReplayMemory.fields)]
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
