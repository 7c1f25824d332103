//! `org.apache.spark.util.sketch.BloomFilter`, versions 1 and 2. All numbers are big-endian.
//!
//! | bytes | version 1 | version 2 |
//! | --- | --- | --- |
//! | 0 to 3 | 1 | 2 |
//! | 4 to 7 | hash functions | hash functions |
//! | 8 to 11 | words | seed |
//! | 12 to 15 | | words |
//! | then | words of 64 bits | words of 64 bits |

use tamis::{AnyFilter, Build, ForeignBloom, HashId, KeyHasher, Keyed, Walk};

use crate::bytes::{Bytes, Input, buffer, push_be};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom, ideal_bits, ideal_probes};
use crate::{Codec, Error, Format};

pub(crate) const V1: Codec = Codec {
    title: "Apache Spark, BloomFilter version 1",
    hash: HashId::SparkMurmur3,
    seed: 0,
    recognises: Some(|bytes| header(Format::SparkV1, bytes).is_ok()),
    read: |input| read(Format::SparkV1, input),
    write: |filter| write(Format::SparkV1, filter),
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        build_bloom(size(Walk::SparkV1, keys, fpr), hashes, options)
    },
};

pub(crate) const V2: Codec = Codec {
    title: "Apache Spark 4.1 and later, BloomFilter version 2",
    hash: HashId::SparkMurmur3,
    seed: 0,
    recognises: Some(|bytes| header(Format::SparkV2, bytes).is_ok()),
    read: |input| read(Format::SparkV2, input),
    write: |filter| write(Format::SparkV2, filter),
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        build_bloom(size(Walk::SparkV2, keys, fpr), hashes, options)
    },
};

/// Returns walk, bits, hash functions and keys as `BloomFilter.create(keys, fpr)` chooses them.
fn size(walk: Walk, keys: u64, fpr: f64) -> (Walk, u64, f64, u64) {
    let bits = ideal_bits(keys, fpr).floor();
    let probes = ideal_probes(bits, keys).round();
    (walk, at_least_one(bits).next_multiple_of(64), probes, keys)
}

struct Header<'a> {
    probes: u32,
    seed: u32,
    words: u64,
    body: &'a [u8],
}

fn header(format: Format, bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(format, bytes);
    let version = if format == Format::SparkV1 { 1 } else { 2 };
    match rest.u32_be()? {
        found if found == version => {}
        found if found.swap_bytes() == version => {
            return Err(rest.malformed("its numbers are little-endian, and Spark's are big-endian"));
        }
        1 => return Err(rest.malformed("it has version 1")),
        2 => return Err(rest.malformed("it has version 2")),
        _ => return Err(rest.malformed("it does not begin with its version")),
    }
    let probes = rest.u32_be()?;
    let probes = rest.probes(probes.into())?;
    let seed = if version == 1 { 0 } else { rest.u32_be()? };
    let words = u64::from(rest.u32_be()?);
    if !(1..1 << 31).contains(&words) {
        return Err(rest.malformed("the number of words is not positive"));
    }
    let body = rest.exactly(words.saturating_mul(8))?;
    Ok(Header { probes, seed, words, body })
}

fn read(format: Format, input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { probes, seed, words, body } = header(format, input.bytes)?;
    let walk = if format == Format::SparkV1 { Walk::SparkV1 } else { Walk::SparkV2 };
    let bits = words.saturating_mul(64);
    let filter = ForeignBloom::from_words(walk, bits, probes, input.words_be(body)?)?;
    Ok(Keyed::new(KeyHasher::new(HashId::SparkMurmur3, [seed.into(), 0]), filter.into()))
}

fn write(format: Format, keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let (walk, version) =
        if format == Format::SparkV1 { (Walk::SparkV1, 1u32) } else { (Walk::SparkV2, 2) };
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(format, keyed));
    };
    if filter.shape().walk() != walk {
        return Err(unsuitable(format, "it is of the other version, which sets other bits"));
    }
    let [seed, _] = keyed.hasher().seed();
    if version == 1 && seed != 0 {
        return Err(unsuitable(format, "version 1 has no seed"));
    }
    if !filter.shape().bits().is_multiple_of(64) {
        return Err(unsuitable(format, "its bits are not whole words of 64"));
    }
    let words = u32::try_from(filter.words().len()).ok().filter(|words| *words < 1 << 31);
    let words = words.ok_or_else(|| unsuitable(format, "it has 2^31 words or more"))?;
    let mut out = buffer(size_of_val(filter.words()).saturating_add(16))?;
    out.extend(version.to_be_bytes());
    out.extend(filter.shape().probes().to_be_bytes());
    if version == 2 {
        // The seed of Spark's hash has 32 bits.
        out.extend(u32::try_from(seed).unwrap_or(0).to_be_bytes());
    }
    out.extend(words.to_be_bytes());
    push_be(&mut out, filter.words());
    Ok(out)
}
