//! Keys become 128 bits here, and nowhere else.
//!
//! A filter never sees a key, only its [`KeyHash`]. A [`KeyHasher`] is one of three functions and a
//! 128-bit seed, or a function of another program, whose filters need it. FORMAT.md specifies them with test vectors, because a saved filter is
//! worthless to a reader that hashes otherwise. SECURITY.md states what is known about collisions.
//!
//! * [`HashId::Fast`]: 64 x 64-bit products of the key and of secret words, which are derived from the seed.
//!   Keys that were prepared without the seed collide as rarely as random ones. It is not made for
//!   attackers that observe answers.
//! * [`HashId::Ordered`]: no hash but the key's number, for kinds that answer ranges.
//! * [`HashId::Secure`]: SipHash-1-3 with 128 bits of output, keyed with the seed. An attacker that does
//!   not know the seed cannot find keys that collide.
//!
//! `std::hash::Hash` is not used: it feeds other bytes on other machines and other compilers.

mod fast;
mod foreign;
mod key;
#[cfg(test)]
mod tests;

use alloc::string::ToString;

use siphasher::sip128::SipHasher13;
use tamis_bits::range::scale;
use xxhash_rust::xxh64::xxh64;

use crate::capability::UnknownName;
use crate::error::Error;

use fast::FastKey;
pub(crate) use key::number_range;
pub use key::{Key, OrderedKey};

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

    /// Returns the hash of the crate `bloomfilter`: SipHash-1-3 with 64 bits of `bytes` under each half of
    /// its seed. `bytes` are what the key's `std::hash::Hash` writes on a 64-bit little-endian machine: an
    /// integer's own bytes, a `str` and a byte 255, or the length of a `[u8]` as 8 bytes and the bytes.
    ///
    /// ```
    /// use tamis::{HashId, KeyHash, KeyHasher};
    ///
    /// let hasher = KeyHasher::new(HashId::BloomfilterSip13, [1, 2]).with_second_seed([3, 4]);
    /// assert_eq!(KeyHash::bloomfilter([[1, 2], [3, 4]], &7u64.to_le_bytes()), hasher.int(7));
    /// ```
    pub fn bloomfilter(seed: [[u64; 2]; 2], bytes: &[u8]) -> Self {
        foreign::sip_pair(seed, &[bytes])
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

impl Probes {
    /// Returns the hash that chooses the next place, for a table that chooses it itself.
    #[inline(always)]
    pub(crate) fn next_hash(&mut self) -> u64 {
        let hash = self.at;
        self.at = self.at.wrapping_add(self.step).rotate_left(27);
        hash
    }
}

impl Iterator for Probes {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        Some(scale(self.next_hash(), self.places))
    }
}

/// Which function makes hashes; its number is in the file.
///
/// [`HashId::Fast`], [`HashId::Secure`] and [`HashId::Ordered`] are for filters of this library. The others are the functions
/// of other programs' filters, which are read and written in their own formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum HashId {
    /// SipHash-1-3-128.
    Secure = 2,
    /// Products with secret factors.
    #[default]
    Fast = 3,
    /// The key's number, which keeps the order of keys: see [`OrderedKey`]. For kinds that answer ranges,
    /// which use the seed themselves.
    Ordered = 4,
    /// XXH64 with seed 0, of Apache Parquet: see [`KeyHash::parquet`].
    ParquetXxh64 = 16,
    /// Two Murmur3-32 hashes, the second seeded with the first, of Apache Spark.
    SparkMurmur3 = 17,
    /// Murmur3-128 with seed 0, of Guava.
    GuavaMurmur3 = 18,
    /// The key itself if it is an integer, and XXH64 of other keys, of FastFilter's libraries.
    FastFilter = 19,
    /// The caller's own 128-bit hash: an integer is its value, bytes are a little-endian number.
    Caller = 20,
    /// FNV-1 with 64 bits, of DCSO's bloom.
    DcsoFnv1 = 21,
    /// Two XXH64 hashes, the second seeded with the first, of Apache DataSketches.
    DataSketchesXxh64 = 22,
    /// Two MurmurHash64A hashes, the second seeded with the first, of RedisBloom.
    RedisBloomMurmur2 = 23,
    /// Two SipHash-1-3 hashes under a seed of 256 bits, of the crate `bloomfilter`: see
    /// [`KeyHash::bloomfilter`]. Text and bytes are hashed as a `[u8]`.
    BloomfilterSip13 = 24,
}

impl HashId {
    /// All functions.
    pub const ALL: &'static [Self] = &[
        Self::Fast,
        Self::Secure,
        Self::Ordered,
        Self::ParquetXxh64,
        Self::SparkMurmur3,
        Self::GuavaMurmur3,
        Self::FastFilter,
        Self::Caller,
        Self::DcsoFnv1,
        Self::DataSketchesXxh64,
        Self::RedisBloomMurmur2,
        Self::BloomfilterSip13,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Secure => "secure",
            Self::Ordered => "ordered",
            Self::ParquetXxh64 => "parquet_xxh64",
            Self::SparkMurmur3 => "spark_murmur3",
            Self::GuavaMurmur3 => "guava_murmur3",
            Self::FastFilter => "fastfilter",
            Self::Caller => "caller",
            Self::DcsoFnv1 => "dcso_fnv1",
            Self::DataSketchesXxh64 => "datasketches_xxh64",
            Self::RedisBloomMurmur2 => "redisbloom_murmur2",
            Self::BloomfilterSip13 => "bloomfilter_sip13",
        }
    }

    /// Returns whether it is the function of another program's filters.
    pub fn is_foreign(self) -> bool {
        !matches!(self, Self::Fast | Self::Secure | Self::Ordered)
    }

    /// Returns the function with this number in a file.
    ///
    /// # Errors
    /// [`Error::Outdated`] if only older versions of this library had it, and [`Error::Unknown`] if there is
    /// no such function.
    pub fn from_id(id: u16) -> Result<Self, Error> {
        match id {
            1 => Err(Error::Outdated { what: "its `fast` hash is number 1, now it is number 3" }),
            _ => Self::ALL
                .iter()
                .find(|hash| **hash as u16 == id)
                .copied()
                .ok_or_else(|| UnknownName::new("hash", id.to_string()).into()),
        }
    }
}

impl core::str::FromStr for HashId {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|id| id.name() == name);
        found.copied().ok_or_else(|| UnknownName::new("hash", name))
    }
}

/// Returns 64 random bits from the operating system, the only source of seeds.
#[cfg(feature = "std")]
fn random_word() -> Result<u64, getrandom::Error> {
    #[cfg(test)]
    tests::check_source()?;
    getrandom::u64()
}

/// A hash function with its seed.
///
/// Its `Debug` form does not show the seed: an attacker that knows it can find collisions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHasher {
    id: HashId,
    seed: [u64; 2],
    /// See [`KeyHasher::with_second_seed`].
    second_seed: [u64; 2],
    /// What `Fast` derives from the seed; zero for others.
    fast: FastKey,
}

impl core::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyHasher").field("id", &self.id).finish_non_exhaustive()
    }
}

impl KeyHasher {
    /// Returns the function `id` with this seed. A foreign function uses as much of the seed as it has
    /// one; the rest is dropped.
    pub fn new(id: HashId, seed: [u64; 2]) -> Self {
        let seed = foreign::used_seed(id, seed);
        let fast = match id {
            HashId::Fast => FastKey::new(seed),
            _ => FastKey::default(),
        };
        Self { id, seed, second_seed: [0; 2], fast }
    }

    /// Returns the function with the second half of a seed of 256 bits, which is zero at first. Only
    /// [`HashId::BloomfilterSip13`] has one; other functions drop it.
    #[must_use]
    pub fn with_second_seed(self, seed: [u64; 2]) -> Self {
        let second_seed = if self.id == HashId::BloomfilterSip13 { seed } else { [0; 2] };
        Self { second_seed, ..self }
    }

    /// Returns the function `id` with a random seed from the operating system.
    ///
    /// # Errors
    /// [`Error::Random`] if the operating system has no random bits.
    #[cfg(feature = "std")]
    pub fn random(id: HashId) -> Result<Self, Error> {
        let word = || random_word().map_err(|error| Error::Random(error.into()));
        let hasher = Self::new(id, [word()?, word()?]);
        match hasher.second_seed() {
            Some(_) => Ok(hasher.with_second_seed([word()?, word()?])),
            None => Ok(hasher),
        }
    }

    /// Returns which function it is.
    pub fn id(&self) -> HashId {
        self.id
    }

    /// Returns the seed. Keep it secret if others choose the keys.
    pub fn seed(&self) -> [u64; 2] {
        self.seed
    }

    /// Returns the second half of the seed, or `None` if the function has no seed of 256 bits.
    pub fn second_seed(&self) -> Option<[u64; 2]> {
        (self.id == HashId::BloomfilterSip13).then_some(self.second_seed)
    }

    /// Returns the hash of a byte string.
    #[inline]
    pub fn bytes(&self, bytes: &[u8]) -> KeyHash {
        match self.id {
            HashId::Fast => self.fast.bytes(bytes),
            _ => self.other_bytes(bytes),
        }
    }

    /// Returns [`KeyHasher::bytes`] of other functions than `Fast`. In a function of its own, so that
    /// `Fast` costs one comparison, and cold, so that no code of `Fast` jumps around the call.
    #[cold]
    #[inline(never)]
    fn other_bytes(&self, bytes: &[u8]) -> KeyHash {
        match self.id {
            HashId::Secure => self.sip(bytes),
            HashId::Ordered => KeyHash { hi: key::prefix(bytes), lo: 0 },
            id => foreign::bytes(id, [self.seed, self.second_seed], bytes),
        }
    }

    /// Returns the hash of an integer: its value as 64-bit two's complement, whatever its type was. A
    /// foreign function hashes it as its program hashes a 64-bit integer.
    #[inline]
    pub fn int(&self, value: u64) -> KeyHash {
        match self.id {
            HashId::Fast => self.fast.int(value),
            _ => self.other_int(value),
        }
    }

    /// Returns [`KeyHasher::int`] of other functions than `Fast`: cold as `other_bytes`.
    #[cold]
    #[inline(never)]
    fn other_int(&self, value: u64) -> KeyHash {
        match self.id {
            HashId::Secure => self.sip(&value.to_le_bytes()),
            HashId::Ordered => KeyHash { hi: value, lo: 0 },
            id => foreign::int(id, [self.seed, self.second_seed], value),
        }
    }

    /// Returns the hash of two hashes: of their words, first to last, as little-endian bytes.
    fn pair(&self, first: KeyHash, second: KeyHash) -> KeyHash {
        let mut bytes = [0; 32];
        let words = [first.hi, first.lo, second.hi, second.lo];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        match self.id {
            // Such keys have no order. They can be looked up one by one.
            HashId::Ordered => self.sip(&bytes),
            _ => self.bytes(&bytes),
        }
    }

    #[cold]
    #[inline(never)]
    fn sip(&self, bytes: &[u8]) -> KeyHash {
        let hash = SipHasher13::new_with_keys(self.seed[0], self.seed[1]).hash(bytes);
        KeyHash { hi: hash.h2, lo: hash.h1 }
    }
}
