//! The bits of a Bloom filter, and those of a key.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::set;

use super::Bloom;
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};

impl Inspect for Bloom {
    fn cells(&self) -> Vec<CellTable> {
        let size = (1, self.shape.bits, 64);
        vec![CellTable::packed(("bits", "word", "bit"), self.words(), size)]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let mut steps = Vec::new();
        for place in key.probes(self.shape.bits).take(self.shape.probes as usize) {
            let is_set = set::get(self.words(), place);
            steps.push(Step::new("a bit of the key", [place], 1, is_set));
            if !is_set {
                break;
            }
        }
        steps
    }
}
