//! A server of embedded files for one browser on this machine.
//!
//! It answers GET and HEAD for its own files alone, on the loopback address alone, and only if the header
//! `Host` names that address: a page of another origin cannot reach it under a name that it controls.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The path of the file that the user named.
const OPENED: &str = "/opened.tamis";
/// The longest request, with all headers.
const MAX_REQUEST: u64 = 16 << 10;
/// The connections that are served at a time; more are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// The time that a client has to send its request, and to take each part of the answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// What the page may load: only files of this server.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// An embedded file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    /// Its path in addresses, which begins with `/`.
    pub(crate) path: &'static str,
    pub(crate) bytes: &'static [u8],
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    site: Arc<Site>,
}

#[derive(Debug)]
struct Site {
    port: u16,
    files: &'static [File],
    opened: Option<PathBuf>,
}

/// An answer: its status, its type and its body.
struct Answer {
    status: &'static str,
    media: &'static str,
    body: Body,
}

enum Body {
    Embedded(&'static [u8]),
    File(fs::File, u64),
}

impl Server {
    /// Listens on a port of 127.0.0.1; port 0 is any free one.
    pub(crate) fn bind(
        port: u16,
        files: &'static [File],
        opened: Option<PathBuf>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, site: Arc::new(Site { port, files, opened }) })
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.site.port
    }

    /// Answers requests until the process ends.
    pub(crate) fn run(&self) -> io::Result<()> {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                // The client is gone already, or too many files are open for a moment.
                Err(_) => {
                    thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            if !from.ip().is_loopback() || open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
                continue;
            }
            open.fetch_add(1, Ordering::Relaxed);
            let (site, done) = (Arc::clone(&self.site), Arc::clone(&open));
            thread::Builder::new().spawn(move || {
                // A client that closes its connection early is no failure of the server.
                let _ = site.serve(&stream);
                done.fetch_sub(1, Ordering::Relaxed);
            })?;
        }
    }
}

impl Site {
    /// Reads one request and answers it.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut lines = BufReader::new(stream.take(MAX_REQUEST)).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let mut host = None;
        for line in lines {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("host")
            {
                host = Some(value.trim().to_owned());
            }
        }
        let (method, path) = request.split_once(' ').unwrap_or_default();
        let path = path.split([' ', '?', '#']).next().unwrap_or_default();
        let answer = self.answer(method, path, host.as_deref());
        self.write(stream, answer, method == "HEAD")
    }

    fn answer(&self, method: &str, path: &str, host: Option<&str>) -> Answer {
        let fail = |status| Answer { status, media: "text/plain", body: Body::Embedded(b"") };
        if !["127.0.0.1", "localhost"]
            .iter()
            .any(|name| host == Some(&format!("{name}:{}", self.port)))
        {
            return fail("421 Misdirected Request");
        }
        if !matches!(method, "GET" | "HEAD") {
            return fail("405 Method Not Allowed");
        }
        if path == OPENED {
            let opened = self.opened.as_ref().and_then(|path| fs::File::open(path).ok());
            return match opened.and_then(|file| Some((file.metadata().ok()?.len(), file))) {
                Some((len, file)) => Answer {
                    status: "200 OK",
                    media: "application/octet-stream",
                    body: Body::File(file, len),
                },
                None => fail("404 Not Found"),
            };
        }
        let path = if path == "/" { "/index.html" } else { path };
        match self.files.iter().find(|file| file.path == path) {
            Some(file) => {
                Answer { status: "200 OK", media: media(path), body: Body::Embedded(file.bytes) }
            }
            None => fail("404 Not Found"),
        }
    }

    fn write(&self, mut stream: &TcpStream, answer: Answer, head: bool) -> io::Result<()> {
        let Answer { status, media, body } = answer;
        let len = match &body {
            Body::Embedded(bytes) => bytes.len() as u64,
            Body::File(_, len) => *len,
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len}\r\n\
             Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )?;
        match body {
            _ if head => {}
            Body::Embedded(bytes) => stream.write_all(bytes)?,
            Body::File(file, len) => {
                io::copy(&mut file.take(len), &mut stream)?;
            }
        }
        stream.flush()
    }
}

/// Returns the media type of a file.
fn media(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[File] = &[
        File { path: "/index.html", bytes: b"<title>page</title>" },
        File { path: "/tamis/core.wasm", bytes: b"\0asm" },
    ];

    fn start(opened: Option<PathBuf>) -> u16 {
        let server = Server::bind(0, FILES, opened).unwrap();
        let port = server.port();
        thread::spawn(move || server.run());
        port
    }

    fn ask(port: u16, request: &[u8]) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(port: u16, path: &str) -> String {
        ask(port, format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes())
    }

    #[test]
    fn its_own_files_are_served_and_no_others() {
        let port = start(None);
        let page = get(port, "/?n=1M#choose");
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.ends_with("<title>page</title>"));
        assert!(page.contains("text/html") && page.contains("default-src 'self'"), "{page}");
        assert!(get(port, "/tamis/core.wasm").contains("application/wasm"));
        for path in
            ["/Cargo.toml", "/../../etc/passwd", "//etc/passwd", "/opened.tamis", "", "/%2e%2e/"]
        {
            assert!(get(port, path).starts_with("HTTP/1.1 404"), "{path}");
        }
    }

    #[test]
    fn other_hosts_and_methods_are_refused() {
        let port = start(None);
        for host in ["example.org", "127.0.0.1", "127.0.0.1:1", "", "[::1]"] {
            let answer = ask(port, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            assert!(answer.starts_with("HTTP/1.1 421"), "{host}: {answer}");
        }
        assert!(ask(port, b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 421"));
        let request = format!("POST / HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n");
        assert!(ask(port, request.as_bytes()).starts_with("HTTP/1.1 405"));
        let request = format!("HEAD / HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n");
        let answer = ask(port, request.as_bytes());
        assert!(answer.contains("Content-Length: 19") && answer.ends_with("\r\n\r\n"));
    }

    #[test]
    fn noise_does_not_stop_the_server() {
        let port = start(None);
        ask(port, b"");
        ask(port, &[0xff; 100]);
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        // More than a request may have: the server answers and closes.
        let _ = stream.write_all(&[b'a'; 32 << 10]);
        assert!(get(port, "/").starts_with("HTTP/1.1 200"));
        assert!(Server::bind(port, FILES, None).is_err(), "the port is in use");
    }

    #[test]
    fn the_named_file_is_served() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"a filter").unwrap();
        let port = start(Some(file.path().to_owned()));
        assert!(get(port, "/opened.tamis").ends_with("\r\n\r\na filter"));
    }
}
