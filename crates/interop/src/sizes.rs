//! The sizes that programs choose for a number of keys at a rate, each with its own rounding.

use std::f64::consts::LN_2;

use tamis::{
    AnyFilter, Build, BuildOptions, Error, ForeignBloom, ForeignBloomShape, KeySource, Walk,
};

/// Returns `-n ln p / ln² 2`, the bits that a Bloom filter takes.
pub(crate) fn ideal_bits(keys: u64, fpr: f64) -> f64 {
    -(keys.max(1) as f64) * fpr.ln() / (LN_2 * LN_2)
}

/// Returns `m / n ln 2`, the places of a key that have the lowest rate.
pub(crate) fn ideal_probes(bits: f64, keys: u64) -> f64 {
    bits / keys.max(1) as f64 * LN_2
}

/// Returns a real number that was rounded as an integer, at least 1.
pub(crate) fn at_least_one(number: f64) -> u64 {
    // `as` saturates.
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    let number = number as u64;
    number.max(1)
}

/// Builds a Bloom filter of a program with `bits` bits, of which a key sets `probes`.
pub(crate) fn build_bloom(
    (walk, bits, probes, keys): (Walk, u64, f64, u64),
    hashes: &mut dyn KeySource,
    options: &BuildOptions<'_>,
) -> Result<AnyFilter, Error> {
    if walk.reach(bits) < bits {
        return Err(Error::Infeasible {
            why: "Spark's version 1 sets no bits beyond 2^31, a known defect; spark_v2 does",
        });
    }
    let probes = u32::try_from(at_least_one(probes)).unwrap_or(u32::MAX);
    let shape = ForeignBloomShape::new(walk, bits, probes, keys)?;
    ForeignBloom::build_with(options, |_| Ok(shape), hashes).map(Into::into)
}
