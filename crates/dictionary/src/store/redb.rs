//! A store in one file: a copy-on-write B-tree with transactions, by the crate `redb`. The default.

use std::ffi::OsString;
use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fmt, fs, io};

use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};

use super::creation::{UnfinishedFile, sync_folder_of, unfinished};
use super::{Change, Entry, Layout, Store, split_hash_prefix, with_hash_prefix};
use crate::error::Error;

type Bytes = &'static [u8];
const CLUSTERED: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("clustered");
const ENTRIES: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("entries");
const INDEX: TableDefinition<'_, Bytes, ()> = TableDefinition::new("index");
/// The metadata records. The name of the table is part of the file format.
const META: TableDefinition<'_, &str, Bytes> = TableDefinition::new("notes");

/// The default size of the page cache in bytes.
const CACHE_BYTES: usize = 64 << 20;

/// A store in one file, which is locked while it is open.
///
/// Every write is on disk when it returns.
///
/// # Examples
///
/// ```
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, Store, store::RedbStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("stock.redb");
/// let store = RedbStore::create(&path, Layout::Secondary)?;
/// Dictionary::<Broom, _>::create(store, Options::default().with_keys(1000))?.close()?;
/// assert_eq!(RedbStore::open(&path)?.layout(), Layout::Secondary);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RedbStore {
    layout: Layout,
    database: Database,
    /// A new file until it is published. The last field, because the database must be closed before the file
    /// is removed.
    new: Mutex<Option<NewFile>>,
}

/// A new file under its temporary name.
struct NewFile {
    temporary: UnfinishedFile,
    path: PathBuf,
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl RedbStore {
    /// Creates a file. Only its owner can read it, because it contains the hash seed.
    ///
    /// The file has the name `PATH.creating` until [`publish`](Store::publish), which
    /// [`Dictionary::create`](crate::Dictionary::create) calls. Before that it is removed on drop.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the file exists, [`Error::InUse`] if another process is creating it,
    /// and errors of `redb`.
    pub fn create(path: impl AsRef<Path>, layout: Layout) -> Result<Self, Error> {
        Self::create_with_cache(path, layout, CACHE_BYTES)
    }

    /// Creates a file as [`create`](RedbStore::create) does, with a page cache of `cache` bytes.
    ///
    /// # Errors
    ///
    /// As for [`create`](RedbStore::create).
    pub fn create_with_cache(
        path: impl AsRef<Path>,
        layout: Layout,
        cache: usize,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let exists = || path.symlink_metadata().is_ok();
        if exists() {
            return Err(Error::AlreadyExists);
        }
        let temporary = UnfinishedFile::lock(creating(path)).map_err(failed)?;
        let temporary = temporary.ok_or(Error::InUse)?;
        if exists() {
            return Err(Error::AlreadyExists);
        }
        let file = temporary.handle().map_err(failed)?;
        // An interrupted creation may have left contents.
        file.set_len(0).map_err(failed)?;
        let new = Mutex::new(Some(NewFile { temporary, path: path.to_owned() }));
        let database = Builder::new().set_cache_size(cache).create_file(file).map_err(failed)?;
        let transaction = database.begin_write().map_err(failed)?;
        match layout {
            Layout::Clustered => drop(transaction.open_table(CLUSTERED).map_err(failed)?),
            Layout::Secondary => {
                drop(transaction.open_table(ENTRIES).map_err(failed)?);
                drop(transaction.open_table(INDEX).map_err(failed)?);
            }
        }
        drop(transaction.open_table(META).map_err(failed)?);
        transaction.commit().map_err(failed)?;
        Ok(Self { layout, database, new })
    }

    /// Opens an existing file.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no such file or it holds no store, [`Error::Unfinished`] if its
    /// creation was interrupted, [`Error::InUse`] if it is open, and errors of `redb`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with_cache(path, CACHE_BYTES)
    }

    /// Opens an existing file as [`open`](RedbStore::open) does, with a page cache of `cache` bytes.
    ///
    /// # Errors
    ///
    /// As for [`open`](RedbStore::open).
    pub fn open_with_cache(path: impl AsRef<Path>, cache: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let temporary = creating(path);
        if !path.exists() && temporary.exists() {
            return Err(unfinished(&temporary));
        }
        let database = Builder::new().set_cache_size(cache).open(path).map_err(failed)?;
        let transaction = database.begin_read().map_err(failed)?;
        let names: Vec<String> = transaction
            .list_tables()
            .map_err(failed)?
            .map(|table| table.name().to_owned())
            .collect();
        let has = |name: &str| names.iter().any(|known| known == name);
        let layout = match (has(CLUSTERED.name()), has(ENTRIES.name()) && has(INDEX.name())) {
            _ if !has(META.name()) => return Err(Error::NotFound),
            (true, _) => Layout::Clustered,
            (_, true) => Layout::Secondary,
            _ => return Err(Error::NotFound),
        };
        drop(transaction);
        Ok(Self { layout, database, new: Mutex::default() })
    }

    fn table<V: redb::Value + 'static>(
        &self,
        table: TableDefinition<'_, Bytes, V>,
    ) -> Result<ReadOnlyTable<Bytes, V>, Error> {
        self.database.begin_read().map_err(failed)?.open_table(table).map_err(failed)
    }
}

/// Returns the temporary name of a new file.
fn creating(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".creating");
    PathBuf::from(name)
}

fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::DatabaseAlreadyOpen => Error::InUse,
        redb::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => Error::NotFound,
        // Unwrapped, because the wrapper repeats the message.
        redb::Error::Io(error) => Error::store("redb", error),
        error => Error::store("redb", error),
    }
}

/// Returns the first prefix of a range and the first prefix after it.
fn bounds(range: &RangeInclusive<u64>) -> (Vec<u8>, Option<Vec<u8>>) {
    let end = range.end().checked_add(1).map(|end| end.to_be_bytes().to_vec());
    (range.start().to_be_bytes().to_vec(), end)
}

fn keys<V: redb::Value + 'static>(
    table: &impl ReadableTable<Bytes, V>,
    range: &RangeInclusive<u64>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), Error> {
    let (from, to) = bounds(range);
    let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    for entry in table.range::<&[u8]>((Bound::Included(&*from), to)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (hi, key) = split_hash_prefix(entry.0.value());
        visit(hi, key);
    }
    Ok(())
}

impl Store for RedbStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    /// Does nothing: the file is locked while it is open.
    fn acquire(&self) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self) {}

    fn publish(&self) -> Result<(), Error> {
        let Some(new) = self.new.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let from = new.temporary.path();
        match fs::hard_link(from, &new.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::AlreadyExists);
            }
            // The file system has no hard links.
            Err(_) if new.path.exists() => return Err(Error::AlreadyExists),
            Err(_) => fs::rename(from, &new.path).map_err(failed)?,
            Ok(()) => {}
        }
        let NewFile { temporary, path } = new;
        drop(temporary);
        sync_folder_of(&path).map_err(failed)
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = match self.layout {
            Layout::Clustered => self.table(CLUSTERED)?.get_owned(&*with_hash_prefix(hi, key)),
            Layout::Secondary => self.table(ENTRIES)?.get_owned(key),
        };
        Ok(value.map_err(failed)?.map(|value| value.value().to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let table = self.table(CLUSTERED)?;
        let value = table.get_owned(&*with_hash_prefix(hi, key)).map_err(failed)?;
        if value.is_none() {
            keys(&table, &range, visit)?;
        }
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        match self.layout {
            Layout::Clustered => keys(&self.table(CLUSTERED)?, &range, visit),
            Layout::Secondary => keys(&self.table(INDEX)?, &range, visit),
        }
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let clustered = self.layout == Layout::Clustered;
        let table = self.table(if clustered { CLUSTERED } else { ENTRIES })?;
        let after =
            after.map(|(hi, key)| if clustered { with_hash_prefix(hi, key) } else { key.to_vec() });
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let entries = table.range::<&[u8]>((from, Bound::Unbounded)).map_err(failed)?.take(limit);
        let each = entries.map(|entry| {
            let (key, value) = entry.map_err(failed)?;
            let (hi, key) = match clustered {
                true => Some(split_hash_prefix(key.value())).unzip(),
                false => (None, Some(key.value())),
            };
            Ok(Entry::new(hi, key.unwrap_or_default().to_vec(), value.value().to_vec()))
        });
        each.collect()
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let transaction = self.database.begin_write().map_err(failed)?;
        let mut existed = vec![false; changes.len()];
        // Sorted by the order of the tree, because neighbours share pages. The sort is stable, so changes of
        // one key stay in order.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        match self.layout {
            Layout::Clustered => {
                order.sort_by_key(|at| (changes[*at].hi, changes[*at].key));
                let mut table = transaction.open_table(CLUSTERED).map_err(failed)?;
                for at in order {
                    let Change { hi, key, value, .. } = changes[at];
                    let key = with_hash_prefix(hi, key);
                    let previous = match value {
                        Some(value) => table.insert(&*key, value),
                        None => table.remove(&*key),
                    };
                    existed[at] = previous.map_err(failed)?.is_some();
                }
            }
            Layout::Secondary => {
                order.sort_by_key(|at| changes[*at].key);
                let mut entries = transaction.open_table(ENTRIES).map_err(failed)?;
                let mut index = transaction.open_table(INDEX).map_err(failed)?;
                for at in order {
                    let Change { hi, key, value, .. } = changes[at];
                    let previous = match value {
                        Some(value) => entries.insert(key, value),
                        None => entries.remove(key),
                    };
                    existed[at] = previous.map_err(failed)?.is_some();
                    let index_key = with_hash_prefix(hi, key);
                    match (value, existed[at]) {
                        (Some(_), false) => drop(index.insert(&*index_key, ()).map_err(failed)?),
                        (None, true) => drop(index.remove(&*index_key).map_err(failed)?),
                        _ => {}
                    }
                }
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(existed)
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = transaction.open_table(META).map_err(failed)?;
        let record = table.get_owned(name).map_err(failed)?;
        Ok(record.map(|record| record.value().to_vec()))
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let transaction = self.database.begin_write().map_err(failed)?;
        let mut table = transaction.open_table(META).map_err(failed)?;
        for (name, record) in records {
            table.insert(name, record).map_err(failed)?;
        }
        drop(table);
        transaction.commit().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_tables_are_part_of_the_file_format() {
        let names = [CLUSTERED.name(), ENTRIES.name(), INDEX.name(), META.name()];
        assert_eq!(names, ["clustered", "entries", "index", "notes"]);
    }
}
