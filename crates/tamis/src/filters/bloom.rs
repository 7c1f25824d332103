//! The Bloom filter: a key sets `k` of `m` bits, and is reported as a member if all of them are set.
//!
//! ```text
//!  key ──► 128 bits ──► k places        0 1 0 0 1 1 0 0 0 1 0 1 …   m bits
//!                         └────────────── 1 ──── 1 ──────── 1      all set: perhaps a member
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.44 log2(1/fpr): 9.6 at 1 %, 14.4 at 0.1 % |
//! | cache lines | a member: k (7 at 1 %); a non-member: 3.4 on average with half of the bits set, in batches 2 |
//! | building | sets k bits per key, never fails |
//!
//! It cannot remove keys. It returns [`Full`] instead of exceeding its false positive rate. Duplicates
//! do not count against its capacity. [`Shared`](crate::Shared) shares it between threads.
//!
//! Bloom, *Space/Time Trade-offs in Hash Coding with Allowable Errors*, 1970. Differences: the places of
//! a key follow from one 128-bit hash by additions and rotations ([`KeyHash::probes`]), scaled to any `m`
//! by multiplication, so that arrays of more than 2^32 bits fill evenly; the expected rate includes the
//! variance of the number of set bits, which the textbook's `(1 - e^(-kn/m))^k` leaves out.

mod inspect;

use tamis_bits::prefetch;
use tamis_bits::set::{self, ScaledBits, ScaledBitsMut};
use tamis_format::{Reader, Writer};

use super::common::bit_array::{BitArray, BitShape, insert_at_limit};
use super::common::build_by_inserting;
use crate::error::{Error, Full};
use crate::hash::{KeyHash, Probes};
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, Merge, Persist, SetOps};

/// The most bits per key: the smallest rate, 2^-50, takes 50.
pub(super) const MAX_PROBES: u64 = 64;

/// The shape of a [`Bloom`] filter: `m` bits, of which a key sets `k`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomShape {
    bits: u64,
    probes: u32,
    keys: u64,
}

pub(super) const PROBES: Setting =
    Setting::new("k", "1 to 64 bits per key; default: the number that takes the least memory");

impl BloomShape {
    /// Returns a shape of `bits` bits, of which a key sets `probes`, with a capacity of `keys`.
    ///
    /// # Errors
    /// [`Error::Limit`] if a number is out of range.
    pub fn new(bits: u64, probes: u32, keys: u64) -> Result<Self, Error> {
        let most = crate::limits::MAX_BYTES * 8;
        if bits == 0 || bits > most {
            return Err(Error::Limit { what: "bits", asked: bits, most });
        }
        if probes == 0 || u64::from(probes) > MAX_PROBES {
            return Err(Error::Limit {
                what: "bits per key",
                asked: probes.into(),
                most: MAX_PROBES,
            });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { bits, probes, keys })
    }

    /// Returns the number of bits.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Returns the number of bits that a key sets.
    pub fn probes(&self) -> u32 {
        self.probes
    }
}

impl BitShape for BloomShape {
    fn places(&self) -> u64 {
        1
    }

    fn width(&self) -> u64 {
        self.bits
    }

    fn places_per_key(&self) -> u32 {
        1
    }

    fn bits_per_key(&self) -> u32 {
        self.probes
    }

    fn estimate(&self, ones: u64) -> f64 {
        let m = self.bits as f64;
        // A damaged file may have bits past the end.
        -m / f64::from(self.probes) * (-(ones as f64 / m).min(1.0)).ln_1p()
    }

    fn with_capacity(&self, keys: u64) -> Self {
        Self { keys, ..self.clone() }
    }
}

/// Returns the false positive rate of `keys` keys that set `k` of `m` bits each.
///
/// The textbook raises the *expected* fraction of set bits to the k-th power. The fraction varies,
/// and `E[X^k] > E[X]^k`. This adds the second-order term, which is 4 % at m = 100, k = 7; higher
/// orders are negligible.
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

/// Returns the fewest bits, in whole cache lines, and the number of probes that meet `fpr`.
pub(super) fn smallest(keys: u64, fpr: f64, settings: &Settings) -> Result<(u64, u32), Error> {
    let set = settings.number(&PROBES, |k| (1..=MAX_PROBES).contains(&k))?;
    let ideal = -fpr.log2();
    let around = [ideal.floor().max(1.0) as u32, ideal.ceil().max(1.0) as u32];
    let candidates = set.map_or(around, |k| [k as u32; 2]);
    // More than any shape may have, and few enough that the number of bits does not overflow.
    const MOST_LINES: u64 = 1 << 50;
    let bits = |k: u32| {
        // The closed form first, then more lines until the exact rate is met.
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

    fn parameters(&self) -> crate::settings::Parameters {
        [("m", self.bits.into()), ("k", self.probes.into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: tamis_bits::lines(BitShape::words(self)) * 64,
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
/// // Duplicates do not count against the capacity.
/// for row in 0..100_000u64 {
///     seen.insert(&(row % 1000))?;
/// }
/// assert!(seen.contains(&7u64));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bloom {
    shape: BloomShape,
    bits: BitArray,
}

impl Bloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn new(shape: BloomShape) -> Result<Self, Error> {
        let bits = BitArray::new(&shape)?;
        Ok(Self { shape, bits })
    }

    /// Returns a filter of these words: bit `i` is bit `i % 64` of word `i / 64`. The number of keys is
    /// estimated from the set bits.
    ///
    /// # Errors
    /// [`Error::File`] if there are more or fewer words than the shape has, or bits are set past the end;
    /// [`Error::Capacity`] if the words hold more keys than the capacity.
    pub fn from_words(shape: BloomShape, words: &[u64]) -> Result<Self, Error> {
        let bits = BitArray::copy_of(&shape, words)?;
        Ok(Self { shape, bits })
    }

    /// Returns the bits: see [`Bloom::from_words`].
    pub fn words(&self) -> &[u64] {
        self.bits.words()
    }

    #[cfg(feature = "std")]
    pub(crate) fn into_parts(self) -> (BloomShape, BitArray) {
        (self.shape, self.bits)
    }

    pub(crate) fn from_parts(shape: BloomShape, bits: BitArray) -> Self {
        Self { shape, bits }
    }

    #[cold]
    fn insert_at_limit(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.contains(key) {
            return Ok(());
        }
        self.bits.count_change(&self.shape)?;
        self.set(key);
        Ok(())
    }

    #[inline(always)]
    fn set(&mut self, key: KeyHash) {
        let (bits, probes) = (self.shape.bits, self.shape.probes);
        set_all(&mut ScaledBitsMut::new(self.bits.words_mut(), bits), probes, key);
    }
}

/// Sets the bits of a key.
#[inline(always)]
fn set_all(bits: &mut ScaledBitsMut<'_>, probes: u32, key: KeyHash) {
    let mut places = key.probes(0);
    (0..probes).for_each(|_| bits.set(places.next_hash()));
}

/// Up to this many words, 2 MB, bits are set without a prefetch: at 10^6 keys that takes a sixth less time. At 12 MB
/// both are equally fast, at 36 MB a prefetch halves the time.
const DIRECT_WORDS: usize = 1 << 18;

/// Calls a function with the number of bits of a key as a constant, which saves a fifth of the instructions;
/// 0 stands for unusual numbers.
macro_rules! with_probes {
    ($probes:expr, $function:ident($($argument:expr),*)) => {
        with_probes!(@each $probes, $function($($argument),*) 4 5 6 7 8 9 10)
    };
    (@each $probes:expr, $function:ident $arguments:tt $($constant:literal)*) => {
        match $probes {
            $( $constant => with_probes!(@call $function $constant $arguments), )*
            _ => with_probes!(@call $function 0 $arguments),
        }
    };
    (@call $function:ident $constant:literal ($($argument:expr),*)) => {
        $function::<$constant>($($argument),*)
    };
}

/// Sets the bits of keys without a prefetch.
fn insert_near(words: &mut [u64], bits: u64, probes: u32, keys: &[KeyHash]) {
    with_probes!(probes, set_bits(words, bits, probes, keys));
}

fn set_bits<const K: u32>(words: &mut [u64], bits: u64, probes: u32, keys: &[KeyHash]) {
    let mut bits = ScaledBitsMut::new(words, bits);
    let probes = if K == 0 { probes } else { K };
    keys.iter().for_each(|key| set_all(&mut bits, probes, *key));
}

/// Sets the bits of keys, and prefetches the lines of several keys before it sets their bits.
fn insert_far(words: &mut [u64], bits: u64, probes: u32, keys: &[KeyHash]) {
    with_probes!(probes, prefetch_and_set(words, bits, probes, keys));
}

fn prefetch_and_set<const K: u32>(words: &mut [u64], bits: u64, probes: u32, keys: &[KeyHash]) {
    let mut scaled = ScaledBitsMut::new(words, bits);
    let probes = if K == 0 { probes } else { K } as usize;
    let mut hashes = [0; 2 * MAX_PROBES as usize];
    for keys in keys.chunks(hashes.len() / probes) {
        let hashes = &mut hashes[..keys.len() * probes];
        for (key, hashes) in keys.iter().zip(hashes.chunks_exact_mut(probes)) {
            let mut places = key.probes(0);
            for hash in hashes {
                *hash = places.next_hash();
                scaled.prefetch(*hash);
            }
        }
        hashes.iter().for_each(|hash| scaled.set(*hash));
    }
}

/// Returns whether all bits of a key are set. Tests them in groups of three, of which the last has up to five.
///
/// Half of the bits are set in a full filter, so a branch on one bit is mispredicted every other time, and each
/// misprediction discards the work begun on the next keys. The reads of a group run side by side, and 7 groups in 8
/// end the test. Against one bit and then pairs, a non-member takes 1.4 times the instructions and reads 3.4 lines
/// instead of 2.3, in 0.6 of the time at 10^5 keys and 0.8 at 10^7 (`cargo xtask peers`, both beside fastbloom).
#[inline(always)]
pub(super) fn all_set(words: &[u64], bits: u64, probes: u32, key: KeyHash) -> bool {
    let (mut places, bits) = (key.probes(0), ScaledBits::new(words, bits));
    let mut next = || bits.get(places.next_hash());
    if probes == USUAL {
        return next() & next() & next() & 1 == 1
            && next() & next() & next() & 1 == 1
            && next() & 1 == 1;
    }
    let mut left = probes;
    while left >= 6 {
        if next() & next() & next() & 1 == 0 {
            return false;
        }
        left -= 3;
    }
    let last = match left {
        5 => next() & next() & next() & next() & next(),
        4 => next() & next() & next() & next(),
        3 => next() & next() & next(),
        2 => next() & next(),
        _ => next(),
    };
    last & 1 == 1
}

/// The bits of a key at a rate of 1 %, for which a lookup has no loop: hits take 6 to 9 % less time.
const USUAL: u32 = 7;

/// Looks up many keys in rounds: each round tests one bit of every remaining key and prefetches the
/// next. A key whose bit is clear leaves the batch, so no line is fetched unnecessarily.
pub(super) fn contains_batch_in_rounds(
    words: &[u64],
    bits: u64,
    probes: u32,
    keys: &[KeyHash],
    out: &mut [bool],
) {
    const LANES: usize = 64;
    assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
    for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let mut lanes = [(0u64, 0usize, KeyHash { hi: 0, lo: 0 }.probes(0)); LANES];
        for (index, (key, lane)) in keys.iter().zip(&mut lanes).enumerate() {
            let mut places: Probes = key.probes(bits);
            let place = places.next().unwrap_or(0);
            prefetch(words, (place / 64) as usize);
            *lane = (place, index, places);
            out[index] = false;
        }
        let mut left = keys.len();
        for _ in 1..probes {
            let mut kept = 0;
            for lane in 0..left {
                let (place, index, mut places) = lanes[lane];
                let next = places.next().unwrap_or(0);
                prefetch(words, (next / 64) as usize);
                lanes[kept] = (next, index, places);
                kept += usize::from(set::get(words, place));
            }
            left = kept;
        }
        for (place, index, _) in &lanes[..left] {
            out[*index] = set::get(words, *place);
        }
    }
}

impl Filter for Bloom {
    /// Inlined everywhere, because a call saves and restores registers for each key.
    #[inline(always)]
    fn contains(&self, key: KeyHash) -> bool {
        all_set(self.bits.words(), self.shape.bits, self.shape.probes, key)
    }

    fn len(&self) -> u64 {
        self.bits.len()
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.bits.words().len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        let BloomShape { bits, probes, .. } = self.shape;
        contains_batch_in_rounds(self.bits.words(), bits, probes, keys, out);
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
        if !self.bits.count_insertion() {
            return self.insert_at_limit(key);
        }
        self.set(key);
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        let counted = self.bits.count_insertions(keys.len());
        let BloomShape { bits, probes, .. } = self.shape;
        let words = self.bits.words_mut();
        if words.len() <= DIRECT_WORDS {
            insert_near(words, bits, probes, &keys[..counted]);
        } else {
            insert_far(words, bits, probes, &keys[..counted]);
        }
        insert_at_limit(self, &keys[counted..]).map_err(|full| full.after(counted))
    }
}

impl Merge for Bloom {
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.bits.merge(&self.shape, (&other.shape, &other.bits))
    }

    fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        self.bits.force_merge(&mut self.shape, (&other.shape, &other.bits))
    }
}

impl SetOps for Bloom {
    fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        self.bits.intersect(&self.shape, (&other.shape, &other.bits))
    }

    fn cardinality(&self) -> f64 {
        self.shape.estimate(self.bits.ones())
    }

    fn similarity(&self, other: &Self) -> Result<f64, Error> {
        self.bits.similarity(&self.shape, (&other.shape, &other.bits))
    }
}

impl Persist for Bloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.bits, self.shape.probes.into(), self.shape.keys]);
        self.bits.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let bits = fields.next(1..=crate::limits::MAX_BYTES * 8, "number of bits")?;
        let probes = fields.next(1..=MAX_PROBES, "bits per key")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity")?;
        fields.finish()?;
        let shape = BloomShape::new(bits, probes as u32, keys)?;
        let bits = BitArray::read(from, &shape)?;
        Ok(Self { shape, bits })
    }

    fn validate(&self) -> Result<(), Error> {
        if set::ends_at(self.bits.words(), self.shape.bits) {
            return Ok(());
        }
        Err(tamis_format::Error::corrupt("bits are set past the end").into())
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
    fn rates_of_the_textbook() {
        // m/n = 8: 0.1175 at k = 1, 0.0489 at k = 2.
        assert!((rate(8_000_000, 1, 1_000_000) - 0.1175).abs() < 5e-5);
        assert!((rate(8_000_000, 2, 1_000_000) - 0.0489).abs() < 5e-5);
    }

    #[test]
    fn an_unreachable_goal_is_refused() {
        let mut settings = Settings::default();
        settings.set("k", 1u32);
        let goal = Goal::KeysFpr { keys: MAX_KEYS, fpr: MIN_FPR };
        assert!(matches!(
            solve::<BloomShape>(goal, &settings),
            Err(Error::Limit { what: "bits", .. })
        ));
    }

    /// The groups of bits are those of the definition.
    #[test]
    fn lookups_test_every_bit() {
        for probes in 1..=20 {
            let shape = BloomShape::new(6400, probes, 6400 / u64::from(probes)).unwrap();
            let mut bloom = Bloom::new(shape.clone()).unwrap();
            bloom.insert_batch(&hashes(0, shape.keys * 2 / 3)).unwrap();
            for key in hashes(0, 3000) {
                let mut places = key.probes(shape.bits).take(probes as usize);
                let all = places.all(|place| set::get(bloom.words(), place));
                assert_eq!(bloom.contains(key), all);
            }
        }
    }

    #[test]
    fn past_four_billion_bits() {
        // 2^33 bits, of which few are touched: memory is mapped lazily. Places must reach beyond 2^32.
        let shape = BloomShape::new(1 << 33, 7, 1 << 30).unwrap();
        let mut bloom = Bloom::new(shape).unwrap();
        let keys = hashes(0, 2000);
        bloom.insert_batch(&keys).unwrap();
        assert!(keys.iter().all(|key| bloom.contains(*key)));
        assert_eq!(hashes(1 << 40, 2000).iter().filter(|key| bloom.contains(**key)).count(), 0);
        let high =
            keys.iter().flat_map(|key| key.probes(1 << 33).take(7)).filter(|bit| bit >> 32 != 0);
        let share = high.count() as f64 / 14_000.0;
        assert!((0.47..0.53).contains(&share), "{share} of the places lie past 2^32");
        assert!((bloom.cardinality() - 2000.0).abs() < 20.0);
    }
}
