//! A dictionary that has lost its claim on the store notices it before it answers.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tamis_dictionary::store::{Change, Entry, MemoryStore};
use tamis_dictionary::{Error, ErrorKind, Layout, Op, Store};

use crate::common::{Dict, busy_options, key};

const LEASE: Duration = Duration::from_millis(400);

/// What happened to the store.
#[derive(Default)]
struct Log {
    acquired: AtomicU64,
    released: AtomicU64,
    confirmed: AtomicU64,
    /// The answer to `confirm`: 0 for success, 1 for no answer, 2 for fenced, 3 for lost writes.
    answer: AtomicU64,
}

/// A store in memory with a lease.
struct Leased(MemoryStore, Arc<Log>);

impl Store for Leased {
    fn layout(&self) -> Layout {
        self.0.layout()
    }

    fn acquire(&self) -> Result<(), Error> {
        self.1.acquired.fetch_add(1, SeqCst);
        self.0.acquire()
    }

    fn release(&self) {
        self.1.released.fetch_add(1, SeqCst);
        self.0.release();
    }

    fn publish(&self) -> Result<(), Error> {
        self.0.publish()
    }

    fn lease(&self) -> Option<Duration> {
        Some(LEASE)
    }

    fn confirm(&self) -> Result<(), Error> {
        self.1.confirmed.fetch_add(1, SeqCst);
        match self.1.answer.load(SeqCst) {
            0 => Ok(()),
            1 => Err(Error::store("test", "unreachable")),
            2 => Err(Error::Fenced),
            _ => Err(Error::LostWrites),
        }
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.get(hi, key)
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        self.0.get_or_keys(hi, key, range, visit)
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        self.0.keys(range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        self.0.page(after, limit)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        self.0.apply(changes)
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.meta(name)
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        self.0.set_meta(records)
    }
}

fn leased() -> (Arc<Log>, Dict<Leased>) {
    let log = Arc::new(Log::default());
    let store = Leased(MemoryStore::new(Layout::Clustered), Arc::clone(&log));
    let dict = Dict::create(store, busy_options(100)).unwrap();
    dict.put(b"a", b"1").unwrap();
    (log, dict)
}

/// Returns the errors of every kind of operation.
fn errors(dict: &Dict<Leased>) -> Vec<Option<ErrorKind>> {
    let kind = |error: Error| error.kind();
    let mut all: Vec<_> = (0..50).map(|number| dict.get(&key(number)).err().map(kind)).collect();
    all.push(dict.get(b"a").err().map(kind));
    all.push(dict.put(b"a", b"2").err().map(kind));
    all.push(dict.put(b"b", b"2").err().map(kind));
    all.extend((50..60).map(|number| dict.delete(&key(number)).err().map(kind)));
    all.push(dict.write(&[Op::Delete(b"absent")]).err().map(kind));
    all.push(dict.verify().err().map(kind));
    all.push(dict.iter().next().unwrap().err().map(kind));
    all
}

#[test]
fn nothing_is_answered_without_a_confirmation_within_the_lease() {
    let (log, dict) = leased();
    assert!(errors(&dict).iter().all(Option::is_none));
    // The thread of the dictionary confirms the claim without lookups.
    let before = log.confirmed.load(SeqCst);
    std::thread::sleep(2 * LEASE);
    assert!(log.confirmed.load(SeqCst) >= before + 3);
    assert!(errors(&dict).iter().all(Option::is_none));
    // The server cannot be reached.
    log.answer.store(1, SeqCst);
    std::thread::sleep(2 * LEASE);
    let found = errors(&dict);
    assert!(found.iter().all(|kind| *kind == Some(ErrorKind::Store)), "{found:?}");
    // It can be reached again, and no other dictionary has acquired the store.
    log.answer.store(0, SeqCst);
    assert!(errors(&dict).iter().all(Option::is_none));
    dict.close().unwrap();
}

#[test]
fn a_lost_claim_stays_lost() {
    for (answer, expected) in [(2, ErrorKind::InUse), (3, ErrorKind::Corrupt)] {
        let (log, dict) = leased();
        log.answer.store(answer, SeqCst);
        std::thread::sleep(2 * LEASE);
        log.answer.store(0, SeqCst);
        let found = errors(&dict);
        assert!(found.iter().all(|kind| *kind == Some(expected)), "{found:?}");
    }
}

#[test]
fn a_store_is_acquired_once_and_released_once() {
    let log = Arc::new(Log::default());
    let store = MemoryStore::new(Layout::Clustered);
    let counts = || (log.acquired.load(SeqCst), log.released.load(SeqCst));
    let leased = || Leased(store.clone(), Arc::clone(&log));
    assert!(matches!(Dict::open(leased()), Err(Error::NotFound)));
    assert_eq!(counts(), (1, 1));
    let dict = Dict::create(leased(), busy_options(100)).unwrap();
    assert_eq!(counts(), (2, 1));
    // A store that was not acquired is not released.
    assert!(matches!(Dict::open(leased()), Err(Error::InUse)));
    assert_eq!(counts(), (3, 1));
    dict.close().unwrap();
    assert_eq!(counts(), (3, 2));
    drop(Dict::open(leased()).unwrap());
    assert_eq!(counts(), (4, 3));
}

/// The lease of the stores on servers.
const SERVER_LEASE: Duration = Duration::from_secs(5);

/// A second dictionary has taken over the store and has put a key: the first one denies it no longer than the lease
/// lasts, and must not write.
pub(crate) fn check_takeover<F: Store + 'static, S: Store + 'static>(
    first: Dict<F>,
    second: Dict<S>,
) {
    assert_eq!(second.notices().len(), 1);
    assert!(second.contains(b"a").unwrap());
    for number in 0..20 {
        assert!(!second.put(&key(number), b"2").unwrap());
    }
    let put = Instant::now();
    let mut answers = 0;
    let lost = loop {
        let asked = Instant::now();
        match first.get(&key(answers % 20)) {
            Ok(found) => assert!(found.is_some() || asked - put < SERVER_LEASE),
            Err(error) => break error,
        }
        answers += 1;
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(matches!(lost, Error::Fenced), "{lost}");
    println!("the old dictionary noticed after {:?} and {answers} answers", put.elapsed());
    assert!(matches!(first.get(b"absent"), Err(Error::Fenced)));
    assert!(matches!(first.put(b"b", b"2"), Err(Error::Fenced)));
    assert!(matches!(first.close(), Err(Error::Fenced)));
    assert!(!second.put(b"b", b"2").unwrap());
    second.close().unwrap();
}

/// The server is restarted from an old copy of its files: the dictionary notices that acknowledged writes are lost.
#[cfg(unix)]
pub(crate) fn check_old_copy(server: &mut crate::server::Server, home: &impl crate::common::Home) {
    let copy = tempfile::tempdir().unwrap();
    let files = server.folder().to_owned();
    let replace = |from: &std::path::Path, to: &std::path::Path| {
        let run = |command: &str| {
            let status = std::process::Command::new("sh").args(["-c", command]).status();
            assert!(status.unwrap().success(), "{command}");
        };
        run(&format!("rm -rf {0}/* && cp -a {1}/. {0}/", to.display(), from.display()));
    };
    let dict = Dict::create(home.create().unwrap(), busy_options(100)).unwrap();
    dict.put(b"a", b"1").unwrap();
    server.end("-INT");
    replace(&files, copy.path());
    server.start();
    let deadline = Instant::now() + Duration::from_secs(60);
    // The connections of the store are broken.
    while dict.put(b"late", b"1").is_err() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(dict.delete(b"a").unwrap());
    server.end("-INT");
    replace(copy.path(), &files);
    server.start();
    let started = Instant::now();
    let lost = loop {
        let asked = Instant::now();
        match dict.get(b"a") {
            // The store holds it again, so the answer is wrong.
            Ok(None) => assert!(asked - started < SERVER_LEASE),
            Err(Error::Store { .. }) => assert!(asked - started < 12 * SERVER_LEASE),
            Ok(Some(_)) => {}
            Err(error) => break error,
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(matches!(lost, Error::LostWrites), "{lost}");
    assert!(matches!(dict.put(b"b", b"2"), Err(Error::LostWrites)));
    let _ = dict.close();
    let dict = Dict::open(home.open().unwrap()).unwrap();
    assert!(dict.contains(b"a").unwrap() && !dict.contains(b"late").unwrap());
    assert!(dict.verify().unwrap().is_ok());
}
