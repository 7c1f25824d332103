//! Concurrent readers and writers, over a store that is slow enough for them to overlap.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use tamis_conformance::Effort;
use tamis_conformance::keys::Random;
use tamis_dictionary::store::MemoryStore;
use tamis_dictionary::{Op, Policy, Store};

use crate::common::{Dict, LAYOUTS, Watch, Watched, busy_options, key};

/// The number of keys that are put first and never deleted.
const PERMANENT: u64 = 500;
const WRITERS: u64 = 3;

pub(crate) fn check_threads<S: Store + 'static>(store: S, policy: Policy, steps: u64, delay: u64) {
    let watch = Arc::new(Watch::default());
    let dict = Dict::create(Watched(store, Arc::clone(&watch)), busy_options(300)).unwrap();
    let dict = dict.with_policy(policy);
    let keys: Vec<_> = (0..PERMANENT).map(key).collect();
    let ops: Vec<_> = keys.iter().map(|key| Op::Put(key, b"value")).collect();
    dict.write(&ops).unwrap();
    watch.delay.store(delay, SeqCst);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let dict = &dict;
        let write = |writer| scope.spawn(move || write(dict, writer, steps));
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        for reader in 0..3 {
            let done = &done;
            scope.spawn(move || {
                let mut random = Random::new(100 + reader);
                while !done.load(SeqCst) {
                    let present = key(random.below(PERMANENT as usize) as u64);
                    assert!(dict.contains(&present).unwrap(), "a member is rejected");
                    let absent = key(1_000_000 + random.below(5000) as u64);
                    assert!(!dict.contains(&absent).unwrap());
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, SeqCst);
    });
    watch.delay.store(0, SeqCst);
    let audit = dict.verify().unwrap();
    let counts = dict.stats().counts;
    println!("{policy:?}: {counts:?}");
    assert_eq!((audit.missing, counts.missing), (0, 0));
    assert!(counts.repairs > 0 && counts.growths > 0);
    dict.close().unwrap();
}

/// Each writer uses its own keys and compares them with a map.
fn write<S: Store + 'static>(dict: &Dict<S>, writer: u64, steps: u64) {
    let mut random = Random::new(writer);
    let mut map = HashMap::new();
    for step in 0..steps {
        let number = 1000 * (writer + 1) + random.below(200) as u64;
        match random.below(5) {
            0 | 1 => {
                let existed = dict.put(&key(number), &step.to_le_bytes()).unwrap();
                assert_eq!(map.insert(number, step).is_some(), existed);
            }
            2 => assert_eq!(dict.delete(&key(number)).unwrap(), map.remove(&number).is_some()),
            _ => {
                let value = map.get(&number).map(|step| step.to_le_bytes().to_vec());
                assert_eq!(dict.get(&key(number)).unwrap(), value);
            }
        }
    }
}

#[test]
fn threads_agree_in_memory() {
    let steps = Effort::now().times(3000);
    for layout in LAYOUTS {
        for policy in [Policy::Inline, Policy::Background] {
            check_threads(MemoryStore::new(layout), policy, steps, 20);
            check_threads(MemoryStore::new(layout), policy, 10 * steps, 0);
        }
    }
}
