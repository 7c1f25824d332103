//! A lock that lookups of one key do not have to take.
//!
//! A thread that is attached to an interpreter with a global lock excludes all other attached threads. So the
//! value cannot change while an attached thread reads it, unless a detached thread changes it. Such threads
//! announce themselves while they are still attached: see [`Lock::writer`]. An interpreter without a global
//! lock has no such rule, and every access takes the lock.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use pyo3::Python;
use tamis::Error;

/// A value that attached and detached threads read and change.
pub(crate) struct Lock<T> {
    lock: RwLock<()>,
    /// The number of [`Writer`]s.
    writers: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: As with `RwLock<T>`, several threads have a `&T`, or one thread has a `&mut T`.
unsafe impl<T: Send + Sync> Sync for Lock<T> {}

impl<T: Send + Sync> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { lock: RwLock::new(()), writers: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    /// Locks the value for reading. Call it detached.
    pub(crate) fn read(&self) -> Result<ReadGuard<'_, T>, Error> {
        self.lock.read().map(|lock| self.read_guard(lock)).map_err(poisoned)
    }

    /// Announces that this thread will change the value while it is detached.
    pub(crate) fn writer(&self, _attached: Python<'_>) -> Writer<'_, T> {
        self.writers.fetch_add(1, Ordering::Relaxed);
        Writer(self)
    }

    /// Calls `query` with the value. It waits for a change on another thread detached.
    #[inline]
    pub(crate) fn query<R>(
        &self,
        py: Python<'_>,
        query: impl FnOnce(&T) -> R + Send,
    ) -> Result<R, Error> {
        let writers = self.writers.load(Ordering::Acquire);
        if cfg!(not(Py_GIL_DISABLED)) && writers == 0 && !self.lock.is_poisoned() {
            // SAFETY: This thread holds the global interpreter lock until `query` returns, which is `Send`
            // and so has no `Python` to detach. Changes are made under that lock, or by a `Writer`. None
            // exists, and one can only be made under that lock.
            return Ok(query(unsafe { &*self.value.get() }));
        }
        self.query_locked(py, query)
    }

    #[cfg_attr(not(Py_GIL_DISABLED), cold)]
    fn query_locked<R>(&self, py: Python<'_>, query: impl FnOnce(&T) -> R) -> Result<R, Error> {
        loop {
            match self.lock.try_read() {
                Ok(lock) => return Ok(query(&self.read_guard(lock))),
                Err(TryLockError::Poisoned(_)) => return Err(Error::Poisoned),
                // The guard cannot cross into the interpreter, so another thread may come first.
                Err(TryLockError::WouldBlock) => py.detach(|| self.read().map(drop))?,
            }
        }
    }

    /// Calls `change` with the value. It waits for other threads detached.
    #[inline]
    pub(crate) fn change<R>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut T) -> Result<R, Error> + Send,
    ) -> Result<R, Error> {
        loop {
            match self.lock.try_write() {
                // It need not be announced, because this thread stays attached until `change` returns.
                Ok(lock) => return change(&mut self.write_guard(lock)),
                Err(TryLockError::Poisoned(_)) => return Err(Error::Poisoned),
                Err(TryLockError::WouldBlock) => {
                    py.detach(|| self.lock.write().map(drop).map_err(poisoned))?;
                }
            }
        }
    }

    fn read_guard<'a>(&'a self, lock: RwLockReadGuard<'a, ()>) -> ReadGuard<'a, T> {
        // SAFETY: The lock is held for reading as long as the guard exists.
        ReadGuard { value: unsafe { &*self.value.get() }, _lock: lock }
    }

    /// Returns access to the value. The thread is attached as long as the guard exists, or is announced.
    #[inline]
    fn write_guard<'a>(&'a self, lock: RwLockWriteGuard<'a, ()>) -> WriteGuard<'a, T> {
        // SAFETY: The lock is held as long as the guard exists. Queries that do not take the lock do not run,
        // because this thread is attached or announced.
        WriteGuard { value: unsafe { &mut *self.value.get() }, _lock: lock }
    }
}

/// A thread that changes the value while it is detached.
pub(crate) struct Writer<'a, T>(&'a Lock<T>);

impl<T: Send + Sync> Writer<'_, T> {
    /// Locks the value for a change. Call it detached.
    pub(crate) fn write(&self) -> Result<WriteGuard<'_, T>, Error> {
        self.0.lock.write().map(|lock| self.0.write_guard(lock)).map_err(poisoned)
    }
}

impl<T> Drop for Writer<'_, T> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::Release);
    }
}

/// A value that is locked for reading.
pub(crate) struct ReadGuard<'a, T> {
    value: &'a T,
    _lock: RwLockReadGuard<'a, ()>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

/// A value that is locked for a change.
pub(crate) struct WriteGuard<'a, T> {
    value: &'a mut T,
    _lock: RwLockWriteGuard<'a, ()>,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

fn poisoned<T>(_: PoisonError<T>) -> Error {
    Error::Poisoned
}
