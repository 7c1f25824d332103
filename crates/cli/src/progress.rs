//! Progress bars on a terminal.

use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tamis::{Progress, Search};

use crate::input::Keys;

/// Returns a bar over the bytes of `keys`, hidden unless standard error is a terminal.
pub(crate) fn bar(task: &'static str, keys: &Keys, quiet: bool) -> ProgressBar {
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
    start(bar, template, task)
}

fn start(bar: ProgressBar, template: &str, task: &'static str) -> ProgressBar {
    bar.set_style(ProgressStyle::with_template(template).expect("the templates here are valid"));
    bar.set_message(task);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns a bar over the keys that a static kind solves for.
pub(crate) fn solving(keys: u64, quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(keys);
    let template =
        "{msg:9} {wide_bar} {human_pos} of {human_len} keys, {per_sec}, {eta} left{prefix}";
    start(bar, template, "solving")
}

/// Returns a bar over the entries of a dictionary, hidden unless standard error is a terminal.
pub(crate) fn entries(task: &'static str, count: u64, hidden: bool) -> ProgressBar {
    if hidden || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{msg:9} {wide_bar} {human_pos} of {human_len} entries, {per_sec}, {eta} left";
    start(ProgressBar::new(count), template, task)
}

/// Returns a bar over bytes to or from a server, hidden unless standard error is a terminal.
#[cfg(feature = "redis")]
pub(crate) fn transfer(task: &'static str, quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{msg:9} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    start(ProgressBar::new(0), template, task)
}

/// Updates the bar of [`solving`].
pub(crate) fn show(bar: &ProgressBar, now: &Progress) {
    bar.set_length(now.keys);
    bar.set_position(now.placed);
    if let Some(search) = &now.search {
        bar.set_prefix(describe(search));
    }
}

fn describe(search: &Search) -> String {
    let Search { solved, formulas, reseeds, efficiency, .. } = search;
    let plural = if *reseeds == 1 { "" } else { "s" };
    format!("; {solved} of {formulas} planes, efficiency {efficiency:.3}, {reseeds} reseed{plural}")
}

/// Returns a bar for a command that prints results. The bar is also hidden if standard output is a
/// terminal, where it would mix with them.
pub(crate) fn bar_beside_output(task: &'static str, keys: &Keys) -> ProgressBar {
    bar(task, keys, stdout().is_terminal())
}
