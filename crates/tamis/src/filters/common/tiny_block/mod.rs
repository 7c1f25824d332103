//! The block of [`TinySet`](super::TinySet) and [`RemovableTinySet`](super::RemovableTinySet): a
//! hash table of chains in 64·W bits, with neither pointers nor counters in it.
//!
//! ```text
//!  bit 0            8W                                              64W
//!  │ index: a bit a  │ ends: a bit a  │ stop │ record 0 │ record 1 │ … │
//!  │ chain, 1 = used │ slot, 1 = last │  1   │ the low bits of a key's remainder
//!  │                 │ of its chain   │
//!
//!  index  0 1 0 0 1 1 …      chains 1, 4 and 5 are used
//!  ends   0 1 1 1            chain 1 has slots 0 and 1, chain 4 has slot 2, chain 5 has slot 3
//! ```
//!
//! Slots lie in the order of their chains. The k-th set bit of the ends closes the k-th used
//! chain, so where a chain lies, and how many slots there are, follow from counting: the last used
//! chain's end is the last slot. The bits after the ends are shared out evenly among the slots;
//! where they do not divide, the first ones get a bit more. A new slot takes its bits from the
//! others, whose records lose their top bits. So a record is always the beginning of what it was.
//!
//! The stop bit is only in blocks that can forget. A slot that was freed stays, with a 0 among the
//! ends and an empty record, since the others' bits cannot be had back: slots in use are counted
//! by the last chain's end, and all of them by the set bit after it. An unused block is all zeros,
//! without a stop.
//!
//! The same bits could lie across: the first bits of all records, then their second ones, and so
//! on. Then adding is a few deposits of bits, and one took 30 to 34 ns in the cache, at 1 to
//! 0.01 %, where here it takes 47. But a record must be gathered to be compared: queries took 2.0 to
//! 2.4 times as long for members and 1.4 to 1.7 for strangers with BMI2, and 1.4 to 1.7 and 1.0 to
//! 1.2 with AVX-512. So records lie along, for adding as for asking.

use std::ops::Range;

use tamis_bits::lanes::word_at;
use tamis_bits::packed::mask;
use tamis_bits::select::Bits;

mod grid;
mod kind;

pub(in crate::filters) use grid::{BLOCK, BLOCKS, Grid, Put, with_width};
pub(in crate::filters) use kind::tiny_kind;

/// A remainder's bits: what a chain is chosen with takes 7 of 64.
pub(in crate::filters) const REMAINDER: u32 = 57;
/// Slots of the largest block, where each has a bit for its end and nothing else.
const MOST_SLOTS: usize = 56 * 16;

/// More slots than blocks come to have: the largest have 116 on average at 1 %.
const USUAL_SLOTS: usize = 192;

/// Every so many bits a set one.
static EVERY: [u64; 64] = {
    let mut every = [0; 64];
    let mut width = 1;
    while width < 64 {
        let mut bit = 0;
        while bit < 64 {
            every[width] |= 1 << bit;
            bit += width;
        }
        width += 1;
    }
    every
};

/// How the bits of an array are shared out among its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Bits of a record.
    size: u8,
    /// The first so many have one more.
    longer: u16,
}

/// The code of blocks of `W` words, of which `STOP` says whether they can forget.
pub(in crate::filters) struct Code<const W: usize, const STOP: bool>;

/// A block's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Slots {
    /// In use.
    pub(in crate::filters) used: usize,
    /// In use or freed.
    pub(in crate::filters) all: usize,
}

/// Slots of the new block, from those of the old one.
enum Piece {
    Old(Range<usize>),
    New { last: bool, record: u64 },
}

impl<const W: usize, const STOP: bool> Code<W, STOP> {
    /// A chain for every 8 bits: within 1 % of the best number at rates up to 1 %.
    pub(in crate::filters) const CHAINS: usize = 8 * W;
    /// Bits for ends and records.
    pub(in crate::filters) const ARRAY: usize = 56 * W - STOP as usize;
    /// The most slots a block can have.
    ///
    /// One that can forget may be full. One that cannot takes a key only if it would deny it, and
    /// never gets there: from ARRAY / 2 slots on a record is one bit or none, so a chain is added to
    /// when it is empty, and when all its records are the other bit. After that it denies nobody.
    pub(in crate::filters) const SLOTS: usize =
        if STOP { Self::ARRAY } else { Self::ARRAY / 2 + 2 * Self::CHAINS };

    const SHARES: [Share; MOST_SLOTS + 1] = {
        let mut shares = [Share { size: 0, longer: 0 }; MOST_SLOTS + 1];
        let mut slots = 1;
        while slots <= Self::ARRAY {
            let size = Self::ARRAY / slots - 1;
            shares[slots] = if size < REMAINDER as usize {
                Share { size: size as u8, longer: (Self::ARRAY % slots) as u16 }
            } else {
                Share { size: REMAINDER as u8, longer: 0 }
            };
            slots += 1;
        }
        shares
    };

    /// The chain and the remainder that half a hash stands for.
    #[inline(always)]
    pub(in crate::filters) fn split(lo: u64) -> (usize, u64) {
        ((lo >> (64 - Self::CHAINS.ilog2())) as usize, lo & mask(REMAINDER))
    }

    /// Bits of the record in `slot` of so many.
    pub(in crate::filters) fn width(slots: usize, slot: usize) -> u32 {
        Spread::<W, STOP>::of(slots).width(slot)
    }

    /// Whether the chain has a slot: if not, no more need be asked.
    #[inline(always)]
    pub(in crate::filters) fn uses(block: &[u64; W], chain: usize) -> bool {
        block[chain / 64] >> (chain % 64) & 1 == 1
    }

    /// Whether a chain that has slots has a record of this remainder. A block that no filter writes
    /// says yes.
    ///
    /// Nearly always all ends lie in the first word, or in the first three. To look at two words of
    /// ends always, without asking whether one is enough, gained nothing in batches and made single
    /// queries half as slow again.
    #[inline(always)]
    pub(in crate::filters) fn contains(
        bits: impl Bits,
        block: &[u64; W],
        chain: usize,
        rest: u64,
    ) -> bool {
        match Self::find(bits, block, chain, true) {
            Some((chain, slots)) => Self::look(block, chain, slots, rest),
            None => true,
        }
    }

    /// The slots of a chain, where they would be if it has none, and of the block; `None` for bits
    /// that no filter writes.
    #[inline(always)]
    fn find(
        bits: impl Bits,
        block: &[u64; W],
        chain: usize,
        used: bool,
    ) -> Option<(Range<usize>, Slots)> {
        let (before, chains) = (Self::rank(block, chain), Self::rank(block, Self::CHAINS));
        let last = chains + u32::from(STOP);
        let first = Ends::<1>::of(block);
        let near = |nth: &dyn Fn(u32) -> usize| {
            let all = nth(last) - usize::from(STOP);
            Some((nth(before)..nth(before + u32::from(used)), Slots { used: nth(chains), all }))
        };
        if last < first.ones() {
            return near(&|n| first.nth(bits, n));
        }
        let more = Ends::<3>::of(block);
        if last < more.ones() {
            return near(&|n| more.nth(bits, n));
        }
        Some((Self::chain(bits, block, chain), Self::slots(bits, block)?))
    }

    /// Whether a slot from `start` to `end` has a record of this remainder.
    ///
    /// Nearly always these are of one width and within a word from the byte where they begin. Then
    /// they are compared at once: where one equals the remainder, taking 1 from the difference
    /// turns its top bit on.
    #[inline(always)]
    fn look(block: &[u64; W], chain: Range<usize>, slots: Slots, rest: u64) -> bool {
        let (Range { start, end }, spread) = (chain, Spread::<W, STOP>::of(slots.all));
        let long = start < spread.longer;
        let width = spread.size + usize::from(long);
        let taken = (end - start) * width;
        if (width == 0) | (taken > 57) | (long & (end > spread.longer)) {
            return (start..end).any(|slot| spread.matches(block, slot, rest).is_some());
        }
        let at = spread.offset(start);
        let byte = (at / 8).min(8 * W - 8);
        let records = word_at(block, byte as u64) >> ((at - 8 * byte) % 64);
        let lows = EVERY[width % 64];
        let tops = lows << (width - 1);
        let mut differ = records ^ (rest & ((1 << width) - 1)).wrapping_mul(lows);
        if STOP {
            // The top bit of a longer record counts if it is set.
            differ &= records | !tops | u64::from(long).wrapping_sub(1);
        }
        differ.wrapping_sub(lows) & !differ & tops & ((1 << taken) - 1) != 0
    }

    /// Adds a record, if blocks that cannot forget do not have it; nothing is changed if there is no
    /// room or the block is none.
    #[inline(always)]
    pub(in crate::filters) fn insert(
        bits: impl Bits,
        block: &mut [u64; W],
        chain: usize,
        rest: u64,
    ) -> Put {
        let last = !Self::uses(block, chain);
        let Some((slots, Slots { used, all })) = Self::find(bits, block, chain, !last) else {
            return Put::NoRoom;
        };
        let place = slots.start;
        if !STOP && Self::look(block, slots, Slots { used, all }, rest) {
            return Put::Known;
        }
        if used < all {
            let new = Piece::New { last, record: rest };
            let pieces =
                [Piece::Old(0..place), new, Piece::Old(place..used), Piece::Old(used + 1..all)];
            *block = Self::rewrite(block, all, pieces);
        } else if all < Self::SLOTS {
            if STOP && all == 0 {
                block[Self::CHAINS / 64] |= 1 << (Self::CHAINS % 64);
            }
            *block = Self::grow(bits, block, all, place, last, rest);
        } else {
            return Put::NoRoom;
        }
        block[chain / 64] |= 1 << (chain % 64);
        Put::Added
    }

    /// The bits that records lose when a slot is added, in the old block of so many slots: those
    /// past the width that they have in the new one. The record in the last of the longer slots
    /// keeps its bit here, as if it stayed there.
    const fn gone(slots: usize) -> [u64; W] {
        let mut gone = [0; W];
        let (old, new) = (Spread::<W, STOP>::of(slots), Spread::<W, STOP>::of(slots + 1));
        let mut slot = 0;
        while slot < slots {
            let mut bit = old.offset(slot) + new.width(slot) as usize;
            while bit < old.offset(slot) + old.width(slot) as usize {
                gone[bit / 64] |= 1 << (bit % 64);
                bit += 1;
            }
            slot += 1;
        }
        gone
    }

    /// The same for each of the usual numbers of slots.
    const GONE: &[[u64; W]; USUAL_SLOTS] = &{
        let mut all = [[0; W]; USUAL_SLOTS];
        let mut slots = 0;
        while slots < USUAL_SLOTS {
            all[slots] = Self::gone(slots);
            slots += 1;
        }
        all
    };

    /// The block with a slot more, all of whose slots are in use.
    ///
    /// ```text
    ///  old   │ index │ ends    ends │ stop │ records     records │   some lose their top bit
    ///  new   │ index │ ends │1│ ends │ stop │ records │new│ records │   as many as are added
    ///                        └ by one bit ─────────┘    └ by its width too, less what is gone
    /// ```
    ///
    /// What is gone is closed up, word by word; then what lies behind the new end moves up by one
    /// bit, and what lies behind the new record by its width too. All words are treated alike,
    /// without a branch: to write record after record took twice as long. Which bits go depends on
    /// the number of slots, so a table has them, but for one: that of a record which moves out of
    /// the last of the longer slots.
    #[inline(always)]
    fn grow(
        bits: impl Bits,
        block: &[u64; W],
        slots: usize,
        place: usize,
        last: bool,
        rest: u64,
    ) -> [u64; W] {
        let (old, new) = (Spread::<W, STOP>::of(slots), Spread::<W, STOP>::of(slots + 1));
        let mut gone = if slots < USUAL_SLOTS { Self::GONE[slots] } else { Self::gone(slots) };
        let moved = old.offset(new.longer.saturating_sub(1)) + new.size;
        gone[moved / 64 % W] |= u64::from(place < new.longer) << (moved % 64);

        let mut page = [0; W];
        let mut less = 0;
        for i in 0..W {
            let word = bits.squeeze(block[i], gone[i]);
            if i > 0 {
                page[i - 1] |= word << 1 << (63 - less);
            }
            page[i] = word >> less;
            less += gone[i].count_ones();
        }

        let (end, at, width) = (Self::CHAINS + place, new.offset(place), new.width(place));
        let mut before = 0;
        for (i, word) in page.iter_mut().enumerate() {
            let (by_one, by_all) =
                (*word << 1 | before >> 63, *word << 1 << width | before >> (63 - width));
            let (kept, one) = (below(end, i), below(at, i));
            before = *word;
            *word = *word & kept | by_one & one & !kept | by_all & !one;
        }
        let mut put = |value: u64, width: u32, at: usize| {
            let (shift, mask) = (at % 64, mask(width));
            let word = &mut page[at / 64 % W];
            *word = *word & !(mask << shift) | (value & mask) << shift;
            let next = &mut page[(at / 64 + 1) % W];
            *next = *next & !(mask >> 1 >> (63 - shift)) | (value & mask) >> 1 >> (63 - shift);
        };
        put(last.into(), 1, end);
        put(rest, width, at);
        page
    }

    /// Frees the slot of a record of this remainder; `false` if there is none.
    ///
    /// Of several that match it must be the longest. Every key that the longer record may stand
    /// for agrees with this one on all its bits, and so with the shorter record too, which stays
    /// and goes on saying yes. Were the shorter one freed, a key that only it stands for would be lost.
    #[inline(always)]
    pub(in crate::filters) fn remove(
        bits: impl Bits,
        block: &mut [u64; W],
        chain: usize,
        rest: u64,
    ) -> bool {
        const { assert!(STOP, "these blocks cannot forget") };
        if !Self::uses(block, chain) {
            return false;
        }
        let Some(Slots { used, all }) = Self::slots(bits, block) else { return false };
        let (spread, slots) = (Spread::<W, STOP>::of(all), Self::chain(bits, block, chain));
        let matching =
            slots.clone().filter_map(|slot| Some((spread.matches(block, slot, rest)?, slot)));
        let Some((_, slot)) = matching.max() else { return false };
        let free = Piece::New { last: false, record: 0 };
        let pieces = [Piece::Old(0..slot), Piece::Old(slot + 1..used), free, Piece::Old(used..all)];
        let mut new = Self::rewrite(block, all, pieces);
        if slot + 1 == slots.end {
            if slots.len() == 1 {
                new[chain / 64] &= !(1 << (chain % 64));
            } else {
                let end = Self::CHAINS + slot - 1;
                new[end / 64] |= 1 << (end % 64);
            }
        }
        *block = new;
        true
    }

    /// The block's slots; `None` for bits that no filter writes.
    #[inline(always)]
    pub(in crate::filters) fn slots(bits: impl Bits, block: &[u64; W]) -> Option<Slots> {
        let chains = Self::rank(block, Self::CHAINS);
        let used = Self::nth_end(bits, block, chains)?;
        if !STOP {
            return (used <= Self::SLOTS).then_some(Slots { used, all: used });
        }
        match Self::nth_end(bits, block, chains + 1) {
            Some(stop) => Some(Slots { used, all: stop - 1 }),
            None => (*block == [0; W]).then_some(Slots { used: 0, all: 0 }),
        }
    }

    /// Whether every bit is one that a filter may have written.
    pub(in crate::filters) fn is_sound(bits: impl Bits, block: &[u64; W]) -> bool {
        let Some(Slots { used, all }) = Self::slots(bits, block) else { return false };
        if all == 0 {
            return *block == [0; W];
        }
        let spread = Spread::<W, STOP>::of(all);
        let free =
            (used..all).all(|slot| field(block, spread.offset(slot), spread.width(slot)) == 0);
        let end = spread.offset(all - 1) + spread.width(all - 1) as usize;
        free && (end..64 * W).all(|bit| block[bit / 64] >> (bit % 64) & 1 == 0)
    }

    /// The slots of a chain; where they would be, if it has none.
    #[inline(always)]
    fn chain(bits: impl Bits, block: &[u64; W], chain: usize) -> Range<usize> {
        let before = Self::rank(block, chain);
        let has = (block[chain / 64] >> (chain % 64) & 1) as u32;
        let start = Self::nth_end(bits, block, before);
        let end = Self::nth_end(bits, block, before + has);
        // Both are there in a block whose slots could be counted.
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Used chains before `chain`.
    #[inline(always)]
    fn rank(block: &[u64; W], chain: usize) -> u32 {
        let word = |i: usize| {
            let below = chain.saturating_sub(64 * i).min(64) as u32;
            (block[i] & mask(below)).count_ones()
        };
        (0..Self::CHAINS.div_ceil(64)).map(word).sum()
    }

    /// The slot after the end of so many chains: the n-th set bit of the ends, if these began with
    /// a set bit more, for the end before the first chain.
    #[inline(always)]
    fn nth_end(bits: impl Bits, block: &[u64; W], mut n: u32) -> Option<usize> {
        for i in 0..W {
            let at = Self::CHAINS - 1 + 64 * i;
            let word = window(block, at) | u64::from(i == 0);
            let ones = word.count_ones();
            if n < ones {
                return Some(64 * i + bits.select(word, n) as usize);
            }
            n -= ones;
        }
        None
    }

    #[inline(always)]
    fn rewrite(block: &[u64; W], slots: usize, pieces: [Piece; 4]) -> [u64; W] {
        let spread = Spread::<W, STOP>::of(slots);
        let mut pen = Pen { page: [0; W], word: 0, ink: 0, wet: 0 };
        pen.copy(block, 0, Self::CHAINS);
        for piece in &pieces {
            match piece {
                Piece::Old(slots) => pen.copy(block, Self::CHAINS + slots.start, slots.len()),
                Piece::New { last, .. } => pen.put(u64::from(*last), 1),
            }
        }
        if STOP {
            pen.put(1, 1);
        }
        let mut slot = 0;
        for piece in pieces {
            match piece {
                Piece::Old(slots) => {
                    pen.records(block, &spread, slots.clone(), slot);
                    slot += slots.len();
                }
                Piece::New { record, .. } => {
                    let width = spread.width(slot);
                    pen.put(record & mask(width), width);
                    slot += 1;
                }
            }
        }
        pen.put(0, 0);
        pen.page
    }
}

/// Where records lie in a block with so many slots.
struct Spread<const W: usize, const STOP: bool> {
    start: usize,
    size: usize,
    longer: usize,
}

impl<const W: usize, const STOP: bool> Spread<W, STOP> {
    #[inline(always)]
    const fn of(slots: usize) -> Self {
        let Share { size, longer } = Code::<W, STOP>::SHARES[slots];
        let start = Code::<W, STOP>::CHAINS + slots + STOP as usize;
        Self { start, size: size as usize, longer: longer as usize }
    }

    #[inline(always)]
    const fn width(&self, slot: usize) -> u32 {
        (self.size + (slot < self.longer) as usize) as u32
    }

    #[inline(always)]
    const fn offset(&self, slot: usize) -> usize {
        let longer = if slot < self.longer { slot } else { self.longer };
        self.start + slot * self.size + longer
    }

    /// How many bits of the record count, if all of them match.
    ///
    /// Where keys are forgotten, a record may have come from a shorter slot to a longer one. The
    /// bit that it lacks is written as 0, so a 0 there says nothing, and a 1 is a bit of the key.
    #[inline(always)]
    fn matches(&self, block: &[u64; W], slot: usize, rest: u64) -> Option<u32> {
        let mut width = self.width(slot);
        let record = field(block, self.offset(slot), width);
        if STOP && slot < self.longer && record >> (width - 1) == 0 {
            width -= 1;
        }
        ((record ^ rest) & mask(width) == 0).then_some(width)
    }
}

/// The first words of the ends, with a set bit more before them, for the end before the first
/// chain: set bit `n` is at the slot after the end of `n` chains.
struct Ends<const N: usize>([u64; N]);

impl<const N: usize> Ends<N> {
    #[inline(always)]
    fn of<const W: usize>(block: &[u64; W]) -> Self {
        let mut words = std::array::from_fn(|i| window(block, 8 * W - 1 + 64 * i));
        words[0] |= 1;
        Self(words)
    }

    #[inline(always)]
    fn ones(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Where set bit `n` is, of which there must be more than `n`.
    #[inline(always)]
    fn nth(&self, bits: impl Bits, n: u32) -> usize {
        let (mut word, mut first, mut before, mut sum) = (self.0[0], 0, 0, 0);
        for i in 1..N {
            sum += self.0[i - 1].count_ones();
            let past = n >= sum;
            word = if past { self.0[i] } else { word };
            first = if past { 64 * i } else { first };
            before = if past { sum } else { before };
        }
        first + bits.select(word, n - before) as usize
    }
}

/// 64 bits from bit `at` on, zeros past the end.
#[inline(always)]
fn window<const W: usize>(block: &[u64; W], at: usize) -> u64 {
    let (word, shift) = (at / 64, at % 64);
    let high = if word + 1 < W { block[word + 1] } else { 0 };
    if word < W { block[word] >> shift | high << 1 << (63 - shift) } else { 0 }
}

/// The bits of word `i` that come before bit `at` of the block; in arithmetic, since a branch on
/// which word that is would be guessed wrong.
#[inline(always)]
fn below(at: usize, i: usize) -> u64 {
    let (all, some) = (u64::from(i < at / 64), u64::from(i == at / 64));
    all.wrapping_neg() | (some << (at % 64)).wrapping_sub(some)
}

/// `width` bits from bit `at` on.
#[inline(always)]
fn field<const W: usize>(block: &[u64; W], at: usize, width: u32) -> u64 {
    window(block, at) & mask(width)
}

/// Writes a block from its first bit to its last.
struct Pen<const W: usize> {
    page: [u64; W],
    /// The word being written, its bits so far, and how many they are.
    word: usize,
    ink: u64,
    wet: u32,
}

impl<const W: usize> Pen<W> {
    /// Without a branch on whether a word is full: that could not be guessed. What goes over
    /// into the next word is on the page when more is put, be it nothing.
    #[inline(always)]
    fn put(&mut self, value: u64, width: u32) {
        self.ink |= value << self.wet;
        if let Some(word) = self.page.get_mut(self.word) {
            *word = self.ink;
        }
        let full = self.wet + width >= 64;
        self.ink = if full { value >> 1 >> (63 - self.wet) } else { self.ink };
        self.word += usize::from(full);
        self.wet = (self.wet + width) % 64;
    }

    #[inline(always)]
    fn copy(&mut self, from: &[u64; W], mut at: usize, mut len: usize) {
        while len > 0 {
            let width = len.min(64);
            self.put(field(from, at, width as u32), width as u32);
            (at, len) = (at + width, len - width);
        }
    }

    /// Writes the records of `slots` into as many slots from `first` on. Where their width stays
    /// they are copied as one run of bits: that is most of them, most of the time.
    #[inline(always)]
    fn records<const STOP: bool>(
        &mut self,
        from: &[u64; W],
        spread: &Spread<W, STOP>,
        slots: Range<usize>,
        first: usize,
    ) {
        let until = |at: usize, longer: usize| if at < longer { longer - at } else { usize::MAX };
        let (mut slot, mut to) = (slots.start, first);
        while slot < slots.end {
            let alike =
                until(slot, spread.longer).min(until(to, spread.longer)).min(slots.end - slot);
            let (had, has) = (spread.width(slot), spread.width(to));
            let mut at = spread.offset(slot);
            if had == has {
                self.copy(from, at, alike * had as usize);
            } else {
                for _ in 0..alike {
                    self.put(field(from, at, had.min(has)), has);
                    at += had as usize;
                }
            }
            (slot, to) = (slot + alike, to + alike);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::grid::Remove;
    use super::*;
    use tamis_bits::range::mix;
    use tamis_bits::select::{Portable, Task, run};

    struct Do<'a, const W: usize, const STOP: bool>(&'a mut [u64; W], usize, u64, Op);

    #[derive(Clone, Copy, PartialEq)]
    enum Op {
        Contains,
        Insert,
        Slots,
        Sound,
    }

    impl<const W: usize, const STOP: bool> Task for Do<'_, W, STOP> {
        type Output = usize;

        #[inline(always)]
        fn work(self, bits: impl Bits) -> usize {
            let Self(block, chain, rest, op) = self;
            match op {
                Op::Contains => {
                    let has = Code::<W, STOP>::uses(block, chain);
                    usize::from(has && Code::<W, STOP>::contains(bits, block, chain, rest))
                }
                Op::Insert => {
                    usize::from(Code::<W, STOP>::insert(bits, block, chain, rest) == Put::Added)
                }
                Op::Slots => {
                    Code::<W, STOP>::slots(bits, block).map_or(usize::MAX, |slots| slots.all)
                }
                Op::Sound => Code::<W, STOP>::is_sound(bits, block).into(),
            }
        }
    }

    fn act<const W: usize, const STOP: bool>(
        block: &mut [u64; W],
        (chain, rest): (usize, u64),
        op: Op,
    ) -> usize {
        let mut twin = *block;
        let plainly = Do::<W, STOP>(&mut twin, chain, rest, op).work(Portable);
        let out = run(Do::<W, STOP>(block, chain, rest, op));
        assert_eq!((out, &*block), (plainly, &twin), "two ways to do it");
        out
    }

    /// The same block as a list: its chains and remainders in the order of its slots, cut to the
    /// width of the slot by the formula, and how many slots it has.
    #[derive(Default)]
    struct Model<const W: usize, const STOP: bool> {
        slots: Vec<(usize, u64)>,
        all: usize,
    }

    impl<const W: usize, const STOP: bool> Model<W, STOP> {
        fn width(&self, slot: usize) -> (u32, bool) {
            let bits = 56 * W - usize::from(STOP);
            let (size, longer) = (bits / self.all - 1, bits % self.all);
            if size >= 57 {
                (57, false)
            } else {
                ((size + usize::from(slot < longer)) as u32, slot < longer)
            }
        }

        fn matches(&self, slot: usize, key: (usize, u64)) -> Option<u32> {
            let ((mut width, long), (chain, record)) = (self.width(slot), self.slots[slot]);
            if STOP && long && record >> (width - 1) == 0 {
                width -= 1;
            }
            (chain == key.0 && (record ^ key.1) & mask(width) == 0).then_some(width)
        }

        fn contains(&self, key: (usize, u64)) -> bool {
            (0..self.slots.len()).any(|slot| self.matches(slot, key).is_some())
        }

        fn insert(&mut self, key: (usize, u64)) {
            self.all = self.all.max(self.slots.len() + 1);
            let place = self.slots.iter().position(|slot| slot.0 >= key.0);
            self.slots.insert(place.unwrap_or(self.slots.len()), key);
            self.cut();
        }

        fn remove(&mut self, key: (usize, u64)) -> bool {
            let best =
                (0..self.slots.len()).filter_map(|slot| Some((self.matches(slot, key)?, slot)));
            let Some((_, slot)) = best.max() else { return false };
            self.slots.remove(slot);
            self.cut();
            true
        }

        fn cut(&mut self) {
            for slot in 0..self.slots.len() {
                self.slots[slot].1 &= mask(self.width(slot).0);
            }
        }
    }

    fn key<const W: usize>(random: u64) -> (usize, u64) {
        ((random >> 32) as usize % (8 * W), mix(random) & mask(REMAINDER))
    }

    /// Coming and going against the list, from empty to crowded, in few chains and in all; keys
    /// that differ in one bit of the remainder are among them.
    fn agrees_with_a_list<const W: usize, const STOP: bool>() {
        let mut fullest = 0;
        for round in 0..60u64 {
            let mut block = [0; W];
            let mut model = Model::<W, STOP> { slots: Vec::new(), all: 0 };
            let mut live: Vec<(usize, u64)> = Vec::new();
            let target = 2 + (mix(round) % (30 * W as u64)) as usize;
            let few = 1 + mix(round + 77) % (8 * W as u64);
            for step in 0..1500 {
                let random = mix(round << 32 | step);
                let (mut chain, mut rest) = key::<W>(random);
                chain %= few as usize;
                if random.is_multiple_of(4) && !live.is_empty() {
                    (chain, rest) = live[random as usize % live.len()];
                    rest ^= 1 << ((random >> 40) % 20);
                }
                let up = random >> 8 & 127 < if live.len() < target { 90 } else { 57 };
                if up && (STOP || act::<W, STOP>(&mut block, (chain, rest), Op::Contains) == 0) {
                    assert_eq!(act::<W, STOP>(&mut block, (chain, rest), Op::Insert), 1);
                    model.insert((chain, rest));
                    live.push((chain, rest));
                } else if STOP && !up && !live.is_empty() {
                    let gone = live.swap_remove(random as usize % live.len());
                    assert!(with_remove(&mut block, gone) && model.remove(gone));
                }
                let stranger = key::<W>(random ^ 0xabcd);
                let yes = act::<W, STOP>(&mut block, stranger, Op::Contains) == 1;
                assert_eq!(yes, model.contains(stranger));
                assert_eq!(act::<W, STOP>(&mut block, stranger, Op::Slots), model.all);
                if step % 16 == 0 {
                    assert_eq!(act::<W, STOP>(&mut block, stranger, Op::Sound), 1);
                    for key in &live {
                        assert_eq!(act::<W, STOP>(&mut block, *key, Op::Contains), 1, "denied");
                    }
                }
                fullest = fullest.max(model.all);
            }
        }
        assert!(fullest > 20 * W, "only {fullest} slots");
    }

    fn with_remove<const W: usize>(block: &mut [u64; W], (chain, rest): (usize, u64)) -> bool {
        run(Remove { block, lo: (chain as u64) << (64 - (8 * W).ilog2()) | rest })
    }

    #[test]
    fn blocks_that_cannot_forget_agree_with_a_list() {
        agrees_with_a_list::<4, false>();
        agrees_with_a_list::<8, false>();
        agrees_with_a_list::<16, false>();
    }

    #[test]
    fn blocks_that_forget_agree_with_a_list() {
        agrees_with_a_list::<4, true>();
        agrees_with_a_list::<8, true>();
        agrees_with_a_list::<16, true>();
    }
}
