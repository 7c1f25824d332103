//! Keys become 128 bits here, and nowhere else.
//!
//! A filter never sees a key: only its [`KeyHash`]. A [`KeyHasher`] is one of two functions and a
//! 128-bit seed; both are specified in FORMAT.md, with the test vectors below, because a saved
//! filter is worthless to a reader who hashes otherwise.
//!
//! * [`HashId::Fast`]: xxh3-128 for bytes, with the seed folded to 64 bits and fed *into* the hash;
//!   for integers a mixer of three multiplications. Fine wherever nobody picks keys to hurt you.
//! * [`HashId::Secure`]: SipHash-1-3 with 128 bits of output, keyed with the whole seed. Someone who
//!   does not know the seed cannot find keys that collide.
//!
//! `std::hash::Hash` is not used: it feeds other bytes on other machines and other compilers.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use siphasher::sip128::SipHasher13;
use tamis_bits::range::{mix, scale};
use tamis_format::KeyForms;
use xxhash_rust::{xxh3::xxh3_128_with_seed, xxh64::xxh64};

use crate::capability::UnknownName;

/// 128 uniform bits: all that a filter ever sees of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash {
    /// Mostly decides where a key lives.
    pub hi: u64,
    /// Mostly decides what is remembered of it there.
    pub lo: u64,
}

impl KeyHash {
    /// The hash that Parquet's split-block Bloom filter uses, XXH64 with seed 0, laid out so that
    /// our `split_block_bloom` sets the bits that Parquet would.
    pub fn parquet(bytes: &[u8]) -> Self {
        let hash = xxh64(bytes, 0);
        Self { hi: hash & !0xffff_ffff, lo: hash & 0xffff_ffff }
    }

    /// An endless walk over `0..places`, the same for the same hash.
    ///
    /// Each step adds `lo` and turns the sum, so that bits which did not count yet come to the top:
    /// two hashes that begin in the same place with nearly the same stride part at the next step.
    /// Plain double hashing keeps such pairs together, which shows as excess false positives in
    /// small filters.
    #[inline(always)]
    pub fn probes(self, places: u64) -> Probes {
        Probes { at: self.hi, step: self.lo, places }
    }
}

/// See [`KeyHash::probes`].
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    at: u64,
    step: u64,
    places: u64,
}

impl Iterator for Probes {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let place = scale(self.at, self.places);
        self.at = self.at.wrapping_add(self.step).rotate_left(27);
        Some(place)
    }
}

/// Which function makes hashes; its number is in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum HashId {
    /// xxh3-128, and a mixer for integers.
    #[default]
    Fast = 1,
    /// SipHash-1-3-128.
    Secure = 2,
}

impl HashId {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Secure => "secure",
        }
    }

    /// The one with this number in a file.
    pub fn from_id(id: u16) -> Result<Self, UnknownName> {
        match id {
            1 => Ok(Self::Fast),
            2 => Ok(Self::Secure),
            _ => Err(UnknownName::new("hash", id.to_string())),
        }
    }
}

impl core::str::FromStr for HashId {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        [Self::Fast, Self::Secure]
            .into_iter()
            .find(|id| id.name() == name)
            .ok_or_else(|| UnknownName::new("hash", name))
    }
}

/// A hash function with its seed.
///
/// Its `Debug` form does not show the seed: who knows it can look for collisions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHasher {
    id: HashId,
    seed: [u64; 2],
    /// What `Fast` derives from the seed, once.
    fast: [u64; 2],
}

impl core::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyHasher").field("id", &self.id).finish_non_exhaustive()
    }
}

impl KeyHasher {
    /// The function `id` with this seed.
    pub fn new(id: HashId, seed: [u64; 2]) -> Self {
        // Each derived word depends on all 128 bits through a full mix, so that seeds which differ
        // in one bit, or in order, have nothing in common.
        let first = mix(mix(seed[0].wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ seed[1]);
        let second = mix(first.wrapping_add(mix(seed[1].wrapping_add(0xd1b5_4a32_d192_ed03))));
        Self { id, seed, fast: [first, second] }
    }

    /// The function `id` with a seed that nobody knows.
    #[cfg(feature = "std")]
    pub fn random(id: HashId) -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The standard library keys its maps from the operating system's randomness; two of its
        // keyed hashes are as good as 128 of those bits.
        let state = RandomState::new();
        Self::new(id, [state.hash_one(1u64), state.hash_one(2u64)])
    }

    /// Which function.
    pub fn id(&self) -> HashId {
        self.id
    }

    /// The seed. Keep it to yourself where others choose the keys.
    pub fn seed(&self) -> [u64; 2] {
        self.seed
    }

    /// The hash of a byte string.
    #[inline]
    pub fn bytes(&self, bytes: &[u8]) -> KeyHash {
        match self.id {
            HashId::Fast => {
                let hash = xxh3_128_with_seed(bytes, self.fast[0]);
                KeyHash { hi: (hash >> 64) as u64, lo: hash as u64 }
            }
            HashId::Secure => self.sip(bytes),
        }
    }

    /// The hash of an integer: its value as 64-bit two's complement, whatever type it came in.
    #[inline]
    pub fn int(&self, value: u64) -> KeyHash {
        match self.id {
            HashId::Fast => {
                // Every step is a bijection, so distinct integers differ in both halves. The
                // product's high half depends on all of `hi`, and goes where most is taken from.
                let hi = mix(value ^ self.fast[0]);
                let lo = hi.wrapping_add(self.fast[1]).wrapping_mul(0xd6e8_feb8_6659_fd93);
                KeyHash { hi, lo: lo.rotate_left(32) }
            }
            HashId::Secure => self.sip(&value.to_le_bytes()),
        }
    }

    /// The hash of two hashes: their words, first to last, as little-endian bytes.
    fn pair(&self, first: KeyHash, second: KeyHash) -> KeyHash {
        let mut bytes = [0; 32];
        let words = [first.hi, first.lo, second.hi, second.lo];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        self.bytes(&bytes)
    }

    fn sip(&self, bytes: &[u8]) -> KeyHash {
        let hash = SipHasher13::new_with_keys(self.seed[0], self.seed[1]).hash(bytes);
        KeyHash { hi: hash.h2, lo: hash.h1 }
    }
}

/// A key: a value with one hash that is the same on every machine and in every language.
///
/// Strings and bytes hash by their bytes, so `"a"` and `b"a"` are one key. Integers of all types hash by
/// value, so `7u8` and `7i64` are one key; `char` and `bool` hash as integers. A tuple hashes the hashes
/// of its parts.
///
/// To hash a struct, implement this trait by a tuple of its fields:
///
/// ```
/// use tamis::{Bloom, Key, KeyForms, KeyHash, KeyHasher, Keyed};
///
/// struct Edge { from: u64, to: u64, label: String }
///
/// impl Key for Edge {
///     const FORM: KeyForms = KeyForms::TUPLES;
///
///     fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
///         (self.from, self.to, &*self.label).hash_with(hasher)
///     }
/// }
///
/// let edge = Edge { from: 1, to: 2, label: "road".into() };
/// let mut seen = Keyed::<Bloom>::with_capacity(1000, 0.01)?;
/// seen.insert(&edge)?;
/// assert!(seen.contains(&(1, 2, "road")));
/// # Ok::<_, tamis::Error>(())
/// ```
///
/// `std::hash::Hash` is not used: it feeds other bytes on other machines and compilers.
pub trait Key {
    /// The form of such keys, which files record.
    const FORM: KeyForms;

    /// Returns the key's hash.
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash;
}

macro_rules! bytes_keys {
    ($($(#[$generics:meta])? [$($parameters:tt)*] $type:ty, $self:ident => $bytes:expr;)*) => { $(
        impl<$($parameters)*> Key for $type {
            const FORM: KeyForms = KeyForms::BYTES;

            #[inline]
            fn hash_with(&$self, hasher: &KeyHasher) -> KeyHash {
                hasher.bytes($bytes)
            }
        }
    )* };
}
bytes_keys! {
    [] [u8], self => self;
    [const N: usize] [u8; N], self => self;
    [] Vec<u8>, self => self;
    [] str, self => self.as_bytes();
    [] String, self => self.as_bytes();
}

macro_rules! integer_keys {
    ($($integer:ty),*) => { $(
        impl Key for $integer {
            const FORM: KeyForms = KeyForms::INTEGERS;

            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                // Signed integers are extended by their sign, all others by zeros.
                #[allow(clippy::cast_lossless, reason = "one cast for all integer types")]
                hasher.int(*self as u64)
            }
        }
    )* };
}
integer_keys!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, char, bool);

impl Key for u128 {
    const FORM: KeyForms = KeyForms::INTEGERS;

    /// A number below 2^64 hashes like a `u64`, a larger one like its two halves.
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        match u64::try_from(*self) {
            Ok(small) => hasher.int(small),
            Err(_) => hasher.pair(hasher.int(*self as u64), hasher.int((self >> 64) as u64)),
        }
    }
}

impl Key for i128 {
    const FORM: KeyForms = KeyForms::INTEGERS;

    /// A number of the range of `i64` or `u64` hashes like those, any other like its two halves.
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        match (i64::try_from(*self), u64::try_from(*self)) {
            (Ok(small), _) => hasher.int(small as u64),
            (_, Ok(large)) => hasher.int(large),
            _ => hasher.pair(hasher.int(*self as u64), hasher.int((self >> 64) as u64)),
        }
    }
}

macro_rules! pointer_keys {
    ($([$($parameters:tt)*] $pointer:ty, $key:ident;)*) => { $(
        impl<$($parameters)*> Key for $pointer {
            const FORM: KeyForms = $key::FORM;

            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                (**self).hash_with(hasher)
            }
        }
    )* };
}
pointer_keys! {
    [K: Key + ?Sized] &K, K;
    [K: Key + ?Sized] Box<K>, K;
    [K: Key + ?Sized] Rc<K>, K;
    [K: Key + ?Sized] Arc<K>, K;
    [K: Key + ToOwned + ?Sized] Cow<'_, K>, K;
}

macro_rules! tuple_keys {
    ($($first:ident $($rest:ident)*;)*) => { $(
        impl<$first: Key, $($rest: Key),*> Key for ($first, $($rest,)*) {
            const FORM: KeyForms = KeyForms::TUPLES;

            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                #[expect(non_snake_case, reason = "a part has the name of its type")]
                let ($first, $($rest,)*) = self;
                let all = hasher.pair($first.hash_with(hasher), KeyHash { hi: 0, lo: 0 });
                $( let all = hasher.pair(all, $rest.hash_with(hasher)); )*
                all
            }
        }
    )* };
}
tuple_keys! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of FORMAT.md.
    #[test]
    fn vectors() {
        let seed = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
        let mut table = String::new();
        for id in [HashId::Fast, HashId::Secure] {
            let hasher = KeyHasher::new(id, seed);
            let inputs: [(&str, KeyHash); 5] = [
                ("\"\"", "".hash_with(&hasher)),
                ("\"a\"", "a".hash_with(&hasher)),
                ("\"tamis\"", "tamis".hash_with(&hasher)),
                ("300 × \"x\"", "x".repeat(300).hash_with(&hasher)),
                ("the integer 42", 42u64.hash_with(&hasher)),
            ];
            for (input, KeyHash { hi, lo }) in inputs {
                table += &format!("| {} | {input} | `{hi:016x}` | `{lo:016x}` |\n", id.name());
            }
        }
        let format = include_str!("../../../FORMAT.md");
        assert!(format.contains(&table), "FORMAT.md must have these vectors:\n{table}");
    }

    #[test]
    fn integers_hash_by_value() {
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
        assert_eq!(7u8.hash_with(&hasher), 7i64.hash_with(&hasher));
        assert_eq!((-1i8).hash_with(&hasher), u64::MAX.hash_with(&hasher));
        assert_ne!(7u64.hash_with(&hasher), 7u64.to_le_bytes().hash_with(&hasher));
    }

    #[test]
    fn random_seeds_differ_and_are_not_shown() {
        let (a, b) = (KeyHasher::random(HashId::Fast), KeyHasher::random(HashId::Fast));
        assert_ne!(a.seed(), b.seed());
        assert_eq!(format!("{a:?}"), "KeyHasher { id: Fast, .. }");
    }

    /// Flipping any bit of an integer or of the seed flips each output bit half of the time.
    #[test]
    fn every_bit_moves_every_bit() {
        const TRIALS: u64 = 4096;
        for id in [HashId::Fast, HashId::Secure] {
            let flips = |change: &dyn Fn(u64) -> (KeyHash, KeyHash)| {
                let mut count = [0u32; 128];
                for trial in 0..TRIALS {
                    let (a, b) = change(trial);
                    let diff = u128::from(a.hi ^ b.hi) << 64 | u128::from(a.lo ^ b.lo);
                    (0..128).for_each(|bit| count[bit] += (diff >> bit & 1) as u32);
                }
                // 2048 expected; 8.5 standard deviations of 32 on either side.
                assert!(count.iter().all(|n| (1776..=2320).contains(n)), "{id:?} {count:?}");
            };
            for bit in 0..64 {
                let hasher = KeyHasher::new(id, [3, 4]);
                flips(&|n| (hasher.int(n), hasher.int(n ^ 1 << bit)));
                for word in 0..2 {
                    flips(&|n| {
                        let (seed, mut other) = ([n, mix(n)], [n, mix(n)]);
                        other[word] ^= 1 << bit;
                        (KeyHasher::new(id, seed).int(5), KeyHasher::new(id, other).int(5))
                    });
                }
            }
        }
    }
}
