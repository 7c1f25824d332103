//! The README's table of filters, from the registry.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use tamis::{Goal, Kind, Settings};

const README: &str = "README.md";
const BEGIN: &str = "<!-- filters: written by `cargo xtask table` -->\n";
const END: &str = "<!-- end of filters -->";
const KEYS: u64 = 1_000_000;

/// Writes it.
pub(crate) fn write() -> Result<()> {
    let text = fs::read_to_string(README)?;
    Ok(fs::write(README, with_table(&text)?)?)
}

/// That the README has it as it would be written.
pub(crate) fn check() -> Result<()> {
    let text = fs::read_to_string(README)?;
    ensure!(with_table(&text)? == text, "the README's table is out of date: cargo xtask table");
    Ok(())
}

fn with_table(text: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("README.md has no place for the table")?;
    let (_, after) = rest.split_once(END).context("README.md has no end of the table")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table()))
}

fn table() -> String {
    let mut out = String::from("| filter | 1 % | 0.1 % | 2^-8 | 2^-16 | can also | paper |\n");
    out += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for kind in Kind::ALL {
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
