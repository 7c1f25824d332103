//! The SAT filter: every key is a clause of a formula, and the filter is a solution of the formula.
//!
//! ```text
//!  digest ──► its leading bits ──► block ──► where its entries start, and its seed
//!         ──► k positions, and for each of them s signs
//!
//!  block   │ entry 0 │ entry 1 │ …  │ entry n-1 │ retries │      s bits per entry: one per plane
//!               ▲         ▲               ▲
//!               └─────────┴── XOR signs ──┘
//!                 OR of the k words = s ones, for every member
//! ```
//!
//! An entry is a variable with its values in s formulas, the *planes*. In each plane a key is a
//! clause: one of its k literals must be true. For a non-member a literal is false with probability 1/2
//! and a clause with 2^-k, so it passes all planes with probability (1 - 2^-k)^s. That is exact at any
//! load, because its signs are independent of everything else. The solver saves memory: the more
//! clauses it can satisfy with n variables, the fewer bits a key takes.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | log2(1/rate) / E, where the efficiency E depends on the time spent: the default is 0.75, a Bloom filter has 0.69 |
//! | cache lines | up to k for s <= 512 / k, and the directory, which stays in the cache |
//! | building | for a rate of 1/4 and E = 0.75 about 5 µs per key with k = 4; E = 0.85 takes eight times as long |
//! | failure | none: a plane without a solution tries other signs, a block other positions and then more entries |
//!
//! *Efficiency* is log2(1/rate) · keys / bits. Its limit is the threshold of random k-SAT, past which
//! formulas have no solution: 0.822, 0.925, 0.967, 0.985 and 0.993 for k of 3 to 7. Solvers give up a
//! few percent before it. The filter states the efficiency that it reached, not the one requested.
//!
//! There are four constructions:
//!
//! * `sliced`, the default, as drawn: one set of positions per key, and signs for each plane. A query
//!   takes k reads.
//! * `multi`, the paper's *multi-instance*: positions and signs for each plane. A query takes up to
//!   k · s reads.
//! * `single`, the paper's *single-instance*: one formula, and s solutions of it that are as diverse as
//!   can be found. They are not independent, so the rate is not known in advance: the build looks up
//!   2^20 non-members, and the filter states the fraction that passed. The setting `distance` requires
//!   a mean Hamming distance of the solutions, for which the filter becomes larger if it must.
//! * `nae`: the same with *not all equal* clauses, which the complement of a solution satisfies as
//!   well. s is half as large, and solutions are nearly independent. The rate is measured as for
//!   `single`.
//!
//! Keys cannot be added or removed. [`binary_fuse`](super::binary_fuse) and [`ribbon`](super::ribbon)
//! are smaller and are built a hundred times as fast. This filter shows how far random k-SAT goes.
//!
//! Weaver, Ray, Marek, Mayer and Walker, *Satisfiability-based Set Membership Filters*, 2014.
//! Differences: `sliced` is not in the paper. Keys are split into blocks, for `sliced` of 2^14 to 2^15
//! keys (twice as many for k = 6, four times for k = 7) and for the others of 2^17 to 2^18, so that the
//! time is linear in the keys. The solver is our own. Positions of one key may be equal in `sliced`,
//! where that does not change the rate; the others draw until they differ, as in Algorithm 3. Searches
//! of `single` are led away from the earlier solutions, and then all solutions are moved apart by simulated
//! annealing; the paper blocks parts of a solution that is too similar by clauses.

mod build;
mod clause;
mod formula;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;

use tamis_bits::{Words, lines, prefetch};
use tamis_format::{Name, Reader, Writer};

use super::common::usize_words;
use crate::error::Error;
use crate::gather::{Gathered, gather};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::parts::{BuildParts, sealed::SolveParts};
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Persist, Static};
use clause::{Block, Probe};

pub use formula::SatFormula;

const TABLE: Name = Name::new("table");
const EXTRA: Name = Name::new("extra");

/// A limit that no rate of 2^-16 reaches.
const MAX_PLANES: u64 = 2048;
const MAX_BLOCK_BITS: u32 = 32;
/// A directory word has 48 bits for a block's first entry.
const START: u64 = (1 << 48) - 1;
/// Non-members that the build looks up if the rate is not known in advance.
const SAMPLE: u64 = 1 << 20;
/// Non-members of the sample that are looked up between two checks.
const CHECKED: u64 = 1 << 14;
/// Keys of a batch whose entries are prefetched before the first one is read.
const BATCH: usize = 32;

/// How the clauses of a key are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construction {
    /// The same positions in all planes, other signs in each.
    Sliced,
    /// Other positions and signs in each plane.
    Multi,
    /// The same positions and signs in all planes.
    Single,
    /// As `Single`, with clauses whose literals must not all be equal.
    Nae,
}

impl Construction {
    const ALL: [Self; 4] = [Self::Sliced, Self::Multi, Self::Single, Self::Nae];
    const NAMES: [&str; 4] = ["sliced", "multi", "single", "nae"];

    /// Returns the fraction of non-members that one plane rejects.
    fn rejected(self, k: u32) -> f64 {
        (if self == Self::Nae { 2.0 } else { 1.0 }) * (-f64::from(k)).exp2()
    }

    /// Returns the information that one plane holds about a key, in bits.
    fn bits(self, k: u32) -> f64 {
        -(1.0 - self.rejected(k)).log2()
    }

    /// Returns whether the rate follows from the shape.
    fn is_exact(self) -> bool {
        matches!(self, Self::Sliced | Self::Multi)
    }

    /// Returns the least number of variables from which a key's positions are drawn.
    fn least(self, k: u32) -> u64 {
        if self == Self::Sliced { 1 } else { 2 * u64::from(k) }
    }

    /// Returns the binary logarithm of the least keys of a block; the most are twice as many. With too
    /// few keys many formulas have no solution, with too many a thread works long on one.
    fn block_bits(self, k: u32) -> u32 {
        match self {
            Self::Sliced => 14 + k.saturating_sub(5),
            _ => 17,
        }
    }
}

const K: Setting = Setting::new("k", "3 to 7: literals per clause; default 4");
const CONSTRUCTION: Setting =
    Setting::new("construction", "sliced, multi, single or nae; default sliced");
const EFFICIENCY: Setting = Setting::new(
    "efficiency",
    "0.01 to a little below 0.822, 0.925, 0.967, 0.985, 0.993 for k of 3 to 7; default 0.75",
);
const DEFAULT_EFFICIENCY: f64 = 0.75;
const PLANES: Setting = Setting::new(
    "s",
    "1 to 2048: planes, which are the instances of multi; default: derived from the rate",
);
const VARS: Setting = Setting::new(
    "n",
    "variables of each block, at most 2^24, instead of an efficiency; default: derived from it",
);
const BLOCKS: Setting = Setting::new(
    "blocks",
    "a power of two, at most 1 for 32 keys: blocks that the keys are split into; default: derived from the keys",
);
const DISTANCE: Setting = Setting::new(
    "distance",
    "0.01 to 0.5, for single: least mean Hamming distance of the solutions, per variable; default: none",
);
/// The unit of a distance in a shape is 10^-6.
const DISTANCE_UNIT: f64 = 1e-6;
/// The largest value of the setting `n`.
const MAX_BLOCK_VARS: u64 = 1 << 24;
/// The least mean number of keys of a block.
const MIN_BLOCK_KEYS: u64 = 32;

/// The efficiency past which random formulas have no solution, and the text of the error for higher
/// ones: for k of 3 to 7, and again for *not all equal* clauses.
const THRESHOLDS: [(f64, &str); 10] = [
    (0.822, "0.01 to less than 0.822, past which clauses of 3 literals have no solution"),
    (0.925, "0.01 to less than 0.925, past which clauses of 4 literals have no solution"),
    (0.967, "0.01 to less than 0.967, past which clauses of 5 literals have no solution"),
    (0.985, "0.01 to less than 0.985, past which clauses of 6 literals have no solution"),
    (0.993, "0.01 to less than 0.993, past which clauses of 7 literals have no solution"),
    (0.871, "0.01 to less than 0.871, past which nae clauses of 3 literals have no solution"),
    (0.953, "0.01 to less than 0.953, past which nae clauses of 4 literals have no solution"),
    (0.977, "0.01 to less than 0.977, past which nae clauses of 5 literals have no solution"),
    (0.988, "0.01 to less than 0.988, past which nae clauses of 6 literals have no solution"),
    (0.994, "0.01 to less than 0.994, past which nae clauses of 7 literals have no solution"),
];

/// The shape: planes, and entries in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SatShape {
    construction: Construction,
    k: u32,
    planes: u64,
    keys: u64,
    /// The number of blocks is `2^block_bits`.
    block_bits: u32,
    /// Entries of all blocks.
    entries: u64,
    /// The non-members among [`SAMPLE`] that passed; 0 if the rate follows from the other fields.
    passed: u64,
    /// The least mean distance of the solutions of a block in units of [`DISTANCE_UNIT`]. It is 0 once the
    /// filter is built.
    distance: u32,
}

impl SatShape {
    /// Returns the shape for `keys` keys with `k` literals per clause, 3 to 7, and `planes` planes.
    ///
    /// # Errors
    /// [`Error::Setting`] if `k` or `efficiency` is out of range, [`Error::Limit`] if `planes` or `keys`
    /// is.
    pub fn new(
        construction: Construction,
        k: u32,
        planes: u64,
        efficiency: f64,
        keys: u64,
    ) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        let refused = |name: &str, value: String, takes| {
            Err(Error::Setting { name: name.to_owned(), value, takes })
        };
        if !(3..=7).contains(&k) {
            return refused(K.name, k.to_string(), K.takes);
        }
        let nae = if construction == Construction::Nae { 5 } else { 0 };
        let (threshold, takes) = THRESHOLDS[k as usize - 3 + nae];
        if !(0.01..threshold).contains(&efficiency) {
            return refused(EFFICIENCY.name, efficiency.to_string(), takes);
        }
        if !(1..=MAX_PLANES).contains(&planes) {
            return Err(Error::Limit { what: "planes", asked: planes, most: MAX_PLANES });
        }
        let whole = keys >> construction.block_bits(k);
        let block_bits = whole.checked_ilog2().unwrap_or(0).min(MAX_BLOCK_BITS);
        let shape =
            Self { construction, k, planes, keys, block_bits, entries: 0, passed: 0, distance: 0 };
        Ok(shape.with_efficiency(efficiency))
    }

    /// Returns this shape with the entries that `efficiency` needs.
    fn with_efficiency(self, efficiency: f64) -> Self {
        let blocks = 1u64 << self.block_bits;
        let mean = self.keys as f64 / blocks as f64;
        let tight = mean * self.construction.bits(self.k) / efficiency;
        let vars = (tight + spare(self.k, tight)).max(self.construction.least(self.k) as f64);
        let entries = blocks + (vars * blocks as f64).ceil() as u64;
        Self { entries, ..self }
    }

    /// Returns this shape with solutions of `single` that differ, averaged over all pairs, in at least this
    /// fraction of the variables, 0.01 to 0.5. Those of independent solutions differ in half of them. The build
    /// takes more entries until it finds such solutions. It finds more distant ones without being asked,
    /// unless k is 3 or the efficiency is high: see [`Sat::distance`].
    ///
    /// # Errors
    /// [`Error::Setting`] if `distance` is out of range.
    pub fn with_distance(self, distance: f64) -> Result<Self, Error> {
        if !(0.01..=0.5).contains(&distance) {
            let (name, value) = (DISTANCE.name.to_owned(), distance.to_string());
            return Err(Error::Setting { name, value, takes: DISTANCE.takes });
        }
        Ok(Self { distance: (distance / DISTANCE_UNIT).round() as u32, ..self })
    }

    /// Returns whether these solutions are as distant as required.
    fn is_distant(&self, solutions: &[Vec<bool>]) -> bool {
        self.distance == 0
            || solutions.len() < 2
            || tamis_ksat::mean_distance(solutions) >= f64::from(self.distance) * DISTANCE_UNIT
    }

    /// Returns how the clauses of a key are chosen.
    pub fn construction(&self) -> Construction {
        self.construction
    }

    /// Returns the literals of a clause.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Returns the number of planes.
    pub fn planes(&self) -> u64 {
        self.planes
    }

    /// Returns log2(1/rate) · keys / bits, with all memory counted.
    pub fn efficiency(&self) -> f64 {
        let figures = self.figures();
        -figures.fpr.log2() / figures.bits_per_key()
    }

    /// Returns the words before the entries: the start of each block, and the end of the last one.
    fn directory(&self) -> u64 {
        (1 << self.block_bits) + 1
    }

    /// Returns the words of the table. Entries are read as a word that starts at their first byte, so
    /// there is one more word at the end.
    fn words(&self) -> u64 {
        self.directory() + (self.entries * self.planes).div_ceil(64) + 1
    }
}

/// Returns the variables in addition to those of the efficiency. Without them small formulas would too
/// often have no solution: at the default efficiency, a few planes in a hundred use their other signs at
/// worst. From 1000 variables on it is 0.
fn spare(k: u32, vars: f64) -> f64 {
    let (least, more) = if k == 3 { (1.5, 0.6) } else { (1.0, 0.4) };
    (least + more * vars.cbrt()) * (1.0 - vars / 1000.0).max(0.0)
}

impl Shape for SatShape {
    const SETTINGS: &'static [Setting] =
        &[CONSTRUCTION, K, EFFICIENCY, PLANES, VARS, BLOCKS, DISTANCE];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let chosen = settings.choice(&CONSTRUCTION, &Construction::NAMES)?;
        let construction = Construction::ALL[chosen.unwrap_or(0)];
        let k = settings.number(&K, |k| (3..=7).contains(&k))?.unwrap_or(4) as u32;
        let efficiency = settings.real(&EFFICIENCY)?;
        // Rounding errors must not make the rate of s planes itself take s + 1 planes.
        let needed = (-fpr.log2() / construction.bits(k) - 1e-9).ceil().max(1.0);
        let set = settings.number(&PLANES, |s| (1..=MAX_PLANES).contains(&s))?;
        let planes = set.map_or(needed, |planes| planes as f64);
        if needed > planes {
            return Err(Error::Infeasible { why: "the rate needs more planes than s" });
        }
        if planes > MAX_PLANES as f64 {
            return Err(Error::Infeasible { why: "the rate needs more than 2048 planes" });
        }
        let mut shape = Self::new(
            construction,
            k,
            planes as u64,
            efficiency.unwrap_or(DEFAULT_EFFICIENCY),
            keys,
        )?;
        if let Some(blocks) = settings.number(&BLOCKS, u64::is_power_of_two)? {
            if blocks > 1 && keys / blocks < MIN_BLOCK_KEYS {
                return Err(Error::Infeasible { why: "a block would have fewer than 32 keys" });
            }
            shape.block_bits = blocks.ilog2().min(MAX_BLOCK_BITS);
            shape = shape.with_efficiency(efficiency.unwrap_or(DEFAULT_EFFICIENCY));
        }
        let range = construction.least(k)..=MAX_BLOCK_VARS;
        if let Some(vars) = settings.number(&VARS, |n| range.contains(&n))? {
            if efficiency.is_some() {
                return Err(Error::Infeasible { why: "n and an efficiency cannot both be set" });
            }
            let blocks = 1u64 << shape.block_bits;
            let reached = keys as f64 * construction.bits(k) / (vars * blocks) as f64;
            let nae = if construction == Construction::Nae { 5 } else { 0 };
            if reached >= THRESHOLDS[k as usize - 3 + nae].0 {
                return Err(Error::Infeasible { why: "so few variables have no solution" });
            }
            shape.entries = (vars + 1) * blocks;
        }
        if let Some(distance) = settings.real(&DISTANCE)? {
            shape = shape.with_distance(distance)?;
            if construction != Construction::Single {
                return Err(Error::Infeasible {
                    why: "only the construction single has a distance",
                });
            }
        }
        Ok(shape)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [
            ("construction", Construction::NAMES[self.construction as usize].into()),
            ("k", self.k.into()),
            ("planes", self.planes.into()),
            ("blocks", (1u64 << self.block_bits).into()),
        ]
        .into()
    }

    fn figures(&self) -> Figures {
        let reads =
            if self.construction == Construction::Multi { self.planes.min(1 << self.k) } else { 1 };
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: lines(self.words()) * 64,
            query_cost: f64::from(self.k) * reads as f64 + self.planes as f64 / 64.0,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        match self.passed {
            _ if keys == 0 => 0.0,
            0 => (1.0 - self.construction.rejected(self.k)).powf(self.planes as f64),
            passed => passed as f64 / SAMPLE as f64,
        }
    }
}

/// A SAT filter.
///
/// # Examples
/// ```
/// use tamis::{Keyed, Sat};
///
/// let words = Keyed::<Sat>::builder().fpr(0.25).build(["apple", "pear"])?;
/// assert!(words.contains("apple") && words.contains("pear"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sat {
    shape: SatShape,
    len: u64,
    /// The directory, and after it the entries.
    table: Words,
    /// Digests that the entries reject, sorted.
    extra: Words,
    /// The first block, cached for filters that have only one.
    first: Block,
    /// Whether the entries alone decide: there are keys, and none is listed.
    plain: bool,
}

/// Returns the entries of a block.
#[inline(always)]
fn locate(shape: &SatShape, table: &[u64], block: usize) -> Block {
    let (word, next) = (table[block], table[block + 1]);
    let start = word & START;
    let first = shape.directory() * 64 + start * shape.planes;
    let vars = ((next & START) - start).saturating_sub(1);
    Block { first: first as usize, vars, salt: clause::salt(word >> 48) }
}

impl Sat {
    fn new(shape: SatShape, len: u64, table: Words, extra: Words) -> Self {
        let first = locate(&shape, &table, 0);
        let plain = len > 0 && extra.is_empty();
        Self { shape, len, table, extra, first, plain }
    }

    /// Returns the fraction of the variables in which two solutions of a block differ, averaged over all
    /// pairs and blocks: 0.5 for independent solutions. `None` if there are fewer than 2 planes, or no keys.
    pub fn distance(&self) -> Option<f64> {
        let planes = self.shape.planes;
        let (mut pairs, mut all) = (0u64, 0u64);
        for block in 0..1usize << self.shape.block_bits {
            let Block { first, vars, .. } = locate(&self.shape, &self.table, block);
            for variable in 0..vars {
                let from = first as u64 + variable * planes;
                let bits =
                    (from..from + planes).filter(|bit| tamis_bits::set::get(&self.table, *bit));
                let ones = bits.count() as u64;
                pairs += ones * (planes - ones);
            }
            all += vars;
        }
        let pairs_of_all = (all * planes * (planes - 1)) as f64 / 2.0;
        (pairs_of_all > 0.0).then(|| pairs as f64 / pairs_of_all)
    }

    /// Returns the block of a digest.
    #[inline(always)]
    fn block(&self, digest: u64) -> Block {
        match self.shape.block_bits {
            0 => self.first,
            bits => locate(&self.shape, &self.table, (digest >> (64 - bits)) as usize),
        }
    }

    /// Returns whether the entries accept the digest.
    #[inline(always)]
    fn contains_in_table(&self, digest: u64) -> bool {
        clause::holds(&self.shape, &self.table, self.block(digest), digest)
    }

    /// Corrects the result of the table for filters that are empty or have listed digests.
    #[cold]
    fn contains_listed(&self, found: bool, digest: u64) -> bool {
        self.len > 0 && (found || self.extra.binary_search(&digest).is_ok())
    }

    /// Looks up keys in a table that does not stay in the cache.
    fn contains_batch_prefetched<const K: usize>(&self, keys: &[KeyHash], out: &mut [bool]) {
        let planes = self.shape.planes as usize;
        let mut probes = [Probe::<K>::default(); BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            for (probe, key) in probes.iter_mut().zip(keys) {
                *probe = Probe::new(planes, self.block(key.hi), key.hi);
                for bit in probe.entries() {
                    prefetch(&self.table, bit / 64);
                }
            }
            for (out, probe) in out.iter_mut().zip(&probes) {
                *out = probe.holds(planes, &self.table);
            }
        }
    }
}

impl Filter for Sat {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        // Neither branch depends on the result: at a rate of 1/4, a quarter of the branches would be
        // mispredicted.
        let found = self.contains_in_table(key.hi);
        if self.plain { found } else { self.contains_listed(found, key.hi) }
    }

    /// Returns the number of distinct digests.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.table.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let out = &mut out[..keys.len()];
        match self.shape.k {
            _ if self.shape.construction != Construction::Sliced => {
                for (key, out) in keys.iter().zip(&mut *out) {
                    *out = self.contains_in_table(key.hi);
                }
            }
            3 => self.contains_batch_prefetched::<3>(keys, out),
            4 => self.contains_batch_prefetched::<4>(keys, out),
            5 => self.contains_batch_prefetched::<5>(keys, out),
            6 => self.contains_batch_prefetched::<6>(keys, out),
            _ => self.contains_batch_prefetched::<7>(keys, out),
        }
        if !self.plain {
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains_listed(*out, key.hi);
            }
        }
    }
}

impl Static for Sat {}

impl Build for Sat {
    type Shape = SatShape;

    fn shape(&self) -> &SatShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<SatShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let records = gather(options, keys)?;
        Self::solve_whole(options, fit(records.len())?, records)
    }
}

impl SolveParts for Sat {
    type Records = Gathered<1>;
    type Shard = build::Solved;

    fn shard_bits(shape: &SatShape) -> u32 {
        shape.block_bits
    }

    fn table_words(shape: &SatShape) -> u64 {
        shape.words()
    }

    /// Returns 0: where a block begins is known once all are solved.
    fn shard_words(_: &SatShape) -> u64 {
        0
    }

    fn solve_shards(
        options: &BuildOptions<'_>,
        shape: &SatShape,
        total: u64,
        records: Gathered<1>,
        _: &mut [u64],
    ) -> Result<Vec<build::Solved>, Error> {
        build::solve(options, shape, total, records)
    }

    fn finish(
        options: &BuildOptions<'_>,
        mut shape: SatShape,
        len: u64,
        mut table: Words,
        blocks: Vec<build::Solved>,
    ) -> Result<Self, Error> {
        (shape.passed, shape.distance) = (0, 0);
        let needed = blocks.iter().map(build::Solved::entries).sum();
        if needed > shape.entries {
            shape.entries = needed;
            table = Words::zeroed(usize_words(shape.words())?)?;
        }
        let (directory, entries) = table.to_mut().split_at_mut(shape.directory() as usize);
        let mut start = 0;
        for (word, block) in directory.iter_mut().zip(&blocks) {
            options.check(len, len)?;
            *word = block.seed() << 48 | start;
            block.store(shape.planes, start, entries);
            start += block.entries();
        }
        directory[blocks.len()] = start;
        let extra: Vec<_> = blocks.into_iter().flat_map(build::Solved::into_rejected).collect();
        let mut filter = Self::new(shape, len, table, Words::copy_of(&extra)?);
        if len > 0 && !filter.shape.construction.is_exact() {
            let mut passed = 0;
            for first in (0..SAMPLE).step_by(CHECKED as usize) {
                options.check(len, len)?;
                let sample = (first..first + CHECKED).map(|number| tamis_bits::range::mix(!number));
                passed += sample.filter(|digest| filter.contains_in_table(*digest)).count() as u64;
            }
            filter.shape.passed = passed.max(1);
        }
        Ok(filter)
    }

    fn encode_shard(shape: &SatShape, shard: build::Solved) -> Vec<u64> {
        shard.encode(shape)
    }

    fn decode_shard(shape: &SatShape, _: u64, words: &[u64]) -> Option<build::Solved> {
        build::Solved::decode(shape, words)
    }
}

impl BuildParts for Sat {}

impl Persist for Sat {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let shape = &self.shape;
        to.shape(&[
            shape.construction as u64 + 1,
            shape.k.into(),
            shape.planes,
            shape.keys,
            shape.block_bits.into(),
            shape.entries,
            shape.passed,
            self.extra.len() as u64,
        ]);
        to.words(TABLE, &self.table);
        to.words(EXTRA, &self.extra);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let construction = Construction::ALL[fields.next(1..=4, "construction")? as usize - 1];
        let k = fields.next(3..=7, "literals per clause")? as u32;
        let planes = fields.next(1..=MAX_PLANES, "number of planes")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let block_bits = fields.next(0..=MAX_BLOCK_BITS.into(), "bits of a block number")? as u32;
        let entries = fields.next(1..=START / planes, "number of entries")?;
        let most = if construction.is_exact() || len == 0 { 0 } else { SAMPLE };
        let passed = fields.next(most.min(1)..=most, "non-members that passed")?;
        let listed = fields.next(0..=len, "number of listed digests")?;
        fields.finish()?;
        let shape =
            SatShape { construction, k, planes, keys, block_bits, entries, passed, distance: 0 };
        let table = from.words(TABLE, shape.words())?;
        let extra = from.words(EXTRA, listed)?;
        // Queries rely on the directory.
        let least = construction.least(k) + 1;
        let sound = table[..shape.directory() as usize].windows(2).all(|pair| {
            let entries = (pair[1] & START).checked_sub(pair[0] & START);
            entries.is_some_and(|entries| entries == 0 || entries >= least)
        });
        let last = table[shape.directory() as usize - 1];
        if !sound || table[0] & START != 0 || last > entries {
            return Err(from.corrupt("the directory points outside the entries").into());
        }
        Ok(Self::new(shape, len, table, extra))
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let (directory, entries) = self.table.split_at(self.shape.directory() as usize);
        let used = directory[directory.len() - 1] * self.shape.planes;
        if !tamis_bits::set::ends_at(entries, used) {
            return corrupt("bits are set past the last entry");
        }
        if directory.iter().any(|word| word >> 48 >= build::SEEDS) {
            return corrupt("the seed of a block is out of range");
        }
        if !self.extra.is_sorted_by(|a, b| a < b) {
            return corrupt("the listed digests are not sorted");
        }
        Ok(())
    }
}
