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

use tamis_bits::peel::{Graph, Peeler, multiplier};
use tamis_bits::{LINE_WORDS, Words, packed, prefetch, set, unaligned};

use tamis_format::{Name, Reader, Writer};

use super::usize_words;
use crate::error::Error;
use crate::gather::{Gathered, Record};
use crate::options::BuildOptions;

const TABLE: Name = Name::new("table");
const SEEDS: Name = Name::new("seeds");
const EXTRA: Name = Name::new("extra");
/// More shards than any filter has.
pub(in crate::filters) const MAX_SHARD_BITS: u32 = 32;
/// Keys of a batch whose cells are asked for before the first is looked at.
const BATCH: usize = 64;
/// Bytes of a table that is at hand anyway: asking for its cells beforehand only takes time.
const NEAR: usize = 1 << 19;

/// How many cells, how wide, in how many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Layout {
    /// Bits of a cell, 1 to 32.
    pub(in crate::filters) width: u32,
    /// There are `2^shard_bits` shards.
    pub(in crate::filters) shard_bits: u32,
    /// Cells of a shard.
    pub(in crate::filters) cells: u64,
    /// Where the last third of a shard's cells is kept without its zeros: how many others it has
    /// room for; else 0.
    pub(in crate::filters) room: u64,
}

impl Layout {
    /// Whether the sizes can be computed with.
    pub(in crate::filters) fn is_sound(&self) -> bool {
        (1..=32).contains(&self.width)
            && self.shard_bits <= MAX_SHARD_BITS
            && self.cells < 1 << 32
            && self.cells << self.shard_bits <= 1 << 54
            && (self.room == 0 || self.cells.is_multiple_of(3) && self.room <= self.cells / 3)
    }

    pub(in crate::filters) fn shards(&self) -> u64 {
        1 << self.shard_bits
    }

    /// Words of a shard.
    fn part(&self) -> u64 {
        match self.squeezed() {
            Some(cells) => cells.words() as u64,
            None => (self.cells * u64::from(self.width)).div_ceil(64),
        }
    }

    fn squeezed(&self) -> Option<Squeezed> {
        let (block, room) = (self.cells as usize / 3, self.room as usize);
        (room > 0).then(|| Squeezed::new(self.width, block, room))
    }

    /// Words of the table. Cells of most widths are read as a word from the byte that they begin
    /// in: for those there is one more at the end.
    pub(in crate::filters) fn words(&self) -> u64 {
        self.part() * self.shards() + u64::from(!matches!(self.width, 8 | 16) && self.room == 0)
    }

    /// Whole cache lines of the table and of the shards' multipliers.
    pub(in crate::filters) fn bytes(&self) -> u64 {
        (tamis_bits::lines(self.words()) + tamis_bits::lines(self.shards())) * 64
    }
}

/// Binary logarithm of the keys of a shard, up to twice as many. Large shards take fewer cells; small
/// ones are sooner peeled and give threads something to share. Where there are many anyway they are
/// larger.
const fn shard_size(keys: u64) -> u32 {
    if keys < 1 << 26 { 21 } else { 22 }
}

/// How many shards so many keys are split into, as a number of bits, and what to expect of the
/// largest.
pub(in crate::filters) fn shards(keys: u64) -> (u32, f64) {
    let bits = (keys >> shard_size(keys)).checked_ilog2().unwrap_or(0);
    let mean = keys as f64 / (1u64 << bits) as f64;
    // Of 2^b shards the largest is about sqrt(2b ln 2) standard deviations above the mean.
    let spread = if bits == 0 { 0.0 } else { 1.0 + f64::from(bits).sqrt() * 1.18 };
    (bits, mean + spread * mean.sqrt())
}

/// The width for a rate, if there is one: 2^-w is at most the rate.
pub(in crate::filters) fn width_for(fpr: f64) -> Result<u32, Error> {
    // A hair less than the logarithm: 2^-w itself takes w bits.
    match (-fpr.log2() - 1e-9).ceil().max(1.0) {
        width if width <= 32.0 => Ok(width as u32),
        _ => Err(Error::Infeasible { why: "its prints have at most 32 bits" }),
    }
}

/// How the cells of one width are read; those of a shard begin at word `from`.
trait Cells: Copy {
    fn width(self) -> u32;
    fn get(self, words: &[u64], from: usize, cell: usize) -> u64;

    /// The word to ask for beforehand.
    #[inline(always)]
    fn word(self, from: usize, cell: usize) -> usize {
        from + cell * self.width() as usize / 64
    }

    /// The bits of a print that count.
    #[inline(always)]
    fn cut(self, print: u64) -> u64 {
        print & packed::mask(self.width())
    }

    /// The same as `get`, of a shard's words alone.
    #[inline(always)]
    fn get_in(self, part: &[u64], cell: usize) -> u64 {
        packed::get(part, self.width(), cell as u64)
    }

    /// Puts the cells, side by side in `plain`, where they belong. What is there already is `plain`
    /// itself where there is nothing to do.
    fn store(self, plain: Option<&[u64]>, part: &mut [u64]) {
        let _ = (plain, part);
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
    fn get(self, words: &[u64], from: usize, cell: usize) -> u64 {
        let mut value = [0; 8];
        value[..BYTES].copy_from_slice(&unaligned::read::<BYTES>(words, from * 8 + cell * BYTES));
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
    fn get(self, words: &[u64], from: usize, cell: usize) -> u64 {
        let bit = cell * self.0 as usize;
        self.cut(u64::from_le_bytes(unaligned::read(words, from * 8 + bit / 8)) >> (bit % 8))
    }
}

/// Three blocks of cells, the last without its zeros.
///
/// ```text
///  │ block 0 │ block 1 │ n │ 448 bits │ n │ 448 bits │ … │ cells of block 2 that are not 0 │
///                        └── a cache line ┘
/// ```
///
/// A bit says whether its cell is other than 0; `n` is how many of those come before the line.
#[derive(Clone, Copy, Debug)]
struct Squeezed {
    width: u32,
    block: usize,
    room: usize,
    /// Where the lines begin, and where the cells behind them do.
    lines: usize,
    rest: usize,
}

/// Bits of a line.
const LINE: usize = 448;

impl Squeezed {
    fn new(width: u32, block: usize, room: usize) -> Self {
        let lines = (2 * block * width as usize).div_ceil(64);
        Self { width, block, room, lines, rest: lines + block.div_ceil(LINE) * LINE_WORDS }
    }

    fn words(self) -> usize {
        self.rest + (self.room * self.width as usize).div_ceil(64)
    }

    /// Whether this could be what [`Cells::store`] makes.
    fn is_sound(self, part: &[u64]) -> bool {
        let width = u64::from(self.width);
        let mut before = 0;
        for (at, line) in part[self.lines..self.rest].as_chunks::<LINE_WORDS>().0.iter().enumerate()
        {
            let left = (self.block - at * LINE).min(LINE) as u64;
            if line[0] != before || !set::ends_at(&line[1..], left) {
                return false;
            }
            before += set::ones(&line[1..]);
        }
        let cell = |at| packed::get(&part[self.rest..], self.width, at);
        before <= self.room as u64
            && set::ends_at(&part[..self.lines], 2 * self.block as u64 * width)
            && set::ends_at(&part[self.rest..], before * width)
            && (0..before).all(|at| cell(at) != 0)
    }
}

impl Cells for Squeezed {
    #[inline(always)]
    fn width(self) -> u32 {
        self.width
    }

    #[inline(always)]
    fn word(self, from: usize, cell: usize) -> usize {
        match cell.checked_sub(2 * self.block) {
            None => from + cell * self.width as usize / 64,
            Some(bit) => from + self.lines + bit / LINE * LINE_WORDS,
        }
    }

    #[inline(always)]
    fn get(self, words: &[u64], from: usize, cell: usize) -> u64 {
        self.get_in(&words[from..], cell)
    }

    #[inline(always)]
    fn get_in(self, part: &[u64], cell: usize) -> u64 {
        let Some(bit) = cell.checked_sub(2 * self.block) else {
            return packed::get(part, self.width, cell as u64);
        };
        let line = &part[self.lines + bit / LINE * LINE_WORDS..][..LINE_WORDS];
        let (word, mask) = (bit % LINE / 64, 1 << (bit % 64));
        if line[1 + word] & mask == 0 {
            return 0;
        }
        let near =
            set::ones(&line[1..=word]) + u64::from((line[1 + word] & (mask - 1)).count_ones());
        // A file may claim any count.
        let rank = line[0].saturating_add(near).min(self.room as u64 - 1);
        packed::get(&part[self.rest..], self.width, rank)
    }

    /// Cells that there is no room for are zero: who needs them will be found to be denied.
    fn store(self, plain: Option<&[u64]>, part: &mut [u64]) {
        let Some(plain) = plain else { return };
        for cell in 0..2 * self.block as u64 {
            packed::set(part, self.width, cell, packed::get(plain, self.width, cell));
        }
        let mut count = 0;
        for bit in 0..self.block {
            let line = self.lines + bit / LINE * LINE_WORDS;
            if bit % LINE == 0 {
                part[line] = count;
            }
            let value = packed::get(plain, self.width, (2 * self.block + bit) as u64);
            if value != 0 && count < self.room as u64 {
                part[line + 1 + bit % LINE / 64] |= 1 << (bit % 64);
                packed::set(&mut part[self.rest..], self.width, count, value);
                count += 1;
            }
        }
    }
}

/// Evaluates the body with `$cells` the [`Cells`] of a layout.
macro_rules! with_cells {
    ($layout:expr, $cells:ident => $body:expr) => {
        match ($layout.squeezed(), $layout.width) {
            (Some($cells), _) => $body,
            (None, 8) => {
                let $cells = Whole::<1>;
                $body
            }
            (None, 16) => {
                let $cells = Whole::<2>;
                $body
            }
            (None, width) => {
                let $cells = Packed(width);
                $body
            }
        }
    };
}

/// Whether a table can be asked the quick way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bytes {
    OneShard,
    Shards,
    No,
}

/// A table that is filled, and what it takes to ask it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Table {
    pub(in crate::filters) layout: Layout,
    pub(in crate::filters) words: Words,
    /// Of each shard the multiplier.
    pub(in crate::filters) seeds: Words,
    /// Digests that the table denies, in order.
    pub(in crate::filters) extra: Words,
    pub(in crate::filters) len: u64,
    /// Whether the cells alone decide: there are keys, and none is listed. Without a key the
    /// cells are zero, which is some strangers' print.
    plain: bool,
    /// Whether it is plain and its cells are bytes.
    bytes: Bytes,
    /// The first shard's multiplier.
    first: u64,
    /// Words of a shard.
    part: usize,
}

impl Table {
    /// Fills a table: the cells of a shard are those of `graph`.
    pub(in crate::filters) fn solve<const K: usize>(
        options: &BuildOptions<'_>,
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
        let solved = records.solve(options, layout.shard_bits, cells, |_, records, part| {
            let idle = peelers.lock().expect("no panic").pop();
            let mut peeler = idle.unwrap_or_else(Peeler::new);
            let solved = with_cells!(layout, cells => {
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
        let bytes = match layout {
            Layout { width: 8, room: 0, shard_bits: 0, .. } if plain => Bytes::OneShard,
            Layout { width: 8, room: 0, .. } if plain => Bytes::Shards,
            _ => Bytes::No,
        };
        let first = seeds[0];
        let part = layout.part() as usize;
        Self { layout, words, seeds, extra, len, plain, bytes, first, part }
    }

    /// The number of the digest's shard.
    #[inline(always)]
    fn shard(&self, digest: u64) -> usize {
        // In two steps, since a shift by 64 is none.
        (digest >> 1 >> (63 - self.layout.shard_bits)) as usize
    }

    /// Whether the digest may be a member.
    #[inline(always)]
    pub(in crate::filters) fn contains<const K: usize>(
        &self,
        graph: &impl Graph<K>,
        digest: u64,
    ) -> bool {
        // Bytes are asked for here, and all else out of the way: taken together they are too much
        // for the registers, and took half as long again.
        match self.bytes {
            Bytes::OneShard => graph.holds(self.first, digest, &self.words),
            Bytes::Shards => {
                let shard = self.shard(digest);
                graph.holds(self.seeds[shard], digest, &self.words[shard * self.part..])
            }
            Bytes::No => self.ask(graph, digest),
        }
    }

    /// The same for any table.
    #[inline(never)]
    fn ask<const K: usize>(&self, graph: &impl Graph<K>, digest: u64) -> bool {
        let found = with_cells!(self.layout, cells => {
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
        let from = shard * self.part;
        Probe { from, cells: edge.cells, print: cells.cut(edge.print) }
    }

    /// The graph that answers, where it is not the same for all multipliers.
    pub(in crate::filters) fn settled<const K: usize, G: Graph<K>>(&self, graph: G) -> G {
        if self.layout.shard_bits == 0 { graph.settled(self.first) } else { graph }
    }

    /// Answers for many digests.
    pub(in crate::filters) fn contains_batch<const K: usize>(
        &self,
        graph: &impl Graph<K>,
        digests: impl ExactSizeIterator<Item = u64>,
        out: &mut [bool],
    ) {
        with_cells!(self.layout, cells => self.each(graph, cells, digests, out));
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
                *out = self.contains(graph, digest);
            }
            return;
        }
        let nothing = Probe { from: 0, cells: [0; K], print: 0 };
        let mut batch = [(0, nothing); BATCH];
        for out in out.chunks_mut(BATCH) {
            for ((kept, probe), digest) in batch.iter_mut().zip(digests.by_ref().take(out.len())) {
                (*kept, *probe) = (digest, self.probe(graph, cells, digest));
                for cell in probe.cells {
                    prefetch(&self.words, cells.word(probe.from, cell));
                }
            }
            for ((digest, probe), out) in batch.iter().zip(out) {
                let found = probe.test(self, cells);
                *out = if self.plain { found } else { self.either(found, *digest) };
            }
        }
    }

    /// Its sections.
    pub(in crate::filters) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(TABLE, &self.words);
        to.words(SEEDS, &self.seeds);
        to.words(EXTRA, &self.extra);
    }

    /// Takes them back, with so many members of which so many are listed.
    pub(in crate::filters) fn read(
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
    pub(in crate::filters) fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let end = self.part << self.layout.shard_bits;
        let bits = self.layout.cells * u64::from(self.layout.width);
        let is_sound = |part: &[u64]| match self.layout.squeezed() {
            Some(cells) => cells.is_sound(part),
            None => set::ends_at(part, bits),
        };
        if !self.words[..end].chunks(self.part).all(is_sound)
            || !set::ends_at(&self.words[end..], 0)
        {
            return corrupt("bits are set where there is no cell");
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
    from: usize,
    cells: [usize; K],
    print: u64,
}

impl<const K: usize> Probe<K> {
    #[inline(always)]
    fn test(&self, table: &Table, cells: impl Cells) -> bool {
        let get = |cell| cells.get(&table.words, self.from, cell);
        self.cells.iter().fold(0, |sum, cell| sum ^ get(*cell)) == self.print
    }
}

/// How often a shard of so many records is tried before the list takes what is left.
///
/// Small ones are made so tight that most multipliers fail, large ones so that few do; with this
/// many, a shard of hashed keys is left over once in 10^11.
pub(in crate::filters) fn attempts(records: usize, cells: usize) -> u64 {
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
    let (mut seed, mut settled) = (multiplier(0), *graph);
    for number in 0..attempts(records.len(), graph.cells()) {
        seed = multiplier(number);
        settled = graph.settled(seed);
        if peeler.peel(&settled, seed, records)? == records.len() {
            break;
        }
    }
    let graph = settled;
    let width = cells.width();
    let words = (graph.cells() * width as usize).div_ceil(64);
    let mut apart = (words != part.len()).then(|| vec![0; words]);
    let plain = apart.as_deref_mut().unwrap_or(&mut *part);
    for (cell, [digest]) in peeler.owners() {
        let edge = graph.edge(seed, *digest);
        let get = |cell: &usize| packed::get(plain, width, *cell as u64);
        let value = edge.cells.iter().fold(edge.print, |sum, cell| sum ^ get(cell));
        packed::set(plain, width, cell as u64, value);
    }
    cells.store(apart.as_deref(), part);
    // Every member is asked for, whether or not all were peeled.
    let denied = records.iter().map(|[digest]| *digest).filter(|digest| {
        let edge = graph.edge(seed, *digest);
        let sum = edge.cells.iter().fold(edge.print, |sum, cell| sum ^ cells.get_in(part, *cell));
        cells.cut(sum) != 0
    });
    Ok((seed, denied.collect()))
}
