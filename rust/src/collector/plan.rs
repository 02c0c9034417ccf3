//! Descriptions, checked and resolved to bytes.

use crate::collector::column::Columns;
use crate::collector::description::Collector;
use crate::collector::route::{Route, Track};
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
    pub routes: Vec<Route>,
    /// The histories of a game; the first is of all states.
    pub tracks: Vec<Track>,
    /// For each player the collectors that answer when it moves, as bits.
    asked: Vec<u64>,
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
        let mut plan = Self { columns, routes: routes?, tracks, asked: Vec::new() };
        let answers = |player| plan.select(|each| each.replying() && each.sees(player));
        plan.asked = (0..game.players.len()).map(answers).collect();
        Ok(plan)
    }

    /// The collectors that answer when a player moves.
    #[inline]
    pub fn asked(&self, player: usize) -> u64 {
        self.asked.get(player).copied().unwrap_or(0)
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
