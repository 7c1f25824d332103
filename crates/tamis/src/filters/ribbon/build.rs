//! Building: the layers are solved one after the other, each shard on its own.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::gf2::band::{Band, Row};
use tamis_bits::gf2::dot::{self, View};
use tamis_bits::{Words, packed, range};

use super::{
    BLOCK, BUCKET, CUT, CUT_BITS, Form, Layer, Ribbon, RibbonShape, SEEDS, equation_at, remix, row,
};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::gather::{Gathered, Gathering, Record};
use crate::options::BuildOptions;
use crate::parts::{BuildParts, sealed::SolveParts};

const CUTS_PER_WORD: usize = (64 / CUT_BITS) as usize;
/// Rows of the last layer that are inserted between two checks.
const CHECKED: usize = 1 << 16;

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
    let mut cuts = Vec::with_capacity((layer.slots / BUCKET) as usize);
    let mut left = Vec::new();
    // The rows of this bucket, and the slots they took, each with the start of its key in the bucket.
    let (mut rows, mut taken) = (Vec::new(), Vec::new());
    let (mut rest, fp_mask) = (records, shape.fp_mask());
    for bucket in 0..layer.slots / BUCKET {
        let first = bucket * BUCKET;
        rows.clear();
        for [digest] in rest {
            let start = layer.start_in_shard(*digest) - first;
            if start >= BUCKET {
                break;
            }
            rows.push((start, row(*digest, fp_mask)));
        }
        taken.clear();
        let mut cut = 0;
        for (start, (coefficients, fp)) in rows.iter().rev() {
            match band.insert((first + start) as usize, *coefficients, *fp) {
                Row::Placed(slot) => taken.push((*start, slot)),
                Row::Implied => {}
                Row::Clash => {
                    cut = CUT.iter().position(|cut| cut > start).expect("the last cut is the end");
                    while let Some((_, slot)) = taken.pop_if(|(start, _)| *start < CUT[cut]) {
                        band.remove(slot);
                    }
                    break;
                }
            }
        }
        let (here, more) = rest.split_at(rows.len());
        let bumped = rows.partition_point(|(start, _)| *start < CUT[cut]);
        left.extend_from_slice(here[..bumped].as_flattened());
        rest = more;
        cuts.push(cut as u8);
    }
    band.solve(shape.width, |_| 0, part);
    debug_assert!(are_solved(shape, layer, records, &cuts, part), "the solution violates a row");
    Ok(Shard { seed: 0, cuts, left })
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
