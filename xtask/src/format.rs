//! Formatting of all sources. `cargo fmt` does not see the filters, whose modules a macro declares.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

const FILTERS: &str = "crates/tamis/src/filters";

/// Formats all sources.
pub(crate) fn write() -> Result<()> {
    format(&[])
}

/// Checks that all sources are formatted.
pub(crate) fn check() -> Result<()> {
    format(&["--check"])
}

fn format(flags: &[&str]) -> Result<()> {
    crate::run(Command::new("cargo").args(["fmt", "--all"]).args(flags))?;
    crate::run(Command::new("rustfmt").args(["--edition", "2024"]).args(flags).args(filters()?))
}

/// Returns the root file of each filter's module.
fn filters() -> Result<Vec<PathBuf>> {
    let mut roots = Vec::new();
    for entry in fs::read_dir(FILTERS)? {
        let path = entry?.path();
        let root = if path.is_dir() { path.join("mod.rs") } else { path };
        // The folder `bloom/` belongs to `bloom.rs`.
        if root.is_file() && root.extension().is_some_and(|extension| extension == "rs") {
            roots.push(root);
        }
    }
    roots.sort();
    Ok(roots)
}
