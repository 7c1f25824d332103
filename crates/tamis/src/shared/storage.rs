//! Storage of [`Shared`](super::Shared): shards behind locks, or an array of atomic words.

use crate::any::Registered;
use crate::error::Error;
use crate::hash::KeyHash;

/// A filter that threads query through `&self`.
pub trait Storage: Sized + Send + Sync {
    /// The filter of a shard.
    type Filter: Registered;

    /// Returns the largest number of shards.
    fn max_shards() -> usize;

    /// Takes shards of one shape, in order, whose number is a power of 2.
    fn new(shards: Vec<Self::Filter>) -> Result<Self, Error>;

    /// Returns the filter of the only shard, or `self` if there are several or the shard is poisoned.
    fn into_only_shard(self) -> Result<Self::Filter, Self>;

    /// Returns the number of shards.
    fn shard_count(&self) -> usize;

    /// Calls `each` with each shard in order, until it fails.
    fn for_each_shard(
        &self,
        each: impl FnMut(&Self::Filter) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// As [`Filter::contains`](crate::Filter::contains).
    fn contains(&self, key: KeyHash) -> bool;

    /// As [`Filter::contains_batch`](crate::Filter::contains_batch).
    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]);

    /// As [`Filter::len`](crate::Filter::len).
    fn len(&self) -> u64;
}

/// A filter that threads insert into through `&self`.
pub trait InsertStorage: Storage {
    /// As [`Insert::insert`](crate::Insert::insert).
    fn insert(&self, key: KeyHash) -> Result<(), Error>;

    /// Inserts a key unless it seems to be in. Returns whether it was certainly new.
    fn insert_new(&self, key: KeyHash) -> Result<bool, Error>;

    /// Inserts keys. On [`Error::Full`] the keys before the first that did not fit are in.
    fn insert_batch(&self, keys: &[KeyHash]) -> Result<(), Error>;

    /// As [`Insert::insert_new_batch`](crate::Insert::insert_new_batch).
    fn insert_new_batch(&self, keys: &[KeyHash], new: &mut [bool]) -> Result<(), Error>;
}
