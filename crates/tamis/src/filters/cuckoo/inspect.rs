//! The buckets of a cuckoo filter, and the two of a key.

use alloc::vec;
use alloc::vec::Vec;

use super::{Cuckoo, SLOTS, STASH_WORDS};
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, Step};

impl Inspect for Cuckoo {
    fn cells(&self) -> Vec<CellTable> {
        let size = (self.shape.width, self.shape.buckets * SLOTS, SLOTS);
        let stash = (64, STASH_WORDS as u64, 2);
        vec![
            CellTable::packed(("table", "bucket", "fingerprint"), self.table.words(), size),
            CellTable::packed(("stash", "entry", "bucket and fingerprint"), &self.stash, stash),
        ]
    }

    fn path(&self, key: KeyHash) -> Vec<Step> {
        let place = self.table.place::<0>(key);
        let mut steps = Vec::new();
        for (bucket, what) in place.buckets.into_iter().zip(["the left bucket", "the right bucket"])
        {
            let slots = bucket * SLOTS..(bucket + 1) * SLOTS;
            let width = self.shape.width;
            let fingerprint = |slot| tamis_bits::packed::get(self.table.words(), width, slot);
            let found = slots.clone().find(|slot| fingerprint(*slot) == place.fingerprint);
            steps.push(Step::new(what, slots, place.fingerprint, found.is_some()));
            if found.is_some() {
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
