//! Types of keys, as texts state them and formats hash them.

use std::fmt;
use std::str::{FromStr, from_utf8};

use tamis::{HashId, KeyForms, KeyHash, KeyHasher};

use crate::Error;

macro_rules! key_types {
    ($( $(#[$doc:meta])* $variant:ident $name:literal; )*) => {
        /// The type of a key. It says which bytes of the key a format hashes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum KeyType { $( $(#[$doc])* $variant, )* }

        impl KeyType {
            /// All types.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// Returns its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }
        }
    };
}

key_types! {
    /// Text or bytes as they are.
    Utf8 "utf8";
    /// Text as Rust's `Hash` of a `str` writes it, with a byte 255 after it: `bloomfilter`, and
    /// DataSketches in Rust.
    Str "str";
    /// Text as UTF-16, little-endian: Guava's `unencodedCharsFunnel`.
    Utf16 "utf16";
    /// Bytes that are given as hexadecimal digits.
    Hex "hex";
    /// A 32-bit integer: 4 bytes for Parquet, Guava and `bloomfilter`, and a 64-bit one for Spark.
    Int32 "int32";
    /// A 64-bit integer.
    Int64 "int64";
    /// An unsigned 64-bit integer.
    Uint64 "uint64";
    /// A 32-bit float: its 4 bytes.
    Float "float";
    /// A 64-bit float: its 8 bytes.
    Double "double";
    /// A 128-bit integer, signed or not, which is the caller's own hash: rbloom.
    Hash128 "hash128";
}

impl KeyType {
    /// Returns the form of such keys, as filters record it.
    pub fn form(self) -> KeyForms {
        match self {
            Self::Int32 | Self::Int64 | Self::Uint64 | Self::Hash128 => KeyForms::INTEGERS,
            _ => KeyForms::BYTES,
        }
    }

    /// Returns the hash of the key that `text` states.
    ///
    /// # Errors
    /// [`Error::Key`] if the text does not state a key of this type.
    pub fn hash(self, hasher: &KeyHasher, text: &[u8]) -> Result<KeyHash, Error> {
        self.try_hash(hasher, text).ok_or_else(|| Error::Key {
            key_type: self,
            text: String::from_utf8_lossy(text).into_owned(),
        })
    }

    fn try_hash(self, hasher: &KeyHasher, text: &[u8]) -> Option<KeyHash> {
        fn parse<T: FromStr>(text: &[u8]) -> Option<T> {
            from_utf8(text).ok()?.trim().parse().ok()
        }
        Some(match self {
            Self::Utf8 => hasher.bytes(text),
            Self::Str => unframed(hasher, &[text, &[0xff]].concat()),
            Self::Utf16 => {
                let units = from_utf8(text).ok()?.encode_utf16();
                hasher.bytes(&units.flat_map(u16::to_le_bytes).collect::<Vec<_>>())
            }
            Self::Hex => hasher.bytes(&hex(text)?),
            Self::Int32 => {
                let value: i32 = parse(text)?;
                match hasher.id() {
                    HashId::ParquetXxh64 | HashId::GuavaMurmur3 | HashId::BloomfilterSip13 => {
                        unframed(hasher, &value.to_le_bytes())
                    }
                    _ => hasher.int(i64::from(value).cast_unsigned()),
                }
            }
            Self::Int64 => hasher.int(parse::<i64>(text)?.cast_unsigned()),
            Self::Uint64 => hasher.int(parse(text)?),
            Self::Float => hasher.bytes(&parse::<f32>(text)?.to_le_bytes()),
            Self::Double => hasher.bytes(&parse::<f64>(text)?.to_le_bytes()),
            Self::Hash128 => {
                let signed = parse::<i128>(text).map(i128::cast_unsigned);
                hasher.bytes(&signed.or_else(|| parse(text))?.to_le_bytes())
            }
        })
    }
}

/// Returns the hash of bytes alone, where the hasher would put their number before them.
fn unframed(hasher: &KeyHasher, bytes: &[u8]) -> KeyHash {
    match hasher.second_seed() {
        Some(second) => KeyHash::bloomfilter([hasher.seed(), second], bytes),
        None => hasher.bytes(bytes),
    }
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let text = from_utf8(text).ok()?;
    let text = text.strip_prefix("0x").unwrap_or(text);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|key_type| key_type.name() == name);
        found.copied().ok_or_else(|| Error::UnknownType(name.into()))
    }
}
