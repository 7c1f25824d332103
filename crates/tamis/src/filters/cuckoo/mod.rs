//! The cuckoo filter: the fingerprint of each key is in one of two buckets, and moves to the other
//! bucket when an insertion needs its slot.
//!
//! ```text
//!  hash.hi ──► bucket i of the left half      │ f bits │ f bits │ f bits │ f bits │    4 slots,
//!  hash.lo ──► fingerprint p                  ▲                                        0 = empty
//!                                             │ either of the two
//!  i + spread(p) ──► bucket j of the right    │ f bits │ f bits │ f bits │ f bits │
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | f / 0.955 at a rate of 7.6 · 2^-f: 9.4 at 1.5 %, 12.6 at 0.19 %, 16.8 at 0.012 % |
//! | cache lines | 2 for members and non-members, both prefetched at once |
//! | building | 2 lines per key; a few more when nearly full, to make room |
//! | failure | none seen in several 10^6 builds of the planned size; many copies of one key: see below |
//!
//! The right bucket is the left one plus an offset, modulo the half, that depends on the
//! fingerprint only. So a fingerprint can be moved to its other bucket without knowing its key. Two
//! keys cannot be distinguished if they share the fingerprint and the pair of buckets: one of
//! `(2^f - 1) n / 2` classes, all equally likely, wherever the fingerprints have moved. That makes
//! the rate exact: see [`CuckooShape::fpr_at`].
//!
//! If both buckets are full, an insertion searches breadth first for the shortest chain of moves
//! that ends in a free slot, and moves nothing before one is found: a refused key changes nothing.
//! The few keys without a chain go to a stash of 4 entries, which a lookup reads when the key is in
//! neither bucket.
//!
//! The filter holds 8 copies of one key, and a few in the stash; then it returns [`Full`], however
//! many slots are free. It cannot detect that a removed key was never inserted: if such a key is a
//! false positive, a member with the same fingerprint and buckets is removed.
//!
//! Fan, Andersen, Kaminsky, Mitzenmacher, *Cuckoo Filter: Practically Better Than Bloom*, 2014.
//! Differences: in the paper the number of buckets is a power of two and `j = i xor hash(p)`; a
//! random walk makes room and loses a key when it fails. The paper's semi-sorted buckets are a setting
//! (`sorted=1`, see `sorted.rs`): they save 1 bit per fingerprint, 10.5 instead of 11.5 bits per key at 0.37 %,
//! and cost time: a query decodes two buckets, an insertion decodes, sorts and encodes one.
//!
//! For single lookups in a table larger than the cache, the time depends on how many instructions
//! the processor can start while it waits for memory: a third fewer instructions per query reduced
//! the time by a fifth. What did not help: trying single moves before the search (2 % of the build
//! time), and prefetching 8 or 12 keys ahead instead of 16.

mod class;
mod inspect;
mod sorted;
mod table;

use core::ops::RangeInclusive;

use tamis_bits::lanes::Halves;
use tamis_bits::{Words, packed, range};
use tamis_format::{Name, Reader, Writer};

pub(super) use self::class::Class;
pub(super) use self::table::spread;
use self::table::{Place, Table};
use super::common::build_by_inserting;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, Persist, Remove};

const TABLE: Name = Name::new("table");
const STASH: Name = Name::new("stash");
pub(super) const SLOTS: u64 = 4;
/// Number of stash entries, of two words each: one cache line.
const STASH_ENTRIES: usize = 4;
const STASH_WORDS: usize = STASH_ENTRIES * 2;
pub(super) const MAX_BUCKETS: u64 = 1 << 49;
/// Number of keys between the prefetch of a key and its processing.
const AHEAD: usize = 16;
/// Load per bucket from which on both buckets of some keys are full.
const CROWDED: u64 = 3;

/// The size of the table: an even number of buckets with four fingerprints of `f` bits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooShape {
    buckets: u64,
    width: u32,
    keys: u64,
    /// Whether buckets are semi-sorted.
    sorted: bool,
}

const WIDTH: Setting =
    Setting::new("f", "4 to 32 fingerprint bits; default: derived from the rate");

const SORTED: Setting = Setting::new(
    "sorted",
    "1: semi-sorted buckets, 1 bit per fingerprint of 5 to 16 bits smaller, and slower; default: plain buckets",
);
/// The widths of semi-sorted fingerprints.
const SORTED_WIDTHS: RangeInclusive<u32> = 5..=16;
/// The bit of the width in a file that marks semi-sorted buckets.
const SORTED_FLAG: u64 = 64;

impl CuckooShape {
    /// Returns a shape of `buckets` buckets, an even number, with four fingerprints of `width` bits
    /// each, for `keys` keys.
    ///
    /// # Errors
    /// [`Error::Limit`] if a parameter is out of range or the buckets have fewer than `keys` slots.
    pub fn new(buckets: u64, width: u32, keys: u64) -> Result<Self, Error> {
        if buckets == 0 || buckets % 2 == 1 || buckets > MAX_BUCKETS {
            let what = "buckets (an even number)";
            return Err(Error::Limit { what, asked: buckets, most: MAX_BUCKETS });
        }
        if !(4..=32).contains(&width) {
            return Err(Error::Limit { what: "fingerprint bits", asked: width.into(), most: 32 });
        }
        crate::shape::check_keys(keys)?;
        if keys > buckets * SLOTS {
            let most = buckets * SLOTS;
            return Err(Error::Limit {
                what: "keys for this number of buckets",
                asked: keys,
                most,
            });
        }
        Ok(Self { buckets, width, keys, sorted: false })
    }

    /// Returns this shape with semi-sorted buckets: a fingerprint takes one bit less, and an operation
    /// several times as many instructions.
    ///
    /// # Errors
    /// [`Error::Limit`] if the fingerprints do not have 5 to 16 bits.
    pub fn semi_sorted(self) -> Result<Self, Error> {
        if !SORTED_WIDTHS.contains(&self.width) {
            let what = "bits of semi-sorted fingerprints (5 to 16)";
            return Err(Error::Limit { what, asked: self.width.into(), most: 16 });
        }
        Ok(Self { sorted: true, ..self })
    }

    /// Returns whether the buckets are semi-sorted.
    pub fn is_semi_sorted(&self) -> bool {
        self.sorted
    }

    /// Returns the bits of a bucket.
    fn bucket_bits(width: u32, sorted: bool) -> u64 {
        if sorted { sorted::bits(width).into() } else { SLOTS * u64::from(width) }
    }

    /// Returns the width for which code is compiled separately, or 0.
    #[inline(always)]
    fn constant_width(&self) -> u32 {
        if self.sorted { 0 } else { self.width }
    }

    /// Returns the number of buckets of four slots.
    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Returns the width of a fingerprint in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of words: one more than the last bucket ends in, since a bucket is read
    /// as a word.
    fn words(&self) -> u64 {
        (self.buckets * Self::bucket_bits(self.width, self.sorted)).div_ceil(64) + 1
    }

    /// Returns the number of combinations of a fingerprint and two buckets. Keys of one class
    /// cannot be distinguished.
    fn classes(&self) -> f64 {
        packed::mask(self.width) as f64 * (self.buckets / 2) as f64
    }

    /// Returns the smallest number of buckets that holds `keys` keys at `fpr`.
    fn min_buckets(width: u32, keys: u64, fpr: f64) -> u64 {
        let room = (keys as f64 / (LOAD * SLOTS as f64)).ceil() + SPARE;
        // fpr = 1 - (1 - 1/classes)^keys, solved for the classes.
        let share = -((-fpr).ln_1p() / keys.max(1) as f64).exp_m1();
        let pairs = (1.0 / (share * packed::mask(width) as f64)).ceil();
        // 8 keys of one class fit. About keys · m^8 / 9! classes get more, where m is the mean
        // number of keys per class: few enough for the stash.
        let copies =
            keys as f64 / (packed::mask(width) as f64 * (5670.0 / keys.max(1) as f64).powf(0.125));
        let buckets = room.max(pairs.max(copies) * 2.0).clamp(2.0, MAX_BUCKETS as f64 * 2.0);
        (buckets as u64).next_multiple_of(2)
    }
}

/// The largest load factor. Up to 0.98 all keys can be placed (Dietzfelbinger, Weidling 2007), but
/// the chains get longer towards it.
pub(super) const LOAD: f64 = 0.955;
/// Extra buckets, because small tables are filled less evenly.
pub(super) const SPARE: f64 = 4.0;

impl Shape for CuckooShape {
    const SETTINGS: &'static [Setting] = &[WIDTH, SORTED];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let sorted = settings.number(&SORTED, |sorted| sorted == 1)?.is_some();
        let widths = match settings.number(&WIDTH, |f| (4..=32).contains(&f))? {
            Some(width) => width as u32..=width as u32,
            None if sorted => SORTED_WIDTHS,
            None => 4..=32,
        };
        // A narrower fingerprint in more buckets is sometimes smaller than a wider one.
        let (width, buckets) = widths
            .map(|width| (width, Self::min_buckets(width, keys, fpr)))
            .min_by_key(|(width, buckets)| {
                u128::from(Self::bucket_bits(*width, sorted)) * u128::from(*buckets)
            })
            .expect("there is a width");
        let shape = Self::new(buckets, width, keys)?;
        if sorted { shape.semi_sorted() } else { Ok(shape) }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        let sorted = self.sorted.then_some(("sorted", 1u64.into()));
        [("buckets", self.buckets.into()), ("f", self.width.into())]
            .into_iter()
            .chain(sorted)
            .collect()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (tamis_bits::lines(self.words()) + tamis_bits::lines(STASH_WORDS as u64)) * 64,
            query_cost: if self.sorted { 3.25 } else { 2.25 },
        }
    }

    /// Returns the probability that a non-member is of the same class as one of `keys` keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        let others = (-1.0 / self.classes()).ln_1p();
        -(keys as f64 * others).exp_m1()
    }
}

/// A cuckoo filter.
///
/// # Examples
/// ```
/// use tamis::{Cuckoo, Keyed};
///
/// let mut guests = Keyed::<Cuckoo>::with_capacity(1000, 0.001)?;
/// guests.insert("Ada")?;
/// assert!(guests.contains("Ada"));
/// assert!(guests.remove("Ada") && !guests.contains("Ada"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cuckoo {
    shape: CuckooShape,
    len: u64,
    table: Table,
    /// Number of stash entries in use; they come first.
    stashed: usize,
    /// Pairs of a key's left bucket and its fingerprint; zero if unused.
    stash: Words,
    /// The buckets if they are read as words and the stash is empty, else [`Halves::NONE`]. So a single lookup
    /// tests once what it can rely on.
    halves: Halves,
    /// The number of fingerprints.
    fingerprints: u64,
}

/// Calls a method with the fingerprint width as a constant for the usual widths, which saves a
/// third of the instructions of a query. For other widths the constant is 0, and the width is read
/// from the shape.
macro_rules! by_width {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.shape.constant_width() {
            8 => $self.$method::<8>($($argument),*),
            9 => $self.$method::<9>($($argument),*),
            10 => $self.$method::<10>($($argument),*),
            11 => $self.$method::<11>($($argument),*),
            12 => $self.$method::<12>($($argument),*),
            13 => $self.$method::<13>($($argument),*),
            16 => $self.$method::<16>($($argument),*),
            _ => $self.$method::<0>($($argument),*),
        }
    };
}

impl Cuckoo {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table cannot be allocated.
    pub fn new(shape: CuckooShape) -> Result<Self, Error> {
        let table = Table::new(&shape)?;
        let stash = Words::zeroed(STASH_WORDS)?;
        Ok(Self::from_parts(shape, 0, table, 0, stash))
    }

    fn from_parts(
        shape: CuckooShape,
        len: u64,
        table: Table,
        stashed: usize,
        stash: Words,
    ) -> Self {
        let fingerprints = packed::mask(shape.width);
        let halves = Halves::NONE;
        let mut filter = Self { shape, len, table, stashed, stash, halves, fingerprints };
        filter.update_halves();
        filter
    }

    /// Sets `halves` after the stash has become empty or has ceased to be.
    fn update_halves(&mut self) {
        let direct = self.table.is_plain() && self.stashed == 0;
        let CuckooShape { buckets, width, .. } = self.shape;
        self.halves = if direct { Halves::new(buckets / 2, width) } else { Halves::NONE };
    }

    /// Returns the number of keys in the stash: 0 unless the filter is nearly full or has many
    /// copies of a key.
    pub fn stashed(&self) -> usize {
        self.stashed
    }

    #[inline(always)]
    fn contains_place<const F: u32>(&self, place: &Place) -> bool {
        let found = self.table.contains::<F>(place);
        if self.stashed > 0 {
            return found || self.find_stashed(place.buckets[0], place.fingerprint).is_some();
        }
        found
    }

    fn contains_key<const F: u32>(&self, key: KeyHash) -> bool {
        self.contains_place::<F>(&self.table.place::<F>(key))
    }

    /// Returns whether the key is in a filter whose buckets are not read as words, or that has keys in the stash.
    #[cold]
    #[inline(never)]
    fn contains_otherwise(&self, key: KeyHash) -> bool {
        by_width!(self.contains_key(key))
    }

    /// Writes to `out` whether each key is in the filter.
    ///
    /// A key is prefetched when `AHEAD` others are to be processed before it, and its place is kept
    /// in a ring, so that it is computed once. The loop of `common` would compute it twice.
    fn contains_keys<const F: u32>(&self, keys: &[KeyHash], out: &mut [bool]) {
        let mut ring = self.first_places::<F, AHEAD>(keys);
        for (i, out) in out.iter_mut().enumerate() {
            let later = keys.get(i + AHEAD);
            let place = core::mem::replace(&mut ring[i % AHEAD], self.prefetched_place::<F>(later));
            *out = self.contains_place::<F>(&place);
        }
    }

    #[cold]
    fn find_stashed(&self, left: u64, fp: u64) -> Option<usize> {
        let (entries, _) = self.stash.as_chunks();
        entries[..self.stashed].iter().position(|entry| *entry == [left, fp])
    }

    /// Moves keys from the stash back to the table, after a slot has become free.
    #[cold]
    fn refill_table<const F: u32>(&mut self) {
        for index in (0..self.stashed).rev() {
            let [left, fp] = self.stash.as_chunks().0[index];
            if self.table.insert::<F>(&self.table.place_at(left, fp)) {
                self.remove_stashed(index);
            }
        }
    }

    fn remove_stashed(&mut self, index: usize) {
        let words = self.stash.to_mut();
        words.copy_within(index * 2 + 2.., index * 2);
        words[STASH_WORDS - 2..].fill(0);
        self.stashed -= 1;
        self.update_halves();
    }

    /// Returns the place of a key and prefetches its buckets.
    #[inline(always)]
    fn prefetched_place<const F: u32>(&self, key: Option<&KeyHash>) -> Place {
        let Some(key) = key else { return Place { fingerprint: 0, buckets: [0; 2] } };
        let place = self.table.place::<F>(*key);
        self.table.fetch::<F>(&place.buckets);
        place
    }

    #[inline(always)]
    fn first_places<const F: u32, const N: usize>(&self, keys: &[KeyHash]) -> [Place; N] {
        core::array::from_fn(|i| self.prefetched_place::<F>(keys.get(i)))
    }

    #[inline(always)]
    fn insert_place<const F: u32>(&mut self, place: &Place) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        if !self.table.insert::<F>(place) {
            self.insert_stashed(place)?;
        }
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn insert_stashed(&mut self, place: &Place) -> Result<(), Full> {
        if self.stashed == STASH_ENTRIES {
            return Err(Full::NONE);
        }
        let at = self.stashed * 2;
        self.stash.to_mut()[at..at + 2].copy_from_slice(&[place.buckets[0], place.fingerprint]);
        self.stashed += 1;
        self.update_halves();
        Ok(())
    }

    #[inline(always)]
    fn insert_key<const F: u32>(&mut self, key: KeyHash) -> Result<(), Full> {
        self.insert_place::<F>(&self.table.place::<F>(key))
    }

    /// Inserts keys. The buckets of a key are prefetched when twice `AHEAD` others are to be
    /// inserted before it. Half way they have arrived, and if both are full, the buckets that their
    /// fingerprints could move to are prefetched. The loop of `common` has no second stage.
    fn insert_keys<const F: u32>(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        let mut ring = self.first_places::<F, { 2 * AHEAD }>(keys);
        for i in 0..keys.len() {
            let later = self.prefetched_place::<F>(keys.get(i + ring.len()));
            let place = core::mem::replace(&mut ring[i % (2 * AHEAD)], later);
            if self.len > self.shape.buckets * CROWDED {
                self.table.fetch_others::<F>(&ring[(i + AHEAD) % (2 * AHEAD)]);
            }
            self.insert_place::<F>(&place).map_err(|full| full.after(i))?;
        }
        Ok(())
    }

    fn count_key<const F: u32>(&self, key: KeyHash) -> u64 {
        let place = self.table.place::<F>(key);
        let (entries, _) = self.stash.as_chunks();
        let entry = [place.buckets[0], place.fingerprint];
        let stashed = entries[..self.stashed].iter().filter(|other| **other == entry).count();
        self.table.count::<F>(&place) + stashed as u64
    }

    fn remove_key<const F: u32>(&mut self, key: KeyHash) -> bool {
        if self.len == 0 {
            return false;
        }
        self.remove_place::<F>(&self.table.place::<F>(key))
    }

    fn remove_place<const F: u32>(&mut self, place: &Place) -> bool {
        if self.table.remove::<F>(place) {
            if self.stashed > 0 {
                self.refill_table::<F>();
            }
        } else if let Some(index) = self.find_stashed(place.buckets[0], place.fingerprint) {
            self.remove_stashed(index);
        } else {
            return false;
        }
        self.len -= 1;
        true
    }
}

impl Filter for Cuckoo {
    /// One path for all widths takes 11 instructions less than one per width, which have to be selected, and
    /// is small enough to be inlined everywhere. A call, with the registers that it saves, would add a fourth.
    #[inline(always)]
    fn contains(&self, key: KeyHash) -> bool {
        let Some(halves) = self.halves.of(self.table.words()) else {
            return self.contains_otherwise(key);
        };
        let fp = range::scale(key.lo, self.fingerprints) + 1;
        halves.contains(key.hi, spread(fp), fp)
    }

    /// Returns the keys inserted minus the keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.table.words().len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        by_width!(self.contains_keys(keys, &mut out[..keys.len()]));
    }
}

impl Build for Cuckoo {
    type Shape = CuckooShape;

    fn shape(&self) -> &CuckooShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<CuckooShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for Cuckoo {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        by_width!(self.insert_key(key))
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        by_width!(self.insert_keys(keys))
    }
}

impl Remove for Cuckoo {
    /// Removes a fingerprint of the key's class. Keys of one class are equal, so it does not matter
    /// which key it came from.
    fn remove(&mut self, key: KeyHash) -> bool {
        by_width!(self.remove_key(key))
    }
}

impl Count for Cuckoo {
    /// Returns the number of copies of the key's fingerprint in its buckets and the stash: exact,
    /// unless another key shares fingerprint and buckets.
    fn count(&self, key: KeyHash) -> u64 {
        by_width!(self.count_key(key))
    }

    /// Returns 12: the slots of two buckets and the stash.
    fn count_limit(&self) -> u64 {
        2 * SLOTS + STASH_ENTRIES as u64
    }
}

impl Persist for Cuckoo {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let flag = if self.shape.sorted { SORTED_FLAG } else { 0 };
        to.shape(&[self.shape.buckets, u64::from(self.shape.width) | flag, self.shape.keys]);
        to.words(TABLE, self.table.words());
        to.words(STASH, &self.stash);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let buckets = fields.next(2..=MAX_BUCKETS, "number of buckets")?;
        let width = fields.next(4..=SORTED_FLAG + 16, "fingerprint bits")?;
        let sorted = width >= SORTED_FLAG;
        let width = width % SORTED_FLAG;
        let most = MAX_KEYS.min(buckets * SLOTS);
        let keys = fields.next(len..=most, "capacity")?;
        fields.finish()?;
        if buckets % 2 == 1 {
            return Err(from.corrupt("the number of buckets is odd").into());
        }
        let mut shape = CuckooShape::new(buckets, width as u32, keys)
            .map_err(|_| from.corrupt("the fingerprint bits are out of range"))?;
        if sorted {
            shape = shape
                .semi_sorted()
                .map_err(|_| from.corrupt("the fingerprint bits are out of range"))?;
        }
        let table = Table::from_words(&shape, from.words(TABLE, shape.words())?);
        let stash = from.words(STASH, STASH_WORDS as u64)?;
        let (entries, _) = stash.as_chunks::<2>();
        let stashed = entries.iter().take_while(|[_, fp]| *fp != 0).count();
        let sound = |[left, fp]: &[u64; 2]| *left < buckets / 2 && *fp <= packed::mask(shape.width);
        if !entries[..stashed].iter().all(sound) || entries[stashed..].iter().any(|e| *e != [0; 2])
        {
            return Err(from.corrupt("a stash entry is invalid").into());
        }
        Ok(Self::from_parts(shape, len, table, stashed, stash))
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        match self.table.check() {
            Err(what) => corrupt(what),
            Ok(len) if len + self.stashed as u64 == self.len => Ok(()),
            Ok(_) => corrupt("the number of keys in the table differs from the header"),
        }
    }
}

#[cfg(test)]
mod tests;
