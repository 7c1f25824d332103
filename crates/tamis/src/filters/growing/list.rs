//! The list of segments. It grows by one segment at a time, and no push moves more than 64 of them.
//!
//! ```text
//!  chunks │ chunk 0 │ chunk 1 │ chunk 2 │ …
//!  chunk  │ 64 segments; fewer in the last one, which grows by an eighth │
//! ```
//!
//! The table of chunks takes 24 bytes for each, and moves when it doubles: 73 KB at 10^8 keys. Levels
//! of chunks that never moved took a search for the highest bit and one more read in every lookup, 18
//! instructions of 206.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use tamis_bits::OutOfMemory;

use super::segment::Segment;

/// Segments per chunk.
const CHUNK: u64 = 64;

/// A chunk of at most [`CHUNK`] segments.
type Chunk = Vec<Segment>;

/// A list of segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct List {
    len: u64,
    chunks: Vec<Chunk>,
}

impl List {
    #[inline(always)]
    pub(super) fn get(&self, index: u64) -> &Segment {
        &self.chunks[(index / CHUNK) as usize][(index % CHUNK) as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: u64) -> &mut Segment {
        &mut self.chunks[(index / CHUNK) as usize][(index % CHUNK) as usize]
    }

    /// Returns an empty list after a check that `len` segments can be allocated.
    pub(super) fn with_room_for(len: u64) -> Result<Self, OutOfMemory> {
        let bytes = len.saturating_mul(size_of::<Segment>() as u64);
        let len = usize::try_from(len).map_err(|_| OutOfMemory { bytes })?;
        reserve(&mut Chunk::new(), len)?;
        Ok(Self::default())
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.chunks.iter().flatten()
    }

    /// Appends a segment. If memory runs out, the list does not change.
    pub(super) fn push(&mut self, segment: Segment) -> Result<(), OutOfMemory> {
        let at = (self.len / CHUNK) as usize;
        if at == self.chunks.len() {
            if at == self.chunks.capacity() {
                reserve(&mut self.chunks, at.max(1))?;
            }
            self.chunks.push(Chunk::new());
        }
        let chunk = &mut self.chunks[at];
        if chunk.len() == chunk.capacity() {
            reserve(chunk, step(chunk.len() as u64) as usize)?;
        }
        chunk.push(segment);
        self.len += 1;
        Ok(())
    }

    /// Calls `each` with the address and the layout of every allocation of the list, without those
    /// that the segments point to.
    pub(super) fn each_allocation(&self, each: &mut dyn FnMut(NonNull<u8>, Layout)) {
        each_allocation_of(&self.chunks, each);
        self.chunks.iter().for_each(|chunk| each_allocation_of(chunk, each));
    }

    /// Returns the memory of a list of `len` segments in bytes, without what they point to.
    pub(super) fn bytes(len: u64) -> u64 {
        let (chunks, last) =
            (len.div_ceil(CHUNK), len - len.div_ceil(CHUNK).saturating_sub(1) * CHUNK);
        let mut segments = chunks.saturating_sub(1) * CHUNK;
        let mut room = 0;
        while room < last {
            room += step(room);
        }
        segments += room;
        let headers = if chunks == 0 { 0 } else { chunks.next_power_of_two() };
        segments * size_of::<Segment>() as u64 + headers * size_of::<Chunk>() as u64
    }
}

/// Returns by how many segments a full chunk of `len` grows.
fn step(len: u64) -> u64 {
    (len / 8).max(1).min(CHUNK - len)
}

/// Calls `each` with the allocation of `list`, if it has one.
fn each_allocation_of<T>(list: &Vec<T>, each: &mut dyn FnMut(NonNull<u8>, Layout)) {
    let (start, layout) =
        (NonNull::new(list.as_ptr().cast_mut()), Layout::array::<T>(list.capacity()));
    if let (1.., Some(start), Ok(layout)) = (list.capacity(), start, layout) {
        each(start.cast(), layout);
    }
}

fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    let bytes = (more as u64).saturating_mul(size_of::<T>() as u64);
    list.try_reserve_exact(more).map_err(|_| OutOfMemory { bytes })
}
