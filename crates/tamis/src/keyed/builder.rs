//! The builder: one path to every filter, typed or dynamic, empty or full, set or map.

use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::sync::atomic::AtomicBool;
#[cfg(feature = "std")]
use std::path::PathBuf;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use super::Keyed;
use crate::any::{AnyFilter, Registered, shape_within};
use crate::capability::Capability;
use crate::error::Error;
use crate::hash::{HashId, Key, KeyHash, KeyHasher};
use crate::kind::Kind;
use crate::options::{BuildOptions, Progress};
use crate::plan::FIRST_KEYS;
use crate::settings::SettingValue;
use crate::sizing::Sizing;
use crate::source::{EntrySource, Hashes, KeySource, ValueSource};
use crate::traits::{BuildMap, Deny};
use crate::values::Value;

/// Builds a [`Keyed`] filter: see [`Keyed::builder`].
///
/// The default is a false positive rate of 1 %, the `fast` hash with a random seed (`ordered` for kinds
/// that answer ranges), and one thread.
///
/// ```
/// use tamis::{Bloom, BinaryFuse, Keyed};
///
/// let safe = Keyed::<Bloom>::builder().capacity(1000).fpr(0.001).secure().empty()?;
/// assert!(safe.is_empty());
/// // A static kind counts its keys; duplicates are dropped.
/// let set = Keyed::<BinaryFuse>::builder().fpr(0.004).threads(2).build(1..=1000u64)?;
/// assert_eq!(set.len(), 1000);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build`, `build_map`, `build_denying` or `empty`"]
pub struct Builder<'a, F> {
    kind: Kind,
    sizing: Sizing,
    hash: HashId,
    seed: Option<[u64; 2]>,
    second_seed: [u64; 2],
    options: BuildOptions<'a>,
    filter: PhantomData<fn() -> F>,
}

impl<'a, F> Builder<'a, F> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            sizing: Sizing::default(),
            hash: kind.default_hash(),
            seed: None,
            second_seed: [0; 2],
            options: BuildOptions::new(),
            filter: PhantomData,
        }
    }

    fn resize(self, sizing: impl FnOnce(Sizing) -> Sizing) -> Self {
        Self { sizing: sizing(self.sizing), ..self }
    }

    /// Sets the capacity in keys. Static kinds count their keys and kinds that grow start small, so
    /// neither needs it. Other kinds need it for an empty filter.
    pub fn capacity(self, keys: u64) -> Self {
        self.resize(|sizing| sizing.capacity(keys))
    }

    /// Sets the false positive rate, in (0, 1).
    pub fn fpr(self, fpr: f64) -> Self {
        self.resize(|sizing| sizing.target(Sizing::fpr(fpr)))
    }

    /// Sets the size in bytes instead of the rate; the rate is then as low as possible.
    pub fn bytes(self, bytes: u64) -> Self {
        self.resize(|sizing| sizing.target(Sizing::bytes(bytes)))
    }

    /// Sets the size in bits per key instead of the rate; the rate is then as low as possible.
    pub fn bits_per_key(self, bits: f64) -> Self {
        self.resize(|sizing| sizing.target(Sizing::bits_per_key(bits)))
    }

    /// Sets a setting of the kind: see [`Kind::settings`].
    pub fn set(self, name: impl Into<String>, value: impl Into<SettingValue>) -> Self {
        self.resize(|sizing| sizing.set(name, value))
    }

    /// Replaces capacity, rate and settings by those of `sizing`.
    pub fn sizing(self, sizing: Sizing) -> Self {
        Self { sizing, ..self }
    }

    /// Hashes with this function. The default is that of the kind: see [`Kind::default_hash`].
    pub fn hash(self, hash: HashId) -> Self {
        Self { hash, ..self }
    }

    /// Hashes with SipHash-1-3, for keys that an adversary may choose.
    pub fn secure(self) -> Self {
        self.hash(HashId::Secure)
    }

    /// Hashes with this seed. Without it the seed is random; without the feature `std` a seed is required.
    pub fn seed(self, seed: [u64; 2]) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Hashes with the function and seed of `hasher`, so that the filter can be merged with others.
    pub fn hasher(self, hasher: &KeyHasher) -> Self {
        let second_seed = hasher.second_seed().unwrap_or_default();
        Self { second_seed, ..self.hash(hasher.id()).seed(hasher.seed()) }
    }

    /// Replaces all build options: see [`BuildOptions`].
    pub fn options(self, options: BuildOptions<'a>) -> Self {
        Self { options, ..self }
    }

    /// Builds on this many threads: see [`BuildOptions::threads`].
    pub fn threads(self, threads: usize) -> Self {
        Self { options: self.options.threads(threads), ..self }
    }

    /// Limits the memory of the build: see [`BuildOptions::max_memory`].
    #[cfg(feature = "std")]
    pub fn max_memory(self, bytes: u64, scratch: impl Into<PathBuf>) -> Self {
        Self { options: self.options.max_memory(bytes, scratch), ..self }
    }

    /// Reports progress: see [`BuildOptions::on_progress`].
    pub fn on_progress(self, callback: &'a (dyn Fn(&Progress) + Sync)) -> Self {
        Self { options: self.options.on_progress(callback), ..self }
    }

    /// Stops the build after this time: see [`BuildOptions::time_limit`].
    #[cfg(feature = "std")]
    pub fn time_limit(self, limit: Duration) -> Self {
        Self { options: self.options.time_limit(limit), ..self }
    }

    /// Stops the build at this time: see [`BuildOptions::deadline`].
    #[cfg(feature = "std")]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { options: self.options.deadline(deadline), ..self }
    }

    /// Stops the build once `cancel` is true: see [`BuildOptions::cancel`].
    pub fn cancel(self, cancel: &'a AtomicBool) -> Self {
        Self { options: self.options.cancel(cancel), ..self }
    }

    /// Returns the hasher, whose seed the build uses too.
    fn make_hasher(&mut self) -> Result<KeyHasher, Error> {
        self.kind.check_hash(self.hash)?;
        let hasher = match self.seed {
            Some(seed) => KeyHasher::new(self.hash, seed).with_second_seed(self.second_seed),
            #[cfg(feature = "std")]
            None => KeyHasher::random(self.hash)?,
            #[cfg(not(feature = "std"))]
            None => return Err(Error::Missing { what: "the seed" }),
        };
        self.options = self.options.clone().seed(hasher.seed());
        Ok(hasher)
    }

    /// Hashes the keys and calls [`Builder::build_hashes_from`].
    fn build_from<K: Key, R>(
        mut self,
        keys: impl IntoIterator<Item = K>,
        build: impl FnOnce(&Sizing, &mut dyn KeySource, &BuildOptions<'_>) -> Result<R, Error>,
    ) -> Result<Keyed<R>, Error> {
        let hasher = self.make_hasher()?;
        let mut hashes = Hashes::new(keys.into_iter().map(|key| key.hash_with(&hasher)));
        let filter = self.build_hashes_from(&mut hashes, build)?;
        Ok(Keyed::new(hasher, filter).with_key_forms(K::FORM))
    }

    /// Calls `build` with the hashes of the keys. For a kind that must know their number, they are
    /// collected first, 16 bytes each, unless the capacity is given.
    fn build_hashes_from<R>(
        mut self,
        hashes: &mut dyn KeySource,
        build: impl FnOnce(&Sizing, &mut dyn KeySource, &BuildOptions<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let counts = self.kind.can(Capability::Static) || self.sizing.given_capacity().is_some();
        if counts {
            return build(&self.sizing, hashes, &self.options);
        }
        if self.kind.can(Capability::Grow) {
            self.sizing = self.sizing.capacity(FIRST_KEYS);
            return build(&self.sizing, hashes, &self.options);
        }
        let mut all = Vec::new();
        crate::source::read_all(&self.options, hashes, |run| {
            let bytes = size_of_val(run) as u64;
            all.try_reserve(run.len()).map_err(|_| Error::Memory { bytes })?;
            all.extend_from_slice(run);
            Ok(())
        })?;
        self.sizing = self.sizing.capacity(all.len() as u64);
        build(&self.sizing, &mut &all[..], &self.options)
    }

    fn empty_from<R>(
        mut self,
        build: impl FnOnce(&Sizing, &mut dyn KeySource, &BuildOptions<'_>) -> Result<R, Error>,
    ) -> Result<Keyed<R>, Error> {
        if self.kind.can(Capability::Static) {
            return Err(Error::Unsupported { kind: self.kind, capability: Capability::Insert });
        }
        if self.sizing.given_capacity().is_none() {
            if !self.kind.can(Capability::Grow) {
                return Err(Error::Missing { what: "the capacity of an empty filter" });
            }
            self.sizing = self.sizing.capacity(FIRST_KEYS);
        }
        let (none, hasher): (&[KeyHash], _) = (&[], self.make_hasher()?);
        Ok(Keyed::new(hasher, build(&self.sizing, &mut { none }, &self.options)?))
    }

    fn build_map_from<K: Key, R>(
        mut self,
        entries: impl IntoIterator<Item = (K, u64)>,
        build: impl FnOnce(&Sizing, &mut dyn EntrySource, &BuildOptions<'_>) -> Result<R, Error>,
    ) -> Result<Keyed<R>, Error> {
        let hasher = self.make_hasher()?;
        let hashed = entries.into_iter().map(|(key, value)| (key.hash_with(&hasher), value));
        let filter = build(&self.sizing, &mut Hashes::new(hashed), &self.options)?;
        Ok(Keyed::new(hasher, filter).with_key_forms(K::FORM))
    }

    fn build_values_from<K: Key, V: Into<Value>, R>(
        mut self,
        entries: impl IntoIterator<Item = (K, V)>,
        build: impl FnOnce(&Sizing, ValueSource<'_>, &BuildOptions<'_>) -> Result<R, Error>,
    ) -> Result<Keyed<R>, Error> {
        let hasher = self.make_hasher()?;
        let mut all = Vec::new();
        for (key, value) in entries {
            let bytes = size_of::<(KeyHash, Value)>() as u64;
            all.try_reserve(1).map_err(|_| Error::Memory { bytes })?;
            all.push((key.hash_with(&hasher), value.into()));
        }
        let filter =
            ValueSource::with(&all, |entries| build(&self.sizing, entries, &self.options))?;
        Ok(Keyed::new(hasher, filter).with_key_forms(K::FORM))
    }

    fn build_denying_from<K: Key, R>(
        mut self,
        keys: impl IntoIterator<Item = K>,
        denied: impl IntoIterator<Item = K>,
        build: impl FnOnce(
            &Sizing,
            &mut dyn KeySource,
            &mut dyn KeySource,
            &BuildOptions<'_>,
        ) -> Result<R, Error>,
    ) -> Result<Keyed<R>, Error> {
        let hasher = self.make_hasher()?;
        let mut keys = Hashes::new(keys.into_iter().map(|key| key.hash_with(&hasher)));
        let mut denied = Hashes::new(denied.into_iter().map(|key| key.hash_with(&hasher)));
        let filter = build(&self.sizing, &mut keys, &mut denied, &self.options)?;
        Ok(Keyed::new(hasher, filter).with_key_forms(K::FORM))
    }
}

impl<F: Registered> Builder<'_, F> {
    /// Builds a filter of all `keys`. Without a capacity, a kind that inserts gets the capacity of
    /// all `keys`, duplicates included.
    ///
    /// # Errors
    /// As [`Build::build_with`](crate::Build::build_with).
    pub fn build<K: Key>(self, keys: impl IntoIterator<Item = K>) -> Result<Keyed<F>, Error> {
        self.build_from(keys, |sizing, keys, options| {
            F::build_with(options, |distinct| shape_within::<F>(sizing, distinct, options), keys)
        })
    }

    /// Returns an empty filter, to insert into.
    ///
    /// # Errors
    /// [`Error::Missing`] without a capacity, [`Error::Unsupported`] for static kinds.
    pub fn empty(self) -> Result<Keyed<F>, Error> {
        self.empty_from(|sizing, keys, options| {
            F::build_with(options, |distinct| shape_within::<F>(sizing, distinct, options), keys)
        })
    }
}

impl<F: Registered + BuildMap> Builder<'_, F> {
    /// Builds a map from `entries` of keys and values. All values have the width of the widest.
    ///
    /// # Errors
    /// As [`BuildMap::build_map_with`].
    pub fn build_map<K: Key>(
        self,
        entries: impl IntoIterator<Item = (K, u64)>,
    ) -> Result<Keyed<F>, Error> {
        self.build_map_from(entries, |sizing, entries, options| {
            F::build_map_with(options, |keys, bits| sizing.map_shape(keys, bits), entries)
        })
    }

    /// Builds a map from `entries` of keys and values of any type: see [`Value`]. The entries are held in
    /// memory until the map is built.
    ///
    /// ```
    /// use tamis::{Bloomier, Keyed, Value};
    /// let builder = Keyed::<Bloomier>::builder().fpr(0.001);
    /// let mut colour = builder.build_values([("apple", "red"), ("pear", "green"), ("rose", "red")])?;
    /// assert_eq!(colour.get_value("pear"), Some(Value::from("green")));
    /// colour.set_value("apple", "green")?;
    /// assert!(colour.set_value("apple", "blue").is_err());
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BuildMap::build_values_with`].
    pub fn build_values<K: Key, V: Into<Value>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Keyed<F>, Error> {
        self.build_values_from(entries, |sizing, entries, options| {
            let fit = |keys, bits, bytes| sizing.values_shape(keys, bits, bytes);
            F::build_values_with(options, fit, entries)
        })
    }
}

impl<F: Registered + Deny> Builder<'_, F> {
    /// Builds a filter of all `keys` that rejects every key of `denied`.
    ///
    /// ```
    /// use tamis::{Guarded, Keyed};
    /// let spam = Keyed::<Guarded>::builder().build_denying(["win", "prize"], ["mother", "bank"])?;
    /// assert!(spam.contains("win") && !spam.contains("mother"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Deny::build_denying`].
    pub fn build_denying<K: Key>(
        self,
        keys: impl IntoIterator<Item = K>,
        denied: impl IntoIterator<Item = K>,
    ) -> Result<Keyed<F>, Error> {
        self.build_denying_from(keys, denied, |sizing, keys, denied, options| {
            F::build_denying(options, |distinct| sizing.shape(distinct), keys, denied)
        })
    }
}

impl Builder<'_, AnyFilter> {
    /// Builds a filter of all `keys`. Without a capacity, a kind that inserts gets the capacity of
    /// all `keys`, duplicates included.
    ///
    /// # Errors
    /// As [`Build::build_with`](crate::Build::build_with).
    pub fn build<K: Key>(
        self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Keyed<AnyFilter>, Error> {
        let kind = self.kind;
        self.build_from(keys, |sizing, keys, options| kind.build(sizing, keys, options))
    }

    /// Builds a filter from the hashes of its keys, which the hasher of [`Builder::hasher`] must have
    /// made. Otherwise as [`Builder::build`].
    ///
    /// ```
    /// use tamis::{AnyFilter, HashId, Hashes, Key, KeyForms, KeyHasher, Keyed, Kind};
    ///
    /// let hasher = KeyHasher::random(HashId::Fast)?;
    /// let mut hashes = Hashes::new(["apple", "pear"].iter().map(|key| key.hash_with(&hasher)));
    /// let builder = Keyed::<AnyFilter>::builder(Kind::Ribbon).hasher(&hasher);
    /// let fruit = builder.build_hashes(&mut hashes)?.with_key_forms(KeyForms::BYTES);
    /// assert!(fruit.contains("pear"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Missing`] without a hasher or seed; otherwise as
    /// [`Build::build_with`](crate::Build::build_with).
    pub fn build_hashes(mut self, hashes: &mut dyn KeySource) -> Result<Keyed<AnyFilter>, Error> {
        self.seed.ok_or(Error::Missing { what: "the hasher of the hashes" })?;
        let (kind, hasher) = (self.kind, self.make_hasher()?);
        let filter = self
            .build_hashes_from(hashes, |sizing, keys, options| kind.build(sizing, keys, options))?;
        Ok(Keyed::new(hasher, filter))
    }

    /// Returns an empty filter, to insert into.
    ///
    /// # Errors
    /// [`Error::Missing`] without a capacity, [`Error::Unsupported`] for static kinds.
    pub fn empty(self) -> Result<Keyed<AnyFilter>, Error> {
        let kind = self.kind;
        self.empty_from(|sizing, keys, options| kind.build(sizing, keys, options))
    }

    /// Builds a map from `entries` of keys and values. All values have the width of the widest.
    ///
    /// # Errors
    /// As [`BuildMap::build_map_with`]; [`Error::Unsupported`] for kinds without values.
    pub fn build_map<K: Key>(
        self,
        entries: impl IntoIterator<Item = (K, u64)>,
    ) -> Result<Keyed<AnyFilter>, Error> {
        let kind = self.kind;
        self.build_map_from(entries, |sizing, entries, options| {
            kind.build_map(sizing, entries, options)
        })
    }

    /// Builds a map from `entries` of keys and values of any type: see [`Value`]. The entries are held in
    /// memory until the map is built.
    ///
    /// # Errors
    /// As [`BuildMap::build_values_with`]; [`Error::Unsupported`] for kinds without values.
    pub fn build_values<K: Key, V: Into<Value>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Keyed<AnyFilter>, Error> {
        let kind = self.kind;
        self.build_values_from(entries, |sizing, entries, options| {
            kind.build_values(sizing, entries, options)
        })
    }

    /// Builds a filter of all `keys` that rejects every key of `denied`.
    ///
    /// # Errors
    /// As [`Deny::build_denying`]; [`Error::Unsupported`] for kinds without deny lists.
    pub fn build_denying<K: Key>(
        self,
        keys: impl IntoIterator<Item = K>,
        denied: impl IntoIterator<Item = K>,
    ) -> Result<Keyed<AnyFilter>, Error> {
        let kind = self.kind;
        self.build_denying_from(keys, denied, |sizing, keys, denied, options| {
            kind.build_denying(sizing, keys, denied, options)
        })
    }
}
