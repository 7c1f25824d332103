//! Iteration over the entries of the store.

use super::Engine;
use crate::error::Error;
use crate::options::DictionaryFilter;
use crate::store::{Entry, Store};

/// An iterator over the entries of a dictionary, created by
/// [`Dictionary::iter`](crate::Dictionary::iter). It reads 512 entries per access to the store.
#[derive(Debug)]
pub struct Entries<'a, F: DictionaryFilter, S: Store> {
    engine: &'a Engine<F, S>,
    page: std::vec::IntoIter<Entry>,
    last: Option<Vec<u8>>,
    done: bool,
}

impl<'a, F: DictionaryFilter, S: Store> Entries<'a, F, S> {
    pub(crate) fn new(engine: &'a Engine<F, S>) -> Self {
        Self { engine, page: Vec::new().into_iter(), last: None, done: false }
    }
}

impl<F: DictionaryFilter, S: Store> Iterator for Entries<'_, F, S> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        const PAGE_LEN: usize = 512;
        if self.page.len() == 0 && !self.done {
            let after = self.last.as_deref().map(|key| (self.engine.shard_key(key).hi, key));
            match self.engine.store.page(after, PAGE_LEN) {
                Ok(page) => {
                    self.done = page.len() < PAGE_LEN;
                    self.last = page.last().map(|(key, _)| key.clone());
                    self.page = page.into_iter();
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        self.page.next().map(Ok)
    }
}
