//! The samplers: rules by which a draw chooses entries.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A rule by which a draw chooses among the drawable entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Sampler {
    /// In proportion to weight, with replacement (Schaul et al. 2016, section 3.3).
    #[default]
    Prioritized,
    /// In proportion to weight, one draw from each of n equal parts of the sum, over entries oldest first (Schaul et al.
    /// 2016, appendix B.2.1).
    Stratified,
    /// All alike, with replacement, whatever their weights are.
    Uniform,
    /// The oldest first, in the order of closing, then of steps.
    Fifo,
    /// The newest first.
    Lifo,
    /// The largest weights first, ties the oldest first.
    Highest,
    /// The smallest weights first, ties the oldest first.
    Lowest,
}

impl Sampler {
    /// All samplers.
    pub const ALL: [Self; 7] = [
        Self::Prioritized,
        Self::Stratified,
        Self::Uniform,
        Self::Fifo,
        Self::Lifo,
        Self::Highest,
        Self::Lowest,
    ];

    /// Whether draws are in proportion to weight, so that weight 0 is never drawn.
    pub fn is_weighted(self) -> bool {
        matches!(self, Self::Prioritized | Self::Stratified)
    }

    /// The chance of an entry of this weight to be drawn, among so many drawable ones whose weights have this sum: 1 where an
    /// order decides.
    pub fn probability(self, weight: f32, total: f64, drawable: usize) -> f64 {
        match self {
            Self::Prioritized | Self::Stratified => f64::from(weight) / total,
            Self::Uniform => 1.0 / drawable as f64,
            Self::Fifo | Self::Lifo | Self::Highest | Self::Lowest => 1.0,
        }
    }

    /// Whether entries come in an order, each at most once per batch.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Fifo | Self::Lifo | Self::Highest | Self::Lowest)
    }

    /// Fails with [`Error::Value`] when so many rows can never be drawn at once from a memory of `max_step` entries, each at
    /// most `limit` times; 0 means as often as drawn.
    pub fn check_batch(self, name: &str, rows: usize, max_step: usize, limit: u32) -> Result<()> {
        let most = match limit {
            _ if self.is_ordered() => max_step,
            0 => return Ok(()),
            limit => max_step.saturating_mul(limit as usize),
        };
        if rows <= most {
            return Ok(());
        }
        let expected = format!(
            "at most {most} with max_step={max_step}, sampler='{self}' and max_times_sampled={limit}, or the wait \
             would never end"
        );
        Err(Error::value(name, expected, rows))
    }
}

impl Display for Sampler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prioritized => "prioritized",
            Self::Stratified => "stratified",
            Self::Uniform => "uniform",
            Self::Fifo => "fifo",
            Self::Lifo => "lifo",
            Self::Highest => "highest",
            Self::Lowest => "lowest",
        })
    }
}
