//! Hash compaction: a sorted hash table of `l`-bit fingerprints in place of keys.
//!
//! ```text
//!  key ──► fingerprint d in 1..2^l ──► home slot: proportional to the fingerprint
//!
//!  slots   0   1   2   3   4   5   6   7 …                    slots, then up to 96 more for entries
//!        | 3 |   | 9 |11 |12 |   |18 |21 | …  |   |   |   |   that are shifted past the last home
//!                  └ slot 2 is also the home of 11 and 12: each entry is in its home,
//!                    or right after the entry before it; 0 is an empty slot
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | l / 0.8, where l = log2(keys / fpr) rounded up: 34 for 10^6 keys at 1 % |
//! | cache lines | 1, and rarely the next: about 3 entries are read |
//! | building | sorts; up to 16 bytes per key beside the table; fails with probability below 10^-15 |
//!
//! A non-member passes if its fingerprint equals *any* of the n in the table. The rate is
//! n / (2^l - 1), so the fingerprints grow with the set, which makes this the largest kind for many
//! keys. Its advantages are one memory access, and a table that does not depend on the order of the
//! keys. Keys cannot be removed, because two keys may have the same fingerprint, which is stored
//! once. So a filter of n keys holds slightly fewer than n fingerprints, by a fraction of half the
//! rate.
//!
//! Wolper, Leroy, *Reliable Hashing without Collision Detection*, 1993, as described in a survey.
//! Differences: the slot follows from the fingerprint in insertions *and* lookups (the survey looks up
//! the slot of the uncompacted key, which would cause false negatives); the rate has the factor n,
//! which the survey omits; and the table is ordered (Amble, Knuth, *Ordered Hash Tables*, 1974), which
//! ends unsuccessful searches early and makes equal sets equal bytes. Linear probing does not wrap
//! around, which would break the order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tamis_bits::{Words, packed, prefetch, range, set};
use tamis_format::{Name, Reader, Writer};

use super::common::sort::{BYTES_PER_KEY, CHECKED, dedup, sort, union};
use super::common::{TOO_SHORT, build_by_inserting, has_room_for_keys, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::{KeySource, LONGEST_RUN, read_all};
use crate::traits::{Build, Filter, Insert, List, Merge, Persist, Resize};

const TABLE: Name = Name::new("table");
const MAX_SLOTS: u64 = 1 << 49;
/// Slots for every 4 keys: a load of at most 0.8. At higher loads searches quickly become long (3
/// entries at 0.8, 5.5 at 0.9), at lower loads the table is larger for little gain.
const SLOTS_FOR_FOUR: u64 = 5;
/// Slots past the last home. The run that ends there is like the queue of a server that handles one
/// entry per slot while 0.8 arrive: it is longer than d with probability e^(-0.43 d), since
/// 0.8 (e^0.43 - 1) = 0.43. 96 slots overflow in one of 10^18 tables.
const MAX_TAIL: u64 = 96;
/// The mean number of entries that a search in a full table reads: (1 + 1 / (1 - 0.8)) / 2.
const ENTRIES_READ: f64 = 3.0;

/// The shape: the number of slots, and the bits of a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashCompactionShape {
    slots: u64,
    width: u32,
    keys: u64,
}

impl HashCompactionShape {
    /// Returns the shape of `slots` home slots and fingerprints of `width` bits, for `keys` keys: at
    /// most 4 for 5 slots.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(slots: u64, width: u32, keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if slots == 0 || slots > MAX_SLOTS {
            return Err(Error::Limit { what: "slots", asked: slots, most: MAX_SLOTS });
        }
        if !(1..=64).contains(&width) {
            return Err(Error::Limit {
                what: "bits per fingerprint",
                asked: width.into(),
                most: 64,
            });
        }
        if slots < least_slots(keys) {
            let most = slots * 4 / SLOTS_FOR_FOUR;
            return Err(Error::Limit { what: "keys for this number of slots", asked: keys, most });
        }
        Ok(Self { slots, width, keys })
    }

    /// Returns the shape with the fewest slots for `keys` fingerprints of `width` bits.
    fn of_width(width: u32, keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        Self::new(least_slots(keys), width, keys)
    }

    /// Returns the number of home slots.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the bits of a fingerprint.
    pub fn width(&self) -> u32 {
        self.width
    }

    fn all_slots(&self) -> u64 {
        self.slots + self.keys.min(MAX_TAIL)
    }

    fn words(&self) -> u64 {
        // At most 64 times slightly more than 2^49, so no overflow.
        (self.all_slots() * u64::from(self.width)).div_ceil(64)
    }

    /// Returns the fingerprint of a key, which is never 0.
    #[inline(always)]
    fn fingerprint(&self, key: KeyHash) -> u64 {
        range::scale(key.hi, packed::mask(self.width)) + 1
    }

    /// Returns the home slot of a fingerprint. It does not decrease as the fingerprint grows.
    #[inline(always)]
    fn home(&self, fingerprint: u64) -> u64 {
        range::scale((fingerprint - 1) << (64 - self.width), self.slots)
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
            .ok_or(Error::Infeasible { why: "the rate needs fingerprints of more than 64 bits" })
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("slots", self.slots.into()), ("f", self.width.into())].into()
    }

    fn figures(&self) -> Figures {
        // A few keys have the same fingerprint, so this is the probability that a non-member has
        // that of any key.
        let miss = (-1.0 / packed::mask(self.width) as f64).ln_1p();
        Figures {
            keys: self.keys,
            fpr: if self.keys == 0 { 0.0 } else { -(self.keys as f64 * miss).exp_m1() },
            bytes: tamis_bits::lines(self.words()) * 64,
            // Each entry is a branch that may be mispredicted.
            query_cost: 1.0 + ENTRIES_READ * (0.125 + f64::from(self.width) / 512.0) + 2.5,
        }
    }

    /// Returns the rate with `keys` distinct fingerprints, which is what the filter counts.
    fn fpr_at(&self, keys: u64) -> f64 {
        (keys as f64 / packed::mask(self.width) as f64).min(1.0)
    }
}

/// A table of fingerprints.
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

/// The result of a search for a fingerprint.
enum Found {
    Present,
    /// The slot at which it would be inserted.
    Absent(u64),
}

impl HashCompaction {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table cannot be allocated.
    pub fn new(shape: HashCompactionShape) -> Result<Self, Error> {
        let table = Words::zeroed(usize_words(shape.words())?)?;
        Ok(Self { shape, len: 0, table })
    }

    /// Builds a table of ascending fingerprints. Calls `check` every few milliseconds.
    fn from_sorted(
        shape: &HashCompactionShape,
        fingerprints: impl Iterator<Item = u64>,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut filter = Self::new(shape.clone())?;
        let table = filter.table.to_mut();
        let mut free = 0;
        for (number, fingerprint) in fingerprints.enumerate() {
            if number % CHECKED == 0 {
                check()?;
            }
            let slot = free.max(shape.home(fingerprint));
            if slot >= shape.all_slots() || filter.len >= shape.keys {
                return Err(Error::Capacity { capacity: shape.keys });
            }
            packed::set(table, shape.width, slot, fingerprint);
            filter.len += 1;
            free = slot + 1;
        }
        Ok(filter)
    }

    #[inline(always)]
    fn slot(&self, slot: u64) -> u64 {
        packed::get(&self.table, self.shape.width, slot)
    }

    /// Returns the fingerprints in ascending order.
    fn fingerprints(&self) -> impl Iterator<Item = u64> {
        (0..self.shape.all_slots())
            .map(|slot| self.slot(slot))
            .filter(|fingerprint| *fingerprint != 0)
    }

    /// Skips smaller fingerprints up to a larger one, an empty slot or the end.
    #[inline(always)]
    fn find(&self, fingerprint: u64) -> Found {
        let end = self.shape.all_slots();
        let mut slot = self.shape.home(fingerprint);
        while slot < end {
            let entry = self.slot(slot);
            if entry == fingerprint {
                return Found::Present;
            }
            if entry == 0 || entry > fingerprint {
                break;
            }
            slot += 1;
        }
        Found::Absent(slot)
    }

    #[inline(always)]
    fn prefetch_home(&self, key: KeyHash) {
        let bit = self.shape.home(self.shape.fingerprint(key)) * u64::from(self.shape.width);
        prefetch(&self.table, (bit / 64) as usize);
    }
}

impl Filter for HashCompaction {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        matches!(self.find(self.shape.fingerprint(key)), Found::Present)
    }

    /// Returns the number of distinct fingerprints.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.table.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        super::common::contains_prefetching(self, keys, out, Self::prefetch_home);
    }
}

impl Build for HashCompaction {
    type Shape = HashCompactionShape;

    fn shape(&self) -> &HashCompactionShape {
        &self.shape
    }

    /// Sorts the fingerprints and stores them in one pass. They are sorted and deduplicated whenever
    /// there are twice as many as the capacity, so with any number of duplicates the build takes 16
    /// bytes per key of the shape, and 8 bytes per key of the run that is being read.
    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<HashCompactionShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let shape = fit(0)?;
        let capacity = shape.keys;
        // Twice the capacity and a run, before duplicates are dropped.
        let most = 2 * capacity + LONGEST_RUN as u64;
        if !has_room_for_keys(options, &shape, most, BYTES_PER_KEY) {
            return build_by_inserting(options, Self::new(shape)?, keys);
        }
        let check = || options.check(0, capacity);
        let distinct = |fingerprints: &mut Vec<u64>| {
            sort(fingerprints, 64, check)?;
            dedup(fingerprints, check)?;
            if fingerprints.len() as u64 > capacity {
                Err(Error::Capacity { capacity })
            } else {
                Ok(())
            }
        };
        let mut fingerprints = Vec::new();
        read_all(options, keys, |run| {
            fingerprints.extend(run.iter().map(|key| shape.fingerprint(*key)));
            if fingerprints.len() as u64 > capacity * 2 {
                distinct(&mut fingerprints)?;
            }
            Ok(())
        })?;
        distinct(&mut fingerprints)?;
        Self::from_sorted(&shape, fingerprints.into_iter(), check)
    }
}

impl Insert for HashCompaction {
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let mut fingerprint = self.shape.fingerprint(key);
        let Found::Absent(place) = self.find(fingerprint) else { return Ok(()) };
        let mut free = place..self.shape.all_slots();
        let free = free.find(|slot| self.slot(*slot) == 0).ok_or(Full::NONE)?;
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        // All entries up to the gap move by one slot and stay consecutive.
        let (width, table) = (self.shape.width, self.table.to_mut());
        for slot in place..=free {
            let next = packed::get(table, width, slot);
            packed::set(table, width, slot, fingerprint);
            fingerprint = next;
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::prefetch_home)
    }
}

impl Merge for HashCompaction {
    /// Merges both tables in one pass into a new table. The fingerprints must be as long; the numbers of
    /// slots may differ.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let shape = match &self.shape {
            shape if *shape == other.shape => shape.clone(),
            HashCompactionShape { width, keys, .. } if *width == other.shape.width => {
                HashCompactionShape::of_width(*width, other.shape.keys.max(*keys))?
            }
            _ => return Err(Error::Mismatch { what: "shape" }),
        };
        let union = union(self.fingerprints(), other.fingerprints());
        *self = Self::from_sorted(&shape, union, || Ok(()))?;
        Ok(())
    }
}

impl List for HashCompaction {
    fn list(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        Box::new(self.fingerprints().map(|fingerprint| (fingerprint, 1)))
    }

    fn fingerprint_bits(&self) -> u32 {
        self.shape.width
    }
}

impl Resize for HashCompaction {
    fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error> {
        if self.len > keys {
            return Err(Error::Capacity { capacity: keys });
        }
        let shape = HashCompactionShape::of_width(self.shape.width, keys)?;
        if fpr.is_some_and(|fpr| shape.fpr_at(keys) > fpr) {
            return Err(TOO_SHORT);
        }
        *self = Self::from_sorted(&shape, self.fingerprints(), || Ok(()))?;
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
        let width = fields.next(1..=64, "bits per fingerprint")?;
        let most = MAX_KEYS.min(slots * 4 / SLOTS_FOR_FOUR);
        let keys = fields.next(len..=most, "capacity in keys")?;
        fields.finish()?;
        let shape = HashCompactionShape::new(slots, width as u32, keys)?;
        let table = from.words(TABLE, shape.words())?;
        Ok(Self { shape, len, table })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let end = self.shape.all_slots();
        if !set::ends_at(&self.table, end * u64::from(self.shape.width)) {
            return corrupt("bits are set past the last slot");
        }
        let (mut last, mut free, mut len) = (0, 0, 0u64);
        for slot in 0..end {
            let fingerprint = self.slot(slot);
            if fingerprint == 0 {
                continue;
            }
            if fingerprint <= last {
                return corrupt("the fingerprints are not sorted");
            }
            if slot != free.max(self.shape.home(fingerprint)) {
                return corrupt("a fingerprint is not in its place");
            }
            (last, free, len) = (fingerprint, slot + 1, len + 1);
        }
        if len != self.len {
            return corrupt("the number of fingerprints does not match the header");
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

    /// The table does not depend on the order of the keys, at all widths and sizes of a few lines.
    #[test]
    fn the_order_of_keys_does_not_matter() {
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
    fn a_union_equals_a_build_of_both_sets() {
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
    fn a_table_of_another_size_has_the_same_fingerprints() {
        let keys = hashes(1, 0..1500);
        let build = |keys: &[KeyHash], capacity| {
            let shape = HashCompactionShape::of_width(20, capacity).unwrap();
            HashCompaction::build(shape, keys).unwrap()
        };
        let first = build(&keys[..1000], 1000);
        let mut filter = first.clone();
        for capacity in [1001, 7000, 1000] {
            filter.resize(capacity, Some(0.01)).unwrap();
            assert_eq!(filter, build(&keys[..1000], capacity));
        }
        assert!(matches!(filter.resize(900, None), Err(Error::Capacity { capacity: 900 })));
        assert!(matches!(filter.resize(1000, Some(1e-6)), Err(Error::Infeasible { .. })));
        assert_eq!(filter, first);
        assert!(filter.list().eq(filter.fingerprints().map(|fingerprint| (fingerprint, 1))));
        filter.merge(&build(&keys[500..], 1600)).unwrap();
        assert_eq!(filter, build(&keys, 1600));
        let other = HashCompactionShape::of_width(21, 1600).unwrap();
        let other = HashCompaction::new(other).unwrap();
        assert!(matches!(filter.merge(&other), Err(Error::Mismatch { what: "shape" })));
    }

    /// Two fingerprints that are both past their homes can change places unnoticed, but for their order.
    #[test]
    fn fingerprints_out_of_order_are_refused() {
        let shape = HashCompactionShape::new(least_slots(500), 20, 500).unwrap();
        let filter = HashCompaction::build(shape.clone(), &hashes(6, 0..500)[..]).unwrap();
        let displaced =
            |slot: u64| filter.slot(slot) != 0 && shape.home(filter.slot(slot)) < slot.max(1) - 1;
        let pairs: Vec<u64> = (0..shape.all_slots() - 1)
            .filter(|slot| displaced(*slot) && displaced(slot + 1))
            .collect();
        assert!(pairs.len() > 10, "{} pairs", pairs.len());
        for slot in pairs {
            for (first, second) in [(slot + 1, slot), (slot, slot)] {
                let mut changed = filter.clone();
                let [low, high] = [first, second].map(|from| filter.slot(from));
                packed::set(changed.table.to_mut(), shape.width, slot, low);
                packed::set(changed.table.to_mut(), shape.width, slot + 1, high);
                let error = changed.validate().unwrap_err().to_string();
                assert!(error.contains("not sorted"), "{error}");
            }
        }
    }

    #[test]
    fn full_changes_nothing() {
        let shape = HashCompactionShape::new(200, 30, 100).unwrap();
        let keys = hashes(3, 0..101);
        let mut filter = HashCompaction::build(shape.clone(), &keys[..100]).unwrap();
        let before = filter.clone();
        assert_eq!(filter.insert(keys[100]), Err(Full::NONE));
        assert_eq!(filter.insert(keys[7]), Ok(()), "copies take no slot");
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
        assert!(matches!(HashCompaction::build(shape, &many[..]), Err(Error::Capacity { .. })));
    }

    /// The rate is n / (2^l - 1), not 2^-l.
    #[test]
    fn the_rate_grows_with_the_keys() {
        const NON_MEMBERS: u64 = 1_000_000;
        for (keys, width) in [(1000, 16), (4000, 16), (4000, 20)] {
            let shape = HashCompactionShape::new(least_slots(keys), width, keys).unwrap();
            let filter = HashCompaction::build(shape, &hashes(4, 0..keys)[..]).unwrap();
            let expected = filter.shape.fpr_at(filter.len()) * NON_MEMBERS as f64;
            let non_members = hashes(4, 1 << 40..(1 << 40) + NON_MEMBERS);
            let passed = non_members.iter().filter(|key| filter.contains(**key)).count() as f64;
            assert!((passed - expected).abs() < 5.0 * expected.sqrt(), "{passed}, not {expected}");
        }
    }

    #[test]
    fn duplicates_are_dropped_while_reading() {
        let keys = hashes(5, 0..1000);
        let shape = HashCompactionShape::new(least_slots(1000), 40, 1000).unwrap();
        let many = crate::source::Hashes::new(keys.iter().copied().cycle().take(1_000_000));
        let filter = HashCompaction::build(shape.clone(), many).unwrap();
        assert_eq!(filter, HashCompaction::build(shape, &keys[..]).unwrap());
    }
}
