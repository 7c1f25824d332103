//! The buckets of a cuckoo filter, and the two of a key.

use alloc::vec;
use alloc::vec::Vec;

use super::{Cuckoo, SLOTS, STASH_WORDS};
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};

impl Inspect for Cuckoo {
    fn cells(&self) -> Vec<CellTable> {
        // A semi-sorted bucket is one cell.
        let (names, size) = match self.shape.sorted {
            true => {
                let bits = super::sorted::bits(self.shape.width);
                (("table", "bucket", "semi-sorted fingerprints"), (bits, self.shape.buckets, 1))
            }
            false => {
                let size = (self.shape.width, self.shape.buckets * SLOTS, SLOTS);
                (("table", "bucket", "fingerprint"), size)
            }
        };
        let stash = (64, STASH_WORDS as u64, 2);
        vec![
            CellTable::packed(names, self.table.words(), size),
            CellTable::packed(("stash", "entry", "bucket and fingerprint"), &self.stash, stash),
        ]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let place = self.table.place::<0>(key);
        let mut steps = Vec::new();
        for (bucket, what) in place.buckets.into_iter().zip(["the left bucket", "the right bucket"])
        {
            let each = if self.shape.sorted { 1 } else { SLOTS };
            let found = self.table.holds(bucket, place.fingerprint);
            let cells = bucket * each..(bucket + 1) * each;
            steps.push(Step::new(what, cells, place.fingerprint, found));
            if found {
                return steps;
            }
        }
        if self.stashed > 0 {
            let found = self.find_stashed(place.buckets[0], place.fingerprint).is_some();
            let step = Step::new("the stash", 0..STASH_WORDS as u64, place.fingerprint, found);
            steps.push(Step { table: 1, ..step });
        }
        steps
    }
}
