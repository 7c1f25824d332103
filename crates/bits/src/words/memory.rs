//! Allocation of tables: huge pages or the global allocator.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// From this size on, [`TableMemory::HugePages`] takes an anonymous map: a random access to a
/// table larger than the reach of the TLB otherwise costs a page walk in addition to the line.
#[cfg(feature = "std")]
pub(super) const MAP_FROM: usize = 4 << 20;

/// An allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The size of the allocation.
    pub bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to allocate {} bytes", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}

/// Where large tables are allocated. Both kinds of memory start on a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableMemory {
    /// Tables of 4 MiB or more are anonymous maps that ask the kernel for huge pages. Smaller
    /// tables come from the global allocator. Without the `std` feature, and on WebAssembly, all
    /// tables come from the global allocator.
    #[default]
    HugePages,
    /// Every table comes from the global allocator, so that a memory limit enforced there counts
    /// tables too.
    GlobalAllocator,
}

static TABLE_MEMORY: AtomicU8 = AtomicU8::new(HUGE_PAGES);
const HUGE_PAGES: u8 = 0;
const GLOBAL_ALLOCATOR: u8 = 1;

/// Sets where the whole process allocates tables from now on. Existing tables stay where they
/// are.
pub fn set_table_memory(memory: TableMemory) {
    let code = match memory {
        TableMemory::HugePages => HUGE_PAGES,
        TableMemory::GlobalAllocator => GLOBAL_ALLOCATOR,
    };
    TABLE_MEMORY.store(code, Relaxed);
}

/// Returns where the process allocates tables.
pub fn table_memory() -> TableMemory {
    match TABLE_MEMORY.load(Relaxed) {
        GLOBAL_ALLOCATOR => TableMemory::GlobalAllocator,
        _ => TableMemory::HugePages,
    }
}

/// Returns whether a table of `bytes` bytes becomes an anonymous map, whose pages take memory
/// only once they are written to.
pub(super) fn is_lazily_mapped(bytes: usize) -> bool {
    #[cfg(feature = "std")]
    {
        bytes >= MAP_FROM
            && table_memory() == TableMemory::HugePages
            && !cfg!(any(miri, target_family = "wasm"))
    }
    #[cfg(not(feature = "std"))]
    {
        let _ = bytes;
        false
    }
}
