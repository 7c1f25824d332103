//! Equal ranges of the digest.

use alloc::borrow::ToOwned;
use alloc::string::ToString;

use core::ops::RangeInclusive;

use crate::error::Error;
use crate::hash::KeyHash;

/// One of a power of two of equal ranges of [`KeyHash::hi`]: the keys of one part of a build.
///
/// ```
/// use tamis::{KeyHash, PartRange};
///
/// let last = PartRange::new(3, 4)?;
/// assert_eq!(last.digests(), 0xc000_0000_0000_0000..=u64::MAX);
/// let key = KeyHash { hi: u64::MAX, lo: 0 };
/// assert!(last.contains(key));
/// assert_eq!(PartRange::of(key, 4)?, last);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartRange {
    /// The number of ranges is `2^bits`.
    bits: u32,
    index: u64,
}

impl PartRange {
    /// The most parts of a build.
    pub const MAX_PARTS: u64 = 1 << super::BUCKET_BITS;

    /// All digests.
    pub(crate) const ALL: Self = Self { bits: 0, index: 0 };

    /// Returns the range with this number, 0 to `parts - 1`, of `parts` ranges.
    ///
    /// # Errors
    /// [`Error::Setting`] if `parts` is not a power of two up to 256, or `index` is not below it.
    pub fn new(index: u64, parts: u64) -> Result<Self, Error> {
        let bits = part_bits(parts)?;
        if index >= parts {
            return Err(refused("part", index, "0 to the number of parts less 1"));
        }
        Ok(Self { bits, index })
    }

    /// Returns the one of `parts` ranges that the key belongs to.
    ///
    /// # Errors
    /// [`Error::Setting`] if `parts` is not a power of two up to 256.
    pub fn of(key: KeyHash, parts: u64) -> Result<Self, Error> {
        let bits = part_bits(parts)?;
        Ok(Self { bits, index: leading(key.hi, bits) })
    }

    /// Returns the number of this range.
    pub fn index(self) -> u64 {
        self.index
    }

    /// Returns the number of ranges.
    pub fn parts(self) -> u64 {
        1 << self.bits
    }

    /// Returns the digests of the range.
    pub fn digests(self) -> RangeInclusive<u64> {
        // Two shifts, because a shift by 64 is not allowed.
        let rest = u64::MAX >> self.bits;
        let first = self.index << 1 << (63 - self.bits);
        first..=first | rest
    }

    /// Returns whether the key belongs to the range.
    pub fn contains(self, key: KeyHash) -> bool {
        self.contains_digest(key.hi)
    }

    pub(crate) fn contains_digest(self, digest: u64) -> bool {
        leading(digest, self.bits) == self.index
    }

    /// Returns the number of leading bits that all digests of the range have in common.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the numbers of this range's part of `2^bits` shards. There are at least as many
    /// shards as ranges.
    pub(crate) fn shards(self, bits: u32) -> core::ops::Range<usize> {
        let (each, index) = (1 << (bits - self.bits), self.index as usize);
        index * each..(index + 1) * each
    }
}

/// Returns the leading `bits` bits of a digest.
fn leading(digest: u64, bits: u32) -> u64 {
    digest >> 1 >> (63 - bits)
}

fn part_bits(parts: u64) -> Result<u32, Error> {
    if parts.is_power_of_two() && parts <= PartRange::MAX_PARTS {
        Ok(parts.trailing_zeros())
    } else {
        Err(refused("parts", parts, "a power of two up to 256"))
    }
}

fn refused(name: &str, value: u64, takes: &'static str) -> Error {
    Error::Setting { name: name.to_owned(), value: value.to_string(), takes }
}
