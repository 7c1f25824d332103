//! Every way in and out of a container, compared with the others.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

use alloc::borrow::Cow;
use alloc::sync::Arc;

use tamis_bits::{SharedBytes, Words, as_le_bytes};

use crate::header::checksum;
use crate::{
    ChunkReader, Error, Header, KeyForms, Limits, Name, PEEK_BYTES, Piece, Reader, Writer, peek,
};

const BITS: Name = Name::new("bits");
const STASH: Name = Name::new("stash");
const HEADER: Header =
    Header { kind: 3, hash: 1, keys: 77, seed: [1, 2], key_forms: KeyForms::INTEGERS };

fn sample() -> Vec<u8> {
    let words: Vec<u64> = (0..11).map(|i| i * 0x0101).collect();
    let mut writer = Writer::new();
    writer.shape(&[5, 6]);
    writer.slice(BITS, &words);
    writer.slice(STASH, &[]);
    writer.to_vec(&HEADER).unwrap()
}

/// A buffer whose first byte lies `offset` bytes after a multiple of 8.
fn buffer(bytes: &[u8], offset: usize) -> SharedBytes {
    struct Buffer(Words, usize, usize);
    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &as_le_bytes(&self.0).unwrap()[self.1..][..self.2]
        }
    }
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    padded.extend([0; 8]);
    let words = Words::from_le_bytes(&padded).unwrap();
    SharedBytes::new(Arc::new(Buffer(words, offset, bytes.len())))
}

fn in_chunks(bytes: &[u8], size: usize, limits: &Limits) -> Result<Reader, Error> {
    let mut reader = ChunkReader::new(limits);
    for chunk in bytes.chunks(size) {
        reader.push(chunk)?;
    }
    reader.finish()
}

type Content = (Vec<u64>, Words);

fn consume(mut reader: Reader) -> Result<Content, Error> {
    reader.verify()?;
    let mut shape = reader.shape()?;
    let fields = vec![shape.next(0..=9, "first")?, shape.next(0..=9, "second")?];
    shape.finish()?;
    let words = reader.words(BITS, 11)?;
    reader.words(STASH, 0)?;
    reader.finish()?;
    Ok((fields, words))
}

/// Reads `bytes` through every entry and asserts that all agree.
fn read(bytes: &[u8], limits: &Limits) -> Result<Content, Error> {
    let expected = Reader::from_bytes(bytes, limits).and_then(consume);
    let told = |result: &Result<Content, Error>| match result {
        Ok((fields, words)) => format!("{fields:?} {words:?}"),
        Err(error) => error.to_string(),
    };
    let told_at_first = expected.as_ref().err().map(ToString::to_string);
    let agrees = |entry: &str, other: Result<Reader, Error>| {
        let other = other.and_then(consume);
        match (&expected, &other) {
            (Ok(a), Ok(b)) => assert_eq!(a, b, "{entry}"),
            _ => assert_eq!(told_at_first, Some(told(&other)), "{entry}"),
        }
    };
    for offset in 0..8 {
        let shared = buffer(bytes, offset);
        agrees("shared", Reader::from_shared(&shared, limits));
    }
    for size in [1, 7, 64, 4096] {
        agrees("chunks", in_chunks(bytes, size, limits));
    }
    #[cfg(feature = "std")]
    agrees("read", Reader::read(bytes, limits));
    expected
}

#[cfg(feature = "std")]
fn open(bytes: &[u8], limits: &Limits) -> Result<Content, Error> {
    let thread = std::thread::current().id();
    let name = format!("tamis-format-{}-{thread:?}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    let content = Reader::open(&path, limits).and_then(consume);
    std::fs::remove_file(&path).unwrap();
    content
}

#[test]
fn there_and_back() {
    let bytes = sample();
    assert_eq!(bytes.len() % 64, 0);
    let (fields, words) = read(&bytes, &Limits::default()).unwrap();
    assert_eq!(fields, [5, 6]);
    assert_eq!(words[10], 10 * 0x0101);
    let reader = Reader::from_bytes(&bytes, &Limits::default()).unwrap();
    assert_eq!((reader.header(), reader.bytes()), (&HEADER, bytes.len() as u64));
    #[cfg(feature = "std")]
    assert_eq!(open(&bytes, &Limits::default()).unwrap(), (fields, words));
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn every_bit_flip_and_every_truncation_is_noticed() {
    let bytes = sample();
    let refused = |bytes: &[u8]| {
        let error = read(bytes, &Limits::default()).unwrap_err();
        #[cfg(feature = "std")]
        assert_eq!(
            error.to_string(),
            open(bytes, &Limits::default()).unwrap_err().to_string(),
            "mapped"
        );
        error
    };
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused(&flipped);
    }
    for len in 1..bytes.len() {
        let error = refused(&bytes[..len]);
        let Error::Truncated { expected, found } = error else { panic!("{len}: {error}") };
        assert!(found == len as u64 && expected > found && expected <= bytes.len() as u64);
    }
    refused(&[&bytes[..], &[0]].concat());
    refused(&[&bytes[..], &bytes[..]].concat());
}

#[test]
fn errors_name_what_is_wrong() {
    let bytes = sample();
    let told = |bytes: &[u8]| read(bytes, &Limits::default()).unwrap_err().to_string();
    assert_eq!(told(b""), "not a .tamis file");
    assert_eq!(told(b"PK\x03\x04 something else entirely"), "not a .tamis file");
    assert_eq!(told(&bytes[..3]), "truncated: 3 of 64 bytes");
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(told(&newer), "format version 9 is not supported, the newest known is 1");
    let error = read(&bytes, &Limits { bytes: 100 }).unwrap_err();
    assert!(matches!(error, Error::Limit { what: "bytes", most: 100, .. }), "{error}");
    read(&bytes, &Limits { bytes: bytes.len() as u64 }).unwrap();
    read(&bytes, &Limits { bytes: bytes.len() as u64 - 1 }).unwrap_err();
    assert_eq!(Error::corrupt("no such shape").to_string(), "corrupt: no such shape");
    assert_eq!(
        Error::Corrupt { at: Some(8), what: "version 0" }.to_string(),
        "corrupt at byte 8: version 0"
    );
    assert_eq!(Error::OutOfMemory { bytes: 9 }.to_string(), "failed to allocate 9 bytes");
}

/// Changes words of the header or the table and makes its checksum right again.
fn forged(change: impl Fn(&mut [u64])) -> Vec<u8> {
    let bytes = sample();
    let (words, _) = bytes.as_chunks::<8>();
    let mut words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    change(&mut words);
    words[7] = checksum([&words[..7], &words[8..17]]);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn hostile_lengths_cost_nothing() {
    // Entry 1 of the table begins at word 11, its length is word 12.
    for len in [1 << 20, 1 << 36, 1 << 38, u64::MAX / 8, u64::MAX - 7, u64::MAX] {
        let bytes = forged(|words| words[12] = len);
        let error = read(&bytes, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. } | Error::Limit { .. }), "{error}");
    }
}

#[test]
fn forms_of_keys_are_recorded() {
    for bits in 0..8 {
        let bytes = forged(|words| words[5] = bits);
        let reader = Reader::from_bytes(&bytes, &Limits::default()).unwrap();
        assert_eq!(reader.header().key_forms.bits(), bits);
        read(&bytes, &Limits::default()).unwrap();
    }
    for bit in 3..64 {
        let error = read(&forged(|words| words[5] = 1 << bit), &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { at: Some(40), .. }), "{error}");
    }
    for bit in 0..64 {
        let error = read(&forged(|words| words[6] = 1 << bit), &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { at: Some(48), .. }), "{error}");
    }
    let told = |forms: KeyForms| forms.to_string();
    assert_eq!(told(KeyForms::NONE), "not recorded");
    assert_eq!(told(KeyForms::BYTES), "text or bytes");
    let all = KeyForms::BYTES.union(KeyForms::INTEGERS).union(KeyForms::TUPLES);
    assert_eq!(told(all), "text or bytes, integers, tuples");
    assert!(all.contains(KeyForms::TUPLES) && !KeyForms::BYTES.contains(all));
    assert!(KeyForms::default().is_none() && !all.is_none());
}

#[test]
fn peek_needs_the_first_bytes_only() {
    let bytes = sample();
    let found = peek(&bytes[..64 + 3 * 24]).unwrap();
    assert_eq!((found.header, found.bytes), (HEADER, bytes.len() as u64));
    assert_eq!(peek(&bytes).unwrap(), found);
    for (len, needed) in [(1, 64), (63, 64), (64, 136), (135, 136)] {
        let error = peek(&bytes[..len]).unwrap_err();
        assert!(
            matches!(error, Error::Truncated { expected, found }
                if expected == needed && found == len as u64),
            "{error}"
        );
    }
    assert!(matches!(peek(b""), Err(Error::Foreign)));
    assert!(matches!(peek(&[0; 448]), Err(Error::Foreign)));
    assert_eq!(PEEK_BYTES, 448);
    // A length past all limits is told, one past 64 bits is an error.
    let long = forged(|words| words[12] = 1 << 50);
    assert!(peek(&long).unwrap().bytes > 1 << 53);
    assert!(peek(&forged(|words| words[12] = u64::MAX)).is_err());
}

#[test]
fn sections_may_be_empty() {
    for count in 0..8 {
        let mut writer = Writer::new();
        writer.shape(&[]);
        (0..count).for_each(|_| writer.slice(BITS, &[]));
        let bytes = writer.to_vec(&HEADER).unwrap();
        for size in [1, 256] {
            let mut reader = in_chunks(&bytes, size, &Limits::default()).unwrap();
            reader.shape().unwrap().finish().unwrap();
            assert!((0..count).all(|_| reader.words(BITS, 0).is_ok()));
            reader.finish().unwrap();
        }
    }
}

/// A container of `count` empty sections with right checksums.
fn of_empty_sections(count: u64) -> Vec<u8> {
    let bytes = sample();
    let word = |at: usize| u64::from_le_bytes(bytes.as_chunks().0[at]);
    let mut words: Vec<u64> = (0..7).map(word).collect();
    words[1] = words[1] & ((1 << 48) - 1) | count << 48;
    let names = (0..count).map(|index| if index == 0 { Name::SHAPE } else { BITS });
    let table: Vec<u64> =
        names.flat_map(|name| [u64::from_le_bytes(name.0), 0, checksum([])]).collect();
    words.push(checksum([&words[..], &table]));
    words.extend(table);
    words.resize(words.len().next_multiple_of(8), 0);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn more_than_16_sections_are_refused() {
    for count in [1, 15, 16] {
        let bytes = of_empty_sections(count);
        let mut reader = Reader::from_bytes(&bytes, &Limits::default()).unwrap();
        reader.shape().unwrap().finish().unwrap();
        assert!((1..count).all(|_| reader.words(BITS, 0).is_ok()));
        reader.finish().unwrap();
    }
    for count in [0, 17, 0xffff] {
        let bytes = of_empty_sections(count);
        for opened in [
            Reader::from_bytes(&bytes, &Limits::default()),
            in_chunks(&bytes, 50, &Limits::default()),
        ] {
            assert!(matches!(opened, Err(Error::Limit { what: "sections", .. })), "{count}");
        }
    }
}

/// The first shape is checked when a file is opened, other sections by `verify`.
#[test]
fn a_damaged_shape_is_refused_at_once() {
    let mut bytes = sample();
    let shape = bytes.as_chunks::<8>().0.iter().position(|word| *word == 5u64.to_le_bytes());
    bytes[shape.unwrap() * 8] = 7;
    for opened in [
        Reader::from_bytes(&bytes, &Limits::default()),
        Reader::from_shared(&buffer(&bytes, 0), &Limits::default()),
        in_chunks(&bytes, 50, &Limits::default()),
    ] {
        assert!(matches!(opened, Err(Error::Corrupt { at: Some(192), .. })), "{opened:?}");
    }
}

#[test]
fn sections_and_fields_are_those_that_are_expected() {
    let bytes = sample();
    let open = || Reader::from_bytes(&bytes, &Limits::default()).unwrap();
    let after_shape = || {
        let mut reader = open();
        reader.shape().unwrap();
        reader
    };
    assert!(open().words(BITS, 2).is_err(), "the shape is not `bits`");
    assert!(after_shape().shape().is_err(), "`bits` is not a shape");
    assert!(after_shape().words(STASH, 11).is_err(), "`bits` is not `stash`");
    for len in [0, 10, 12] {
        assert!(after_shape().words(BITS, len).is_err(), "`bits` has 11 words, not {len}");
    }
    let mut reader = after_shape();
    assert!(reader.finish().is_err(), "two sections are left");
    reader.words(BITS, 11).unwrap();
    assert!(reader.finish().is_err(), "an empty section is left");
    reader.words(STASH, 0).unwrap();
    reader.finish().unwrap();
    assert!(reader.words(STASH, 0).is_err(), "no section is left");

    let field = |range| open().shape().unwrap().next(range, "field");
    assert_eq!(field(5..=5).unwrap(), 5);
    for range in [0..=4, 6..=9] {
        assert!(matches!(field(range), Err(Error::Corrupt { at: Some(192), what: "field" })));
    }
    let mut fields = open().shape().unwrap();
    fields.next(0..=9, "first").unwrap();
    assert_eq!(fields.next(0..=9, "second").unwrap(), 6);
    assert!(fields.next(0..=9, "third").is_err(), "there are two fields");
    for taken in 0..=2 {
        let mut fields = open().shape().unwrap();
        (0..taken).for_each(|_| assert!(fields.next(0..=9, "field").is_ok()));
        assert_eq!(fields.finish().is_ok(), taken == 2, "{taken} of two fields");
    }
}

#[test]
fn a_rejected_chunk_ends_the_reader() {
    let bytes = sample();
    let mut reader = ChunkReader::new(&Limits::default());
    reader.push(&bytes[..140]).unwrap();
    assert!(reader.push(&[1; 8]).is_err(), "padding");
    assert!(reader.push(&bytes[140..]).is_err());
    assert_eq!(reader.finish().unwrap_err().to_string(), "corrupt: an earlier chunk was rejected");
}

/// Sections of all kinds and many sizes.
fn large() -> (Words, Vec<Words>) {
    let one = Words::copy_of(&(0..5001).collect::<Vec<_>>()).unwrap();
    let sizes = [0usize, 1, 511, 512, 513, 3, 10_000, 7, 8];
    let many = sizes.map(|len| Words::copy_of(&vec![len as u64; len]).unwrap());
    (one, many.into())
}

fn write_large<'a>((one, many): &'a (Words, Vec<Words>)) -> Writer<'a> {
    let mut writer = Writer::new();
    writer.shape(&[1, 2, 3]);
    writer.words(BITS, one);
    writer.pieces(STASH, many.iter().map(Piece::from));
    writer.slice(STASH, &one[..3]);
    writer.pieces(BITS, [vec![1, 2, 3].into()]);
    writer
}

#[test]
fn chunks_are_the_file() {
    let tables = large();
    let writer = write_large(&tables);
    let bytes = writer.to_vec(&HEADER).unwrap();
    assert_eq!(bytes.len() as u64, writer.serialized_len());
    #[cfg(feature = "std")]
    {
        let mut written = Vec::new();
        writer.write(&HEADER, &mut written).unwrap();
        assert!(written == bytes);
    }
    for max in [0, 1, 7, 8, 63, 64, 100, 4095, 4096, 5000, 1 << 16, 1 << 20, usize::MAX] {
        let chunks: Vec<_> = writer.chunks(&HEADER, max).collect();
        assert!(chunks.iter().all(|chunk| (1..=max.max(1)).contains(&chunk.len())));
        assert!(chunks.concat() == bytes, "{max}");
        let copied = |chunk: &&Cow<'_, [u8]>| matches!(chunk, Cow::Owned(_));
        let copied: usize = chunks.iter().filter(copied).map(|chunk| chunk.len()).sum();
        assert!(max < 64 || copied < 25_000, "{copied} bytes copied, {max}");
        // No more chunks than needed: small segments share one.
        assert!(chunks.len() <= bytes.len() / max.clamp(1, 4096) + 20, "{max}");
        for new in [ChunkReader::new, ChunkReader::preallocating] {
            let mut reader = new(&Limits::default());
            chunks.iter().for_each(|chunk| reader.push(chunk).unwrap());
            reader.finish().unwrap().verify().unwrap();
        }
    }
}

#[test]
fn a_file_is_read_at_any_offset() {
    let tables = large();
    let writer = write_large(&tables);
    let bytes = writer.to_vec(&HEADER).unwrap();
    for max in [0, 1, 100, 5000, usize::MAX] {
        for offset in (0..bytes.len() + 200).step_by(61).chain([usize::MAX]) {
            let rest = bytes.get(offset..).unwrap_or(&[]);
            let expected = &rest[..rest.len().min(max)];
            assert!(writer.read_at(&HEADER, offset as u64, max) == expected, "{offset}, {max}");
        }
    }
}

#[test]
fn bytes_in_memory_are_told() {
    let tables = large();
    let writer = write_large(&tables);
    let arrays = |many: &[Words]| many.iter().map(|words| words.heap_bytes()).sum::<u64>();
    let expected = tables.0.heap_bytes() + arrays(&tables.1);
    assert_eq!(writer.heap_bytes(), expected);
    assert_eq!(writer.table_bytes(), expected + 64 + 64);
    let shared = buffer(&[0; 128], 0);
    let words = Words::shared(&shared, 0, 9).unwrap().unwrap();
    let mut writer = Writer::new();
    writer.shape(&[1]);
    writer.words(BITS, &words);
    assert_eq!((writer.heap_bytes(), writer.table_bytes()), (0, 128));
}

#[test]
fn a_writer_is_read_without_bytes_between() {
    let tables = large();
    let writer = write_large(&tables);
    let bytes = writer.to_vec(&HEADER).unwrap();
    let content = |mut reader: Reader| {
        let mut shape = reader.shape().unwrap();
        let fields: Vec<u64> = (0..3).map(|_| shape.next(0..=9, "field").unwrap()).collect();
        shape.finish().unwrap();
        let many = tables.1.iter().map(|words| words.len() as u64).sum();
        let sections = [(BITS, 5001), (STASH, many), (STASH, 3), (BITS, 3)]
            .map(|(name, len)| reader.words(name, len).unwrap());
        reader.finish().unwrap();
        (*reader.header(), reader.bytes(), fields, sections)
    };
    let read = Reader::from_bytes(&bytes, &Limits::default()).unwrap();
    let direct = Reader::from_writer(&HEADER, &writer).unwrap();
    direct.verify().unwrap();
    assert_eq!(content(direct), content(read));

    let mut wrong = Writer::new();
    wrong.slice(BITS, &[1]);
    assert!(matches!(Reader::from_writer(&HEADER, &wrong), Err(Error::Corrupt { .. })));

    let shared = buffer(&[0; 128], 0);
    let words = Words::shared(&shared, 0, 9).unwrap().unwrap();
    let mut writer = Writer::new();
    writer.shape(&[]);
    writer.words(BITS, &words);
    let mut reader = Reader::from_writer(&HEADER, &writer).unwrap();
    reader.shape().unwrap();
    assert_eq!(reader.words(BITS, 9).unwrap().is_shared(), words.is_shared());
}

#[test]
#[cfg(target_endian = "little")]
fn aligned_buffers_are_not_copied() {
    let bytes = sample();
    for offset in 0..8 {
        let shared = buffer(&bytes, offset);
        let (_, words) =
            Reader::from_shared(&shared, &Limits::default()).and_then(consume).unwrap();
        assert_eq!(words.is_shared(), offset == 0, "offset {offset}");
    }
    let (_, words) = Reader::from_bytes(&bytes, &Limits::default()).and_then(consume).unwrap();
    assert!(!words.is_shared());
}

#[test]
#[should_panic(expected = "at most 16 sections")]
fn too_many_sections_panic() {
    let mut writer = Writer::new();
    (0..17).for_each(|_| writer.shape(&[]));
}

#[test]
fn files_without_forms_are_as_before() {
    let header = Header { key_forms: KeyForms::NONE, ..HEADER };
    let mut writer = Writer::new();
    writer.shape(&[5]);
    let bytes = writer.to_vec(&header).unwrap();
    let hex: String = bytes[..64].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "8954414d49530d0a01000300010001004d000000000000000100000000000000\
         020000000000000000000000000000000000000000000000"
            .to_string()
            + &hex[112..]
    );
}
