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
//! which the bin was last tidied: what was too old then is gone, so a stamp means one of the g generations
//! up to the epoch, and how old it is now follows.
//!
//! *Wild* is what never happens: when there is no room for a key, the bin takes all keys for members as long
//! as that key is to be remembered. It holds a stamp plus one, or 0.
//!
//! A bin that nobody has written is all zeros, and empty.

use bits::packed::{self, mask};
use bits::select::Bits;

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
        fits.then_some(Self { slots, buckets, width, stamps, remainders, inverse, wild })
    }

    /// Bits of the index.
    #[inline(always)]
    fn index(&self) -> usize {
        self.buckets + self.slots
    }

    #[inline(always)]
    fn slot(&self, bin: &Bin, slot: usize) -> u64 {
        packed::get_at(bin, self.width, self.slot_bit(slot))
    }

    #[inline(always)]
    fn slot_bit(&self, slot: usize) -> u64 {
        (self.index() + slot * self.width as usize) as u64
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

    /// Where the marks of a bucket begin in the index.
    #[inline(always)]
    fn place(&self, bits: impl Bits, bin: &Bin, bucket: usize) -> usize {
        if bucket == 0 {
            return 0;
        }
        let mut zeros = bucket as u32 - 1;
        for (i, word) in bin.iter().enumerate() {
            let here = word.count_zeros();
            if zeros < here {
                return (64 * i + bits.select(!word, zeros) as usize + 1).min(self.index());
            }
            zeros -= here;
        }
        self.index()
    }

    /// The slot of a remainder in its bucket, and its stamp.
    #[inline(always)]
    pub(super) fn find(
        &self,
        bits: impl Bits,
        bin: &Bin,
        (bucket, remainder): (usize, u64),
    ) -> Option<(usize, u64)> {
        let (mut at, first) = (self.place(bits, bin, bucket), remainder * self.stamps);
        // The second condition holds in every bin that a filter wrote.
        while at < self.index() && at - bucket < self.slots && marked(bin, at) {
            let stamp = self.slot(bin, at - bucket).wrapping_sub(first);
            if stamp < self.stamps {
                return Some((at - bucket, stamp));
            }
            at += 1;
        }
        None
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn used(&self, bin: &Bin) -> usize {
        let (whole, part) = (self.index() / 64, (self.index() % 64) as u32);
        let ones: u32 = bin[..whole].iter().map(|word| word.count_ones()).sum();
        (ones + (bin[whole % WORDS] & mask(part)).count_ones()) as usize
    }

    /// Adds a slot to a bin that has one free.
    #[inline(always)]
    pub(super) fn insert(
        &self,
        bits: impl Bits,
        bin: &mut Bin,
        (bucket, remainder): (usize, u64),
        stamp: u64,
    ) {
        let (at, used) = (self.place(bits, bin, bucket), self.used(bin));
        let slot = at - bucket;
        let value = remainder * self.stamps + stamp;
        let end = self.slot_bit(used) as usize + self.width as usize;
        push_up(bin, self.slot_bit(slot) as usize, end, self.width, value);
        push_up(bin, at, self.index(), 1, 1);
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

    /// Every slot in use with its bucket and stamp, in order.
    pub(super) fn each(&self, bin: &Bin, mut each: impl FnMut(usize, u64, u64)) {
        let (mut bucket, mut slot) = (0, 0);
        for at in 0..self.index() {
            if !marked(bin, at) {
                bucket += 1;
            } else if slot < self.slots {
                let value = self.slot(bin, slot);
                each(bucket, value, self.stamp(value));
                slot += 1;
            }
        }
    }

    /// Drops the slots of old stamps; the epoch becomes this one.
    pub(super) fn tidy(&self, bin: &mut Bin, epoch: u64, is_old: impl Fn(u64) -> bool) {
        let mut tidy = [0; WORDS];
        let mut kept = 0;
        self.each(bin, |bucket, value, stamp| {
            // A bucket past the last is none that a filter wrote.
            if !is_old(stamp) && bucket < self.buckets {
                let mark = bucket + kept;
                tidy[mark / 64] |= 1 << (mark % 64);
                packed::set_at(&mut tidy, self.width, self.slot_bit(kept), value);
                kept += 1;
            }
        });
        self.set_wild(&mut tidy, self.wild(bin).filter(|stamp| !is_old(*stamp)));
        tidy[WORDS - 1] |= epoch << (64 - EPOCH);
        *bin = tidy;
    }

    /// Whether every bit is one that a filter may have written.
    pub(super) fn is_sound(&self, bin: &Bin) -> bool {
        let mut sound = self.used(bin) <= self.slots;
        self.each(bin, |_, value, _| sound &= value < self.remainders * self.stamps);
        let mut again = *bin;
        self.tidy(&mut again, Self::epoch(bin), |_| false);
        sound && again == *bin && self.wild(bin).is_none_or(|stamp| stamp < self.stamps)
    }
}

#[inline(always)]
fn marked(bin: &Bin, at: usize) -> bool {
    bin[at / 64] >> (at % 64) & 1 == 1
}

/// Moves the bits from `from` to `to` up by fewer than 64, the topmost out, and puts a value before them.
#[inline(always)]
fn push_up(bin: &mut Bin, from: usize, to: usize, by: u32, value: u64) {
    let (first, last) = (from / 64, (to - 1) / 64);
    let keep_low = mask((from % 64) as u32);
    let keep_high = !(u64::MAX >> (63 - (to - 1) % 64));
    for i in (first..=last).rev() {
        let below = if i > 0 { bin[i - 1] >> (64 - by) } else { 0 };
        let mut keep = if i == first { keep_low } else { 0 };
        keep |= if i == last { keep_high } else { 0 };
        bin[i] = bin[i] & keep | (bin[i] << by | below) & !keep;
    }
    packed::set_at(bin, by, from as u64, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bits::range::mix;
    use bits::select::Portable;

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
                let found = layout.find(Portable, &bin, key);
                assert_eq!(found.map(|(_, stamp)| stamp), held.map(|at| model[at].2));
                match (found, held) {
                    (Some((slot, from)), Some(at)) => {
                        layout.restamp(&mut bin, slot, from, stamp);
                        model[at].2 = stamp;
                    }
                    _ if model.len() < layout.slots => {
                        layout.insert(Portable, &mut bin, key, stamp);
                        model.push((key.0, key.1, stamp));
                    }
                    _ => {
                        let old = random >> 60;
                        layout.tidy(&mut bin, step % 7, |stamp| stamp == old % stamps);
                        model.retain(|(_, _, stamp)| *stamp != old % stamps);
                        assert_eq!(Layout::epoch(&bin), step % 7);
                    }
                }
                assert_eq!(layout.used(&bin), model.len());
                assert!(layout.is_sound(&bin), "seed {seed}, step {step}");
            }
            let mut listed = Vec::new();
            layout.each(&bin, |bucket, value, stamp| listed.push((bucket, value / stamps, stamp)));
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
