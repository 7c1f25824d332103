//! Remainders by a number of bits, without a division.
//!
//! With `M = ⌈2^128 / m⌉`, the fraction of `p / m` is `F = M p mod 2^128` in units of 2^-128. `M` exceeds
//! `2^128 / m` by less than 1, so `F` exceeds the fraction by less than `p < 2^64`. The upper 64 bits of `F`,
//! plus 1, are then the fraction in units of 2^-64, too large by more than 0 and less than 2. Times `m`
//! and divided by 2^64, that exceeds the remainder by more than 0 and less than `m / 2^63`, which is at
//! most 1. The integer part is the remainder. For `p < 2^31` and `m ≤ 2^31` the same holds with
//! `M = ⌈2^64 / m⌉` and `F = M p mod 2^64`, whose excess is below `p m < 2^64`.
//!
//! Lemire, Kaser, Kurz, *Faster Remainder by Direct Computation*, 2019. They take all 128 bits of `F`,
//! which costs two more products.

/// The reciprocal of a number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reciprocal {
    /// `⌈2^128 / m⌉`, without the bit 2^128 of `m = 1`.
    wide: u128,
    /// `⌈2^64 / m⌉`, without the bit 2^64 of `m = 1`.
    narrow: u64,
}

impl Reciprocal {
    /// Returns the reciprocal of `m`, 1 to 2^63.
    pub(super) fn new(m: u64) -> Self {
        let m = m.max(1);
        let wide = (u128::MAX / u128::from(m)).wrapping_add(1);
        Self { wide, narrow: (u64::MAX / m).wrapping_add(1) }
    }

    /// Returns a hash that [`scale`](tamis_bits::range::scale) maps to `number % m` among `m` places.
    #[inline(always)]
    pub(super) fn fraction(self, number: u64) -> u64 {
        let low = u128::from(self.wide as u64) * u128::from(number);
        let high = ((self.wide >> 64) as u64).wrapping_mul(number);
        high.wrapping_add((low >> 64) as u64).wrapping_add(1)
    }

    /// The same for numbers below 2^31 and `m` of at most 2^31.
    #[inline(always)]
    pub(super) fn fraction_31(self, number: u32) -> u64 {
        self.narrow.wrapping_mul(number.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::{mix, scale};

    /// Divisors at and beside powers of 2 and at random, and for each of them numbers around its
    /// multiples, at both ends and at random.
    #[test]
    fn fractions_are_remainders() {
        let around = |bit: u32| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1];
        let edges = (0..=62).flat_map(around).chain([1 << 63, (1 << 63) - 1]);
        let random = (0..2000).map(|i| mix(i) >> (1 + i % 63));
        for m in edges.chain(random).filter(|m| (1..=1 << 63).contains(m)) {
            let reciprocal = Reciprocal::new(m);
            let near =
                |multiple: u64| (0..5).map(move |off| multiple.wrapping_add(off).wrapping_sub(2));
            let multiples = (0..40).map(|i| (mix(i ^ m) / m).wrapping_mul(m));
            let last = [0, u64::MAX, u64::MAX / m * m, 1 << 63, 1 << 32, m];
            let numbers = multiples.chain(last).flat_map(near).chain((0..20).map(mix));
            for number in numbers {
                assert_eq!(scale(reciprocal.fraction(number), m), number % m, "{number} by {m}");
                let small = number as u32 >> 1;
                if m <= 1 << 31 {
                    let fraction = reciprocal.fraction_31(small);
                    assert_eq!(scale(fraction, m), u64::from(small) % m, "{small} by {m}");
                }
            }
        }
    }
}
