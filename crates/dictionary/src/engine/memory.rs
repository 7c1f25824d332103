//! The memory of the filters of all shards, and its limit.

use std::sync::Mutex;

use super::lock;

/// Counts the bytes of the filters.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    bytes: Mutex<Bytes>,
}

#[derive(Debug)]
struct Bytes {
    loaded: u64,
    /// Of saved filters that are not loaded. A filter grows only as far as these still fit beside it.
    unloaded: u64,
}

impl Memory {
    /// Creates the count of a dictionary whose saved filters have `unloaded` bytes.
    pub(crate) fn new(limit: Option<u64>, unloaded: u64) -> Self {
        let bytes = Mutex::new(Bytes { loaded: 0, unloaded });
        Self { limit: limit.unwrap_or(u64::MAX), bytes }
    }

    /// Adds the `new` bytes of a filter that is to be built, before they are allocated.
    ///
    /// # Errors
    /// Returns [`tamis::Error::MemoryLimit`] if all filters together would exceed the limit.
    pub(crate) fn reserve(&self, new: u64) -> Result<(), tamis::Error> {
        let mut bytes = lock(&self.bytes);
        let loaded = bytes.loaded.saturating_add(new);
        self.check(loaded.saturating_add(bytes.unloaded))?;
        bytes.loaded = loaded;
        Ok(())
    }

    /// Adds the `saved` bytes of a filter that is to be loaded, before they are allocated.
    ///
    /// # Errors
    /// Returns [`tamis::Error::MemoryLimit`] if all loaded filters together would exceed the limit.
    pub(crate) fn reserve_saved(&self, saved: u64) -> Result<(), tamis::Error> {
        let mut bytes = lock(&self.bytes);
        let loaded = bytes.loaded.saturating_add(saved);
        self.check(loaded)?;
        bytes.loaded = loaded;
        bytes.unloaded = bytes.unloaded.saturating_sub(saved);
        Ok(())
    }

    /// Subtracts bytes of a loaded filter, which are free again.
    pub(crate) fn release(&self, old: u64) {
        let mut bytes = lock(&self.bytes);
        bytes.loaded = bytes.loaded.saturating_sub(old);
    }

    fn check(&self, needs: u64) -> Result<(), tamis::Error> {
        let limit = self.limit;
        if needs <= limit { Ok(()) } else { Err(tamis::Error::MemoryLimit { limit, needs }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_is_reserved() {
        let memory = Memory::new(Some(100), 0);
        memory.reserve(60).unwrap();
        let refused = memory.reserve(41).unwrap_err();
        assert!(matches!(refused, tamis::Error::MemoryLimit { limit: 100, needs: 101 }));
        memory.reserve(40).unwrap();
        memory.release(60);
        memory.reserve(60).unwrap();
        assert!(memory.reserve(u64::MAX).is_err());
        assert!(Memory::new(None, 0).reserve(u64::MAX).is_ok());
    }

    #[test]
    fn saved_filters_fit_beside_those_that_grow() {
        let memory = Memory::new(Some(100), 70);
        memory.reserve_saved(40).unwrap();
        let refused = memory.reserve(31).unwrap_err();
        assert!(matches!(refused, tamis::Error::MemoryLimit { limit: 100, needs: 101 }));
        memory.reserve(30).unwrap();
        memory.reserve_saved(30).unwrap();
        assert!(memory.reserve(1).is_err());
    }
}
