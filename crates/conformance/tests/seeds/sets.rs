//! Sets of keys with little randomness in them: non-members get in as often as the filter states.

use tamis::{
    BinaryFuse, Bloom, CountingQuotient, Cuckoo, HashId, KeyHash, KeyHasher, Ribbon, Settings,
    Shape,
};
use tamis_conformance::members::shape;
use tamis_conformance::{Effort, Subject, stats};

/// The members of each filter, and the non-members that it is asked for.
const KEYS: usize = 5_000;

/// A way to turn a value into a hash.
type HashValue = fn(&KeyHasher, u64) -> KeyHash;

#[test]
fn sets_of_similar_keys_get_the_stated_rate() {
    check_kind::<Bloom>();
    check_kind::<BinaryFuse>();
    check_kind::<Cuckoo>();
    check_kind::<Ribbon>();
    check_kind::<CountingQuotient>();
}

fn check_kind<F: Subject>() {
    let forms: [(&str, HashValue); 3] = [
        ("integers", |hasher, value| hasher.int(value)),
        ("8 bytes", |hasher, value| hasher.bytes(&value.to_le_bytes())),
        ("24 bytes", |hasher, value| {
            let mut key = *b"common beginning,       ";
            key[16..].copy_from_slice(&value.to_be_bytes());
            hasher.bytes(&key)
        }),
    ];
    for (set, values) in sets() {
        for (form, hash) in forms {
            for (fpr, seeds) in [(1.0 / 256.0, 20), (1.0 / 65_536.0, 40)] {
                check::<F>(&format!("{set} as {form}"), &values, hash, fpr, seeds);
            }
        }
    }
}

fn check<F: Subject>(what: &str, values: &[u64], hash: HashValue, fpr: f64, seeds: u64) {
    let effort = Effort::now();
    let mut random = effort.random(71);
    let shape = shape::<F>(KEYS as u64, fpr, &Settings::default()).expect("a common rate");
    let (seeds, mut yeses) = (effort.times(seeds), 0);
    for _ in 0..seeds {
        let hasher = KeyHasher::new(HashId::Fast, random.seed());
        // Members and non-members take turns, so that each has close relatives on the other side.
        let hashes: Vec<KeyHash> = values.iter().map(|value| hash(&hasher, *value)).collect();
        let members: Vec<KeyHash> = hashes.iter().copied().step_by(2).collect();
        let others: Vec<KeyHash> = hashes.into_iter().skip(1).step_by(2).collect();
        let filter = F::build(shape.clone(), &members[..]).expect("as many keys as it is for");
        assert!(members.iter().all(|key| filter.contains(*key)), "{what}: a member is denied");
        yeses += others.iter().filter(|key| filter.contains(**key)).count() as u64;
    }
    let what = format!("{} at {fpr:.1e}, {what}", F::KIND);
    stats::check(&what, yeses, seeds * KEYS as u64, shape.figures().fpr);
}

/// Sets of 2 * KEYS values each.
fn sets() -> [(&'static str, Vec<u64>); 5] {
    let numbers = || 0..2 * KEYS as u64;
    // Sums of three different powers of two.
    let sparse = || {
        let bits = (0..64).flat_map(|a| (0..a).map(move |b| (a, b)));
        let sums = bits.flat_map(|(a, b)| (0..b).map(move |c| 1u64 << a | 1 << b | 1 << c));
        sums.take(2 * KEYS)
    };
    [
        ("consecutive numbers", numbers().collect()),
        ("multiples of 2^32", numbers().map(|number| number << 32).collect()),
        ("numbers a third of 2^64 apart", {
            numbers().map(|number| number / 3 + number % 3 * (u64::MAX / 3)).collect()
        }),
        ("sums of three powers of two", sparse().collect()),
        ("three bits of one number", sparse().map(|bits| bits ^ 0x0123_4567_89ab_cdef).collect()),
    ]
}
