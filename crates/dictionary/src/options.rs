//! What the caller chooses: options, repair policy, writes and the kind of filter.

use std::fmt;

use tamis::{Adapt, HashId, Registered, Remove};

/// A filter that a dictionary can use: it supports removal and repairs and can be saved.
///
/// Implemented for every filter with these capabilities. [`Broom`](tamis::Broom) is the usual choice.
pub trait DictionaryFilter:
    Adapt + Remove + Registered + fmt::Debug + Send + Sync + 'static
{
}

impl<F: Adapt + Remove + Registered + fmt::Debug + Send + Sync + 'static> DictionaryFilter for F {}

/// When false positives are repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// By the thread that met the false positive, before `get` returns. A clustered store needs no further
    /// access for it.
    #[default]
    Inline,
    /// By a background thread of the dictionary. `get` does not wait, but the repair reads the nearby
    /// members in a further access.
    Background,
    /// Never.
    Off,
}

/// The parameters of a new dictionary.
///
/// # Examples
///
/// ```
/// use tamis::{Broom, HashId};
/// use tamis_dictionary::{Dictionary, Layout, Options, store::MemoryStore};
///
/// let options =
///     Options::default().with_keys(50_000).with_fpr(0.01).with_hash(HashId::Fast);
/// let store = MemoryStore::new(Layout::Clustered);
/// let dictionary = Dictionary::<Broom, _>::create(store, options)?;
/// assert_eq!(dictionary.stats().target_fpr, 0.01);
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) keys: u64,
    pub(crate) fpr: f64,
    pub(crate) hash: HashId,
    pub(crate) max_memory: Option<u64>,
}

impl Default for Options {
    /// Returns 10^6 keys, a false positive rate of 1/256 and [`HashId::Secure`].
    fn default() -> Self {
        Self { keys: 1_000_000, fpr: 1.0 / 256.0, hash: HashId::Secure, max_memory: None }
    }
}

impl Options {
    /// Sets the expected number of keys. With more keys, each shard of the filter grows by a scan of its
    /// own keys.
    #[must_use]
    pub fn with_keys(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    /// Sets the false positive rate: the fraction of absent keys whose lookup reads the store.
    #[must_use]
    pub fn with_fpr(self, fpr: f64) -> Self {
        Self { fpr, ..self }
    }

    /// Sets the hash function. Use [`HashId::Fast`] only if no adversary chooses keys.
    #[must_use]
    pub fn with_hash(self, hash: HashId) -> Self {
        Self { hash, ..self }
    }

    /// Sets the most bytes of memory for the filter, in this session:
    /// [`Dictionary::open_within`](crate::Dictionary::open_within) sets it in later ones.
    #[must_use]
    pub fn with_max_memory(self, bytes: u64) -> Self {
        Self { max_memory: Some(bytes), ..self }
    }
}

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Op<'a> {
    /// Sets the value of a key: key, value.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a key.
    Delete(&'a [u8]),
}

impl<'a> Op<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }
}
