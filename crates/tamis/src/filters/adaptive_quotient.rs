//! The adaptive quotient filter: a quotient filter whose fingerprints can be declared dead, and an
//! exact table for the keys that have them.
//!
//! ```text
//!  hash.hi ──► the quotient except its last 8 bits             ┐ an unmodified
//!  hash.lo ──► these 8 bits and the remainder, under the       │ quotient filter
//!              hash function of the key's piece                ┘
//!  marks       the dead fingerprints, and 64-bit hashes of the members that have them
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
//! A repair and the sweep each read a range of members: two accesses to the store per false
//! positive. Unlike [`broom`](super::broom), the filter cannot drop keys that the store does not
//! have.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018, section 5. Differences: the paper has log* n levels of quotient
//! filters. That is two in practice, and the rate of the second is 2^-128 where that of the first
//! is 2^-8, so here it is a table of 64-bit hashes. A dead bit in each slot would take more space
//! than one mark per dead fingerprint. The top bits of the quotient never change, so the keys that
//! can share a fingerprint are a range of hashes.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::packed;
use tamis_bits::range::{mix, scale};
use tamis_format::{Name, Reader, Writer};

use super::adaptive_bloom::piece;
use super::common::build_by_inserting;
use super::common::digests::Digests;
use super::quotient::{Quotient, QuotientShape};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair};

const MARKS: Name = Name::new("marks");
const STATE: Name = Name::new("state");
/// Keys per piece of the sweep.
const PIECE: u64 = 256;
const MAX_MARKS: u64 = 1 << 50;
/// Bits of the quotient that change with the hash function. The other bits are those of `hi` for
/// ever, so an adversary that remembers the answers of many sweeps finds the non-members of the
/// fullest ranges of slots. The stated rate is that of the fullest range. With 8 bits that is about
/// 1.5 times the mean rate, with 6 bits 2.1 times, and a repair reads as many keys as the sweep.
const LOOSE_BITS: u32 = 8;
/// Number of hashes computed at a time for a batch of lookups.
const BATCH: usize = 64;

/// The size of an adaptive quotient filter: a quotient filter, with room for one more key during a
/// sweep, and slots for marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveQuotientShape {
    table: QuotientShape,
    marks: u64,
    keys: u64,
}

impl AdaptiveQuotientShape {
    fn new(table: QuotientShape, keys: u64) -> Self {
        // A dead fingerprint and slightly more than one key on average, for each piece of a sweep.
        let repairs = (pieces(keys) as f64 * 2.2).ceil() as u64;
        Self { table, marks: 16 + repairs + repairs / 2, keys }
    }

    /// Returns the number of bits of `hi` that do not depend on the hash function.
    fn fixed(&self) -> u32 {
        self.table.quotient().saturating_sub(LOOSE_BITS)
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

impl Shape for AdaptiveQuotientShape {
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let mut mean = fpr;
        loop {
            let shape = Self::new(QuotientShape::fit_with(keys + 1, mean, settings)?, keys);
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
        self.table.parameters()
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
            bytes: table.bytes + tamis_bits::lines(self.marks) * 64,
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
    marks: Digests,
    /// Completed sweeps, pieces swept in the current one, false positives that no piece was swept for
    /// yet.
    state: [u64; 3],
}

/// The hash of a key under the hash function of its piece, and its fingerprint.
#[derive(Clone, Copy)]
struct Mapped {
    hash: KeyHash,
    fingerprint: u64,
}

impl AdaptiveQuotient {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the filter cannot be allocated.
    pub fn new(shape: AdaptiveQuotientShape) -> Result<Self, Error> {
        let (table, marks) = (Quotient::new(shape.table.clone())?, Digests::new(shape.marks)?);
        Ok(Self { shape, table, marks, state: [0; 3] })
    }

    /// Returns the number of completed sweeps.
    pub fn sweeps(&self) -> u64 {
        self.state[0]
    }

    fn pieces(&self) -> u64 {
        pieces(self.shape.keys)
    }

    #[inline(always)]
    fn map(&self, key: KeyHash) -> Mapped {
        let [sweeps, done, _] = self.state;
        let swept = scale(key.hi, self.pieces()) < done;
        self.map_under(key, sweeps.wrapping_add(u64::from(swept)))
    }

    /// Maps a key under the hash function of a sweep: the top of the quotient comes from `hi`, its
    /// other bits and the remainder from `lo`.
    #[inline(always)]
    fn map_under(&self, key: KeyHash, sweep: u64) -> Mapped {
        let (q, r) = (self.shape.table.quotient(), self.shape.table.remainder());
        let mixed = mix(key.lo ^ mix(sweep.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        let fixed = self.shape.fixed();
        let hi = key.hi & !packed::mask(64 - fixed) | mixed >> fixed;
        Mapped { hash: KeyHash { hi, lo: key.lo }, fingerprint: hi >> (64 - q - r) }
    }

    /// Returns the mark of a dead fingerprint.
    fn dead_mark(fp: u64) -> u64 {
        mix(fp)
    }

    /// Returns the mark of a key with a dead fingerprint.
    fn key_mark(key: KeyHash) -> u64 {
        mix(key.hi ^ mix(key.lo ^ 0x5bf0_3635_dcd1_d867))
    }

    fn is_dead(&self, mapped: &Mapped) -> bool {
        self.marks.contains(Self::dead_mark(mapped.fingerprint))
    }

    fn insert_mapped(&mut self, key: KeyHash, mapped: &Mapped) -> Result<(), Full> {
        let dead = self.is_dead(mapped);
        if dead {
            self.marks.reserve(1)?;
        }
        self.table.insert(mapped.hash)?;
        if dead { self.marks.insert(Self::key_mark(key)) } else { Ok(()) }
    }

    fn remove_mapped(&mut self, key: KeyHash, mapped: &Mapped) -> bool {
        let dead = self.is_dead(mapped);
        if !self.table.contains(mapped.hash) || dead && !self.marks.remove(Self::key_mark(key)) {
            return false;
        }
        self.table.remove(mapped.hash);
        if dead && !self.table.contains(mapped.hash) {
            self.marks.remove(Self::dead_mark(mapped.fingerprint));
        }
        true
    }
}

impl Filter for AdaptiveQuotient {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let mapped = self.map(key);
        self.table.contains(mapped.hash)
            && (!self.is_dead(&mapped) || self.marks.contains(Self::key_mark(key)))
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
                *out = !self.is_dead(&self.map(*key)) || self.marks.contains(Self::key_mark(*key));
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
        self.insert_mapped(key, &self.map(key))
    }
}

impl Remove for AdaptiveQuotient {
    fn remove(&mut self, key: KeyHash) -> bool {
        self.remove_mapped(key, &self.map(key))
    }
}

impl Adapt for AdaptiveQuotient {
    /// Returns the range of hashes with the same quotient except its last bits, under any function.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let rest = packed::mask(64 - self.shape.fixed());
        key.hi & !rest..=key.hi | rest
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        if !self.contains(stranger) {
            return Repair::NotNeeded;
        }
        self.state[2] = self.state[2].saturating_add(1);
        let (mark, mapped) = (Self::key_mark(stranger), self.map(stranger));
        if members.iter().any(|key| Self::key_mark(*key) == mark) {
            return Repair::Impossible;
        }
        if self.is_dead(&mapped) {
            // The key has a mark but is not a member.
            while self.marks.remove(mark) {}
            return Repair::Extended;
        }
        let alike: Vec<KeyHash> = members
            .iter()
            .filter(|key| self.map(**key).fingerprint == mapped.fingerprint)
            .copied()
            .collect();
        let marks = alike
            .iter()
            .map(|key| Self::key_mark(*key))
            .chain([Self::dead_mark(mapped.fingerprint)]);
        if self.marks.reserve(alike.len() as u64 + 1).is_err() {
            return Repair::Impossible;
        }
        for mark in marks {
            self.marks.insert(mark).expect("there is room");
        }
        Repair::Extended
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
            let [old, new] = [0, 1].map(|next| self.map_under(*key, sweeps.wrapping_add(next)));
            if self.insert_mapped(*key, &new).is_err() {
                // The table has no free slot, once in 10^15 tables: this piece is left unchanged.
                for key in &ours[..at] {
                    let [old, new] =
                        [0, 1].map(|next| self.map_under(*key, sweeps.wrapping_add(next)));
                    self.remove_mapped(*key, &new);
                    // It was there before, except in a damaged file.
                    let _ = self.insert_mapped(*key, &old);
                }
                return;
            }
            self.remove_mapped(*key, &old);
        }
        self.state[1] += 1;
        if self.state[1] == self.pieces() {
            (self.state[0], self.state[1]) = (sweeps.wrapping_add(1), 0);
        }
    }
}

impl Persist for AdaptiveQuotient {
    /// Writes its own sections, then those of the quotient filter.
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.keys, self.shape.marks, self.marks.slots()]);
        to.words(MARKS, self.marks.table());
        to.slice(STATE, &self.state);
        self.table.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        // The table has room for one key more, which a renewal may leave there.
        let keys = fields.next(len.saturating_sub(1)..=MAX_KEYS, "capacity")?;
        let slots = fields.next(1..=MAX_MARKS, "planned slots for marks")?;
        let now = fields.next(slots..=MAX_MARKS, "slots for marks")?;
        fields.finish()?;
        let marks = Digests::of(from.words(MARKS, now)?)
            .ok_or_else(|| from.corrupt("the table of marks has no empty slot"))?;
        let words = from.words(STATE, 3)?;
        let state = [words[0], words[1], words[2]];
        if state[1] >= pieces(keys) {
            return Err(from.corrupt("the sweep cursor is past the last piece").into());
        }
        let table = Quotient::read(from)?;
        let shape = AdaptiveQuotientShape::new(table.shape().clone(), keys);
        if shape.marks != slots || table.shape().keys() != keys + 1 {
            return Err(from.corrupt("the capacity of the quotient filter is wrong").into());
        }
        Ok(Self { shape, table, marks, state })
    }

    fn validate(&self) -> Result<(), Error> {
        if !self.marks.is_sound() {
            let what = "a mark cannot be found";
            return Err(tamis_format::Error::corrupt(what).into());
        }
        self.table.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 21]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    fn of(range: &RangeInclusive<u64>, members: &[KeyHash]) -> Vec<KeyHash> {
        members.iter().copied().filter(|key| range.contains(&key.hi)).collect()
    }

    /// After a sweep few marks are left: those of keys that got a dead fingerprint under the new
    /// function. All others were for fingerprints that are gone.
    #[test]
    fn a_sweep_drops_most_marks() {
        let members = hashes(1, 0..5000);
        let shape = AdaptiveQuotientShape::fit(5000, 0.02).unwrap();
        let mut filter = AdaptiveQuotient::build(shape, &members[..]).unwrap();
        let mut dead = 0;
        for x in hashes(1, 1 << 40..(1 << 40) + 9000) {
            if filter.contains(x) {
                assert_eq!(filter.adapt(x, &of(&filter.suspects(x), &members)), Repair::Extended);
                dead += 1;
            }
        }
        let marks = |filter: &AdaptiveQuotient| {
            filter.marks.table().iter().filter(|mark| **mark != 0).count()
        };
        assert!(dead > 20 && marks(&filter) >= 2 * dead);
        filter.state[2] = filter.pieces();
        while let Some(range) = filter.due() {
            filter.renew(&of(&range, &members));
            assert!(members.iter().step_by(7).all(|key| filter.contains(*key)));
        }
        assert_eq!(filter.sweeps(), 1);
        assert!(marks(&filter) <= dead / 5, "{} marks of {dead} repairs", marks(&filter));
        assert!(members.iter().all(|key| filter.contains(*key)) && filter.len() == 5000);
        filter.validate().unwrap();
    }

    /// Members with a dead fingerprint, old and new, with one or two copies, are inserted and
    /// removed.
    #[test]
    fn members_with_a_dead_fingerprint_can_be_removed() {
        let shape = AdaptiveQuotientShape::new(QuotientShape::new(2, 1, 3).unwrap(), 2);
        let mut filter = AdaptiveQuotient::new(shape).unwrap();
        let all = hashes(2, 0..100);
        let fp = filter.map(all[0]).fingerprint;
        let alike: Vec<KeyHash> =
            all.into_iter().filter(|key| filter.map(*key).fingerprint == fp).take(3).collect();
        let [a, b, x] = alike[..] else { panic!("too few of one fingerprint") };
        filter.insert(a).unwrap();
        assert_eq!(filter.adapt(x, &[a]), Repair::Extended);
        assert!(filter.contains(a) && !filter.contains(b) && !filter.contains(x));
        filter.insert(b).unwrap();
        assert!(filter.contains(a) && filter.contains(b) && !filter.contains(x));
        assert!(!filter.remove(x) && filter.remove(a) && !filter.contains(a));
        filter.insert(b).unwrap();
        assert!(filter.remove(b) && filter.contains(b) && filter.remove(b));
        assert!(filter.is_empty() && filter.marks.table().iter().all(|mark| *mark == 0));
    }

    #[test]
    fn documented_size() {
        let keys = (1 << 24) / 10 * 9 - 10;
        let figures = AdaptiveQuotientShape::fit(keys, 1.0 / 256.0).unwrap().figures();
        assert!(figures.bits_per_key() < 14.2 && figures.fpr <= 1.0 / 256.0, "{figures:?}");
    }
}
