//! Static filters: memory over the bound against query time, and the cost of building.
//!
//! `cargo run --release -p tamis-lab --bin static -- [--most 1e8]` measures the kinds of tamis up
//! to that number of keys. `-- --queries 1e7` measures only queries and `-- --building 1e9` only
//! builds. `-- --ranges 1e4` measures `grafite`. `-- --peers FILE` draws the output of `cargo xtask peers --json`.

mod ranges;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use lab::{Entrant, Line, Sheet, build_times, entrant, over, processor_time};
use serde_json::Value;
use tamis::{BinaryFuse, Bloom, Goal, Ribbon, SplitBlockBloom, Xor};
use tamis_bench::{Contender, Keys, Metric, measure};

const ROUNDS: usize = 31;
/// From this number of keys on, the build time comes from one build.
const MANY: u64 = 100_000_000;
const QUERIES: [Metric; 4] = [Metric::Hit, Metric::Miss, Metric::HitBatch, Metric::MissBatch];
/// Columns of the sheets that show memory and time.
const COLUMNS: [&str; 9] = [
    "filter",
    "keys",
    "bits a key",
    "rate measured",
    "over the bound",
    "member ns",
    "non-member ns",
    "member in a batch ns",
    "non-member in a batch ns",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => all(10_000_000),
        ["--most", most] => all(count(most)?),
        ["--queries", most] => queries(count(most)?),
        ["--building", most] => building(count(most)?),
        ["--ranges", keys] => ranges::ranges(count(keys)?),
        ["--peers", file] => peers(Path::new(file)),
        ["--alone", name, keys] => alone(name, count(keys)?),
        _ => bail!(
            "static [--most KEYS | --queries KEYS | --building KEYS | --ranges KEYS | --peers FILE]"
        ),
    }
}

fn count(text: &str) -> Result<u64> {
    let number: f64 = text.parse().with_context(|| format!("{text} is not a number of keys"))?;
    Ok(number as u64)
}

fn all(most: u64) -> Result<()> {
    queries(most)?;
    ranges::ranges(10_000.min(most))?;
    building(most)
}

fn queries(most: u64) -> Result<()> {
    for keys in [100_000, 10_000_000].into_iter().filter(|keys| *keys <= most) {
        for width in [8, 16] {
            space(keys, width)?;
        }
    }
    Ok(())
}

/// Returns the static kinds, and two other kinds for scale.
///
/// The goal is 1 % above 2^-width, because the homogeneous ribbon with slots of `width` bits has a
/// slightly higher rate. The other static kinds have 2^-width.
fn entrants(keys: u64, width: i32) -> Result<Vec<Box<dyn Entrant>>> {
    let goal = Goal::KeysFpr { keys, fpr: 1.01 * 2f64.powi(-width) };
    Ok(vec![
        entrant::<BinaryFuse>("binary_fuse 3", goal, &[])?,
        entrant::<BinaryFuse>("binary_fuse 4", goal, &[("arity", "4")])?,
        entrant::<Xor>("xor", goal, &[])?,
        entrant::<Xor>("xor plus", goal, &[("plus", "1")])?,
        entrant::<Ribbon>("ribbon", goal, &[])?,
        entrant::<Ribbon>("ribbon homogeneous", goal, &[("form", "2")])?,
        entrant::<Bloom>("bloom", goal, &[])?,
        entrant::<SplitBlockBloom>("split_block_bloom", goal, &[])?,
    ])
}

/// Measures memory over the bound against query time.
fn space(keys: u64, width: i32) -> Result<()> {
    let entrants = entrants(keys, width)?;
    let overs: Vec<f64> = entrants.iter().map(|entrant| entrant.over()).collect();
    let figures: Vec<_> = entrants.iter().map(|entrant| entrant.figures()).collect();
    let contenders: Vec<Box<dyn Contender>> =
        entrants.into_iter().map(|entrant| entrant as Box<dyn Contender>).collect();
    let all = Keys::new(keys, 2f64.powi(-width), ROUNDS, 9);
    let outcomes = measure(&contenders, &all, ROUNDS, &|| ())?;
    let name = format!("space-{}-{width}", power(keys));
    let mut sheet = Sheet::new("static", name, &COLUMNS);
    let mut lines = Vec::new();
    for ((outcome, over), figures) in outcomes.iter().zip(overs).zip(figures) {
        let times = QUERIES.map(|metric| outcome.time(metric));
        row(
            &mut sheet,
            &outcome.name,
            figures.keys,
            figures.bits_per_key(),
            outcome.fpr,
            over,
            times,
        );
        lines.push(segment(&outcome.name, over, times));
    }
    let title = format!("{} keys, rate 2^-{width}: memory against time", power(keys));
    draw(sheet, &title, lines)
}

/// Draws the filters of other crates and of tamis from the lines of a file.
fn peers(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut runs: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line)?;
        runs.entry(line["keys"].as_u64().context("no keys")?).or_default().push(line);
    }
    for (keys, run) in runs {
        let name = format!("peers-{}", power(keys));
        let mut sheet = Sheet::new("static", name, &COLUMNS);
        let mut lines = Vec::new();
        // The floors are not filters and have no rate.
        for line in run.iter().filter(|line| line["fpr"].is_f64()) {
            let number = |field: &str| line[field].as_f64();
            let (name, bits) = (line["filter"].as_str(), number("bits_per_key"));
            let (name, bits) = name.zip(bits).context("no filter, or no bits_per_key")?;
            let fpr = number("fpr");
            let over = over(bits, fpr.unwrap_or(0.0));
            let times = ["hit_ns", "miss_ns", "hit_batch_ns", "miss_batch_ns"].map(number);
            row(&mut sheet, name, keys, bits, fpr, over, times);
            lines.push(segment(name, over, times));
        }
        let title = format!("{} keys, other crates' filters: memory against time", power(keys));
        draw(sheet, &title, lines)?;
    }
    Ok(())
}

fn row(
    sheet: &mut Sheet,
    name: &str,
    keys: u64,
    bits: f64,
    fpr: Option<f64>,
    over: f64,
    times: [Option<f64>; 4],
) {
    let times = times.map(|time| time.map_or(String::new(), |time| format!("{time:.1}")));
    let fpr = fpr.map_or(String::new(), |fpr| format!("{fpr:.4e}"));
    let (bits, over) = (format!("{bits:.3}"), format!("{over:.4}"));
    let [hit, miss, hits, misses] = &times;
    sheet.row(&[&name, &power(keys), &bits, &fpr, &over, hit, miss, hits, misses]);
}

/// Returns a line from the time in a batch to the time of a single query, each the mean of members
/// and non-members, or a dot for a filter without batches.
fn segment(name: &str, over: f64, [hit, miss, hits, misses]: [Option<f64>; 4]) -> Line {
    let mean = |pair: Option<(f64, f64)>| pair.map(|(a, b)| (f64::midpoint(a, b), 100.0 * over));
    let ends = [mean(hits.zip(misses)), mean(hit.zip(miss))];
    Line::measured(name, ends.into_iter().flatten().collect())
}

fn draw(sheet: Sheet, title: &str, lines: Vec<Line>) -> Result<()> {
    let x = "ns a query: one end of a line in batches, the other one at a time";
    sheet.finish(title, x, "per cent over the bound", false, lines)
}

fn power(keys: u64) -> String {
    format!("{:e}", keys as f64)
}

/// Measures processor time to build at 2^-8 on one thread, and the peak memory of the build.
fn building(most: u64) -> Result<()> {
    let mut times = Sheet::new("static", "build-time", &["keys", "filter", "ns a key"]);
    let columns = ["keys", "filter", "filter's bytes a key", "peak bytes a key"];
    let mut peaks = Sheet::new("static", "build-memory", &columns);
    let mut time_lines: BTreeMap<usize, (String, Vec<(f64, f64)>)> = BTreeMap::new();
    let mut peak_lines = time_lines.clone();
    for keys in (3..=11).map(|power| 10u64.pow(power)).take_while(|keys| *keys <= most) {
        // `bloom` takes one memory access per bit; `split_block_bloom` stands for both.
        let mut entrants = entrants(keys, 8)?;
        entrants.retain(|entrant| entrant.name() != "bloom");
        let rounds = if keys < MANY { build_times(&entrants)? } else { Vec::new() };
        for (i, entrant) in entrants.iter().enumerate() {
            let name = entrant.name();
            // With few keys, the pages that every process needs would outweigh the filter.
            let alone = if keys >= 100_000 { Some(build_alone(name, keys)?) } else { None };
            let time = rounds.get(i).copied().or(alone.map(|(_, time)| time));
            let time = time.expect("many keys are built alone");
            times.row(&[&power(keys), &name, &format!("{time:.1}")]);
            let x = (keys as f64).log10();
            let line = || (name.to_owned(), Vec::new());
            time_lines.entry(i).or_insert_with(line).1.push((x, time));
            if let Some((peak, _)) = alone {
                let own = entrant.figures().bits_per_key() / 8.0;
                let peak = peak as f64 / keys as f64;
                peaks.row(&[&power(keys), &name, &format!("{own:.2}"), &format!("{peak:.2}")]);
                peak_lines.entry(i).or_insert_with(line).1.push((x, peak));
            }
        }
    }
    let lines = |lines: BTreeMap<usize, (String, Vec<_>)>| {
        lines.into_values().map(|(name, line)| Line::measured(name, line)).collect()
    };
    let x = "keys, as log10";
    let title = "Building at a rate of 2^-8, on one thread";
    times.finish(title, x, "ns a key", true, lines(time_lines))?;
    let title = "The most memory while building on one thread, keys not counted";
    peaks.finish(title, x, "bytes a key", false, lines(peak_lines))
}

/// Builds in a new process, and returns its peak memory in bytes and processor time per key.
fn build_alone(name: &str, keys: u64) -> Result<(u64, f64)> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["--alone", name, &keys.to_string()]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (peak, time) = text.trim().split_once(' ').with_context(|| {
        format!("{name}, {keys} keys: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok((peak.parse()?, time.parse()?))
}

fn alone(name: &str, keys: u64) -> Result<()> {
    let entrants = entrants(keys, 8)?;
    let entrant = entrants.iter().find(|entrant| entrant.name() == name);
    let entrant = entrant.with_context(|| format!("there is no filter `{name}`"))?;
    let (before, start) = (high_water()?, processor_time()?);
    entrant.stream(1)?;
    let time = (processor_time()? - start) / keys as f64;
    println!("{} {time}", high_water()? - before);
    Ok(())
}

/// Returns the peak memory of this process in bytes. Works only on Linux.
fn high_water() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.context("no high-water mark")?.parse::<u64>()? * 1024)
}
