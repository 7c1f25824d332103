//! The ribbon filter: a key's fingerprint is the XOR of some of 64 neighbouring slots. The slots are
//! the solution of a linear system with one equation per key.
//!
//! ```text
//!              slots   …│░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░│…      r bits per slot
//!  digest ──► start ────┘  1 0 1 1 0 … 0 1  ◄── 64 coefficients, from the digest
//!                          └─► XOR of the slots at the 1s = fingerprint?  r bits, from the digest
//!
//!  layer 0   ├─ bucket ─┼─ bucket ─┼─ bucket ─┼ …   128 slots each, more keys than slots
//!  cuts      0 ··· 14 ··· 0 ··· 36 ·············    2 bits per bucket: keys that start before the
//!                                                   cut are bumped to the next layer
//!  layer 1   ├──────────┤                           a seventeenth as large, built the same way
//!  layer 2   ├┤                                     the last has no cuts: some seed fits all keys
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | r · 1.003 at a rate of 2^-r for millions of keys: 8.02 for 1/256; r · 1.03 for thousands |
//! | cache lines | 2 adjacent ones for r up to 8, in one page except for 1 query in 64; the cuts stay in the cache |
//! | building | 72 ns per key on one thread, including gathering and sorting |
//! | failure | none: digests that cannot be placed are listed, which no hashed set of keys needs |
//!
//! A row of coefficients is a linear equation over GF(2). [`tamis_bits::gf2::band`] keeps the rows in echelon
//! form. Each shard is filled from left to right, bucket by bucket, and each bucket from its last key
//! to its first. Rows extend into the first slots of the next bucket, so conflicts occur there. If a
//! row conflicts, its key and all keys that start before it are bumped, and the 2 bits state up to
//! which of four cuts. A large shard has 4 parts that are filled in turn, one step of each: a step waits
//! for the load of the step before it in the same part, but not for those of other parts. With 17 keys for 16 slots almost no slot stays free. A bumped non-member is
//! looked up in the next layer as a key is. In every layer it matches r bits with probability 2^-r
//! exactly, at any load.
//!
//! Up to 16384 keys, and the keys that remain of more, make a plain ribbon without cuts, with 2 to 3 %
//! more slots than keys. Seed numbers are tried in order until every key fits: 1.3 on average for 62
//! keys, 1.5 for 1000, 3.7 for 16384.
//!
//! `form=2` is the homogeneous ribbon: every fingerprint is 0 and the free slots are random, so no row
//! conflicts and no key is bumped. It needs spare slots, because a non-member also passes if its row is
//! a sum of the keys' rows: r · 1.11 bits per key at r = 8, for a rate slightly above 2^-r.
//!
//! Keys cannot be added or removed. Keys whose digests were chosen to collide go to the list of digests,
//! which makes the filter larger but keeps it correct.
//!
//! Dillinger, Walzer, *Ribbon filter: practically smaller than Bloom and Xor*, 2021; Dillinger,
//! Hübschle-Schneider, Sanders, Walzer, *Fast Succinct Retrieval and Approximate Membership using
//! Ribbon*, 2022. Differences: shards of equal size, so that the bytes do not depend on the threads;
//! the sizes of all layers follow from the number of keys; the last layer has seeds and, if needed, the
//! list.

mod build;
mod inspect;

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::gf2::band::BAND;
use tamis_bits::gf2::dot::{self, Dot, Question, Solution, Task};
use tamis_bits::{LINE_WORDS, Words, lines, packed, prefetch, range};
use tamis_format::{Name, Reader, Writer};

use crate::error::Error;
use crate::gather::gather;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::parts::sealed::SolveParts;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Persist, Static};

const TABLE: Name = Name::new("table");
const CUTS: Name = Name::new("cuts");
const OVERFLOW: Name = Name::new("overflow");

/// The version of the layout: how a digest selects its slots and its fingerprint. Files of layout 1 have
/// no such field and are refused.
const LAYOUT: u64 = 2;
/// Slots of a block.
const BLOCK: u64 = BAND as u64;
/// Slots of a bucket.
const BUCKET: u64 = 2 * BLOCK;
/// The possible cuts of a bucket. Keys that start before the cut are bumped. Among all pairs of middle
/// cuts these leave the fewest slots free, 0.03 %. The last one is for a bucket that takes no key.
const CUT: [u64; 4] = [0, 14, 36, BUCKET];
const CUT_BITS: u32 = 2;
/// Keys per slots of a layer with cuts: 17 for 16. Fewer leave more slots free, more bump more keys.
const LOAD: [u64; 2] = [17, 16];
/// The most keys of a plain layer. For more keys a layer with cuts is smaller.
const PLAIN: u64 = 1 << 14;
/// The most keys of a shard: many shards for the threads, and few ends with free slots.
const SHARD: u64 = 1 << 19;
/// Parts of a shard whose rows are inserted in turn, and the fewest buckets of a shard with such parts.
const LANES: usize = 4;
const MANY: u64 = 512;
/// Layers for the largest number of keys, each layer a seventeenth of the one before.
const LAYERS: usize = 10;
/// Seed numbers that the last layer may try.
const SEEDS: u64 = 256;
const MAX_BLOCKS: u64 = 1 << 44;
const MAX_SHARD_BITS: u32 = 32;
/// Keys of a batch whose slots are prefetched while the batch before it is evaluated.
const BATCH: usize = 32;

/// What happens to rows that conflict with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Their keys go to the next layer.
    Bumped,
    /// No row conflicts, because all fingerprints are 0.
    Homogeneous,
}

/// Slots in `2^bits` consecutive shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layer {
    bits: u32,
    /// Slots of a shard.
    slots: u64,
}

impl Layer {
    #[inline(always)]
    fn all_slots(&self) -> u64 {
        self.slots << self.bits
    }

    /// Returns the starts of windows in all shards.
    fn places(&self) -> u64 {
        (self.slots - (BLOCK - 1)) << self.bits
    }

    /// Returns the slot at which a digest's window starts. It does not decrease as the digest grows.
    #[inline(always)]
    fn start(&self, digest: u64) -> u64 {
        start(self.places(), self.bits, digest)
    }

    #[inline(always)]
    fn start_in_shard(&self, digest: u64) -> u64 {
        range::scale(digest << self.bits, self.slots - (BLOCK - 1))
    }
}

/// Returns the slot at which a digest's window starts in a layer of `2^bits` shards with `places` starts
/// in all. The last 63 slots of a shard are no starts.
#[inline(always)]
fn start(places: u64, bits: u32, digest: u64) -> u64 {
    let shard = digest >> 1 >> (63 - bits);
    range::scale(digest, places) + shard * (BLOCK - 1)
}

/// The shape: layers of slots, all but the last with cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RibbonShape {
    width: u32,
    form: Form,
    keys: u64,
    layers: [Layer; LAYERS],
    /// The index of the last layer.
    last: usize,
}

const FORM: Setting = Setting::new("form", "1 for bumped, 2 for homogeneous; default 1");

impl RibbonShape {
    /// Returns the shape for `keys` keys with `width` bits per slot, 1 to 32.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(width: u32, form: Form, keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if !(1..=32).contains(&width) {
            return Err(Error::Limit { what: "bits per slot", asked: width.into(), most: 32 });
        }
        let mut sizes = Vec::new();
        match form {
            Form::Homogeneous => {
                let bits = shard_bits(keys);
                let slots = (keys as f64 / homogeneous_load(width)).ceil() as u64;
                let blocks = slots.div_ceil(BLOCK << bits).max(LEAST_HOMOGENEOUS);
                sizes.push((bits, blocks));
            }
            Form::Bumped => {
                let mut left = keys;
                while left > PLAIN {
                    let bits = shard_bits(left);
                    let buckets = (left * LOAD[1] / LOAD[0]).div_ceil(BUCKET << bits);
                    sizes.push((bits, buckets * (BUCKET / BLOCK)));
                    left = left + spare(left, bits, buckets) - ((buckets * BUCKET) << bits);
                }
                let blocks =
                    (left.div_ceil(BLOCK).max(1)..).find(|blocks| plain_keys(*blocks) >= left);
                sizes.push((0, blocks.expect("more blocks take more keys")));
            }
        }
        Ok(Self::of(width, form, keys, &sizes))
    }

    /// Makes a shape from the binary logarithm of each layer's shards and the blocks of a shard.
    fn of(width: u32, form: Form, keys: u64, sizes: &[(u32, u64)]) -> Self {
        let mut layers = [Layer::default(); LAYERS];
        for (layer, (bits, blocks)) in layers.iter_mut().zip(sizes) {
            *layer = Layer { bits: *bits, slots: blocks * BLOCK };
        }
        Self { width, form, keys, layers, last: sizes.len() - 1 }
    }

    /// Returns the bits of a slot.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the bits of a fingerprint: none if all of them are 0.
    fn fp_mask(&self) -> u64 {
        if self.form == Form::Bumped { packed::mask(self.width) } else { 0 }
    }

    fn last(&self) -> &Layer {
        &self.layers[self.last]
    }

    /// Returns the slots of the layers with cuts.
    fn cut_slots(&self) -> u64 {
        self.layers[..self.last].iter().map(Layer::all_slots).sum()
    }

    fn slots(&self) -> u64 {
        self.cut_slots() + self.last().all_slots()
    }

    fn words(&self) -> u64 {
        self.slots() / BLOCK * u64::from(self.width)
    }

    fn cut_words(&self) -> u64 {
        (self.cut_slots() / BUCKET * u64::from(CUT_BITS)).div_ceil(64)
    }
}

fn shard_bits(keys: u64) -> u32 {
    keys.div_ceil(SHARD).next_power_of_two().trailing_zeros()
}

/// Returns an upper bound of the keys that go to the next layer although there is a slot for them: 30 at
/// the end of each shard, 16 at the end of each other part of it and 0.03 % of the others on average, six
/// standard deviations, and a bucket that takes no key. None of 5000 sets of 17,000 to 524,000 keys came
/// near it.
fn spare(keys: u64, bits: u32, buckets: u64) -> u64 {
    let ends = if buckets < MANY { 30 } else { 30 + 16 * (LANES as u64 - 1) };
    (ends << bits) + keys / 2800 + keys.isqrt() * 3 / 4 + 100
}

/// Returns the keys that a plain layer of `blocks` blocks takes with at least one seed in four.
fn plain_keys(blocks: u64) -> u64 {
    let slots = blocks * BLOCK;
    (slots - 1 - slots / 48).saturating_sub((slots * slots) >> 21)
}

/// The fewest blocks of a homogeneous shard. In fewer, the ends have too much effect on the rate.
const LEAST_HOMOGENEOUS: u64 = 16;

/// Returns the keys per slot at which [`sum_of_rows`] causes less than 1 in 200 false positives.
fn homogeneous_load(width: u32) -> f64 {
    0.932 - 0.0036 * f64::from(width)
}

/// Returns the probability that a non-member's row is a sum of the rows of keys, with `load` keys per
/// slot. Fitted to 8 million windows each at loads of 0.89 to 0.95, from 10^-2 down to 10^-6.
fn sum_of_rows(load: f64) -> f64 {
    let below = ((0.95 - load) * 100.0).max(0.0);
    (-6.2 - (1.1 + 0.22 * below) * below).exp2()
}

impl Shape for RibbonShape {
    const SETTINGS: &'static [Setting] = &[FORM];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let form = match settings.number(&FORM, |form| form == 1 || form == 2)? {
            Some(2) => Form::Homogeneous,
            _ => Form::Bumped,
        };
        // The rate is at least 2^-width, so most widths are skipped without computing a layout.
        for width in (1..=32).filter(|width| (-f64::from(*width)).exp2() <= fpr) {
            let shape = Self::new(width, form, keys)?;
            if shape.fpr_at(keys) <= fpr {
                return Ok(shape);
            }
        }
        Err(Error::Infeasible { why: "the rate needs slots of more than 32 bits" })
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [
            ("r", self.width.into()),
            ("form", (self.form as u32 + 1).into()),
            ("layers", (self.last as u64 + 1).into()),
        ]
        .into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (lines(self.words()) + lines(self.cut_words())) * 64,
            // Two adjacent lines cost little more than one.
            query_cost: 1.5 + f64::from(self.width) / 8.0,
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        let chance = (-f64::from(self.width)).exp2();
        match self.form {
            _ if keys == 0 => 0.0,
            Form::Bumped => chance,
            Form::Homogeneous => {
                chance + (1.0 - chance) * sum_of_rows(keys as f64 / self.slots() as f64)
            }
        }
    }
}

/// A ribbon filter.
///
/// # Examples
/// ```
/// use tamis::{Keyed, Ribbon};
///
/// let words = Keyed::<Ribbon>::builder().fpr(0.001).build(["apple", "pear"])?;
/// assert!(words.contains("apple") && words.contains("pear"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ribbon {
    shape: RibbonShape,
    len: u64,
    /// The seed number of the last layer.
    seed: u64,
    table: Solution,
    cuts: Words,
    /// Digests that the last layer could not place, as mixed for that layer.
    overflow: Words,
    /// Whether the slots alone decide: there are members, and none is listed.
    is_plain: bool,
    /// The starts of windows in the first layer.
    places: u64,
    /// See [`RibbonShape::fp_mask`].
    fp_mask: u64,
}

/// Returns the digest for the next layer, or for the last layer with another seed. Keys that were close
/// together before are independent afterwards.
#[inline(always)]
fn remix(digest: u64, seed: u64) -> u64 {
    range::mix(digest.wrapping_add((2 * seed + 1).wrapping_mul(0xd1b5_4a32_d192_ed03)))
}

/// Returns a digest's coefficients, the first of which is 1, and its fingerprint.
#[inline(always)]
fn row(digest: u64, fp_mask: u64) -> (u64, u64) {
    let product = u128::from(digest) * 0x9e37_79b9_7f4a_7c15;
    let (high, low) = ((product >> 64) as u64, product as u64);
    (low ^ high | 1, high & fp_mask)
}

impl Ribbon {
    fn from_parts(
        shape: RibbonShape,
        len: u64,
        seed: u64,
        [table, cuts, overflow]: [Words; 3],
    ) -> Self {
        let is_plain = len > 0 && overflow.is_empty();
        let places = shape.layers[0].places();
        let fp_mask = shape.fp_mask();
        let table = Solution::new(table, shape.width);
        Self { shape, len, seed, table, cuts, overflow, is_plain, places, fp_mask }
    }

    /// Returns whether a digest whose window starts at `slot` is bumped from its layer.
    #[inline(always)]
    fn is_bumped(&self, slot: u64) -> bool {
        let cut = self.cuts[(slot / (BUCKET * 32)) as usize] >> (slot / BUCKET % 32 * 2);
        slot % BUCKET < CUT[(cut % 4) as usize]
    }

    /// Returns the equation of a digest in the first layer, if there are several and it is not bumped
    /// from the first.
    #[inline(always)]
    fn first_equation(&self, digest: u64) -> Option<Question<1>> {
        let slot = start(self.places, self.shape.layers[0].bits, digest);
        let here = self.shape.last > 0 && !self.is_bumped(slot);
        here.then(|| equation_at(slot, digest, self.fp_mask))
    }

    /// Returns the equation of any other digest.
    #[inline(never)]
    fn later_equation(&self, mut digest: u64) -> Question<1> {
        let (shape, mut first) = (&self.shape, 0);
        for (number, layer) in shape.layers[..shape.last].iter().enumerate() {
            let slot = first + layer.start(digest);
            if number > 0 && !self.is_bumped(slot) {
                return equation_at(slot, digest, self.fp_mask);
            }
            digest = remix(digest, 0);
            first += layer.all_slots();
        }
        if shape.form == Form::Bumped {
            digest = remix(digest, self.seed);
        }
        equation_at(first + shape.last().start(digest), digest, self.fp_mask)
    }

    /// Returns whether the equation of any other digest holds. In a function of its own, so that the
    /// usual case need not save registers.
    #[inline(never)]
    fn contains_later(&self, digest: u64) -> bool {
        dot::holds(self.table.view(), self.later_equation(digest))
    }

    /// Returns the equations of the first keys, and prefetches their slots.
    #[inline(always)]
    fn equations(&self, keys: &[KeyHash]) -> [Question<1>; BATCH] {
        let mut equations = [Question::default(); BATCH];
        let width = self.shape.width as usize;
        for (equation, key) in equations.iter_mut().zip(keys) {
            *equation = self.first_equation(key.hi).unwrap_or_else(|| self.later_equation(key.hi));
            let block = (equation.slots[0] / BLOCK) as usize * width;
            // Prefetches what the first 8 bits need, because few non-members get further. Prefetching
            // all of a width of 16 makes members a quarter faster and non-members a third slower.
            prefetch(&self.table, block);
            prefetch(&self.table, block + width);
            prefetch(&self.table, block + width + width.min(LINE_WORDS) - 1);
        }
        equations
    }

    /// Corrects the result of the slots for filters that are empty or have listed digests.
    #[cold]
    fn contains_listed(&self, found: bool, key: KeyHash) -> bool {
        let digest = (0..self.shape.last).fold(key.hi, |digest, _| remix(digest, 0));
        self.len > 0 && (found || self.overflow.binary_search(&digest).is_ok())
    }
}

/// Returns the equation of a digest whose window starts at `slot`.
#[inline(always)]
fn equation_at(slot: u64, digest: u64, fp_mask: u64) -> Question<1> {
    let (coefficients, value) = row(digest, fp_mask);
    Question { slots: [slot], coefficients: [coefficients], value }
}

struct ContainsOne<'a>(&'a Ribbon, u64);

impl Task for ContainsOne<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, dot: impl Dot) -> bool {
        let Self(filter, digest) = self;
        match filter.first_equation(digest) {
            Some(equation) => dot.holds(filter.table.view(), equation),
            None => filter.contains_later(digest),
        }
    }
}

impl Filter for Ribbon {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let found = dot::run(ContainsOne(self, key.hi));
        if self.is_plain { found } else { self.contains_listed(found, key) }
    }

    /// Returns the number of distinct digests.
    fn len(&self) -> u64 {
        self.len
    }

    // Unlike `common::contains_prefetching` this loop prefetches the next batch while it evaluates the
    // current one, and evaluates a whole batch with SIMD.
    fn fits_cache(&self) -> bool {
        super::common::near(self.table.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let out = &mut out[..keys.len()];
        let mut equations = self.equations(keys);
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let next = self.equations(keys.get((i + 1) * BATCH..).unwrap_or(&[]));
            let now = core::mem::replace(&mut equations, next);
            dot::holds_batch(self.table.view(), &now[..out.len()], out);
        }
        if !self.is_plain {
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains_listed(*out, *key);
            }
        }
    }
}

impl Static for Ribbon {}

impl Build for Ribbon {
    type Shape = RibbonShape;

    fn shape(&self) -> &RibbonShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<RibbonShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let records = gather(options, keys)?;
        Self::solve_whole(options, fit(records.len())?, records)
    }
}

impl Persist for Ribbon {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let shape = &self.shape;
        let form = if shape.form == Form::Bumped { 1 } else { 2 };
        let listed = self.overflow.len() as u64;
        let layers = shape.last as u64 + 1;
        let mut fields =
            vec![LAYOUT, shape.width.into(), form, shape.keys, self.seed, listed, layers];
        for layer in &shape.layers[..=shape.last] {
            fields.extend([layer.bits.into(), layer.slots / BLOCK]);
        }
        to.shape(&fields);
        to.words(TABLE, &self.table);
        to.words(CUTS, &self.cuts);
        to.words(OVERFLOW, &self.overflow);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        fields.next(LAYOUT..=LAYOUT, "layout of the slots")?;
        let width = fields.next(1..=32, "bits per slot")? as u32;
        let form = match fields.next(1..=2, "form")? {
            1 => Form::Bumped,
            _ => Form::Homogeneous,
        };
        let keys = fields.next(len..=MAX_KEYS, "capacity in keys")?;
        let seed = fields.next(0..=SEEDS - 1, "seed number")?;
        let listed = fields.next(0..=len, "number of listed digests")?;
        let count = fields.next(1..=LAYERS as u64, "number of layers")?;
        let mut sizes = Vec::new();
        let mut all = 0u64;
        for layer in 1..=count {
            let bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard number")? as u32;
            let blocks = fields.next(1..=MAX_BLOCKS >> bits, "blocks per shard")?;
            all += blocks << bits;
            if layer < count && !(blocks * BLOCK).is_multiple_of(BUCKET) {
                return Err(from.corrupt("a shard does not have whole buckets").into());
            }
            sizes.push((bits, blocks));
        }
        fields.finish()?;
        if all > MAX_BLOCKS || form == Form::Homogeneous && count > 1 {
            return Err(from.corrupt("the sizes of the layers are out of range").into());
        }
        let shape = RibbonShape::of(width, form, keys, &sizes);
        let table = from.words(TABLE, shape.words())?;
        let cuts = from.words(CUTS, shape.cut_words())?;
        let overflow = from.words(OVERFLOW, listed)?;
        Ok(Self::from_parts(shape, len, seed, [table, cuts, overflow]))
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let cut_bits = self.shape.cut_slots() / BUCKET * u64::from(CUT_BITS);
        if !tamis_bits::set::ends_at(&self.cuts, cut_bits) {
            return corrupt("bits are set past the last cut");
        }
        if !self.overflow.is_sorted_by(|a, b| a < b) {
            return corrupt("the listed digests are not sorted");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::build::{Shard, fill};
    use super::*;
    use crate::gather::Record;
    use crate::hash::{HashId, Key, KeyHasher};

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 14]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    fn bumped(width: u32, keys: u64) -> RibbonShape {
        RibbonShape::new(width, Form::Bumped, keys).unwrap()
    }

    fn digests(digests: impl IntoIterator<Item = u64>) -> Vec<KeyHash> {
        digests.into_iter().map(|hi| KeyHash { hi, lo: 0 }).collect()
    }

    /// Layers with cuts, of one shard and of several, and plain layers.
    const SIZES: [(u64, usize); 8] = [
        (0, 1),
        (1, 1),
        (63, 1),
        (1000, 1),
        (PLAIN, 1),
        (PLAIN + 1, 2),
        (300_000, 3),
        (700_000, 3),
    ];

    /// The planned sizes are enough: nothing is listed, at any width.
    #[test]
    fn planned_layers_take_their_keys() {
        for (keys, layers) in SIZES {
            for width in [1, 8, 13] {
                let shape = bumped(width, keys);
                assert_eq!(shape.last + 1, layers);
                for seed in 0..(100_000 / (keys + 1)).clamp(1, 300) {
                    let members = hashes(seed, 0..keys);
                    let filter = Ribbon::build(shape.clone(), &members[..]).unwrap();
                    filter.validate().unwrap();
                    assert!(filter.overflow.is_empty(), "{keys} keys, seed {seed}");
                    assert!(filter.seed < 64, "{keys} keys, seed {seed}");
                    assert!(members.iter().all(|key| filter.contains(*key)));
                }
            }
        }
    }

    /// A key is bumped if and only if it starts before its bucket's cut. At most 0.1 % of the slots
    /// stay free.
    #[test]
    fn keys_before_the_cut_are_bumped() {
        let keys = 800_000;
        let shape = bumped(16, keys);
        let layer = &shape.layers[0];
        let mut records: Vec<Record<1>> = hashes(1, 0..keys).iter().map(|key| [key.hi]).collect();
        records.sort_unstable();
        let half = records.partition_point(|[digest]| digest >> 63 == 0);
        let mut part = vec![0; (layer.slots / BLOCK * 16) as usize];
        let Shard { cuts, left, .. } = fill(&shape, layer, &records[..half], &mut part).unwrap();
        assert_eq!(cuts.len() as u64, layer.slots / BUCKET);
        assert!((0..3).all(|cut| cuts.contains(&cut)), "all cuts are used");
        let mut expected = records[..half].to_vec();
        expected.retain(|[digest]| {
            let start = layer.start_in_shard(*digest);
            start % BUCKET < CUT[usize::from(cuts[(start / BUCKET) as usize])]
        });
        assert_eq!(left, expected.as_flattened());
        let free = layer.slots - (half - left.len()) as u64;
        assert!(free < layer.slots / 1000, "{free} slots are free");
    }

    /// Digests that were chosen to collide: those that do not fit are listed, and all are found.
    #[test]
    fn hostile_digests_are_listed_and_found() {
        let (plain, layered) = (5000, 40_000);
        for keys in [plain, layered] {
            let shape = bumped(8, keys);
            // A plain layer mixes all digests. Layers with cuts are too small for all the keys of one
            // bucket of the first layer.
            let near = digests(1 << 40..(1 << 40) + keys);
            let steps = digests((0..keys).map(|i| i * (u64::MAX / keys)));
            let few = digests((0..keys).map(|i| (i % 7) << 61));
            for (members, listed) in [(near, keys == layered), (steps, false), (few, false)] {
                let filter = Ribbon::build(shape.clone(), &members[..]).unwrap();
                filter.validate().unwrap();
                assert_eq!(!filter.overflow.is_empty(), listed, "{keys}");
                assert!(members.iter().all(|key| filter.contains(*key)));
                let mut out = vec![false; members.len()];
                filter.contains_batch(&members, &mut out);
                assert!(out.iter().all(|found| *found));
                let passed =
                    hashes(2, 0..100_000).iter().filter(|key| filter.contains(**key)).count();
                assert!((250..550).contains(&passed), "{passed}, not 390");
            }
        }
    }

    /// The rate holds in layers with cuts, which small filters do not have.
    #[test]
    fn the_rate_is_the_same_in_every_layer() {
        for (keys, width) in [(20_000, 3), (300_000, 1), (300_000, 6)] {
            let (mut passed, mut tested) = (0, 0);
            for seed in 0..5 {
                let filter =
                    Ribbon::build(bumped(width, keys), &hashes(seed, 0..keys)[..]).unwrap();
                let non_members = hashes(seed, 1 << 40..(1 << 40) + 200_000);
                passed += non_members.iter().filter(|key| filter.contains(**key)).count();
                tested += non_members.len();
            }
            let expected = tested as f64 * (-f64::from(width)).exp2();
            let off = (passed as f64 - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{passed}, not {expected}");
        }
    }

    #[test]
    fn the_promised_size() {
        let over =
            |keys, width| bumped(width, keys).figures().bits_per_key() / f64::from(width) - 1.0;
        assert!(over(10_000_000, 8) < 0.003 && over(1_000_000, 8) < 0.004);
        assert!(over(100_000, 8) < 0.009 && over(1000, 8) < 0.03);
        assert!(over(10_000_000, 16) < 0.002 && over(10_000_000, 1) < 0.017);
        assert_eq!(bumped(32, MAX_KEYS).last + 1, 10);
    }
}
