//! The feature `serde`: a filter is serialised as the bytes of its `.tamis` file.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{self, Serialize, Serializer};

use super::Keyed;
use crate::traits::Persist;

/// Serialises the filter as one byte string, the bytes of [`Keyed::to_bytes`]. A format without byte
/// strings, such as JSON, gets a sequence of numbers.
///
/// # Errors
/// If the bytes cannot be allocated, or the serializer fails.
impl<F: Persist> Serialize for Keyed<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes().map_err(ser::Error::custom)?)
    }
}

/// Deserialises a byte string or a sequence of bytes, and checks every byte: see [`Keyed::from_bytes`].
///
/// # Errors
/// If the bytes are not a valid `.tamis` file of this kind, or the deserializer fails.
impl<'de, F: Persist> Deserialize<'de> for Keyed<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(FileVisitor(PhantomData))
    }
}

struct FileVisitor<F>(PhantomData<F>);

impl<'de, F: Persist> Visitor<'de> for FileVisitor<F> {
    type Value = Keyed<F>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a .tamis file")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Keyed::from_bytes(bytes).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        // The stated length of a sequence may be wrong, so nothing is allocated for it.
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element()? {
            if bytes.len() == bytes.capacity() && bytes.try_reserve(bytes.len().max(4096)).is_err()
            {
                return Err(de::Error::custom("failed to allocate the bytes of a .tamis file"));
            }
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{BytesDeserializer, Error as ValueError};
    use serde::de::{Deserialize, IntoDeserializer};

    use crate::{AnyFilter, Bloom, Cuckoo, Keyed, Kind};

    fn seen() -> Keyed<Cuckoo> {
        let mut seen = Keyed::<Cuckoo>::builder().capacity(100).seed([1, 2]).empty().unwrap();
        seen.insert("apple").unwrap();
        seen
    }

    #[test]
    fn json_holds_the_file() {
        let seen = seen();
        let json = serde_json::to_string(&seen).unwrap();
        let bytes: Vec<u8> = serde_json::from_str(&json).unwrap();
        assert_eq!(bytes, seen.to_bytes().unwrap());
        assert_eq!(serde_json::from_str::<Keyed<Cuckoo>>(&json).unwrap(), seen);
        let any: Keyed<AnyFilter> = serde_json::from_str(&json).unwrap();
        assert!(any.kind() == Kind::Cuckoo && any.contains("apple"));
    }

    #[test]
    fn byte_strings_are_read() {
        let seen = seen();
        let bytes = seen.to_bytes().unwrap();
        let reader: BytesDeserializer<'_, ValueError> = bytes.as_slice().into_deserializer();
        assert_eq!(Keyed::<Cuckoo>::deserialize(reader).unwrap(), seen);
    }

    #[test]
    fn every_byte_is_checked() {
        let bytes = seen().to_bytes().unwrap();
        let read = |bytes: &[u8]| {
            let json = serde_json::to_string(bytes).unwrap();
            serde_json::from_str::<Keyed<Cuckoo>>(&json)
        };
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "{at} bytes");
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
        let json = serde_json::to_string(&seen()).unwrap();
        assert!(serde_json::from_str::<Keyed<Bloom>>(&json).is_err());
        assert!(serde_json::from_str::<Keyed<Cuckoo>>("{\"filter\": []}").is_err());
        assert!(serde_json::from_str::<Keyed<Cuckoo>>("[300]").is_err());
    }
}
