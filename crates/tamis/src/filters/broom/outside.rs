//! Prints that do not fit into their bins: overflow lines, and the stash behind them.
//!
//! ```text
//!  bins       │ group 0: up to 2048 lines of bins     │ group 1 …
//!  overflow   │ line │ line │ … for group 0           │ line │ …
//!             └ k prints: bin in the group and bucket 17 bits, 6 of them (of bins of two lines 7)
//!               the bucket; remainder r; a 1 and up to 5 bits of extension; the line's last bit
//!               says that some of its prints are in the stash
//!  stash      │ bin, bucket, how often │ tail, 1, 0… │  two words a print, in an open table
//! ```
//!
//! Which line is decided by bin and bucket: prints of one bin are spread over the group's lines,
//! those of one bucket are together. So a bucket can be asked for, and brought back when its bin
//! has room again, without knowing the keys. What a line has no room for, and the few prints with
//! longer extensions, are in the stash. Equal prints there are one entry with a count, so that even
//! a million copies of one key are no work; it grows when it must.

use tamis_bits::range::{mix, scale};
use tamis_bits::{LINE_WORDS as WORDS, Words, packed};

use super::bin::{CHUNK, Layout, Print, Spot, TAIL, get, put};
use crate::error::{Error, Full};
use crate::filters::common::usize_words;

/// Overflow lines of a group at the most.
pub(super) const MAX_LINES: u64 = 1 << 11;
/// Bits that name a bin of a group and its bucket.
const PLACE_BITS: u32 = 17;
/// The line's last bit.
const SPILLED: u64 = 1 << 63;
/// A stash word is bin, bucket, count.
const COUNT_BITS: u32 = 13;

const fn bucket_bits(lines: u32) -> u32 {
    5 + lines
}

/// Bins, of so many lines each, that a stash can name.
pub(super) const fn most_bins(lines: u32) -> u64 {
    1 << (64 - COUNT_BITS - bucket_bits(lines))
}

/// Overflow lines and the stash.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outside {
    /// Bits of a remainder.
    r: u32,
    bucket_bits: u32,
    /// Bins of a group.
    group: u64,
    /// Lines of a group.
    lines: u64,
    overflow: Words,
    stash: Words,
    /// Entries of the stash in use.
    entries: u64,
}

/// Where a print is.
#[derive(Clone, Copy)]
pub(super) enum At {
    Line { line: u64, index: u32 },
    Stash { line: u64, slot: u64 },
}

/// Prints that fit into a line.
pub(super) fn prints_a_line(r: u32) -> u32 {
    511 / width(r)
}

const fn width(r: u32) -> u32 {
    PLACE_BITS + r + CHUNK + 1
}

/// Of the prints of a line, how many to expect; and of these the share that is in the stash.
///
/// Prints come in clumps, those of a bucket of a bin. Of buckets of two keys on average the one
/// that a given key is in has three, so the number in a line has three times its mean for its
/// variance. A line has room for one standard deviation more than the mean. What a normal law has
/// above that is 0.083 standard deviations; this one leans a little.
pub(super) fn plan(r: u32) -> (f64, f64) {
    const CLUMP: f64 = 3.0;
    let room = f64::from(prints_a_line(r));
    let root = ((CLUMP + 4.0 * room).sqrt() - CLUMP.sqrt()) / 2.0;
    (root * root, 0.09 * CLUMP.sqrt() / root)
}

/// Entries for so many prints in the stash on average: six standard deviations more, since they are
/// drawn anew with every change of the keys, at the load up to which it does not grow.
///
/// What is outside is decided by the keys that are in, whatever came before. The variance of the
/// number in the stash is about six times its mean: 4 to 8 were measured, since where a line is full
/// every further clump goes there whole.
pub(super) fn stash(mean: f64) -> f64 {
    const ALWAYS: f64 = 16.0;
    ALWAYS + (mean + 6.0 * (6.0 * mean).sqrt()) / 0.75
}

/// Groups of so many bins, of so many lines each, and bins of each group.
pub(super) fn groups(bins: u64, lines: u32) -> (u64, u64) {
    let groups = bins.div_ceil(1 << (PLACE_BITS - bucket_bits(lines)));
    (groups, bins.div_ceil(groups))
}

impl Outside {
    /// None outside: for so many bins, lines a group, and entries of the stash.
    pub(super) fn new(bins: u64, bin: Layout, lines: u64, stash: u64) -> Result<Self, Error> {
        let (groups, _) = groups(bins, bin.lines);
        let overflow = Words::zeroed(usize_words(groups * lines * WORDS as u64)?)?;
        Ok(Self::with(bins, bin, lines, overflow, Words::zeroed(usize_words(stash * 2)?)?))
    }

    pub(super) fn with(bins: u64, bin: Layout, lines: u64, overflow: Words, stash: Words) -> Self {
        let entries = stash.as_chunks::<2>().0.iter().filter(|entry| entry[1] != 0).count();
        let (bucket_bits, (_, group)) = (bucket_bits(bin.lines), groups(bins, bin.lines));
        Self { r: bin.r, bucket_bits, group, lines, overflow, stash, entries: entries as u64 }
    }

    pub(super) fn overflow(&self) -> &Words {
        &self.overflow
    }

    pub(super) fn stash(&self) -> &Words {
        &self.stash
    }

    /// Entries in use of the stash, and all of them.
    pub(super) fn stashed(&self) -> (u64, u64) {
        (self.entries, self.slots())
    }

    fn slots(&self) -> u64 {
        self.stash.len() as u64 / 2
    }

    #[inline(always)]
    fn line(&self, bin: u64, bucket: u32) -> u64 {
        let hash = mix(bin << self.bucket_bits | u64::from(bucket));
        bin / self.group * self.lines + scale(hash, self.lines)
    }

    #[inline(always)]
    fn words(&self, line: u64) -> &[u64; WORDS] {
        &self.overflow.as_chunks().0[line as usize]
    }

    fn words_mut(&mut self, line: u64) -> &mut [u64; WORDS] {
        &mut self.overflow.to_mut().as_chunks_mut().0[line as usize]
    }

    fn spilled(&self, line: u64) -> bool {
        self.words(line)[WORDS - 1] & SPILLED != 0
    }

    #[inline(always)]
    fn entry(&self, line: u64, index: u32) -> u64 {
        get(self.words(line), u64::from(index * width(self.r)), width(self.r))
    }

    /// The print as it is in a line: its extension has at most five bits.
    fn pack(&self, bin: u64, print: &Print) -> u64 {
        let more = print.len - self.r;
        let code = 1 << more | if more == 0 { 0 } else { print.tail << self.r >> (64 - more) };
        let place = (bin % self.group) << self.bucket_bits | u64::from(print.bucket);
        (place << self.r | print.tail >> (64 - self.r)) << (CHUNK + 1) | code
    }

    /// Bin in the group and print of an entry that is not 0.
    fn unpack(&self, entry: u64) -> (u64, Print) {
        let code = (entry & packed::mask(CHUNK + 1)).max(1);
        let more = 63 - code.leading_zeros();
        let bits = code & packed::mask(more);
        let rest = entry >> (CHUNK + 1);
        let tail = (rest & packed::mask(self.r)) << (64 - self.r) | bits << (64 - self.r - more);
        let place = rest >> self.r;
        let bucket = (place & packed::mask(self.bucket_bits)) as u32;
        (place >> self.bucket_bits, Print { bucket, tail, len: self.r + more })
    }

    /// All different prints of a bucket, and where they are.
    pub(super) fn each(&self, bin: u64, bucket: u32, mut found: impl FnMut(At, Print)) {
        let line = self.line(bin, bucket);
        let place = (bin % self.group) << self.bucket_bits | u64::from(bucket);
        for index in 0..prints_a_line(self.r) {
            let entry = self.entry(line, index);
            if entry != 0 && entry >> (self.r + CHUNK + 1) == place {
                found(At::Line { line, index }, self.unpack(entry).1);
            }
        }
        if self.spilled(line) {
            let key = bin << self.bin_shift() | u64::from(bucket) << COUNT_BITS;
            self.walk(line, |slot, [place, tail]| {
                if place >> COUNT_BITS << COUNT_BITS == key {
                    found(At::Stash { line, slot }, self.stashed_print(place, tail));
                }
                true
            });
        }
    }

    /// Whether a print outside stands for what falls there.
    #[cold]
    pub(super) fn holds(&self, bin: u64, spot: Spot) -> bool {
        let mut holds = false;
        self.each(bin, spot.bucket, |_, print| holds |= print.matches(spot));
        holds
    }

    /// The print outside that stands for what falls there with the most bits.
    pub(super) fn longest(&self, bin: u64, spot: Spot) -> Option<(At, u32)> {
        let mut best = None::<(At, u32)>;
        self.each(bin, spot.bucket, |at, print| {
            if print.matches(spot) && best.is_none_or(|(_, len)| print.len > len) {
                best = Some((at, print.len));
            }
        });
        best
    }

    /// Where some print of a bucket is.
    pub(super) fn any(&self, bin: u64, bucket: u32) -> Option<At> {
        let mut any = None;
        self.each(bin, bucket, |at, _| {
            any.get_or_insert(at);
        });
        any
    }

    /// All prints of a bucket, each as often as it is in.
    pub(super) fn each_with_copies(&self, bin: u64, bucket: u32, mut found: impl FnMut(Print)) {
        self.each(bin, bucket, |at, print| {
            let copies = match at {
                At::Line { .. } => 1,
                At::Stash { slot, .. } => self.stash_entry(slot)[0] & packed::mask(COUNT_BITS),
            };
            (0..copies).for_each(|_| found(print));
        });
    }

    /// Adds a print of a bin. [`Full`] only where memory for a larger stash cannot be had; then
    /// nothing has changed.
    pub(super) fn put(&mut self, bin: u64, print: &Print) -> Result<(), Full> {
        let line = self.line(bin, print.bucket);
        if !self.put_in_line(bin, line, print) {
            self.put_in_stash(bin, line, print, 1)?;
            self.words_mut(line)[WORDS - 1] |= SPILLED;
        }
        Ok(())
    }

    fn put_in_line(&mut self, bin: u64, line: u64, print: &Print) -> bool {
        if print.len > self.r + CHUNK {
            return false;
        }
        let free = (0..prints_a_line(self.r)).find(|index| self.entry(line, *index) == 0);
        let Some(index) = free else { return false };
        let (entry, width) = (self.pack(bin, print), width(self.r));
        put(self.words_mut(line), u64::from(index * width), width, entry);
        true
    }

    /// Takes the print at that place out.
    pub(super) fn remove(&mut self, at: At) {
        let line = match at {
            At::Line { line, index } => {
                let width = width(self.r);
                put(self.words_mut(line), u64::from(index * width), width, 0);
                line
            }
            At::Stash { line, slot } => {
                self.drop_stashed(slot, 1);
                line
            }
        };
        if self.spilled(line) {
            self.refill(line);
        }
    }

    /// Brings prints of a line back from the stash while there is room.
    #[cold]
    fn refill(&mut self, line: u64) {
        loop {
            let (mut left, mut short) = (false, None);
            self.walk(line, |slot, [place, tail]| {
                let (bin, print) = (place >> self.bin_shift(), self.stashed_print(place, tail));
                if self.line(bin, print.bucket) == line {
                    left = true;
                    if print.len <= self.r + CHUNK {
                        short = Some((slot, bin, print));
                    }
                }
                short.is_none()
            });
            if !left {
                self.words_mut(line)[WORDS - 1] &= !SPILLED;
            }
            match short {
                Some((slot, bin, print)) if self.put_in_line(bin, line, &print) => {
                    self.drop_stashed(slot, 1);
                }
                _ => return,
            }
        }
    }

    /// Where the line's entries begin in the stash.
    fn home(&self, line: u64) -> u64 {
        scale(mix(line), self.slots())
    }

    fn stash_entry(&self, slot: u64) -> [u64; 2] {
        self.stash.as_chunks().0[slot as usize]
    }

    fn set_stash_entry(&mut self, slot: u64, entry: [u64; 2]) {
        self.stash.to_mut().as_chunks_mut().0[slot as usize] = entry;
    }

    fn next(&self, slot: u64) -> u64 {
        if slot + 1 == self.slots() { 0 } else { slot + 1 }
    }

    /// Shows the entries from the line's home on until `go_on` says no, or there is a gap.
    fn walk(&self, line: u64, mut go_on: impl FnMut(u64, [u64; 2]) -> bool) {
        let mut slot = self.home(line);
        for _ in 0..self.slots() {
            let entry = self.stash_entry(slot);
            if entry[1] == 0 || !go_on(slot, entry) {
                return;
            }
            slot = self.next(slot);
        }
    }

    fn put_in_stash(&mut self, bin: u64, line: u64, print: &Print, times: u64) -> Result<(), Full> {
        let place = bin << self.bin_shift() | u64::from(print.bucket) << COUNT_BITS | times;
        let tail = print.tail | 1 << (63 - print.len);
        let mut same = None;
        self.walk(line, |slot, [other, of]| {
            let room = packed::mask(COUNT_BITS) - (other & packed::mask(COUNT_BITS)) >= times;
            if of == tail && other >> COUNT_BITS == place >> COUNT_BITS && room {
                same = Some((slot, other + times));
            }
            same.is_none()
        });
        if let Some((slot, place)) = same {
            self.set_stash_entry(slot, [place, tail]);
            return Ok(());
        }
        if (self.entries + 1) * 4 > self.slots() * 3 {
            self.grow()?;
        }
        let mut slot = self.home(line);
        while self.stash_entry(slot)[1] != 0 {
            slot = self.next(slot);
        }
        self.set_stash_entry(slot, [place, tail]);
        self.entries += 1;
        Ok(())
    }

    /// Twice the stash.
    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        let slots = usize::try_from(self.slots()).map_err(|_| Full::NONE)?;
        let larger =
            Words::zeroed(slots.checked_mul(4).ok_or(Full::NONE)?).map_err(|_| Full::NONE)?;
        let smaller = std::mem::replace(&mut self.stash, larger);
        self.entries = 0;
        for [place, tail] in smaller.as_chunks().0 {
            if *tail != 0 {
                let (bin, print) = (place >> self.bin_shift(), self.stashed_print(*place, *tail));
                let (line, times) =
                    (self.line(bin, print.bucket), place & packed::mask(COUNT_BITS));
                self.put_in_stash(bin, line, &print, times).expect("half of it is free");
            }
        }
        Ok(())
    }

    /// Takes one of an entry's prints out, and with the last one the entry; those after it close
    /// the gap.
    fn drop_stashed(&mut self, slot: u64, times: u64) {
        let [place, tail] = self.stash_entry(slot);
        if place & packed::mask(COUNT_BITS) > times {
            return self.set_stash_entry(slot, [place - times, tail]);
        }
        self.entries -= 1;
        let (mut gap, mut slot) = (slot, slot);
        for _ in 0..self.slots() {
            slot = self.next(slot);
            let [place, tail] = self.stash_entry(slot);
            if tail == 0 {
                break;
            }
            let print = self.stashed_print(place, tail);
            let home = self.home(self.line(place >> self.bin_shift(), print.bucket));
            // It may move to the gap unless its home lies after the gap, going round.
            let all = self.slots();
            if (slot + all - home) % all >= (slot + all - gap) % all {
                self.set_stash_entry(gap, [place, tail]);
                gap = slot;
            }
        }
        self.set_stash_entry(gap, [0, 0]);
    }

    /// Whether every entry of the stash could be one, and has a gap to end its search.
    pub(super) fn stash_is_sound(&self, bins: u64) -> bool {
        let gap = self.entries < self.slots();
        gap && self.stash.as_chunks().0.iter().all(|&[place, tail]: &[u64; 2]| {
            let len = 63 - tail.trailing_zeros().min(63);
            if tail == 0 {
                return place == 0;
            }
            let counted = place & packed::mask(COUNT_BITS) != 0;
            place >> self.bin_shift() < bins && (self.r..=TAIL).contains(&len) && counted
        })
    }

    /// Prints outside, all told, or what no filter could hold.
    pub(super) fn check(
        &self,
        bins: u64,
        buckets: u32,
        is_outside: impl Fn(u64, u32) -> bool,
    ) -> Result<u64, &'static str> {
        let mut count = 0;
        let belongs = |line: u64, bin: u64, print: &Print| {
            bin < bins
                && print.bucket < buckets
                && self.line(bin, print.bucket) == line
                && is_outside(bin, print.bucket)
        };
        let (per_line, used) =
            (prints_a_line(self.r), u64::from(prints_a_line(self.r) * width(self.r)));
        for line in 0..self.overflow.len() as u64 / WORDS as u64 {
            for index in 0..per_line {
                let entry = self.entry(line, index);
                if entry == 0 {
                    continue;
                }
                let (place, print) = self.unpack(entry);
                let bin = line / self.lines * self.group + place;
                if place >= self.group
                    || !belongs(line, bin, &print)
                    || self.pack(bin, &print) != entry
                {
                    return Err("an overflow line holds what does not belong there");
                }
                count += 1;
            }
            let spare = (used..511).all(|bit| get(self.words(line), bit, 1) == 0);
            let mut spilled = false;
            self.walk(line, |_, [place, tail]| {
                spilled |= self
                    .line(place >> self.bin_shift(), self.stashed_print(place, tail).bucket)
                    == line;
                !spilled
            });
            if !spare || spilled != self.spilled(line) {
                return Err("an overflow line does not know what is in the stash");
            }
        }
        for (slot, &[place, tail]) in self.stash.as_chunks::<2>().0.iter().enumerate() {
            if tail == 0 {
                continue;
            }
            let (bin, print) = (place >> self.bin_shift(), self.stashed_print(place, tail));
            let line = self.line(bin, print.bucket);
            let mut found = false;
            self.walk(line, |at, _| {
                found = at == slot as u64;
                !found
            });
            if !found || !belongs(line, bin, &print) {
                return Err("the stash holds what cannot be found");
            }
            count += place & packed::mask(COUNT_BITS);
        }
        Ok(count)
    }

    fn bin_shift(&self) -> u32 {
        COUNT_BITS + self.bucket_bits
    }

    /// The print of an entry of the stash.
    fn stashed_print(&self, place: u64, tail: u64) -> Print {
        let end = tail.trailing_zeros();
        let bucket = (place >> COUNT_BITS & packed::mask(self.bucket_bits)) as u32;
        Print { bucket, tail: tail & (tail - 1), len: 63 - end }
    }
}
