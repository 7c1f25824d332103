//! A value that its first reader computes, without the standard library.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A value that its first reader computes. Two readers at the same time may both compute it; one of the
/// two values is then dropped.
pub struct LazyLock<T: Send + Sync + 'static> {
    value: AtomicPtr<T>,
    compute: fn() -> T,
}

impl<T: Send + Sync + 'static> LazyLock<T> {
    /// Returns a value that `compute` will compute.
    pub const fn new(compute: fn() -> T) -> Self {
        Self { value: AtomicPtr::new(ptr::null_mut()), compute }
    }
}

impl<T: Send + Sync + 'static> Deref for LazyLock<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let mut value = self.value.load(Ordering::Acquire);
        if value.is_null() {
            let own = Box::into_raw(Box::new((self.compute)()));
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            value = match self.value.compare_exchange(value, own, success, failure) {
                Ok(_) => own,
                Err(other) => {
                    // SAFETY: `own` comes from `Box::into_raw` above and was not stored.
                    drop(unsafe { Box::from_raw(own) });
                    other
                }
            };
        }
        // SAFETY: the pointer comes from `Box::into_raw`, was stored with `Release` and loaded with
        // `Acquire`, and stays valid and unchanged until `self` is dropped.
        unsafe { &*value }
    }
}

impl<T: Send + Sync + 'static> Drop for LazyLock<T> {
    fn drop(&mut self) {
        let value = *self.value.get_mut();
        if !value.is_null() {
            // SAFETY: the pointer comes from `Box::into_raw`, and `self` was its only owner.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for LazyLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyLock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_read_one_value() {
        static LISTS: [LazyLock<Vec<u32>>; 2] =
            [LazyLock::new(|| (0..1000).collect()), LazyLock::new(Vec::new)];
        let read = || (LISTS[0].as_ptr() as usize, LISTS[0].iter().sum::<u32>());
        let values: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(values.iter().all(|value| *value == (LISTS[0].as_ptr() as usize, 499_500)));
        assert!(LISTS[1].is_empty());
    }

    #[test]
    fn the_value_is_dropped() {
        use std::sync::atomic::AtomicUsize;
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                ALIVE.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let lazy = LazyLock::new(|| {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Counted
        });
        let _: (&Counted, &Counted) = (&lazy, &lazy);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 1);
        drop(lazy);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
}
