//! What is collected: descriptions, checked and resolved to bytes.

use std::time::Duration;

use crate::collector::batch::Layout;
use crate::collector::column::{Columns, Fixed};
use crate::error::{Error, Result};
use crate::games::GameSpec;
use crate::spec::FieldSpec;

/// Collectors of a context at most: sets of them are the bits of one number.
pub const MOST: usize = 64;

/// One key of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The key in the batch.
    pub key: String,
    /// Where it comes from: the same, or `last_` and the same.
    pub column: String,
    /// Take the column of the state after, and zero at the newest.
    pub shifted: bool,
    /// Take so many of the last states of the episode, oldest first; 0 is just the one, without an axis.
    pub stack: usize,
    /// dtype and shape of the column, before any stacking.
    pub field: FieldSpec,
}

/// One key of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The key.
    pub key: String,
    /// dtype and shape of a row.
    pub field: FieldSpec,
}

/// One kind of batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// Its name.
    pub name: String,
    /// Rows of a full batch.
    pub batch_size: usize,
    /// States of a row.
    pub steps: usize,
    /// After its first row has waited so long a batch goes out short.
    pub timeout: Option<Duration>,
    /// See only states in which this player moves.
    pub player: Option<usize>,
    /// What it shows.
    pub inputs: Vec<Input>,
    /// What it is answered; none when it only listens.
    pub replies: Option<Vec<Reply>>,
    /// Games wait until a batch that they are in is given back, also when it only listens.
    pub block: bool,
}

impl Collector {
    /// Bytes of a row in each array of a batch: all inputs of the oldest state, then of the next, and then the
    /// replies likewise.
    ///
    /// # Errors
    /// [`Error::Memory`] when they exceed the address space.
    pub fn layout(&self) -> Result<Layout> {
        let steps = 0..self.steps;
        let inputs = steps.clone().flat_map(|_| self.input_sizes());
        Layout::new(self.batch_size, inputs.chain(steps.flat_map(|_| self.reply_sizes())))
    }

    fn input_sizes(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().map(|each| each.field.nbytes().saturating_mul(each.stack.max(1)))
    }

    fn reply_sizes(&self) -> impl Iterator<Item = usize> {
        self.replies.iter().flatten().map(|each| each.field.nbytes())
    }

    /// Arrays of a batch.
    pub fn arrays(&self) -> u128 {
        let keys = self.input_sizes().chain(self.reply_sizes()).count();
        self.steps as u128 * keys as u128
    }

    /// Bytes of a row in all arrays together; as good as infinite beyond what numbers hold.
    pub fn row_size(&self) -> u128 {
        let state = self.input_sizes().chain(self.reply_sizes()).map(|size| size as u128);
        (self.steps as u128).saturating_mul(state.sum())
    }

    /// The array of an input at a state, 0 the oldest.
    #[inline]
    pub fn input_part(&self, step: usize, input: usize) -> usize {
        step * self.inputs.len() + input
    }

    /// The array of a reply at a state, 0 the oldest.
    pub fn reply_part(&self, step: usize, reply: usize) -> usize {
        let replies = self.replies.as_ref().map_or(0, Vec::len);
        self.steps * self.inputs.len() + step * replies + reply
    }

    /// Whether it answers.
    pub fn replying(&self) -> bool {
        self.replies.is_some()
    }

    /// Whether its games wait until their batch is given back.
    pub fn holding(&self) -> bool {
        self.replying() || self.block
    }

    /// States between one delivery of a listener and the next.
    fn stride(&self) -> u64 {
        self.steps.saturating_sub(1).max(1) as u64
    }

    /// Whether a listener gets a row after so many states.
    pub fn due(&self, states: u64) -> bool {
        states >= self.steps as u64 && (states - self.steps as u64).is_multiple_of(self.stride())
    }

    /// States after the last that a listener got, when there were so many.
    pub fn undelivered(&self, states: u64) -> u64 {
        match states.checked_sub(self.steps as u64) {
            Some(more) => more % self.stride(),
            None => states,
        }
    }

    fn check(&self, game: &GameSpec) -> Result<()> {
        let least = |what: &str, number: usize| match number {
            0 => Err(Error::value(format!("{what} of {:?}", self.name), "an integer >= 1", 0)),
            _ => Ok(()),
        };
        least("_batchsize", self.batch_size)?;
        least("_T", self.steps)?;
        let player = self.player.unwrap_or(0);
        if player >= game.players.len() {
            return Err(Error::value("_name", format!("one of {:?}", game.players), player));
        }
        Ok(())
    }
}

/// What a collector copies, resolved to columns.
#[derive(Debug)]
pub struct Route {
    /// The description.
    pub collector: Collector,
    /// The history it looks at.
    pub history: usize,
    /// For each input its column.
    pub inputs: Vec<usize>,
    /// For each reply its column, and the collectors after this one that write it too.
    pub replies: Vec<(usize, u64)>,
}

/// One of the histories that a game keeps: of all its states, or of those of one player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// Whose states; none for all.
    pub player: Option<usize>,
    /// States kept.
    pub depth: usize,
}

/// Everything that the games of a context do for its collectors.
#[derive(Debug)]
pub struct Plan {
    /// What a record holds.
    pub columns: Columns,
    /// The collectors, in the order of the descriptions.
    pub routes: Vec<Route>,
    /// The histories of a game; the first is of all states.
    pub tracks: Vec<Track>,
}

impl Plan {
    /// Resolves descriptions.
    ///
    /// # Errors
    /// [`Error::Value`] when there is nothing to collect, or descriptions do not fit the game or each other.
    pub fn new(game: &GameSpec, collectors: Vec<Collector>) -> Result<Self> {
        if !(1..=MOST).contains(&collectors.len()) {
            return Err(Error::value("collectors", format!("1 to {MOST}"), collectors.len()));
        }
        collectors.iter().try_for_each(|each| each.check(game))?;
        let columns = Columns::new(game, &collectors)?;
        let mut tracks = vec![Track { player: None, depth: 1 }];
        let later: Vec<_> =
            (0..collectors.len()).map(|at| later_writers(&collectors, at)).collect();
        let routes: Result<Vec<Route>> = collectors
            .into_iter()
            .zip(later)
            .map(|(collector, later)| Route::new(collector, &later, &columns, &mut tracks))
            .collect();
        Ok(Self { columns, routes: routes?, tracks })
    }

    /// The collectors that answer, or only listen, to a player.
    pub fn asked(&self, player: usize) -> u64 {
        self.select(|each| each.replying() && each.player.is_none_or(|only| only == player))
    }

    /// The collectors that meet a condition, as bits.
    pub fn select(&self, condition: impl Fn(&Collector) -> bool) -> u64 {
        let bit = |(at, route): (usize, &Route)| u64::from(condition(&route.collector)) << at;
        self.routes.iter().enumerate().map(bit).fold(0, |all, one| all | one)
    }
}

/// For each reply of a collector, those after it that write the same key.
fn later_writers(collectors: &[Collector], at: usize) -> Vec<u64> {
    let writes =
        |each: &Collector, key: &str| each.replies.iter().flatten().any(|reply| reply.key == key);
    let later = |key: &str| {
        let rest = collectors.iter().enumerate().skip(at + 1);
        rest.filter(|(_, each)| writes(each, key)).fold(0, |all, (other, _)| all | 1 << other)
    };
    collectors[at].replies.iter().flatten().map(|reply| later(&reply.key)).collect()
}

impl Route {
    fn new(
        collector: Collector,
        later: &[u64],
        columns: &Columns,
        tracks: &mut Vec<Track>,
    ) -> Result<Self> {
        let column = |key: &str, field: &FieldSpec| {
            let at =
                columns.find(key).filter(|&at| columns.at(at).field.nbytes() == field.nbytes());
            at.ok_or_else(|| Error::value(key, "the size of its column", field.nbytes()))
        };
        let inputs: Result<Vec<_>> =
            collector.inputs.iter().map(|each| column(&each.column, &each.field)).collect();
        let replies: Result<Vec<_>> = (collector.replies.iter().flatten().zip(later))
            .map(|(each, later)| Ok((column(&each.key, &each.field)?, *later)))
            .collect();
        let frames = collector.inputs.iter().map(|each| each.stack).max().unwrap_or(0);
        let depth = collector.steps + frames.saturating_sub(1);
        let history = track(tracks, collector.player, depth);
        Ok(Self { history, inputs: inputs?, replies: replies?, collector })
    }

    /// What an input shows where there was no state yet, if not zeros.
    pub fn before_the_start(&self, input: usize) -> Option<&'static [u8]> {
        const NO_SEQ: [u8; 4] = (-1_i32).to_ne_bytes();
        (self.inputs[input] == Fixed::Seq as usize).then_some(&NO_SEQ)
    }
}

/// The history of a player's states, made long enough.
fn track(tracks: &mut Vec<Track>, player: Option<usize>, depth: usize) -> usize {
    let known = tracks.iter().position(|track| track.player == player);
    let at = known.unwrap_or_else(|| {
        tracks.push(Track { player, depth });
        tracks.len() - 1
    });
    tracks[at].depth = tracks[at].depth.max(depth);
    at
}
