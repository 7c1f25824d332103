//! The cells of a binary fuse filter, and those of a key.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::packed;
use tamis_bits::peel::Graph;

use super::{Arity, BinaryFuse};
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};
use crate::traits::Filter;

/// Cells of a row. A row has no meaning here.
const IN_ROW: u64 = 16;

impl Inspect for BinaryFuse {
    /// Returns the cells of the first shard: a filter that is small enough to be shown has no other.
    fn cells(&self) -> Vec<CellTable> {
        let size = (self.shape.layout.width, self.shape.layout.cells, IN_ROW);
        vec![CellTable::packed(("table", "row", "cell"), self.table.words(), size)]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let multiplier = self.table.seeds()[0];
        let cells: Vec<u64> = match &self.shape.arity {
            Arity::Three(graph) => {
                graph.edge(multiplier, key.hi).cells.map(|cell| cell as u64).into()
            }
            Arity::Four(graph) => {
                graph.edge(multiplier, key.hi).cells.map(|cell| cell as u64).into()
            }
        };
        let wanted = key.hi & packed::mask(self.shape.layout.width);
        vec![Step::new("the XOR of the key's cells", cells, wanted, self.contains(key))]
    }
}
