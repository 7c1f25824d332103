//! Bytes in memory are the bytes of a file, through every reader and writer.

use std::sync::Arc;

use tamis::{AnyFilter, ChunkReader, Keyed, Limits, Persist, peek};

use crate::Subject;
use crate::files::golden;

/// A buffer whose bytes begin at an offset from an aligned address.
struct Buffer {
    words: Vec<u64>,
    bytes: std::ops::Range<usize>,
}

impl Buffer {
    fn new(bytes: &[u8], offset: usize) -> Arc<Self> {
        let mut all = vec![0; offset];
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(8), 0);
        let words = all.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Arc::new(Self { words, bytes: offset..offset + bytes.len() })
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        let bytes = tamis_bits::as_le_bytes(&self.words).expect("a little-endian machine");
        &bytes[self.bytes.clone()]
    }
}

/// Checks that a filter written whole, in chunks of any size, or to a buffer, aligned or not, and
/// read again has the same bytes.
pub fn bytes_come_and_go<F: Subject>() {
    let file = golden(F::KIND);
    let typed = Keyed::<F>::from_bytes(&file).expect("a golden file");
    assert_eq!(typed.serialized_len(), file.len() as u64);
    assert!(typed.to_bytes().expect("memory") == file);
    let info = peek(&file).expect("a golden file");
    assert_eq!((info.kind, info.keys), (F::KIND, typed.len()));
    assert_eq!(info.serialized_len, file.len() as u64);
    for chunk in [1, 7, 64, 1000, usize::MAX] {
        let (mut reader, mut whole) = (ChunkReader::new(&Limits::default()), Vec::new());
        let written = typed.write_chunks(chunk, |bytes| {
            assert!(bytes.len() <= chunk);
            whole.extend_from_slice(&bytes);
            reader.push(&bytes)
        });
        written.expect("sound chunks");
        assert!(whole == file);
        let read = reader.finish().map_err(Into::into).and_then(Keyed::<AnyFilter>::verified);
        assert!(read.expect("sound chunks").to_bytes().expect("memory") == file);
    }
    for offset in [0, 1, 8] {
        let shared = Keyed::<F>::from_shared(Buffer::new(&file, offset)).expect("a golden file");
        assert!(shared == typed && shared.to_bytes().expect("memory") == file);
        if offset == 1 {
            assert_eq!(shared.heap_bytes(), typed.heap_bytes(), "an unaligned buffer is copied");
        }
    }
}

/// Checks that truncated, longer and damaged buffers are errors through every reader.
pub fn damaged_bytes_are_errors<F: Subject>() {
    let file = golden(F::KIND);
    for len in 0..file.len() {
        assert!(Keyed::<F>::from_bytes(&file[..len]).is_err());
        assert!(Keyed::<AnyFilter>::from_shared(Buffer::new(&file[..len], len % 9)).is_err());
        let mut reader = ChunkReader::new(&Limits::default());
        assert!(reader.push(&file[..len]).and_then(|()| reader.finish()).is_err());
        let _ = peek(&file[..len]);
    }
    let longer = [&file[..], &[0; 64]].concat();
    assert!(Keyed::<F>::from_bytes(&longer).is_err());
    assert!(Keyed::<F>::from_shared(Buffer::new(&longer, 0)).is_err());
    let mut reader = ChunkReader::new(&Limits { bytes: file.len() as u64 - 1 });
    assert!(reader.push(&file).and_then(|()| reader.finish()).is_err(), "beyond the limit");
    for bit in (0..file.len() * 8).step_by(5) {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Keyed::<AnyFilter>::from_bytes(&flipped).is_err(), "bit {bit}");
    }
}

/// Returns the sum of the sizes of a filter's allocations.
fn allocated_bytes<F: Persist>(filter: &Keyed<F>) -> u64 {
    let mut bytes = 0;
    filter.each_allocation(|_, layout| bytes += layout.size() as u64);
    bytes
}

/// Checks that a clone, fallible or not, and a copy of a mapped filter equal the original, and that
/// changing one leaves the other as it is.
pub fn copies_are_apart<F: Subject>() {
    let file = golden(F::KIND);
    let owned = Keyed::<F>::from_bytes(&file).expect("a golden file");
    let clone = owned.try_clone().expect("memory");
    assert!(clone == owned && clone.heap_bytes() == owned.heap_bytes());
    assert!(owned.heap_bytes() > 0 && owned.heap_bytes() <= owned.bytes());
    // A list of tables has an allocation of its own.
    let allocated = allocated_bytes(&owned);
    assert!((owned.heap_bytes()..owned.heap_bytes() + 256).contains(&allocated));
    let buffer = Buffer::new(&file, 0);
    let mut mapped = Keyed::<AnyFilter>::from_shared(buffer.clone()).expect("a golden file");
    assert!(mapped.heap_bytes() > 0 || allocated_bytes(&mapped) == 0);
    let twin = mapped.try_clone().expect("memory");
    mapped.make_owned().expect("memory");
    assert!(mapped == twin && mapped.heap_bytes() == owned.heap_bytes());
    if mapped.insert("a new key").is_ok() {
        assert!(mapped != twin && mapped.contains("a new key"));
    }
    assert!(buffer.as_ref().as_ref() == &file[..] && twin.to_bytes().expect("memory") == file);
}
