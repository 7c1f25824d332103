//! The blocks of a TinySet, and the chain of a key.

use alloc::vec::Vec;

use tamis_bits::select::Portable;

use super::{Code, Grid, Slots, Spread, field, with_width};
use crate::hash::KeyHash;
use crate::inspect::{Cell, Step};

/// Returns the slots of a chain and of its block.
fn find<const W: usize, const STOP: bool>(
    block: &[u64; W],
    chain: usize,
) -> (core::ops::Range<usize>, Slots) {
    let used = Code::<W, STOP>::is_used(block, chain);
    let found = Code::<W, STOP>::find(Portable, block, chain, used);
    found.unwrap_or((0..0, Slots { used: 0, all: 0 }))
}

fn cells<const W: usize, const STOP: bool>(words: &[u64]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (row, block) in words.as_chunks::<W>().0.iter().enumerate() {
        let row = row as u64;
        let (_, slots) = find::<W, STOP>(block, 0);
        let spread = Spread::<W, STOP>::of(slots.all);
        let chains = Code::<W, STOP>::CHAINS;
        for bit in 0..chains {
            cells.push(Cell::new(row, "index", 1, field(block, bit, 1)));
        }
        for bit in 0..slots.all {
            cells.push(Cell::new(row, "end", 1, field(block, chains + bit, 1)));
        }
        for slot in 0..slots.all {
            let width = spread.width(slot);
            cells.push(Cell::new(row, "record", width, field(block, spread.offset(slot), width)));
        }
    }
    cells
}

fn path<const W: usize, const STOP: bool>(words: &[u64], number: usize, lo: u64) -> Vec<Step> {
    let mut first = 0;
    for block in &words.as_chunks::<W>().0[..number] {
        let (_, slots) = find::<W, STOP>(block, 0);
        first += Code::<W, STOP>::CHAINS + 2 * slots.all;
    }
    let block = &words.as_chunks::<W>().0[number];
    let (chain, remainder) = Code::<W, STOP>::split(lo);
    let used = Code::<W, STOP>::is_used(block, chain);
    let mut steps = Vec::new();
    steps.push(Step::new("whether the key's chain has records", [(first + chain) as u64], 1, used));
    if used {
        let (range, slots) = find::<W, STOP>(block, chain);
        let records = first + Code::<W, STOP>::CHAINS + slots.all;
        let found = Code::<W, STOP>::contains_in(block, range.clone(), slots, remainder);
        let cells = range.map(|slot| (records + slot) as u64);
        steps.push(Step::new("the records of the chain", cells, remainder, found));
    }
    steps
}

impl Grid {
    /// Returns the cells of all blocks: index, ends and records of each.
    pub(in crate::filters) fn cells<const STOP: bool>(&self, words: &[u64]) -> Vec<Cell> {
        with_width!(self.width, cells::<W, STOP>(words))
    }

    /// Returns the steps of a lookup.
    pub(in crate::filters) fn path<const STOP: bool>(
        &self,
        words: &[u64],
        key: KeyHash,
    ) -> Vec<Step> {
        with_width!(self.width, path::<W, STOP>(words, self.block(key), key.lo))
    }
}
