//! A store in one file: a copy-on-write B-tree with transactions, by the crate `redb`. The default.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::ops::{Bound, RangeInclusive};
use std::path::Path;

use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};

use super::{Change, Entry, Layout, Store, with_hash_prefix, without_hash_prefix};
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
/// use tamis_dictionary::{Layout, Store, store::RedbStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("stock.redb");
/// drop(RedbStore::create(&path, Layout::Secondary)?);
/// assert_eq!(RedbStore::open(&path)?.layout(), Layout::Secondary);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RedbStore {
    layout: Layout,
    database: Database,
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl RedbStore {
    /// Creates a file. Only its owner can read it, because it contains the hash seed.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the file exists, and errors of `redb`.
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
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::AlreadyExists);
            }
            opened => opened.map_err(failed)?,
        };
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
        Ok(Self { layout, database })
    }

    /// Opens an existing file.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no such file or it holds no store, [`Error::InUse`] if it is
    /// open, and errors of `redb`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with_cache(path, CACHE_BYTES)
    }

    /// Opens an existing file as [`open`](RedbStore::open) does, with a page cache of `cache` bytes.
    ///
    /// # Errors
    ///
    /// As for [`open`](RedbStore::open).
    pub fn open_with_cache(path: impl AsRef<Path>, cache: usize) -> Result<Self, Error> {
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
        Ok(Self { layout, database })
    }

    fn table<V: redb::Value + 'static>(
        &self,
        table: TableDefinition<'_, Bytes, V>,
    ) -> Result<ReadOnlyTable<Bytes, V>, Error> {
        self.database.begin_read().map_err(failed)?.open_table(table).map_err(failed)
    }
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
    visit: &mut dyn FnMut(&[u8]),
) -> Result<(), Error> {
    let (from, to) = bounds(range);
    let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    for entry in table.range::<&[u8]>((Bound::Included(&*from), to)).map_err(failed)? {
        visit(without_hash_prefix(entry.map_err(failed)?.0.value()));
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
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let table = self.table(CLUSTERED)?;
        let value = table.get_owned(&*with_hash_prefix(hi, key)).map_err(failed)?;
        if value.is_none() {
            keys(&table, &range, visit)?;
        }
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn keys(&self, range: RangeInclusive<u64>, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
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
            let key = if clustered { without_hash_prefix(key.value()) } else { key.value() };
            Ok((key.to_vec(), value.value().to_vec()))
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
