//! The growing filter: for a set of unknown size; it grows without access to its keys.
//!
//! ```text
//!  key ──► a fraction, bit by bit:  | which segment | bucket in it | fingerprint, stored |
//!                                     d bits          10 bits        r(d) bits; fewer for keys
//!                                                                    of 1, 2, 3 … splits ago
//!  segments │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │      one for every 512 keys; 4 was split from 0, 5 from 1
//!             │       └ the next to be split, into 2 and 6
//!             └─► | packed entries |       `segment.rs`
//! ```
//!
//! When there are more than 512 keys per segment, the next segment in turn is split. That takes a
//! bit from each bucket's number, which takes one from each fingerprint in turn, so the keys are
//! not needed. A round of splits doubles the number of segments; then the next round begins. Old
//! fingerprints get shorter, and new ones get longer from round to round. A fingerprint without
//! bits is *void*: it matches every key of its bucket, and a split copies it to both buckets that
//! it may belong to.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | r + 5 to 6; at all sizes from 10^3 keys to 10^8 below log2(1/fpr) + 2 log2 log2 n + 3.5 for rates up to 5 %; at 1 % 15.0 to 18.9, or with `most` = 10^8 13.8 there |
//! | cache lines | 1 or 2, and 1 or 2 of the list of segments, which is 6 % of the memory |
//! | building | by insertions: each moves half of a segment of about 12 lines; every 512th splits one |
//!
//! **No false negatives.** Every key has its own entry, in the bucket that its bits lead to, which
//! is a prefix of its other bits. Inserting creates one. A split moves a key and its entry to the
//! same bucket, since both are moved by the same bit; an entry without bits is copied to both.
//! Removing `x` deletes the longest entry that matches it. If that entry belongs to another key
//! `y`, the entry of `x` is not longer, so it is a prefix of the entry of `y`, and serves `y` from
//! now on.
//!
//! **The rate** does not depend on the size. A non-member is a false positive if it agrees with a
//! key of its segment in bucket and fingerprint. In round `d` a segment gets 256 to 512 new keys,
//! 384 on average, in 1024 buckets. So the keys of a round cause a rate of 0.375 / 2^r(d), in that
//! round and all later ones, since a bit that a fingerprint loses is added to its bucket. The first
//! round gets 39 % of the rate: r(0) is the smallest length that spends no more, and in some buckets
//! it is shorter by 1 bit, as many as the 39 % allow. Later, r(d) is the smallest length for which
//! the sum over all rounds so far is at most 0.39 + 0.61 d / (d + 3.2) of the rate, so the sum never
//! reaches the rate. That makes r(d) about log2(1 / fpr) + 2 log2(d + 3) - 2.4. The log log n bits
//! in it are a lower bound for such filters, by the theorem of the paper. So the rate is between a
//! quarter of the requested one and the whole at every size from the initial one on. With a largest
//! size given, most of the rate is spent there, where memory counts, and other sizes take more bits.
//! `shape.rs` computes the exact rate.
//!
//! **Void entries** of a round are in a fraction of the buckets that is below the round's part of
//! the rate. When a key with a void entry is removed, its copies in other buckets stay, within that
//! part. Of equal entries 64 are kept, and of void ones 3: from then on they are permanent, and
//! represent any number of keys. So a key can be inserted any number of times.
//!
//! **No operation takes more work in a larger filter.** A split reads and writes a segment of up to
//! 1024 keys plus a random excess, and of the list of segments at most 64 are moved (`list.rs`), with
//! one exception: the addresses of their chunks, 24 bytes for 32,768 keys, move when they double.
//! Memory follows the number of keys cache line by cache line: it never doubles at once.
//!
//! It returns [`Full`] when the 64 bits of a hash are used up: at 0.1 % beyond 2^48 keys, at 10^-8
//! beyond 10^9. Removing a false positive removes the member that it matches. The number of
//! segments never decreases.
//!
//! Pagh, Segev, Wieder, *How to Approximate a Set Without Knowing Its Size in Advance*, 2013, for
//! the problem and the bound; Dayan, Bercea, Reviriego, Pagh, *InfiniFilter*, 2023, and Dayan,
//! Bercea, Pagh, *Aleph Filter*, 2024, for self-delimiting fingerprints and for void entries in all
//! their buckets. Differences: those double a table at once, which reads all of it and needs memory
//! for both; here it is split in parts, as in linear hashing (Litwin, 1980). Entries are packed
//! without gaps, instead of a quotient filter with empty slots. Lengths follow from the remaining
//! rate, not from a series. Void entries of removed keys stay, where Aleph has a second table to
//! find them.

mod list;
mod segment;
mod shape;

use alloc::vec;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::slice::from_ref;

use tamis_bits::select::{Bits, Task, TaskOn, run, run_on};
use tamis_bits::{packed, prefetch};
use tamis_format::{Name, Reader, Writer};

use self::list::List;
use self::segment::{
    BUCKET_BITS, Ends, GROUPS, Group, Layout, MAX_COPIES, MAX_ENTRIES, MAX_VOIDS, Segment,
};
use self::shape::{SEGMENT_KEYS, Schedule};
use super::common::build_by_inserting;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::shape::Shape;
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Grow, Insert, Persist, Remove};

pub use self::shape::GrowingShape;

const ENDS: Name = Name::new("ends");
const TABLE: Name = Name::new("table");
/// Number of keys that are prefetched while the same number before them is processed.
const LANES: usize = 8;
/// What the last field of a shape with [`Schedule::Second`] is.
const SCHEDULE: u64 = 2;
/// Number of words for the ends of a segment's groups.
const ENDS_WORDS: usize = GROUPS / 4;

/// A filter for a set whose size is not known.
///
/// # Examples
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
    round: Round,
    list: List,
}

/// The state of the splits, and what lookups take from the shape, side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    base: u64,
    /// How often each segment was split, and how many, from the first on, once more.
    depth: u32,
    split: u64,
    /// A mask of `depth` bits.
    mask: u64,
    /// The layouts of the former and of the latter.
    layouts: [Layout; 2],
}

impl Round {
    /// Returns the round of a filter with so many segments.
    fn new(shape: &GrowingShape, segments: u64) -> Self {
        let (depth, split) = shape.round(segments);
        // In the last round, whose segments are never split, there is no later layout.
        let layouts = [0, u32::from(split > 0)].map(|more| shape.generation(depth + more).layout);
        Self { base: shape.base(), depth, split, mask: packed::mask(depth), layouts }
    }

    /// Returns the place of a key. The hash, as a fraction of all hashes, times the number of
    /// initial segments gives the initial segment, and a fraction again, whose bits are used from
    /// the highest on.
    ///
    /// Segment `i` of depth `d` is split into `i` and `i + base · 2^d`, so the bit that is used
    /// first is the lowest of the segment's number.
    #[inline(always)]
    fn place(&self, key: KeyHash) -> Place {
        let Self { base, mask, depth, split, .. } = *self;
        let product = u128::from(key.hi) * u128::from(base)
            + u128::from(tamis_bits::range::scale(key.lo, base));
        let (first, fraction) = ((product >> 64) as u64, product as u64);
        let index = first + base * (path(fraction, depth) & mask);
        let rest = fraction << depth;
        // A branch would be unpredictable. The other index is computed while the bits are reversed.
        let other = (base << depth) & (rest >> 63).wrapping_neg();
        let more = u64::from(index < split);
        let index = if index < split { index + other } else { index };
        Place { index, more: more as usize, rest: rest << more }
    }
}

/// Each byte with its bits in reverse.
static REVERSED: [u8; 256] = {
    let mut reversed = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        reversed[byte] = (byte as u8).reverse_bits();
        byte += 1;
    }
    reversed
};

/// Returns a number whose lowest bits are the highest `depth` bits of a fraction, in reverse.
///
/// Up to 2^16 times the initial segments, two bytes are looked up. That takes 12 instructions fewer than
/// to reverse 64 bits, for which x86 has no instruction.
#[inline(always)]
fn path(fraction: u64, depth: u32) -> u64 {
    if depth > 16 {
        return fraction.reverse_bits();
    }
    let [high, low, ..] = fraction.to_be_bytes().map(|byte| REVERSED[usize::from(byte)]);
    u64::from(high) | u64::from(low) << 8
}

/// The place of a key.
#[derive(Clone, Copy)]
struct Place {
    /// The number of its segment.
    index: u64,
    /// 1 if the segment was split once more than others.
    more: usize,
    /// The bits of the key that follow those of the number: bucket and fingerprint.
    rest: u64,
}

impl Place {
    #[inline(always)]
    fn bucket(&self) -> u64 {
        self.rest >> (64 - BUCKET_BITS)
    }

    /// Returns the bits that the key's fingerprint is a prefix of.
    #[inline(always)]
    fn bits(&self) -> u64 {
        self.rest << BUCKET_BITS
    }
}

impl Growing {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the segments cannot be allocated.
    pub fn new(shape: GrowingShape) -> Result<Self, Error> {
        let mut list = List::with_room_for(shape.base())?;
        for _ in 0..shape.base() {
            list.push(Segment::empty()?)?;
        }
        let round = Round::new(&shape, shape.base());
        Ok(Self { shape, len: 0, round, list })
    }

    /// Returns the segments in the order of their numbers, each with its depth.
    fn segments_in_order(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0..).map(|index| self.depth_of(index)).zip(self.list.iter())
    }

    fn depth_of(&self, index: u64) -> u32 {
        let Round { base, depth, split, .. } = self.round;
        depth + u32::from(index < split || index >= base << depth)
    }

    fn layout(&self, depth: u32) -> &Layout {
        &self.shape.generation(depth).layout
    }

    #[inline(always)]
    fn layout_at(&self, place: &Place) -> &Layout {
        &self.round.layouts[place.more]
    }

    #[inline(always)]
    fn target(&self, key: KeyHash) -> Target<'_> {
        let place = self.round.place(key);
        Target { segment: self.list.get(place.index), place }
    }

    #[inline(always)]
    fn located<'a>(&self, target: Target<'a>) -> Located<'a> {
        let layout = self.layout_at(&target.place);
        Located { group: target.segment.group(layout, target.place.bucket()), target }
    }

    /// Returns the target of a key and prefetches its line in the list of segments.
    #[inline(always)]
    fn fetched_target(&self, key: KeyHash) -> Target<'_> {
        let target = self.target(key);
        prefetch(from_ref(target.segment), 0);
        target
    }

    /// Returns the group of a target and prefetches it.
    #[inline(always)]
    fn fetched<'a>(&self, target: Target<'a>) -> Located<'a> {
        let located = self.located(target);
        target.segment.fetch(located.group);
        located
    }

    #[inline(always)]
    fn contains_located(&self, bits: impl Bits, located: &Located<'_>) -> bool {
        let Located { target: Target { segment, place }, group } = located;
        let layout = self.layout_at(place);
        let query = layout.query(place.bits());
        segment.contains(bits, layout, *group, place.bucket(), query)
    }

    /// Prefetches the groups of up to [`LANES`] keys, and before them their lines in the list of
    /// segments.
    #[inline(always)]
    fn fetch(&self, keys: &[KeyHash]) {
        let mut targets = [None; LANES];
        for (target, key) in targets.iter_mut().zip(keys) {
            *target = Some(self.fetched_target(*key));
        }
        for target in targets.into_iter().flatten() {
            self.fetched(target);
        }
    }

    #[inline(always)]
    fn insert_key(&mut self, bits: impl Bits, key: KeyHash) -> Result<(), Full> {
        if self.len >= SEGMENT_KEYS * self.list.len() {
            let place = self.round.place(key);
            let layout = self.layout_at(&place);
            if self.list.get(place.index).is_full(bits, layout, place.bucket()) {
                return Err(Full::NONE);
            }
            self.split_next()?;
        }
        let place = self.round.place(key);
        let generation = *self.shape.generation(self.round.depth + place.more as u32);
        let bucket = place.bucket();
        let entry = generation.layout.entry(place.bits(), generation.length_in(bucket));
        let segment = self.list.get_mut(place.index);
        segment.insert(bits, &generation.layout, bucket, entry)?;
        self.len += 1;
        Ok(())
    }

    /// Splits the next segment. On [`Full`] nothing has changed.
    #[cold]
    fn split_next(&mut self) -> Result<(), Full> {
        if self.list.len() >= self.shape.max_segments() {
            return Err(Full::NONE);
        }
        let Round { depth, split, .. } = self.round;
        let segment = self.list.get(split);
        let [low, high] = self.split_segment(segment, depth).ok_or(Full::NONE)?;
        self.list.push(high).map_err(|_| Full::NONE)?;
        *self.list.get_mut(split) = low;
        self.round = Round::new(&self.shape, self.list.len());
        Ok(())
    }

    /// Splits a segment in two. Each bucket's number loses its first bit, which selects the half,
    /// and gets the first bit of the fingerprint. A void entry is copied to both buckets that it
    /// may belong to.
    fn split_segment(&self, segment: &Segment, depth: u32) -> Option<[Segment; 2]> {
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
                                (voids <= MAX_VOIDS).then_some(new.void())?
                            }
                            entry if entry >> (old.width - 1) == u64::from(bit) => {
                                // Aligned to the left like a new entry: the bits shifted out are
                                // zero.
                                let rest = entry << (65 - old.width);
                                rest >> (64 - new.width)
                            }
                            _ => return None,
                        };
                        Some((bucket | bit, entry))
                    }));
                }
            }
            (entries.len() as u64 <= u64::from(MAX_ENTRIES))
                .then(|| Segment::from_entries(new, &entries).ok())?
        });
        Some([made[0].take()?, made[1].take()?])
    }
}

/// A place and its segment.
#[derive(Clone, Copy)]
struct Target<'a> {
    segment: &'a Segment,
    place: Place,
}

/// A place and its group.
#[derive(Clone, Copy)]
struct Located<'a> {
    target: Target<'a>,
    group: Group,
}

struct ContainsOne<'a>(&'a Growing);

impl TaskOn<KeyHash> for ContainsOne<'_> {
    type Output = bool;

    #[inline(always)]
    fn work_on(self, bits: impl Bits, key: KeyHash) -> bool {
        let Self(filter) = self;
        filter.contains_located(bits, &filter.located(filter.target(key)))
    }
}

struct ContainsBatch<'a>(&'a Growing, &'a [KeyHash], &'a mut [bool]);

impl Task for ContainsBatch<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, keys, out) = self;
        let Some(first) = keys.first() else { return };
        // A pipeline of two prefetch stages, which the loop of `common` does not have: when a key
        // is processed, the groups of a key `LANES` after it are prefetched, and the line in the
        // list of segments of a key twice as far. They are prefetched one by one, since the
        // processor drops some of many prefetches at once. In the cache this takes 0.8 of the time of
        // single lookups, because the places of later keys are computed meanwhile.
        let mut targets = [filter.target(*first); LANES];
        for (target, key) in targets.iter_mut().zip(keys) {
            *target = filter.fetched_target(*key);
        }
        let mut groups = targets.map(|target| filter.fetched(target));
        for (target, key) in targets.iter_mut().zip(keys.iter().skip(LANES)) {
            *target = filter.fetched_target(*key);
        }
        for (at, out) in out[..keys.len()].iter_mut().enumerate() {
            let lane = at % LANES;
            let now = groups[lane];
            groups[lane] = filter.fetched(targets[lane]);
            if let Some(key) = keys.get(at + 2 * LANES) {
                targets[lane] = filter.fetched_target(*key);
            }
            *out = filter.contains_located(bits, &now);
        }
    }
}

/// Inserts keys. Each batch is prefetched in two stages, the list of segments and then the groups,
/// which the loop of `common` does not have.
struct InsertBatch<'a>(&'a mut Growing, &'a [KeyHash]);

impl Task for InsertBatch<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        let Self(filter, keys) = self;
        for (chunk, keys) in keys.chunks(LANES).enumerate() {
            if keys.len() > 1 {
                filter.fetch(keys);
            }
            for (index, key) in keys.iter().enumerate() {
                filter.insert_key(bits, *key).map_err(|full| full.after(chunk * LANES + index))?;
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
        let place = filter.round.place(key);
        let layout = *filter.layout_at(&place);
        let (bucket, query) = (place.bucket(), layout.query(place.bits()));
        let segment = filter.list.get_mut(place.index);
        let removed = filter.len > 0 && segment.remove(bits, &layout, bucket, query);
        filter.len -= u64::from(removed);
        removed
    }
}

struct CountOne<'a>(&'a Growing, KeyHash);

impl Task for CountOne<'_> {
    type Output = Option<u64>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Option<u64> {
        let Self(filter, key) = self;
        let Target { segment, place } = filter.target(key);
        let layout = filter.layout_at(&place);
        segment.count_matching(bits, layout, place.bucket(), layout.query(place.bits()))
    }
}

impl Filter for Growing {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        run_on(ContainsOne(self), key)
    }

    /// Returns the keys inserted minus the keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        run(ContainsBatch(self, keys, out));
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
        run(InsertBatch(self, &[key]))
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        run(InsertBatch(self, keys))
    }
}

impl Remove for Growing {
    fn remove(&mut self, key: KeyHash) -> bool {
        run(RemoveOne(self, key))
    }
}

impl Count for Growing {
    /// Returns the number of entries that match the key: exact, unless another key shares its bucket
    /// and fingerprint.
    fn count(&self, key: KeyHash) -> u64 {
        run(CountOne(self, key)).filter(|count| *count <= self.count_limit()).unwrap_or(u64::MAX)
    }

    /// Returns 63: of 64 equal entries it is not known how many keys they represent.
    fn count_limit(&self) -> u64 {
        MAX_COPIES as u64 - 1
    }
}

impl Grow for Growing {}

impl Persist for Growing {
    /// Returns the bytes of the segments' words and of the list of segments.
    fn bytes(&self) -> u64 {
        let words: u64 =
            self.segments_in_order().map(|(_, segment)| segment.words().len() as u64).sum();
        words * 8 + List::bytes(self.list.len())
    }

    fn heap_bytes(&self) -> u64 {
        let words: u64 =
            self.segments_in_order().map(|(_, segment)| segment.words().heap_bytes()).sum();
        words + List::bytes(self.list.len())
    }

    fn each_allocation(&self, each: &mut dyn FnMut(NonNull<u8>, core::alloc::Layout)) {
        self.list.each_allocation(each);
        let segments = self.list.iter().filter_map(|segment| segment.words().allocation());
        segments.for_each(|(start, layout)| each(start, layout));
    }

    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let (most, segments) = (self.shape.most().unwrap_or(0), self.list.len());
        let fields = [self.shape.keys(), self.shape.fpr().to_bits(), most, segments, SCHEDULE];
        to.shape(match self.shape.schedule() {
            Schedule::First => &fields[..4],
            Schedule::Second => &fields,
        });
        let mut ends = vec![0; segments as usize * ENDS_WORDS];
        for ((_, segment), words) in self.segments_in_order().zip(ends.chunks_mut(ENDS_WORDS)) {
            for (group, end) in (0..).zip(segment.ends()) {
                packed::set(words, 16, group, (*end).into());
            }
        }
        to.pieces(ENDS, [ends.into()]);
        to.pieces(TABLE, self.segments_in_order().map(|(_, segment)| segment.words().into()));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(0..=MAX_KEYS, "initial capacity")?;
        let fpr = f64::from_bits(fields.next(0..=f64::MAX.to_bits(), "false positive rate")?);
        let most = fields.next(0..=MAX_KEYS, "largest size")?;
        let corrupt = |what| tamis_format::Error::corrupt(what);
        let segments = fields.next(1..=MAX_KEYS / SEGMENT_KEYS, "number of segments")?;
        let schedule = match fields.remaining() {
            0 => Schedule::First,
            _ => {
                fields.next(SCHEDULE..=SCHEDULE, "schedule of fingerprint lengths")?;
                Schedule::Second
            }
        };
        fields.finish()?;
        let most = Some(most).filter(|most| *most > 0);
        let shape = GrowingShape::with_schedule(schedule, keys, fpr, most)
            .map_err(|_| corrupt("the shape is invalid"))?;
        if !(shape.base()..=shape.max_segments()).contains(&segments) {
            return Err(corrupt("the number of segments is invalid").into());
        }
        // At most 2^39 segments: no overflow.
        let packed = from.words(ENDS, segments * ENDS_WORDS as u64)?;
        let round = Round::new(&shape, segments);
        let mut filter = Self { shape, len, round, list: List::default() };
        let (mut ends, mut words) = (Vec::new(), 0);
        for (index, packed) in (0..).zip(packed.chunks(ENDS_WORDS)) {
            let of: Ends =
                core::array::from_fn(|group| packed::get(packed, 16, group as u64) as u16);
            words += filter.layout(filter.depth_of(index)).words(of[GROUPS - 1].into());
            ends.push(of);
        }
        // A segment is split before there are more keys than the segments are for.
        if len > SEGMENT_KEYS * segments || !ends.iter().all(|of| of.is_sorted()) {
            return Err(corrupt("the number of keys or the ends of groups are invalid").into());
        }
        let table = from.words(TABLE, words)?;
        let mut at = 0;
        for (index, of) in (0..).zip(ends) {
            let layout = filter.layout(filter.depth_of(index));
            let words = layout.words(of[GROUPS - 1].into()) as usize;
            let segment = Segment::from_words(table.part(at, words)?, of);
            filter.list.push(segment)?;
            at += words;
        }
        Ok(filter)
    }

    fn validate(&self) -> Result<(), Error> {
        self.segments_in_order()
            .try_for_each(|(depth, segment)| segment.validate(self.layout(depth)))
            .map_err(|what| tamis_format::Error::corrupt(what).into())
    }
}

#[cfg(test)]
mod tests;
