//! The binary fuse filters of FastFilter's `xor_singleheader` and its kin, with 8 or 16 bits per cell.
//! All numbers are little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 to 7 | seed |
//! | 8 to 11 | keys |
//! | 12 to 15 | cells of a segment, a power of 2 |
//! | 16 to 19 | segments that have first cells |
//! | 20 to 23 | their cells |
//! | 24 to 27 | cells |
//! | then | cells of 1 or 2 bytes |
//!
//! `binary_fuse16_serialization_bytes` counts 4 bytes too many, so files of 16-bit cells may end with 4
//! bytes that mean nothing. They are read, and written if the cells are.

use tamis::{AnyFilter, Build, Filter, ForeignFuse, ForeignFuseShape, HashId, KeyHasher, Keyed};

use crate::bytes::{Bytes, Input, buffer};
use crate::error::{other_kind, unsuitable};
use crate::{Codec, Error, Format};

/// The bytes after 16-bit cells that the library counts and does not use.
const TAIL: u64 = 4;

pub(crate) const FUSE8: Codec = Codec {
    title: "FastFilter, binary_fuse8_serialize",
    hash: HashId::FastFilter,
    seed: 0,
    recognises: Some(|bytes| header(8, bytes).is_ok()),
    read: |input| read(8, input),
    write: |filter| write(8, filter),
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        if fpr < 1.0 / 256.0 {
            return Err(tamis::Error::Infeasible { why: "cells of 8 bits have a rate of 1/256" });
        }
        build(keys, 8, hashes, options)
    },
};

pub(crate) const FUSE16: Codec = Codec {
    title: "FastFilter, binary_fuse16_serialize",
    hash: HashId::FastFilter,
    seed: 0,
    recognises: Some(|bytes| header(16, bytes).is_ok()),
    read: |input| read(16, input),
    write: |filter| write(16, filter),
    #[cfg(feature = "std")]
    build: |keys, fpr, hashes, options| {
        if fpr < 1.0 / 65_536.0 {
            return Err(tamis::Error::Infeasible {
                why: "cells of 16 bits have a rate of 1/65536",
            });
        }
        build(keys, 16, hashes, options)
    },
};

fn build(
    keys: u64,
    width: u32,
    hashes: &mut dyn tamis::KeySource,
    options: &tamis::BuildOptions<'_>,
) -> Result<AnyFilter, tamis::Error> {
    let fit = |distinct: u64| match distinct <= keys {
        true => ForeignFuseShape::new(distinct, width),
        false => Err(tamis::Error::Capacity { capacity: keys }),
    };
    ForeignFuse::build_with(options, fit, hashes).map(Into::into)
}

fn format(width: u32) -> Format {
    if width == 8 { Format::Fuse8 } else { Format::Fuse16 }
}

struct Header<'a> {
    seed: u64,
    keys: u64,
    shape: ForeignFuseShape,
    cells: &'a [u8],
}

fn header(width: u32, bytes: &[u8]) -> Result<Header<'_>, Error> {
    let mut rest = Bytes::new(format(width), bytes);
    let seed = rest.u64_le()?;
    let keys = u64::from(rest.u32_le()?);
    let segment = rest.u32_le()?;
    let [count, places, cells] = [rest.u32_le()?, rest.u32_le()?, rest.u32_le()?].map(u64::from);
    if !segment.is_power_of_two() {
        return Err(rest.malformed("the length of a segment is not a power of 2"));
    }
    let first = count.saturating_mul(segment.into());
    let all = first.saturating_add(u64::from(segment).saturating_mul(2));
    if places != first || cells != all {
        return Err(rest.malformed("the numbers of segments and cells contradict each other"));
    }
    if keys > cells {
        return Err(rest.malformed("it has more keys than cells"));
    }
    let shape = ForeignFuseShape::from_segments(width, segment.ilog2(), count, keys)
        .map_err(|_| rest.malformed("it has no cells, or too many"))?;
    let len = cells.saturating_mul(u64::from(width) / 8);
    let with_tail = width == 16 && rest.rest().len() as u64 == len.saturating_add(TAIL);
    let body = rest.exactly(if with_tail { len.saturating_add(TAIL) } else { len })?;
    let cells = body.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(body);
    Ok(Header { seed, keys, shape, cells })
}

fn read(width: u32, input: &Input<'_>) -> Result<Keyed<AnyFilter>, Error> {
    let Header { seed, keys, shape, cells } = header(width, input.bytes)?;
    let filter = match input.offset_of(cells) {
        Some((buffer, at)) => ForeignFuse::from_shared(shape, seed, keys, buffer, at)?,
        None => ForeignFuse::from_words(shape, seed, keys, input.words_le(cells)?)?,
    };
    Ok(Keyed::new(KeyHasher::new(HashId::FastFilter, [0; 2]), filter.into()))
}

fn write(width: u32, keyed: &Keyed<AnyFilter>) -> Result<Vec<u8>, Error> {
    let unsuitable = |why| unsuitable(format(width), why);
    let AnyFilter::ForeignFuse(filter) = keyed.filter() else {
        return Err(other_kind(format(width), keyed));
    };
    let shape = filter.shape();
    if shape.width() != width {
        return Err(unsuitable("its cells have another width"));
    }
    let (segment, count, cells) = (shape.segment_len(), shape.segment_count(), shape.cells());
    let bytes = filter.cells();
    let mut out = buffer(bytes.len().saturating_add(32))?;
    out.extend(filter.seed().to_le_bytes());
    for number in [filter.len(), segment, count, count.saturating_mul(segment), cells] {
        let number = u32::try_from(number).map_err(|_| unsuitable("it has 2^32 keys or more"))?;
        out.extend(number.to_le_bytes());
    }
    out.extend_from_slice(&bytes);
    if width == 16 {
        out.extend([0; 4]);
    }
    Ok(out)
}
