//! The exact set: a sorted hash table of whole 128-bit hashes.
//!
//! ```text
//!  key ──► 128-bit hash (hi, lo) ──► home slot: proportional to hi
//!
//!  slots     0         1         2         3     …             5 slots for 4 keys, then up to 96 more
//!        |hi₀ lo₀ |   ·    |hi₁ lo₁ |hi₂ lo₂ | … |   ·    |    for hashes shifted past the last home
//!                            └ slot 2 is also the home of hash 2: each hash is in its home, or right
//!                              after the hash before it; a slot of two zero words is empty
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | false positives | a non-member passes with probability below keys · 2^-128: 3 · 10^-33 for 10^6 keys |
//! | bytes per key | 16 / 0.8 = 20, whatever the length of the keys |
//! | cache lines | 1, and at times the next: about 3 hashes of 16 bytes are read |
//! | building | inserts; no memory beside the table |
//!
//! This is the survey's *complete dictionary*, and the kind that a false positive rate of 0 chooses. Its
//! rate is not 0: filters of this library see the hashes of keys and not the keys, so two keys with one
//! hash are one key here. The bound needs a hash whose 128 bits an attacker cannot predict, so the
//! default is `secure` with a random seed. Any two of 10^15 keys have one hash with probability 2 · 10^-9.
//! With `fast`, the proved bound for two strings of up to 128 bytes is 2^-63: see SECURITY.md.
//!
//! It is a set: a key that is inserted again takes no capacity, and removing it once removes it.
//!
//! The table is not a general-purpose hash map, because it is used as it lies in a file. A map with
//! control bytes and its own hash function would have to be rebuilt when a file is opened. Its table
//! doubles at a load of 7/8, so that it takes 19 to 39 bytes per key of 16 bytes; this one takes 20 at
//! every number of keys. Hashes are uniform already and are not hashed again. They are in order, so
//! searches for absent keys end early, equal sets have equal bytes, and two sets merge in one pass.
//! Removing a hash moves those behind it back, and leaves no mark.
//!
//! Amble, Knuth, *Ordered Hash Tables*, 1974. Linear probing does not wrap around, which would break
//! the order.

use alloc::boxed::Box;

use tamis_bits::{Words, prefetch, range};
use tamis_format::{Name, Reader, Writer};

use super::common::sort::union;
use super::common::{TOO_SHORT, build_by_inserting, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, List, Merge, Persist, Remove, Resize};

const TABLE: Name = Name::new("table");
/// Slots for every 4 keys: a load of at most 0.8, as in `hash_compaction`.
const SLOTS_FOR_FOUR: u64 = 5;
/// Slots past the last home: 96 overflow in one of 10^18 tables, as `hash_compaction` explains.
const MAX_TAIL: u64 = 96;
/// The mean number of hashes that a search in a full table reads: (1 + 1 / (1 - 0.8)) / 2.
const HASHES_READ: f64 = 3.0;

/// The shape: the number of keys decides the number of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactShape {
    keys: u64,
}

impl ExactShape {
    /// Returns the shape for `keys` keys.
    ///
    /// # Errors
    /// [`Error::Limit`] above [`MAX_KEYS`].
    pub fn new(keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        Ok(Self { keys })
    }

    /// Returns the number of home slots.
    pub fn slots(&self) -> u64 {
        (self.keys * SLOTS_FOR_FOUR).div_ceil(4).max(1)
    }

    fn all_slots(&self) -> u64 {
        self.slots() + self.keys.min(MAX_TAIL)
    }

    fn words(&self) -> u64 {
        self.all_slots() * 2
    }

    /// Returns the home slot of a hash. It does not decrease as the hash grows.
    #[inline(always)]
    fn home(&self, hash: u128) -> u64 {
        range::scale((hash >> 64) as u64, self.slots())
    }
}

impl Shape for ExactShape {
    const IS_EXACT: bool = true;

    fn fit_with(keys: u64, _: f64, _: &Settings) -> Result<Self, Error> {
        Self::new(keys)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("slots", self.slots().into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: tamis_bits::lines(self.words()) * 64,
            // As in `hash_compaction`, with hashes of a quarter of a line.
            query_cost: 1.0 + HASHES_READ * (0.125 + 0.25) + 2.5,
        }
    }

    /// Returns the probability that a non-member has the hash of one of `keys` keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        // The nearest number to 2^128 - 1 is 2^128.
        keys as f64 / u128::MAX as f64
    }
}

/// An exact set of 128-bit hashes.
///
/// ```
/// use tamis::{Exact, Keyed};
///
/// let mut fruit = Keyed::<Exact>::with_capacity(1000, 0.0)?;
/// fruit.insert("apple")?;
/// assert!(fruit.contains("apple") && !fruit.contains("pear"));
/// assert!(fruit.remove("apple") && !fruit.contains("apple"));
/// assert!(fruit.figures().fpr < 1e-35);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    shape: ExactShape,
    len: u64,
    table: Words,
}

/// The result of a search for a hash.
enum Found {
    /// The slot that holds it.
    Present(u64),
    /// The slot at which it would be inserted.
    Absent(u64),
}

/// Returns the number that stands for a hash, which is never 0: 0 stands for an empty slot, and 1 for the
/// hashes 0 and 1.
#[inline(always)]
fn number(key: KeyHash) -> u128 {
    (u128::from(key.hi) << 64 | u128::from(key.lo)).max(1)
}

fn get(table: &[u64], slot: u64) -> u128 {
    let at = slot as usize * 2;
    u128::from(table[at]) << 64 | u128::from(table[at + 1])
}

fn set(table: &mut [u64], slot: u64, hash: u128) {
    let at = slot as usize * 2;
    (table[at], table[at + 1]) = ((hash >> 64) as u64, hash as u64);
}

impl Exact {
    /// Returns an empty set.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table cannot be allocated.
    pub fn new(shape: ExactShape) -> Result<Self, Error> {
        let table = Words::zeroed(usize_words(shape.words())?)?;
        Ok(Self { shape, len: 0, table })
    }

    /// Builds a table of ascending hashes.
    fn from_sorted(shape: ExactShape, hashes: impl Iterator<Item = u128>) -> Result<Self, Error> {
        let mut filter = Self::new(shape)?;
        let Self { shape, len, table } = &mut filter;
        let table = table.to_mut();
        let mut free = 0;
        for hash in hashes {
            let slot = free.max(shape.home(hash));
            if slot >= shape.all_slots() || *len >= shape.keys {
                return Err(Error::Capacity { capacity: shape.keys });
            }
            set(table, slot, hash);
            *len += 1;
            free = slot + 1;
        }
        Ok(filter)
    }

    #[inline(always)]
    fn slot(&self, slot: u64) -> u128 {
        get(&self.table, slot)
    }

    /// Returns the hashes in ascending order.
    fn hashes(&self) -> impl Iterator<Item = u128> {
        (0..self.shape.all_slots()).map(|slot| self.slot(slot)).filter(|hash| *hash != 0)
    }

    /// Skips smaller hashes up to a larger one, an empty slot or the end.
    #[inline(always)]
    fn find(&self, hash: u128) -> Found {
        let end = self.shape.all_slots();
        let mut slot = self.shape.home(hash);
        while slot < end {
            let entry = self.slot(slot);
            if entry == hash {
                return Found::Present(slot);
            }
            if entry == 0 || entry > hash {
                break;
            }
            slot += 1;
        }
        Found::Absent(slot)
    }

    #[inline(always)]
    fn prefetch_home(&self, key: KeyHash) {
        prefetch(&self.table, self.shape.home(number(key)) as usize * 2);
    }
}

impl Filter for Exact {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        matches!(self.find(number(key)), Found::Present(_))
    }

    /// Returns the number of distinct keys.
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

impl Build for Exact {
    type Shape = ExactShape;

    fn shape(&self) -> &ExactShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<ExactShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for Exact {
    /// Inserts a key. A key of the set takes no capacity.
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let mut hash = number(key);
        let Found::Absent(place) = self.find(hash) else { return Ok(()) };
        let mut free = place..self.shape.all_slots();
        let free = free.find(|slot| self.slot(*slot) == 0).ok_or(Full::NONE)?;
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        // All hashes up to the gap move by one slot and stay consecutive.
        let table = self.table.to_mut();
        for slot in place..=free {
            let next = get(table, slot);
            set(table, slot, hash);
            hash = next;
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::prefetch_home)
    }
}

impl Remove for Exact {
    /// Removes a key, however often it was inserted. Returns whether it was in the set.
    fn remove(&mut self, key: KeyHash) -> bool {
        let Found::Present(mut slot) = self.find(number(key)) else { return false };
        let (shape, table) = (&self.shape, self.table.to_mut());
        // The hashes behind it move back by one slot, up to one that is in its home.
        for next in slot + 1..shape.all_slots() {
            let hash = get(table, next);
            if hash == 0 || shape.home(hash) >= next {
                break;
            }
            set(table, slot, hash);
            slot = next;
        }
        set(table, slot, 0);
        // The length of a hostile file may be too small.
        self.len = self.len.saturating_sub(1);
        true
    }
}

impl Merge for Exact {
    /// Merges both tables in one pass into a new table of the larger capacity.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let shape = ExactShape { keys: self.shape.keys.max(other.shape.keys) };
        *self = Self::from_sorted(shape, union(self.hashes(), other.hashes()))?;
        Ok(())
    }
}

impl List for Exact {
    /// Returns the first 64 bits of the hashes in ascending order, each with the number of keys whose
    /// hashes begin with them.
    fn list(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        let mut hashes = self.hashes().map(|hash| (hash >> 64) as u64).peekable();
        Box::new(core::iter::from_fn(move || {
            let first = hashes.next()?;
            let mut keys = 1;
            while hashes.next_if_eq(&first).is_some() {
                keys += 1;
            }
            Some((first, keys))
        }))
    }

    fn fingerprint_bits(&self) -> u32 {
        64
    }
}

impl Resize for Exact {
    fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error> {
        if self.len > keys {
            return Err(Error::Capacity { capacity: keys });
        }
        let shape = ExactShape::new(keys)?;
        if fpr.is_some_and(|fpr| fpr != 0.0 && shape.fpr_at(keys) > fpr) {
            return Err(TOO_SHORT);
        }
        *self = Self::from_sorted(shape, self.hashes())?;
        Ok(())
    }
}

impl Persist for Exact {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.keys]);
        to.words(TABLE, &self.table);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let shape = ExactShape::new(fields.next(len..=MAX_KEYS, "capacity in keys")?)?;
        fields.finish()?;
        let table = from.words(TABLE, shape.words())?;
        Ok(Self { shape, len, table })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let (mut last, mut free, mut len) = (0, 0, 0u64);
        for slot in 0..self.shape.all_slots() {
            let hash = self.slot(slot);
            if hash == 0 {
                continue;
            }
            if hash <= last {
                return corrupt("the hashes are not sorted");
            }
            if slot != free.max(self.shape.home(hash)) {
                return corrupt("a hash is not in its place");
            }
            (last, free, len) = (hash, slot + 1, len + 1);
        }
        if len != self.len {
            return corrupt("the number of hashes does not match the header");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::collections::BTreeSet;
    use tamis_bits::range::mix;

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        keys.map(|key| KeyHash { hi: mix(seed << 40 | key), lo: mix(seed << 40 | key << 20) })
            .collect()
    }

    fn build(keys: &[KeyHash], capacity: u64) -> Exact {
        Exact::build(ExactShape::new(capacity).unwrap(), keys).unwrap()
    }

    /// Random insertions and removals leave the table that a build of the remaining keys makes, also of
    /// hashes that crowd at the ends of the table or share `hi`.
    #[test]
    fn the_table_depends_on_the_set_alone() {
        for seed in 0..60u64 {
            let capacity = 1 + mix(seed) % 200;
            let universe: Vec<KeyHash> = match seed % 3 {
                0 => hashes(seed, 0..capacity),
                1 => (0..capacity.min(90)).map(|lo| KeyHash { hi: u64::MAX, lo }).collect(),
                _ => (0..capacity).map(|i| KeyHash { hi: mix(i % 7), lo: 1 + i % 20 }).collect(),
            };
            let (mut filter, mut set) = (build(&[], capacity), BTreeSet::new());
            for step in 0..2000u64 {
                let random = mix(seed << 32 | step);
                let key = universe[(random >> 8) as usize % universe.len()];
                if random.is_multiple_of(3) {
                    assert_eq!(filter.remove(key), set.remove(&key));
                } else {
                    filter.insert(key).unwrap();
                    set.insert(key);
                }
                if step % 50 == 0 {
                    filter.validate().unwrap();
                    let members: Vec<KeyHash> = set.iter().copied().collect();
                    assert_eq!(filter, build(&members, capacity), "seed {seed}, step {step}");
                    assert!(universe.iter().all(|key| filter.contains(*key) == set.contains(key)));
                }
            }
        }
    }

    /// Each of the 128 bits counts.
    #[test]
    fn keys_that_differ_in_one_bit_are_distinct() {
        let key = KeyHash { hi: 0x0123_4567_89ab_cdef, lo: 0xfedc_ba98_7654_3210 };
        let filter = build(&[key], 1);
        assert!(filter.contains(key));
        for bit in 0..64 {
            assert!(!filter.contains(KeyHash { hi: key.hi ^ 1 << bit, ..key }));
            assert!(!filter.contains(KeyHash { lo: key.lo ^ 1 << bit, ..key }));
        }
    }

    #[test]
    fn the_hash_of_zeros_is_a_key_too() {
        let zero = KeyHash { hi: 0, lo: 0 };
        let mut filter = build(&[zero, zero], 1);
        assert!(filter.contains(zero) && filter.len() == 1);
        filter.validate().unwrap();
        assert!(filter.remove(zero) && filter.is_empty() && !filter.contains(zero));
    }

    #[test]
    fn sets_of_other_sizes_merge() {
        let keys = hashes(1, 0..1500);
        let mut union = build(&keys[..1000], 1000);
        union.merge(&build(&keys[500..], 1600)).unwrap();
        assert_eq!(union, build(&keys, 1600));
        let before = union.clone();
        let others = build(&hashes(2, 0..1500), 1500);
        assert!(matches!(union.merge(&others), Err(Error::Capacity { capacity: 1600 })));
        assert_eq!(union, before);
    }

    #[test]
    fn keys_with_one_hi_are_listed_together() {
        let keys = [(5, 1), (5, 2), (9, 1), (5, 3)].map(|(hi, lo)| KeyHash { hi, lo });
        let list: Vec<_> = build(&keys, 10).list().collect();
        assert_eq!(list, [(5, 3), (9, 1)]);
    }

    /// Two hashes that are both past their homes can change places unnoticed, but for their order.
    #[test]
    fn hashes_out_of_order_are_refused() {
        let keys: Vec<KeyHash> = (1..=5).map(|lo| KeyHash { hi: 0, lo }).collect();
        let filter = build(&keys, 10);
        for (first, second, message) in
            [(3, 2, "not sorted"), (2, 2, "not sorted"), (2, 0, "place")]
        {
            let mut changed = filter.clone();
            let values = [first, second].map(|slot| if slot == 0 { 0 } else { filter.slot(slot) });
            set(changed.table.to_mut(), 2, values[0]);
            set(changed.table.to_mut(), 3, values[1]);
            let error = changed.validate().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn full_changes_nothing() {
        let keys = hashes(3, 0..101);
        let mut filter = build(&keys[..100], 100);
        let before = filter.clone();
        assert_eq!(filter.insert(keys[100]), Err(Full::NONE));
        assert_eq!(filter.insert(keys[7]), Ok(()), "copies take no slot");
        assert_eq!(filter, before);
        let shape = ExactShape::new(100).unwrap();
        assert!(matches!(Exact::build(shape, &keys[..]), Err(Error::Capacity { capacity: 100 })));
    }

    #[test]
    fn a_rate_of_zero_is_for_this_kind_alone() {
        assert_eq!(ExactShape::fit(1000, 0.0).unwrap(), ExactShape::new(1000).unwrap());
        assert!(matches!(ExactShape::fit(1000, 1e-20), Err(Error::Fpr(_))));
        assert!(matches!(crate::BloomShape::fit(1000, 0.0), Err(Error::Fpr(_))));
        let figures = ExactShape::new(1_000_000).unwrap().figures();
        assert_eq!(figures.fpr, 1e6 / 2f64.powi(128));
        assert_eq!(figures.bytes, (1_250_000 + 96) * 16);
    }
}
