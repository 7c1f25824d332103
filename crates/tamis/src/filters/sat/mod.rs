//! The SAT filter: every key is a clause of a formula, and the filter is a solution of it.
//!
//! ```text
//!  digest ──► its leading bits ──► block ──► where its entries begin, and its seed
//!         ──► k positions, and for each of them s signs
//!
//!  block   │ entry 0 │ entry 1 │ …  │ entry n-1 │ retries │      s bits an entry: a bit a plane
//!               ▲         ▲               ▲
//!               └─────────┴── XOR signs ──┘
//!                 OR of the k words = s ones, for every member
//! ```
//!
//! An entry is a variable with its values in s formulas, the *planes*. In each plane a key is a
//! clause: one of its k literals must be true. A literal is false for a stranger with chance 1/2, a
//! clause with 2^-k, so a stranger passes all planes with chance (1 - 2^-k)^s: exactly, at any load,
//! since its signs are independent of all else. What can be saved is room: the more clauses a
//! solver can satisfy with n variables, the fewer bits a key takes.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | log2(1/rate) / E, with the efficiency E a matter of patience: usual is 0.75, a Bloom filter has 0.69 |
//! | cache lines | up to k for s <= 512 / k, and the directory, which stays in the cache |
//! | building | for a rate of 1/4 and E = 0.75 about 5 µs a key with k = 4; E = 0.85 takes eight times as long |
//! | failure | none: a plane without a solution tries other signs, a block other positions and then more entries |
//!
//! *Efficiency* is log2(1/rate) · keys / bits. It ends at the threshold of random k-SAT, past which
//! formulas have no solution: 0.822, 0.925, 0.967, 0.985 and 0.993 for k of 3 to 7. Where solvers
//! give up is some per cent before. The filter states what it came to, not what was asked for.
//!
//! There are four constructions:
//!
//! * `sliced`, the usual one, as drawn: one set of positions a key, and signs for each plane. A
//!   query takes k reads.
//! * `multi`, the paper's *multi-instance*: positions and signs for each plane. A query takes up to
//!   k · s reads.
//! * `single`, the paper's *single-instance*: one formula, and s solutions of it that are as unlike as
//!   can be found. They are not independent, so the rate is not known before: the filter is asked
//!   for a million strangers when it is built, and states what share of them passed.
//! * `nae`: the same with *not all equal* clauses, which the complement of a solution satisfies as
//!   well; s is half as large, and solutions are nearly independent. Stated as for `single`.
//!
//! Nothing can be added or removed. [`binary_fuse`](super::binary_fuse) and [`ribbon`](super::ribbon) are smaller and
//! are built a hundred times as fast: this is for who wants to see how far random k-SAT carries.
//!
//! Weaver, Ray, Marek, Mayer and Walker, *Satisfiability-based Set Membership Filters*, 2014.
//! Differences: `sliced` is not in the paper. Keys are split into blocks, for `sliced` of 2^14 to 2^15 keys (twice as
//! many for k = 6, four times for k = 7) and for the others of 2^17 to 2^18, so that the time is linear in the keys. The solver
//! is our own. Positions of one key may be equal in `sliced`, where that does not change the rate;
//! the others draw until they differ, as in Algorithm 3. A Hamming distance is not asked for: solutions
//! of `single` are led away from the earlier ones.

mod build;
mod clause;
#[cfg(test)]
mod tests;

use tamis_bits::{Words, lines, prefetch};
use tamis_format::{Name, Reader, Writer};

use super::common::usize_words;
use crate::error::Error;
use crate::gather::gather;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Persist, Static};
use clause::{Block, Probe};

const TABLE: Name = Name::new("table");
const EXTRA: Name = Name::new("extra");

/// More planes than any rate of 2^-16 takes.
const MAX_PLANES: u64 = 2048;
const MAX_BLOCK_BITS: u32 = 32;
/// A directory word has 48 bits for a block's first entry.
const START: u64 = (1 << 48) - 1;
/// Strangers that a filter is asked for whose rate is not known before.
const SAMPLE: u64 = 1 << 20;
/// Keys of a batch whose entries are asked for before the first is looked at.
const BATCH: usize = 32;
/// Bytes of a table that is at hand anyway.
const NEAR: usize = 1 << 19;

/// How keys become clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construction {
    /// Positions for all planes, signs for each.
    Sliced,
    /// Positions and signs for each plane.
    Multi,
    /// Positions and signs for all planes.
    Single,
    /// The same with clauses whose literals must not all be equal.
    Nae,
}

impl Construction {
    const ALL: [Self; 4] = [Self::Sliced, Self::Multi, Self::Single, Self::Nae];
    const NAMES: [&str; 4] = ["sliced", "multi", "single", "nae"];

    /// The share of strangers that one plane stops.
    fn stopped(self, k: u32) -> f64 {
        (if self == Self::Nae { 2.0 } else { 1.0 }) * (-f64::from(k)).exp2()
    }

    /// What one plane tells of a key, in bits.
    fn bits(self, k: u32) -> f64 {
        -(1.0 - self.stopped(k)).log2()
    }

    /// Whether the rate follows from the shape.
    fn is_exact(self) -> bool {
        matches!(self, Self::Sliced | Self::Multi)
    }

    /// Variables that a key's positions are drawn from, at least.
    fn least(self, k: u32) -> u64 {
        if self == Self::Sliced { 1 } else { 2 * u64::from(k) }
    }

    /// Binary logarithm of the keys of a block, up to twice as many. With too few the formulas are
    /// so small that many have no solution, with too many a thread has long to work on one.
    fn block_bits(self, k: u32) -> u32 {
        match self {
            Self::Sliced => 14 + k.saturating_sub(5),
            _ => 17,
        }
    }
}

const K: Setting = Setting::new("k", "3 to 7, literals a clause; usual is 4");
const CONSTRUCTION: Setting =
    Setting::new("construction", "sliced, multi, single or nae; usual is sliced");
const EFFICIENCY: Setting = Setting::new(
    "efficiency",
    "0.01 to a little below 0.822, 0.925, 0.967, 0.985, 0.993 for k of 3 to 7; usual is 0.75",
);
const USUAL_EFFICIENCY: f64 = 0.75;

/// Where random formulas cease to have solutions, as an efficiency, and what to say to who asks for
/// more: for k of 3 to 7, and again for *not all equal* clauses.
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

/// Planes, and entries in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SatShape {
    construction: Construction,
    k: u32,
    planes: u64,
    keys: u64,
    /// There are `2^block_bits` blocks.
    block_bits: u32,
    /// Entries of all blocks.
    entries: u64,
    /// Of a million strangers so many passed; 0 where the rate follows from the above.
    passed: u64,
}

impl SatShape {
    /// A shape by hand: this construction, so many literals a clause, so many planes, made for this
    /// many keys. At or past the threshold an efficiency is [`Error::Setting`].
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
        let blocks = 1u64 << block_bits;
        let mean = keys as f64 / blocks as f64;
        let tight = mean * construction.bits(k) / efficiency;
        let vars = (tight + spare(k, tight)).max(construction.least(k) as f64);
        let entries = blocks + (vars * blocks as f64).ceil() as u64;
        Ok(Self { construction, k, planes, keys, block_bits, entries, passed: 0 })
    }

    /// How its keys become clauses.
    pub fn construction(&self) -> Construction {
        self.construction
    }

    /// Literals of a clause.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Planes.
    pub fn planes(&self) -> u64 {
        self.planes
    }

    /// log2(1/rate) · keys / bits, all of its memory counted.
    pub fn efficiency(&self) -> f64 {
        let figures = self.figures();
        -figures.fpr.log2() / figures.bits_per_key()
    }

    /// Words before the entries: where each block begins, and where the last one ends.
    fn directory(&self) -> u64 {
        (1 << self.block_bits) + 1
    }

    /// Entries are read as a word from the byte that they begin in: there is one more at the end.
    fn words(&self) -> u64 {
        self.directory() + (self.entries * self.planes).div_ceil(64) + 1
    }
}

/// Variables on top of those that the efficiency allows, without which small formulas would too
/// often have no solution: at the usual efficiency some planes in a hundred, at the worst, take their
/// other signs. From a thousand on there are none.
fn spare(k: u32, vars: f64) -> f64 {
    let (least, more) = if k == 3 { (1.5, 0.6) } else { (1.0, 0.4) };
    (least + more * vars.cbrt()) * (1.0 - vars / 1000.0).max(0.0)
}

impl Shape for SatShape {
    const SETTINGS: &'static [Setting] = &[CONSTRUCTION, K, EFFICIENCY];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let chosen = settings.choice(&CONSTRUCTION, &Construction::NAMES)?;
        let construction = Construction::ALL[chosen.unwrap_or(0)];
        let k = settings.number(&K, |k| (3..=7).contains(&k))?.unwrap_or(4) as u32;
        let efficiency = settings.real(&EFFICIENCY)?.unwrap_or(USUAL_EFFICIENCY);
        // A hair less than the quotient: a rate of s planes itself takes s planes.
        let planes = (-fpr.log2() / construction.bits(k) - 1e-9).ceil().max(1.0);
        if planes > MAX_PLANES as f64 {
            return Err(Error::Infeasible { why: "that takes more than 2048 planes" });
        }
        Self::new(construction, k, planes as u64, efficiency, keys)
    }

    fn keys(&self) -> u64 {
        self.keys
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
            0 => (1.0 - self.construction.stopped(self.k)).powf(self.planes as f64),
            passed => passed as f64 / SAMPLE as f64,
        }
    }
}

/// A SAT filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Sat {
    shape: SatShape,
    len: u64,
    /// The directory, and behind it the entries.
    table: Words,
    /// Digests that the entries deny, in order.
    extra: Words,
    /// The first block, at hand where it is the only one.
    first: Block,
    /// Whether the entries alone decide: there are keys, and none is listed.
    plain: bool,
}

/// Where the entries of a block are.
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

    /// That of a digest.
    #[inline(always)]
    fn block(&self, digest: u64) -> Block {
        match self.shape.block_bits {
            0 => self.first,
            bits => locate(&self.shape, &self.table, (digest >> (64 - bits)) as usize),
        }
    }

    /// What the entries say.
    #[inline(always)]
    fn ask(&self, digest: u64) -> bool {
        clause::holds(&self.shape, &self.table, self.block(digest), digest)
    }

    #[cold]
    fn either(&self, found: bool, digest: u64) -> bool {
        self.len > 0 && (found || self.extra.binary_search(&digest).is_ok())
    }

    /// As `contains_batch` for a table that is not at hand.
    fn ask_each<const K: usize>(&self, keys: &[KeyHash], out: &mut [bool]) {
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
        // Of two branches neither depends on the answer: a quarter of a rate of 1/4 would be guessed
        // wrong.
        if self.plain { self.ask(key.hi) } else { self.either(self.ask(key.hi), key.hi) }
    }

    /// Keys with different digests.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let out = &mut out[..keys.len()];
        let far = self.table.len() * 8 > NEAR && self.shape.construction == Construction::Sliced;
        match self.shape.k {
            _ if !far => {
                for (key, out) in keys.iter().zip(&mut *out) {
                    *out = self.ask(key.hi);
                }
            }
            3 => self.ask_each::<3>(keys, out),
            4 => self.ask_each::<4>(keys, out),
            5 => self.ask_each::<5>(keys, out),
            6 => self.ask_each::<6>(keys, out),
            _ => self.ask_each::<7>(keys, out),
        }
        if !self.plain {
            for (key, out) in keys.iter().zip(out) {
                *out = self.either(*out, key.hi);
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
        let gathered = gather(options, keys)?;
        let len = gathered.len();
        let mut shape = fit(len)?;
        shape.passed = 0;
        let mut table = Words::zeroed(usize_words(shape.words())?)?;
        let mut extra = Vec::new();
        if len > 0 {
            let blocks = build::solve(options, &shape, gathered, table.to_mut())?;
            let needed = blocks.iter().map(build::Solved::entries).sum();
            if needed > shape.entries {
                shape.entries = needed;
                table = Words::zeroed(usize_words(shape.words())?)?;
            }
            let (directory, entries) = table.to_mut().split_at_mut(shape.directory() as usize);
            let mut start = 0;
            for (word, block) in directory.iter_mut().zip(&blocks) {
                *word = block.seed() << 48 | start;
                block.store(shape.planes, start, entries);
                start += block.entries();
            }
            directory[blocks.len()] = start;
            extra = blocks.into_iter().flat_map(build::Solved::into_denied).collect();
        }
        let mut filter = Self::new(shape, len, table, Words::copy_of(&extra)?);
        if len > 0 && !filter.shape.construction.is_exact() {
            let strangers = (0..SAMPLE).map(|number| tamis_bits::range::mix(!number));
            let passed = strangers.filter(|digest| filter.ask(*digest)).count() as u64;
            filter.shape.passed = passed.max(1);
        }
        Ok(filter)
    }
}

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
        let k = fields.next(3..=7, "literals a clause")? as u32;
        let planes = fields.next(1..=MAX_PLANES, "planes")?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let block_bits = fields.next(0..=MAX_BLOCK_BITS.into(), "blocks")? as u32;
        let entries = fields.next(1..=START / planes, "entries")?;
        let most = if construction.is_exact() || len == 0 { 0 } else { SAMPLE };
        let passed = fields.next(most.min(1)..=most, "strangers that passed")?;
        let listed = fields.next(0..=len, "listed digests")?;
        fields.finish()?;
        let shape = SatShape { construction, k, planes, keys, block_bits, entries, passed };
        let table = from.words(TABLE, shape.words())?;
        let extra = from.words(EXTRA, listed)?;
        // A query trusts the directory.
        let least = construction.least(k) + 1;
        let sound = table[..shape.directory() as usize].windows(2).all(|pair| {
            let entries = (pair[1] & START).checked_sub(pair[0] & START);
            entries.is_some_and(|entries| entries == 0 || entries >= least)
        });
        let last = table[shape.directory() as usize - 1];
        if !sound || table[0] & START != 0 || last > entries {
            return Err(from.corrupt("blocks that lie where no entries are").into());
        }
        Ok(Self::new(shape, len, table, extra))
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let (directory, entries) = self.table.split_at(self.shape.directory() as usize);
        let used = directory[directory.len() - 1] * self.shape.planes;
        if !tamis_bits::set::ends_at(entries, used) {
            return corrupt("bits are set past the end");
        }
        if directory.iter().any(|word| word >> 48 >= build::SEEDS) {
            return corrupt("a seed that no block has");
        }
        if !self.extra.is_sorted_by(|a, b| a < b) {
            return corrupt("the listed digests are not in order");
        }
        Ok(())
    }
}
