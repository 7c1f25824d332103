//! Prints results, tables, JSON lines and messages.

use std::fmt;
use std::io::{self, Write};
use std::process::exit;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;

use crate::errors::failure;

/// Writes to standard output and flushes.
///
/// If the reader has closed the pipe, the process exits with status 0. It exits here because a
/// worker thread may be blocked on an input that never ends.
pub(crate) fn write(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit(0),
        done => done.map_err(|error| failure("standard output", &error)),
    }
}

/// Prints a text and a line feed to standard output.
pub(crate) fn print(text: impl fmt::Display) -> Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Prints one JSON object per line.
pub(crate) fn print_json(objects: impl IntoIterator<Item = Value>) -> Result<()> {
    let lines: String = objects.into_iter().map(|object| format!("{object}\n")).collect();
    write(lines.as_bytes())
}

/// Appends a text and a line feed to `lines`.
pub(crate) fn push_line(lines: &mut Vec<u8>, text: impl fmt::Display) {
    writeln!(lines, "{text}").expect("writing to a vector cannot fail");
}

/// Returns a key for JSON, which has no other bytes than text: invalid UTF-8 is replaced by U+FFFD.
pub(crate) fn json_key(key: &[u8]) -> Value {
    String::from_utf8_lossy(key).into()
}

/// Prints a message to standard error.
pub(crate) fn message(text: impl fmt::Display) {
    // A closed standard error is ignored.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints an error to standard error in one line. Control characters, which names of files and values
/// of options may have, are escaped.
pub(crate) fn print_error(error: impl fmt::Display) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let mut line = String::new();
    for character in error.to_string().chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    message(format_args!("{red}tamis:{red:#} {line}"));
}

/// Formats a table without borders. The columns in `numbers` are aligned to the right; on a terminal
/// long cells wrap.
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
