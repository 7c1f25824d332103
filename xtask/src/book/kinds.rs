//! A page for each kind: the documentation of its module, and its figures from committed tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tamis::{Copies, Goal, Kind, Settings};

use super::markdown;

/// The folder of these pages in the book.
pub(crate) const FOLDER: &str = "docs/kinds";
const INSTRUCTIONS: &str = "docs/instructions.csv";
const PERFORMANCE: &str = "docs/performance.md";
const FORMAT: &str = "FORMAT.md";
/// Where each figure has its sentence, for the page that shows them too.
const CAPTIONS: &str = "web/evidence.js";
/// The keys that sizes are computed for.
const KEYS: u64 = 1_000_000;
/// The rates that sizes are computed for.
const RATES: [(&str, f64); 6] = [
    ("10 %", 0.1),
    ("1 %", 0.01),
    ("2^-8", 1.0 / 256.0),
    ("0.1 %", 0.001),
    ("2^-16", 1.0 / 65536.0),
    ("10^-6", 1e-6),
];
/// Tables of the lab with a column `filter`, and what they measure.
const TABLES: [(&str, &str); 5] = [
    ("lab/static/peers-1e7.csv", "10^7 keys at a rate of 2^-8"),
    ("lab/static/peers-1e5.csv", "10^5 keys at a rate of 2^-8"),
    ("lab/adaptive/fresh.csv", "queries for 256,000 new non-members"),
    ("lab/survey/bloom-g.csv", "false positive rate by bits per key"),
    ("lab/tinyset/table-2.csv", "nanoseconds per operation beside the paper's"),
];

macro_rules! types {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// The type of each kind.
        const TYPES: &[(&str, &str)] = &[$( (stringify!($file), stringify!($type)) ),*];
    };
}
tamis::registry!(types);

/// Tables and figures that pages take rows from.
pub(crate) struct Figures {
    /// The compiler and the processor that instructions were counted with.
    machine: String,
    /// Instructions per key of each operation, by kind.
    instructions: BTreeMap<String, Vec<(String, String)>>,
    performance: String,
    format: String,
    plots: Vec<Plot>,
}

struct Plot {
    path: String,
    svg: String,
    /// What it shows, in a sentence.
    caption: String,
}

impl Figures {
    /// Reads the tables, and the figures at `plots`.
    pub(crate) fn read(plots: &[&str]) -> Result<Self> {
        let table = read(INSTRUCTIONS)?;
        let (machine, rows) = table.split_once('\n').context("no instructions")?;
        let mut instructions = BTreeMap::<_, Vec<_>>::new();
        for row in rows.lines().skip(1) {
            let cells = row.split_once(',').and_then(|(kind, rest)| {
                let (operation, count) = rest.rsplit_once(',')?;
                Some((kind, operation.trim_matches('"'), count))
            });
            let (kind, operation, count) =
                cells.with_context(|| format!("{INSTRUCTIONS}: {row}"))?;
            let counts = instructions.entry(kind.to_owned()).or_default();
            counts.push((operation.to_owned(), count.to_owned()));
        }
        let captions = read(CAPTIONS)?;
        let plots = plots.iter().map(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let rest = captions.split_once(&format!("[\"{name}\", \""));
            let caption = rest.and_then(|(_, rest)| rest.split_once("\"]"));
            let (caption, _) =
                caption.with_context(|| format!("{CAPTIONS} has no caption of {name}"))?;
            Ok(Plot { path: (*path).to_owned(), svg: read(path)?, caption: caption.to_owned() })
        });
        Ok(Self {
            machine: machine.trim_start_matches("# ").to_owned(),
            instructions,
            performance: read(PERFORMANCE)?,
            format: read(FORMAT)?,
            plots: plots.collect::<Result<_>>()?,
        })
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {path}"))
}

/// Returns the path of a kind's source file, and its page.
pub(crate) fn page(kind: Kind, figures: &Figures) -> Result<(String, String)> {
    let name = kind.name();
    let path = source_path(name)?;
    let source = read(&path)?;
    let mut out = format!("# `{name}`\n\n{}\n", linked(&module_docs(&source)));
    if let Some(example) = example(&source, type_of(name)?) {
        let _ = write!(out, "\n## Example\n\n{example}");
    }
    out += &properties(kind, figures)?;
    out += &sizes(kind);
    out += &instructions(kind, figures);
    out += &beside_others(kind, &figures.performance);
    out += &lab(kind, figures)?;
    Ok((path, out))
}

/// Returns the path of the source file of a kind's module.
fn source_path(name: &str) -> Result<String> {
    let folder = "crates/tamis/src/filters";
    let paths = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
    let found = paths.into_iter().find(|path| Path::new(path).exists());
    found.with_context(|| format!("{name} has no module"))
}

fn type_of(name: &str) -> Result<&'static str> {
    let found = TYPES.iter().find(|(kind, _)| *kind == name);
    found.map(|(_, type_name)| *type_name).with_context(|| format!("{name} has no type"))
}

/// Returns the text of the `//!` lines.
pub(crate) fn module_docs(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let text: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    text.join("\n")
}

/// Returns the first block of a type's documentation, which the documentation tests run.
fn example(source: &str, type_name: &str) -> Option<String> {
    let declaration = format!("pub struct {type_name} ");
    let before = source.split(declaration.as_str()).next().filter(|text| *text != source)?;
    let lines = before.lines().rev().filter(|line| !line.starts_with("#["));
    let mut docs: Vec<_> = lines.map_while(|line| line.strip_prefix("///")).collect();
    docs.reverse();
    let text = docs.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).skip_while(fence_not);
    let block: Vec<_> = text.skip(1).take_while(fence_not).collect();
    (!block.is_empty()).then(|| format!("```rust\n{}\n```\n", block.join("\n")))
}

fn fence_not(line: &&str) -> bool {
    !line.starts_with("```")
}

/// Returns documentation with links to items as links to pages of kinds, or as plain code.
pub(crate) fn linked(docs: &str) -> String {
    markdown::map_prose(docs, |prose| {
        let mut out = String::new();
        let mut rest = prose;
        while let Some(at) = rest.find(['`', '[']) {
            out += &rest[..at];
            rest = &rest[at..];
            let (text, after) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((text, after)) if text.starts_with('`') || after.starts_with('(') => {
                    (text, after)
                }
                // A code span, or a bracket of the text.
                _ => {
                    let end = rest[1..].find('`').filter(|_| rest.starts_with('`'));
                    let (same, after) = rest.split_at(end.map_or(1, |end| end + 2));
                    out += same;
                    rest = after;
                    continue;
                }
            };
            let explicit = after.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            let (path, after) = explicit.unwrap_or((text.trim_matches('`'), after));
            let last = path.rsplit("::").next().unwrap_or(path);
            match TYPES.iter().find(|(kind, type_name)| [kind, type_name].contains(&&last)) {
                Some((kind, _)) => {
                    let _ = write!(out, "[{text}]({kind}.md)");
                }
                None => out += text,
            }
            rest = after;
        }
        out + rest
    })
}

fn properties(kind: Kind, figures: &Figures) -> Result<String> {
    let name = kind.name();
    let headings = figures.format.lines().filter_map(|line| line.strip_prefix("### "));
    let heading = headings
        .into_iter()
        .find(|heading| heading.contains(&format!("{} `{name}`", kind.id())))
        .with_context(|| format!("{FORMAT} has no section for {name}"))?;
    let anchor = markdown::anchors(&format!("# {heading}")).concat();
    let copies = match kind.copies() {
        Copies::Free => "takes no capacity",
        Copies::Kept => "takes as much capacity as a new key",
        Copies::Bounded => "is stored again while it fits, then an error that names the key",
        _ => "see above",
    };
    let can: Vec<_> = kind.capabilities().iter().map(|can| can.name()).collect();
    let mut out = format!(
        "\n## Properties\n\n| property | |\n| --- | --- |\n| type in Rust | `tamis::{}` |\n\
         | capabilities | {} |\n| a repeated key | {copies} |\n",
        type_of(name)?,
        can.join(", "),
    );
    for setting in kind.settings() {
        let _ = writeln!(out, "| setting `{}` | {} |", setting.name, setting.takes);
    }
    let _ = writeln!(out, "| bytes in a file | [kind {}](../../{FORMAT}#{anchor}) |", kind.id());
    let _ = writeln!(out, "| paper | {} |", kind.paper());
    Ok(out)
}

/// Returns the planner's figures.
fn sizes(kind: Kind) -> String {
    let mut rows = String::new();
    for (rate, fpr) in RATES {
        let Ok(figures) = kind.plan(Goal::KeysFpr { keys: KEYS, fpr }, &Settings::default()) else {
            continue;
        };
        let bits = figures.bits_per_key();
        let _ = writeln!(
            rows,
            "| {rate} | {bits:.2} | {:.2} | {:.2} MB | {:.1} |",
            bits / -fpr.log2(),
            figures.bytes as f64 / 1e6,
            figures.query_cost
        );
    }
    if rows.is_empty() || kind.is_foreign() {
        return String::new();
    }
    format!(
        "\n## Size\n\nFor 10^6 keys, as `tamis plan --keys 1M --fpr RATE` computes it. The third column is \
         the size over log2(1/rate) bits per key, below which no filter of a set known in advance can be. \
         The work of a query is in random reads of a cache line.\n\n\
         | rate | bits per key | over the bound | memory | work of a query |\n\
         | --- | --- | --- | --- | --- |\n{rows}"
    )
}

fn instructions(kind: Kind, figures: &Figures) -> String {
    let Some(counts) = figures.instructions.get(kind.name()) else { return String::new() };
    let (operations, counts): (Vec<_>, Vec<_>) = counts.iter().cloned().unzip();
    format!(
        "\n## Instructions per key\n\nOf integer keys in a filter at a rate of 2^-8 that fits the cache, counted \
         with callgrind; {}. [Performance](../performance.md#instructions-per-operation) says how.\n\n{}",
        figures.machine,
        table(&operations, &[counts])
    )
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = "| --- ".repeat(head.len()) + "|\n";
    line(head) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// Returns the rows of a kind in the table of times beside other crates, in which an empty cell repeats
/// the cell above it.
fn beside_others(kind: Kind, performance: &str) -> String {
    let lines = performance.lines().skip_while(|line| !line.starts_with("<!-- peers"));
    let mut lines = lines.skip(1).take_while(|line| line.starts_with('|'));
    let (head, rule) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut ours = "";
    let mut rows = String::new();
    for line in lines {
        let first = line.trim_start_matches('|').split('|').next().unwrap_or_default().trim();
        if !first.is_empty() {
            ours = first;
        }
        if ours == format!("`{kind}`") {
            rows += &format!("{line}\n");
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n## Beside other crates\n\nTime of tamis over time of the other crate: below 1, tamis is faster. \
         [Performance](../performance.md) says on what machine, and which figures are older than the code.\n\n\
         {head}\n{rule}\n{rows}"
    )
}

/// Returns the rows and figures of the lab in which a kind occurs.
fn lab(kind: Kind, figures: &Figures) -> Result<String> {
    let mut out = String::new();
    for (path, what) in TABLES {
        let text = read(path)?;
        let mut rows = text.lines().map(cells);
        let head = rows.next().unwrap_or_default();
        let column = head.iter().position(|cell| cell == "filter");
        let column = column.with_context(|| format!("{path} has no column `filter`"))?;
        let rows: Vec<_> = rows
            .filter(|row| {
                row.get(column).and_then(|cell| cell.split(' ').next()) == Some(kind.name())
            })
            .collect();
        ensure!(rows.iter().all(|row| row.len() == head.len()), "{path} is not a table");
        if !rows.is_empty() {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let _ = write!(
                out,
                "\n[{folder}](../../{folder}/README.md): {what}.\n\n{}",
                table(&head, &rows)
            );
        }
    }
    for Plot { path, svg, caption } in &figures.plots {
        let name = kind.name();
        if svg.contains(&format!(">{name}<")) || svg.contains(&format!(">{name} ")) {
            let _ = write!(out, "\n![{caption}](../../{path})\n\n{caption}\n");
        }
    }
    Ok(if out.is_empty() { out } else { format!("\n## Measured in the lab\n{out}") })
}

/// Splits a line of a table with commas; cells may be quoted.
fn cells(line: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(String::new()),
            c => {
                if let Some(cell) = found.last_mut() {
                    cell.push(c);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_items_become_pages_or_code() {
        let docs = "as [`xor`](super::xor), [`CountingQuotient`](super::CountingQuotient), [`Full`], `[u8]`, [0, 1]";
        assert_eq!(
            linked(docs),
            "as [`xor`](xor.md), [`CountingQuotient`](counting_quotient.md), `Full`, `[u8]`, [0, 1]"
        );
    }

    #[test]
    fn examples_are_those_of_their_type() {
        let source = "/// Other.\npub struct CuckooShape {}\n/// A filter.\n///\n/// # Examples\n/// ```\n\
                      /// use x;\n///\n/// # y\n/// ```\n#[derive(Clone)]\npub struct Cuckoo {\n";
        assert_eq!(example(source, "Cuckoo").as_deref(), Some("```rust\nuse x;\n\n# y\n```\n"));
        assert_eq!(example(source, "CuckooShape"), None);
        assert_eq!(cells("a,\"b, c\",d"), ["a", "b, c", "d"]);
    }
}
