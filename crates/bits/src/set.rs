//! Operations on arrays of words as sets of bits.

use crate::prefetch;
use crate::range::scale;

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

/// Bits, one of which a hash selects by [`scale`]. The size is checked once, not for every bit.
#[derive(Clone, Copy, Debug)]
pub struct ScaledBits<'a> {
    words: &'a [u64],
    len: u64,
}

impl<'a> ScaledBits<'a> {
    /// Takes the first `len` bits of `words`.
    ///
    /// # Panics
    /// Panics if `len` is 0 or if there are fewer bits.
    #[inline(always)]
    pub fn new(words: &'a [u64], len: u64) -> Self {
        check_len(words, len);
        Self { words, len }
    }

    /// Returns a word whose lowest bit is the bit that `hash` selects.
    #[inline(always)]
    pub fn get(self, hash: u64) -> u64 {
        let index = scale(hash, self.len);
        // SAFETY: `index` is less than `len`, and `new` has checked that there are so many bits.
        let word = unsafe { self.words.get_unchecked((index / 64) as usize) };
        word >> (index % 64)
    }
}

/// The same, to set bits.
#[derive(Debug)]
pub struct ScaledBitsMut<'a> {
    words: &'a mut [u64],
    len: u64,
}

impl<'a> ScaledBitsMut<'a> {
    /// Takes the first `len` bits of `words`.
    ///
    /// # Panics
    /// Panics if `len` is 0 or if there are fewer bits.
    #[inline(always)]
    pub fn new(words: &'a mut [u64], len: u64) -> Self {
        check_len(words, len);
        Self { words, len }
    }

    /// Sets the bit that `hash` selects.
    #[inline(always)]
    pub fn set(&mut self, hash: u64) {
        let index = scale(hash, self.len);
        // SAFETY: `index` is less than `len`, and `new` has checked that there are so many bits.
        let word = unsafe { self.words.get_unchecked_mut((index / 64) as usize) };
        *word |= 1 << (index % 64);
    }

    /// Prefetches the bit that `hash` selects.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.words, (scale(hash, self.len) / 64) as usize);
    }
}

#[inline(always)]
fn check_len(words: &[u64], len: u64) {
    assert!(len.wrapping_sub(1) < words.len() as u64 * 64, "there are fewer bits");
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
    use crate::range::mix;

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

    #[test]
    fn scaled_bits_are_those_of_get_and_set() {
        for len in [1, 63, 64, 65, 1000] {
            let mut words = vec![0; 16];
            let mut twin = words.clone();
            for hash in (0..300).map(mix).chain([0, u64::MAX]) {
                ScaledBitsMut::new(&mut words, len).set(hash);
                set(&mut twin, scale(hash, len));
            }
            assert_eq!(words, twin);
            let words: Vec<u64> = (0..16).map(mix).collect();
            for hash in (0..300).map(mix).chain([0, u64::MAX]) {
                let found = ScaledBits::new(&words, len).get(hash) & 1 == 1;
                assert_eq!(found, get(&words, scale(hash, len)));
            }
        }
        for len in [0, 129, u64::MAX] {
            assert!(std::panic::catch_unwind(|| ScaledBits::new(&[0; 2], len)).is_err());
            let set = || ScaledBitsMut::new(&mut [0; 2], len).set(0);
            assert!(std::panic::catch_unwind(set).is_err());
        }
    }
}
