//! Words that several threads write to.

use core::sync::atomic::AtomicU64;

use crate::words::{OutOfMemory, Words};

/// Words that several threads write to through `&self`. They are made from [`Words`] and turned back
/// into them.
#[derive(Debug)]
pub struct AtomicWords(Words);

impl AtomicWords {
    /// Takes over `words`. Words in a shared buffer are copied.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation of that copy fails.
    pub fn new(mut words: Words) -> Result<Self, OutOfMemory> {
        words.make_owned()?;
        Ok(Self(words))
    }

    /// Returns the words as atomics.
    #[inline]
    pub fn as_atomics(&self) -> &[AtomicU64] {
        let (ptr, len) = (self.0.as_ptr(), self.0.len());
        // SAFETY: `new` made the words own their memory, which nothing accesses as plain words
        // while `self` lives. `AtomicU64` has the layout of `u64`, and the memory is aligned to 8.
        unsafe { core::slice::from_raw_parts(ptr.cast::<AtomicU64>(), len) }
    }

    /// Returns the plain words.
    pub fn into_words(self) -> Words {
        self.0
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
