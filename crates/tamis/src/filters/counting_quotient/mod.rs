//! The counting quotient filter: sorted fingerprints in the space of their remainders, with counts.
//!
//! ```text
//!  key ──► fingerprint F in 0..slots · 2^r ──► quotient F / 2^r: its slot     remainder: stored
//!
//!  block   | offset | occupied | ends   | 64 remainders of r bits       |
//!            8 bits   01101000…  00101…   | . | a | b | c | d | e | . | …
//!                      └┼─┼─────────┘         └ run 1 ┘   └ run 4 ┘
//!                       quotients 1, 2, 4:        └ run 2: x x is a count of 2
//!                       the n-th has the n-th end
//! ```
//!
//! A lookup counts the occupied quotients before its own (rank), finds the end of as many runs (select),
//! and compares the run that starts there. `table.rs` describes the blocks, `counter.rs` how a run
//! stores the count of a remainder: 10^6 copies of a key take 5 slots of 8 bits.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | (r + 2.125) / 0.95 for a rate of 0.95 / 2^r: 10.66 at 2^-8, 12.76 at 0.1 % |
//! | cache lines | 1 or 2 adjacent ones |
//! | building | sorts; 16 bytes per key beside the table; fails with probability below 10^-15 |
//!
//! A non-member passes if its whole fingerprint is in the table: 1 - (1 - 1/(slots · 2^r))^n for n
//! keys. The number of slots is arbitrary. The fingerprints can be listed with their counts, merged in
//! one pass, and moved to a table of 2, 4, 8 … times the slots with as many bits fewer in the
//! remainder ([`Resize`]), because slots · 2^r, and so every fingerprint, stays the same.
//!
//! Counts are exact for fingerprints: the count of a key is too high only if another key shares its
//! fingerprint. Removing a non-member returns `false` if its fingerprint is not in. Otherwise one copy
//! of that fingerprint is removed, which may be the last one of a member.
//!
//! The filter is full when it holds as many keys as its capacity. It could run out of slots before:
//! if every key is inserted twice, one table in 10^15 does. Higher counts take fewer slots than
//! keys, and small tables have room for all keys in their last slot. An adversary that knows the
//! seed of the hash can fill one run on purpose. The filter is then full early, and slow, but
//! correct.
//!
//! Pandey, Bender, Johnson, Patro, *A General-Purpose Counting Filter: Making Every Bit Count*,
//! 2017. Differences: slots are not a power of two; counters are recognised by values that do not
//! ascend, instead of lying between two copies of the remainder, so that counts up to x + 1 of a
//! remainder x take two slots; runs are searched many slots at once; the table does not wrap around.

mod counter;
mod table;

use alloc::boxed::Box;
use alloc::vec::Vec;

use tamis_bits::range::scale;
use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{Words, packed};
use tamis_format::{Name, Reader, Writer};

use self::table::{BLOCK, Layout, Table, TableBuilder, with_layout};
use super::common::sort::{BYTES_PER_KEY, CHECKED, collect_sorted};
use super::common::{TOO_SHORT, build_unsorted, has_room_for_keys, near, sum_of_keys};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, List, Merge, Persist, Remove, Resize};

const TABLE: Name = Name::new("table");
const MAX_SLOTS: u64 = 1 << 49;
/// At least two bits, for a remainder and a counter beside it.
const MIN_REMAINDER: u32 = 2;
const MAX_REMAINDER: u32 = 60;
/// Slots for every 19 keys: a load of at most 0.95. There the mean distance of a run from its quotient
/// is 10 slots, at 0.98 it is 25. Runs further away are found by reading more blocks.
const SLOTS_FOR_NINETEEN: u64 = 20;
/// The least keys of a batch that is merged.
const MERGE_FROM: u64 = 256;
/// Slots past the last quotient. The run that ends there is like the queue of a server that handles one
/// remainder per slot while 0.95 arrive: it is longer than d with probability e^(-0.104 d), or
/// e^(-0.052 d) if every key is inserted twice. Three copies also take two slots, and more copies take
/// ever fewer slots per copy.
const MAX_TAIL: u64 = 704;

/// The shape: the number of slots, and the bits of a remainder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingQuotientShape {
    slots: u64,
    remainder: u32,
    keys: u64,
}

impl CountingQuotientShape {
    /// Returns the shape of `slots` slots and remainders of `remainder` bits, for `keys` keys: at most
    /// 19 for 20 slots.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(slots: u64, remainder: u32, keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if slots == 0 || slots > MAX_SLOTS {
            return Err(Error::Limit { what: "slots", asked: slots, most: MAX_SLOTS });
        }
        let most = most_remainder(slots);
        if !(MIN_REMAINDER..=most).contains(&remainder) {
            let (asked, most) = (remainder.into(), most.into());
            return Err(Error::Limit { what: "bits per remainder", asked, most });
        }
        if slots < least_slots(keys) {
            let most = most_keys(slots);
            return Err(Error::Limit { what: "keys for this number of slots", asked: keys, most });
        }
        Ok(Self { slots, remainder, keys })
    }

    /// Returns the number of quotients.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the bits of a remainder.
    pub fn remainder(&self) -> u32 {
        self.remainder
    }

    /// Returns the shape with the fewest slots for `keys` keys and this number of possible fingerprints.
    fn of_fingerprints(keys: u64, all: u64) -> Result<Self, Error> {
        (MIN_REMAINDER..=MAX_REMAINDER.min(all.trailing_zeros()))
            .rev()
            .find_map(|remainder| Self::new(all >> remainder, remainder, keys).ok())
            .ok_or(Error::Infeasible { why: "the fingerprints are too short for so many keys" })
    }

    fn blocks(&self) -> u64 {
        // Room for all keys in the last slot: a quarter more than there are keys, because four copies
        // may take five slots.
        let tail = (self.keys + self.keys / 4).min(MAX_TAIL);
        (self.slots + tail).div_ceil(BLOCK)
    }

    fn words(&self) -> u64 {
        table::words(self.blocks(), self.remainder)
    }

    /// Returns the number of possible fingerprints, below 2^64.
    fn fingerprints(&self) -> u64 {
        self.slots << self.remainder
    }

    /// Returns quotient and remainder: the key's 128 bits, scaled to the number of fingerprints. The low
    /// half matters if there are nearly 2^64 fingerprints.
    #[inline(always)]
    fn split(&self, key: KeyHash) -> (u64, u64) {
        self.split_fingerprint(self.fingerprint(key))
    }

    #[inline(always)]
    fn fingerprint(&self, key: KeyHash) -> u64 {
        let all = self.fingerprints();
        let product = u128::from(key.hi) * u128::from(all) + u128::from(scale(key.lo, all));
        (product >> 64) as u64
    }

    /// Returns the sorted fingerprints of the keys.
    fn sorted(&self, options: &BuildOptions<'_>, keys: impl KeySource) -> Result<Vec<u64>, Error> {
        let bits = 64 - self.fingerprints().leading_zeros();
        collect_sorted(options, self.keys, keys, bits, |key| self.fingerprint(key))
    }

    #[inline(always)]
    fn split_fingerprint(&self, fingerprint: u64) -> (u64, u64) {
        (fingerprint >> self.remainder, fingerprint & packed::mask(self.remainder))
    }
}

fn least_slots(keys: u64) -> u64 {
    (keys * SLOTS_FOR_NINETEEN).div_ceil(19).max(1)
}

fn most_keys(slots: u64) -> u64 {
    (slots * 19 / SLOTS_FOR_NINETEEN).min(MAX_KEYS)
}

/// Returns the most bits of a remainder that keep fingerprints below 2^64.
fn most_remainder(slots: u64) -> u32 {
    MAX_REMAINDER.min(slots.leading_zeros())
}

impl Shape for CountingQuotientShape {
    /// Takes the smallest of all shapes with remainders of any width and the fewest slots that meet the
    /// rate.
    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        crate::shape::check_fpr(fpr)?;
        let needed = if keys == 0 { 1.0 } else { -1.0 / ((-fpr).ln_1p() / keys as f64).exp_m1() };
        let meets = |shape: &Self| shape.fpr_at(keys) <= fpr;
        (MIN_REMAINDER..=MAX_REMAINDER)
            .filter_map(|remainder| {
                let slots = (needed / f64::from(remainder).exp2()).ceil();
                let slots = least_slots(keys).max(slots as u64).min(MAX_SLOTS);
                // The next few, in case the quotient of two rounded numbers is too low.
                (slots..slots.saturating_add(4))
                    .filter_map(|slots| Self::new(slots, remainder, keys).ok())
                    .find(meets)
            })
            .min_by_key(Self::words)
            .ok_or(Error::Infeasible { why: "the rate needs fingerprints of more than 64 bits" })
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("slots", self.slots.into()), ("r", self.remainder.into())].into()
    }

    fn figures(&self) -> Figures {
        // The run of an average lookup starts half a block and its distance from its quotient, about
        // 10 slots, after the start of the block: in another line if that is far.
        let distance = 17.0 + 42.0 * f64::from(self.remainder) / 8.0;
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: tamis_bits::lines(self.words()) * 64,
            // Rank, then select, then the run: each waits for the one before.
            query_cost: 1.0 + (distance / 64.0).min(1.0) + 3.0 * 0.125 + 1.0,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        let differ = (-1.0 / self.fingerprints() as f64).ln_1p();
        if keys == 0 { 0.0 } else { -(keys as f64 * differ).exp_m1() }
    }
}

/// A counting quotient filter.
///
/// ```
/// use tamis::{CountingQuotient, Keyed};
///
/// let mut basket = Keyed::<CountingQuotient>::with_capacity(10_000, 0.001)?;
/// for _ in 0..1000 {
///     basket.insert("apple")?;
/// }
/// assert_eq!(basket.count("apple"), 1000);
/// assert!(basket.remove("apple"));
/// assert_eq!((basket.count("apple"), basket.len()), (999, 999));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CountingQuotient {
    shape: CountingQuotientShape,
    len: u64,
    table: Table,
}

impl CountingQuotient {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table cannot be allocated.
    pub fn new(shape: CountingQuotientShape) -> Result<Self, Error> {
        let table = Table::new(shape.blocks(), shape.remainder)?;
        Ok(Self { shape, len: 0, table })
    }

    /// Returns every fingerprint with its count, in ascending order.
    pub fn fingerprints(&self) -> impl Iterator<Item = (u64, u64)> {
        let width = self.shape.remainder;
        self.table
            .entries()
            .map(move |(quotient, entry)| (quotient << width | entry.remainder, entry.count))
    }

    /// Returns whether merging `keys` keys is faster than inserting them. Merging reads the whole table;
    /// inserting moves the slots after each key, more of them as the table fills.
    fn merge_pays(&self, keys: u64) -> bool {
        keys >= MERGE_FROM && keys >= self.len / 2 && keys >= self.shape.slots / 16
    }

    /// Inserts all keys at once, or none.
    fn insert_sorted(&mut self, keys: &[KeyHash]) -> Result<(), Error> {
        let fingerprints = self.shape.sorted(&BuildOptions::new(), keys)?;
        let new = counted(&fingerprints);
        let none = || Ok(());
        *self = if self.is_empty() {
            Self::from_sorted(&self.shape, new, none)?
        } else {
            Self::from_sorted(&self.shape, add_counts(self.fingerprints(), new), none)?
        };
        Ok(())
    }

    /// Builds a table of ascending fingerprints and their counts. Calls `check` every few milliseconds.
    fn from_sorted(
        shape: &CountingQuotientShape,
        fingerprints: impl Iterator<Item = (u64, u64)>,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let full = Error::Capacity { capacity: shape.keys };
        let mut builder = TableBuilder::new(Table::new(shape.blocks(), shape.remainder)?);
        let mut len = 0u64;
        for (number, (fingerprint, count)) in fingerprints.enumerate() {
            if number % CHECKED == 0 {
                check()?;
            }
            let (quotient, remainder) = shape.split_fingerprint(fingerprint);
            len = len.saturating_add(count);
            if len > shape.keys || builder.push(quotient, remainder, count).is_err() {
                return Err(full);
            }
        }
        Ok(Self { shape: shape.clone(), len, table: builder.finish() })
    }
}

/// Groups equal fingerprints, each with its count.
fn counted(fingerprints: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    fingerprints.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64))
}

/// Merges two ascending sequences, and adds the counts of fingerprints that are in both.
fn add_counts(
    a: impl Iterator<Item = (u64, u64)>,
    b: impl Iterator<Item = (u64, u64)>,
) -> impl Iterator<Item = (u64, u64)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    core::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if x.0 == y.0 => {
            let both = (x.0, x.1.saturating_add(y.1));
            a.next();
            b.next();
            Some(both)
        }
        (Some(x), Some(y)) if y.0 < x.0 => b.next(),
        (None, _) => b.next(),
        _ => a.next(),
    })
}

/// Divides ascending fingerprints, and adds the counts of those that become equal.
fn shortened(
    fingerprints: impl Iterator<Item = (u64, u64)>,
    by: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let mut quotients = fingerprints.map(move |(fingerprint, n)| (fingerprint / by, n)).peekable();
    core::iter::from_fn(move || {
        let (fingerprint, mut count) = quotients.next()?;
        while let Some((_, more)) = quotients.next_if(|next| next.0 == fingerprint) {
            count = count.saturating_add(more);
        }
        Some((fingerprint, count))
    })
}

/// Has a fingerprint and not the hash, because two words are passed in registers. `NEAR` tells that the
/// table fits the cache.
struct Contains<'a, const NEAR: bool>(&'a CountingQuotient, u64);

impl<const NEAR: bool> Task for Contains<'_, NEAR> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let Self(CountingQuotient { table, .. }, fingerprint) = self;
        with_layout!(table, layout => {
            let (quotient, remainder) = layout.split(fingerprint);
            table.contains::<NEAR>(bits, layout, quotient, remainder)
        })
    }
}

/// Keys of a batch that are prefetched while as many before them are looked up. In a table of 10^7 keys
/// 16 take a fifth longer: each prefetches two lines, more than the memory delivers at a time.
const LANES: usize = 8;

/// Returns the quotients and remainders of the first keys, and prefetches their blocks.
#[inline(always)]
fn split_batch(
    shape: &CountingQuotientShape,
    table: &Table,
    keys: &[KeyHash],
) -> [(u64, u64); LANES] {
    let mut places = [(0, 0); LANES];
    for (place, key) in places.iter_mut().zip(keys) {
        *place = shape.split(*key);
        table.prefetch_block(place.0);
    }
    places
}

// Unlike `common::contains_prefetching` this loop has two stages of prefetches, in code that is compiled
// for each width and instruction set: the head of a block, and `LANES` keys later the line of the run, if
// the quotient has one. At 10^7 keys that takes 0.9 of the time of prefetching both lines at once.
struct ContainsBatch<'a>(&'a CountingQuotient, &'a [KeyHash], &'a mut [bool]);

impl Task for ContainsBatch<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(CountingQuotient { shape, table, .. }, keys, out) = self;
        with_layout!(table, layout => {
            let begin = |key: &KeyHash| {
                let place = shape.split(*key);
                table.prefetch_head(layout, place.0);
                place
            };
            let mut next = [(0, 0); 2 * LANES];
            for (place, key) in next.iter_mut().zip(keys) {
                *place = begin(key);
            }
            for (quotient, _) in &next[..LANES] {
                table.prefetch_run(layout, *quotient);
            }
            for (at, out) in out[..keys.len()].iter_mut().enumerate() {
                let (quotient, remainder) = next[at % (2 * LANES)];
                table.prefetch_run(layout, next[(at + LANES) % (2 * LANES)].0);
                if let Some(key) = keys.get(at + 2 * LANES) {
                    next[at % (2 * LANES)] = begin(key);
                }
                *out = table.contains::<false>(bits, layout, quotient, remainder);
            }
        });
    }
}

struct CountOf<'a>(&'a CountingQuotient, KeyHash);

impl Task for CountOf<'_> {
    type Output = u64;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> u64 {
        let (quotient, remainder) = self.0.shape.split(self.1);
        self.0.table.count(bits, quotient, remainder)
    }
}

struct InsertBatch<'a>(&'a mut CountingQuotient, &'a [KeyHash]);

impl Task for InsertBatch<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        let Self(CountingQuotient { shape, table, len }, keys) = self;
        let mut next = split_batch(shape, table, keys);
        let before = *len;
        with_layout!(table, layout => {
            for (chunk, many) in keys.chunks(LANES).map(<[KeyHash]>::len).enumerate() {
                let places = next;
                next = split_batch(shape, table, keys.get((chunk + 1) * LANES..).unwrap_or(&[]));
                for (quotient, remainder) in places.into_iter().take(many) {
                    let full = Full { inserted: *len - before };
                    if *len >= shape.keys {
                        return Err(full);
                    }
                    table.insert(bits, layout, quotient, remainder).map_err(|_| full)?;
                    *len += 1;
                }
            }
        });
        Ok(())
    }
}

struct InsertOne<'a>(&'a mut CountingQuotient, KeyHash);

impl Task for InsertOne<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        let Self(CountingQuotient { shape, table, len }, key) = self;
        if *len >= shape.keys {
            return Err(Full::NONE);
        }
        let (quotient, remainder) = shape.split(key);
        with_layout!(table, layout => table.insert(bits, layout, quotient, remainder))?;
        *len += 1;
        Ok(())
    }
}

struct RemoveOne<'a>(&'a mut CountingQuotient, KeyHash);

impl Task for RemoveOne<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let (quotient, remainder) = self.0.shape.split(self.1);
        let removed = self.0.len > 0 && self.0.table.remove(bits, quotient, remainder);
        self.0.len -= u64::from(removed);
        removed
    }
}

impl Filter for CountingQuotient {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let fingerprint = self.shape.fingerprint(key);
        if near(self.table.words().len()) {
            run(Contains::<true>(self, fingerprint))
        } else {
            run(Contains::<false>(self, fingerprint))
        }
    }

    /// Returns the insertions less the removals.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        run(ContainsBatch(self, keys, out));
    }
}

impl Build for CountingQuotient {
    type Shape = CountingQuotientShape;

    fn shape(&self) -> &CountingQuotientShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<CountingQuotientShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let shape = fit(0)?;
        if !has_room_for_keys(options, &shape, shape.keys, BYTES_PER_KEY) {
            return build_unsorted(options, Self::new(shape)?, keys);
        }
        let fingerprints = shape.sorted(options, keys)?;
        let len = fingerprints.len() as u64;
        Self::from_sorted(&shape, counted(&fingerprints), || options.check(0, len))
    }
}

impl Insert for CountingQuotient {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        run(InsertOne(self, key))
    }

    /// Inserts keys. A batch that is large compared with the table is sorted and merged, which takes the
    /// memory of a second table and 16 bytes per key.
    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        let room = usize::try_from(self.shape.keys - self.len).unwrap_or(usize::MAX);
        let fits = &keys[..keys.len().min(room)];
        if self.merge_pays(fits.len() as u64) && self.insert_sorted(fits).is_ok() {
            return if fits.len() < keys.len() {
                Err(Full::NONE.after(fits.len()))
            } else {
                Ok(())
            };
        }
        run(InsertBatch(self, keys))
    }
}

impl Remove for CountingQuotient {
    fn remove(&mut self, key: KeyHash) -> bool {
        run(RemoveOne(self, key))
    }
}

impl Count for CountingQuotient {
    /// Returns the count of the key's fingerprint: exact, unless another key shares it.
    fn count(&self, key: KeyHash) -> u64 {
        run(CountOf(self, key))
    }

    /// Returns a limit above the capacity of any filter.
    fn count_limit(&self) -> u64 {
        counter::MAX_COUNT
    }
}

impl Merge for CountingQuotient {
    /// Merges both tables in one pass into a new table. The numbers of possible fingerprints,
    /// slots · 2^r, must be equal or one a multiple of the other, as they are after
    /// [`Resize::resize`].
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let [a, b] = [self.shape.fingerprints(), other.shape.fingerprints()];
        let fewer = a.min(b);
        let shape = match self.shape == other.shape {
            true => self.shape.clone(),
            false if a.max(b).is_multiple_of(fewer) => {
                let keys = self.shape.keys.max(other.shape.keys);
                CountingQuotientShape::of_fingerprints(keys, fewer)?
            }
            false => return Err(Error::Mismatch { what: "shape" }),
        };
        sum_of_keys(self.len, other.len, shape.keys)?;
        let own = shortened(self.fingerprints(), a / fewer);
        let sum = add_counts(own, shortened(other.fingerprints(), b / fewer));
        *self = Self::from_sorted(&shape, sum, || Ok(()))?;
        Ok(())
    }
}

impl List for CountingQuotient {
    fn list(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        Box::new(self.fingerprints())
    }

    fn fingerprint_bits(&self) -> u32 {
        64 - (self.shape.fingerprints() - 1).leading_zeros()
    }
}

impl Resize for CountingQuotient {
    /// Twice the slots take one bit from each remainder. An odd number of slots cannot be halved: the
    /// table then keeps them.
    fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error> {
        if self.len > keys {
            return Err(Error::Capacity { capacity: keys });
        }
        let all = self.shape.fingerprints();
        let shape = match fpr {
            None => CountingQuotientShape::of_fingerprints(keys, all)?,
            Some(fpr) => (0..=all.trailing_zeros())
                .rev()
                .filter_map(|bits| CountingQuotientShape::of_fingerprints(keys, all >> bits).ok())
                .find(|shape| shape.fpr_at(keys) <= fpr)
                .ok_or(TOO_SHORT)?,
        };
        let fingerprints = shortened(self.fingerprints(), all / shape.fingerprints());
        *self = Self::from_sorted(&shape, fingerprints, || Ok(()))?;
        Ok(())
    }
}

impl Persist for CountingQuotient {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.slots, self.shape.remainder.into(), self.shape.keys]);
        to.words(TABLE, self.table.words());
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let slots = fields.next(1..=MAX_SLOTS, "number of slots")?;
        let widths = MIN_REMAINDER.into()..=most_remainder(slots).into();
        let remainder = fields.next(widths, "bits per remainder")?;
        let keys = fields.next(len..=most_keys(slots), "capacity in keys")?;
        fields.finish()?;
        let shape = CountingQuotientShape::new(slots, remainder as u32, keys)?;
        let words: Words = from.words(TABLE, shape.words())?;
        let table = Table::of(words, shape.blocks(), shape.remainder);
        Ok(Self { shape, len, table })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let past = |(fingerprint, _)| fingerprint >= self.shape.fingerprints();
        match self.table.validate() {
            Err(what) => corrupt(what),
            Ok(sum) if sum != self.len => {
                corrupt("the sum of the counts does not match the header")
            }
            Ok(_) if self.fingerprints().last().is_some_and(past) => {
                corrupt("a quotient is past the last slot")
            }
            Ok(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
