//! Samples of sequences: how they are drawn and filled, and how their priorities are set.

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::{Error, Result};
use crate::python::args::{Normalize, size};
use crate::python::batch::{DrawArgs, Outcome, arrays, copy_values, entry, largest_of_all};
use crate::python::exit::call_python;
use crate::python::memory_handle::MemoryHandle;
use crate::python::memory_wait::{Attempt, Shortage};
use crate::python::out_arrays::OutArrays;
use crate::python::sequence_plan::{SequenceColumn, SequenceKind, SequencePlan, SequenceRow};
use crate::python::setting_value::named;
use crate::python::wait::{Side, Wait};
use crate::replay::corrections::UPDATE_BYTES_PER_ID;
use crate::replay::importance::{Largest, importance_weights};
use crate::replay::memory::Memory;
use crate::replay::sampler::Sampler;
use crate::replay::sequence_priorities::SequenceErrors;
use crate::replay::sequence_window::{Border, SequenceShape};
use crate::replay::sequences::{SequenceDraws, SequenceFlags};
use crate::spec::FIELDS;

/// The arguments that say which sequences are wanted.
#[derive(Debug)]
pub struct ShapeArgs<'a, 'py> {
    pub length: &'a Bound<'py, PyAny>,
    pub burn_in: Option<&'a Bound<'py, PyAny>>,
    pub after: Option<&'a Bound<'py, PyAny>>,
    pub period: Option<&'a Bound<'py, PyAny>>,
    pub border: Option<&'a Bound<'py, PyAny>>,
}

impl ShapeArgs<'_, '_> {
    /// The shape; `TypeError` or `ValueError` that name the argument.
    pub fn shape(&self) -> PyResult<SequenceShape> {
        let number = |name, value: Option<&Bound<'_, PyAny>>, least| {
            value.map_or(Ok(least as usize), |value| size(name, value, least))
        };
        let shape = SequenceShape {
            length: size("length", self.length, 1)?,
            burn_in: number("burn_in", self.burn_in, 0)?,
            after: number("after", self.after, 0)?,
            period: number("period", self.period, 1)?,
            border: self.border.map_or(Ok(Border::default()), border)?,
        };
        shape.check()?;
        Ok(shape)
    }
}

fn border(value: &Bound<'_, PyAny>) -> PyResult<Border> {
    named("border", value, "'clip', 'shift' or 'drop'", &Border::ALL)
}

/// Draws sequences into the arrays of a plan.
pub(super) fn draw_into(
    memory: &mut Memory,
    sampler: Option<Sampler>,
    plan: &SequencePlan,
    parts: &mut [&mut [u8]],
) -> Result<Outcome<SequenceDraws>> {
    let settings = memory.settings();
    let counted = plan.kind.row == SequenceRow::Sample && settings.max_times_sampled > 0;
    if !settings.has_layout_of(&plan.settings) || plan.kind.counted != counted {
        return Ok(Outcome::OtherLayout);
    }
    plan.check_after(settings)?;
    let sampler = sampler.unwrap_or(settings.sampler);
    let draws = match memory.draw_sequences(sampler, plan.count, &plan.shape) {
        Err(Error::TooFew(why)) => return Ok(Outcome::TooFew(why)),
        drawn => drawn?,
    };
    let (fields, columns) = parts.split_at_mut(FIELDS);
    let fields: &mut [&mut [u8]; FIELDS] =
        fields.try_into().map_err(|_| Error::State("an entry has seven fields".into()))?;
    memory.gather_sequences(&draws, fields);
    if let [valid, learn, is_first, terminated, truncated, ..] = columns {
        let mut flags = SequenceFlags { valid, learn, is_first, terminated, truncated };
        memory.sequence_flags(&draws, &mut flags);
    }
    let mut columns = plan.kind.columns().zip(columns);
    while let Some((column, part)) = columns.next() {
        match column {
            SequenceColumn::Recurrent => memory.gather_recurrent(&draws, part),
            SequenceColumn::Id => copy_values(part, memory.sequence_ids(&draws)),
            SequenceColumn::AnchorId => {
                copy_values(part, draws.sequences.iter().map(|sequence| sequence.anchor));
            }
            SequenceColumn::Weight => copy_values(part, draws.weights.iter().copied()),
            SequenceColumn::Probability => copy_values(part, draws.probabilities.iter().copied()),
            SequenceColumn::NStepReturn => {
                // Both come of one walk over the rewards.
                let Some((_, discounts)) = columns.next() else { break };
                memory.sequence_nstep(&draws, part, discounts);
            }
            SequenceColumn::TimesSampled => copy_values(part, draws.times.iter().copied()),
            SequenceColumn::ImportanceWeight => {
                copy_values(part, importance(memory, &draws, plan.kind)?.into_iter());
            }
            _ => {}
        }
    }
    Ok(Outcome::Drawn(draws))
}

fn importance(memory: &Memory, draws: &SequenceDraws, kind: SequenceKind) -> Result<Vec<f32>> {
    let Some(options) = kind.importance else { return Ok(Vec::new()) };
    if !draws.sampler.is_weighted() {
        return Ok(vec![1.0; draws.weights.len()]);
    }
    let largest = match options.normalize {
        Normalize::Batch => Largest::OfBatch,
        Normalize::All => largest_of_all(memory.min_sequence_weight(), &draws.weights),
    };
    let weights: Vec<f64> = draws.weights.iter().copied().map(f64::from).collect();
    importance_weights(&weights, options.beta, draws.total, draws.sampleable as u64, largest)
}

/// Draws `args.rows` sequences.
pub fn draw<'py>(
    py: Python<'py>,
    handle: &MemoryHandle,
    kind: SequenceKind,
    shape: SequenceShape,
    args: &DrawArgs<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    handle.check_process()?;
    let &DrawArgs { rows, sampler, wait, out, .. } = args;
    // Steps outside of an episode count too: the rate limiter has to know the number before the draw.
    let samples = rows.saturating_mul(shape.length);
    if let Some(limiter) = &handle.limiter {
        limiter.check_batch("n * length", samples as u64)?;
    }
    loop {
        let settings = handle.settings();
        let kind = SequenceKind { counted: settings.max_times_sampled > 0, ..kind };
        let plan = SequencePlan::new(handle, settings, kind, shape, rows)?;
        let dtypes = plan.dtypes(py, handle);
        let draw = |parts: &mut [&mut [u8]]| {
            handle.wait(py, plan.bytes(), Side::Sample, wait, |memory| {
                plan.check_after(memory.settings())?;
                if wait == Wait::ForEver {
                    let settings = memory.settings();
                    let by = sampler.unwrap_or(settings.sampler);
                    by.check_batch("n", rows, memory.max_step(), settings.max_times_sampled)?;
                }
                if let Some(reason) = memory.sample_shortage(samples) {
                    if wait == Wait::ForEver {
                        memory.check_min_size()?;
                    }
                    return Ok(Attempt::NotYet(Shortage::Limiter(reason)));
                }
                Ok(match draw_into(memory, sampler, &plan, parts)? {
                    Outcome::Drawn(_) => {
                        memory.count_samples(samples);
                        Attempt::Ready(true)
                    }
                    Outcome::OtherLayout => Attempt::Ready(false),
                    Outcome::TooFew(reason) => Attempt::NotYet(Shortage::Entries(reason)),
                })
            })
        };
        if let Some(out) = out {
            if draw(&mut OutArrays::new(out, &plan, &dtypes)?.slices())? {
                return Ok(out.clone());
            }
            continue;
        }
        let mut block = handle.pool.take(plan.layout.size())?;
        if draw(&mut plan.layout.cut(block.bytes()))? {
            return sequences(py, kind, arrays(py, block, &plan.layout, &dtypes)?);
        }
    }
}

/// `(steps, *columns)` from the arrays of a draw.
pub(super) fn sequences<'py>(
    py: Python<'py>,
    kind: SequenceKind,
    mut arrays: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let columns = arrays.split_off(FIELDS);
    let mut items = vec![entry(py, arrays)?];
    items.extend(columns);
    kind.class().of(py, items)
}

/// Sets the weights of sequences from errors of their steps, `(n, steps)`, of which those under the mask count.
pub fn update_errors(
    py: Python<'_>,
    handle: &MemoryHandle,
    ids: &[u64],
    errors: &Bound<'_, PyAny>,
    mask: Option<&Bound<'_, PyAny>>,
) -> PyResult<usize> {
    let rows = ids.len();
    let arguments = (errors, mask, rows);
    let made = call_python!(py, "cogrs.replay.convert", "sequence_errors", arguments)?;
    let (errors, mask): (Bound<'_, PyArrayDyn<f64>>, Option<Bound<'_, PyArrayDyn<bool>>>) =
        made.extract()?;
    let steps = errors.shape().last().copied().unwrap_or_default();
    let errors = errors.to_vec()?;
    let mask = mask.map(|mask| mask.to_vec()).transpose()?;
    let bytes = rows * UPDATE_BYTES_PER_ID + errors.len() * size_of::<f64>();
    handle.call(py, bytes, |memory| {
        let given = SequenceErrors { errors: &errors, steps, mask: mask.as_deref() };
        memory.update_sequence_errors(ids, given)
    })
}
