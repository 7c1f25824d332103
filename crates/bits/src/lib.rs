//! Arrays of words, bit manipulation and SIMD kernels for the filters of `tamis`.
//!
//! This is the only crate of the core with `unsafe` code. It knows nothing about filters.
//!
//! | module | content |
//! | --- | --- |
//! | [`Words`] | an array of `u64` in memory of its own, on cache lines, or in a shared buffer |
//! | [`AtomicWords`] | an array of words that several threads write to |
//! | [`LazyLock`] | the standard library's type, or a simple replacement without `std` |
//! | [`packed`] | integers of 1 to 64 bits, packed into words |
//! | [`lanes`] | windows of up to 64 bits at any bit, and four lanes in one word |
//! | [`range`] | reduction of a hash to a range, and a mixing function |
//! | [`select`] | rank and select within a word |
//! | [`set`] | words as sets of bits: union, intersection, counting |
//! | [`shift`] | moves of all bits of a range of words |
//! | [`gf2`] | linear systems over GF(2) |
//! | [`unaligned`] | unaligned reads from words |
//! | [`peel`] | random hypergraphs and their peeling, for static filters |
//! | [`prefetch()`] | prefetching of cache lines |
//! | [`simd`] | split blocks of 256 bits with AVX-512, AVX2 and plain Rust |
//!
//! # Examples
//! ```
//! use tamis_bits::{Words, packed};
//!
//! // 1000 integers of 5 bits.
//! let len = packed::words(1000, 5).expect("1000 integers fit");
//! let mut words = Words::zeroed(len as usize)?;
//! packed::set(words.to_mut(), 5, 999, 21);
//! assert_eq!(packed::get(&words, 5, 999), 21);
//! assert_eq!(words.heap_bytes(), 640);
//! # Ok::<(), tamis_bits::OutOfMemory>(())
//! ```
//!
//! # Features
//! `std` (default) enables files, memory maps, huge pages, readers and the detection of SIMD
//! instructions. Without it the crate is `no_std` with `alloc` and uses plain Rust.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod atomic;
#[cfg(target_arch = "x86_64")]
mod cpu;
pub mod gf2;
pub mod lanes;
#[cfg(any(test, not(feature = "std")))]
#[cfg_attr(feature = "std", expect(unreachable_pub, reason = "only tested"))]
mod lazy;
pub mod packed;
pub mod peel;
mod prefetch;
pub mod range;
pub mod select;
pub mod set;
pub mod shift;
pub mod simd;
pub mod unaligned;
mod words;

pub use atomic::AtomicWords;
#[cfg(not(feature = "std"))]
pub use lazy::LazyLock;
pub use prefetch::prefetch;
#[cfg(feature = "std")]
pub use std::sync::LazyLock;
pub use words::{
    BytesOwner, LINE_BYTES, LINE_WORDS, OutOfMemory, SharedBytes, TableMemory, Words, WordsBuilder,
    as_le_bytes, each_le_chunk, lines, set_table_memory, table_memory,
};
