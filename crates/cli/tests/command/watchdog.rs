//! Runs every command on generated bad inputs, under limits of memory and time: no panic, no signal, no
//! hang, and of an error one line with exit status 2.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::sandbox::{SEED, Sandbox, failure, gzip, lines, text};
use tamis::Kind;

/// Runs of the test.
const RUNS: usize = 1000;
/// The address space of a run in KiB.
const MEMORY: u64 = 2 << 20;
/// The longest time of a run, far above what one takes on a busy machine.
const TIME: Duration = Duration::from_secs(60);

/// A deterministic sequence of choices.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 29) % bound as u64) as usize
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// `F` and `G` are filters, `K` is a file of keys, `S` names a kind and `V` is a value.
const COMMANDS: &[&str] = &[
    "query F K",
    "query -v -c F K",
    "query --no-check --json F K",
    "query -0 F K K",
    "query --u64 F K",
    "add F K -o out",
    "add --distinct F K",
    "remove F K -o out",
    "count F K",
    "count --json F K",
    "get F K",
    "set F K -o out",
    "comm F K",
    "comm --json --no-check F K",
    "merge F G -o out",
    "merge --intersect F G -o out",
    "merge --force F G -o out",
    "merge --force --json F F -o out --max-memory V",
    "similar F G",
    "info F",
    "info --json F",
    "verify F",
    "build K -o out",
    "build K -o F",
    "build K -o out --filter S",
    "build K -o out --filter S --distinct",
    "build K -o out --filter S --fpr V",
    "build K -o out --filter S --keys V",
    "build K -o out --filter S --bytes V",
    "build K -o out --filter S --bits-per-key V",
    "build K -o out --filter S --set k=V",
    "build K -o out --filter S --set V",
    "build K -o out --keys V --needs remove,count --fpr V",
    "build --values K -o out --set value_bits=V",
    "build K --deny K -o out --fpr V",
    "build --u64 K -o out --filter S",
    "build K -o out --max-memory V --filter S",
    "build K -o out --time-limit V --filter sat",
    "build K -o out --seed V",
    "build K -o out --filter V",
    "uniq K",
    "uniq --window V K",
    "uniq --window V --keys V --fpr V K",
    "uniq --checkpoint F K",
    "plan --keys V --fpr V",
    "plan --keys V --bytes V",
    "plan --bytes V --fpr V",
    "plan --keys V --needs V",
    "ksat --flips 1000 K",
    "ksat --flips V --timeout V --seed V K",
    "ksat --flips 1000 --max-memory V K",
    "bench --keys V --filter S --rounds 1 --fpr V",
    "bench --keys 10 --rounds V --filter S",
    "bench --keys 1000 --rounds 1 --filter S --max-memory V",
    "dict get F apple",
    "dict stats F",
    "dict verify F",
    "dict create --keys V out",
    "dict create --keys V --max-memory V out.redb",
    "dict verify --max-memory V F",
    "dict V F",
    "filters --V",
    "completions V",
    "man --dir F",
    "V F K",
];

/// Values that are no numbers, or too small, too large or negative.
const VALUES: &[&str] = &[
    "",
    "-1",
    "0",
    "1e30",
    "nan",
    "inf",
    "-inf",
    "1/0",
    "0/0",
    "2^-8",
    "2^9999",
    "1e-400",
    "1%",
    "-",
    "é",
    "99999999999999999999",
    "18446744073709551615",
    "1e14",
    "2^47",
    "0x",
    "k=",
    "=",
    "a=b",
    "1,2",
    "1ms",
    "1e9d",
    "\u{202e}",
    "--",
    "10",
    "1e4",
    "0.5",
    "remove,remove",
    "1e15KiB",
    "x\ny",
];

struct Inputs {
    filters: Vec<(Kind, Vec<u8>)>,
    keys: Vec<Vec<u8>>,
}

impl Inputs {
    fn new() -> Self {
        let sandbox = Sandbox::new(&[("keys", &lines(0, 50))]);
        let filters = Kind::ALL.iter().map(|kind| {
            sandbox.ok(&format!("build keys --filter {kind} --seed {SEED} --keys 60 -q -o f"));
            (*kind, fs::read(sandbox.path("f")).unwrap())
        });
        let keys = lines(0, 50);
        let zipped = gzip(&keys);
        let mut values = Vec::new();
        for (value, key) in text(&keys).lines().enumerate() {
            writeln!(values, "{key}\t{value}").unwrap();
        }
        Self {
            filters: filters.collect(),
            keys: vec![
                Vec::new(),
                b"\n\r\n\0\n".to_vec(),
                b"\xef\xbb\xbf".to_vec(),
                b"again\n".repeat(3000),
                zipped[..zipped.len() / 2].to_vec(),
                [&zipped[..20], &keys[..]].concat(),
                b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff".to_vec(),
                b"\x1f\x8b\x08\xff\xff".to_vec(),
                vec![b'x'; 3 << 20],
                vec![0xff; 4096],
                (0..4096u32).map(|byte| ((byte * byte) >> 3) as u8).collect(),
                b"p cnf 3 2\n1 -2 0\n-1 2 0\n".to_vec(),
                b"p cnf 99999999 99999999\n1 0\n-1 0\n".to_vec(),
                b"a\t1\na\t2\nb\t99999999999999999999\n".to_vec(),
                values,
                keys,
            ],
        }
    }

    /// Writes a bad filter file, or none, and returns the argument that names it.
    fn filter(&self, random: &mut Random, sandbox: &Sandbox, name: &str) -> String {
        let (_, whole) = random.of(&self.filters);
        let mut bytes = whole.clone();
        match random.below(12) {
            0 => bytes.clear(),
            1 | 2 => bytes.truncate(random.below(whole.len())),
            3..=5 => {
                for _ in 0..=random.below(4) {
                    let at = random.below(whole.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            6 => {
                // The start of one kind and the rest of another.
                let at = random.below(whole.len());
                bytes.truncate(at);
                bytes.extend_from_slice(random.of(&self.filters).1.get(at..).unwrap_or_default());
            }
            7 => bytes.extend_from_slice(b"and more"),
            8 => {
                return random
                    .of(&[".", "missing", "/dev/null", "/dev/zero", "-", "/dev/stdin"])
                    .to_string();
            }
            9 => bytes = random.of(&self.keys).clone(),
            // Sound, but perhaps not of the kind that the command needs.
            _ => {}
        }
        fs::write(sandbox.path(name), bytes).unwrap();
        name.to_owned()
    }

    fn keys(&self, random: &mut Random, sandbox: &Sandbox) -> String {
        match random.below(8) {
            0 => random.of(&[".", "missing", "/dev/null", "-", "/dev/stdin", "f"]).to_string(),
            _ => {
                fs::write(sandbox.path("keys"), random.of(&self.keys)).unwrap();
                "keys".to_owned()
            }
        }
    }
}

/// Returns a command that runs with this address space, in KiB.
fn limited(sandbox: &Sandbox, memory: u64, streams: &str) -> Command {
    let script = format!("ulimit -v {memory}; exec \"$@\" {streams}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_tamis")]);
    command.current_dir(&sandbox.0).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

/// One run: its arguments, and how its streams are connected.
fn run(random: &mut Random, inputs: &Inputs) -> Result<(), String> {
    let sandbox = Sandbox::new(&[]);
    let template = random.of(COMMANDS);
    let mut arguments: Vec<String> = Vec::new();
    for word in template.split(' ') {
        let mut argument = match word {
            "F" => inputs.filter(random, &sandbox, "f"),
            "G" => inputs.filter(random, &sandbox, "g"),
            "K" => inputs.keys(random, &sandbox),
            "S" => random.of(Kind::ALL).name().to_owned(),
            _ => word.replace('V', random.of(VALUES).as_ref()),
        };
        if argument.is_empty() && arguments.is_empty() {
            argument = "none".into();
        }
        arguments.push(argument);
    }
    let streams = ["", ">&-", "<&-", "2>&-"][random.below(24).min(23) / 6 % 4];
    let streams = if random.below(4) == 0 { streams } else { "" };
    let mut child = limited(&sandbox, MEMORY, streams)
        .args(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let what = format!("{arguments:?} {streams}");
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let input = random.of(&inputs.keys).clone();
    let closes_output = random.below(10) == 0;
    let (status, errors) = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(&input)));
        scope.spawn(move || {
            if !closes_output {
                let _ = stdout.read_to_end(&mut Vec::new());
            }
        });
        let errors = scope.spawn(move || {
            let mut errors = Vec::new();
            let _ = stderr.read_to_end(&mut errors);
            errors
        });
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if start.elapsed() > TIME {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        (status, text(&errors.join().unwrap()))
    });
    let status = status.ok_or_else(|| format!("{what}: still runs after {TIME:?}"))?;
    if errors.contains("panicked at") || status.signal().is_some() {
        return Err(format!("{what}: {status}: {errors}"));
    }
    let one_line = errors.lines().count() == 1 && errors.starts_with("tamis: ");
    match status.code() {
        Some(0 | 1) => Ok(()),
        Some(2) if one_line || streams == "2>&-" => Ok(()),
        _ => Err(format!("{what}: {status}: {errors}")),
    }
}

#[test]
fn bad_inputs_give_one_line() {
    let inputs = Inputs::new();
    let next = AtomicUsize::new(0);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let worker = || {
            let mut failed = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= RUNS {
                    return failed;
                }
                if let Err(error) = run(&mut Random(number as u64 * 7919), &inputs) {
                    failed.push(format!("{number}: {error}"));
                }
            }
        };
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {RUNS} runs:\n{}", failed.len(), failed.join("\n"));
}

/// Commands that hold a filter in memory keep to --max-memory, and say so before the work. Without
/// memory they fail in one line.
#[test]
fn limits_of_memory_are_kept() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 100)), ("values", b"apple\t3\n")]);
    sandbox.ok(&format!("build keys --filter counting_bloom --keys 400k --seed {SEED} -q -o f"));
    for line in ["add f keys", "remove f keys", "merge f f -o g", "add --distinct f keys -o g"] {
        let told = sandbox.error(&format!("{line} --max-memory 1MiB"));
        assert_eq!(told, "f: the filter needs 2.29 MiB, but --max-memory is 1 MiB", "{line}");
        sandbox.ok(&format!("{line} --max-memory 32MiB -q"));
    }
    for kind in ["bloom", "counting_quotient", "broom", "sliding", "binary_fuse"] {
        let line = format!("build keys --filter {kind} --keys 1G -q -o big --max-memory 100MiB");
        let told = sandbox.error(&line);
        assert!(told.starts_with("the build needs "), "{told}");
        assert!(told.ends_with(" of memory, more than the 100 MiB of --max-memory"), "{told}");
        sandbox.ok(&format!("build keys --filter {kind} -q -o small --max-memory 100MiB"));
    }
    sandbox.ok("build --values values -q -o map");
    let told = sandbox.error("set map values --max-memory 10");
    assert!(told.starts_with("map: the filter needs ") && told.ends_with("is 10 B"), "{told}");
    let told = sandbox.error("uniq --window 1h --keys 1M keys --max-memory 1MiB");
    assert!(told.ends_with(", but --max-memory is 1 MiB"), "{told}");
    let formula: String = (1..20_000).map(|name| format!("{name} -{} 0\n", name + 1)).collect();
    fs::write(sandbox.path("cnf"), format!("p cnf 20000 19999\n{formula}")).unwrap();
    let told = sandbox.error("ksat cnf --max-memory 2MiB");
    assert_eq!(told, "cnf: the formula needs 2 MiB, but --max-memory is 2 MiB");
    sandbox.ok("ksat cnf --max-memory 8MiB -o answer");
    let told = sandbox.error("bench --keys 1e6 --filter bloom --rounds 1 --max-memory 1MiB");
    assert!(told.starts_with("the benchmark needs "), "{told}");
    assert!(told.ends_with(", but --max-memory is 1 MiB"), "{told}");
    sandbox.ok("bench --keys 1000 --filter bloom --rounds 1 --max-memory 64MiB");
    for place in ["d.redb", "d"] {
        let told = sandbox.error(&format!("dict create --keys 10M {place} --max-memory 1MiB"));
        assert!(told.starts_with(&format!("{place}: the filter needs ")), "{told}");
        assert!(told.ends_with(", but --max-memory is 1 MiB"), "{told}");
        assert!(!sandbox.path(place).exists(), "{place}");
        // The filter grows up to the limit; the lines of a refused write are not in.
        sandbox.ok(&format!("dict create --keys 100 {place} --max-memory 64KiB"));
        let entries: String = (0..50_000).map(|key| format!("{key}\t\n")).collect();
        fs::write(sandbox.path("entries"), entries).unwrap();
        let refused = |line: String| {
            let told = failure(&sandbox.run(&line), &line);
            assert!(told.starts_with(&format!("{place}: the filter needs ")), "{told}");
            assert!(told.ends_with(", but --max-memory is 64 KiB"), "{told}");
        };
        refused(format!("dict load -q {place} entries --max-memory 64KiB"));
        sandbox.ok(&format!("dict verify {place} --max-memory 64KiB"));
        sandbox.ok(&format!("dict --max-memory 16MiB load -q {place} entries"));
        sandbox.ok(&format!("dict verify {place}"));
        refused(format!("dict verify {place} --max-memory 64KiB"));
    }
    fs::write(sandbox.path("many"), lines(0, 100_000)).unwrap();
    let told = sandbox.error("build many --filter bloom --distinct --max-memory 1MiB -o g");
    assert!(told.starts_with("the set of distinct keys needs "), "{told}");
    // An address space in which the process starts, but a large filter does not fit.
    let space = 100 << 10;
    sandbox.ok(&format!("build keys --filter bloom --keys 100M --seed {SEED} -q -o large"));
    for line in [
        "build keys --filter bloom --keys 300M -o g",
        "build keys --filter cuckoo --keys 300M -o g",
        "build keys --filter counting_quotient --keys 300M -o g",
        "build keys --filter tinyset --keys 300M -o g",
        "build keys --filter broom --keys 300M -o g",
        "uniq --window 200M keys",
        "add large keys -o g",
        "merge large large -o g",
        "query large keys",
        "info large",
        "bench --keys 1e8 --filter bloom --rounds 1",
    ] {
        let mut command = limited(&sandbox, space, "");
        let output = command.args(line.split(' ')).args(threads(line)).output().unwrap();
        let told = failure(&output, line);
        assert!(told.contains("memory") || told.contains("allocate"), "{line}: {told}");
    }
}

/// Returns the option for one thread, if the command has it: each thread takes address space.
fn threads(line: &str) -> &'static [&'static str] {
    let has = ["build", "uniq", "add", "query"].iter().any(|name| line.starts_with(name));
    if has { &["--threads", "1"] } else { &[] }
}
