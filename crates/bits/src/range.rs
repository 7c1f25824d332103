//! Reduction of a hash to a range: multiply by the size of the range, keep the high half.
//!
//! This works for ranges of any size, needs no division, keeps the order of the hashes, and
//! depends on the *high* bits of the hash, so that the low bits can be used for something else.

/// Maps `hash` to `0..places`. Returns 0 if `places` is 0.
#[inline(always)]
pub const fn scale(hash: u64, places: u64) -> u64 {
    ((hash as u128 * places as u128) >> 64) as u64
}

/// Mixes 64 bits: a bijection in which every input bit affects every output bit (Stafford's mix
/// 13).
#[inline(always)]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_even_and_in_range() {
        for places in [1u64, 3, 1 << 20, (1 << 33) + 7, u64::MAX] {
            assert_eq!(scale(0, places), 0);
            assert_eq!(scale(u64::MAX, places), places - 1);
            assert_eq!(scale(1 << 63, places), places / 2);
        }
        assert_eq!(scale(u64::MAX, 0), 0);
    }
}
