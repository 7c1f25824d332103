use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use tamis_bits::range::mix;

use super::*;
use crate::{AnyFilter, BinaryFuse, Bloom, Keyed, Kind};

/// The vectors of FORMAT.md.
#[test]
fn vectors() {
    let seed = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
    let mut table = String::new();
    for id in [HashId::Fast, HashId::Secure] {
        let hasher = KeyHasher::new(id, seed);
        let x = |length: usize| "x".repeat(length).hash_with(&hasher);
        let inputs: [(&str, KeyHash); 10] = [
            ("\"\"", "".hash_with(&hasher)),
            ("\"a\"", "a".hash_with(&hasher)),
            ("\"tamis\"", "tamis".hash_with(&hasher)),
            ("8 × \"x\"", x(8)),
            ("16 × \"x\"", x(16)),
            ("17 × \"x\"", x(17)),
            ("100 × \"x\"", x(100)),
            ("300 × \"x\"", x(300)),
            ("the integer 42", 42u64.hash_with(&hasher)),
            ("the integer -1", (-1i64).hash_with(&hasher)),
        ];
        for (input, KeyHash { hi, lo }) in inputs {
            table += &format!("| {} | {input} | `{hi:016x}` | `{lo:016x}` |\n", id.name());
        }
    }
    let format = include_str!("../../../../FORMAT.md");
    assert!(format.contains(&table), "FORMAT.md must have these vectors:\n{table}");
}

/// FORMAT.md's specification of `fast`, step by step, with 128-bit numbers and remainders.
mod specified {
    use super::*;

    fn words(seed: [u64; 2]) -> Vec<u64> {
        let sip = SipHasher13::new_with_keys(seed[0], seed[1]);
        let hashes = (0..11u64).map(|number| sip.hash(&number.to_le_bytes()));
        let mut words: Vec<u64> = hashes.flat_map(|hash| [hash.h1, hash.h2]).collect();
        for multiplier in [17, 19, 20, 21] {
            words[multiplier] |= 0x8000_0000_0000_0001;
        }
        words
    }

    /// The last step, with halves of `bits` bits.
    pub(super) fn finish(bits: u32, state: u128, factors: [u128; 2]) -> [u128; 2] {
        let size = 1u128 << bits;
        let low = state % size * factors[0] % size;
        let product = ((state / size) ^ low) * factors[1];
        let hi = (product % size) ^ (product / size);
        let half = 1 << (bits / 2);
        let rotated = product % size * half % size + product % size / (size / half);
        [hi, ((rotated ^ hi) + low) % size]
    }

    fn hash(state: u128, words: &[u64]) -> KeyHash {
        let [hi, lo] = finish(64, state, [words[20].into(), words[21].into()]);
        KeyHash { hi: hi as u64, lo: lo as u64 }
    }

    pub(super) fn int(seed: [u64; 2], value: u64) -> KeyHash {
        let k = words(seed);
        hash(u128::from(value.wrapping_add(k[18])) * u128::from(k[19]), &k)
    }

    pub(super) fn bytes(seed: [u64; 2], bytes: &[u8]) -> KeyHash {
        let (k, n) = (words(seed), bytes.len());
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        if n < 8 {
            let mut padded = [0; 8];
            padded[..n].copy_from_slice(bytes);
            padded[n] = 1;
            let sum = u64::from_le_bytes(padded).wrapping_add(k[0]);
            return hash(u128::from(sum) * u128::from(k[17]), &k);
        }
        let mut pairs: Vec<[u64; 2]> =
            (0..n.div_ceil(16) - 1).map(|pair| [word(16 * pair), word(16 * pair + 8)]).collect();
        pairs.push(if n > 16 { [word(n - 16), word(n - 8)] } else { [word(0), word(n - 8)] });
        let r = |x: u128| x % (1 << 127) + (x >> 127);
        let mut state = 0u128;
        let blocks = pairs.chunks(8);
        let last = blocks.len() - 1;
        for (block, pairs) in blocks.enumerate() {
            let products = pairs.iter().zip(0..).map(|(pair, at)| {
                u128::from(pair[0].wrapping_add(k[2 * at]))
                    * u128::from(pair[1].wrapping_add(k[2 * at + 1]))
            });
            let sum = products.fold(0, u128::wrapping_add);
            if block == last {
                state = state.wrapping_add(sum);
                break;
            }
            state = r(state + r(sum));
            let (low, high) =
                (state % (1 << 64) * u128::from(k[16]), (state >> 64) * u128::from(k[16]));
            state = r(r(low) + ((high % (1 << 63)) << 64) + (high >> 63));
        }
        hash(state.wrapping_add(n as u128 * u128::from(k[17])), &k)
    }
}

#[test]
fn fast_is_what_the_specification_says() {
    for seed in [[0, 0], [1, 2], [u64::MAX, u64::MAX], [mix(5), mix(6)]] {
        let hasher = KeyHasher::new(HashId::Fast, seed);
        let bytes: Vec<u8> = (0..600u64).map(|at| mix(at) as u8 | ((at as u8 & 1) * 255)).collect();
        for length in 0..=bytes.len() {
            let key = &bytes[..length];
            assert_eq!(hasher.bytes(key), specified::bytes(seed, key), "{length} bytes");
        }
        for value in (0..64).flat_map(|bit| [1 << bit, !(1 << bit), mix(bit)]) {
            assert_eq!(hasher.int(value), specified::int(seed, value), "{value}");
        }
    }
}

/// A search of all keys and secrets at reduced width: how often the products `v * k` and `(v + d) * k` give
/// the same `hi`, or the same hash, for the worst difference `d`. A state that is folded to one word by an
/// exclusive or gives more than 6 instead of 4, and the number grows with the width.
#[test]
fn no_difference_of_integers_collides_often() {
    let factors = |bits: u32| ((1 << (bits - 1)) + 1..1u128 << bits).step_by(2);
    // The word that the last multiplication gets, which decides `hi`.
    let (bits, size) = (7, 1u128 << 7);
    let sum = |state: u128, factor: u128| (state / size) ^ (state % size * factor % size);
    for difference in 1..size {
        let mut same = 0;
        for (k, v) in factors(bits).flat_map(|k| (0..size).map(move |v| (k, v))) {
            let (a, b) = (v * k, (v + difference) % size * k);
            same += factors(bits).filter(|factor| sum(a, *factor) == sum(b, *factor)).count();
        }
        // 2^7 values, 2^5 factors twice: 4 * 2^-7 of all.
        assert!(same <= 4 << 10, "difference {difference:#x}: {same} of {}", 1 << 17);
    }
    let (bits, size) = (5, 1u128 << 5);
    for difference in 1..size {
        let (mut digests, mut hashes) = (0, 0);
        for (k, v) in factors(bits).flat_map(|k| (0..size).map(move |v| (k, v))) {
            let (a, b) = (v * k, (v + difference) % size * k);
            for (f, g) in factors(bits).flat_map(|f| factors(bits).map(move |g| (f, g))) {
                let [a, b] = [a, b].map(|state| specified::finish(bits, state, [f, g]));
                digests += u32::from(a[0] == b[0]);
                hashes += u32::from(a == b);
            }
        }
        // 2^5 values, 2^3 factors three times, so 2^14: at most 9 * 2^-5 and 12 * 2^-10 of them.
        assert!(digests <= 9 << 9, "difference {difference:#x}: {digests} digests");
        assert!(hashes <= 12 << 4, "difference {difference:#x}: {hashes} hashes");
    }
}

#[test]
fn integers_hash_by_value() {
    let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
    assert_eq!(7u8.hash_with(&hasher), 7i64.hash_with(&hasher));
    assert_eq!((-1i8).hash_with(&hasher), u64::MAX.hash_with(&hasher));
    assert_eq!((-7i128).hash_with(&hasher), (-7i64).hash_with(&hasher));
    assert_ne!(7u64.hash_with(&hasher), 7u64.to_le_bytes().hash_with(&hasher));
}

#[test]
fn a_random_seed_is_128_random_bits() {
    const DRAWS: usize = 4096;
    let (mut seen, mut ones) = (BTreeSet::new(), [0; 128]);
    for _ in 0..DRAWS {
        let hasher = KeyHasher::random(HashId::Fast).unwrap();
        assert_eq!(format!("{hasher:?}"), "KeyHasher { id: Fast, .. }");
        // Each half alone: a half that is zero, repeated, or the other half again comes up twice.
        for half in hasher.seed() {
            assert!(seen.insert(half), "{half:#x} twice");
        }
        let seed = u128::from(hasher.seed()[0]) << 64 | u128::from(hasher.seed()[1]);
        (0..128).for_each(|bit| ones[bit] += (seed >> bit & 1) as usize);
    }
    // 12 standard deviations on either side of one half.
    let even = DRAWS * 2 / 5..DRAWS * 3 / 5;
    assert!(ones.iter().all(|count| even.contains(count)), "{ones:?}");
}

std::thread_local! {
    /// The words that the random source of this thread still returns before it fails.
    static WORDS_LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Fails if the test of this thread has used up the words of its random source.
pub(super) fn check_source() -> Result<(), getrandom::Error> {
    let left = WORDS_LEFT.get().checked_sub(1);
    WORDS_LEFT.set(left.unwrap_or(0));
    left.map(drop).ok_or(getrandom::Error::UNEXPECTED)
}

/// No filter is made without a random seed: there is no other source, and half a seed does not count.
#[test]
fn without_random_bits_there_is_no_filter() {
    fn refused<T>(made: Result<T, Error>) {
        let Err(error) = made else { panic!("a filter without a random seed") };
        assert!(matches!(error, Error::Random(_)), "{error}");
        let told = "the operating system has no random bits for a seed: ";
        assert!(error.to_string().starts_with(told), "{error}");
    }
    let keys = ["a", "b"];
    type Make = fn([&str; 2]) -> Result<(), Error>;
    let makers: [Make; 6] = [
        |_| KeyHasher::random(HashId::Fast).map(drop),
        |_| KeyHasher::random(HashId::Secure).map(drop),
        |_| Keyed::<Bloom>::with_capacity(100, 0.01).map(drop),
        |keys| Keyed::<BinaryFuse>::builder().fpr(0.01).build(keys).map(drop),
        |keys| Keyed::<Bloom>::builder().capacity(100).hash(HashId::Secure).build(keys).map(drop),
        |keys| Keyed::<AnyFilter>::builder(Kind::Cuckoo).build(keys).map(drop),
    ];
    for make in makers {
        for words in [0, 1] {
            WORDS_LEFT.set(words);
            refused(make(keys));
            assert_eq!(WORDS_LEFT.get(), 0);
        }
        WORDS_LEFT.set(2);
        make(keys).unwrap();
        assert_eq!(WORDS_LEFT.get(), 0, "a seed is 2 words");
    }
    // A given seed needs no random bits.
    let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
    Keyed::<Bloom>::builder().capacity(100).hasher(&hasher).build(keys).unwrap();
}

#[test]
fn numbers_of_hashes() {
    for id in HashId::ALL.iter().copied() {
        assert_eq!(HashId::from_id(id as u16).unwrap(), id);
        assert_eq!(id.name().parse(), Ok(id));
    }
    let error = HashId::from_id(1).unwrap_err();
    assert!(matches!(error, Error::Outdated { .. }));
    assert!(error.to_string().starts_with("written by an older version of tamis"), "{error}");
    assert!(matches!(HashId::from_id(0), Err(Error::Unknown(_))));
    assert!(matches!(HashId::from_id(5), Err(Error::Unknown(_))));
}

/// Checks that a change flips each output bit half of the time.
fn check_flips(what: &str, change: &dyn Fn(u64) -> (KeyHash, KeyHash)) {
    const TRIALS: u64 = 4096;
    let mut count = [0u32; 128];
    for trial in 0..TRIALS {
        let (a, b) = change(trial);
        let diff = u128::from(a.hi ^ b.hi) << 64 | u128::from(a.lo ^ b.lo);
        (0..128).for_each(|bit| count[bit] += (diff >> bit & 1) as u32);
    }
    // 2048 expected; 8.5 standard deviations of 32 on either side.
    assert!(count.iter().all(|n| (1776..=2320).contains(n)), "{what}: {count:?}");
}

/// Flipping any bit of an integer or of the seed flips each output bit half of the time.
#[test]
fn every_bit_moves_every_bit() {
    for id in [HashId::Fast, HashId::Secure] {
        for bit in 0..64 {
            let hasher = KeyHasher::new(id, [3, 4]);
            check_flips("integer", &|n| (hasher.int(n), hasher.int(n ^ 1 << bit)));
            for word in 0..2 {
                check_flips("seed", &|n| {
                    let (seed, mut other) = ([n, mix(n)], [n, mix(n)]);
                    other[word] ^= 1 << bit;
                    (KeyHasher::new(id, seed).int(5), KeyHasher::new(id, other).int(5))
                });
            }
        }
    }
}

/// Flipping a bit of a byte string of any length flips each output bit half of the time, and so does one
/// more byte.
#[test]
fn every_bit_of_a_string_moves_every_bit() {
    let hasher = KeyHasher::new(HashId::Fast, [3, 4]);
    for length in [2usize, 3, 4, 7, 8, 9, 15, 16, 17, 24, 32, 33, 64, 127, 128, 129, 144, 256, 300]
    {
        let key = |n: u64, length: usize| {
            let mut key = vec![0; length];
            let front = length.min(8);
            key[..front].copy_from_slice(&n.to_le_bytes()[..front]);
            key
        };
        for byte in (0..length).step_by(length.div_ceil(5)).chain([length - 1]) {
            for bit in [0, 3, 7] {
                check_flips(&format!("byte {byte} of {length}"), &|n| {
                    let (a, mut b) = (key(n, length), key(n, length));
                    b[byte] ^= 1 << bit;
                    (hasher.bytes(&a), hasher.bytes(&b))
                });
            }
        }
        check_flips(&format!("{length} bytes and a zero"), &|n| {
            let (a, mut b) = (key(n, length), key(n, length));
            b.push(0);
            (hasher.bytes(&a), hasher.bytes(&b))
        });
    }
}
