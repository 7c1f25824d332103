//! The Bloom filter: a key sets `k` bits of `m`, and is in if all of them are set.
//!
//! ```text
//!  key ──► 128 bits ──► k places        0 1 0 0 1 1 0 0 0 1 0 1 …   m bits
//!                         └────────────── 1 ──── 1 ──────── 1      all set: maybe in
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 1.44 log2(1/fpr): 9.6 at 1 %, 14.4 at 0.1 % |
//! | cache lines | a member: k (7 at 1 %); a stranger: 2 on average, at half the bits set |
//! | building | k bits set a key, no failure |
//!
//! It cannot forget a key, and past the keys it is made for it would let more and more strangers
//! in: it says [`Full`] instead. [`SharedBloom`] is the same filter while many threads fill it.
//!
//! Bloom, *Space/Time Trade-offs in Hash Coding with Allowable Errors*, 1970. Differences: the
//! places of a key come from one 128-bit hash by a walk of adding and turning ([`KeyHash::probes`]), scaled to
//! any `m` by multiplication, so that nothing breaks past 2^32 bits; the expected rate includes
//! the spread of the number of set bits, which the textbook's `(1 - e^(-kn/m))^k` leaves out.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tamis_bits::{AtomicWords, Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::common::{build_by_inserting, check_same, cosine, sum_of_keys, usize_words};
use crate::error::{Error, Full};
use crate::hash::{KeyHash, Probes};
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, Merge, Persist, SetOps};

const BITS: Name = Name::new("bits");
/// More than this many bits a key are never worth it: 2^-50 takes 50.
pub(super) const MAX_PROBES: u64 = 64;

/// `m` bits, `k` of them a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomShape {
    bits: u64,
    probes: u32,
    keys: u64,
}

pub(super) const PROBES: Setting = Setting::new("k", "1 to 64 bits a key; else the best number");

impl BloomShape {
    /// A shape by hand: this many bits, this many of them a key, made for this many keys.
    pub fn new(bits: u64, probes: u32, keys: u64) -> Result<Self, Error> {
        let most = crate::limits::MAX_BYTES * 8;
        if bits == 0 || bits > most {
            return Err(Error::Limit { what: "bits", asked: bits, most });
        }
        if probes == 0 || u64::from(probes) > MAX_PROBES {
            return Err(Error::Limit {
                what: "bits a key",
                asked: probes.into(),
                most: MAX_PROBES,
            });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { bits, probes, keys })
    }

    /// Bits in all.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Bits that a key sets.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    fn words(&self) -> u64 {
        self.bits.div_ceil(64)
    }
}

/// The rate of `keys` keys that set `k` bits of `m` each.
///
/// The textbook raises the *expected* share of set bits to the k-th power; the share varies, and
/// `E[X^k] > E[X]^k`. The second-order term is what is missing, to all digits that matter: at
/// m = 100, k = 7 it is 4 %.
pub(super) fn rate(m: u64, k: u32, keys: u64) -> f64 {
    let (m, k, balls) = (m as f64, f64::from(k), f64::from(k) * keys as f64);
    let clear = (balls * (-1.0 / m).ln_1p()).exp();
    let share = 1.0 - clear;
    if share <= 0.0 || m == 1.0 {
        return f64::from(keys > 0);
    }
    let variance = clear * (1.0 - (1.0 + balls / m) * clear) / m;
    let spread = k * (k - 1.0) / 2.0 * variance / (share * share);
    (share.powf(k) * (1.0 + spread)).min(1.0)
}

/// The fewest bits, in whole cache lines, and the number of probes that keep `fpr`.
pub(super) fn smallest(keys: u64, fpr: f64, settings: &Settings) -> Result<(u64, u32), Error> {
    let set = settings.number(&PROBES, |k| (1..=MAX_PROBES).contains(&k))?;
    let ideal = -fpr.log2();
    let around = [ideal.floor().max(1.0) as u32, ideal.ceil().max(1.0) as u32];
    let candidates = set.map_or(around, |k| [k as u32; 2]);
    // More than any shape may have, and few enough to count their bits.
    const MOST_LINES: u64 = 1 << 50;
    let bits = |k: u32| {
        // Closed form first, then as many lines more as the exact rate asks for.
        let share = fpr.powf(1.0 / f64::from(k));
        let m = f64::from(k) * keys as f64 / -(-share).ln_1p();
        let mut lines = (m / 512.0).ceil().clamp(1.0, MOST_LINES as f64) as u64;
        while rate(lines * 512, k, keys) > fpr && lines < MOST_LINES {
            lines += 1 + lines / 4096;
        }
        lines * 512
    };
    let best = candidates.into_iter().map(|k| (bits(k), k)).min();
    Ok(best.expect("two candidates"))
}

impl Shape for BloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let (bits, probes) = smallest(keys, fpr, settings)?;
        Self::new(bits, probes, keys)
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: tamis_bits::lines(self.words()) * 64,
            query_cost: f64::from(self.probes) * 1.125,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        rate(self.bits, self.probes, keys)
    }
}

/// A Bloom filter.
///
/// ```
/// use tamis::{Bloom, Keyed};
///
/// let mut seen = Keyed::<Bloom>::with_capacity(1000, 0.01)?;
/// seen.insert("apple")?;
/// assert!(seen.contains("apple"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bloom {
    shape: BloomShape,
    len: u64,
    words: Words,
}

impl Bloom {
    /// An empty filter.
    pub fn new(shape: BloomShape) -> Result<Self, Error> {
        let words = Words::zeroed(usize_words(shape.words())?)?;
        Ok(Self { shape, len: 0, words })
    }

    #[inline(always)]
    fn probes(&self, key: KeyHash) -> impl Iterator<Item = u64> + use<> {
        key.probes(self.shape.bits).take(self.shape.probes as usize)
    }
}

/// Whether all of a key's bits are set: the first, and if it is, the others in pairs.
///
/// Half of the bits are set in a full filter, so a branch on one bit is guessed wrong every other
/// time, and with each wrong guess goes the work begun on the keys after. Both reads of a pair go
/// side by side, and three pairs in four end it. The first stands alone because a stranger's
/// second read is in vain half of the time, which counts once the bits are not in the cache.
#[inline(always)]
pub(super) fn all_set(words: &[u64], bits: u64, probes: u32, key: KeyHash) -> bool {
    let mut walk = key.probes(bits);
    let mut next = || {
        let place = walk.next().unwrap_or(0);
        words[(place / 64) as usize] >> (place % 64)
    };
    if next() & 1 == 0 {
        return false;
    }
    for _ in 0..(probes - 1) / 2 {
        if next() & next() & 1 == 0 {
            return false;
        }
    }
    !probes.is_multiple_of(2) || next() & 1 == 1
}

/// Tests bit after bit of many keys side by side. While one key waits for memory the others are
/// looked at, and a key that is found out drops from the race, so no line is fetched in vain.
pub(super) fn race(words: &[u64], bits: u64, probes: u32, keys: &[KeyHash], out: &mut [bool]) {
    const LANES: usize = 64;
    assert!(out.len() >= keys.len(), "an answer for each key");
    for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let mut racers = [(0u64, 0usize, KeyHash { hi: 0, lo: 0 }.probes(0)); LANES];
        for (index, (key, racer)) in keys.iter().zip(&mut racers).enumerate() {
            let mut walk: Probes = key.probes(bits);
            let place = walk.next().unwrap_or(0);
            prefetch(words, (place / 64) as usize);
            *racer = (place, index, walk);
            out[index] = false;
        }
        let mut left = keys.len();
        for _ in 1..probes {
            let mut kept = 0;
            for racer in 0..left {
                let (place, index, mut walk) = racers[racer];
                let next = walk.next().unwrap_or(0);
                prefetch(words, (next / 64) as usize);
                racers[kept] = (next, index, walk);
                kept += usize::from(set::get(words, place));
            }
            left = kept;
        }
        for (place, index, _) in &racers[..left] {
            out[*index] = set::get(words, *place);
        }
    }
}

impl Filter for Bloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        all_set(&self.words, self.shape.bits, self.shape.probes, key)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        race(&self.words, self.shape.bits, self.shape.probes, keys, out);
    }
}

impl Build for Bloom {
    type Shape = BloomShape;

    fn shape(&self) -> &BloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<BloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for Bloom {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        let probes = self.probes(key);
        let words = self.words.to_mut();
        probes.for_each(|bit| set::set(words, bit));
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        // Some keys' places first, whose lines are then on their way, and then their bits.
        let mut places = [0; 2 * MAX_PROBES as usize];
        let room = self.shape.keys.saturating_sub(self.len).min(keys.len() as u64) as usize;
        let (bits, probes) = (self.shape.bits, self.shape.probes as usize);
        let words = self.words.to_mut();
        for keys in keys[..room].chunks(places.len() / probes) {
            let places = &mut places[..keys.len() * probes];
            for (key, places) in keys.iter().zip(places.chunks_exact_mut(probes)) {
                for (slot, bit) in places.iter_mut().zip(key.probes(bits)) {
                    prefetch(words, (bit / 64) as usize);
                    *slot = bit;
                }
            }
            places.iter().for_each(|bit| set::set(words, *bit));
        }
        self.len += room as u64;
        if room == keys.len() { Ok(()) } else { Err(Full::NONE.after(room)) }
    }
}

impl Merge for Bloom {
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        self.len = sum_of_keys(self.len, other.len, self.shape.keys)?;
        set::unite(self.words.to_mut(), &other.words);
        Ok(())
    }
}

impl SetOps for Bloom {
    fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        check_same(&self.shape, &other.shape)?;
        self.len = self.len.min(other.len);
        set::intersect(self.words.to_mut(), &other.words);
        Ok(())
    }

    fn cardinality(&self) -> f64 {
        let m = self.shape.bits as f64;
        let share = set::ones(&self.words) as f64 / m;
        -m / f64::from(self.shape.probes) * (-share).ln_1p()
    }

    fn similarity(&self, other: &Self) -> Result<f64, Error> {
        check_same(&self.shape, &other.shape)?;
        Ok(cosine(&self.words, &other.words))
    }
}

impl Persist for Bloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.bits, self.shape.probes.into(), self.shape.keys]);
        to.words(BITS, &self.words);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let bits = fields.next(1..=crate::limits::MAX_BYTES * 8, "number of bits")?;
        let probes = fields.next(1..=MAX_PROBES, "bits a key")?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        fields.finish()?;
        let shape = BloomShape::new(bits, probes as u32, keys)?;
        let words = from.words(BITS, shape.words())?;
        Ok(Self { shape, len, words })
    }

    fn validate(&self) -> Result<(), Error> {
        if set::ends_at(&self.words, self.shape.bits) {
            return Ok(());
        }
        Err(tamis_format::Error::corrupt("bits are set past the end").into())
    }
}

/// A Bloom filter that many threads fill and ask at once, through `&self`.
///
/// A key is in for a thread as soon as its `insert` has returned there, and for the others as
/// soon as they learn of that in any way that orders memory (joining, a lock, a channel).
///
/// ```
/// use tamis::{Bloom, BloomShape, Filter, KeyHash, Shape, SharedBloom};
///
/// let shared = SharedBloom::new(Bloom::new(BloomShape::fit(1000, 0.01)?)?)?;
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let shared = &shared;
///         scope.spawn(move || shared.insert(KeyHash { hi: thread << 60, lo: thread }));
///     }
/// });
/// assert_eq!(shared.into_bloom().len(), 4);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedBloom {
    shape: BloomShape,
    len: AtomicU64,
    words: AtomicWords,
}

impl SharedBloom {
    /// Opens a filter to many threads.
    pub fn new(bloom: Bloom) -> Result<Self, Error> {
        let words = AtomicWords::new(bloom.words)?;
        Ok(Self { shape: bloom.shape, len: AtomicU64::new(bloom.len), words })
    }

    /// The plain filter again, to save or to merge: the same bytes as if one thread had filled it.
    pub fn into_bloom(self) -> Bloom {
        Bloom { shape: self.shape, len: self.len.into_inner(), words: self.words.into_words() }
    }

    /// Adds a key; as [`Insert::insert`].
    #[inline]
    pub fn insert(&self, key: KeyHash) -> Result<(), Full> {
        // The place is taken before the bits are set, so threads at the last place cannot both pass.
        let take = |len: u64| (len < self.shape.keys).then_some(len + 1);
        self.len.fetch_update(Relaxed, Relaxed, take).map_err(|_| Full::NONE)?;
        let words = self.words.as_atomics();
        for bit in key.probes(self.shape.bits).take(self.shape.probes as usize) {
            let (word, mask) = (&words[(bit / 64) as usize], 1 << (bit % 64));
            // Half of the bits are set already in a full filter: looking first spares the line
            // from being taken away from the other threads.
            if word.load(Relaxed) & mask == 0 {
                word.fetch_or(mask, Relaxed);
            }
        }
        Ok(())
    }

    /// Whether the key may be a member; as [`Filter::contains`].
    #[inline]
    pub fn contains(&self, key: KeyHash) -> bool {
        let words = self.words.as_atomics();
        let is_set = |bit: u64| words[(bit / 64) as usize].load(Relaxed) >> (bit % 64) & 1 == 1;
        key.probes(self.shape.bits).take(self.shape.probes as usize).all(is_set)
    }

    /// Keys put in so far.
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use crate::limits::MIN_FPR;
    use crate::shape::{Goal, solve};

    fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [5, 6]);
        (from..from + count).map(|key| key.hash_with(&hasher)).collect()
    }

    #[test]
    fn the_slides_rates() {
        // m/n = 8: 0.1175 at k = 1, 0.0489 at k = 2 (the slides print 0.0493).
        assert!((rate(8_000_000, 1, 1_000_000) - 0.1175).abs() < 5e-5);
        assert!((rate(8_000_000, 2, 1_000_000) - 0.0489).abs() < 5e-5);
    }

    #[test]
    fn the_worst_wish_is_refused() {
        let mut settings = Settings::default();
        settings.set("k", "1");
        let goal = Goal::KeysFpr { keys: MAX_KEYS, fpr: MIN_FPR };
        assert!(matches!(
            solve::<BloomShape>(goal, &settings),
            Err(Error::Limit { what: "bits", .. })
        ));
    }

    #[test]
    fn past_four_billion_bits() {
        // 2^33 bits, of which few are touched: the map is lazy. The places must reach beyond 2^32.
        let shape = BloomShape::new(1 << 33, 7, 1 << 30).unwrap();
        let mut bloom = Bloom::new(shape).unwrap();
        let keys = hashes(0, 2000);
        bloom.insert_batch(&keys).unwrap();
        assert!(keys.iter().all(|key| bloom.contains(*key)));
        assert_eq!(hashes(1 << 40, 2000).iter().filter(|key| bloom.contains(**key)).count(), 0);
        let high = keys.iter().flat_map(|key| bloom.probes(*key)).filter(|bit| bit >> 32 != 0);
        let share = high.count() as f64 / 14_000.0;
        assert!((0.47..0.53).contains(&share), "{share} of the places lie past 2^32");
        assert!((bloom.cardinality() - 2000.0).abs() < 20.0);
    }

    #[test]
    fn many_threads_make_the_bytes_that_one_makes() {
        let shape = BloomShape::fit(10_000, 0.01).unwrap();
        let keys = hashes(0, 10_000);
        let one = Bloom::build(shape.clone(), &keys[..]).unwrap();
        let shared = SharedBloom::new(Bloom::new(shape).unwrap()).unwrap();
        std::thread::scope(|scope| {
            for part in keys.chunks(2500) {
                let shared = &shared;
                scope.spawn(move || {
                    for key in part {
                        shared.insert(*key).unwrap();
                        assert!(shared.contains(*key));
                    }
                });
            }
        });
        assert_eq!(shared.insert(keys[0]), Err(Full::NONE));
        assert_eq!(shared.into_bloom(), one);
    }
}
