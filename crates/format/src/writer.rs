//! Writing a container.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::header::{ALIGN_BYTES, Header, MAX_SECTIONS, Name, checksum, padded};

/// Collects a filter's sections, borrowed where they lie, and writes them out.
#[derive(Debug, Default)]
pub struct Writer<'a> {
    sections: Vec<(Name, Cow<'a, [u64]>)>,
}

impl<'a> Writer<'a> {
    /// A container without sections.
    pub fn new() -> Self {
        Self::default()
    }

    /// The filter's geometry, before its other sections. A filter that is part of another comes
    /// after all that is the other's own, with a shape of its own.
    pub fn shape(&mut self, fields: &[u64]) {
        self.sections.push((Name::SHAPE, Cow::Owned(fields.to_vec())));
    }

    /// An array.
    pub fn words(&mut self, name: Name, words: &'a [u64]) {
        debug_assert!(self.sections.len() < usize::from(MAX_SECTIONS));
        self.sections.push((name, Cow::Borrowed(words)));
    }

    /// Writes everything, in order, without seeking.
    pub fn write(&self, header: &Header, out: &mut impl Write) -> io::Result<()> {
        let count = u16::try_from(self.sections.len()).map_err(io::Error::other)?;
        let first = header.words(count);
        let table: Vec<u64> = self
            .sections
            .iter()
            .flat_map(|(name, words)| {
                [u64::from_le_bytes(name.0), words.len() as u64, checksum(&[words])]
            })
            .collect();
        put(out, &first)?;
        put(out, &[checksum(&[&first, &table])])?;
        put(out, &table)?;
        pad(out, table.len() as u64)?;
        for (_, words) in &self.sections {
            put(out, words)?;
            pad(out, words.len() as u64)?;
        }
        Ok(())
    }
}

fn put(out: &mut impl Write, words: &[u64]) -> io::Result<()> {
    bits::each_le_chunk(words, |bytes| out.write_all(bytes))
}

fn pad(out: &mut impl Write, written: u64) -> io::Result<()> {
    let zeros = [0; ALIGN_BYTES];
    let missing = padded(written).unwrap_or(written).saturating_sub(written).saturating_mul(8);
    out.write_all(zeros.get(..usize::try_from(missing).unwrap_or(0)).unwrap_or(&[]))
}
