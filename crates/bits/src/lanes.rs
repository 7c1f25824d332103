//! Windows of up to 64 bits at any bit of an array, and comparisons of four lanes in one word.
//!
//! ```text
//! width 12, bit b:   … ─┬────────────┬────────────┬────────────┬────────────┬─ …
//!                       │  lane 0    │  lane 1    │  lane 2    │  lane 3    │ (other bits)
//!                       b          b+12         b+24         b+36         b+48
//! ```

use crate::range::scale;

/// The number of lanes in a word.
pub const LANES: u32 = 4;
/// The width of the widest lane in bits: four of them fill a word.
pub const WIDEST: u32 = 64 / LANES;

/// Returns the bits from `bit` on, lowest first: at least 57, and 64 if `bit` is a multiple of 8.
///
/// # Panics
/// Panics if the 8 bytes from the one with `bit` on do not lie in `words`.
#[inline(always)]
pub fn window(words: &[u64], bit: u64) -> u64 {
    word_at(words, bit / 8) >> (bit % 8)
}

/// Returns the 64 bits from byte `byte` on.
///
/// # Panics
/// Panics as [`window`] does.
#[inline(always)]
pub fn word_at(words: &[u64], byte: u64) -> u64 {
    load(words, checked(words, byte))
}

/// Replaces the bits of a [`window`] that are set in `mask` by those of `value`, which has no others.
///
/// # Panics
/// Panics as [`window`] does.
#[inline(always)]
pub fn set_window(words: &mut [u64], bit: u64, mask: u64, value: u64) {
    let byte = checked(words, bit / 8);
    let old = load(words, byte);
    store(words, byte, old & !(mask << (bit % 8)) | value << (bit % 8));
}

/// Returns `byte` after checking that 8 bytes from there on lie within the words.
#[inline(always)]
fn checked(words: &[u64], byte: u64) -> usize {
    let byte = byte as usize;
    assert!(byte < (words.len() * 8).saturating_sub(7), "the window reaches past the end");
    byte
}

#[cfg(target_endian = "little")]
#[inline(always)]
fn load(words: &[u64], byte: usize) -> u64 {
    debug_assert!(byte + 8 <= words.len() * 8);
    // SAFETY: bytes `byte` to `byte + 7` lie within the words: every caller has asserted it by `checked` or
    // tested it by `Halves::of`.
    let at = unsafe { words.as_ptr().cast::<u8>().add(byte) };
    // SAFETY: as above, and the read needs no alignment.
    unsafe { at.cast::<u64>().read_unaligned() }
}

#[cfg(target_endian = "little")]
#[inline(always)]
fn store(words: &mut [u64], byte: usize, value: u64) {
    debug_assert!(byte + 8 <= words.len() * 8);
    // SAFETY: bytes `byte` to `byte + 7` lie within the words: `checked` asserted it.
    let at = unsafe { words.as_mut_ptr().cast::<u8>().add(byte) };
    // SAFETY: as above, the words are borrowed for writing, and the write needs no alignment.
    unsafe { at.cast::<u64>().write_unaligned(value) };
}

#[cfg(not(target_endian = "little"))]
fn load(words: &[u64], byte: usize) -> u64 {
    (0..8).fold(0, |x, i| x | crate::packed::get(words, 8, byte as u64 + i) << (8 * i))
}

#[cfg(not(target_endian = "little"))]
fn store(words: &mut [u64], byte: usize, value: u64) {
    (0..8).for_each(|i| crate::packed::set(words, 8, byte as u64 + i, value >> (8 * i)));
}

/// Four lanes of 1 to 16 bits in the low bits of a word. The bits above them are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The lowest bit of each lane.
    ones: u64,
    /// The highest bit of each lane.
    tops: u64,
}

impl Lanes {
    /// Makes lanes of `width` bits.
    ///
    /// # Panics
    /// Panics if `width` is not 1 to 16.
    pub const fn new(width: u32) -> Self {
        assert!(width >= 1 && width <= WIDEST, "lanes have 1 to 16 bits");
        let ones = 1 | 1 << width | 1 << (2 * width) | 1 << (3 * width);
        Self { ones, tops: ones << (width - 1) }
    }

    /// Returns a word that is not zero if a lane equals `value`. The lowest lane that does has its
    /// top bit set there. Lanes above it may have theirs set by a borrow; lanes below have not.
    #[inline(always)]
    pub fn find(self, lanes: u64, value: u64) -> u64 {
        let x = lanes ^ self.ones.wrapping_mul(value);
        x.wrapping_sub(self.ones) & !x & self.tops
    }

    /// Returns whether a lane of `a` or of `b` equals `value`. Both are compared at once: a branch between them
    /// would be mispredicted for half of the members of a cuckoo filter.
    ///
    /// A lookup there is limited by the ports for integers, of which the vector instructions use none: they take
    /// a fifth less time than the portable version.
    #[inline(always)]
    pub fn in_either(self, a: u64, b: u64, value: u64) -> bool {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        // SAFETY: the code is compiled for machines with SSE2 only.
        return unsafe { self.in_either_sse2(a, b, value) };
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        self.in_either_portable(a, b, value)
    }

    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    #[inline]
    #[target_feature(enable = "sse2")]
    fn in_either_sse2(self, a: u64, b: u64, value: u64) -> bool {
        use core::arch::x86_64::{
            _mm_andnot_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_or_si128, _mm_set1_epi64x,
            _mm_sub_epi64, _mm_unpackhi_epi64, _mm_unpacklo_epi64, _mm_xor_si128,
        };
        let pattern = _mm_cvtsi64_si128(self.ones.wrapping_mul(value).cast_signed());
        let a = _mm_xor_si128(_mm_cvtsi64_si128(a.cast_signed()), pattern);
        let b = _mm_xor_si128(_mm_cvtsi64_si128(b.cast_signed()), pattern);
        let x = _mm_unpacklo_epi64(a, b);
        let ones = _mm_set1_epi64x(self.ones.cast_signed());
        let found = _mm_andnot_si128(x, _mm_sub_epi64(x, ones));
        let found = _mm_or_si128(found, _mm_unpackhi_epi64(found, found));
        _mm_cvtsi128_si64(found).cast_unsigned() & self.tops != 0
    }

    #[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
    #[inline(always)]
    fn in_either_portable(self, a: u64, b: u64, value: u64) -> bool {
        self.find(a, value) | self.find(b, value) != 0
    }
}

/// Two halves of as many buckets of four lanes, side by side from bit 0 on. A value is in a bucket of the first
/// half or in one of the second half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// The buckets of a half.
    half: u64,
    /// The size of a bucket: in bytes if it is a whole number of them, else in bits.
    size: u64,
    in_bytes: bool,
    lanes: Lanes,
    /// The words in which every bucket can be read as a word.
    words: usize,
}

impl Halves {
    /// Makes halves of `half` buckets, with lanes of `width` bits.
    ///
    /// # Panics
    /// Panics if `width` is not 1 to 16, or if the buckets have 2^63 bits or more.
    pub fn new(half: u64, width: u32) -> Self {
        let (lanes, bits) = (Lanes::new(width), u64::from(LANES * width));
        let all = u128::from(half) * 2 * u128::from(bits);
        assert!(all < 1 << 63, "the buckets have too many bits");
        // One more than the last bucket ends in.
        let words = usize::try_from(all.div_ceil(64) + 1).unwrap_or(usize::MAX);
        let in_bytes = bits.is_multiple_of(8);
        Self { half, size: if in_bytes { bits / 8 } else { bits }, in_bytes, lanes, words }
    }

    /// Halves that are in no words: [`Halves::of`] always returns `None`.
    pub const NONE: Self =
        Self { half: 0, size: 0, in_bytes: true, lanes: Lanes::new(1), words: usize::MAX };

    /// Returns the halves in `words`, or `None` if there are too few.
    #[inline(always)]
    pub fn of(self, words: &[u64]) -> Option<HalvesIn<'_>> {
        (words.len() >= self.words).then_some(HalvesIn { halves: self, words })
    }
}

/// [`Halves`] in an array of words, which is known to be long enough.
#[derive(Clone, Copy, Debug)]
pub struct HalvesIn<'a> {
    halves: Halves,
    words: &'a [u64],
}

impl HalvesIn<'_> {
    /// Returns whether `value` is in the bucket of the first half that `hash` selects by [`scale`], or in the
    /// bucket of the second half that is as many buckets further, modulo the half, as `by` selects.
    #[inline(always)]
    pub fn contains(self, hash: u64, by: u64, value: u64) -> bool {
        let Halves { half, size, in_bytes, lanes, .. } = self.halves;
        let left = scale(hash, half);
        let sum = left + scale(by, half);
        let right = if sum < half { sum + half } else { sum };
        // `left` is less than `half`, `right` less than twice `half`, and `of` has checked that the words hold
        // so many buckets and a word more.
        let (a, b) = if in_bytes {
            (load(self.words, (left * size) as usize), load(self.words, (right * size) as usize))
        } else {
            let window = |bit: u64| load(self.words, (bit / 8) as usize) >> (bit % 8);
            (window(left * size), window(right * size))
        };
        lanes.in_either(a, b, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed;
    use crate::range::mix;

    #[test]
    fn a_window_shows_the_bits_from_there_on() {
        let words: Vec<u64> = (0..5).map(mix).collect();
        for bit in 0..5 * 64 - 63 {
            let valid = if bit % 8 == 0 { 64 } else { 57 };
            let expected = (0..valid).fold(0, |x, i| x | packed::get(&words, 1, bit + i) << i);
            assert_eq!(window(&words, bit) & packed::mask(valid as u32), expected, "bit {bit}");
        }
    }

    #[test]
    fn setting_a_window_leaves_the_rest_alone() {
        let mut words: Vec<u64> = (0..5).map(mix).collect();
        let mut model = words.clone();
        for step in 0..5000u64 {
            let (bit, len) = (mix(step) % (4 * 64), 1 + mix(step ^ 1) % 57);
            let (mask, value) = (packed::mask(len as u32), mix(step ^ 2));
            set_window(&mut words, bit, mask, value & mask);
            (0..len).for_each(|i| packed::set(&mut model, 1, bit + i, value >> i));
            assert_eq!(words, model);
        }
    }

    #[test]
    fn a_window_past_the_end_panics() {
        for (words, bit) in [(0, 0), (1, 8), (2, 72), (2, 1 << 40), (2, u64::MAX)] {
            let words = vec![0; words];
            assert!(std::panic::catch_unwind(|| window(&words, bit)).is_err());
        }
    }

    #[test]
    fn halves_find_what_their_two_buckets_hold() {
        for width in 1..=WIDEST {
            for half in [1, 2, 3, 16, 77] {
                let halves = Halves::new(half, width);
                let bits = 2 * half * u64::from(LANES * width);
                let mut words: Vec<u64> = (0..bits / 64 + 3).map(mix).collect();
                words.truncate(bits.div_ceil(64) as usize + 1);
                let table = halves.of(&words).unwrap();
                for step in 0..500 {
                    let [hash, by] = [0, 1].map(|i| match step {
                        0..4 => [0, u64::MAX][step as usize >> i & 1],
                        _ => mix(step * 2 + i),
                    });
                    let value = mix(!step) & packed::mask(width) & mix(step ^ 7);
                    let left = scale(hash, half);
                    let buckets = [left, half + (left + scale(by, half)) % half];
                    let mut slots = buckets.iter().flat_map(|bucket| {
                        let first = bucket * u64::from(LANES);
                        (first..first + u64::from(LANES)).map(|i| packed::get(&words, width, i))
                    });
                    assert_eq!(table.contains(hash, by, value), slots.any(|slot| slot == value));
                }
                words.pop();
                assert!(halves.of(&words).is_none() && Halves::NONE.of(&words).is_none());
            }
        }
        assert!(std::panic::catch_unwind(|| Halves::new(1 << 60, 4)).is_err());
    }

    #[test]
    fn lanes_are_found_one_by_one_and_at_once() {
        for width in 1..=WIDEST {
            let lanes = Lanes::new(width);
            for step in 0..3000u64 {
                // Few values, so that lanes are sometimes equal or zero.
                let values: Vec<u64> = (0..4)
                    .map(|i| mix(i).wrapping_mul(mix(step * 4 + i) % 4) & packed::mask(width))
                    .collect();
                let mut word = mix(step) << 1 << (4 * width - 1);
                for (lane, value) in values.iter().enumerate() {
                    word |= value << (lane as u32 * width);
                }
                for value in values.iter().copied().chain([0, mix(step) & packed::mask(width)]) {
                    let found = lanes.find(word, value);
                    for other in [word, mix(!step), u64::MAX, 0] {
                        let either = lanes.in_either_portable(word, other, value);
                        assert_eq!(lanes.in_either(word, other, value), either);
                        assert_eq!(lanes.in_either(other, word, value), either);
                        assert_eq!(either, found | lanes.find(other, value) != 0);
                    }
                    assert_eq!(found != 0, values.contains(&value));
                    if let Some(first) = values.iter().position(|other| *other == value) {
                        assert_eq!(found.trailing_zeros() / width, first as u32);
                    }
                }
            }
        }
    }
}
