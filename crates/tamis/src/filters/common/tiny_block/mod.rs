//! The block of [`TinySet`](crate::TinySet) and [`RemovableTinySet`](crate::RemovableTinySet): a
//! hash table of L chains in B bits, with neither pointers nor counters in it.
//!
//! ```text
//!  bit 0             L                                                B
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

mod free;
mod grid;
mod inspect;
mod kind;
mod layout;
#[cfg(test)]
mod tests;

pub(in crate::filters) use grid::{BLOCK, BLOCKS, CHAINS, Grid, Insertion, LOAD};
pub(in crate::filters) use kind::tiny_kind;
use layout::Spread;
pub(in crate::filters) use layout::{Free, Layout};

/// Bits of a remainder: up to 128 chains use 7 of 64. The bits that more chains share with the
/// remainder are those that a record loses first.
pub(in crate::filters) const REMAINDER: u32 = 57;
/// The number of slots of the largest [`layout::Fixed`] block when each has an end bit and no record bits.
const MOST_SLOTS: usize = 56 * 16;

/// More slots than blocks usually have: the largest fixed blocks have 116 on average at 1 %.
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

/// The operations on blocks of up to `W` words, which support removal if `STOP`.
#[derive(Clone, Copy)]
pub(in crate::filters) struct Code<L, const W: usize, const STOP: bool>(pub(in crate::filters) L);

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

impl<L: Layout<W, STOP>, const W: usize, const STOP: bool> Code<L, W, STOP> {
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
        self,
        bits: impl Bits,
        block: &[u64; W],
        chain: usize,
        remainder: u64,
    ) -> bool {
        match self.find(bits, block, chain, true) {
            Some((chain, slots)) => self.contains_in(block, chain, slots, remainder),
            None => true,
        }
    }

    /// Returns the slots of a chain, or an empty range at its position if it has none, and the
    /// slots of the block; `None` for an invalid block.
    #[inline(always)]
    fn find(
        self,
        bits: impl Bits,
        block: &[u64; W],
        chain: usize,
        used: bool,
    ) -> Option<(Range<usize>, Slots)> {
        let (before, chains) = (self.rank(block, chain), self.rank(block, self.0.chains()));
        let last = chains + u32::from(STOP);
        let first = Ends::<1>::of(block, self.0.chains());
        let near = |nth: &dyn Fn(u32) -> usize| {
            let all = nth(last) - usize::from(STOP);
            Some((nth(before)..nth(before + u32::from(used)), Slots { used: nth(chains), all }))
        };
        if last < first.ones() {
            return near(&|n| first.nth(bits, n));
        }
        let more = Ends::<3>::of(block, self.0.chains());
        if last < more.ones() {
            return near(&|n| more.nth(bits, n));
        }
        Some((self.chain(bits, block, chain), self.slots(bits, block)?))
    }

    /// Returns whether a slot of `chain` has a record of this remainder.
    ///
    /// Nearly always these records have one width and lie within a word from the byte where they
    /// begin. Then they are compared at once: where a record equals the remainder, subtracting 1
    /// from the difference sets its top bit.
    #[inline(always)]
    fn contains_in(
        self,
        block: &[u64; W],
        chain: Range<usize>,
        slots: Slots,
        remainder: u64,
    ) -> bool {
        let (Range { start, end }, spread) = (chain, self.0.spread(slots.all));
        let long = start < spread.longer;
        let width = spread.size + usize::from(long);
        let taken = (end - start) * width;
        if (width == 0) | (taken > 57) | (long & (end > spread.longer)) {
            return (start..end)
                .any(|slot| spread.matches::<W, STOP>(block, slot, remainder).is_some());
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
        self,
        bits: impl Bits,
        block: &mut [u64; W],
        chain: usize,
        remainder: u64,
    ) -> Insertion {
        let last = !Self::is_used(block, chain);
        let Some((slots, Slots { used, all })) = self.find(bits, block, chain, !last) else {
            return Insertion::NoRoom;
        };
        let place = slots.start;
        if !STOP && self.contains_in(block, slots, Slots { used, all }, remainder) {
            return Insertion::Present;
        }
        if used < all {
            let new = Piece::New { last, record: remainder };
            let pieces =
                [Piece::Old(0..place), new, Piece::Old(place..used), Piece::Old(used + 1..all)];
            *block = self.rewrite(block, all, pieces);
        } else if all < self.0.most_slots() {
            if STOP && all == 0 {
                block[self.0.chains() / 64] |= 1 << (self.0.chains() % 64);
            }
            *block = self.grow(bits, block, all, place, last, remainder);
        } else if STOP {
            return Insertion::NoRoom;
        } else {
            *block = match last && self.0.most_slots() == self.0.array() {
                true => self.displace(block, all, place),
                false => self.saturated(),
            };
            block[chain / 64] |= 1 << (chain % 64);
            return Insertion::Present;
        }
        block[chain / 64] |= 1 << (chain % 64);
        Insertion::Added
    }

    /// Returns a full block with a chain more, whose slot is one that another chain can spare. A
    /// block has as many slots as its array has bits only if every record has lost all its bits.
    /// Then a chain matches every key with one slot as well as with several. There are fewer chains
    /// than slots, so one has several.
    #[inline(always)]
    fn displace(self, block: &[u64; W], all: usize, place: usize) -> [u64; W] {
        let is_spare = |slot: &usize| field(block, self.0.chains() + slot, 1) == 0;
        let spare = (0..all).find(is_spare).unwrap_or(0);
        let new = Piece::New { last: true, record: 0 };
        let pieces = if spare < place {
            [Piece::Old(0..spare), Piece::Old(spare + 1..place), new, Piece::Old(place..all)]
        } else {
            [Piece::Old(0..place), new, Piece::Old(place..spare), Piece::Old(spare + 1..all)]
        };
        self.rewrite(block, all, pieces)
    }

    /// Returns a block with the most slots that contains every key: each chain has a record 0 and a
    /// record 1 of one bit, or a record without bits.
    ///
    /// A block reaches the most slots by insertions only when it contains every key: see
    /// [`Layout::most_slots`]. A valid block of a hostile file may have as many and still reject a key.
    #[cold]
    fn saturated(self) -> [u64; W] {
        let (chains, slots) = (self.0.chains(), self.0.most_slots());
        let spread = self.0.spread(slots);
        let mut writer = BitWriter { words: [0; W], index: 0, pending: 0, pending_bits: 0 };
        (0..chains).for_each(|_| writer.write(1, 1));
        for slot in 0..slots {
            let is_last = if slot < 2 * (chains - 1) { slot % 2 == 1 } else { slot + 1 == slots };
            writer.write(is_last.into(), 1);
        }
        // The longer slots, which come first, have one bit.
        (0..spread.longer).for_each(|slot| writer.write(slot as u64 % 2, 1));
        writer.write(0, 0);
        writer.words
    }

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
        self,
        bits: impl Bits,
        block: &[u64; W],
        slots: usize,
        place: usize,
        last: bool,
        remainder: u64,
    ) -> [u64; W] {
        let (old, new) = (self.0.spread(slots), self.0.spread(slots + 1));
        let mut gone = self.0.gone(slots);
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

        let (end, at, width) = (self.0.chains() + place, new.offset(place), new.width(place));
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
        self,
        bits: impl Bits,
        block: &mut [u64; W],
        chain: usize,
        remainder: u64,
    ) -> bool {
        const { assert!(STOP, "these blocks do not support removal") };
        if !Self::is_used(block, chain) {
            return false;
        }
        let Some(Slots { used, all }) = self.slots(bits, block) else { return false };
        let (spread, slots) = (self.0.spread(all), self.chain(bits, block, chain));
        let matching = slots
            .clone()
            .filter_map(|slot| Some((spread.matches::<W, STOP>(block, slot, remainder)?, slot)));
        let Some((_, slot)) = matching.max() else { return false };
        let free = Piece::New { last: false, record: 0 };
        let pieces = [Piece::Old(0..slot), Piece::Old(slot + 1..used), free, Piece::Old(used..all)];
        let mut new = self.rewrite(block, all, pieces);
        if slot + 1 == slots.end {
            if slots.len() == 1 {
                new[chain / 64] &= !(1 << (chain % 64));
            } else {
                let end = self.0.chains() + slot - 1;
                new[end / 64] |= 1 << (end % 64);
            }
        }
        *block = new;
        true
    }

    /// Returns the number of slots of a block; `None` for an invalid block.
    #[inline(always)]
    pub(in crate::filters) fn slots(self, bits: impl Bits, block: &[u64; W]) -> Option<Slots> {
        let chains = self.rank(block, self.0.chains());
        let used = self.nth_end(bits, block, chains)?;
        if !STOP {
            return (used <= self.0.most_slots()).then_some(Slots { used, all: used });
        }
        match self.nth_end(bits, block, chains + 1) {
            Some(stop) => Some(Slots { used, all: stop - 1 }),
            None => (*block == [0; W]).then_some(Slots { used: 0, all: 0 }),
        }
    }

    /// Returns whether a block is valid.
    pub(in crate::filters) fn is_sound(self, bits: impl Bits, block: &[u64; W]) -> bool {
        let Some(Slots { used, all }) = self.slots(bits, block) else { return false };
        if all == 0 {
            return *block == [0; W];
        }
        let spread = self.0.spread(all);
        let free =
            (used..all).all(|slot| field(block, spread.offset(slot), spread.width(slot)) == 0);
        let end = spread.offset(all - 1) + spread.width(all - 1) as usize;
        free && (end..64 * W).all(|bit| block[bit / 64] >> (bit % 64) & 1 == 0)
    }

    /// Returns the slots of a chain, or an empty range at its position if it has none.
    #[inline(always)]
    fn chain(self, bits: impl Bits, block: &[u64; W], chain: usize) -> Range<usize> {
        let before = self.rank(block, chain);
        let has = (block[chain / 64] >> (chain % 64) & 1) as u32;
        let start = self.nth_end(bits, block, before);
        let end = self.nth_end(bits, block, before + has);
        // Both exist in a block whose slots could be counted.
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Returns the number of used chains before `chain`.
    #[inline(always)]
    fn rank(self, block: &[u64; W], chain: usize) -> u32 {
        let word = |i: usize| {
            let below = chain.saturating_sub(64 * i).min(64) as u32;
            (block[i] & mask(below)).count_ones()
        };
        (0..self.0.chains().div_ceil(64)).map(word).sum()
    }

    /// Returns the slot after the end of `n` chains: the position of set bit `n` of the ends, with
    /// one set bit more before them, for the end before the first chain.
    #[inline(always)]
    fn nth_end(self, bits: impl Bits, block: &[u64; W], mut n: u32) -> Option<usize> {
        for i in 0..W {
            let at = self.0.chains() - 1 + 64 * i;
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
    fn rewrite(self, block: &[u64; W], slots: usize, pieces: [Piece; 4]) -> [u64; W] {
        let spread = self.0.spread(slots);
        let mut writer = BitWriter { words: [0; W], index: 0, pending: 0, pending_bits: 0 };
        writer.copy(block, 0, self.0.chains());
        for piece in &pieces {
            match piece {
                Piece::Old(slots) => writer.copy(block, self.0.chains() + slots.start, slots.len()),
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

impl Spread {
    /// Returns the number of bits compared, if all of them match.
    ///
    /// In a block that supports removal, a record may have moved from a shorter slot to a longer
    /// one. The missing bit is written as 0, so a 0 there carries no information, and a 1 is a bit
    /// of the key.
    #[inline(always)]
    fn matches<const W: usize, const STOP: bool>(
        &self,
        block: &[u64; W],
        slot: usize,
        remainder: u64,
    ) -> Option<u32> {
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
    fn of<const W: usize>(block: &[u64; W], chains: usize) -> Self {
        let mut words = core::array::from_fn(|i| window(block, chains - 1 + 64 * i));
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
    fn records(&mut self, from: &[u64; W], spread: &Spread, slots: Range<usize>, first: usize) {
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
