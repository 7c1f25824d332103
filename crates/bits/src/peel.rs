//! Peeling of random hypergraphs, which assigns each record a cell of its own.
//!
//! A [`Graph`] maps each 64-bit digest to `K` cells of a table. *Peeling* removes a record that is
//! alone in one of its cells, which may leave others alone in theirs, and repeats this until nothing
//! is left but the *core*: records none of which is alone in a cell. Visiting the peeled records from
//! the last to the first, a caller can set each record's own cell so that the XOR of its `K` cells is
//! any given value, because no record visited later has that cell.
//!
//! ```text
//!  cell   0     1     2     3     4          record a: cells 0 2 3
//!  XOR    a    a^b    a     b    b           record b: cells 1 3 4   (and so on)
//!  degree 1     2     1     1    1
//! ```
//!
//! A cell stores the XOR of the records that have it, and their number, its degree. If the degree is
//! 1, the XOR *is* the record. This needs neither lists nor indices, and a value that belongs to a
//! digest stays with it.
//!
//! The theory is in Walzer, *Peeling Close to the Orientability Threshold*, 2021. Records whose cells
//! lie close together peel from one end to the other, with nearly as many records as any method can
//! place. Only the cells near the current position need to be in the cache.

use alloc::vec::Vec;
use core::cmp::{max, min};

use crate::prefetch::prefetch;
use crate::range::{mix, scale};
use crate::words::{OutOfMemory, Words};

/// A mapping from digests to cells.
///
/// # Safety
/// Every cell of every edge must be below [`Graph::cells`], which must not change.
pub unsafe trait Graph<const K: usize>: Copy {
    /// Returns the number of cells, which is less than 2^32.
    fn cells(&self) -> usize;

    /// Returns the cells of a digest for a [`multiplier`].
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K>;

    /// Returns the graph to use with this multiplier.
    ///
    /// For a large set the first cells may be the same with every multiplier. For a small one they
    /// can be so uneven that no multiplier helps, so the graph may depend on it.
    #[must_use]
    fn settled(self, multiplier: u64) -> Self {
        let _ = multiplier;
        self
    }

    /// Returns a cell below which no digest whose first cell is `first` or later has a cell.
    #[inline(always)]
    fn closed_below(&self, first: usize) -> usize {
        let _ = first;
        0
    }

    /// Returns a cell from which on no digest whose first cell is `first` or earlier has a cell.
    #[inline(always)]
    fn open_from(&self, first: usize) -> usize {
        let _ = first;
        self.cells()
    }

    /// Returns whether a record should own this cell only if it can own no other at the time.
    #[inline(always)]
    fn is_late(&self, cell: usize) -> bool {
        let _ = cell;
        false
    }

    /// Returns whether the XOR of the digest's cells, which are bytes of `table`, is its fingerprint.
    /// This is [`Graph::edge`] and `K` reads with one check of the bounds.
    ///
    /// # Panics
    /// Panics if the table has fewer bytes than there are cells.
    #[inline(always)]
    fn holds(&self, multiplier: u64, digest: u64, table: &[u64]) -> bool {
        assert!(self.cells() <= size_of_val(table), "the table has fewer bytes than cells");
        let Edge { cells, print } = self.edge(multiplier, digest);
        let byte = |cell: usize| {
            if cfg!(target_endian = "big") {
                return (table[cell / 8] >> (cell % 8 * 8)) as u8;
            }
            // SAFETY: the implementation of this unsafe trait guarantees that the cell is below the
            // number of cells, and the assertion above that so many bytes lie in the table.
            let at = unsafe { table.as_ptr().cast::<u8>().add(cell) };
            // SAFETY: as above. The table is initialised, and bytes need no alignment.
            unsafe { at.read() }
        };
        cells.iter().fold(0, |sum, cell| sum ^ byte(*cell)) == print as u8
    }
}

/// The cells and the fingerprint of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge<const K: usize> {
    /// The cells. Rarely two of them are equal and cancel out in the XOR.
    pub cells: [usize; K],
    /// The fingerprint: 32 low bits that are independent of the cells, with other bits above.
    pub print: u64,
}

/// Returns the multiplier with this number, which selects one of many graphs.
///
/// Digests are uniform. A single product with an odd multiplier therefore yields bits that behave as
/// fresh ones: the low bits of its upper half and the high bits of its lower half.
#[inline]
pub const fn multiplier(number: u64) -> u64 {
    mix(number.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1
}

/// Returns the upper and the lower half of the product.
#[inline(always)]
const fn product(multiplier: u64, digest: u64) -> (u64, u64) {
    let product = multiplier as u128 * digest as u128;
    ((product >> 64) as u64, product as u64)
}

/// The fuse graph: the cells of a record are near each other, and the first grows with the digest.
///
/// ```text
///  0          y          y + s         y + 2s          places        cells
///  ├──────────┼─────────────┼──────────────┼──────── … ───┼─────────────┤
///             ▲└── one in ──┘└─── one in ──┘              └── s · K/4 ──┤
///             first                                                     └─ cells past the end
///                                                                          are folded back
/// ```
///
/// `y` grows with the digest, so that sorted records use the table from one end to the other. It does
/// not depend on the multiplier, so another attempt needs no other order. Only with fewer than 2^16
/// cells and no skipped bits, some multipliers derive it from lower bits of the digest.
///
/// It differs from the graph of the binary fuse filter (Graf, Lemire 2022), which is divided into
/// segments, has fewer records per cell at both ends and begins to peel at both. One end is enough,
/// so here the other end is folded back and as full as the middle. At an equal success rate this
/// takes 1.143 cells per record instead of 1.162 for 10^5 records and `K = 3`, and 1.138 instead of
/// 1.176 for 10^4 records and `K = 4`. The number of cells need not be a multiple of `s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuse<const K: usize> {
    cells: usize,
    places: u64,
    /// The sum of a place past the end and the cell that it is folded to.
    fold: u64,
    /// The number of cells of a segment, minus 1.
    mask: u64,
    skip: u32,
}

/// Tables with fewer cells than this may be accessed in any order.
const SMALL: usize = 1 << 16;
/// The largest logarithm of a segment: the lower half of a product provides three places of 20 bits.
const MAX_SEGMENT: u32 = 20;

impl<const K: usize> Fuse<K> {
    /// Makes a graph of `cells` cells with segments of `2^segment`. The `skip` leading bits of the
    /// digest are the same for all records. Returns `None` if the cells are too few for the segment
    /// or too many.
    pub fn new(cells: u64, segment: u32, skip: u32) -> Option<Self> {
        let sound = (1..=MAX_SEGMENT).contains(&segment) && skip < 64 && cells < 1 << 32;
        (sound && cells >= Self::least(segment)).then(|| Self {
            cells: cells as usize,
            places: cells - Self::tail(segment),
            fold: 2 * cells - 1,
            mask: (1 << segment) - 1,
            skip,
        })
    }

    /// Returns the least number of cells for a segment.
    pub const fn least(segment: u32) -> u64 {
        Self::tail(segment) + (1 << segment)
    }

    /// Returns the number of cells after the last first cell: as many as give them the same load.
    const fn tail(segment: u32) -> u64 {
        ((K as u64) << segment) / 4
    }
}

// SAFETY: the first cell is below `places`, which is less than `cells`. The others are below
// `places + (K - 1) s` before folding, which is at most `fold + 1`, because there are at least
// `least` cells. So neither part of the sum `fold` is negative, and the smaller is below `cells`.
unsafe impl<const K: usize> Graph<K> for Fuse<K> {
    #[inline]
    fn cells(&self) -> usize {
        self.cells
    }

    fn settled(self, multiplier: u64) -> Self {
        let is_small = self.skip == 0 && self.cells < SMALL;
        Self { skip: if is_small { (multiplier >> 1) as u32 % 32 } else { self.skip }, ..self }
    }

    /// Folding moves cells back to at most one segment before the last first cell.
    #[inline]
    fn closed_below(&self, first: usize) -> usize {
        let fold = (self.places - self.mask - 1) as usize;
        if self.cells < SMALL { 0 } else { min(first, fold) }
    }

    #[inline]
    fn open_from(&self, first: usize) -> usize {
        let last = first + (self.mask + 1) as usize * (K - 1) + 1;
        if self.cells < SMALL { self.cells } else { min(last, self.cells) }
    }

    #[inline(always)]
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K> {
        let (print, low) = product(multiplier, digest);
        let first = scale(digest << self.skip, self.places);
        let (mut cells, mut next) = ([first as usize; K], first + 1);
        for (i, cell) in cells.iter_mut().enumerate().skip(1) {
            // Shifts by constants: a variable shift costs three times as much.
            let offset = low >> (64 - MAX_SEGMENT as usize * i) & self.mask;
            let at = next + offset;
            *cell = min(at, self.fold - at) as usize;
            next += self.mask + 1;
        }
        Edge { cells, print }
    }
}

/// The graph of the xor filter: one cell in each of `K` blocks of equal size.
///
/// Cells of the last block are owned late, so that many of them stay empty and need not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<const K: usize> {
    block: u64,
    skip: u32,
}

impl<const K: usize> Blocks<K> {
    /// Makes a graph with blocks of `block` cells. The `skip` leading bits of the digest are the same
    /// for all records. Returns `None` if there are no cells or too many.
    pub fn new(block: u64, skip: u32) -> Option<Self> {
        let sound = block > 0 && block < (1 << 32) / K as u64 && skip < 64;
        sound.then_some(Self { block, skip })
    }
}

// SAFETY: cell `i` is one of `block` cells from `i · block` on, and there are `K · block` cells.
unsafe impl<const K: usize> Graph<K> for Blocks<K> {
    #[inline]
    fn cells(&self) -> usize {
        self.block as usize * K
    }

    #[inline(always)]
    fn is_late(&self, cell: usize) -> bool {
        cell >= self.block as usize * (K - 1)
    }

    #[inline(always)]
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K> {
        let (print, mut low) = product(multiplier, digest);
        let mut cells = [scale(digest << self.skip, self.block) as usize; K];
        let mut from = self.block;
        for cell in &mut cells[1..] {
            *cell = (from + scale(low, self.block)) as usize;
            // The high half is used, the low half has other bits.
            low = low.rotate_left(32);
            from += self.block;
        }
        Edge { cells, print }
    }
}

/// The tables for peeling, which can be reused.
///
/// # Examples
/// ```
/// use tamis_bits::peel::{Fuse, Graph, Peeler, multiplier};
///
/// let records: Vec<[u64; 1]> = (0..100).map(|i| [tamis_bits::range::mix(i)]).collect();
/// let graph = Fuse::<3>::new(160, 5, 0).unwrap();
/// let mut peeler = Peeler::new();
/// let seed = (0..100).map(multiplier).find(|m| peeler.peel(&graph, *m, &records) == Ok(100));
/// let mut table = vec![0; graph.cells()];
/// for (cell, [digest]) in peeler.owners() {
///     let edge = graph.edge(seed.unwrap(), *digest);
///     table[cell] = edge.cells.iter().fold(edge.print, |print, cell| print ^ table[*cell]);
/// }
/// for [digest] in records {
///     let edge = graph.edge(seed.unwrap(), digest);
///     assert_eq!(edge.cells.iter().fold(0, |sum, cell| sum ^ table[*cell]), edge.print);
/// }
/// ```
#[derive(Debug)]
pub struct Peeler<const W: usize> {
    /// The XOR of the records of each cell.
    sums: Words,
    /// The number of records of each cell. 255 means 255 or more and does not change.
    degrees: Vec<u8>,
    late: Vec<u32>,
    order: Vec<u32>,
    peeled: usize,
}

const MANY: u8 = u8::MAX;
/// The distance in owners at which sums are prefetched.
const AHEAD: usize = 24;
/// The number of records that are added at a time.
const RUN: usize = 1 << 12;

impl<const W: usize> Default for Peeler<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const W: usize> Peeler<W> {
    /// Makes a peeler without tables.
    pub fn new() -> Self {
        let sums = Words::zeroed(0).expect("an empty array needs no memory");
        Self { sums, degrees: Vec::new(), late: Vec::new(), order: Vec::new(), peeled: 0 }
    }

    /// Peels the records and returns how many were peeled. A record is a digest and the words that
    /// belong to it. The digests must be distinct and in ascending order.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if an allocation fails.
    pub fn peel<const K: usize>(
        &mut self,
        graph: &impl Graph<K>,
        multiplier: u64,
        records: &[[u64; W]],
    ) -> Result<usize, OutOfMemory> {
        let cells = graph.cells();
        self.reserve(cells)?;
        let sums = &mut self.sums.to_mut().as_chunks_mut::<W>().0[..cells];
        let degrees = &mut self.degrees[..cells];
        // `order` holds the owned cells, a gap, and the queue of cells to examine:
        //
        //   0        done            head            tail
        //   ├─ owned ──┼──── gap ──────┼──── queue ────┤
        //
        // When the queue is empty, more records are added, and the cells of degree 1 that no later
        // record has join it. All this happens within a few segments, which stay in the cache.
        let order = &mut self.order[..=cells];
        let (mut done, mut head, mut tail) = (0, 0, 0);
        let (mut rest, mut closed, mut open) = (records, 0, 0);
        let first = |record: &[u64; W]| graph.edge(multiplier, record[0]).cells[0];
        loop {
            if head == tail {
                (head, tail) = (done, done);
                if closed < cells {
                    let (now, later) = rest.split_at(min(RUN, rest.len()));
                    rest = later;
                    // Cells are cleared in order, just before records reach them, which brings them
                    // into the cache.
                    let reach = match (now, rest) {
                        ([.., last], [_, ..]) => max(open, graph.open_from(first(last))),
                        _ => cells,
                    };
                    sums[open..reach].fill([0; W]);
                    degrees[open..reach].fill(0);
                    open = reach;
                    for record in now {
                        for cell in graph.edge(multiplier, record[0]).cells {
                            add(&mut sums[cell], record);
                            degrees[cell] = degrees[cell].saturating_add(1);
                        }
                    }
                    let below = rest.first().map(|record| graph.closed_below(first(record)));
                    let below = max(closed, below.unwrap_or(cells));
                    for (cell, degree) in (closed..).zip(&degrees[closed..below]) {
                        enqueue(graph, order, &mut tail, &mut self.late, cell, *degree == 1);
                    }
                    closed = below;
                } else if let Some(cell) = self.late.pop() {
                    order[tail] = cell;
                    tail += 1;
                } else {
                    break;
                }
                continue;
            }
            let cell = order[head] as usize;
            head += 1;
            if degrees[cell] != 1 {
                continue;
            }
            order[done] = cell as u32;
            done += 1;
            let record = sums[cell];
            for other in graph.edge(multiplier, record[0]).cells {
                add(&mut sums[other], &record);
                degrees[other] -= u8::from(degrees[other] != MANY);
                let alone = degrees[other] == 1 && other < closed;
                enqueue(graph, order, &mut tail, &mut self.late, other, alone);
            }
            sums[cell] = record;
        }
        self.peeled = done;
        Ok(done)
    }

    /// Returns the owned cells with their records, in reverse order of peeling: all records that own
    /// another cell of a record come before it.
    pub fn owners(&self) -> impl Iterator<Item = (usize, &[u64; W])> {
        let (order, (sums, _)) = (&self.order[..self.peeled], self.sums.as_chunks());
        (0..order.len()).rev().map(move |at| {
            // The sums of a large shard are no longer in the cache. Without the prefetch, waiting
            // for them takes half of the time.
            let ahead = order[at.saturating_sub(AHEAD)];
            prefetch(&self.sums, ahead as usize * W);
            (order[at] as usize, &sums[order[at] as usize])
        })
    }

    /// Returns the records that were not peeled by [`Peeler::peel`] with the same arguments.
    pub fn core<'a, const K: usize>(
        &'a self,
        graph: &'a impl Graph<K>,
        multiplier: u64,
        records: &'a [[u64; W]],
    ) -> impl Iterator<Item = &'a [u64; W]> {
        records.iter().filter(move |record| {
            graph.edge(multiplier, record[0]).cells.iter().all(|cell| self.degrees[*cell] > 0)
        })
    }

    /// Grows the tables. Their content does not matter.
    fn reserve(&mut self, cells: usize) -> Result<(), OutOfMemory> {
        // Each cell is in the queue at most once, and one entry past the end may be overwritten.
        let out_of_memory = |_| OutOfMemory { bytes: (cells * 5) as u64 };
        if self.sums.len() < cells * W {
            self.sums = Words::zeroed(cells * W)?;
        }
        let more = cells.saturating_sub(self.degrees.len());
        self.degrees.try_reserve(more).map_err(out_of_memory)?;
        self.degrees.resize(self.degrees.len() + more, 0);
        let more = (cells + 1).saturating_sub(self.order.len());
        self.order.try_reserve(more).map_err(out_of_memory)?;
        self.order.resize(self.order.len() + more, 0);
        Ok(())
    }
}

/// Appends a cell to the queue, or to the late cells, if it is `alone`.
#[inline(always)]
fn enqueue<const K: usize>(
    graph: &impl Graph<K>,
    order: &mut [u32],
    tail: &mut usize,
    late: &mut Vec<u32>,
    cell: usize,
    alone: bool,
) {
    if graph.is_late(cell) {
        late.extend(alone.then_some(cell as u32));
    } else {
        // Always written but kept only if `alone`: a branch would be mispredicted.
        order[*tail] = cell as u32;
        *tail += usize::from(alone);
    }
}

#[inline(always)]
fn add<const W: usize>(sum: &mut [u64; W], record: &[u64; W]) {
    for (sum, word) in sum.iter_mut().zip(record) {
        *sum ^= word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn records<const W: usize>(salt: u64, len: u64) -> Vec<[u64; W]> {
        let mut all: Vec<[u64; W]> = (0..len)
            .map(|i| std::array::from_fn(|w| mix(salt << 40 | i << 2 | w as u64)))
            .collect();
        all.sort_unstable();
        all
    }

    fn fuses() -> impl Iterator<Item = (Fuse<3>, Fuse<4>)> {
        (1..=20).flat_map(|segment| {
            let least = Fuse::<4>::least(segment);
            [least, least + 1, least * 2 - 1, least * 3, least * 40].map(move |cells| {
                let skip = segment % 7;
                let three = Fuse::new(cells, segment, skip).unwrap();
                (three, Fuse::new(cells, segment, skip).unwrap())
            })
        })
    }

    fn edges_are_sound<const K: usize>(graph: &impl Graph<K>, skip: u32, ascends: bool) {
        let digests = (0..2000).map(mix).chain([0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63]);
        let mut digests: Vec<u64> = digests.map(|digest| digest >> skip).collect();
        digests.sort_unstable();
        for multiplier in (0..4).map(multiplier) {
            let edges = digests.iter().map(|digest| graph.edge(multiplier, *digest));
            let firsts: Vec<usize> = edges.clone().map(|edge| edge.cells[0]).collect();
            assert!(firsts.is_sorted() || !ascends);
            assert!(edges.flat_map(|edge| edge.cells).all(|cell| cell < graph.cells()));
        }
    }

    #[test]
    fn cells_are_in_range_and_first_ones_ascend() {
        for (three, four) in fuses() {
            edges_are_sound(&three, three.skip, true);
            edges_are_sound(&four, four.skip, true);
        }
        for block in [1, 2, 3, 100, 1 << 20, (1 << 30) + 7] {
            edges_are_sound(&Blocks::<3>::new(block, 0).unwrap(), 0, true);
            edges_are_sound(&Blocks::<3>::new(block, 9).unwrap(), 9, true);
        }
    }

    #[test]
    fn absurd_graphs_are_refused() {
        for segment in [0, 21, 63, 64, u32::MAX] {
            assert_eq!(Fuse::<3>::new(1 << 30, segment, 0), None);
        }
        for cells in [0, 1, Fuse::<3>::least(10) - 1, 1 << 32, u64::MAX] {
            assert_eq!(Fuse::<3>::new(cells, 10, 0), None);
        }
        assert_eq!(Fuse::<3>::new(1 << 30, 10, 64), None);
        for block in [0, 1 << 31, u64::MAX] {
            assert_eq!(Blocks::<3>::new(block, 0), None);
        }
    }

    /// Cells other than the first are spread evenly, and rarely equal.
    #[test]
    fn cells_are_spread_evenly() {
        let graph = Fuse::<3>::new(6000, 9, 0).unwrap();
        let (mut counts, mut same) = (vec![0u32; 6000], 0);
        for i in 0..1_000_000 {
            let cells = graph.edge(multiplier(3), mix(i)).cells;
            same += u32::from(HashSet::from(cells).len() < 3);
            cells.iter().for_each(|cell| counts[*cell] += 1);
        }
        // 3 · 10^6 over the cells in the middle: six standard deviations.
        let mean = 1e6 / (6000.0 - 384.0);
        let even = |from: usize, to: usize, mean: f64| {
            counts[from..to].iter().all(|n| (f64::from(*n) - mean).abs() < 6.0 * mean.sqrt())
        };
        assert!(even(1024, 4900, 3.0 * mean), "the middle");
        assert!(counts[..400].iter().all(|n| f64::from(*n) < 2.2 * mean), "the open end");
        let tail = counts[4900..].iter().sum::<u32>();
        assert!((f64::from(tail) / 1100.0 / mean - 3.0).abs() < 0.35, "the folded end: {tail}");
        assert!(same < 1000, "{same} of a million have a cell twice");
    }

    /// Checks that every record is peeled or in the core, and that owners come in a valid order.
    fn peeling_is_sound<const K: usize, const W: usize>(
        graph: &impl Graph<K>,
        records: &[[u64; W]],
        number: u64,
    ) -> usize {
        let (mut peeler, multiplier) = (Peeler::new(), multiplier(number));
        let peeled = peeler.peel(graph, multiplier, records).unwrap();
        let mut owned = HashSet::new();
        let owners: Vec<_> = peeler.owners().collect();
        for (cell, record) in owners.into_iter().rev() {
            let cells = graph.edge(multiplier, record[0]).cells;
            assert_eq!(cells.iter().filter(|other| **other == cell).count(), 1);
            assert!(cells.iter().all(|other| !owned.contains(other)), "owned before");
            owned.insert(cell);
        }
        let mut all: Vec<[u64; W]> = peeler.owners().map(|(_, record)| *record).collect();
        let core: Vec<[u64; W]> = peeler.core(graph, multiplier, records).copied().collect();
        assert!(all.len() == peeled && all.len() + core.len() == records.len());
        for record in &core {
            let cells = graph.edge(multiplier, record[0]).cells;
            assert!(cells.iter().all(|cell| !owned.contains(cell)));
        }
        all.extend(core);
        all.sort_unstable();
        assert!(all == records);
        peeled
    }

    #[test]
    fn every_record_is_peeled_or_in_the_core() {
        let mut peeled_all = 0;
        for (len, cells, segment) in [(100, 160, 4), (100, 100, 4), (1000, 1300, 6), (1000, 900, 6)]
        {
            for number in 0..40 {
                let three = Fuse::<3>::new(cells, segment, 0).unwrap();
                let four = Fuse::<4>::new(cells, segment, 0).unwrap();
                let blocks = Blocks::<3>::new(cells / 3, 0).unwrap();
                let (one, two) = (records::<1>(number, len), records::<2>(number, len));
                for peeled in [
                    peeling_is_sound(&three, &one, number),
                    peeling_is_sound(&four, &two, number),
                    peeling_is_sound(&blocks, &one, number),
                ] {
                    peeled_all += u64::from(peeled as u64 == len);
                    assert!(peeled as u64 == len || cells < len * 3 / 2 || len < 1000);
                }
            }
        }
        assert!(peeled_all > 60, "{peeled_all}");
    }

    /// Uses so many cells that they are cleared and closed in parts.
    #[test]
    fn every_record_of_many_is_peeled_or_in_the_core() {
        let (one, two) = (records::<1>(5, 150_000), records::<2>(6, 150_000));
        let sizes = [(175_000, 12), (165_000, 12), (120_000, 9), (400_000, 15), (70_000, 14)];
        for (number, (cells, segment)) in (0..).zip(sizes) {
            let three = Fuse::<3>::new(cells, segment, 0).unwrap();
            let four = Fuse::<4>::new(cells, segment, 0).unwrap();
            let peeled = peeling_is_sound(&three, &one, number);
            assert_eq!(peeled == one.len(), cells >= 175_000, "{cells} cells");
            peeling_is_sound(&four, &two, number);
        }
    }

    /// Checks that the tables of an earlier peeling have no effect.
    #[test]
    fn a_peeler_is_as_good_as_new() {
        let (small, large) = (records::<1>(7, 20_000), records::<1>(8, 100_000));
        let mut used = Peeler::new();
        for (set, cells) in
            [(&large, 118_000), (&small, 90_000), (&large, 100_000), (&small, 21_000)]
        {
            let (graph, multiplier) = (Fuse::<3>::new(cells, 11, 0).unwrap(), multiplier(1));
            let mut new = Peeler::new();
            assert_eq!(used.peel(&graph, multiplier, set), new.peel(&graph, multiplier, set));
            assert!(used.owners().eq(new.owners()));
            let core = |peeler: &Peeler<1>| -> Vec<[u64; 1]> {
                peeler.core(&graph, multiplier, set).copied().collect()
            };
            assert!(core(&used) == core(&new));
        }
    }

    /// Checks that peeling ends and finds the core for digests that share most of their bits, also
    /// where a cell has more than 255 records.
    #[test]
    fn hostile_digests_end() {
        let sets: [fn(u64) -> u64; 6] =
            [|i| i, |i| i << 54, |i| u64::MAX - i, |i| i << 32, |i| mix(i % 7) ^ i, |i| i << 20];
        for digest in sets {
            let mut set: Vec<[u64; 1]> = (0..1000).map(|i| [digest(i)]).collect();
            set.sort_unstable();
            set.dedup();
            for (cells, segment) in [(1200, 6), (100, 3), (40_000, 10)] {
                peeling_is_sound(&Fuse::<3>::new(cells, segment, 0).unwrap(), &set, 0);
                peeling_is_sound(&Fuse::<4>::new(cells, segment, 10).unwrap(), &set, 1);
                peeling_is_sound(&Blocks::<3>::new(cells / 3, 3).unwrap(), &set, 2);
            }
        }
        let none: [[u64; 2]; 0] = [];
        assert_eq!(peeling_is_sound(&Fuse::<3>::new(7, 2, 0).unwrap(), &none, 0), 0);
    }

    /// Checks the success rates near the number of cells that the documentation states.
    #[test]
    fn fewer_cells_are_enough() {
        let share = |cells: u64, segment, len: u64| {
            let graph = Fuse::<3>::new(cells, segment, 0).unwrap();
            let mut peeler = Peeler::<1>::new();
            let done = (0..20).filter(|number| {
                let records = records(number + 99, len);
                peeler.peel(&graph, multiplier(*number), &records) == Ok(records.len())
            });
            done.count()
        };
        assert!(share(12_000, 9, 10_000) > 12);
        assert!(share(11_000, 9, 10_000) < 3);
    }
}
