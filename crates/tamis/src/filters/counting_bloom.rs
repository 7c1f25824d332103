//! The counting Bloom filter: a Bloom filter that can forget, because it counts its bits.
//!
//! ```text
//!  shadow     0 1 0 0 1 1 0 0 0 1 0 1 …   m bits, set where the counter is not zero:
//!                                         they answer queries
//!  counters   0 2 0 0 1 3 0 0 0 1 0 1 …   m counters of c bits: inserting adds one at the
//!                                         key's k places, removing takes one away
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | c + 1 times Bloom's: 48 at 1 %, 72 at 0.1 %, with c = 4 |
//! | cache lines | queries as Bloom's, in the shadow alone; changing a key: 2k |
//! | building | no failure |
//!
//! A counter that reaches its largest value sticks there: how often it should be lowered again is
//! no longer known. So removing members never denies another member, and what sticking costs is a
//! place that stays taken. At c = 4 and half of the shadow set, a counter sticks with a chance of
//! 1.6 · 10^-15: that takes many copies of one key. [`CountingBloomShape::stuck`] is the formula.
//!
//! It cannot know that a key it is told to remove was never inserted: if it takes it for a member
//! (a false positive), it lowers counters that belong to others, which may deny them later. Where
//! it can tell, `remove` returns `false` and changes nothing. It counts copies of a key up to
//! 2^c - 2, and too high where other keys share all of its places.
//!
//! Fan, Cao, Almeida, Broder, *Summary Cache: A Scalable Wide-Area Web Cache Sharing Protocol*,
//! 2000. Differences: there the counters live with the owner of the set, and the bits are what it
//! sends to others; here the bits are kept beside the counters, because queries that read a fifth
//! of the memory find it in the cache more often. Places that coincide for one key count as often
//! as they occur, on the way in and on the way out.

use tamis_bits::{Words, packed, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{self, MAX_PROBES, PROBES};
use super::common::{build_by_inserting, check_same, sum_of_keys, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, Merge, Persist, Remove};

const SHADOW: Name = Name::new("shadow");
const COUNTERS: Name = Name::new("counters");
const MAX_COUNTERS: u64 = 1 << 48;

/// `m` counters of `c` bits, `k` of them a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingBloomShape {
    counters: u64,
    probes: u32,
    width: u32,
    keys: u64,
}

const WIDTH: Setting = Setting::new("c", "2 to 16 bits a counter; else 4");

impl CountingBloomShape {
    /// A shape by hand: this many counters, this many of them a key, bits of a counter, made for
    /// this many keys.
    pub fn new(counters: u64, probes: u32, width: u32, keys: u64) -> Result<Self, Error> {
        if counters == 0 || counters > MAX_COUNTERS {
            return Err(Error::Limit { what: "counters", asked: counters, most: MAX_COUNTERS });
        }
        if probes == 0 || u64::from(probes) > MAX_PROBES {
            let asked = probes.into();
            return Err(Error::Limit { what: "counters a key", asked, most: MAX_PROBES });
        }
        if !(2..=16).contains(&width) {
            return Err(Error::Limit { what: "bits a counter", asked: width.into(), most: 16 });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { counters, probes, width, keys })
    }

    /// Counters in all.
    pub fn counters(&self) -> u64 {
        self.counters
    }

    /// Counters that a key raises.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Bits of a counter.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The share of counters that are stuck once so many keys have been inserted: those that at
    /// least 2^c - 1 of the k · keys steps fell on, by the binomial distribution.
    pub fn stuck(&self, keys: u64) -> f64 {
        let (m, least) = (self.counters as f64, self.largest() as f64);
        let steps = keys as f64 * f64::from(self.probes);
        if m == 1.0 || steps < least {
            return f64::from(steps >= least);
        }
        // P[X = least], in logarithms; then the terms above it, or one less those below.
        let choose: f64 = (0..self.largest())
            .map(|i| i as f64)
            .map(|i| ((steps - i) / ((i + 1.0) * m)).ln())
            .sum();
        let mut term = (choose + (steps - least) * (-1.0 / m).ln_1p()).exp();
        let (mut sum, mut i) = (0.0, least);
        if steps / m > least {
            while i > 0.0 {
                term *= i * (m - 1.0) / (steps - i + 1.0);
                i -= 1.0;
                sum += term;
            }
            return 1.0 - sum;
        }
        while term > sum * 1e-17 {
            sum += term;
            term *= (steps - i) / ((i + 1.0) * (m - 1.0));
            i += 1.0;
        }
        sum
    }

    fn largest(&self) -> u64 {
        packed::mask(self.width)
    }

    fn shadow_words(&self) -> u64 {
        self.counters.div_ceil(64)
    }

    fn counter_words(&self) -> u64 {
        (self.counters * u64::from(self.width)).div_ceil(64)
    }
}

impl Shape for CountingBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let width = settings.number(&WIDTH, |c| (2..=16).contains(&c))?.unwrap_or(4);
        let (counters, probes) = bloom::smallest(keys, fpr, settings)?;
        Self::new(counters, probes, width as u32, keys)
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (tamis_bits::lines(self.shadow_words())
                + tamis_bits::lines(self.counter_words()))
                * 64,
            query_cost: f64::from(self.probes) * 1.125,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        bloom::rate(self.counters, self.probes, keys)
    }
}

/// A counting Bloom filter.
///
/// ```
/// use tamis::{CountingBloom, Keyed};
///
/// let mut basket = Keyed::<CountingBloom>::with_capacity(1000, 0.01)?;
/// basket.insert("apple")?;
/// basket.insert("apple")?;
/// assert_eq!(basket.count("apple"), 2);
/// assert!(basket.remove("apple") && basket.remove("apple"));
/// assert!(!basket.contains("apple"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CountingBloom {
    shape: CountingBloomShape,
    len: u64,
    shadow: Words,
    counters: Words,
}

impl CountingBloom {
    /// An empty filter.
    pub fn new(shape: CountingBloomShape) -> Result<Self, Error> {
        let shadow = Words::zeroed(usize_words(shape.shadow_words())?)?;
        let counters = Words::zeroed(usize_words(shape.counter_words())?)?;
        Ok(Self { shape, len: 0, shadow, counters })
    }

    /// Counters that have reached their largest value and stay there.
    pub fn stuck(&self) -> u64 {
        let most = self.shape.largest();
        (0..self.shape.counters).filter(|place| self.counter(*place) == most).count() as u64
    }

    #[inline(always)]
    fn probes(&self, key: KeyHash) -> impl Iterator<Item = u64> + Clone + use<> {
        key.probes(self.shape.counters).take(self.shape.probes as usize)
    }

    #[inline(always)]
    fn counter(&self, place: u64) -> u64 {
        packed::get(&self.counters, self.shape.width, place)
    }

    #[inline(always)]
    fn fetch(&self, key: KeyHash) {
        for place in self.probes(key) {
            prefetch(&self.shadow, (place / 64) as usize);
            prefetch(&self.counters, (place * u64::from(self.shape.width) / 64) as usize);
        }
    }
}

impl Filter for CountingBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        bloom::all_set(&self.shadow, self.shape.counters, self.shape.probes, key)
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        bloom::contains_batch_in_rounds(
            &self.shadow,
            self.shape.counters,
            self.shape.probes,
            keys,
            out,
        );
    }
}

impl Build for CountingBloom {
    type Shape = CountingBloomShape;

    fn shape(&self) -> &CountingBloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<CountingBloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for CountingBloom {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        let probes = self.probes(key);
        let (largest, width) = (self.shape.largest(), self.shape.width);
        let (shadow, counters) = (self.shadow.to_mut(), self.counters.to_mut());
        for place in probes {
            let count = packed::get(counters, width, place);
            packed::set(counters, width, place, (count + 1).min(largest));
            set::set(shadow, place);
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::fetch)
    }
}

impl Remove for CountingBloom {
    fn remove(&mut self, key: KeyHash) -> bool {
        let probes = self.probes(key);
        let (largest, width) = (self.shape.largest(), self.shape.width);
        // A member has raised each of its counters as often as it probes there. Where one is
        // lower, the key is not in, whatever the shadow says; and no counter falls below zero.
        let raised = |place: u64| {
            let count = self.counter(place);
            count == largest
                || count >= probes.clone().filter(|other| *other == place).count() as u64
        };
        if self.len == 0 || !probes.clone().all(raised) {
            return false;
        }
        let (shadow, counters) = (self.shadow.to_mut(), self.counters.to_mut());
        for place in probes {
            let count = packed::get(counters, width, place);
            if count < largest {
                packed::set(counters, width, place, count - 1);
                if count == 1 {
                    set::clear(shadow, place);
                }
            }
        }
        self.len -= 1;
        true
    }
}

impl Count for CountingBloom {
    /// The lowest of the key's counters. A stuck one says nothing, so if all of them are stuck the
    /// answer is `u64::MAX`.
    fn count(&self, key: KeyHash) -> u64 {
        let least = self.probes(key).map(|place| self.counter(place)).min();
        least.filter(|count| *count < self.shape.largest()).unwrap_or(u64::MAX)
    }

    /// 2^c - 2: one more and the counter is stuck.
    fn count_limit(&self) -> u64 {
        self.shape.largest() - 1
    }
}

impl Merge for CountingBloom {
    /// Adds counter to counter; what is stuck in one of them, or gets that high, is stuck.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        self.len = sum_of_keys(self.len, other.len, self.shape.keys)?;
        let (largest, width) = (self.shape.largest(), self.shape.width);
        let counters = self.counters.to_mut();
        for place in 0..self.shape.counters {
            let count = packed::get(counters, width, place) + other.counter(place);
            packed::set(counters, width, place, count.min(largest));
        }
        set::unite(self.shadow.to_mut(), &other.shadow);
        Ok(())
    }
}

impl Persist for CountingBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let CountingBloomShape { counters, probes, width, keys } = self.shape;
        to.shape(&[counters, probes.into(), width.into(), keys]);
        to.words(SHADOW, &self.shadow);
        to.words(COUNTERS, &self.counters);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let counters = fields.next(1..=MAX_COUNTERS, "number of counters")?;
        let probes = fields.next(1..=MAX_PROBES, "counters a key")?;
        let width = fields.next(2..=16, "bits a counter")?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        fields.finish()?;
        let shape = CountingBloomShape::new(counters, probes as u32, width as u32, keys)?;
        let shadow = from.words(SHADOW, shape.shadow_words())?;
        let counters = from.words(COUNTERS, shape.counter_words())?;
        Ok(Self { shape, len, shadow, counters })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let CountingBloomShape { counters, width, .. } = self.shape;
        if !set::ends_at(&self.shadow, counters)
            || !set::ends_at(&self.counters, counters * u64::from(width))
        {
            return corrupt("bits are set past the end");
        }
        let (mut sum, mut stuck) = (0u64, false);
        for place in 0..counters {
            let count = self.counter(place);
            if set::get(&self.shadow, place) != (count > 0) {
                return corrupt("the shadow is not that of the counters");
            }
            (sum, stuck) = (sum + count, stuck | (count == self.shape.largest()));
        }
        // Every key adds k, and removing takes as much away, unless a counter stuck.
        if !stuck && u128::from(sum) != u128::from(self.len) * u128::from(self.shape.probes) {
            return corrupt("the counters do not add up to the keys");
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
        key.hash_with(&KeyHasher::new(HashId::Fast, [seed, 7]))
    }

    #[test]
    fn stuck_counters_by_the_formula() {
        // A Poisson number of steps with mean ln 2 is 15 or more with 1.64e-15.
        let shape = CountingBloomShape::new(1_000_000, 7, 4, 99_021).unwrap();
        assert!((shape.stuck(99_021) / 1.64e-15 - 1.0).abs() < 0.005, "{}", shape.stuck(99_021));
        // Measured, on both sides of the mean.
        for (width, keys) in [(2, 10_000), (2, 30_000), (2, 90_000), (3, 90_000)] {
            let shape = CountingBloomShape::new(100_000, 5, width, keys).unwrap();
            let expected = shape.stuck(keys) * 1e5;
            let mut filter = CountingBloom::new(shape).unwrap();
            (0..keys).for_each(|key| filter.insert(hash(1, key)).unwrap());
            let largest = filter.shape.largest();
            let stuck =
                (0..100_000).filter(|place| filter.counter(*place) == largest).count() as f64;
            // Five standard deviations of a binomial count.
            let slack = 5.0 * (expected * (1.0 - expected / 1e5)).sqrt();
            assert!((stuck - expected).abs() < slack, "{stuck} stuck, {expected} expected");
        }
        let one = CountingBloomShape::new(1, 1, 2, 9).unwrap();
        assert_eq!((one.stuck(2), one.stuck(3)), (0.0, 1.0));
    }

    #[test]
    fn a_full_counter_sticks() {
        let shape = CountingBloomShape::new(640, 3, 2, 1000).unwrap();
        let (mut filter, key) = (CountingBloom::new(shape).unwrap(), hash(2, 1));
        assert!(!filter.remove(key));
        for copies in 1..=2 {
            filter.insert(key).unwrap();
            assert_eq!(filter.count(key), copies);
        }
        assert_eq!(filter.count_limit(), 2);
        filter.insert(key).unwrap();
        assert_eq!(filter.count(key), u64::MAX);
        for _ in 0..3 {
            assert!(filter.remove(key));
        }
        // It cannot know that this was the last copy, but it knows that it is empty.
        assert!(filter.contains(key) && filter.is_empty());
        let before = filter.clone();
        assert!(!filter.remove(key));
        assert_eq!(filter, before);
    }

    /// Tables so small that a key's own places coincide and counters stick in the middle of a key,
    /// against the multiset of what is in.
    #[test]
    fn members_are_never_denied() {
        for seed in 0..400u64 {
            let (counters, probes) = (1 + mix(seed) % 40, 1 + (mix(seed + 1000) % 9) as u32);
            let shape =
                CountingBloomShape::new(counters, probes, 2 + (seed % 2) as u32, 30).unwrap();
            let mut filter = CountingBloom::new(shape).unwrap();
            let mut model = [0u64; 12];
            for step in 0..500 {
                let random = mix(seed << 32 | step);
                let key = (random % 12) as usize;
                if random >> 63 == 0 {
                    let fits = model.iter().sum::<u64>() < 30;
                    assert_eq!(filter.insert(hash(seed, key as u64)).is_ok(), fits);
                    model[key] += u64::from(fits);
                } else if model[key] > 0 {
                    assert!(filter.remove(hash(seed, key as u64)), "a member is removed");
                    model[key] -= 1;
                }
                assert_eq!(filter.len(), model.iter().sum::<u64>());
                for (key, copies) in model.iter().enumerate() {
                    let hash = hash(seed, key as u64);
                    assert!(*copies == 0 || filter.contains(hash), "seed {seed} denies {key}");
                    assert!(filter.count(hash) >= *copies, "seed {seed} undercounts {key}");
                }
            }
            filter.validate().unwrap();
        }
    }

    #[test]
    fn a_stranger_that_can_be_told_changes_nothing() {
        // One probe of each of two keys falls on the same place; the other key probes it twice.
        let shape = CountingBloomShape::new(3, 4, 4, 10).unwrap();
        let mut told = 0;
        for seed in 0..200 {
            let mut filter = CountingBloom::new(shape.clone()).unwrap();
            filter.insert(hash(seed, 0)).unwrap();
            let before = filter.clone();
            if filter.contains(hash(seed, 1)) && !filter.remove(hash(seed, 1)) {
                assert_eq!(filter, before);
                told += 1;
            }
            filter.validate().unwrap();
        }
        assert!(told > 20, "{told} of 200");
    }

    #[test]
    fn merging_adds_and_sticks() {
        let shape = CountingBloomShape::new(200, 4, 2, 100).unwrap();
        let build = |keys: &[u64]| {
            let hashes: Vec<KeyHash> = keys.iter().map(|key| hash(3, *key)).collect();
            CountingBloom::build(shape.clone(), &hashes[..]).unwrap()
        };
        let (mut a, b) = (build(&[1, 2, 2, 3]), build(&[2, 2, 4]));
        a.merge(&b).unwrap();
        assert_eq!(a, build(&[1, 2, 2, 3, 2, 2, 4]));
        a.validate().unwrap();
        assert_eq!(a.count(hash(3, 2)), u64::MAX);
        let full = build(&[9; 94]);
        assert!(matches!(a.merge(&full), Err(Error::Capacity { capacity: 100 })));
        assert_eq!(a, build(&[1, 2, 2, 3, 2, 2, 4]));
    }
}
