//! The hash functions of other programs' filters, as small pure functions.
//!
//! A foreign [`HashId`] turns a key into the bits that the other program derives from it, laid out in
//! a [`KeyHash`] so that [`foreign_bloom`](crate::filters::foreign_bloom),
//! [`foreign_fuse`](crate::filters::foreign_fuse) and
//! [`split_block_bloom`](crate::filters::split_block_bloom) select the cells that the other program
//! selects. None of them but `bloomfilter_sip13` resists adversarial keys, and most are weaker than 128
//! uniform bits.
//!
//! | hash | `hi` | `lo` | integers | seed |
//! | --- | --- | --- | --- | --- |
//! | `parquet_xxh64` | upper 32 bits of XXH64, shifted up | lower 32 bits | 8 bytes | none |
//! | `spark_murmur3` | Murmur3-32 under the seed | Murmur3-32 under `hi` | Spark's `hashLong` | 32 bits |
//! | `guava_murmur3` | first half of Murmur3-128 | second half | 8 bytes | none |
//! | `fastfilter` | the integer, or XXH64 of bytes | 0 | themselves | none |
//! | `caller` | upper half of the caller's hash | lower half | themselves | none |
//! | `dcso_fnv1` | FNV-1 | 0 | decimal digits | none |
//! | `datasketches_xxh64` | XXH64 under the seed | XXH64 under `hi` | 8 bytes | 64 bits |
//! | `redisbloom_murmur2` | MurmurHash64A | MurmurHash64A under `hi` | decimal digits | none |
//! | `bloomfilter_sip13` | SipHash-1-3 under the first half of the seed | under the second half | 8 bytes | 256 bits |
//!
//! Integers are signed where they have decimal digits, and little-endian where they have bytes.

use core::fmt::Write;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;
use xxhash_rust::xxh64::xxh64;

use super::{HashId, KeyHash};

/// Returns the part of a seed that the function uses; the rest is zero.
pub(super) fn used_seed(id: HashId, seed: [u64; 2]) -> [u64; 2] {
    match id {
        HashId::Fast | HashId::Secure | HashId::Ordered | HashId::BloomfilterSip13 => seed,
        HashId::SparkMurmur3 => [seed[0] & 0xffff_ffff, 0],
        HashId::DataSketchesXxh64 => [seed[0], 0],
        HashId::ParquetXxh64
        | HashId::GuavaMurmur3
        | HashId::FastFilter
        | HashId::Caller
        | HashId::DcsoFnv1
        | HashId::RedisBloomMurmur2 => [0; 2],
    }
}

/// Returns the hash of a byte string.
pub(super) fn bytes(id: HashId, seeds: [[u64; 2]; 2], bytes: &[u8]) -> KeyHash {
    let [[seed, _], _] = seeds;
    let (hi, lo) = match id {
        HashId::SparkMurmur3 => pair_32(seed, |seed| spark_bytes(bytes, seed)),
        HashId::GuavaMurmur3 => murmur3_128(bytes),
        HashId::FastFilter => (xxh64(bytes, 0), 0),
        HashId::Caller => {
            let mut number = [0; 16];
            let len = bytes.len().min(16);
            number[..len].copy_from_slice(&bytes[..len]);
            return caller(u128::from_le_bytes(number));
        }
        HashId::DcsoFnv1 => (fnv1(bytes), 0),
        HashId::DataSketchesXxh64 => pair(seed, |seed| xxh64(bytes, seed)),
        HashId::RedisBloomMurmur2 => pair(MURMUR2, |seed| murmur2_64a(bytes, seed)),
        HashId::BloomfilterSip13 => {
            return sip_pair(seeds, &[&(bytes.len() as u64).to_le_bytes(), bytes]);
        }
        HashId::ParquetXxh64 | HashId::Fast | HashId::Secure | HashId::Ordered => {
            return KeyHash::parquet(bytes);
        }
    };
    KeyHash { hi, lo }
}

/// Returns the hash of an integer.
pub(super) fn int(id: HashId, seeds: [[u64; 2]; 2], value: u64) -> KeyHash {
    match id {
        HashId::SparkMurmur3 => {
            let (hi, lo) = pair_32(seeds[0][0], |seed| spark_long(value, seed));
            KeyHash { hi, lo }
        }
        HashId::FastFilter => KeyHash { hi: value, lo: 0 },
        HashId::Caller => caller(i128::from(value as i64) as u128),
        HashId::DcsoFnv1 | HashId::RedisBloomMurmur2 => {
            let mut text = Digits::default();
            write!(text, "{}", value as i64).expect("20 bytes hold every 64-bit integer");
            bytes(id, seeds, &text.bytes[..text.len])
        }
        HashId::BloomfilterSip13 => KeyHash::bloomfilter(seeds, &value.to_le_bytes()),
        _ => bytes(id, seeds, &value.to_le_bytes()),
    }
}

/// Returns SipHash-1-3 with 64 bits of the concatenated `parts` under each half of the seed.
pub(super) fn sip_pair(seed: [[u64; 2]; 2], parts: &[&[u8]]) -> KeyHash {
    let [hi, lo] = seed.map(|[first, second]| {
        let mut sip = SipHasher13::new_with_keys(first, second);
        parts.iter().for_each(|part| sip.write(part));
        sip.finish()
    });
    KeyHash { hi, lo }
}

fn caller(hash: u128) -> KeyHash {
    KeyHash { hi: (hash >> 64) as u64, lo: hash as u64 }
}

/// Returns the hash under `seed`, and the hash under that hash.
fn pair(seed: u64, hash: impl Fn(u64) -> u64) -> (u64, u64) {
    let first = hash(seed);
    (first, hash(first))
}

fn pair_32(seed: u64, hash: impl Fn(u32) -> u32) -> (u64, u64) {
    let first = hash(seed as u32);
    (first.into(), hash(first).into())
}

/// The decimal digits of an integer.
#[derive(Default)]
struct Digits {
    bytes: [u8; 20],
    len: usize,
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

const fn murmur3_block(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

const fn murmur3_add(hash: u32, block: u32) -> u32 {
    (hash ^ murmur3_block(block)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

const fn murmur3_finish(mut hash: u32, len: u32) -> u32 {
    hash ^= len;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Spark's Murmur3-32 of bytes. Unlike the original it takes each of the last 1 to 3 bytes for a block
/// of its own, extended by its sign.
fn spark_bytes(bytes: &[u8], seed: u32) -> u32 {
    let (blocks, tail) = bytes.as_chunks();
    let hash =
        blocks.iter().fold(seed, |hash, block| murmur3_add(hash, u32::from_le_bytes(*block)));
    let hash =
        tail.iter().fold(hash, |hash, byte| murmur3_add(hash, i32::from(*byte as i8) as u32));
    murmur3_finish(hash, bytes.len() as u32)
}

/// Spark's Murmur3-32 of a 64-bit integer.
const fn spark_long(value: u64, seed: u32) -> u32 {
    murmur3_finish(murmur3_add(murmur3_add(seed, value as u32), (value >> 32) as u32), 8)
}

const MURMUR3: [u64; 2] = [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f];

/// Murmur3-128 in its form for 64-bit machines, seed 0.
fn murmur3_128(bytes: &[u8]) -> (u64, u64) {
    let first = |word: u64| word.wrapping_mul(MURMUR3[0]).rotate_left(31).wrapping_mul(MURMUR3[1]);
    let second = |word: u64| word.wrapping_mul(MURMUR3[1]).rotate_left(33).wrapping_mul(MURMUR3[0]);
    let words = |block: &[u8; 16]| {
        let number = u128::from_le_bytes(*block);
        (number as u64, (number >> 64) as u64)
    };
    let (blocks, tail) = bytes.as_chunks::<16>();
    let (mut a, mut b) = (0u64, 0u64);
    for block in blocks {
        let (low, high) = words(block);
        a = (a ^ first(low)).rotate_left(27).wrapping_add(b).wrapping_mul(5);
        a = a.wrapping_add(0x52dc_e729);
        b = (b ^ second(high)).rotate_left(31).wrapping_add(a).wrapping_mul(5);
        b = b.wrapping_add(0x3849_5ab5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let (low, high) = words(&last);
    // A word of zeros changes nothing.
    b ^= second(high);
    a ^= first(low);
    let len = bytes.len() as u64;
    (a, b) = (a ^ len, b ^ len);
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    (a, b) = (tamis_bits::peel::murmur64(a), tamis_bits::peel::murmur64(b));
    a = a.wrapping_add(b);
    (a, b.wrapping_add(a))
}

/// The multiplier of MurmurHash64A, which is also the seed of RedisBloom.
const MURMUR2: u64 = 0xc6a4_a793_5bd1_e995;

/// MurmurHash64A.
fn murmur2_64a(bytes: &[u8], seed: u64) -> u64 {
    let (words, tail) = bytes.as_chunks();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MURMUR2);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(MURMUR2);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(MURMUR2)).wrapping_mul(MURMUR2);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MURMUR2);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(MURMUR2);
    hash ^ hash >> 47
}

/// FNV-1 with 64 bits.
fn fnv1(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    /// Values of the functions' own test suites, and of the programs that use them.
    #[test]
    fn published_vectors() {
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"abc", 0), 0x44bc_2cf5_ad77_0999);
        // Guava's own test: murmur3_128 of "hell", "hello" and "hello ", as little-endian halves.
        assert_eq!(murmur3_128(b""), (0, 0));
        assert_eq!(murmur3_128(b"hello"), (0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19));
        assert_eq!(
            murmur3_128(b"The quick brown fox jumps over the lazy dog"),
            (0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347)
        );
        // Spark's hash expressions with seed 42: hash(0L) and hash(1L).
        assert_eq!(spark_long(0, 42) as i32, -1_670_924_195);
        assert_eq!(spark_long(1, 42) as i32, -1_712_319_331);
        // hash('Spark') and hash('') with seed 42.
        assert_eq!(spark_bytes(b"", 42) as i32, 142_593_372);
        assert_eq!(spark_bytes(b"Spark", 42) as i32, 228_093_765);
        // SipHash-1-3 with 64 bits of `str` keys and byte slices, as the crate `bloomfilter` feeds it.
        let seeds = [[0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908], [5, 6]];
        assert_eq!(
            bytes(HashId::BloomfilterSip13, seeds, b"ab"),
            KeyHash::bloomfilter(seeds, b"\x02\0\0\0\0\0\0\0ab")
        );
        assert_eq!(KeyHash::bloomfilter(seeds, b"").hi, 0xabac_0158_050f_c4dc);
        // FNV-1 as Go computes it.
        assert_eq!(fnv1(b"Hello, World!"), 8_889_723_880_822_884_486);
        assert_eq!(fnv1(b"Let's rustify all this"), 13_581_150_826_273_240_441);
    }

    #[test]
    fn integers_hash_as_the_format_says() {
        let of = |id| KeyHasher::new(id, [7, 9]);
        assert_eq!(
            of(HashId::GuavaMurmur3).int(5),
            of(HashId::GuavaMurmur3).bytes(&5u64.to_le_bytes())
        );
        assert_eq!(of(HashId::DcsoFnv1).int(-12i64 as u64), of(HashId::DcsoFnv1).bytes(b"-12"));
        assert_eq!(
            of(HashId::RedisBloomMurmur2).int(u64::MAX >> 1),
            of(HashId::RedisBloomMurmur2).bytes(b"9223372036854775807")
        );
        assert_eq!(of(HashId::FastFilter).int(5), KeyHash { hi: 5, lo: 0 });
        assert_eq!(of(HashId::Caller).int(-1i64 as u64), KeyHash { hi: u64::MAX, lo: u64::MAX });
        assert_ne!(
            of(HashId::SparkMurmur3).int(5),
            KeyHasher::new(HashId::SparkMurmur3, [8, 9]).int(5)
        );
    }

    #[test]
    fn a_seed_that_does_not_count_is_zero() {
        assert_eq!(KeyHasher::new(HashId::GuavaMurmur3, [1, 2]).seed(), [0, 0]);
        assert_eq!(KeyHasher::new(HashId::SparkMurmur3, [1 << 40 | 5, 2]).seed(), [5, 0]);
        assert_eq!(KeyHasher::new(HashId::DataSketchesXxh64, [1 << 40, 2]).seed(), [1 << 40, 0]);
        assert_eq!(KeyHasher::new(HashId::Fast, [1, 2]).seed(), [1, 2]);
        let fast = KeyHasher::new(HashId::Fast, [1, 2]);
        assert!(fast.with_second_seed([3, 4]) == fast && fast.second_seed().is_none());
        let sip = KeyHasher::new(HashId::BloomfilterSip13, [1, 2]);
        let other = sip.with_second_seed([3, 4]);
        assert_eq!((sip.second_seed(), other.second_seed()), (Some([0, 0]), Some([3, 4])));
        assert!(
            sip != other && sip.int(5).hi == other.int(5).hi && sip.int(5).lo != other.int(5).lo
        );
    }
}
