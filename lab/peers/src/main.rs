//! tamis and other crates' filters, on the same keys, in turns.
//!
//! The flags and the JSON lines are those of `tamis bench`; the README here says how it measures.

mod floors;
mod growth;
mod peers;
mod statics;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use tamis::{BinaryFuse, Build, CountingQuotient, Goal, KeyHash, Insert, Key, SplitBlockBloom};
use tamis_cli::bench::harness::{Keys, Metric, Outcome, Ratio, race};
use tamis_cli::bench::{Args, compare, ours, table};

#[derive(Parser)]
#[command(about = "Measures tamis and other crates' filters side by side")]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn main() -> ExitCode {
    match run(&Cli::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    keep_memory()?;
    let mut contenders = ours(args)?;
    contenders.extend(growth::ours(args)?.into_iter().filter(|grown| args.wants(grown.name())));
    let count = contenders.len();
    contenders.extend(peers::all(args)?);
    contenders.extend(growth::all(args));
    contenders.extend(statics::all());
    contenders.extend(floors::all(args)?);
    contenders.retain(|contender| args.wants(contender.name()));
    let Some(outcomes) = compare(args, contenders)? else { return Ok(()) };
    if args.json {
        return Ok(());
    }
    println!("{}\n", table(args, &outcomes));
    println!(
        "Ours / the other. Of times, the median of the rounds' ratios, and the rounds that ours won."
    );
    println!("Batches of ours stand against the other's one at a time where it knows no batches.");
    println!("{}\n", ratios(&outcomes[..count], &outcomes));
    let on_two =
        |name, ratio| println!("{name}, hashed keys, on 2 threads / on 1: {}", cell(ratio));
    if args.wants("split_block_bloom") {
        on_two("split_block_bloom", threads::<SplitBlockBloom>(args)?);
    }
    if args.wants("binary_fuse") {
        on_two("binary_fuse", threads::<BinaryFuse>(args)?);
    }
    if args.wants("counting_quotient") && args.wants("qfilter") {
        let batch = 1 << 16;
        println!("counting_quotient, filled by insertion / qfilter, key after key:");
        println!("  one by one: {}", cell(insertion(args, 1)?));
        println!("  in batches of {batch}: {}", cell(insertion(args, batch)?));
        println!("  all at once: {}", cell(insertion(args, args.keys as usize)?));
    }
    Ok(())
}

/// Starts this program again with a heap that keeps what it was given, unless it does already.
///
/// A page that is touched for the first time may cost more here than all that a filter does with
/// it. The peers allocate on the heap, which returns large blocks to the system at once; so each
/// of their builds would pay for all its pages again.
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

fn cell(ratio: Option<Ratio>) -> String {
    ratio.map_or("-".to_owned(), |Ratio { median, wins, rounds }| {
        format!("{median:.2} ({wins}/{rounds})")
    })
}

/// What a kind of ours is compared with beside the floors: the first words of names.
fn rivals(kind: &str) -> &'static [&'static str] {
    match kind {
        "quotient" | "counting_quotient" => &["qfilter"],
        "cuckoo" => &["cuckoofilter", "bloom-lib", "atomic-cuckoo-filter"],
        "morton" => &["cuckoo", "cuckoofilter", "bloom-lib", "atomic-cuckoo-filter"],
        "tinyset" | "removable_tinyset" => &["bloom"],
        "binary_fuse" | "ribbon" => &["xorf", "jdb_xorf", "sux", "pleat"],
        "xor" => &["binary_fuse", "xorf"],
        "growing" | "scalable_bloom" => {
            &["counting_quotient", "growable-bloom-filter", "scalable_cuckoo_filter"]
        }
        _ => &["fastbloom", "bloomfilter", "sbbf-rs-safe", "parquet"],
    }
}

fn ratios(ours: &[Outcome], all: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "ours",
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
        let rivals = rivals(ours.name.split(" from").next().unwrap_or_default());
        let compared = |other: &&Outcome| {
            let word = other.name.split(' ').next();
            other.fpr.is_none() || word.is_some_and(|word| rivals.contains(&word))
        };
        for other in all.iter().filter(compared) {
            let against = |metric: Metric| {
                let same = ours.ratio(metric, other, metric);
                cell(same.or_else(|| ours.ratio(metric, other, metric.alone())))
            };
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

/// Building from hashes on two threads, over the same on one.
fn threads<F: Build>(args: &Args) -> Result<Option<Ratio>> {
    let keys = Keys::members_only(args.keys, args.seed).members;
    let hasher = args.hasher();
    let hashes: Vec<KeyHash> = keys.iter().map(|key| key.hash_with(&hasher)).collect();
    let goal = Goal::KeysFpr { keys: args.keys, fpr: args.fpr };
    let shape: F::Shape = tamis::plan::solve(goal, &Default::default())?;
    let build = |threads| {
        let shape = shape.clone();
        let hashes = &hashes[..];
        move || {
            F::build_on(threads, shape.clone(), hashes)?;
            Ok(())
        }
    };
    race(args.rounds.min(15), build(2), build(1)).map(Some)
}

/// Filling an empty counting_quotient by insertion, so many keys at a time, over filling a qfilter.
fn insertion(args: &Args, batch: usize) -> Result<Option<Ratio>> {
    let keys = Keys::members_only(args.keys, args.seed).members;
    let goal = Goal::KeysFpr { keys: args.keys, fpr: args.fpr };
    let shape: tamis::CountingQuotientShape = tamis::plan::solve(goal, &Default::default())?;
    let (hasher, mut hashes) = (args.hasher(), Vec::new());
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
        let mut filter = peers::quotient_filter(args.keys, args.fpr, args.seed)?;
        for key in &keys {
            filter.insert(key)?;
        }
        Ok(())
    };
    race((50_000_000 / keys.len()).clamp(1, args.rounds), ours, theirs).map(Some)
}
