//! The rate limiter: how many samples may be drawn for each entry inserted.
//!
//! With I inserts, D entries removed, S samples (Cassirer et al. 2021, section 3.3):
//!
//! ```text
//! n may be sampled:   I - D >= min_size      and   I * samples_per_insert - S - n >= low
//! n may be inserted:  I + n - D <= min_size  or    (I + n) * samples_per_insert - S <= high
//! ```
//!
//! Where one entry may not be inserted, `I - D >= min_size` and `I * samples_per_insert - S > high - samples_per_insert`.
//! So a batch of at most `high - low - samples_per_insert` may then be sampled: never do both sides wait for each
//! other. Larger batches are refused.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, short};
use crate::replay::episode::LARGEST_COUNT;

/// Why the options are limited.
const REASON: &str = "or samples and inserts could wait for each other for ever";

/// Entries inserted, sampled and removed since a memory was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimiterCounts {
    /// Entries of closed episodes, final states left out.
    pub inserts: u64,
    /// Rows of batches, and learned steps of sequences.
    pub samples: u64,
    /// Inserted entries that were evicted or used up, each once.
    pub removed: u64,
}

impl LimiterCounts {
    /// Samples per insert so far; 0 without inserts.
    pub fn samples_per_insert(&self) -> f64 {
        if self.inserts == 0 { 0.0 } else { self.samples as f64 / self.inserts as f64 }
    }

    /// Counts entries that were evicted or used up.
    pub(super) fn remove(&mut self, n: u64) {
        self.removed = (self.removed + n).min(self.inserts);
    }

    /// Entries that can still be drawn.
    fn held(self) -> i128 {
        i128::from(self.inserts) - i128::from(self.removed)
    }

    fn text(self) -> String {
        format!("inserts {}, samples {}, removed {}", self.inserts, self.samples, self.removed)
    }
}

/// The limits of `inserts * samples_per_insert - samples`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Samples for each insert.
    pub samples_per_insert: f64,
    /// Samples stay above this.
    pub low: f64,
    /// Inserts stay below this.
    pub high: f64,
    /// A queue, whose counts are whole numbers, so that a batch may be as large as it.
    queue: bool,
}

impl Ratio {
    /// What rounding may add to or take from `high - low - samples_per_insert`.
    fn slack(&self) -> f64 {
        4.0 * f64::EPSILON * (self.low.abs() + self.high.abs() + self.samples_per_insert)
    }

    /// Samples that were owed after `more` further inserts.
    fn owed(&self, counts: &LimiterCounts, more: u64) -> f64 {
        (counts.inserts.saturating_add(more)) as f64 * self.samples_per_insert
            - counts.samples as f64
    }

    fn largest_batch(&self) -> f64 {
        if self.queue {
            return self.high;
        }
        (self.high - self.low - self.samples_per_insert + self.slack()).floor()
    }
}

/// The `error_buffer` of a limiter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorBuffer {
    /// So much below and above `min_size * samples_per_insert`.
    Around(f64),
    /// `low` and `high`.
    Between(f64, f64),
}

/// The options of a rate limiter, which never change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateLimiter {
    min_size: u64,
    ratio: Option<Ratio>,
}

impl RateLimiter {
    /// Keeps samples per insert near a number. Fails with [`Error::Value`] that names the argument when it is out of range,
    /// or when both sides could wait for each other.
    pub fn new(samples_per_insert: f64, min_size: u64, error_buffer: ErrorBuffer) -> Result<Self> {
        let spi = samples_per_insert;
        if !(spi.is_finite() && spi > 0.0) {
            return Err(Error::value("samples_per_insert", "a finite number > 0", short(spi)));
        }
        check_min_size(min_size)?;
        let center = min_size as f64 * spi;
        let (low, high) = match error_buffer {
            ErrorBuffer::Around(buffer) => (center - buffer, center + buffer),
            ErrorBuffer::Between(low, high) => (low, high),
        };
        for number in [low, high, center] {
            if !number.is_finite() {
                let expected = "finite numbers; RateLimiter.min_size(m) has no limits of samples";
                return Err(Error::value("error_buffer", expected, short(number)));
            }
        }
        let ratio = Ratio { samples_per_insert: spi, low, high, queue: false };
        let least = 2.0 * spi.max(1.0);
        if high - low < least - ratio.slack() {
            let (expected, got) = match error_buffer {
                ErrorBuffer::Around(buffer) => (
                    format!("at least max(1, samples_per_insert) = {}", short(least / 2.0)),
                    buffer,
                ),
                ErrorBuffer::Between(..) => (
                    format!("high - low >= 2 * max(1, samples_per_insert) = {}", short(least)),
                    high - low,
                ),
            };
            return Err(Error::value("error_buffer", format!("{expected}, {REASON}"), short(got)));
        }
        if low > center || high < center {
            let expected = format!(
                "low <= min_size * samples_per_insert = {} <= high, {REASON}",
                short(center)
            );
            let got = format!("low = {}, high = {}", short(low), short(high));
            return Err(Error::value("error_buffer", expected, got));
        }
        Ok(Self { min_size, ratio: Some(ratio) })
    }

    /// Lets nothing be sampled before so many entries are held, and has no limits else. Fails with [`Error::Value`] for 0.
    pub fn min_size(min_size: u64) -> Result<Self> {
        check_min_size(min_size)?;
        Ok(Self { min_size, ratio: None })
    }

    /// Lets at most `size` entries wait for their sample: one sample per insert, `min_size` 1, `low` 0, `high` size. Fails
    /// with [`Error::Value`] for 0.
    pub fn queue(size: u64) -> Result<Self> {
        if size == 0 {
            return Err(Error::value("size", "an integer >= 1", size));
        }
        let high = size as f64;
        let ratio = Ratio { samples_per_insert: 1.0, low: 0.0, high, queue: true };
        Ok(Self { min_size: 1, ratio: Some(ratio) })
    }

    /// Entries held before anything is sampled.
    pub fn min_size_to_sample(&self) -> u64 {
        self.min_size
    }

    /// The limits of samples and inserts; None when only the size is limited.
    pub fn ratio(&self) -> Option<&Ratio> {
        self.ratio.as_ref()
    }

    /// Whether this is a queue.
    pub fn is_queue(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.queue)
    }

    /// Whether a constructor could have made it.
    pub fn is_valid(&self) -> bool {
        let made = match self.ratio {
            None => Self::min_size(self.min_size),
            Some(Ratio { high, queue: true, .. }) => Self::queue(high as u64),
            Some(Ratio { samples_per_insert, low, high, .. }) => {
                Self::new(samples_per_insert, self.min_size, ErrorBuffer::Between(low, high))
            }
        };
        made.is_ok_and(|made| made == *self)
    }

    /// The largest batch that can ever be sampled; None without a limit.
    pub fn largest_batch(&self) -> Option<u64> {
        self.ratio.map(|ratio| ratio.largest_batch() as u64)
    }

    /// Fails with [`Error::Value`] that names the argument when a batch of n samples can never be sampled.
    pub fn check_batch(&self, name: &str, n: u64) -> Result<()> {
        let (Some(ratio), Some(largest)) = (self.ratio, self.largest_batch()) else {
            return Ok(());
        };
        if n <= largest {
            return Ok(());
        }
        let limit = if ratio.queue {
            format!("the rate limiter is a queue of {}", short(ratio.high))
        } else {
            format!(
                "the rate limiter never allows more than high - low - samples_per_insert = {} - {} - {}",
                short(ratio.high),
                short(ratio.low),
                short(ratio.samples_per_insert)
            )
        };
        let expected = format!("at most {largest} samples in a batch, since {limit}");
        Err(Error::value(name, expected, n))
    }

    /// Whether a batch of n may be sampled.
    pub fn may_sample(&self, n: u64, counts: &LimiterCounts) -> bool {
        self.has_size(counts) && self.ratio_allows(n, counts)
    }

    /// Why a batch of n may not be sampled yet, and what would free it; None when it may.
    pub fn sample_shortage(&self, n: u64, counts: &LimiterCounts) -> Option<String> {
        let clause = if !self.has_size(counts) {
            format!("inserts - removed = {} is below min_size = {}", counts.held(), self.min_size)
        } else if let Some(ratio) = self.ratio.filter(|_| !self.ratio_allows(n, counts)) {
            format!(
                "inserts * samples_per_insert - samples - {n} = {} is below low = {}",
                short(ratio.owed(counts, 0) - n as f64),
                short(ratio.low)
            )
        } else {
            return None;
        };
        let wanted = count(self.inserts_until_sample(n, counts), "more entry", "more entries");
        Some(format!(
            "the rate limiter does not allow a batch of {n} yet: {clause} ({}); {wanted} inserted would \
             free it",
            counts.text()
        ))
    }

    /// Whether n more entries may be inserted.
    pub fn may_insert(&self, n: u64, counts: &LimiterCounts) -> bool {
        let Some(ratio) = self.ratio else { return true };
        counts.held() + i128::from(n) <= i128::from(self.min_size)
            || ratio.owed(counts, n) <= ratio.high
    }

    /// Why not one entry may be inserted yet, and what would free it; None when one may.
    pub fn insert_shortage(&self, counts: &LimiterCounts) -> Option<String> {
        let ratio = self.ratio.filter(|_| !self.may_insert(1, counts))?;
        let owed = ratio.owed(counts, 1);
        let wanted = (owed - ratio.high).ceil().max(1.0) as u64;
        Some(format!(
            "the rate limiter does not allow an insert yet: (inserts + 1) * samples_per_insert - samples = {} \
             is above high = {} ({}); {} drawn would free it",
            short(owed),
            short(ratio.high),
            counts.text(),
            count(wanted, "more sample", "more samples")
        ))
    }

    /// How many entries may still be inserted before samples are drawn; None without a limit.
    pub fn inserts_left(&self, counts: &LimiterCounts) -> Option<u64> {
        let ratio = self.ratio?;
        let by_size = i128::from(self.min_size) - counts.held();
        let most =
            (ratio.high + counts.samples as f64) / ratio.samples_per_insert - counts.inserts as f64;
        let allows = |n: u64| ratio.owed(counts, n) <= ratio.high;
        let mut by_ratio = most.max(0.0) as u64;
        // The quotient was rounded.
        if by_ratio > 0 && !allows(by_ratio) {
            by_ratio -= 1;
        } else if allows(by_ratio.saturating_add(1)) {
            by_ratio = by_ratio.saturating_add(1);
        }
        Some(u64::try_from(by_size.max(0)).unwrap_or(u64::MAX).max(by_ratio))
    }

    /// Whether as many entries are held as have to be before anything is sampled.
    pub fn has_size(&self, counts: &LimiterCounts) -> bool {
        counts.held() >= i128::from(self.min_size)
    }

    fn ratio_allows(&self, n: u64, counts: &LimiterCounts) -> bool {
        let Some(ratio) = self.ratio else { return true };
        ratio.owed(counts, 0) - n as f64 >= ratio.low
            // Only by rounding can both sides wait for each other: then samples go first.
            || (n as f64 <= ratio.largest_batch() && !self.may_insert(1, counts))
    }

    /// How many entries have to be inserted before a batch of n may be sampled.
    fn inserts_until_sample(&self, n: u64, counts: &LimiterCounts) -> u64 {
        let by_size = (i128::from(self.min_size) - counts.held()).max(0);
        let by_ratio = self.ratio.map_or(0.0, |ratio| {
            let missing = ratio.low + n as f64 - ratio.owed(counts, 0);
            (missing / ratio.samples_per_insert).ceil().max(0.0)
        });
        u64::try_from(by_size).unwrap_or(u64::MAX).max(by_ratio as u64).max(1)
    }
}

impl Display for RateLimiter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let min_size = self.min_size;
        match self.ratio {
            None => write!(f, "RateLimiter.min_size({min_size})"),
            Some(Ratio { high, queue: true, .. }) => {
                write!(f, "RateLimiter.queue({})", high as u64)
            }
            Some(Ratio { samples_per_insert, low, high, .. }) => write!(
                f,
                "RateLimiter(samples_per_insert={}, min_size={min_size}, error_buffer=({}, {}))",
                short(samples_per_insert),
                short(low),
                short(high)
            ),
        }
    }
}

/// A rate limiter with what it has counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Limited {
    pub limiter: RateLimiter,
    pub counts: LimiterCounts,
}

impl Limited {
    /// Whether a memory of `max_step` entries that holds `held` inserted ones could have it.
    pub fn is_sound(&self, max_step: u64, held: u64) -> bool {
        let LimiterCounts { inserts, samples, removed } = self.counts;
        self.limiter.is_valid()
            && self.limiter.min_size_to_sample() <= max_step
            && inserts.max(samples) <= LARGEST_COUNT
            && removed <= inserts
            && held <= inserts
    }
}

fn check_min_size(min_size: u64) -> Result<()> {
    if min_size == 0 {
        return Err(Error::value("min_size", "an integer >= 1", min_size));
    }
    Ok(())
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
