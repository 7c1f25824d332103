//! The server's allocator as the allocator of this module, so that `used_memory` and `maxmemory` count
//! filters too.
//!
//! The server promises an alignment of 16 bytes. Tables start on cache lines of 64 bytes:
//!
//! * jemalloc aligns every size that is a multiple of 64 bytes to 64 bytes, so a table is one allocation of
//!   its size;
//! * for other allocators the allocation is 64 bytes larger, and the pointer that the server returned lies in
//!   the 8 bytes before the table.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use redis_module::raw;

use crate::server::api;
use crate::value::Filter;

/// The alignment that every allocation of the server has.
const SERVER_ALIGN: usize = 16;
/// The alignment of tables.
const LINE: usize = 64;

static USED: AtomicUsize = AtomicUsize::new(0);
/// Whether the server aligns multiples of [`LINE`] to it. It is set before the first allocation.
static ALIGNS_LINES: AtomicBool = AtomicBool::new(false);

/// Returns the bytes that the server holds for the module.
pub(crate) fn used() -> u64 {
    USED.load(Relaxed) as u64
}

/// Returns the bytes that the server holds for the tables of a filter, which may be more than their layouts.
pub(crate) fn table_memory(filter: &Filter) -> u64 {
    let mut bytes = 0;
    filter.each_allocation(|table, layout| {
        // SAFETY: tables are allocated by the global allocator, which is that of this module.
        let start = unsafe { server_pointer(table.as_ptr(), layout) };
        bytes += server_size(start) as u64;
    });
    bytes
}

/// Learns how the server aligns.
///
/// # Safety
/// The server passed `ctx`, and nothing is allocated yet.
pub(crate) unsafe fn configure(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the server passed `ctx`; the name of the allocator is read before it is freed.
    let is_jemalloc = unsafe {
        let info = api!(RedisModule_GetServerInfo)(ctx, c"memory".as_ptr());
        let name = api!(RedisModule_ServerInfoGetFieldC)(info, c"mem_allocator".as_ptr());
        let is_jemalloc =
            !name.is_null() && CStr::from_ptr(name).to_bytes().starts_with(b"jemalloc");
        api!(RedisModule_FreeServerInfo)(ctx, info);
        is_jemalloc
    };
    // A library that was loaded before may have replaced the allocator that the server names.
    let mut small = (LINE..=1 << 14).step_by(LINE);
    ALIGNS_LINES.store(is_jemalloc && small.all(aligns_to_line), Relaxed);
}

/// Returns whether an allocation of `size` bytes starts on a line.
fn aligns_to_line(size: usize) -> bool {
    let start = server_alloc(size, false);
    let is_aligned = start.addr().is_multiple_of(LINE);
    server_free(start);
    is_aligned
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

fn server_free(start: *mut u8) {
    // SAFETY: as in `server_alloc`; the pointer came from there.
    unsafe { api!(RedisModule_Free)(start.cast()) };
}

/// Returns the bytes that the server holds for what `server_alloc` returned.
fn server_size(start: *mut u8) -> usize {
    // SAFETY: as in `server_free`.
    unsafe { api!(RedisModule_MallocSize)(start.cast()) }
}

/// Returns whether the server aligns a layout.
fn is_aligned_by_server(layout: Layout) -> bool {
    let align = layout.align();
    align <= SERVER_ALIGN || align <= LINE && ALIGNS_LINES.load(Relaxed)
}

/// Returns the pointer that the server returned for an allocation.
///
/// # Safety
/// The module has allocated `pointer` with `layout`, and not freed it.
unsafe fn server_pointer(pointer: *mut u8, layout: Layout) -> *mut u8 {
    if is_aligned_by_server(layout) {
        return pointer;
    }
    // SAFETY: `allocate` wrote the server's pointer there.
    unsafe { pointer.cast::<*mut u8>().sub(1).read() }
}

fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    let align = layout.align();
    let is_direct = is_aligned_by_server(layout);
    let size = match align {
        ..=SERVER_ALIGN => layout.size(),
        _ if is_direct => layout.size().next_multiple_of(LINE),
        _ => layout.size() + align,
    };
    let start = server_alloc(size, zeroed);
    if start.is_null() {
        return start;
    }
    if is_direct && !start.addr().is_multiple_of(align) {
        server_free(start);
        return ptr::null_mut();
    }
    USED.fetch_add(server_size(start), Relaxed);
    if is_direct {
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
        // SAFETY: the caller has allocated the pointer with the layout, and does not use it again.
        let start = unsafe { server_pointer(pointer, layout) };
        USED.fetch_sub(server_size(start), Relaxed);
        server_free(start);
    }
}
