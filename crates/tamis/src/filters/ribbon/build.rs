//! Building: the layers are solved one after the other, each shard on its own.

use alloc::vec;
use alloc::vec::Vec;
use core::array;
use core::ops::Range;

use tamis_bits::gf2::band::{Band, Lane, Row};
use tamis_bits::gf2::dot::{self, View};
use tamis_bits::{Words, packed, range};

use super::{
    BLOCK, BUCKET, CUT, CUT_BITS, Form, LANES, Layer, MANY, Ribbon, RibbonShape, SEEDS,
    equation_at, remix, row,
};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::gather::{Gathered, Gathering, Record};
use crate::options::BuildOptions;
use crate::parts::{BuildParts, sealed::SolveParts};

const CUTS_PER_WORD: usize = (64 / CUT_BITS) as usize;
/// Rows of the last layer that are inserted between two checks.
const CHECKED: usize = 1 << 16;

/// The least cut of the first bucket of a part, by number. It leaves slots for the rows of the part before.
const FIRST_CUT: usize = 2;

/// A solved shard of a layer, except for its slots.
#[derive(Default)]
pub struct Shard {
    /// The seed number of the last layer.
    seed: u64,
    /// The cut of each bucket, by number.
    pub(super) cuts: Vec<u8>,
    /// The digests that start before the cuts, or that the last layer could not place.
    pub(super) left: Vec<u64>,
}

/// Solves the shards of a layer in the range of `records`. `part` has their slots.
fn solve_layer(
    options: &BuildOptions<'_>,
    shape: &RibbonShape,
    number: usize,
    records: Gathered<1>,
    part: &mut [u64],
) -> Result<Vec<Shard>, Error> {
    let (layer, len) = (&shape.layers[number], records.len());
    records.solve(options, layer.bits, part, |shard, records, part| match shape.form {
        Form::Bumped if number < shape.last => fill(shape, layer, records, part),
        Form::Bumped => solve_last(shape, layer, records, part, || options.check(0, len)),
        Form::Homogeneous => solve_homogeneous(shape, layer, shard as u64, records, part),
    })
}

/// The first layer is solved in parts. The others are small.
impl SolveParts for Ribbon {
    type Records = Gathered<1>;
    type Shard = Shard;

    fn shard_bits(shape: &RibbonShape) -> u32 {
        shape.layers[0].bits
    }

    fn table_words(shape: &RibbonShape) -> u64 {
        shape.words()
    }

    fn shard_words(shape: &RibbonShape) -> u64 {
        shape.layers[0].slots / BLOCK * u64::from(shape.width)
    }

    fn solve_shards(
        options: &BuildOptions<'_>,
        shape: &RibbonShape,
        _: u64,
        records: Gathered<1>,
        table: &mut [u64],
    ) -> Result<Vec<Shard>, Error> {
        solve_layer(options, shape, 0, records, table)
    }

    fn finish(
        options: &BuildOptions<'_>,
        shape: RibbonShape,
        len: u64,
        mut table: Words,
        mut shards: Vec<Shard>,
    ) -> Result<Self, Error> {
        let mut cuts = Words::zeroed(usize_words(shape.cut_words())?)?;
        // Progress is reported for the first layer, which has nearly all keys.
        let silent = options.without_progress();
        let words = |layer: &Layer| usize_words(layer.all_slots() / BLOCK * u64::from(shape.width));
        let (mut bucket, mut first) = (0, words(&shape.layers[0])?);
        for number in 1..=shape.last {
            let mut next = Gathering::new(&silent);
            for shard in shards {
                options.check(len, len)?;
                for cut in shard.cuts {
                    packed::set(cuts.to_mut(), CUT_BITS, bucket, cut.into());
                    bucket += 1;
                }
                next.extend(shard.left.into_iter().map(|digest| [remix(digest, 0)]))?;
            }
            let end = first + words(&shape.layers[number])?;
            let part = &mut table.to_mut()[first..end];
            shards = solve_layer(&silent, &shape, number, next.finish()?, part)?;
            first = end;
        }
        // The last layer is one shard, or homogeneous.
        let Shard { seed, left, .. } = shards.swap_remove(0);
        let overflow = Words::copy_of(&left)?;
        Ok(Self::from_parts(shape, len, seed, [table, cuts, overflow]))
    }

    fn encode_shard(_: &RibbonShape, shard: Shard) -> Vec<u64> {
        let mut words = vec![shard.seed];
        for cuts in shard.cuts.chunks(CUTS_PER_WORD) {
            words.push(cuts.iter().rev().fold(0, |word, cut| word << CUT_BITS | u64::from(*cut)));
        }
        words.extend(shard.left);
        words
    }

    fn decode_shard(shape: &RibbonShape, _: u64, words: &[u64]) -> Option<Shard> {
        let buckets = if shape.last == 0 { 0 } else { shape.layers[0].slots / BUCKET } as usize;
        let (seed, rest) = words.split_first()?;
        let (packed, left) = rest.split_at_checked(buckets.div_ceil(CUTS_PER_WORD))?;
        let cut = |bucket| packed::get(packed, CUT_BITS, bucket) as u8;
        let cuts = (0..buckets as u64).map(cut).collect();
        (*seed < SEEDS).then(|| Shard { seed: *seed, cuts, left: left.to_vec() })
    }
}

impl BuildParts for Ribbon {}

/// Fills one shard of a layer with cuts.
pub(super) fn fill(
    shape: &RibbonShape,
    layer: &Layer,
    records: &[Record<1>],
    part: &mut [u64],
) -> Result<Shard, Error> {
    let mut band = Band::new(layer.slots as usize)?;
    let buckets = layer.slots / BUCKET;
    let mut rest = records;
    let mut take = |buckets: Range<u64>, cut| {
        let end = rest.partition_point(|[r]| layer.start_in_shard(*r) / BUCKET < buckets.end);
        let (own, others) = rest.split_at(end);
        rest = others;
        Filling::new(shape, layer, own, buckets, cut)
    };
    let fillings = if buckets < MANY {
        let mut filling = take(0..buckets, 0);
        band.insert_interleaved([&mut filling]);
        vec![filling]
    } else {
        let mut first = 0;
        let mut lanes = array::from_fn::<_, LANES, _>(|lane| {
            let end = (lane as u64 + 1) * buckets / LANES as u64;
            let inner = take(first..end - 1, if lane == 0 { 0 } else { FIRST_CUT });
            first = end;
            [inner, take(end - 1..end, 0)]
        });
        band.insert_interleaved(lanes.each_mut().map(|[inner, _]| inner));
        // The rows of a lane's last bucket extend into the next lane. They come after all others, because
        // only the last rows of a system can be removed.
        for [_, last] in &mut lanes {
            band.insert_interleaved([last]);
        }
        lanes.into_iter().flatten().collect()
    };
    band.solve(shape.width, |_| 0, part);
    let mut shard = Shard::default();
    for filling in fillings {
        shard.cuts.extend(filling.cuts);
        shard.left.extend(filling.left);
    }
    debug_assert!(are_solved(shape, layer, records, &shard.cuts, part), "a row is violated");
    Ok(shard)
}

/// Fills consecutive buckets of a shard, each from its last key to its first.
struct Filling<'a> {
    layer: &'a Layer,
    fp_mask: u64,
    buckets: Range<u64>,
    /// The records of the buckets that are not closed.
    rest: &'a [Record<1>],
    /// The number of records in the open bucket.
    open: usize,
    /// The cut of the open bucket, by number, as far as it is known.
    cut: usize,
    /// The rows of the open bucket that are not settled, each with the start of its key in the bucket.
    rows: Vec<(u64, (u64, u64))>,
    /// The slots that rows of the open bucket took, each with the start of its key in the bucket.
    taken: Vec<(u64, usize)>,
    cuts: Vec<u8>,
    left: Vec<u64>,
}

impl<'a> Filling<'a> {
    /// Opens the first bucket, whose cut is at least `cut`.
    fn new(
        shape: &RibbonShape,
        layer: &'a Layer,
        rest: &'a [Record<1>],
        buckets: Range<u64>,
        cut: usize,
    ) -> Self {
        let cuts = Vec::with_capacity((buckets.end - buckets.start) as usize);
        let (rows, taken, left) = (Vec::new(), Vec::new(), Vec::new());
        let fp_mask = shape.fp_mask();
        let mut filling =
            Self { layer, fp_mask, buckets, rest, open: 0, cut, rows, taken, cuts, left };
        filling.open_bucket();
        filling
    }

    /// Reads the rows of the next bucket, if there is one.
    fn open_bucket(&mut self) {
        self.rows.clear();
        self.taken.clear();
        self.open = 0;
        if self.buckets.is_empty() {
            return;
        }
        let first = self.buckets.start * BUCKET;
        for [digest] in self.rest {
            let start = self.layer.start_in_shard(*digest) - first;
            if start >= BUCKET {
                break;
            }
            self.open += 1;
            if start >= CUT[self.cut] {
                self.rows.push((start, row(*digest, self.fp_mask)));
            }
        }
    }

    /// Bumps the keys of the open bucket that start before its cut, and opens the next bucket.
    fn close_bucket(&mut self) {
        let (here, rest) = self.rest.split_at(self.open);
        let end = self.buckets.start * BUCKET + CUT[self.cut];
        let bumped = here.partition_point(|[digest]| self.layer.start_in_shard(*digest) < end);
        self.left.extend_from_slice(here[..bumped].as_flattened());
        self.rest = rest;
        self.cuts.push(self.cut as u8);
        self.buckets.start += 1;
        self.cut = 0;
        self.open_bucket();
    }
}

impl Lane for Filling<'_> {
    #[inline]
    fn next_row(&mut self) -> Option<(usize, u64, u64)> {
        while self.rows.is_empty() {
            if self.buckets.is_empty() {
                return None;
            }
            self.close_bucket();
        }
        let (start, (coefficients, fp)) = *self.rows.last()?;
        Some(((self.buckets.start * BUCKET + start) as usize, coefficients, fp))
    }

    #[inline]
    fn settle(&mut self, row: Row, band: &mut Band) {
        let Some((start, _)) = self.rows.pop() else { return };
        match row {
            Row::Placed(slot) => self.taken.push((start, slot)),
            Row::Implied => {}
            Row::Clash => {
                self.cut =
                    CUT.iter().position(|cut| *cut > start).expect("the last cut is the end");
                while let Some((_, slot)) = self.taken.pop_if(|(start, _)| *start < CUT[self.cut]) {
                    band.remove(slot);
                }
                self.close_bucket();
            }
        }
    }
}

/// Solves the last layer.
fn solve_last(
    shape: &RibbonShape,
    layer: &Layer,
    records: &[Record<1>],
    part: &mut [u64],
    check: impl Fn() -> Result<(), Error>,
) -> Result<Shard, Error> {
    let mut band = Band::new(layer.slots as usize)?;
    let mut mixed = Vec::with_capacity(records.len());
    let mut conflicts = |seed: u64| {
        band.clear();
        mixed.clear();
        mixed.extend(records.iter().map(|[digest]| remix(*digest, seed)));
        // Sorted rows meet few others on their way.
        mixed.sort_unstable();
        let mut count = 0;
        for digests in mixed.chunks(CHECKED) {
            check()?;
            let clash = |digest: &&u64| insert(&mut band, shape, layer, **digest) == Row::Clash;
            count += digests.iter().filter(clash).count();
        }
        Ok::<_, Error>(count)
    };
    // More rows than slots fit only if many are implied, which is not worth a search.
    let seeds = if records.len() as u64 <= layer.slots { SEEDS } else { 0 };
    let mut seed = 0;
    while seed < seeds && conflicts(seed)? > 0 {
        seed += 1;
    }
    if seed == seeds {
        seed = 0;
        conflicts(seed)?;
    }
    band.solve(shape.width, |_| 0, part);
    let unplaced = records.iter().map(|[digest]| *digest);
    let unplaced = unplaced.filter(|digest| !holds(shape, layer, remix(*digest, seed), part));
    Ok(Shard { seed, cuts: Vec::new(), left: unplaced.collect() })
}

/// Solves one shard of the homogeneous form. Zeros would satisfy every row, also that of every
/// non-member, so the free slots are random.
fn solve_homogeneous(
    shape: &RibbonShape,
    layer: &Layer,
    shard: u64,
    records: &[Record<1>],
    part: &mut [u64],
) -> Result<Shard, Error> {
    let mut band = Band::new(layer.slots as usize)?;
    for [digest] in records {
        insert(&mut band, shape, layer, *digest);
    }
    let first = shard * layer.slots;
    band.solve(shape.width, |slot| range::mix(!(first + slot as u64)), part);
    debug_assert!(are_solved(shape, layer, records, &[], part), "the solution violates a row");
    Ok(Shard::default())
}

fn insert(band: &mut Band, shape: &RibbonShape, layer: &Layer, digest: u64) -> Row {
    let (coefficients, fp) = row(digest, shape.fp_mask());
    band.insert(layer.start_in_shard(digest) as usize, coefficients, fp)
}

/// Returns whether a shard satisfies the equation of a digest.
fn holds(shape: &RibbonShape, layer: &Layer, digest: u64, part: &[u64]) -> bool {
    let equation = equation_at(layer.start_in_shard(digest), digest, shape.fp_mask());
    dot::holds(View::new(part, shape.width), equation)
}

/// Returns whether a shard satisfies the equations of all records that are not bumped.
fn are_solved(
    shape: &RibbonShape,
    layer: &Layer,
    records: &[Record<1>],
    cuts: &[u8],
    part: &[u64],
) -> bool {
    records.iter().all(|[digest]| {
        let start = layer.start_in_shard(*digest);
        let cut = cuts.get((start / BUCKET) as usize).map_or(0, |cut| CUT[usize::from(*cut)]);
        start % BUCKET < cut || holds(shape, layer, *digest, part)
    })
}
