//! Blocks of any size, one after the other without gaps: an operation copies its block out of the
//! words, and back if it changes. A block may lie across two cache lines or more. Copying and
//! dividing at run time make queries and insertions slower than those of [`Fixed`](super::layout::Fixed)
//! blocks, whose results are the same.

use tamis_bits::packed::mask;
use tamis_bits::prefetch;
use tamis_bits::select::run;

use super::grid::{Contains, Count, Insert, Insertion, Remove};
use super::layout::{Free, Layout, MOST_WORDS};
use super::{Code, Slots};

type Block = [u64; MOST_WORDS];

impl<const STOP: bool> Free<STOP> {
    /// Returns the word and the bit in it where a block begins.
    #[inline(always)]
    fn start(self, number: usize) -> (usize, u32) {
        let bit = number as u64 * self.bits as u64;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    /// Returns a copy of a block, with zeros after its bits.
    #[inline(always)]
    pub(super) fn load(self, words: &[u64], number: usize) -> Block {
        let (first, shift) = self.start(number);
        let mut block = [0; MOST_WORDS];
        for (i, word) in block[..self.bits.div_ceil(64)].iter_mut().enumerate() {
            let high = words.get(first + i + 1).copied().unwrap_or(0);
            *word = (words[first + i] >> shift | high << 1 << (63 - shift)) & self.mask(i);
        }
        block
    }

    #[inline(always)]
    fn store(self, words: &mut [u64], number: usize, block: &Block) {
        let (first, shift) = self.start(number);
        for (i, value) in block[..self.bits.div_ceil(64)].iter().enumerate() {
            let mask = self.mask(i);
            let low = &mut words[first + i];
            *low = *low & !(mask << shift) | value << shift;
            if let Some(high) = words.get_mut(first + i + 1) {
                *high = *high & !(mask >> 1 >> (63 - shift)) | value >> 1 >> (63 - shift);
            }
        }
    }

    /// Returns a mask of the bits of word `i` of a block.
    #[inline(always)]
    fn mask(self, i: usize) -> u64 {
        mask((self.bits - 64 * i).min(64) as u32)
    }

    #[inline]
    pub(super) fn contains(self, words: &[u64], number: usize, lo: u64) -> bool {
        let (first, shift) = self.start(number);
        let bit = shift as usize + self.split(lo).0;
        // Most lookups of non-members end here, without a copy.
        words[first + bit / 64] >> (bit % 64) & 1 == 1
            && run(Contains { code: Code(self), block: &self.load(words, number), lo })
    }

    #[inline]
    pub(super) fn insert(self, words: &mut [u64], number: usize, lo: u64) -> Insertion {
        let old = self.load(words, number);
        let mut block = old;
        let insertion = run(Insert { code: Code::<_, _, STOP>(self), block: &mut block, lo });
        if block != old {
            self.store(words, number, &block);
        }
        insertion
    }

    pub(super) fn prefetch(self, words: &[u64], number: usize) {
        let (first, shift) = self.start(number);
        let last = first + (shift as usize + self.bits - 1) / 64;
        (first..=last).step_by(tamis_bits::LINE_WORDS).for_each(|at| prefetch(words, at));
        prefetch(words, last);
    }

    /// Returns the slots of a block; `None` if it is invalid.
    pub(super) fn count(self, words: &[u64], number: usize) -> Option<Slots> {
        run(Count { code: Code::<_, _, STOP>(self), block: &self.load(words, number) })
    }
}

impl Free<true> {
    #[inline]
    pub(super) fn remove(self, words: &mut [u64], number: usize, lo: u64) -> bool {
        let mut block = self.load(words, number);
        let removed = run(Remove { code: Code(self), block: &mut block, lo });
        if removed {
            self.store(words, number, &block);
        }
        removed
    }
}
