//! Rank and select within a word, with the best instructions of the machine.
//!
//! ```text
//! word     0 1 1 0 1 0 0 1 …      rank(word, 4) = 2: 2 bits are set below place 4
//! place    0 1 2 3 4 5 6 7        select(word, 2) = 4: set bit number 2 is at place 4
//! ```
//!
//! A single rank or select takes a few instructions. Testing for BMI2 and calling a function would
//! cost as much. Callers therefore pass a larger piece of work as a [`Task`], which is compiled
//! twice, with BMI2 and without; [`run`] picks one.

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has};

/// Rank, select and compress of words.
pub trait Bits: Copy {
    /// Returns the number of bits set in `word` below place `below`, which is less than 64.
    fn rank(self, word: u64, below: u32) -> u32;

    /// Returns the place of set bit number `n` of `word`, counted from 0, or 64 if `word` has no
    /// more than `n` set bits. `n` is less than 64.
    fn select(self, word: u64, n: u32) -> u32;

    /// Removes the bits at the places that are set in `gone`: the bits above each move down.
    fn squeeze(self, word: u64, gone: u64) -> u64;
}

/// Work that uses [`Bits`]. [`Task::work`] and the functions it calls must be `#[inline(always)]`,
/// or they are compiled without BMI2 only.
pub trait Task {
    /// The result.
    type Output;

    /// Does the work.
    fn work(self, bits: impl Bits) -> Self::Output;
}

/// A [`Task`] with an argument, which may be passed in registers: a task of more than two words is
/// passed in memory.
pub trait TaskOn<A> {
    /// The result.
    type Output;

    /// Does the work. The rule of [`Task`] holds.
    fn work_on(self, bits: impl Bits, argument: A) -> Self::Output;
}

impl<T: Task> TaskOn<()> for T {
    type Output = T::Output;

    #[inline(always)]
    fn work_on(self, bits: impl Bits, (): ()) -> Self::Output {
        self.work(bits)
    }
}

/// Runs `task` with the best instructions of the machine.
#[inline(always)]
pub fn run<T: Task>(task: T) -> T::Output {
    run_on(task, ())
}

/// Does the same for a task with an argument.
#[inline(always)]
pub fn run_on<A, T: TaskOn<A>>(task: T, argument: A) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if has(Feature::BMI2) {
        // SAFETY: the machine has BMI1, BMI2 and POPCNT, as tested above.
        return unsafe { with_bmi2(task, argument) };
    }
    without_bmi2(task, argument)
}

/// Not inlined, because it would share registers with the other version.
#[inline(never)]
fn without_bmi2<A, T: TaskOn<A>>(task: T, argument: A) -> T::Output {
    task.work_on(Portable, argument)
}

/// Plain Rust for every machine. It defines the results.
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
        // For each byte the number of bits set in it and below: at most 64, so no byte overflows.
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let sums = ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(EACH);
        // A byte is skipped if its sum is at most n: 128 + n - sum then keeps its top bit.
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

    /// Removes a bit at a time from the top, which is fast when few are removed.
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

/// A value of this type proves that the machine has BMI2.
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
        // SAFETY: only `with_bmi2` makes a `Bmi2`, and it runs only on machines that have it.
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
fn with_bmi2<A, T: TaskOn<A>>(task: T, argument: A) -> T::Output {
    task.work_on(Bmi2(()), argument)
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
    fn removed_bits_are_closed_up() {
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
    fn all_versions_agree_with_the_definition() {
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
