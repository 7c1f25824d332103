//! Bytes of an array of words, from any byte on: for records that are no whole number of words.

/// `N` bytes from `byte` on, in the order of a file: the lowest of a word first.
///
/// # Panics
/// If the array does not reach so far.
#[inline(always)]
pub fn read<const N: usize>(words: &[u64], byte: usize) -> [u8; N] {
    // One comparison: the right side does not depend on `byte`.
    let ends = size_of_val(words).checked_sub(N);
    assert!(ends.is_some_and(|last| byte <= last), "bytes past the end");
    if cfg!(target_endian = "little") {
        // SAFETY: `byte` is within the array: asserted just above.
        let from = unsafe { words.as_ptr().cast::<u8>().add(byte) };
        // SAFETY: so are the `N` bytes from there on, all initialised, and bytes need no alignment.
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
