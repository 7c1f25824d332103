//! Iteration over the entries of the store.

use super::Engine;
use crate::error::Error;
use crate::options::DictionaryFilter;
use crate::store::{Entry, Layout, Store};

/// An iterator over the entries of a dictionary, created by
/// [`Dictionary::iter`](crate::Dictionary::iter). It reads 512 entries per access to the store.
///
/// A damaged entry is an [`Error::Damaged`], and the iteration continues after it.
#[derive(Debug)]
pub struct Entries<'a, F: DictionaryFilter, S: Store> {
    engine: &'a Engine<F, S>,
    page: std::vec::IntoIter<Entry>,
    last: Option<(u64, Vec<u8>)>,
    done: bool,
}

impl<'a, F: DictionaryFilter, S: Store> Entries<'a, F, S> {
    pub(crate) fn new(engine: &'a Engine<F, S>) -> Self {
        Self { engine, page: Vec::new().into_iter(), last: None, done: false }
    }

    pub(crate) fn after(engine: &'a Engine<F, S>, key: &[u8]) -> Self {
        let last = Some((engine.hasher.bytes(key).hi, key.to_vec()));
        Self { last, ..Self::new(engine) }
    }

    fn read_page(&mut self) -> Result<(), Error> {
        const PAGE_LEN: usize = 512;
        let after = self.last.as_ref().map(|(hi, key)| (*hi, &**key));
        let page = self.engine.store.page(after, PAGE_LEN)?;
        self.done = page.len() < PAGE_LEN;
        if let Some(last) = page.last() {
            // Entries without a hash are in the order of their keys.
            let hi = after.map_or(0, |(hi, _)| hi);
            let last = (last.hi.unwrap_or(hi), last.key.clone());
            if self.last.as_ref().is_some_and(|previous| last <= *previous) {
                // Without this check the iteration might never end.
                return Err(Error::Corrupt { what: "the entries are not in order" });
            }
            self.last = Some(last);
        }
        self.page = page.into_iter();
        Ok(())
    }
}

impl<F: DictionaryFilter, S: Store> Iterator for Entries<'_, F, S> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 && !self.done {
            let read = self.read_page().and_then(|()| self.engine.check_claim());
            if let Err(error) = read {
                self.done = true;
                self.page = Vec::new().into_iter();
                return Some(Err(error));
            }
        }
        self.page.next().map(|entry| self.engine.check_entry(entry))
    }
}

impl<F: DictionaryFilter, S: Store> Engine<F, S> {
    /// Returns key and value of a stored entry, or [`Error::Damaged`].
    pub(super) fn check_entry(&self, entry: Entry) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let Entry { hi, key, value } = entry;
        let hash = self.hasher.bytes(&key);
        let clustered = self.store.layout() == Layout::Clustered;
        if hi.is_some_and(|hi| hi != hash.hi) && clustered {
            return Err(Error::Damaged { key, what: MISPLACED });
        }
        let value = self.unseal(&key, hash, value)?;
        Ok((key, value))
    }
}

/// The damage of a key that is not where its hash belongs.
pub(super) const MISPLACED: &str = "it is not where the hash of its key belongs";
