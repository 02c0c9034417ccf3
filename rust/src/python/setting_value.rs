//! Values that are given for settings of `cogrs.ReplayMemory`, as properties or by keyword.

use std::fmt::Display;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::error::{Error, Result};
use crate::python::args::{flag, number, shown, size, text, wrong_type};
use crate::python::exit::call_python;
use crate::python::numbers::numbers;
use crate::replay::restore::SettingsOf;
use crate::replay::sampler::Sampler;
use crate::replay::settings::{FLAGS, FramePadding, NewPriority, Remover, Settings};
use crate::spec::{FIELDS, Field};

/// Writes a given value into the settings, which are checked afterwards.
pub(super) type Change = Box<dyn FnOnce(&mut Settings) -> Result<()> + Send>;

/// The defaults, changed by keyword arguments. Raises `TypeError` or `ValueError` that name the argument.
pub(super) fn from_keywords(
    defaults: Settings,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Settings> {
    let mut settings = defaults;
    let Some(given) = given else { return Ok(settings) };
    if given.contains("cache_flags")? && given.contains("fields")? {
        return Err(PyTypeError::new_err(
            "fields: expected only one of fields and cache_flags, got both",
        ));
    }
    for (name, value) in given {
        change(&name.extract::<String>()?, &value)?(&mut settings)?;
        settings.check()?;
    }
    Ok(settings)
}

/// The change that writes `value` into the setting `name`. Raises `TypeError` if no setting has that name, or if the
/// value has the wrong type, and `ValueError` if the value is out of range.
pub(super) fn change(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Change> {
    let setting: Change = match name {
        "priority_exponent" => {
            plain(number(name, value)?, |settings| &mut settings.priority_exponent)
        }
        "new_priority" => plain(new_priority(value)?, |settings| &mut settings.new_priority),
        "priority_epsilon" => {
            plain(number(name, value)?, |settings| &mut settings.priority_epsilon)
        }
        "sequence_eta" => plain(number(name, value)?, |settings| &mut settings.sequence_eta),
        "mix_lambda" => plain(number(name, value)?, |settings| &mut settings.mix_lambda),
        "frame_padding" => plain(
            named(name, value, "'none', 'repeat' or 'zero'", &FramePadding::ALL)?,
            |settings| &mut settings.frame_padding,
        ),
        "frame_stack" => plain(size(name, value, 1)?, |settings| &mut settings.frame_stack),
        "multi_step" => plain(size(name, value, 1)?, |settings| &mut settings.multi_step),
        "cache_size" => plain(size(name, value, 1)?, |settings| &mut settings.cache_size),
        "sampler" => plain(sampler(name, value)?, |settings| &mut settings.sampler),
        "remover" => plain(
            named(name, value, "'fifo', 'lifo', 'lowest' or 'highest'", &Remover::ALL)?,
            |settings| &mut settings.remover,
        ),
        "max_times_sampled" => {
            plain(max_times_sampled(value)?, |settings| &mut settings.max_times_sampled)
        }
        "max_episode" => plain(size(name, value, 0)?, |settings| &mut settings.max_episode),
        "reuse_cache" => plain(flag(name, value)?, |settings| &mut settings.reuse_cache),
        "discount_factor" => {
            checked(numbers(name, value)?, |settings, given| settings.set_discount_factor(&given))
        }
        "reward_coeff" => {
            checked(numbers(name, value)?, |settings, given| settings.set_reward_coeff(&given))
        }
        "cache_flags" => {
            checked(cache_flags(value)?, |settings, flags| settings.set_cache_flags(&flags))
        }
        "fields" => {
            checked(flags_of_fields(value)?, |settings, flags| settings.set_cache_flags(&flags))
        }
        _ => {
            let text = format!("{name}: expected a setting of ReplayMemory, got an unknown name");
            return Err(PyTypeError::new_err(text));
        }
    };
    Ok(setting)
}

/// The change by a setter, which checks the value.
fn checked<T: Send + 'static>(value: T, set: fn(&mut Settings, T) -> Result<()>) -> Change {
    Box::new(move |settings| set(settings, value))
}

/// The change of a setting whose values [`Settings::check`] checks, or for which every value of its type is valid.
fn plain<T: Send + 'static>(value: T, setting: fn(&mut Settings) -> &mut T) -> Change {
    Box::new(move |settings| {
        *setting(settings) = value;
        Ok(())
    })
}

/// The sampler of a name.
pub(super) fn sampler(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Sampler> {
    const EXPECTED: &str =
        "'prioritized', 'stratified', 'uniform', 'fifo', 'lifo', 'highest' or 'lowest'";
    named(argument, value, EXPECTED, &Sampler::ALL)
}

/// Whose settings a restored memory has: None, 'file' or 'mine'.
pub(super) fn settings_of(value: Option<&Bound<'_, PyAny>>) -> PyResult<SettingsOf> {
    const EXPECTED: &str = "None, 'file' or 'mine'";
    let Some(value) = value else { return Ok(SettingsOf::Neither) };
    match text("settings", EXPECTED, value)?.as_str() {
        "file" => Ok(SettingsOf::File),
        "mine" => Ok(SettingsOf::Memory),
        other => Err(Error::value("settings", EXPECTED, format!("{other:?}")).into()),
    }
}

/// A limit of draws.
pub(super) fn max_times_sampled(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let limit = size("max_times_sampled", value, 0)?;
    let too_large = |_| Error::value("max_times_sampled", "an integer below 2**32", limit);
    Ok(u32::try_from(limit).map_err(too_large)?)
}

/// The value of a name; `ValueError` with the closest one for another.
pub(super) fn named<T: Copy + Display>(
    argument: &str,
    value: &Bound<'_, PyAny>,
    expected: &str,
    all: &[T],
) -> PyResult<T> {
    let text = text(argument, expected, value)?;
    let found = all.iter().copied().find(|each| each.to_string() == text);
    if let Some(found) = found {
        return Ok(found);
    }
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let close: String =
        call_python!(value.py(), "cogrs.suggest", "suggestion", (&text, names))?.extract()?;
    let hint = if close.is_empty() { String::new() } else { format!("; {close}") };
    Err(Error::value(argument, expected, format!("{text:?}{hint}")).into())
}

fn cache_flags(value: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    let items = value.try_iter().map_err(|_| wrong_type("cache_flags", "a list", value))?;
    items.take(FLAGS + 1).map(|item| flag("cache_flags", &item?)).collect()
}

/// The ends of a transition, as keys of `fields`.
const ENDS: [&str; 2] = ["prev", "next"];

/// The flags of the names in `fields`: letters in a text, or a list of letters and long names.
fn flags_of_fields(value: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    const EXPECTED: &str = "a dict such as {'prev': 'sarp', 'next': 's'}";
    let given = value.cast::<PyDict>().map_err(|_| wrong_type("fields", EXPECTED, value))?;
    let mut flags = vec![false; FLAGS];
    for (at, end) in ENDS.into_iter().enumerate() {
        let Some(names) = given.get_item(end)? else {
            return Err(Error::value("fields", EXPECTED, format!("no {end:?}")).into());
        };
        let name = format!("fields[{end:?}]");
        let expected = "letters of s, a, r, p, v, q, i, or a list of them or of state, action, ...";
        let items = names.try_iter().map_err(|_| wrong_type(&name, expected, &names))?;
        // At most one item more than there are fields, since an iterator may be endless.
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

fn new_priority(value: &Bound<'_, PyAny>) -> PyResult<NewPriority> {
    const EXPECTED: &str = "'returns', 'max' or a number";
    if value.is_instance_of::<PyBool>() {
        return Err(wrong_type("new_priority", EXPECTED, value));
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
