//! Gathering: collects all keys of a static filter, in order and without duplicates, before the first
//! one is placed.
//!
//! A static filter is solved as a whole, so it needs every key before it can place one. Until then
//! the build keeps one *record* per key: its digest, the 64 bits of [`KeyHash::hi`](crate::KeyHash),
//! and for a map also the value. Static kinds treat two keys with the same digest as one key. Among
//! 10^9 keys such a pair exists with probability 3 %, and it does no other harm.
//!
//! ```text
//!           Gathering                              Gathered
//!           by the leading byte                    each bucket sorted, deduplicated, counted
//!
//!  keys ──► ├─ 00 ─ block, block, block … ──────► ├─ 00… ─► solved by one thread ─► table[0]
//!           ├─ 01 ─ block, block …                ├─ 01… ─► solved by another   ─► table[1]
//!           ┆        memory, or a file            ┆  shards, by leading bits of the digest
//!           └─ ff ─ block, block, block …         └─ 11…
//! ```
//!
//! All shards have equal parts of the table, so the position of a part follows from the number of
//! its shard. Each shard is solved from its own records alone, so the bytes do not depend on the
//! number of threads.
//!
//! **Order.** Kinds that are peeled need the records only in the order of some leading bits, so theirs
//! are partitioned into runs of about 2^8 records. The records of other kinds are sorted.
//!
//! **Memory.** Up to 2^17 records are kept in one vector. More are partitioned into 256 buckets as
//! they arrive, by up to 4 threads, in blocks that are never copied to grow: 8 bytes per record. Only
//! the buckets being sorted are held twice. Sorting writes a bucket back to its own blocks.
//!
//! **A memory limit** covers the records, the table, the buckets being sorted and the working memory
//! of the solver. Blocks that do not fit go to an unnamed file, bucket by bucket. The build uses
//! fewer threads where the limit requires it. Spilled records are sorted twice, once to count the
//! distinct ones and once to solve them, which costs less than writing them back sorted.
//!
//! **Stopping.** Sorting and spilling check every few milliseconds whether the build was cancelled or
//! its deadline has passed, and solving checks between shards. Solvers of large shards check as well.

mod arena;
mod jobs;
#[cfg(not(feature = "std"))]
mod no_spill;
mod range;
mod sort;
#[cfg(feature = "std")]
mod spill;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::options::BuildOptions;
use crate::source::{KeySource, read_all};
use crate::sync::{MaybeSync, Mutex};
use arena::{Arena, BLOCK};
pub(crate) use jobs::run_jobs;
#[cfg(not(feature = "std"))]
use no_spill::Spill;
pub use range::PartRange;
use sort::{Sorter, append, reserve};
#[cfg(feature = "std")]
use spill::Spill;

/// A digest, and for a map its value.
pub(crate) type Record<const W: usize> = [u64; W];

/// Up to this many records are kept in one vector of 1 MiB, which fits the second-level cache.
const FEW: usize = 1 << 17;
/// More records are partitioned by this many leading bits of the digest. A bucket of 10^9 keys is
/// then 31 MB, and the tails of all buckets stay in the cache while they fill.
const BUCKET_BITS: u32 = 8;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// Records remembered to drop duplicates that follow soon. Without it, one key repeated 10^9 times
/// would make a bucket that fits no memory.
const RECENT: usize = 1 << 10;
/// Returns the bytes that peeling takes per record of a shard, beside the record itself and the
/// table: a cell of a record and 9 bytes with a ninth to spare, and 4 bytes of stack.
const fn peeling_bytes<const W: usize>() -> u64 {
    16 + 8 * W as u64
}
/// The least memory limit for more than [`FEW`] records. It is checked after all records have
/// arrived, because only then is the required amount known.
const LEAST_MEMORY: u64 = 16 << 20;

/// Collects records.
#[derive(Debug)]
pub(crate) struct Gathering<'m, const W: usize> {
    options: &'m BuildOptions<'m>,
    order: Order,
    /// All records, up to [`FEW`].
    few: Vec<Record<W>>,
    many: Option<Many<W>>,
    /// What other threads have collected.
    others: Vec<Many<W>>,
    read: u64,
}

/// Items that threads share: fewer take less time than starting a thread for each part of them.
const SHARED: usize = 1 << 17;
/// The most threads that collect records. Each takes up to 5 MiB.
const MAX_COLLECTORS: usize = 4;

/// How the gathered records are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Sorted,
    /// By so many leading bits that about 2^8 records share them. This takes a third of the time, and
    /// is all that peeling needs.
    Runs,
}

/// The binary logarithm of the least records that share their leading bits in [`Order::Runs`].
const RUN_BITS: u32 = 8;
/// The most bits by which a bucket is partitioned at once.
const MAX_DIGIT: u32 = 12;
/// Fewer records than this are always sorted.
const SORTED: usize = 1 << 12;

impl<'m, const W: usize> Gathering<'m, W> {
    /// Returns an empty collection.
    pub(crate) fn new(options: &'m BuildOptions<'m>) -> Self {
        let (few, others) = (Vec::new(), Vec::new());
        Self { options, order: Order::Sorted, few, many: None, others, read: 0 }
    }

    /// Returns an empty collection that orders the records only as far as peeling needs it.
    pub(crate) fn in_runs(options: &'m BuildOptions<'m>) -> Self {
        Self { order: Order::Runs, ..Self::new(options) }
    }

    /// Adds records.
    pub(crate) fn extend(
        &mut self,
        records: impl ExactSizeIterator<Item = Record<W>>,
    ) -> Result<(), Error> {
        self.read += records.len() as u64;
        let many = match &mut self.many {
            Some(many) => many,
            None if self.few.len() + records.len() <= FEW => {
                let bytes = (records.len() * size_of::<Record<W>>()) as u64;
                self.few.try_reserve(records.len()).map_err(|_| Error::Memory { bytes })?;
                self.few.extend(records);
                return Ok(());
            }
            None => {
                let many = self.many.insert(Many::new(self.options)?);
                many.extend(take(&mut self.few).into_iter(), self.options)?;
                many
            }
        };
        many.extend(records, self.options)
    }

    /// Adds the record of each item. Threads share many items, unless there is a memory limit, which is
    /// checked for all records together.
    fn extend_from<T: Sync>(
        &mut self,
        items: &[T],
        record: impl Fn(&T) -> Record<W> + MaybeSync,
    ) -> Result<(), Error> {
        let options = self.options;
        let threads = options.thread_count().min(MAX_COLLECTORS);
        let is_few = self.many.is_none() && self.few.len() + items.len() <= FEW;
        let is_limited = options.memory_limit().is_some();
        if threads < 2 || items.len() < SHARED || is_few || is_limited {
            return self.extend(items.iter().map(record));
        }
        let (own, rest) = items.split_at(items.len() / threads);
        while self.others.len() < threads - 1 {
            self.others.push(Many::new(options)?);
        }
        if self.many.is_none() {
            let many = self.many.insert(Many::new(options)?);
            many.extend(take(&mut self.few).into_iter(), options)?;
        }
        self.read += items.len() as u64;
        let parts = rest.chunks(rest.len().div_ceil(threads - 1));
        let jobs: Vec<_> = self
            .many
            .iter_mut()
            .chain(&mut self.others)
            .zip([own].into_iter().chain(parts))
            .collect();
        run_jobs(threads, jobs.into_iter(), |_: &mut (), (many, items)| {
            many.extend(items.iter().map(&record), options)
        })
    }

    /// Sorts the records and drops duplicates.
    pub(crate) fn finish(self) -> Result<Gathered<W>, Error> {
        let Self { options, order, few, many, others, read } = self;
        options.advance(0, read)?;
        if let Some(mut many) = many {
            for other in others {
                many.absorb(other, options)?;
            }
            return many.finish(options, order);
        }
        let mut sorter = Sorter::default();
        if order == Order::Runs && few.len() >= SORTED {
            let bits = few.len().ilog2() - RUN_BITS;
            let records = take(sorter.partition(0, bits, &[few], || options.check(0, read))?);
            let buckets = vec![Tally::of(&records)];
            return Ok(Gathered::new(Held::Few(records), buckets, bits));
        }
        let fill = |to: &mut Vec<_>| {
            *to = few;
            Ok(())
        };
        let mut sorted = take(sorter.sort(0, fill, || options.check(0, read))?);
        sorted.dedup();
        let buckets = vec![Tally::of(&sorted)];
        Ok(Gathered::new(Held::Few(sorted), buckets, 64))
    }
}

/// Gathers the digests of all keys, ordered as far as peeling needs it.
pub(crate) fn gather_runs(
    options: &BuildOptions<'_>,
    keys: impl KeySource,
) -> Result<Gathered<1>, Error> {
    let mut gathering = Gathering::in_runs(options);
    read_all(options, keys, |run| gathering.extend_from(run, |key| [key.hi]))?;
    gathering.finish()
}

/// Gathers the digests of all keys.
pub(crate) fn gather(
    options: &BuildOptions<'_>,
    keys: impl KeySource,
) -> Result<Gathered<1>, Error> {
    let mut gathering = Gathering::new(options);
    read_all(options, keys, |run| gathering.extend_from(run, |key| [key.hi]))?;
    gathering.finish()
}

/// More than [`FEW`] records.
///
/// Each bucket fills a buffer of its own, which stays in the cache. A full buffer moves to the end of
/// the arena as a block.
#[derive(Debug)]
struct Many<const W: usize> {
    /// One block per bucket, contiguous.
    buffers: Vec<Record<W>>,
    /// The number of records in each buffer.
    fill: [usize; BUCKETS],
    recent: Vec<Record<W>>,
    arena: Arena<W>,
    spill: Option<Spill<W>>,
    /// All records that arrived, except those dropped as recent duplicates.
    placed: Tally,
}

impl<const W: usize> Many<W> {
    fn new(options: &BuildOptions<'_>) -> Result<Self, Error> {
        let room = match options.memory_limit() {
            None => u64::MAX,
            // The rest is for the buffers, and for the list of blocks per bucket during a spill.
            Some(limit) => (limit - limit / 16).saturating_sub(LEAST_MEMORY / 2),
        };
        let mut buffers = Vec::new();
        reserve(&mut buffers, BUCKETS * BLOCK)?;
        buffers.resize(BUCKETS * BLOCK, [0; W]);
        // The initial entry of a slot belongs to another slot, so it equals no record here.
        let recent = (0..RECENT as u64).map(|slot| [!slot; W]).collect();
        let (fill, placed) = ([0; BUCKETS], Tally::default());
        Ok(Self { buffers, fill, recent, arena: Arena::new(room), spill: None, placed })
    }

    fn extend(
        &mut self,
        records: impl Iterator<Item = Record<W>>,
        options: &BuildOptions<'_>,
    ) -> Result<(), Error> {
        for record in records {
            let recent = &mut self.recent[record[0] as usize % RECENT];
            if *recent == record {
                continue;
            }
            *recent = record;
            self.placed.add(&record);
            self.place(record, options)?;
        }
        Ok(())
    }

    /// Appends a record to its bucket.
    #[inline(always)]
    fn place(&mut self, record: Record<W>, options: &BuildOptions<'_>) -> Result<(), Error> {
        let bucket = (record[0] >> (64 - BUCKET_BITS)) as usize;
        let fill = self.fill[bucket];
        self.buffers[bucket * BLOCK + fill] = record;
        self.fill[bucket] = fill + 1;
        if fill + 1 == BLOCK { self.flush(bucket, options) } else { Ok(()) }
    }

    /// Takes the records of `other`. Neither has spilled any.
    fn absorb(&mut self, other: Self, options: &BuildOptions<'_>) -> Result<(), Error> {
        let Self { buffers, fill, arena, placed, .. } = other;
        self.arena.absorb(arena)?;
        self.placed.join(placed);
        for (buffer, fill) in buffers.chunks(BLOCK).zip(fill) {
            buffer[..fill].iter().try_for_each(|record| self.place(*record, options))?;
        }
        Ok(())
    }

    /// Moves a bucket's buffer to the arena. If the arena is full, first spills it to the file.
    fn flush(&mut self, bucket: usize, options: &BuildOptions<'_>) -> Result<(), Error> {
        if self.arena.is_full() {
            spill(&mut self.arena, &mut self.spill, options)?;
        }
        let fill = take(&mut self.fill[bucket]);
        self.arena.push(bucket, &self.buffers[bucket * BLOCK..][..fill])
    }

    fn finish(mut self, options: &BuildOptions<'_>, order: Order) -> Result<Gathered<W>, Error> {
        for bucket in 0..BUCKETS {
            self.flush(bucket, options)?;
        }
        if self.spill.is_some() {
            spill(&mut self.arena, &mut self.spill, options)?;
        }
        let Self { mut arena, spill, placed, .. } = self;
        let mut buckets = vec![Tally::default(); BUCKETS];
        let Some(spill) = spill else {
            let digit = placed.records.max(1).ilog2().saturating_sub(BUCKET_BITS + RUN_BITS);
            let digit = (order == Order::Runs).then_some(digit.min(MAX_DIGIT));
            order_blocks(options, &mut arena, digit, placed.records, &mut buckets)?;
            let bits = digit.map_or(64, |digit| BUCKET_BITS + digit);
            return Ok(Gathered::new(Held::Blocks(arena), buckets, bits));
        };
        drop(arena);
        if count_spilled(&spill, options, &mut buckets)? != placed {
            return Err(spill.damaged());
        }
        Ok(Gathered::new(Held::Spilled(spill), buckets, 64))
    }
}

/// Moves all blocks to the file, and creates the file if there is none.
#[cfg(feature = "std")]
fn spill<const W: usize>(
    arena: &mut Arena<W>,
    file: &mut Option<Spill<W>>,
    options: &BuildOptions<'_>,
) -> Result<(), Error> {
    let folder = options.scratch().expect("only a memory limit makes the arena full");
    let file = match file {
        Some(file) => file,
        None => file.insert(Spill::new(folder)?),
    };
    let read = file.len(0..BUCKETS) + arena.len();
    file.write(&arena.buckets(), || options.check(0, read))?;
    arena.clear();
    Ok(())
}

/// Returns an error: there are no files, so the arena is all the memory that there is.
#[cfg(not(feature = "std"))]
fn spill<const W: usize>(
    arena: &mut Arena<W>,
    _: &mut Option<Spill<W>>,
    _: &BuildOptions<'_>,
) -> Result<(), Error> {
    Err(Error::Memory { bytes: arena.bytes() })
}

/// Sorts every bucket, or orders it by its next `digit` bits, drops duplicates, and writes the rest back
/// to the same blocks.
fn order_blocks<const W: usize>(
    options: &BuildOptions<'_>,
    arena: &mut Arena<W>,
    digit: Option<u32>,
    records: u64,
    tallies: &mut [Tally],
) -> Result<(), Error> {
    let jobs = arena.buckets_mut().into_iter().zip(tallies);
    run_jobs(options.thread_count(), jobs, |sorter: &mut Sorter<W>, ((mut blocks, len), tally)| {
        let check = || options.check(0, records);
        check()?;
        let ordered = match digit {
            Some(digit) => sorter.partition(BUCKET_BITS, digit, &blocks, check)?,
            None => {
                let sorted = sorter.sort(BUCKET_BITS, |to| append(&blocks, to), check)?;
                sorted.dedup();
                sorted
            }
        };
        for (block, records) in blocks.iter_mut().zip(ordered.chunks(BLOCK)) {
            block[..records.len()].copy_from_slice(records);
        }
        (*len, *tally) = (ordered.len(), Tally::of(ordered));
        Ok(())
    })
}

/// Counts the distinct records of every bucket. Returns the tally of all records, with duplicates.
fn count_spilled<const W: usize>(
    spill: &Spill<W>,
    options: &BuildOptions<'_>,
    tallies: &mut [Tally],
) -> Result<Tally, Error> {
    let largest = (0..BUCKETS).map(|bucket| spill.len(bucket..bucket + 1)).max().unwrap_or(0);
    let threads = threads_within(options, 0, 2 * largest * size_of::<Record<W>>() as u64)?;
    let all = Mutex::new(Tally::default());
    run_jobs(
        threads,
        tallies.iter_mut().enumerate(),
        |sorter: &mut Sorter<W>, (bucket, tally)| {
            let check = || options.check(0, spill.len(0..BUCKETS));
            check()?;
            let read = |to: &mut Vec<_>| spill.read(bucket..bucket + 1, to, check);
            let sorted = sorter.sort(BUCKET_BITS, read, check)?;
            all.lock().expect("no thread panicked").join(Tally::of(sorted));
            sorted.dedup();
            *tally = Tally::of(sorted);
            Ok::<_, Error>(())
        },
    )?;
    Ok(all.into_inner().expect("no thread panicked"))
}

/// The number of records and their sum, to check that the file returns what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    records: u64,
    sum: u64,
}

impl Tally {
    fn of<const W: usize>(records: &[Record<W>]) -> Self {
        let mut tally = Self::default();
        records.iter().for_each(|record| tally.add(record));
        tally
    }

    fn add<const W: usize>(&mut self, record: &Record<W>) {
        self.records += 1;
        self.sum = record.iter().fold(self.sum, |sum, word| sum.wrapping_add(*word));
    }

    fn join(&mut self, more: Self) {
        self.records += more.records;
        self.sum = self.sum.wrapping_add(more.sum);
    }
}

/// Distinct records, in order.
#[derive(Debug)]
pub struct Gathered<const W: usize> {
    held: Held<W>,
    /// The leading bits by which the records are ordered, and by which the solver needs them to be.
    /// Sorted records are ordered by all 64.
    ordered: u32,
    needs: u32,
    /// The distinct records of each bucket.
    buckets: Vec<Tally>,
    /// Bytes that the solver takes per record of a shard.
    solver_bytes: u64,
    /// All records lie in this range, and its shards are those to solve.
    range: PartRange,
}

#[derive(Debug)]
enum Held<const W: usize> {
    /// One bucket, in order.
    Few(Vec<Record<W>>),
    /// Every bucket in order.
    Blocks(Arena<W>),
    /// In a file, unsorted.
    Spilled(Spill<W>),
}

impl<const W: usize> Gathered<W> {
    fn new(held: Held<W>, buckets: Vec<Tally>, ordered: u32) -> Self {
        let (solver_bytes, range) = (peeling_bytes::<W>(), PartRange::ALL);
        Self { held, ordered, needs: 64, buckets, solver_bytes, range }
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.records).sum()
    }

    /// Sets the bytes that the solver takes per record of a shard. The default is what peeling takes.
    pub(crate) fn with_solver_bytes(self, solver_bytes: u64) -> Self {
        Self { solver_bytes, ..self }
    }

    /// Sets the number of leading bits by which the records of a shard must be ordered. The default is
    /// 64: they are sorted.
    pub(crate) fn with_order(self, needs: u32) -> Self {
        Self { needs, ..self }
    }

    /// Returns whether the records have the order that the solver needs for `2^bits` shards.
    fn is_ordered(&self, bits: u32) -> bool {
        self.ordered >= self.needs.max(bits)
    }

    /// Restricts the work to the shards of `range`, in which all records lie.
    pub(crate) fn within(self, range: PartRange) -> Self {
        Self { range, ..self }
    }

    /// Returns the numbers of the shards to solve, of `2^bits`.
    pub(crate) fn shards(&self, bits: u32) -> Range<usize> {
        self.range.shards(bits)
    }

    /// Returns the numbers of the buckets in the range.
    fn range_buckets(&self) -> Range<usize> {
        if self.buckets.len() == 1 { 0..1 } else { self.range.shards(BUCKET_BITS) }
    }

    /// Returns the most threads that can share the work of `2^bits` shards.
    pub(crate) fn groups(&self, bits: u32) -> usize {
        self.range_buckets().len().min(self.shards(bits).len())
    }

    /// Splits the records into `2^bits` shards by their leading bits, and calls `solve` with each
    /// shard of the range and its equal part of `table`. Returns what `solve` returns, in the order of
    /// the shards.
    ///
    /// A thread takes one *group* at a time: the shards of a bucket, or the buckets of a shard,
    /// whichever is more.
    pub(crate) fn solve<T: Send>(
        self,
        options: &BuildOptions<'_>,
        bits: u32,
        table: &mut [u64],
        solve: impl Fn(usize, &[Record<W>], &mut [u64]) -> Result<T, Error> + MaybeSync,
    ) -> Result<Vec<T>, Error> {
        let bytes = size_of_val(table) as u64;
        self.solve_groups(options, bits, [bytes, 0], table, solve)
    }

    /// Does the same where `solve` returns the solved shard. Beside the records that takes `bytes[0]`
    /// bytes in total, and `bytes[1]` bytes per thread.
    pub(crate) fn solve_shards<T: Send>(
        self,
        options: &BuildOptions<'_>,
        bits: u32,
        bytes: [u64; 2],
        solve: impl Fn(usize, &[Record<W>]) -> Result<T, Error> + MaybeSync,
    ) -> Result<Vec<T>, Error> {
        self.solve_groups(options, bits, bytes, &mut [], |shard, records, _| solve(shard, records))
    }

    fn solve_groups<T: Send>(
        mut self,
        options: &BuildOptions<'_>,
        bits: u32,
        [bytes, bytes_per_thread]: [u64; 2],
        table: &mut [u64],
        solve: impl Fn(usize, &[Record<W>], &mut [u64]) -> Result<T, Error> + MaybeSync,
    ) -> Result<Vec<T>, Error> {
        let (shards, all) = (self.shards(bits), self.len());
        let (groups, in_range) = (self.groups(bits), self.range_buckets());
        let (group_shards, group_buckets) = (shards.len() / groups, in_range.len() / groups);
        let is_ordered = self.is_ordered(bits);
        let threads =
            self.prepare(options, [groups, group_shards], is_ordered, bytes, bytes_per_thread)?;

        let part = table.len() / shards.len();
        let mut results: Vec<Option<T>> = shards.clone().map(|_| None).collect();
        let mut rest = table;
        let jobs = results.chunks_mut(group_shards).enumerate().map(|(group, results)| {
            let (cells, more) = take(&mut rest).split_at_mut(part * group_shards);
            rest = more;
            (group, cells, results)
        });
        let blocks = if let Held::Blocks(arena) = &self.held { arena.buckets() } else { vec![] };
        let placed = AtomicU64::new(0);
        run_jobs(threads, jobs, |sorter: &mut Sorter<W>, (group, mut cells, results)| {
            let first = in_range.start + group * group_buckets;
            let buckets = first..first + group_buckets;
            let check = || options.check(placed.load(Ordering::Relaxed), all);
            check()?;
            let known = self.range.bits() + groups.ilog2();
            let mut records = self.load(&blocks, buckets, known, is_ordered, sorter, check)?;
            for (shard, result) in (shards.start + group * group_shards..).zip(results) {
                let end = match bits {
                    0 => records.len(),
                    _ => records.partition_point(|r| r[0] >> (64 - bits) <= shard as u64),
                };
                let (own, others) = records.split_at(end);
                let (own_cells, other_cells) = take(&mut cells).split_at_mut(part);
                (records, cells) = (others, other_cells);
                *result = Some(solve(shard, own, own_cells)?);
                let own = own.len() as u64;
                options.advance(placed.fetch_add(own, Ordering::Relaxed) + own, all)?;
            }
            Ok::<_, Error>(())
        })?;
        Ok(results.into_iter().map(|result| result.expect("every shard was solved")).collect())
    }

    /// Moves the records to where they can be solved in `groups` groups of `group_shards` shards beside a
    /// table of `table` bytes and `bytes_per_thread` bytes per thread. Records of one group get the order
    /// that the solver needs, if they do not have it. Returns how many threads the memory limit allows.
    fn prepare(
        &mut self,
        options: &BuildOptions<'_>,
        [groups, group_shards]: [usize; 2],
        is_ordered: bool,
        table: u64,
        bytes_per_thread: u64,
    ) -> Result<usize, Error> {
        let size = size_of::<Record<W>>() as u64;
        let of_group = |buckets: &[Tally]| buckets.iter().map(|bucket| bucket.records).sum();
        let in_range = self.range_buckets();
        let width = in_range.len() / groups;
        let groups_of = self.buckets[in_range.clone()].chunks(width);
        let largest: u64 = groups_of.map(of_group).max().unwrap_or(0);
        let solving = self.solver_bytes * largest.div_ceil(group_shards as u64) + bytes_per_thread;
        if let Held::Blocks(arena) = &mut self.held {
            let (held, copies) = (table + arena.bytes(), if is_ordered { 1 } else { 2 });
            match threads_within(options, held, copies * size * largest + solving) {
                Err(Error::MemoryLimit { .. }) => {
                    let mut file = None;
                    spill(arena, &mut file, options)?;
                    self.held = Held::Spilled(file.expect("the spill created it"));
                }
                // With one group its records are copied together, so the blocks are freed.
                Ok(_) if groups == 1 => {
                    let mut records = Vec::new();
                    append(&arena.buckets().concat(), &mut records)?;
                    self.held = Held::Few(records);
                }
                threads => return threads,
            }
        }
        if let (Held::Few(records), false) = (&mut self.held, is_ordered) {
            // They are ordered by some leading bits at least.
            let known = self.ordered.min(BUCKET_BITS);
            let bucket = |record: &Record<W>| record[0] >> 1 >> (63 - known);
            for bucket in records.chunk_by_mut(|a, b| bucket(a) == bucket(b)) {
                options.check(0, bucket.len() as u64)?;
                bucket.sort_unstable();
            }
            self.ordered = 64;
        }
        match &self.held {
            Held::Spilled(spill) => {
                let raw = in_range.step_by(width).map(|first| spill.len(first..first + width));
                let bytes = 2 * size * raw.max().unwrap_or(0) + solving;
                threads_within(options, table, bytes.max(LEAST_MEMORY.saturating_sub(table)))
            }
            _ => threads_within(options, table + size * self.len(), solving),
        }
    }

    /// Returns the records of these buckets, contiguous. They all share `known` leading bits.
    fn load<'r>(
        &'r self,
        blocks: &[Vec<&[Record<W>]>],
        buckets: Range<usize>,
        known: u32,
        is_ordered: bool,
        sorter: &'r mut Sorter<W>,
        check: impl Fn() -> Result<(), Error> + Copy,
    ) -> Result<&'r [Record<W>], Error> {
        match &self.held {
            Held::Few(records) => Ok(records),
            Held::Blocks(_) if is_ordered => sorter.join(&blocks[buckets].concat()),
            Held::Blocks(_) => {
                let blocks = blocks[buckets].concat();
                Ok(sorter.sort(known, |to| append(&blocks, to), check)?)
            }
            Held::Spilled(spill) => {
                let read = |to: &mut Vec<_>| spill.read(buckets.clone(), to, check);
                let sorted = sorter.sort(known, read, check)?;
                sorted.dedup();
                let mut expected = Tally::default();
                self.buckets[buckets].iter().for_each(|bucket| expected.join(*bucket));
                if Tally::of(sorted) == expected { Ok(sorted) } else { Err(spill.damaged()) }
            }
        }
    }
}

/// Returns how many threads the memory limit allows, if each takes `each` bytes beside `held` bytes.
fn threads_within(options: &BuildOptions<'_>, held: u64, each: u64) -> Result<usize, Error> {
    let Some(limit) = options.memory_limit() else { return Ok(options.thread_count()) };
    let room = limit.checked_sub(held).map_or(0, |room| room.checked_div(each).unwrap_or(u64::MAX));
    match usize::try_from(room).unwrap_or(usize::MAX).min(options.thread_count()) {
        0 => Err(Error::MemoryLimit { limit, needs: held.saturating_add(each) }),
        threads => Ok(threads),
    }
}
