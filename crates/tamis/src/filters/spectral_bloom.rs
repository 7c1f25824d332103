//! The spectral Bloom filter: a Bloom filter of counters, which tells how often a key came.
//!
//! ```text
//!  counters   0 2 0 0 7 3 0 0 0 2 0 1 …   m counters of c bits, k of them a key
//!               └─────┴─────────┘
//!               2     7         2          it came at most twice: the lowest says so
//!               3     7         3          and after coming again: only the lowest rise
//! ```
//!
//! That only the lowest rise is the method of *minimal increase*. The lowest of a key's counters is at least
//! how often it came; to raise more than that would only spoil the counts of others.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | c times Bloom's: 77 at 1 % with c = 8 |
//! | cache lines | k |
//! | wrong counts | at k = 5 and 0.7 places a counter: 1.9 % of keys where all come as often, 0.7 % where few come most of the time |
//!
//! It is made for a number of *different* keys; each may come as often as it likes. It counts those that it
//! could tell were new, so a few more than it is made for may come before it is full. A counter that reaches
//! its largest value sticks there, and the count is then told as more than 2^c - 2.
//!
//! It cannot forget: a counter is the largest of several counts, not their sum, and lowering it would deny
//! others. It cannot merge either: the larger of two counters may be too low for a key that is in both.
//! [`RemovableSpectralBloom`](super::RemovableSpectralBloom) can both, and is wrong more often.
//!
//! Cohen, Matias, *Spectral Bloom Filters*, 2003. Differences: counters are of one width, where the paper packs
//! them to the lengths of their values behind an index of strings, at a multiple of the time.

use tamis_bits::{Words, packed, prefetch, set};
use tamis_format::{Fields, Name, Reader, Writer};

use super::bloom::{self, MAX_PROBES, PROBES};
use super::common::{build_by_inserting, insert_batch, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, Persist};

const COUNTERS: Name = Name::new("counters");
const MAX_COUNTERS: u64 = 1 << 47;
const WIDTHS: core::ops::RangeInclusive<u64> = 2..=64;

pub(super) const WIDTH: Setting = Setting::new("c", "2 to 64 bits a counter; else 8");

/// `m` counters of `c` bits, `k` of them a key: what both spectral kinds are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) counters: u64,
    pub(super) probes: u32,
    pub(super) width: u32,
    pub(super) keys: u64,
}

impl Field {
    pub(super) fn new(counters: u64, probes: u32, width: u32, keys: u64) -> Result<Self, Error> {
        if !(1..=MAX_COUNTERS).contains(&counters) {
            return Err(Error::Limit { what: "counters", asked: counters, most: MAX_COUNTERS });
        }
        if !(1..=MAX_PROBES).contains(&probes.into()) {
            let asked = probes.into();
            return Err(Error::Limit { what: "counters a key", asked, most: MAX_PROBES });
        }
        if !WIDTHS.contains(&width.into()) {
            return Err(Error::Limit { what: "bits a counter", asked: width.into(), most: 64 });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { counters, probes, width, keys })
    }

    /// The fewest counters for so many keys, with what is set.
    pub(super) fn fit(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let width = settings.number(&WIDTH, |c| WIDTHS.contains(&c))?.unwrap_or(8);
        let (counters, probes) = bloom::smallest(keys, fpr, settings)?;
        Self::new(counters, probes, width as u32, keys)
    }

    pub(super) fn fields(&self) -> [u64; 4] {
        [self.counters, self.probes.into(), self.width.into(), self.keys]
    }

    /// The fields again, for a filter of at least so many keys.
    pub(super) fn read(fields: &mut Fields, least: u64) -> Result<Self, Error> {
        let counters = fields.next(1..=MAX_COUNTERS, "number of counters")?;
        let probes = fields.next(1..=MAX_PROBES, "counters a key")?;
        let width = fields.next(WIDTHS, "bits a counter")?;
        let keys = fields.next(least..=MAX_KEYS, "keys it is made for")?;
        Self::new(counters, probes as u32, width as u32, keys)
    }

    pub(super) fn words(&self) -> u64 {
        // At most 2^47 counters of 64 bits.
        (self.counters * u64::from(self.width)).div_ceil(64)
    }

    /// What a counter sticks at.
    #[inline(always)]
    pub(super) fn largest(&self) -> u64 {
        packed::mask(self.width)
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

    /// The lowest of a key's counters.
    #[inline(always)]
    pub(super) fn least(&self, counters: &[u64], key: KeyHash) -> u64 {
        self.places(key).map(|place| self.get(counters, place)).min().unwrap_or(0)
    }

    /// Whether none of a key's counters is zero.
    #[inline(always)]
    pub(super) fn all_raised(&self, counters: &[u64], key: KeyHash) -> bool {
        self.places(key).all(|place| self.get(counters, place) > 0)
    }

    #[inline(always)]
    pub(super) fn fetch(&self, counters: &[u64], key: KeyHash) {
        for place in self.places(key) {
            prefetch(counters, (place * u64::from(self.width) / 64) as usize);
        }
    }

    /// What is told of the lowest counter.
    pub(super) fn told(&self, least: u64) -> u64 {
        if least < self.largest() { least } else { u64::MAX }
    }
}

/// A number of counters, their width, and how many of them a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpectralBloomShape(Field);

impl SpectralBloomShape {
    /// A shape by hand: this many counters, this many of them a key, bits of a counter, made for
    /// this many different keys.
    pub fn new(counters: u64, probes: u32, width: u32, keys: u64) -> Result<Self, Error> {
        Field::new(counters, probes, width, keys).map(Self)
    }

    fn rate(&self, keys: u64) -> f64 {
        bloom::rate(self.0.counters, self.0.probes, keys)
    }

    /// How many of so many different keys pass for new when they come: one by one, or by Simpson's rule.
    fn told_new(&self, keys: u64) -> f64 {
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

    /// How many have come when so many were told to be new, and the rate then.
    fn arrived(&self, new: u64) -> (u64, f64) {
        let (mut low, mut high) = (new, new.saturating_mul(8).saturating_add(64));
        if self.told_new(high) < new as f64 {
            return (high, self.rate(high));
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            *(if self.told_new(middle) < new as f64 { &mut low } else { &mut high }) = middle;
        }
        // Between two numbers of keys: with few keys the next is a step.
        let (before, after) = (self.told_new(low), self.told_new(high));
        let part = if after > before { (new as f64 - before) / (after - before) } else { 0.0 };
        let (least, most) = (self.rate(low), self.rate(high));
        (high, least + (most - least) * part.clamp(0.0, 1.0))
    }
}

impl Shape for SpectralBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH];

    /// For as many keys as may come before it has counted so many.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let (come, _) = Self(Field::fit(keys, fpr, settings)?).arrived(keys);
        let field = Field::fit(come.min(MAX_KEYS), fpr, settings)?;
        Ok(Self(Field { keys, ..field }))
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.0.keys,
            fpr: self.rate(self.0.keys),
            bytes: tamis_bits::lines(self.0.words()) * 64,
            query_cost: f64::from(self.0.probes) * 1.125,
        }
    }

    fn keys(&self) -> u64 {
        self.0.keys
    }

    /// Of keys that it counted as new: somewhat fewer than have come.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.arrived(keys).1 }
    }
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
    counters: Words,
}

impl SpectralBloom {
    /// An empty filter.
    pub fn new(shape: SpectralBloomShape) -> Result<Self, Error> {
        let counters = Words::zeroed(usize_words(shape.0.words())?)?;
        Ok(Self { shape, len: 0, counters })
    }
}

impl Filter for SpectralBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.shape.0.all_raised(&self.counters, key)
    }

    /// Different keys, as far as it could tell when they came.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        const LANES: usize = 16;
        assert!(out.len() >= keys.len(), "an answer for each key");
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            keys.iter().for_each(|key| self.shape.0.fetch(&self.counters, *key));
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains(*key);
            }
        }
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
    /// Full is told of a new key only: one that is in may come again for ever.
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let field = &self.shape.0;
        let least = field.least(&self.counters, key);
        if least == 0 {
            if self.len >= field.keys {
                return Err(Full::NONE);
            }
            self.len += 1;
        }
        if least < field.largest() {
            let counters = self.counters.to_mut();
            for place in field.places(key) {
                if field.get(counters, place) == least {
                    field.set(counters, place, least + 1);
                }
            }
        }
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        insert_batch(self, keys, |filter, key| filter.shape.0.fetch(&filter.counters, key))
    }
}

impl Count for SpectralBloom {
    /// The lowest of the key's counters; `u64::MAX` if even that is stuck.
    fn count(&self, key: KeyHash) -> u64 {
        self.shape.0.told(self.shape.0.least(&self.counters, key))
    }

    /// 2^c - 2: one more and the counter is stuck.
    fn count_limit(&self) -> u64 {
        self.shape.0.largest() - 1
    }
}

impl Persist for SpectralBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&self.shape.0.fields());
        to.words(COUNTERS, &self.counters);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let field = Field::read(&mut fields, len)?;
        fields.finish()?;
        let counters = from.words(COUNTERS, field.words())?;
        Ok(Self { shape: SpectralBloomShape(field), len, counters })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let field = &self.shape.0;
        if !set::ends_at(&self.counters, field.counters * u64::from(field.width)) {
            return corrupt("bits are set past the end");
        }
        // Whoever is told to be new raises a counter from zero, and k at the most.
        let raised = (0..field.counters).filter(|place| field.get(&self.counters, *place) > 0);
        let raised = u128::from(raised.count() as u64);
        let len = u128::from(self.len);
        if raised < len || raised > len * u128::from(field.probes) {
            return corrupt("the counters are not those of so many keys");
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

    /// Tables so small that a key's own places coincide and counters stick, against the truth.
    #[test]
    fn counts_are_never_under() {
        for seed in 0..400u64 {
            let (counters, probes) = (1 + mix(seed) % 40, 1 + (mix(seed + 1000) % 9) as u32);
            let width = 2 + (seed % 4) as u32;
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
    fn a_count_past_the_largest_does_not_wrap() {
        for width in [2, 8, 63, 64] {
            let shape = SpectralBloomShape::new(64, 3, width, 10).unwrap();
            let (mut filter, key) = (SpectralBloom::new(shape).unwrap(), hash(1, 1));
            filter.insert(key).unwrap();
            let (field, largest) = (filter.shape.0.clone(), filter.shape.0.largest());
            // As if it had come that often.
            for place in field.places(key) {
                field.set(filter.counters.to_mut(), place, largest - 2);
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
    fn copies_take_no_room() {
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
