//! Words whose bits several threads set at the same time.

use core::sync::atomic::AtomicU64;

use crate::words::{OutOfMemory, Words};

/// Words that several threads change. They are made from [`Words`] and turned back into them.
#[derive(Debug)]
pub struct AtomicWords {
    words: Words,
    /// The number of words, so that `words` need not be borrowed as a slice while threads write.
    len: usize,
}

impl AtomicWords {
    /// Takes the words over. Words in a shared buffer, such as a mapped file, are copied.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation of the copy fails.
    pub fn new(mut words: Words) -> Result<Self, OutOfMemory> {
        words.make_owned()?;
        Ok(Self { len: words.len(), words })
    }

    /// Returns the words as atomics.
    #[inline]
    pub fn as_atomics(&self) -> &[AtomicU64] {
        // SAFETY: the pointer leads to `len` words that `words` own since `new`, and that nothing
        // else reaches while `self` lives. `AtomicU64` has the layout of `u64`, and `Words` are
        // aligned to 8 bytes.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast::<AtomicU64>(), self.len) }
    }

    /// Returns the words for plain use.
    pub fn into_words(self) -> Words {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn no_bit_set_by_a_thread_is_lost() {
        let atomic = AtomicWords::new(Words::zeroed(16).unwrap()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let words = atomic.as_atomics();
                scope.spawn(move || {
                    for bit in (0..1024).filter(|bit| bit % 4 == thread) {
                        words[bit / 64].fetch_or(1 << (bit % 64), Relaxed);
                    }
                });
            }
        });
        assert!(atomic.into_words().iter().all(|word| *word == u64::MAX));
    }
}
