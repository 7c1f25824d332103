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

use bits::lanes::{self, Lanes};
use bits::{Words, packed, prefetch, range, set};
use format::{Name, Reader, Writer};

use super::{build_by_inserting, usize_words};
use crate::error::{Error, Full};
use crate::filter::{Build, Filter, Insert, KeySource, Persist, Remove};
use crate::hash::Hash;
use crate::plan::{Figures, MAX_KEYS, Setting, Settings, Shape};

const TABLE: Name = Name::new("table");
const STASH: Name = Name::new("stash");
const SLOTS: u64 = 4;
/// Entries of the stash, of two words each: one cache line.
const STASHED: usize = 4;
const STASH_WORDS: usize = STASHED * 2;
const MAX_BUCKETS: u64 = 1 << 49;
/// How many keys ahead of its turn a key's memory is asked for.
const AHEAD: usize = 16;
/// No slot is free.
const NONE: u32 = 64;
/// Keys a bucket from which on both buckets of some keys are full.
const CROWDED: u64 = 3;

/// An even number of buckets with four fingerprints of `f` bits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooShape {
    buckets: u64,
    width: u32,
    keys: u64,
}

const WIDTH: Setting =
    Setting { name: "f", takes: "4 to 32 bits a fingerprint; else what the rate asks for" };

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
        crate::plan::check_keys(keys)?;
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
            bytes: (bits::lines(self.words()) + bits::lines(STASH_WORDS as u64)) * 64,
            cost: 2.25,
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
    table: Words,
    /// Entries in use of the stash; they come first.
    stashed: usize,
    /// Pairs of a key's left bucket and its fingerprint; zero if not in use.
    stash: Words,
}

/// Where a key may be: its fingerprint and two buckets.
#[derive(Clone, Copy)]
struct Place {
    print: u64,
    buckets: [u64; 2],
}

/// 64 bits of a fingerprint's own, of which the high ones choose places.
///
/// The product alone would grow evenly with the fingerprint and make the buckets that lead to
/// each other a lattice, on which there are few ways to a free slot.
#[inline(always)]
pub(super) fn spread(print: u64) -> u64 {
    let x = print.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x.rotate_left(32)
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
        let table = Words::zeroed(usize_words(shape.words())?)?;
        let stash = Words::zeroed(STASH_WORDS)?;
        Ok(Self { shape, len: 0, table, stashed: 0, stash })
    }

    /// Keys that found no slot in the table: 0 unless it is nearly full or has many copies.
    pub fn stashed(&self) -> usize {
        self.stashed
    }

    #[inline(always)]
    fn width<const F: u32>(&self) -> u32 {
        if F == 0 { self.shape.width } else { F }
    }

    /// How to handle a bucket at once, where a word holds one.
    #[inline(always)]
    fn lanes<const F: u32>(&self) -> Option<Lanes> {
        let width = self.width::<F>();
        (width <= lanes::WIDEST).then(|| Lanes::new(width))
    }

    #[inline(always)]
    fn place<const F: u32>(&self, key: Hash) -> Place {
        let print = range::scale(key.lo, packed::mask(self.width::<F>())) + 1;
        self.place_at(range::scale(key.hi, self.shape.buckets / 2), print)
    }

    /// The fingerprint with its left bucket and, so many buckets on, its right one.
    #[inline(always)]
    fn place_at(&self, left: u64, print: u64) -> Place {
        let half = self.shape.buckets / 2;
        let sum = left + range::scale(spread(print), half);
        Place { print, buckets: [left, if sum < half { sum + half } else { sum }] }
    }

    /// The other bucket of a fingerprint in `bucket`.
    #[inline(always)]
    fn other(&self, bucket: u64, print: u64) -> u64 {
        let half = self.shape.buckets / 2;
        let by = range::scale(spread(print), half);
        if bucket < half {
            let on = bucket + by;
            return if on < half { on + half } else { on };
        }
        let back = bucket - by;
        if back < half { back } else { back - half }
    }

    /// Where the bucket begins.
    #[inline(always)]
    fn bit<const F: u32>(&self, bucket: u64) -> u64 {
        bucket * SLOTS * u64::from(self.width::<F>())
    }

    /// The bucket as a word, where that holds one.
    #[inline(always)]
    fn window<const F: u32>(&self, bucket: u64) -> u64 {
        if F > 0 {
            return lanes::word_at(&self.table, bucket * (SLOTS * u64::from(F) / 8));
        }
        lanes::window(&self.table, self.bit::<F>(bucket))
    }

    /// The fingerprints of a bucket.
    #[inline(always)]
    fn prints<const F: u32>(&self, bucket: u64) -> [u64; SLOTS as usize] {
        let width = self.width::<F>();
        if width > lanes::WIDEST {
            return self.wide_prints(bucket);
        }
        let all = self.window::<F>(bucket);
        [0, 1, 2, 3].map(|slot| all >> (slot * width) & packed::mask(width))
    }

    #[cold]
    fn wide_prints(&self, bucket: u64) -> [u64; SLOTS as usize] {
        let slot = |slot| packed::get(&self.table, self.shape.width, bucket * SLOTS + slot);
        [slot(0), slot(1), slot(2), slot(3)]
    }

    #[inline(always)]
    fn set<const F: u32>(&mut self, bucket: u64, slot: u64, print: u64) {
        let (bit, width) = (self.bit::<F>(bucket), self.width::<F>());
        let table = self.table.to_mut();
        if width > lanes::WIDEST {
            return packed::set(table, width, bucket * SLOTS + slot, print);
        }
        let shift = slot as u32 * width;
        lanes::set_window(table, bit, packed::mask(width) << shift, print << shift);
    }

    #[inline(always)]
    fn is_in<const F: u32>(&self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        let found = match self.lanes::<F>() {
            // Both at once: a branch between them would be guessed wrong half of the time.
            Some(lanes) => {
                let [a, b] = [a, b].map(|bucket| self.window::<F>(bucket));
                lanes.find(a, place.print) | lanes.find(b, place.print) != 0
            }
            None => [a, b].iter().any(|bucket| self.wide_prints(*bucket).contains(&place.print)),
        };
        if self.stashed > 0 {
            return found || self.in_stash(a, place.print).is_some();
        }
        found
    }

    #[inline(always)]
    fn look<const F: u32>(&self, key: Hash) -> bool {
        self.is_in::<F>(&self.place::<F>(key))
    }

    fn look_each<const F: u32>(&self, keys: &[Hash], out: &mut [bool]) {
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

    /// A mark of the bucket's first free slot, the smaller the emptier it is; [`NONE`] if it is
    /// full. In a bucket that is handled at once it is the place of the slot's top bit.
    #[inline(always)]
    fn free<const F: u32>(&self, bucket: u64) -> u32 {
        match self.lanes::<F>() {
            Some(lanes) => lanes.find(self.window::<F>(bucket), 0).trailing_zeros(),
            None => {
                let slot = self.wide_prints(bucket).iter().position(|print| *print == 0);
                slot.map_or(NONE, |slot| slot as u32)
            }
        }
    }

    /// Puts a fingerprint into the free slot that `mark` stands for.
    #[inline(always)]
    fn fill<const F: u32>(&mut self, bucket: u64, mark: u32, print: u64) {
        let (bit, width) = (self.bit::<F>(bucket), self.width::<F>());
        let table = self.table.to_mut();
        if width > lanes::WIDEST {
            return packed::set(table, width, bucket * SLOTS + u64::from(mark), print);
        }
        lanes::set_window(table, bit, 0, print << (mark + 1 - width));
    }

    #[inline(always)]
    fn fetch<const F: u32>(&self, buckets: &[u64]) {
        for bucket in buckets {
            prefetch(&self.table, (self.bit::<F>(*bucket) / 64) as usize);
        }
    }

    /// Where the fingerprints of a bucket could go.
    #[inline(always)]
    fn others<const F: u32>(&self, bucket: u64) -> [u64; SLOTS as usize] {
        self.prints::<F>(bucket).map(|print| self.other(bucket, print))
    }

    /// Puts a fingerprint into the emptier of its buckets, or makes room in one of them.
    #[inline(always)]
    fn put<const F: u32>(&mut self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        let (free_a, free_b) = (self.free::<F>(a), self.free::<F>(b));
        let (bucket, mark) = if free_a <= free_b { (a, free_a) } else { (b, free_b) };
        if mark == NONE {
            return self.make_room::<F>(place);
        }
        self.fill::<F>(bucket, mark, place.print);
        true
    }

    /// First among the nearest 40 buckets, which mostly is enough, then among some hundreds.
    #[inline(never)]
    fn make_room<const F: u32>(&mut self, place: &Place) -> bool {
        self.shift::<F, { nodes(3) }>(place) || self.shift::<F, { nodes(5) }>(place)
    }

    /// Looks for the nearest bucket with a free slot, breadth first, and moves fingerprints along
    /// the way there, from its end back. The key's own buckets are full.
    ///
    /// ```text
    ///  level 0      0           1          the key's own buckets
    ///  level 1   2 3 4 5     6 7 8 9       where the fingerprints in their four slots could go
    ///  level 2   10 11 …                   node i came from slot (i - 2) % 4 of node (i - 2) / 4
    /// ```
    ///
    /// A bucket that the way meets twice would have been left by a shorter way the first time, so
    /// the moves do not get into each other's way.
    fn shift<const F: u32, const NODES: usize>(&mut self, place: &Place) -> bool {
        let mut queue = [0u64; NODES];
        queue[..2].copy_from_slice(&place.buckets);
        for from in 0..(NODES - 2) / 4 {
            let next = self.others::<F>(queue[from]);
            self.fetch::<F>(&next);
            for (at, bucket) in next.into_iter().enumerate() {
                let node = from * 4 + 2 + at;
                queue[node] = bucket;
                let mark = self.free::<F>(bucket);
                if mark != NONE {
                    self.pull::<F>(place.print, &queue, node, mark);
                    return true;
                }
            }
        }
        false
    }

    /// Moves fingerprints along the way to `last`, which has a free slot, and puts `print` where
    /// the first of them was.
    fn pull<const F: u32>(&mut self, print: u64, queue: &[u64], last: usize, mark: u32) {
        let came = |node: usize| ((node - 2) / 4, (node - 2) % 4);
        let (mut node, mut slot) = came(last);
        self.fill::<F>(queue[last], mark, self.prints::<F>(queue[node])[slot]);
        while node >= 2 {
            let (from, at) = came(node);
            self.set::<F>(queue[node], slot as u64, self.prints::<F>(queue[from])[at]);
            (node, slot) = (from, at);
        }
        self.set::<F>(queue[node], slot as u64, print);
    }

    /// Empties a slot; the bucket's last fingerprint moves there, so that the free ones come last.
    fn clear<const F: u32>(&mut self, bucket: u64, slot: u64) {
        let prints = self.prints::<F>(bucket);
        let last = prints.iter().rposition(|print| *print != 0).unwrap_or(0);
        self.set::<F>(bucket, slot, prints[last]);
        self.set::<F>(bucket, last as u64, 0);
    }

    /// Keys in the stash go back to the table when a slot has become free.
    #[cold]
    fn unstash<const F: u32>(&mut self) {
        for index in (0..self.stashed).rev() {
            let [left, print] = self.stash.as_chunks().0[index];
            if self.put::<F>(&self.place_at(left, print)) {
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
    fn asked<const F: u32>(&self, key: Option<&Hash>) -> Place {
        let Some(key) = key else { return Place { print: 0, buckets: [0; 2] } };
        let place = self.place::<F>(*key);
        self.fetch::<F>(&place.buckets);
        place
    }

    #[inline(always)]
    fn first_places<const F: u32, const N: usize>(&self, keys: &[Hash]) -> [Place; N] {
        std::array::from_fn(|i| self.asked::<F>(keys.get(i)))
    }

    #[inline(always)]
    fn add<const F: u32>(&mut self, place: &Place) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full);
        }
        if !self.put::<F>(place) {
            self.stash(place)?;
        }
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn stash(&mut self, place: &Place) -> Result<(), Full> {
        if self.stashed == STASHED {
            return Err(Full);
        }
        let at = self.stashed * 2;
        self.stash.to_mut()[at..at + 2].copy_from_slice(&[place.buckets[0], place.print]);
        self.stashed += 1;
        Ok(())
    }

    #[inline(always)]
    fn add_key<const F: u32>(&mut self, key: Hash) -> Result<(), Full> {
        self.add::<F>(&self.place::<F>(key))
    }

    /// A key's buckets are asked for when twice `AHEAD` others are to be inserted before it; half
    /// way from there they have come, and if both are full, those are asked for that their
    /// fingerprints could go to.
    fn add_each<const F: u32>(&mut self, keys: &[Hash]) -> Result<(), Full> {
        let mut ring = self.first_places::<F, { 2 * AHEAD }>(keys);
        for i in 0..keys.len() {
            let later = self.asked::<F>(keys.get(i + ring.len()));
            let place = std::mem::replace(&mut ring[i % (2 * AHEAD)], later);
            if self.len > self.shape.buckets * CROWDED {
                self.fetch_others::<F>(&ring[(i + AHEAD) % (2 * AHEAD)]);
            }
            self.add::<F>(&place)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn fetch_others<const F: u32>(&self, place: &Place) {
        if place.buckets.iter().all(|bucket| self.free::<F>(*bucket) == NONE) {
            for bucket in place.buckets {
                self.fetch::<F>(&self.others::<F>(bucket));
            }
        }
    }

    fn drop_key<const F: u32>(&mut self, key: Hash) -> bool {
        let place = self.place::<F>(key);
        if self.len == 0 {
            return false;
        }
        let find = |bucket| {
            let slot = self.prints::<F>(bucket).iter().position(|print| *print == place.print)?;
            Some((bucket, slot as u64))
        };
        if let Some((bucket, slot)) = place.buckets.into_iter().find_map(find) {
            self.clear::<F>(bucket, slot);
            self.len -= 1;
            if self.stashed > 0 {
                self.unstash::<F>();
            }
            return true;
        }
        let Some(index) = self.in_stash(place.buckets[0], place.print) else { return false };
        self.drop_stashed(index);
        self.len -= 1;
        true
    }
}

/// Nodes of a search that deep.
const fn nodes(levels: u32) -> usize {
    2 * (4usize.pow(levels) - 1) / 3
}

impl Filter for Cuckoo {
    type Shape = CuckooShape;

    fn shape(&self) -> &CuckooShape {
        &self.shape
    }

    #[inline]
    fn contains(&self, key: Hash) -> bool {
        by_width!(self.look(key))
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_each(&self, keys: &[Hash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        by_width!(self.look_each(keys, &mut out[..keys.len()]));
    }
}

impl Build for Cuckoo {
    fn build_on(_threads: usize, shape: CuckooShape, keys: impl KeySource) -> Result<Self, Error> {
        build_by_inserting(Self::new(shape)?, keys)
    }
}

impl Insert for Cuckoo {
    #[inline]
    fn insert(&mut self, key: Hash) -> Result<(), Full> {
        by_width!(self.add_key(key))
    }

    fn insert_each(&mut self, keys: &[Hash]) -> Result<(), Full> {
        by_width!(self.add_each(keys))
    }
}

impl Remove for Cuckoo {
    /// Takes out a fingerprint of the key's class; keys of one class are equal, so it does not
    /// matter whose it was.
    fn remove(&mut self, key: Hash) -> bool {
        by_width!(self.drop_key(key))
    }
}

impl Persist for Cuckoo {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.buckets, self.shape.width.into(), self.shape.keys]);
        to.words(TABLE, &self.table);
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
        let table = from.words(TABLE, shape.words())?;
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
        let corrupt = |what| Err(format::Error::Corrupt { at: 0, what }.into());
        let slots = self.shape.buckets * SLOTS;
        if !set::ends_at(&self.table, slots * u64::from(self.shape.width)) {
            return corrupt("bits are set past the end");
        }
        let mut len = self.stashed as u64;
        for bucket in 0..self.shape.buckets {
            let prints = self.prints::<0>(bucket);
            if prints.is_sorted_by_key(|print| *print == 0) {
                len += prints.iter().filter(|print| **print != 0).count() as u64;
            } else {
                return corrupt("a bucket has a gap");
            }
        }
        if len != self.len {
            return corrupt("the table does not hold as many keys as the header says");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Hasher, Key};
    use bits::range::mix;
    use std::collections::HashMap;

    fn hashes(seed: u64, keys: std::ops::Range<u64>) -> Vec<Hash> {
        let hasher = Hasher::new(HashId::Fast, [seed, 8]);
        keys.map(|key| key.hash(&hasher)).collect()
    }

    #[test]
    fn the_other_of_the_other_is_the_first() {
        for buckets in (2..200).step_by(2).chain([1 << 20, (1 << 33) + 6, MAX_BUCKETS]) {
            // Only where buckets lie is asked for, so no table is made.
            let shape = CuckooShape { buckets, width: 32, keys: 0 };
            let filter = Cuckoo {
                shape,
                len: 0,
                table: Words::zeroed(0).unwrap(),
                stashed: 0,
                stash: Words::zeroed(0).unwrap(),
            };
            for step in 0..500 {
                let left = range::scale(mix(step), buckets / 2);
                let print = 1 + mix(step + 1000) % 0xffff_ffff;
                let [_, right] = filter.place_at(left, print).buckets;
                assert!((buckets / 2..buckets).contains(&right));
                assert_eq!([filter.other(left, print), filter.other(right, print)], [right, left]);
            }
        }
    }

    /// Copies, chains of moves, the stash and refusals in tables of a few buckets, against a
    /// multiset of classes.
    #[test]
    fn tiny_tables_agree_with_a_multiset() {
        for width in [4, 5, 8, 12, 15, 16, 17, 32] {
            for buckets in [2, 4, 6, 16, 30] {
                let shape = CuckooShape::new(buckets, width, buckets * SLOTS).unwrap();
                let mut filter = Cuckoo::new(shape).unwrap();
                let keys = hashes(u64::from(width) << 8 | buckets, 0..buckets * 5);
                let mut model = HashMap::<[u64; 2], u64>::new();
                let class = |filter: &Cuckoo, key: Hash| {
                    let place = filter.place::<0>(key);
                    [place.buckets[0], place.print]
                };
                let mut refused = 0;
                for step in 0..25_000 {
                    let key = keys[range::scale(mix(step), keys.len() as u64) as usize];
                    let count = model.entry(class(&filter, key)).or_default();
                    assert_eq!(filter.contains(key), *count > 0);
                    if mix(step ^ 0xaaaa_0000) % 16 < 9 {
                        let before = mix(step).is_multiple_of(16).then(|| filter.clone());
                        match filter.insert(key) {
                            Ok(()) => *count += 1,
                            Err(Full) => {
                                refused += 1;
                                assert!(before.is_none_or(|before| before == filter));
                            }
                        }
                    } else {
                        assert_eq!(filter.remove(key), *count > 0);
                        *count = count.saturating_sub(1);
                    }
                    if step % 64 == 0 {
                        filter.validate().unwrap();
                        assert!(keys.iter().all(|key| {
                            let count = model.get(&class(&filter, *key));
                            filter.contains(*key) == count.is_some_and(|count| *count > 0)
                        }));
                    }
                }
                assert!(refused > 0, "the table was never full");
                assert_eq!(filter.len(), model.values().sum::<u64>());
            }
        }
    }

    #[test]
    fn eight_copies_and_the_stash() {
        for width in [4, 12, 20] {
            let shape = CuckooShape::new(1000, width, 3000).unwrap();
            let mut filter = Cuckoo::build(shape, &hashes(1, 1..500)[..]).unwrap();
            let (len, key) = (filter.len(), hashes(1, 0..1)[0]);
            let copies = (0..1_000_000).take_while(|_| filter.insert(key).is_ok()).count();
            assert!((8..=12).contains(&copies) && filter.stashed() == STASHED, "{copies} copies");
            let before = filter.clone();
            assert_eq!(filter.insert(key), Err(Full));
            assert_eq!(filter, before);
            assert!((0..copies).all(|_| filter.remove(key)));
            filter.validate().unwrap();
            assert_eq!((filter.len(), filter.stashed()), (len, 0));
            assert!(hashes(1, 1..500).iter().all(|key| filter.contains(*key)));
        }
    }

    /// The planned size takes as many keys as it is planned for.
    #[test]
    fn planned_tables_do_not_fail() {
        for (keys, rounds) in [(1, 2000), (7, 2000), (30, 2000), (64, 2000), (300, 400), (3000, 40)]
        {
            for fpr in [0.5, 0.3, 0.05, 0.002] {
                let shape = CuckooShape::fit(keys, fpr).unwrap();
                for round in 0..rounds {
                    let keys = hashes(mix(keys << 20 | round), 0..keys);
                    Cuckoo::build(shape.clone(), &keys[..]).unwrap();
                }
            }
        }
    }

    #[test]
    fn the_rate_is_that_of_the_classes() {
        const STRANGERS: u64 = 2_000_000;
        for (buckets, width, keys) in [(2, 8, 7), (300, 5, 1000), (300, 8, 1100), (300, 17, 1100)] {
            let shape = CuckooShape::new(buckets, width, keys).unwrap();
            let (mut passed, mut expected) = (0, 0.0);
            for seed in 0..16 {
                let filter = Cuckoo::build(shape.clone(), &hashes(seed, 0..keys)[..]).unwrap();
                let strangers = hashes(seed, 1 << 40..(1 << 40) + STRANGERS / 16);
                passed += strangers.iter().filter(|key| filter.contains(**key)).count();
                expected += shape.fpr_at(keys) * STRANGERS as f64 / 16.0;
            }
            // Strangers of one filter meet the same few classes: a little wider than binomial.
            let off = (passed as f64 - expected).abs();
            assert!(off < 5.0 * expected.sqrt() + 0.02 * expected, "{passed}, not {expected}");
        }
    }

    #[test]
    fn the_promised_size() {
        let figures = CuckooShape::fit(10_000_000, 0.0019).unwrap().figures();
        assert!(figures.bits_per_key() < 12.6 && figures.fpr < 0.0019, "{figures:?}");
    }
}
