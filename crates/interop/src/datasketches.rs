//! The Bloom filter of Apache DataSketches. All numbers are little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 | words of the header: 3 if the filter is empty, else 4 |
//! | 1 | 1, the version |
//! | 2 | 21, the family |
//! | 3 | 4 if the filter is empty, else 0 |
//! | 4 and 5 | hash functions |
//! | 8 to 15 | seed |
//! | 16 to 19 | words |
//! | 24 to 31 | bits that are set, or all ones if they were not counted |
//! | 32 and on | words of 64 bits |
//!
//! An empty filter ends at byte 24. The filter's note is 1 if the set bits were not counted.

use tamis::{AnyFilter, Build, ForeignBloom, HashId, KeyHasher, Keyed, Walk};
use tamis_bits::Words;

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom, ideal_bits, ideal_probes};
use crate::{Codec, Error, Format};

const FAMILY: u8 = 21;
const EMPTY: u8 = 4;
const NOT_COUNTED: u64 = u64::MAX;
/// An empty filter states its size, and has no bits to prove it.
const MOST_EMPTY_WORDS: u64 = 1 << 17;

pub(crate) const CODEC: Codec = Codec {
    title: "Apache DataSketches, BloomFilter",
    hash: HashId::DataSketchesXxh64,
    // The default of the library.
    seed: 9001,
    recognises: Some(|bytes| header(bytes).is_ok()),
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        let bits = ideal_bits(keys, fpr).round();
        let probes = ideal_probes(bits, keys).ceil();
        let bits = at_least_one(bits).next_multiple_of(64);
        build_bloom((Walk::DataSketches, bits, probes, keys), hashes, options)
    },
};

struct Header<'a> {
    probes: u32,
    seed: u64,
    words: u64,
    /// The bits that are set and the words, unless the filter is empty.
    body: Option<(u64, &'a [u8])>,
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(Format::DataSketches, bytes);
    let [longs, version, family, flags] = rest.take()?;
    if family != FAMILY || version != 1 || !(3..=4).contains(&longs) {
        return Err(rest.malformed("it is not of family 21, version 1"));
    }
    let is_empty = flags & EMPTY != 0;
    if is_empty != (longs == 3) {
        return Err(rest.malformed("the length of its header contradicts its flags"));
    }
    let probes = rest.u16_le()?;
    let probes = rest.probes(probes.into())?;
    rest.u16_le()?;
    let seed = rest.u64_le()?;
    let words = u64::from(rest.u32_le()?);
    rest.u32_le()?;
    if !(1..1 << 31).contains(&words) {
        return Err(rest.malformed("the number of words is not positive"));
    }
    if is_empty {
        if words > MOST_EMPTY_WORDS {
            return Err(rest.malformed("an empty filter of more than 1 MiB is not supported"));
        }
        rest.exactly(0)?;
        return Ok(Header { probes, seed, words, body: None });
    }
    let ones = rest.u64_le()?;
    let body = rest.exactly(words.saturating_mul(8))?;
    Ok(Header { probes, seed, words, body: Some((ones, body)) })
}

fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).fold(0, u64::wrapping_add)
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { probes, seed, words, body } = header(input.bytes)?;
    let bits = words.saturating_mul(64);
    let filter = match body {
        None => {
            let len = usize::try_from(words).unwrap_or(usize::MAX);
            let zeros = Words::zeroed(len).map_err(tamis::Error::from)?;
            ForeignBloom::from_words(Walk::DataSketches, bits, probes, zeros)?
        }
        Some((stated, body)) => {
            let words = input.words_le(body)?;
            let filter = ForeignBloom::from_words(Walk::DataSketches, bits, probes, words)?;
            if stated != NOT_COUNTED && stated != ones(filter.words()) {
                let rest = Bytes::new(Format::DataSketches, input.bytes);
                return Err(rest.malformed("it has not as many bits as it states"));
            }
            filter.with_note(&[u64::from(stated == NOT_COUNTED)])?
        }
    };
    Ok(Keyed::new(KeyHasher::new(HashId::DataSketchesXxh64, [seed, 0]), filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(Format::DataSketches, why);
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::DataSketches, keyed));
    };
    let shape = filter.shape();
    if shape.walk() != Walk::DataSketches || !shape.bits().is_multiple_of(64) {
        return Err(unsuitable("it has the walk or the size of another program"));
    }
    let words = u32::try_from(filter.words().len()).ok().filter(|words| *words < 1 << 31);
    let words = words.ok_or_else(|| unsuitable("it has 2^31 words or more"))?;
    let probes = u16::try_from(shape.probes()).map_err(|_| unsuitable("too many functions"))?;
    let set = ones(filter.words());
    let mut out = buffer(size_of_val(filter.words()).saturating_add(32))?;
    out.extend(if set == 0 { [3, 1, FAMILY, EMPTY] } else { [4, 1, FAMILY, 0] });
    out.extend(probes.to_le_bytes());
    out.extend([0; 2]);
    let [seed, _] = keyed.hasher().seed();
    out.extend(seed.to_le_bytes());
    out.extend(words.to_le_bytes());
    out.extend([0; 4]);
    if set > 0 {
        let stated = if filter.note() == [1] { NOT_COUNTED } else { set };
        out.extend(stated.to_le_bytes());
        push_le(&mut out, filter.words(), size_of_val(filter.words()));
    }
    Ok(out)
}
