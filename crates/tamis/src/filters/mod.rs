//! The filters, one file each, and the registry that lists them.
//!
//! Adding a filter is one file, one `mod` line and one registry line. The conformance suite, the
//! fuzz targets, `tamis filters`, `tamis plan`, `tamis bench`, `tamis demo` and the README's table
//! follow from the line.

pub mod adaptive_bloom;
pub mod adaptive_quotient;
pub mod binary_fuse;
pub mod bloom;
pub mod bloom_g;
pub mod bloomier;
pub mod broom;
pub mod counting_bloom;
pub mod counting_quotient;
pub mod cuckoo;
mod digests;
pub mod growing;
pub mod guarded;
pub mod hash_compaction;
pub mod morton;
mod peeled;
pub mod quotient;
pub mod removable_spectral_bloom;
pub mod removable_tinyset;
mod retrieval;
pub mod ribbon;
pub mod sat;
pub mod scalable_bloom;
pub mod sliding;
pub mod spectral_bloom;
pub mod split_block_bloom;
mod tiny_block;
pub mod tinyset;
pub mod xor;
pub mod xorsat;

use std::ops::RangeInclusive;

use tamis_format::{Reader, Writer};

use crate::any::define_kinds;
use crate::error::{Error, Full};
use crate::filter::{
    Adapt, Build, BuildOptions, Count, EntrySource, Filter, Grow, Insert, KeySource, Map, Merge,
    Overfill, Persist, Remove, Repair, SetOps, Static, Window,
};
use crate::hash::KeyHash;
use crate::plan::{Capability, Figures, Goal, Setting, Settings, Shape, solve};

/// Calls a macro with the registry: `id file Type { capabilities } "paper";` for each filter.
///
/// Numbers are kept for ever: they are in files.
#[macro_export]
macro_rules! registry {
    ($then:ident) => {
        $then! {
            1 bloom Bloom { insert merge set_ops } "Bloom 1970";
            2 bloom_g BloomG { insert merge set_ops } "Qiao, Li, Chen 2014";
            3 split_block_bloom SplitBlockBloom { insert merge set_ops } "Putze, Sanders, Singler 2007; Apache Parquet";
            4 counting_bloom CountingBloom { insert remove count merge } "Fan, Cao, Almeida, Broder 2000";
            5 hash_compaction HashCompaction { insert merge } "Wolper, Leroy 1993";
            6 quotient Quotient { insert remove merge } "Bender et al. 2012";
            7 counting_quotient CountingQuotient { insert remove count merge } "Pandey, Bender, Johnson, Patro 2017";
            8 cuckoo Cuckoo { insert remove } "Fan, Andersen, Kaminsky, Mitzenmacher 2014";
            9 morton Morton { insert remove } "Breslow, Jayasena 2018";
            10 tinyset TinySet { insert overfill } "Einziger, Friedman 2015";
            11 removable_tinyset RemovableTinySet { insert remove overfill } "Einziger, Friedman 2015";
            12 binary_fuse BinaryFuse { static } "Graf, Lemire 2022";
            13 xor Xor { static } "Graf, Lemire 2020";
            14 ribbon Ribbon { static } "Dillinger, Walzer 2021; with Hübschle-Schneider, Sanders 2022";
            15 bloomier Bloomier { static map } "Chazelle, Kilian, Rubinfeld, Tal 2004";
            16 guarded Guarded { static } "Chazelle et al. 2004; Bender et al. 2018";
            17 sat Sat { static } "Weaver, Ray, Marek, Mayer, Walker 2014";
            18 xorsat XorSat { static } "Weaver et al. 2014, 2018; Dietzfelbinger, Walzer 2019";
            19 broom Broom { insert remove adapt } "Bender et al. 2018";
            20 adaptive_bloom AdaptiveBloom { insert adapt } "Bender et al. 2018";
            21 adaptive_quotient AdaptiveQuotient { insert remove adapt } "Bender et al. 2018";
            22 spectral_bloom SpectralBloom { insert count } "Cohen, Matias 2003";
            23 sliding Sliding { window } "Naor, Yogev 2013";
            24 growing Growing { insert remove grow } "Pagh, Segev, Wieder 2013; Dayan, Bercea, Pagh 2024";
            25 scalable_bloom ScalableBloom { insert grow } "Almeida, Baquero, Preguiça, Hutchison 2007";
            26 removable_spectral_bloom RemovableSpectralBloom { insert remove count merge } "Cohen, Matias 2003";
        }
    };
}

/// A type that has a line in the registry.
pub trait Registered {
    /// Its kind.
    const KIND: Kind;
}

registry!(define_kinds);

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    /// Whether it can do that.
    pub fn can(self, what: Capability) -> bool {
        self.capabilities().contains(&what)
    }

    /// Returns whether building searches for a solution, which takes minutes for 10^5 keys or more.
    pub fn is_slow_to_build(self) -> bool {
        matches!(self, Self::Sat)
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .iter()
            .find(|kind| kind.name() == name)
            .copied()
            .ok_or_else(|| Error::Unknown { what: "filter", name: name.to_owned() })
    }
}

/// Builds a filter that can insert: an empty one, and then key after key.
fn build_by_inserting<F: Insert>(mut empty: F, mut keys: impl KeySource) -> Result<F, Error> {
    loop {
        let run = keys.next_run()?;
        if run.is_empty() {
            return Ok(empty);
        }
        let most = empty.shape().keys();
        empty.insert_batch(run).map_err(|Full| Error::Full { keys: most })?;
    }
}

/// [`Filter::contains_batch`] of who can ask for a key's memory without waiting for it.
fn contains_batch<F: Filter>(
    filter: &F,
    keys: &[KeyHash],
    out: &mut [bool],
    fetch: impl Fn(&F, KeyHash),
) {
    const LANES: usize = 32;
    assert!(out.len() >= keys.len(), "an answer for each key");
    for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
        keys.iter().for_each(|key| fetch(filter, *key));
        for (key, out) in keys.iter().zip(out) {
            *out = filter.contains(*key);
        }
    }
}

/// [`Insert::insert_batch`] of the same.
fn insert_batch<F: Insert>(
    filter: &mut F,
    keys: &[KeyHash],
    fetch: impl Fn(&F, KeyHash),
) -> Result<(), Full> {
    const LANES: usize = 16;
    for keys in keys.chunks(LANES) {
        keys.iter().for_each(|key| fetch(filter, *key));
        keys.iter().try_for_each(|key| filter.insert(*key))?;
    }
    Ok(())
}

/// The shape of a static filter where it is given: it must do for the distinct keys that came.
fn as_given<S: Shape>(shape: S) -> impl FnOnce(u64) -> Result<S, Error> {
    move |keys| match shape.keys() {
        most if keys > most => Err(Error::Full { keys: most }),
        _ => Ok(shape),
    }
}

/// What two filters must have in common before their bits may be combined.
fn check_same<S: Shape>(a: &S, b: &S) -> Result<(), Error> {
    if a == b { Ok(()) } else { Err(Error::Mismatch { what: "shape" }) }
}

/// The keys of a union, if they fit.
fn sum_of_keys(a: u64, b: u64, most: u64) -> Result<u64, Error> {
    a.checked_add(b).filter(|sum| *sum <= most).ok_or(Error::Full { keys: most })
}

/// A number of words as the machine counts them.
fn usize_words(words: u64) -> Result<usize, Error> {
    usize::try_from(words).map_err(|_| Error::Memory { bytes: words.saturating_mul(8) })
}

/// The normalised dot product of two bit vectors.
fn cosine(a: &[u64], b: &[u64]) -> f64 {
    let (ones_a, ones_b) = (tamis_bits::set::ones(a) as f64, tamis_bits::set::ones(b) as f64);
    if ones_a == 0.0 || ones_b == 0.0 {
        return f64::from(ones_a == ones_b);
    }
    tamis_bits::set::common(a, b) as f64 / (ones_a * ones_b).sqrt()
}

/// The mean of `of(n)` over the number `n` of balls in one of the places, when each ball falls in
/// any of them.
fn binomial_mean(places: u64, balls: u64, of: impl Fn(u64) -> f64) -> f64 {
    if places == 1 || balls == 0 {
        return of(balls);
    }
    // Weights from the mean outwards, relative to the one there; far tails add nothing.
    let (all, odds) = (balls as f64, 1.0 / (places as f64 - 1.0));
    let start = balls / places;
    let (mut sum, mut total) = (0.0, 0.0);
    let (mut n, mut weight) = (start, 1.0);
    while weight > 1e-18 && n <= balls {
        (sum, total) = (sum + weight * of(n), total + weight);
        weight *= (all - n as f64) / (n as f64 + 1.0) * odds;
        n += 1;
    }
    (n, weight) = (start, 1.0);
    while n > 0 && weight > 1e-18 {
        weight *= n as f64 / ((all - n as f64 + 1.0) * odds);
        n -= 1;
        (sum, total) = (sum + weight * of(n), total + weight);
    }
    sum / total
}
