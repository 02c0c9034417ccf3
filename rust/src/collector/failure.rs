//! What several fail at, one after the other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Result;

/// Those that failed, by position, and what they said.
pub type Failed = Vec<(usize, String)>;

/// Has something done from a position on, which it counts up as it gets on. Where it fails or panics it is had go on
/// behind that: where it was, and what it said.
pub fn passing_over(mut act: impl FnMut(&mut usize) -> Result<()>) -> Failed {
    let mut failed = Vec::new();
    let mut done = 0;
    loop {
        let text = match catch_unwind(AssertUnwindSafe(|| act(&mut done))) {
            Ok(Ok(())) => return failed,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("panicked: {}", panic_text(&*panic)),
        };
        failed.push((done, text));
        done += 1;
    }
}

/// What a panic says.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("for no reason")
}
