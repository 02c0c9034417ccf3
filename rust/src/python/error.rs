//! Errors of the core as the exceptions that Python has for them.

use pyo3::PyErr;
use pyo3::exceptions::{
    PyIndexError, PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyValueError,
};

use crate::error::Error;

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Value { .. } => PyValueError::new_err(text),
            Error::Type { .. } => PyTypeError::new_err(text),
            Error::State(_) | Error::TooFew(_) => PyRuntimeError::new_err(text),
            Error::Index(_) => PyIndexError::new_err(text),
            // Python makes the subclass that goes with the number.
            Error::File { path, code: Some(code), text, .. } => {
                PyOSError::new_err((code, text, path))
            }
            Error::File { kind, .. } => std::io::Error::new(kind, text).into(),
            Error::Memory(_) => PyMemoryError::new_err(text),
        }
    }
}
