//! What several filters share.

pub(crate) mod bit_array;
pub(super) mod counters;
pub(super) mod digests;
pub(super) mod peeled;
pub(super) mod retrieval;
pub(super) mod shift;
pub(super) mod sort;
pub(super) mod tiny_block;

use crate::capability::Capability;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::options::BuildOptions;
use crate::shape::Shape;
use crate::source::{KeySource, read_all};
use crate::traits::{Build, Filter, Insert};

/// Builds a filter by inserting all keys into an empty one.
///
/// # Errors
/// [`Error::Capacity`] for more keys than the capacity; [`Error::Full`] if the kind holds only a few
/// copies of a key and one occurs more often.
pub(super) fn build_by_inserting<F: Build + Insert>(
    options: &BuildOptions<'_>,
    filter: F,
    keys: impl KeySource,
) -> Result<F, Error> {
    build_in_batches(options, filter, keys, usize::MAX)
}

/// Builds a kind that sorts large batches, and takes memory for it, by inserting all keys in small batches.
pub(super) fn build_unsorted<F: Build + Insert>(
    options: &BuildOptions<'_>,
    filter: F,
    keys: impl KeySource,
) -> Result<F, Error> {
    build_in_batches(options, filter, keys, 1 << 10)
}

fn build_in_batches<F: Build + Insert>(
    options: &BuildOptions<'_>,
    mut filter: F,
    keys: impl KeySource,
    most: usize,
) -> Result<F, Error> {
    let capacity = filter.shape().keys();
    let mut placed = 0;
    read_all(options, keys, |run| {
        for batch in run.chunks(most) {
            filter.insert_batch(batch).map_err(|full| {
                let kind = filter.sealed_kind();
                let room = filter.len() < capacity || kind.can(Capability::Overfill);
                match kind.bounds_copies() && room {
                    true => full.after(placed as usize).into(),
                    false => Error::Capacity { capacity },
                }
            })?;
            placed += batch.len() as u64;
        }
        if filter.sealed_kind().can(Capability::Grow) {
            options.check_memory(filter.shape().figures_at(filter.len()).bytes)?;
        }
        options.advance(placed, placed)
    })?;
    Ok(filter)
}

/// Returns whether a build within the memory limit may hold `keys` keys of `each` bytes beside its table.
pub(super) fn has_room_for_keys(
    options: &BuildOptions<'_>,
    shape: &impl Shape,
    keys: u64,
    each: u64,
) -> bool {
    let bytes = keys.saturating_mul(each).saturating_add(shape.figures().bytes);
    options.check_memory(bytes).is_ok()
}

/// The bytes of tables that stay in the second-level cache.
const CACHE_BYTES: usize = 512 << 10;

/// Returns whether a table of so many words stays in the second-level cache: see [`Filter::fits_cache`].
#[inline]
pub(crate) fn near(words: usize) -> bool {
    words <= CACHE_BYTES / 8
}

/// [`Filter::contains_prefetching`] of kinds that can prefetch the memory of a key.
pub(super) fn contains_prefetching<F: Filter>(
    filter: &F,
    keys: &[KeyHash],
    out: &mut [bool],
    fetch: impl Fn(&F, KeyHash),
) {
    const LANES: usize = 32;
    assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
    for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
        keys.iter().for_each(|key| fetch(filter, *key));
        for (key, out) in keys.iter().zip(out) {
            *out = filter.contains(*key);
        }
    }
}

/// [`Insert::insert_batch`] of the same.
pub(super) fn insert_batch<F: Insert>(
    filter: &mut F,
    keys: &[KeyHash],
    fetch: impl Fn(&F, KeyHash),
) -> Result<(), Full> {
    const LANES: usize = 16;
    for (chunk, keys) in keys.chunks(LANES).enumerate() {
        keys.iter().for_each(|key| fetch(filter, *key));
        for (index, key) in keys.iter().enumerate() {
            filter.insert(*key).map_err(|full| full.after(chunk * LANES + index))?;
        }
    }
    Ok(())
}

/// What two filters must have in common before their bits may be combined.
pub(super) fn check_same<S: Shape>(a: &S, b: &S) -> Result<(), Error> {
    if a == b { Ok(()) } else { Err(Error::Mismatch { what: "shape" }) }
}

/// [`Resize::resize`](crate::traits::Resize::resize) of a filter whose fingerprints do not suffice.
pub(super) const TOO_SHORT: Error =
    Error::Infeasible { why: "the fingerprints are too short for that rate" };

/// The keys of a union, if they fit.
pub(super) fn sum_of_keys(a: u64, b: u64, most: u64) -> Result<u64, Error> {
    a.checked_add(b).filter(|sum| *sum <= most).ok_or(Error::Capacity { capacity: most })
}

/// A number of words as the machine counts them.
pub(super) fn usize_words(words: u64) -> Result<usize, Error> {
    usize::try_from(words).map_err(|_| Error::Memory { bytes: words.saturating_mul(8) })
}

/// The mean of `of(n)` over the number `n` of balls in one of the places, when each ball falls in
/// any of them.
pub(super) fn binomial_mean(places: u64, balls: u64, of: impl Fn(u64) -> f64) -> f64 {
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
