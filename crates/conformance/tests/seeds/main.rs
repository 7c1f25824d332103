//! Hashes: related seeds make unrelated ones, and keys that were prepared without the seed are no worse
//! than others.

mod prepared;
mod sets;

use tamis::{KeyHash, KeyHasher};
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
    let pairs = effort.times(10_000, 1_000_000);
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
