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
//! 2015. Differences: formula 4.3 of the paper has its second sum over the wrong range, and no term
//! for keys that are not stored; this implementation uses the recurrence at `Curve::new`. Block,
//! chain and record use separate bits of the hash. `mod` in section 3.4 of the paper is the block
//! modulo the keys, not the reverse.

mod inspect;

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::packed::mask;
use tamis_bits::{LazyLock, Words};

use super::common::binomial_mean;
use super::common::tiny_block::{BLOCK, BLOCKS, Code, Grid, Insertion, tiny_kind};
use crate::error::Error;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};

/// The size of the table: a number of blocks of 256, 512 or 1024 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TinySetShape(Grid);

/// The rate and the slots of a block as distinct keys arrive.
struct Curve {
    /// The rate after each number of keys.
    rate: Vec<f64>,
    /// The number of slots after each number of keys.
    slots: Vec<f64>,
}

impl Curve {
    /// Returns the rates of blocks with 0, 1, 2 … slots.
    ///
    /// The records of a chain are distinct when they are inserted, and coincide only as they get
    /// shorter. Let `d` be the number of distinct records of a chain, a random subset of the `2^w`
    /// possible ones. A key that arrives is one of them with probability `d / 2^w`, and is not
    /// stored; otherwise `d` rises by one. When the records lose a bit, pairs of neighbours
    /// coincide: the distribution of the remaining number comes from adding the `d` records one by
    /// one. Chains are treated separately, at 256 positions from the block's first slot to its
    /// last, since the first slots lose their bits later. All terms are positive, so there is no
    /// cancellation.
    fn rates<const W: usize>() -> Vec<f64> {
        const PLACES: usize = 256;
        // A chain has 2 records on average when they are 3 bits long, so 16 is far in the tail.
        const MOST: usize = 16;
        let chains = Code::<W, false>::CHAINS as f64;
        let width =
            |slots: usize, place: usize| Code::<W, false>::width(slots, place * slots / PLACES);
        let mut distinct = vec![[0.0; MOST + 1]; PLACES];
        distinct.iter_mut().for_each(|chain| chain[0] = 1.0);
        let mut rates = vec![0.0];
        for slots in 0..Code::<W, false>::SLOTS {
            let free = 1.0 - rates[slots];
            if free < 1e-9 {
                break;
            }
            let mut rate = 0.0;
            for (place, chain) in distinct.iter_mut().enumerate() {
                let had = if slots == 0 { 57 } else { width(slots, place) };
                let has = width(slots + 1, place);
                let records = mask(had) as f64 + 1.0;
                for d in (1..=MOST).rev() {
                    let gain = |d: usize| (1.0 - d as f64 / records) / (chains * free);
                    let stay = if d < MOST { 1.0 - gain(d) } else { 1.0 };
                    chain[d] = chain[d] * stay + chain[d - 1] * gain(d - 1);
                }
                chain[0] *= 1.0 - 1.0 / (chains * free);
                // Beyond 24 bits, coincidences are below the precision of the result.
                for width in (has + 1..=had.min(24)).rev() {
                    *chain = halved(chain, mask(width) as f64 + 1.0);
                }
                let mean: f64 = chain.iter().enumerate().map(|(d, p)| d as f64 * p).sum();
                rate += mean / (mask(has) as f64 + 1.0) / PLACES as f64;
            }
            rates.push(rate.min(1.0));
        }
        rates
    }

    /// Computes the curve. A block stores only the keys that do not match already.
    fn new<const W: usize>() -> Self {
        let rates = Self::rates::<W>();
        let (mut rate, mut slots) = (vec![0.0], vec![0.0]);
        let mut chance = vec![0.0; rates.len()];
        chance[0] = 1.0;
        // Probabilities outside this range are negligible.
        let (mut low, mut high) = (0, 0);
        while rate[rate.len() - 1] < 1.0 - 1e-6 && rate.len() < 1000 * W {
            high = (high + 1).min(rates.len() - 1);
            for x in (low..=high).rev() {
                let stay = if x + 1 < rates.len() { rates[x] } else { 1.0 };
                let come = if x > low { chance[x - 1] * (1.0 - rates[x - 1]) } else { 0.0 };
                chance[x] = chance[x] * stay + come;
            }
            while chance[low] < 1e-20 {
                chance[low] = 0.0;
                low += 1;
            }
            let mean = |of: &dyn Fn(usize) -> f64| (low..=high).map(|x| chance[x] * of(x)).sum();
            rate.push(f64::min(mean(&|x| rates[x]), 1.0));
            slots.push(mean(&|x| x as f64));
        }
        Self { rate, slots }
    }

    fn of(width: usize) -> &'static Self {
        static CURVES: [LazyLock<Curve>; 3] = [
            LazyLock::new(Curve::new::<4>),
            LazyLock::new(Curve::new::<8>),
            LazyLock::new(Curve::new::<16>),
        ];
        &CURVES[match width {
            4 => 0,
            8 => 1,
            _ => 2,
        }]
    }
}

/// Returns the distribution of the number of distinct records, out of `records`, after they lose a
/// bit: each record is a neighbour of an earlier one, or not.
fn halved<const N: usize>(distinct: &[f64; N], records: f64) -> [f64; N] {
    let (mut left, mut pairs) = ([0.0; N], [0.0; N]);
    pairs[0] = 1.0;
    for (d, chance) in distinct.iter().enumerate() {
        for (left, pairs) in left.iter_mut().zip(&pairs) {
            *left += chance * pairs;
        }
        let taken = d as f64;
        if taken >= records {
            break;
        }
        for k in (1..N).rev() {
            let meets = |k: usize| (2.0 * k as f64 - taken).max(0.0) / (records - taken);
            pairs[k] = pairs[k] * meets(k) + pairs[k - 1] * (1.0 - meets(k - 1));
        }
        pairs[0] = 0.0;
    }
    left
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
    const SETTINGS: &'static [Setting] = &[BLOCK];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let rate = |grid: &Grid| grid.mean(keys, &Curve::of(grid.width).rate);
        Grid::fit(keys, fpr, settings, rate).map(Self)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("blocks", self.0.blocks.into()), ("block", (64 * self.0.width as u64).into())].into()
    }

    fn figures(&self) -> Figures {
        let Self(grid) = self;
        Figures {
            keys: grid.keys,
            fpr: grid.mean(grid.keys, &Curve::of(grid.width).rate),
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
        let curve = Curve::of(grid.width);
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
    use crate::traits::{Build, Filter, Insert, Persist};
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
            let stored = grid.mean(keys, &Curve::of(8).slots) * blocks as f64;
            let off = shape.fpr_at(stored.round() as u64) / shape.figures().fpr - 1.0;
            assert!(off.abs() < 0.02 / (blocks as f64).sqrt() + 1e-3, "{blocks} blocks: {off}");
        }
        let shape = TinySetShape::new(10, 512, 100).unwrap();
        assert_eq!(shape.fpr_at(0), 0.0);
        assert!(shape.fpr_at(u64::MAX) > 0.999_99);
    }
}
