//! The read-only properties of `cogrs.ReplayMemory`, and its texts.

use std::fmt::Write;

use pyo3::prelude::*;

use crate::error::Error;
use crate::python::exit::call_python;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::LONG;
use crate::spec::Field;

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

// Those with `PyResult` are refused in a forked child.
#[allow(clippy::unused_self)]
#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.entry_size)]
    #[getter]
    fn entry_size(&self) -> usize {
        self.entry_size
    }

    #[doc = stub_doc!(ReplayMemory.max_step)]
    #[getter]
    fn max_step(&self) -> usize {
        self.max_step
    }

    #[doc = stub_doc!(ReplayMemory.uuid)]
    #[getter]
    fn uuid(&self) -> u32 {
        self.uuid
    }

    #[doc = stub_doc!(ReplayMemory.nbytes)]
    #[getter]
    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    #[doc = stub_doc!(ReplayMemory.num_entry)]
    #[getter]
    fn num_entry(&self) -> PyResult<usize> {
        self.handle.check_process()?;
        Ok(self.handle.num_entry())
    }

    #[doc = stub_doc!(ReplayMemory.total_episodes)]
    #[getter]
    fn total_episodes(&self) -> PyResult<u64> {
        self.handle.check_process()?;
        Ok(self.handle.totals().0)
    }

    #[doc = stub_doc!(ReplayMemory.total_steps)]
    #[getter]
    fn total_steps(&self) -> PyResult<u64> {
        self.handle.check_process()?;
        Ok(self.handle.totals().1)
    }

    #[doc = stub_doc!(ReplayMemory.weight_sum)]
    #[getter]
    fn weight_sum(&self) -> PyResult<f64> {
        self.handle.check_process()?;
        Ok(self.handle.weight_sum())
    }

    #[doc = stub_doc!(ReplayMemory.num_sampleable)]
    #[getter]
    fn num_sampleable(&self) -> PyResult<usize> {
        self.handle.check_process()?;
        Ok(self.handle.num_sampleable())
    }

    #[doc = stub_doc!(ReplayMemory.min_weight)]
    #[getter]
    fn min_weight(&self, py: Python<'_>) -> PyResult<f32> {
        self.handle.call(py, LONG, |memory| Ok(memory.min_weight()))
    }

    #[doc = stub_doc!(ReplayMemory.num_episode)]
    fn num_episode(&self) -> PyResult<usize> {
        self.handle.check_process()?;
        Ok(self.handle.num_episode())
    }

    fn __len__(&self) -> PyResult<usize> {
        self.num_entry()
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
            self.handle.num_episode(),
            self.handle.num_entry(),
            self.max_step,
            self.entry_size,
            self.nbytes
        )
    }
}

impl ReplayMemory {
    fn describe(&self) -> Result<String, std::fmt::Error> {
        let settings = self.handle.settings();
        let mut text = String::new();
        writeln!(text, "ReplayMemory {:08x}", self.uuid)?;
        for field in Field::ALL {
            let spec = self.handle.template(field).spec();
            let shape = crate::spec::shape_text(&spec.shape);
            writeln!(
                text,
                "  {}_buf: {} {shape}, {} bytes",
                field.name(),
                spec.dtype_name(),
                spec.nbytes()
            )?;
        }
        writeln!(text, "  entry_size: {} bytes", self.entry_size)?;
        writeln!(text, "  max_step: {}", self.max_step)?;
        writeln!(text, "  nbytes: {} (at most, with episodes of one step)", self.nbytes)?;
        writeln!(text, "  priority_exponent: {}", settings.priority_exponent)?;
        writeln!(text, "  mix_lambda: {}", settings.mix_lambda)?;
        writeln!(text, "  frame_stack: {}", settings.frame_stack)?;
        writeln!(text, "  multi_step: {}", settings.multi_step)?;
        writeln!(text, "  cache_size: {}", settings.cache_size)?;
        writeln!(text, "  max_episode: {}", settings.max_episode)?;
        writeln!(text, "  reuse_cache: {}", settings.reuse_cache)?;
        writeln!(text, "  discount_factor: {:?}", settings.discount_factor)?;
        writeln!(text, "  reward_coeff: {:?}", settings.reward_coeff)?;
        writeln!(text, "  cache_flags: {:?}", settings.cache_flags.map(u8::from))?;
        writeln!(text, "  new_priority: {}", settings.new_priority)?;
        writeln!(text, "  priority_epsilon: {}", settings.priority_epsilon)?;
        writeln!(text, "  frame_padding: {}", settings.frame_padding)?;
        writeln!(text, "  num_episode: {}", self.handle.num_episode())?;
        writeln!(text, "  num_entry: {}", self.handle.num_entry())?;
        writeln!(text, "  num_sampleable: {}", self.handle.num_sampleable())?;
        write!(text, "  weight_sum: {}", self.handle.weight_sum())?;
        Ok(text)
    }
}
