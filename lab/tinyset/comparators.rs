//! The filters that the paper compares with: their sizes by formula, and small working models of
//! those that the library lacks.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use tamis::{Build, Filter, KeyHash, TinySet, TinySetShape};

use crate::analysis::{Block, bits_for, poisson};

/// Returns the sequence of pseudo-random numbers from 0 to n - 1 of a key.
fn draws(key: KeyHash, n: usize) -> impl Iterator<Item = usize> {
    let mut state = key.hi;
    std::iter::from_fn(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state ^ key.lo;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(((u128::from(x ^ x >> 31) * n as u128) >> 64) as usize)
    })
}

/// Returns the bits per key of a Bloom filter with the optimal k, which need not be an integer.
pub(crate) fn bloom_bits(rate: f64) -> f64 {
    -rate.log2() / std::f64::consts::LN_2
}

/// Returns the lowest rate of a Bloom filter with these bits per key and an integer k.
pub(crate) fn bloom_rate(bits: f64) -> f64 {
    (1..40).map(|k| bloom_rate_with(bits, k)).fold(1.0, f64::min)
}

pub(crate) fn bloom_rate_with(bits: f64, k: i32) -> f64 {
    (1.0 - (-f64::from(k) / bits).exp()).powi(k)
}

/// The number of probes: that of a Bloom filter of that size, or the best for blocks.
#[derive(Clone, Copy)]
pub(crate) enum Probes {
    Bloom,
    Best,
}

/// Blocks of 256 bits with up to `cap` keys. Keys beyond it go to a list.
#[derive(Clone, Copy)]
pub(crate) struct Blocked {
    pub(crate) bits: f64,
    pub(crate) k: usize,
    pub(crate) cap: usize,
}

const BLOCK: usize = 256;
/// The fraction of keys that balanced filters put into a list, and the bits of an entry there.
pub(crate) const LISTED: f64 = 0.0049;
pub(crate) const LIST_ENTRY: f64 = 64.0;

impl Blocked {
    fn rate(self) -> f64 {
        let clear = (1.0 - 1.0 / BLOCK as f64).ln();
        let one = |keys: usize| {
            (1.0 - ((keys.min(self.cap) * self.k) as f64 * clear).exp()).powi(self.k as i32)
        };
        poisson(BLOCK as f64 / self.bits).map(|(keys, chance)| chance * one(keys)).sum()
    }

    /// Returns the filter with these bits per key, not counting the list.
    pub(crate) fn with(bits: f64, probes: Probes, balanced: bool) -> Self {
        let mean = BLOCK as f64 / bits;
        let over = |cap: usize| -> f64 {
            poisson(mean).map(|(n, chance)| n.saturating_sub(cap) as f64 * chance).sum::<f64>()
                / mean
        };
        let cap =
            if balanced { (1..).find(|cap| over(*cap) <= LISTED).unwrap_or(1) } else { BLOCK };
        let ks = match probes {
            Probes::Best => 1..=24,
            Probes::Bloom => {
                let k = (bits * std::f64::consts::LN_2).round().max(1.0) as usize;
                k..=k
            }
        };
        let all = ks.map(|k| Self { bits, k, cap });
        all.min_by(|a, b| a.rate().total_cmp(&b.rate())).expect("a number of probes")
    }

    pub(crate) fn for_rate(rate: f64, probes: Probes, balanced: bool) -> Self {
        Self::with(
            bits_for(rate, |bits| Self::with(bits, probes, balanced).rate()),
            probes,
            balanced,
        )
    }

    /// Returns the measured rate and the fraction of keys in the list.
    pub(crate) fn measure(self, members: &[KeyHash], strangers: &[KeyHash]) -> (f64, f64) {
        let blocks = (members.len() as f64 * self.bits / BLOCK as f64).round() as usize;
        let mut filled = vec![([false; BLOCK], 0); blocks];
        let mut listed = 0u32;
        let places = |key: KeyHash| {
            let mut draws = draws(KeyHash { hi: key.lo, lo: key.hi }, BLOCK);
            (
                draws_one(key, blocks),
                std::array::from_fn::<usize, 24, _>(|_| draws.next().unwrap_or(0)),
            )
        };
        for key in members {
            let (block, bits) = places(*key);
            let (block, count) = &mut filled[block];
            if *count == self.cap {
                listed += 1;
                continue;
            }
            *count += 1;
            bits[..self.k].iter().for_each(|bit| block[*bit] = true);
        }
        let yes = strangers.iter().filter(|key| {
            let (block, bits) = places(**key);
            bits[..self.k].iter().all(|bit| filled[block].0[*bit])
        });
        (yes.count() as f64 / strangers.len() as f64, f64::from(listed) / members.len() as f64)
    }
}

fn draws_one(key: KeyHash, n: usize) -> usize {
    ((u128::from(key.hi) * n as u128) >> 64) as usize
}

/// d-left counting: 4 tables of buckets with 8 cells for 6 keys, each a remainder and a 2-bit
/// counter. A key's place in each table is a permutation of its hash, so that two keys have all
/// places in common or none.
pub(crate) mod d_left {
    use super::{HashMap, KeyHash};

    /// Returns the bits per key at a rate; a query compares 24 remainders.
    pub(crate) fn bits(rate: f64) -> f64 {
        ((24.0 / rate).log2() + 2.0) * 8.0 / 6.0
    }

    /// Returns the measured rate with remainders of `width` bits, and the keys in the fullest
    /// bucket.
    pub(crate) fn measure(width: u32, members: &[KeyHash], strangers: &[KeyHash]) -> (f64, usize) {
        let buckets = (members.len() / 24).next_power_of_two() as u64;
        // Bucket and remainder of a table come from an odd multiple of the hash.
        let bits = buckets.ilog2() + width;
        let place = |key: KeyHash, table: u64| {
            let whole = key.hi >> (64 - bits);
            let odd = [1, 0x9e37_79b1, 0x85eb_ca6b, 0xc2b2_ae35][table as usize];
            let mixed = whole.wrapping_mul(odd) & ((1 << bits) - 1);
            (table << 60 | mixed >> width, mixed & ((1 << width) - 1))
        };
        let mut tables: HashMap<u64, Vec<u64>> = HashMap::new();
        for key in members.iter().take(buckets as usize * 24) {
            let load = |table: u64| tables.get(&place(*key, table).0).map_or(0, Vec::len);
            let least = (0..4).min_by_key(|table| load(*table)).unwrap_or(0);
            let (bucket, rest) = place(*key, least);
            tables.entry(bucket).or_default().push(rest);
        }
        let has = |key: KeyHash, table: u64| {
            let (bucket, rest) = place(key, table);
            tables.get(&bucket).is_some_and(|cells| cells.contains(&rest))
        };
        let yes = strangers.iter().filter(|key| (0..4).any(|table| has(**key, table)));
        let fullest = tables.values().map(Vec::len).max().unwrap_or(0);
        (yes.count() as f64 / strangers.len() as f64, fullest)
    }
}

/// The counting Bloom filter with variable increments. A key adds a number from `L` to `2L - 1` to
/// each of its counters. A counter that cannot contain its number proves that the key is absent.
pub(crate) mod vi_counting {
    use super::{KeyHash, bits_for, draws};

    pub(crate) const L: usize = 4;
    /// Bits of a counter. The paper states neither this nor `L`; 6 and 4 fit its figures.
    pub(crate) const COUNTER: f64 = 6.0;

    fn rate(counters: f64, k: i32) -> f64 {
        let (x, l) = (f64::from(k) / counters, L as f64);
        let none = (-x).exp();
        let one = (l - 1.0) / l * x * none;
        let two = (l * l - 1.0) / (6.0 * l * l) * x * x / 2.0 * none;
        (1.0 - none - one - two).powi(k)
    }

    /// Returns the counters per key at a rate, and the best number of counters that a key sets.
    pub(crate) fn counters(goal: f64) -> (f64, i32) {
        let best = |k: i32| (bits_for(goal, |counters| rate(counters, k)), k);
        (1..16).map(best).min_by(|a, b| a.0.total_cmp(&b.0)).expect("a number of counters")
    }

    pub(crate) fn measure(goal: f64, members: &[KeyHash], strangers: &[KeyHash]) -> f64 {
        let (counters, k) = counters(goal);
        let m = (members.len() as f64 * counters) as usize;
        let steps = |key: KeyHash| {
            let mut draws = draws(key, m * L);
            (0..k).map(move |_| draws.next().map_or((0, L), |draw| (draw / L, L + draw % L)))
        };
        let mut table = vec![0usize; m];
        members.iter().for_each(|key| steps(*key).for_each(|(place, step)| table[place] += step));
        let possible = |(place, step): (usize, usize)| {
            let rest = table[place].checked_sub(step);
            rest.is_some_and(|rest| rest == 0 || rest >= L)
        };
        let yes = strangers.iter().filter(|key| steps(**key).all(possible));
        yes.count() as f64 / strangers.len() as f64
    }
}

/// A TinySet with the overflow list of balanced filters: a block gets at most `cap` keys, and the
/// others go to a list of [`LIST_ENTRY`] bits each.
#[derive(Clone, Copy)]
pub(crate) struct Capped {
    pub(crate) mean: f64,
    pub(crate) cap: usize,
    /// Bits per key, with the list.
    pub(crate) bits: f64,
}

impl Capped {
    /// Returns the filter with the fewest bits per key, for blocks of `bits` bits with a chain for
    /// every 8. Without `list`, no block has a cap.
    pub(crate) fn for_rate(rate: f64, bits: usize, list: bool) -> Self {
        let block = Block { array: bits - bits / 8, chains: bits / 8, removable: false };
        let rates: Vec<f64> = (0..=block.array).map(|keys| block.rate(keys)).collect();
        let mut best = Self { mean: 0.0, cap: 0, bits: f64::MAX };
        for tenths in bits / 4..bits * 2 {
            let mean = tenths as f64 / 10.0;
            let chances: Vec<(usize, f64)> = poisson(mean).collect();
            let caps = mean as usize..(mean + 6.0 * mean.sqrt()) as usize;
            for cap in if list { caps } else { block.array..block.array + 1 } {
                let of = |part: &dyn Fn(usize) -> f64| -> f64 {
                    chances.iter().map(|(keys, chance)| chance * part(*keys)).sum()
                };
                let listed = of(&|keys| keys.saturating_sub(cap) as f64) / mean;
                let all = bits as f64 / mean + listed * LIST_ENTRY;
                if all < best.bits && of(&|keys| rates[keys.min(cap).min(block.array)]) <= rate {
                    best = Self { mean, cap, bits: all };
                }
            }
        }
        best
    }

    /// Returns the measured rate and the fraction of keys in the list.
    pub(crate) fn measure(self, bits: u64, strangers: &[KeyHash]) -> Result<(f64, f64)> {
        const BLOCKS: usize = 20_000;
        let members = lab::hashes(11, 0, (self.mean * BLOCKS as f64) as u64);
        let (mut counts, mut listed) = (vec![0; BLOCKS], HashSet::new());
        let mut kept = Vec::new();
        for key in &members {
            let count = &mut counts[draws_one(*key, BLOCKS)];
            if *count == self.cap {
                listed.insert(key.hi);
                continue;
            }
            *count += 1;
            kept.push(*key);
        }
        let shape = TinySetShape::new(BLOCKS as u64, bits, kept.len() as u64)?;
        let filter = TinySet::build(shape, &kept[..])?;
        let has = |key: &&KeyHash| filter.contains(**key) || listed.contains(&key.hi);
        anyhow::ensure!(members.iter().all(|key| has(&key)), "a member was denied");
        let yes = strangers.iter().filter(has).count() as f64 / strangers.len() as f64;
        Ok((yes, listed.len() as f64 / members.len() as f64))
    }
}

/// Rank-indexed hashing (Hua, Zhao, Lin, Xu, 2008): fingerprints of one width in buckets of many
/// chains. A bucket has cells of its own, and borrows from a pool when it has more fingerprints.
///
/// The fingerprints of a bucket are in levels: the first of each chain, then the second of each, and
/// so on. A bitmap for each level tells which chains of the level before go on, so the number of set
/// bits before a chain's bit is the position of its fingerprint.
pub(crate) mod rank_indexed {
    use super::{KeyHash, draws_one, poisson};

    /// Chains of a bucket.
    const CHAINS: usize = 64;
    /// The probability that a filter of [`BUCKETS`] buckets runs out of cells.
    const OVERFLOW: f64 = 1e-10;
    pub(crate) const BUCKETS: usize = 3000;

    /// The sizes of a filter.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Sizes {
        /// Bits of a fingerprint, and of its counter if keys may be removed.
        width: u32,
        counter: u32,
        /// Keys per bucket on average.
        mean: f64,
        /// Cells of a bucket, and of its first and second extension.
        cells: [usize; 3],
        /// First and second extensions in the pools.
        pools: [usize; 2],
    }

    impl Sizes {
        /// Returns the smallest sizes at a rate, found by trying all.
        pub(crate) fn for_rate(rate: f64, counter: u32) -> Self {
            let mut best: Option<Self> = None;
            // A non-member is compared with the fingerprints of one chain.
            for width in 4..=24 {
                let mean = rate * f64::from(width).exp2() * CHAINS as f64;
                if !(8.0..=160.0).contains(&mean) {
                    continue;
                }
                let over: Vec<f64> = tails(mean);
                let most = over.iter().position(|p| p * BUCKETS as f64 <= OVERFLOW);
                let most = most.unwrap_or(over.len() - 1);
                for base in mean as usize..most {
                    for first in 1..=most - base {
                        let cells = [base, first, most - base - first];
                        let pools = [base, base + first].map(|cells| pool(over[cells]));
                        let sizes = Self { width, counter, mean, cells, pools };
                        if best.is_none_or(|best| sizes.bits() < best.bits()) {
                            best = Some(sizes);
                        }
                    }
                }
            }
            best.expect("a width with a fitting load")
        }

        /// Returns the bits per key. Each cell has a bit of the bitmaps beside its fingerprint. A
        /// bucket and a first extension have a pointer to the next.
        pub(crate) fn bits(&self) -> f64 {
            let cell = f64::from(1 + self.width + self.counter);
            let pointer = |pool: usize| ((pool + 1) as f64).log2().ceil();
            let [base, first, second] = self.cells.map(|cells| cells as f64 * cell);
            let bucket = CHAINS as f64 + base + pointer(self.pools[0]);
            let extensions = self.pools[0] as f64 * (first + pointer(self.pools[1]))
                + self.pools[1] as f64 * second;
            (bucket + extensions / BUCKETS as f64) / self.mean
        }
    }

    /// Returns the probabilities that a bucket has more than 0, 1, 2 … keys.
    fn tails(mean: f64) -> Vec<f64> {
        let mut tails: Vec<f64> = poisson(mean).map(|(_, chance)| chance).collect();
        let mut sum = 0.0;
        for tail in tails.iter_mut().rev() {
            (*tail, sum) = (sum, sum + *tail);
        }
        tails
    }

    /// Returns the extensions that suffice if each bucket needs one with this probability: the
    /// mean and 6.5 standard deviations, beyond which are 10^-10 of a normal distribution.
    fn pool(chance: f64) -> usize {
        let mean = chance * BUCKETS as f64;
        ((mean + 6.5 * mean.sqrt()).ceil() as usize).min(BUCKETS)
    }

    /// A bucket: bitmaps, and fingerprints with their counts.
    #[derive(Clone)]
    struct Bucket {
        levels: Vec<Vec<bool>>,
        fingerprints: Vec<Vec<(u64, u32)>>,
    }

    impl Bucket {
        fn len(&self) -> usize {
            self.fingerprints.iter().map(Vec::len).sum()
        }

        /// Returns the position of a chain's fingerprint at each level.
        fn places(&self, chain: usize) -> Vec<usize> {
            let (mut at, mut places) = (chain, Vec::new());
            for level in &self.levels {
                if !level[at] {
                    break;
                }
                at = level[..at].iter().filter(|bit| **bit).count();
                places.push(at);
            }
            places
        }

        fn find(&self, chain: usize, fingerprint: u64) -> Option<(usize, usize)> {
            let mut places = self.places(chain).into_iter().enumerate();
            places.find(|(level, at)| self.fingerprints[*level][*at].0 == fingerprint)
        }

        fn insert(&mut self, chain: usize, fingerprint: u64) {
            let places = self.places(chain);
            let (level, from) = (places.len(), places.last().copied().unwrap_or(chain));
            self.levels[level][from] = true;
            let at = self.levels[level][..from].iter().filter(|bit| **bit).count();
            if self.fingerprints.len() == level {
                self.fingerprints.push(Vec::new());
                self.levels.push(Vec::new());
            }
            self.fingerprints[level].insert(at, (fingerprint, 1));
            self.levels[level + 1].insert(at, false);
        }

        /// Removes a fingerprint: the last of its chain takes its place.
        fn remove(&mut self, chain: usize, (level, at): (usize, usize)) {
            let places = self.places(chain);
            let last = places.len() - 1;
            let moved = self.fingerprints[last].remove(places[last]);
            self.levels[last + 1].remove(places[last]);
            let from = if last == 0 { chain } else { places[last - 1] };
            self.levels[last][from] = false;
            if level < last {
                self.fingerprints[level][at] = moved;
            }
        }
    }

    pub(crate) struct RankIndexed {
        sizes: Sizes,
        buckets: Vec<Bucket>,
        /// First and second extensions in use.
        used: [usize; 2],
    }

    impl RankIndexed {
        pub(crate) fn new(sizes: Sizes) -> Self {
            let bucket = Bucket { levels: vec![vec![false; CHAINS]], fingerprints: Vec::new() };
            Self { sizes, buckets: vec![bucket; BUCKETS], used: [0; 2] }
        }

        pub(crate) fn capacity(&self) -> u64 {
            (self.sizes.mean * BUCKETS as f64) as u64
        }

        fn place(&self, key: KeyHash) -> (usize, usize, u64) {
            let fingerprint = key.lo & ((1 << self.sizes.width) - 1);
            (draws_one(key, BUCKETS), (key.lo >> 58) as usize, fingerprint)
        }

        /// Inserts a key; returns `false` if a pool is used up. A fingerprint that is there is
        /// counted, or left as it is.
        pub(crate) fn insert(&mut self, key: KeyHash) -> bool {
            let (bucket, chain, fingerprint) = self.place(key);
            let Self { sizes, buckets, used } = self;
            let bucket = &mut buckets[bucket];
            if let Some((level, at)) = bucket.find(chain, fingerprint) {
                let count = &mut bucket.fingerprints[level][at].1;
                let most = (1 << sizes.counter) - 1;
                if sizes.counter == 0 {
                    return true;
                }
                if *count < most {
                    *count += 1;
                    return true;
                }
            }
            let len = bucket.len();
            for (pool, used) in used.iter_mut().enumerate() {
                if len == sizes.cells[..=pool].iter().sum::<usize>() {
                    if *used == sizes.pools[pool] {
                        return false;
                    }
                    *used += 1;
                }
            }
            if len == sizes.cells.iter().sum::<usize>() {
                return false;
            }
            bucket.insert(chain, fingerprint);
            true
        }

        pub(crate) fn contains(&self, key: KeyHash) -> bool {
            let (bucket, chain, fingerprint) = self.place(key);
            self.buckets[bucket].find(chain, fingerprint).is_some()
        }

        /// Removes a key that was inserted, if the filter has counters.
        pub(crate) fn remove(&mut self, key: KeyHash) -> bool {
            let (bucket, chain, fingerprint) = self.place(key);
            let Self { sizes, buckets, used } = self;
            let bucket = &mut buckets[bucket];
            let Some((level, at)) = bucket.find(chain, fingerprint) else { return false };
            let count = &mut bucket.fingerprints[level][at].1;
            *count -= 1;
            if *count == 0 {
                bucket.remove(chain, (level, at));
                let len = bucket.len();
                for (pool, used) in used.iter_mut().enumerate() {
                    *used -= usize::from(len == sizes.cells[..=pool].iter().sum::<usize>());
                }
            }
            true
        }
    }
}
