//! The block of [`TinySet`](crate::TinySet) and [`RemovableTinySet`](crate::RemovableTinySet): a
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
//! Slots are in the order of their chains. The k-th set bit of the ends marks the last slot of the
//! k-th used chain, so rank and select give the position of a chain and the number of slots: the
//! end of the last used chain is the last slot. The bits after the ends are divided evenly among
//! the slots; if they do not divide evenly, the first slots get one bit more. A new slot takes its
//! bits from the others, whose records lose their top bits. So a record is always the low bits
//! of what it was.
//!
//! Only blocks that support removal have the stop bit. A freed slot stays, with a 0 among the ends
//! and an empty record, since the bits that other records lost cannot be restored. The end of the
//! last chain gives the number of slots in use, and the set bit after it the number of all slots.
//! An unused block is all zeros, without a stop bit.
//!
//! The bits could also be transposed: the first bits of all records, then their second bits, and so
//! on. Then an insertion is a few bit deposits, and took 30 to 34 ns in the cache, at 1 to 0.01 %,
//! where this layout takes 47 ns. But a record must be gathered to be compared: queries took 2.0 to
//! 2.4 times as long for members and 1.4 to 1.7 times for non-members with BMI2, and 1.4 to 1.7 and
//! 1.0 to 1.2 times with AVX-512. So records are stored contiguously.

use core::ops::Range;

use tamis_bits::lanes::word_at;
use tamis_bits::packed::mask;
use tamis_bits::select::Bits;

mod grid;
mod inspect;
mod kind;
#[cfg(test)]
mod tests;

pub(in crate::filters) use grid::{BLOCK, BLOCKS, Grid, Insertion, with_width};
pub(in crate::filters) use kind::tiny_kind;

/// Bits of a remainder: the chain uses 7 of 64.
pub(in crate::filters) const REMAINDER: u32 = 57;
/// The number of slots of the largest block when each has an end bit and no record bits.
const MOST_SLOTS: usize = 56 * 16;

/// More slots than blocks usually have: the largest blocks have 116 on average at 1 %.
const USUAL_SLOTS: usize = 192;

/// For each width, a word with every `width`-th bit set.
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

/// How the bits of an array are divided among its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Bits of a record.
    size: u8,
    /// The number of first records with one bit more.
    longer: u16,
}

/// The operations on blocks of `W` words, which support removal if `STOP`.
pub(in crate::filters) struct Code<const W: usize, const STOP: bool>;

/// A block's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Slots {
    /// In use.
    pub(in crate::filters) used: usize,
    /// In use or freed.
    pub(in crate::filters) all: usize,
}

/// A part of a rewritten block: slots of the old block, or a new slot.
enum Piece {
    Old(Range<usize>),
    New { last: bool, record: u64 },
}

impl<const W: usize, const STOP: bool> Code<W, STOP> {
    /// The number of chains, one for every 8 bits: within 1 % of the best number at rates up to 1
    /// %.
    pub(in crate::filters) const CHAINS: usize = 8 * W;
    /// Bits for ends and records.
    pub(in crate::filters) const ARRAY: usize = 56 * W - STOP as usize;
    /// The largest number of slots of a block.
    ///
    /// A block that supports removal may be full. Another block stores a key only if it would
    /// otherwise reject it, and never gets there: from ARRAY / 2 slots on a record has at most one
    /// bit, so a chain gets a slot when it is empty, and when all its records are the other bit.
    /// After that it rejects no key.
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

    /// Returns the chain and the remainder of the low half of a hash.
    #[inline(always)]
    pub(in crate::filters) fn split(lo: u64) -> (usize, u64) {
        ((lo >> (64 - Self::CHAINS.ilog2())) as usize, lo & mask(REMAINDER))
    }

    /// Returns the width of the record in `slot` of `slots`.
    pub(in crate::filters) fn width(slots: usize, slot: usize) -> u32 {
        Spread::<W, STOP>::of(slots).width(slot)
    }

    /// Returns whether the chain has a slot; if not, it contains no key.
    #[inline(always)]
    pub(in crate::filters) fn is_used(block: &[u64; W], chain: usize) -> bool {
        block[chain / 64] >> (chain % 64) & 1 == 1
    }

    /// Returns whether a used chain has a record of this remainder. Returns `true` for an invalid
    /// block.
    ///
    /// Nearly always all ends are in the first word, or in the first three. Always reading two
    /// words of ends, without a branch on whether one is enough, gained nothing in batches and made
    /// single queries take 1.5 times as long.
    #[inline(always)]
    pub(in crate::filters) fn contains(
        bits: impl Bits,
        block: &[u64; W],
        chain: usize,
        remainder: u64,
    ) -> bool {
        match Self::find(bits, block, chain, true) {
            Some((chain, slots)) => Self::contains_in(block, chain, slots, remainder),
            None => true,
        }
    }

    /// Returns the slots of a chain, or an empty range at its position if it has none, and the
    /// slots of the block; `None` for an invalid block.
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

    /// Returns whether a slot of `chain` has a record of this remainder.
    ///
    /// Nearly always these records have one width and lie within a word from the byte where they
    /// begin. Then they are compared at once: where a record equals the remainder, subtracting 1
    /// from the difference sets its top bit.
    #[inline(always)]
    fn contains_in(block: &[u64; W], chain: Range<usize>, slots: Slots, remainder: u64) -> bool {
        let (Range { start, end }, spread) = (chain, Spread::<W, STOP>::of(slots.all));
        let long = start < spread.longer;
        let width = spread.size + usize::from(long);
        let taken = (end - start) * width;
        if (width == 0) | (taken > 57) | (long & (end > spread.longer)) {
            return (start..end).any(|slot| spread.matches(block, slot, remainder).is_some());
        }
        let at = spread.offset(start);
        let byte = (at / 8).min(8 * W - 8);
        let records = word_at(block, byte as u64) >> ((at - 8 * byte) % 64);
        let lows = EVERY[width % 64];
        let tops = lows << (width - 1);
        let mut differ = records ^ (remainder & ((1 << width) - 1)).wrapping_mul(lows);
        if STOP {
            // The top bit of a longer record is compared only if it is set.
            differ &= records | !tops | u64::from(long).wrapping_sub(1);
        }
        differ.wrapping_sub(lows) & !differ & tops & ((1 << taken) - 1) != 0
    }

    /// Inserts a record. A block that does not support removal omits a record that it already has.
    /// Nothing is changed if there is no room or the block is invalid.
    #[inline(always)]
    pub(in crate::filters) fn insert(
        bits: impl Bits,
        block: &mut [u64; W],
        chain: usize,
        remainder: u64,
    ) -> Insertion {
        let last = !Self::is_used(block, chain);
        let Some((slots, Slots { used, all })) = Self::find(bits, block, chain, !last) else {
            return Insertion::NoRoom;
        };
        let place = slots.start;
        if !STOP && Self::contains_in(block, slots, Slots { used, all }, remainder) {
            return Insertion::Present;
        }
        if used < all {
            let new = Piece::New { last, record: remainder };
            let pieces =
                [Piece::Old(0..place), new, Piece::Old(place..used), Piece::Old(used + 1..all)];
            *block = Self::rewrite(block, all, pieces);
        } else if all < Self::SLOTS {
            if STOP && all == 0 {
                block[Self::CHAINS / 64] |= 1 << (Self::CHAINS % 64);
            }
            *block = Self::grow(bits, block, all, place, last, remainder);
        } else {
            return Insertion::NoRoom;
        }
        block[chain / 64] |= 1 << (chain % 64);
        Insertion::Added
    }

    /// Returns a mask of the bits that records lose when a slot is added to a block of `slots`
    /// slots: those past their width in the new block. The record in the last of the longer slots
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

    /// The results of [`Self::gone`] for the usual numbers of slots.
    const GONE: &[[u64; W]; USUAL_SLOTS] = &{
        let mut all = [[0; W]; USUAL_SLOTS];
        let mut slots = 0;
        while slots < USUAL_SLOTS {
            all[slots] = Self::gone(slots);
            slots += 1;
        }
        all
    };

    /// Returns the block with one slot more. All its slots must be in use.
    ///
    /// ```text
    ///  old   │ index │ ends    ends │ stop │ records     records │   some lose their top bit
    ///  new   │ index │ ends │1│ ends │ stop │ records │new│ records │   as many as are added
    ///                        └ by one bit ─────────┘    └ by its width too, less the lost bits
    /// ```
    ///
    /// The lost bits are squeezed out, word by word; then the bits after the new end move up by
    /// one, and the bits after the new record by its width too. All words are processed alike,
    /// without a branch: writing one record after the other took twice as long. The lost bits
    /// depend on the number of slots, so they are in a table, except one: that of a record which
    /// moves out of the last of the longer slots.
    #[inline(always)]
    fn grow(
        bits: impl Bits,
        block: &[u64; W],
        slots: usize,
        place: usize,
        last: bool,
        remainder: u64,
    ) -> [u64; W] {
        let (old, new) = (Spread::<W, STOP>::of(slots), Spread::<W, STOP>::of(slots + 1));
        let mut gone = if slots < USUAL_SLOTS { Self::GONE[slots] } else { Self::gone(slots) };
        let moved = old.offset(new.longer.saturating_sub(1)) + new.size;
        gone[moved / 64 % W] |= u64::from(place < new.longer) << (moved % 64);

        let mut words = [0; W];
        let mut less = 0;
        for i in 0..W {
            let word = bits.squeeze(block[i], gone[i]);
            if i > 0 {
                words[i - 1] |= word << 1 << (63 - less);
            }
            words[i] = word >> less;
            less += gone[i].count_ones();
        }

        let (end, at, width) = (Self::CHAINS + place, new.offset(place), new.width(place));
        let mut before = 0;
        for (i, word) in words.iter_mut().enumerate() {
            let (by_one, by_all) =
                (*word << 1 | before >> 63, *word << 1 << width | before >> (63 - width));
            let (kept, one) = (below(end, i), below(at, i));
            before = *word;
            *word = *word & kept | by_one & one & !kept | by_all & !one;
        }
        let mut write = |value: u64, width: u32, at: usize| {
            let (shift, mask) = (at % 64, mask(width));
            let word = &mut words[at / 64 % W];
            *word = *word & !(mask << shift) | (value & mask) << shift;
            let next = &mut words[(at / 64 + 1) % W];
            *next = *next & !(mask >> 1 >> (63 - shift)) | (value & mask) >> 1 >> (63 - shift);
        };
        write(last.into(), 1, end);
        write(remainder, width, at);
        words
    }

    /// Frees the slot of a record of this remainder; returns `false` if there is none.
    ///
    /// If several records match, it must be the longest. Every key that may own the longer record
    /// agrees with `remainder` on all its bits, and so matches the shorter record too, which stays.
    /// If the shorter record were freed, a key that matches only that one would be lost.
    #[inline(always)]
    pub(in crate::filters) fn remove(
        bits: impl Bits,
        block: &mut [u64; W],
        chain: usize,
        remainder: u64,
    ) -> bool {
        const { assert!(STOP, "these blocks do not support removal") };
        if !Self::is_used(block, chain) {
            return false;
        }
        let Some(Slots { used, all }) = Self::slots(bits, block) else { return false };
        let (spread, slots) = (Spread::<W, STOP>::of(all), Self::chain(bits, block, chain));
        let matching =
            slots.clone().filter_map(|slot| Some((spread.matches(block, slot, remainder)?, slot)));
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

    /// Returns the number of slots of a block; `None` for an invalid block.
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

    /// Returns whether a block is valid.
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

    /// Returns the slots of a chain, or an empty range at its position if it has none.
    #[inline(always)]
    fn chain(bits: impl Bits, block: &[u64; W], chain: usize) -> Range<usize> {
        let before = Self::rank(block, chain);
        let has = (block[chain / 64] >> (chain % 64) & 1) as u32;
        let start = Self::nth_end(bits, block, before);
        let end = Self::nth_end(bits, block, before + has);
        // Both exist in a block whose slots could be counted.
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Returns the number of used chains before `chain`.
    #[inline(always)]
    fn rank(block: &[u64; W], chain: usize) -> u32 {
        let word = |i: usize| {
            let below = chain.saturating_sub(64 * i).min(64) as u32;
            (block[i] & mask(below)).count_ones()
        };
        (0..Self::CHAINS.div_ceil(64)).map(word).sum()
    }

    /// Returns the slot after the end of `n` chains: the position of set bit `n` of the ends, with
    /// one set bit more before them, for the end before the first chain.
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
        let mut writer = BitWriter { words: [0; W], index: 0, pending: 0, pending_bits: 0 };
        writer.copy(block, 0, Self::CHAINS);
        for piece in &pieces {
            match piece {
                Piece::Old(slots) => writer.copy(block, Self::CHAINS + slots.start, slots.len()),
                Piece::New { last, .. } => writer.write(u64::from(*last), 1),
            }
        }
        if STOP {
            writer.write(1, 1);
        }
        let mut slot = 0;
        for piece in pieces {
            match piece {
                Piece::Old(slots) => {
                    writer.records(block, &spread, slots.clone(), slot);
                    slot += slots.len();
                }
                Piece::New { record, .. } => {
                    let width = spread.width(slot);
                    writer.write(record & mask(width), width);
                    slot += 1;
                }
            }
        }
        writer.write(0, 0);
        writer.words
    }
}

/// The positions of the records in a block with a given number of slots.
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

    /// Returns the number of bits compared, if all of them match.
    ///
    /// In a block that supports removal, a record may have moved from a shorter slot to a longer
    /// one. The missing bit is written as 0, so a 0 there carries no information, and a 1 is a bit
    /// of the key.
    #[inline(always)]
    fn matches(&self, block: &[u64; W], slot: usize, remainder: u64) -> Option<u32> {
        let mut width = self.width(slot);
        let record = field(block, self.offset(slot), width);
        if STOP && slot < self.longer && record >> (width - 1) == 0 {
            width -= 1;
        }
        ((record ^ remainder) & mask(width) == 0).then_some(width)
    }
}

/// The first words of the ends, with one set bit more before them, for the end before the first
/// chain: set bit `n` is at the slot after the end of `n` chains.
struct Ends<const N: usize>([u64; N]);

impl<const N: usize> Ends<N> {
    #[inline(always)]
    fn of<const W: usize>(block: &[u64; W]) -> Self {
        let mut words = core::array::from_fn(|i| window(block, 8 * W - 1 + 64 * i));
        words[0] |= 1;
        Self(words)
    }

    #[inline(always)]
    fn ones(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the position of set bit `n`. There must be more than `n` set bits.
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

/// Returns the 64 bits from bit `at` on, with zeros past the end.
#[inline(always)]
fn window<const W: usize>(block: &[u64; W], at: usize) -> u64 {
    let (word, shift) = (at / 64, at % 64);
    let high = if word + 1 < W { block[word + 1] } else { 0 };
    if word < W { block[word] >> shift | high << 1 << (63 - shift) } else { 0 }
}

/// Returns a mask of the bits of word `i` before bit `at` of the block. It uses arithmetic, since a
/// branch on the word would be mispredicted.
#[inline(always)]
fn below(at: usize, i: usize) -> u64 {
    let (all, some) = (u64::from(i < at / 64), u64::from(i == at / 64));
    all.wrapping_neg() | (some << (at % 64)).wrapping_sub(some)
}

/// Returns the `width` bits from bit `at` on.
#[inline(always)]
fn field<const W: usize>(block: &[u64; W], at: usize, width: u32) -> u64 {
    window(block, at) & mask(width)
}

/// Writes a block from its first bit to its last.
struct BitWriter<const W: usize> {
    words: [u64; W],
    /// The word being written, its bits so far, and their number.
    index: usize,
    pending: u64,
    pending_bits: u32,
}

impl<const W: usize> BitWriter<W> {
    /// Appends the low `width` bits of `value`. There is no branch on whether a word is full, since
    /// it would be mispredicted. Bits that carry over into the next word are stored by the next
    /// call, even one of width 0.
    #[inline(always)]
    fn write(&mut self, value: u64, width: u32) {
        self.pending |= value << self.pending_bits;
        if let Some(word) = self.words.get_mut(self.index) {
            *word = self.pending;
        }
        let full = self.pending_bits + width >= 64;
        self.pending = if full { value >> 1 >> (63 - self.pending_bits) } else { self.pending };
        self.index += usize::from(full);
        self.pending_bits = (self.pending_bits + width) % 64;
    }

    #[inline(always)]
    fn copy(&mut self, from: &[u64; W], mut at: usize, mut len: usize) {
        while len > 0 {
            let width = len.min(64);
            self.write(field(from, at, width as u32), width as u32);
            (at, len) = (at + width, len - width);
        }
    }

    /// Writes the records of `slots` to the same number of slots from `first` on. Where their width
    /// stays the same, which is the usual case, they are copied as one run of bits.
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
                    self.write(field(from, at, had.min(has)), has);
                    at += had as usize;
                }
            }
            (slot, to) = (slot + alike, to + alike);
        }
    }
}
