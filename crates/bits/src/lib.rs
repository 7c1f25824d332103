//! Words and bits: the ground that the filters of `tamis` stand on.
//!
//! This is the only crate of the core with `unsafe` in it, and it knows nothing of filters. Each
//! file is one idea:
//!
//! | file | idea |
//! | --- | --- |
//! | `words/` | an array of `u64`, on cache lines, in memory of its own or in a shared buffer |
//! | `atomic.rs` | the same words while many threads set bits in them |
//! | `packed.rs` | integers of 1 to 64 bits, side by side in words |
//! | `lanes.rs` | four of them at once |
//! | `range.rs` | a hash to a place: multiply, keep the high half |
//! | `select.rs` | counting and finding the set bits of a word |
//! | `set.rs` | words as sets of bits: union, intersection, counting |
//! | `gf2/` | linear systems over GF(2) |
//! | `cpu.rs` | the instruction sets of the machine |
//! | `unaligned.rs` | bytes of an array of words, from any byte on |
//! | `peel.rs` | a cell for each record: the graphs and the peeling behind the static kinds |
//! | `prefetch.rs` | ask for a cache line before it is needed |
//! | `simd/` | 256-bit split blocks, in AVX-512, AVX2 and portable twins |

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod atomic;
#[cfg(target_arch = "x86_64")]
mod cpu;
pub mod gf2;
pub mod lanes;
pub mod packed;
pub mod peel;
mod prefetch;
pub mod range;
pub mod select;
pub mod set;
pub mod simd;
pub mod unaligned;
mod words;

pub use atomic::AtomicWords;
pub use prefetch::prefetch;
pub use words::{
    BytesOwner, LINE_BYTES, LINE_WORDS, OutOfMemory, SharedBytes, TableMemory, Words, WordsBuilder,
    as_le_bytes, each_le_chunk, lines, set_table_memory, table_memory,
};
