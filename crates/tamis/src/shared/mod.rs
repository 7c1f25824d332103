//! Filters that several threads change at the same time.

mod atomic;
mod bloom;
mod sharded;
mod split_block_bloom;
mod storage;
#[cfg(test)]
mod tests;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tamis_format::KeyForms;

use self::atomic::AtomicBits;
use self::sharded::Sharded;
use self::storage::{InsertStorage, Storage};
use crate::any::Registered;
use crate::container::Container;
use crate::error::Error;
use crate::filters::*;
use crate::hash::{Key, KeyHash, KeyHasher};
use crate::keyed::Builder;
use crate::keyed::{Keyed, in_runs};
use crate::traits::{Count, Remove, Window};

/// The default number of shards.
const SHARDS: u64 = 64;
/// The least keys of a shard by default: a shard for `n` keys has room for `6 sqrt(n)` more, which is 9 %
/// of 4096.
const SHARD_KEYS: u64 = 4096;

/// A filter that threads change and query at the same time, through `&self`. `F` is a [`Keyed`] filter of
/// any kind that inserts or pushes.
///
/// ```
/// use tamis::{Cuckoo, Keyed, Shared};
///
/// let seen = Shared::<Keyed<Cuckoo>>::with_capacity(1_000_000, 0.01)?;
/// std::thread::scope(|scope| {
///     for thread in 0..4u64 {
///         let seen = &seen;
///         scope.spawn(move || seen.insert(&thread).unwrap());
///     }
/// });
/// assert!(seen.contains(&3u64) && seen.remove(&3u64)?);
/// # Ok::<_, tamis::Error>(())
/// ```
///
/// An insertion is visible to the thread that made it when the call returns, and to other threads as soon
/// as they learn of it in any way that orders memory: joining, a lock, a channel.
///
/// # How it is shared
///
/// [`Bloom`] and [`SplitBlockBloom`] are one array of atomic words, without locks. At the limit of the
/// capacity, threads that insert at the same time may exceed it by one key each.
///
/// [`Sliding`] is one filter behind a lock: a window of the last keys cannot be divided.
///
/// Other kinds are divided by the leading bits of the hash into shards, 64 by default and fewer for
/// small capacities. Each shard is a plain filter behind a lock, with capacity for its part of the
/// keys and 6 standard deviations more. The false positive rate is that of the plain kind. A key
/// that is inserted many times takes room in its own shard only, so that shard can be
/// [`Error::Full`] before the filter holds as many keys as its capacity.
///
/// # Panics in other threads
///
/// A thread that panics in the middle of a change poisons the lock of one shard, whose filter may be half
/// changed. From then on, operations on keys of that shard return [`Error::Poisoned`], and
/// [`contains`](Shared::contains) returns `true`, so that no member is denied. Nothing waits for the lock.
/// Kinds without locks cannot be poisoned.
pub struct Shared<F: Share> {
    hasher: KeyHasher,
    /// The bits of [`KeyForms`].
    forms: AtomicU64,
    storage: F::Storage,
}

/// A [`Keyed`] filter that threads can share: one whose kind inserts or pushes. This trait is sealed.
pub trait Share {
    /// The filter behind the hasher.
    type Filter: Registered;

    /// How it is shared.
    #[doc(hidden)]
    type Storage: Storage<Filter = Self::Filter>;
}

macro_rules! share {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        $( share_kind!($type { $($can)* }); )*
    };
}

macro_rules! share_kind {
    ($type:ident { Static $($can:ident)* }) => {};
    (Bloom $can:tt) => {
        share_kind!(Bloom in AtomicBits<Bloom>);
    };
    (SplitBlockBloom $can:tt) => {
        share_kind!(SplitBlockBloom in AtomicBits<SplitBlockBloom>);
    };
    ($type:ident { $($can:ident)* }) => {
        share_kind!($type in Sharded<$type>);
    };
    ($type:ident in $storage:ty) => {
        impl Share for Keyed<$type> {
            type Filter = $type;
            type Storage = $storage;
        }
    };
}

crate::registry!(share);

/// Returns the capacity of each of `shards` shards: its part of `keys` and 6 standard deviations of
/// the binomial distribution, at most `keys`.
fn shard_capacity(keys: u64, shards: u64) -> u64 {
    let share = keys as f64 / shards as f64;
    let deviation = (share * (1.0 - 1.0 / shards as f64)).sqrt();
    ((share + 6.0 * deviation).ceil() as u64).min(keys)
}

impl<G: Registered> Shared<Keyed<G>>
where
    Keyed<G>: Share<Filter = G>,
{
    /// Returns an empty filter for this many keys at this false positive rate, with a random seed; of a
    /// window, for the last `keys` keys.
    ///
    /// # Errors
    /// If an argument is out of range or memory cannot be allocated.
    pub fn with_capacity(keys: u64, fpr: f64) -> Result<Self, Error> {
        let shards = (keys / SHARD_KEYS).clamp(1, SHARDS);
        Self::with_shards(1 << shards.ilog2(), keys, Keyed::<G>::builder().fpr(fpr))
    }

    /// Returns an empty filter in `shards` shards for `keys` keys in total. `builder` sets rate,
    /// settings, hash and seed, and its size in bytes is that of one shard. Kinds that are not
    /// divided always have one shard.
    ///
    /// ```
    /// use tamis::{CountingBloom, Keyed, Shared};
    ///
    /// let builder = Keyed::<CountingBloom>::builder().fpr(0.001).secure();
    /// let counts = Shared::with_shards(16, 100_000, builder)?;
    /// counts.insert_batch(&["apple", "pear", "apple"])?;
    /// assert!(counts.count("apple")? >= 2);
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Infeasible`] if `shards` is not a power of 2 or exceeds 1024; otherwise as
    /// [`Builder::empty`].
    pub fn with_shards(shards: usize, keys: u64, builder: Builder<'_, G>) -> Result<Self, Error> {
        let max_shards = <Keyed<G> as Share>::Storage::max_shards();
        let shards = if max_shards == 1 { 1 } else { shards };
        if !shards.is_power_of_two() || shards > max_shards {
            let why = "the number of shards must be a power of 2, at most 1024";
            return Err(Error::Infeasible { why });
        }
        let first = builder.capacity(shard_capacity(keys, shards as u64)).empty()?;
        let mut filters = Vec::new();
        for _ in 1..shards {
            filters.push(first.empty_like()?.into_parts().1);
        }
        let (hasher, filter) = first.into_parts();
        filters.push(filter);
        Self::from_filters(hasher, KeyForms::NONE, filters)
    }

    fn from_filters(hasher: KeyHasher, forms: KeyForms, shards: Vec<G>) -> Result<Self, Error> {
        let storage = Storage::new(shards)?;
        Ok(Self { hasher, forms: AtomicU64::new(forms.bits()), storage })
    }

    /// Joins the shards of [`Shared::shards`], which must be in the same order.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if two differ in shape, hash or seed, [`Error::Infeasible`] if their number is
    /// not a power of 2, [`Error::File`] if the bytes of one are not valid.
    pub fn from_shards<B: AsRef<[u8]>>(shards: impl IntoIterator<Item = B>) -> Result<Self, Error> {
        let mut filters: Vec<G> = Vec::new();
        let mut common: Option<(KeyHasher, KeyForms)> = None;
        for bytes in shards {
            let keyed = Keyed::<G>::from_bytes(bytes.as_ref())?;
            let forms = keyed.key_forms();
            let (hasher, filter) = keyed.into_parts();
            if common.is_some_and(|(first, _)| first != hasher) {
                return Err(Error::Mismatch { what: "hash or seed" });
            }
            if filters.first().is_some_and(|first| first.shape() != filter.shape()) {
                return Err(Error::Mismatch { what: "shape" });
            }
            filters.push(filter);
            common = Some((hasher, common.map_or(forms, |(_, all)| all.union(forms))));
        }
        let (hasher, forms) = common.ok_or(Error::Missing { what: "at least one shard" })?;
        Self::from_filters(hasher, forms, filters)
    }

    /// Returns the bytes of a `.tamis` file for each shard. Each opens as a filter of its kind.
    ///
    /// With one shard the file holds the same keys as this filter. With several, a shard alone
    /// denies the keys of the others, and its keys too unless their hashes are rotated as this
    /// filter rotates them: [`Shared::from_shards`] joins the shards.
    ///
    /// ```
    /// use tamis::{Cuckoo, Keyed, Shared};
    ///
    /// let seen = Shared::<Keyed<Cuckoo>>::with_capacity(100_000, 0.01)?;
    /// seen.insert("apple")?;
    /// let again = Shared::<Keyed<Cuckoo>>::from_shards(seen.shards()?)?;
    /// assert!(again.contains("apple"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// Each shard is read at another moment, so a key that is inserted during the call may be
    /// missing.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or [`Error::Memory`] if an allocation fails.
    pub fn shards(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut shards = Vec::new();
        self.storage.for_each_shard(|filter| {
            shards.push(Container::new(&self.hasher, self.key_forms(), filter).to_bytes()?);
            Ok(())
        })?;
        Ok(shards)
    }

    /// Returns the number of shards.
    pub fn shard_count(&self) -> usize {
        self.storage.shard_count()
    }

    /// Returns the plain filter.
    ///
    /// # Errors
    /// Returns `self` if it has several shards or its shard is poisoned.
    #[expect(clippy::result_large_err, reason = "the caller gets the filter back")]
    pub fn into_inner(self) -> Result<Keyed<G>, Self> {
        let Self { hasher, forms, storage } = self;
        match storage.into_only_shard() {
            Ok(filter) => {
                Ok(Keyed::new(hasher, filter).with_key_forms(key_forms(forms.into_inner())))
            }
            Err(storage) => Err(Self { hasher, forms, storage }),
        }
    }

    /// Returns the hasher of the keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the forms of the keys in the filter: see [`Keyed::key_forms`].
    pub fn key_forms(&self) -> KeyForms {
        key_forms(self.forms.load(Relaxed))
    }

    /// Records the form of keys that are about to be inserted.
    #[inline]
    fn record<K: Key + ?Sized>(&self) {
        let form = K::FORM.bits();
        // A load first leaves the cache line shared.
        if self.forms.load(Relaxed) & form != form {
            self.forms.fetch_or(form, Relaxed);
        }
    }

    #[inline]
    fn hash(&self, key: &(impl Key + ?Sized)) -> KeyHash {
        key.hash_with(&self.hasher)
    }

    /// Returns whether the key may be a member. `false` is certain.
    #[inline]
    pub fn contains(&self, key: &(impl Key + ?Sized)) -> bool {
        self.storage.contains(self.hash(key))
    }

    /// Returns for each key whether it may be a member, faster than one by one.
    pub fn contains_batch<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        let mut out = vec![false; keys.len()];
        let done = self.in_runs(keys, &mut out, |hashes, out| {
            self.storage.contains_batch(hashes, out);
            Ok(())
        });
        done.expect("looking up keys does not fail");
        out
    }

    /// Returns the number of keys in the filter, as its kind counts them.
    pub fn len(&self) -> u64 {
        self.storage.len()
    }

    /// Returns whether the filter holds no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hashes keys in runs and calls `each` with them and their part of `out`.
    fn in_runs<K: Key, T>(
        &self,
        keys: &[K],
        out: &mut [T],
        mut each: impl FnMut(&[KeyHash], &mut [T]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        in_runs(self.hasher, keys, |at, hashes| {
            each(hashes, &mut out[at..at + hashes.len()]).map_err(|error| error.after(at))
        })
    }
}

/// Returns the forms that [`Shared`] recorded. Unknown bits cannot occur.
fn key_forms(bits: u64) -> KeyForms {
    KeyForms::from_bits(bits).unwrap_or_default()
}

impl<G: Registered> Shared<Keyed<G>>
where
    Keyed<G>: Share<Filter = G, Storage: InsertStorage>,
{
    /// Inserts a key.
    ///
    /// # Errors
    /// [`Error::Full`]: the filter is unchanged. [`Error::Poisoned`].
    #[inline]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<(), Error> {
        self.record::<K>();
        self.storage.insert(self.hash(key))
    }

    /// Inserts a key unless the filter seems to hold it. Returns whether it was certainly new.
    ///
    /// Of several threads that insert the same new key at the same time, one gets `true`; with the kinds
    /// without locks, at least one.
    ///
    /// # Errors
    /// [`Error::Full`]: the filter is unchanged. [`Error::Poisoned`].
    pub fn insert_new<K: Key + ?Sized>(&self, key: &K) -> Result<bool, Error> {
        self.record::<K>();
        self.storage.insert_new(self.hash(key))
    }

    /// Inserts keys, faster than one by one.
    ///
    /// # Errors
    /// [`Error::Full`] states the number of keys before the first that did not fit. Those were
    /// inserted, and keys after it may have been. [`Error::Poisoned`]: any of the keys may have
    /// been inserted.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<(), Error> {
        self.record::<K>();
        in_runs(self.hasher, keys, |at, hashes| {
            self.storage.insert_batch(hashes).map_err(|error| error.after(at))
        })
    }

    /// Inserts the keys that the filter does not seem to hold. Returns for each whether it was certainly
    /// new; of duplicates in the batch the first is.
    ///
    /// # Errors
    /// As [`Shared::insert_batch`].
    pub fn insert_new_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<bool>, Error> {
        self.record::<K>();
        let mut new = vec![false; keys.len()];
        self.in_runs(keys, &mut new, |hashes, new| self.storage.insert_new_batch(hashes, new))?;
        Ok(new)
    }
}

impl<G: Registered + Remove> Shared<Keyed<G>>
where
    Keyed<G>: Share<Filter = G, Storage = Sharded<G>>,
{
    /// Removes a key that was inserted: see [`Remove::remove`].
    ///
    /// # Errors
    /// Only [`Error::Poisoned`].
    pub fn remove(&self, key: &(impl Key + ?Sized)) -> Result<bool, Error> {
        self.storage.remove(self.hash(key))
    }

    /// Removes keys: see [`Remove::remove_batch`].
    ///
    /// # Errors
    /// Only [`Error::Poisoned`]: any of the keys may be removed.
    pub fn remove_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<bool>, Error> {
        let mut out = vec![false; keys.len()];
        self.in_runs(keys, &mut out, |hashes, out| self.storage.remove_batch(hashes, out))?;
        Ok(out)
    }
}

impl<G: Registered + Count> Shared<Keyed<G>>
where
    Keyed<G>: Share<Filter = G, Storage = Sharded<G>>,
{
    /// Counts a key: see [`Count::count`].
    ///
    /// # Errors
    /// Only [`Error::Poisoned`].
    pub fn count(&self, key: &(impl Key + ?Sized)) -> Result<u64, Error> {
        self.storage.count(self.hash(key))
    }

    /// Counts keys: see [`Count::count_batch`].
    ///
    /// # Errors
    /// Only [`Error::Poisoned`].
    pub fn count_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<u64>, Error> {
        let mut out = vec![0; keys.len()];
        self.in_runs(keys, &mut out, |hashes, out| self.storage.count_batch(hashes, out))?;
        Ok(out)
    }
}

impl<G: Registered + Window> Shared<Keyed<G>>
where
    Keyed<G>: Share<Filter = G, Storage = Sharded<G>>,
{
    /// Pushes a key and forgets old ones. Returns whether it seemed to be in: see [`Window::push`].
    ///
    /// ```
    /// use tamis::{Keyed, Shared, Sliding};
    ///
    /// let recent = Shared::<Keyed<Sliding>>::with_capacity(1000, 0.01)?;
    /// assert!(!recent.push("apple")?);
    /// assert!(recent.push("apple")?);
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Full`]: the key is not remembered. [`Error::Poisoned`].
    pub fn push<K: Key + ?Sized>(&self, key: &K) -> Result<bool, Error> {
        self.record::<K>();
        self.storage.push(self.hash(key))
    }

    /// Pushes keys in order: see [`Window::push_batch`].
    ///
    /// # Errors
    /// [`Error::Full`] states how many keys were pushed before the key that was refused.
    /// [`Error::Poisoned`].
    pub fn push_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<bool>, Error> {
        self.record::<K>();
        let mut seen = vec![false; keys.len()];
        self.in_runs(keys, &mut seen, |hashes, seen| self.storage.push_batch(hashes, seen))?;
        Ok(seen)
    }

    /// Sets the time: see [`Window::advance`].
    ///
    /// # Errors
    /// Only [`Error::Poisoned`].
    pub fn advance(&self, now: u64) -> Result<(), Error> {
        self.storage.advance(now)
    }
}

/// Shares a plain filter, as one shard.
///
/// ```
/// use tamis::{Keyed, Shared, SplitBlockBloom};
///
/// let mut seen = Keyed::<SplitBlockBloom>::with_capacity(1000, 0.01)?;
/// seen.insert("apple")?;
/// let shared = Shared::from(seen);
/// shared.insert("pear")?;
/// let seen = shared.into_inner().expect("one shard");
/// assert!(seen.contains("apple") && seen.contains("pear"));
/// # Ok::<_, tamis::Error>(())
/// ```
///
/// # Panics
/// Panics if the filter is mapped, its kind is shared without locks, and memory for a copy cannot be
/// allocated. After [`Keyed::make_owned`] it cannot.
impl<G: Registered> From<Keyed<G>> for Shared<Keyed<G>>
where
    Keyed<G>: Share<Filter = G>,
{
    fn from(keyed: Keyed<G>) -> Self {
        let forms = keyed.key_forms();
        let (hasher, filter) = keyed.into_parts();
        Self::from_filters(hasher, forms, vec![filter]).expect("failed to copy a mapped filter")
    }
}

impl<F: Share> fmt::Debug for Shared<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("kind", &F::Filter::KIND)
            .field("shards", &self.storage.shard_count())
            .field("len", &self.storage.len())
            .finish_non_exhaustive()
    }
}
