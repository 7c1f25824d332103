//! Writing a container.

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use tamis_bits::{LINE_BYTES, OutOfMemory, Words, as_le_bytes, lines};

use crate::header::{
    ALIGN_BYTES, ENTRY_WORDS, HEADER_WORDS, Header, MAX_SECTIONS, Name, checksum, padded,
};

/// Segments of a file below this size are copied together into one chunk.
const SMALL: usize = 4096;
/// The most that is copied into one chunk.
const MAX_COPIED: usize = 1 << 16;

/// A contiguous part of a section.
#[derive(Debug)]
pub struct Piece<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    Words(&'a Words),
    Slice(Cow<'a, [u64]>),
}

impl<'a> From<&'a Words> for Piece<'a> {
    fn from(words: &'a Words) -> Self {
        Self(Source::Words(words))
    }
}

impl<'a> From<&'a [u64]> for Piece<'a> {
    fn from(words: &'a [u64]) -> Self {
        Self(Source::Slice(words.into()))
    }
}

impl From<Vec<u64>> for Piece<'_> {
    fn from(words: Vec<u64>) -> Self {
        Self(Source::Slice(words.into()))
    }
}

impl Piece<'_> {
    fn words(&self) -> &[u64] {
        match &self.0 {
            Source::Words(words) => words,
            Source::Slice(words) => words,
        }
    }

    fn heap_bytes(&self) -> u64 {
        match &self.0 {
            Source::Words(words) => words.heap_bytes(),
            Source::Slice(_) => 0,
        }
    }

    fn allocation(&self) -> Option<(NonNull<u8>, Layout)> {
        match &self.0 {
            Source::Words(words) => words.allocation(),
            Source::Slice(_) => None,
        }
    }

    fn is_shared(&self) -> bool {
        matches!(&self.0, Source::Words(words) if words.is_shared())
    }
}

#[derive(Debug)]
pub(crate) struct Section<'a> {
    name: Name,
    pieces: Vec<Piece<'a>>,
}

impl Section<'_> {
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// Returns the length of the section in words.
    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.words().len() as u64).sum()
    }

    /// Returns the number of zero bytes after the section.
    fn padding(&self) -> u64 {
        self.padded_bytes().saturating_sub(self.len().saturating_mul(8))
    }

    /// Returns the length in bytes up to the next section.
    pub(crate) fn padded_bytes(&self) -> u64 {
        lines(self.len()).saturating_mul(LINE_BYTES as u64)
    }

    /// Returns the words of the section: an array in a shared buffer as it is, others copied.
    pub(crate) fn to_words(&self) -> Result<Words, OutOfMemory> {
        match &self.pieces[..] {
            [Piece(Source::Words(words))] => words.try_clone(),
            [piece] => Words::copy_of(piece.words()),
            pieces => {
                let bytes = self.len().saturating_mul(8);
                let len = usize::try_from(self.len()).map_err(|_| OutOfMemory { bytes })?;
                let mut words = Words::zeroed(len)?;
                let mut rest = words.to_mut();
                for piece in pieces {
                    let from = piece.words();
                    let (to, after) = rest.split_at_mut(from.len());
                    to.copy_from_slice(from);
                    rest = after;
                }
                Ok(words)
            }
        }
    }
}

/// Collects the sections of a filter, borrowed where they lie, and writes them.
#[derive(Debug, Default)]
pub struct Writer<'a> {
    sections: Vec<Section<'a>>,
}

impl<'a> Writer<'a> {
    /// Makes a container without sections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the parameters of a filter, which precede its other sections. A filter that is part
    /// of another one follows all sections of the other and has a shape of its own.
    ///
    /// # Panics
    /// Panics if the container has 16 sections already, as the other methods do that append one.
    pub fn shape(&mut self, fields: &[u64]) {
        self.push(Name::SHAPE, vec![fields.to_vec().into()]);
    }

    /// Appends an array.
    pub fn words(&mut self, name: Name, words: &'a Words) {
        self.push(name, vec![words.into()]);
    }

    /// Appends an array that is not in [`Words`]. It counts as heap memory.
    pub fn slice(&mut self, name: Name, words: &'a [u64]) {
        self.push(name, vec![words.into()]);
    }

    /// Appends an array that lies in several places.
    pub fn pieces(&mut self, name: Name, pieces: impl IntoIterator<Item = Piece<'a>>) {
        self.push(name, pieces.into_iter().collect());
    }

    fn push(&mut self, name: Name, pieces: Vec<Piece<'a>>) {
        let room = self.sections.len() < usize::from(MAX_SECTIONS);
        assert!(room, "a container has at most {MAX_SECTIONS} sections");
        self.sections.push(Section { name, pieces });
    }

    pub(crate) fn sections(&self) -> &[Section<'a>] {
        &self.sections
    }

    fn tables(&self) -> impl Iterator<Item = &Piece<'a>> {
        let tables = self.sections.iter().filter(|section| section.name != Name::SHAPE);
        tables.flat_map(|section| &section.pieces)
    }

    /// Returns the bytes of memory that the allocator holds for all sections but shapes. Arrays in
    /// shared buffers and slices, which are fields of the filter itself, count as 0.
    pub fn heap_bytes(&self) -> u64 {
        self.tables().map(Piece::heap_bytes).sum()
    }

    /// Returns the address and the layout of each array of the global allocator in all sections but
    /// shapes.
    pub fn allocations(&self) -> impl Iterator<Item = (NonNull<u8>, Layout)> {
        self.tables().filter_map(Piece::allocation)
    }

    /// Returns whether an array lies in a shared buffer, such as a mapped file.
    pub fn is_shared(&self) -> bool {
        self.tables().any(Piece::is_shared)
    }

    /// Returns the bytes of all sections but shapes, wherever they lie, in whole cache lines of 64
    /// bytes for each array.
    pub fn table_bytes(&self) -> u64 {
        let lines: u64 = self.tables().map(|piece| lines(piece.words().len() as u64)).sum();
        lines.saturating_mul(LINE_BYTES as u64)
    }

    /// Returns the length of the file in bytes.
    pub fn serialized_len(&self) -> u64 {
        let sections: u64 = self.sections.iter().map(Section::padded_bytes).sum();
        self.preamble_len().saturating_add(sections)
    }

    /// Returns the length of the header and the table with their padding.
    pub(crate) fn preamble_len(&self) -> u64 {
        let words = HEADER_WORDS.saturating_add(ENTRY_WORDS.saturating_mul(self.sections.len()));
        lines(words as u64).saturating_mul(LINE_BYTES as u64)
    }

    /// Writes the file in order, without seeking.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    #[cfg(feature = "std")]
    pub fn write(&self, header: &Header, out: &mut impl std::io::Write) -> std::io::Result<()> {
        self.chunks(header, usize::MAX).try_for_each(|chunk| out.write_all(&chunk))
    }

    /// Returns the file as bytes.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails.
    pub fn to_vec(&self, header: &Header) -> Result<Vec<u8>, OutOfMemory> {
        let error = OutOfMemory { bytes: self.serialized_len() };
        let mut bytes = Vec::new();
        let len = usize::try_from(error.bytes).map_err(|_| error)?;
        bytes.try_reserve_exact(len).map_err(|_| error)?;
        self.chunks(header, usize::MAX).for_each(|chunk| bytes.extend_from_slice(&chunk));
        Ok(bytes)
    }

    /// Returns the file in chunks of 1 to `max_bytes` bytes (0 counts as 1). On a little-endian
    /// machine chunks are borrowed from the sections; only segments below 4 KiB are copied
    /// together.
    pub fn chunks<'w>(
        &'w self,
        header: &Header,
        max_bytes: usize,
    ) -> impl Iterator<Item = Cow<'w, [u8]>> + use<'w, 'a> {
        let preamble = Segment::Words(Cow::Owned(self.preamble(header)));
        let segments = [preamble].into_iter().chain(self.segments());
        Chunks { segments, current: None, at: 0, max: max_bytes.max(1) }
    }

    /// Returns up to `max_bytes` bytes of the file from `offset` on; none at its end or past it. The
    /// bytes are borrowed if they lie in one section. Checksums are computed only for bytes of the
    /// header and the table, so that reading on at any offset takes no time for the bytes before it.
    pub fn read_at<'w>(&'w self, header: &Header, offset: u64, max_bytes: usize) -> Cow<'w, [u8]> {
        let in_preamble = offset < self.preamble_len();
        let preamble = if in_preamble { self.preamble(header) } else { Vec::new() };
        let skipped = if in_preamble { 0 } else { self.preamble_len() };
        let mut skip = offset.saturating_sub(skipped);
        let mut copied = Vec::new();
        for segment in [Segment::Words(Cow::Owned(preamble))].into_iter().chain(self.segments()) {
            let room = max_bytes.saturating_sub(copied.len());
            if room == 0 {
                break;
            }
            let at = usize::try_from(skip).unwrap_or(usize::MAX).min(segment.len());
            skip = skip.saturating_sub(at as u64);
            let end = segment.len().min(at.saturating_add(room));
            if at == end {
                continue;
            }
            if copied.is_empty()
                && end.saturating_sub(at) == room
                && let Some(bytes) = segment.borrow(at, end)
            {
                return Cow::Borrowed(bytes);
            }
            segment.copy(at, end, &mut copied);
        }
        Cow::Owned(copied)
    }

    /// Returns the parts of the file after the header and the table.
    fn segments<'w>(&'w self) -> impl Iterator<Item = Segment<'w>> + use<'w, 'a> {
        self.sections.iter().flat_map(|section| {
            let pieces = section.pieces.iter().map(|piece| Segment::Words(piece.words().into()));
            pieces.chain([Segment::Zeros(usize::try_from(section.padding()).unwrap_or(0))])
        })
    }

    /// Returns the header and the table with their padding.
    fn preamble(&self, header: &Header) -> Vec<u64> {
        // `push` asserts that the number of sections fits.
        let first = header.words(u16::try_from(self.sections.len()).unwrap_or(MAX_SECTIONS));
        let table: Vec<u64> = self
            .sections
            .iter()
            .flat_map(|section| {
                let words = section.pieces.iter().map(Piece::words);
                [u64::from_le_bytes(section.name.0), section.len(), checksum(words)]
            })
            .collect();
        let mut words = first.to_vec();
        words.push(checksum([&first[..], &table]));
        words.extend(table);
        let len = padded(words.len() as u64).and_then(|len| usize::try_from(len).ok());
        words.resize(len.unwrap_or(words.len()), 0);
        words
    }
}

static ZEROS: [u8; ALIGN_BYTES] = [0; ALIGN_BYTES];

/// A part of a file that lies in one place.
enum Segment<'w> {
    Words(Cow<'w, [u64]>),
    Zeros(usize),
}

impl<'w> Segment<'w> {
    fn len(&self) -> usize {
        match self {
            Self::Words(words) => size_of_val(&words[..]),
            Self::Zeros(len) => *len,
        }
    }

    /// Returns the bytes from `at` to `end` if they can be borrowed.
    fn borrow(&self, at: usize, end: usize) -> Option<&'w [u8]> {
        match self {
            Self::Words(Cow::Borrowed(words)) => as_le_bytes(words)?.get(at..end),
            Self::Words(Cow::Owned(_)) => None,
            Self::Zeros(_) => ZEROS.get(at..end),
        }
    }

    /// Appends the bytes from `at` to `end` to `to`.
    fn copy(&self, at: usize, end: usize, to: &mut Vec<u8>) {
        if let Some(bytes) = self.borrow(at, end) {
            to.extend_from_slice(bytes);
        } else if let Self::Words(words) = self {
            let words = words.get(at / 8..end.div_ceil(8)).unwrap_or(&[]);
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            to.extend(bytes.skip(at % 8).take(end.saturating_sub(at)));
        }
    }
}

struct Chunks<'w, S> {
    segments: S,
    current: Option<Segment<'w>>,
    /// The bytes of the current segment that were returned.
    at: usize,
    max: usize,
}

impl<'w, S: Iterator<Item = Segment<'w>>> Iterator for Chunks<'w, S> {
    type Item = Cow<'w, [u8]>;

    fn next(&mut self) -> Option<Cow<'w, [u8]>> {
        let (mut copied, room) = (Vec::new(), self.max.min(MAX_COPIED));
        while copied.len() < room {
            let Some(segment) = &self.current else {
                self.current = self.segments.next();
                self.at = 0;
                if self.current.is_none() {
                    break;
                }
                continue;
            };
            let rest = segment.len().saturating_sub(self.at);
            let end = self.at.saturating_add(rest.min(self.max));
            if rest >= SMALL.min(self.max)
                && let Some(bytes) = segment.borrow(self.at, end)
            {
                if copied.is_empty() {
                    self.at = end;
                    return Some(Cow::Borrowed(bytes));
                }
                break;
            }
            let end = self.at.saturating_add(rest.min(room.saturating_sub(copied.len())));
            segment.copy(self.at, end, &mut copied);
            self.at = end;
            if end == segment.len() {
                self.current = None;
            }
        }
        (!copied.is_empty()).then_some(Cow::Owned(copied))
    }
}
