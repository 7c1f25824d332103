//! The adaptive cuckoo filter: a cuckoo filter that gives the members of a false positive another fingerprint.
//!
//! ```text
//!  hash.hi ──► bucket i of the left half   ┐ a cuckoo filter whose right bucket
//!  hash.lo ──► 7 bits c, not zero          ┘ depends on i and c only
//!
//!  a slot      │ selector s: 2 bits │ fingerprint s of the key: a bits │ c: 7 bits │     0 = empty
//!
//!  class       i and c: 1 key in 16 shares its class with another; all slots of a class have one selector
//! ```
//!
//! A query compares c and the fingerprint that the slot's selector names. A reported false positive advances the
//! selector of its class, and the members of the class, which the store names, get their fingerprints under the
//! new selector. After 4 changes the first fingerprint is back, with all its false positives.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | (a + 9) / 0.955 at a rate of 7.7 · 2^-(a + 7): 2.1 more than [`cuckoo`](super::cuckoo) |
//! | rate | of a new non-member exactly that; of non-members that are repeated, see below |
//! | cache lines | 2 for members and non-members |
//! | building | as in the cuckoo filter |
//! | repair | reads the members of one left bucket: 7.6 on average |
//!
//! **It does not keep its rate against an adversary.** The paper on [`broom`](super::broom) calls a filter adaptive
//! if every query is a false positive with probability at most eps, whatever came before. This one forgets: if a
//! member has several false positives that are queried again and again, each repair of one may bring back another.
//! At a rate of 1/256, half of the queries repeating one of a set of former false positives, those are accepted at
//! 0.002 of the stated rate if the set has 0.01 keys per member, at 1.4 times the rate with 0.1, 14 times with 1 and 49
//! times with 3 (broom: 0.14 with 3; `lab/adaptive/forgetting.csv`). It suits traffic whose repeated non-members are few
//! and chosen without knowledge of the answers, for example packets of flows.
//!
//! All slots of a class have the same selector so that keys can be removed: two slots that match a key are then
//! equal, and either can be removed. With a selector for each slot, the slot of another key could match, and its
//! removal would deny that key.
//!
//! Mitzenmacher, Pontarelli, Reviriego, *Adaptive Cuckoo Filters*, 2018. Differences: in the paper the filter
//! mirrors a cuckoo hash table slot by slot, and a key's two buckets are independent hashes of it, so the store must
//! be that table. Here any store can name the members of a range of hashes, and a slot can move without its key.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::range::{mix, scale};
use tamis_format::{Reader, Writer};

use super::adaptive_bloom::piece;
use super::common::{self, build_by_inserting};
use super::cuckoo::{Class, Cuckoo, CuckooShape, LOAD, MAX_BUCKETS, SLOTS, SPARE};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair};

/// Bits of a slot that name the fingerprint function.
const SELECTOR_BITS: u32 = 2;
const SELECTORS: u64 = 1 << SELECTOR_BITS;
/// Bits of a slot that select the right bucket and do not change. Fewer would make longer chains of moves, more
/// leave fewer bits to change.
const CLASS_BITS: u32 = 7;
const CLASSES: u64 = (1 << CLASS_BITS) - 1;
/// The fingerprint bits that change. With 1 bit, half of the repairs would need another selector.
const WIDTHS: RangeInclusive<u32> = 1..=23;

const WIDTH: Setting =
    Setting::new("f", "1 to 23 fingerprint bits that change; default: derived from the rate");

/// The size of the table: a cuckoo filter whose slots have 2 bits for the selector, `f` for the fingerprint that it
/// names and 7 that do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveCuckooShape {
    table: CuckooShape,
    keys: u64,
}

impl AdaptiveCuckooShape {
    /// Returns a shape of `buckets` buckets, an even number, with four fingerprints of `width` bits that change, for
    /// `keys` keys.
    ///
    /// # Errors
    /// [`Error::Limit`] if a parameter is out of range or the buckets have fewer than `keys` slots.
    pub fn new(buckets: u64, width: u32, keys: u64) -> Result<Self, Error> {
        if !WIDTHS.contains(&width) {
            let most = u64::from(*WIDTHS.end());
            return Err(Error::Limit { what: "fingerprint bits", asked: width.into(), most });
        }
        // A repair may insert members that the filter lacks, beyond its capacity.
        CuckooShape::new(buckets, width + CLASS_BITS + SELECTOR_BITS, keys)?;
        let slots = MAX_KEYS.min(buckets * SLOTS);
        let table = CuckooShape::new(buckets, width + CLASS_BITS + SELECTOR_BITS, slots)?;
        Ok(Self { table, keys })
    }

    /// Returns the number of fingerprint bits that change.
    pub fn width(&self) -> u32 {
        self.table.width() - CLASS_BITS - SELECTOR_BITS
    }

    /// Returns the number of buckets of four slots.
    pub fn buckets(&self) -> u64 {
        self.table.buckets()
    }

    /// Returns the probability that a non-member is mistaken for a given key.
    fn share(&self) -> f64 {
        let classes = CLASSES as f64 * (self.buckets() / 2) as f64;
        1.0 / (classes * f64::from(self.width()).exp2())
    }

    /// Returns the smallest number of buckets that holds `keys` keys at `fpr`.
    fn min_buckets(width: u32, keys: u64, fpr: f64) -> u64 {
        let room = (keys as f64 / (LOAD * SLOTS as f64)).ceil() + SPARE;
        // fpr = 1 - (1 - share)^keys, solved for the buckets.
        let share = -((-fpr).ln_1p() / keys.max(1) as f64).exp_m1();
        let pairs = (1.0 / (share * CLASSES as f64 * f64::from(width).exp2())).ceil();
        let buckets = room.max(pairs * 2.0).clamp(2.0, MAX_BUCKETS as f64 * 2.0);
        (buckets as u64).next_multiple_of(2)
    }
}

impl Shape for AdaptiveCuckooShape {
    const SETTINGS: &'static [Setting] = &[WIDTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let widths = match settings.number(&WIDTH, |f| WIDTHS.contains(&(f as u32)))? {
            Some(width) => width as u32..=width as u32,
            None => WIDTHS,
        };
        // A narrower fingerprint in more buckets is sometimes smaller than a wider one.
        let (width, buckets) = widths
            .map(|width| (width, Self::min_buckets(width, keys, fpr)))
            .min_by_key(|(width, buckets)| {
                u128::from(width + CLASS_BITS + SELECTOR_BITS) * u128::from(*buckets)
            })
            .expect("there is a width");
        Self::new(buckets, width, keys)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("buckets", self.buckets().into()), ("f", self.width().into())].into_iter().collect()
    }

    fn figures(&self) -> Figures {
        Figures { keys: self.keys, fpr: self.fpr_at(self.keys), ..self.table.figures() }
    }

    /// Returns the probability that a new non-member is mistaken for one of `keys` keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        -(keys as f64 * (-self.share()).ln_1p()).exp_m1()
    }
}

/// An adaptive cuckoo filter.
///
/// # Examples
/// ```
/// use tamis::{AdaptiveCuckoo, Keyed};
///
/// let mut guests = Keyed::<AdaptiveCuckoo>::with_capacity(1000, 0.001)?;
/// guests.insert("Ada")?;
/// assert!(guests.contains("Ada"));
/// assert!(guests.remove("Ada") && !guests.contains("Ada"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveCuckoo {
    shape: AdaptiveCuckooShape,
    /// Slots of class bits, fingerprint and selector, from the lowest bit on.
    table: Cuckoo,
}

impl AdaptiveCuckoo {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the filter cannot be allocated.
    pub fn new(shape: AdaptiveCuckooShape) -> Result<Self, Error> {
        let table = Cuckoo::new(shape.table.clone())?.with_spreading(CLASSES);
        Ok(Self { shape, table })
    }

    #[inline(always)]
    fn class(&self, key: KeyHash) -> Class {
        let left = scale(key.hi, self.shape.buckets() / 2);
        Class { left, bits: scale(key.lo, CLASSES) + 1 }
    }

    /// Returns what the slot of a key holds under a selector.
    #[inline(always)]
    fn slot(&self, class: Class, key: KeyHash, selector: u64) -> u64 {
        let width = self.shape.width();
        let fp = mix(key.lo ^ mix(selector.wrapping_add(0x9e37_79b9_7f4a_7c15))) >> (64 - width);
        selector << (width + CLASS_BITS) | fp << CLASS_BITS | class.bits
    }

    /// Returns the selector that a slot holds.
    #[inline(always)]
    fn selector(&self, slot: u64) -> u64 {
        slot >> (self.shape.width() + CLASS_BITS)
    }

    /// Returns the selector of a class: that of any of its slots.
    fn class_selector(&self, class: Class) -> Option<u64> {
        let mut selector = None;
        self.table.any_of_class(class, |slot| {
            selector = Some(self.selector(slot));
            true
        });
        selector
    }

    fn insert_into(&mut self, class: Class, key: KeyHash) -> Result<(), Full> {
        let selector = self.class_selector(class).unwrap_or(0);
        let slot = self.slot(class, key, selector);
        self.table.insert_into(class, slot)
    }

    fn fetch(&self, key: KeyHash) {
        self.table.fetch_class(self.class(key));
    }
}

impl Filter for AdaptiveCuckoo {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let class = self.class(key);
        self.table.any_of_class(class, |slot| slot == self.slot(class, key, self.selector(slot)))
    }

    /// Returns the keys inserted minus the keys removed.
    fn len(&self) -> u64 {
        self.table.len()
    }

    fn fits_cache(&self) -> bool {
        self.table.fits_cache()
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        common::contains_prefetching(self, keys, out, Self::fetch);
    }
}

impl Build for AdaptiveCuckoo {
    type Shape = AdaptiveCuckooShape;

    fn shape(&self) -> &AdaptiveCuckooShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<AdaptiveCuckooShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for AdaptiveCuckoo {
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len() >= self.shape.keys {
            return Err(Full::NONE);
        }
        self.insert_into(self.class(key), key)
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        common::insert_batch(self, keys, Self::fetch)
    }
}

impl Remove for AdaptiveCuckoo {
    /// Removes a slot that matches the key. All such slots are equal, so it does not matter which key it came from.
    fn remove(&mut self, key: KeyHash) -> bool {
        let class = self.class(key);
        let selector = self.class_selector(class);
        selector
            .is_some_and(|selector| self.table.remove_from(class, self.slot(class, key, selector)))
    }
}

impl Adapt for AdaptiveCuckoo {
    /// Returns the range of hashes with the same left bucket.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        piece(self.class(key).left, self.shape.buckets() / 2)
    }

    /// Advances the selector of the class until it tells `stranger` from all members of the class. If the filter
    /// lacks members and has no room for them, no answer changes.
    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        if !self.contains(stranger) {
            return Repair::NotNeeded;
        }
        let class = self.class(stranger);
        let is_ours = |key: &&KeyHash| {
            let Class { left, bits } = self.class(**key);
            left == class.left && bits == class.bits
        };
        let members: Vec<KeyHash> = members.iter().filter(is_ours).copied().collect();
        let old = self.class_selector(class).expect("a slot of the class matched");
        let apart = (1..SELECTORS).map(|step| (old + step) % SELECTORS).find(|selector| {
            let slot = |key| self.slot(class, key, *selector);
            members.iter().all(|key| slot(*key) != slot(stranger))
        });
        let Some(selector) = apart else { return Repair::Impossible };
        let mut slots = Vec::new();
        self.table.any_of_class(class, |slot| {
            slots.push(slot);
            false
        });
        for missing in slots.len()..members.len() {
            if self.table.insert_into(class, self.slot(class, stranger, old)).is_err() {
                for _ in slots.len()..missing {
                    self.table.remove_from(class, self.slot(class, stranger, old));
                }
                return Repair::Impossible;
            }
        }
        for slot in slots.iter().skip(members.len()) {
            self.table.remove_from(class, *slot);
        }
        let mut next =
            members.iter().map(|key| self.slot(class, *key, selector)).collect::<Vec<_>>();
        self.table.replace_class(class, |slot| next.pop().unwrap_or(slot));
        Repair::Rehashed
    }

    /// Returns `None`: nothing is ever renewed.
    fn due(&self) -> Option<RangeInclusive<u64>> {
        None
    }

    fn renew(&mut self, _: &[KeyHash]) {}
}

impl Persist for AdaptiveCuckoo {
    /// Writes its own sections, then those of the cuckoo filter.
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.keys]);
        self.table.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut fields = from.shape()?;
        let keys = fields.next(0..=MAX_KEYS, "capacity")?;
        fields.finish()?;
        let table = Cuckoo::read(from)?.with_spreading(CLASSES);
        let width = table.shape().width();
        let shape = width
            .checked_sub(CLASS_BITS + SELECTOR_BITS)
            .and_then(|width| AdaptiveCuckooShape::new(table.shape().buckets(), width, keys).ok());
        match shape {
            Some(shape) if shape.table == *table.shape() => Ok(Self { shape, table }),
            _ => Err(from.corrupt("the shape of the cuckoo filter is wrong").into()),
        }
    }

    fn validate(&self) -> Result<(), Error> {
        self.table.validate()?;
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        for (class, slot) in self.table.classes() {
            if class.bits == 0 {
                return corrupt("the class bits of a slot are 0");
            }
            if self.class_selector(class) != Some(self.selector(slot)) {
                return corrupt("two slots of a class have different selectors");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 31]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    /// Members of one class share a selector through insertions, repairs and removals, and none is denied.
    #[test]
    fn members_of_one_class_are_told_apart() {
        let shape = AdaptiveCuckooShape::new(2, 2, 8).unwrap();
        let mut filter = AdaptiveCuckoo::new(shape).unwrap();
        let all = hashes(1, 0..4000);
        let alike: Vec<KeyHash> =
            all.into_iter().filter(|key| filter.class(*key).bits == 5).collect();
        let (members, strangers) = alike.split_at(3);
        members[..2].iter().for_each(|key| filter.insert(*key).unwrap());
        let (mut repairs, mut impossible) = (0, 0);
        for x in strangers.iter().filter(|x| !members.contains(x)) {
            match filter.adapt(*x, &members[..2]) {
                Repair::NotNeeded => {}
                Repair::Impossible => impossible += 1,
                _ => {
                    repairs += 1;
                    assert!(!filter.contains(*x));
                }
            }
            assert!(members[..2].iter().all(|key| filter.contains(*key)) && filter.len() == 2);
        }
        assert!(repairs > 4 && repairs > 2 * impossible, "{repairs}, {impossible} impossible");
        // A member that comes later gets the selector of the others.
        filter.insert(members[2]).unwrap();
        let selector = filter.class_selector(filter.class(members[2]));
        for (removed, rest) in [(0, &members[1..]), (2, &members[1..2])] {
            assert!(filter.remove(members[removed]));
            assert!(rest.iter().all(|key| filter.contains(*key)));
        }
        assert_eq!(filter.class_selector(filter.class(members[2])), selector);
        filter.validate().unwrap();
    }

    /// A key that the store does not have is dropped, one that it has is inserted, and if there is no room for it
    /// nothing changes.
    #[test]
    fn a_repair_follows_the_store() {
        let shape = AdaptiveCuckooShape::new(2, 1, 8).unwrap();
        let mut filter = AdaptiveCuckoo::new(shape).unwrap();
        let all = hashes(2, 0..3000);
        let alike: Vec<KeyHash> =
            all.into_iter().filter(|key| filter.class(*key).bits == 9).collect();
        filter.insert(alike[0]).unwrap();
        assert_eq!(filter.adapt(alike[0], &[]), Repair::Rehashed);
        assert!(filter.is_empty() && !filter.contains(alike[0]));
        filter.insert(alike[0]).unwrap();
        let stranger = *alike[2..].iter().find(|x| filter.contains(**x)).unwrap();
        let repair = filter.adapt(stranger, &alike[..2]);
        assert!(repair == Repair::Impossible || filter.len() == 2 && filter.contains(alike[1]));
        let before = filter.clone();
        let many = [alike[0]; 20];
        let stranger = alike[2..].iter().find(|x| filter.contains(**x) && x.lo != alike[0].lo);
        assert_eq!(filter.adapt(*stranger.unwrap(), &many), Repair::Impossible);
        assert!(filter.len() == before.len() && filter.validate().is_ok());
        assert!(alike.iter().all(|key| filter.contains(*key) == before.contains(*key)));
    }

    #[test]
    fn documented_size() {
        let figures = AdaptiveCuckooShape::fit(1_000_000, 7.7 / 1024.0).unwrap().figures();
        assert!(figures.bits_per_key() < 12.6, "{figures:?}");
    }
}
