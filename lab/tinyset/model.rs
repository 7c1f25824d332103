//! TinySet as lists, with blocks of any size, for the figures that vary the size.
//!
//! The library's filter has blocks of 256, 512 and 1024 bits. This model holds, for each block, the
//! chain and the record of each slot, cut to the slot's width. It gives the answers that the bits
//! would.

use tamis::KeyHash;

use crate::analysis::Block;

/// Blocks of slots, each with its chain and the remaining bits of its remainder.
pub(crate) struct Model {
    block: Block,
    blocks: Vec<Vec<(u32, u64)>>,
}

impl Model {
    pub(crate) fn new(block: Block, blocks: usize) -> Self {
        Self { block, blocks: vec![Vec::new(); blocks] }
    }

    fn place(&self, key: KeyHash) -> (usize, u32, u64) {
        let scale = |half: u64, n: usize| ((u128::from(half) * n as u128) >> 64) as usize;
        let chain = scale(key.lo, self.block.chains) as u32;
        // The high bits select the chain, so the low bits are free for the record.
        (scale(key.hi, self.blocks.len()), chain, key.lo & ((1 << 50) - 1))
    }

    pub(crate) fn insert(&mut self, key: KeyHash) {
        let (block, chain, rest) = self.place(key);
        let slots = &mut self.blocks[block];
        let place = slots.partition_point(|slot| slot.0 < chain);
        slots.insert(place, (chain, rest));
        let count = slots.len();
        for (slot, (_, record)) in slots.iter_mut().enumerate() {
            *record &= (1 << self.block.width(count, slot).0) - 1;
        }
    }

    pub(crate) fn contains(&self, key: KeyHash) -> bool {
        let (block, chain, rest) = self.place(key);
        let slots = &self.blocks[block];
        let first = slots.partition_point(|slot| slot.0 < chain);
        slots[first..].iter().take_while(|slot| slot.0 == chain).enumerate().any(
            |(i, (_, record))| {
                let (mut width, long) = self.block.width(slots.len(), first + i);
                if self.block.removable && long && record >> (width - 1) == 0 {
                    width -= 1;
                }
                (record ^ rest) & ((1 << width) - 1) == 0
            },
        )
    }
}
