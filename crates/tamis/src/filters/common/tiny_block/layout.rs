//! The size of a block, the number of its chains, and how its bits are divided among its slots.

use tamis_bits::packed::mask;
use tamis_bits::range;

use super::{MOST_SLOTS, REMAINDER, USUAL_SLOTS};

/// The words of the largest block.
pub(in crate::filters) const MOST_WORDS: usize = 32;
/// The bits of the smallest and of the largest block.
pub(in crate::filters) const BITS: core::ops::RangeInclusive<u64> = 128..=64 * MOST_WORDS as u64;

/// How the bits of an array are divided among its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Bits of a record.
    size: u8,
    /// The number of first records with one bit more.
    longer: u16,
}

impl Share {
    const fn of(array: usize, slots: usize) -> Self {
        if slots == 0 || slots > array {
            return Self { size: 0, longer: 0 };
        }
        let size = array / slots - 1;
        if size < REMAINDER as usize {
            Self { size: size as u8, longer: (array % slots) as u16 }
        } else {
            Self { size: REMAINDER as u8, longer: 0 }
        }
    }
}

/// The positions of the records in a block with a given number of slots.
pub(in crate::filters) struct Spread {
    pub(super) start: usize,
    pub(super) size: usize,
    pub(super) longer: usize,
}

impl Spread {
    #[inline(always)]
    const fn new(start: usize, Share { size, longer }: Share) -> Self {
        Self { start, size: size as usize, longer: longer as usize }
    }

    #[inline(always)]
    pub(super) const fn width(&self, slot: usize) -> u32 {
        (self.size + (slot < self.longer) as usize) as u32
    }

    #[inline(always)]
    pub(super) const fn offset(&self, slot: usize) -> usize {
        let longer = if slot < self.longer { slot } else { self.longer };
        self.start + slot * self.size + longer
    }

    /// Returns a mask of the bits that records lose when a slot is added to a block of `slots`
    /// slots: those past their width in the new block. The record in the last of the longer slots
    /// keeps its bit here, as if it stayed there.
    const fn gone<const W: usize>(&self, new: &Self, slots: usize) -> [u64; W] {
        let mut gone = [0; W];
        let mut slot = 0;
        while slot < slots {
            let mut bit = self.offset(slot) + new.width(slot) as usize;
            while bit < self.offset(slot) + self.width(slot) as usize {
                gone[bit / 64] |= 1 << (bit % 64);
                bit += 1;
            }
            slot += 1;
        }
        gone
    }
}

/// The size of a block of up to `W` words and the number of its chains. The block supports removal
/// if `STOP`.
pub(in crate::filters) trait Layout<const W: usize, const STOP: bool>:
    Copy
{
    /// Returns the number of chains.
    fn chains(self) -> usize;

    /// Returns the bits for ends and records.
    fn array(self) -> usize;

    /// Returns the largest number of slots of a block.
    ///
    /// A block that supports removal may be full. Another block stores a key only if it would
    /// otherwise reject it: from half the array on a record has at most one bit, so a chain gets a
    /// slot when it is empty, and when all its records are the other bit. After that it rejects no
    /// key. With at most a quarter as many chains as the array has bits, the block is never full.
    #[inline(always)]
    fn most_slots(self) -> usize {
        if STOP { self.array() } else { (self.array() / 2 + 2 * self.chains()).min(self.array()) }
    }

    /// Returns the chain and the remainder of the low half of a hash.
    fn split(self, lo: u64) -> (usize, u64);

    /// Returns the positions of the records of a block with `slots` slots.
    fn spread(self, slots: usize) -> Spread;

    /// Returns a mask of the bits that records lose when a block has one slot more than `slots`.
    fn gone(self, slots: usize) -> [u64; W];
}

/// Blocks of `W` words with a chain for every 8 bits, within 1 % of the best number at rates up to
/// 1 %. All its numbers are constants, and its divisions are tables.
#[derive(Clone, Copy)]
pub(in crate::filters) struct Fixed<const W: usize, const STOP: bool>;

impl<const W: usize, const STOP: bool> Fixed<W, STOP> {
    const CHAINS: usize = 8 * W;
    const ARRAY: usize = 56 * W - STOP as usize;

    const SHARES: [Share; MOST_SLOTS + 1] = {
        let mut shares = [Share { size: 0, longer: 0 }; MOST_SLOTS + 1];
        let mut slots = 1;
        while slots <= Self::ARRAY {
            shares[slots] = Share::of(Self::ARRAY, slots);
            slots += 1;
        }
        shares
    };

    /// The masks of lost bits for the usual numbers of slots.
    const GONE: &[[u64; W]; USUAL_SLOTS] = &{
        let mut all = [[0; W]; USUAL_SLOTS];
        let mut slots = 0;
        while slots < USUAL_SLOTS {
            all[slots] = Self::at(slots).gone(&Self::at(slots + 1), slots);
            slots += 1;
        }
        all
    };

    #[inline(always)]
    const fn at(slots: usize) -> Spread {
        Spread::new(Self::CHAINS + slots + STOP as usize, Self::SHARES[slots])
    }
}

impl<const W: usize, const STOP: bool> Layout<W, STOP> for Fixed<W, STOP> {
    #[inline(always)]
    fn chains(self) -> usize {
        Self::CHAINS
    }

    #[inline(always)]
    fn array(self) -> usize {
        Self::ARRAY
    }

    #[inline(always)]
    fn split(self, lo: u64) -> (usize, u64) {
        ((lo >> (64 - Self::CHAINS.ilog2())) as usize, lo & mask(REMAINDER))
    }

    #[inline(always)]
    fn spread(self, slots: usize) -> Spread {
        Self::at(slots)
    }

    #[inline(always)]
    fn gone(self, slots: usize) -> [u64; W] {
        if slots < USUAL_SLOTS {
            Self::GONE[slots]
        } else {
            Self::at(slots).gone(&Self::at(slots + 1), slots)
        }
    }
}

/// Blocks of any number of bits with any number of chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Free<const STOP: bool> {
    pub(in crate::filters) bits: usize,
    pub(in crate::filters) chains: usize,
}

impl<const STOP: bool> Free<STOP> {
    /// Returns the width of the record in `slot` of `slots`.
    pub(in crate::filters) fn width(self, slots: usize, slot: usize) -> u32 {
        self.spread(slots).width(slot)
    }
}

impl<const STOP: bool> Layout<MOST_WORDS, STOP> for Free<STOP> {
    #[inline(always)]
    fn chains(self) -> usize {
        self.chains
    }

    #[inline(always)]
    fn array(self) -> usize {
        self.bits - self.chains - usize::from(STOP)
    }

    #[inline(always)]
    fn split(self, lo: u64) -> (usize, u64) {
        (range::scale(lo, self.chains as u64) as usize, lo & mask(REMAINDER))
    }

    #[inline(always)]
    fn spread(self, slots: usize) -> Spread {
        Spread::new(self.chains + slots + usize::from(STOP), Share::of(self.array(), slots))
    }

    #[inline(always)]
    fn gone(self, slots: usize) -> [u64; MOST_WORDS] {
        self.spread(slots).gone(&self.spread(slots + 1), slots)
    }
}
