//! Batches: one block of memory, cut into the arrays of a named tuple.
#![allow(unsafe_code)]

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, dtype};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::{Error, Result};
use crate::python::args::Normalize;
use crate::python::array::over;
use crate::python::batch_kind::{BatchClass, BatchColumn, BatchKind, ImportanceOptions};
use crate::python::batch_plan::{BatchLayout, BatchPlan};
use crate::python::block::BatchMemory;
use crate::python::exit::call_python;
use crate::python::memory_handle::{LONG, MemoryHandle};
use crate::python::memory_wait::{Attempt, Shortage};
use crate::python::out_arrays::OutArrays;
use crate::python::wait::{Side, Wait};
use crate::replay::importance::{Largest, importance_weights};
use crate::replay::memory::Memory;
use crate::replay::sampler::Sampler;
use crate::replay::transition::Draws;
use crate::spec::{FIELDS, Field};

/// The arrays that lie in a block, in the order of the layout.
pub(super) fn arrays<'py>(
    py: Python<'py>,
    mut memory: BatchMemory,
    layout: &BatchLayout,
    dtypes: &[Bound<'py, PyArrayDescr>],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let bytes = memory.bytes();
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

/// What became of an attempt to draw.
#[derive(Debug)]
pub(super) enum Outcome<D> {
    Drawn(D),
    /// The settings have another layout by now.
    OtherLayout,
    /// There are too few entries, for the reason given.
    TooFew(String),
}

impl<D> Outcome<D> {
    pub fn map<T>(self, change: impl FnOnce(D) -> T) -> Outcome<T> {
        match self {
            Self::Drawn(draws) => Outcome::Drawn(change(draws)),
            Self::OtherLayout => Outcome::OtherLayout,
            Self::TooFew(why) => Outcome::TooFew(why),
        }
    }
}

/// Draws rows into the arrays of a plan.
pub(super) fn draw_into(
    memory: &mut Memory,
    (view, sampler): (Option<u64>, Option<Sampler>),
    plan: &BatchPlan,
    parts: &mut [&mut [u8]],
) -> Result<Outcome<Draws>> {
    let settings = memory.settings();
    if !settings.has_layout_of(&plan.settings)
        || plan.kind != plan.kind.under_limit(draw_settings(memory, view)?.1)
    {
        return Ok(Outcome::OtherLayout);
    }
    let own = settings.sampler;
    let result = match view {
        None => memory.draw_by(sampler.unwrap_or(own), plan.rows),
        Some(key) => memory.draw_view(key, sampler, plan.rows),
    };
    let draws = match result {
        Err(Error::TooFew(why)) => return Ok(Outcome::TooFew(why)),
        result => result?,
    };
    let (fields, columns) = parts.split_at_mut(2 * FIELDS);
    memory.gather_all(&draws, fields);
    let mut columns = columns.iter_mut();
    for &column in plan.kind.columns() {
        // It was filled with the column before.
        if column == BatchColumn::NStepDiscount {
            continue;
        }
        let Some(part) = columns.next() else { break };
        match column {
            BatchColumn::Weight => copy_values(part, draws.weights.iter().copied()),
            BatchColumn::Id => copy_values(part, memory.ids(&draws.prev)),
            BatchColumn::Probability => {
                copy_values(part, draws.probabilities());
            }
            BatchColumn::NextTerminated => copy_values(part, memory.terminated(&draws.next)),
            BatchColumn::NStepReturn => {
                // Both come of one walk over the rewards.
                let Some(discounts) = columns.next() else { break };
                memory.nstep(&draws, part, discounts);
            }
            BatchColumn::TimesSampled => copy_values(part, draws.times.iter().copied()),
            BatchColumn::ImportanceWeight => {
                if let BatchKind::Sample { importance: Some(options), .. } = plan.kind {
                    copy_values(part, importance(memory, view, &draws, options)?.into_iter());
                }
            }
            BatchColumn::NStepDiscount | BatchColumn::Sender => {}
        }
    }
    Ok(Outcome::Drawn(draws))
}

/// The sampler of the memory or of a view, and its limit of draws.
fn draw_settings(memory: &Memory, view: Option<u64>) -> Result<(Sampler, u32)> {
    Ok(match view {
        None => (memory.settings().sampler, memory.settings().max_times_sampled),
        Some(key) => {
            let settings = memory.view(key)?.settings();
            (settings.sampler, settings.max_times_sampled)
        }
    })
}

pub(super) fn importance(
    memory: &Memory,
    view: Option<u64>,
    draws: &Draws,
    options: ImportanceOptions,
) -> Result<Vec<f32>> {
    if !draws.sampler.is_weighted() {
        return Ok(vec![1.0; draws.prev.len()]);
    }
    let largest = match options.normalize {
        Normalize::Batch => Largest::OfBatch,
        Normalize::All => {
            let left = match view {
                None => memory.min_weight(),
                Some(key) => memory.view(key)?.min_weight(),
            };
            largest_of_all(left, &draws.weights)
        }
    };
    let weights: Vec<f64> = draws.weights.iter().copied().map(f64::from).collect();
    let count = draws.sampleable as u64;
    importance_weights(&weights, options.beta, draws.total, count, largest)
}

/// The largest importance weight where `left` is the smallest sampling weight after the draw of `drawn`, 0 for none.
pub(super) fn largest_of_all(left: f32, drawn: &[f32]) -> Largest {
    // The batch may have used the smallest up.
    let weights = drawn.iter().copied().chain((left > 0.0).then_some(left));
    Largest::OfAll(f64::from(weights.fold(f32::MAX, f32::min)))
}

pub(super) fn copy_values<T: bytemuck::NoUninit>(part: &mut [u8], values: impl Iterator<Item = T>) {
    for (target, value) in part.chunks_exact_mut(size_of::<T>()).zip(values) {
        target.copy_from_slice(bytemuck::bytes_of(&value));
    }
}

/// Makes the batch of a plan in the arrays of `out` or in new ones, whose bytes `fill` gets.
pub(super) fn make<'py>(
    py: Python<'py>,
    handle: &MemoryHandle,
    plan: &BatchPlan,
    out: Option<&Bound<'py, PyAny>>,
    fill: impl FnOnce(&mut [&mut [u8]]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtypes = plan.dtypes(py, handle);
    if let Some(out) = out {
        fill(&mut OutArrays::new(out, plan, &dtypes)?.slices())?;
        return Ok(out.clone());
    }
    let mut block = handle.pool.take(plan.layout.size())?;
    fill(&mut plan.layout.cut(block.bytes()))?;
    transitions(py, plan.kind, arrays(py, block, &plan.layout, &dtypes)?)
}

/// The arguments of a draw.
#[derive(Debug)]
pub struct DrawArgs<'a, 'py> {
    /// The key of a view; None draws from the memory.
    pub view: Option<u64>,
    pub rows: usize,
    /// None is the memory's or the view's.
    pub sampler: Option<Sampler>,
    /// How long to wait for entries, and for the rate limiter.
    pub wait: Wait,
    pub out: Option<&'a Bound<'py, PyAny>>,
}

pub fn draw<'py>(
    py: Python<'py>,
    handle: &MemoryHandle,
    kind: BatchKind,
    args: &DrawArgs<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let &DrawArgs { view, rows, sampler, wait, out } = args;
    // Before the settings are looked at, whose lock may stay locked in a forked child.
    handle.check_process()?;
    match &handle.limiter {
        Some(limiter) => limiter.check_batch("batch_size", rows as u64)?,
        None if wait == Wait::Never && view.is_none() => handle.check_drawable(py, sampler)?,
        None => {}
    }
    loop {
        let settings = handle.settings();
        let limit = match view {
            None => settings.max_times_sampled,
            view => handle.call(py, 0, |memory| draw_settings(memory, view))?.1,
        };
        let kind = kind.under_limit(limit);
        let plan = BatchPlan::new(handle.spec(), settings, kind, rows)?;
        let mut is_drawn = false;
        let batch = make(py, handle, &plan, out, |parts| {
            is_drawn = handle.wait(py, plan.bytes(), Side::Sample, wait, |memory| {
                // First, for a view that is closed during the wait ends it.
                let (own, limit) = draw_settings(memory, view)?;
                if wait == Wait::ForEver {
                    let sampler = sampler.unwrap_or(own);
                    sampler.check_batch("batch_size", rows, memory.max_step(), limit)?;
                }
                if let Some(reason) = memory.sample_shortage(rows) {
                    if wait == Wait::ForEver {
                        memory.check_min_size()?;
                    }
                    return Ok(Attempt::NotYet(Shortage::Limiter(reason)));
                }
                Ok(match draw_into(memory, (view, sampler), &plan, parts)? {
                    Outcome::Drawn(_) => {
                        memory.count_samples(rows);
                        Attempt::Ready(true)
                    }
                    Outcome::OtherLayout => Attempt::Ready(false),
                    Outcome::TooFew(reason) => Attempt::NotYet(Shortage::Entries(reason)),
                })
            })?;
            Ok(())
        })?;
        if is_drawn {
            return Ok(batch);
        }
    }
}

pub fn episode<'py>(
    py: Python<'py>,
    handle: &MemoryHandle,
    index: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let read = handle.call(py, LONG, |memory| {
        let count = memory.num_episode();
        let from_end = if index < 0 { index + count as i64 } else { index };
        let missing = || Error::Index(format!("no closed episode {index}: the memory has {count}"));
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
        let mut parts = layout.cut(block.bytes());
        let (fields, columns) = parts.split_at_mut(FIELDS);
        for (field, part) in Field::ALL.into_iter().zip(fields) {
            memory.read(episode, field, part);
        }
        copy_values(columns[0], memory.read_weights(episode));
        let first = memory.id(episode.serial, 0);
        copy_values(columns[1], first..first + episode.len() as u64);
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

static ENTRY: BatchClass = BatchClass::in_module("cogrs.replay.entry", "Entry");
static EPISODE: BatchClass = BatchClass::new("Episode");

/// The seven fields. Records that stand for a Dict or a Tuple become that.
pub(super) fn entry<'py>(
    py: Python<'py>,
    mut fields: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    for field in &mut fields {
        if field.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().kind() == b'V') {
            *field = call_python!(py, "cogrs.nested", "apart", (&*field,))?;
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
    let not_a_batch = || Error::State("a cache is not a batch".into());
    kind.class().ok_or_else(not_a_batch)?.of(py, items)
}
