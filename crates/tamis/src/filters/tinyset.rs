//! TinySet: a hash table of short fingerprints in every cache line, each as long as there is room.
//!
//! ```text
//!  hash.hi ──► a block of 512 bits      │ index │ ends │ record │ record │ record │ …
//!  hash.lo ──► a chain of 64, and          64     x       the other bits, divided evenly
//!              57 bits for the record             x keys: the more, the shorter the records
//! ```
//!
//! `tiny_block/mod.rs` draws the block bit by bit.
//!
//! | figure | blocks of 512 bits | 256 | 1024 |
//! | --- | --- | --- | --- |
//! | bits per key at 1 % | 8.96 | 9.28 | 8.80 |
//! | at 0.1 % | 12.82 | 13.68 | 12.37 |
//! | at 0.01 % | 17.22 | 19.11 | 16.27 |
//! | cache lines | 1 for members and non-members | 1 | 2 |
//!
//! The paper's three parameters are settings. `block` is the size of a block, 128 to 2048 bits.
//! `chains` is L, from 1/64 to 1/3 of the bits, by default 1/8. `load` is the keys per block, λL in
//! the paper; it fixes the number of blocks, and the blocks get the size that the rate needs: with
//! `load=64,chains=64` they are the TinySet 64I of the paper. Blocks of 256, 512 and 1024 bits with a
//! chain for every 8 bits have code of their own. Blocks of other shapes lie across cache lines and
//! are copied before they are read, which makes their operations slower.
//!
//! TinySet is the smallest filter of this library that supports single insertions, for rates
//! between 3 % and 0.1 %, with one memory access. An insertion rewrites its block, which takes some
//! tens of nanoseconds.
//!
//! It never fails and is never full: past its capacity, records continue to get shorter and the
//! rate rises, like that of a Bloom filter ([`Shape::fpr_at`] returns it). A block without bits
//! left for records becomes a set of chains, and finally accepts every key. A key that already
//! matches is not stored, so duplicates take no space, and the filter counts what it stores. Which
//! of two keys with equal bits is stored depends on their order, and so do the bytes; the same keys
//! in the same order make the same bytes. Keys cannot be removed: see
//! [`RemovableTinySet`](super::RemovableTinySet).
//!
//! Einziger, Friedman, *TinySet: An Access Efficient Self Adjusting Bloom Filter Construction*,
//! 2015. The overflow of section 4.4, a block with more keys than bits, cannot happen: see above. The
//! overflow list of balanced filters, which the paper suggests to combine with TinySet, is not
//! included: it would save nothing at 1 % and 0.9 % at 0.01 % in blocks of 512 bits.
//!
//! Differences: formula 4.3 of the paper has its second sum over the wrong range, and no term
//! for keys that are not stored; this implementation uses the recurrence at `Curve::new`. Block,
//! chain and record use separate bits of the hash. `mod` in section 3.4 of the paper is the block
//! modulo the keys, not the reverse.

mod curve;
mod inspect;

use tamis_bits::Words;

use self::curve::Curve;
use super::common::binomial_mean;
use super::common::tiny_block::{BLOCK, BLOCKS, CHAINS, Grid, Insertion, LOAD, tiny_kind};
use crate::error::Error;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};

/// The size of the table: a number of blocks of 128 to 2048 bits, and their chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TinySetShape(Grid);

/// Returns the rate after `keys` keys.
fn rate(grid: &Grid, keys: u64) -> f64 {
    grid.mean(keys, &Curve::until(grid.layout(), keys.div_ceil(grid.blocks)).rate)
}

impl Grid {
    fn mean(&self, keys: u64, of: &[f64]) -> f64 {
        let last = of.len() - 1;
        if keys as f64 / self.blocks as f64 > 2.0 * last as f64 {
            return of[last];
        }
        binomial_mean(self.blocks, keys, |n| of[(n as usize).min(last)])
    }
}

impl Shape for TinySetShape {
    const SETTINGS: &'static [Setting] = &[BLOCK, CHAINS, LOAD];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        // The rate if every key were stored, which is hardly higher.
        let bound = |grid: &Grid| {
            let layout = grid.layout();
            binomial_mean(grid.blocks, keys, |n| curve::rate_of_all(layout, n as usize))
        };
        Grid::fit(keys, fpr, settings, bound, |grid| rate(grid, keys)).map(Self)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        self.0.parameters()
    }

    fn figures(&self) -> Figures {
        let Self(grid) = self;
        Figures {
            keys: grid.keys,
            fpr: rate(grid, grid.keys),
            bytes: grid.bytes(),
            query_cost: grid.query_cost(),
        }
    }

    fn keys(&self) -> u64 {
        self.0.keys
    }

    /// Returns the rate with `keys` stored keys, which are slightly fewer than have arrived.
    fn fpr_at(&self, keys: u64) -> f64 {
        let Self(grid) = self;
        let curve = Curve::of(grid.layout());
        let stored = |arrived| grid.mean(arrived, &curve.slots) * grid.blocks as f64;
        let (mut low, mut high) = (keys, grid.blocks * curve.slots.len() as u64);
        if stored(high) <= keys as f64 {
            return curve.rate[curve.rate.len() - 1];
        }
        while high - low > 1 + (low >> 20) {
            let middle = low.midpoint(high);
            *(if stored(middle) < keys as f64 { &mut low } else { &mut high }) = middle;
        }
        // Interpolates between two numbers of arrivals: with few blocks they differ visibly.
        let (before, after) = (stored(low), stored(high));
        let part = if after > before { (keys as f64 - before) / (after - before) } else { 0.0 };
        let rate = |arrived| grid.mean(arrived, &curve.rate);
        rate(low) + (rate(high) - rate(low)) * part.clamp(0.0, 1.0)
    }
}

/// A TinySet.
///
/// # Examples
/// ```
/// use tamis::{Keyed, TinySet};
///
/// let mut seen = Keyed::<TinySet>::with_capacity(1000, 0.01)?;
/// for key in 0..2000u64 {
///     seen.insert(&key)?; // twice the capacity: still accepted, at a higher rate
/// }
/// assert!((0..2000u64).all(|key| seen.contains(&key)));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TinySet {
    shape: TinySetShape,
    len: u64,
    words: Words,
}

tiny_kind!(TinySet, TinySetShape, false);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;
    use crate::hash::{HashId, Key, KeyHasher};
    use crate::settings::SettingValue;
    use crate::traits::{Build, Filter, Insert, Persist};
    use alloc::vec::Vec;
    use tamis_bits::range::mix;

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 9]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    /// Bits per key at 1, 0.1 and 0.01 %, for 10^7 keys.
    #[test]
    fn documented_sizes() {
        for (block, most) in [
            (256u64, [9.28, 13.69, 19.12]),
            (512, [8.97, 12.82, 17.23]),
            (1024, [8.82, 12.38, 16.28]),
        ] {
            let mut settings = Settings::default();
            settings.set("block", block);
            for (fpr, most) in [1e-2, 1e-3, 1e-4].into_iter().zip(most) {
                let shape = TinySetShape::fit_with(10_000_000, fpr, &settings).unwrap();
                let bits = shape.figures().bits_per_key();
                assert!((most - 0.015..most).contains(&bits), "{block} at {fpr}: {bits}");
            }
        }
    }

    /// Compares the paper's loads of a block of 512 bits with the formula for all keys stored: the
    /// recurrence differs by the keys that are not stored.
    #[test]
    fn rates_of_the_literature() {
        for (load, fpr) in [(0.87, 8.71e-3), (0.61, 8.46e-4), (0.45, 7.65e-5)] {
            let keys = 64_000_000.0 * load;
            let shape = TinySetShape::new(1_000_000, 512, keys as u64).unwrap();
            let off = shape.figures().fpr / fpr;
            assert!((0.98..1.01).contains(&off), "load {load}: {off}");
        }
    }

    /// Plans the blocks of Table 1 of the paper, as many chains as keys: the paper's bits per key are
    /// up to 6 % more.
    #[test]
    fn blocks_of_the_literature() {
        for (load, paper) in [(16u64, [10.1, 15.1, 19.5]), (64, [9.1, 12.8, 16.6])] {
            let settings = Settings::new().with("load", load).with("chains", load);
            for (fpr, paper) in [1e-2, 1e-3, 1e-4].into_iter().zip(paper) {
                let shape = TinySetShape::fit_with(load * 10_000, fpr, &settings).unwrap();
                assert_eq!((shape.blocks(), shape.chains()), (10_000, load));
                let figures = shape.figures();
                assert!(figures.fpr <= fpr && figures.fpr > 0.95 * fpr, "{}", figures.fpr);
                let off = figures.bits_per_key() / paper;
                assert!((0.94..1.0).contains(&off), "{load} keys per block at {fpr}: {off}");
                let less = TinySetShape::new(10_000, shape.block_bits() - 1, load * 10_000);
                let less = less.unwrap().with_chains(load).unwrap();
                assert!(less.figures().fpr > fpr, "a smaller block does it too");
            }
        }
    }

    #[test]
    fn absurd_blocks_are_refused() {
        let fit = |settings: &[(&str, f64)]| {
            let mut all = Settings::new();
            for (name, value) in settings {
                let whole = value.fract() == 0.0;
                all.set(
                    *name,
                    if whole { (*value as u64).into() } else { SettingValue::Real(*value) },
                );
            }
            TinySetShape::fit_with(1000, 0.01, &all)
        };
        for wrong in [
            &[("block", 127.0)][..],
            &[("block", 2049.0)],
            &[("block", 512.5)],
            &[("chains", 7.0)],
            &[("chains", 171.0)],
            &[("block", 128.0), ("chains", 43.0)],
            &[("load", 1.5)],
            &[("load", 1025.0)],
            &[("load", f64::NAN)],
        ] {
            assert!(matches!(fit(wrong), Err(Error::Setting { .. })), "{wrong:?}");
        }
        for high in [&[("load", 64.0), ("block", 512.0)][..], &[("load", 500.0)]] {
            assert!(matches!(fit(high), Err(Error::Infeasible { .. })), "{high:?}");
        }
        assert!(fit(&[("load", 55.5), ("block", 512.0)]).is_ok());
        assert!(TinySetShape::new(10, 512, 10).unwrap().with_chains(171).is_err());
        assert!(TinySetShape::new(10, 100, 10).is_err());
    }

    /// A lookup depends on one line, and an insertion changes no other.
    #[test]
    fn an_operation_reads_and_writes_one_line() {
        let shape = TinySetShape::new(50, 512, 2800).unwrap();
        let mut filter = TinySet::build(shape, &hashes(1, 0..2800)[..]).unwrap();
        assert_eq!(filter.words.as_ptr().addr() % tamis_bits::LINE_BYTES, 0);
        for (i, key) in hashes(1, 2000..4000).into_iter().enumerate() {
            let line = filter.shape.0.block(key);
            let mut elsewhere = filter.clone();
            for (at, word) in elsewhere.words.to_mut().iter_mut().enumerate() {
                *word =
                    if at / tamis_bits::LINE_WORDS == line { *word } else { mix((i + at) as u64) };
            }
            assert_eq!(filter.contains(key), elsewhere.contains(key));
            let before = filter.words.clone();
            filter.insert(key).unwrap();
            elsewhere.insert(key).unwrap();
            let lines = |words: &Words| words.as_chunks::<8>().0.to_vec();
            let (before, after) = (lines(&before), lines(&filter.words));
            let changed: Vec<usize> =
                (0..50).filter(|line| before[*line] != after[*line]).collect();
            assert!(changed.iter().all(|changed| *changed == line));
            assert_eq!(lines(&elsewhere.words)[line], after[line]);
        }
    }

    /// Inserts keys into one block until it accepts every key: there are no false negatives, and
    /// the slots stay below the bound that makes insertions safe.
    #[test]
    fn one_block_takes_every_key() {
        for bits in [256, 512, 1024] {
            for few in [1, 3, 64] {
                let mut filter = TinySet::new(TinySetShape::new(1, bits, 10).unwrap()).unwrap();
                let keys: Vec<KeyHash> = hashes(bits, 0..20_000)
                    .into_iter()
                    .map(|key| KeyHash { hi: 0, lo: key.lo >> 6 | (key.hi % few) << 58 })
                    .collect();
                for (i, key) in keys.iter().enumerate() {
                    filter.insert(*key).unwrap();
                    if i % 997 == 0 {
                        assert!(keys[..=i].iter().all(|key| filter.contains(*key)));
                        filter.validate().unwrap();
                    }
                }
                assert!(keys.iter().all(|key| filter.contains(*key)));
                assert!(filter.len() <= bits / 64 * 44, "{} slots in {bits} bits", filter.len());
            }
        }
    }

    #[test]
    fn duplicates_are_not_stored() {
        let shape = TinySetShape::fit(1000, 0.01).unwrap();
        let keys = hashes(3, 0..1000);
        let once = TinySet::build(shape.clone(), &keys[..]).unwrap();
        let thrice = TinySet::build(shape, &[&keys[..], &keys, &keys].concat()[..]).unwrap();
        assert_eq!(once, thrice);
        assert!((990..=1000).contains(&once.len()));
    }

    #[test]
    fn the_rate_by_stored_keys_equals_the_rate_by_arrived_keys() {
        for (blocks, keys) in [(1, 40), (3, 200), (1000, 57_000), (1000, 150_000)] {
            let shape = TinySetShape::new(blocks, 512, keys).unwrap();
            let grid = &shape.0;
            let stored = grid.mean(keys, &Curve::of(grid.layout()).slots) * blocks as f64;
            let off = shape.fpr_at(stored.round() as u64) / shape.figures().fpr - 1.0;
            assert!(off.abs() < 0.02 / (blocks as f64).sqrt() + 1e-3, "{blocks} blocks: {off}");
        }
        let shape = TinySetShape::new(10, 512, 100).unwrap();
        assert_eq!(shape.fpr_at(0), 0.0);
        assert!(shape.fpr_at(u64::MAX) > 0.999_99);
    }
}
