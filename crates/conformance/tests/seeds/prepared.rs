//! Pairs of keys that an attacker prepares without the seed collide as rarely as random keys.

use tamis::{HashId, KeyHash, KeyHasher};
use tamis_conformance::keys::Random;
use tamis_conformance::{Effort, stats};
use xxhash_rust::xxh3::{xxh3_128_with_secret, xxh3_128_with_seed};

/// Keys of 896 bytes that collide under 1 seed of xxh3 in 61: its secret words 0 and 12 differ by a constant
/// whatever the seed is.
#[test]
fn long_keys_prepared_against_xxh3_do_not_collide() {
    /// The exclusive or of the two secret words in the low half, for most seeds under which it is simple.
    const WORDS_DIFFER_BY: u64 = 0x0a0a_0410;
    const SEEDS: u64 = 20_000;
    let mut random = Random::new(61);
    let mut key: Vec<u8> = (0..112).flat_map(|_| random.word().to_le_bytes()).collect();
    let word = random.word();
    set_word(&mut key, 0, word);
    set_word(&mut key, 12 * 64, word ^ WORDS_DIFFER_BY);
    let mut other = key.clone();
    set_word(&mut other, 0, word ^ 1 << 63);
    set_word(&mut other, 12 * 64, word ^ WORDS_DIFFER_BY ^ 1 << 63);
    let (mut of_xxh3, mut of_fast) = (0, 0);
    for _ in 0..SEEDS {
        let seed = random.seed();
        of_xxh3 +=
            u64::from(xxh3_128_with_seed(&key, seed[0]) == xxh3_128_with_seed(&other, seed[0]));
        let hasher = KeyHasher::new(HashId::Fast, seed);
        of_fast += u64::from(hasher.bytes(&key).hi == hasher.bytes(&other).hi);
    }
    assert!(of_xxh3 > SEEDS / 100, "the attack on xxh3 gives {of_xxh3} of {SEEDS}");
    assert_eq!(of_fast, 0);
}

/// A key of 9 bytes and one of 16 that collide under 1 secret of xxh3 in 2^20, even though all of the secret
/// is random: the length is added to a product with a public factor.
#[test]
fn short_keys_prepared_against_xxh3_do_not_collide() {
    let key = b"ninebytes";
    let other = 0x5635_207b_3041_4769_e064_2d60_374a_406e_u128.to_le_bytes();
    let mut random = Random::new(62);
    let mut secret = [0; 192];
    let (mut of_xxh3, mut of_fast) = (0, 0);
    for _ in 0..1 << 23 {
        // The words that keys of 9 to 16 bytes use.
        set_word(&mut secret, 32, random.word());
        set_word(&mut secret, 48, random.word());
        of_xxh3 +=
            u32::from(xxh3_128_with_secret(key, &secret) == xxh3_128_with_secret(&other, &secret));
    }
    for _ in 0..Effort::now().times(1 << 22) {
        let hasher = KeyHasher::new(HashId::Fast, random.seed());
        of_fast += u32::from(hasher.bytes(key).hi == hasher.bytes(&other).hi);
    }
    assert!(of_xxh3 > 0, "the attack on xxh3 gives nothing");
    assert_eq!(of_fast, 0);
}

/// For each pair of related keys of each length: over many seeds they never have the same `hi`, and agree in
/// any 8 or 16 bits as often as two random numbers do.
#[test]
fn related_keys_agree_no_more_than_chance() {
    let effort = Effort::now();
    let mut random = effort.random(63);
    let seeds = effort.times(4_000);
    for id in [HashId::Fast, HashId::Secure] {
        let mut pairs = related_keys(&mut random);
        // SipHash is not ours to search: a check that its entries do not drop bytes.
        let seeds = if id == HashId::Secure { seeds / 40 } else { seeds };
        for _ in 0..seeds {
            let hasher = KeyHasher::new(id, random.seed());
            for pair in &mut pairs {
                let [a, b] = pair.hashes(&hasher);
                assert_ne!(a.hi, b.hi, "{id:?}: {}", pair.what);
                pair.count(a, b);
            }
        }
        let mut all = [0; 2];
        for pair in &pairs {
            for (same, part) in pair.same_8.into_iter().zip(["hi", "hi", "lo", "lo"]) {
                let what = format!("{id:?}: {}, 8 bits of {part}", pair.what);
                stats::check(&what, same, seeds, 1.0 / 256.0);
            }
            all[0] += pair.same_16;
            all[1] += 2 * seeds;
        }
        stats::check(&format!("{id:?}: 16 bits"), all[0], all[1], 1.0 / 65_536.0);
    }
}

/// Two related keys and how often parts of their hashes were the same.
struct Related {
    what: String,
    keys: Keys,
    /// The top 8 bits of `hi`, its low 8 bits, and those of `lo`.
    same_8: [u64; 4],
    /// The top 16 bits of `hi`, and the top 8 of both halves.
    same_16: u64,
}

enum Keys {
    Bytes([Vec<u8>; 2]),
    Integers([u64; 2]),
}

impl Related {
    fn new(what: String, keys: Keys) -> Self {
        Self { what, keys, same_8: [0; 4], same_16: 0 }
    }

    fn hashes(&self, hasher: &KeyHasher) -> [KeyHash; 2] {
        match &self.keys {
            Keys::Bytes(keys) => keys.each_ref().map(|key| hasher.bytes(key)),
            Keys::Integers(keys) => keys.map(|key| hasher.int(key)),
        }
    }

    fn count(&mut self, a: KeyHash, b: KeyHash) {
        let (hi, lo) = (a.hi ^ b.hi, a.lo ^ b.lo);
        let same = [hi >> 56 == 0, hi & 0xff == 0, lo >> 56 == 0, lo & 0xff == 0];
        for (count, same) in self.same_8.iter_mut().zip(same) {
            *count += u64::from(same);
        }
        self.same_16 += u64::from(hi >> 48 == 0) + u64::from(same[0] && same[2]);
    }
}

/// Pairs for every length class: one bit, one word, two words, the order of words, the length.
fn related_keys(random: &mut Random) -> Vec<Related> {
    let mut pairs = Vec::new();
    let mut bytes = |what: String, a: &[u8], b: &[u8]| {
        if a != b {
            pairs.push(Related::new(what, Keys::Bytes([a.to_vec(), b.to_vec()])));
        }
    };
    for length in [
        1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 100, 128, 129, 144, 145,
        256, 300, 896,
    ] {
        let key: Vec<u8> = (0..length).map(|_| random.word() as u8).collect();
        let name = |what: &str| format!("{length} bytes, {what}");
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut other = key.clone();
            change(&mut other);
            other
        };
        for bit in [0, 7, 63, 8 * length - 1, random.below(8 * length), random.below(8 * length)] {
            if bit < 8 * length {
                let other = changed(&|key| key[bit / 8] ^= 1 << (bit % 8));
                bytes(name(&format!("bit {bit}")), &key, &other);
            }
        }
        bytes(name("a zero more"), &key, &changed(&|key| key.push(0)));
        bytes(name("a one more"), &key, &changed(&|key| key.push(1)));
        bytes(name("one fewer"), &key, &changed(&|key| key.truncate(length - 1)));
        bytes(name("itself twice"), &key, &changed(&|key| key.extend_from_within(..)));
        if length < 8 {
            continue;
        }
        for difference in [1u64 << 63, 0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaab, u64::MAX] {
            let other =
                changed(&|other| set_word(other, 0, word(&key, 0).wrapping_add(difference)));
            bytes(name(&format!("first word + {difference:#x}")), &key, &other);
        }
        for apart in [8, 16, 64, 128, 12 * 64].into_iter().filter(|apart| apart + 8 <= length) {
            let twice = |change: u64| {
                changed(&|other| {
                    set_word(other, 0, word(&key, 0) ^ change);
                    set_word(other, apart, word(&key, apart) ^ change);
                })
            };
            bytes(name(&format!("bit 63 of words {apart} apart")), &key, &twice(1 << 63));
            bytes(name(&format!("all bits of words {apart} apart")), &key, &twice(u64::MAX));
            let swapped = changed(&|other| {
                set_word(other, 0, word(&key, apart));
                set_word(other, apart, word(&key, 0));
            });
            bytes(name(&format!("words {apart} apart swapped")), &key, &swapped);
        }
    }
    for length in 0..=140 {
        let run = vec![b'x'; length + 1];
        bytes(format!("{length} x and one more"), &run[..length], &run);
    }
    let bits = (0..64).map(|bit| 1 << bit);
    let multiples = (1..=16).flat_map(|n| [n, n << 32, 0u64.wrapping_sub(n)]);
    let structured = [3, 5, 15, 17, 255, 257, 641, 65_537, 6_700_417].map(|n| u64::MAX / n);
    for difference in bits.chain(multiples).chain(structured) {
        for value in [0, random.word()] {
            let keys = [value, value.wrapping_add(difference)];
            pairs.push(Related::new(
                format!("integers {value:#x} + {difference:#x}"),
                Keys::Integers(keys),
            ));
        }
    }
    pairs
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}
