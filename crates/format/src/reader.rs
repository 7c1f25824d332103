//! Reading a container that may be anything at all.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::vec;

use tamis_bits::{Mapping, Words};

use crate::error::Error;
use crate::header::{
    ENTRY_WORDS, HEADER_WORDS, Header, MAGIC, MAX_SECTIONS, Name, VERSION, checksum, padded,
};

/// What a reader is willing to be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all sections together.
    pub bytes: u64,
}

impl Default for Limits {
    /// A tebibyte: more than anybody's memory, less than what overflows.
    fn default() -> Self {
        Self { bytes: 1 << 40 }
    }
}

#[derive(Debug)]
struct Section {
    name: Name,
    at: u64,
    checksum: u64,
    words: Words,
}

/// An opened container, whose sections are taken in order.
#[derive(Debug)]
pub struct Reader {
    header: Header,
    sections: vec::IntoIter<Section>,
    /// Where the section taken last begins.
    at: u64,
    end: u64,
}

impl Reader {
    /// Maps a file: the sections are used where they lie.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, Error> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Error::Io(std::io::ErrorKind::IsADirectory.into()));
        }
        if file.metadata()?.len() < (HEADER_WORDS as u64).saturating_mul(8) {
            return Self::read(&file, limits); // says what is wrong; an empty file cannot be mapped
        }
        let map = Mapping::new(&file)?;
        let mut start = map.bytes();
        let (header, table) = Self::preamble(&mut start)?;
        let found = map.bytes().len() as u64;
        let layout = layout(&table, limits)?;
        if found < layout.end {
            return Err(Error::Truncated { expected: layout.end, found });
        }
        if found > layout.end {
            return Err(Error::Corrupt { at: layout.end, what: "bytes after the last section" });
        }
        let word = |at: u64| {
            let at = usize::try_from(at).ok()?;
            map.bytes().get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
        };
        layout.check_padding(|at| Ok(word(at).unwrap_or(0)))?;
        let mut sections = Vec::with_capacity(layout.entries.len());
        for entry in layout.entries {
            let words = usize::try_from(entry.at)
                .ok()
                .zip(usize::try_from(entry.words).ok())
                .and_then(|(at, len)| Words::mapped(&map, at, len))
                .ok_or(Error::Truncated { expected: layout.end, found })?
                .map_err(|_| Error::Io(std::io::ErrorKind::OutOfMemory.into()))?;
            sections.push(Section {
                name: entry.name,
                at: entry.at,
                checksum: entry.checksum,
                words,
            });
        }
        Self::begin(header, sections, layout.end)
    }

    /// Reads a stream into memory of its own.
    pub fn read(mut input: impl Read, limits: &Limits) -> Result<Self, Error> {
        let (header, table) = Self::preamble(&mut input)?;
        let layout = layout(&table, limits)?;
        let mut gaps = layout.gaps.iter();
        let mut found = layout.gaps.first().map_or(0, |gap| gap.0);
        let mut skip_padding = |input: &mut dyn Read| -> Result<(), Error> {
            let Some((from, to)) = gaps.next() else { return Ok(()) };
            for at in (*from..*to).step_by(8) {
                let mut word = [0; 8];
                fill(input, &mut word, at, layout.end)?;
                if word != [0; 8] {
                    return Err(Error::Corrupt { at, what: "padding is not zero" });
                }
            }
            Ok(())
        };
        skip_padding(&mut input)?;
        let mut sections = Vec::with_capacity(layout.entries.len());
        for entry in &layout.entries {
            found = found.max(entry.at);
            let len = usize::try_from(entry.words).map_err(|_| Error::Limit {
                what: "words in a section",
                asked: entry.words,
                most: usize::MAX as u64,
            })?;
            let words = Words::read_from(&mut input, len).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    Error::Truncated { expected: layout.end, found }
                }
                _ => Error::Io(error),
            })?;
            skip_padding(&mut input)?;
            let Entry { name, at, checksum, .. } = *entry;
            sections.push(Section { name, at, checksum, words });
        }
        if input.read(&mut [0])? > 0 {
            return Err(Error::Corrupt { at: layout.end, what: "bytes after the last section" });
        }
        Self::begin(header, sections, layout.end)
    }

    /// The header and the raw table, checked against their checksum.
    fn preamble(input: &mut dyn Read) -> Result<(Header, Vec<u64>), Error> {
        let mut first = [0; HEADER_WORDS];
        let magic = {
            let mut bytes = [0; 8];
            let mut have = 0usize;
            while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
                match input.read(rest)? {
                    0 => break,
                    n => have = have.saturating_add(n),
                }
            }
            if bytes.get(..have) != MAGIC.get(..have) || have == 0 {
                return Err(Error::Foreign);
            }
            if have < 8 {
                return Err(Error::Truncated { expected: 64, found: have as u64 });
            }
            u64::from_le_bytes(bytes)
        };
        for (i, word) in first.iter_mut().enumerate() {
            *word = if i == 0 { magic } else { word_from(input, i as u64, 64)? };
        }
        let [_, ids, keys, low, high, zero_a, zero_b, sum] = first;
        let id = |shift: u32| (ids >> shift & 0xffff) as u16;
        let [version, kind, hash, count] = [id(0), id(16), id(32), id(48)];
        if version != VERSION {
            // A later version may be laid out otherwise: nothing after this field means anything.
            return match version {
                0 => Err(Error::Corrupt { at: 8, what: "version 0" }),
                found => Err(Error::Version { found, newest: VERSION }),
            };
        }
        if count == 0 || count > MAX_SECTIONS {
            return Err(Error::Limit {
                what: "sections",
                asked: count.into(),
                most: MAX_SECTIONS.into(),
            });
        }
        let words = ENTRY_WORDS.saturating_mul(count.into());
        let expected = (HEADER_WORDS.saturating_add(words) as u64).saturating_mul(8);
        let mut table = Vec::with_capacity(words);
        for i in 0..words {
            table.push(word_from(input, HEADER_WORDS.saturating_add(i) as u64, expected)?);
        }
        let [covered @ .., _] = &first;
        if checksum([&covered[..], &table]) != sum {
            return Err(Error::Corrupt { at: 56, what: "the header's checksum does not fit" });
        }
        if zero_a != 0 || zero_b != 0 {
            return Err(Error::Corrupt { at: 40, what: "reserved words are not zero" });
        }
        Ok((Header { kind, hash, keys, seed: [low, high] }, table))
    }

    fn begin(header: Header, sections: Vec<Section>, end: u64) -> Result<Self, Error> {
        match sections.first() {
            Some(shape) if shape.name == Name::SHAPE => check(shape)?,
            _ => return Err(Error::Corrupt { at: 64, what: "the first section is not `shape`" }),
        }
        Ok(Self { header, sections: sections.into_iter(), at: 64, end })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the whole file.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Checks every section that has not been taken yet against its checksum.
    pub fn verify(&self) -> Result<(), Error> {
        self.sections.as_slice().iter().try_for_each(check)
    }

    /// The words of the next section, which must be a shape.
    pub fn shape(&mut self) -> Result<Fields, Error> {
        let words: Vec<u64> = self.take(Name::SHAPE)?.iter().copied().collect();
        Ok(Fields { words: words.into_iter(), at: self.at })
    }

    /// The next section, which must have this name and this many words.
    pub fn words(&mut self, name: Name, len: u64) -> Result<Words, Error> {
        let words = self.take(name)?;
        if words.len() as u64 != len {
            return Err(self.corrupt("a section's length does not fit the shape"));
        }
        Ok(words)
    }

    /// That nothing is left over.
    pub fn finish(&self) -> Result<(), Error> {
        match self.sections.as_slice().first() {
            None => Ok(()),
            Some(left) => Err(Error::Corrupt { at: left.at, what: "a section too many" }),
        }
    }

    /// An error about the section taken last.
    pub fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { at: self.at, what }
    }

    fn take(&mut self, name: Name) -> Result<Words, Error> {
        let missing = Error::Corrupt { at: self.end, what: "a section is missing" };
        let section = self.sections.next().ok_or(missing)?;
        self.at = section.at;
        if section.name != name {
            return Err(self.corrupt("a section has another name than it must"));
        }
        Ok(section.words)
    }
}

/// The fields of a shape, taken in order.
#[derive(Debug)]
pub struct Fields {
    words: vec::IntoIter<u64>,
    at: u64,
}

impl Fields {
    /// The next field, which must lie in `range`.
    pub fn next(
        &mut self,
        range: std::ops::RangeInclusive<u64>,
        what: &'static str,
    ) -> Result<u64, Error> {
        let at = self.at;
        self.at = at.saturating_add(8);
        self.words.next().filter(|word| range.contains(word)).ok_or(Error::Corrupt { at, what })
    }

    /// That nothing is left over.
    pub fn finish(mut self) -> Result<(), Error> {
        let what = "the shape has a field too many";
        self.words.next().map_or(Ok(()), |_| Err(Error::Corrupt { at: self.at, what }))
    }
}

struct Entry {
    name: Name,
    words: u64,
    checksum: u64,
    at: u64,
}

/// Where everything lies: it follows from the lengths alone.
struct Layout {
    entries: Vec<Entry>,
    /// Padding, before the first section and after each: byte ranges, some of them empty.
    gaps: Vec<(u64, u64)>,
    end: u64,
}

impl Layout {
    fn check_padding(&self, word: impl Fn(u64) -> Result<u64, Error>) -> Result<(), Error> {
        for at in self.gaps.iter().flat_map(|(from, to)| (*from..*to).step_by(8)) {
            if word(at)? != 0 {
                return Err(Error::Corrupt { at, what: "padding is not zero" });
            }
        }
        Ok(())
    }
}

fn layout(table: &[u64], limits: &Limits) -> Result<Layout, Error> {
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
    Ok(Layout { entries, gaps, end: words.saturating_mul(8) })
}

fn check(section: &Section) -> Result<(), Error> {
    if checksum([&section.words[..]]) == section.checksum {
        return Ok(());
    }
    Err(Error::Corrupt { at: section.at, what: "a section's checksum does not fit" })
}

fn word_from(input: &mut dyn Read, index: u64, expected: u64) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    fill(input, &mut bytes, index.saturating_mul(8), expected)?;
    Ok(u64::from_le_bytes(bytes))
}

fn fill(input: &mut dyn Read, bytes: &mut [u8], found: u64, expected: u64) -> Result<(), Error> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Truncated { expected, found },
        _ => Error::Io(error),
    })
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]
mod tests {
    use super::*;
    use crate::writer::Writer;

    const BITS: Name = Name::new("bits");

    fn sample() -> Vec<u8> {
        let words: Vec<u64> = (0..11).map(|i| i * 0x0101).collect();
        let mut writer = Writer::new();
        writer.shape(&[5, 6]);
        writer.words(BITS, &words);
        let mut bytes = Vec::new();
        let header = Header { kind: 3, hash: 1, keys: 77, seed: [1, 2] };
        writer.write(&header, &mut bytes).unwrap();
        bytes
    }

    fn both(bytes: &[u8], limits: &Limits) -> Result<(Vec<u64>, Words), Error> {
        let consume = |mut reader: Reader| {
            reader.verify()?;
            assert_eq!(reader.bytes(), bytes.len() as u64);
            let mut shape = reader.shape()?;
            let fields = vec![shape.next(0..=9, "first")?, shape.next(0..=9, "second")?];
            shape.finish()?;
            let words = reader.words(BITS, 11)?;
            reader.finish()?;
            Ok((fields, words))
        };
        let path = std::env::temp_dir().join(format!(
            "tamis-reader-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::write(&path, bytes).unwrap();
        let mapped = Reader::open(&path, limits).and_then(consume);
        let streamed = Reader::read(bytes, limits).and_then(consume);
        std::fs::remove_file(&path).unwrap();
        let told = |result: &Result<_, Error>| result.as_ref().err().map(ToString::to_string);
        if !told(&mapped).is_some_and(|text| text.starts_with("truncated")) {
            assert_eq!(told(&mapped), told(&streamed));
        }
        assert_eq!(mapped.is_ok(), streamed.is_ok());
        mapped
    }

    #[test]
    fn there_and_back() {
        let bytes = sample();
        assert_eq!(bytes.len() % 64, 0);
        let (fields, words) = both(&bytes, &Limits::default()).unwrap();
        assert_eq!(fields, [5, 6]);
        assert_eq!(words[10], 10 * 0x0101);
    }

    #[test]
    fn every_bit_flip_and_every_truncation_is_noticed() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            both(&flipped, &Limits::default()).unwrap_err();
        }
        for len in 0..bytes.len() {
            both(&bytes[..len], &Limits::default()).unwrap_err();
        }
        both(&[&bytes[..], &[0]].concat(), &Limits::default()).unwrap_err();
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let bytes = sample();
        let told = |bytes: &[u8]| both(bytes, &Limits::default()).unwrap_err().to_string();
        assert_eq!(told(b""), "not a .tamis file");
        assert_eq!(told(b"PK\x03\x04 something else entirely"), "not a .tamis file");
        assert_eq!(told(&bytes[..3]), "truncated: 3 of 64 bytes");
        let mut newer = bytes.clone();
        newer[8] = 9;
        assert_eq!(told(&newer), "format version 9 is newer than 1, the newest read here");
        let error = both(&bytes, &Limits { bytes: 100 }).unwrap_err().to_string();
        assert!(error.ends_with("at most 100 allowed"), "{error}");
    }
}
