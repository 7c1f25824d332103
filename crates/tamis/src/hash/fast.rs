//! The hash `fast`: sums of 64 x 64-bit products whose factors are secret.
//!
//! A key becomes a 128-bit state in which each 16 bytes are one product, `(a + k) * (b + k')`, of two of
//! its words and two secret words (NH of UMAC). Blocks of 128 bytes are the coefficients of a polynomial
//! modulo 2^127 - 1, evaluated at a secret point. The last step turns the state into a [`KeyHash`].
//! FORMAT.md has the specification, SECURITY.md the bounds.
//!
//! xxh3 is not used, whatever its secret: its short inputs meet public multipliers, so that a pair of
//! keys of 9 and 16 bytes can be prepared which collides in all 128 bits under 1 secret in 2^20, and its
//! long inputs meet 32-bit products, which gives about 1 in 2^32.

use siphasher::sip128::SipHasher13;

use super::KeyHash;

/// The number of words that are derived from a seed.
const WORDS: usize = 22;

/// The bytes of a block.
const BLOCK: usize = 128;

/// The bits that are set in every multiplier: a factor that is odd and at least 2^63 mixes well.
const MULTIPLIER: u64 = 1 << 63 | 1;

/// The secret words of the hash `fast`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FastKey {
    /// Added to the words of a key, two by two.
    pairs: [[u64; 2]; 8],
    /// The point at which the polynomial of a long key is evaluated.
    point: u64,
    /// Multiplies keys of up to 8 bytes.
    short: u64,
    /// Added to an integer, and multiplies it.
    int: [u64; 2],
    /// The multipliers of the last step.
    last: [u64; 2],
}

impl FastKey {
    /// Derives the words from a seed: they are SipHash-1-3 of 0, 1, 2 and so on under the seed.
    pub(super) fn new(seed: [u64; 2]) -> Self {
        let sip = SipHasher13::new_with_keys(seed[0], seed[1]);
        let mut words = [[0; 2]; WORDS / 2];
        for (words, number) in words.iter_mut().zip(0u64..) {
            let hash = sip.hash(&number.to_le_bytes());
            *words = [hash.h1, hash.h2];
        }
        let [p0, p1, p2, p3, p4, p5, p6, p7, [point, short], int, last] = words;
        Self {
            pairs: [p0, p1, p2, p3, p4, p5, p6, p7],
            point,
            short: short | MULTIPLIER,
            int: [int[0], int[1] | MULTIPLIER],
            last: last.map(|word| word | MULTIPLIER),
        }
    }

    /// Returns the hash of an integer.
    #[inline(always)]
    pub(super) fn int(&self, value: u64) -> KeyHash {
        self.finish(product(value.wrapping_add(self.int[0]), self.int[1]))
    }

    /// Returns the hash of a byte string.
    #[inline(always)]
    pub(super) fn bytes(&self, bytes: &[u8]) -> KeyHash {
        let len = bytes.len();
        let state = if len < 8 {
            product(marked(bytes).wrapping_add(self.pairs[0][0]), self.short)
        } else {
            let state = if len <= 16 {
                nh(word(bytes, 0), word(bytes, len - 8), self.pairs[0])
            } else if len <= 32 {
                pair(bytes, 0, self.pairs[0]).wrapping_add(pair(bytes, len - 16, self.pairs[1]))
            } else if len <= BLOCK {
                self.tail(0, bytes)
            } else {
                self.long(bytes)
            };
            // Keys of other lengths may have the same pairs.
            state.wrapping_add(product(len as u64, self.short))
        };
        self.finish(state)
    }

    /// Returns the state after more than 128 bytes, without their length.
    #[inline(never)]
    fn long(&self, bytes: &[u8]) -> u128 {
        // The last 1 to 128 bytes are not a block.
        let (blocks, _) = bytes[..bytes.len() - 1].as_chunks::<BLOCK>();
        let state = blocks.iter().fold(0, |state, block| {
            let sum = sum(0, block.as_chunks().0, &self.pairs);
            self.times_point(reduced(state + reduced(sum)))
        });
        let rest = &bytes[blocks.len() * BLOCK..];
        if rest.len() > 16 {
            self.tail(state, rest)
        } else {
            state.wrapping_add(pair(bytes, bytes.len() - 16, self.pairs[0]))
        }
    }

    /// Returns the state after the last 17 to 128 bytes of a key, without their length.
    #[inline(never)]
    fn tail(&self, state: u128, bytes: &[u8]) -> u128 {
        // The last 16 bytes are one pair, which may overlap the pair before it.
        let last = bytes.len() - 1;
        let state = sum(state, bytes[..last].as_chunks().0, &self.pairs);
        state.wrapping_add(pair(bytes, last - 15, self.pairs[last / 16 % 8]))
    }

    /// Multiplies by the point, modulo 2^127 - 1. The result is below 2^127.
    fn times_point(&self, state: u128) -> u128 {
        let (low, high) = (product(state as u64, self.point), product(high(state), self.point));
        // 2^64 * high = 2^127 * (high / 2^63) + 2^64 * (high % 2^63), and 2^127 is 1.
        let wrapped = ((high << 64) & ((1 << 127) - 1)) + (high >> 63);
        reduced(reduced(low) + wrapped)
    }

    /// Turns a state into a hash.
    #[inline(always)]
    fn finish(&self, state: u128) -> KeyHash {
        // `low` and `sum` are all of the state. Their secret factor makes `sum` differ for states that
        // differ in a known way; the exclusive or of the two halves would not.
        let low = (state as u64).wrapping_mul(self.last[0]);
        let sum = high(state) ^ low;
        let mixed = product(sum, self.last[1]);
        let hi = mixed as u64 ^ high(mixed);
        // Where `sum` is the same, `low` is not.
        let lo = ((mixed as u64).rotate_left(32) ^ hi).wrapping_add(low);
        KeyHash { hi, lo }
    }
}

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[inline(always)]
fn high(x: u128) -> u64 {
    (x >> 64) as u64
}

/// Returns a number that equals `x` modulo 2^127 - 1 and is at most 2^127.
#[inline(always)]
fn reduced(x: u128) -> u128 {
    (x & ((1 << 127) - 1)) + (x >> 127)
}

/// Returns the product of two words of a key, each plus its secret word.
#[inline(always)]
fn nh(first: u64, second: u64, key: [u64; 2]) -> u128 {
    product(first.wrapping_add(key[0]), second.wrapping_add(key[1]))
}

/// Returns the product of the 16 bytes from `at` on.
#[inline(always)]
fn pair(bytes: &[u8], at: usize, key: [u64; 2]) -> u128 {
    nh(word(bytes, at), word(bytes, at + 8), key)
}

/// Adds the products of pairs to `state`.
#[inline(always)]
fn sum(state: u128, pairs: &[[u8; 16]], keys: &[[u64; 2]; 8]) -> u128 {
    let products = pairs.iter().zip(keys).map(|(bytes, key)| pair(bytes, 0, *key));
    products.fold(state, u128::wrapping_add)
}

/// Returns the 8 bytes from `at` on as a little-endian number.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Returns up to 7 bytes, and a byte 1 after them, as a little-endian number.
#[inline(always)]
fn marked(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let half = |at: usize| {
        let mut half = [0; 4];
        half.copy_from_slice(&bytes[at..at + 4]);
        u64::from(u32::from_le_bytes(half))
    };
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    let word = match len {
        0 => 0,
        1..4 => byte(0) | byte(len / 2) | byte(len - 1),
        _ => half(0) | half(len - 4) << (8 * (len - 4)),
    };
    word | 1 << (8 * len)
}
