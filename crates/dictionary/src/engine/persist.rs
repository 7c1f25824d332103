//! Loading, rebuilding and saving the shards of the filter.

use std::sync::atomic::Ordering;

use tamis::{KeyHash, Shape};

use super::entries::MISPLACED;
use super::{Engine, Members, lock, plan_shape, shard_capacity};
use crate::error::Error;
use crate::manifest::{self, COUNTS, Manifest, STATE, SavedShard};
use crate::options::DictionaryFilter;
use crate::shard::{SaltedFilter, global_range, shard_of};
use crate::stats::add;
use crate::store::{Layout, Store};

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    /// Loads a shard from its record, or rebuilds it from the store. The caller holds the shard's write lock.
    pub(super) fn load(&self, number: usize) -> Result<(), Error> {
        let shard = &self.shards[number];
        let is_unwritten = {
            let state = shard.state();
            if state.filter.is_some() {
                return Ok(());
            }
            state.is_unwritten()
        };
        if !is_unwritten {
            add(&shard.counters.rebuilds);
            return self.rebuild(number, 0);
        }
        add(&shard.counters.reads_filter);
        let record = self.store.meta(&manifest::shard_name(number))?;
        let SavedShard { generation, bytes, .. } = lock(&self.manifest).shards[number];
        self.memory.reserve_saved(bytes)?;
        let decoded = record
            .ok_or_else(|| "its record is missing".to_owned())
            .and_then(|record| manifest::decode_shard(&record, &self.hasher, generation, number));
        match decoded {
            Ok(filter) => self.memory.release(shard.state_mut().replace(filter, bytes)),
            Err(reason) => {
                self.memory.release(bytes);
                self.notify(format!("shard {number} of the filter was rebuilt: {reason}"));
                add(&shard.counters.rebuilds);
                self.rebuild(number, 0)?;
            }
        }
        Ok(())
    }

    /// Rebuilds a shard from the store, with at least the given capacity. The caller holds the shard's write
    /// lock.
    pub(super) fn rebuild(&self, number: usize, min_capacity: u64) -> Result<(), Error> {
        let shard = &self.shards[number];
        add(&shard.counters.reads_filter);
        let Members { mut hashes, misplaced } =
            self.read_members(global_range(number, self.shard_bits, &(0..=u64::MAX)))?;
        self.skip_misplaced(misplaced)?;
        let in_doubt: Vec<KeyHash> = {
            let state = shard.state();
            state.in_doubt.iter().filter(|key| !hashes.contains(key)).copied().collect()
        };
        hashes.extend(in_doubt);
        let count = hashes.len() as u64;
        let capacity = self.spacious(count).max(min_capacity);
        // What fitted when it was written fits when it is opened again, then without spare room.
        match self.fill(number, capacity, &hashes) {
            Err(Error::Filter(tamis::Error::MemoryLimit { .. })) => {
                self.fill(number, count.max(min_capacity), &hashes)
            }
            filled => filled,
        }
    }

    /// Returns the capacity of a new filter of `count` keys, with spare room.
    fn spacious(&self, count: u64) -> u64 {
        let planned = shard_capacity(lock(&self.manifest).keys as f64 / self.shards.len() as f64);
        if count <= planned { planned } else { count + count / 4 }
    }

    /// Reports damaged keys that a rebuilt filter does not contain. A clustered store cannot find their entries
    /// by any key. In a secondary store their entries may be intact, so that the filter must not reject them.
    fn skip_misplaced(&self, mut keys: Vec<Vec<u8>>) -> Result<(), Error> {
        let count = keys.len();
        let Some(key) = keys.pop() else { return Ok(()) };
        if self.store.layout() == Layout::Secondary {
            return Err(Error::Damaged { key, what: MISPLACED });
        }
        self.notify(format!("the store has {count} damaged keys; verify lists them"));
        Ok(())
    }

    /// Replaces a shard's filter by one of `keys`.
    fn fill(&self, number: usize, capacity: u64, keys: &[KeyHash]) -> Result<(), Error> {
        let shape = self.shape(capacity)?;
        let bytes = shape.figures().bytes;
        self.memory.reserve(bytes)?;
        let built = SaltedFilter::build(shape, keys).inspect_err(|_| self.memory.release(bytes))?;
        let state = &mut *self.shards[number].state_mut();
        self.memory.release(state.replace(built, bytes));
        state.changed = true;
        Ok(())
    }

    /// Returns the shape for a number of keys. The last one is cached: planning a shape takes longer than
    /// building a small filter, and shards often have equal shapes.
    fn shape(&self, keys: u64) -> Result<F::Shape, Error> {
        let mut cached = lock(&self.cached_shape);
        match &*cached {
            Some((cached_keys, shape)) if *cached_keys == keys => Ok(shape.clone()),
            _ => {
                let shape = plan_shape::<F>(keys, self.fpr)?;
                *cached = Some((keys, shape.clone()));
                Ok(shape)
            }
        }
    }

    /// Rebuilds all shards, with spare room if the limit of memory allows it.
    pub(super) fn rebuild_all(&self) -> Result<(), Error> {
        let total = match self.scan_all(|count| self.spacious(count)) {
            Err(Error::Filter(tamis::Error::MemoryLimit { .. })) => {
                for shard in &self.shards {
                    self.memory.release(shard.state_mut().unload());
                }
                self.scan_all(|count| count)?
            }
            scanned => scanned?,
        };
        self.notify(format!(
            "the dictionary was not closed: its filter was rebuilt from {total} keys"
        ));
        Ok(())
    }

    /// Builds all shards by one scan in the order of hashes. Returns the number of keys.
    fn scan_all(&self, capacity: impl Fn(u64) -> u64) -> Result<u64, Error> {
        add(&self.shards[0].counters.reads_filter);
        let (mut members, mut number, mut total) = (Members::default(), 0, 0u64);
        let mut result = Ok(());
        let mut fill_to = |next: usize, keys: &mut Vec<KeyHash>| {
            while number < next {
                let filled = self.fill(number, capacity(keys.len() as u64), keys);
                result = std::mem::replace(&mut result, Ok(())).and(filled);
                add(&self.shards[number].counters.rebuilds);
                keys.clear();
                number += 1;
            }
        };
        self.store.keys(0..=u64::MAX, &mut |hi, key| {
            // By the stored `hi`, which is in order even if a key is damaged.
            fill_to(shard_of(hi, self.shard_bits), &mut members.hashes);
            self.add_member(hi, key, &mut members);
            total += 1;
        })?;
        fill_to(self.shards.len(), &mut members.hashes);
        result?;
        self.skip_misplaced(members.misplaced)?;
        Ok(total)
    }

    /// Saves the changed shards, the counters and a clean state record.
    ///
    /// The state record is written last, in one transaction with the last shards. If saving is interrupted,
    /// the store keeps the dirty state record, and the next `open` rebuilds the filter.
    pub(crate) fn save(&self) -> Result<(), Error> {
        /// The size of the records that are written in one access.
        const BATCH_BYTES: usize = 16 << 20;
        let counts = self.counts();
        if counts == self.previous.counts && !self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut manifest = lock(&self.manifest).clone();
        manifest.generation += 1;
        let write = |records: &[(String, Vec<u8>)]| {
            let records: Vec<_> =
                records.iter().map(|(name, record)| (&**name, &**record)).collect();
            self.store.set_meta(&records).inspect_err(|error| self.claim.observe(error))
        };
        if self.shards.iter().any(|shard| !shard.state().exact) {
            self.barrier()?;
        }
        let mut records: Vec<(String, Vec<u8>)> = Vec::new();
        for number in 0..self.shards.len() {
            let _lock = self.shards[number].write_lock();
            let Some(record) = self.encode_if_changed(number, &mut manifest)? else { continue };
            records.push((manifest::shard_name(number), record));
            if records.iter().map(|(_, record)| record.len()).sum::<usize>() > BATCH_BYTES {
                write(&records)?;
                records.clear();
            }
        }
        manifest.clean = true;
        records.push((COUNTS.to_owned(), manifest::encode_counts(self.window(), &counts)));
        records.push((STATE.to_owned(), manifest.to_bytes()));
        write(&records)
    }

    /// Encodes the record of a shard and enters it in the manifest, unless the shard is unchanged. The caller
    /// holds the shard's write lock.
    fn encode_if_changed(
        &self,
        number: usize,
        manifest: &mut Manifest,
    ) -> Result<Option<Vec<u8>>, Error> {
        let shard = &self.shards[number];
        if !shard.state().is_unwritten() {
            self.load(number)?;
        }
        if !shard.state().exact {
            // The caller has called `barrier`, so the store's keys are all members.
            shard.state_mut().in_doubt.clear();
            add(&shard.counters.rebuilds);
            self.rebuild(number, 0)?;
            shard.state_mut().exact = true;
        }
        let state = &mut *shard.state_mut();
        if !state.changed {
            return Ok(None);
        }
        let Some(filter) = &state.filter else { return Ok(None) };
        let figures = filter.shape().figures();
        manifest.shards[number] = SavedShard {
            generation: manifest.generation,
            keys: filter.len(),
            capacity: figures.keys,
            bytes: figures.bytes,
        };
        let generation = manifest.generation;
        let record = manifest::encode_shard(&self.hasher, filter, state.salt, generation, number)?;
        state.changed = false;
        Ok(Some(record))
    }
}
