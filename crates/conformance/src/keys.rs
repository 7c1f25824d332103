//! Keys and random numbers, the same on every run.

use tamis::{HashId, Key, KeyHash, KeyHasher};

/// A small generator (SplitMix64) for the choices of the tests.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        tamis_bits::range::mix(self.0)
    }

    /// Returns a number below `n`, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        tamis_bits::range::scale(self.word(), n as u64) as usize
    }

    /// Returns a seed for a hasher.
    pub fn seed(&mut self) -> [u64; 2] {
        [self.word(), self.word()]
    }

    /// Returns the hash of no particular key.
    pub fn hash(&mut self) -> KeyHash {
        KeyHash { hi: self.word(), lo: self.word() }
    }
}

/// The two forms of keys.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Consecutive integers, the least random keys.
    Integers,
    /// Strings with a long common prefix.
    Strings,
}

/// Every hash function with every form of keys.
pub const ORIGINS: [(HashId, Form); 4] = [
    (HashId::Fast, Form::Integers),
    (HashId::Fast, Form::Strings),
    (HashId::Secure, Form::Integers),
    (HashId::Secure, Form::Strings),
];

impl Form {
    /// Returns the hashes of keys number `from` to `from + count`.
    pub fn hashes(self, hasher: &KeyHasher, from: u64, count: u64) -> Vec<KeyHash> {
        (from..from + count).map(|key| self.hash(hasher, key)).collect()
    }

    fn hash(self, hasher: &KeyHasher, key: u64) -> KeyHash {
        match self {
            Self::Integers => key.hash_with(hasher),
            Self::Strings => format!("key number {key}").hash_with(hasher),
        }
    }
}

/// Returns hashes at the edges of the ranges that are computed from them.
pub fn extremes() -> Vec<KeyHash> {
    const EDGES: [u64; 8] =
        [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, u32::MAX as u64, !(u32::MAX as u64)];
    EDGES.iter().flat_map(|hi| EDGES.iter().map(|lo| KeyHash { hi: *hi, lo: *lo })).collect()
}
