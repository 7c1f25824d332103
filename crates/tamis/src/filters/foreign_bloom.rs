//! A Bloom filter of another program: its bits, and its way to choose them.
//!
//! ```text
//!  key ──► the program's hash ──► its walk over m bits ──► k places      (HashId, Walk)
//!
//!  bits   0 1 0 0 1 1 0 0 0 1 0 1 …   in the order of the program's own bit numbers
//!  note   what the program stores beside the bits, kept as it is
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | as `bloom` |
//! | cache lines | as `bloom` |
//! | a query | as `bloom`, and a 64-bit division for each place |
//! | rate | as `bloom`; walks that add the same stride at each step exceed it in filters of a few hundred bits |
//!
//! It exists to hold filters of other programs: they are queried, merged, saved and written back without
//! their keys. [`bloom`](super::bloom) is better for new filters. The planner does not recommend it.
//!
//! A filter of another program does not state for how many keys it is made. Its capacity is what its
//! numbers of bits and places suggest, or the estimated number of its keys if that is more.
//!
//! Bloom, *Space/Time Trade-offs in Hash Coding with Allowable Errors*, 1970; each [`Walk`] names the
//! program that it is taken from.

use core::fmt;
use core::str::FromStr;

use tamis_bits::{Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{PROBES, rate, smallest};
use super::common::bit_array::{BitArray, BitShape, insert_at_limit};
use super::common::build_by_inserting;
use crate::capability::UnknownName;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, Merge, Persist, SetOps};

const NOTE: Name = Name::new("note");
/// The most places of a key. A rate of 2^-50 takes 50.
pub const MAX_FOREIGN_PROBES: u64 = 255;
/// The most words of a note.
const MAX_NOTE: u64 = 1 << 20;
/// The bits that a walk of 31-bit places reaches.
const REACH_31: u64 = 1 << 31;

/// How a program derives the places of a key from its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum Walk {
    /// Spark's `BloomFilterImpl`, version 1: 32-bit sums. It reaches 2^31 bits and no more.
    SparkV1 = 1,
    /// Spark's `BloomFilterImplV2`: 64-bit sums of 32-bit hashes.
    SparkV2 = 2,
    /// Guava's `MURMUR128_MITZ_64`: 64-bit sums.
    Guava64 = 3,
    /// Guava's `MURMUR128_MITZ_32`: 32-bit sums. It reaches 2^31 bits and no more.
    Guava32 = 4,
    /// The Python package rbloom: a 128-bit linear congruential generator.
    Rbloom = 5,
    /// DCSO's bloom and poppy's version 1: a multiplicative generator.
    Dcso = 6,
    /// Apache DataSketches: 64-bit sums, halved.
    DataSketches = 7,
    /// RedisBloom: 64-bit sums.
    RedisBloom = 8,
    /// The crate `bloomfilter`: both hashes, then 64-bit sums modulo a prime.
    Bloomfilter = 9,
}

/// Evaluates an expression for each walk on its own, so that the loop in it has no branch on the walk.
macro_rules! specialise {
    ($walk:expr, $known:ident => $body:expr) => {
        match $walk {
            Walk::SparkV1 => {
                const $known: Walk = Walk::SparkV1;
                $body
            }
            Walk::SparkV2 => {
                const $known: Walk = Walk::SparkV2;
                $body
            }
            Walk::Guava64 => {
                const $known: Walk = Walk::Guava64;
                $body
            }
            Walk::Guava32 => {
                const $known: Walk = Walk::Guava32;
                $body
            }
            Walk::Rbloom => {
                const $known: Walk = Walk::Rbloom;
                $body
            }
            Walk::Dcso => {
                const $known: Walk = Walk::Dcso;
                $body
            }
            Walk::DataSketches => {
                const $known: Walk = Walk::DataSketches;
                $body
            }
            Walk::RedisBloom => {
                const $known: Walk = Walk::RedisBloom;
                $body
            }
            Walk::Bloomfilter => {
                const $known: Walk = Walk::Bloomfilter;
                $body
            }
        }
    };
}

impl Walk {
    /// All walks.
    pub const ALL: [Self; 9] = [
        Self::SparkV1,
        Self::SparkV2,
        Self::Guava64,
        Self::Guava32,
        Self::Rbloom,
        Self::Dcso,
        Self::DataSketches,
        Self::RedisBloom,
        Self::Bloomfilter,
    ];

    const NAMES: [&str; 9] = [
        "spark_v1",
        "spark_v2",
        "guava_64",
        "guava_32",
        "rbloom",
        "dcso",
        "datasketches",
        "redisbloom",
        "bloomfilter",
    ];

    /// Returns its name, as the setting `walk` has it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize - 1]
    }

    fn from_id(id: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|walk| *walk as u64 == id)
    }

    /// Returns how many of `bits` bits the walk can reach.
    pub fn reach(self, bits: u64) -> u64 {
        match self {
            Self::SparkV1 | Self::Guava32 => bits.min(REACH_31),
            _ => bits,
        }
    }

    /// Returns the places of a key among `bits` bits, without end.
    #[inline(always)]
    fn places(self, key: KeyHash, bits: u64) -> Places {
        let (at, step) = match self {
            Self::SparkV1 => (key.hi & 0xffff_ffff, key.lo & 0xffff_ffff),
            Self::Guava32 => (key.hi & 0xffff_ffff, key.hi >> 32),
            Self::SparkV2 => {
                let first = i64::from(key.hi as i32).wrapping_mul(i32::MAX.into());
                (first as u64, i64::from(key.lo as i32) as u64)
            }
            Self::Dcso => (key.hi % LARGEST_PRIME, 0),
            _ => (key.hi, key.lo),
        };
        Places { walk: self, taken: 0, at, step, bits }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Walk {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|walk| walk.name() == name);
        found.ok_or_else(|| UnknownName::new("walk", name))
    }
}

/// The multiplier of rbloom's generator.
const RBLOOM: u128 = 47_026_247_687_942_121_848_144_207_491_837_418_733;
/// The modulus of DCSO's generator and of `bloomfilter`, the largest prime below 2^64, and DCSO's
/// multiplier.
const LARGEST_PRIME: u64 = 18_446_744_073_709_551_557;
const DCSO: u64 = 18_446_744_073_709_550_147;

/// See [`Walk::places`].
#[derive(Clone, Copy)]
struct Places {
    walk: Walk,
    /// The places before the next one: counted for `bloomfilter` alone.
    taken: u32,
    at: u64,
    step: u64,
    bits: u64,
}

impl Places {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        let place = match self.walk {
            Walk::SparkV1 | Walk::Guava32 => {
                self.at = u64::from((self.at as u32).wrapping_add(self.step as u32));
                let sum = self.at as i32;
                (if sum < 0 { !sum } else { sum }) as u64
            }
            Walk::SparkV2 => {
                self.at = self.at.wrapping_add(self.step);
                let sum = self.at as i64;
                (if sum < 0 { !sum } else { sum }) as u64
            }
            Walk::Guava64 => {
                let sum = self.at;
                self.at = sum.wrapping_add(self.step);
                sum & (u64::MAX >> 1)
            }
            Walk::Rbloom => {
                let state = u128::from(self.at) << 64 | u128::from(self.step);
                let state = state.wrapping_mul(RBLOOM).wrapping_add(1);
                (self.at, self.step) = ((state >> 64) as u64, state as u64);
                (state >> 32) as u64
            }
            Walk::Dcso => {
                self.at = self.at.wrapping_mul(DCSO) % LARGEST_PRIME;
                self.at
            }
            Walk::DataSketches => {
                self.at = self.at.wrapping_add(self.step);
                self.at >> 1
            }
            Walk::RedisBloom => {
                let sum = self.at;
                self.at = sum.wrapping_add(self.step);
                sum
            }
            Walk::Bloomfilter => {
                let sum = self.at;
                self.at = sum.wrapping_add(self.step);
                self.taken += 1;
                match self.taken {
                    1 => sum,
                    2 => self.step,
                    _ => sum % LARGEST_PRIME,
                }
            }
        };
        place % self.bits
    }
}

/// The shape of a [`ForeignBloom`] filter: `m` bits, of which a key sets `k`, and the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignBloomShape {
    walk: Walk,
    bits: u64,
    probes: u32,
    keys: u64,
}

const WALK: Setting = Setting::new(
    "walk",
    "the program whose walk it takes: spark_v1, spark_v2, guava_64, guava_32, rbloom, dcso, datasketches, \
     redisbloom or bloomfilter; default rbloom",
);

impl ForeignBloomShape {
    /// Returns a shape of `bits` bits, of which a key sets `probes`, with a capacity of `keys`.
    ///
    /// # Errors
    /// [`Error::Limit`] if a number is out of range.
    pub fn new(walk: Walk, bits: u64, probes: u32, keys: u64) -> Result<Self, Error> {
        let most = MAX_BYTES * 8;
        if bits == 0 || bits > most {
            return Err(Error::Limit { what: "bits", asked: bits, most });
        }
        if probes == 0 || u64::from(probes) > MAX_FOREIGN_PROBES {
            return Err(Error::Limit {
                what: "bits per key",
                asked: probes.into(),
                most: MAX_FOREIGN_PROBES,
            });
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { walk, bits, probes, keys })
    }

    /// Returns the walk.
    pub fn walk(&self) -> Walk {
        self.walk
    }

    /// Returns the number of bits.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Returns the number of bits that a key sets.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    fn reach(&self) -> u64 {
        self.walk.reach(self.bits)
    }
}

/// Returns the most keys for which a program would choose `probes` places among `bits` bits: it rounds
/// `bits / keys * ln 2` down, up, or to the nearest number.
fn usual_keys(bits: u64, probes: u32) -> u64 {
    let fewest = (f64::from(probes) - 1.0).max(0.5);
    ((bits as f64 * core::f64::consts::LN_2 / fewest).ceil() as u64).min(MAX_KEYS)
}

impl BitShape for ForeignBloomShape {
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
        let m = self.reach() as f64;
        // A damaged file may have bits past the end.
        -m / f64::from(self.probes) * (-(ones as f64 / m).min(1.0)).ln_1p()
    }

    fn with_capacity(&self, keys: u64) -> Self {
        Self { keys, ..self.clone() }
    }
}

impl Shape for ForeignBloomShape {
    const SETTINGS: &'static [Setting] = &[PROBES, WALK];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let walk = settings.choice(&WALK, &Walk::NAMES)?;
        let walk = walk.map_or(Walk::Rbloom, |index| Walk::ALL[index]);
        let (bits, probes) = smallest(keys, fpr, settings)?;
        if walk.reach(bits) < bits {
            return Err(Error::Infeasible { why: "the walk reaches only 2^31 bits" });
        }
        Self::new(walk, bits, probes, keys)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        let walk = self.walk.name().into();
        [("m", self.bits.into()), ("k", self.probes.into()), ("walk", walk)].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: tamis_bits::lines(BitShape::words(self)) * 64,
            query_cost: f64::from(self.probes) * 1.25,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        rate(self.reach(), self.probes, keys)
    }
}

/// A Bloom filter of another program.
///
/// ```
/// use tamis::{ForeignBloom, ForeignBloomShape, HashId, KeyHasher, Keyed, Walk};
///
/// // As Guava makes it for 1000 keys at 1 %: 9600 bits, 7 of them per key.
/// let shape = ForeignBloomShape::new(Walk::Guava64, 9600, 7, 1000)?;
/// let hasher = KeyHasher::new(HashId::GuavaMurmur3, [0, 0]);
/// let mut seen = Keyed::new(hasher, ForeignBloom::new(shape)?);
/// seen.insert("apple")?;
/// assert!(seen.contains("apple"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignBloom {
    shape: ForeignBloomShape,
    bits: BitArray,
    note: Words,
}

impl ForeignBloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn new(shape: ForeignBloomShape) -> Result<Self, Error> {
        let bits = BitArray::new(&shape)?;
        Ok(Self { shape, bits, note: Words::zeroed(0)? })
    }

    /// Returns a filter of these words: bit `i` is bit `i % 64` of word `i / 64`. The number of its keys
    /// is estimated from the set bits, and its capacity is the usual one for its shape, or the estimate
    /// if that is more.
    ///
    /// # Errors
    /// [`Error::Limit`] if a number is out of range, and [`Error::File`] if there are more or fewer words
    /// than `bits` takes, or bits are set past the end.
    pub fn from_words(walk: Walk, bits: u64, probes: u32, words: Words) -> Result<Self, Error> {
        let mut shape = ForeignBloomShape::new(walk, bits, probes, usual_keys(bits, probes))?;
        if words.len() as u64 != BitShape::words(&shape) {
            let what = "the number of words is not that of the bits";
            return Err(tamis_format::Error::corrupt(what).into());
        }
        // `as` saturates, also from infinity.
        let len = (shape.estimate(set::ones(&words)).round() as u64).min(MAX_KEYS);
        shape.keys = shape.keys.max(len);
        let bits = BitArray::from_parts(words, len, shape.keys);
        let filter = Self { shape, bits, note: Words::zeroed(0)? };
        filter.validate()?;
        Ok(filter)
    }

    /// States the number of keys and the capacity, which a program may store beside the bits.
    ///
    /// # Errors
    /// [`Error::Limit`] if a number is out of range, or there are more keys than the capacity.
    pub fn with_keys(self, len: u64, capacity: u64) -> Result<Self, Error> {
        if len > capacity {
            return Err(Error::Limit { what: "keys", asked: len, most: capacity });
        }
        let Self { shape: ForeignBloomShape { walk, bits, probes, .. }, bits: array, note } = self;
        let shape = ForeignBloomShape::new(walk, bits, probes, capacity)?;
        Ok(Self { shape, bits: array.with_len(len, capacity), note })
    }

    /// Attaches words that the filter keeps and does not use.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are more than 2^20 of them, and [`Error::Memory`] if the allocation
    /// fails.
    pub fn with_note(self, note: &[u64]) -> Result<Self, Error> {
        let asked = note.len() as u64;
        if asked > MAX_NOTE {
            return Err(Error::Limit { what: "words of a note", asked, most: MAX_NOTE });
        }
        Ok(Self { note: Words::copy_of(note)?, ..self })
    }

    /// Returns the bits: see [`ForeignBloom::from_words`].
    pub fn words(&self) -> &[u64] {
        self.bits.words()
    }

    /// Returns the words of [`ForeignBloom::with_note`].
    pub fn note(&self) -> &[u64] {
        &self.note
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

    fn set(&mut self, key: KeyHash) {
        let words = self.bits.words_mut();
        specialise!(self.shape.walk, WALK => {
            let mut places = WALK.places(key, self.shape.bits);
            for _ in 0..self.shape.probes {
                set::set(words, places.next());
            }
        });
    }

    #[inline(always)]
    fn all_set(&self, walk: Walk, key: KeyHash) -> bool {
        let words = self.bits.words();
        let mut places = walk.places(key, self.shape.bits);
        // A loop, because the closure of `all` would be called and look at the walk for each place.
        for _ in 0..self.shape.probes {
            if !set::get(words, places.next()) {
                return false;
            }
        }
        true
    }

    /// Looks up many keys in rounds: each round tests one bit of every remaining key and prefetches the
    /// next. A key whose bit is clear leaves the batch.
    #[inline(always)]
    fn contains_in_rounds(&self, walk: Walk, keys: &[KeyHash], out: &mut [bool]) {
        const LANES: usize = 64;
        let words = self.bits.words();
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let unused = walk.places(KeyHash { hi: 0, lo: 0 }, 1);
            let mut lanes = [(0u64, 0usize, unused); LANES];
            for (index, (key, lane)) in keys.iter().zip(&mut lanes).enumerate() {
                let mut places = walk.places(*key, self.shape.bits);
                let place = places.next();
                prefetch(words, (place / 64) as usize);
                *lane = (place, index, places);
                out[index] = false;
            }
            let mut left = keys.len();
            for _ in 1..self.shape.probes {
                let mut kept = 0;
                for lane in 0..left {
                    let (place, index, mut places) = lanes[lane];
                    if set::get(words, place) {
                        let next = places.next();
                        prefetch(words, (next / 64) as usize);
                        lanes[kept] = (next, index, places);
                        kept += 1;
                    }
                }
                left = kept;
            }
            for (place, index, _) in &lanes[..left] {
                out[*index] = set::get(words, *place);
            }
        }
    }
}

impl Filter for ForeignBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        specialise!(self.shape.walk, WALK => self.all_set(WALK, key))
    }

    fn len(&self) -> u64 {
        self.bits.len()
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.bits.words().len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        specialise!(self.shape.walk, WALK => self.contains_in_rounds(WALK, keys, out));
    }
}

impl Build for ForeignBloom {
    type Shape = ForeignBloomShape;

    fn shape(&self) -> &ForeignBloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<ForeignBloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for ForeignBloom {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if !self.bits.count_insertion() {
            return self.insert_at_limit(key);
        }
        self.set(key);
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        const AHEAD: usize = 8;
        let (counted, rest) = keys.split_at(self.bits.count_insertions(keys.len()));
        for keys in counted.chunks(AHEAD) {
            let words = self.bits.words();
            for key in keys {
                specialise!(self.shape.walk, WALK => {
                    let mut places = WALK.places(*key, self.shape.bits);
                    for _ in 0..self.shape.probes {
                        prefetch(words, (places.next() / 64) as usize);
                    }
                });
            }
            keys.iter().for_each(|key| self.set(*key));
        }
        insert_at_limit(self, rest).map_err(|full| full.after(counted.len()))
    }
}

impl Merge for ForeignBloom {
    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.bits.merge(&self.shape, (&other.shape, &other.bits))
    }

    fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        self.bits.force_merge(&mut self.shape, (&other.shape, &other.bits))
    }
}

impl SetOps for ForeignBloom {
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

impl Persist for ForeignBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let ForeignBloomShape { walk, bits, probes, keys } = self.shape;
        to.shape(&[walk as u64, bits, probes.into(), keys, self.note.len() as u64]);
        self.bits.write(to);
        to.words(NOTE, &self.note);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let walk = fields.next(1..=Walk::ALL.len() as u64, "number of the walk")?;
        let bits = fields.next(1..=MAX_BYTES * 8, "number of bits")?;
        let probes = fields.next(1..=MAX_FOREIGN_PROBES, "bits per key")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity")?;
        let note = fields.next(0..=MAX_NOTE, "words of the note")?;
        fields.finish()?;
        let walk = Walk::from_id(walk).ok_or_else(|| from.corrupt("number of the walk"))?;
        let shape = ForeignBloomShape::new(walk, bits, probes as u32, keys)?;
        let bits = BitArray::read(from, &shape)?;
        Ok(Self { shape, bits, note: from.words(NOTE, note)? })
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

    fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [5, 27]);
        (from..from + count).map(|key| key.hash_with(&hasher)).collect()
    }

    fn words(words: &[u64]) -> Words {
        Words::copy_of(words).unwrap()
    }

    #[test]
    fn every_walk_finds_its_members_at_the_stated_rate() {
        for walk in Walk::ALL {
            assert_eq!(walk.name().parse(), Ok(walk));
            let shape = ForeignBloomShape::new(walk, 191_701, 7, 20_000).unwrap();
            let members = hashes(0, 20_000);
            let mut one_by_one = ForeignBloom::new(shape.clone()).unwrap();
            members.iter().for_each(|key| one_by_one.insert(*key).unwrap());
            let filter = ForeignBloom::build(shape, &members[..]).unwrap();
            assert!(filter == one_by_one && filter.validate().is_ok(), "{walk}");
            let others = hashes(1 << 40, 40_000);
            for keys in [&members, &others] {
                let mut found = vec![false; keys.len()];
                filter.contains_prefetching(keys, &mut found);
                assert!(keys.iter().zip(&found).all(|(key, yes)| filter.contains(*key) == *yes));
            }
            assert!(members.iter().all(|key| filter.contains(*key)), "{walk}");
            let yeses = others.iter().filter(|key| filter.contains(**key)).count();
            // 400 expected at 1 %, with a standard deviation of 20.
            assert!((280..520).contains(&yeses), "{walk}: {yeses} of 40000");
        }
    }

    #[test]
    fn words_of_any_fill_are_taken() {
        for word in [0, 1, u64::MAX] {
            let filter = ForeignBloom::from_words(Walk::Guava64, 640, 7, words(&[word; 10]));
            let filter = filter.unwrap();
            assert!(filter.len() <= filter.shape().keys());
            assert_eq!(hashes(0, 9).iter().all(|key| filter.contains(*key)), word == u64::MAX);
        }
        let full = |bits| ForeignBloom::from_words(Walk::Dcso, bits, 7, words(&[u64::MAX; 2]));
        assert!(full(128).is_ok() && full(127).is_err() && full(129).is_err());
        assert!(ForeignBloom::from_words(Walk::Dcso, 64, 256, words(&[0])).is_err());
    }

    #[test]
    fn a_note_and_a_number_of_keys_are_kept() {
        let hasher = KeyHasher::new(HashId::DcsoFnv1, [0, 0]);
        let filter = ForeignBloom::from_words(Walk::Dcso, 640, 7, words(&[5; 10])).unwrap();
        assert!(filter.clone().with_keys(8, 7).is_err());
        let filter = filter.with_keys(7, 8).unwrap().with_note(&[1, 2, 3]).unwrap();
        let bytes = crate::Keyed::new(hasher, filter.clone()).to_bytes().unwrap();
        let read = crate::Keyed::<ForeignBloom>::from_bytes(&bytes).unwrap();
        assert_eq!((read.len(), read.capacity(), read.filter().note()), (7, 8, &[1, 2, 3][..]));
        assert!(read.filter() == &filter && read.hasher() == &hasher);
    }

    /// Spark's version 1 and Guava's 32-bit strategy set no bit past 2^31, so their rate in larger
    /// filters is that of 2^31 bits.
    #[test]
    fn a_walk_of_31_bits_ends_there() {
        let shape = |walk| ForeignBloomShape::new(walk, 1 << 34, 6, 1_000_000_000).unwrap();
        let [old, new] =
            [Walk::SparkV1, Walk::SparkV2].map(|walk| shape(walk).fpr_at(1_000_000_000));
        assert!(old > 0.6 && new < 0.001, "{old} {new}");
        let mut places = Walk::SparkV1.places(KeyHash { hi: u64::MAX, lo: 0x8000_0001 }, 1 << 34);
        assert!((0..1000).all(|_| places.next() < 1 << 31));
    }
}
