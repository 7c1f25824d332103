//! A store in memory: hash tables that keep the order of the hashes.
//!
//! ```text
//!  hi        │ part │ bucket │ … │        the first 6 bits select a part, the next ones a bucket of its table
//!
//!  part      a lock · buckets of about 4 entries, twice as many whenever the part is full
//! ```
//!
//! `hi` is a keyed hash, so its leading bits spread the keys evenly: a lookup reads one bucket. Buckets are in the
//! order of `hi`, so the keys of a range, which a repair of the filter needs, are in consecutive buckets. Both
//! layouts use the same table and iterate in the order of hashes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Change, Entry, Layout, Store};
use crate::error::Error;

const PART_BITS: u32 = 6;
/// The mean number of entries per bucket at which a part doubles its buckets.
const MAX_LOAD: usize = 4;

/// A store in memory. Clones share their contents.
///
/// # Examples
///
/// ```
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store::MemoryStore};
///
/// let store = MemoryStore::new(Layout::Secondary);
/// let dictionary = Dictionary::<Broom, _>::create(store, Options::default())?;
/// dictionary.put(b"key", b"value")?;
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    layout: Layout,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    parts: Vec<RwLock<Part>>,
    meta: Mutex<BTreeMap<String, Vec<u8>>>,
    acquired: AtomicBool,
    published: AtomicBool,
}

/// The entries whose `hi` begins with the same [`PART_BITS`] bits.
#[derive(Debug)]
struct Part {
    /// The number of further bits of `hi` that select a bucket.
    bits: u32,
    buckets: Vec<Vec<Slot>>,
    len: usize,
}

#[derive(Debug)]
struct Slot {
    hi: u64,
    key: Box<[u8]>,
    value: Box<[u8]>,
}

impl Slot {
    fn entry(&self) -> Entry {
        Entry::new(Some(self.hi), self.key.to_vec(), self.value.to_vec())
    }
}

impl Default for Part {
    fn default() -> Self {
        Self { bits: 0, buckets: vec![Vec::new()], len: 0 }
    }
}

impl Part {
    fn bucket(&self, hi: u64) -> usize {
        // Two shifts, because a shift by 64 overflows.
        (hi << PART_BITS >> 1 >> (63 - self.bits)) as usize
    }

    fn get(&self, hi: u64, key: &[u8]) -> Option<&Slot> {
        self.buckets[self.bucket(hi)].iter().find(|slot| slot.hi == hi && *slot.key == *key)
    }

    /// Returns the slots in a range of `hi`, sorted by `hi` and key.
    fn range(&self, range: &RangeInclusive<u64>) -> impl Iterator<Item = &Slot> {
        let buckets = &self.buckets[self.bucket(*range.start())..=self.bucket(*range.end())];
        buckets.iter().flat_map(move |bucket| {
            let mut found: Vec<_> = bucket.iter().filter(|slot| range.contains(&slot.hi)).collect();
            found.sort_unstable_by_key(|slot| (slot.hi, &slot.key));
            found
        })
    }

    /// Applies a change. Returns whether the key was present.
    fn apply(&mut self, change: &Change<'_>) -> bool {
        let number = self.bucket(change.hi);
        let bucket = &mut self.buckets[number];
        let same = |slot: &Slot| slot.hi == change.hi && *slot.key == *change.key;
        match (bucket.iter().position(same), change.value) {
            (Some(at), Some(value)) => bucket[at].value = value.into(),
            (Some(at), None) => {
                bucket.swap_remove(at);
                self.len -= 1;
                return true;
            }
            (None, Some(value)) => {
                bucket.push(Slot { hi: change.hi, key: change.key.into(), value: value.into() });
                self.len += 1;
                if self.len > MAX_LOAD * self.buckets.len() {
                    self.grow();
                }
                return false;
            }
            (None, None) => return false,
        }
        true
    }

    fn grow(&mut self) {
        // Fewer bits than `hi` has after those of the part; beyond that, buckets only get longer.
        if self.bits >= 63 - PART_BITS {
            return;
        }
        self.bits += 1;
        let buckets = (0..1usize << self.bits).map(|_| Vec::new()).collect();
        let old = std::mem::replace(&mut self.buckets, buckets);
        for slot in old.into_iter().flatten() {
            let number = self.bucket(slot.hi);
            self.buckets[number].push(slot);
        }
    }
}

/// Returns the number of the part of a hash.
fn part_of(hi: u64) -> usize {
    (hi >> (64 - PART_BITS)) as usize
}

/// Returns the range of `hi` of a part.
fn part_range(number: usize) -> RangeInclusive<u64> {
    let start = (number as u64) << (64 - PART_BITS);
    start..=start | u64::MAX >> PART_BITS
}

/// Returns the part of `range` that lies in a part of the store.
fn within(number: usize, range: &RangeInclusive<u64>) -> RangeInclusive<u64> {
    let part = part_range(number);
    *part.start().max(range.start())..=*part.end().min(range.end())
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(layout: Layout) -> Self {
        let parts = (0..1 << PART_BITS).map(|_| RwLock::default()).collect();
        let (meta, acquired, published) = Default::default();
        let inner = Inner { parts, meta, acquired, published };
        Self { layout, inner: Arc::new(inner) }
    }

    fn read(&self, number: usize) -> RwLockReadGuard<'_, Part> {
        self.inner.parts[number].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, number: usize) -> RwLockWriteGuard<'_, Part> {
        self.inner.parts[number].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn metadata(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.inner.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn acquire(&self) -> Result<(), Error> {
        match self.inner.acquired.swap(true, Ordering::AcqRel) {
            true => Err(Error::InUse),
            false => Ok(()),
        }
    }

    fn release(&self) {
        if !self.inner.published.load(Ordering::Acquire) {
            self.metadata().clear();
        }
        self.inner.acquired.store(false, Ordering::Release);
    }

    fn publish(&self) -> Result<(), Error> {
        self.inner.published.store(true, Ordering::Release);
        Ok(())
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.read(part_of(hi)).get(hi, key).map(|slot| slot.value.to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        // All parts are locked before the lookup, in ascending order, so that lookup and keys are of one moment.
        let (own, first, last) = (part_of(hi), part_of(*range.start()), part_of(*range.end()));
        let parts: BTreeMap<_, _> = (first..=last)
            .chain([own])
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .map(|number| (number, self.read(number)))
            .collect();
        let value = parts[&own].get(hi, key).map(|slot| slot.value.to_vec());
        if value.is_none() {
            for number in first..=last {
                let slots = within(number, &range);
                parts[&number].range(&slots).for_each(|slot| visit(slot.hi, &slot.key));
            }
        }
        Ok(value)
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        for number in part_of(*range.start())..=part_of(*range.end()) {
            let slots = within(number, &range);
            self.read(number).range(&slots).for_each(|slot| visit(slot.hi, &slot.key));
        }
        Ok(())
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let from = after.map_or(0, |(hi, _)| hi);
        let mut page = Vec::new();
        for number in part_of(from)..self.inner.parts.len() {
            let part = self.read(number);
            let slots = within(number, &(from..=u64::MAX));
            let later = part
                .range(&slots)
                .filter(|slot| after.is_none_or(|after| (slot.hi, &*slot.key) > after));
            page.extend(later.take(limit - page.len()).map(Slot::entry));
            if page.len() == limit {
                break;
            }
        }
        Ok(page)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        // In ascending order, so that two writers cannot deadlock.
        let mut parts: BTreeMap<usize, Option<RwLockWriteGuard<'_, Part>>> =
            changes.iter().map(|change| (part_of(change.hi), None)).collect();
        parts.iter_mut().for_each(|(number, part)| *part = Some(self.write(*number)));
        let each = changes.iter().map(|change| {
            let part = parts.get_mut(&part_of(change.hi)).and_then(Option::as_mut);
            part.is_some_and(|part| part.apply(change))
        });
        Ok(each.collect())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.metadata().get(name).cloned())
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut meta = self.metadata();
        for (name, record) in records {
            meta.insert((*name).to_owned(), record.to_vec());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread hashes, as those of keys are.
    fn hi(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn buckets_stay_short_and_ranges_are_sorted() {
        let store = MemoryStore::new(Layout::Clustered);
        for number in 0..20_000 {
            let key = number.to_string();
            let change = Change::put(hi(number), key.as_bytes(), b"value");
            assert_eq!(store.apply(&[change]).unwrap(), [false]);
        }
        for number in 0..1 << PART_BITS {
            let part = store.read(number);
            let longest = part.buckets.iter().map(Vec::len).max().unwrap();
            assert!(longest <= 5 * MAX_LOAD, "a bucket of {longest} entries");
        }
        let mut expected: Vec<_> = (0..20_000).map(hi).collect();
        expected.sort_unstable();
        for range in [0..=u64::MAX, 1 << 57..=3 << 62, hi(7)..=hi(7), 5..=5] {
            let mut found = Vec::new();
            store.keys(range.clone(), &mut |hi, _| found.push(hi)).unwrap();
            let expected = expected.iter().filter(|hi| range.contains(hi));
            assert!(expected.eq(&found), "{range:x?}");
        }
    }

    #[test]
    fn a_read_does_not_wait_for_other_reads() {
        let store = MemoryStore::new(Layout::Clustered);
        let _reading = store.read(part_of(hi(1)));
        let other = store.clone();
        let answer = std::thread::spawn(move || other.get(hi(1), b"1").unwrap());
        assert_eq!(answer.join().unwrap(), None);
    }
}
