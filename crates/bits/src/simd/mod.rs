//! Split blocks of 256 bits: eight lanes of 32 bits, in each of which a 32-bit number selects a bit.
//!
//! ```text
//! block b:  │ lane 0 │ lane 1 │ … │ lane 7 │        lane i, bit (x · SALT[i]) >> 27
//!            words 4b      4b+1 …      4b+3          one 32-byte load, one compare
//! ```
//!
//! `generic.rs` defines the results. `avx2.rs` and `avx512.rs` give the same results and are chosen
//! at run time. A block never crosses a cache line, because [`crate::Words`] start on one.

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has, is_detected};
use crate::range::scale;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod generic;

/// The number of words in a block.
pub const BLOCK_WORDS: usize = 4;

/// Eight odd multipliers, one for each lane. They are the salts of Parquet's split-block Bloom filter,
/// so that equal hashes set equal bits.
pub const SALT: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The distance in keys at which a batch prefetches. Distances of 8 to 32 are equally fast. Below 8 the
/// line arrives too late, above 32 it may be evicted again.
const AHEAD: usize = 16;

/// Up to this many words stay in the second-level cache, and prefetching them only takes time.
#[cfg(target_arch = "x86_64")]
const NEAR_WORDS: usize = 1 << 16;

/// The instruction sets that block operations can use, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust for every machine. It defines the results.
    Generic,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors, two keys at a time.
    Avx512,
}

impl Isa {
    /// Returns those that this machine has.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Generic, Self::Avx2, Self::Avx512].into_iter().filter(|isa| isa.is_available())
    }

    /// Returns the best that this machine has.
    #[inline(always)]
    pub fn best() -> Self {
        if Self::Avx512.is_available() {
            Self::Avx512
        } else if Self::Avx2.is_available() {
            Self::Avx2
        } else {
            Self::Generic
        }
    }

    #[inline(always)]
    fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Generic => true,
            Self::Avx2 => has(Feature::AVX2),
            Self::Avx512 => has(Feature::AVX512_DQ),
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Self::Generic;
    }
}

/// Returns whether the eight bits of `x` are set in block `scale(hash, blocks)`.
///
/// # Panics
/// Panics if `blocks` is 0, or if `words` has fewer blocks.
#[inline(always)]
pub fn contains(words: &[u64], blocks: u64, hash: u64, x: u32) -> bool {
    let all = words.as_chunks::<BLOCK_WORDS>().0;
    // This does not depend on the key, so that a loop of queries checks it once.
    assert!(blocks.wrapping_sub(1) < all.len() as u64, "there are fewer blocks");
    // SAFETY: `scale` returns less than `blocks`, which is not 0, and there are so many blocks.
    let block = unsafe { all.get_unchecked(scale(hash, blocks) as usize) };
    #[cfg(target_arch = "x86_64")]
    if is_detected(Feature::AVX2) {
        // SAFETY: the machine has AVX2, as tested above. AVX-512 would take 4 instructions less, but its
        // masks arrive later: measured, 9 % more time.
        return unsafe { avx2::contains_inline(block, x) };
    }
    contains_detecting(block, x)
}

/// Does the same in a block where nothing is detected yet, or there is nothing to detect.
#[cfg_attr(target_arch = "x86_64", cold, inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
fn contains_detecting(block: &[u64; BLOCK_WORDS], x: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has(Feature::AVX2) {
        // SAFETY: the machine has AVX2, as tested above.
        return unsafe { avx2::contains(block, x) };
    }
    generic::contains(block, x)
}

/// Sets the eight bits of `x` in `block`.
///
/// # Panics
/// Panics if `words` has no such block.
#[inline(always)]
pub fn insert(words: &mut [u64], block: usize, x: u32) {
    let block = nth_mut(words, block);
    #[cfg(target_arch = "x86_64")]
    if has(Feature::AVX2) {
        // SAFETY: the machine has AVX2, as tested above.
        return unsafe { avx2::insert(block, x) };
    }
    generic::insert(block, x);
}

/// Sets `out[i]` to whether [`contains`] holds for `items[i]`. `place` returns the block and the
/// 32-bit number of an item. An instruction set that the machine lacks is replaced by plain Rust.
///
/// # Panics
/// Panics if `out` is shorter than `items`, or if `words` lacks a block that `place` returns.
pub fn contains_batch<T>(
    isa: Isa,
    words: &[u64],
    items: &[T],
    place: impl Fn(&T) -> (usize, u32),
    out: &mut [bool],
) {
    assert!(out.len() >= items.len(), "`out` is shorter than `items`");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has AVX-512 F and DQ, as the guard tests.
        Isa::Avx512 if isa.is_available() => unsafe {
            avx512::contains_batch(words, items, place, out);
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has AVX2, as the guard tests.
        Isa::Avx2 if isa.is_available() => unsafe {
            avx2::contains_batch(words, items, place, out);
        },
        _ => generic::contains_batch(words, items, place, out),
    }
}

/// Inserts every item. `place` is as in [`contains_batch`].
///
/// # Panics
/// Panics if `words` lacks a block that `place` returns.
pub fn insert_batch<T>(
    isa: Isa,
    words: &mut [u64],
    items: &[T],
    place: impl Fn(&T) -> (usize, u32),
) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has AVX2, as the guard tests. Two keys at a time could have the same
        // block, so inserting does not use AVX-512.
        Isa::Avx512 | Isa::Avx2 if isa.is_available() => unsafe {
            avx2::insert_batch(words, items, place);
        },
        _ => generic::insert_batch(words, items, place),
    }
}

#[inline(always)]
fn nth(words: &[u64], block: usize) -> &[u64; BLOCK_WORDS] {
    &words.as_chunks().0[block]
}

#[inline(always)]
fn nth_mut(words: &mut [u64], block: usize) -> &mut [u64; BLOCK_WORDS] {
    &mut words.as_chunks_mut().0[block]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::mix;

    /// Compares every instruction set with the generic version.
    #[test]
    fn instruction_sets_agree() {
        const BLOCKS: usize = 37;
        let place = |i: &u64| ((mix(*i) % BLOCKS as u64) as usize, mix(*i ^ 7) as u32);
        for count in [0, 1, 2, 3, 15, 16, 17, 33, 400] {
            let members: Vec<u64> = (0..count).collect();
            let probes: Vec<u64> = (0..2001).collect();
            let mut expected = vec![0; BLOCKS * BLOCK_WORDS];
            for (block, x) in members.iter().map(place) {
                generic::insert(nth_mut(&mut expected, block), x);
            }
            let answers: Vec<bool> = probes
                .iter()
                .map(place)
                .map(|(b, x)| generic::contains(nth(&expected, b), x))
                .collect();
            assert!(answers[..count as usize].iter().all(|yes| *yes));
            for isa in Isa::available() {
                let mut words = vec![0; BLOCKS * BLOCK_WORDS];
                insert_batch(isa, &mut words, &members, place);
                assert_eq!(words, expected, "{isa:?}");
                let mut out = vec![false; probes.len()];
                contains_batch(isa, &words, &probes, place, &mut out);
                assert_eq!(out, answers, "{isa:?}");
            }
            let mut words = vec![0; BLOCKS * BLOCK_WORDS];
            for (block, x) in members.iter().map(place) {
                insert(&mut words, block, x);
            }
            assert_eq!(words, expected);
            // Alone in its words, a block is that of any hash.
            let block = |b: usize| &words[b * BLOCK_WORDS..][..BLOCK_WORDS];
            for ((b, x), answer) in probes.iter().map(place).zip(answers) {
                assert_eq!(contains(block(b), 1, mix(x.into()), x), answer);
                assert_eq!(contains_detecting(nth(&words, b), x), answer);
                assert_eq!(generic::contains(nth(&words, b), x), answer);
                #[cfg(target_arch = "x86_64")]
                if has(Feature::AVX2) {
                    // SAFETY: the machine has AVX2, as tested above.
                    assert_eq!(unsafe { avx2::contains_inline(nth(&words, b), x) }, answer);
                }
            }
        }
    }

    #[test]
    fn a_hash_selects_its_block() {
        let mut words = [0; 5 * BLOCK_WORDS];
        insert(&mut words, 3, 77);
        for hash in (0..1000).map(mix).chain([0, u64::MAX]) {
            assert_eq!(contains(&words, 5, hash, 77), scale(hash, 5) == 3, "{hash}");
            assert!(!contains(&words, 2, hash, 77));
        }
    }

    #[test]
    fn a_block_past_the_end_panics() {
        for blocks in [0, 3, u64::MAX] {
            assert!(std::panic::catch_unwind(|| contains(&[0; 8], blocks, 1, 1)).is_err());
        }
        assert!(std::panic::catch_unwind(|| insert(&mut [0; 8], 2, 1)).is_err());
    }
}
