//! An exact multiset of digests, for the few keys that a filter must know exactly.
//!
//! ```text
//!  slot  | 0 | d | d' | 0 | d'' | …    linear probing, from scale(d, slots) to the next empty slot
//! ```

use tamis_bits::Words;
use tamis_bits::range::scale;

use super::usize_words;
use crate::error::{Error, Full};

/// Slots of a table that had none before its first digest.
const FIRST_SLOTS: u64 = 16;

/// Digests of `W` words in an open-addressing table that grows when it is three quarters full. The first word
/// of a digest is a hash of the others.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Digests<const W: usize = 1> {
    table: Words,
    len: u64,
}

impl<const W: usize> Digests<W> {
    /// Returns an empty table with `slots` slots. It may have none.
    pub(in crate::filters) fn new(slots: u64) -> Result<Self, Error> {
        let words = slots.saturating_mul(W as u64);
        Ok(Self { table: Words::zeroed(usize_words(words)?)?, len: 0 })
    }

    /// Takes the table of a file. Returns `None` if it has slots and none is empty, so that no search would end.
    pub(in crate::filters) fn of(table: Words) -> Option<Self> {
        let mut digests = Self { table, len: 0 };
        let slots = digests.entries();
        let (all, len) = (slots.len(), slots.iter().filter(|digest| digest[0] != 0).count());
        digests.len = len as u64;
        (len < all || all == 0).then_some(digests)
    }

    pub(in crate::filters) fn table(&self) -> &Words {
        &self.table
    }

    fn entries(&self) -> &[[u64; W]] {
        self.table.as_chunks().0
    }

    fn entries_mut(&mut self) -> &mut [[u64; W]] {
        self.table.to_mut().as_chunks_mut().0
    }

    pub(in crate::filters) fn slots(&self) -> u64 {
        self.entries().len() as u64
    }

    /// Removes all digests.
    pub(in crate::filters) fn clear(&mut self) {
        if self.len > 0 {
            self.table.to_mut().fill(0);
            self.len = 0;
        }
    }

    /// Maps a first word of 0, which marks an empty slot, to 1.
    fn nonzero(mut digest: [u64; W]) -> [u64; W] {
        digest[0] = digest[0].max(1);
        digest
    }

    fn home(&self, digest: &[u64; W]) -> usize {
        scale(digest[0], self.slots()) as usize
    }

    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.entries().len() { 0 } else { slot + 1 }
    }

    /// Returns the slot of the digest, or the empty slot that ends the search for it. There must be slots.
    fn find(&self, digest: &[u64; W]) -> usize {
        let (entries, mut slot) = (self.entries(), self.home(digest));
        while entries[slot][0] != 0 && entries[slot] != *digest {
            slot = self.next(slot);
        }
        slot
    }

    #[inline]
    pub(in crate::filters) fn contains(&self, digest: [u64; W]) -> bool {
        self.len > 0 && self.entries()[self.find(&Self::nonzero(digest))][0] != 0
    }

    /// Inserts a digest.
    ///
    /// # Errors
    /// [`Full`] if memory for a larger table cannot be allocated. Nothing has changed then.
    pub(in crate::filters) fn insert(&mut self, digest: [u64; W]) -> Result<(), Full> {
        self.reserve(1)?;
        let digest = Self::nonzero(digest);
        let mut slot = self.home(&digest);
        while self.entries()[slot][0] != 0 {
            slot = self.next(slot);
        }
        self.entries_mut()[slot] = digest;
        self.len += 1;
        Ok(())
    }

    /// Reserves room for `more` digests. The table doubles as often as needed.
    pub(in crate::filters) fn reserve(&mut self, more: u64) -> Result<(), Full> {
        let mut slots = self.slots();
        while (self.len + more) * 4 > slots * 3 {
            slots =
                if slots == 0 { FIRST_SLOTS } else { slots.checked_mul(2).ok_or(Full::NONE)? };
        }
        if slots > self.slots() {
            let larger = Self::new(slots).map_err(|_| Full::NONE)?;
            let smaller = core::mem::replace(self, larger);
            for digest in smaller.entries().iter().filter(|digest| digest[0] != 0) {
                self.insert(*digest)?;
            }
        }
        Ok(())
    }

    /// Removes one copy of a digest and moves later digests into the gap. Returns whether it was in.
    pub(in crate::filters) fn remove(&mut self, digest: [u64; W]) -> bool {
        if !self.contains(digest) {
            return false;
        }
        let mut gap = self.find(&Self::nonzero(digest));
        let (all, mut slot) = (self.entries().len(), gap);
        loop {
            slot = self.next(slot);
            let digest = self.entries()[slot];
            if digest[0] == 0 {
                break;
            }
            // It may move to the gap unless its home lies after the gap, modulo the table.
            let home = self.home(&digest);
            if (slot + all - home) % all >= (slot + all - gap) % all {
                self.entries_mut()[gap] = digest;
                gap = slot;
            }
        }
        self.entries_mut()[gap] = [0; W];
        self.len -= 1;
        true
    }

    /// Returns whether a search finds every digest, and empty slots are 0.
    pub(in crate::filters) fn is_sound(&self) -> bool {
        let entries = self.entries();
        let is_sound = |digest: &[u64; W]| match digest[0] {
            0 => *digest == [0; W],
            _ => entries[self.find(digest)] == *digest,
        };
        entries.iter().all(is_sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tamis_bits::range::mix;

    #[test]
    fn digests_are_a_multiset() {
        check::<1>(4);
        check::<2>(0);
    }

    fn check<const W: usize>(slots: u64) {
        let mut digests = Digests::<W>::new(slots).unwrap();
        let mut model = BTreeMap::<[u64; W], u64>::new();
        for step in 0..100_000u64 {
            // Some at both ends, so that searches wrap around.
            let digest = [0, u64::MAX, mix(step % 60), u64::MAX - mix(step) % 9]
                [(mix(step + 1) % 4) as usize];
            // With two words, digests that differ only in the second.
            let mut digest = [digest; W];
            digest[W - 1] ^= step % 3 / 2 * (W as u64 - 1);
            let count = model.entry(Digests::nonzero(digest)).or_default();
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
        let of = |words: &[u64]| Digests::<W>::of(Words::copy_of(words).unwrap());
        assert!(digests.slots() <= 128 && of(&[1; 4]).is_none() && of(&[]).is_some());
        digests.clear();
        assert!(digests.len == 0 && digests.table.iter().all(|word| *word == 0));
    }
}
