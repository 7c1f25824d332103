//! Overflow, faults and signals: `tamis uniq` loses no line, and no command leaves a part of a file.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::sandbox::{Sandbox, failure, lines, text};
use serde_json::Value;

fn numbers(count: u64) -> Vec<u8> {
    (0..count).map(|number| format!("{number}\n")).collect::<String>().into_bytes()
}

/// The lines of outputs; a part of a line at the end of an output does not count.
fn whole_lines<'a>(outputs: impl IntoIterator<Item = &'a [u8]>) -> HashSet<&'a [u8]> {
    let whole = |output: &'a [u8]| {
        let end = output.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        output[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    };
    outputs.into_iter().flat_map(whole).collect()
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

fn count(output: &Output) -> usize {
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

/// Returns the number of lines before the one that the message names, all of which must be printed. Of
/// 100,000 new lines at a rate of 10^-6, 3 or more are dropped in 1 of 6,000 runs.
fn lines_before(message: &str, output: &Output) -> u64 {
    let (_, rest) = message.split_once("stopped before line ").expect("the line of the stop");
    let line: u64 = rest.split(':').next().and_then(|line| line.parse().ok()).expect("a number");
    let (all, printed) = (numbers(line - 1), whole_lines([&output.stdout[..]]));
    assert!(printed.is_subset(&whole_lines([&all[..]])), "{message}");
    assert!(printed.len() as u64 + 3 > line - 1, "{message}: {} lines", printed.len());
    line - 1
}

#[test]
fn more_lines_than_planned_are_not_swallowed() {
    let sandbox = Sandbox::new(&[("s", &numbers(100_000)), ("twice", &numbers(2000).repeat(2))]);
    // Of 100,000 new lines at a rate of 10^-6, 3 or more are dropped in 1 of 6,000 runs.
    for how in ["--window 1h --keys 5k", "--window 10k", "--window 1h --keys 1", ""] {
        let output = sandbox.run(&format!("uniq {how} s"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(count(&output) >= 99_997, "{how}: {} lines", count(&output));
        assert_eq!(text(&output.stderr), "", "{how}");
    }
    let output = sandbox.run("uniq --window 1h --keys 5k --json --on-overflow grow s s");
    let report: Value = serde_json::from_str(&text(&output.stderr)).unwrap();
    assert_eq!(report["lines"], 200_000);
    assert_eq!(report["printed"], count(&output));
    assert_eq!(report["dropped"], 200_000 - count(&output));
    assert_eq!(report["unfiltered"], 0);
    assert!(report["filters"].as_u64() > Some(1) && count(&output) <= 100_000, "{report}");

    let output = sandbox.run("uniq --window 1h --keys 5k --max-memory 300KiB s");
    let message = failure(&output, "uniq --max-memory");
    assert!(lines_before(&message, &output) > 10_000, "{message}");
    assert!(message.ends_with(", but --max-memory is 300 KiB"), "{message}");
    let message = sandbox.error("uniq --window 1h --keys 50M --max-memory 1MiB s");
    assert!(message.ends_with(", but --max-memory is 1 MiB"), "{message}");

    let output = sandbox.run("uniq --window 1h --keys 5k --on-overflow stop s");
    let message = failure(&output, "uniq --on-overflow stop");
    assert!(lines_before(&message, &output) > 5000, "{message}");
    let why = ": more than 5000 distinct lines in the window: the window may not grow";
    assert!(message.ends_with(why), "{message}");

    let output =
        sandbox.run("uniq --window 1h --keys 500 --on-overflow pass --count-dropped twice");
    assert_eq!(output.status.code(), Some(0));
    let printed = whole_lines([&output.stdout[..]]).len();
    assert!(printed >= 1999, "{printed} lines");
    let said = text(&output.stderr);
    let said: Vec<&str> = said.lines().collect();
    assert!(said.len() == 3 && said[0].starts_with("warning: line "), "{said:?}");
    assert!(said[1].ends_with(" of 4000 lines were printed unfiltered"), "{said:?}");
    assert_eq!(said[2], format!("dropped {} of 4000 lines", 4000 - count(&output)));
}

#[test]
fn a_window_that_has_grown_continues() {
    let sandbox = Sandbox::new(&[("s", &numbers(30_000)), ("t", &numbers(30_100))]);
    let line = "uniq --window 1h --keys 2k --fpr 1e-9 --checkpoint seen";
    assert_eq!(sandbox.ok(&format!("{line} s")).as_bytes(), numbers(30_000));
    assert_eq!(sandbox.ok("uniq --checkpoint seen s"), "");
    assert_eq!(sandbox.ok(&format!("{line} t")).lines().count(), 100);
    assert_eq!(sandbox.ok(&format!("{line} t")), "");
    // A part of the file is refused.
    let whole = fs::read(sandbox.path("seen")).unwrap();
    for len in [0, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(sandbox.path("seen"), &whole[..len]).unwrap();
        let message = sandbox.error(&format!("{line} t"));
        assert!(message.starts_with("seen: "), "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_and_a_closed_pipe_lose_no_line() {
    let sandbox = Sandbox::new(&[("s", &numbers(100_000))]);
    // At this rate no line is dropped by chance.
    let line = "uniq --window 1M --fpr 1e-9 --checkpoint seen s";
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sandbox.command(line).stdout(full).output().unwrap();
    assert_eq!(failure(&output, line), "standard output: No space left on device");
    assert!(sandbox.ok(line).as_bytes() == numbers(100_000), "not all lines are printed");

    fs::remove_file(sandbox.path("seen")).unwrap();
    let mut child = sandbox.command(line).stdout(Stdio::piped()).spawn().unwrap();
    let mut part = vec![0; 1000];
    child.stdout.as_mut().unwrap().read_exact(&mut part).unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let rest = sandbox.ok(line);
    assert_eq!(whole_lines([&part[..], rest.as_bytes()]).len(), 100_000);
}

/// Limits the size of every file, so that the output or the checkpoint cannot be written.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_no_line() {
    let sandbox = Sandbox::new(&[("s", &numbers(30_000))]);
    let line = "uniq --window 1h --keys 1k --checkpoint seen s";
    let (mut output_failed, mut checkpoint_failed) = (0, 0);
    for blocks in (0..400).step_by(29) {
        let tamis = env!("CARGO_BIN_EXE_tamis");
        let script = format!("ulimit -f {blocks}; exec {tamis} {line} > out");
        let output = Command::new("sh").args(["-c", &script]).current_dir(&sandbox.0).output();
        match failure_or_ok(&output.unwrap()).as_deref() {
            Some("standard output: File too large") => output_failed += 1,
            Some("seen: File too large") => checkpoint_failed += 1,
            other => assert_eq!(other, None),
        }
        let part = fs::read(sandbox.path("out")).unwrap();
        let rest = sandbox.ok(line);
        let printed = whole_lines([&part[..], rest.as_bytes()]).len();
        assert!(printed >= 29_998, "{blocks} blocks: {printed} lines");
        fs::remove_file(sandbox.path("seen")).unwrap();
    }
    assert!(output_failed > 2 && checkpoint_failed > 0, "{output_failed}, {checkpoint_failed}");
}

#[cfg(unix)]
fn failure_or_ok(output: &Output) -> Option<String> {
    (output.status.code() != Some(0)).then(|| failure(output, "with a limit"))
}

#[cfg(unix)]
#[test]
fn two_processes_cannot_use_one_checkpoint() {
    let sandbox = Sandbox::new(&[("s", &numbers(10))]);
    let line = "uniq --window 1000 --checkpoint seen";
    sandbox.ok(&format!("{line} s"));
    std::os::unix::fs::symlink("seen", sandbox.path("link")).unwrap();
    for end in ["TERM", "KILL"] {
        let mut command = sandbox.command(line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(format!("{end}\n").as_bytes()).unwrap();
        let mut got = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
        for name in ["seen", "link"] {
            let message = sandbox.error(&format!("uniq --checkpoint {name} s"));
            assert_eq!(message, format!("{name}: another process uses this checkpoint"));
        }
        signal(&child, end);
        child.wait().unwrap();
        // Not even a killed process leaves its lock.
        assert_eq!(sandbox.ok(&format!("{line} s")), "");
    }
    assert!(!sandbox.path("seen.lock").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_what_was_printed_and_reports() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let sandbox = Sandbox::new(&[("more", b"a\nb\nc\n")]);
        let line = "uniq --window 1000 --checkpoint seen";
        let mut command = sandbox.command(&format!("{line} --count-dropped"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"a\nb\na\n").unwrap();
        let mut got = [0; 4];
        child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
        assert!(!sandbox.path("seen").exists());
        // `wait` closes the pipe that the child still has, and its end could come before the signal.
        let pipe = child.stdin.take();
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        drop(pipe);
        let (mut rest, mut said) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((rest.as_str(), said.as_str()), ("", "dropped 1 of 3 lines\n"));
        assert_eq!(sandbox.ok(&format!("{line} more")), "c\n");
        assert_eq!(sandbox.ok(&format!("{line} more")), "");
    }
}

/// Kills the command at random moments, also while it saves, and starts it again on the same input.
#[cfg(unix)]
#[test]
fn killed_at_any_moment_it_loses_no_line() {
    let rounds = if std::env::var_os("TAMIS_SOAK").is_some() { 2000 } else { 30 };
    let input = lines(0, 40_000);
    let sandbox = Sandbox::new(&[("s", &input)]);
    let line = "uniq --window 1h --keys 10k --fpr 1e-9 --checkpoint seen s -";
    let mut outputs = Vec::new();
    for round in 0..rounds {
        let random = |limit| (0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round + 1) >> 20) % limit;
        let mut command = sandbox.command(line);
        // It waits for more input after the file, so that only a signal ends it.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let output = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut output = Vec::new();
                stdout.read_to_end(&mut output).unwrap();
                output
            });
            std::thread::sleep(Duration::from_millis(random(80)));
            if round % 2 == 0 {
                // The save begins, and is cut off.
                signal(&child, "TERM");
                std::thread::sleep(Duration::from_micros(random(20_000)));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            reader.join().unwrap()
        });
        outputs.push(output);
    }
    outputs.push(sandbox.ok(line).into_bytes());
    let printed = whole_lines(outputs.iter().map(Vec::as_slice));
    assert_eq!(printed, whole_lines([&input[..]]));
    assert_eq!(sandbox.ok(line), "");
    for (path, _) in sandbox.listing() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let known = ["s", "seen"].contains(&name.as_str());
        assert!(known || name.starts_with(".seen.") && name.ends_with(".tmp"), "{name}");
    }
}

/// A pipe as the target holds the command in the middle of its save.
#[cfg(target_os = "linux")]
#[test]
fn a_save_is_finished_before_an_interrupt() {
    use std::os::unix::process::ExitStatusExt;

    let sandbox = Sandbox::new(&[("keys", &lines(0, 300_000))]);
    for (name, number, times) in [("INT", 2, 1), ("TERM", 15, 1), ("TERM", 15, 2)] {
        let pipe = sandbox.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let line = "build keys --filter bloom -q -o pipe";
        let mut child = sandbox.command(line).spawn().unwrap();
        let mut reader = fs::File::open(&pipe).unwrap();
        let mut saved = vec![0; 100];
        reader.read_exact(&mut saved).unwrap();
        signal(&child, name);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(child.try_wait().unwrap(), None, "{name} ended it during its save");
        if times == 2 {
            signal(&child, name);
            assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        } else {
            reader.read_to_end(&mut saved).unwrap();
            let status = child.wait().unwrap();
            assert_eq!((status.code(), status.signal()), (Some(128 + number), None));
            fs::write(sandbox.path("f"), &saved).unwrap();
            sandbox.ok("verify f");
        }
        fs::remove_file(pipe).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_build_leaves_the_old_file_or_the_new_one() {
    use std::os::unix::process::ExitStatusExt;

    let sandbox = Sandbox::new(&[("few", &lines(0, 10)), ("keys", &lines(0, 100_000))]);
    sandbox.ok("build few --filter bloom --seed 0x1 -q -o f");
    let old = fs::read(sandbox.path("f")).unwrap();
    sandbox.ok("build keys --filter bloom --seed 0x1 -q -o g");
    let new = fs::read(sandbox.path("g")).unwrap();
    let rounds = if std::env::var_os("TAMIS_SOAK").is_some() { 500 } else { 12 };
    for round in 0..rounds {
        fs::write(sandbox.path("f"), &old).unwrap();
        let mut child =
            sandbox.command("build keys --filter bloom --seed 0x1 -q -o f").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 13 % 150));
        let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).output().unwrap();
        let status = child.wait().unwrap();
        let ended = status.signal() == Some(15);
        assert!(ended || matches!(status.code(), Some(0 | 143)), "{status}");
        let left = fs::read(sandbox.path("f")).unwrap();
        assert!(left == new || left == old && ended, "{status}");
        assert_eq!(sandbox.listing().len(), 4, "{status}");
    }
}
