//! Stores and options for the tests.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use redis::FromRedisValue;
use tamis::Broom;
use tamis_dictionary::store::{self, AnyStore, Change, Entry, MemoryStore, RedbStore};
use tamis_dictionary::{Dictionary, Error, Layout, Options, Store};
use tempfile::TempDir;

pub(crate) const LAYOUTS: [Layout; 2] = [Layout::Clustered, Layout::Secondary];

pub(crate) type Dict<S> = Dictionary<Broom, S>;

/// A location where a store can be created and reopened.
pub(crate) trait Home {
    type Store: Store + 'static;
    fn create(&self) -> Result<Self::Store, Error>;
    fn open(&self) -> Result<Self::Store, Error>;
    /// Returns what is at the location: files, tables or names on the server.
    fn contents(&self) -> Vec<String>;
    /// Replaces bytes inside the entries of the closed store by as many others.
    fn damage(&self, from: &[u8], to: &[u8]);
}

/// Replaces every occurrence of `from`. Returns whether there was one.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) -> bool {
    let starts: Vec<usize> =
        (0..bytes.len()).filter(|start| bytes[*start..].starts_with(from)).collect();
    starts.iter().for_each(|start| bytes[*start..][..to.len()].copy_from_slice(to));
    !starts.is_empty()
}

/// Replaces bytes by means of the store.
fn replace_in_store(store: &impl Store, from: &[u8], to: &[u8]) {
    let mut keys = Vec::new();
    store.keys(0..=u64::MAX, &mut |hi, key| keys.push((hi, key.to_vec()))).unwrap();
    for (hi, key) in keys {
        let (mut new_key, mut new_value) = (key.clone(), store.get(hi, &key).unwrap().unwrap());
        if replace(&mut new_key, from, to) | replace(&mut new_value, from, to) {
            store.apply(&[Change::delete(hi, &key)]).unwrap();
            store.apply(&[Change::put(hi, &new_key, &new_value)]).unwrap();
        }
    }
}

/// Replaces bytes in a file, or in all files of a folder.
pub(crate) fn replace_in_files(path: &Path, from: &[u8], to: &[u8]) -> bool {
    if path.is_dir() {
        let entries = path.read_dir().unwrap().map(|entry| entry.unwrap().path());
        return entries.filter(|path| replace_in_files(path, from, to)).count() > 0;
    }
    let mut bytes = std::fs::read(path).unwrap();
    let found = replace(&mut bytes, from, to);
    if found {
        std::fs::write(path, bytes).unwrap();
    }
    found
}

fn replace_in_redis(address: &str, name: &str, from: &[u8], to: &[u8]) {
    let mut connection = redis::Client::open(address).unwrap().get_connection().unwrap();
    let mut run = |words: &[&[u8]]| {
        let mut command = redis::cmd(std::str::from_utf8(words[0]).unwrap());
        command.arg(&words[1..]).query::<redis::Value>(&mut connection).unwrap()
    };
    let bytes = |value| Vec::<Vec<u8>>::from_redis_value(value).unwrap();
    for hash in bytes(run(&[b"KEYS", format!("{{{name}}}:*").as_bytes()])) {
        if hash.ends_with(b":index") {
            for member in bytes(run(&[b"ZRANGE", &hash, b"0", b"-1"])) {
                let mut changed = member.clone();
                if replace(&mut changed, from, to) {
                    run(&[b"ZREM", &hash, &member]);
                    run(&[b"ZADD", &hash, b"0", &changed]);
                }
            }
        } else if run(&[b"TYPE", &hash]) == redis::Value::SimpleString("hash".into()) {
            for [field, value] in bytes(run(&[b"HGETALL", &hash])).as_chunks().0 {
                let (mut new_field, mut new_value) = (field.clone(), value.clone());
                if replace(&mut new_field, from, to) | replace(&mut new_value, from, to) {
                    run(&[b"HDEL", &hash, field]);
                    run(&[b"HSET", &hash, &new_field, &new_value]);
                }
            }
        }
    }
}

fn replace_in_postgres(address: &str, name: &str, from: &[u8], to: &[u8]) {
    let mut client = postgres::Client::connect(address, postgres::NoTls).unwrap();
    let columns = "select table_name::text, column_name::text from information_schema.columns
        where table_name::text in ($1::text, $1 || '_index')
        and column_name::text in ('key', 'value')";
    for row in client.query(columns, &[&name]).unwrap() {
        let (table, column): (String, String) = (row.get(0), row.get(1));
        let update = format!(
            "update {table} set {column} = overlay({column} placing $2 from position($1 in {column}))
             where position($1 in {column}) > 0"
        );
        client.execute(&update, &[&from, &to]).unwrap();
    }
}

impl Home for MemoryStore {
    type Store = Self;

    fn create(&self) -> Result<Self, Error> {
        Ok(self.clone())
    }

    fn open(&self) -> Result<Self, Error> {
        Ok(self.clone())
    }

    fn contents(&self) -> Vec<String> {
        self.meta("state").unwrap().map(|_| "state".to_owned()).into_iter().collect()
    }

    fn damage(&self, from: &[u8], to: &[u8]) {
        replace_in_store(self, from, to);
    }
}

/// A location given as a string.
pub(crate) struct Named {
    pub(crate) location: String,
    pub(crate) layout: Layout,
    /// Deleted on drop, after the store.
    pub(crate) folder: Option<TempDir>,
}

impl Named {
    /// Returns a location in a new temporary folder.
    pub(crate) fn in_temp_folder(name: &str, layout: Layout) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = folder.path().join(name).to_str().unwrap().to_owned();
        Self { location, layout, folder: Some(folder) }
    }
}

impl Home for Named {
    type Store = AnyStore;

    fn create(&self) -> Result<AnyStore, Error> {
        store::create(&self.location, self.layout)
    }

    fn open(&self) -> Result<AnyStore, Error> {
        store::open(&self.location)
    }

    fn contents(&self) -> Vec<String> {
        if let Some(folder) = &self.folder {
            let names = folder.path().read_dir().unwrap();
            return names.map(|entry| format!("{:?}", entry.unwrap().file_name())).collect();
        }
        let (address, name) = self.location.split_once('#').unwrap();
        if address.starts_with("redis") {
            let mut connection = redis::Client::open(address).unwrap().get_connection().unwrap();
            let pattern = format!("{{{name}}}:*");
            return redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap();
        }
        let mut client = postgres::Client::connect(address, postgres::NoTls).unwrap();
        let relations = "select relname::text from pg_class
            where relkind in ('r', 'S')
            and (relname::text = $1::text or starts_with(relname::text, $1 || '_'))";
        client.query(relations, &[&name]).unwrap().iter().map(|row| row.get(0)).collect()
    }

    fn damage(&self, from: &[u8], to: &[u8]) {
        match self.location.split_once('#') {
            // fjall has checksums of its own and does not open a changed file.
            None if Path::new(&self.location).is_dir() => {
                replace_in_store(&self.open().unwrap(), from, to);
            }
            None => assert!(replace_in_files(Path::new(&self.location), from, to)),
            Some((address, name)) if address.starts_with("redis") => {
                replace_in_redis(address, name, from, to);
            }
            Some((address, name)) => replace_in_postgres(address, name, from, to),
        }
    }
}

/// A temporary folder with a redb file.
pub(crate) struct RedbHome {
    pub(crate) folder: TempDir,
    pub(crate) layout: Layout,
}

impl RedbHome {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), layout }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("dict.redb")
    }

    pub(crate) fn create(&self) -> RedbStore {
        RedbStore::create(self.path(), self.layout).unwrap()
    }

    pub(crate) fn open(&self) -> RedbStore {
        RedbStore::open(self.path()).unwrap()
    }
}

/// Returns options with a small capacity and a high false positive rate, so that growth and repairs are frequent.
pub(crate) fn busy_options(keys: u64) -> Options {
    Options::default().with_keys(keys).with_fpr(0.035)
}

pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Counts the calls of a store and injects faults.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) gets: AtomicU64,
    pub(crate) scans: AtomicU64,
    pub(crate) applies: AtomicU64,
    pub(crate) metas: AtomicU64,
    /// The number of calls after which all calls fail.
    pub(crate) fuse: Fuse,
    /// The fault of the next write: 0 for none, 1 to fail after the commit, 2 to fail before it.
    pub(crate) write_fault: AtomicU64,
    /// The delay of each call in microseconds.
    pub(crate) delay: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Fuse(pub(crate) AtomicU64);

impl Default for Fuse {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Watch {
    fn call(&self, counter: &AtomicU64) -> Result<(), Error> {
        counter.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_micros(self.delay.load(SeqCst)));
        let left = |left: u64| if left == u64::MAX { None } else { Some(left.saturating_sub(1)) };
        match self.fuse.0.fetch_update(SeqCst, SeqCst, left) {
            Ok(0) => Err(Error::store("test", "unreachable")),
            _ => Ok(()),
        }
    }

    /// Returns and resets the numbers of gets, scans and writes.
    pub(crate) fn take(&self) -> [u64; 3] {
        [&self.gets, &self.scans, &self.applies].map(|counter| counter.swap(0, SeqCst))
    }
}

/// A store whose calls are counted and can be made to fail.
pub(crate) struct Watched<S>(pub(crate) S, pub(crate) Arc<Watch>);

impl<S: Store> Store for Watched<S> {
    fn layout(&self) -> Layout {
        self.0.layout()
    }

    fn acquire(&self) -> Result<(), Error> {
        self.0.acquire()
    }

    fn release(&self) {
        self.0.release();
    }

    fn publish(&self) -> Result<(), Error> {
        self.1.call(&self.1.metas)?;
        self.0.publish()
    }

    fn lease(&self) -> Option<Duration> {
        self.0.lease()
    }

    fn confirm(&self) -> Result<(), Error> {
        self.0.confirm()
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.1.call(&self.1.gets)?;
        self.0.get(hi, key)
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        self.1.call(&self.1.gets)?;
        self.0.get_or_keys(hi, key, range, visit)
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        self.1.call(&self.1.scans)?;
        self.0.keys(range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        self.1.call(&self.1.scans)?;
        self.0.page(after, limit)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        self.1.call(&self.1.applies)?;
        match self.1.write_fault.swap(0, SeqCst) {
            0 => self.0.apply(changes),
            1 => {
                self.0.apply(changes)?;
                Err(Error::store("test", "the connection broke after the commit"))
            }
            _ => Err(Error::store("test", "the connection broke before the commit")),
        }
    }

    fn barrier(&self) -> Result<(), Error> {
        self.1.call(&self.1.metas)?;
        self.0.barrier()
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.1.call(&self.1.metas)?;
        self.0.meta(name)
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        self.1.call(&self.1.metas)?;
        self.0.set_meta(records)
    }
}
