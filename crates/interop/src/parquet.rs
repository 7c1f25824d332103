//! The split-block Bloom filter of Apache Parquet: a header in Thrift's compact protocol, then blocks of
//! 32 bytes.
//!
//! | field of the header | |
//! | --- | --- |
//! | 1 | bytes of blocks |
//! | 2 | algorithm: a union whose field 1 is `BLOCK` |
//! | 3 | hash: a union whose field 1 is `XXHASH` |
//! | 4 | compression: a union whose field 1 is `UNCOMPRESSED` |

use tamis::{AnyFilter, Build, HashId, KeyHasher, Keyed, SplitBlockBloom, SplitBlockBloomShape};
use tamis_bits::Words;

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{malformed, other_kind, unsuitable};
use crate::sizes::at_least_one;
use crate::thrift::{Fields, Thrift, Type, push_varint};
use crate::{Codec, Error, Format};

/// The bytes of a block.
const BLOCK: u64 = 32;
/// The largest filter that Arrow's readers accept.
const MAX_BYTES: u64 = 128 << 20;
/// The bytes that a header takes at most.
pub(crate) const MAX_HEADER: usize = 64;

pub(crate) const CODEC: Codec = Codec {
    title: "Apache Parquet, the Bloom filter of a column chunk",
    hash: HashId::ParquetXxh64,
    seed: 0,
    recognises: Some(|bytes| body(bytes).is_ok()),
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        let shape = SplitBlockBloomShape::new(blocks_for(keys, fpr), keys)?;
        SplitBlockBloom::build_with(options, |_| Ok(shape), hashes).map(Into::into)
    },
};

/// Returns the number of blocks that Parquet's writers choose: a power of 2, from 1 to 128 MiB.
fn blocks_for(keys: u64, fpr: f64) -> u64 {
    let bits = -8.0 * keys as f64 / (-fpr.powf(0.125)).ln_1p();
    let bytes = at_least_one((bits / 8.0).ceil()).clamp(BLOCK, MAX_BYTES);
    bytes.next_power_of_two() / BLOCK
}

/// Reads a header. Returns the bytes of blocks that follow, and the bytes after the header.
pub(crate) fn header(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    let damaged = || malformed(Format::Parquet, "it has no header of a Bloom filter");
    let (mut from, mut fields) = (Thrift::new(bytes), Fields::default());
    let (mut len, mut unions) = (None, 0u32);
    while let Some((number, of)) = fields.next(&mut from).ok_or_else(damaged)? {
        match (number, of) {
            (1, Type::Integer) => len = Some(from.integer().ok_or_else(damaged)?),
            (2..=4, Type::Struct) => {
                let other = match number {
                    2 => "its algorithm is not BLOCK",
                    3 => "its hash is not XXHASH",
                    _ => "it is compressed",
                };
                let mut union = Fields::default();
                let chosen = union.next(&mut from).ok_or_else(damaged)?;
                let Some((_, of)) = chosen.filter(|(number, _)| *number == 1) else {
                    return Err(malformed(Format::Parquet, other));
                };
                from.skip(of).ok_or_else(damaged)?;
                if union.next(&mut from) != Some(None) {
                    return Err(damaged());
                }
                unions = unions.wrapping_add(1);
            }
            (_, of) => from.skip(of).ok_or_else(damaged)?,
        }
    }
    let len = len.and_then(|len| u64::try_from(len).ok()).filter(|_| unions == 3);
    let len = len.ok_or_else(damaged)?;
    if len == 0 || !len.is_multiple_of(BLOCK) {
        return Err(malformed(Format::Parquet, "its bytes are not whole blocks of 32"));
    }
    Ok((len, from.rest()))
}

fn body(bytes: &[u8]) -> Result<&[u8], Error> {
    let (len, rest) = header(bytes)?;
    Bytes::new(Format::Parquet, rest).exactly(len)
}

/// Returns the filter of these blocks.
pub(crate) fn from_blocks(words: Words) -> Result<Keyed<AnyFilter>, Error> {
    let filter = SplitBlockBloom::from_foreign_words(words)?;
    Ok(Keyed::new(KeyHasher::new(HashId::ParquetXxh64, [0; 2]), filter.into()))
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    from_blocks(input.words_le(body(input.bytes)?)?)
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let AnyFilter::SplitBlockBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::Parquet, keyed));
    };
    let len = size_of_val(filter.words());
    if !filter.shape().blocks().is_power_of_two() || len as u64 > MAX_BYTES {
        let why = "Parquet's readers take filters of a power of 2 of bytes, up to 128 MiB";
        return Err(unsuitable(Format::Parquet, why));
    }
    let mut out = buffer(len.saturating_add(MAX_HEADER))?;
    // Field 1 is an integer, and positive integers are doubled.
    out.push(0x15);
    push_varint(&mut out, (len as u64).wrapping_mul(2));
    // Fields 2 to 4 are unions whose field 1 is an empty structure.
    (0..3).for_each(|_| out.extend([0x1c, 0x1c, 0, 0]));
    out.push(0);
    push_le(&mut out, filter.words(), len);
    Ok(out)
}

/// Returns a filter of half as many blocks: each is the union of two neighbours, which hold the keys that
/// would be in it. Returns `None` if the number of blocks is odd.
///
/// # Errors
/// [`Error::Unsuitable`] if the filter is not Parquet's.
pub(crate) fn fold(keyed: &Keyed<AnyFilter>) -> Result<Option<Keyed<AnyFilter>>, Error> {
    let AnyFilter::SplitBlockBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::Parquet, keyed));
    };
    let (pairs, rest) = filter.words().as_chunks::<8>();
    if !rest.is_empty() || pairs.is_empty() {
        return Ok(None);
    }
    let mut words = Words::zeroed(size_of_val(pairs) / 16).map_err(tamis::Error::from)?;
    let (blocks, _) = words.to_mut().as_chunks_mut::<4>();
    for (block, [a, b, c, d, e, f, g, h]) in blocks.iter_mut().zip(pairs) {
        *block = [a | e, b | f, c | g, d | h];
    }
    let filter = SplitBlockBloom::from_foreign_words(words)?;
    Ok(Some(Keyed::new(*keyed.hasher(), filter.into()).with_key_forms(keyed.key_forms())))
}
