//! Whether a context works.

use crate::error::{Error, Result};

/// Whether a context works.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// Not yet.
    New,
    /// Yes.
    Running,
    /// Not any more.
    Stopped,
    /// Not any more, because of this.
    Failed(Error),
}

impl RunState {
    /// Whether it is running.
    ///
    /// # Errors
    /// [`Error::State`], or what went wrong.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Running => Ok(()),
            Self::New => Err(Error::State("not started: call Start() first".into())),
            Self::Stopped => Err(Error::State("stopped: make a new one to go on".into())),
            Self::Failed(error) => Err(error.clone()),
        }
    }
}
