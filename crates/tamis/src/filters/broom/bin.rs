//! A bin: a cache line, or two adjacent ones, that holds the fingerprints of the keys that fall into it.
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
//! Slots are in the order of their buckets. The n-th set bit of the index has the n-th set bit of
//! the ends: a bucket's slots are found by counting and finding bits. Extensions grow down from the
//! end into slots that are not in use, ascending by slot; an extension of more than five bits is
//! several entries. Where remainders are wide, the first [`NEAR`] bits of each are in the line and
//! the rest is in an array beside it.
//!
//! How many lines a bin has is a number of the [`Layout`] like the others. Queries and insertions of
//! bins of one line are compiled for these alone: all that they call is inlined, so that there no
//! more than one word of marks is looked at.

use tamis_bits::packed::mask;
use tamis_bits::select::Bits;

/// Remainders up to this width are wholly in the line.
pub(super) const WHOLE: u32 = 12;
/// Bits in the line of a wider one: 1 stranger in 256 that meets a taken bucket looks further.
pub(super) const NEAR: u32 = 8;
/// The widest remainder: what is left of a key's 64 bits are extensions.
pub(super) const MAX_REMAINDER: u32 = 40;
/// Bits of a tail that are as good as random: the bucket has taken up to seven.
pub(super) const TAIL: u32 = 57;
const SALT: u64 = 63;
const OVERFLOW: u64 = 1 << 7;
const EXTENSIONS: u32 = 8;
/// Bits of an extension entry that extend.
pub(super) const CHUNK: u32 = 5;

/// What a bin remembers of a key: its bucket, and the first `len` bits of its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Print {
    pub(super) bucket: u32,
    /// Left-aligned; zeros after `len` bits.
    pub(super) tail: u64,
    /// Remainder and extension.
    pub(super) len: u32,
}

impl Print {
    /// The first `len` bits of a key that falls there.
    #[inline(always)]
    pub(super) fn new(spot: Spot, len: u32) -> Self {
        Self { bucket: spot.bucket, tail: spot.tail & !mask(64 - len), len }
    }

    /// Whether it stands for what falls there.
    #[inline(always)]
    pub(super) fn matches(&self, spot: Spot) -> bool {
        self.bucket == spot.bucket && (self.tail ^ spot.tail) >> (64 - self.len) == 0
    }
}

/// Where a key falls in its bin under the bin's hash function: the whole fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) bucket: u32,
    /// Remainder, then whatever extends it, from the top bit down.
    pub(super) tail: u64,
}

impl Spot {
    /// Bits of the tail that both have in common.
    pub(super) fn common(self, other: Self) -> u32 {
        (self.tail ^ other.tail).leading_zeros()
    }
}

/// How bins are laid out.
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

/// A bin and the far bits of its remainders, to read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) layout: Layout,
    pub(super) line: &'a [u64],
    pub(super) far: &'a [u64],
    /// Where in `far` the bits of slot 0 are.
    pub(super) at: u64,
}

/// The same to change.
pub(super) struct ViewMut<'a> {
    pub(super) layout: Layout,
    pub(super) line: &'a mut [u64],
    pub(super) far: &'a mut [u64],
    pub(super) at: u64,
}

impl Layout {
    /// The index and the head share a word of each line.
    pub(super) const fn most_buckets(lines: u32) -> u32 {
        64 * lines - 13
    }

    /// The most slots with so many buckets and bits of a remainder, an extension for each line being
    /// left.
    pub(super) fn most_slots(lines: u32, b: u32, r: u32) -> u32 {
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

    /// Bits before the index.
    #[inline(always)]
    fn head(&self) -> u32 {
        11 + self.lines
    }

    /// Bits of an extension entry.
    #[inline(always)]
    fn entry(&self) -> u32 {
        11 + self.lines
    }

    /// Entries that the head can count.
    #[inline(always)]
    fn most_entries(&self) -> u32 {
        16 * self.lines - 1
    }

    /// Bits of a remainder in the line.
    #[inline(always)]
    pub(super) fn near(&self) -> u32 {
        if self.r <= WHOLE { self.r } else { NEAR }
    }

    /// Bits of a remainder beside it.
    #[inline(always)]
    pub(super) fn far(&self) -> u32 {
        self.r - self.near()
    }

    #[inline(always)]
    fn first_slot(&self) -> u32 {
        self.head() + self.b + self.s
    }

    /// Whether so many slots and entries fit.
    #[inline(always)]
    fn fits(&self, slots: u32, entries: u32) -> bool {
        slots <= self.s
            && entries <= self.most_entries()
            && self.first_slot() + slots * self.near() + entries * self.entry() <= self.bits()
    }

    /// Repairs that a bin of so many keys has room for on average.
    pub(super) fn repairs(&self, keys: f64) -> f64 {
        let free = f64::from(self.bits() - self.first_slot()) - keys * f64::from(self.near());
        (free / f64::from(self.entry())).clamp(1.0, self.most_entries().into())
    }

    /// How many of these prints, from the first on, fit; they are in the order of their buckets.
    pub(super) fn fitting(&self, prints: &[Print]) -> usize {
        let mut entries = 0;
        let fits = |(slot, print): (usize, &Print)| {
            entries += (print.len - self.r).div_ceil(CHUNK);
            self.fits(slot as u32 + 1, entries)
        };
        prints.iter().enumerate().map(fits).take_while(|fits| *fits).count()
    }
}

/// Marks of buckets or of slots: a word for each line of a bin.
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

    /// Those from `at` on, at the lowest place.
    #[inline(always)]
    fn from(self, at: u32) -> u128 {
        if self.two { self.all() >> at } else { u128::from(self.low >> at) }
    }

    #[inline(always)]
    fn has(self, at: u32) -> bool {
        self.from(at) & 1 == 1
    }

    /// The place after the last.
    #[inline(always)]
    fn end(self) -> u32 {
        if self.two { 128 - self.all().leading_zeros() } else { 64 - self.low.leading_zeros() }
    }

    /// As [`Bits::rank`] for both words.
    #[inline(always)]
    fn rank(self, bits: impl Bits, below: u32) -> u32 {
        if self.two && below >= 64 {
            self.low.count_ones() + bits.rank(self.high, below - 64)
        } else {
            bits.rank(self.low, below)
        }
    }

    /// As [`Bits::select`] for both words.
    #[inline(always)]
    fn select(self, bits: impl Bits, n: u32) -> u32 {
        if self.two && n >= self.low.count_ones() {
            // More than there are only in a damaged file.
            64 + bits.select(self.high, (n - self.low.count_ones()).min(63))
        } else {
            bits.select(self.low, n)
        }
    }

    /// A mark more at `at`; those from there on move up.
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

    /// Without the mark at `at`; those after it move down.
    fn remove(self, at: u32) -> Self {
        let below = (1u128 << at) - 1;
        Self::of(self.two, self.all() & below | self.all() >> 1 & !below)
    }
}

/// Bits that a line has for its hash function: epoch and salt.
#[inline(always)]
pub(super) fn function(line: &[u64]) -> (u64, u64) {
    (line[0] & 1, line[0] >> 1 & SALT)
}

/// The last salt there is.
pub(super) const LAST_SALT: u64 = SALT;

impl View<'_> {
    #[inline(always)]
    fn two(&self) -> bool {
        self.layout.lines == 2
    }

    /// Marks from a bit of the lines on.
    #[inline(always)]
    fn marks(&self, from: u32, count: u32) -> Marks {
        let from = u64::from(from);
        let low = get(self.line, from, count.min(64));
        Marks { two: true, low, high: get(self.line, from + 64, count.saturating_sub(64)) }
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
        // At most 63: the other shift is at least 1.
        let low = (self.line[0] >> from | self.line[1] << (64 - from)) & mask(s);
        Marks { two: false, low, high: 0 }
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        self.ends().end()
    }

    #[inline(always)]
    fn extensions(&self) -> u32 {
        (self.line[0] >> EXTENSIONS) as u32 & self.layout.most_entries()
    }

    /// Whether some keys of this bin are not in it.
    #[inline(always)]
    pub(super) fn overflows(&self) -> bool {
        self.line[0] & OVERFLOW != 0
    }

    /// The first of the buckets that keys outside may belong to: the last with a key in here.
    #[inline(always)]
    pub(super) fn last_bucket(&self) -> u32 {
        self.index().end().saturating_sub(1)
    }

    /// Whether a key of this bucket may be outside.
    #[inline(always)]
    pub(super) fn may_be_outside(&self, bucket: u32) -> bool {
        self.overflows() && self.index().from(bucket) <= 1
    }

    /// That the counts agree: true of every bin but one from a damaged file.
    #[inline(always)]
    pub(super) fn is_sound(&self) -> bool {
        let (used, entries) = (self.used(), self.extensions());
        self.index().all().count_ones() == self.ends().all().count_ones()
            && self.layout.fits(used, entries)
            && (entries == 0 || (0..entries).all(|i| self.entry(i).0 < used))
    }

    /// Entry `i`: its slot and its code.
    #[inline(always)]
    fn entry(&self, i: u32) -> (u32, u32) {
        let width = self.layout.entry();
        let entry = get(self.line, u64::from(self.layout.bits() - width * (i + 1)), width) as u32;
        (entry >> 6, entry & 63)
    }

    /// The remainder in a slot.
    #[inline(always)]
    fn near(&self, slot: u32) -> u64 {
        let near = self.layout.near();
        get(self.line, u64::from(self.layout.first_slot() + slot * near), near)
    }

    #[inline(always)]
    fn far(&self, slot: u32) -> u64 {
        let far = self.layout.far();
        get(self.far, self.at + u64::from(slot * far), far)
    }

    /// Slots of a bucket: from the first to before the second.
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

    /// Whether the slot's remainder is that of the tail.
    #[inline(always)]
    fn is_remainder(&self, slot: u32, tail: u64) -> bool {
        let Layout { r, .. } = self.layout;
        let near = self.layout.near();
        self.near(slot) == tail >> (64 - near)
            && (near == r || self.far(slot) == tail >> (64 - r) & mask(r - near))
    }

    /// What the slot's remainder is extended by: bits, left-aligned, and how many.
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

    /// Whether some slot stands for what falls there.
    #[inline(always)]
    pub(super) fn holds(&self, bits: impl Bits, spot: Spot) -> bool {
        let (start, end) = self.run(bits, spot.bucket);
        let mut slot = start;
        while slot < end {
            if self.is_remainder(slot, spot.tail)
                && (self.extensions() == 0 || self.extended(slot, spot.tail).is_some())
            {
                return true;
            }
            slot += 1;
        }
        false
    }

    /// Bits of extension of a slot whose remainder is that of the tail, if they are the tail's.
    #[cold]
    fn extended(&self, slot: u32, tail: u64) -> Option<u32> {
        let (bits, len) = self.extension(slot);
        let same = len == 0 || (bits ^ tail << self.layout.r) >> (64 - len) == 0;
        same.then_some(len)
    }

    /// Whether a query must look at bits beside the line.
    #[cfg(test)]
    pub(super) fn looks_far(&self, bits: impl Bits, spot: Spot) -> bool {
        let (start, end) = self.run(bits, spot.bucket);
        (start..end).any(|slot| self.near(slot) == spot.tail >> (64 - self.layout.near()))
    }

    /// Lines of the bin that a query looks at: head, index and ends are in the first.
    #[cfg(test)]
    pub(super) fn lines(&self, bits: impl Bits, spot: Spot) -> u32 {
        let (start, end) = self.run(bits, spot.bucket);
        let past = |slot: u32| self.layout.first_slot() + (slot + 1) * self.layout.near() > 512;
        let second = (start..end).any(past) || self.extensions() > 0;
        1 + u32::from(self.layout.lines == 2 && second)
    }

    /// The slot that stands for what falls there with the most bits, and how many.
    pub(super) fn longest(&self, bits: impl Bits, spot: Spot) -> Option<(u32, u32)> {
        let (start, end) = self.run(bits, spot.bucket);
        (start..end)
            .filter(|slot| self.is_remainder(*slot, spot.tail))
            .filter_map(|slot| Some((slot, self.layout.r + self.extended(slot, spot.tail)?)))
            .max_by_key(|(_, len)| *len)
    }

    /// The print in a slot of a bucket.
    fn print(&self, bucket: u32, slot: u32) -> Print {
        let Layout { r, .. } = self.layout;
        let near = self.layout.near();
        let far = if near == r { 0 } else { self.far(slot) << (64 - r) };
        let (bits, len) = self.extension(slot);
        // A damaged file may say more bits than there are.
        let len = len.min(TAIL - r);
        let tail = self.near(slot) << (64 - near) | far | bits >> r;
        Print { bucket, tail: tail & !mask(64 - r - len), len: r + len }
    }

    /// The print in the last slot in use.
    pub(super) fn last(&self) -> Option<Print> {
        let last = self.used().checked_sub(1)?;
        Some(self.print(self.last_bucket(), last))
    }

    /// All prints, in the order of their slots.
    pub(super) fn prints(&self, into: &mut Vec<Print>) {
        let (mut index, ends) = (self.index().all(), self.ends());
        for slot in 0..self.used() {
            // A damaged file may have more ends than buckets.
            let bucket = if index == 0 { self.last_bucket() } else { index.trailing_zeros() };
            into.push(self.print(bucket, slot));
            if ends.has(slot) {
                index &= index.wrapping_sub(1);
            }
        }
    }

    /// What no bin could hold.
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
                .all(|i| get(words, from + u64::from(i), (count - i).min(32)) == 0)
        };
        let idle = self.at + u64::from(used * far);
        if !zero(self.line, free, free_bits) || !zero(self.far, idle, (s - used) * far) {
            return Some("a slot that is not in use is not zero");
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
            return Some("a bin's extensions are not what they must be");
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
        put(self.line, from, s.min(64), ends.low);
        if ends.two {
            put(self.line, from + 64, s.saturating_sub(64), ends.high);
        }
    }

    /// Says whether a bucket has slots.
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
        let counts = u64::from(self.layout.most_entries());
        self.line[0] = self.line[0] & !(counts << EXTENSIONS) | u64::from(count) << EXTENSIONS;
    }

    /// Whether there is room for one more print without an extension.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        let view = self.view();
        self.layout.fits(view.used() + 1, view.extensions())
    }

    /// Puts a print without an extension before the others of its bucket; there is room.
    #[inline(always)]
    pub(super) fn insert(&mut self, bits: impl Bits, spot: Spot) {
        let Layout { r, .. } = self.layout;
        let (near, far) = (self.layout.near(), self.layout.far());
        let view = self.view();
        let (index, ends, used) = (view.index(), view.ends(), view.used());
        let nth = index.rank(bits, spot.bucket);
        let slot = if nth == 0 { 0 } else { (ends.select(bits, nth - 1) + 1).min(used) };
        let new = !index.has(spot.bucket);
        self.set_bucket(spot.bucket, true);
        self.set_ends(ends.insert(slot, new));
        let first = u64::from(self.layout.first_slot());
        let (from, to) = (first + u64::from(slot * near), first + u64::from(used * near));
        shift_up(self.line, from, to, near);
        put(self.line, from, near, spot.tail >> (64 - near));
        if far > 0 {
            let (from, to) = (self.at + u64::from(slot * far), self.at + u64::from(used * far));
            shift_up(self.far, from, to, far);
            put(self.far, from, far, spot.tail >> (64 - r) & mask(far));
        }
        if self.view().extensions() > 0 {
            self.renumber(slot, 1);
        }
    }

    /// Entries of slots from `from` on are those of the slot after, or before.
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
        put(self.line, u64::from(at), width, u64::from(slot << 6 | code));
    }

    /// Takes the print in `slot`, of bucket `bucket`, out.
    pub(super) fn remove(&mut self, bits: impl Bits, bucket: u32, slot: u32) {
        let (near, far) = (self.layout.near(), self.layout.far());
        let view = self.view();
        let (ends, used) = (view.ends(), view.used());
        let (start, end) = view.run(bits, bucket);
        if slot < start || slot >= end {
            return; // in a damaged file only
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
            self.drop_entries(slot);
            self.renumber(slot, -1);
        }
    }

    /// Takes the entries of a slot out; those after them move up.
    #[cold]
    fn drop_entries(&mut self, slot: u32) {
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

    /// Empties the bin and fills it with these prints, which fit and are in the order of their
    /// buckets. The hash function stays, and whether keys are outside.
    pub(super) fn fill(&mut self, prints: &[Print]) {
        let Layout { s, r, .. } = self.layout;
        let (near, far) = (self.layout.near(), self.layout.far());
        let head = self.line[0] & mask(EXTENSIONS);
        self.line.fill(0);
        self.line[0] = head;
        for slot in 0..s {
            put(self.far, self.at + u64::from(slot * far), far, 0);
        }
        let (mut ends, mut entries) = (0u128, 0);
        let first = u64::from(self.layout.first_slot());
        for (slot, print) in (0..).zip(prints) {
            self.set_bucket(print.bucket, true);
            if prints.get(slot as usize + 1).is_none_or(|next| next.bucket != print.bucket) {
                ends |= 1 << slot;
            }
            put(self.line, first + u64::from(slot * near), near, print.tail >> (64 - near));
            put(self.far, self.at + u64::from(slot * far), far, print.tail >> (64 - r) & mask(far));
            for at in (r..print.len).step_by(CHUNK as usize) {
                let more = (print.len - at).min(CHUNK);
                let bits = print.tail << at >> (64 - more);
                self.set_entry(entries, slot, 1 << more | bits as u32);
                entries += 1;
            }
        }
        self.set_ends(Marks::of(self.layout.lines == 2, ends));
        self.set_extensions(entries);
    }
}

/// `width` bits from `bit` on, of which there are at most 64; none are zero.
#[inline(always)]
pub(super) fn get(words: &[u64], bit: u64, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (word, shift) = ((bit / 64) as usize, (bit % 64) as u32);
    let low = words[word] >> shift;
    let value = if shift + width > 64 { low | words[word + 1] << (64 - shift) } else { low };
    value & mask(width)
}

/// Sets the `width` bits from `bit` on to those of `value`.
#[inline(always)]
pub(super) fn put(words: &mut [u64], bit: u64, width: u32, value: u64) {
    if width == 0 {
        return;
    }
    let (word, shift) = ((bit / 64) as usize, (bit % 64) as u32);
    let value = value & mask(width);
    words[word] = words[word] & !(mask(width) << shift) | value << shift;
    if shift + width > 64 {
        let high = 64 - shift;
        words[word + 1] = words[word + 1] & !(mask(width) >> high) | value >> high;
    }
}

/// Moves the bits `from..to` up by `by` places, less than 64.
#[inline(always)]
fn shift_up(words: &mut [u64], from: u64, to: u64, by: u32) {
    if from >= to {
        return;
    }
    let (low, high) = (from + u64::from(by), to + u64::from(by));
    let (first, last) = ((low / 64) as usize, ((high - 1) / 64) as usize);
    for word in (first..=last).rev() {
        let below = if word > 0 { words[word - 1] >> (64 - by) } else { 0 };
        let mut keep = 0;
        if word == first {
            keep |= mask((low % 64) as u32);
        }
        if word == last {
            keep |= !mask(((high - 1) % 64) as u32 + 1);
        }
        words[word] = words[word] & keep | (words[word] << by | below) & !keep;
    }
}

/// Moves the bits `from..to` down by `by` places, less than 64, and clears what they leave.
#[inline(always)]
fn shift_down(words: &mut [u64], from: u64, to: u64, by: u32) {
    let (low, high) = (from - u64::from(by), to.max(from) - u64::from(by));
    if low < high {
        let (first, last) = ((low / 64) as usize, ((high - 1) / 64) as usize);
        for word in first..=last {
            let above = words.get(word + 1).map_or(0, |next| next << (64 - by));
            let mut keep = 0;
            if word == first {
                keep |= mask((low % 64) as u32);
            }
            if word == last {
                keep |= !mask(((high - 1) % 64) as u32 + 1);
            }
            words[word] = words[word] & keep | (words[word] >> by | above) & !keep;
        }
    }
    put(words, high, by, 0);
}
