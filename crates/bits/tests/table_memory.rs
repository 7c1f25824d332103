//! Where tables are allocated, seen by a counting global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tamis_bits::{TableMemory, Words, WordsBuilder, set_table_memory, table_memory};

struct Counting;

/// Smaller allocations are not counted: they may be those of the test harness.
const LARGE: usize = 1 << 16;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE {
            PEAK.fetch_max(HELD.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            HELD.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: usize = 1 << 20;

/// One test, because the setting and the counters belong to the process.
#[test]
fn tables_lie_where_they_were_ordered() {
    assert_eq!(table_memory(), TableMemory::HugePages);
    for (memory, large_is_counted) in
        [(TableMemory::HugePages, false), (TableMemory::GlobalAllocator, true)]
    {
        set_table_memory(memory);
        assert_eq!(table_memory(), memory);
        for (bytes, counted) in [(MIB, true), (8 * MIB, large_is_counted)] {
            let before = HELD.load(Relaxed);
            let words = Words::zeroed(bytes / 8).unwrap();
            let held = HELD.load(Relaxed) - before;
            assert_eq!(held, if counted { bytes } else { 0 }, "{memory:?}, {bytes} bytes");
            assert_eq!(words.heap_bytes(), bytes as u64);
            assert_eq!(words.as_ptr().addr() % 64, 0);
            assert!(words.iter().all(|word| *word == 0));
            drop(words);
            assert_eq!(HELD.load(Relaxed), before);
        }
    }

    // A header that promises a tebibyte costs no more than what arrives. Here tables come from
    // the global allocator.
    let input = vec![1; 3 * MIB];
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let error = Words::read_from(&mut &input[..], 1 << 37).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    let peak = PEAK.load(Relaxed) - before;
    assert!(peak < 7 * MIB, "{peak} bytes for an input of 3 MiB");
    assert_eq!(HELD.load(Relaxed), before);

    drop(input);
    let before = HELD.load(Relaxed);

    // What was allocated before the setting changed stays valid after it.
    let mut builder = WordsBuilder::new(MIB).unwrap();
    builder.push(&vec![1; 3 * MIB]).unwrap();
    set_table_memory(TableMemory::HugePages);
    builder.push(&vec![1; 5 * MIB]).unwrap();
    assert!(builder.finish().unwrap().iter().all(|word| *word == 0x0101_0101_0101_0101));
    assert_eq!(HELD.load(Relaxed), before);
}
