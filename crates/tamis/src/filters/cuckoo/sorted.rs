//! Semi-sorted buckets: four fingerprints in 4 bits less.
//!
//! ```text
//!  sorted      a      ≤      b      ≤      c      ≤      d         f bits each
//!              a4 a'         b4 b'         c4 c'         d4 d'     the upper 4 bits, the lower f - 4
//!  stored    │ 12 bits: which a4 ≤ b4 ≤ c4 ≤ d4 │ a' │ b' │ c' │ d' │
//! ```
//!
//! Four ascending numbers of 4 bits are one of 3876 combinations, which are numbered in 12 bits instead of
//! 16. The order of the fingerprints in a bucket has no meaning, and it is what the 4 bits would store.

use tamis_bits::packed::mask;

/// The number of combinations of four ascending numbers of 4 bits.
const COMBINATIONS: usize = 3876;
const CODE_BITS: u32 = 12;

/// The four numbers of each combination, the first in the low bits. The combinations are ordered by their
/// largest number, then by the next, and so on.
static NIBBLES: [u16; COMBINATIONS] = {
    let mut table = [0; COMBINATIONS];
    let (mut at, mut d) = (0, 0);
    while d < 16 {
        let mut c = 0;
        while c <= d {
            let mut b = 0;
            while b <= c {
                let mut a = 0;
                while a <= b {
                    table[at] = a | b << 4 | c << 8 | d << 12;
                    at += 1;
                    a += 1;
                }
                b += 1;
            }
            c += 1;
        }
        d += 1;
    }
    table
};

/// Returns the bits of a bucket of fingerprints of `width` bits, 5 to 16.
pub(super) fn bits(width: u32) -> u32 {
    CODE_BITS + 4 * (width - 4)
}

/// Returns the fingerprints of a bucket in ascending order. A code that does not exist, which only a hostile
/// file has, counts as the first.
pub(super) fn decode(width: u32, bucket: u64) -> [u64; 4] {
    let low = width - 4;
    let code = (bucket & mask(CODE_BITS)) as usize;
    let nibbles = u64::from(NIBBLES.get(code).copied().unwrap_or(0));
    core::array::from_fn(|slot| {
        let slot = slot as u32;
        let rest = bucket >> (CODE_BITS + slot * low) & mask(low);
        (nibbles >> (4 * slot) & 15) << low | rest
    })
}

/// Returns the bucket of four fingerprints, which it sorts.
pub(super) fn encode(width: u32, mut fingerprints: [u64; 4]) -> u64 {
    fingerprints.sort_unstable();
    let low = width - 4;
    let [a, b, c, d] = fingerprints.map(|fp| fp >> low);
    // The combinations before this one: those with a smaller d, then a smaller c, and so on.
    let code =
        d * (d + 1) * (d + 2) * (d + 3) / 24 + c * (c + 1) * (c + 2) / 6 + b * (b + 1) / 2 + a;
    let rests = fingerprints.iter().rev().fold(0, |rests, fp| rests << low | fp & mask(low));
    rests << CODE_BITS | code
}

#[cfg(test)]
mod tests {
    use tamis_bits::range::mix;

    use super::*;

    #[test]
    fn every_combination_has_its_number() {
        for (code, nibbles) in (0..).zip(NIBBLES) {
            let fingerprints = [0, 4, 8, 12].map(|shift| u64::from(nibbles) >> shift & 15);
            assert!(fingerprints.is_sorted());
            assert_eq!(encode(4, fingerprints), code);
            assert_eq!(decode(4, code), fingerprints);
        }
    }

    #[test]
    fn buckets_come_back_sorted() {
        for width in 5..=16 {
            for step in 0..2000 {
                let mut fingerprints =
                    [0, 1, 2, 3].map(|slot| mix(step * 4 + slot) >> (64 - width));
                let code = encode(width, fingerprints);
                assert!(code <= mask(bits(width)));
                fingerprints.sort_unstable();
                assert_eq!(decode(width, code), fingerprints, "{width} bits");
            }
        }
        // A code past the last one does no harm.
        assert_eq!(decode(8, 4095), [0; 4]);
    }
}
