//! What users hold: the dictionary, its options, its answers.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tamis::{Adapt, Build, HashId, Registered, Remove, Stored};

use crate::engine::Engine;
use crate::error::Error;
use crate::shard::Place;
use crate::stats::Stats;
use crate::store::{Entry, Layout, Store};

/// A filter that can stand before a store: it forgets keys, mends its mistakes and can be saved.
/// [`Broom`](tamis::Broom) is the one to take.
pub trait Guard:
    Adapt<Shape: Send> + Remove + Build + Stored + Registered + fmt::Debug + Send + Sync + 'static
{
}

impl<F> Guard for F where
    F: Adapt<Shape: Send>
        + Remove
        + Build
        + Stored
        + Registered
        + fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// When false positives are repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// By whoever met one, before the answer. In a clustered store that takes no further access.
    #[default]
    Inline,
    /// By a thread of the dictionary's own, afterwards: the answer does not wait for it, but what the
    /// repair must know is read once more.
    Background,
    /// Never.
    Off,
}

/// What a new dictionary is made for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) keys: u64,
    pub(crate) fpr: f64,
    pub(crate) hash: HashId,
}

impl Default for Options {
    /// A million keys, one stranger of 256, a hash that strangers cannot see through.
    fn default() -> Self {
        Self { keys: 1_000_000, fpr: 1.0 / 256.0, hash: HashId::Secure }
    }
}

impl Options {
    /// Room for so many keys. With more, the filter grows part by part, each by a scan of its keys.
    #[must_use]
    pub fn with_keys(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    /// The share of strangers for which the store is asked.
    #[must_use]
    pub fn with_fpr(self, fpr: f64) -> Self {
        Self { fpr, ..self }
    }

    /// What hashes the keys: [`HashId::Fast`] only where nobody picks keys to hurt you.
    #[must_use]
    pub fn with_hash(self, hash: HashId) -> Self {
        Self { hash, ..self }
    }
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// This key shall have this value.
    Put(&'a [u8], &'a [u8]),
    /// This key shall not be there.
    Delete(&'a [u8]),
}

impl<'a> Op<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }
}

/// What [`Dictionary::verify`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Keys in the store.
    pub keys: u64,
    /// Of these, denied by the filter. Anything but 0 is a fault; it is mended.
    pub missing: u64,
    /// What the filter holds and the store does not, left by writes that failed: each may cost a false
    /// positive, which takes it out.
    pub ghosts: u64,
}

/// An exact dictionary: see the [crate's page](crate).
///
/// It is shared by reference between any number of threads that read and write. Dropping it saves the
/// filter as [`close`](Dictionary::close) does, and cannot say if that failed.
#[derive(Debug)]
pub struct Dictionary<F: Guard, S: Store + 'static> {
    engine: Arc<Engine<F, S>>,
    worker: Option<(SyncSender<Place>, JoinHandle<()>)>,
    policy: Policy,
    open: bool,
}

impl<F: Guard, S: Store + 'static> Dictionary<F, S> {
    /// Makes a dictionary in an empty store.
    pub fn create(store: S, options: Options) -> Result<Self, Error> {
        Self::claimed(store, |store| Engine::create(store, options))
    }

    /// Opens a dictionary. If it was not closed, its filter is made anew by one scan of the store;
    /// [`notices`](Dictionary::notices) tells.
    pub fn open(store: S) -> Result<Self, Error> {
        Self::claimed(store, Engine::open)
    }

    fn claimed(
        store: S,
        make: impl FnOnce(S) -> Result<Engine<F, S>, (S, Error)>,
    ) -> Result<Self, Error> {
        store.claim()?;
        match make(store) {
            Ok(engine) => Ok(Self {
                engine: Arc::new(engine),
                worker: None,
                policy: Policy::Inline,
                open: true,
            }),
            Err((store, error)) => {
                store.release();
                Err(error)
            }
        }
    }

    /// The same with another policy of repairs.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        /// False positives that wait. More are dropped: each comes again, if it matters.
        const WAITING: usize = 1024;
        self.stop_worker();
        self.policy = policy;
        if policy == Policy::Background {
            let (queue, places) = sync_channel(WAITING);
            let engine = Arc::clone(&self.engine);
            self.worker = Some((queue, thread::spawn(move || engine.work(&places))));
        }
        self
    }

    /// The key's value.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let queue = self.worker.as_ref().map(|(queue, _)| queue);
        self.engine.get(key, self.policy, queue)
    }

    /// Whether the key is there.
    pub fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        self.get(key).map(|value| value.is_some())
    }

    /// Gives the key a value; whether it had one.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.write(&[Op::Put(key, value)]).map(|had| had[0])
    }

    /// Takes the key out; whether it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.write(&[Op::Delete(key)]).map(|had| had[0])
    }

    /// Makes these writes in their order, all or none; tells of each whether its key was there.
    pub fn write(&self, ops: &[Op<'_>]) -> Result<Vec<bool>, Error> {
        self.engine.write(ops)
    }

    /// All entries, in the store's order. What is written meanwhile may be among them or not.
    pub fn iter(&self) -> Entries<'_, F, S> {
        Entries::new(&self.engine)
    }

    /// Compares the filter with every key of the store, shard by shard; writes to a shard wait.
    pub fn verify(&self) -> Result<Audit, Error> {
        self.engine.verify()
    }

    /// What has happened, and how large everything is.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// How the store's entries lie.
    pub fn layout(&self) -> Layout {
        self.engine.store.layout()
    }

    /// What had to be mended since the dictionary was opened, in words.
    pub fn notices(&self) -> Vec<String> {
        self.engine.notices()
    }

    /// Saves the filter in the store, so that it can be opened at once, and lets another have it.
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn stop_worker(&mut self) {
        if let Some((queue, worker)) = self.worker.take() {
            drop(queue);
            // If it panicked, repairs were left out, no more.
            let _ = worker.join();
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.stop_worker();
        if !std::mem::replace(&mut self.open, false) {
            return Ok(());
        }
        let saved = self.engine.save();
        self.engine.store.release();
        saved
    }
}

impl<F: Guard, S: Store + 'static> Drop for Dictionary<F, S> {
    fn drop(&mut self) {
        // What was not saved is made anew at the next opening.
        let _ = self.finish();
    }
}

/// See [`Dictionary::iter`].
#[derive(Debug)]
pub struct Entries<'a, F: Guard, S: Store> {
    engine: &'a Engine<F, S>,
    page: std::vec::IntoIter<Entry>,
    last: Option<Vec<u8>>,
    done: bool,
}

impl<'a, F: Guard, S: Store> Entries<'a, F, S> {
    pub(crate) fn new(engine: &'a Engine<F, S>) -> Self {
        Self { engine, page: Vec::new().into_iter(), last: None, done: false }
    }
}

impl<F: Guard, S: Store> Iterator for Entries<'_, F, S> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        const PAGE: usize = 512;
        if self.page.len() == 0 && !self.done {
            let after = self.last.as_deref().map(|key| (self.engine.place(key).hi, key));
            match self.engine.store.page(after, PAGE) {
                Ok(page) => {
                    self.done = page.len() < PAGE;
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
