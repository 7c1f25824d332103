//! One block of a Morton filter: buckets without places of their own, in a cache line.

use tamis_bits::{LINE_WORDS, packed};

/// Overflow bits.
pub(super) const FLAGS: u32 = 16;
/// Keys of a bucket.
pub(super) const DEEP: u64 = 3;

pub(super) type Block = [u64; LINE_WORDS];

/// For each bucket the bits of the counters before its own; in a table, because a branch on which
/// of the two words it lies in would be guessed wrong half of the time.
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

/// What a block of fingerprints of `F` bits is made of.
pub(super) struct Layout<const F: u32>;

impl<const F: u32> Layout<F> {
    pub(super) const BUCKETS: u32 = if F == 8 { 64 } else { 32 };
    pub(super) const FLAGS_AT: u32 = 2 * Self::BUCKETS;
    pub(super) const SLOTS_AT: u32 = Self::FLAGS_AT + FLAGS;
    pub(super) const SLOTS: u32 = (512 - Self::SLOTS_AT) / F;
    /// The lowest and the highest bits of three fingerprints.
    const ONES: u64 = 1 | 1 << F | 1 << (2 * F);
    const TOPS: u64 = Self::ONES << (F - 1);

    /// The word that slots begin in.
    const FIRST: usize = Self::SLOTS_AT as usize / 64;
    /// For each slot the bits below it, for inserting without a loop whose length is not known
    /// beforehand: such a loop is guessed wrong.
    const BELOW: [Block; 48] = {
        let mut below = [[u64::MAX; LINE_WORDS]; 48];
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

    /// The counters of the buckets before this one.
    #[inline(always)]
    pub(super) fn before(block: &Block, bucket: u32) -> [u64; 2] {
        let masks = &BEFORE[bucket as usize % BEFORE.len()];
        [block[0] & masks[0], block[1] & masks[1]]
    }

    /// Fingerprints in a bucket.
    #[inline(always)]
    pub(super) fn count(block: &Block, bucket: u32) -> u64 {
        block[(bucket / 32) as usize % 2] >> (2 * (bucket % 32)) & 3
    }

    /// The sum of 2-bit counters.
    #[inline(always)]
    pub(super) fn sum(words: [u64; 2]) -> u32 {
        const TWOS: u64 = 0x3333_3333_3333_3333;
        const FOURS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        let nibbles = words.map(|x| (x & TWOS) + (x >> 2 & TWOS));
        let sum = nibbles[0] + nibbles[1];
        let bytes = (sum & FOURS) + (sum >> 4 & FOURS);
        (bytes.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
    }

    /// Fingerprints in the block.
    #[inline(always)]
    pub(super) fn len(block: &Block) -> u32 {
        Self::sum([block[0], if Self::BUCKETS == 64 { block[1] } else { 0 }])
    }

    /// The first slot of a bucket and how many are its.
    #[inline(always)]
    pub(super) fn find(block: &Block, bucket: u32) -> (u32, u64) {
        (Self::sum(Self::before(block, bucket)), Self::count(block, bucket))
    }

    /// The bits from slot `slot` on. A file may state any counters: what lies past the end of the
    /// block is taken from its beginning.
    #[inline(always)]
    pub(super) fn from(block: &Block, slot: u32) -> u64 {
        let bit = Self::SLOTS_AT + slot * F;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        block[word % LINE_WORDS] >> shift | block[(word + 1) % LINE_WORDS] << 1 << (63 - shift)
    }

    /// Where in the bucket the fingerprint is: the top bit of the lowest lane.
    #[inline(always)]
    pub(super) fn lanes(block: &Block, bucket: u32, print: u64) -> (u32, u64) {
        let (slot, count) = Self::find(block, bucket);
        let x = Self::from(block, slot) ^ Self::ONES.wrapping_mul(print);
        let zero = x.wrapping_sub(Self::ONES) & !x & Self::TOPS;
        (slot, zero & ((1 << (count as u32 * F)) - 1))
    }

    #[inline(always)]
    pub(super) fn has(block: &Block, bucket: u32, print: u64) -> bool {
        Self::lanes(block, bucket, print).1 != 0
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
        // Slots are taken from the first on, and the last one ends with the block.
        (block[LINE_WORDS - 1] >> (64 - F) == 0) & (Self::count(block, bucket) < DEEP)
    }

    /// Appends a fingerprint to a bucket; those of later buckets move up.
    #[inline(always)]
    pub(super) fn put(block: &mut Block, bucket: u32, print: u64) -> bool {
        let (first, count) = Self::find(block, bucket);
        let slot = first + count as u32;
        // A file may state any counters, such that a bucket begins past the end.
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
        block[word % LINE_WORDS] |= print << shift;
        block[(word + 1) % LINE_WORDS] |= print >> 1 >> (63 - shift);
        block[(bucket / 32) as usize] += 1 << (2 * (bucket % 32));
        true
    }

    /// Takes a fingerprint out of a bucket, if it is there; those after it move down.
    pub(super) fn take(block: &mut Block, bucket: u32, print: u64) -> bool {
        let (first, lanes) = Self::lanes(block, bucket, print);
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

    /// The fingerprints of a bucket.
    pub(super) fn prints(block: &Block, bucket: u32) -> impl Iterator<Item = u64> + use<F> {
        let (slot, count) = Self::find(block, bucket);
        let all = Self::from(block, slot);
        (0..count as u32).map(move |i| all >> (i * F) & packed::mask(F))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;

    /// One block against a list of fingerprints for each bucket.
    fn a_block_is_its_buckets<const F: u32>() {
        assert_eq!(Layout::<F>::SLOTS_AT + Layout::<F>::SLOTS * F, 512);
        let mut block = [0; LINE_WORDS];
        let mut model = vec![Vec::new(); Layout::<F>::BUCKETS as usize];
        for step in 0..200_000u64 {
            let bucket = (mix(step) % u64::from(Layout::<F>::BUCKETS)) as u32;
            let print = 1 + mix(step ^ 77 << 40) % 3 * (packed::mask(F) / 3);
            let len: usize = model.iter().map(Vec::len).sum();
            let here = &mut model[bucket as usize];
            assert_eq!(Layout::<F>::has(&block, bucket, print), here.contains(&print));
            if mix(step ^ 99 << 40) % 9 < 5 {
                let room = here.len() < 3 && len < Layout::<F>::SLOTS as usize;
                assert_eq!(Layout::<F>::has_room(&block, bucket), room);
                assert_eq!(Layout::<F>::put(&mut block, bucket, print), room);
                if room {
                    here.push(print);
                }
            } else {
                let at = here.iter().position(|other| *other == print);
                assert_eq!(Layout::<F>::take(&mut block, bucket, print), at.is_some());
                at.map(|at| here.remove(at));
            }
            let probe = (step % u64::from(Layout::<F>::BUCKETS)) as u32;
            let prints: Vec<u64> = Layout::<F>::prints(&block, probe).collect();
            assert_eq!(prints, model[probe as usize]);
        }
    }

    #[test]
    fn blocks_are_their_buckets() {
        a_block_is_its_buckets::<8>();
        a_block_is_its_buckets::<12>();
    }
}
