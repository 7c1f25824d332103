//! The `.tamis` container: a header, a table of sections, the sections.
//!
//! ```text
//! word 0   magic  89 'T' 'A' 'M' 'I' 'S' 0D 0A
//!      1   version u16 │ kind u16 │ hash u16 │ sections u16
//!      2   keys
//!    3-4   seed
//!      5   forms of the keys: 1 text or bytes │ 2 integers │ 4 tuples; 0 not recorded
//!      6   zero
//!      7   xxh3-64 of words 0-6 and the table
//!      8…  table: for each section its name (8 ASCII bytes), its words, its xxh3-64
//!          zeros up to a multiple of 64 bytes
//!          section 0, zeros up to a multiple of 64 bytes
//!          section 1, …
//! ```
//!
//! All of it is little-endian 64-bit words, so a section is an array that can be used where it
//! lies in a mapped file. Nothing is stored that follows from something else: offsets and the
//! file's length follow from the section lengths. Equal contents give equal bytes: padding is
//! zero and checked. Section 0 is always `shape`, the few words a filter needs to know its
//! geometry; its checksum and the header's are verified on opening, those of the payload by
//! [`Reader::verify`], so that opening a large file stays instant.
//!
//! The reader trusts no length: each is checked in widened arithmetic against the input and the
//! [`Limits`] before memory is asked for, and it stays so when the checksums have been recomputed
//! by somebody who means harm. `FORMAT.md` is the specification.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod chunks;
mod error;
mod header;
mod layout;
mod reader;
#[cfg(feature = "std")]
mod save;
#[cfg(test)]
mod tests;
mod writer;

pub use chunks::ChunkReader;
pub use error::Error;
pub use header::{Header, KeyForms, MAGIC, Name, PEEK_BYTES, VERSION};
pub use layout::{Limits, Peek, peek};
pub use reader::{Fields, Reader};
#[cfg(feature = "std")]
pub use save::save;
pub use writer::{Piece, Writer};
