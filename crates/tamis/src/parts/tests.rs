//! Tests of building in parts.

use tamis_bits::range::mix;

use super::*;
use crate::container::Container;
use crate::error::ErrorKind;
use crate::hash::{HashId, Key, KeyHash, KeyHasher};
use crate::traits::given;
use crate::{
    BinaryFuse, BinaryFuseShape, Bloomier, BloomierShape, Construction, Form, Ribbon, RibbonShape,
    Sat, SatShape, Xor, XorSat, XorSatShape, XorShape,
};

const PARTS: [u64; 4] = [1, 2, 8, 256];
const SIZES: [u64; 4] = [0, 1, 1000, 300_000];

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Fast, [13, 2])
}

fn hashes(keys: u64) -> Vec<KeyHash> {
    (0..keys).map(|key| key.hash_with(&hasher())).collect()
}

fn bytes_of(filter: &impl Persist) -> Vec<u8> {
    Container::new(&hasher(), KeyForms::INTEGERS, filter).to_bytes().unwrap()
}

fn gather<F: BuildParts>(keys: &[KeyHash], parts: u64) -> Vec<GatheredPart<F>> {
    let gather = |index| {
        let range = PartRange::new(index, parts).unwrap();
        let own: Vec<_> = keys.iter().copied().filter(|key| range.contains(*key)).collect();
        F::gather_part(&BuildOptions::new().threads(2), range, &own[..]).unwrap()
    };
    (0..parts).map(gather).collect()
}

/// Solves the parts, which travel as bytes.
fn solve<F: BuildParts>(shape: &F::Shape, gathered: Vec<GatheredPart<F>>) -> Vec<Part<F>> {
    let total = gathered.iter().map(GatheredPart::len).sum();
    let solve = |part: GatheredPart<F>| {
        let (range, len) = (part.range(), part.len());
        let bytes = part.solve(&BuildOptions::new(), shape, total).unwrap().to_bytes().unwrap();
        let part = Part::<F>::from_bytes(&bytes).unwrap();
        assert_eq!((part.range(), part.len(), part.is_empty()), (range, len, len == 0));
        assert_eq!(part.to_bytes().unwrap(), bytes);
        part
    };
    gathered.into_iter().map(solve).collect()
}

fn assemble<F: BuildParts>(shape: &F::Shape, parts: Vec<Part<F>>) -> Result<F, Error> {
    F::assemble(&BuildOptions::new().threads(2), shape.clone(), parts)
}

/// Checks that parts make the same bytes as a build on one machine.
pub(crate) fn check<F: BuildParts>(shape: &F::Shape, keys: &[KeyHash]) {
    let options = BuildOptions::new();
    let expected = bytes_of(&F::build_with(&options, given(shape.clone()), keys).unwrap());
    for parts in PARTS {
        let mut solved = solve::<F>(shape, gather(keys, parts));
        solved.reverse();
        let filter = assemble(shape, solved).unwrap();
        assert!(bytes_of(&filter) == expected, "{parts} parts, {shape:?}");
    }
}

/// The same for a map.
pub(crate) fn check_map<F: BuildParts + BuildMap>(shape: &F::Shape, entries: &[(KeyHash, u64)]) {
    let options = BuildOptions::new();
    let whole = F::build_map_with(&options, |_, _| Ok(shape.clone()), entries).unwrap();
    let widest = entries.iter().map(|(_, value)| 64 - value.leading_zeros()).max().unwrap();
    for parts in PARTS {
        let gather = |index| {
            let range = PartRange::new(index, parts).unwrap();
            let own: Vec<_> =
                entries.iter().copied().filter(|(key, _)| range.contains(*key)).collect();
            F::gather_map_part(&options, range, &own[..]).unwrap()
        };
        let gathered: Vec<_> = (0..parts).map(gather).collect();
        assert_eq!(gathered.iter().map(GatheredPart::value_bits).max(), Some(widest));
        let filter = assemble(shape, solve::<F>(shape, gathered)).unwrap();
        assert!(bytes_of(&filter) == bytes_of(&whole), "{parts} parts, {shape:?}");
    }
}

/// Changes words of a part, as an attacker who computes checksums may do. The result is an error or a
/// filter that answers.
pub(crate) fn check_hostile<F: BuildParts>(shape: &F::Shape, keys: &[KeyHash]) {
    for parts in [1, 4] {
        for round in 0..60 {
            let mut solved = solve::<F>(shape, gather(&keys[..keys.len().min(4000)], parts));
            let part = &mut solved[0];
            // Most checks are of the first words of the rest.
            let at = |len: usize| (mix(round) as usize % len).min(mix(!round) as usize % len);
            let change = [1, u64::MAX, 1 << 63, 1 << 40][round as usize % 4];
            match round / 4 % 5 {
                0..=2 if !part.rest.is_empty() => {
                    let at = if round % 3 == 0 { round as usize / 3 } else { at(part.rest.len()) };
                    let at = at.min(part.rest.len() - 1);
                    part.rest.to_mut()[at] ^= change;
                }
                3 if !part.table.is_empty() => {
                    let at = at(part.table.len());
                    part.table.to_mut()[at] ^= change;
                }
                _ => {
                    let words: Vec<u64> = (0..round % 7).map(mix).collect();
                    part.rest = Words::copy_of(&words).unwrap();
                }
            }
            if let Ok(filter) = assemble(shape, solved) {
                let mut out = vec![false; keys.len()];
                filter.contains_batch(keys, &mut out);
            }
        }
    }
}

#[test]
fn binary_fuse_in_parts() {
    for keys in SIZES {
        check::<BinaryFuse>(&BinaryFuseShape::fit(keys, 0.01).unwrap(), &hashes(keys));
    }
}

#[test]
fn xor_in_parts() {
    for keys in SIZES {
        check::<Xor>(&XorShape::fit(keys, 0.01).unwrap(), &hashes(keys));
    }
}

#[test]
fn bloomier_in_parts() {
    for keys in SIZES {
        let shape = BloomierShape::new(keys, 6, 20).unwrap();
        check::<Bloomier>(&shape, &hashes(keys));
        let entries: Vec<_> = hashes(keys)
            .into_iter()
            .zip(0..)
            .map(|(key, n)| (key, mix(n) >> 44 | 1 << 19))
            .collect();
        if keys > 0 {
            check_map::<Bloomier>(&shape, &entries);
        }
    }
}

#[test]
fn ribbon_in_parts() {
    for form in [Form::Bumped, Form::Homogeneous] {
        for keys in SIZES {
            check::<Ribbon>(&RibbonShape::new(7, form, keys).unwrap(), &hashes(keys));
        }
        // Eight shards, of which each part has several.
        let shape = RibbonShape::new(5, form, 1_200_000).unwrap();
        check::<Ribbon>(&shape, &hashes(1_200_000));
        // A shape for more keys has four shards, and is quick to solve for few.
        let shape = RibbonShape::new(5, form, 700_000).unwrap();
        check_hostile::<Ribbon>(&shape, &hashes(4000));
    }
}

#[test]
fn xorsat_in_parts() {
    for keys in SIZES {
        check::<XorSat>(&XorSatShape::fit(keys, 0.2).unwrap(), &hashes(keys));
    }
    let shape = XorSatShape::new(3, 0.4, 600_000, 256).unwrap();
    check::<XorSat>(&shape, &hashes(600_000));
    let shape = XorSatShape::new(3, 0.4, 10_000, 256).unwrap();
    check_hostile::<XorSat>(&shape, &hashes(10_000));
}

#[test]
fn sat_in_parts() {
    for construction in [Construction::Sliced, Construction::Nae] {
        for keys in [0, 1, 1000] {
            let shape = SatShape::new(construction, 4, 3, 0.7, keys).unwrap();
            check::<Sat>(&shape, &hashes(keys));
        }
    }
    // Sixteen blocks, for fewer keys than the shape is made for.
    let shape = SatShape::new(Construction::Sliced, 4, 2, 0.5, 300_000).unwrap();
    check::<Sat>(&shape, &hashes(20_000));
    check_hostile::<Sat>(&shape, &hashes(2000));
}

fn what(error: Error) -> String {
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    error.to_string()
}

/// Checks parts that are solved by their workers and parts that carry digests.
#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let keys = hashes(400_000);
    for parts in [2, 8] {
        let shape = RibbonShape::new(8, Form::Bumped, 400_000).unwrap();
        let all = || solve::<Ribbon>(&shape, gather(&keys, parts));
        let fails = |parts: Vec<Part<Ribbon>>| what(assemble(&shape, parts).unwrap_err());
        assert_eq!(fails(Vec::new()), "part 0 is missing");
        let mut few = all();
        few.remove(1);
        assert_eq!(fails(few), "part 1 is missing");
        let mut twice = all();
        twice[1] = all().swap_remove(0);
        assert_eq!(fails(twice), "part 0 was given twice");
        let mut mixed = all();
        mixed[1] = solve::<Ribbon>(&shape, gather(&keys, 4)).swap_remove(1);
        assert_eq!(fails(mixed), "part 1 belongs to another number of parts");
        let other = RibbonShape::new(8, Form::Bumped, 400_001).unwrap();
        let mut foreign = all();
        foreign[1] = solve::<Ribbon>(&other, gather(&keys, parts)).swap_remove(1);
        assert_eq!(fails(foreign), "part 1 was solved for another shape");
        // Parts of two sets of keys: the totals differ, or the number of keys does.
        let fewer = || solve::<Ribbon>(&shape, gather(&keys[1..], parts));
        let mut totals = all();
        totals[1] = fewer().swap_remove(1);
        assert_eq!(fails(totals), "part 1 was solved for another number of keys");
        let mut count = all();
        count[1].len -= 1;
        assert_eq!(
            fails(count),
            "part 0 was solved for another number of keys than the parts have"
        );
        assert!(assemble(&shape, fewer()).is_ok());
    }
}

#[test]
fn keys_and_shapes_that_do_not_fit_are_refused() {
    let (keys, options) = (hashes(1000), BuildOptions::new());
    let range = PartRange::new(1, 2).unwrap();
    let outside = Xor::gather_part(&options, range, &keys[..]).unwrap_err();
    assert_eq!(what(outside), "part 1 was given a key outside its range");
    let entries: Vec<_> = keys.iter().map(|key| (*key, 9)).collect();
    let outside = Bloomier::gather_map_part(&options, range, &entries[..]).unwrap_err();
    assert_eq!(what(outside), "part 1 was given a key outside its range");

    let gathered = || gather::<Xor>(&keys, 2).swap_remove(1);
    let (shape, len) = (XorShape::fit(999, 0.01).unwrap(), gathered().len());
    let capacity = gathered().solve(&options, &shape, 1000).unwrap_err();
    assert!(matches!(capacity, Error::Capacity { capacity: 999 }));
    let total = gathered().solve(&options, &shape, len - 1).unwrap_err();
    assert_eq!(what(total), "part 1 has more keys than the stated total");

    let whole = PartRange::new(0, 1).unwrap();
    let narrow = BloomierShape::new(1000, 4, 3).unwrap();
    let part = Bloomier::gather_map_part(&options, whole, &entries[..]).unwrap();
    assert_eq!((part.len(), part.value_bits()), (1000, 4));
    let value = part.solve(&options, &narrow, 1000).unwrap_err();
    assert!(matches!(value, Error::Value { value: 9, bits: 3 }));
    // A key with two values is found by the worker or by the driver, whichever solves it.
    let conflict = [(keys[0], 1), (keys[0], 2)];
    let part = |parts| {
        let range = PartRange::of(keys[0], parts).unwrap();
        let part = Bloomier::gather_map_part(&options, range, &conflict[..]).unwrap();
        (range, part.solve(&options, &narrow, 2))
    };
    assert!(matches!(part(1).1, Err(Error::Conflict { .. })));
    let (range, solved) = part(2);
    let empty = PartRange::new(1 - range.index(), 2).unwrap();
    let empty = Bloomier::gather_map_part(&options, empty, &[][..]).unwrap();
    let both = vec![solved.unwrap(), empty.solve(&options, &narrow, 2).unwrap()];
    assert!(matches!(assemble(&narrow, both), Err(Error::Conflict { .. })));

    for (index, parts) in [(0, 0), (0, 3), (0, 512), (2, 2), (u64::MAX, 256)] {
        let error = PartRange::new(index, parts).unwrap_err();
        assert!(matches!(error, Error::Setting { .. }), "{error}");
    }
    assert!(PartRange::of(keys[0], 6).is_err());
}

#[test]
fn ranges_cover_all_digests_once() {
    for parts in PARTS {
        let mut next = Some(0);
        for index in 0..parts {
            let range = PartRange::new(index, parts).unwrap();
            let (first, last) = range.digests().into_inner();
            assert_eq!(Some(first), next);
            for hi in [first, last] {
                assert_eq!(PartRange::of(KeyHash { hi, lo: 0 }, parts).unwrap(), range);
            }
            next = last.checked_add(1);
        }
        assert_eq!(next, None);
    }
}

#[test]
fn damaged_bytes_are_refused() {
    let keys = hashes(300);
    for parts in [1, 2] {
        let shape = XorShape::fit(300, 0.01).unwrap();
        let bytes = solve::<Xor>(&shape, gather(&keys, parts)).swap_remove(0).to_bytes().unwrap();
        for end in 0..bytes.len() {
            let error = Part::<Xor>::from_bytes(&bytes[..end]).unwrap_err();
            assert!(matches!(error, Error::File(_)), "{end}: {error}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Part::<Xor>::from_bytes(&bytes).is_err(), "bit {bit}");
        }
        let other = Part::<BinaryFuse>::from_bytes(&bytes).unwrap_err();
        assert!(matches!(other, Error::Mismatch { what: "kind" }));
        // A part is not a filter, and a filter is not a part.
        assert!(crate::container::peek(&bytes).is_err());
        let filter = bytes_of(&Xor::build(shape, &keys[..]).unwrap());
        assert!(matches!(Part::<Xor>::from_bytes(&filter), Err(Error::File(_))));
    }
}

/// A cancelled build stops at every step.
#[test]
fn stopped_builds_end_with_an_error() {
    let cancel = core::sync::atomic::AtomicBool::new(true);
    let stopped = BuildOptions::new().cancel(&cancel);
    let (shape, keys) = (XorShape::fit(1000, 0.01).unwrap(), hashes(1000));
    let range = PartRange::new(0, 1).unwrap();
    assert!(matches!(Xor::gather_part(&stopped, range, &keys[..]), Err(Error::Stopped { .. })));
    let part = gather::<Xor>(&keys, 1).swap_remove(0).solve(&stopped, &shape, 1000);
    assert!(matches!(part, Err(Error::Stopped { .. })));
    let filter = Xor::assemble(&stopped, shape.clone(), solve::<Xor>(&shape, gather(&keys, 2)));
    assert!(matches!(filter, Err(Error::Stopped { .. })));
}

/// Checks a part that claims more keys than the shape's capacity.
#[test]
fn a_total_above_the_capacity_is_refused() {
    let (keys, shape) = (hashes(1000), XorShape::fit(1000, 0.01).unwrap());
    let mut parts = solve::<Xor>(&shape, gather(&keys, 2));
    parts[0].len += 1;
    parts.iter_mut().for_each(|part| part.total += 1);
    assert!(matches!(assemble(&shape, parts), Err(Error::Capacity { capacity: 1000 })));
}
