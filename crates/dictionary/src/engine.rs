//! The work behind the dictionary: shards of a filter before a store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tamis::{Goal, KeyHash, KeyHasher, Repair, Settings, Shape, plan};

use crate::dictionary::{Audit, Entries, Guard, Op, Options, Policy};
use crate::error::Error;
use crate::shard::{Made, Part, Place, Shard, Ticket, global};
use crate::state::{self, COUNTS, MAX_CUT, MIN_CUT, STATE, Saved, State};
use crate::stats::{Counts, Stats, add, add_many};
use crate::store::{Change, Layout, Store};

/// A key that the filter lets in.
struct Look {
    /// What a repair would have to know, if one can be made.
    ticket: Option<(Ticket, RangeInclusive<u64>)>,
    /// There is a filter that said so.
    filtered: bool,
}

/// What all threads share.
pub(crate) struct Engine<F: Guard, S> {
    pub(crate) store: S,
    hasher: KeyHasher,
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

impl<F: Guard, S> fmt::Debug for Engine<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("shards", &self.shards.len()).finish_non_exhaustive()
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

impl<F: Guard, S: Store> Engine<F, S> {
    pub(crate) fn create(store: S, options: Options) -> Result<Self, (S, Error)> {
        let prepare = || {
            if store.note(STATE)?.is_some() || !store.page(None, 1)?.is_empty() {
                return Err(Error::Exists);
            }
            plan::check_keys(options.keys)?;
            plan::check_fpr(options.fpr)?;
            let cut = (options.keys / SHARD_KEYS).max(1).ilog2().clamp(MIN_CUT, MAX_CUT);
            let state = State {
                kind: F::KIND.id(),
                hasher: KeyHasher::random(options.hash),
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

    pub(crate) fn open(store: S) -> Result<Self, (S, Error)> {
        let prepare = || {
            let state = State::read(&store.note(STATE)?.ok_or(Error::Missing)?)?;
            if state.kind != F::KIND.id() {
                return Err(Error::Mismatch { what: "kind of filter" });
            }
            let counts = store.note(COUNTS)?.map(|bytes| state::read_counts(&bytes));
            Ok((state, counts.unwrap_or_default()))
        };
        let engine = match prepare() {
            Ok((state, counts)) => {
                let none = state.shards.iter().map(|_| None).collect();
                let dirty = !state.clean;
                Self::with(store, state, none, counts, dirty)
            }
            Err(error) => return Err((store, error)),
        };
        if engine.dirty.load(Ordering::Relaxed)
            && let Err(error) = engine.rebuild_all()
        {
            return Err((engine.store, error));
        }
        Ok(engine)
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

    pub(crate) fn place(&self, key: &[u8]) -> Place {
        Place::new(self.hasher.bytes(key), self.cut)
    }

    pub(crate) fn get(
        &self,
        key: &[u8],
        policy: Policy,
        queue: Option<&SyncSender<Place>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if key.len() > self.store.longest_key() {
            return Ok(None);
        }
        let place = self.place(key);
        let shard = &self.shards[place.shard];
        let counters = &shard.counters;
        add(&counters.lookups);
        let Some(look) = self.look(place) else {
            add(&counters.negatives);
            shard.window.add(false, self.span);
            return Ok(None);
        };
        add(&counters.reads_lookup);
        let clustered = self.store.layout() == Layout::Clustered;
        let mut members = Vec::new();
        let value = match &look.ticket {
            Some((_, range)) if clustered && policy == Policy::Inline => {
                let mut see = |key: &[u8]| members.push(self.place(key).local);
                self.store.get_or_keys(place.hi, key, range.clone(), &mut see)?
            }
            _ => self.store.get(place.hi, key)?,
        };
        if value.is_some() {
            add(&counters.true_positives);
            return Ok(value);
        }
        if !look.filtered {
            add(&counters.unfiltered);
            return Ok(None);
        }
        add(&counters.false_positives);
        shard.window.add(true, self.span);
        match (policy, look.ticket, queue) {
            (Policy::Off, ..) => {}
            (Policy::Inline, Some((ticket, range)), _) => {
                if !clustered {
                    add(&counters.reads_repair);
                    self.members(range.clone(), &mut members)?;
                }
                self.repair(place, ticket, &range, &members);
                self.sweep(place.shard)?;
            }
            (Policy::Background, _, Some(queue)) if queue.try_send(place).is_ok() => {}
            _ => add(&counters.postponed),
        }
        Ok(None)
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        lock(&self.notices).clone()
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
    fn members(&self, range: RangeInclusive<u64>, into: &mut Vec<KeyHash>) -> Result<(), Error> {
        self.store.keys(range, &mut |key| into.push(self.place(key).local))
    }

    /// Denies a stranger, given the members around it, unless they may have changed.
    fn repair(
        &self,
        place: Place,
        ticket: Ticket,
        range: &RangeInclusive<u64>,
        members: &[KeyHash],
    ) {
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
    pub(crate) fn work(&self, places: &Receiver<Place>) {
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

    pub(crate) fn write(&self, ops: &[Op<'_>]) -> Result<Vec<bool>, Error> {
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
        add(&shard.counters.reads_filter);
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
        add(&shard.counters.reads_filter);
        let mut members = Vec::new();
        self.members(global(number, self.cut, &(0..=u64::MAX)), &mut members)?;
        let doubtful: Vec<KeyHash> = {
            let part = shard.part();
            part.doubtful.iter().filter(|key| !members.contains(key)).copied().collect()
        };
        members.extend(doubtful);
        self.fill(number, room, &members)
    }

    /// Makes a shard of these keys.
    fn fill(&self, number: usize, least: u64, keys: &[KeyHash]) -> Result<(), Error> {
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
        add(&self.shards[0].counters.reads_filter);
        let (mut keys, mut number, mut total) = (Vec::new(), 0, 0u64);
        let mut filled = Ok(());
        let mut fill_to = |next: usize, keys: &mut Vec<KeyHash>| {
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

    pub(crate) fn save(&self) -> Result<(), Error> {
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

    pub(crate) fn verify(&self) -> Result<Audit, Error> {
        let _pens: Vec<_> = self.shards.iter().map(Shard::pen).collect();
        let mut audit = Audit::default();
        for (number, shard) in self.shards.iter().enumerate() {
            self.load(number)?;
            add(&shard.counters.reads_filter);
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
        let mut count = 0;
        for entry in Entries::new(self) {
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

    /// Strangers of late, and those let in. Of those before this opening as many count as
    /// make a window.
    fn window(&self) -> (u64, u64) {
        let read = self.shards.iter().map(|shard| shard.window.read());
        let (asked, passed) = read.fold((0, 0), |sum, shard| (sum.0 + shard.0, sum.1 + shard.1));
        let (before, passed_before) = self.before.0;
        match (asked < WINDOW, before > WINDOW) {
            (false, _) => (asked, passed),
            (true, true) => (asked + before / 2, passed + passed_before / 2),
            (true, false) => (asked + before, passed + passed_before),
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.before.1;
        self.shards.iter().for_each(|shard| counts.add(&shard.counters));
        counts
    }

    pub(crate) fn stats(&self) -> Stats {
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
