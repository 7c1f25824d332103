//! Every store in both layouts, and the failures of servers.

use tamis_conformance::Effort;
use tamis_dictionary::store::MemoryStore;
use tamis_dictionary::{Error, Layout, Op, Policy};

use crate::common::{Dict, Home, LAYOUTS, Named, busy_options, key};
use crate::{accesses, claims, creation, damage, model, opening, threads};

/// The amount of work of a test.
struct Amount {
    /// Rounds of random operations.
    rounds: u64,
    /// Operations in each round.
    steps: u64,
    /// Operations of each writer thread.
    writes: u64,
}

impl Amount {
    fn file() -> Self {
        let effort = Effort::now();
        Self { rounds: 4, steps: effort.times(500), writes: effort.times(300) }
    }

    fn server() -> Self {
        let effort = Effort::now();
        Self { rounds: 2, steps: effort.times(1500), writes: effort.times(200) }
    }
}

/// Checks what every store must do, each check in a location of its own.
fn check_store<H: Home>(amount: &Amount, home: impl Fn(Layout) -> H) {
    let mut random = Effort::now().random(2);
    for layout in LAYOUTS {
        model::agree(&home(layout), amount.rounds, amount.steps, &mut random);
        let (lengths, threads, counted) = (home(layout), home(layout), home(layout));
        opening::keys_of_all_lengths(lengths.create().unwrap()).close().unwrap();
        threads::check_threads(threads.create().unwrap(), Policy::Inline, amount.writes, 0);
        accesses::check_costs(counted.create().unwrap());
        check_opening(&home(layout), layout);
        creation::check_failed_creation(&home(layout));
        damage::check_damage(&home(layout));
    }
}

fn check_opening(home: &impl Home, layout: Layout) {
    assert!(matches!(home.open().and_then(Dict::open), Err(Error::NotFound)));
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
    assert!(matches!(create(), Err(Error::AlreadyExists)));
    assert_eq!(Dict::open(home.open().unwrap()).unwrap().iter().count(), 2);
}

/// Checks that an ordered store iterates over a secondary layout in key order.
fn check_key_order(home: &impl Home) {
    let dict = Dict::create(home.create().unwrap(), busy_options(100)).unwrap();
    let mut keys: Vec<_> = (0..1500).map(key).collect();
    // Equal in the prefix that an index of PostgreSQL covers.
    keys.extend((0..600u16).map(|number| [&[b'k'; 1500], &number.to_be_bytes()[..]].concat()));
    dict.write(&keys.iter().rev().map(|key| Op::Put(key, b"")).collect::<Vec<_>>()).unwrap();
    keys.sort();
    assert!(dict.iter().map(|entry| entry.unwrap().0).eq(keys));
}

#[test]
fn memory_store() {
    let effort = Effort::now();
    let amount = Amount { rounds: 20, steps: effort.times(20_000), writes: 3000 };
    check_store(&amount, MemoryStore::new);
}

#[test]
fn redb_store() {
    let home = |layout| Named::in_temp_folder("dict.redb", layout);
    check_store(&Amount::file(), home);
    check_key_order(&home(Layout::Secondary));
}

#[test]
fn fjall_store() {
    let home = |layout| Named::in_temp_folder("dict", layout);
    check_store(&Amount::file(), home);
    check_key_order(&home(Layout::Secondary));
}

#[cfg(unix)]
mod servers {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use tamis_dictionary::store::{PostgresStore, RedisStore};
    use tamis_dictionary::{Options, Store};

    use super::*;
    use crate::server::Server;

    /// Returns an unused location on a server.
    fn home(server: &Server, layout: Layout) -> Named {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let location = server.place(&format!("dict_{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        Named { location, layout, folder: None }
    }

    /// The server crashes while a dictionary is open, and is restarted.
    fn check_server_crash(server: &mut Server, signal: &str) {
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
    fn redis_store() {
        let Some(server) = Server::redis() else { return };
        check_store(&Amount::server(), |layout| home(&server, layout));
    }

    #[test]
    fn postgres_store() {
        let Some(server) = Server::postgres() else { return };
        check_store(&Amount::server(), |layout| home(&server, layout));
        check_key_order(&home(&server, Layout::Secondary));
    }

    /// A write waits for a stalled server; lookups that the filter rejects do not.
    fn check_stalled_server(server: &Server, stall: impl FnOnce(&str), resume: impl FnOnce()) {
        let home = home(server, Layout::Secondary);
        let options = Options::default().with_keys(1000).with_fpr(1e-6);
        let dict = Dict::create(home.create().unwrap(), options).unwrap();
        dict.put(b"a", b"1").unwrap();
        stall(home.location.split_once('#').unwrap().1);
        std::thread::scope(|scope| {
            let write = scope.spawn(|| dict.put(b"b", b"2"));
            (0..10_000).for_each(|number| assert!(!dict.contains(&key(number)).unwrap()));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!write.is_finished());
            resume();
            assert!(!write.join().unwrap().unwrap());
        });
        assert!(dict.contains(b"b").unwrap());
    }

    /// The server refuses a write in the middle of a batch: no write of the batch is applied, and the filter
    /// rejects no member.
    fn check_refused_batch(server: &Server, refuse: impl Fn(&str), allow: impl Fn(&str)) {
        for layout in LAYOUTS {
            let home = home(server, layout);
            let name = home.location.split_once('#').unwrap().1;
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

    #[test]
    fn redis_failures() {
        let Some(mut server) = Server::redis() else { return };
        check_server_crash(&mut server, "-KILL");
        let old = home(&server, Layout::Clustered);
        claims::check_old_copy(&mut server, &old);
        let client = redis::Client::open(server.url()).unwrap();
        let expire = |location: &str| {
            let lease = format!("{{{}}}:lease", location.split_once('#').unwrap().1);
            let mut connection = client.get_connection().unwrap();
            redis::cmd("DEL").arg(lease).query::<()>(&mut connection).unwrap();
        };
        creation::check_killed_creation(|layout| home(&server, layout), expire);
        check_stalled_server(&server, |_| server.signal("-STOP"), || server.signal("-CONT"));

        let client = redis::Client::open(server.url()).unwrap();
        let run = |words: &[&str]| {
            let mut connection = client.get_connection().unwrap();
            let (name, rest) = words.split_first().unwrap();
            redis::cmd(name).arg(rest).query::<redis::Value>(&mut connection).unwrap()
        };
        // The memory of the server is full.
        let memory = |bytes: &str| drop(run(&["CONFIG", "SET", "maxmemory", bytes]));
        check_refused_batch(&server, |_| memory("1"), |_| memory("0"));

        // The lease has expired.
        let location = server.place("taken");
        let store = RedisStore::create(&location, Layout::Clustered).unwrap();
        let first = Dict::create(store, busy_options(100)).unwrap();
        first.put(b"a", b"1").unwrap();
        // The names of keys on the server are part of the format.
        let metadata = run(&["HEXISTS", "{taken}:notes", "state"]);
        assert_eq!(metadata, redis::Value::Int(1));
        run(&["DEL", "{taken}:lease"]);
        claims::check_takeover(first, Dict::open(RedisStore::open(&location).unwrap()).unwrap());

        // Another program has changed the entries without the index.
        let store = RedisStore::create(&server.place("changed"), Layout::Secondary).unwrap();
        let dict = Dict::create(store, busy_options(100)).unwrap();
        dict.put(b"a", b"1").unwrap();
        run(&["HSET", "{changed}:entries", "b", "2"]);
        let expected = "an entry is not in the index";
        assert!(matches!(dict.verify(), Err(Error::Corrupt { what }) if what == expected));
        run(&["HDEL", "{changed}:entries", "a", "b"]);
        assert_eq!(dict.verify().unwrap().damaged_keys, [b"a"]);

        for (location, unreachable) in
            [("redis://127.0.0.1:1/", true), ("redis://127.0.0.1/#Robert'); --", false)]
        {
            match RedisStore::open(location) {
                Err(Error::Store { .. }) => assert!(unreachable),
                Err(Error::Location { .. }) => assert!(!unreachable),
                other => panic!("{location}: {other:?}"),
            }
        }
    }

    #[test]
    fn postgres_failures() {
        let Some(mut server) = Server::postgres() else { return };
        check_server_crash(&mut server, "-QUIT");
        let old = home(&server, Layout::Clustered);
        claims::check_old_copy(&mut server, &old);
        // The server ends the session of a killed process, and with it the lock.
        let expire = |_: &str| {
            let locks = "select from pg_locks where locktype = 'advisory'";
            let mut client = postgres::Client::connect(&server.url(), postgres::NoTls).unwrap();
            while !client.query(locks, &[]).unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        creation::check_killed_creation(|layout| home(&server, layout), expire);

        let connect = || postgres::Client::connect(&server.url(), postgres::NoTls).unwrap();
        let run = |text: &str| connect().batch_execute(text).unwrap();
        // Another session has locked the table.
        let other = RefCell::new(connect());
        let execute = |text: &str| other.borrow_mut().batch_execute(text).unwrap();
        check_stalled_server(
            &server,
            |name| execute(&format!("begin; lock {name}")),
            || execute("commit"),
        );

        // The table refuses long values.
        check_refused_batch(
            &server,
            |name| run(&format!("alter table {name} add check (length(value) < 100)")),
            |name| run(&format!("alter table {name} drop constraint {name}_value_check")),
        );

        // The session that holds the lock is terminated.
        let location = server.place("taken");
        let store = PostgresStore::create(&location, Layout::Clustered).unwrap();
        let first = Dict::create(store, busy_options(100)).unwrap();
        first.put(b"a", b"1").unwrap();
        // The names of tables on the server are part of the format.
        let metadata =
            connect().query_opt("select note from taken_notes where name = 'state'", &[]);
        assert!(metadata.unwrap().is_some());
        let deadline = Instant::now() + Duration::from_secs(10);
        let second = loop {
            // The first dictionary takes the lock again if it is faster.
            run("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'");
            match Dict::open(PostgresStore::open(&location).unwrap()) {
                Err(Error::InUse) if Instant::now() < deadline => {}
                opened => break opened.unwrap(),
            }
        };
        claims::check_takeover(first, second);

        // A name that is the prefix of another name.
        for (name, layout) in [("stock", Layout::Clustered), ("stock_index", Layout::Secondary)] {
            let store = PostgresStore::create(&server.place(name), layout).unwrap();
            Dict::create(store, busy_options(100)).unwrap().close().unwrap();
        }
        let layout = |name| PostgresStore::open(&server.place(name)).unwrap().layout();
        assert_eq!(["stock", "stock_index"].map(layout), LAYOUTS);
        let unreachable = PostgresStore::open("postgres://postgres@127.0.0.1:1/postgres");
        assert!(matches!(unreachable, Err(Error::Store { .. })));
    }
}
