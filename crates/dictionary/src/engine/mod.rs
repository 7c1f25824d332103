//! The operations: shards of a filter in front of a store.
//!
//! This file has creation, lookups and writes; `claim.rs` the claim on the store, `repair.rs` the repairs,
//! `persist.rs` loading, rebuilding and saving, `audit.rs` verification and statistics, `entries.rs` iteration.

mod audit;
mod claim;
mod entries;
mod memory;
mod persist;
mod repair;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tamis::{Goal, KeyHash, KeyHasher, Settings, Shape, plan};

pub(crate) use self::claim::{Claim, Moment};
pub use self::entries::Entries;
use self::entries::MISPLACED;
use self::memory::Memory;
use crate::error::Error;
use crate::manifest::{self, COUNTS, MAX_SHARD_BITS, MIN_SHARD_BITS, Manifest, STATE, SavedShard};
use crate::options::{DictionaryFilter, Op, Options, Policy};
use crate::shard::{SaltedFilter, Shard, ShardKey};
use crate::stats::{Counts, add};
use crate::store::{Change, Layout, Store};

/// The state that all threads share.
pub(crate) struct Engine<F: DictionaryFilter, S> {
    pub(crate) store: Arc<S>,
    claim: Arc<Claim>,
    hasher: KeyHasher,
    fpr: f64,
    shard_bits: u32,
    shards: Vec<Shard<F>>,
    /// The lookups of absent keys after which a shard's window moves on.
    window_span: u64,
    /// The state record in the store.
    manifest: Mutex<Manifest>,
    /// Whether the state record in the store says that the saved filter is out of date.
    dirty: AtomicBool,
    /// The counters before this session.
    previous: Previous,
    notices: Mutex<Vec<String>>,
    /// The memory of the filters.
    memory: Memory,
    /// The last shape that was planned, and its number of keys.
    cached_shape: Mutex<Option<(u64, F::Shape)>>,
}

/// The counters that were loaded at `open`.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    /// Recent lookups of absent keys, and the false positives among them.
    window: (u64, u64),
    counts: Counts,
}

impl<F: DictionaryFilter, S> fmt::Debug for Engine<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// The lookups of absent keys that make a window, over all shards.
const WINDOW: u64 = 1 << 16;
/// The planned keys of a shard. A shard that grows scans this many keys in a few milliseconds.
const SHARD_KEYS: u64 = 8192;
/// The number of keys in doubt after which a shard is rebuilt.
const MAX_IN_DOUBT: usize = 1024;

/// The keys of a range of the store.
#[derive(Debug, Default)]
struct Members {
    /// The hashes of the keys, within their shard.
    hashes: Vec<KeyHash>,
    /// The keys that are not where their hash belongs.
    misplaced: Vec<Vec<u8>>,
}

impl Members {
    /// Returns an error if the store returned a damaged key.
    fn check(&mut self) -> Result<(), Error> {
        match self.misplaced.pop() {
            Some(key) => Err(Error::Damaged { key, what: MISPLACED }),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the capacity of a shard with an expected number of keys: 4 standard deviations more.
fn shard_capacity(keys: f64) -> u64 {
    (keys + 4.0 * keys.sqrt() + 8.0) as u64
}

fn plan_shape<F: DictionaryFilter>(keys: u64, fpr: f64) -> Result<F::Shape, Error> {
    // A repair reads the keys of a bin from the store, and a bin of one line has half as many.
    let mut settings = Settings::default();
    if F::Shape::SETTINGS.iter().any(|setting| setting.name == "lines") {
        settings.set("lines", 1);
    }
    Ok(plan::solve(Goal::KeysFpr { keys, fpr }, &settings)?)
}

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    pub(crate) fn create(
        store: Arc<S>,
        claim: Arc<Claim>,
        options: Options,
    ) -> Result<Self, Error> {
        if store.meta(STATE)?.is_some() || !store.page(None, 1)?.is_empty() {
            return Err(Error::AlreadyExists);
        }
        plan::check_keys(options.keys)?;
        plan::check_fpr(options.fpr)?;
        let shard_bits = (options.keys / SHARD_KEYS).max(1).ilog2();
        let shard_bits = shard_bits.clamp(MIN_SHARD_BITS, MAX_SHARD_BITS);
        let manifest = Manifest {
            kind: F::KIND.id(),
            hasher: KeyHasher::random(options.hash)?,
            keys: options.keys,
            fpr: options.fpr,
            shard_bits,
            clean: false,
            generation: 0,
            shards: vec![SavedShard::default(); 1 << shard_bits],
        };
        let capacity = shard_capacity(options.keys as f64 / manifest.shards.len() as f64);
        let shape = plan_shape::<F>(capacity, options.fpr)?;
        let bytes = shape.figures().bytes;
        let memory = Memory::new(options.max_memory, 0);
        memory.reserve(bytes.saturating_mul(manifest.shards.len() as u64))?;
        let build = |_| Ok(Shard::new(Some(SaltedFilter::build(shape.clone(), &[])?), bytes));
        let shards = manifest.shards.iter().map(build).collect::<Result<Vec<_>, Error>>()?;
        store.set_meta(&[(STATE, &manifest.to_bytes())])?;
        store.publish()?;
        Ok(Self::new(store, claim, manifest, (shards, memory), Previous::default(), true))
    }

    pub(crate) fn open(
        store: Arc<S>,
        claim: Arc<Claim>,
        max_memory: Option<u64>,
    ) -> Result<Self, Error> {
        let manifest = Manifest::from_bytes(&store.meta(STATE)?.ok_or(Error::NotFound)?)?;
        if manifest.kind != F::KIND.id() {
            return Err(Error::Mismatch { what: "kind of filter" });
        }
        let counts = store.meta(COUNTS)?.map(|bytes| manifest::decode_counts(&bytes));
        let (window, counts) = counts.unwrap_or_default();
        let unloaded = manifest.shards.iter().map(|_| Shard::new(None, 0)).collect();
        let dirty = !manifest.clean;
        let saved = manifest.shards.iter().map(|shard| shard.bytes).fold(0, u64::saturating_add);
        let memory = Memory::new(max_memory, if dirty { 0 } else { saved });
        let previous = Previous { window, counts };
        let engine = Self::new(store, claim, manifest, (unloaded, memory), previous, dirty);
        if dirty {
            engine.rebuild_all()?;
        }
        Ok(engine)
    }

    fn new(
        store: Arc<S>,
        claim: Arc<Claim>,
        manifest: Manifest,
        (shards, memory): (Vec<Shard<F>>, Memory),
        previous: Previous,
        dirty: bool,
    ) -> Self {
        Self {
            store,
            claim,
            hasher: manifest.hasher,
            fpr: manifest.fpr,
            shard_bits: manifest.shard_bits,
            window_span: (WINDOW / manifest.shards.len() as u64).max(64),
            shards,
            manifest: Mutex::new(manifest),
            dirty: AtomicBool::new(dirty),
            previous,
            notices: Mutex::default(),
            memory,
            cached_shape: Mutex::default(),
        }
    }

    /// Returns an error unless the claim on the store was confirmed within its lease.
    fn check_claim(&self) -> Result<(), Error> {
        self.claim.check(&*self.store)
    }

    /// Returns the value of a stored one, whose key has the given hash.
    fn unseal(&self, key: &[u8], hash: KeyHash, stored: Vec<u8>) -> Result<Vec<u8>, Error> {
        let what = "the checksum of its key and value does not match";
        let value = manifest::unseal(&self.hasher, hash, stored);
        value.ok_or_else(|| Error::Damaged { key: key.to_vec(), what })
    }

    /// Hashes a key.
    fn shard_key(&self, key: &[u8]) -> ShardKey {
        ShardKey::new(self.hasher.bytes(key), self.shard_bits)
    }

    pub(crate) fn get(
        &self,
        key: &[u8],
        policy: Policy,
        queue: Option<&SyncSender<ShardKey>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if key.len() > self.store.max_key_len() {
            return Ok(None);
        }
        let shard_key = self.shard_key(key);
        let shard = &self.shards[shard_key.shard];
        let counters = &shard.counters;
        add(&counters.lookups);
        let Some(positive) = self.query_filter(shard_key) else {
            // After the query: the claim covers all that the query has seen.
            self.check_claim()?;
            add(&counters.negatives);
            shard.window.add(false, self.window_span);
            return Ok(None);
        };
        add(&counters.reads_lookup);
        let clustered = self.store.layout() == Layout::Clustered;
        let mut members = Members::default();
        let value = match &positive.repair {
            Some((_, range)) if clustered && policy == Policy::Inline => {
                let mut visit = |hi, key: &[u8]| self.add_member(hi, key, &mut members);
                self.store.get_or_keys(shard_key.hi, key, range.clone(), &mut visit)?
            }
            _ => self.store.get(shard_key.hi, key)?,
        };
        self.check_claim()?;
        if let Some(value) = value {
            add(&counters.true_positives);
            return self.unseal(key, shard_key.hash(), value).map(Some);
        }
        if !positive.filtered {
            add(&counters.unfiltered);
            return Ok(None);
        }
        add(&counters.false_positives);
        shard.window.add(true, self.window_span);
        match (policy, positive.repair, queue) {
            (Policy::Off, ..) => {}
            (Policy::Inline, Some((version, range)), _) => {
                if !clustered {
                    add(&counters.reads_repair);
                    members = self.read_members(range.clone())?;
                    let unchanged = || shard.state().stable_version() == Some(version);
                    if members.hashes.contains(&shard_key.local) && unchanged() {
                        let what = "the index names it, but the entry is missing";
                        return Err(Error::Damaged { key: key.to_vec(), what });
                    }
                }
                members.check()?;
                self.repair(shard_key, version, &range, &members.hashes)?;
                self.sweep(shard_key.shard)?;
            }
            (Policy::Background, _, Some(queue)) if queue.try_send(shard_key).is_ok() => {}
            _ => add(&counters.postponed),
        }
        Ok(None)
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        lock(&self.notices).clone()
    }

    fn notify(&self, notice: String) {
        lock(&self.notices).push(notice);
    }

    /// Adds a key that the store returned, with the `hi` that it is stored with.
    fn add_member(&self, hi: u64, key: &[u8], members: &mut Members) {
        let shard_key = self.shard_key(key);
        match shard_key.hi == hi {
            true => members.hashes.push(shard_key.local),
            false => members.misplaced.push(key.to_vec()),
        }
    }

    /// Returns the store's keys in a range of `hi`.
    fn read_members(&self, range: RangeInclusive<u64>) -> Result<Members, Error> {
        let mut members = Members::default();
        self.store.keys(range, &mut |hi, key| self.add_member(hi, key, &mut members))?;
        Ok(members)
    }

    pub(crate) fn write(&self, ops: &[Op<'_>]) -> Result<Vec<bool>, Error> {
        let max = self.store.max_key_len();
        if let Some(op) = ops.iter().find(|op| op.key().len() > max) {
            let (bytes, max) = (op.key().len() as u64, max as u64);
            return Err(Error::TooLong { what: "key", bytes, max });
        }
        let shard_keys: Vec<ShardKey> = ops.iter().map(|op| self.shard_key(op.key())).collect();
        let mut puts = BTreeMap::<usize, u64>::new();
        for (op, shard_key) in ops.iter().zip(&shard_keys) {
            *puts.entry(shard_key.shard).or_default() += u64::from(matches!(op, Op::Put(..)));
        }
        // In ascending order, so that two writers cannot deadlock.
        let _locks: Vec<_> = puts.keys().map(|number| self.shards[*number].write_lock()).collect();
        for (number, puts) in &puts {
            self.load(*number)?;
            self.reserve(*number, *puts)?;
        }
        puts.keys().for_each(|number| self.shards[*number].state_mut().begin_write());
        let written = self.write_reserved(ops, &shard_keys);
        puts.keys().for_each(|number| self.shards[*number].state_mut().end_write());
        written
    }

    /// Makes room for `puts` more keys in a shard. The caller holds the shard's write lock.
    fn reserve(&self, number: usize, puts: u64) -> Result<(), Error> {
        let shard = &self.shards[number];
        let (len, capacity, in_doubt) = {
            let state = shard.state();
            let Some(filter) = &state.filter else { return Ok(()) };
            (filter.len(), tamis::Shape::keys(filter.shape()), state.in_doubt.len())
        };
        let needed = len + puts;
        if in_doubt > MAX_IN_DOUBT {
            // After the barrier no failed write can still be applied, so the store's keys are all members.
            self.barrier()?;
            shard.state_mut().in_doubt.clear();
            add(&shard.counters.rebuilds);
            self.rebuild(number, capacity.max(needed))?;
            shard.state_mut().exact = true;
            Ok(())
        } else if needed > capacity {
            add(&shard.counters.growths);
            self.rebuild(number, (needed + needed / 4).max(capacity + capacity / 2))
        } else {
            Ok(())
        }
    }

    fn write_reserved(&self, ops: &[Op<'_>], shard_keys: &[ShardKey]) -> Result<Vec<bool>, Error> {
        let sealed: Vec<Option<Vec<u8>>> = ops
            .iter()
            .zip(shard_keys)
            .map(|(op, shard_key)| match op {
                Op::Put(_, value) => Some(manifest::seal(&self.hasher, shard_key.hash(), value)),
                Op::Delete(_) => None,
            })
            .collect();
        // First the filter: it must accept a key before the store holds it.
        let mut changes = Vec::with_capacity(ops.len());
        let mut changed = Vec::with_capacity(ops.len());
        for (number, (op, shard_key)) in ops.iter().zip(shard_keys).enumerate() {
            let shard = &self.shards[shard_key.shard];
            let state = &mut *shard.state_mut();
            let is_new = !state.may_contain(shard_key.local);
            let change = match &sealed[number] {
                Some(value) => Change::put(shard_key.hi, op.key(), value),
                None => Change::delete(shard_key.hi, op.key()),
            };
            let is_put = change.value.is_some();
            add(if is_put { &shard.counters.puts } else { &shard.counters.deletes });
            if is_new && !is_put {
                continue;
            }
            if is_new {
                add(&shard.counters.puts_new);
                state.insert_in_doubt(shard_key.local);
            }
            changes.push(change.with_is_new(is_new));
            changed.push((number, *shard_key));
        }
        let mut existed = vec![false; ops.len()];
        let Some((_, first)) = changed.first() else {
            return self.check_claim().map(|()| existed);
        };
        // Then the store.
        add(&self.shards[first.shard].counters.writes);
        let applied = self.check_claim().and_then(|()| self.mark_dirty());
        let reported = match applied.and_then(|()| self.store.apply(&changes)) {
            Ok(reported) => reported,
            Err(error) => {
                for ((_, shard_key), change) in changed.iter().zip(&changes) {
                    let state = &mut *self.shards[shard_key.shard].state_mut();
                    state.exact = false;
                    if change.value.is_some() {
                        state.insert_in_doubt(shard_key.local);
                    }
                }
                self.claim.observe(&error);
                return Err(error);
            }
        };
        // Then the filter again. Insertions come before removals, so that a put key that passed only as a
        // false positive is not rejected in between.
        let (mut removed, mut inserted) = (Vec::new(), Vec::new());
        for (((number, shard_key), change), present) in changed.iter().zip(&changes).zip(reported) {
            existed[*number] = present;
            let shard = &self.shards[shard_key.shard];
            let was_in_doubt = shard.state_mut().resolve(shard_key.local);
            match change.value {
                Some(_) if change.is_new && present => add(&shard.counters.missing),
                Some(_) if !was_in_doubt && !present => inserted.push(shard_key),
                None if was_in_doubt || present => removed.push(shard_key),
                _ => {}
            }
        }
        for shard_key in inserted {
            self.shards[shard_key.shard].state_mut().insert(shard_key.local);
        }
        for shard_key in removed {
            self.shards[shard_key.shard].state_mut().remove(shard_key.local);
        }
        Ok(existed)
    }

    /// Waits until no failed write can still take effect.
    fn barrier(&self) -> Result<(), Error> {
        self.store.barrier().inspect_err(|error| self.claim.observe(error))
    }

    /// Records in the store, before the first write of a session, that the saved filter is out of date.
    fn mark_dirty(&self) -> Result<(), Error> {
        if self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut manifest = lock(&self.manifest);
        let dirty = Manifest { clean: false, ..manifest.clone() };
        self.store.set_meta(&[(STATE, &dirty.to_bytes())])?;
        *manifest = dirty;
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }
}
