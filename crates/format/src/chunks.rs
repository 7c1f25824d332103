//! Reading a container whose bytes arrive in chunks.

use alloc::vec::Vec;
use core::mem;

use tamis_bits::WordsBuilder;

use crate::error::Error;
use crate::header::{Header, preamble};
use crate::layout::{Layout, Limits, check_padding};
use crate::reader::{Reader, Section};

/// Reads a container from chunks of any size, cut anywhere, such as those of
/// [`Writer::chunks`](crate::Writer::chunks).
///
/// The sections are filled as bytes arrive. The reader holds no second copy, and allocates no more
/// than `limits` allow and, but for 1 MiB, twice what has arrived.
///
/// # Examples
/// ```
/// use tamis_format::{ChunkReader, Header, KeyForms, Limits, Writer};
///
/// let mut writer = Writer::new();
/// writer.shape(&[5]);
/// let header = Header { kind: 3, hash: 1, keys: 77, seed: [1, 2], key_forms: KeyForms::NONE };
/// let mut reader = ChunkReader::new(&Limits::default());
/// for chunk in writer.chunks(&header, 100) {
///     reader.push(&chunk)?;
/// }
/// assert_eq!(reader.finish()?.header(), &header);
/// # Ok::<(), tamis_format::Error>(())
/// ```
#[derive(Debug)]
pub struct ChunkReader {
    limits: Limits,
    /// Whether sections are allocated whole before their bytes arrive.
    preallocates: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The header and the table are not complete yet. These are their first bytes.
    Preamble(Vec<u8>),
    Body(Body),
    /// A chunk was rejected.
    Failed,
}

#[derive(Debug)]
struct Body {
    header: Header,
    layout: Layout,
    /// The number of bytes that arrived.
    found: u64,
    sections: Vec<Section>,
    /// The section after those, once its first byte is due.
    next: Option<WordsBuilder>,
}

impl ChunkReader {
    /// Starts to read a container.
    pub fn new(limits: &Limits) -> Self {
        Self { limits: *limits, preallocates: false, state: State::Preamble(Vec::new()) }
    }

    /// Starts to read a container from a trusted source. Each section is allocated whole before its
    /// bytes arrive, so that no section is copied while it grows.
    pub fn preallocating(limits: &Limits) -> Self {
        Self { preallocates: true, ..Self::new(limits) }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// Returns why the bytes so far do not begin a container, [`Error::Limit`] if it exceeds the
    /// limits, and [`Error::OutOfMemory`] if an allocation fails. After an error the reader
    /// rejects all chunks.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), Error> {
        while !chunk.is_empty() {
            // An error leaves `Failed` behind.
            self.state = match mem::replace(&mut self.state, State::Failed) {
                State::Preamble(mut bytes) => match Body::new(&bytes, &self.limits) {
                    Ok(body) => State::Body(body),
                    Err(error) => {
                        let needed = match error {
                            Error::Truncated { expected, .. } => expected,
                            Error::Foreign if bytes.is_empty() => 1,
                            error => return Err(error),
                        };
                        let missing = needed.saturating_sub(bytes.len() as u64);
                        let (taken, rest) = split(chunk, missing);
                        bytes.extend_from_slice(taken);
                        chunk = rest;
                        State::Preamble(bytes)
                    }
                },
                State::Body(mut body) => {
                    chunk = body.push(chunk, self.preallocates)?;
                    State::Body(body)
                }
                State::Failed => return Err(Error::corrupt("an earlier chunk was rejected")),
            };
        }
        Ok(())
    }

    /// Returns the container.
    ///
    /// # Errors
    /// Returns [`Error::Truncated`] if bytes are missing, and [`Error::Corrupt`] if the first
    /// section is damaged or not a shape, or a chunk was rejected.
    pub fn finish(self) -> Result<Reader, Error> {
        let mut body = match self.state {
            State::Preamble(bytes) => Body::new(&bytes, &self.limits)?,
            State::Body(body) => body,
            State::Failed => return Err(Error::corrupt("an earlier chunk was rejected")),
        };
        body.layout.check_len(body.found)?;
        // Empty sections at the end wait for no byte.
        while body.sections.len() < body.layout.entries.len() {
            body.push(&[], self.preallocates)?;
        }
        Reader::begin(body.header, body.sections, body.layout.end)
    }
}

impl Body {
    /// Parses the header and the table.
    fn new(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let (header, table) = preamble(bytes)?;
        let (layout, found) = (Layout::of(&table, limits)?, bytes.len() as u64);
        Ok(Self { header, layout, found, sections: Vec::new(), next: None })
    }

    /// Takes bytes of the padding or section that is due, and returns the rest.
    fn push<'b>(&mut self, chunk: &'b [u8], preallocates: bool) -> Result<&'b [u8], Error> {
        // Padding number i precedes section number i, and the last one ends the file.
        let (from, to) = self.layout.gaps.get(self.sections.len()).copied().unwrap_or_default();
        if (from..to).contains(&self.found) {
            let (padding, rest) = split(chunk, to.saturating_sub(self.found));
            check_padding(padding, self.found)?;
            self.found = self.found.saturating_add(padding.len() as u64);
            return Ok(rest);
        }
        let entry = self.layout.entries.get(self.sections.len());
        let entry = *entry.ok_or_else(|| self.layout.too_long())?;
        let mut builder = match self.next.take() {
            Some(builder) => builder,
            None => {
                let words = usize::try_from(entry.words).map_err(|_| Error::Limit {
                    what: "words in a section",
                    asked: entry.words,
                    most: usize::MAX as u64,
                })?;
                if preallocates {
                    WordsBuilder::preallocated(words)?
                } else {
                    WordsBuilder::new(words)?
                }
            }
        };
        let rest = builder.push(chunk)?;
        self.found = self.found.saturating_add(chunk.len().saturating_sub(rest.len()) as u64);
        if builder.missing() > 0 {
            self.next = Some(builder);
        } else if let Some(words) = builder.finish() {
            self.sections.push(Section::new(entry, words));
        }
        Ok(rest)
    }
}

fn split(bytes: &[u8], at: u64) -> (&[u8], &[u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}
