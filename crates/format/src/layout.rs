//! Where everything lies in a file. It follows from the lengths of the sections.

use alloc::vec;
use alloc::vec::Vec;

use crate::error::Error;
use crate::header::{ENTRY_WORDS, HEADER_WORDS, Header, Name, padded, preamble};

/// The limits that a reader enforces before it allocates memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The length of the file in bytes.
    pub bytes: u64,
}

impl Default for Limits {
    /// Allows 1 TiB: more than any memory, and small enough that no sum overflows.
    fn default() -> Self {
        Self { bytes: 1 << 40 }
    }
}

/// What the first bytes of a file tell, as [`peek`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peek {
    /// The header.
    pub header: Header,
    /// The length of the whole file in bytes.
    pub bytes: u64,
}

/// Reads the header and the length of a file from its first bytes, of which
/// [`PEEK_BYTES`](crate::PEEK_BYTES) are always enough. More bytes are ignored.
///
/// # Errors
/// Returns [`Error::Truncated`] with the number of bytes needed if `bytes` is too short, and the
/// errors of a reader if the bytes do not begin a `.tamis` file.
///
/// # Examples
/// ```
/// use tamis_format::{Error, Header, KeyForms, Writer, peek};
///
/// let mut writer = Writer::new();
/// writer.shape(&[5]);
/// let header = Header { kind: 3, hash: 1, keys: 77, seed: [1, 2], key_forms: KeyForms::BYTES };
/// let bytes = writer.to_vec(&header)?;
/// let found = peek(&bytes[..88])?;
/// assert_eq!(found.header, header);
/// assert_eq!(found.bytes, bytes.len() as u64);
/// assert!(matches!(peek(&bytes[..70]), Err(Error::Truncated { expected: 88, found: 70 })));
/// # Ok::<(), tamis_format::Error>(())
/// ```
pub fn peek(bytes: &[u8]) -> Result<Peek, Error> {
    let (header, table) = preamble(bytes)?;
    let layout = Layout::of(&table, &Limits { bytes: u64::MAX })?;
    Ok(Peek { header, bytes: layout.end })
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) words: u64,
    pub(crate) checksum: u64,
    /// The byte at which the section begins.
    pub(crate) at: u64,
}

#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) entries: Vec<Entry>,
    /// The padding before the first section and after each one, as ranges of bytes. Some are
    /// empty.
    pub(crate) gaps: Vec<(u64, u64)>,
    pub(crate) end: u64,
}

impl Layout {
    pub(crate) fn of(table: &[u64], limits: &Limits) -> Result<Self, Error> {
        let too_long = |asked| Error::Limit { what: "bytes", asked, most: limits.bytes };
        let table_words = (HEADER_WORDS.saturating_add(table.len())) as u64;
        let mut words = padded(table_words).ok_or(too_long(u64::MAX))?;
        let mut gaps = vec![(table_words.saturating_mul(8), words.saturating_mul(8))];
        let (chunks, _) = table.as_chunks::<ENTRY_WORDS>();
        let mut entries = Vec::with_capacity(chunks.len());
        for [name, len, checksum] in chunks {
            let at = words.checked_mul(8).ok_or(too_long(u64::MAX))?;
            let end = words.checked_add(*len).ok_or(too_long(u64::MAX))?;
            words = padded(end).ok_or(too_long(u64::MAX))?;
            let bytes = words.checked_mul(8).ok_or(too_long(u64::MAX))?;
            if bytes > limits.bytes {
                return Err(too_long(bytes));
            }
            gaps.push((end.saturating_mul(8), bytes));
            entries.push(Entry {
                name: Name(name.to_le_bytes()),
                words: *len,
                checksum: *checksum,
                at,
            });
        }
        Ok(Self { entries, gaps, end: words.saturating_mul(8) })
    }

    /// Checks that a file has `found` bytes, as the lengths of its sections say.
    pub(crate) fn check_len(&self, found: u64) -> Result<(), Error> {
        if found < self.end {
            return Err(Error::Truncated { expected: self.end, found });
        }
        if found > self.end {
            return Err(self.too_long());
        }
        Ok(())
    }

    pub(crate) fn too_long(&self) -> Error {
        Error::corrupt_at(self.end, "bytes after the last section")
    }
}

/// Checks that padding from byte `at` on is zero.
pub(crate) fn check_padding(bytes: &[u8], at: u64) -> Result<(), Error> {
    match bytes.iter().zip(at..).find(|(byte, _)| **byte != 0) {
        Some((_, at)) => Err(Error::corrupt_at(at & !7, "padding is not zero")),
        None => Ok(()),
    }
}
