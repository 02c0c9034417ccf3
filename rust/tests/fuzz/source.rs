//! Choices that a seed makes.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Numbers at which arithmetic goes wrong.
const EDGES: [u32; 7] = [31, 32, 33, 40, 61, 62, 63];

/// Floats >= 0, those at the ends of float32 and float64 too.
const FLOATS: [f64; 12] =
    [0.0, 0.5, 1.0, 1.0, 2.0, 0.9, 1e-3, 40.0, 1e-300, 1e-45, f32::MAX as f64, 1e300];

/// Floats that are refused nearly everywhere.
const ODD_FLOATS: [f64; 4] = [f64::NAN, f64::INFINITY, -1.0, -0.0];

/// A stream of choices, the same for the same seed.
#[derive(Debug)]
pub struct Source {
    rng: Xoshiro256PlusPlus,
    /// One number in so many is out of range; 0 for none.
    pub odd: u64,
}

impl Source {
    pub fn new(seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), odd: 0 }
    }

    pub fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// A number below `bound`, which is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// True once in so many calls.
    pub fn once_in(&mut self, calls: u64) -> bool {
        self.below(calls) == 0
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    pub fn is_odd(&mut self) -> bool {
        self.odd > 0 && self.once_in(self.odd)
    }

    /// A small number, or where the file is odd one at which arithmetic goes wrong.
    pub fn number(&mut self, bound: u64) -> u64 {
        if self.is_odd() { self.edge() } else { self.below(bound) }
    }

    /// A number at which arithmetic goes wrong.
    pub fn edge(&mut self) -> u64 {
        let edge = 1_u64 << self.pick(&EDGES);
        self.pick(&[edge - 1, edge, edge + 1, u64::MAX])
    }

    /// A finite float >= 0, or where the file is odd another.
    pub fn float(&mut self) -> f64 {
        if self.is_odd() { self.pick(&ODD_FLOATS) } else { self.pick(&FLOATS) }
    }

    /// A float that is mostly in [0, 1].
    pub fn share(&mut self) -> f64 {
        if self.is_odd() { self.float() } else { self.pick(&[0.0, 0.5, 0.9, 1.0]) }
    }

    /// A weight as files have it.
    pub fn weight(&mut self) -> f32 {
        match self.below(16) {
            0 => f32::MAX,
            1 => f32::MIN_POSITIVE,
            2 => 1e-45,
            3 | 4 => 0.0,
            _ => self.below(1000) as f32 / 100.0,
        }
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    /// float32 numbers, as bytes: mostly plain ones, or any bits.
    pub fn floats(&mut self, count: usize) -> Vec<u8> {
        let plain = !self.once_in(8);
        let one = |source: &mut Self| {
            let number = source.below(200) as f32 / 10.0 - 10.0;
            if plain { number } else { f32::from_bits(source.bits() as u32) }
        };
        (0..count).flat_map(|_| one(self).to_ne_bytes()).collect()
    }
}
