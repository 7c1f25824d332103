//! Writes in the middle of a repair or a sweep: the repair must not use what it read before the write.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

use tamis_dictionary::store::{Change, Entry, MemoryStore};
use tamis_dictionary::{Error, Layout, Store};

use crate::common::{Dict, busy_options, key};

/// The reads after which new keys are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The read of a lookup, which returns the members that a repair needs.
    GetOrKeys,
    /// The read of a range, for a sweep, or in the secondary layout for a repair.
    Keys,
}

/// A store that puts new keys into its own dictionary after a read, before it returns what it has read.
struct Interleaved {
    store: MemoryStore,
    after: After,
    dict: OnceLock<Weak<Dict<Handle>>>,
    /// The number of keys that the next read puts.
    puts: AtomicU64,
    /// The number of the next new key.
    next: AtomicU64,
}

impl Interleaved {
    fn read(&self, after: After) {
        if after != self.after {
            return;
        }
        let dict = self.dict.get().and_then(Weak::upgrade);
        // A put may read a range itself, when a shard grows.
        for _ in 0..self.puts.swap(0, SeqCst) {
            let number = self.next.fetch_add(1, SeqCst);
            dict.as_ref().unwrap().put(&key(number), b"new").unwrap();
        }
    }
}

/// A handle of the store, because the dictionary owns its store.
struct Handle(Arc<Interleaved>);

impl Store for Handle {
    fn layout(&self) -> Layout {
        self.0.store.layout()
    }

    fn acquire(&self) -> Result<(), Error> {
        self.0.store.acquire()
    }

    fn release(&self) {
        self.0.store.release();
    }

    fn publish(&self) -> Result<(), Error> {
        self.0.store.publish()
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.store.get(hi, key)
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let found = self.0.store.get_or_keys(hi, key, range, visit);
        self.0.read(After::GetOrKeys);
        found
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        self.0.store.keys(range, visit)?;
        self.0.read(After::Keys);
        Ok(())
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        self.0.store.page(after, limit)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        self.0.store.apply(changes)
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.store.meta(name)
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        self.0.store.set_meta(records)
    }
}

/// Puts keys in the middle of reads, and checks that the filter accepts them.
fn check(layout: Layout, after: After) {
    const PUTS: u64 = 48;
    let store = MemoryStore::new(layout);
    let (dict, puts, next) = (OnceLock::new(), AtomicU64::new(0), AtomicU64::new(1_000_000));
    let interleaved = Arc::new(Interleaved { store, after, dict, puts, next });
    let dict = Arc::new(Dict::create(Handle(Arc::clone(&interleaved)), busy_options(200)).unwrap());
    interleaved.dict.set(Arc::downgrade(&dict)).unwrap();
    (0..200).for_each(|number| assert!(!dict.put(&key(number), b"old").unwrap()));
    let mut rounds = 0;
    for absent in 1000..40_000 {
        let first = interleaved.next.load(SeqCst);
        interleaved.puts.store(PUTS, SeqCst);
        assert_eq!(dict.get(&key(absent)).unwrap(), None);
        interleaved.puts.store(0, SeqCst);
        let last = interleaved.next.load(SeqCst);
        for number in first..last {
            assert!(dict.contains(&key(number)).unwrap(), "{layout:?}, {after:?}: a new key");
            assert!(dict.delete(&key(number)).unwrap());
        }
        rounds += u64::from(last > first);
    }
    let counts = dict.stats().counts;
    println!("{layout:?}, {after:?}: {rounds} rounds, {counts:?}");
    assert!(rounds > 50, "{rounds} rounds");
    match (layout, after) {
        (Layout::Clustered, After::Keys) => assert!(counts.sweeps > 0),
        _ => assert!(counts.postponed > 50),
    }
    assert!((0..200).all(|number| dict.contains(&key(number)).unwrap()));
    assert_eq!((dict.verify().unwrap().missing, counts.missing), (0, 0));
}

#[test]
fn a_repair_is_dropped_if_a_write_intervened() {
    check(Layout::Clustered, After::GetOrKeys);
    check(Layout::Secondary, After::Keys);
}

#[test]
fn a_sweep_is_dropped_if_a_write_intervened() {
    check(Layout::Clustered, After::Keys);
}
