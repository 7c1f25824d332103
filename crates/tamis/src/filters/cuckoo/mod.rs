//! The cuckoo filter: each key's fingerprint lies in one of two buckets, and moves to the other
//! when a newcomer needs the place.
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
//! | bits a key | f / 0.955 at a rate of 7.6 · 2^-f: 9.4 at 1.5 %, 12.6 at 0.19 %, 16.8 at 0.012 % |
//! | cache lines | 2, member or stranger, both asked for at once |
//! | building | 2 lines a key; when nearly full a few more, to make room |
//! | failure | a build of the planned size: none seen in millions; many copies of keys: see below |
//!
//! The right bucket lies a distance on from the left one, round the half, that the fingerprint
//! alone decides. So a fingerprint can be moved to its other bucket without knowing its key. Two
//! keys are taken for each other if they share the fingerprint and the pair of buckets: one of
//! `(2^f - 1) n / 2` classes, all equally likely, wherever the fingerprints have moved. That makes
//! the rate exact: see [`CuckooShape::fpr_at`].
//!
//! Who finds both buckets full looks for the shortest chain of moves that ends in a free slot,
//! breadth first, and moves nothing before there is one: a refused key leaves no trace. The few
//! keys without a chain go to a stash of 4 entries that is asked when both buckets say no.
//!
//! It holds 8 copies of one key, and a few in the stash; then it is [`Full`], however much room
//! others have. It cannot know that a key it is told to remove was never inserted: if it takes it
//! for a member, a member with the same fingerprint and buckets goes.
//!
//! Fan, Andersen, Kaminsky, Mitzenmacher, *Cuckoo Filter: Practically Better Than Bloom*, 2014.
//! Differences: there the buckets are a power of two and `j = i xor hash(p)`; a random walk makes
//! room and loses a key when it gives up. Its semi-sorted buckets are left out: they save one bit
//! a key and cost three times the query.
//!
//! One key at a time in a table larger than the cache, time is what a query's instructions keep
//! others from being begun while it waits: a third fewer of them took a fifth off. What did not pay:
//! trying single moves before the search (2 % of building), 8 or 12 keys ahead instead of 16.

mod table;

use tamis_bits::{Words, packed};
use tamis_format::{Name, Reader, Writer};

pub(super) use self::table::spread;
use self::table::{Place, Table};
use super::common::build_by_inserting;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, Persist, Remove};

const TABLE: Name = Name::new("table");
const STASH: Name = Name::new("stash");
const SLOTS: u64 = 4;
/// Entries of the stash, of two words each: one cache line.
const STASHED: usize = 4;
const STASH_WORDS: usize = STASHED * 2;
const MAX_BUCKETS: u64 = 1 << 49;
/// How many keys ahead of its turn a key's memory is asked for.
const AHEAD: usize = 16;
/// Keys a bucket from which on both buckets of some keys are full.
const CROWDED: u64 = 3;

/// An even number of buckets with four fingerprints of `f` bits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooShape {
    buckets: u64,
    width: u32,
    keys: u64,
}

const WIDTH: Setting = Setting::new("f", "4 to 32 bits a fingerprint; else what the rate asks for");

impl CuckooShape {
    /// A shape by hand: this many buckets, an even number, of four fingerprints of so many bits,
    /// made for this many keys.
    pub fn new(buckets: u64, width: u32, keys: u64) -> Result<Self, Error> {
        if buckets == 0 || buckets % 2 == 1 || buckets > MAX_BUCKETS {
            let what = "buckets, of which there is an even number,";
            return Err(Error::Limit { what, asked: buckets, most: MAX_BUCKETS });
        }
        if !(4..=32).contains(&width) {
            return Err(Error::Limit { what: "bits a fingerprint", asked: width.into(), most: 32 });
        }
        crate::shape::check_keys(keys)?;
        if keys > buckets * SLOTS {
            let most = buckets * SLOTS;
            return Err(Error::Limit { what: "keys in so few buckets", asked: keys, most });
        }
        Ok(Self { buckets, width, keys })
    }

    /// Buckets of four slots.
    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Bits of a fingerprint.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// One word more than the last bucket ends in: a bucket is read as a word.
    fn words(&self) -> u64 {
        (self.buckets * SLOTS * u64::from(self.width)).div_ceil(64) + 1
    }

    /// Pairs of a fingerprint and two buckets: keys of one class cannot be told apart.
    fn classes(&self) -> f64 {
        packed::mask(self.width) as f64 * (self.buckets / 2) as f64
    }

    /// The fewest buckets that hold `keys` keys at `fpr`.
    fn least(width: u32, keys: u64, fpr: f64) -> u64 {
        let room = (keys as f64 / (LOAD * SLOTS as f64)).ceil() + SPARE;
        // fpr = 1 - (1 - 1/classes)^keys, solved for the classes.
        let share = -((-fpr).ln_1p() / keys.max(1) as f64).exp_m1();
        let pairs = (1.0 / (share * packed::mask(width) as f64)).ceil();
        // Of one class 8 fit. About keys · m^8 / 9! classes get more, where m keys are the mean of
        // a class: few enough for the stash.
        let copies =
            keys as f64 / (packed::mask(width) as f64 * (5670.0 / keys.max(1) as f64).powf(0.125));
        let buckets = room.max(pairs.max(copies) * 2.0).clamp(2.0, MAX_BUCKETS as f64 * 2.0);
        (buckets as u64).next_multiple_of(2)
    }
}

/// Slots taken at the most. Up to 0.98 there is a way to place all keys (Dietzfelbinger, Weidling
/// 2007), and the nearer to it the longer the chains.
const LOAD: f64 = 0.955;
/// Buckets more, because small tables are filled less evenly.
const SPARE: f64 = 4.0;

impl Shape for CuckooShape {
    const SETTINGS: &'static [Setting] = &[WIDTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let widths = match settings.number(&WIDTH, |f| (4..=32).contains(&f))? {
            Some(width) => width as u32..=width as u32,
            None => 4..=32,
        };
        // A narrow fingerprint in more buckets is now and then smaller than a wider one.
        let (width, buckets) = widths
            .map(|width| (width, Self::least(width, keys, fpr)))
            .min_by_key(|(width, buckets)| u128::from(*width) * u128::from(*buckets))
            .expect("there is a width");
        Self::new(buckets, width, keys)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (tamis_bits::lines(self.words()) + tamis_bits::lines(STASH_WORDS as u64)) * 64,
            query_cost: 2.25,
        }
    }

    /// The chance that a stranger is of the same class as one of the keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        let others = (-1.0 / self.classes()).ln_1p();
        -(keys as f64 * others).exp_m1()
    }
}

/// A cuckoo filter.
///
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
    /// Entries in use of the stash; they come first.
    stashed: usize,
    /// Pairs of a key's left bucket and its fingerprint; zero if not in use.
    stash: Words,
}

/// Runs a method for the width of the fingerprints, which is a constant for the usual ones: that
/// saves a third of a query's instructions. For others it is 0, and looked up.
macro_rules! by_width {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.shape.width {
            8 => $self.$method::<8>($($argument),*),
            12 => $self.$method::<12>($($argument),*),
            16 => $self.$method::<16>($($argument),*),
            _ => $self.$method::<0>($($argument),*),
        }
    };
}

impl Cuckoo {
    /// An empty filter.
    pub fn new(shape: CuckooShape) -> Result<Self, Error> {
        let table = Table::new(&shape)?;
        let stash = Words::zeroed(STASH_WORDS)?;
        Ok(Self { shape, len: 0, table, stashed: 0, stash })
    }

    /// Keys that found no slot in the table: 0 unless it is nearly full or has many copies.
    pub fn stashed(&self) -> usize {
        self.stashed
    }

    #[inline(always)]
    fn is_in<const F: u32>(&self, place: &Place) -> bool {
        let found = self.table.has::<F>(place);
        if self.stashed > 0 {
            return found || self.in_stash(place.buckets[0], place.print).is_some();
        }
        found
    }

    #[inline(always)]
    fn look<const F: u32>(&self, key: KeyHash) -> bool {
        self.is_in::<F>(&self.table.place::<F>(key))
    }

    fn look_each<const F: u32>(&self, keys: &[KeyHash], out: &mut [bool]) {
        let mut ring = self.first_places::<F, AHEAD>(keys);
        for (i, out) in out.iter_mut().enumerate() {
            let later = keys.get(i + AHEAD);
            let place = std::mem::replace(&mut ring[i % AHEAD], self.asked::<F>(later));
            *out = self.is_in::<F>(&place);
        }
    }

    #[cold]
    fn in_stash(&self, left: u64, print: u64) -> Option<usize> {
        let (entries, _) = self.stash.as_chunks();
        entries[..self.stashed].iter().position(|entry| *entry == [left, print])
    }

    /// Keys in the stash go back to the table when a slot has become free.
    #[cold]
    fn unstash<const F: u32>(&mut self) {
        for index in (0..self.stashed).rev() {
            let [left, print] = self.stash.as_chunks().0[index];
            if self.table.put::<F>(&self.table.place_at(left, print)) {
                self.drop_stashed(index);
            }
        }
    }

    fn drop_stashed(&mut self, index: usize) {
        let words = self.stash.to_mut();
        words.copy_within(index * 2 + 2.., index * 2);
        words[STASH_WORDS - 2..].fill(0);
        self.stashed -= 1;
    }

    /// Where a key goes, its memory asked for.
    #[inline(always)]
    fn asked<const F: u32>(&self, key: Option<&KeyHash>) -> Place {
        let Some(key) = key else { return Place { print: 0, buckets: [0; 2] } };
        let place = self.table.place::<F>(*key);
        self.table.fetch::<F>(&place.buckets);
        place
    }

    #[inline(always)]
    fn first_places<const F: u32, const N: usize>(&self, keys: &[KeyHash]) -> [Place; N] {
        std::array::from_fn(|i| self.asked::<F>(keys.get(i)))
    }

    #[inline(always)]
    fn add<const F: u32>(&mut self, place: &Place) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        if !self.table.put::<F>(place) {
            self.stash(place)?;
        }
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn stash(&mut self, place: &Place) -> Result<(), Full> {
        if self.stashed == STASHED {
            return Err(Full::NONE);
        }
        let at = self.stashed * 2;
        self.stash.to_mut()[at..at + 2].copy_from_slice(&[place.buckets[0], place.print]);
        self.stashed += 1;
        Ok(())
    }

    #[inline(always)]
    fn add_key<const F: u32>(&mut self, key: KeyHash) -> Result<(), Full> {
        self.add::<F>(&self.table.place::<F>(key))
    }

    /// A key's buckets are asked for when twice `AHEAD` others are to be inserted before it; half
    /// way from there they have come, and if both are full, those are asked for that their
    /// fingerprints could go to.
    fn add_each<const F: u32>(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        let mut ring = self.first_places::<F, { 2 * AHEAD }>(keys);
        for i in 0..keys.len() {
            let later = self.asked::<F>(keys.get(i + ring.len()));
            let place = std::mem::replace(&mut ring[i % (2 * AHEAD)], later);
            if self.len > self.shape.buckets * CROWDED {
                self.table.fetch_others::<F>(&ring[(i + AHEAD) % (2 * AHEAD)]);
            }
            self.add::<F>(&place).map_err(|full| full.after(i))?;
        }
        Ok(())
    }

    fn count_key<const F: u32>(&self, key: KeyHash) -> u64 {
        let place = self.table.place::<F>(key);
        let (entries, _) = self.stash.as_chunks();
        let entry = [place.buckets[0], place.print];
        let stashed = entries[..self.stashed].iter().filter(|other| **other == entry).count();
        self.table.count::<F>(&place) + stashed as u64
    }

    fn drop_key<const F: u32>(&mut self, key: KeyHash) -> bool {
        if self.len == 0 {
            return false;
        }
        let place = self.table.place::<F>(key);
        if self.table.take::<F>(&place) {
            if self.stashed > 0 {
                self.unstash::<F>();
            }
        } else if let Some(index) = self.in_stash(place.buckets[0], place.print) {
            self.drop_stashed(index);
        } else {
            return false;
        }
        self.len -= 1;
        true
    }
}

impl Filter for Cuckoo {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        by_width!(self.look(key))
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        by_width!(self.look_each(keys, &mut out[..keys.len()]));
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
        by_width!(self.add_key(key))
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        by_width!(self.add_each(keys))
    }
}

impl Remove for Cuckoo {
    /// Takes out a fingerprint of the key's class; keys of one class are equal, so it does not
    /// matter whose it was.
    fn remove(&mut self, key: KeyHash) -> bool {
        by_width!(self.drop_key(key))
    }
}

impl Count for Cuckoo {
    /// Returns how often the key's fingerprint is in its buckets and the stash: exact, unless another key
    /// shares fingerprint and buckets.
    fn count(&self, key: KeyHash) -> u64 {
        by_width!(self.count_key(key))
    }

    /// Returns 12: the slots of two buckets and the stash.
    fn count_limit(&self) -> u64 {
        2 * SLOTS + STASHED as u64
    }
}

impl Persist for Cuckoo {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.buckets, self.shape.width.into(), self.shape.keys]);
        to.words(TABLE, self.table.words());
        to.words(STASH, &self.stash);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let buckets = fields.next(2..=MAX_BUCKETS, "number of buckets")?;
        let width = fields.next(4..=32, "bits a fingerprint")?;
        let most = MAX_KEYS.min(buckets * SLOTS);
        let keys = fields.next(len..=most, "keys it is made for")?;
        fields.finish()?;
        if buckets % 2 == 1 {
            return Err(from.corrupt("an odd number of buckets").into());
        }
        let shape = CuckooShape::new(buckets, width as u32, keys)?;
        let table = Table::of(&shape, from.words(TABLE, shape.words())?);
        let stash = from.words(STASH, STASH_WORDS as u64)?;
        let (entries, _) = stash.as_chunks::<2>();
        let stashed = entries.iter().take_while(|[_, print]| *print != 0).count();
        let sound =
            |[left, print]: &[u64; 2]| *left < buckets / 2 && *print <= packed::mask(shape.width);
        if !entries[..stashed].iter().all(sound) || entries[stashed..].iter().any(|e| *e != [0; 2])
        {
            return Err(from.corrupt("the stash holds what is no key").into());
        }
        Ok(Self { shape, len, table, stashed, stash })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        match self.table.check() {
            Err(what) => corrupt(what),
            Ok(len) if len + self.stashed as u64 == self.len => Ok(()),
            Ok(_) => corrupt("the table does not hold as many keys as the header says"),
        }
    }
}

#[cfg(test)]
mod tests;
