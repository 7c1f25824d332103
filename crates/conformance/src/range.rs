//! A range that holds a key is reported, and the rate of ranges without one is within its bound.

use tamis::plan::solve;
use tamis::{BuildOptions, Goal, KeyHash, Keyed, Limits, Range, Settings};

use crate::keys::Random;
use crate::members::bytes;
use crate::{Effort, Subject, stats};

/// Builds a filter of these numbers for ranges of `length` numbers.
fn build<F: Subject>(seed: [u64; 2], length: u64, fpr: f64, numbers: &[u64]) -> F {
    let hashes: Vec<KeyHash> = numbers.iter().map(|hi| KeyHash { hi: *hi, lo: 0 }).collect();
    let settings = Settings::new().with("range_length", length);
    let fit = |keys| solve(Goal::KeysFpr { keys, fpr }, &settings);
    F::build_with(&BuildOptions::new().seed(seed), fit, &hashes[..]).expect("there is a shape")
}

/// Returns numbers that are random, in clusters, or at the ends of the range.
fn numbers(random: &mut Random, round: u64, count: u64) -> Vec<u64> {
    let base = random.word();
    let number = |at: u64, random: &mut Random| match round % 4 {
        0 => random.word(),
        1 => base.wrapping_add(at),
        2 => base.wrapping_add(at * 100),
        _ => [at, at.wrapping_neg(), random.word()][random.below(3)],
    };
    (0..count).map(|at| number(at, random)).collect()
}

/// Checks ranges around every key, also ranges that are longer than planned, that wrap around, and that
/// are answered by a filter from a file.
pub fn ranges_with_a_key_are_reported<F: Subject + Range>() {
    let effort = Effort::now();
    let mut random = effort.random(66);
    for round in 0..effort.times(120) {
        let numbers = numbers(&mut random, round, [1, 2, 60, 1000][(round / 4 % 4) as usize]);
        let length = 1 << random.below(20);
        let built = build::<F>(random.seed(), length, 0.01, &numbers);
        let hasher = tamis::KeyHasher::new(F::KIND.default_hash(), random.seed());
        let written = bytes(&Keyed::new(hasher, built));
        let filter = Keyed::<F>::read_from(&written[..], &Limits::default()).expect("sound");
        let (mut ranges, mut out) = (Vec::new(), vec![false; 4 * numbers.len()]);
        for number in &numbers {
            for most in [1, length, 4 * length, u64::MAX] {
                let [before, after] = [random.word() % most, random.word() % most];
                ranges.push((number.wrapping_sub(before), number.wrapping_add(after)));
            }
        }
        for (at, (first, last)) in ranges.iter().enumerate() {
            // Two long parts may pass each other on the circle of numbers, with the key outside.
            let number = numbers[at / 4];
            let covers = number.wrapping_sub(*first) <= last.wrapping_sub(*first);
            let found = filter.filter().contains_range(*first, *last);
            assert!(found || !covers, "{number} in {first}..={last}");
        }
        filter.filter().contains_range_batch(&ranges, &mut out);
        let single = ranges.iter().map(|range| filter.filter().contains_range(range.0, range.1));
        assert!(single.eq(out), "batches answer as single queries do");
    }
}

/// Counts answers to ranges without a key, over many seeds: uniform ranges, and ranges that begin right
/// after a key of a random or of a clustered set. None may exceed the bound, whatever their length.
pub fn ranges_get_in_within_their_bound<F: Subject + Range>() {
    const KEYS: u64 = 200;
    const PROBES: u64 = 20;
    let effort = Effort::now();
    let mut random = effort.random(67);
    let seeds = effort.times(2500);
    for (planned, length, fpr) in [(16, 16, 0.05), (1, 1, 0.05), (64, 7, 0.2), (10, 40, 0.02)] {
        for (what, clustered, after_keys) in
            [("uniform", false, false), ("after a key", false, true), ("in clusters", true, true)]
        {
            let (mut yes, mut asked, mut bound) = (0, 0, 0.0);
            for _ in 0..seeds {
                let base = random.word();
                let numbers: Vec<u64> = (0..KEYS)
                    .map(|at| match clustered {
                        true => base.wrapping_add(at * (length + 1)),
                        false => random.word(),
                    })
                    .collect();
                let filter = build::<F>(random.seed(), planned, fpr, &numbers);
                bound = filter.fpr_of_range(length);
                assert!(bound <= fpr * length as f64 / planned as f64 * (1.0 + 1e-9));
                for _ in 0..PROBES {
                    let first = match after_keys {
                        true => numbers[random.below(numbers.len())].wrapping_add(1),
                        false => random.word(),
                    };
                    let empty = |number: &u64| number.wrapping_sub(first) >= length;
                    if numbers.iter().all(empty) {
                        asked += 1;
                        yes +=
                            u64::from(filter.contains_range(first, first.wrapping_add(length - 1)));
                    }
                }
            }
            let allowed = stats::bounds(asked, bound, stats::ALPHA);
            assert!(asked > seeds * PROBES / 2, "{what}: only {asked} ranges without a key");
            assert!(yes < allowed.end, "{what} {length}: {yes} of {asked} at a bound of {bound}");
            // Other keys are spread over other blocks, so the bound is nearly met.
            if !clustered {
                let rate = yes as f64 / asked as f64;
                assert!(rate > 0.8 * bound, "{what} {length}: {rate} at a bound of {bound}");
            }
        }
    }
}
