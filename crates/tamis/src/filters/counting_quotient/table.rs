//! Blocks of 64 slots, and the runs in them.
//!
//! ```text
//!  block    | offset 8 | occupied 64 | ends 64 | 64 slots of r bits |   next block …
//!                        one bit a     one bit
//!                        quotient      a slot
//! ```
//!
//! The runs lie in the order of their quotients, each from the slot that is its quotient on, or
//! right after the run before it. Bit `i` of `occupied` says that quotient `i` of the block has a
//! run, bit `i` of `ends` that a run ends in slot `i`: so the n-th occupied quotient has the n-th
//! end. To count both from the block's own beginning, and not from the table's, the offset says how
//! many of the block's slots, and of those after it, belong to quotients of blocks before; what is
//! 255 or more is told by 255, and found by walking back.
//!
//! Blocks are 17 + 8r bytes, so they begin at any byte. A word past the end lets every slot be read
//! as the beginning of a window of 64 bits.
//!
//! What did not pay, by callgrind and against the crate qfilter in one run: blocks of one cache line,
//! 50 slots of 8 bits, which must be fuller for as few bits a key, so that 26 % of runs lie in the next
//! block and not 15 % (in the cache hits took 1.35 times as long, out of it no less); the ends of two
//! blocks as one word, which spares that branch and costs more instructions than it is worth; sorting
//! a batch's queries by where their runs lie, so that no branch is left to guess (a seventh slower).
//!
//! Nothing here trusts what a file says: loops go one way and end with the table, and a run that
//! is not one is not changed.

mod layer;
mod shift;

use tamis_bits::lanes::{set_window, window};
use tamis_bits::select::{Bits, Portable, Task, run};
use tamis_bits::{Words, packed, prefetch, set, unaligned};

use self::shift::{insert_slot, read, shift_down, shift_up, span, write};
use super::counter::{self, Entry};
use crate::error::{Error, Full};
use crate::filters::common::usize_words;

pub(super) use self::layer::Layer;

/// Slots of a block.
pub(super) const BLOCK: u64 = 64;
/// Bits of a block before its slots.
const HEAD: u64 = 8 + 64 + 64;
/// An offset of at least so much.
const FAR: u64 = 255;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    words: Words,
    blocks: u64,
    layout: Layout,
}

/// What follows from the width of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: u32,
    block_bytes: u64,
    /// How many slots a window holds, and the lowest bit of each of them.
    lanes: u32,
    ones: u64,
}

impl Layout {
    pub(super) const fn new(width: u32) -> Self {
        // Eight bytes from where a slot begins have all of them: the first may begin at bit 7.
        let lanes = if width.is_multiple_of(8) { 64 } else { 57 } / width;
        let (mut ones, mut lane) = (0, 0);
        while lane < lanes {
            ones |= 1 << (lane * width);
            lane += 1;
        }
        Self { width, block_bytes: HEAD / 8 + 8 * width as u64, lanes, ones }
    }

    /// The first bit of the block of a slot.
    #[inline(always)]
    fn bit(&self, slot: u64) -> u64 {
        slot / BLOCK * self.block_bytes * 8
    }

    #[inline(always)]
    fn slot_bit(&self, slot: u64) -> u64 {
        self.bit(slot) + HEAD + slot % BLOCK * u64::from(self.width)
    }
}

/// Does something with a table's layout, compiled apart for each width from 4 to 16: where the
/// compiler knows the shifts and masks, a query takes a third fewer instructions.
macro_rules! with_layout {
    ($table:expr, $layout:ident => $work:expr) => {
        with_layout!(@each $table, $layout => $work, 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@each $table:expr, $layout:ident => $work:expr, $($width:literal)*) => {
        match $table.layout() {
            $(Layout { width: $width, .. } => {
                let $layout = const { Layout::new($width) };
                $work
            })*
            $layout => $work,
        }
    };
}
pub(super) use with_layout;

/// The beginning of a block.
#[derive(Clone, Copy)]
struct Head {
    offset: u64,
    occupied: u64,
    ends: u64,
}

/// Where runs of a block may begin: number `n` is the slot after the block's first `n` runs and after
/// what spills into it, if that is a slot of the block. The offset is less than 64.
#[inline(always)]
fn begins(offset: u64, ends: u64) -> u64 {
    let spill = offset % 64;
    (ends & u64::MAX << spill) << 1 | 1 << spill
}

/// The first slot of a block from `at` on that no run lies in, but for one of its own quotient if
/// `own` is 0; 64 if there is none. From slot to slot it goes to where all runs end that have begun.
#[inline(always)]
fn gap(bits: impl Bits, head: &Head, at: u32, own: u64) -> u32 {
    let mut at = at.max(head.offset as u32);
    let begins = begins(head.offset, head.ends);
    while at < 64 {
        let begun = bits.rank(head.occupied, at) + (head.occupied >> at & own) as u32;
        let past = if begun < 64 { bits.select(begins, begun) } else { 64 };
        if past <= at {
            return at;
        }
        at = past;
    }
    64
}

/// Where a remainder is in its run, or would go.
struct Found {
    at: u64,
    /// The last slot of the run.
    last: u64,
    entry: Option<Entry>,
}

/// Words of a table of so many blocks.
pub(super) fn words(blocks: u64, width: u32) -> u64 {
    // At most 2^44 blocks of 8 words: no overflow. Where there are fewer they may be larger.
    (blocks * Layout::new(width).block_bytes).div_ceil(8) + 1
}

impl Table {
    pub(super) fn new(blocks: u64, width: u32) -> Result<Self, Error> {
        Ok(Self::of(Words::zeroed(usize_words(words(blocks, width))?)?, blocks, width))
    }

    /// The table in `words`, of which there are [`words`].
    pub(super) fn of(words: Words, blocks: u64, width: u32) -> Self {
        Self { words, blocks, layout: Layout::new(width) }
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    #[inline(always)]
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    #[inline(always)]
    pub(super) fn slots(&self) -> u64 {
        self.blocks * BLOCK
    }

    #[inline(always)]
    pub(super) fn fetch(&self, quotient: u64) {
        let word = (quotient / BLOCK * self.layout.block_bytes / 8) as usize;
        prefetch(&self.words, word);
        prefetch(&self.words, word + tamis_bits::LINE_WORDS);
    }

    /// Asks for what lies a few slots after a quotient's own: its run, most often.
    #[inline(always)]
    pub(super) fn fetch_run(&self, layout: Layout, quotient: u64) {
        prefetch(&self.words, (layout.slot_bit(quotient) / 64) as usize + 1);
    }

    #[inline(always)]
    fn head(&self, layout: Layout, block: u64) -> Head {
        let byte = (block * layout.block_bytes) as usize;
        let head: [u8; 17] = unaligned::read(&self.words, byte);
        let [offset, rest @ ..] = head;
        let (Some(occupied), Some(ends)) = (rest.first_chunk(), rest.last_chunk()) else {
            unreachable!("8 bytes and 8 bytes");
        };
        Head {
            offset: offset.into(),
            occupied: u64::from_le_bytes(*occupied),
            ends: u64::from_le_bytes(*ends),
        }
    }

    #[inline(always)]
    fn bit(&self, place: u64) -> u64 {
        self.layout.bit(place)
    }

    #[inline(always)]
    fn slot_bit(&self, slot: u64) -> u64 {
        self.layout.slot_bit(slot)
    }

    #[inline(always)]
    fn slot(&self, slot: u64) -> u64 {
        read(&self.words, self.slot_bit(slot)) & packed::mask(self.layout.width)
    }

    #[inline(always)]
    fn set_slot(&mut self, slot: u64, to: u64) {
        let bit = self.slot_bit(slot);
        write(self.words.to_mut(), bit, packed::mask(self.layout.width), to);
    }

    fn set_ends(&mut self, block: u64, to: u64) {
        let bit = self.bit(block * BLOCK) + 72;
        write(self.words.to_mut(), bit, u64::MAX, to);
    }

    fn set_offset(&mut self, block: u64, to: u64) {
        let bit = self.bit(block * BLOCK);
        write(self.words.to_mut(), bit, 0xff, to.min(FAR));
    }

    fn occupied_bit(&self, quotient: u64) -> u64 {
        self.bit(quotient) + 8 + quotient % BLOCK
    }

    fn end_bit(&self, slot: u64) -> u64 {
        self.bit(slot) + 72 + slot % BLOCK
    }

    /// The slot in which run number `n` ends, of those that end in `from` or later; the number of
    /// slots if none does. `n` is less than 64, and `known` the ends of some block.
    #[inline(always)]
    fn end(&self, bits: impl Bits, from: u64, mut n: u32, known: (u64, u64)) -> u64 {
        let mut block = from / BLOCK;
        if block >= self.blocks {
            return self.slots();
        }
        let ends = if block == known.0 { known.1 } else { self.head(self.layout, block).ends };
        let mut ends = ends & u64::MAX << (from % BLOCK);
        loop {
            let at = bits.select(ends, n);
            if at < 64 {
                return block * BLOCK + u64::from(at);
            }
            n -= ends.count_ones();
            block += 1;
            if block == self.blocks {
                return self.slots();
            }
            ends = self.head(self.layout, block).ends;
        }
    }

    /// The first slot of `block` or later that no quotient of a block before it has.
    #[inline(always)]
    fn spill(&self, block: u64, offset: u64) -> u64 {
        if offset == FAR { self.far_spill(block) } else { block * BLOCK + offset }
    }

    #[cold]
    fn far_spill(&self, block: u64) -> u64 {
        let near = (1..=block)
            .rev()
            .find(|block| self.head(self.layout, *block).offset < FAR)
            .unwrap_or(0);
        let spill = near * BLOCK + if near == 0 { 0 } else { self.head(self.layout, near).offset };
        (near..block).fold(spill, |spill, block| self.next_spill(block, spill))
    }

    /// The spill of the block after `block`, of which it is `spill`.
    fn next_spill(&self, block: u64, spill: u64) -> u64 {
        let Head { occupied, ends, .. } = self.head(self.layout, block);
        let past = match occupied.count_ones() {
            0 => spill,
            runs => self.end(Portable, spill, runs - 1, (block, ends)) + 1,
        };
        past.max((block + 1) * BLOCK)
    }

    /// The first slot after the first `runs` runs of a block, and after what spills into it.
    #[inline(always)]
    fn after(&self, bits: impl Bits, block: u64, head: &Head, runs: u32) -> u64 {
        let spill = self.spill(block, head.offset);
        if runs == 0 { spill } else { self.end(bits, spill, runs - 1, (block, head.ends)) + 1 }
    }

    /// Where the run of a quotient begins, or would: most often in its own block.
    #[inline(always)]
    fn run(&self, bits: impl Bits, quotient: u64, head: &Head) -> u64 {
        let (block, at) = (quotient / BLOCK, (quotient % BLOCK) as u32);
        let before = bits.rank(head.occupied, at);
        let begin =
            if head.offset < 64 { bits.select(begins(head.offset, head.ends), before) } else { 64 };
        if begin < 64 {
            return block * BLOCK + u64::from(begin.max(at));
        }
        self.after(bits, block, head, before).max(quotient)
    }

    /// Whether a remainder is in the run of its quotient.
    ///
    /// That no remainder has the quotient, as for 39 % of strangers at full load, is seen at once but
    /// cannot be foreseen: a branch on it would wait for memory, and be wrong that often. So this goes
    /// on and compares whatever is there, while the next queries begin.
    #[inline(always)]
    pub(super) fn contains(
        &self,
        bits: impl Bits,
        layout: Layout,
        quotient: u64,
        remainder: u64,
    ) -> bool {
        let (mut block, at) = (quotient / BLOCK, (quotient % BLOCK) as u32);
        let Head { offset, occupied, mut ends } = self.head(layout, block);
        let is_occupied = occupied >> at & 1 == 1;
        let before = bits.rank(occupied, at);
        let mut start = bits.select(begins(offset, ends), before).max(at);
        if (start >= 64) | (offset >= 64) {
            // The run lies past the block, most often in the next.
            block += 1;
            if !is_occupied {
                return false;
            }
            if (offset >= 64) | (block >= self.blocks) {
                return self.contains_slowly(quotient, remainder);
            }
            let here = (ends >> offset).count_ones();
            ends = self.head(layout, block).ends;
            start = bits.select(ends << 1 | 1, before - here);
        }
        let len = (ends >> (start % 64)).trailing_zeros() + 1;
        if (start < 64) & (len <= layout.lanes) {
            let start = block * BLOCK + u64::from(start);
            if let Some(found) = self.run_contains(layout, start, len, remainder) {
                return found & is_occupied;
            }
        }
        is_occupied && self.contains_slowly(quotient, remainder)
    }

    /// Whether a remainder is in a run of so many slots, which a window holds.
    ///
    /// All slots are compared at once. The first that equals the remainder is the remainder, or part
    /// of a counter: `None`. Digits come after a 0, and the only other slot that counts something else
    /// than itself comes after a larger one.
    #[inline(always)]
    fn run_contains(&self, layout: Layout, start: u64, len: u32, remainder: u64) -> Option<bool> {
        let Layout { width, ones, .. } = layout;
        let highs = ones << (width - 1);
        // Marks lanes that are zero: the lowest mark is right, those above it may be too many.
        let zeros = |lanes: u64| lanes.wrapping_sub(ones) & !lanes & highs;
        let run = window(&self.words, layout.slot_bit(start));
        let equal = zeros(run ^ remainder.wrapping_mul(ones)) & u64::MAX >> (64 - len * width);
        if equal == 0 {
            return Some(false);
        }
        let lowest = equal & equal.wrapping_neg();
        let at = lowest.trailing_zeros() + 1 - width;
        let before = run << width >> at & packed::mask(width);
        // Which of both it is cannot be foreseen: no branch.
        let ascends = (at == 0) | (before < remainder);
        ((zeros(run) & (lowest - 1) == 0) & ascends).then_some(true)
    }

    #[cold]
    fn contains_slowly(&self, quotient: u64, remainder: u64) -> bool {
        let start = self.run(Portable, quotient, &self.head(self.layout, quotient / BLOCK));
        self.find(Portable, start, remainder).is_some_and(|found| found.entry.is_some())
    }

    #[inline(always)]
    fn is_occupied(&self, quotient: u64) -> bool {
        self.head(self.layout, quotient / BLOCK).occupied >> (quotient % BLOCK) & 1 == 1
    }

    /// How often a remainder is in the run of its quotient.
    #[inline(always)]
    pub(super) fn count(&self, bits: impl Bits, quotient: u64, remainder: u64) -> u64 {
        if !self.is_occupied(quotient) {
            return 0;
        }
        let start = self.run(bits, quotient, &self.head(self.layout, quotient / BLOCK));
        let entry = self.find(bits, start, remainder).and_then(|found| found.entry);
        entry.map_or(0, |entry| entry.count)
    }

    /// The entry at slot `at` of a run that ends in `last`.
    #[inline(always)]
    fn entry(&self, at: u64, last: u64) -> Option<Entry> {
        counter::decode(self.layout.width, last + 1 - at, |slot| self.slot(at + slot))
    }

    /// Looks through the run that begins at `start`; `None` if it is not one.
    #[inline(always)]
    fn find(&self, bits: impl Bits, start: u64, remainder: u64) -> Option<Found> {
        let last = self.end(bits, start, 0, (u64::MAX, 0));
        if last >= self.slots() {
            return None;
        }
        let mut at = start;
        while at <= last {
            let entry = self.entry(at, last)?;
            if entry.remainder >= remainder {
                let entry = Some(entry).filter(|entry| entry.remainder == remainder);
                return Some(Found { at, last, entry });
            }
            at += entry.slots;
        }
        Some(Found { at, last, entry: None })
    }

    /// The first slot from `at` on that is free; the number of slots if none is.
    #[inline(always)]
    fn free(&self, bits: impl Bits, at: u64) -> u64 {
        self.gap(bits, at, 1)
    }

    /// The first slot from `at` on that is free, or has the first remainder of its own quotient.
    #[inline(always)]
    fn unshifted(&self, bits: impl Bits, at: u64) -> u64 {
        self.gap(bits, at, 0)
    }

    /// The first slot from `at` on that no run lies in, but for one of its own quotient if `own` is
    /// 0.
    #[inline(always)]
    fn gap(&self, bits: impl Bits, at: u64, own: u64) -> u64 {
        let mut low = (at % BLOCK) as u32;
        for block in at / BLOCK..self.blocks {
            let gap = gap(bits, &self.head(self.layout, block), low, own);
            if gap < 64 {
                return block * BLOCK + u64::from(gap);
            }
            low = 0;
        }
        self.slots()
    }

    /// Adds one of a remainder. On `Full` nothing is changed.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        bits: impl Bits,
        layout: Layout,
        quotient: u64,
        remainder: u64,
    ) -> Result<(), Full> {
        if self.insert_near(bits, layout, quotient, remainder) {
            Ok(())
        } else {
            run(InsertFar(self, quotient, remainder))
        }
    }

    /// Adds a remainder that its run has not, if the run is short, free of counters, and lies in its
    /// own block with a free slot after it: so it is for 91 % of the keys on the way to full, and
    /// takes an eighth of the instructions of the general way.
    #[inline(always)]
    fn insert_near(
        &mut self,
        bits: impl Bits,
        layout: Layout,
        quotient: u64,
        remainder: u64,
    ) -> bool {
        let (block, at) = (quotient / BLOCK, (quotient % BLOCK) as u32);
        let head = self.head(layout, block);
        let begin = bits.select(begins(head.offset, head.ends), bits.rank(head.occupied, at));
        let start = begin.max(at);
        if (start >= 64) | (head.offset >= 64) {
            return false;
        }
        let new = head.occupied >> at & 1 == 0;
        let (mut place, mut end, mut past) = (start, start, start);
        if !new {
            let len = (head.ends >> start).trailing_zeros() + 1;
            if len > layout.lanes {
                return false;
            }
            past = start + len;
            let mut run = window(&self.words, layout.slot_bit(block * BLOCK + u64::from(start)));
            // A slot that does not ascend counts something.
            let mut least = 0;
            while place < past {
                let slot = run & packed::mask(layout.width);
                if (slot < least) | (slot == remainder) {
                    return false;
                }
                if slot > remainder {
                    break;
                }
                (place, least, run) = (place + 1, slot + 1, run >> layout.width);
            }
            end = place.min(past - 1);
        }
        let free = gap(bits, &head, past, 1);
        if (free >= 64) | (layout.lanes == 0) {
            return false;
        }
        let words = self.words.to_mut();
        insert_slot(
            words,
            layout,
            layout.slot_bit(block * BLOCK + u64::from(place)),
            free - place,
            remainder,
        );
        let moved = span(end.into(), free.into());
        let ends = head.ends & !moved | (head.ends & moved) << 1 & moved | u64::from(new) << end;
        let bit = layout.bit(quotient);
        set_window(words, bit + 8, u64::MAX, head.occupied | 1 << at);
        set_window(words, bit + 72, u64::MAX, ends);
        true
    }

    #[inline(always)]
    fn insert_anywhere(
        &mut self,
        bits: impl Bits,
        quotient: u64,
        remainder: u64,
    ) -> Result<(), Full> {
        let start = self.run(bits, quotient, &self.head(self.layout, quotient / BLOCK));
        if !self.is_occupied(quotient) {
            let free = self.free(bits, start);
            if free >= self.slots() {
                return Err(Full::NONE);
            }
            self.move_up(quotient, start, free);
            self.insert_end(start, free, true);
            self.set_slot(start, remainder);
            let bit = self.occupied_bit(quotient);
            set::set(self.words.to_mut(), bit);
            return Ok(());
        }
        let Found { at, last, entry } = self.find(bits, start, remainder).ok_or(Full::NONE)?;
        let (count, has) = entry.map_or((0, 0), |entry| (entry.count, entry.slots));
        if count == counter::MAX_COUNT {
            return Err(Full::NONE);
        }
        let needs =
            if count == 0 { 1 } else { counter::slots(self.layout.width, remainder, count + 1) };
        // A count that is one higher takes two slots more at the most.
        let (mut gaps, mut taken) = ([0; 2], last);
        let gaps = &mut gaps[..(needs - has) as usize];
        for gap in &mut *gaps {
            *gap = self.free(bits, taken + 1);
            taken = *gap;
            if taken >= self.slots() {
                return Err(Full::NONE);
            }
        }
        for (last, gap) in (last..).zip(gaps) {
            self.move_up(quotient, at, *gap);
            self.insert_end(at.min(last), *gap, false);
        }
        self.put(at, remainder, count + 1);
        Ok(())
    }

    /// Takes one of a remainder away; `false` if there is none.
    #[inline(always)]
    pub(super) fn remove(&mut self, bits: impl Bits, quotient: u64, remainder: u64) -> bool {
        if !self.is_occupied(quotient) {
            return false;
        }
        let start = self.run(bits, quotient, &self.head(self.layout, quotient / BLOCK));
        let Some(Found { at, last, entry: Some(entry) }) = self.find(bits, start, remainder) else {
            return false;
        };
        let count = entry.count - 1;
        let needs =
            if count == 0 { 0 } else { counter::slots(self.layout.width, remainder, count) };
        for last in (last + 1 + needs - entry.slots..=last).rev() {
            let stop = self.unshifted(bits, last + 1) - 1;
            let alone = start == last;
            self.remove_end(if alone { at } else { at.min(last - 1) }, stop);
            if alone {
                let bit = self.occupied_bit(quotient);
                set::clear(self.words.to_mut(), bit);
            }
            self.move_down(quotient, at, stop);
        }
        if count > 0 {
            self.put(at, remainder, count);
        }
        true
    }

    fn put(&mut self, at: u64, remainder: u64, count: u64) {
        counter::encode(self.layout.width, remainder, count, |slot, to| {
            self.set_slot(at + slot, to);
        });
    }

    /// Moves slots `at..free` on by one for a run of `quotient`, past the offsets in between.
    #[inline(always)]
    fn move_up(&mut self, quotient: u64, at: u64, free: u64) {
        for block in (at / BLOCK..=free / BLOCK).rev() {
            let base = block * BLOCK;
            let (bottom, top) = (at.max(base), free.min(base + BLOCK - 1));
            let range = self.slot_bit(bottom)..self.slot_bit(top);
            shift_up(self.words.to_mut(), range, self.layout.width);
            if at < base {
                self.set_slot(base, self.slot(base - 1));
            }
        }
        for block in quotient / BLOCK + 1..=free / BLOCK {
            self.set_offset(block, self.head(self.layout, block).offset + 1);
        }
    }

    /// Moves slots `at + 1..=last` back by one, and the offsets after `quotient`. The runs are
    /// those of afterwards.
    #[inline(always)]
    fn move_down(&mut self, quotient: u64, at: u64, last: u64) {
        for block in at / BLOCK..=last / BLOCK {
            let base = block * BLOCK;
            let (bottom, top) = (at.max(base), last.min(base + BLOCK - 1));
            let range = self.slot_bit(bottom)..self.slot_bit(top);
            shift_down(self.words.to_mut(), range, self.layout.width);
            if top < last {
                self.set_slot(top, self.slot(top + 1));
            }
        }
        self.set_slot(last, 0);
        let mut before = None;
        for block in quotient / BLOCK + 1..=last / BLOCK {
            let spill = match (self.head(self.layout, block).offset, before) {
                (FAR, None) => self.far_spill(block),
                (FAR, Some(spill)) => self.next_spill(block - 1, spill),
                (offset, _) => block * BLOCK + offset.saturating_sub(1),
            };
            self.set_offset(block, spill - block * BLOCK);
            before = Some(spill);
        }
    }

    /// Moves the ends of slots `at..free` on by one, and makes `at` an end or not.
    #[inline(always)]
    fn insert_end(&mut self, at: u64, free: u64, end: bool) {
        for block in (at / BLOCK..=free / BLOCK).rev() {
            let base = block * BLOCK;
            let low = at.max(base) - base;
            let moved = span(low, free.min(base + BLOCK - 1) - base);
            let ends = self.head(self.layout, block).ends;
            let first = if at < base {
                self.head(self.layout, block - 1).ends >> 63
            } else {
                u64::from(end)
            };
            self.set_ends(block, ends & !moved | (ends & moved) << 1 & moved | first << low);
        }
    }

    /// Moves the ends of slots `at + 1..=last` back by one; `last` is none.
    #[inline(always)]
    fn remove_end(&mut self, at: u64, last: u64) {
        for block in at / BLOCK..=last / BLOCK {
            let base = block * BLOCK;
            let high = last.min(base + BLOCK - 1) - base;
            let moved = span(at.max(base) - base, high);
            let ends = self.head(self.layout, block).ends;
            let end =
                if block < last / BLOCK { self.head(self.layout, block + 1).ends & 1 } else { 0 };
            self.set_ends(block, ends & !moved | (ends & moved) >> 1 & moved | end << high);
        }
    }

    /// Every quotient with its remainders and their counts, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Entry)> {
        let mut free = 0;
        // The n-th occupied quotient has the n-th end.
        let runs = self.places(|head| head.occupied).zip(self.places(|head| head.ends));
        let runs = runs.map_while(move |(quotient, last)| {
            let start = quotient.max(free);
            free = last + 1;
            (start <= last).then_some((quotient, start, last))
        });
        runs.flat_map(move |(quotient, start, last)| {
            let mut at = start;
            core::iter::from_fn(move || {
                let entry = if at <= last { self.entry(at, last)? } else { return None };
                at += entry.slots;
                Some((quotient, entry))
            })
        })
    }

    /// The places of the bits that are set in one field of all blocks.
    fn places(&self, field: fn(Head) -> u64) -> impl Iterator<Item = u64> {
        (0..self.blocks).flat_map(move |block| {
            let mut bits = field(self.head(self.layout, block));
            core::iter::from_fn(move || {
                let at = (bits > 0).then(|| block * BLOCK + u64::from(bits.trailing_zeros()));
                bits &= bits.wrapping_sub(1);
                at
            })
        })
    }

    /// That every bit is what the entries make it; the sum of the counts.
    pub(super) fn validate(&self) -> Result<u64, &'static str> {
        let (mut free, mut sum) = (0u64, 0u64);
        let end = self.bit(self.slots());
        if !set::ends_at(&self.words, end) {
            return Err("bits are set past the end");
        }
        let unused = |slot: u64| self.slot(slot) == 0 && !set::get(&self.words, self.end_bit(slot));
        for block in 0..self.blocks {
            let Head { offset, occupied, .. } = self.head(self.layout, block);
            if offset != free.saturating_sub(block * BLOCK).min(FAR) {
                return Err("an offset is not that of the runs before it");
            }
            for quotient in (0..BLOCK).filter(|at| occupied >> at & 1 == 1) {
                let start = free.max(block * BLOCK + quotient);
                if !(free..start).all(unused) {
                    return Err("a slot that no run has is not empty");
                }
                let last = self.end(Portable, start, 0, (u64::MAX, 0));
                if last >= self.slots() {
                    return Err("a run does not end");
                }
                let (mut at, mut least) = (start, 0);
                while at <= last {
                    let entry = self.entry(at, last).filter(|entry| entry.remainder >= least);
                    let entry = entry.ok_or("a run cannot be read")?;
                    (at, least) = (at + entry.slots, entry.remainder + 1);
                    sum = sum.checked_add(entry.count).ok_or("the counts are too large")?;
                }
                free = last + 1;
            }
        }
        if (free..self.slots()).all(unused) {
            Ok(sum)
        } else {
            Err("a slot that no run has is not empty")
        }
    }
}

/// Adds a remainder to a table that has no quick way for it.
struct InsertFar<'a>(&'a mut Table, u64, u64);

impl Task for InsertFar<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        self.0.insert_anywhere(bits, self.1, self.2)
    }
}
