//! Reading a container whose bytes may be hostile.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::{OutOfMemory, SharedBytes, Words};

#[cfg(feature = "std")]
use crate::chunks::ChunkReader;
use crate::error::Error;
use crate::header::{Header, Name, checksum, preamble};
use crate::layout::{Entry, Layout, Limits, check_padding};
use crate::writer::Writer;

#[derive(Debug)]
pub(crate) struct Section {
    name: Name,
    at: u64,
    /// `None` if the section was copied within memory and needs no check.
    checksum: Option<u64>,
    words: Words,
}

impl Section {
    pub(crate) fn new(entry: Entry, words: Words) -> Self {
        Self { name: entry.name, at: entry.at, checksum: Some(entry.checksum), words }
    }

    fn check(&self) -> Result<(), Error> {
        match self.checksum {
            Some(sum) if checksum([&self.words[..]]) != sum => {
                Err(Error::corrupt_at(self.at, "the checksum of a section does not match"))
            }
            _ => Ok(()),
        }
    }
}

/// An opened container, whose sections are taken in order.
///
/// Every constructor checks the header, the lengths, the padding and the checksum of the first
/// shape. [`Reader::verify`] checks the other sections.
#[derive(Debug)]
pub struct Reader {
    header: Header,
    sections: vec::IntoIter<Section>,
    /// Where the section taken last begins.
    at: u64,
    end: u64,
}

impl Reader {
    /// Maps a file. The sections are used where they lie. What cannot be mapped, such as a pipe,
    /// is read.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be opened or mapped, and the errors of
    /// [`Reader::from_shared`].
    #[cfg(feature = "std")]
    pub fn open(path: &std::path::Path, limits: &Limits) -> Result<Self, Error> {
        let file = std::fs::File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(Error::Io(std::io::ErrorKind::IsADirectory.into()));
        }
        if metadata.len() == 0 {
            return Self::read(&file, limits); // a pipe, or an empty file, which cannot be mapped
        }
        Self::from_shared(&SharedBytes::map(&file)?, limits)
    }

    /// Reads `input` to its end, into memory of the reader's own.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if reading fails, and the errors of [`ChunkReader`].
    #[cfg(feature = "std")]
    pub fn read(mut input: impl std::io::Read, limits: &Limits) -> Result<Self, Error> {
        let mut reader = ChunkReader::new(limits);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match input.read(&mut buffer) {
                Ok(0) => return reader.finish(),
                Ok(len) => reader.push(buffer.get(..len).unwrap_or(&buffer))?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Io(error)),
            }
        }
    }

    /// Reads a container from `bytes`, which are copied.
    ///
    /// # Errors
    /// Returns why `bytes` is not a container, [`Error::Limit`] if it exceeds `limits`, and
    /// [`Error::OutOfMemory`] if an allocation fails.
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        Self::from_buffer(bytes, limits, |at, len| {
            let end = len.checked_mul(8)?.checked_add(at)?;
            Some(Words::from_le_bytes(bytes.get(at..end)?))
        })
    }

    /// Reads a container from a shared buffer. The sections are used where they lie if the buffer
    /// begins at a multiple of 8 and the machine is little-endian; else they are copied.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::from_bytes`].
    pub fn from_shared(bytes: &SharedBytes, limits: &Limits) -> Result<Self, Error> {
        Self::from_buffer(bytes, limits, |at, len| Words::shared(bytes, at, len))
    }

    /// Makes a reader of the sections that `writer` collected, as if they had been written and
    /// read back, but without checksums. Arrays in shared buffers stay there, others are copied.
    /// This clones a filter without a panic when memory runs out.
    ///
    /// # Errors
    /// Returns [`Error::OutOfMemory`] if an allocation fails, and [`Error::Corrupt`] if the first
    /// section is not a shape.
    pub fn from_writer(header: &Header, writer: &Writer<'_>) -> Result<Self, Error> {
        let mut sections = Vec::new();
        let mut at = writer.preamble_len();
        for section in writer.sections() {
            let words = section.to_words()?;
            sections.push(Section { name: section.name(), at, checksum: None, words });
            at = at.saturating_add(section.padded_bytes());
        }
        Self::begin(*header, sections, at)
    }

    fn from_buffer(
        bytes: &[u8],
        limits: &Limits,
        words: impl Fn(usize, usize) -> Option<Result<Words, OutOfMemory>>,
    ) -> Result<Self, Error> {
        let (header, table) = preamble(bytes)?;
        let layout = Layout::of(&table, limits)?;
        let found = bytes.len() as u64;
        layout.check_len(found)?;
        // The length was checked, so neither a conversion nor a range fails from here on.
        let truncated = || Error::Truncated { expected: layout.end, found };
        let place = |at: u64| usize::try_from(at).map_err(|_| truncated());
        for (from, to) in &layout.gaps {
            let padding = bytes.get(place(*from)?..place(*to)?).ok_or_else(truncated)?;
            check_padding(padding, *from)?;
        }
        let mut sections = Vec::with_capacity(layout.entries.len());
        for entry in &layout.entries {
            let words = words(place(entry.at)?, place(entry.words)?).ok_or_else(truncated)??;
            sections.push(Section::new(*entry, words));
        }
        Self::begin(header, sections, layout.end)
    }

    pub(crate) fn begin(header: Header, sections: Vec<Section>, end: u64) -> Result<Self, Error> {
        match sections.first() {
            Some(shape) if shape.name == Name::SHAPE => shape.check()?,
            _ => return Err(Error::corrupt_at(64, "the first section is not `shape`")),
        }
        Ok(Self { header, sections: sections.into_iter(), at: 64, end })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the length of the whole file in bytes.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Checks every section that has not been taken yet against its checksum.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] for the first section that does not match.
    pub fn verify(&self) -> Result<(), Error> {
        self.sections.as_slice().iter().try_for_each(Section::check)
    }

    /// Takes the next section, which must be a shape.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if it is missing or has another name.
    pub fn shape(&mut self) -> Result<Fields, Error> {
        let words = self.take(Name::SHAPE)?;
        Ok(Fields { words, taken: 0, at: self.at })
    }

    /// Takes the next section, which must have this name and length.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if it is missing, or has another name or length.
    pub fn words(&mut self, name: Name, len: u64) -> Result<Words, Error> {
        let words = self.take(name)?;
        if words.len() as u64 != len {
            return Err(self.corrupt("the length of a section does not match the shape"));
        }
        Ok(words)
    }

    /// Checks that all sections were taken.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if a section is left.
    pub fn finish(&self) -> Result<(), Error> {
        match self.sections.as_slice().first() {
            None => Ok(()),
            Some(left) => Err(Error::corrupt_at(left.at, "a section too many")),
        }
    }

    /// Returns an error about the section taken last.
    pub fn corrupt(&self, what: &'static str) -> Error {
        Error::corrupt_at(self.at, what)
    }

    fn take(&mut self, name: Name) -> Result<Words, Error> {
        let missing = Error::corrupt_at(self.end, "a section is missing");
        let section = self.sections.next().ok_or(missing)?;
        self.at = section.at;
        if section.name != name {
            return Err(self.corrupt("a section has an unexpected name"));
        }
        Ok(section.words)
    }
}

/// The fields of a shape, taken in order.
#[derive(Debug)]
pub struct Fields {
    words: Words,
    taken: usize,
    /// Where the next field begins.
    at: u64,
}

impl Fields {
    /// Takes the next field, which must lie in `range`.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] with `what` if the field is missing or out of range.
    pub fn next(
        &mut self,
        range: core::ops::RangeInclusive<u64>,
        what: &'static str,
    ) -> Result<u64, Error> {
        let (at, field) = (self.at, self.words.get(self.taken));
        self.at = at.saturating_add(8);
        self.taken = self.taken.saturating_add(1);
        field.copied().filter(|word| range.contains(word)).ok_or(Error::corrupt_at(at, what))
    }

    /// Returns the number of fields that were not taken.
    pub fn remaining(&self) -> usize {
        self.words.len().saturating_sub(self.taken)
    }

    /// Checks that all fields were taken.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if a field is left.
    pub fn finish(self) -> Result<(), Error> {
        if self.taken < self.words.len() {
            return Err(Error::corrupt_at(self.at, "the shape has a field too many"));
        }
        Ok(())
    }
}
