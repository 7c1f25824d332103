//! The guarded filter: keys of a given list are never false positives.
//!
//! ```text
//!  digest = hash.hi
//!     │
//!     ├─► level 1: a binary fuse filter of the members, f - 1 bits a print
//!     │      no ──────────────────────────────────────────────► absent
//!     └─► level 2: one bit a cell, solved for the members (yes) and for those few denied
//!            keys that pass level 1 (no) ─────────────────────► absent, or perhaps a member
//! ```
//!
//! A stranger passes level 1 once in 2^(f-1), and level 2 tosses a coin over it. A denied key that
//! level 1 stops needs no more care; one that passes it is solved for in level 2, and stopped there.
//! Level 2 has the members in it anyway: the list costs no more than those few.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 1.11 f at 10^7 keys, and 1.11 · 2^-(f-1) for each denied key |
//! | rate | 2^-f exactly for keys of neither list, 0 for denied ones; f is 2 to 33 |
//! | cache lines | strangers 3, members 6 |
//! | building | two of [`binary_fuse`](super::binary_fuse), with 24 bytes a key |
//! | failure | none: what no multiplier can place is listed |
//!
//! Both lists are fixed, and no key may be on both. Two keys with the same 64 bits of hash are one
//! key here: if one is a member and the other denied, that is [`Error::Conflict`] as well.
//!
//! Bender et al., *Bloom Filters, Adaptivity, and the Dictionary Problem*, 2018, describe what a
//! Bloomier filter does for a set and a whitelist, in O((n + w) log 1/fpr) bits: a function that
//! says *member*, *absent* or *known false positive*. Here only the whitelisted keys that would
//! pass are in the function, and it has one bit: n log 1/fpr + w · fpr, each times 1.11.
//!
//! How many denied keys pass level 1 is known once it is solved. The shape states them, so that the
//! memory it states is what the filter takes; planned in advance, without a list, it states none.

use tamis_bits::peel::Fuse;
use tamis_bits::set;
use tamis_format::{Reader, Writer};

use super::binary_fuse::BinaryFuseShape;
use super::common::peeled::{Layout, MAX_SHARD_BITS, Table};
use super::common::retrieval::{Cells, Grid, Place, Retrieval};
use crate::error::Error;
use crate::gather::Gathering;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::{KeySource, read_keys};
use crate::traits::{Build, Deny, Filter, Persist, Static};

/// The widest prints of level 1.
const MAX_WIDTH: u32 = 32;
/// Digests of a run that are asked of level 1 at a time.
const BATCH: usize = 512;

/// What a record of level 2 is.
const MEMBER: u64 = 0;
const DENIED: u64 = 1;
/// The multipliers of level 2 are others than those of level 1, which would let the same
/// strangers pass.
const MULTIPLIERS: u64 = 1 << 32;
/// A bit to a cell of level 2, and no value.
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
        let fuse = BinaryFuseShape::new(keys, width, 3)?;
        let impossible = Error::Limit { what: "keys", asked: keys, most: MAX_KEYS };
        Self::of(fuse.layout, fuse.segment).ok_or(impossible)
    }

    fn of(layout: Layout, segment: u32) -> Option<Self> {
        let graph = Fuse::new(layout.cells, segment, layout.shard_bits)?;
        layout.is_sound().then_some(Self { layout, segment, graph })
    }
}

/// The cells of level 2, a bit each: the XOR of three, and of a bit of the print, is what the record
/// is.
struct Verdict;

impl Verdict {
    #[inline(always)]
    fn of(table: &[u64], place: &Place) -> u64 {
        let bits = place.codes.map(|bit| u64::from(set::get(table, bit)));
        bits[0] ^ bits[1] ^ bits[2] ^ place.print & 1
    }
}

impl Cells for Verdict {
    fn write(&self, _: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64) {
        if Self::of(part, place) != value {
            set::set(part, place.codes[own]);
        }
    }

    fn agree(&self, _: &Grid, part: &[u64], place: &Place, value: u64) -> bool {
        Self::of(part, place) == value
    }
}

/// Rates of 2^-f for so many keys, against so many denied ones that pass level 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedShape {
    keys: u64,
    denied: u64,
    first: Level,
    second: Grid,
}

impl GuardedShape {
    /// For so many keys at a rate of `2^-bits`, 2 to 33, and room for so many denied keys that
    /// pass level 1: about 1 in `2^(bits - 1)` of all that are denied.
    pub fn new(keys: u64, bits: u32, denied: u64) -> Result<Self, Error> {
        if !(2..=MAX_WIDTH + 1).contains(&bits) {
            let (asked, most) = (bits.into(), u64::from(MAX_WIDTH) + 1);
            return Err(Error::Limit { what: "bits of the rate", asked, most });
        }
        crate::shape::check_keys(keys)?;
        let second = Grid::new(keys.saturating_add(denied), WIDTHS)?;
        Ok(Self { keys, denied, first: Level::new(keys, bits - 1)?, second })
    }

    /// The rate is 2 to the minus this.
    pub fn bits(&self) -> u32 {
        self.first.layout.width + 1
    }

    /// Denied keys that level 2 has room for.
    pub fn denied(&self) -> u64 {
        self.denied
    }
}

impl Shape for GuardedShape {
    fn fit_with(keys: u64, fpr: f64, _settings: &Settings) -> Result<Self, Error> {
        // A hair less than the logarithm: 2^-f itself takes f bits.
        let bits = (-fpr.log2() - 1e-9).ceil().max(2.0) as u32;
        if bits > MAX_WIDTH + 1 {
            return Err(Error::Infeasible { why: "its prints have at most 32 bits" });
        }
        Self::new(keys, bits, 0)
    }

    fn keys(&self) -> u64 {
        self.keys
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

/// A filter that given keys never pass.
///
/// ```
/// use tamis::{Filter, Guarded, GuardedShape, HashId, KeyHasher, Key, BuildOptions, Shape};
///
/// let hasher = KeyHasher::random(HashId::Fast);
/// let [spam, mine] = [&["win", "prize"][..], &["mother", "bank"][..]]
///     .map(|keys| keys.iter().map(|key| key.hash_with(&hasher)).collect::<Vec<_>>());
/// let fit = |keys| GuardedShape::fit(keys, 0.01);
/// let filter = Guarded::build_denying(&BuildOptions::new(), fit, &spam[..], &mine[..])?;
/// assert!(filter.contains("win".hash_with(&hasher)));
/// assert!(!filter.contains("mother".hash_with(&hasher))); // never, whatever the seed
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded {
    shape: GuardedShape,
    first: Table,
    /// That of level 1, settled for the multiplier.
    graph: Fuse<3>,
    second: Retrieval,
}

/// Of an error of who has so many thirds of the memory, what it options for all of it.
fn in_all(error: Error, thirds: u64) -> Error {
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
        // Level 2 takes twice the memory, or less. Who watches sees it: it has all that level 1 has.
        let (unseen, seen) = (options.share(1, 3, false), options.share(2, 3, true));
        let (third, two_thirds) = (|error| in_all(error, 1), |error| in_all(error, 2));
        let (mut members, mut both) = (Gathering::new(&unseen), Gathering::new(&seen));
        read_keys(options, keys, |run| {
            members.extend(run.iter().map(|key| [key.hi])).map_err(third)?;
            both.extend(run.iter().map(|key| [key.hi, MEMBER])).map_err(two_thirds)
        })?;
        let members = members.finish().map_err(third)?;
        let (len, mut shape) = (members.len(), fit(members.len())?);
        let level = &shape.first;
        let first = Table::solve(&unseen, level.layout, &level.graph, members).map_err(third)?;
        let graph = first.settled(shape.first.graph);

        let mut passes = [false; BATCH];
        read_keys(options, denied, |run| {
            for run in run.chunks(BATCH) {
                let passes = &mut passes[..run.len()];
                first.contains_batch(&graph, run.iter().map(|key| key.hi), passes);
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
        let second = Retrieval::solve(&seen, shape.second, MULTIPLIERS, both, conflict, &Verdict);
        let second = second.map_err(two_thirds)?;
        Ok(Self { shape, first, graph, second })
    }
}

impl Guarded {
    /// What level 2 says.
    #[inline(always)]
    fn is_member(&self, digest: u64, place: &Place) -> bool {
        let exception = self.second.exception(digest);
        exception.unwrap_or_else(|| Verdict::of(&self.second.table, place)) == MEMBER
    }
}

impl Filter for Guarded {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.first.contains(&self.graph, key.hi)
            && self.is_member(key.hi, &self.second.place(key.hi))
    }

    /// Distinct keys that it was built from.
    fn len(&self) -> u64 {
        self.first.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let mut passed = [0; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let out = &mut out[..keys.len()];
            self.first.contains_batch(&self.graph, keys.iter().map(|key| key.hi), out);
            // Level 2 is asked only for those that passed, side by side.
            let mut count = 0;
            for (at, passes) in out.iter().enumerate() {
                passed[count] = at;
                count += usize::from(*passes);
            }
            let passed = &passed[..count];
            let digests = passed.iter().map(|at| keys[*at].hi);
            let ask = |digest, place: &Place| self.is_member(digest, place);
            self.second.each(digests, ask, |number, yes| out[passed[number]] = yes);
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
        let mut fields = vec![keys, denied, layout.width.into(), layout.shard_bits.into()];
        fields.extend([layout.cells, segment.into(), self.first.extra.len() as u64]);
        fields.extend(second.fields());
        fields.push(self.second.listed());
        to.shape(&fields);
        self.first.write(to);
        self.second.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let denied = fields.next(0..=MAX_KEYS, "denied keys it is made for")?;
        let width = fields.next(1..=MAX_WIDTH.into(), "bits a print")? as u32;
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard's number")? as u32;
        let cells = fields.next(1..=u32::MAX.into(), "cells of a shard")?;
        let segment = fields.next(1..=20, "bits of a segment")? as u32;
        let listed = fields.next(0..=len, "digests beside level 1")?;
        let second = Grid::read(from, &mut fields, WIDTHS)?;
        let exceptions = fields.next(0..=keys + denied, "digests beside level 2")?;
        fields.finish()?;
        let first = Level::of(Layout { width, shard_bits, cells, room: 0 }, segment);
        let first = first.ok_or_else(|| from.corrupt("cells that do not fit the segments"))?;
        let table = Table::read(from, first.layout, len, listed)?;
        Ok(Self {
            shape: GuardedShape { keys, denied, first, second },
            graph: table.settled(first.graph),
            first: table,
            second: Retrieval::read(from, second, exceptions)?,
        })
    }

    fn validate(&self) -> Result<(), Error> {
        self.first.validate()?;
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

    fn holds(filter: &Guarded, keys: &[KeyHash], denied: &[KeyHash]) {
        filter.validate().unwrap();
        for (hashes, expected) in [(keys, true), (denied, false)] {
            assert!(hashes.iter().all(|key| filter.contains(*key) == expected));
            let mut out = vec![!expected; hashes.len()];
            filter.contains_batch(hashes, &mut out);
            assert!(out.iter().all(|yes| *yes == expected));
        }
    }

    /// Members pass, denied keys do not, others do as stated; and the list costs what was said.
    #[test]
    fn denied_keys_never_pass() {
        let (keys, denied, others) = (hashes(1, 5000), hashes(2, 100_000), hashes(3, 200_000));
        for (fpr, bits) in [(0.5, 2), (0.25, 2), (0.01, 7), (1.0 / 256.0, 8), (1e-6, 20)] {
            let filter = build(fpr, &keys, &denied).unwrap();
            assert_eq!((filter.len(), filter.shape.bits()), (5000, bits));
            holds(&filter, &keys, &denied);
            let passed = others.iter().filter(|key| filter.contains(**key)).count() as f64;
            let expected = 200_000.0 * filter.shape.figures().fpr;
            assert!((passed - expected).abs() < 6.0 * expected.sqrt() + 1.0, "{passed} {expected}");
            let needed = 100_000.0 * (1.0 - f64::from(bits)).exp2();
            let told = filter.shape.denied as f64;
            assert!((told - needed).abs() < 6.0 * needed.sqrt() + 1.0, "{told} {needed}");
            let more = filter.shape.figures().bytes
                - GuardedShape::fit(5000, fpr).unwrap().figures().bytes;
            assert!(more as f64 <= told * 1.3 / 8.0 + 128.0, "{more} bytes for {told}");
        }
    }

    #[test]
    fn empty_lists_are_lists() {
        let (some, none) = (hashes(4, 300), hashes(5, 0));
        holds(&build(0.01, &some, &none).unwrap(), &some, &none);
        let filter = build(0.01, &none, &some).unwrap();
        assert_eq!((filter.len(), filter.shape.denied), (0, 0));
        holds(&filter, &none, &some);
        holds(&build(0.01, &none, &none).unwrap(), &none, &some);
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

    /// Too little memory is an error, and what that says would do is enough; but of denied keys that
    /// take more than the keys it is told only when they are read.
    #[test]
    fn memory_that_is_said_to_do_does() {
        let keys = hashes(8, 300_000);
        for (denied, told) in [(0, 1), (100_000, 1), (1_500_000, 2)] {
            let denied = hashes(9, denied);
            let build = |limit| {
                let options =
                    BuildOptions::new().threads(2).max_memory(limit, std::env::temp_dir());
                let fit = |count| GuardedShape::fit(count, 0.25);
                Guarded::build_denying(&options, fit, &keys[..], &denied[..])
            };
            let (mut limit, mut built) = (1 << 20, build(1 << 20));
            for _ in 0..told {
                let Err(Error::MemoryLimit { needs, .. }) = built else {
                    panic!("{limit} is enough")
                };
                assert!(needs > limit);
                (limit, built) = (needs, build(needs));
            }
            let filter = built.unwrap();
            holds(&filter, &keys, &denied);
            assert!(filter == self::build(0.25, &keys, &denied).unwrap());
        }
    }

    /// Lists that no multiplier can place: members and denied keys side by side, all alike.
    #[test]
    fn what_cannot_be_placed_is_listed() {
        let alike = |from: u64| -> Vec<KeyHash> {
            (0..3000).map(|key| KeyHash { hi: 2 * key + from, lo: 0 }).collect()
        };
        let (keys, denied) = (alike(0), alike(1));
        let filter = build(0.25, &keys, &denied).unwrap();
        assert!(filter.second.listed() > 1000 && !filter.first.extra.is_empty());
        holds(&filter, &keys, &denied);
    }
}
