//! `cargo xtask release --dry-run`: the checks before crates are published.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::{cargo, run};

/// The published crates, each after those that it depends on.
const CRATES: [&str; 9] = [
    "tamis-bits",
    "tamis-format",
    "tamis-ksat",
    "tamis",
    "tamis-interop",
    "tamis-bench",
    "tamis-dictionary",
    "tamis-redis-client",
    "tamis-cli",
];
/// The published libraries whose API follows semantic versioning.
const LIBRARIES: [&str; 7] = [
    "tamis-bits",
    "tamis-format",
    "tamis-ksat",
    "tamis",
    "tamis-interop",
    "tamis-dictionary",
    "tamis-redis-client",
];

pub(crate) fn check(arguments: &[String]) -> Result<()> {
    ensure!(arguments == ["--dry-run"], "only `cargo xtask release --dry-run` exists");
    if installed("deny") {
        cargo(["deny", "--locked", "check", "licenses", "bans", "sources"])?;
    }
    if installed("semver-checks") {
        check_semver()?;
    }
    // One command for all crates: each is compiled against the packages of those before it, so none
    // needs to be in the registry yet.
    cargo(["publish", "--dry-run", "--locked"].into_iter().chain(packages(&CRATES)))
}

fn packages<'a>(names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().flat_map(|name| ["--package", *name])
}

/// Returns whether cargo has this subcommand. If not, prints how to install it.
fn installed(subcommand: &str) -> bool {
    let mut version = Command::new("cargo");
    version.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    let found = run(&mut version).is_ok();
    if !found {
        println!(
            "NOT CHECKED: cargo {subcommand}; install it with \
             `cargo install cargo-{subcommand} --locked`"
        );
    }
    found
}

/// Compares the API of every library with that of the last release, which is the last tag `v…`.
fn check_semver() -> Result<()> {
    let mut describe = Command::new("git");
    let tag = describe.args(["describe", "--tags", "--abbrev=0", "--match", "v*"]).output()?;
    if !tag.status.success() {
        println!("NOT CHECKED: cargo semver-checks; there is no release to compare with");
        return Ok(());
    }
    let tag = String::from_utf8(tag.stdout)?;
    let arguments = ["semver-checks", "--baseline-rev", tag.trim()];
    cargo(arguments.into_iter().chain(packages(&LIBRARIES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_crate_is_listed() {
        let folder = format!("{}/crates", crate::root());
        let mut published = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let manifest = entry.unwrap().path().join("Cargo.toml");
            let manifest = std::fs::read_to_string(manifest).unwrap();
            if !manifest.contains("publish = false") {
                let name =
                    manifest.split("name = \"").nth(1).and_then(|rest| rest.split('"').next());
                published.push(name.unwrap().to_owned());
            }
        }
        published.sort_unstable();
        let mut listed = CRATES.to_vec();
        listed.sort_unstable();
        assert_eq!(published, listed);
        assert!(LIBRARIES.iter().all(|library| CRATES.contains(library)));
    }
}
