//! The binary fuse filter: the XOR of three or four cells, close to each other, is a member's print.
//!
//! ```text
//!  digest = hash.hi
//!    │ leading bits ──► shard ──► its multiplier
//!    │ the rest ──────► y, the first cell          cells   ┌──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┐
//!    │ × multiplier ──► how far on the others are  w bits  └──┴▲─┴──┴──┴▲─┴──┴──┴──┴▲─┴──┴──┘
//!    └──────────────► print                                    y        │           │
//!                                                              └─ one in s ─┴─ one in s ─┘
//!  a member's three cells, XORed, are its print; a stranger's are so once in 2^w
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 1.112 w for three cells, 1.06 w for four, at 10^7 keys; 1.22 w at 1000 |
//! | rate | 2^-w exactly, whatever the number of keys |
//! | cache lines | 3 or 4, within some 50 KB, all asked for at once |
//! | building | sorting the digests, then peeling each shard within the cache: see [`bits::peel`] |
//! | failure | none: a shard tries other multipliers; what is left after 24 or more is listed |
//!
//! It is built from all its keys at once and cannot be changed. Two keys with the same 64 bits of
//! hash are one key to it: among 10^9 keys the chance that there is such a pair is 3 %.
//!
//! Graf, Lemire, *Binary Fuse Filters: Fast and Smaller Than Xor Filters*, 2022; shards with equal
//! parts of the table as in Vigna, *ε-Cost Sharding*, 2025. Differences: the graph ends in a fold
//! and has cells of any number, which takes 1.112 instead of 1.125 cells a key ([`bits::peel::Fuse`]
//! has the drawing); sizes are measured, down to a single key, and not a formula; the multiplier of
//! another attempt leaves the first cell where it was, so that the sorted digests stay in the order
//! in which they are peeled; and a build cannot fail.

use bits::peel::Fuse;
use format::{Reader, Writer};

use super::as_given;
use super::peeled::{Layout, MAX_SHARD_BITS, Table};
use crate::error::Error;
use crate::filter::{Build, Filter, KeySource, Means, Persist, Static};
use crate::gather::gather;
use crate::hash::Hash;
use crate::plan::{Figures, MAX_KEYS, Setting, Settings, Shape};

/// Prints of so many bits, three or four cells a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryFuseShape {
    keys: u64,
    layout: Layout,
    segment: u32,
    arity: Arity,
}

/// The graph of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arity {
    Three(Fuse<3>),
    Four(Fuse<4>),
}

const ARITY: Setting = Setting { name: "arity", takes: "3 or 4 cells a key; else 3" };

/// Cells for 1000 keys of a shard, measured, by the binary logarithm of the keys in steps of two;
/// between them it is interpolated. Up to 2^12 keys one multiplier in eight peels all of them, from
/// 2^20 on six in seven do.
const CELLS_THREE: [f64; 13] =
    [1750., 1750., 1260., 1270., 1250., 1224., 1196., 1172., 1153., 1137., 1120., 1110., 1105.];
const CELLS_FOUR: [f64; 13] =
    [2000., 1750., 1450., 1310., 1280., 1214., 1153., 1120., 1095., 1074., 1061., 1050., 1042.];

/// Binary logarithm of the keys from which on a filter is made of shards of so many keys or up to twice
/// as many. They are large because large ones take fewer cells, and small enough that threads have
/// something to share.
const SHARD: u32 = 21;

impl BinaryFuseShape {
    /// Prints of `width` bits, 1 to 32, and 3 or 4 cells a key.
    pub fn new(keys: u64, width: u32, arity: u32) -> Result<Self, Error> {
        crate::plan::check_keys(keys)?;
        if !(1..=32).contains(&width) {
            return Err(Error::Limit { what: "bits a print", asked: width.into(), most: 32 });
        }
        let shard_bits = (keys >> SHARD).checked_ilog2().unwrap_or(0);
        let mean = keys as f64 / (1u64 << shard_bits) as f64;
        // Of 2^b shards the largest is about sqrt(2b ln 2) standard deviations above the mean.
        let spread = if shard_bits == 0 { 0.0 } else { 1.0 + f64::from(shard_bits).sqrt() * 1.18 };
        let largest = (mean + spread * mean.sqrt()).max(1.0);
        let log = largest.log2();
        let (table, offset, least): (_, _, fn(u32) -> u64) = match arity {
            3 => (&CELLS_THREE, 1.0 / 3.0, Fuse::<3>::least),
            _ => (&CELLS_FOUR, -0.25, Fuse::<4>::least),
        };
        // The open end takes a share of s / keys, and the finite number of records about
        // 1 / sqrt(s) of the rest: both are small for s = keys^(2/3).
        let segment = (log * (2.0 / 3.0) + offset).round().clamp(1.0, 18.0) as u32;
        let at = (log / 2.0).min((table.len() - 1) as f64);
        let (low, high) = (table[at as usize], table[(at.ceil()) as usize]);
        let cells = (largest * (low + (high - low) * at.fract()) / 1000.0).ceil() as u64;
        let cells = cells.max(least(segment));
        let cells = if shard_bits > 0 { cells.next_multiple_of(64) } else { cells };
        let layout = Layout { width, shard_bits, cells };
        Self::checked(keys, layout, segment, arity).ok_or(Error::Limit {
            what: "cells a key",
            asked: arity.into(),
            most: 4,
        })
    }

    fn checked(keys: u64, layout: Layout, segment: u32, arity: u32) -> Option<Self> {
        let (cells, skip) = (layout.cells, layout.shard_bits);
        let arity = match arity {
            3 => Arity::Three(Fuse::new(cells, segment, skip)?),
            4 => Arity::Four(Fuse::new(cells, segment, skip)?),
            _ => return None,
        };
        Some(Self { keys, layout, segment, arity })
    }

    /// Bits of a print.
    pub fn width(&self) -> u32 {
        self.layout.width
    }

    /// Cells of a key.
    pub fn arity(&self) -> u32 {
        match self.arity {
            Arity::Three(_) => 3,
            Arity::Four(_) => 4,
        }
    }
}

impl Shape for BinaryFuseShape {
    const SETTINGS: &'static [Setting] = &[ARITY];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let arity = settings.number(&ARITY, |arity| (3..=4).contains(&arity))?.unwrap_or(3);
        // A hair less than the logarithm: 2^-w itself takes w bits.
        let width = (-fpr.log2() - 1e-9).ceil().max(1.0) as u32;
        if width > 32 {
            return Err(Error::Unreachable { why: "its prints have at most 32 bits" });
        }
        Self::new(keys, width, arity as u32)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.layout.bytes(),
            cost: f64::from(self.arity()),
        }
    }

    /// 2^-w, unless there is no key at all.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { (-f64::from(self.layout.width)).exp2() }
    }
}

/// A binary fuse filter.
///
/// ```
/// use tamis::{BinaryFuse, Keyed};
///
/// let fruit = Keyed::<BinaryFuse>::build(["apple", "pear", "plum"], 0.001)?;
/// assert!(fruit.contains("plum"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BinaryFuse {
    shape: BinaryFuseShape,
    table: Table,
}

impl BinaryFuse {
    /// Members that are listed beside the table: none, unless somebody has chosen the hashes.
    pub fn listed(&self) -> u64 {
        self.table.extra.len() as u64
    }
}

impl Filter for BinaryFuse {
    type Shape = BinaryFuseShape;

    fn shape(&self) -> &BinaryFuseShape {
        &self.shape
    }

    #[inline]
    fn contains(&self, key: Hash) -> bool {
        match &self.shape.arity {
            Arity::Three(graph) => self.table.contains(graph, key.hi),
            Arity::Four(graph) => self.table.contains(graph, key.hi),
        }
    }

    /// Distinct keys that it was built from.
    fn len(&self) -> u64 {
        self.table.len
    }

    fn contains_each(&self, keys: &[Hash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let (digests, out) = (keys.iter().map(|key| key.hi), &mut out[..keys.len()]);
        match &self.shape.arity {
            Arity::Three(graph) => self.table.contains_each(graph, digests, out),
            Arity::Four(graph) => self.table.contains_each(graph, digests, out),
        }
    }
}

impl Build for BinaryFuse {
    fn build_on(
        threads: usize,
        shape: BinaryFuseShape,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        Self::build_fitting(&Means::new().with_threads(threads), as_given(shape), keys)
    }
}

impl Static for BinaryFuse {
    fn build_fitting(
        means: &Means<'_>,
        fit: impl FnOnce(u64) -> Result<BinaryFuseShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let records = gather(means, keys)?;
        let shape = fit(records.len())?;
        let table = match &shape.arity {
            Arity::Three(graph) => Table::solve(means, shape.layout, graph, records)?,
            Arity::Four(graph) => Table::solve(means, shape.layout, graph, records)?,
        };
        Ok(Self { shape, table })
    }
}

impl Persist for BinaryFuse {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let Layout { width, shard_bits, cells } = self.shape.layout;
        to.shape(&[
            width.into(),
            self.shape.arity().into(),
            shard_bits.into(),
            cells,
            self.shape.segment.into(),
            self.shape.keys,
            self.listed(),
        ]);
        self.table.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let width = fields.next(1..=32, "bits a print")? as u32;
        let arity = fields.next(3..=4, "cells a key")? as u32;
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard's number")? as u32;
        let cells = fields.next(1..=u32::MAX.into(), "cells of a shard")?;
        let segment = fields.next(1..=20, "bits of a segment")? as u32;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let listed = fields.next(0..=len, "digests beside the table")?;
        fields.finish()?;
        let layout = Layout { width, shard_bits, cells };
        let shape = Self::Shape::checked(keys, layout, segment, arity);
        let shape = shape.filter(|shape| shape.layout.is_sound());
        let shape = shape.ok_or_else(|| from.corrupt("cells that do not fit the segments"))?;
        Ok(Self { shape, table: Table::read(from, layout, len, listed)? })
    }

    fn validate(&self) -> Result<(), Error> {
        self.table.validate()
    }
}
