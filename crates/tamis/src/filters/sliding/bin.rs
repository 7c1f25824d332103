//! A bin of 1024 bits: a small quotient filter whose slots have the generation of their key.
//!
//! ```text
//!  bit 0                  b + s                                          1024
//!  │ index                │ s slots of w bits           │ … │ saturated │ epoch │
//!  │ 1 1 0 0 1 0 …        │ remainder · g + stamp │ …   │ 0 │           │  16   │
//!    └─┘   └─ bucket 2
//!    bucket 0: 2 slots
//! ```
//!
//! The index gives the number of slots of each of the b buckets in unary: as many ones, and a zero.
//! Slots are in the order of their buckets, so those of bucket i begin after zero number i - 1. The
//! stamp of a slot is the generation in which its key was last pushed, modulo g, the number of
//! generations that are remembered. Stamps alone repeat after g generations. The epoch is the low
//! 16 bits of the generation of the last eviction from the bin: slots that had expired then are
//! gone, so a stamp means one of the g generations up to the epoch, which gives its age.
//!
//! *Saturated* holds a stamp plus one, or 0. Until that stamp expires the bin accepts all keys.
//! Version 0.1.0 set it when a key found no room, and files of that version may have it. Today the
//! key is refused instead, and no bin becomes saturated.
//!
//! An unused bin is all zeros, and empty.

use tamis_bits::lanes::window;
use tamis_bits::packed::{self, mask};
use tamis_bits::select::Bits;

pub(super) const WORDS: usize = 16;
/// Bits of a bin.
pub(super) const SIZE: usize = 64 * WORDS;
pub(super) const EPOCH: u32 = 16;
/// The largest width for which [`Layout::stamp`] is exact.
pub(super) const MAX_WIDTH: u32 = 48;

pub(super) type Bin = [u64; WORDS];

/// How the bits of a bin are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slots: usize,
    pub(super) buckets: usize,
    pub(super) width: u32,
    /// Generations that are remembered, which is the number of distinct stamps.
    pub(super) stamps: u64,
    pub(super) remainders: u64,
    /// 2^64 / stamps, rounded up.
    inverse: u64,
    saturated_bits: u32,
    /// Bits of the index, and the words that contain them.
    index: usize,
    words: usize,
}

/// The expired stamps: `count` from `from` on, cyclically.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expired {
    pub(super) from: u64,
    pub(super) count: u64,
}

impl Layout {
    /// Returns the layout of `slots` slots of `width` bits with as many buckets as fit; `None` if
    /// none does.
    pub(super) fn new(slots: u32, width: u32, stamps: u64) -> Option<Self> {
        let saturated_bits = 64 - stamps.leading_zeros();
        let taken = u64::from(slots) * (u64::from(width) + 1) + u64::from(EPOCH + saturated_bits);
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
            saturated_bits,
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

    /// Returns a slot's value modulo the number of stamps, without a division. The inverse is less
    /// than one too large, so the quotient is exact while value · stamps < 2^64 / stamps, which the
    /// limits of widths and stamps ensure.
    #[inline(always)]
    fn stamp(&self, value: u64) -> u64 {
        if self.stamps == 1 {
            return 0;
        }
        let quotient = (u128::from(value) * u128::from(self.inverse)) >> 64;
        value - quotient as u64 * self.stamps
    }

    /// Returns the position in the index where the marks of a bucket begin, and the number of marks
    /// of all buckets.
    ///
    /// With one zero more before the first bucket, that position is the one of zero number
    /// `bucket`. The loop reads all words: a branch on the word to stop at would be mispredicted
    /// half of the time, which costs more.
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
        // Bits of the last word that are not part of the index.
        let others = bin[self.words - 1] << 1 >> 1 >> (self.index % 64);
        let others = if self.index.is_multiple_of(64) { 0 } else { others.count_ones() };
        let used = 64 * self.words - zeros - others as usize;
        let place = 64 * at + bits.select(!within, (bucket - before).min(63) as u32) as usize;
        // Only a damaged file exceeds these bounds.
        (place.clamp(bucket, self.index), used)
    }

    /// Finds a remainder in its bucket. Returns its slot and stamp, or where the bucket begins if
    /// it is absent; and the number of slots in use.
    #[inline(always)]
    pub(super) fn find(
        &self,
        bits: impl Bits,
        bin: &Bin,
        (bucket, remainder): (usize, u64),
    ) -> (Result<(usize, u64), usize>, usize) {
        let ((begin, used), first) = (self.place(bits, bin, bucket), remainder * self.stamps);
        let slot = begin - bucket;
        // In a valid bin, the marks of a bucket are followed by a zero and have slots.
        let len = read(bin, begin).trailing_ones() as usize;
        let len = len.min(self.slots.saturating_sub(slot));
        // Two at once, even if the bucket has fewer: most buckets have none, one or two, at random.
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

    /// Inserts a slot into a bin with a free slot after `used` slots in use; `begin` is where the
    /// bucket begins.
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
        shift_in(bin, from, to, self.width, value);
        shift_in(bin, begin, self.index, 1, 1);
    }

    /// Changes the stamp of a slot.
    #[inline(always)]
    pub(super) fn restamp(&self, bin: &mut Bin, slot: usize, from: u64, to: u64) {
        let bit = self.slot_bit(slot);
        let value = packed::get_at(bin, self.width, bit) - from + to;
        packed::set_at(bin, self.width, bit, value);
    }

    pub(super) fn epoch(bin: &Bin) -> u64 {
        bin[WORDS - 1] >> (64 - EPOCH)
    }

    /// Returns the stamp of the key that saturated the bin, if any.
    #[inline(always)]
    pub(super) fn saturated(&self, bin: &Bin) -> Option<u64> {
        let saturated =
            bin[WORDS - 1] >> (64 - EPOCH - self.saturated_bits) & mask(self.saturated_bits);
        saturated.checked_sub(1)
    }

    pub(super) fn set_saturated(&self, bin: &mut Bin, stamp: Option<u64>) {
        let bit = (SIZE as u32 - EPOCH - self.saturated_bits).into();
        packed::set_at(bin, self.saturated_bits, bit, stamp.map_or(0, |stamp| stamp + 1));
    }

    /// Calls `each` for every slot in use, in order, with its mark in the index, its value and its
    /// stamp.
    #[inline(always)]
    pub(super) fn for_each_slot(&self, bin: &Bin, mut each: impl FnMut(usize, u64, u64)) {
        // One word more, so that every slot can be read as part of eight bytes.
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

    /// Evicts the slots with expired stamps and sets the epoch.
    #[inline(always)]
    pub(super) fn evict(&self, bits: impl Bits, bin: &mut Bin, epoch: u64, expired: Expired) {
        if expired.count < self.stamps {
            // Usually one in nine has expired. Each is removed, the last first, and then all their
            // marks.
            let (gone, mut end) = self.expired_marks(bin, expired);
            for i in (0..self.words).rev() {
                let mut gone = gone[i];
                while gone != 0 {
                    let last = gone.ilog2();
                    let slot = self.slot_bit(rank(bin, 64 * i + last as usize)) as usize;
                    shift_out(bin, slot, end, self.width);
                    end -= self.width as usize;
                    gone ^= 1 << last;
                }
            }
            self.remove_marks(bits, bin, &gone);
            if self
                .saturated(bin)
                .is_some_and(|stamp| self.is_in_range(stamp, self.fractions(expired)))
            {
                self.set_saturated(bin, None);
            }
        } else {
            *bin = [0; WORDS];
        }
        packed::set_at(bin, EPOCH, (SIZE as u32 - EPOCH).into(), epoch);
    }

    /// Returns the marks of slots with expired stamps, and the bit where the slots end.
    #[inline(always)]
    fn expired_marks(&self, bin: &Bin, expired: Expired) -> (Bin, usize) {
        // One word more, so that every slot can be read as part of eight bytes.
        let mut padded = [0; WORDS + 1];
        padded[..WORDS].copy_from_slice(bin);
        let (mut gone, mut bit) = ([0; WORDS], self.slot_bit(0));
        let (slot_mask, end) = (mask(self.width), self.slot_bit(self.slots));
        let expired_range = self.fractions(expired);
        for (i, gone) in gone.iter_mut().enumerate().take(self.words) {
            let mut marks = bin[i] & mask((self.index - 64 * i).min(64) as u32);
            while marks != 0 && bit < end {
                let mark = marks & marks.wrapping_neg();
                let is_expired = self.is_in_range(window(&padded, bit) & slot_mask, expired_range);
                *gone |= mark & 0u64.wrapping_sub(is_expired.into());
                marks ^= mark;
                bit += u64::from(self.width);
            }
        }
        (gone, bit as usize)
    }

    /// Removes marks from the index.
    #[inline(always)]
    fn remove_marks(&self, bits: impl Bits, bin: &mut Bin, gone: &Bin) {
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

    /// Returns the range of the fractional parts of x / g for values x with an expired stamp: its
    /// start, negated, and its length.
    ///
    /// The fractional part is the low half of x times the inverse: stamp / g plus an error of less
    /// than 1 / g, for the same reason as in [`Layout::stamp`].
    #[inline(always)]
    fn fractions(&self, expired: Expired) -> (u64, u64) {
        ((self.stamps - expired.from).wrapping_mul(self.inverse), expired.count * self.inverse)
    }

    #[inline(always)]
    fn is_in_range(&self, value: u64, (from, count): (u64, u64)) -> bool {
        value.wrapping_mul(self.inverse).wrapping_add(from) < count
    }

    /// Returns whether a bin is valid.
    pub(super) fn is_sound(&self, bin: &Bin) -> bool {
        // Rebuilds the bin from its slots and the other fields.
        let (mut again, mut used, mut sound) = ([0; WORDS], 0, true);
        self.for_each_slot(bin, |mark, value, _| {
            again[mark / 64] |= 1 << (mark % 64);
            packed::set_at(&mut again, self.width, self.slot_bit(used), value);
            // There are fewer zeros before a mark than buckets.
            sound &= value < self.remainders * self.stamps && mark - used < self.buckets;
            used += 1;
        });
        self.set_saturated(&mut again, self.saturated(bin));
        again[WORDS - 1] |= Self::epoch(bin) << (64 - EPOCH);
        sound && again == *bin && self.saturated(bin).is_none_or(|stamp| stamp < self.stamps)
    }
}

/// Returns the 64 bits from `bit` on; those past the end are arbitrary.
#[inline(always)]
fn read(bin: &Bin, bit: usize) -> u64 {
    let (word, shift) = (bit / 64, bit % 64);
    bin[word % WORDS] >> shift | bin[(word + 1) % WORDS] << 1 << (63 - shift)
}

/// Returns the number of marks before a position in the index.
#[inline(always)]
fn rank(bin: &Bin, below: usize) -> usize {
    let (whole, part) = bin.split_at(below / 64);
    let ones: u32 = whole.iter().map(|word| word.count_ones()).sum();
    let last = part.first().map_or(0, |word| word & mask((below % 64) as u32));
    (ones + last.count_ones()) as usize
}

/// Returns the words that contain the bits `from..to`, and masks of the other bits in the first and
/// the last word.
#[inline(always)]
fn span(bin: &mut Bin, from: usize, to: usize) -> (&mut [u64], u64, u64) {
    let others = (mask((from % 64) as u32), !(u64::MAX >> (63 - (to - 1) % 64)));
    (&mut bin[from / 64..=(to - 1) / 64], others.0, others.1)
}

/// Moves the bits `from..to` up by fewer than 64, drops the topmost, and writes a value below them.
#[inline(always)]
fn shift_in(bin: &mut Bin, from: usize, to: usize, by: u32, value: u64) {
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

/// Moves the bits `from + by..to` down by fewer than 64, and clears the vacated bits.
#[inline(always)]
fn shift_out(bin: &mut Bin, from: usize, to: usize, by: u32) {
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

    /// Compares a bin with a list of its slots.
    #[test]
    fn a_bin_agrees_with_a_list() {
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
                        let expired =
                            Expired { from: (random >> 60) % stamps, count: random % (stamps + 1) };
                        let is_expired =
                            |stamp: u64| (stamp + stamps - expired.from) % stamps < expired.count;
                        layout.evict(Portable, &mut bin, step % 7, expired);
                        model.retain(|(_, _, stamp)| !is_expired(*stamp));
                        assert_eq!(Layout::epoch(&bin), step % 7);
                    }
                }
                assert!(layout.is_sound(&bin), "seed {seed}, step {step}");
            }
            let mut listed = Vec::new();
            layout.for_each_slot(&bin, |mark, value, stamp| {
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
