//! Compares with the plain quotient filter, and with a multiset of fingerprints.

use std::collections::BTreeMap;

use tamis_bits::range::mix;

use super::*;
use crate::filters::quotient::{Quotient, QuotientShape};
use crate::hash::{HashId, Key, KeyHasher};

type Model = BTreeMap<u64, u64>;

/// Returns the least hash with this fingerprint.
fn hash(shape: &CountingQuotientShape, fingerprint: u64) -> KeyHash {
    let hash = (u128::from(fingerprint) << 64).div_ceil(u128::from(shape.fingerprints()));
    KeyHash { hi: hash as u64, lo: 0 }
}

fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [seed, 11]);
    keys.map(|key| key.hash_with(&hasher)).collect()
}

fn from_sorted(
    shape: &CountingQuotientShape,
    entries: impl Iterator<Item = (u64, u64)>,
) -> Result<CountingQuotient, Error> {
    CountingQuotient::from_sorted(shape, entries, || Ok(()))
}

fn built(shape: &CountingQuotientShape, model: &Model) -> CountingQuotient {
    let entries = model.iter().map(|(fingerprint, count)| (*fingerprint, *count));
    from_sorted(shape, entries.filter(|(_, count)| *count > 0)).unwrap()
}

fn check(filter: &CountingQuotient, model: &Model) {
    filter.validate().unwrap();
    let entries = model.iter().map(|(fingerprint, count)| (*fingerprint, *count));
    assert!(filter.fingerprints().eq(entries.filter(|(_, count)| *count > 0)));
    assert_eq!(filter, &built(filter.shape(), model));
    assert_eq!(filter.len(), model.values().sum::<u64>());
}

/// Applies one operation to the filter and the model.
fn step(filter: &mut CountingQuotient, model: &mut Model, fingerprint: u64, insert: bool) {
    let key = hash(filter.shape(), fingerprint);
    let copies = model.entry(fingerprint).or_default();
    if insert {
        *copies += 1;
        if filter.insert(key).is_err() {
            // A build of the same keys fails as well.
            let entries = model.iter().map(|(fingerprint, count)| (*fingerprint, *count));
            let entries = entries.filter(|(_, count)| *count > 0);
            let most = filter.shape.keys;
            assert!(
                filter.len() == most || from_sorted(&filter.shape, entries).is_err(),
                "full with {} of {most} keys",
                filter.len()
            );
            *model.entry(fingerprint).or_default() -= 1;
        }
    } else {
        assert_eq!(filter.remove(key), *copies > 0);
        *copies = copies.saturating_sub(1);
    }
    assert_eq!(filter.count(key), model[&fingerprint]);
    assert_eq!(filter.contains(key), model[&fingerprint] > 0);
}

/// All widths, from sparse to full, with counts of all sizes and clusters of many blocks.
#[test]
fn operations_leave_the_same_table_as_a_build() {
    for seed in 0..200u64 {
        let keys = 1 + mix(seed) % 2000;
        let width = 2 + (mix(seed + 500) % 9) as u32;
        let slots = least_slots(keys) + mix(seed + 900) % 3;
        let shape = CountingQuotientShape::new(slots, width, keys).unwrap();
        let mut filter = CountingQuotient::new(shape.clone()).unwrap();
        let mut model = Model::new();
        // All fingerprints, or few with many copies, or those of the last or a middle slot.
        let (from, places) = match seed % 4 {
            0 => (0, shape.fingerprints()),
            1 => (0, 1 + keys / 20),
            2 => (shape.fingerprints() - (1 << width), 1 << width),
            _ => (shape.fingerprints() / 2, (3 << width).min(shape.fingerprints() / 2)),
        };
        for round in 0..4000 {
            let random = mix(seed << 32 | round);
            // Mostly insertions until the filter is full, then mostly removals.
            let insert = random >> 61 > if round < 2500 { 1 } else { 5 };
            step(&mut filter, &mut model, from + random % places, insert);
            if round % 400 == 399 {
                check(&filter, &model);
            }
        }
    }
}

/// The plain quotient filter, with the same split of the same hash, holds the same fingerprints.
#[test]
fn it_agrees_with_the_quotient_filter() {
    for (seed, (bits, width)) in [(4, 5), (7, 3), (10, 2), (12, 8)].into_iter().enumerate() {
        let (seed, keys) = (seed as u64, (1u64 << bits) * 9 / 10);
        let plain = QuotientShape::new(bits, width, keys).unwrap();
        let counting = CountingQuotientShape::new(1 << bits, width, keys).unwrap();
        let (mut plain, mut counting) =
            (Quotient::new(plain).unwrap(), CountingQuotient::new(counting).unwrap());
        for round in 0..40_000u64 {
            let random = mix(seed << 40 | round);
            let key = KeyHash { hi: mix(random % (keys * 2)), lo: random };
            match random >> 62 {
                0 => assert_eq!(plain.remove(key), counting.remove(key)),
                1 | 2 => assert_eq!(plain.insert(key), counting.insert(key)),
                _ => assert_eq!(plain.contains(key), counting.contains(key)),
            }
            assert_eq!(plain.len(), counting.len());
            if round % 4000 == 0 {
                let copies = counting.fingerprints();
                let copies = copies.flat_map(|(f, count)| (0..count).map(move |_| f));
                assert!(plain.fingerprints().eq(copies));
                counting.validate().unwrap();
            }
        }
    }
}

/// Runs of thousands of slots: offsets far above 255, up and down again.
#[test]
fn offsets_above_255() {
    for width in [10, 12] {
        let keys = 3000;
        let shape = CountingQuotientShape::new(least_slots(keys), width, keys).unwrap();
        for (first, quotients) in [(0, 1), (63, 2), (64, 1), (1000, 5), (700, 64), (1500, 200)] {
            let mut filter = CountingQuotient::new(shape.clone()).unwrap();
            let mut model = Model::new();
            let all = |round: u64| {
                let quotient = first + mix(round) % quotients;
                quotient << width | mix(round + 77) & packed::mask(width)
            };
            let most = 700.min(quotients * 600);
            for round in 0..most {
                step(&mut filter, &mut model, all(round), true);
            }
            check(&filter, &model);
            // Other quotients after the cluster, and in it.
            for slot in first..(first + 1000).min(shape.slots) {
                step(&mut filter, &mut model, slot << width | 5, true);
            }
            check(&filter, &model);
            for round in 0..most {
                step(&mut filter, &mut model, all(round), false);
                if round % 64 == 0 {
                    check(&filter, &model);
                }
            }
            check(&filter, &model);
            for slot in (first..(first + 1000).min(shape.slots)).rev() {
                step(&mut filter, &mut model, slot << width | 5, false);
            }
            check(&filter, &model);
            assert_eq!(filter, CountingQuotient::new(shape.clone()).unwrap());
        }
    }
}

/// Counts go up and down one by one, between neighbours that must not change.
#[test]
fn many_copies_of_a_key() {
    for width in [2, 4, 8, 60] {
        for remainder in [0, 1, 2, packed::mask(width) - 1, packed::mask(width)] {
            let shape = CountingQuotientShape::new(12_000_u64.min(u64::MAX >> width), width, 5000);
            let Ok(shape) = shape else { continue };
            let mut filter = CountingQuotient::new(shape.clone()).unwrap();
            let mut model = Model::new();
            let fingerprint = 77 << width | remainder;
            for near in [76 << width | 3, 77 << width, 77 << width | 2, 78 << width] {
                step(&mut filter, &mut model, near, true);
            }
            let before = filter.clone();
            for insert in [true, false] {
                for round in 0..4000 {
                    step(&mut filter, &mut model, fingerprint, insert);
                    if round % 97 == 0 || round < 300 {
                        check(&filter, &model);
                    }
                }
            }
            assert_eq!(filter, before);
        }
    }
    let shape = CountingQuotientShape::fit(1_000_000, 0.01).unwrap();
    let mut filter = CountingQuotient::new(shape.clone()).unwrap();
    let key = hashes(1, 0..1)[0];
    filter.insert_batch(&vec![key; 1_000_000]).unwrap();
    assert_eq!((filter.count(key), filter.len()), (1_000_000, 1_000_000));
    assert_eq!(filter.insert(key), Err(Full::NONE));
    assert_eq!(filter, CountingQuotient::build(shape, &vec![key; 1_000_000][..]).unwrap());
    filter.validate().unwrap();
}

/// Counts up to 10^6 in a table, for remainders from the lowest to the highest: built, counted, one
/// more, one fewer.
#[test]
fn counts_up_to_a_million_in_a_table() {
    let shape = CountingQuotientShape::new(1_100_000, 8, 1_040_000).unwrap();
    for remainder in (0..=255).step_by(15) {
        for count in (1..=1_000_000).step_by(41_666) {
            let fingerprint = 70 << 8 | remainder;
            let around = [(70 << 8) - 1, 71 << 8].map(|near| (near, 3));
            let entries = [around[0], (fingerprint, count), around[1]];
            let mut filter = from_sorted(&shape, entries.into_iter()).unwrap();
            let (key, before) = (hash(&shape, fingerprint), filter.clone());
            assert_eq!(filter.count(key), count);
            filter.insert(key).unwrap();
            assert_eq!(filter.count(key), count + 1);
            assert!(filter.remove(key) && filter == before && filter.remove(key));
            assert_eq!((filter.count(key), filter.contains(key)), (count - 1, count > 1));
            assert!(around.iter().all(|(near, many)| filter.count(hash(&shape, *near)) == *many));
        }
    }
}

/// A batch has the same effect as its keys one by one, whether it is merged or inserted, and stops at
/// the same key.
#[test]
fn batches_have_the_effect_of_single_keys() {
    let shape = CountingQuotientShape::new(4000, 5, 3800).unwrap();
    let keys = [hashes(9, 0..3000), hashes(9, 0..900)].concat();
    for first in [0, 1, 300, 700, 2000, 3700] {
        for many in [1, 255, 256, 1000, 2500, 3900] {
            let (old, new) = (&keys[..first], &keys[first..(first + many).min(keys.len())]);
            let mut batch = CountingQuotient::build(shape.clone(), old).unwrap();
            let mut single = batch.clone();
            let inserted = batch.insert_batch(new);
            let one_by_one = new.iter().enumerate().try_for_each(|(number, key)| {
                single.insert(*key).map_err(|full| full.after(number))
            });
            assert_eq!(inserted, one_by_one);
            assert_eq!(inserted.is_err(), first + new.len() > 3800);
            assert_eq!(batch, single);
            batch.validate().unwrap();
        }
    }
}

/// Sets with two, three … copies of every key fit up to the capacity.
#[test]
fn copies_do_not_exceed_the_slots() {
    for copies in [1u64, 2, 3, 4, 5, 8, 30] {
        for width in [2, 3, 8] {
            for seed in 0..20 {
                let keys = 20_000 / copies * copies;
                let shape = CountingQuotientShape::new(least_slots(keys), width, keys).unwrap();
                let members = hashes(seed, 0..keys / copies);
                let many: Vec<KeyHash> =
                    members.iter().flat_map(|key| vec![*key; copies as usize]).collect();
                let filter = CountingQuotient::build(shape, &many[..]).unwrap();
                assert!(members.iter().all(|key| filter.count(*key) >= copies));
            }
        }
    }
}

/// If the last slots are taken the filter is full, and an insertion does not change it.
#[test]
fn out_of_slots_changes_nothing() {
    let shape = CountingQuotientShape::new(4000, 12, 3800).unwrap();
    let mut filter = CountingQuotient::new(shape.clone()).unwrap();
    let last = shape.fingerprints() - 1;
    let mut fitted = 0;
    while filter.insert(hash(&shape, last - fitted)).is_ok() {
        fitted += 1;
    }
    assert_eq!(fitted, shape.blocks() * BLOCK - 3999);
    let before = filter.clone();
    for other in [last - fitted, last - fitted - 1, last - 4000, last - fitted - 5000] {
        let fits = other >> 12 < 3999;
        assert_eq!(filter.clone().insert(hash(&shape, other)).is_ok(), fits);
    }
    // Another copy of a key needs a slot too, unless its last digit can grow.
    assert_eq!(filter.insert(hash(&shape, last)), Err(Full::NONE));
    assert_eq!(filter, before);
    // From three zeros to four takes two slots, and only one is free.
    let zero = hash(&shape, 3999 << 12);
    for fingerprint in last + 1 - fitted..=last + 4 - fitted {
        assert!(filter.remove(hash(&shape, fingerprint)));
    }
    (0..3).for_each(|_| filter.insert(zero).unwrap());
    let before = filter.clone();
    assert_eq!(filter.insert(zero), Err(Full::NONE));
    assert_eq!((filter.count(zero), &filter), (3, &before));
    filter.validate().unwrap();
}

#[test]
fn merging_adds_counts() {
    let shape = CountingQuotientShape::fit(5000, 0.05).unwrap();
    let build = |keys: &[KeyHash]| CountingQuotient::build(shape.clone(), keys).unwrap();
    let keys = hashes(3, 0..1500);
    let (a, b) = (keys[..1000].to_vec(), [&keys[500..], &keys[900..1000]].concat());
    let mut merged = build(&a);
    merged.merge(&build(&b)).unwrap();
    assert_eq!(merged, build(&[&a[..], &b].concat()));
    assert!(merged.count(keys[950]) >= 3);
    let before = merged.clone();
    assert!(matches!(
        merged.merge(&build(&hashes(4, 0..3000))),
        Err(Error::Capacity { capacity: 5000 })
    ));
    assert_eq!(merged, before);
}

#[test]
fn resizing_keeps_fingerprints_and_counts() {
    let keys = [hashes(5, 0..700), hashes(5, 0..50)].concat();
    let shape = CountingQuotientShape::new(801, 9, 760).unwrap();
    let mut filter = CountingQuotient::build(shape, &keys[..]).unwrap();
    let first = filter.clone();
    let build = |slots, remainder, capacity| {
        let shape = CountingQuotientShape::new(slots, remainder, capacity).unwrap();
        CountingQuotient::build(shape, &keys[..]).unwrap()
    };
    for bits in 1..=7 {
        filter.resize(760 << bits, None).unwrap();
        filter.validate().unwrap();
        assert!(filter.fingerprints().eq(first.fingerprints()));
        assert_eq!(filter, build(801 << bits, 9 - bits, 760 << bits));
    }
    let large = filter.clone();
    assert!(matches!(filter.resize(760 << 8, None), Err(Error::Infeasible { .. })));
    assert!(matches!(filter.resize(749, None), Err(Error::Capacity { capacity: 749 })));
    assert!(matches!(filter.resize(760, Some(1e-9)), Err(Error::Infeasible { .. })));
    assert_eq!(filter, large);
    filter.resize(760, None).unwrap();
    assert_eq!(filter, first);
    // An odd number of slots cannot be halved, and shorter fingerprints keep all counts.
    let mut few =
        CountingQuotient::build(CountingQuotientShape::new(801, 9, 760).unwrap(), &keys[..300])
            .unwrap();
    few.resize(300, None).unwrap();
    assert_eq!(few.shape().slots(), 801);
    for remainder in (2..9).rev() {
        let shorter = build(801, remainder, 760);
        let mut filter = large.clone();
        filter.resize(760, Some(shorter.shape().figures().fpr)).unwrap();
        assert_eq!(filter, shorter);
    }
}

#[test]
fn filters_of_unlike_sizes_merge() {
    let (keys, more) = (hashes(5, 0..700), [hashes(9, 0..90), hashes(9, 0..40)].concat());
    let build = |slots, remainder, capacity, keys: &[KeyHash]| {
        let shape = CountingQuotientShape::new(slots, remainder, capacity).unwrap();
        CountingQuotient::build(shape, keys).unwrap()
    };
    let all = [&keys[..], &more].concat();
    // The same fingerprints, fewer of them in the small filter, and fewer in the large one.
    for (large, small) in [((1600, 6), (200, 9)), ((1600, 7), (200, 8)), ((1600, 4), (600, 9))] {
        let a = build(large.0, large.1, 1500, &keys);
        let b = build(small.0, small.1, 150, &more);
        let fewer = (large.0 << large.1).min(small.0 << small.1);
        if (large.0 << large.1) % fewer != 0 || (small.0 << small.1) % fewer != 0 {
            let mut refused = a.clone();
            assert!(matches!(refused.merge(&b), Err(Error::Mismatch { what: "shape" })));
            assert_eq!(refused, a);
            continue;
        }
        for (mut one, other) in [(a.clone(), &b), (b.clone(), &a)] {
            one.merge(other).unwrap();
            one.validate().unwrap();
            let shape = one.shape().clone();
            assert_eq!((shape.fingerprints(), shape.keys), (fewer, 1500));
            assert_eq!(one, CountingQuotient::build(shape, &all[..]).unwrap());
        }
    }
}

/// The filter takes 10.66 bits per key at 2^-8.
#[test]
fn the_promised_size() {
    let figures = CountingQuotientShape::fit(10_000_000, 1.0 / 256.0).unwrap().figures();
    assert!(figures.bits_per_key() < 10.67 && figures.fpr <= 1.0 / 256.0, "{figures:?}");
    // A few more slots are better than another bit per slot.
    let shape = CountingQuotientShape::fit(1_000_000, 0.93 / 256.0).unwrap();
    assert_eq!(shape.remainder(), 8);
    assert!(shape.fpr_at(1_000_000) <= 0.93 / 256.0);
}

/// The measured rate is the stated one within 2 %, from 1/4 to 1/1000.
#[test]
fn the_rate_is_the_stated_one() {
    const NON_MEMBERS: u64 = 4_000_000;
    for width in [2, 4, 8, 10] {
        let keys = 50_000;
        let shape = CountingQuotientShape::new(least_slots(keys), width, keys).unwrap();
        let filter = CountingQuotient::build(shape.clone(), &hashes(8, 0..keys)[..]).unwrap();
        let non_members = hashes(8, 1 << 40..(1 << 40) + NON_MEMBERS);
        let mut out = vec![false; non_members.len()];
        filter.contains_batch(&non_members, &mut out);
        let passed = out.iter().filter(|found| **found).count() as f64 / NON_MEMBERS as f64;
        let stated = shape.figures().fpr;
        let noise = 4.0 * (stated / NON_MEMBERS as f64).sqrt();
        assert!((passed - stated).abs() < 0.02 * stated + noise, "{passed}, not {stated}");
    }
}

/// A quotient past the last slot, which only a hostile file has, is detected and not moved.
#[test]
fn a_quotient_past_the_last_slot() {
    let shape = CountingQuotientShape::new(100, 8, 95).unwrap();
    let mut builder = TableBuilder::new(Table::new(shape.blocks(), shape.remainder).unwrap());
    builder.push(120, 7, 1).unwrap();
    let mut filter = CountingQuotient { shape, len: 1, table: builder.finish() };
    assert!(filter.validate().is_err());
    assert!(filter.resize(6000, None).is_err());
    let before = filter.clone();
    assert!(filter.resize(0, None).is_err() && filter == before);
}
