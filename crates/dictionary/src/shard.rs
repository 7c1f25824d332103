//! One part of the filter, selected by the leading bits of `hi`, and its locks.
//!
//! ```text
//!  hi           │ shard │ the shard's own hi, rotated to the front, so that keys spread over its filter │
//!
//!  write_lock   held by a writer over filter and store: one write at a time in a shard
//!  state        read-locked briefly by lookups, write-locked briefly by changes of the filter
//! ```
//!
//! Lock order: write locks in ascending shard number, then the engine's manifest, then one `state`. No
//! `state` is locked during an access to the store.
//!
//! Readers do not take the write lock. A repair must know all members of a range of hashes. It reads them
//! from the store without a lock, and is applied only if no write to the shard was in progress between the
//! start of the read and the repair: the reader takes [`ShardState::stable_version`] before the read, and the
//! repair is dropped if the version has changed.
//!
//! Keys whose write failed are *in doubt*: a server may still apply the change, so they count as members
//! until a later write of the same key, a [barrier](crate::store::Store::barrier) or the next `open` resolves
//! them.
//!
//! Each rebuilt filter gets a new random *salt*. The half of the hash that distinguishes keys within a range
//! (`lo`) is mixed with the salt, so a false positive of the old filter is no more likely than any other
//! non-member to be one of the new filter.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use tamis::{Build, Filter, Hashes, Insert, KeyHash, Remove};

use crate::random::random_u64;
use crate::stats::{Counters, Window};

#[derive(Debug)]
pub(crate) struct Shard<F> {
    write_lock: Mutex<()>,
    state: RwLock<ShardState<F>>,
    pub(crate) counters: Counters,
    pub(crate) window: Window,
}

#[derive(Debug)]
pub(crate) struct ShardState<F> {
    /// `None` until it is loaded, and after an insertion failed. Then every key passes.
    pub(crate) filter: Option<F>,
    /// The memory that is reserved for the filter.
    bytes: u64,
    /// Mixed into the `lo` half of every hash.
    pub(crate) salt: u64,
    /// The number of writes begun.
    version: u64,
    /// Whether a write is in progress.
    writing: bool,
    pub(crate) in_doubt: BTreeSet<KeyHash>,
    /// Whether the filter holds exactly the keys of the store. After a failed write it may hold more, until a
    /// [barrier](crate::store::Store::barrier) and a rebuild.
    pub(crate) exact: bool,
    /// Whether the filter has changed since it was saved.
    pub(crate) changed: bool,
}

/// A filter and its salt.
#[derive(Debug)]
pub(crate) struct SaltedFilter<F> {
    pub(crate) filter: F,
    pub(crate) salt: u64,
}

impl<F: Build> SaltedFilter<F> {
    /// Builds a filter of `keys` with a new random salt.
    pub(crate) fn build(shape: F::Shape, keys: &[KeyHash]) -> Result<Self, tamis::Error> {
        let salt = random_u64()?;
        let keys = Hashes::new(keys.iter().map(|key| salted(*key, salt)));
        Ok(Self { filter: F::build(shape, keys)?, salt })
    }
}

/// Mixes the salt into `lo`, by a bijection for each salt.
fn salted(key: KeyHash, salt: u64) -> KeyHash {
    let mut lo = key.lo.wrapping_add(salt);
    lo = (lo ^ lo >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    lo = (lo ^ lo >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    KeyHash { lo: lo ^ lo >> 32, ..key }
}

/// A version of a shard at a moment when no write was in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl<F> ShardState<F> {
    /// Returns the hash by which the filter knows a key.
    pub(crate) fn salted(&self, key: KeyHash) -> KeyHash {
        salted(key, self.salt)
    }

    /// Returns the salted hashes of the members and of the keys in doubt, each once.
    pub(crate) fn salted_members(&self, members: &[KeyHash]) -> Vec<KeyHash> {
        let in_doubt = self.in_doubt.iter().filter(|key| !members.contains(key));
        members.iter().chain(in_doubt).map(|key| self.salted(*key)).collect()
    }

    /// Returns the number of keys in the filter.
    pub(crate) fn len(&self) -> u64
    where
        F: Filter,
    {
        self.filter.as_ref().map_or(0, Filter::len)
    }

    /// Returns whether the store may hold the key.
    pub(crate) fn may_contain(&self, key: KeyHash) -> bool
    where
        F: Filter,
    {
        self.filter.as_ref().is_none_or(|filter| filter.contains(self.salted(key)))
    }

    /// Returns the version, or `None` while a write is in progress.
    pub(crate) fn stable_version(&self) -> Option<Version> {
        (!self.writing).then_some(Version(self.version))
    }

    pub(crate) fn begin_write(&mut self) {
        self.version += 1;
        self.writing = true;
    }

    pub(crate) fn end_write(&mut self) {
        self.writing = false;
        self.changed = true;
    }

    /// Returns whether no write has begun since the dictionary was opened, so that the saved filter is
    /// still valid.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.version == 0
    }

    /// Replaces the filter by one of `bytes` bytes. Returns the bytes of the old one.
    pub(crate) fn replace(&mut self, built: SaltedFilter<F>, bytes: u64) -> u64 {
        (self.filter, self.salt) = (Some(built.filter), built.salt);
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// Drops the filter. Returns its bytes.
    pub(crate) fn unload(&mut self) -> u64 {
        self.filter = None;
        std::mem::take(&mut self.bytes)
    }

    /// Inserts a key. If the filter is full, drops the filter, so that every key passes until the rebuild.
    pub(crate) fn insert(&mut self, key: KeyHash)
    where
        F: Insert,
    {
        let key = self.salted(key);
        if let Some(filter) = &mut self.filter
            && filter.insert(key).is_err()
        {
            self.filter = None;
        }
    }

    pub(crate) fn remove(&mut self, key: KeyHash)
    where
        F: Remove,
    {
        let key = self.salted(key);
        if let Some(filter) = &mut self.filter {
            filter.remove(key);
        }
    }

    /// Inserts a key that the store may or may not hold.
    pub(crate) fn insert_in_doubt(&mut self, key: KeyHash)
    where
        F: Insert,
    {
        if self.in_doubt.insert(key) {
            self.insert(key);
        }
    }

    /// Marks a key as no longer in doubt. Returns whether it was in doubt.
    pub(crate) fn resolve(&mut self, key: KeyHash) -> bool {
        self.in_doubt.remove(&key)
    }
}

impl<F> Shard<F> {
    /// Creates a shard with an unsaved filter of `bytes` bytes, or with none yet.
    pub(crate) fn new(built: Option<SaltedFilter<F>>, bytes: u64) -> Self {
        let changed = built.is_some();
        let (filter, salt) = built.map_or((None, 0), |built| (Some(built.filter), built.salt));
        let in_doubt = BTreeSet::new();
        let (version, writing, exact) = (0, false, true);
        let state = ShardState { filter, bytes, salt, version, writing, in_doubt, exact, changed };
        Self {
            write_lock: Mutex::new(()),
            state: RwLock::new(state),
            counters: Counters::default(),
            window: Window::default(),
        }
    }

    // A poisoned lock is safe to use. If a store panics, `writing` stays set, so no repair uses what the
    // panic left half done; nothing else depends on the interrupted write.

    pub(crate) fn write_lock(&self) -> MutexGuard<'_, ()> {
        self.write_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_write_lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self.write_lock.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, ShardState<F>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, ShardState<F>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash of a key, split into a shard and the hash within the shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardKey {
    pub(crate) shard: usize,
    /// The `hi` half of the unsplit hash.
    pub(crate) hi: u64,
    /// The hash within the shard, unsalted.
    pub(crate) local: KeyHash,
}

impl ShardKey {
    pub(crate) fn new(hash: KeyHash, shard_bits: u32) -> Self {
        let local = KeyHash { hi: hash.hi.rotate_left(shard_bits), ..hash };
        Self { shard: shard_of(hash.hi, shard_bits), hi: hash.hi, local }
    }

    /// Returns the unsplit hash.
    pub(crate) fn hash(self) -> KeyHash {
        KeyHash { hi: self.hi, lo: self.local.lo }
    }
}

/// Returns the shard of an unsplit `hi`.
pub(crate) fn shard_of(hi: u64, shard_bits: u32) -> usize {
    (hi >> (64 - shard_bits)) as usize
}

/// Converts a range of a shard's own `hi` to the smallest range of unsplit `hi` that contains it.
pub(crate) fn global_range(
    shard: usize,
    shard_bits: u32,
    local: &RangeInclusive<u64>,
) -> RangeInclusive<u64> {
    let base = (shard as u64) << (64 - shard_bits);
    base | local.start() >> shard_bits..=base | local.end() >> shard_bits
}

#[cfg(test)]
mod tests {
    use tamis::{Adapt, Broom, BroomShape, HashId, Key, KeyHasher, Shape};

    use super::*;

    const BITS: u32 = 4;

    #[test]
    fn a_version_is_stable_only_between_writes() {
        let shard = Shard::<Broom>::new(None, 0);
        let state = &mut *shard.state_mut();
        let before = state.stable_version();
        assert!(before.is_some());
        state.begin_write();
        assert_eq!(state.stable_version(), None);
        state.end_write();
        assert!(state.stable_version().is_some() && state.stable_version() != before);
    }

    /// Returns the keys of shard 3 from `from` on.
    fn keys_of_a_shard(hasher: &KeyHasher, from: u64) -> impl Iterator<Item = ShardKey> {
        let keys = (from..).map(move |key| ShardKey::new(key.hash_with(hasher), BITS));
        keys.filter(|key| key.shard == 3)
    }

    /// Queries a non-member and repairs the filter as the engine does. Returns whether it passed.
    fn query(state: &mut ShardState<Broom>, members: &[ShardKey], stranger: ShardKey) -> bool {
        if !state.may_contain(stranger.local) {
            return false;
        }
        let read = |range: RangeInclusive<u64>| {
            let range = global_range(3, BITS, &range);
            let start = members.partition_point(|key| key.hi < *range.start());
            let end = members.partition_point(|key| key.hi <= *range.end());
            members[start..end].iter().map(|key| key.local).collect::<Vec<_>>()
        };
        let key = state.salted(stranger.local);
        let suspects = state.filter.as_ref().unwrap().suspects(key);
        let suspects = state.salted_members(&read(suspects));
        state.filter.as_mut().unwrap().adapt(key, &suspects);
        while let Some(range) = state.filter.as_ref().unwrap().due() {
            let due = state.salted_members(&read(range));
            state.filter.as_mut().unwrap().renew(&due);
        }
        true
    }

    /// The filter of a shard is a `broom` under a salt, with the bits of `hi` that select the shard moved
    /// to the end. Scores kept over 600 sweeps do not help an adversary.
    #[test]
    fn scores_over_many_sweeps_find_no_weak_spot() {
        const KEYS: usize = 2000;
        let hasher = KeyHasher::new(HashId::Secure, [70, 71]);
        let mut members: Vec<ShardKey> = keys_of_a_shard(&hasher, 0).take(KEYS).collect();
        members.sort_unstable_by_key(|key| key.hi);
        let strangers: Vec<ShardKey> = keys_of_a_shard(&hasher, 1 << 40).take(8 * KEYS).collect();
        let mut fresh = keys_of_a_shard(&hasher, 1 << 41);
        let shape = BroomShape::fit(KEYS as u64, 1.0 / 32.0).unwrap();
        let stated = shape.figures().fpr;
        let locals: Vec<KeyHash> = members.iter().map(|key| key.local).collect();
        let shard = Shard::new(Some(SaltedFilter::<Broom>::build(shape, &locals).unwrap()), 0);
        let state = &mut *shard.state_mut();
        let attack = |counts: &mut [u64]| {
            let sweeps = state.filter.as_ref().unwrap().sweeps();
            for (stranger, count) in strangers.iter().zip(counts) {
                *count += u64::from(query(state, &members, *stranger));
            }
            while state.filter.as_ref().unwrap().sweeps() == sweeps {
                query(state, &members, fresh.next().unwrap());
            }
        };
        tamis_conformance::adapt::attack_by_scores(
            "a shard",
            stated,
            strangers.len() as u64,
            300,
            attack,
        );
        assert!(locals.iter().all(|key| state.may_contain(*key)));
    }

    #[test]
    fn the_global_range_of_a_shard_contains_its_keys() {
        for shard_bits in [4, 10] {
            for hi in [0, 1, u64::MAX, 0x1234_5678_9abc_def0, 0xfff0_0000_0000_0001] {
                let key = ShardKey::new(KeyHash { hi, lo: 9 }, shard_bits);
                let around = key.local.hi & !0xffff..=key.local.hi | 0xffff;
                assert!(global_range(key.shard, shard_bits, &around).contains(&hi));
                assert!(global_range(key.shard, shard_bits, &(0..=u64::MAX)).contains(&hi));
                let other = (key.shard + 1) % (1 << shard_bits);
                assert!(!global_range(other, shard_bits, &(0..=u64::MAX)).contains(&hi));
            }
        }
    }
}
