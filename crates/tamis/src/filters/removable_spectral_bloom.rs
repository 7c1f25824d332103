//! The spectral Bloom filter with removal: counts copies of keys, removes them, and merges.
//!
//! ```text
//!  counters   0 2 0 0 7 3 0 0 0 2 0 1 …   m counters of c bits: inserting adds 1 at the key's k
//!                                         places, removing subtracts 1
//!  exact      | digest  digest … |        with `method=2`: keys with a unique lowest counter,
//!             | count   count  … |        8 in a bucket, each with a count of its own
//! ```
//!
//! *Minimum selection* (`method=1`): a key's count is the lowest of its counters, which is too high if
//! each of them is shared with other keys. *Recurring minimum* (`method=2`): if two counters of a key
//! have the lowest value it is most likely right, because both would have to be shared. If only one
//! has it, the key gets an exact count, which starts at that value and counts this key alone.
//!
//! | figure | method 1 | method 2 |
//! | --- | --- | --- |
//! | bits per key | c times Bloom's: 77 at 1 % with c = 8 | 6 more |
//! | cache lines | k | k + 1 |
//!
//! The capacity is a number of copies, whether of one key or of many, because each of them may be
//! removed again. A counter that reaches its largest value stays there. Removing a false positive
//! lowers counters of other keys and may cause false negatives. To count without removal,
//! [`SpectralBloom`](super::SpectralBloom) has fewer wrong counts in the same memory. To count and
//! remove in the least memory there is [`CountingQuotient`](super::CountingQuotient).
//!
//! Cohen, Matias, *Spectral Bloom Filters*, 2003. Differences: in the paper the keys with a unique
//! minimum go to a second, smaller filter of the same kind. Such a filter has false positives, and then
//! counts those keys too low. Here they are identified by 64 bits of their hash and their bucket by the
//! other 64, which takes no more memory than half as many counters again. A full bucket takes no more
//! keys, which are then counted by their lowest counters. Merging drops the exact counts.

use tamis_bits::range::scale;
use tamis_bits::{Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{self, PROBES};
use super::common::{build_by_inserting, check_same, sum_of_keys, usize_words};
use super::spectral_bloom::{CounterArray, WIDTH};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Count, Filter, Insert, Merge, Persist, Remove};

const COUNTERS: Name = Name::new("counters");
const DIGESTS: Name = Name::new("digests");
const COUNTS: Name = Name::new("counts");
/// Exact counts in a bucket; their digests fill a cache line.
const BUCKET: u64 = 8;
const MAX_BUCKETS: u64 = 1 << 44;

/// The shape: the number of counters, their width, how many of them a key has, and room for exact counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovableSpectralBloomShape {
    array: CounterArray,
    /// Buckets of exact counts; 0 for minimum selection.
    buckets: u64,
}

const METHOD: Setting =
    Setting::new("method", "1 for minimum selection, 2 for recurring minimum; default 1");

impl RemovableSpectralBloomShape {
    /// Returns the shape of `counters` counters of `width` bits, `probes` of them per key, for `keys`
    /// copies of keys, with `buckets` buckets of 8 exact counts: 0 for minimum selection.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(
        counters: u64,
        probes: u32,
        width: u32,
        keys: u64,
        buckets: u64,
    ) -> Result<Self, Error> {
        let array = CounterArray::new(counters, probes, width, keys)?;
        if buckets > MAX_BUCKETS {
            return Err(Error::Limit { what: "buckets", asked: buckets, most: MAX_BUCKETS });
        }
        Ok(Self { array, buckets })
    }

    /// Returns the buckets for all keys with a unique lowest counter: those of which at most one
    /// counter is not shared. With 20 % to spare, few buckets are full.
    fn buckets(array: &CounterArray) -> u64 {
        let (k, n) = (f64::from(array.probes), array.keys as f64);
        let alone = (-k * n / array.counters as f64).exp();
        let shared = 1.0 - alone;
        let share = shared.powf(k) + k * alone * shared.powf(k - 1.0);
        ((n * share * 1.2 / BUCKET as f64).ceil() as u64 + 1).min(MAX_BUCKETS)
    }

    fn digest_words(&self) -> u64 {
        self.buckets * BUCKET
    }

    fn count_words(&self) -> u64 {
        (self.buckets * BUCKET * u64::from(self.array.width)).div_ceil(64)
    }
}

impl Shape for RemovableSpectralBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH, METHOD];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let method = settings.number(&METHOD, |method| (1..=2).contains(&method))?;
        let array = CounterArray::fit(keys, fpr, settings)?;
        let buckets = if method == Some(2) { Self::buckets(&array) } else { 0 };
        Ok(Self { array, buckets })
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [
            ("m", self.array.counters.into()),
            ("k", self.array.probes.into()),
            ("c", self.array.width.into()),
            ("buckets", self.buckets.into()),
        ]
        .into()
    }

    fn figures(&self) -> Figures {
        let words = [self.array.words(), self.digest_words(), self.count_words()];
        Figures {
            keys: self.array.keys,
            fpr: self.fpr_at(self.array.keys),
            bytes: words.iter().map(|words| tamis_bits::lines(*words) * 64).sum(),
            query_cost: f64::from(self.array.probes) * 1.125,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        bloom::rate(self.array.counters, self.array.probes, keys)
    }
}

/// A spectral Bloom filter with removal.
///
/// ```
/// use tamis::{Keyed, RemovableSpectralBloom};
///
/// let mut stock = Keyed::<RemovableSpectralBloom>::with_capacity(1000, 0.01)?;
/// stock.insert("apple")?;
/// stock.insert("apple")?;
/// assert!(stock.remove("apple"));
/// assert_eq!(stock.count("apple"), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RemovableSpectralBloom {
    shape: RemovableSpectralBloomShape,
    len: u64,
    counters: Words,
    digests: Words,
    counts: Words,
}

impl RemovableSpectralBloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the tables cannot be allocated.
    pub fn new(shape: RemovableSpectralBloomShape) -> Result<Self, Error> {
        let counters = Words::zeroed(usize_words(shape.array.words())?)?;
        let digests = Words::zeroed(usize_words(shape.digest_words())?)?;
        let counts = Words::zeroed(usize_words(shape.count_words())?)?;
        Ok(Self { shape, len: 0, counters, digests, counts })
    }

    /// Returns the digest that identifies a key with an exact count. 0 marks an empty slot.
    #[inline(always)]
    fn digest(key: KeyHash) -> u64 {
        key.hi.max(1)
    }

    /// Returns the slot that holds `digest` in the key's bucket of exact counts.
    #[inline(always)]
    fn find_exact(&self, key: KeyHash, digest: u64) -> Option<u64> {
        let start = scale(key.lo, self.shape.buckets) * BUCKET;
        (start..start + BUCKET)
            .take(self.digests.len())
            .find(|slot| self.digests[*slot as usize] == digest)
    }

    fn set_exact(&mut self, slot: u64, digest: u64, count: u64) {
        self.digests.to_mut()[slot as usize] = digest;
        self.shape.array.set(self.counts.to_mut(), slot, count);
    }

    /// Gives a key an exact count if its lowest counter is unique.
    fn insert_exact(&mut self, key: KeyHash) {
        let array = &self.shape.array;
        let least = array.least(&self.counters, key);
        let mut lowest =
            array.places(key).filter(|place| array.get(&self.counters, *place) == least);
        let first = lowest.next();
        let unique = lowest.all(|place| Some(place) == first);
        if unique
            && least < array.largest()
            && let Some(free) = self.find_exact(key, 0)
        {
            self.set_exact(free, Self::digest(key), least);
        }
    }

    #[inline(always)]
    fn prefetch(&self, key: KeyHash) {
        self.shape.array.prefetch(&self.counters, key);
        prefetch(&self.digests, (scale(key.lo, self.shape.buckets) * BUCKET) as usize);
    }
}

impl Filter for RemovableSpectralBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.shape.array.all_raised(&self.counters, key)
    }

    /// Returns the insertions less the removals.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.counters.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        self.shape.array.contains_batch(&self.counters, keys, out);
    }
}

impl Build for RemovableSpectralBloom {
    type Shape = RemovableSpectralBloomShape;

    fn shape(&self) -> &RemovableSpectralBloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<RemovableSpectralBloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for RemovableSpectralBloom {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        let array = &self.shape.array;
        if self.len >= array.keys {
            return Err(Full::NONE);
        }
        let (counters, largest) = (self.counters.to_mut(), array.largest());
        for place in array.places(key) {
            let count = array.get(counters, place);
            array.set(counters, place, count.saturating_add(1).min(largest));
        }
        if self.shape.buckets > 0 {
            match self.find_exact(key, Self::digest(key)) {
                Some(slot) => {
                    let count = array.get(&self.counts, slot).saturating_add(1).min(largest);
                    array.set(self.counts.to_mut(), slot, count);
                }
                None => self.insert_exact(key),
            }
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::prefetch)
    }
}

impl Remove for RemovableSpectralBloom {
    fn remove(&mut self, key: KeyHash) -> bool {
        let (array, largest) = (&self.shape.array, self.shape.array.largest());
        if self.len == 0 || !array.is_removable(&self.counters, key) {
            return false;
        }
        let counters = self.counters.to_mut();
        for place in array.places(key) {
            let count = array.get(counters, place);
            if count < largest {
                array.set(counters, place, count - 1);
            }
        }
        if let Some(slot) = self.find_exact(key, Self::digest(key)) {
            match array.get(&self.counts, slot) {
                _ if array.least(&self.counters, key) == 0 => self.set_exact(slot, 0, 0),
                0 | 1 => self.set_exact(slot, 0, 0),
                count if count < largest => array.set(self.counts.to_mut(), slot, count - 1),
                _ => {}
            }
        }
        self.len -= 1;
        true
    }
}

impl Count for RemovableSpectralBloom {
    /// Returns the lowest of the key's counters, or its exact count if that is lower, or `u64::MAX` if
    /// it has the largest value.
    fn count(&self, key: KeyHash) -> u64 {
        let array = &self.shape.array;
        let least = array.least(&self.counters, key);
        let slot = self.find_exact(key, Self::digest(key));
        let exact = slot.map(|slot| array.get(&self.counts, slot));
        // A member's count is never 0: its exact count is cleared when its last copy is removed.
        array.count(exact.map_or(least, |exact| least.min(exact.max(1))))
    }

    /// Returns 2^c - 2, the largest value below the one at which a counter stays.
    fn count_limit(&self) -> u64 {
        self.shape.array.largest() - 1
    }
}

impl Merge for RemovableSpectralBloom {
    /// Adds all counters. Drops the exact counts unless `other` is empty, because the counters of a
    /// key do not follow from its digest.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        let len = sum_of_keys(self.len, other.len, self.shape.array.keys)?;
        if other.is_empty() {
            return Ok(());
        }
        self.shape.array.add(self.counters.to_mut(), &other.counters);
        self.digests.to_mut().fill(0);
        self.counts.to_mut().fill(0);
        self.len = len;
        Ok(())
    }
}

impl Persist for RemovableSpectralBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let [counters, probes, width, keys] = self.shape.array.fields();
        to.shape(&[counters, probes, width, keys, self.shape.buckets]);
        to.words(COUNTERS, &self.counters);
        to.words(DIGESTS, &self.digests);
        to.words(COUNTS, &self.counts);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let array = CounterArray::read(&mut fields, len)?;
        let buckets = fields.next(0..=MAX_BUCKETS, "number of buckets")?;
        fields.finish()?;
        let shape = RemovableSpectralBloomShape { array, buckets };
        let counters = from.words(COUNTERS, shape.array.words())?;
        let digests = from.words(DIGESTS, shape.digest_words())?;
        let counts = from.words(COUNTS, shape.count_words())?;
        Ok(Self { shape, len, counters, digests, counts })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let RemovableSpectralBloomShape { array, buckets } = &self.shape;
        let slots = buckets * BUCKET;
        if !set::ends_at(&self.counters, array.counters * u64::from(array.width))
            || !set::ends_at(&self.counts, slots * u64::from(array.width))
        {
            return corrupt("bits are set past the last counter");
        }
        let (mut sum, mut stuck) = (0u128, false);
        for place in 0..array.counters {
            let count = array.get(&self.counters, place);
            (sum, stuck) = (sum + u128::from(count), stuck | (count == array.largest()));
        }
        // Every insertion adds k and every removal subtracts k, unless a counter has its largest value.
        if !stuck && sum != u128::from(self.len) * u128::from(array.probes) {
            return corrupt("the sum of the counters does not match the number of keys");
        }
        let empty = |slot: u64| self.digests[slot as usize] == 0;
        match (0..slots).all(|slot| empty(slot) == (array.get(&self.counts, slot) == 0)) {
            true => Ok(()),
            false => corrupt("an exact count has no digest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use tamis_bits::range::mix;

    fn hash(seed: u64, key: u64) -> KeyHash {
        key.hash_with(&KeyHasher::new(HashId::Fast, [seed, 6]))
    }

    /// Compares both methods with a model, with tables so small that places of one key coincide,
    /// counters reach their largest value and buckets are full.
    #[test]
    fn members_are_never_rejected_nor_counted_too_low() {
        for seed in 0..600u64 {
            let (counters, probes) = (1 + mix(seed) % 60, 1 + (mix(seed + 1000) % 9) as u32);
            let (width, buckets) = (2 + (seed % 5) as u32, seed % 3);
            let shape =
                RemovableSpectralBloomShape::new(counters, probes, width, 40, buckets).unwrap();
            let mut filter = RemovableSpectralBloom::new(shape).unwrap();
            let mut model = [0u64; 12];
            for step in 0..500 {
                let random = mix(seed << 32 | step);
                let key = (random % 12) as usize;
                if random >> 63 == 0 {
                    let fits = model.iter().sum::<u64>() < 40;
                    assert_eq!(filter.insert(hash(seed, key as u64)).is_ok(), fits);
                    model[key] += u64::from(fits);
                } else if model[key] > 0 {
                    assert!(filter.remove(hash(seed, key as u64)), "a member is removed");
                    model[key] -= 1;
                }
                for (key, copies) in (0..).zip(model) {
                    let (key, what) = (hash(seed, key), format!("seed {seed}, step {step}"));
                    assert!(copies == 0 || filter.contains(key), "{what}: rejected");
                    assert!(filter.count(key) >= copies, "{what}: counted too low");
                    assert_eq!(filter.count(key) > 0, filter.contains(key), "{what}");
                }
            }
            filter.validate().unwrap();
        }
    }

    /// Exact counts of keys with a unique lowest counter are right more often than that counter.
    #[test]
    fn recurring_minimum_is_right_more_often() {
        let wrong = |buckets| {
            let shape = RemovableSpectralBloomShape::new(71_429, 5, 8, 200_000, buckets).unwrap();
            let mut filter = RemovableSpectralBloom::new(shape).unwrap();
            for _ in 0..20 {
                (0..10_000).for_each(|key| filter.insert(hash(3, key)).unwrap());
            }
            (0..10_000).filter(|key| filter.count(hash(3, *key)) != 20).count()
        };
        let (selection, recurring) = (wrong(0), wrong(400));
        assert!(recurring < selection, "{recurring} and {selection} of 10000");
    }
}
