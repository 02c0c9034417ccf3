//! Cards are shown one after the other, and the suit of an earlier one is to be named: `RepeatPrevious` of `POPGym` (Morad et
//! al. 2023), with `k` counted in steps.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::games::{
    Action, BuiltinGame, Game, GameSpec, Outcome, float32, integer_option, unknown_option,
};

const SUITS: usize = 4;
/// Cards of a suit in one deck.
const RANKS: u32 = 13;
/// More would not fit into a number of 32 bits.
const MOST_DECKS: u32 = u32::MAX / (SUITS as u32 * RANKS);

/// The cards that are left, and the last ones that were shown.
#[derive(Debug, Clone)]
pub struct RepeatPrevious {
    k: u32,
    num_decks: u32,
    rng: Xoshiro256PlusPlus,
    /// Cards of each suit that are left.
    left: [u32; SUITS],
    /// Suits, the newest last; never more than `k + 1` of them.
    shown: VecDeque<u8>,
}

impl Default for RepeatPrevious {
    fn default() -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(0);
        Self { k: 4, num_decks: 1, rng, left: [0; SUITS], shown: VecDeque::new() }
    }
}

impl RepeatPrevious {
    fn num_cards(&self) -> u32 {
        SUITS as u32 * RANKS * self.num_decks
    }

    /// Shows a card. To draw suits in proportion to what is left of them is to shuffle the cards.
    fn deal(&mut self) {
        let mut at = self.rng.random_range(0..self.left.iter().sum());
        let mut suit = 0;
        while at >= self.left[suit] {
            at -= self.left[suit];
            suit += 1;
        }
        self.left[suit] -= 1;
        if self.shown.len() > self.k as usize {
            self.shown.pop_front();
        }
        self.shown.push_back(suit as u8);
    }
}

impl BuiltinGame for RepeatPrevious {
    fn spec() -> GameSpec {
        GameSpec::numbered(float32(&[SUITS]), SUITS)
    }

    fn configure(&mut self, options: &[(String, f64)]) -> Result<()> {
        for (name, value) in options {
            match name.as_str() {
                "k" => self.k = integer_option(name, *value, 1..=u32::MAX)?,
                "num_decks" => self.num_decks = integer_option(name, *value, 1..=MOST_DECKS)?,
                _ => return Err(unknown_option(name)),
            }
        }
        // One action at least is paid.
        if self.k > self.num_cards() - 2 {
            let most = self.num_cards() - 2;
            let expected = format!("an integer from 1 to {most} for num_decks={}", self.num_decks);
            return Err(Error::value("k", expected, self.k));
        }
        Ok(())
    }
}

impl Game for RepeatPrevious {
    fn reset(&mut self, seed: u64) {
        self.rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        self.left = [RANKS * self.num_decks; SUITS];
        self.shown.clear();
        self.deal();
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        let choice = action.choice(SUITS, "0, 1, 2 or 3, a suit")?;
        let paid = 1.0 / (self.num_cards() - 1 - self.k) as f32;
        let reward =
            match self.shown.front() {
                Some(&suit) if self.shown.len() > self.k as usize => {
                    if usize::from(suit) == choice { paid } else { -paid }
                }
                _ => 0.0,
            };
        self.deal();
        let terminated = self.left.iter().all(|&left| left == 0);
        Ok(Outcome { reward, terminated, truncated: false })
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        let newest = self.shown.back().map_or(SUITS, |&suit| usize::from(suit));
        for (suit, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            *out = f32::from(suit == newest).to_ne_bytes();
        }
    }
}
