//! Blocks of records, each of one bucket, in the order in which they filled up.
//!
//! ```text
//!  slabs   ┌───────┬───────┬───────┬───────┬─ … ─┐ ┌───────┬─ …
//!          │ block │ block │ block │ block │     │ │ block │
//!          └───────┴───────┴───────┴───────┴─ … ─┘ └───────┴─ …
//!  owners     7f      03      7f      c2               03
//! ```
//!
//! Nothing is ever copied to grow, and no bucket has room to spare. All blocks of a bucket are
//! full but its last.

use tamis_bits::Words;

use super::{BUCKETS, Record};
use crate::error::Error;

/// Records of a block: 2 KiB of digests, and half a megabyte of buffers for all buckets, which the
/// second-level cache holds. Half as many measure no slower, a quarter does.
pub(super) const BLOCK: usize = 256;
/// Blocks that are allocated at once: enough to be a map of their own, which goes back to the
/// system as soon as it is dropped.
const SLAB: usize = 2048;

#[derive(Debug)]
pub(super) struct Arena<const W: usize> {
    slabs: Vec<Words>,
    owners: Vec<u8>,
    /// Records of each bucket.
    lens: Vec<usize>,
    /// Blocks that it may have at the most.
    most: usize,
}

impl<const W: usize> Arena<W> {
    const SLAB_BYTES: usize = SLAB * BLOCK * W * 8;

    /// Nothing, to become so many bytes at the most, but at least a slab.
    pub(super) fn new(most: u64) -> Self {
        let slabs = usize::try_from(most).unwrap_or(usize::MAX) / Self::SLAB_BYTES;
        let most = slabs.max(1).saturating_mul(SLAB);
        Self { slabs: Vec::new(), owners: Vec::new(), lens: vec![0; BUCKETS], most }
    }

    /// Whether there is no room for another block.
    pub(super) fn is_full(&self) -> bool {
        self.owners.len() >= self.most
    }

    /// Adds a block; if it is not full, the last of its bucket.
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

    /// Forgets all records, but not the memory.
    pub(super) fn clear(&mut self) {
        self.owners.clear();
        self.lens.fill(0);
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.slabs.len() as u64 * Self::SLAB_BYTES as u64
    }

    /// The records of each bucket.
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

    /// The records of each bucket to write to, and how many there are, to be made less.
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

/// How many of the records that are left are in the next block, if any.
fn take(left: &mut usize) -> Option<usize> {
    let len = BLOCK.min(*left);
    *left -= len;
    (len > 0).then_some(len)
}
