//! The growing filter: for a set whose size nobody knows, kept without its keys as it grows.
//!
//! ```text
//!  key ──► a fraction, bit by bit:  | which segment | bucket in it | fingerprint, stored |
//!                                     d bits          10 bits        r(d) bits; of keys that came
//!                                                                    1, 2, 3 … splits ago fewer
//!  segments │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │      one for every 512 keys; 4 was split from 0, 5 from 1
//!             │       └ the next to be split, into 2 and 6
//!             └─► | packed entries |       `segment.rs`
//! ```
//!
//! When there are more than 512 keys for each segment, the next one in turn is split: that takes a bit
//! from each bucket's number, which takes one from each fingerprint in turn, so the keys are not needed.
//! A round of splits doubles the segments; then the next begins. Old fingerprints get shorter, new ones
//! are made longer from round to round. One of which nothing is left is *void*: it stands for everything
//! in its bucket, and in a split it goes to both buckets that it may belong to.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | r + 6 to 7: at 1 % 16.3 to 17.8 from 10^3 keys to 10^8; 13.8 at 10^8 if that was named |
//! | cache lines | 1 or 2, and 1 or 2 of the list of segments, which is a tenth of the memory |
//! | building | as inserting: moves half of a segment of a dozen lines; every 512th splits one |
//!
//! **No member is denied.** Every key that is in has an entry of its own, in the bucket that its bits
//! lead to, which begins as the rest of its bits do. Inserting makes one. A split takes a key and its
//! entry to the same bucket, since both go by the same bit; where the entry has no bit left, it goes to
//! both. Removing `x` takes the longest entry that stands for it. If that is another key's, `y`'s, then
//! `x`'s own is no longer, so it is a beginning of `y`'s, and it is `y`'s from now on.
//!
//! **The rate** is the same however large it gets. A stranger passes if it agrees with a key of its
//! segment in bucket and fingerprint. In round `d` a segment takes 256 to 512 new keys, 384 on average, in 1024
//! buckets: so the keys of a round let in 0.375 / 2^r(d) of all strangers, then and ever after, for what a
//! fingerprint loses its bucket has gained. r(d) is the shortest with which the sum over all rounds so far
//! is at most d / (d + 16) of the rate: it never gets to all of it. That makes r(d) about
//! log2(1 / fpr) + 2 log2(d + 16) - 5.4. The log log n bits in it no such filter can do without: that is the
//! theorem. With a largest size named, fingerprints are long at first and shortest there, where memory counts.
//! `shape.rs` has the exact rate.
//!
//! **Void entries** of a round come to less than that round's share of the rate: so many buckets have
//! one, of all that there are. When a key of which nothing is left is removed, its entries in other
//! buckets stay, within that share. Of entries that are equal 64 are enough, and of void ones 3: they stay
//! for good then, and stand for any number of keys. So a key can be in as often as one likes.
//!
//! **No operation does more work as it grows.** A split reads and writes a segment of up to 1024 keys and
//! what chance adds, and no list is ever moved. Memory follows the number of keys line by line: there is no
//! time at which it doubles.
//!
//! It says [`Full`] when its 64 bits are used up: at 0.1 % past 2^48 keys, at 10^-8 past 10^9. Removing a
//! stranger that it takes for a member removes that member. It does not shrink below the segments that it has.
//!
//! Pagh, Segev, Wieder, *How to Approximate a Set Without Knowing Its Size in Advance*, 2013, for the
//! problem and the bound; Dayan, Bercea, Reviriego, Pagh, *InfiniFilter*, 2023, and Dayan, Bercea, Pagh,
//! *Aleph Filter*, 2024, for fingerprints that end themselves, and for void entries in all their buckets.
//! Differences: those double a table at once, for which all of it is gone over, in memory for both; here it
//! is split in parts, as in linear hashing (Litwin, 1980). Entries are packed without gaps, in place of a
//! quotient filter's empty slots. Lengths follow from what is left of the rate, rather than from a series.
//! Void entries of removed keys stay, where Aleph has a second table to find them by.

mod segment;
mod shape;

use tamis_bits::packed;
use tamis_bits::select::{Bits, Task, run};
use tamis_format::{Name, Reader, Writer};

use self::segment::{BUCKET_BITS, Ends, GROUPS, Layout, MOST, Segment, VOIDS};
use self::shape::KEYS;
use super::common::build_by_inserting;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::shape::Shape;
use crate::source::KeySource;
use crate::traits::{Build, Filter, Grow, Insert, Persist, Remove};

pub use self::shape::GrowingShape;

const ENDS: Name = Name::new("ends");
const TABLE: Name = Name::new("table");
/// Keys of a batch that are on their way while as many before them are worked on.
const LANES: usize = 8;
/// Words that say where a segment's groups end.
const ENDS_WORDS: usize = GROUPS / 4;

/// A filter for a set whose size is not known.
///
/// ```
/// use tamis::{Growing, Keyed};
///
/// let mut seen = Keyed::<Growing>::with_capacity(1000, 0.01)?;
/// for key in 0..100_000u64 {
///     seen.insert(&key)?;
/// }
/// assert!(seen.contains(&99_999u64));
/// assert!(seen.remove(&5u64));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Growing {
    shape: GrowingShape,
    len: u64,
    segments: u64,
    /// How often each segment was split, and how many, the first, once more.
    depth: u32,
    split: u64,
    /// The first size's segments, then as many, then twice as many: none ever moves.
    levels: Vec<Vec<Segment>>,
}

/// Where a key belongs.
#[derive(Clone, Copy)]
struct Place {
    level: u32,
    at: u64,
    depth: u32,
    bucket: u64,
    /// What its fingerprint begins with.
    bits: u64,
}

impl Growing {
    /// The memory of the lists of segments.
    fn places_bytes(&self) -> u64 {
        let places: u64 = self.levels.iter().map(|level| level.capacity() as u64).sum();
        places * size_of::<Segment>() as u64
    }

    /// An empty filter.
    pub fn new(shape: GrowingShape) -> Result<Self, Error> {
        let base = shape.base();
        let memory = Error::Memory { bytes: base.saturating_mul(size_of::<Segment>() as u64) };
        let mut first = Vec::new();
        match usize::try_from(base).map(|base| first.try_reserve_exact(base)) {
            Ok(Ok(())) => {}
            _ => return Err(memory),
        }
        for _ in 0..base {
            first.push(Segment::empty()?);
        }
        Ok(Self { shape, len: 0, segments: base, depth: 0, split: 0, levels: vec![first] })
    }

    /// Segments in the order of their numbers, each with how often it was split.
    fn in_order(&self) -> impl Iterator<Item = (u32, &Segment)> {
        let depths = (0..self.segments).map(|index| self.depth_of(index));
        depths.zip(self.levels.iter().flatten())
    }

    fn depth_of(&self, index: u64) -> u32 {
        let once_more = index < self.split || index >= self.shape.base() << self.depth;
        self.depth + u32::from(once_more)
    }

    /// The hash as a fraction of all hashes, times the first size's segments: which of those it
    /// belongs to, and a fraction again, whose bits say how to go on, the highest first.
    ///
    /// Segment `i` of depth `d` becomes `i` and `i + base · 2^d`, so the first bit that was used is
    /// the lowest of a number.
    #[inline(always)]
    fn place(&self, key: KeyHash) -> Place {
        let base = self.shape.base();
        let product = u128::from(key.hi) * u128::from(base)
            + u128::from(tamis_bits::range::scale(key.lo, base));
        let (first, fraction) = ((product >> 64) as u64, product as u64);
        let path = fraction.reverse_bits();
        let index = first + base * (path & packed::mask(self.depth));
        let depth = self.depth + u32::from(index < self.split);
        let path = path & packed::mask(depth);
        let level = 64 - path.leading_zeros();
        let rest = fraction << depth;
        Place {
            level,
            at: first + base * (path ^ 1 << level >> 1),
            depth,
            bucket: rest >> (64 - BUCKET_BITS),
            bits: rest << BUCKET_BITS,
        }
    }

    #[inline(always)]
    fn segment(&self, place: &Place) -> &Segment {
        &self.levels[place.level as usize][place.at as usize]
    }

    #[inline(always)]
    fn layout(&self, depth: u32) -> Layout {
        self.shape.generation(depth).layout
    }

    /// Where keys belong, whose lines in the list of segments are asked for.
    #[inline(always)]
    fn places<const N: usize>(&self, keys: &[KeyHash]) -> [Place; N] {
        let mut places = [Place { level: 0, at: 0, depth: 0, bucket: 0, bits: 0 }; N];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = self.place(*key);
            self.fetch_segment(place);
        }
        places
    }

    /// Asks for a place's line in the list of segments.
    #[inline(always)]
    fn fetch_segment(&self, place: &Place) {
        tamis_bits::prefetch(&self.levels[place.level as usize], place.at as usize);
    }

    /// Asks for the groups of these places.
    #[inline(always)]
    fn fetch(&self, places: &[Place]) {
        for place in places {
            self.segment(place).fetch(self.layout(place.depth), place.bucket);
        }
    }

    #[inline(always)]
    fn has(&self, bits: impl Bits, place: &Place) -> bool {
        let layout = self.layout(place.depth);
        self.segment(place).contains(bits, layout, place.bucket, layout.query(place.bits))
    }

    #[inline(always)]
    fn put(&mut self, bits: impl Bits, key: KeyHash) -> Result<(), Full> {
        if self.len >= KEYS * self.segments {
            let place = self.place(key);
            let layout = self.layout(place.depth);
            if self.segment(&place).is_full(bits, layout, place.bucket) {
                return Err(Full::NONE);
            }
            self.grow()?;
        }
        let place = self.place(key);
        let generation = *self.shape.generation(place.depth);
        let entry = generation.layout.entry(place.bits, generation.length);
        let segment = &mut self.levels[place.level as usize][place.at as usize];
        segment.insert(bits, generation.layout, place.bucket, entry)?;
        self.len += 1;
        Ok(())
    }

    /// Splits the next segment. On `Full` nothing is changed.
    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        let (base, depth, index) = (self.shape.base(), self.depth, self.split);
        if self.segments >= self.shape.most_segments() {
            return Err(Full::NONE);
        }
        let path = index / base;
        let level = 64 - path.leading_zeros();
        let at = (index - (base << level >> 1) * u64::from(level > 0)) as usize;
        let [low, high] = self.halves(&self.levels[level as usize][at], depth).ok_or(Full::NONE)?;
        let last = depth as usize + 1;
        if self.levels.len() == last {
            self.levels.push(Vec::new());
        }
        let twins = &mut self.levels[last];
        if twins.len() == twins.capacity() {
            // All of the level at once: it is touched as it fills, and never moves.
            let room =
                usize::try_from((base << depth) - twins.len() as u64).map_err(|_| Full::NONE)?;
            twins.try_reserve_exact(room).map_err(|_| Full::NONE)?;
        }
        twins.push(high);
        self.levels[level as usize][at] = low;
        self.segments += 1;
        (self.depth, self.split) = self.shape.round(self.segments);
        Ok(())
    }

    /// A segment in two: each bucket's number loses its first bit, which says where to, and takes
    /// the first of the fingerprint. An entry of which nothing is left goes to both buckets that
    /// it might belong to.
    fn halves(&self, segment: &Segment, depth: u32) -> Option<[Segment; 2]> {
        let (old, new) = (self.layout(depth), self.layout(depth + 1));
        let entries = segment.entries(old);
        let middle = entries.partition_point(|(bucket, _)| bucket >> (BUCKET_BITS - 1) == 0);
        let (low, high) = entries.split_at(middle);
        let mut made = [low, high].map(|half| {
            let mut entries = Vec::with_capacity(half.len() + half.len() / 8);
            for run in half.chunk_by(|a, b| a.0 == b.0) {
                let bucket = run[0].0 << 1 & packed::mask(BUCKET_BITS) as u32;
                for bit in 0..2 {
                    let mut voids = 0;
                    entries.extend(run.iter().filter_map(|(_, entry)| {
                        let entry = match *entry {
                            void if void == old.void() => {
                                voids += 1;
                                (voids <= VOIDS).then_some(new.void())?
                            }
                            entry if entry >> (old.width - 1) == u64::from(bit) => {
                                // As far to the left as a new one begins: what falls off is zero.
                                let rest = entry << (65 - old.width);
                                rest >> (64 - new.width)
                            }
                            _ => return None,
                        };
                        Some((bucket | bit, entry))
                    }));
                }
            }
            (entries.len() as u64 <= u64::from(MOST)).then(|| Segment::with(new, &entries).ok())?
        });
        Some([made[0].take()?, made[1].take()?])
    }
}

struct Contains<'a>(&'a Growing, KeyHash);

impl Task for Contains<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let place = self.0.place(self.1);
        self.0.fetch(&[place]);
        self.0.has(bits, &place)
    }
}

struct ContainsEach<'a>(&'a Growing, &'a [KeyHash], &'a mut [bool]);

impl Task for ContainsEach<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, keys, out) = self;
        // As a key is answered, one some places after it has its groups asked for, and one as far after
        // that its line in the list. One by one: of many at once the machine drops some.
        let mut places = filter.places::<{ 2 * LANES }>(keys);
        filter.fetch(&places[..keys.len().min(LANES)]);
        for (at, out) in out[..keys.len()].iter_mut().enumerate() {
            let now = places[at % (2 * LANES)];
            if at + LANES < keys.len() {
                let next = places[(at + LANES) % (2 * LANES)];
                filter.fetch(&[next]);
            }
            if let Some(key) = keys.get(at + 2 * LANES) {
                let later = filter.place(*key);
                filter.fetch_segment(&later);
                places[at % (2 * LANES)] = later;
            }
            *out = filter.has(bits, &now);
        }
    }
}

struct InsertEach<'a>(&'a mut Growing, &'a [KeyHash]);

impl Task for InsertEach<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        let Self(filter, keys) = self;
        for (chunk, keys) in keys.chunks(LANES).enumerate() {
            if keys.len() > 1 {
                let places = filter.places::<LANES>(keys);
                filter.fetch(&places[..keys.len()]);
            }
            for (index, key) in keys.iter().enumerate() {
                filter.put(bits, *key).map_err(|full| full.after(chunk * LANES + index))?;
            }
        }
        Ok(())
    }
}

struct RemoveOne<'a>(&'a mut Growing, KeyHash);

impl Task for RemoveOne<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let Self(filter, key) = self;
        let place = filter.place(key);
        let layout = filter.layout(place.depth);
        let segment = &mut filter.levels[place.level as usize][place.at as usize];
        let removed =
            filter.len > 0 && segment.remove(bits, layout, place.bucket, layout.query(place.bits));
        filter.len -= u64::from(removed);
        removed
    }
}

impl Filter for Growing {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        run(Contains(self, key))
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        run(ContainsEach(self, keys, out));
    }
}

impl Build for Growing {
    type Shape = GrowingShape;

    fn shape(&self) -> &GrowingShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<GrowingShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for Growing {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        run(InsertEach(self, &[key]))
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        run(InsertEach(self, keys))
    }
}

impl Remove for Growing {
    fn remove(&mut self, key: KeyHash) -> bool {
        run(RemoveOne(self, key))
    }
}

impl Grow for Growing {}

impl Persist for Growing {
    /// Counts the segments' words and the places of the segments themselves.
    fn bytes(&self) -> u64 {
        let words: u64 = self.in_order().map(|(_, segment)| segment.words().len() as u64).sum();
        words * 8 + self.places_bytes()
    }

    fn heap_bytes(&self) -> u64 {
        let words: u64 = self.in_order().map(|(_, segment)| segment.words().heap_bytes()).sum();
        words + self.places_bytes()
    }

    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let most = self.shape.most().unwrap_or(0);
        to.shape(&[self.shape.keys(), self.shape.fpr().to_bits(), most, self.segments]);
        let mut ends = vec![0; self.segments as usize * ENDS_WORDS];
        for ((_, segment), words) in self.in_order().zip(ends.chunks_mut(ENDS_WORDS)) {
            for (group, end) in (0..).zip(segment.ends()) {
                packed::set(words, 16, group, (*end).into());
            }
        }
        to.pieces(ENDS, [ends.into()]);
        to.pieces(TABLE, self.in_order().map(|(_, segment)| segment.words().into()));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(0..=MAX_KEYS, "keys of its first size")?;
        let fpr = f64::from_bits(fields.next(0..=f64::MAX.to_bits(), "false positive rate")?);
        let most = fields.next(0..=MAX_KEYS, "keys of its largest size")?;
        let corrupt = |what| tamis_format::Error::corrupt(what);
        let shape = GrowingShape::new(keys, fpr, Some(most).filter(|most| *most > 0))
            .map_err(|_| corrupt("no such shape"))?;
        let segments = fields.next(shape.base()..=shape.most_segments(), "number of segments")?;
        fields.finish()?;
        // At most 2^39 segments: no overflow.
        let packed = from.words(ENDS, segments * ENDS_WORDS as u64)?;
        let (depth, split) = shape.round(segments);
        let mut filter = Self { shape, len, segments, depth, split, levels: Vec::new() };
        let (mut ends, mut words) = (Vec::new(), 0);
        for (index, packed) in (0..).zip(packed.chunks(ENDS_WORDS)) {
            let of: Ends =
                std::array::from_fn(|group| packed::get(packed, 16, group as u64) as u16);
            words += filter.layout(filter.depth_of(index)).words(of[GROUPS - 1].into());
            ends.push(of);
        }
        if len > MAX_KEYS || !ends.iter().all(|of| of.is_sorted()) {
            return Err(corrupt("keys or ends of groups that cannot be").into());
        }
        let table = from.words(TABLE, words)?;
        let (mut at, mut end) = (0, filter.shape.base());
        for (index, of) in (0..).zip(ends) {
            if index == end || index == 0 {
                end = if index == 0 { end } else { end * 2 };
                let len = end.min(segments) - index;
                filter.levels.push(Vec::with_capacity(len as usize));
            }
            let layout = filter.layout(filter.depth_of(index));
            let words = layout.words(of[GROUPS - 1].into()) as usize;
            let segment = Segment::of(table.part(at, words)?, of);
            filter.levels.last_mut().expect("there is a level").push(segment);
            at += words;
        }
        Ok(filter)
    }

    fn validate(&self) -> Result<(), Error> {
        self.in_order()
            .try_for_each(|(depth, segment)| segment.validate(self.layout(depth)))
            .map_err(|what| tamis_format::Error::corrupt(what).into())
    }
}

#[cfg(test)]
mod tests;
