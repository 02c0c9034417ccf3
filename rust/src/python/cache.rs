//! Caches as the frames that carry them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::error::Error;
use crate::python::batch::{Outcome, arrays};
use crate::python::batch_kind::BatchKind;
use crate::python::block::BatchMemory;
use crate::python::cache_plan::CachePlan;
use crate::python::memory::ReplayMemory;
use crate::python::sequences::ShapeArgs;

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
    let of_sequences = handle.cache_sequences.get().is_some();
    if !of_sequences && handle.counters.num_drawable_by(handle.settings().sampler) == 0 {
        return Ok(None);
    }
    let kind = BatchKind::Cache { ids, nstep };
    let (share, mut block, plan) = loop {
        let settings = handle.settings();
        let rows = settings.cache_size;
        let plan = CachePlan::new(handle, settings, kind, rows)?;
        let mut block = handle.pool.take(plan.layout().size())?;
        let mut parts = plan.layout().cut(block.bytes());
        let outcome = handle.call(py, plan.bytes(), |memory| plan.draw_into(memory, &mut parts))?;
        match outcome {
            Outcome::TooFew(_) => return Ok(None),
            Outcome::OtherLayout => {}
            Outcome::Drawn(share) => break (share, block, plan),
        }
    };
    let settings = plan.settings();
    let frames = if plan.layout().size() <= pack {
        let columns = plan.in_sent_order(plan.layout().cut(block.bytes())).concat();
        PyList::new(py, [PyBytes::new(py, &columns)])?
    } else {
        frames(py, block, &plan)?
    };
    let (flags, frame_stack) = CachePlan::sent_layout(handle, settings);
    Ok(Some((settings.cache_size, share, flags, frame_stack, frames).into_pyobject(py)?))
}

#[doc = stub_doc!(start_ids)]
#[pyfunction]
pub fn start_ids(py: Python<'_>, memory: &Bound<'_, ReplayMemory>, random: u64) -> PyResult<()> {
    memory.get().handle.call(py, 0, |memory| memory.start_ids(random))
}

/// The bytes of rows as they are sent, each column where it lies in the block.
pub(super) fn frames<'py>(
    py: Python<'py>,
    block: BatchMemory,
    plan: &CachePlan,
) -> PyResult<Bound<'py, PyList>> {
    let layout = plan.layout().flattened();
    let bytes = vec![numpy::dtype::<u8>(py); layout.parts().len()];
    PyList::new(py, plan.in_sent_order(arrays(py, block, &layout, &bytes)?))
}

#[doc = stub_doc!(cache_layout)]
#[pyfunction]
#[pyo3(signature = (memory, *, ids=false, nstep=false))]
pub fn cache_layout(
    memory: &Bound<'_, ReplayMemory>,
    ids: bool,
    nstep: bool,
) -> PyResult<(u32, usize, usize)> {
    let handle = &memory.get().handle;
    handle.check_process()?;
    let settings = handle.settings();
    let shape = CachePlan::shape(handle, &settings, BatchKind::Cache { ids, nstep })?;
    let (flags, frame_stack) = CachePlan::sent_layout(handle, &settings);
    Ok((flags, frame_stack, shape.largest()))
}

#[doc = stub_doc!(set_cache_sequences)]
#[pyfunction]
#[pyo3(signature = (memory, length, burn_in=None, after=None, period=None, border=None),
       text_signature = "(memory, length, burn_in=0, after=0, period=1, border='clip')")]
pub fn set_cache_sequences(
    memory: &Bound<'_, ReplayMemory>,
    length: &Bound<'_, PyAny>,
    burn_in: Option<&Bound<'_, PyAny>>,
    after: Option<&Bound<'_, PyAny>>,
    period: Option<&Bound<'_, PyAny>>,
    border: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let shape = ShapeArgs { length, burn_in, after, period, border }.shape()?;
    let again = |_| Error::State("the sequences of this memory's caches are set already".into());
    Ok(memory.get().handle.cache_sequences.set(shape).map_err(again)?)
}

#[doc = stub_doc!(cache_sequences)]
#[pyfunction]
pub fn cache_sequences<'py>(
    memory: &Bound<'py, ReplayMemory>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(shape) = memory.get().handle.cache_sequences.get() else { return Ok(None) };
    let dict = PyDict::new(memory.py());
    dict.set_item("length", shape.length)?;
    dict.set_item("burn_in", shape.burn_in)?;
    dict.set_item("after", shape.after)?;
    dict.set_item("period", shape.period)?;
    dict.set_item("border", shape.border.to_string())?;
    Ok(Some(dict))
}
