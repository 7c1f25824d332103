//! A store in a folder: a log-structured merge tree, for many writes, by the crate `fjall`.

use std::fmt;
use std::ops::{Bound, RangeInclusive};
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::{Change, Entry, Layout, Store, with_hash_prefix, without_hash_prefix};
use crate::error::Error;

/// The size of the block cache in bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// The longest key of the tree, less 8 bytes for `hi`.
const MAX_KEY_LEN: usize = u16::MAX as usize - 8;

/// A store in a folder, which is locked while it is open.
///
/// Every write is on disk when it returns. Keys have at most 65,527 bytes.
///
/// # Examples
///
/// ```
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store::FjallStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("stock");
/// let store = FjallStore::create(&path, Layout::Clustered)?;
/// let stock = Dictionary::<Broom, _>::create(store, Options::default().with_keys(1000))?;
/// stock.put(b"apple", b"3")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct FjallStore {
    layout: Layout,
    database: Database,
    entries: Keyspace,
    /// Present in the secondary layout.
    index: Option<Keyspace>,
    meta: Keyspace,
}

impl fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl FjallStore {
    /// Creates a folder.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the folder is not empty, and errors of `fjall`.
    pub fn create(path: impl AsRef<Path>, layout: Layout) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.exists() && path.read_dir().is_ok_and(|mut folder| folder.next().is_some()) {
            return Err(Error::AlreadyExists);
        }
        let database = Database::builder(path).cache_size(CACHE_BYTES).open().map_err(failed)?;
        Self::new(database, layout)
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no such folder or it holds no store, [`Error::InUse`] if it is
    /// open, and errors of `fjall`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        if !path.as_ref().is_dir() {
            return Err(Error::NotFound);
        }
        let database = Database::builder(path).cache_size(CACHE_BYTES).open().map_err(failed)?;
        match (database.keyspace_exists("clustered"), database.keyspace_exists("entries")) {
            (true, _) => Self::new(database, Layout::Clustered),
            (_, true) => Self::new(database, Layout::Secondary),
            _ => Err(Error::NotFound),
        }
    }

    fn new(database: Database, layout: Layout) -> Result<Self, Error> {
        // The dictionary's filter rejects most absent keys, so nearly every read finds its key. The tree
        // then needs no filters of its own at its lowest level, which would take most of their memory.
        let options = || KeyspaceCreateOptions::default().expect_point_read_hits(true);
        let open = |name| database.keyspace(name, options).map_err(failed);
        let (entries, index) = match layout {
            Layout::Clustered => (open("clustered")?, None),
            Layout::Secondary => (open("entries")?, Some(open("index")?)),
        };
        // The name of the keyspace is part of the file format.
        let meta = open("notes")?;
        Ok(Self { layout, entries, index, meta, database })
    }

    fn entry_key(&self, hi: u64, key: &[u8]) -> Vec<u8> {
        match self.layout {
            Layout::Clustered => with_hash_prefix(hi, key),
            // The prefix is needed because the tree supports no empty keys.
            Layout::Secondary => [&[0], key].concat(),
        }
    }
}

fn failed(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Locked => Error::InUse,
        fjall::Error::Io(error) => Error::store("fjall", error),
        error => Error::store("fjall", error),
    }
}

fn keys(
    keyspace: &Keyspace,
    snapshot: &Snapshot,
    range: &RangeInclusive<u64>,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<(), Error> {
    let from = Bound::Included(range.start().to_be_bytes());
    let to = range.end().checked_add(1);
    let to = to.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_be_bytes()));
    for entry in snapshot.range(keyspace, (from, to)) {
        visit(without_hash_prefix(&entry.key().map_err(failed)?));
    }
    Ok(())
}

impl Store for FjallStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn max_key_len(&self) -> usize {
        MAX_KEY_LEN
    }

    /// Does nothing: the folder is locked while it is open.
    fn acquire(&self) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self) {}

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = self.entries.get(self.entry_key(hi, key)).map_err(failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let snapshot = self.database.snapshot();
        let value = snapshot.get(&self.entries, with_hash_prefix(hi, key)).map_err(failed)?;
        if value.is_none() {
            keys(&self.entries, &snapshot, &range, visit)?;
        }
        Ok(value.map(|value| value.to_vec()))
    }

    fn keys(&self, range: RangeInclusive<u64>, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let keyspace = self.index.as_ref().unwrap_or(&self.entries);
        keys(keyspace, &self.database.snapshot(), &range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let after = after.map(|(hi, key)| self.entry_key(hi, key));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded)).take(limit);
        let each = entries.map(|entry| {
            let (key, value) = entry.into_inner().map_err(failed)?;
            let key = if self.index.is_some() { &key[1..] } else { without_hash_prefix(&key) };
            Ok((key.to_vec(), value.to_vec()))
        });
        each.collect()
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        let mut existed = Vec::with_capacity(changes.len());
        // Whether the keys of this batch are present after its changes so far; the tree does not know yet.
        let mut in_batch = std::collections::HashMap::new();
        for change in changes {
            let Change { hi, key, value, is_new } = *change;
            let entry_key = self.entry_key(hi, key);
            let previous = match in_batch.insert(key, value.is_some()) {
                Some(previous) => previous,
                None if is_new => false,
                None => self.entries.contains_key(&entry_key).map_err(failed)?,
            };
            existed.push(previous);
            match value {
                Some(value) => batch.insert(&self.entries, entry_key, value),
                None => batch.remove(&self.entries, entry_key),
            }
            if let Some(index) = &self.index {
                match value {
                    Some(_) => batch.insert(index, with_hash_prefix(hi, key), []),
                    None => batch.remove(index, with_hash_prefix(hi, key)),
                }
            }
        }
        batch.commit().map_err(failed)?;
        Ok(existed)
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.meta.get(name).map_err(failed)?.map(|record| record.to_vec()))
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (name, record) in records {
            batch.insert(&self.meta, *name, *record);
        }
        batch.commit().map_err(failed)
    }
}
