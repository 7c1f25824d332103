//! Unaligned reads from an array of words, for records that are not a whole number of words.

/// Returns `N` bytes from byte `byte` on, in the order of a file: the lowest byte of a word first.
///
/// # Panics
/// Panics if the bytes do not lie in the array.
#[inline(always)]
pub fn read<const N: usize>(words: &[u64], byte: usize) -> [u8; N] {
    // One comparison: the right side does not depend on `byte`.
    let ends = size_of_val(words).checked_sub(N);
    assert!(ends.is_some_and(|last| byte <= last), "the bytes reach past the end");
    if cfg!(target_endian = "little") {
        // SAFETY: the assertion above shows that `byte` lies within the array.
        let from = unsafe { words.as_ptr().cast::<u8>().add(byte) };
        // SAFETY: the `N` bytes from there on lie within the array too. They are initialised, and
        // bytes need no alignment.
        return unsafe { from.cast::<[u8; N]>().read() };
    }
    core::array::from_fn(|i| (words[(byte + i) / 8] >> ((byte + i) % 8 * 8)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::mix;

    #[test]
    fn bytes_are_those_of_the_words() {
        let words: Vec<u64> = (0..5).map(mix).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for byte in 0..=40 - 17 {
            assert_eq!(read::<17>(&words, byte), bytes[byte..byte + 17]);
        }
        assert_eq!(read::<8>(&words, 32), bytes[32..]);
        assert_eq!(read::<0>(&words, 40), []);
        for past in [24, 40, 41, usize::MAX] {
            assert!(std::panic::catch_unwind(|| read::<17>(&words, past)).is_err());
        }
    }
}
