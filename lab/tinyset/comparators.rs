//! The filters that the paper compares with: their sizes by formula, and small working models of
//! those that the library lacks.

use std::collections::HashMap;

use tamis::KeyHash;

use crate::analysis::{bits_for, poisson};

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
