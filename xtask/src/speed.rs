//! Counts the instructions of each operation under callgrind and compares them with a committed table.
//!
//! Instructions do not depend on the load of the machine, so a change that makes a query longer is seen
//! at once. They do depend on the compiler and on the processor, which the first line of the table names.
//! Elsewhere nothing is compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use tamis::{Capability, Kind};

use crate::{cargo, install, run};

const TABLE: &str = "docs/instructions.csv";
const FOLDER: &str = "target/speed";
/// The operations of `crates/bench/examples/instructions.rs`; static kinds do not insert.
const OPERATIONS: [&str; 5] = ["hit", "miss", "hit, batch", "miss, batch", "insert"];
/// The keys of each operation in that program.
const QUERIES: f64 = 10_000.0;
/// The largest relative difference from the table.
const TOLERANCE: f64 = 0.03;

/// Instructions per key of each operation of a kind.
type Counts = Vec<f64>;

/// Counts instructions and compares them with the table, or writes the table with `--write`.
pub(crate) fn speed(flags: &[String]) -> Result<()> {
    let write = match flags {
        [] => false,
        [flag] if flag == "--write" => true,
        _ => bail!("usage: cargo xtask speed [--write]"),
    };
    if !install("valgrind", "valgrind") {
        println!("NOT TESTED: instructions per operation: valgrind could not be installed");
        return Ok(());
    }
    let machine = machine()?;
    if !write {
        let committed = fs::read_to_string(TABLE).context(TABLE)?;
        let (made_with, _) = committed.split_once('\n').unwrap_or_default();
        if made_with != machine {
            println!(
                "NOT TESTED: instructions per operation: counted with {made_with}, this is {machine}"
            );
            return Ok(());
        }
    }
    let counts = count()?;
    if write {
        return Ok(fs::write(TABLE, table(&machine, &counts))?);
    }
    compare(&fs::read_to_string(TABLE)?, &counts)
}

/// Describes the compiler and the processor, which decides what code runs, in the standard library too.
fn machine() -> Result<String> {
    let version = Command::new("rustc").arg("--version").output()?.stdout;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        processor.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let model = model.unwrap_or(std::env::consts::ARCH);
    Ok(format!("# {}, {model}", String::from_utf8(version)?.trim()))
}

/// Returns the counts of every kind.
fn count() -> Result<BTreeMap<String, Counts>> {
    cargo([
        "build",
        "--release",
        "--locked",
        "--package",
        "tamis-bench",
        "--example",
        "instructions",
    ])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = format!("{target}/release/examples/instructions");
    let _ = fs::remove_dir_all(FOLDER);
    fs::create_dir_all(FOLDER)?;
    run(Command::new(&program).args(["write", FOLDER]))?;
    let kinds = Mutex::new(Kind::ALL.iter().filter(|kind| !kind.is_foreign()));
    let counts = Mutex::new(BTreeMap::new());
    let work = || -> Result<()> {
        loop {
            let Some(kind) = kinds.lock().ok().and_then(|mut kinds| kinds.next()) else {
                return Ok(());
            };
            let counted = count_kind(&program, *kind).with_context(|| kind.to_string())?;
            counts
                .lock()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?
                .insert(kind.to_string(), counted);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
        })
    })?;
    counts.into_inner().context("a thread panicked")
}

fn count_kind(program: &str, kind: Kind) -> Result<Counts> {
    let operations = OPERATIONS.len() - usize::from(kind.can(Capability::Static));
    OPERATIONS[..operations]
        .iter()
        .map(|operation| count_operation(program, kind, operation))
        .collect()
}

fn count_operation(program: &str, kind: Kind, operation: &str) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*measured*", "--callgrind-out-file=/dev/null"])
        .args([program, "run", &format!("{FOLDER}/{kind}.tamis"), operation])
        .output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{operation} failed under callgrind:\n{report}");
    let collected = report.lines().find_map(|line| line.split("Collected : ").nth(1));
    let collected: f64 = collected.context("callgrind printed no count")?.trim().parse()?;
    ensure!(collected > QUERIES, "{operation} was not counted");
    Ok(collected / QUERIES)
}

fn table(machine: &str, counts: &BTreeMap<String, Counts>) -> String {
    let mut out = format!("{machine}\nkind,operation,instructions per key\n");
    for (kind, counts) in counts {
        for (operation, count) in OPERATIONS.iter().zip(counts) {
            let _ = writeln!(out, "{kind},\"{operation}\",{count:.1}");
        }
    }
    out
}

fn compare(committed: &str, counts: &BTreeMap<String, Counts>) -> Result<()> {
    let mut faults = String::new();
    let mut rows = 0;
    for line in committed.lines().skip(2) {
        rows += 1;
        let row = line.split_once(",\"").and_then(|(kind, rest)| {
            let (operation, count) = rest.split_once("\",")?;
            Some((kind, operation, count.parse::<f64>().ok()?))
        });
        let (kind, operation, expected) = row.with_context(|| format!("{TABLE}: {line}"))?;
        let index = OPERATIONS.iter().position(|name| *name == operation);
        let counted = index.and_then(|index| counts.get(kind)?.get(index));
        let counted = counted.with_context(|| format!("{TABLE}: {line}: no such operation"))?;
        if (counted - expected).abs() > TOLERANCE * expected {
            let _ =
                writeln!(faults, "  {kind}, {operation}: {counted:.1}, {expected} in the table");
        }
    }
    let all: usize = counts.values().map(Vec::len).sum();
    ensure!(rows == all, "{TABLE} has {rows} rows, not {all}: run cargo xtask speed --write");
    ensure!(
        faults.is_empty(),
        "instructions per key differ by more than 3 % from {TABLE}:\n{faults}\
         If the change is meant, run cargo xtask speed --write"
    );
    println!("speed: {all} operations within 3 % of {TABLE}");
    Ok(())
}
