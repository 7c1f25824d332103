//! A block of a Morton filter: variable-size buckets in one cache line.

use tamis_bits::{LINE_WORDS, packed};

/// Number of overflow bits.
pub(super) const FLAGS: u32 = 16;
/// The largest number of keys in a bucket.
pub(super) const BUCKET_SLOTS: u64 = 3;

pub(super) type Block = [u64; LINE_WORDS];

/// For each bucket, the mask of the counters before its own. This is a table because a branch on
/// the word that contains the counter would be mispredicted half of the time.
static BEFORE: [[u64; 2]; 64] = {
    let mut masks = [[0; 2]; 64];
    let mut bucket = 0;
    while bucket < 64 {
        let mask = (1u128 << (2 * bucket)) - 1;
        masks[bucket] = [mask as u64, (mask >> 64) as u64];
        bucket += 1;
    }
    masks
};

/// The layout of a block of fingerprints of `F` bits.
pub(super) struct Layout<const F: u32>;

impl<const F: u32> Layout<F> {
    /// Short fingerprints leave many slots, which need many buckets of at most 3.
    pub(super) const BUCKETS: u32 = match F {
        ..=8 => 64,
        9..=10 => 48,
        _ => 32,
    };
    pub(super) const FLAGS_AT: u32 = 2 * Self::BUCKETS;
    pub(super) const SLOTS_AT: u32 = Self::FLAGS_AT + FLAGS;
    pub(super) const SLOTS: u32 = (512 - Self::SLOTS_AT) / F;
    /// The lowest and the highest bits of three fingerprints.
    const ONES: u64 = 1 | 1 << F | 1 << (2 * F);
    const TOPS: u64 = Self::ONES << (F - 1);

    /// The bit of the last word at which the last slot begins.
    const LAST: u32 = Self::SLOTS_AT + (Self::SLOTS - 1) * F - 448;

    /// The word in which the slots begin.
    const FIRST: usize = Self::SLOTS_AT as usize / 64;
    /// For each slot, the mask of the bits below it. It replaces a loop of unpredictable length in
    /// insertions.
    const BELOW: [Block; 64] = {
        let mut below = [[u64::MAX; LINE_WORDS]; 64];
        let mut slot = 0;
        while slot <= Self::SLOTS {
            let bit = Self::SLOTS_AT + slot * F;
            let mut word = bit as usize / 64;
            if word < LINE_WORDS {
                below[slot as usize][word] = (1 << (bit % 64)) - 1;
            }
            word += 1;
            while word < LINE_WORDS {
                below[slot as usize][word] = 0;
                word += 1;
            }
            slot += 1;
        }
        below
    };

    /// Returns the counters of the buckets before this one.
    #[inline(always)]
    pub(super) fn counters_before(block: &Block, bucket: u32) -> [u64; 2] {
        let masks = &BEFORE[bucket as usize % BEFORE.len()];
        [block[0] & masks[0], block[1] & masks[1]]
    }

    /// Returns the number of fingerprints in a bucket.
    #[inline(always)]
    pub(super) fn count(block: &Block, bucket: u32) -> u64 {
        block[(bucket / 32) as usize % 2] >> (2 * (bucket % 32)) & 3
    }

    /// Returns the sum of 2-bit counters.
    #[inline(always)]
    pub(super) fn sum(words: [u64; 2]) -> u32 {
        const TWOS: u64 = 0x3333_3333_3333_3333;
        const FOURS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        let nibbles = words.map(|x| (x & TWOS) + (x >> 2 & TWOS));
        let sum = nibbles[0] + nibbles[1];
        let bytes = (sum & FOURS) + (sum >> 4 & FOURS);
        (bytes.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
    }

    /// Returns the number of fingerprints in the block.
    #[inline(always)]
    pub(super) fn len(block: &Block) -> u32 {
        let second = match Self::BUCKETS {
            64 => block[1],
            48 => block[1] & 0xffff_ffff,
            _ => 0,
        };
        Self::sum([block[0], second])
    }

    /// Returns whether the bits after the last slot are zero.
    pub(super) fn ends_clear(block: &Block) -> bool {
        block[LINE_WORDS - 1].checked_shr(Self::LAST + F).unwrap_or(0) == 0
    }

    /// Returns the first slot of a bucket and its number of slots.
    #[inline(always)]
    pub(super) fn find(block: &Block, bucket: u32) -> (u32, u64) {
        (Self::sum(Self::counters_before(block, bucket)), Self::count(block, bucket))
    }

    /// Returns the bits from slot `slot` on. A damaged file may have any counters: past the end of
    /// the block, the bits wrap around to its beginning.
    #[inline(always)]
    pub(super) fn slots_from(block: &Block, slot: u32) -> u64 {
        let bit = Self::SLOTS_AT + slot * F;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        block[word % LINE_WORDS] >> shift | block[(word + 1) % LINE_WORDS] << 1 << (63 - shift)
    }

    /// Returns the first slot of the bucket and a mask with the top bit of the lowest lane that
    /// equals the fingerprint.
    #[inline(always)]
    pub(super) fn matches(block: &Block, bucket: u32, fp: u64) -> (u32, u64) {
        let (slot, count) = Self::find(block, bucket);
        let x = Self::slots_from(block, slot) ^ Self::ONES.wrapping_mul(fp);
        let zero = x.wrapping_sub(Self::ONES) & !x & Self::TOPS;
        (slot, zero & ((1 << (count as u32 * F)) - 1))
    }

    #[inline(always)]
    pub(super) fn contains(block: &Block, bucket: u32, fp: u64) -> bool {
        Self::matches(block, bucket, fp).1 != 0
    }

    #[inline(always)]
    pub(super) fn spilled(block: &Block, bucket: u32) -> bool {
        tamis_bits::set::get(block, u64::from(Self::FLAGS_AT + bucket % FLAGS))
    }

    pub(super) fn spill(block: &mut Block, bucket: u32) {
        tamis_bits::set::set(block, u64::from(Self::FLAGS_AT + bucket % FLAGS));
    }

    #[inline(always)]
    pub(super) fn has_room(block: &Block, bucket: u32) -> bool {
        // Slots are filled from the first on, and only a few bits follow the last one, which are zero.
        (block[LINE_WORDS - 1] >> Self::LAST == 0) & (Self::count(block, bucket) < BUCKET_SLOTS)
    }

    /// Appends a fingerprint to a bucket; later fingerprints move up. Returns `false` if there is no
    /// room.
    #[inline(always)]
    pub(super) fn insert(block: &mut Block, bucket: u32, fp: u64) -> bool {
        let (first, count) = Self::find(block, bucket);
        let slot = first + count as u32;
        // A damaged file may have any counters, so a bucket may begin past the end.
        if !Self::has_room(block, bucket) || slot >= Self::SLOTS {
            return false;
        }
        let (kept, moved) = (&Self::BELOW[slot as usize], &Self::BELOW[slot as usize + 1]);
        for i in (Self::FIRST..LINE_WORDS).rev() {
            let up = block[i] << F | block[i - 1] >> (64 - F);
            block[i] = block[i] & kept[i] | up & !moved[i];
        }
        let bit = Self::SLOTS_AT + slot * F;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        block[word % LINE_WORDS] |= fp << shift;
        block[(word + 1) % LINE_WORDS] |= fp >> 1 >> (63 - shift);
        block[(bucket / 32) as usize] += 1 << (2 * (bucket % 32));
        true
    }

    /// Removes a fingerprint from a bucket, if present; later fingerprints move down.
    pub(super) fn remove(block: &mut Block, bucket: u32, fp: u64) -> bool {
        let (first, lanes) = Self::matches(block, bucket, fp);
        let slot = first + lanes.trailing_zeros() / F;
        if lanes == 0 || slot >= Self::SLOTS {
            return false;
        }
        let bit = Self::SLOTS_AT + slot * F;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let kept = (1 << shift) - 1;
        let after = |i: usize| block.get(i + 1).copied().unwrap_or(0);
        let mut next = *block;
        for i in word..LINE_WORDS {
            next[i] = block[i] >> F | after(i) << (64 - F);
        }
        next[word] = block[word] & kept | next[word] & !kept;
        *block = next;
        block[(bucket / 32) as usize] -= 1 << (2 * (bucket % 32));
        true
    }

    /// Returns the fingerprints of a bucket.
    pub(super) fn fingerprints(block: &Block, bucket: u32) -> impl Iterator<Item = u64> + use<F> {
        let (slot, count) = Self::find(block, bucket);
        let all = Self::slots_from(block, slot);
        (0..count as u32).map(move |i| all >> (i * F) & packed::mask(F))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;

    /// Compares a block with a list of fingerprints for each bucket.
    fn a_block_is_its_buckets<const F: u32>() {
        let spare = 512 - Layout::<F>::SLOTS_AT - Layout::<F>::SLOTS * F;
        assert!(spare < F && Layout::<F>::LAST + F + spare == 64);
        let mut block = [0; LINE_WORDS];
        let mut model = vec![Vec::new(); Layout::<F>::BUCKETS as usize];
        for step in 0..200_000u64 {
            let bucket = (mix(step) % u64::from(Layout::<F>::BUCKETS)) as u32;
            let fp = 1 + mix(step ^ 77 << 40) % 3 * (packed::mask(F) / 3);
            let len: usize = model.iter().map(Vec::len).sum();
            let here = &mut model[bucket as usize];
            assert_eq!(Layout::<F>::contains(&block, bucket, fp), here.contains(&fp));
            if mix(step ^ 99 << 40) % 9 < 5 {
                let room = here.len() < 3 && len < Layout::<F>::SLOTS as usize;
                assert_eq!(Layout::<F>::has_room(&block, bucket), room);
                assert_eq!(Layout::<F>::insert(&mut block, bucket, fp), room);
                if room {
                    here.push(fp);
                }
            } else {
                let at = here.iter().position(|other| *other == fp);
                assert_eq!(Layout::<F>::remove(&mut block, bucket, fp), at.is_some());
                at.map(|at| here.remove(at));
            }
            let probe = (step % u64::from(Layout::<F>::BUCKETS)) as u32;
            let fingerprints: Vec<u64> = Layout::<F>::fingerprints(&block, probe).collect();
            assert_eq!(fingerprints, model[probe as usize]);
        }
    }

    #[test]
    fn blocks_are_their_buckets() {
        a_block_is_its_buckets::<6>();
        a_block_is_its_buckets::<7>();
        a_block_is_its_buckets::<8>();
        a_block_is_its_buckets::<9>();
        a_block_is_its_buckets::<10>();
        a_block_is_its_buckets::<12>();
        a_block_is_its_buckets::<15>();
        a_block_is_its_buckets::<16>();
    }
}
