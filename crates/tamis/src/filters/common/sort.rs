//! Sorts numbers that are spread evenly, as fingerprints are.
//!
//! Their high bits split them into parts of nearly equal size, with one pass to count and one to move,
//! until the parts fit the cache. This is 2 to 3 times as fast as a comparison sort, and takes a spare
//! array.

use alloc::vec;
use alloc::vec::Vec;

use crate::error::Error;
use crate::hash::KeyHash;
use crate::options::BuildOptions;
use crate::source::{KeySource, read_all};

/// Up to this many numbers are sorted by comparison.
const FEW: usize = 128;
/// Binary logarithm of the parts that a pass fills. More parts exceed the lines and pages of the cache.
const MAX_DIGIT: u32 = 12;

/// Numbers handled between two checks: a few milliseconds.
pub(in crate::filters) const CHECKED: usize = 1 << 20;

/// Sorts numbers that differ only in their low `bits` bits, fastest if they are spread evenly. Calls
/// `check` every few milliseconds and stops with its error.
pub(in crate::filters) fn sort(
    numbers: &mut [u64],
    bits: u32,
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    if numbers.len() <= FEW {
        numbers.sort_unstable();
        return Ok(());
    }
    sort_with(numbers, &mut vec![0; numbers.len()], bits, &check)
}

fn sort_with(
    numbers: &mut [u64],
    spare: &mut [u64],
    bits: u32,
    check: &impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    if numbers.len() <= FEW || bits == 0 {
        numbers.sort_unstable();
        return Ok(());
    }
    // Parts of 8 to 16 numbers, if they are spread evenly.
    let digit = (numbers.len() / 8).ilog2().min(MAX_DIGIT).min(bits);
    let (shift, mask) = (bits - digit, (1 << digit) - 1);
    let part = |number: u64| (number >> shift & mask) as usize;
    let mut ends = vec![0; 1 << digit];
    for numbers in numbers.chunks(CHECKED) {
        if numbers.len() == CHECKED {
            check()?;
        }
        for number in numbers {
            ends[part(*number)] += 1;
        }
    }
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end);
    }
    for numbers in numbers.chunks(CHECKED) {
        if numbers.len() == CHECKED {
            check()?;
        }
        for number in numbers {
            let place = &mut ends[part(*number)];
            spare[*place] = *number;
            *place += 1;
        }
    }
    for (to, from) in numbers.chunks_mut(CHECKED).zip(spare.chunks(CHECKED)) {
        if to.len() == CHECKED {
            check()?;
        }
        to.copy_from_slice(from);
    }
    let (mut begin, mut checked) = (0, 0);
    for end in ends {
        if end - checked >= CHECKED {
            check()?;
            checked = end;
        }
        sort_with(&mut numbers[begin..end], &mut spare[begin..end], shift, check)?;
        begin = end;
    }
    Ok(())
}

/// Removes repeated neighbours. Calls `check` every few milliseconds and stops with its error.
pub(in crate::filters) fn dedup(
    numbers: &mut Vec<u64>,
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut kept, mut at) = (0, 0);
    while at < numbers.len() {
        check()?;
        for next in at..numbers.len().min(at + CHECKED) {
            if kept == 0 || numbers[kept - 1] != numbers[next] {
                numbers[kept] = numbers[next];
                kept += 1;
            }
        }
        at += CHECKED;
    }
    numbers.truncate(kept);
    Ok(())
}

/// Merges two ascending sequences, with numbers that are in both once.
pub(in crate::filters) fn union<T: Copy + Ord>(
    a: impl Iterator<Item = T>,
    b: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    core::iter::from_fn(move || {
        let least = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => *a.min(b),
            (a, b) => *a.or(b)?,
        };
        a.next_if_eq(&least);
        b.next_if_eq(&least);
        Some(least)
    })
}

/// Bytes that [`collect_sorted`] takes per key: the fingerprint and a spare place, while one of the two vectors grows
/// to twice its length.
pub(in crate::filters) const BYTES_PER_KEY: u64 = 24;

/// Returns the sorted fingerprints of all keys, of `bits` bits each.
///
/// # Errors
/// [`Error::Capacity`] if there are more than `capacity` keys.
pub(in crate::filters) fn collect_sorted(
    options: &BuildOptions<'_>,
    capacity: u64,
    keys: impl KeySource,
    bits: u32,
    fingerprint: impl Fn(KeyHash) -> u64,
) -> Result<Vec<u64>, Error> {
    let mut fingerprints = Vec::new();
    let read = read_all(options, keys, |run| {
        if (fingerprints.len() + run.len()) as u64 > capacity {
            return Err(Error::Capacity { capacity });
        }
        let bytes = 8 * run.len() as u64;
        fingerprints.try_reserve(run.len()).map_err(|_| Error::Memory { bytes })?;
        fingerprints.extend(run.iter().map(|key| fingerprint(*key)));
        Ok(())
    })?;
    sort(&mut fingerprints, bits, || options.check(0, read))?;
    Ok(fingerprints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;

    #[test]
    fn it_sorts_all_distributions() {
        for len in [0, 1, 2, 100, 129, 1000, 40_000] {
            for bits in [1, 2, 9, 20, 40, 63, 64] {
                let mask = tamis_bits::packed::mask(bits);
                let even = (0..len).map(|i| mix(i) & mask);
                let equal = (0..len).map(|i| if i % 7 == 0 { mask } else { 0 });
                let crowded = (0..len).map(|i| (mix(i) & mix(i + 1) & mix(i + 2) & 0xfff) & mask);
                let falling = (0..len).map(|i| (len - i) & mask);
                let sets: [Vec<u64>; 4] =
                    [even.collect(), equal.collect(), crowded.collect(), falling.collect()];
                for mut numbers in sets {
                    let mut expected = numbers.clone();
                    expected.sort_unstable();
                    sort(&mut numbers, bits, || Ok(())).unwrap();
                    assert!(numbers == expected, "{len} of {bits} bits");
                    expected.dedup();
                    dedup(&mut numbers, || Ok(())).unwrap();
                    assert!(numbers == expected, "{len} of {bits} bits, distinct");
                }
            }
        }
    }
}
