//! The xor filter: the XOR of three cells, one in each of three blocks, is a member's fingerprint.
//!
//! ```text
//!  digest = hash.hi
//!    │ leading bits ──► shard ──► its multiplier
//!    │ the rest ──────► a cell of block 0         ┌───────────┬───────────┬───────────┐
//!    │ × multiplier ──► cells of blocks 1 and 2   │ ▲ block 0 │   block 1▲│   ▲ block 2│  w bits per cell
//!    └──────────────► fingerprint                 └─┼─────────┴──────────┼┴───┼───────┘
//!                                                   └────────── XOR ─────┴────┘ = fingerprint
//! ```
//!
//! | figure | plain | `plus=1` |
//! | --- | --- | --- |
//! | bits per key | 1.23 w | 1.08 w + 0.47: 9.1 instead of 9.9 at w = 8 |
//! | rate | 2^-w exactly | the same |
//! | cache lines | 3, anywhere in the shard | 3, and one more for half of all keys |
//! | building | partitions the digests, then peels the whole shard at once | the same |
//! | failure | none, as for the binary fuse filter | the same |
//!
//! With `plus=1`, the xor+ filter, the third block is stored as one bit per cell and the cells that
//! are not zero. That block is peeled last, so no key owns many of its cells.
//!
//! [`binary_fuse`](super::binary_fuse) takes less memory for the same rate. The xor filter is here
//! because many existing filters are of this kind, and for comparison. It cannot be changed after it
//! is built, and keys with the same 64 bits of hash count as one key.
//!
//! Graf, Lemire, *Xor Filters: Faster and Smaller Than Bloom and Cuckoo Filters*, 2020. Differences:
//! shards, and a build that cannot fail, as for the binary fuse filter; the bits of the third block
//! share a cache line with their count, and the stored cells have a fixed room that follows from the
//! number of keys: eight standard deviations above what they take.

use alloc::vec::Vec;

use tamis_bits::Words;
use tamis_bits::peel::Blocks;
use tamis_format::{Reader, Writer};

use super::common::peeled::{
    Layout, MAX_SHARD_BITS, Sections, Shard, Table, shards, solve_shards, width_for,
};
use crate::error::Error;
use crate::gather::{Gathered, gather_runs};
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

/// The shape: the width of the fingerprints, and whether the third block is stored without its zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XorShape {
    keys: u64,
    layout: Layout,
    graph: Blocks<3>,
}

const PLUS: Setting = Setting::new("plus", "1: store the third block without its zeros");

/// Cells per key, and additional cells, so that small sets peel too.
const CELLS: f64 = 1.23;
const SPARE: f64 = 32.0;
/// The share of keys that own a cell of the third block, measured.
const LATE: f64 = 0.2615;

impl XorShape {
    /// Returns the shape for `keys` keys with fingerprints of `width` bits, 1 to 32. With `plus`, the
    /// third block is stored without its zeros.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(keys: u64, width: u32, plus: bool) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if !(1..=32).contains(&width) {
            let asked = width.into();
            return Err(Error::Limit { what: "bits per fingerprint", asked, most: 32 });
        }
        let (shard_bits, largest) = shards(keys);
        let block = ((largest * CELLS + SPARE) / 3.0).ceil();
        // One in 2^w of the owned cells is zero as well.
        let owned = largest * LATE * (1.0 - (-f64::from(width)).exp2());
        let room = if plus { (owned + 4.0 * owned.sqrt() + 8.0).ceil().min(block) } else { 0.0 };
        let layout = Layout { width, shard_bits, cells: block as u64 * 3, room: room as u64 };
        Self::checked(keys, layout).ok_or(Error::Limit {
            what: "keys",
            asked: keys,
            most: MAX_KEYS,
        })
    }

    fn checked(keys: u64, layout: Layout) -> Option<Self> {
        let sound = layout.is_sound() && layout.cells.is_multiple_of(3);
        let graph = Blocks::new(layout.cells / 3, layout.shard_bits).filter(|_| sound)?;
        Some(Self { keys, layout, graph })
    }

    /// Returns the bits of a fingerprint.
    pub fn width(&self) -> u32 {
        self.layout.width
    }

    /// Returns whether the third block is stored without its zeros.
    pub fn plus(&self) -> bool {
        self.layout.room > 0
    }
}

impl Shape for XorShape {
    const SETTINGS: &'static [Setting] = &[PLUS];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let plus = settings.number(&PLUS, |plus| plus == 1)?.is_some();
        Self::new(keys, width_for(fpr)?, plus)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [
            ("f", self.layout.width.into()),
            ("shards", (1u64 << self.layout.shard_bits).into()),
            ("cells", self.layout.cells.into()),
        ]
        .into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.layout.bytes(),
            query_cost: if self.plus() { 4.25 } else { 3.25 },
        }
    }

    /// Returns 2^-w, or 0 if there are no keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { (-f64::from(self.layout.width)).exp2() }
    }
}

/// An xor filter.
///
/// ```
/// use tamis::{Keyed, Xor};
///
/// let fruit = Keyed::<Xor>::build(["apple", "pear", "plum"], 0.001)?;
/// assert!(fruit.contains("plum"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Xor {
    shape: XorShape,
    table: Table,
}

impl Xor {
    /// Returns the members that are listed beside the table: 0 unless an adversary chose the hashes.
    pub fn listed(&self) -> u64 {
        self.table.sections.extra.len() as u64
    }
}

impl Filter for Xor {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.table.contains(key.hi)
    }

    /// Returns the number of distinct keys.
    fn len(&self) -> u64 {
        self.table.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.table.sections.words.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let digests = keys.iter().map(|key| key.hi);
        self.table.contains_batch(digests, &mut out[..keys.len()]);
    }
}

impl Static for Xor {}

impl Build for Xor {
    type Shape = XorShape;

    fn shape(&self) -> &XorShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<XorShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let records = gather_runs(options, keys)?;
        Self::solve_whole(options, fit(records.len())?, records)
    }
}

impl SolveParts for Xor {
    type Records = Gathered<1>;
    type Shard = Shard;

    fn shard_bits(shape: &XorShape) -> u32 {
        shape.layout.shard_bits
    }

    fn table_words(shape: &XorShape) -> u64 {
        shape.layout.words()
    }

    fn shard_words(shape: &XorShape) -> u64 {
        shape.layout.shard_words()
    }

    fn solve_shards(
        options: &BuildOptions<'_>,
        shape: &XorShape,
        _: u64,
        records: Gathered<1>,
        table: &mut [u64],
    ) -> Result<Vec<Shard>, Error> {
        solve_shards(options, shape.layout, &shape.graph, records, table)
    }

    fn finish(
        _: &BuildOptions<'_>,
        shape: XorShape,
        len: u64,
        table: Words,
        shards: Vec<Shard>,
    ) -> Result<Self, Error> {
        let sections = Sections::of_shards(shape.layout, table, shards)?;
        Ok(Self { table: Table::new(shape.layout, shape.graph, sections, len), shape })
    }

    fn encode_shard(_: &XorShape, shard: Shard) -> Vec<u64> {
        shard.encode()
    }

    fn decode_shard(_: &XorShape, _: u64, words: &[u64]) -> Option<Shard> {
        Shard::decode(words)
    }
}

impl BuildParts for Xor {}

impl Persist for Xor {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let Layout { width, shard_bits, cells, room } = self.shape.layout;
        let (width, shard_bits) = (width.into(), shard_bits.into());
        to.shape(&[width, shard_bits, cells / 3, room, self.shape.keys, self.listed()]);
        self.table.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let width = fields.next(1..=32, "bits per fingerprint")? as u32;
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard number")? as u32;
        let block = fields.next(1..=u64::from(u32::MAX) / 3, "cells per block")?;
        let room = fields.next(0..=block, "stored cells of the third block")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let listed = fields.next(0..=len, "number of listed digests")?;
        fields.finish()?;
        let layout = Layout { width, shard_bits, cells: block * 3, room };
        let shape = XorShape::checked(keys, layout);
        let shape = shape.ok_or_else(|| from.corrupt("the number of cells is too large"))?;
        let sections = Sections::read(from, layout, listed)?;
        Ok(Self { table: Table::new(layout, shape.graph, sections, len), shape })
    }

    fn validate(&self) -> Result<(), Error> {
        self.table.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    /// The third block has room for all of its cells that keys own, as [`LATE`] states.
    #[test]
    fn the_third_block_has_room() {
        for keys in [0, 1, 2, 10, 100, 1000, 30_000, 300_000] {
            for width in [1, 8, 32] {
                let shape = XorShape::new(keys, width, true).unwrap();
                for seed in 0..(300_000 / (keys + 100)).clamp(2, 50) {
                    let hasher = KeyHasher::new(HashId::Fast, [seed, keys]);
                    let members: Vec<KeyHash> =
                        (0..keys).map(|key| key.hash_with(&hasher)).collect();
                    let filter = Xor::build(shape.clone(), &members[..]).unwrap();
                    assert_eq!(filter.listed(), 0, "{keys} keys, {width} bits");
                    assert!(members.iter().all(|key| filter.contains(*key)));
                    filter.validate().unwrap();
                }
            }
        }
    }

    /// Shards that are solved in parts.
    #[test]
    fn parts_of_shards_make_the_same_bytes() {
        let hasher = KeyHasher::new(HashId::Fast, [3, 3]);
        let members: Vec<KeyHash> = (0..40_000u64).map(|key| key.hash_with(&hasher)).collect();
        for room in [0, 70] {
            let layout = Layout { width: 9, shard_bits: 8, cells: 288, room };
            let shape = XorShape::checked(40_000, layout).unwrap();
            crate::parts::tests::check::<Xor>(&shape, &members);
            crate::parts::tests::check_hostile::<Xor>(&shape, &members);
        }
    }

    #[test]
    fn the_promised_size() {
        let over = |plus| {
            let shape = XorShape::new(10_000_000, 8, plus).unwrap();
            shape.figures().bits_per_key() / 8.0
        };
        assert!(over(false) < 1.233 && over(true) < 1.15, "{} {}", over(false), over(true));
    }
}
