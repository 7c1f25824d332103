//! The dictionary end to end: what an adaptive filter before a store saves, and where it saves nothing.
//!
//! `cargo run --release -p tamis-lab --bin dictionary` measures it over redb, with a data set ten times
//! its cache; `-- postgres://USER@HOST/DATABASE` over a server.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use lab::{Line, Sheet};
use tamis::{Broom, HashId, Key, KeyHasher};
use tamis_dictionary::store::{AnyStore, Change, Entry, PostgresStore, RedbStore};
use tamis_dictionary::{Dictionary, Error, Layout, Op, Options, Policy, Store};

/// Of 100 queries, those for what is not there.
const ABSENT: u64 = 90;
const VALUE: [u8; 100] = [7; 100];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => redb(),
        [place] if place.starts_with("postgres") => postgres(place),
        _ => bail!("dictionary [postgres://USER@HOST/DATABASE]"),
    }
}

fn redb() -> Result<()> {
    const KEYS: u64 = 1_000_000;
    const CACHE: usize = 16 << 20;
    let folder = tempfile::tempdir()?;
    let (guarded, plain) = (folder.path().join("guarded.redb"), folder.path().join("plain.redb"));
    fill(Box::new(RedbStore::create(&guarded, Layout::Clustered)?), KEYS)?.close()?;
    fill_plain(&RedbStore::create(&plain, Layout::Clustered)?, KEYS)?;
    println!("{} MB of data, {} MB of cache", fs::metadata(&guarded)?.len() >> 20, CACHE >> 20);
    // What one run has taught the filter must not serve the next.
    let copy = folder.path().join("copy.redb");
    let fresh = |plainly: bool| -> Result<AnyStore> {
        fs::copy(if plainly { &plain } else { &guarded }, &copy)?;
        Ok(Box::new(RedbStore::open_with_cache(&copy, CACHE)?))
    };
    measure("redb", KEYS, &[0, 20, 100], &fresh)?;
    attack("redb", KEYS, &fresh)
}

fn postgres(place: &str) -> Result<()> {
    const KEYS: u64 = 100_000;
    let number = AtomicU64::new(0);
    let fresh = |plainly: bool| -> Result<AnyStore> {
        let place = format!("{place}#lab_{}_{}", std::process::id(), number.fetch_add(1, Relaxed));
        let store = PostgresStore::create(&place, Layout::Clustered)?;
        if plainly {
            store.acquire()?;
            fill_plain(&store, KEYS)?;
        } else {
            fill(Box::new(store), KEYS)?.close()?;
            return Ok(Box::new(PostgresStore::open(&place)?));
        }
        Ok(Box::new(store))
    };
    measure("postgres", KEYS, &[0], &fresh)
}

fn key(number: u64) -> [u8; 16] {
    // Keys that compress and cluster would help the store.
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

fn fill(store: AnyStore, keys: u64) -> Result<Dictionary<Broom, AnyStore>> {
    let dict = Dictionary::create(store, Options::default().with_keys(keys))?;
    for first in (0..keys).step_by(50_000) {
        let some: Vec<_> = (first..keys.min(first + 50_000)).map(key).collect();
        dict.write(&some.iter().map(|key| Op::Put(key, &VALUE)).collect::<Vec<_>>())?;
    }
    Ok(dict)
}

/// The same entries without a dictionary.
fn fill_plain(store: &impl Store, keys: u64) -> Result<()> {
    for first in (0..keys).step_by(50_000) {
        let some: Vec<_> = (first..keys.min(first + 50_000)).map(key).collect();
        let changes: Vec<_> = some
            .iter()
            .map(|key| Change::put(plain_hi(key), key, &VALUE).with_is_new(true))
            .collect();
        store.apply(&changes)?;
    }
    Ok(store.publish()?)
}

fn plain_hi(key: &[u8]) -> u64 {
    key.hash_with(&KeyHasher::new(HashId::Secure, [5, 0x7a3e])).hi
}

/// What reads of a store cost: how many there were, and how much longer each takes.
#[derive(Default)]
struct Toll {
    accesses: AtomicU64,
    microseconds: AtomicU64,
}

struct Slow {
    store: AnyStore,
    toll: Arc<Toll>,
}

impl Slow {
    fn wait(&self) {
        self.toll.accesses.fetch_add(1, Relaxed);
        let delay = Duration::from_micros(self.toll.microseconds.load(Relaxed));
        let start = Instant::now();
        while start.elapsed() < delay {
            std::hint::spin_loop();
        }
    }
}

impl Store for Slow {
    fn layout(&self) -> Layout {
        self.store.layout()
    }

    fn acquire(&self) -> Result<(), Error> {
        self.store.acquire()
    }

    fn release(&self) {
        self.store.release();
    }

    fn publish(&self) -> Result<(), Error> {
        self.store.publish()
    }

    fn lease(&self) -> Option<Duration> {
        self.store.lease()
    }

    fn confirm(&self) -> Result<(), Error> {
        self.store.confirm()
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.wait();
        self.store.get(hi, key)
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        self.wait();
        self.store.get_or_keys(hi, key, range, visit)
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        self.wait();
        self.store.keys(range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        self.store.page(after, limit)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        self.store.apply(changes)
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.store.meta(name)
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        self.store.set_meta(records)
    }
}

/// What stands before the store.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Broom,
    Static,
    /// And as many bits as there are keys, for the strangers that it let in last.
    StaticAndCache,
    Nothing,
}

impl Before {
    const ALL: [Self; 4] = [Self::Broom, Self::Static, Self::StaticAndCache, Self::Nothing];

    fn name(self) -> &'static str {
        match self {
            Self::Broom => "broom",
            Self::Static => "the same but static",
            Self::StaticAndCache => "static and a cache",
            Self::Nothing => "nothing",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Strangers {
    /// Log-uniform over 32 times as many as there are keys: Zipf's law with an exponent of 1.
    Zipf,
    /// Half of them new, half of them of so many that were found to reach the store before.
    Replayed(u64),
}

impl Strangers {
    fn name(self) -> &'static str {
        match self {
            Self::Zipf => "zipf",
            Self::Replayed(_) => "replay",
        }
    }
}

enum Asked {
    Guarded(Dictionary<Broom, Slow>),
    Plain(Slow),
}

impl Asked {
    fn get(&self, key: &[u8]) -> Result<bool, Error> {
        match self {
            Self::Guarded(dict) => dict.contains(key),
            Self::Plain(store) => Ok(store.get(plain_hi(key), key)?.is_some()),
        }
    }
}

struct Run {
    per_second: f64,
    p50: f64,
    p99: f64,
    /// Accesses for a stranger, in each tenth of the run.
    tenths: Vec<f64>,
}

fn measure(
    name: &str,
    keys: u64,
    delays: &[u64],
    fresh: &dyn Fn(bool) -> Result<AnyStore>,
) -> Result<()> {
    for strangers in [Strangers::Zipf, Strangers::Replayed(keys / 20)] {
        let title = |what: &str| format!("{name}, {}: {what}", strangers.name());
        let columns = [
            "before the store",
            "us added to an access",
            "queries a second",
            "p50 us",
            "p99 us",
            "accesses a stranger",
        ];
        let file = |what: &str| format!("{name}-{}-{what}", strangers.name());
        let mut sheet = Sheet::new("dictionary", file("speed"), &columns);
        let mut tail =
            Sheet::new("dictionary", file("p99"), &["before the store", "us added", "p99 us"]);
        let mut learning = Sheet::new(
            "dictionary",
            file("accesses"),
            &["before the store", "tenth", "accesses a stranger"],
        );
        let (mut speeds, mut tails, mut learnt) = (Vec::new(), Vec::new(), Vec::new());
        for before in Before::ALL {
            let (mut speed, mut p99) = (Vec::new(), Vec::new());
            for delay in delays {
                let store = fresh(before == Before::Nothing)?;
                let run = run(store, before, strangers, keys, *delay)?;
                let mean = run.tenths.iter().sum::<f64>() / run.tenths.len() as f64;
                let (rate, [p50, tail_us]) = (run.per_second.round(), [run.p50, run.p99]);
                let cells = [p50, tail_us].map(|us| format!("{us:.1}"));
                sheet.row(&[
                    &before.name(),
                    delay,
                    &rate,
                    &cells[0],
                    &cells[1],
                    &format!("{mean:.4}"),
                ]);
                tail.row(&[&before.name(), delay, &cells[1]]);
                speed.push((*delay as f64, run.per_second));
                p99.push((*delay as f64, tail_us));
                if *delay == 0 && before != Before::Nothing {
                    for (tenth, accesses) in run.tenths.iter().enumerate() {
                        learning.row(&[&before.name(), &(tenth + 1), &format!("{accesses:.5}")]);
                    }
                    let points = run.tenths.iter().enumerate();
                    let points = points.map(|(tenth, share)| ((tenth + 1) as f64, share.max(1e-6)));
                    learnt.push(Line::measured(before.name(), points.collect()));
                }
            }
            speeds.push(Line::measured(before.name(), speed));
            tails.push(Line::measured(before.name(), p99));
        }
        let (us, tenths) = ("microseconds added to an access", "tenth of the queries");
        sheet.finish(&title("queries a second"), us, "queries a second", true, speeds)?;
        tail.finish(&title("the slowest of a hundred"), us, "microseconds", true, tails)?;
        learning.finish(
            &title("accesses a stranger"),
            tenths,
            "accesses a stranger",
            true,
            learnt,
        )?;
    }
    Ok(())
}

/// How many strangers somebody may find and come again with, before it hurts.
fn attack(name: &str, keys: u64, fresh: &dyn Fn(bool) -> Result<AnyStore>) -> Result<()> {
    let columns = ["before the store", "strangers found for 1000 keys", "accesses a stranger"];
    let mut sheet = Sheet::new("dictionary", format!("{name}-replay-found"), &columns);
    let mut lines = Vec::new();
    for before in [Before::Broom, Before::Static, Before::StaticAndCache] {
        let mut points = Vec::new();
        for per_mille in [1, 3, 10, 20, 50, 100, 200] {
            let strangers = Strangers::Replayed(keys * per_mille / 1000);
            let run = run(fresh(false)?, before, strangers, keys, 0)?;
            let mean = run.tenths.iter().sum::<f64>() / run.tenths.len() as f64;
            sheet.row(&[&before.name(), &per_mille, &format!("{mean:.5}")]);
            points.push((per_mille as f64, mean));
        }
        lines.push(Line::measured(before.name(), points));
    }
    let title = format!("{name}, replay: accesses a stranger");
    sheet.finish(&title, columns[1], columns[2], true, lines)
}

/// The strangers that were let in last: sets of eight, in each of which the one that was not asked for
/// the longest goes.
struct Cache(Vec<[u64; 8]>);

impl Cache {
    fn new(numbers: u64) -> Self {
        Self(vec![[u64::MAX; 8]; numbers.div_ceil(8) as usize])
    }

    fn set(&mut self, number: u64) -> &mut [u64; 8] {
        let sets = self.0.len() as u128;
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.0[((u128::from(mixed) * sets) >> 64) as usize]
    }

    fn has(&mut self, number: u64) -> bool {
        let set = self.set(number);
        let found = set.iter().position(|known| *known == number);
        found.is_some_and(|at| {
            set[..=at].rotate_right(1);
            true
        })
    }

    fn add(&mut self, number: u64) {
        let set = self.set(number);
        set.rotate_right(1);
        set[0] = number;
    }
}

fn run(
    store: AnyStore,
    before: Before,
    strangers: Strangers,
    keys: u64,
    delay: u64,
) -> Result<Run> {
    const TENTHS: u64 = 10;
    let queries = if delay == 0 { 300_000 } else { 60_000 };
    let toll = Arc::new(Toll::default());
    let store = Slow { store, toll: Arc::clone(&toll) };
    let asked = match before {
        Before::Nothing => Asked::Plain(store),
        Before::Broom => Asked::Guarded(Dictionary::open(store)?),
        _ => Asked::Guarded(Dictionary::open(store)?.with_policy(Policy::Off)),
    };
    // The whole filter in memory before the clock runs.
    (0..20_000).try_for_each(|number| asked.get(&key(number * 37 % keys)).map(drop))?;
    let mut random = Random(delay + 1);
    let mut cache = Cache::new(keys / 64);
    // Whether a stranger reached the store, and how often.
    let mut meet = |number: u64| -> Result<(u64, Duration), Error> {
        let seen = toll.accesses.load(Relaxed);
        let ((), time) = timed(|| {
            if before == Before::StaticAndCache && cache.has(number) {
                return Ok(());
            }
            asked.get(&key(keys + number)).map(|found| assert!(!found))
        })?;
        let reads = toll.accesses.load(Relaxed) - seen;
        if before == Before::StaticAndCache && reads > 0 {
            cache.add(number);
        }
        Ok((reads, time))
    };
    let mut found = Vec::new();
    if let Strangers::Replayed(wanted) = strangers {
        while (found.len() as u64) < wanted {
            let number = random.next() >> 8;
            if meet(number)?.0 > 0 {
                found.push(number);
            }
        }
    }
    toll.microseconds.store(delay, Relaxed);
    let (mut times, mut tenths) = (Vec::new(), Vec::new());
    let start = Instant::now();
    for _ in 0..TENTHS {
        let (mut met, mut reached) = (0u64, 0u64);
        for _ in 0..queries / TENTHS {
            if random.below(100) >= ABSENT {
                let key = key(random.below(keys));
                times.push(timed(|| asked.get(&key))?.1);
                continue;
            }
            let number = match strangers {
                Strangers::Zipf => random.log_uniform(32 * keys),
                Strangers::Replayed(wanted) if random.below(2) == 0 => {
                    found[random.below(wanted) as usize]
                }
                Strangers::Replayed(_) => random.next() >> 8,
            };
            let (reads, time) = meet(number)?;
            times.push(time);
            met += 1;
            reached += reads;
        }
        tenths.push(reached as f64 / met as f64);
    }
    let per_second = queries as f64 / start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_nanos() as f64 / 1e3;
    Ok(Run { per_second, p50: at(0.5), p99: at(0.99), tenths })
}

fn timed<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<(T, Duration), Error> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, start.elapsed()))
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn log_uniform(&mut self, most: u64) -> u64 {
        let share = self.next() as f64 / u64::MAX as f64;
        ((most as f64).powf(share) as u64).min(most - 1)
    }
}
