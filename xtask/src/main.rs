//! Development tasks: `cargo xtask TASK`.

mod book;
mod foreign;
mod format;
mod mutants;
mod peers;
mod plot;
mod python;
mod redis;
mod release;
mod speed;
mod table;
mod web;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

const HELP: &str = "\
cargo xtask TASK

  test [PART]    everything that must hold before a change lands; one closing line. Parts run alone:
                 style, docs, no-std, rust, examples, speed, python, spark, redis, web
  soak [FACTOR [WORD]…]
                 the same checks with new seeds and so many times the work (10): hours; with words only the
                 tests whose names contain one, such as `broom`; `servers` is the load on Redis and Valkey
  redis asan     tests damaged payloads on a Redis module with the address sanitizer
  fuzz [SECONDS] every fuzz target, so long each (60)
  mutants [WORD]… plants known faults, or those that a word occurs in, and checks that the tests notice them
  peers [FLAGS]  our filters beside other crates', in one process; flags as `tamis bench`
  peers --readme measures all pairs of the table in docs/performance.md and writes it: 5 minutes
  peers --counts prints their instructions and mispredicted branches per key: 2 minutes
  speed [--write]
                 counts the instructions of each operation under callgrind and compares them with
                 docs/instructions.csv, within 3 %; --write makes that table
  foreign [--write]
                 installs the programs whose formats `tamis import` reads (1.5 GB), makes the files of
                 testdata/foreign with them and compares, and lets them read what tamis writes
  lab            runs every program of lab/ and rewrites its tables and figures: hours
  table          writes the table of filters in docs/choosing.md from the registry
  book           makes the documentation site from docs/ and the registry, with mdBook, in target/book
  plot           writes the README's plot, docs/bits-per-key.svg
  web [bench]    builds the npm package and the page in target/web; with `bench` measures the package
                 beside others under Node
  fmt            formats all sources; `cargo fmt` does not see the filters, which a macro declares
  release --dry-run
                 checks licenses, sources and API changes, and packages every crate; uploads nothing
";

/// The programs of `lab/` that `cargo xtask lab` runs, in order.
const LAB: [&str; 9] =
    ["survey", "slides", "tinyset", "static", "ksat", "sat", "adaptive", "dictionary", "open"];

/// Flags that `cargo fuzz` passes for coverage instrumentation, for a stable compiler.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code -Ccodegen-units=1 -Cdebug-assertions";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) =
        arguments.split_first().map_or(("", &[][..]), |(chore, rest)| (chore.as_str(), rest));
    std::env::set_current_dir(root())?;
    match chore {
        "test" => test(rest),
        "soak" => match rest {
            [] => soak("10", &[]),
            [factor, words @ ..] => soak(factor, words),
        },
        "redis" => match rest {
            [what] if what == "asan" => redis::asan(),
            _ => bail!("only `cargo xtask redis asan` exists"),
        },
        "fuzz" => fuzz(rest.first().map_or(Ok(60), |seconds| seconds.parse())?),
        "peers" => peers::peers(rest),
        "lab" => LAB.into_iter().try_for_each(|program| {
            cargo(["run", "--release", "--package", "tamis-lab", "--bin", program])
        }),
        "speed" => speed::speed(rest),
        "foreign" => foreign::foreign(rest),
        "table" => table::write(),
        "book" => book::write(),
        "plot" => plot::write(),
        "web" => match rest.first().map(String::as_str) {
            Some("bench") => web::bench(),
            _ => web::write(),
        },
        "fmt" => format::write(),
        "mutants" => mutants::run(rest),
        "release" => release::check(rest),
        _ => {
            print!("{HELP}");
            ensure!(chore.is_empty(), "there is no task `{chore}`");
            Ok(())
        }
    }
}

fn root() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/..")
}

/// Installs the servers and the tracer of system calls that the dictionary is tested with, where the
/// system allows it.
fn servers() {
    let packages =
        [("redis-server", "redis-server"), ("postgres", "postgresql"), ("strace", "strace")];
    for (program, package) in packages {
        if !install(program, package) {
            println!("NOT TESTED: what needs {package}, which could not be installed");
        }
    }
}

/// Returns whether a program is installed, after trying to install its package.
fn install(program: &str, package: &str) -> bool {
    let there = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
        let debian = format!("/usr/lib/{program}ql");
        found || std::path::Path::new(&debian).is_dir()
    };
    if there() {
        return true;
    }
    // A fresh machine may have no package lists, without which the next command fails.
    let _ = run(Command::new("apt-get").args(["update", "--quiet"]));
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends", package]);
    run(install.env("DEBIAN_FRONTEND", "noninteractive")).is_ok() && there()
}

/// The name of a part of `cargo xtask test`, and what it runs.
type Part = (&'static str, fn() -> Result<()>);

/// The parts of `cargo xtask test`, in order.
const PARTS: [Part; 10] = [
    ("style", style),
    ("docs", docs),
    ("no-std", without_std),
    ("rust", rust),
    ("examples", examples),
    ("speed", || speed::speed(&[])),
    ("python", python::test),
    ("spark", python::test_spark),
    ("redis", redis::test),
    ("web", web::test),
];

/// Runs the named parts, or all of them.
fn test(names: &[String]) -> Result<()> {
    for name in names {
        let known = PARTS.map(|(part, _)| part);
        ensure!(known.contains(&name.as_str()), "there is no part `{name}`: {}", known.join(", "));
    }
    let named = |part: &str| names.is_empty() || names.iter().any(|name| name == part);
    for (part, run) in PARTS.iter().filter(|(part, _)| named(part)) {
        let start = std::time::Instant::now();
        run().with_context(|| format!("cargo xtask test {part}"))?;
        println!("tamis: {part}: ok in {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Checks format and lints, and that generated tables and figures are up to date.
fn style() -> Result<()> {
    format::check()?;
    cargo(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    table::check()?;
    plot::check()
}

/// Checks the documentation of the crates and the book.
fn docs() -> Result<()> {
    run(Command::new("cargo")
        .args(["doc", "--locked", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))?;
    book::check()
}

/// Runs the tests of all crates.
fn rust() -> Result<()> {
    servers();
    let mut command = Command::new("cargo");
    tests(command.args(["test", "--locked", "--workspace", "--no-fail-fast"]))?.close()
}

/// Checks that the library compiles without the standard library.
fn without_std() -> Result<()> {
    let target = "wasm32-unknown-unknown";
    if run(Command::new("rustup").args(["target", "add", target])).is_err() {
        println!(
            "NOT TESTED: the library without `std`: the target {target} could not be installed"
        );
        return Ok(());
    }
    let check = ["check", "--locked", "--package", "tamis", "--target", target];
    cargo(check.into_iter().chain(["--no-default-features", "--features", "libm,serde"]))
}

/// Runs every program of `crates/tamis/examples`, as the tests have compiled it.
fn examples() -> Result<()> {
    for entry in std::fs::read_dir("crates/tamis/examples")? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name", path.display()))?;
        cargo(["run", "--locked", "--package", "tamis", "--profile", "test", "--example", name])?;
    }
    Ok(())
}

/// Runs the tests that `TAMIS_SOAK` lengthens: those whose names contain one of `words`, or all. The word
/// `servers` stands for the load on Redis and Valkey.
fn soak(factor: &str, words: &[String]) -> Result<()> {
    ensure!(factor.parse::<u64>().is_ok_and(|factor| factor > 0), "the factor is a number");
    let (load, names): (Vec<_>, Vec<_>) = words.iter().partition(|word| *word == "servers");
    if words.is_empty() || !names.is_empty() {
        servers();
        let mut command = Command::new("cargo");
        command.args(["test", "--locked", "--no-fail-fast"]).env("TAMIS_SOAK", factor);
        for package in ["tamis-conformance", "tamis-fuzz", "tamis-dictionary", "tamis-cli"] {
            command.args(["--package", package]);
        }
        tests(command.args(["--", "--nocapture"]).args(names))?.close()?;
    }
    if words.is_empty() || !load.is_empty() {
        redis::soak()?;
    }
    Ok(())
}

fn fuzz(seconds: u64) -> Result<()> {
    let target = "target/fuzz";
    run(Command::new("cargo")
        .args(["build", "--release", "--package", "tamis-fuzz", "--features", "libfuzzer"])
        .args(["--target-dir", target, "--target", "x86_64-unknown-linux-gnu"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", COVERAGE))?;
    for name in ["container", "read", "hostile", "ops", "plan", "dimacs", "foreign"] {
        let corpus = format!("fuzz/corpus/{name}");
        std::fs::create_dir_all(&corpus)?;
        run(Command::new(format!("{target}/x86_64-unknown-linux-gnu/release/{name}"))
            .args([
                &corpus,
                "testdata/golden",
                "testdata/corrupt",
                "-max_len=8192",
                "-print_final_stats=1",
            ])
            .arg(format!("-max_total_time={seconds}")))?;
    }
    Ok(())
}

/// Sum of the test runners' results.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    ok: bool,
}

impl Tally {
    fn close(self) -> Result<()> {
        println!("tamis: {} passed, {} failed", self.passed, self.failed);
        ensure!(self.ok && self.failed == 0 && self.passed > 0, "not all tests passed");
        Ok(())
    }
}

/// Runs tests, prints their output, and adds up their results.
fn tests(command: &mut Command) -> Result<Tally> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("failed to start cargo")?;
    let output = child.stdout.take().context("no output to read")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        std::io::stdout().write_all(&[&line[..], b"\n"].concat())?;
        let line = String::from_utf8_lossy(&line);
        if let Some(result) = line.strip_prefix("test result: ") {
            let count = |what: &str| -> u64 {
                let part = result.split([';', '.']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
            };
            tally.passed += count("passed");
            tally.failed += count("failed");
        }
    }
    tally.ok = child.wait()?.success();
    Ok(tally)
}

fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    run(Command::new("cargo").args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("failed to start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_has_every_program() {
        let manifest = std::fs::read_to_string(format!("{}/lab/Cargo.toml", root())).unwrap();
        let programs = manifest.split("[[bin]]\nname = \"").skip(1);
        let mut programs: Vec<_> = programs.filter_map(|rest| rest.split('"').next()).collect();
        let mut listed = LAB.to_vec();
        programs.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, programs);
    }
}
