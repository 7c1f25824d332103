//! Gathering: all keys of a static filter, each once, in order, before the first is placed.
//!
//! A static filter is solved, not filled: it must have every key before it can place one. What it
//! keeps of a key until then is a *record*: the 64 bits of [`Hash::hi`](crate::Hash), the digest,
//! and for a map the value behind it. Two keys with one digest are one key to every static kind:
//! among 10^9 keys the chance that there is such a pair is 3 %, and it costs nothing but that.
//!
//! ```text
//!  keys ──► Gathering ──► Gathered ──────────────► shards, by the leading bits of the digest
//!           in any order   sorted, each record once  ├─ 00… ─► solved by one thread ─► table[0]
//!                          counted                   ├─ 01… ─► solved by another   ─► table[1]
//! ```
//!
//! Shards have equal parts of the table, so that the place of one follows from its number. Each is
//! solved from its own records alone: the bytes are the same for any number of threads.

use std::ops::Range;
use std::sync::Mutex;
use std::thread;

use crate::error::Error;
use crate::filter::{KeySource, Means};

/// A digest, and what goes with it.
pub(crate) type Record<const W: usize> = [u64; W];

/// Records on their way in.
#[derive(Debug)]
pub(crate) struct Gathering<const W: usize> {
    records: Vec<Record<W>>,
}

impl<const W: usize> Gathering<W> {
    /// Nothing yet.
    pub(crate) fn new(_means: &Means<'_>) -> Self {
        Self { records: Vec::new() }
    }

    /// Takes some more.
    pub(crate) fn extend(
        &mut self,
        records: impl ExactSizeIterator<Item = Record<W>>,
    ) -> Result<(), Error> {
        let bytes = (records.len() as u64).saturating_mul(8 * W as u64);
        self.records.try_reserve(records.len()).map_err(|_| Error::Memory { bytes })?;
        self.records.extend(records);
        Ok(())
    }

    /// Sorts them, and drops those that are there twice.
    pub(crate) fn finish(mut self) -> Result<Gathered<W>, Error> {
        let read = self.records.len() as u64;
        self.records.sort_unstable();
        self.records.dedup();
        Ok(Gathered { records: self.records, read })
    }
}

/// The digests of all keys.
pub(crate) fn gather(means: &Means<'_>, mut keys: impl KeySource) -> Result<Gathered<1>, Error> {
    let mut gathering = Gathering::new(means);
    loop {
        let run = keys.next_run()?;
        if run.is_empty() {
            return gathering.finish();
        }
        gathering.extend(run.iter().map(|key| [key.hi]))?;
    }
}

/// Records in order, each once.
#[derive(Debug)]
pub(crate) struct Gathered<const W: usize> {
    records: Vec<Record<W>>,
    read: u64,
}

impl<const W: usize> Gathered<W> {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// How many there were before those that came twice were dropped.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Splits the records into `2^bits` shards by their leading bits, gives each its equal part of
    /// `table`, and has them solved. What `solve` returns of each comes back in their order.
    pub(crate) fn solve<T: Send>(
        self,
        means: &Means<'_>,
        bits: u32,
        table: &mut [u64],
        solve: impl Fn(usize, &[Record<W>], &mut [u64]) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let shards = 1usize << bits;
        let part = table.len() / shards;
        let mut results: Vec<Option<Result<T, Error>>> = (0..shards).map(|_| None).collect();
        let mut rest = table;
        let mut jobs = Vec::with_capacity(shards);
        for (shard, result) in results.iter_mut().enumerate() {
            let (cells, more) = rest.split_at_mut(part);
            rest = more;
            jobs.push((shard, cells, result));
        }
        let all = self.len();
        let jobs = Mutex::new((jobs.into_iter(), 0));
        let work = || {
            loop {
                let next = jobs.lock().expect("no panic").0.next();
                let Some((shard, cells, result)) = next else { break };
                let records = &self.records[self.range(shard as u64, bits)];
                *result = Some(solve(shard, records, cells));
                let mut jobs = jobs.lock().expect("no panic");
                jobs.1 += records.len() as u64;
                means.tell(jobs.1, all);
            }
        };
        thread::scope(|scope| {
            for _ in 1..means.threads().min(shards) {
                scope.spawn(work);
            }
            work();
        });
        results.into_iter().map(|result| result.expect("every shard was solved")).collect()
    }

    fn range(&self, shard: u64, bits: u32) -> Range<usize> {
        let start = |shard: u64| match shard >> bits {
            0 if bits == 0 => 0,
            0 => self.records.partition_point(|record| record[0] >> (64 - bits) < shard),
            _ => self.records.len(),
        };
        start(shard)..start(shard + 1)
    }
}
