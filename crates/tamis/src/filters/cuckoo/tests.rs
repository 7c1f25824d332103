use super::*;
use crate::hash::{HashId, Key, KeyHasher};
use std::collections::HashMap;
use tamis_bits::range::{self, mix};

fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [seed, 8]);
    keys.map(|key| key.hash_with(&hasher)).collect()
}

#[test]
fn the_other_of_the_other_is_the_first() {
    for buckets in (2..200).step_by(2).chain([1 << 20, (1 << 33) + 6, MAX_BUCKETS]) {
        // Only bucket numbers are computed, so the table has no words.
        let shape = CuckooShape { buckets, width: 32, keys: 0, sorted: false };
        let table = Table::from_words(&shape, Words::zeroed(0).unwrap());
        for step in 0..500 {
            let left = range::scale(mix(step), buckets / 2);
            let fp = 1 + mix(step + 1000) % 0xffff_ffff;
            let [_, right] = table.place_at(left, fp).buckets;
            assert!((buckets / 2..buckets).contains(&right));
            assert_eq!([table.other(left, fp), table.other(right, fp)], [right, left]);
        }
    }
}

/// Compares tables of a few buckets with a multiset of classes: copies, chains of moves, the stash
/// and refusals.
#[test]
fn tiny_tables_agree_with_a_multiset() {
    let plain = [4, 5, 8, 12, 15, 16, 17, 32].map(|width| (width, false));
    let sorted = [5, 8, 13, 16].map(|width| (width, true));
    for (width, sorted) in plain.into_iter().chain(sorted) {
        for buckets in [2, 4, 6, 16, 30] {
            let mut shape = CuckooShape::new(buckets, width, buckets * SLOTS).unwrap();
            if sorted {
                shape = shape.semi_sorted().unwrap();
            }
            let mut filter = Cuckoo::new(shape).unwrap();
            let keys = hashes(u64::from(width) << 8 | buckets, 0..buckets * 5);
            let mut model = HashMap::<[u64; 2], u64>::new();
            let class = |filter: &Cuckoo, key: KeyHash| {
                let place = filter.table.place::<0>(key);
                [place.buckets[0], place.fingerprint]
            };
            let mut refused = 0;
            for step in 0..25_000 {
                let key = keys[range::scale(mix(step), keys.len() as u64) as usize];
                let count = model.entry(class(&filter, key)).or_default();
                assert_eq!(filter.contains(key), *count > 0);
                if mix(step ^ 0xaaaa_0000) % 16 < 9 {
                    let before = mix(step).is_multiple_of(16).then(|| filter.clone());
                    match filter.insert(key) {
                        Ok(()) => *count += 1,
                        Err(Full { .. }) => {
                            refused += 1;
                            assert!(before.is_none_or(|before| before == filter));
                        }
                    }
                } else {
                    assert_eq!(filter.remove(key), *count > 0);
                    *count = count.saturating_sub(1);
                }
                if step % 64 == 0 {
                    filter.validate().unwrap();
                    assert!(keys.iter().all(|key| {
                        let count = model.get(&class(&filter, *key));
                        filter.contains(*key) == count.is_some_and(|count| *count > 0)
                    }));
                }
            }
            assert!(refused > 0, "the table was never full");
            assert_eq!(filter.len(), model.values().sum::<u64>());
        }
    }
}

#[test]
fn eight_copies_and_the_stash() {
    for width in [4, 12, 20] {
        let shape = CuckooShape::new(1000, width, 3000).unwrap();
        let mut filter = Cuckoo::build(shape, &hashes(1, 1..500)[..]).unwrap();
        let (len, key) = (filter.len(), hashes(1, 0..1)[0]);
        let copies = (0..1_000_000).take_while(|_| filter.insert(key).is_ok()).count();
        assert!((8..=12).contains(&copies) && filter.stashed() == STASH_ENTRIES, "{copies} copies");
        let before = filter.clone();
        assert_eq!(filter.insert(key), Err(Full::NONE));
        assert_eq!(filter, before);
        assert!((0..copies).all(|_| filter.remove(key)));
        filter.validate().unwrap();
        assert_eq!((filter.len(), filter.stashed()), (len, 0));
        assert!(hashes(1, 1..500).iter().all(|key| filter.contains(*key)));
    }
}

/// A table of the planned size holds the planned number of keys.
#[test]
fn planned_tables_do_not_fail() {
    for (keys, rounds) in [(1, 2000), (7, 2000), (30, 2000), (64, 2000), (300, 400), (3000, 40)] {
        for fpr in [0.5, 0.3, 0.05, 0.002] {
            let shape = CuckooShape::fit(keys, fpr).unwrap();
            for round in 0..rounds {
                let keys = hashes(mix(keys << 20 | round), 0..keys);
                Cuckoo::build(shape.clone(), &keys[..]).unwrap();
            }
        }
    }
}

#[test]
fn the_rate_is_that_of_the_classes() {
    const NON_MEMBERS: u64 = 2_000_000;
    for (buckets, width, keys) in [(2, 8, 7), (300, 5, 1000), (300, 8, 1100), (300, 17, 1100)] {
        let shape = CuckooShape::new(buckets, width, keys).unwrap();
        let (mut passed, mut expected) = (0, 0.0);
        for seed in 0..16 {
            let filter = Cuckoo::build(shape.clone(), &hashes(seed, 0..keys)[..]).unwrap();
            let non_members = hashes(seed, 1 << 40..(1 << 40) + NON_MEMBERS / 16);
            passed += non_members.iter().filter(|key| filter.contains(**key)).count();
            expected += shape.fpr_at(keys) * NON_MEMBERS as f64 / 16.0;
        }
        // Non-members of one filter meet the same few classes: the variance is slightly above
        // binomial.
        let off = (passed as f64 - expected).abs();
        assert!(off < 5.0 * expected.sqrt() + 0.02 * expected, "{passed}, not {expected}");
    }
}

#[test]
fn documented_size() {
    let figures = CuckooShape::fit(10_000_000, 0.0019).unwrap().figures();
    assert!(figures.bits_per_key() < 12.6 && figures.fpr < 0.0019, "{figures:?}");
}

/// Semi-sorted buckets save one bit per fingerprint and nothing else.
#[test]
fn semi_sorted_buckets_save_a_bit() {
    let fit = |sorted: bool| {
        let mut settings = Settings::default();
        settings.set("f", 12u64);
        if sorted {
            settings.set("sorted", 1u64);
        }
        CuckooShape::fit_with(100_000, 0.01, &settings).unwrap()
    };
    let (plain, sorted) = (fit(false).figures(), fit(true).figures());
    assert_eq!(plain.fpr, sorted.fpr);
    let saved = plain.bits_per_key() - sorted.bits_per_key();
    assert!((1.04..1.06).contains(&saved), "{saved} bits per key");
    for width in [4, 17, 32] {
        assert!(CuckooShape::new(2, width, 8).unwrap().semi_sorted().is_err());
    }
    for refused in [0u64, 2] {
        let mut settings = Settings::default();
        settings.set("sorted", refused);
        assert!(CuckooShape::fit_with(1000, 0.01, &settings).is_err());
    }
}
