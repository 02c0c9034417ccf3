//! The settable properties of `cogrs.ReplayMemory`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::python::args::{flag, mistyped, number, size};
use crate::python::array::{Numbers, numbers};
use crate::python::memory::ReplayMemory;
use crate::replay::settings::{FLAGS, Leading, Settings};

impl ReplayMemory {
    fn settings(&self) -> PyResult<Arc<Settings>> {
        self.shared().check_process()?;
        Ok(self.shared().settings())
    }
}

fn leading(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Leading> {
    Ok(match numbers(name, value)? {
        Numbers::One(value) => Leading::All(value),
        Numbers::Many(values) => Leading::Some(values),
    })
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
        let value = number("priority_exponent", value)?;
        self.shared().change(py, |settings| settings.set_priority_exponent(value))
    }

    /// Lambda of the multi-step return, in [0, 1]. Default 1.
    #[getter]
    fn mix_lambda(&self) -> PyResult<f64> {
        Ok(self.settings()?.mix_lambda)
    }

    #[setter]
    fn set_mix_lambda(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = number("mix_lambda", value)?;
        self.shared().change(py, |settings| settings.set_mix_lambda(value))
    }

    /// States stacked in a sample, >= 1. Default 1. Entries it makes invalid are not drawn.
    #[getter]
    fn frame_stack(&self) -> PyResult<usize> {
        Ok(self.settings()?.frame_stack)
    }

    #[setter]
    fn set_frame_stack(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = size("frame_stack", value, 1)?;
        self.shared().change(py, |settings| {
            settings.frame_stack = value;
            Ok(())
        })
    }

    /// Steps between prev and next, >= 1. Default 1. Entries it makes invalid are not drawn.
    #[getter]
    fn multi_step(&self) -> PyResult<usize> {
        Ok(self.settings()?.multi_step)
    }

    #[setter]
    fn set_multi_step(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = size("multi_step", value, 1)?;
        self.shared().change(py, |settings| {
            settings.multi_step = value;
            Ok(())
        })
    }

    /// Samples in a cache, >= 1. Default 32.
    #[getter]
    fn cache_size(&self) -> PyResult<usize> {
        Ok(self.settings()?.cache_size)
    }

    #[setter]
    fn set_cache_size(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = size("cache_size", value, 1)?;
        self.shared().change(py, |settings| {
            settings.cache_size = value;
            Ok(())
        })
    }

    /// Closed episodes held at most, enforced when one is closed; 0 is no limit. Default 0.
    #[getter]
    fn max_episode(&self) -> PyResult<usize> {
        Ok(self.settings()?.max_episode)
    }

    #[setter]
    fn set_max_episode(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = size("max_episode", value, 0)?;
        self.shared().change(py, |settings| {
            settings.max_episode = value;
            Ok(())
        })
    }

    /// Whether a server gives the samples of a cache more than once. Default False.
    #[getter]
    fn reuse_cache(&self) -> PyResult<bool> {
        Ok(self.settings()?.reuse_cache)
    }

    #[setter]
    fn set_reuse_cache(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = flag("reuse_cache", value)?;
        self.shared().change(py, |settings| {
            settings.reuse_cache = value;
            Ok(())
        })
    }

    /// Gamma of each reward dimension, >= 0. Default all 1.
    #[getter]
    fn discount_factor(&self) -> PyResult<Vec<f64>> {
        Ok(self.settings()?.discount_factor.clone())
    }

    #[setter]
    fn set_discount_factor(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = leading("discount_factor", value)?;
        self.shared().change(py, |settings| settings.set_discount_factor(&values))
    }

    /// Coefficient of each reward dimension in the priority. Default all 1.
    #[getter]
    fn reward_coeff(&self) -> PyResult<Vec<f64>> {
        Ok(self.settings()?.reward_coeff.clone())
    }

    #[setter]
    fn set_reward_coeff(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = leading("reward_coeff", value)?;
        self.shared().change(py, |settings| settings.set_reward_coeff(&values))
    }

    /// Which fields samples carry: 14 flags, prev s,a,r,p,v,q,i and then next. Default all True.
    #[getter]
    fn cache_flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.settings()?.cache_flags)
    }

    #[setter]
    fn set_cache_flags(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let items = value.try_iter().map_err(|_| mistyped("cache_flags", "a list", value))?;
        let flags: Vec<bool> = items
            .take(FLAGS + 1)
            .map(|item| flag("cache_flags", &item?))
            .collect::<PyResult<_>>()?;
        self.shared().change(py, |settings| settings.set_cache_flags(&flags))
    }
}
