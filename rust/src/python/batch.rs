//! Batches: one block of memory, cut into the arrays of a named tuple.
#![allow(unsafe_code)]

use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods, dtype,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyTuple};

use crate::error::{Error, Result};
use crate::python::args::{Normalize, integer, wrong_type};
use crate::python::array::{is_viewable, over};
use crate::python::batch_plan::{
    BatchColumn, BatchKind, BatchLayout, BatchPlan, ExtraColumns, ImportanceOptions,
};
use crate::python::block::BatchMemory;
use crate::python::exit::python_code;
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::out_arrays::OutArrays;
use crate::replay::column::check_allocatable;
use crate::replay::importance::{Largest, importance_weights};
use crate::replay::memory::Memory;
use crate::replay::transition::Draws;
use crate::spec::{FIELDS, Field};

/// The arrays that lie in a block, in the order of the layout.
pub(super) fn arrays<'py>(
    py: Python<'py>,
    mut memory: BatchMemory,
    layout: &BatchLayout,
    dtypes: &[Bound<'py, PyArrayDescr>],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let bytes = memory.bytes()?;
    let (start, size) = (bytes.as_mut_ptr(), bytes.len());
    assert!(layout.size() <= size, "a block smaller than its layout");
    let owner = Bound::new(py, memory)?.into_any();
    let mut arrays = Vec::with_capacity(dtypes.len());
    for (part, dtype) in layout.parts().iter().zip(dtypes) {
        // SAFETY: the part lies inside the block (its layout fits, checked above), whose bytes stay in place
        // and belong to `owner` alone; parts do not overlap; the block and its parts start at multiples of
        // 64, which is aligned for every dtype.
        arrays.push(unsafe { over(dtype, &part.shape, start.add(part.offset), &owner)? });
    }
    Ok(arrays)
}

/// Draws rows and fills the arrays of a plan; none when they would have another layout by now.
///
/// # Errors
/// [`Error::State`] when nothing can be drawn.
pub(super) fn fill(
    memory: &mut Memory,
    plan: &BatchPlan,
    parts: &mut [&mut [u8]],
) -> Result<Option<Draws>> {
    memory.check_drawable()?;
    if !memory.settings().lays_out_as(&plan.settings) {
        return Ok(None);
    }
    let draws = memory.draw(plan.rows)?;
    let (fields, columns) = parts.split_at_mut(2 * FIELDS);
    memory.gather_all(&draws, fields);
    let mut columns = columns.iter_mut();
    for column in plan.kind.columns() {
        // It was filled with the column before.
        if column == BatchColumn::NStepDiscount {
            continue;
        }
        let Some(part) = columns.next() else { break };
        match column {
            BatchColumn::Weight => put(part, draws.weights.iter().copied()),
            BatchColumn::Id | BatchColumn::Ids => put(part, memory.ids(&draws.prev)),
            BatchColumn::Probability => {
                put(part, draws.weights.iter().map(|&weight| f64::from(weight) / draws.total));
            }
            BatchColumn::NextTerminated => put(part, memory.terminated(&draws.next)),
            BatchColumn::NStepReturn => {
                // Both come of one walk over the rewards.
                let Some(discounts) = columns.next() else { break };
                memory.nstep(&draws, part, discounts);
            }
            BatchColumn::ImportanceWeight => {
                if let BatchKind::Sample { weighted: Some(correction), .. } = plan.kind {
                    put(part, importance(memory, &draws, correction)?.into_iter());
                }
            }
            BatchColumn::NStepDiscount | BatchColumn::Sender => {}
        }
    }
    Ok(Some(draws))
}

fn importance(memory: &Memory, draws: &Draws, correction: ImportanceOptions) -> Result<Vec<f32>> {
    let largest = match correction.normalize {
        Normalize::Batch => Largest::OfBatch,
        Normalize::All => Largest::OfAll(f64::from(memory.min_weight())),
    };
    let weights: Vec<f64> = draws.weights.iter().copied().map(f64::from).collect();
    let count = memory.num_sampleable() as u64;
    importance_weights(&weights, correction.beta, draws.total, count, largest)
}

pub(super) fn put<T: bytemuck::NoUninit>(part: &mut [u8], values: impl Iterator<Item = T>) {
    for (target, value) in part.chunks_exact_mut(size_of::<T>()).zip(values) {
        target.copy_from_slice(bytemuck::bytes_of(&value));
    }
}

/// Draws a batch, into fresh arrays or into those of `out`. See `ReplayMemory.get_batch` and `sample`.
///
/// # Errors
/// As there.
pub fn draw<'py>(
    py: Python<'py>,
    handle: &MemoryHandle,
    kind: BatchKind,
    rows: usize,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // Before the settings are looked at, whose lock may stay locked in a forked child.
    handle.check_process()?;
    handle.check_drawable(py)?;
    let dtypes = kind.dtypes(py, handle);
    loop {
        let plan = BatchPlan::new(handle.spec(), handle.settings(), kind, rows)?;
        let bytes = plan.bytes();
        if let Some(out) = out {
            let mut ready = OutArrays::new(out, &plan, &dtypes)?;
            let mut spans = ready.spans();
            let drawn =
                handle.call(py, bytes, |memory| fill(memory, &plan, &mut spans.slices()))?;
            if drawn.is_some() {
                return Ok(out.clone());
            }
            continue;
        }
        let mut block = handle.pool.take(plan.layout.size())?;
        let mut parts = plan.layout.cut(block.bytes()?);
        if handle.call(py, bytes, |memory| fill(memory, &plan, &mut parts))?.is_some() {
            return transitions(py, kind, arrays(py, block, &plan.layout, &dtypes)?);
        }
    }
}

/// See `ReplayMemory.episode`.
///
/// # Errors
/// As there.
pub fn episode<'py>(
    py: Python<'py>,
    handle: &MemoryHandle,
    index: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let read = handle.call(py, LONG, |memory| {
        let count = memory.num_episode();
        let from_end = if index < 0 { index + count as i64 } else { index };
        let missing = || Error::Index(format!("no closed episode {index}: {count} are held"));
        let at = usize::try_from(from_end).map_err(|_| missing())?;
        let episode = memory.episode(at).ok_or_else(missing)?;
        let ending = episode.ending.as_ref().ok_or_else(missing)?;
        let mut layout = BatchLayout::default();
        for field in Field::ALL {
            let spec = &memory.spec()[field];
            layout.push(episode.len(), &spec.shape, spec.itemsize)?;
        }
        layout.push(episode.len(), &[], size_of::<f32>())?;
        layout.push(episode.len(), &[], size_of::<u64>())?;
        let mut block = handle.pool.take(layout.size())?;
        let mut parts = layout.cut(block.bytes()?);
        let (fields, columns) = parts.split_at_mut(FIELDS);
        for (field, part) in Field::ALL.into_iter().zip(fields) {
            memory.read(episode, field, part);
        }
        put(columns[0], memory.read_weights(episode));
        let first = memory.id(episode.serial, 0);
        put(columns[1], first..first + episode.len() as u64);
        Ok((block, layout, ending.bootstrap.is_some(), ending.final_state))
    })?;
    let (block, layout, truncated, final_state) = read;
    let dtypes = Field::ALL.map(|field| handle.template(field).dtype().bind(py).clone());
    let dtypes = [&dtypes[..], &[dtype::<f32>(py), dtype::<u64>(py)]].concat();
    let mut arrays = arrays(py, block, &layout, &dtypes)?;
    let rest = arrays.split_off(FIELDS);
    let mut items = vec![entry(py, arrays)?];
    items.extend(rest);
    for flag in [truncated, final_state] {
        items.push(PyBool::new(py, flag).to_owned().into_any());
    }
    EPISODE.of(py, items)
}

/// A class of `cogrs.replay.batch`, looked up once.
struct Named {
    name: &'static str,
    class: PyOnceLock<Py<PyAny>>,
}

static ENTRY: Named = Named::new("Entry");
static BATCH: Named = Named::new("Batch");
static SAMPLE: Named = Named::new("Sample");
static NSTEP_SAMPLE: Named = Named::new("NStepSample");
static WEIGHTED_SAMPLE: Named = Named::new("WeightedSample");
static NSTEP_WEIGHTED_SAMPLE: Named = Named::new("NStepWeightedSample");
static ID_BATCH: Named = Named::new("IdBatch");
static NSTEP_BATCH: Named = Named::new("NStepBatch");
static NSTEP_ID_BATCH: Named = Named::new("NStepIdBatch");
static EPISODE: Named = Named::new("Episode");

impl Named {
    const fn new(name: &'static str) -> Self {
        Self { name, class: PyOnceLock::new() }
    }

    /// One of this class. `tuple.__new__` makes it, as in the class's own `_make`; its `__new__` is Python code.
    fn of<'py>(
        &self,
        py: Python<'py>,
        items: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let new = || Ok::<_, PyErr>(py.get_type::<PyTuple>().getattr("__new__")?.unbind());
        let class = self.class.import(py, "cogrs.replay.batch", self.name)?;
        NEW.get_or_try_init(py, new)?.bind(py).call1((class, PyTuple::new(py, items)?))
    }
}

/// The seven fields. Records that stand for a Dict or a Tuple become that.
fn entry<'py>(py: Python<'py>, mut fields: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    for field in &mut fields {
        if field.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().kind() == b'V') {
            let parts = py.import(intern!(py, "cogrs.nested"))?;
            *field = python_code(py, || parts.call_method1(intern!(py, "apart"), (&*field,)))?;
        }
    }
    ENTRY.of(py, fields)
}

/// `(prev, next, *columns)` from the arrays of a draw.
pub(super) fn transitions<'py>(
    py: Python<'py>,
    kind: BatchKind,
    mut arrays: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let columns = arrays.split_off(2 * FIELDS);
    let next = entry(py, arrays.split_off(FIELDS))?;
    let mut items = vec![entry(py, arrays)?, next];
    items.extend(columns);
    let class = match kind {
        BatchKind::Cache(_) => return Err(Error::State("a cache is not a batch".into()).into()),
        BatchKind::Batch(ExtraColumns { ids: false, nstep: false }) => &BATCH,
        BatchKind::Batch(ExtraColumns { ids: true, nstep: false }) => &ID_BATCH,
        BatchKind::Batch(ExtraColumns { ids: false, nstep: true }) => &NSTEP_BATCH,
        BatchKind::Batch(ExtraColumns { ids: true, nstep: true }) => &NSTEP_ID_BATCH,
        BatchKind::Sample { nstep: false, weighted: None } => &SAMPLE,
        BatchKind::Sample { nstep: true, weighted: None } => &NSTEP_SAMPLE,
        BatchKind::Sample { nstep: false, weighted: Some(_) } => &WEIGHTED_SAMPLE,
        BatchKind::Sample { nstep: true, weighted: Some(_) } => &NSTEP_WEIGHTED_SAMPLE,
    };
    class.of(py, items)
}

/// One id or many.
///
/// # Errors
/// `TypeError` or `ValueError` that name `id`.
pub fn ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    // Not a subclass's, which may mean something else by its memory: a masked array does.
    if let Ok(array) = value.cast_exact::<numpy::PyArray1<u64>>()
        && is_viewable(array.as_untyped())
    {
        let array =
            array.try_readonly().map_err(|_| wrong_type("id", "an array to be read", value))?;
        check_allocatable(array.as_array().len().saturating_mul(size_of::<u64>()))?;
        return Ok(array.as_array().iter().copied().collect());
    }
    // An array has the method whatever it holds.
    if value.hasattr("__index__")? && (value.is_instance_of::<PyInt>() || value.len().is_err()) {
        return Ok(vec![integer("id", value, 0)?]);
    }
    if let Ok(dims) = value.getattr("ndim").and_then(|ndim| ndim.extract::<usize>())
        && dims > 1
    {
        let got = value.getattr("shape").map_or("?".into(), |shape| format!("shape {shape}"));
        return Err(Error::value("id", "an id, or one dimension of ids", got).into());
    }
    // An iterator without a length may never end.
    match (value.len(), value.try_iter()) {
        (Ok(count), Ok(items)) => {
            let mut ids = Vec::new();
            for (at, item) in items.take(count).enumerate() {
                let item = item?;
                ids.try_reserve(1).map_err(|error| Error::Memory(format!("id: {error}")))?;
                if item.len().is_ok() {
                    let got = format!("{} at index {at}", item.get_type().name()?);
                    return Err(Error::kind("id", "an id, or one dimension of ids", got).into());
                }
                ids.push(integer("id", &item, 0)?);
            }
            Ok(ids)
        }
        _ => Err(wrong_type("id", "an id or a list of ids", value)),
    }
}
