//! A segment: the entries of one part of the hashes, packed without gaps.
//!
//! ```text
//!  word 0        40               slots
//!  │ 32 groups   │ ends            │ entries of w bits          │ a word that ends windows │
//!  │ of 10 bytes │ one bit an entry│ in the order of buckets    │
//!
//!  group   | start 16 | occupied 64 |      64 buckets; start: entries of the groups before
//!  entry   | f f f f f 1 0 0 |             fingerprint from the top, a 1 that ends it, zeros
//!          | 1 0 0 0 0 0 0 0 |             nothing is left of it: void, and it matches everything
//! ```
//!
//! Bit `i` of `occupied` says that bucket `i` of the group has a run, and the n-th of those has the
//! n-th end from the group's start on. New entries go to the end of their run, so a segment is what
//! its insertions were, in order.
//!
//! There is no gap to insert into: what comes after moves on, half of the segment on average. That
//! is 13 cache lines in a row, and spares the table of one size for all loads that would have to be
//! half empty each time it has doubled. Memory is taken line by line; the bits past the last entry
//! are zero, so that equal entries are equal words.
//!
//! Nothing here trusts what a file says: a run that does not end within the entries is no run.

use bits::lanes::{set_window, window};
use bits::select::Bits;
use bits::{LINE_WORDS, OutOfMemory, Words, packed, prefetch, set, unaligned};

use crate::error::Full;

/// Bits of a bucket's number.
pub(super) const BUCKET_BITS: u32 = 11;
const GROUPS: u64 = (1 << BUCKET_BITS) / 64;
const GROUP_BYTES: u64 = 10;
/// Words of the groups, and first word of the ends.
const HEAD: u64 = GROUPS * GROUP_BYTES / 8;
/// Entries that the groups' numbers can count.
pub(super) const MOST: u32 = 0xffff;
/// Entries of one run. Chance gives no run of thirty; copies of a key are one run, and each is gone
/// over whenever the key is asked for.
const LONGEST_RUN: u32 = 128;

/// What follows from the width of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: u32,
    /// How many entries a window holds, and the lowest bit of each of them.
    lanes: u32,
    ones: u64,
}

impl Layout {
    pub(super) fn new(width: u32) -> Self {
        let lanes = 57 / width;
        let ones = (0..lanes).fold(0, |ones, lane| ones | 1 << (lane * width));
        Self { width, lanes, ones }
    }

    /// The entry of a fingerprint's first `length` bits, which `bits` begins with.
    #[inline(always)]
    pub(super) fn entry(&self, bits: u64, length: u32) -> u64 {
        (bits >> (64 - length) << 1 | 1) << (self.width - 1 - length)
    }

    /// What an entry must begin with to stand for a key whose fingerprint is what `bits` begins with.
    #[inline(always)]
    pub(super) fn query(&self, bits: u64) -> u64 {
        bits >> (64 - self.width)
    }

    /// Nothing is left of its fingerprint.
    pub(super) fn void(&self) -> u64 {
        1 << (self.width - 1)
    }

    /// Words for so many entries, in whole lines.
    #[inline(always)]
    pub(super) fn words(&self, count: u64) -> u64 {
        if count == 0 { 0 } else { bits::lines(self.needs(count)) * LINE_WORDS as u64 }
    }

    #[inline(always)]
    fn needs(&self, count: u64) -> u64 {
        HEAD + count.div_ceil(64) + (count * u64::from(self.width)).div_ceil(64) + 1
    }

    /// The word at which entries begin in so many words: after the ends of the most that fit.
    fn slots(&self, words: u64) -> u64 {
        // From a guess that rounding can only lower.
        let guess = words.saturating_sub(HEAD + 1) * 64 / u64::from(self.width + 1);
        let most = (0..=guess).rev().find(|most| self.needs(*most) <= words);
        HEAD + most.unwrap_or(0).div_ceil(64)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    words: Words,
    count: u32,
    slots: u32,
}

/// Where the run of a bucket lies, or would.
#[derive(Clone, Copy)]
struct Run {
    at: u64,
    len: u64,
}

impl Segment {
    pub(super) fn empty() -> Result<Self, OutOfMemory> {
        Ok(Self { words: Words::zeroed(0)?, count: 0, slots: HEAD as u32 })
    }

    /// Entries in the words of a file, of which there are as many as [`Layout::words`] says.
    pub(super) fn of(words: Words, layout: Layout, count: u32) -> Self {
        let slots = layout.slots(words.len() as u64) as u32;
        Self { words, count, slots }
    }

    /// A segment of these entries with their buckets, which ascend. At most [`MOST`].
    pub(super) fn with(layout: Layout, entries: &[(u32, u64)]) -> Result<Self, OutOfMemory> {
        let words = layout.words(entries.len() as u64);
        let slots = layout.slots(words);
        let mut all = Words::zeroed(words as usize)?;
        let made = all.to_mut();
        let (mut group, mut start) = (0, 0);
        for run in entries.chunk_by(|a, b| a.0 == b.0) {
            let bucket = u64::from(run[0].0);
            while group < bucket / 64 {
                group += 1;
                set_start(made, group, start);
            }
            set_occupied(made, bucket, true);
            for (at, (_, entry)) in (start..).zip(run) {
                packed::set_at(made, layout.width, slots * 64 + at * u64::from(layout.width), *entry);
            }
            start += run.len() as u64;
            set::set(made, HEAD * 64 + start - 1);
        }
        if !entries.is_empty() {
            (group + 1..GROUPS).for_each(|group| set_start(made, group, start));
        }
        Ok(Self { words: all, count: entries.len() as u32, slots: slots as u32 })
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Asks for where a bucket's run lies, as far as that can be told without looking.
    #[inline(always)]
    pub(super) fn fetch(&self, layout: Layout, bucket: u64) {
        let guess = bucket * u64::from(self.count) >> BUCKET_BITS;
        prefetch(&self.words, (bucket / 64 * GROUP_BYTES / 8) as usize);
        prefetch(&self.words, (HEAD + guess / 64) as usize);
        let slot = u64::from(self.slots) + guess * u64::from(layout.width) / 64;
        prefetch(&self.words, (slot - 4) as usize);
        prefetch(&self.words, (slot + 4) as usize);
    }

    /// Start and occupied buckets of a group.
    #[inline(always)]
    fn group(&self, group: u64) -> (u64, u64) {
        let [a, b, occupied @ ..]: [u8; 10] =
            unaligned::read(&self.words, (group * GROUP_BYTES) as usize);
        (u16::from_le_bytes([a, b]).into(), u64::from_le_bytes(occupied))
    }

    /// 64 ends from entry `at` on, which is at most the number of entries.
    #[inline(always)]
    fn ends(&self, at: u64) -> u64 {
        let (word, shift) = ((HEAD + at / 64) as usize, at % 64);
        self.words[word] >> shift | self.words[word + 1] << 1 << (63 - shift)
    }

    /// End number `n` of those from entry `at` on; the number of entries if there is none.
    #[inline(always)]
    fn end(&self, bits: impl Bits, mut at: u64, mut n: u32) -> u64 {
        let count = u64::from(self.count);
        while at < count {
            let ends = self.ends(at);
            let found = bits.select(ends, n);
            if found < 64 {
                return at + u64::from(found);
            }
            n -= ends.count_ones();
            at += 64;
        }
        count
    }

    /// The run of a bucket, of no entries if it has none. `None` if it is not one. The segment is
    /// not empty.
    #[inline(always)]
    fn run(&self, bits: impl Bits, bucket: u64) -> Option<Run> {
        let (start, occupied) = self.group(bucket / 64);
        let at = (bucket % 64) as u32;
        let count = u64::from(self.count);
        if start > count {
            return None;
        }
        let (before, is_occupied) = (bits.rank(occupied, at), occupied >> at & 1 == 1);
        // Where the group's runs begin, as far as a word tells.
        let ends = self.ends(start);
        let begin = bits.select(ends << 1 | 1, before);
        let rest = if begin < 64 { ends >> begin } else { 0 };
        let run = if rest > 0 {
            let len = if is_occupied { rest.trailing_zeros() + 1 } else { 0 };
            Run { at: start + u64::from(begin), len: len.into() }
        } else {
            let at = if before > 0 { self.end(bits, start, before - 1) + 1 } else { start };
            let len = if is_occupied { self.end(bits, at, 0) + 1 - at.min(count) } else { 0 };
            Run { at, len }
        };
        (run.at + run.len <= count).then_some(run)
    }

    #[inline(always)]
    fn bit(&self, layout: Layout, at: u64) -> u64 {
        u64::from(self.slots) * 64 + at * u64::from(layout.width)
    }

    #[inline(always)]
    pub(super) fn contains(
        &self,
        bits: impl Bits,
        layout: Layout,
        bucket: u64,
        query: u64,
    ) -> bool {
        if self.count == 0 {
            return false;
        }
        let Some(mut run) = self.run(bits, bucket) else { return false };
        while run.len > u64::from(layout.lanes) {
            if self.matches(layout, run.at, layout.lanes, query) {
                return true;
            }
            run.at += u64::from(layout.lanes);
            run.len -= u64::from(layout.lanes);
        }
        self.matches(layout, run.at, run.len as u32, query)
    }

    /// Whether one of so many entries, which a window holds, is a beginning of the query.
    ///
    /// No entry is zero, so taking one from each borrows from no neighbour, and differs from the
    /// entry in the 1 that ends it and below: what is left to compare is the fingerprint.
    #[inline(always)]
    fn matches(&self, layout: Layout, at: u64, len: u32, query: u64) -> bool {
        let Layout { width, ones, .. } = layout;
        let entries = window(&self.words, self.bit(layout, at));
        let below = entries ^ entries.wrapping_sub(ones);
        let differ = (entries ^ query.wrapping_mul(ones)) & !below;
        // Marks lanes that are zero: the lowest mark is right, those above it may be too many.
        let equal = differ.wrapping_sub(ones) & !differ & ones << (width - 1);
        equal & packed::mask(len * width) != 0
    }

    /// Whether an entry more would be refused.
    pub(super) fn is_full(&self, bits: impl Bits, bucket: u64) -> bool {
        self.count > 0
            && (self.count >= MOST
                || self.run(bits, bucket).is_none_or(|run| run.len >= u64::from(LONGEST_RUN)))
    }

    /// Adds an entry. On `Full` nothing is changed.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        bits: impl Bits,
        layout: Layout,
        bucket: u64,
        entry: u64,
    ) -> Result<(), Full> {
        if self.count == 0 {
            *self = Self::with(layout, &[(bucket as u32, entry)]).map_err(|_| Full)?;
            return Ok(());
        }
        let run = self.run(bits, bucket).ok_or(Full)?;
        if run.len >= u64::from(LONGEST_RUN) || self.count >= MOST {
            return Err(Full);
        }
        self.move_to(layout, u64::from(self.count) + 1).map_err(|_| Full)?;
        let (count, width) = (u64::from(self.count), u64::from(layout.width));
        let (at, bit) = (run.at + run.len, self.bit(layout, run.at + run.len));
        let words = self.words.to_mut();
        open(words, bit, bit + (count - at) * width, layout.width);
        packed::set_at(words, layout.width, bit, entry);
        open(words, HEAD * 64 + at, HEAD * 64 + count, 1);
        set::set(words, HEAD * 64 + at);
        if run.len > 0 {
            set::clear(words, HEAD * 64 + at - 1);
        }
        set_occupied(words, bucket, true);
        move_starts(words, bucket, 1);
        self.count += 1;
        Ok(())
    }

    /// Takes out the longest entry that stands for the query; `false` if none does.
    pub(super) fn remove(
        &mut self,
        bits: impl Bits,
        layout: Layout,
        bucket: u64,
        query: u64,
    ) -> bool {
        if self.count == 0 {
            return false;
        }
        let Some(run) = self.run(bits, bucket) else { return false };
        let entry = |at| packed::get_at(&self.words, layout.width, self.bit(layout, at));
        let matching = (run.at..run.at + run.len).filter(|at| {
            let entry = entry(*at);
            (entry ^ query) & !(entry ^ entry.wrapping_sub(1)) == 0
        });
        let Some(at) = matching.min_by_key(|at| entry(*at).trailing_zeros()) else { return false };
        let (count, width) = (u64::from(self.count), u64::from(layout.width));
        let bit = self.bit(layout, at);
        let words = self.words.to_mut();
        if at + 1 == run.at + run.len && run.len > 1 {
            set::set(words, HEAD * 64 + at - 1);
        }
        close(words, bit, bit + (count - at) * width, layout.width);
        close(words, HEAD * 64 + at, HEAD * 64 + count, 1);
        if run.len == 1 {
            set_occupied(words, bucket, false);
        }
        move_starts(words, bucket, u16::MAX);
        self.count -= 1;
        // Without memory for a smaller one it stays as large as it is.
        let _ = self.move_to(layout, self.count.into());
        true
    }

    /// Moves to as many lines as so many entries take.
    fn move_to(&mut self, layout: Layout, count: u64) -> Result<(), OutOfMemory> {
        let words = layout.words(count);
        if words == self.words.len() as u64 {
            return self.words.own();
        }
        let slots = layout.slots(words);
        let mut moved = Words::zeroed(words as usize)?;
        if words > 0 {
            let used = (u64::from(self.count.min(count as u32)), u64::from(layout.width));
            let (to, from) = (moved.to_mut(), &self.words);
            let head = (HEAD + used.0.div_ceil(64)) as usize;
            to[..head].copy_from_slice(&from[..head]);
            let entries = (used.0 * used.1).div_ceil(64) as usize;
            let (slots, before) = (slots as usize, self.slots as usize);
            to[slots..slots + entries].copy_from_slice(&from[before..before + entries]);
        }
        (self.words, self.slots) = (moved, slots as u32);
        Ok(())
    }

    /// Every entry with its bucket, in order.
    pub(super) fn entries(&self, layout: Layout) -> Vec<(u32, u64)> {
        let mut entries = Vec::with_capacity(self.count as usize);
        let mut at = 0;
        for group in 0..if self.count > 0 { GROUPS } else { 0 } {
            let mut occupied = self.group(group).1;
            while occupied > 0 {
                let bucket = group as u32 * 64 + occupied.trailing_zeros();
                occupied &= occupied - 1;
                while at < u64::from(self.count) {
                    let entry = packed::get_at(&self.words, layout.width, self.bit(layout, at));
                    entries.push((bucket, entry));
                    at += 1;
                    if set::get(&self.words, HEAD * 64 + at - 1) {
                        break;
                    }
                }
            }
        }
        entries
    }

    /// That what it lists makes these very words again.
    pub(super) fn validate(&self, layout: Layout) -> Result<(), &'static str> {
        let entries = self.entries(layout);
        if entries.iter().any(|(_, entry)| *entry == 0) {
            return Err("an entry has no end");
        }
        match Self::with(layout, &entries) {
            Ok(made) if made == *self => Ok(()),
            Ok(_) => Err("an entry is not in its place"),
            Err(_) => Err("there is no memory to look at a segment"),
        }
    }
}

fn set_start(words: &mut [u64], group: u64, to: u64) {
    set_window(words, group * GROUP_BYTES * 8, 0xffff, to & 0xffff);
}

fn set_occupied(words: &mut [u64], bucket: u64, to: bool) {
    let bit = bucket / 64 * GROUP_BYTES * 8 + 16 + bucket % 64;
    if to { set::set(words, bit) } else { set::clear(words, bit) }
}

/// Adds to the starts of the groups after a bucket's.
#[inline(always)]
fn move_starts(words: &mut [u64], bucket: u64, by: u16) {
    for group in bucket / 64 + 1..GROUPS {
        let bit = group * GROUP_BYTES * 8;
        let start = window(words, bit) as u16;
        set_window(words, bit, 0xffff, start.wrapping_add(by).into());
    }
}

/// Moves bits `from..to` up by fewer than 64, where those above them are zero.
#[inline(always)]
fn open(words: &mut [u64], from: u64, to: u64, by: u32) {
    let (first, last) = ((from / 64) as usize, ((to + u64::from(by) - 1) / 64) as usize);
    let words = &mut words[first..=last];
    for at in (1..words.len()).rev() {
        words[at] = words[at] << by | words[at - 1] >> (64 - by);
    }
    // The second word took what was below the range's beginning: it is there no more.
    let kept = packed::mask((from % 64) as u32);
    let low = words[0] & kept;
    if let Some(second) = words.get_mut(1) {
        *second &= !(low >> (64 - by));
    }
    words[0] = (words[0] & !kept) << by | low;
}

/// Moves bits up to `to` down to `from` by fewer than 64, where those above them are zero.
fn close(words: &mut [u64], from: u64, to: u64, by: u32) {
    let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
    let words = &mut words[first..=last];
    let kept = packed::mask((from % 64) as u32);
    let low = words[0] & kept;
    for at in 0..words.len() {
        let above = words.get(at + 1).map_or(0, |word| word << (64 - by));
        words[at] = words[at] >> by | above;
    }
    words[0] = words[0] & !kept | low;
}
