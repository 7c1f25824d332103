//! A hash to a place: multiply by the number of places, keep the high half.
//!
//! It takes any number of places, needs no division, keeps the order of the hashes, and draws on
//! the hash's *high* bits, so the low ones may decide something else.

/// `hash` scaled to `0..places`; `0` where there is no place.
#[inline(always)]
pub const fn scale(hash: u64, places: u64) -> u64 {
    ((hash as u128 * places as u128) >> 64) as u64
}

/// A bijection of 64 bits in which every input bit moves every output bit (Stafford's mix 13).
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
