//! Split blocks in plain Rust, which define the results.

use super::{AHEAD, BLOCK_WORDS, SALT, nth, nth_mut};
use crate::prefetch;

#[inline(always)]
fn mask(x: u32) -> [u64; BLOCK_WORDS] {
    let bit = |lane: usize| 1u64 << (x.wrapping_mul(SALT[lane]) >> 27);
    core::array::from_fn(|word| bit(2 * word) | bit(2 * word + 1) << 32)
}

#[inline(always)]
pub(super) fn contains(block: &[u64; BLOCK_WORDS], x: u32) -> bool {
    let mask = mask(x);
    (0..BLOCK_WORDS).fold(0, |missing, word| missing | mask[word] & !block[word]) == 0
}

#[inline(always)]
pub(super) fn insert(block: &mut [u64; BLOCK_WORDS], x: u32) {
    for (word, mask) in block.iter_mut().zip(mask(x)) {
        *word |= mask;
    }
}

pub(super) fn contains_batch<T>(
    words: &[u64],
    items: &[T],
    place: impl Fn(&T) -> (usize, u32),
    out: &mut [bool],
) {
    for (i, (item, out)) in items.iter().zip(out).enumerate() {
        if let Some(next) = items.get(i + AHEAD) {
            prefetch(words, place(next).0 * BLOCK_WORDS);
        }
        let (block, x) = place(item);
        *out = contains(nth(words, block), x);
    }
}

pub(super) fn insert_batch<T>(words: &mut [u64], items: &[T], place: impl Fn(&T) -> (usize, u32)) {
    for (i, item) in items.iter().enumerate() {
        if let Some(next) = items.get(i + AHEAD) {
            prefetch(words, place(next).0 * BLOCK_WORDS);
        }
        let (block, x) = place(item);
        insert(nth_mut(words, block), x);
    }
}
