//! Blocks of records, each of one bucket, in the order in which they became full.
//!
//! ```text
//!  slabs   ┌───────┬───────┬───────┬───────┬─ … ─┐ ┌───────┬─ …
//!          │ block │ block │ block │ block │     │ │ block │
//!          └───────┴───────┴───────┴───────┴─ … ─┘ └───────┴─ …
//!  owners     7f      03      7f      c2               03
//! ```
//!
//! No block is ever copied to grow, and no bucket reserves spare memory. All blocks of a bucket but
//! its last are full.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::Words;

use super::{BUCKETS, Record};
use crate::error::Error;

/// Records of a block: 2 KiB of digests, and 512 KiB of buffers for all buckets, which fit the
/// second-level cache. Half as many measure no slower, a quarter does.
pub(super) const BLOCK: usize = 256;
/// Blocks that are allocated at once: enough for a separate memory map, which returns to the system
/// as soon as it is dropped.
const SLAB: usize = 2048;

#[derive(Debug)]
pub(super) struct Arena<const W: usize> {
    slabs: Vec<Words>,
    owners: Vec<u8>,
    /// The number of records of each bucket.
    lens: Vec<usize>,
    /// The most blocks that the arena may hold.
    most: usize,
}

impl<const W: usize> Arena<W> {
    const SLAB_BYTES: usize = SLAB * BLOCK * W * 8;

    /// Returns an empty arena that may grow to `most` bytes, and to at least one slab.
    pub(super) fn new(most: u64) -> Self {
        let slabs = usize::try_from(most).unwrap_or(usize::MAX) / Self::SLAB_BYTES;
        let most = slabs.max(1).saturating_mul(SLAB);
        Self { slabs: Vec::new(), owners: Vec::new(), lens: vec![0; BUCKETS], most }
    }

    /// Returns whether there is no room for another block.
    pub(super) fn is_full(&self) -> bool {
        self.owners.len() >= self.most
    }

    /// Returns the number of records.
    #[cfg(feature = "std")]
    pub(super) fn len(&self) -> u64 {
        self.lens.iter().map(|len| *len as u64).sum()
    }

    /// Adds a block. A block that is not full must be the last of its bucket.
    pub(super) fn push(&mut self, bucket: usize, records: &[Record<W>]) -> Result<(), Error> {
        let (slab, at) = (self.owners.len() / SLAB, self.owners.len() % SLAB);
        if slab == self.slabs.len() {
            self.slabs.push(Words::zeroed(SLAB * BLOCK * W)?);
        }
        let (blocks, _) = self.slabs[slab].to_mut().as_chunks_mut();
        blocks[at * BLOCK..][..records.len()].copy_from_slice(records);
        self.owners.push(bucket as u8);
        self.lens[bucket] += records.len();
        Ok(())
    }

    /// Takes the blocks of `other`, which are all full. Copies only those of its last slab, if that has
    /// room left.
    pub(super) fn absorb(&mut self, mut other: Self) -> Result<(), Error> {
        let full = other.owners.len() / SLAB;
        let owners = other.owners.split_off(full * SLAB);
        if let Some(rest) = other.slabs.get(full) {
            for (owner, block) in owners.iter().zip(rest.as_chunks().0.chunks_exact(BLOCK)) {
                self.push(usize::from(*owner), block)?;
            }
        }
        for owner in &other.owners {
            self.lens[usize::from(*owner)] += BLOCK;
        }
        self.slabs.splice(..0, other.slabs.drain(..full));
        self.owners.splice(..0, other.owners);
        Ok(())
    }

    /// Removes all records and keeps the memory.
    #[cfg(feature = "std")]
    pub(super) fn clear(&mut self) {
        self.owners.clear();
        self.lens.fill(0);
    }

    /// Returns the allocated bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.slabs.len() as u64 * Self::SLAB_BYTES as u64
    }

    /// Returns the blocks of each bucket.
    pub(super) fn buckets(&self) -> Vec<Vec<&[Record<W>]>> {
        let mut left = self.lens.clone();
        let mut buckets: Vec<Vec<_>> = room_for_blocks(&left);
        let blocks = self.slabs.iter().flat_map(|slab| slab.as_chunks().0.chunks_exact(BLOCK));
        for (owner, block) in self.owners.iter().zip(blocks) {
            if let Some(len) = take(&mut left[usize::from(*owner)]) {
                buckets[usize::from(*owner)].push(&block[..len]);
            }
        }
        buckets
    }

    /// Returns the blocks of each bucket for writing, and its number of records, which may be lowered.
    pub(super) fn buckets_mut(&mut self) -> Vec<(Vec<&mut [Record<W>]>, &mut usize)> {
        let mut left = self.lens.clone();
        let mut buckets: Vec<Vec<_>> = room_for_blocks(&left);
        let slabs = self.slabs.iter_mut();
        let blocks = slabs.flat_map(|slab| slab.to_mut().as_chunks_mut().0.chunks_exact_mut(BLOCK));
        for (owner, block) in self.owners.iter().zip(blocks) {
            if let Some(len) = take(&mut left[usize::from(*owner)]) {
                buckets[usize::from(*owner)].push(&mut block[..len]);
            }
        }
        buckets.into_iter().zip(&mut self.lens).collect()
    }
}

fn room_for_blocks<T>(lens: &[usize]) -> Vec<Vec<T>> {
    lens.iter().map(|len| Vec::with_capacity(len.div_ceil(BLOCK))).collect()
}

/// Takes the records of the next block from those left. Returns their number, or `None` at the end.
fn take(left: &mut usize) -> Option<usize> {
    let len = BLOCK.min(*left);
    *left -= len;
    (len > 0).then_some(len)
}
