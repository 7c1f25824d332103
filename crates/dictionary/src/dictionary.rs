//! The dictionary that callers hold.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::engine::{Engine, Entries};
use crate::error::Error;
use crate::options::{DictionaryFilter, Op, Options, Policy};
use crate::shard::ShardKey;
use crate::stats::{Audit, Stats};
use crate::store::{Layout, Store};

/// An exact key-value dictionary with a filter in front of its store. See the [crate documentation](crate).
///
/// Any number of threads read and write through a shared reference. Dropping a dictionary saves the filter
/// like [`close`](Dictionary::close), but cannot report an error.
///
/// # Examples
///
/// ```
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Op, Options, store::MemoryStore};
///
/// let store = MemoryStore::new(Layout::Clustered);
/// let stock = Dictionary::<Broom, _>::create(store.clone(), Options::default())?;
/// assert!(!stock.put(b"apple", b"3")?); // the key is new
/// assert_eq!(stock.write(&[Op::Put(b"pear", b"4"), Op::Delete(b"apple")])?, [false, true]);
/// stock.close()?;
///
/// let stock = Dictionary::<Broom, _>::open(store)?;
/// assert_eq!(stock.get(b"pear")?.as_deref(), Some(&b"4"[..]));
/// assert!(!stock.contains(b"apple")?);
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
#[derive(Debug)]
pub struct Dictionary<F: DictionaryFilter, S: Store + 'static> {
    engine: Arc<Engine<F, S>>,
    worker: Option<(SyncSender<ShardKey>, JoinHandle<()>)>,
    policy: Policy,
    open: bool,
}

impl<F: DictionaryFilter, S: Store + 'static> Dictionary<F, S> {
    /// Creates a dictionary in an empty store.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the store is not empty, [`Error::InUse`] if another dictionary
    /// has it open, [`Error::Filter`] if no filter fits the options, and errors of the store.
    pub fn create(store: S, options: Options) -> Result<Self, Error> {
        Self::acquire_then(store, |store| Engine::create(store, options))
    }

    /// Opens a dictionary. If it was not closed, its filter is rebuilt by one scan of the store, and
    /// [`notices`](Dictionary::notices) reports it.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if the store holds no dictionary, [`Error::InUse`] if another dictionary
    /// has it open, [`Error::Version`] or [`Error::Mismatch`] if it was created by another version or with
    /// another kind of filter, [`Error::Corrupt`] if its metadata is damaged, and errors of the store.
    pub fn open(store: S) -> Result<Self, Error> {
        Self::acquire_then(store, Engine::open)
    }

    fn acquire_then(
        store: S,
        make: impl FnOnce(S) -> Result<Engine<F, S>, (S, Error)>,
    ) -> Result<Self, Error> {
        store.acquire()?;
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

    /// Sets the repair policy. The default is [`Policy::Inline`].
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        /// The queue length. Further false positives are dropped; a key that recurs is queued later.
        const QUEUE_LEN: usize = 1024;
        self.stop_worker();
        self.policy = policy;
        if policy == Policy::Background {
            let (queue, false_positives) = sync_channel(QUEUE_LEN);
            let engine = Arc::clone(&self.engine);
            let worker = thread::spawn(move || engine.repair_queued(&false_positives));
            self.worker = Some((queue, worker));
        }
        self
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    ///
    /// Returns errors of the store. A key that the filter rejects needs no store and cannot fail.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let queue = self.worker.as_ref().map(|(queue, _)| queue);
        self.engine.get(key, self.policy, queue)
    }

    /// Returns whether the dictionary holds a key.
    ///
    /// # Errors
    ///
    /// As for [`get`](Dictionary::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        self.get(key).map(|value| value.is_some())
    }

    /// Sets the value of a key. Returns whether the key had a value before.
    ///
    /// # Errors
    ///
    /// As for [`write`](Dictionary::write).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.write(&[Op::Put(key, value)]).map(|existed| existed[0])
    }

    /// Deletes a key. Returns whether it was present.
    ///
    /// # Errors
    ///
    /// As for [`write`](Dictionary::write).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.write(&[Op::Delete(key)]).map(|existed| existed[0])
    }

    /// Applies writes in order and atomically: all or none. Returns for each write whether its key was
    /// present before it.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooLong`] if a key is longer than the store supports, [`Error::Fenced`] if another
    /// dictionary has taken over the store, and errors of the store. After an error of the store it is
    /// unknown whether the writes were applied.
    pub fn write(&self, ops: &[Op<'_>]) -> Result<Vec<bool>, Error> {
        self.engine.write(ops)
    }

    /// Returns an iterator over all entries, in the store's order. Entries that are written during the
    /// iteration may or may not be included.
    pub fn iter(&self) -> Entries<'_, F, S> {
        Entries::new(&self.engine)
    }

    /// Checks the filter against every key of the store, shard by shard, and repairs it. Writes wait until
    /// it returns.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if the index of a secondary store disagrees with its entries, and errors
    /// of the store.
    pub fn verify(&self) -> Result<Audit, Error> {
        self.engine.verify()
    }

    /// Returns counters and sizes.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Returns the layout of the store.
    pub fn layout(&self) -> Layout {
        self.engine.store.layout()
    }

    /// Returns a description of each rebuild that damage or a missing `close` has required since the
    /// dictionary was opened.
    pub fn notices(&self) -> Vec<String> {
        self.engine.notices()
    }

    /// Saves the filter in the store, so that the next `open` needs no scan, and releases the store.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Fenced`] and errors of the store. The store is released in either case; the next
    /// `open` then rebuilds the filter.
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn stop_worker(&mut self) {
        if let Some((queue, worker)) = self.worker.take() {
            drop(queue);
            // A panic of the worker loses repairs and nothing else.
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

impl<F: DictionaryFilter, S: Store + 'static> Drop for Dictionary<F, S> {
    fn drop(&mut self) {
        // If saving fails, the next `open` rebuilds the filter.
        let _ = self.finish();
    }
}
