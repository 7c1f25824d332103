//! An exact multiset of digests, for the few keys that a filter must know exactly.
//!
//! ```text
//!  slot  | 0 | d | d' | 0 | d'' | …    linear probing, from scale(d, slots) to the next empty slot
//! ```

use tamis_bits::range::{mix, scale};
use tamis_bits::{Words, packed};

use super::usize_words;
use crate::error::{Error, Full};
use crate::hash::KeyHash;

/// Slots of a table that had none before its first digest.
const FIRST_SLOTS: u64 = 16;

/// The bits of a value that its mark depends on.
pub(in crate::filters) const MARK_BITS: u32 = 62;

/// Returns the digest that stands for `value` in one of four roles, as 0 for keys and 1 for cells, in a table of
/// all of them. Digests of different roles are never equal, nor are those of different values below 2^62, because
/// `mix` is a bijection; except that in role 0, the values 0 and 1 have one digest. No digest is 0, which
/// [`Digests`] would take for another one.
#[inline(always)]
pub(in crate::filters) fn mark(role: u64, value: u64) -> [u64; 1] {
    [mix((role << MARK_BITS | value & packed::mask(MARK_BITS)).max(1))]
}

/// Returns 64 bits of a hash: for each `lo`, a bijection of `hi`.
#[inline(always)]
pub(in crate::filters) fn digest(key: KeyHash) -> u64 {
    mix(key.hi ^ mix(key.lo ^ 0x5bf0_3635_dcd1_d867))
}

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

    /// Removes one copy of a digest. Returns whether it was in.
    #[inline]
    pub(in crate::filters) fn remove(&mut self, digest: [u64; W]) -> bool {
        let is_in = self.contains(digest);
        if is_in {
            self.remove_present(digest);
        }
        is_in
    }

    /// Removes one copy of a digest that is in, and moves later digests into the gap.
    fn remove_present(&mut self, digest: [u64; W]) {
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
pub(in crate::filters) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns what `mix` takes to `image`: its three steps backwards.
    pub(in crate::filters) fn unmix(image: u64) -> u64 {
        // The inverse of an odd number modulo 2^64: each step doubles the bits that are right.
        let inverse = |odd: u64| {
            (0..6).fold(1u64, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
        };
        let x = image ^ image >> 31 ^ image >> 62;
        let x = x.wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        let x = x ^ x >> 27 ^ x >> 54;
        let x = x.wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        x ^ x >> 30 ^ x >> 60
    }

    #[test]
    fn marks_of_different_roles_are_never_equal() {
        for role in 0..4 {
            for value in [0, 1, 2, 12345, 1 << 51, (1 << MARK_BITS) - 1] {
                let [found] = mark(role, value);
                let preimage = unmix(found);
                assert!(found != 0 && mix(preimage) == found);
                let expected = if role == 0 { value.max(1) } else { value };
                assert_eq!(
                    (preimage >> MARK_BITS, preimage & packed::mask(MARK_BITS)),
                    (role, expected)
                );
            }
        }
        // What is wider than a mark cannot reach another role.
        assert_eq!(mark(0, u64::MAX), mark(0, u64::MAX >> 2));
    }

    /// Returns the key with this `lo` and this digest.
    pub(in crate::filters) fn key_of(lo: u64, digest: u64) -> KeyHash {
        let at_0 = KeyHash { hi: 0, lo };
        KeyHash { hi: unmix(digest) ^ unmix(super::digest(at_0)), lo }
    }

    #[test]
    fn a_digest_is_a_bijection_of_hi() {
        for (lo, image) in [(3, 0), (u64::MAX, 1), (5, 0xfeed_beef)] {
            assert_eq!(digest(key_of(lo, image)), image);
        }
    }

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
