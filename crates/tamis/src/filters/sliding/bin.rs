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

use bits::lanes::window;
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

    /// The slot of a remainder in its bucket, and its stamp; where the bucket begins if there is none.
    #[inline(always)]
    pub(super) fn find(
        &self,
        bits: impl Bits,
        bin: &Bin,
        (bucket, remainder): (usize, u64),
    ) -> Result<(usize, u64), usize> {
        let (begin, first) = (self.place(bits, bin, bucket), remainder * self.stamps);
        let mut at = begin;
        // The second condition holds in every bin that a filter wrote.
        while at < self.index() && at - bucket < self.slots && marked(bin, at) {
            let stamp = self.slot(bin, at - bucket).wrapping_sub(first);
            if stamp < self.stamps {
                return Ok((at - bucket, stamp));
            }
            at += 1;
        }
        Err(begin)
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn used(&self, bin: &Bin) -> usize {
        marks(bin, self.index())
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
        push_up(bin, begin, self.index(), 1, 1);
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
        for (i, word) in bin.iter().enumerate().take(self.index().div_ceil(64)) {
            let mut marks = word & mask((self.index() - 64 * i).min(64) as u32);
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
    pub(super) fn tidy(&self, bin: &mut Bin, epoch: u64, is_old: impl Fn(u64) -> bool) {
        // One in nine is old, as a rule: their marks, and from the last on each is taken out.
        let (mut old, mut used) = ([0u64; WORDS], 0);
        self.each(bin, |mark, _, stamp| {
            old[mark / 64] |= u64::from(is_old(stamp)) << (mark % 64);
            used += 1;
        });
        let mut end = self.slot_bit(used) as usize;
        for i in (0..self.index().div_ceil(64)).rev() {
            while old[i] != 0 {
                let last = old[i].ilog2() as usize;
                let mark = 64 * i + last;
                let slot = self.slot_bit(marks(bin, mark)) as usize;
                pull_down(bin, slot, end, self.width);
                pull_down(bin, mark, self.index(), 1);
                end -= self.width as usize;
                old[i] ^= 1 << last;
            }
        }
        if self.wild(bin).is_some_and(is_old) {
            self.set_wild(bin, None);
        }
        packed::set_at(bin, EPOCH, (SIZE as u32 - EPOCH).into(), epoch);
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

#[inline(always)]
fn marked(bin: &Bin, at: usize) -> bool {
    bin[at / 64] >> (at % 64) & 1 == 1
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
