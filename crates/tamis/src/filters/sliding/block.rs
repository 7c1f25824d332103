//! A block of up to 64 words: a small quotient filter of consecutive buckets, whose slots have the
//! generation of their key.
//!
//! ```text
//!  word 0                  word 1                                                    last word
//!  │ head                  │ index ►              │   free   │            ◄ slots of w bits │
//!  │ epoch shift more used │ 0 1 1 0 0 1 0 …      │          │ … │ remainder · g + stamp │ 0 │
//!                            └─┬─┘ └ bucket 1
//!                              bucket 0: 2 slots
//! ```
//!
//! The index has a zero for each bucket, followed by as many ones as the bucket has slots. Slots
//! are in the order of their buckets, the first one at the end of the block. Index and slots grow
//! towards each other: a block with fewer buckets has room for more slots.
//!
//! The stamp of a slot is the generation in which its key was last pushed, modulo g, the number of
//! generations that are remembered. The epoch is the time of the last eviction from the block, of
//! which 16 bits are kept: slots that had expired then are gone, which gives the age of the others.
//!
//! Block i of the ring has b buckets from bucket i · b on when it is empty. *Shift* says how many
//! buckets later than that it begins now, and *more* how many buckets it has beyond b; either may be
//! negative. An unused block is all zeros, and empty.

use tamis_bits::packed::{self, mask};
use tamis_bits::select::Bits;

/// The most words of a block.
pub(super) const MAX_WORDS: usize = 64;
/// The largest width for which [`Layout::stamp`] is exact.
pub(super) const MAX_WIDTH: u32 = 48;
/// Bits of the epoch.
pub(super) const EPOCH: u32 = 16;
/// Bits of the head.
const HEAD: usize = 64;

/// How the bits of a block are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) words: usize,
    /// Buckets of an empty block.
    pub(super) buckets: usize,
    pub(super) width: u32,
    /// Generations that are remembered, which is the number of distinct stamps.
    pub(super) stamps: u64,
    pub(super) remainders: u64,
    /// 2^64 / stamps, rounded up.
    inverse: u64,
}

/// The first word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) epoch: u64,
    pub(super) shift: i64,
    pub(super) buckets: usize,
    pub(super) used: usize,
}

impl Head {
    /// Returns the bits of the index.
    #[inline(always)]
    fn index(self) -> usize {
        self.buckets + self.used
    }
}

/// The place of a fingerprint in a block: the position of its bucket's zero in the index, its slot
/// if it is found and else the first slot of the bucket, and the stamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) zero: usize,
    pub(super) slot: usize,
    pub(super) stamp: Option<u64>,
}

impl Layout {
    /// Returns the layout of blocks of `words` words with `buckets` buckets each; `None` if there is
    /// no room for a slot, or no remainder.
    pub(super) fn new(words: u64, buckets: u64, width: u32, stamps: u64) -> Option<Self> {
        let (words, buckets) = (usize::try_from(words).ok()?, usize::try_from(buckets).ok()?);
        let remainders = (mask(width) + 1) / stamps;
        let fits = (2..=MAX_WORDS).contains(&words)
            && (1..=MAX_WIDTH).contains(&width)
            && (1..=64 * MAX_WORDS).contains(&buckets)
            && buckets + 1 + width as usize <= 64 * words - HEAD
            && remainders > 0;
        let inverse = (u64::MAX / stamps).wrapping_add(1);
        fits.then_some(Self { words, buckets, width, stamps, remainders, inverse })
    }

    /// Returns the bits of a block.
    #[inline(always)]
    fn end(&self) -> usize {
        64 * self.words
    }

    /// Returns the bits that a slot takes, with its one in the index.
    #[inline(always)]
    pub(super) fn slot_bits(&self) -> usize {
        self.width as usize + 1
    }

    /// Returns the bits for buckets and slots.
    #[inline(always)]
    pub(super) fn space(&self) -> usize {
        self.end() - HEAD
    }

    /// Returns the head of a block; `None` if more is said to be in it than fits, as in a damaged
    /// file.
    #[inline(always)]
    pub(super) fn head(&self, block: &[u64]) -> Option<Head> {
        let word = block[0];
        let signed = |shift: u32| i64::from((word >> shift) as u16 as i16);
        let buckets = self.buckets as i64 + signed(32);
        let (buckets, used) = (buckets as usize, (word >> 48) as usize);
        let head = Head { epoch: word & mask(EPOCH), shift: signed(16), buckets, used };
        // A negative number has become a large one.
        (buckets <= self.space() && buckets + used * self.slot_bits() <= self.space())
            .then_some(head)
    }

    #[inline(always)]
    pub(super) fn set_head(&self, block: &mut [u64], head: Head) {
        let more = head.buckets as i64 - self.buckets as i64;
        let signed = |value: i64| u64::from(value as i16 as u16);
        block[0] =
            head.epoch | signed(head.shift) << 16 | signed(more) << 32 | (head.used as u64) << 48;
    }

    /// Returns the free bits of a block.
    #[inline(always)]
    pub(super) fn free(&self, head: Head) -> usize {
        self.space() - head.buckets - head.used * self.slot_bits()
    }

    /// Returns the bit where a slot begins.
    #[inline(always)]
    fn slot_bit(&self, slot: usize) -> usize {
        self.end() - (slot + 1) * self.width as usize
    }

    #[inline(always)]
    fn slot(&self, block: &[u64], slot: usize) -> u64 {
        read(block, self.slot_bit(slot)) & mask(self.width)
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

    /// Returns the position of a bucket's zero in the index, and the number of ones before it. In a
    /// damaged block the results are wrong, but within the index and the slots.
    #[inline(always)]
    fn place(&self, bits: impl Bits, block: &[u64], head: Head, bucket: usize) -> (usize, usize) {
        let (mut word, mut left) = (1, bucket as u32);
        while word + 1 < block.len() {
            let zeros = block[word].count_zeros();
            if left < zeros {
                break;
            }
            left -= zeros;
            word += 1;
        }
        let within = bits.select(!block[word], left.min(63)) as usize;
        let zero = (64 * (word - 1) + within).min(head.index().saturating_sub(1));
        (zero, zero.saturating_sub(bucket).min(head.used))
    }

    /// Returns the number of ones after a position in the index.
    #[inline(always)]
    fn run(&self, block: &[u64], zero: usize, head: Head, slot: usize) -> usize {
        let mut ones = read(block, HEAD + zero + 1).trailing_ones() as usize;
        let mut part = ones;
        while part == 64 && ones < head.used {
            part = read(block, HEAD + zero + 1 + ones).trailing_ones() as usize;
            ones += part;
        }
        ones.min(head.used - slot)
    }

    /// Finds a remainder in its bucket.
    #[inline(always)]
    pub(super) fn find(
        &self,
        bits: impl Bits,
        block: &[u64],
        head: Head,
        bucket: usize,
        remainder: u64,
    ) -> Found {
        let (zero, slot) = self.place(bits, block, head, bucket);
        let first = remainder * self.stamps;
        for at in slot..slot + self.run(block, zero, head, slot) {
            let stamp = self.slot(block, at).wrapping_sub(first);
            if stamp < self.stamps {
                return Found { zero, slot: at, stamp: Some(stamp) };
            }
        }
        Found { zero, slot, stamp: None }
    }

    /// Inserts a slot at the beginning of a bucket in a block that has room for it.
    #[inline(always)]
    pub(super) fn insert(
        &self,
        block: &mut [u64],
        head: Head,
        at: Found,
        remainder: u64,
        stamp: u64,
    ) {
        let (from, to) = (self.slot_bit(head.used), self.slot_bit(at.slot) + self.width as usize);
        shift_out(block, from, to, self.width);
        packed::set_at(
            block,
            self.width,
            self.slot_bit(at.slot) as u64,
            remainder * self.stamps + stamp,
        );
        shift_in(block, HEAD + at.zero + 1, HEAD + head.index() + 1, 1);
        packed::set_at(block, 1, (HEAD + at.zero + 1) as u64, 1);
        self.set_head(block, Head { used: head.used + 1, ..head });
    }

    /// Changes the stamp of a slot.
    #[inline(always)]
    pub(super) fn restamp(&self, block: &mut [u64], slot: usize, from: u64, to: u64) {
        let bit = self.slot_bit(slot) as u64;
        let value = packed::get_at(block, self.width, bit).wrapping_sub(from).wrapping_add(to);
        packed::set_at(block, self.width, bit, value);
    }

    /// Removes a slot and a one of the index.
    #[inline(always)]
    fn remove(&self, block: &mut [u64], head: Head, one: usize, slot: usize) {
        let (from, to) = (self.slot_bit(head.used - 1), self.slot_bit(slot) + self.width as usize);
        shift_in(block, from, to, self.width);
        packed::set_at(block, self.width, from as u64, 0);
        shift_out(block, HEAD + one, HEAD + head.index(), 1);
    }

    /// Removes the slots of the buckets `from..to` whose stamps have expired. Returns the head,
    /// which is not yet written.
    #[inline(always)]
    pub(super) fn evict(
        &self,
        bits: impl Bits,
        block: &mut [u64],
        mut head: Head,
        (from, to): (usize, usize),
        is_expired: impl Fn(u64) -> bool,
    ) -> Head {
        let (_, first) = self.place(bits, block, head, from);
        let end = if to < head.buckets { self.place(bits, block, head, to).1 } else { head.used };
        for slot in (first..end).rev() {
            if is_expired(self.stamp(self.slot(block, slot))) {
                self.remove(block, head, self.one(bits, block, head, slot), slot);
                head.used -= 1;
            }
        }
        head
    }

    /// Returns the position of a slot's one in the index.
    #[inline(always)]
    fn one(&self, bits: impl Bits, block: &[u64], head: Head, slot: usize) -> usize {
        let (mut word, mut left) = (1, slot as u32);
        while word + 1 < block.len() {
            let ones = block[word].count_ones();
            if left < ones {
                break;
            }
            left -= ones;
            word += 1;
        }
        let within = bits.select(block[word], left.min(63)) as usize;
        (64 * (word - 1) + within).min(head.index() - 1)
    }

    /// Removes all slots.
    pub(super) fn clear(&self, block: &mut [u64], head: Head) -> Head {
        block[1..].fill(0);
        Head { used: 0, ..head }
    }

    /// Returns how many of the last buckets, or of the first ones, take at least `need` bits, and
    /// the bits that they take; `None` if all but one take fewer.
    pub(super) fn edge(
        &self,
        block: &[u64],
        head: Head,
        side: Side,
        need: usize,
    ) -> Option<(usize, usize)> {
        let (mut bits, mut count, mut taken) = (0, 0, 0);
        while bits < need {
            let ones = self.edge_ones(block, head, side, taken)?;
            (bits, count, taken) =
                (bits + 1 + ones * self.slot_bits(), count + 1, taken + 1 + ones);
            if count >= head.buckets {
                return None;
            }
        }
        Some((count, bits))
    }

    /// Returns the slots of the bucket at an edge of a block, beyond `taken` bits of the index.
    fn edge_ones(&self, block: &[u64], head: Head, side: Side, taken: usize) -> Option<usize> {
        let left = head.index().checked_sub(taken + 1)?;
        let is_one = |at: usize| block[(HEAD + at) / 64] >> ((HEAD + at) % 64) & 1 == 1;
        let ones = match side {
            Side::Last => (0..=left).rev().take_while(|at| is_one(*at)).count(),
            Side::First => (taken + 1..=taken + left).take_while(|at| is_one(*at)).count(),
        };
        Some(ones)
    }

    /// Moves buckets between two blocks with the same epoch, of which `right` follows `left`: as
    /// many as `count` says, from the last of `left` or from the first of `right`. Returns whether
    /// the blocks are sound and have room.
    pub(super) fn pass(
        &self,
        bits: impl Bits,
        (left, right): (&mut [u64], &mut [u64]),
        from: Side,
        count: usize,
    ) -> bool {
        let (Some(a), Some(b)) = (self.head(left), self.head(right)) else { return false };
        if !self.is_consistent(left, a) || !self.is_consistent(right, b) {
            return false;
        }
        // One block loses or gains its last buckets, which is done in place. The other one, which
        // loses or gains its first ones, is put together again.
        let mut copied = Copied::default();
        let none = Cut { bit: 0, slot: 0 };
        let all = |head: Head| Cut { bit: head.index(), slot: head.used };
        let (more, cut) = match from {
            Side::Last => {
                let (bit, slot) = self.place(bits, left, a, a.buckets - count);
                let cut = Cut { bit, slot };
                self.copy(&mut copied, left, cut, all(a));
                self.copy(&mut copied, right, none, all(b));
                let width = self.width as usize;
                clear_bits(left, HEAD + bit, HEAD + a.index());
                clear_bits(left, self.end() - a.used * width, self.end() - slot * width);
                (-(count as i64), cut)
            }
            Side::First => {
                let (bit, slot) = self.place(bits, right, b, count);
                let cut = Cut { bit, slot };
                self.append(left, all(a), right, none, cut);
                self.copy(&mut copied, right, cut, all(b));
                (count as i64, Cut { bit: a.index() + bit, slot: a.used + slot })
            }
        };
        right.copy_from_slice(&copied.words[..right.len()]);
        let buckets = |head: Head, more: i64| (head.buckets as i64 + more) as usize;
        self.set_head(left, Head { buckets: buckets(a, more), used: cut.slot, ..a });
        let (shift, used) = (b.shift + more, copied.to.slot);
        self.set_head(right, Head { buckets: buckets(b, -more), used, shift, ..b });
        true
    }

    /// Appends a part of a block to a copy, which has room for it.
    fn copy(&self, copied: &mut Copied, block: &[u64], from: Cut, to: Cut) {
        copied.to = self.append(&mut copied.words, copied.to, block, from, to);
    }

    /// Appends a part of a block to another, whose bits from `at` on are zero. Returns its end.
    fn append(&self, words: &mut [u64], at: Cut, block: &[u64], from: Cut, to: Cut) -> Cut {
        let width = self.width as usize;
        let (bits, slots) = (to.bit - from.bit, to.slot - from.slot);
        copy_bits(words, HEAD + at.bit, block, HEAD + from.bit, bits);
        let (target, source) =
            (self.end() - (at.slot + slots) * width, self.end() - to.slot * width);
        copy_bits(words, target, block, source, slots * width);
        Cut { bit: at.bit + bits, slot: at.slot + slots }
    }

    /// Returns whether the index has as many ones as the block has slots, which only a damaged one
    /// has not. A slot that is inserted into such a block may not be found again.
    #[inline(always)]
    pub(super) fn is_consistent(&self, block: &[u64], head: Head) -> bool {
        self.ones(block, head) == head.used
    }

    /// Returns the number of ones in the index.
    #[inline(always)]
    fn ones(&self, block: &[u64], head: Head) -> usize {
        let whole = head.index() / 64;
        let ones: u32 = block[1..=whole].iter().map(|word| word.count_ones()).sum();
        let rest = block.get(whole + 1).map_or(0, |word| word & mask((head.index() % 64) as u32));
        (ones + rest.count_ones()) as usize
    }

    /// Calls `each` for every slot of a sound block with its bucket, value and stamp.
    pub(super) fn for_each_slot(
        &self,
        block: &[u64],
        head: Head,
        mut each: impl FnMut(usize, u64, u64),
    ) {
        let (mut zeros, mut slot) = (0, 0);
        for at in 0..head.index() {
            if block[(HEAD + at) / 64] >> (at % 64) & 1 == 0 {
                zeros += 1;
            } else {
                let value = self.slot(block, slot);
                each(zeros - 1, value, self.stamp(value));
                slot += 1;
            }
        }
    }

    /// Returns the head of a block if the block is valid.
    pub(super) fn check(&self, block: &[u64]) -> Option<Head> {
        let head = self.head(block)?;
        let begins = head.buckets > 0 && block[1] & 1 == 0;
        if !begins || !self.is_consistent(block, head) {
            return None;
        }
        // The block has nothing but its index and its slots.
        let mut copied = Copied::default();
        self.copy(
            &mut copied,
            block,
            Cut { bit: 0, slot: 0 },
            Cut { bit: head.index(), slot: head.used },
        );
        let mut sound = copied.words[1..block.len()] == block[1..];
        self.for_each_slot(block, head, |_, value, _| {
            sound &= value < self.remainders * self.stamps;
        });
        sound.then_some(head)
    }
}

/// The edge of a block where buckets leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Last,
}

impl Side {
    pub(super) fn other(self) -> Self {
        if self == Self::Last { Self::First } else { Self::Last }
    }
}

/// A position in an index, and the number of slots before it.
#[derive(Clone, Copy, Debug)]
struct Cut {
    bit: usize,
    slot: usize,
}

/// A block that is being put together.
struct Copied {
    words: [u64; MAX_WORDS],
    to: Cut,
}

impl Default for Copied {
    fn default() -> Self {
        Self { words: [0; MAX_WORDS], to: Cut { bit: 0, slot: 0 } }
    }
}

/// Returns the 64 bits from `bit` on; those past the end are arbitrary.
#[inline(always)]
fn read(block: &[u64], bit: usize) -> u64 {
    let (word, shift, last) = (bit / 64, bit % 64, block.len() - 1);
    block[word.min(last)] >> shift | block[(word + 1).min(last)] << 1 << (63 - shift)
}

/// Copies bits to others that are zero.
fn copy_bits(to: &mut [u64], mut at: usize, from: &[u64], mut bit: usize, mut len: usize) {
    while len > 0 {
        let part = len.min(64 - at % 64);
        to[at / 64] |= (read(from, bit) & mask(part as u32)) << (at % 64);
        (at, bit, len) = (at + part, bit + part, len - part);
    }
}

/// Clears the bits `from..to`.
fn clear_bits(block: &mut [u64], from: usize, to: usize) {
    if from < to {
        let (words, low, high) = span(block, from, to);
        let (first, last) = (words[0] & low, words[words.len() - 1] & high);
        words.fill(0);
        words[0] |= first;
        *words.last_mut().expect("a bit") |= last;
    }
}

/// Returns the words that contain the bits `from..to`, and masks of the other bits in the first and
/// the last word.
#[inline(always)]
fn span(block: &mut [u64], from: usize, to: usize) -> (&mut [u64], u64, u64) {
    let others = (mask((from % 64) as u32), !(u64::MAX >> (63 - (to - 1) % 64)));
    (&mut block[from / 64..=(to - 1) / 64], others.0, others.1)
}

/// Moves the bits `from..to` up by fewer than 64 and drops the topmost; the vacated bits are
/// arbitrary.
#[inline(always)]
fn shift_in(block: &mut [u64], from: usize, to: usize, by: u32) {
    let (words, low, high) = span(block, from, to);
    let last = words.len() - 1;
    let (below, above) = (words[0] & low, words[last] & high);
    for i in (1..=last).rev() {
        words[i] = words[i] << by | words[i - 1] >> (64 - by);
    }
    words[0] = words[0] << by & !low | below;
    words[last] = words[last] & !high | above;
}

/// Moves the bits `from + by..to` down by fewer than 64, and clears the vacated bits.
#[inline(always)]
fn shift_out(block: &mut [u64], from: usize, to: usize, by: u32) {
    let (words, low, high) = span(block, from, to);
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

    /// Compares two neighbouring blocks with a list of their slots.
    #[test]
    fn two_blocks_agree_with_a_list() {
        for seed in 0..200u64 {
            let (words, width) = (4 + mix(seed) % 61, 4 + mix(seed + 1) % 44);
            let (stamps, buckets) = (1 + seed % 9, 1 + mix(seed + 2) % (20 * words));
            let Some(layout) = Layout::new(words, buckets, width as u32, stamps) else { continue };
            let mut blocks = [vec![0u64; words as usize], vec![0u64; words as usize]];
            let mut model: Vec<(usize, u64, u64)> = Vec::new();
            let mut full = 0;
            for step in 0..2000 {
                let random = mix(seed << 32 | step);
                let heads = [layout.head(&blocks[0]).unwrap(), layout.head(&blocks[1]).unwrap()];
                assert_eq!(heads[0].buckets + heads[1].buckets, 2 * buckets as usize);
                let bucket = (random % (2 * buckets)) as usize;
                let side = usize::from(bucket >= heads[0].buckets);
                let (head, within) = (heads[side], bucket - side * heads[0].buckets);
                let remainder = (random >> 20) % layout.remainders;
                let stamp = (random >> 50) % stamps;
                let block = &mut blocks[side];
                match random >> 56 {
                    0..2 => {
                        let most = (random >> 30) % stamps;
                        let is_expired = |stamp: u64| stamp < most;
                        let to = (within + 1 + (random >> 40) as usize % 60).min(head.buckets);
                        let head = layout.evict(Portable, block, head, (within, to), is_expired);
                        layout.set_head(block, head);
                        let range = bucket..bucket - within + to;
                        model.retain(|slot| !range.contains(&slot.0) || !is_expired(slot.2));
                    }
                    2..8 => {
                        let [left, right] = &mut blocks;
                        let from = [Side::Last, Side::First][(random >> 55) as usize % 2];
                        let source = usize::from(from == Side::First);
                        let (free, room) =
                            (layout.free(heads[source]), layout.free(heads[1 - source]));
                        let edge = if source == 0 { &*left } else { &*right };
                        let need = 1 + (random >> 30) as usize % 500;
                        if let Some((count, bits)) = layout.edge(edge, heads[source], from, need)
                            && bits <= room
                        {
                            assert!(layout.pass(Portable, (left, right), from, count));
                            let now = layout.head(&blocks[source]).unwrap();
                            assert_eq!(layout.free(now), free + bits);
                        }
                    }
                    _ => {
                        let found = layout.find(Portable, block, head, within, remainder);
                        let held =
                            model.iter().position(|(b, r, _)| (*b, *r) == (bucket, remainder));
                        assert_eq!(found.stamp, held.map(|at| model[at].2));
                        match (found.stamp, held) {
                            (Some(from), Some(at)) => {
                                layout.restamp(block, found.slot, from, stamp);
                                model[at].2 = stamp;
                            }
                            _ if layout.free(head) >= layout.slot_bits() => {
                                layout.insert(block, head, found, remainder, stamp);
                                model.push((bucket, remainder, stamp));
                            }
                            _ => full += 1,
                        }
                    }
                }
                assert!(blocks.iter().all(|block| layout.check(block).is_some()), "{seed}, {step}");
            }
            let (mut listed, mut before) = (Vec::new(), 0);
            for block in &blocks {
                let head = layout.head(block).unwrap();
                layout.for_each_slot(block, head, |bucket, value, stamp| {
                    listed.push((before + bucket, value / stamps, stamp));
                });
                before += head.buckets;
            }
            assert!(listed.is_sorted_by_key(|(bucket, _, _)| *bucket));
            listed.sort_unstable();
            model.sort_unstable();
            assert_eq!(listed, model);
            assert!(full > 0 || words > 20 || width < 20, "seed {seed} never fills a block");
        }
    }

    #[test]
    fn stamps_are_remainders_of_a_division() {
        for stamps in 1..=65 {
            for width in [8, 20, MAX_WIDTH] {
                let layout = Layout::new(30, 3, width, stamps).unwrap();
                let values = (0..2000).map(|i| mix(i) & mask(width)).chain([0, mask(width)]);
                values.for_each(|value| assert_eq!(layout.stamp(value), value % stamps));
            }
        }
    }
}
