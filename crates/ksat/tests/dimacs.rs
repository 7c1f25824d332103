//! Valid and invalid DIMACS files.

use std::io::{self, BufReader, Read};

use tamis_ksat::{Clauses, Formula};

fn read(text: &str) -> Result<Formula, String> {
    Formula::read(text.as_bytes()).map_err(|error| error.to_string())
}

fn written(formula: &Formula) -> String {
    let mut out = Vec::new();
    formula.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn written_files_are_read_back() {
    for k in 3..=7 {
        let formula = Formula::random(Clauses::Or, k, 50, 300, k as u64).unwrap();
        assert_eq!(read(&written(&formula)).unwrap(), formula);
    }
    let empty = Formula::new(5).unwrap();
    assert_eq!(written(&empty), "p cnf 5 0\n");
    assert_eq!(read("p cnf 5 0\n").unwrap(), empty);
    let mut nae = Formula::new(3).unwrap();
    nae.add_nae(&[1, -2, 3]).unwrap();
    assert_eq!(written(&nae), "p cnf 3 2\n1 -2 3 0\n-1 2 -3 0\n");
}

#[test]
fn variants_of_the_format_are_read() {
    let formula = Formula::from_clauses([vec![1, -2, 3], vec![-1, 2]]).unwrap();
    for text in [
        "p cnf 3 2\n1 -2 3 0\n-1 2 0\n",
        "p cnf 3 2\n1 -2 3 0\n-1 2 0",
        "c hello\nc\ncompact comment\n\np  cnf\t3  2  \r\n1 -2 3 0\r\n-1 2 0\r\n",
        "p cnf 3 2\n 1\n-2 3\n0 -1\nc in between\n2 0\n",
        "p cnf 3 2\n1 -2 3 0 -1 2 0\n%\n0\n\n",
        "p cnf 3 2\n1 -2 3 0\n+1 -1 0\n-1 2 0".replace("3 2", "3 3").as_str(),
        "p cnf 3 2\n1 -2 -2 1 3 0\n-1 2 0\n",
    ] {
        assert_eq!(read(text), Ok(formula.clone()), "{text:?}");
    }
}

#[test]
fn errors_name_the_line() {
    let header = "expected `p cnf VARIABLES CLAUSES`";
    for (text, expected) in [
        ("", format!("line 1: {header}")),
        ("c only\nc comments\n", format!("line 3: {header}")),
        ("1 2 0\n", format!("line 1: {header}")),
        ("c x\np sat 3 2\n", format!("line 2: {header}")),
        ("p cnf 3\n2\n", format!("line 1: {header}")),
        ("p cnf three 2\n", format!("line 1: {header}")),
        ("p cnf -3 2\n", format!("line 1: {header}")),
        ("p cnf 99999999999999999999999 2\n", format!("line 1: {header}")),
        (
            "p cnf 4000000000 2\n",
            "line 1: 4000000000 variables exceed the maximum of 67108864".into(),
        ),
        ("p cnf 3 1\np cnf 3 1\n", "line 2: a second header".into()),
        (
            "p cnf 3 1\n1 2 4 0\n",
            "line 2: variable 4 exceeds the 3 variables of the formula".into(),
        ),
        ("p cnf 3 1\n\n1 x 0\n", "line 3: \"x\" is not a literal".into()),
        ("p cnf 3 1\n1 2.5 0\n", "line 2: \"2.5\" is not a literal".into()),
        ("p cnf 3 1\n1 99999999999 0\n", "line 2: \"99999999999\" is not a literal".into()),
        ("p cnf 3 2\n1 0\n0\n", "line 3: a clause is empty or unsatisfiable".into()),
        ("p cnf 3 2\n1 0\n2 3", "line 3: the file ends inside a clause or a solution".into()),
        ("p cnf 3 2\n1 0\n", "line 3: the file ends after 1 of 2 clauses".into()),
        ("p cnf 3 1\n1 0\n2 0\n", "line 3: more clauses than the 1 in the header".into()),
    ] {
        assert_eq!(read(text), Err(expected), "{text:?}");
    }
    let long: String = (1..=64).map(|literal| format!("{literal}\n")).collect();
    let text = format!("p cnf 64 1\n{long}0\n");
    assert_eq!(read(&text), Err("line 66: a clause has more than 63 literals".into()));
    assert!(read("p cnf 3 1\n1 2 \u{1f600} 0\n").unwrap_err().starts_with("line 2: "));
}

/// Endless input, which the reader must refuse without buffering it.
struct Endless(&'static [u8], usize);

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        for byte in out.iter_mut() {
            *byte = self.0[self.1 % self.0.len()];
            self.1 += 1;
        }
        Ok(out.len())
    }
}

#[test]
fn hostile_files_are_refused_cheaply() {
    // A header with huge numbers.
    let huge = format!("p cnf 67108864 {}\n1 2 3 0\n", u64::MAX);
    let expected = format!("line 3: the file ends after 1 of {} clauses", u64::MAX);
    assert_eq!(read(&huge), Err(expected));
    // Endless tokens, clauses and numbers.
    for (start, endless) in [
        ("p cnf 3 1\n", &b"7"[..]),
        ("p cnf 3 1\n", b"1 "),
        ("p cnf 3 1\n", b"1 -1 "),
        ("", b"p"),
        ("p cnf 3 1\n", b"\0"),
        ("p cnf 3 1\n", b"\xff\xfe "),
    ] {
        let input = start.as_bytes().chain(Endless(endless, 0));
        assert!(Formula::read(BufReader::new(input)).is_err());
    }
    // Truncated files and files with a changed byte are read or refused, without a panic.
    let good = written(&Formula::random(Clauses::Or, 3, 9, 12, 1).unwrap()).into_bytes();
    for at in 0..good.len() {
        let _ = Formula::read(&good[..at]);
        for byte in [0, b' ', b'-', b'0', b'9', b'p', b'c', b'\n', 0xff] {
            let mut changed = good.clone();
            changed[at] = byte;
            let _ = Formula::read(&changed[..]);
        }
    }
}

#[test]
fn errors_of_the_reader_are_returned() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("read failed"))
        }
    }
    let input = "p cnf 3 2\n1 2 0\n".as_bytes().chain(Broken);
    let error = Formula::read(BufReader::new(input)).unwrap_err();
    assert_eq!(error.to_string(), "line 3: read failed");
}

#[test]
fn solutions_of_any_solver_are_read() {
    let read = |text: &str| {
        tamis_ksat::read_solutions(text.as_bytes(), 3, 2).map_err(|error| error.to_string())
    };
    let one = vec![vec![true, false, true]];
    for text in [
        "s SATISFIABLE\nv 1 -2 3 0\n",
        "c by a solver\ns SATISFIABLE\nv 1 -2\nv 3\nv 0\nc end",
        "SAT\n1 -2 3 0\n",
        // What is not mentioned is false.
        "v 3 1 0",
    ] {
        assert_eq!(read(text).unwrap(), one, "{text}");
    }
    let two = read("s SATISFIABLE\nv 1 0\ns SATISFIABLE\nv -1 2 3 0\n").unwrap();
    assert_eq!(two, [[true, false, false], [false, true, true]]);
    assert_eq!(read("c nothing\n").unwrap(), Vec::<Vec<bool>>::new());
    for (text, message) in [
        ("s UNSATISFIABLE\n", "line 1: the solver found no solution"),
        ("c x\ns UNKNOWN\n", "line 2: the solver found no solution"),
        ("UNSAT\n", "line 1: the solver found no solution"),
        ("v 1 4 0\n", "line 1: 4 is no literal of a formula with 3 variables"),
        (
            "v -9223372036854775808 0",
            "line 1: -9223372036854775808 is no literal of a formula with 3 variables",
        ),
        ("v 1 2\n", "line 2: the file ends inside a clause or a solution"),
        ("v 1 x 0\n", "line 1: \"x\" is not a literal"),
        ("v 1 0\nv 1 0\nv 1 0\n", "line 3: more than 2 solutions"),
    ] {
        assert_eq!(read(text).unwrap_err(), message);
    }
}
