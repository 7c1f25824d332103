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
//!
//! Records are added in *runs*, which are the records with the same leading bits. The order within a
//! run has no effect, so the records need not be sorted.

mod graphs;
mod table;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::{max, min};

use crate::packed;
use crate::prefetch::prefetch;
use crate::range::mix;
use crate::words::{OutOfMemory, Words};

pub use graphs::{Blocks, Fuse, Segments, murmur64};
pub use table::FuseTable;

/// A mapping from digests to cells.
///
/// # Safety
/// Every cell of every edge must be below [`Graph::cells`], which must not change.
pub unsafe trait Graph<const K: usize>: Copy {
    /// Returns the number of cells, which is less than 2^32.
    fn cells(&self) -> usize;

    /// Returns the cells of a digest for a [`multiplier`].
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K>;

    /// Returns the form of the graph, which [`Graph::edge_of`] takes as a constant.
    #[inline(always)]
    fn form(&self) -> u8 {
        0
    }

    /// Returns the same as [`Graph::edge`], with fewer instructions, if `FORM` is the graph's own. If not,
    /// the cells are below [`Graph::cells`] too.
    #[inline(always)]
    fn edge_of<const FORM: u8>(&self, multiplier: u64, digest: u64) -> Edge<K> {
        self.edge(multiplier, digest)
    }

    /// Returns a number: if more records than this wait between two runs, some will not be peeled.
    #[inline(always)]
    fn most_waiting(&self) -> usize {
        usize::MAX
    }

    /// Returns the number of leading bits by which records must be ordered to be peeled. The first
    /// cells of records must ascend with these bits.
    #[inline(always)]
    fn order_bits(&self) -> u32 {
        0
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
    /// The fingerprint: 34 low bits that are independent of the cells, with other bits above.
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

/// The tables for peeling, which can be reused.
///
/// # Examples
/// ```
/// use tamis_bits::OutOfMemory;
/// use tamis_bits::peel::{Fuse, Graph, Peeler, multiplier};
///
/// let records: Vec<[u64; 1]> = (0..100).map(|i| [tamis_bits::range::mix(i)]).collect();
/// let graph = Fuse::<3>::new(160, 5, 0).unwrap();
/// let mut peeler = Peeler::new();
/// let go_on = || Ok::<_, OutOfMemory>(());
/// let mut peels = |seed| peeler.peel(&graph, seed, &records, go_on) == Ok(100);
/// let seed = (0..100).map(multiplier).find(|seed| peels(*seed)).unwrap();
/// let mut table = vec![0; graph.cells()];
/// for (cell, [digest]) in peeler.owners() {
///     let edge = graph.edge(seed, *digest);
///     table[cell] = edge.cells.iter().fold(edge.print, |print, cell| print ^ table[*cell]);
/// }
/// for [digest] in records {
///     let edge = graph.edge(seed, digest);
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
    /// The cells of the last graph: all owned cells are below.
    cells: usize,
}

const MANY: u8 = u8::MAX;
/// The additional bit in the degrees of open cells.
const OPEN: u8 = 128;
/// The distance in owners at which sums are prefetched.
const AHEAD: usize = 24;
/// The most records that are added, removed or filled in between two checks: a few milliseconds.
const CHECKED: usize = 1 << 16;

impl<const W: usize> Default for Peeler<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const W: usize> Peeler<W> {
    /// Makes a peeler without tables.
    pub fn new() -> Self {
        let sums = Words::zeroed(0).expect("an empty array needs no memory");
        Self { sums, degrees: Vec::new(), late: Vec::new(), order: Vec::new(), peeled: 0, cells: 0 }
    }

    /// Peels the records and returns how many were peeled. A record is a digest and the words that
    /// belong to it. The records must be ordered by their [`Graph::order_bits`] leading bits; any
    /// other order has no effect. Of several records with the same digest none is peeled.
    ///
    /// Calls `check` every few milliseconds and stops with its error.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if an allocation fails, and the error of `check`.
    ///
    /// # Panics
    /// May panic if the records are not ordered.
    pub fn peel<const K: usize, E: From<OutOfMemory>>(
        &mut self,
        graph: &impl Graph<K>,
        multiplier: u64,
        records: &[[u64; W]],
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        self.peel_until(graph, multiplier, records, usize::MAX, &mut check)
    }

    /// Returns whether all records were peeled. Unlike [`Peeler::peel`] it may stop when some cannot be.
    /// If it returns false, [`Peeler::owners`] and [`Peeler::core`] are meaningless.
    ///
    /// # Errors
    /// As for [`Peeler::peel`].
    ///
    /// # Panics
    /// As for [`Peeler::peel`].
    pub fn peel_all<const K: usize, E: From<OutOfMemory>>(
        &mut self,
        graph: &impl Graph<K>,
        multiplier: u64,
        records: &[[u64; W]],
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<bool, E> {
        let most = graph.most_waiting();
        let peeled = self.peel_until(graph, multiplier, records, most, &mut check)?;
        Ok(peeled == records.len())
    }

    /// Peels the records until more than `most` of them wait between two runs.
    fn peel_until<const K: usize, E: From<OutOfMemory>>(
        &mut self,
        graph: &impl Graph<K>,
        multiplier: u64,
        records: &[[u64; W]],
        most: usize,
        check: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        let fast = match graph.form() {
            0 => self.peel_in::<K, 0, false, E>(graph, multiplier, records, most, check)?,
            1 => self.peel_in::<K, 1, false, E>(graph, multiplier, records, most, check)?,
            _ => self.peel_in::<K, 2, false, E>(graph, multiplier, records, most, check)?,
        };
        if let Some(peeled) = fast {
            return Ok(peeled);
        }
        // Hashed records never come here. Not to saturate saves a tenth of the instructions. The last form
        // computes the edges of all graphs: one function for all forms is smaller.
        let peeled = self.peel_in::<K, 2, true, E>(graph, multiplier, records, most, check)?;
        Ok(peeled.unwrap_or(0))
    }

    /// Does the same. Unless degrees saturate at [`MANY`], returns `None` once one of them is 64.
    fn peel_in<const K: usize, const FORM: u8, const SATURATES: bool, E: From<OutOfMemory>>(
        &mut self,
        graph: &impl Graph<K>,
        multiplier: u64,
        records: &[[u64; W]],
        most: usize,
        check: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        // A copy, so that the compiler knows that no write changes it.
        let graph = *graph;
        let cells = graph.cells();
        (self.peeled, self.cells) = (0, cells);
        self.late.clear();
        self.reserve::<K>(cells)?;
        let sums = &mut self.sums.to_mut().as_chunks_mut::<W>().0[..cells];
        let degrees = &mut self.degrees[..cells];
        // `order` holds the owned cells, a gap, and the queue of cells to examine:
        //
        //   0        done            head            tail
        //   ├─ owned ──┼──── gap ──────┼──── queue ────┤
        //
        // When the queue is empty, more records are added, and the cells of degree 1 that no later
        // record has join it. All this happens within a few segments, which stay in the cache.
        let order = &mut self.order[..cells + K];
        let (mut done, mut head, mut tail) = (0, 0, 0);
        let (mut rest, mut closed, mut open) = (records, 0, 0);
        // The number of digits that a run does not share, and the first cell of a digest.
        let shift = 64 - graph.order_bits();
        let first = |digest: u64| graph.edge(multiplier, digest).cells[0];
        // The degree of a cell that later records may join has an additional bit, so that it is not 1.
        let is_open = if SATURATES { 0 } else { OPEN };
        loop {
            if head == tail {
                (head, tail) = (done, done);
                if closed < cells {
                    check()?;
                    if records.len() - rest.len() - done > most {
                        return Ok(Some(0));
                    }
                    let (now, later) = rest.split_at(run_len(rest, shift));
                    rest = later;
                    // Cells are cleared in order, just before records reach them, which brings them
                    // into the cache.
                    let reach = match (now, rest) {
                        ([record, ..], [_, ..]) => {
                            let last = record[0] | packed::mask(shift);
                            max(open, graph.open_from(first(last)))
                        }
                        _ => cells,
                    };
                    sums[open..reach].fill([0; W]);
                    degrees[open..reach].fill(is_open);
                    open = reach;
                    for (number, now) in now.chunks(CHECKED).enumerate() {
                        if number > 0 {
                            check()?;
                        }
                        let mut seen = 0;
                        // Copies, because the compiler would read a record again for each cell.
                        for record in now.iter().copied() {
                            for cell in graph.edge_of::<FORM>(multiplier, record[0]).cells {
                                // SAFETY: the graph guarantees that the cell is below `cells`, the
                                // length of `sums`.
                                add(unsafe { sums.get_unchecked_mut(cell) }, &record);
                                // SAFETY: as above; `degrees` has the same length.
                                let degree = unsafe { degrees.get_unchecked_mut(cell) };
                                if SATURATES {
                                    *degree = degree.saturating_add(1);
                                } else {
                                    *degree = degree.wrapping_add(1);
                                    seen |= *degree;
                                }
                            }
                        }
                        if seen & (OPEN / 2) > 0 {
                            return Ok(None);
                        }
                    }
                    let below = rest
                        .first()
                        .map(|record| graph.closed_below(first(record[0] & !packed::mask(shift))));
                    let below = max(closed, below.unwrap_or(cells));
                    assert!(tail + (below - closed) <= cells, "the records are not ordered");
                    for (cell, degree) in (closed..).zip(&mut degrees[closed..below]) {
                        *degree ^= is_open;
                        let alone = *degree == 1;
                        // SAFETY: the assertion above; `order` has more than `cells` elements.
                        unsafe { enqueue(&graph, order, &mut tail, &mut self.late, cell, alone) };
                    }
                    closed = below;
                } else if let Some(cell) = self.late.pop() {
                    if self.late.len().is_multiple_of(CHECKED) {
                        check()?;
                    }
                    order[tail] = cell;
                    tail += 1;
                } else {
                    break;
                }
                continue;
            }
            let stop = head + CHECKED;
            while head < min(tail, stop) {
                // SAFETY: `head` is below `tail`, and what was written below `tail` are cells.
                let cell = unsafe { *order.get_unchecked(head) } as usize;
                head += 1;
                // SAFETY: as above; `degrees` has `cells` elements.
                let degree = unsafe { degrees.get_unchecked_mut(cell) };
                if *degree != 1 {
                    continue;
                }
                *degree = 0;
                // A cell is queued once: when it closes with a degree of 1, or when its degree falls to
                // 1 after that.
                assert!(tail <= cells, "the records are not ordered");
                // SAFETY: `done` is less than `head`, because it grows as often at most.
                *unsafe { order.get_unchecked_mut(done) } = cell as u32;
                done += 1;
                // SAFETY: as above; `sums` has `cells` elements.
                let record = *unsafe { sums.get_unchecked(cell) };
                let edge = graph.edge_of::<FORM>(multiplier, record[0]).cells;
                // The cells without the record's own, which keeps the record, in their order, on which the
                // owners depend. A cell that the record has twice has a degree above 1 and is not its own.
                let mut is_after = false;
                for i in 0..K - 1 {
                    is_after |= edge[i] == cell;
                    let other = if is_after { edge[i + 1] } else { edge[i] };
                    // SAFETY: as above: the cell is below `cells`, the length of `sums`.
                    add(unsafe { sums.get_unchecked_mut(other) }, &record);
                    // SAFETY: as above; `degrees` has the same length.
                    let degree = unsafe { degrees.get_unchecked_mut(other) };
                    *degree -= u8::from(!SATURATES || *degree != MANY);
                    let alone = *degree == 1 && (!SATURATES || other < closed);
                    // SAFETY: `tail` was at most `cells` and has grown by less than `K` since, and `order`
                    // has `cells + K` elements.
                    unsafe { enqueue(&graph, order, &mut tail, &mut self.late, other, alone) };
                }
            }
            if head < tail {
                check()?;
            }
        }
        self.peeled = done;
        Ok(Some(done))
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

    /// Calls `each` for [`Peeler::owners`] and `check` every few milliseconds. As a loop of its own it takes
    /// two thirds of the instructions.
    ///
    /// # Panics
    /// Panics if the graph is not that of the last call of [`Peeler::peel`] and has fewer cells.
    #[inline(always)]
    fn each_owner<E>(
        &self,
        cells: usize,
        mut check: impl FnMut() -> Result<(), E>,
        mut each: impl FnMut(usize, &[u64; W]),
    ) -> Result<(), E> {
        assert!(self.cells <= cells, "the graph has fewer cells than that which was peeled");
        let sums = &self.sums.as_chunks().0[..self.cells];
        let (mut end, order) = (self.peeled, &self.order[..self.peeled]);
        while end > 0 {
            check()?;
            let start = end.saturating_sub(CHECKED);
            let mut each = |cell: u32| {
                // SAFETY: the owned cells are below the number of cells of the graph that was peeled.
                each(cell as usize, unsafe { sums.get_unchecked(cell as usize) });
            };
            // The last cells have too few after them. In a loop of their own, because the choice takes a
            // quarter of the instructions.
            let last = max(start, min(AHEAD, end));
            let ahead = &order[last.saturating_sub(AHEAD)..end.saturating_sub(AHEAD)];
            for (cell, ahead) in order[last..end].iter().zip(ahead).rev() {
                prefetch(sums, *ahead as usize);
                each(*cell);
            }
            order[start..last].iter().rev().for_each(|cell| each(*cell));
            end = start;
        }
        Ok(())
    }

    /// Sets the cells, of `width` bits each, of which `table` holds zeros. Afterwards the XOR of the
    /// cells of each peeled record is the low bits of its fingerprint. Takes the arguments of the last
    /// call of [`Peeler::peel`].
    ///
    /// # Errors
    /// Returns the error of `check`, which is called every few milliseconds.
    ///
    /// # Panics
    /// Panics if the cells do not fit in the table.
    pub fn fill<const K: usize, E>(
        &self,
        graph: &impl Graph<K>,
        multiplier: u64,
        width: u32,
        table: &mut [u64],
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        match graph.form() {
            0 => self.fill_in::<K, 0, E>(graph, multiplier, width, table, check),
            1 => self.fill_in::<K, 1, E>(graph, multiplier, width, table, check),
            _ => self.fill_in::<K, 2, E>(graph, multiplier, width, table, check),
        }
    }

    /// Does the same for graphs of one form.
    fn fill_in<const K: usize, const FORM: u8, E>(
        &self,
        graph: &impl Graph<K>,
        multiplier: u64,
        width: u32,
        table: &mut [u64],
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let is_little = cfg!(target_endian = "little");
        match width {
            8 if is_little => {
                // SAFETY: all bits of a word are initialised, and any bits are a number.
                let (_, cells, _) = unsafe { table.align_to_mut::<u8>() };
                self.fill_whole::<K, FORM, _, E>(graph, multiplier, cells, check)
            }
            16 if is_little => {
                // SAFETY: as above.
                let (_, cells, _) = unsafe { table.align_to_mut::<u16>() };
                self.fill_whole::<K, FORM, _, E>(graph, multiplier, cells, check)
            }
            _ => self.fill_packed(graph, multiplier, width, table, check),
        }
    }

    /// Does the same for cells of whole bytes.
    fn fill_whole<const K: usize, const FORM: u8, C: Cell, E>(
        &self,
        graph: &impl Graph<K>,
        multiplier: u64,
        table: &mut [C],
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let graph = *graph;
        let table = &mut table[..graph.cells()];
        self.each_owner(table.len(), check, |cell, record| {
            let edge = graph.edge_of::<FORM>(multiplier, record[0]);
            let value = edge.cells.iter().fold(C::low(edge.print), |sum, cell| {
                // SAFETY: the graph guarantees that the cell is below the number of cells, which is the
                // length of the table.
                sum.xor(*unsafe { table.get_unchecked(*cell) })
            });
            // SAFETY: as above, for an owned cell of the same graph.
            *unsafe { table.get_unchecked_mut(cell) } = value;
        })
    }

    fn fill_packed<const K: usize, E>(
        &self,
        graph: &impl Graph<K>,
        multiplier: u64,
        width: u32,
        table: &mut [u64],
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_owner(graph.cells(), check, |cell, record| {
            let edge = graph.edge(multiplier, record[0]);
            let get = |cell: &usize| packed::get(table, width, *cell as u64);
            let value = edge.cells.iter().fold(edge.print, |sum, cell| sum ^ get(cell));
            packed::set(table, width, cell as u64, value);
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
    fn reserve<const K: usize>(&mut self, cells: usize) -> Result<(), OutOfMemory> {
        // Each cell is in the queue at most once, and entries past the end may be overwritten.
        let out_of_memory = |_| OutOfMemory { bytes: (cells * 5) as u64 };
        if self.sums.len() < cells * W {
            self.sums = Words::zeroed(cells * W)?;
        }
        let more = cells.saturating_sub(self.degrees.len());
        self.degrees.try_reserve(more).map_err(out_of_memory)?;
        self.degrees.resize(self.degrees.len() + more, 0);
        let more = (cells + K).saturating_sub(self.order.len());
        self.order.try_reserve(more).map_err(out_of_memory)?;
        self.order.resize(self.order.len() + more, 0);
        Ok(())
    }
}

/// A cell of whole bytes.
trait Cell: Copy {
    /// Returns the low bits of a fingerprint.
    fn low(print: u64) -> Self;
    fn xor(self, other: Self) -> Self;
}

macro_rules! cell {
    ($($type:ty)*) => { $(
        impl Cell for $type {
            #[inline(always)]
            fn low(print: u64) -> Self {
                print as Self
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )* };
}
cell!(u8 u16);

/// Returns how many of the first records have the same bits above the lowest `shift`.
#[inline(always)]
fn run_len<const W: usize>(records: &[[u64; W]], shift: u32) -> usize {
    let [first, ..] = records else { return 0 };
    records.partition_point(|record| record[0] <= first[0] | packed::mask(shift))
}

/// Appends a cell to the queue, or to the late cells, if it is `alone`.
///
/// # Safety
/// `order` must have more than `tail` elements.
#[inline(always)]
unsafe fn enqueue<const K: usize>(
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
        // SAFETY: the caller guarantees it.
        *unsafe { order.get_unchecked_mut(*tail) } = cell as u32;
        *tail += usize::from(alone);
    }
}

#[inline(always)]
fn add<const W: usize>(sum: &mut [u64; W], record: &[u64; W]) {
    for (sum, word) in sum.iter_mut().zip(record) {
        *sum ^= word;
    }
}
