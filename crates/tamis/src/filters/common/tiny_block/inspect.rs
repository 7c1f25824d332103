//! The blocks of a TinySet, and the chain of a key.

use alloc::vec::Vec;

use tamis_bits::select::Portable;

use super::{Code, Free, Grid, Layout, Slots, field};
use crate::hash::KeyHash;
use crate::inspect::{Cell, Step};

/// Returns the slots of a chain and of its block.
fn find<const W: usize, const STOP: bool>(
    layout: impl Layout<W, STOP>,
    block: &[u64; W],
    chain: usize,
) -> (core::ops::Range<usize>, Slots) {
    let code = Code(layout);
    let used = is_used(block, chain);
    let found = code.find(Portable, block, chain, used);
    found.unwrap_or((0..0, Slots { used: 0, all: 0 }))
}

fn is_used(block: &[u64], chain: usize) -> bool {
    block[chain / 64] >> (chain % 64) & 1 == 1
}

fn cells<const STOP: bool>(layout: Free<STOP>, words: &[u64], blocks: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for number in 0..blocks {
        let (row, block) = (number as u64, layout.load(words, number));
        let (_, slots) = find(layout, &block, 0);
        let spread = layout.spread(slots.all);
        for bit in 0..layout.chains {
            cells.push(Cell::new(row, "index", 1, field(&block, bit, 1)));
        }
        for bit in 0..slots.all {
            cells.push(Cell::new(row, "end", 1, field(&block, layout.chains + bit, 1)));
        }
        for slot in 0..slots.all {
            let width = spread.width(slot);
            cells.push(Cell::new(row, "record", width, field(&block, spread.offset(slot), width)));
        }
    }
    cells
}

fn path<const STOP: bool>(layout: Free<STOP>, words: &[u64], number: usize, lo: u64) -> Vec<Step> {
    let mut first = 0;
    for before in 0..number {
        let (_, slots) = find(layout, &layout.load(words, before), 0);
        first += layout.chains + 2 * slots.all;
    }
    let block = layout.load(words, number);
    let (chain, remainder) = layout.split(lo);
    let used = is_used(&block, chain);
    let mut steps = Vec::new();
    steps.push(Step::new("whether the key's chain has records", [(first + chain) as u64], 1, used));
    if used {
        let (range, slots) = find(layout, &block, chain);
        let records = first + layout.chains + slots.all;
        let found = Code(layout).contains_in(&block, range.clone(), slots, remainder);
        let cells = range.map(|slot| (records + slot) as u64);
        steps.push(Step::new("the records of the chain", cells, remainder, found));
    }
    steps
}

impl Grid {
    /// Returns the cells of all blocks: index, ends and records of each.
    pub(in crate::filters) fn cells<const STOP: bool>(&self, words: &[u64]) -> Vec<Cell> {
        cells(self.layout::<STOP>(), words, self.blocks as usize)
    }

    /// Returns the steps of a lookup.
    pub(in crate::filters) fn path<const STOP: bool>(
        &self,
        words: &[u64],
        key: KeyHash,
    ) -> Vec<Step> {
        path(self.layout::<STOP>(), words, self.block(key), key.lo)
    }
}
