//! Cells of which every digest has one of its own: what [`bloomier`](super::bloomier) and
//! [`guarded`](super::guarded) have in common.
//!
//! ```text
//!  digest ──► its leading bits ──► shard ──► multiplier             one word a shard
//!         ──► fuse graph(multiplier) ──► three cells of the shard, and a print
//!
//!  table   │ codes of shard 0 │ values of shard 0 │ codes of shard 1 │ … │ a word
//!  extra   │ digest, value │ digest, value │ …                       those without a cell
//! ```
//!
//! A cell is a code and, where the kind has them, a value; of a shard the codes come first, so that
//! the lines that strangers read are few. Records are visited from the last that was peeled to
//! the first: what a record writes into its own cell is read by none that was visited before it. So
//! it can choose the XOR of its three codes, and any value. A record that no multiplier finds a cell for is listed
//! with its value; that happens only to digests that somebody has chosen.

use std::sync::Mutex;

use tamis_bits::peel::{Fuse, Graph, Peeler, multiplier};
use tamis_bits::{Words, prefetch, set};
use tamis_format::{Fields, Name, Reader, Writer};

use super::peeled::{MAX_SHARD_BITS, attempts};
use super::usize_words;
use crate::error::Error;
use crate::filters::binary_fuse::BinaryFuseShape;
use crate::gather::{Gathered, Record};
use crate::options::BuildOptions;

const TABLE: Name = Name::new("table");
const SEEDS: Name = Name::new("seeds");
const EXTRA: Name = Name::new("extra");
/// Digests of a batch whose cells are asked for before the first is looked at.
const BATCH: usize = 32;

/// How many cells, how wide, in how many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Grid {
    /// There are `2^shard_bits` shards.
    shard_bits: u32,
    /// Cells of a shard.
    cells: u64,
    /// Binary logarithm of the cells of a segment.
    segment: u32,
    /// Bits of a code, and of a value.
    widths: [u32; 2],
    /// Words of a shard's codes and of its values.
    words: [u64; 2],
    graph: Fuse<3>,
}

impl Grid {
    /// As many cells, in as many shards, as a `binary_fuse` filter of so many keys has.
    pub(in crate::filters) fn new(keys: u64, widths: [u32; 2]) -> Result<Self, Error> {
        let fuse = BinaryFuseShape::new(keys, 1, 3)?;
        let (shard_bits, cells) = (fuse.layout.shard_bits, fuse.layout.cells);
        let most = crate::limits::MAX_KEYS;
        let grid = Self::sound(shard_bits, cells, fuse.segment, widths);
        grid.ok_or(Error::Limit { what: "keys", asked: keys, most })
    }

    /// If there is a graph of that size, and sizes that can be computed with.
    pub(in crate::filters) fn sound(
        shard_bits: u32,
        cells: u64,
        segment: u32,
        widths: [u32; 2],
    ) -> Option<Self> {
        let graph = Fuse::new(cells, segment, shard_bits)?;
        let words = widths.map(|width| (cells * u64::from(width)).div_ceil(64));
        let sound = shard_bits <= MAX_SHARD_BITS && cells << shard_bits <= 1 << 54;
        sound.then_some(Self { shard_bits, cells, segment, widths, words, graph })
    }

    /// Takes it from the fields of a shape.
    pub(in crate::filters) fn read(
        from: &Reader,
        fields: &mut Fields,
        widths: [u32; 2],
    ) -> Result<Self, Error> {
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard's number")?;
        let cells = fields.next(1..=u32::MAX.into(), "cells of a shard")?;
        let segment = fields.next(1..=20, "bits of a segment")?;
        let grid = Self::sound(shard_bits as u32, cells, segment as u32, widths);
        Ok(grid.ok_or_else(|| from.corrupt("cells that do not fit the segments"))?)
    }

    /// The fields of a shape that tell it, but for the widths.
    pub(in crate::filters) fn fields(&self) -> [u64; 3] {
        [self.shard_bits.into(), self.cells, self.segment.into()]
    }

    fn shards(&self) -> u64 {
        1 << self.shard_bits
    }

    /// Words of a shard.
    fn part(&self) -> u64 {
        self.words[0] + self.words[1]
    }

    /// Words of the table: codes are read as a word from the byte that they begin in, and for the
    /// last of them there is one more.
    fn words(&self) -> u64 {
        (self.part() << self.shard_bits) + 1
    }

    /// Whole cache lines of the table and of the shards' multipliers.
    pub(in crate::filters) fn bytes(&self) -> u64 {
        (tamis_bits::lines(self.words()) + tamis_bits::lines(self.shards())) * 64
    }

    /// With the graph that answers, where it is not the same for all multipliers.
    fn settled(self, seed: u64) -> Self {
        Self { graph: self.graph.settled(seed), ..self }
    }

    /// What a digest has in a shard that begins at bit `from`.
    #[inline(always)]
    fn place(&self, seed: u64, from: u64, digest: u64) -> Place {
        let edge = self.graph.edge(seed, digest);
        let bit = |cell: usize| from + cell as u64 * u64::from(self.widths[0]);
        Place { codes: edge.cells.map(bit), cells: edge.cells, from, print: edge.print }
    }

    /// The bit at which the value of a place's cell of this number begins.
    #[inline(always)]
    pub(in crate::filters) fn value_at(&self, place: &Place, own: usize) -> u64 {
        let values = place.from + self.words[0] * 64;
        values + place.cells[own] as u64 * u64::from(self.widths[1])
    }
}

/// Where a digest's cells are.
#[derive(Clone, Copy, Debug)]
pub(in crate::filters) struct Place {
    /// The bits at which their codes begin.
    pub(in crate::filters) codes: [u64; 3],
    /// Their numbers in the shard, and the bit at which that begins.
    cells: [usize; 3],
    from: u64,
    /// 32 bits that tell nothing of them, with others above.
    pub(in crate::filters) print: u64,
}

/// How a kind uses the cells.
pub(in crate::filters) trait Cells: Sync {
    /// Writes what the record's `own` cell, one of `place`, must hold; it holds zeros.
    fn write(&self, grid: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64);

    /// Whether the cells say of the record what they should.
    fn agree(&self, grid: &Grid, part: &[u64], place: &Place, value: u64) -> bool;
}

/// A table that is filled, and what it takes to ask it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Retrieval {
    pub(in crate::filters) grid: Grid,
    pub(in crate::filters) table: Words,
    /// Of each shard the multiplier.
    seeds: Words,
    /// Digests without a cell, in order, each followed by its value.
    pub(in crate::filters) extra: Words,
}

impl Retrieval {
    /// Finds every record a cell. The multipliers that are tried are those from number `from` on;
    /// one digest in two records is an error, and `conflict` says what it is told.
    pub(in crate::filters) fn solve(
        options: &BuildOptions<'_>,
        grid: Grid,
        from: u64,
        records: Gathered<2>,
        conflict: &'static str,
        cells: &impl Cells,
    ) -> Result<Self, Error> {
        let mut table = Words::zeroed(usize_words(grid.words())?)?;
        let (_, shards) = table.to_mut().split_last_mut().expect("at least one word");
        // Memory that was had once is had again: fresh pages cost as much as the peeling.
        let peelers = Mutex::new(Vec::new());
        let solved = records.solve(options, grid.shard_bits, shards, |_, records, part| {
            if let Some([record, _]) = records.array_windows().find(|[a, b]| a[0] == b[0]) {
                return Err(Error::Conflict { digest: record[0], what: conflict });
            }
            let idle = peelers.lock().expect("no panic").pop();
            let mut peeler = idle.unwrap_or_else(Peeler::new);
            let solved = solve_shard(&mut peeler, &grid, from, records, part, cells);
            peelers.lock().expect("no panic").push(peeler);
            solved
        })?;
        let (seeds, unplaced): (Vec<_>, Vec<_>) = solved.into_iter().unzip();
        let extra = Words::copy_of(unplaced.concat().as_flattened())?;
        Ok(Self::new(grid, table, Words::copy_of(&seeds)?, extra))
    }

    fn new(grid: Grid, table: Words, seeds: Words, extra: Words) -> Self {
        // Of several shards all have one graph.
        Self { grid: grid.settled(seeds[0]), table, seeds, extra }
    }

    /// Entries beside the table.
    pub(in crate::filters) fn listed(&self) -> u64 {
        self.extra.len() as u64 / 2
    }

    #[inline(always)]
    pub(in crate::filters) fn place(&self, digest: u64) -> Place {
        // In two steps, since a shift by 64 is none.
        let shard = digest >> 1 >> (63 - self.grid.shard_bits);
        let from = shard * self.grid.part() * 64;
        self.grid.place(self.seeds[shard as usize], from, digest)
    }

    /// The value that is listed for the digest.
    #[inline(always)]
    pub(in crate::filters) fn exception(&self, digest: u64) -> Option<u64> {
        if self.extra.is_empty() { None } else { self.look_up(digest).map(|at| self.extra[at]) }
    }

    /// The same, to change.
    pub(in crate::filters) fn exception_mut(
        &mut self,
        digest: u64,
    ) -> Result<Option<&mut u64>, Error> {
        let Some(at) = self.look_up(digest) else { return Ok(None) };
        self.extra.make_owned()?;
        Ok(self.extra.to_mut().get_mut(at))
    }

    #[cold]
    fn look_up(&self, digest: u64) -> Option<usize> {
        let (pairs, _) = self.extra.as_chunks::<2>();
        pairs.binary_search_by_key(&digest, |pair| pair[0]).ok().map(|at| 2 * at + 1)
    }

    /// Asks for some digests at a time, with their codes on the way, and then hands on what `ask`
    /// found of each, with its number: by then what that asked for may have come.
    #[inline(always)]
    pub(in crate::filters) fn each<A: Copy + Default>(
        &self,
        mut digests: impl Iterator<Item = u64>,
        mut ask: impl FnMut(u64, &Place) -> A,
        mut then: impl FnMut(usize, A),
    ) {
        let nowhere = Place { codes: [0; 3], cells: [0; 3], from: 0, print: 0 };
        let (mut batch, mut answers) = ([(0, nowhere); BATCH], [A::default(); BATCH]);
        let mut before = 0;
        loop {
            let mut count = 0;
            for (entry, digest) in batch.iter_mut().zip(digests.by_ref().take(BATCH)) {
                *entry = (digest, self.place(digest));
                for bit in entry.1.codes {
                    prefetch(&self.table, (bit / 64) as usize);
                }
                count += 1;
            }
            for ((digest, place), answer) in batch[..count].iter().zip(&mut answers) {
                *answer = ask(*digest, place);
            }
            for (at, answer) in answers[..count].iter().enumerate() {
                then(before + at, *answer);
            }
            before += count;
            if count < BATCH {
                return;
            }
        }
    }

    /// Its sections.
    pub(in crate::filters) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(TABLE, &self.table);
        to.words(SEEDS, &self.seeds);
        to.words(EXTRA, &self.extra);
    }

    /// Takes them back, with so many entries listed.
    pub(in crate::filters) fn read(
        from: &mut Reader,
        grid: Grid,
        listed: u64,
    ) -> Result<Self, Error> {
        let table = from.words(TABLE, grid.words())?;
        let seeds = from.words(SEEDS, grid.shards())?;
        let extra = from.words(EXTRA, 2 * listed)?;
        Ok(Self::new(grid, table, seeds, extra))
    }

    /// What no table could hold; listed values have at most so many bits.
    pub(in crate::filters) fn validate(&self, value_bits: u32) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let [codes, values] = self.grid.widths.map(|width| self.grid.cells * u64::from(width));
        let (last, shards) = self.table.split_last().expect("at least one word");
        let sound = |part: &[u64]| {
            let (of_codes, of_values) = part.split_at(self.grid.words[0] as usize);
            set::ends_at(of_codes, codes) && set::ends_at(of_values, values)
        };
        if *last != 0 || !shards.chunks(self.grid.part() as usize).all(sound) {
            return corrupt("bits are set where there is no cell");
        }
        if self.seeds.iter().any(|seed| seed % 2 == 0) {
            return corrupt("a multiplier is even");
        }
        let (pairs, _) = self.extra.as_chunks::<2>();
        if !pairs.is_sorted_by(|a, b| a[0] < b[0]) {
            return corrupt("the digests beside the table are out of order");
        }
        if pairs.iter().any(|[_, value]| value & !tamis_bits::packed::mask(value_bits) != 0) {
            return corrupt("a value beside the table is too wide");
        }
        Ok(())
    }
}

/// Fills the cells of one shard; its multiplier, and the records without a cell.
fn solve_shard(
    peeler: &mut Peeler<2>,
    grid: &Grid,
    from: u64,
    records: &[Record<2>],
    part: &mut [u64],
    cells: &impl Cells,
) -> Result<(u64, Vec<Record<2>>), Error> {
    let (mut seed, mut settled, mut peeled) = (multiplier(from), *grid, 0);
    for number in 0..attempts(records.len(), grid.graph.cells()) {
        seed = multiplier(from + number);
        settled = grid.settled(seed);
        peeled = peeler.peel(&settled.graph, seed, records)?;
        if peeled == records.len() {
            break;
        }
    }
    let grid = settled;
    for (cell, [digest, value]) in peeler.owners() {
        let place = grid.place(seed, 0, *digest);
        let own = place.cells.iter().position(|other| *other == cell).expect("one of its cells");
        cells.write(&grid, part, &place, own, *value);
    }
    // What could not be peeled has no cell, even if by chance it seems to; the others are asked.
    let core: Vec<Record<2>> = match peeled == records.len() {
        true => Vec::new(),
        false => peeler.core(&grid.graph, seed, records).copied().collect(),
    };
    let unplaced = records.iter().filter(|record| {
        let [digest, value] = **record;
        core.binary_search(record).is_ok()
            || !cells.agree(&grid, part, &grid.place(seed, 0, digest), value)
    });
    let unplaced = unplaced.copied().collect();
    Ok((seed, unplaced))
}
