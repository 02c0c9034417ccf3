//! The errors of the core.

use std::fmt::{Display, LowerExp};

/// An error of the core.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value out of range or of the wrong shape.
    #[error("{argument}: expected {expected}, got {got}")]
    Value {
        /// The argument's public name.
        argument: String,
        /// The values that are accepted.
        expected: String,
        /// The value that came.
        got: String,
    },
    /// A value of the wrong type or dtype.
    #[error("{argument}: expected {expected}, got {got}")]
    Type {
        /// The argument's public name.
        argument: String,
        /// The values that are accepted.
        expected: String,
        /// The value that came.
        got: String,
    },
    /// A call that the present state does not allow.
    #[error("{0}")]
    State(String),
    /// Fewer entries than a batch needs.
    #[error("{0}")]
    TooFew(String),
    /// A position that does not exist.
    #[error("{0}")]
    Index(String),
    /// A file that cannot be read or written.
    #[error("{path}: {text}")]
    File {
        /// Its path.
        path: String,
        /// The kind of error.
        kind: std::io::ErrorKind,
        /// The system's number of the error, when it comes from the system.
        code: Option<i32>,
        /// The error in words.
        text: String,
    },
    /// More memory requested than is available.
    #[error("{0}")]
    Memory(String),
}

impl Error {
    /// [`Error::Value`] from anything that prints.
    pub fn value(argument: impl Display, expected: impl Display, got: impl Display) -> Self {
        Self::Value {
            argument: argument.to_string(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// [`Error::File`] from the system's error.
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        let path = path.display().to_string();
        let code = system_code(error);
        // The system's own words end with the number.
        let suffix = code.map_or(String::new(), |code| format!(" (os error {code})"));
        let text = error.to_string();
        let text = text.strip_suffix(&suffix).unwrap_or(&text).to_owned();
        Self::File { path, kind: error.kind(), code, text }
    }

    /// [`Error::Type`] from anything that prints.
    pub fn kind(argument: impl Display, expected: impl Display, got: impl Display) -> Self {
        Self::Type {
            argument: argument.to_string(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }
}

/// A number as messages show it, never with hundreds of digits.
pub fn short<T: Copy + Into<f64> + Display + LowerExp>(value: T) -> String {
    let wide: f64 = value.into();
    let plain = wide == 0.0 || (1e-5..1e16).contains(&wide.abs()) || !wide.is_finite();
    if plain { value.to_string() } else { format!("{value:e}") }
}

/// The system's number of an error, which may be wrapped in others.
fn system_code(error: &std::io::Error) -> Option<i32> {
    let mut inner: &(dyn std::error::Error + 'static) = error;
    loop {
        let code = inner.downcast_ref().and_then(std::io::Error::raw_os_error);
        if code.is_some() {
            return code;
        }
        inner = inner.source()?;
    }
}

/// The crate's `Result`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn number_is_shown_short() {
        assert_eq!(
            [0.0, -1.0, 0.25, 1e15, -0.0].map(short),
            ["0", "-1", "0.25", "1000000000000000", "-0"]
        );
        assert_eq!(
            [1e300, -1e300, 1e-300, 1.5e16].map(short),
            ["1e300", "-1e300", "1e-300", "1.5e16"]
        );
        assert_eq!([f64::NAN, f64::INFINITY].map(short), ["NaN", "inf"]);
    }
}
