//! The guarded filter: the keys of a given list are never false positives.
//!
//! ```text
//!  digest = hash.hi
//!     │
//!     ├─► level 1: a binary fuse filter of the members, fingerprints of f - 1 bits
//!     │      no ──────────────────────────────────────────────► absent
//!     └─► level 2: one bit per cell, solved for the members (yes) and for the few denied
//!            keys that pass level 1 (no) ─────────────────────► absent, or perhaps a member
//! ```
//!
//! A non-member passes level 1 with probability 2^-(f-1), and level 2 with probability 1/2. A denied
//! key that level 1 rejects needs nothing more. One that passes level 1 is a record of level 2, which
//! rejects it. Level 2 holds the members in any case, so the list costs no more than these few records.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.11 f at 10^7 keys, and 1.11 · 2^-(f-1) for each denied key |
//! | rate | 2^-f exactly for keys of neither list, 0 for denied ones; f is 2 to 33 |
//! | cache lines | 3 for a non-member, 6 for a member |
//! | building | twice that of [`binary_fuse`](super::binary_fuse), with 24 bytes per key |
//! | failure | none: digests that no multiplier can place are listed |
//!
//! Both lists are fixed, and no key may be on both. Two keys with the same 64 bits of hash count as one
//! key. If one of them is a member and the other denied, the build fails with [`Error::Conflict`].
//!
//! Bender et al., *Bloom Filters, Adaptivity, and the Dictionary Problem*, 2018, describe a Bloomier
//! filter for a set and a whitelist in O((n + w) log 1/fpr) bits: a function that returns *member*,
//! *absent* or *known false positive*. Here the function covers only the whitelisted keys that would
//! pass, and returns one bit: n log 1/fpr + w · fpr bits, each times 1.11.
//!
//! The number of denied keys that pass level 1 is known once level 1 is solved. The shape of a built
//! filter states it, and so the exact memory. A shape that is planned without a list states 0.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::peel::{Fuse, FuseTable};
use tamis_bits::set;
use tamis_format::{Reader, Writer};

use super::common::peeled::{
    FuseSize, LAYOUT, Layout, MAX_SHARD_BITS, Sections, fuse_size, read_layout, solve_fuse,
    validate_fuse, write_fuse,
};
use super::common::retrieval::{Cells, Grid, Place, Retrieval};
use crate::error::Error;
use crate::gather::Gathering;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::{KeySource, read_all};
use crate::traits::{Build, Deny, Filter, Persist, Static};

/// The most bits of a fingerprint of level 1.
const MAX_WIDTH: u32 = 32;
/// Digests of a run that are looked up in level 1 at a time.
const BATCH: usize = 512;

/// The values of records in level 2.
const MEMBER: u64 = 0;
const DENIED: u64 = 1;
/// The number of the first multiplier of level 2. With the multipliers of level 1 the same non-members
/// would pass both levels.
const MULTIPLIERS: u64 = 1 << 32;
/// Level 2 has codes of 1 bit and no values.
const WIDTHS: [u32; 2] = [1, 0];

/// The geometry of level 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    layout: Layout,
    segment: u32,
    graph: Fuse<3>,
}

impl Level {
    fn new(keys: u64, width: u32) -> Result<Self, Error> {
        let FuseSize { shard_bits, cells, segment } = fuse_size(keys, 3);
        let layout = Layout { width, shard_bits, cells, room: 0 };
        let too_many = Error::Limit { what: "keys", asked: keys, most: MAX_KEYS };
        Self::of(layout, segment).ok_or(too_many)
    }

    fn of(layout: Layout, segment: u32) -> Option<Self> {
        let graph = Fuse::new(layout.cells, segment, layout.shard_bits)?;
        layout.is_sound().then_some(Self { layout, segment, graph })
    }
}

/// The cells of level 2, 1 bit each. The XOR of three of them and a bit of the fingerprint, which level 1
/// does not use, is [`MEMBER`] or [`DENIED`].
struct Verdict;

impl Verdict {
    #[inline(always)]
    fn of(table: &[u64], place: &Place) -> u64 {
        let bits = place.codes.map(|bit| u64::from(set::get(table, bit)));
        bits[0] ^ bits[1] ^ bits[2] ^ place.fingerprint >> MAX_WIDTH & 1
    }
}

impl Cells for Verdict {
    fn write(&self, _: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64) {
        if Self::of(part, place) != value {
            set::set(part, place.codes[own]);
        }
    }

    fn holds(&self, _: &Grid, part: &[u64], place: &Place, value: u64) -> bool {
        Self::of(part, place) == value
    }
}

/// The shape: the rate, the number of keys, and the number of denied keys that pass level 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedShape {
    keys: u64,
    denied: u64,
    first: Level,
    second: Grid,
}

impl GuardedShape {
    /// Returns the shape for `keys` keys at a rate of `2^-bits`, `bits` being 2 to 33, with room for
    /// `denied` denied keys that pass level 1: about 1 in `2^(bits - 1)` of all denied keys.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(keys: u64, bits: u32, denied: u64) -> Result<Self, Error> {
        if !(2..=MAX_WIDTH + 1).contains(&bits) {
            let (asked, most) = (bits.into(), u64::from(MAX_WIDTH) + 1);
            return Err(Error::Limit { what: "bits of the rate", asked, most });
        }
        crate::shape::check_keys(keys)?;
        let second = Grid::new(keys.saturating_add(denied), WIDTHS)?;
        Ok(Self { keys, denied, first: Level::new(keys, bits - 1)?, second })
    }

    /// Returns `f`, where the rate is 2^-f.
    pub fn bits(&self) -> u32 {
        self.first.layout.width + 1
    }

    /// Returns the number of denied keys that level 2 has room for.
    pub fn denied(&self) -> u64 {
        self.denied
    }
}

impl Shape for GuardedShape {
    fn fit_with(keys: u64, fpr: f64, _settings: &Settings) -> Result<Self, Error> {
        // Rounding errors must not make 2^-f itself take f + 1 bits.
        let bits = (-fpr.log2() - 1e-9).ceil().max(2.0) as u32;
        if bits > MAX_WIDTH + 1 {
            return Err(Error::Infeasible { why: "the fingerprints have at most 32 bits" });
        }
        Self::new(keys, bits, 0)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("f", self.first.layout.width.into()), ("denied", self.denied.into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys.max(1)),
            bytes: self.first.layout.bytes() + self.second.bytes(),
            query_cost: 6.0,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { (-f64::from(self.bits())).exp2() }
    }
}

/// A filter that rejects every key of a given list.
///
/// ```
/// use tamis::{Guarded, Keyed};
///
/// let spam = Keyed::<Guarded>::builder().fpr(0.01).build_denying(["win", "prize"], ["mother", "bank"])?;
/// assert!(spam.contains("win"));
/// assert!(!spam.contains("mother")); // for every seed
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded {
    shape: GuardedShape,
    first: FuseTable,
    second: Retrieval,
}

/// Converts the memory limit error of a part that has `thirds` thirds of the memory to one that states
/// all of the memory.
fn scale_limit(error: Error, thirds: u64) -> Error {
    match error {
        Error::MemoryLimit { limit, needs } => {
            Error::MemoryLimit { limit: limit / thirds * 3, needs: needs.div_ceil(thirds) * 3 }
        }
        error => error,
    }
}

impl Deny for Guarded {
    fn build_denying(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<GuardedShape, Error>,
        keys: impl KeySource,
        denied: impl KeySource,
    ) -> Result<Self, Error> {
        // Level 2 takes at most twice the memory of level 1. Only level 2 reports progress, because
        // it has all keys of level 1.
        let (options1, options2) = (options.share(1, 3, false), options.share(2, 3, true));
        let (third, two_thirds) = (|error| scale_limit(error, 1), |error| scale_limit(error, 2));
        let (mut members, mut both) = (Gathering::in_runs(&options1), Gathering::new(&options2));
        read_all(options, keys, |run| {
            members.extend(run.iter().map(|key| [key.hi])).map_err(third)?;
            both.extend(run.iter().map(|key| [key.hi, MEMBER])).map_err(two_thirds)
        })?;
        let members = members.finish().map_err(third)?;
        let (len, mut shape) = (members.len(), fit(members.len())?);
        let level = &shape.first;
        let first = solve_fuse(&options1, level.layout, level.graph, members).map_err(third)?;

        let mut passes = [false; BATCH];
        read_all(options, denied, |run| {
            for run in run.chunks(BATCH) {
                let passes = &mut passes[..run.len()];
                first.contains_batch(run.iter().map(|key| key.hi), passes);
                let passing = run.iter().zip(passes).filter(|(_, passes)| **passes);
                let records: Vec<_> = passing.map(|(key, _)| [key.hi, DENIED]).collect();
                both.extend(records.into_iter()).map_err(two_thirds)?;
            }
            Ok(())
        })?;
        let both = both.finish().map_err(two_thirds)?;
        let needed = both.len() - len;
        if needed > shape.denied {
            (shape.denied, shape.second) = (needed, Grid::new(shape.keys + needed, WIDTHS)?);
        }
        let conflict = "both a key and denied";
        let second =
            Retrieval::solve(&options2, shape.second, MULTIPLIERS, both, conflict, &Verdict);
        let second = second.map_err(two_thirds)?;
        Ok(Self { shape, first, second })
    }
}

impl Guarded {
    /// Returns whether level 2 accepts the digest.
    #[inline(always)]
    fn contains_in_level_2(&self, digest: u64, place: &Place) -> bool {
        let listed = self.second.listed_value(digest);
        listed.unwrap_or_else(|| Verdict::of(&self.second.table, place)) == MEMBER
    }
}

impl Filter for Guarded {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.first.contains(key.hi) && self.contains_in_level_2(key.hi, &self.second.place(key.hi))
    }

    /// Returns the number of distinct keys.
    fn len(&self) -> u64 {
        self.first.len()
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.first.words().len() + self.second.table.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let mut passed = [0; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let out = &mut out[..keys.len()];
            self.first.contains_batch(keys.iter().map(|key| key.hi), out);
            // Only the digests that passed are looked up in level 2.
            let mut count = 0;
            for (at, passes) in out.iter().enumerate() {
                passed[count] = at;
                count += usize::from(*passes);
            }
            let passed = &passed[..count];
            let digests = passed.iter().map(|at| keys[*at].hi);
            let contains = |digest, place: &Place| self.contains_in_level_2(digest, place);
            self.second.lookup_batch(digests, contains, |number, found| {
                out[passed[number]] = found;
            });
        }
    }
}

impl Static for Guarded {}

impl Build for Guarded {
    type Shape = GuardedShape;

    fn shape(&self) -> &GuardedShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<GuardedShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        Self::build_denying(options, fit, keys, &[][..])
    }
}

impl Persist for Guarded {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let GuardedShape { keys, denied, first: Level { layout, segment, .. }, second } =
            self.shape;
        let mut fields = vec![LAYOUT, keys, denied, layout.width.into(), layout.shard_bits.into()];
        fields.extend([layout.cells, segment.into(), self.first.listed().len() as u64]);
        fields.extend(second.fields());
        fields.push(self.second.listed());
        to.shape(&fields);
        write_fuse(&self.first, to);
        self.second.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        read_layout(from, &mut fields, LAYOUT..=LAYOUT)?;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let denied = fields.next(0..=MAX_KEYS, "capacity in denied keys")?;
        let width = fields.next(1..=MAX_WIDTH.into(), "bits per fingerprint")? as u32;
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard number")? as u32;
        let cells = fields.next(1..=u32::MAX.into(), "cells per shard")?;
        let segment = fields.next(1..=20, "bits of a segment")? as u32;
        let listed = fields.next(0..=len, "number of listed digests of level 1")?;
        let second = Grid::read(from, &mut fields, WIDTHS)?;
        let listed2 = fields.next(0..=keys + denied, "number of listed digests of level 2")?;
        fields.finish()?;
        let first = Level::of(Layout { width, shard_bits, cells, room: 0 }, segment);
        let first =
            first.ok_or_else(|| from.corrupt("the number of cells does not fit the segments"))?;
        let sections = Sections::read(from, first.layout, listed)?;
        Ok(Self {
            shape: GuardedShape { keys, denied, first, second },
            first: sections.into_fuse(first.layout, first.graph, len),
            second: Retrieval::read(from, second, listed2)?,
        })
    }

    fn validate(&self) -> Result<(), Error> {
        validate_fuse(self.shape.first.layout, &self.first)?;
        self.second.validate(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;

    fn hashes(salt: u64, count: u64) -> Vec<KeyHash> {
        (0..count).map(|key| KeyHash { hi: mix(salt << 40 | key), lo: key }).collect()
    }

    fn build(fpr: f64, keys: &[KeyHash], denied: &[KeyHash]) -> Result<Guarded, Error> {
        Guarded::build_denying(
            &BuildOptions::new(),
            |count| GuardedShape::fit(count, fpr),
            keys,
            denied,
        )
    }

    fn check(filter: &Guarded, keys: &[KeyHash], denied: &[KeyHash]) {
        filter.validate().unwrap();
        for (hashes, expected) in [(keys, true), (denied, false)] {
            assert!(hashes.iter().all(|key| filter.contains(*key) == expected));
            let mut out = vec![!expected; hashes.len()];
            filter.contains_batch(hashes, &mut out);
            assert!(out.iter().all(|yes| *yes == expected));
        }
    }

    /// Members pass, denied keys do not, others pass at the stated rate, and the list costs the stated
    /// memory.
    #[test]
    fn denied_keys_never_pass() {
        let (keys, denied, others) = (hashes(1, 5000), hashes(2, 100_000), hashes(3, 200_000));
        for (fpr, bits) in [(0.5, 2), (0.25, 2), (0.01, 7), (1.0 / 256.0, 8), (1e-6, 20)] {
            let filter = build(fpr, &keys, &denied).unwrap();
            assert_eq!((filter.len(), filter.shape.bits()), (5000, bits));
            check(&filter, &keys, &denied);
            let passed = others.iter().filter(|key| filter.contains(**key)).count() as f64;
            let expected = 200_000.0 * filter.shape.figures().fpr;
            assert!((passed - expected).abs() < 6.0 * expected.sqrt() + 1.0, "{passed} {expected}");
            let needed = 100_000.0 * (1.0 - f64::from(bits)).exp2();
            let stated = filter.shape.denied as f64;
            assert!((stated - needed).abs() < 6.0 * needed.sqrt() + 1.0, "{stated} {needed}");
            let more = filter.shape.figures().bytes
                - GuardedShape::fit(5000, fpr).unwrap().figures().bytes;
            assert!(more as f64 <= stated * 1.3 / 8.0 + 128.0, "{more} bytes for {stated}");
        }
    }

    #[test]
    fn lists_may_be_empty() {
        let (some, none) = (hashes(4, 300), hashes(5, 0));
        check(&build(0.01, &some, &none).unwrap(), &some, &none);
        let filter = build(0.01, &none, &some).unwrap();
        assert_eq!((filter.len(), filter.shape.denied), (0, 0));
        check(&filter, &none, &some);
        check(&build(0.01, &none, &none).unwrap(), &none, &some);
    }

    #[test]
    fn a_key_on_both_lists_is_refused() {
        let (keys, mut denied) = (hashes(6, 1000), hashes(7, 5000));
        denied[4321] = keys[123];
        let error = build(0.01, &keys, &denied).unwrap_err();
        assert!(
            matches!(error, Error::Conflict { digest, .. } if digest == keys[123].hi),
            "{error}"
        );
    }

    /// The memory that the error for too small a limit states is enough. If the denied keys take more
    /// than the keys, a second error states it, because they are read later.
    #[test]
    fn the_stated_memory_is_enough() {
        let keys = hashes(8, 300_000);
        for (denied, errors) in [(0, 1), (100_000, 1), (1_500_000, 2)] {
            let denied = hashes(9, denied);
            let build = |limit| {
                let options =
                    BuildOptions::new().threads(2).max_memory(limit, std::env::temp_dir());
                let fit = |count| GuardedShape::fit(count, 0.25);
                Guarded::build_denying(&options, fit, &keys[..], &denied[..])
            };
            let (mut limit, mut built) = (1 << 20, build(1 << 20));
            for _ in 0..errors {
                let Err(Error::MemoryLimit { needs, .. }) = built else {
                    panic!("{limit} is enough")
                };
                assert!(needs > limit);
                (limit, built) = (needs, build(needs));
            }
            let filter = built.unwrap();
            check(&filter, &keys, &denied);
            assert!(filter == self::build(0.25, &keys, &denied).unwrap());
        }
    }

    /// No multiplier can place these lists: members and denied keys are consecutive numbers, which share
    /// their first cell in both levels, beside enough keys for large tables.
    #[test]
    fn digests_without_a_cell_are_listed() {
        let alike = |from: u64| -> Vec<KeyHash> {
            (0..8000).map(|key| KeyHash { hi: 2 * key + from, lo: 0 }).collect()
        };
        let (mut keys, denied) = (alike(0), alike(1));
        keys.extend(hashes(10, 60_000));
        let filter = build(0.25, &keys, &denied).unwrap();
        assert!(filter.second.listed() > 1000 && !filter.first.listed().is_empty());
        check(&filter, &keys, &denied);
    }
}
