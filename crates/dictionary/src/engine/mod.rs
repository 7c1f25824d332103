//! The operations: shards of a filter in front of a store.
//!
//! This file has creation, lookups and writes; `repair.rs` the repairs, `persist.rs` loading, rebuilding and
//! saving, `audit.rs` verification and statistics, `entries.rs` iteration.

mod audit;
mod entries;
mod persist;
mod repair;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tamis::{Goal, KeyHash, KeyHasher, Settings, plan};

pub use self::entries::Entries;
use crate::error::Error;
use crate::manifest::{self, COUNTS, MAX_SHARD_BITS, MIN_SHARD_BITS, Manifest, STATE, SavedShard};
use crate::options::{DictionaryFilter, Op, Options, Policy};
use crate::shard::{SaltedFilter, Shard, ShardKey};
use crate::stats::{Counts, add};
use crate::store::{Change, Layout, Store};

/// The state that all threads share.
pub(crate) struct Engine<F: DictionaryFilter, S> {
    pub(crate) store: S,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the capacity of a shard with an expected number of keys: 4 standard deviations more.
fn shard_capacity(keys: f64) -> u64 {
    (keys + 4.0 * keys.sqrt() + 8.0) as u64
}

fn plan_shape<F: DictionaryFilter>(keys: u64, fpr: f64) -> Result<F::Shape, Error> {
    Ok(plan::solve(Goal::KeysFpr { keys, fpr }, &Settings::default())?)
}

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    pub(crate) fn create(store: S, options: Options) -> Result<Self, (S, Error)> {
        let prepare = || {
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
            let build = |_| Ok(Some(SaltedFilter::build(shape.clone(), &[])?));
            let filters = manifest.shards.iter().map(build).collect::<Result<Vec<_>, Error>>()?;
            store.set_meta(&[(STATE, &manifest.to_bytes())])?;
            Ok((manifest, filters))
        };
        match prepare() {
            Ok((manifest, filters)) => {
                Ok(Self::new(store, manifest, filters, Previous::default(), true))
            }
            Err(error) => Err((store, error)),
        }
    }

    pub(crate) fn open(store: S) -> Result<Self, (S, Error)> {
        let prepare = || {
            let manifest = Manifest::from_bytes(&store.meta(STATE)?.ok_or(Error::NotFound)?)?;
            if manifest.kind != F::KIND.id() {
                return Err(Error::Mismatch { what: "kind of filter" });
            }
            let (window, counts) = store
                .meta(COUNTS)?
                .map(|bytes| manifest::decode_counts(&bytes))
                .unwrap_or_default();
            Ok((manifest, Previous { window, counts }))
        };
        let engine = match prepare() {
            Ok((manifest, previous)) => {
                let unloaded = manifest.shards.iter().map(|_| None).collect();
                let dirty = !manifest.clean;
                Self::new(store, manifest, unloaded, previous, dirty)
            }
            Err(error) => return Err((store, error)),
        };
        if engine.dirty.load(Ordering::Relaxed)
            && let Err(error) = engine.rebuild_all()
        {
            return Err((engine.store, error));
        }
        Ok(engine)
    }

    fn new(
        store: S,
        manifest: Manifest,
        filters: Vec<Option<SaltedFilter<F>>>,
        previous: Previous,
        dirty: bool,
    ) -> Self {
        Self {
            store,
            hasher: manifest.hasher,
            fpr: manifest.fpr,
            shard_bits: manifest.shard_bits,
            window_span: (WINDOW / manifest.shards.len() as u64).max(64),
            shards: filters.into_iter().map(Shard::new).collect(),
            manifest: Mutex::new(manifest),
            dirty: AtomicBool::new(dirty),
            previous,
            notices: Mutex::default(),
            cached_shape: Mutex::default(),
        }
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
            add(&counters.negatives);
            shard.window.add(false, self.window_span);
            return Ok(None);
        };
        add(&counters.reads_lookup);
        let clustered = self.store.layout() == Layout::Clustered;
        let mut members = Vec::new();
        let value = match &positive.repair {
            Some((_, range)) if clustered && policy == Policy::Inline => {
                let mut visit = |key: &[u8]| members.push(self.shard_key(key).local);
                self.store.get_or_keys(shard_key.hi, key, range.clone(), &mut visit)?
            }
            _ => self.store.get(shard_key.hi, key)?,
        };
        if value.is_some() {
            add(&counters.true_positives);
            return Ok(value);
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
                    self.read_members(range.clone(), &mut members)?;
                }
                self.repair(shard_key, version, &range, &members);
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

    /// Appends the hashes of the store's keys in a range of `hi`.
    fn read_members(
        &self,
        range: RangeInclusive<u64>,
        members: &mut Vec<KeyHash>,
    ) -> Result<(), Error> {
        self.store.keys(range, &mut |key| members.push(self.shard_key(key).local))
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
            self.store.barrier()?;
            shard.state_mut().in_doubt.clear();
            add(&shard.counters.rebuilds);
            self.rebuild(number, capacity.max(needed))
        } else if needed > capacity {
            add(&shard.counters.growths);
            self.rebuild(number, (needed + needed / 4).max(capacity + capacity / 2))
        } else {
            Ok(())
        }
    }

    fn write_reserved(&self, ops: &[Op<'_>], shard_keys: &[ShardKey]) -> Result<Vec<bool>, Error> {
        // First the filter: it must accept a key before the store holds it.
        let mut changes = Vec::with_capacity(ops.len());
        let mut changed = Vec::with_capacity(ops.len());
        for (number, (op, shard_key)) in ops.iter().zip(shard_keys).enumerate() {
            let shard = &self.shards[shard_key.shard];
            let state = &mut *shard.state_mut();
            let is_new = !state.may_contain(shard_key.local);
            let change = match *op {
                Op::Put(key, value) => Change::put(shard_key.hi, key, value),
                Op::Delete(key) => Change::delete(shard_key.hi, key),
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
        let Some((_, first)) = changed.first() else { return Ok(existed) };
        // Then the store.
        add(&self.shards[first.shard].counters.writes);
        let reported = match self.mark_dirty().and_then(|()| self.store.apply(&changes)) {
            Ok(reported) => reported,
            Err(error) => {
                let puts =
                    changed.iter().zip(&changes).filter(|(_, change)| change.value.is_some());
                for ((_, shard_key), _) in puts {
                    self.shards[shard_key.shard].state_mut().insert_in_doubt(shard_key.local);
                }
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
