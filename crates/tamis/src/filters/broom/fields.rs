//! Fields of up to 64 bits at any bit of an array, and ranges of bits that move.

use tamis_bits::packed::{self, mask};

/// Returns the `width` bits from `bit` on, at most 64; for a width of 0 returns 0, also past the end.
#[inline(always)]
pub(super) fn get_bits(words: &[u64], bit: u64, width: u32) -> u64 {
    if width == 0 { 0 } else { packed::get_at(words, width, bit) }
}

/// Sets the `width` bits from `bit` on to the low bits of `value`.
#[inline(always)]
pub(super) fn set_bits(words: &mut [u64], bit: u64, width: u32, value: u64) {
    if width > 0 {
        packed::set_at(words, width, bit, value);
    }
}

/// Moves the bits `from..to` up by `by` positions, fewer than 64.
#[inline(always)]
pub(super) fn shift_up(words: &mut [u64], from: u64, to: u64, by: u32) {
    if from >= to {
        return;
    }
    let (low, high) = (from + u64::from(by), to + u64::from(by));
    let (first, last) = ((low / 64) as usize, ((high - 1) / 64) as usize);
    for word in (first..=last).rev() {
        let below = if word > 0 { words[word - 1] >> (64 - by) } else { 0 };
        let mut keep = 0;
        if word == first {
            keep |= mask((low % 64) as u32);
        }
        if word == last {
            keep |= !mask(((high - 1) % 64) as u32 + 1);
        }
        words[word] = words[word] & keep | (words[word] << by | below) & !keep;
    }
}

/// Moves the bits `from..to` down by `by` positions, fewer than 64, and clears the vacated bits.
#[inline(always)]
pub(super) fn shift_down(words: &mut [u64], from: u64, to: u64, by: u32) {
    let (low, high) = (from - u64::from(by), to.max(from) - u64::from(by));
    if low < high {
        let (first, last) = ((low / 64) as usize, ((high - 1) / 64) as usize);
        for word in first..=last {
            let above = words.get(word + 1).map_or(0, |next| next << (64 - by));
            let mut keep = 0;
            if word == first {
                keep |= mask((low % 64) as u32);
            }
            if word == last {
                keep |= !mask(((high - 1) % 64) as u32 + 1);
            }
            words[word] = words[word] & keep | (words[word] >> by | above) & !keep;
        }
    }
    set_bits(words, high, by, 0);
}
