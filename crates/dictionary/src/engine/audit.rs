//! Verification against the store, and statistics.

use tamis::Shape;

use super::{Engine, Entries, WINDOW, lock};
use crate::error::Error;
use crate::options::DictionaryFilter;
use crate::shard::{Shard, global_range};
use crate::stats::{Audit, Counts, Stats, add, add_many};
use crate::store::{Layout, Store};

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    pub(crate) fn verify(&self) -> Result<Audit, Error> {
        let _locks: Vec<_> = self.shards.iter().map(Shard::write_lock).collect();
        let secondary = self.store.layout() == Layout::Secondary;
        let mut audit = Audit::default();
        let mut indexed = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            self.load(number)?;
            add(&shard.counters.reads_filter);
            let range = global_range(number, self.shard_bits, &(0..=u64::MAX));
            let members = self.read_members(range)?;
            let (missing, len, exact) = {
                let state = shard.state();
                let missing = members.hashes.iter().filter(|key| !state.may_contain(**key)).count();
                (missing as u64, state.len(), state.exact)
            };
            let found = (members.hashes.len() + members.misplaced.len()) as u64;
            indexed += found;
            let surplus = len.saturating_sub(found);
            let lost = if exact { surplus } else { 0 };
            audit.stale += surplus - lost;
            audit.missing += missing;
            audit.lost += lost;
            add_many(&shard.counters.missing, missing);
            add_many(&shard.counters.lost, lost);
            if secondary {
                members.misplaced.into_iter().for_each(|key| audit.add_damaged(key));
            }
            if missing > 0 {
                self.notify(format!(
                    "shard {number} of the filter rejected {missing} keys and was rebuilt"
                ));
            }
            if missing + lost > 0 {
                self.rebuild(number, 0)?;
            }
        }
        self.verify_entries(indexed, &mut audit)?;
        self.store.check()?;
        self.check_claim()?;
        Ok(audit)
    }

    /// Checks every entry, and in a secondary layout that the index names it. `indexed` is the number of keys
    /// in the index.
    fn verify_entries(&self, indexed: u64, audit: &mut Audit) -> Result<(), Error> {
        let secondary = self.store.layout() == Layout::Secondary;
        let mut found = 0;
        for entry in Entries::new(self) {
            found += 1;
            let key = match entry {
                Ok((key, _)) => key,
                Err(Error::Damaged { key, .. }) => {
                    audit.add_damaged(key);
                    continue;
                }
                Err(error) => return Err(error),
            };
            // The filter accepts all keys of the index.
            let shard_key = self.shard_key(&key);
            let state = self.shards[shard_key.shard].state();
            if secondary && !state.may_contain(shard_key.local) {
                audit.add_damaged(key);
            } else {
                audit.keys += 1;
            }
        }
        if secondary {
            // The index names keys without entries, or entries are missing from it that the filter accepts.
            audit.lost += u64::saturating_sub(indexed, found);
            audit.damaged = audit.damaged.max(u64::saturating_sub(found, indexed));
        }
        Ok(())
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
