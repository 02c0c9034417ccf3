//! The sequences that the caches of a memory hold.

use crate::error::{Error, Result};
use crate::replay::sequence_window::SequenceShape;
use crate::replay::settings::Settings;

/// The sequences that caches hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSequences {
    pub shape: SequenceShape,
    /// Whether caches carry n-step returns.
    pub nstep: bool,
}

impl CacheSequences {
    /// Checks that n-step returns end inside of the sequences; [`Error::Value`] otherwise.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        check_after(self.nstep, &self.shape, settings, "nstep=True")
    }
}

/// Checks that n-step returns end inside of sequences; `by` is the argument that asks for them.
pub fn check_after(
    nstep: bool,
    shape: &SequenceShape,
    settings: &Settings,
    by: &str,
) -> Result<()> {
    let steps = settings.multi_step;
    if nstep && shape.after < steps {
        let expected = format!("at least multi_step={steps} with {by}");
        return Err(Error::value("after", expected, shape.after));
    }
    Ok(())
}
