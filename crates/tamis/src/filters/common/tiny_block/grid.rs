//! An array of blocks: the mapping of keys to blocks, and the operations on them.
//!
//! Every operation is a [`Task`], so that it is compiled for the instruction set of the machine.

use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{prefetch, range};
use tamis_format::{Name, Reader, Writer};

use super::Code;
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
use crate::settings::{Setting, Settings};
use crate::shape::check_keys;

pub(in crate::filters) const BLOCKS: Name = Name::new("blocks");
pub(in crate::filters) const BLOCK: Setting =
    Setting::new("block", "256, 512 or 1024 bits per block; default 512");

/// The size of an array of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Grid {
    /// Number of blocks.
    pub(in crate::filters) blocks: u64,
    /// Words per block: 4, 8 or 16.
    pub(in crate::filters) width: usize,
    /// Capacity in keys.
    pub(in crate::filters) keys: u64,
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) enum Insertion {
    Added,
    /// The key was a member or a false positive already.
    Present,
    NoRoom,
}

/// Calls a function with the width as a constant.
macro_rules! with_width {
    ($width:expr, $($call:tt)*) => {
        match $width {
            4 => with_width!(@ 4 $($call)*),
            8 => with_width!(@ 8 $($call)*),
            _ => with_width!(@ 16 $($call)*),
        }
    };
    (@ $w:literal $name:ident :: <W $(, $stop:ident)?> ($($argument:expr),*)) => {
        $name::<$w $(, $stop)?>($($argument),*)
    };
}
pub(in crate::filters) use with_width;

impl Grid {
    /// Returns `blocks` blocks of `bits` bits, for `keys` keys.
    pub(in crate::filters) fn new(blocks: u64, bits: u64, keys: u64) -> Result<Self, Error> {
        if ![256, 512, 1024].contains(&bits) {
            return Err(Error::Limit { what: "bits per block", asked: bits, most: 1024 });
        }
        let most = MAX_BYTES * 8 / bits;
        if blocks == 0 || blocks > most {
            return Err(Error::Limit { what: "blocks", asked: blocks, most });
        }
        check_keys(keys)?;
        Ok(Self { blocks, width: bits as usize / 64, keys })
    }

    /// Returns the smallest number of whole lines in which `rate` is at most `fpr`.
    pub(in crate::filters) fn fit(
        keys: u64,
        fpr: f64,
        settings: &Settings,
        rate: impl Fn(&Self) -> f64,
    ) -> Result<Self, Error> {
        let bits = settings.number(&BLOCK, |bits| [256, 512, 1024].contains(&bits))?.unwrap_or(512);
        let at = |step: u64| Self::new(step * (512 / bits).max(1), bits, keys);
        let mut most = 1;
        while rate(&at(most)?) > fpr {
            most *= 2;
        }
        let mut least = most / 2;
        while most - least > 1 {
            let middle = least.midpoint(most);
            *(if rate(&at(middle)?) > fpr { &mut least } else { &mut most }) = middle;
        }
        at(most)
    }

    pub(in crate::filters) fn bits(&self) -> u64 {
        self.width as u64 * 64
    }

    pub(in crate::filters) fn words(&self) -> u64 {
        self.blocks * self.width as u64
    }

    pub(in crate::filters) fn bytes(&self) -> u64 {
        tamis_bits::lines(self.words()) * 64
    }

    /// Returns the cost of a query: 1 or 2 lines, and index, two ends and a record or two, each of
    /// which depends on the one before.
    pub(in crate::filters) fn query_cost(&self) -> f64 {
        (self.width as f64 / 8.0).max(1.0) + 0.625 + 1.5
    }

    pub(in crate::filters) fn write(&self, to: &mut Writer<'_>) {
        to.shape(&[self.blocks, self.bits(), self.keys]);
    }

    pub(in crate::filters) fn read<const STOP: bool>(from: &mut Reader) -> Result<Self, Error> {
        let mut fields = from.shape()?;
        let blocks = fields.next(1..=MAX_BYTES / 32, "number of blocks")?;
        let bits = fields.next(256..=1024, "bits per block")?;
        let keys = fields.next(0..=MAX_KEYS, "capacity")?;
        fields.finish()?;
        let grid = Self::new(blocks, bits, keys)?;
        let slots = match grid.width {
            4 => Code::<4, STOP>::SLOTS,
            8 => Code::<8, STOP>::SLOTS,
            _ => Code::<16, STOP>::SLOTS,
        };
        if from.header().keys > blocks * slots as u64 {
            return Err(from.corrupt("the header has more keys than the blocks can hold").into());
        }
        Ok(grid)
    }

    pub(in crate::filters) fn zeroed(&self) -> Result<tamis_bits::Words, Error> {
        Ok(tamis_bits::Words::zeroed(usize_words(self.words())?)?)
    }

    #[inline(always)]
    pub(in crate::filters) fn block(&self, key: KeyHash) -> usize {
        range::scale(key.hi, self.blocks) as usize
    }

    #[inline(always)]
    pub(in crate::filters) fn fetch(&self, words: &[u64], key: KeyHash) {
        let first = self.block(key) * self.width;
        prefetch(words, first);
        if self.width > tamis_bits::LINE_WORDS {
            prefetch(words, first + tamis_bits::LINE_WORDS);
        }
    }

    #[inline(always)]
    pub(in crate::filters) fn contains<const STOP: bool>(
        &self,
        words: &[u64],
        key: KeyHash,
    ) -> bool {
        with_width!(self.width, contains::<W, STOP>(words, self.block(key), key.lo))
    }

    pub(in crate::filters) fn contains_batch<const STOP: bool>(
        &self,
        words: &[u64],
        keys: &[KeyHash],
        out: &mut [bool],
    ) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        with_width!(self.width, contains_batch::<W, STOP>(self, words, keys, out));
    }

    #[inline(always)]
    pub(in crate::filters) fn insert<const STOP: bool>(
        &self,
        words: &mut [u64],
        key: KeyHash,
    ) -> Insertion {
        with_width!(self.width, insert::<W, STOP>(words, self.block(key), key.lo))
    }

    #[inline(always)]
    pub(in crate::filters) fn remove(&self, words: &mut [u64], key: KeyHash) -> bool {
        with_width!(self.width, remove::<W>(words, self.block(key), key.lo))
    }

    /// Returns the slots in use and the slots in use or freed of all blocks; `None` if a block is
    /// invalid.
    pub(in crate::filters) fn count<const STOP: bool>(&self, words: &[u64]) -> Option<(u64, u64)> {
        with_width!(self.width, count::<W, STOP>(words))
    }

    /// Checks that the blocks are valid and hold `len` keys.
    pub(in crate::filters) fn validate<const STOP: bool>(
        &self,
        words: &[u64],
        len: u64,
    ) -> Result<(), Error> {
        let what = match self.count::<STOP>(words) {
            Some((used, _)) if used == len => return Ok(()),
            Some(_) => "the number of keys in the blocks differs from the header",
            None => "a block is invalid",
        };
        Err(tamis_format::Error::corrupt(what).into())
    }
}

#[inline(always)]
fn contains<const W: usize, const STOP: bool>(words: &[u64], block: usize, lo: u64) -> bool {
    run(Contains::<W, STOP> { block: &words.as_chunks().0[block], lo })
}

struct Contains<'a, const W: usize, const STOP: bool> {
    block: &'a [u64; W],
    lo: u64,
}

impl<const W: usize, const STOP: bool> Task for Contains<'_, W, STOP> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let (chain, remainder) = Code::<W, STOP>::split(self.lo);
        Code::<W, STOP>::is_used(self.block, chain)
            && Code::<W, STOP>::contains(bits, self.block, chain, remainder)
    }
}

fn contains_batch<const W: usize, const STOP: bool>(
    grid: &Grid,
    words: &[u64],
    keys: &[KeyHash],
    out: &mut [bool],
) {
    run(ContainsBatch::<W, STOP> { grid, words, keys, out });
}

struct ContainsBatch<'a, const W: usize, const STOP: bool> {
    grid: &'a Grid,
    words: &'a [u64],
    keys: &'a [KeyHash],
    out: &'a mut [bool],
}

impl<const W: usize, const STOP: bool> Task for ContainsBatch<'_, W, STOP> {
    type Output = ();

    /// Finds out first which keys have a used chain, which half of the non-members do not, and then
    /// looks up only those: a branch would be mispredicted, and looking up all of them took
    /// non-members 1.3 to 1.5 times as long in the cache, and 1.1 to 1.2 times with 10^7 keys.
    /// Meanwhile the blocks of the next batch are prefetched; batches of 32 exceed the number of
    /// outstanding reads. The loop of `common` has none of these stages.
    #[inline(always)]
    fn work(self, bits: impl Bits) {
        const BATCH: usize = 16;
        let (blocks, _) = self.words.as_chunks::<W>();
        let places = self.grid.blocks;
        let block = |key: &KeyHash| range::scale(key.hi, places) as usize;
        let fetch = |key: &KeyHash| {
            (0..W)
                .step_by(tamis_bits::LINE_WORDS)
                .for_each(|at| prefetch(self.words, block(key) * W + at));
        };
        self.keys.iter().take(BATCH).for_each(fetch);
        let mut later = self.keys.get(BATCH..).unwrap_or(&[]).iter();
        for (keys, out) in self.keys.chunks(BATCH).zip(self.out.chunks_mut(BATCH)) {
            let (mut used, mut count) = ([0u8; BATCH], 0);
            for (i, (key, out)) in keys.iter().zip(&mut *out).enumerate() {
                later.next().into_iter().for_each(fetch);
                let (chain, _) = Code::<W, STOP>::split(key.lo);
                *out = false;
                used[count % BATCH] = i as u8;
                count += usize::from(Code::<W, STOP>::is_used(&blocks[block(key)], chain));
            }
            for i in &used[..count] {
                let (key, out) = (&keys[usize::from(*i)], &mut out[usize::from(*i)]);
                let (chain, remainder) = Code::<W, STOP>::split(key.lo);
                *out = Code::<W, STOP>::contains(bits, &blocks[block(key)], chain, remainder);
            }
        }
    }
}

#[inline(always)]
fn insert<const W: usize, const STOP: bool>(words: &mut [u64], block: usize, lo: u64) -> Insertion {
    run(Insert::<W, STOP> { block: &mut words.as_chunks_mut().0[block], lo })
}

struct Insert<'a, const W: usize, const STOP: bool> {
    block: &'a mut [u64; W],
    lo: u64,
}

impl<const W: usize, const STOP: bool> Task for Insert<'_, W, STOP> {
    type Output = Insertion;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Insertion {
        let (chain, remainder) = Code::<W, STOP>::split(self.lo);
        let put = Code::<W, STOP>::insert(bits, self.block, chain, remainder);
        if !STOP && put == Insertion::NoRoom {
            // The block is invalid: with its chain marked as used, the key is not rejected.
            self.block[chain / 64] |= 1 << (chain % 64);
            return Insertion::Present;
        }
        put
    }
}

#[inline(always)]
fn remove<const W: usize>(words: &mut [u64], block: usize, lo: u64) -> bool {
    run(Remove { block: &mut words.as_chunks_mut::<W>().0[block], lo })
}

pub(super) struct Remove<'a, const W: usize> {
    pub(super) block: &'a mut [u64; W],
    pub(super) lo: u64,
}

impl<const W: usize> Task for Remove<'_, W> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let (chain, remainder) = Code::<W, true>::split(self.lo);
        Code::<W, true>::remove(bits, self.block, chain, remainder)
    }
}

fn count<const W: usize, const STOP: bool>(words: &[u64]) -> Option<(u64, u64)> {
    run(Count::<W, STOP> { blocks: words.as_chunks().0 })
}

struct Count<'a, const W: usize, const STOP: bool> {
    blocks: &'a [[u64; W]],
}

impl<const W: usize, const STOP: bool> Task for Count<'_, W, STOP> {
    type Output = Option<(u64, u64)>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Option<(u64, u64)> {
        let (mut used, mut all) = (0, 0);
        for block in self.blocks {
            if !Code::<W, STOP>::is_sound(bits, block) {
                return None;
            }
            let slots = Code::<W, STOP>::slots(bits, block)?;
            (used, all) = (used + slots.used as u64, all + slots.all as u64);
        }
        Some((used, all))
    }
}
