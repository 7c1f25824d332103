//! Every operation of a filter whose kind is known only at run time.
//!
//! An operation that the kind lacks is [`Error::Unsupported`].

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::builder::Builder;
use super::{Keyed, in_runs};
use crate::any::AnyFilter;
use crate::error::Error;
use crate::hash::{Key, KeyHash};
use crate::kind::Kind;
use crate::shape::Figures;
use crate::traits::Repair;
use crate::values::Value;

impl Keyed<AnyFilter> {
    /// Returns a builder of a filter of this kind.
    ///
    /// ```
    /// use tamis::{AnyFilter, Keyed, Kind};
    /// let mut any = Keyed::<AnyFilter>::builder(Kind::Cuckoo).capacity(1000).fpr(0.01).empty()?;
    /// any.insert("apple")?;
    /// assert!(any.contains("apple") && any.remove("apple")?);
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn builder<'a>(kind: Kind) -> Builder<'a, AnyFilter> {
        Builder::new(kind)
    }

    /// Returns the filter's kind.
    pub fn kind(&self) -> Kind {
        self.filter.kind()
    }

    /// Returns the capacity of the filter in keys.
    pub fn capacity(&self) -> u64 {
        self.filter.capacity()
    }

    /// Returns size, rate and cost of the filter: see [`AnyFilter::figures`].
    pub fn figures(&self) -> Figures {
        self.filter.figures()
    }

    /// Returns the expected false positive rate with the present number of keys.
    pub fn fpr(&self) -> f64 {
        self.filter.fpr()
    }

    /// Returns an empty filter of the same shape, hash and seed: see [`AnyFilter::empty_like`].
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn empty_like(&self) -> Result<Self, Error> {
        Ok(Self::new(self.hasher, self.filter.empty_like()?))
    }

    /// Removes all keys, and keeps shape, hash and seed.
    ///
    /// # Errors
    /// If memory cannot be allocated; the filter is then unchanged.
    pub fn clear(&mut self) -> Result<(), Error> {
        *self = self.empty_like()?;
        Ok(())
    }

    /// Inserts a key.
    ///
    /// # Errors
    /// [`Error::Full`]; the filter is then unchanged.
    #[inline]
    pub fn insert<K: Key + ?Sized>(&mut self, key: &K) -> Result<(), Error> {
        self.filter.insert(key.hash_with(&self.hasher))?;
        self.record::<K>();
        Ok(())
    }

    /// Inserts a key unless the filter seems to hold it. Returns whether it was certainly new.
    ///
    /// # Errors
    /// [`Error::Full`]; the filter is then unchanged.
    pub fn insert_new<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool, Error> {
        let mut new = [false];
        self.filter.insert_new_batch(&[key.hash_with(&self.hasher)], &mut new)?;
        self.record::<K>();
        Ok(new[0])
    }

    /// Inserts keys in order, faster than one by one.
    ///
    /// # Errors
    /// [`Error::Full`] states how many were inserted.
    pub fn insert_batch<K: Key>(&mut self, keys: &[K]) -> Result<(), Error> {
        self.record::<K>();
        in_runs(self.hasher, keys, |at, hashes| {
            self.filter.insert_batch(hashes).map_err(|error| error.after(at))
        })
    }

    /// Inserts the keys that the filter does not seem to hold. Returns for each whether it was certainly
    /// new; of duplicates in the batch the first is.
    ///
    /// # Errors
    /// [`Error::Full`] states how many keys of the batch are done.
    pub fn insert_new_batch<K: Key>(&mut self, keys: &[K]) -> Result<Vec<bool>, Error> {
        self.record::<K>();
        let mut new = vec![false; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            let new = &mut new[at..at + hashes.len()];
            self.filter.insert_new_batch(hashes, new).map_err(|error| error.after(at))
        })?;
        Ok(new)
    }

    /// Inserts a key by its hash: see [`Keyed::hash`].
    ///
    /// # Errors
    /// [`Error::Full`]; the filter is then unchanged.
    #[inline]
    pub fn insert_hash(&mut self, hash: KeyHash) -> Result<(), Error> {
        self.filter.insert(hash)
    }

    /// Removes a key: see [`Remove::remove`](crate::Remove::remove).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn remove(&mut self, key: &(impl Key + ?Sized)) -> Result<bool, Error> {
        let hash = self.hash(key);
        self.filter.remove(hash)
    }

    /// Removes keys: see [`Remove::remove_batch`](crate::Remove::remove_batch).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn remove_batch<K: Key>(&mut self, keys: &[K]) -> Result<Vec<bool>, Error> {
        let mut removed = vec![false; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            self.filter.remove_batch(hashes, &mut removed[at..at + hashes.len()])
        })?;
        Ok(removed)
    }

    /// Counts a key: see [`Count::count`](crate::Count::count).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn count(&self, key: &(impl Key + ?Sized)) -> Result<u64, Error> {
        self.filter.count(self.hash(key))
    }

    /// Counts keys: see [`Count::count_batch`](crate::Count::count_batch).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn count_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<u64>, Error> {
        let mut out = vec![0; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            self.filter.count_batch(hashes, &mut out[at..at + hashes.len()])
        })?;
        Ok(out)
    }

    /// Returns the key's value, an unsigned integer: see [`Map::get`](crate::Map::get).
    ///
    /// # Errors
    /// [`Error::ValueType`] for a map of other values.
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Result<Option<u64>, Error> {
        self.filter.get(self.hash(key))
    }

    /// Returns the values of keys, unsigned integers: see [`Map::get_batch`](crate::Map::get_batch).
    ///
    /// # Errors
    /// [`Error::ValueType`] for a map of other values.
    pub fn get_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<Option<u64>>, Error> {
        let mut out = vec![None; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            self.filter.get_batch(hashes, &mut out[at..at + hashes.len()])
        })?;
        Ok(out)
    }

    /// Returns the key's value: see [`Map::get_value`](crate::Map::get_value).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn get_value(&self, key: &(impl Key + ?Sized)) -> Result<Option<Value>, Error> {
        self.filter.get_value(self.hash(key))
    }

    /// Replaces the value of a key: see [`Map::set_value`](crate::Map::set_value).
    ///
    /// # Errors
    /// As [`Map::number_of`](crate::Map::number_of).
    pub fn set_value(
        &mut self,
        key: &(impl Key + ?Sized),
        value: impl Into<Value>,
    ) -> Result<Option<Value>, Error> {
        let hash = self.hash(key);
        self.filter.set_value(hash, &value.into())
    }

    /// Replaces the value of a key, an unsigned integer: see [`Map::set`](crate::Map::set).
    ///
    /// # Errors
    /// [`Error::Value`] if the value is too wide, [`Error::ValueType`] for a map of other values.
    pub fn set(&mut self, key: &(impl Key + ?Sized), value: u64) -> Result<Option<u64>, Error> {
        let hash = self.hash(key);
        self.filter.set(hash, value)
    }

    /// Pushes a key into a window: see [`Window::push`](crate::Window::push).
    ///
    /// # Errors
    /// [`Error::Full`]: the key is not remembered.
    pub fn push<K: Key + ?Sized>(&mut self, key: &K) -> Result<bool, Error> {
        let seen = self.filter.push(key.hash_with(&self.hasher))?;
        self.record::<K>();
        Ok(seen)
    }

    /// Pushes keys into a window: see [`Window::push_batch`](crate::Window::push_batch).
    ///
    /// # Errors
    /// [`Error::Full`] states how many keys were pushed before the key that was refused.
    pub fn push_batch<K: Key>(&mut self, keys: &[K]) -> Result<Vec<bool>, Error> {
        self.filter.window()?;
        self.record::<K>();
        let mut seen = vec![false; keys.len()];
        in_runs(self.hasher, keys, |at, hashes| {
            let seen = &mut seen[at..at + hashes.len()];
            self.filter.push_batch(hashes, seen).map_err(|error| error.after(at))
        })?;
        Ok(seen)
    }

    /// Sets the time of a window: see [`Window::advance`](crate::Window::advance).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn advance(&mut self, now: u64) -> Result<(), Error> {
        self.filter.advance(now)
    }

    /// Returns the range of members that a repair of a key needs: see
    /// [`Adapt::suspects`](crate::Adapt::suspects).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn suspects(&self, key: &(impl Key + ?Sized)) -> Result<RangeInclusive<u64>, Error> {
        self.filter.suspects(self.hash(key))
    }

    /// Makes the filter deny a non-member: see [`Adapt::adapt`](crate::Adapt::adapt).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn adapt(
        &mut self,
        stranger: &(impl Key + ?Sized),
        members: &[KeyHash],
    ) -> Result<Repair, Error> {
        let hash = self.hash(stranger);
        self.filter.adapt(hash, members)
    }

    /// Adds the keys of `other`, which must have the same kind, hash and seed, and a shape that
    /// [`Merge::merge`](crate::Merge::merge) takes.
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
    /// [`Merge::force_merge`](crate::Merge::force_merge).
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Capacity`]; the filter is then unchanged.
    pub fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.force_merge(&other.filter)?;
        self.forms = self.forms.union(other.forms);
        Ok(())
    }

    /// Keeps the keys that may be in both filters: see
    /// [`SetOps::intersect`](crate::SetOps::intersect).
    ///
    /// # Errors
    /// [`Error::Mismatch`]; the filter is then unchanged.
    pub fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.intersect(&other.filter)
    }

    /// Returns the similarity of both filters: see
    /// [`SetOps::similarity`](crate::SetOps::similarity).
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different kinds, shapes, hashes or seeds.
    pub fn similarity(&self, other: &Self) -> Result<f64, Error> {
        self.check_hasher(other)?;
        self.filter.similarity(&other.filter)
    }

    /// Estimates the number of distinct keys: see [`SetOps::cardinality`](crate::SetOps::cardinality).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn cardinality(&self) -> Result<f64, Error> {
        self.filter.cardinality()
    }

    /// Returns the fingerprints with their counts: see [`List::list`](crate::List::list).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn list(&self) -> Result<Box<dyn Iterator<Item = (u64, u64)> + '_>, Error> {
        self.filter.list()
    }

    /// Changes the capacity: see [`Resize::resize`](crate::Resize::resize).
    ///
    /// ```
    /// use tamis::{AnyFilter, Keyed, Kind};
    /// let mut seen = Keyed::<AnyFilter>::builder(Kind::Quotient).capacity(100).fpr(1e-6).empty()?;
    /// seen.insert("apple")?;
    /// seen.resize(1000, None)?;
    /// assert!(seen.contains("apple") && seen.capacity() == 1000);
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Resize::resize`](crate::Resize::resize); the filter is then unchanged.
    pub fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error> {
        self.filter.resize(keys, fpr)
    }
}
