//! Peeling: each record gets a cell of its own, or it is shown that some cannot.
//!
//! A [`Graph`] gives each 64-bit digest `K` cells of a table. *Peeling* takes away a record that is
//! alone in one of its cells, which may leave others alone in theirs, and goes on until nothing is
//! left, or only the *core*: records of which none is alone anywhere. Who then visits the peeled
//! records from the last to the first can choose each one's own cell so that the XOR of its `K`
//! cells is whatever it likes: no record that comes later has that cell.
//!
//! ```text
//!  cell   0     1     2     3     4          record a: cells 0 2 3
//!  XOR    a    a^b    a     b    b           record b: cells 1 3 4   (and so on)
//!  degree 1     2     1     1    1
//! ```
//!
//! A cell keeps the XOR of the whole records that have it, and their number. Where the number is
//! one, the XOR *is* the record: neither lists nor indices are needed, and a value that belongs to a
//! digest travels with it.
//!
//! Walzer, *Peeling Close to the Orientability Threshold*, 2021, has the theory: records whose cells
//! lie close together peel from an end like a zip, up to nearly as many records as a solution by
//! any means could take. That needs few cells that are kept in the cache, since the zip's slider
//! is all that is worked on.

use alloc::vec::Vec;
use core::cmp::{max, min};

use crate::prefetch::prefetch;
use crate::range::{mix, scale};
use crate::words::{OutOfMemory, Words};

/// Which cells a digest has.
///
/// # Safety
/// Every cell of every edge is below [`Graph::cells`], which does not change.
pub unsafe trait Graph<const K: usize>: Copy {
    /// How many cells there are: less than 2^32.
    fn cells(&self) -> usize;

    /// The cells of a digest, mixed by a [`multiplier`].
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K>;

    /// The graph as it is with this multiplier.
    ///
    /// Of a large set the first cells may be the same with every multiplier. A small one can be
    /// so uneven in them that no multiplier helps.
    #[must_use]
    fn settled(self, multiplier: u64) -> Self {
        let _ = multiplier;
        self
    }

    /// Cells below this one are in no edge of a digest whose first cell is `first` or a later one.
    #[inline(always)]
    fn closed_below(&self, first: usize) -> usize {
        let _ = first;
        0
    }

    /// Cells from this one on are in no edge of a digest whose first cell is `first` or an earlier
    /// one.
    #[inline(always)]
    fn open_from(&self, first: usize) -> usize {
        let _ = first;
        self.cells()
    }

    /// Whether records are to own such a cell only if they can own no other at the time.
    #[inline(always)]
    fn is_late(&self, cell: usize) -> bool {
        let _ = cell;
        false
    }

    /// Whether the XOR of the digest's cells, which are the bytes of `table`, is its print: as
    /// `edge` and three reads would tell, with one look at the table's length instead of three.
    ///
    /// # Panics
    /// If the table has fewer bytes than there are cells.
    #[inline(always)]
    fn holds(&self, multiplier: u64, digest: u64, table: &[u64]) -> bool {
        assert!(self.cells() <= size_of_val(table), "a byte for each cell");
        let Edge { cells, print } = self.edge(multiplier, digest);
        let byte = |cell: usize| {
            if cfg!(target_endian = "big") {
                return (table[cell / 8] >> (cell % 8 * 8)) as u8;
            }
            // SAFETY: the cell is below the number of cells, as whoever implements this trait
            // promises, and that is within the table: asserted just above.
            let at = unsafe { table.as_ptr().cast::<u8>().add(cell) };
            // SAFETY: it is within the table, which is initialised, and bytes need no alignment.
            unsafe { at.read() }
        };
        cells.iter().fold(0, |sum, cell| sum ^ byte(*cell)) == print as u8
    }
}

/// What a digest is mixed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge<const K: usize> {
    /// Its cells. Two of them are now and then the same one: its XOR is nothing then.
    pub cells: [usize; K],
    /// 32 bits that tell nothing of the cells, with others above them.
    pub print: u64,
}

/// What mixes digests, for each number another.
///
/// Digests are uniform as they come. A single product then makes bits that are as good as new: its
/// upper half's low bits, and its lower half's high bits.
#[inline]
pub const fn multiplier(number: u64) -> u64 {
    mix(number.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1
}

/// The product, as upper and lower half.
#[inline(always)]
const fn product(multiplier: u64, digest: u64) -> (u64, u64) {
    let product = multiplier as u128 * digest as u128;
    ((product >> 64) as u64, product as u64)
}

/// The fuse graph: the cells of a record are near each other, and its first goes with the digest.
///
/// ```text
///  0          y          y + s         y + 2s          places        cells
///  ├──────────┼─────────────┼──────────────┼──────── … ───┼─────────────┤
///             ▲└── one in ──┘└─── one in ──┘              └── s · K/4 ──┤
///             first                                                     └─ what would lie behind
///                                                                          is counted backwards
/// ```
///
/// `y` grows with the digest, so that sorted records use the table from one end to the other, and
/// it does not depend on the multiplier: another attempt needs no other order. Only where there are
/// fewer than 2^16 cells, and no bits are skipped, it is made from bits further down with some.
///
/// This is not quite the binary fuse filter's graph (Graf, Lemire 2022), which is cut into
/// segments, has fewer records a cell at both ends and so begins to peel at both. Once it runs,
/// one end is enough: here the other end is folded back and as full as the middle. At equal success
/// that takes 1.143 cells a record instead of 1.162 for 10^5 records and `K = 3`, and 1.138
/// instead of 1.176 for 10^4 records and `K = 4`; and the number of cells is any, not a multiple of
/// `s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuse<const K: usize> {
    cells: usize,
    places: u64,
    /// The sum of a place behind the end and the cell that it is folded to.
    fold: u64,
    /// One less than the cells of a segment.
    mask: u64,
    skip: u32,
}

/// Fewer cells than this may be used in any order.
const SMALL: usize = 1 << 16;
/// Most bits of a place in a segment: three of them are in a product's lower half.
const MAX_SEGMENT: u32 = 20;

impl<const K: usize> Fuse<K> {
    /// So many cells, with segments of `2^segment` of them; `skip` leading bits of the digest are
    /// the same for all records. `None` if the cells are too few for the segment, or too many.
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

    /// The fewest cells that go with the segment.
    pub const fn least(segment: u32) -> u64 {
        Self::tail(segment) + (1 << segment)
    }

    /// Cells behind the last first one: as many as make them just as full as the others.
    const fn tail(segment: u32) -> u64 {
        ((K as u64) << segment) / 4
    }
}

// SAFETY: the first cell is below `places`, which is less than `cells`. The others are below
// `places + (K - 1) s` before they are folded, which is at most `fold + 1`, since there are
// `least` cells; so neither part of the sum `fold` is negative, and the smaller is below `cells`.
unsafe impl<const K: usize> Graph<K> for Fuse<K> {
    #[inline]
    fn cells(&self) -> usize {
        self.cells
    }

    fn settled(self, multiplier: u64) -> Self {
        let is_small = self.skip == 0 && self.cells < SMALL;
        Self { skip: if is_small { (multiplier >> 1) as u32 % 32 } else { self.skip }, ..self }
    }

    /// The fold brings cells back to at most a segment before the last first one.
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
            // Shifts by what the compiler knows: by a variable they cost three times as much.
            let offset = low >> (64 - MAX_SEGMENT as usize * i) & self.mask;
            let at = next + offset;
            *cell = min(at, self.fold - at) as usize;
            next += self.mask + 1;
        }
        Edge { cells, print }
    }
}

/// `K` blocks of equal size, and of each block any cell: the graph of the xor filter.
///
/// The last block is owned late, so that many of its cells stay empty and need not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<const K: usize> {
    block: u64,
    skip: u32,
}

impl<const K: usize> Blocks<K> {
    /// Blocks of so many cells; `skip` leading bits of the digest are the same for all records.
    /// `None` if they are none, or too many.
    pub fn new(block: u64, skip: u32) -> Option<Self> {
        let sound = block > 0 && block < (1 << 32) / K as u64 && skip < 64;
        sound.then_some(Self { block, skip })
    }
}

// SAFETY: cell `i` is one of `block` cells from `i · block` on, and there are `K · block`.
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
            // The high half is used up; the low one has bits of its own.
            low = low.rotate_left(32);
            from += self.block;
        }
        Edge { cells, print }
    }
}

/// What peeling works on, to be used again for the next records.
///
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
    /// The XOR of each cell's records, word by word.
    sums: Words,
    /// Records of each cell. 255 means 255 or more, and stays.
    degrees: Vec<u8>,
    late: Vec<u32>,
    order: Vec<u32>,
    peeled: usize,
}

const MANY: u8 = u8::MAX;
/// How many owners ahead memory is asked for.
const AHEAD: usize = 24;
/// Records that are put in at once.
const RUN: usize = 1 << 12;

impl<const W: usize> Default for Peeler<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const W: usize> Peeler<W> {
    /// Nothing yet.
    pub fn new() -> Self {
        let sums = Words::zeroed(0).expect("nothing takes no memory");
        Self { sums, degrees: Vec::new(), late: Vec::new(), order: Vec::new(), peeled: 0 }
    }

    /// Peels what can be peeled, and says how many records that is. A record is a digest and what
    /// goes with it; the digests are all different and in ascending order.
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
        // `order` holds the owned cells, a gap, and the queue of cells to look at:
        //
        //   0        done            head            tail
        //   ├─ owned ──┼──── gap ──────┼──── queue ────┤
        //
        // When the queue is empty some more records are put in, and those cells join it that are
        // alone and that no record to come has: all happens within a few segments, which stay in
        // the cache.
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
                    // Cells are cleared when records first reach them, and in order: that brings
                    // them into the cache.
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

    /// Cells and the records that own them, the last that was peeled first: when a record's turn
    /// comes, all those have been there that own another of its cells.
    pub fn owners(&self) -> impl Iterator<Item = (usize, &[u64; W])> {
        let (order, (sums, _)) = (&self.order[..self.peeled], self.sums.as_chunks());
        (0..order.len()).rev().map(move |at| {
            // The sums of a large shard have left the cache; without this, waiting for them is half
            // of the work.
            let ahead = order[at.saturating_sub(AHEAD)];
            prefetch(&self.sums, ahead as usize * W);
            (order[at] as usize, &sums[order[at] as usize])
        })
    }

    /// Those of the records that could not be peeled, after [`Peeler::peel`] with the same.
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

    /// Makes room. What is in it does not matter.
    fn reserve(&mut self, cells: usize) -> Result<(), OutOfMemory> {
        // Each cell is in the queue at most once, and one more is written that does not stay.
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

/// Puts a cell at the end of the queue, or to the late ones, if it is alone.
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
        // Written in any case, kept if it is to be: a branch would be guessed wrong.
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

    /// Cells other than the first lie where they should, evenly, and apart nearly always.
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

    /// Every record is peeled or in the core; owners come before all others that have their cell.
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

    /// So many cells that they are cleared and closed bit by bit.
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

    /// What an earlier peeling left does not show.
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

    /// Digests that share most of their bits: whatever they do to the graph, peeling ends and
    /// tells the core, also where a cell has more records than can be counted.
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

    /// The sizes that this graph is for: what is said of them above.
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
