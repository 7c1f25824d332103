//! Integers of 1 to 64 bits, packed into words without gaps.
//!
//! ```text
//! width 5:  word 0: |aaaaabbbbbccccc … lllllmmmm|  word 1: |mnnnnn …
//! ```

/// Returns the number of words that `len` integers of `width` bits take, or `None` if it overflows.
pub fn words(len: u64, width: u32) -> Option<u64> {
    Some(len.checked_mul(u64::from(width))?.div_ceil(64))
}

/// Returns integer `index`.
///
/// # Panics
/// Panics if the integer does not lie in `words`, as the other functions do.
#[inline(always)]
pub fn get(words: &[u64], width: u32, index: u64) -> u64 {
    get_at(words, width, index * u64::from(width))
}

/// Returns the integer that begins at `bit`.
#[inline(always)]
pub fn get_at(words: &[u64], width: u32, bit: u64) -> u64 {
    let (word, shift) = ((bit / 64) as usize, (bit % 64) as u32);
    let low = words[word] >> shift;
    let value = if shift + width > 64 { low | words[word + 1] << (64 - shift) } else { low };
    value & mask(width)
}

/// Sets integer `index` to the low `width` bits of `value`.
#[inline(always)]
pub fn set(words: &mut [u64], width: u32, index: u64, value: u64) {
    set_at(words, width, index * u64::from(width), value);
}

/// Sets the integer that begins at `bit` to the low `width` bits of `value`.
#[inline(always)]
pub fn set_at(words: &mut [u64], width: u32, bit: u64, value: u64) {
    let (word, shift) = ((bit / 64) as usize, (bit % 64) as u32);
    let value = value & mask(width);
    words[word] = words[word] & !(mask(width) << shift) | value << shift;
    if shift + width > 64 {
        let high = 64 - shift;
        words[word + 1] = words[word + 1] & !(mask(width) >> high) | value >> high;
    }
}

/// Returns a word whose `width` low bits are set.
#[inline(always)]
pub const fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::mix;

    #[test]
    fn neighbours_are_left_alone() {
        for width in 1..=64 {
            let len = 200u64;
            let mut array = vec![0; words(len, width).unwrap() as usize];
            let mut model = vec![0; len as usize];
            for step in 0..2000 {
                let (index, value) = (mix(step) % len, mix(step + 9999));
                set(&mut array, width, index, value);
                model[index as usize] = value & mask(width);
            }
            for (index, value) in model.iter().enumerate() {
                assert_eq!(get(&array, width, index as u64), *value, "width {width}");
            }
        }
        assert_eq!(words(u64::MAX, 2), None);
    }
}
