//! Where sequences lie in an episode: the steps that they may begin to learn from, and the steps around those.
//!
//! ```text
//! step     0   1   2   3   4   5   6   7   8   9        an episode of 10 actions, and anchors with period 4
//! anchor   *               *       *                    for length 4; the last one reaches the last action
//! window           [burn_in|  learned  |after]          that of anchor 4 with burn_in 2 and after 1
//! ```

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::spec::FieldSpec;

/// Steps of a sequence at most.
const MAX_STEPS: usize = u32::MAX as usize >> 1;

/// The rule for windows that do not lie in their episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Border {
    /// Steps outside of the episode are not valid.
    #[default]
    Clip,
    /// The window is moved into the episode, where that is long enough.
    Shift,
    /// Such windows are not drawn.
    Drop,
}

impl Border {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::Clip, Self::Shift, Self::Drop];
}

impl Display for Border {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clip => "clip",
            Self::Shift => "shift",
            Self::Drop => "drop",
        })
    }
}

/// The length of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeLength {
    /// Its steps with an action.
    pub actions: usize,
    /// Its entries: one more where the final state is stored.
    pub entries: usize,
}

/// The sequences that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceShape {
    /// Steps to learn from.
    pub length: usize,
    /// Steps before them, from which a learner computes its recurrent state.
    pub burn_in: usize,
    /// Steps behind them, for n-step returns.
    pub after: usize,
    /// Steps from one anchor to the next.
    pub period: usize,
    /// The rule for windows that do not lie in their episode.
    pub border: Border,
}

/// The part of an episode that a sequence holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Rows before the first step.
    pub lead: usize,
    /// The steps of the episode.
    pub steps: Range<usize>,
    /// The steps to learn from, all of which have an action.
    pub learn: Range<usize>,
}

impl Window {
    /// The row of a step.
    pub fn row_of(&self, step: usize) -> usize {
        self.lead + step - self.steps.start
    }
}

impl SequenceShape {
    /// Checks the numbers. Fails with [`Error::Value`] that names one.
    pub fn check(&self) -> Result<()> {
        for (name, number, least) in [
            ("length", self.length, 1),
            ("burn_in", self.burn_in, 0),
            ("after", self.after, 0),
            ("period", self.period, 1),
        ] {
            if !(least..=MAX_STEPS).contains(&number) {
                let expected = format!("an integer in [{least}, {MAX_STEPS}]");
                return Err(Error::value(name, expected, number));
            }
        }
        Ok(())
    }

    /// A number that tells sequences of this shape, with such a recurrent state, from others and from transitions.
    pub fn number(&self, recurrent: Option<&FieldSpec>) -> u32 {
        let Self { length, burn_in, after, period, border } = self;
        let state = recurrent.map(|field| (&field.dtype, &field.shape));
        let text = format!("{length} {burn_in} {after} {period} {border} {state:?}");
        // The flags of transitions are 14 bits.
        crc32fast::hash(text.as_bytes()) | 1 << 31
    }

    /// Steps from the first of the burn-in to the last.
    pub fn steps(&self) -> usize {
        self.burn_in + self.length + self.after
    }

    /// Rows of a sequence: with a recurrent state before every `recurrent_period`-th step only, it may begin earlier.
    pub fn rows(&self, recurrent_period: usize) -> usize {
        self.steps() + recurrent_period - 1
    }

    /// The first learned steps of the sequences of an episode, in order. Steps before `first` are not among them.
    pub fn anchors(&self, episode: EpisodeLength, first: usize) -> impl Iterator<Item = usize> {
        let bounds = self.bounds(episode, first);
        let (period, last) = (self.period, self.last_start(episode));
        let multiples = bounds.start.div_ceil(period)..bounds.end.div_ceil(period);
        // The last start is one too where it is not a multiple.
        let end = (bounds.contains(&last) && !last.is_multiple_of(period)).then_some(last);
        multiples.map(move |multiple| multiple * period).chain(end)
    }

    /// Whether a step is among [`Self::anchors`].
    pub fn has_anchor(&self, episode: EpisodeLength, first: usize, step: usize) -> bool {
        let is_start = step.is_multiple_of(self.period) || step == self.last_start(episode);
        is_start && self.bounds(episode, first).contains(&step)
    }

    /// The last start from which all steps to learn from have an action; 0 in a shorter episode.
    fn last_start(&self, episode: EpisodeLength) -> usize {
        episode.actions.saturating_sub(self.length)
    }

    /// The steps that anchors lie in.
    fn bounds(&self, episode: EpisodeLength, first: usize) -> Range<usize> {
        let end = if episode.actions == 0 { 0 } else { self.last_start(episode) + 1 };
        if self.border != Border::Drop {
            return first..end;
        }
        let is_long = episode.actions >= self.length;
        let behind = (episode.entries + 1).saturating_sub(self.length + self.after);
        first.max(self.burn_in)..if is_long { end.min(behind) } else { 0 }
    }

    /// The steps that the sequence of an anchor learns from.
    pub fn learned(&self, actions: usize, anchor: usize) -> Range<usize> {
        anchor..actions.min(anchor + self.length)
    }

    /// The window of an anchor, where recurrent states are stored before each `recurrent_period`-th step.
    pub fn window(&self, episode: EpisodeLength, anchor: usize, recurrent_period: usize) -> Window {
        // Before the first step of the episode these would be negative: count from `burn_in` steps before that.
        let mut start = anchor;
        if let Some(latest) = episode.entries.checked_sub(self.steps())
            && self.border == Border::Shift
        {
            start = start.clamp(self.burn_in, latest + self.burn_in);
        }
        let first = start.saturating_sub(self.burn_in);
        let stored = first / recurrent_period * recurrent_period;
        let lead = stored + self.burn_in + recurrent_period - 1 - start;
        let end = episode.entries.min(start + self.length + self.after);
        Window { lead, steps: stored..end, learn: self.learned(episode.actions, anchor) }
    }
}
