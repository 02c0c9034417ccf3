//! Bytes and descriptions of others: each is refused with an error, or makes something that works.
//!
//! The long forms run for `COGRS_FUZZ_SECONDS` each, ten minutes by default.

#![allow(clippy::unwrap_used)]

mod checkpoint;
mod inputs;
mod memory_use;
mod messages;
mod saved_file;
mod source;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

/// Bytes of entries in a file at most; more of them say nothing new.
const MOST: u64 = 1 << 16;

/// One round of cases, and more of them for so long.
fn fuzz<S: Strategy>(strategy: &S, time: Duration, test: impl Fn(S::Value) -> TestCaseResult) {
    let end = Instant::now() + time;
    loop {
        let config = ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() };
        if let Err(error) = TestRunner::new(config).run(strategy, &test) {
            panic!("{error}");
        }
        if Instant::now() >= end {
            return;
        }
    }
}

fn long() -> Duration {
    let seconds = std::env::var("COGRS_FUZZ_SECONDS").ok();
    Duration::from_secs(seconds.map_or(600, |text| text.parse().unwrap()))
}
