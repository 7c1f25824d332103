//! What is printed: tables, JSON lines, and errors in one line.

use std::fmt;
use std::io::{self, Write};
use std::process::exit;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;

/// Writes to standard output at once, as it is.
///
/// If whoever read it has had enough, that is the end, but no error. It comes at once: a worker
/// may be waiting for keys from a pipe that has no more to say.
pub(crate) fn write(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit(0),
        done => done.map_err(|error| crate::input::failure("standard output", &error)),
    }
}

/// Prints a text.
pub(crate) fn print(text: impl fmt::Display) -> Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Prints one object a line.
pub(crate) fn print_json(objects: impl IntoIterator<Item = Value>) -> Result<()> {
    let lines: String = objects.into_iter().map(|object| format!("{object}\n")).collect();
    write(lines.as_bytes())
}

/// Says something that is not the answer, on standard error.
pub(crate) fn say(text: impl fmt::Display) {
    // If even that is closed there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Tells an error in one line.
pub(crate) fn complain(what: impl fmt::Display) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    say(format_args!("{red}tamis:{red:#} {what}"));
}

/// A table without rules, its columns aligned to the right where `numbers` says so; on a terminal
/// the last column wraps.
pub(crate) fn table(head: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
