//! The adaptive quotient filter: a quotient filter whose fingerprints can be declared dead, and an
//! exact table for the keys that have them.
//!
//! ```text
//!  hash.hi ──► the quotient but for its last 6 bits          ┐ the quotient filter
//!  hash.lo ──► these, and the remainder, under the hash        │ as it is
//!              function of the key's piece                     ┘
//!  marks       the dead fingerprints, and digests of the members that have them
//!
//!  hi      0 ───────────── the sweep ───────────── 2^64     in pieces of 256 keys
//!          under the next function │ under the old one
//! ```
//!
//! A key is in if its fingerprint is, and is not dead; if it is dead, the digests decide, and they are
//! exact. A stranger that gets in has its fingerprint declared dead, and digests of the members that
//! share it, one on average, go to the marks. For each false positive the next piece is swept: its
//! keys come under the next hash function, their dead fingerprints and digests are dropped. So
//! there are never many more marks than pieces.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | those of [`quotient`](super::quotient), (r + 3) / load, and 0.8 for the marks |
//! | cache lines | those of the quotient filter; for a member one more, to see that it is not dead |
//! | building | insertion by insertion, as the quotient filter does it |
//!
//! A repair and the sweep read a range of members each: two accesses to the store for a false
//! positive. What the filter holds and the store does not, it cannot get rid of, unlike
//! [`broom`](super::broom).
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018, section 5. Differences: the paper has log* n levels of quotient filters;
//! that is two, and the rate of the second is 2^-128 where the first one's is 2^-8, so it is a table of
//! digests. A bit in each slot that says dead would cost more than a mark for each that is. The top
//! bits of the quotient never change, so that what can share a fingerprint is a range of hashes.

use std::ops::RangeInclusive;

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
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair};

const MARKS: Name = Name::new("marks");
const STATE: Name = Name::new("state");
/// Keys of a piece of the sweep.
const PIECE: u64 = 256;
const MAX_MARKS: u64 = 1 << 50;
/// Bits of the quotient that change with the hash function. A stranger that got in once is known to
/// have neighbours: a range of one slot would have 2.1 times the keys that one has on average, and
/// so let the stranger in that much more often under the next function. One of 64 has 1.02 times.
const LOOSE: u32 = 6;
/// Hashes that are made at a time for a batch of queries.
const BATCH: usize = 64;

/// A quotient filter, with room for one key more while another is swept, and slots for marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveQuotientShape {
    table: QuotientShape,
    marks: u64,
    keys: u64,
}

impl AdaptiveQuotientShape {
    fn new(table: QuotientShape, keys: u64) -> Self {
        // A dead fingerprint and a digest, or a little more, for each piece of a sweep.
        let repairs = (pieces(keys) as f64 * 2.2).ceil() as u64;
        Self { table, marks: 16 + repairs + repairs / 2, keys }
    }

    /// The quotient filter's shape.
    pub fn table(&self) -> &QuotientShape {
        &self.table
    }
}

fn pieces(keys: u64) -> u64 {
    (keys / PIECE).max(1)
}

impl Shape for AdaptiveQuotientShape {
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        Ok(Self::new(QuotientShape::fit_with(keys + 1, fpr, settings)?, keys))
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn figures(&self) -> Figures {
        let table = self.table.figures();
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
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
    /// Sweeps that have ended, pieces that this one has done, false positives not yet worked off.
    state: [u64; 3],
}

/// A key as the quotient filter sees it, and its fingerprint there.
#[derive(Clone, Copy)]
struct Seen {
    hash: KeyHash,
    print: u64,
}

impl AdaptiveQuotient {
    /// An empty filter.
    pub fn new(shape: AdaptiveQuotientShape) -> Result<Self, Error> {
        let (table, marks) = (Quotient::new(shape.table.clone())?, Digests::new(shape.marks)?);
        Ok(Self { shape, table, marks, state: [0; 3] })
    }

    /// Sweeps that have come to their end.
    pub fn sweeps(&self) -> u64 {
        self.state[0]
    }

    fn pieces(&self) -> u64 {
        pieces(self.shape.keys)
    }

    #[inline(always)]
    fn seen(&self, key: KeyHash) -> Seen {
        let [sweeps, done, _] = self.state;
        let swept = scale(key.hi, self.pieces()) < done;
        self.seen_under(key, sweeps.wrapping_add(u64::from(swept)))
    }

    /// Bits of `hi` that stay whatever the function.
    fn fixed(&self) -> u32 {
        self.shape.table.quotient().saturating_sub(LOOSE)
    }

    /// The top of the quotient is of `hi`, the rest and the remainder of `lo` under the function of
    /// a sweep.
    #[inline(always)]
    fn seen_under(&self, key: KeyHash, sweep: u64) -> Seen {
        let (q, r) = (self.shape.table.quotient(), self.shape.table.remainder());
        let mixed = mix(key.lo ^ mix(sweep.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        let hi = key.hi & !packed::mask(64 - self.fixed()) | mixed >> self.fixed();
        Seen { hash: KeyHash { hi, lo: key.lo }, print: hi >> (64 - q - r) }
    }

    /// What stands among the marks for a dead fingerprint.
    fn dead_mark(print: u64) -> u64 {
        mix(print)
    }

    /// What stands among the marks for a key of a dead fingerprint.
    fn digest(key: KeyHash) -> u64 {
        mix(key.hi ^ mix(key.lo ^ 0x5bf0_3635_dcd1_d867))
    }

    fn is_dead(&self, seen: &Seen) -> bool {
        self.marks.contains(Self::dead_mark(seen.print))
    }

    fn put(&mut self, key: KeyHash, seen: &Seen) -> Result<(), Full> {
        let dead = self.is_dead(seen);
        if dead {
            self.marks.reserve(1)?;
        }
        self.table.insert(seen.hash)?;
        if dead { self.marks.insert(Self::digest(key)) } else { Ok(()) }
    }

    fn take(&mut self, key: KeyHash, seen: &Seen) -> bool {
        let dead = self.is_dead(seen);
        if !self.table.contains(seen.hash) || dead && !self.marks.remove(Self::digest(key)) {
            return false;
        }
        self.table.remove(seen.hash);
        if dead && !self.table.contains(seen.hash) {
            self.marks.remove(Self::dead_mark(seen.print));
        }
        true
    }
}

impl Filter for AdaptiveQuotient {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let seen = self.seen(key);
        self.table.contains(seen.hash)
            && (!self.is_dead(&seen) || self.marks.contains(Self::digest(key)))
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.table.len()
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let mut seen = [KeyHash { hi: 0, lo: 0 }; BATCH];
        for (keys, out) in keys.chunks(BATCH).zip(out[..keys.len()].chunks_mut(BATCH)) {
            for (seen, key) in seen.iter_mut().zip(keys) {
                *seen = self.seen(*key).hash;
            }
            self.table.contains_batch(&seen[..keys.len()], out);
            for (key, out) in keys.iter().zip(out).filter(|(_, out)| **out) {
                *out = !self.is_dead(&self.seen(*key)) || self.marks.contains(Self::digest(*key));
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
        self.put(key, &self.seen(key))
    }
}

impl Remove for AdaptiveQuotient {
    fn remove(&mut self, key: KeyHash) -> bool {
        self.take(key, &self.seen(key))
    }
}

impl Adapt for AdaptiveQuotient {
    /// All that have its quotient but for the last bits, under whatever function.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let rest = packed::mask(64 - self.fixed());
        key.hi & !rest..=key.hi | rest
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        if !self.contains(stranger) {
            return Repair::NotNeeded;
        }
        self.state[2] = self.state[2].saturating_add(1);
        let (digest, seen) = (Self::digest(stranger), self.seen(stranger));
        if members.iter().any(|key| Self::digest(*key) == digest) {
            return Repair::Impossible;
        }
        if self.is_dead(&seen) {
            // A digest of what is no member.
            while self.marks.remove(digest) {}
            return Repair::Extended;
        }
        let alike: Vec<KeyHash> =
            members.iter().filter(|key| self.seen(**key).print == seen.print).copied().collect();
        let marks = alike.iter().map(|key| Self::digest(*key)).chain([Self::dead_mark(seen.print)]);
        if self.marks.reserve(alike.len() as u64 + 1).is_err() {
            return Repair::Impossible;
        }
        for mark in marks {
            self.marks.insert(mark).expect("there is room");
        }
        Repair::Extended
    }

    /// The next piece, one for each false positive.
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
            let [old, new] = [0, 1].map(|next| self.seen_under(*key, sweeps.wrapping_add(next)));
            if self.put(*key, &new).is_err() {
                // No slot where it must go, once in 10^15 tables: this piece stays as it was.
                for key in &ours[..at] {
                    let [old, new] =
                        [0, 1].map(|next| self.seen_under(*key, sweeps.wrapping_add(next)));
                    self.take(*key, &new);
                    let _ = self.put(*key, &old); // it was there before, but in a damaged file
                }
                return;
            }
            self.take(*key, &old);
        }
        self.state[1] += 1;
        if self.state[1] == self.pieces() {
            (self.state[0], self.state[1]) = (sweeps.wrapping_add(1), 0);
        }
    }
}

impl Persist for AdaptiveQuotient {
    /// Its own sections, then those of the quotient filter.
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.keys, self.shape.marks, self.marks.slots()]);
        to.words(MARKS, self.marks.table());
        to.slice(STATE, &self.state);
        self.table.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let slots = fields.next(1..=MAX_MARKS, "slots of the marks")?;
        let now = fields.next(slots..=MAX_MARKS, "slots of the marks now")?;
        fields.finish()?;
        let marks = Digests::of(from.words(MARKS, now)?)
            .ok_or_else(|| from.corrupt("the marks have no gap"))?;
        let words = from.words(STATE, 3)?;
        let state = [words[0], words[1], words[2]];
        if state[1] >= pieces(keys) {
            return Err(from.corrupt("the sweep is past its last piece").into());
        }
        let table = Quotient::read(from)?;
        let shape = AdaptiveQuotientShape::new(table.shape().clone(), keys);
        if shape.marks != slots || table.shape().keys() != keys + 1 {
            return Err(from.corrupt("the quotient filter is for other keys").into());
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

    fn hashes(seed: u64, keys: std::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 21]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    fn of(range: &RangeInclusive<u64>, members: &[KeyHash]) -> Vec<KeyHash> {
        members.iter().copied().filter(|key| range.contains(&key.hi)).collect()
    }

    /// After a sweep hardly a mark is left, for a key that has come to a dead fingerprint by its new
    /// function: the others were for fingerprints that are gone.
    #[test]
    fn a_sweep_leaves_hardly_a_mark() {
        let members = hashes(1, 0..5000);
        let shape = AdaptiveQuotientShape::fit(5000, 0.02).unwrap();
        let mut filter = AdaptiveQuotient::build(shape, &members[..]).unwrap();
        let mut dead = 0;
        for x in hashes(1, 1 << 40..(1 << 40) + 3000) {
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

    /// Members of a dead fingerprint, old and new ones, once or twice in, come and go.
    #[test]
    fn members_of_a_dead_fingerprint_come_and_go() {
        let shape = AdaptiveQuotientShape::new(QuotientShape::new(2, 1, 3).unwrap(), 2);
        let mut filter = AdaptiveQuotient::new(shape).unwrap();
        let all = hashes(2, 0..100);
        let print = filter.seen(all[0]).print;
        let alike: Vec<KeyHash> =
            all.into_iter().filter(|key| filter.seen(*key).print == print).take(3).collect();
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
    fn the_promised_size() {
        let keys = (1 << 24) / 10 * 9 - 10;
        let figures = AdaptiveQuotientShape::fit(keys, 1.0 / 256.0).unwrap().figures();
        assert!(figures.bits_per_key() < 13.1 && figures.fpr <= 1.0 / 256.0, "{figures:?}");
    }
}
