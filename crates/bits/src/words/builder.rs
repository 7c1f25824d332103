//! Words of a known length whose bytes arrive piece by piece.

use super::{OutOfMemory, Words, memory};

/// Size of the first allocation, before any byte arrives, unless the pages are mapped lazily: 1
/// MiB.
const FIRST_WORDS: usize = 1 << 17;

/// Fills [`Words`] from little-endian bytes that arrive in pieces of any size.
///
/// The length may come from a hostile header. Memory is therefore taken as bytes arrive: either
/// the table is an anonymous map, whose pages take memory when they are written to, or it starts
/// with at most 1 MiB and doubles whenever it is full.
///
/// # Examples
/// ```
/// let mut builder = tamis_bits::WordsBuilder::new(2)?;
/// let rest = builder.push(&[1, 0, 0])?;
/// assert!(rest.is_empty() && builder.missing() == 13);
/// let rest = builder.push(&[0; 20])?;
/// assert_eq!(rest.len(), 7);
/// assert_eq!(builder.finish().expect("16 bytes were pushed")[..], [1, 0]);
/// # Ok::<(), tamis_bits::OutOfMemory>(())
/// ```
#[derive(Debug)]
pub struct WordsBuilder {
    words: Words,
    /// The final length in words; `words` may still be shorter.
    len: usize,
    /// Whole words that were filled.
    filled: usize,
    /// Bytes of the word after those, fewer than 8.
    bytes: usize,
}

impl WordsBuilder {
    /// Starts `len` words.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the first allocation fails.
    pub fn new(len: usize) -> Result<Self, OutOfMemory> {
        let lazy = memory::is_lazily_mapped(len.saturating_mul(8));
        // A map larger than the machine's memory may be refused, so start small then.
        let mapped = if lazy { Words::zeroed(len).ok() } else { None };
        let words = match mapped {
            Some(words) => words,
            None => Words::zeroed(len.min(FIRST_WORDS))?,
        };
        Ok(Self { words, len, filled: 0, bytes: 0 })
    }

    /// Starts `len` words and allocates all of them, for a length from a trusted source.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails.
    pub fn preallocated(len: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { words: Words::zeroed(len)?, len, filled: 0, bytes: 0 })
    }

    /// Returns how many bytes are still missing.
    pub fn missing(&self) -> u64 {
        (self.len - self.filled) as u64 * 8 - self.bytes as u64
    }

    /// Appends the first bytes of `bytes`, as many as are missing, and returns the rest.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the table cannot grow.
    pub fn push<'b>(&mut self, mut bytes: &'b [u8]) -> Result<&'b [u8], OutOfMemory> {
        while let (Some((first, rest)), true) = (bytes.split_first(), self.filled < self.len) {
            if self.filled == self.words.len() {
                self.grow()?;
            }
            let free = &mut self.words.to_mut()[self.filled..];
            let (chunks, _) = bytes.as_chunks::<8>();
            if self.bytes == 0 && !chunks.is_empty() {
                let count = chunks.len().min(free.len());
                for (word, chunk) in free.iter_mut().zip(chunks) {
                    *word = u64::from_le_bytes(*chunk);
                }
                self.filled += count;
                bytes = &bytes[count * 8..];
            } else {
                free[0] |= u64::from(*first) << (8 * self.bytes);
                self.bytes = (self.bytes + 1) % 8;
                self.filled += usize::from(self.bytes == 0);
                bytes = rest;
            }
        }
        Ok(bytes)
    }

    /// Returns the words, or `None` if bytes are missing.
    pub fn finish(self) -> Option<Words> {
        // An empty array is whole without a push, so the lengths are equal here too.
        (self.filled == self.len).then_some(self.words)
    }

    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let mut words = Words::zeroed(self.words.len().saturating_mul(2).min(self.len))?;
        words.to_mut()[..self.filled].copy_from_slice(&self.words);
        self.words = words;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::mix;

    #[test]
    fn pieces_of_any_size_give_the_same_words() {
        for len in [0, 1, 2, 9, 1000] {
            let expected: Vec<u64> = (0..len as u64).map(mix).collect();
            let bytes: Vec<u8> = expected.iter().flat_map(|word| word.to_le_bytes()).collect();
            for size in [1, 3, 7, 8, 13, 64, 100_000] {
                let made = [WordsBuilder::new(len), WordsBuilder::preallocated(len)];
                let mut builder = made.into_iter().nth(size % 2).unwrap().unwrap();
                for piece in bytes.chunks(size) {
                    assert!(builder.push(piece).unwrap().is_empty());
                }
                assert_eq!(builder.missing(), 0);
                assert_eq!(builder.push(&[1, 2]).unwrap(), [1, 2]);
                assert_eq!(builder.finish().unwrap()[..], expected);
            }
            let mut builder = WordsBuilder::new(len + 1).unwrap();
            builder.push(&bytes).unwrap();
            assert_eq!(builder.missing(), 8);
            assert!(builder.finish().is_none());
        }
    }

    #[test]
    fn grows_as_bytes_arrive() {
        let len = 3 * FIRST_WORDS + 5;
        let mut builder = WordsBuilder::new(len).unwrap();
        assert_eq!(builder.words.len(), FIRST_WORDS, "below the size of a map");
        for i in 0..len as u64 {
            assert!(builder.push(&i.to_le_bytes()).unwrap().is_empty());
            assert!(builder.words.len() <= 2 * FIRST_WORDS.max(i as usize));
        }
        let words = builder.finish().unwrap();
        assert!(words.len() == len && words.iter().zip(0..).all(|(word, i)| *word == i));
    }
}
