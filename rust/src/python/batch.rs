//! Batches: one block of memory, cut into the arrays of a named tuple.
#![allow(unsafe_code)]

use std::sync::Arc;

use numpy::{PyArrayDescr, PyArrayMethods, dtype};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyTuple};

use crate::error::{Error, Result};
use crate::python::args::{integer, mistyped};
use crate::python::array::over;
use crate::python::block::BatchMemory;
use crate::python::shared::{LONG, Shared};
use crate::replay::column::{available_memory, check_allocatable};
use crate::replay::memory::Memory;
use crate::replay::settings::Settings;
use crate::replay::transition::{DRAW, Draws};
use crate::spec::{EntrySpec, FIELDS, Field};

/// Arrays in a block start at multiples of a cache line.
const ALIGN: usize = 64;

/// From this size on the machine is asked whether it has so much.
const LARGE: usize = 1 << 28;

/// Where the arrays of a block lie.
#[derive(Debug, Default)]
pub(super) struct Layout {
    parts: Vec<Part>,
    size: usize,
}

#[derive(Debug)]
struct Part {
    shape: Vec<usize>,
    offset: usize,
    size: usize,
}

impl Layout {
    fn push(&mut self, shape: Vec<usize>, itemsize: usize) -> Result<()> {
        let size = shape.iter().try_fold(itemsize, |size, &dim| size.checked_mul(dim));
        let end = size.and_then(|size| self.size.checked_add(size));
        let padded = end.and_then(|end| end.checked_next_multiple_of(ALIGN));
        let (Some(size), Some(padded)) = (size, padded) else {
            return Err(Error::Memory("batch_size: the batch exceeds the address space".into()));
        };
        self.parts.push(Part { shape, offset: self.size, size });
        self.size = padded;
        Ok(())
    }

    /// Bytes of the block.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The layout of a batch: prev's fields, next's, weights.
    pub(super) fn of_batch(spec: &EntrySpec, settings: &Settings, rows: usize) -> Result<Self> {
        let mut layout = Self::default();
        for (flag, field) in settings.cache_flags.iter().zip(Field::ALL.into_iter().cycle()) {
            let mut shape = vec![if *flag { rows } else { 0 }];
            if field == Field::State {
                shape.push(settings.frame_stack);
            }
            shape.extend(&spec[field].shape);
            layout.push(shape, spec[field].itemsize)?;
        }
        layout.push(vec![rows], size_of::<f32>())?;
        let needed = rows.saturating_mul(DRAW).saturating_add(layout.size);
        if needed > LARGE && needed as u64 > available_memory() {
            let available = available_memory();
            return Err(Error::Memory(format!(
                "batch_size: {rows} rows take {needed} bytes, of which {available} are available"
            )));
        }
        Ok(layout)
    }
}

/// A filled block and where its arrays lie.
pub(super) struct Filled {
    memory: BatchMemory,
    layout: Layout,
}

impl Filled {
    pub(super) fn new(shared: &Shared, layout: Layout) -> Result<Self> {
        Ok(Self { memory: shared.pool.take(layout.size)?, layout })
    }

    pub(super) fn part(&mut self, at: usize) -> Result<&mut [u8]> {
        let Part { offset, size, .. } = self.layout.parts[at];
        Ok(&mut self.memory.bytes()?[offset..offset + size])
    }

    /// All parts, in the order of the layout.
    pub(super) fn parts(&mut self) -> Result<Vec<&mut [u8]>> {
        let mut rest = self.memory.bytes()?;
        let mut at = 0;
        let mut parts = Vec::with_capacity(self.layout.parts.len());
        for &Part { offset, size, .. } in &self.layout.parts {
            let (part, after) = rest.split_at_mut(offset - at).1.split_at_mut(size);
            parts.push(part);
            (rest, at) = (after, offset + size);
        }
        Ok(parts)
    }

    fn put<T: bytemuck::NoUninit>(
        &mut self,
        at: usize,
        values: impl Iterator<Item = T>,
    ) -> Result<()> {
        let part = self.part(at)?;
        for (target, value) in part.chunks_exact_mut(size_of::<T>()).zip(values) {
            target.copy_from_slice(bytemuck::bytes_of(&value));
        }
        Ok(())
    }

    /// Makes every array one of plain bytes.
    pub(super) fn flatten(&mut self) {
        for part in &mut self.layout.parts {
            part.shape = vec![part.size];
        }
    }

    /// The arrays, in the order of the layout.
    pub(super) fn arrays<'py>(
        mut self,
        py: Python<'py>,
        dtypes: &[Bound<'py, PyArrayDescr>],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let start = self.memory.bytes()?.as_mut_ptr();
        let owner = Bound::new(py, self.memory)?.into_any();
        let mut arrays = Vec::with_capacity(dtypes.len());
        for (part, dtype) in self.layout.parts.iter().zip(dtypes) {
            // SAFETY: the part lies inside the block (`part` slices it so), whose bytes stay in place and
            // belong to `owner` alone; parts do not overlap; the block starts where the allocator or the
            // page does and parts at multiples of 64, which is aligned for every dtype.
            arrays.push(unsafe { over(dtype, &part.shape, start.add(part.offset), &owner)? });
        }
        Ok(arrays)
    }
}

pub(super) fn field_dtypes<'py>(
    py: Python<'py>,
    shared: &Shared,
) -> [Bound<'py, PyArrayDescr>; FIELDS] {
    Field::ALL.map(|field| shared.template(field).dtype().bind(py).clone())
}

/// Draws rows and fills the arrays of a batch; the layout may hold more parts after those.
pub(super) fn fill(
    memory: &mut Memory,
    shared: &Shared,
    rows: usize,
    extend: impl FnOnce(&mut Layout) -> Result<()>,
) -> Result<(Draws, Filled)> {
    let settings = Arc::clone(memory.settings());
    memory.check_drawable()?;
    let mut layout = Layout::of_batch(memory.spec(), &settings, rows)?;
    extend(&mut layout)?;
    let draws = memory.draw(rows)?;
    let mut filled = Filled::new(shared, layout)?;
    for (at, &flag) in settings.cache_flags.iter().enumerate() {
        if flag {
            let rows = if at < FIELDS { &draws.prev } else { &draws.next };
            memory.gather(Field::ALL[at % FIELDS], rows, filled.part(at)?);
        }
    }
    filled.put(2 * FIELDS, draws.weights.iter().copied())?;
    Ok((draws, filled))
}

/// What a draw of so many rows copies, about.
fn copied(shared: &Shared, rows: usize) -> usize {
    let fields = Field::ALL.map(|field| shared.template(field).spec().nbytes());
    let stack = fields[Field::State.index()].saturating_mul(shared.settings().frame_stack);
    let entry = fields.iter().fold(stack, |sum, size| sum.saturating_add(*size));
    let row = entry.saturating_mul(2);
    row.saturating_add(DRAW).saturating_mul(rows)
}

/// See `ReplayMemory.get_batch`.
///
/// # Errors
/// As there.
pub fn get_batch<'py>(
    py: Python<'py>,
    shared: &Shared,
    rows: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (_, filled) =
        shared.call(py, copied(shared, rows), |memory| fill(memory, shared, rows, |_| Ok(())))?;
    let fields = field_dtypes(py, shared);
    let dtypes = [&fields[..], &fields, &[dtype::<f32>(py)]].concat();
    transitions(py, &BATCH, filled.arrays(py, &dtypes)?)
}

/// See `ReplayMemory.sample`.
///
/// # Errors
/// As there.
pub fn sample<'py>(py: Python<'py>, shared: &Shared, rows: usize) -> PyResult<Bound<'py, PyAny>> {
    let filled = shared.call(py, copied(shared, rows), |memory| {
        let (draws, mut filled) = fill(memory, shared, rows, |layout| {
            layout.push(vec![rows], size_of::<u64>())?;
            layout.push(vec![rows], size_of::<f64>())?;
            layout.push(vec![rows], size_of::<bool>())
        })?;
        let first = 2 * FIELDS + 1;
        filled.put(first, memory.ids(&draws.prev))?;
        let probabilities = draws.weights.iter().map(|&weight| f64::from(weight) / draws.total);
        filled.put(first + 1, probabilities)?;
        filled.put(first + 2, memory.terminated(&draws.next))?;
        Ok(filled)
    })?;
    let fields = field_dtypes(py, shared);
    let extra = [dtype::<f32>(py), dtype::<u64>(py), dtype::<f64>(py), dtype::<bool>(py)];
    let dtypes = [&fields[..], &fields, &extra].concat();
    transitions(py, &SAMPLE, filled.arrays(py, &dtypes)?)
}

/// See `ReplayMemory.episode`.
///
/// # Errors
/// As there.
pub fn episode<'py>(py: Python<'py>, shared: &Shared, index: i64) -> PyResult<Bound<'py, PyAny>> {
    let read = shared.call(py, LONG, |memory| {
        let count = memory.num_episode();
        let from_end = if index < 0 { index + count as i64 } else { index };
        let missing = || Error::Index(format!("no closed episode {index}: {count} are held"));
        let at = usize::try_from(from_end).map_err(|_| missing())?;
        let episode = memory.episode(at).ok_or_else(missing)?;
        let ending = episode.ending.as_ref().ok_or_else(missing)?;
        let mut layout = Layout::default();
        for field in Field::ALL {
            let spec = &memory.spec()[field];
            layout.push([&[episode.len()], &spec.shape[..]].concat(), spec.itemsize)?;
        }
        layout.push(vec![episode.len()], size_of::<f32>())?;
        layout.push(vec![episode.len()], size_of::<u64>())?;
        let mut filled = Filled::new(shared, layout)?;
        for field in Field::ALL {
            memory.read(episode, field, filled.part(field.index())?);
        }
        filled.put(FIELDS, memory.read_weights(episode))?;
        let first = memory.id(episode.serial, 0);
        filled.put(FIELDS + 1, first..first + episode.len() as u64)?;
        Ok((filled, ending.bootstrap.is_some(), ending.final_state))
    })?;
    let (filled, truncated, final_state) = read;
    let dtypes = [&field_dtypes(py, shared)[..], &[dtype::<f32>(py), dtype::<u64>(py)]].concat();
    let mut arrays = filled.arrays(py, &dtypes)?;
    let rest = arrays.split_off(FIELDS);
    let mut items = vec![ENTRY.of(py, arrays)?];
    items.extend(rest);
    for flag in [truncated, final_state] {
        items.push(PyBool::new(py, flag).to_owned().into_any());
    }
    EPISODE.of(py, items)
}

/// A class of `cogrs.replay.batch`, looked up once.
pub(super) struct Named {
    name: &'static str,
    class: PyOnceLock<Py<PyAny>>,
}

static ENTRY: Named = Named::new("Entry");
pub(super) static BATCH: Named = Named::new("Batch");
static SAMPLE: Named = Named::new("Sample");
static EPISODE: Named = Named::new("Episode");

impl Named {
    const fn new(name: &'static str) -> Self {
        Self { name, class: PyOnceLock::new() }
    }

    fn of<'py>(
        &self,
        py: Python<'py>,
        items: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.class.import(py, "cogrs.replay.batch", self.name)?.call1(PyTuple::new(py, items)?)
    }
}

/// `(prev, next, *rest)` from the arrays of a batch.
pub(super) fn transitions<'py>(
    py: Python<'py>,
    kind: &Named,
    mut arrays: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let rest = arrays.split_off(2 * FIELDS);
    let next = ENTRY.of(py, arrays.split_off(FIELDS))?;
    let mut items = vec![ENTRY.of(py, arrays)?, next];
    items.extend(rest);
    kind.of(py, items)
}

/// One id or many.
///
/// # Errors
/// `TypeError` or `ValueError` that name `id`.
pub fn ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(array) = value.cast::<numpy::PyArray1<u64>>() {
        let array =
            array.try_readonly().map_err(|_| mistyped("id", "an array to be read", value))?;
        check_allocatable(array.as_array().len().saturating_mul(size_of::<u64>()))?;
        return Ok(array.as_array().iter().copied().collect());
    }
    if value.hasattr("__index__")? && value.extract::<u64>().is_ok() {
        return Ok(vec![value.extract()?]);
    }
    // An iterator without a length may never end.
    match (value.len(), value.try_iter()) {
        (Ok(count), Ok(items)) => items.take(count).map(|item| integer("id", &item?, 0)).collect(),
        _ if value.hasattr("__index__")? => Ok(vec![integer("id", value, 0)?]),
        _ => Err(mistyped("id", "an id or a list of ids", value)),
    }
}
