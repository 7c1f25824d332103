//! Every key has its value, and keeps it when other values change.

use std::collections::BTreeSet;

use tamis::plan::solve;
use tamis::{
    BuildMap, BuildOptions, Error, Goal, HashId, KeyHash, KeyHasher, Keyed, Limits, Map, Settings,
    Shape,
};

use crate::keys::{Form, Random};
use crate::members::bytes;
use crate::{Effort, Subject, stats};

const HASHER: [u64; 2] = [61, 62];

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Fast, HASHER)
}

fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    Form::Integers.hashes(&hasher(), from, count)
}

/// Returns `count` values of `bits` bits, one of them with all bits set.
fn values(random: &mut Random, count: u64, bits: u32) -> Vec<u64> {
    (0..count).map(|at| if at == 0 { !0 } else { random.word() } >> (64 - bits)).collect()
}

fn try_build<F: Subject + BuildMap>(
    fpr: f64,
    bits: Option<u32>,
    threads: usize,
    entries: &[(KeyHash, u64)],
) -> Result<F, Error> {
    let fit = |keys, widest: u32| {
        let mut settings = Settings::default();
        settings.set("value_bits", bits.unwrap_or(widest));
        solve(Goal::KeysFpr { keys, fpr }, &settings)
    };
    F::build_map_with(&BuildOptions::new().threads(threads), fit, entries)
}

fn build<F: Subject + BuildMap>(fpr: f64, entries: &[(KeyHash, u64)]) -> F {
    try_build(fpr, None, 1, entries).expect("the entries are valid")
}

fn all<F: Map>(filter: &F, entries: &[(KeyHash, u64)], how: &str) {
    for (at, (key, value)) in entries.iter().enumerate() {
        assert_eq!(filter.get(*key), Some(*value), "key {at} of {} {how}", entries.len());
        assert!(filter.contains(*key));
    }
    let keys: Vec<KeyHash> = entries.iter().map(|(key, _)| *key).collect();
    let mut out = vec![None; keys.len() + 3];
    filter.get_batch(&keys, &mut out);
    assert!(entries.iter().zip(&out).all(|((_, value), got)| *got == Some(*value)), "in a batch");
    assert_eq!(out[keys.len()..], [None; 3], "answers past the keys are not touched");
}

/// Checks values of every width, with and without check bits, after building, reading and mapping.
/// The bytes do not depend on the number of threads.
pub fn every_key_gets_its_value<F: Subject + BuildMap>() {
    let effort = Effort::now();
    let mut random = effort.random(61);
    for (keys, rounds) in [(0, 1), (1, 20), (2, 20), (100, 20), (3000, 4), (50_000, 1)] {
        for bits in [1, 2, 3, 7, 8, 13, 31, 32, 33, 57, 58, 63, 64] {
            for fpr in [0.9, 0.01, 1e-7] {
                for _ in 0..effort.times(rounds.min(2)) {
                    let keys = hashes(random.word() >> 1, keys);
                    let values = values(&mut random, keys.len() as u64, bits);
                    let entries: Vec<_> = keys.into_iter().zip(values).collect();
                    let filter: F = build(fpr, &entries);
                    assert_eq!(filter.len(), entries.len() as u64);
                    assert_eq!(filter.value_bits(), if entries.is_empty() { 1 } else { bits });
                    all(&filter, &entries, "after building");
                    let keyed = Keyed::new(hasher(), filter);
                    let written = bytes(&keyed);
                    let read = Keyed::<F>::read_from(&written[..], &Limits::default());
                    all(read.expect("what was just written").filter(), &entries, "after reading");
                    let threads: F = try_build(fpr, None, 3, &entries).expect("as on one");
                    assert!(
                        bytes(&Keyed::new(hasher(), threads)) == written,
                        "the bytes depend on the threads"
                    );
                }
            }
        }
    }
}

/// Checks that setting one key's value leaves the others as they are and lasts through a file, and
/// that a filter whose values were set equals one that is built from them.
pub fn updates_disturb_nobody<F: Subject + BuildMap>() {
    let mut random = Effort::now().random(62);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("map.tamis");
    for bits in [1, 5, 40, 64] {
        let keys = hashes(0, 300);
        let values = [0; 2].map(|_| values(&mut random, 300, bits));
        let [mut now, new] =
            values.map(|values| keys.iter().copied().zip(values).collect::<Vec<_>>());
        let mut filter: F = build(0.01, &now);
        for (at, (key, value)) in new.iter().enumerate() {
            assert_eq!(filter.set(*key, *value).expect("as wide"), Some(now[at].1));
            now[at].1 = *value;
            all(&filter, &now, "after one was set");
        }
        assert_eq!(filter, build(0.01, &new));
        Keyed::new(hasher(), filter).save(&path).expect("room for a file");
        // The first value that is set copies a mapped file, and the file stays as it is.
        let mut opened = Keyed::<F>::open_verified(&path).expect("what was just saved");
        all(opened.filter(), &new, "in a mapped file");
        let other = new[7].1 ^ 1;
        opened.filter_mut().set(new[7].0, other).expect("as wide");
        assert_eq!(opened.filter().get(new[7].0), Some(other));
        all(Keyed::<F>::open(&path).expect("as before").filter(), &new, "after a copy was changed");
        let _ = std::fs::remove_file(&path);
    }
}

/// Checks that a non-member has a value as rarely as the shape states, and that an absent key
/// cannot be set.
pub fn strangers_are_absent<F: Subject + BuildMap>() {
    const KEYS: u64 = 1000;
    let effort = Effort::now();
    let mut random = effort.random(63);
    for (fpr, bits) in [(0.9, 3), (0.2, 64), (0.01, 1), (1e-3, 17)] {
        let (rounds, mut present, mut stated) = (effort.times(300), 0, 0.0);
        for _ in 0..rounds {
            let hasher = KeyHasher::new(HashId::Fast, random.seed());
            let keys = Form::Integers.hashes(&hasher, 0, KEYS);
            let values = values(&mut random, KEYS, bits);
            let mut filter: F = build(fpr, &keys.into_iter().zip(values).collect::<Vec<_>>());
            stated = filter.shape().figures().fpr;
            let strangers = Form::Integers.hashes(&hasher, KEYS, KEYS);
            let mut out = vec![None; strangers.len()];
            filter.get_batch(&strangers, &mut out);
            present += out.iter().flatten().count() as u64;
            let absent = strangers.iter().zip(&out).find(|(_, value)| value.is_none());
            if let Some((stranger, _)) = absent {
                let before = filter.clone();
                assert_eq!(filter.set(*stranger, 0).expect("as wide"), None);
                assert!(filter == before, "setting an absent key changed the filter");
            }
        }
        stats::check(
            &format!("{} values for non-members at {fpr}", F::KIND),
            present,
            rounds * KEYS,
            stated,
        );
    }
}

/// Checks that a value that is too wide and two values for one key are errors that change nothing,
/// and that equal duplicates count once.
pub fn values_that_cannot_be_are_refused<F: Subject + BuildMap>() {
    let keys = hashes(0, 100);
    let mut entries: Vec<_> = keys.iter().map(|key| (*key, key.lo & 7)).collect();
    entries[0].1 = 7;
    let mut filter: F = build(0.01, &entries);
    let before = filter.clone();
    for (value, told) in [(8, 8), (u64::MAX, u64::MAX)] {
        let error = filter.set(keys[5], value).expect_err("too wide");
        assert!(matches!(error, Error::Value { value, bits: 3 } if value == told), "{error}");
    }
    assert!(filter == before, "a refused value changed the filter");
    let error = try_build::<F>(0.01, Some(2), 1, &entries).expect_err("too wide");
    assert!(matches!(error, Error::Value { value: 4..8, bits: 2 }), "{error}");

    let twice: Vec<_> = entries.iter().chain(&entries).copied().collect();
    assert_eq!(build::<F>(0.01, &twice), before);
    for threads in [1, 3] {
        let mut torn = twice.clone();
        torn[142].1 ^= 1;
        let error = try_build::<F>(0.01, None, threads, &torn).expect_err("two values");
        assert!(
            matches!(error, Error::Conflict { digest, .. } if digest == keys[42].hi),
            "{error}"
        );
    }
}

/// Checks values of keys whose hashes are equal or nearly equal.
pub fn degenerate_hashes_have_values<F: Subject + BuildMap>() {
    const KEYS: u64 = 1000;
    let mut random = Random::new(64);
    let sets: [Vec<u64>; 4] = [
        (0..KEYS).collect(),
        (0..KEYS).map(|at| at << 54).collect(),
        (0..KEYS).map(|at| u64::MAX - at * 3).collect(),
        (0..KEYS).map(|at| ((at % 2) << 63) | (random.word() >> 40)).collect(),
    ];
    for set in sets {
        let digests: BTreeSet<u64> = set.into_iter().collect();
        let entries: Vec<_> = digests
            .into_iter()
            .zip(0..)
            .map(|(hi, at)| (KeyHash { hi, lo: 0 }, at & 0xff))
            .collect();
        let mut filter: F = build(0.01, &entries);
        all(&filter, &entries, "with degenerate hashes");
        let new: Vec<_> = entries.iter().map(|(key, value)| (*key, value ^ 0x55)).collect();
        for (key, value) in &new {
            filter.set(*key, *value).expect("as wide");
        }
        all(&filter, &new, "after all were set");
    }
}

/// Checks that any sequence of reads, writes and files agrees with an exact map.
pub fn random_sets_agree_with_a_map<F: Subject + BuildMap>() {
    let effort = Effort::now();
    let mut random = effort.random(65);
    for (keys, bits) in [(1, 64), (5, 3), (60, 9), (1000, 1), (5000, 33)] {
        let set = hashes(random.word() >> 1, keys);
        let mut truth = values(&mut random, keys, bits);
        let entries: Vec<_> = set.iter().copied().zip(truth.iter().copied()).collect();
        let mut filter: F = build(0.05, &entries);
        for _ in 0..effort.times(200_000) {
            let at = random.below(set.len());
            match random.below(100_000) {
                0 => {
                    let written = bytes(&Keyed::new(hasher(), filter));
                    let read = Keyed::<F>::read_from(&written[..], &Limits::default());
                    filter = read.expect("what was just written").into_parts().1;
                }
                1..50_000 => {
                    let value = random.word() >> (64 - bits);
                    let old = filter.set(set[at], value).expect("as wide");
                    assert_eq!(old, Some(std::mem::replace(&mut truth[at], value)));
                }
                _ => assert_eq!(filter.get(set[at]), Some(truth[at])),
            }
        }
        let entries: Vec<_> = set.iter().copied().zip(truth.iter().copied()).collect();
        all(&filter, &entries, "in the end");
    }
}
