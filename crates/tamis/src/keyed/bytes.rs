//! Saving, opening, and bytes in memory.

use std::io::{Read, Write};
use std::path::Path;

use tamis_format::{Header, Limits, Reader, Writer};

use super::Keyed;
use crate::error::Error;
use crate::hash::{HashId, KeyHasher};
use crate::traits::Persist;

impl<F: Persist> Keyed<F> {
    /// Writes a `.tamis` file: whole, or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let (header, writer) = self.container();
        tamis_format::save(path.as_ref(), |mut out| writer.write(&header, &mut out))
            .map_err(|error| Error::File(error.into()))
    }

    /// Writes the bytes of a `.tamis` file.
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), Error> {
        let (header, writer) = self.container();
        writer.write(&header, out).map_err(|error| Error::File(error.into()))
    }

    /// Maps a `.tamis` file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_reader(Reader::open(path.as_ref(), &Limits::default())?)
    }

    /// As [`Keyed::open`], after checking every byte.
    pub fn open_verified(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::verified(Reader::open(path.as_ref(), &Limits::default())?)
    }

    /// Reads and checks the bytes of a `.tamis` file.
    pub fn read_from(input: impl Read, limits: &Limits) -> Result<Self, Error> {
        Self::verified(Reader::read(input, limits)?)
    }

    fn container(&self) -> (Header, Writer<'_>) {
        let mut writer = Writer::new();
        self.filter.write(&mut writer);
        let header = Header {
            kind: self.filter.sealed_kind().id(),
            hash: self.hasher.id() as u16,
            keys: self.filter.len(),
            seed: self.hasher.seed(),
        };
        (header, writer)
    }

    fn verified(reader: Reader) -> Result<Self, Error> {
        reader.verify()?;
        let keyed = Self::from_reader(reader)?;
        keyed.filter.validate()?;
        Ok(keyed)
    }

    fn from_reader(mut reader: Reader) -> Result<Self, Error> {
        let header = *reader.header();
        let hasher = KeyHasher::new(HashId::from_id(header.hash)?, header.seed);
        if !F::accepts(crate::kind::Kind::from_id(header.kind)?) {
            return Err(Error::Mismatch { what: "kind" });
        }
        let filter = F::read(&mut reader)?;
        reader.finish()?;
        Ok(Self::new(hasher, filter))
    }
}
