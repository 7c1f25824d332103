//! Windows of up to 64 bits at any bit of an array, and comparisons of four lanes in one word.
//!
//! ```text
//! width 12, bit b:   … ─┬────────────┬────────────┬────────────┬────────────┬─ …
//!                       │  lane 0    │  lane 1    │  lane 2    │  lane 3    │ (other bits)
//!                       b          b+12         b+24         b+36         b+48
//! ```

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
    // SAFETY: bytes `byte` to `byte + 7` lie within the words: `checked` asserted it.
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
                    assert_eq!(found != 0, values.contains(&value));
                    if let Some(first) = values.iter().position(|other| *other == value) {
                        assert_eq!(found.trailing_zeros() / width, first as u32);
                    }
                }
            }
        }
    }
}
