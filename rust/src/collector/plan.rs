//! Descriptions, checked and resolved to bytes.

use crate::collector::column::{BuiltinColumn, Columns};
use crate::collector::copy_plan::{CopyPlan, HistorySpec};
use crate::collector::description::Collector;
use crate::error::{Error, Result};
use crate::games::GameSpec;

/// Collectors of a context at most: sets of them are the bits of one number.
pub const MOST: usize = 64;

/// Everything that the games of a context do for its collectors.
#[derive(Debug)]
pub struct Plan {
    /// What a record holds.
    pub columns: Columns,
    /// The collectors, in the order of the descriptions.
    pub routes: Vec<CopyPlan>,
    /// The histories of a game; the first is of all states.
    pub tracks: Vec<HistorySpec>,
    /// The collectors that only listen, as bits.
    pub listening: u64,
    /// The fixed columns that somebody looks at, as bits.
    shown: u16,
    /// Games take turns among players.
    pub has_turns: bool,
    /// For each player the collectors that answer when it moves, as bits.
    asked: Vec<u64>,
    /// For each player the tracks of its states alone, as bits; the first track, of all states, is not counted.
    present: Vec<u64>,
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
        let mut tracks = vec![HistorySpec { player: None, depth: 1 }];
        let later: Vec<_> =
            (0..collectors.len()).map(|at| later_writers(&collectors, at)).collect();
        let routes: Result<Vec<CopyPlan>> = collectors
            .into_iter()
            .zip(later)
            .map(|(collector, later)| CopyPlan::new(collector, &later, &columns, &mut tracks))
            .collect();
        let players = 0..game.players.len();
        let has_turns = players.len() > 1;
        let (asked, present) = Default::default();
        let routes = routes?;
        let shown = shown(&routes);
        let mut plan =
            Self { columns, routes, tracks, listening: 0, shown, has_turns, asked, present };
        plan.listening = plan.select(|each| !each.replying());
        let answers = |player| plan.select(|each| each.replying() && each.sees(player));
        plan.asked = players.clone().map(answers).collect();
        let track = |player, (at, track): (usize, &HistorySpec)| {
            u64::from(track.player == Some(player)) << at
        };
        let tracks =
            |player| plan.tracks[1..].iter().enumerate().map(move |each| track(player, each));
        plan.present = players.map(|player| tracks(player).fold(0, |all, one| all | one)).collect();
        Ok(plan)
    }

    /// The collectors that answer when a player moves.
    #[inline]
    pub fn asked(&self, player: usize) -> u64 {
        self.asked.get(player).copied().unwrap_or(0)
    }

    /// Whether somebody looks at a fixed column.
    #[inline]
    pub fn shows(&self, column: BuiltinColumn) -> bool {
        self.shown >> column as u16 & 1 == 1
    }

    /// The tracks of this player's states alone, as bits from the second track on.
    #[inline]
    pub fn present(&self, player: usize) -> u64 {
        self.present.get(player).copied().unwrap_or(0)
    }

    /// The collectors that meet a condition, as bits.
    pub fn select(&self, condition: impl Fn(&Collector) -> bool) -> u64 {
        let bit = |(at, route): (usize, &CopyPlan)| u64::from(condition(&route.collector)) << at;
        self.routes.iter().enumerate().map(bit).fold(0, |all, one| all | one)
    }
}

/// The fixed columns that somebody looks at, as bits: frames are told apart by their episodes.
fn shown(routes: &[CopyPlan]) -> u16 {
    let shows = || routes.iter().flat_map(|route| &route.shows);
    let looks = |column: &BuiltinColumn| {
        let frames = *column == BuiltinColumn::Episode && shows().any(|show| show.frames > 0);
        frames || shows().any(|show| show.range == column.range())
    };
    BuiltinColumn::ALL
        .iter()
        .filter(|&column| looks(column))
        .fold(0, |all, &each| all | 1 << each as u16)
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
