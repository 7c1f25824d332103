//! Queries of the filter, and the repair of its false positives.

use std::ops::RangeInclusive;
use std::sync::mpsc::Receiver;

use tamis::{KeyHash, Repair};

use super::Engine;
use crate::error::Error;
use crate::options::DictionaryFilter;
use crate::shard::{ShardKey, ShardState, Version, global_range};
use crate::stats::{add, add_many};
use crate::store::Store;

/// A key that passed the filter.
pub(super) struct Positive {
    /// The version of the shard and the range whose members a repair needs, unless a write is in progress.
    pub(super) repair: Option<(Version, RangeInclusive<u64>)>,
    /// Whether a filter was loaded. If not, every key passes.
    pub(super) filtered: bool,
}

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    /// Returns `None` if the filter rejects the key, else what a repair needs if the store does not hold it.
    pub(super) fn query_filter(&self, shard_key: ShardKey) -> Option<Positive> {
        let shard = &self.shards[shard_key.shard];
        // The outer `None` means that the filter is not loaded.
        let query = |state: &ShardState<F>| {
            let filter = state.filter.as_ref()?;
            let key = state.salted(shard_key.local);
            if !filter.contains(key) {
                return Some(None);
            }
            let range = global_range(shard_key.shard, self.shard_bits, &filter.suspects(key));
            let repair = state.stable_version().map(|version| (version, range));
            Some(Some(Positive { repair, filtered: true }))
        };
        let answer = query(&shard.state());
        let answer = answer.or_else(|| {
            // One thread loads the filter; the others read the store meanwhile.
            let _lock = shard.try_write_lock()?;
            self.load(shard_key.shard).ok()?;
            query(&shard.state())
        });
        answer.unwrap_or(Some(Positive { repair: None, filtered: false }))
    }

    /// Makes the filter reject a false positive, given the members of `range`. Does nothing if the shard is
    /// no longer at `version` or the filter needs another range.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if the filter held a key that the store has lost, possibly this one.
    pub(super) fn repair(
        &self,
        shard_key: ShardKey,
        version: Version,
        range: &RangeInclusive<u64>,
        members: &[KeyHash],
    ) -> Result<(), Error> {
        let shard = &self.shards[shard_key.shard];
        let state = &mut *shard.state_mut();
        let (key, members) = (state.salted(shard_key.local), state.salted_members(members));
        let same_version = state.stable_version() == Some(version);
        let len = state.len();
        let repair = state.filter.as_mut().and_then(|filter| {
            let suspects = filter.suspects(key);
            let same_range = *range == global_range(shard_key.shard, self.shard_bits, &suspects);
            (same_version && same_range).then(|| filter.adapt(key, &members))
        });
        let counters = &shard.counters;
        match repair {
            None => {
                add(&counters.postponed);
                return Ok(());
            }
            Some(Repair::NotNeeded) => return Ok(()),
            Some(Repair::Impossible) => add(&counters.impossible),
            Some(Repair::Rehashed) => {
                add(&counters.repairs);
                add(&counters.rehashes);
            }
            // `Extended`, and repairs that later versions add.
            Some(_) => add(&counters.repairs),
        }
        state.changed = true;
        self.check_loss(shard_key.shard, len, state)
    }

    /// Returns an error if a repair has removed keys from a filter that held exactly the keys of the store:
    /// then the store has lost them.
    fn check_loss(&self, number: usize, before: u64, state: &ShardState<F>) -> Result<(), Error> {
        let lost = before.saturating_sub(state.len());
        if lost == 0 || !state.exact {
            return Ok(());
        }
        add_many(&self.shards[number].counters.lost, lost);
        self.notify(format!("the store has lost {lost} entries"));
        Err(Error::Corrupt { what: "the store has lost an entry, possibly that of this key" })
    }

    /// Renews the parts of a shard that are due.
    pub(super) fn sweep(&self, number: usize) -> Result<(), Error> {
        let shard = &self.shards[number];
        let due =
            |state: &ShardState<F>| Some((state.stable_version()?, state.filter.as_ref()?.due()?));
        loop {
            let Some((version, range)) = due(&shard.state()) else { return Ok(()) };
            add(&shard.counters.reads_sweep);
            let mut members = self.read_members(global_range(number, self.shard_bits, &range))?;
            members.check()?;
            let state = &mut *shard.state_mut();
            if due(state) != Some((version, range)) {
                return Ok(()); // a write or another sweep intervened; the next false positive retries
            }
            let (members, len) = (state.salted_members(&members.hashes), state.len());
            if let Some(filter) = &mut state.filter {
                filter.renew(&members);
                state.changed = true;
                add(&shard.counters.sweeps);
                self.check_loss(number, len, state)?;
            }
        }
    }

    /// Repairs queued false positives until the queue is closed.
    pub(crate) fn repair_queued(&self, queue: &Receiver<ShardKey>) {
        for shard_key in queue {
            // The key may be queued twice, if two lookups met it before the first repair.
            let Some(Positive { repair, filtered: true }) = self.query_filter(shard_key) else {
                continue;
            };
            let shard = &self.shards[shard_key.shard];
            let Some((version, range)) = repair else {
                add(&shard.counters.postponed);
                continue;
            };
            add(&shard.counters.reads_repair);
            // If the store fails, a later false positive retries. Lost entries are reported by a notice.
            let _ = self.read_members(range.clone()).and_then(|mut members| {
                members.check()?;
                self.repair(shard_key, version, &range, &members.hashes)?;
                self.sweep(shard_key.shard)
            });
        }
    }
}
