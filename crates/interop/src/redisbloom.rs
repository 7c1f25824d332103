//! `BF.SCANDUMP` of RedisBloom: the data of all its replies, one after the other. Experimental, since no
//! server was at hand to compare with. All numbers are little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 to 7 | keys |
//! | 8 to 11 | 1, the number of filters in the chain |
//! | 12 to 15 | options: 4 means 64-bit hashes |
//! | 16 to 19 | growth of the chain |
//! | 20 to 27 | bytes of bits |
//! | 28 to 35 | bits |
//! | 36 to 43 | keys |
//! | 44 to 51 | false positive rate, a 64-bit float |
//! | 52 to 59 | bits per key, a 64-bit float |
//! | 60 to 63 | hash functions |
//! | 64 to 71 | capacity in keys |
//! | 72 | logarithm of the bits, or 0 if they are not a power of 2 |
//! | then | bits, 8 per byte from the lowest on |
//!
//! The filter's note holds options, growth, rate, bits per key, capacity and the logarithm.

use tamis::{AnyFilter, Build, Filter, ForeignBloom, HashId, KeyHasher, Keyed, Walk};

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom};
use crate::{Codec, Error, Format};

/// The option of 64-bit hashes, and that of sizes that are not powers of 2.
const HASH_64: u64 = 4;
const NO_ROUNDING: u64 = 1;
/// The factor by which a chain grows unless it is told otherwise.
const GROWTH: u64 = 2;

pub(crate) const CODEC: Codec = Codec {
    title: "RedisBloom, BF.SCANDUMP (experimental)",
    hash: HashId::RedisBloomMurmur2,
    seed: 0,
    recognises: Some(|bytes| header(bytes).is_ok()),
    read,
    write,
    build: |keys, fpr, hashes, options| {
        let ln_2 = std::f64::consts::LN_2;
        let per_key = -fpr.ln() / (ln_2 * ln_2);
        let bits = at_least_one((keys as f64 * per_key).floor()).next_multiple_of(64);
        let size = (Walk::RedisBloom, bits, (ln_2 * per_key).ceil(), keys);
        let AnyFilter::ForeignBloom(filter) = build_bloom(size, hashes, options)? else {
            return Err(tamis::Error::Mismatch { what: "kind" });
        };
        let [rate, per_key] = [fpr, per_key].map(f64::to_bits);
        Ok(filter.with_note(&[NO_ROUNDING | HASH_64, GROWTH, rate, per_key, keys, 0])?.into())
    },
};

struct Header<'a> {
    keys: u64,
    bits: u64,
    probes: u32,
    /// What the note holds.
    note: [u64; 6],
    body: &'a [u8],
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(Format::RedisBloom, bytes);
    let keys = rest.u64_le()?;
    match rest.u32_le()? {
        1 => {}
        0 => return Err(rest.malformed("its chain has no filter")),
        _ => {
            return Err(rest.malformed(
                "its chain has several filters, which is not supported; add the keys again to a key \
                 that BF.RESERVE made for all of them",
            ));
        }
    }
    let [options, growth] = [rest.u32_le()?, rest.u32_le()?].map(u64::from);
    if options & HASH_64 == 0 {
        return Err(rest.malformed("32-bit hashes are not supported"));
    }
    let (bytes, bits) = (rest.u64_le()?, rest.u64_le()?);
    if rest.u64_le()? != keys {
        return Err(rest.malformed("its numbers of keys contradict each other"));
    }
    let [rate, per_key] = [rest.u64_le()?, rest.u64_le()?];
    let probes = rest.u32_le()?;
    let probes = rest.probes(probes.into())?;
    let (capacity, logarithm) = (rest.u64_le()?, u64::from(rest.u8()?));
    if bits == 0 || bits.div_ceil(8) != bytes {
        return Err(rest.malformed("its numbers of bits and bytes contradict each other"));
    }
    let note = [options, growth, rate, per_key, capacity, logarithm];
    Ok(Header { keys, bits, probes, note, body: rest.exactly(bytes)? })
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { keys, bits, probes, note, body } = header(input.bytes)?;
    let [.., capacity, _] = note;
    let filter = ForeignBloom::from_words(Walk::RedisBloom, bits, probes, input.words_le(body)?)?;
    let filter = filter.with_keys(keys, keys.max(capacity))?.with_note(&note)?;
    Ok(Keyed::new(KeyHasher::new(HashId::RedisBloomMurmur2, [0; 2]), filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(Format::RedisBloom, why);
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::RedisBloom, keyed));
    };
    let shape = filter.shape();
    let [options, growth, rate, per_key, capacity, logarithm] = filter.note() else {
        return Err(unsuitable("it does not state its capacity and rate"));
    };
    if shape.walk() != Walk::RedisBloom {
        return Err(unsuitable("it has the walk of another program"));
    }
    let small =
        |number: &u64| u32::try_from(*number).map_err(|_| unsuitable("its note is damaged"));
    let logarithm = u8::try_from(*logarithm).map_err(|_| unsuitable("its note is damaged"))?;
    let len = shape.bits().div_ceil(8);
    let mut out = buffer(size_of_val(filter.words()).saturating_add(73))?;
    out.extend(filter.len().to_le_bytes());
    for number in [1, small(options)?, small(growth)?] {
        out.extend(number.to_le_bytes());
    }
    for number in [len, shape.bits(), filter.len(), *rate, *per_key] {
        out.extend(number.to_le_bytes());
    }
    out.extend(shape.probes().to_le_bytes());
    out.extend(capacity.to_le_bytes());
    out.push(logarithm);
    push_le(&mut out, filter.words(), usize::try_from(len).unwrap_or(usize::MAX));
    Ok(out)
}
