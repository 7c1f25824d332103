//! The Bloomier filter: maps each key of a static set to a value that can change, and nearly every
//! other key to *absent*.
//!
//! ```text
//!  digest = hash.hi ──► shard, three of its cells a b c, and a fingerprint of f + 2 bits
//!
//!  codes, f + 2 bits   │  a  │     │  b  │ … │  c  │     │
//!                         └───────────┴───┬───┘
//!                        XOR, and XOR the fingerprint ──► 0: a   1: b   2: c   more: absent
//!                                                         │
//!  values, v bits      │  a  │     │  b  │ … │  c  │     │◄ in the cell that it names
//! ```
//!
//! The XOR of the three codes tells which of its cells the key owns. Only that cell holds its value, so
//! a new value is one write, and no other key owns that cell.
//!
//! The v bits are a number. What it stands for depends on the values that the map was built with:
//!
//! | values | number | v | can be set |
//! | --- | --- | --- | --- |
//! | integers from 0 on | the value | as wide as the largest | integers of v bits |
//! | integers, some below 0 | value - smallest value | as wide as largest - smallest | v bits from the smallest on |
//! | byte strings | place in the sorted table of the d distinct ones | ⌈log2 d⌉, at least 1 | those of the table |
//!
//! The table holds each distinct byte string once, and the end of each as an integer of ⌈log2(t + 1)⌉
//! bits, where t is the sum of their lengths. If all lengths are equal, there are no ends.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.11 (f + 2 + v) at 10^7 keys, 1.22 (f + 2 + v) at 1000, without the table of byte strings |
//! | rate | 3/4 · 2^-f exactly, for any number of keys; f is 0 to 32 |
//! | cache lines | 3 for a non-member, all prefetched at once; one more for a key, for its value |
//! | building | as [`binary_fuse`](super::binary_fuse), with 16 bytes per key until it is placed |
//! | failure | none: keys that no multiplier can place are listed with their values |
//!
//! The set is fixed, and so is the table of byte strings. Setting the value of a false positive may overwrite the value of a key. Two keys
//! with the same 64 bits of hash count as one key, and two different values for it are an error.
//!
//! Chazelle, Kilian, Rubinfeld, Tal, *The Bloomier Filter: An Efficient Data Structure for Static
//! Support Lookup Tables*, 2004. As in the paper there are two tables, of codes and of values.
//! Differences: the cells are those of a fuse graph, 1.11 per key where random ones take more than
//! 1.22; and the two bits that tell three cells apart lose nothing, because the fourth number means
//! *absent*, which is the factor 3/4 in the rate. The paper maps to the numbers below a limit; integers
//! below 0 and byte strings are ours.
//!
//! Measured and left out: a code and its value side by side. That saves a key the fourth cache line, but
//! spreads the codes over more lines than the cache holds. At 5 million keys, f = 8 and v = 32, a batch
//! of keys then took 2.8 times as long as a `binary_fuse` filter of 10 bits instead of 2.0 times, and
//! a batch of non-members 2.1 instead of 1.1 times. Calculated and left out: values for the used cells
//! only, found by counting bits. Counting takes 1.2 bits per key and two more lines to save 0.11 v: 8 %
//! of the memory at v = 64, nothing below v = 11.

mod values;

use alloc::vec::Vec;

use tamis_bits::lanes::window;
use tamis_bits::{Words, packed, prefetch};
use tamis_format::{Reader, Writer};

use self::values::{Codec, Head, Interner};
use super::common::peeled::read_layout;
use super::common::retrieval::{Cells, Grid, Place, Retrieval, Shard};
use crate::error::Error;
use crate::gather::{Gathered, Gathering};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::parts::{BuildParts, sealed::SolveParts};
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::{EntrySource, KeySource, Source, ValueSource, read_all};
use crate::traits::{Build, BuildMap, Filter, Map, Persist, Static};
use crate::values::{Value, ValueType};

/// The most check bits: as many as a fingerprint has beside the two that tell the cells apart.
const MAX_CHECK: u32 = 32;
/// The layout of a file whose numbers are the values. Older files select other cells and are refused.
const LAYOUT: u64 = 4;
/// The layout of a file whose numbers stand for other values than themselves.
const CODED_LAYOUT: u64 = 5;
const VALUE_BITS: Setting = Setting::new("value_bits", "1 to 64: bits per value; default 1");

/// The shape: the number of check bits and of bits per value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomierShape {
    keys: u64,
    cell: Cell,
    grid: Grid,
    /// The bytes of the distinct byte strings, in whole cache lines.
    table_bytes: u64,
}

/// The widths of a cell's code and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    check: u32,
    value_bits: u32,
}

impl Cell {
    /// Returns the bits of a code.
    fn code_bits(self) -> u32 {
        self.check + 2
    }

    fn widths(self) -> [u32; 2] {
        [self.code_bits(), self.value_bits]
    }

    /// Returns the XOR of the three codes and the fingerprint. For a key it is 0, 1 or 2: the number of
    /// the cell that the key owns. The fingerprint has random values for these two bits as well, so
    /// that unwritten cells are no different from others.
    #[inline(always)]
    fn decode(self, place: &Place, read: impl Fn(u64) -> u64) -> u64 {
        let fp = place.fingerprint;
        let fp = (fp & packed::mask(self.check)) << 2 | fp >> 32 & 3;
        let codes = place.codes.iter().fold(0, |sum, bit| sum ^ read(*bit));
        codes & packed::mask(self.code_bits()) ^ fp
    }

    /// Does the same, given the words of the shard alone, which may be the last of the table.
    fn decode_in(self, part: &[u64], place: &Place) -> u64 {
        self.decode(place, |bit| packed::get_at(part, self.code_bits(), bit))
    }
}

impl Cells for Cell {
    fn write(&self, grid: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64) {
        let code = self.decode_in(part, place) ^ own as u64;
        packed::set_at(part, self.code_bits(), place.codes[own], code);
        packed::set_at(part, self.value_bits, grid.value_at(place, own), value);
    }

    fn holds(&self, grid: &Grid, part: &[u64], place: &Place, value: u64) -> bool {
        let own = self.decode_in(part, place);
        own < 3
            && packed::get_at(part, self.value_bits, grid.value_at(place, own as usize)) == value
    }
}

impl BloomierShape {
    /// Returns the shape for `keys` keys with `check` check bits, 0 to 32, and values of 1 to 64 bits.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(keys: u64, check: u32, value_bits: u32) -> Result<Self, Error> {
        if check > MAX_CHECK {
            let (asked, most) = (check.into(), MAX_CHECK.into());
            return Err(Error::Limit { what: "check bits", asked, most });
        }
        if !(1..=64).contains(&value_bits) {
            let asked = value_bits.into();
            return Err(Error::Limit { what: "bits per value", asked, most: 64 });
        }
        let cell = Cell { check, value_bits };
        Ok(Self { keys, cell, grid: Grid::new(keys, cell.widths())?, table_bytes: 0 })
    }

    /// Returns the number of check bits. A non-member passes them with probability 2^-check.
    pub fn check(&self) -> u32 {
        self.cell.check
    }

    /// Returns the bits of a number that stands for a value.
    pub fn value_bits(&self) -> u32 {
        self.cell.value_bits
    }

    /// Returns the bytes that the distinct byte strings take beside the cells; 0 for a map of integers.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }
}

impl Shape for BloomierShape {
    const SETTINGS: &'static [Setting] = &[VALUE_BITS];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let bits = settings.number(&VALUE_BITS, |bits| (1..=64).contains(&bits))?.unwrap_or(1);
        // Rounding errors must not make 3/4 · 2^-f itself take f + 1 bits.
        let check = ((0.75 / fpr).log2() - 1e-9).ceil().max(0.0) as u32;
        if check > MAX_CHECK {
            return Err(Error::Infeasible { why: "the filter has at most 32 check bits" });
        }
        Self::new(keys, check, bits as u32)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("check", self.cell.check.into()), ("value_bits", self.cell.value_bits.into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.grid.bytes() + self.table_bytes,
            query_cost: 4.0,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { 0.75 * (-f64::from(self.cell.check)).exp2() }
    }
}

/// A Bloomier filter. If it is built from keys alone, each key has the value 0.
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
    codec: Codec,
}

/// A cell of records whose values are replaced by numbers before they are written.
struct Coded<C> {
    cell: Cell,
    number: C,
}

impl<C: Fn(u64) -> u64 + Sync> Cells for Coded<C> {
    fn write(&self, grid: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64) {
        self.cell.write(grid, part, place, own, (self.number)(value));
    }

    fn holds(&self, grid: &Grid, part: &[u64], place: &Place, value: u64) -> bool {
        self.cell.holds(grid, part, place, (self.number)(value))
    }
}

impl Bloomier {
    /// Solves records whose values become the numbers that `number` returns.
    fn solve_coded(
        options: &BuildOptions<'_>,
        shape: BloomierShape,
        codec: Codec,
        records: Gathered<2>,
        number: impl Fn(u64) -> u64 + Sync,
    ) -> Result<Self, Error> {
        let (len, cell) = (records.len(), shape.cell);
        let coded = Coded { cell, number };
        let mut cells = Retrieval::solve(options, shape.grid, 0, records, TORN, &coded)?;
        if cells.listed() > 0 {
            let (pairs, _) = cells.extra.to_mut().as_chunks_mut::<2>();
            pairs.iter_mut().for_each(|[_, value]| *value = (coded.number)(*value));
        }
        let shape = BloomierShape { table_bytes: codec.bytes(), ..shape };
        Ok(Self { shape, cells, len, codec })
    }

    fn build_integers(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32, u64) -> Result<BloomierShape, Error>,
        entries: &mut dyn Source<(KeyHash, i128)>,
    ) -> Result<Self, Error> {
        let (mut gathering, mut min, mut max) = (Gathering::new(options), 0, i128::MIN);
        let mut count = 0;
        read_all(options, entries, |run| {
            for (_, value) in run {
                min = if count == 0 { *value } else { min.min(*value) };
                max = max.max(*value);
                count += 1;
            }
            // Values that span less than 2^64 differ in their low 64 bits.
            gathering.extend(run.iter().map(|(key, value)| [key.hi, *value as u64]))
        })?;
        let (codec, largest) = Codec::of_integers(min, max.max(min))?;
        let records = gathering.finish()?;
        let shape = fit(records.len(), width_of(largest), 0)?;
        match codec {
            Codec::Offset(min) => {
                if width_of(largest) > shape.value_bits() {
                    let why = "the integers span more than `value_bits` bits";
                    return Err(Error::Infeasible { why });
                }
                let number = |value: u64| value.wrapping_sub(min as u64);
                Self::solve_coded(options, shape, codec, records, number)
            }
            _ => {
                check_width(largest, shape.value_bits())?;
                Self::solve_whole(options, shape, records)
            }
        }
    }

    fn build_bytes(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32, u64) -> Result<BloomierShape, Error>,
        entries: &mut dyn Source<(KeyHash, Vec<u8>)>,
    ) -> Result<Self, Error> {
        let half = options.share(1, 2, true);
        let (mut gathering, mut interner) = (Gathering::new(&half), Interner::default());
        let mut records = Vec::new();
        read_all(options, entries, |run| {
            records.clear();
            for (key, value) in run {
                records.push([key.hi, interner.number(value)?]);
            }
            options.check_memory(2 * interner.memory())?;
            gathering.extend(records.iter().copied())
        })?;
        drop(records);
        let (codec, ranks, largest) = interner.finish()?;
        let records = gathering.finish()?;
        let shape = fit(records.len(), width_of(largest), codec.bytes())?;
        if width_of(largest) > shape.value_bits() {
            let why = "there are more distinct values than numbers of `value_bits` bits";
            return Err(Error::Infeasible { why });
        }
        Self::solve_coded(&half, shape, codec, records, |value| ranks[value as usize])
    }

    /// Returns the keys that are listed beside the table: 0 unless an adversary chose the hashes.
    pub fn listed(&self) -> u64 {
        self.cells.listed()
    }

    /// Returns the bit of the table at which the key's value starts, or `None` if the key is absent.
    #[inline(always)]
    fn value_at(&self, place: &Place) -> Option<u64> {
        let own = self.shape.cell.decode(place, |bit| window(&self.cells.table, bit));
        // Without keys all codes are zero.
        (own < 3 && self.len > 0).then(|| self.cells.grid.value_at(place, own as usize))
    }

    #[inline(always)]
    fn contains_at(&self, digest: u64, place: &Place) -> bool {
        self.value_at(place).is_some() || self.cells.listed_value(digest).is_some()
    }

    #[inline(always)]
    fn read_value(&self, at: u64) -> u64 {
        packed::get_at(&self.cells.table, self.shape.cell.value_bits, at)
    }
}

/// The result of a lookup before the value is read.
#[derive(Clone, Copy, Default)]
enum Found {
    #[default]
    Absent,
    /// The value starts at this bit of the table.
    At(u64),
    Listed(u64),
}

impl Filter for Bloomier {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.contains_at(key.hi, &self.cells.place(key.hi))
    }

    /// Returns the number of distinct keys.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.cells.table.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let digests = keys.iter().map(|key| key.hi);
        let contains = |digest, place: &Place| self.contains_at(digest, place);
        self.cells.lookup_batch(digests, contains, |at, found| out[at] = found);
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
        read_all(options, keys, |run| gathering.extend(run.iter().map(|key| [key.hi, 0])))?;
        let records = gathering.finish()?;
        let shape = BloomierShape { table_bytes: 0, ..fit(records.len())? };
        Self::solve_whole(options, shape, records)
    }
}

impl BuildMap for Bloomier {
    fn build_map_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32) -> Result<BloomierShape, Error>,
        entries: impl EntrySource,
    ) -> Result<Self, Error> {
        let (mut gathering, mut largest) = (Gathering::new(options), 0);
        read_all(options, entries, |run| {
            largest = run.iter().fold(largest, |largest, (_, value)| largest.max(*value));
            gathering.extend(run.iter().map(|(key, value)| [key.hi, *value]))
        })?;
        let records = gathering.finish()?;
        let shape = fit(records.len(), width_of(largest))?;
        check_width(largest, shape.value_bits())?;
        Self::solve_whole(options, shape, records)
    }

    fn build_values_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32, u64) -> Result<BloomierShape, Error>,
        entries: ValueSource<'_>,
    ) -> Result<Self, Error> {
        match entries {
            ValueSource::Integers(entries) => Self::build_integers(options, fit, entries),
            ValueSource::Bytes(entries) => Self::build_bytes(options, fit, entries),
        }
    }
}

impl SolveParts for Bloomier {
    type Records = Gathered<2>;
    type Shard = Shard;

    fn shard_bits(shape: &BloomierShape) -> u32 {
        shape.grid.shard_bits()
    }

    fn table_words(shape: &BloomierShape) -> u64 {
        shape.grid.words()
    }

    fn shard_words(shape: &BloomierShape) -> u64 {
        shape.grid.shard_words()
    }

    fn solve_shards(
        options: &BuildOptions<'_>,
        shape: &BloomierShape,
        _: u64,
        records: Gathered<2>,
        table: &mut [u64],
    ) -> Result<Vec<Shard>, Error> {
        Retrieval::solve_shards(options, shape.grid, 0, records, TORN, &shape.cell, table)
    }

    fn finish(
        _: &BuildOptions<'_>,
        shape: BloomierShape,
        len: u64,
        table: Words,
        shards: Vec<Shard>,
    ) -> Result<Self, Error> {
        let cells = Retrieval::of_shards(shape.grid, table, shards)?;
        Ok(Self { shape, cells, len, codec: Codec::Plain })
    }

    fn encode_shard(_: &BloomierShape, shard: Shard) -> Vec<u64> {
        shard.encode()
    }

    fn decode_shard(_: &BloomierShape, _: u64, words: &[u64]) -> Option<Shard> {
        Shard::decode(words)
    }

    fn check_value(shape: &BloomierShape, value: u64) -> Result<(), Error> {
        check_width(value, shape.value_bits())
    }
}

impl BuildParts for Bloomier {}

impl Map for Bloomier {
    #[inline]
    fn get(&self, key: KeyHash) -> Option<u64> {
        match self.cells.listed_value(key.hi) {
            None => self.value_at(&self.cells.place(key.hi)).map(|at| self.read_value(at)),
            value => value,
        }
    }

    fn get_batch(&self, keys: &[KeyHash], out: &mut [Option<u64>]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let digests = keys.iter().map(|key| key.hi);
        let find = |digest, place: &Place| match self.cells.listed_value(digest) {
            Some(value) => Found::Listed(value),
            None => self.value_at(place).map_or(Found::Absent, |at| {
                prefetch(&self.cells.table, (at / 64) as usize);
                Found::At(at)
            }),
        };
        self.cells.lookup_batch(digests, find, |at, found| {
            out[at] = match found {
                Found::Absent => None,
                Found::At(at) => Some(self.read_value(at)),
                Found::Listed(value) => Some(value),
            }
        });
    }

    fn set(&mut self, key: KeyHash, value: u64) -> Result<Option<u64>, Error> {
        let bits = self.shape.cell.value_bits;
        self.codec.check(value, bits)?;
        if let Some(listed) = self.cells.listed_value_mut(key.hi)? {
            return Ok(Some(core::mem::replace(listed, value)));
        }
        let Some(at) = self.value_at(&self.cells.place(key.hi)) else { return Ok(None) };
        self.cells.table.make_owned()?;
        let old = self.read_value(at);
        packed::set_at(self.cells.table.to_mut(), bits, at, value);
        Ok(Some(old))
    }

    fn value_bits(&self) -> u32 {
        self.shape.cell.value_bits
    }

    fn value_type(&self) -> ValueType {
        self.codec.value_type(self.value_bits())
    }

    fn value_of(&self, number: u64) -> Option<Value> {
        self.codec.decode(number)
    }

    fn number_of(&self, value: &Value) -> Result<u64, Error> {
        self.codec.encode(value, self.value_bits())
    }
}

/// The contradiction of a key with two values.
const TORN: &str = "given two values";

/// Returns the bits that a value takes, at least 1.
fn width_of(value: u64) -> u32 {
    (64 - value.leading_zeros()).max(1)
}

fn check_width(value: u64, bits: u32) -> Result<(), Error> {
    if width_of(value) <= bits { Ok(()) } else { Err(Error::Value { value, bits }) }
}

impl Persist for Bloomier {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let BloomierShape { keys, cell: Cell { check, value_bits }, grid, .. } = self.shape;
        let [shard_bits, cells, segment] = grid.fields();
        let [check, value_bits] = [check, value_bits].map(u64::from);
        let layout = if self.codec == Codec::Plain { LAYOUT } else { CODED_LAYOUT };
        let cells = [layout, check, value_bits, shard_bits, cells, segment, keys, self.listed()];
        to.shape(&[&cells[..], &self.codec.fields()].concat());
        self.cells.write(to);
        self.codec.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let layout = read_layout(from, &mut fields, LAYOUT..=CODED_LAYOUT)?;
        let check = fields.next(0..=MAX_CHECK.into(), "check bits")? as u32;
        let value_bits = fields.next(1..=64, "bits per value")? as u32;
        let cell = Cell { check, value_bits };
        let grid = Grid::read(from, &mut fields, cell.widths())?;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let listed = fields.next(0..=len, "number of listed keys")?;
        let head = match layout {
            CODED_LAYOUT => Codec::read_fields(from, &mut fields)?,
            _ => Head::Plain,
        };
        fields.finish()?;
        let cells = Retrieval::read(from, grid, listed)?;
        let codec = Codec::read(from, head)?;
        let shape = BloomierShape { keys, cell, grid, table_bytes: codec.bytes() };
        Ok(Self { shape, cells, len, codec })
    }

    fn validate(&self) -> Result<(), Error> {
        self.cells.validate(self.shape.cell.value_bits)?;
        self.codec.validate(self.cells.values())
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

    /// Shards that are solved in parts, from keys and from entries.
    #[test]
    fn parts_of_shards_make_the_same_bytes() {
        let all = entries(4, 20_000, 40);
        let keys: Vec<KeyHash> = all.iter().map(|(key, _)| *key).collect();
        let cell = Cell { check: 12, value_bits: 40 };
        for shard_bits in [2, 8] {
            let grid = Grid::sound(shard_bits, 24_001 >> shard_bits, 4, cell.widths()).unwrap();
            let shape = BloomierShape { keys: 20_000, cell, grid, table_bytes: 0 };
            crate::parts::tests::check::<Bloomier>(&shape, &keys);
            crate::parts::tests::check_hostile::<Bloomier>(&shape, &keys);
            crate::parts::tests::check_map::<Bloomier>(&shape, &all);
        }
    }

    /// Eight shards, as a filter of millions of keys has, give the same results as one.
    #[test]
    fn shards_do_not_change_the_results() {
        let all = entries(1, 20_000, 40);
        let cell = Cell { check: 12, value_bits: 40 };
        let grid = Grid::sound(3, 20_001 / 6, 8, cell.widths()).unwrap();
        let split = BloomierShape { keys: 20_000, cell, grid, table_bytes: 0 };
        let mut filter = build(split, &all);
        assert_eq!((filter.len(), filter.listed()), (20_000, 0));
        assert!(all.iter().all(|(key, value)| filter.get(*key) == Some(*value)));
        for (key, value) in &all {
            assert_eq!(filter.set(*key, value ^ 1).unwrap(), Some(*value));
        }
        assert!(all.iter().all(|(key, value)| filter.get(*key) == Some(value ^ 1)));
        filter.validate().unwrap();
        let non_members = entries(2, 100_000, 40);
        let passed = non_members.iter().filter(|(key, _)| filter.contains(*key)).count();
        assert!(passed < 50, "{passed} where 18 are expected");
    }

    /// Setting a value changes the bits of that value and no others.
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

    /// Digests without a cell are listed, sorted, with values that can be set.
    #[test]
    fn digests_without_a_cell_are_listed() {
        // They share their first cell, and so 4097 cells.
        let all: Vec<_> = (0..7000).map(|at| (KeyHash { hi: at, lo: 0 }, at & 255)).collect();
        let shape = BloomierShape::new(60_000, 8, 8).unwrap();
        let stated = shape.figures().bytes;
        let mut filter = build(shape, &all);
        assert!(filter.listed() > 1000 && filter.len() == 7000, "{}", filter.listed());
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

    /// Values of listed keys are replaced by their numbers as well, and the bytes do not depend on the order
    /// of the entries.
    #[test]
    fn listed_keys_have_byte_strings() {
        let value = |at: u64| alloc::format!("value {}", at % 100).into_bytes();
        let mut all: Vec<_> = (0..7000).map(|at| (KeyHash { hi: at, lo: 0 }, value(at))).collect();
        let build = |all: &[(KeyHash, Vec<u8>)]| {
            let fit = |_, bits, _| BloomierShape::new(60_000, 8, bits);
            let entries = ValueSource::Bytes(&mut { all });
            Bloomier::build_values_with(&BuildOptions::new(), fit, entries).unwrap()
        };
        let filter = build(&all);
        assert!(filter.listed() > 1000 && filter.value_bits() == 7, "{}", filter.listed());
        for (key, value) in &all {
            assert_eq!(filter.get_value(*key), Some(Value::Bytes(value.clone())));
        }
        filter.validate().unwrap();
        all.reverse();
        assert_eq!(build(&all), filter);
        let mut wrong = filter.clone();
        wrong.cells.extra.to_mut()[1] = 100;
        assert!(wrong.validate().is_err());
        let mut wrong = filter.clone();
        let at = all.iter().find_map(|(key, _)| filter.value_at(&filter.cells.place(key.hi)));
        packed::set_at(wrong.cells.table.to_mut(), 7, at.unwrap(), 127);
        assert!(wrong.validate().is_err());
    }

    /// A limit of memory holds for the distinct byte strings.
    #[cfg(feature = "std")]
    #[test]
    fn byte_strings_count_as_memory() {
        let value = |at: u64| alloc::vec![at as u8; 1000];
        let all: Vec<_> = (0..200).map(|at| (KeyHash { hi: mix(at), lo: 0 }, value(at))).collect();
        let build = |limit| {
            let options = BuildOptions::new().max_memory(limit, std::env::temp_dir());
            let fit = |keys, bits, _| BloomierShape::new(keys, 8, bits);
            let entries = ValueSource::Bytes(&mut { &all[..] });
            Bloomier::build_values_with(&options, fit, entries)
        };
        assert!(matches!(build(100 << 10), Err(Error::MemoryLimit { .. })));
        assert_eq!(build(64 << 20).unwrap().shape.table_bytes(), 200 * 1000);
    }

    /// Without check bits three non-members in four have a value.
    #[test]
    fn without_check_bits() {
        let shape = BloomierShape::fit(10_000, 0.9).unwrap();
        assert_eq!((shape.check(), shape.figures().fpr), (0, 0.75));
        let filter = build(shape, &entries(4, 10_000, 1));
        let non_members = entries(5, 100_000, 1);
        let passed = non_members.iter().filter(|(key, _)| filter.contains(*key)).count();
        assert!((74_000..76_000).contains(&passed), "{passed}");
        for (fpr, check) in [(0.75, 0), (0.749, 1), (0.01, 7), (3e-9, 28), (2e-10, 32)] {
            assert_eq!(BloomierShape::fit(10, fpr).unwrap().check(), check, "{fpr}");
        }
        assert!(matches!(BloomierShape::fit(10, 1e-10), Err(Error::Infeasible { .. })));
    }
}
