//! Gathering: all keys of a static filter, each once, in order, before the first is placed.
//!
//! A static filter is solved, not filled: it must have every key before it can place one. What it
//! keeps of a key until then is a *record*: the 64 bits of [`KeyHash::hi`](crate::KeyHash), the digest,
//! and for a map the value behind it. Two keys with one digest are one key to every static kind:
//! among 10^9 keys the chance that there is such a pair is 3 %, and it costs nothing but that.
//!
//! ```text
//!           Gathering                              Gathered
//!           by the leading byte                    each bucket sorted, each record once, counted
//!
//!  keys ──► ├─ 00 ─ block, block, block … ──────► ├─ 00… ─► solved by one thread ─► table[0]
//!           ├─ 01 ─ block, block …                ├─ 01… ─► solved by another   ─► table[1]
//!           ┆        memory, or a file            ┆  shards, by leading bits of the digest
//!           └─ ff ─ block, block, block …         └─ 11…
//! ```
//!
//! Shards have equal parts of the table, so that the place of one follows from its number. Each is
//! solved from its own records alone: the bytes are the same for any number of threads.
//!
//! **Memory.** Few records are one vector. More are parted into 256 buckets as they come, in blocks
//! that are never copied to grow: 8 bytes a record, and nothing is ever there twice but the buckets
//! that threads have in hand. Sorting writes a bucket back to where it was.
//!
//! **A limit of memory** covers the records, the table, the buckets in hand and what solving takes.
//! Blocks for which there is no room go to a file without a name, bucket by bucket; if the limit
//! asks for it, on fewer threads. What lies in the file is sorted twice: once to count, and again
//! to be solved, which costs less than to write it back.

mod arena;
mod sort;
mod spill;

use std::mem::take;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::error::Error;
use crate::options::BuildOptions;
use crate::source::{KeySource, read_keys};
use arena::{Arena, BLOCK};
use sort::{Sorter, append, reserve};
use spill::Spill;

/// A digest, and what goes with it.
pub(crate) type Record<const W: usize> = [u64; W];

/// Records up to here are one vector: a megabyte, which the nearest caches hold.
const FEW: usize = 1 << 17;
/// More are parted by this many leading bits of the digest. A bucket of 10^9 keys is then 31 MB,
/// and the tails of all buckets stay in the cache while they fill.
const BUCKET_BITS: u32 = 8;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// Records remembered to drop those that come again soon. Without it one key, read a thousand
/// million times, would be a bucket that no memory holds.
const RECENT: usize = 1 << 10;
/// What peeling takes for each record of a shard beside the record itself and the table: a cell of
/// a record and 9 bytes with a ninth to spare, and 4 bytes of stack.
const fn solving<const W: usize>() -> u64 {
    16 + 8 * W as u64
}
/// The least limit that more than a few records can be gathered in. It is asked for when all have
/// come: only then can be told what would do.
const LEAST_MEMORY: u64 = 16 << 20;

/// Records on their way in.
#[derive(Debug)]
pub(crate) struct Gathering<'m, const W: usize> {
    options: &'m BuildOptions<'m>,
    /// All of them, as long as they are few.
    few: Vec<Record<W>>,
    many: Option<Many<W>>,
    read: u64,
}

impl<'m, const W: usize> Gathering<'m, W> {
    /// Nothing yet.
    pub(crate) fn new(options: &'m BuildOptions<'m>) -> Self {
        Self { options, few: Vec::new(), many: None, read: 0 }
    }

    /// Takes some more.
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

    /// Sorts them, and drops those that are there twice.
    pub(crate) fn finish(self) -> Result<Gathered<W>, Error> {
        let Self { options, few, many, read } = self;
        options.advance(0, read)?;
        if let Some(many) = many {
            return many.finish(options);
        }
        let mut sorter = Sorter::default();
        let fill = |to: &mut Vec<_>| {
            *to = few;
            Ok(())
        };
        let mut sorted = take(sorter.sort(0, fill)?);
        sorted.dedup();
        let buckets = vec![Tally::of(&sorted)];
        Ok(Gathered { held: Held::Few(sorted), buckets, solving: solving::<W>() })
    }
}

/// The digests of all keys.
pub(crate) fn gather(
    options: &BuildOptions<'_>,
    keys: impl KeySource,
) -> Result<Gathered<1>, Error> {
    let mut gathering = Gathering::new(options);
    read_keys(options, keys, |run| gathering.extend(run.iter().map(|key| [key.hi])))?;
    gathering.finish()
}

/// More than a few records on their way in.
///
/// Each bucket fills a buffer of its own, which stays in the cache; a full one moves to the end of
/// the arena, as a block.
#[derive(Debug)]
struct Many<const W: usize> {
    /// A block for each bucket, one after the other.
    buffers: Vec<Record<W>>,
    /// How full each is.
    fill: [usize; BUCKETS],
    recent: Vec<Record<W>>,
    arena: Arena<W>,
    spill: Option<Spill<W>>,
    /// All that came, but for what was dropped as recent.
    placed: Tally,
}

impl<const W: usize> Many<W> {
    fn new(options: &BuildOptions<'_>) -> Result<Self, Error> {
        let room = match options.memory() {
            None => u64::MAX,
            // The rest is for buffers, and for the list of blocks by bucket while they spill.
            Some((limit, _)) => (limit - limit / 16).saturating_sub(LEAST_MEMORY / 2),
        };
        let mut buffers = Vec::new();
        reserve(&mut buffers, BUCKETS * BLOCK)?;
        buffers.resize(BUCKETS * BLOCK, [0; W]);
        // A record that belongs elsewhere is equal to none that belongs here.
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
            let bucket = (record[0] >> (64 - BUCKET_BITS)) as usize;
            let fill = self.fill[bucket];
            self.buffers[bucket * BLOCK + fill] = record;
            self.fill[bucket] = fill + 1;
            if fill + 1 == BLOCK {
                self.flush(bucket, options)?;
            }
        }
        Ok(())
    }

    /// Moves a bucket's buffer to the arena, and if that is full, first the arena to the file.
    fn flush(&mut self, bucket: usize, options: &BuildOptions<'_>) -> Result<(), Error> {
        if self.arena.is_full() {
            spill(&mut self.arena, &mut self.spill, options)?;
        }
        let fill = take(&mut self.fill[bucket]);
        self.arena.push(bucket, &self.buffers[bucket * BLOCK..][..fill])
    }

    fn finish(mut self, options: &BuildOptions<'_>) -> Result<Gathered<W>, Error> {
        for bucket in 0..BUCKETS {
            self.flush(bucket, options)?;
        }
        if self.spill.is_some() {
            spill(&mut self.arena, &mut self.spill, options)?;
        }
        let Self { mut arena, spill, placed, .. } = self;
        let mut buckets = vec![Tally::default(); BUCKETS];
        let Some(spill) = spill else {
            sort_blocks(options, &mut arena, placed.records, &mut buckets)?;
            return Ok(Gathered { held: Held::Blocks(arena), buckets, solving: solving::<W>() });
        };
        drop(arena);
        if count_spilled(&spill, options, &mut buckets)? != placed {
            return Err(spill.damaged());
        }
        Ok(Gathered { held: Held::Spilled(spill), buckets, solving: solving::<W>() })
    }
}

/// Moves all blocks to the file, which is made if there is none.
fn spill<const W: usize>(
    arena: &mut Arena<W>,
    file: &mut Option<Spill<W>>,
    options: &BuildOptions<'_>,
) -> Result<(), Error> {
    let (_, folder) = options.memory().expect("without a limit nothing is full");
    let file = match file {
        Some(file) => file,
        None => file.insert(Spill::new(folder)?),
    };
    file.write(&arena.buckets())?;
    arena.clear();
    Ok(())
}

/// Sorts every bucket, drops what is there twice, and writes the rest back to the same blocks.
fn sort_blocks<const W: usize>(
    options: &BuildOptions<'_>,
    arena: &mut Arena<W>,
    records: u64,
    tallies: &mut [Tally],
) -> Result<(), Error> {
    let jobs = arena.buckets_mut().into_iter().zip(tallies);
    share(options.thread_count(), jobs, |sorter: &mut Sorter<W>, ((mut blocks, len), tally)| {
        options.check(0, records)?;
        let sorted = sorter.sort(BUCKET_BITS, |to| append(&blocks, to))?;
        sorted.dedup();
        for (block, records) in blocks.iter_mut().zip(sorted.chunks(BLOCK)) {
            block[..records.len()].copy_from_slice(records);
        }
        (*len, *tally) = (sorted.len(), Tally::of(sorted));
        Ok(())
    })
}

/// Counts the distinct records of every bucket; returns what there is with those that are not.
fn count_spilled<const W: usize>(
    spill: &Spill<W>,
    options: &BuildOptions<'_>,
    tallies: &mut [Tally],
) -> Result<Tally, Error> {
    let largest = (0..BUCKETS).map(|bucket| spill.len(bucket..bucket + 1)).max().unwrap_or(0);
    let threads = threads_within(options, 0, 2 * largest * size_of::<Record<W>>() as u64)?;
    let all = Mutex::new(Tally::default());
    share(threads, tallies.iter_mut().enumerate(), |sorter: &mut Sorter<W>, (bucket, tally)| {
        options.check(0, spill.len(0..BUCKETS))?;
        let read = |to: &mut Vec<_>| spill.read(bucket..bucket + 1, to);
        let sorted = sorter.sort(BUCKET_BITS, read)?;
        all.lock().expect("no thread panicked").join(Tally::of(sorted));
        sorted.dedup();
        *tally = Tally::of(sorted);
        Ok(())
    })?;
    Ok(all.into_inner().expect("no thread panicked"))
}

/// Records by number and sum: a check that what was read back is what was written.
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

/// Records in order, each once.
#[derive(Debug)]
pub(crate) struct Gathered<const W: usize> {
    held: Held<W>,
    /// The distinct records of each bucket.
    buckets: Vec<Tally>,
    /// Bytes that solving takes for each record of a shard.
    solving: u64,
}

#[derive(Debug)]
enum Held<const W: usize> {
    /// Sorted, in one bucket.
    Few(Vec<Record<W>>),
    /// Sorted, each bucket.
    Blocks(Arena<W>),
    /// As they came.
    Spilled(Spill<W>),
}

impl<const W: usize> Gathered<W> {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.records).sum()
    }

    /// The same, to be solved in another way than by peeling, which takes so many bytes for each
    /// record of a shard.
    pub(crate) fn taking(self, solving: u64) -> Self {
        Self { solving, ..self }
    }

    /// How many threads at the most have something to do when there are `2^bits` shards.
    pub(crate) fn groups(&self, bits: u32) -> usize {
        self.buckets.len().min(1 << bits)
    }

    /// Splits the records into `2^bits` shards by their leading bits, gives each its equal part of
    /// `table`, and has them solved. What `solve` returns of each comes back in their order.
    ///
    /// A thread takes a *group* at a time: the shards of a bucket, or the buckets of a shard,
    /// whichever is more.
    pub(crate) fn solve<T: Send>(
        self,
        options: &BuildOptions<'_>,
        bits: u32,
        table: &mut [u64],
        solve: impl Fn(usize, &[Record<W>], &mut [u64]) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let bytes = size_of_val(table) as u64;
        self.solve_beside(options, bits, [bytes, 0], table, solve)
    }

    /// The same where what is solved of a shard is in what `solve` returns. Beside the records that
    /// takes so many bytes in all, and so many more for each thread.
    pub(crate) fn solve_apart<T: Send>(
        self,
        options: &BuildOptions<'_>,
        bits: u32,
        bytes: [u64; 2],
        solve: impl Fn(usize, &[Record<W>]) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        self.solve_beside(options, bits, bytes, &mut [], |shard, records, _| solve(shard, records))
    }

    fn solve_beside<T: Send>(
        mut self,
        options: &BuildOptions<'_>,
        bits: u32,
        [bytes, each]: [u64; 2],
        table: &mut [u64],
        solve: impl Fn(usize, &[Record<W>], &mut [u64]) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let (shards, all) = (1usize << bits, self.len());
        let groups = self.groups(bits);
        let (group_shards, group_buckets) = (shards / groups, self.buckets.len() / groups);
        let threads = self.settle(options, groups, group_shards, bytes, each)?;

        let part = table.len() / shards;
        let mut results: Vec<Option<T>> = (0..shards).map(|_| None).collect();
        let mut rest = table;
        let jobs = results.chunks_mut(group_shards).enumerate().map(|(group, results)| {
            let (cells, more) = take(&mut rest).split_at_mut(part * group_shards);
            rest = more;
            (group, cells, results)
        });
        let blocks = if let Held::Blocks(arena) = &self.held { arena.buckets() } else { vec![] };
        let placed = AtomicU64::new(0);
        share(threads, jobs, |sorter: &mut Sorter<W>, (group, mut cells, results)| {
            let buckets = group * group_buckets..(group + 1) * group_buckets;
            let mut records = self.load(&blocks, buckets, groups.ilog2(), sorter)?;
            for (shard, result) in (group * group_shards..).zip(results) {
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
            Ok(())
        })?;
        Ok(results.into_iter().map(|result| result.expect("every shard was solved")).collect())
    }

    /// Makes the records ready to be solved in so many groups beside a table of so many bytes and
    /// so many more a thread, and says on how many threads that can be.
    fn settle(
        &mut self,
        options: &BuildOptions<'_>,
        groups: usize,
        group_shards: usize,
        table: u64,
        each: u64,
    ) -> Result<usize, Error> {
        let size = size_of::<Record<W>>() as u64;
        let of_group = |buckets: &[Tally]| buckets.iter().map(|bucket| bucket.records).sum();
        let groups_of = self.buckets.chunks(self.buckets.len() / groups);
        let largest: u64 = groups_of.map(of_group).max().unwrap_or(0);
        let solving = self.solving * largest.div_ceil(group_shards as u64) + each;
        if let Held::Blocks(arena) = &mut self.held {
            let held = table + arena.bytes();
            match threads_within(options, held, size * largest + solving) {
                Err(Error::MemoryLimit { .. }) => {
                    let mut file = None;
                    spill(arena, &mut file, options)?;
                    self.held = Held::Spilled(file.expect("just made"));
                }
                // One shard of all: once its records are together they need not be apart as well.
                Ok(_) if groups == 1 => {
                    let mut records = Vec::new();
                    append(&arena.buckets().concat(), &mut records)?;
                    self.held = Held::Few(records);
                }
                threads => return threads,
            }
        }
        match &self.held {
            Held::Spilled(spill) => {
                let width = BUCKETS / groups;
                let raw = (0..groups).map(|group| spill.len(group * width..(group + 1) * width));
                let each = 2 * size * raw.max().unwrap_or(0) + solving;
                threads_within(options, table, each.max(LEAST_MEMORY.saturating_sub(table)))
            }
            _ => threads_within(options, table + size * self.len(), solving),
        }
    }

    /// The records of these buckets, one after the other: all that begin with `known` bits.
    fn load<'r>(
        &'r self,
        blocks: &[Vec<&[Record<W>]>],
        buckets: Range<usize>,
        known: u32,
        sorter: &'r mut Sorter<W>,
    ) -> Result<&'r [Record<W>], Error> {
        match &self.held {
            Held::Few(records) => Ok(records),
            Held::Blocks(_) => sorter.join(&blocks[buckets].concat()),
            Held::Spilled(spill) => {
                let read = |to: &mut Vec<_>| spill.read(buckets.clone(), to);
                let sorted = sorter.sort(known, read)?;
                sorted.dedup();
                let mut expected = Tally::default();
                self.buckets[buckets].iter().for_each(|bucket| expected.join(*bucket));
                if Tally::of(sorted) == expected { Ok(sorted) } else { Err(spill.damaged()) }
            }
        }
    }
}

/// How many threads the limit of memory allows, if each takes so much beside what is held.
fn threads_within(options: &BuildOptions<'_>, held: u64, each: u64) -> Result<usize, Error> {
    let Some((limit, _)) = options.memory() else { return Ok(options.thread_count()) };
    let room = limit.checked_sub(held).map_or(0, |room| room.checked_div(each).unwrap_or(u64::MAX));
    match usize::try_from(room).unwrap_or(usize::MAX).min(options.thread_count()) {
        0 => Err(Error::MemoryLimit { limit, needs: held.saturating_add(each) }),
        threads => Ok(threads),
    }
}

/// Has every job done, on so many threads, each with a sorter of its own. The first error ends it.
fn share<J: Send, const W: usize>(
    threads: usize,
    jobs: impl ExactSizeIterator<Item = J> + Send,
    work: impl Fn(&mut Sorter<W>, J) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let helpers = threads.min(jobs.len()).saturating_sub(1);
    let (jobs, failure) = (Mutex::new(Some(jobs)), Mutex::new(None));
    let next = || jobs.lock().expect("no thread panicked").as_mut().and_then(Iterator::next);
    let stop = || *jobs.lock().expect("no thread panicked") = None;
    let run = || {
        let _guard = OnPanic(&stop);
        let mut sorter = Sorter::default();
        while let Some(job) = next() {
            if let Err(error) = work(&mut sorter, job) {
                stop();
                failure.lock().expect("no thread panicked").get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(run)).collect();
        run();
        for helper in helpers {
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    failure.into_inner().expect("no thread panicked").map_or(Ok(()), Err)
}

/// Calls a function if its thread panics: a panic in a caller's progress callback ends the work of the
/// other threads and then reaches the caller.
struct OnPanic<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for OnPanic<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::env::temp_dir;

    use tamis_bits::range::mix;

    use super::*;
    use crate::options::Progress;

    /// What a solver saw of each shard, and what it left in the table.
    type Seen<const W: usize> = (Vec<Vec<Record<W>>>, Vec<u64>);

    /// Gathers in runs of uneven length; has the solver note its records, and their sum in the table.
    fn seen<const W: usize>(
        options: &BuildOptions<'_>,
        records: &[Record<W>],
        bits: u32,
    ) -> Seen<W> {
        let mut gathering = Gathering::new(options);
        for run in records.chunks(70_001) {
            gathering.extend(run.iter().copied()).unwrap();
        }
        let gathered = gathering.finish().unwrap();
        let len = gathered.len();
        let mut table = vec![0; 3 << bits];
        let note = |shard: usize, records: &[Record<W>], cells: &mut [u64]| {
            let sum = records.iter().flatten().fold(0, |sum: u64, word| sum.wrapping_add(*word));
            cells.copy_from_slice(&[shard as u64, records.len() as u64, sum]);
            Ok(records.to_vec())
        };
        let shards = gathered.solve(options, bits, &mut table, note).unwrap();
        assert_eq!(shards.iter().map(|shard| shard.len() as u64).sum::<u64>(), len);
        (shards, table)
    }

    fn check<const W: usize>(
        options: &BuildOptions<'_>,
        records: &[Record<W>],
        bits: u32,
    ) -> Seen<W> {
        let distinct: BTreeSet<_> = records.iter().copied().collect();
        let (shards, table) = seen(options, records, bits);
        assert!(shards.iter().flatten().eq(distinct.iter()), "{options:?} {bits}");
        for (number, (shard, cells)) in shards.iter().zip(table.chunks(3)).enumerate() {
            let at_home =
                |record: &Record<W>| bits == 0 || record[0] >> (64 - bits) == number as u64;
            assert!(shard.iter().all(at_home), "{options:?} {bits}");
            assert_eq!(cells[..2], [number as u64, shard.len() as u64]);
        }
        (shards, table)
    }

    type Digest = fn(u64) -> u64;

    const DIGESTS: [(&str, Digest); 5] = [
        ("random", mix),
        ("each thrice", |n| mix(n / 3)),
        ("each a thousand times, apart", |n| mix(n % 1000)),
        ("one", |_| u64::MAX),
        ("in one bucket", |n| mix(n) >> 30),
    ];

    #[test]
    fn every_record_comes_once_in_order_to_its_shard() {
        for (_, digest) in DIGESTS {
            for len in [0, 1, 2, 1000, FEW as u64, FEW as u64 + 1, 400_000] {
                let records: Vec<_> = (0..len).map(|n| [digest(n)]).collect();
                for (bits, threads) in [(0, 1), (3, 2), (8, 3), (12, 2)] {
                    check(&BuildOptions::new().threads(threads), &records, bits);
                }
                let values: Vec<_> = (0..len).map(|n| [digest(n), mix(n) % 2]).collect();
                check(&BuildOptions::new().threads(2), &values, 5);
            }
        }
    }

    #[test]
    fn a_limit_of_memory_does_not_show() {
        let told = Mutex::new(Vec::new());
        let watcher = |now: &Progress| told.lock().unwrap().push((now.placed, now.keys));
        for (name, digest) in DIGESTS {
            let records: Vec<_> = (0..2_000_000).map(|n| [digest(n)]).collect();
            for bits in [0, 6, 10] {
                let free = check(&BuildOptions::new().threads(2), &records, bits);
                let tight = BuildOptions::new().threads(2).on_progress(&watcher);
                // All in one bucket is 16 MB, which must be there twice to be sorted.
                let limit = if bits == 0 || name == "in one bucket" { 90 << 20 } else { 16 << 20 };
                assert!(
                    seen(&tight.max_memory(limit, temp_dir()), &records, bits) == free,
                    "{name}"
                );
                let told = take(&mut *told.lock().unwrap());
                assert_eq!(told[0], (0, 2_000_000));
                let all = free.0.iter().flatten().count() as u64;
                assert!(told[1..].iter().all(|told| told.1 == all));
                assert!(told.contains(&(all, all)));
            }
        }
        let values: Vec<_> = (0..1_000_000).map(|n| [mix(n / 2), n % 3]).collect();
        let tight = BuildOptions::new().max_memory(16 << 20, temp_dir());
        assert!(check(&tight, &values, 7) == check(&BuildOptions::new(), &values, 7));
    }

    #[test]
    fn too_tight_a_limit_says_what_would_do() {
        let records: Vec<_> = (0..3_000_000).map(|n| [mix(n)]).collect();
        let build = |limit: u64, words: usize| {
            let options = BuildOptions::new().threads(2).max_memory(limit, temp_dir());
            let mut gathering = Gathering::new(&options);
            gathering.extend(records.iter().copied())?;
            let mut table = vec![0; words];
            gathering.finish()?.solve(&options, 3, &mut table, |_, records, _| Ok(records.len()))
        };
        // Too little to gather in, and too little for the table.
        for (limit, words) in [(1 << 20, 8), (40 << 20, 8 << 20)] {
            let Err(Error::MemoryLimit { needs, .. }) = build(limit, words) else {
                panic!("{limit}")
            };
            assert!(needs > limit);
            assert_eq!(build(needs, words).unwrap().iter().sum::<usize>(), 3_000_000);
            let short = build(needs - 1, words);
            assert!(matches!(short, Err(Error::MemoryLimit { .. })), "{limit}");
        }
    }

    #[test]
    fn errors_end_the_work() {
        let records: Vec<_> = (0..3_000_000).map(|n| [mix(n)]).collect();
        let no_folder = temp_dir().join("not/there");
        let options = BuildOptions::new().max_memory(16 << 20, &no_folder);
        let mut gathering = Gathering::new(&options);
        let Err(Error::Scratch { folder, error }) = gathering.extend(records.iter().copied())
        else {
            panic!("a folder that is not there")
        };
        assert_eq!((folder, error.kind()), (no_folder, std::io::ErrorKind::NotFound));

        let options = BuildOptions::new().threads(3);
        let mut gathering = Gathering::new(&options);
        gathering.extend(records.iter().copied()).unwrap();
        let mut table = vec![0; 1 << 10];
        let solved = AtomicU64::new(0);
        let failed = gathering.finish().unwrap().solve(&options, 10, &mut table, |shard, _, _| {
            solved.fetch_add(1, Ordering::Relaxed);
            if shard == 17 { Err(Error::Capacity { capacity: 17 }) } else { Ok(()) }
        });
        assert!(matches!(failed, Err(Error::Capacity { capacity: 17 })));
        assert!(solved.into_inner() < 512);
    }

    /// Bytes of the file that were changed behind our back are noticed, whenever that is.
    #[test]
    fn what_is_read_back_is_checked() {
        let options = BuildOptions::new().max_memory(16 << 20, temp_dir());
        let mut gathering = Gathering::new(&options);
        gathering
            .extend((0..2_000_000).map(|n| [mix(n as u64)]).collect::<Vec<_>>().into_iter())
            .unwrap();
        let gathered = gathering.finish().unwrap();
        let Held::Spilled(spill) = &gathered.held else { panic!("not spilled") };
        spill.tamper();
        let mut table = vec![0; 256];
        let failed = gathered.solve(&options, 8, &mut table, |_, _, _| Ok(()));
        let Err(Error::Scratch { error, .. }) = failed else { panic!("not noticed") };
        assert_eq!(error.to_string(), "records were not read back as they were written");
    }
}
