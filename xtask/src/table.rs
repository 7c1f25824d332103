//! The table of filters in `docs/choosing.md`, from the registry.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use tamis::{Goal, Kind, Settings};

const PAGE: &str = "docs/choosing.md";
const BEGIN: &str = "<!-- filters: written by `cargo xtask table` -->\n";
const END: &str = "<!-- end of filters -->";
const KEYS: u64 = 1_000_000;

/// Writes the table into its page.
pub(crate) fn write() -> Result<()> {
    let text = fs::read_to_string(PAGE)?;
    Ok(fs::write(PAGE, with_table(&text)?)?)
}

/// Checks that the page has the table that `write` would write.
pub(crate) fn check() -> Result<()> {
    let text = fs::read_to_string(PAGE)?;
    ensure!(with_table(&text)? == text, "{PAGE} is out of date: run cargo xtask table");
    Ok(())
}

fn with_table(text: &str) -> Result<String> {
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no start marker"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no end marker"))?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table()))
}

fn table() -> String {
    let mut out = String::from("| filter | 1 % | 0.1 % | 2^-8 | 2^-16 | can also | paper |\n");
    out += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for kind in Kind::ALL.iter().filter(|kind| !kind.is_foreign()) {
        let bits = |fpr: f64| {
            let figures = kind.plan(Goal::KeysFpr { keys: KEYS, fpr }, &Settings::default());
            figures.map_or("-".to_owned(), |figures| format!("{:.2}", figures.bits_per_key()))
        };
        let can: Vec<_> = kind.capabilities().iter().map(|can| can.name()).collect();
        let _ = writeln!(
            out,
            "| `{kind}` | {} | {} | {} | {} | {} | {} |",
            bits(0.01),
            bits(0.001),
            bits(1.0 / 256.0),
            bits(1.0 / 65536.0),
            can.join(", "),
            kind.paper()
        );
    }
    out
}
