//! Shards of cells that are filled by peeling: the common part of
//! [`binary_fuse`](super::super::binary_fuse) and [`xor`](super::super::xor), and level 1 of
//! [`guarded`](super::super::guarded). Lookups of the fuse kinds are in [`FuseTable`], those of `xor`
//! in [`Table`].
//!
//! ```text
//!  digest ──► its leading bits ──► shard ──► multiplier            one word per shard
//!         ──► graph(multiplier) ─► K cells of the shard, and a fingerprint of w bits
//!
//!  table   │ cells of shard 0 │ cells of shard 1 │ …                  w bits per cell
//!                 ▲  ▲     ▲
//!                 └──┴──┬──┘
//!             the XOR of the three is the fingerprint, for every member
//! ```
//!
//! A shard that cannot be peeled tries the next multiplier, independently of the others and a bounded
//! number of times. Digests that the table still rejects go to a sorted list, which is searched when
//! the table rejects a digest. Hashed keys never get there. Digests chosen by an adversary may, which
//! makes the filter larger but keeps it correct.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::peel::{Blocks, Fuse, FuseTable, Graph, Peeler, multiplier};
use tamis_bits::{LINE_WORDS, Words, packed, prefetch, set, unaligned};

use tamis_format::{Fields, Name, Reader, Writer};

use super::usize_words;
use crate::error::Error;
use crate::gather::{Gathered, Record};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::sync::Mutex;

const TABLE: Name = Name::new("table");
const SEEDS: Name = Name::new("seeds");
const EXTRA: Name = Name::new("extra");
/// The version of the layout of `binary_fuse` and `guarded`: how a digest selects its cells and its fingerprint.
/// Files of layout 1 have no such field. Older files are refused.
pub(in crate::filters) const LAYOUT: u64 = 3;
/// A limit that no filter reaches.
pub(in crate::filters) const MAX_SHARD_BITS: u32 = 32;
/// Keys of a batch whose cells are prefetched before the first one is read.
const BATCH: usize = 64;
/// Records that are looked up between two checks: a few milliseconds.
const CHECKED: usize = 1 << 16;

/// The number of cells, their width and the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Layout {
    /// Bits of a cell, 1 to 32.
    pub(in crate::filters) width: u32,
    /// The number of shards is `2^shard_bits`.
    pub(in crate::filters) shard_bits: u32,
    /// Cells of a shard.
    pub(in crate::filters) cells: u64,
    /// If the last third of a shard's cells is stored without its zeros, the number of other cells
    /// that it has room for. Otherwise 0.
    pub(in crate::filters) room: u64,
}

impl Layout {
    /// Returns whether the sizes are within range and consistent.
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

    /// Returns the words of a shard.
    pub(in crate::filters) fn shard_words(&self) -> u64 {
        match self.compressed() {
            Some(cells) => cells.words() as u64,
            None => (self.cells * u64::from(self.width)).div_ceil(64),
        }
    }

    fn compressed(&self) -> Option<Compressed> {
        let (block, room) = (self.cells as usize / 3, self.room as usize);
        (room > 0).then(|| Compressed::new(self.width, block, room))
    }

    /// Returns the words of the table. Cells of most widths are read as a word that starts at their
    /// first byte, so these widths need one more word at the end.
    pub(in crate::filters) fn words(&self) -> u64 {
        let padding = u64::from(!matches!(self.width, 8 | 16) && self.room == 0);
        self.shard_words() * self.shards() + padding
    }

    /// Returns the bytes of the table and the multipliers, in whole cache lines.
    pub(in crate::filters) fn bytes(&self) -> u64 {
        (tamis_bits::lines(self.words()) + tamis_bits::lines(self.shards())) * 64
    }
}

/// Returns the binary logarithm of the least keys of a shard; the most are twice as many. Large shards
/// take fewer cells per key. Small shards are peeled faster and give threads work to share. Large
/// sets have enough shards, so theirs are larger.
const fn shard_size(keys: u64) -> u32 {
    if keys < 1 << 26 { 21 } else { 22 }
}

/// Returns how many bits number the shards of `keys` keys, and the expected keys of the largest shard.
pub(in crate::filters) fn shards(keys: u64) -> (u32, f64) {
    let bits = (keys >> shard_size(keys)).checked_ilog2().unwrap_or(0);
    let mean = keys as f64 / (1u64 << bits) as f64;
    // Of 2^b shards the largest is about sqrt(2b ln 2) standard deviations above the mean.
    let spread = if bits == 0 { 0.0 } else { 1.0 + f64::from(bits).sqrt() * 1.18 };
    (bits, mean + spread * mean.sqrt())
}

/// Returns the smallest width `w` with 2^-w <= `fpr`.
///
/// # Errors
/// [`Error::Infeasible`] if that is more than 32.
pub(in crate::filters) fn width_for(fpr: f64) -> Result<u32, Error> {
    // Rounding errors must not make 2^-w itself take w + 1 bits.
    match (-fpr.log2() - 1e-9).ceil().max(1.0) {
        width if width <= 32.0 => Ok(width as u32),
        _ => Err(Error::Infeasible { why: "the fingerprints have at most 32 bits" }),
    }
}

/// The fuse graph of each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct FuseSize {
    /// The number of shards is `2^shard_bits`.
    pub(in crate::filters) shard_bits: u32,
    /// Cells of a shard.
    pub(in crate::filters) cells: u64,
    /// The binary logarithm of the cells of a segment.
    pub(in crate::filters) segment: u32,
}

/// Cells per 1000 keys of a shard, measured, by the binary logarithm of the keys in steps of two, with
/// interpolation between them. Up to 2^10 keys one multiplier in five peels all of them, at 2^12 one
/// in two does, from 2^14 on three in four and more.
const CELLS_THREE: [f64; 13] =
    [1750., 1750., 1260., 1270., 1250., 1234., 1215., 1188., 1160., 1139., 1121., 1110., 1105.];
const CELLS_FOUR: [f64; 13] =
    [2000., 1750., 1450., 1310., 1280., 1226., 1172., 1138., 1105., 1076., 1061., 1050., 1042.];

/// Returns the smallest fuse graphs that peel `keys` keys with `arity` cells each, 3 or 4.
pub(in crate::filters) fn fuse_size(keys: u64, arity: u32) -> FuseSize {
    let (shard_bits, largest) = shards(keys);
    let largest = largest.max(1.0);
    let log = largest.log2();
    let (table, offset, least): (_, _, fn(u32) -> u64) = match arity {
        3 => (&CELLS_THREE, 0.2, Fuse::<3>::least),
        _ => (&CELLS_FOUR, -0.25, Fuse::<4>::least),
    };
    // The open end takes a share of s / keys, and the finite number of records about
    // 1 / sqrt(s) of the rest: both are small for s = keys^(2/3).
    let segment = (log * (2.0 / 3.0) + offset).round().clamp(1.0, 18.0) as u32;
    let at = (log / 2.0).min((table.len() - 1) as f64);
    let (low, high) = (table[at as usize], table[(at.ceil()) as usize]);
    let cells = (largest * (low + (high - low) * at.fract()) / 1000.0).ceil() as u64;
    FuseSize { shard_bits, cells: cells.max(least(segment)), segment }
}

/// Reads the cells of one width. The cells of a shard start at word `from`.
trait Cells: Copy {
    fn width(self) -> u32;
    fn get(self, words: &[u64], from: usize, cell: usize) -> u64;

    /// Returns the word to prefetch.
    #[inline(always)]
    fn word(self, from: usize, cell: usize) -> usize {
        from + cell * self.width() as usize / 64
    }

    /// Keeps the low bits of a fingerprint, as many as a cell has.
    #[inline(always)]
    fn truncate(self, fp: u64) -> u64 {
        fp & packed::mask(self.width())
    }

    /// Does the same as `get`, given the words of the shard alone.
    #[inline(always)]
    fn get_in(self, part: &[u64], cell: usize) -> u64 {
        packed::get(part, self.width(), cell as u64)
    }

    /// Stores the cells that lie side by side in `plain`. With `None` they are already stored.
    /// Returns whether all of them are.
    fn store(self, plain: Option<&[u64]>, part: &mut [u64]) -> bool {
        let _ = (plain, part);
        true
    }
}

/// Cells of whole bytes.
#[derive(Clone, Copy)]
struct ByteCells<const BYTES: usize>;

impl<const BYTES: usize> Cells for ByteCells<BYTES> {
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
struct PackedCells(u32);

impl Cells for PackedCells {
    #[inline(always)]
    fn width(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn get(self, words: &[u64], from: usize, cell: usize) -> u64 {
        let bit = cell * self.0 as usize;
        self.truncate(u64::from_le_bytes(unaligned::read(words, from * 8 + bit / 8)) >> (bit % 8))
    }
}

/// Three blocks of cells, the last one without its zeros.
///
/// ```text
///  │ block 0 │ block 1 │ n │ 448 bits │ n │ 448 bits │ … │ cells of block 2 that are not 0 │
///                        └── a cache line ┘
/// ```
///
/// A bit states whether its cell is not 0. `n` is the number of set bits before the line.
#[derive(Clone, Copy, Debug)]
struct Compressed {
    width: u32,
    block: usize,
    room: usize,
    /// The first word of the lines, and of the cells after them.
    lines: usize,
    rest: usize,
}

/// Bits of a line.
const LINE: usize = 448;

impl Compressed {
    fn new(width: u32, block: usize, room: usize) -> Self {
        let lines = (2 * block * width as usize).div_ceil(64);
        Self { width, block, room, lines, rest: lines + block.div_ceil(LINE) * LINE_WORDS }
    }

    fn words(self) -> usize {
        self.rest + (self.room * self.width as usize).div_ceil(64)
    }

    /// Returns whether [`Cells::store`] could have made these words.
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

impl Cells for Compressed {
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
        // A hostile file may state any count.
        let rank = line[0].saturating_add(near).min(self.room as u64 - 1);
        packed::get(&part[self.rest..], self.width, rank)
    }

    /// Cells that do not fit become zero. The members that need them are found and listed later.
    fn store(self, plain: Option<&[u64]>, part: &mut [u64]) -> bool {
        let Some(plain) = plain else { return true };
        for cell in 0..2 * self.block as u64 {
            packed::set(part, self.width, cell, packed::get(plain, self.width, cell));
        }
        let (mut count, mut fits) = (0, true);
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
            } else {
                fits &= value == 0;
            }
        }
        fits
    }
}

/// Evaluates the body with `$cells` as the [`Cells`] of a layout.
macro_rules! with_cells {
    ($layout:expr, $cells:ident => $body:expr) => {
        match ($layout.compressed(), $layout.width) {
            (Some($cells), _) => $body,
            (None, 8) => {
                let $cells = ByteCells::<1>;
                $body
            }
            (None, 16) => {
                let $cells = ByteCells::<2>;
                $body
            }
            (None, width) => {
                let $cells = PackedCells(width);
                $body
            }
        }
    };
}

/// A solved shard, except for its cells.
pub struct Shard {
    /// Its multiplier.
    seed: u64,
    /// The digests that its cells reject, ascending.
    rejected: Vec<u64>,
}

impl Shard {
    /// Returns the shard as words.
    pub(in crate::filters) fn encode(&self) -> Vec<u64> {
        [&[self.seed], &self.rejected[..]].concat()
    }

    /// Returns the shard of these words.
    pub(in crate::filters) fn decode(words: &[u64]) -> Option<Self> {
        let (seed, rejected) = words.split_first()?;
        Some(Self { seed: *seed, rejected: rejected.to_vec() })
    }
}

/// Fills the cells of the shards in the range of `records`. The cells of a shard are the vertices of
/// `graph`.
pub(in crate::filters) fn solve_shards<const K: usize>(
    options: &BuildOptions<'_>,
    layout: Layout,
    graph: &(impl Graph<K> + Sync),
    records: Gathered<1>,
    cells: &mut [u64],
) -> Result<Vec<Shard>, Error> {
    let len = records.len();
    // Peelers are reused, because fresh pages cost as much as the peeling.
    let peelers = Mutex::new(Vec::new());
    let check = || options.check(0, len);
    let records = records.with_order(graph.order_bits());
    records.solve(options, layout.shard_bits, cells, |_, records, part| {
        let idle = peelers.lock().expect("no panic").pop();
        let mut peeler = idle.unwrap_or_else(Peeler::new);
        let solved = with_cells!(layout, cells => {
            solve_shard(&mut peeler, graph, cells, records, part, check)
        });
        peelers.lock().expect("no panic").push(peeler);
        solved
    })
}

/// The sections of a table.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Sections {
    pub(in crate::filters) words: Words,
    /// The multiplier of each shard.
    pub(in crate::filters) seeds: Words,
    /// Digests that the table rejects, sorted.
    pub(in crate::filters) extra: Words,
}

impl Sections {
    /// Makes the sections from all shards and their cells.
    pub(in crate::filters) fn of_shards(
        layout: Layout,
        words: Words,
        shards: Vec<Shard>,
    ) -> Result<Self, Error> {
        let mut seeds = Words::zeroed(usize_words(layout.shards())?)?;
        let mut extra = Vec::new();
        for (seed, shard) in seeds.to_mut().iter_mut().zip(shards) {
            *seed = shard.seed;
            extra.extend(shard.rejected);
        }
        Ok(Self { words, seeds, extra: Words::copy_of(&extra)? })
    }

    /// Makes the table of `len` members of a fuse graph.
    pub(in crate::filters) fn into_fuse<const K: usize>(
        self,
        layout: Layout,
        graph: Fuse<K>,
        len: u64,
    ) -> FuseTable {
        let Self { words, seeds, extra } = self;
        let table = FuseTable::new(graph, layout.width, words, seeds, extra, len);
        table.expect("the sections have the sizes that the layout states")
    }

    /// Reads the sections of a table, of which `listed` digests are listed.
    pub(in crate::filters) fn read(
        from: &mut Reader,
        layout: Layout,
        listed: u64,
    ) -> Result<Self, Error> {
        let words = from.words(TABLE, layout.words())?;
        let seeds = from.words(SEEDS, layout.shards())?;
        let extra = from.words(EXTRA, listed)?;
        Ok(Self { words, seeds, extra })
    }
}

/// Solves all shards of a fuse graph and makes the table.
pub(in crate::filters) fn solve_fuse<const K: usize>(
    options: &BuildOptions<'_>,
    layout: Layout,
    graph: Fuse<K>,
    records: Gathered<1>,
) -> Result<FuseTable, Error> {
    let len = records.len();
    let mut words = Words::zeroed(usize_words(layout.words())?)?;
    let cells = &mut words.to_mut()[..usize_words(layout.shard_words() * layout.shards())?];
    let shards = solve_shards(options, layout, &graph, records, cells)?;
    Ok(Sections::of_shards(layout, words, shards)?.into_fuse(layout, graph, len))
}

/// Reads the first field of the shape of a fuse kind, which states one of these layouts.
pub(in crate::filters) fn read_layout(
    from: &Reader,
    fields: &mut Fields,
    layouts: RangeInclusive<u64>,
) -> Result<u64, Error> {
    let layout = fields.next(2..=*layouts.end(), "layout of the cells")?;
    if !layouts.contains(&layout) {
        return Err(from.corrupt("files of older layouts must be built again").into());
    }
    Ok(layout)
}

/// Writes the sections of a fuse table.
pub(in crate::filters) fn write_fuse<'a>(table: &'a FuseTable, to: &mut Writer<'a>) {
    to.words(TABLE, table.words());
    to.words(SEEDS, table.seeds());
    to.words(EXTRA, table.listed());
}

/// Checks that the sections of a fuse table could be those of a filter.
pub(in crate::filters) fn validate_fuse(layout: Layout, table: &FuseTable) -> Result<(), Error> {
    validate(layout, table.words(), table.seeds(), table.listed())
}

/// Checks that the sections could be those of a table.
fn validate(layout: Layout, words: &[u64], seeds: &[u64], extra: &[u64]) -> Result<(), Error> {
    let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
    let shard_words = layout.shard_words() as usize;
    let end = shard_words << layout.shard_bits;
    let bits = layout.cells * u64::from(layout.width);
    let is_sound = |part: &[u64]| match layout.compressed() {
        Some(cells) => cells.is_sound(part),
        None => set::ends_at(part, bits),
    };
    if !words[..end].chunks(shard_words).all(is_sound) || !set::ends_at(&words[end..], 0) {
        return corrupt("bits are set outside the cells");
    }
    if seeds.iter().any(|seed| seed % 2 == 0) {
        return corrupt("a multiplier is even");
    }
    if !extra.is_sorted_by(|a, b| a < b) {
        return corrupt("the listed digests are not sorted");
    }
    Ok(())
}

/// A filled table of the blocks of an xor filter.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Table {
    layout: Layout,
    graph: Blocks<3>,
    pub(in crate::filters) sections: Sections,
    pub(in crate::filters) len: u64,
    /// Whether the cells alone decide: there are keys, and none is listed. Without keys all cells are
    /// zero, which matches the fingerprints of some non-members.
    plain: bool,
    /// Whether it is plain and its cells are bytes.
    bytes: FastBytes,
    /// The words of a shard.
    shard_words: usize,
}

/// Whether the fast lookup of byte cells applies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FastBytes {
    OneShard,
    Shards,
    No,
}

impl Table {
    /// Makes the table of `len` members from its sections.
    pub(in crate::filters) fn new(
        layout: Layout,
        graph: Blocks<3>,
        sections: Sections,
        len: u64,
    ) -> Self {
        let plain = len > 0 && sections.extra.is_empty();
        let bytes = match layout {
            Layout { width: 8, room: 0, shard_bits: 0, .. } if plain => FastBytes::OneShard,
            Layout { width: 8, room: 0, .. } if plain => FastBytes::Shards,
            _ => FastBytes::No,
        };
        let shard_words = layout.shard_words() as usize;
        Self { layout, graph, sections, len, plain, bytes, shard_words }
    }

    /// Returns the number of the digest's shard.
    #[inline(always)]
    fn shard(&self, digest: u64) -> usize {
        // Two shifts, because a shift by 64 is not allowed.
        (digest >> 1 >> (63 - self.layout.shard_bits)) as usize
    }

    /// Returns whether the digest may be a member.
    #[inline(always)]
    pub(in crate::filters) fn contains(&self, digest: u64) -> bool {
        let Sections { words, seeds, .. } = &self.sections;
        // Bytes are read here and all other widths in a function of their own. In one function they
        // need too many registers, which took half as long again.
        match self.bytes {
            FastBytes::OneShard => self.graph.holds(seeds[0], digest, words),
            FastBytes::Shards => {
                let shard = self.shard(digest);
                self.graph.holds(seeds[shard], digest, &words[shard * self.shard_words..])
            }
            FastBytes::No => self.contains_any_width(digest),
        }
    }

    /// Does the same for cells of any width.
    #[inline(never)]
    fn contains_any_width(&self, digest: u64) -> bool {
        let found = with_cells!(self.layout, cells => {
            self.probe(cells, digest).test(&self.sections.words, cells)
        });
        if self.plain { found } else { self.contains_listed(found, digest) }
    }

    /// Corrects the result of the cells for filters that are empty or have listed digests.
    #[cold]
    fn contains_listed(&self, found: bool, digest: u64) -> bool {
        self.len > 0 && (found || self.sections.extra.binary_search(&digest).is_ok())
    }

    #[inline(always)]
    fn probe(&self, cells: impl Cells, digest: u64) -> Probe {
        let shard = self.shard(digest);
        let edge = self.graph.edge(self.sections.seeds[shard], digest);
        let from = shard * self.shard_words;
        Probe { from, cells: edge.cells, fp: cells.truncate(edge.print) }
    }

    /// Sets `out` to whether each digest may be a member.
    pub(in crate::filters) fn contains_batch(
        &self,
        digests: impl ExactSizeIterator<Item = u64>,
        out: &mut [bool],
    ) {
        with_cells!(self.layout, cells => self.contains_batch_in(cells, digests, out));
    }

    #[inline(always)]
    fn contains_batch_in(
        &self,
        cells: impl Cells,
        mut digests: impl ExactSizeIterator<Item = u64>,
        out: &mut [bool],
    ) {
        let words = &self.sections.words;
        let nothing = Probe { from: 0, cells: [0; 3], fp: 0 };
        let mut batch = [(0, nothing); BATCH];
        for out in out.chunks_mut(BATCH) {
            for ((kept, probe), digest) in batch.iter_mut().zip(digests.by_ref().take(out.len())) {
                (*kept, *probe) = (digest, self.probe(cells, digest));
                for cell in probe.cells {
                    prefetch(words, cells.word(probe.from, cell));
                }
            }
            for ((digest, probe), out) in batch.iter().zip(out) {
                let found = probe.test(words, cells);
                *out = if self.plain { found } else { self.contains_listed(found, *digest) };
            }
        }
    }

    /// Writes the sections.
    pub(in crate::filters) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(TABLE, &self.sections.words);
        to.words(SEEDS, &self.sections.seeds);
        to.words(EXTRA, &self.sections.extra);
    }

    /// Checks that the sections could be those of a table.
    pub(in crate::filters) fn validate(&self) -> Result<(), Error> {
        let Sections { words, seeds, extra } = &self.sections;
        validate(self.layout, words, seeds, extra)
    }
}

/// The cells of a digest, and the fingerprint that their XOR must equal.
#[derive(Clone, Copy)]
struct Probe {
    from: usize,
    cells: [usize; 3],
    fp: u64,
}

impl Probe {
    #[inline(always)]
    fn test(&self, words: &[u64], cells: impl Cells) -> bool {
        let get = |cell| cells.get(words, self.from, cell);
        self.cells.iter().fold(0, |sum, cell| sum ^ get(*cell)) == self.fp
    }
}

/// Returns how many multipliers a shard tries before the remaining records are listed.
///
/// Small shards are so tight that most multipliers fail, large shards so that few do. With this many
/// attempts, a shard of hashed keys fails with probability 10^-11.
fn attempts(records: usize, cells: usize) -> u64 {
    // More records than cells cannot be peeled, whatever the multiplier.
    if records > cells { 1 } else { ((1 << 24) / (records as u64 + 1)).clamp(24, 255) }
}

/// Peels the records of one shard, all of them if one of its multipliers does, else as many as the last one
/// can. The numbers of the multipliers begin with `from`. Returns the multiplier and the peeled records.
pub(in crate::filters) fn peel_shard<const K: usize, const W: usize>(
    peeler: &mut Peeler<W>,
    graph: &impl Graph<K>,
    from: u64,
    records: &[Record<W>],
    check: impl Fn() -> Result<(), Error>,
) -> Result<(u64, usize), Error> {
    let last = from + attempts(records.len(), graph.cells()) - 1;
    for seed in (from..last).map(multiplier) {
        if peeler.peel_all(graph, seed, records, &check)? {
            return Ok((seed, records.len()));
        }
    }
    let seed = multiplier(last);
    Ok((seed, peeler.peel(graph, seed, records, check)?))
}

/// Fills the cells of one shard.
fn solve_shard<const K: usize>(
    peeler: &mut Peeler<1>,
    graph: &impl Graph<K>,
    cells: impl Cells,
    records: &[Record<1>],
    part: &mut [u64],
    check: impl Fn() -> Result<(), Error>,
) -> Result<Shard, Error> {
    let (seed, peeled) = peel_shard(peeler, graph, 0, records, &check)?;
    let width = cells.width();
    let words = (graph.cells() * width as usize).div_ceil(64);
    let mut apart = (words != part.len()).then(|| vec![0; words]);
    let plain = apart.as_deref_mut().unwrap_or(&mut *part);
    peeler.fill(graph, seed, width, plain, &check)?;
    let mut rejected = Vec::new();
    if cells.store(apart.as_deref(), part) && peeled == records.len() {
        return Ok(Shard { seed, rejected });
    }
    // The cells may reject the records that were not peeled, and those whose cell is not stored.
    for records in records.chunks(CHECKED) {
        check()?;
        rejected.extend(records.iter().map(|[digest]| *digest).filter(|digest| {
            let edge = graph.edge(seed, *digest);
            let get = |cell: &usize| cells.get_in(part, *cell);
            let sum = edge.cells.iter().fold(edge.print, |sum, cell| sum ^ get(cell));
            cells.truncate(sum) != 0
        }));
    }
    rejected.sort_unstable();
    Ok(Shard { seed, rejected })
}
