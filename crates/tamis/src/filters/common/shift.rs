//! Moves ranges of bits.

use tamis_bits::{packed, shift};

/// Moves bits `from..to` up by fewer than 64 and clears the vacated bits. Bits above are
/// overwritten.
#[inline(always)]
pub(in crate::filters) fn shift_up(words: &mut [u64], from: u64, to: u64, by: u32) {
    let past = to + u64::from(by);
    let (first, last) = ((from / 64) as usize, ((past - 1) / 64) as usize);
    let words = &mut words[first..=last];
    let (low, high) =
        (packed::mask((from % 64) as u32), !packed::mask(((past - 1) % 64 + 1) as u32));
    let (kept, above) = (words[0] & low, words[last - first] & high);
    words[0] &= !low;
    shift::up(words, by);
    words[0] |= kept;
    words[last - first] = words[last - first] & !high | above;
}

/// Moves bits `from + by..to` down by fewer than 64 and clears the vacated bits.
pub(in crate::filters) fn shift_down(words: &mut [u64], from: u64, to: u64, by: u32) {
    let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
    let words = &mut words[first..=last];
    let (low, high) = (packed::mask((from % 64) as u32), !packed::mask(((to - 1) % 64 + 1) as u32));
    let (kept, above) = (words[0] & low, words[last - first] & high);
    words[last - first] &= !high;
    shift::down(words, by);
    words[0] = words[0] & !low | kept;
    words[last - first] |= above;
}
