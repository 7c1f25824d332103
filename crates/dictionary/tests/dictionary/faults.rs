//! A store that is unreachable, slow or fails during a write: the error is returned, and the filter accepts all
//! keys of the store.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tamis_conformance::Effort;
use tamis_dictionary::store::MemoryStore;
use tamis_dictionary::{Error, Op, Options, Store};

use crate::common::{Dict, LAYOUTS, Watch, Watched, busy_options, key};

struct Fixture {
    store: MemoryStore,
    watch: Arc<Watch>,
    dict: Dict<Watched<MemoryStore>>,
}

impl Fixture {
    fn new(layout: tamis_dictionary::Layout, options: Options) -> Self {
        let (store, watch) = (MemoryStore::new(layout), Arc::new(Watch::default()));
        let dict = Dict::create(Watched(store.clone(), Arc::clone(&watch)), options).unwrap();
        Self { store, watch, dict }
    }

    fn fail_after(&self, calls: u64) {
        self.watch.fuse.0.store(calls, SeqCst);
    }

    fn heal(&self) {
        self.watch.fuse.0.store(u64::MAX, SeqCst);
        self.watch.write_fault.store(0, SeqCst);
    }

    /// Checks that all keys of the store are found, after lookups of absent keys.
    fn check(&self, absent: std::ops::Range<u64>) {
        absent.for_each(|number| assert!(!self.dict.contains(&key(number)).unwrap()));
        let entries = self.store.page(None, usize::MAX).unwrap();
        assert!(entries.iter().all(|entry| self.dict.contains(&entry.key).unwrap()));
        assert_eq!(self.dict.verify().unwrap().missing, 0);
        assert_eq!(self.dict.stats().counts.missing, 0);
    }
}

fn is_store_error<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Store { store: "test", .. })), "{result:?}");
}

#[test]
fn an_unreachable_store_is_an_error_except_for_negatives() {
    for layout in LAYOUTS {
        let fixture = Fixture::new(layout, Options::default().with_keys(1000));
        fixture.dict.put(b"a", b"1").unwrap();
        fixture.fail_after(0);
        is_store_error(fixture.dict.get(b"a"));
        is_store_error(fixture.dict.put(b"a", b"2"));
        is_store_error(fixture.dict.put(b"b", b"2"));
        is_store_error(fixture.dict.delete(b"a"));
        is_store_error(fixture.dict.verify());
        is_store_error(fixture.dict.iter().collect::<Result<Vec<_>, _>>());
        // The filter rejects this key; the probability of a false positive is 1/256.
        assert_eq!(fixture.dict.get(b"never put").unwrap(), None);
        assert_eq!(fixture.dict.stats().in_doubt, 2);
        fixture.heal();
        fixture.check(0..2000);
        assert_eq!(fixture.dict.get(b"a").unwrap(), Some(b"1".to_vec()));
        assert_eq!(fixture.dict.get(b"b").unwrap(), None);
        assert!(!fixture.dict.put(b"b", b"3").unwrap());
        assert!(fixture.dict.delete(b"a").unwrap());
        assert_eq!(fixture.dict.stats().in_doubt, 0);
        fixture.check(2000..4000);
    }
}

#[test]
fn the_filter_accepts_keys_of_a_commit_reported_as_failed() {
    for layout in LAYOUTS {
        let fixture = Fixture::new(layout, busy_options(100));
        (0..100).for_each(|number| assert!(!fixture.dict.put(&key(number), b"x").unwrap()));
        for number in 100..120 {
            fixture.watch.write_fault.store(1 + number % 2, SeqCst);
            is_store_error(fixture.dict.put(&key(number), b"y"));
        }
        fixture.check(1000..5000);
        // A delete that was applied but reported as failed leaves a stale key in the filter.
        fixture.watch.write_fault.store(1, SeqCst);
        is_store_error(fixture.dict.delete(&key(7)));
        assert!(!fixture.dict.contains(&key(7)).unwrap());
        fixture.check(5000..9000);
        for number in 100..120 {
            assert_eq!(fixture.dict.delete(&key(number)).unwrap(), number % 2 == 0);
        }
        assert_eq!(fixture.dict.stats().in_doubt, 0);
        fixture.check(1000..5000);
    }
}

#[test]
fn failing_batches_leave_the_filter_correct() {
    let effort = Effort::now();
    for layout in LAYOUTS {
        let mut random = effort.random(7);
        let fixture = Fixture::new(layout, busy_options(50));
        for _ in 0..effort.times(400) {
            match random.below(4) {
                0 => fixture.heal(),
                1 => fixture.fail_after(random.below(6) as u64),
                other => fixture.watch.write_fault.store(other as u64 - 1, SeqCst),
            }
            for _ in 0..10 {
                let batch: Vec<_> =
                    (0..random.below(20)).map(|_| key(random.below(300) as u64)).collect();
                let puts = random.below(3) > 0;
                let op = |key| if puts { Op::Put(key, b"value") } else { Op::Delete(key) };
                let ops: Vec<_> = batch.iter().map(|key| op(key)).collect();
                let _ = fixture.dict.write(&ops);
                let _ = fixture.dict.get(&key(random.below(600) as u64));
                let _ = fixture.dict.get(&key(1000 + random.below(3000) as u64));
            }
            fixture.heal();
            let from = 1000 + random.below(3000) as u64;
            fixture.check(from..from + 100);
        }
        let stats = fixture.dict.stats();
        println!("{stats:?}");
        assert!(stats.counts.growths > 0 && stats.counts.repairs > 0);
    }
}

#[test]
fn the_number_of_keys_in_doubt_is_bounded() {
    let fixture = Fixture::new(LAYOUTS[0], Options::default().with_keys(100_000));
    fixture.dict.put(b"a", b"1").unwrap();
    fixture.fail_after(0);
    for number in 0..40_000 {
        is_store_error(fixture.dict.put(&key(number), b"x"));
    }
    let in_doubt = fixture.dict.stats().in_doubt;
    assert!((10_000..=16 * 1026).contains(&in_doubt), "{in_doubt}");
    fixture.heal();
    (0..1000).for_each(|number| assert!(!fixture.dict.put(&key(number), b"x").unwrap()));
    assert!(fixture.dict.stats().in_doubt < in_doubt / 10);
    fixture.check(1_000_000..1_010_000);
}

#[test]
fn a_filter_that_could_not_be_saved_is_rebuilt() {
    let fixture = Fixture::new(LAYOUTS[0], Options::default().with_keys(1000));
    (0..500).for_each(|number| assert!(!fixture.dict.put(&key(number), b"x").unwrap()));
    fixture.fail_after(0);
    is_store_error(fixture.dict.close());
    let dict = Dict::open(fixture.store).unwrap();
    assert_eq!(dict.notices().len(), 1);
    assert_eq!(dict.verify().unwrap().keys, 500);
}

#[test]
fn a_slow_store_does_not_delay_negatives() {
    let fixture = Fixture::new(LAYOUTS[0], Options::default().with_keys(1000).with_fpr(1e-6));
    fixture.dict.put(b"a", b"1").unwrap();
    fixture.watch.delay.store(50_000, SeqCst);
    fixture.watch.take();
    std::thread::scope(|scope| {
        scope.spawn(|| fixture.dict.put(b"b", b"2").unwrap());
        while fixture.watch.applies.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The write is in progress and holds the write lock of its shard.
        (0..10_000).for_each(|number| assert!(!fixture.dict.contains(&key(number)).unwrap()));
        assert_eq!(fixture.watch.gets.load(SeqCst), 0);
    });
    assert!(fixture.dict.contains(b"b").unwrap());
}
