//! A part of the filter, cut off by the leading bits of `hi`, and its locks.
//!
//! ```text
//!  hi     │ shard │ the shard's own hi, rotated to the front, so that its keys fill its filter │
//!
//!  pen    held by a writer over filter and store: one write at a time in a shard
//!  part   held for a moment, by many who ask or by one who changes the filter
//! ```
//!
//! A repair must know all members of a range, and reads them from the store without a lock. It may be
//! made only if no write was under way in the shard from before the reading until the repair: a
//! [`Part::ticket`] says so. Keys whose write failed are *doubtful*: a server may yet have made the
//! change, so they count as members until a later write of the same key, or a new start, settles it.
//!
//! A filter made anew gets another *turn*: the halves of hashes that it tells its keys apart by are mixed
//! with a random number, so that strangers who got into the old one have no better chance in the new one.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use tamis::{Build, Filter, Hashes, Insert, KeyHash, Remove};

use crate::stats::{Counters, Window};

#[derive(Debug)]
pub(crate) struct Shard<F> {
    pen: Mutex<()>,
    part: RwLock<Part<F>>,
    pub(crate) counters: Counters,
    pub(crate) window: Window,
}

#[derive(Debug)]
pub(crate) struct Part<F> {
    /// Not there before it is loaded, nor after it could not be kept true: then nothing is denied.
    pub(crate) filter: Option<F>,
    /// What `lo` is mixed with.
    pub(crate) turn: u64,
    /// Writes begun.
    version: u64,
    /// One of them is under way.
    writing: bool,
    pub(crate) doubtful: BTreeSet<KeyHash>,
    /// Since it was saved.
    pub(crate) changed: bool,
}

/// A filter and its turn.
#[derive(Debug)]
pub(crate) struct Made<F> {
    pub(crate) filter: F,
    pub(crate) turn: u64,
}

impl<F: Build> Made<F> {
    /// A filter of these keys, under a turn of its own.
    pub(crate) fn build(shape: F::Shape, keys: &[KeyHash]) -> Result<Self, tamis::Error> {
        let turn = RandomState::new().hash_one(0u64);
        let keys = Hashes::new(keys.iter().map(|key| turned(*key, turn)));
        Ok(Self { filter: F::build(shape, keys)?, turn })
    }
}

/// One bijection of 64 bits for each turn.
fn turned(key: KeyHash, turn: u64) -> KeyHash {
    let mut lo = key.lo.wrapping_add(turn);
    lo = (lo ^ lo >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    lo = (lo ^ lo >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    KeyHash { lo: lo ^ lo >> 32, ..key }
}

/// Proof that no write was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl<F> Part<F> {
    /// The hash that the filter knows a key by.
    pub(crate) fn turned(&self, key: KeyHash) -> KeyHash {
        turned(key, self.turn)
    }

    /// Those of the members and, if they are not among them, of the doubtful.
    pub(crate) fn all_turned(&self, members: &[KeyHash]) -> Vec<KeyHash> {
        let doubtful = self.doubtful.iter().filter(|key| !members.contains(key));
        members.iter().chain(doubtful).map(|key| self.turned(*key)).collect()
    }

    /// Whether the key may be in the store.
    pub(crate) fn may_have(&self, key: KeyHash) -> bool
    where
        F: Filter,
    {
        self.filter.as_ref().is_none_or(|filter| filter.contains(self.turned(key)))
    }

    pub(crate) fn ticket(&self) -> Option<Ticket> {
        (!self.writing).then_some(Ticket(self.version))
    }

    pub(crate) fn begin(&mut self) {
        self.version += 1;
        self.writing = true;
    }

    pub(crate) fn end(&mut self) {
        self.writing = false;
        self.changed = true;
    }

    /// No write has begun: what was saved is true.
    pub(crate) fn is_untouched(&self) -> bool {
        self.version == 0
    }

    pub(crate) fn replace(&mut self, made: Made<F>) {
        (self.filter, self.turn) = (Some(made.filter), made.turn);
    }

    /// Lets a key in; if there is no room for it, all keys, until the filter is made anew.
    pub(crate) fn insert(&mut self, key: KeyHash)
    where
        F: Insert,
    {
        let key = self.turned(key);
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
        let key = self.turned(key);
        if let Some(filter) = &mut self.filter {
            filter.remove(key);
        }
    }

    /// Lets a key in that the store may have or not.
    pub(crate) fn doubt(&mut self, key: KeyHash)
    where
        F: Insert,
    {
        if self.doubtful.insert(key) {
            self.insert(key);
        }
    }

    /// Takes a key from the doubtful; whether it was one.
    pub(crate) fn settle(&mut self, key: KeyHash) -> bool {
        self.doubtful.remove(&key)
    }
}

impl<F> Shard<F> {
    /// With a filter that has not been saved, or with none yet.
    pub(crate) fn new(made: Option<Made<F>>) -> Self {
        let changed = made.is_some();
        let (filter, turn) = made.map_or((None, 0), |made| (Some(made.filter), made.turn));
        let doubtful = BTreeSet::new();
        let part = Part { filter, turn, version: 0, writing: false, doubtful, changed };
        Self {
            pen: Mutex::new(()),
            part: RwLock::new(part),
            counters: Counters::default(),
            window: Window::default(),
        }
    }

    // A panic in a store leaves `writing` set, so that what it left half done is never used for a
    // repair. There is nothing else to distrust.

    pub(crate) fn pen(&self) -> MutexGuard<'_, ()> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_pen(&self) -> Option<MutexGuard<'_, ()>> {
        match self.pen.try_lock() {
            Ok(pen) => Some(pen),
            Err(TryLockError::Poisoned(pen)) => Some(pen.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn part(&self) -> RwLockReadGuard<'_, Part<F>> {
        self.part.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn part_mut(&self) -> RwLockWriteGuard<'_, Part<F>> {
        self.part.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which shard a key belongs to, and its hash there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) shard: usize,
    /// In the whole.
    pub(crate) hi: u64,
    /// In the shard, before its turn.
    pub(crate) local: KeyHash,
}

impl Place {
    pub(crate) fn new(hash: KeyHash, cut: u32) -> Self {
        let local = KeyHash { hi: hash.hi.rotate_left(cut), ..hash };
        Self { shard: (hash.hi >> (64 - cut)) as usize, hi: hash.hi, local }
    }
}

/// A range of a shard's own `hi` in the whole.
pub(crate) fn global(shard: usize, cut: u32, local: &RangeInclusive<u64>) -> RangeInclusive<u64> {
    let base = (shard as u64) << (64 - cut);
    base | local.start() >> cut..=base | local.end() >> cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_shard_hold_its_keys() {
        for cut in [4, 10] {
            for hi in [0, 1, u64::MAX, 0x1234_5678_9abc_def0, 0xfff0_0000_0000_0001] {
                let place = Place::new(KeyHash { hi, lo: 9 }, cut);
                let around = place.local.hi & !0xffff..=place.local.hi | 0xffff;
                assert!(global(place.shard, cut, &around).contains(&hi));
                assert!(global(place.shard, cut, &(0..=u64::MAX)).contains(&hi));
                let other = (place.shard + 1) % (1 << cut);
                assert!(!global(other, cut, &(0..=u64::MAX)).contains(&hi));
            }
        }
    }
}
