//! What keeps the keys and values: the trait, and the stores that there are.
//!
//! ```text
//!  clustered    │ hi · key → value │ hi · key → value │ …     neighbours in hash are neighbours here
//!
//!  secondary    │ key → value │ key → value │ …              in the order of keys
//!               │ hi · key │ hi · key │ …                    and an index in the order of hashes
//! ```
//!
//! `hi` is half of a key's hash. A filter that let in a stranger asks for the keys of a range of it.
//! In the clustered layout they lie where the stranger was looked for, and come with the answer; in
//! the secondary one they are a second access. There, entries come in the order of their keys, unless
//! the store has no order (Redis), and other programs find them by their keys.

#[cfg(feature = "fjall")]
mod fjall;
mod memory;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "redis")]
mod redis;

use std::ops::RangeInclusive;

#[cfg(feature = "fjall")]
pub use self::fjall::FjallStore;
pub use self::memory::MemoryStore;
pub use self::place::{AnyStore, create, open};
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresStore;
#[cfg(feature = "redb")]
pub use self::redb::RedbStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
use crate::error::Error;

/// How entries lie in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the order of their hashes.
    Clustered,
    /// In the order of their keys, with an index in the order of their hashes.
    Secondary,
}

impl Layout {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clustered => "clustered",
            Self::Secondary => "secondary",
        }
    }

    #[cfg(feature = "redis")]
    fn named(name: &[u8]) -> Option<Self> {
        [Self::Clustered, Self::Secondary]
            .into_iter()
            .find(|layout| layout.name().as_bytes() == name)
    }
}

/// One write.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Half of the key's hash.
    pub hi: u64,
    /// The key.
    pub key: &'a [u8],
    /// Its value from now on; `None` takes it out.
    pub value: Option<&'a [u8]>,
    /// The key is surely not in the store: there is no need to look.
    pub new: bool,
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Keeps keys, values, an index by hashes, and a few notes of the dictionary's own.
///
/// Every method is one access. All that [`apply`](Store::apply) is given is done or none of it, and
/// is durable, as far as the store can be, when it returns.
pub trait Store: Send + Sync {
    /// How its entries lie.
    fn layout(&self) -> Layout;

    /// Bytes of the longest key that it takes.
    fn longest_key(&self) -> usize {
        usize::MAX
    }

    /// Becomes the only writer, or says [`Error::InUse`].
    fn claim(&self) -> Result<(), Error>;

    /// Lets another one be the writer.
    fn release(&self);

    /// The key's value.
    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// The key's value; if there is none, `see` is given the keys of `range`, as the store was
    /// when it did not find it. Only asked of a clustered store.
    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error>;

    /// Gives `see` all keys whose `hi` lies in `range`, in the order of `hi`.
    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error>;

    /// So many entries after this one, in the store's own order; fewer only at the end.
    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error>;

    /// Makes these changes in their order; tells of each whether its key was there before it. Of a
    /// new key it may say that it was not.
    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error>;

    /// After this, no change that failed will yet be made by a server that is late.
    fn settle(&self) -> Result<(), Error> {
        Ok(())
    }

    /// A note.
    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Writes notes, all or none.
    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error>;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn layout(&self) -> Layout {
        (**self).layout()
    }

    fn longest_key(&self) -> usize {
        (**self).longest_key()
    }

    fn claim(&self) -> Result<(), Error> {
        (**self).claim()
    }

    fn release(&self) {
        (**self).release();
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        (**self).get(hi, key)
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        (**self).get_or_keys(hi, key, range, see)
    }

    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        (**self).keys(range, see)
    }

    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error> {
        (**self).page(after, most)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        (**self).apply(changes)
    }

    fn settle(&self) -> Result<(), Error> {
        (**self).settle()
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        (**self).note(name)
    }

    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error> {
        (**self).set_notes(notes)
    }
}

/// `hi`, most significant byte first, and the key: sorts as the pair does.
#[cfg(any(feature = "redb", feature = "fjall", feature = "redis"))]
fn joined(hi: u64, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + key.len());
    bytes.extend_from_slice(&hi.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// The key of what [`joined`] made.
#[cfg(any(feature = "redb", feature = "fjall", feature = "redis"))]
fn key_of(joined: &[u8]) -> &[u8] {
    joined.get(8..).unwrap_or_default()
}
