//! An exact multiset of 64-bit digests, for the few things that a filter must know exactly.
//!
//! ```text
//!  slot  | 0 | d | d' | 0 | d'' | …    an open table: from scale(d, slots) on to the next gap
//! ```

use tamis_bits::Words;
use tamis_bits::range::scale;

use super::usize_words;
use crate::error::{Error, Full};

/// Digests in an open table that grows when it is three quarters full.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Digests {
    table: Words,
    len: u64,
}

impl Digests {
    /// None, with so many slots to begin with.
    pub(in crate::filters) fn new(slots: u64) -> Result<Self, Error> {
        Ok(Self { table: Words::zeroed(usize_words(slots)?)?, len: 0 })
    }

    /// Those of a file; `None` if no search would end.
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

    /// 0 is for slots that are not in use.
    fn digest(of: u64) -> u64 {
        of.max(1)
    }

    fn home(&self, digest: u64) -> usize {
        scale(digest, self.slots()) as usize
    }

    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.table.len() { 0 } else { slot + 1 }
    }

    /// Where the digest is, or the gap that ends the search for it.
    fn find(&self, digest: u64) -> usize {
        let mut slot = self.home(digest);
        while self.table[slot] != 0 && self.table[slot] != digest {
            slot = self.next(slot);
        }
        slot
    }

    pub(in crate::filters) fn contains(&self, digest: u64) -> bool {
        self.table[self.find(Self::digest(digest))] != 0
    }

    /// Adds one. [`Full`] only where memory for a larger table cannot be had; then nothing has
    /// changed.
    pub(in crate::filters) fn insert(&mut self, digest: u64) -> Result<(), Full> {
        self.reserve(1)?;
        let digest = Self::digest(digest);
        let mut slot = self.home(digest);
        while self.table[slot] != 0 {
            slot = self.next(slot);
        }
        self.table.to_mut()[slot] = digest;
        self.len += 1;
        Ok(())
    }

    /// Makes room for so many more, as few times larger as will do.
    pub(in crate::filters) fn reserve(&mut self, more: u64) -> Result<(), Full> {
        let mut slots = self.slots();
        while (self.len + more) * 4 > slots * 3 {
            slots = slots.checked_mul(2).ok_or(Full::NONE)?;
        }
        if slots > self.slots() {
            let slots = usize::try_from(slots).map_err(|_| Full::NONE)?;
            let larger = Words::zeroed(slots).map_err(|_| Full::NONE)?;
            let smaller = std::mem::replace(self, Self { table: larger, len: 0 });
            for digest in smaller.table.iter().filter(|digest| **digest != 0) {
                self.insert(*digest)?;
            }
        }
        Ok(())
    }

    /// Takes one out, if it is in; what lies after it closes the gap.
    pub(in crate::filters) fn remove(&mut self, digest: u64) -> bool {
        let mut gap = self.find(Self::digest(digest));
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
            // It may move to the gap unless its home lies after the gap, going round.
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

    /// Whether every digest can be found.
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
            // Some at the ends, so that searches go round.
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
