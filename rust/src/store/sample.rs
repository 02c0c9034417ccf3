//! A `DatalogSample` message, read in place.

use crate::error::Result;
use crate::store::wire::{Fields, Value, integers, text};

/// The place of a receiver among the actors of a trial, the environment's behind theirs; `None` for a stranger.
pub type Place = Option<usize>;

/// A sample whose parts lie in its bytes.
#[derive(Debug, Default)]
pub struct Sample<'a> {
    /// What the actors observed.
    pub observed: Option<Observed<'a>>,
    /// Who started the trial.
    pub user: &'a str,
    /// Why the trial ended.
    pub end_reason: &'a str,
    /// Contents of actions, in the order of the actors.
    pub actions: Vec<&'a [u8]>,
    /// By receiver, once sorted.
    pub rewards: Vec<(Place, Reward<'a>)>,
    /// By receiver, once sorted.
    pub messages: Vec<(Place, Message<'a>)>,
    /// Places of actors whose default actions are among the actions, ascending.
    pub stood_in: Vec<u64>,
}

/// The observations of a tick.
#[derive(Debug, Default)]
pub struct Observed<'a> {
    /// The tick.
    pub tick: u64,
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// The different observations.
    pub contents: Vec<&'a [u8]>,
    /// For each actor the index of its observation.
    pub map: Vec<u64>,
}

/// A reward of an actor.
#[derive(Debug, Default)]
pub struct Reward<'a> {
    /// Name of the receiver.
    pub receiver: &'a str,
    /// The tick that it is about.
    pub tick: i32,
    /// The value.
    pub value: f32,
    /// Who gave it.
    pub sources: Vec<Source<'a>>,
}

/// One valuation of a reward.
#[derive(Debug, Default)]
pub struct Source<'a> {
    /// Name of the sender.
    pub sender: &'a str,
    /// The value.
    pub value: f32,
    /// The weight of the value.
    pub confidence: f32,
}

/// User data for an actor or the environment.
#[derive(Debug, Default)]
pub struct Message<'a> {
    /// The tick that it is about.
    pub tick: i32,
    /// Name of the sender.
    pub sender: &'a str,
    /// Name of the receiver.
    pub receiver: &'a str,
    /// The type of the payload.
    pub kind: &'a str,
    /// The payload.
    pub data: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Reads a sample; `place_of` tells the places of receivers.
    pub fn read(message: &'a [u8], place_of: impl Fn(&str) -> Place) -> Result<Self> {
        let mut read = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(bytes)) => read.user = text(bytes)?,
                (2, Value::Bytes(bytes)) => read.observed = Some(Observed::read(bytes)?),
                (3, Value::Bytes(bytes)) => read.actions.push(content_of(bytes)?),
                (4, Value::Bytes(bytes)) => {
                    let reward = Reward::read(bytes)?;
                    read.rewards.push((place_of(reward.receiver), reward));
                }
                (5, Value::Bytes(bytes)) => {
                    let message = Message::read(bytes)?;
                    read.messages.push((place_of(message.receiver), message));
                }
                (1000, Value::Bytes(bytes)) => read.end_reason = text(bytes)?,
                (1001, value) => integers(value, |each| read.stood_in.push(each))?,
                _ => {}
            }
        }
        Ok(read)
    }

    /// Orders what actors get by actor, so that nothing is looked for.
    pub fn sort(&mut self) {
        self.rewards.sort_by_key(|(place, _)| *place);
        self.messages.sort_by_key(|(place, _)| *place);
        self.stood_in.sort_unstable();
    }
}

/// The items of a receiver, out of those that are ordered by receiver.
pub fn of_place<T>(items: &[(Place, T)], place: usize) -> impl Iterator<Item = &T> {
    let begin = items.partition_point(|(receiver, _)| *receiver < Some(place));
    let mine = items[begin..].iter().take_while(move |(receiver, _)| *receiver == Some(place));
    mine.map(|(_, item)| item)
}

/// The first field of a message, its content.
fn content_of(message: &[u8]) -> Result<&[u8]> {
    let mut content: &[u8] = &[];
    for field in Fields::new(message) {
        if let (1, Value::Bytes(bytes)) = field? {
            content = bytes;
        }
    }
    Ok(content)
}

impl<'a> Observed<'a> {
    fn read(message: &'a [u8]) -> Result<Self> {
        let mut read = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Varint(tick)) => read.tick = tick,
                (2, Value::Fixed64(timestamp)) => read.timestamp = timestamp,
                (3, Value::Bytes(bytes)) => read.contents.push(content_of(bytes)?),
                (4, value) => integers(value, |index| read.map.push(index))?,
                _ => {}
            }
        }
        Ok(read)
    }
}

impl<'a> Reward<'a> {
    fn read(message: &'a [u8]) -> Result<Self> {
        let mut read = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(bytes)) => read.receiver = text(bytes)?,
                (2, Value::Varint(tick)) => read.tick = tick as i32,
                (3, Value::Fixed32(bits)) => read.value = f32::from_bits(bits),
                (4, Value::Bytes(bytes)) => read.sources.push(Source::read(bytes)?),
                _ => {}
            }
        }
        Ok(read)
    }
}

impl<'a> Source<'a> {
    fn read(message: &'a [u8]) -> Result<Self> {
        let mut read = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(bytes)) => read.sender = text(bytes)?,
                (2, Value::Fixed32(bits)) => read.value = f32::from_bits(bits),
                (3, Value::Fixed32(bits)) => read.confidence = f32::from_bits(bits),
                _ => {}
            }
        }
        Ok(read)
    }
}

impl<'a> Message<'a> {
    fn read(message: &'a [u8]) -> Result<Self> {
        let mut read = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Varint(tick)) => read.tick = tick as i32,
                (2, Value::Bytes(bytes)) => read.sender = text(bytes)?,
                (3, Value::Bytes(bytes)) => read.receiver = text(bytes)?,
                (4, Value::Bytes(any)) => {
                    for field in Fields::new(any) {
                        match field? {
                            (1, Value::Bytes(bytes)) => read.kind = text(bytes)?,
                            (2, Value::Bytes(bytes)) => read.data = bytes,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(read)
    }
}
