//! Measures the filters of tamis and of other crates on the same keys.
//!
//! The flags and the JSON lines are those of `tamis bench`; README.md describes the method.

mod counted;
mod floors;
mod growth;
mod pairs;
mod peers;
mod shared;
mod statics;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use tamis::{
    BinaryFuse, Build, BuildOptions, CountingQuotient, Insert, Key, KeyHash, Ribbon, given,
};
use tamis_bench::{Keys, Metric, Options, Outcome, Ratio, compare, kinds, race, table};

use crate::counted::Operation;

/// Measure the filters of tamis and of other crates side by side
#[derive(Parser)]
struct Cli {
    /// Filters to measure, separated by commas; the first word of a name selects all that share it
    #[arg(long, value_name = "A,B|all", value_delimiter = ',', default_value = "all")]
    filter: Vec<String>,
    /// Number of keys
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = count)]
    keys: u64,
    /// False positive rate to build for
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = number)]
    fpr: f64,
    /// Number of rounds, 1 to 10000
    #[arg(long, value_name = "R", default_value_t = 31,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    rounds: usize,
    /// Seed of the keys and of the hash functions
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per filter, with the peak memory of a build
    #[arg(long)]
    json: bool,
    /// Print one line of tab-separated fields per filter of tamis and similar filter: bits per key of both,
    /// and ratios of times
    #[arg(long, conflicts_with = "json")]
    pairs: bool,
    /// Run one operation of the first selected filter in the function `counted`, for callgrind
    #[arg(long, value_name = "OPERATION", hide = true, conflicts_with_all = ["json", "pairs"])]
    count: Option<Operation>,
    /// Print the peak memory of building this filter, in bytes
    #[arg(long, value_name = "FILTER", hide = true)]
    peak_of: Option<String>,
}

/// Parses a number such as 0.01, 1e-3 or 2^-8.
fn number(text: &str) -> Result<f64> {
    let parse = |text: &str| text.parse::<f64>();
    let number = match text.split_once('^') {
        Some((base, exponent)) => parse(base).and_then(|base| Ok(base.powf(parse(exponent)?))),
        None => parse(text),
    };
    number.context("expected a number such as 0.01, 1e-3 or 2^-8")
}

/// Parses a number of keys such as 100000 or 1e6.
fn count(text: &str) -> Result<u64> {
    let keys = number(text).ok().filter(|keys| *keys >= 1.0 && keys.fract() == 0.0);
    keys.map(|keys| keys as u64).context("expected a number of keys such as 100000 or 1e6")
}

fn main() -> ExitCode {
    let Cli { filter: filters, keys, fpr, rounds, seed, json, pairs, count, peak_of } =
        Cli::parse();
    let options = Options { filters, keys, fpr, rounds, seed, json, dynamic: false, peak_of };
    match run(&options, pairs, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options, pairs: bool, operation: Option<Operation>) -> Result<()> {
    if operation.is_none() {
        keep_memory()?;
    }
    let mut contenders = kinds(options)?;
    contenders.extend(growth::ours(options)?.into_iter().filter(|one| options.selects(one.name())));
    let count = contenders.len();
    contenders.extend(peers::all(options)?);
    contenders.extend(growth::all(options));
    contenders.extend(statics::all());
    contenders.extend(floors::all(options)?);
    contenders.retain(|contender| options.selects(contender.name()));
    if let Some(operation) = operation {
        return counted::run(options, &contenders, operation);
    }
    let bar = ProgressBar::new(0);
    let progress = |done, steps| {
        bar.set_length(steps);
        bar.set_position(done);
    };
    let outcomes = compare(options, &contenders, &progress)?;
    bar.finish_and_clear();
    let Some(outcomes) = outcomes else { return Ok(()) };
    if options.json {
        return Ok(());
    }
    if pairs {
        return pairs::print(options, &outcomes[..count], &outcomes);
    }
    println!("{}\n", table(options, &outcomes));
    println!(
        "Ratio tamis / other; for times, the median over the rounds and the rounds that tamis won."
    );
    println!("A filter without batch lookups is compared by its single lookups.");
    println!("{}\n", ratios(&outcomes[..count], &outcomes));
    let on_two = |name, ratio| {
        println!("{name}, building from hashes, 2 threads / 1 thread: {}", cell(ratio))
    };
    if options.selects("binary_fuse") {
        on_two("binary_fuse", threads::<BinaryFuse>(options)?);
    }
    if options.selects("ribbon") {
        on_two("ribbon", threads::<Ribbon>(options)?);
    }
    if options.selects("bloom") && options.selects("fastbloom") {
        show_shared("bloom / fastbloom atomic foldhash", shared::bloom(options)?);
    }
    if options.selects("cuckoo") && options.selects("atomic-cuckoo-filter") {
        show_shared("cuckoo / atomic-cuckoo-filter ahash 16", shared::cuckoo(options)?);
    }
    if options.selects("counting_quotient") && options.selects("qfilter") {
        let batch = 1 << 16;
        println!("counting_quotient filled by insertion / qfilter filled one by one:");
        println!("  one by one: {}", cell(insertion(options, 1)?));
        println!("  in batches of {batch}: {}", cell(insertion(options, batch)?));
        println!("  all at once: {}", cell(insertion(options, options.keys as usize)?));
    }
    Ok(())
}

/// Restarts this program with a heap that does not return freed memory to the system.
///
/// The first access to a page can cost more than the work of a filter on it. The peers allocate on
/// the heap, which by default returns large blocks to the system, so each of their builds would fault
/// in all its pages again.
fn keep_memory() -> Result<()> {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const KEEP: &str = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776";
    let set = std::env::var(TUNABLES).unwrap_or_default();
    if set.ends_with(KEEP) {
        return Ok(());
    }
    let all = if set.is_empty() { KEEP.to_owned() } else { format!("{set}:{KEEP}") };
    let arguments = std::env::args_os().skip(1);
    Err(Command::new(std::env::current_exe()?).args(arguments).env(TUNABLES, all).exec().into())
}

fn show_shared(names: &str, ratios: shared::Ratios) {
    let shared::Ratios { insert, hit, miss, mixed } = ratios;
    let [insert, hit, miss, mixed] = [insert, hit, miss, mixed].map(|ratio| cell(Some(ratio)));
    println!("shared by 2 threads, {names}:");
    println!("  insert {insert}, hit {hit}, miss {miss}, insert and look up by turns {mixed}");
}

fn cell(ratio: Option<Ratio>) -> String {
    ratio.map_or("-".to_owned(), |Ratio { median, wins, rounds }| {
        format!("{median:.2} ({wins}/{rounds})")
    })
}

/// Returns the first words of the names that a kind is compared with, beside the floors.
fn rivals(kind: &str) -> &'static [&'static str] {
    match kind {
        "quotient" | "counting_quotient" => &["qfilter"],
        "cuckoo" => &["cuckoofilter", "bloom-lib", "atomic-cuckoo-filter"],
        "morton" => &["cuckoo", "cuckoofilter", "bloom-lib", "atomic-cuckoo-filter"],
        "tinyset" | "removable_tinyset" => &["bloom"],
        "binary_fuse" | "ribbon" => &["xorf", "jdb_xorf", "sux", "pleat"],
        "xor" => &["binary_fuse", "xorf"],
        "broom" => &["counting_quotient"],
        "growing" | "scalable_bloom" => {
            &["counting_quotient", "growable-bloom-filter", "scalable_cuckoo_filter"]
        }
        _ => &["fastbloom", "bloomfilter", "sbbf-rs-safe", "parquet"],
    }
}

/// Returns whether `ours` is compared with `other`.
fn is_rival(ours: &Outcome, other: &Outcome) -> bool {
    let rivals = rivals(ours.name.split(" from").next().unwrap_or_default());
    other.name.split(' ').next().is_some_and(|word| rivals.contains(&word))
}

/// Returns the ratio of the times. Batches are compared with single lookups if `other` has none.
fn against(ours: &Outcome, other: &Outcome, metric: Metric) -> Option<Ratio> {
    ours.ratio(metric, other, metric).or_else(|| ours.ratio(metric, other, metric.unbatched()))
}

fn ratios(ours: &[Outcome], all: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "tamis",
        "other",
        "bits",
        "fpr",
        "build",
        "hit",
        "miss",
        "hit, batch",
        "miss, batch",
    ]);
    for ours in ours {
        for other in all.iter().filter(|other| other.fpr.is_none() || is_rival(ours, other)) {
            let against = |metric| cell(against(ours, other, metric));
            let bits = other.fpr.map(|_| ours.bytes as f64 / other.bytes as f64);
            let fpr = ours.fpr.zip(other.fpr).map(|(ours, other)| ours / other);
            let plain = |ratio: Option<f64>| {
                ratio
                    .filter(|ratio| ratio.is_finite())
                    .map_or("-".to_owned(), |r| format!("{r:.2}"))
            };
            let costs = [ours.name.clone(), other.name.clone(), plain(bits), plain(fpr)];
            table.add_row(costs.into_iter().chain(Metric::ALL.map(against)));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns the time to build from hashes on 2 threads over the time on 1 thread.
fn threads<F: Build>(options: &Options) -> Result<Option<Ratio>> {
    let keys = Keys::members_only(options.keys, options.seed).members;
    let hasher = options.hasher();
    let hashes: Vec<KeyHash> = keys.iter().map(|key| key.hash_with(&hasher)).collect();
    let shape: F::Shape = tamis::plan::solve(options.goal(), &Default::default())?;
    let build = |threads| {
        let shape = shape.clone();
        let hashes = &hashes[..];
        move || {
            F::build_with(&BuildOptions::new().threads(threads), given(shape.clone()), hashes)?;
            Ok(())
        }
    };
    race(options.rounds.min(15), build(2), build(1)).map(Some)
}

/// Returns the time to fill a counting_quotient in batches of `batch` keys over the time to fill a
/// qfilter.
fn insertion(options: &Options, batch: usize) -> Result<Option<Ratio>> {
    let keys = Keys::members_only(options.keys, options.seed).members;
    let shape: tamis::CountingQuotientShape =
        tamis::plan::solve(options.goal(), &Default::default())?;
    let (hasher, mut hashes) = (options.hasher(), Vec::new());
    let ours = || {
        let mut filter = CountingQuotient::new(shape.clone())?;
        for keys in keys.chunks(batch) {
            if let [key] = keys {
                filter.insert(key.hash_with(&hasher))?;
                continue;
            }
            hashes.clear();
            hashes.extend(keys.iter().map(|key| key.hash_with(&hasher)));
            filter.insert_batch(&hashes)?;
        }
        Ok(())
    };
    let theirs = || {
        let mut filter = peers::quotient_filter(options.keys, options.fpr, options.seed)?;
        for key in &keys {
            filter.insert(key)?;
        }
        Ok(())
    };
    race((50_000_000 / keys.len()).clamp(1, options.rounds), ours, theirs).map(Some)
}
