//! The slots of a ribbon filter, and the equation of a key.

use alloc::vec;
use alloc::vec::Vec;

use super::{BLOCK, Ribbon};
use crate::hash::KeyHash;
use crate::inspect::{Cell, CellTable, Inspect, Step};
use crate::traits::Filter;

impl Ribbon {
    /// Returns the value of a slot, whose bits lie in as many words of its block.
    fn slot(&self, slot: u64) -> u64 {
        let width = self.shape.width as usize;
        let words = &self.table[(slot / BLOCK) as usize * width..][..width];
        words.iter().rev().fold(0, |value, word| value << 1 | word >> (slot % BLOCK) & 1)
    }
}

impl Inspect for Ribbon {
    fn cells(&self) -> Vec<CellTable> {
        let cell = |slot| Cell::new(slot / BLOCK, "slot", self.shape.width, self.slot(slot));
        vec![CellTable::new("table", "block", (0..self.shape.slots()).map(cell).collect())]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let equation = self.first_equation(key.hi);
        let equation = equation.unwrap_or_else(|| self.later_equation(key.hi));
        let ones = (0..BLOCK).filter(|i| equation.coefficients[0] >> i & 1 == 1);
        let cells: Vec<u64> = ones.map(|i| equation.slots[0] + i).collect();
        vec![Step::new("the XOR of the key's slots", cells, equation.value, self.contains(key))]
    }
}
