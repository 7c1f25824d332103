//! The difference between two files, for sending a changed filter to peers that have the old one.
//!
//! ```text
//! word 0   magic  89 'T' 'D' 'E' 'L' 'T' 0D 0A
//!      1   version
//!    2-3   base: its length in bytes, its xxh3-64
//!    4-5   target: its length in bytes, its xxh3-64
//!      6   xxh3-64 of the records
//!      7   xxh3-64 of words 0-6
//!      8…  records of the chunks of 4096 bytes that changed, in order
//!
//! record   chunks skipped since the last record │ 0     │ the XOR of both chunks
//!          chunks skipped since the last record │ n + 1 │ n gaps between the bits that changed
//! ```
//!
//! Numbers of records are LEB128. A bit array in which a key sets a few bits is described by gaps, a
//! table whose entries moved by the XOR of its chunks. The base counts as followed by zeros, and a chunk
//! of the target that reaches past the end of the base always has a record. Therefore a delta cannot
//! make [`apply`] allocate more than the base and 2048 bytes for each of its own.
//!
//! A delta is not compressed. Its records compress well; the command `tamis diff` writes them by zstd.

use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::layout::Limits;

const MAGIC: u64 = u64::from_le_bytes(*b"\x89TDELT\r\n");
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 64;
const CHUNK: usize = 4096;

/// Returns the delta that makes `target` from `base`.
///
/// # Errors
/// [`Error::OutOfMemory`] if an allocation fails.
///
/// # Examples
/// ```
/// use tamis_format::{Limits, apply, diff};
///
/// let (old, new) = (vec![0; 100_000], { let mut new = vec![0; 100_000]; new[500] = 9; new });
/// let delta = diff(&old, &new)?;
/// assert!(delta.len() < 80);
/// assert_eq!(apply(&old, &delta, &Limits::default())?, new);
/// assert!(apply(&new, &delta, &Limits::default()).is_err());
/// # Ok::<(), tamis_format::Error>(())
/// ```
pub fn diff(base: &[u8], target: &[u8]) -> Result<Vec<u8>, Error> {
    let mut delta = Vec::new();
    extend(&mut delta, &[0; HEADER_BYTES])?;
    let (mut skipped, mut changes) = (0u64, Vec::new());
    let mut rest = base;
    for new in target.chunks(CHUNK) {
        let (old, later) = rest.split_at(rest.len().min(new.len()));
        rest = later;
        if old == new {
            skipped = skipped.saturating_add(1);
            continue;
        }
        push_varint(&mut delta, skipped)?;
        skipped = 0;
        let old = old.iter().chain(core::iter::repeat(&0));
        let xor: Vec<u8> = new.iter().zip(old).map(|(new, old)| new ^ old).collect();
        changes.clear();
        let count = push_gaps(&mut changes, &xor)?;
        if changes.len() < xor.len() {
            push_varint(&mut delta, count.saturating_add(1))?;
            extend(&mut delta, &changes)?;
        } else {
            push_varint(&mut delta, 0)?;
            extend(&mut delta, &xor)?;
        }
    }
    let (header, records) = delta.split_at_mut(HEADER_BYTES);
    let mut words = [
        MAGIC,
        VERSION.into(),
        base.len() as u64,
        xxh3_64(base),
        target.len() as u64,
        xxh3_64(target),
        xxh3_64(records),
        0,
    ];
    let sum = crate::header::checksum([words.get(..7).unwrap_or_default()]);
    if let Some(last) = words.last_mut() {
        *last = sum;
    }
    for (bytes, word) in header.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(delta)
}

/// Returns the target of a delta. `delta` may be hostile.
///
/// # Errors
/// [`Error::OtherBase`] if the delta was made from another base; [`Error::NotDelta`],
/// [`Error::Version`], [`Error::Truncated`] and [`Error::Corrupt`] if it is no delta or is damaged;
/// [`Error::Limit`] if the target exceeds `limits`; [`Error::OutOfMemory`] if an allocation fails.
pub fn apply(base: &[u8], delta: &[u8], limits: &Limits) -> Result<Vec<u8>, Error> {
    let found = delta.len() as u64;
    let magic = MAGIC.to_le_bytes();
    let first = delta.get(..magic.len()).unwrap_or(delta);
    if first.is_empty() || !magic.starts_with(first) {
        return Err(Error::NotDelta);
    }
    let Some((header, records)) = delta.split_at_checked(HEADER_BYTES) else {
        return Err(Error::Truncated { expected: HEADER_BYTES as u64, found });
    };
    let mut words = [0; HEADER_BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(header.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [_, version, base_len, base_sum, target_len, target_sum, records_sum, sum] = words;
    if version != u64::from(VERSION) {
        let found = u16::try_from(version).unwrap_or(u16::MAX);
        return Err(Error::Version { found, newest: VERSION });
    }
    if crate::header::checksum([words.get(..7).unwrap_or_default()]) != sum {
        return Err(Error::corrupt_at(56, "the checksum of the header does not match"));
    }
    if (base.len() as u64, xxh3_64(base)) != (base_len, base_sum) {
        return Err(Error::OtherBase);
    }
    if target_len > limits.bytes {
        return Err(Error::Limit { what: "bytes", asked: target_len, most: limits.bytes });
    }
    if xxh3_64(records) != records_sum {
        let what = "the checksum of the records does not match, or records are missing";
        return Err(Error::corrupt_at(HEADER_BYTES as u64, what));
    }
    let target = replay(base, target_len, records)?;
    match xxh3_64(&target) == target_sum {
        true => Ok(target),
        false => Err(Error::corrupt("the result does not have the checksum of the target")),
    }
}

/// Makes the target from the base and the records.
fn replay(base: &[u8], target_len: u64, mut records: &[u8]) -> Result<Vec<u8>, Error> {
    const ENDS: Error = Error::Corrupt { at: None, what: "a record is cut off" };
    let mut target = Vec::new();
    let (mut old, mut left) = (base, target_len);
    // Chunks before the next record, if there is one.
    let next = |records: &mut &[u8]| match records.is_empty() {
        true => Ok(None),
        false => varint(records).map(Some).ok_or(ENDS),
    };
    let mut skip = next(&mut records)?;
    while left > 0 {
        let len = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        let (known, later) = old.split_at(old.len().min(len));
        (old, left) = (later, left.saturating_sub(len as u64));
        let at = target.len();
        extend(&mut target, known)?;
        if skip != Some(0) {
            if known.len() < len {
                return Err(Error::corrupt("a chunk past the end of the base has no record"));
            }
            skip = skip.map(|chunks| chunks.saturating_sub(1));
            continue;
        }
        target.try_reserve(len).map_err(|_| Error::OutOfMemory { bytes: target_len })?;
        target.resize(at.saturating_add(len), 0);
        let chunk = target.get_mut(at..).unwrap_or_default();
        match varint(&mut records).ok_or(ENDS)? {
            0 => {
                let (xor, rest) = records.split_at_checked(len).ok_or(ENDS)?;
                records = rest;
                chunk.iter_mut().zip(xor).for_each(|(byte, xor)| *byte ^= xor);
            }
            count => {
                let mut bit = 0u64;
                for _ in 1..count {
                    bit = bit.saturating_add(varint(&mut records).ok_or(ENDS)?);
                    let byte = usize::try_from(bit / 8).ok().and_then(|byte| chunk.get_mut(byte));
                    let outside = Error::corrupt("a record names a bit past the end of its chunk");
                    let mask = 1u8.checked_shl((bit % 8) as u32).unwrap_or(0);
                    *byte.ok_or(outside)? ^= mask;
                    bit = bit.saturating_add(1);
                }
            }
        }
        skip = next(&mut records)?;
    }
    match skip {
        None => Ok(target),
        Some(_) => Err(Error::corrupt("records follow the last chunk")),
    }
}

/// Appends the gaps between the set bits of `xor`. Returns their number.
fn push_gaps(to: &mut Vec<u8>, xor: &[u8]) -> Result<u64, Error> {
    let (mut count, mut next) = (0u64, 0u64);
    for (at, byte) in (0u64..).zip(xor) {
        let mut byte = *byte;
        while byte != 0 {
            let bit = at.saturating_mul(8).saturating_add(byte.trailing_zeros().into());
            push_varint(to, bit.saturating_sub(next))?;
            (count, next) = (count.saturating_add(1), bit.saturating_add(1));
            byte &= byte.wrapping_sub(1);
        }
    }
    Ok(count)
}

fn extend(to: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
    let failed = |_| Error::OutOfMemory { bytes: bytes.len() as u64 };
    to.try_reserve(bytes.len()).map_err(failed)?;
    to.extend_from_slice(bytes);
    Ok(())
}

fn push_varint(to: &mut Vec<u8>, mut value: u64) -> Result<(), Error> {
    while value >= 0x80 {
        extend(to, &[(value & 0x7f) as u8 | 0x80])?;
        value >>= 7;
    }
    extend(to, &[(value & 0x7f) as u8])
}

/// Takes a number of at most 9 bytes, which no honest delta exceeds.
fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]
mod tests {
    use alloc::vec;

    use tamis_bits::range::mix;

    use super::*;

    fn random(seed: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| mix(seed << 32 | at) as u8).collect()
    }

    fn limits() -> Limits {
        Limits { bytes: 1 << 20 }
    }

    #[test]
    fn the_target_comes_back() {
        let base = random(1, 20_000);
        let few = |count: u64| {
            let mut bytes = base.clone();
            for change in 0..count {
                bytes[mix(change) as usize % 20_000] ^= 1 << (change % 8);
            }
            bytes
        };
        let zeros = vec![0; 30_000];
        let grown = [&base[..], &zeros].concat();
        let targets =
            [few(0), few(1), few(100), few(5000), random(2, 20_000), grown, base[..5000].to_vec()];
        for (index, target) in
            targets.iter().chain([&vec![], &vec![7], &random(3, 50_001)]).enumerate()
        {
            let delta = diff(&base, target).unwrap();
            assert_eq!(&apply(&base, &delta, &limits()).unwrap(), target, "target {index}");
            let back = diff(target, &base).unwrap();
            assert_eq!(apply(target, &back, &limits()).unwrap(), base, "target {index}");
        }
        assert_eq!(diff(&base, &base).unwrap().len(), HEADER_BYTES);
        assert!(diff(&base, &few(100)).unwrap().len() < 100 * 3 + 100);
        // Dense changes cost no more than the target itself.
        assert!(diff(&base, &random(2, 20_000)).unwrap().len() < 20_000 + 100);
    }

    #[test]
    fn another_base_is_refused() {
        let (base, mut other) = (random(1, 9000), random(1, 9000));
        let delta = diff(&base, &random(2, 9000)).unwrap();
        other[8999] ^= 1;
        for other in [&other[..], &base[..8999], &[]] {
            assert!(matches!(apply(other, &delta, &limits()), Err(Error::OtherBase)));
        }
    }

    #[test]
    fn no_byte_of_a_delta_can_change_or_be_missing() {
        let base = random(1, 9000);
        let mut target = base.clone();
        target[10] ^= 5;
        target[8000..8500].fill(1);
        let delta = diff(&base, &target).unwrap();
        for at in 0..delta.len() {
            let mut damaged = delta.clone();
            damaged[at] ^= 0x10;
            assert!(apply(&base, &damaged, &limits()).is_err(), "byte {at}");
            assert!(apply(&base, &delta[..at], &limits()).is_err(), "cut at {at}");
        }
        let limit = Limits { bytes: 8999 };
        assert!(matches!(apply(&base, &delta, &limit), Err(Error::Limit { .. })));
        assert!(matches!(apply(&base, b"", &limits()), Err(Error::NotDelta)));
        assert!(matches!(apply(&base, &base, &limits()), Err(Error::NotDelta)));
    }

    /// Records with correct checksums, as an attacker would write them.
    #[test]
    fn hostile_records_are_errors() {
        let base = random(1, 9000);
        let huge = Limits { bytes: u64::MAX };
        for seed in 0..3000u64 {
            let records = random(seed, (seed % 40) as usize);
            for target_len in [0, 1, 8999, 9000, 9001, 1 << 40, u64::MAX] {
                let mut words = [
                    MAGIC,
                    VERSION.into(),
                    9000,
                    xxh3_64(&base),
                    target_len,
                    7,
                    xxh3_64(&records),
                    0,
                ];
                words[7] = crate::header::checksum([&words[..7]]);
                let mut delta: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                delta.extend(&records);
                assert!(apply(&base, &delta, &huge).is_err());
            }
        }
    }
}
