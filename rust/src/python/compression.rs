//! The arguments `compress` and `max_bytes` of `cogrs.ReplayMemory`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::error::Error;
use crate::python::args::{integer, shown, text, wrong_type};
use crate::replay::codec::{CODES, Codec};
use crate::replay::compression::Compression;
use crate::spec::{EntrySpec, Field};

/// The codec of each field that `compress` names; `TypeError` or `ValueError` that name the argument.
pub fn compression_args(
    spec: &EntrySpec,
    compress: Option<&Bound<'_, PyAny>>,
    max_bytes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Compression> {
    let mut made = Compression::default();
    if let Some(given) = compress {
        let expected = "a mapping from names of fields to codecs";
        let mapping =
            given.cast::<PyMapping>().map_err(|_| wrong_type("compress", expected, given))?;
        for item in mapping.items()?.iter() {
            let (name, code) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let name = text("compress", "names of fields", &name)?;
            let field = Field::ALL.into_iter().find(|field| field.name() == name);
            let Some(field) = field else {
                let expected = "'state', 'action' or 'info'";
                return Err(Error::value("compress", expected, format!("{name:?}")).into());
            };
            let argument = format!("compress[{name:?}]");
            let code_text = text(&argument, CODES, &code)?;
            let codec: Codec =
                code_text.parse().map_err(|()| Error::value(&argument, CODES, shown(&code)))?;
            made.set(spec, field, codec)?;
        }
    }
    made.max_bytes = max_bytes.map(|given| integer("max_bytes", given, 1)).transpose()?;
    if made.is_empty() && made.max_bytes.is_some() {
        let text = "max_bytes: expected None without compress, whose bytes it limits";
        return Err(PyTypeError::new_err(text));
    }
    Ok(made)
}
