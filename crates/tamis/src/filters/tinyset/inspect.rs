//! The blocks of a TinySet, and the chain of a key.

use alloc::vec;
use alloc::vec::Vec;

use super::TinySet;
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};

impl Inspect for TinySet {
    fn cells(&self) -> Vec<CellTable> {
        vec![CellTable::new("blocks", "block", self.shape.0.cells::<false>(&self.words))]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        self.shape.0.path::<false>(&self.words, key)
    }
}
