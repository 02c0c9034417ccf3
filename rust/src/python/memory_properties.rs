//! The read-only properties of `cogrs.ReplayMemory`, and its texts.

use std::fmt::Write;

use pyo3::prelude::*;

use crate::error::Error;
use crate::python::exit::call_python;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::{Counters, LONG};
use crate::python::rate_limiter::RateLimiter;
use crate::spec::{Field, shape_text};

macro_rules! templates {
    ($($name:ident: $field:ident;)*) => {
        #[pymethods]
        impl ReplayMemory {$(
            #[doc = stub_doc!(ReplayMemory.$name)]
            #[getter]
            fn $name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.handle.template(Field::$field).zeros(py)
            }
        )*}
    };
}

templates! {
    state_buf: State;
    action_buf: Action;
    reward_buf: Reward;
    prob_buf: Prob;
    value_buf: Value;
    qvest_buf: Qvest;
    info_buf: Info;
}

#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.recurrent)]
    #[getter]
    fn recurrent<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(template) = &self.handle.recurrent else { return Ok(None) };
        let initial = self.handle.call(py, 0, |memory| {
            Ok(memory.recurrent_spec().map(|spec| spec.initial.clone()).unwrap_or_default())
        })?;
        template.array(py, &initial).map(Some)
    }
}

macro_rules! getters {
    ($($name:ident: $type:ty = |$memory:ident| $value:expr;)*) => {
        #[pymethods]
        impl ReplayMemory {$(
            #[doc = stub_doc!(ReplayMemory.$name)]
            #[getter]
            fn $name(&self) -> PyResult<$type> {
                let $memory = self;
                Ok($value)
            }
        )*}
    };
}

getters! {
    entry_size: usize = |memory| memory.entry_size;
    max_step: usize = |memory| memory.max_step;
    nbytes: u64 = |memory| memory.nbytes;
    uuid: u32 = |memory| memory.uuid;
    recurrent_period: usize = |memory| memory.handle.recurrent_period();
    num_entry: usize = |memory| memory.counters()?.num_entry();
    num_drawable: usize = |memory| memory.counters()?.num_drawable();
    num_sampleable: usize = |memory| memory.counters()?.num_sampleable();
    total_episodes: u64 = |memory| memory.counters()?.total_episodes();
    total_steps: u64 = |memory| memory.counters()?.total_steps();
    weight_sum: f64 = |memory| memory.counters()?.weight_sum();
}

#[allow(clippy::unused_self)]
#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.min_weight)]
    #[getter]
    fn min_weight(&self, py: Python<'_>) -> PyResult<f32> {
        self.handle.call(py, LONG, |memory| Ok(memory.min_weight()))
    }

    #[doc = stub_doc!(ReplayMemory.limiter)]
    #[getter]
    fn limiter(&self) -> Option<RateLimiter> {
        self.handle.limiter.map(RateLimiter)
    }

    #[doc = stub_doc!(ReplayMemory.num_episode)]
    fn num_episode(&self) -> PyResult<usize> {
        Ok(self.counters()?.num_episode())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.counters()?.num_entry())
    }

    // Without this an empty memory would be false, and `memory or default` a trap.
    fn __bool__(&self) -> bool {
        true
    }

    #[doc = stub_doc!(ReplayMemory.print_info)]
    fn print_info(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process()?;
        let text = self.describe().map_err(|error| Error::State(error.to_string()))?;
        call_python!(py, "builtins", "print", (text,)).map(drop)
    }

    fn __repr__(&self) -> String {
        format!(
            "ReplayMemory(uuid=0x{:08x}, num_episode={}, num_entry={}, max_step={}, entry_size={}, \
             nbytes={})",
            self.uuid,
            self.handle.counters.num_episode(),
            self.handle.counters.num_entry(),
            self.max_step,
            self.entry_size,
            self.nbytes
        )
    }
}

impl ReplayMemory {
    /// The counters; `RuntimeError` in a forked child.
    fn counters(&self) -> PyResult<&Counters> {
        self.handle.check_process()?;
        Ok(&self.handle.counters)
    }

    fn describe(&self) -> Result<String, std::fmt::Error> {
        macro_rules! lines {
            ($text:ident, $format:literal, $of:expr, $($name:ident)*) => {$(
                writeln!($text, concat!("  {}: ", $format), stringify!($name), $of.$name)?;
            )*};
        }
        let settings = self.handle.settings();
        let mut text = String::new();
        writeln!(text, "ReplayMemory {:08x}", self.uuid)?;
        for field in Field::ALL {
            let spec = self.handle.template(field).spec();
            let shape = shape_text(&spec.shape);
            let (name, dtype, size) = (field.name(), spec.dtype_name(), spec.nbytes());
            writeln!(text, "  {name}_buf: {dtype} {shape}, {size} bytes")?;
        }
        writeln!(text, "  entry_size: {} bytes", self.entry_size)?;
        writeln!(text, "  max_step: {}", self.max_step)?;
        writeln!(text, "  nbytes: {} (at most, with episodes of one step)", self.nbytes)?;
        lines!(text, "{}", settings, priority_exponent mix_lambda frame_stack multi_step);
        lines!(text, "{}", settings, cache_size max_episode reuse_cache);
        lines!(text, "{:?}", settings, discount_factor reward_coeff);
        writeln!(text, "  cache_flags: {:?}", settings.cache_flags.map(u8::from))?;
        lines!(text, "{}", settings, new_priority priority_epsilon frame_padding sequence_eta);
        lines!(text, "{}", settings, sampler max_times_sampled remover);
        if let Some(limiter) = self.handle.limiter {
            writeln!(text, "  limiter: {}", RateLimiter(limiter).__repr__())?;
        }
        let counters = &self.handle.counters;
        writeln!(text, "  num_episode: {}", counters.num_episode())?;
        writeln!(text, "  num_entry: {}", counters.num_entry())?;
        writeln!(text, "  num_drawable: {}", counters.num_drawable())?;
        writeln!(text, "  num_sampleable: {}", counters.num_sampleable())?;
        write!(text, "  weight_sum: {}", counters.weight_sum())?;
        Ok(text)
    }
}
