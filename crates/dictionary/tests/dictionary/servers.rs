//! The same over servers, started here on free ports of the loopback interface.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conformance::keys::Random;
use dictionary::store::{PostgresStore, RedisStore};
use dictionary::{Error, Layout, Policy, Store};
use tempfile::TempDir;

use crate::common::{Dict, Home, busy_options, key};
use crate::{model, opening, threads};

/// A server that ends with the value.
struct Server {
    folder: TempDir,
    port: u16,
    start: Box<dyn Fn(&Server) -> Command>,
    child: Option<Child>,
}

impl Server {
    fn new(start: impl Fn(&Self) -> Command + 'static) -> Self {
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        Self { folder, port, start: Box::new(start), child: None }
    }

    fn start(&mut self) {
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = (self.start)(self);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(Instant::now() < deadline, "the server does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, as a crash would.
    fn crash(&mut self, signal: &str) {
        let mut child = self.child.take().unwrap();
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }
}

/// Says what is not tested, past the capture of a test's output.
fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "\nNOT TESTED: {what} is not installed\n");
}

fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn redis() -> Option<Server> {
    let program = program("redis-server")?;
    let mut server = Server::new(move |server| {
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--port", &server.port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--dir"]);
        command.arg(server.folder.path());
        command
    });
    server.start();
    Some(server)
}

/// The server's programs as the user that they insist on.
fn as_postgres(program: PathBuf) -> Command {
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

fn postgres() -> Option<Server> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin/postgres"));
    let program = programs.filter(|path| path.is_file()).max().or_else(|| program("postgres"))?;
    let initdb = program.with_file_name("initdb");
    let mut server = Server::new(move |server| {
        let mut command = as_postgres(program.clone());
        command.arg("-D").arg(server.folder.path().join("data")).args(["-k", "", "-p"]);
        command.args([&server.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        command.current_dir("/");
        command
    });
    let data = server.folder.path().join("data");
    fs::create_dir(&data).unwrap();
    // The folder is ours; the data must be the server's.
    let open = Command::new("chmod").arg("755").arg(server.folder.path()).status().unwrap();
    let owner = fs::metadata("/proc/self").unwrap();
    if std::os::unix::fs::MetadataExt::uid(&owner) == 0 {
        let owned = Command::new("chown").arg("postgres").arg(&data).status().unwrap();
        assert!(open.success() && owned.success());
    }
    let made = as_postgres(initdb)
        .args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "-D"])
        .arg(&data)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server.start();
    let deadline = Instant::now() + Duration::from_secs(60);
    // It answers before it is ready.
    while matches!(PostgresStore::open(&postgres_place(&server, "none")), Err(Error::Store { .. }))
    {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(server)
}

fn redis_place(server: &Server, name: &str) -> String {
    format!("redis://127.0.0.1:{}/#{name}", server.port)
}

fn postgres_place(server: &Server, name: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres#{name}", server.port)
}

/// A place of its own for each dictionary.
fn place(server: &Server, of: fn(&Server, &str) -> String) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    of(server, &format!("dict_{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

struct RedisHome(String);
struct PostgresHome(String);

impl Home for RedisHome {
    type Store = RedisStore;

    fn create(&self) -> RedisStore {
        RedisStore::open(&self.0).unwrap()
    }

    fn open(&self) -> RedisStore {
        RedisStore::open(&self.0).unwrap()
    }
}

impl Home for PostgresHome {
    type Store = PostgresStore;

    fn create(&self) -> PostgresStore {
        PostgresStore::create(&self.0).unwrap()
    }

    fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.0).unwrap()
    }
}

/// What holds for every server.
fn all_goes_well<H: Home>(home: impl Fn() -> H) {
    model::agree(&home(), 2, 1500, &mut Random::new(21));
    opening::keys_of_all_lengths(home().create()).close().unwrap();
    threads::crowd(home().create(), Policy::Inline, 200, 0);
    let home = home();
    let dict = Dict::create(home.create(), busy_options(100)).unwrap();
    assert_eq!(dict.layout(), Layout::Clustered);
    assert!(matches!(Dict::open(home.open()), Err(Error::InUse)));
    assert!(!dict.put(b"a", b"1").unwrap());
    dict.close().unwrap();
    assert!(Dict::open(home.open()).unwrap().contains(b"a").unwrap());
    assert!(matches!(Dict::create(home.open(), busy_options(100)), Err(Error::Exists)));
}

/// The server goes away in the middle, and comes back.
fn a_crash_is_survived<S: Store + 'static>(
    server: &mut Server,
    signal: &str,
    dict: Dict<S>,
    open: impl Fn() -> Result<S, Error>,
) {
    (0..50).for_each(|number| assert!(!dict.put(&key(number), b"x").unwrap()));
    server.crash(signal);
    assert!(matches!(dict.put(b"late", b"x"), Err(Error::Store { .. })));
    assert!(matches!(dict.get(&key(7)), Err(Error::Store { .. })));
    server.start();
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = dict.get(&key(7)) {
        assert!(matches!(error, Error::Store { .. }) && Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    (0..50).for_each(|number| assert!(dict.contains(&key(number)).unwrap()));
    (1000..2000).for_each(|number| assert!(!dict.contains(&key(number)).unwrap()));
    assert!(!dict.put(b"late", b"x").unwrap());
    let audit = dict.verify().unwrap();
    assert_eq!((audit.keys, audit.missing), (51, 0));
    dict.close().unwrap();
    let dict = Dict::open(open().unwrap()).unwrap();
    assert_eq!(dict.notices(), Vec::<String>::new());
    assert_eq!(dict.iter().count(), 51);
}

#[test]
fn redis_is_a_store() {
    let Some(mut server) = redis() else { return skip("redis-server") };
    all_goes_well(|| RedisHome(place(&server, redis_place)));

    // Another takes over, since the lease seemed to be gone.
    let taken = redis_place(&server, "taken");
    let first = Dict::create(RedisStore::open(&taken).unwrap(), busy_options(100)).unwrap();
    first.put(b"a", b"1").unwrap();
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("DEL").arg("{taken}:lease").query::<u64>(&mut connection).unwrap();
    let second = Dict::open(RedisStore::open(&taken).unwrap()).unwrap();
    assert_eq!(second.notices().len(), 1);
    assert!(matches!(first.put(b"b", b"2"), Err(Error::Fenced)));
    assert!(matches!(first.close(), Err(Error::Fenced)));
    assert!(second.contains(b"a").unwrap() && !second.put(b"b", b"2").unwrap());
    second.close().unwrap();

    let place = redis_place(&server, "crash");
    let open = || RedisStore::open(&place);
    let dict = Dict::create(open().unwrap(), busy_options(100)).unwrap();
    a_crash_is_survived(&mut server, "-KILL", dict, open);
    assert!(matches!(
        RedisStore::open("redis://127.0.0.1:1/").unwrap().claim(),
        Err(Error::Store { .. })
    ));
    assert!(matches!(
        RedisStore::open("redis://127.0.0.1/#Robert'); --"),
        Err(Error::Unknown { .. })
    ));
}

#[test]
fn postgres_is_a_store() {
    let Some(mut server) = postgres() else { return skip("postgresql") };
    all_goes_well(|| PostgresHome(place(&server, postgres_place)));
    assert!(matches!(PostgresStore::open(&postgres_place(&server, "no")), Err(Error::Missing)));

    // The session that holds the lock is ended by somebody, and another takes over.
    let taken = postgres_place(&server, "taken");
    let first = Dict::create(PostgresStore::create(&taken).unwrap(), busy_options(100)).unwrap();
    first.put(b"a", b"1").unwrap();
    let url = taken.split_once('#').unwrap().0;
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    let end = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'";
    client.execute(end, &[]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let second = loop {
        match Dict::open(PostgresStore::open(&taken).unwrap()) {
            Err(Error::InUse) if Instant::now() < deadline => {}
            opened => break opened.unwrap(),
        }
    };
    assert!(matches!(first.put(b"b", b"2"), Err(Error::Fenced)));
    assert!(matches!(first.close(), Err(Error::Fenced)));
    assert!(second.contains(b"a").unwrap() && !second.put(b"b", b"2").unwrap());
    second.close().unwrap();
    drop(client);

    let place = postgres_place(&server, "crash");
    let dict = Dict::create(PostgresStore::create(&place).unwrap(), busy_options(100)).unwrap();
    a_crash_is_survived(&mut server, "-QUIT", dict, || PostgresStore::open(&place));
}
