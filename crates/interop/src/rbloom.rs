//! `save_bytes` of the Python package rbloom.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 to 7 | hash functions, little-endian |
//! | then | bits, 8 per byte from the lowest on, to the end |
//!
//! The hash function is the caller's own, with 128 bits.

use tamis::{AnyFilter, Build, ForeignBloom, HashId, KeyHasher, Keyed, Walk};

use crate::bytes::{Bytes, Input, buffer, push_le};
use crate::error::{other_kind, unsuitable};
use crate::sizes::{at_least_one, build_bloom, ideal_bits, ideal_probes};
use crate::{Codec, Error, Format};

pub(crate) const CODEC: Codec = Codec {
    title: "the Python package rbloom, save_bytes",
    hash: HashId::Caller,
    seed: 0,
    recognises: None,
    read,
    write,
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        let bits = ideal_bits(keys, fpr).floor();
        let probes = ideal_probes(bits, keys).floor();
        let bits = at_least_one(bits).next_multiple_of(8);
        build_bloom((Walk::Rbloom, bits, probes, keys), hashes, options)
    },
};

fn read(input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let mut rest = Bytes::new(Format::Rbloom, input.bytes);
    let probes = rest.u64_le()?;
    let probes = rest.probes(probes)?;
    if rest.rest().is_empty() {
        return Err(rest.malformed("it has no bits"));
    }
    let bits = (rest.rest().len() as u64).saturating_mul(8);
    let words = input.words_le(rest.rest())?;
    let filter = ForeignBloom::from_words(Walk::Rbloom, bits, probes, words)?;
    Ok(Keyed::new(KeyHasher::new(HashId::Caller, [0; 2]), filter.into()))
}

fn write(keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(Format::Rbloom, why);
    let AnyFilter::ForeignBloom(filter) = keyed.filter() else {
        return Err(other_kind(Format::Rbloom, keyed));
    };
    if filter.shape().walk() != Walk::Rbloom {
        return Err(unsuitable("it has the walk of another program"));
    }
    let bits = filter.shape().bits();
    if !bits.is_multiple_of(8) {
        return Err(unsuitable("its bits are not whole bytes"));
    }
    let len = usize::try_from(bits / 8).map_err(|_| unsuitable("it is too large"))?;
    let mut out = buffer(size_of_val(filter.words()).saturating_add(8))?;
    out.extend(u64::from(filter.shape().probes()).to_le_bytes());
    push_le(&mut out, filter.words(), len);
    Ok(out)
}
