//! The quotient filter: a sorted table of fingerprints that stores only their low bits. The position
//! of an entry gives the high bits.
//!
//! ```text
//!  key ──► fingerprint of q + r bits ──► quotient (high q): its bucket   remainder (low r): stored
//!
//!  slot            0    1    2    3    4    5    6    7   2^q slots, and up to 512 more for
//!  remainder     |    | a  | b  | c  | d  |    | e  |    |  entries shifted past the last
//!  is_occupied     0    1    1    0    0    0    1    0   some fingerprint has this quotient
//!  is_continuation 0    0    1    0    1    0    0    0   same quotient as the entry before
//!  is_shifted      0    0    1    1    1    0    0    0   not in its own bucket
//!                       └ run of 1 ┘ └ run 2 ┘   └ run of 6: in place
//! ```
//!
//! Fingerprints are in ascending order, each in its own bucket or right after the one before it. The
//! first bit belongs to the *bucket* and never moves; the other two move with the remainder. A lookup
//! goes left to the start of the cluster (not shifted), then right again, one run for each occupied
//! bucket on the way.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | (r + 3) / load; the load is 0.45 to 0.9, because slots are a power of two |
//! | cache lines | 1, and rarely the next |
//! | building | sorts; 8 bytes per key beside the table; fails with probability below 10^-15 |
//!
//! A non-member passes if its whole fingerprint is in the table: 1 - (1 - 2^-(q+r))^n, which is about
//! 1 - exp(-load / 2^r). Equal fingerprints are stored once per copy, so removing a member never
//! removes another one that shares its fingerprint. The fingerprints can be listed, merged with
//! another filter of any size in one pass, and moved to a table of twice the size, where the quotient
//! takes one bit from the remainder ([`Resize`]). None of this needs the keys.
//!
//! The load is at most 0.9: a search reads about load / (1 - load)^2 slots, 90 at 0.9 and 380 at
//! 0.95. Removing a false positive removes the member with the same fingerprint. Copies of a key are
//! adjacent and a search reads all of them, so the filter takes 1000; then it returns [`Full`].
//!
//! This is the plain form, and [`counting_quotient`](super::counting_quotient) is tested against it.
//! That one is smaller and faster, counts copies and takes any number of slots.
//!
//! Bender et al., *Don't Thrash: How to Cache Your Hash on Flash*, 2012, as described in slides.
//! Differences: the table does not wrap around, so slots are in the order of fingerprints; the rate is
//! exact where the slides give the bound 2^-r; the slides store a fingerprint once.

mod inspect;

use alloc::boxed::Box;

use tamis_bits::{Words, packed, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::common::sort::{BYTES_PER_KEY, CHECKED, collect_sorted};
use super::common::{TOO_SHORT, build_unsorted, has_room_for_keys, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, List, Merge, Persist, Remove, Resize};

const TABLE: Name = Name::new("table");
const MAX_QUOTIENT: u32 = 49;
const MAX_REMAINDER: u32 = 60;
/// The copies of a fingerprint that insertions accept. A search reads all of them.
const MAX_COPIES: u64 = 1000;
/// Slots past the last bucket. The run that ends there is like the queue of a server that handles one
/// entry per slot while 0.9 arrive: it is longer than d with probability e^(-0.2 d), or e^(-0.1 d) if
/// every key is inserted twice.
const MAX_TAIL: u64 = 512;

const OCCUPIED: u64 = 1;
const CONTINUATION: u64 = 2;
const SHIFTED: u64 = 4;
const FLAGS: u32 = 3;

/// The shape: the bits of the quotient and of the remainder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotientShape {
    quotient: u32,
    remainder: u32,
    keys: u64,
}

impl QuotientShape {
    /// Returns the shape with `quotient` bits of the quotient and `remainder` bits of the remainder, at
    /// most 64 in total, for `keys` keys: at most 9 for 10 of the 2^quotient slots.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(quotient: u32, remainder: u32, keys: u64) -> Result<Self, Error> {
        if quotient > MAX_QUOTIENT {
            let (asked, most) = (quotient.into(), MAX_QUOTIENT.into());
            return Err(Error::Limit { what: "bits per quotient", asked, most });
        }
        let most = MAX_REMAINDER.min(64 - quotient);
        if !(1..=most).contains(&remainder) {
            let (asked, most) = (remainder.into(), most.into());
            return Err(Error::Limit { what: "bits per remainder", asked, most });
        }
        if keys > most_keys(quotient) {
            let most = most_keys(quotient);
            return Err(Error::Limit { what: "keys for this number of slots", asked: keys, most });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { quotient, remainder, keys })
    }

    /// Returns the bits of the quotient: there are 2^quotient slots.
    pub fn quotient(&self) -> u32 {
        self.quotient
    }

    /// Returns the bits of the remainder.
    pub fn remainder(&self) -> u32 {
        self.remainder
    }

    /// Returns the shape with the fewest slots for `keys` fingerprints of `bits` bits.
    pub(super) fn of_bits(keys: u64, bits: u32) -> Result<Self, Error> {
        (bits.saturating_sub(MAX_REMAINDER)..bits.min(MAX_QUOTIENT + 1))
            .find(|quotient| most_keys(*quotient) >= keys)
            .ok_or(Error::Infeasible { why: "the fingerprints are too short for so many keys" })
            .and_then(|quotient| Self::new(quotient, bits - quotient, keys))
    }

    /// Returns the bits of a fingerprint.
    pub(super) fn bits(&self) -> u32 {
        self.quotient + self.remainder
    }

    fn buckets(&self) -> u64 {
        1 << self.quotient
    }

    fn slots(&self) -> u64 {
        self.buckets() + self.keys.min(MAX_TAIL)
    }

    fn width(&self) -> u32 {
        self.remainder + FLAGS
    }

    fn words(&self) -> u64 {
        // At most slightly more than 2^49 slots, which then have 18 bits, so no overflow.
        (self.slots() * u64::from(self.width())).div_ceil(64)
    }

    #[inline(always)]
    fn fingerprint(&self, key: KeyHash) -> u64 {
        key.hi >> (64 - self.bits())
    }

    fn split(&self, fingerprint: u64) -> (u64, u64) {
        (fingerprint >> self.remainder, fingerprint & packed::mask(self.remainder))
    }
}

fn most_keys(quotient: u32) -> u64 {
    (1 << quotient) * 9 / 10
}

impl Shape for QuotientShape {
    /// Takes the fewest slots: twice as many would save one bit of the remainder and double the rest.
    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        let quotient = (0..=MAX_QUOTIENT).find(|bits| most_keys(*bits) >= keys);
        let quotient = quotient.ok_or(Error::Infeasible { why: "the keys need too many slots" })?;
        (1..=MAX_REMAINDER.min(64 - quotient))
            .map(|remainder| Self { quotient, remainder, keys })
            .find(|shape| shape.fpr_at(keys) <= fpr)
            .ok_or(Error::Infeasible { why: "the rate needs fingerprints of more than 64 bits" })
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("q", self.quotient.into()), ("r", self.remainder.into())].into()
    }

    fn figures(&self) -> Figures {
        let load = self.keys as f64 / self.buckets() as f64;
        let read = load / (1.0 - load).powi(2);
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: tamis_bits::lines(self.words()) * 64,
            // Each slot is a branch that may be mispredicted.
            query_cost: 1.0 + read * (0.125 + f64::from(self.width()) / 512.0) + 2.5,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        let differ = (-(-f64::from(self.bits())).exp2()).ln_1p();
        if keys == 0 { 0.0 } else { -(keys as f64 * differ).exp_m1() }
    }
}

/// A quotient filter.
///
/// ```
/// use tamis::{Keyed, Quotient};
///
/// let mut fruit = Keyed::<Quotient>::with_capacity(1000, 0.001)?;
/// fruit.insert("apple")?;
/// assert!(fruit.contains("apple"));
/// assert!(fruit.remove("apple") && !fruit.contains("apple"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Quotient {
    shape: QuotientShape,
    len: u64,
    table: Words,
}

impl Quotient {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table cannot be allocated.
    pub fn new(shape: QuotientShape) -> Result<Self, Error> {
        let table = Words::zeroed(usize_words(shape.words())?)?;
        Ok(Self { shape, len: 0, table })
    }

    /// Returns the fingerprints in ascending order, each once per copy.
    pub fn fingerprints(&self) -> impl Iterator<Item = u64> {
        let mut runs = (0..self.shape.buckets()).filter(|slot| self.is(*slot, OCCUPIED));
        let mut bucket = None;
        (0..self.shape.slots()).filter(|slot| !self.is_empty(*slot)).map_while(move |slot| {
            if !self.is(slot, CONTINUATION) {
                bucket = runs.next();
            }
            Some(bucket? << self.shape.remainder | self.remainder(slot))
        })
    }

    /// Builds a table of ascending fingerprints. Calls `check` every few milliseconds.
    fn from_sorted(
        shape: &QuotientShape,
        fingerprints: impl Iterator<Item = u64>,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut filter = Self::new(shape.clone())?;
        let (mut free, mut last) = (0, None);
        for (number, fingerprint) in fingerprints.enumerate() {
            if number % CHECKED == 0 {
                check()?;
            }
            let (bucket, remainder) = shape.split(fingerprint);
            let slot = free.max(bucket);
            if slot >= shape.slots() || filter.len >= shape.keys {
                return Err(Error::Capacity { capacity: shape.keys });
            }
            filter.mark(bucket, OCCUPIED);
            filter.set_entry(slot, remainder, last == Some(bucket), slot != bucket);
            (free, last) = (slot + 1, Some(bucket));
            filter.len += 1;
        }
        Ok(filter)
    }

    /// Reads a filter of `len` keys.
    pub(super) fn read_with_len(from: &mut Reader, len: u64) -> Result<Self, Error> {
        let mut fields = from.shape()?;
        let quotient = fields.next(0..=MAX_QUOTIENT.into(), "bits per quotient")? as u32;
        let most = MAX_REMAINDER.min(64 - quotient);
        let remainder = fields.next(1..=most.into(), "bits per remainder")? as u32;
        let most = most_keys(quotient).min(crate::limits::MAX_KEYS);
        let keys = fields.next(len..=most, "capacity in keys")?;
        fields.finish()?;
        let shape = QuotientShape::new(quotient, remainder, keys)?;
        let table = from.words(TABLE, shape.words())?;
        Ok(Self { shape, len, table })
    }

    #[inline(always)]
    fn slot(&self, slot: u64) -> u64 {
        packed::get(&self.table, self.shape.width(), slot)
    }

    fn set(&mut self, slot: u64, to: u64) {
        packed::set(self.table.to_mut(), self.shape.width(), slot, to);
    }

    #[inline(always)]
    fn is(&self, slot: u64, flag: u64) -> bool {
        self.slot(slot) & flag != 0
    }

    #[inline(always)]
    fn is_empty(&self, slot: u64) -> bool {
        !self.is(slot, OCCUPIED | CONTINUATION | SHIFTED)
    }

    #[inline(always)]
    fn remainder(&self, slot: u64) -> u64 {
        self.slot(slot) >> FLAGS
    }

    fn mark(&mut self, slot: u64, flag: u64) {
        self.set(slot, self.slot(slot) | flag);
    }

    /// Stores a remainder and its flags in a slot, and keeps the slot's `is_occupied` bit.
    fn set_entry(&mut self, slot: u64, remainder: u64, continuation: bool, shifted: bool) {
        let own = self.slot(slot) & OCCUPIED;
        let flags = [(continuation, CONTINUATION), (shifted, SHIFTED)];
        let flags: u64 = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
        self.set(slot, remainder << FLAGS | flags | own);
    }

    /// Returns the slot at which the run of `bucket` starts, or would start.
    fn run_start(&self, bucket: u64) -> u64 {
        let mut at = bucket;
        while at > 0 && self.is(at, SHIFTED) {
            at -= 1;
        }
        let mut start = at;
        while at < bucket {
            start = self.run_end(start);
            at = (at + 1..bucket).find(|slot| self.is(*slot, OCCUPIED)).unwrap_or(bucket);
        }
        start
    }

    /// Returns the slot after the run that starts at `start`.
    fn run_end(&self, start: u64) -> u64 {
        let slots = self.shape.slots();
        (start + 1..slots).find(|slot| !self.is(*slot, CONTINUATION)).unwrap_or(slots)
    }

    /// Returns the run of `bucket`, which is occupied, and its first slot whose remainder is at least
    /// `remainder`.
    #[inline]
    fn find(&self, bucket: u64, remainder: u64) -> (core::ops::Range<u64>, u64) {
        let start = self.run_start(bucket);
        let run = start..self.run_end(start);
        let at = run.clone().find(|slot| self.remainder(*slot) >= remainder).unwrap_or(run.end);
        (run, at)
    }

    fn holds(&self, run: &core::ops::Range<u64>, at: u64, remainder: u64) -> bool {
        run.contains(&at) && at < self.shape.slots() && self.remainder(at) == remainder
    }

    /// Returns whether the entry at `at` is the first of [`MAX_COPIES`] with this remainder in its run.
    fn has_all_copies(&self, at: u64, remainder: u64) -> bool {
        let last = at + MAX_COPIES - 1;
        let same = |slot| self.remainder(slot) == remainder;
        last < self.shape.slots()
            && same(at)
            && same(last)
            && (at + 1..=last).all(|slot| self.is(slot, CONTINUATION))
    }

    fn prefetch(&self, key: KeyHash) {
        let (bucket, _) = self.shape.split(self.shape.fingerprint(key));
        prefetch(&self.table, (bucket * u64::from(self.shape.width()) / 64) as usize);
    }
}

impl Filter for Quotient {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let (bucket, remainder) = self.shape.split(self.shape.fingerprint(key));
        if !self.is(bucket, OCCUPIED) {
            return false;
        }
        let (run, at) = self.find(bucket, remainder);
        self.holds(&run, at, remainder)
    }

    /// Returns the insertions less the removals.
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

impl Build for Quotient {
    type Shape = QuotientShape;

    fn shape(&self) -> &QuotientShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<QuotientShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let shape = fit(0)?;
        if !has_room_for_keys(options, &shape, shape.keys, BYTES_PER_KEY) {
            return build_unsorted(options, Self::new(shape)?, keys);
        }
        let bits = shape.bits();
        let fingerprints =
            collect_sorted(options, shape.keys, keys, bits, |key| shape.fingerprint(key))?;
        let len = fingerprints.len() as u64;
        if fingerprints.windows(MAX_COPIES as usize + 1).any(|run| run.first() == run.last()) {
            return Err(Full::NONE.into());
        }
        Self::from_sorted(&shape, fingerprints.into_iter(), || options.check(0, len))
    }
}

/// Merges two ascending sequences.
fn merge_sorted(
    a: impl Iterator<Item = u64>,
    b: impl Iterator<Item = u64>,
) -> impl Iterator<Item = u64> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    core::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if y < x => b.next(),
        (None, _) => b.next(),
        _ => a.next(),
    })
}

impl Insert for Quotient {
    /// Inserts a key.
    ///
    /// # Errors
    /// [`Full`] at the capacity, and for the 1001st copy of a key.
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let (bucket, remainder) = self.shape.split(self.shape.fingerprint(key));
        let new_run = !self.is(bucket, OCCUPIED);
        let (start, at) = if new_run {
            let start = self.run_start(bucket);
            (start, start)
        } else {
            let (run, at) = self.find(bucket, remainder);
            (run.start, at)
        };
        if !new_run && self.has_all_copies(at, remainder) {
            return Err(Full::NONE);
        }
        let gap = (at..self.shape.slots()).find(|slot| self.is_empty(*slot)).ok_or(Full::NONE)?;
        // Only in a hostile file a run starts before its bucket.
        if self.len >= self.shape.keys || at < bucket {
            return Err(Full::NONE);
        }
        // All entries up to the gap move by one slot. If the new entry starts the run, the former
        // first entry becomes a continuation.
        for slot in (at..gap).rev() {
            let follows = self.is(slot, CONTINUATION) || (slot == start && !new_run);
            self.set_entry(slot + 1, self.remainder(slot), follows, true);
        }
        self.mark(bucket, OCCUPIED);
        self.set_entry(at, remainder, at != start, at != bucket);
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::prefetch)
    }
}

impl Remove for Quotient {
    fn remove(&mut self, key: KeyHash) -> bool {
        let (bucket, remainder) = self.shape.split(self.shape.fingerprint(key));
        if self.len == 0 || !self.is(bucket, OCCUPIED) {
            return false;
        }
        let (run, at) = self.find(bucket, remainder);
        if !self.holds(&run, at, remainder) {
            return false;
        }
        // All shifted entries move back by one slot, up to the first that is in its own bucket or to a
        // gap. Those that reach their bucket are no longer shifted. The second entry of a run may
        // become its first.
        let slots = self.shape.slots();
        let stop = (at + 1..slots).find(|slot| !self.is(*slot, SHIFTED)).unwrap_or(slots);
        let mut home = bucket;
        for slot in at + 1..stop {
            let leads = slot == run.start + 1 && slot < run.end;
            if slot >= run.end && !self.is(slot, CONTINUATION) {
                let next = (home + 1..slots).find(|slot| self.is(*slot, OCCUPIED));
                home = next.unwrap_or(slots);
            }
            let follows = self.is(slot, CONTINUATION) && !leads;
            self.set_entry(slot - 1, self.remainder(slot), follows, slot - 1 != home);
        }
        self.set_entry(stop - 1, 0, false, false);
        if run.end - run.start == 1 {
            self.set(bucket, self.slot(bucket) & !OCCUPIED);
        }
        self.len -= 1;
        true
    }
}

impl Merge for Quotient {
    /// Merges both tables in one pass into a new table. Filters of all sizes merge.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let bits = self.shape.bits().min(other.shape.bits());
        let shape = match self.shape == other.shape {
            true => self.shape.clone(),
            false => QuotientShape::of_bits(self.shape.keys.max(other.shape.keys), bits)?,
        };
        let [a, b] = [self, other].map(|filter| filter.shape.bits() - bits);
        let own = self.fingerprints().map(|fingerprint| fingerprint >> a);
        let others = other.fingerprints().map(|fingerprint| fingerprint >> b);
        // It checks the capacity.
        *self = Self::from_sorted(&shape, merge_sorted(own, others), || Ok(()))?;
        Ok(())
    }
}

impl List for Quotient {
    fn list(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        let mut fingerprints = self.fingerprints().peekable();
        Box::new(core::iter::from_fn(move || {
            let fingerprint = fingerprints.next()?;
            let mut copies = 1;
            while fingerprints.next_if_eq(&fingerprint).is_some() {
                copies += 1;
            }
            Some((fingerprint, copies))
        }))
    }

    fn fingerprint_bits(&self) -> u32 {
        self.shape.bits()
    }
}

impl Resize for Quotient {
    /// Twice the slots take one bit from each remainder.
    fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error> {
        if self.len > keys {
            return Err(Error::Capacity { capacity: keys });
        }
        let bits = self.shape.bits();
        let shape = match fpr {
            None => QuotientShape::of_bits(keys, bits)?,
            Some(fpr) => (1..=bits)
                .filter_map(|bits| QuotientShape::of_bits(keys, bits).ok())
                .find(|shape| shape.fpr_at(keys) <= fpr)
                .ok_or(TOO_SHORT)?,
        };
        let dropped = bits - shape.bits();
        let fingerprints = self.fingerprints().map(|fingerprint| fingerprint >> dropped);
        *self = Self::from_sorted(&shape, fingerprints, || Ok(()))?;
        Ok(())
    }
}

impl Persist for Quotient {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let QuotientShape { quotient, remainder, keys } = self.shape;
        to.shape(&[quotient.into(), remainder.into(), keys]);
        to.words(TABLE, &self.table);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        Self::read_with_len(from, from.header().keys)
    }

    /// Checks that the fingerprints are sorted, and that a table built from them is the same.
    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        if !set::ends_at(&self.table, self.shape.slots() * u64::from(self.shape.width())) {
            return corrupt("bits are set past the last slot");
        }
        if !self.fingerprints().is_sorted() {
            return corrupt("the fingerprints are not sorted");
        }
        match Self::from_sorted(&self.shape, self.fingerprints(), || Ok(())) {
            Ok(built) if built.len != self.len => {
                corrupt("the number of fingerprints does not match the header")
            }
            Ok(built) if built == *self => Ok(()),
            Ok(_) | Err(Error::Capacity { .. }) => corrupt("a fingerprint is not in its place"),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use crate::shape::{Goal, solve};
    use std::collections::BTreeMap;
    use tamis_bits::range::mix;

    fn hash(shape: &QuotientShape, fingerprint: u64) -> KeyHash {
        KeyHash { hi: fingerprint << (64 - shape.quotient - shape.remainder), lo: 0 }
    }

    /// The example of the slides: runs that shift each other and stay sorted.
    #[test]
    fn the_drawing_is_right() {
        let shape = QuotientShape::new(3, 4, 6).unwrap();
        let mut filter = Quotient::new(shape.clone()).unwrap();
        for fingerprint in [0x6e, 0x2d, 0x1b, 0x2c, 0x1a] {
            filter.insert(hash(&shape, fingerprint)).unwrap();
        }
        let slots: Vec<_> = (0..8).map(|s| (filter.remainder(s), filter.slot(s) & 7)).collect();
        let (o, c, s) = (OCCUPIED, CONTINUATION, SHIFTED);
        let expected =
            [(0, 0), (0xa, o), (0xb, o | c | s), (0xc, s), (0xd, c | s), (0, 0), (0xe, o), (0, 0)];
        assert_eq!(slots, expected);
        filter.validate().unwrap();
        assert!(filter.remove(hash(&shape, 0x1a)) && filter.remove(hash(&shape, 0x1b)));
        assert!(!filter.remove(hash(&shape, 0x1b)));
        assert_eq!(filter, from_sorted(&shape, [0x2c, 0x2d, 0x6e].into_iter()));
    }

    fn from_sorted(shape: &QuotientShape, fingerprints: impl Iterator<Item = u64>) -> Quotient {
        Quotient::from_sorted(shape, fingerprints, || Ok(())).unwrap()
    }

    /// Compares with a multiset of fingerprints, in tables so small and full that everything is
    /// shifted.
    #[test]
    fn operations_leave_the_same_table_as_a_build() {
        for seed in 0..300u64 {
            let (quotient, remainder) = (1 + (seed % 7) as u32, 1 + (mix(seed) % 5) as u32);
            let shape = QuotientShape::new(quotient, remainder, most_keys(quotient)).unwrap();
            let mut filter = Quotient::new(shape.clone()).unwrap();
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for step in 0..1000 {
                let random = mix(seed << 32 | step);
                let fingerprint = random % (shape.buckets() << remainder);
                let key = hash(&shape, fingerprint);
                let copies = model.entry(fingerprint).or_default();
                if random >> 62 > 0 {
                    let fits = filter.len() < shape.keys;
                    assert_eq!(filter.insert(key).is_ok(), fits);
                    *copies += u64::from(fits);
                } else {
                    assert_eq!(filter.remove(key), *copies > 0);
                    *copies = copies.saturating_sub(1);
                }
                assert_eq!(filter.contains(key), *copies > 0, "seed {seed}, step {step}");
                if step % 16 == 0 {
                    let all = model.iter().flat_map(|(f, n)| (0..*n).map(|_| *f));
                    assert!(filter.fingerprints().eq(all.clone()));
                    assert_eq!(filter, from_sorted(&shape, all));
                    filter.validate().unwrap();
                }
            }
        }
    }

    /// The table has slots for more keys than the capacity.
    #[test]
    fn a_union_beyond_the_capacity_is_refused() {
        let shape = QuotientShape::new(6, 9, 50).unwrap();
        let build = |keys: core::ops::Range<u64>| {
            let keys: Vec<KeyHash> = keys.map(|i| KeyHash { hi: mix(i), lo: 0 }).collect();
            Quotient::build(shape.clone(), &keys[..]).unwrap()
        };
        let mut filter = build(0..25);
        let before = filter.clone();
        assert!(matches!(filter.merge(&build(25..51)), Err(Error::Capacity { capacity: 50 })));
        assert_eq!(filter, before);
        filter.merge(&build(25..50)).unwrap();
        assert_eq!(filter, build(0..50));
    }

    #[test]
    fn a_table_of_twice_the_size_has_the_same_fingerprints() {
        let keys: Vec<KeyHash> = (0..57).map(|i| KeyHash { hi: mix(i), lo: 0 }).collect();
        let build = |shape| Quotient::build(shape, &keys[..]).unwrap();
        let first = build(QuotientShape::new(6, 9, 57).unwrap());
        let mut filter = first.clone();
        for bits in 1..=8 {
            let before: Vec<u64> = filter.fingerprints().collect();
            filter.resize(57 << bits, None).unwrap();
            filter.validate().unwrap();
            assert!(filter.fingerprints().eq(before));
            assert_eq!(filter, build(QuotientShape::new(6 + bits, 9 - bits, 57 << bits).unwrap()));
        }
        let large = filter.clone();
        assert!(matches!(filter.resize(57 << 9, None), Err(Error::Infeasible { .. })));
        assert!(matches!(filter.resize(56, None), Err(Error::Capacity { capacity: 56 })));
        assert_eq!(filter, large);
        filter.resize(57, None).unwrap();
        assert_eq!(filter, first);
        // Shorter fingerprints: those of a filter that was built with them.
        for remainder in (1..9).rev() {
            let shorter = build(QuotientShape::new(6, remainder, 57).unwrap());
            let mut filter = large.clone();
            filter.resize(57, Some(shorter.shape().figures().fpr)).unwrap();
            assert_eq!(filter, shorter);
        }
        assert!(matches!(filter.resize(57, Some(1e-9)), Err(Error::Infeasible { .. })));
    }

    #[test]
    fn filters_of_unlike_sizes_merge() {
        let keys: Vec<KeyHash> = (0..900).map(|i| KeyHash { hi: mix(i), lo: 0 }).collect();
        for (large, small) in [((10, 9), (6, 13)), ((10, 9), (6, 12)), ((10, 6), (6, 20))] {
            let [large, small] = [(large, 0..800, 921), (small, 800..857, 57)].map(
                |((quotient, remainder), range, capacity)| {
                    let shape = QuotientShape::new(quotient, remainder, capacity).unwrap();
                    Quotient::build(shape, &keys[range]).unwrap()
                },
            );
            let bits = large.shape.bits().min(small.shape.bits());
            let shape = QuotientShape::new(10, bits - 10, 921).unwrap();
            let union = Quotient::build(shape, &keys[..857]).unwrap();
            for (mut a, b) in [(large.clone(), &small), (small.clone(), &large)] {
                a.merge(b).unwrap();
                assert_eq!(a, union);
            }
            let mut much = large.clone();
            much.insert_batch(&keys[800..]).unwrap();
            let before = much.clone();
            assert!(matches!(much.merge(&small), Err(Error::Capacity { capacity: 921 })));
            assert_eq!(much, before);
        }
    }

    #[test]
    fn copies_are_listed_once() {
        let shape = QuotientShape::new(6, 9, 57).unwrap();
        let keys = [5, 7, 7, 7, 9].map(|i| KeyHash { hi: mix(i), lo: 0 });
        let filter = Quotient::build(shape.clone(), &keys[..]).unwrap();
        let mut expected: Vec<_> =
            [(5, 1), (7, 3), (9, 1)].map(|(i, n)| (mix(i) >> 49, n)).to_vec();
        expected.sort_unstable();
        assert_eq!(filter.list().collect::<Vec<_>>(), expected);
        assert_eq!(filter.fingerprint_bits(), 15);
        assert_eq!(Quotient::new(shape).unwrap().list().count(), 0);
    }

    #[test]
    fn a_run_that_does_not_fit_changes_nothing() {
        let shape = QuotientShape::new(10, 8, 900).unwrap();
        let last = KeyHash { hi: u64::MAX, lo: 0 };
        let mut filter = Quotient::new(shape).unwrap();
        let fitted = (0..900).take_while(|_| filter.insert(last).is_ok()).count() as u64;
        assert_eq!(fitted, 1 + MAX_TAIL);
        let before = filter.clone();
        assert_eq!(filter.insert(last), Err(Full::NONE));
        assert_eq!(filter, before);
        filter.validate().unwrap();
    }

    #[test]
    fn a_union_equals_a_build_of_both_sets() {
        let shape = QuotientShape::new(11, 6, 1500).unwrap();
        let build = |keys: core::ops::Range<u64>| {
            let keys: Vec<KeyHash> = keys.map(|i| KeyHash { hi: mix(i), lo: 0 }).collect();
            Quotient::build(shape.clone(), &keys[..]).unwrap()
        };
        let mut union = build(0..700);
        union.merge(&build(700..1500)).unwrap();
        assert_eq!(union, build(0..1500));
        let before = union.clone();
        assert!(matches!(union.merge(&build(0..1)), Err(Error::Capacity { capacity: 1500 })));
        assert_eq!(union, before);
    }

    /// A table with more fingerprints than its capacity, which only a damaged file has, is corrupt.
    #[test]
    fn too_many_fingerprints_are_corrupt() {
        let shape = QuotientShape::new(6, 9, 57).unwrap();
        let keys: Vec<KeyHash> = (0..57).map(|i| KeyHash { hi: mix(i), lo: 0 }).collect();
        let mut filter = Quotient::build(shape, &keys[..]).unwrap();
        (filter.shape.keys, filter.len) = (56, 56);
        let error = filter.validate().unwrap_err();
        assert!(error.to_string().contains("not in its place"), "{error}");
    }

    /// The 1001st copy of a key is refused, however large the table, and other keys still fit.
    #[test]
    fn a_thousand_copies() {
        let shape: QuotientShape =
            solve(Goal::KeysFpr { keys: 5000, fpr: 0.001 }, &Settings::default()).unwrap();
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
        let keys: Vec<KeyHash> = (0..100u64).map(|key| key.hash_with(&hasher)).collect();
        let copies = |count: u64| vec![keys[7]; count as usize];
        let mut filter = Quotient::build(shape.clone(), &keys[..]).unwrap();
        filter.insert_batch(&copies(MAX_COPIES - 1)).unwrap();
        assert_eq!(filter.insert(keys[7]), Err(Full::NONE));
        assert_eq!(filter.insert_batch(&keys[..8]), Err(Full { inserted: 7 }));
        assert!((0..MAX_COPIES).all(|_| filter.remove(keys[7])) && !filter.remove(keys[7]));
        filter.validate().unwrap();
        let built = Quotient::build(shape.clone(), &copies(MAX_COPIES)[..]).unwrap();
        assert_eq!(built.len(), MAX_COPIES);
        let refused = Quotient::build(shape, &copies(MAX_COPIES + 1)[..]);
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    }
}
