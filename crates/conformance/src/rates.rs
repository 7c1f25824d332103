//! The false positive rate is the one that the shape states, no more and no less.
//!
//! Each filter has a rate of its own, slightly off the average over all seeds, so its answers are
//! not binomial around the stated rate. Pooled over `s` filters with `q` probes each, the variance
//! is that of a binomial times `1 + q v / p`, where `v` is the variance of the rate between
//! filters. For a Bloom filter of `m` bits, `v` is about `k^2 p^2 / 12 m`: with `q` at most the
//! number of keys, the excess is 1 or 2 %, and the binomial bounds are valid. The tests therefore
//! use many seeds with few probes each.

use tamis::Shape;
use tamis::{Capability, HashId, KeyHasher, Settings};

use crate::keys::{Form, Random};
use crate::members::shape;
use crate::{Effort, Subject, repeats, stats, variants};

/// Answers of the filters of many seeds to non-members.
struct Answers {
    asked: u64,
    yeses: u64,
    /// Mean of the stated rates, each for the filter's number of keys.
    stated: f64,
}

/// Looks `probes` non-members up in each of `seeds` filters with `keys` keys.
fn ask<F: Subject>(
    random: &mut Random,
    shape: &F::Shape,
    keys: u64,
    seeds: u64,
    probes: u64,
) -> Answers {
    let mut out = vec![false; probes as usize];
    let mut answers = Answers { asked: seeds * probes, yeses: 0, stated: 0.0 };
    let mut stated = Stated::of(shape);
    for _ in 0..seeds {
        let hasher = KeyHasher::new(HashId::Fast, random.seed());
        let members = Form::Integers.hashes(&hasher, 0, keys);
        let filter = F::build(shape.clone(), &members[..]).expect("within the capacity");
        answers.stated += stated.rate(filter.len()) / seeds as f64;
        let strangers = Form::Integers.hashes(&hasher, keys, probes);
        filter.contains_batch(&strangers, &mut out);
        answers.yeses += out.iter().filter(|yes| **yes).count() as u64;
    }
    answers
}

/// The rates that a shape states for what filters count. A bit array counts every key, so all state the same
/// rate; a table counts the keys that it can distinguish.
struct Stated<'a, S> {
    shape: &'a S,
    last: (u64, f64),
}

impl<'a, S: Shape> Stated<'a, S> {
    fn of(shape: &'a S) -> Self {
        Self { shape, last: (u64::MAX, 0.0) }
    }

    /// Returns the rate with `len` keys. The last one is kept, because most filters count as many keys as the one
    /// before.
    fn rate(&mut self, len: u64) -> f64 {
        if self.last.0 != len {
            self.last = (len, self.shape.fpr_at(len));
        }
        self.last.1
    }
}

/// Fills to capacity; the count must lie within the binomial bounds around the rate that the shape
/// expects for its keys, and around the one it expects for what the filters count. The promised rate
/// is the expected one, except that an adaptive kind promises the rate of the non-member with the
/// highest rate, and a kind that answers ranges promises the rate of its longest range.
fn as_stated<F: Subject>(
    random: &mut Random,
    keys: u64,
    fpr: f64,
    settings: &Settings,
    trials: u64,
) {
    let Some(shape) = shape::<F>(keys, fpr, settings) else { return };
    let stated = shape.figures();
    assert!(stated.keys == keys && stated.fpr <= fpr * (1.0 + 1e-9), "{shape:?}: {stated:?}");
    let answers = ask::<F>(random, &shape, keys, repeats::<F>(trials / keys), keys);
    let what = format!("{} {shape:?}", F::KIND);
    let mut expected = stated.fpr;
    if F::KIND.can(Capability::Adapt) || F::KIND.can(Capability::Range) {
        expected = shape.fpr_at(keys);
        assert!(expected <= stated.fpr, "{shape:?}: {stated:?}");
    }
    for rate in [expected, answers.stated] {
        stats::check(&what, answers.yeses, answers.asked, rate);
        let expected = rate * answers.asked as f64;
        // Enough to resolve 2 %, which is more than 6 standard deviations.
        if expected > 100_000.0 {
            let off = answers.yeses as f64 / expected - 1.0;
            assert!(off.abs() < 0.02, "{what}: {:+.2} % off", off * 100.0);
        }
    }
}

/// Checks the rate at capacity, from 30 % to 2^-16.
pub fn strangers_get_in_as_often_as_stated<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(11);
    let rates = [(0.3, 2), (0.0103, 10), (1.0 / 256.0, 10), (1e-3, 10), (1e-5, 10)];
    for (fpr, millions) in rates {
        let trials = effort.times(millions * 1_000_000);
        as_stated::<F>(&mut random, 5000, fpr, &Settings::default(), trials);
    }
    let trials = effort.times(1_000_000);
    as_stated::<F>(&mut random, 5000, 1.0 / 65_536.0, &Settings::default(), trials);
    as_stated::<F>(&mut random, 100_000, 0.01, &Settings::default(), effort.times(10_000_000));
}

/// Checks the rate of filters of a few cache lines, where approximations for large ones fail.
pub fn strangers_get_in_as_often_as_stated_in_small_filters<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(12);
    for keys in [10, 50, 200] {
        for fpr in [0.3, 0.01] {
            let trials = effort.times(5_000_000);
            as_stated::<F>(&mut random, keys, fpr, &Settings::default(), trials);
        }
    }
}

/// Checks the rate that the shape states at half load.
pub fn strangers_get_in_as_often_as_stated_at_half_load<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(13);
    for fpr in [0.3, 0.01] {
        let Some(shape) = shape::<F>(5000, fpr, &Settings::default()) else { continue };
        let seeds = repeats::<F>(effort.times(4000));
        let answers = ask::<F>(&mut random, &shape, 2500, seeds, 2500);
        let what = format!("{} {shape:?} at half load", F::KIND);
        stats::check(&what, answers.yeses, answers.asked, answers.stated);
    }
}

/// Checks the rate with every setting.
pub fn strangers_get_in_as_often_as_stated_whatever_the_settings<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(14);
    for settings in variants::<F::Shape>() {
        let trials = effort.times(2_000_000);
        as_stated::<F>(&mut random, 5000, 0.05, &settings, trials);
    }
}

/// Checks that keys hashed with a related seed are non-members of a filter.
pub fn another_seed_makes_members_strangers<F: Subject>() {
    const KEYS: u64 = 200;
    let effort = Effort::now();
    let mut random = effort.random(15);
    let Some(shape) = shape::<F>(KEYS, 0.02, &Settings::default()) else { return };
    let pairs = repeats::<F>(effort.times(10_000));
    for (id, form) in crate::keys::ORIGINS {
        let (mut yeses, mut expected, mut stated) = (0, 0.0, Stated::of(&shape));
        for pair in 0..pairs {
            let [a, b] = related_seeds(&mut random, pair);
            let members = form.hashes(&KeyHasher::new(id, a), 0, KEYS);
            let filter = F::build(shape.clone(), &members[..]).expect("within the capacity");
            expected += stated.rate(filter.len()) / pairs as f64;
            let others = form.hashes(&KeyHasher::new(id, b), 0, KEYS);
            yeses += others.iter().filter(|key| filter.contains(**key)).count() as u64;
        }
        let what = format!("{} {id:?} {form:?} under a related seed", F::KIND);
        stats::check(&what, yeses, pairs * KEYS, expected);
    }
}

/// Returns two seeds that differ by a bit, by 1, or in their order.
pub fn related_seeds(random: &mut Random, pair: u64) -> [[u64; 2]; 2] {
    // Small numbers are typical of seeds that users choose.
    let [x, y] = if pair.is_multiple_of(2) { random.seed() } else { [pair, pair + 1] };
    let bit = 1 << random.below(64);
    let other = match pair / 2 % 6 {
        0 => [x ^ bit, y],
        1 => [x, y ^ bit],
        2 => [y, x],
        3 => [x.wrapping_add(1), y],
        4 => [x, y.wrapping_sub(1)],
        _ => [x ^ bit, y ^ bit],
    };
    [[x, y], other]
}
