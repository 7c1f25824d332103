//! The traits: what a filter is, and what else it may be able to do.
//!
//! Filters work on [`KeyHash`]es. [`Keyed`](crate::Keyed) puts a hasher in front of a filter and works
//! on keys; [`AnyFilter`](crate::AnyFilter) is a filter whose kind is known only at run time.
//!
//! [`Filter`] and the traits that add operations to a finished filter ([`Insert`], [`Remove`],
//! [`Count`], [`List`], [`Resize`], [`Map`], [`Window`], [`Adapt`], [`Range`]) are object-safe. [`Build`],
//! [`Merge`], [`SetOps`] and [`Persist`] name the filter's own type and are not. All of them are sealed:
//! the filters of this crate implement them, and new methods may be added in minor releases.

use alloc::boxed::Box;
use core::alloc::Layout;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use tamis_format::{Reader, Writer};

use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::options::BuildOptions;
use crate::shape::Shape;
use crate::source::{EntrySource, KeySource, ValueSource};
use crate::values::{Value, ValueType};

/// Keeps other crates from implementing the traits of filters.
pub(crate) mod sealed {
    use crate::kind::Kind;

    /// Implemented by the filters of the registry and by `AnyFilter`.
    pub trait Sealed {
        /// The kind that a file of this filter states.
        fn sealed_kind(&self) -> Kind;

        /// Whether a file of this kind can be read as this type.
        fn accepts(kind: Kind) -> bool
        where
            Self: Sized;
    }
}

/// A set that may report a non-member as a member, and never denies a member.
///
/// This trait is object-safe: `&dyn Filter` answers membership for a filter of any kind.
pub trait Filter: sealed::Sealed {
    /// Returns whether the key may be a member. `false` is certain.
    fn contains(&self, key: KeyHash) -> bool;

    /// Returns the number of keys in the filter, as its kind counts them: a bit array counts
    /// insertions, a table counts its entries.
    fn len(&self) -> u64;

    /// Returns whether the filter holds no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the tables are so small that they stay in the second-level cache. A batch is then
    /// answered like single queries, since prefetching only adds instructions.
    fn fits_cache(&self) -> bool {
        false
    }

    /// Sets `out[i]` to `contains(keys[i])`. On filters larger than the cache this is several times faster
    /// than single queries, on smaller ones it is not slower.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `keys`.
    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        if self.fits_cache() {
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains(*key);
            }
        } else {
            self.contains_prefetching(keys, out);
        }
    }

    /// Does the same, whatever the size, and prefetches the memory of later keys while it tests earlier
    /// ones.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `keys`.
    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        for (key, out) in keys.iter().zip(out) {
            *out = self.contains(*key);
        }
    }
}

/// Is built from a shape and keys. Every kind implements this.
pub trait Build: Filter + Sized {
    /// The filter's geometry: everything about it but the keys.
    type Shape: Shape;

    /// Returns the geometry of this filter.
    fn shape(&self) -> &Self::Shape;

    /// Builds a filter of all `keys`. This is the one build path: every other way to build a filter
    /// calls it.
    ///
    /// Kinds that insert call `fit(0)` for their shape before they read the keys. [`Static`] kinds
    /// read all keys first and call `fit` with the number of distinct ones. Keys are read once.
    /// Threads and memory limits never change the result.
    ///
    /// # Errors
    /// Duplicate keys are allowed. More keys than the shape is made for are [`Error::Capacity`],
    /// except for kinds that [`Overfill`] or [`Grow`]. A key that occurs more often than a kind of
    /// [`Copies::Bounded`](crate::Copies) can hold is [`Error::Full`]. A cancelled or overdue build is
    /// [`Error::Stopped`].
    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<Self::Shape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error>;

    /// Builds a filter of this shape on one thread: [`Build::build_with`] with default options.
    ///
    /// # Errors
    /// As [`Build::build_with`].
    fn build(shape: Self::Shape, keys: impl KeySource) -> Result<Self, Error> {
        Self::build_with(&BuildOptions::new(), given(shape), keys)
    }
}

/// Returns the `fit` argument of [`Build::build_with`] for a shape that is known in advance: the distinct
/// keys of a static kind must not exceed it.
pub fn given<S: Shape>(shape: S) -> impl FnOnce(u64) -> Result<S, Error> {
    move |keys| match shape.keys() {
        capacity if keys > capacity => Err(Error::Capacity { capacity }),
        _ => Ok(shape),
    }
}

/// Is built from all its keys at once and cannot change afterwards.
///
/// Static kinds count their keys themselves: see [`Build::build_with`].
pub trait Static: Filter {}

/// Gives every key of a static set a value. Values can change, the set cannot.
///
/// `None` is certain. A non-member that passes for a key gets some value; the filter's false positive
/// rate says how often.
///
/// A map stores a number of [`value_bits`](Map::value_bits) bits per key. Of a map of unsigned integers
/// that number is the value, and [`get`](Map::get) and [`set`](Map::set) are all that is needed. Of a map
/// of other [`Value`]s it stands for the value, which [`get_value`](Map::get_value) returns.
pub trait Map: Filter {
    /// Returns the key's number, or `None` if the key is certainly not in the set.
    fn get(&self, key: KeyHash) -> Option<u64>;

    /// Sets `out[i]` to `get(keys[i])`, with prefetching.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `keys`.
    fn get_batch(&self, keys: &[KeyHash], out: &mut [Option<u64>]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(*key);
        }
    }

    /// Replaces the number of one key of the set. Returns the previous number, or `None` if the key is
    /// certainly not in the set.
    ///
    /// Set only keys of the set: a non-member that passes for a key may overwrite that key's value.
    ///
    /// # Errors
    /// A number wider than [`value_bits`](Map::value_bits) is [`Error::Value`]; one that stands for no
    /// value is [`Error::ValueType`].
    fn set(&mut self, key: KeyHash, value: u64) -> Result<Option<u64>, Error>;

    /// Returns the width of a number in bits.
    fn value_bits(&self) -> u32;

    /// Returns the type of the values that the map can hold.
    fn value_type(&self) -> ValueType;

    /// Returns the value that a number stands for, or `None` if it stands for none.
    fn value_of(&self, number: u64) -> Option<Value>;

    /// Returns the number that stands for a value.
    ///
    /// # Errors
    /// A value that the map cannot hold is [`Error::Value`] if it is an unsigned integer and so are the
    /// map's values, else [`Error::ValueType`].
    fn number_of(&self, value: &Value) -> Result<u64, Error>;

    /// Returns the key's value, or `None` if the key is certainly not in the set.
    fn get_value(&self, key: KeyHash) -> Option<Value> {
        self.value_of(self.get(key)?)
    }

    /// Replaces the value of one key of the set: see [`set`](Map::set).
    ///
    /// # Errors
    /// As [`number_of`](Map::number_of).
    fn set_value(&mut self, key: KeyHash, value: &Value) -> Result<Option<Value>, Error> {
        let number = self.number_of(value)?;
        Ok(self.set(key, number)?.and_then(|old| self.value_of(old)))
    }
}

/// A [`Map`] that is built from keys and values.
pub trait BuildMap: Map + Build {
    /// Builds from keys and their values. `fit` makes the shape for the number of distinct keys and
    /// the width of the widest value in bits.
    ///
    /// # Errors
    /// A key that occurs twice with one value counts once; with two values it is
    /// [`Error::Conflict`]. Otherwise as [`Build::build_with`].
    fn build_map_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32) -> Result<Self::Shape, Error>,
        entries: impl EntrySource,
    ) -> Result<Self, Error>;

    /// Builds from keys and values of any type. Integers from 0 on make the same map as
    /// [`build_map_with`](BuildMap::build_map_with). `fit` makes the shape for the number of distinct
    /// keys, the bits of a number that stands for a value, and the bytes of the distinct byte strings.
    ///
    /// The distinct byte strings are held in memory while the map is built. Half of a memory limit is
    /// for them.
    ///
    /// # Errors
    /// [`Error::IntegerSpan`] for integers that one map cannot hold. Otherwise as
    /// [`build_map_with`](BuildMap::build_map_with).
    fn build_values_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64, u32, u64) -> Result<Self::Shape, Error>,
        entries: ValueSource<'_>,
    ) -> Result<Self, Error>;
}

/// Can be built against a deny list, whose keys are never false positives.
pub trait Deny: Build {
    /// Builds a filter of `keys` that rejects every key of `denied`. It reads `denied` after all of
    /// `keys`. `fit` makes the shape for the number of distinct keys; the filter adds room for the
    /// denied keys that need it.
    ///
    /// # Errors
    /// A key on both lists is [`Error::Conflict`]. [`Error::MemoryLimit`] states what the keys
    /// need; what the denied keys need on top is known, and stated, once they are read.
    fn build_denying(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<Self::Shape, Error>,
        keys: impl KeySource,
        denied: impl KeySource,
    ) -> Result<Self, Error>;
}

/// Takes keys one by one.
pub trait Insert: Filter {
    /// Inserts a key.
    ///
    /// # Errors
    /// On [`Full`] the filter is unchanged.
    fn insert(&mut self, key: KeyHash) -> Result<(), Full>;

    /// Inserts keys in order, with prefetching.
    ///
    /// # Errors
    /// On [`Full`] the keys before the first that did not fit are in; [`Full::inserted`] says how
    /// many.
    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        for (index, key) in keys.iter().enumerate() {
            self.insert(*key).map_err(|full| full.after(index))?;
        }
        Ok(())
    }

    /// Inserts each key that the filter does not seem to hold yet, and sets `new[i]` to whether
    /// `keys[i]` was certainly new. A key that occurs twice in the batch is new once.
    ///
    /// # Errors
    /// On [`Full`] the first [`Full::inserted`] keys of the batch are done, and only their entries
    /// of `new` are set.
    ///
    /// # Panics
    /// Panics if `new` is shorter than `keys`.
    fn insert_new_batch(&mut self, keys: &[KeyHash], new: &mut [bool]) -> Result<(), Full> {
        const RUN: usize = 64;
        assert!(new.len() >= keys.len(), "`new` is shorter than `keys`");
        let runs = keys.chunks(RUN).zip(new.chunks_mut(RUN)).enumerate();
        for (run, (keys, new)) in runs {
            let new = &mut new[..keys.len()];
            // One batch prefetches for the whole run. A key that it reports as absent is looked up
            // again, because an earlier key of the run may have been its duplicate.
            self.contains_batch(keys, new);
            for (index, (key, new)) in keys.iter().zip(new).enumerate() {
                *new = !*new && !self.contains(*key);
                if *new {
                    self.insert(*key).map_err(|full| full.after(run * RUN + index))?;
                }
            }
        }
        Ok(())
    }
}

/// Removes keys.
pub trait Remove: Insert {
    /// Removes a key that was inserted. Returns `false` if it was certainly not in. Of a key that was
    /// inserted several times one copy is removed, except that `exact` holds a key once.
    ///
    /// Remove only what was inserted: removing a false positive may remove a member.
    fn remove(&mut self, key: KeyHash) -> bool;

    /// Removes keys in order, and sets `removed[i]` to what [`remove`](Remove::remove) returned for
    /// `keys[i]`.
    ///
    /// # Panics
    /// Panics if `removed` is shorter than `keys`.
    fn remove_batch(&mut self, keys: &[KeyHash], removed: &mut [bool]) {
        const RUN: usize = 64;
        assert!(removed.len() >= keys.len(), "`removed` is shorter than `keys`");
        for (keys, removed) in keys.chunks(RUN).zip(removed.chunks_mut(RUN)) {
            let removed = &mut removed[..keys.len()];
            // A batched lookup brings the run's memory into the cache.
            self.contains_batch(keys, removed);
            for (key, removed) in keys.iter().zip(removed) {
                *removed = self.remove(*key);
            }
        }
    }
}

/// Counts how often a key was inserted.
pub trait Count: Filter {
    /// Returns a number that is at least the key's insertions less its removals, and often exactly
    /// that; `u64::MAX` if the count exceeds [`count_limit`](Count::count_limit).
    fn count(&self, key: KeyHash) -> u64;

    /// Sets `out[i]` to `count(keys[i])`, with prefetching.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `keys`.
    fn count_batch(&self, keys: &[KeyHash], out: &mut [u64]) {
        const RUN: usize = 64;
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let mut found = [false; RUN];
        for (keys, out) in keys.chunks(RUN).zip(out.chunks_mut(RUN)) {
            // A batched lookup brings the run's memory into the cache, and non-members need no more.
            let found = &mut found[..keys.len()];
            self.contains_batch(keys, found);
            for ((key, out), found) in keys.iter().zip(out).zip(found) {
                *out = if *found { self.count(*key) } else { 0 };
            }
        }
    }

    /// Returns the largest count that the filter can state.
    fn count_limit(&self) -> u64;
}

/// Takes in another filter's keys.
pub trait Merge: Filter {
    /// Makes this filter the union of both. The shapes must be equal; kinds that [`Resize`] also take
    /// other sizes, if the fingerprints of one are those of the other, or prefixes of them. The union
    /// then has the shorter fingerprints and the larger capacity. The hashers must be equal too, which
    /// [`Keyed`](crate::Keyed) checks.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes, [`Error::Capacity`] if the union does not fit. The
    /// filter is then unchanged.
    fn merge(&mut self, other: &Self) -> Result<(), Error>;

    /// Makes this filter the union of both, also beyond its capacity. The kinds that are bit arrays
    /// ([`SetOps`]) then have the estimated number of keys as their new capacity, and
    /// [`Shape::figures`] states the false positive rate at that capacity. Their shapes may differ in
    /// the capacity, so that a union can be merged again. All other kinds merge as [`Merge::merge`]
    /// does.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes, [`Error::Capacity`] if the union does not fit or, in a
    /// bit array, if so many bits are set that the number of keys cannot be estimated. The filter is
    /// then unchanged.
    fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        self.merge(other)
    }
}

/// Compares sets by the bits that represent them.
pub trait SetOps: Merge {
    /// Keeps what may be in both filters: every common member stays. The result has slightly more
    /// false positives than a filter built from the common members alone.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes.
    fn intersect(&mut self, other: &Self) -> Result<(), Error>;

    /// Estimates the number of distinct keys from the number of set bits.
    fn cardinality(&self) -> f64;

    /// Returns the normalised dot product of both bit vectors: 0 for nothing in common, 1 for equal.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes.
    fn similarity(&self, other: &Self) -> Result<f64, Error>;
}

/// Lists the fingerprints that it holds.
pub trait List: Filter {
    /// Returns the fingerprints in ascending order, each with its number of copies.
    fn list(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_>;

    /// Returns the number of bits that the largest possible fingerprint has.
    fn fingerprint_bits(&self) -> u32;
}

/// Moves its fingerprints to a table of another size, without the keys.
///
/// A larger table has more slots and as many bits fewer in each, so that the fingerprints stay the
/// same. The false positive rate depends on the fingerprints and on the keys in the filter, and not on
/// the table: a filter that is enlarged 8 times and then filled has 8 times the rate.
pub trait Resize: List + Insert {
    /// Changes the capacity to `keys`, in the smallest table that has room for them. Without `fpr` the
    /// fingerprints stay as they are. With it they lose as many bits as the rate allows, which cannot be
    /// undone; `hash_compaction` and `exact` cannot shorten theirs, and only check the rate.
    ///
    /// # Errors
    /// [`Error::Capacity`] if the filter holds more than `keys` keys, [`Error::Infeasible`] if the
    /// fingerprints are too short for the number of keys or for the rate, [`Error::Memory`] if the table
    /// cannot be allocated. The filter is then unchanged.
    fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error>;
}

/// Accepts keys beyond its capacity, at a rising false positive rate, which [`Shape::fpr_at`] states.
pub trait Overfill: Insert {}

/// Grows to any number of keys at the false positive rate that it was made for. The number of keys in
/// its shape is the size it starts with. [`Shape::figures_at`] states its size once it has grown.
///
/// It is [`Full`] only if one key is inserted more often than the kind allows, or if memory runs out.
pub trait Grow: Insert {}

/// Repairs its false positives, with the help of the store that holds the keys.
///
/// A filter stands in front of a store that knows every member. The store keeps an index of its keys by
/// the `hi` half of their hashes, and a repair reads one range of that index:
///
/// ```text
///  contains(x): yes ──► the store: no such key      x is a false positive
///  suspects(x) ──► a range of hi ──► the store      the members in that range
///  adapt(x, members)                                the filter denies x from now on
///  while due() is a range ──► the store             the members in that range
///      renew(members)                               old repairs make room for new ones
/// ```
///
/// The *members of a range* are the hashes of all keys that were inserted and not removed and whose `hi`
/// lies in the range, each as often as it was inserted, in any order. A caller that omits a member
/// removes it from the filter, and a caller that adds a key inserts it: keys that are inserted
/// concurrently must be among the members. Keys outside the range are ignored.
///
/// A repair that is never made costs further false positives, no more. Renewal may be delayed or
/// omitted; without it, a filter under attack eventually returns [`Repair::Impossible`].
pub trait Adapt: Insert {
    /// Returns the range of `hi` whose members a repair of `key` needs.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64>;

    /// Changes the filter so that it denies `stranger`, a non-member that it reported as a member.
    /// `members` are those of [`suspects`](Adapt::suspects).
    ///
    /// [`Filter::len`] follows the members: it falls if the filter held a key that is not among them,
    /// and rises if it lacked one.
    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair;

    /// Returns the range whose members should be renewed next, or `None` if nothing is due.
    fn due(&self) -> Option<RangeInclusive<u64>>;

    /// Forgets the repairs of these members, which are those of [`due`](Adapt::due), and represents
    /// them with fresh fingerprints.
    fn renew(&mut self, members: &[KeyHash]);
}

/// The result of [`Adapt::adapt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// The filter denied the key already.
    NotNeeded,
    /// The filter denies the key now: it stores more bits of the members that it was mistaken for.
    Extended,
    /// The filter denies the key now: those members have fresh fingerprints, and earlier repairs
    /// among them are forgotten.
    Rehashed,
    /// The filter still reports the key: nothing tells it from a member, or there is no room.
    Impossible,
}

/// Remembers the most recent keys of an endless stream, and forgets older ones.
///
/// ```text
///  ── pushed ──►   … forgotten │ slack: perhaps in │ window: certainly in │ now
/// ```
///
/// The shape defines the unit of a window: keys pushed, or ticks of a clock.
///
/// A window of time can get more keys than it was planned for. A key that finds no room is refused
/// with [`Full`]: it is not remembered, every key that was accepted stays a member for the whole
/// window, and the false positive rate does not rise. When older keys have expired there is room
/// again.
pub trait Window: Filter {
    /// Pushes a key and forgets keys that are too old. Returns whether the key seemed to be in
    /// already, which is always true of a key in the window.
    ///
    /// # Errors
    /// On [`Full`] the key is not remembered. It still counts as a push of a window of keys.
    fn push(&mut self, key: KeyHash) -> Result<bool, Full>;

    /// Pushes keys in order, with prefetching, and sets `seen[i]` to what [`push`](Window::push)
    /// returned for `keys[i]`.
    ///
    /// # Errors
    /// On [`Full`] the first [`Full::inserted`] keys are pushed, and only their entries of `seen` are
    /// set. The next key was refused, and the keys after it were not pushed.
    ///
    /// # Panics
    /// Panics if `seen` is shorter than `keys`.
    fn push_batch(&mut self, keys: &[KeyHash], seen: &mut [bool]) -> Result<(), Full> {
        assert!(seen.len() >= keys.len(), "`seen` is shorter than `keys`");
        for (index, (key, seen)) in keys.iter().zip(seen).enumerate() {
            *seen = self.push(*key).map_err(|full| full.after(index))?;
        }
        Ok(())
    }

    /// Sets the time in ticks, before the keys of that time are pushed. A clock that runs backwards
    /// stands still until it has caught up. Windows measured in keys ignore it.
    fn advance(&mut self, now: u64);

    /// Returns for how many keys, or ticks, a pushed key is certainly in.
    fn window(&self) -> u64;

    /// Returns after how many further keys, or ticks, it is certainly forgotten.
    fn slack(&self) -> u64;
}

/// Answers whether a range holds any key.
///
/// Keys are the numbers of [`KeyHash::hi`], which the hash `ordered` makes of integers and strings.
pub trait Range: Filter {
    /// Returns whether a key from `first` to `last`, both included, may be a member. `false` is certain.
    ///
    /// Numbers wrap around, so that ranges of negative integers up to positive ones are ranges too: if
    /// `first` is greater than `last`, these are the numbers up to 2^64 - 1 and from 0 on.
    fn contains_range(&self, first: u64, last: u64) -> bool;

    /// Sets `out[i]` to the answer for the range from `ranges[i].0` to `ranges[i].1`, with prefetching.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `ranges`.
    fn contains_range_batch(&self, ranges: &[(u64, u64)], out: &mut [bool]) {
        assert!(out.len() >= ranges.len(), "`out` is shorter than `ranges`");
        for ((first, last), out) in ranges.iter().zip(out) {
            *out = self.contains_range(*first, *last);
        }
    }

    /// Returns the longest range, in numbers, at the filter's false positive rate.
    fn range_length(&self) -> u64;

    /// Returns an upper bound of the false positive rate of ranges of `length` numbers, with the keys that
    /// are in the filter now. Ranges longer than planned are answered safely, at a higher rate.
    fn fpr_of_range(&self, length: u64) -> f64;
}

/// Can be saved and opened.
pub trait Persist: Filter + Sized {
    /// Adds the shape and the arrays to `to`. Equal filters write equal words.
    fn write<'a>(&'a self, to: &mut Writer<'a>);

    /// Reads them back. The words may be hostile: the filter that results answers without panics and
    /// in bounded time, whatever they say.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the sections.
    fn read(from: &mut Reader) -> Result<Self, Error>;

    /// Checks every word for states that no filter of this kind can be in.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong.
    fn validate(&self) -> Result<(), Error>;

    /// Returns the size of the tables in bytes as they are now, in whole cache lines.
    fn bytes(&self) -> u64 {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.table_bytes()
    }

    /// Returns the bytes that the allocator holds for the tables now: 0 for a mapped file.
    fn heap_bytes(&self) -> u64 {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.heap_bytes()
    }

    /// Calls `each` with the address and the layout of every allocation of the tables. A program whose
    /// global allocator rounds sizes up can add what each allocation takes.
    fn each_allocation(&self, each: &mut dyn FnMut(NonNull<u8>, Layout)) {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.allocations().for_each(|(start, layout)| each(start, layout));
    }
}
