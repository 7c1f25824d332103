//! The cells of a bin.

use alloc::vec::Vec;

use tamis_bits::select::Portable;

use super::{Address, EXTENSIONS, OVERFLOW, SALT, View};
use crate::inspect::{Cell, Step};

/// Cells before the index: the hash function, whether keys overflow, the number of extensions.
const HEAD: u64 = 3;

impl View<'_> {
    /// Returns the cells of the bin: the head, a bit for each bucket and each slot, remainders in use,
    /// extensions.
    pub(in super::super) fn cells(&self, row: u64) -> Vec<Cell> {
        let (head, layout) = (self.line[0], self.layout);
        let mut cells = Vec::new();
        cells.push(Cell::new(row, "hash function", 7, head & (SALT << 1 | 1)));
        cells.push(Cell::new(row, "overflows", 1, u64::from(head & OVERFLOW != 0)));
        cells.push(Cell::new(
            row,
            "extensions",
            layout.head() - EXTENSIONS,
            self.extensions().into(),
        ));
        for bucket in 0..layout.b {
            cells.push(Cell::new(row, "index", 1, self.index().has(bucket).into()));
        }
        for slot in 0..layout.s {
            cells.push(Cell::new(row, "end", 1, self.ends().has(slot).into()));
        }
        for slot in 0..layout.s {
            let width = if slot < self.used() { layout.r } else { 0 };
            let value =
                if width == 0 { 0 } else { self.near(slot) << layout.far() | self.far(slot) };
            cells.push(Cell::new(row, "remainder", width, value));
        }
        for slot in 0..layout.s {
            let (bits, len) = if slot < self.used() { self.extension(slot) } else { (0, 0) };
            let value = if len == 0 { 0 } else { bits >> (64 - len) };
            cells.push(Cell::new(row, "extension", len, value));
        }
        cells
    }

    /// Returns the steps of a lookup in the bin, whose first cell has the index `first`.
    pub(in super::super) fn path(&self, row: u64, address: Address) -> Vec<Step> {
        let (b, s) = (u64::from(self.layout.b), u64::from(self.layout.s));
        let first = row * (HEAD + b + 3 * s);
        let bucket = u64::from(address.bucket);
        let used = self.index().has(address.bucket);
        let mut steps = Vec::new();
        steps.push(Step::new("the hash function of the bin", [first], 0, true));
        steps.push(Step::new(
            "whether the key's bucket has slots",
            [first + HEAD + bucket],
            1,
            used,
        ));
        if used {
            let (start, end) = self.run(Portable, address.bucket);
            let slots = u64::from(start)..u64::from(end);
            let remainders = first + HEAD + b + s;
            let wanted = address.tail >> (64 - self.layout.r);
            let equal = (start..end).filter(|slot| self.remainder_matches(*slot, address.tail));
            let equal: Vec<u32> = equal.collect();
            let cells = slots.map(|slot| remainders + slot);
            steps.push(Step::new("the remainders of the bucket", cells, wanted, !equal.is_empty()));
            if self.extensions() > 0 && !equal.is_empty() {
                let found = |slot: &u32| self.extension_matches(*slot, address.tail).is_some();
                let cells = equal.iter().map(|slot| remainders + s + u64::from(*slot));
                let wanted = address.tail << self.layout.r;
                let found = equal.iter().any(found);
                steps.push(Step::new("the extensions of equal remainders", cells, wanted, found));
            }
        }
        steps
    }
}
