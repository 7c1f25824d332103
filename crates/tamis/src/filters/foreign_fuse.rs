//! The binary fuse filter of FastFilter's C, Go, Java and Python libraries: three cells of one array.
//!
//! ```text
//!  key ──► h = murmur64(key + seed) ──► a cell in each of 3 consecutive segments, and a fingerprint
//!
//!  array   ├─ segment 0 ─┼─ segment 1 ─┼─ … ─┼─ segment n + 1 ─┤     8 or 16 bits per cell
//!                 └── xor ──────┴── xor ──┘ = the fingerprint h ^ h >> 32, for every member
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.125 w for 10^6 keys and more, 1.24 w for 10^4, with w = 8 or 16 |
//! | rate | 2^-w |
//! | cache lines | 3, within 3 segments |
//! | building | peels all keys at once; a seed that fails is followed by another |
//!
//! It exists to exchange filters with those libraries. [`binary_fuse`](super::binary_fuse) is smaller,
//! takes any width and builds in parallel. The planner does not recommend it.
//!
//! The libraries hash nothing: their keys are 64-bit integers, which they mix with the seed of the
//! filter. [`KeyHash::hi`] is that integer here, and the seed is part of the filter.
//!
//! Graf, Lemire, *Binary Fuse Filters: Fast and Smaller Than Xor Filters*, 2022, as in
//! `xor_singleheader`, whose sizes and seeds it takes. Differences: keys are sorted first, so that their
//! order does not change the bytes; and where 100 seeds fail, as they do for 1 in 3 sets of about 11 500
//! keys, the array grows by a segment, where the libraries give up.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use tamis_bits::peel::{Graph, Peeler, Segments};
use tamis_bits::{SharedBytes, Words, as_le_bytes, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::common::usize_words;
use crate::error::Error;
use crate::gather::gather;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Persist, Static};

const TABLE: Name = Name::new("table");
/// Seeds that are tried before the array grows.
const ATTEMPTS: u32 = 100;
/// The times that the array may grow.
const GROWTHS: u32 = 100;

/// The shape of a [`ForeignFuse`] filter: the width of a cell, and the segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignFuseShape {
    keys: u64,
    width: u32,
    segment: u32,
    count: u64,
    graph: Segments,
}

impl ForeignFuseShape {
    /// Returns the shape that FastFilter's libraries give `keys` keys with cells of `width` bits, 8 or
    /// 16.
    ///
    /// # Errors
    /// [`Error::Infeasible`] if the array would have 2^32 cells or more.
    pub fn new(keys: u64, width: u32) -> Result<Self, Error> {
        let n = keys as f64;
        let segment = if keys == 0 { 2 } else { (n.ln() / 3.33f64.ln() + 2.25).floor() as u32 };
        let segment = segment.min(18);
        let factor = (0.875 + 0.25 * 1e6f64.ln() / n.ln()).max(1.125);
        let cells = if keys <= 1 { 0 } else { (n * factor).round() as u64 };
        let count = cells.div_ceil(1 << segment).saturating_sub(2).max(1);
        Self::from_segments(width, segment, count, keys)
    }

    /// Returns a shape of `count` segments of `2^segment` cells for first cells, and two more, with a
    /// capacity of `keys`.
    ///
    /// # Errors
    /// [`Error::Infeasible`] if there are no cells, or too many, or they are not of 8 or 16 bits.
    pub fn from_segments(width: u32, segment: u32, count: u64, keys: u64) -> Result<Self, Error> {
        if !matches!(width, 8 | 16) {
            return Err(Error::Infeasible { why: "FastFilter's cells have 8 or 16 bits" });
        }
        crate::shape::check_keys(keys)?;
        let graph = Segments::new(segment, count)
            .ok_or(Error::Infeasible { why: "FastFilter's arrays have fewer than 2^32 cells" })?;
        Ok(Self { keys, width, segment, count, graph })
    }

    /// Returns the bits of a cell.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the cells of a segment.
    pub fn segment_len(&self) -> u64 {
        1 << self.segment
    }

    /// Returns the number of segments that have first cells.
    pub fn segment_count(&self) -> u64 {
        self.count
    }

    /// Returns the number of cells.
    pub fn cells(&self) -> u64 {
        self.graph.cells() as u64
    }

    fn words(&self) -> u64 {
        (self.cells() * u64::from(self.width)).div_ceil(64)
    }

    /// Returns the bytes of all cells.
    fn bytes(&self) -> usize {
        self.graph.cells() * self.width as usize / 8
    }
}

impl Shape for ForeignFuseShape {
    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        match -fpr.log2() {
            bits if bits <= 8.0 => Self::new(keys, 8),
            bits if bits <= 16.0 => Self::new(keys, 16),
            _ => Err(Error::Infeasible { why: "FastFilter's cells have 8 or 16 bits" }),
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        let segment = self.segment_len().into();
        [("f", self.width.into()), ("segment", segment), ("segments", self.count.into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: tamis_bits::lines(self.words()) * 64,
            query_cost: 3.25,
        }
    }

    /// Returns 2^-w, or 0 if there are no keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { (-f64::from(self.width)).exp2() }
    }
}

/// The cells, in words or in a shared buffer of any alignment.
#[derive(Clone, Debug)]
enum Table {
    Words(Words),
    Bytes(SharedBytes, Range<usize>),
}

impl Table {
    /// Returns the cells as little-endian bytes, with bytes of 0 after them. Only a big-endian machine
    /// copies them.
    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(buffer, range) => buffer[range.clone()].into(),
            Self::Words(words) => match as_le_bytes(words) {
                Some(bytes) => bytes.into(),
                None => words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().into(),
            },
        }
    }

    /// Returns the number of words.
    fn len(&self) -> usize {
        match self {
            Self::Bytes(_, range) => range.len().div_ceil(8),
            Self::Words(words) => words.len(),
        }
    }

    #[inline]
    fn prefetch(&self, byte: usize) {
        match self {
            Self::Bytes(buffer, range) => prefetch(buffer, range.start + byte),
            Self::Words(words) => prefetch(words, byte / 8),
        }
    }
}

/// A binary fuse filter of FastFilter's libraries.
///
/// ```
/// use tamis::{ForeignFuse, HashId, Keyed};
///
/// let ids = Keyed::<ForeignFuse>::builder().hash(HashId::FastFilter).fpr(0.01).build([3u64, 7, 9])?;
/// assert!(ids.contains(&7u64));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForeignFuse {
    shape: ForeignFuseShape,
    seed: u64,
    len: u64,
    table: Table,
}

/// Filters are equal if their files are.
impl PartialEq for ForeignFuse {
    fn eq(&self, other: &Self) -> bool {
        let own = (&self.shape, self.seed, self.len, self.cells());
        own == (&other.shape, other.seed, other.len, other.cells())
    }
}

impl ForeignFuse {
    /// Returns a filter of `len` keys with these cells, which are the bits of `words` from the lowest of
    /// the first on.
    ///
    /// # Errors
    /// [`Error::File`] if there are more or fewer words than the cells take, or bits are set past the
    /// last cell; [`Error::Capacity`] if there are more keys than the capacity.
    pub fn from_words(
        shape: ForeignFuseShape,
        seed: u64,
        len: u64,
        words: Words,
    ) -> Result<Self, Error> {
        if len > shape.keys {
            return Err(Error::Capacity { capacity: shape.keys });
        }
        if words.len() as u64 != shape.words() {
            let what = "the number of words is not that of the cells";
            return Err(tamis_format::Error::corrupt(what).into());
        }
        let filter = Self { shape, seed, len, table: Table::Words(words) };
        filter.validate()?;
        Ok(filter)
    }

    /// Returns a filter of `len` keys whose cells are `bytes` from `offset` on, little-endian. They stay
    /// where they are, at any alignment.
    ///
    /// # Errors
    /// [`Error::File`] if the buffer ends before the last cell; [`Error::Capacity`] if there are more keys
    /// than the capacity.
    pub fn from_shared(
        shape: ForeignFuseShape,
        seed: u64,
        len: u64,
        bytes: &SharedBytes,
        offset: usize,
    ) -> Result<Self, Error> {
        if len > shape.keys {
            return Err(Error::Capacity { capacity: shape.keys });
        }
        let end = shape.bytes().checked_add(offset);
        let Some(end) = end.filter(|end| *end <= bytes.len()) else {
            let what = "the buffer ends before the last cell";
            return Err(tamis_format::Error::corrupt(what).into());
        };
        Ok(Self { shape, seed, len, table: Table::Bytes(bytes.clone(), offset..end) })
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the cells as little-endian bytes.
    pub fn cells(&self) -> Cow<'_, [u8]> {
        let len = self.shape.bytes();
        match self.table.bytes() {
            Cow::Borrowed(bytes) => bytes[..len].into(),
            Cow::Owned(bytes) => bytes[..len].to_vec().into(),
        }
    }

    /// Returns the XOR of the key's cells and its fingerprint.
    #[inline(always)]
    fn difference(&self, key: KeyHash, cell: impl Fn(usize) -> u16) -> u16 {
        let edge = self.shape.graph.edge(self.seed, key.hi);
        edge.cells.iter().fold(edge.print as u16, |sum, at| sum ^ cell(*at))
    }

    fn prefetch(&self, key: KeyHash) {
        for cell in self.shape.graph.edge(self.seed, key.hi).cells {
            self.table.prefetch(cell * self.shape.width as usize / 8);
        }
    }
}

impl Filter for ForeignFuse {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let found = match (&self.table, self.shape.width) {
            (Table::Words(table), 8) => self.shape.graph.holds(self.seed, key.hi, table),
            (Table::Words(table), _) => {
                self.difference(key, |at| (table[at / 4] >> (at % 4 * 16)) as u16) == 0
            }
            (Table::Bytes(buffer, range), 8) => {
                let bytes = &buffer[range.clone()];
                self.difference(key, |at| bytes[at].into()) as u8 == 0
            }
            (Table::Bytes(buffer, range), _) => {
                let (cells, _) = buffer[range.clone()].as_chunks();
                self.difference(key, |at| u16::from_le_bytes(cells[at])) == 0
            }
        };
        // Without keys all cells are zero, which matches the fingerprints of some non-members.
        found && self.len > 0
    }

    /// Returns the number of distinct keys.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.table.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        super::common::contains_prefetching(self, keys, out, Self::prefetch);
    }
}

impl Static for ForeignFuse {}

/// The seeds of `xor_singleheader`: splitmix64 from its start.
struct Seeds(u64);

impl Seeds {
    fn new() -> Self {
        Self(0x726b_2b9d_438b_9d4d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        tamis_bits::range::mix(self.0)
    }
}

impl Build for ForeignFuse {
    type Shape = ForeignFuseShape;

    fn shape(&self) -> &ForeignFuseShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<ForeignFuseShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let records = gather(options, keys)?;
        let (len, mut shape) = (records.len(), fit(records.len())?);
        let check = || options.check(0, len);
        let bytes = shape.figures().bytes;
        let solved = records.solve_shards(options, 0, [bytes, 0], |_, records| {
            let (mut peeler, mut seeds) = (Peeler::<1>::new(), Seeds::new());
            let mut shape = shape.clone();
            for _ in 0..GROWTHS {
                for _ in 0..ATTEMPTS {
                    let seed = seeds.next();
                    if peeler.peel(&shape.graph, seed, records, check)? == records.len() {
                        let mut table = Words::zeroed(usize_words(shape.words())?)?;
                        let words = table.to_mut();
                        peeler.fill(&shape.graph, seed, shape.width, words, check)?;
                        return Ok((shape, seed, table));
                    }
                }
                let count = shape.count + 1 + shape.count / 16;
                shape =
                    ForeignFuseShape::from_segments(shape.width, shape.segment, count, shape.keys)?;
            }
            Err(Error::Infeasible { why: "no seed places these keys" })
        })?;
        let (seed, table);
        (shape, seed, table) = solved.into_iter().next().expect("one shard");
        Ok(Self { shape, seed, len, table: Table::Words(table) })
    }
}

impl Persist for ForeignFuse {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let ForeignFuseShape { keys, width, segment, count, .. } = self.shape;
        to.shape(&[width.into(), segment.into(), count, keys, self.seed]);
        match &self.table {
            Table::Words(words) => to.words(TABLE, words),
            Table::Bytes(buffer, range) => {
                let words = buffer[range.clone()].chunks(8).map(|bytes| {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    u64::from_le_bytes(word)
                });
                to.pieces(TABLE, [words.collect::<Vec<_>>().into()]);
            }
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let width = fields.next(8..=16, "bits per cell")? as u32;
        let segment = fields.next(0..=Segments::MAX_SEGMENT.into(), "bits of a segment")? as u32;
        let count = fields.next(1..=u32::MAX.into(), "number of segments")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let seed = fields.next(0..=u64::MAX, "seed")?;
        fields.finish()?;
        let shape = ForeignFuseShape::from_segments(width, segment, count, keys)
            .map_err(|_| from.corrupt("the cells are too many, or not of 8 or 16 bits"))?;
        let table = Table::Words(from.words(TABLE, shape.words())?);
        Ok(Self { shape, seed, len, table })
    }

    fn validate(&self) -> Result<(), Error> {
        match &self.table {
            Table::Words(words) if !set::ends_at(words, self.shape.bytes() as u64 * 8) => {
                Err(tamis_format::Error::corrupt("bits are set past the last cell").into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of `xor_singleheader`: segment length, segment count and array length.
    #[test]
    fn sizes_of_the_library() {
        for (keys, segment, count, cells) in [
            (0, 4, 1, 12),
            (1, 4, 1, 12),
            (10, 16, 1, 48),
            (1000, 128, 9, 1408),
            (11_500, 1024, 12, 14_336),
            (1_000_000, 8192, 136, 1_130_496),
        ] {
            let shape = ForeignFuseShape::new(keys, 8).unwrap();
            let sizes = (shape.segment_len(), shape.segment_count(), shape.cells());
            assert_eq!(sizes, (segment, count, cells), "{keys} keys");
        }
    }

    /// The cells of a buffer answer as those of words do, at any alignment.
    #[test]
    fn cells_in_a_shared_buffer() {
        let keys: Vec<KeyHash> = (0..3000u64).map(|key| KeyHash { hi: key * key, lo: 0 }).collect();
        let hasher = crate::KeyHasher::new(crate::HashId::FastFilter, [0, 0]);
        for width in [8, 16] {
            let shape = ForeignFuseShape::new(3000, width).unwrap();
            let filter = ForeignFuse::build(shape, &keys[..]).unwrap();
            for offset in [0, 3, 28] {
                let mut bytes = vec![0xff; offset];
                bytes.extend_from_slice(&filter.cells());
                let buffer = SharedBytes::new(alloc::sync::Arc::new(bytes));
                let from = |offset| {
                    let shape = filter.shape.clone();
                    ForeignFuse::from_shared(shape, filter.seed, filter.len, &buffer, offset)
                };
                let shared = from(offset).unwrap();
                assert!(shared == filter && from(offset + 1).is_err() && from(usize::MAX).is_err());
                let mut found = vec![false; keys.len()];
                shared.contains_prefetching(&keys, &mut found);
                assert!(found.iter().all(|found| *found), "{width} bits at {offset}");
                let others = (0..3000u64).map(|key| KeyHash { hi: key * key + 2, lo: 0 });
                others.for_each(|key| assert_eq!(shared.contains(key), filter.contains(key)));
                let [shared, filter] = [&shared, &filter]
                    .map(|filter| crate::Keyed::new(hasher, filter.clone()).to_bytes().unwrap());
                assert_eq!(shared, filter);
            }
        }
    }

    /// 100 seeds fail for some of these sets, and the array grows.
    #[test]
    fn the_sizes_that_fail_in_the_libraries_are_built() {
        for set in 0..6u64 {
            let keys: Vec<KeyHash> =
                (0..11_500).map(|key| KeyHash { hi: set << 32 | key, lo: 0 }).collect();
            let filter =
                ForeignFuse::build(ForeignFuseShape::new(11_500, 8).unwrap(), &keys[..]).unwrap();
            assert!(keys.iter().all(|key| filter.contains(*key)));
        }
    }
}
