//! Games of one type, side by side.

use crate::error::Result;
use crate::games::lanes::LANES;
use crate::games::{Action, Game, Outcome};

/// Where something of one of the games lies.
#[derive(Debug, Clone, Copy)]
pub struct GameItem {
    /// Which of the games.
    pub at: usize,
    /// The item of the array, as these are as large as what is there.
    pub item: usize,
}

/// What is done with many games at once, by code for just their type: a processor begins with one while it waits for
/// what another calculates.
///
/// What several of them do starts at the position `done`, which is counted up as they do it, and stays at one that
/// fails or panics.
pub trait GameBatch: Send {
    /// Has a game begin an episode.
    fn reset(&mut self, at: usize, seed: u64);

    /// Has games take steps, by actions of `size` bytes: how each of them ended.
    ///
    /// # Errors
    /// Those of a game.
    fn step(
        &mut self,
        size: usize,
        actions: &[u8],
        places: &[GameItem],
        outcomes: &mut [Option<Outcome>],
        done: &mut usize,
    ) -> Result<()>;

    /// Has games write a key of `size` bytes.
    fn write(&self, key: usize, size: usize, out: &mut [u8], places: &[GameItem], done: &mut usize);

    /// Whose turn it is in a game.
    fn player(&self, at: usize) -> usize;

    /// What a game's step that ended like this pays a player.
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
        places: &[GameItem],
        outcomes: &mut [Option<Outcome>],
        done: &mut usize,
    ) -> Result<()> {
        while *done < places.len() {
            let together = places[*done..].first_chunk().and_then(|four: &[GameItem; LANES]| {
                let games = self.get_disjoint_mut(four.map(|place| place.at)).ok()?;
                G::step_together(games, four.map(|place| action(size, actions, place)))
            });
            if let Some(ends) = together {
                outcomes[*done..][..LANES].copy_from_slice(&ends.map(Some));
                *done += LANES;
                continue;
            }
            for &place in places[*done..].iter().take(LANES) {
                outcomes[*done] = Some(self[place.at].step(action(size, actions, place))?);
                *done += 1;
            }
        }
        Ok(())
    }

    fn write(
        &self,
        key: usize,
        size: usize,
        out: &mut [u8],
        places: &[GameItem],
        done: &mut usize,
    ) {
        for &GameItem { at, item } in &places[*done..] {
            self[at].write(key, &mut out[item * size..][..size]);
            *done += 1;
        }
    }

    fn player(&self, at: usize) -> usize {
        self[at].player()
    }

    fn reward(&self, at: usize, outcome: Outcome, player: usize) -> f32 {
        self[at].reward(outcome, player)
    }
}

#[inline]
fn action(size: usize, actions: &[u8], place: GameItem) -> Action<'_> {
    Action(&actions[place.item * size..][..size])
}
