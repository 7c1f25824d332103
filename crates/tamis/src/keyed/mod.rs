//! A filter together with the hasher of its keys.

mod any;
mod builder;
mod bytes;
mod range;
#[cfg(feature = "serde")]
mod serde;
mod template;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_format::KeyForms;

pub use self::builder::Builder;
use crate::any::Registered;
use crate::error::{Error, Full};
use crate::hash::{Key, KeyHash, KeyHasher};
use crate::shape::{Figures, Shape};
use crate::traits::{
    Adapt, Build, BuildMap, Count, Filter, Insert, Map, Merge, Remove, Repair, SetOps, Window,
};
use crate::values::Value;

/// A filter of keys: strings, bytes, integers, tuples of them.
///
/// `F` is one of the [filters](crate::filters), or [`AnyFilter`](crate::AnyFilter) if the kind is known
/// only at run time.
///
/// ```
/// use tamis::{Keyed, SplitBlockBloom};
///
/// let mut seen = Keyed::<SplitBlockBloom>::with_capacity(1_000_000, 0.01)?;
/// seen.insert("apple")?;
/// assert!(seen.contains("apple"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed<F> {
    hasher: KeyHasher,
    forms: KeyForms,
    filter: F,
}

/// Hashes in a run that stays in the first-level cache between hashing and use.
const RUN: usize = 512;

impl<F> Keyed<F> {
    /// Combines `filter` with `hasher`, which must have hashed the filter's keys.
    pub fn new(hasher: KeyHasher, filter: F) -> Self {
        Self { hasher, forms: KeyForms::NONE, filter }
    }

    /// Records the forms of the keys that the filter holds, for a filter that was filled with hashes.
    #[must_use]
    pub fn with_key_forms(self, forms: KeyForms) -> Self {
        Self { forms, ..self }
    }

    /// Returns the forms of the keys in the filter, as far as they are recorded. Inserting through
    /// `Keyed` records them, and files store them.
    pub fn key_forms(&self) -> KeyForms {
        self.forms
    }

    /// Records that the filter holds keys of these forms too, after hashes of such keys were inserted.
    pub fn record_key_forms(&mut self, forms: KeyForms) {
        self.forms = self.forms.union(forms);
    }

    /// Checks that keys of the form `given` can be in the filter. A filter of text rejects all
    /// integers, for example; call this where the form of the keys comes from a user.
    ///
    /// # Errors
    /// [`Error::KeyForm`] if the filter is known to hold only keys of other forms.
    pub fn check_key_form(&self, given: KeyForms) -> Result<(), Error> {
        if self.forms.is_none() || self.forms.contains(given) {
            return Ok(());
        }
        Err(Error::KeyForm { holds: self.forms, given })
    }

    /// Returns the hasher of the keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the filter, which works on hashes.
    pub fn filter(&self) -> &F {
        &self.filter
    }

    /// Returns the filter, to change it.
    pub fn filter_mut(&mut self) -> &mut F {
        &mut self.filter
    }

    /// Returns hasher and filter.
    pub fn into_parts(self) -> (KeyHasher, F) {
        (self.hasher, self.filter)
    }

    /// Returns the hash of a key.
    #[inline]
    pub fn hash(&self, key: &(impl Key + ?Sized)) -> KeyHash {
        key.hash_with(&self.hasher)
    }

    fn record<K: Key + ?Sized>(&mut self) {
        self.record_key_forms(K::FORM);
    }

    fn check_hasher(&self, other: &Self) -> Result<(), Error> {
        if self.hasher == other.hasher {
            Ok(())
        } else {
            Err(Error::Mismatch { what: "hash or seed" })
        }
    }
}

/// Hashes keys in runs and calls `each` with them and the index of the first.
pub(crate) fn in_runs<K: Key, E>(
    hasher: KeyHasher,
    keys: &[K],
    mut each: impl FnMut(usize, &[KeyHash]) -> Result<(), E>,
) -> Result<(), E> {
    let mut hashes = [KeyHash { hi: 0, lo: 0 }; RUN];
    for (run, keys) in keys.chunks(RUN).enumerate() {
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash_with(&hasher);
        }
        each(run * RUN, &hashes[..keys.len()])?;
    }
    Ok(())
}

/// Hashes keys in runs and calls `each` with them and their part of `out`.
fn map_runs<K: Key, T>(
    hasher: KeyHasher,
    keys: &[K],
    out: &mut [T],
    mut each: impl FnMut(&[KeyHash], &mut [T]),
) {
    let done: Result<(), core::convert::Infallible> = in_runs(hasher, keys, |at, hashes| {
        each(hashes, &mut out[at..at + hashes.len()]);
        Ok(())
    });
    let Ok(()) = done;
}

impl<F: Registered> Keyed<F> {
    /// Returns a builder of such a filter.
    ///
    /// ```
    /// use tamis::{Keyed, Ribbon};
    /// let words = Keyed::<Ribbon>::builder().fpr(0.001).threads(2).build(["apple", "pear"])?;
    /// assert!(words.contains("pear"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn builder<'a>() -> Builder<'a, F> {
        Builder::new(F::KIND)
    }

    /// Builds a filter of all `keys` at this false positive rate, with a random seed:
    /// [`Keyed::builder`] has more options.
    ///
    /// ```
    /// use tamis::{Bloom, Keyed};
    /// let fruit = Keyed::<Bloom>::build(["apple", "pear"], 0.001)?;
    /// assert!(fruit.contains("pear"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Build::build_with`].
    #[cfg(feature = "std")]
    pub fn build<K: Key>(keys: impl IntoIterator<Item = K>, fpr: f64) -> Result<Self, Error> {
        Self::builder().fpr(fpr).build(keys)
    }

    /// Returns an empty filter of the same shape, hash and seed: the two can be merged if the kind can
    /// merge.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn empty_like(&self) -> Result<Self, Error> {
        Ok(Self::new(self.hasher, F::build(self.filter.shape().clone(), &[][..])?))
    }

    /// Removes all keys, and keeps shape, hash and seed.
    ///
    /// # Errors
    /// If memory cannot be allocated; the filter is then unchanged.
    pub fn clear(&mut self) -> Result<(), Error> {
        *self = self.empty_like()?;
        Ok(())
    }
}

impl<F: Build> Keyed<F> {
    /// Returns the capacity of the filter in keys.
    pub fn capacity(&self) -> u64 {
        self.filter.shape().keys()
    }

    /// Returns size, rate and cost of the filter's shape.
    pub fn figures(&self) -> Figures {
        self.filter.shape().figures()
    }

    /// Returns the expected false positive rate with the present number of keys.
    pub fn fpr(&self) -> f64 {
        self.filter.shape().fpr_at(self.filter.len())
    }
}

#[cfg(feature = "std")]
impl<F: Registered + Insert> Keyed<F> {
    /// Returns an empty filter for this many keys at this false positive rate, with a random seed.
    ///
    /// # Errors
    /// If an argument is out of range or memory cannot be allocated.
    pub fn with_capacity(keys: u64, fpr: f64) -> Result<Self, Error> {
        Self::builder().capacity(keys).fpr(fpr).empty()
    }
}

#[cfg(feature = "std")]
impl<F: Registered + Window> Keyed<F> {
    /// Returns an empty filter for the last `keys` keys at this false positive rate, with a random seed.
    ///
    /// # Errors
    /// If an argument is out of range or memory cannot be allocated.
    pub fn with_window(keys: u64, fpr: f64) -> Result<Self, Error> {
        Self::builder().capacity(keys).fpr(fpr).empty()
    }
}

impl<F: Filter> Keyed<F> {
    /// Returns whether the key may be a member. `false` is certain.
    #[inline]
    pub fn contains(&self, key: &(impl Key + ?Sized)) -> bool {
        self.filter.contains(self.hash(key))
    }

    /// Returns for each key whether it may be a member, faster than one by one.
    pub fn contains_batch<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        let mut out = vec![false; keys.len()];
        self.contains_batch_into(keys, &mut out);
        out
    }

    /// Sets `out[i]` to `contains(keys[i])`, faster than one by one.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `keys`.
    pub fn contains_batch_into<K: Key>(&self, keys: &[K], out: &mut [bool]) {
        if self.filter.fits_cache() {
            assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains(key);
            }
            return;
        }
        map_runs(self.hasher, keys, out, |hashes, out| self.filter.contains_batch(hashes, out));
    }

    /// Returns whether a key with this hash may be a member.
    #[inline]
    pub fn contains_hash(&self, hash: KeyHash) -> bool {
        self.filter.contains(hash)
    }

    /// Sets `out[i]` to `contains_hash(hashes[i])`, faster than one by one.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `hashes`.
    pub fn contains_hashes(&self, hashes: &[KeyHash], out: &mut [bool]) {
        self.filter.contains_batch(hashes, out);
    }

    /// Returns the number of keys in the filter, as its kind counts them.
    pub fn len(&self) -> u64 {
        self.filter.len()
    }

    /// Returns whether the filter holds no keys.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }
}

impl<F: Insert> Keyed<F> {
    /// Inserts a key.
    ///
    /// # Errors
    /// On [`Full`] the filter is unchanged.
    #[inline]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<(), Full> {
        self.record::<K>();
        self.filter.insert(key.hash_with(&self.hasher))
    }

    /// Inserts a key unless the filter seems to hold it. Returns whether it was certainly new.
    ///
    /// # Errors
    /// On [`Full`] the filter is unchanged.
    #[inline]
    pub fn insert_new<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool, Full> {
        self.record::<K>();
        let hash = key.hash_with(&self.hasher);
        if self.filter.contains(hash) {
            return Ok(false);
        }
        self.filter.insert(hash).map(|()| true)
    }

    /// Inserts keys in order, faster than one by one.
    ///
    /// # Errors
    /// [`Full`] states how many were inserted.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<(), Full> {
        self.record::<K>();
        in_runs(self.hasher, keys, |at, hashes| {
            self.filter.insert_batch(hashes).map_err(|full| full.after(at))
        })
    }

    /// Inserts the keys that the filter does not seem to hold. Returns for each whether it was certainly
    /// new; of duplicates in the batch the first is.
    ///
    /// # Errors
    /// [`Full`] states how many keys of the batch are done.
    pub fn insert_new_batch<K: Key>(&mut self, keys: &[K]) -> Result<Vec<bool>, Full> {
        self.record::<K>();
        let mut new = vec![false; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            let new = &mut new[at..at + hashes.len()];
            self.filter.insert_new_batch(hashes, new).map_err(|full| full.after(at))
        })?;
        Ok(new)
    }

    /// Inserts a key by its hash: see [`Keyed::hash`].
    ///
    /// # Errors
    /// On [`Full`] the filter is unchanged.
    #[inline]
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<(), Full> {
        self.filter.insert(hash)
    }
}

/// Inserts all keys.
///
/// # Panics
/// Panics if the filter is full: nothing is dropped silently. [`Keyed::insert_batch`] returns an error
/// instead.
impl<F: Insert, K: Key> Extend<K> for Keyed<F> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        self.record::<K>();
        let mut keys = keys.into_iter();
        let mut hashes = Vec::with_capacity(RUN);
        loop {
            hashes.clear();
            hashes.extend(keys.by_ref().take(RUN).map(|key| key.hash_with(&self.hasher)));
            if hashes.is_empty() {
                return;
            }
            self.filter.insert_batch(&hashes).expect("the filter has room for all keys");
        }
    }
}

impl<F: Remove> Keyed<F> {
    /// Removes a key that was inserted: see [`Remove::remove`].
    pub fn remove(&mut self, key: &(impl Key + ?Sized)) -> bool {
        self.filter.remove(self.hash(key))
    }

    /// Removes keys in order: see [`Remove::remove_batch`].
    pub fn remove_batch<K: Key>(&mut self, keys: &[K]) -> Vec<bool> {
        let mut removed = vec![false; keys.len()];
        map_runs(self.hasher, keys, &mut removed, |hashes, out| {
            self.filter.remove_batch(hashes, out);
        });
        removed
    }
}

impl<F: Count> Keyed<F> {
    /// Counts a key: see [`Count::count`].
    pub fn count(&self, key: &(impl Key + ?Sized)) -> u64 {
        self.filter.count(self.hash(key))
    }

    /// Counts keys: see [`Count::count_batch`].
    pub fn count_batch<K: Key>(&self, keys: &[K]) -> Vec<u64> {
        let mut out = vec![0; keys.len()];
        map_runs(self.hasher, keys, &mut out, |hashes, out| self.filter.count_batch(hashes, out));
        out
    }
}

impl<F: Registered + BuildMap> Keyed<F> {
    /// Builds a map of all `entries`, keys and their values, with a random seed. Values are as wide as
    /// the widest. [`Keyed::builder`] has more options.
    ///
    /// ```
    /// use tamis::{Bloomier, Keyed};
    /// let mut stock = Keyed::<Bloomier>::build_map([("apple", 3), ("pear", 70)], 0.001)?;
    /// assert_eq!(stock.get("pear"), Some(70));
    /// stock.set("apple", 4)?;
    /// assert_eq!(stock.get("apple"), Some(4));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BuildMap::build_map_with`].
    #[cfg(feature = "std")]
    pub fn build_map<K: Key>(
        entries: impl IntoIterator<Item = (K, u64)>,
        fpr: f64,
    ) -> Result<Self, Error> {
        Self::builder().fpr(fpr).build_map(entries)
    }
}

impl<F: Map> Keyed<F> {
    /// Returns the key's value, or `None` if the key is certainly not in the set. Maps of unsigned
    /// integers have [`Keyed::get`] too.
    pub fn get_value(&self, key: &(impl Key + ?Sized)) -> Option<Value> {
        self.filter.get_value(self.hash(key))
    }

    /// Replaces the value of a key of the set: see [`Map::set_value`].
    ///
    /// # Errors
    /// As [`Map::number_of`].
    pub fn set_value(
        &mut self,
        key: &(impl Key + ?Sized),
        value: impl Into<Value>,
    ) -> Result<Option<Value>, Error> {
        self.filter.set_value(self.hash(key), &value.into())
    }

    /// Returns the value of a key of a map of unsigned integers, or `None` if the key is certainly not in
    /// the set: see [`Map::get`].
    #[inline]
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Option<u64> {
        self.filter.get(self.hash(key))
    }

    /// Returns the values of keys: see [`Map::get_batch`].
    pub fn get_batch<K: Key>(&self, keys: &[K]) -> Vec<Option<u64>> {
        let mut out = vec![None; keys.len()];
        map_runs(self.hasher, keys, &mut out, |hashes, out| self.filter.get_batch(hashes, out));
        out
    }

    /// Replaces the value of a key of the set: see [`Map::set`].
    ///
    /// # Errors
    /// [`Error::Value`] if the value is too wide.
    pub fn set(&mut self, key: &(impl Key + ?Sized), value: u64) -> Result<Option<u64>, Error> {
        self.filter.set(self.hash(key), value)
    }
}

impl<F: Window> Keyed<F> {
    /// Pushes a key and forgets old ones. Returns whether it seemed to be in: see [`Window::push`].
    ///
    /// # Errors
    /// On [`Full`] the key is not remembered.
    #[inline]
    pub fn push<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool, Full> {
        self.record::<K>();
        self.filter.push(key.hash_with(&self.hasher))
    }

    /// Pushes keys in order: see [`Window::push_batch`].
    ///
    /// # Errors
    /// [`Full`] states how many keys were pushed before the key that was refused.
    pub fn push_batch<K: Key>(&mut self, keys: &[K]) -> Result<Vec<bool>, Full> {
        self.record::<K>();
        let mut seen = vec![false; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            let seen = &mut seen[at..at + hashes.len()];
            self.filter.push_batch(hashes, seen).map_err(|full| full.after(at))
        })?;
        Ok(seen)
    }

    /// Sets the time: see [`Window::advance`].
    pub fn advance(&mut self, now: u64) {
        self.filter.advance(now);
    }
}

impl<F: Adapt> Keyed<F> {
    /// Returns the range of members that a repair of a key needs: see [`Adapt::suspects`].
    pub fn suspects(&self, key: &(impl Key + ?Sized)) -> RangeInclusive<u64> {
        self.filter.suspects(self.hash(key))
    }

    /// Makes the filter deny a non-member: see [`Adapt::adapt`].
    pub fn adapt(&mut self, stranger: &(impl Key + ?Sized), members: &[KeyHash]) -> Repair {
        self.filter.adapt(self.hash(stranger), members)
    }
}

impl<F: Merge> Keyed<F> {
    /// Adds the keys of `other`, which must have the same shape, hash and seed.
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Capacity`]; the filter is then unchanged.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.merge(&other.filter)?;
        self.forms = self.forms.union(other.forms);
        Ok(())
    }

    /// Adds the keys of `other`, also beyond the capacity: see
    /// [`Merge::force_merge`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Capacity`]; the filter is then unchanged.
    pub fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.force_merge(&other.filter)?;
        self.forms = self.forms.union(other.forms);
        Ok(())
    }
}

impl<F: SetOps> Keyed<F> {
    /// Keeps the keys that may be in both filters: see [`SetOps::intersect`].
    ///
    /// # Errors
    /// [`Error::Mismatch`]; the filter is then unchanged.
    pub fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.intersect(&other.filter)
    }

    /// Returns the similarity of both filters: see [`SetOps::similarity`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes, hashes or seeds.
    pub fn similarity(&self, other: &Self) -> Result<f64, Error> {
        self.check_hasher(other)?;
        self.filter.similarity(&other.filter)
    }

    /// Estimates the number of distinct keys: see [`SetOps::cardinality`].
    pub fn cardinality(&self) -> f64 {
        self.filter.cardinality()
    }
}

#[cfg(test)]
mod tests;
