//! The dictionary that callers hold.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::engine::{Claim, Engine, Entries, Moment};
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
    keeper: Option<Keeper>,
    policy: Policy,
    open: bool,
}

/// The thread that confirms the claim on the store. Dropping the channel stops it.
#[derive(Debug)]
struct Keeper(Sender<()>, JoinHandle<()>);

impl Keeper {
    fn stop(self) {
        drop(self.0);
        // A panic of the thread means only that the claim was not confirmed.
        let _ = self.1.join();
    }
}

impl<F: DictionaryFilter, S: Store + 'static> Dictionary<F, S> {
    /// Creates a dictionary in an empty store. If it fails, the store is removed.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the store is not empty, [`Error::InUse`] if another dictionary
    /// has it open, [`Error::Filter`] if no filter fits the options, and errors of the store.
    pub fn create(store: S, options: Options) -> Result<Self, Error> {
        Self::acquire_then(store, |store, claim| Engine::create(store, claim, options))
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
        Self::acquire_then(store, |store, claim| Engine::open(store, claim, None))
    }

    /// Opens a dictionary as [`open`](Dictionary::open) does, with at most `max_memory` bytes for its filter.
    ///
    /// A lookup in a shard whose filter would exceed the limit reads the store. A write to such a shard
    /// returns [`tamis::Error::MemoryLimit`] as [`Error::Filter`] and changes nothing.
    ///
    /// # Errors
    ///
    /// As [`open`](Dictionary::open), and [`Error::Filter`] if the filter must be rebuilt and exceeds the
    /// limit.
    pub fn open_within(store: S, max_memory: u64) -> Result<Self, Error> {
        Self::acquire_then(store, |store, claim| Engine::open(store, claim, Some(max_memory)))
    }

    fn acquire_then(
        store: S,
        make: impl FnOnce(Arc<S>, Arc<Claim>) -> Result<Engine<F, S>, Error>,
    ) -> Result<Self, Error> {
        let begun = Moment::now();
        store.acquire()?;
        let claim = Arc::new(Claim::new(&store, begun));
        let store = Arc::new(store);
        let keeper = claim.can_be_lost().then(|| {
            let (stop, stopped) = channel();
            let (store, claim) = (Arc::clone(&store), Arc::clone(&claim));
            Keeper(stop, thread::spawn(move || claim.keep(&*store, &stopped)))
        });
        match make(Arc::clone(&store), claim) {
            Ok(engine) => Ok(Self {
                engine: Arc::new(engine),
                worker: None,
                keeper,
                policy: Policy::Inline,
                open: true,
            }),
            Err(error) => {
                keeper.into_iter().for_each(Keeper::stop);
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
    /// Returns [`Error::Damaged`] or [`Error::Corrupt`] if the entry is damaged or may be lost. Damage of the key
    /// itself is found only under [`Policy::Inline`].
    ///
    /// Returns [`Error::Fenced`] or [`Error::LostWrites`] if the claim on the store is lost, and errors of the
    /// store. A key that the filter rejects needs no store, unless the claim was not confirmed within the
    /// [lease](Store::lease).
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
    /// Returns [`Error::TooLong`] if a key is longer than the store supports, [`Error::Fenced`] or
    /// [`Error::LostWrites`] if the claim on the store is lost, and errors of the store. After an error of the
    /// store it is unknown whether the writes were applied.
    pub fn write(&self, ops: &[Op<'_>]) -> Result<Vec<bool>, Error> {
        self.engine.write(ops)
    }

    /// Returns an iterator over all entries, in the store's order. Entries that are written during the
    /// iteration may or may not be included. A damaged entry is an [`Error::Damaged`], after which the iteration
    /// continues.
    pub fn iter(&self) -> Entries<'_, F, S> {
        Entries::new(&self.engine)
    }

    /// Returns an iterator as [`iter`](Dictionary::iter) does, over the entries after `key` in the store's
    /// order. The dictionary need not hold `key`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tamis::Broom;
    /// use tamis_dictionary::{Dictionary, Layout, Options, store::MemoryStore};
    ///
    /// let store = MemoryStore::new(Layout::Clustered);
    /// let stock = Dictionary::<Broom, _>::create(store, Options::default())?;
    /// stock.put(b"apple", b"3")?;
    /// stock.put(b"pear", b"4")?;
    /// let (first, _) = stock.iter().next().expect("two entries")?;
    /// let (second, _) = stock.iter_after(&first).next().expect("one more")?;
    /// assert_ne!(first, second);
    /// assert!(stock.iter_after(&second).next().is_none());
    /// # Ok::<_, tamis_dictionary::Error>(())
    /// ```
    pub fn iter_after(&self, key: &[u8]) -> Entries<'_, F, S> {
        Entries::after(&self.engine, key)
    }

    /// Checks every entry of the store by its checksum, and the filter against every key, and rebuilds shards of
    /// the filter that are wrong. Writes wait until it returns.
    ///
    /// An entry that vanished from the store is found if the dictionary was closed since it was put. After a
    /// crash the filter is rebuilt from what the store holds.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Corrupt`] if the store cannot be read in order, and errors of the store, which may find
    /// damage by checksums of its own.
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
        self.keeper.take().into_iter().for_each(Keeper::stop);
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

#[cfg(test)]
mod tests {
    use tamis::Broom;

    use super::*;
    use crate::random::SOURCE_FAILS;
    use crate::store::MemoryStore;

    /// Without a random salt no dictionary is created, and no filter grows.
    #[test]
    fn without_random_bits_nothing_is_made() {
        type Dict = Dictionary<Broom, MemoryStore>;
        let is_refused = |error: Error| matches!(error, Error::Filter(tamis::Error::Random(_)));
        let store = MemoryStore::new(Layout::Clustered);
        SOURCE_FAILS.set(true);
        assert!(is_refused(Dict::create(store.clone(), Options::default()).unwrap_err()));
        assert!(store.meta("state").unwrap().is_none());
        SOURCE_FAILS.set(false);
        let dict = Dict::create(store, Options::default().with_keys(1)).unwrap();
        SOURCE_FAILS.set(true);
        let key = |number: u32| number.to_le_bytes();
        let refused =
            (0..10_000).find_map(|number| Some((number, dict.put(&key(number), b"").err()?)));
        let (number, error) = refused.expect("a filter of 1 key grows");
        assert!(is_refused(error));
        assert!(!dict.contains(&key(number)).unwrap());
        assert!((0..number).all(|number| dict.contains(&key(number)).unwrap()));
        SOURCE_FAILS.set(false);
        dict.put(&key(number), b"").unwrap();
        assert!(dict.verify().unwrap().is_ok());
    }
}
