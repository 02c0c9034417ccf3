//! The columns of a record of a state: builtin ones, those of the game, and replies.

use std::ops::Range;

use crate::collector::description::Collector;
use crate::error::{Error, Result};
use crate::games::GameSpec;
use crate::spec::{FieldSpec, shape_text};

const ACTION: &str = "a";

/// One column.
#[derive(Debug, Clone)]
pub struct RecordColumn {
    /// The key.
    pub key: String,
    /// dtype and shape.
    pub field: FieldSpec,
    /// Its bytes in the record.
    pub range: Range<usize>,
    /// Replies write it; it is zero before.
    pub reply: bool,
}

/// All columns of a record.
#[derive(Debug)]
pub struct RecordColumns {
    all: Vec<RecordColumn>,
    size: usize,
    game_keys: usize,
    action: usize,
}

/// Declares the builtin columns: an enum, and a table of keys, dtypes and sizes in the same order.
macro_rules! builtin_columns {
    ($($(#[$doc:meta])* $name:ident = ($key:literal, $dtype:literal, $itemsize:literal),)*) => {
        /// A column at the start of every record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum BuiltinColumn {
            $($(#[$doc])* $name,)*
        }

        /// Key, dtype and size of each.
        const BUILTIN: &[(&str, &str, usize)] = &[$(($key, $dtype, $itemsize),)*];

        impl BuiltinColumn {
            /// All builtin columns.
            pub const ALL: [Self; BUILTIN.len()] = [$(Self::$name,)*];
        }
    };
}

builtin_columns! {
    /// The game's number.
    Id = ("id", "<i4", 4),
    /// The query of the game; 0 is the game itself.
    Tid = ("tid", "<i4", 4),
    /// Steps since the episode began.
    Seq = ("seq", "<i4", 4),
    /// The reward received on entering the state.
    LastReward = ("last_r", "<f4", 4),
    /// The state before was a terminal one.
    LastTerminal = ("last_terminal", "|u1", 1),
    /// The state before was the last of an episode cut short.
    LastTruncated = ("last_truncated", "|u1", 1),
    /// The state is a terminal one.
    Ended = ("ended", "|u1", 1),
    /// The state is the last of an episode cut short.
    Cut = ("cut", "|u1", 1),
    /// The episode, to distinguish its frames from others. Keys of descriptions cannot have this name.
    Episode = ("_episode", "<u4", 4),
}

const fn offset(column: usize) -> usize {
    let (mut at, mut offset) = (0, 0);
    while at < column {
        offset += BUILTIN[at].2;
        at += 1;
    }
    offset
}

/// Key, dtype and shape of the builtin columns that a description may name.
pub fn builtin_columns() -> impl Iterator<Item = (&'static str, FieldSpec)> {
    all_builtin().filter(|(key, _)| !key.starts_with('_'))
}

fn all_builtin() -> impl Iterator<Item = (&'static str, FieldSpec)> {
    BUILTIN.iter().map(|&(key, dtype, itemsize)| (key, FieldSpec::new(dtype, itemsize, &[])))
}

impl BuiltinColumn {
    /// Where it lies in a record.
    pub const fn range(self) -> Range<usize> {
        offset(self as usize)..offset(self as usize + 1)
    }
}

impl RecordColumns {
    /// The columns of a game's records, for these collectors. Fails with [`Error::Value`] when two collectors describe one
    /// key differently, with [`Error::Memory`] for a record larger than the address space.
    pub fn new(game: &GameSpec, collectors: &[Collector]) -> Result<Self> {
        let mut columns = Self { all: Vec::new(), size: 0, game_keys: game.keys.len(), action: 0 };
        for (key, field) in all_builtin() {
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
        // A reply key that no collector writes is zero.
        for input in collectors.iter().flat_map(|each| &each.inputs) {
            if columns.find(&input.column).is_none() {
                columns.add(&input.column, &input.field, true)?;
            }
        }
        Ok(columns)
    }

    /// Adds a column, or finds that of another reply. A reply cannot have the key of a column of other kind.
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
        self.all.push(RecordColumn { key: key.into(), field: field.clone(), range, reply });
        Ok(self.all.len() - 1)
    }

    /// The position of a key's column.
    pub fn find(&self, key: &str) -> Option<usize> {
        self.all.iter().position(|column| column.key == key)
    }

    /// The column at a position.
    pub fn at(&self, at: usize) -> &RecordColumn {
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

    /// Where the replies lie, by key.
    pub fn replies(&self) -> impl Iterator<Item = (&str, &Range<usize>)> {
        let replies = self.all.iter().filter(|column| column.reply);
        replies.map(|column| (column.key.as_str(), &column.range))
    }

    /// Where the game's own keys lie, in its order.
    pub fn game_keys(&self) -> impl Iterator<Item = &Range<usize>> {
        self.all[BUILTIN.len()..][..self.game_keys].iter().map(|column| &column.range)
    }
}
