//! The dictionary: shards of a filter before a store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tamis::{
    Adapt, Build, Goal, Hash, HashId, Hasher, Registered, Remove, Repair, Settings, Shape, Stored,
    plan,
};

use crate::error::Error;
use crate::shard::{Made, Part, Place, Shard, Ticket, global};
use crate::state::{self, COUNTS, MAX_CUT, MIN_CUT, STATE, Saved, State};
use crate::stats::{Counts, Stats, add, add_many};
use crate::store::{Change, Entry, Layout, Store};

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
    keys: u64,
    fpr: f64,
    hash: HashId,
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
    fn key(&self) -> &'a [u8] {
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
    core: Arc<Core<F, S>>,
    worker: Option<(SyncSender<Place>, JoinHandle<()>)>,
    policy: Policy,
    open: bool,
}

impl<F: Guard, S: Store + 'static> Dictionary<F, S> {
    /// Makes a dictionary in an empty store.
    pub fn create(store: S, options: Options) -> Result<Self, Error> {
        Self::claimed(store, |store| Core::create(store, options))
    }

    /// Opens a dictionary. If it was not closed, its filter is made anew by one scan of the store;
    /// [`notices`](Dictionary::notices) tells.
    pub fn open(store: S) -> Result<Self, Error> {
        Self::claimed(store, Core::open)
    }

    fn claimed(
        store: S,
        make: impl FnOnce(S) -> Result<Core<F, S>, (S, Error)>,
    ) -> Result<Self, Error> {
        store.claim()?;
        match make(store) {
            Ok(core) => {
                Ok(Self { core: Arc::new(core), worker: None, policy: Policy::Inline, open: true })
            }
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
            let core = Arc::clone(&self.core);
            self.worker = Some((queue, thread::spawn(move || core.work(&places))));
        }
        self
    }

    /// The key's value.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let core = &self.core;
        if key.len() > core.store.longest_key() {
            return Ok(None);
        }
        let place = core.place(key);
        let shard = &core.shards[place.shard];
        add(&shard.counters.lookups);
        let Some(look) = core.look(place) else {
            add(&shard.counters.negatives);
            shard.window.add(false, core.span);
            return Ok(None);
        };
        add(&shard.counters.reads_lookup);
        let inline = self.policy == Policy::Inline;
        let mut members = Vec::new();
        let value = match &look {
            Look { ticket: Some((_, range)), .. }
                if inline && core.store.layout() == Layout::Clustered =>
            {
                let mut see = |key: &[u8]| members.push(core.place(key).local);
                core.store.get_or_keys(place.hi, key, range.clone(), &mut see)?
            }
            _ => core.store.get(place.hi, key)?,
        };
        if value.is_some() {
            add(&shard.counters.true_positives);
        } else if !look.filtered {
            add(&shard.counters.unfiltered);
        } else {
            add(&shard.counters.false_positives);
            shard.window.add(true, core.span);
            match (&self.worker, look.ticket) {
                _ if self.policy == Policy::Off => {}
                (Some((queue, _)), _) if queue.try_send(place).is_ok() => {}
                (None, Some((ticket, range))) => {
                    if core.store.layout() == Layout::Secondary {
                        add(&shard.counters.reads_repair);
                        core.members(range.clone(), &mut members)?;
                    }
                    core.repair(place, ticket, &range, &members);
                    core.sweep(place.shard)?;
                }
                _ => add(&shard.counters.postponed),
            }
        }
        Ok(value)
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
        self.core.write(ops)
    }

    /// All entries, in the store's order. What is written meanwhile may be among them or not.
    pub fn iter(&self) -> Entries<'_, F, S> {
        Entries { core: &self.core, page: Vec::new().into_iter(), last: None, done: false }
    }

    /// Compares the filter with every key of the store, shard by shard; writes to a shard wait.
    pub fn verify(&self) -> Result<Audit, Error> {
        self.core.verify()
    }

    /// What has happened, and how large everything is.
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// How the store's entries lie.
    pub fn layout(&self) -> Layout {
        self.core.store.layout()
    }

    /// What had to be mended since the dictionary was opened, in words.
    pub fn notices(&self) -> Vec<String> {
        lock(&self.core.notices).clone()
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
        let saved = self.core.save();
        self.core.store.release();
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
    core: &'a Core<F, S>,
    page: std::vec::IntoIter<Entry>,
    last: Option<Vec<u8>>,
    done: bool,
}

impl<F: Guard, S: Store> Iterator for Entries<'_, F, S> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        const PAGE: usize = 512;
        if self.page.len() == 0 && !self.done {
            let after = self.last.as_deref().map(|key| (self.core.place(key).hi, key));
            match self.core.store.page(after, PAGE) {
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

/// A key that the filter lets in.
struct Look {
    /// What a repair would have to know, if one can be made.
    ticket: Option<(Ticket, RangeInclusive<u64>)>,
    /// There is a filter that said so.
    filtered: bool,
}

/// What all threads share.
struct Core<F: Guard, S> {
    store: S,
    hasher: Hasher,
    fpr: f64,
    cut: u32,
    shards: Vec<Shard<F>>,
    /// Strangers after which a shard's window moves on.
    span: u64,
    /// What is noted in the store.
    state: Mutex<State>,
    /// The store knows that the saved filter is no longer true.
    dirty: AtomicBool,
    /// Strangers of late, those let in, and all else that was counted before this opening.
    before: ((u64, u64), Counts),
    notices: Mutex<Vec<String>>,
    /// The last shape that was made, and for how many keys.
    known: Mutex<Option<(u64, F::Shape)>>,
}

impl<F: Guard, S> fmt::Debug for Core<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// Strangers of all shards that make a window.
const WINDOW: u64 = 1 << 16;
/// Keys of a shard at the creation. So many are scanned in some milliseconds, when the shard grows.
const SHARD_KEYS: u64 = 8192;
/// Doubtful keys of a shard before it is made anew.
const DOUBTFUL: usize = 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for the keys of a shard that will hold so many on average: four standard deviations more.
fn room(keys: f64) -> u64 {
    (keys + 4.0 * keys.sqrt() + 8.0) as u64
}

fn shape<F: Guard>(keys: u64, fpr: f64) -> Result<F::Shape, Error> {
    Ok(plan::solve(Goal::KeysFpr { keys, fpr }, &Settings::default())?)
}

impl<F: Guard, S: Store> Core<F, S> {
    fn create(store: S, options: Options) -> Result<Self, (S, Error)> {
        let prepare = || {
            if store.note(STATE)?.is_some() || !store.page(None, 1)?.is_empty() {
                return Err(Error::Exists);
            }
            plan::check_keys(options.keys)?;
            plan::check_fpr(options.fpr)?;
            let cut = (options.keys / SHARD_KEYS).max(1).ilog2().clamp(MIN_CUT, MAX_CUT);
            let state = State {
                kind: F::KIND.id(),
                hasher: Hasher::random(options.hash),
                keys: options.keys,
                fpr: options.fpr,
                cut,
                clean: false,
                generation: 0,
                shards: vec![Saved::default(); 1 << cut],
            };
            let keys = room(options.keys as f64 / state.shards.len() as f64);
            let shape = shape::<F>(keys, options.fpr)?;
            let made = state.shards.iter().map(|_| Ok(Some(Made::build(shape.clone(), &[])?)));
            let made = made.collect::<Result<Vec<_>, Error>>()?;
            store.set_notes(&[(STATE, &state.bytes())])?;
            Ok((state, made))
        };
        match prepare() {
            Ok((state, made)) => Ok(Self::with(store, state, made, Default::default(), true)),
            Err(error) => Err((store, error)),
        }
    }

    fn open(store: S) -> Result<Self, (S, Error)> {
        let prepare = || {
            let state = State::read(&store.note(STATE)?.ok_or(Error::Missing)?)?;
            if state.kind != F::KIND.id() {
                return Err(Error::Mismatch { what: "kind of filter" });
            }
            let counts = store.note(COUNTS)?.map(|bytes| state::read_counts(&bytes));
            Ok((state, counts.unwrap_or_default()))
        };
        let core = match prepare() {
            Ok((state, counts)) => {
                let none = state.shards.iter().map(|_| None).collect();
                let dirty = !state.clean;
                Self::with(store, state, none, counts, dirty)
            }
            Err(error) => return Err((store, error)),
        };
        if core.dirty.load(Ordering::Relaxed)
            && let Err(error) = core.rebuild_all()
        {
            return Err((core.store, error));
        }
        Ok(core)
    }

    fn with(
        store: S,
        state: State,
        made: Vec<Option<Made<F>>>,
        before: ((u64, u64), Counts),
        dirty: bool,
    ) -> Self {
        Self {
            store,
            hasher: state.hasher,
            fpr: state.fpr,
            cut: state.cut,
            span: (WINDOW / state.shards.len() as u64).max(64),
            shards: made.into_iter().map(Shard::new).collect(),
            state: Mutex::new(state),
            dirty: AtomicBool::new(dirty),
            before,
            notices: Mutex::default(),
            known: Mutex::default(),
        }
    }

    fn place(&self, key: &[u8]) -> Place {
        Place::new(self.hasher.bytes(key), self.cut)
    }

    fn tell(&self, notice: String) {
        lock(&self.notices).push(notice);
    }

    /// Whether the key may be in the store, and what a repair would need if it is not.
    fn look(&self, place: Place) -> Option<Look> {
        let shard = &self.shards[place.shard];
        let ask = |part: &Part<F>| {
            let filter = part.filter.as_ref()?;
            let key = part.turned(place.local);
            if !filter.contains(key) {
                return Some(None);
            }
            let range = global(place.shard, self.cut, &filter.suspects(key));
            let ticket = part.ticket().map(|ticket| (ticket, range));
            Some(Some(Look { ticket, filtered: true }))
        };
        let seen = ask(&shard.part());
        let seen = seen.or_else(|| {
            // One loads it, the others do without it.
            let _pen = shard.try_pen()?;
            self.load(place.shard).ok()?;
            ask(&shard.part())
        });
        seen.unwrap_or(Some(Look { ticket: None, filtered: false }))
    }

    /// The members of a range of `hi`.
    fn members(&self, range: RangeInclusive<u64>, into: &mut Vec<Hash>) -> Result<(), Error> {
        self.store.keys(range, &mut |key| into.push(self.place(key).local))
    }

    /// Denies a stranger, given the members around it, unless they may have changed.
    fn repair(&self, place: Place, ticket: Ticket, range: &RangeInclusive<u64>, members: &[Hash]) {
        let shard = &self.shards[place.shard];
        let part = &mut *shard.part_mut();
        let (turned, all) = (part.turned(place.local), part.all_turned(members));
        let valid = part.ticket() == Some(ticket);
        let repair = part.filter.as_mut().and_then(|filter| {
            let same = *range == global(place.shard, self.cut, &filter.suspects(turned));
            (valid && same).then(|| filter.adapt(turned, &all))
        });
        let counters = &shard.counters;
        match repair {
            None => return add(&counters.postponed),
            Some(Repair::NotNeeded) => return,
            Some(Repair::Impossible) => add(&counters.impossible),
            Some(Repair::Extended) => add(&counters.repairs),
            Some(Repair::Rehashed) => {
                add(&counters.repairs);
                add(&counters.rehashes);
            }
        }
        part.changed = true;
    }

    /// Renews what is due of a shard.
    fn sweep(&self, number: usize) -> Result<(), Error> {
        let shard = &self.shards[number];
        let due = |part: &Part<F>| Some((part.ticket()?, part.filter.as_ref()?.due()?));
        loop {
            let Some((ticket, range)) = due(&shard.part()) else { return Ok(()) };
            add(&shard.counters.reads_sweep);
            let mut members = Vec::new();
            self.members(global(number, self.cut, &range), &mut members)?;
            let part = &mut *shard.part_mut();
            if due(part) != Some((ticket, range)) {
                return Ok(()); // whoever changed it, or a later false positive, comes to it
            }
            let all = part.all_turned(&members);
            if let Some(filter) = &mut part.filter {
                filter.renew(&all);
                part.changed = true;
                add(&shard.counters.sweeps);
            }
        }
    }

    /// Repairs what is queued, until nobody can queue any more.
    fn work(&self, places: &Receiver<Place>) {
        for place in places {
            // Two readers may have met the same stranger.
            let Some(Look { ticket, filtered: true }) = self.look(place) else { continue };
            let shard = &self.shards[place.shard];
            let Some((ticket, range)) = ticket else {
                add(&shard.counters.postponed);
                continue;
            };
            add(&shard.counters.reads_repair);
            let mut members = Vec::new();
            // A store that fails now will be asked again by the next false positive.
            if self.members(range.clone(), &mut members).is_ok() {
                self.repair(place, ticket, &range, &members);
                let _ = self.sweep(place.shard);
            }
        }
    }

    fn write(&self, ops: &[Op<'_>]) -> Result<Vec<bool>, Error> {
        let most = self.store.longest_key();
        if let Some(op) = ops.iter().find(|op| op.key().len() > most) {
            let (bytes, most) = (op.key().len() as u64, most as u64);
            return Err(Error::TooLong { what: "key", bytes, most });
        }
        let places: Vec<Place> = ops.iter().map(|op| self.place(op.key())).collect();
        let mut puts = BTreeMap::<usize, u64>::new();
        for (op, place) in ops.iter().zip(&places) {
            *puts.entry(place.shard).or_default() += u64::from(matches!(op, Op::Put(..)));
        }
        // In ascending order, so that two writers never wait for each other.
        let _pens: Vec<_> = puts.keys().map(|number| self.shards[*number].pen()).collect();
        for (number, puts) in &puts {
            self.load(*number)?;
            self.reserve(*number, *puts)?;
        }
        puts.keys().for_each(|number| self.shards[*number].part_mut().begin());
        let written = self.write_reserved(ops, &places);
        puts.keys().for_each(|number| self.shards[*number].part_mut().end());
        written
    }

    /// Makes room for so many more keys, whose pen is held.
    fn reserve(&self, number: usize, puts: u64) -> Result<(), Error> {
        let shard = &self.shards[number];
        let (len, most, doubtful) = {
            let part = shard.part();
            let Some(filter) = &part.filter else { return Ok(()) };
            (filter.len(), filter.shape().keys(), part.doubtful.len())
        };
        let needed = len + puts;
        if doubtful > DOUBTFUL {
            // What the store shows from now on is all there is.
            self.store.settle()?;
            shard.part_mut().doubtful.clear();
            add(&shard.counters.rebuilds);
            self.rebuild(number, most.max(needed))
        } else if needed > most {
            add(&shard.counters.growths);
            self.rebuild(number, (needed + needed / 4).max(most + most / 2))
        } else {
            Ok(())
        }
    }

    fn write_reserved(&self, ops: &[Op<'_>], places: &[Place]) -> Result<Vec<bool>, Error> {
        // The filter first: from here on it lets in what is to come.
        let mut changes = Vec::with_capacity(ops.len());
        let mut changed = Vec::with_capacity(ops.len());
        for (number, (op, place)) in ops.iter().zip(places).enumerate() {
            let shard = &self.shards[place.shard];
            let part = &mut *shard.part_mut();
            let new = !part.may_have(place.local);
            let value = match *op {
                Op::Put(_, value) => Some(value),
                Op::Delete(_) => None,
            };
            add(if value.is_some() { &shard.counters.puts } else { &shard.counters.deletes });
            if new && value.is_none() {
                continue;
            }
            if new {
                add(&shard.counters.puts_new);
                part.doubt(place.local);
            }
            changes.push(Change { hi: place.hi, key: op.key(), value, new });
            changed.push((number, *place));
        }
        let mut had = vec![false; ops.len()];
        let Some((_, first)) = changed.first() else { return Ok(had) };
        // Then the store.
        add(&self.shards[first.shard].counters.writes);
        let was = match self.mark_dirty().and_then(|()| self.store.apply(&changes)) {
            Ok(was) => was,
            Err(error) => {
                let puts =
                    changed.iter().zip(&changes).filter(|(_, change)| change.value.is_some());
                for ((_, place), _) in puts {
                    self.shards[place.shard].part_mut().doubt(place.local);
                }
                return Err(error);
            }
        };
        // The filter again. What is let in comes before what no longer is, so that a key which was
        // let in by mistake is not denied in between.
        let (mut gone, mut came) = (Vec::new(), Vec::new());
        for (((number, place), change), was) in changed.iter().zip(&changes).zip(was) {
            had[*number] = was;
            let shard = &self.shards[place.shard];
            let counted = shard.part_mut().settle(place.local);
            match change.value {
                Some(_) if change.new && was => add(&shard.counters.missing),
                Some(_) if !counted && !was => came.push(place),
                None if counted || was => gone.push(place),
                _ => {}
            }
        }
        for place in came {
            self.shards[place.shard].part_mut().insert(place.local);
        }
        for place in gone {
            self.shards[place.shard].part_mut().remove(place.local);
        }
        Ok(had)
    }

    /// Notes, before the first write, that the saved filter is no longer true.
    fn mark_dirty(&self) -> Result<(), Error> {
        if self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = lock(&self.state);
        let dirty = State { clean: false, ..state.clone() };
        self.store.set_notes(&[(STATE, &dirty.bytes())])?;
        *state = dirty;
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Brings a shard, whose pen is held, into memory: as it was saved, or from the store.
    fn load(&self, number: usize) -> Result<(), Error> {
        let shard = &self.shards[number];
        let untouched = {
            let part = shard.part();
            if part.filter.is_some() {
                return Ok(());
            }
            part.is_untouched()
        };
        if !untouched {
            add(&shard.counters.rebuilds);
            return self.rebuild(number, 0);
        }
        add(&shard.counters.reads_rebuild);
        let note = self.store.note(&state::shard_note(number))?;
        let generation = lock(&self.state).shards[number].generation;
        let made = note
            .ok_or_else(|| "it is gone".to_owned())
            .and_then(|note| state::read_shard(&note, &self.hasher, generation, number));
        match made {
            Ok(made) => shard.part_mut().replace(made),
            Err(why) => {
                self.tell(format!("part {number} of the filter was made anew: {why}"));
                add(&shard.counters.rebuilds);
                self.rebuild(number, 0)?;
            }
        }
        Ok(())
    }

    /// Makes a shard, whose pen is held, anew from the store, with room for so many keys at least.
    fn rebuild(&self, number: usize, room: u64) -> Result<(), Error> {
        let shard = &self.shards[number];
        add(&shard.counters.reads_rebuild);
        let mut members = Vec::new();
        self.members(global(number, self.cut, &(0..=u64::MAX)), &mut members)?;
        let doubtful: Vec<Hash> = {
            let part = shard.part();
            part.doubtful.iter().filter(|key| !members.contains(key)).copied().collect()
        };
        members.extend(doubtful);
        self.fill(number, room, &members)
    }

    /// Makes a shard of these keys.
    fn fill(&self, number: usize, least: u64, keys: &[Hash]) -> Result<(), Error> {
        let count = keys.len() as u64;
        let usual = room(lock(&self.state).keys as f64 / self.shards.len() as f64);
        let most = if count <= usual { usual } else { count + count / 4 }.max(least);
        let made = Made::build(self.shape(most)?, keys)?;
        let part = &mut *self.shards[number].part_mut();
        part.replace(made);
        part.changed = true;
        Ok(())
    }

    /// The shape for so many keys. To find one takes longer than to make a small filter, and shards
    /// are often alike.
    fn shape(&self, keys: u64) -> Result<F::Shape, Error> {
        let mut known = lock(&self.known);
        match &*known {
            Some((of, shape)) if *of == keys => Ok(shape.clone()),
            _ => {
                let shape = shape::<F>(keys, self.fpr)?;
                *known = Some((keys, shape.clone()));
                Ok(shape)
            }
        }
    }

    /// Makes all shards anew by one scan in the order of hashes.
    fn rebuild_all(&self) -> Result<(), Error> {
        add(&self.shards[0].counters.reads_rebuild);
        let (mut keys, mut number, mut total) = (Vec::new(), 0, 0u64);
        let mut filled = Ok(());
        let mut fill_to = |next: usize, keys: &mut Vec<Hash>| {
            while number < next {
                let made = self.fill(number, 0, keys);
                filled = std::mem::replace(&mut filled, Ok(())).and(made);
                add(&self.shards[number].counters.rebuilds);
                keys.clear();
                number += 1;
            }
        };
        self.store.keys(0..=u64::MAX, &mut |key| {
            let place = self.place(key);
            fill_to(place.shard, &mut keys);
            keys.push(place.local);
            total += 1;
        })?;
        fill_to(self.shards.len(), &mut keys);
        filled?;
        self.tell(format!(
            "the dictionary was not closed: its filter was made anew from {total} keys"
        ));
        Ok(())
    }

    fn save(&self) -> Result<(), Error> {
        /// Bytes of notes to write at a time.
        const PIECE: usize = 16 << 20;
        let mut state = lock(&self.state).clone();
        let counts = self.counts();
        if counts == self.before.1 && !self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        state.generation += 1;
        let mut notes: Vec<(String, Vec<u8>)> = Vec::new();
        let write = |notes: &[(String, Vec<u8>)]| {
            let notes: Vec<_> = notes.iter().map(|(name, note)| (&**name, &**note)).collect();
            self.store.set_notes(&notes)
        };
        if self.shards.iter().any(|shard| !shard.part().doubtful.is_empty()) {
            self.store.settle()?;
        }
        for (number, shard) in self.shards.iter().enumerate() {
            let _pen = shard.pen();
            if !shard.part().is_untouched() {
                self.load(number)?;
            }
            let part = &mut *shard.part_mut();
            if !part.changed {
                continue;
            }
            let Some(filter) = part.filter.take() else { continue };
            let figures = filter.shape().figures();
            state.shards[number] = Saved {
                generation: state.generation,
                keys: filter.len(),
                room: figures.keys,
                bytes: figures.bytes,
            };
            let made = Made { filter, turn: part.turn };
            let (made, note) = state::save_shard(self.hasher, made, state.generation, number);
            part.replace(made);
            notes.push((state::shard_note(number), note?));
            if notes.iter().map(|(_, note)| note.len()).sum::<usize>() > PIECE {
                write(&notes)?;
                notes.clear();
            }
        }
        state.clean = true;
        // Those that tell that the others are true come last, and together with the last of them.
        notes.push((COUNTS.to_owned(), state::counts_bytes(self.window(), &counts)));
        notes.push((STATE.to_owned(), state.bytes()));
        write(&notes)
    }

    fn verify(&self) -> Result<Audit, Error> {
        let _pens: Vec<_> = self.shards.iter().map(Shard::pen).collect();
        let mut audit = Audit::default();
        for (number, shard) in self.shards.iter().enumerate() {
            self.load(number)?;
            add(&shard.counters.reads_rebuild);
            let mut members = Vec::new();
            self.members(global(number, self.cut, &(0..=u64::MAX)), &mut members)?;
            let (denied, len) = {
                let part = shard.part();
                let denied = members.iter().filter(|key| !part.may_have(**key)).count() as u64;
                (denied, part.filter.as_ref().map_or(0, tamis::Filter::len))
            };
            audit.keys += members.len() as u64;
            audit.missing += denied;
            audit.ghosts += len.saturating_sub(members.len() as u64);
            if denied > 0 {
                add_many(&shard.counters.missing, denied);
                self.tell(format!("part {number} of the filter denied {denied} keys: made anew"));
                self.rebuild(number, 0)?;
            }
        }
        if self.store.layout() == Layout::Secondary {
            self.verify_index(audit.keys)?;
        }
        Ok(audit)
    }

    /// That the index names every entry and no other.
    fn verify_index(&self, indexed: u64) -> Result<(), Error> {
        let entries = Entries { core: self, page: Vec::new().into_iter(), last: None, done: false };
        let mut count = 0;
        for entry in entries {
            let place = self.place(&entry?.0);
            let found = self.shards[place.shard].part().may_have(place.local);
            count += 1;
            if !found {
                return Err(Error::Corrupt { what: "an entry is not in the index" });
            }
        }
        match count == indexed {
            true => Ok(()),
            false => Err(Error::Corrupt { what: "the index names what is no entry" }),
        }
    }

    /// Strangers of late, and those let in. What was before this opening counts while it is more.
    fn window(&self) -> (u64, u64) {
        let read = self.shards.iter().map(|shard| shard.window.read());
        let (asked, passed) = read.fold((0, 0), |sum, shard| (sum.0 + shard.0, sum.1 + shard.1));
        let (before, passed_before) = self.before.0;
        match asked < before.min(WINDOW) {
            true if before > WINDOW => (asked + before / 2, passed + passed_before / 2),
            true => (asked + before, passed + passed_before),
            false => (asked, passed),
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.before.1;
        self.shards.iter().for_each(|shard| counts.add(&shard.counters));
        counts
    }

    fn stats(&self) -> Stats {
        let (window_strangers, window_passed) = self.window();
        let mut stats = Stats {
            counts: self.counts(),
            keys: 0,
            capacity: 0,
            filter_bytes: 0,
            shards: self.shards.len(),
            shards_loaded: 0,
            target_fpr: self.fpr,
            window_strangers,
            window_passed,
            doubtful: 0,
        };
        let state = lock(&self.state);
        for (shard, saved) in self.shards.iter().zip(&state.shards) {
            let part = shard.part();
            let (keys, room, bytes) = match &part.filter {
                Some(filter) => {
                    let figures = filter.shape().figures();
                    (filter.len(), figures.keys, figures.bytes)
                }
                None => (saved.keys, saved.room, saved.bytes),
            };
            stats.keys += keys;
            stats.capacity += room;
            stats.filter_bytes += bytes;
            stats.shards_loaded += usize::from(part.filter.is_some());
            stats.doubtful += part.doubtful.len() as u64;
        }
        stats
    }
}
