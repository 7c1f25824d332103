//! Runs the command as a process: generated and hostile inputs, every kind of the registry.

mod crash;
mod deltas;
mod duplicates;
mod foreign;
mod manners;
mod passages;
mod ranges;
mod sandbox;
mod sat;
mod sizes;
mod streams;
mod surface;
mod values;
mod watchdog;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::{SEED, Sandbox, failure, gzip, lines, text};
use serde_json::Value;
use tamis::{Capability, Kind};

#[test]
fn every_way_in_gives_the_same_bytes() {
    let keys = lines(0, 200_000);
    let crlf = text(&keys).replace('\n', "\r\n");
    let nul = text(&keys).replace('\n', "\0");
    let (one, two) = keys.split_at(17 * 70_000);
    let sandbox = Sandbox::new(&[
        ("keys", &keys),
        ("crlf", crlf.as_bytes()),
        ("nul", nul.as_bytes()),
        ("keys.gz", &gzip(&keys)),
        ("keys.zst", &zstd::encode_all(&keys[..], 1).unwrap()),
        ("one", one),
        ("two", two),
    ]);
    for kind in Kind::ALL {
        // A slow kind builds faster at a high rate.
        let fpr = if kind.is_slow_to_build() { "50%" } else { "1%" };
        let build = format!("build --filter {kind} --fpr {fpr} --seed {SEED} -q -o");
        sandbox.ok(&format!("{build} expected --threads 1 keys"));
        let expected = fs::read(sandbox.path("expected")).unwrap();
        // One that grows is not made for as many as there are.
        let grows = kind.can(Capability::Grow);
        let unless_growing =
            |from: &str| if grows { from.replace("--keys 200k", "") } else { from.to_owned() };
        for from in [
            "keys --threads 2",
            "keys --threads 7 --no-verify",
            "keys --keys 200k --no-verify",
            "crlf",
            "nul -0",
            "keys.gz",
            "keys.zst",
            "one two",
        ] {
            sandbox.ok(&format!("{build} got {}", unless_growing(from)));
            assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{kind} from {from}");
        }
        for from in ["", "-", "--no-verify --keys 200k"] {
            let output = sandbox.run_with(&format!("{build} got {}", unless_growing(from)), &keys);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{kind} from a pipe");
        }
    }
}

#[test]
fn every_kind_does_what_it_claims() {
    let sandbox = Sandbox::new(&[
        ("keys", &lines(0, 1000)),
        ("more", &lines(1000, 500)),
        ("crowd", &lines(1 << 24, 3000)),
        ("strangers", &lines(1 << 20, 100_000)),
    ]);
    for kind in Kind::ALL {
        sandbox.ok(&format!("build keys --filter {kind} --seed {SEED} --keys 2k -q -o f"));
        assert_eq!(sandbox.ok("query f keys").as_bytes(), lines(0, 1000));
        assert_eq!(sandbox.run("query -v f keys").status.code(), Some(1));
        let info: Value = serde_json::from_str(&sandbox.ok("info f --json")).unwrap();
        // The exit code is 1 if no key passes.
        let passed: f64 = text(&sandbox.run("query -c f strangers").stdout).trim().parse().unwrap();
        let expected = info["fpr"].as_f64().unwrap() * 1e5;
        let spread = 6.0 * expected.sqrt() + 3.0;
        assert!((passed - expected).abs() <= spread, "{kind}: {passed} of {expected}");

        let refusal = |what: Capability, line: &str| {
            let message = sandbox.error(line);
            let able = Kind::ALL.iter().filter(|kind| kind.can(what)).map(|kind| kind.name());
            let able = able.collect::<Vec<_>>().join(", ");
            assert!(!able.is_empty(), "a kind that can {what}");
            assert_eq!(
                message,
                format!("f: {kind} does not support {what}; these kinds do: {able}")
            );
        };
        if kind.can(Capability::Insert) {
            sandbox.ok("add f more -q -o g");
            assert_eq!(sandbox.ok("query g keys more").as_bytes(), lines(0, 1500));
            if kind.can(Capability::Overfill) {
                let output = sandbox.run("add f crowd -o crowded");
                let said = text(&output.stderr);
                assert!(said.contains("\nwarning: the capacity is 2000; "), "{kind}: {said}");
                assert_eq!(sandbox.ok("query -c crowded keys crowd"), "4000\n");
            } else if kind.can(Capability::Grow) {
                let output = sandbox.run("add f strangers -o grown");
                let said = text(&output.stderr);
                assert!(said.ends_with("added 100000 keys, 101000 in total\n"), "{kind}: {said}");
                assert_eq!(sandbox.ok("query -c grown keys strangers"), "101000\n");
            } else {
                let message = sandbox.error("add f strangers");
                let keys = info.get("entries").unwrap_or(&info["keys"]);
                let expected = format!("f: cannot add 100000 keys to {keys}: the capacity is 2000");
                assert_eq!(message, expected);
            }
        } else {
            refusal(Capability::Insert, "add f more");
        }
        if kind.can(Capability::Remove) {
            let output = sandbox.run("remove g more");
            assert_eq!(output.status.code(), Some(0), "{kind}");
            let said = text(&output.stderr);
            assert_eq!(said, "g: removed 500 keys, 0 were absent, 1000 in total\n");
            assert_eq!(sandbox.ok("query g keys").as_bytes(), lines(0, 1000));
            let left = sandbox.run("query -c g more");
            let left: u64 = text(&left.stdout).trim().parse().unwrap();
            assert!(left < 50, "{kind}: {left} of 500 are still in");
        } else {
            refusal(Capability::Remove, "remove f more");
        }
        if kind.can(Capability::Count) {
            let counts = sandbox.ok("count f keys");
            assert_eq!(counts.lines().count(), 1000);
            for (line, key) in counts.lines().zip(text(&lines(0, 1000)).lines()) {
                let (count, shown) = line.split_once('\t').unwrap();
                assert!(count.parse::<u64>().unwrap() >= 1 && shown == key, "{kind}: {line}");
            }
        } else {
            refusal(Capability::Count, "count f keys");
        }
        if kind.can(Capability::Map) {
            // Built from keys alone, each has the value 0.
            assert_eq!(sandbox.ok("get f keys").matches("\t0\n").count(), 1000);
        } else {
            refusal(Capability::Map, "get f keys");
        }
        if kind.can(Capability::Merge) {
            sandbox.ok(&format!("build more --filter {kind} --seed {SEED} --keys 2k -q -o h"));
            sandbox.ok("merge f h -q -o i");
            assert_eq!(sandbox.ok("query i keys more").as_bytes(), lines(0, 1500));
        } else {
            refusal(Capability::Merge, "merge f f -o x");
        }
        if kind.can(Capability::SetOps) {
            assert_eq!(sandbox.ok("similar f f"), "1.0000\n");
            let apart: f64 = sandbox.ok("similar f h").trim().parse().unwrap();
            assert!(apart < 0.7, "{kind}: {apart} for sets with nothing in common");
        } else {
            refusal(Capability::SetOps, "similar f f");
            refusal(Capability::SetOps, "merge --intersect f f -o x");
        }
        if kind.can(Capability::Resize) {
            sandbox.ok("resize f --keys 6k -q -o i");
            assert_eq!(sandbox.ok("query i keys").as_bytes(), lines(0, 1000));
            assert_eq!(sandbox.ok("list i"), sandbox.ok("list f"));
        } else {
            refusal(Capability::List, "list f");
            refusal(Capability::Resize, "resize f --keys 6k -o x");
        }
    }
}

#[test]
fn counts_past_the_limit_are_told_as_such() {
    let kind = Kind::ALL.iter().find(|kind| kind.can(Capability::Count)).unwrap();
    let many = "apple\n".repeat(40_000) + "pear\npear\n";
    let sandbox = Sandbox::new(&[("keys", many.as_bytes())]);
    sandbox.ok(&format!("build keys --filter {kind} --seed {SEED} -q -o f"));
    let output = sandbox.run_with("count f", b"apple\npear\n\nstone\n");
    let counts = text(&output.stdout);
    assert!(counts.starts_with('>') && counts.contains("\tapple\n2\tpear\n0\tstone\n"), "{counts}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(sandbox.run_with("count f", b"stone\n").status.code(), Some(1));
}

#[test]
fn every_kind_is_listed() {
    let sandbox = Sandbox::new(&[]);
    let kinds = sandbox.ok("filters --json");
    assert_eq!(kinds.lines().count(), Kind::ALL.len());
    for (kind, line) in Kind::ALL.iter().zip(kinds.lines()) {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["name"], kind.name());
        let rates: Vec<_> = object["bits_per_key"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(rates, ["0.01", "0.001", "2^-8", "2^-16"]);
    }
}

#[test]
fn the_secure_hash_is_another_and_no_seed_is_shown() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 100))]);
    let build = |hash: &str, name: &str, seed: &str| {
        sandbox.ok(&format!("build keys --filter bloom --hash {hash} -q -o {name} {seed}"));
        fs::read(sandbox.path(name)).unwrap()
    };
    let seeded = format!("--seed {SEED}");
    assert_ne!(build("secure", "f", &seeded), build("fast", "g", &seeded));
    assert_ne!(build("fast", "h", ""), build("fast", "i", ""), "seeds are random");
    assert_eq!(sandbox.ok("query -c f keys"), "100\n");
    for shown in [sandbox.ok("info f"), sandbox.ok("info f --json")] {
        assert!(shown.contains("secure"));
        // Neither as words in hexadecimal or decimal, nor as it was given.
        for part in ["0001020304050607", "08090a0b0c0d0e0f", "283686952306183"] {
            assert!(!shown.contains(part), "{shown}");
        }
    }
    let message = sandbox.error("merge f g -o x");
    assert_eq!(message, "g: the hash or seed differs from f");
}

#[test]
fn no_keys_many_times_one_key_and_bytes_that_are_no_text() {
    let sandbox = Sandbox::new(&[
        ("empty", b""),
        ("blank", b"\n\r\n\n"),
        ("same", &b"apple\n".repeat(1000)),
        ("bytes", b"\xff\xfe\n\x80\nplain\n"),
    ]);
    for name in ["empty", "blank"] {
        sandbox.ok(&format!("build {name} -q -o f"));
        let info: Value = serde_json::from_str(&sandbox.ok("info f --json")).unwrap();
        assert_eq!((&info["keys"], &info["bits_per_key"]), (&Value::from(0), &Value::Null));
        assert_eq!(sandbox.run("query f bytes").status.code(), Some(1));
    }
    sandbox.ok("build same -q -o f --filter bloom");
    let info: Value = serde_json::from_str(&sandbox.ok("info f --json")).unwrap();
    assert_eq!(info["keys"], 1000);
    assert!(sandbox.ok("info f").contains("distinct keys    about 1\n"));
    sandbox.ok("build bytes -q -o f");
    let found = sandbox.run("query f bytes");
    assert_eq!(found.stdout, b"\xff\xfe\n\x80\nplain\n");
}

#[test]
fn integers_are_printed_as_numbers() {
    let raw = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let sandbox = Sandbox::new(&[
        ("ids", &raw(&[1, 42, u64::MAX])),
        ("probes", &raw(&[u64::MAX, 7, 42])),
        ("odd", &raw(&[1, 2])[..13]),
    ]);
    sandbox.ok(&format!("build --u64 ids --seed {SEED} --fpr 1e-6 -q -o f"));
    assert_eq!(sandbox.ok("query --u64 f probes"), "18446744073709551615\n42\n");
    assert_eq!(sandbox.ok("query --u64 -v f probes"), "7\n");
    let message = sandbox.error("build --u64 odd -o x");
    assert_eq!(message, "odd: the size of 13 bytes is not a multiple of 8");
}

#[test]
fn a_line_without_end_is_refused() {
    let mut keys = b"one\ntwo\n".to_vec();
    keys.resize(keys.len() + (17 << 20), b'x');
    let sandbox = Sandbox::new(&[("keys", &keys), ("one", b"one\n")]);
    assert_eq!(sandbox.error("build keys -o f"), "keys:3: the line is longer than 16 MiB");
    sandbox.ok("build one --filter bloom -q -o f");
    assert_eq!(sandbox.error("add f keys"), "keys:3: the line is longer than 16 MiB");
}

#[test]
fn damage_of_any_kind_is_found() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 30))]);
    sandbox.ok(&format!("build keys --filter bloom --seed {SEED} -q -o f"));
    let whole = fs::read(sandbox.path("f")).unwrap();
    let put = |bytes: &[u8]| fs::write(sandbox.path("f"), bytes).unwrap();
    fs::write(sandbox.path("good"), &whole).unwrap();
    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << (byte % 8);
        put(&bytes);
        let message = sandbox.error("verify f");
        assert!(message.starts_with("f: "), "byte {byte}: {message}");
        if byte % 32 == 0 {
            put(&whole[..byte]);
            assert!(sandbox.error("query f keys").starts_with("f: "));
            put(&bytes);
            assert_eq!(sandbox.error("query f keys"), message);
            assert_eq!(sandbox.error("add f keys"), message);
            assert_eq!(sandbox.error("merge good f -o g"), message);
        }
    }
    put(&whole[..whole.len() - 1]);
    let truncated = format!("f: truncated: {} of {} bytes", whole.len() - 1, whole.len());
    assert_eq!(sandbox.error("info f"), truncated);
    put(b"not at all a filter, but long enough to hold a whole header of one, and then some more");
    assert_eq!(sandbox.error("info f"), "f: not a .tamis file");
    put(b"");
    assert_eq!(sandbox.error("query f keys"), "f: not a .tamis file");
    let mut newer = whole.clone();
    newer[8] = 2;
    put(&newer);
    let message = sandbox.error("query f keys");
    assert_eq!(message, "f: format version 2 is not supported, the newest known is 1");
    let mut flipped = whole.clone();
    let last = flipped.len() - 9;
    flipped[last] ^= 1;
    put(&flipped);
    assert!(sandbox.error("query f keys").starts_with("f: corrupt at byte "));
    assert_eq!(sandbox.run("query --no-check f keys").status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_is_an_error_and_leaves_the_old_one() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 30)), ("many", &lines(0, 100_000))]);
    sandbox.ok("build keys -q -o f");
    let before = sandbox.listing();
    let script = format!("ulimit -f 8; exec {} build many -o f", env!("CARGO_BIN_EXE_tamis"));
    let output = Command::new("sh").args(["-c", &script]).current_dir(&sandbox.0).output().unwrap();
    assert_eq!(failure(&output, &script), "f: File too large");
    assert_eq!(sandbox.listing(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_an_unwritable_folder_are_errors() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 30))]);
    sandbox.ok("build keys -q -o f");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sandbox.command("query f keys").stdout(full).output().unwrap();
    assert_eq!(failure(&output, "query"), "standard output: No space left on device");
    // Nobody may create a file there, not even root.
    let message = sandbox.error("build keys -o /proc/f");
    assert!(message.starts_with("/proc/f: "), "{message}");
    assert!(sandbox.error("build keys -o /dev/full/x").starts_with("/dev/full/x: "));
}

#[test]
fn too_little_memory_is_said_before_the_work() {
    let sandbox = Sandbox::new(&[("keys", b"apple\n")]);
    let message = sandbox.error("build keys --filter bloom --keys 1M --max-memory 1MiB -o f");
    assert!(message.starts_with("the build needs "), "{message}");
    assert!(message.ends_with(" MiB of memory, more than the 1 MiB of --max-memory"), "{message}");
    if Path::new("/proc/meminfo").exists() {
        let message = sandbox.error("build keys --filter bloom --keys 2^47 -o f");
        assert!(message.starts_with("the build needs 154 TiB of memory, but only "), "{message}");
    }
}

#[test]
fn answers_do_not_wait_for_the_end_of_the_input() {
    let sandbox = Sandbox::new(&[("keys", b"apple\npear\n")]);
    sandbox.ok("build keys -q -o f");
    let mut child =
        sandbox.command("query f").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for key in ["apple\n", "pear\n"] {
        stdin.write_all(key.as_bytes()).unwrap();
        let mut answer = vec![0; key.len()];
        stdout.read_exact(&mut answer).unwrap();
        assert_eq!(answer, key.as_bytes());
    }
    // With its output closed it ends, quietly, though its input is still open.
    drop(stdout);
    // A process that another test has just forked may hold the pipe open for a moment: a write then
    // succeeds, so write until one fails.
    let status = loop {
        let _ = stdin.write_all(b"apple\n");
        std::thread::sleep(std::time::Duration::from_millis(20));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(0));

    let mut child = sandbox.command("query -q f").stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_ref().unwrap().write_all(b"apple\n").unwrap();
    let stdin = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stdin);
}

/// The integers from 0 on, as raw words.
fn words(count: u64) -> Vec<u8> {
    (0..count).flat_map(u64::to_le_bytes).collect()
}

fn static_kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| kind.can(Capability::Static))
}

#[test]
fn a_static_kind_reads_its_keys_once_and_tells_of_duplicates() {
    let keys = [lines(0, 3000), lines(0, 1000), lines(0, 1)].concat();
    let sandbox = Sandbox::new(&[("distinct", &lines(0, 3000)), ("empty", b"")]);
    for kind in static_kinds() {
        let build = format!("build --filter {kind} --seed {SEED}");
        let mut command = sandbox.command(&format!("{build} -o f --json"));
        // Were standard input copied to a temporary file, it could not be.
        command.env("TMPDIR", "/not/there").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&keys).unwrap();
        let output = child.wait_with_output().unwrap();
        let built: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&built["keys"], &built["duplicates"]), (&4001.into(), &1001.into()), "{kind}");
        assert!(!cfg!(target_os = "linux") || built["peak_bytes"].as_u64() > Some(1 << 20));
        sandbox.ok(&format!("{build} -q -o g distinct"));
        let (got, expected) = (fs::read(sandbox.path("f")), fs::read(sandbox.path("g")));
        assert!(got.unwrap() == expected.unwrap(), "{kind}");
        let output = sandbox.run_with(&format!("{build} -o f"), &keys);
        let said = text(&output.stderr);
        assert!(said.contains("4001 keys, of which 1001 were duplicates, in "), "{said}");
        let message = sandbox.error(&format!("{build} --keys 2999 -o x distinct"));
        assert_eq!(message, "there are more keys than the 2999 of --keys");

        sandbox.ok(&format!("{build} -q -o f empty"));
        assert_eq!(sandbox.run("query f distinct").status.code(), Some(1), "{kind}");
    }
}

/// Every read of this file of Linux gives another key, so a second pass does not find that of the first.
#[cfg(target_os = "linux")]
#[test]
fn a_build_queries_every_key_again() {
    const UUID: &str = "/proc/sys/kernel/random/uuid";
    let sandbox = Sandbox::new(&[("denied", b"apple\n")]);
    let changed = "the keys changed while they were being read";
    for flags in
        ["--filter bloom", "--filter cuckoo --keys 10", "--filter growing", "--deny denied"]
    {
        let build = format!("build --seed {SEED} -o f {flags} {UUID}");
        let message = sandbox.error(&build);
        assert!(message.contains(changed), "{flags}: {message}");
        sandbox.ok(&format!("{build} -q --no-verify"));
        fs::remove_file(sandbox.path("f")).unwrap();
    }
}

#[test]
fn neither_threads_nor_a_limit_of_memory_show_in_a_static_filter() {
    let sandbox = Sandbox::new(&[("keys", &words(5_000_000)), ("few", &words(300_000))]);
    for kind in static_kinds() {
        // A slow kind would take minutes for all keys.
        let (keys, set, tight) = match kind.is_slow_to_build() {
            true => ("few", "--k 3 --efficiency 0.6 --fpr 50%", 40),
            false => ("keys", "", 45),
        };
        let build = format!("build --u64 --filter {kind} {set} --seed {SEED} -q -o");
        sandbox.ok(&format!("{build} expected --threads 1 {keys}"));
        let expected = fs::read(sandbox.path("expected")).unwrap();
        for means in ["--threads 2", "--threads 3 --max-memory 1GiB --scratch ."] {
            sandbox.ok(&format!("{build} got {keys} {means}"));
            assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{kind} {means}");
        }
        // Too little memory is told, and what is told to be enough is.
        let message =
            sandbox.error(&format!("{build} x --threads 2 --max-memory {tight}MiB {keys}"));
        let enough =
            message.strip_prefix("the build needs ").and_then(|rest| rest.split_once(" MiB"));
        let (enough, rest) = enough.expect("the memory that it takes");
        assert_eq!(rest, format!(" of memory, more than the {tight} MiB of --max-memory"));
        sandbox.ok(&format!("{build} got --threads 2 --max-memory {enough}MiB {keys}"));
        assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{kind}, {enough} MiB");
    }
}

#[cfg(unix)]
#[test]
fn keys_that_cannot_be_laid_aside_leave_nothing_behind() {
    let sandbox = Sandbox::new(&[("keys", &words(4_000_000))]);
    let kind = static_kinds().next().expect("a static kind");
    let build = format!("build --u64 keys --filter {kind} --threads 2 --max-memory 56MiB -o f");
    let before = sandbox.listing();
    let script = format!("ulimit -f 8; exec {} {build}", env!("CARGO_BIN_EXE_tamis"));
    let output = Command::new("sh").args(["-c", &script]).current_dir(&sandbox.0).output().unwrap();
    assert_eq!(failure(&output, &script), ".: scratch file: File too large");
    assert_eq!(sandbox.listing(), before);
    let message = sandbox.error(&format!("{build} --scratch none"));
    assert_eq!(message, "none: scratch file: No such file or directory");
}

/// While it waits for more keys, and has laid some aside, it is ended.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;

    let sandbox = Sandbox::new(&[]);
    let kind = static_kinds().next().expect("a static kind");
    let build = format!("build --u64 --filter {kind} --threads 2 --max-memory 56MiB -o f");
    let mut child = sandbox.command(&build).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&words(4_000_000)).unwrap();
    let files = format!("/proc/{}/fd", child.id());
    let laid_aside = || {
        let targets =
            fs::read_dir(&files).unwrap().flatten().map(|file| fs::read_link(file.path()));
        targets.flatten().any(|target| target.to_string_lossy().contains(".tamis-"))
    };
    while !laid_aside() {
        assert!(child.try_wait().unwrap().is_none(), "ended before its keys did");
        std::thread::yield_now();
    }
    assert_eq!(sandbox.listing(), []);
    // Not SIGINT, which a background job may have been told to ignore.
    let stdin = child.stdin.take();
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    drop(stdin);
    assert_eq!(sandbox.listing(), []);
}

#[test]
fn denied_keys_never_pass() {
    let sandbox = Sandbox::new(&[
        ("keys", &lines(0, 10_000)),
        ("never", &lines(1 << 20, 200_000)),
        ("others", &lines(1 << 30, 200_000)),
        ("both", &[&lines(1 << 25, 50)[..], &lines(77, 1)[..]].concat()),
        ("empty", b""),
    ]);
    for fpr in ["0.3", "2^-8", "1e-4"] {
        for deny in ["never", "empty", "never empty"] {
            let deny: String = deny.split(' ').map(|file| format!(" --deny {file}")).collect();
            sandbox.ok(&format!("build keys --seed {SEED} --fpr {fpr} -q -o f {deny}"));
            let info: Value = serde_json::from_str(&sandbox.ok("info f --json")).unwrap();
            assert_eq!(info["filter"], "guarded");
            assert_eq!(sandbox.ok("query -c f keys"), "10000\n");
            let passed = text(&sandbox.run("query -c f never").stdout);
            assert_eq!(passed == "0\n", deny.contains("never"), "{passed} at {fpr}");
            let others: f64 =
                text(&sandbox.run("query -c f others").stdout).trim().parse().unwrap();
            let expected = info["fpr"].as_f64().unwrap() * 2e5;
            assert!((others - expected).abs() < 6.0 * expected.sqrt() + 3.0, "{others} at {fpr}");
        }
    }
    let output = sandbox.run("build keys --deny never -o f");
    let said = text(&output.stderr);
    assert!(said.ends_with("200000 denied keys, none of which passes\n"), "{said}");
    for (line, denied) in [("--deny never", 200_000.into()), ("--filter guarded", Value::Null)] {
        let built = sandbox.ok(&format!("build keys {line} --json -o f"));
        let built: Value = serde_json::from_str(&built).unwrap();
        assert_eq!((&built["keys"], &built["denied"]), (&10_000.into(), &denied));
    }
    assert_eq!(
        sandbox.error("build keys --deny both -o x"),
        "both:51: a key to deny, but also a key at keys:78"
    );
    assert_eq!(
        sandbox.error("build keys --deny never --filter bloom -o x"),
        "bloom does not support deny; these kinds do: guarded"
    );
    assert_eq!(
        sandbox.error("build --deny - -o x"),
        "keys and --deny cannot both come from standard input"
    );
}

#[test]
fn a_sat_filter_is_set_up_by_flags() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 2000)), ("many", &lines(0, 200_000))]);
    let build = format!("build keys --filter sat --fpr 25% --seed {SEED} -q -o");
    sandbox.ok(&format!("{build} flags --k 5 --efficiency 0.8 --construction multi"));
    sandbox.ok(&format!("{build} set --set k=5 --set efficiency=0.8 --set construction=multi"));
    assert!(fs::read(sandbox.path("flags")).unwrap() == fs::read(sandbox.path("set")).unwrap());
    assert_eq!(sandbox.ok("query -c flags keys"), "2000\n");
    for (flags, told) in [
        ("--k 8", "invalid setting k=8: it accepts 3 to 7"),
        (
            "--efficiency 0.925",
            "invalid setting efficiency=0.925: it accepts 0.01 to less than 0.925",
        ),
        ("--construction double", "invalid setting construction=double: it accepts sliced, multi"),
    ] {
        let message = sandbox.error(&format!("{build} x {flags}"));
        assert!(message.starts_with(told), "{message}");
    }
    for flag in ["--efficiency 0.8", "--construction nae"] {
        let name = flag.split(' ').next().unwrap();
        for kind in ["xor", "auto"] {
            let message = sandbox.error(&format!("build keys --filter {kind} {flag} -o x"));
            assert!(message.starts_with(&format!("{name} requires ")), "{message}");
            assert!(message.contains("sat"), "{message}");
        }
    }
    let message = sandbox.error("build many --filter sat --time-limit 0.2 -o x");
    assert!(message.starts_with("the time limit was reached after "), "{message}");
    assert!(message.ends_with(" of 200000 keys; nothing was saved"), "{message}");
    assert!(!sandbox.path("x").exists());
}
