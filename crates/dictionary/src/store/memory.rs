//! Everything in memory: the complete dictionary that the filter stands for, and what tests compare
//! the others with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Change, Entry, Layout, Store};
use crate::error::Error;

/// A store in memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    layout: Layout,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    /// In the secondary layout `hi` is 0, so that keys alone decide the order.
    entries: BTreeMap<(u64, Vec<u8>), Vec<u8>>,
    /// The secondary layout's.
    index: BTreeSet<(u64, Vec<u8>)>,
    notes: BTreeMap<String, Vec<u8>>,
    claimed: bool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(layout: Layout) -> Self {
        Self { layout, inside: Arc::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, hi: u64, key: &[u8]) -> (u64, Vec<u8>) {
        let hi = if self.layout == Layout::Clustered { hi } else { 0 };
        (hi, key.to_vec())
    }
}

impl Inside {
    fn keys(&self, layout: Layout, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) {
        let (start, end) = (range.start(), range.end());
        let from = Bound::Included((*start, Vec::new()));
        let to = end.checked_add(1).map_or(Bound::Unbounded, |end| Bound::Excluded((end, vec![])));
        match layout {
            Layout::Clustered => {
                self.entries.range((from, to)).for_each(|((_, key), _)| see(key));
            }
            Layout::Secondary => self.index.range((from, to)).for_each(|(_, key)| see(key)),
        }
    }
}

impl Store for MemoryStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn claim(&self) -> Result<(), Error> {
        match std::mem::replace(&mut self.inside().claimed, true) {
            true => Err(Error::InUse),
            false => Ok(()),
        }
    }

    fn release(&self) {
        self.inside().claimed = false;
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.inside().entries.get(&self.place(hi, key)).cloned())
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let inside = self.inside();
        let value = inside.entries.get(&self.place(hi, key)).cloned();
        if value.is_none() {
            inside.keys(self.layout, range, see);
        }
        Ok(value)
    }

    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.inside().keys(self.layout, range, see);
        Ok(())
    }

    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error> {
        let from = match after {
            Some((hi, key)) => Bound::Excluded(self.place(hi, key)),
            None => Bound::Unbounded,
        };
        let inside = self.inside();
        let entries = inside.entries.range((from, Bound::Unbounded)).take(most);
        Ok(entries.map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut inside = self.inside();
        let each = changes.iter().map(|change| {
            let place = self.place(change.hi, change.key);
            let before = match change.value {
                Some(value) => inside.entries.insert(place, value.to_vec()),
                None => inside.entries.remove(&place),
            };
            if self.layout == Layout::Secondary {
                let place = (change.hi, change.key.to_vec());
                match change.value {
                    Some(_) => inside.index.insert(place),
                    None => inside.index.remove(&place),
                };
            }
            before.is_some()
        });
        Ok(each.collect())
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.inside().notes.get(name).cloned())
    }

    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut inside = self.inside();
        for (name, value) in notes {
            inside.notes.insert((*name).to_owned(), value.to_vec());
        }
        Ok(())
    }
}
