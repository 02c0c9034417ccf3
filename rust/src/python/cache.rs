//! Caches as the frames that carry them.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::Error;
use crate::python::batch::{Filled, fill};
use crate::python::memory::ReplayMemory;
use crate::python::shared::LONG;
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::spec::FIELDS;

/// Draws a cache, see the stub.
///
/// # Errors
/// `MemoryError` when there is no memory for it; `RuntimeError` in a forked child.
#[pyfunction]
pub fn draw_cache<'py>(
    py: Python<'py>,
    memory: &Bound<'py, ReplayMemory>,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let shared = memory.get().shared();
    if shared.num_sampleable() == 0 {
        shared.check_process()?;
        return Ok(None);
    }
    let drawn = shared.call(py, LONG, |memory| {
        if memory.num_sampleable() == 0 {
            return Ok(None);
        }
        let settings = Settings::clone(memory.settings());
        let (draws, filled) = fill(memory, shared, settings.cache_size, |_| Ok(()))?;
        Ok(Some((draws.total, filled, settings)))
    })?;
    let Some((total, filled, settings)) = drawn else { return Ok(None) };
    let mut fields = filled.frames(py)?;
    let weights = fields.split_off(2 * FIELDS);
    let carried = fields.into_iter().zip(settings.cache_flags).filter(|(_, flag)| *flag);
    let frames: Vec<_> = weights.into_iter().chain(carried.map(|(frame, _)| frame)).collect();
    let frames = PyList::new(py, frames)?;
    let items = (settings.cache_size, total, bits(&settings), settings.frame_stack, frames);
    Ok(Some(items.into_pyobject(py)?))
}

/// What decides how a cache looks under the settings of a memory: flags and frames; and the bytes of a
/// row in its largest column. See the stub.
///
/// # Errors
/// `RuntimeError` in a forked child.
#[pyfunction]
pub fn cache_layout(
    py: Python<'_>,
    memory: &Bound<'_, ReplayMemory>,
) -> PyResult<(u32, usize, usize)> {
    memory.get().shared().call(py, 0, |memory: &mut Memory| {
        let settings = memory.settings();
        let shape = crate::replay::cache::CacheShape::new(memory.spec(), settings);
        Ok::<_, Error>((bits(settings), settings.frame_stack, shape.largest()))
    })
}

/// The cache flags, the first one lowest.
fn bits(settings: &Settings) -> u32 {
    settings.cache_flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u32::from(flag))
}

impl Filled {
    /// The arrays as plain bytes.
    fn frames(mut self, py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
        self.flatten();
        let dtypes = vec![numpy::dtype::<u8>(py); 2 * FIELDS + 1];
        self.arrays(py, &dtypes)
    }
}
