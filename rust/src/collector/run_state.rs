//! Whether a context runs. Under the lock of the scheduler.

use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    New,
    Running,
    Stopped,
    Failed(Error),
}

impl RunState {
    /// Checks that the context is running. Fails with [`Error::State`], or the error that ended the run.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Running => Ok(()),
            Self::New => Err(Error::State("not started: call Start() first".into())),
            Self::Stopped => {
                Err(Error::State("stopped: create a new context to start again".into()))
            }
            Self::Failed(error) => Err(error.clone()),
        }
    }
}
