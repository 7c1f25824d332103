//! Reads numbers from bytes without trust in their number.

use tamis_bits::{SharedBytes, Words};

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
}

/// The bytes of a filter, which may lie in a buffer that outlives the call.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
    shared: Option<&'a SharedBytes>,
}

impl<'a> Input<'a> {
    /// Takes bytes that are copied.
    pub(crate) fn copied(bytes: &'a [u8]) -> Self {
        Self { bytes, shared: None }
    }

    /// Takes bytes that stay where they are if they can.
    pub(crate) fn shared(bytes: &'a SharedBytes) -> Self {
        Self { bytes, shared: Some(bytes) }
    }

    /// Returns the buffer and where `part` of it begins, or `None` if the bytes are copied.
    pub(crate) fn offset_of(&self, part: &[u8]) -> Option<(&'a SharedBytes, usize)> {
        let offset = part.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        self.shared.map(|buffer| (buffer, offset))
    }

    /// Returns a part of the bytes as little-endian words. The last word is filled up with zeros. Whole
    /// words stay in a shared buffer if their address is a multiple of 8.
    pub(crate) fn words_le(&self, part: &[u8]) -> Result<Words, Error> {
        let (whole, tail) = part.as_chunks::<8>();
        if tail.is_empty()
            && let Some((buffer, offset)) = self.offset_of(part)
            && let Some(words) = Words::shared(buffer, offset, whole.len())
        {
            return Ok(words.map_err(tamis::Error::from)?);
        }
        let len = part.len().div_ceil(8);
        let mut words = Words::zeroed(len).map_err(tamis::Error::from)?;
        let to = words.to_mut();
        to.iter_mut().zip(whole).for_each(|(to, word)| *to = u64::from_le_bytes(*word));
        if let (Some(last), false) = (to.last_mut(), tail.is_empty()) {
            let mut word = [0; 8];
            word.iter_mut().zip(tail).for_each(|(to, byte)| *to = *byte);
            *last = u64::from_le_bytes(word);
        }
        Ok(words)
    }

    /// Returns a part of the bytes, whole words, as big-endian words.
    pub(crate) fn words_be(&self, part: &[u8]) -> Result<Words, Error> {
        let (whole, _) = part.as_chunks::<8>();
        let mut words = Words::zeroed(whole.len()).map_err(tamis::Error::from)?;
        let to = words.to_mut().iter_mut();
        to.zip(whole).for_each(|(to, word)| *to = u64::from_be_bytes(*word));
        Ok(words)
    }
}

/// Appends the first `len` bytes of little-endian words.
pub(crate) fn push_le(out: &mut Vec<u8>, words: &[u64], len: usize) {
    let end = out.len().saturating_add(len);
    let Ok(()) = tamis_bits::each_le_chunk(words, |bytes| {
        out.extend_from_slice(bytes);
        Ok::<_, std::convert::Infallible>(())
    });
    out.truncate(end);
}

/// Appends big-endian words.
pub(crate) fn push_be(out: &mut Vec<u8>, words: &[u64]) {
    let start = out.len();
    out.resize(start.saturating_add(size_of_val(words)), 0);
    let (chunks, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<8>();
    chunks.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_be_bytes());
}

/// Returns a buffer with room for so many bytes.
pub(crate) fn buffer(len: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    match out.try_reserve_exact(len) {
        Ok(()) => Ok(out),
        Err(_) => Err(tamis::Error::Memory { bytes: len as u64 }.into()),
    }
}
