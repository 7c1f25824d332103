//! Guava's `BloomFilter.writeTo`. All numbers are big-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 | strategy: 0 is `MURMUR128_MITZ_32`, 1 is `MURMUR128_MITZ_64` |
//! | 1 | hash functions |
//! | 2 to 5 | words |
//! | then | words of 64 bits |

use tamis::{AnyFilter, Build, ForeignBloom, HashId, KeyHasher, Keyed, Walk};

use crate::bytes::{Bytes, Input, buffer, push_be};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom, ideal_bits};
use crate::{Codec, Error, Format};

pub(crate) const CODEC: Codec = Codec {
    title: "Guava, BloomFilter.writeTo",
    hash: HashId::GuavaMurmur3,
    seed: 0,
    recognises: Some(|bytes| header(bytes).is_ok()),
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        // `BloomFilter.create(funnel, keys, fpr)` rounds the bits down and then up to whole words.
        let bits = at_least_one(ideal_bits(keys, fpr).floor()).next_multiple_of(64);
        build_bloom((Walk::Guava64, bits, -fpr.log2().round(), keys), hashes, options)
    },
};

struct Header<'a> {
    walk: Walk,
    probes: u32,
    words: u64,
    body: &'a [u8],
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(Format::Guava, bytes);
    let walk = match rest.u8()? {
        0 => Walk::Guava32,
        1 => Walk::Guava64,
        _ => return Err(rest.malformed("its strategy is neither 0 nor 1")),
    };
    let probes = rest.u8()?;
    let probes = rest.probes(probes.into())?;
    let words = u64::from(rest.u32_be()?);
    if !(1..1 << 31).contains(&words) {
        return Err(rest.malformed("the number of words is not positive"));
    }
    let body = rest.exactly(words.saturating_mul(8))?;
    Ok(Header { walk, probes, words, body })
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { walk, probes, words, body } = header(input.bytes)?;
    let bits = words.saturating_mul(64);
    let filter = ForeignBloom::from_words(walk, bits, probes, input.words_be(body)?)?;
    Ok(Keyed::new(KeyHasher::new(HashId::GuavaMurmur3, [0; 2]), filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(Format::Guava, why);
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::Guava, keyed));
    };
    let strategy = match filter.shape().walk() {
        Walk::Guava32 => 0u8,
        Walk::Guava64 => 1,
        _ => return Err(unsuitable("it has the walk of another program")),
    };
    if !filter.shape().bits().is_multiple_of(64) {
        return Err(unsuitable("its bits are not whole words of 64"));
    }
    let words = u32::try_from(filter.words().len()).ok().filter(|words| *words < 1 << 31);
    let words = words.ok_or_else(|| unsuitable("it has 2^31 words or more"))?;
    let probes = u8::try_from(filter.shape().probes())
        .map_err(|_| unsuitable("it has more than 255 hash functions"))?;
    let mut out = buffer(size_of_val(filter.words()).saturating_add(6))?;
    out.extend([strategy, probes]);
    out.extend(words.to_be_bytes());
    push_be(&mut out, filter.words());
    Ok(out)
}
