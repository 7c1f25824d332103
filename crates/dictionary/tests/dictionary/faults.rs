//! A store that cannot be reached, is slow, or fails half-way: the error is told, and the filter still
//! lets in all that the store has.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tamis_conformance::Effort;
use tamis_dictionary::store::MemoryStore;
use tamis_dictionary::{Error, Op, Options, Store};

use crate::common::{Dict, LAYOUTS, Watch, Watched, busy_options, key};

struct Scene {
    store: MemoryStore,
    watch: Arc<Watch>,
    dict: Dict<Watched<MemoryStore>>,
}

impl Scene {
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
        self.watch.lie.store(0, SeqCst);
    }

    /// All that the store has is found, whatever strangers come by.
    fn check(&self, strangers: std::ops::Range<u64>) {
        strangers.for_each(|number| assert!(!self.dict.contains(&key(number)).unwrap()));
        for (key, value) in self.store.page(None, usize::MAX).unwrap() {
            assert_eq!(self.dict.get(&key).unwrap(), Some(value));
        }
        assert_eq!(self.dict.verify().unwrap().missing, 0);
        assert_eq!(self.dict.stats().counts.missing, 0);
    }
}

fn is_store_error<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Store { store: "test", .. })), "{result:?}");
}

#[test]
fn an_unreachable_store_is_an_error_and_negatives_need_none() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout, Options::default().with_keys(1000));
        scene.dict.put(b"a", b"1").unwrap();
        scene.fail_after(0);
        is_store_error(scene.dict.get(b"a"));
        is_store_error(scene.dict.put(b"a", b"2"));
        is_store_error(scene.dict.put(b"b", b"2"));
        is_store_error(scene.dict.delete(b"a"));
        is_store_error(scene.dict.verify());
        is_store_error(scene.dict.iter().collect::<Result<Vec<_>, _>>());
        // Here as good as certain: one stranger of 256 might pass.
        assert_eq!(scene.dict.get(b"never put").unwrap(), None);
        assert_eq!(scene.dict.stats().doubtful, 2);
        scene.heal();
        scene.check(0..2000);
        assert_eq!(scene.dict.get(b"a").unwrap(), Some(b"1".to_vec()));
        assert_eq!(scene.dict.get(b"b").unwrap(), None);
        assert!(!scene.dict.put(b"b", b"3").unwrap());
        assert!(scene.dict.delete(b"a").unwrap());
        assert_eq!(scene.dict.stats().doubtful, 0);
        scene.check(2000..4000);
    }
}

#[test]
fn a_commit_that_was_reported_as_failed_is_not_denied() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout, busy_options(100));
        (0..100).for_each(|number| assert!(!scene.dict.put(&key(number), b"x").unwrap()));
        for number in 100..120 {
            scene.watch.lie.store(1 + number % 2, SeqCst);
            is_store_error(scene.dict.put(&key(number), b"y"));
        }
        scene.check(1000..5000);
        // Deleted without being told so: a ghost, no more.
        scene.watch.lie.store(1, SeqCst);
        is_store_error(scene.dict.delete(&key(7)));
        assert!(!scene.dict.contains(&key(7)).unwrap());
        scene.check(5000..9000);
        for number in 100..120 {
            assert_eq!(scene.dict.delete(&key(number)).unwrap(), number % 2 == 0);
        }
        assert_eq!(scene.dict.stats().doubtful, 0);
        scene.check(1000..5000);
    }
}

#[test]
fn a_batch_that_fails_half_way_leaves_the_filter_right() {
    let effort = Effort::now();
    for layout in LAYOUTS {
        let mut random = effort.random(7);
        let scene = Scene::new(layout, busy_options(50));
        for _ in 0..effort.times(400, 40_000) {
            match random.below(4) {
                0 => scene.heal(),
                1 => scene.fail_after(random.below(6) as u64),
                other => scene.watch.lie.store(other as u64 - 1, SeqCst),
            }
            for _ in 0..10 {
                let batch: Vec<_> =
                    (0..random.below(20)).map(|_| key(random.below(300) as u64)).collect();
                let puts = random.below(3) > 0;
                let op = |key| if puts { Op::Put(key, b"value") } else { Op::Delete(key) };
                let ops: Vec<_> = batch.iter().map(|key| op(key)).collect();
                let _ = scene.dict.write(&ops);
                let _ = scene.dict.get(&key(random.below(600) as u64));
                let _ = scene.dict.get(&key(1000 + random.below(3000) as u64));
            }
            scene.heal();
            let from = 1000 + random.below(3000) as u64;
            scene.check(from..from + 100);
        }
        let stats = scene.dict.stats();
        println!("{stats:?}");
        assert!(stats.counts.growths > 0 && stats.counts.repairs > 0);
    }
}

#[test]
fn doubt_is_bounded() {
    let scene = Scene::new(LAYOUTS[0], Options::default().with_keys(100_000));
    scene.dict.put(b"a", b"1").unwrap();
    scene.fail_after(0);
    for number in 0..40_000 {
        is_store_error(scene.dict.put(&key(number), b"x"));
    }
    let doubtful = scene.dict.stats().doubtful;
    assert!((10_000..=16 * 1026).contains(&doubtful), "{doubtful}");
    scene.heal();
    (0..1000).for_each(|number| assert!(!scene.dict.put(&key(number), b"x").unwrap()));
    assert!(scene.dict.stats().doubtful < doubtful / 10);
    scene.check(1_000_000..1_010_000);
}

#[test]
fn a_filter_that_could_not_be_saved_is_made_anew() {
    let scene = Scene::new(LAYOUTS[0], Options::default().with_keys(1000));
    (0..500).for_each(|number| assert!(!scene.dict.put(&key(number), b"x").unwrap()));
    scene.fail_after(0);
    is_store_error(scene.dict.close());
    let dict = Dict::open(scene.store).unwrap();
    assert_eq!(dict.notices().len(), 1);
    assert_eq!(dict.verify().unwrap().keys, 500);
}

#[test]
fn a_slow_store_delays_nobody_who_is_denied() {
    let scene = Scene::new(LAYOUTS[0], Options::default().with_keys(1000).with_fpr(1e-6));
    scene.dict.put(b"a", b"1").unwrap();
    scene.watch.delay.store(50_000, SeqCst);
    scene.watch.take();
    std::thread::scope(|scope| {
        scope.spawn(|| scene.dict.put(b"b", b"2").unwrap());
        while scene.watch.applies.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The write is under way, and holds its shard's pen.
        (0..10_000).for_each(|number| assert!(!scene.dict.contains(&key(number)).unwrap()));
        assert_eq!(scene.watch.gets.load(SeqCst), 0);
    });
    assert!(scene.dict.contains(b"b").unwrap());
}
