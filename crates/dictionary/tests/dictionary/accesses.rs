//! What it costs, in accesses to the store, counted by the store.

use std::sync::Arc;

use tamis_dictionary::{Layout, Op, Options, Policy, Store};

use crate::common::{Dict, Watch, Watched, key};

const KEYS: u64 = 20_000;

/// Counts what every operation costs.
pub(crate) fn count<S: Store + 'static>(store: S) {
    let layout = store.layout();
    let watch = Arc::new(Watch::default());
    let options = Options::default().with_keys(KEYS).with_fpr(1.0 / 64.0);
    let dict = Dict::create(Watched(store, Arc::clone(&watch)), options).unwrap();
    watch.take();

    // Inserts: no reads, one write a batch.
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for batch in keys.chunks(500) {
        let ops: Vec<_> = batch.iter().map(|key| Op::Put(key, b"value")).collect();
        assert!(dict.write(&ops).unwrap().iter().all(|had| !had));
    }
    assert_eq!(watch.take(), [0, 0, KEYS / 500], "inserts");
    let counts = dict.stats().counts;
    assert_eq!((counts.puts, counts.writes, counts.growths), (KEYS, KEYS / 500, 0));
    let strangers_put = counts.puts - counts.puts_new;
    assert!((1..KEYS / 32).contains(&strangers_put), "{strangers_put}");

    // Single puts, and overwriting: one write each.
    for number in 0..20 {
        assert!(dict.put(&key(number), b"other").unwrap());
    }
    assert_eq!(watch.take(), [0, 0, 20], "overwriting");
    assert_eq!(dict.stats().keys, KEYS);

    // Members: one access.
    for number in (0..KEYS).step_by(50) {
        assert!(dict.get(&key(number)).unwrap().is_some());
    }
    assert_eq!(watch.take(), [KEYS / 50, 0, 0], "members");

    // Strangers: none but for false positives.
    let before = dict.stats().counts;
    for number in 1_000_000..1_000_000 + 16 * KEYS {
        assert_eq!(dict.get(&key(number)).unwrap(), None);
    }
    let after = dict.stats().counts;
    let passed = after.false_positives - before.false_positives;
    let [gets, scans, writes] = watch.take();
    assert_eq!((gets, writes), (passed, 0), "strangers");
    assert_eq!(after.negatives - before.negatives, 16 * KEYS - passed);
    let each = (gets + scans) as f64 / passed as f64;
    println!("{layout:?}: {passed} false positives, {each:.3} accesses each");
    assert!(each <= if layout == Layout::Clustered { 1.05 } else { 2.05 }, "{each}");
    assert!(after.sweeps > 0, "no sweep was due");
    // Those that the dictionary counts itself are the same.
    let ours = |counts: tamis_dictionary::Counts| {
        counts.reads_lookup + counts.reads_repair + counts.reads_sweep + counts.reads_filter
    };
    assert_eq!(ours(after) - ours(before), gets + scans);
    let stats = dict.stats();
    let most =
        tamis_conformance::stats::bounds(16 * KEYS, 1.0 / 64.0, tamis_conformance::stats::ALPHA)
            .end;
    assert!(passed < most, "{passed} strangers, {most} are too many");
    assert!(stats.window_strangers > 30_000 && stats.window_fpr().unwrap() < 1.0 / 64.0);

    // Those that come again, if they are not too many, pass far less often.
    let passed = || {
        let before = dict.stats().counts.false_positives;
        (5_000_000..5_000_000 + 2 * KEYS).for_each(|n| assert!(!dict.contains(&key(n)).unwrap()));
        dict.stats().counts.false_positives - before
    };
    let (first, again) = (passed(), passed());
    println!("{again} of {first} again");
    assert!(first > 300 && again * 5 < first, "{again} of {first}");
    watch.take();

    // Deletes: one write each, of what is surely not there none.
    for number in 0..50 {
        assert!(dict.delete(&key(number)).unwrap());
    }
    assert_eq!(watch.take(), [0, 0, 50], "deletes");
    let denied = (2_000_000..).map(key).filter(|key| {
        dict.delete(key).unwrap();
        watch.take() == [0, 0, 0]
    });
    assert_eq!(denied.take(1000).count(), 1000);

    // Without repairs the same strangers pass every time.
    let dict = dict.with_policy(Policy::Off);
    let hot: Vec<_> = (3_000_000..)
        .map(key)
        .filter(|key| {
            assert_eq!(dict.get(key).unwrap(), None);
            watch.take()[0] == 1
        })
        .take(50)
        .collect();
    hot.iter().for_each(|key| assert!(!dict.contains(key).unwrap()));
    assert_eq!(watch.take(), [50, 0, 0]);
    // A thread of its own makes the repair, without anybody waiting for it.
    let dict = dict.with_policy(Policy::Background);
    hot.iter().for_each(|key| assert!(!dict.contains(key).unwrap()));
    let dict = dict.with_policy(Policy::Inline);
    watch.take();
    hot.iter().for_each(|key| assert!(!dict.contains(key).unwrap()));
    assert!(watch.take()[0] <= 2, "repaired in the background");
    assert_eq!(dict.verify().unwrap().missing, 0);
}
