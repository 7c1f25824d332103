//! The spectral Bloom filter with removal: counts copies of keys, removes them, and merges.
//!
//! ```text
//!  counters   0 2 0 0 7 3 0 0 0 2 0 1 …   m counters of variable length: inserting adds 1 at the
//!                                         key's k places, removing subtracts 1
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
//! | bits per key | 18 at 1 % for distinct keys; with `c`, c times Bloom's | 6 more |
//! | cache lines | 2k to 4k; with `c`, k | 1 more |
//!
//! The capacity is a number of copies, whether of one key or of many, because each of them may be
//! removed again. Counters are as in [`SpectralBloom`](super::SpectralBloom). Removing a false positive
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
use tamis_bits::{Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{self, Bloom, PROBES};
use super::common::counters::{self, Spread};
use super::common::{build_by_inserting, check_same, sum_of_keys, usize_words};
use super::spectral_bloom::{CounterArray, Counters, WIDTH, query_cost};
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
    /// Returns the shape of `counters` counters of `width` bits, or of variable length if `width` is
    /// 0, `probes` of them per key, for `keys` copies of keys, with `buckets` buckets of 8 exact counts: 0 for minimum selection.
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

    /// Returns the words per block of counters of variable length: of the counters for distinct keys,
    /// and of exact counts, most of which are 1 or 2.
    fn strides(&self) -> [u64; 2] {
        let raises = f64::from(self.array.probes) * self.array.keys as f64;
        let spread = Spread::poisson(raises / self.array.counters as f64);
        [
            counters::planned_stride(self.array.counters, spread),
            counters::planned_stride(self.digest_words(), Spread::poisson(1.0)),
        ]
    }

    fn words(&self) -> [u64; 3] {
        let width = u64::from(self.array.width);
        let of = |count: u64, stride| match width {
            0 => counters::words(count, stride),
            _ => (count * width).div_ceil(64),
        };
        let [stride, count_stride] = self.strides();
        let counts = if self.buckets == 0 { 0 } else { of(self.digest_words(), count_stride) };
        [of(self.array.counters, stride), self.digest_words(), counts]
    }
}

impl Shape for RemovableSpectralBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH, METHOD];
    // More probes can take fewer bits of each counter.
    const IS_MONOTONE: bool = false;

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
        Figures {
            keys: self.array.keys,
            fpr: self.fpr_at(self.array.keys),
            bytes: self.words().iter().map(|words| tamis_bits::lines(*words) * 64).sum(),
            query_cost: query_cost(&self.array),
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
    counters: Counters,
    digests: Words,
    /// The exact count of each digest; `None` for minimum selection.
    counts: Option<Counters>,
}

impl RemovableSpectralBloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the tables cannot be allocated.
    pub fn new(shape: RemovableSpectralBloomShape) -> Result<Self, Error> {
        let ([stride, count_stride], slots) = (shape.strides(), shape.digest_words());
        let counters = Counters::new(&shape.array, shape.array.counters, stride)?;
        let digests = Words::zeroed(usize_words(slots)?)?;
        let counts = match slots {
            0 => None,
            _ => Some(Counters::new(&shape.array, slots, count_stride)?),
        };
        Ok(Self { shape, len: 0, counters, digests, counts })
    }

    /// Returns the plain Bloom filter of the counters above 0, for peers that only look keys up. It has the same
    /// answers, capacity and number of keys, each copy of a key being one.
    ///
    /// # Errors
    /// [`Error::Memory`] if the bits cannot be allocated.
    ///
    /// # Examples
    /// ```
    /// use tamis::{Keyed, RemovableSpectralBloom};
    ///
    /// let mut stock = Keyed::<RemovableSpectralBloom>::with_capacity(1000, 0.01)?;
    /// stock.insert("apple")?;
    /// let for_peers = Keyed::new(*stock.hasher(), stock.filter().to_bloom()?);
    /// assert!(for_peers.contains("apple") && !for_peers.contains("pear"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn to_bloom(&self) -> Result<Bloom, Error> {
        let array = &self.shape.array;
        self.counters.to_bloom(array, self.len, array.keys)
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

    fn exact(&self, slot: u64) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.get(&self.shape.array, slot))
    }

    /// Sets a digest and its exact count. Without memory for a larger count the digest is removed: its
    /// key is then counted by its lowest counter.
    fn set_exact(&mut self, slot: u64, digest: u64, count: u64) {
        let Some(counts) = &mut self.counts else { return };
        let kept = counts.change(&self.shape.array, slot, |_| count).is_ok();
        if !kept {
            let _ = counts.change(&self.shape.array, slot, |_| 0);
        }
        self.digests.to_mut()[slot as usize] = if kept { digest } else { 0 };
    }

    /// Gives a key an exact count if its lowest counter is unique.
    fn insert_exact(&mut self, key: KeyHash) {
        let array = &self.shape.array;
        let least = self.counters.least(array, key);
        let mut lowest =
            array.places(key).filter(|place| self.counters.get(array, *place) == least);
        let first = lowest.next();
        let unique = lowest.all(|place| Some(place) == first);
        if unique
            && least < array.largest()
            && let Some(free) = self.find_exact(key, 0)
        {
            self.set_exact(free, Self::digest(key), least);
        }
    }

    /// Lowers each of a key's first `probes` counters by 1, unless it has its largest value.
    fn lower(&mut self, key: KeyHash, probes: usize) {
        let array = &self.shape.array;
        for place in array.places(key).take(probes) {
            let next =
                |count: u64| if count < array.largest() { count.saturating_sub(1) } else { count };
            // Lowering a counter takes no memory.
            let _ = self.counters.change(array, place, next);
        }
    }

    #[inline(always)]
    fn prefetch(&self, key: KeyHash) {
        self.counters.prefetch(&self.shape.array, key);
        prefetch(&self.digests, (scale(key.lo, self.shape.buckets) * BUCKET) as usize);
    }
}

impl Filter for RemovableSpectralBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.counters.all_raised(&self.shape.array, key)
    }

    /// Returns the insertions less the removals.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.counters.words().len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        self.counters.contains_batch(&self.shape.array, keys, out);
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
        let largest = array.largest();
        for (raised, place) in array.places(key).enumerate() {
            let next = |count: u64| count.saturating_add(1).min(largest);
            if let Err(full) = self.counters.change(array, place, next) {
                self.lower(key, raised);
                return Err(full);
            }
        }
        if self.shape.buckets > 0 {
            match self.find_exact(key, Self::digest(key)) {
                Some(slot) => {
                    let count = self.exact(slot).saturating_add(1).min(largest);
                    self.set_exact(slot, Self::digest(key), count);
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
        let array = &self.shape.array;
        let (get, largest) = (|place| self.counters.get(array, place), array.largest());
        if self.len == 0 || !array.is_removable(key, get) {
            return false;
        }
        self.lower(key, self.shape.array.probes as usize);
        if let Some(slot) = self.find_exact(key, Self::digest(key)) {
            match self.exact(slot) {
                _ if self.counters.least(&self.shape.array, key) == 0 => self.set_exact(slot, 0, 0),
                0 | 1 => self.set_exact(slot, 0, 0),
                count if count < largest => self.set_exact(slot, Self::digest(key), count - 1),
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
        let least = self.counters.least(array, key);
        let exact = self.find_exact(key, Self::digest(key)).map(|slot| self.exact(slot));
        // A member's count is never 0: its exact count is cleared when its last copy is removed.
        array.count(exact.map_or(least, |exact| least.min(exact.max(1))))
    }

    /// Returns 2^c - 2, the largest value below the one at which a counter stays; 2^62 - 1 for counters
    /// of variable length.
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
        let counts = match &self.counts {
            Some(_) => Self::new(self.shape.clone())?.counts,
            None => None,
        };
        self.counters.add(&self.shape.array, &other.counters)?;
        self.digests.to_mut().fill(0);
        self.counts = counts;
        self.len = len;
        Ok(())
    }
}

impl Persist for RemovableSpectralBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let [counters, probes, width, keys] = self.shape.array.fields();
        let fields = [counters, probes, width, keys, self.shape.buckets];
        match (self.counters.stride(), self.counts.as_ref().and_then(Counters::stride)) {
            (None, _) => to.shape(&fields),
            (Some(stride), None) => to.shape(&[&fields[..], &[stride]].concat()),
            (Some(stride), Some(counts)) => to.shape(&[&fields[..], &[stride, counts]].concat()),
        }
        to.words(COUNTERS, self.counters.words());
        to.words(DIGESTS, &self.digests);
        match &self.counts {
            Some(counts) => to.words(COUNTS, counts.words()),
            None => to.pieces(COUNTS, []),
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let array = CounterArray::read(&mut fields, len)?;
        let buckets = fields.next(0..=MAX_BUCKETS, "number of buckets")?;
        let shape = RemovableSpectralBloomShape { array, buckets };
        let (array, slots) = (&shape.array, shape.digest_words());
        let stride = array.read_stride(&mut fields, array.counters)?;
        let count_stride = if slots > 0 { array.read_stride(&mut fields, slots)? } else { 0 };
        fields.finish()?;
        let counters = Counters::read(array, array.counters, stride, from, COUNTERS)?;
        let digests = from.words(DIGESTS, slots)?;
        let counts = if slots > 0 {
            Some(Counters::read(array, slots, count_stride, from, COUNTS)?)
        } else {
            from.words(COUNTS, 0)?;
            None
        };
        Ok(Self { shape, len, counters, digests, counts })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let RemovableSpectralBloomShape { array, buckets } = &self.shape;
        let slots = buckets * BUCKET;
        self.counters.validate(array, array.counters)?;
        if let Some(counts) = &self.counts {
            counts.validate(array, slots)?;
        }
        let (mut sum, mut stuck) = (0u128, false);
        for count in self.counters.iter(array, array.counters) {
            (sum, stuck) = (sum + u128::from(count), stuck | (count == array.largest()));
        }
        // Every insertion adds k and every removal subtracts k, unless a counter has its largest value.
        if !stuck && sum != u128::from(self.len) * u128::from(array.probes) {
            return corrupt("the sum of the counters does not match the number of keys");
        }
        let empty = |slot: u64| self.digests[slot as usize] == 0;
        match (0..slots).all(|slot| empty(slot) == (self.exact(slot) == 0)) {
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

    #[test]
    fn the_plain_filter_has_the_same_answers() {
        for (width, buckets) in [(0, 0), (0, 100), (2, 0), (4, 100)] {
            let shape = RemovableSpectralBloomShape::new(9600, 7, width, 3000, buckets).unwrap();
            let mut filter = RemovableSpectralBloom::new(shape).unwrap();
            for key in 0..3000 {
                filter.insert(hash(7, key % 1000)).unwrap();
            }
            // Counters that are full stay, and the plain filter has their bits.
            for key in 0..2400 {
                assert!(filter.remove(hash(7, key % 1000)));
            }
            let plain = filter.to_bloom().unwrap();
            plain.validate().unwrap();
            assert_eq!((plain.len(), plain.shape().keys()), (600, 3000));
            let accepted = (0..20_000).filter(|key| {
                let key = hash(7, *key);
                assert_eq!(plain.contains(key), filter.contains(key));
                plain.contains(key)
            });
            assert!((600..2000).contains(&accepted.count()));
        }
    }

    /// Compares both methods with a model, with tables so small that places of one key coincide,
    /// counters reach their largest value and buckets are full.
    #[test]
    fn members_are_never_rejected_nor_counted_too_low() {
        for seed in 0..600u64 {
            let (counters, probes) = (1 + mix(seed) % 60, 1 + (mix(seed + 1000) % 9) as u32);
            let (width, buckets) = ([0, 2, 3, 4, 5, 6][(seed % 6) as usize], seed / 6 % 3);
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
            let shape = RemovableSpectralBloomShape::new(71_429, 5, 0, 200_000, buckets).unwrap();
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
