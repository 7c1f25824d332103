//! Random operations agree with a map in memory.

use std::collections::BTreeMap;

use tamis_conformance::keys::Random;
use tamis_dictionary::{Op, Policy};

use crate::common::{Dict, Home, busy_options, key};

/// Applies random operations to a dictionary and to a map and compares the answers.
pub(crate) fn agree(home: &impl Home, rounds: u64, steps: u64, random: &mut Random) {
    let mut map = BTreeMap::new();
    let keys = 60;
    let mut dict = Dict::create(home.create().unwrap(), busy_options(keys)).unwrap();
    for round in 0..rounds {
        for _ in 0..steps {
            step(&dict, &mut map, keys as usize, random);
        }
        let audit = dict.verify().unwrap();
        assert_eq!((audit.keys, audit.missing), (map.len() as u64, 0));
        let mut entries: Vec<_> = dict.iter().map(Result::unwrap).collect();
        entries.sort();
        assert!(entries.into_iter().eq(map.clone()), "iteration, round {round}");
        for (key, value) in &map {
            assert_eq!(dict.get(key).unwrap().as_ref(), Some(value));
        }
        let stats = dict.stats();
        assert_eq!(stats.counts.missing, 0);
        assert_eq!(stats.in_doubt, 0);
        dict.close().unwrap();
        dict = Dict::open(home.open().unwrap()).unwrap();
        dict = dict.with_policy(match random.below(3) {
            0 => Policy::Background,
            1 => Policy::Off,
            _ => Policy::Inline,
        });
        assert_eq!(dict.notices(), Vec::<String>::new());
        assert_eq!(dict.stats().counts.lookups, stats.counts.lookups);
    }
    let counts = dict.stats().counts;
    println!("{counts:?}");
    assert!(counts.false_positives > 0 && counts.repairs > 0);
}

fn step<S: tamis_dictionary::Store + 'static>(
    dict: &Dict<S>,
    map: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    keys: usize,
    random: &mut Random,
) {
    // The filter is planned for `keys` keys and must grow for up to 4 times as many.
    let any_key = |random: &mut Random| match random.below(200) {
        0 => Vec::new(),
        _ => key(random.below(4 * keys) as u64),
    };
    let value = |random: &mut Random| random.word().to_le_bytes()[..random.below(9)].to_vec();
    match random.below(20) {
        0..3 => {
            let (key, value) = (any_key(random), value(random));
            let existed = dict.put(&key, &value).unwrap();
            assert_eq!(map.insert(key, value).is_some(), existed);
        }
        3..5 => {
            let key = any_key(random);
            assert_eq!(dict.delete(&key).unwrap(), map.remove(&key).is_some());
        }
        5 if random.below(4) == 0 => {
            let batch: Vec<_> =
                (0..random.below(30)).map(|_| (any_key(random), value(random))).collect();
            let ops: Vec<_> = batch
                .iter()
                .map(|(key, value)| match value.len() {
                    0..3 => Op::Delete(key),
                    _ => Op::Put(key, value),
                })
                .collect();
            let existed = dict.write(&ops).unwrap();
            for (op, existed) in ops.iter().zip(existed) {
                let previous = match op {
                    Op::Put(key, value) => map.insert(key.to_vec(), value.to_vec()),
                    Op::Delete(key) => map.remove(*key),
                    _ => unreachable!("no other writes are made here"),
                };
                assert_eq!(previous.is_some(), existed);
            }
        }
        5..12 => {
            let key = any_key(random);
            assert_eq!(dict.get(&key).unwrap(), map.get(&key).cloned());
        }
        _ => {
            // An absent key, possibly looked up before.
            let key = key(1000 + random.below(3000) as u64);
            assert_eq!(dict.get(&key).unwrap(), None);
        }
    }
}
