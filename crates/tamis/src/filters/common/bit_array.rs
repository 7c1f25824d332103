//! The bit array of `bloom`, `bloom_g` and `split_block_bloom`: words, a number of keys, and the rule that
//! says when they are full.
//!
//! ```text
//!  insertion 1 … capacity     counted, whether or not they change a bit: no extra work
//!  then, bits all set already accepted, nothing changes
//!  then, a bit would change   recount: how many distinct keys set the bits that are set?
//!                             room for r more ──► take r such keys, then recount
//!                             no room         ──► Full
//! ```
//!
//! # Capacity
//!
//! The false positive rate depends on the set bits alone, so duplicates must not count. Counting only
//! distinct keys would take a lookup before every insertion. The array therefore counts insertions until
//! they reach the capacity, and from then on estimates the number of distinct keys from the set bits.
//!
//! The estimate has a standard error (0.8 % of 1000 keys, 0.03 % of 10^6). A limit at the capacity itself
//! would refuse one of several filters that hold no more distinct keys than they are made for. The limit
//! is 4 standard errors above, which refuses one in 30 000 of those. It is also never more bits than
//! `capacity` keys can set, which makes it exact for small and sparse arrays. A filter that is filled up to
//! this limit with distinct keys exceeds its rate by 16 % at 10^3 keys, 5 % at 10^4, 0.5 % at 10^6.
//!
//! # Cost of recounting
//!
//! A recount reads the whole array. It grants room for as many keys as the estimate lies below the limit,
//! and each key that changes a bit raises the estimate by 1 on average. After `r` such keys the estimate
//! is at the limit, give or take the deviation of the sum, which is below `sqrt(r)`. The next recount
//! therefore grants at most about `sqrt(r)`, and after `log log` of the capacity recounts the array is
//! full. A full array knows that it is: refusing a key takes no recount.

use tamis_bits::{Words, set};
use tamis_format::{Name, Reader, Writer};

use super::{check_same, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::shape::Shape;
use crate::traits::Insert;

const BITS: Name = Name::new("bits");
/// Standard errors between the capacity and the largest estimate that is accepted.
const TOLERANCE: f64 = 4.0;

/// The geometry of a bit array: `places` groups of `width` bits. A key chooses `per_key` places and draws
/// `bits_per_key` bits there in all.
pub(crate) trait BitShape: Shape {
    /// Returns the number of places.
    fn places(&self) -> u64;

    /// Returns the number of bits of a place.
    fn width(&self) -> u64;

    /// Returns the number of places that a key chooses.
    fn places_per_key(&self) -> u32;

    /// Returns the number of bits that a key draws.
    fn bits_per_key(&self) -> u32;

    /// Estimates the number of distinct keys that set `ones` bits; infinite if all bits are set.
    fn estimate(&self, ones: u64) -> f64;

    /// Returns this shape with a capacity of `keys`. The bits of a key do not depend on the capacity.
    fn with_capacity(&self, keys: u64) -> Self;

    /// Returns the number of words.
    fn words(&self) -> u64 {
        (self.places() * self.width()).div_ceil(64)
    }

    /// Returns the standard error of [`estimate`](BitShape::estimate) at the capacity.
    ///
    /// The number of clear bits of a place varies for two reasons: its keys' bits coincide more or less
    /// often, and it has more or fewer keys than others. With `t` drawn bits per bit and a Poisson number
    /// of keys of mean `load` in a place, the variances are
    /// `e^(-2t) · width · (e^t - 1 - t)` and `e^(-2t) · width² · (e^s - 1 - s)`, with
    /// `s = load · (bits / width)²`. Both leave out the part that is linear in the number of keys, which
    /// is given. A key clears `bits_per_key · e^(-t)` bits.
    fn standard_error(&self) -> f64 {
        let excess = |x: f64| (x.exp_m1() - x).max(0.0);
        let (places, width) = (self.places() as f64, self.width() as f64);
        let (bits, per_key) = (f64::from(self.bits_per_key()), f64::from(self.places_per_key()));
        let load = per_key * self.keys() as f64 / places;
        let share = bits / per_key / width;
        let variance = width * excess(load * share) + width * width * excess(load * share * share);
        (places * variance).sqrt() / bits
    }
}

/// Words, and the number of keys in them.
///
/// The state of counting is not stored in files: an array that is read counts insertions again, from the
/// number of keys that the file states.
#[derive(Clone, Debug)]
pub(crate) struct BitArray {
    words: Words,
    len: u64,
    /// While `len` is below this, insertions are counted and the bits are not looked at. It is the
    /// capacity, or 0 after a recount.
    counts_to: u64,
    room: Room,
}

/// How many keys may still change a bit, once insertions are no longer counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// A recount will tell.
    Unknown,
    /// This many keys, then a recount.
    Left(u64),
    /// None: no bit has changed since the recount that said so.
    Full,
}

/// Arrays are equal if their files are.
impl PartialEq for BitArray {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.words == other.words
    }
}

/// What the set bits of an array of this shape say: the number of distinct keys, at most the capacity, and
/// the room for further keys.
pub(crate) fn recount(shape: &impl BitShape, ones: u64) -> (u64, Room) {
    #[cfg(test)]
    tests::RECOUNTS.with(|count| count.set(count.get() + 1));
    let (capacity, bits) = (shape.keys(), u64::from(shape.bits_per_key()));
    let estimate = shape.estimate(ones);
    let limit = capacity as f64 + TOLERANCE * shape.standard_error();
    // `as` saturates, also from infinity.
    let by_estimate = if estimate < limit { (limit - estimate).ceil() as u64 } else { 0 };
    let by_bits = capacity.saturating_mul(bits).saturating_sub(ones) / bits;
    let room = match by_estimate.min(by_bits) {
        0 => Room::Full,
        left => Room::Left(left),
    };
    // Rounded up: no fewer keys than it takes to set so many bits.
    ((estimate.ceil() as u64).min(capacity), room)
}

impl BitArray {
    /// Returns an array without keys.
    pub(crate) fn new(shape: &impl BitShape) -> Result<Self, Error> {
        let words = Words::zeroed(usize_words(shape.words())?)?;
        Ok(Self::from_parts(words, 0, shape.keys()))
    }

    /// Returns an array of these words and this number of keys, at most `capacity`.
    pub(crate) fn from_parts(words: Words, len: u64, capacity: u64) -> Self {
        Self { words, len, counts_to: capacity, room: Room::Unknown }
    }

    /// Returns the same words with another number of keys, at most `capacity`.
    pub(crate) fn with_len(self, len: u64, capacity: u64) -> Self {
        Self::from_parts(self.words, len, capacity)
    }

    /// Returns the words and the number of keys.
    #[cfg(feature = "std")]
    pub(crate) fn into_parts(self) -> (Words, u64) {
        (self.words, self.len)
    }

    /// Copies `words` and estimates the number of keys in them.
    ///
    /// # Errors
    /// [`Error::File`] if their number is not that of the shape or bits are set past the end,
    /// [`Error::Capacity`] if they hold more keys than the capacity.
    pub(crate) fn copy_of(shape: &impl BitShape, words: &[u64]) -> Result<Self, Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        if words.len() as u64 != shape.words() {
            return corrupt("the number of words is not that of the shape");
        }
        if !set::ends_at(words, shape.places() * shape.width()) {
            return corrupt("bits are set past the end");
        }
        let (capacity, ones) = (shape.keys(), set::ones(words));
        // Twice the tolerance: the last keys that a filter takes may raise the estimate by more than 1.
        let most = capacity as f64 + 2.0 * TOLERANCE * shape.standard_error();
        let most_ones = capacity.saturating_mul(shape.bits_per_key().into());
        if shape.estimate(ones) > most || ones > most_ones {
            return Err(Error::Capacity { capacity });
        }
        let (len, _) = recount(shape, ones);
        Ok(Self::from_parts(Words::copy_of(words)?, len, capacity))
    }

    /// Returns the number of keys.
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the words.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the words, to set bits in them. The caller has counted the keys.
    #[inline(always)]
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        self.words.to_mut()
    }

    /// Returns the number of set bits.
    pub(crate) fn ones(&self) -> u64 {
        set::ones(&self.words)
    }

    /// Counts one insertion. Returns `false` if the bits must be looked at first: see
    /// [`BitArray::count_change`].
    #[inline(always)]
    pub(crate) fn count_insertion(&mut self) -> bool {
        let counted = self.len < self.counts_to;
        self.len += u64::from(counted);
        counted
    }

    /// Counts up to `keys` insertions. Returns how many; the bits must be looked at before the next.
    pub(crate) fn count_insertions(&mut self, keys: usize) -> usize {
        let counted = self.counts_to.saturating_sub(self.len).min(keys as u64);
        self.len += counted;
        counted as usize
    }

    /// Counts a key that changes a bit, once [`BitArray::count_insertion`] returns `false`.
    ///
    /// # Errors
    /// On [`Full`] nothing has changed.
    #[cold]
    pub(crate) fn count_change(&mut self, shape: &impl BitShape) -> Result<(), Full> {
        if self.room == Room::Unknown {
            let (keys, room) = recount(shape, self.ones());
            self.room = room;
            if room != Room::Full {
                self.len = self.len.min(keys);
                self.counts_to = 0;
            }
        }
        self.room = match self.room {
            Room::Left(left) if left > 1 => Room::Left(left - 1),
            Room::Left(_) => Room::Unknown,
            Room::Unknown | Room::Full => return Err(Full::NONE),
        };
        self.len = (self.len + 1).min(shape.keys());
        Ok(())
    }

    /// Makes this the union of both.
    ///
    /// The number of keys is the sum if that is at most the capacity, and else the union's estimate. A
    /// union that adds no bit to one of both fits always.
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Capacity`]: nothing has changed.
    pub(crate) fn merge<S: BitShape>(
        &mut self,
        shape: &S,
        (other_shape, other): (&S, &Self),
    ) -> Result<(), Error> {
        check_same(shape, other_shape)?;
        let capacity = shape.keys();
        match self.len.checked_add(other.len).filter(|sum| *sum <= capacity) {
            Some(sum) => {
                self.len = sum;
                self.room = match self.room {
                    Room::Left(left) if left > other.len => Room::Left(left - other.len),
                    _ => Room::Unknown,
                };
            }
            None => {
                let ones = union_ones(&self.words, &other.words);
                let (keys, room) = recount(shape, ones);
                if room == Room::Full && ones > self.ones().max(other.ones()) {
                    return Err(Error::Capacity { capacity });
                }
                (self.len, self.counts_to, self.room) = (keys, 0, room);
            }
        }
        set::unite(self.words.to_mut(), &other.words);
        Ok(())
    }

    /// Makes this the union of both, whose shapes may differ in their capacity, and states the union's
    /// capacity in `shape`: the larger of both capacities or, if the union does not fit, its estimated
    /// number of keys.
    ///
    /// # Errors
    /// [`Error::Mismatch`], or [`Error::Capacity`] if so many bits are set that the number of keys cannot be
    /// estimated: nothing has changed.
    pub(crate) fn force_merge<S: BitShape>(
        &mut self,
        shape: &mut S,
        (other_shape, other): (&S, &Self),
    ) -> Result<(), Error> {
        let capacity = shape.keys().max(other_shape.keys());
        let mut union = shape.with_capacity(capacity);
        check_same(&union, &other_shape.with_capacity(capacity))?;
        if capacity > shape.keys() {
            // There may be room again.
            (self.counts_to, self.room) = (capacity, Room::Unknown);
        }
        if self.merge(&union, (&union, other)).is_err() {
            let ones = union_ones(&self.words, &other.words);
            let estimate = union.estimate(ones);
            if !(0.0..=MAX_KEYS as f64).contains(&estimate) {
                return Err(Error::Capacity { capacity });
            }
            let least = ones.div_ceil(union.bits_per_key().into());
            union = union.with_capacity((estimate.ceil() as u64).max(least).max(capacity));
            (self.len, self.room) = recount(&union, ones);
            self.counts_to = 0;
            set::unite(self.words.to_mut(), &other.words);
        }
        *shape = union;
        Ok(())
    }

    /// Keeps the bits that are set in both.
    ///
    /// # Errors
    /// [`Error::Mismatch`]: nothing has changed.
    pub(crate) fn intersect<S: BitShape>(
        &mut self,
        shape: &S,
        (other_shape, other): (&S, &Self),
    ) -> Result<(), Error> {
        check_same(shape, other_shape)?;
        self.len = self.len.min(other.len);
        (self.counts_to, self.room) = (shape.keys(), Room::Unknown);
        set::intersect(self.words.to_mut(), &other.words);
        Ok(())
    }

    /// Returns the normalised dot product of both bit vectors.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes.
    pub(crate) fn similarity<S: BitShape>(
        &self,
        shape: &S,
        (other_shape, other): (&S, &Self),
    ) -> Result<f64, Error> {
        check_same(shape, other_shape)?;
        let (ones, other_ones) = (self.ones() as f64, other.ones() as f64);
        if ones == 0.0 || other_ones == 0.0 {
            return Ok(f64::from(ones == other_ones));
        }
        Ok(set::common(&self.words, &other.words) as f64 / (ones * other_ones).sqrt())
    }

    /// Adds the words to a file.
    pub(crate) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(BITS, &self.words);
    }

    /// Reads the words of a file, which states the number of keys.
    ///
    /// # Errors
    /// [`Error::File`] if the section is missing or has another length.
    pub(crate) fn read(from: &mut Reader, shape: &impl BitShape) -> Result<Self, Error> {
        let words = from.words(BITS, shape.words())?;
        Ok(Self::from_parts(words, from.header().keys, shape.keys()))
    }
}

/// Returns the number of bits that are set in `a` or `b`.
fn union_ones(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from((a | b).count_ones())).sum()
}

/// Inserts keys into a filter that no longer counts insertions: most of them change nothing, so a batched
/// lookup comes first.
pub(crate) fn insert_at_limit<F: Insert>(filter: &mut F, keys: &[KeyHash]) -> Result<(), Full> {
    const RUN: usize = 64;
    let mut found = [false; RUN];
    for (run, keys) in keys.chunks(RUN).enumerate() {
        filter.contains_batch(keys, &mut found);
        for (index, (key, found)) in keys.iter().zip(found).enumerate() {
            if !found {
                filter.insert(*key).map_err(|full| full.after(run * RUN + index))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::filters::{
        Bloom, BloomG, BloomGShape, BloomShape, SplitBlockBloom, SplitBlockBloomShape,
    };
    use crate::hash::{HashId, Key, KeyHasher};
    use crate::traits::{Build, Filter, Merge, Persist, SetOps};

    thread_local! {
        pub(super) static RECOUNTS: Cell<u64> = const { Cell::new(0) };
    }

    trait Kind: Build<Shape: BitShape> + Insert + SetOps + Persist + Clone + PartialEq {
        fn from_words(shape: Self::Shape, words: &[u64]) -> Result<Self, Error>;
        fn words(&self) -> &[u64];
    }

    macro_rules! kinds {
        ($($kind:ident)*) => { $(
            impl Kind for $kind {
                fn from_words(shape: Self::Shape, words: &[u64]) -> Result<Self, Error> {
                    $kind::from_words(shape, words)
                }

                fn words(&self) -> &[u64] {
                    $kind::words(self)
                }
            }
        )* };
    }

    kinds!(Bloom BloomG SplitBlockBloom);

    /// Random keys, the same for each seed; `from` tells sets apart.
    fn hashes(seed: u64, from: u64, count: u64) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 77]);
        (from..from + count).map(|key| key.hash_with(&hasher)).collect()
    }

    /// `count` rows, each one of `keys`.
    fn rows(keys: &[KeyHash], count: usize) -> impl Iterator<Item = KeyHash> {
        (0..count as u64).map(|row| {
            let random = tamis_bits::range::mix(row);
            // Every other row walks through all keys, so that all of them occur.
            let index = if row % 2 == 0 { row / 2 } else { random };
            keys[(index % keys.len() as u64) as usize]
        })
    }

    fn empty<F: Kind>(keys: u64, fpr: f64) -> F {
        F::build(F::Shape::fit(keys, fpr).unwrap(), &[][..]).unwrap()
    }

    fn duplicates_do_not_fill<F: Kind>() {
        for seed in 0..60 {
            let keys = hashes(seed, 0, 1000);
            let rows: Vec<_> = rows(&keys, 5000).collect();
            let (mut single, mut batch) = (empty::<F>(1000, 0.01), empty::<F>(1000, 0.01));
            rows.iter().for_each(|row| single.insert(*row).unwrap());
            rows.chunks(77).for_each(|rows| batch.insert_batch(rows).unwrap());
            assert!(single == batch && single.len() == batch.len(), "seed {seed}");
            assert!(keys.iter().all(|key| single.contains(*key)));
            assert!((930..=1000).contains(&single.len()), "seed {seed}: {} keys", single.len());
            single.validate().unwrap();
            assert!(single.cardinality() < 1060.0);
        }
    }

    #[test]
    fn duplicates_do_not_fill_any_kind() {
        duplicates_do_not_fill::<Bloom>();
        duplicates_do_not_fill::<BloomG>();
        duplicates_do_not_fill::<SplitBlockBloom>();
    }

    #[test]
    fn ten_million_rows_of_a_thousand_values() {
        let keys = hashes(1, 0, 1000);
        let mut filter = empty::<SplitBlockBloom>(1000, 0.01);
        let rows: Vec<_> = rows(&keys, 100_000).collect();
        (0..100).for_each(|_| filter.insert_batch(&rows).unwrap());
        assert!(keys.iter().all(|key| filter.contains(*key)));
    }

    fn a_full_filter_is_unchanged<F: Kind>() {
        for (capacity, most) in [(0, 0), (1, 1), (10, 12), (1000, 1080), (30_000, 30_400)] {
            let keys = hashes(9, 0, 2 * capacity + 100);
            let mut filter = empty::<F>(capacity, 0.01);
            let Err(Full { inserted }) = filter.insert_batch(&keys) else { panic!("never full") };
            assert!((capacity..=most).contains(&inserted), "{inserted} keys of {capacity}");
            assert_eq!(filter.len(), capacity);
            filter.validate().unwrap();
            let mut single = empty::<F>(capacity, 0.01);
            let fits = keys.iter().take_while(|key| single.insert(**key).is_ok()).count();
            assert!(fits as u64 == inserted && single == filter);
            // The rate is at most that of the tolerance.
            let rate = filter.shape().fpr_at(filter.cardinality().ceil() as u64);
            let promised = filter.shape().figures().fpr.max(0.01);
            let tolerated = if capacity < 10_000 { 1.25 } else { 1.05 };
            assert!(rate <= promised * tolerated, "{capacity} keys: {rate}");
            // Refusing takes no recount, and what is in is accepted.
            let (before, recounts) = (filter.clone(), RECOUNTS.get());
            for key in hashes(10, 1 << 40, 1000) {
                assert_eq!(filter.insert(key).is_ok(), filter.contains(key));
            }
            filter.insert_batch(&keys[..inserted as usize]).unwrap();
            assert!(filter == before && RECOUNTS.get() == recounts);
        }
    }

    #[test]
    fn a_full_filter_of_any_kind_is_unchanged() {
        a_full_filter_is_unchanged::<Bloom>();
        a_full_filter_is_unchanged::<BloomG>();
        a_full_filter_is_unchanged::<SplitBlockBloom>();
    }

    /// Words that recounts read, per insertion: a plain insertion touches 1 to 7.
    fn recounts_are_rare<F: Kind>() {
        const ROWS: usize = 1_000_000;
        for capacity in [1_000, 100_000] {
            // As many distinct keys as fit, then more than that.
            for distinct in [capacity, capacity * 11 / 10] {
                let keys = hashes(3, 0, distinct);
                let mut filter = empty::<F>(capacity, 0.01);
                RECOUNTS.set(0);
                for row in rows(&keys, ROWS) {
                    let _ = filter.insert(row);
                }
                let recounts = RECOUNTS.get();
                assert!((1..=20).contains(&recounts), "{recounts} recounts of {capacity} keys");
                let read = recounts as f64 * filter.words().len() as f64 / ROWS as f64;
                assert!(read < 1.0, "recounts read {read} words per insertion");
            }
        }
    }

    #[test]
    fn recounts_of_any_kind_are_rare() {
        recounts_are_rare::<Bloom>();
        recounts_are_rare::<BloomG>();
        recounts_are_rare::<SplitBlockBloom>();
    }

    fn overlapping_filters_merge<F: Kind>() {
        let of = |keys: &[KeyHash]| F::build(F::Shape::fit(1000, 0.01).unwrap(), keys).unwrap();
        let keys = hashes(4, 0, 1200);
        let (a, b) = (of(&keys[..600]), of(&keys[300..900]));
        let mut same = a.clone();
        same.merge(&a).unwrap();
        assert!(same.words() == a.words() && (580..=620).contains(&same.len()));
        let mut union = a.clone();
        union.merge(&b).unwrap();
        assert_eq!(union.words(), of(&keys[..900]).words());
        assert!((870..=930).contains(&union.len()), "{} keys", union.len());
        // It still knows its limit.
        let mut refused = union.clone();
        assert!(refused.insert_batch(&hashes(5, 1 << 40, 300)).is_err());
        let before = refused.clone();
        assert!(matches!(
            refused.merge(&of(&keys[800..])),
            Err(Error::Capacity { capacity: 1000 })
        ));
        assert!(refused == before);
        // A full filter takes in, and is taken in by, a part of itself.
        refused.merge(&union).unwrap();
        assert!(refused == before);
        union.merge(&refused).unwrap();
        assert!(union == refused);
    }

    #[test]
    fn overlapping_filters_of_any_kind_merge() {
        overlapping_filters_merge::<Bloom>();
        overlapping_filters_merge::<BloomG>();
        overlapping_filters_merge::<SplitBlockBloom>();
    }

    fn words_make_a_filter<F: Kind>() {
        for (capacity, keys) in [(0, 0), (1, 1), (1000, 400), (1000, 1000), (1000, 2000)] {
            let mut filter = empty::<F>(capacity, 0.01);
            let keys = hashes(6, 0, keys);
            let _ = filter.insert_batch(&keys);
            let again = F::from_words(filter.shape().clone(), filter.words()).unwrap();
            assert_eq!(again.words(), filter.words());
            let apart = again.len().abs_diff(filter.len());
            assert!(apart <= filter.len() / 20, "{} keys, not {}", again.len(), filter.len());
            again.validate().unwrap();
            let short = &filter.words()[1..];
            assert!(matches!(F::from_words(filter.shape().clone(), short), Err(Error::File(_))));
            let ones = vec![u64::MAX; filter.words().len()];
            let full = F::from_words(filter.shape().clone(), &ones);
            assert!(matches!(full, Err(Error::Capacity { .. })));
        }
    }

    fn a_forced_union_raises_its_capacity<F: Kind>() {
        let of = |keys: &[KeyHash]| F::build(F::Shape::fit(1000, 0.01).unwrap(), keys).unwrap();
        let keys = hashes(9, 0, 3000);
        let (a, b, c) = (of(&keys[..1000]), of(&keys[1000..2000]), of(&keys[2000..]));
        let mut union = a.clone();
        union.force_merge(&of(&keys[500..1000])).unwrap();
        assert_eq!(union.shape().keys(), 1000, "the union fits");
        let mut grown = Vec::new();
        for part in [&b, &c] {
            union.force_merge(part).unwrap();
            let capacity = union.shape().keys();
            assert_eq!(union.len(), capacity);
            assert_eq!(capacity, union.cardinality().ceil() as u64);
            union.validate().unwrap();
            grown.push(capacity);
        }
        assert!((1900..2100).contains(&grown[0]) && (2800..3200).contains(&grown[1]), "{grown:?}");
        assert!(keys.iter().all(|key| union.contains(*key)));
        assert!(F::from_words(union.shape().clone(), union.words()).unwrap() == union);
        // The rate that it states is the rate that it has.
        let strangers = hashes(9, 1 << 40, 20_000);
        let rate = strangers.iter().filter(|key| union.contains(**key)).count() as f64 / 20_000.0;
        let stated = union.shape().figures().fpr;
        assert!(stated > 0.1 && (0.8..1.25).contains(&(rate / stated)), "{rate}, not {stated}");
        // It refuses keys beyond the new capacity, and other shapes.
        assert!(union.insert_batch(&strangers[..1000]).is_err());
        let before = union.clone();
        assert!(matches!(union.merge(&a), Err(Error::Mismatch { what: "shape" })));
        let other = F::build(F::Shape::fit(5000, 0.01).unwrap(), &keys[..1]).unwrap();
        assert!(matches!(union.force_merge(&other), Err(Error::Mismatch { what: "shape" })));
        assert!(union == before);
        // Its capacity is that of the larger filter, in either order, and there is room again.
        let mut small = of(&keys[..10]);
        assert!(small.insert_batch(&keys).is_err(), "full");
        small.force_merge(&union).unwrap();
        assert_eq!(small.shape().keys(), union.shape().keys());
    }

    #[test]
    fn a_forced_union_of_any_kind_raises_its_capacity() {
        a_forced_union_raises_its_capacity::<Bloom>();
        a_forced_union_raises_its_capacity::<BloomG>();
        a_forced_union_raises_its_capacity::<SplitBlockBloom>();
    }

    #[test]
    fn a_union_with_all_bits_set_cannot_be_forced() {
        let shape = BloomShape::new(64, 1, 60).unwrap();
        let of = |word| Bloom::from_words(shape.clone(), &[word]).unwrap();
        let (mut low, high) = (of(u64::from(u32::MAX)), of(u64::MAX << 32));
        let before = low.clone();
        assert!(matches!(low.force_merge(&high), Err(Error::Capacity { capacity: 60 })));
        assert!(low == before);
    }

    #[test]
    fn words_make_a_filter_of_any_kind() {
        words_make_a_filter::<Bloom>();
        words_make_a_filter::<BloomG>();
        words_make_a_filter::<SplitBlockBloom>();
        let shape = BloomShape::new(100, 3, 10).unwrap();
        assert!(Bloom::from_words(shape.clone(), &[0, 1 << 35]).is_ok());
        assert!(matches!(Bloom::from_words(shape, &[0, 1 << 36]), Err(Error::File(_))));
        let shape = SplitBlockBloomShape::new(1, 10).unwrap();
        let one_lane = SplitBlockBloom::from_words(shape, &[1, 0, 0, 0]);
        assert!(matches!(one_lane, Err(Error::File(_))));
    }

    /// The formula of the standard error, against the deviation of many filters at their capacity.
    fn the_error_is_that_of_the_formula<F: Kind>(shape: F::Shape) {
        const FILTERS: u64 = 400;
        let (mut sum, mut squares) = (0.0, 0.0);
        for seed in 0..FILTERS {
            let keys = hashes(seed + 1000, 0, shape.keys());
            let off = F::build(shape.clone(), &keys[..]).unwrap().cardinality() - keys.len() as f64;
            (sum, squares) = (sum + off, squares + off * off);
        }
        let mean = sum / FILTERS as f64;
        let deviation = (squares / FILTERS as f64 - mean * mean).sqrt();
        let expected = shape.standard_error();
        assert!((0.85..1.15).contains(&(deviation / expected)), "{deviation}, not {expected}");
        assert!(mean.abs() < 4.0 * expected / (FILTERS as f64).sqrt() + 0.5, "off by {mean}");
    }

    #[test]
    fn the_error_of_any_kind_is_that_of_the_formula() {
        the_error_is_that_of_the_formula::<Bloom>(BloomShape::fit(1000, 0.01).unwrap());
        the_error_is_that_of_the_formula::<Bloom>(BloomShape::new(50_000, 3, 1000).unwrap());
        let shape = SplitBlockBloomShape::fit(2000, 0.01).unwrap();
        the_error_is_that_of_the_formula::<SplitBlockBloom>(shape);
        for (places, width, groups, probes) in [(20, 512, 1, 6), (200, 64, 1, 5), (30, 512, 3, 7)] {
            let shape = BloomGShape::new(places, width, groups, probes, 1000).unwrap();
            the_error_is_that_of_the_formula::<BloomG>(shape);
        }
    }

    #[test]
    fn builds_count_duplicates_as_insertions_do() {
        let keys = hashes(8, 0, 600_000);
        let shape = SplitBlockBloomShape::fit(600_000, 0.01).unwrap();
        for distinct in [600_000, 300_000] {
            let rows: Vec<_> = rows(&keys[..distinct], 1_300_000).collect();
            let mut inserted = SplitBlockBloom::new(shape.clone()).unwrap();
            rows.iter().for_each(|row| inserted.insert(*row).unwrap());
            assert!(SplitBlockBloom::build(shape.clone(), &rows[..]).unwrap() == inserted);
        }
    }
}
