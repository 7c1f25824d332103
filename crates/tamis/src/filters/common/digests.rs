//! An exact multiset of 64-bit digests, for the few keys that a filter must know exactly.
//!
//! ```text
//!  slot  | 0 | d | d' | 0 | d'' | …    linear probing, from scale(d, slots) to the next empty slot
//! ```

use tamis_bits::Words;
use tamis_bits::range::scale;

use super::usize_words;
use crate::error::{Error, Full};

/// Digests in an open-addressing table that grows when it is three quarters full.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Digests {
    table: Words,
    len: u64,
}

impl Digests {
    /// Returns an empty table with `slots` slots.
    pub(in crate::filters) fn new(slots: u64) -> Result<Self, Error> {
        Ok(Self { table: Words::zeroed(usize_words(slots)?)?, len: 0 })
    }

    /// Takes the table of a file. Returns `None` if it has no empty slot, so that no search would end.
    pub(in crate::filters) fn of(table: Words) -> Option<Self> {
        let len = table.iter().filter(|digest| **digest != 0).count() as u64;
        (len < table.len() as u64).then_some(Self { table, len })
    }

    pub(in crate::filters) fn table(&self) -> &Words {
        &self.table
    }

    pub(in crate::filters) fn slots(&self) -> u64 {
        self.table.len() as u64
    }

    /// Maps 0, which marks an empty slot, to 1.
    fn nonzero(digest: u64) -> u64 {
        digest.max(1)
    }

    fn home(&self, digest: u64) -> usize {
        scale(digest, self.slots()) as usize
    }

    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.table.len() { 0 } else { slot + 1 }
    }

    /// Returns the slot of the digest, or the empty slot that ends the search for it.
    fn find(&self, digest: u64) -> usize {
        let mut slot = self.home(digest);
        while self.table[slot] != 0 && self.table[slot] != digest {
            slot = self.next(slot);
        }
        slot
    }

    pub(in crate::filters) fn contains(&self, digest: u64) -> bool {
        self.table[self.find(Self::nonzero(digest))] != 0
    }

    /// Inserts a digest.
    ///
    /// # Errors
    /// [`Full`] if memory for a larger table cannot be allocated. Nothing has changed then.
    pub(in crate::filters) fn insert(&mut self, digest: u64) -> Result<(), Full> {
        self.reserve(1)?;
        let digest = Self::nonzero(digest);
        let mut slot = self.home(digest);
        while self.table[slot] != 0 {
            slot = self.next(slot);
        }
        self.table.to_mut()[slot] = digest;
        self.len += 1;
        Ok(())
    }

    /// Reserves room for `more` digests. The table doubles as often as needed.
    pub(in crate::filters) fn reserve(&mut self, more: u64) -> Result<(), Full> {
        let mut slots = self.slots();
        while (self.len + more) * 4 > slots * 3 {
            slots = slots.checked_mul(2).ok_or(Full::NONE)?;
        }
        if slots > self.slots() {
            let slots = usize::try_from(slots).map_err(|_| Full::NONE)?;
            let larger = Words::zeroed(slots).map_err(|_| Full::NONE)?;
            let smaller = core::mem::replace(self, Self { table: larger, len: 0 });
            for digest in smaller.table.iter().filter(|digest| **digest != 0) {
                self.insert(*digest)?;
            }
        }
        Ok(())
    }

    /// Removes one copy of a digest and moves later digests into the gap. Returns whether it was in.
    pub(in crate::filters) fn remove(&mut self, digest: u64) -> bool {
        let mut gap = self.find(Self::nonzero(digest));
        if self.table[gap] == 0 {
            return false;
        }
        let (all, mut slot) = (self.table.len(), gap);
        loop {
            slot = self.next(slot);
            let digest = self.table[slot];
            if digest == 0 {
                break;
            }
            // It may move to the gap unless its home lies after the gap, modulo the table.
            let home = self.home(digest);
            if (slot + all - home) % all >= (slot + all - gap) % all {
                self.table.to_mut()[gap] = digest;
                gap = slot;
            }
        }
        self.table.to_mut()[gap] = 0;
        self.len -= 1;
        true
    }

    /// Returns whether a search finds every digest.
    pub(in crate::filters) fn is_sound(&self) -> bool {
        self.table.iter().all(|digest| *digest == 0 || self.table[self.find(*digest)] == *digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tamis_bits::range::mix;

    #[test]
    fn digests_are_a_multiset() {
        let (mut digests, mut model) = (Digests::new(4).unwrap(), BTreeMap::<u64, u64>::new());
        for step in 0..100_000u64 {
            // Some at both ends, so that searches wrap around.
            let digest = [0, u64::MAX, mix(step % 60), u64::MAX - mix(step) % 9]
                [(mix(step + 1) % 4) as usize];
            let count = model.entry(digest.max(1)).or_default();
            assert_eq!(digests.contains(digest), *count > 0);
            if mix(step + 2).is_multiple_of(2) && digests.len < 90 {
                digests.insert(digest).unwrap();
                *count += 1;
            } else {
                assert_eq!(digests.remove(digest), *count > 0);
                *count = count.saturating_sub(1);
            }
            assert_eq!(digests.len, model.values().sum::<u64>());
            assert!(step % 64 != 0 || digests.is_sound());
        }
        assert!(digests.slots() <= 128 && Digests::of(Words::copy_of(&[1; 4]).unwrap()).is_none());
    }
}
