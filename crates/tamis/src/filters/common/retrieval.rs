//! Cells of which every digest owns one: the common part of [`bloomier`](super::super::bloomier) and
//! [`guarded`](super::super::guarded).
//!
//! ```text
//!  digest ──► its leading bits ──► shard ──► multiplier             one word per shard
//!         ──► fuse graph(multiplier) ──► three cells of the shard, and a fingerprint
//!
//!  table   │ codes of shard 0 │ values of shard 0 │ codes of shard 1 │ … │ a word
//!  extra   │ digest, value │ digest, value │ …                       those without a cell
//! ```
//!
//! A cell has a code and, for kinds with values, a value. The codes of a shard come first, so that
//! lookups of non-members read few cache lines. Records are written in the reverse order of peeling:
//! no record that was written before reads the cell that a record owns. So each record can choose
//! the XOR of its three codes, and any value. A record for which no multiplier finds a cell is listed
//! with its value. That happens only to digests chosen by an adversary.

use alloc::vec::Vec;

use tamis_bits::peel::{Fuse, Graph, Peeler};
use tamis_bits::{Words, packed, prefetch, set};
use tamis_format::{Fields, Name, Reader, Writer};

use super::peeled::{FuseSize, MAX_SHARD_BITS, fuse_size, peel_shard};
use super::usize_words;
use crate::error::Error;
use crate::gather::{Gathered, Record};
use crate::options::BuildOptions;
use crate::shape::check_keys;
use crate::sync::Mutex;

const TABLE: Name = Name::new("table");
const SEEDS: Name = Name::new("seeds");
const EXTRA: Name = Name::new("extra");
/// Digests of a batch whose cells are prefetched before the first one is read.
const BATCH: usize = 32;
/// Records that are placed between two checks: a few milliseconds.
const CHECKED: usize = 1 << 16;

/// The number of cells, their widths and the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filters) struct Grid {
    /// The number of shards is `2^shard_bits`.
    shard_bits: u32,
    /// Cells of a shard.
    cells: u64,
    /// The binary logarithm of the cells of a segment.
    segment: u32,
    /// Bits of a code, and of a value.
    widths: [u32; 2],
    /// Words of a shard's codes and of its values.
    words: [u64; 2],
    graph: Fuse<3>,
}

impl Grid {
    /// Returns as many cells, in as many shards, as a `binary_fuse` filter of `keys` keys has.
    pub(in crate::filters) fn new(keys: u64, widths: [u32; 2]) -> Result<Self, Error> {
        check_keys(keys)?;
        let FuseSize { shard_bits, cells, segment } = fuse_size(keys, 3);
        let most = crate::limits::MAX_KEYS;
        let grid = Self::sound(shard_bits, cells, segment, widths);
        grid.ok_or(Error::Limit { what: "keys", asked: keys, most })
    }

    /// Returns the grid of these sizes, if they are within range and a graph of this size exists.
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

    /// Reads a grid from the fields of a shape.
    pub(in crate::filters) fn read(
        from: &Reader,
        fields: &mut Fields,
        widths: [u32; 2],
    ) -> Result<Self, Error> {
        let shard_bits = fields.next(0..=MAX_SHARD_BITS.into(), "bits of a shard number")?;
        let cells = fields.next(1..=u32::MAX.into(), "cells per shard")?;
        let segment = fields.next(1..=20, "bits of a segment")?;
        let grid = Self::sound(shard_bits as u32, cells, segment as u32, widths);
        Ok(grid.ok_or_else(|| from.corrupt("the number of cells does not fit the segments"))?)
    }

    /// Returns the fields of a shape that state the grid, except for the widths.
    pub(in crate::filters) fn fields(&self) -> [u64; 3] {
        [self.shard_bits.into(), self.cells, self.segment.into()]
    }

    /// Returns the binary logarithm of the number of shards.
    pub(in crate::filters) fn shard_bits(&self) -> u32 {
        self.shard_bits
    }

    fn shards(&self) -> u64 {
        1 << self.shard_bits
    }

    /// Returns the words of a shard.
    pub(in crate::filters) fn shard_words(&self) -> u64 {
        self.words[0] + self.words[1]
    }

    /// Returns the words of the table. Codes are read as a word that starts at their first byte, so
    /// there is one more word at the end.
    pub(in crate::filters) fn words(&self) -> u64 {
        (self.shard_words() << self.shard_bits) + 1
    }

    /// Returns the bytes of the table and the multipliers, in whole cache lines.
    pub(in crate::filters) fn bytes(&self) -> u64 {
        (tamis_bits::lines(self.words()) + tamis_bits::lines(self.shards())) * 64
    }

    /// Returns the cells of a digest in a shard that starts at bit `from`.
    #[inline(always)]
    fn place(&self, seed: u64, from: u64, digest: u64) -> Place {
        let edge = self.graph.edge(seed, digest);
        let bit = |cell: usize| from + cell as u64 * u64::from(self.widths[0]);
        Place { codes: edge.cells.map(bit), cells: edge.cells, from, fingerprint: edge.print }
    }

    /// Returns the bit at which the value of the place's cell number `own` starts.
    #[inline(always)]
    pub(in crate::filters) fn value_at(&self, place: &Place, own: usize) -> u64 {
        let values = place.from + self.words[0] * 64;
        values + place.cells[own] as u64 * u64::from(self.widths[1])
    }
}

/// The cells of a digest.
#[derive(Clone, Copy, Debug)]
pub(in crate::filters) struct Place {
    /// The bits at which the codes start.
    pub(in crate::filters) codes: [u64; 3],
    /// The numbers of the cells in the shard, and the bit at which the shard starts.
    cells: [usize; 3],
    from: u64,
    /// 32 bits that are independent of the cells, with others above them.
    pub(in crate::filters) fingerprint: u64,
}

/// Defines what a kind stores in the cells.
pub(in crate::filters) trait Cells: Sync {
    /// Writes the code and value of the record to its `own` cell, one of `place`, which holds zeros.
    fn write(&self, grid: &Grid, part: &mut [u64], place: &Place, own: usize, value: u64);

    /// Returns whether the cells return the record's value.
    fn holds(&self, grid: &Grid, part: &[u64], place: &Place, value: u64) -> bool;
}

/// A solved shard, except for its words of the table.
pub struct Shard {
    /// Its multiplier.
    seed: u64,
    /// The records without a cell.
    unplaced: Vec<Record<2>>,
}

impl Shard {
    /// Returns the shard as words.
    pub(in crate::filters) fn encode(&self) -> Vec<u64> {
        [&[self.seed], self.unplaced.as_flattened()].concat()
    }

    /// Returns the shard of these words.
    pub(in crate::filters) fn decode(words: &[u64]) -> Option<Self> {
        let (seed, rest) = words.split_first()?;
        let (unplaced, odd) = rest.as_chunks();
        odd.is_empty().then(|| Self { seed: *seed, unplaced: unplaced.to_vec() })
    }
}

/// A filled table.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::filters) struct Retrieval {
    pub(in crate::filters) grid: Grid,
    pub(in crate::filters) table: Words,
    /// The multiplier of each shard.
    seeds: Words,
    /// Digests without a cell, sorted, each followed by its value.
    pub(in crate::filters) extra: Words,
}

impl Retrieval {
    /// Finds a cell for every record. Tries the multipliers from number `from` on.
    ///
    /// # Errors
    /// [`Error::Conflict`] with `conflict` if two records have the same digest.
    pub(in crate::filters) fn solve(
        options: &BuildOptions<'_>,
        grid: Grid,
        from: u64,
        records: Gathered<2>,
        conflict: &'static str,
        cells: &impl Cells,
    ) -> Result<Self, Error> {
        let mut table = Words::zeroed(usize_words(grid.words())?)?;
        let (_, words) = table.to_mut().split_last_mut().expect("at least one word");
        let shards = Self::solve_shards(options, grid, from, records, conflict, cells, words)?;
        Self::of_shards(grid, table, shards)
    }

    /// Does the same for the shards in the range of `records`, whose words are `table`.
    pub(in crate::filters) fn solve_shards(
        options: &BuildOptions<'_>,
        grid: Grid,
        from: u64,
        records: Gathered<2>,
        conflict: &'static str,
        cells: &impl Cells,
        table: &mut [u64],
    ) -> Result<Vec<Shard>, Error> {
        // Peelers are reused, because fresh pages cost as much as the peeling.
        let peelers = Mutex::new(Vec::new());
        let len = records.len();
        let check = || options.check(0, len);
        records.solve(options, grid.shard_bits, table, |_, records, part| {
            if let Some([record, _]) = records.array_windows().find(|[a, b]| a[0] == b[0]) {
                return Err(Error::Conflict { digest: record[0], what: conflict });
            }
            let idle = peelers.lock().expect("no panic").pop();
            let mut peeler = idle.unwrap_or_else(Peeler::new);
            let solved = solve_shard(&mut peeler, &grid, from, records, part, cells, check);
            peelers.lock().expect("no panic").push(peeler);
            solved
        })
    }

    /// Makes the table from all shards and their words.
    pub(in crate::filters) fn of_shards(
        grid: Grid,
        table: Words,
        shards: Vec<Shard>,
    ) -> Result<Self, Error> {
        let shards = shards.into_iter().map(|Shard { seed, unplaced }| (seed, unplaced));
        let (seeds, unplaced): (Vec<_>, Vec<_>) = shards.unzip();
        let extra = Words::copy_of(unplaced.concat().as_flattened())?;
        Ok(Self::new(grid, table, Words::copy_of(&seeds)?, extra))
    }

    fn new(grid: Grid, table: Words, seeds: Words, extra: Words) -> Self {
        Self { grid, table, seeds, extra }
    }

    /// Returns the number of listed records.
    pub(in crate::filters) fn listed(&self) -> u64 {
        self.extra.len() as u64 / 2
    }

    #[inline(always)]
    pub(in crate::filters) fn place(&self, digest: u64) -> Place {
        // Two shifts, because a shift by 64 is not allowed.
        let shard = digest >> 1 >> (63 - self.grid.shard_bits);
        let from = shard * self.grid.shard_words() * 64;
        self.grid.place(self.seeds[shard as usize], from, digest)
    }

    /// Returns the listed value of the digest, if it is listed.
    #[inline(always)]
    pub(in crate::filters) fn listed_value(&self, digest: u64) -> Option<u64> {
        if self.extra.is_empty() { None } else { self.find_listed(digest).map(|at| self.extra[at]) }
    }

    /// Returns the listed value of the digest for writing, if it is listed.
    pub(in crate::filters) fn listed_value_mut(
        &mut self,
        digest: u64,
    ) -> Result<Option<&mut u64>, Error> {
        let Some(at) = self.find_listed(digest) else { return Ok(None) };
        self.extra.make_owned()?;
        Ok(self.extra.to_mut().get_mut(at))
    }

    #[cold]
    fn find_listed(&self, digest: u64) -> Option<usize> {
        let (pairs, _) = self.extra.as_chunks::<2>();
        pairs.binary_search_by_key(&digest, |pair| pair[0]).ok().map(|at| 2 * at + 1)
    }

    /// Looks up the digests in batches: prefetches the codes of a batch, calls `lookup` for each of
    /// its digests, which may prefetch more, and then `then` with the number and result of each.
    #[inline(always)]
    pub(in crate::filters) fn lookup_batch<A: Copy + Default>(
        &self,
        mut digests: impl Iterator<Item = u64>,
        mut lookup: impl FnMut(u64, &Place) -> A,
        mut then: impl FnMut(usize, A),
    ) {
        let nowhere = Place { codes: [0; 3], cells: [0; 3], from: 0, fingerprint: 0 };
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
                *answer = lookup(*digest, place);
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

    /// Writes the sections.
    pub(in crate::filters) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(TABLE, &self.table);
        to.words(SEEDS, &self.seeds);
        to.words(EXTRA, &self.extra);
    }

    /// Reads the sections of a table with `listed` listed records.
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

    /// Returns the value of every cell, also of those that no record owns, and of every listed record.
    pub(in crate::filters) fn values(&self) -> impl Iterator<Item = u64> {
        let [codes, _] = self.grid.words;
        let shards = self.table.chunks_exact(self.grid.shard_words() as usize);
        let of_shard = move |part| {
            let (_, values) = <[u64]>::split_at(part, codes as usize);
            (0..self.grid.cells).map(|cell| packed::get(values, self.grid.widths[1], cell))
        };
        shards
            .take(1 << self.grid.shard_bits)
            .flat_map(of_shard)
            .chain(self.extra.iter().skip(1).step_by(2).copied())
    }

    /// Checks that the sections could be those of a table. Listed values have at most `value_bits` bits.
    pub(in crate::filters) fn validate(&self, value_bits: u32) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let [codes, values] = self.grid.widths.map(|width| self.grid.cells * u64::from(width));
        let (last, shards) = self.table.split_last().expect("at least one word");
        let sound = |part: &[u64]| {
            let (of_codes, of_values) = part.split_at(self.grid.words[0] as usize);
            set::ends_at(of_codes, codes) && set::ends_at(of_values, values)
        };
        if *last != 0 || !shards.chunks(self.grid.shard_words() as usize).all(sound) {
            return corrupt("bits are set outside the cells");
        }
        if self.seeds.iter().any(|seed| seed % 2 == 0) {
            return corrupt("a multiplier is even");
        }
        let (pairs, _) = self.extra.as_chunks::<2>();
        if !pairs.is_sorted_by(|a, b| a[0] < b[0]) {
            return corrupt("the listed digests are not sorted");
        }
        if pairs.iter().any(|[_, value]| value & !packed::mask(value_bits) != 0) {
            return corrupt("a listed value has too many bits");
        }
        Ok(())
    }
}

/// Fills the cells of one shard.
fn solve_shard(
    peeler: &mut Peeler<2>,
    grid: &Grid,
    from: u64,
    records: &[Record<2>],
    part: &mut [u64],
    cells: &impl Cells,
    check: impl Fn() -> Result<(), Error>,
) -> Result<Shard, Error> {
    let (seed, peeled) = peel_shard(peeler, &grid.graph, from, records, &check)?;
    let mut owners = peeler.owners();
    for _ in (0..records.len()).step_by(CHECKED) {
        check()?;
        for (cell, [digest, value]) in owners.by_ref().take(CHECKED) {
            let place = grid.place(seed, 0, *digest);
            let own = place.cells.iter().position(|other| *other == cell);
            cells.write(grid, part, &place, own.expect("one of its cells"), *value);
        }
    }
    let mut unplaced = Vec::new();
    if peeled == records.len() {
        return Ok(Shard { seed, unplaced });
    }
    // Records that could not be peeled have no cell, even if the cells return their value by chance.
    let core: Vec<Record<2>> = peeler.core(&grid.graph, seed, records).copied().collect();
    for records in records.chunks(CHECKED) {
        check()?;
        unplaced.extend(records.iter().filter(|record| {
            let [digest, value] = **record;
            core.binary_search(record).is_ok()
                || !cells.holds(grid, part, &grid.place(seed, 0, digest), value)
        }));
    }
    Ok(Shard { seed, unplaced })
}
