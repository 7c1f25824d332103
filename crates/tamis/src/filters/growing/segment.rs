//! A segment: the entries of one part of the hashes, packed without gaps.
//!
//! ```text
//!  segment | group 0 | group 1 | … | group 15 | zeros to the end of the line |
//!  group   | occupied 64 | ends: 1 bit per entry | entries of w bits, in the order of buckets |
//!            1 bit per bucket
//!  entry   | f f f f f 1 0 0 |     fingerprint from the top, a 1 that ends it, zeros
//!          | 1 0 0 0 0 0 0 0 |     no bits left: void, matches every key of its bucket
//! ```
//!
//! Bit `i` of `occupied` is set if bucket `i` of the group has a run, and the n-th of those runs
//! has the group's n-th end. The number of entries before each group is kept in the list of
//! segments, in one line with the pointer to the segment; so a query reads only the one or two
//! lines of its group. A new entry goes to the end of its run, so the bytes of a segment depend on
//! the order of insertions.
//!
//! There are no gaps: an insertion moves all entries after it, half of the segment on average. That
//! is about 12 consecutive cache lines, and it avoids a table of one size for all loads, which
//! would be half empty after each doubling. Memory is allocated line by line, and the bits past the
//! last entry are zero, so that equal entries are equal words.
//!
//! The code does not trust the contents of a file: a run that does not end within its group is
//! ignored.

use alloc::vec::Vec;

use tamis_bits::lanes::{window, word_at};
use tamis_bits::select::{Bits, Portable};
use tamis_bits::{LINE_WORDS, OutOfMemory, Words, packed, prefetch, set};

use crate::error::Full;
use crate::filters::common::shift::{shift_down, shift_up};

/// Bits of a bucket number.
pub(super) const BUCKET_BITS: u32 = 10;
pub(super) const GROUPS: usize = 1 << BUCKET_BITS >> 6;
/// The largest number of entries in a segment.
pub(super) const MAX_ENTRIES: u32 = 0xffff;
/// The largest number of entries in a run. Random keys do not make runs of 30, and copies of one
/// key are limited: only adversarial keys reach this limit.
const LONGEST_RUN: u64 = 4096;
/// The number of equal entries in a run from which on insertions and removals leave them unchanged.
/// Equal entries stay equal and together in every split.
pub(super) const MAX_COPIES: usize = 64;
/// The same limit for void entries, each of which becomes two in every split.
pub(super) const MAX_VOIDS: usize = 3;

/// Constants that follow from the width of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: u32,
    /// The number of entries in a window, and the lowest bit of each of them.
    lanes: u32,
    ones: u64,
}

impl Layout {
    pub(super) fn new(width: u32) -> Self {
        let lanes = 57 / width;
        let ones = (0..lanes).fold(0, |ones, lane| ones | 1 << (lane * width));
        Self { width, lanes, ones }
    }

    /// Returns the entry of the first `length` bits of `bits`.
    #[inline(always)]
    pub(super) fn entry(&self, bits: u64, length: u32) -> u64 {
        (bits >> (64 - length) << 1 | 1) << (self.width - 1 - length)
    }

    /// Returns the bits that an entry must be a prefix of to match a key.
    #[inline(always)]
    pub(super) fn query(&self, bits: u64) -> u64 {
        bits >> (64 - self.width)
    }

    /// Returns the void entry.
    pub(super) fn void(&self) -> u64 {
        1 << (self.width - 1)
    }

    /// Returns the number of bits of an entry and its end.
    #[inline(always)]
    fn step(&self) -> u64 {
        u64::from(self.width) + 1
    }

    /// Returns the number of words for `count` entries, in whole lines. There are two words more
    /// past the last bit, since the ends of an empty group are read too.
    #[inline(always)]
    pub(super) fn words(&self, count: u64) -> u64 {
        let needs = GROUPS as u64 + (count * self.step()).div_ceil(64) + 2;
        if count == 0 { 0 } else { tamis_bits::lines(needs) * LINE_WORDS as u64 }
    }
}

/// The number of entries up to and including each group.
pub(super) type Ends = [u16; GROUPS];

/// One cache line of the list of segments: what a query needs to locate its group.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
pub(super) struct Segment {
    words: Words,
    ends: Ends,
}

const _: () = assert!(size_of::<Segment>() == 64);

/// The position of a group in bits, and its number of entries.
#[derive(Clone, Copy)]
pub(super) struct Group {
    bit: u64,
    len: u64,
}

impl Group {
    fn end(self, at: u64) -> u64 {
        self.bit + 64 + at
    }

    fn entry(self, layout: &Layout, at: u64) -> u64 {
        self.end(self.len) + at * u64::from(layout.width)
    }
}

/// The position of the run of a bucket in its group. It may be empty.
#[derive(Clone, Copy)]
struct Run {
    at: u64,
    len: u64,
}

impl Segment {
    pub(super) fn empty() -> Result<Self, OutOfMemory> {
        Ok(Self { words: Words::zeroed(0)?, ends: [0; GROUPS] })
    }

    /// Returns a segment of words from a file, as many as [`Layout::words`] returns. The ends of
    /// groups must be ascending.
    pub(super) fn from_words(words: Words, ends: Ends) -> Self {
        Self { words, ends }
    }

    /// Creates a segment of entries with ascending buckets, at most [`MAX_ENTRIES`].
    pub(super) fn from_entries(
        layout: &Layout,
        entries: &[(u32, u64)],
    ) -> Result<Self, OutOfMemory> {
        let words = Words::zeroed(layout.words(entries.len() as u64) as usize)?;
        let mut segment = Self { words, ends: [0; GROUPS] };
        for (bucket, _) in entries {
            segment.ends[*bucket as usize / 64] += 1;
        }
        for group in 1..GROUPS {
            segment.ends[group] += segment.ends[group - 1];
        }
        for entries in entries.chunk_by(|a, b| a.0 / 64 == b.0 / 64) {
            let group = segment.group(layout, u64::from(entries[0].0));
            let words = segment.words.to_mut();
            for (at, (bucket, entry)) in (0..).zip(entries) {
                set::set(words, group.bit + u64::from(*bucket % 64));
                if entries.get(at as usize + 1).is_none_or(|next| next.0 != *bucket) {
                    set::set(words, group.end(at));
                }
                packed::set_at(words, layout.width, group.entry(layout, at), *entry);
            }
        }
        Ok(segment)
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(super) fn count(&self) -> u64 {
        self.ends[GROUPS - 1].into()
    }

    #[inline(always)]
    pub(super) fn group(&self, layout: &Layout, bucket: u64) -> Group {
        let group = bucket / 64;
        let end = u64::from(self.ends[group as usize]);
        let start = if group > 0 { self.ends[group as usize - 1].into() } else { 0 };
        Group { bit: group * 64 + start * layout.step(), len: end - start }
    }

    /// Prefetches a group, which is in one line or, more often, in two.
    #[inline(always)]
    pub(super) fn fetch(&self, group: Group) {
        let word = (group.bit / 64) as usize;
        prefetch(&self.words, word);
        prefetch(&self.words, word + LINE_WORDS);
    }

    /// Returns the 64 bits from `bit` on.
    #[inline(always)]
    fn read(&self, bit: u64) -> u64 {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let [low, high] = self.words[word..].first_chunk().expect("a word past the end");
        low >> shift | high << 1 << (63 - shift)
    }

    /// Returns the run of a bucket, empty if it has no entries; `None` if the words are invalid.
    /// The segment must not be empty.
    #[inline(always)]
    fn run(&self, bits: impl Bits, group: Group, bucket: u64) -> Option<Run> {
        let (occupied, at) = (self.read(group.bit), (bucket % 64) as u32);
        let before = bits.rank(occupied, at);
        let is_occupied = occupied >> at & 1 == 1;
        let ends = self.read(group.end(0));
        let begin = bits.select(ends << 1 | 1, before);
        let last = (ends >> (begin % 64)).trailing_zeros();
        let len = if is_occupied { last + 1 } else { 0 };
        if (begin < 64) & (begin + len <= 64) {
            let run = Run { at: begin.into(), len: len.into() };
            return (run.at + run.len <= group.len).then_some(run);
        }
        self.far_run(group, before, is_occupied)
    }

    /// Returns a run that does not end within the first 64 entries of a group.
    #[cold]
    fn far_run(&self, group: Group, before: u32, is_occupied: bool) -> Option<Run> {
        let at = if before > 0 { self.end(group, 0, before - 1)? + 1 } else { 0 };
        let len = if is_occupied { self.end(group, at, 0)? + 1 - at } else { 0 };
        Some(Run { at, len })
    }

    /// Returns the position of end `n` from entry `at` of a group on.
    fn end(&self, group: Group, mut at: u64, mut n: u32) -> Option<u64> {
        while at < group.len {
            let ends = self.read(group.end(at));
            let found = Portable.select(ends, n);
            if found < 64 {
                return Some(at + u64::from(found)).filter(|end| *end < group.len);
            }
            n -= ends.count_ones();
            at += 64;
        }
        None
    }

    /// Returns whether an entry of a bucket matches the query.
    ///
    /// About half of the buckets are empty. In the cache the branch on that takes as long as the
    /// comparison that it saves; out of it the line that is not read makes misses a fifth faster.
    #[inline(always)]
    pub(super) fn contains(
        &self,
        bits: impl Bits,
        layout: &Layout,
        group: Group,
        bucket: u64,
        query: u64,
    ) -> bool {
        if self.words.is_empty() {
            return false;
        }
        // 64 bits at any bit are two overlapping reads: two words would be shifted by `shrd`, which
        // is slow on AMD's processors. The read that reaches furthest is the first, so that the
        // others need no check of bounds.
        let (byte, shift) = (group.bit / 8, group.bit % 8);
        let above = word_at(&self.words, byte + 9) << (8 - shift);
        let ends = word_at(&self.words, byte + 8) >> shift | above;
        let above = word_at(&self.words, byte + 1) << (8 - shift);
        let occupied = word_at(&self.words, byte) >> shift | above;
        let at = (bucket % 64) as u32;
        if occupied >> at & 1 == 0 {
            return false;
        }
        let begin = bits.select(ends << 1 | 1, bits.rank(occupied, at));
        let len = (ends >> (begin % 64)).trailing_zeros() + 1;
        let entry = group.entry(layout, begin.into());
        if u64::from(begin + len) > group.len.min(64) {
            return self.contains_far(layout, group, bucket, query);
        }
        if len > layout.lanes {
            return self.contains_long(layout, entry, len, query);
        }
        self.matches(layout, entry, len, query)
    }

    /// Returns whether one of `len` entries from `bit` on, more than fit into a window, matches the
    /// query.
    #[inline(never)]
    fn contains_long(&self, layout: &Layout, mut bit: u64, mut len: u32, query: u64) -> bool {
        while len > layout.lanes {
            if self.matches(layout, bit, layout.lanes, query) {
                return true;
            }
            bit += u64::from(layout.lanes * layout.width);
            len -= layout.lanes;
        }
        self.matches(layout, bit, len, query)
    }

    /// [`Segment::contains`] for a run that does not end within the first 64 entries of its group.
    #[cold]
    fn contains_far(&self, layout: &Layout, group: Group, bucket: u64, query: u64) -> bool {
        let Some(run) = self.run(Portable, group, bucket) else { return false };
        (run.at..run.at + run.len)
            .map(|at| packed::get_at(&self.words, layout.width, group.entry(layout, at)))
            .any(|entry| is_prefix(entry, query))
    }

    /// Returns whether one of `len` entries from `bit` on, which fit into a window, matches the
    /// query.
    ///
    /// No entry is zero, so subtracting 1 from each borrows from no neighbour, and changes the 1
    /// that ends the entry and the bits below it: the other bits are the fingerprint to compare.
    #[inline(always)]
    fn matches(&self, layout: &Layout, bit: u64, len: u32, query: u64) -> bool {
        let Layout { width, ones, .. } = *layout;
        let entries = window(&self.words, bit);
        let below = entries ^ entries.wrapping_sub(ones);
        let differ = (entries ^ query.wrapping_mul(ones)) & !below;
        // Marks lanes that are zero: the lowest mark is exact, those above it may be false.
        let equal = differ.wrapping_sub(ones) & !differ & ones << (width - 1);
        equal & ((1 << (len * width)) - 1) != 0
    }

    /// Returns how many entries match the query; `None` if some of them are permanent, and stand for
    /// any number of keys.
    pub(super) fn count_matching(
        &self,
        bits: impl Bits,
        layout: &Layout,
        bucket: u64,
        query: u64,
    ) -> Option<u64> {
        if self.words.is_empty() {
            return Some(0);
        }
        let group = self.group(layout, bucket);
        let Some(run) = self.run(bits, group, bucket) else { return Some(0) };
        let entries = (run.at..run.at + run.len)
            .map(|at| packed::get_at(&self.words, layout.width, group.entry(layout, at)));
        let mut matching = 0;
        for entry in entries.filter(|entry| is_prefix(*entry, query)) {
            if self.is_saturated(layout, group, run, entry) {
                return None;
            }
            matching += 1;
        }
        Some(matching)
    }

    /// Returns whether a run has enough copies of an entry to make them permanent.
    #[inline(always)]
    fn is_saturated(&self, layout: &Layout, group: Group, run: Run, entry: u64) -> bool {
        if run.len < MAX_VOIDS as u64 {
            return false;
        }
        let entries = (run.at..run.at + run.len)
            .map(|at| packed::get_at(&self.words, layout.width, group.entry(layout, at)));
        let enough = if entry == layout.void() { MAX_VOIDS } else { MAX_COPIES };
        entries.filter(|other| *other == entry).count() >= enough
    }

    /// Returns whether another entry would be refused.
    pub(super) fn is_full(&self, bits: impl Bits, layout: &Layout, bucket: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let run = self.run(bits, self.group(layout, bucket), bucket);
        self.count() >= u64::from(MAX_ENTRIES) || run.is_none_or(|run| run.len >= LONGEST_RUN)
    }

    /// Inserts an entry. On [`Full`] nothing has changed.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        bits: impl Bits,
        layout: &Layout,
        bucket: u64,
        entry: u64,
    ) -> Result<(), Full> {
        if self.words.is_empty() {
            *self =
                Self::from_entries(layout, &[(bucket as u32, entry)]).map_err(|_| Full::NONE)?;
            return Ok(());
        }
        let group = self.group(layout, bucket);
        let run = self.run(bits, group, bucket).ok_or(Full::NONE)?;
        if self.is_saturated(layout, group, run, entry) {
            return Ok(());
        }
        if run.len >= LONGEST_RUN || self.count() >= u64::from(MAX_ENTRIES) {
            return Err(Full::NONE);
        }
        self.resize(layout, self.count() + 1).map_err(|_| Full::NONE)?;
        let past = GROUPS as u64 * 64 + self.count() * layout.step();
        let at = run.at + run.len;
        let (end, slot) = (group.end(at), group.entry(layout, at));
        let words = self.words.to_mut();
        // The bits after the new entry move up by an entry and its end; the bits between the new
        // end and the new entry, by one.
        shift_up(words, slot, past, layout.width + 1);
        shift_up(words, end, slot, 1);
        packed::set_at(words, layout.width, slot + 1, entry);
        set::set(words, end);
        if run.len > 0 {
            set::clear(words, end - 1);
        }
        set::set(words, group.bit + bucket % 64);
        for end in &mut self.ends[bucket as usize / 64..] {
            *end += 1;
        }
        Ok(())
    }

    /// Removes the longest entry that matches the query; returns `false` if none does.
    pub(super) fn remove(
        &mut self,
        bits: impl Bits,
        layout: &Layout,
        bucket: u64,
        query: u64,
    ) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let group = self.group(layout, bucket);
        let Some(run) = self.run(bits, group, bucket) else { return false };
        let entry = |at| packed::get_at(&self.words, layout.width, group.entry(layout, at));
        let matching = (run.at..run.at + run.len).filter(|at| is_prefix(entry(*at), query));
        let Some(at) = matching.min_by_key(|at| entry(*at).trailing_zeros()) else { return false };
        if self.is_saturated(layout, group, run, entry(at)) {
            return true;
        }
        let past = GROUPS as u64 * 64 + self.count() * layout.step();
        let (end, slot) = (group.end(at), group.entry(layout, at));
        let words = self.words.to_mut();
        if at + 1 == run.at + run.len && run.len > 1 {
            set::set(words, end - 1);
        }
        shift_down(words, end, slot, 1);
        shift_down(words, slot - 1, past, layout.width + 1);
        if run.len == 1 {
            set::clear(words, group.bit + bucket % 64);
        }
        for end in &mut self.ends[bucket as usize / 64..] {
            *end -= 1;
        }
        // If the smaller allocation fails, the segment keeps its size.
        let _ = self.resize(layout, self.count());
        true
    }

    /// Reallocates the segment for `count` entries.
    #[inline(always)]
    fn resize(&mut self, layout: &Layout, count: u64) -> Result<(), OutOfMemory> {
        let words = layout.words(count) as usize;
        if words == self.words.len() {
            return self.words.make_owned();
        }
        let mut moved = Words::zeroed(words)?;
        let kept = words.min(self.words.len());
        moved.to_mut()[..kept].copy_from_slice(&self.words[..kept]);
        self.words = moved;
        Ok(())
    }

    /// Returns every entry with its bucket, in order.
    pub(super) fn entries(&self, layout: &Layout) -> Vec<(u32, u64)> {
        let mut entries = Vec::with_capacity(self.count() as usize);
        for first in (0..1 << BUCKET_BITS).step_by(64) {
            let group = self.group(layout, first);
            let mut occupied = if group.len > 0 { self.read(group.bit) } else { 0 };
            let mut bit = group.entry(layout, 0);
            for at in 0..group.len {
                let bucket = first as u32 + occupied.trailing_zeros() % 64;
                entries.push((bucket, packed::get_at(&self.words, layout.width, bit)));
                bit += u64::from(layout.width);
                if set::get(&self.words, group.end(at)) {
                    occupied &= occupied.wrapping_sub(1);
                }
            }
        }
        entries
    }

    /// Checks that rebuilding the segment from its entries gives the same words.
    pub(super) fn validate(&self, layout: &Layout) -> Result<(), &'static str> {
        let entries = self.entries(layout);
        if entries.iter().any(|(_, entry)| *entry == 0) {
            return Err("an entry has no end");
        }
        if !entries.is_sorted_by_key(|(bucket, _)| bucket) {
            return Err("an entry is misplaced");
        }
        match Self::from_entries(layout, &entries) {
            Ok(made) if made == *self => Ok(()),
            Ok(_) => Err("an entry is misplaced"),
            Err(_) => Err("failed to allocate memory to check a segment"),
        }
    }
}

/// Returns whether the fingerprint of an entry is a prefix of the query.
#[inline(always)]
fn is_prefix(entry: u64, query: u64) -> bool {
    (entry ^ query) & !(entry ^ entry.wrapping_sub(1)) == 0
}
