//! A segment: the entries of one part of the hashes, packed without gaps.
//!
//! ```text
//!  segment | group 0 | group 1 | … | group 15 | zeros to the end of the line |
//!  group   | occupied 64 | ends: one bit an entry | entries of w bits, in the order of buckets |
//!            one bit a bucket
//!  entry   | f f f f f 1 0 0 |     fingerprint from the top, a 1 that ends it, zeros
//!          | 1 0 0 0 0 0 0 0 |     nothing is left of it: void, and it stands for everything
//! ```
//!
//! Bit `i` of `occupied` says that bucket `i` of the group has a run, and the n-th of those has the
//! group's n-th end. How many entries come before each group is kept in the list of segments, in one line
//! with where the segment is: so a query goes straight to the line or two of its group. New
//! entries go to the end of their run: a segment is what its insertions were, in order.
//!
//! There is no gap to insert into: what comes after moves on, half of the segment on average. That
//! is a dozen cache lines in a row, and it spares the table of one size for all loads, which would be
//! half empty each time it has doubled. Memory is taken line by line, and the bits past the last
//! entry are zero, so that equal entries are equal words.
//!
//! Nothing here trusts what a file says: a run that does not end within its group is no run.

use tamis_bits::lanes::window;
use tamis_bits::select::{Bits, Portable};
use tamis_bits::{LINE_WORDS, OutOfMemory, Words, packed, prefetch, set};

use crate::error::Full;

/// Bits of a bucket's number.
pub(super) const BUCKET_BITS: u32 = 10;
pub(super) const GROUPS: usize = 1 << BUCKET_BITS >> 6;
/// Entries that there can be.
pub(super) const MOST: u32 = 0xffff;
/// Entries of one run. Chance gives no run of thirty, and copies of one key are only so many: whoever
/// gets so far has chosen the keys.
const LONGEST_RUN: u64 = 4096;
/// Equal entries of a run that are enough: from then on they stay, whatever is inserted or removed.
/// Entries that are equal remain so, and together, in every split.
const COPIES: usize = 64;
/// As many void ones are enough, since each becomes two in every split.
pub(super) const VOIDS: usize = 3;

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

    /// Bits of an entry and its end.
    #[inline(always)]
    fn step(&self) -> u64 {
        u64::from(self.width) + 1
    }

    /// Words for so many entries, in whole lines. Past the last bit there are two words more, since the
    /// ends of an empty group are looked at too.
    #[inline(always)]
    pub(super) fn words(&self, count: u64) -> u64 {
        let needs = GROUPS as u64 + (count * self.step()).div_ceil(64) + 2;
        if count == 0 { 0 } else { tamis_bits::lines(needs) * LINE_WORDS as u64 }
    }
}

/// Entries up to and including each group.
pub(super) type Ends = [u16; GROUPS];

/// One cache line of the list of segments: what a query must know to go to its group.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
pub(super) struct Segment {
    words: Words,
    ends: Ends,
}

const _: () = assert!(size_of::<Segment>() == 64);

/// Where a group lies: bits, and entries.
#[derive(Clone, Copy)]
struct Group {
    bit: u64,
    len: u64,
}

impl Group {
    fn end(self, at: u64) -> u64 {
        self.bit + 64 + at
    }

    fn entry(self, layout: Layout, at: u64) -> u64 {
        self.end(self.len) + at * u64::from(layout.width)
    }
}

/// Where the run of a bucket lies in its group, or would.
#[derive(Clone, Copy)]
struct Run {
    at: u64,
    len: u64,
}

impl Segment {
    pub(super) fn empty() -> Result<Self, OutOfMemory> {
        Ok(Self { words: Words::zeroed(0)?, ends: [0; GROUPS] })
    }

    /// Entries in the words of a file, of which there are as many as [`Layout::words`] says. The
    /// ends of groups ascend.
    pub(super) fn of(words: Words, ends: Ends) -> Self {
        Self { words, ends }
    }

    /// A segment of these entries with their buckets, which ascend. At most [`MOST`].
    pub(super) fn with(layout: Layout, entries: &[(u32, u64)]) -> Result<Self, OutOfMemory> {
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
    fn group(&self, layout: Layout, bucket: u64) -> Group {
        let group = bucket / 64;
        let end = u64::from(self.ends[group as usize]);
        let start = if group > 0 { self.ends[group as usize - 1].into() } else { 0 };
        Group { bit: group * 64 + start * layout.step(), len: end - start }
    }

    /// Asks for a bucket's group, which takes one line, or most often two.
    #[inline(always)]
    pub(super) fn fetch(&self, layout: Layout, bucket: u64) {
        let word = self.group(layout, bucket).bit / 64;
        prefetch(&self.words, word as usize);
        prefetch(&self.words, word as usize + LINE_WORDS);
    }

    /// The 64 bits from `bit` on.
    #[inline(always)]
    fn read(&self, bit: u64) -> u64 {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let [low, high] = self.words[word..].first_chunk().expect("a word past the end");
        low >> shift | high << 1 << (63 - shift)
    }

    /// The run of a bucket, of no entries if it has none; `None` if it is not one. The segment is
    /// not empty.
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

    /// A run that does not end within the first 64 entries of a group.
    #[cold]
    fn far_run(&self, group: Group, before: u32, is_occupied: bool) -> Option<Run> {
        let at = if before > 0 { self.end(group, 0, before - 1)? + 1 } else { 0 };
        let len = if is_occupied { self.end(group, at, 0)? + 1 - at } else { 0 };
        Some(Run { at, len })
    }

    /// End number `n` of those from entry `at` of a group on.
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

    #[inline(always)]
    pub(super) fn contains(
        &self,
        bits: impl Bits,
        layout: Layout,
        bucket: u64,
        query: u64,
    ) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let group = self.group(layout, bucket);
        let Some(mut run) = self.run(bits, group, bucket) else { return false };
        while run.len > u64::from(layout.lanes) {
            if self.matches(layout, group.entry(layout, run.at), layout.lanes, query) {
                return true;
            }
            run.at += u64::from(layout.lanes);
            run.len -= u64::from(layout.lanes);
        }
        self.matches(layout, group.entry(layout, run.at), run.len as u32, query)
    }

    /// Whether one of so many entries from `bit` on, which a window holds, stands for the query.
    ///
    /// No entry is zero, so taking one from each borrows from no neighbour, and differs from the
    /// entry in the 1 that ends it and below: what is left to compare is the fingerprint.
    #[inline(always)]
    fn matches(&self, layout: Layout, bit: u64, len: u32, query: u64) -> bool {
        let Layout { width, ones, .. } = layout;
        let entries = window(&self.words, bit);
        let below = entries ^ entries.wrapping_sub(ones);
        let differ = (entries ^ query.wrapping_mul(ones)) & !below;
        // Marks lanes that are zero: the lowest mark is right, those above it may be too many.
        let equal = differ.wrapping_sub(ones) & !differ & ones << (width - 1);
        equal & packed::mask(len * width) != 0
    }

    /// Whether a run has enough of an entry.
    #[inline(always)]
    fn has_enough(&self, layout: Layout, group: Group, run: Run, entry: u64) -> bool {
        if run.len < VOIDS as u64 {
            return false;
        }
        let entries = (run.at..run.at + run.len)
            .map(|at| packed::get_at(&self.words, layout.width, group.entry(layout, at)));
        let enough = if entry == layout.void() { VOIDS } else { COPIES };
        entries.filter(|other| *other == entry).count() >= enough
    }

    /// Whether an entry more would be refused.
    pub(super) fn is_full(&self, bits: impl Bits, layout: Layout, bucket: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let run = self.run(bits, self.group(layout, bucket), bucket);
        self.count() >= u64::from(MOST) || run.is_none_or(|run| run.len >= LONGEST_RUN)
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
        if self.words.is_empty() {
            *self = Self::with(layout, &[(bucket as u32, entry)]).map_err(|_| Full::NONE)?;
            return Ok(());
        }
        let group = self.group(layout, bucket);
        let run = self.run(bits, group, bucket).ok_or(Full::NONE)?;
        if self.has_enough(layout, group, run, entry) {
            return Ok(());
        }
        if run.len >= LONGEST_RUN || self.count() >= u64::from(MOST) {
            return Err(Full::NONE);
        }
        self.resize(layout, self.count() + 1).map_err(|_| Full::NONE)?;
        let past = GROUPS as u64 * 64 + self.count() * layout.step();
        let at = run.at + run.len;
        let (end, slot) = (group.end(at), group.entry(layout, at));
        let words = self.words.to_mut();
        // What comes after makes room for an entry and its end; what lies between those two, for
        // the end.
        open(words, slot, past, layout.width + 1);
        open(words, end, slot, 1);
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

    /// Takes out the longest entry that stands for the query; `false` if none does.
    pub(super) fn remove(
        &mut self,
        bits: impl Bits,
        layout: Layout,
        bucket: u64,
        query: u64,
    ) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let group = self.group(layout, bucket);
        let Some(run) = self.run(bits, group, bucket) else { return false };
        let entry = |at| packed::get_at(&self.words, layout.width, group.entry(layout, at));
        let matching = (run.at..run.at + run.len).filter(|at| {
            let entry = entry(*at);
            (entry ^ query) & !(entry ^ entry.wrapping_sub(1)) == 0
        });
        let Some(at) = matching.min_by_key(|at| entry(*at).trailing_zeros()) else { return false };
        if self.has_enough(layout, group, run, entry(at)) {
            return true;
        }
        let past = GROUPS as u64 * 64 + self.count() * layout.step();
        let (end, slot) = (group.end(at), group.entry(layout, at));
        let words = self.words.to_mut();
        if at + 1 == run.at + run.len && run.len > 1 {
            set::set(words, end - 1);
        }
        close(words, end, slot, 1);
        close(words, slot - 1, past, layout.width + 1);
        if run.len == 1 {
            set::clear(words, group.bit + bucket % 64);
        }
        for end in &mut self.ends[bucket as usize / 64..] {
            *end -= 1;
        }
        // Without memory for fewer lines it stays as large as it is.
        let _ = self.resize(layout, self.count());
        true
    }

    /// Moves to as many lines as so many entries take.
    #[inline(always)]
    fn resize(&mut self, layout: Layout, count: u64) -> Result<(), OutOfMemory> {
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

    /// Every entry with its bucket, in order.
    pub(super) fn entries(&self, layout: Layout) -> Vec<(u32, u64)> {
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

    /// That what it lists makes these very words again.
    pub(super) fn validate(&self, layout: Layout) -> Result<(), &'static str> {
        let entries = self.entries(layout);
        if entries.iter().any(|(_, entry)| *entry == 0) {
            return Err("an entry has no end");
        }
        if !entries.is_sorted_by_key(|(bucket, _)| bucket) {
            return Err("an entry is not in its place");
        }
        match Self::with(layout, &entries) {
            Ok(made) if made == *self => Ok(()),
            Ok(_) => Err("an entry is not in its place"),
            Err(_) => Err("there is no memory to look at a segment"),
        }
    }
}

/// Moves bits `from..to` up by fewer than 64 and leaves zeros behind. Those above are written over.
#[inline(always)]
fn open(words: &mut [u64], from: u64, to: u64, by: u32) {
    let past = to + u64::from(by);
    let (first, last) = ((from / 64) as usize, ((past - 1) / 64) as usize);
    let words = &mut words[first..=last];
    let (low, high) =
        (packed::mask((from % 64) as u32), !packed::mask(((past - 1) % 64 + 1) as u32));
    let (kept, above) = (words[0] & low, words[last - first] & high);
    words[0] &= !low;
    for at in (1..words.len()).rev() {
        words[at] = words[at] << by | words[at - 1] >> (64 - by);
    }
    words[0] = words[0] << by | kept;
    words[last - first] = words[last - first] & !high | above;
}

/// Moves bits up to `to` down by fewer than 64, those from `from + by` on, and leaves zeros behind.
fn close(words: &mut [u64], from: u64, to: u64, by: u32) {
    let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
    let words = &mut words[first..=last];
    let (low, high) = (packed::mask((from % 64) as u32), !packed::mask(((to - 1) % 64 + 1) as u32));
    let (kept, above) = (words[0] & low, words[last - first] & high);
    words[last - first] &= !high;
    for at in 0..words.len() {
        let next = words.get(at + 1).map_or(0, |word| word << (64 - by));
        words[at] = words[at] >> by | next;
    }
    words[0] = words[0] & !low | kept;
    words[last - first] |= above;
}
