//! The arrays of an `out` argument, which a caller has filled instead of getting new ones.
#![allow(unsafe_code)]

use std::slice;

use numpy::npyffi::flags::{NPY_ARRAY_OWNDATA, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefReference};

use crate::python::batch_plan::{BatchLayout, BatchPlan};
use crate::python::exit::call_python;
use crate::spec::{FIELDS, Field, shape_text};

/// The arrays that a call fills: those of entries first, then columns.
pub trait ArrayPlan {
    fn layout(&self) -> &BatchLayout;

    /// The names of the entries, which are tuples of seven arrays.
    fn entries(&self) -> &'static [&'static str];

    /// The names of the columns.
    fn columns(&self) -> Vec<&'static str>;

    /// The name of an array, as a caller would reach it.
    fn name(&self, part: usize) -> String {
        let entries = self.entries();
        if let Some(column) = part.checked_sub(entries.len() * FIELDS) {
            return self.columns()[column].into();
        }
        format!("{}.{}", entries[part / FIELDS], Field::ALL[part % FIELDS].name())
    }
}

impl ArrayPlan for BatchPlan {
    fn layout(&self) -> &BatchLayout {
        &self.layout
    }
    fn entries(&self) -> &'static [&'static str] {
        &["prev", "next"]
    }
    fn columns(&self) -> Vec<&'static str> {
        self.kind.columns().iter().map(|column| column.column_type().name).collect()
    }
}

#[derive(Debug)]
pub struct OutArrays<'py> {
    _arrays: Vec<Bound<'py, PyUntypedArray>>,
    /// Keeps their memory: NumPy does not resize an array that has a weak reference, whatever `refcheck`
    /// says, so no other thread can take the memory away by that. Nor does it ever resize an array whose
    /// memory belongs to another object: such an array, as `sample` returns them, needs no weak reference.
    _unresizable: Vec<Bound<'py, PyWeakrefReference>>,
    spans: Vec<OutSpan>,
}

#[derive(Debug, Clone, Copy)]
struct OutSpan {
    start: *mut u8,
    size: usize,
}

impl<'py> OutArrays<'py> {
    /// Takes a batch whose arrays are to be filled; `TypeError` or `ValueError` that names an array which is not
    /// what the plan makes, cannot be written to, or shares memory with another.
    pub fn new(
        out: &Bound<'py, PyAny>,
        plan: &dyn ArrayPlan,
        dtypes: &[Bound<'py, PyArrayDescr>],
    ) -> PyResult<Self> {
        let leaves = leaves(out, plan)?;
        let mut arrays = Vec::with_capacity(leaves.len());
        for (at, leaf) in leaves.iter().enumerate() {
            arrays.push(match leaf.cast::<PyUntypedArray>() {
                Ok(array) => array.clone(),
                Err(_) => seen_by_numpy(leaf, &plan.name(at))?,
            });
        }
        let unresizable = arrays.iter().filter(|array| flags(array) & NPY_ARRAY_OWNDATA != 0);
        let unresizable = unresizable.map(|array| PyWeakrefReference::new(array));
        let unresizable = unresizable.collect::<PyResult<Vec<_>>>()?;
        // Only now: another library's code may have changed any of them.
        let mut spans = Vec::with_capacity(arrays.len());
        for (at, (array, dtype)) in arrays.iter().zip(dtypes).enumerate() {
            spans.push(span_of(array, plan, at, dtype)?);
        }
        separate(&spans, plan)?;
        Ok(Self { _arrays: arrays, _unresizable: unresizable, spans })
    }

    pub fn slices(&mut self) -> Vec<&mut [u8]> {
        let slice = |span: &OutSpan| {
            if span.size == 0 {
                return &mut [][..];
            }
            // SAFETY: `span_of` found `size` bytes together from `start` on, that may be written, and
            // `separate` that no two spans overlap; `OutArrays` keeps the array, and its weak reference keeps
            // `resize` from moving the memory, with `refcheck=False` too. Python code on another thread may
            // write there meanwhile, as it may during any call of NumPy's that fills an array: then the
            // bytes are some mix. This does not protect from code that gives the array other memory
            // by assigning `array.data` or by `__setstate__`, or that frees memory which the array only
            // borrows. NumPy's own functions are broken by those too.
            unsafe { slice::from_raw_parts_mut(span.start, span.size) }
        };
        self.spans.iter().map(slice).collect()
    }
}

/// The arrays of a batch in the order of the layout.
fn leaves<'py>(out: &Bound<'py, PyAny>, plan: &dyn ArrayPlan) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (entries, columns) = (plan.entries(), plan.columns());
    let wrong = || {
        let names = [entries, &columns].concat().join(", ");
        let with_fields = entries.join(" and in ");
        let text = format!(
            "out: expected ({names}) as this call returns it, with seven fields in {with_fields}, got {}",
            out.get_type().name().map_or("?".into(), |name| name.to_string())
        );
        PyTypeError::new_err(text)
    };
    let items = out.cast::<PyTuple>().map_err(|_| wrong())?;
    if items.len() != entries.len() + columns.len() {
        return Err(wrong());
    }
    let mut leaves = Vec::with_capacity(entries.len() * FIELDS + columns.len());
    for (at, item) in items.iter().enumerate() {
        if at >= entries.len() {
            leaves.push(item);
            continue;
        }
        let entry = item.cast::<PyTuple>().map_err(|_| wrong())?;
        if entry.len() != FIELDS {
            return Err(wrong());
        }
        leaves.extend(entry.iter());
    }
    Ok(leaves)
}

/// The array over the memory of another library's.
fn seen_by_numpy<'py>(
    leaf: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let arguments = (format!("out.{name}"), leaf);
    let array = call_python!(leaf.py(), "cogrs.replay.convert", "view", arguments)?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

/// The bytes of an array, when it is the one that the plan makes.
fn span_of(
    array: &Bound<'_, PyUntypedArray>,
    plan: &dyn ArrayPlan,
    at: usize,
    dtype: &Bound<'_, PyArrayDescr>,
) -> PyResult<OutSpan> {
    let part = &plan.layout().parts()[at];
    let descr = array.dtype();
    let same = descr.is_equiv_to(dtype) || stands_for(&descr, dtype)?;
    if !same || array.shape() != part.shape.as_slice() {
        return Err(PyValueError::new_err(format!(
            "out.{}: expected {dtype} {}, got {descr} {}",
            plan.name(at),
            shape_text(&part.shape),
            shape_text(array.shape()),
        )));
    }
    // SAFETY: `array` is an array, whose fields are read.
    let start = unsafe {
        let fields = npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const());
        (*fields).data.cast::<u8>()
    };
    if !array.is_c_contiguous() || flags(array) & NPY_ARRAY_WRITEABLE == 0 {
        let text =
            format!("out.{}: expected a C-contiguous array that can be written", plan.name(at));
        return Err(PyValueError::new_err(text));
    }
    Ok(OutSpan { start, size: part.size })
}

fn flags(array: &Bound<'_, PyUntypedArray>) -> i32 {
    // SAFETY: `array` is an array, whose fields are read.
    unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).flags }
}

/// Whether an array of `descr` has the values of `dtype` in the same bytes: int8 those of int4, of which
/// `PyTorch` has no arrays.
fn stands_for(descr: &Bound<'_, PyArrayDescr>, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<bool> {
    // From here on numbers are given to dtypes of other libraries.
    const OTHERS: i32 = 256;
    if dtype.num() < OTHERS {
        return Ok(false);
    }
    call_python!(dtype.py(), "cogrs.dtypes", "stands_for", (descr, dtype))?.extract()
}

/// Whether no two arrays share memory.
fn separate(spans: &[OutSpan], plan: &dyn ArrayPlan) -> PyResult<()> {
    let mut order: Vec<(usize, usize, usize)> = spans
        .iter()
        .enumerate()
        .filter(|(_, span)| span.size > 0)
        .map(|(at, span)| (span.start.addr(), span.size, at))
        .collect();
    order.sort_unstable();
    for pair in order.windows(2) {
        let [(start, size, one), (next, _, other)] = pair else { continue };
        if start + size > *next {
            return Err(PyValueError::new_err(format!(
                "out: expected arrays without common memory, but {} and {} share memory",
                plan.name(*one),
                plan.name(*other)
            )));
        }
    }
    Ok(())
}
