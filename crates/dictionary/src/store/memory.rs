//! A store in memory, for tests and as a reference for the other stores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Change, Entry, Layout, Store};
use crate::error::Error;

/// A store in memory. Clones share their contents.
///
/// # Examples
///
/// ```
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store::MemoryStore};
///
/// let store = MemoryStore::new(Layout::Secondary);
/// let dictionary = Dictionary::<Broom, _>::create(store, Options::default())?;
/// dictionary.put(b"key", b"value")?;
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    layout: Layout,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// In the secondary layout the `hi` of every entry is 0, so that the entries are in key order.
    entries: BTreeMap<(u64, Vec<u8>), Vec<u8>>,
    /// Empty in the clustered layout.
    index: BTreeSet<(u64, Vec<u8>)>,
    meta: BTreeMap<String, Vec<u8>>,
    acquired: bool,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(layout: Layout) -> Self {
        Self { layout, inner: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry_key(&self, hi: u64, key: &[u8]) -> (u64, Vec<u8>) {
        let hi = if self.layout == Layout::Clustered { hi } else { 0 };
        (hi, key.to_vec())
    }
}

impl Inner {
    fn keys(&self, layout: Layout, range: RangeInclusive<u64>, visit: &mut dyn FnMut(&[u8])) {
        let (start, end) = (range.start(), range.end());
        let from = Bound::Included((*start, Vec::new()));
        let to = end.checked_add(1).map_or(Bound::Unbounded, |end| Bound::Excluded((end, vec![])));
        match layout {
            Layout::Clustered => {
                self.entries.range((from, to)).for_each(|((_, key), _)| visit(key));
            }
            Layout::Secondary => self.index.range((from, to)).for_each(|(_, key)| visit(key)),
        }
    }
}

impl Store for MemoryStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn acquire(&self) -> Result<(), Error> {
        match std::mem::replace(&mut self.lock().acquired, true) {
            true => Err(Error::InUse),
            false => Ok(()),
        }
    }

    fn release(&self) {
        self.lock().acquired = false;
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.lock().entries.get(&self.entry_key(hi, key)).cloned())
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let inner = self.lock();
        let value = inner.entries.get(&self.entry_key(hi, key)).cloned();
        if value.is_none() {
            inner.keys(self.layout, range, visit);
        }
        Ok(value)
    }

    fn keys(&self, range: RangeInclusive<u64>, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.lock().keys(self.layout, range, visit);
        Ok(())
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let from = match after {
            Some((hi, key)) => Bound::Excluded(self.entry_key(hi, key)),
            None => Bound::Unbounded,
        };
        let inner = self.lock();
        let entries = inner.entries.range((from, Bound::Unbounded)).take(limit);
        Ok(entries.map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut inner = self.lock();
        let each = changes.iter().map(|change| {
            let entry_key = self.entry_key(change.hi, change.key);
            let previous = match change.value {
                Some(value) => inner.entries.insert(entry_key, value.to_vec()),
                None => inner.entries.remove(&entry_key),
            };
            if self.layout == Layout::Secondary {
                let index_key = (change.hi, change.key.to_vec());
                match change.value {
                    Some(_) => inner.index.insert(index_key),
                    None => inner.index.remove(&index_key),
                };
            }
            previous.is_some()
        });
        Ok(each.collect())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.lock().meta.get(name).cloned())
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut inner = self.lock();
        for (name, record) in records {
            inner.meta.insert((*name).to_owned(), record.to_vec());
        }
        Ok(())
    }
}
