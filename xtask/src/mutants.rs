//! `cargo xtask mutants`: plants known faults one by one, and checks that the tests notice them.
//!
//! The faults are listed in `mutants/list.rs`: a text of a source file, the faulty text, and the tests that
//! must fail. They are planted in a copy of the tree under `target/mutants`, so the tree itself is never
//! changed. The tests of the list must pass in the copy before a fault is planted.

mod list;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::{Context, Result, ensure};

use self::list::MUTANTS;

/// The share of faults that the tests must notice, in percent.
const LEAST_SCORE: usize = 90;
/// A fault that keeps a test running for longer than this is noticed.
const LONGEST: Duration = Duration::from_secs(120);

/// A fault.
#[derive(Clone, Copy)]
pub(crate) struct Mutant {
    /// The source file.
    pub(crate) file: &'static str,
    /// A text that occurs in it exactly once.
    pub(crate) old: &'static str,
    /// The text that replaces it.
    pub(crate) new: &'static str,
    /// The arguments of `cargo test --package` for tests of which one must fail.
    pub(crate) tests: &'static str,
}

impl Mutant {
    /// Returns the contents of the file with the fault.
    fn plant(&self, root: &Path) -> Result<String> {
        let source = fs::read_to_string(root.join(self.file))
            .with_context(|| format!("{} cannot be read", self.file))?;
        let count = source.matches(self.old).count();
        ensure!(count == 1, "{}: {count} times in it: {:?}", self.file, self.old);
        Ok(source.replace(self.old, self.new))
    }
}

/// The outcome of a test run.
enum Outcome {
    Passed,
    Failed,
    /// The sources do not compile.
    Broken,
}

/// Plants every fault whose file, text or tests contain one of `words`, or every fault.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let copy = Path::new("target/mutants/tree");
    copy_tree(copy)?;
    let copy = copy.canonicalize()?;
    let chosen: Vec<&Mutant> = MUTANTS
        .iter()
        .filter(|mutant| {
            let is_in = |word: &String| {
                [mutant.file, mutant.old, mutant.tests]
                    .iter()
                    .any(|text| text.contains(word.as_str()))
            };
            words.is_empty() || words.iter().any(is_in)
        })
        .collect();
    ensure!(!chosen.is_empty(), "no fault matches {words:?}");
    for tests in chosen.iter().map(|mutant| mutant.tests).collect::<BTreeSet<_>>() {
        let passed = matches!(test(&copy, tests)?, Outcome::Passed);
        ensure!(passed, "without a fault, `cargo test --package {tests}` fails");
    }
    let (mut viable, mut caught) = (0, 0);
    for mutant in &chosen {
        let path = copy.join(mutant.file);
        let sound = fs::read(&path)?;
        fs::write(&path, mutant.plant(&copy)?)?;
        let outcome = test(&copy, mutant.tests);
        fs::write(&path, sound)?;
        let told = match outcome? {
            Outcome::Failed => "caught",
            Outcome::Passed => "MISSED",
            Outcome::Broken => "does not compile",
        };
        viable += usize::from(told != "does not compile");
        caught += usize::from(told == "caught");
        println!("{told}: {}: {:?} for {:?}", mutant.file, mutant.new.trim(), mutant.old.trim());
    }
    println!("mutants: {caught} of {viable} caught, {} do not compile", chosen.len() - viable);
    ensure!(viable > 0 && caught * 100 >= viable * LEAST_SCORE, "below {LEAST_SCORE} %");
    Ok(())
}

/// Copies the files that git knows or would add. Files that are equal are not written, so that cargo does
/// not compile them again.
fn copy_tree(to: &Path) -> Result<()> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()?;
    ensure!(list.status.success(), "git cannot list the files of the tree");
    for name in String::from_utf8(list.stdout)?.split_terminator('\0') {
        let (from, to) = (Path::new(name), to.join(name));
        let bytes = match fs::read(from) {
            // It was deleted, and the deletion is not committed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            bytes => bytes?,
        };
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(to, bytes)?;
    }
    Ok(())
}

/// Runs tests in the copy, compiled without optimisation.
fn test(copy: &Path, tests: &str) -> Result<Outcome> {
    let cargo = |flags: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(["test", "--locked", "--package"]).args(tests.split_whitespace()).args(flags);
        command.current_dir(copy).env("CARGO_TARGET_DIR", copy.with_file_name("build"));
        for profile in ["DEV", "TEST"] {
            command.env(format!("CARGO_PROFILE_{profile}_OPT_LEVEL"), "0");
            command.env(format!("CARGO_PROFILE_{profile}_DEBUG"), "0");
        }
        command.env("CARGO_INCREMENTAL", "1").stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    if !cargo(&["--no-run"]).status()?.success() {
        return Ok(Outcome::Broken);
    }
    let Some(output) = output_within(&mut cargo(&[]), LONGEST)? else {
        return Ok(Outcome::Failed);
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let ran = said.contains("\nrunning ") && !said.contains("\nrunning 0 tests");
    ensure!(ran, "`cargo test --package {tests}` runs no test");
    Ok(if output.status.success() { Outcome::Passed } else { Outcome::Failed })
}

/// Returns the output of a command, or `None` if it did not end in time.
fn output_within(command: &mut Command, limit: Duration) -> Result<Option<Output>> {
    // A group of its own, so that the test ends with cargo.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn()?;
    let mut stdout = child.stdout.take().context("no output to read")?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        io::Read::read_to_end(&mut stdout, &mut text).map(|_| text)
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if start.elapsed() > limit => break None,
            None => thread::sleep(Duration::from_millis(50)),
        }
    };
    let Some(status) = status else {
        #[cfg(unix)]
        crate::run(Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]))?;
        let _ = child.kill();
        child.wait()?;
        return Ok(None);
    };
    let stdout = reader.join().map_err(|_| anyhow::anyhow!("the output cannot be read"))??;
    Ok(Some(Output { status, stdout, stderr: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list does not rot: every text is still where it was, and every test runs in a package.
    #[test]
    fn every_fault_can_be_planted() {
        let root = Path::new(crate::root());
        let mut seen = BTreeSet::new();
        for mutant in MUTANTS {
            let planted = mutant.plant(root).unwrap();
            assert_ne!(planted, fs::read_to_string(root.join(mutant.file)).unwrap());
            assert!(seen.insert((mutant.file, mutant.old, mutant.new)), "{} twice", mutant.old);
            let package = mutant.tests.split_whitespace().next().unwrap();
            let named = |manifest: &str| {
                let text = fs::read_to_string(root.join(manifest)).unwrap_or_default();
                text.contains(&format!("name = \"{package}\""))
            };
            let folder = package.strip_prefix("tamis-").unwrap_or(package);
            let manifests = [format!("crates/{folder}/Cargo.toml"), format!("{folder}/Cargo.toml")];
            assert!(manifests.iter().any(|manifest| named(manifest)), "no package {package}");
        }
    }
}
