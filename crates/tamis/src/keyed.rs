//! A hasher in front of a filter: what users hold.

use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::path::Path;

use tamis_format::{Header, KeyForms, Limits, Reader, Writer};

use crate::error::{Error, Full};
use crate::filter::{
    Adapt, Build, BuildOptions, Count, Filter, Hashes, Insert, Map, Merge, Persist, Remove, Repair,
    SetOps, Window,
};
use crate::filters::{AnyFilter, Kind, Registered};
use crate::hash::{HashId, Key, KeyHash, KeyHasher};
use crate::plan::{Goal, Settings, solve};

/// A filter of keys: [`str`], bytes, integers.
///
/// ```
/// use tamis::{Keyed, SplitBlockBloom};
///
/// let mut seen = Keyed::<SplitBlockBloom>::with_capacity(1_000_000, 0.01)?;
/// seen.insert("apple")?;
/// assert!(seen.contains("apple"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed<F> {
    hasher: KeyHasher,
    filter: F,
}

impl<F> Keyed<F> {
    /// Puts `hasher` in front of `filter`, whose keys it must have hashed.
    pub fn new(hasher: KeyHasher, filter: F) -> Self {
        Self { hasher, filter }
    }

    /// What hashes the keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The filter, which deals in hashes.
    pub fn filter(&self) -> &F {
        &self.filter
    }

    /// The filter, to change.
    pub fn filter_mut(&mut self) -> &mut F {
        &mut self.filter
    }

    /// Both apart.
    pub fn into_parts(self) -> (KeyHasher, F) {
        (self.hasher, self.filter)
    }

    fn hash(&self, key: &(impl Key + ?Sized)) -> KeyHash {
        key.hash_with(&self.hasher)
    }

    fn check_hasher(&self, other: &Self) -> Result<(), Error> {
        if self.hasher == other.hasher {
            Ok(())
        } else {
            Err(Error::Mismatch { what: "hash or seed" })
        }
    }
}

impl<F: Build> Keyed<F> {
    /// Builds a filter of all `keys`, with a random seed.
    ///
    /// ```
    /// use tamis::{Bloom, Keyed};
    /// let fruit = Keyed::<Bloom>::build(["apple", "pear"], 0.001)?;
    /// assert!(fruit.contains("pear"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn build<K: Key>(
        keys: impl IntoIterator<Item = K, IntoIter: ExactSizeIterator>,
        fpr: f64,
    ) -> Result<Self, Error> {
        let keys = keys.into_iter();
        let goal = Goal::KeysFpr { keys: keys.len() as u64, fpr };
        Self::build_for(goal, KeyHasher::random(HashId::Fast), keys)
    }

    /// Builds a filter of all `keys` for `goal`, with this hasher.
    pub fn build_for<K: Key>(
        goal: Goal,
        hasher: KeyHasher,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Self, Error> {
        let hashes = Hashes::new(keys.into_iter().map(|key| key.hash_with(&hasher)));
        let filter = F::build(solve(goal, &Settings::default())?, hashes)?;
        Ok(Self { hasher, filter })
    }
}

impl<F: Build + Insert> Keyed<F> {
    /// An empty filter for so many keys at this false positive rate, with a random seed.
    pub fn with_capacity(keys: u64, fpr: f64) -> Result<Self, Error> {
        let nothing: [&str; 0] = [];
        Self::build_for(Goal::KeysFpr { keys, fpr }, KeyHasher::random(HashId::Fast), nothing)
    }
}

impl<F: Filter> Keyed<F> {
    /// Whether the key may be a member. *No* is certain.
    #[inline]
    pub fn contains(&self, key: &(impl Key + ?Sized)) -> bool {
        self.filter.contains(self.hash(key))
    }

    /// Whether each key may be a member, faster than one by one.
    pub fn contains_batch<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        // In runs whose hashes stay in the nearest cache between being made and being used.
        const RUN: usize = 512;
        let mut out = vec![false; keys.len()];
        let mut hashes = Vec::with_capacity(keys.len().min(RUN));
        for (keys, out) in keys.chunks(RUN).zip(out.chunks_mut(RUN)) {
            hashes.clear();
            hashes.extend(keys.iter().map(|key| self.hash(key)));
            self.filter.contains_batch(&hashes, out);
        }
        out
    }

    /// Keys in it, as its kind counts them.
    pub fn len(&self) -> u64 {
        self.filter.len()
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }
}

impl<F: Insert> Keyed<F> {
    /// Adds a key. On [`Full`] the filter is as it was.
    #[inline]
    pub fn insert(&mut self, key: &(impl Key + ?Sized)) -> Result<(), Full> {
        self.filter.insert(self.hash(key))
    }

    /// Adds a key unless it seems to be in; whether it was surely new.
    #[inline]
    pub fn insert_new(&mut self, key: &(impl Key + ?Sized)) -> Result<bool, Full> {
        let hash = self.hash(key);
        if self.filter.contains(hash) {
            return Ok(false);
        }
        self.filter.insert(hash).map(|()| true)
    }
}

impl<F: Remove> Keyed<F> {
    /// Takes out a key that was put in: see [`Remove::remove`].
    pub fn remove(&mut self, key: &(impl Key + ?Sized)) -> bool {
        self.filter.remove(self.hash(key))
    }
}

impl<F: Count> Keyed<F> {
    /// How often a key is in: see [`Count::count`].
    pub fn count(&self, key: &(impl Key + ?Sized)) -> u64 {
        self.filter.count(self.hash(key))
    }
}

impl<F: Map> Keyed<F> {
    /// Builds a map of all `entries`, keys and their values, with a random seed. Values are as
    /// wide as the widest.
    ///
    /// ```
    /// use tamis::{Bloomier, Keyed};
    /// let mut stock = Keyed::<Bloomier>::build_map([("apple", 3), ("pear", 70)], 0.001)?;
    /// assert_eq!(stock.get("pear"), Some(70));
    /// stock.set("apple", 4)?;
    /// assert_eq!(stock.get("apple"), Some(4));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn build_map<K: Key>(
        entries: impl IntoIterator<Item = (K, u64)>,
        fpr: f64,
    ) -> Result<Self, Error> {
        let hasher = KeyHasher::random(HashId::Fast);
        let entries: Vec<_> =
            entries.into_iter().map(|(key, value)| (key.hash_with(&hasher), value)).collect();
        let fit = |keys, bits: u32| {
            let mut settings = Settings::default();
            settings.set("value_bits", bits.to_string());
            solve(Goal::KeysFpr { keys, fpr }, &settings)
        };
        Ok(Self { hasher, filter: F::build_map(&BuildOptions::new(), fit, &entries[..])? })
    }

    /// The key's value; `None` if it is surely no key.
    #[inline]
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Option<u64> {
        self.filter.get(self.hash(key))
    }

    /// Gives a key of the set another value: see [`Map::set`].
    pub fn set(&mut self, key: &(impl Key + ?Sized), value: u64) -> Result<Option<u64>, Error> {
        self.filter.set(self.hash(key), value)
    }
}

impl<F: Build + Window> Keyed<F> {
    /// An empty filter for the last so many keys at this false positive rate, with a random seed.
    pub fn with_window(keys: u64, fpr: f64) -> Result<Self, Error> {
        let nothing: [&str; 0] = [];
        Self::build_for(Goal::KeysFpr { keys, fpr }, KeyHasher::random(HashId::Fast), nothing)
    }
}

impl<F: Window> Keyed<F> {
    /// Takes a key and lets go of old ones; whether it seemed to be in: see [`Window::push`].
    #[inline]
    pub fn push(&mut self, key: &(impl Key + ?Sized)) -> bool {
        self.filter.push(self.hash(key))
    }

    /// Tells the time: see [`Window::advance`].
    pub fn advance(&mut self, now: u64) {
        self.filter.advance(now);
    }
}

impl<F: Adapt> Keyed<F> {
    /// Where the members lie that a repair of a key must know: see [`Adapt::suspects`].
    pub fn suspects(&self, key: &(impl Key + ?Sized)) -> RangeInclusive<u64> {
        self.filter.suspects(self.hash(key))
    }

    /// Told that a key is no member, denies it from now on: see [`Adapt::adapt`].
    pub fn adapt(&mut self, stranger: &(impl Key + ?Sized), members: &[KeyHash]) -> Repair {
        self.filter.adapt(self.hash(stranger), members)
    }
}

impl<F: Merge> Keyed<F> {
    /// Takes in the keys of `other`, which must have the same shape, hash and seed.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.merge(&other.filter)
    }
}

impl<F: SetOps> Keyed<F> {
    /// Keeps what may be in both: see [`SetOps::intersect`].
    pub fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.intersect(&other.filter)
    }

    /// How alike both are: see [`SetOps::similarity`].
    pub fn similarity(&self, other: &Self) -> Result<f64, Error> {
        self.check_hasher(other)?;
        self.filter.similarity(&other.filter)
    }
}

/// What can be in a `.tamis` file: every registered filter, and [`AnyFilter`].
pub trait Stored: Sized {
    /// Its kind.
    fn kind(&self) -> Kind;
    /// Keys in it.
    fn keys(&self) -> u64;
    /// See [`Persist::write`].
    fn sections<'a>(&'a self, to: &mut Writer<'a>);
    /// See [`Persist::read`]; the header names the kind.
    fn take(from: &mut Reader) -> Result<Self, Error>;
    /// See [`Persist::validate`].
    fn check(&self) -> Result<(), Error>;
}

impl<F: Persist + Registered> Stored for F {
    fn kind(&self) -> Kind {
        F::KIND
    }

    fn keys(&self) -> u64 {
        self.len()
    }

    fn sections<'a>(&'a self, to: &mut Writer<'a>) {
        self.write(to);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        if Kind::from_id(from.header().kind)? != F::KIND {
            return Err(Error::Mismatch { what: "kind" });
        }
        let filter = F::read(from)?;
        from.finish()?;
        Ok(filter)
    }

    fn check(&self) -> Result<(), Error> {
        self.validate()
    }
}

impl Stored for AnyFilter {
    fn kind(&self) -> Kind {
        self.kind()
    }

    fn keys(&self) -> u64 {
        self.len()
    }

    fn sections<'a>(&'a self, to: &mut Writer<'a>) {
        self.write(to);
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        Kind::from_id(from.header().kind)?.read(from)
    }

    fn check(&self) -> Result<(), Error> {
        self.validate()
    }
}

impl<F: Stored> Keyed<F> {
    /// Writes a `.tamis` file: whole, or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let (header, writer) = self.container();
        tamis_format::save(path.as_ref(), |mut out| writer.write(&header, &mut out))
            .map_err(|error| Error::File(error.into()))
    }

    /// Writes the bytes of a `.tamis` file.
    pub fn write(&self, out: &mut impl Write) -> Result<(), Error> {
        let (header, writer) = self.container();
        writer.write(&header, out).map_err(|error| Error::File(error.into()))
    }

    /// Maps a `.tamis` file and answers from it without a copy. The payload's checksums are not
    /// looked at, so that this is instant: [`Keyed::open_verified`] does that.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_reader(Reader::open(path.as_ref(), &Limits::default())?)
    }

    /// As [`Keyed::open`], after checking every byte.
    pub fn open_verified(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::verified(Reader::open(path.as_ref(), &Limits::default())?)
    }

    /// Reads and checks the bytes of a `.tamis` file.
    pub fn read(input: impl Read, limits: &Limits) -> Result<Self, Error> {
        Self::verified(Reader::read(input, limits)?)
    }

    fn container(&self) -> (Header, Writer<'_>) {
        let mut writer = Writer::new();
        self.filter.sections(&mut writer);
        let header = Header {
            kind: self.filter.kind().id(),
            hash: self.hasher.id() as u16,
            keys: self.filter.keys(),
            seed: self.hasher.seed(),
            key_forms: KeyForms::NONE,
        };
        (header, writer)
    }

    fn verified(reader: Reader) -> Result<Self, Error> {
        reader.verify()?;
        let keyed = Self::from_reader(reader)?;
        keyed.filter.check()?;
        Ok(keyed)
    }

    fn from_reader(mut reader: Reader) -> Result<Self, Error> {
        let hasher = KeyHasher::new(HashId::from_id(reader.header().hash)?, reader.header().seed);
        Ok(Self { hasher, filter: F::take(&mut reader)? })
    }
}

impl Keyed<AnyFilter> {
    /// Whether the key may be a member. *No* is certain.
    #[inline]
    pub fn contains(&self, key: &(impl Key + ?Sized)) -> bool {
        self.filter.contains(self.hash(key))
    }

    /// The key's value, where the kind has values: see [`Map::get`].
    pub fn get(&self, key: &(impl Key + ?Sized)) -> Result<Option<u64>, Error> {
        self.filter.get(self.hash(key))
    }

    /// Gives a key another value, where the kind has values: see [`Map::set`].
    pub fn set(&mut self, key: &(impl Key + ?Sized), value: u64) -> Result<Option<u64>, Error> {
        let hash = self.hash(key);
        self.filter.set(hash, value)
    }

    /// Takes in the keys of `other`, which must have the same kind, shape, hash and seed.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.merge(&other.filter)
    }

    /// Keeps what may be in both: see [`SetOps::intersect`].
    pub fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        self.check_hasher(other)?;
        self.filter.intersect(&other.filter)
    }

    /// How alike both are: see [`SetOps::similarity`].
    pub fn similarity(&self, other: &Self) -> Result<f64, Error> {
        self.check_hasher(other)?;
        self.filter.similarity(&other.filter)
    }
}
