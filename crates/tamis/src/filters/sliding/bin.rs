//! A bin of 1024 bits: a small quotient filter whose slots know how old they are.
//!
//! ```text
//!  bit 0                  b + s                                              1024
//!  │ index                │ s slots of w bits                    │ … │ wild │ epoch │
//!  │ 1 1 0 0 1 0 …        │ remainder · g + stamp │ …            │ 0 │      │  16   │
//!    └─┘   └─ bucket 2
//!    bucket 0: 2 slots
//! ```
//!
//! The index says how many slots each of the b buckets has: as many ones, and a zero. Slots lie in the
//! order of their buckets, so those of bucket i begin where zero number i - 1 says. A slot's stamp is the
//! generation that its key was last pushed in, modulo g, the number of generations that are remembered at a
//! time. Stamps alone repeat after g generations. The epoch is the low half of a word of the generation in
//! which the bin was last tidied: what was too old then is gone, so a stamp options one of the g generations
//! up to the epoch, and how old it is now follows.
//!
//! *Wild* is what never happens: when there is no room for a key, the bin takes all keys for members as long
//! as that key is to be remembered. It holds a stamp plus one, or 0.
//!
//! A bin that nobody has written is all zeros, and empty.

use tamis_bits::lanes::window;
use tamis_bits::packed::{self, mask};
use tamis_bits::select::Bits;

pub(super) const WORDS: usize = 16;
/// Bits of a bin.
pub(super) const SIZE: usize = 64 * WORDS;
pub(super) const EPOCH: u32 = 16;
/// Keeps what is computed of a slot exact: see [`Layout::stamp`].
pub(super) const MAX_WIDTH: u32 = 48;

pub(super) type Bin = [u64; WORDS];

/// How a bin's bits are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slots: usize,
    pub(super) buckets: usize,
    pub(super) width: u32,
    /// Generations that are remembered, and so different stamps.
    pub(super) stamps: u64,
    pub(super) remainders: u64,
    /// 2^64 / stamps, rounded up.
    inverse: u64,
    wild: u32,
    /// Bits of the index, and words that they lie in.
    index: usize,
    words: usize,
}

/// Stamps that are old: so many in a row, from one on, the last being followed by the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old {
    pub(super) from: u64,
    pub(super) count: u64,
}

impl Layout {
    /// With so many slots of so many bits, and as many buckets as there is room for; `None` if there
    /// is none.
    pub(super) fn new(slots: u32, width: u32, stamps: u64) -> Option<Self> {
        let wild = 64 - stamps.leading_zeros();
        let taken = u64::from(slots) * (u64::from(width) + 1) + u64::from(EPOCH + wild);
        let buckets = usize::try_from((SIZE as u64).checked_sub(taken)?).ok()?;
        let remainders = (mask(width) + 1) / stamps;
        let fits = slots > 0 && buckets > 0 && remainders > 0 && width <= MAX_WIDTH;
        let inverse = (u64::MAX / stamps).wrapping_add(1);
        let slots = slots as usize;
        let (index, words) = (buckets + slots, (buckets + slots).div_ceil(64));
        fits.then_some(Self {
            slots,
            buckets,
            width,
            stamps,
            remainders,
            inverse,
            wild,
            index,
            words,
        })
    }

    #[inline(always)]
    fn slot(&self, bin: &Bin, slot: usize) -> u64 {
        read(bin, self.slot_bit(slot) as usize) & mask(self.width)
    }

    #[inline(always)]
    fn slot_bit(&self, slot: usize) -> u64 {
        (self.index + slot * self.width as usize) as u64
    }

    /// A slot's value modulo the stamps, without a division: the inverse is less than one too large, so the
    /// quotient is right while value · stamps < 2^64 / stamps, which widths and stamps are limited to.
    #[inline(always)]
    fn stamp(&self, value: u64) -> u64 {
        if self.stamps == 1 {
            return 0;
        }
        let quotient = (u128::from(value) * u128::from(self.inverse)) >> 64;
        value - quotient as u64 * self.stamps
    }

    /// Where the marks of a bucket begin in the index, and how many there are of all buckets.
    ///
    /// A zero before the first bucket makes that place the one of zero number `bucket`. All words are gone
    /// through: a guess in which of them to stop would be wrong half the time, which costs more.
    #[inline(always)]
    fn place(&self, bits: impl Bits, bin: &Bin, bucket: usize) -> (usize, usize) {
        let (mut zeros, mut before, mut at, mut within, mut carry) = (0, 0, 0, 0, 0);
        for (i, word) in bin[..self.words].iter().enumerate() {
            let moved = word << 1 | carry;
            carry = word >> 63;
            let reached = zeros <= bucket;
            at = if reached { i } else { at };
            before = if reached { zeros } else { before };
            within = if reached { moved } else { within };
            zeros += moved.count_zeros() as usize;
        }
        // What lies in the last word and is no mark.
        let others = bin[self.words - 1] << 1 >> 1 >> (self.index % 64);
        let others = if self.index.is_multiple_of(64) { 0 } else { others.count_ones() };
        let used = 64 * self.words - zeros - others as usize;
        let place = 64 * at + bits.select(!within, (bucket - before).min(63) as u32) as usize;
        // It is between these in every bin that a filter wrote.
        (place.clamp(bucket, self.index), used)
    }

    /// The slot of a remainder in its bucket, and its stamp; where the bucket begins if there is none. And
    /// how many slots are in use.
    #[inline(always)]
    pub(super) fn find(
        &self,
        bits: impl Bits,
        bin: &Bin,
        (bucket, remainder): (usize, u64),
    ) -> (Result<(usize, u64), usize>, usize) {
        let ((begin, used), first) = (self.place(bits, bin, bucket), remainder * self.stamps);
        let slot = begin - bucket;
        // In every bin that a filter wrote, the marks of a bucket are followed by a zero and have slots.
        let len = read(bin, begin).trailing_ones() as usize;
        let len = len.min(self.slots.saturating_sub(slot));
        // Two at once, whether there are so many or not: most buckets have none, one or two, at random.
        let stamp = |at| self.slot(bin, at).wrapping_sub(first);
        let stamps = [stamp(slot), stamp(slot + 1)];
        let found = [(stamps[0] < self.stamps) & (len > 0), (stamps[1] < self.stamps) & (len > 1)];
        if found[0] | found[1] {
            let second = usize::from(!found[0]);
            return (Ok((slot + second, stamps[second])), used);
        }
        for at in slot + 2..slot + len.max(2) {
            if stamp(at) < self.stamps {
                return (Ok((at, stamp(at))), used);
            }
        }
        (Err(begin), used)
    }

    /// Adds a slot to a bin that has one free beside those in use; `begin` is where the bucket begins.
    #[inline(always)]
    pub(super) fn insert(
        &self,
        bin: &mut Bin,
        begin: usize,
        used: usize,
        (bucket, remainder): (usize, u64),
        stamp: u64,
    ) {
        let value = remainder * self.stamps + stamp;
        let (from, to) = (self.slot_bit(begin - bucket) as usize, self.slot_bit(used + 1) as usize);
        push_up(bin, from, to, self.width, value);
        push_up(bin, begin, self.index, 1, 1);
    }

    /// Gives a slot another stamp.
    #[inline(always)]
    pub(super) fn restamp(&self, bin: &mut Bin, slot: usize, from: u64, to: u64) {
        let bit = self.slot_bit(slot);
        let value = packed::get_at(bin, self.width, bit) - from + to;
        packed::set_at(bin, self.width, bit, value);
    }

    pub(super) fn epoch(bin: &Bin) -> u64 {
        bin[WORDS - 1] >> (64 - EPOCH)
    }

    /// The wild stamp.
    #[inline(always)]
    pub(super) fn wild(&self, bin: &Bin) -> Option<u64> {
        let wild = bin[WORDS - 1] >> (64 - EPOCH - self.wild) & mask(self.wild);
        wild.checked_sub(1)
    }

    pub(super) fn set_wild(&self, bin: &mut Bin, stamp: Option<u64>) {
        let bit = (SIZE as u32 - EPOCH - self.wild).into();
        packed::set_at(bin, self.wild, bit, stamp.map_or(0, |stamp| stamp + 1));
    }

    /// Every slot in use, in order: its mark in the index, its value and its stamp.
    #[inline(always)]
    pub(super) fn each(&self, bin: &Bin, mut each: impl FnMut(usize, u64, u64)) {
        // A word more lets every slot be read as the beginning of eight bytes.
        let mut padded = [0; WORDS + 1];
        padded[..WORDS].copy_from_slice(bin);
        let (mut slot, mut bit) = (0, self.slot_bit(0));
        for (i, word) in bin.iter().enumerate().take(self.words) {
            let mut marks = word & mask((self.index - 64 * i).min(64) as u32);
            while marks != 0 && slot < self.slots {
                let value = window(&padded, bit) & mask(self.width);
                each(64 * i + marks.trailing_zeros() as usize, value, self.stamp(value));
                marks &= marks - 1;
                (slot, bit) = (slot + 1, bit + u64::from(self.width));
            }
        }
    }

    /// Drops the slots of old stamps; the epoch becomes this one.
    #[inline(always)]
    pub(super) fn tidy(&self, bits: impl Bits, bin: &mut Bin, epoch: u64, old: Old) {
        if old.count < self.stamps {
            // One in nine is old, as a rule: from the last on each is taken out, and then all their marks.
            let (gone, mut end) = self.old_marks(bin, old);
            for i in (0..self.words).rev() {
                let mut gone = gone[i];
                while gone != 0 {
                    let last = gone.ilog2();
                    let slot = self.slot_bit(marks(bin, 64 * i + last as usize)) as usize;
                    pull_down(bin, slot, end, self.width);
                    end -= self.width as usize;
                    gone ^= 1 << last;
                }
            }
            self.unmark(bits, bin, &gone);
            if self.wild(bin).is_some_and(|stamp| self.is_among(stamp, self.fractions(old))) {
                self.set_wild(bin, None);
            }
        } else {
            *bin = [0; WORDS];
        }
        packed::set_at(bin, EPOCH, (SIZE as u32 - EPOCH).into(), epoch);
    }

    /// Marks of slots whose stamp is old, and where the slots end.
    #[inline(always)]
    fn old_marks(&self, bin: &Bin, old: Old) -> (Bin, usize) {
        // A word more lets every slot be read as the beginning of eight bytes.
        let mut padded = [0; WORDS + 1];
        padded[..WORDS].copy_from_slice(bin);
        let (mut gone, mut bit) = ([0; WORDS], self.slot_bit(0));
        let (slot_mask, end) = (mask(self.width), self.slot_bit(self.slots));
        let of_old = self.fractions(old);
        for (i, gone) in gone.iter_mut().enumerate().take(self.words) {
            let mut marks = bin[i] & mask((self.index - 64 * i).min(64) as u32);
            while marks != 0 && bit < end {
                let mark = marks & marks.wrapping_neg();
                let is_old = self.is_among(window(&padded, bit) & slot_mask, of_old);
                *gone |= mark & 0u64.wrapping_sub(is_old.into());
                marks ^= mark;
                bit += u64::from(self.width);
            }
        }
        (gone, bit as usize)
    }

    /// Takes marks out of the index.
    #[inline(always)]
    fn unmark(&self, bits: impl Bits, bin: &mut Bin, gone: &Bin) {
        let (mut index, mut at) = ([0; WORDS + 1], 0);
        for i in 0..self.words {
            let len = (self.index - 64 * i).min(64);
            let left = bits.squeeze(bin[i] & mask(len as u32), gone[i]);
            index[at / 64] |= left << (at % 64);
            index[at / 64 + 1] = left >> 1 >> (63 - at % 64);
            at += len - gone[i].count_ones() as usize;
        }
        let last = self.words - 1;
        let slots = bin[last] & !mask((self.index - 64 * last) as u32);
        bin[..=last].copy_from_slice(&index[..=last]);
        bin[last] |= slots;
    }

    /// Which fractions of x / g are those of an x with an old stamp: from where on, and how many.
    ///
    /// The fraction is the low half of x times the inverse: the remainder's share, and an error that is less
    /// than 1 / g for the same reason as in [`Layout::stamp`].
    #[inline(always)]
    fn fractions(&self, old: Old) -> (u64, u64) {
        ((self.stamps - old.from).wrapping_mul(self.inverse), old.count * self.inverse)
    }

    #[inline(always)]
    fn is_among(&self, value: u64, (from, count): (u64, u64)) -> bool {
        value.wrapping_mul(self.inverse).wrapping_add(from) < count
    }

    /// Whether every bit is one that a filter may have written.
    pub(super) fn is_sound(&self, bin: &Bin) -> bool {
        // What the slots make when they are put in again, and what else there may be.
        let (mut again, mut used, mut sound) = ([0; WORDS], 0, true);
        self.each(bin, |mark, value, _| {
            again[mark / 64] |= 1 << (mark % 64);
            packed::set_at(&mut again, self.width, self.slot_bit(used), value);
            // As many zeros before it as there are buckets would be one too many.
            sound &= value < self.remainders * self.stamps && mark - used < self.buckets;
            used += 1;
        });
        self.set_wild(&mut again, self.wild(bin));
        again[WORDS - 1] |= Self::epoch(bin) << (64 - EPOCH);
        sound && again == *bin && self.wild(bin).is_none_or(|stamp| stamp < self.stamps)
    }
}

/// The 64 bits from `bit` on, of which those past the end mean nothing.
#[inline(always)]
fn read(bin: &Bin, bit: usize) -> u64 {
    let (word, shift) = (bit / 64, bit % 64);
    bin[word % WORDS] >> shift | bin[(word + 1) % WORDS] << 1 << (63 - shift)
}

/// Marks before a place in the index.
#[inline(always)]
fn marks(bin: &Bin, below: usize) -> usize {
    let (whole, part) = bin.split_at(below / 64);
    let ones: u32 = whole.iter().map(|word| word.count_ones()).sum();
    let last = part.first().map_or(0, |word| word & mask((below % 64) as u32));
    (ones + last.count_ones()) as usize
}

/// The words that the bits from `from` to `to` lie in, and what else is in the first and in the last.
#[inline(always)]
fn span(bin: &mut Bin, from: usize, to: usize) -> (&mut [u64], u64, u64) {
    let others = (mask((from % 64) as u32), !(u64::MAX >> (63 - (to - 1) % 64)));
    (&mut bin[from / 64..=(to - 1) / 64], others.0, others.1)
}

/// Moves the bits from `from` to `to` up by fewer than 64, the topmost out, and puts a value before them.
#[inline(always)]
fn push_up(bin: &mut Bin, from: usize, to: usize, by: u32, value: u64) {
    let (words, low, high) = span(bin, from, to);
    let last = words.len() - 1;
    let (below, above) = (words[0] & low, words[last] & high);
    for i in (1..=last).rev() {
        words[i] = words[i] << by | words[i - 1] >> (64 - by);
    }
    words[0] = words[0] << by & !low | below;
    words[last] = words[last] & !high | above;
    packed::set_at(bin, by, from as u64, value);
}

/// Moves the bits from `from + by` to `to` down by fewer than 64, zeros following.
#[inline(always)]
fn pull_down(bin: &mut Bin, from: usize, to: usize, by: u32) {
    let (words, low, high) = span(bin, from, to);
    let last = words.len() - 1;
    let (below, above) = (words[0] & low, words[last] & high);
    words[last] &= !high;
    for i in 0..last {
        words[i] = words[i] >> by | words[i + 1] << (64 - by);
    }
    words[last] >>= by;
    words[0] = words[0] & !low | below;
    words[last] |= above;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;
    use tamis_bits::select::Portable;

    /// Against a sorted list of what is in.
    #[test]
    fn a_bin_is_a_list_of_buckets() {
        for seed in 0..200u64 {
            let (slots, width) = (1 + mix(seed) % 60, 4 + mix(seed + 1) % 8);
            let stamps = 1 + seed % 9;
            let Some(layout) = Layout::new(slots as u32, width as u32, stamps) else { continue };
            let (mut bin, mut model): (Bin, Vec<(usize, u64, u64)>) = ([0; WORDS], Vec::new());
            for step in 0..400 {
                let random = mix(seed << 32 | step);
                let bucket = (random % layout.buckets as u64) as usize;
                let key = (bucket, (random >> 20) % layout.remainders);
                let stamp = (random >> 50) % stamps;
                let held = model.iter().position(|(b, r, _)| (*b, *r) == key);
                let (found, used) = layout.find(Portable, &bin, key);
                assert_eq!(used, model.len());
                assert_eq!(found.ok().map(|(_, stamp)| stamp), held.map(|at| model[at].2));
                match (found, held) {
                    (Ok((slot, from)), Some(at)) => {
                        layout.restamp(&mut bin, slot, from, stamp);
                        model[at].2 = stamp;
                    }
                    (Err(begin), _) if model.len() < layout.slots => {
                        layout.insert(&mut bin, begin, model.len(), key, stamp);
                        model.push((key.0, key.1, stamp));
                    }
                    _ => {
                        let old =
                            Old { from: (random >> 60) % stamps, count: random % (stamps + 1) };
                        let is_old = |stamp: u64| (stamp + stamps - old.from) % stamps < old.count;
                        layout.tidy(Portable, &mut bin, step % 7, old);
                        model.retain(|(_, _, stamp)| !is_old(*stamp));
                        assert_eq!(Layout::epoch(&bin), step % 7);
                    }
                }
                assert!(layout.is_sound(&bin), "seed {seed}, step {step}");
            }
            let mut listed = Vec::new();
            layout.each(&bin, |mark, value, stamp| {
                listed.push((mark - listed.len(), value / stamps, stamp));
            });
            assert!(listed.is_sorted_by_key(|(bucket, _, _)| *bucket));
            listed.sort_unstable();
            model.sort_unstable();
            assert_eq!(listed, model);
        }
    }

    #[test]
    fn stamps_are_remainders_of_a_division() {
        for stamps in 1..=65 {
            for width in [8, 20, MAX_WIDTH] {
                let layout = Layout::new(3, width, stamps).unwrap();
                let values = (0..2000).map(|i| mix(i) & mask(width)).chain([0, mask(width)]);
                values.for_each(|value| assert_eq!(layout.stamp(value), value % stamps));
            }
        }
    }
}
