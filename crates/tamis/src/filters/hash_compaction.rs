//! Hash compaction: a sorted hash table of `l`-bit digests instead of keys.
//!
//! ```text
//!  key ──► digest d in 1..2^l ──► home slot: the slots share out the digests in order
//!
//!  slots   0   1   2   3   4   5   6   7 …                    slots, then up to 96 more for what
//!        | 3 |   | 9 |11 |12 |   |18 |21 | …  |   |   |   |   is pushed past the last home
//!                  └ 11 and 12 have slot 2 for home too: each entry lies in its home,
//!                    or right after the one before it; 0 is an empty slot
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | l / 0.8, where l = log2(keys / fpr) rounded up: 34 for a million keys at 1 % |
//! | cache lines | 1, and rarely the next: about 3 entries are read |
//! | building | sorts; up to 16 bytes a key beside the table; fails with less than 10^-15 |
//!
//! A stranger passes if its digest equals *any* of the n in the table: the rate is n / (2^l - 1),
//! so the digests must grow with the set. That makes it the dearest kind here at scale. What it
//! has for that: one memory access, and a table that is the same whatever order the keys came in.
//! It cannot forget a key: two keys may share a digest, and it keeps each digest once. Built from
//! n keys it so holds a little less than n, by a share of half the rate.
//!
//! Wolper, Leroy, *Reliable Hashing without Collision Detection*, 1993, by way of a survey.
//! Differences: the slot follows from the digest when inserting *and* when asking (the survey asks
//! at the slot of the uncompacted key, and would deny members); the rate has the factor n, which
//! the survey drops; and the table is ordered (Amble, Knuth, *Ordered Hash Tables*, 1974), which
//! ends a failing search early and makes equal sets equal bytes. Linear probing does not wrap
//! around, which would break the order.

use alloc::vec::Vec;

use tamis_bits::{Words, packed, prefetch, range, set};
use tamis_format::{Name, Reader, Writer};

use super::common::sort::sort;
use super::common::{check_same, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::{KeySource, read_keys};
use crate::traits::{Build, Filter, Insert, Merge, Persist};

const TABLE: Name = Name::new("table");
const MAX_SLOTS: u64 = 1 << 49;
/// Slots for every 4 keys: a load of at most 0.8. Higher up searches grow long quickly (3 entries
/// at 0.8, 5.5 at 0.9), lower down the table grows for little.
const SLOTS_FOR_FOUR: u64 = 5;
/// Slots past the last home. The run that ends there is the queue of a server that takes one entry
/// a slot while 0.8 arrive: longer than d with about e^(-0.43 d), since 0.8 (e^0.43 - 1) = 0.43.
/// 96 overflow once in 10^18 tables.
const MAX_TAIL: u64 = 96;
/// Entries that a search reads, on average, in a full table: (1 + 1 / (1 - 0.8)) / 2.
const ENTRIES_READ: f64 = 3.0;

/// A number of slots, and bits of a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashCompactionShape {
    slots: u64,
    width: u32,
    keys: u64,
}

impl HashCompactionShape {
    /// A shape by hand: this many home slots, bits of a digest, made for this many keys, of which
    /// there must be at most 4 for 5 slots.
    pub fn new(slots: u64, width: u32, keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if slots == 0 || slots > MAX_SLOTS {
            return Err(Error::Limit { what: "slots", asked: slots, most: MAX_SLOTS });
        }
        if !(1..=64).contains(&width) {
            return Err(Error::Limit { what: "bits a digest", asked: width.into(), most: 64 });
        }
        if slots < least_slots(keys) {
            let most = slots * 4 / SLOTS_FOR_FOUR;
            return Err(Error::Limit { what: "keys in so few slots", asked: keys, most });
        }
        Ok(Self { slots, width, keys })
    }

    /// Slots that are some digest's home.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Bits of a digest.
    pub fn width(&self) -> u32 {
        self.width
    }

    fn all_slots(&self) -> u64 {
        self.slots + self.keys.min(MAX_TAIL)
    }

    fn words(&self) -> u64 {
        // At most 64 times 2^49 and a little: no overflow.
        (self.all_slots() * u64::from(self.width)).div_ceil(64)
    }

    /// What the table remembers of a key: never 0.
    #[inline(always)]
    fn digest(&self, key: KeyHash) -> u64 {
        range::scale(key.hi, packed::mask(self.width)) + 1
    }

    /// Where a digest belongs; larger digests belong there or further on.
    #[inline(always)]
    fn home(&self, digest: u64) -> u64 {
        range::scale((digest - 1) << (64 - self.width), self.slots)
    }
}

fn least_slots(keys: u64) -> u64 {
    (keys * SLOTS_FOR_FOUR).div_ceil(4).max(1)
}

impl Shape for HashCompactionShape {
    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        let slots = least_slots(keys);
        (1..=64)
            .map(|width| Self { slots, width, keys })
            .find(|shape| shape.fpr_at(keys) <= fpr)
            .ok_or(Error::Infeasible { why: "that takes digests of more than 64 bits" })
    }

    fn figures(&self) -> Figures {
        // Of so many keys a few share a digest: the chance that a stranger shares one with any.
        let miss = (-1.0 / packed::mask(self.width) as f64).ln_1p();
        Figures {
            keys: self.keys,
            fpr: if self.keys == 0 { 0.0 } else { -(self.keys as f64 * miss).exp_m1() },
            bytes: tamis_bits::lines(self.words()) * 64,
            // Entry after entry, each a branch that may be guessed wrong.
            query_cost: 1.0 + ENTRIES_READ * (0.125 + f64::from(self.width) / 512.0) + 2.5,
        }
    }

    /// Of entries: the filter counts distinct digests.
    fn fpr_at(&self, keys: u64) -> f64 {
        (keys as f64 / packed::mask(self.width) as f64).min(1.0)
    }
}

/// A table of digests.
///
/// ```
/// use tamis::{HashCompaction, Keyed};
///
/// let fruit = Keyed::<HashCompaction>::build(["apple", "pear"], 1e-6)?;
/// assert!(fruit.contains("pear") && !fruit.contains("stone"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HashCompaction {
    shape: HashCompactionShape,
    len: u64,
    table: Words,
}

/// Where a digest is, or would go.
enum Found {
    There,
    Not(u64),
}

impl HashCompaction {
    /// An empty filter.
    pub fn new(shape: HashCompactionShape) -> Result<Self, Error> {
        let table = Words::zeroed(usize_words(shape.words())?)?;
        Ok(Self { shape, len: 0, table })
    }

    /// A table of these digests, which ascend.
    fn of(shape: &HashCompactionShape, digests: impl Iterator<Item = u64>) -> Result<Self, Error> {
        let mut filter = Self::new(shape.clone())?;
        let table = filter.table.to_mut();
        let mut free = 0;
        for digest in digests {
            let slot = free.max(shape.home(digest));
            if slot >= shape.all_slots() || filter.len >= shape.keys {
                return Err(Error::Capacity { capacity: shape.keys });
            }
            packed::set(table, shape.width, slot, digest);
            filter.len += 1;
            free = slot + 1;
        }
        Ok(filter)
    }

    #[inline(always)]
    fn slot(&self, slot: u64) -> u64 {
        packed::get(&self.table, self.shape.width, slot)
    }

    /// The digests, in order.
    fn digests(&self) -> impl Iterator<Item = u64> {
        (0..self.shape.all_slots()).map(|slot| self.slot(slot)).filter(|digest| *digest != 0)
    }

    /// Passes the smaller ones; what is larger, or empty, or the end is where it would go.
    #[inline(always)]
    fn find(&self, digest: u64) -> Found {
        let end = self.shape.all_slots();
        let mut slot = self.shape.home(digest);
        while slot < end {
            let entry = self.slot(slot);
            if entry == digest {
                return Found::There;
            }
            if entry == 0 || entry > digest {
                break;
            }
            slot += 1;
        }
        Found::Not(slot)
    }

    #[inline(always)]
    fn fetch(&self, key: KeyHash) {
        let bit = self.shape.home(self.shape.digest(key)) * u64::from(self.shape.width);
        prefetch(&self.table, (bit / 64) as usize);
    }
}

/// Two ascending sequences as one, without what is in both twice.
fn union(a: impl Iterator<Item = u64>, b: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    core::iter::from_fn(move || {
        let least = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => *a.min(b),
            (a, b) => *a.or(b)?,
        };
        a.next_if_eq(&least);
        b.next_if_eq(&least);
        Some(least)
    })
}

impl Filter for HashCompaction {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        matches!(self.find(self.shape.digest(key)), Found::There)
    }

    /// Distinct digests.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        super::common::contains_batch(self, keys, out, Self::fetch);
    }
}

impl Build for HashCompaction {
    type Shape = HashCompactionShape;

    fn shape(&self) -> &HashCompactionShape {
        &self.shape
    }

    /// Sorts the digests and lays them down in one pass. They are sorted and thinned out whenever
    /// there are twice as many as the table is for: however many duplicates there are, that takes
    /// 16 bytes a key of the shape, and 8 for each of the run that is being read.
    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<HashCompactionShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let shape = fit(0)?;
        let capacity = shape.keys;
        let distinct = |digests: &mut Vec<u64>| {
            sort(digests, 64, || options.check(0, capacity))?;
            digests.dedup();
            if digests.len() as u64 > capacity { Err(Error::Capacity { capacity }) } else { Ok(()) }
        };
        let mut digests = Vec::new();
        read_keys(options, keys, |run| {
            digests.extend(run.iter().map(|key| shape.digest(*key)));
            if digests.len() as u64 > capacity * 2 {
                distinct(&mut digests)?;
            }
            Ok(())
        })?;
        distinct(&mut digests)?;
        Self::of(&shape, digests.into_iter())
    }
}

impl Insert for HashCompaction {
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let mut digest = self.shape.digest(key);
        let Found::Not(place) = self.find(digest) else { return Ok(()) };
        let mut free = place..self.shape.all_slots();
        let free = free.find(|slot| self.slot(*slot) == 0).ok_or(Full::NONE)?;
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        // Everything up to the gap moves on by one: it lay in a row, and still does.
        let (width, table) = (self.shape.width, self.table.to_mut());
        for slot in place..=free {
            let next = packed::get(table, width, slot);
            packed::set(table, width, slot, digest);
            digest = next;
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::fetch)
    }
}

impl Merge for HashCompaction {
    /// One pass over both in order, into a table of its own.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        *self = Self::of(&self.shape, union(self.digests(), other.digests()))?;
        Ok(())
    }
}

impl Persist for HashCompaction {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.slots, self.shape.width.into(), self.shape.keys]);
        to.words(TABLE, &self.table);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let slots = fields.next(1..=MAX_SLOTS, "number of slots")?;
        let width = fields.next(1..=64, "bits a digest")?;
        let most = MAX_KEYS.min(slots * 4 / SLOTS_FOR_FOUR);
        let keys = fields.next(len..=most, "keys it is made for")?;
        fields.finish()?;
        let shape = HashCompactionShape::new(slots, width as u32, keys)?;
        let table = from.words(TABLE, shape.words())?;
        Ok(Self { shape, len, table })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let end = self.shape.all_slots();
        if !set::ends_at(&self.table, end * u64::from(self.shape.width)) {
            return corrupt("bits are set past the end");
        }
        let (mut last, mut free, mut len) = (0, 0, 0u64);
        for slot in 0..end {
            let digest = self.slot(slot);
            if digest == 0 {
                continue;
            }
            if digest <= last {
                return corrupt("digests are out of order");
            }
            if slot != free.max(self.shape.home(digest)) {
                return corrupt("a digest is not in its place");
            }
            (last, free, len) = (digest, slot + 1, len + 1);
        }
        if len != self.len {
            return corrupt("the table does not hold as many keys as the header says");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use tamis_bits::range::mix;

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 3]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    fn shuffle(keys: &mut [KeyHash], seed: u64) {
        for i in (1..keys.len()).rev() {
            keys.swap(i, (mix(seed << 32 | i as u64) % (i as u64 + 1)) as usize);
        }
    }

    /// All widths, all sizes about a line, and every load up to the last key.
    #[test]
    fn the_order_of_keys_leaves_no_trace() {
        for seed in 0..200u64 {
            let count = mix(seed) % 300;
            let width = 1 + (mix(seed + 999) % 64) as u32;
            let shape = HashCompactionShape::new(least_slots(count), width, count).unwrap();
            let mut keys = hashes(seed, 0..count);
            let built = HashCompaction::build(shape.clone(), &keys[..]).unwrap();
            built.validate().unwrap();
            for round in 0..3 {
                shuffle(&mut keys, seed + round);
                let mut filter = HashCompaction::new(shape.clone()).unwrap();
                for key in &keys {
                    filter.insert(*key).unwrap();
                    assert!(filter.contains(*key));
                }
                filter.validate().unwrap();
                assert_eq!(filter, built, "seed {seed}");
                filter.insert_batch(&keys).unwrap();
                assert_eq!(filter, built, "inserting again changes nothing");
            }
        }
    }

    #[test]
    fn a_union_is_built_of_both() {
        let shape = HashCompactionShape::new(least_slots(1500), 14, 1500).unwrap();
        let build = |keys: &[KeyHash]| HashCompaction::build(shape.clone(), keys).unwrap();
        let keys = hashes(1, 0..1500);
        let mut union = build(&keys[..1000]);
        union.merge(&build(&keys[500..])).unwrap();
        assert_eq!(union, build(&keys));
        let before = union.clone();
        let others = build(&hashes(2, 0..1500));
        assert!(matches!(union.merge(&others), Err(Error::Capacity { capacity: 1500 })));
        assert_eq!(union, before);
    }

    #[test]
    fn full_changes_nothing() {
        let shape = HashCompactionShape::new(200, 30, 100).unwrap();
        let keys = hashes(3, 0..101);
        let mut filter = HashCompaction::build(shape.clone(), &keys[..100]).unwrap();
        let before = filter.clone();
        assert_eq!(filter.insert(keys[100]), Err(Full::NONE));
        assert_eq!(filter.insert(keys[7]), Ok(()), "what is in takes no place");
        assert_eq!(filter, before);
        let built = HashCompaction::build(shape, &keys[..]);
        assert!(matches!(built, Err(Error::Capacity { capacity: 100 })));

        // No room past the last home: 97 keys whose home is the last slot.
        let shape = HashCompactionShape::new(1000, 30, 800).unwrap();
        let last = |n: u64| KeyHash { hi: u64::MAX - (n << 40), lo: 0 };
        let mut filter = HashCompaction::new(shape.clone()).unwrap();
        (0..97).for_each(|n| filter.insert(last(n)).unwrap());
        let before = filter.clone();
        assert_eq!(filter.insert(last(97)), Err(Full::NONE));
        assert_eq!(filter, before);
        let many: Vec<KeyHash> = (0..98).map(last).collect();
        assert!(matches!(HashCompaction::build(shape, &many[..]), Err(Error::Full { .. })));
    }

    /// The error is n / (2^l - 1), not 2^-l.
    #[test]
    fn the_rate_grows_with_the_keys() {
        const STRANGERS: u64 = 1_000_000;
        for (keys, width) in [(1000, 16), (4000, 16), (4000, 20)] {
            let shape = HashCompactionShape::new(least_slots(keys), width, keys).unwrap();
            let filter = HashCompaction::build(shape, &hashes(4, 0..keys)[..]).unwrap();
            let expected = filter.shape.fpr_at(filter.len()) * STRANGERS as f64;
            let strangers = hashes(4, 1 << 40..(1 << 40) + STRANGERS);
            let passed = strangers.iter().filter(|key| filter.contains(**key)).count() as f64;
            assert!((passed - expected).abs() < 5.0 * expected.sqrt(), "{passed}, not {expected}");
        }
    }

    #[test]
    fn duplicates_are_thinned_out_on_the_way() {
        let keys = hashes(5, 0..1000);
        let shape = HashCompactionShape::new(least_slots(1000), 40, 1000).unwrap();
        let many = crate::source::Hashes::new(keys.iter().copied().cycle().take(1_000_000));
        let filter = HashCompaction::build(shape.clone(), many).unwrap();
        assert_eq!(filter, HashCompaction::build(shape, &keys[..]).unwrap());
    }
}
