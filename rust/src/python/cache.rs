//! Caches as the frames that carry them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::error::Error;
use crate::python::batch::{Outcome, arrays, draw_into};
use crate::python::batch_kind::BatchKind;
use crate::python::batch_plan::BatchPlan;
use crate::python::block::BatchMemory;
use crate::python::memory::ReplayMemory;
use crate::replay::cache::{CacheShape, Labels};
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::spec::FIELDS;

#[doc = stub_doc!(draw_cache)]
#[pyfunction]
#[pyo3(signature = (memory, *, ids=false, nstep=false, pack=0))]
pub fn draw_cache<'py>(
    py: Python<'py>,
    memory: &Bound<'py, ReplayMemory>,
    ids: bool,
    nstep: bool,
    pack: usize,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let handle = &memory.get().handle;
    handle.check_process()?;
    if handle.counters.num_drawable_by(handle.settings().sampler) == 0 {
        return Ok(None);
    }
    let kind = BatchKind::Cache { ids, nstep };
    let (share, mut block, plan) = loop {
        let settings = handle.settings();
        let rows = settings.cache_size;
        let plan = BatchPlan::new(handle.spec(), settings, kind, rows)?;
        let mut block = handle.pool.take(plan.layout.size())?;
        let mut parts = plan.layout.cut(block.bytes());
        let outcome = handle
            .call(py, plan.bytes(), |memory| draw_into(memory, (None, None), &plan, &mut parts))?;
        match outcome {
            Outcome::TooFew(_) => return Ok(None),
            Outcome::OtherLayout => {}
            Outcome::Drawn(draws) => break (draws.share(), block, plan),
        }
    };
    let settings = &plan.settings;
    let frames = if plan.layout.size() <= pack {
        let columns = in_sent_order(settings, plan.layout.cut(block.bytes())).concat();
        PyList::new(py, [PyBytes::new(py, &columns)])?
    } else {
        frames(py, block, &plan)?
    };
    let (flags, frame_stack) = sent_layout(settings);
    Ok(Some((settings.cache_size, share, flags, frame_stack, frames).into_pyobject(py)?))
}

#[doc = stub_doc!(start_ids)]
#[pyfunction]
pub fn start_ids(py: Python<'_>, memory: &Bound<'_, ReplayMemory>, random: u64) -> PyResult<()> {
    memory.get().handle.call(py, 0, |memory| memory.start_ids(random))
}

/// The arrays of a batch, or their bytes, in the order in which they are sent: columns first, and of the fields
/// those that the flags name.
pub(super) fn in_sent_order<T>(settings: &Settings, mut arrays: Vec<T>) -> Vec<T> {
    let columns = arrays.split_off(2 * FIELDS);
    let sent = arrays.into_iter().zip(settings.cache_flags).filter(|(_, flag)| *flag);
    columns.into_iter().chain(sent.map(|(array, _)| array)).collect()
}

/// The bytes of a batch as they are sent, each column where it lies in the block.
pub(super) fn frames<'py>(
    py: Python<'py>,
    block: BatchMemory,
    plan: &BatchPlan,
) -> PyResult<Bound<'py, PyList>> {
    let layout = plan.layout.flattened();
    let bytes = vec![numpy::dtype::<u8>(py); layout.parts().len()];
    PyList::new(py, in_sent_order(&plan.settings, arrays(py, block, &layout, &bytes)?))
}

#[doc = stub_doc!(cache_layout)]
#[pyfunction]
#[pyo3(signature = (memory, *, ids=false, nstep=false))]
pub fn cache_layout(
    py: Python<'_>,
    memory: &Bound<'_, ReplayMemory>,
    ids: bool,
    nstep: bool,
) -> PyResult<(u32, usize, usize)> {
    memory.get().handle.call(py, 0, |memory: &mut Memory| {
        let settings = memory.settings();
        let shape = CacheShape::new(memory.spec(), settings, Labels { ids, senders: false, nstep });
        let (flags, frame_stack) = sent_layout(settings);
        Ok::<_, Error>((flags, frame_stack, shape.largest()))
    })
}

/// The settings that decide on the layout of caches: the cache flags, the first one lowest, and `frame_stack`.
pub fn sent_layout(settings: &Settings) -> (u32, usize) {
    let flags = settings.cache_flags.iter().rev();
    (flags.fold(0, |bits, &flag| bits << 1 | u32::from(flag)), settings.frame_stack)
}
