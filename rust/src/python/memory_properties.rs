//! The read-only properties of `cogrs.ReplayMemory`, and its texts.

use std::fmt::Write;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Error;
use crate::python::exit::call_python;
use crate::python::memory::ReplayMemory;
use crate::python::memory_handle::{Counters, LONG};
use crate::python::rate_limiter::RateLimiter;
use crate::replay::compression::Compression;
use crate::replay::disk_use::DiskUse;
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
    nbytes: u64 = |memory| memory.counters()?.nbytes();
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
        let compressed = self.compressed_use(py)?;
        let disk = self.disk_use(py)?;
        let text = self
            .describe(&compressed, disk.as_ref())
            .map_err(|error| Error::State(error.to_string()))?;
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
            self.handle.counters.nbytes()
        )
    }
}

impl ReplayMemory {
    /// The counters; `RuntimeError` in a forked child.
    fn counters(&self) -> PyResult<&Counters> {
        self.handle.check_process()?;
        Ok(&self.handle.counters)
    }

    fn describe(
        &self,
        compressed: &[CompressedUse],
        disk: Option<&DiskUse>,
    ) -> Result<String, std::fmt::Error> {
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
        let nbytes = self.handle.counters.nbytes();
        let at_most = if compressed.is_empty() { "at most" } else { "expected" };
        writeln!(text, "  nbytes: {nbytes} ({at_most}, with episodes of one step)")?;
        if let Some(DiskUse { folder, bytes, expected, in_memory }) = disk {
            let folder = folder.display();
            writeln!(text, "  storage: {folder}, {bytes} bytes of at most {expected} on disk")?;
            writeln!(text, "  compressed in memory: {in_memory} bytes")?;
        }
        for (name, codec, values, raw_bytes, bytes) in compressed {
            let ratio = *raw_bytes as f64 / (*bytes).max(1) as f64;
            writeln!(
                text,
                "  {name}: {codec}, {values} values of {raw_bytes} bytes in {bytes}, ratio {ratio:.1}"
            )?;
        }
        if let Some(limit) = self.handle.compression.as_ref().and_then(|by| by.max_bytes) {
            writeln!(text, "  max_bytes: {limit}")?;
        }
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

/// A compressed field: name and codec, and of the values held their number, their bytes, and the bytes that they take.
type CompressedUse = (&'static str, String, u64, u64, u64);

impl ReplayMemory {
    pub(super) fn compressed_use(&self, py: Python<'_>) -> PyResult<Vec<CompressedUse>> {
        let Some(compression) = &self.handle.compression else { return Ok(Vec::new()) };
        let held = self.handle.call(py, 0, |memory| Ok(memory.compressed_use()))?;
        let told = compression.fields().zip(held).map(|((field, codec), (_, held))| {
            (field.name(), codec.to_string(), held.values, held.raw_bytes, held.bytes)
        });
        Ok(told.collect())
    }
}

#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.compress)]
    #[getter]
    fn compress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (field, codec) in self.handle.compression.iter().flat_map(Compression::fields) {
            dict.set_item(field.name(), codec.to_string())?;
        }
        Ok(dict)
    }

    #[doc = stub_doc!(ReplayMemory.max_bytes)]
    #[getter]
    fn max_bytes(&self) -> Option<u64> {
        self.handle.compression.as_ref()?.max_bytes
    }
}
