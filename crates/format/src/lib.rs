//! The `.tamis` container: a header, a table of sections, and the sections.
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
//! Everything is a little-endian 64-bit word, so that a section is an array that can be used where it
//! lies in a mapped file. Nothing is stored that follows from something else: the offsets and the
//! length of the file follow from the lengths of the sections. Equal contents give equal bytes,
//! because padding is zero and checked. Section 0 is always `shape`, the few words that describe the
//! filter. Its checksum and that of the header are verified on opening. [`Reader::verify`] checks the
//! others, so that opening a large file takes no time.
//!
//! The reader trusts no length. It checks each one with overflow-checked arithmetic against the input
//! and the [`Limits`] before it allocates memory, even if the checksums are correct, because an
//! attacker can compute them. `FORMAT.md` is the specification.
//!
//! # Examples
//! ```
//! use tamis_bits::Words;
//! use tamis_format::{Header, KeyForms, Limits, Name, Reader, Writer};
//!
//! const BITS: Name = Name::new("bits");
//! let words = Words::copy_of(&[1, 2, 3])?;
//! let mut writer = Writer::new();
//! writer.shape(&[192]);
//! writer.words(BITS, &words);
//! let header = Header { kind: 3, hash: 1, keys: 6, seed: [0, 0], key_forms: KeyForms::BYTES };
//! let bytes = writer.to_vec(&header)?;
//!
//! let mut reader = Reader::from_bytes(&bytes, &Limits::default())?;
//! reader.verify()?;
//! let bits = reader.shape()?.next(1..=1000, "number of bits")?;
//! assert_eq!(reader.words(BITS, bits / 64)?, words);
//! reader.finish()?;
//! # Ok::<(), tamis_format::Error>(())
//! ```
//!
//! # Deltas
//! [`diff`] describes how one file becomes another, and [`apply`] makes it so: a filter that changed a
//! little is sent as a few bytes.
//!
//! # Features
//! `std` (default) enables files, memory maps and streams. Without it the crate is `no_std` with
//! `alloc`: [`Reader::from_bytes`], [`Reader::from_shared`], [`ChunkReader`], [`Writer::to_vec`] and
//! [`Writer::chunks`] remain.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod chunks;
mod delta;
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
pub use delta::{apply, diff};
pub use error::Error;
pub use header::{Header, KeyForms, MAGIC, Name, PEEK_BYTES, VERSION};
pub use layout::{Limits, Peek, peek};
pub use reader::{Fields, Reader};
#[cfg(feature = "std")]
pub use save::save;
pub use writer::{Piece, Writer};
