//! The place of a word's n-th set bit, and how to run work that asks for it all the time.
//!
//! With BMI2 it is two instructions: deposit a single bit at the n-th set place, count the zeros
//! below. Without, bytes are counted side by side. Which of both is for [`run`] to decide, once
//! for a whole piece of work: asked for in every step, the question would cost as much as the
//! answer, and the compiler could not weave the steps together.

/// Finds set bits.
pub trait Nth: Copy {
    /// The place of set bit number `n` of `word`, counted from 0; 64 if it has no more than `n`.
    fn nth(self, word: u64, n: u32) -> u32;
}

/// A piece of work that finds set bits.
pub trait Work {
    /// What comes of it.
    type Out;

    /// Does it. Mark it `#[inline(always)]`, and what it calls: only what ends up inside [`run`]
    /// is compiled for the machine at hand.
    fn run(self, nth: impl Nth) -> Self::Out;
}

/// Does the work with the best that this machine has.
#[inline(always)]
pub fn run<W: Work>(work: W) -> W::Out {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bmi2::is_available() {
        // SAFETY: the machine has BMI1, BMI2 and POPCNT: asked just above.
        return unsafe { bmi2::run(work) };
    }
    work.run(Portable)
}

/// Plain Rust: every machine, and the definition of the right answer.
#[derive(Clone, Copy, Debug)]
struct Portable;

impl Nth for Portable {
    /// Finds the byte by the running sums of set bits, then the bit by clearing those before it.
    #[inline(always)]
    fn nth(self, word: u64, n: u32) -> u32 {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const TOPS: u64 = 0x80 * ONES;
        const PAIRS: u64 = 0x55 * ONES;
        const NIBBLES: u64 = 0x33 * ONES;
        const BYTES: u64 = 0x0f * ONES;
        let pairs = word - (word >> 1 & PAIRS);
        let nibbles = (pairs & NIBBLES) + (pairs >> 2 & NIBBLES);
        let bytes = (nibbles + (nibbles >> 4)) & BYTES;
        // Byte i: set bits in bytes 0 to i.
        let sums = bytes.wrapping_mul(ONES);
        if u64::from(n) >= sums >> 56 {
            return 64;
        }
        // A byte's top bit stays where its sum is no more than n: those bytes are passed.
        let all = u64::from(n) * ONES;
        let passed = ((all | TOPS) - sums) & TOPS;
        let shift = passed.count_ones() * 8;
        let before = (sums << 8 >> shift) as u8;
        let mut byte = word >> shift & 0xff;
        for _ in u32::from(before)..n {
            byte &= byte - 1;
        }
        shift + byte.trailing_zeros()
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod bmi2 {
    use super::{Nth, Work};
    use std::arch::x86_64::_pdep_u64;

    /// Made in [`run`] alone, so whoever holds one has the instructions.
    #[derive(Clone, Copy)]
    struct Bmi2(());

    impl Nth for Bmi2 {
        #[inline(always)]
        fn nth(self, word: u64, n: u32) -> u32 {
            let bit = 1u64.checked_shl(n).unwrap_or(0);
            // SAFETY: this value was made where the machine is known to have BMI2.
            unsafe { _pdep_u64(bit, word) }.trailing_zeros()
        }
    }

    #[inline(always)]
    pub(super) fn is_available() -> bool {
        is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
    }

    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    pub(super) fn run<W: Work>(work: W) -> W::Out {
        work.run(Bmi2(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::mix;

    struct All(u64);

    impl Work for All {
        type Out = [u32; 70];

        #[inline(always)]
        fn run(self, nth: impl Nth) -> [u32; 70] {
            std::array::from_fn(|n| nth.nth(self.0, n as u32))
        }
    }

    #[test]
    fn twins_agree_with_counting() {
        let dense = (0..2000u64).map(mix);
        let sparse = (0..2000u64).map(|i| mix(i) & mix(i + 5000) & mix(i + 9000));
        let edges = [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 0xff00_0000_0000_00ff];
        for word in edges.into_iter().chain(dense).chain(sparse) {
            let places: Vec<u32> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
            let expected = std::array::from_fn(|n| places.get(n).copied().unwrap_or(64));
            assert_eq!(All(word).run(Portable), expected, "{word:#x}");
            assert_eq!(run(All(word)), expected, "{word:#x}");
        }
    }
}
