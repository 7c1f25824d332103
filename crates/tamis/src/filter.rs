//! The traits: what a filter is, and what else it may be able to do.
//!
//! Filters deal in [`KeyHash`]es. [`Keyed`](crate::Keyed) puts a hasher in front of one and deals in
//! keys; [`AnyFilter`](crate::AnyFilter) is a filter whose kind is known only when the program runs.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tamis_format::{Reader, Writer};

use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::plan::{Figures, Shape};

/// A set that may say yes to a stranger, and never says no to a member.
pub trait Filter {
    /// Its geometry: everything about it but the keys.
    type Shape: Shape;

    /// The geometry of this one.
    fn shape(&self) -> &Self::Shape;

    /// Whether the key may be a member. *No* is certain.
    fn contains(&self, key: KeyHash) -> bool;

    /// Keys in it, as it counts them: a kind that only sets bits counts every insertion, a table
    /// counts its entries.
    fn len(&self) -> u64;

    /// Whether it has no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `out[i] = contains(keys[i])`, with the memory of later keys on its way while earlier ones
    /// are tested. On filters larger than the cache this is several times faster.
    ///
    /// # Panics
    /// If `out` is shorter than `keys`.
    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        for (key, out) in keys.iter().zip(out) {
            *out = self.contains(*key);
        }
    }
}

/// Made from a shape and the keys. Every filter can be; a static one can nothing else.
pub trait Build: Filter + Sized {
    /// Builds on this many threads; the result is the same for any number.
    ///
    /// Duplicate keys are fine. More keys than the shape is for are [`Error::Full`], except for
    /// kinds that [`Overfill`].
    fn build_on(threads: usize, shape: Self::Shape, keys: impl KeySource) -> Result<Self, Error>;

    /// Builds on one thread.
    fn build(shape: Self::Shape, keys: impl KeySource) -> Result<Self, Error> {
        Self::build_on(1, shape, keys)
    }
}

/// Built from all its keys at once, and closed after that.
///
/// How many there are need not be known before: they are gathered first, each is counted once, and
/// the shape is made for that number. Keys are read once.
pub trait Static: Build {
    /// Builds with what `means` allows; `fit` makes the shape for the number of distinct keys.
    /// Neither threads nor memory show in the result.
    fn build_fitting(
        means: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<Self::Shape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error>;
}

/// Gives every key of a static set a value, and lets the values change.
///
/// *Absent* is certain. A stranger that passes for a key gets some value: how seldom is the
/// filter's false positive rate.
pub trait Map: Static {
    /// Builds from keys and their values; `fit` makes the shape for the number of distinct keys
    /// and for values of at most so many bits.
    ///
    /// A key that comes twice with one value counts once; with two values it is
    /// [`Error::Conflict`].
    fn build_map(
        means: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32) -> Result<Self::Shape, Error>,
        entries: impl EntrySource,
    ) -> Result<Self, Error>;

    /// The key's value; `None` if it is surely no key.
    fn get(&self, key: KeyHash) -> Option<u64>;

    /// `out[i] = get(keys[i])`, with the memory of later keys on its way.
    ///
    /// # Panics
    /// If `out` is shorter than `keys`.
    fn get_batch(&self, keys: &[KeyHash], out: &mut [Option<u64>]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(*key);
        }
    }

    /// Gives a key of the set another value, and no other key; returns the one that it had, or
    /// `None` if it is surely no key. A value too wide is [`Error::Value`].
    ///
    /// Only set keys of the set: a stranger that passes for one may write over a key's value.
    fn set(&mut self, key: KeyHash, value: u64) -> Result<Option<u64>, Error>;

    /// Bits of a value.
    fn value_bits(&self) -> u32;
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Keys that are placed.
    pub placed: u64,
    /// All keys; as long as none is placed, those that were read, copies among them.
    pub keys: u64,
    /// How the search goes, of a kind that searches for its filter.
    pub search: Option<Search>,
}

/// How far a search for a filter is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Search {
    /// Formulas that are solved, one for each plane of each block.
    pub solved: u64,
    /// All of them.
    pub formulas: u64,
    /// How often a block began anew with another seed.
    pub reseeds: u64,
    /// log2(1/rate) · keys / bits if no block needs more room than it has now.
    pub efficiency: f64,
}

/// What a build may use, and whom it tells how far it is.
#[derive(Clone, Default)]
pub struct BuildOptions<'a> {
    threads: usize,
    memory: Option<(u64, PathBuf)>,
    watcher: Option<&'a (dyn Fn(&Progress) + Sync)>,
    deadline: Option<Instant>,
    cancel: Option<&'a AtomicBool>,
}

impl<'a> BuildOptions<'a> {
    /// One thread, all the memory there is, no one to tell.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many threads.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// So many bytes of memory at the most, for keys, table and all; keys that do not fit lie in a
    /// file without a name in `folder` until they are placed, 8 bytes each. Nothing is written
    /// there as long as they do fit. [`Error::MemoryLimit`] says how much a build would take that cannot
    /// be done within the limit.
    #[must_use]
    pub fn with_memory(self, bytes: u64, folder: impl Into<PathBuf>) -> Self {
        Self { memory: Some((bytes, folder.into())), ..self }
    }

    /// Tells `watcher` how far the build is: no key is placed when all are read, and all are when
    /// the last shard is solved. Calls come from the threads that solve.
    #[must_use]
    pub fn on_progress(self, watcher: &'a (dyn Fn(&Progress) + Sync)) -> Self {
        Self { watcher: Some(watcher), ..self }
    }

    /// Gives up after this much time from now on, with [`Error::Stopped`]. Only a kind that searches
    /// for its filter, `sat`, takes long enough to look at the clock.
    #[must_use]
    pub fn time_limit(self, limit: Duration) -> Self {
        // A time past the end of time is none.
        Self { deadline: Instant::now().checked_add(limit), ..self }
    }

    /// Gives up when `cancel` becomes true, as with [`BuildOptions::time_limit`].
    #[must_use]
    pub fn with_cancel(self, cancel: &'a AtomicBool) -> Self {
        Self { cancel: Some(cancel), ..self }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.max(1)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(crate) fn cancel(&self) -> Option<&'a AtomicBool> {
        self.cancel
    }

    /// The same with nobody to tell.
    pub(crate) fn unwatched(&self) -> Self {
        Self { watcher: None, ..self.clone() }
    }

    /// The limit of memory, and where to lay what does not fit.
    pub(crate) fn memory(&self) -> Option<(u64, &Path)> {
        self.memory.as_ref().map(|(bytes, folder)| (*bytes, folder.as_path()))
    }

    /// The same with a part of the memory, and if not `watched` nobody to tell: for who gathers
    /// two sets of keys side by side.
    pub(crate) fn share(&self, part: u64, of: u64, watched: bool) -> Self {
        let memory = self.memory.clone().map(|(bytes, folder)| (bytes / of * part, folder));
        Self { memory, watcher: self.watcher.filter(|_| watched), ..self.clone() }
    }

    pub(crate) fn tell(&self, placed: u64, keys: u64) {
        self.tell_all(Progress { placed, keys, search: None });
    }

    pub(crate) fn tell_all(&self, progress: Progress) {
        if let Some(watcher) = self.watcher {
            watcher(&progress);
        }
    }
}

impl fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut means = f.debug_struct("BuildOptions");
        means.field("threads", &self.threads).field("memory", &self.memory);
        means.finish_non_exhaustive()
    }
}

/// Takes keys one by one.
pub trait Insert: Filter {
    /// Adds a key. On [`Full`] the filter is bit for bit as it was.
    fn insert(&mut self, key: KeyHash) -> Result<(), Full>;

    /// Adds keys in order, fetching memory ahead. On [`Full`] those before the first that did not
    /// fit are in.
    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        keys.iter().try_for_each(|key| self.insert(*key))
    }
}

/// Forgets keys.
pub trait Remove: Insert {
    /// Takes out a key that was put in; `false` if it was surely not in.
    ///
    /// Only remove what was inserted: removing a stranger that the filter takes for a member may
    /// take a member with it.
    fn remove(&mut self, key: KeyHash) -> bool;
}

/// Tells how often.
pub trait Count: Filter {
    /// At least as often as the key was inserted and not removed, often exactly so; `u64::MAX`
    /// when that is more than can be told.
    fn count(&self, key: KeyHash) -> u64;

    /// The largest count that can be told.
    fn count_limit(&self) -> u64;
}

/// Takes in another filter's keys.
pub trait Merge: Filter {
    /// Makes this the union of both. The shapes must be equal and the keys of both must fit; the
    /// hashers must be equal too, which [`Keyed`](crate::Keyed) checks.
    fn merge(&mut self, other: &Self) -> Result<(), Error>;
}

/// Compares sets by the bits that stand for them.
pub trait SetOps: Merge {
    /// Keeps what may be in both: every common member stays. Strangers slip through a little more
    /// often than through a filter built from the common members alone.
    fn intersect(&mut self, other: &Self) -> Result<(), Error>;

    /// How many distinct keys it holds, estimated from the bits that are set.
    fn cardinality(&self) -> f64;

    /// The normalised dot product of both bit vectors: 0 for nothing in common, 1 for the same.
    fn similarity(&self, other: &Self) -> Result<f64, Error>;
}

/// Is not [`Full`] when it holds the keys it was made for: it takes more, and lets more strangers
/// in. [`Shape::fpr_at`] says how many more.
pub trait Overfill: Insert {}

/// Has room for any number of keys, and keeps its rate whatever that comes to: the number of keys in
/// its shape is where it begins, and where its figures are told.
///
/// It is [`Full`] only of what no set has by chance: more copies of one key than its kind takes.
pub trait Grow: Insert {
    /// What a filter of this shape promises once it holds so many keys.
    fn figures_at(shape: &Self::Shape, keys: u64) -> Figures;

    /// Memory of its tables as it is now.
    fn bytes(&self) -> u64;
}

/// Mends its mistakes, with the help of whoever keeps the keys.
///
/// A filter stands before a store that knows every member. The store keeps an index of its keys by
/// the `hi` half of their hashes; it is all that a repair asks for:
///
/// ```text
///  contains(x): yes ──► the store: no such key      x is a false positive
///  suspects(x) ──► a range of hi ──► the store      the members in it
///  adapt(x, members)                                x is denied from now on
///  while due() is a range ──► the store             the members in it
///      renew(members)                               old repairs make room for new ones
/// ```
///
/// *Members of a range* are the hashes of all keys that were inserted and not removed and whose `hi`
/// lies in it, each as often as it was inserted, in any order. Whoever leaves one out takes it out of
/// the filter, and whoever adds one puts it in: what is inserted, or being inserted, at the same time
/// must be among them. Others outside of the range do no harm.
///
/// A repair that is never made costs another false positive, no more. What is due need not be done at
/// once, nor at all; without it, a filter that is attacked comes to say [`Repair::Impossible`].
pub trait Adapt: Insert {
    /// Where the members lie that a repair of `key` must know: a range of `hi` around its own.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64>;

    /// Told that `stranger` is no member, changes so that it is denied. `members` are those of
    /// [`suspects`](Adapt::suspects).
    ///
    /// [`Filter::len`] follows what the members are: it goes down if the filter held what is no
    /// member, and up if it lacked one.
    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair;

    /// The range whose members are to be renewed next, if it is time.
    fn due(&self) -> Option<RangeInclusive<u64>>;

    /// Forgets what was learnt of these members, which are those of [`due`](Adapt::due), and
    /// represents them anew.
    fn renew(&mut self, members: &[KeyHash]);
}

/// What came of [`Adapt::adapt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The stranger was denied already.
    NotNeeded,
    /// It is denied: more is remembered of the members it was taken for.
    Extended,
    /// It is denied: these members are represented anew, and earlier repairs among them are
    /// forgotten.
    Rehashed,
    /// It is let in as before: nothing tells it from a member, or there is no room to.
    Impossible,
}

/// Remembers the last keys of an endless stream, or those of the last while, and forgets the others.
///
/// ```text
///  ── pushed ──►   … forgotten │ slack: perhaps │ window: surely in │ now
/// ```
///
/// What a window is measured in is the shape's affair: keys that were pushed, or ticks of a clock.
pub trait Window: Filter {
    /// Takes a key, and lets go of what is too old. Whether it seemed to be in already: if it is in the
    /// window, always. It never fails.
    fn push(&mut self, key: KeyHash) -> bool;

    /// `seen[i] = push(keys[i])`, in order, fetching memory ahead.
    ///
    /// # Panics
    /// If `seen` is shorter than `keys`.
    fn push_batch(&mut self, keys: &[KeyHash], seen: &mut [bool]) {
        assert!(seen.len() >= keys.len(), "an answer for each key");
        for (key, seen) in keys.iter().zip(seen) {
            *seen = self.push(*key);
        }
    }

    /// Tells the time, in ticks of a clock that has no other meaning here, before what is pushed then. A
    /// clock that goes back stands still until it has caught up. A window of keys does not heed it.
    fn advance(&mut self, now: u64);

    /// So many keys, or ticks, a key is surely in.
    fn window(&self) -> u64;

    /// So many more, and it is surely forgotten: it is let in like any stranger.
    fn slack(&self) -> u64;
}

/// Can be saved and opened.
pub trait Persist: Filter + Sized {
    /// Adds the shape and the arrays. Equal filters write equal words.
    fn write<'a>(&'a self, to: &mut Writer<'a>);

    /// Takes them back, trusting none of them: whatever the words say, the filter that comes of
    /// them answers without panicking and without running on for ever.
    fn read(from: &mut Reader) -> Result<Self, Error>;

    /// Looks at every word for what no filter of this kind could hold.
    fn validate(&self) -> Result<(), Error>;
}

/// Where hashes come from: read once, in order, in runs.
pub trait KeySource {
    /// The next run of hashes; empty at the end.
    fn next_run(&mut self) -> Result<&[KeyHash], Error>;
}

impl KeySource for &[KeyHash] {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        Ok(std::mem::take(self))
    }
}

impl<S: KeySource + ?Sized> KeySource for &mut S {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        (**self).next_run()
    }
}

/// Where hashes and their values come from: read once, in order, in runs.
pub trait EntrySource {
    /// The next run of entries; empty at the end.
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error>;
}

impl EntrySource for &[(KeyHash, u64)] {
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error> {
        Ok(std::mem::take(self))
    }
}

impl<S: EntrySource + ?Sized> EntrySource for &mut S {
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error> {
        (**self).next_run()
    }
}

/// Any iterator of hashes as a [`KeySource`].
#[derive(Debug)]
pub struct Hashes<I> {
    iter: I,
    run: Vec<KeyHash>,
}

impl<I: Iterator<Item = KeyHash>> Hashes<I> {
    /// How many hashes make a run: enough to share out among threads, little to hold.
    const RUN: usize = 1 << 16;

    /// Reads from `iter`.
    pub fn new(iter: impl IntoIterator<IntoIter = I>) -> Self {
        Self { iter: iter.into_iter(), run: Vec::new() }
    }
}

impl<I: Iterator<Item = KeyHash>> KeySource for Hashes<I> {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        self.run.clear();
        self.run.extend(self.iter.by_ref().take(Self::RUN));
        Ok(&self.run)
    }
}
