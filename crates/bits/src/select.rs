//! Counting and finding the set bits of a word, with the best instructions the machine has.
//!
//! ```text
//! word     0 1 1 0 1 0 0 1 …      rank(word, 4) = 2: bits set below place 4
//! place    0 1 2 3 4 5 6 7        select(word, 2) = 4: the place of set bit number 2
//! ```
//!
//! A single count or find is a few instructions: to ask what the machine has, and to call, would
//! cost as much. So whole pieces of work are handed over as a [`Task`], which is compiled once for
//! plain machines and once for those with BMI2, and [`run`] picks.

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has};

/// How bits are counted and found.
pub trait Bits: Copy {
    /// Bits set in `word` below place `below`, which is less than 64.
    fn rank(self, word: u64, below: u32) -> u32;

    /// The place of set bit number `n` of `word`, the lowest being number 0; 64 if there are not
    /// so many. `n` is less than 64.
    fn select(self, word: u64, n: u32) -> u32;

    /// `word` without the bits that are set in `gone`: those above each move down.
    fn squeeze(self, word: u64, gone: u64) -> u64;
}

/// Work that counts and finds bits. [`Task::work`] and what it calls must be `#[inline(always)]`,
/// or they are compiled for plain machines only.
pub trait Task {
    /// What comes of it.
    type Output;

    /// Does it.
    fn work(self, bits: impl Bits) -> Self::Output;
}

/// Does `task` with the best instructions there are.
#[inline(always)]
pub fn run<T: Task>(task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if has(Feature::BMI2) {
        // SAFETY: the machine has BMI1, BMI2 and POPCNT: asked just above.
        return unsafe { with_bmi2(task) };
    }
    plainly(task)
}

/// Out of the way of the other, with which it would share the registers.
#[inline(never)]
fn plainly<T: Task>(task: T) -> T::Output {
    task.work(Portable)
}

/// Plain Rust: every machine, and the definition of the right answer.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Bits for Portable {
    #[inline(always)]
    fn rank(self, word: u64, below: u32) -> u32 {
        (word & ((1 << below) - 1)).count_ones()
    }

    #[inline(always)]
    fn select(self, word: u64, n: u32) -> u32 {
        const EACH: u64 = 0x0101_0101_0101_0101;
        // Bits set in each byte and in all below it, side by side: at most 64, so no byte overflows.
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let sums = ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(EACH);
        // A byte is passed if its sum is at most n: 128 + n - sum then keeps its top bit.
        let passed = ((EACH * (0x80 | u64::from(n))) - sums) & (EACH * 0x80);
        let byte = passed.count_ones() * 8;
        if byte == 64 {
            return 64;
        }
        let before = if byte == 0 { 0 } else { (sums >> (byte - 8)) as u32 & 0xff };
        let mut rest = word >> byte;
        for _ in before..n {
            rest &= rest - 1;
        }
        byte + rest.trailing_zeros()
    }

    /// A bit at a time from the top: for the few that are gone.
    #[inline(always)]
    fn squeeze(self, mut word: u64, mut gone: u64) -> u64 {
        while gone != 0 {
            let below = u64::MAX >> 1 >> gone.leading_zeros();
            word = word & below | word >> 1 & !below;
            gone &= below;
        }
        word
    }
}

/// Proof that the machine has BMI2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Bmi2(());

#[cfg(target_arch = "x86_64")]
impl Bits for Bmi2 {
    #[inline(always)]
    fn rank(self, word: u64, below: u32) -> u32 {
        (word & ((1 << below) - 1)).count_ones()
    }

    #[inline(always)]
    fn select(self, word: u64, n: u32) -> u32 {
        // SAFETY: a `Bmi2` is made in `with_bmi2` alone, where the machine has it.
        unsafe { core::arch::x86_64::_pdep_u64(1 << n, word) }.trailing_zeros()
    }

    #[inline(always)]
    fn squeeze(self, word: u64, gone: u64) -> u64 {
        // SAFETY: as above.
        unsafe { core::arch::x86_64::_pext_u64(word, !gone) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn with_bmi2<T: Task>(task: T) -> T::Output {
    task.work(Bmi2(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::mix;

    struct Both(u64);

    impl Task for Both {
        type Output = [Vec<u32>; 2];

        fn work(self, bits: impl Bits) -> Self::Output {
            let each = || 0..64;
            [
                each().map(|n| bits.rank(self.0, n)).collect(),
                each().map(|n| bits.select(self.0, n)).collect(),
            ]
        }
    }

    struct Squeeze(u64, u64);

    impl Task for Squeeze {
        type Output = u64;

        fn work(self, bits: impl Bits) -> u64 {
            bits.squeeze(self.0, self.1)
        }
    }

    #[test]
    fn what_is_gone_is_closed_up() {
        let random = (0..20_000u64).map(|i| (mix(i), mix(i + 99_999) & mix(i + 77_777)));
        let edges = [0, 1, 1 << 63, u64::MAX].map(|gone| (0x0123_4567_89ab_cdef, gone));
        for (word, gone) in random.chain(edges) {
            let kept = (0..64).filter(|place| gone >> place & 1 == 0);
            let expected =
                kept.enumerate().fold(0, |sum, (to, from)| sum | (word >> from & 1) << to);
            assert_eq!(Squeeze(word, gone).work(Portable), expected, "{word:#x} less {gone:#x}");
            assert_eq!(run(Squeeze(word, gone)), expected, "{word:#x} less {gone:#x}");
        }
    }

    #[test]
    fn every_way_answers_as_the_definition() {
        let random = (0..20_000u64).map(mix);
        let sparse = (0..20_000u64).map(|i| mix(i) & mix(i + 99_999) & mix(i + 77_777));
        let edges = (0..64).flat_map(|i| [1 << i, u64::MAX << i, u64::MAX >> i, !(1 << i)]);
        for word in random.chain(sparse).chain(edges).chain([0, u64::MAX]) {
            let places: Vec<u32> = (0..64).filter(|place| word >> place & 1 == 1).collect();
            let rank = |n: u32| places.iter().filter(|place| **place < n).count() as u32;
            let select = |n: u32| places.get(n as usize).copied().unwrap_or(64);
            let expected: [Vec<u32>; 2] =
                [(0..64).map(rank).collect(), (0..64).map(select).collect()];
            assert_eq!(Both(word).work(Portable), expected, "{word:#x}");
            assert_eq!(run(Both(word)), expected, "{word:#x}");
        }
    }
}
