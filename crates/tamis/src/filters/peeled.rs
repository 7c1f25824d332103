//! Shards of cells that peeling fills: what [`binary_fuse`](super::binary_fuse) and
//! [`xor`](super::xor) have in common.
//!
//! ```text
//!  digest ──► its leading bits ──► shard ──► multiplier            one word a shard
//!         ──► graph(multiplier) ─► K cells of the shard, and w bits: its print
//!
//!  table   │ cells of shard 0 │ cells of shard 1 │ …                  w bits a cell
//!                 ▲  ▲     ▲
//!                 └──┴──┬──┘
//!             the XOR of the three is the print, for every member
//! ```
//!
//! A shard that cannot be peeled tries the next multiplier, by itself and a bounded number of
//! times. What the table then still denies goes to a sorted list of whole digests, which is asked
//! when the table says no. Keys that are hashed never get there; digests that somebody has chosen
//! may, and make the filter larger, not wrong.

use std::sync::Mutex;

use bits::peel::{Graph, Peeler, multiplier};
use bits::{Words, packed, prefetch, unaligned};

use format::{Name, Reader, Writer};

use super::usize_words;
use crate::error::Error;
use crate::filter::Means;
use crate::gather::{Gathered, Record};

const TABLE: Name = Name::new("table");
const SEEDS: Name = Name::new("seeds");
const EXTRA: Name = Name::new("extra");
/// More shards than any filter has.
pub(super) const MAX_SHARD_BITS: u32 = 32;
/// Keys of a batch whose cells are asked for before the first is looked at.
const BATCH: usize = 32;
/// Bytes of a table that is at hand anyway: asking for its cells beforehand only takes time.
const NEAR: usize = 1 << 19;

/// How many cells, how wide, in how many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bits of a cell, 1 to 32.
    pub(super) width: u32,
    /// There are `2^shard_bits` shards.
    pub(super) shard_bits: u32,
    /// Cells of a shard: where there are more shards than one, they end with a word.
    pub(super) cells: u64,
}

impl Layout {
    /// Whether the shards' parts lie as they must, and the sizes can be computed with.
    pub(super) fn is_sound(&self) -> bool {
        let ends_with_a_word = self.shard_bits == 0 || self.cells.is_multiple_of(64);
        (1..=32).contains(&self.width)
            && self.shard_bits <= MAX_SHARD_BITS
            && self.cells < 1 << 32
            && ends_with_a_word
            && self.cells << self.shard_bits <= 1 << 54
    }

    pub(super) fn shards(&self) -> u64 {
        1 << self.shard_bits
    }

    /// Words of a shard.
    fn part(&self) -> u64 {
        (self.cells * u64::from(self.width)).div_ceil(64)
    }

    /// Words of the table. Cells of most widths are read as a word from the byte that they begin
    /// in: for those there is one more at the end.
    pub(super) fn words(&self) -> u64 {
        self.part() * self.shards() + u64::from(!matches!(self.width, 8 | 16))
    }

    /// Bits of the table that are cells.
    fn bits(&self) -> u64 {
        self.cells * self.shards() * u64::from(self.width)
    }

    /// Whole cache lines of the table and of the shards' multipliers.
    pub(super) fn bytes(&self) -> u64 {
        (bits::lines(self.words()) + bits::lines(self.shards())) * 64
    }
}

/// How cells of one width are read from a whole table.
trait Cells: Copy {
    fn width(self) -> u32;
    fn get(self, words: &[u64], at: usize) -> u64;

    /// The word that a cell begins in.
    #[inline(always)]
    fn word(self, at: usize) -> usize {
        at * self.width() as usize / 64
    }

    /// The bits of a print that count.
    #[inline(always)]
    fn cut(self, print: u64) -> u64 {
        print & packed::mask(self.width())
    }
}

/// Cells of whole bytes.
#[derive(Clone, Copy)]
struct Whole<const BYTES: usize>;

impl<const BYTES: usize> Cells for Whole<BYTES> {
    #[inline(always)]
    fn width(self) -> u32 {
        BYTES as u32 * 8
    }

    #[inline(always)]
    fn get(self, words: &[u64], at: usize) -> u64 {
        let mut value = [0; 8];
        value[..BYTES].copy_from_slice(&unaligned::read::<BYTES>(words, at * BYTES));
        u64::from_le_bytes(value)
    }
}

/// Cells of any width up to 32 bits.
#[derive(Clone, Copy)]
struct Packed(u32);

impl Cells for Packed {
    #[inline(always)]
    fn width(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn get(self, words: &[u64], at: usize) -> u64 {
        let bit = at * self.0 as usize;
        self.cut(u64::from_le_bytes(unaligned::read(words, bit / 8)) >> (bit % 8))
    }
}

/// Evaluates the body with `$cells` the [`Cells`] of a width.
macro_rules! with_cells {
    ($width:expr, $cells:ident => $body:expr) => {
        match $width {
            8 => {
                let $cells = Whole::<1>;
                $body
            }
            16 => {
                let $cells = Whole::<2>;
                $body
            }
            width => {
                let $cells = Packed(width);
                $body
            }
        }
    };
}

/// A table that is filled, and what it takes to ask it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) layout: Layout,
    pub(super) words: Words,
    /// Of each shard the multiplier.
    pub(super) seeds: Words,
    /// Digests that the table denies, in order.
    pub(super) extra: Words,
    pub(super) len: u64,
    /// Whether the cells alone decide: there are keys, and none is listed. Without a key the
    /// cells are zero, which is some strangers' print.
    plain: bool,
    /// Whether it is plain, of bytes, and one shard, whose multiplier is the first.
    quick: bool,
    first: u64,
}

impl Table {
    /// Fills a table: the cells of a shard are those of `graph`.
    pub(super) fn solve<const K: usize>(
        means: &Means<'_>,
        layout: Layout,
        graph: &(impl Graph<K> + Sync),
        records: Gathered<1>,
    ) -> Result<Self, Error> {
        let len = records.len();
        let mut words = Words::zeroed(usize_words(layout.words())?)?;
        let mut seeds = Words::zeroed(usize_words(layout.shards())?)?;
        // Memory that was had once is had again: fresh pages cost as much as the peeling.
        let peelers = Mutex::new(Vec::new());
        let cells = &mut words.to_mut()[..usize_words(layout.part() * layout.shards())?];
        let solved = records.solve(means, layout.shard_bits, cells, |_, records, part| {
            let idle = peelers.lock().expect("no panic").pop();
            let mut peeler = idle.unwrap_or_else(Peeler::new);
            let solved = with_cells!(layout.width, cells => {
                solve_shard(&mut peeler, graph, cells, records, part)
            });
            peelers.lock().expect("no panic").push(peeler);
            solved
        })?;
        let mut extra = Vec::new();
        for (seed, (multiplier, denied)) in seeds.to_mut().iter_mut().zip(solved) {
            *seed = multiplier;
            extra.extend(denied);
        }
        Ok(Self::new(layout, words, seeds, Words::copy_of(&extra)?, len))
    }

    fn new(layout: Layout, words: Words, seeds: Words, extra: Words, len: u64) -> Self {
        let plain = len > 0 && extra.is_empty();
        let quick = plain && layout.width == 8 && layout.shard_bits == 0;
        let first = seeds[0];
        Self { layout, words, seeds, extra, len, plain, quick, first }
    }

    /// The number of the digest's shard.
    #[inline(always)]
    fn shard(&self, digest: u64) -> usize {
        // In two steps, since a shift by 64 is none.
        (digest >> 1 >> (63 - self.layout.shard_bits)) as usize
    }

    /// Whether the digest may be a member.
    #[inline(always)]
    pub(super) fn contains<const K: usize>(&self, graph: &impl Graph<K>, digest: u64) -> bool {
        // One question for all that is out of the ordinary, and its answers out of the way: taken
        // together they are too much for the registers, and took half as long again.
        if self.quick {
            graph.holds(self.first, digest, &self.words)
        } else {
            self.ask(graph, digest)
        }
    }

    /// The same for any table.
    #[inline(never)]
    fn ask<const K: usize>(&self, graph: &impl Graph<K>, digest: u64) -> bool {
        let found = with_cells!(self.layout.width, cells => {
            self.probe(graph, cells, digest).test(self, cells)
        });
        if self.plain { found } else { self.either(found, digest) }
    }

    #[cold]
    fn either(&self, found: bool, digest: u64) -> bool {
        self.len > 0 && (found || self.extra.binary_search(&digest).is_ok())
    }

    #[inline(always)]
    fn probe<const K: usize>(
        &self,
        graph: &impl Graph<K>,
        cells: impl Cells,
        digest: u64,
    ) -> Probe<K> {
        let shard = self.shard(digest);
        let edge = graph.edge(self.seeds[shard], digest);
        let from = shard * self.layout.cells as usize;
        Probe { cells: edge.cells.map(|cell| from + cell), print: cells.cut(edge.print) }
    }

    /// Answers for many digests.
    pub(super) fn contains_each<const K: usize>(
        &self,
        graph: &impl Graph<K>,
        digests: impl ExactSizeIterator<Item = u64>,
        out: &mut [bool],
    ) {
        with_cells!(self.layout.width, cells => self.each(graph, cells, digests, out));
    }

    #[inline(always)]
    fn each<const K: usize>(
        &self,
        graph: &impl Graph<K>,
        cells: impl Cells,
        mut digests: impl ExactSizeIterator<Item = u64>,
        out: &mut [bool],
    ) {
        if size_of_val(&self.words[..]) <= NEAR {
            for (out, digest) in out.iter_mut().zip(digests) {
                let found = self.probe(graph, cells, digest).test(self, cells);
                *out = if self.plain { found } else { self.either(found, digest) };
            }
            return;
        }
        let nothing = Probe { cells: [0; K], print: 0 };
        let mut batch = [(0, nothing); BATCH];
        for out in out.chunks_mut(BATCH) {
            for ((kept, probe), digest) in batch.iter_mut().zip(digests.by_ref().take(out.len())) {
                (*kept, *probe) = (digest, self.probe(graph, cells, digest));
                for cell in probe.cells {
                    prefetch(&self.words, cells.word(cell));
                }
            }
            for ((digest, probe), out) in batch.iter().zip(out) {
                let found = probe.test(self, cells);
                *out = if self.plain { found } else { self.either(found, *digest) };
            }
        }
    }

    /// Its sections.
    pub(super) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(TABLE, &self.words);
        to.words(SEEDS, &self.seeds);
        to.words(EXTRA, &self.extra);
    }

    /// Takes them back, with so many members of which so many are listed.
    pub(super) fn read(
        from: &mut Reader,
        layout: Layout,
        len: u64,
        listed: u64,
    ) -> Result<Self, Error> {
        let words = from.words(TABLE, layout.words())?;
        let seeds = from.words(SEEDS, layout.shards())?;
        let extra = from.words(EXTRA, listed)?;
        Ok(Self::new(layout, words, seeds, extra, len))
    }

    /// What no table could hold.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(format::Error::Corrupt { at: 0, what }.into());
        if !bits::set::ends_at(&self.words, self.layout.bits()) {
            return corrupt("bits are set past the end");
        }
        if self.seeds.iter().any(|seed| seed % 2 == 0) {
            return corrupt("a multiplier is even");
        }
        if !self.extra.is_sorted_by(|a, b| a < b) {
            return corrupt("the digests beside the table are out of order");
        }
        Ok(())
    }
}

/// Where to look, and what must come of it.
#[derive(Clone, Copy)]
struct Probe<const K: usize> {
    cells: [usize; K],
    print: u64,
}

impl<const K: usize> Probe<K> {
    #[inline(always)]
    fn test(&self, table: &Table, cells: impl Cells) -> bool {
        self.cells.iter().fold(0, |sum, cell| sum ^ cells.get(&table.words, *cell)) == self.print
    }
}

/// How often a shard of so many records is tried before the list takes what is left.
///
/// Small ones are made so tight that most multipliers fail, large ones so that few do; with this
/// many, a shard of hashed keys is left over once in 10^11.
fn attempts(records: usize, cells: usize) -> u64 {
    // More records than cells cannot be peeled, whatever the multiplier.
    if records > cells { 1 } else { ((1 << 24) / (records as u64 + 1)).clamp(24, 255) }
}

/// Fills the cells of one shard; its multiplier, and the digests that it denies.
fn solve_shard<const K: usize>(
    peeler: &mut Peeler<1>,
    graph: &impl Graph<K>,
    cells: impl Cells,
    records: &[Record<1>],
    part: &mut [u64],
) -> Result<(u64, Vec<u64>), Error> {
    let mut seed = multiplier(0);
    for number in 0..attempts(records.len(), graph.cells()) {
        seed = multiplier(number);
        if peeler.peel(graph, seed, records)? == records.len() {
            break;
        }
    }
    let width = cells.width();
    let sum = |part: &[u64], edge: [usize; K]| {
        edge.iter().fold(0, |sum, cell| sum ^ packed::get(part, width, *cell as u64))
    };
    for (cell, [digest]) in peeler.owners().rev() {
        let edge = graph.edge(seed, *digest);
        let value = sum(part, edge.cells) ^ cells.cut(edge.print);
        packed::set(part, width, cell as u64, value);
    }
    // Every member is asked for, whether or not all were peeled.
    let denied = records.iter().map(|[digest]| *digest).filter(|digest| {
        let edge = graph.edge(seed, *digest);
        sum(part, edge.cells) != cells.cut(edge.print)
    });
    Ok((seed, denied.collect()))
}
