//! Verification against the store, and statistics.

use tamis::{Filter, Shape};

use super::{Engine, Entries, WINDOW, lock};
use crate::error::Error;
use crate::options::DictionaryFilter;
use crate::shard::{Shard, global_range};
use crate::stats::{Audit, Counts, Stats, add, add_many};
use crate::store::{Layout, Store};

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    pub(crate) fn verify(&self) -> Result<Audit, Error> {
        let _locks: Vec<_> = self.shards.iter().map(Shard::write_lock).collect();
        let mut audit = Audit::default();
        for (number, shard) in self.shards.iter().enumerate() {
            self.load(number)?;
            add(&shard.counters.reads_filter);
            let mut members = Vec::new();
            let range = global_range(number, self.shard_bits, &(0..=u64::MAX));
            self.read_members(range, &mut members)?;
            let (missing, len) = {
                let state = shard.state();
                let missing = members.iter().filter(|key| !state.may_contain(**key)).count() as u64;
                (missing, state.filter.as_ref().map_or(0, Filter::len))
            };
            audit.keys += members.len() as u64;
            audit.missing += missing;
            audit.stale += len.saturating_sub(members.len() as u64);
            if missing > 0 {
                add_many(&shard.counters.missing, missing);
                self.notify(format!(
                    "shard {number} of the filter rejected {missing} keys and was rebuilt"
                ));
                self.rebuild(number, 0)?;
            }
        }
        if self.store.layout() == Layout::Secondary {
            self.verify_index(audit.keys)?;
        }
        Ok(audit)
    }

    /// Checks that the index names every entry and nothing else.
    fn verify_index(&self, indexed: u64) -> Result<(), Error> {
        let mut count = 0;
        for entry in Entries::new(self) {
            let shard_key = self.shard_key(&entry?.0);
            let found = self.shards[shard_key.shard].state().may_contain(shard_key.local);
            count += 1;
            if !found {
                return Err(Error::Corrupt { what: "an entry is not in the index" });
            }
        }
        match count == indexed {
            true => Ok(()),
            false => Err(Error::Corrupt { what: "the index names a key without an entry" }),
        }
    }

    /// Returns the recent lookups of absent keys and the false positives among them. Until this session has
    /// a window of its own, those of the previous session are added, at most about one window of them.
    pub(super) fn window(&self) -> (u64, u64) {
        let read = self.shards.iter().map(|shard| shard.window.read());
        let (lookups, passed) = read.fold((0, 0), |sum, shard| (sum.0 + shard.0, sum.1 + shard.1));
        let (previous, previous_passed) = self.previous.window;
        match (lookups < WINDOW, previous > WINDOW) {
            (false, _) => (lookups, passed),
            (true, true) => (lookups + previous / 2, passed + previous_passed / 2),
            (true, false) => (lookups + previous, passed + previous_passed),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.previous.counts;
        self.shards.iter().for_each(|shard| counts.add(&shard.counters));
        counts
    }

    pub(crate) fn stats(&self) -> Stats {
        let (window_negatives, window_false_positives) = self.window();
        let mut stats = Stats {
            counts: self.counts(),
            keys: 0,
            capacity: 0,
            filter_bytes: 0,
            shards: self.shards.len(),
            shards_loaded: 0,
            target_fpr: self.fpr,
            window_negatives,
            window_false_positives,
            in_doubt: 0,
        };
        let manifest = lock(&self.manifest);
        for (shard, saved) in self.shards.iter().zip(&manifest.shards) {
            let state = shard.state();
            let (keys, capacity, bytes) = match &state.filter {
                Some(filter) => {
                    let figures = filter.shape().figures();
                    (filter.len(), figures.keys, figures.bytes)
                }
                None => (saved.keys, saved.capacity, saved.bytes),
            };
            stats.keys += keys;
            stats.capacity += capacity;
            stats.filter_bytes += bytes;
            stats.shards_loaded += usize::from(state.filter.is_some());
            stats.in_doubt += state.in_doubt.len() as u64;
        }
        stats
    }
}
