//! The xor filter: the XOR of three cells, one in each of three blocks, is a member's print.
//!
//! ```text
//!  digest = hash.hi
//!    │ leading bits ──► shard ──► its multiplier
//!    │ the rest ──────► a cell of block 0         ┌───────────┬───────────┬───────────┐
//!    │ × multiplier ──► cells of blocks 1 and 2   │ ▲ block 0 │   block 1▲│   ▲ block 2│  w bits a cell
//!    └──────────────► print                       └─┼─────────┴──────────┼┴───┼───────┘
//!                                                   └────────── XOR ─────┴────┘ = print
//! ```
//!
//! | figure | plain | `plus=1` |
//! | --- | --- | --- |
//! | bits a key | 1.23 w | 1.08 w + 0.47: 9.1 instead of 9.9 at w = 8 |
//! | rate | 2^-w exactly | the same |
//! | cache lines | 3, anywhere in the shard | 3, and one more for half of all keys |
//! | building | sorting the digests, then peeling, all over the shard at once | the same |
//! | failure | none, as for the binary fuse filter | the same |
//!
//! With `plus=1` the third block, which is peeled last and so has many cells that nobody owns, is
//! kept as a bit for each cell and the cells that are not zero.
//!
//! [`binary_fuse`](super::binary_fuse) takes less memory for the same: this is here
//! because much is stored in it, and to compare. It cannot be changed after it is built, and keys
//! with the same 64 bits of hash are one key to it.
//!
//! Graf, Lemire, *Xor Filters: Faster and Smaller Than Bloom and Cuckoo Filters*, 2020. Differences:
//! shards, and a build that cannot fail, as for the binary fuse filter; the bits of the third
//! block share a cache line with their count, and the cells behind them have a fixed room that
//! follows from the number of keys: eight standard deviations above what they take.

use tamis_bits::peel::Blocks;
use tamis_format::{Reader, Writer};

use super::common::peeled::{Layout, MAX_SHARD_BITS, Table, shards, width_for};
use crate::error::Error;
use crate::gather::gather;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Persist, Static};

/// Prints of so many bits; the third block plain or without its zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XorShape {
    keys: u64,
    layout: Layout,
    graph: Blocks<3>,
}

const PLUS: Setting = Setting::new("plus", "1: the third block without its zeros; else with them");

/// Cells a key, and some more, so that small sets peel too.
const CELLS: f64 = 1.23;
const SPARE: f64 = 32.0;
/// Keys that own a cell of the third block, as a share of all: measured.
const LATE: f64 = 0.2615;

impl XorShape {
    /// Prints of `width` bits, 1 to 32; `plus` leaves the third block's zeros out.
    pub fn new(keys: u64, width: u32, plus: bool) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if !(1..=32).contains(&width) {
            return Err(Error::Limit { what: "bits a print", asked: width.into(), most: 32 });
        }
        let (shard_bits, largest) = shards(keys);
        let block = ((largest * CELLS + SPARE) / 3.0).ceil();
        // One in 2^w of the cells that are owned is zero as well.
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

    /// Bits of a print.
    pub fn width(&self) -> u32 {
        self.layout.width
    }

    /// Whether the third block is kept without its zeros.
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

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.layout.bytes(),
            query_cost: if self.plus() { 4.25 } else { 3.25 },
        }
    }

    /// 2^-w, unless there is no key at all.
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
    /// Members that are listed beside the table: none, unless somebody has chosen the hashes.
    pub fn listed(&self) -> u64 {
        self.table.extra.len() as u64
    }
}

impl Filter for Xor {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.table.contains(&self.shape.graph, key.hi)
    }

    /// Distinct keys that it was built from.
    fn len(&self) -> u64 {
        self.table.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let digests = keys.iter().map(|key| key.hi);
        self.table.contains_batch(&self.shape.graph, digests, &mut out[..keys.len()]);
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
        let records = gather(options, keys)?;
        let shape = fit(records.len())?;
        let table = Table::solve(options, shape.layout, &shape.graph, records)?;
        Ok(Self { shape, table })
    }
}

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
        let width = fields.next(1..=32, "bits a print")? as u32;
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard's number")? as u32;
        let block = fields.next(1..=u64::from(u32::MAX) / 3, "cells of a block")?;
        let room = fields.next(0..=block, "room for cells of the third block")?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let listed = fields.next(0..=len, "digests beside the table")?;
        fields.finish()?;
        let layout = Layout { width, shard_bits, cells: block * 3, room };
        let shape = XorShape::checked(keys, layout);
        let shape = shape.ok_or_else(|| from.corrupt("more cells than there can be"))?;
        Ok(Self { shape, table: Table::read(from, layout, len, listed)? })
    }

    fn validate(&self) -> Result<(), Error> {
        self.table.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    /// Keys that own a cell of the third block: what [`LATE`] says, and never more than there is
    /// room for.
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

    #[test]
    fn the_promised_size() {
        let over = |plus| {
            let shape = XorShape::new(10_000_000, 8, plus).unwrap();
            shape.figures().bits_per_key() / 8.0
        };
        assert!(over(false) < 1.233 && over(true) < 1.15, "{} {}", over(false), over(true));
    }
}
