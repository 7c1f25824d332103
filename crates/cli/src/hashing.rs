//! Turns batches of keys into runs of hashes.

use std::sync::Mutex;

use anyhow::Result;
use indicatif::ProgressBar;
use tamis::{KeyHash, KeyHasher, Source};
use tamis_interop::KeyType;

use crate::errors::failure;
use crate::input::{Batch, Keys, Separator};

/// Hashes every key of a batch into `hashes`, in order. Lines without a key are skipped.
pub(crate) fn hash_keys(batch: &Batch<'_>, hasher: &KeyHasher, hashes: &mut Vec<KeyHash>) {
    hashes.clear();
    match batch.separator() {
        Separator::U64 => hashes.extend(batch.words().map(|word| hasher.int(word))),
        _ => hashes.extend(batch.keys().map(|key| hasher.bytes(key))),
    }
}

/// Hashes every line of a batch into `hashes`, in order. A line without a key has a hash too, so that
/// hashes and lines can be zipped.
pub(crate) fn hash_lines(batch: &Batch<'_>, hasher: &KeyHasher, hashes: &mut Vec<KeyHash>) {
    hashes.clear();
    match batch.separator() {
        Separator::U64 => hashes.extend(batch.words().map(|word| hasher.int(word))),
        _ => hashes.extend(batch.lines().map(|line| hasher.bytes(line.key))),
    }
}

/// Hashes every key of a batch into `hashes`, in order, as keys of a type. A line without a key is skipped
/// unless `all_lines` is set, which gives it the hash of an empty text.
///
/// # Errors
/// Names the first line that does not state a key of the type.
pub(crate) fn hash_typed(
    batch: &Batch<'_>,
    hasher: &KeyHasher,
    key_type: KeyType,
    all_lines: bool,
    hashes: &mut Vec<KeyHash>,
) -> Result<()> {
    hashes.clear();
    if batch.separator() == Separator::U64 {
        hashes.extend(batch.words().map(|word| hasher.int(word)));
        return Ok(());
    }
    for (number, line) in (batch.first_line()..).zip(batch.lines()) {
        if !line.key.is_empty() {
            let hash = key_type.hash(hasher, line.key);
            hashes.push(
                hash.map_err(|error| failure(format_args!("{}:{number}", batch.name()), &error))?,
            );
        } else if all_lines {
            hashes.push(hasher.bytes(b""));
        }
    }
    Ok(())
}

/// Hashes all keys on `threads` threads and calls `sink` with runs of hashes, in order.
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

/// Buffers for reuse. The page faults of fresh memory cost more than hashing the keys.
#[derive(Debug, Default)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Takes a used buffer with its old contents, or a new one.
    pub(crate) fn take(&self) -> T {
        self.0.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default()
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give(&self, used: T) {
        if let Ok(mut pool) = self.0.lock() {
            pool.push(used);
        }
    }
}

/// A checksum of the keys of one pass: their number and the sum of their hashes. It does not depend
/// on the order of batches, so two passes over the same keys agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The number of keys.
    pub(crate) keys: u64,
    sum: u64,
}

impl Tally {
    /// Returns the tally of `hashes`.
    pub(crate) fn of(hashes: &[KeyHash]) -> Self {
        let sum = hashes.iter().fold(0, |sum: u64, hash| sum.wrapping_add(hash.hi ^ hash.lo));
        Self { keys: hashes.len() as u64, sum }
    }

    /// Adds another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// A [`Source`] of hashes over the results of [`Keys::pull`].
pub(crate) struct Runs<'a> {
    next: &'a mut dyn FnMut() -> Result<Option<(Vec<KeyHash>, Tally)>>,
    run: Vec<KeyHash>,
    /// Receives each run after use.
    pool: &'a Pool<Vec<KeyHash>>,
    /// The keys returned so far.
    pub(crate) tally: Tally,
}

impl<'a> Runs<'a> {
    /// Returns a source that calls `next` until it returns `None`.
    pub(crate) fn new(
        next: &'a mut dyn FnMut() -> Result<Option<(Vec<KeyHash>, Tally)>>,
        pool: &'a Pool<Vec<KeyHash>>,
    ) -> Self {
        Self { next, pool, tally: Tally::default(), run: Vec::new() }
    }
}

impl Source<KeyHash> for Runs<'_> {
    fn next_run(&mut self) -> Result<&[KeyHash], tamis::Error> {
        self.pool.give(std::mem::take(&mut self.run));
        while let Some((run, tally)) =
            (self.next)().map_err(|error| tamis::Error::Source(error.into()))?
        {
            // A batch of empty lines has no keys; returning an empty run would end the source.
            if !run.is_empty() {
                self.tally.add(tally);
                self.run = run;
                return Ok(&self.run);
            }
        }
        Ok(&[])
    }
}
