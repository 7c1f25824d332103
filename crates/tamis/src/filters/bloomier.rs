//! The Bloomier filter: a value for each key of a static set, which can change, and *absent* for
//! nearly every other key.
//!
//! ```text
//!  digest = hash.hi ──► shard, three of its cells a b c, and a print of f + 2 bits
//!
//!  codes, f + 2 bits   │  a  │     │  b  │ … │  c  │     │
//!                         └───────────┴───┬───┘
//!                              XOR, and XOR the print ──► 0: a   1: b   2: c   more: absent
//!                                                         │
//!  values, v bits      │  a  │     │  b  │ … │  c  │     │◄ in the cell that it names
//! ```
//!
//! The XOR of the three codes says which of its cells is the key's own; there alone its value is.
//! So a new value is one write, and no other key has that cell.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 1.11 (f + 2 + v) at 10^7 keys, 1.22 (f + 2 + v) at 1000 |
//! | rate | 3/4 · 2^-f exactly, whatever the number of keys; f is 0 to 32 |
//! | cache lines | strangers 3, all asked for at once; a key one more, for its value |
//! | building | as [`binary_fuse`](super::binary_fuse), with 16 bytes a key until it is placed |
//! | failure | none: keys that no multiplier can place are listed with their values |
//!
//! The set is fixed. Setting the value of a stranger that passes for a key may overwrite the value of a
//! key. Two keys with the same 64 bits of hash are one key, and with two values an error.
//!
//! Chazelle, Kilian, Rubinfeld, Tal, *The Bloomier Filter: An Efficient Data Structure for Static
//! Support Lookup Tables*, 2004. As theirs it has two tables, of codes and of values. Differences: the
//! cells are those of a fuse graph, 1.11 a key where random ones take more than 1.22; and of the two bits
//! that tell three cells apart nothing is lost: the fourth number options *absent*, which is the 3/4
//! in the rate.
//!
//! Measured and left out: a code and its value side by side. That saves a key the fourth line, but
//! spreads the codes over more lines than the cache holds. At 5 million keys, f = 8 and v = 32 a batch of keys then took 2.8
//! times as long as a `binary_fuse` filter of 10 bits takes, instead of 2.0 times; strangers 2.1 instead of 1.1.
//! Reckoned and left out: values for the cells in use only, found by counting bits. Counting takes 1.2 bits a key
//! and two more lines, to save 0.11 v: 8 % of the memory at v = 64, nothing below v = 11.

use tamis_bits::lanes::window;
use tamis_bits::{packed, prefetch};
use tamis_format::{Reader, Writer};

use super::common::retrieval::{Cells, Grid, Place, Retrieval};
use crate::error::Error;
use crate::gather::{Gathered, Gathering};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::{EntrySource, KeySource, read_entries, read_keys};
use crate::traits::{Build, BuildMap, Filter, Map, Persist, Static};

/// The most check bits: as many as a print has beside the two that tell the cells apart.
const MAX_CHECK: u32 = 32;
const VALUE_BITS: Setting = Setting::new("value_bits", "1 to 64 bits a value; else 1");

/// So many check bits, and values of so many bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomierShape {
    keys: u64,
    cell: Cell,
    grid: Grid,
}

/// What is in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    check: u32,
    value_bits: u32,
}

impl Cell {
    /// Bits of its code.
    fn code(self) -> u32 {
        self.check + 2
    }

    fn widths(self) -> [u32; 2] {
        [self.code(), self.value_bits]
    }

    /// The XOR of the three codes, and of a print that makes 0, 1 or 2 of it for a key: the number of
    /// the key's own cell. The two bits that tell the cells apart are drawn as well, so that
    /// cells that nobody has written are like any others.
    #[inline(always)]
    fn decode(self, place: &Place, read: impl Fn(u64) -> u64) -> u64 {
        let print = (place.print & packed::mask(self.check)) << 2 | place.print >> 32 & 3;
        let codes = place.codes.iter().fold(0, |sum, bit| sum ^ read(*bit));
        codes & packed::mask(self.code()) ^ print
    }

    /// The same of a shard's words alone, behind which there may be no more.
    fn decode_in(self, part: &[u64], place: &Place) -> u64 {
        self.decode(place, |bit| packed::get_at(part, self.code(), bit))
    }
}

impl Cells for Cell {
    fn write(&self, grid: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64) {
        let code = self.decode_in(part, place) ^ own as u64;
        packed::set_at(part, self.code(), place.codes[own], code);
        packed::set_at(part, self.value_bits, grid.value_at(place, own), value);
    }

    fn agree(&self, grid: &Grid, part: &[u64], place: &Place, value: u64) -> bool {
        let own = self.decode_in(part, place);
        own < 3
            && packed::get_at(part, self.value_bits, grid.value_at(place, own as usize)) == value
    }
}

impl BloomierShape {
    /// For so many keys with `check` check bits, 0 to 32, and values of 1 to 64 bits.
    pub fn new(keys: u64, check: u32, value_bits: u32) -> Result<Self, Error> {
        if check > MAX_CHECK {
            let (asked, most) = (check.into(), MAX_CHECK.into());
            return Err(Error::Limit { what: "check bits", asked, most });
        }
        if !(1..=64).contains(&value_bits) {
            let asked = value_bits.into();
            return Err(Error::Limit { what: "bits a value", asked, most: 64 });
        }
        let cell = Cell { check, value_bits };
        Ok(Self { keys, cell, grid: Grid::new(keys, cell.widths())? })
    }

    /// Check bits: a stranger passes them once in 2^check.
    pub fn check(&self) -> u32 {
        self.cell.check
    }

    /// Bits of a value.
    pub fn value_bits(&self) -> u32 {
        self.cell.value_bits
    }
}

impl Shape for BloomierShape {
    const SETTINGS: &'static [Setting] = &[VALUE_BITS];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let bits = settings.number(&VALUE_BITS, |bits| (1..=64).contains(&bits))?.unwrap_or(1);
        // A hair less than the logarithm: 3/4 · 2^-f itself takes f bits.
        let check = ((0.75 / fpr).log2() - 1e-9).ceil().max(0.0) as u32;
        if check > MAX_CHECK {
            return Err(Error::Infeasible { why: "it has at most 32 check bits" });
        }
        Self::new(keys, check, bits as u32)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.grid.bytes(),
            query_cost: 4.0,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { 0.75 * (-f64::from(self.cell.check)).exp2() }
    }
}

/// A Bloomier filter. Built from keys alone, each has the value 0.
///
/// ```
/// use tamis::{Bloomier, Keyed};
///
/// let mut stock = Keyed::<Bloomier>::build_map([("apple", 3), ("pear", 70)], 0.001)?;
/// assert_eq!(stock.get("pear"), Some(70));
/// assert_eq!(stock.set("apple", 4)?, Some(3));
/// assert_eq!(stock.get("apple"), Some(4));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bloomier {
    shape: BloomierShape,
    cells: Retrieval,
    len: u64,
}

impl Bloomier {
    /// Keys that are listed beside the table: none, unless somebody has chosen the hashes.
    pub fn listed(&self) -> u64 {
        self.cells.listed()
    }

    fn solve(
        options: &BuildOptions<'_>,
        shape: BloomierShape,
        records: Gathered<2>,
    ) -> Result<Self, Error> {
        let (len, conflict) = (records.len(), "given two values");
        let cells = Retrieval::solve(options, shape.grid, 0, records, conflict, &shape.cell)?;
        Ok(Self { shape, cells, len })
    }

    /// The bit of the table at which the value is of the key that was asked for.
    #[inline(always)]
    fn value_at(&self, place: &Place) -> Option<u64> {
        let own = self.shape.cell.decode(place, |bit| window(&self.cells.table, bit));
        // Whoever has no key has codes of zero too.
        (own < 3 && self.len > 0).then(|| self.cells.grid.value_at(place, own as usize))
    }

    #[inline(always)]
    fn holds(&self, digest: u64, place: &Place) -> bool {
        self.value_at(place).is_some() || self.cells.exception(digest).is_some()
    }

    #[inline(always)]
    fn read(&self, at: u64) -> u64 {
        packed::get_at(&self.cells.table, self.shape.cell.value_bits, at)
    }
}

/// What is known of a key before its value is read.
#[derive(Clone, Copy, Default)]
enum Found {
    #[default]
    Absent,
    /// At this bit of the table.
    At(u64),
    Listed(u64),
}

impl Filter for Bloomier {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.holds(key.hi, &self.cells.place(key.hi))
    }

    /// Distinct keys that it was built from.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let digests = keys.iter().map(|key| key.hi);
        let holds = |digest, place: &Place| self.holds(digest, place);
        self.cells.each(digests, holds, |at, yes| out[at] = yes);
    }
}

impl Static for Bloomier {}

impl Build for Bloomier {
    type Shape = BloomierShape;

    fn shape(&self) -> &BloomierShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<BloomierShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let mut gathering = Gathering::new(options);
        read_keys(options, keys, |run| gathering.extend(run.iter().map(|key| [key.hi, 0])))?;
        let records = gathering.finish()?;
        Self::solve(options, fit(records.len())?, records)
    }
}

impl BuildMap for Bloomier {
    fn build_map_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32) -> Result<BloomierShape, Error>,
        entries: impl EntrySource,
    ) -> Result<Self, Error> {
        let (mut gathering, mut largest) = (Gathering::new(options), 0);
        read_entries(options, entries, |run| {
            largest = run.iter().fold(largest, |largest, (_, value)| largest.max(*value));
            gathering.extend(run.iter().map(|(key, value)| [key.hi, *value]))
        })?;
        let records = gathering.finish()?;
        let shape = fit(records.len(), width_of(largest))?;
        check_width(largest, shape.value_bits())?;
        Self::solve(options, shape, records)
    }
}

impl Map for Bloomier {
    #[inline]
    fn get(&self, key: KeyHash) -> Option<u64> {
        match self.cells.exception(key.hi) {
            None => self.value_at(&self.cells.place(key.hi)).map(|at| self.read(at)),
            value => value,
        }
    }

    fn get_batch(&self, keys: &[KeyHash], out: &mut [Option<u64>]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let digests = keys.iter().map(|key| key.hi);
        let find = |digest, place: &Place| match self.cells.exception(digest) {
            Some(value) => Found::Listed(value),
            None => self.value_at(place).map_or(Found::Absent, |at| {
                prefetch(&self.cells.table, (at / 64) as usize);
                Found::At(at)
            }),
        };
        self.cells.each(digests, find, |at, found| {
            out[at] = match found {
                Found::Absent => None,
                Found::At(at) => Some(self.read(at)),
                Found::Listed(value) => Some(value),
            }
        });
    }

    fn set(&mut self, key: KeyHash, value: u64) -> Result<Option<u64>, Error> {
        let bits = self.shape.cell.value_bits;
        check_width(value, bits)?;
        if let Some(listed) = self.cells.exception_mut(key.hi)? {
            return Ok(Some(std::mem::replace(listed, value)));
        }
        let Some(at) = self.value_at(&self.cells.place(key.hi)) else { return Ok(None) };
        self.cells.table.make_owned()?;
        let old = self.read(at);
        packed::set_at(self.cells.table.to_mut(), bits, at, value);
        Ok(Some(old))
    }

    fn value_bits(&self) -> u32 {
        self.shape.cell.value_bits
    }
}

/// Bits that a value takes, at least one.
fn width_of(value: u64) -> u32 {
    (64 - value.leading_zeros()).max(1)
}

fn check_width(value: u64, bits: u32) -> Result<(), Error> {
    if width_of(value) <= bits { Ok(()) } else { Err(Error::Value { value, bits }) }
}

impl Persist for Bloomier {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let BloomierShape { keys, cell: Cell { check, value_bits }, grid } = self.shape;
        let [shard_bits, cells, segment] = grid.fields();
        let [check, value_bits] = [check, value_bits].map(u64::from);
        to.shape(&[check, value_bits, shard_bits, cells, segment, keys, self.listed()]);
        self.cells.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let check = fields.next(0..=MAX_CHECK.into(), "check bits")? as u32;
        let value_bits = fields.next(1..=64, "bits a value")? as u32;
        let cell = Cell { check, value_bits };
        let grid = Grid::read(from, &mut fields, cell.widths())?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let listed = fields.next(0..=len, "keys beside the table")?;
        fields.finish()?;
        let shape = BloomierShape { keys, cell, grid };
        Ok(Self { shape, cells: Retrieval::read(from, grid, listed)?, len })
    }

    fn validate(&self) -> Result<(), Error> {
        self.cells.validate(self.shape.cell.value_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;

    fn entries(salt: u64, count: u64, bits: u32) -> Vec<(KeyHash, u64)> {
        let hash = |key| KeyHash { hi: mix(salt << 40 | key), lo: 0 };
        (0..count).map(|key| (hash(key), mix(!key) >> (64 - bits))).collect()
    }

    fn build(shape: BloomierShape, entries: &[(KeyHash, u64)]) -> Bloomier {
        Bloomier::build_map_with(&BuildOptions::new(), |_, _| Ok(shape), entries).unwrap()
    }

    /// Eight shards, as a filter of millions would have: nobody sees them.
    #[test]
    fn shards_do_not_show() {
        let all = entries(1, 20_000, 40);
        let cell = Cell { check: 12, value_bits: 40 };
        let grid = Grid::sound(3, 20_001 / 6, 8, cell.widths()).unwrap();
        let split = BloomierShape { keys: 20_000, cell, grid };
        let mut filter = build(split, &all);
        assert_eq!((filter.len(), filter.listed()), (20_000, 0));
        assert!(all.iter().all(|(key, value)| filter.get(*key) == Some(*value)));
        for (key, value) in &all {
            assert_eq!(filter.set(*key, value ^ 1).unwrap(), Some(*value));
        }
        assert!(all.iter().all(|(key, value)| filter.get(*key) == Some(value ^ 1)));
        filter.validate().unwrap();
        let strangers = entries(2, 100_000, 40);
        let passed = strangers.iter().filter(|(key, _)| filter.contains(*key)).count();
        assert!(passed < 50, "{passed} where 18 are expected");
    }

    /// Setting a value writes the bits of that value and no others.
    #[test]
    fn a_value_is_one_write() {
        for bits in [1, 7, 30, 64] {
            let all = entries(3, 500, bits);
            let mut filter = build(BloomierShape::new(500, 6, bits).unwrap(), &all);
            for (key, value) in &all {
                let before = filter.cells.table.to_vec();
                filter.set(*key, !value & packed::mask(bits)).unwrap();
                let flipped: Vec<u64> = (0..before.len() as u64 * 64)
                    .filter(|bit| {
                        tamis_bits::set::get(&before, *bit)
                            != tamis_bits::set::get(&filter.cells.table, *bit)
                    })
                    .collect();
                let at = filter.value_at(&filter.cells.place(key.hi)).unwrap();
                assert!(flipped.iter().copied().eq(at..at + u64::from(bits)));
            }
        }
    }

    /// Digests without a cell are listed, in order, with values that can be set.
    #[test]
    fn what_cannot_be_placed_is_listed() {
        let all: Vec<_> = (0..3000).map(|at| (KeyHash { hi: at, lo: 0 }, at & 255)).collect();
        let shape = BloomierShape::new(3000, 8, 8).unwrap();
        let stated = shape.figures().bytes;
        let mut filter = build(shape, &all);
        assert!(filter.listed() > 1000 && filter.len() == 3000, "{}", filter.listed());
        assert_eq!(stated, filter.shape.figures().bytes);
        for (key, value) in &all {
            assert_eq!(filter.set(*key, value ^ 0x55).unwrap(), Some(*value));
        }
        assert!(all.iter().all(|(key, value)| filter.get(*key) == Some(value ^ 0x55)));
        filter.validate().unwrap();
        let mut wide = filter.clone();
        wide.cells.extra.to_mut()[1] = 256;
        assert!(wide.validate().is_err());
        filter.cells.extra.to_mut().swap(0, 2);
        assert!(filter.validate().is_err());
    }

    /// No check bits: three strangers in four have a value.
    #[test]
    fn without_check_bits() {
        let shape = BloomierShape::fit(10_000, 0.9).unwrap();
        assert_eq!((shape.check(), shape.figures().fpr), (0, 0.75));
        let filter = build(shape, &entries(4, 10_000, 1));
        let strangers = entries(5, 100_000, 1);
        let passed = strangers.iter().filter(|(key, _)| filter.contains(*key)).count();
        assert!((74_000..76_000).contains(&passed), "{passed}");
        for (fpr, check) in [(0.75, 0), (0.749, 1), (0.01, 7), (3e-9, 28), (2e-10, 32)] {
            assert_eq!(BloomierShape::fit(10, fpr).unwrap().check(), check, "{fpr}");
        }
        assert!(matches!(BloomierShape::fit(10, 1e-10), Err(Error::Infeasible { .. })));
    }
}
