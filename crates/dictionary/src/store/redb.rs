//! One file, by the crate `redb`: a tree of pages with transactions. The default.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::ops::{Bound, RangeInclusive};
use std::path::Path;

use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};

use super::{Change, Entry, Layout, Store, joined, key_of};
use crate::error::Error;

type Bytes = &'static [u8];
const CLUSTERED: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("clustered");
const ENTRIES: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("entries");
const INDEX: TableDefinition<'_, Bytes, ()> = TableDefinition::new("index");
const NOTES: TableDefinition<'_, &str, Bytes> = TableDefinition::new("notes");

/// Pages kept in memory unless something else is asked for.
const CACHE: usize = 64 << 20;

/// A store in one file. Whoever has it open has it alone.
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
    /// A new file, which only its owner can read: the seed of the hash is in it.
    pub fn create(path: impl AsRef<Path>, layout: Layout) -> Result<Self, Error> {
        Self::create_with_cache(path, layout, CACHE)
    }

    /// The same with so many bytes of pages in memory.
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
                return Err(Error::Exists);
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
        drop(transaction.open_table(NOTES).map_err(failed)?);
        transaction.commit().map_err(failed)?;
        Ok(Self { layout, database })
    }

    /// A file that is there.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with_cache(path, CACHE)
    }

    /// The same with so many bytes of pages in memory.
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
            _ if !has(NOTES.name()) => return Err(Error::Missing),
            (true, _) => Layout::Clustered,
            (_, true) => Layout::Secondary,
            _ => return Err(Error::Missing),
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
        redb::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => Error::Missing,
        // It says the same, once more.
        redb::Error::Io(error) => Error::store("redb", error),
        error => Error::store("redb", error),
    }
}

/// Where the keys of a range begin and end.
fn bounds(range: &RangeInclusive<u64>) -> (Vec<u8>, Option<Vec<u8>>) {
    let end = range.end().checked_add(1).map(|end| end.to_be_bytes().to_vec());
    (range.start().to_be_bytes().to_vec(), end)
}

fn keys<V: redb::Value + 'static>(
    table: &impl ReadableTable<Bytes, V>,
    range: &RangeInclusive<u64>,
    see: &mut dyn FnMut(&[u8]),
) -> Result<(), Error> {
    let (from, to) = bounds(range);
    let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    for entry in table.range::<&[u8]>((Bound::Included(&*from), to)).map_err(failed)? {
        see(key_of(entry.map_err(failed)?.0.value()));
    }
    Ok(())
}

impl Store for RedbStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    /// The file is locked as long as it is open.
    fn claim(&self) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self) {}

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = match self.layout {
            Layout::Clustered => self.table(CLUSTERED)?.get_owned(&*joined(hi, key)),
            Layout::Secondary => self.table(ENTRIES)?.get_owned(key),
        };
        Ok(value.map_err(failed)?.map(|value| value.value().to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let table = self.table(CLUSTERED)?;
        let value = table.get_owned(&*joined(hi, key)).map_err(failed)?;
        if value.is_none() {
            keys(&table, &range, see)?;
        }
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        match self.layout {
            Layout::Clustered => keys(&self.table(CLUSTERED)?, &range, see),
            Layout::Secondary => keys(&self.table(INDEX)?, &range, see),
        }
    }

    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error> {
        let clustered = self.layout == Layout::Clustered;
        let table = self.table(if clustered { CLUSTERED } else { ENTRIES })?;
        let after = after.map(|(hi, key)| if clustered { joined(hi, key) } else { key.to_vec() });
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let entries = table.range::<&[u8]>((from, Bound::Unbounded)).map_err(failed)?.take(most);
        let each = entries.map(|entry| {
            let (key, value) = entry.map_err(failed)?;
            let key = if clustered { key_of(key.value()) } else { key.value() };
            Ok((key.to_vec(), value.value().to_vec()))
        });
        each.collect()
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let transaction = self.database.begin_write().map_err(failed)?;
        let mut had = vec![false; changes.len()];
        // In the order of the tree neighbours share pages; changes of one key keep theirs.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        match self.layout {
            Layout::Clustered => {
                order.sort_by_key(|at| (changes[*at].hi, changes[*at].key));
                let mut table = transaction.open_table(CLUSTERED).map_err(failed)?;
                for at in order {
                    let Change { hi, key, value, .. } = changes[at];
                    let key = joined(hi, key);
                    let before = match value {
                        Some(value) => table.insert(&*key, value),
                        None => table.remove(&*key),
                    };
                    had[at] = before.map_err(failed)?.is_some();
                }
            }
            Layout::Secondary => {
                order.sort_by_key(|at| changes[*at].key);
                let mut entries = transaction.open_table(ENTRIES).map_err(failed)?;
                let mut index = transaction.open_table(INDEX).map_err(failed)?;
                for at in order {
                    let Change { hi, key, value, .. } = changes[at];
                    let before = match value {
                        Some(value) => entries.insert(key, value),
                        None => entries.remove(key),
                    };
                    had[at] = before.map_err(failed)?.is_some();
                    let place = joined(hi, key);
                    match (value, had[at]) {
                        (Some(_), false) => drop(index.insert(&*place, ()).map_err(failed)?),
                        (None, true) => drop(index.remove(&*place).map_err(failed)?),
                        _ => {}
                    }
                }
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(had)
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = transaction.open_table(NOTES).map_err(failed)?;
        let note = table.get_owned(name).map_err(failed)?;
        Ok(note.map(|note| note.value().to_vec()))
    }

    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error> {
        let transaction = self.database.begin_write().map_err(failed)?;
        let mut table = transaction.open_table(NOTES).map_err(failed)?;
        for (name, note) in notes {
            table.insert(name, note).map_err(failed)?;
        }
        drop(table);
        transaction.commit().map_err(failed)
    }
}
