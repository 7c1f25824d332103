//! Repeated keys: `--distinct`, and the key that a filter cannot hold often enough.

use std::collections::HashSet;

use anyhow::{Result, anyhow};
use indicatif::ProgressBar;
use tamis::{AnyFilter, Error, KeyHash, KeyHasher, Kind, Source};

use crate::entries::find;
use crate::hashing::{Runs, each_run};
use crate::input::{Keys, Separator, show_key};
use crate::memory::check_memory_of;

/// The memory of [`Distinct`] per key that it has room for: two words and a control byte.
const BYTES_PER_KEY: u64 = 17;

/// The hashes of the distinct keys that were read. Keys are distinct if their 128-bit hashes are.
#[derive(Debug)]
pub(crate) struct Distinct {
    seen: HashSet<(u64, u64)>,
    limit: Option<u64>,
}

impl Distinct {
    /// Returns an empty set that takes at most `limit` bytes, or the available memory.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { seen: HashSet::new(), limit }
    }

    /// Returns the number of distinct keys.
    pub(crate) fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Appends the hashes of `keys` that are new to `new`.
    ///
    /// # Errors
    /// If the set would exceed its memory.
    pub(crate) fn take_new(&mut self, keys: &[KeyHash], new: &mut Vec<KeyHash>) -> Result<()> {
        for key in keys {
            if self.seen.len() == self.seen.capacity() {
                let doubled = (2 * self.seen.capacity()).max(1 << 10);
                check_memory_of(
                    "the set of distinct keys",
                    doubled as u64 * BYTES_PER_KEY,
                    self.limit,
                )?;
                let more = doubled - self.seen.len();
                self.seen.try_reserve(more).map_err(|_| {
                    anyhow!("failed to allocate the set of distinct keys: {} so far", self.len())
                })?;
            }
            if self.seen.insert((key.hi, key.lo)) {
                new.push(*key);
            }
        }
        Ok(())
    }
}

/// The distinct keys of [`Runs`], in order.
pub(crate) struct DistinctRuns<'a, 'r> {
    runs: &'a mut Runs<'r>,
    distinct: &'a mut Distinct,
    run: Vec<KeyHash>,
}

impl<'a, 'r> DistinctRuns<'a, 'r> {
    /// Returns a source that drops the keys that `distinct` holds already.
    pub(crate) fn new(runs: &'a mut Runs<'r>, distinct: &'a mut Distinct) -> Self {
        Self { runs, distinct, run: Vec::new() }
    }
}

impl Source<KeyHash> for DistinctRuns<'_, '_> {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        self.run.clear();
        // A run of duplicates only is skipped; returning an empty run would end the source.
        while self.run.is_empty() {
            let keys = self.runs.next_run()?;
            if keys.is_empty() {
                break;
            }
            self.distinct
                .take_new(keys, &mut self.run)
                .map_err(|error| Error::Source(error.into()))?;
        }
        Ok(&self.run)
    }
}

/// The keys of a command that inserts them, to explain why one did not fit.
#[derive(Clone, Copy)]
pub(crate) struct Inserted<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) hasher: &'a KeyHasher,
    pub(crate) separator: Separator,
    pub(crate) threads: usize,
}

impl Inserted<'_> {
    /// Inserts the keys into `filter` until one does not fit, and returns it.
    pub(crate) fn first_refused(&self, filter: &mut AnyFilter) -> Result<Option<KeyHash>> {
        let mut refused = None;
        each_run(self.keys, self.threads, self.hasher, &ProgressBar::hidden(), |hashes| {
            if refused.is_none() {
                match filter.insert_batch(hashes) {
                    Err(Error::Full { inserted }) => refused = Some(hashes[inserted as usize]),
                    done => done?,
                }
            }
            Ok(())
        })?;
        Ok(refused)
    }

    /// Describes the key that did not fit into `filter`, by its first place, its copies among the keys
    /// and the copies that the filter holds. Returns `None` if the filter holds no copy: it is then full
    /// of other keys.
    pub(crate) fn explain(
        &self,
        filter: &mut AnyFilter,
        refused: KeyHash,
    ) -> Result<Option<anyhow::Error>> {
        let kind = filter.kind();
        let mut copies = 0u64;
        each_run(self.keys, self.threads, self.hasher, &ProgressBar::hidden(), |hashes| {
            copies += hashes.iter().filter(|hash| **hash == refused).count() as u64;
            Ok(())
        })?;
        let mut held = 0u64;
        while filter.remove(refused).unwrap_or(false) {
            held += 1;
        }
        let wanted = |line: &[u8]| hash_of(self.separator, self.hasher, line) == refused;
        let found = find(self.keys, self.threads, wanted)?;
        let Some(found) = found.filter(|_| held > 0) else { return Ok(None) };
        let key = show_key(self.separator, &found.line);
        Ok(Some(too_many(&found.place, &key, copies, kind, held)))
    }
}

fn too_many(place: &str, key: &str, copies: u64, kind: Kind, held: u64) -> anyhow::Error {
    let times = if copies == 1 { "once".into() } else { format!("{copies} times") };
    let copies = if held == 1 { "1 copy".into() } else { format!("{held} copies") };
    anyhow!(
        "{place}: the key {key} occurs {times}, and the {kind} filter has no room for more than {copies} \
         of it; use --distinct to insert each key once, or a kind that holds any number of copies, such \
         as counting_quotient"
    )
}

/// Returns the hash of a key, or of the 8 bytes of a raw integer.
pub(crate) fn hash_of(separator: Separator, hasher: &KeyHasher, line: &[u8]) -> KeyHash {
    match (separator, line.as_array()) {
        (Separator::U64, Some(word)) => hasher.int(u64::from_le_bytes(*word)),
        _ => hasher.bytes(line),
    }
}
