//! What a record of a state holds, and where.

use std::ops::Range;

use crate::collector::description::Collector;
use crate::error::{Error, Result};
use crate::games::GameSpec;
use crate::spec::{FieldSpec, shape_text};

/// The key of the action.
const ACTION: &str = "a";

/// A part of a record.
#[derive(Debug, Clone)]
pub struct Column {
    /// The key.
    pub key: String,
    /// dtype and shape.
    pub field: FieldSpec,
    /// Its bytes in the record.
    pub range: Range<usize>,
    /// Written by replies, and zero until then.
    pub reply: bool,
}

/// All parts of a record.
#[derive(Debug)]
pub struct Columns {
    all: Vec<Column>,
    size: usize,
    game_keys: usize,
    action: usize,
}

/// Parts that every record has, in front; their positions are those of [`BuiltinColumn`].
const FIXED: [(&str, &str, usize); 9] = [
    ("id", "<i4", 4),
    ("tid", "<i4", 4),
    ("seq", "<i4", 4),
    ("last_r", "<f4", 4),
    ("last_terminal", "|u1", 1),
    ("last_truncated", "|u1", 1),
    ("ended", "|u1", 1),
    ("cut", "|u1", 1),
    // No key of a description can have this name.
    ("_episode", "<u4", 4),
];

/// Where the fixed part of this number begins.
const fn offset(part: usize) -> usize {
    let (mut at, mut offset) = (0, 0);
    while at < part {
        offset += FIXED[at].2;
        at += 1;
    }
    offset
}

/// Positions of the parts that every record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinColumn {
    /// The game's number.
    Id,
    /// The query of the game; 0 is the game itself.
    Tid,
    /// Steps since the episode began.
    Seq,
    /// The reward received on entering the state.
    LastReward,
    /// The state before was a terminal one.
    LastTerminal,
    /// The state before was the last of an episode cut short.
    LastTruncated,
    /// The state is a terminal one.
    Ended,
    /// The state is the last of an episode cut short.
    Cut,
    /// The episode, to tell frames of one from those of another.
    Episode,
}

impl BuiltinColumn {
    /// All of them.
    pub const ALL: [Self; FIXED.len()] = [
        Self::Id,
        Self::Tid,
        Self::Seq,
        Self::LastReward,
        Self::LastTerminal,
        Self::LastTruncated,
        Self::Ended,
        Self::Cut,
        Self::Episode,
    ];

    /// Where it lies in a record.
    pub const fn range(self) -> Range<usize> {
        offset(self as usize)..offset(self as usize + 1)
    }
}

impl Columns {
    /// The columns of a game that these collectors look at.
    ///
    /// # Errors
    /// [`Error::Value`] when two collectors see one key differently, [`Error::Memory`] for a record larger than
    /// the address space.
    pub fn new(game: &GameSpec, collectors: &[Collector]) -> Result<Self> {
        let mut columns = Self { all: Vec::new(), size: 0, game_keys: game.keys.len(), action: 0 };
        for (key, dtype, itemsize) in FIXED {
            let field = FieldSpec { dtype: dtype.into(), itemsize, shape: vec![] };
            columns.add(key, &field, false)?;
        }
        for (key, field) in &game.keys {
            columns.add(key, field, false)?;
        }
        columns.action = columns.add(ACTION, &game.action, true)?;
        let replies = collectors.iter().flat_map(|each| each.replies.iter().flatten());
        for reply in replies {
            columns.add(&reply.key, &reply.field, true)?;
        }
        // Reply keys that somebody wants to see and nobody writes are zero.
        for input in collectors.iter().flat_map(|each| &each.inputs) {
            if columns.find(&input.column).is_none() {
                columns.add(&input.column, &input.field, true)?;
            }
        }
        Ok(columns)
    }

    /// Adds a column, or finds it when it is there; what others write cannot be a reply.
    fn add(&mut self, key: &str, field: &FieldSpec, reply: bool) -> Result<usize> {
        if let Some(at) = self.find(key) {
            let known = &self.all[at];
            if reply && known.reply && known.field == *field {
                return Ok(at);
            }
            let [expected, got] = [&known.field, field]
                .map(|field| format!("{} {}", field.dtype_name(), shape_text(&field.shape)));
            return Err(Error::value(key, format!("{expected} as elsewhere"), got));
        }
        let end = self.size.checked_add(field.nbytes()).ok_or_else(|| {
            Error::Memory(format!("a record with {key:?} exceeds the address space"))
        })?;
        let range = self.size..end;
        self.size = range.end;
        self.all.push(Column { key: key.into(), field: field.clone(), range, reply });
        Ok(self.all.len() - 1)
    }

    /// The position of a key.
    pub fn find(&self, key: &str) -> Option<usize> {
        self.all.iter().position(|column| column.key == key)
    }

    /// The column at a position.
    pub fn at(&self, at: usize) -> &Column {
        &self.all[at]
    }

    /// Bytes of a record.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where the action lies.
    pub fn action(&self) -> &Range<usize> {
        &self.all[self.action].range
    }

    /// Where what is replied lies, by key.
    pub fn replies(&self) -> impl Iterator<Item = (&str, &Range<usize>)> {
        let replies = self.all.iter().filter(|column| column.reply);
        replies.map(|column| (column.key.as_str(), &column.range))
    }

    /// Where the game's own keys lie, in its order.
    pub fn game_keys(&self) -> impl Iterator<Item = &Range<usize>> {
        self.all[FIXED.len()..FIXED.len() + self.game_keys].iter().map(|column| &column.range)
    }
}
