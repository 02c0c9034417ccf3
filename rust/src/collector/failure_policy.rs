//! Games that failed, and what becomes of them.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::error::Result;

/// A game rests at most so long before it begins again.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// What becomes of a game that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The whole run fails with it.
    Raise,
    /// It begins a new episode; the whole run fails with a game that has done so too often.
    Restart {
        /// How often each game may.
        most: u32,
        /// How long it rests before, the first time; twice as long each time after, up to a minute.
        backoff: Duration,
    },
    /// It is left out, and the run fails when no game is left.
    Drop,
}

/// What to do about one failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole run fails.
    Fail,
    /// The game rests, and begins again.
    Rest,
    /// The game is gone.
    Drop,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failures of games.
    pub crashes: u64,
    /// Games that were to begin again.
    pub restarts: u64,
    /// Games that are gone.
    pub dropped: u64,
}

/// The games that failed.
#[derive(Debug)]
pub struct Failures {
    policy: OnError,
    games: usize,
    restarts: FxHashMap<u32, u32>,
    resting: BinaryHeap<Reverse<(Instant, u32)>>,
    counts: FailureCounts,
    last: Option<(u32, String)>,
}

impl Failures {
    /// None yet, of so many games.
    pub fn new(policy: OnError, games: usize) -> Self {
        let (restarts, resting) = (FxHashMap::default(), BinaryHeap::new());
        Self { policy, games, restarts, resting, counts: FailureCounts::default(), last: None }
    }

    /// What happened so far.
    pub fn counts(&self) -> FailureCounts {
        self.counts
    }

    /// The game that failed last, and what it said.
    pub fn last(&self) -> Option<(u32, String)> {
        self.last.clone()
    }

    /// Keeps what a game that failed said.
    pub fn remember(&mut self, slot: u32, text: String) {
        self.last = Some((slot, text));
    }

    /// Games that are not gone.
    pub fn live(&self) -> usize {
        self.games - self.counts.dropped as usize
    }

    /// Decides about a game that has just failed.
    pub fn decide(&mut self, slot: u32, now: Instant) -> Verdict {
        self.counts.crashes += 1;
        match self.policy {
            OnError::Raise => Verdict::Fail,
            OnError::Restart { most, backoff } => self.restart(slot, now, most, backoff),
            OnError::Drop => {
                self.counts.dropped += 1;
                Verdict::Drop
            }
        }
    }

    fn restart(&mut self, slot: u32, now: Instant, most: u32, backoff: Duration) -> Verdict {
        let before = self.restarts.entry(slot).or_default();
        if *before >= most {
            return Verdict::Fail;
        }
        let doubled = backoff.saturating_mul(1_u32.checked_shl(*before).unwrap_or(u32::MAX));
        *before += 1;
        self.counts.restarts += 1;
        self.resting.push(Reverse((now + doubled.min(LONGEST_REST), slot)));
        Verdict::Rest
    }

    /// The text about earlier restarts in the failure that ends the run; empty where none are allowed.
    pub fn restarts_before(&self, slot: u32) -> String {
        let OnError::Restart { most, .. } = self.policy else { return String::new() };
        let count = self.restarts.get(&slot).copied().unwrap_or_default();
        let s = if count == 1 { "" } else { "s" };
        format!(", after {count} restart{s} (max_restarts={most})")
    }

    /// A game that has rested its time.
    pub fn rested(&mut self, now: impl Fn() -> Instant) -> Option<u32> {
        let Reverse((end, slot)) = *self.resting.peek()?;
        if end > now() {
            return None;
        }
        self.resting.pop();
        Some(slot)
    }

    /// When the next game has.
    pub fn next_rested(&self) -> Option<Instant> {
        self.resting.peek().map(|Reverse((end, _))| *end)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_and_end_in_a_failure() {
        let backoff = Duration::from_secs(25);
        let mut crashes = Failures::new(OnError::Restart { most: 3, backoff }, 2);
        let start = Instant::now();
        for rest in [25, 50, 60] {
            assert_eq!(crashes.decide(1, start), Verdict::Rest);
            let end = start + Duration::from_secs(rest);
            assert_eq!(crashes.next_rested(), Some(end));
            assert_eq!(crashes.rested(|| start + Duration::from_secs(rest - 1)), None);
            assert_eq!(crashes.rested(|| end), Some(1));
        }
        assert_eq!(crashes.decide(0, start), Verdict::Rest, "each game has restarts of its own");
        assert_eq!(crashes.restarts_before(0), ", after 1 restart (max_restarts=3)");
        assert_eq!(crashes.decide(1, start), Verdict::Fail);
        assert_eq!(crashes.restarts_before(1), ", after 3 restarts (max_restarts=3)");
        let counts = FailureCounts { crashes: 5, restarts: 4, dropped: 0 };
        assert_eq!((crashes.counts(), crashes.live()), (counts, 2));
    }

    #[test]
    fn a_game_that_is_dropped_is_gone() {
        let mut crashes = Failures::new(OnError::Drop, 2);
        assert_eq!(crashes.decide(1, Instant::now()), Verdict::Drop);
        assert_eq!((crashes.live(), crashes.next_rested()), (1, None));
        assert_eq!(crashes.restarts_before(1), "");
    }
}
