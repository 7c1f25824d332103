//! The memory of the filters of all shards, and its limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes of the loaded filters.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    used: AtomicU64,
}

impl Memory {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit: limit.unwrap_or(u64::MAX), used: AtomicU64::new(0) }
    }

    /// Adds `bytes` to the memory in use, before they are allocated.
    ///
    /// # Errors
    /// Returns [`tamis::Error::MemoryLimit`] if that would exceed the limit.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), tamis::Error> {
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let limit = self.limit;
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add) {
            Ok(_) => Ok(()),
            Err(used) => {
                Err(tamis::Error::MemoryLimit { limit, needs: used.saturating_add(bytes) })
            }
        }
    }

    /// Subtracts `bytes` that were reserved and are free again.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_is_reserved() {
        let memory = Memory::new(Some(100));
        memory.reserve(60).unwrap();
        let refused = memory.reserve(41).unwrap_err();
        assert!(matches!(refused, tamis::Error::MemoryLimit { limit: 100, needs: 101 }));
        memory.reserve(40).unwrap();
        memory.release(60);
        memory.reserve(60).unwrap();
        assert!(memory.reserve(u64::MAX).is_err());
        assert!(Memory::new(None).reserve(u64::MAX).is_ok());
    }
}
