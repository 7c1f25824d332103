//! A filter that Python threads share.

use pyo3::prelude::*;
use tamis::{AnyFilter, Error, KeyForms, KeyHash, KeyHasher, Keyed};

use crate::errors::raise;
use crate::keys::HashedKey;
use crate::lock::{Lock, ReadGuard, Writer};

/// A filter behind a lock. Its hasher never changes, so that keys are hashed outside the lock.
pub(crate) struct Handle {
    pub(crate) hasher: KeyHasher,
    state: Lock<State>,
}

/// What the lock protects.
pub(crate) struct State {
    keyed: Keyed<AnyFilter>,
    /// Whether the tables may be those of a mapped file or of a buffer, which the first change copies.
    shared: bool,
}

impl State {
    /// Returns the filter, to change it.
    pub(crate) fn change(&mut self) -> Result<&mut Keyed<AnyFilter>, Error> {
        if self.shared {
            self.keyed.make_owned()?;
            self.shared = false;
        }
        Ok(&mut self.keyed)
    }

    /// Changes the filter by hashes of keys of these forms.
    pub(crate) fn change_by<R>(
        &mut self,
        forms: KeyForms,
        change: impl FnOnce(&mut AnyFilter) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let keyed = self.change()?;
        let changed = change(keyed.filter_mut());
        // A batch that fails may have inserted some keys.
        keyed.record_key_forms(forms);
        changed
    }

    pub(crate) fn get(&self) -> &Keyed<AnyFilter> {
        &self.keyed
    }
}

impl Handle {
    /// Holds a filter in memory of its own.
    pub(crate) fn new(keyed: Keyed<AnyFilter>) -> Self {
        let hasher = *keyed.hasher();
        Self { hasher, state: Lock::new(State { keyed, shared: false }) }
    }

    /// Holds a filter whose tables may be those of a mapped file or of a buffer.
    pub(crate) fn shared(keyed: Keyed<AnyFilter>) -> Self {
        let hasher = *keyed.hasher();
        Self { hasher, state: Lock::new(State { keyed, shared: true }) }
    }

    /// Locks the filter for reading. Call it without the interpreter.
    pub(crate) fn read(&self) -> Result<ReadGuard<'_, State>, Error> {
        self.state.read()
    }

    /// Returns what changes the filter without the interpreter.
    pub(crate) fn writer(&self, py: Python<'_>) -> Writer<'_, State> {
        self.state.writer(py)
    }

    /// Calls `query` with the filter. It waits for a change on another thread without the interpreter.
    #[inline]
    pub(crate) fn query<R>(
        &self,
        py: Python<'_>,
        query: impl FnOnce(&Keyed<AnyFilter>) -> R + Send,
    ) -> PyResult<R> {
        self.state.query(py, |state| query(&state.keyed)).map_err(raise)
    }

    /// Calls `change` with the locked filter. It waits for other threads without the interpreter.
    #[inline]
    pub(crate) fn change<R>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut State) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        self.state.change(py, change).map_err(raise)
    }

    /// Changes the filter by one key, and records its form if that succeeds.
    #[inline]
    pub(crate) fn change_key<R>(
        &self,
        py: Python<'_>,
        key: HashedKey,
        change: impl FnOnce(&mut AnyFilter, KeyHash) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        self.change(py, |state| {
            let keyed = state.change()?;
            let changed = change(keyed.filter_mut(), key.hash)?;
            keyed.record_key_forms(key.form);
            Ok(changed)
        })
    }

    /// Calls `combine` with this filter, to change it, and another one. Locks are taken in the order of
    /// their addresses, so that two threads that combine the same filters do not wait for each other.
    pub(crate) fn combine(
        &self,
        py: Python<'_>,
        other: &Self,
        combine: impl FnOnce(&mut Keyed<AnyFilter>, &Keyed<AnyFilter>) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let writer = self.writer(py);
        let combine = || {
            if std::ptr::eq(self, other) {
                let copy = self.read()?.keyed.try_clone()?;
                return combine(writer.write()?.change()?, &copy);
            }
            if std::ptr::from_ref(self) < std::ptr::from_ref(other) {
                let mut own = writer.write()?;
                combine(own.change()?, &other.read()?.keyed)
            } else {
                let other = other.read()?;
                combine(writer.write()?.change()?, &other.keyed)
            }
        };
        py.detach(combine).map_err(raise)
    }

    /// Calls `compare` with this filter and another one. Call it without the interpreter.
    pub(crate) fn compare<R>(
        &self,
        other: &Self,
        compare: impl FnOnce(&Keyed<AnyFilter>, &Keyed<AnyFilter>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if std::ptr::eq(self, other) {
            let own = self.read()?;
            return compare(&own.keyed, &own.keyed);
        }
        let (own, other) = if std::ptr::from_ref(self) < std::ptr::from_ref(other) {
            let own = self.read()?;
            (own, other.read()?)
        } else {
            let other = other.read()?;
            (self.read()?, other)
        };
        compare(&own.keyed, &other.keyed)
    }

    /// Returns a copy. Call it without the interpreter.
    pub(crate) fn copy(&self) -> Result<Self, Error> {
        let state = self.read()?;
        let keyed = state.keyed.try_clone()?;
        let hasher = self.hasher;
        Ok(Self { hasher, state: Lock::new(State { keyed, shared: state.shared }) })
    }
}
