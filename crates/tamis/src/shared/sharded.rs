//! A filter in shards, each behind a lock.
//!
//! ```text
//!  hi     │ b bits: the shard │ the rest │
//!  shard  │ the rest │ b bits │            rotated, so that the keys of a shard fill its filter
//! ```
//!
//! A thread locks one shard at a time. Queries take a read lock, changes a write lock.

use std::sync::{PoisonError, RwLock};

use super::storage::{InsertStorage, Storage};
use crate::any::Registered;
use crate::capability::Capability;
use crate::error::Error;
use crate::hash::KeyHash;
use crate::traits::{Count, Insert, Remove, Window};

/// The most shards: more would only waste memory.
const MAX_SHARDS: usize = 1024;
/// Keys of a batch that are sorted by shard at a time.
const RUN: usize = 512;

/// A filter in shards, each behind a lock.
#[derive(Debug)]
pub struct Sharded<G> {
    shards: Vec<Shard<G>>,
    /// log2 of the number of shards.
    bits: u32,
}

/// Two cache lines, which processors fetch together, so that threads in two shards do not slow each
/// other down.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<G>(RwLock<G>);

impl<G> Sharded<G> {
    /// Returns the shard of a key and the key's hash there.
    #[inline]
    fn place(&self, key: KeyHash) -> (usize, KeyHash) {
        let shard = key.hi.checked_shr(64 - self.bits).unwrap_or(0) as usize;
        (shard, KeyHash { hi: key.hi.rotate_left(self.bits), ..key })
    }

    fn read<R>(&self, shard: usize, with: impl FnOnce(&G) -> R) -> Result<R, Error> {
        let filter = self.shards[shard].0.read().map_err(|_| Error::Poisoned)?;
        Ok(with(&filter))
    }

    pub(super) fn write<R>(
        &self,
        shard: usize,
        with: impl FnOnce(&mut G) -> R,
    ) -> Result<R, Error> {
        let mut filter = self.shards[shard].0.write().map_err(|_| Error::Poisoned)?;
        Ok(with(&mut filter))
    }

    /// Calls `each` with the keys of each shard in order, and their part of `out`.
    ///
    /// If `each` fails with [`Error::Full`], the other shards still get their keys of the run, and the
    /// error states the index of the first key that did not fit: all keys before it are in.
    fn for_each_shard_of<T: Copy + Default>(
        &self,
        keys: &[KeyHash],
        out: &mut [T],
        mut each: impl FnMut(usize, &[KeyHash], &mut [T]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.bits == 0 {
            return each(0, keys, out);
        }
        let mut order = [(0u16, 0u16); RUN];
        let (mut local, mut local_out) = ([KeyHash { hi: 0, lo: 0 }; RUN], [T::default(); RUN]);
        for (run, (keys, out)) in keys.chunks(RUN).zip(out.chunks_mut(RUN)).enumerate() {
            let order = &mut order[..keys.len()];
            for (index, (key, entry)) in keys.iter().zip(&mut *order).enumerate() {
                *entry = (self.place(*key).0 as u16, index as u16);
            }
            order.sort_unstable();
            let mut first_failure = None;
            for group in order.chunk_by(|a, b| a.0 == b.0) {
                let (local, local_out) = (&mut local[..group.len()], &mut local_out[..group.len()]);
                for ((_, index), local) in group.iter().zip(&mut *local) {
                    *local = self.place(keys[usize::from(*index)]).1;
                }
                match each(group[0].0.into(), local, local_out) {
                    Ok(()) => {}
                    Err(Error::Full { inserted }) => {
                        let index = usize::from(group[inserted as usize].1);
                        first_failure = Some(first_failure.map_or(index, |first| index.min(first)));
                    }
                    Err(error) => return Err(error),
                }
                for ((_, index), local_out) in group.iter().zip(local_out) {
                    out[usize::from(*index)] = *local_out;
                }
            }
            if let Some(index) = first_failure {
                return Err(Error::Full { inserted: 0 }.after(run * RUN + index));
            }
        }
        Ok(())
    }
}

impl<G: Registered + Send + Sync> Storage for Sharded<G> {
    type Filter = G;

    /// Returns 1 for a window of the last keys: with several shards, a key that is pushed over and
    /// over would make its shard forget keys that are still in the window.
    fn max_shards() -> usize {
        if G::KIND.can(Capability::Window) { 1 } else { MAX_SHARDS }
    }

    fn new(shards: Vec<G>) -> Result<Self, Error> {
        if !shards.len().is_power_of_two() || shards.len() > Self::max_shards() {
            let why =
                "the number of shards must be a power of 2: 1 for a window, else at most 1024";
            return Err(Error::Infeasible { why });
        }
        let bits = shards.len().ilog2();
        Ok(Self {
            shards: shards.into_iter().map(|shard| Shard(RwLock::new(shard))).collect(),
            bits,
        })
    }

    fn into_only_shard(mut self) -> Result<G, Self> {
        if self.bits != 0 || self.shards[0].0.is_poisoned() {
            return Err(self);
        }
        let only = self.shards.pop().and_then(|shard| shard.0.into_inner().ok());
        only.ok_or(self)
    }

    fn shard_count(&self) -> usize {
        self.shards.len()
    }

    fn for_each_shard(&self, mut each: impl FnMut(&G) -> Result<(), Error>) -> Result<(), Error> {
        (0..self.shards.len()).try_for_each(|shard| self.read(shard, &mut each)?)
    }

    /// Returns `true` for a key of a poisoned shard, which may be a member.
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let (shard, key) = self.place(key);
        self.read(shard, |filter| filter.contains(key)).unwrap_or(true)
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        let done = self.for_each_shard_of(keys, out, |shard, keys, out| {
            if self.read(shard, |filter| filter.contains_batch(keys, out)).is_err() {
                out.fill(true);
            }
            Ok(())
        });
        done.expect("looking up keys does not fail");
    }

    fn len(&self) -> u64 {
        let len = |shard: &Shard<G>| shard.0.read().unwrap_or_else(PoisonError::into_inner).len();
        self.shards.iter().map(len).sum()
    }
}

impl<G: Registered + Insert + Send + Sync> InsertStorage for Sharded<G> {
    #[inline]
    fn insert(&self, key: KeyHash) -> Result<(), Error> {
        let (shard, key) = self.place(key);
        Ok(self.write(shard, |filter| filter.insert(key))??)
    }

    fn insert_new(&self, key: KeyHash) -> Result<bool, Error> {
        let (shard, key) = self.place(key);
        self.write(shard, |filter| {
            if filter.contains(key) {
                return Ok(false);
            }
            filter.insert(key)?;
            Ok(true)
        })?
    }

    fn insert_batch(&self, keys: &[KeyHash]) -> Result<(), Error> {
        let mut nothing = vec![(); keys.len()];
        self.for_each_shard_of(keys, &mut nothing, |shard, keys, _| {
            Ok(self.write(shard, |filter| filter.insert_batch(keys))??)
        })
    }

    fn insert_new_batch(&self, keys: &[KeyHash], new: &mut [bool]) -> Result<(), Error> {
        self.for_each_shard_of(keys, new, |shard, keys, new| {
            Ok(self.write(shard, |filter| filter.insert_new_batch(keys, new))??)
        })
    }
}

impl<G: Remove> Sharded<G> {
    pub(super) fn remove(&self, key: KeyHash) -> Result<bool, Error> {
        let (shard, key) = self.place(key);
        self.write(shard, |filter| filter.remove(key))
    }

    pub(super) fn remove_batch(&self, keys: &[KeyHash], out: &mut [bool]) -> Result<(), Error> {
        self.for_each_shard_of(keys, out, |shard, keys, out| {
            self.write(shard, |filter| filter.remove_batch(keys, out))
        })
    }
}

impl<G: Count> Sharded<G> {
    pub(super) fn count(&self, key: KeyHash) -> Result<u64, Error> {
        let (shard, key) = self.place(key);
        self.read(shard, |filter| filter.count(key))
    }

    pub(super) fn count_batch(&self, keys: &[KeyHash], out: &mut [u64]) -> Result<(), Error> {
        self.for_each_shard_of(keys, out, |shard, keys, out| {
            self.read(shard, |filter| filter.count_batch(keys, out))
        })
    }
}

impl<G: Window> Sharded<G> {
    pub(super) fn push(&self, key: KeyHash) -> Result<bool, Error> {
        let (shard, key) = self.place(key);
        Ok(self.write(shard, |filter| filter.push(key))??)
    }

    pub(super) fn push_batch(&self, keys: &[KeyHash], out: &mut [bool]) -> Result<(), Error> {
        self.for_each_shard_of(keys, out, |shard, keys, out| {
            Ok(self.write(shard, |filter| filter.push_batch(keys, out))??)
        })
    }

    pub(super) fn advance(&self, now: u64) -> Result<(), Error> {
        (0..self.shards.len()).try_for_each(|shard| self.write(shard, |f| f.advance(now)))
    }
}
