//! Fingerprints that do not fit into their bins: overflow lines, and a stash for those that do not
//! fit there either.
//!
//! ```text
//!  bins       │ group 0: up to 2048 lines of bins     │ group 1 …
//!  overflow   │ line │ line │ … for group 0           │ line │ …
//!             └ k fingerprints: bin in the group and bucket 17 bits, 6 of them the bucket (7 for
//!               bins of two lines); remainder r; a 1 and up to 5 bits of extension. The last bit
//!               of the line is set if some of its fingerprints are in the stash
//!  stash      │ bin, bucket, count │ tail, 1, 0… │  two words per fingerprint, linear probing
//! ```
//!
//! Bin and bucket decide the line: fingerprints of one bin are spread over the lines of its group,
//! those of one bucket are together. So the fingerprints of a bucket can be found, and moved back
//! when the bin has room again, without knowing the keys. Fingerprints that a line has no room for,
//! and the few with longer extensions, are in the stash. Equal fingerprints there share one entry
//! with a count, so 10^6 copies of one key take no more work per key. The stash grows if necessary.

use tamis_bits::range::{mix, scale};
use tamis_bits::{LINE_WORDS as WORDS, Words, packed};

use super::bin::{Address, CHUNK, Fingerprint, Layout, TAIL};
use super::fields::{get_bits, set_bits};
use crate::error::{Error, Full};
use crate::filters::common::usize_words;
#[cfg(not(feature = "std"))]
use crate::math::Float;

/// The largest number of overflow lines per group.
pub(super) const MAX_LINES: u64 = 1 << 11;
/// Bits of a bin's number in its group and of its bucket.
const PLACE_BITS: u32 = 17;
/// The last bit of a line: some of its fingerprints are in the stash.
const SPILLED: u64 = 1 << 63;
/// Bits of the count. The first word of a stash entry is bin, bucket, count.
const COUNT_BITS: u32 = 13;

const fn bucket_bits(lines: u32) -> u32 {
    5 + lines
}

/// Returns the largest number of bins of `lines` lines each that a stash entry can address.
pub(super) const fn max_bins(lines: u32) -> u64 {
    1 << (64 - COUNT_BITS - bucket_bits(lines))
}

/// Overflow lines and the stash.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Overflow {
    /// Bits of a remainder.
    r: u32,
    bucket_bits: u32,
    /// Bins per group.
    group: u64,
    /// Lines per group.
    lines: u64,
    words: Words,
    stash: Words,
    /// Stash entries in use.
    entries: u64,
}

/// The location of a fingerprint.
#[derive(Clone, Copy)]
pub(super) enum Location {
    Line { line: u64, index: u32 },
    Stash { line: u64, slot: u64 },
}

/// Returns the number of fingerprints that fit into a line.
pub(super) fn fingerprints_per_line(r: u32) -> u32 {
    511 / width(r)
}

const fn width(r: u32) -> u32 {
    PLACE_BITS + r + CHUNK + 1
}

/// Returns the planned mean number of fingerprints per line, and the share of them that is in the
/// stash.
///
/// Fingerprints of one bucket of a bin go to the same line together. If buckets have two keys on
/// average, the bucket of a given key has three, so the variance of the number per line is three
/// times its mean. A line has room for one standard deviation more than the mean. The expected
/// excess of a normal distribution above that is 0.083 standard deviations; this distribution is
/// slightly skewed, hence 0.09.
pub(super) fn plan(r: u32) -> (f64, f64) {
    const CLUMP: f64 = 3.0;
    let room = f64::from(fingerprints_per_line(r));
    let root = ((CLUMP + 4.0 * room).sqrt() - CLUMP.sqrt()) / 2.0;
    (root * root, 0.09 * CLUMP.sqrt() / root)
}

/// Returns the number of stash entries for `mean` fingerprints in the stash on average: 6 standard
/// deviations more, at the load factor above which the stash grows, since every change of the keys
/// is a new random sample.
///
/// The overflow depends only on the current keys, not on their history. The variance of the number
/// in the stash is about 6 times its mean; 4 to 8 were measured, because all further fingerprints
/// of a bucket whose line is full go there.
pub(super) fn stash_entries(mean: f64) -> f64 {
    const ALWAYS: f64 = 16.0;
    ALWAYS + (mean + 6.0 * (6.0 * mean).sqrt()) / 0.75
}

/// Returns the number of groups for `bins` bins of `lines` lines each, and the number of bins per
/// group.
pub(super) fn groups(bins: u64, lines: u32) -> (u64, u64) {
    let groups = bins.div_ceil(1 << (PLACE_BITS - bucket_bits(lines)));
    (groups, bins.div_ceil(groups))
}

impl Overflow {
    /// Creates an empty overflow for `bins` bins, with `lines` lines per group and `stash` stash
    /// entries.
    pub(super) fn new(bins: u64, bin: Layout, lines: u64, stash: u64) -> Result<Self, Error> {
        let (groups, _) = groups(bins, bin.lines);
        let words = Words::zeroed(usize_words(groups * lines * WORDS as u64)?)?;
        Ok(Self::from_words(bins, bin, lines, words, Words::zeroed(usize_words(stash * 2)?)?))
    }

    pub(super) fn from_words(
        bins: u64,
        bin: Layout,
        lines: u64,
        words: Words,
        stash: Words,
    ) -> Self {
        let entries = stash.as_chunks::<2>().0.iter().filter(|entry| entry[1] != 0).count();
        let (bucket_bits, (_, group)) = (bucket_bits(bin.lines), groups(bins, bin.lines));
        Self { r: bin.r, bucket_bits, group, lines, words, stash, entries: entries as u64 }
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    pub(super) fn stash(&self) -> &Words {
        &self.stash
    }

    /// Returns the number of stash entries in use and the number allocated.
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
    fn line_words(&self, line: u64) -> &[u64; WORDS] {
        &self.words.as_chunks().0[line as usize]
    }

    fn line_words_mut(&mut self, line: u64) -> &mut [u64; WORDS] {
        &mut self.words.to_mut().as_chunks_mut().0[line as usize]
    }

    fn spilled(&self, line: u64) -> bool {
        self.line_words(line)[WORDS - 1] & SPILLED != 0
    }

    #[inline(always)]
    fn entry(&self, line: u64, index: u32) -> u64 {
        get_bits(self.line_words(line), u64::from(index * width(self.r)), width(self.r))
    }

    /// Encodes a fingerprint for a line. Its extension has at most 5 bits.
    fn pack(&self, bin: u64, fp: &Fingerprint) -> u64 {
        let more = fp.len - self.r;
        let code = 1 << more | if more == 0 { 0 } else { fp.tail << self.r >> (64 - more) };
        let place = (bin % self.group) << self.bucket_bits | u64::from(fp.bucket);
        (place << self.r | fp.tail >> (64 - self.r)) << (CHUNK + 1) | code
    }

    /// Decodes an entry that is not 0 into the bin's number in the group and the fingerprint.
    fn unpack(&self, entry: u64) -> (u64, Fingerprint) {
        let code = (entry & packed::mask(CHUNK + 1)).max(1);
        let more = 63 - code.leading_zeros();
        let bits = code & packed::mask(more);
        let rest = entry >> (CHUNK + 1);
        let tail = (rest & packed::mask(self.r)) << (64 - self.r) | bits << (64 - self.r - more);
        let place = rest >> self.r;
        let bucket = (place & packed::mask(self.bucket_bits)) as u32;
        (place >> self.bucket_bits, Fingerprint { bucket, tail, len: self.r + more })
    }

    /// Calls `found` for each distinct fingerprint of a bucket, with its location.
    pub(super) fn for_each(
        &self,
        bin: u64,
        bucket: u32,
        mut found: impl FnMut(Location, Fingerprint),
    ) {
        let line = self.line(bin, bucket);
        let place = (bin % self.group) << self.bucket_bits | u64::from(bucket);
        for index in 0..fingerprints_per_line(self.r) {
            let entry = self.entry(line, index);
            if entry != 0 && entry >> (self.r + CHUNK + 1) == place {
                found(Location::Line { line, index }, self.unpack(entry).1);
            }
        }
        if self.spilled(line) {
            let key = bin << self.bin_shift() | u64::from(bucket) << COUNT_BITS;
            self.probe_stash(line, |slot, [place, tail]| {
                if place >> COUNT_BITS << COUNT_BITS == key {
                    found(Location::Stash { line, slot }, self.stashed_fingerprint(place, tail));
                }
                true
            });
        }
    }

    /// Returns whether a fingerprint in the overflow matches the address.
    #[cold]
    pub(super) fn contains(&self, bin: u64, address: Address) -> bool {
        let mut holds = false;
        self.for_each(bin, address.bucket, |_, fp| holds |= fp.matches(address));
        holds
    }

    /// Returns the location and length of the longest fingerprint in the overflow that matches the
    /// address.
    pub(super) fn longest_match(&self, bin: u64, address: Address) -> Option<(Location, u32)> {
        let mut best = None::<(Location, u32)>;
        self.for_each(bin, address.bucket, |at, fp| {
            if fp.matches(address) && best.is_none_or(|(_, len)| fp.len > len) {
                best = Some((at, fp.len));
            }
        });
        best
    }

    /// Returns the location of any fingerprint of a bucket.
    pub(super) fn any_in(&self, bin: u64, bucket: u32) -> Option<Location> {
        let mut any = None;
        self.for_each(bin, bucket, |at, _| {
            any.get_or_insert(at);
        });
        any
    }

    /// Calls `found` for each fingerprint of a bucket, once per copy.
    pub(super) fn for_each_copy(&self, bin: u64, bucket: u32, mut found: impl FnMut(Fingerprint)) {
        self.for_each(bin, bucket, |at, fp| {
            let copies = match at {
                Location::Line { .. } => 1,
                Location::Stash { slot, .. } => {
                    self.stash_entry(slot)[0] & packed::mask(COUNT_BITS)
                }
            };
            (0..copies).for_each(|_| found(fp));
        });
    }

    /// Inserts a fingerprint of a bin.
    ///
    /// # Errors
    /// [`Full`] only if a larger stash cannot be allocated; then nothing has changed.
    pub(super) fn insert(&mut self, bin: u64, fp: &Fingerprint) -> Result<(), Full> {
        let line = self.line(bin, fp.bucket);
        if !self.insert_in_line(bin, line, fp) {
            self.insert_in_stash(bin, line, fp, 1)?;
            self.line_words_mut(line)[WORDS - 1] |= SPILLED;
        }
        Ok(())
    }

    fn insert_in_line(&mut self, bin: u64, line: u64, fp: &Fingerprint) -> bool {
        if fp.len > self.r + CHUNK {
            return false;
        }
        let free = (0..fingerprints_per_line(self.r)).find(|index| self.entry(line, *index) == 0);
        let Some(index) = free else { return false };
        let (entry, width) = (self.pack(bin, fp), width(self.r));
        set_bits(self.line_words_mut(line), u64::from(index * width), width, entry);
        true
    }

    /// Removes the fingerprint at a location.
    pub(super) fn remove(&mut self, at: Location) {
        let line = match at {
            Location::Line { line, index } => {
                let width = width(self.r);
                set_bits(self.line_words_mut(line), u64::from(index * width), width, 0);
                line
            }
            Location::Stash { line, slot } => {
                self.remove_stashed(slot, 1);
                line
            }
        };
        if self.spilled(line) {
            self.refill(line);
        }
    }

    /// Moves fingerprints of a line back from the stash while the line has room.
    #[cold]
    fn refill(&mut self, line: u64) {
        loop {
            let (mut left, mut short) = (false, None);
            self.probe_stash(line, |slot, [place, tail]| {
                let (bin, fp) = (place >> self.bin_shift(), self.stashed_fingerprint(place, tail));
                if self.line(bin, fp.bucket) == line {
                    left = true;
                    if fp.len <= self.r + CHUNK {
                        short = Some((slot, bin, fp));
                    }
                }
                short.is_none()
            });
            if !left {
                self.line_words_mut(line)[WORDS - 1] &= !SPILLED;
            }
            match short {
                Some((slot, bin, fp)) if self.insert_in_line(bin, line, &fp) => {
                    self.remove_stashed(slot, 1);
                }
                _ => return,
            }
        }
    }

    /// Returns the stash slot where the probe for a line's entries begins.
    fn home(&self, line: u64) -> u64 {
        scale(mix(line), self.slots())
    }

    fn stash_entry(&self, slot: u64) -> [u64; 2] {
        self.stash.as_chunks().0[slot as usize]
    }

    fn set_stash_entry(&mut self, slot: u64, entry: [u64; 2]) {
        self.stash.to_mut().as_chunks_mut().0[slot as usize] = entry;
    }

    fn next_slot(&self, slot: u64) -> u64 {
        if slot + 1 == self.slots() { 0 } else { slot + 1 }
    }

    /// Calls `go_on` with each stash entry from the line's home slot on, until it returns false or
    /// a slot is empty.
    fn probe_stash(&self, line: u64, mut go_on: impl FnMut(u64, [u64; 2]) -> bool) {
        let mut slot = self.home(line);
        for _ in 0..self.slots() {
            let entry = self.stash_entry(slot);
            if entry[1] == 0 || !go_on(slot, entry) {
                return;
            }
            slot = self.next_slot(slot);
        }
    }

    fn insert_in_stash(
        &mut self,
        bin: u64,
        line: u64,
        fp: &Fingerprint,
        times: u64,
    ) -> Result<(), Full> {
        let place = bin << self.bin_shift() | u64::from(fp.bucket) << COUNT_BITS | times;
        let tail = fp.tail | 1 << (63 - fp.len);
        let mut same = None;
        self.probe_stash(line, |slot, [other, of]| {
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
            slot = self.next_slot(slot);
        }
        self.set_stash_entry(slot, [place, tail]);
        self.entries += 1;
        Ok(())
    }

    /// Doubles the stash.
    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        let slots = usize::try_from(self.slots()).map_err(|_| Full::NONE)?;
        let larger =
            Words::zeroed(slots.checked_mul(4).ok_or(Full::NONE)?).map_err(|_| Full::NONE)?;
        let smaller = core::mem::replace(&mut self.stash, larger);
        self.entries = 0;
        for [place, tail] in smaller.as_chunks().0 {
            if *tail != 0 {
                let (bin, fp) =
                    (place >> self.bin_shift(), self.stashed_fingerprint(*place, *tail));
                let (line, times) = (self.line(bin, fp.bucket), place & packed::mask(COUNT_BITS));
                self.insert_in_stash(bin, line, &fp, times).expect("half of the stash is free");
            }
        }
        Ok(())
    }

    /// Removes `times` copies from an entry, and the entry with its last copy; later entries then
    /// close the gap.
    fn remove_stashed(&mut self, slot: u64, times: u64) {
        let [place, tail] = self.stash_entry(slot);
        if place & packed::mask(COUNT_BITS) > times {
            return self.set_stash_entry(slot, [place - times, tail]);
        }
        self.entries -= 1;
        let (mut gap, mut slot) = (slot, slot);
        for _ in 0..self.slots() {
            slot = self.next_slot(slot);
            let [place, tail] = self.stash_entry(slot);
            if tail == 0 {
                break;
            }
            let fp = self.stashed_fingerprint(place, tail);
            let home = self.home(self.line(place >> self.bin_shift(), fp.bucket));
            // It may move to the gap unless its home slot lies cyclically after the gap.
            let all = self.slots();
            if (slot + all - home) % all >= (slot + all - gap) % all {
                self.set_stash_entry(gap, [place, tail]);
                gap = slot;
            }
        }
        self.set_stash_entry(gap, [0, 0]);
    }

    /// Returns whether every stash entry is valid and an empty slot ends every probe.
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

    /// Returns the number of fingerprints, or a description of what is invalid.
    pub(super) fn check(
        &self,
        bins: u64,
        buckets: u32,
        may_overflow: impl Fn(u64, u32) -> bool,
    ) -> Result<u64, &'static str> {
        let mut count = 0;
        let belongs = |line: u64, bin: u64, fp: &Fingerprint| {
            bin < bins
                && fp.bucket < buckets
                && self.line(bin, fp.bucket) == line
                && may_overflow(bin, fp.bucket)
        };
        let (per_line, used) = (
            fingerprints_per_line(self.r),
            u64::from(fingerprints_per_line(self.r) * width(self.r)),
        );
        for line in 0..self.words.len() as u64 / WORDS as u64 {
            for index in 0..per_line {
                let entry = self.entry(line, index);
                if entry == 0 {
                    continue;
                }
                let (place, fp) = self.unpack(entry);
                let bin = line / self.lines * self.group + place;
                if place >= self.group || !belongs(line, bin, &fp) || self.pack(bin, &fp) != entry {
                    return Err("an overflow line has an entry of another line");
                }
                count += 1;
            }
            let spare = (used..511).all(|bit| get_bits(self.line_words(line), bit, 1) == 0);
            let mut spilled = false;
            self.probe_stash(line, |_, [place, tail]| {
                spilled |= self
                    .line(place >> self.bin_shift(), self.stashed_fingerprint(place, tail).bucket)
                    == line;
                !spilled
            });
            if !spare || spilled != self.spilled(line) {
                return Err("the stash bit of an overflow line is wrong");
            }
        }
        for (slot, &[place, tail]) in self.stash.as_chunks::<2>().0.iter().enumerate() {
            if tail == 0 {
                continue;
            }
            let (bin, fp) = (place >> self.bin_shift(), self.stashed_fingerprint(place, tail));
            let line = self.line(bin, fp.bucket);
            let mut found = false;
            self.probe_stash(line, |at, _| {
                found = at == slot as u64;
                !found
            });
            if !found || !belongs(line, bin, &fp) {
                return Err("a stash entry cannot be found");
            }
            count += place & packed::mask(COUNT_BITS);
        }
        Ok(count)
    }

    fn bin_shift(&self) -> u32 {
        COUNT_BITS + self.bucket_bits
    }

    /// Decodes the fingerprint of a stash entry.
    fn stashed_fingerprint(&self, place: u64, tail: u64) -> Fingerprint {
        let end = tail.trailing_zeros();
        let bucket = (place >> COUNT_BITS & packed::mask(self.bucket_bits)) as u32;
        Fingerprint { bucket, tail: tail & (tail - 1), len: 63 - end }
    }
}
