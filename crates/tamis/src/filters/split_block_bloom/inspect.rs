//! The blocks of a split-block Bloom filter, and the bits of a key.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::set;
use tamis_bits::simd::{self, BLOCK_WORDS};

use super::{SplitBlockBloom, place};
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};
use crate::traits::Filter;

const BLOCK_BITS: u64 = 64 * BLOCK_WORDS as u64;

impl Inspect for SplitBlockBloom {
    fn cells(&self) -> Vec<CellTable> {
        let size = (1, self.shape.blocks * BLOCK_BITS, BLOCK_BITS);
        vec![CellTable::packed(("bits", "block", "bit"), self.bits.words(), size)]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let (block, x) = place(self.shape.blocks)(&key);
        // The bits of the key are those that an insertion sets in an empty block.
        let mut only = [0; BLOCK_WORDS];
        simd::insert(&mut only, 0, x);
        let bits = (0..BLOCK_BITS).filter(|bit| set::get(&only, *bit));
        let cells: Vec<u64> = bits.map(|bit| block as u64 * BLOCK_BITS + bit).collect();
        let all_set = self.contains(key);
        vec![Step::new("one bit in each lane of the key's block", cells, 1, all_set)]
    }
}
