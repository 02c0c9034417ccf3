//! The arguments of `add_entry`, `add_entries` and `add_episode` that give the fields of entries.

use numpy::PyArrayDescrMethods;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::Error;
use crate::python::args::wrong_type;
use crate::python::exit::call_python;
use crate::python::memory_handle::MemoryHandle;
use crate::python::numbers::numbers;
use crate::python::value_bytes::ValueBytes;
use crate::replay::memory::{EntryRows, WRITTEN};
use crate::spec::Field;

/// The arguments `s, a, r, p, v, i` of an entry or of many.
pub type Fields<'a, 'py> = [&'a Bound<'py, PyAny>; WRITTEN.len()];

type OptionalFields<'a, 'py> = [Option<&'a Bound<'py, PyAny>>; WRITTEN.len()];

/// The fields of an entry, each by its letter or by its long name.
#[inline]
#[allow(clippy::many_single_char_names)]
pub fn fields<'a, 'py>(
    short: OptionalFields<'a, 'py>,
    long: OptionalFields<'a, 'py>,
) -> PyResult<Fields<'a, 'py>> {
    match (short, long) {
        // The usual case, without a loop.
        (
            [Some(s), Some(a), Some(r), Some(p), Some(v), Some(i)],
            [None, None, None, None, None, None],
        ) => Ok([s, a, r, p, v, i]),
        _ => fields_by_long_names(short, long),
    }
}

#[cold]
fn fields_by_long_names<'a, 'py>(
    short: OptionalFields<'a, 'py>,
    long: OptionalFields<'a, 'py>,
) -> PyResult<Fields<'a, 'py>> {
    let mut fields = Vec::with_capacity(WRITTEN.len());
    for ((short, long), field) in short.into_iter().zip(long).zip(WRITTEN) {
        let name = field.name();
        if short.is_some() && long.is_some() {
            let letter = field.letter();
            let text = format!("{name}: expected only one of {letter} and {name}, got both");
            return Err(PyTypeError::new_err(text));
        }
        fields.push(required(name, "a value", short.or(long))?);
    }
    let wrong = |_| PyTypeError::new_err("fields: expected six values, one per written field");
    fields.try_into().map_err(wrong)
}

pub fn required<'a, 'py>(
    name: &str,
    expected: &str,
    value: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<&'a Bound<'py, PyAny>> {
    let missing = || PyTypeError::new_err(format!("{name}: expected {expected}, got None"));
    value.ok_or_else(missing)
}

#[inline]
pub fn entry<'py>(
    handle: &MemoryHandle,
    fields: Fields<'_, 'py>,
) -> PyResult<Vec<ValueBytes<'py>>> {
    let mut values = Vec::with_capacity(WRITTEN.len());
    for (field, value) in WRITTEN.into_iter().zip(fields) {
        values.push(settled(field, handle.template(field).value(field.name(), value)?)?);
    }
    Ok(values)
}

/// The fields of many entries, along a leading dimension, and one initial weight per entry.
pub fn entries<'py>(
    handle: &MemoryHandle,
    fields: Fields<'_, 'py>,
    init_w: &Bound<'py, PyAny>,
) -> PyResult<(Vec<ValueBytes<'py>>, Vec<f64>)> {
    let count = leading_dimension(handle, fields)?;
    let mut values = Vec::with_capacity(WRITTEN.len());
    for (field, value) in WRITTEN.into_iter().zip(fields) {
        values.push(settled(field, handle.template(field).values(field.name(), value, count)?)?);
    }
    Ok((values, numbers("init_w", init_w)?.repeat("init_w", count)?))
}

fn leading_dimension(handle: &MemoryHandle, fields: Fields<'_, '_>) -> PyResult<usize> {
    let mut lengths = [0; WRITTEN.len()];
    for ((length, field), value) in lengths.iter_mut().zip(WRITTEN).zip(fields) {
        let py = value.py();
        let dtype = handle.template(field).dtype().bind(py);
        let counted = if dtype.kind() == b'V' {
            call_python!(py, "cogrs.nested", "length", (dtype, value))
                .and_then(|length| length.extract())
        } else {
            value.len()
        };
        let without = |_| wrong_type(field.name(), "an array with a leading dimension", value);
        *length = counted.map_err(without)?;
    }
    if lengths.iter().all(|&length| length == lengths[0]) {
        return Ok(lengths[0]);
    }
    let texts = WRITTEN.iter().zip(lengths).map(|(field, len)| format!("{} {len}", field.name()));
    let got = texts.collect::<Vec<_>>().join(", ");
    Err(Error::value("leading dimensions", "the same for all fields", got).into())
}

/// The values of all fields as bytes, `count` values per field, and their total size.
pub fn rows<'a>(
    handle: &MemoryHandle,
    values: &'a [ValueBytes<'_>],
    count: usize,
) -> PyResult<(EntryRows<'a>, usize)> {
    let mut rows: EntryRows<'a> = [&[]; WRITTEN.len()];
    for ((row, value), field) in rows.iter_mut().zip(values).zip(WRITTEN) {
        let size = handle.template(field).spec().nbytes();
        *row = value.exactly(field.name(), size * count)?;
    }
    Ok((rows, rows.iter().map(|row| row.len()).sum()))
}

/// Rewards and values are read more than once, so what is checked must be what is stored.
fn settled(field: Field, value: ValueBytes<'_>) -> Result<ValueBytes<'_>, Error> {
    if matches!(field, Field::Reward | Field::Value) { value.owned() } else { Ok(value) }
}

/// The argument `recurrent`: the recurrent state before an entry, or before each of many.
#[derive(Debug)]
pub struct RecurrentArg<'py> {
    value: Option<ValueBytes<'py>>,
    size: usize,
}

impl<'py> RecurrentArg<'py> {
    /// Reads it, for `count` entries along a leading dimension or for one; `TypeError` where the memory stores none.
    pub fn new(
        handle: &MemoryHandle,
        given: Option<&Bound<'py, PyAny>>,
        count: Option<usize>,
    ) -> PyResult<Self> {
        let Some(given) = given else { return Ok(Self { value: None, size: 0 }) };
        let Some(template) = &handle.recurrent else {
            let text = "recurrent: expected nothing, as the memory was made without recurrent";
            return Err(PyTypeError::new_err(text));
        };
        let value = match count {
            None => template.value("recurrent", given)?,
            Some(count) => template.values("recurrent", given, count)?,
        };
        Ok(Self { value: Some(value), size: template.spec().nbytes() * count.unwrap_or(1) })
    }

    pub fn bytes(&self) -> PyResult<Option<&[u8]>> {
        let value = self.value.as_ref();
        Ok(value.map(|value| value.exactly("recurrent", self.size)).transpose()?)
    }
}
