//! `cargo xtask peers`: runs the comparison with other crates, and writes its table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{cargo, install};

const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- peers: written by `cargo xtask peers --readme` -->\n";
const END: &str = "<!-- end of peers -->";
const PROGRAM: [&str; 5] = ["run", "--release", "--manifest-path", "lab/peers/Cargo.toml", "--"];

/// A number of keys.
struct Size {
    /// As a flag and in the table.
    keys: (&'static str, &'static str),
    rounds: &'static str,
    /// Whether all rows are measured, or only those of [`LARGE`]: other filters take minutes to build.
    all_rows: bool,
}

const SIZES: [Size; 3] = [
    Size { keys: ("1e8", "10^8"), rounds: "3", all_rows: false },
    Size { keys: ("1e7", "10^7"), rounds: "3", all_rows: true },
    Size { keys: ("1e5", "10^5"), rounds: "15", all_rows: true },
];

/// The other filters that are also measured with the most keys.
const LARGE: [&str; 6] = [
    "sbbf-rs-safe mix64",
    "parquet sbbf",
    "fastbloom foldhash",
    "xorf BinaryFuse8",
    "jdb_xorf Bf8",
    "sux sharded",
];

impl Size {
    /// Returns the rows of a group that are measured with so many keys.
    fn rows(&self, group: &Group) -> impl Iterator<Item = (&'static str, &'static str)> {
        group.rows.iter().copied().filter(|(_, other)| self.all_rows || LARGE.contains(other))
    }
}

/// Filters that are measured in one process at one rate.
struct Group {
    /// The rate as a flag, and in the table.
    fpr: (&'static str, &'static str),
    /// The kind of tamis and the other filter of each row.
    rows: &'static [(&'static str, &'static str)],
}

const GROUPS: [Group; 3] = [
    Group {
        fpr: ("0.01", "1 %"),
        rows: &[
            ("split_block_bloom", "sbbf-rs-safe mix64"),
            ("split_block_bloom", "parquet sbbf"),
            ("bloom", "fastbloom foldhash"),
            ("bloom", "bloomfilter default"),
        ],
    },
    Group {
        fpr: ("2^-8", "2^-8"),
        rows: &[
            ("counting_quotient", "qfilter foldhash"),
            ("binary_fuse", "xorf BinaryFuse8"),
            ("binary_fuse", "jdb_xorf Bf8"),
            ("binary_fuse", "sux sharded"),
            ("ribbon", "pleat Ribbon"),
            ("ribbon", "pleat StdRibbon"),
            ("broom", "counting_quotient"),
            ("growing from 1000", "counting_quotient"),
        ],
    },
    // The rate that fingerprints of 11 bits reach.
    Group {
        fpr: ("0.0019", "0.19 %"),
        rows: &[("cuckoo", "cuckoofilter ahash"), ("cuckoo", "bloom-lib cuckoo")],
    },
];

/// The fields of a pair after its names, as the program prints them.
type Fields = Vec<String>;
/// The pairs of one run, by their names.
type Pairs = BTreeMap<(String, String), Fields>;
/// Bits per key of both, five ratios of times, and two at equal sizes.
const FIELDS: usize = 9;

/// Runs the comparison with `flags`, or with those of the table if they are `--readme`. With `--counts`
/// prints instructions and mispredicted branches.
pub(crate) fn peers(flags: &[String]) -> Result<()> {
    if flags == ["--readme"] {
        let text = fs::read_to_string(PAGE)?;
        // Before the hours of measuring.
        with_table(&text, "")?;
        return Ok(fs::write(PAGE, with_table(&text, &measured_table()?)?)?);
    }
    if flags == ["--counts"] {
        return print_counts();
    }
    cargo(PROGRAM.into_iter().chain(flags.iter().map(String::as_str)))
}

/// Measures all rows.
fn measured_table() -> Result<String> {
    let mut runs = Vec::new();
    for group in &GROUPS {
        for size in &SIZES {
            let mut filters: Vec<&str> =
                size.rows(group).flat_map(|(ours, other)| [ours, other]).collect();
            filters.sort_unstable();
            filters.dedup();
            if filters.is_empty() {
                runs.push(Pairs::new());
                continue;
            }
            let flags = ["--keys", size.keys.0, "--fpr", group.fpr.0, "--rounds", size.rounds];
            let output = Command::new("cargo")
                .args(PROGRAM)
                .args(flags)
                .args(["--pairs", "--filter", &filters.join(",")])
                .stderr(Stdio::inherit())
                .output()?;
            ensure!(output.status.success(), "the comparison failed");
            runs.push(parse(&String::from_utf8(output.stdout)?)?);
        }
    }
    table(&runs)
}

/// Prints a table of instructions and mispredicted branches per key of all filters of the rows, as
/// callgrind counts them with its model of a branch predictor, for 10^5 keys.
fn print_counts() -> Result<()> {
    ensure!(install("valgrind", "valgrind"), "valgrind could not be installed");
    cargo(["build", "--release", "--manifest-path", PROGRAM[3]])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "lab/peers/target".into());
    let program = format!("{target}/release/tamis-peers");
    println!("| filter | rate | build | hit | miss |\n| --- | --- | --- | --- | --- |");
    for group in &GROUPS {
        let mut filters: Vec<&str> = group.rows.iter().flat_map(|row| [row.0, row.1]).collect();
        let mut seen = BTreeSet::new();
        filters.retain(|filter| seen.insert(*filter));
        for filter in filters {
            let count = |operation| count(&program, group.fpr.0, filter, operation);
            let [build, hit, miss] = [count("build")?, count("hit")?, count("miss")?];
            println!("| {filter} | {} | {build} | {hit} | {miss} |", group.fpr.1);
        }
    }
    Ok(())
}

/// Returns the instructions and the mispredicted branches per key of an operation.
fn count(program: &str, fpr: &str, filter: &str, operation: &str) -> Result<String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--branch-sim=yes", "--toggle-collect=*counted*counted*"])
        .args(["--callgrind-out-file=/dev/null", program, "--keys", "1e5", "--fpr", fpr])
        .args(["--filter", filter, "--count", operation])
        .output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{filter}, {operation}: failed:\n{report}");
    let keys: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    let collected = report.lines().find_map(|line| line.split("Collected : ").nth(1));
    let collected = collected.context("callgrind printed no count")?.split_whitespace();
    let counts = collected.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let [instructions, _, conditional, _, indirect] = counts[..] else {
        anyhow::bail!("callgrind printed {} counts", counts.len());
    };
    ensure!(instructions > keys, "{filter}, {operation}: nothing was counted");
    Ok(format!("{:.0} ({:.2})", instructions / keys, (conditional + indirect) / keys))
}

/// Parses what the program prints with `--pairs`.
fn parse(lines: &str) -> Result<Pairs> {
    let pair = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let names = fields.next().zip(fields.next());
        let fields: Fields = fields.collect();
        let complete = names.filter(|_| fields.len() == FIELDS);
        Ok((complete.with_context(|| format!("not a pair: {line}"))?, fields))
    };
    lines.lines().map(pair).collect()
}

/// Returns the table of runs in the order of [`GROUPS`] and [`SIZES`].
fn table(runs: &[Pairs]) -> Result<String> {
    let mut out = String::from(
        "| ours | other | rate | keys | bits per key | of the other | build | hit | miss | hit, batch \
         | miss, batch | at equal bits |\n",
    );
    out += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for (group, runs) in GROUPS.iter().zip(runs.chunks(SIZES.len())) {
        for row in group.rows {
            let (ours, other) = row;
            for (size, run) in SIZES.iter().zip(runs) {
                if !size.rows(group).any(|measured| measured == *row) {
                    continue;
                }
                let keys = size.keys.1;
                let fields = run.get(&((*ours).to_owned(), (*other).to_owned()));
                let fields = fields.with_context(|| format!("{ours} / {other} is missing"))?;
                let [measured @ .., hit, miss] = &fields[..] else {
                    unreachable!("`parse` counts the fields");
                };
                let equal = match (hit.as_str(), miss.as_str()) {
                    ("-", "-") => String::new(),
                    (hit, miss) => format!("hit {hit}, miss {miss}"),
                };
                let rate = group.fpr.1;
                let measured = measured.join(" | ");
                let _ = writeln!(
                    out,
                    "| `{ours}` | {other} | {rate} | {keys} | {measured} | {equal} |"
                );
            }
        }
    }
    Ok(out)
}

fn with_table(text: &str, table: &str) -> Result<String> {
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no start marker"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no end marker"))?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output of a run of a group.
    fn output(group: &Group, hit: &str) -> String {
        let fields = ["10.66", "16.99", "0.77", hit, "1.51", "0.41", "0.55", "0.95", "1.01"];
        let line =
            |(ours, other): &(&str, &str)| format!("{ours}\t{other}\t{}\n", fields.join("\t"));
        group.rows.iter().map(line).collect()
    }

    /// Returns the runs of a table in which all hits have the ratio `hit`.
    fn runs(hit: &str) -> Vec<Pairs> {
        let groups = GROUPS.iter().flat_map(|group| SIZES.iter().map(|_| output(group, hit)));
        groups.map(|lines| parse(&lines).unwrap()).collect()
    }

    #[test]
    fn every_row_is_written_between_the_markers() {
        let mut runs = runs("1.12");
        let row = ("counting_quotient".to_owned(), "qfilter foldhash".to_owned());
        runs[5].get_mut(&row).unwrap()[3] = "1.09".to_owned();
        let table = table(&runs).unwrap();
        let rows: usize = GROUPS
            .iter()
            .map(|group| SIZES.iter().map(|size| size.rows(group).count()).sum::<usize>())
            .sum();
        assert_eq!(rows, 2 * 14 + LARGE.len());
        assert_eq!(table.lines().count(), 2 + rows);
        let expected = "| `counting_quotient` | qfilter foldhash | 2^-8 | 10^5 | 10.66 | 16.99 | 0.77 | 1.09 \
             | 1.51 | 0.41 | 0.55 | hit 0.95, miss 1.01 |\n";
        assert!(table.contains(expected), "{table}");
        assert!(table.contains("| `bloom` | fastbloom foldhash | 1 % | 10^8 |"), "{table}");
        assert!(!table.contains("| bloomfilter default | 1 % | 10^8 |"), "{table}");
        let text = format!("before\n{BEGIN}old\n{END}\nafter\n");
        assert_eq!(
            with_table(&text, &table).unwrap(),
            format!("before\n{BEGIN}{table}{END}\nafter\n")
        );
        assert!(with_table("no markers", &table).is_err());
    }

    #[test]
    fn equal_bits_may_be_missing_and_rows_may_not() {
        let lines = output(&GROUPS[2], "1.10").replace("0.95\t1.01", "-\t-");
        let run = parse(&lines).unwrap();
        assert!(table(std::slice::from_ref(&run)).is_err(), "the first group has other rows");
        let mut runs = runs("1");
        runs[7] = run;
        assert!(table(&runs).unwrap().contains("| 0.41 | 0.55 |  |\n"));
    }

    #[test]
    fn a_line_that_is_no_pair_is_an_error() {
        for line in ["", "a\tb", "a\tb\t1\t2\t3\t4\t5\t6\t7\t8"] {
            assert!(parse(&format!("{line}\n")).is_err(), "{line}");
        }
    }

    #[test]
    fn the_page_has_the_markers() {
        let text = fs::read_to_string(format!("{}/{PAGE}", crate::root())).unwrap();
        with_table(&text, "").unwrap();
    }
}
