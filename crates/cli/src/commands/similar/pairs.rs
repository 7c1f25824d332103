//! Finds the pairs of token sets that are most alike, without comparing all of them.
//!
//! ```text
//!  set ──► min-hashes h1 h2 h3 │ h4 h5 h6 │ …     bands of r min-hashes
//!          sets that agree in a whole band are compared by their Bloom filters
//! ```
//!
//! Two sets agree in a min-hash with the probability J of their Jaccard index, in a band with J^r, and in
//! one of b bands with 1 - (1 - J^r)^b. [`Bands::for_jaccard`] takes as many as find 99 % of the pairs that
//! are just alike enough. Sets that are equal are compared once: with the first of them.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use tamis::KeyHash;

/// The share of the pairs at the least Jaccard index that is found.
const RECALL: f64 = 0.99;
/// Most bands, and most min-hashes of a band.
const MAX_BANDS: u32 = 64;
const MAX_ROWS: u32 = 8;
/// Up to this many sets all pairs are compared.
const FEW: usize = 1000;

/// The number of bands, and of min-hashes in each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bands {
    count: u32,
    rows: u32,
}

impl Bands {
    /// Returns the bands that find pairs with a Jaccard index of `least` or more. Wide bands are agreed on by
    /// chance less often.
    pub(super) fn for_jaccard(least: f64) -> Self {
        let needed = |rows: u32| {
            let agrees = least.powi(rows as i32);
            ((1.0 - RECALL).ln() / (-agrees).ln_1p()).ceil().max(1.0)
        };
        let rows = (1..=MAX_ROWS).rev().find(|rows| needed(*rows) <= f64::from(MAX_BANDS));
        let rows = rows.unwrap_or(1);
        Self { count: needed(rows).min(f64::from(MAX_BANDS)) as u32, rows }
    }

    /// Returns the probability that a pair with this Jaccard index is found.
    pub(super) fn recall(&self, jaccard: f64) -> f64 {
        1.0 - (1.0 - jaccard.powi(self.rows as i32)).powi(self.count as i32)
    }
}

/// A set of tokens: its size, its Bloom filter and its bands.
#[derive(Debug)]
pub(super) struct Sketch {
    tokens: usize,
    words: Vec<u64>,
    bands: Vec<u64>,
    /// Equal sets have equal sums.
    sum: (u64, u64),
}

impl Sketch {
    /// Returns the sketch of a set, which is not empty, with a filter of `bits` bits.
    pub(super) fn new(tokens: &[KeyHash], bits: usize, bands: &Bands) -> Self {
        let mut words = vec![0u64; bits / 64];
        let mut sum = (0u64, 0u64);
        for token in tokens {
            let bit = token.lo as usize % bits;
            words[bit / 64] |= 1 << (bit % 64);
            sum = (sum.0.wrapping_add(mix(token.hi)), sum.1.wrapping_add(mix(token.lo)));
        }
        let min_hash = |function: u64| {
            let salt = mix(function.wrapping_add(1));
            tokens.iter().map(|token| mix(token.hi ^ salt)).min().unwrap_or(0)
        };
        let band = |band: u32| {
            let first = u64::from(band * bands.rows);
            (first..first + u64::from(bands.rows)).fold(0, |key, row| mix(key ^ min_hash(row)))
        };
        let bands = (0..bands.count).map(band).collect();
        Self { tokens: tokens.len(), words, bands, sum }
    }
}

/// The finaliser of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Estimates of how alike two sets are, with standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alike {
    pub(super) jaccard: f64,
    pub(super) jaccard_error: f64,
    pub(super) cosine: f64,
    pub(super) cosine_error: f64,
}

impl Alike {
    /// Compares two sets. Their sizes a and b are known; that of the union is estimated from the m bits of
    /// both filters, of which z are clear: u = m ln(m / z), with a standard error of
    /// sqrt(m (e^t - t - 1)) at t = u / m.
    fn of(one: &Sketch, other: &Sketch) -> Self {
        let (a, b) = (one.tokens as f64, other.tokens as f64);
        if one.sum == other.sum {
            return Self { jaccard: 1.0, jaccard_error: 0.0, cosine: 1.0, cosine_error: 0.0 };
        }
        let m = (one.words.len() * 64) as f64;
        let both = one.words.iter().zip(&other.words).map(|(x, y)| (x | y).count_ones());
        let clear = (m - f64::from(both.sum::<u32>())).max(1.0);
        // The union has no fewer than the larger set, and no more than both.
        let union = (m * (m / clear).ln()).clamp(a.max(b), a + b);
        let load = union / m;
        let error = (m * (load.exp() - load - 1.0)).sqrt();
        Self {
            jaccard: (a + b - union) / union,
            jaccard_error: (a + b) / (union * union) * error,
            cosine: (a + b - union) / (a * b).sqrt(),
            cosine_error: error / (a * b).sqrt(),
        }
    }
}

/// A pair of sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) alike: Alike,
}

impl Eq for Pair {}

/// The least alike pair is the greatest, so that a heap drops it first; of equals the later one.
impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_likeness = other.alike.jaccard.total_cmp(&self.alike.jaccard);
        by_likeness.then((self.a, self.b).cmp(&(other.a, other.b)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the `top` pairs with the highest estimated Jaccard index, at least `least`, the most alike first.
pub(super) fn most_alike(sets: &[Sketch], bands: &Bands, least: f64, top: usize) -> Vec<Pair> {
    let mut heap = BinaryHeap::with_capacity(top.min(1 << 20) + 1);
    let mut keep = |a: usize, b: usize| {
        let pair = Pair { a, b, alike: Alike::of(&sets[a], &sets[b]) };
        if pair.alike.jaccard >= least {
            heap.push(pair);
            if heap.len() > top {
                heap.pop();
            }
        }
    };
    // Equal sets are compared with the first of them, which stands for all.
    let mut first_of: HashMap<(u64, u64), usize> = HashMap::new();
    let mut distinct = Vec::new();
    for (at, set) in sets.iter().enumerate() {
        match *first_of.entry(set.sum).or_insert(at) {
            first if first < at => keep(first, at),
            _ => distinct.push(at),
        }
    }
    if distinct.len() <= FEW {
        for (index, a) in distinct.iter().enumerate() {
            distinct[index + 1..].iter().for_each(|b| keep(*a, *b));
        }
        return heap.into_sorted_vec();
    }
    for band in 0..bands.count as usize {
        let mut by_key: Vec<(u64, usize)> =
            distinct.iter().map(|at| (sets[*at].bands[band], *at)).collect();
        by_key.sort_unstable();
        for equal in by_key.chunk_by(|x, y| x.0 == y.0) {
            for (index, (_, a)) in equal.iter().enumerate() {
                for (_, b) in &equal[index + 1..] {
                    let mut earlier = sets[*a].bands[..band].iter().zip(&sets[*b].bands);
                    // An earlier band has compared them.
                    if !earlier.any(|(x, y)| x == y) {
                        keep(*a, *b);
                    }
                }
            }
        }
    }
    heap.into_sorted_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of `size` tokens, `shared` of which are those of every set with this seed.
    fn set(seed: u64, number: u64, shared: u64, size: u64) -> Vec<KeyHash> {
        let token = |x: u64| KeyHash { hi: mix(x), lo: mix(!x) };
        let common = (0..shared).map(|i| token(seed << 32 | i));
        common.chain((shared..size).map(|i| token(number << 40 | 1 << 63 | i))).collect()
    }

    #[test]
    fn bands_find_what_they_promise() {
        for least in [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0] {
            let bands = Bands::for_jaccard(least);
            assert!(bands.recall(least) >= RECALL || least < 0.2, "{least}: {bands:?}");
            assert!(bands.recall(least / 4.0) < bands.recall(least));
        }
        assert!(Bands::for_jaccard(0.8).recall(0.1) < 0.01);
    }

    /// 200 pairs of known likeness among 12 000 sets: 72 · 10^6 pairs, of which few are compared.
    #[test]
    fn planted_pairs_are_found_with_the_stated_recall() {
        const SETS: u64 = 12_000;
        let bands = Bands::for_jaccard(0.6);
        let mut sets = Vec::new();
        for number in 0..SETS {
            // Sets 2i and 2i + 1 share 60 of 80 tokens for i below 200: a Jaccard index of 0.6. All
            // others share 4 tokens with everything.
            let tokens = match number {
                0..400 => set(number / 2, number, 60, 80),
                _ => set(0xffff, number, 4, 80),
            };
            sets.push(Sketch::new(&tokens, 512, &bands));
        }
        let found = most_alike(&sets, &bands, 0.4, 1000);
        let planted = found.iter().filter(|pair| pair.a / 2 == pair.b / 2 && pair.b < 400);
        let recall = planted.clone().count() as f64 / 200.0;
        let stated = bands.recall(0.6);
        // Four standard deviations of 200 draws.
        let slack = 4.0 * (stated * (1.0 - stated) / 200.0).sqrt();
        assert!(recall >= stated - slack, "{recall}, not {stated}");
        assert_eq!(found.len(), planted.clone().count(), "others are not alike");
        // Estimates are right within their errors: 1.96 of them cover 95 % of all.
        let near = planted
            .filter(|pair| (pair.alike.jaccard - 0.6).abs() <= 1.96 * pair.alike.jaccard_error);
        let covered = near.count() as f64 / 200.0;
        assert!((0.88..=1.0).contains(&covered), "{covered} are within 1.96 errors");
    }

    #[test]
    fn equal_sets_are_one() {
        let bands = Bands::for_jaccard(0.5);
        let sets: Vec<Sketch> =
            (0..5000).map(|number| Sketch::new(&set(1, number % 2, 10, 20), 256, &bands)).collect();
        let found = most_alike(&sets, &bands, 0.9, 3);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|pair| pair.a == 0 && pair.alike.jaccard == 1.0), "{found:?}");
        assert_eq!(found[0].b, 2);
        assert!(most_alike(&sets[..2], &bands, 0.5, 3).is_empty());
        assert!(most_alike(&[], &bands, 0.5, 3).is_empty());
    }
}
