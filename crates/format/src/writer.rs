//! Writing a container.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::header::{ALIGN_BYTES, Header, MAX_SECTIONS, Name, checksum, padded};

/// What follows one another in a section.
type Pieces<'a> = Vec<Cow<'a, [u64]>>;

/// Collects a filter's sections, borrowed where they lie, and writes them out.
#[derive(Debug, Default)]
pub struct Writer<'a> {
    sections: Vec<(Name, Pieces<'a>)>,
}

impl<'a> Writer<'a> {
    /// A container without sections.
    pub fn new() -> Self {
        Self::default()
    }

    /// The filter's geometry, before its other sections. A filter that is part of another comes
    /// after all that is the other's own, with a shape of its own.
    pub fn shape(&mut self, fields: &[u64]) {
        self.sections.push((Name::SHAPE, vec![Cow::Owned(fields.to_vec())]));
    }

    /// An array.
    pub fn words(&mut self, name: Name, words: &'a [u64]) {
        self.pieces(name, [Cow::Borrowed(words)]);
    }

    /// An array that lies in several places.
    pub fn pieces(&mut self, name: Name, pieces: impl IntoIterator<Item = Cow<'a, [u64]>>) {
        debug_assert!(self.sections.len() < usize::from(MAX_SECTIONS));
        self.sections.push((name, pieces.into_iter().collect()));
    }

    /// Writes everything, in order, without seeking.
    pub fn write(&self, header: &Header, out: &mut impl Write) -> io::Result<()> {
        let count = u16::try_from(self.sections.len()).map_err(io::Error::other)?;
        let first = header.words(count);
        let table: Vec<u64> = self
            .sections
            .iter()
            .flat_map(|(name, pieces)| {
                let words = pieces.iter().map(|piece| &**piece);
                [u64::from_le_bytes(name.0), len(pieces), checksum(words)]
            })
            .collect();
        put(out, &first)?;
        put(out, &[checksum([&first[..], &table])])?;
        put(out, &table)?;
        pad(out, table.len() as u64)?;
        for (_, pieces) in &self.sections {
            pieces.iter().try_for_each(|words| put(out, words))?;
            pad(out, len(pieces))?;
        }
        Ok(())
    }
}

fn len(pieces: &Pieces<'_>) -> u64 {
    pieces.iter().map(|words| words.len() as u64).sum()
}

fn put(out: &mut impl Write, words: &[u64]) -> io::Result<()> {
    tamis_bits::each_le_chunk(words, |bytes| out.write_all(bytes))
}

fn pad(out: &mut impl Write, written: u64) -> io::Result<()> {
    let zeros = [0; ALIGN_BYTES];
    let missing = padded(written).unwrap_or(written).saturating_sub(written).saturating_mul(8);
    out.write_all(zeros.get(..usize::try_from(missing).unwrap_or(0)).unwrap_or(&[]))
}
