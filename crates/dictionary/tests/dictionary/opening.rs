//! Opening and closing: clean, unclean, damaged, foreign and in use; keys that are too long; a full disk.

use std::process::Command;
use std::sync::Arc;

use tamis::{AdaptiveQuotient, Broom, HashId};
use tamis_conformance::keys::Random;
use tamis_dictionary::store::{Change, FjallStore, MemoryStore, RedbStore};
use tamis_dictionary::{Dictionary, Error, Layout, Op, Options, Store};

use crate::common::{Dict, Home, LAYOUTS, Named, RedbHome, Watch, Watched, busy_options, key};

const KEYS: u64 = 2000;

fn filled<S: Store + 'static>(store: S) -> Dict<S> {
    let dict = Dict::create(store, busy_options(KEYS)).unwrap();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let ops: Vec<_> = keys.iter().map(|key| Op::Put(key, b"value")).collect();
    dict.write(&ops).unwrap();
    dict
}

fn shards(store: &MemoryStore) -> Vec<Vec<u8>> {
    (0..).map_while(|number| store.meta(&format!("shard/{number}")).unwrap()).collect()
}

fn set_shard(store: &MemoryStore, number: usize, record: &[u8]) {
    store.set_meta(&[(&format!("shard/{number}"), record)]).unwrap();
}

/// Opens the dictionary, checks its contents and returns the notices.
fn open_and_check(store: &MemoryStore) -> Vec<String> {
    let dict = Dict::open(store.clone()).unwrap();
    assert!((0..KEYS).all(|number| dict.contains(&key(number)).unwrap()));
    let audit = dict.verify().unwrap();
    assert_eq!((audit.keys, audit.missing), (KEYS, 0));
    dict.notices()
}

#[test]
fn repairs_survive_a_reopen_that_reads_only_metadata() {
    let (store, watch) = (MemoryStore::new(Layout::Clustered), Arc::new(Watch::default()));
    let dict = filled(store.clone());
    let absent = || (100_000..103_000).map(key);
    absent().for_each(|key| assert!(!dict.contains(&key).unwrap()));
    let before = dict.stats().counts;
    assert!(before.repairs > 40);
    dict.close().unwrap();
    let dict = Dict::open(Watched(store, Arc::clone(&watch))).unwrap();
    assert_eq!(watch.take(), [0, 0, 0]);
    assert_eq!(dict.stats().counts, before);
    assert_eq!((dict.stats().keys, dict.stats().shards_loaded), (KEYS, 0));
    absent().for_each(|key| assert!(!dict.contains(&key).unwrap()));
    let again = dict.stats().counts.false_positives - before.false_positives;
    assert!(again * 10 < before.false_positives, "{again} of {}", before.false_positives);
    assert_eq!(watch.take()[0], again);
}

#[test]
fn opening_after_a_crash_takes_one_scan() {
    let store = MemoryStore::new(Layout::Secondary);
    std::mem::forget(filled(store.clone()));
    store.release();
    let watch = Arc::new(Watch::default());
    let dict = Dict::open(Watched(store.clone(), Arc::clone(&watch))).unwrap();
    assert_eq!(watch.take(), [0, 1, 0]);
    assert_eq!(
        dict.notices(),
        ["the dictionary was not closed: its filter was rebuilt from 2000 keys"]
    );
    drop(dict);
    assert_eq!(open_and_check(&store), Vec::<String>::new());
}

#[test]
fn a_damaged_or_foreign_shard_is_rebuilt() {
    let store = MemoryStore::new(Layout::Clustered);
    filled(store.clone()).close().unwrap();
    let records = shards(&store);
    let other = MemoryStore::new(Layout::Clustered);
    filled(other.clone()).close().unwrap();
    // Every 97th byte damaged, then records that are cut short or from another dictionary or shard.
    let mut notices = Vec::new();
    for at in (0..records[3].len()).step_by(97) {
        let mut record = records[3].clone();
        record[at] ^= 0x10;
        set_shard(&store, 3, &record);
        let dict = Dict::open(store.clone()).unwrap();
        assert_eq!(dict.verify().unwrap().missing, 0);
        // Any salt is valid, so damage to it is found only by the check of the keys.
        notices.extend(dict.notices());
        std::mem::forget(dict);
        store.release();
    }
    assert!(notices.len() * 97 > records[3].len() * 9 / 10, "{} notices", notices.len());
    for (record, reason) in [
        (&shards(&other)[3][..], "its record belongs to another dictionary"),
        (&records[3][..records[3].len() - 1], "was rebuilt"),
        (&records[3][..10], "its record is too short"),
        (&records[4], "its record has another generation or shard number"),
    ] {
        set_shard(&store, 3, record);
        let notices = open_and_check(&store);
        assert!(notices.len() == 1 && notices[0].contains(reason), "{notices:?}");
    }
    // Records of an earlier generation, which lack the keys that were put since.
    let dict = Dict::open(store.clone()).unwrap();
    (0..KEYS).step_by(2).for_each(|number| assert!(dict.delete(&key(number)).unwrap()));
    dict.close().unwrap();
    let old = shards(&store);
    let dict = Dict::open(store.clone()).unwrap();
    (0..KEYS).step_by(2).for_each(|number| assert!(!dict.put(&key(number), b"").unwrap()));
    dict.close().unwrap();
    old.iter().enumerate().for_each(|(number, record)| set_shard(&store, number, record));
    assert_eq!(open_and_check(&store).len(), old.len());
}

#[test]
fn other_data_and_incompatible_dictionaries_are_refused() {
    let store = MemoryStore::new(Layout::Clustered);
    assert!(matches!(Dict::open(store.clone()), Err(Error::NotFound)));
    filled(store.clone()).close().unwrap();
    assert!(matches!(Dict::create(store.clone(), Options::default()), Err(Error::AlreadyExists)));
    let foreign = Dictionary::<AdaptiveQuotient, _>::open(store.clone());
    assert!(matches!(foreign, Err(Error::Mismatch { .. })));
    let state = store.meta("state").unwrap().unwrap();
    let mut newer = state.clone();
    newer[8] = 3;
    store.set_meta(&[("state", &newer)]).unwrap();
    let error = Dict::open(store.clone()).unwrap_err();
    assert_eq!(error.to_string(), "dictionary version 3 is not supported, only version 2");
    store.set_meta(&[("state", &state[..50])]).unwrap();
    assert!(matches!(Dict::open(store.clone()), Err(Error::Corrupt { .. })));
    store.set_meta(&[("state", &state)]).unwrap();
    assert_eq!(open_and_check(&store), Vec::<String>::new());
    for bad in [Options::default().with_fpr(0.0), Options::default().with_keys(u64::MAX)] {
        let store = MemoryStore::new(Layout::Clustered);
        assert!(matches!(Dict::create(store, bad), Err(Error::Filter(_))));
    }
    // Files.
    let home = RedbHome::new(Layout::Clustered);
    assert!(matches!(RedbStore::open(home.path()), Err(Error::NotFound)));
    std::fs::write(home.path(), b"no such file").unwrap();
    assert!(matches!(RedbStore::open(home.path()), Err(Error::Store { .. })));
}

#[test]
fn a_second_writer_is_refused() {
    let store = MemoryStore::new(Layout::Clustered);
    let dict = filled(store.clone());
    assert!(matches!(Dict::open(store.clone()), Err(Error::InUse)));
    dict.close().unwrap();
    drop(Dict::open(store.clone()).unwrap());
    let home = RedbHome::new(Layout::Clustered);
    let dict = filled(home.create());
    assert!(matches!(RedbStore::open(home.path()), Err(Error::InUse)));
    dict.close().unwrap();
    drop(Dict::open(home.open()).unwrap());
}

#[test]
fn another_filter_and_another_hash_work() {
    let options = busy_options(500).with_hash(HashId::Fast);
    let store = MemoryStore::new(Layout::Clustered);
    let dict = Dictionary::<AdaptiveQuotient, _>::create(store.clone(), options).unwrap();
    (0..700).for_each(|number| assert!(!dict.put(&key(number), b"x").unwrap()));
    (1000..9000).for_each(|number| assert!(!dict.contains(&key(number)).unwrap()));
    assert!(dict.stats().counts.repairs > 0);
    assert_eq!(dict.verify().unwrap().missing, 0);
    dict.close().unwrap();
    let dict = Dictionary::<AdaptiveQuotient, _>::open(store).unwrap();
    assert!((0..700).all(|number| dict.contains(&key(number)).unwrap()));
}

pub(crate) fn keys_of_all_lengths<S: Store + 'static>(store: S) -> Dict<S> {
    let large = vec![7; store.max_key_len().min(1 << 20)];
    let dict = Dictionary::<Broom, _>::create(store, Options::default().with_keys(1000)).unwrap();
    for key in [&[][..], &large, &[0], &[0; 8], &[0xff; 300]] {
        assert_eq!(dict.get(key).unwrap(), None);
        assert!(!dict.put(key, &large).unwrap());
        assert!(dict.put(key, key).unwrap());
        assert_eq!(dict.get(key).unwrap().as_deref(), Some(key));
    }
    assert_eq!(dict.iter().count(), 5);
    assert_eq!(dict.verify().unwrap().keys, 5);
    assert!(dict.delete(&[]).unwrap() && dict.delete(&large).unwrap());
    assert!(!dict.contains(&[]).unwrap() && !dict.contains(&large).unwrap());
    dict
}

#[test]
fn fjall_refuses_long_keys_and_locks_its_folder() {
    for layout in LAYOUTS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dict");
        let dict = filled(FjallStore::create(&path, layout).unwrap());
        let longest = vec![1; 65_527];
        assert!(!dict.put(&longest, b"").unwrap() && !dict.put(b"", b"empty").unwrap());
        let error = dict.put(&[1; 65_528], b"").unwrap_err();
        assert_eq!(error.to_string(), "the key has 65528 bytes; the store supports at most 65527");
        assert!(!dict.contains(&[1; 65_528]).unwrap() && dict.contains(&longest).unwrap());
        assert_eq!(dict.get(b"").unwrap().as_deref(), Some(&b"empty"[..]));
        assert!(matches!(FjallStore::open(&path), Err(Error::InUse)));
        assert!(matches!(FjallStore::create(&path, layout), Err(Error::AlreadyExists)));
        assert_eq!(dict.verify().unwrap().keys, KEYS + 2);
    }
}

/// Puts until the file size limit is reached; all earlier puts are present afterwards.
#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    for name in ["dict.redb", "dict"] {
        let home = Named::in_temp_folder(name, Layout::Clustered);
        drop(Dict::create(home.create().unwrap(), busy_options(100)).unwrap());
        let output = Command::new("sh")
            .args([
                "-c",
                "trap '' XFSZ; ulimit -f 8192; exec \"$0\" --exact opening::fill_the_disk --nocapture",
            ])
            .arg(std::env::current_exe().unwrap())
            .env("TAMIS_FILL", &home.location)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let done: u64 = text
            .lines()
            .find_map(|line| line.split_once("acknowledged ")?.1.parse().ok())
            .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        assert!(output.status.success() && done > 10, "{text}");
        println!("{name}: {done} puts until the disk was full");
        let dict = Dict::open(home.open().unwrap()).unwrap();
        assert!((0..done).all(|number| dict.contains(&key(number)).unwrap()));
        assert_eq!(dict.verify().unwrap().missing, 0);
    }
}

/// The child process of the test above. Without its environment variable it does nothing.
#[test]
fn fill_the_disk() {
    let Ok(location) = std::env::var("TAMIS_FILL") else { return };
    let dict = Dict::open(tamis_dictionary::store::open(&location).unwrap()).unwrap();
    // Random bytes, which do not compress.
    let mut random = Random::new(5);
    let value: Vec<u8> = (0..100_000).map(|_| random.word() as u8).collect();
    for number in 0.. {
        match dict.put(&key(number), &value) {
            Ok(_) => {}
            Err(Error::Store { store: "redb" | "fjall", .. }) => {
                println!("\nacknowledged {number}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Traces the system calls of a process that writes: every write is synced before it returns.
#[cfg(target_os = "linux")]
#[test]
fn every_write_is_synced_before_it_returns() {
    let log = tempfile::NamedTempFile::new().unwrap();
    for name in ["dict.redb", "dict"] {
        for layout in LAYOUTS {
            let home = Named::in_temp_folder(name, layout);
            drop(Dict::create(home.create().unwrap(), busy_options(100)).unwrap());
            let traced = Command::new("strace")
                .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-o"])
                .arg(log.path())
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "opening::write_with_marks", "--nocapture"])
                .env("TAMIS_MARKS", &home.location)
                .output();
            let Ok(traced) = traced else {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "\nNOT TESTED: strace is not installed\n");
                return;
            };
            assert!(traced.status.success(), "{traced:?}");
            let (mut synced, mut writes) = (false, 0);
            for line in std::fs::read_to_string(log.path()).unwrap().lines() {
                if line.contains("write(1, \"begin") {
                    synced = false;
                } else if line.contains("fsync") || line.contains("fdatasync") {
                    synced = true;
                } else if line.contains("write(1, \"done") {
                    assert!(synced, "{name}, {layout:?}: write {writes} was not synced");
                    writes += 1;
                }
            }
            assert_eq!(writes, 20);
        }
    }
}

/// The child process of the test above. Without its environment variable it does nothing.
#[test]
fn write_with_marks() {
    let Ok(location) = std::env::var("TAMIS_MARKS") else { return };
    let store = tamis_dictionary::store::open(&location).unwrap();
    println!();
    for number in 0..20 {
        println!("begin");
        if number % 2 == 0 {
            store.apply(&[Change::put(number << 60, &key(number), b"value")]).unwrap();
        } else {
            store.set_meta(&[("counts", &key(number))]).unwrap();
        }
        println!("done");
    }
}

/// The filter keeps to the limit of memory: a write that needs more fails and changes nothing, and lookups in
/// shards that do not fit read the store.
#[test]
fn the_filter_keeps_to_the_limit_of_memory() {
    const LIMIT: u64 = 64 << 10;
    let exceeded = |error: &Error| matches!(error, Error::Filter(tamis::Error::MemoryLimit { limit: LIMIT, needs }) if *needs > LIMIT);
    let store = MemoryStore::new(Layout::Clustered);
    let large = Options::default().with_keys(1_000_000).with_max_memory(LIMIT);
    assert!(exceeded(&Dict::create(store.clone(), large).unwrap_err()));
    assert!(store.meta("state").unwrap().is_none());

    let small = Options::default().with_keys(1000).with_max_memory(LIMIT);
    let dict = Dict::create(store.clone(), small).unwrap();
    let puts = (0..).map(|number| (number, dict.put(&key(number), b"value")));
    let (count, refused) = puts.take(200_000).find(|(_, put)| put.is_err()).unwrap();
    assert!(exceeded(&refused.unwrap_err()));
    assert!(count > 10_000, "full after {count} keys");
    assert!(dict.stats().filter_bytes <= LIMIT);
    assert!(!dict.contains(&key(count)).unwrap());
    assert_eq!(dict.verify().unwrap().keys, count);
    dict.close().unwrap();

    // The saved filter fits; half of it does not.
    let dict = Dict::open_within(store.clone(), LIMIT).unwrap();
    assert!(dict.verify().unwrap().is_ok());
    dict.close().unwrap();
    let dict = Dict::open_within(store.clone(), LIMIT / 2).unwrap();
    assert!((0..count).step_by(7).all(|number| dict.contains(&key(number)).unwrap()));
    assert!(!dict.contains(b"absent").unwrap());
    assert!((0..100).any(|number| dict.put(&key(number), b"new").is_err()));
    drop(dict);
    let dict = Dict::open(store).unwrap();
    dict.put(&key(count), b"value").unwrap();
    assert_eq!(dict.verify().unwrap().keys, count + 1);
}
