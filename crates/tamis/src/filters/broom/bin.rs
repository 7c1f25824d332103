//! A bin: one cache line, or two adjacent ones, with the fingerprints of the keys that hash to it.
//!
//! ```text
//!  bit 0       12          12+b      12+b+s                                        512
//!  ┌───────────┬───────────┬─────────┬──────────────────────┬─────────┬─────────────┐
//!  │ head      │ index     │ ends    │ remainders, r each   │ free    │ extensions  │
//!  └───────────┴───────────┴─────────┴──────────────────────┴─────────┴─────────────┘
//!   epoch 1     bucket i    slot j is   slot 0, slot 1, …  ──►     ◄── 12 bits each: slot 6,
//!   salt 6      has keys    the last of                                a 1 and up to 5 bits
//!   overflow 1              its bucket
//!   extensions 4                        in two lines: 5 to count them, 7 for a slot
//! ```
//!
//! Slots are in the order of their buckets. The n-th set bit of the index corresponds to the n-th
//! set bit of the ends, so rank and select find the slots of a bucket. Extensions grow down from
//! the end into unused slots, in ascending order of their slots; an extension of more than 5 bits
//! takes several entries. Where remainders are wide, the first [`NEAR`] bits of each are in the
//! line and the others in a separate array.
//!
//! The number of lines of a bin is a field of [`Layout`] like the others. Lookups and insertions
//! have a separate instance for bins of one line: everything that they call is inlined, so that
//! only one word of marks is read there.

mod fill;
mod inspect;

use alloc::vec::Vec;

use tamis_bits::lanes::word_at;
use tamis_bits::packed::mask;
use tamis_bits::select::{Bits, Portable};

use super::fields::{get_bits, set_bits, shift_down, shift_up};

/// Remainders up to this width are stored whole in the line.
pub(super) const WHOLE: u32 = 12;
/// Bits in the line of a wider remainder: 1 in 256 non-members that meet an occupied bucket read
/// further.
pub(super) const NEAR: u32 = 8;
/// The widest remainder. The other bits of a key's 64 are left for extensions.
pub(super) const MAX_REMAINDER: u32 = 40;
/// The most slots of a bin, which has two lines then.
pub(super) const MAX_SLOTS: u32 = 128;
/// Bits of a tail that are uniformly random: the bucket uses up to 7.
pub(super) const TAIL: u32 = 57;
const SALT: u64 = 63;
const OVERFLOW: u64 = 1 << 7;
const EXTENSIONS: u32 = 8;
/// Payload bits of an extension entry.
pub(super) const CHUNK: u32 = 5;

/// Bits that a window has at least.
const WINDOW: u32 = 57;
/// For each width of a remainder in the line, the lowest bit of each lane of a window.
const ONES: [u64; 16] = {
    let (mut all, mut width) = ([0; 16], 1);
    while width < 16 {
        let mut bit = 0;
        while bit < 64 {
            all[width] |= 1 << bit;
            bit += width;
        }
        width += 1;
    }
    all
};

/// The fingerprint of a key in its bin: its bucket and the first `len` bits of its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) bucket: u32,
    /// Left-aligned, with zeros after `len` bits.
    pub(super) tail: u64,
    /// Bits of the remainder and the extension.
    pub(super) len: u32,
}

impl Fingerprint {
    /// Returns the fingerprint of the first `len` bits of an address.
    #[inline(always)]
    pub(super) fn new(address: Address, len: u32) -> Self {
        Self { bucket: address.bucket, tail: address.tail & !mask(64 - len), len }
    }

    /// Returns whether the fingerprint is a prefix of the address.
    #[inline(always)]
    pub(super) fn matches(&self, address: Address) -> bool {
        self.bucket == address.bucket && (self.tail ^ address.tail) >> (64 - self.len) == 0
    }
}

/// The address of a key in its bin under the bin's hash function: all bits that a fingerprint can
/// be a prefix of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) bucket: u32,
    /// The remainder, then the bits of extensions, from the top bit down.
    pub(super) tail: u64,
}

impl Address {
    /// Returns the length of the common prefix of both tails.
    pub(super) fn common(self, other: Self) -> u32 {
        (self.tail ^ other.tail).leading_zeros()
    }
}

/// The layout of bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Cache lines: 1 or 2.
    pub(super) lines: u32,
    /// Buckets.
    pub(super) b: u32,
    /// Slots.
    pub(super) s: u32,
    /// Bits of a remainder.
    pub(super) r: u32,
}

/// A read view of a bin and the far bits of its remainders.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) layout: Layout,
    pub(super) line: &'a [u64],
    pub(super) far: &'a [u64],
    /// The position in `far` of the bits of slot 0.
    pub(super) at: u64,
}

/// A write view of a bin and the far bits of its remainders.
pub(super) struct ViewMut<'a> {
    pub(super) layout: Layout,
    pub(super) line: &'a mut [u64],
    pub(super) far: &'a mut [u64],
    pub(super) at: u64,
}

impl Layout {
    /// Returns the largest number of buckets: index and head share one word per line.
    pub(super) const fn max_buckets(lines: u32) -> u32 {
        64 * lines - 13
    }

    /// Returns the largest number of slots for `b` buckets and remainders of `r` bits that leaves
    /// room for one extension per line.
    pub(super) fn max_slots(lines: u32, b: u32, r: u32) -> u32 {
        let empty = Self { lines, b, s: 0, r };
        let room = empty.bits() - empty.first_slot() - lines * empty.entry();
        (room / (1 + empty.near())).min(64 * lines)
    }

    #[inline(always)]
    pub(super) fn words(&self) -> usize {
        8 * self.lines as usize
    }

    #[inline(always)]
    fn bits(&self) -> u32 {
        512 * self.lines
    }

    /// Returns the number of bits before the index.
    #[inline(always)]
    fn head(&self) -> u32 {
        11 + self.lines
    }

    /// Returns the width of an extension entry.
    #[inline(always)]
    fn entry(&self) -> u32 {
        11 + self.lines
    }

    /// Returns the largest number of entries that the head can count.
    #[inline(always)]
    fn max_entries(&self) -> u32 {
        16 * self.lines - 1
    }

    /// Returns the number of remainder bits in the line.
    #[inline(always)]
    pub(super) fn near(&self) -> u32 {
        if self.r <= WHOLE { self.r } else { NEAR }
    }

    /// Returns the number of remainder bits in the separate array.
    #[inline(always)]
    pub(super) fn far(&self) -> u32 {
        self.r - self.near()
    }

    #[inline(always)]
    fn first_slot(&self) -> u32 {
        self.head() + self.b + self.s
    }

    /// Returns whether this number of slots and entries fits.
    #[inline(always)]
    fn fits(&self, slots: u32, entries: u32) -> bool {
        slots <= self.s
            && entries <= self.max_entries()
            && self.first_slot() + slots * self.near() + entries * self.entry() <= self.bits()
    }

    /// Returns the average number of repairs that fit into a bin of `keys` keys.
    pub(super) fn repairs(&self, keys: f64) -> f64 {
        let free = f64::from(self.bits() - self.first_slot()) - keys * f64::from(self.near());
        (free / f64::from(self.entry())).clamp(1.0, self.max_entries().into())
    }

    /// Returns how many of the fingerprints, from the first on, fit. They must be in the order of
    /// their buckets.
    pub(super) fn fitting(&self, fingerprints: &[Fingerprint]) -> usize {
        let mut entries = 0;
        let fits = |(slot, fp): (usize, &Fingerprint)| {
            entries += (fp.len - self.r).div_ceil(CHUNK);
            self.fits(slot as u32 + 1, entries)
        };
        fingerprints.iter().enumerate().map(fits).take_while(|fits| *fits).count()
    }
}

/// A bit for each bucket or slot: one word per line of a bin.
#[derive(Clone, Copy)]
struct Marks {
    two: bool,
    low: u64,
    high: u64,
}

impl Marks {
    #[inline(always)]
    fn all(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    #[inline(always)]
    fn of(two: bool, all: u128) -> Self {
        Self { two, low: all as u64, high: (all >> 64) as u64 }
    }

    /// Returns the marks from `at` on, shifted to bit 0.
    #[inline(always)]
    fn from(self, at: u32) -> u128 {
        if self.two { self.all() >> at } else { u128::from(self.low >> at) }
    }

    #[inline(always)]
    fn has(self, at: u32) -> bool {
        self.from(at) & 1 == 1
    }

    /// Returns the position after the last mark.
    #[inline(always)]
    fn end(self) -> u32 {
        if self.two { 128 - self.all().leading_zeros() } else { 64 - self.low.leading_zeros() }
    }

    /// Returns the number of marks below `below`, like [`Bits::rank`].
    #[inline(always)]
    fn rank(self, bits: impl Bits, below: u32) -> u32 {
        if self.two && below >= 64 {
            self.low.count_ones() + bits.rank(self.high, below - 64)
        } else {
            bits.rank(self.low, below)
        }
    }

    /// Returns the position of mark `n`, like [`Bits::select`].
    #[inline(always)]
    fn select(self, bits: impl Bits, n: u32) -> u32 {
        if self.two && n >= self.low.count_ones() {
            // `n` is too large only in a damaged file.
            64 + bits.select(self.high, (n - self.low.count_ones()).min(63))
        } else {
            bits.select(self.low, n)
        }
    }

    /// Inserts a mark at `at`; later marks move up.
    #[inline(always)]
    fn insert(self, at: u32, mark: bool) -> Self {
        if self.two {
            let (all, below) = (self.all(), (1u128 << at) - 1);
            let mark = u128::from(mark) << at;
            return Self::of(true, all & below | mark | (all & !below) << 1);
        }
        let below = mask(at);
        let low = self.low & below | u64::from(mark) << at | (self.low & !below) << 1;
        Self { low, ..self }
    }

    /// Removes the mark at `at`; later marks move down.
    fn remove(self, at: u32) -> Self {
        let below = (1u128 << at) - 1;
        Self::of(self.two, self.all() & below | self.all() >> 1 & !below)
    }
}

/// Returns the hash function of a bin: epoch and salt.
#[inline(always)]
pub(super) fn function(line: &[u64]) -> (u64, u64) {
    (line[0] & 1, line[0] >> 1 & SALT)
}

/// The last salt.
pub(super) const LAST_SALT: u64 = SALT;

impl View<'_> {
    #[inline(always)]
    fn two(&self) -> bool {
        self.layout.lines == 2
    }

    /// Returns `count` marks from bit `from` of the lines on.
    #[inline(always)]
    fn marks(&self, from: u32, count: u32) -> Marks {
        let from = u64::from(from);
        let low = get_bits(self.line, from, count.min(64));
        Marks { two: true, low, high: get_bits(self.line, from + 64, count.saturating_sub(64)) }
    }

    #[inline(always)]
    fn index(&self) -> Marks {
        let Layout { b, .. } = self.layout;
        if self.two() {
            return self.marks(self.layout.head(), b);
        }
        Marks { two: false, low: self.line[0] >> self.layout.head() & mask(b), high: 0 }
    }

    #[inline(always)]
    fn ends(&self) -> Marks {
        let Layout { b, s, .. } = self.layout;
        let from = self.layout.head() + b;
        if self.two() {
            return self.marks(from, s);
        }
        // `from` is at most 63, so the other shift is at least 1.
        let low = (self.line[0] >> from | self.line[1] << (64 - from)) & mask(s);
        Marks { two: false, low, high: 0 }
    }

    /// Returns the number of slots in use.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        self.ends().end()
    }

    #[inline(always)]
    fn extensions(&self) -> u32 {
        (self.line[0] >> EXTENSIONS) as u32 & self.layout.max_entries()
    }

    /// Returns whether some keys of this bin are in the overflow.
    #[inline(always)]
    pub(super) fn overflows(&self) -> bool {
        self.line[0] & OVERFLOW != 0
    }

    /// Returns the first bucket that may have keys in the overflow: the last bucket with a key in
    /// the bin.
    #[inline(always)]
    pub(super) fn last_bucket(&self) -> u32 {
        self.index().end().saturating_sub(1)
    }

    /// Returns whether a key of this bucket may be in the overflow: the bin overflows, and no later
    /// bucket has a key. It is one comparison, because a branch on the bin's bit alone would be
    /// mispredicted.
    #[inline(always)]
    pub(super) fn may_overflow(&self, bucket: u32) -> bool {
        let later = self.index().from(bucket) >> 1;
        later | u128::from(!self.line[0] & OVERFLOW) == 0
    }

    /// Returns whether the counts agree. They do, except in a damaged file.
    #[inline(always)]
    pub(super) fn is_sound(&self) -> bool {
        let (used, entries) = (self.used(), self.extensions());
        self.index().all().count_ones() == self.ends().all().count_ones()
            && self.layout.fits(used, entries)
            && (entries == 0 || (0..entries).all(|i| self.entry(i).0 < used))
    }

    /// Returns the slot and the code of extension entry `i`.
    #[inline(always)]
    fn entry(&self, i: u32) -> (u32, u32) {
        let width = self.layout.entry();
        let entry =
            get_bits(self.line, u64::from(self.layout.bits() - width * (i + 1)), width) as u32;
        (entry >> 6, entry & 63)
    }

    /// Returns the bits of a slot's remainder that are in the line.
    #[inline(always)]
    fn near(&self, slot: u32) -> u64 {
        let near = self.layout.near();
        get_bits(self.line, u64::from(self.layout.first_slot() + slot * near), near)
    }

    #[inline(always)]
    fn far(&self, slot: u32) -> u64 {
        let far = self.layout.far();
        get_bits(self.far, self.at + u64::from(slot * far), far)
    }

    /// Returns the slots of a bucket, as start and end.
    #[inline(always)]
    fn run(&self, bits: impl Bits, bucket: u32) -> (u32, u32) {
        let index = self.index();
        if !index.has(bucket) {
            return (0, 0);
        }
        let (nth, ends) = (index.rank(bits, bucket), self.ends());
        let start = if nth == 0 { 0 } else { ends.select(bits, nth - 1) + 1 };
        (start, (ends.select(bits, nth) + 1).min(self.layout.s))
    }

    /// Returns whether the slot's remainder equals that of the tail.
    #[inline(always)]
    fn remainder_matches(&self, slot: u32, tail: u64) -> bool {
        let Layout { r, .. } = self.layout;
        let near = self.layout.near();
        self.near(slot) == tail >> (64 - near)
            && (near == r || self.far(slot) == tail >> (64 - r) & mask(r - near))
    }

    /// Returns the extension of a slot: its bits, left-aligned, and its length.
    fn extension(&self, slot: u32) -> (u64, u32) {
        let (mut bits, mut len) = (0, 0);
        for i in 0..self.extensions() {
            let (of, code) = self.entry(i);
            let more = 31 - code.max(1).leading_zeros();
            if of == slot && more > 0 && len <= 64 - CHUNK {
                bits |= (u64::from(code) & mask(more)) << (64 - len - more);
                len += more;
            }
        }
        (bits, len)
    }

    /// Returns whether some fingerprint in the bin matches the address.
    ///
    /// All slots of the bucket are compared at once, also those of another one if the bucket is empty:
    /// neither case has a branch that would be mispredicted.
    #[inline(always)]
    pub(super) fn contains(&self, bits: impl Bits, address: Address) -> bool {
        let Layout { r, .. } = self.layout;
        let near = self.layout.near();
        if self.two() || near < r {
            return self.contains_in_turn(bits, address);
        }
        let (index, ends) = (self.index().low, self.ends().low);
        let start = bits.select(ends << 1 | 1, bits.rank(index, address.bucket)) % 64;
        let len = (ends >> start).trailing_zeros() + 1;
        if len * near > WINDOW {
            return self.contains_rarely(address);
        }
        let ones = ONES[near as usize % ONES.len()];
        let lanes = self.window(self.layout.first_slot() + start * near)
            ^ ones.wrapping_mul(address.tail >> (64 - near));
        // All bits of the slots, or none if the bucket is empty. A condition would become a branch, which
        // is mispredicted, since half of the non-members have an empty bucket.
        let occupied = index >> address.bucket & 1;
        let slots = (occupied << (len * near)) - occupied;
        // Marks lanes that are zero. The lowest mark is right, higher ones may be wrong.
        let equal = lanes.wrapping_sub(ones) & !lanes & ones << (near - 1) & slots;
        if equal == 0 {
            return false;
        }
        self.extensions() == 0 || self.contains_rarely(address)
    }

    /// Returns the bits of the line from `bit` on, [`WINDOW`] or up to the end.
    #[inline(always)]
    fn window(&self, bit: u32) -> u64 {
        let byte = (bit / 8).min(self.layout.bits() / 8 - 8);
        word_at(self.line, byte.into()) >> ((bit - byte * 8) % 64)
    }

    /// Does the same for many slots or extensions. Takes a copy, so that other lookups need not keep the
    /// view in memory.
    #[cold]
    #[inline(never)]
    fn contains_rarely(self, address: Address) -> bool {
        self.contains_in_turn(Portable, address)
    }

    /// Does the same slot by slot, for any layout.
    #[inline(always)]
    fn contains_in_turn(&self, bits: impl Bits, address: Address) -> bool {
        let (start, end) = self.run(bits, address.bucket);
        let mut slot = start;
        while slot < end {
            if self.remainder_matches(slot, address.tail)
                && (self.extensions() == 0 || self.extension_matches(slot, address.tail).is_some())
            {
                return true;
            }
            slot += 1;
        }
        false
    }

    /// Returns the length of a slot's extension if it matches the tail. The remainder must match.
    #[cold]
    fn extension_matches(&self, slot: u32, tail: u64) -> Option<u32> {
        let (bits, len) = self.extension(slot);
        let same = len == 0 || (bits ^ tail << self.layout.r) >> (64 - len) == 0;
        same.then_some(len)
    }

    /// Returns whether a lookup reads bits outside the line.
    #[cfg(test)]
    pub(super) fn reads_far(&self, bits: impl Bits, address: Address) -> bool {
        let (start, end) = self.run(bits, address.bucket);
        (start..end).any(|slot| self.near(slot) == address.tail >> (64 - self.layout.near()))
    }

    /// Returns the number of lines that a lookup reads: head, index and ends are in the first.
    #[cfg(test)]
    pub(super) fn lines(&self, bits: impl Bits, address: Address) -> u32 {
        let (start, end) = self.run(bits, address.bucket);
        let past = |slot: u32| self.layout.first_slot() + (slot + 1) * self.layout.near() > 512;
        let second = (start..end).any(past) || self.extensions() > 0;
        1 + u32::from(self.layout.lines == 2 && second)
    }

    /// Returns the slot and length of the longest fingerprint that matches the address.
    pub(super) fn longest_match(&self, bits: impl Bits, address: Address) -> Option<(u32, u32)> {
        let (start, end) = self.run(bits, address.bucket);
        (start..end)
            .filter(|slot| self.remainder_matches(*slot, address.tail))
            .filter_map(|slot| {
                Some((slot, self.layout.r + self.extension_matches(slot, address.tail)?))
            })
            .max_by_key(|(_, len)| *len)
    }

    /// Returns the fingerprint in a slot of a bucket.
    fn fingerprint(&self, bucket: u32, slot: u32) -> Fingerprint {
        let Layout { r, .. } = self.layout;
        let near = self.layout.near();
        let far = if near == r { 0 } else { self.far(slot) << (64 - r) };
        let (bits, len) = self.extension(slot);
        // A damaged file may state too many bits.
        let len = len.min(TAIL - r);
        let tail = self.near(slot) << (64 - near) | far | bits >> r;
        Fingerprint { bucket, tail: tail & !mask(64 - r - len), len: r + len }
    }

    /// Returns the fingerprint in the last slot in use.
    pub(super) fn last(&self) -> Option<Fingerprint> {
        let last = self.used().checked_sub(1)?;
        Some(self.fingerprint(self.last_bucket(), last))
    }

    /// Appends all fingerprints, in the order of their slots.
    pub(super) fn fingerprints(&self, into: &mut Vec<Fingerprint>) {
        let (mut index, ends) = (self.index().all(), self.ends());
        for slot in 0..self.used() {
            // A damaged file may have more ends than buckets.
            let bucket = if index == 0 { self.last_bucket() } else { index.trailing_zeros() };
            into.push(self.fingerprint(bucket, slot));
            if ends.has(slot) {
                index &= index.wrapping_sub(1);
            }
        }
    }

    /// Returns a description of what is invalid, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if !self.is_sound() {
            return Some("a bin's counts do not agree");
        }
        let Layout { s, r, .. } = self.layout;
        let (used, entries) = (self.used(), self.extensions());
        let free = u64::from(self.layout.first_slot() + used * self.layout.near());
        let free_bits = self.layout.bits() - self.layout.entry() * entries - free as u32;
        let far = self.layout.far();
        let zero = |words: &[u64], from: u64, count: u32| {
            (0..count)
                .step_by(32)
                .all(|i| get_bits(words, from + u64::from(i), (count - i).min(32)) == 0)
        };
        let idle = self.at + u64::from(used * far);
        if !zero(self.line, free, free_bits) || !zero(self.far, idle, (s - used) * far) {
            return Some("an unused slot is not zero");
        }
        let codes = (0..entries).all(|i| {
            let (slot, code) = self.entry(i);
            let whole = code >= 1 << CHUNK;
            let follows = i + 1 < entries && self.entry(i + 1).0 == slot;
            let ascends = i == 0 || self.entry(i - 1).0 <= slot;
            code > 1 && ascends && (whole || !follows)
        });
        let long = (0..used).any(|slot| r + self.extension(slot).1 > TAIL);
        if !codes || long {
            return Some("an extension of a bin is invalid");
        }
        None
    }
}

impl ViewMut<'_> {
    #[inline(always)]
    pub(super) fn view(&self) -> View<'_> {
        View { layout: self.layout, line: self.line, far: self.far, at: self.at }
    }

    #[inline(always)]
    fn set_ends(&mut self, ends: Marks) {
        let Layout { b, s, .. } = self.layout;
        let from = u64::from(self.layout.head() + b);
        set_bits(self.line, from, s.min(64), ends.low);
        if ends.two {
            set_bits(self.line, from + 64, s.saturating_sub(64), ends.high);
        }
    }

    #[inline(always)]
    fn set_index(&mut self, index: Marks) {
        let (from, b) = (u64::from(self.layout.head()), self.layout.b);
        set_bits(self.line, from, b.min(64), index.low);
        if index.two {
            set_bits(self.line, from + 64, b.saturating_sub(64), index.high);
        }
    }

    /// Sets whether a bucket has slots.
    #[inline(always)]
    fn set_bucket(&mut self, bucket: u32, has: bool) {
        let bit = self.layout.head() + bucket;
        let word = if self.layout.lines == 2 {
            &mut self.line[bit as usize / 64]
        } else {
            &mut self.line[0]
        };
        *word = *word & !(1 << (bit % 64)) | u64::from(has) << (bit % 64);
    }

    pub(super) fn set_overflow(&mut self, overflows: bool) {
        self.line[0] = self.line[0] & !OVERFLOW | if overflows { OVERFLOW } else { 0 };
    }

    pub(super) fn set_function(&mut self, epoch: u64, salt: u64) {
        self.line[0] = self.line[0] & !(1 | SALT << 1) | epoch & 1 | (salt & SALT) << 1;
    }

    fn set_extensions(&mut self, count: u32) {
        let counts = u64::from(self.layout.max_entries());
        self.line[0] = self.line[0] & !(counts << EXTENSIONS) | u64::from(count) << EXTENSIONS;
    }

    /// Returns whether there is room for another fingerprint without an extension.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        let view = self.view();
        self.layout.fits(view.used() + 1, view.extensions())
    }

    /// Inserts a fingerprint without an extension before the others of its bucket. There must be
    /// room.
    #[inline(always)]
    pub(super) fn insert(&mut self, bits: impl Bits, address: Address) {
        let Layout { r, .. } = self.layout;
        let (near, far) = (self.layout.near(), self.layout.far());
        let view = self.view();
        let (index, ends, used) = (view.index(), view.ends(), view.used());
        let nth = index.rank(bits, address.bucket);
        let slot = if nth == 0 { 0 } else { (ends.select(bits, nth - 1) + 1).min(used) };
        let new = !index.has(address.bucket);
        self.set_bucket(address.bucket, true);
        self.set_ends(ends.insert(slot, new));
        let first = u64::from(self.layout.first_slot());
        let (from, to) = (first + u64::from(slot * near), first + u64::from(used * near));
        shift_up(self.line, from, to, near);
        set_bits(self.line, from, near, address.tail >> (64 - near));
        if far > 0 {
            let (from, to) = (self.at + u64::from(slot * far), self.at + u64::from(used * far));
            shift_up(self.far, from, to, far);
            set_bits(self.far, from, far, address.tail >> (64 - r) & mask(far));
        }
        if self.view().extensions() > 0 {
            self.renumber(slot, 1);
        }
    }

    /// Adds `by` to the slot numbers from `from` on in the extension entries.
    #[cold]
    fn renumber(&mut self, from: u32, by: i32) {
        for i in 0..self.view().extensions() {
            let (slot, code) = self.view().entry(i);
            if slot >= from {
                let slot = slot.saturating_add_signed(by).min(64 * self.layout.lines - 1);
                self.set_entry(i, slot, code);
            }
        }
    }

    fn set_entry(&mut self, i: u32, slot: u32, code: u32) {
        let width = self.layout.entry();
        let at = self.layout.bits() - width * (i + 1);
        set_bits(self.line, u64::from(at), width, u64::from(slot << 6 | code));
    }

    /// Removes the fingerprint in slot `slot` of bucket `bucket`.
    pub(super) fn remove(&mut self, bits: impl Bits, bucket: u32, slot: u32) {
        let (near, far) = (self.layout.near(), self.layout.far());
        let view = self.view();
        let (ends, used) = (view.ends(), view.used());
        let (start, end) = view.run(bits, bucket);
        if slot < start || slot >= end {
            return; // only in a damaged file
        }
        let mut ends = ends;
        if end - start == 1 {
            self.set_bucket(bucket, false);
        } else if slot + 1 == end {
            ends = Marks::of(ends.two, ends.all() | 1 << (slot - 1));
        }
        self.set_ends(ends.remove(slot));
        let first = u64::from(self.layout.first_slot());
        let at = |slot: u32| first + u64::from(slot * near);
        shift_down(self.line, at(slot + 1), at(used), near);
        if far > 0 {
            let at = |slot: u32, begin: u64| begin + u64::from(slot * far);
            shift_down(self.far, at(slot + 1, self.at), at(used, self.at), far);
        }
        if self.view().extensions() > 0 {
            self.remove_entries(slot);
            self.renumber(slot, -1);
        }
    }

    /// Removes the extension entries of a slot; later entries move up.
    #[cold]
    fn remove_entries(&mut self, slot: u32) {
        let (count, mut kept) = (self.view().extensions(), 0);
        for i in 0..count {
            let (of, code) = self.view().entry(i);
            if of != slot {
                self.set_entry(kept, of, code);
                kept += 1;
            }
        }
        (kept..count).for_each(|i| self.set_entry(i, 0, 0));
        self.set_extensions(kept);
    }
}
