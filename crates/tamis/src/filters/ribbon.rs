//! The ribbon filter: a key's fingerprint is the XOR of some of 64 neighbouring slots, and the slots
//! are solved for, all at once, so that this is true of every key.
//!
//! ```text
//!              slots   …│░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░│…      r bits a slot
//!  digest ──► start ────┘  1 0 1 1 0 … 0 1  ◄── 64 coefficients, from the digest
//!                          └─► XOR of the slots at the 1s = fingerprint?  r bits, from the digest
//!
//!  layer 0   ├─ bucket ─┼─ bucket ─┼─ bucket ─┼ …   128 slots each, more keys than slots
//!  cuts      0 ··· 14 ··· 0 ··· 36 ·············    2 bits a bucket: keys that start before the cut
//!                                                   are bumped to the next layer
//!  layer 1   ├──────────┤                           a seventeenth as large, the same again
//!  layer 2   ├┤                                     the last has no cuts: it fits with some seed
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | r · 1.003 at a rate of 2^-r for millions of keys: 8.02 for 1/256; r · 1.03 for thousands |
//! | cache lines | 2 side by side for r up to 8, in one page but for 1 query in 64; the cuts stay in the cache |
//! | building | 100 ns a key on one thread, gathering and sorting among it |
//! | failure | none: what cannot be placed is listed, which no honest set of keys needs |
//!
//! A row of coefficients is a linear equation over GF(2); [`tamis_bits::gf2::band`] keeps them in echelon
//! form. Each shard is filled from left to right, bucket by bucket, and in each bucket from the
//! last key to the first. Rows run over into the first slots of the next bucket, so it is there
//! that keys do not fit: where one fails, it and all that start before it are bumped, and the 2 bits
//! say up to which of four cuts. With 17 keys for 16 slots hardly a slot stays free. A
//! stranger that is bumped is asked of the next layer as a key would be; wherever it ends the chance
//! that it has the right r bits is 2^-r, exactly, at any load.
//!
//! Up to 16384 keys, and what is left of more, are a plain ribbon without cuts, with 2 to 3 % more
//! slots than keys. Seed numbers are tried in order until every key fits: 1.3 on average for 62
//! keys, 1.5 for 1000, 3.7 for 16384.
//!
//! `form=2` is the homogeneous ribbon: every fingerprint is 0 and the free slots are filled at
//! random, so nothing ever fails and nothing is bumped. It needs slots to spare, because
//! a stranger gets in also where its row is a sum of the keys' rows: r · 1.11 bits a key at r = 8,
//! for a rate a little above 2^-r.
//!
//! Nothing can be added or removed. Keys whose digests were made to collide end up in the list of
//! digests: the filter is larger then, and right.
//!
//! Dillinger, Walzer, *Ribbon filter: practically smaller than Bloom and Xor*, 2021; Dillinger,
//! Hübschle-Schneider, Sanders, Walzer, *Fast Succinct Retrieval and Approximate Membership using
//! Ribbon*, 2022. Differences: shards of equal size, so that threads do not show; the sizes of
//! all layers follow from the number of keys; the last layer has seeds and, if need be, the list.

use tamis_bits::gf2::band::{self, BAND, Band, Question, Row};
use tamis_bits::{LINE_WORDS, Words, lines, packed, prefetch, range};
use tamis_format::{Name, Reader, Writer};

use super::common::usize_words;
use crate::error::Error;
use crate::gather::{Gathering, Record, gather};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Persist, Static};

const TABLE: Name = Name::new("table");
const CUTS: Name = Name::new("cuts");
const OVERFLOW: Name = Name::new("overflow");

/// Slots of a block.
const BLOCK: u64 = BAND as u64;
/// Slots of a bucket.
const BUCKET: u64 = 2 * BLOCK;
/// Where a bucket may be cut: keys that start before it are bumped. Of all pairs in between, these
/// leave the fewest slots free, 0.03 %; the last is for the bucket that takes nothing.
const CUT: [u64; 4] = [0, 14, 36, BUCKET];
const CUT_BITS: u32 = 2;
/// Keys of a layer with cuts for its slots: 17 for 16. Fewer leave more slots free, more bump more.
const CROWD: [u64; 2] = [17, 16];
/// Keys that a plain layer takes at the most. Beyond, a layer with cuts is smaller.
const PLAIN: u64 = 1 << 14;
/// Keys of a shard at the most: many shards to share out, few ends, of 30 free slots each.
const SHARD: u64 = 1 << 18;
/// Enough for the most keys there can be, each layer a seventeenth of the one before.
const LAYERS: usize = 10;
/// Seed numbers that the last layer may try.
const SEEDS: u64 = 256;
const MAX_BLOCKS: u64 = 1 << 44;
const MAX_SHARD_BITS: u32 = 32;
/// Keys of a batch whose memory is asked for while the batch before it is worked on.
const BATCH: usize = 32;

/// How a ribbon gets round rows that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They go to the next layer.
    Bumped,
    /// All fit, because all fingerprints are 0.
    Homogeneous,
}

/// Slots in `2^bits` shards, one after the other.
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

    /// The slot that a digest's window starts at: larger digests start there or further on.
    #[inline(always)]
    fn start(&self, digest: u64) -> u64 {
        let shard = digest >> 1 >> (63 - self.bits);
        shard * self.slots + self.start_in_shard(digest)
    }

    #[inline(always)]
    fn start_in_shard(&self, digest: u64) -> u64 {
        range::scale(digest << self.bits, self.slots - (BLOCK - 1))
    }
}

/// Layers of slots, each with cuts but the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RibbonShape {
    width: u32,
    form: Form,
    keys: u64,
    layers: [Layer; LAYERS],
    /// The last layer's place.
    last: usize,
}

const FORM: Setting = Setting::new("form", "1 for bumped, 2 for homogeneous; usual is 1");

impl RibbonShape {
    /// A shape by hand: so many bits a slot, this form, made for this many keys.
    pub fn new(width: u32, form: Form, keys: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if !(1..=32).contains(&width) {
            return Err(Error::Limit { what: "bits a slot", asked: width.into(), most: 32 });
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
                    let buckets = (left * CROWD[1] / CROWD[0]).div_ceil(BUCKET << bits);
                    sizes.push((bits, buckets * (BUCKET / BLOCK)));
                    left = left + spare(left, bits) - ((buckets * BUCKET) << bits);
                }
                let blocks =
                    (left.div_ceil(BLOCK).max(1)..).find(|blocks| plain_keys(*blocks) >= left);
                sizes.push((0, blocks.expect("more blocks take more keys")));
            }
        }
        Ok(Self::of(width, form, keys, &sizes))
    }

    /// From each layer's shards, in bits, and the blocks of a shard.
    fn of(width: u32, form: Form, keys: u64, sizes: &[(u32, u64)]) -> Self {
        let mut layers = [Layer::default(); LAYERS];
        for (layer, (bits, blocks)) in layers.iter_mut().zip(sizes) {
            *layer = Layer { bits: *bits, slots: blocks * BLOCK };
        }
        Self { width, form, keys, layers, last: sizes.len() - 1 }
    }

    /// Bits of a slot.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Its form.
    pub fn form(&self) -> Form {
        self.form
    }

    fn last(&self) -> &Layer {
        &self.layers[self.last]
    }

    /// Slots of the layers with cuts.
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

/// Keys that go to the next layer although there is a slot for them, at the most: 30 at the end of
/// a shard and 0.03 % of the others on average, six standard deviations, and a bucket that takes
/// nothing. Of 12,000 sets of 16,385 to 310,000 keys none came near.
fn spare(keys: u64, bits: u32) -> u64 {
    (30 << bits) + keys / 2800 + keys.isqrt() * 3 / 4 + 100
}

/// Keys that a plain layer of so many blocks takes with at least one seed in four.
fn plain_keys(blocks: u64) -> u64 {
    let slots = blocks * BLOCK;
    (slots - 1 - slots / 48).saturating_sub((slots * slots) >> 21)
}

/// The fewest blocks of a homogeneous shard: in less the ends weigh too much to state the rate.
const LEAST_HOMOGENEOUS: u64 = 16;

/// Keys for a slot at which a stranger gets in by [`sum_of_rows`] less than once in 200 times that
/// it gets in at all.
fn homogeneous_load(width: u32) -> f64 {
    0.932 - 0.0036 * f64::from(width)
}

/// How often a stranger's row is a sum of the rows of keys, with so many keys for a slot. Fitted
/// to 8 million windows each at loads of 0.89 to 0.95, from 10^-2 down to 10^-6.
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
        // Of a narrow width the rate is at least 2^-width, so most are passed without a layout.
        for width in (1..=32).filter(|width| (-f64::from(*width)).exp2() <= fpr) {
            let shape = Self::new(width, form, keys)?;
            if shape.fpr_at(keys) <= fpr {
                return Ok(shape);
            }
        }
        Err(Error::Infeasible { why: "that takes slots of more than 32 bits" })
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (lines(self.words()) + lines(self.cut_words())) * 64,
            // Two neighbouring lines come at little more than the price of one.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Ribbon {
    shape: RibbonShape,
    len: u64,
    /// The last layer's seed number.
    seed: u64,
    table: Words,
    cuts: Words,
    /// Digests, as the last layer has them, that it could not place.
    overflow: Words,
}

/// What the next layer has for a digest, or the last one with another seed: nothing of what brought
/// keys together before is left.
#[inline(always)]
fn remix(digest: u64, seed: u64) -> u64 {
    range::mix(digest.wrapping_add((2 * seed + 1).wrapping_mul(0xd1b5_4a32_d192_ed03)))
}

/// A digest's coefficients, the first of which is 1, and its fingerprint.
#[inline(always)]
fn row(digest: u64, shape: &RibbonShape) -> (u64, u64) {
    let x = range::mix(digest ^ 0x9e37_79b9_7f4a_7c15);
    let print = match shape.form {
        Form::Bumped => x.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - shape.width),
        Form::Homogeneous => 0,
    };
    (x | 1, print)
}

impl Ribbon {
    /// What a digest asks of the table: in the first layer from which it is not bumped.
    #[inline(always)]
    fn question(&self, mut digest: u64) -> Question<1> {
        let shape = &self.shape;
        let mut first = 0;
        for layer in &shape.layers[..shape.last] {
            let slot = first + layer.start(digest);
            let cut = packed::get(&self.cuts, CUT_BITS, slot / BUCKET);
            if slot % BUCKET >= CUT[cut as usize] {
                let (coefficients, value) = row(digest, shape);
                return Question { slots: [slot], coefficients: [coefficients], value };
            }
            digest = remix(digest, 0);
            first += layer.all_slots();
        }
        if shape.form == Form::Bumped {
            digest = remix(digest, self.seed);
        }
        let (coefficients, value) = row(digest, shape);
        let slot = first + shape.last().start(digest);
        Question { slots: [slot], coefficients: [coefficients], value }
    }

    /// The first keys' questions, their memory asked for.
    #[inline(always)]
    fn questions(&self, keys: &[KeyHash]) -> [Question<1>; BATCH] {
        let mut questions = [Question::default(); BATCH];
        let width = self.shape.width as usize;
        for (question, key) in questions.iter_mut().zip(keys) {
            *question = self.question(key.hi);
            let block = (question.slots[0] / BLOCK) as usize * width;
            // What the first eight bits need: few strangers get further. To ask for all of a width
            // of 16 makes members a quarter faster and strangers a third slower.
            prefetch(&self.table, block);
            prefetch(&self.table, block + width);
            prefetch(&self.table, block + width + width.min(LINE_WORDS) - 1);
        }
        questions
    }

    /// Whether the key is one of those that fitted nowhere.
    #[cold]
    fn is_listed(&self, key: KeyHash) -> bool {
        let digest = (0..self.shape.last).fold(key.hi, |digest, _| remix(digest, 0));
        self.overflow.binary_search(&digest).is_ok()
    }
}

impl Filter for Ribbon {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        if self.len == 0 {
            return false;
        }
        let question = self.question(key.hi);
        band::holds(&self.table, self.shape.width, question)
            || !self.overflow.is_empty() && self.is_listed(key)
    }

    /// Keys with different digests.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let out = &mut out[..keys.len()];
        if self.len == 0 {
            return out.fill(false);
        }
        let mut questions = self.questions(keys);
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let next = self.questions(keys.get((i + 1) * BATCH..).unwrap_or(&[]));
            let now = std::mem::replace(&mut questions, next);
            band::holds_batch(&self.table, self.shape.width, &now[..out.len()], out);
        }
        if !self.overflow.is_empty() {
            for (key, out) in keys.iter().zip(out) {
                *out = *out || self.is_listed(*key);
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
        let mut gathered = gather(options, keys)?;
        let len = gathered.len();
        let shape = fit(len)?;
        let mut table = Words::zeroed(usize_words(shape.words())?)?;
        let mut cuts = Words::zeroed(usize_words(shape.cut_words())?)?;
        // Who watches is told of the first layer, where nearly all keys are.
        let quietly = options.clone().on_progress(&|_| ());
        let mut rest = table.to_mut();
        let mut bucket = 0;
        for layer in &shape.layers[..shape.last] {
            let options = if bucket == 0 { options } else { &quietly };
            let words = layer.all_slots() / BLOCK * u64::from(shape.width);
            let (part, more) = rest.split_at_mut(words as usize);
            rest = more;
            let fill = |_, records: &[_], part: &mut [_]| fill(&shape, layer, records, part);
            let filled = gathered.solve(options, layer.bits, part, fill)?;
            let mut next = Gathering::new(&quietly);
            for (cut, bumped) in filled {
                for cut in cut {
                    packed::set(cuts.to_mut(), CUT_BITS, bucket, cut.into());
                    bucket += 1;
                }
                next.extend(bumped.into_iter().map(|[digest]| [remix(digest, 0)]))?;
            }
            gathered = next.finish()?;
        }
        let options = if shape.last == 0 { options } else { &quietly };
        let last = shape.last();
        let (seed, overflow) = match shape.form {
            Form::Bumped => {
                let settle = |_, records: &[_], part: &mut [_]| settle(&shape, last, records, part);
                gathered.solve(options, last.bits, rest, settle)?.swap_remove(0)
            }
            Form::Homogeneous => {
                gathered.solve(options, last.bits, rest, |shard, records, part| {
                    settle_homogeneous(&shape, last, shard as u64, records, part)
                })?;
                (0, Vec::new())
            }
        };
        let overflow = Words::copy_of(&overflow)?;
        Ok(Self { shape, len, seed, table, cuts, overflow })
    }
}

/// One shard of a layer with cuts: the cut of each bucket, by number, and the records before them.
fn fill(
    shape: &RibbonShape,
    layer: &Layer,
    records: &[Record<1>],
    part: &mut [u64],
) -> Result<(Vec<u8>, Vec<Record<1>>), Error> {
    let mut band = Band::new(layer.slots as usize)?;
    let mut cuts = Vec::with_capacity((layer.slots / BUCKET) as usize);
    let (mut kept, mut bumped) = (Vec::new(), Vec::new());
    // The slots that rows of this bucket took, each with where its key starts in the bucket.
    let mut taken = Vec::new();
    let mut rest = records;
    for bucket in 0..layer.slots / BUCKET {
        let first = bucket * BUCKET;
        let start = |record: &Record<1>| layer.start_in_shard(record[0]);
        let len = rest.iter().take_while(|record| start(record) < first + BUCKET).count();
        let (here, more) = rest.split_at(len);
        rest = more;
        taken.clear();
        let mut cut = 0;
        for record in here.iter().rev() {
            let start = start(record) - first;
            match insert(&mut band, shape, layer, record[0]) {
                Row::Placed(slot) => taken.push((start, slot)),
                Row::Implied => {}
                Row::Clash => {
                    cut = CUT.iter().position(|cut| *cut > start).expect("the last is past");
                    while let Some((_, slot)) = taken.pop_if(|(start, _)| *start < CUT[cut]) {
                        band.remove(slot);
                    }
                    break;
                }
            }
        }
        let (before, after) =
            here.split_at(here.partition_point(|record| start(record) < first + CUT[cut]));
        bumped.extend_from_slice(before);
        kept.extend_from_slice(after);
        cuts.push(cut as u8);
    }
    band.solve(shape.width, |_| 0, part);
    check(shape, layer, &kept, part);
    Ok((cuts, bumped))
}

/// The last layer: the seed number, and the digests that none would place.
fn settle(
    shape: &RibbonShape,
    layer: &Layer,
    records: &[Record<1>],
    part: &mut [u64],
) -> Result<(u64, Vec<u64>), Error> {
    let mut band = Band::new(layer.slots as usize)?;
    let mut mixed = Vec::with_capacity(records.len());
    let mut clashes = |seed: u64| {
        band.clear();
        mixed.clear();
        mixed.extend(records.iter().map(|[digest]| remix(*digest, seed)));
        // In order, rows meet few others on their way.
        mixed.sort_unstable();
        mixed
            .iter()
            .filter(|digest| insert(&mut band, shape, layer, **digest) == Row::Clash)
            .count()
    };
    // More rows than slots fit only where many are implied: not worth a search.
    let seeds = if records.len() as u64 <= layer.slots { SEEDS } else { 0 };
    let seed = (0..seeds).find(|seed| clashes(*seed) == 0).unwrap_or_else(|| {
        clashes(0);
        0
    });
    band.solve(shape.width, |_| 0, part);
    let unplaced = records.iter().map(|[digest]| *digest);
    let unplaced = unplaced.filter(|digest| !is_in(shape, layer, remix(*digest, seed), part));
    Ok((seed, unplaced.collect()))
}

/// A shard of the homogeneous form. Zeros would satisfy every row, and every stranger's: so the free
/// slots are filled at random.
fn settle_homogeneous(
    shape: &RibbonShape,
    layer: &Layer,
    shard: u64,
    records: &[Record<1>],
    part: &mut [u64],
) -> Result<(), Error> {
    let mut band = Band::new(layer.slots as usize)?;
    for [digest] in records {
        insert(&mut band, shape, layer, *digest);
    }
    let first = shard * layer.slots;
    band.solve(shape.width, |slot| range::mix(!(first + slot as u64)), part);
    check(shape, layer, records, part);
    Ok(())
}

fn insert(band: &mut Band, shape: &RibbonShape, layer: &Layer, digest: u64) -> Row {
    let (coefficients, print) = row(digest, shape);
    band.insert(layer.start_in_shard(digest) as usize, coefficients, print)
}

/// Whether a shard has a digest.
fn is_in(shape: &RibbonShape, layer: &Layer, digest: u64, part: &[u64]) -> bool {
    let (coefficients, value) = row(digest, shape);
    let slots = [layer.start_in_shard(digest)];
    band::holds(part, shape.width, Question { slots, coefficients: [coefficients], value })
}

/// Asks for every record that was taken before its shard counts as done.
fn check(shape: &RibbonShape, layer: &Layer, records: &[Record<1>], part: &[u64]) {
    let sound = records.iter().all(|[digest]| is_in(shape, layer, *digest, part));
    assert!(sound, "a row that was taken is solved");
}

impl Persist for Ribbon {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let shape = &self.shape;
        let form = if shape.form == Form::Bumped { 1 } else { 2 };
        let listed = self.overflow.len() as u64;
        let layers = shape.last as u64 + 1;
        let mut fields = vec![shape.width.into(), form, shape.keys, self.seed, listed, layers];
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
        let width = fields.next(1..=32, "bits a slot")? as u32;
        let form = match fields.next(1..=2, "form")? {
            1 => Form::Bumped,
            _ => Form::Homogeneous,
        };
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let seed = fields.next(0..=SEEDS - 1, "seed number")?;
        let listed = fields.next(0..=len, "listed digests")?;
        let count = fields.next(1..=LAYERS as u64, "number of layers")?;
        let mut sizes = Vec::new();
        let mut all = 0u64;
        for layer in 1..=count {
            let bits = fields.next(0..=MAX_SHARD_BITS.into(), "shards")? as u32;
            let blocks = fields.next(1..=MAX_BLOCKS >> bits, "blocks a shard")?;
            all += blocks << bits;
            if layer < count && !(blocks * BLOCK).is_multiple_of(BUCKET) {
                return Err(from.corrupt("half a bucket").into());
            }
            sizes.push((bits, blocks));
        }
        fields.finish()?;
        if all > MAX_BLOCKS || form == Form::Homogeneous && count > 1 {
            return Err(from.corrupt("layers that no ribbon has").into());
        }
        let shape = RibbonShape::of(width, form, keys, &sizes);
        let table = from.words(TABLE, shape.words())?;
        let cuts = from.words(CUTS, shape.cut_words())?;
        let overflow = from.words(OVERFLOW, listed)?;
        Ok(Self { shape, len, seed, table, cuts, overflow })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let cut_bits = self.shape.cut_slots() / BUCKET * u64::from(CUT_BITS);
        if !tamis_bits::set::ends_at(&self.cuts, cut_bits) {
            return corrupt("bits are set past the end");
        }
        if !self.overflow.is_sorted_by(|a, b| a < b) {
            return corrupt("the listed digests are not in order");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    fn hashes(seed: u64, keys: std::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 14]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    fn bumped(width: u32, keys: u64) -> RibbonShape {
        RibbonShape::new(width, Form::Bumped, keys).unwrap()
    }

    fn digests(digests: impl IntoIterator<Item = u64>) -> Vec<KeyHash> {
        digests.into_iter().map(|hi| KeyHash { hi, lo: 0 }).collect()
    }

    /// Layers with cuts, of one shard and of more, and the plain one.
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

    /// The sizes that are planned are enough: nothing is listed, at any width.
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

    /// A key is bumped if and only if it starts before its bucket's cut; layers fill up to a slot in
    /// a thousand.
    #[test]
    fn cuts_say_who_is_bumped() {
        let keys = 400_000;
        let shape = bumped(16, keys);
        let layer = &shape.layers[0];
        let mut records: Vec<Record<1>> = hashes(1, 0..keys).iter().map(|key| [key.hi]).collect();
        records.sort_unstable();
        let half = records.partition_point(|[digest]| digest >> 63 == 0);
        let mut part = vec![0; (layer.slots / BLOCK * 16) as usize];
        let (cuts, bumped) = fill(&shape, layer, &records[..half], &mut part).unwrap();
        assert_eq!(cuts.len() as u64, layer.slots / BUCKET);
        assert!((0..3).all(|cut| cuts.contains(&cut)), "all cuts are used");
        let mut expected = records[..half].to_vec();
        expected.retain(|[digest]| {
            let start = layer.start_in_shard(*digest);
            start % BUCKET < CUT[usize::from(cuts[(start / BUCKET) as usize])]
        });
        assert_eq!(bumped, expected);
        let free = layer.slots - (half - bumped.len()) as u64;
        assert!(free < layer.slots / 1000, "{free} slots are free");
    }

    /// Digests made to meet: more than fit end in the list, and all are found.
    #[test]
    fn hostile_digests_are_listed_and_found() {
        let (plain, layered) = (5000, 40_000);
        for keys in [plain, layered] {
            let shape = bumped(8, keys);
            // As a plain layer has them all digests are spread; layers with cuts are too small for
            // all that one bucket of the first should have taken.
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
                assert!(out.iter().all(|yes| *yes));
                let yeses =
                    hashes(2, 0..100_000).iter().filter(|key| filter.contains(**key)).count();
                assert!((250..550).contains(&yeses), "{yeses} of 390");
            }
        }
    }

    /// Rates where layers with cuts are asked, which small filters do not have.
    #[test]
    fn strangers_of_every_layer_get_in_as_often() {
        for (keys, width) in [(20_000, 3), (300_000, 1), (300_000, 6)] {
            let (mut yeses, mut asked) = (0, 0);
            for seed in 0..5 {
                let filter =
                    Ribbon::build(bumped(width, keys), &hashes(seed, 0..keys)[..]).unwrap();
                let strangers = hashes(seed, 1 << 40..(1 << 40) + 200_000);
                yeses += strangers.iter().filter(|key| filter.contains(**key)).count();
                asked += strangers.len();
            }
            let expected = asked as f64 * (-f64::from(width)).exp2();
            let off = (yeses as f64 - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{yeses}, not {expected}");
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
