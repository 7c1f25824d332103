//! The first words of a file.

use alloc::vec::Vec;
use core::fmt;

use xxhash_rust::xxh3::Xxh3Default;

use crate::error::Error;

/// The first 8 bytes of every file. Like those of PNG, they show whether a transfer took the file
/// for text.
pub const MAGIC: [u8; 8] = *b"\x89TAMIS\r\n";
/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 1;
/// The number of bytes of a file that [`peek`](crate::peek) needs at most.
pub const PEEK_BYTES: usize = HEADER_BYTES + ENTRY_BYTES * MAX_SECTIONS as usize;

pub(crate) const HEADER_WORDS: usize = 8;
pub(crate) const HEADER_BYTES: usize = HEADER_WORDS * 8;
pub(crate) const ENTRY_WORDS: usize = 3;
const ENTRY_BYTES: usize = ENTRY_WORDS * 8;
/// The number of sections that a file may have. Filters need a handful.
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

    /// Makes a name at compile time.
    ///
    /// # Panics
    /// Panics if it is longer than 8 bytes.
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

/// The forms of keys that went into a filter: a set of [`KeyForms::BYTES`],
/// [`KeyForms::INTEGERS`] and [`KeyForms::TUPLES`], or [`KeyForms::NONE`] if the file does not
/// record them.
///
/// # Examples
/// ```
/// use tamis_format::KeyForms;
///
/// let forms = KeyForms::BYTES.union(KeyForms::INTEGERS);
/// assert!(forms.contains(KeyForms::INTEGERS) && !forms.contains(KeyForms::TUPLES));
/// assert_eq!(forms.to_string(), "text or bytes, integers");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyForms(u64);

impl KeyForms {
    /// The file does not record the form of its keys.
    pub const NONE: Self = Self(0);
    /// Text or bytes.
    pub const BYTES: Self = Self(1);
    /// Integers of any width.
    pub const INTEGERS: Self = Self(2);
    /// Tuples of keys.
    pub const TUPLES: Self = Self(4);

    const NAMES: [(Self, &str); 3] =
        [(Self::BYTES, "text or bytes"), (Self::INTEGERS, "integers"), (Self::TUPLES, "tuples")];

    /// Returns the forms of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all forms of `other` are in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether no form is recorded.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the forms as the bits of word 5 of the header.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the forms with these bits, or `None` if a bit is unknown.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits < 8 { Some(Self(bits)) } else { None }
    }
}

impl fmt::Display for KeyForms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("not recorded");
        }
        let mut names = Self::NAMES.iter().filter(|(form, _)| self.contains(*form));
        if let Some((_, name)) = names.next() {
            f.write_str(name)?;
        }
        names.try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

/// What a file says of itself before its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the filter. The registry assigns the numbers.
    pub kind: u16,
    /// The hash function that turned keys into numbers.
    pub hash: u16,
    /// The number of keys.
    pub keys: u64,
    /// The seed of the hash function.
    pub seed: [u64; 2],
    /// The forms of the keys. Files written before they were recorded have [`KeyForms::NONE`].
    pub key_forms: KeyForms,
}

impl Header {
    /// Returns the seven words before the checksum.
    pub(crate) fn words(&self, sections: u16) -> [u64; HEADER_WORDS - 1] {
        let ids = u64::from(VERSION)
            | u64::from(self.kind) << 16
            | u64::from(self.hash) << 32
            | u64::from(sections) << 48;
        let [low, high] = self.seed;
        [u64::from_le_bytes(MAGIC), ids, self.keys, low, high, self.key_forms.bits(), 0]
    }
}

/// Parses the header and the table of sections, and checks them against their checksum.
///
/// `bytes` may be longer. If it is too short, the `expected` of [`Error::Truncated`] is the length
/// that is needed next.
pub(crate) fn preamble(bytes: &[u8]) -> Result<(Header, Vec<u64>), Error> {
    let found = bytes.len() as u64;
    let magic = bytes.get(..MAGIC.len()).unwrap_or(bytes);
    if magic.is_empty() || !MAGIC.starts_with(magic) {
        return Err(Error::Foreign);
    }
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut first = [0; HEADER_WORDS];
    for word in &mut first {
        *word = words.next().ok_or(Error::Truncated { expected: HEADER_BYTES as u64, found })?;
    }
    let [_, ids, keys, low, high, key_forms, reserved, sum] = first;
    let id = |shift: u32| (ids >> shift & 0xffff) as u16;
    let [version, kind, hash, count] = [id(0), id(16), id(32), id(48)];
    if version != VERSION {
        // A later version may have another layout: nothing after this field can be relied on.
        return match version {
            0 => Err(Error::corrupt_at(8, "version 0")),
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
    let table: Vec<u64> = words.take(ENTRY_WORDS.saturating_mul(count.into())).collect();
    let expected =
        u64::from(count).saturating_mul(ENTRY_BYTES as u64).saturating_add(HEADER_BYTES as u64);
    if found < expected {
        return Err(Error::Truncated { expected, found });
    }
    let [covered @ .., _] = &first;
    if checksum([&covered[..], &table]) != sum {
        return Err(Error::corrupt_at(56, "the checksum of the header does not match"));
    }
    let key_forms =
        KeyForms::from_bits(key_forms).ok_or(Error::corrupt_at(40, "an unknown form of keys"))?;
    if reserved != 0 {
        return Err(Error::corrupt_at(48, "a reserved word is not zero"));
    }
    Ok((Header { kind, hash, keys, seed: [low, high], key_forms }, table))
}

/// Returns the xxh3-64 of words as little-endian bytes.
pub(crate) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u64]>) -> u64 {
    let mut hash = Xxh3Default::new();
    for part in parts {
        let _ = tamis_bits::each_le_chunk(part, |bytes| {
            hash.update(bytes);
            Ok::<_, core::convert::Infallible>(())
        });
    }
    hash.digest()
}

/// Returns the number of words up to the next section.
pub(crate) fn padded(words: u64) -> Option<u64> {
    words.checked_next_multiple_of(ALIGN_WORDS)
}
