//! The server's allocator as the allocator of this module, so that `used_memory` and `maxmemory` count
//! filters too.
//!
//! The server aligns to 16 bytes at most. Tables start on cache lines of 64 bytes: such an allocation
//! is made larger, and the pointer that the server returned lies in the 8 bytes before the table.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use redis_module::raw;

/// The alignment that every allocation of the server has.
const SERVER_ALIGN: usize = 16;

static USED: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes that the module has allocated and not freed.
pub(crate) fn used() -> u64 {
    USED.load(Relaxed) as u64
}

pub(crate) struct ServerAllocator;

/// Allocates `size` bytes; null if the server has no memory, or is too old to say so and not ready.
fn server_alloc(size: usize, zeroed: bool) -> *mut u8 {
    // SAFETY: the server sets these pointers once, before the module allocates anything, and never
    // changes them.
    let (plain, plain_abort, zero, zero_abort) = unsafe {
        (
            raw::RedisModule_TryAlloc,
            raw::RedisModule_Alloc,
            raw::RedisModule_TryCalloc,
            raw::RedisModule_Calloc,
        )
    };
    // SAFETY: both take any size.
    let pointer: *mut c_void = unsafe {
        match (zeroed, zero.or(zero_abort), plain.or(plain_abort)) {
            (true, Some(alloc), _) => alloc(1, size),
            (false, _, Some(alloc)) => alloc(size),
            _ => ptr::null_mut(),
        }
    };
    pointer.cast()
}

fn server_free(pointer: *mut u8) {
    // SAFETY: as in `server_alloc`; the pointer came from there.
    unsafe {
        if let Some(free) = raw::RedisModule_Free {
            free(pointer.cast());
        }
    }
}

/// Returns the bytes that an allocation takes from the server.
fn server_size(layout: Layout) -> usize {
    match layout.align() {
        ..=SERVER_ALIGN => layout.size(),
        align => layout.size() + align,
    }
}

fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    let (size, align) = (server_size(layout), layout.align());
    let start = server_alloc(size, zeroed);
    if start.is_null() {
        return start;
    }
    USED.fetch_add(size, Relaxed);
    if align <= SERVER_ALIGN {
        return start;
    }
    let offset = align - start.addr() % align;
    // SAFETY: `offset` is at most `align`, by which the allocation is larger than the layout, and at
    // least 16, since the server's pointer is aligned to 16 bytes: 8 bytes before the result are ours.
    unsafe {
        let aligned = start.add(offset);
        aligned.cast::<*mut u8>().sub(1).write(start);
        aligned
    }
}

// SAFETY: allocations are those of the server, aligned as the layout demands, and freed once.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocate(layout, true)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(server_size(layout), Relaxed);
        let start = match layout.align() {
            ..=SERVER_ALIGN => pointer,
            // SAFETY: `allocate` wrote the server's pointer there.
            _ => unsafe { pointer.cast::<*mut u8>().sub(1).read() },
        };
        server_free(start);
    }
}
