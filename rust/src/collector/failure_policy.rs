//! The failure policy of games, and work of several games that fails for some of them.
//!
//! [`Failures`] is under the lock of the scheduler.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use foldhash::HashMap;

use crate::error::Result;

const MAX_REST: Duration = Duration::from_secs(60);

/// The failure policy: what happens to a game that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The whole run fails.
    Raise,
    /// The game begins a new episode; after too many restarts of one game the whole run fails.
    Restart {
        /// Restarts per game at most.
        most: u32,
        /// Rest before the first restart; doubled each time, up to a minute.
        backoff: Duration,
    },
    /// The game is dropped; the run fails without games.
    Drop,
}

/// Counts of failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failures of games.
    pub failures: u64,
    /// Restarts, those of resting games included.
    pub restarts: u64,
    /// Dropped games.
    pub dropped: u64,
}

/// The failures of a context's games.
#[derive(Debug)]
pub struct Failures {
    policy: OnError,
    games: usize,
    restarts: HashMap<u32, u32>,
    resting: BinaryHeap<Reverse<(Instant, u32)>>,
    pub(super) counts: FailureCounts,
    /// The game that failed last, and its error text.
    pub(super) last: Option<(u32, String)>,
}

impl Failures {
    /// Creates a record without failures of so many games.
    pub fn new(policy: OnError, games: usize) -> Self {
        let (restarts, resting) = (HashMap::default(), BinaryHeap::new());
        Self { policy, games, restarts, resting, counts: FailureCounts::default(), last: None }
    }

    /// Games that are not dropped.
    pub fn live(&self) -> usize {
        self.games - self.counts.dropped as usize
    }

    /// Takes a game that has just failed. Returns whether the whole run fails with it; if not, the game rests and restarts,
    /// or is dropped.
    pub fn ends_run(&mut self, game: u32, now: Instant) -> bool {
        self.counts.failures += 1;
        match self.policy {
            OnError::Raise => true,
            OnError::Restart { most, backoff } => !self.restart(game, now, most, backoff),
            OnError::Drop => {
                self.counts.dropped += 1;
                false
            }
        }
    }

    /// Lets a game rest before it restarts; false when it has no restart left.
    fn restart(&mut self, game: u32, now: Instant, most: u32, backoff: Duration) -> bool {
        let before = self.restarts.entry(game).or_default();
        if *before >= most {
            return false;
        }
        let doubled = backoff.saturating_mul(1_u32.checked_shl(*before).unwrap_or(u32::MAX));
        *before += 1;
        self.counts.restarts += 1;
        self.resting.push(Reverse((now + doubled.min(MAX_REST), game)));
        true
    }

    /// The text about earlier restarts in the error that ends the run; empty with other policies.
    pub fn restarts_before(&self, game: u32) -> String {
        let OnError::Restart { most, .. } = self.policy else { return String::new() };
        let count = self.restarts.get(&game).copied().unwrap_or_default();
        let s = if count == 1 { "" } else { "s" };
        format!(", after {count} restart{s} (max_restarts={most})")
    }

    /// Takes a game whose rest is over.
    pub fn rested(&mut self, now: impl Fn() -> Instant) -> Option<u32> {
        let Reverse((end, game)) = *self.resting.peek()?;
        if end > now() {
            return None;
        }
        self.resting.pop();
        Some(game)
    }

    /// When the next game's rest is over.
    pub fn next_rested(&self) -> Option<Instant> {
        self.resting.peek().map(|Reverse((end, _))| *end)
    }
}

/// Positions of items that failed, and their error texts.
pub type FailedItems = Vec<(usize, String)>;

/// Runs work that counts a position up. Where it fails or panics, it is run again from the next position on. Returns the
/// failed positions.
pub fn skipping_failures(mut act: impl FnMut(&mut usize) -> Result<()>) -> FailedItems {
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

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("for no reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_until_restarts_run_out() {
        let backoff = Duration::from_secs(25);
        let mut failures = Failures::new(OnError::Restart { most: 3, backoff }, 2);
        let start = Instant::now();
        for rest in [25, 50, 60] {
            assert!(!failures.ends_run(1, start));
            let end = start + Duration::from_secs(rest);
            assert_eq!(failures.next_rested(), Some(end));
            assert_eq!(failures.rested(|| start + Duration::from_secs(rest - 1)), None);
            assert_eq!(failures.rested(|| end), Some(1));
        }
        assert!(!failures.ends_run(0, start), "each game has restarts of its own");
        assert_eq!(failures.restarts_before(0), ", after 1 restart (max_restarts=3)");
        assert!(failures.ends_run(1, start));
        assert_eq!(failures.restarts_before(1), ", after 3 restarts (max_restarts=3)");
        let counts = FailureCounts { failures: 5, restarts: 4, dropped: 0 };
        assert_eq!((failures.counts, failures.live()), (counts, 2));
    }

    #[test]
    fn dropped_game_is_not_live() {
        let mut failures = Failures::new(OnError::Drop, 2);
        assert!(!failures.ends_run(1, Instant::now()));
        assert_eq!((failures.live(), failures.next_rested()), (1, None));
        assert_eq!(failures.restarts_before(1), "");
    }
}
