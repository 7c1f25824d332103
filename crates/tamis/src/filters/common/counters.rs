//! Counters of variable length: few bits for small counts, 2 log2 of the count for large ones, and no
//! limit on counts.
//!
//! ```text
//!  block   │ ends │ group 0 │ group 1 │ … │ zeros │      at most 8192 counters; all blocks of one size
//!  ends      for each group the bit where it ends
//!  group   │ lengths ──►                  ◄── rests │   256 counters
//!            0   10   110   1110   …
//!
//!  count     0    1    2     3 or 4    5 to 8     9 to 16    …
//!  length    0    10   110   1110      11110      111110     as many ones as the class, and a zero
//!  rest      –    –    –     1 bit     2 bits     3 bits     the count in its class
//! ```
//!
//! The lengths of a group are in the order of its counters. Counter `j` begins after zero number
//! `j - 1`. The rests are in the opposite order, from the end of the group on, so that both can be found
//! without another index. A class of L ones has L - 2 bits in the rests, so the number of rest bits
//! before a counter is the number of ones that follow two others.
//!
//! A counter that needs more bits moves the bits after it in its block: about 800 bytes on average. A
//! block that has no room left makes all blocks larger by 1/16.
//!
//! The code does not trust the contents of a file: what does not fit is counted as 0.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::select::{self, Bits, Task};
use tamis_bits::{OutOfMemory, Words, lanes, packed, prefetch};

use super::shift::{shift_down, shift_up};
use crate::error::Full;
#[cfg(not(feature = "std"))]
use crate::math::Float;

/// The largest number of counters in a block.
const BLOCK: u64 = 8192;
/// Counters per group.
const GROUP: u64 = 256;
/// The largest count. It takes 63 ones and 61 bits.
pub(in crate::filters) const LARGEST: u64 = 1 << 62;
/// The largest number of bits of a counter.
const LONGEST: u64 = 63 + 1 + 61;
/// How many standard deviations of the bits of a block there is room for.
const SPARE: f64 = 5.0;

/// Returns the class of a count, its number of rest bits, and these bits.
#[inline(always)]
fn encode(count: u64) -> (u32, u32, u64) {
    if count <= 2 {
        return (count as u32, 0, 0);
    }
    let width = (count - 1).ilog2();
    (width + 2, width, count - 1 - (1 << width))
}

/// Returns the count of a class and rest bits.
#[inline(always)]
fn decode(class: u32, rest: u64) -> u64 {
    if class <= 2 { class.into() } else { (1 << (class - 2)) + rest + 1 }
}

/// Returns the bits of a counter.
fn bits(count: u64) -> u64 {
    let (class, width, _) = encode(count);
    u64::from(class + 1 + width)
}

/// How counters are divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    counters: u64,
    blocks: u64,
    /// Counters per block; the last one may have fewer.
    per_block: u64,
    groups: u64,
}

impl Layout {
    fn new(counters: u64) -> Self {
        let blocks = counters.div_ceil(BLOCK).max(1);
        let per_block = counters.div_ceil(blocks).max(1);
        // With that many counters per block, the last block may be empty.
        let blocks = counters.div_ceil(per_block).max(1);
        Self { counters, blocks, per_block, groups: per_block.div_ceil(GROUP) }
    }

    /// Returns the number of counters in a block.
    fn counters_of(&self, block: u64) -> u64 {
        self.per_block.min(self.counters - (block * self.per_block).min(self.counters))
    }

    /// Returns the words of a block with `bits` bits of counters.
    fn stride(&self, bits: u64) -> u64 {
        let ends = |stride: u64| self.groups * u64::from(end_width(stride));
        let mut stride = bits.div_ceil(64).max(1);
        while stride * 64 < bits + ends(stride) {
            stride += 1;
        }
        stride
    }
}

/// Returns the width of the end of a group in a block of `stride` words.
#[inline(always)]
fn end_width(stride: u64) -> u32 {
    (stride * 64).ilog2() + 1
}

/// The ends of groups at the start of a block. Several are read and written as one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    groups: u64,
    width: u32,
    /// Ends per window.
    lanes: u64,
    /// The lowest bit of each end in a window.
    ones: u64,
}

impl Ends {
    fn new(groups: u64, stride: u64) -> Self {
        let width = end_width(stride);
        let lanes = u64::from(57 / width);
        let ones = (0..lanes).fold(0, |ones, lane| ones | 1 << (lane * u64::from(width)));
        Self { groups, width, lanes, ones }
    }

    /// Returns the number of bits of all ends.
    #[inline(always)]
    fn bits(&self) -> u64 {
        self.groups * u64::from(self.width)
    }

    #[inline(always)]
    fn get(&self, block: &[u64], group: u64) -> u64 {
        packed::get(block, self.width, group)
    }

    /// Returns a mask of the first `ends` ends of a window.
    #[inline(always)]
    fn mask(&self, ends: u64) -> u64 {
        packed::mask((ends.min(self.lanes) * u64::from(self.width)) as u32)
    }

    /// Returns whether no group from `from` on, which is not the first, ends before its predecessor.
    ///
    /// Subtracts the ends of a window from their successors at once. A borrow from an end shows that the end
    /// below is larger than its successor.
    #[inline(always)]
    fn are_sorted(&self, block: &[u64], from: u64) -> bool {
        let (width, mut group, mut borrows) = (u64::from(self.width), from, 0);
        while group < self.groups {
            let mask = self.mask(self.groups - group);
            let ends = lanes::window(block, (group - 1) * width) & mask;
            let next = lanes::window(block, group * width) & mask;
            let rest = next.wrapping_sub(ends);
            // A borrow from the last end reaches all bits above.
            borrows |= (next ^ ends ^ rest) & (self.ones | !mask);
            group += self.lanes;
        }
        borrows == 0
    }

    /// Adds `bits`, which may be negative, to the ends of all groups from `from` on.
    #[inline(always)]
    fn add(&self, block: &mut [u64], from: u64, bits: i64) {
        let each = self.ones.wrapping_mul(bits.cast_unsigned());
        let (width, mut group) = (u64::from(self.width), from);
        while group < self.groups {
            let mask = self.mask(self.groups - group);
            let sums = lanes::window(block, group * width).wrapping_add(each);
            lanes::set_window(block, group * width, mask, sums & mask);
            group += self.lanes;
        }
    }
}

/// A distribution of counts: the mean and the variance of the bits of a counter.
#[derive(Clone, Copy, Debug)]
pub(in crate::filters) struct Spread {
    mean: f64,
    variance: f64,
}

impl Spread {
    /// Returns the distribution with these probabilities of the counts 0, 1, 2, ….
    pub(in crate::filters) fn new(chances: impl Iterator<Item = f64>) -> Self {
        let (mut mean, mut square) = (0.0, 0.0);
        for (count, chance) in (0..).zip(chances) {
            let bits = bits(count) as f64;
            mean += chance * bits;
            square += chance * bits * bits;
        }
        Self { mean, variance: (square - mean * mean).max(0.0) }
    }

    /// Returns the Poisson distribution of this mean.
    pub(in crate::filters) fn poisson(mean: f64) -> Self {
        let mut chance = (-mean).exp();
        let most = (mean + 12.0 * mean.sqrt() + 12.0) as u64;
        // Where the probability of 0 underflows, nearly all counts are below twice the mean.
        if chance == 0.0 {
            return Self { mean: bits((mean.min(1e18) as u64) * 2) as f64, variance: 4.0 };
        }
        Self::new((0..most).map(|count| {
            let now = chance;
            chance *= mean / (count + 1) as f64;
            now
        }))
    }
}

/// Returns the words of each block for counters with this distribution of counts.
pub(in crate::filters) fn planned_stride(counters: u64, spread: Spread) -> u64 {
    let layout = Layout::new(counters);
    let count = layout.per_block as f64;
    let bits = count * spread.mean + SPARE * (count * spread.variance).sqrt() + 8.0;
    layout.stride(bits.ceil() as u64)
}

/// Returns the words of all blocks of `stride` words.
pub(in crate::filters) fn words(counters: u64, stride: u64) -> u64 {
    Layout::new(counters).blocks.saturating_mul(stride)
}

/// Returns the range of the words of a block: room for counters that are 0, and one step of growth more
/// than the longest counters need.
pub(in crate::filters) fn strides(counters: u64) -> RangeInclusive<u64> {
    let layout = Layout::new(counters);
    let most = layout.stride(layout.per_block * LONGEST);
    layout.stride(layout.per_block)..=most + most.div_ceil(16)
}

/// An array of counters.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct CompactCounters {
    layout: Layout,
    /// Words per block.
    stride: u64,
    ends: Ends,
    words: Words,
}

/// The position of a counter in its block.
#[derive(Clone, Copy)]
struct Position {
    block: u64,
    group: u64,
    /// The number of counters after it in its group.
    after: u32,
    class: u32,
    /// The bit of its zero, and the first bit of its rest.
    zero: u64,
    rest: u64,
}

impl CompactCounters {
    /// Returns counters that are 0, with `stride` words per block.
    pub(in crate::filters) fn new(counters: u64, stride: u64) -> Result<Self, OutOfMemory> {
        let layout = Layout::new(counters);
        let bytes = layout.blocks.saturating_mul(stride).saturating_mul(8);
        let len = usize::try_from(bytes / 8).map_err(|_| OutOfMemory { bytes })?;
        let mut empty = Self {
            layout,
            stride,
            ends: Ends::new(layout.groups, stride),
            words: Words::zeroed(len)?,
        };
        for block in 0..layout.blocks {
            for group in 0..layout.groups {
                let counters = ((group + 1) * GROUP).min(layout.counters_of(block));
                empty.set_end(block, group, counters);
            }
        }
        Ok(empty)
    }

    /// Returns the counters in the words of a file.
    pub(in crate::filters) fn from_words(counters: u64, stride: u64, words: Words) -> Self {
        let layout = Layout::new(counters);
        Self { layout, stride, ends: Ends::new(layout.groups, stride), words }
    }

    pub(in crate::filters) fn words(&self) -> &Words {
        &self.words
    }

    pub(in crate::filters) fn stride(&self) -> u64 {
        self.stride
    }

    fn len(&self) -> u64 {
        self.layout.counters
    }

    #[inline(always)]
    fn block(&self, block: u64) -> &[u64] {
        &self.words[(block * self.stride) as usize..((block + 1) * self.stride) as usize]
    }

    fn block_mut(&mut self, block: u64) -> &mut [u64] {
        let range = (block * self.stride) as usize..((block + 1) * self.stride) as usize;
        &mut self.words.to_mut()[range]
    }

    /// Returns the first bit of a block after the ends of its groups.
    #[inline(always)]
    fn first_bit(&self) -> u64 {
        self.ends.bits()
    }

    /// Returns the number of bits of counters up to the end of a group.
    #[inline(always)]
    fn end(&self, block: &[u64], group: u64) -> u64 {
        self.ends.get(block, group)
    }

    fn set_end(&mut self, block: u64, group: u64, to: u64) {
        let width = self.ends.width;
        packed::set(self.block_mut(block), width, group, to);
    }

    /// Returns the number of bits of counters that a block has room for.
    #[inline(always)]
    fn room(&self) -> u64 {
        (self.stride * 64).saturating_sub(self.first_bit())
    }

    /// Prefetches the end of a counter's group and, by a guess, its bits.
    #[inline(always)]
    pub(in crate::filters) fn prefetch(&self, place: u64) {
        let (block, at) = (place / self.layout.per_block, place % self.layout.per_block);
        let word = (block * self.stride) as usize;
        prefetch(&self.words, word);
        let guess = at * self.stride / self.layout.per_block;
        prefetch(&self.words, word + guess as usize);
    }

    /// Returns the position of a counter; `None` if the words are invalid.
    #[inline(always)]
    fn find(&self, bits: impl Bits, place: u64) -> Option<Position> {
        let (number, at) = (place / self.layout.per_block, place % self.layout.per_block);
        let block = self.block(number);
        let (group, before) = (at / GROUP, (at % GROUP) as u32);
        let counters = self.layout.counters_of(number) - group * GROUP;
        let after = counters.min(GROUP) as u32 - before - 1;
        let first = self.first_bit();
        let start = if group > 0 { self.end(block, group - 1) } else { 0 };
        let end = self.end(block, group);
        if start > end || end > self.room() {
            return None;
        }
        let (start, end) = (first + start, first + end);
        let (bit, rests) = skip(bits, block, start, before)?;
        let class = read(block, bit).trailing_ones();
        let (zero, width) = (bit + u64::from(class), u64::from(class.saturating_sub(2)));
        let rest = end.checked_sub(rests + width)?;
        let position = Position { block: number, group, after, class, zero, rest };
        (class < 64 && zero < rest).then_some(position)
    }

    #[inline(always)]
    fn get_with(&self, bits: impl Bits, place: u64) -> u64 {
        self.find(bits, place).map_or(0, |position| self.count(&position))
    }

    #[inline(always)]
    fn count(&self, at: &Position) -> u64 {
        let rest = match at.class {
            0..=2 => 0,
            class => read(self.block(at.block), at.rest) & packed::mask(class - 2),
        };
        decode(at.class, rest)
    }

    /// Returns a counter.
    #[inline]
    pub(in crate::filters) fn get(&self, place: u64) -> u64 {
        self.least([place].into_iter())
    }

    /// Returns the lowest of some counters; `u64::MAX` if there are none.
    #[inline(always)]
    pub(in crate::filters) fn least(&self, places: impl Iterator<Item = u64>) -> u64 {
        select::run(Least { counters: self, places })
    }

    /// Returns whether none of some counters is 0.
    #[inline(always)]
    pub(in crate::filters) fn all_raised(&self, places: impl Iterator<Item = u64>) -> bool {
        select::run(AllRaised { counters: self, places })
    }

    /// Sets a counter to the count that `next` returns for its count, at most [`LARGEST`]. Returns whether it
    /// was another.
    ///
    /// # Errors
    /// [`Full`] if memory runs out or the words are invalid. Nothing has changed then.
    #[inline(always)]
    pub(in crate::filters) fn change(
        &mut self,
        place: u64,
        next: impl Fn(u64) -> u64,
    ) -> Result<bool, Full> {
        select::run(Change { counters: self, place, next })
    }

    #[inline(always)]
    fn change_with(
        &mut self,
        bits: impl Bits,
        place: u64,
        next: impl Fn(u64) -> u64,
    ) -> Result<bool, Full> {
        let mut at = self.find(bits, place).ok_or(Full::NONE)?;
        let count = self.count(&at);
        let to = next(count).min(LARGEST);
        if to == count {
            return Ok(false);
        }
        let (class, width, rest) = encode(to);
        let old_width = at.class.saturating_sub(2);
        let block = self.block(at.block);
        let used = self.end(block, self.layout.groups - 1);
        // The lengths and rests of the group fill it.
        let sound = skip(bits, block, at.zero + 1, at.after)
            .is_some_and(|(bit, rests)| bit + rests == at.rest)
            && self.ends.are_sorted(block, at.group + 1);
        let more = i64::from(class + width) - i64::from(at.class + old_width);
        let needs = used
            .checked_add_signed(more)
            .filter(|_| sound && used <= self.room())
            .ok_or(Full::NONE)?;
        if needs > self.room() {
            self.grow(needs).map_err(|_| Full::NONE)?;
            at = self.find(bits, place).ok_or(Full::NONE)?;
        }
        let (ends, mut past) = (self.ends, self.first_bit() + used);
        let words = self.block_mut(at.block);
        // The rests first, since they come after the lengths.
        resize(words, at.rest, &mut past, old_width, width);
        let from = at.zero - u64::from(at.class);
        resize(words, from, &mut past, at.class, class);
        packed::set_at(words, class, from, packed::mask(class));
        if width > 0 {
            packed::set_at(words, width, at.rest + u64::from(class) - u64::from(at.class), rest);
        }
        ends.add(words, at.group, more);
        Ok(true)
    }

    /// Makes all blocks larger, until one has room for `bits` bits of counters.
    #[cold]
    fn grow(&mut self, bits: u64) -> Result<(), OutOfMemory> {
        let mut stride = self.stride;
        while (stride * 64).saturating_sub(self.layout.groups * u64::from(end_width(stride))) < bits
        {
            stride += stride.div_ceil(16);
        }
        let mut grown = Self::new(self.layout.counters, stride)?;
        for block in 0..self.layout.blocks {
            let (from, first) = (self.block(block), self.first_bit());
            let used = self.end(from, self.layout.groups - 1).min(self.room());
            for group in 0..self.layout.groups {
                grown.set_end(block, group, self.end(from, group));
            }
            let to = grown.first_bit();
            let words = grown.block_mut(block);
            for at in (0..used).step_by(32) {
                let bits = (used - at).min(32) as u32;
                packed::set_at(words, bits, to + at, read(from, first + at));
            }
        }
        *self = grown;
        Ok(())
    }

    /// Returns the counters in order.
    pub(in crate::filters) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.layout.blocks).flat_map(move |block| {
            let counters = self.layout.counters_of(block);
            (0..self.layout.groups).flat_map(move |group| {
                let words = self.block(block);
                let first = self.first_bit();
                let start = if group > 0 { self.end(words, group - 1) } else { 0 };
                let (mut bit, mut rest) = (first + start, first + self.end(words, group));
                let from = (group * GROUP).min(counters);
                (from..((group + 1) * GROUP).min(counters)).map(move |_| {
                    let class = read(words, bit).trailing_ones().min(63);
                    let width = class.saturating_sub(2);
                    bit += u64::from(class) + 1;
                    rest = rest.saturating_sub(width.into());
                    decode(class, read(words, rest) & packed::mask(width))
                })
            })
        })
    }

    /// Returns counters with the sums of two arrays of equal length.
    pub(in crate::filters) fn sum(&self, other: &Self) -> Result<Self, OutOfMemory> {
        let stride = self.stride.max(other.stride);
        let sums = || self.iter().zip(other.iter()).map(|(a, b)| a.saturating_add(b).min(LARGEST));
        Self::from_counts(self.layout.counters, stride, sums)
    }

    /// Returns counters with these counts, in blocks of at least `stride` words.
    fn from_counts<I: Iterator<Item = u64>>(
        counters: u64,
        stride: u64,
        counts: impl Fn() -> I,
    ) -> Result<Self, OutOfMemory> {
        let layout = Layout::new(counters);
        let mut stride = stride;
        let mut largest = 0;
        let mut all = counts();
        for block in 0..layout.blocks {
            let used = all.by_ref().take(layout.counters_of(block) as usize).map(bits).sum();
            largest = largest.max(used);
        }
        while (stride * 64).saturating_sub(layout.groups * u64::from(end_width(stride))) < largest {
            stride += stride.div_ceil(16);
        }
        let mut made = Self::new(counters, stride)?;
        let (first, mut all) = (made.first_bit(), counts());
        for block in 0..layout.blocks {
            let (mut end, of) = (0, layout.counters_of(block));
            for group in 0..layout.groups {
                let len = ((group + 1) * GROUP).min(of) - (group * GROUP).min(of);
                let mut lengths = first + end;
                let group_counts: Vec<u64> = all.by_ref().take(len as usize).collect();
                end += group_counts.iter().map(|count| bits(*count)).sum::<u64>();
                let mut rests = first + end;
                let words = made.block_mut(block);
                for count in group_counts {
                    let (class, width, rest) = encode(count);
                    packed::set_at(words, class, lengths, packed::mask(class));
                    lengths += u64::from(class) + 1;
                    rests -= u64::from(width);
                    if width > 0 {
                        packed::set_at(words, width, rests, rest);
                    }
                }
                made.set_end(block, group, end);
            }
        }
        Ok(made)
    }

    /// Checks that the words are those that the counts give.
    pub(in crate::filters) fn validate(&self) -> Result<(), &'static str> {
        let invalid = "the counters are invalid";
        let fits = (0..self.layout.blocks).all(|block| {
            let words = self.block(block);
            let ends = (0..self.layout.groups).map(|group| self.end(words, group));
            ends.is_sorted() && self.end(words, self.layout.groups - 1) <= self.room()
        });
        if !fits || self.iter().any(|count| count > LARGEST) {
            return Err(invalid);
        }
        match Self::from_counts(self.len(), self.stride, || self.iter()) {
            Ok(made) if made == *self => Ok(()),
            Ok(_) => Err(invalid),
            Err(_) => Err("failed to allocate memory to check the counters"),
        }
    }
}

/// The lowest of some counters.
struct Least<'a, P> {
    counters: &'a CompactCounters,
    places: P,
}

impl<P: Iterator<Item = u64>> Task for Least<'_, P> {
    type Output = u64;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> u64 {
        // A loop, because an iterator's functions would be compiled without BMI2.
        let mut least = u64::MAX;
        for place in self.places {
            least = least.min(self.counters.get_with(bits, place));
        }
        least
    }
}

/// Whether none of some counters is 0.
struct AllRaised<'a, P> {
    counters: &'a CompactCounters,
    places: P,
}

impl<P: Iterator<Item = u64>> Task for AllRaised<'_, P> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        for place in self.places {
            let Some(Position { class: 1.., .. }) = self.counters.find(bits, place) else {
                return false;
            };
        }
        true
    }
}

/// A change of a counter.
struct Change<'a, N> {
    counters: &'a mut CompactCounters,
    place: u64,
    next: N,
}

impl<N: Fn(u64) -> u64> Task for Change<'_, N> {
    type Output = Result<bool, Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<bool, Full> {
        self.counters.change_with(bits, self.place, self.next)
    }
}

/// Passes the lengths of `counters` counters, of which the first begins at `bit`. Returns the bit after them and
/// the number of bits of their rests, which are the ones that follow two others; `None` if they do not end in
/// the block.
#[inline(always)]
fn skip(bits: impl Bits, block: &[u64], bit: u64, counters: u32) -> Option<(u64, u64)> {
    if counters == 0 {
        return Some((bit, 0));
    }
    let (mut index, mut here) = ((bit / 64) as usize, u64::MAX << (bit % 64));
    let (mut left, mut rests, mut last) = (counters, 0, 0);
    loop {
        let (word, zeros) = (block.get(index)? & here, !block.get(index)? & here);
        let thirds = word & (word << 1 | last >> 63) & (word << 2 | last >> 62);
        let count = zeros.count_ones();
        if left <= count {
            let zero = bits.select(zeros, left - 1);
            rests += bits.rank(thirds, zero);
            return Some((index as u64 * 64 + u64::from(zero) + 1, rests.into()));
        }
        left -= count;
        rests += thirds.count_ones();
        (index, here, last) = (index + 1, u64::MAX, word);
    }
}

/// Returns the 64 bits from `bit` on. Bits past the end are 0.
#[inline(always)]
fn read(words: &[u64], bit: u64) -> u64 {
    let (word, shift) = ((bit / 64) as usize, bit % 64);
    let at = |word| words.get(word).copied().unwrap_or(0);
    at(word) >> shift | at(word + 1) << 1 << (63 - shift)
}

/// Changes the number of bits from `at` on from `old` to `new`, both below 64, and moves the bits after
/// them, which end at `past`.
#[inline(always)]
fn resize(words: &mut [u64], at: u64, past: &mut u64, old: u32, new: u32) {
    if new > old {
        shift_up(words, at, *past, new - old);
        *past += u64::from(new - old);
    } else if new < old {
        shift_down(words, at, *past, old - new);
        *past -= u64::from(old - new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use tamis_bits::range::mix;

    /// Returns a random count: most are small, some are of any size.
    fn count(random: u64) -> u64 {
        match random % 16 {
            0 => mix(random) >> (2 + mix(random + 1) % 62),
            1 => LARGEST,
            small => small % 4,
        }
    }

    /// Compares with a model, for numbers of counters around the limits of groups and blocks.
    #[test]
    fn counters_are_what_was_set() {
        for counters in [1, 5, 255, 256, 257, 1000, 8192, 8193, 20_000] {
            let mut array =
                CompactCounters::new(counters, planned_stride(counters, Spread::poisson(0.7)))
                    .unwrap();
            let mut model = vec![0; counters as usize];
            for step in 0..1000 {
                let random = mix(counters << 32 | step);
                // Many changes of the same few counters, and some of any.
                let place =
                    if step % 2 == 0 { random % counters } else { random % counters.min(7) };
                let count = count(random >> 8);
                array.change(place, |_| count).unwrap();
                model[place as usize] = count;
                assert_eq!(
                    (array.get(place), array.all_raised([place].into_iter())),
                    (count, count > 0)
                );
            }
            assert!(array.iter().eq(model.iter().copied()));
            assert!((0..counters).all(|place| array.get(place) == model[place as usize]));
            array.validate().unwrap();
            let doubled = array.sum(&array).unwrap();
            doubled.validate().unwrap();
            assert!(doubled.iter().eq(model.iter().map(|count| (count * 2).min(LARGEST))));
        }
    }

    /// The order of changes does not matter for the words, if no count is lowered.
    #[test]
    fn the_words_follow_from_the_counts() {
        let stride = planned_stride(9000, Spread::poisson(0.5));
        let count =
            |place: u64| mix(place) % 4 + u64::from(place.is_multiple_of(50)) * (mix(place) >> 40);
        let make = |places: &mut dyn Iterator<Item = u64>| {
            let mut array = CompactCounters::new(9000, stride).unwrap();
            for place in places {
                array.change(place, |_| count(place)).unwrap();
            }
            array
        };
        let up = make(&mut (0..9000));
        assert!(up.stride() > stride && up == make(&mut (0..9000).rev()));
        assert!(up == CompactCounters::from_counts(9000, stride, || (0..9000).map(count)).unwrap());
    }

    /// Bits per counter, with all slack and the ends of groups: 2.2 at a mean of 1, and about 2 log2 of
    /// large counts.
    #[test]
    fn small_counts_take_few_bits() {
        let counters = 10_000_000;
        let planned = |mean: f64| {
            let stride = planned_stride(counters, Spread::poisson(mean));
            words(counters, stride) as f64 * 64.0 / counters as f64
        };
        assert!(planned(0.693) < 1.9 && planned(1.0) <= 2.2, "{} {}", planned(0.693), planned(1.0));
        for mean in [10.0, 100.0, 600.0, 1e6, 1e12] {
            assert!(planned(mean) < 2.0 * f64::log2(mean) + 4.0, "{mean}: {}", planned(mean));
        }
        // A Poisson distribution of a mean of 1, as 2^17 counters that are raised at random have it.
        let counters = 1 << 17;
        let stride = planned_stride(counters, Spread::poisson(1.0));
        let mut array = CompactCounters::new(counters, stride).unwrap();
        for step in 0..counters {
            let place = mix(step) % counters;
            array.change(place, |count| count + 1).unwrap();
        }
        assert_eq!(array.stride(), stride, "no block has grown");
        let bits = array.words().len() as f64 * 64.0 / counters as f64;
        assert!(bits <= 2.2, "{bits} bits per counter");
    }

    /// Damaged words give some count, and changes end.
    #[test]
    fn damage_is_harmless() {
        let stride = planned_stride(600, Spread::poisson(2.0));
        for seed in 0..200 {
            let mut array = CompactCounters::new(600, stride).unwrap();
            for place in 0..600 {
                array.change(place, |_| mix(place) % 5).unwrap();
            }
            for flip in 0..=seed % 5 {
                let bit = mix(seed << 8 | flip) % (stride * 64);
                array.words.to_mut()[(bit / 64) as usize] ^= 1 << (bit % 64);
            }
            for place in 0..600 {
                let count = array.get(place);
                if array.change(place, |count| count + 1).is_ok() {
                    assert_eq!(array.get(place), count + 1);
                }
            }
        }
    }
}
