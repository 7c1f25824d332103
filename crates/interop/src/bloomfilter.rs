//! The crate `bloomfilter`, version 3: `Bloom::to_bytes`, which valkey-bloom stores. All numbers are
//! little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 | 1, the version |
//! | 1 to 8 | bytes of bits |
//! | 9 to 12 | hash functions |
//! | 13 to 44 | seed: two keys of SipHash-1-3 |
//! | then | bits, 8 per byte from the lowest on |

use tamis::{AnyFilter, Build, ForeignBloom, HashId, KeyHasher, Keyed, Walk};

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom, ideal_bits, ideal_probes};
use crate::{Codec, Error, Format};

pub(crate) const CODEC: Codec = Codec {
    title: "the crate bloomfilter 3, and valkey-bloom",
    hash: HashId::BloomfilterSip13,
    seed: 0,
    recognises: Some(|bytes| header(bytes).is_ok()),
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        let bytes = at_least_one((ideal_bits(keys, fpr) / 8.0).ceil());
        let bits = bytes.saturating_mul(8);
        let probes = ideal_probes(bits as f64, keys).round();
        build_bloom((Walk::Bloomfilter, bits, probes, keys), hashes, options)
    },
};

struct Header<'a> {
    probes: u32,
    /// The two keys, two words each.
    seed: [[u64; 2]; 2],
    body: &'a [u8],
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(Format::Bloomfilter, bytes);
    if rest.u8()? != 1 {
        return Err(rest.malformed("it does not begin with version 1"));
    }
    let len = rest.u64_le()?;
    let probes = rest.u32_le()?;
    let probes = rest.probes(probes.into())?;
    let seed = [[rest.u64_le()?, rest.u64_le()?], [rest.u64_le()?, rest.u64_le()?]];
    if len == 0 {
        return Err(rest.malformed("it has no bits"));
    }
    Ok(Header { probes, seed, body: rest.exactly(len)? })
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { probes, seed: [first, second], body } = header(input.bytes)?;
    let bits = (body.len() as u64).saturating_mul(8);
    let filter = ForeignBloom::from_words(Walk::Bloomfilter, bits, probes, input.words_le(body)?)?;
    let hasher = KeyHasher::new(HashId::BloomfilterSip13, first).with_second_seed(second);
    Ok(Keyed::new(hasher, filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(Format::Bloomfilter, why);
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::Bloomfilter, keyed));
    };
    let shape = filter.shape();
    if shape.walk() != Walk::Bloomfilter {
        return Err(unsuitable("it has the walk of another program"));
    }
    if !shape.bits().is_multiple_of(8) {
        return Err(unsuitable("its bits are not whole bytes"));
    }
    let len = usize::try_from(shape.bits() / 8).map_err(|_| unsuitable("it is too large"))?;
    let mut out = buffer(size_of_val(filter.words()).saturating_add(45))?;
    out.push(1);
    out.extend((len as u64).to_le_bytes());
    out.extend(shape.probes().to_le_bytes());
    let seed = [keyed.hasher().seed(), keyed.hasher().second_seed().unwrap_or_default()];
    seed.as_flattened().iter().for_each(|word| out.extend(word.to_le_bytes()));
    push_le(&mut out, filter.words(), len);
    Ok(out)
}
