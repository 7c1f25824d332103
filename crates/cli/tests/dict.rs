//! `tamis dict` in several processes, and with servers, which `server.rs` starts.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

#[path = "../../dictionary/tests/dictionary/server.rs"]
mod server;
use server::Server;

/// Starts `tamis dict` with `WHERE` replaced by the location.
fn start(line: &str, place: &str) -> Child {
    let words = line.split_whitespace().map(|word| if word == "WHERE" { place } else { word });
    Command::new(env!("CARGO_BIN_EXE_tamis"))
        .arg("dict")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs `tamis dict`. Returns its status, output and errors.
fn dict_bytes(line: &str, place: &str, input: &[u8]) -> (i32, Vec<u8>, String) {
    let mut child = start(line, place);
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let status = output.status.code().unwrap();
    (status, output.stdout, String::from_utf8(output.stderr).unwrap())
}

fn dict(line: &str, place: &str, input: &str) -> (i32, String, String) {
    let (status, out, told) = dict_bytes(line, place, input.as_bytes());
    (status, String::from_utf8(out).unwrap(), told)
}

fn place_in(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Dumps a dictionary, loads the dump into another one and compares. The key and the value of each entry are
/// from a list that has all bytes.
fn round_trips(from: &str, to: &str) {
    let all: Vec<u8> = (0..=255).collect();
    let parts: [&[u8]; 9] = [
        b"",
        b"plain",
        b"tab\tand\nline\r\n",
        b"\\t is no tab",
        b"\xff\xfe not UTF-8",
        "\u{feff}mark".as_bytes(),
        b"\x1f\x8b gzip",
        b"\x28\xb5\x2f\xfd zstd",
        &all,
    ];
    let escape = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("\\x{b:02x}")).collect() };
    let lines: String = parts
        .iter()
        .flat_map(|key| parts.iter().map(move |value| (key, value)))
        .map(|(key, value)| {
            // Each key once, and the empty key.
            let key = if value == key { key.to_vec() } else { [key, &b"|"[..], value].concat() };
            format!("{}\t{}\n", escape(&key), escape(value))
        })
        .collect();
    let (status, _, told) = dict("load --quiet WHERE", from, &lines);
    assert_eq!((status, &*told), (0, ""));
    let (status, dumped, told) = dict_bytes("dump WHERE", from, b"");
    assert_eq!((status, &*told), (0, ""));
    assert!(!dumped.is_empty() && std::str::from_utf8(&dumped).is_ok());
    assert_eq!(dict_bytes("load --quiet WHERE -", to, &dumped), (0, vec![], String::new()));
    let sorted = |bytes: &[u8]| {
        let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        lines.sort();
        lines.concat()
    };
    let (_, again, _) = dict_bytes("dump WHERE", to, b"");
    assert_eq!(sorted(&again), sorted(&dumped));
    assert_eq!(dict("get WHERE plain", to, "").1, "plain\tplain\n");
}

#[test]
fn a_dump_restores_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from.redb", "to"].map(|name| place_in(&folder, name));
    for place in [&from, &to] {
        assert_eq!(dict("create --keys 1000 WHERE", place, "").0, 0);
    }
    round_trips(&from, &to);
    // To a file, which appears when it is complete.
    let lines = place_in(&folder, "lines.tsv");
    assert_eq!(dict(&format!("dump WHERE {lines}"), &from, "").0, 0);
    assert_eq!(std::fs::read(&lines).unwrap(), dict_bytes("dump WHERE -", &from, b"").1);
    assert_eq!(dict(&format!("dump WHERE {}/none/lines", folder.path().display()), &from, "").0, 2);
    // A full disk is an error, a closed pipe is not.
    let (status, _, told) = dict("dump WHERE /dev/full", &from, "");
    assert!(status == 2 && told.contains("No space left on device"), "{told}");
    let mut child = start("dump WHERE", &from);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
    let (status, _, told) = dict("load WHERE -", &to, "key\t\\q\n");
    assert_eq!(status, 2);
    assert!(told.ends_with(":1: \\q is not an escape; a backslash is written \\\\\n"), "{told}");
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["stock.redb", "stock"] {
        let place = place_in(&folder, name);
        let (status, _, told) = dict("create --keys 1e14 WHERE", &place, "");
        assert!(status == 2 && told.lines().count() == 1, "{told}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{told}");
        assert_eq!(dict("create --keys 10 WHERE", &place, "").0, 0);
        assert_eq!(dict("get WHERE apple", &place, ""), (1, String::new(), String::new()));
        std::fs::remove_dir_all(&place).or_else(|_| std::fs::remove_file(&place)).unwrap();
    }
}

/// Changes bytes inside a file: the entry is reported, never its wrong value.
#[test]
fn damage_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let place = place_in(&folder, "stock.redb");
    assert_eq!(dict("create --keys 1000 WHERE", &place, "").0, 0);
    let lines = "apple\tthree pieces\npear\tfour pieces\n";
    assert_eq!(dict("load --quiet WHERE", &place, lines).0, 0);
    let mut bytes = std::fs::read(&place).unwrap();
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(b"three pieces") {
            bytes[at] = b'T';
        }
    }
    std::fs::write(&place, bytes).unwrap();
    let what = "the entry of key \"apple\" is damaged";
    let (status, out, told) = dict("get WHERE pear apple", &place, "");
    assert_eq!((status, &*out), (2, "pear\tfour pieces\n"));
    assert!(told.contains(what), "{told}");
    let (status, out, told) = dict("verify WHERE", &place, "");
    assert_eq!((status, &*out), (2, ""));
    let end = format!("{place}: 1 entries in the store are damaged\n");
    assert!(told.contains(what) && told.ends_with(&end) && !told.contains("filter"), "{told}");
    let (_, json, _) = dict("verify --json WHERE", &place, "");
    assert!(json.contains(r#""damaged":1,"damaged_keys":["apple"]"#), "{json}");
    // A dump has all other entries, also in a file.
    let (status, out, told) = dict("dump WHERE", &place, "");
    assert_eq!((status, &*out), (2, "pear\tfour pieces\n"));
    assert!(told.contains(what), "{told}");
    let lines = place_in(&folder, "lines");
    assert_eq!(dict(&format!("dump WHERE {lines}"), &place, "").0, 2);
    assert_eq!(std::fs::read(&lines).unwrap(), b"pear\tfour pieces\n");
    assert_eq!(dict("put WHERE apple 3", &place, "").0, 0);
    assert_eq!(dict("verify WHERE", &place, "").0, 0);
}

/// While one process has the dictionary open, another gets an error and changes nothing.
fn a_second_is_refused(place: &str) {
    let mut first = start("get WHERE", place);
    let mut input = first.stdin.take().unwrap();
    let mut output = BufReader::new(first.stdout.take().unwrap()).lines();
    input.write_all(b"apple\n").unwrap();
    assert_eq!(output.next().unwrap().unwrap(), "apple\t3");
    let (status, _, told) = dict("put WHERE apple 9", place, "");
    assert!(status == 2 && told.ends_with("in use by another dictionary\n"), "{told}");
    drop(input);
    assert!(first.wait().unwrap().success());
    assert_eq!(dict("get WHERE apple", place, "").1, "apple\t3\n");
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["stock.redb", "stock"] {
        let place = folder.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(dict("create --keys 1000 WHERE", &place, "").0, 0);
        assert_eq!(dict("put WHERE apple 3", &place, "").0, 0);
        a_second_is_refused(&place);
    }
}

/// Loads more lines than one write takes, then an invalid line.
#[test]
fn many_lines_are_several_writes() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("stock.redb").to_str().unwrap().to_owned();
    assert_eq!(dict("create --keys 1000 WHERE", &place, "").0, 0);
    let line = |number: u64| format!("{number}\t{}\n", number.to_string().repeat(50_000));
    let lines: String = (100..300).map(line).collect();
    let (status, out, told) = dict("load WHERE -", &place, &lines);
    assert_eq!((status, &*out), (0, ""));
    assert!(told.contains(": 200 lines, 200 new keys; "), "{told}");
    let (_, found, _) = dict("get WHERE 100 211 299 300", &place, "");
    assert_eq!(found, [100, 211, 299].map(line).concat());
    assert!(dict("verify WHERE", &place, "").1.contains(": ok, 200 keys, "));

    let lines: String = (300..500).map(line).chain(["no tab\n".to_owned()]).collect();
    let (status, _, told) = dict("load WHERE -", &place, &lines);
    assert_eq!(status, 2);
    assert!(told.ends_with(":201: no tab between a key and its value\n"), "{told}");
    // The writes before it were applied, each as a whole.
    let (status, told, _) = dict("verify WHERE", &place, "");
    assert!(status == 0 && !told.contains(": ok, 200 keys, "), "{told}");
}

/// Runs every command in both layouts, and ends the server.
fn is_served_by(mut server: Server) {
    for layout_name in ["clustered", "secondary"] {
        let place = server.place(layout_name);
        let says = |line: &str, input: &str, status: i32, out: &str| {
            let told = dict(line, &place, input);
            assert_eq!(told, (status, out.to_owned(), String::new()), "{line}");
        };
        says(&format!("create --keys 1000 --layout {layout_name} WHERE"), "", 0, "");
        says("put WHERE apple 3", "", 0, "");
        a_second_is_refused(&place);
        says("load --quiet WHERE -", "pear\t4\nplum\t5 pieces\tof fruit\nquince\t\n", 0, "");
        says("get WHERE", "plum\nfig\napple\n", 0, "plum\t5 pieces\tof fruit\napple\t3\n");
        says("get WHERE fig", "", 1, "");
        says("delete WHERE apple fig", "", 0, "");
        says("delete WHERE apple", "", 1, "");
        // Messages omit the user name and the password.
        let shown = place.replace("postgres@", "");
        says("verify WHERE", "", 0, &format!("{shown}: ok, 3 keys, 0 stale keys in the filter\n"));
        let (status, stats, _) = dict("stats --json WHERE", &place, "");
        let layout = format!(r#""layout":"{layout_name}""#);
        assert!(
            status == 0 && stats.contains(r#"{"keys":3,"#) && stats.contains(&layout),
            "{stats}"
        );

        let fails = |line: &str, place: &str, why: &str| {
            let (status, out, told) = dict(line, place, "");
            assert_eq!((status, out.len(), told.lines().count()), (2, 0, 1), "{line}: {told}");
            assert!(told.starts_with("tamis: ") && told.contains(why), "{line}: {told}");
        };
        fails("create WHERE", &place, "a dictionary or other data already exists here");
        fails("get WHERE apple", &server.place("none"), "no dictionary here");
        fails("get WHERE apple", &server.place("No"), "a dictionary's name is");
        fails("create --keys 1e14 WHERE", &server.place("large"), "");
        fails("get WHERE apple", &server.place("large"), "no dictionary here");
        let [from, to] = ["from", "to"].map(|name| server.place(&format!("{name}_{layout_name}")));
        for place in [&from, &to] {
            let create = format!("create --keys 1000 --layout {layout_name} WHERE");
            assert_eq!(dict(&create, place, "").0, 0);
        }
        round_trips(&from, &to);
    }
    let place = server.place("clustered");
    server.end("-INT");
    let (status, _, told) = dict("get WHERE pear", &place, "");
    assert!(status == 2 && told.lines().count() == 1 && told.contains("refused"), "{told}");
}

#[test]
fn a_dictionary_is_served_by_redis() {
    if let Some(server) = Server::redis() {
        is_served_by(server);
    }
}

#[test]
fn a_dictionary_is_served_by_postgres() {
    if let Some(server) = Server::postgres() {
        is_served_by(server);
    }
}
