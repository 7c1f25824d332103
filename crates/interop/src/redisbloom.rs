//! `BF.SCANDUMP` of RedisBloom: the data of all its replies, one after the other. Experimental, since no
//! server was at hand to compare with. All numbers are little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 to 7 | keys |
//! | 8 to 11 | number of layers |
//! | 12 to 15 | options: 4 means 64-bit hashes |
//! | 16 to 19 | growth: the capacity of a layer over that of the one before |
//! | then | 53 bytes for each layer, the oldest first |
//! | then | the bits of each layer, the oldest first, 8 per byte from the lowest on |
//!
//! | bytes of a layer | |
//! | --- | --- |
//! | 0 to 7 | bytes of bits |
//! | 8 to 15 | bits |
//! | 16 to 23 | keys |
//! | 24 to 31 | false positive rate, a 64-bit float |
//! | 32 to 39 | bits per key, a 64-bit float |
//! | 40 to 43 | hash functions |
//! | 44 to 51 | capacity in keys |
//! | 52 | logarithm of the bits, or 0 if they are not rounded to a power of 2 |
//!
//! The filter's note holds options and growth, and then rate, bits per key, capacity and logarithm of each
//! layer, the oldest first.

use tamis::{
    AnyFilter, Build, Filter, ForeignBloom, ForeignLayer, HashId, KeyHasher, Keyed,
    MAX_FOREIGN_LAYERS, Walk,
};

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom};
use crate::{Codec, Error, Format};

/// The option of 64-bit hashes, and that of sizes that are not powers of 2.
const HASH_64: u64 = 4;
const NO_ROUNDING: u64 = 1;
/// The factor by which a chain grows unless it is told otherwise.
const GROWTH: u64 = 2;
/// The rate of a layer over that of the one before. The first layer has this share of the chain's rate.
const TIGHTENING: f64 = 0.5;
/// The logarithm of 2 and its square, to the digits that RedisBloom has.
#[allow(clippy::approx_constant, reason = "RedisBloom's own digits")]
const LN_2: f64 = 0.693_147_180_559_945;
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;
/// Bytes of the header without layers, and of a layer in it.
const HEADER: usize = 20;
const LAYER: usize = 53;
/// Words of a layer in the note.
const LAYER_NOTE: usize = 4;

pub(crate) const CODEC: Codec = Codec {
    title: "RedisBloom, BF.SCANDUMP (experimental)",
    hash: HashId::RedisBloomMurmur2,
    seed: 0,
    recognises: Some(|bytes| header(bytes).is_ok()),
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        let fpr = fpr * TIGHTENING;
        let per_key = -fpr.ln() / LN_2_SQUARED;
        let bits = at_least_one((keys as f64 * per_key).floor()).next_multiple_of(64);
        let size = (Walk::RedisBloom, bits, (LN_2 * per_key).ceil(), keys);
        let AnyFilter::ForeignBloom(filter) = build_bloom(size, hashes, options)? else {
            return Err(tamis::Error::Mismatch { what: "kind" });
        };
        let [rate, per_key] = [fpr, per_key].map(f64::to_bits);
        Ok(filter.with_note(&[NO_ROUNDING | HASH_64, GROWTH, rate, per_key, keys, 0])?.into())
    },
};

struct Header<'a> {
    older: Vec<ForeignLayer>,
    newest: ForeignLayer,
    /// The capacity of the newest layer.
    capacity: u64,
    /// What the note holds.
    note: Vec<u64>,
    /// The bits of all layers, the oldest first.
    body: &'a [u8],
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(Format::RedisBloom, bytes);
    let (keys, layers) = (rest.u64_le()?, rest.u32_le()?);
    if layers as usize > MAX_FOREIGN_LAYERS {
        return Err(rest.malformed("its chain has more than 256 layers"));
    }
    let [options, growth] = [rest.u32_le()?, rest.u32_le()?].map(u64::from);
    if options & HASH_64 == 0 {
        return Err(rest.malformed("32-bit hashes are not supported"));
    }
    let (mut older, mut note) = (Vec::new(), vec![options, growth]);
    let (mut held, mut len, mut newest_capacity) = (0u64, 0u64, 0);
    for _ in 0..layers {
        let (bytes, bits, keys) = (rest.u64_le()?, rest.u64_le()?, rest.u64_le()?);
        let [rate, per_key] = [rest.u64_le()?, rest.u64_le()?];
        let probes = rest.u32_le()?;
        let probes = rest.probes(probes.into())?;
        let (capacity, logarithm) = (rest.u64_le()?, rest.u8()?);
        if bits == 0 || bits.div_ceil(8) != bytes {
            return Err(rest.malformed("its numbers of bits and bytes contradict each other"));
        }
        if logarithm > 0 && 1u64.checked_shl(logarithm.into()) != Some(bits) {
            return Err(rest.malformed("its number of bits is not the power of 2 that it states"));
        }
        let overflow = || rest.malformed("the sum of its layers overflows");
        held = held.checked_add(keys).ok_or_else(overflow)?;
        len = len.checked_add(bytes).ok_or_else(overflow)?;
        older.push(ForeignLayer { bits, probes, keys });
        note.extend([rate, per_key, capacity, logarithm.into()]);
        newest_capacity = capacity;
    }
    let newest = older.pop().ok_or_else(|| rest.malformed("its chain has no layer"))?;
    if held != keys {
        return Err(rest.malformed("its numbers of keys contradict each other"));
    }
    Ok(Header { older, newest, capacity: newest_capacity, note, body: rest.exactly(len)? })
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { older, newest, capacity, note, mut body } = header(input.bytes)?;
    let mut layers = Vec::new();
    for layer in older {
        let len = usize::try_from(layer.bits.div_ceil(8)).unwrap_or(usize::MAX);
        let (bits, after) = body.split_at_checked(len).unwrap_or((body, &[]));
        layers.push((layer, input.words_le(bits)?));
        body = after;
    }
    let ForeignLayer { bits, probes, keys } = newest;
    let filter = ForeignBloom::from_words(Walk::RedisBloom, bits, probes, input.words_le(body)?)?;
    let filter =
        filter.with_keys(keys, keys.max(capacity))?.with_older(layers)?.with_note(&note)?;
    Ok(Keyed::new(KeyHasher::new(HashId::RedisBloomMurmur2, [0; 2]), filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(Format::RedisBloom, why);
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::RedisBloom, keyed));
    };
    let shape = filter.shape();
    let [options, growth, notes @ ..] = filter.note() else {
        return Err(unsuitable("it does not state its capacity and rate"));
    };
    if shape.walk() != Walk::RedisBloom {
        return Err(unsuitable("it has the walk of another program"));
    }
    let held = shape.older().iter().fold(0u64, |sum, layer| sum.saturating_add(layer.keys));
    let keys = filter.len().saturating_sub(held);
    let newest = ForeignLayer { bits: shape.bits(), probes: shape.probes(), keys };
    let layers = [shape.older(), &[newest]].concat();
    let (notes, odd) = notes.as_chunks::<LAYER_NOTE>();
    if notes.len() != layers.len() || !odd.is_empty() {
        return Err(unsuitable("its note is damaged"));
    }
    let small = |number: u64| u32::try_from(number).map_err(|_| unsuitable("its note is damaged"));
    let words = || filter.older_words().chain([filter.words()]);
    let bytes = words().fold(0usize, |sum, words| sum.saturating_add(size_of_val(words)));
    let headers = layers.len().saturating_mul(LAYER).saturating_add(HEADER);
    let mut out = buffer(bytes.saturating_add(headers))?;
    out.extend(filter.len().to_le_bytes());
    for number in [layers.len() as u64, *options, *growth] {
        out.extend(small(number)?.to_le_bytes());
    }
    for (ForeignLayer { bits, probes, keys }, [rate, per_key, capacity, logarithm]) in
        layers.iter().zip(notes)
    {
        for number in [bits.div_ceil(8), *bits, *keys, *rate, *per_key] {
            out.extend(number.to_le_bytes());
        }
        out.extend(probes.to_le_bytes());
        out.extend(capacity.to_le_bytes());
        out.push(u8::try_from(*logarithm).map_err(|_| unsuitable("its note is damaged"))?);
    }
    for (layer, words) in layers.iter().zip(words()) {
        push_le(&mut out, words, usize::try_from(layer.bits.div_ceil(8)).unwrap_or(usize::MAX));
    }
    Ok(out)
}
