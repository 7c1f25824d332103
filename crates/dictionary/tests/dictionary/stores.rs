//! Every store in both layouts: what holds for all of them, then what can happen to servers.

use tamis_conformance::Effort;
use tamis_dictionary::store::MemoryStore;
use tamis_dictionary::{Error, Layout, Op, Policy};

use crate::common::{Dict, Home, LAYOUTS, Named, busy_options, key};
use crate::{accesses, model, opening, threads};

/// How much is asked of a store.
struct Amount {
    /// Rounds of random operations, and how many each has.
    rounds: u64,
    steps: u64,
    /// Operations of each of many threads.
    crowd: u64,
}

impl Amount {
    fn file() -> Self {
        let effort = Effort::now();
        Self { rounds: 4, steps: effort.times(500, 20_000), crowd: effort.times(300, 30_000) }
    }

    fn server() -> Self {
        let effort = Effort::now();
        Self { rounds: 2, steps: effort.times(1500, 15_000), crowd: effort.times(200, 2000) }
    }
}

/// What holds for every store, each time in a place of its own.
fn all_goes_well<H: Home>(amount: &Amount, home: impl Fn(Layout) -> H) {
    let mut random = Effort::now().random(2);
    for layout in LAYOUTS {
        model::agree(&home(layout), amount.rounds, amount.steps, &mut random);
        let (lengths, crowd, counted) = (home(layout), home(layout), home(layout));
        opening::keys_of_all_lengths(lengths.create().unwrap()).close().unwrap();
        threads::crowd(crowd.create().unwrap(), Policy::Inline, amount.crowd, 0);
        accesses::count(counted.create().unwrap());
        opens_and_closes(&home(layout), layout);
    }
}

fn opens_and_closes(home: &impl Home, layout: Layout) {
    assert!(matches!(home.open().and_then(Dict::open), Err(Error::Missing)));
    let create = || home.create().and_then(|store| Dict::create(store, busy_options(100)));
    let dict = create().unwrap();
    assert_eq!(dict.layout(), layout);
    assert!(matches!(home.open().and_then(Dict::open), Err(Error::InUse)));
    assert!(!dict.put(b"b", b"2").unwrap() && !dict.put(b"a", b"1").unwrap());
    dict.close().unwrap();
    let dict = Dict::open(home.open().unwrap()).unwrap();
    assert_eq!((dict.layout(), dict.notices().len()), (layout, 0));
    assert_eq!(dict.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    dict.close().unwrap();
    assert!(matches!(create(), Err(Error::Exists)));
    assert_eq!(Dict::open(home.open().unwrap()).unwrap().iter().count(), 2);
}

/// In the secondary layout a store that has an order gives its entries in that of their keys.
fn keys_come_in_order(home: &impl Home) {
    let dict = Dict::create(home.create().unwrap(), busy_options(100)).unwrap();
    let mut keys: Vec<_> = (0..1500).map(key).collect();
    // Alike for longer than an index can tell.
    keys.extend((0..600u16).map(|number| [&[b'k'; 1500], &number.to_be_bytes()[..]].concat()));
    dict.write(&keys.iter().rev().map(|key| Op::Put(key, b"")).collect::<Vec<_>>()).unwrap();
    keys.sort();
    assert!(dict.iter().map(|entry| entry.unwrap().0).eq(keys));
}

#[test]
fn memory_is_a_store() {
    let effort = Effort::now();
    let amount = Amount { rounds: 20, steps: effort.times(20_000, 2_000_000), crowd: 3000 };
    all_goes_well(&amount, MemoryStore::new);
    keys_come_in_order(&MemoryStore::new(Layout::Secondary));
}

#[test]
fn redb_is_a_store() {
    let home = |layout| Named::inside("dict.redb", layout);
    all_goes_well(&Amount::file(), home);
    keys_come_in_order(&home(Layout::Secondary));
}

#[test]
fn fjall_is_a_store() {
    let home = |layout| Named::inside("dict", layout);
    all_goes_well(&Amount::file(), home);
    keys_come_in_order(&home(Layout::Secondary));
}

#[cfg(unix)]
mod on_servers {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use tamis_dictionary::store::{PostgresStore, RedisStore};
    use tamis_dictionary::{Options, Store};

    use super::*;
    use crate::server::Server;

    /// A place of its own for each dictionary.
    fn home(server: &Server, layout: Layout) -> Named {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let place = server.place(&format!("dict_{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        Named { place, layout, _folder: None }
    }

    /// The server goes away in the middle, and comes back.
    fn a_crash_is_survived(server: &mut Server, signal: &str) {
        for layout in LAYOUTS {
            let home = home(server, layout);
            let dict = Dict::create(home.create().unwrap(), busy_options(100)).unwrap();
            (0..50).for_each(|number| assert!(!dict.put(&key(number), b"x").unwrap()));
            server.end(signal);
            assert!(matches!(dict.put(b"late", b"x"), Err(Error::Store { .. })));
            assert!(matches!(dict.get(&key(7)), Err(Error::Store { .. })));
            assert!(matches!(home.open().and_then(Dict::open), Err(Error::Store { .. })));
            server.start();
            let deadline = Instant::now() + Duration::from_secs(60);
            while let Err(error) = dict.get(&key(7)) {
                assert!(
                    matches!(error, Error::Store { .. }) && Instant::now() < deadline,
                    "{error}"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            (0..50).for_each(|number| assert!(dict.contains(&key(number)).unwrap()));
            (1000..2000).for_each(|number| assert!(!dict.contains(&key(number)).unwrap()));
            assert!(!dict.put(b"late", b"x").unwrap());
            let audit = dict.verify().unwrap();
            assert_eq!((audit.keys, audit.missing), (51, 0));
            dict.close().unwrap();
            let dict = Dict::open(home.open().unwrap()).unwrap();
            assert_eq!(dict.notices(), Vec::<String>::new());
            assert_eq!(dict.iter().count(), 51);
        }
    }

    #[test]
    fn redis_is_a_store() {
        let Some(server) = Server::redis() else { return };
        all_goes_well(&Amount::server(), |layout| home(&server, layout));
    }

    #[test]
    fn postgres_is_a_store() {
        let Some(server) = Server::postgres() else { return };
        all_goes_well(&Amount::server(), |layout| home(&server, layout));
        keys_come_in_order(&home(&server, Layout::Secondary));
    }

    /// A write takes a while, since the server does: it is made, and who is denied does not wait.
    fn slow(server: &Server, hold: impl FnOnce(&str), go_on: impl FnOnce()) {
        let home = home(server, Layout::Secondary);
        let options = Options::default().with_keys(1000).with_fpr(1e-6);
        let dict = Dict::create(home.create().unwrap(), options).unwrap();
        dict.put(b"a", b"1").unwrap();
        hold(home.place.split_once('#').unwrap().1);
        std::thread::scope(|scope| {
            let write = scope.spawn(|| dict.put(b"b", b"2"));
            (0..10_000).for_each(|number| assert!(!dict.contains(&key(number)).unwrap()));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!write.is_finished());
            go_on();
            assert!(!write.join().unwrap().unwrap());
        });
        assert!(dict.contains(b"b").unwrap());
    }

    /// A batch that the server refuses in its middle: none of it is there, and nothing is denied.
    fn refused(server: &Server, refuse: impl Fn(&str), allow: impl Fn(&str)) {
        for layout in LAYOUTS {
            let home = home(server, layout);
            let name = home.place.split_once('#').unwrap().1;
            let dict = Dict::create(home.create().unwrap(), busy_options(100)).unwrap();
            assert!(!dict.put(b"a", b"1").unwrap());
            let long = vec![1; 1000];
            let ops = [Op::Put(b"b", b"2"), Op::Put(b"a", &long), Op::Delete(b"a")];
            refuse(name);
            assert!(matches!(dict.write(&ops), Err(Error::Store { .. })));
            allow(name);
            assert_eq!(dict.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(dict.get(b"b").unwrap(), None);
            assert_eq!(dict.write(&ops).unwrap(), [false, true, true]);
            let audit = dict.verify().unwrap();
            assert_eq!((audit.keys, audit.missing), (1, 0));
            dict.close().unwrap();
        }
    }

    /// Another has taken over.
    fn fenced<F: Store + 'static, S: Store + 'static>(first: Dict<F>, second: Dict<S>) {
        assert_eq!(second.notices().len(), 1);
        assert!(matches!(first.put(b"b", b"2"), Err(Error::Fenced)));
        assert!(matches!(first.close(), Err(Error::Fenced)));
        assert!(second.contains(b"a").unwrap() && !second.put(b"b", b"2").unwrap());
        second.close().unwrap();
    }

    #[test]
    fn what_may_happen_to_redis() {
        let Some(mut server) = Server::redis() else { return };
        a_crash_is_survived(&mut server, "-KILL");
        slow(&server, |_| server.signal("-STOP"), || server.signal("-CONT"));

        let client = redis::Client::open(server.url()).unwrap();
        let ask = |words: &[&str]| {
            let mut connection = client.get_connection().unwrap();
            let (name, rest) = words.split_first().unwrap();
            redis::cmd(name).arg(rest).query::<redis::Value>(&mut connection).unwrap()
        };
        // Its memory is full.
        let memory = |most: &str| drop(ask(&["CONFIG", "SET", "maxmemory", most]));
        refused(&server, |_| memory("1"), |_| memory("0"));

        // The lease seems to be gone.
        let place = server.place("taken");
        let store = RedisStore::create(&place, Layout::Clustered).unwrap();
        let first = Dict::create(store, busy_options(100)).unwrap();
        first.put(b"a", b"1").unwrap();
        ask(&["DEL", "{taken}:lease"]);
        fenced(first, Dict::open(RedisStore::open(&place).unwrap()).unwrap());

        // Others have meddled with the index.
        let store = RedisStore::create(&server.place("meddled"), Layout::Secondary).unwrap();
        let dict = Dict::create(store, busy_options(100)).unwrap();
        dict.put(b"a", b"1").unwrap();
        for (words, what) in [
            (["HSET", "{meddled}:entries", "b", "2"], "an entry is not in the index"),
            (["HDEL", "{meddled}:entries", "a", "b"], "the index names what is no entry"),
        ] {
            ask(&words);
            assert!(matches!(dict.verify(), Err(Error::Corrupt { what: told }) if told == what));
        }

        for (place, unreachable) in
            [("redis://127.0.0.1:1/", true), ("redis://127.0.0.1/#Robert'); --", false)]
        {
            match RedisStore::open(place) {
                Err(Error::Store { .. }) => assert!(unreachable),
                Err(Error::Unknown { .. }) => assert!(!unreachable),
                other => panic!("{place}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_may_happen_to_postgres() {
        let Some(mut server) = Server::postgres() else { return };
        a_crash_is_survived(&mut server, "-QUIT");

        let connect = || postgres::Client::connect(&server.url(), postgres::NoTls).unwrap();
        let ask = |text: &str| connect().batch_execute(text).unwrap();
        // Somebody else has locked the table.
        let other = RefCell::new(connect());
        let tell = |text: &str| other.borrow_mut().batch_execute(text).unwrap();
        slow(&server, |name| tell(&format!("begin; lock {name}")), || tell("commit"));

        // A table takes no long values.
        refused(
            &server,
            |name| ask(&format!("alter table {name} add check (length(value) < 100)")),
            |name| ask(&format!("alter table {name} drop constraint {name}_value_check")),
        );

        // The session that holds the lock is ended by somebody.
        let place = server.place("taken");
        let store = PostgresStore::create(&place, Layout::Clustered).unwrap();
        let first = Dict::create(store, busy_options(100)).unwrap();
        first.put(b"a", b"1").unwrap();
        ask("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'");
        let deadline = Instant::now() + Duration::from_secs(10);
        let second = loop {
            match Dict::open(PostgresStore::open(&place).unwrap()) {
                Err(Error::InUse) if Instant::now() < deadline => {}
                opened => break opened.unwrap(),
            }
        };
        fenced(first, second);

        // Names that others begin with.
        for (name, layout) in [("stock", Layout::Clustered), ("stock_index", Layout::Secondary)] {
            drop(PostgresStore::create(&server.place(name), layout).unwrap());
        }
        let layout = |name| PostgresStore::open(&server.place(name)).unwrap().layout();
        assert_eq!(["stock", "stock_index"].map(layout), LAYOUTS);
        let unreachable = PostgresStore::open("postgres://postgres@127.0.0.1:1/postgres");
        assert!(matches!(unreachable, Err(Error::Store { .. })));
    }
}
