//! Hashes: related seeds make unrelated ones, and keys that were prepared without the seed are no worse
//! than others.

mod prepared;
mod sets;

use tamis::{HashId, Key, KeyHash, KeyHasher};
use tamis_conformance::keys::ORIGINS;
use tamis_conformance::rates::related_seeds;
use tamis_conformance::{Effort, stats};

/// Seeds that differ in a bit, by one or in order: the hashes of one key under both, and of
/// neighbouring keys, agree in any 16 bits as often as two random numbers do.
#[test]
fn hashes_under_related_seeds_share_no_more_than_chance() {
    const KEYS: u64 = 100;
    let effort = Effort::now();
    let mut random = effort.random(51);
    let pairs = effort.times(10_000);
    let parts = |hash: &KeyHash| {
        [hash.hi >> 48, hash.hi & 0xffff, hash.lo >> 48, hash.lo & 0xffff, hash.hi >> 24 & 0xffff]
    };
    for (id, form) in ORIGINS {
        let mut same = [[0u64; 5]; 2];
        for pair in 0..pairs {
            let [a, b] = related_seeds(&mut random, pair);
            let a = form.hashes(&KeyHasher::new(id, a), 0, KEYS);
            let b = form.hashes(&KeyHasher::new(id, b), 0, KEYS);
            for (shift, same) in same.iter_mut().enumerate() {
                for (x, y) in a.iter().zip(b.iter().cycle().skip(shift)) {
                    for (same, (x, y)) in same.iter_mut().zip(parts(x).into_iter().zip(parts(y))) {
                        *same += u64::from(x == y);
                    }
                }
            }
        }
        for count in same.into_iter().flatten() {
            let what = format!("{id:?} {form:?}: equal 16 bits");
            stats::check(&what, count, pairs * KEYS, 1.0 / 65_536.0);
        }
    }
}

/// A tuple begins with the hash of its first part and 128 zero bits; each further part is hashed together
/// with what came before.
#[test]
fn a_tuple_hashes_the_hashes_of_its_parts() {
    for id in [HashId::Fast, HashId::Secure] {
        let hasher = KeyHasher::new(id, [3, 4]);
        let pair = |a: KeyHash, b: KeyHash| {
            let words = [a.hi, a.lo, b.hi, b.lo];
            hasher.bytes(&words.map(u64::to_le_bytes).concat())
        };
        let [one, two] = [hasher.bytes(b"one"), hasher.int(2)];
        let first = pair(one, KeyHash { hi: 0, lo: 0 });
        assert_eq!(("one",).hash_with(&hasher), first);
        assert_eq!(("one", 2u8).hash_with(&hasher), pair(first, two));
        assert_eq!(("one", 2u8, "one").hash_with(&hasher), pair(pair(first, two), one));
    }
}

/// Each step adds `lo` and rotates by 27 bits. Numbers of functions are those of files.
#[test]
fn probes_and_numbers_of_functions_are_fixed() {
    let hash = KeyHash { hi: 1 << 63 | 12_345, lo: 0x0123_4567_89ab_cdef };
    let (mut at, mut expected) = (hash.hi, Vec::new());
    for _ in 0..20 {
        expected.push(((u128::from(at) * 1_000_003) >> 64) as u64);
        let sum = at.wrapping_add(hash.lo);
        at = sum.rotate_left(27);
    }
    assert_eq!(hash.probes(1_000_003).take(20).collect::<Vec<_>>(), expected);
    let known: Vec<u16> = (0..=u16::MAX).filter(|id| HashId::from_id(*id).is_ok()).collect();
    assert_eq!(known[..2], [HashId::Secure as u16, HashId::Fast as u16]);
    // 4 keeps the order of integers. From 16 on: the functions of other programs.
    assert_eq!(known, [2, 3, 4, 16, 17, 18, 19, 20, 21, 22, 23, 24]);
}
