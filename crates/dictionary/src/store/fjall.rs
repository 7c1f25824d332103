//! A folder, by the crate `fjall`: a log-structured merge tree, for many writes.

use std::fmt;
use std::ops::{Bound, RangeInclusive};
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::{Change, Entry, Layout, Store, joined, key_of};
use crate::error::Error;

/// Blocks kept in memory unless something else is asked for.
const CACHE: u64 = 64 << 20;
/// The tree takes no longer keys; eight bytes of them are half of the hash.
const LONGEST: usize = u16::MAX as usize - 8;

/// A store in a folder. Whoever has it open has it alone.
///
/// Every write is on disk when it returns. Keys have at most 65 527 bytes.
pub struct FjallStore {
    layout: Layout,
    database: Database,
    entries: Keyspace,
    /// The secondary layout's.
    index: Option<Keyspace>,
    notes: Keyspace,
}

impl fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl FjallStore {
    /// A new folder.
    pub fn create(path: impl AsRef<Path>, layout: Layout) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.exists() && path.read_dir().is_ok_and(|mut folder| folder.next().is_some()) {
            return Err(Error::Exists);
        }
        let database = Database::builder(path).cache_size(CACHE).open().map_err(failed)?;
        Self::with(database, layout)
    }

    /// A folder that is there.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        if !path.as_ref().is_dir() {
            return Err(Error::Missing);
        }
        let database = Database::builder(path).cache_size(CACHE).open().map_err(failed)?;
        match (database.keyspace_exists("clustered"), database.keyspace_exists("entries")) {
            (true, _) => Self::with(database, Layout::Clustered),
            (_, true) => Self::with(database, Layout::Secondary),
            _ => Err(Error::Missing),
        }
    }

    fn with(database: Database, layout: Layout) -> Result<Self, Error> {
        // Who is let in by the filter before it is nearly always found: the tree's own filters of
        // its lowest level, which are most of them, would be memory for nothing.
        let options = || KeyspaceCreateOptions::default().expect_point_read_hits(true);
        let open = |name| database.keyspace(name, options).map_err(failed);
        let (entries, index) = match layout {
            Layout::Clustered => (open("clustered")?, None),
            Layout::Secondary => (open("entries")?, Some(open("index")?)),
        };
        let notes = open("notes")?;
        Ok(Self { layout, entries, index, notes, database })
    }

    fn place(&self, hi: u64, key: &[u8]) -> Vec<u8> {
        match self.layout {
            Layout::Clustered => joined(hi, key),
            // The tree takes no empty keys.
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
    of: &Keyspace,
    at: &Snapshot,
    range: &RangeInclusive<u64>,
    see: &mut dyn FnMut(&[u8]),
) -> Result<(), Error> {
    let from = Bound::Included(range.start().to_be_bytes());
    let to = range.end().checked_add(1);
    let to = to.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_be_bytes()));
    for entry in at.range(of, (from, to)) {
        see(key_of(&entry.key().map_err(failed)?));
    }
    Ok(())
}

impl Store for FjallStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn longest_key(&self) -> usize {
        LONGEST
    }

    /// The folder is locked as long as it is open.
    fn claim(&self) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self) {}

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = self.entries.get(self.place(hi, key)).map_err(failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let at = self.database.snapshot();
        let value = at.get(&self.entries, joined(hi, key)).map_err(failed)?;
        if value.is_none() {
            keys(&self.entries, &at, &range, see)?;
        }
        Ok(value.map(|value| value.to_vec()))
    }

    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let of = self.index.as_ref().unwrap_or(&self.entries);
        keys(of, &self.database.snapshot(), &range, see)
    }

    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error> {
        let after = after.map(|(hi, key)| self.place(hi, key));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded)).take(most);
        let each = entries.map(|entry| {
            let (key, value) = entry.into_inner().map_err(failed)?;
            let key = if self.index.is_some() { &key[1..] } else { key_of(&key) };
            Ok((key.to_vec(), value.to_vec()))
        });
        each.collect()
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        let mut had = Vec::with_capacity(changes.len());
        // What the batch itself has put or deleted, which the tree does not know yet.
        let mut within = std::collections::HashMap::new();
        for change in changes {
            let Change { hi, key, value, new } = *change;
            let place = self.place(hi, key);
            let before = match within.insert(key, value.is_some()) {
                Some(before) => before,
                None if new => false,
                None => self.entries.contains_key(&place).map_err(failed)?,
            };
            had.push(before);
            match value {
                Some(value) => batch.insert(&self.entries, place, value),
                None => batch.remove(&self.entries, place),
            }
            if let Some(index) = &self.index {
                match value {
                    Some(_) => batch.insert(index, joined(hi, key), []),
                    None => batch.remove(index, joined(hi, key)),
                }
            }
        }
        batch.commit().map_err(failed)?;
        Ok(had)
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.notes.get(name).map_err(failed)?.map(|note| note.to_vec()))
    }

    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (name, note) in notes {
            batch.insert(&self.notes, *name, *note);
        }
        batch.commit().map_err(failed)
    }
}
