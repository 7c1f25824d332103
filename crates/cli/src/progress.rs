//! How far long work is, on a terminal.

use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tamis::{Progress, Search};

use crate::input::Keys;

/// A bar over the bytes of `keys`; it hides itself unless standard error is a terminal.
pub(crate) fn bar(what: &'static str, keys: &Keys, quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match keys.bytes() {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{msg:9} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{msg:9} {spinner} {bytes}, {bytes_per_sec}"),
    };
    start(bar, template, what)
}

fn start(bar: ProgressBar, template: &str, what: &'static str) -> ProgressBar {
    bar.set_style(ProgressStyle::with_template(template).expect("the templates here are valid"));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A bar over so many keys that are to be placed.
pub(crate) fn solving(keys: u64, quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(keys);
    let template =
        "{msg:9} {wide_bar} {human_pos} of {human_len} keys, {per_sec}, {eta} left{prefix}";
    start(bar, template, "solving")
}

/// Moves that bar, and tells how a search goes.
pub(crate) fn show(bar: &ProgressBar, now: &Progress) {
    bar.set_length(now.keys);
    bar.set_position(now.placed);
    if let Some(search) = &now.search {
        bar.set_prefix(describe(search));
    }
}

fn describe(search: &Search) -> String {
    let Search { solved, formulas, reseeds, efficiency, .. } = search;
    let anew = if *reseeds == 1 { "" } else { "s" };
    format!("; {solved} of {formulas} planes, efficiency {efficiency:.3}, {reseeds} reseed{anew}")
}

/// As [`bar`], for a command whose answers would be mixed up with it on the same terminal.
pub(crate) fn bar_beside_answers(what: &'static str, keys: &Keys) -> ProgressBar {
    bar(what, keys, stdout().is_terminal())
}
