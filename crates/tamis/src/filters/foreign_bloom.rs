//! A Bloom filter of another program: its bits, and its way to choose them.
//!
//! ```text
//!  key ──► the program's hash ──► its walk over m bits ──► k places      (HashId, Walk)
//!
//!  bits   0 1 0 0 1 1 0 0 0 1 0 1 …   in the order of the program's own bit numbers
//!  older  0 1 1 0 … | 1 1 0 1 …        layers of a chain, which were full before `bits` was begun
//!  note   what the program stores beside the bits, kept as it is
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | as `bloom` |
//! | cache lines | as `bloom` |
//! | a query | as `bloom`, and for each place a remainder by m: two products with a reciprocal |
//! | rate | as `bloom`; walks that add the same stride at each step exceed it in filters of a few hundred bits |
//!
//! It exists to hold filters of other programs: they are queried, merged, saved and written back without
//! their keys. [`bloom`](super::bloom) is better for new filters. The planner does not recommend it.
//!
//! A filter of another program does not state for how many keys it is made. Its capacity is what its
//! numbers of bits and places suggest, or the estimated number of its keys if that is more.
//!
//! A program that adds a layer when a filter is full leaves a chain: each layer has its own number of bits
//! and places, and a key is in the chain if any layer has all its places set. A chain answers as it does in
//! its program. It accepts no further keys, and cannot be merged or intersected.
//!
//! Bloom, *Space/Time Trade-offs in Hash Coding with Allowable Errors*, 1970; each [`Walk`] names the
//! program that it is taken from.

mod reciprocal;
#[cfg(test)]
mod tests;
mod walk;

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::range::scale;
use tamis_bits::set::{self, ScaledBits, ScaledBitsMut};
use tamis_bits::{Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use super::bloom::{PROBES, rate, smallest};
use super::common::bit_array::{BitArray, BitShape, insert_at_limit};
use super::common::{build_by_inserting, near};
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

use reciprocal::Reciprocal;
pub use walk::Walk;
use walk::{Places, specialise};

const NOTE: Name = Name::new("note");
const OLDER: Name = Name::new("older");
/// The most places of a key. A rate of 2^-50 takes 50.
pub const MAX_FOREIGN_PROBES: u64 = 255;
/// The most layers of a chain. A layer has more places per key than the one before it.
pub const MAX_FOREIGN_LAYERS: usize = 256;
/// The most words of a note.
const MAX_NOTE: u64 = 1 << 20;
/// The keys that a batch looks up at a time.
const LANES: usize = 64;
/// The fields of an older layer in a file.
const LAYER_FIELDS: usize = 3;

/// A full layer of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignLayer {
    /// The number of bits.
    pub bits: u64,
    /// The number of bits that a key sets.
    pub probes: u32,
    /// The number of keys in the layer.
    pub keys: u64,
}

impl ForeignLayer {
    fn words(&self) -> u64 {
        self.bits.div_ceil(64)
    }
}

/// The shape of a [`ForeignBloom`] filter: `m` bits, of which a key sets `k`, and the walk. A chain has
/// older layers besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignBloomShape {
    walk: Walk,
    bits: u64,
    probes: u32,
    /// The capacity of all layers.
    keys: u64,
    /// The layers before the newest, the oldest first.
    older: Vec<ForeignLayer>,
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
        check_layer(bits, probes)?;
        crate::shape::check_keys(keys)?;
        Ok(Self { walk, bits, probes, keys, older: Vec::new() })
    }

    /// Adds older layers. `keys` is the capacity of all layers.
    fn with_older(self, older: Vec<ForeignLayer>, keys: u64) -> Result<Self, Error> {
        let (asked, most) = (older.len() as u64 + 1, MAX_FOREIGN_LAYERS as u64);
        if asked > most {
            return Err(Error::Limit { what: "layers", asked, most });
        }
        for layer in &older {
            check_layer(layer.bits, layer.probes)?;
        }
        crate::shape::check_keys(keys)?;
        Ok(Self { keys, older, ..self })
    }

    /// Returns the walk.
    pub fn walk(&self) -> Walk {
        self.walk
    }

    /// Returns the number of bits, of the newest layer if there are several.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Returns the number of bits that a key sets, in the newest layer if there are several.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Returns the layers before the newest, the oldest first.
    pub fn older(&self) -> &[ForeignLayer] {
        &self.older
    }

    fn reach(&self) -> u64 {
        self.walk.reach(self.bits)
    }

    /// Checks that there is one layer.
    fn check_single(&self) -> Result<(), Error> {
        if self.older.is_empty() {
            return Ok(());
        }
        Err(Error::Infeasible { why: "chains of layers cannot be merged or compared" })
    }
}

fn check_layer(bits: u64, probes: u32) -> Result<(), Error> {
    let most = MAX_BYTES * 8;
    if bits == 0 || bits > most {
        return Err(Error::Limit { what: "bits", asked: bits, most });
    }
    if probes == 0 || u64::from(probes) > MAX_FOREIGN_PROBES {
        let (asked, most) = (probes.into(), MAX_FOREIGN_PROBES);
        return Err(Error::Limit { what: "bits per key", asked, most });
    }
    Ok(())
}

/// Estimates the keys that set `ones` of `m` bits; infinite if all bits are set.
fn estimate(m: u64, probes: u32, ones: u64) -> f64 {
    let m = m as f64;
    // A damaged file may have bits past the end.
    -m / f64::from(probes) * (-(ones as f64 / m).min(1.0)).ln_1p()
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
        estimate(self.reach(), self.probes, ones)
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
        let mut all = vec![("m", self.bits.into()), ("k", self.probes.into()), ("walk", walk)];
        if !self.older.is_empty() {
            all.push(("layers", (self.older.len() as u64 + 1).into()));
        }
        all
    }

    fn figures(&self) -> Figures {
        let older: u64 = self.older.iter().map(ForeignLayer::words).sum();
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (tamis_bits::lines(BitShape::words(self)) + tamis_bits::lines(older)) * 64,
            query_cost: f64::from(self.probes) * 1.25 + self.older.len() as f64 * 2.5,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        let mut newest = keys;
        let mut rejected = 1.0;
        for ForeignLayer { bits, probes, keys } in &self.older {
            rejected *= 1.0 - rate(self.walk.reach(*bits), *probes, (*keys).min(newest));
            newest = newest.saturating_sub(*keys);
        }
        match self.older.is_empty() {
            true => rate(self.reach(), self.probes, newest),
            false => 1.0 - rejected * (1.0 - rate(self.reach(), self.probes, newest)),
        }
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
    reciprocal: Reciprocal,
    bits: BitArray,
    /// The layers before the newest, as the shape has them.
    older: Vec<(Reciprocal, Words)>,
    note: Words,
}

/// A layer, as a query needs it.
#[derive(Clone, Copy)]
struct Layer<'a> {
    words: &'a [u64],
    /// The bits that the walk reaches.
    bits: u64,
    reciprocal: Reciprocal,
    probes: u32,
}

impl Layer<'_> {
    /// Returns whether all bits of a key are set. Tests the first alone and the others in pairs, as
    /// [`bloom`](super::bloom) does.
    #[inline(always)]
    fn all_set(self, walk: Walk, key: KeyHash) -> bool {
        let (mut places, bits) = (walk.places(key), ScaledBits::new(self.words, self.bits));
        // No closure: it would be called, and look at the walk for each place.
        if bits.get(places.next(self.reciprocal)) & 1 == 0 {
            return false;
        }
        for _ in 0..(self.probes - 1) / 2 {
            let first = bits.get(places.next(self.reciprocal));
            if first & bits.get(places.next(self.reciprocal)) & 1 == 0 {
                return false;
            }
        }
        !self.probes.is_multiple_of(2) || bits.get(places.next(self.reciprocal)) & 1 == 1
    }

    /// Returns the next place, and prefetches it.
    #[inline(always)]
    fn prefetch_next(self, places: &mut Places) -> u64 {
        let place = scale(places.next(self.reciprocal), self.bits);
        prefetch(self.words, (place / 64) as usize);
        place
    }

    /// Looks up many keys in rounds: each round tests one bit of every remaining key and prefetches the
    /// next. A key whose bit is clear leaves the batch.
    #[inline(always)]
    fn contains_in_rounds(self, walk: Walk, keys: &[KeyHash], out: &mut [bool]) {
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let unused = walk.places(KeyHash { hi: 0, lo: 0 });
            let mut lanes = [(0u64, 0usize, unused); LANES];
            for (index, (key, lane)) in keys.iter().zip(&mut lanes).enumerate() {
                let mut places = walk.places(*key);
                *lane = (self.prefetch_next(&mut places), index, places);
                out[index] = false;
            }
            let mut left = keys.len();
            for _ in 1..self.probes {
                let mut kept = 0;
                for lane in 0..left {
                    let (place, index, mut places) = lanes[lane];
                    if set::get(self.words, place) {
                        lanes[kept] = (self.prefetch_next(&mut places), index, places);
                        kept += 1;
                    }
                }
                left = kept;
            }
            for (place, index, _) in &lanes[..left] {
                out[*index] = set::get(self.words, *place);
            }
        }
    }
}

impl ForeignBloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn new(shape: ForeignBloomShape) -> Result<Self, Error> {
        let bits = BitArray::new(&shape)?;
        Self::from_parts(shape, bits)
    }

    /// Returns a filter of one layer without a note.
    fn from_parts(shape: ForeignBloomShape, bits: BitArray) -> Result<Self, Error> {
        let reciprocal = Reciprocal::new(shape.reach());
        Ok(Self { shape, reciprocal, bits, older: Vec::new(), note: Words::zeroed(0)? })
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
        let filter = Self::from_parts(shape, bits)?;
        filter.validate()?;
        Ok(filter)
    }

    /// States the number of keys and the capacity, which a program may store beside the bits.
    ///
    /// # Errors
    /// [`Error::Limit`] if a number is out of range, or there are more keys than the capacity, and
    /// [`Error::Infeasible`] if there are older layers.
    pub fn with_keys(mut self, len: u64, capacity: u64) -> Result<Self, Error> {
        self.shape.check_single()?;
        if len > capacity {
            return Err(Error::Limit { what: "keys", asked: len, most: capacity });
        }
        crate::shape::check_keys(capacity)?;
        self.shape.keys = capacity;
        Ok(Self { bits: self.bits.with_len(len, capacity), ..self })
    }

    /// Puts full layers of a chain before this one, the oldest first. Their keys count as keys of the
    /// filter, which then accepts no more: see [the module](self).
    ///
    /// # Errors
    /// [`Error::Limit`] if a number is out of range, [`Error::File`] if a layer has more or fewer words
    /// than its bits take, or bits are set past its end, and [`Error::Infeasible`] if there are older
    /// layers already.
    pub fn with_older(self, layers: Vec<(ForeignLayer, Words)>) -> Result<Self, Error> {
        self.shape.check_single()?;
        if layers.is_empty() {
            return Ok(self);
        }
        if layers.iter().any(|(layer, words)| layer.words() != words.len() as u64) {
            let what = "the number of words is not that of the bits";
            return Err(tamis_format::Error::corrupt(what).into());
        }
        let (older, words): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
        let held = older.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.keys));
        let len = self.bits.len().saturating_add(held);
        let keys = self.shape.keys.saturating_add(held);
        let filter = Self { shape: self.shape.with_older(older, keys)?, ..self };
        let filter = filter.with_older_words(len, words);
        filter.validate()?;
        Ok(filter)
    }

    /// Attaches the words of the older layers of the shape. No insertion is counted from now on.
    fn with_older_words(self, len: u64, words: Vec<Words>) -> Self {
        let walk = self.shape.walk;
        let reciprocal = |layer: &ForeignLayer| Reciprocal::new(walk.reach(layer.bits));
        let older = self.shape.older.iter().map(reciprocal).zip(words).collect();
        Self { bits: self.bits.with_len(len, 0), older, ..self }
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

    /// Returns the bits: see [`ForeignBloom::from_words`]. Those of a chain are the bits of its newest
    /// layer.
    pub fn words(&self) -> &[u64] {
        self.bits.words()
    }

    /// Returns the bits of the layers before the newest, the oldest first.
    pub fn older_words(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.older.iter().map(|(_, words)| &words[..])
    }

    /// Returns the words of [`ForeignBloom::with_note`].
    pub fn note(&self) -> &[u64] {
        &self.note
    }

    #[inline(always)]
    fn newest(&self) -> Layer<'_> {
        Layer {
            words: self.bits.words(),
            bits: self.shape.reach(),
            reciprocal: self.reciprocal,
            probes: self.shape.probes,
        }
    }

    /// Returns the layers before the newest, the youngest first.
    fn older_layers(&self) -> impl Iterator<Item = Layer<'_>> {
        let layers = self.shape.older.iter().zip(&self.older).rev();
        layers.map(|(ForeignLayer { bits, probes, .. }, (reciprocal, words))| Layer {
            words,
            bits: self.shape.walk.reach(*bits),
            reciprocal: *reciprocal,
            probes: *probes,
        })
    }

    #[cold]
    fn contains_in_older(&self, key: KeyHash) -> bool {
        self.older_layers().any(|layer| layer.all_set(self.shape.walk, key))
    }

    #[cold]
    fn insert_at_limit(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.contains(key) {
            return Ok(());
        }
        if !self.older.is_empty() {
            return Err(Full::NONE);
        }
        self.bits.count_change(&self.shape)?;
        self.set(key);
        Ok(())
    }

    fn set(&mut self, key: KeyHash) {
        let (bits, probes) = (self.shape.reach(), self.shape.probes);
        let mut bits = ScaledBitsMut::new(self.bits.words_mut(), bits);
        specialise!(self.shape.walk, walk => {
            let mut places = walk.places(key);
            for _ in 0..probes {
                bits.set(places.next(self.reciprocal));
            }
        });
    }
}

impl Filter for ForeignBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        specialise!(self.shape.walk, walk => self.newest().all_set(walk, key))
            || !self.older.is_empty() && self.contains_in_older(key)
    }

    fn len(&self) -> u64 {
        self.bits.len()
    }

    fn fits_cache(&self) -> bool {
        near(self.older.iter().fold(self.bits.words().len(), |sum, (_, words)| sum + words.len()))
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        specialise!(self.shape.walk, walk => self.newest().contains_in_rounds(walk, keys, out));
        if !self.older.is_empty() {
            for (key, out) in keys.iter().zip(out).filter(|(_, out)| !**out) {
                *out = self.contains_in_older(*key);
            }
        }
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
                specialise!(self.shape.walk, walk => {
                    let mut places = walk.places(*key);
                    for _ in 0..self.shape.probes {
                        let place = scale(places.next(self.reciprocal), self.shape.reach());
                        prefetch(words, (place / 64) as usize);
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
        self.shape.check_single()?;
        self.bits.merge(&self.shape, (&other.shape, &other.bits))
    }

    fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        self.shape.check_single()?;
        self.bits.force_merge(&mut self.shape, (&other.shape, &other.bits))
    }
}

impl SetOps for ForeignBloom {
    fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        self.shape.check_single()?;
        self.bits.intersect(&self.shape, (&other.shape, &other.bits))
    }

    fn cardinality(&self) -> f64 {
        let older = self.older_layers();
        let older = older.map(|layer| estimate(layer.bits, layer.probes, set::ones(layer.words)));
        self.shape.estimate(self.bits.ones()) + older.sum::<f64>()
    }

    fn similarity(&self, other: &Self) -> Result<f64, Error> {
        self.shape.check_single()?;
        self.bits.similarity(&self.shape, (&other.shape, &other.bits))
    }
}

impl Persist for ForeignBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let ForeignBloomShape { walk, bits, probes, keys, ref older } = self.shape;
        let mut fields = vec![walk as u64, bits, probes.into(), keys, self.note.len() as u64];
        for ForeignLayer { bits, probes, keys } in older {
            fields.extend([*bits, (*probes).into(), *keys]);
        }
        to.shape(&fields);
        self.bits.write(to);
        to.words(NOTE, &self.note);
        if !older.is_empty() {
            to.pieces(OLDER, self.older.iter().map(|(_, words)| words.into()));
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let walk = fields.next(1..=Walk::ALL.len() as u64, "number of the walk")?;
        let bits = fields.next(1..=MAX_BYTES * 8, "number of bits")?;
        let probes = fields.next(1..=MAX_FOREIGN_PROBES, "bits per key")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity")?;
        let note = fields.next(0..=MAX_NOTE, "words of the note")?;
        let mut older = Vec::new();
        while fields.remaining() >= LAYER_FIELDS && older.len() + 1 < MAX_FOREIGN_LAYERS {
            older.push(ForeignLayer {
                bits: fields.next(1..=MAX_BYTES * 8, "number of bits")?,
                probes: fields.next(1..=MAX_FOREIGN_PROBES, "bits per key")? as u32,
                keys: fields.next(0..=MAX_KEYS, "number of keys of a layer")?,
            });
        }
        fields.finish()?;
        let walk = Walk::from_id(walk).ok_or_else(|| from.corrupt("number of the walk"))?;
        let shape = ForeignBloomShape::new(walk, bits, probes as u32, keys)?;
        let bits = BitArray::read(from, &shape)?;
        let filter = Self::from_parts(shape, bits)?;
        let filter = Self { note: from.words(NOTE, note)?, ..filter };
        if older.is_empty() {
            return Ok(filter);
        }
        let held = older.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.keys));
        if held > len {
            return Err(from.corrupt("the layers have more keys than the filter").into());
        }
        let total = older.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.words()));
        let all = from.words(OLDER, total)?;
        let mut at = 0;
        let parts = older.iter().map(|layer| {
            let len = layer.words() as usize;
            at += len;
            all.part(at - len, len)
        });
        let words = parts.collect::<Result<_, _>>()?;
        let shape = filter.shape.with_older(older, keys)?;
        Ok(Self { shape, ..filter }.with_older_words(len, words))
    }

    fn validate(&self) -> Result<(), Error> {
        let older = self.shape.older.iter().zip(&self.older);
        if set::ends_at(self.bits.words(), self.shape.bits)
            && older.into_iter().all(|(layer, (_, words))| set::ends_at(words, layer.bits))
        {
            return Ok(());
        }
        Err(tamis_format::Error::corrupt("bits are set past the end").into())
    }
}
