//! The first words of a file.

use xxhash_rust::xxh3::Xxh3Default;

/// How every file begins. Like PNG's, it shows at once whether a transfer took the file for text.
pub const MAGIC: [u8; 8] = *b"\x89TAMIS\r\n";
/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 1;

pub(crate) const HEADER_WORDS: usize = 8;
pub(crate) const ENTRY_WORDS: usize = 3;
/// Sections that a file may have: filters need a handful.
pub(crate) const MAX_SECTIONS: u16 = 16;
/// Sections begin on cache lines.
const ALIGN_WORDS: u64 = 8;
pub(crate) const ALIGN_BYTES: usize = 64;

/// A section's name: up to 8 ASCII bytes, the rest zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub(crate) [u8; 8]);

impl Name {
    /// The name of the section that every file begins with.
    pub const SHAPE: Self = Self::new("shape");

    /// A name, at compile time.
    ///
    /// # Panics
    /// If it is longer than 8 bytes.
    #[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "bounds asserted")]
    pub const fn new(name: &str) -> Self {
        let name = name.as_bytes();
        assert!(name.len() <= 8, "a section name has at most 8 bytes");
        let mut bytes = [0; 8];
        let mut i = 0;
        while i < name.len() {
            bytes[i] = name[i];
            i += 1;
        }
        Self(bytes)
    }
}

/// What a file says of itself before its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which filter it holds; the numbers are the registry's.
    pub kind: u16,
    /// Which hash made its keys into numbers.
    pub hash: u16,
    /// Keys in it.
    pub keys: u64,
    /// The hash's seed.
    pub seed: [u64; 2],
}

impl Header {
    /// The seven words before the checksum.
    pub(crate) fn words(&self, sections: u16) -> [u64; HEADER_WORDS - 1] {
        let ids = u64::from(VERSION)
            | u64::from(self.kind) << 16
            | u64::from(self.hash) << 32
            | u64::from(sections) << 48;
        let [low, high] = self.seed;
        [u64::from_le_bytes(MAGIC), ids, self.keys, low, high, 0, 0]
    }
}

/// xxh3-64 of some words, as little-endian bytes.
pub(crate) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u64]>) -> u64 {
    let mut hash = Xxh3Default::new();
    for part in parts {
        let _ = tamis_bits::each_le_chunk(part, |bytes| {
            hash.update(bytes);
            Ok::<_, std::convert::Infallible>(())
        });
    }
    hash.digest()
}

/// Words up to the next section.
pub(crate) fn padded(words: u64) -> Option<u64> {
    words.checked_next_multiple_of(ALIGN_WORDS)
}
