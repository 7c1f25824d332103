//! Reads numbers from bytes without trust in their number.

use crate::error::malformed;
use crate::{Error, Format};

/// The rest of some bytes of a format.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    format: Format,
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(format: Format, bytes: &'a [u8]) -> Self {
        Self { format, rest: bytes }
    }

    /// Returns [`Error::Malformed`].
    pub(crate) fn malformed(&self, what: &'static str) -> Error {
        malformed(self.format, what)
    }

    /// Takes the next `N` bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (first, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| self.malformed("the header is truncated"))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u16_le(&mut self) -> Result<u16, Error> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u32_be(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn u64_le(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_le_bytes)
    }

    /// Takes a number of bits per key that a filter may have.
    pub(crate) fn probes(&self, probes: u64) -> Result<u32, Error> {
        match u32::try_from(probes) {
            Ok(probes @ 1..=255) => Ok(probes),
            _ => Err(self.malformed("the number of hash functions is not 1 to 255")),
        }
    }

    /// Returns the bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Returns the bytes that are left, which must be `len`.
    pub(crate) fn exactly(self, len: u64) -> Result<&'a [u8], Error> {
        match len.cmp(&(self.rest.len() as u64)) {
            std::cmp::Ordering::Equal => Ok(self.rest),
            std::cmp::Ordering::Greater => Err(self.malformed("it is truncated")),
            std::cmp::Ordering::Less => Err(self.malformed("bytes follow the filter")),
        }
    }

    /// Returns the big-endian words that are left, which must be `words`.
    pub(crate) fn words_be(self, words: u64) -> Result<impl ExactSizeIterator<Item = u64>, Error> {
        let bytes = self.exactly(words.saturating_mul(8))?;
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word)))
    }
}

/// Returns bytes as little-endian words. The last word is filled up with zeros.
pub(crate) fn words_le(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, byte)| *to = *byte);
        u64::from_le_bytes(word)
    })
}

/// Appends the first `len` bytes of little-endian words.
pub(crate) fn push_le(out: &mut Vec<u8>, words: &[u64], len: usize) {
    let end = out.len().saturating_add(len);
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
    out.truncate(end);
}

/// Returns a buffer with room for so many bytes.
pub(crate) fn buffer(len: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    match out.try_reserve_exact(len) {
        Ok(()) => Ok(out),
        Err(_) => Err(tamis::Error::Memory { bytes: len as u64 }.into()),
    }
}
