//! Moves of all bits of a range of words, up or down.
//!
//! ```text
//! up by 3:    word 0: |000abcde … wx|  word 1: |yzABC …      bits leave at the top of the last word
//! ```

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has};

/// From this number of words on, a call of a function with AVX2 takes less time than the loop.
const LONG: usize = 12;

/// Moves the bits of `words` up by `by`, which is 1 to 63. The lowest bits become 0.
#[inline(always)]
pub fn up(words: &mut [u64], by: u32) {
    debug_assert!((1..64).contains(&by));
    #[cfg(target_arch = "x86_64")]
    if words.len() >= LONG && has(Feature::AVX2) {
        // SAFETY: the machine has AVX2, as tested above.
        return unsafe { up_avx2(words, by) };
    }
    up_by_word(words, by);
}

/// Moves the bits of `words` down by `by`, which is 1 to 63. The highest bits become 0.
#[inline(always)]
pub fn down(words: &mut [u64], by: u32) {
    debug_assert!((1..64).contains(&by));
    #[cfg(target_arch = "x86_64")]
    if words.len() >= LONG && has(Feature::AVX2) {
        // SAFETY: the machine has AVX2, as tested above.
        return unsafe { down_avx2(words, by) };
    }
    down_by_word(words, by);
}

#[inline(always)]
fn up_by_word(words: &mut [u64], by: u32) {
    for at in (1..words.len()).rev() {
        words[at] = words[at] << by | words[at - 1] >> (64 - by);
    }
    if let Some(first) = words.first_mut() {
        *first <<= by;
    }
}

#[inline(always)]
fn down_by_word(words: &mut [u64], by: u32) {
    for at in 1..words.len() {
        words[at - 1] = words[at - 1] >> by | words[at] << (64 - by);
    }
    if let Some(last) = words.last_mut() {
        *last >>= by;
    }
}

/// The words of one step, of which the compiler makes two vectors.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 8;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn up_avx2(mut words: &mut [u64], by: u32) {
    while let Some(step) = words.last_chunk_mut::<{ STEP + 1 }>() {
        let old = *step;
        for at in 0..STEP {
            step[at + 1] = old[at + 1] << by | old[at] >> (64 - by);
        }
        let left = words.len() - STEP;
        words = &mut words[..left];
    }
    up_by_word(words, by);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn down_avx2(mut words: &mut [u64], by: u32) {
    while let Some(step) = words.first_chunk_mut::<{ STEP + 1 }>() {
        let old = *step;
        for at in 0..STEP {
            step[at] = old[at] >> by | old[at + 1] << (64 - by);
        }
        words = &mut words[STEP..];
    }
    down_by_word(words, by);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed;
    use crate::range::mix;

    /// Compares with a bit by bit definition, for lengths around those of a step and of a call.
    #[test]
    fn bits_move() {
        for len in (0..40).chain([100, 101]) {
            let words: Vec<u64> = (0..len).map(mix).collect();
            let bit = |at: u64| if at < len * 64 { packed::get_at(&words, 1, at) } else { 0 };
            for by in [1, 2, 7, 31, 32, 33, 62, 63] {
                let (mut risen, mut fallen) = (words.clone(), words.clone());
                up(&mut risen, by);
                down(&mut fallen, by);
                for at in 0..len * 64 {
                    let below = at.checked_sub(by.into()).map_or(0, bit);
                    assert_eq!(packed::get_at(&risen, 1, at), below, "{len} words by {by}");
                    let above = bit(at + u64::from(by));
                    assert_eq!(packed::get_at(&fallen, 1, at), above, "{len} words by {by}");
                }
                let (mut plain_risen, mut plain_fallen) = (words.clone(), words.clone());
                up_by_word(&mut plain_risen, by);
                down_by_word(&mut plain_fallen, by);
                assert_eq!((plain_risen, plain_fallen), (risen, fallen));
            }
        }
    }
}
