//! Vectorized games: many of one type, stepped in one call.

use crate::error::Result;
use crate::games::lanes::LANES;
use crate::games::{Action, Game, Outcome, Turn};

/// A game of a batch, and its item in an array.
#[derive(Debug, Clone, Copy)]
pub struct GameItem {
    /// The game.
    pub at: usize,
    /// The position in the array, counted in items of the size at hand.
    pub item: usize,
}

/// Many games of one type. Code for one type lets a processor begin with one game while results of another are pending.
///
/// Methods for several games begin at position `done` and count it up; it stays at a game that fails or panics.
pub trait GameBatch: Send {
    /// Begins an episode of a game.
    fn reset(&mut self, at: usize, seed: u64);

    /// Steps games with actions of `size` bytes, and writes their outcomes. Fails where a game does.
    fn step(
        &mut self,
        size: usize,
        actions: &[u8],
        items: &[GameItem],
        outcomes: &mut [Option<Outcome>],
        done: &mut usize,
    ) -> Result<()>;

    /// Writes a key of `size` bytes for games.
    fn write(&self, key: usize, size: usize, out: &mut [u8], items: &[GameItem], done: &mut usize);

    /// The player to move in a game.
    fn player(&self, at: usize) -> usize;

    /// The place of a game's state in the episodes of its player and of the game.
    fn turn(&self, at: usize) -> Turn;

    /// The reward of a player for a step with this outcome.
    fn reward(&self, at: usize, outcome: Outcome, player: usize) -> f32;
}

impl<G: Game> GameBatch for Vec<G> {
    fn reset(&mut self, at: usize, seed: u64) {
        self[at].reset(seed);
    }

    fn step(
        &mut self,
        size: usize,
        actions: &[u8],
        items: &[GameItem],
        outcomes: &mut [Option<Outcome>],
        done: &mut usize,
    ) -> Result<()> {
        while *done < items.len() {
            let together = items[*done..].first_chunk().and_then(|four: &[GameItem; LANES]| {
                let games = self.get_disjoint_mut(four.map(|item| item.at)).ok()?;
                G::step_together(games, four.map(|item| action(size, actions, item)))
            });
            if let Some(ends) = together {
                outcomes[*done..][..LANES].copy_from_slice(&ends.map(Some));
                *done += LANES;
                continue;
            }
            for &item in items[*done..].iter().take(LANES) {
                outcomes[*done] = Some(self[item.at].step(action(size, actions, item))?);
                *done += 1;
            }
        }
        Ok(())
    }

    fn write(&self, key: usize, size: usize, out: &mut [u8], items: &[GameItem], done: &mut usize) {
        for &GameItem { at, item } in &items[*done..] {
            self[at].write(key, &mut out[item * size..][..size]);
            *done += 1;
        }
    }

    fn player(&self, at: usize) -> usize {
        self[at].player()
    }

    fn turn(&self, at: usize) -> Turn {
        self[at].turn()
    }

    fn reward(&self, at: usize, outcome: Outcome, player: usize) -> f32 {
        self[at].reward(outcome, player)
    }
}

#[inline]
fn action(size: usize, actions: &[u8], item: GameItem) -> Action<'_> {
    Action(&actions[item.item * size..][..size])
}
