//! Words while many threads set bits in them.

use core::sync::atomic::AtomicU64;

use crate::words::{OutOfMemory, Words};

/// Words that are shared for writing; made from [`Words`] and turned back into them.
#[derive(Debug)]
pub struct AtomicWords(Words);

impl AtomicWords {
    /// Takes the words over; those of a mapped file are copied.
    pub fn new(mut words: Words) -> Result<Self, OutOfMemory> {
        words.make_owned()?;
        Ok(Self(words))
    }

    /// The words, as atomics.
    #[inline]
    pub fn as_atomics(&self) -> &[AtomicU64] {
        let (ptr, len) = (self.0.as_ptr(), self.0.len());
        // SAFETY: the memory is ours alone (`new` saw to it), is never seen as plain words while
        // `self` lives, and `AtomicU64` has the layout and alignment of `u64` on 8-byte bounds.
        unsafe { core::slice::from_raw_parts(ptr.cast::<AtomicU64>(), len) }
    }

    /// The words, plain again.
    pub fn into_words(self) -> Words {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn threads_set_bits_and_none_is_lost() {
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
