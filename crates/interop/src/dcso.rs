//! DCSO's bloom and poppy's version 1. All numbers are little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 to 7 | 1, the version |
//! | 8 to 15 | capacity in keys |
//! | 16 to 23 | false positive rate, a 64-bit float |
//! | 24 to 31 | hash functions |
//! | 32 to 39 | bits |
//! | 40 to 47 | keys |
//! | then | words of 64 bits |
//! | then | data of the user, to the end |
//!
//! The filter's note holds capacity, rate, the number of bytes of the data, and the data.

use tamis::{AnyFilter, Build, Filter, ForeignBloom, HashId, KeyHasher, Keyed, Walk};

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom, ideal_bits, ideal_probes};
use crate::{Codec, Error, Format};

pub(crate) const CODEC: Codec = Codec {
    title: "DCSO bloom, and poppy version 1",
    hash: HashId::DcsoFnv1,
    seed: 0,
    recognises: Some(|bytes| header(bytes).is_ok()),
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        let bits = ideal_bits(keys, fpr).floor();
        let size = (Walk::Dcso, at_least_one(bits), ideal_probes(bits, keys).ceil(), keys);
        let AnyFilter::ForeignBloom(filter) = build_bloom(size, hashes, options)? else {
            return Err(tamis::Error::Mismatch { what: "kind" });
        };
        Ok(filter.with_note(&[keys, fpr.to_bits(), 0])?.into())
    },
};

struct Header<'a> {
    capacity: u64,
    fpr: f64,
    probes: u32,
    bits: u64,
    keys: u64,
    words: &'a [u8],
    data: &'a [u8],
}

fn header(bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(Format::Dcso, bytes);
    match rest.u64_le()? {
        1 => {}
        2 => return Err(rest.malformed("it has version 2 of poppy, which is not supported")),
        _ => return Err(rest.malformed("it does not begin with version 1")),
    }
    let capacity = rest.u64_le()?;
    let fpr = f64::from_bits(rest.u64_le()?);
    if !(fpr > 0.0 && fpr <= 1.0) {
        return Err(rest.malformed("the false positive rate is not between 0 and 1"));
    }
    let probes = rest.u64_le()?;
    let probes = rest.probes(probes)?;
    let (bits, keys) = (rest.u64_le()?, rest.u64_le()?);
    if bits == 0 {
        return Err(rest.malformed("it has no bits"));
    }
    let len = usize::try_from(bits.div_ceil(64).saturating_mul(8)).unwrap_or(usize::MAX);
    let Some((words, data)) = rest.rest().split_at_checked(len) else {
        return Err(rest.malformed("it is truncated"));
    };
    Ok(Header { capacity, fpr, probes, bits, keys, words, data })
}

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { capacity, fpr, probes, bits, keys, words, data } = header(input.bytes)?;
    let mut note = vec![capacity, fpr.to_bits(), data.len() as u64];
    note.extend_from_slice(&Input::copied(data).words_le(data)?);
    let filter = ForeignBloom::from_words(Walk::Dcso, bits, probes, input.words_le(words)?)?;
    let filter = filter.with_keys(keys, keys.max(capacity))?.with_note(&note)?;
    Ok(Keyed::new(KeyHasher::new(HashId::DcsoFnv1, [0; 2]), filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::Dcso, keyed));
    };
    let (shape, note) = (filter.shape(), filter.note());
    let [capacity, fpr, len, data @ ..] = note else {
        return Err(unsuitable(Format::Dcso, "it does not state its capacity and rate"));
    };
    if shape.walk() != Walk::Dcso || data.len() as u64 != len.div_ceil(8) {
        return Err(unsuitable(Format::Dcso, "it has the walk or the note of another program"));
    }
    let size = size_of_val(filter.words()).saturating_add(size_of_val(note)).saturating_add(48);
    let mut out = buffer(size)?;
    for number in [1, *capacity, *fpr, shape.probes().into(), shape.bits(), filter.len()] {
        out.extend(number.to_le_bytes());
    }
    push_le(&mut out, filter.words(), size_of_val(filter.words()));
    push_le(&mut out, data, usize::try_from(*len).unwrap_or(0));
    Ok(out)
}
