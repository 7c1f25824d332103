//! The adaptive quotient filter: a quotient filter whose fingerprints can be declared dead, and an
//! exact table for the keys that have them.
//!
//! ```text
//!  hash.hi ──► the quotient except its last 8 bits             ┐ an unmodified
//!  hash.lo ──► these 8 bits and the remainder, under the       │ quotient filter
//!              hash function of the key's piece                ┘
//!  level 1, 2  smaller quotient filters for members with dead fingerprints, if `levels` is 2 or 3
//!  marks       the dead fingerprints, and 62-bit hashes of the members that have them in all levels
//!
//!  hi      0 ───────────── the sweep ───────────── 2^64     in pieces of 256 keys
//!          the next hash function  │ the old one
//! ```
//!
//! A lookup returns true if the fingerprint is present and not dead; if it is dead, the marks of
//! keys decide, and they are exact. A reported false positive makes its fingerprint dead, and adds
//! marks of the members that share it, one on average. For each false positive the next piece is
//! swept: its keys move to the next hash function, and their dead fingerprints and marks are
//! dropped. So there are never many more marks than pieces.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | those of [`quotient`](super::quotient), (r + 3) / load, and 0.8 for the marks |
//! | rate | of the fullest range of 256 slots: at 10^7 keys and a load of 0.9, 1.5 times the mean rate; this takes one bit of the remainder at 6 of 10 rates |
//! | cache lines | those of the quotient filter; for a member one more, to check that it is not dead |
//! | building | by insertions, as in the quotient filter |
//!
//! With `levels=2` the members of dead fingerprints are in a second quotient filter, with the rate
//! eps^(1/sqrt(eps)) of the paper, and `levels=3` has a third one, with eps^(1/eps_1). A false positive
//! makes its fingerprint dead in the level that accepted it. What this saves is the difference between a
//! mark of a key, 97 bits, and a slot of r + 3 bits:
//!
//! | eps | rate of level 1 | of level 2 | bits per key for repairs, `levels=1` | `levels=2` | `levels=3` |
//! | --- | --- | --- | --- | --- | --- |
//! | 1/4 | 2^-4 | 2^-32 | 0.83 | 0.50 | 0.52 |
//! | 1/16 | 2^-16 | 2^-46 | 0.83 | 0.55 | 0.55 |
//! | 1/32 | 2^-29 | 2^-46 | 0.83 | 0.64 | 0.64 |
//! | 2^-6 and below | 2^-46 | 2^-46 | 0.83 | 0.74 | 0.74 |
//!
//! The figures are for 10^7 keys. The slots of a level are a power of two, so at other numbers of keys
//! more levels take up to 0.2 bits per key more than one from 1/64 on. A level doubles when it is full,
//! as the table of marks does.
//!
//! A repair and the sweep each read a range of members: two accesses to the store per false
//! positive. Unlike [`broom`](super::broom), the filter cannot drop keys that the store does not
//! have.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018, section 5. Differences: the paper has log* n levels of quotient
//! filters. That is two in practice, and the rate of the second is 2^-128 where that of the first is
//! 2^-8, so by default it is a table of 62-bit hashes, and follows the last of several levels, whose
//! fingerprints have at most 62 bits. A dead bit in each slot would take more space
//! than one mark per dead fingerprint. The top bits of the quotient never change, so the keys that
//! can share a fingerprint are a range of hashes.

mod upper;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::packed;
use tamis_bits::range::{mix, scale};
use tamis_format::{Name, Reader, Writer};

use self::upper::Upper;
use super::adaptive_bloom::piece;
use super::common::build_by_inserting;
use super::common::digests::{Digests, MARK_BITS, digest, mark};
use super::quotient::{Quotient, QuotientShape};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair, Resize};

const MARKS: Name = Name::new("marks");
const STATE: Name = Name::new("state");
/// Keys per piece of the sweep.
const PIECE: u64 = 256;
const MAX_MARKS: u64 = 1 << 50;
/// The layout of the marks. Before, those of fingerprints and of keys could be equal.
const LAYOUT: u64 = 2;
/// Bits of the quotient that change with the hash function. The other bits are those of `hi` for
/// ever, so an adversary that remembers the answers of many sweeps finds the non-members of the
/// fullest ranges of slots. The stated rate is that of the fullest range. With 8 bits that is about
/// 1.5 times the mean rate, with 6 bits 2.1 times, and a repair reads as many keys as the sweep.
const LOOSE_BITS: u32 = 8;
/// Number of hashes computed at a time for a batch of lookups.
const BATCH: usize = 64;

const LEVELS: Setting = Setting::new(
    "levels",
    "1 to 3 quotient filters, the later ones for the keys of dead fingerprints; default: 1",
);
const MAX_LEVELS: u64 = 3;

/// The size of an adaptive quotient filter: a quotient filter, with room for one more key during a
/// sweep, smaller ones for the further levels, and slots for marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveQuotientShape {
    table: QuotientShape,
    /// The levels from 1 on.
    upper: Upper<QuotientShape>,
    marks: u64,
    keys: u64,
}

impl AdaptiveQuotientShape {
    fn new(table: QuotientShape, upper: Upper<QuotientShape>, keys: u64) -> Self {
        // For each piece of a sweep a dead fingerprint, and slightly more than one key on average unless there is
        // another level for it.
        let each = if upper.len() == 0 { 2.2 } else { 1.1 };
        let repairs = (pieces(keys) as f64 * each).ceil() as u64;
        Self { table, upper, marks: 16 + repairs + repairs / 2, keys }
    }

    /// Returns the shapes of the levels from 1 to `levels - 1` above a table for `fpr`.
    fn fit_upper(
        table: &QuotientShape,
        keys: u64,
        fpr: f64,
        levels: u64,
    ) -> Result<Upper<QuotientShape>, Error> {
        let fixed = fixed_bits(table);
        // The rates of the paper, as numbers of bits: eps_1 = eps^(1 / sqrt(eps)), eps_i = eps^(1 / eps_(i - 1)).
        let mut bits = -fpr.log2() / fpr.sqrt();
        let mut down = pieces(keys) as f64 * 1.2;
        let mut upper = Upper::new();
        for _ in 1..levels {
            let room = (down + 4.0 * down.sqrt()).ceil() as u64 + 16;
            // Two bits more, because a range of slots has a few keys of this level; and enough for a level that
            // has grown to hold all keys.
            let length = fixed + bits.min(64.0).ceil() as u32 + 2;
            let least = 2 + table.quotient().max(room.ilog2() + 2);
            upper.push(QuotientShape::of_bits(room, length.clamp(least, MARK_BITS))?);
            down *= (-bits).exp2();
            bits = -fpr.log2() * bits.min(64.0).exp2();
        }
        Ok(upper)
    }

    /// Returns the number of bits of `hi` that do not depend on the hash function.
    fn fixed(&self) -> u32 {
        fixed_bits(&self.table)
    }

    /// Returns the number of quotient filters.
    pub fn levels(&self) -> usize {
        1 + self.upper.len()
    }

    /// Returns the number of keys in the fullest range of slots when there are `keys` keys, by
    /// Chernoff's bound. Less than one filter in 10^6 has a fuller range.
    fn max_range(&self, keys: u64) -> f64 {
        const FILTERS: f64 = 1e6;
        let ranges = f64::from(self.fixed()).exp2();
        if self.fixed() == 0 || keys == 0 {
            return keys as f64;
        }
        let mean = keys as f64 / ranges;
        let rare = (FILTERS * ranges).ln();
        // P(range >= n) <= exp(-(n ln(n / mean) - n + mean)), solved by Newton's method from above.
        let mut n = mean + (2.0 * mean * rare).sqrt() + rare;
        for _ in 0..20 {
            n -= (n * (n / mean).ln() - n + mean - rare) / (n / mean).ln();
        }
        n.ceil().min(keys as f64)
    }

    /// Returns the shape of the quotient filter.
    pub fn table(&self) -> &QuotientShape {
        &self.table
    }
}

fn pieces(keys: u64) -> u64 {
    (keys / PIECE).max(1)
}

fn fixed_bits(table: &QuotientShape) -> u32 {
    table.quotient().saturating_sub(LOOSE_BITS)
}

impl Shape for AdaptiveQuotientShape {
    const SETTINGS: &'static [Setting] = &[LEVELS];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let is_valid = |levels| (1..=MAX_LEVELS).contains(&levels);
        let levels = settings.number(&LEVELS, is_valid)?.unwrap_or(1);
        let mut mean = fpr;
        loop {
            let table = QuotientShape::fit(keys + 1, mean)?;
            if table.bits() > MARK_BITS {
                return Err(Error::Infeasible {
                    why: "the rate needs fingerprints of more than 62 bits",
                });
            }
            let upper = Self::fit_upper(&table, keys, fpr, levels)?;
            let shape = Self::new(table, upper, keys);
            if shape.figures().fpr <= fpr {
                return Ok(shape);
            }
            // One bit more of the remainder.
            mean = shape.table.fpr_at(keys + 1) * 0.75;
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        let mut parameters = self.table.parameters();
        parameters.extend([("levels", (self.levels() as u64).into())]);
        parameters
    }

    /// Returns the figures, with the rate of the fullest range of slots that a filter can have. No
    /// non-member has a higher rate, whatever an adversary learned from former queries.
    fn figures(&self) -> Figures {
        self.figures_at(self.keys)
    }

    fn figures_at(&self, keys: u64) -> Figures {
        let table = self.table.figures();
        let bits = self.table.quotient() + self.table.remainder() - self.fixed();
        Figures {
            keys: self.keys,
            fpr: (self.max_range(keys) * (-f64::from(bits)).exp2()).min(1.0),
            bytes: table.bytes
                + self.upper.iter().map(|upper| upper.figures().bytes).sum::<u64>()
                + tamis_bits::lines(self.marks) * 64,
            query_cost: table.query_cost + 0.5,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        self.table.fpr_at(keys)
    }
}

/// An adaptive quotient filter.
///
/// # Examples
/// ```
/// use tamis::{AdaptiveQuotient, Keyed};
///
/// let mut guests = Keyed::<AdaptiveQuotient>::with_capacity(1000, 0.001)?;
/// guests.insert("Ada")?;
/// assert!(guests.contains("Ada"));
/// assert!(guests.remove("Ada") && !guests.contains("Ada"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveQuotient {
    shape: AdaptiveQuotientShape,
    table: Quotient,
    /// The levels from 1 on. They grow when they are full.
    upper: Upper<Quotient>,
    marks: Digests,
    /// Completed sweeps, pieces swept in the current one, false positives that no piece was swept for
    /// yet.
    state: [u64; 3],
}

/// The hash of a key under the hash function of a level and of its piece, and its fingerprint there.
#[derive(Clone, Copy)]
struct Mapped {
    hash: KeyHash,
    level: usize,
    fingerprint: u64,
}

impl AdaptiveQuotient {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the filter cannot be allocated.
    pub fn new(shape: AdaptiveQuotientShape) -> Result<Self, Error> {
        let (table, marks) = (Quotient::new(shape.table.clone())?, Digests::new(shape.marks)?);
        let upper = shape.upper.iter().cloned().map(Quotient::new).collect::<Result<_, _>>()?;
        Ok(Self { shape, table, upper, marks, state: [0; 3] })
    }

    /// Returns the number of completed sweeps.
    pub fn sweeps(&self) -> u64 {
        self.state[0]
    }

    fn pieces(&self) -> u64 {
        pieces(self.shape.keys)
    }

    /// Returns the number of the hash function of a key's piece.
    #[inline(always)]
    fn sweep(&self, key: KeyHash) -> u64 {
        let [sweeps, done, _] = self.state;
        let swept = scale(key.hi, self.pieces()) < done;
        sweeps.wrapping_add(u64::from(swept))
    }

    #[inline(always)]
    fn map(&self, key: KeyHash) -> Mapped {
        self.map_under(0, key, self.sweep(key))
    }

    /// Maps a key to a level under the hash function of a sweep: the top of the hash comes from `hi`, its other
    /// bits from `lo`.
    #[inline(always)]
    fn map_under(&self, level: usize, key: KeyHash, sweep: u64) -> Mapped {
        let mut function = mix(sweep.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut shape = &self.shape.table;
        if level > 0 {
            function = mix(function.wrapping_add(level as u64));
            shape = &self.shape.upper[level - 1];
        }
        let hi = self.fix(key, mix(key.lo ^ function));
        let fingerprint = hi >> (64 - shape.quotient() - shape.remainder());
        Mapped { hash: KeyHash { hi, lo: key.lo }, level, fingerprint }
    }

    fn table(&self, level: usize) -> &Quotient {
        if level == 0 { &self.table } else { &self.upper[level - 1] }
    }

    fn table_mut(&mut self, level: usize) -> &mut Quotient {
        if level == 0 { &mut self.table } else { &mut self.upper[level - 1] }
    }

    /// Returns the mark of a dead fingerprint. Each level has a role of its own: a fingerprint with the mark of
    /// another, or of a key, would deny its members.
    fn dead_mark(mapped: &Mapped) -> [u64; 1] {
        mark(1 + mapped.level as u64, mapped.fingerprint)
    }

    /// Returns the mark of a key with dead fingerprints in all levels. It has the bits of `hi` that do not depend on
    /// the hash function, so that only suspects of a non-member can have its mark, which a repair deletes.
    fn key_mark(&self, key: KeyHash) -> [u64; 1] {
        mark(0, self.fix(key, digest(key)) >> (64 - MARK_BITS))
    }

    /// Returns the bits of a key's `hi` that do not depend on the hash function, followed by the top bits of a hash.
    #[inline(always)]
    fn fix(&self, key: KeyHash, hash: u64) -> u64 {
        let fixed = self.shape.fixed();
        key.hi & !packed::mask(64 - fixed) | hash >> fixed
    }

    fn is_dead(&self, mapped: &Mapped) -> bool {
        self.marks.contains(Self::dead_mark(mapped))
    }

    /// Returns the level that accepts a key whose fingerprint of level 0 is present and has been mapped; the number
    /// of levels if the key has a mark; `None` if no level accepts it.
    #[inline]
    fn accepting_level(&self, key: KeyHash, first: &Mapped) -> Option<usize> {
        if !self.is_dead(first) {
            return Some(0);
        }
        let (levels, sweep) = (self.shape.levels(), self.sweep(key));
        for level in 1..levels {
            let mapped = self.map_under(level, key, sweep);
            if !self.table(level).contains(mapped.hash) {
                return None;
            }
            if !self.is_dead(&mapped) {
                return Some(level);
            }
        }
        self.marks.contains(self.key_mark(key)).then_some(levels)
    }

    /// Inserts a key into a level, and into the following ones while its fingerprint is dead.
    ///
    /// # Errors
    /// [`Full`] if a table is; then no answer has changed.
    fn insert_from(&mut self, level: usize, key: KeyHash, sweep: u64) -> Result<(), Full> {
        if level == self.shape.levels() {
            return self.marks.insert(self.key_mark(key));
        }
        let mapped = self.map_under(level, key, sweep);
        if level > 0 {
            self.reserve(level)?;
        }
        self.table_mut(level).insert(mapped.hash)?;
        if self.is_dead(&mapped)
            && let Err(full) = self.insert_from(level + 1, key, sweep)
        {
            self.table_mut(level).remove(mapped.hash);
            return Err(full);
        }
        Ok(())
    }

    /// Doubles the capacity of a level from 1 on if it is full. Fingerprints keep their bits.
    fn reserve(&mut self, level: usize) -> Result<(), Full> {
        let table = &mut self.upper[level - 1];
        let keys = table.shape().keys();
        if table.len() >= keys {
            table.resize(keys * 2, None).map_err(|_| Full::NONE)?;
        }
        Ok(())
    }

    /// Removes a key from a level and the following ones. Returns whether it was in all that its dead fingerprints
    /// lead to.
    fn remove_from(&mut self, level: usize, key: KeyHash, sweep: u64) -> bool {
        if level == self.shape.levels() {
            return self.marks.remove(self.key_mark(key));
        }
        let mapped = self.map_under(level, key, sweep);
        let dead = self.is_dead(&mapped);
        if !self.table(level).contains(mapped.hash)
            || dead && !self.remove_from(level + 1, key, sweep)
        {
            return false;
        }
        self.table_mut(level).remove(mapped.hash);
        if dead && !self.table(level).contains(mapped.hash) {
            self.marks.remove(Self::dead_mark(&mapped));
        }
        true
    }

    /// Declares the fingerprint of `stranger` in a level dead, and inserts the members that have it into the next
    /// level.
    fn declare_dead(
        &mut self,
        level: usize,
        stranger: KeyHash,
        members: &[KeyHash],
    ) -> Result<(), Full> {
        let dead = self.map_under(level, stranger, self.sweep(stranger));
        let is_here = |key: &&KeyHash| {
            let sweep = self.sweep(**key);
            let is_dead = |below| self.is_dead(&self.map_under(below, **key, sweep));
            self.map_under(level, **key, sweep).fingerprint == dead.fingerprint
                && (0..level).all(is_dead)
        };
        let alike: Vec<KeyHash> = members.iter().filter(is_here).copied().collect();
        self.marks.reserve(alike.len() as u64 + 1)?;
        for (at, key) in alike.iter().enumerate() {
            if let Err(full) = self.insert_from(level + 1, *key, self.sweep(*key)) {
                for key in &alike[..at] {
                    self.remove_from(level + 1, *key, self.sweep(*key));
                }
                return Err(full);
            }
        }
        self.marks.insert(Self::dead_mark(&dead))
    }
}

impl Filter for AdaptiveQuotient {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let mapped = self.map(key);
        self.table.contains(mapped.hash) && self.accepting_level(key, &mapped).is_some()
    }

    /// Returns the keys inserted minus the keys removed.
    fn len(&self) -> u64 {
        self.table.len()
    }

    fn fits_cache(&self) -> bool {
        self.table.fits_cache()
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let mut mapped = [KeyHash { hi: 0, lo: 0 }; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out[..keys.len()].chunks_mut(BATCH)) {
            for (mapped, key) in mapped.iter_mut().zip(keys) {
                *mapped = self.map(*key).hash;
            }
            self.table.contains_prefetching(&mapped[..keys.len()], out);
            for (key, out) in keys.iter().zip(out).filter(|(_, out)| **out) {
                *out = self.accepting_level(*key, &self.map(*key)).is_some();
            }
        }
    }
}

impl Build for AdaptiveQuotient {
    type Shape = AdaptiveQuotientShape;

    fn shape(&self) -> &AdaptiveQuotientShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<AdaptiveQuotientShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for AdaptiveQuotient {
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len() >= self.shape.keys {
            return Err(Full::NONE);
        }
        self.insert_from(0, key, self.sweep(key))
    }
}

impl Remove for AdaptiveQuotient {
    fn remove(&mut self, key: KeyHash) -> bool {
        self.remove_from(0, key, self.sweep(key))
    }
}

impl Adapt for AdaptiveQuotient {
    /// Returns the range of hashes with the same quotient except its last bits, under any function.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let rest = packed::mask(64 - self.shape.fixed());
        key.hi & !rest..=key.hi | rest
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        let mapped = self.map(stranger);
        let accepting = |filter: &Self| {
            let present = filter.table.contains(mapped.hash);
            present.then(|| filter.accepting_level(stranger, &mapped)).flatten()
        };
        let Some(mut level) = accepting(self) else { return Repair::NotNeeded };
        self.state[2] = self.state[2].saturating_add(1);
        let mark = self.key_mark(stranger);
        if members.iter().any(|key| self.key_mark(*key) == mark) {
            return Repair::Impossible;
        }
        loop {
            if level == self.shape.levels() {
                // The key has a mark but is not a member.
                while self.marks.remove(mark) {}
            } else if self.declare_dead(level, stranger, members).is_err() {
                return Repair::Impossible;
            }
            match accepting(self) {
                Some(next) => level = next,
                None => return Repair::Extended,
            }
        }
    }

    /// Returns the next piece to sweep, one for each false positive.
    fn due(&self) -> Option<RangeInclusive<u64>> {
        let [_, done, credit] = self.state;
        (credit > 0).then(|| piece(done, self.pieces()))
    }

    fn renew(&mut self, members: &[KeyHash]) {
        let [sweeps, done, credit] = self.state;
        self.state[2] = credit.saturating_sub(1);
        let ours = members.iter().filter(|key| scale(key.hi, self.pieces()) == done);
        let ours: Vec<KeyHash> = ours.copied().collect();
        for (at, key) in ours.iter().enumerate() {
            let (old, new) = (sweeps, sweeps.wrapping_add(1));
            if self.insert_from(0, *key, new).is_err() {
                // The table has no free slot, once in 10^15 tables: this piece is left unchanged.
                for key in &ours[..at] {
                    self.remove_from(0, *key, new);
                    // It was there before, except in a damaged file.
                    let _ = self.insert_from(0, *key, old);
                }
                return;
            }
            self.remove_from(0, *key, old);
        }
        self.state[1] += 1;
        if self.state[1] == self.pieces() {
            (self.state[0], self.state[1]) = (sweeps.wrapping_add(1), 0);
        }
    }
}

impl Persist for AdaptiveQuotient {
    /// Writes its own sections, then those of the quotient filters.
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let mut fields = vec![self.shape.keys, self.shape.marks, self.marks.slots()];
        for (shape, table) in self.shape.upper.iter().zip(self.upper.iter()) {
            fields.extend([shape.keys(), table.len()]);
        }
        fields.push(LAYOUT);
        to.shape(&fields);
        to.words(MARKS, self.marks.table());
        to.slice(STATE, &self.state);
        self.table.write(to);
        self.upper.iter().for_each(|table| table.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        // The table has room for one key more, which a renewal may leave there.
        let keys = fields.next(len.saturating_sub(1)..=MAX_KEYS, "capacity")?;
        let slots = fields.next(1..=MAX_MARKS, "planned slots for marks")?;
        let now = fields.next(slots..=MAX_MARKS, "slots for marks")?;
        let mut upper = Vec::new();
        // Only layout 1 has an even number of fields after these: two for each further level.
        if fields.remaining().is_multiple_of(2) {
            return Err(from.corrupt("files of layout 1 must be built again").into());
        }
        while fields.remaining() > 1 && upper.len() + 1 < MAX_LEVELS as usize {
            let planned = fields.next(1..=MAX_KEYS, "planned capacity of a level")?;
            upper.push([planned, fields.next(0..=MAX_KEYS, "keys of a level")?]);
        }
        fields.next(LAYOUT..=LAYOUT, "layout of the marks")?;
        fields.finish()?;
        let marks = Digests::of(from.words(MARKS, now)?)
            .ok_or_else(|| from.corrupt("the table of marks has no empty slot"))?;
        let words = from.words(STATE, 3)?;
        let state = [words[0], words[1], words[2]];
        if state[1] >= pieces(keys) {
            return Err(from.corrupt("the sweep cursor is past the last piece").into());
        }
        let table = Quotient::read(from)?;
        let fixed = fixed_bits(table.shape());
        let (mut tables, mut shapes) = (Upper::new(), Upper::new());
        for [planned, len] in upper {
            let table = Quotient::read_with_len(from, len)?;
            let (bits, now) = (table.shape().bits(), table.shape().keys());
            // A repair finds the members of a fingerprint by the fixed bits. A level doubles when it is full.
            let doubled = (0..u64::BITS).any(|times| planned.checked_shl(times) == Some(now));
            let of_bits = |keys| QuotientShape::of_bits(keys, bits).ok();
            match of_bits(planned) {
                Some(shape)
                    if (fixed + 1..=MARK_BITS).contains(&bits)
                        && doubled
                        && of_bits(now).as_ref() == Some(table.shape()) =>
                {
                    shapes.push(shape);
                }
                _ => return Err(from.corrupt("a level has the wrong size").into()),
            }
            tables.push(table);
        }
        let shape = AdaptiveQuotientShape::new(table.shape().clone(), shapes, keys);
        if shape.marks != slots || table.shape().keys() != keys + 1 {
            return Err(from.corrupt("the capacity of the quotient filter is wrong").into());
        }
        if table.shape().bits() > MARK_BITS {
            return Err(from.corrupt("the fingerprints are too long").into());
        }
        Ok(Self { shape, table, upper: tables, marks, state })
    }

    fn validate(&self) -> Result<(), Error> {
        if !self.marks.is_sound() {
            let what = "a mark cannot be found";
            return Err(tamis_format::Error::corrupt(what).into());
        }
        self.upper.iter().try_for_each(Quotient::validate)?;
        self.table.validate()
    }
}

#[cfg(test)]
mod tests;
