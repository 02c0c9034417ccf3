//! The settable properties of `cogrs.ReplayMemory`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString};

use crate::error::Error;
use crate::python::args::{flag, mistyped, number, size};
use crate::python::array::{Numbers, numbers};
use crate::python::memory::ReplayMemory;
use crate::replay::settings::{FLAGS, FramePadding, Leading, NewPriority, Settings};

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

/// The setting `new_priority`.
fn new_priority(value: &Bound<'_, PyAny>) -> PyResult<NewPriority> {
    const EXPECTED: &str = "'returns', 'max' or a number";
    if value.is_instance_of::<PyBool>() {
        return Err(mistyped("new_priority", EXPECTED, value));
    }
    if !value.is_instance_of::<PyString>() && value.hasattr("__float__")? {
        return Ok(NewPriority::Number(number("new_priority", value)?));
    }
    let text = text("new_priority", EXPECTED, value)?;
    match text.as_str() {
        "returns" => Ok(NewPriority::Returns),
        "max" => Ok(NewPriority::Max),
        _ => Err(Error::value("new_priority", EXPECTED, format!("{text:?}")).into()),
    }
}

fn text(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| mistyped(name, expected, value))?;
    Ok(text.to_string_lossy().into_owned())
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
        let value = new_priority(value)?;
        self.shared().change(py, |settings| settings.set_new_priority(value))
    }

    /// Number added to each error before the exponent, at a close and in `update_priority`.
    #[getter]
    fn priority_epsilon(&self) -> PyResult<f64> {
        Ok(self.settings()?.priority_epsilon)
    }

    #[setter]
    fn set_priority_epsilon(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = number("priority_epsilon", value)?;
        self.shared().change(py, |settings| settings.set_priority_epsilon(value))
    }

    /// What stands for frames before the first of an episode in a stack. Default "none".
    #[getter]
    fn frame_padding(&self) -> PyResult<String> {
        Ok(self.settings()?.frame_padding.to_string())
    }

    #[setter]
    fn set_frame_padding(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        const EXPECTED: &str = "'none', 'repeat' or 'zero'";
        let text = text("frame_padding", EXPECTED, value)?;
        let named = |padding: &FramePadding| padding.to_string() == text;
        let Some(padding) = FramePadding::ALL.into_iter().find(named) else {
            return Err(Error::value("frame_padding", EXPECTED, format!("{text:?}")).into());
        };
        self.shared().change(py, |settings| {
            settings.frame_padding = padding;
            Ok(())
        })
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

    /// States stacked in a sample, >= 1. Default 1.
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

    /// Steps between prev and next, >= 1. Default 1.
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
