//! The slots of a quotient filter, and the run of a key.

use alloc::vec;
use alloc::vec::Vec;

use super::{CONTINUATION, OCCUPIED, Quotient, SHIFTED};
use crate::hash::KeyHash;
use crate::inspect::{Cell, CellTable, Inspect, Step};

/// Cells of a slot: three flags and the remainder.
const CELLS: u64 = 4;

impl Inspect for Quotient {
    fn cells(&self) -> Vec<CellTable> {
        let flags = [("occupied", OCCUPIED), ("continuation", CONTINUATION), ("shifted", SHIFTED)];
        let mut cells = Vec::new();
        for slot in 0..self.shape.slots() {
            for (role, flag) in flags {
                cells.push(Cell::new(slot, role, 1, self.is(slot, flag).into()));
            }
            let width = if self.is_empty(slot) { 0 } else { self.shape.remainder };
            cells.push(Cell::new(slot, "remainder", width, self.remainder(slot)));
        }
        vec![CellTable::new("table", "slot", cells)]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let (bucket, remainder) = self.shape.split(self.shape.fingerprint(key));
        let is_occupied = self.is(bucket, OCCUPIED);
        let mut steps = vec![Step::new(
            "whether the key's bucket is occupied",
            [bucket * CELLS],
            1,
            is_occupied,
        )];
        if !is_occupied {
            return steps;
        }
        let (run, at) = self.find(bucket, remainder);
        let shifted = run.start != bucket;
        let between = bucket.min(run.start)..=bucket.max(run.start);
        let flags = between.map(|slot| slot * CELLS + 2);
        if shifted {
            steps.push(Step::new("the way to the bucket's run", flags, 1, true));
        }
        let found = self.holds(&run, at, remainder);
        let cells = run.map(|slot| slot * CELLS + 3);
        steps.push(Step::new("the remainders of the run", cells, remainder, found));
        steps
    }
}
