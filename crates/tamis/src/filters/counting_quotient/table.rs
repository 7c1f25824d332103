//! Blocks of 64 slots, and the runs in them.
//!
//! ```text
//!  block    | offset 8 | occupied 64 | ends 64 | 64 slots of r bits |   next block …
//!                        one bit per   one bit
//!                        quotient      per slot
//! ```
//!
//! The runs are in the order of their quotients. Each starts at the slot of its quotient, or right after
//! the run before it. Bit `i` of `occupied` states that quotient `i` of the block has a run, bit `i` of
//! `ends` that a run ends in slot `i`. So the n-th occupied quotient has the n-th end. To count both
//! from the start of the block instead of the start of the table, the offset states how many slots,
//! from the first slot of the block on, belong to quotients of earlier blocks. An offset of 255 means
//! 255 or more, and is found by going back.
//!
//! Blocks have 17 + 8r bytes, so they start at any byte. One more word at the end allows reading 64
//! bits from the start of every slot.
//!
//! What was not faster, by callgrind and in comparison with the crate qfilter in one run: blocks of one
//! cache line, 50 slots of 8 bits, which must be fuller for as few bits per key, so that 26 % instead of
//! 15 % of the runs are in the next block (in the cache, hits took 1.35 times as long, out of it no
//! less); the ends of two blocks as one word, which saves that branch and costs more instructions than
//! it saves; sorting the lookups of a batch by where their runs are, which leaves no unpredictable
//! branch (a seventh slower).
//!
//! Nothing here relies on the contents of a file: loops go one way and end with the table, and a run
//! that is invalid is not changed.

mod builder;
mod shift;

use tamis_bits::lanes::{set_window, window};
use tamis_bits::select::{Bits, Portable, Task, run};
use tamis_bits::{Words, packed, prefetch, set, unaligned};

use self::shift::{insert_slot, read, shift_down, shift_up, span, write};
use super::counter::{self, Entry};
use crate::error::{Error, Full};
use crate::filters::common::usize_words;

pub(super) use self::builder::TableBuilder;

/// Slots of a block.
pub(super) const BLOCK: u64 = 64;
/// Bits of a block before its slots.
const HEAD: u64 = 8 + 64 + 64;
/// The offset that stands for itself and all larger ones.
const FAR: u64 = 255;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    words: Words,
    blocks: u64,
    layout: Layout,
}

/// Values that follow from the width of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: u32,
    block_bytes: u64,
    /// The number of slots that a window holds, and a mask of the lowest bit of each.
    lanes: u32,
    ones: u64,
}

impl Layout {
    pub(super) const fn new(width: u32) -> Self {
        // 8 bytes from the start of a slot hold all of them: the first may start at bit 7.
        let lanes = if width.is_multiple_of(8) { 64 } else { 57 } / width;
        let (mut ones, mut lane) = (0, 0);
        while lane < lanes {
            ones |= 1 << (lane * width);
            lane += 1;
        }
        Self { width, block_bytes: HEAD / 8 + 8 * width as u64, lanes, ones }
    }

    /// Returns the quotient and the remainder of a fingerprint.
    #[inline(always)]
    pub(super) fn split(&self, fingerprint: u64) -> (u64, u64) {
        (fingerprint >> self.width, fingerprint & packed::mask(self.width))
    }

    /// Returns the first bit of the block of a slot.
    #[inline(always)]
    fn bit(&self, slot: u64) -> u64 {
        slot / BLOCK * self.block_bytes * 8
    }

    #[inline(always)]
    fn slot_bit(&self, slot: u64) -> u64 {
        self.bit(slot) + HEAD + slot % BLOCK * u64::from(self.width)
    }
}

/// Evaluates an expression with the layout of a table, compiled separately for each width from 4 to 16.
/// With constant shifts and masks a lookup takes a third fewer instructions.
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

/// The fields before the slots of a block.
#[derive(Clone, Copy)]
struct Head {
    offset: u64,
    occupied: u64,
    ends: u64,
}

/// Returns a bit set of run starts: bit number `n` is at the slot after the first `n` runs of the block
/// and the slots of earlier blocks, if that slot is in the block. The offset is below 64.
#[inline(always)]
fn run_starts(offset: u64, ends: u64) -> u64 {
    let spill = offset % 64;
    (ends & u64::MAX << spill) << 1 | 1 << spill
}

/// Returns the first slot of a block from `at` on that is in no run, or 64 if there is none. If `own` is
/// 0, a run of the slot's own quotient does not count. From each slot it skips to the end of all runs
/// that have started.
#[inline(always)]
fn gap(bits: impl Bits, head: &Head, at: u32, own: u64) -> u32 {
    let mut at = at.max(head.offset as u32);
    let starts = run_starts(head.offset, head.ends);
    while at < 64 {
        let started = bits.rank(head.occupied, at) + (head.occupied >> at & own) as u32;
        let past = if started < 64 { bits.select(starts, started) } else { 64 };
        if past <= at {
            return at;
        }
        at = past;
    }
    64
}

/// The position of a remainder in its run, or the one at which it would be inserted.
struct Found {
    at: u64,
    /// The last slot of the run.
    last: u64,
    entry: Option<Entry>,
}

/// Returns the words of a table of `blocks` blocks.
pub(super) fn words(blocks: u64, width: u32) -> u64 {
    // At most 2^44 blocks of 8 words, or fewer larger ones, so no overflow.
    (blocks * Layout::new(width).block_bytes).div_ceil(8) + 1
}

impl Table {
    pub(super) fn new(blocks: u64, width: u32) -> Result<Self, Error> {
        Ok(Self::of(Words::zeroed(usize_words(words(blocks, width))?)?, blocks, width))
    }

    /// Makes a table of its words, as many as [`words`] returns.
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
    pub(super) fn prefetch_block(&self, quotient: u64) {
        let word = (quotient / BLOCK * self.layout.block_bytes / 8) as usize;
        prefetch(&self.words, word);
        prefetch(&self.words, word + tamis_bits::LINE_WORDS);
    }

    /// Prefetches the head of a quotient's block, which may be in two lines.
    #[inline(always)]
    pub(super) fn prefetch_head(&self, layout: Layout, quotient: u64) {
        let word = (quotient / BLOCK * layout.block_bytes / 8) as usize;
        prefetch(&self.words, word);
        prefetch(&self.words, word + 2);
    }

    /// Prefetches the line in which the run of a quotient probably starts, if it has one: 10 slots after
    /// its own at full load.
    #[inline(always)]
    pub(super) fn prefetch_run(&self, layout: Layout, quotient: u64) {
        let (block, at) = (quotient / BLOCK, quotient % BLOCK);
        let is_occupied = self.head(layout, block).occupied >> at & 1 == 1;
        let head = block * layout.block_bytes;
        let slot = head + HEAD / 8 + (at + 10) * u64::from(layout.width) / 8;
        // Without a branch, which would be unpredictable.
        let byte = if is_occupied { slot } else { head };
        prefetch(&self.words, (byte / 8) as usize);
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

    /// Returns the slot of the `n`-th end from slot `from` on, or the number of slots if there is none.
    /// `n` is below 64, and `known` a block with its ends.
    #[inline(always)]
    fn nth_end(&self, bits: impl Bits, from: u64, mut n: u32, known: (u64, u64)) -> u64 {
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

    /// Returns the first slot from `block` on that belongs to no quotient of an earlier block.
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

    /// Returns the spill of the block after `block`, given the spill of `block`.
    fn next_spill(&self, block: u64, spill: u64) -> u64 {
        let Head { occupied, ends, .. } = self.head(self.layout, block);
        let past = match occupied.count_ones() {
            0 => spill,
            runs => self.nth_end(Portable, spill, runs - 1, (block, ends)) + 1,
        };
        past.max((block + 1) * BLOCK)
    }

    /// Returns the first slot after the first `runs` runs of a block and the slots of earlier blocks.
    #[inline(always)]
    fn after_runs(&self, bits: impl Bits, block: u64, head: &Head, runs: u32) -> u64 {
        let spill = self.spill(block, head.offset);
        if runs == 0 { spill } else { self.nth_end(bits, spill, runs - 1, (block, head.ends)) + 1 }
    }

    /// Returns the slot at which the run of a quotient starts, or would start: usually in its own block.
    #[inline(always)]
    fn run_start(&self, bits: impl Bits, quotient: u64, head: &Head) -> u64 {
        let (block, at) = (quotient / BLOCK, (quotient % BLOCK) as u32);
        let before = bits.rank(head.occupied, at);
        let start = if head.offset < 64 {
            bits.select(run_starts(head.offset, head.ends), before)
        } else {
            64
        };
        if start < 64 {
            return block * BLOCK + u64::from(start.max(at));
        }
        self.after_runs(bits, block, head, before).max(quotient)
    }

    /// Returns whether a remainder is in the run of its quotient.
    ///
    /// At full load 39 % of non-members have a quotient without a run. A branch on that is mispredicted
    /// that often. With `NEAR` this compares the slots in either case, while the next lookups start.
    /// Otherwise the line that is not read is worth more than the mispredicted branch, and in a batch the
    /// instructions are.
    #[inline(always)]
    pub(super) fn contains<const NEAR: bool>(
        &self,
        bits: impl Bits,
        layout: Layout,
        quotient: u64,
        remainder: u64,
    ) -> bool {
        let (mut block, at) = (quotient / BLOCK, (quotient % BLOCK) as u32);
        let Head { offset, occupied, mut ends } = self.head(layout, block);
        let is_occupied = occupied >> at & 1 == 1;
        if !NEAR && !is_occupied {
            return false;
        }
        let before = bits.rank(occupied, at);
        let mut start = bits.select(run_starts(offset, ends), before).max(at);
        if (start >= 64) | (offset >= 64) {
            // The run is past the block, usually in the next one.
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

    /// Returns whether a remainder is in a run of `len` slots, which fit a window.
    ///
    /// All slots are compared at once. The first slot that equals the remainder is the remainder itself
    /// or part of a counter; if it may be part of a counter, this returns `None`. Digits follow a 0, and
    /// the only other slot that is part of a counter follows a larger one.
    #[inline(always)]
    fn run_contains(&self, layout: Layout, start: u64, len: u32, remainder: u64) -> Option<bool> {
        let Layout { width, ones, .. } = layout;
        let highs = ones << (width - 1);
        // Marks lanes that are zero. The lowest mark is right, higher ones may be wrong.
        let zeros = |lanes: u64| lanes.wrapping_sub(ones) & !lanes & highs;
        let run = window(&self.words, layout.slot_bit(start));
        let equal = zeros(run ^ remainder.wrapping_mul(ones)) & u64::MAX >> (64 - len * width);
        if equal == 0 {
            return Some(false);
        }
        let lowest = equal & equal.wrapping_neg();
        let at = lowest.trailing_zeros() + 1 - width;
        let before = run << width >> at & packed::mask(width);
        // The result is unpredictable, so there is no branch.
        let ascends = (at == 0) | (before < remainder);
        ((zeros(run) & (lowest - 1) == 0) & ascends).then_some(true)
    }

    #[cold]
    fn contains_slowly(&self, quotient: u64, remainder: u64) -> bool {
        let start = self.run_start(Portable, quotient, &self.head(self.layout, quotient / BLOCK));
        self.find(Portable, start, remainder).is_some_and(|found| found.entry.is_some())
    }

    #[inline(always)]
    fn is_occupied(&self, quotient: u64) -> bool {
        self.head(self.layout, quotient / BLOCK).occupied >> (quotient % BLOCK) & 1 == 1
    }

    /// Returns the count of a remainder in the run of its quotient.
    #[inline(always)]
    pub(super) fn count(&self, bits: impl Bits, quotient: u64, remainder: u64) -> u64 {
        if !self.is_occupied(quotient) {
            return 0;
        }
        let start = self.run_start(bits, quotient, &self.head(self.layout, quotient / BLOCK));
        let entry = self.find(bits, start, remainder).and_then(|found| found.entry);
        entry.map_or(0, |entry| entry.count)
    }

    /// Returns the entry at slot `at` of a run that ends in slot `last`.
    #[inline(always)]
    fn entry(&self, at: u64, last: u64) -> Option<Entry> {
        counter::decode(self.layout.width, last + 1 - at, |slot| self.slot(at + slot))
    }

    /// Searches the run that starts at `start`. Returns `None` if the run is invalid.
    #[inline(always)]
    fn find(&self, bits: impl Bits, start: u64, remainder: u64) -> Option<Found> {
        let last = self.nth_end(bits, start, 0, (u64::MAX, 0));
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

    /// Returns the first free slot from `at` on, or the number of slots if there is none.
    #[inline(always)]
    fn free(&self, bits: impl Bits, at: u64) -> u64 {
        self.gap(bits, at, 1)
    }

    /// Returns the first slot from `at` on that is free or has the first remainder of its own quotient.
    #[inline(always)]
    fn unshifted(&self, bits: impl Bits, at: u64) -> u64 {
        self.gap(bits, at, 0)
    }

    /// Returns the first slot from `at` on that is in no run. If `own` is 0, a run of the slot's own
    /// quotient does not count.
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

    /// Inserts one copy of a remainder. If it returns `Full`, nothing has changed.
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

    /// Inserts a remainder that is not in its run, if the run is short, has no counters, and lies in its
    /// own block with a free slot after it. This is so for 91 % of the keys until the filter is full, and
    /// takes an eighth of the instructions of the general case.
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
        let starts = run_starts(head.offset, head.ends);
        let start = bits.select(starts, bits.rank(head.occupied, at)).max(at);
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
            // A slot that does not ascend is part of a counter.
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
        let start = self.run_start(bits, quotient, &self.head(self.layout, quotient / BLOCK));
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
        // A count that is 1 higher takes at most two more slots.
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
        self.set_entry(at, remainder, count + 1);
        Ok(())
    }

    /// Removes one copy of a remainder. Returns `false` if there is none.
    #[inline(always)]
    pub(super) fn remove(&mut self, bits: impl Bits, quotient: u64, remainder: u64) -> bool {
        if !self.is_occupied(quotient) {
            return false;
        }
        let start = self.run_start(bits, quotient, &self.head(self.layout, quotient / BLOCK));
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
            self.set_entry(at, remainder, count);
        }
        true
    }

    fn set_entry(&mut self, at: u64, remainder: u64, count: u64) {
        counter::encode(self.layout.width, remainder, count, |slot, to| {
            self.set_slot(at + slot, to);
        });
    }

    /// Moves slots `at..free` up by one for a run of `quotient`, and updates the offsets in between.
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

    /// Moves slots `at + 1..=last` down by one, and updates the offsets after `quotient`. The bits of the
    /// runs must already have their final values.
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

    /// Moves the ends of slots `at..free` up by one, and sets whether `at` is an end.
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

    /// Moves the ends of slots `at + 1..=last` down by one. `last` is no end afterwards.
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

    /// Returns every quotient with its remainders and their counts, in ascending order.
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

    /// Returns the positions of the set bits in one field of all blocks.
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

    /// Checks that every bit follows from the entries. Returns the sum of the counts.
    pub(super) fn validate(&self) -> Result<u64, &'static str> {
        let (mut free, mut sum) = (0u64, 0u64);
        let end = self.bit(self.slots());
        if !set::ends_at(&self.words, end) {
            return Err("bits are set past the last block");
        }
        let unused = |slot: u64| self.slot(slot) == 0 && !set::get(&self.words, self.end_bit(slot));
        for block in 0..self.blocks {
            let Head { offset, occupied, .. } = self.head(self.layout, block);
            if offset != free.saturating_sub(block * BLOCK).min(FAR) {
                return Err("an offset does not match the runs before it");
            }
            for quotient in (0..BLOCK).filter(|at| occupied >> at & 1 == 1) {
                let start = free.max(block * BLOCK + quotient);
                if !(free..start).all(unused) {
                    return Err("a slot outside the runs is not empty");
                }
                let last = self.nth_end(Portable, start, 0, (u64::MAX, 0));
                if last >= self.slots() {
                    return Err("a run does not end");
                }
                let (mut at, mut least) = (start, 0);
                while at <= last {
                    let entry = self.entry(at, last).filter(|entry| entry.remainder >= least);
                    let entry = entry.ok_or("the entries of a run are invalid")?;
                    (at, least) = (at + entry.slots, entry.remainder + 1);
                    sum = sum.checked_add(entry.count).ok_or("the counts are too large")?;
                }
                free = last + 1;
            }
        }
        if (free..self.slots()).all(unused) {
            Ok(sum)
        } else {
            Err("a slot outside the runs is not empty")
        }
    }
}

/// Inserts a remainder in the general case.
struct InsertFar<'a>(&'a mut Table, u64, u64);

impl Task for InsertFar<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        self.0.insert_anywhere(bits, self.1, self.2)
    }
}
