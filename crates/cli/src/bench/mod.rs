//! `tamis bench`: what each filter costs on this machine.

pub mod harness;

use std::io::Write;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use tamis::{Error, Goal, HashId, KeyHasher, Kind};

use harness::{Contender, Keys, Metric, Outcome};

use crate::number;

/// More would be a matter of hours.
const MAX_KEYS: u64 = 2_000_000_000;

/// What to measure.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The filters to measure, with commas between them
    #[arg(long, value_name = "A,B|all", value_delimiter = ',', default_value = "all")]
    pub filter: Vec<String>,
    /// How many keys
    #[arg(long, value_name = "N", default_value = "1M", value_parser = number::count)]
    pub keys: u64,
    /// The false positive rate to build for
    #[arg(long, value_name = "P", default_value = "1%", value_parser = number::rate)]
    pub fpr: f64,
    /// Rounds in which all filters are asked in turn; a figure is the median over them
    #[arg(long, value_name = "R", default_value_t = 31,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub rounds: usize,
    /// Draws the keys and the filters' hash functions
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Prints the bytes that making this one filter takes, and nothing else
    #[arg(long, value_name = "FILTER", hide = true)]
    peak_of: Option<String>,
}

impl Args {
    /// Whether a filter of this name was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.iter().any(|filter| names(filter, name))
    }

    /// What the filters are built for.
    pub fn goal(&self) -> Goal {
        Goal::KeysFpr { keys: self.keys, fpr: self.fpr }
    }

    /// What our filters hash with.
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher::new(HashId::Fast, [self.seed, !self.seed])
    }
}

/// Whether `filter`, as a user gives it, names this one: all, the name or its first word.
fn names(filter: &str, name: &str) -> bool {
    filter == "all" || filter == name || name.split(' ').next() == Some(filter)
}

/// Measures ours, and prints.
pub fn run(args: &Args) -> Result<()> {
    let Some(outcomes) = compare(args, ours(args)?)? else { return Ok(()) };
    if !args.json {
        anstream::println!("{}", table(args, &outcomes));
    }
    Ok(())
}

/// Keys that a kind which searches for its filter places in seconds.
const SEARCHED: u64 = 100_000;

/// Those of our kinds that are asked for. One that cannot be so precise is left out of `all`.
pub fn ours(args: &Args) -> Result<Vec<Box<dyn Contender>>> {
    tamis::plan::check_fpr(args.fpr)?;
    ensure!(args.keys > 0, "--keys 0: there is nothing to measure");
    if args.keys > MAX_KEYS {
        bail!(Error::Limit { what: "keys", asked: args.keys, most: MAX_KEYS });
    }
    let mut ours = Vec::new();
    for kind in Kind::ALL.iter().filter(|kind| args.wants(kind.name())) {
        let named = args.filter.iter().any(|filter| filter == kind.name());
        if *kind == Kind::Sat && args.keys > SEARCHED && !named {
            anstream::eprintln!(
                "{kind} is left out: it would search for minutes; name it to see it"
            );
            continue;
        }
        match harness::ours(*kind, args.goal(), args.hasher()) {
            Ok(contender) => ours.push(contender),
            Err(error) if !named => {
                anstream::eprintln!("{kind} is left out: {error}");
            }
            Err(error) => return Err(error.context(kind.name())),
        }
    }
    Ok(ours)
}

/// Measures the contenders, prints a JSON line for each if that is asked for, and says what was
/// seen; `None` where this is a process that was started to look at one peak.
pub fn compare(args: &Args, contenders: Vec<Box<dyn Contender>>) -> Result<Option<Vec<Outcome>>> {
    let known = |filter: &str| contenders.iter().any(|c| names(filter, c.name()));
    if let Some(name) = args.filter.iter().find(|filter| !known(filter)) {
        bail!(Error::Unknown(UnknownName::new("filter", name.clone())));
    }
    if let Some(name) = &args.peak_of {
        let keys = Keys::members_only(args.keys, args.seed);
        let contender = contenders.iter().find(|contender| contender.name() == name);
        if let Some(peak) =
            contender.map_or(Ok(None), |c| harness::peak_bytes(c.as_ref(), &keys))?
        {
            writeln!(std::io::stdout(), "{peak}")?;
        }
        return Ok(None);
    }
    let ticks = harness::ticks(contenders.len(), args.keys as usize, args.rounds);
    let bar = ProgressBar::new(ticks as u64);
    let keys = Keys::new(args.keys, args.fpr, args.rounds, args.seed);
    let outcomes = harness::measure(&contenders, &keys, args.rounds, &|| bar.inc(1))?;
    bar.finish_and_clear();
    if args.json {
        let mut out = std::io::stdout().lock();
        for (outcome, contender) in outcomes.iter().zip(&contenders) {
            let peak = if contender.is_filter() { peak_of(&outcome.name) } else { None };
            writeln!(out, "{}", json(args, outcome, peak))?;
        }
    }
    Ok(Some(outcomes))
}

/// This command again, to see how much memory making one filter takes: only a process that has
/// made no other can tell, for memory that was had once and given back may be had again unseen.
fn peak_of(name: &str) -> Option<u64> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    let output =
        command.args(std::env::args_os().skip(1)).args(["--peak-of", name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn bits_per_key(args: &Args, outcome: &Outcome) -> f64 {
    outcome.bytes as f64 * 8.0 / args.keys as f64
}

fn json(args: &Args, outcome: &Outcome, peak: Option<u64>) -> serde_json::Value {
    let bits_per_key = bits_per_key(args, outcome);
    let fpr = outcome.fpr;
    serde_json::json!({
        "filter": outcome.name,
        "keys": args.keys,
        "target_fpr": args.fpr,
        "fpr": fpr,
        "false_negatives": outcome.false_negatives,
        "bits_per_key": bits_per_key,
        "overhead": fpr.filter(|fpr| *fpr > 0.0).map(|fpr| bits_per_key / -fpr.log2()),
        "build_ns": outcome.time(Metric::Build),
        "hit_ns": outcome.time(Metric::Hit),
        "miss_ns": outcome.time(Metric::Miss),
        "hit_batch_ns": outcome.time(Metric::HitBatch),
        "miss_batch_ns": outcome.time(Metric::MissBatch),
        "peak_bytes_per_key": peak.map(|peak| peak as f64 / args.keys as f64),
    })
}

/// What was seen, for people: nanoseconds a key, and how many times that of the fastest.
pub fn table(args: &Args, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "filter",
        "bits/key",
        "fpr",
        "denied",
        "build",
        "hit",
        "miss",
        "hit, batch",
        "miss, batch",
        "huge",
    ]);
    let filters = || outcomes.iter().filter(|outcome| outcome.fpr.is_some());
    for outcome in outcomes {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut row = vec![
            outcome.name.clone(),
            format!("{:.2}", bits_per_key(args, outcome)),
            or_dash(outcome.fpr.map(|fpr| format!("{:.4} %", fpr * 100.0))),
            or_dash(outcome.false_negatives.map(|count| count.to_string())),
        ];
        for metric in Metric::ALL {
            let fastest = filters().min_by(|a, b| {
                let time = |outcome: &Outcome| outcome.time(metric).unwrap_or(f64::INFINITY);
                time(a).total_cmp(&time(b))
            });
            let ratio = fastest.and_then(|fastest| outcome.ratio(metric, fastest, metric));
            let cell = outcome.time(metric).zip(ratio);
            row.push(or_dash(
                cell.map(|(time, ratio)| format!("{time:.1} ns {:5.2}×", ratio.median)),
            ));
        }
        let share = outcome.huge_bytes.map(|huge| huge as f64 / outcome.bytes.max(1) as f64);
        row.push(or_dash(share.map(|share| format!("{:.0} %", share.min(1.0) * 100.0))));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
