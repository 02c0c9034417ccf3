//! Columns of lists: what the actor of a row got.

use crate::error::Result;
use crate::store::columns::{Column, Ends, Texts, levels_of_lists, plain};
use crate::store::parquet::file::{Levels, ParquetFile};
use crate::store::sample::{Message, Reward};

/// The rewards that an actor got, a list per row, with a list of sources each.
#[derive(Debug, Default)]
pub struct Rewards {
    ends: Ends,
    items: usize,
    tick: Vec<i64>,
    value: Vec<f32>,
    source_ends: Ends,
    sources: usize,
    sender: Texts,
    source_value: Vec<f32>,
    confidence: Vec<f32>,
}

/// The messages that an actor or the environment got, a list per row.
#[derive(Debug, Default)]
pub struct Messages {
    ends: Ends,
    items: usize,
    sender: Texts,
    tick: Vec<i64>,
    kind: Texts,
    data: Texts,
}

impl Rewards {
    /// Appends a reward to the row that is not ended yet.
    pub fn push(&mut self, reward: &Reward<'_>) -> Result<()> {
        self.items += 1;
        self.tick.push(reward.tick.into());
        self.value.push(reward.value);
        for source in &reward.sources {
            self.sources += 1;
            self.sender.push(source.sender.as_bytes())?;
            self.source_value.push(source.value);
            self.confidence.push(source.confidence);
        }
        self.source_ends.push(self.sources)
    }

    /// Ends a row.
    pub fn end_row(&mut self) -> Result<()> {
        self.ends.push(self.items)
    }
}

impl Rewards {
    fn source_levels(&self) -> Levels {
        let mut levels = Levels::default();
        let mut sources = self.source_ends.ranges();
        for rewards in self.ends.ranges() {
            if rewards.is_empty() {
                levels.definition.push(1);
                levels.repetition.push(0);
            }
            for (place, sources) in sources.by_ref().take(rewards.len()).enumerate() {
                let first = u32::from(place > 0);
                if sources.is_empty() {
                    levels.definition.push(4);
                    levels.repetition.push(first);
                }
                levels.definition.extend(std::iter::repeat_n(7, sources.len()));
                let within = (0..sources.len()).map(|source| if source > 0 { 2 } else { first });
                levels.repetition.extend(within);
            }
        }
        levels
    }
}

impl Column for Rewards {
    fn write(&mut self, file: &mut ParquetFile) -> Result<()> {
        let taken = std::mem::take(self);
        let levels = levels_of_lists(taken.ends.ranges().map(|range| range.len()), 1, 4);
        file.column(&levels, &plain(&taken.tick))?;
        file.column(&levels, &plain(&taken.value))?;
        let levels = taken.source_levels();
        file.column(&levels, &taken.sender.shared())?;
        file.column(&levels, &plain(&taken.source_value))?;
        file.column(&levels, &plain(&taken.confidence))
    }
}

impl Messages {
    /// Appends a message to the row that is not ended yet.
    pub fn push(&mut self, message: &Message<'_>) -> Result<()> {
        self.items += 1;
        self.sender.push(message.sender.as_bytes())?;
        self.tick.push(message.tick.into());
        self.kind.push(message.kind.as_bytes())?;
        self.data.push(message.data)
    }

    /// Ends a row.
    pub fn end_row(&mut self) -> Result<()> {
        self.ends.push(self.items)
    }
}

impl Column for Messages {
    fn write(&mut self, file: &mut ParquetFile) -> Result<()> {
        let taken = std::mem::take(self);
        let levels = levels_of_lists(taken.ends.ranges().map(|range| range.len()), 1, 4);
        file.column(&levels, &taken.sender.shared())?;
        file.column(&levels, &plain(&taken.tick))?;
        file.column(&levels, &taken.kind.shared())?;
        file.column(&levels, &taken.data.apart())
    }
}
