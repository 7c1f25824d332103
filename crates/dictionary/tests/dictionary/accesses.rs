//! The cost of each operation in accesses to the store, counted by the store.

use std::sync::Arc;

use tamis_dictionary::{Layout, Op, Options, Policy, Store};

use crate::common::{Dict, Watch, Watched, key};

const KEYS: u64 = 20_000;

/// Counts the accesses of every operation.
pub(crate) fn check_costs<S: Store + 'static>(store: S) {
    let layout = store.layout();
    let watch = Arc::new(Watch::default());
    let options = Options::default().with_keys(KEYS).with_fpr(1.0 / 64.0);
    let dict = Dict::create(Watched(store, Arc::clone(&watch)), options).unwrap();
    watch.take();

    // Inserts: no reads, one write per batch.
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for batch in keys.chunks(500) {
        let ops: Vec<_> = batch.iter().map(|key| Op::Put(key, b"value")).collect();
        assert!(dict.write(&ops).unwrap().iter().all(|existed| !existed));
    }
    assert_eq!(watch.take(), [0, 0, KEYS / 500], "inserts");
    let counts = dict.stats().counts;
    assert_eq!((counts.puts, counts.writes, counts.growths), (KEYS, KEYS / 500, 0));
    let passed = counts.puts - counts.puts_new;
    assert!((1..KEYS / 32).contains(&passed), "{passed}");

    // Single puts of present keys: one write each.
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

    // Absent keys: no access, except for false positives.
    let before = dict.stats().counts;
    for number in 1_000_000..1_000_000 + 16 * KEYS {
        assert_eq!(dict.get(&key(number)).unwrap(), None);
    }
    let after = dict.stats().counts;
    let passed = after.false_positives - before.false_positives;
    let [gets, scans, writes] = watch.take();
    assert_eq!((gets, writes), (passed, 0), "absent keys");
    assert_eq!(after.negatives - before.negatives, 16 * KEYS - passed);
    let each = (gets + scans) as f64 / passed as f64;
    println!("{layout:?}: {passed} false positives, {each:.3} accesses each");
    assert!(each <= if layout == Layout::Clustered { 1.05 } else { 2.05 }, "{each}");
    assert!(after.sweeps > 0, "no sweep was due");
    // The counters of the dictionary agree.
    let reads = |counts: tamis_dictionary::Counts| {
        counts.reads_lookup + counts.reads_repair + counts.reads_sweep + counts.reads_filter
    };
    assert_eq!(reads(after) - reads(before), gets + scans);
    let stats = dict.stats();
    let limit =
        tamis_conformance::stats::bounds(16 * KEYS, 1.0 / 64.0, tamis_conformance::stats::ALPHA)
            .end;
    assert!(passed < limit, "{passed} false positives, expected fewer than {limit}");
    assert!(stats.window_negatives > 30_000 && stats.window_fpr().unwrap() < 1.0 / 64.0);

    // Absent keys that recur pass less often, if they are not too many.
    let passed = || {
        let before = dict.stats().counts.false_positives;
        (5_000_000..5_000_000 + 2 * KEYS).for_each(|n| assert!(!dict.contains(&key(n)).unwrap()));
        dict.stats().counts.false_positives - before
    };
    let (first, again) = (passed(), passed());
    println!("{again} of {first} pass again");
    assert!(first > 300 && again * 5 < first, "{again} of {first}");
    watch.take();

    // Deletes: one write each, none if the filter rejects the key.
    for number in 0..50 {
        assert!(dict.delete(&key(number)).unwrap());
    }
    assert_eq!(watch.take(), [0, 0, 50], "deletes");
    let denied = (2_000_000..).map(key).filter(|key| {
        dict.delete(key).unwrap();
        watch.take() == [0, 0, 0]
    });
    assert_eq!(denied.take(1000).count(), 1000);

    // Without repairs the same false positives recur.
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
    // A background thread repairs them.
    let dict = dict.with_policy(Policy::Background);
    hot.iter().for_each(|key| assert!(!dict.contains(key).unwrap()));
    let dict = dict.with_policy(Policy::Inline);
    watch.take();
    hot.iter().for_each(|key| assert!(!dict.contains(key).unwrap()));
    assert!(watch.take()[0] <= 2, "not repaired in the background");
    assert_eq!(dict.verify().unwrap().missing, 0);
}
