//! `split_block_bloom` without locks: a key has two bits in each of the four words of its block.

use tamis_bits::simd::{BLOCK_WORDS, SALT};

use super::atomic::{BitFilter, MaskShape};
use crate::filters::common::bit_array::BitArray;
use crate::filters::split_block_bloom::{clear_partial_blocks, place};
use crate::filters::{SplitBlockBloom, SplitBlockBloomShape};
use crate::hash::KeyHash;

impl MaskShape for SplitBlockBloomShape {
    #[inline(always)]
    fn all_masks(&self, key: KeyHash, mut visit: impl FnMut(usize, u64) -> bool) -> bool {
        let (block, x) = place(self.blocks())(&key);
        let lane = |lane: usize| 1u64 << (x.wrapping_mul(SALT[lane]) >> 27);
        (0..BLOCK_WORDS).all(|word| {
            visit(block * BLOCK_WORDS + word, lane(2 * word) | lane(2 * word + 1) << 32)
        })
    }
}

impl BitFilter for SplitBlockBloom {
    fn split(self) -> (SplitBlockBloomShape, BitArray) {
        self.into_parts()
    }

    fn join(shape: SplitBlockBloomShape, bits: BitArray) -> Self {
        Self::from_parts(shape, bits)
    }

    fn clear_partial_keys(words: &mut [u64]) {
        clear_partial_blocks(words);
    }
}
