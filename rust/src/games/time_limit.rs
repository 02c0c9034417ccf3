//! Episodes that are truncated at a number of steps.

use crate::error::Result;
use crate::games::lanes::LANES;
use crate::games::{Action, Game, Outcome};

/// A game whose episodes end after a number of steps at the latest.
#[derive(Debug)]
pub struct TimeLimit<G> {
    game: G,
    steps: u64,
    most: u64,
}

impl<G> TimeLimit<G> {
    /// Truncates episodes after `most` steps, unless they terminate in that step.
    pub fn new(game: G, most: u64) -> Self {
        Self { game, steps: 0, most }
    }

    #[inline]
    fn limit(&mut self, outcome: Outcome) -> Outcome {
        self.steps += 1;
        let truncated = outcome.truncated || (!outcome.terminated && self.steps >= self.most);
        Outcome { truncated, ..outcome }
    }
}

impl<G: Game> Game for TimeLimit<G> {
    fn reset(&mut self, seed: u64) {
        self.steps = 0;
        self.game.reset(seed);
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let outcome = self.game.step(action)?;
        Ok(self.limit(outcome))
    }

    #[inline]
    fn step_together(
        mut games: [&mut Self; LANES],
        actions: [Action<'_>; LANES],
    ) -> Option<[Outcome; LANES]> {
        let outcomes = G::step_together(games.each_mut().map(|each| &mut each.game), actions)?;
        let mut games = games.into_iter();
        Some(outcomes.map(|end| games.next().map_or(end, |game| game.limit(end))))
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        self.game.write(key, out);
    }

    fn player(&self) -> usize {
        self.game.player()
    }

    fn reward(&self, outcome: Outcome, player: usize) -> f32 {
        self.game.reward(outcome, player)
    }
}
