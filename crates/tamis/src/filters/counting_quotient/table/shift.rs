//! Moves bits and slots up and down in an array of words.

use tamis_bits::lanes::{set_window, window};
use tamis_bits::packed;

use super::Layout;

/// Moves `slots` slots from `bit` on up by one, and stores a remainder before them.
#[inline(always)]
pub(super) fn insert_slot(
    words: &mut [u64],
    layout: Layout,
    bit: u64,
    mut slots: u32,
    remainder: u64,
) {
    let Layout { width, lanes, .. } = layout;
    while slots >= lanes {
        slots -= lanes;
        let from = bit + u64::from(slots * width);
        let mask = packed::mask(lanes * width);
        let moved = window(words, from) & mask;
        set_window(words, from + u64::from(width), mask, moved);
    }
    let mask = packed::mask((slots + 1) * width);
    let moved = (window(words, bit) << width | remainder) & mask;
    set_window(words, bit, mask, moved);
}

/// Returns a mask of bits `low` to `high`.
pub(super) const fn span(low: u64, high: u64) -> u64 {
    u64::MAX >> (63 - (high - low)) << low
}

/// Reads the 64 bits from `bit` on.
#[inline(always)]
pub(super) fn read(words: &[u64], bit: u64) -> u64 {
    let (word, shift) = ((bit / 64) as usize, bit % 64);
    let &[low, high] = words[word..].first_chunk().expect("a word past the end");
    low >> shift | high << 1 << (63 - shift)
}

/// Sets those of the 64 bits from `bit` on that are in `mask`.
#[inline(always)]
pub(super) fn write(words: &mut [u64], bit: u64, mask: u64, to: u64) {
    let (word, shift) = ((bit / 64) as usize, bit % 64);
    let [low, high] = words[word..].first_chunk_mut().expect("a word past the end");
    *low = *low & !(mask << shift) | (to & mask) << shift;
    *high = *high & !(mask >> 1 >> (63 - shift)) | (to & mask) >> 1 >> (63 - shift);
}

/// Moves a range of bits up by `by` bits, fewer than 64. The range does not start in the first word.
#[inline(always)]
pub(super) fn shift_up(words: &mut [u64], range: core::ops::Range<u64>, by: u32) {
    if range.is_empty() {
        return;
    }
    let (first, last) = (range.start + u64::from(by), range.end + u64::from(by) - 1);
    for word in (first / 64..=last / 64).rev() {
        let moved = read(words, word * 64 - u64::from(by));
        let mask = word_span(word, first, last);
        let word = &mut words[word as usize];
        *word = *word & !mask | moved & mask;
    }
}

/// Moves the bits that are `by` bits above a range down into it. `by` is below 64.
#[inline(always)]
pub(super) fn shift_down(words: &mut [u64], range: core::ops::Range<u64>, by: u32) {
    if range.is_empty() {
        return;
    }
    let (first, last) = (range.start, range.end - 1);
    for word in first / 64..=last / 64 {
        let moved = read(words, word * 64 + u64::from(by));
        let mask = word_span(word, first, last);
        let word = &mut words[word as usize];
        *word = *word & !mask | moved & mask;
    }
}

/// Returns the bits of a word that are among bits `first` to `last` of the array.
#[inline(always)]
fn word_span(word: u64, first: u64, last: u64) -> u64 {
    span(first.max(word * 64) % 64, last.min(word * 64 + 63) % 64)
}
