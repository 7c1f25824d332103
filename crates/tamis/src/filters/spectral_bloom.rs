//! The spectral Bloom filter: a Bloom filter of counters that estimates how often a key was inserted.
//!
//! ```text
//!  counters   0 2 0 0 7 3 0 0 0 2 0 1 …   m counters of variable length, k of them per key
//!               └─────┴─────────┘         (`common/counters.rs`)
//!               2     7         2          inserted at most twice: the lowest counter is the count
//!               3     7         3          after another insertion: only the lowest were raised
//! ```
//!
//! Raising only the lowest counters is the method of *minimal increase*. The lowest of a key's counters
//! is at least its number of insertions. Raising the others too would only make the counts of other
//! keys worse.
//!
//! | figure | |
//! | --- | --- |
//! | bits per counter | 1.6 for distinct keys, 2.2 at an average count of 1, and 2 log2 of large counts; with `c`, c |
//! | bits per key | 15.5 at 1 % for distinct keys; with `c`, c times Bloom's |
//! | cache lines | 2k to 4k; with `c`, k |
//! | wrong counts | at k = 5 and 0.7 places per counter: 1.9 % of keys if all are equally frequent, 0.7 % if a few make up most insertions |
//!
//! The memory is planned for keys that are inserted once. Higher counts take more: when a block of
//! counters is full, all blocks grow by 1/16. With the setting `c`, all counters have c bits, which is
//! several times as fast, and the memory does not grow; a counter that reaches its largest value then
//! stays there, and the count is reported as more than 2^c - 2.
//!
//! The capacity is a number of *distinct* keys; each may be inserted any number of times. The filter
//! counts the keys that it recognised as new, so slightly more distinct keys than its capacity fit.
//!
//! Keys cannot be removed: a counter is the largest of several counts, not their sum, so lowering it
//! would cause false negatives. Two filters cannot be merged: the larger of two counters may be too low
//! for a key that is in both. [`RemovableSpectralBloom`](super::RemovableSpectralBloom) does both, with
//! more wrong counts.
//!
//! Cohen, Matias, *Spectral Bloom Filters*, 2003. Differences: the string-array index of the paper has
//! pointers to its strings and slack between them; here a counter is found by counting bits in its
//! group of 256, and all slack is at the end of a block.

use tamis_bits::{Words, packed, prefetch, set};
use tamis_format::{Fields, Name, Reader, Writer};

use super::bloom::{self, Bloom, BloomShape, MAX_PROBES, PROBES};
use super::common::bit_array::BitArray;
use super::common::counters::{self, CompactCounters, LARGEST, Spread};
use super::common::{build_by_inserting, insert_batch, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, Persist};

const COUNTERS: Name = Name::new("counters");
const MAX_COUNTERS: u64 = 1 << 47;
const WIDTHS: core::ops::RangeInclusive<u64> = 2..=64;

pub(super) const WIDTH: Setting = Setting::new(
    "c",
    "2 to 64: bits per counter, all of one width; default: counters of variable length",
);

/// `m` counters of `c` bits, or of variable length if `c` is 0, `k` of them per key: the common part of `counting_bloom`,
/// `spectral_bloom` and `removable_spectral_bloom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CounterArray {
    pub(super) counters: u64,
    pub(super) probes: u32,
    pub(super) width: u32,
    pub(super) keys: u64,
}

impl CounterArray {
    pub(super) fn new(counters: u64, probes: u32, width: u32, keys: u64) -> Result<Self, Error> {
        if !(1..=MAX_COUNTERS).contains(&counters) {
            return Err(Error::Limit { what: "counters", asked: counters, most: MAX_COUNTERS });
        }
        if !(1..=MAX_PROBES).contains(&probes.into()) {
            let asked = probes.into();
            return Err(Error::Limit { what: "counters per key", asked, most: MAX_PROBES });
        }
        if width > 0 && !WIDTHS.contains(&width.into()) {
            return Err(Error::Limit { what: "bits per counter", asked: width.into(), most: 64 });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { counters, probes, width, keys })
    }

    /// Returns the fewest counters for `keys` keys at `fpr`, with these settings.
    pub(super) fn fit(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let width = settings.number(&WIDTH, |c| WIDTHS.contains(&c))?.unwrap_or(0);
        let (counters, probes) = bloom::smallest(keys, fpr, settings)?;
        Self::new(counters, probes, width as u32, keys)
    }

    pub(super) fn fields(&self) -> [u64; 4] {
        [self.counters, self.probes.into(), self.width.into(), self.keys]
    }

    /// Reads the fields of a filter that is made for at least `least` keys.
    pub(super) fn read(fields: &mut Fields, least: u64) -> Result<Self, Error> {
        let counters = fields.next(1..=MAX_COUNTERS, "number of counters")?;
        let probes = fields.next(1..=MAX_PROBES, "counters per key")?;
        let width = fields.next(0..=*WIDTHS.end(), "bits per counter")?;
        let keys = fields.next(least..=MAX_KEYS, "capacity in keys")?;
        Self::new(counters, probes as u32, width as u32, keys)
            .map_err(|_| tamis_format::Error::corrupt("bits per counter").into())
    }

    /// Reads the words per block of `count` counters of variable length; 0 for those of one width.
    pub(super) fn read_stride(&self, fields: &mut Fields, count: u64) -> Result<u64, Error> {
        match self.width {
            0 => Ok(fields.next(counters::strides(count), "words per block")?),
            _ => Ok(0),
        }
    }

    /// Returns the words of counters of `c` bits.
    pub(super) fn words(&self) -> u64 {
        // At most 2^47 counters of 64 bits.
        (self.counters * u64::from(self.width)).div_ceil(64)
    }

    /// Returns the largest value of a counter, at which it stays.
    #[inline(always)]
    pub(super) fn largest(&self) -> u64 {
        if self.width == 0 { LARGEST } else { packed::mask(self.width) }
    }

    #[inline(always)]
    pub(super) fn places(&self, key: KeyHash) -> impl Iterator<Item = u64> + Clone + use<> {
        key.probes(self.counters).take(self.probes as usize)
    }

    #[inline(always)]
    pub(super) fn get(&self, counters: &[u64], place: u64) -> u64 {
        packed::get(counters, self.width, place)
    }

    #[inline(always)]
    pub(super) fn set(&self, counters: &mut [u64], place: u64, to: u64) {
        packed::set(counters, self.width, place, to);
    }

    /// Returns the lowest of a key's counters of `c` bits.
    #[inline(always)]
    pub(super) fn least(&self, counters: &[u64], key: KeyHash) -> u64 {
        self.places(key).map(|place| self.get(counters, place)).min().unwrap_or(0)
    }

    /// Adds each counter of `other`, both of `c` bits. Sums that reach the largest value stay there.
    pub(super) fn add(&self, counters: &mut [u64], other: &[u64]) {
        for place in 0..self.counters {
            let sum = self.get(counters, place).saturating_add(self.get(other, place));
            self.set(counters, place, sum.min(self.largest()));
        }
    }

    /// Returns whether the key may be removed. A member has raised each of its counters once per probe
    /// there. If a counter is lower, the key is not in, and lowering it could go below zero.
    pub(super) fn is_removable(&self, key: KeyHash, get: impl Fn(u64) -> u64) -> bool {
        let places = self.places(key);
        places.clone().all(|place| {
            let count = get(place);
            let own = || places.clone().filter(|other| *other == place).count() as u64;
            count == self.largest() || count >= own()
        })
    }

    /// Returns the count for the lowest counter: `u64::MAX` if it has the largest value.
    pub(super) fn count(&self, least: u64) -> u64 {
        if least < self.largest() { least } else { u64::MAX }
    }
}

/// The counters of a [`CounterArray`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Counters {
    /// All of one width.
    Fixed(Words),
    /// Of variable length.
    Compact(CompactCounters),
}

impl Counters {
    /// Returns `count` counters of the width of `array`, all 0. Those of variable length have `stride`
    /// words per block.
    pub(super) fn new(array: &CounterArray, count: u64, stride: u64) -> Result<Self, Error> {
        if array.width == 0 {
            return Ok(Self::Compact(CompactCounters::new(count, stride)?));
        }
        let words = (count * u64::from(array.width)).div_ceil(64);
        Ok(Self::Fixed(Words::zeroed(usize_words(words)?)?))
    }

    /// Reads `count` counters from the section `name`, and the stride of those of variable length
    /// from the fields.
    pub(super) fn read(
        array: &CounterArray,
        count: u64,
        stride: u64,
        from: &mut Reader,
        name: Name,
    ) -> Result<Self, Error> {
        if array.width == 0 {
            let words = from.words(name, counters::words(count, stride))?;
            return Ok(Self::Compact(CompactCounters::from_words(count, stride, words)));
        }
        let words = (count * u64::from(array.width)).div_ceil(64);
        Ok(Self::Fixed(from.words(name, words)?))
    }

    pub(super) fn words(&self) -> &Words {
        match self {
            Self::Fixed(words) => words,
            Self::Compact(counters) => counters.words(),
        }
    }

    /// Returns the words per block of counters of variable length; `None` for those of one width.
    pub(super) fn stride(&self) -> Option<u64> {
        match self {
            Self::Fixed(_) => None,
            Self::Compact(counters) => Some(counters.stride()),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, array: &CounterArray, place: u64) -> u64 {
        match self {
            Self::Fixed(words) => array.get(words, place),
            Self::Compact(counters) => counters.get(place),
        }
    }

    /// Sets a counter to the count that `next` returns for its count. Returns whether it was another.
    ///
    /// # Errors
    /// [`Full`] if counters of variable length cannot grow. Nothing has changed then.
    #[inline(always)]
    pub(super) fn change(
        &mut self,
        array: &CounterArray,
        place: u64,
        next: impl Fn(u64) -> u64,
    ) -> Result<bool, Full> {
        match self {
            Self::Fixed(words) => {
                let count = array.get(words, place);
                let to = next(count);
                if to != count {
                    array.set(words.to_mut(), place, to);
                }
                Ok(to != count)
            }
            Self::Compact(counters) => counters.change(place, next),
        }
    }

    /// Returns the lowest of a key's counters.
    #[inline(always)]
    pub(super) fn least(&self, array: &CounterArray, key: KeyHash) -> u64 {
        match self {
            Self::Fixed(words) => array.least(words, key),
            Self::Compact(counters) => counters.least(array.places(key)),
        }
    }

    /// Returns whether none of a key's counters is zero.
    #[inline(always)]
    pub(super) fn all_raised(&self, array: &CounterArray, key: KeyHash) -> bool {
        match self {
            Self::Fixed(words) => array.places(key).all(|place| array.get(words, place) > 0),
            Self::Compact(counters) => counters.all_raised(array.places(key)),
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, array: &CounterArray, key: KeyHash) {
        for place in array.places(key) {
            match self {
                Self::Fixed(words) => {
                    prefetch(words, (place * u64::from(array.width) / 64) as usize);
                }
                Self::Compact(counters) => counters.prefetch(place),
            }
        }
    }

    /// Looks up keys in batches of 16. `common::contains_batch` has batches of 32, which prefetches k
    /// lines for each of twice as many keys.
    #[inline(always)]
    pub(super) fn contains_batch(&self, array: &CounterArray, keys: &[KeyHash], out: &mut [bool]) {
        const LANES: usize = 16;
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            keys.iter().for_each(|key| self.prefetch(array, *key));
            for (key, out) in keys.iter().zip(out) {
                *out = self.all_raised(array, *key);
            }
        }
    }

    /// Returns `count` counters in order.
    pub(super) fn iter(&self, array: &CounterArray, count: u64) -> impl Iterator<Item = u64> {
        let (fixed, compact) = match self {
            Self::Fixed(words) => {
                (Some((0..count).map(move |at| packed::get(words, array.width, at))), None)
            }
            Self::Compact(counters) => (None, Some(counters.iter())),
        };
        fixed.into_iter().flatten().chain(compact.into_iter().flatten())
    }

    /// Returns the Bloom filter whose bits are set where a counter is above 0, with a capacity of `keys`.
    pub(super) fn to_bloom(
        &self,
        array: &CounterArray,
        len: u64,
        keys: u64,
    ) -> Result<Bloom, Error> {
        let shape = BloomShape::new(array.counters, array.probes, keys)?;
        let mut words = Words::zeroed(usize_words(array.counters.div_ceil(64))?)?;
        let bits = words.to_mut();
        let counts = (0..array.counters).zip(self.iter(array, array.counters));
        counts.filter(|(_, count)| *count > 0).for_each(|(place, _)| set::set(bits, place));
        Ok(Bloom::from_parts(shape, BitArray::from_parts(words, len, keys)))
    }

    /// Adds each counter of `other`. Sums that reach the largest value stay there.
    ///
    /// # Errors
    /// [`Error::Memory`] if counters of variable length cannot grow. Nothing has changed then.
    pub(super) fn add(&mut self, array: &CounterArray, other: &Self) -> Result<(), Error> {
        match (self, other) {
            (Self::Compact(counters), Self::Compact(other)) => *counters = counters.sum(other)?,
            (Self::Fixed(words), Self::Fixed(other)) => array.add(words.to_mut(), other),
            _ => {}
        }
        Ok(())
    }

    /// Checks that the words of `count` counters are valid.
    pub(super) fn validate(&self, array: &CounterArray, count: u64) -> Result<(), Error> {
        let checked = match self {
            Self::Fixed(words) => set::ends_at(words, count * u64::from(array.width))
                .then_some(())
                .ok_or("bits are set past the last counter"),
            Self::Compact(counters) => counters.validate(),
        };
        checked.map_err(|what| tamis_format::Error::corrupt(what).into())
    }
}

/// The shape: the number of counters, their width, and how many of them a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpectralBloomShape(CounterArray);

impl SpectralBloomShape {
    /// Returns the shape of `counters` counters of `width` bits, or of variable length if `width` is
    /// 0, `probes` of them per key, for `keys` distinct keys.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(counters: u64, probes: u32, width: u32, keys: u64) -> Result<Self, Error> {
        CounterArray::new(counters, probes, width, keys).map(Self)
    }

    fn rate(&self, keys: u64) -> f64 {
        bloom::rate(self.0.counters, self.0.probes, keys)
    }

    /// Returns the words per block of counters of variable length for keys that are inserted once: a
    /// counter is 0 or 1, unless a new key is taken for a member.
    fn stride(&self) -> u64 {
        let rate = self.rate(self.0.keys).min(0.5);
        let raises = f64::from(self.0.probes) * self.0.keys as f64 / (1.0 - rate);
        let zero = (-raises / self.0.counters as f64).exp();
        let chances = [zero, (1.0 - zero) * (1.0 - rate), (1.0 - zero) * rate];
        counters::planned_stride(self.0.counters, Spread::new(chances.into_iter()))
    }

    fn words(&self) -> u64 {
        match self.0.width {
            0 => counters::words(self.0.counters, self.stride()),
            _ => self.0.words(),
        }
    }

    /// Returns how many of `keys` distinct keys are recognised as new when they are inserted: by a sum,
    /// or for many keys by Simpson's rule.
    fn recognised(&self, keys: u64) -> f64 {
        const PARTS: u64 = 64;
        if keys <= 4 * PARTS {
            return (0..keys).map(|before| 1.0 - self.rate(before)).sum();
        }
        let weight = |part| match part {
            0 | PARTS => 1.0,
            odd if odd % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let at = |part: u64| (u128::from(keys) * u128::from(part) / u128::from(PARTS)) as u64;
        let sum: f64 = (0..=PARTS).map(|part| weight(part) * self.rate(at(part))).sum();
        keys as f64 * (1.0 - sum / (3.0 * PARTS as f64))
    }

    /// Returns how many keys were inserted when `new` were recognised as new, and the rate then.
    fn inserted(&self, new: u64) -> (u64, f64) {
        let (mut low, mut high) = (new, new.saturating_mul(8).saturating_add(64));
        if self.recognised(high) < new as f64 {
            return (high, self.rate(high));
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            *(if self.recognised(middle) < new as f64 { &mut low } else { &mut high }) = middle;
        }
        // Interpolates, because with few keys the next number of keys is a large step.
        let (before, after) = (self.recognised(low), self.recognised(high));
        let part = if after > before { (new as f64 - before) / (after - before) } else { 0.0 };
        let (least, most) = (self.rate(low), self.rate(high));
        (high, least + (most - least) * part.clamp(0.0, 1.0))
    }
}

impl Shape for SpectralBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH];
    // More probes can take fewer bits of each counter.
    const IS_MONOTONE: bool = false;

    /// Fits the shape to as many keys as may be inserted before `keys` are recognised as new.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let (inserted, _) = Self(CounterArray::fit(keys, fpr, settings)?).inserted(keys);
        let array = CounterArray::fit(inserted.min(MAX_KEYS), fpr, settings)?;
        Ok(Self(CounterArray { keys, ..array }))
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("m", self.0.counters.into()), ("k", self.0.probes.into()), ("c", self.0.width.into())]
            .into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.0.keys,
            fpr: self.rate(self.0.keys),
            bytes: tamis_bits::lines(self.words()) * 64,
            query_cost: query_cost(&self.0),
        }
    }

    fn keys(&self) -> u64 {
        self.0.keys
    }

    /// Returns the rate for a number of keys recognised as new, slightly fewer than were inserted.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.inserted(keys).1 }
    }
}

/// Returns the cost of a lookup: a counter of variable length takes two reads.
pub(super) fn query_cost(array: &CounterArray) -> f64 {
    f64::from(array.probes) * if array.width == 0 { 2.25 } else { 1.125 }
}

/// A spectral Bloom filter.
///
/// ```
/// use tamis::{Keyed, SpectralBloom};
///
/// let mut words = Keyed::<SpectralBloom>::with_capacity(1000, 0.01)?;
/// for word in ["the", "more", "the", "merrier"] {
///     words.insert(word)?;
/// }
/// assert_eq!((words.count("the"), words.count("less")), (2, 0));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SpectralBloom {
    shape: SpectralBloomShape,
    len: u64,
    counters: Counters,
}

impl SpectralBloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the counters cannot be allocated.
    pub fn new(shape: SpectralBloomShape) -> Result<Self, Error> {
        let counters = Counters::new(&shape.0, shape.0.counters, shape.stride())?;
        Ok(Self { shape, len: 0, counters })
    }

    /// Returns the plain Bloom filter of the counters above 0, for peers that only look keys up. It has the same
    /// answers and number of keys. Its capacity is the number of keys that were inserted when this filter is full, some
    /// of which it does not recognise as new, so its stated rate is that of this filter when it is full.
    ///
    /// # Errors
    /// [`Error::Memory`] if the bits cannot be allocated.
    ///
    /// # Examples
    /// ```
    /// use tamis::{Keyed, SpectralBloom};
    ///
    /// let mut words = Keyed::<SpectralBloom>::with_capacity(1000, 0.01)?;
    /// words.insert("the")?;
    /// let for_peers = Keyed::new(*words.hasher(), words.filter().to_bloom()?);
    /// assert!(for_peers.contains("the") && !for_peers.contains("less"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn to_bloom(&self) -> Result<Bloom, Error> {
        let array = &self.shape.0;
        let (inserted, _) = self.shape.inserted(array.keys);
        self.counters.to_bloom(array, self.len, inserted.min(MAX_KEYS))
    }
}

impl Filter for SpectralBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.counters.all_raised(&self.shape.0, key)
    }

    /// Returns the number of keys that were recognised as new.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.counters.words().len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        self.counters.contains_batch(&self.shape.0, keys, out);
    }
}

impl Build for SpectralBloom {
    type Shape = SpectralBloomShape;

    fn shape(&self) -> &SpectralBloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<SpectralBloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for SpectralBloom {
    /// Inserts a key. Returns [`Full`] only for a new key: copies of a member always fit.
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let array = &self.shape.0;
        let least = self.counters.least(array, key);
        if least == 0 && self.len >= array.keys {
            return Err(Full::NONE);
        }
        if least < array.largest() {
            // Bit `i` is set if the key's probe `i` has raised a counter.
            let mut raised = 0u64;
            for (probe, place) in array.places(key).enumerate() {
                match self.counters.change(array, place, |count| count.max(least + 1)) {
                    Ok(changed) => raised |= u64::from(changed) << probe,
                    Err(full) => {
                        // Memory has run out. Lowering counters takes none.
                        for (probe, place) in array.places(key).enumerate() {
                            if raised >> probe & 1 == 1 {
                                let _ = self.counters.change(array, place, |_| least);
                            }
                        }
                        return Err(full);
                    }
                }
            }
        }
        self.len += u64::from(least == 0);
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        insert_batch(self, keys, |filter, key| filter.counters.prefetch(&filter.shape.0, key))
    }
}

impl Count for SpectralBloom {
    /// Returns the lowest of the key's counters, or `u64::MAX` if it has the largest value.
    fn count(&self, key: KeyHash) -> u64 {
        self.shape.0.count(self.counters.least(&self.shape.0, key))
    }

    /// Returns 2^c - 2, the largest value below the one at which a counter stays; 2^62 - 1 for counters
    /// of variable length.
    fn count_limit(&self) -> u64 {
        self.shape.0.largest() - 1
    }
}

impl Persist for SpectralBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let [counters, probes, width, keys] = self.shape.0.fields();
        match self.counters.stride() {
            None => to.shape(&[counters, probes, width, keys]),
            Some(stride) => to.shape(&[counters, probes, width, keys, stride]),
        }
        to.words(COUNTERS, self.counters.words());
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let array = CounterArray::read(&mut fields, len)?;
        let stride = array.read_stride(&mut fields, array.counters)?;
        fields.finish()?;
        let counters = Counters::read(&array, array.counters, stride, from, COUNTERS)?;
        Ok(Self { shape: SpectralBloomShape(array), len, counters })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let array = &self.shape.0;
        self.counters.validate(array, array.counters)?;
        // A key that is recognised as new raises 1 to k counters from zero.
        let raised = self.counters.iter(array, array.counters).filter(|count| *count > 0);
        let raised = u128::from(raised.count() as u64);
        let len = u128::from(self.len);
        if raised < len || raised > len * u128::from(array.probes) {
            return corrupt("the counters do not match the number of keys");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use tamis_bits::range::mix;

    fn hash(seed: u64, key: u64) -> KeyHash {
        key.hash_with(&KeyHasher::new(HashId::Fast, [seed, 5]))
    }

    /// Compares with a model, with tables so small that places of one key coincide and counters reach
    /// their largest value.
    #[test]
    fn counts_are_never_too_low() {
        for seed in 0..400u64 {
            let (counters, probes) = (1 + mix(seed) % 40, 1 + (mix(seed + 1000) % 9) as u32);
            let width = [0, 2, 3, 4, 5][(seed % 5) as usize];
            let shape = SpectralBloomShape::new(counters, probes, width, 30).unwrap();
            let mut filter = SpectralBloom::new(shape).unwrap();
            let mut model = [0u64; 12];
            for step in 0..300 {
                let key = mix(seed << 32 | step) % 12;
                filter.insert(hash(seed, key)).unwrap();
                model[key as usize] += 1;
                for (key, copies) in (0..).zip(model) {
                    assert!(filter.count(hash(seed, key)) >= copies, "seed {seed}, key {key}");
                }
            }
            filter.validate().unwrap();
        }
    }

    #[test]
    fn the_plain_filter_has_the_same_answers() {
        for width in [0, 2, 5] {
            let mut settings = Settings::default();
            if width > 0 {
                settings.set(WIDTH.name, width);
            }
            let shape = SpectralBloomShape::fit_with(1000, 0.01, &settings).unwrap();
            let mut filter = SpectralBloom::new(shape.clone()).unwrap();
            for key in 0..3000 {
                filter.insert(hash(4, key * 7 % 900)).unwrap();
            }
            let plain = filter.to_bloom().unwrap();
            plain.validate().unwrap();
            assert_eq!(plain.len(), filter.len());
            let ((keys, fpr), plain_shape) = (shape.inserted(1000), plain.shape());
            let off = plain_shape.figures().fpr / fpr - 1.0;
            assert!(plain_shape.keys() == keys && off.abs() < 0.01, "{keys} keys, {off}");
            let accepted = (0..20_000).filter(|key| {
                let key = hash(4, *key);
                assert_eq!(plain.contains(key), filter.contains(key));
                plain.contains(key)
            });
            assert!((900..1200).contains(&accepted.count()));
        }
    }

    #[test]
    fn a_count_past_the_largest_does_not_wrap() {
        for width in [0, 2, 8, 63, 64] {
            let shape = SpectralBloomShape::new(64, 3, width, 10).unwrap();
            let (mut filter, key) = (SpectralBloom::new(shape).unwrap(), hash(1, 1));
            filter.insert(key).unwrap();
            let (array, largest) = (filter.shape.0.clone(), filter.shape.0.largest());
            // Sets the counters as many insertions would.
            for place in array.places(key) {
                filter.counters.change(&array, place, |_| largest - 2).unwrap();
            }
            filter.insert(key).unwrap();
            assert_eq!(filter.count(key), filter.count_limit());
            for _ in 0..3 {
                filter.insert(key).unwrap();
                assert_eq!(filter.count(key), u64::MAX, "{width} bits");
            }
            filter.validate().unwrap();
        }
    }

    #[test]
    fn copies_do_not_count_towards_the_capacity() {
        let shape = SpectralBloomShape::fit(100, 0.01).unwrap();
        let mut filter = SpectralBloom::new(shape).unwrap();
        for _ in 0..50 {
            (0..100).for_each(|key| filter.insert(hash(2, key)).unwrap());
        }
        assert!((98..=100).contains(&filter.len()));
        let exact = (0..100).filter(|key| filter.count(hash(2, *key)) == 50).count();
        assert!(exact >= 98, "{exact}");
        let full = (200..400).filter(|key| filter.insert(hash(2, *key)).is_err()).count();
        assert!(full > 190, "{full}");
    }
}
