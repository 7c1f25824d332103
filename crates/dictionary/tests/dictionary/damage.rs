//! Damage inside the store is found and named, and never returned as an answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tamis_conformance::keys::Random;
use tamis_dictionary::store::{Change, MemoryStore};
use tamis_dictionary::{Error, ErrorKind, Op, Store};

use crate::common::{Dict, Home, LAYOUTS, Named, busy_options, replace_in_files};

const KEYS: u64 = 300;
/// The number of the entry that is damaged.
const DAMAGED: u64 = 117;

fn key(number: u64) -> Vec<u8> {
    format!("key <{number}>").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    format!("value <{number}>").into_bytes()
}

fn fill(home: &impl Home) {
    let dict = Dict::create(home.create().unwrap(), busy_options(KEYS)).unwrap();
    let entries: Vec<_> = (0..KEYS).map(|number| (key(number), value(number))).collect();
    let ops: Vec<_> = entries.iter().map(|(key, value)| Op::Put(key, value)).collect();
    dict.write(&ops).unwrap();
    assert!(dict.verify().unwrap().is_ok());
    dict.close().unwrap();
}

/// Damages the value, then the key of one entry.
pub(crate) fn check_damage(home: &impl Home) {
    fill(home);

    home.damage(&value(DAMAGED), b"vulue <117>");
    let dict = Dict::open(home.open().unwrap()).unwrap();
    let error = dict.get(&key(DAMAGED)).unwrap_err();
    assert!(matches!(&error, Error::Damaged { key: found, .. } if *found == key(DAMAGED)));
    assert_eq!(
        error.to_string(),
        "the entry of key \"key <117>\" is damaged: the checksum of its key and value does not match"
    );
    let audit = dict.verify().unwrap();
    assert_eq!((audit.keys, audit.damaged, audit.lost, audit.missing), (KEYS - 1, 1, 0, 0));
    assert_eq!(audit.damaged_keys, [key(DAMAGED)]);
    // Iteration continues after the damaged entry.
    assert_eq!(dict.iter().filter(Result::is_err).count(), 1);
    assert_eq!(dict.iter().filter(Result::is_ok).count() as u64, KEYS - 1);
    // A put repairs it.
    assert!(dict.put(&key(DAMAGED), &value(DAMAGED)).unwrap());
    assert!(dict.verify().unwrap().is_ok());
    dict.close().unwrap();

    home.damage(&key(DAMAGED), b"kay <117>");
    let dict = Dict::open(home.open().unwrap()).unwrap();
    let found = dict.get(&key(DAMAGED));
    assert!(found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corrupt), "{found:?}");
    assert!(!matches!(dict.get(b"kay <117>"), Ok(Some(_))));
    let audit = dict.verify().unwrap();
    assert_eq!((audit.keys, audit.missing), (KEYS - 1, 0), "{audit:?}");
    assert!(audit.damaged_keys.contains(&b"kay <117>".to_vec()), "{audit:?}");
    for number in (0..KEYS).filter(|number| *number != DAMAGED) {
        assert_eq!(dict.get(&key(number)).unwrap(), Some(value(number)));
    }
    // It is no fault of the filter.
    assert_eq!(dict.stats().counts.missing, 0);
    assert_eq!(dict.notices(), Vec::<String>::new());
}

#[test]
fn fjall_finds_damage_in_its_files() {
    for layout in LAYOUTS {
        for (from, to) in [(value(DAMAGED), b"vulue <117>"), (value(7), b"value <007>")] {
            let home = Named::in_temp_folder("dict", layout);
            fill(&home);
            assert!(replace_in_files(Path::new(&home.location), &from, &to[..from.len()]));
            let opened = home.open().and_then(Dict::open).map(drop);
            let error = opened.unwrap_err().to_string();
            assert_eq!(error, "corrupt dictionary: the journal is damaged");
        }
    }
}

/// Entries vanish from the store: lookups and `verify` report the loss once, and do not blame the filter.
#[test]
fn lost_entries_are_reported() {
    for layout in LAYOUTS {
        for by_lookup in [false, true] {
            let store = MemoryStore::new(layout);
            fill(&store);
            let mut keys = Vec::new();
            store.keys(0..=u64::MAX, &mut |hi, key| keys.push((hi, key.to_vec()))).unwrap();
            for (hi, key) in &keys[..20] {
                assert_eq!(store.apply(&[Change::delete(*hi, key)]).unwrap(), [true]);
            }
            let dict = Dict::open(store).unwrap();
            if by_lookup {
                let errors = keys[..20].iter().filter_map(|(_, key)| dict.get(key).err());
                let reported = errors.inspect(|error| assert_eq!(error.kind(), ErrorKind::Corrupt));
                assert!(reported.count() > 0);
                assert!(dict.stats().counts.lost > 0);
                assert!(dict.notices().iter().all(|notice| notice.contains("has lost")));
            } else {
                let audit = dict.verify().unwrap();
                assert_eq!((audit.keys, audit.lost), (KEYS - 20, 20), "{audit:?}");
            }
            assert_eq!(dict.verify().unwrap().missing, 0);
            assert!(dict.verify().unwrap().is_ok());
            assert!(keys[20..].iter().all(|(_, key)| dict.contains(key).unwrap()));
        }
    }
}

/// A filter that holds keys of failed writes is not evidence of a loss.
#[test]
fn failed_writes_are_not_reported_as_losses() {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::SeqCst;

    use crate::common::{Watch, Watched};

    let (store, watch) = (MemoryStore::new(LAYOUTS[0]), Arc::new(Watch::default()));
    fill(&store);
    let dict = Dict::open(Watched(store.clone(), Arc::clone(&watch))).unwrap();
    for number in 0..50 {
        // Deletes that are applied but reported as failed, puts that are not applied.
        watch.write_fault.store(1, SeqCst);
        assert!(dict.delete(&key(number)).is_err());
        watch.write_fault.store(2, SeqCst);
        assert!(dict.put(&key(1000 + number), b"").is_err());
    }
    let audit = dict.verify().unwrap();
    assert!(audit.is_ok() && audit.stale == 100, "{audit:?}");
    (0..50).for_each(|number| assert!(!dict.contains(&key(number)).unwrap()));
    dict.close().unwrap();
    let dict = Dict::open(store).unwrap();
    let audit = dict.verify().unwrap();
    assert!(audit.is_ok() && audit.stale == 0, "{audit:?}");
}

/// The files of a folder and their bytes.
type Files = Vec<(PathBuf, Vec<u8>)>;

fn read_files(folder: &Path, files: &mut Files) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => read_files(&path, files),
            false => files.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
}

/// Makes the folder hold these files and nothing else.
fn restore_files(folder: &Path, files: &Files) {
    fs::remove_dir_all(folder).unwrap();
    for (path, bytes) in files {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Writes the entries of a closed store of `fjall` from its journal to tables.
fn write_tables(folder: &Path) {
    fs::remove_file(folder.join("closed")).unwrap();
    let database = fjall::Database::builder(folder).open().unwrap();
    for name in database.list_keyspace_names() {
        let keyspace = database.keyspace(&name, Default::default).unwrap();
        keyspace.rotate_memtable_and_wait().unwrap();
    }
}

/// Opens and verifies a store whose files were changed. Returns whether the change was reported. If not, all
/// entries are right; if so, no answer is wrong.
fn is_reported(home: &Named) -> bool {
    let dict = match home.open().and_then(Dict::open) {
        Ok(dict) => dict,
        Err(error) => {
            let is_told = matches!(error, Error::Corrupt { .. } | Error::Store { .. });
            assert!(is_told, "{error:?}");
            return true;
        }
    };
    let reported = match dict.verify() {
        Ok(audit) => !audit.is_ok(),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Store), "{error:?}");
            true
        }
    };
    for number in 0..KEYS {
        match dict.get(&key(number)) {
            Ok(found) => assert_eq!(found, Some(value(number)), "reported: {reported}"),
            Err(error) => assert!(reported, "verify finds nothing, but get {error}"),
        }
    }
    reported
}

/// Any flipped byte in any file of `fjall` is reported or harmless: in the journal, in the tables that the
/// entries are moved to, and in manifests.
#[test]
fn fjall_reports_flipped_bytes() {
    let flips = if std::env::var_os("TAMIS_SOAK").is_some() { 400 } else { 7 };
    let mut random = Random::new(61);
    let mut tally = BTreeMap::<String, [u64; 2]>::new();
    for (layout, has_tables) in
        LAYOUTS.into_iter().flat_map(|layout| [(layout, true), (layout, false)])
    {
        let home = Named::in_temp_folder("dict", layout);
        fill(&home);
        let folder = Path::new(&home.location);
        if has_tables {
            write_tables(folder);
        }
        // Shortens the journal.
        drop(home.open().unwrap());
        let mut sound = Files::new();
        read_files(folder, &mut sound);
        for (at, (path, bytes)) in sound.iter().enumerate() {
            for flip in 0..flips {
                // The first byte of a file, its start and its end, where its structure is dense, and any place.
                let most = match flip {
                    0 => 1,
                    flip if flip % 3 == 0 => bytes.len(),
                    _ => 300,
                };
                let place = random.below(most.min(bytes.len()).max(1));
                let place =
                    if flip % 3 == 2 { bytes.len().saturating_sub(1 + place) } else { place };
                let Some(byte) = bytes.get(place) else { continue };
                let mut files = sound.clone();
                files[at].1[place] = byte ^ 1 << random.below(8);
                restore_files(folder, &files);
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                let outcome = std::panic::catch_unwind(|| is_reported(&home));
                let reported = outcome.unwrap_or_else(|_| panic!("{name} at {place}"));
                tally.entry(name).or_default()[usize::from(reported)] += 1;
            }
        }
    }
    for (name, [harmless, reported]) in &tally {
        // What `fjall` has no use for is harmless: old manifests.
        let is_used =
            ["tables", "jnl", "current", "version"].iter().any(|part| name.contains(part));
        assert!(!is_used || reported > harmless, "{tally:?}");
    }
}

/// The file `closed` describes a closed store. It is gone before the store can change, so that a crash does not
/// leave it behind.
#[test]
fn fjall_marks_a_closed_store() {
    let home = Named::in_temp_folder("dict", LAYOUTS[0]);
    fill(&home);
    let closed = Path::new(&home.location).join("closed");
    assert!(closed.exists());
    let store = home.open().unwrap();
    assert!(!closed.exists());
    drop(store);
    assert!(closed.exists());
}
