//! Tables of numbers that files and peers choose.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A table whose keys are numbers. Nobody who does not know its random keys can choose numbers that collide, and
/// it is as fast as one of `rustc-hash`.
pub type KeyedMap<K, V> = HashMap<K, V, KeyedHash>;

/// Multiply-add-shift (Dietzfelbinger 1996): the upper half of a * x + b in 128 bits. For random a and b the
/// hashes of any two numbers are uniform and independent.
#[derive(Debug, Clone, Copy)]
pub struct KeyedHash {
    factor: u128,
    addend: u128,
}

impl Default for KeyedHash {
    fn default() -> Self {
        let random = RandomState::new();
        let wide =
            |at: u8| u128::from(random.hash_one(at)) << 64 | u128::from(random.hash_one(at + 1));
        Self { factor: wide(0), addend: wide(2) }
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = KeyedHasher;

    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { keys: *self, hash: 0 }
    }
}

/// The hash of one number.
#[derive(Debug)]
pub struct KeyedHasher {
    keys: KeyedHash,
    hash: u64,
}

impl Hasher for KeyedHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let KeyedHash { factor, addend } = self.keys;
        let product = factor.wrapping_mul(u128::from(self.hash ^ number)).wrapping_add(addend);
        self.hash = (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hash_the_same_number_differently() {
        let hashes = [(); 8].map(|()| KeyedHash::default().hash_one(7_u64));
        assert!(hashes.windows(2).any(|pair| pair[0] != pair[1]), "{hashes:?}");
        let one = KeyedHash::default();
        assert_eq!(one.hash_one(7_u64), one.hash_one(7_u64));
        assert_ne!(one.hash_one(7_u64), one.hash_one(8_u64));
    }
}
