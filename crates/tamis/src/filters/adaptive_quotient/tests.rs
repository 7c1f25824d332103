//! Private invariants: marks, levels and repairs.

use super::*;
use crate::filters::common::digests::tests::{key_of, unmix};
use crate::hash::{HashId, Key, KeyHasher};

fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [seed, 21]);
    keys.map(|key| key.hash_with(&hasher)).collect()
}

fn of(range: &RangeInclusive<u64>, members: &[KeyHash]) -> Vec<KeyHash> {
    members.iter().copied().filter(|key| range.contains(&key.hi)).collect()
}

/// After a sweep few marks are left: those of keys that got a dead fingerprint under the new
/// function. All others were for fingerprints that are gone.
#[test]
fn a_sweep_drops_most_marks() {
    let members = hashes(1, 0..5000);
    let shape = AdaptiveQuotientShape::fit(5000, 0.02).unwrap();
    let mut filter = AdaptiveQuotient::build(shape, &members[..]).unwrap();
    let mut dead = 0;
    for x in hashes(1, 1 << 40..(1 << 40) + 9000) {
        if filter.contains(x) {
            assert_eq!(filter.adapt(x, &of(&filter.suspects(x), &members)), Repair::Extended);
            dead += 1;
        }
    }
    let marks =
        |filter: &AdaptiveQuotient| filter.marks.table().iter().filter(|mark| **mark != 0).count();
    assert!(dead > 20 && marks(&filter) >= 2 * dead);
    filter.state[2] = filter.pieces();
    while let Some(range) = filter.due() {
        filter.renew(&of(&range, &members));
        assert!(members.iter().step_by(7).all(|key| filter.contains(*key)));
    }
    assert_eq!(filter.sweeps(), 1);
    assert!(marks(&filter) <= dead / 5, "{} marks of {dead} repairs", marks(&filter));
    assert!(members.iter().all(|key| filter.contains(*key)) && filter.len() == 5000);
    filter.validate().unwrap();
}

fn with_levels(keys: u64, fpr: f64, levels: u64) -> AdaptiveQuotientShape {
    let mut settings = Settings::default();
    settings.set(LEVELS.name, levels);
    AdaptiveQuotientShape::fit_with(keys, fpr, &settings).unwrap()
}

/// False positives are rejected in every level, members are found there, and nothing is left when all are
/// removed. Without sweeps the levels grow.
#[test]
fn every_level_is_reached_and_grows() {
    let members = hashes(3, 0..400);
    for levels in [2, 3] {
        // Short fingerprints, so that many non-members match in level 1 too.
        let table = QuotientShape::new(9, 1, 401).unwrap();
        let upper = (1..levels).map(|_| QuotientShape::of_bits(50, 11).unwrap()).collect();
        let shape = AdaptiveQuotientShape::new(table, upper, 400);
        let mut filter = AdaptiveQuotient::build(shape, &members[..300]).unwrap();
        let mut accepted = [0; 4];
        for (i, x) in hashes(3, 1 << 40..(1 << 40) + 4000).into_iter().enumerate() {
            if let Some(key) = members.get(300 + i) {
                filter.insert(*key).unwrap();
            }
            let present = &members[..members.len().min(301 + i)];
            let mapped = filter.map(x);
            if filter.contains(x) {
                accepted[filter.accepting_level(x, &mapped).unwrap()] += 1;
                let suspects = of(&filter.suspects(x), present);
                assert_eq!(filter.adapt(x, &suspects), Repair::Extended);
                assert!(!filter.contains(x));
            }
            if i % 500 == 0 {
                assert!(present.iter().all(|key| filter.contains(*key)), "a false negative");
            }
        }
        assert!(accepted[1] > 50 && accepted[levels - 1] > 0, "{accepted:?}");
        assert!(filter.upper[0].shape().keys() > filter.shape.upper[0].keys());
        filter.validate().unwrap();
        while let Some(range) = filter.due() {
            filter.renew(&of(&range, &members));
        }
        assert!(filter.sweeps() > 10 && members.iter().all(|key| filter.contains(*key)));
        assert!(members.iter().all(|key| filter.remove(*key)) && filter.is_empty());
        assert!(filter.upper.iter().all(Filter::is_empty));
        assert!(filter.marks.table().iter().all(|mark| *mark == 0));
    }
}

/// The memory that further levels save, and where they save none.
#[test]
fn documented_levels() {
    let bits = |fpr, levels| {
        let [all, table] = [
            with_levels(10_000_000, fpr, levels).figures(),
            with_levels(10_000_000, fpr, levels).table.figures(),
        ];
        (all.bytes - table.bytes) as f64 * 8.0 / 1e7
    };
    for (fpr, expected) in [
        (0.25, [0.83, 0.50, 0.52]),
        (1.0 / 16.0, [0.83, 0.55, 0.55]),
        (1.0 / 32.0, [0.83, 0.64, 0.64]),
        (1.0 / 256.0, [0.83, 0.74, 0.74]),
    ] {
        for (levels, expected) in (1..).zip(expected) {
            let bits = bits(fpr, levels);
            assert!((bits - expected).abs() < 0.006, "{fpr} {levels}: {bits}");
        }
    }
}

/// Members with a dead fingerprint, old and new, with one or two copies, are inserted and
/// removed.
#[test]
fn members_with_a_dead_fingerprint_can_be_removed() {
    let table = QuotientShape::new(2, 1, 3).unwrap();
    let shape = AdaptiveQuotientShape::new(table, Upper::new(), 2);
    let mut filter = AdaptiveQuotient::new(shape).unwrap();
    let all = hashes(2, 0..100);
    let fp = filter.map(all[0]).fingerprint;
    let alike: Vec<KeyHash> =
        all.into_iter().filter(|key| filter.map(*key).fingerprint == fp).take(3).collect();
    let [a, b, x] = alike[..] else { panic!("too few of one fingerprint") };
    filter.insert(a).unwrap();
    assert_eq!(filter.adapt(x, &[a]), Repair::Extended);
    assert!(filter.contains(a) && !filter.contains(b) && !filter.contains(x));
    filter.insert(b).unwrap();
    assert!(filter.contains(a) && filter.contains(b) && !filter.contains(x));
    assert!(!filter.remove(x) && filter.remove(a) && !filter.contains(a));
    filter.insert(b).unwrap();
    assert!(filter.remove(b) && filter.contains(b) && filter.remove(b));
    assert!(filter.is_empty() && filter.marks.table().iter().all(|mark| *mark == 0));
}

/// Members keep their answers beside keys and fingerprints whose marks were theirs until layout 2.
#[test]
fn marks_of_different_origin_differ() {
    let members = hashes(4, 0..1000);
    let shape = AdaptiveQuotientShape::fit(1200, 0.01).unwrap();
    let mut filter = AdaptiveQuotient::build(shape, &members[..]).unwrap();
    for (lo, member) in (0..).zip(&members[..50]) {
        let fingerprint = filter.map(*member).fingerprint;
        for digest in [fingerprint, mix(fingerprint)] {
            let key = key_of(lo, digest);
            filter.insert(key).unwrap();
            let mut alike = of(&filter.suspects(key), &members);
            alike.push(key);
            filter.declare_dead(0, key, &alike).unwrap();
            assert!(filter.contains(key) && members.iter().all(|key| filter.contains(*key)));
        }
    }
    filter.validate().unwrap();
    // Fingerprints of levels 0 and 1.
    let dead = |level, fingerprint| {
        AdaptiveQuotient::dead_mark(&Mapped { hash: members[0], level, fingerprint })
    };
    let clash = |low: u64| unmix(low.wrapping_sub(1)) ^ 0x9e37_79b9_7f4a_7c15;
    let low = (0..).find(|low| clash(*low) < 1 << MARK_BITS).unwrap();
    assert!(dead(1, clash(low)) != dead(0, low) && dead(1, low) != dead(2, low));
}

/// A repair of a key in another range than a member with the same digest keeps the mark of the member.
#[test]
fn a_repair_deletes_no_mark_of_another_range() {
    let shape = AdaptiveQuotientShape::fit(100_000, 0.01).unwrap();
    let mut filter = AdaptiveQuotient::new(shape).unwrap();
    let [member, gone] = [1, 2].map(|lo| key_of(lo, 0x1234_5678_9abc_def0));
    assert!(!filter.suspects(gone).contains(&member.hi));
    filter.insert(member).unwrap();
    filter.declare_dead(0, member, &[member]).unwrap();
    // Its fingerprint is dead, and it has no mark: the store no longer had it.
    filter.insert(gone).unwrap();
    filter.declare_dead(0, gone, &[]).unwrap();
    assert!(filter.contains(member) && !filter.contains(gone));
    assert_eq!(filter.adapt(gone, &[]), Repair::NotNeeded);
    assert!(filter.contains(member));
}

#[test]
fn documented_size() {
    let keys = (1 << 24) / 10 * 9 - 10;
    let figures = AdaptiveQuotientShape::fit(keys, 1.0 / 256.0).unwrap().figures();
    assert!(figures.bits_per_key() < 14.2 && figures.fpr <= 1.0 / 256.0, "{figures:?}");
}
