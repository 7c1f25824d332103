//! Runs the command in a temporary folder.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) const SEED: &str = "000102030405060708090a0b0c0d0e0f";

/// A temporary folder in which the command runs.
pub(crate) struct Sandbox(pub(crate) TempDir);

impl Sandbox {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, data)| fs::write(folder.path().join(name), data).unwrap());
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamis"));
        command.args(line.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    pub(crate) fn run_with(&self, line: &str, input: &[u8]) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // The write fails if the command ends before it has read all.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        })
    }

    pub(crate) fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that must fail without changing the folder, and returns its one-line message.
    pub(crate) fn error(&self, line: &str) -> String {
        let before = self.listing();
        let message = failure(&self.run(line), line);
        assert_eq!(self.listing(), before, "{line}: {message}");
        message
    }

    pub(crate) fn listing(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> =
            entries.map(|path| (path.clone(), fs::read(path).unwrap_or_default())).collect();
        all.sort();
        all
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn failure(output: &Output, line: &str) -> String {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert_eq!(message.lines().count(), 1, "{line}: {message}");
    let message = message.trim_end().strip_prefix("tamis: ").expect("the prefix `tamis: `");
    message.to_owned()
}

pub(crate) fn lines(from: u64, count: u64) -> Vec<u8> {
    let key = |i: u64| format!("{:016x}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (from..from + count).map(key).collect::<String>().into_bytes()
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
