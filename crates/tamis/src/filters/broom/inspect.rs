//! The bins of a broom filter, and the bucket of a key.

use alloc::vec;
use alloc::vec::Vec;

use super::Broom;
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};
use crate::traits::Filter;

impl Inspect for Broom {
    fn cells(&self) -> Vec<CellTable> {
        let table = &self.table;
        let cells = (0..table.shape.bins).flat_map(|bin| table.view(bin).cells(bin)).collect();
        vec![CellTable::new("bins", "bin", cells)]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let table = &self.table;
        let bin = table.bin(key);
        let address = table.address(bin, key);
        let mut steps = table.view(bin).path(bin, address);
        let found = self.contains(key);
        if found != steps.last().is_some_and(|step| step.matches) {
            // The cells of the overflow are not shown.
            steps.push(Step::new("the overflow of the bin", [], 0, found));
        }
        steps
    }
}
