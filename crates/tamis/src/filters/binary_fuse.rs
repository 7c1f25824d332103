//! The binary fuse filter: the XOR of three or four cells that lie close together is a member's
//! fingerprint.
//!
//! ```text
//!  digest = hash.hi
//!    │ leading bits ──► shard ──► its multiplier ──► factor
//!    │ × factor ──────► y, the first cell,         cells   ┌──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┐
//!    │                  and offsets of the others  w bits  └──┴▲─┴──┴──┴▲─┴──┴──┴──┴▲─┴──┴──┘
//!    └ low bits ──────► fingerprint                            y        │           │
//!                                                              └─ one in s ─┴─ one in s ─┘
//!  the XOR of a member's three cells is its fingerprint; for a non-member it is so once in 2^w
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.116 w for three cells, 1.055 w for four, at 10^7 keys; 1.11 w and 1.05 w at 10^8; 1.24 w at 1000 |
//! | rate | 2^-w exactly, for any number of keys |
//! | cache lines | 3 or 4, within about 100 KB, all prefetched at once |
//! | lookup | about 20 instructions after the hash for w = 8 and 16, 50 for other widths |
//! | building | partitions the digests by leading bits, then peels each shard within the cache: see [`tamis_bits::peel`] |
//! | failure | none: a shard tries other multipliers; digests that remain after 24 or more are listed |
//!
//! The filter is built from all its keys at once and cannot be changed. Two keys with the same 64 bits
//! of hash count as one key: among 10^9 keys such a pair exists with probability 3 %.
//!
//! Graf, Lemire, *Binary Fuse Filters: Fast and Smaller Than Xor Filters*, 2022; shards with equal
//! parts of the table as in Vigna, *ε-Cost Sharding*, 2025. Differences: the graph ends in a fold and
//! may have any number of cells, which takes 1.116 instead of 1.125 cells per key
//! ([`tamis_bits::peel::Fuse`] has the drawing); sizes are measured, down to a single key, instead of
//! given by a formula; one product gives all cells; another attempt's multiplier hardly changes the first
//! cell, so the digests stay in the order in which they are peeled; they are partitioned but not sorted; and a build cannot
//! fail.

mod inspect;

use alloc::vec::Vec;

use tamis_bits::Words;
use tamis_bits::peel::{Fuse, FuseTable};
use tamis_format::{Reader, Writer};

use super::common::peeled::{
    FuseSize, LAYOUT, Layout, MAX_SHARD_BITS, Sections, Shard, fuse_size, read_layout,
    solve_shards, validate_fuse, width_for, write_fuse,
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

/// The shape: the width of the fingerprints, and three or four cells per key.
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

const ARITY: Setting = Setting::new("arity", "3 or 4: cells per key; default 3");

impl BinaryFuseShape {
    /// Returns the shape for `keys` keys with fingerprints of `width` bits, 1 to 32, and `arity` cells
    /// per key, 3 or 4.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(keys: u64, width: u32, arity: u32) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if !(1..=32).contains(&width) {
            let asked = width.into();
            return Err(Error::Limit { what: "bits per fingerprint", asked, most: 32 });
        }
        let FuseSize { shard_bits, cells, segment } = fuse_size(keys, arity);
        let layout = Layout { width, shard_bits, cells, room: 0 };
        Self::checked(keys, layout, segment, arity).ok_or(Error::Limit {
            what: "cells per key",
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

    /// Returns the bits of a fingerprint.
    pub fn width(&self) -> u32 {
        self.layout.width
    }

    /// Returns the cells of a key.
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
        Self::new(keys, width_for(fpr)?, arity as u32)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        let arity = if matches!(self.arity, Arity::Three(_)) { 3u32 } else { 4 };
        [
            ("f", self.layout.width.into()),
            ("arity", arity.into()),
            ("shards", (1u64 << self.layout.shard_bits).into()),
            ("cells", self.layout.cells.into()),
            ("segment", self.segment.into()),
        ]
        .into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.layout.bytes(),
            query_cost: f64::from(self.arity()),
        }
    }

    /// Returns 2^-w, or 0 if there are no keys.
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
    table: FuseTable,
}

impl BinaryFuse {
    /// Makes the filter of `len` keys.
    fn new(shape: BinaryFuseShape, sections: Sections, len: u64) -> Self {
        let table = match shape.arity {
            Arity::Three(graph) => sections.into_fuse(shape.layout, graph, len),
            Arity::Four(graph) => sections.into_fuse(shape.layout, graph, len),
        };
        Self { shape, table }
    }

    /// Returns the members that are listed beside the table: 0 unless an adversary chose the hashes.
    pub fn listed(&self) -> u64 {
        self.table.listed().len() as u64
    }
}

impl Filter for BinaryFuse {
    // With `inline` alone, a program with many callers gets a call that takes 7 instructions.
    #[inline(always)]
    fn contains(&self, key: KeyHash) -> bool {
        self.table.contains(key.hi)
    }

    /// Returns the number of distinct keys.
    fn len(&self) -> u64 {
        self.table.len()
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.table.words().len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        self.table.contains_batch(keys.iter().map(|key| key.hi), out);
    }
}

impl Static for BinaryFuse {}

impl Build for BinaryFuse {
    type Shape = BinaryFuseShape;

    fn shape(&self) -> &BinaryFuseShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<BinaryFuseShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let records = gather_runs(options, keys)?;
        Self::solve_whole(options, fit(records.len())?, records)
    }
}

impl SolveParts for BinaryFuse {
    type Records = Gathered<1>;
    type Shard = Shard;

    fn shard_bits(shape: &BinaryFuseShape) -> u32 {
        shape.layout.shard_bits
    }

    fn table_words(shape: &BinaryFuseShape) -> u64 {
        shape.layout.words()
    }

    fn shard_words(shape: &BinaryFuseShape) -> u64 {
        shape.layout.shard_words()
    }

    fn solve_shards(
        options: &BuildOptions<'_>,
        shape: &BinaryFuseShape,
        _: u64,
        records: Gathered<1>,
        table: &mut [u64],
    ) -> Result<Vec<Shard>, Error> {
        match &shape.arity {
            Arity::Three(graph) => solve_shards(options, shape.layout, graph, records, table),
            Arity::Four(graph) => solve_shards(options, shape.layout, graph, records, table),
        }
    }

    fn finish(
        _: &BuildOptions<'_>,
        shape: BinaryFuseShape,
        len: u64,
        table: Words,
        shards: Vec<Shard>,
    ) -> Result<Self, Error> {
        let sections = Sections::of_shards(shape.layout, table, shards)?;
        Ok(Self::new(shape, sections, len))
    }

    fn encode_shard(_: &BinaryFuseShape, shard: Shard) -> Vec<u64> {
        shard.encode()
    }

    fn decode_shard(_: &BinaryFuseShape, _: u64, words: &[u64]) -> Option<Shard> {
        Shard::decode(words)
    }
}

impl BuildParts for BinaryFuse {}

impl Persist for BinaryFuse {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let Layout { width, shard_bits, cells, .. } = self.shape.layout;
        to.shape(&[
            LAYOUT,
            width.into(),
            self.shape.arity().into(),
            shard_bits.into(),
            cells,
            self.shape.segment.into(),
            self.shape.keys,
            self.listed(),
        ]);
        write_fuse(&self.table, to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        read_layout(from, &mut fields, LAYOUT..=LAYOUT)?;
        let width = fields.next(1..=32, "bits per fingerprint")? as u32;
        let arity = fields.next(3..=4, "cells per key")? as u32;
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard number")? as u32;
        let cells = fields.next(1..=u32::MAX.into(), "cells per shard")?;
        let segment = fields.next(1..=20, "bits of a segment")? as u32;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let listed = fields.next(0..=len, "number of listed digests")?;
        fields.finish()?;
        let layout = Layout { width, shard_bits, cells, room: 0 };
        let shape = BinaryFuseShape::checked(keys, layout, segment, arity);
        let shape = shape
            .filter(|shape| shape.layout.is_sound())
            .ok_or_else(|| from.corrupt("the number of cells does not fit the segments"))?;
        Ok(Self::new(shape, Sections::read(from, layout, listed)?, len))
    }

    fn validate(&self) -> Result<(), Error> {
        validate_fuse(self.shape.layout, &self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use tamis_bits::range::mix;

    fn hashes(seed: u64, keys: u64) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 12]);
        (0..keys).map(|key| key.hash_with(&hasher)).collect()
    }

    /// Every size finds its multiplier: nothing is listed, at any width.
    #[test]
    fn hashed_keys_are_never_listed() {
        let sizes = (0..300).chain((300..2000).step_by(7)).chain((11_400..11_600).step_by(11));
        for keys in sizes.chain([40_000, 131_072, 300_000]) {
            let (width, arity) = (1 + mix(keys) as u32 % 32, 3 + keys as u32 % 2);
            let shape = BinaryFuseShape::new(keys, width, arity).unwrap();
            let members = hashes(keys, keys);
            let filter = BinaryFuse::build(shape, &members[..]).unwrap();
            assert_eq!((filter.len(), filter.listed()), (keys, 0), "{keys} keys");
            assert!(members.iter().all(|key| filter.contains(*key)));
        }
    }

    /// Shards that are solved in parts, with listed digests.
    #[test]
    fn parts_of_shards_make_the_same_bytes() {
        let mut members = hashes(9, 40_000);
        members.extend((0..3000).map(|i| KeyHash { hi: 5 << 60 | i, lo: 0 }));
        for (arity, width) in [(3, 8), (4, 5)] {
            let layout = Layout { width, shard_bits: 8, cells: 260, room: 0 };
            let shape = BinaryFuseShape::checked(43_000, layout, 4, arity).unwrap();
            crate::parts::tests::check::<BinaryFuse>(&shape, &members);
            crate::parts::tests::check_hostile::<BinaryFuse>(&shape, &members);
        }
    }

    /// Shards, and digests that no multiplier places: all members are found, and the rate holds.
    #[test]
    fn hostile_digests_are_listed() {
        let clash = |i: u64| KeyHash { hi: 5 << 60 | i, lo: 0 };
        for (arity, width) in [(3, 8), (3, 11), (4, 6), (4, 16)] {
            let layout = Layout { width, shard_bits: 3, cells: 40_000, room: 0 };
            let shape = BinaryFuseShape::checked(200_000, layout, 12, arity).unwrap();
            let mut members = hashes(7, 150_000);
            members.extend((0..12_000).map(clash)); // they share 8193 or 12 289 cells
            let filter = BinaryFuse::build(shape, &members[..]).unwrap();
            assert!((3000..30_000).contains(&filter.listed()), "{}", filter.listed());
            assert!(members.iter().all(|key| filter.contains(*key)));
            let mut out = vec![false; members.len()];
            filter.contains_batch(&members, &mut out);
            assert!(out.iter().all(|found| *found));
            let non_members = hashes(8, 1 << 20);
            let passed = non_members.iter().filter(|key| filter.contains(**key)).count() as f64;
            let mean = f64::from(1 << (20 - width));
            assert!((passed - mean).abs() < 6.0 * mean.sqrt(), "{passed} of 2^20 at 2^-{width}");
            filter.validate().unwrap();
        }
    }

    /// Shards without listed digests, in bytes and otherwise, one by one and in batches.
    #[test]
    fn shards_find_their_keys() {
        for (arity, width) in [(3, 8), (4, 8), (3, 16), (4, 13)] {
            let layout = Layout { width, shard_bits: 3, cells: 20_011, room: 0 };
            let shape = BinaryFuseShape::checked(120_000, layout, 10, arity).unwrap();
            let members = hashes(9, 120_000);
            let filter = BinaryFuse::build(shape, &members[..]).unwrap();
            assert_eq!(filter.listed(), 0);
            let non_members = hashes(10, 1 << 20);
            let passed = non_members.iter().filter(|key| filter.contains(**key)).count() as f64;
            let mean = f64::from(1 << (20 - width));
            assert!((passed - mean).abs() < 6.0 * mean.sqrt(), "{passed} of 2^20 at 2^-{width}");
            for keys in [&members, &non_members] {
                let mut out = vec![false; keys.len()];
                filter.contains_batch(keys, &mut out);
                assert!(keys.iter().zip(&out).all(|(key, found)| filter.contains(*key) == *found));
            }
            assert!(members.iter().all(|key| filter.contains(*key)));
            filter.validate().unwrap();
        }
    }

    /// Neither the order of the keys nor duplicates, threads or a memory limit show in the filter. Shapes
    /// for many more keys need the records in a finer order than they are gathered in.
    #[test]
    fn the_same_filter_from_any_build() {
        let members = hashes(11, 200_000);
        let mut mixed = members.clone();
        mixed.sort_by_key(|key| key.lo);
        mixed.extend_from_within(..50_000);
        for capacity in [200_000, 9_000_000] {
            let shape = BinaryFuseShape::new(capacity, 8, 3).unwrap();
            let build = |options: &BuildOptions<'_>, keys: &[KeyHash]| {
                BinaryFuse::build_with(options, |_| Ok(shape.clone()), keys).unwrap()
            };
            let expected = build(&BuildOptions::new(), &members);
            assert_eq!((expected.len(), expected.listed()), (200_000, 0));
            assert!(members.iter().all(|key| expected.contains(*key)));
            assert!(build(&BuildOptions::new().threads(2), &mixed) == expected);
            let few = BuildOptions::new().max_memory(33 << 20, std::env::temp_dir());
            assert!(build(&few, &mixed) == expected);
        }
        let few = &members[..20_000];
        let shape = |_| BinaryFuseShape::new(300_000, 8, 3);
        let options = BuildOptions::new();
        let filter = BinaryFuse::build_with(&options, shape, few).unwrap();
        let mut reversed = few.to_vec();
        reversed.reverse();
        assert!(BinaryFuse::build_with(&options, shape, &reversed[..]).unwrap() == filter);
    }

    /// Keys of simple patterns pass at the stated rate, as members and as non-members: six standard
    /// deviations of a binomial count.
    #[test]
    fn patterns_of_keys_do_not_change_the_rate() {
        let patterns: [fn(u64) -> u64; 4] =
            [|i| i, |i| i << 32, |i| i.rotate_left(40), |i| i ^ i >> 1];
        let hasher = KeyHasher::new(HashId::Fast, [21, 22]);
        for (number, pattern) in (0..).zip(patterns) {
            for (keys, width, arity) in
                [(1500, 8, 3), (30_000, 16, 3), (90_000, 8, 3), (70_000, 11, 3), (40_000, 8, 4)]
            {
                let shape = BinaryFuseShape::new(keys, width, arity).unwrap();
                let hash = |i: u64| pattern(i).hash_with(&hasher);
                let members: Vec<KeyHash> = (0..keys).map(hash).collect();
                let filter = BinaryFuse::build(shape, &members[..]).unwrap();
                assert!(members.iter().all(|key| filter.contains(*key)));
                let others = (keys..keys + (1 << 20)).map(hash);
                let passed = others.filter(|key| filter.contains(*key)).count() as f64;
                let mean = f64::from(1 << (20 - width));
                assert!((passed - mean).abs() < 6.0 * mean.sqrt(), "{passed}, pattern {number}");
            }
        }
    }

    #[test]
    fn the_promised_size() {
        let over = |keys, arity| {
            let figures = BinaryFuseShape::new(keys, 8, arity).unwrap().figures();
            figures.bits_per_key() / 8.0 - 1.0
        };
        assert!(over(10_000_000, 3) < 0.118 && over(10_000_000, 4) < 0.058);
        assert!(over(100_000_000, 3) < 0.115 && over(1000, 3) < 0.35);
    }
}
