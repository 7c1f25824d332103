//! The counting Bloom filter: a Bloom filter with removal, which counts the keys at each bit.
//!
//! ```text
//!  shadow     0 1 0 0 1 1 0 0 0 1 0 1 …   m bits, set where the counter is not zero:
//!                                         lookups read only these
//!  counters   0 2 0 0 1 3 0 0 0 1 0 1 …   m counters of c bits: inserting adds 1 at the
//!                                         key's k places, removing subtracts 1
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | c + 1 times Bloom's: 48 at 1 %, 72 at 0.1 %, with c = 4 |
//! | cache lines | lookups as in Bloom, in the shadow alone; inserting or removing: 2k |
//! | building | cannot fail |
//!
//! A counter that reaches its largest value stays there (it is *stuck*), because the number of keys
//! behind it is no longer known. So removing members never causes a false negative. The cost of a stuck
//! counter is a bit that stays set. At c = 4 and half of the shadow set, a counter is stuck with
//! probability 1.6 · 10^-15, unless there are many copies of one key. [`CountingBloomShape::stuck`] is
//! the formula.
//!
//! The filter does not know whether a key to remove was inserted. Removing a false positive lowers
//! counters of other keys, which may cause false negatives. If the counters show that the key is not in,
//! `remove` returns `false` and changes nothing. The filter counts copies of a key up to 2^c - 2, and
//! too high if other keys share all of its places.
//!
//! Fan, Cao, Almeida, Broder, *Summary Cache: A Scalable Wide-Area Web Cache Sharing Protocol*,
//! 2000. Differences: in the paper the owner of the set has the counters and sends the bits to others.
//! Here the bits are stored beside the counters, because lookups that read a fifth of the memory find it
//! in the cache more often. Places of one key that coincide are counted once per probe, by insertions
//! and by removals.

use tamis_bits::{Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{self, Bloom, BloomShape, MAX_PROBES, PROBES};
use super::common::bit_array::BitArray;
use super::common::{build_by_inserting, check_same, sum_of_keys, usize_words};
use super::spectral_bloom::CounterArray;
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

/// The shape: the number of counters, their width, and how many of them a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingBloomShape(CounterArray);

const WIDTH: Setting = Setting::new("c", "2 to 16: bits per counter; default 4");

impl CountingBloomShape {
    /// Returns the shape of `counters` counters of `width` bits, `probes` of them per key, for `keys`
    /// keys.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(counters: u64, probes: u32, width: u32, keys: u64) -> Result<Self, Error> {
        if counters == 0 || counters > MAX_COUNTERS {
            return Err(Error::Limit { what: "counters", asked: counters, most: MAX_COUNTERS });
        }
        if probes == 0 || u64::from(probes) > MAX_PROBES {
            let asked = probes.into();
            return Err(Error::Limit { what: "counters per key", asked, most: MAX_PROBES });
        }
        if !(2..=16).contains(&width) {
            return Err(Error::Limit { what: "bits per counter", asked: width.into(), most: 16 });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self(CounterArray { counters, probes, width, keys }))
    }

    /// Returns the number of counters.
    pub fn counters(&self) -> u64 {
        self.0.counters
    }

    /// Returns the number of counters that a key raises.
    pub fn probes(&self) -> u32 {
        self.0.probes
    }

    /// Returns the bits of a counter.
    pub fn width(&self) -> u32 {
        self.0.width
    }

    /// Returns the expected fraction of stuck counters after `keys` keys were inserted: those that
    /// at least 2^c - 1 of the k · keys steps raised, by the binomial distribution.
    pub fn stuck(&self, keys: u64) -> f64 {
        let (m, least) = (self.0.counters as f64, self.0.largest() as f64);
        let steps = keys as f64 * f64::from(self.0.probes);
        if m == 1.0 || steps < least {
            return f64::from(steps >= least);
        }
        // P[X = least], in logarithms; then the terms above it, or 1 minus those below.
        let choose: f64 = (0..self.0.largest())
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

    fn shadow_words(&self) -> u64 {
        self.0.counters.div_ceil(64)
    }
}

impl Shape for CountingBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let width = settings.number(&WIDTH, |c| (2..=16).contains(&c))?.unwrap_or(4);
        let (counters, probes) = bloom::smallest(keys, fpr, settings)?;
        Self::new(counters, probes, width as u32, keys)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("m", self.0.counters.into()), ("k", self.0.probes.into()), ("c", self.0.width.into())]
            .into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.0.keys,
            fpr: self.fpr_at(self.0.keys),
            bytes: (tamis_bits::lines(self.shadow_words()) + tamis_bits::lines(self.0.words()))
                * 64,
            query_cost: f64::from(self.0.probes) * 1.125,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        bloom::rate(self.0.counters, self.0.probes, keys)
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
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the tables cannot be allocated.
    pub fn new(shape: CountingBloomShape) -> Result<Self, Error> {
        let shadow = Words::zeroed(usize_words(shape.shadow_words())?)?;
        let counters = Words::zeroed(usize_words(shape.0.words())?)?;
        Ok(Self { shape, len: 0, shadow, counters })
    }

    /// Returns the number of counters that have reached their largest value and stay there.
    pub fn stuck(&self) -> u64 {
        let array = &self.shape.0;
        let stuck = |place: &u64| array.get(&self.counters, *place) == array.largest();
        (0..array.counters).filter(stuck).count() as u64
    }

    /// Returns the plain Bloom filter of the shadow bits: c + 1 times smaller, for peers that only look
    /// keys up. It has the same answers, capacity and number of keys.
    ///
    /// # Errors
    /// [`Error::Memory`] if the bits cannot be allocated.
    ///
    /// # Examples
    /// ```
    /// use tamis::{CountingBloom, Keyed};
    ///
    /// let mut cache = Keyed::<CountingBloom>::with_capacity(1000, 0.01)?;
    /// cache.insert("index.html")?;
    /// let for_peers = Keyed::new(*cache.hasher(), cache.filter().to_bloom()?);
    /// assert!(for_peers.contains("index.html") && !for_peers.contains("about.html"));
    /// assert!(for_peers.bytes() * 4 < cache.bytes());
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn to_bloom(&self) -> Result<Bloom, Error> {
        let CounterArray { counters, probes, keys, .. } = self.shape.0;
        let shape = BloomShape::new(counters, probes, keys)?;
        let words = Words::copy_of(&self.shadow)?;
        Ok(Bloom::from_parts(shape, BitArray::from_parts(words, self.len, keys)))
    }

    #[inline(always)]
    fn prefetch(&self, key: KeyHash) {
        let array = &self.shape.0;
        for place in array.places(key) {
            prefetch(&self.shadow, (place / 64) as usize);
            prefetch(&self.counters, (place * u64::from(array.width) / 64) as usize);
        }
    }
}

impl Filter for CountingBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        bloom::all_set(&self.shadow, self.shape.0.counters, self.shape.0.probes, key)
    }

    /// Returns the insertions less the removals.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.shadow.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        bloom::contains_batch_in_rounds(
            &self.shadow,
            self.shape.0.counters,
            self.shape.0.probes,
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
        let array = &self.shape.0;
        if self.len >= array.keys {
            return Err(Full::NONE);
        }
        let largest = array.largest();
        let (shadow, counters) = (self.shadow.to_mut(), self.counters.to_mut());
        for place in array.places(key) {
            let count = array.get(counters, place);
            array.set(counters, place, (count + 1).min(largest));
            set::set(shadow, place);
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::prefetch)
    }
}

impl Remove for CountingBloom {
    fn remove(&mut self, key: KeyHash) -> bool {
        let (array, largest) = (&self.shape.0, self.shape.0.largest());
        if self.len == 0 || !array.is_removable(key, |place| array.get(&self.counters, place)) {
            return false;
        }
        let (shadow, counters) = (self.shadow.to_mut(), self.counters.to_mut());
        for place in array.places(key) {
            let count = array.get(counters, place);
            if count < largest {
                array.set(counters, place, count - 1);
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
    /// Returns the lowest of the key's counters, or `u64::MAX` if all of them are stuck.
    fn count(&self, key: KeyHash) -> u64 {
        self.shape.0.count(self.shape.0.least(&self.counters, key))
    }

    /// Returns 2^c - 2, the largest value below the one at which a counter is stuck.
    fn count_limit(&self) -> u64 {
        self.shape.0.largest() - 1
    }
}

impl Merge for CountingBloom {
    /// Adds all counters. Sums that reach the largest value are stuck.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        self.len = sum_of_keys(self.len, other.len, self.shape.0.keys)?;
        self.shape.0.add(self.counters.to_mut(), &other.counters);
        set::unite(self.shadow.to_mut(), &other.shadow);
        Ok(())
    }
}

impl Persist for CountingBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&self.shape.0.fields());
        to.words(SHADOW, &self.shadow);
        to.words(COUNTERS, &self.counters);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let counters = fields.next(1..=MAX_COUNTERS, "number of counters")?;
        let probes = fields.next(1..=MAX_PROBES, "counters per key")?;
        let width = fields.next(2..=16, "bits per counter")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        fields.finish()?;
        let shape = CountingBloomShape::new(counters, probes as u32, width as u32, keys)?;
        let shadow = from.words(SHADOW, shape.shadow_words())?;
        let counters = from.words(COUNTERS, shape.0.words())?;
        Ok(Self { shape, len, shadow, counters })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let array = &self.shape.0;
        if !set::ends_at(&self.shadow, array.counters)
            || !set::ends_at(&self.counters, array.counters * u64::from(array.width))
        {
            return corrupt("bits are set past the last counter");
        }
        let (mut sum, mut stuck) = (0u64, false);
        for place in 0..array.counters {
            let count = array.get(&self.counters, place);
            if set::get(&self.shadow, place) != (count > 0) {
                return corrupt("the shadow does not match the counters");
            }
            (sum, stuck) = (sum + count, stuck | (count == array.largest()));
        }
        // Every insertion adds k and every removal subtracts k, unless a counter is stuck.
        if !stuck && u128::from(sum) != u128::from(self.len) * u128::from(array.probes) {
            return corrupt("the sum of the counters does not match the number of keys");
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
    fn the_formula_of_stuck_counters_holds() {
        // A Poisson number of steps with mean ln 2 is 15 or more with probability 1.64e-15.
        let shape = CountingBloomShape::new(1_000_000, 7, 4, 99_021).unwrap();
        assert!((shape.stuck(99_021) / 1.64e-15 - 1.0).abs() < 0.005, "{}", shape.stuck(99_021));
        // Measured, on both sides of the mean.
        for (width, keys) in [(2, 10_000), (2, 30_000), (2, 90_000), (3, 90_000)] {
            let shape = CountingBloomShape::new(100_000, 5, width, keys).unwrap();
            let expected = shape.stuck(keys) * 1e5;
            let mut filter = CountingBloom::new(shape).unwrap();
            (0..keys).for_each(|key| filter.insert(hash(1, key)).unwrap());
            let stuck = filter.stuck() as f64;
            // Five standard deviations of a binomial count.
            let slack = 5.0 * (expected * (1.0 - expected / 1e5)).sqrt();
            assert!((stuck - expected).abs() < slack, "{stuck} stuck, {expected} expected");
        }
        let one = CountingBloomShape::new(1, 1, 2, 9).unwrap();
        assert_eq!((one.stuck(2), one.stuck(3)), (0.0, 1.0));
    }

    #[test]
    fn a_counter_at_its_largest_value_is_stuck() {
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
        // The filter does not know that this was the last copy, but its length is 0.
        assert!(filter.contains(key) && filter.is_empty());
        let before = filter.clone();
        assert!(!filter.remove(key));
        assert_eq!(filter, before);
    }

    /// Compares with a model, with tables so small that places of one key coincide and counters are
    /// stuck in the middle of an insertion.
    #[test]
    fn members_are_never_rejected() {
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
                    assert!(*copies == 0 || filter.contains(hash), "seed {seed} rejects {key}");
                    assert!(filter.count(hash) >= *copies, "seed {seed}: count of {key} too low");
                }
            }
            filter.validate().unwrap();
        }
    }

    #[test]
    fn the_plain_filter_has_the_same_answers() {
        for (width, copies) in [(4, 1), (2, 5)] {
            let shape = CountingBloomShape::new(9_600, 7, width, 1000 * copies).unwrap();
            let mut filter = CountingBloom::new(shape).unwrap();
            for key in 0..1000 * copies {
                filter.insert(hash(4, key % 1000)).unwrap();
            }
            // Stuck counters leave bits behind, which the plain filter has too.
            for key in 500 * copies..1000 * copies {
                assert!(filter.remove(hash(4, key % 1000)));
            }
            let plain = filter.to_bloom().unwrap();
            plain.validate().unwrap();
            assert_eq!((plain.len(), plain.shape().keys()), (500 * copies, 1000 * copies));
            for key in 0..20_000 {
                assert_eq!(plain.contains(hash(4, key)), filter.contains(hash(4, key)));
            }
        }
    }

    #[test]
    fn removing_a_recognised_non_member_changes_nothing() {
        // Both keys probe the same place, but the second key probes it twice.
        let shape = CountingBloomShape::new(3, 4, 4, 10).unwrap();
        let mut recognised = 0;
        for seed in 0..200 {
            let mut filter = CountingBloom::new(shape.clone()).unwrap();
            filter.insert(hash(seed, 0)).unwrap();
            let before = filter.clone();
            if filter.contains(hash(seed, 1)) && !filter.remove(hash(seed, 1)) {
                assert_eq!(filter, before);
                recognised += 1;
            }
            filter.validate().unwrap();
        }
        assert!(recognised > 20, "{recognised} of 200");
    }

    #[test]
    fn merging_adds_counters() {
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
