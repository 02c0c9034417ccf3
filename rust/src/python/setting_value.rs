//! Values that are given for settings of `cogrs.ReplayMemory`, as properties or by keyword.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::error::{Error, Result};
use crate::python::args::{flag, mistyped, number, shown, size};
use crate::python::array::{Numbers, numbers};
use crate::replay::settings::{FLAGS, FramePadding, Leading, NewPriority, Settings};
use crate::spec::{FIELDS, Field};

/// What a value that was given does to the settings.
pub(super) type Change = Box<dyn FnOnce(&mut Settings) -> Result<()> + Send>;

/// The settings that keyword arguments make of the defaults: all of them, or none.
///
/// # Errors
/// `TypeError` or `ValueError` that name the argument.
pub(super) fn from_keywords(
    defaults: Settings,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Settings> {
    let mut settings = defaults;
    let Some(given) = given else { return Ok(settings) };
    if given.contains("cache_flags")? && given.contains("fields")? {
        return Err(PyTypeError::new_err(
            "fields: expected nothing beside cache_flags, which says the same",
        ));
    }
    for (name, value) in given {
        change(&name.extract::<String>()?, &value)?(&mut settings)?;
    }
    Ok(settings)
}

/// The change that a setting's value makes.
///
/// # Errors
/// `TypeError` for a name that is not a setting's, and for a value of the wrong type; `ValueError`.
pub(super) fn change(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Change> {
    Ok(match name {
        "priority_exponent" => {
            let value = real(name, value)?;
            Box::new(move |settings| settings.set_priority_exponent(value))
        }
        "new_priority" => {
            let value = new_priority(value)?;
            Box::new(move |settings| settings.set_new_priority(value))
        }
        "priority_epsilon" => {
            let value = real(name, value)?;
            Box::new(move |settings| settings.set_priority_epsilon(value))
        }
        "frame_padding" => {
            let value = frame_padding(value)?;
            infallible(move |settings| settings.frame_padding = value)
        }
        "mix_lambda" => {
            let value = real(name, value)?;
            Box::new(move |settings| settings.set_mix_lambda(value))
        }
        "frame_stack" => {
            let value = size(name, value, 1)?;
            infallible(move |settings| settings.frame_stack = value)
        }
        "multi_step" => {
            let value = size(name, value, 1)?;
            infallible(move |settings| settings.multi_step = value)
        }
        "cache_size" => {
            let value = size(name, value, 1)?;
            infallible(move |settings| settings.cache_size = value)
        }
        "max_episode" => {
            let value = size(name, value, 0)?;
            infallible(move |settings| settings.max_episode = value)
        }
        "reuse_cache" => {
            let value = flag(name, value)?;
            infallible(move |settings| settings.reuse_cache = value)
        }
        "discount_factor" => {
            let values = leading(name, value)?;
            Box::new(move |settings| settings.set_discount_factor(&values))
        }
        "reward_coeff" => {
            let values = leading(name, value)?;
            Box::new(move |settings| settings.set_reward_coeff(&values))
        }
        "cache_flags" => {
            let flags = cache_flags(value)?;
            Box::new(move |settings| settings.set_cache_flags(&flags))
        }
        "fields" => {
            let flags = flags_of_fields(value)?;
            Box::new(move |settings| settings.set_cache_flags(&flags))
        }
        _ => {
            let text =
                format!("{name}: expected a setting of ReplayMemory, which has none so named");
            return Err(PyTypeError::new_err(text));
        }
    })
}

fn infallible(change: impl FnOnce(&mut Settings) + Send + 'static) -> Change {
    Box::new(move |settings| {
        change(settings);
        Ok(())
    })
}

fn frame_padding(value: &Bound<'_, PyAny>) -> PyResult<FramePadding> {
    const EXPECTED: &str = "'none', 'repeat' or 'zero'";
    let text = text("frame_padding", EXPECTED, value)?;
    let named = |padding: &FramePadding| padding.to_string() == text;
    let found = FramePadding::ALL.into_iter().find(named);
    found.ok_or_else(|| Error::value("frame_padding", EXPECTED, format!("{text:?}")).into())
}

fn cache_flags(value: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    let items = value.try_iter().map_err(|_| mistyped("cache_flags", "a list", value))?;
    items.take(FLAGS + 1).map(|item| flag("cache_flags", &item?)).collect()
}

/// The ends of a transition, as keys of `fields`.
pub(super) const ENDS: [&str; 2] = ["prev", "next"];

/// The flags that `fields` says by names: letters in a text, or a list of letters and long names.
fn flags_of_fields(value: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    const EXPECTED: &str = "a dict as {'prev': 'sarp', 'next': 's'}";
    let given = value.cast::<PyDict>().map_err(|_| mistyped("fields", EXPECTED, value))?;
    let mut flags = vec![false; FLAGS];
    for (at, end) in ENDS.into_iter().enumerate() {
        let Some(names) = given.get_item(end)? else {
            return Err(Error::value("fields", EXPECTED, format!("no {end:?}")).into());
        };
        let name = format!("fields[{end:?}]");
        let expected = "letters of s, a, r, p, v, q, i, or a list of them or of state, action, ...";
        let items = names.try_iter().map_err(|_| mistyped(&name, expected, &names))?;
        // No more than there are, for an iterator may never end.
        for item in items.take(FIELDS + 1) {
            let item = text(&name, expected, &item?)?;
            let is_meant = |field: &Field| field.name() == item || field.letter() == item;
            let Some(field) = Field::ALL.into_iter().find(is_meant) else {
                return Err(Error::value(&name, expected, format!("{item:?}")).into());
            };
            let flag = &mut flags[at * FIELDS + field.index()];
            if std::mem::replace(flag, true) {
                return Err(
                    Error::value(&name, "each field once", format!("{item:?} twice")).into()
                );
            }
        }
    }
    if given.len() > ENDS.len() {
        return Err(Error::value("fields", EXPECTED, shown(value)).into());
    }
    Ok(flags)
}

/// A real number; a truth value is not one.
fn real(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if value.is_instance_of::<PyBool>() {
        return Err(mistyped(name, "a number", value));
    }
    number(name, value)
}

fn leading(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Leading> {
    if value.is_instance_of::<PyBool>() {
        return Err(mistyped(name, "a number or a list of them", value));
    }
    Ok(match numbers(name, value)? {
        Numbers::One(value) => Leading::All(value),
        Numbers::Many(values) => Leading::Some(values),
    })
}

/// The setting `new_priority`.
fn new_priority(value: &Bound<'_, PyAny>) -> PyResult<NewPriority> {
    const EXPECTED: &str = "'returns', 'max' or a number";
    if value.is_instance_of::<PyBool>() {
        return Err(mistyped("new_priority", EXPECTED, value));
    }
    if !value.is_instance_of::<PyString>() && value.hasattr("__float__")? {
        return Ok(NewPriority::Number(number("new_priority", value)?));
    }
    let text = text("new_priority", EXPECTED, value)?;
    match text.as_str() {
        "returns" => Ok(NewPriority::Returns),
        "max" => Ok(NewPriority::Max),
        _ => Err(Error::value("new_priority", EXPECTED, format!("{text:?}")).into()),
    }
}

fn text(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| mistyped(name, expected, value))?;
    Ok(text.to_string_lossy().into_owned())
}
