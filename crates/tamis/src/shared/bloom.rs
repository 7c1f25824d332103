//! `bloom` without locks.

use super::atomic::{BitFilter, MaskShape};
use crate::filters::common::bit_array::BitArray;
use crate::filters::{Bloom, BloomShape};
use crate::hash::KeyHash;

impl MaskShape for BloomShape {
    #[inline(always)]
    fn all_masks(&self, key: KeyHash, mut visit: impl FnMut(usize, u64) -> bool) -> bool {
        let mut places = key.probes(self.bits()).take(self.probes() as usize);
        places.all(|bit| visit((bit / 64) as usize, 1 << (bit % 64)))
    }
}

impl BitFilter for Bloom {
    fn split(self) -> (BloomShape, BitArray) {
        self.into_parts()
    }

    fn join(shape: BloomShape, bits: BitArray) -> Self {
        Self::from_parts(shape, bits)
    }
}
