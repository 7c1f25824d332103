//! A store in a folder: a log-structured merge tree, for many writes, by the crate `fjall`.

use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fmt, fs, io};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::creation::{UnfinishedFile, sync_folder_of, unfinished};
use super::{Change, Entry, Layout, Store, split_hash_prefix, with_hash_prefix};
use crate::error::Error;

/// The size of the block cache in bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// The longest key of the tree, less 8 bytes for `hi`.
const MAX_KEY_LEN: usize = u16::MAX as usize - 8;
/// The name of a file in a folder whose creation is unfinished.
const UNFINISHED: &str = "creating";

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
    /// A new folder until it is published. The last field, because the database must be closed before the
    /// folder is removed.
    new: Mutex<Option<NewFolder>>,
}

/// A new folder. Its contents are removed on drop unless it was published.
struct NewFolder {
    marker: Option<UnfinishedFile>,
    path: PathBuf,
    /// Whether the folder did not exist before.
    created: bool,
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let Some(marker) = self.marker.take() else { return };
        // If this fails, the marker stays or the folder is empty; either way the next creation succeeds.
        let cleared = clear(&self.path);
        if cleared.is_ok() {
            drop(marker);
            if self.created {
                let _ = fs::remove_dir(&self.path);
            }
        } else {
            std::mem::forget(marker);
        }
    }
}

/// Removes the contents of a folder except the marker of an unfinished creation.
fn clear(path: &Path) -> io::Result<()> {
    for entry in path.read_dir()? {
        let entry = entry?;
        if entry.file_name() == UNFINISHED {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

impl fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl FjallStore {
    /// Creates a folder.
    ///
    /// It contains a file `creating` until [`publish`](Store::publish), which
    /// [`Dictionary::create`](crate::Dictionary::create) calls. Before that it is removed on drop.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the folder is not empty, [`Error::InUse`] if another process is
    /// creating it, and errors of `fjall`.
    pub fn create(path: impl AsRef<Path>, layout: Layout) -> Result<Self, Error> {
        let path = path.as_ref();
        let marker = path.join(UNFINISHED);
        let created = !path.exists();
        if !created {
            let mut contents = path.read_dir().map_err(io_failed)?;
            if contents.next().is_some() && !marker.exists() {
                return Err(Error::AlreadyExists);
            }
        }
        fs::create_dir_all(path).map_err(io_failed)?;
        let marker = UnfinishedFile::lock(marker).map_err(io_failed)?.ok_or(Error::InUse)?;
        let new = NewFolder { marker: Some(marker), path: path.to_owned(), created };
        // An interrupted creation may have left contents.
        clear(path).map_err(io_failed)?;
        let database = Database::builder(path).cache_size(CACHE_BYTES).open().map_err(failed)?;
        let store = Self::new(database, layout)?;
        Ok(Self { new: Mutex::new(Some(new)), ..store })
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no such folder or it holds no store, [`Error::Unfinished`] if its
    /// creation was interrupted, [`Error::InUse`] if it is open, and errors of `fjall`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Err(Error::NotFound);
        }
        let marker = path.join(UNFINISHED);
        if marker.exists() {
            return Err(unfinished(&marker));
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
        Ok(Self { layout, entries, index, meta, database, new: Mutex::default() })
    }

    fn entry_key(&self, hi: u64, key: &[u8]) -> Vec<u8> {
        match self.layout {
            Layout::Clustered => with_hash_prefix(hi, key),
            // The prefix is needed because the tree supports no empty keys.
            Layout::Secondary => [&[0], key].concat(),
        }
    }
}

fn io_failed(error: io::Error) -> Error {
    Error::store("fjall", error)
}

fn failed(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Locked => Error::InUse,
        fjall::Error::Io(error) => io_failed(error),
        error => Error::store("fjall", error),
    }
}

fn keys(
    keyspace: &Keyspace,
    snapshot: &Snapshot,
    range: &RangeInclusive<u64>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), Error> {
    let from = Bound::Included(range.start().to_be_bytes());
    let to = range.end().checked_add(1);
    let to = to.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_be_bytes()));
    for entry in snapshot.range(keyspace, (from, to)) {
        let prefixed = entry.key().map_err(failed)?;
        let (hi, key) = split_hash_prefix(&prefixed);
        visit(hi, key);
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

    fn publish(&self) -> Result<(), Error> {
        let Some(mut new) = self.new.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let Some(marker) = new.marker.take() else { return Ok(()) };
        let path = marker.path().to_owned();
        drop(marker);
        if path.exists() {
            return Err(io_failed(io::Error::other("the file `creating` could not be removed")));
        }
        sync_folder_of(&path).and_then(|()| sync_folder_of(&new.path)).map_err(io_failed)
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = self.entries.get(self.entry_key(hi, key)).map_err(failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let snapshot = self.database.snapshot();
        let value = snapshot.get(&self.entries, with_hash_prefix(hi, key)).map_err(failed)?;
        if value.is_none() {
            keys(&self.entries, &snapshot, &range, visit)?;
        }
        Ok(value.map(|value| value.to_vec()))
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        let keyspace = self.index.as_ref().unwrap_or(&self.entries);
        keys(keyspace, &self.database.snapshot(), &range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let after = after.map(|(hi, key)| self.entry_key(hi, key));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded)).take(limit);
        let each = entries.map(|entry| {
            let (key, value) = entry.into_inner().map_err(failed)?;
            let (hi, key) = match self.layout {
                Layout::Clustered => Some(split_hash_prefix(&key)).unzip(),
                Layout::Secondary => (None, key.get(1..)),
            };
            Ok(Entry::new(hi, key.unwrap_or_default().to_vec(), value.to_vec()))
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
