//! From batches of lines to runs of hashes.

use std::sync::Mutex;

use anyhow::Result;
use indicatif::ProgressBar;
use tamis::{KeyHash, KeyHasher, KeySource};

use crate::input::{Batch, Keys, Separator};

/// The hash of every key of a batch, in order, into `hashes`; lines without a key are left out.
pub(crate) fn hash_keys(batch: &Batch<'_>, hasher: &KeyHasher, hashes: &mut Vec<KeyHash>) {
    hashes.clear();
    match batch.separator() {
        Separator::U64 => hashes.extend(batch.words().map(|word| hasher.int(word))),
        _ => hashes.extend(batch.keys().map(|key| hasher.bytes(key))),
    }
}

/// Hashes all keys on so many threads, and hands them to `sink` in order, a run at a time.
pub(crate) fn each_run(
    keys: &Keys,
    threads: usize,
    hasher: &KeyHasher,
    bar: &ProgressBar,
    mut sink: impl FnMut(&[KeyHash]) -> Result<()>,
) -> Result<()> {
    let pool = Pool::<Vec<KeyHash>>::default();
    let hash = |batch: &Batch<'_>| {
        let mut hashes = pool.take();
        hash_keys(batch, hasher, &mut hashes);
        bar.inc(batch.read_bytes());
        hashes
    };
    keys.each_batch(threads, hash, |hashes| {
        sink(&hashes)?;
        pool.give(hashes);
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Memory to use again. Fresh memory is paid for when it is first touched, page by page, which
/// costs more than hashing what is put there.
#[derive(Debug, Default)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Something used before, as it was left, or something new.
    pub(crate) fn take(&self) -> T {
        self.0.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default()
    }

    /// Keeps it for the next who asks.
    pub(crate) fn give(&self, used: T) {
        if let Ok(mut pool) = self.0.lock() {
            pool.push(used);
        }
    }
}

/// The keys of one pass, told by number and sum of hashes: two passes over the same keys agree,
/// whatever the order in which batches were done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many.
    pub(crate) keys: u64,
    sum: u64,
}

impl Tally {
    /// Of some hashes.
    pub(crate) fn of(hashes: &[KeyHash]) -> Self {
        let sum = hashes.iter().fold(0, |sum: u64, hash| sum.wrapping_add(hash.hi ^ hash.lo));
        Self { keys: hashes.len() as u64, sum }
    }

    /// And of some more.
    pub(crate) fn add(&mut self, more: Self) {
        self.keys += more.keys;
        self.sum = self.sum.wrapping_add(more.sum);
    }
}

/// Hashes as they come from [`Keys::pull`](crate::input::Keys::pull), for a builder to read.
pub(crate) struct Runs<'a> {
    next: &'a mut dyn FnMut() -> Result<Option<(Vec<KeyHash>, Tally)>>,
    run: Vec<KeyHash>,
    /// Where runs go when they have been read.
    pool: &'a Pool<Vec<KeyHash>>,
    /// What has been read.
    pub(crate) tally: Tally,
}

impl<'a> Runs<'a> {
    /// Reads what `next` returns, until that is nothing.
    pub(crate) fn new(
        next: &'a mut dyn FnMut() -> Result<Option<(Vec<KeyHash>, Tally)>>,
        pool: &'a Pool<Vec<KeyHash>>,
    ) -> Self {
        Self { next, pool, tally: Tally::default(), run: Vec::new() }
    }
}

impl KeySource for Runs<'_> {
    fn next_run(&mut self) -> Result<&[KeyHash], tamis::Error> {
        self.pool.give(std::mem::take(&mut self.run));
        while let Some((run, tally)) =
            (self.next)().map_err(|error| tamis::Error::Source(error.into()))?
        {
            // A batch of empty lines has no keys, but an empty run would mean the end.
            if !run.is_empty() {
                self.tally.add(tally);
                self.run = run;
                return Ok(&self.run);
            }
        }
        Ok(&[])
    }
}
