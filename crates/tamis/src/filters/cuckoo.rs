//! The cuckoo filter: each key's fingerprint lies in one of two buckets, and moves to the other
//! when a newcomer needs the place.
//!
//! ```text
//!  hash.hi ──► bucket i          │ f bits │ f bits │ f bits │ f bits │    4 slots, 0 = empty
//!  hash.lo ──► fingerprint p     ▲
//!                                │ either of the two
//!  odd(p) - i mod n ──► bucket j │ f bits │ f bits │ f bits │ f bits │
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | f / 0.95, and 8 · 0.95 · 2^-f is the rate: 9.5 at 1.5 %, 12.6 at 0.19 %, 16.8 at 0.012 % |
//! | cache lines | 2, member or stranger, both asked for at once |
//! | building | 2 lines a key; when nearly full a few more, to make room |
//! | failure | none in tens of millions of builds of the planned size; keys that are copies can fail |
//!
//! The other bucket is found from the bucket at hand and the fingerprint, so a fingerprint can be
//! moved without knowing its key. The number of buckets `n` is even and `odd(p)` is odd, so `j` is
//! never `i` and its other bucket is `i` again. Two keys are taken for each other if they share
//! the fingerprint and the pair of buckets: one of `(2^f - 1) n / 2` classes, all equally likely,
//! wherever the fingerprints have moved. That makes the rate exact: see [`CuckooShape::fpr_at`].
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

    /// One word more than the last bucket ends in: a bucket is read as two.
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
        let buckets = room.max(pairs * 2.0).clamp(2.0, MAX_BUCKETS as f64 * 2.0);
        (buckets as u64).next_multiple_of(2)
    }
}

const LOAD: f64 = 0.955;
const SPARE: f64 = 2.0;

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

/// Four lanes of `f` bits in a word, for widths up to 16: what is done to all of them at once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lanes {
    /// The lowest bit of each lane.
    ones: u64,
    /// The highest bit of each lane.
    tops: u64,
}

impl Lanes {
    const WIDEST: u32 = 16;

    fn new(width: u32) -> Self {
        let width = width.min(Self::WIDEST);
        let ones = (0..SLOTS as u32).fold(0, |ones, lane| ones | 1 << (lane * width));
        Self { ones, tops: ones << (width - 1) }
    }

    /// Whether a lane holds `value`. The lowest lane that turns zero shows in its top bit; borrows
    /// may show in lanes above it, and only there.
    #[inline(always)]
    fn has(self, lanes: u64, value: u64) -> u64 {
        let x = lanes ^ self.ones.wrapping_mul(value);
        x.wrapping_sub(self.ones) & !x & self.tops
    }

    /// The top bits of the lanes that are zero, exactly: no carry leaves a lane.
    #[inline(always)]
    fn zeros(self, lanes: u64) -> u64 {
        let below = self.tops.wrapping_sub(self.ones);
        !((lanes & below).wrapping_add(below) | lanes) & self.tops
    }
}

/// Where a key may be: its fingerprint and two buckets.
#[derive(Clone, Copy)]
struct Place {
    print: u64,
    buckets: [u64; 2],
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
    lanes: Lanes,
    len: u64,
    table: Words,
    /// Entries in use of the stash; they come first.
    stashed: usize,
    /// Pairs of the even one of a key's buckets and its fingerprint; zero if not in use.
    stash: Words,
}

/// The other bucket of a fingerprint in `bucket`.
#[inline(always)]
fn other(buckets: u64, bucket: u64, print: u64) -> u64 {
    let x = print.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let odd = range::scale(x, buckets / 2) * 2 + 1;
    if odd >= bucket { odd - bucket } else { odd + buckets - bucket }
}

impl Cuckoo {
    /// An empty filter.
    pub fn new(shape: CuckooShape) -> Result<Self, Error> {
        let table = Words::zeroed(usize_words(shape.words())?)?;
        let stash = Words::zeroed(STASH_WORDS)?;
        Ok(Self { lanes: Lanes::new(shape.width), shape, len: 0, table, stashed: 0, stash })
    }

    /// Keys that found no slot in the table: 0 unless it is nearly full or has many copies.
    pub fn stashed(&self) -> usize {
        self.stashed
    }

    #[inline(always)]
    fn place(&self, key: Hash) -> Place {
        let print = range::scale(key.lo, packed::mask(self.shape.width)) + 1;
        let bucket = range::scale(key.hi, self.shape.buckets);
        Place { print, buckets: [bucket, other(self.shape.buckets, bucket, print)] }
    }

    /// The bucket's lanes, with other bits above them.
    #[inline(always)]
    fn load(&self, bucket: u64) -> u64 {
        let bit = bucket * SLOTS * u64::from(self.shape.width);
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let pair = &self.table[word..word + 2];
        pair[0] >> shift | pair[1] << 1 << (63 - shift)
    }

    #[inline(always)]
    fn slot(&self, bucket: u64, slot: u64) -> u64 {
        packed::get(&self.table, self.shape.width, bucket * SLOTS + slot)
    }

    #[inline(always)]
    fn set(&mut self, bucket: u64, slot: u64, print: u64) {
        packed::set(self.table.to_mut(), self.shape.width, bucket * SLOTS + slot, print);
    }

    #[inline(always)]
    fn in_table(&self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        if self.shape.width <= Lanes::WIDEST {
            let (a, b) = (self.load(a), self.load(b));
            self.lanes.has(a, place.print) | self.lanes.has(b, place.print) != 0
        } else {
            (0..SLOTS).any(|i| self.slot(a, i) == place.print)
                || (0..SLOTS).any(|i| self.slot(b, i) == place.print)
        }
    }

    #[inline(always)]
    fn is_in(&self, place: &Place) -> bool {
        self.in_table(place) || self.stashed > 0 && self.in_stash(place).is_some()
    }

    #[cold]
    fn in_stash(&self, place: &Place) -> Option<usize> {
        let (entries, _) = self.stash.as_chunks();
        let wanted = stash_entry(place);
        entries[..self.stashed].iter().position(|entry| *entry == wanted)
    }

    /// A slot of `bucket` that holds `print`.
    fn find(&self, bucket: u64, print: u64) -> Option<u64> {
        (0..SLOTS).find(|slot| self.slot(bucket, *slot) == print)
    }

    /// How many slots of `bucket` are free, and the first of them.
    #[inline(always)]
    fn free(&self, bucket: u64) -> (u32, u64) {
        if self.shape.width <= Lanes::WIDEST {
            let zeros = self.lanes.zeros(self.load(bucket));
            (zeros.count_ones(), u64::from(zeros.trailing_zeros() / self.shape.width))
        } else {
            let free = (0..SLOTS).filter(|slot| self.slot(bucket, *slot) == 0);
            (free.clone().count() as u32, free.min().unwrap_or(SLOTS))
        }
    }

    #[inline(always)]
    fn fetch(&self, place: &Place) {
        for bucket in place.buckets {
            prefetch(&self.table, (bucket * SLOTS * u64::from(self.shape.width) / 64) as usize);
        }
    }

    /// Puts a fingerprint into the emptier of its buckets, or makes room in one of them.
    #[inline(always)]
    fn put(&mut self, place: &Place) -> bool {
        let [(free_a, slot_a), (free_b, slot_b)] = place.buckets.map(|bucket| self.free(bucket));
        if free_a == 0 && free_b == 0 {
            return self.make_room(place);
        }
        let [a, b] = place.buckets;
        let (bucket, slot) = if free_a >= free_b { (a, slot_a) } else { (b, slot_b) };
        self.set(bucket, slot, place.print);
        true
    }

    /// First among the nearest 40 buckets, which mostly is enough, then among some thousands.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, place: &Place) -> bool {
        self.shift::<{ nodes(3) }>(place) || self.shift::<{ nodes(6) }>(place)
    }

    /// Looks for the nearest bucket with a free slot, breadth first, and moves fingerprints along
    /// the way there, from its end back.
    ///
    /// ```text
    ///  level 0      0           1          the key's own buckets
    ///  level 1   2 3 4 5     6 7 8 9       where the fingerprints in their four slots could go
    ///  level 2   10 11 …                   node i came from slot (i - 2) % 4 of node (i - 2) / 4
    /// ```
    ///
    /// A bucket that the way meets twice would have been left by a shorter way the first time, so
    /// the moves do not get into each other's way.
    fn shift<const NODES: usize>(&mut self, place: &Place) -> bool {
        let mut queue = [0u64; NODES];
        queue[..2].copy_from_slice(&place.buckets);
        let mut end = 2;
        for node in 0..NODES {
            let (free, slot) = self.free(queue[node]);
            if free > 0 {
                self.pull(place.print, &queue, node, slot);
                return true;
            }
            if end < NODES {
                for slot in 0..SLOTS {
                    let print = self.slot(queue[node], slot);
                    let bucket = other(self.shape.buckets, queue[node], print);
                    queue[end] = bucket;
                    end += 1;
                }
                self.fetch(&Place { print: 0, buckets: [queue[end - 4], queue[end - 3]] });
                self.fetch(&Place { print: 0, buckets: [queue[end - 2], queue[end - 1]] });
            }
        }
        false
    }

    fn pull(&mut self, print: u64, queue: &[u64], mut node: usize, mut slot: u64) {
        while node >= 2 {
            let (from, at) = ((node - 2) / 4, (node as u64 - 2) % 4);
            self.set(queue[node], slot, self.slot(queue[from], at));
            (node, slot) = (from, at);
        }
        self.set(queue[node], slot, print);
    }

    /// Keys in the stash go back to the table when a slot has become free.
    #[cold]
    fn unstash(&mut self) {
        for index in (0..self.stashed).rev() {
            let [bucket, print] = self.stash.as_chunks().0[index];
            let place =
                Place { print, buckets: [bucket, other(self.shape.buckets, bucket, print)] };
            if self.put(&place) {
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
}

/// Nodes of a search that deep.
const fn nodes(levels: u32) -> usize {
    2 * (4usize.pow(levels) - 1) / 3
}

/// What stands for a key in the stash: of its buckets, one is even.
fn stash_entry(place: &Place) -> [u64; 2] {
    let [a, b] = place.buckets;
    [if a % 2 == 0 { a } else { b }, place.print]
}

impl Filter for Cuckoo {
    type Shape = CuckooShape;

    fn shape(&self) -> &CuckooShape {
        &self.shape
    }

    #[inline]
    fn contains(&self, key: Hash) -> bool {
        self.is_in(&self.place(key))
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_each(&self, keys: &[Hash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let places = self.places(keys);
            for (place, out) in places.iter().zip(&mut out[..keys.len()]) {
                *out = self.is_in(place);
            }
        }
    }
}

/// Keys of a batch whose memory is asked for at once.
const LANES: usize = 16;

impl Cuckoo {
    #[inline(always)]
    fn places(&self, keys: &[Hash]) -> [Place; LANES] {
        let mut places = [Place { print: 0, buckets: [0; 2] }; LANES];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = self.place(*key);
            self.fetch(place);
        }
        places
    }

    #[inline(always)]
    fn insert_at(&mut self, place: &Place) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full);
        }
        if !self.put(place) {
            if self.stashed == STASHED {
                return Err(Full);
            }
            let at = self.stashed * 2;
            self.stash.to_mut()[at..at + 2].copy_from_slice(&stash_entry(place));
            self.stashed += 1;
        }
        self.len += 1;
        Ok(())
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
        self.insert_at(&self.place(key))
    }

    fn insert_each(&mut self, keys: &[Hash]) -> Result<(), Full> {
        for keys in keys.chunks(LANES) {
            let places = self.places(keys);
            places[..keys.len()].iter().try_for_each(|place| self.insert_at(place))?;
        }
        Ok(())
    }
}

impl Remove for Cuckoo {
    /// Takes out a fingerprint of the key's class; keys of one class are equal, so it does not
    /// matter whose it was.
    fn remove(&mut self, key: Hash) -> bool {
        let place = self.place(key);
        let [a, b] = place.buckets;
        let slot = |bucket| self.find(bucket, place.print).map(|slot| (bucket, slot));
        if self.len == 0 {
            return false;
        }
        if let Some((bucket, slot)) = slot(a).or_else(|| slot(b)) {
            self.set(bucket, slot, 0);
            self.len -= 1;
            if self.stashed > 0 {
                self.unstash();
            }
            return true;
        }
        let Some(index) = self.in_stash(&place) else { return false };
        self.drop_stashed(index);
        self.len -= 1;
        true
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
        let sound = |[bucket, print]: &[u64; 2]| {
            *bucket < buckets && bucket % 2 == 0 && *print <= packed::mask(shape.width)
        };
        if !entries[..stashed].iter().all(sound) || entries[stashed..].iter().any(|e| *e != [0; 2])
        {
            return Err(from.corrupt("the stash holds what is no key").into());
        }
        Ok(Self { lanes: Lanes::new(shape.width), shape, len, table, stashed, stash })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(format::Error::Corrupt { at: 0, what }.into());
        let slots = self.shape.buckets * SLOTS;
        if !set::ends_at(&self.table, slots * u64::from(self.shape.width)) {
            return corrupt("bits are set past the end");
        }
        let free: u64 = (0..self.shape.buckets).map(|b| u64::from(self.free(b).0)).sum();
        if slots - free + self.stashed as u64 != self.len {
            return corrupt("the table does not hold as many keys as the header says");
        }
        Ok(())
    }
}
