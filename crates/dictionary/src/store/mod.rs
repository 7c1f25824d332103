//! The [`Store`] trait, which keeps keys and values, and its implementations.
//!
//! ```text
//!  clustered    │ hi · key → value │ hi · key → value │ …     entries in hash order
//!
//!  secondary    │ key → value │ key → value │ …              entries in key order
//!               │ hi · key │ hi · key │ …                    and an index in hash order
//! ```
//!
//! `hi` is one half of a key's hash. To repair a false positive, the filter needs the keys in a range of `hi`.
//! In the clustered layout they are next to the place where the key was looked up, and one access returns
//! both; in the secondary layout they take a second access. In exchange the secondary layout keeps entries in
//! key order (except in memory and in Redis, which have hash tables), and other programs can find a value by
//! its key. The last 4 bytes of a stored value are the checksum of the entry.
//!
//! | store | feature | location | durable when a write returns |
//! | --- | --- | --- | --- |
//! | [`MemoryStore`] | | | no |
//! | `RedbStore` | `redb` (default) | a file | yes |
//! | `FjallStore` | `fjall` | a folder | yes |
//! | `RedisStore` | `redis` | a Redis server | as the server is configured |
//! | `PostgresStore` | `postgres` | a PostgreSQL server | as the server is configured |
//!
//! A new store is visible to [`open`] only after [`Store::publish`]. Until then it is an *unfinished creation*:
//! if the process fails it is removed, and if the process is killed the next [`create`] removes it.

#[cfg(any(feature = "redb", feature = "fjall"))]
mod creation;
#[cfg(feature = "fjall")]
mod fjall;
mod location;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "redis")]
mod redis;

use std::ops::RangeInclusive;
use std::time::Duration;

#[cfg(feature = "fjall")]
pub use self::fjall::FjallStore;
pub use self::location::{AnyStore, create, open};
pub use self::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresStore;
#[cfg(feature = "redb")]
pub use self::redb::RedbStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
use crate::error::Error;

/// The order of the entries in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Entries in the order of their hashes.
    Clustered,
    /// Entries in the order of their keys, with an index in the order of their hashes.
    Secondary,
}

impl Layout {
    /// Returns the name, as the command line and the Redis store write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clustered => "clustered",
            Self::Secondary => "secondary",
        }
    }

    #[cfg(any(feature = "redis", feature = "postgres"))]
    fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Clustered, Self::Secondary]
            .into_iter()
            .find(|layout| layout.name().as_bytes() == name)
    }
}

/// One write of a batch, with the hash of its key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Change<'a> {
    /// One half of the key's hash.
    pub hi: u64,
    /// The key.
    pub key: &'a [u8],
    /// The new value, or `None` to delete the key.
    pub value: Option<&'a [u8]>,
    /// Whether the key is certainly not in the store, so that the store need not look for it.
    pub is_new: bool,
}

impl<'a> Change<'a> {
    /// Returns a change that sets the value of a key.
    pub fn put(hi: u64, key: &'a [u8], value: &'a [u8]) -> Self {
        Self { hi, key, value: Some(value), is_new: false }
    }

    /// Returns a change that deletes a key.
    pub fn delete(hi: u64, key: &'a [u8]) -> Self {
        Self { hi, key, value: None, is_new: false }
    }

    /// Sets whether the key is certainly not in the store.
    #[must_use]
    pub fn with_is_new(self, is_new: bool) -> Self {
        Self { is_new, ..self }
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Entry {
    /// The `hi` that the store keeps with the entry, or `None` if its order does not depend on `hi`.
    pub hi: Option<u64>,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

impl Entry {
    /// Returns an entry with the given `hi`, key and value.
    pub fn new(hi: Option<u64>, key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { hi, key, value }
    }
}

/// Keeps keys and values, an index in hash order, and the metadata records of the dictionary.
///
/// Each method call is one access. [`apply`](Store::apply) and [`set_meta`](Store::set_meta) are atomic:
/// they make all of the changes or none. What they have written is durable when they return, as far as the
/// store supports it.
pub trait Store: Send + Sync {
    /// Returns the order of the entries.
    fn layout(&self) -> Layout;

    /// Returns the greatest supported length of a key in bytes.
    fn max_key_len(&self) -> usize {
        usize::MAX
    }

    /// Becomes the only writer of the store. A new store is made here at the latest.
    ///
    /// # Errors
    ///
    /// Returns [`Error::InUse`] if the store has a writer, and [`Error::AlreadyExists`] if the store is new and
    /// its location holds data.
    fn acquire(&self) -> Result<(), Error>;

    /// Stops being the writer, so that another dictionary can acquire the store. Removes a new store that was
    /// not published, here or on drop.
    fn release(&self);

    /// Makes a new store visible to others. Called once, after the first metadata was written.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the location holds data by now.
    fn publish(&self) -> Result<(), Error>;

    /// Returns how long the store stays acquired after `acquire` or `confirm` was called, or `None` if it
    /// stays so until `release`, for example by the lock of a file.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Confirms that the store is still acquired. Called only if there is a [`lease`](Store::lease).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Fenced`] if another dictionary has acquired the store since, and
    /// [`Error::LostWrites`] if the server has lost writes that it had acknowledged.
    fn confirm(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the value of a key.
    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Returns the value of a key. If there is none, calls `visit` with `hi` and key of each entry whose `hi` is
    /// in `range`, in the same snapshot of the store in which the key was not found. Called only on clustered
    /// stores.
    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error>;

    /// Calls `visit` with `hi` and key of each entry whose `hi` is in `range`, in the order of `hi`. Both are
    /// as the store keeps them, so that the caller can compare them.
    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error>;

    /// Returns up to `limit` entries after the entry with the given `hi` (0 if it has none) and key, in the
    /// store's order. Fewer than `limit` entries mean the end of the store.
    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error>;

    /// Applies changes in order. Returns for each whether its key was present before it. For a change with
    /// `is_new` the answer may be `false` without a check.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Fenced`] if another dictionary has acquired the store since, and
    /// [`Error::LostWrites`] if the server has lost writes that it had acknowledged.
    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error>;

    /// Waits until no change whose `apply` failed can still take effect.
    ///
    /// A server may apply a change after the client has lost the connection. Stores without a server need no
    /// barrier.
    fn barrier(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns a metadata record.
    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Writes metadata records, given as names and contents.
    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error>;

    /// Checks the parts of the store that reading all its keys and entries does not reach.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if such a part is damaged.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn layout(&self) -> Layout {
        (**self).layout()
    }

    fn max_key_len(&self) -> usize {
        (**self).max_key_len()
    }

    fn acquire(&self) -> Result<(), Error> {
        (**self).acquire()
    }

    fn release(&self) {
        (**self).release();
    }

    fn publish(&self) -> Result<(), Error> {
        (**self).publish()
    }

    fn lease(&self) -> Option<Duration> {
        (**self).lease()
    }

    fn confirm(&self) -> Result<(), Error> {
        (**self).confirm()
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        (**self).get(hi, key)
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        (**self).get_or_keys(hi, key, range, visit)
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        (**self).keys(range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        (**self).page(after, limit)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        (**self).apply(changes)
    }

    fn barrier(&self) -> Result<(), Error> {
        (**self).barrier()
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        (**self).meta(name)
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        (**self).set_meta(records)
    }

    fn check(&self) -> Result<(), Error> {
        (**self).check()
    }
}

/// Concatenates `hi` in big-endian bytes and the key. The result sorts by `hi`, then by key.
#[cfg(any(feature = "redb", feature = "fjall", feature = "redis"))]
fn with_hash_prefix(hi: u64, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + key.len());
    bytes.extend_from_slice(&hi.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// Returns `hi` and the key in the result of [`with_hash_prefix`].
#[cfg(any(feature = "redb", feature = "fjall", feature = "redis"))]
fn split_hash_prefix(prefixed: &[u8]) -> (u64, &[u8]) {
    match prefixed.split_first_chunk() {
        Some((hi, key)) => (u64::from_be_bytes(*hi), key),
        None => (0, &[]),
    }
}
