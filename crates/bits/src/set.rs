//! Operations on arrays of words as sets of bits.

/// Returns the number of bits that are set.
pub fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Returns the number of bits that are set in both arrays.
pub fn common(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from((a & b).count_ones())).sum()
}

/// Sets the bits that are set in `other`.
pub fn unite(words: &mut [u64], other: &[u64]) {
    for (word, other) in words.iter_mut().zip(other) {
        *word |= other;
    }
}

/// Clears the bits that are not set in `other`.
pub fn intersect(words: &mut [u64], other: &[u64]) {
    for (word, other) in words.iter_mut().zip(other) {
        *word &= other;
    }
}

/// Returns whether bit `index` is set.
///
/// # Panics
/// Panics if there is no such bit, as [`set`] and [`clear`] do.
#[inline(always)]
pub fn get(words: &[u64], index: u64) -> bool {
    words[(index / 64) as usize] >> (index % 64) & 1 == 1
}

/// Sets bit `index`.
#[inline(always)]
pub fn set(words: &mut [u64], index: u64) {
    words[(index / 64) as usize] |= 1 << (index % 64);
}

/// Clears bit `index`.
#[inline(always)]
pub fn clear(words: &mut [u64], index: u64) {
    words[(index / 64) as usize] &= !(1 << (index % 64));
}

/// Returns whether every bit from `len` on is clear, as it is in a canonical array of `len` bits.
pub fn ends_at(words: &[u64], len: u64) -> bool {
    let whole = (len / 64) as usize;
    let rest = words.get(whole..).unwrap_or(&[]);
    match rest {
        [] => true,
        [first, tail @ ..] => first >> (len % 64) == 0 && tail.iter().all(|word| *word == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared() {
        let mut words = [0u64; 3];
        for bit in [0, 63, 64, 130] {
            set(&mut words, bit);
            assert!(get(&words, bit));
        }
        assert_eq!(ones(&words), 4);
        assert!(ends_at(&words, 131) && !ends_at(&words, 130) && ends_at(&words, 500));
        clear(&mut words, 130);
        assert!(ends_at(&words, 65) && !get(&words, 130) && !ends_at(&words, 64));
        let mut other = [1u64, 1, 4];
        assert_eq!(common(&words, &other), 2);
        unite(&mut other, &words);
        assert_eq!(other, [1 | 1 << 63, 1, 4]);
        intersect(&mut other, &[0, 1, 4]);
        assert_eq!(other, [0, 1, 4]);
    }
}
