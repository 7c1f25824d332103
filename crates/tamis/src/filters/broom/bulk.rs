//! Builds the bins of a new table from all keys at once.
//!
//! ```text
//!  keys ──► parts: 64 bins or more     │ fingerprints in the order of the keys │ …
//!           a part, sorted by bucket   │ bin 0: buckets 0, 1, … │ bin 1: …     │ ──► each bin is
//!  late     the keys of full bins, which are inserted one by one at the end        written once
//! ```
//!
//! The bytes are those of inserting the keys one by one. A bin takes as many keys as it has slots,
//! the first ones, and the last key of a bucket is in its first slot. Only later keys touch the
//! overflow, whose bytes depend on their order, which is kept.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::packed::mask;

use super::Broom;
use super::bin::Layout;
use super::table::{FIRST, Table};
use crate::error::Error;
use crate::hash::KeyHash;
use crate::options::BuildOptions;
use crate::source::{KeySource, read_all};
use crate::traits::{Build, Insert};

/// Bins per part, at least and at most. A fingerprint and the number of its bin in the part have at
/// most 64 bits.
const MIN_BINS: u64 = 64;
const MAX_BINS: u64 = 1 << 17;
/// Parts that are filled side by side, unless each has [`MAX_BINS`] bins. More exceed the lines and
/// pages of the cache.
const PARTS: u64 = 1 << 12;

/// The most bytes that a build takes per key beside the table: 16 for a late key, while their vector grows to
/// twice its length.
pub(super) const BYTES_PER_KEY: u64 = 48;

/// Inserts the keys into a new filter.
///
/// # Errors
/// [`Error::Capacity`] for more keys than the capacity.
pub(super) fn build(
    options: &BuildOptions<'_>,
    mut filter: Broom,
    keys: impl KeySource,
) -> Result<Broom, Error> {
    let capacity = filter.shape().keys;
    let (mut bulk, mut len) = (Bulk::new(&filter.table)?, 0);
    read_all(options, keys, |run| {
        len += run.len() as u64;
        if len > capacity {
            return Err(Error::Capacity { capacity });
        }
        bulk.take(&filter.table, run)?;
        options.advance(0, len)
    })?;
    let Broom { table, len: placed, .. } = &mut filter;
    let check = |keys| {
        *placed += keys;
        options.advance(*placed, len)
    };
    if table.layout.lines == 1 {
        bulk.write::<true>(table, check)?;
    } else {
        bulk.write::<false>(table, check)?;
    }
    read_all(options, &bulk.late[..], |run| {
        filter.insert_batch(run).map_err(|_| Error::Capacity { capacity })?;
        options.advance(filter.len, len)
    })?;
    Ok(filter)
}

/// The keys of a table that is being built.
struct Bulk {
    layout: Layout,
    /// Binary logarithm of the bins per part.
    shift: u32,
    /// For each key its bin in the part, bucket and remainder.
    parts: Vec<Vec<u64>>,
    /// The keys of each bin in its part, at most as many as it has slots.
    used: Vec<u8>,
    /// The other keys.
    late: Vec<KeyHash>,
}

impl Bulk {
    /// Starts without keys. The table must be new.
    fn new(table: &Table) -> Result<Self, Error> {
        let bins = table.shape.bins;
        let per_part = (bins / PARTS).next_power_of_two().clamp(MIN_BINS, MAX_BINS);
        let parts = vec![Vec::new(); bins.div_ceil(per_part) as usize];
        let mut used = Vec::new();
        reserve(&mut used, bins as usize)?;
        used.resize(bins as usize, 0);
        Ok(Self { layout: table.layout, shift: per_part.ilog2(), parts, used, late: Vec::new() })
    }

    /// Takes keys.
    fn take(&mut self, table: &Table, keys: &[KeyHash]) -> Result<(), Error> {
        let Layout { b, s, r, .. } = self.layout;
        for key in keys {
            let bin = table.bin(*key);
            let used = &mut self.used[bin as usize];
            if u32::from(*used) == s {
                reserve(&mut self.late, 1)?;
                self.late.push(*key);
                continue;
            }
            *used += 1;
            let address = table.address_under(key.lo, FIRST);
            let cell = (bin & mask(self.shift)) * u64::from(b) + u64::from(address.bucket);
            let part = &mut self.parts[(bin >> self.shift) as usize];
            reserve(part, 1)?;
            part.push(cell << r | address.tail >> (64 - r));
        }
        Ok(())
    }

    /// Writes the bins, frees the parts, and calls `check` with the number of keys of each.
    fn write<const PLAIN: bool>(
        &mut self,
        table: &mut Table,
        mut check: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut starts, mut sorted) = (Vec::new(), Vec::new());
        for (part, keys) in core::mem::take(&mut self.parts).into_iter().enumerate() {
            let first = (part as u64) << self.shift;
            let bins = (table.shape.bins - first).min(1 << self.shift);
            self.sort(&keys, bins, &mut starts, &mut sorted);
            let b = self.layout.b as usize;
            for bin in 0..bins as usize {
                let range = starts[bin * b] as usize..starts[(bin + 1) * b] as usize;
                let mut view = table.view_mut_in(table.layout::<PLAIN>(), first + bin as u64);
                view.write(bin as u64 * u64::from(self.layout.b), &sorted[range]);
            }
            check(keys.len() as u64)?;
        }
        Ok(())
    }

    /// Sorts the keys of a part by bin and bucket, those of a bucket from the last to the first.
    /// `starts` becomes the position of the first key of each bucket, and the number of keys.
    fn sort(&self, keys: &[u64], bins: u64, starts: &mut Vec<u32>, sorted: &mut Vec<u64>) {
        let cells = (bins * u64::from(self.layout.b)) as usize;
        let cell = |key: u64| (key >> self.layout.r) as usize;
        starts.clear();
        starts.resize(cells + 1, 0);
        sorted.resize(keys.len(), 0);
        for key in keys {
            starts[cell(*key)] += 1;
        }
        let mut sum = 0;
        for start in &mut *starts {
            sum += *start;
            *start = sum;
        }
        for key in keys {
            let place = &mut starts[cell(*key)];
            *place -= 1;
            sorted[*place as usize] = *key;
        }
    }
}

/// Makes room for more elements.
#[inline(always)]
fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<(), Error> {
    let bytes = (more as u64).saturating_mul(size_of::<T>() as u64);
    vec.try_reserve(more).map_err(|_| Error::Memory { bytes })
}
