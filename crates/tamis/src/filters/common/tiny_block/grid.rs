//! An array of blocks: the mapping of keys to blocks, and the operations on them.
//!
//! Every operation is a [`Task`], so that it is compiled for the instruction set of the machine.

use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{prefetch, range};
use tamis_format::{Name, Reader, Writer};

use super::layout::{BITS, Fixed};
use super::{Code, Free, Layout, Slots};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::settings::{Setting, Settings};
use crate::shape::check_keys;

pub(in crate::filters) const BLOCKS: Name = Name::new("blocks");
pub(in crate::filters) const BLOCK: Setting = Setting::new(
    "block",
    "128 to 2048 bits per block; default 512, with `load` the fewest that reach the rate",
);
pub(in crate::filters) const CHAINS: Setting =
    Setting::new("chains", "1/64 to 1/3 of the bits of a block; default 1/8");
pub(in crate::filters) const LOAD: Setting =
    Setting::new("load", "2 to 1024 keys per block on average; default: derived from the rate");

/// The size of an array of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Grid {
    /// Number of blocks.
    pub(in crate::filters) blocks: u64,
    /// Bits per block.
    pub(in crate::filters) bits: usize,
    /// Chains per block.
    pub(in crate::filters) chains: usize,
    /// Words of a [`Fixed`] block: 4, 8 or 16. 0 for [`Free`] blocks.
    width: usize,
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

/// Calls a function with the width of fixed blocks as a constant, or evaluates `$free`.
macro_rules! with_width {
    ($grid:expr, $name:ident :: <W $(, $stop:ident)?> $arguments:tt, $free:expr) => {
        match $grid.width {
            8 => with_width!(@ 8 $name $(, $stop)? $arguments),
            4 => with_width!(@ 4 $name $(, $stop)? $arguments),
            16 => with_width!(@ 16 $name $(, $stop)? $arguments),
            _ => $free,
        }
    };
    (@ $w:literal $name:ident $(, $stop:ident)? ($($argument:expr),*)) => {
        $name::<$w $(, $stop)?>($($argument),*)
    };
}

/// Returns the numbers of chains that blocks of `bits` bits may have.
fn chains_of(bits: u64) -> core::ops::RangeInclusive<u64> {
    bits.div_ceil(64)..=bits / 3
}

impl Grid {
    /// Returns `blocks` blocks of `bits` bits with a chain for every 8, for `keys` keys.
    pub(in crate::filters) fn new(blocks: u64, bits: u64, keys: u64) -> Result<Self, Error> {
        Self::with_chains(blocks, bits, bits / 8, keys)
    }

    /// Returns `blocks` blocks of `bits` bits and `chains` chains, for `keys` keys.
    pub(in crate::filters) fn with_chains(
        blocks: u64,
        bits: u64,
        chains: u64,
        keys: u64,
    ) -> Result<Self, Error> {
        if !BITS.contains(&bits) {
            return Err(Error::Limit { what: "bits per block", asked: bits, most: *BITS.end() });
        }
        if !chains_of(bits).contains(&chains) {
            let most = *chains_of(bits).end();
            return Err(Error::Limit { what: "chains per block", asked: chains, most });
        }
        let most = MAX_BYTES * 8 / bits;
        if blocks == 0 || blocks > most {
            return Err(Error::Limit { what: "blocks", asked: blocks, most });
        }
        check_keys(keys)?;
        let fixed = [256, 512, 1024].contains(&bits) && chains == bits / 8;
        let width = if fixed { bits as usize / 64 } else { 0 };
        Ok(Self { blocks, bits: bits as usize, chains: chains as usize, width, keys })
    }

    /// Returns the smallest grid in which `rate` is at most `fpr`.
    ///
    /// With a load, the number of blocks follows from it, and without a block size the search is
    /// for the smallest one: from where `bound`, which is quick to compute and about `rate`,
    /// reaches it.
    pub(in crate::filters) fn fit(
        keys: u64,
        fpr: f64,
        settings: &Settings,
        bound: impl Fn(&Self) -> f64,
        rate: impl Fn(&Self) -> f64,
    ) -> Result<Self, Error> {
        let bits = settings.number(&BLOCK, |bits| BITS.contains(&bits))?;
        let load = settings.real(&LOAD)?;
        if load.is_some_and(|load| !(2.0..=1024.0).contains(&load)) {
            settings.number(&LOAD, |_| false)?;
        }
        let sizes = match (bits, load) {
            (Some(bits), _) => bits..=bits,
            (None, None) => 512..=512,
            (None, Some(_)) => BITS,
        };
        let (fewest, most) = (*chains_of(*sizes.start()).start(), *chains_of(*sizes.end()).end());
        let chains = settings.number(&CHAINS, |chains| (fewest..=most).contains(&chains))?;
        let Some(load) = load else {
            let bits = *sizes.start();
            return Self::fit_blocks(keys, fpr, bits, chains.unwrap_or(bits / 8), rate);
        };
        let blocks = (keys as f64 / load).ceil().max(1.0) as u64;
        let at = |bits: u64| Self::with_chains(blocks, bits, chains.unwrap_or(bits / 8), keys);
        // The block sizes that may have so many chains.
        let (mut least, mut most) = (*sizes.start(), *sizes.end());
        if let Some(chains) = chains {
            (least, most) = (least.max(3 * chains), most.min(64 * chains));
        }
        let (smallest, largest) = (least, most);
        while most > least {
            let middle = least.midpoint(most);
            if bound(&at(middle)?) > fpr {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        let mut best = most;
        while best > smallest && rate(&at(best - 1)?) <= fpr {
            best -= 1;
        }
        while rate(&at(best)?) > fpr {
            if best == largest {
                let why = "blocks of this size have a higher rate with so many keys per block";
                return Err(Error::Infeasible { why });
            }
            best += 1;
        }
        at(best)
    }

    /// Returns the smallest number of blocks in which `rate` is at most `fpr`: whole lines of fixed
    /// blocks.
    fn fit_blocks(
        keys: u64,
        fpr: f64,
        bits: u64,
        chains: u64,
        rate: impl Fn(&Self) -> f64,
    ) -> Result<Self, Error> {
        let free = Self::with_chains(1, bits, chains, keys)?.width == 0;
        let per_step = if free { 1 } else { (512 / bits).max(1) };
        let at = |step: u64| Self::with_chains(step * per_step, bits, chains, keys);
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

    /// Returns whether the blocks are [`Fixed`].
    pub(in crate::filters) fn is_fixed(&self) -> bool {
        self.width != 0
    }

    /// Returns the layout of a block.
    #[inline(always)]
    pub(in crate::filters) fn layout<const STOP: bool>(&self) -> Free<STOP> {
        Free { bits: self.bits, chains: self.chains }
    }

    pub(in crate::filters) fn parameters(&self) -> crate::settings::Parameters {
        [
            ("blocks", self.blocks.into()),
            ("block", (self.bits as u64).into()),
            ("chains", (self.chains as u64).into()),
        ]
        .into()
    }

    pub(in crate::filters) fn words(&self) -> u64 {
        (self.blocks * self.bits as u64).div_ceil(64)
    }

    pub(in crate::filters) fn bytes(&self) -> u64 {
        tamis_bits::lines(self.words()) * 64
    }

    /// Returns the cost of a query: the lines, and index, two ends and a record or two, each of
    /// which depends on the one before. Free blocks begin anywhere in a line, and are copied.
    pub(in crate::filters) fn query_cost(&self) -> f64 {
        let lines = self.bits as f64 / 512.0;
        let lines = if self.is_fixed() { lines.max(1.0) } else { lines + 1.0 };
        lines + 0.625 + if self.is_fixed() { 1.5 } else { 3.0 }
    }

    pub(in crate::filters) fn write(&self, to: &mut Writer<'_>) {
        let fields = [self.blocks, self.bits as u64, self.keys, self.chains as u64];
        to.shape(if self.is_fixed() { &fields[..3] } else { &fields });
    }

    pub(in crate::filters) fn read<const STOP: bool>(from: &mut Reader) -> Result<Self, Error> {
        let mut fields = from.shape()?;
        let blocks = fields.next(1..=MAX_BYTES / 16, "number of blocks")?;
        let bits = fields.next(BITS, "bits per block")?;
        let keys = fields.next(0..=MAX_KEYS, "capacity")?;
        let states_chains = fields.remaining() > 0;
        let chains = match states_chains {
            true => fields.next(chains_of(bits), "chains per block")?,
            false => bits / 8,
        };
        fields.finish()?;
        let grid = Self::with_chains(blocks, bits, chains, keys)?;
        if grid.is_fixed() == states_chains {
            return Err(from.corrupt("the chains per block are stated, or missing").into());
        }
        let slots = grid.layout::<STOP>().most_slots();
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
        if !self.is_fixed() {
            return self.layout::<false>().prefetch(words, self.block(key));
        }
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
        let block = self.block(key);
        with_width!(
            self,
            contains::<W, STOP>(words, block, key.lo),
            self.layout::<STOP>().contains(words, block, key.lo)
        )
    }

    pub(in crate::filters) fn contains_batch<const STOP: bool>(
        &self,
        words: &[u64],
        keys: &[KeyHash],
        out: &mut [bool],
    ) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        with_width!(
            self,
            contains_batch::<W, STOP>(self, words, keys, out),
            self.contains_batch_free::<STOP>(words, keys, out)
        );
    }

    fn contains_batch_free<const STOP: bool>(
        &self,
        words: &[u64],
        keys: &[KeyHash],
        out: &mut [bool],
    ) {
        const BATCH: usize = 16;
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            keys.iter().for_each(|key| self.fetch(words, *key));
            for (key, out) in keys.iter().zip(out) {
                *out = self.layout::<STOP>().contains(words, self.block(*key), key.lo);
            }
        }
    }

    #[inline(always)]
    pub(in crate::filters) fn insert<const STOP: bool>(
        &self,
        words: &mut [u64],
        key: KeyHash,
    ) -> Insertion {
        let block = self.block(key);
        with_width!(
            self,
            insert::<W, STOP>(words, block, key.lo),
            self.layout::<STOP>().insert(words, block, key.lo)
        )
    }

    #[inline(always)]
    pub(in crate::filters) fn remove(&self, words: &mut [u64], key: KeyHash) -> bool {
        let block = self.block(key);
        with_width!(
            self,
            remove::<W>(words, block, key.lo),
            self.layout::<true>().remove(words, block, key.lo)
        )
    }

    /// Returns the slots in use and the slots in use or freed of all blocks; `None` if a block is
    /// invalid.
    pub(in crate::filters) fn count<const STOP: bool>(&self, words: &[u64]) -> Option<(u64, u64)> {
        let free = self.layout::<STOP>();
        with_width!(
            self,
            count::<W, STOP>(words),
            sum((0..self.blocks as usize).map(|number| free.count(words, number)))
        )
    }

    /// Checks that the blocks are valid and hold `len` keys.
    pub(in crate::filters) fn validate<const STOP: bool>(
        &self,
        words: &[u64],
        len: u64,
    ) -> Result<(), Error> {
        let what = match self.count::<STOP>(words) {
            _ if !tamis_bits::set::ends_at(words, self.blocks * self.bits as u64) => {
                "bits are set past the last block"
            }
            Some((used, _)) if used == len => return Ok(()),
            Some(_) => "the number of keys in the blocks differs from the header",
            None => "a block is invalid",
        };
        Err(tamis_format::Error::corrupt(what).into())
    }
}

#[inline(always)]
fn contains<const W: usize, const STOP: bool>(words: &[u64], block: usize, lo: u64) -> bool {
    let code = Code(Fixed::<W, STOP>);
    run(Contains { code, block: &words.as_chunks().0[block], lo })
}

pub(super) struct Contains<'a, L, const W: usize, const STOP: bool> {
    pub(super) code: Code<L, W, STOP>,
    pub(super) block: &'a [u64; W],
    pub(super) lo: u64,
}

impl<L: Layout<W, STOP>, const W: usize, const STOP: bool> Task for Contains<'_, L, W, STOP> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let (chain, remainder) = self.code.0.split(self.lo);
        Code::<L, W, STOP>::is_used(self.block, chain)
            && self.code.contains(bits, self.block, chain, remainder)
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
        let code = Code(Fixed::<W, STOP>);
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
                let (chain, _) = code.0.split(key.lo);
                *out = false;
                used[count % BATCH] = i as u8;
                let block = &blocks[block(key)];
                count += usize::from(Code::<Fixed<W, STOP>, W, STOP>::is_used(block, chain));
            }
            for i in &used[..count] {
                let (key, out) = (&keys[usize::from(*i)], &mut out[usize::from(*i)]);
                let (chain, remainder) = code.0.split(key.lo);
                *out = code.contains(bits, &blocks[block(key)], chain, remainder);
            }
        }
    }
}

#[inline(always)]
fn insert<const W: usize, const STOP: bool>(words: &mut [u64], block: usize, lo: u64) -> Insertion {
    let code = Code(Fixed::<W, STOP>);
    run(Insert { code, block: &mut words.as_chunks_mut().0[block], lo })
}

pub(super) struct Insert<'a, L, const W: usize, const STOP: bool> {
    pub(super) code: Code<L, W, STOP>,
    pub(super) block: &'a mut [u64; W],
    pub(super) lo: u64,
}

impl<L: Layout<W, STOP>, const W: usize, const STOP: bool> Task for Insert<'_, L, W, STOP> {
    type Output = Insertion;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Insertion {
        let (chain, remainder) = self.code.0.split(self.lo);
        let put = self.code.insert(bits, self.block, chain, remainder);
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
    let code = Code(Fixed::<W, true>);
    run(Remove { code, block: &mut words.as_chunks_mut::<W>().0[block], lo })
}

pub(super) struct Remove<'a, L, const W: usize> {
    pub(super) code: Code<L, W, true>,
    pub(super) block: &'a mut [u64; W],
    pub(super) lo: u64,
}

impl<L: Layout<W, true>, const W: usize> Task for Remove<'_, L, W> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let (chain, remainder) = self.code.0.split(self.lo);
        self.code.remove(bits, self.block, chain, remainder)
    }
}

/// Returns the slots in use and the slots in use or freed of blocks; `None` if one is invalid.
fn sum(mut blocks: impl Iterator<Item = Option<Slots>>) -> Option<(u64, u64)> {
    blocks.try_fold((0, 0), |(used, all), slots| {
        let slots = slots?;
        Some((used + slots.used as u64, all + slots.all as u64))
    })
}

fn count<const W: usize, const STOP: bool>(words: &[u64]) -> Option<(u64, u64)> {
    let code = Code(Fixed::<W, STOP>);
    sum(words.as_chunks().0.iter().map(|block| run(Count { code, block })))
}

pub(super) struct Count<'a, L, const W: usize, const STOP: bool> {
    pub(super) code: Code<L, W, STOP>,
    pub(super) block: &'a [u64; W],
}

impl<L: Layout<W, STOP>, const W: usize, const STOP: bool> Task for Count<'_, L, W, STOP> {
    type Output = Option<Slots>;

    /// Returns the slots of a block; `None` if it is invalid.
    #[inline(always)]
    fn work(self, bits: impl Bits) -> Option<Slots> {
        let sound = self.code.is_sound(bits, self.block);
        sound.then(|| self.code.slots(bits, self.block)).flatten()
    }
}
