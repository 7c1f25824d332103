//! The spectral Bloom filter that can forget: it counts copies, takes them back, and merges.
//!
//! ```text
//!  counters   0 2 0 0 7 3 0 0 0 2 0 1 …   m counters of c bits: inserting adds one at the key's
//!                                         k places, removing takes one away
//!  beside     | digest  digest … |        with `method=2`: keys whose lowest counter stands alone,
//!             | count   count  … |        8 in a bucket, each with a count of its own
//! ```
//!
//! *Minimum selection* (`method=1`): the lowest of a key's counters is its count, too high where each of them is
//! shared with others. *Recurring minimum* (`method=2`): where the lowest value stands in two counters of a key
//! it is most likely right, for both would have to be shared. Where it stands alone the key gets a count beside,
//! which starts there and is its own from then on.
//!
//! | figure | method 1 | method 2 |
//! | --- | --- | --- |
//! | bits a key | c times Bloom's: 77 at 1 % with c = 8 | 6 more |
//! | cache lines | k | k + 1 |
//!
//! It holds as many copies as it is made for, whether of one key or of many, since that is what it can count down
//! again. A counter that reaches its largest value sticks there. Removing a stranger that passes for a member
//! lowers counters of others, and may deny them. For counts without removing, [`SpectralBloom`](super::SpectralBloom)
//! is wrong less often in the same memory, and for both in the least memory there is
//! [`CountingQuotient`](super::CountingQuotient).
//!
//! Cohen, Matias, *Spectral Bloom Filters*, 2003. Differences: there the keys beside go to a second, smaller
//! filter of the same kind. Such a filter takes some keys for its own that were never put there, and then
//! counts them too low. So here they are told by 64 bits of their hash and their bucket by
//! the others, which takes no more memory than half as many counters again. A bucket that is full takes no more,
//! and its keys are counted by their lowest counters; merging forgets what is beside.

use tamis_bits::range::scale;
use tamis_bits::{Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{self, PROBES};
use super::common::{build_by_inserting, check_same, sum_of_keys, usize_words};
use super::spectral_bloom::{Field, WIDTH};
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
/// Keys beside the counters that share a cache line.
const BUCKET: u64 = 8;
const MAX_BUCKETS: u64 = 1 << 44;

/// A number of counters, their width, how many of them a key has, and room beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovableSpectralBloomShape {
    field: Field,
    /// Buckets beside the counters; none for minimum selection.
    buckets: u64,
}

const METHOD: Setting =
    Setting::new("method", "1, minimum selection, or 2, recurring minimum; else 1");

impl RemovableSpectralBloomShape {
    /// A shape by hand: this many counters, this many of them a key, bits of a counter, made for
    /// this many copies of keys, with this many buckets of 8 keys beside: 0 for minimum selection.
    pub fn new(
        counters: u64,
        probes: u32,
        width: u32,
        keys: u64,
        buckets: u64,
    ) -> Result<Self, Error> {
        let field = Field::new(counters, probes, width, keys)?;
        if buckets > MAX_BUCKETS {
            return Err(Error::Limit { what: "buckets", asked: buckets, most: MAX_BUCKETS });
        }
        Ok(Self { field, buckets })
    }

    /// Buckets for all keys whose lowest counter stands alone: those of which at most one counter is
    /// not shared. With a fifth to spare few of them are full.
    fn buckets(field: &Field) -> u64 {
        let (k, n) = (f64::from(field.probes), field.keys as f64);
        let alone = (-k * n / field.counters as f64).exp();
        let shared = 1.0 - alone;
        let share = shared.powf(k) + k * alone * shared.powf(k - 1.0);
        ((n * share * 1.2 / BUCKET as f64).ceil() as u64 + 1).min(MAX_BUCKETS)
    }

    fn digest_words(&self) -> u64 {
        self.buckets * BUCKET
    }

    fn count_words(&self) -> u64 {
        (self.buckets * BUCKET * u64::from(self.field.width)).div_ceil(64)
    }
}

impl Shape for RemovableSpectralBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WIDTH, METHOD];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let method = settings.number(&METHOD, |method| (1..=2).contains(&method))?;
        let field = Field::fit(keys, fpr, settings)?;
        let buckets = if method == Some(2) { Self::buckets(&field) } else { 0 };
        Ok(Self { field, buckets })
    }

    fn figures(&self) -> Figures {
        let words = [self.field.words(), self.digest_words(), self.count_words()];
        Figures {
            keys: self.field.keys,
            fpr: self.fpr_at(self.field.keys),
            bytes: words.iter().map(|words| tamis_bits::lines(*words) * 64).sum(),
            query_cost: f64::from(self.field.probes) * 1.125,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        bloom::rate(self.field.counters, self.field.probes, keys)
    }
}

/// A spectral Bloom filter that can forget.
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
    /// An empty filter.
    pub fn new(shape: RemovableSpectralBloomShape) -> Result<Self, Error> {
        let counters = Words::zeroed(usize_words(shape.field.words())?)?;
        let digests = Words::zeroed(usize_words(shape.digest_words())?)?;
        let counts = Words::zeroed(usize_words(shape.count_words())?)?;
        Ok(Self { shape, len: 0, counters, digests, counts })
    }

    /// What a key is told by beside the counters; 0 is nobody.
    #[inline(always)]
    fn digest(key: KeyHash) -> u64 {
        key.hi.max(1)
    }

    /// The slot beside the counters that holds `digest` in the bucket of a key.
    #[inline(always)]
    fn beside(&self, key: KeyHash, digest: u64) -> Option<u64> {
        let start = scale(key.lo, self.shape.buckets) * BUCKET;
        (start..start + BUCKET)
            .take(self.digests.len())
            .find(|slot| self.digests[*slot as usize] == digest)
    }

    fn set_beside(&mut self, slot: u64, digest: u64, count: u64) {
        self.digests.to_mut()[slot as usize] = digest;
        self.shape.field.set(self.counts.to_mut(), slot, count);
    }

    /// Gives a key a count of its own if its lowest counter stands alone.
    fn lay_beside(&mut self, key: KeyHash) {
        let field = &self.shape.field;
        let least = field.least(&self.counters, key);
        let mut lowest =
            field.places(key).filter(|place| field.get(&self.counters, *place) == least);
        let first = lowest.next();
        let alone = lowest.all(|place| Some(place) == first);
        if alone
            && least < field.largest()
            && let Some(free) = self.beside(key, 0)
        {
            self.set_beside(free, Self::digest(key), least);
        }
    }

    #[inline(always)]
    fn fetch(&self, key: KeyHash) {
        self.shape.field.fetch(&self.counters, key);
        prefetch(&self.digests, (scale(key.lo, self.shape.buckets) * BUCKET) as usize);
    }
}

impl Filter for RemovableSpectralBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.shape.field.all_raised(&self.counters, key)
    }

    /// Keys inserted less keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        const LANES: usize = 16;
        assert!(out.len() >= keys.len(), "an answer for each key");
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            keys.iter().for_each(|key| self.shape.field.fetch(&self.counters, *key));
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains(*key);
            }
        }
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
        let field = &self.shape.field;
        if self.len >= field.keys {
            return Err(Full::NONE);
        }
        let (counters, largest) = (self.counters.to_mut(), field.largest());
        for place in field.places(key) {
            let count = field.get(counters, place);
            field.set(counters, place, count.saturating_add(1).min(largest));
        }
        if self.shape.buckets > 0 {
            match self.beside(key, Self::digest(key)) {
                Some(slot) => {
                    let count = field.get(&self.counts, slot).saturating_add(1).min(largest);
                    field.set(self.counts.to_mut(), slot, count);
                }
                None => self.lay_beside(key),
            }
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        super::common::insert_batch(self, keys, Self::fetch)
    }
}

impl Remove for RemovableSpectralBloom {
    fn remove(&mut self, key: KeyHash) -> bool {
        let field = &self.shape.field;
        let (places, largest) = (field.places(key), field.largest());
        // A member has raised each of its counters as often as it has that place.
        let raised = |place: u64| {
            let count = field.get(&self.counters, place);
            let own = places.clone().filter(|other| *other == place).count() as u64;
            count == largest || count >= own
        };
        if self.len == 0 || !places.clone().all(raised) {
            return false;
        }
        let counters = self.counters.to_mut();
        for place in places {
            let count = field.get(counters, place);
            if count < largest {
                field.set(counters, place, count - 1);
            }
        }
        if let Some(slot) = self.beside(key, Self::digest(key)) {
            match field.get(&self.counts, slot) {
                _ if field.least(&self.counters, key) == 0 => self.set_beside(slot, 0, 0),
                0 | 1 => self.set_beside(slot, 0, 0),
                count if count < largest => field.set(self.counts.to_mut(), slot, count - 1),
                _ => {}
            }
        }
        self.len -= 1;
        true
    }
}

impl Count for RemovableSpectralBloom {
    /// The lowest of the key's counters, or its own count beside them if that is lower; `u64::MAX` if even
    /// that is stuck.
    fn count(&self, key: KeyHash) -> u64 {
        let field = &self.shape.field;
        let least = field.least(&self.counters, key);
        let own = self.beside(key, Self::digest(key)).map(|slot| field.get(&self.counts, slot));
        // Never zero for a member: whoever is taken out for the last time has no count beside.
        field.told(own.map_or(least, |own| least.min(own.max(1))))
    }

    /// 2^c - 2: one more and the counter is stuck.
    fn count_limit(&self) -> u64 {
        self.shape.field.largest() - 1
    }
}

impl Merge for RemovableSpectralBloom {
    /// Adds counter to counter. What is beside is forgotten, unless there is nothing to add: a digest does
    /// not say where the other filter has counted its key.
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        let len = sum_of_keys(self.len, other.len, self.shape.field.keys)?;
        if other.is_empty() {
            return Ok(());
        }
        let field = &self.shape.field;
        let (counters, largest) = (self.counters.to_mut(), field.largest());
        for place in 0..field.counters {
            let sum = field.get(counters, place).saturating_add(field.get(&other.counters, place));
            field.set(counters, place, sum.min(largest));
        }
        self.digests.to_mut().fill(0);
        self.counts.to_mut().fill(0);
        self.len = len;
        Ok(())
    }
}

impl Persist for RemovableSpectralBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let [counters, probes, width, keys] = self.shape.field.fields();
        to.shape(&[counters, probes, width, keys, self.shape.buckets]);
        to.words(COUNTERS, &self.counters);
        to.words(DIGESTS, &self.digests);
        to.words(COUNTS, &self.counts);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let field = Field::read(&mut fields, len)?;
        let buckets = fields.next(0..=MAX_BUCKETS, "buckets")?;
        fields.finish()?;
        let shape = RemovableSpectralBloomShape { field, buckets };
        let counters = from.words(COUNTERS, shape.field.words())?;
        let digests = from.words(DIGESTS, shape.digest_words())?;
        let counts = from.words(COUNTS, shape.count_words())?;
        Ok(Self { shape, len, counters, digests, counts })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let RemovableSpectralBloomShape { field, buckets } = &self.shape;
        let slots = buckets * BUCKET;
        if !set::ends_at(&self.counters, field.counters * u64::from(field.width))
            || !set::ends_at(&self.counts, slots * u64::from(field.width))
        {
            return corrupt("bits are set past the end");
        }
        let (mut sum, mut stuck) = (0u128, false);
        for place in 0..field.counters {
            let count = field.get(&self.counters, place);
            (sum, stuck) = (sum + u128::from(count), stuck | (count == field.largest()));
        }
        // Every key adds k, and removing takes as much away, unless a counter stuck.
        if !stuck && sum != u128::from(self.len) * u128::from(field.probes) {
            return corrupt("the counters do not add up to the keys");
        }
        let nobody = |slot: &u64| self.digests[*slot as usize] == 0;
        match (0..slots).all(|slot| nobody(&slot) == (field.get(&self.counts, slot) == 0)) {
            true => Ok(()),
            false => corrupt("a count is nobody's"),
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

    /// Tables so small that a key's own places coincide, counters stick and buckets are full, against
    /// the multiset of what is in, with both methods.
    #[test]
    fn members_are_never_denied_nor_undercounted() {
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
                    assert!(copies == 0 || filter.contains(key), "{what}: denied");
                    assert!(filter.count(key) >= copies, "{what}: undercounted");
                    assert_eq!(filter.count(key) > 0, filter.contains(key), "{what}");
                }
            }
            filter.validate().unwrap();
        }
    }

    /// Where the lowest counter stands alone, the count beside is right more often than it.
    #[test]
    fn recurring_minima_are_right_more_often() {
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
