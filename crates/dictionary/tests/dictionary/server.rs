//! Starts servers for the tests, on free ports of the loopback interface.
//!
//! The tests of the command include this file.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Returns the command that starts a server with a data folder and a port.
type Start = dyn Fn(&Path, &str) -> Command;

/// A server process, which is stopped on drop.
pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    /// The parts of its URL before and after the port.
    url_parts: (&'static str, &'static str),
    start: Box<Start>,
    is_ready: Box<dyn Fn(&str) -> bool>,
    child: Option<Child>,
}

impl Server {
    /// Starts a Redis server that syncs every write, or reports that none is installed.
    pub(crate) fn redis() -> Option<Self> {
        let program = installed(program("redis-server"), "redis-server")?;
        let start = move |folder: &Path, port: &str| {
            let mut command = Command::new(&program);
            command.args(["--bind", "127.0.0.1", "--port", port, "--save", ""]);
            command.args(["--appendonly", "yes", "--appendfsync", "always", "--dir"]).arg(folder);
            command
        };
        // A connection alone proves nothing: one to a port without a listener may meet itself.
        let is_ready = |port: &str| {
            let connection = TcpStream::connect(format!("127.0.0.1:{port}"));
            let answers = connection.and_then(|mut connection| {
                connection.set_read_timeout(Some(Duration::from_secs(1)))?;
                connection.write_all(b"PING\r\n")?;
                let mut answer = [0; 5];
                connection.read_exact(&mut answer)?;
                Ok(answer == *b"+PONG")
            });
            answers.unwrap_or(false)
        };
        let mut server = Self::new(("redis://127.0.0.1:", "/"), start, is_ready);
        server.start();
        Some(server)
    }

    /// Starts a PostgreSQL server, or reports that none is installed.
    pub(crate) fn postgres() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin/postgres"));
        let found = programs.filter(|path| path.is_file()).max().or_else(|| program("postgres"));
        let program = installed(found, "postgresql")?;
        let [initdb, ready] = ["initdb", "pg_isready"].map(|name| program.with_file_name(name));
        let start = move |folder: &Path, port: &str| {
            let mut command = as_postgres(&program);
            command.arg("-D").arg(folder.join("data")).args(["-k", "", "-p", port]);
            command.args(["-c", "listen_addresses=127.0.0.1"]).current_dir("/");
            command
        };
        // It accepts connections before it is ready.
        let is_ready = move |port: &str| {
            let status = Command::new(&ready).args(["-q", "-h", "127.0.0.1", "-p", port]).status();
            status.unwrap().success()
        };
        let url_parts = ("postgres://postgres@127.0.0.1:", "/postgres");
        let mut server = Self::new(url_parts, start, is_ready);
        let data = server.folder.path().join("data");
        fs::create_dir(&data).unwrap();
        if is_root() {
            // The server does not run as root, so its user must own the data folder.
            let succeeds = |command: &mut Command| command.status().unwrap().success();
            assert!(succeeds(Command::new("chmod").arg("755").arg(server.folder.path())));
            assert!(succeeds(Command::new("chown").arg("postgres").arg(&data)));
        }
        let output = as_postgres(&initdb)
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "-D"])
            .arg(&data)
            .current_dir("/")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        server.start();
        Some(server)
    }

    fn new(
        url_parts: (&'static str, &'static str),
        start: impl Fn(&Path, &str) -> Command + 'static,
        is_ready: impl Fn(&str) -> bool + 'static,
    ) -> Self {
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let (start, is_ready) = (Box::new(start), Box::new(is_ready));
        Self { folder, port, url_parts, start, is_ready, child: None }
    }

    /// Returns the folder of its files.
    #[allow(dead_code, reason = "the tests of the command do not use it")]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("{}{}{}", self.url_parts.0, self.port, self.url_parts.1)
    }

    /// Returns the location of a dictionary.
    pub(crate) fn place(&self, name: &str) -> String {
        format!("{}#{name}", self.url())
    }

    /// Starts the server and waits until it is ready.
    pub(crate) fn start(&mut self) {
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let port = self.port.to_string();
        let mut command = (self.start)(self.folder.path(), &port);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !(self.is_ready)(&port) {
            // The port may have been taken for a moment, by a connection of another test.
            if self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
                self.child = Some(command.spawn().unwrap());
            }
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(Instant::now() < deadline, "the server did not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: &str) {
        if let Some(child) = &self.child {
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(sent.unwrap().success());
        }
    }

    /// Stops the server by a signal and waits for its end.
    pub(crate) fn end(&mut self, signal: &str) {
        self.signal(signal);
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
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

/// Reports a missing program on the real standard error, which the test harness does not capture.
fn installed(program: Option<PathBuf>, name: &str) -> Option<PathBuf> {
    if program.is_none() {
        let _ = writeln!(std::io::stderr(), "\nNOT TESTED: {name} is not installed\n");
    }
    program
}

fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Returns a command that runs as the user `postgres`, because PostgreSQL refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}
