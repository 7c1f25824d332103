//! A filter as the bytes of a `.tamis` file, borrowed: what is written, sent or cloned.

use alloc::borrow::Cow;
use alloc::vec::Vec;
#[cfg(feature = "std")]
use std::{io::Write, path::Path};

use tamis_format::{Header, KeyForms, Name, Reader, Writer};

use crate::error::Error;
use crate::hash::{HashId, KeyHasher};
use crate::kind::Kind;
use crate::traits::Persist;

/// The section of the second half of a seed of 256 bits, after those of the filter.
pub(crate) const SECOND_SEED: Name = Name::new("seed");

/// A borrowed filter as a `.tamis` file: its header and sections, where they lie.
///
/// [`Keyed`](crate::Keyed) has these operations too; this type saves a filter that something else owns.
///
/// ```
/// use tamis::{Bloom, Container, Keyed};
///
/// let mut seen = Keyed::<Bloom>::with_capacity(1000, 0.01)?;
/// seen.insert("apple")?;
/// let bytes = Container::new(seen.hasher(), seen.key_forms(), seen.filter()).to_bytes()?;
/// assert_eq!(bytes, seen.to_bytes()?);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Debug)]
pub struct Container<'a> {
    header: Header,
    writer: Writer<'a>,
}

impl<'a> Container<'a> {
    /// Borrows a filter and states how its keys were hashed.
    pub fn new<F: Persist>(hasher: &KeyHasher, key_forms: KeyForms, filter: &'a F) -> Self {
        let mut writer = Writer::new();
        filter.write(&mut writer);
        if let Some(seed) = hasher.second_seed() {
            writer.pieces(SECOND_SEED, [seed.to_vec().into()]);
        }
        let header = Header {
            kind: filter.sealed_kind().id(),
            hash: hasher.id() as u16,
            keys: filter.len(),
            seed: hasher.seed(),
            key_forms,
        };
        Self { header, writer }
    }

    /// Returns the length of the file in bytes.
    pub fn serialized_len(&self) -> u64 {
        self.writer.serialized_len()
    }

    /// Returns the bytes that the allocator holds for the filter's tables now: 0 for a mapped file.
    pub fn heap_bytes(&self) -> u64 {
        self.writer.heap_bytes()
    }

    /// Returns whether a table lies in a mapped file or a shared buffer.
    pub fn is_shared(&self) -> bool {
        self.writer.is_shared()
    }

    /// Returns the file as bytes.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(self.writer.to_vec(&self.header)?)
    }

    /// Writes the file to `out`, in order, without seeking.
    ///
    /// # Errors
    /// [`Error::File`] if `out` fails.
    #[cfg(feature = "std")]
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), Error> {
        self.writer.write(&self.header, out).map_err(|error| Error::File(error.into()))
    }

    /// Writes the file at `path`, whole or not at all: beside it first, flushed, then renamed.
    ///
    /// # Errors
    /// [`Error::File`] if that fails; an older file is then as it was.
    #[cfg(feature = "std")]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        tamis_format::save(path.as_ref(), |mut out| self.writer.write(&self.header, &mut out))
            .map_err(|error| Error::File(error.into()))
    }

    /// Returns the file in chunks of at most `max_bytes` bytes, borrowed from the tables where they are
    /// large: for a server that must not hold a second copy. [`ChunkReader`](crate::ChunkReader) reads
    /// them.
    pub fn chunks(&self, max_bytes: usize) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.writer.chunks(&self.header, max_bytes)
    }

    /// Returns up to `max_bytes` bytes of the file from `offset` on; none at its end. A caller that
    /// reads the file in several steps must not change the filter between them.
    pub fn read_at(&self, offset: u64, max_bytes: usize) -> Cow<'_, [u8]> {
        self.writer.read_at(&self.header, offset, max_bytes)
    }

    /// Reads the filter back from its own sections, by fallible copies.
    pub(crate) fn try_clone<F: Persist>(&self) -> Result<F, Error> {
        F::read(&mut Reader::from_writer(&self.header, &self.writer)?)
    }
}

/// What the first bytes of a `.tamis` file state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// The kind of the filter.
    pub kind: Kind,
    /// The hash function of its keys.
    pub hash: HashId,
    /// The number of keys in it.
    pub keys: u64,
    /// The forms of its keys.
    pub key_forms: KeyForms,
    /// The length of the file in bytes.
    pub serialized_len: u64,
}

/// Reads what the first bytes of a `.tamis` file state, without the rest.
///
/// ```
/// use tamis::{Keyed, Kind, Ribbon};
/// let words = Keyed::<Ribbon>::build(["apple", "pear"], 0.01)?;
/// let bytes = words.to_bytes()?;
/// let info = tamis::peek(&bytes)?;
/// assert_eq!((info.kind, info.keys), (Kind::Ribbon, 2));
/// assert_eq!(info.serialized_len, bytes.len() as u64);
/// # Ok::<_, tamis::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`] if they begin no such file; a `Truncated` one states how many bytes are needed.
/// [`Error::Unknown`] for a kind or hash of a later version.
pub fn peek(bytes: &[u8]) -> Result<FileInfo, Error> {
    let peek = tamis_format::peek(bytes)?;
    Ok(FileInfo {
        kind: Kind::from_id(peek.header.kind)?,
        hash: HashId::from_id(peek.header.hash)?,
        keys: peek.header.keys,
        key_forms: peek.header.key_forms,
        serialized_len: peek.bytes,
    })
}
