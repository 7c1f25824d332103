//! Saving, opening, and bytes in memory. All of them use the same bytes.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
#[cfg(feature = "std")]
use std::io::{Read, Write};
#[cfg(feature = "std")]
use std::path::Path;

use tamis_bits::{BytesOwner, SharedBytes};
use tamis_format::{Limits, Reader};

use super::Keyed;
use crate::container::{Container, SECOND_SEED};
use crate::error::Error;
use crate::hash::{HashId, KeyHasher};
use crate::kind::Kind;
use crate::traits::Persist;

impl<F: Persist> Keyed<F> {
    fn container(&self) -> Container<'_> {
        Container::new(&self.hasher, self.forms, &self.filter)
    }

    /// Writes a `.tamis` file atomically: see [`Container::save`].
    ///
    /// # Errors
    /// [`Error::File`] if that fails; an older file is then unchanged.
    #[cfg(feature = "std")]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.container().save(path)
    }

    /// Writes the bytes of a `.tamis` file to `out`.
    ///
    /// # Errors
    /// [`Error::File`] if `out` fails.
    #[cfg(feature = "std")]
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), Error> {
        self.container().write_to(out)
    }

    /// Returns the bytes of a `.tamis` file.
    ///
    /// ```
    /// use tamis::{AnyFilter, Cuckoo, Keyed};
    /// let mut seen = Keyed::<Cuckoo>::with_capacity(1000, 0.01)?;
    /// seen.insert("apple")?;
    /// let again = Keyed::<AnyFilter>::from_bytes(&seen.to_bytes()?)?;
    /// assert!(again.contains("apple"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        self.container().to_bytes()
    }

    /// Calls `each` with the bytes of a `.tamis` file in chunks of at most `max_bytes`: see
    /// [`Container::chunks`].
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn write_chunks<E>(
        &self,
        max_bytes: usize,
        each: impl FnMut(Cow<'_, [u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.container().chunks(max_bytes).try_for_each(each)
    }

    /// Returns up to `max_bytes` bytes of a `.tamis` file from `offset` on; none at its end: see
    /// [`Container::read_at`].
    ///
    /// ```
    /// use tamis::{Bloom, Keyed};
    /// let seen = Keyed::<Bloom>::build(["apple", "pear"], 0.01)?;
    /// let bytes = seen.to_bytes()?;
    /// assert_eq!(seen.read_at(100, 50), bytes[100..150]);
    /// assert!(seen.read_at(seen.serialized_len(), 50).is_empty());
    /// # Ok::<_, tamis::Error>(())
    /// ```
    pub fn read_at(&self, offset: u64, max_bytes: usize) -> Vec<u8> {
        self.container().read_at(offset, max_bytes).into_owned()
    }

    /// Returns the length of the filter's `.tamis` file in bytes, without writing it.
    pub fn serialized_len(&self) -> u64 {
        self.container().serialized_len()
    }

    /// Returns the bytes that the allocator holds for the filter's tables now, which is 0 if the
    /// filter is mapped.
    pub fn heap_bytes(&self) -> u64 {
        self.filter.heap_bytes()
    }

    /// Calls `each` with the address and the layout of every allocation of the filter's tables. A
    /// program whose global allocator rounds sizes up can add what each allocation takes.
    pub fn each_allocation(&self, mut each: impl FnMut(NonNull<u8>, Layout)) {
        self.filter.each_allocation(&mut each);
    }

    /// Returns the present size of the filter's tables in bytes.
    pub fn bytes(&self) -> u64 {
        self.filter.bytes()
    }

    /// Maps a `.tamis` file and queries it without a copy. It does not check the checksums of the
    /// tables, so its time does not depend on the size: see [`Keyed::open_verified`].
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the file.
    #[cfg(feature = "std")]
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_reader(Reader::open(path.as_ref(), &Limits::default())?)
    }

    /// Maps a `.tamis` file as [`Keyed::open`] does, after checking every byte.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the file.
    #[cfg(feature = "std")]
    pub fn open_verified(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::verified(Reader::open(path.as_ref(), &Limits::default())?)
    }

    /// Reads a `.tamis` file of at most `limits` from `input`, and checks every byte.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the bytes.
    #[cfg(feature = "std")]
    pub fn read_from(input: impl Read, limits: &Limits) -> Result<Self, Error> {
        Self::verified(Reader::read(input, limits)?)
    }

    /// Copies a filter from the bytes of a `.tamis` file, and checks every byte.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::verified(Reader::from_bytes(bytes, &Limits { bytes: bytes.len() as u64 })?)
    }

    /// Queries the bytes of a `.tamis` file in a shared buffer, such as one of another language,
    /// without a copy if the buffer is aligned to 8 bytes. It does not check the checksums of the
    /// tables.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the bytes.
    pub fn from_shared(owner: Arc<BytesOwner>) -> Result<Self, Error> {
        let bytes = SharedBytes::new(owner);
        Self::from_reader(Reader::from_shared(&bytes, &Limits { bytes: bytes.len() as u64 })?)
    }

    /// Takes the filter of a reader, such as that of a [`ChunkReader`](crate::ChunkReader), and checks
    /// every byte.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the bytes.
    pub fn verified(reader: Reader) -> Result<Self, Error> {
        reader.verify()?;
        let keyed = Self::from_reader(reader)?;
        keyed.filter.validate()?;
        Ok(keyed)
    }

    fn from_reader(mut reader: Reader) -> Result<Self, Error> {
        let header = *reader.header();
        let mut hasher = KeyHasher::new(HashId::from_id(header.hash)?, header.seed);
        if hasher.seed() != header.seed {
            return Err(tamis_format::Error::corrupt("the hash function has no such seed").into());
        }
        let kind = Kind::from_id(header.kind)?;
        if !F::accepts(kind) {
            return Err(Error::Mismatch { what: "kind" });
        }
        // Single keys can be looked up in a filter of ranges, whatever its hash.
        if hasher.id() == HashId::Ordered {
            kind.check_hash(HashId::Ordered)?;
        }
        let filter = F::read(&mut reader)?;
        if hasher.second_seed().is_some() {
            let seed = reader.words(SECOND_SEED, 2)?;
            hasher = hasher.with_second_seed([seed[0], seed[1]]);
        }
        reader.finish()?;
        Ok(Self { hasher, forms: header.key_forms, filter })
    }

    /// Clones the filter. Unlike [`Clone`], it returns an error if memory runs out. A mapped filter stays
    /// mapped.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let filter = self.container().try_clone()?;
        Ok(Self { hasher: self.hasher, forms: self.forms, filter })
    }

    /// Copies a mapped filter into its own memory. Otherwise the first change to the filter does
    /// so, and panics if memory runs out. Call it before you change a filter that is mapped or
    /// shared.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails; the filter is then unchanged.
    pub fn make_owned(&mut self) -> Result<(), Error> {
        if self.container().is_shared() {
            let bytes = self.to_bytes()?;
            *self = Self::from_reader(Reader::from_bytes(&bytes, &Limits::default())?)?;
        }
        Ok(())
    }
}
