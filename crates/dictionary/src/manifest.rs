//! The metadata records that the dictionary keeps in its store.
//!
//! ```text
//!  "state"      version · filter · hash · seed · keys · rate · shards · clean? · generation
//!               then for each shard: generation of its record · keys · capacity · bytes
//!  "shard/17"   generation · 17 · salt · a .tamis file of shard 17
//!  "counts"     lookups of absent keys in the window · false positives among them · all counters
//!
//!  value        bytes of the value · checksum (4 bytes)
//! ```
//!
//! The checksum of an entry is the lower half of `lo` of the keyed hash of 32 bytes: `hi` and `lo` of the hash of
//! the key, then of the hash of the value. It costs 4 bytes per entry and misses damage with probability 2^-32.
//!
//! All words are little-endian. A shard is loaded from its record only if the state is clean, the record has
//! the generation that the state gives, its own shard number and the dictionary's seed. Otherwise the shard
//! is rebuilt from the store. The record contains the seed: anyone who can read the store can choose keys
//! that collide with others.

use tamis::{Container, HashId, KeyForms, KeyHash, KeyHasher, Keyed, Persist};

use crate::error::Error;
use crate::shard::SaltedFilter;
use crate::stats::Counts;

/// The version of the metadata in a store.
pub const VERSION: u64 = 2;

pub(crate) const STATE: &str = "state";
pub(crate) const COUNTS: &str = "counts";

const MAGIC: u64 = u64::from_le_bytes(*b"tamisdic");
/// The words of a state record before those of the shards.
const HEADER_WORDS: usize = 11;
/// The words of a state record for each shard.
const SHARD_WORDS: usize = 4;
/// The least and the greatest number of bits of `hi` that select a shard.
pub(crate) const MIN_SHARD_BITS: u32 = 4;
pub(crate) const MAX_SHARD_BITS: u32 = 10;

/// The contents of the state record: everything about a dictionary except its keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// The filter's number in the registry.
    pub(crate) kind: u16,
    pub(crate) hasher: KeyHasher,
    /// The number of keys that the dictionary was created for.
    pub(crate) keys: u64,
    pub(crate) fpr: f64,
    /// The number of leading bits of `hi` that select a shard.
    pub(crate) shard_bits: u32,
    /// Whether the saved shards match the entries.
    pub(crate) clean: bool,
    pub(crate) generation: u64,
    pub(crate) shards: Vec<SavedShard>,
}

/// The properties of a shard when it was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedShard {
    pub(crate) generation: u64,
    pub(crate) keys: u64,
    pub(crate) capacity: u64,
    pub(crate) bytes: u64,
}

impl Manifest {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let [first, second] = self.hasher.seed();
        let header: [u64; HEADER_WORDS] = [
            MAGIC,
            VERSION,
            self.kind.into(),
            self.hasher.id() as u64,
            first,
            second,
            self.keys,
            self.fpr.to_bits(),
            self.shard_bits.into(),
            self.clean.into(),
            self.generation,
        ];
        let words =
            |saved: &SavedShard| [saved.generation, saved.keys, saved.capacity, saved.bytes];
        let shards = self.shards.iter().flat_map(words);
        to_bytes(header.into_iter().chain(shards))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let words = to_words(bytes);
        let (header, shards) = words
            .split_first_chunk::<HEADER_WORDS>()
            .ok_or(Error::Corrupt { what: "the state record is too short" })?;
        let [magic, version, kind, hash, first, second, keys, fpr, shard_bits, clean, generation] =
            *header;
        if magic != MAGIC {
            return Err(Error::Corrupt { what: "the state record has no magic number" });
        }
        if version != VERSION {
            return Err(Error::Version { found: version, supported: VERSION });
        }
        let corrupt = Error::Corrupt { what: "the state record has an invalid field" };
        let (Ok(kind), Ok(hash)) = (u16::try_from(kind), u16::try_from(hash)) else {
            return Err(corrupt);
        };
        let hasher = KeyHasher::new(HashId::from_id(hash)?, [first, second]);
        let mut valid_bits = MIN_SHARD_BITS..=MAX_SHARD_BITS;
        let Some(shard_bits) = valid_bits.find(|bits| u64::from(*bits) == shard_bits) else {
            return Err(corrupt);
        };
        if shards.len() != SHARD_WORDS << shard_bits || clean > 1 {
            return Err(corrupt);
        }
        let saved = |&[generation, keys, capacity, bytes]: &[u64; SHARD_WORDS]| SavedShard {
            generation,
            keys,
            capacity,
            bytes,
        };
        let shards = shards.as_chunks().0.iter().map(saved).collect();
        let fpr = f64::from_bits(fpr);
        tamis::plan::check_fpr(fpr)?;
        tamis::plan::check_keys(keys)?;
        Ok(Self { kind, hasher, keys, fpr, shard_bits, clean: clean == 1, generation, shards })
    }
}

/// Returns the name of a shard's record.
pub(crate) fn shard_name(number: usize) -> String {
    format!("shard/{number}")
}

/// Encodes the record of a shard.
pub(crate) fn encode_shard<F: Persist>(
    hasher: &KeyHasher,
    filter: &F,
    salt: u64,
    generation: u64,
    number: usize,
) -> Result<Vec<u8>, Error> {
    let mut bytes = to_bytes([generation, number as u64, salt]);
    Container::new(hasher, KeyForms::NONE, filter).write_to(&mut bytes)?;
    Ok(bytes)
}

/// Decodes the record of a shard, or returns why it cannot be used.
pub(crate) fn decode_shard<F: Persist>(
    bytes: &[u8],
    hasher: &KeyHasher,
    generation: u64,
    number: usize,
) -> Result<SaltedFilter<F>, String> {
    let (header, file) = bytes.split_at_checked(24).ok_or("its record is too short")?;
    let words = to_words(header);
    if words[..2] != [generation, number as u64] {
        return Err("its record has another generation or shard number".into());
    }
    let keyed = Keyed::<F>::from_bytes(file).map_err(|error| error.to_string())?;
    if keyed.hasher() != hasher {
        return Err("its record belongs to another dictionary".into());
    }
    Ok(SaltedFilter { filter: keyed.into_parts().1, salt: words[2] })
}

/// Encodes the record of the counters. `window` is the number of lookups of absent keys and of false
/// positives among them.
pub(crate) fn encode_counts(window: (u64, u64), counts: &Counts) -> Vec<u8> {
    let counts = counts.named().map(|(_, count)| count);
    to_bytes([window.0, window.1].into_iter().chain(counts))
}

/// Decodes the record of the counters. Missing words are 0.
pub(crate) fn decode_counts(bytes: &[u8]) -> ((u64, u64), Counts) {
    let words = to_words(bytes);
    let (window, counts) = words.split_at(words.len().min(2));
    let window = (window.first().copied().unwrap_or(0), window.get(1).copied().unwrap_or(0));
    (window, Counts::from_words(counts))
}

/// The length of the checksum after each value.
const CHECKSUM_LEN: usize = 4;

/// Returns a value as it is stored, with the checksum of the entry. `key` is the hash of the key.
pub(crate) fn seal(hasher: &KeyHasher, key: KeyHash, value: &[u8]) -> Vec<u8> {
    [value, &checksum(hasher, key, value)].concat()
}

/// Returns the value of a stored one, or `None` if the checksum does not match. `key` is the hash of the key.
pub(crate) fn unseal(hasher: &KeyHasher, key: KeyHash, mut stored: Vec<u8>) -> Option<Vec<u8>> {
    let (value, found) = stored.split_last_chunk()?;
    if checksum(hasher, key, value) != *found {
        return None;
    }
    stored.truncate(stored.len() - CHECKSUM_LEN);
    Some(stored)
}

fn checksum(hasher: &KeyHasher, key: KeyHash, value: &[u8]) -> [u8; CHECKSUM_LEN] {
    let value = hasher.bytes(value);
    let hash = hasher.bytes(&to_bytes([key.hi, key.lo, value.hi, value.lo]));
    (hash.lo as u32).to_le_bytes()
}

fn to_bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_round_trips_and_damage_is_an_error() {
        let saved = SavedShard { generation: 3, keys: 5, capacity: 9, bytes: 64 };
        let manifest = Manifest {
            kind: 19,
            hasher: KeyHasher::new(HashId::Secure, [1, 2]),
            keys: 1000,
            fpr: 0.01,
            shard_bits: MIN_SHARD_BITS,
            clean: true,
            generation: 3,
            shards: vec![saved; 1 << MIN_SHARD_BITS],
        };
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::from_bytes(&bytes).unwrap(), manifest);
        let mut newer = bytes.clone();
        newer[8] = 9;
        let error = Manifest::from_bytes(&newer).unwrap_err();
        assert!(matches!(error, Error::Version { found: 9, supported: VERSION }));
        for length in 0..bytes.len() {
            let read = Manifest::from_bytes(&bytes[..length]);
            assert!(read.is_err() || length / 8 == bytes.len() / 8);
        }
        // Any value of these words is valid: kind, seed, keys, rate, generation.
        let unchecked = [2, 4, 5, 6, 7, 10];
        for at in (0..HEADER_WORDS * 8).filter(|at| !unchecked.contains(&(at / 8))) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            assert!(Manifest::from_bytes(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_changed_bit_of_a_sealed_value_or_of_its_key_is_found() {
        let hasher = KeyHasher::new(HashId::Secure, [1, 2]);
        let key = hasher.bytes(b"key");
        for value in [&b""[..], b"v", &[7; 1000]] {
            let sealed = seal(&hasher, key, value);
            assert_eq!(sealed.len(), value.len() + CHECKSUM_LEN);
            assert_eq!(unseal(&hasher, key, sealed.clone()).as_deref(), Some(value));
            assert_eq!(unseal(&hasher, hasher.bytes(b"kez"), sealed.clone()), None);
            let other = KeyHasher::new(HashId::Secure, [1, 3]);
            assert_eq!(unseal(&other, other.bytes(b"key"), sealed.clone()), None);
            for bit in 0..8 * sealed.len() {
                let mut damaged = sealed.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(unseal(&hasher, key, damaged), None, "bit {bit}");
            }
            assert_eq!(unseal(&hasher, key, sealed[1..].to_vec()), None);
        }
        assert_eq!(unseal(&hasher, key, vec![0; CHECKSUM_LEN - 1]), None);
        // The checksum is part of the format.
        assert_eq!(seal(&hasher, key, b"value")[5..], [28, 179, 227, 65]);
    }

    #[test]
    fn the_names_of_records_are_part_of_the_format() {
        assert_eq!([STATE, COUNTS, &shard_name(17)], ["state", "counts", "shard/17"]);
    }
}
