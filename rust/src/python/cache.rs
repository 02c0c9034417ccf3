//! Caches as the frames that carry them.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::Error;
use crate::python::batch::{arrays, fill};
use crate::python::layout::{Kind, Plan};
use crate::python::memory::ReplayMemory;
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::spec::FIELDS;

/// How a draw ended.
enum Drawn {
    /// There was nothing to draw from.
    Nothing,
    /// The settings changed meanwhile.
    Outdated,
    /// With this sum of all weights.
    Total(f64),
}

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
    let (total, block, plan) = loop {
        let settings = shared.settings();
        let rows = settings.cache_size;
        let plan = Plan::new(shared.spec(), settings, Kind::Batch, rows)?;
        let mut block = shared.pool.take(plan.layout.size())?;
        let mut parts = plan.layout.cut(block.bytes()?);
        let drawn = shared.call(py, plan.bytes(), |memory| {
            if memory.num_sampleable() == 0 {
                return Ok(Drawn::Nothing);
            }
            let draws = fill(memory, &plan, &mut parts)?;
            Ok(draws.map_or(Drawn::Outdated, |draws| Drawn::Total(draws.total)))
        })?;
        match drawn {
            Drawn::Nothing => return Ok(None),
            Drawn::Outdated => {}
            Drawn::Total(total) => break (total, block, plan),
        }
    };
    let settings = &plan.settings;
    let bytes = vec![numpy::dtype::<u8>(py); 2 * FIELDS + 1];
    let mut fields = arrays(py, block, &plan.layout.flattened(), &bytes)?;
    let weights = fields.split_off(2 * FIELDS);
    let carried = fields.into_iter().zip(settings.cache_flags).filter(|(_, flag)| *flag);
    let frames: Vec<_> = weights.into_iter().chain(carried.map(|(frame, _)| frame)).collect();
    let frames = PyList::new(py, frames)?;
    let items = (settings.cache_size, total, bits(settings), settings.frame_stack, frames);
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
pub fn bits(settings: &Settings) -> u32 {
    settings.cache_flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u32::from(flag))
}
