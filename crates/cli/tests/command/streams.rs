//! Runs `tamis uniq` and `tamis comm` as processes.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::sandbox::{SEED, Sandbox, lines, text};
use serde_json::Value;

#[test]
fn a_repeated_line_is_always_dropped_and_a_new_one_printed() {
    let number = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let stream: String =
        (0..300_000).map(|i| format!("line {}\n", number(i * i) % 50_000)).collect();
    let mut known = std::collections::HashSet::new();
    let fresh: Vec<&str> = stream.lines().filter(|line| known.insert(*line)).collect();
    let sandbox = Sandbox::new(&[("stream", stream.as_bytes())]);
    for how in ["--threads 1 stream", "--threads 2 stream", "--window 5min --keys 100k stream", ""]
    {
        let line = format!("uniq --fpr 1e-12 {how}");
        let output = sandbox.run_with(&line, stream.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert!(text(&output.stdout).lines().eq(fresh.iter().copied()), "{line}");
    }
    // At a poor rate new lines are lost, but no repeated one comes through.
    let printed = sandbox.ok("uniq --fpr 10% --window 300k stream");
    let mut again = std::collections::HashSet::new();
    assert!(printed.lines().all(|line| again.insert(line)), "a line came twice");
    let lost = 1.0 - printed.lines().count() as f64 / fresh.len() as f64;
    assert!(lost > 0.001 && lost < 0.1, "{lost} of new lines are lost");
}

#[test]
fn lines_go_through_at_once_and_the_last_need_not_end() {
    let sandbox = Sandbox::new(&[]);
    let mut command = sandbox.command("uniq --window 1000");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for (write, expected) in [("a\n", "a\n"), ("a\nb\nhal", "b\n"), ("f\na\n", "half\n")] {
        stdin.write_all(write.as_bytes()).unwrap();
        let mut got = vec![0; expected.len()];
        stdout.read_exact(&mut got).unwrap();
        assert_eq!(text(&got), expected);
    }
    stdin.write_all(b"b\nno end").unwrap();
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "no end\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn integers_are_dropped_when_they_come_again() {
    let raw: Vec<u8> = [7u64, 9, 7, 8, 9].iter().flat_map(|n| n.to_le_bytes()).collect();
    let sandbox = Sandbox::new(&[("ids", &raw)]);
    assert_eq!(sandbox.ok("uniq --u64 ids"), "7\n9\n8\n");
}

#[test]
fn a_damaged_checkpoint_is_refused_and_kept() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 500))]);
    sandbox.ok("uniq --window 1000 --checkpoint seen keys");
    let sound = fs::read(sandbox.path("seen")).unwrap();
    for at in (0..sound.len()).step_by(97) {
        let mut damaged = sound.clone();
        damaged[at] ^= 4;
        fs::write(sandbox.path("seen"), &damaged).unwrap();
        let message = sandbox.error("uniq --window 1000 --checkpoint seen keys");
        assert!(message.starts_with("seen: "), "{message}");
    }
    fs::write(sandbox.path("seen"), &sound[..sound.len() / 2]).unwrap();
    sandbox.error("uniq --checkpoint seen keys");
}

#[test]
fn both_columns_are_what_queries_print() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 1000)), ("mixed", &lines(500, 100_000))]);
    sandbox.ok(&format!("build keys --filter tinyset --fpr 5% --seed {SEED} -q -o f"));
    assert_eq!(sandbox.ok("comm -1 f mixed"), sandbox.ok("query f mixed"));
    assert_eq!(sandbox.ok("comm -2 f mixed"), sandbox.ok("query -v f mixed"));
    let both = sandbox.ok("comm f mixed");
    assert!(both.replace('\t', "").as_bytes() == lines(500, 100_000));
    let maybe: u64 = sandbox.ok("query -c f mixed").trim().parse().unwrap();
    assert_eq!(sandbox.ok("comm -c f mixed"), format!("{}\t{maybe}\n", 100_000 - maybe));
    let counts: Value = serde_json::from_str(&sandbox.ok("comm --json f mixed")).unwrap();
    assert_eq!((&counts["maybe"], &counts["lines"]), (&maybe.into(), &100_000.into()));
    let wrong = counts["false_positives"].as_f64().unwrap();
    assert!((wrong + 500.0 - maybe as f64).abs() < 10.0 * wrong.sqrt(), "{wrong} of {maybe}");
    sandbox.ok(&format!("build keys --fpr 1e-9 --seed {SEED} -q -o sure"));
    assert_eq!(sandbox.run_with("comm sure", b"none of these\n").status.code(), Some(1));
}
