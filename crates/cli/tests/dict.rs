//! `tamis dict` as several processes, and with servers, which are started as the dictionary's own tests
//! start them.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

#[path = "../../dictionary/tests/dictionary/server.rs"]
mod server;
use server::Server;

/// Starts `tamis dict`; WHERE stands for the place.
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

/// Its status, output and error.
fn dict(line: &str, place: &str, input: &str) -> (i32, String, String) {
    let mut child = start(line, place);
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// While one process has a dictionary with an apple open, another is told so, and changes nothing.
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

/// More lines than one write takes, then one that is wrong.
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
    // What was written before it is there, and whole.
    let (status, told, _) = dict("verify WHERE", &place, "");
    assert!(status == 0 && !told.contains(": ok, 200 keys, "), "{told}");
}

/// Every command, in both layouts, until the server is gone.
fn is_served_by(mut server: Server) {
    for layout in ["clustered", "secondary"] {
        let place = server.place(layout);
        let says = |line: &str, input: &str, status: i32, out: &str| {
            let told = dict(line, &place, input);
            assert_eq!(told, (status, out.to_owned(), String::new()), "{line}");
        };
        says(&format!("create --keys 1000 --layout {layout} WHERE"), "", 0, "");
        says("put WHERE apple 3", "", 0, "");
        a_second_is_refused(&place);
        says("load --quiet WHERE -", "pear\t4\nplum\t5 pieces\tof fruit\nquince\t\n", 0, "");
        says("get WHERE", "plum\nfig\napple\n", 0, "plum\t5 pieces\tof fruit\napple\t3\n");
        says("get WHERE fig", "", 1, "");
        says("delete WHERE apple fig", "", 0, "");
        says("delete WHERE apple", "", 1, "");
        // The user's name is no password, and yet left out with it.
        let shown = place.replace("postgres@", "");
        says("verify WHERE", "", 0, &format!("{shown}: ok, 3 keys, 0 that only the filter has\n"));
        let (status, stats, _) = dict("stats --json WHERE", &place, "");
        let layout = format!(r#""layout":"{layout}""#);
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
